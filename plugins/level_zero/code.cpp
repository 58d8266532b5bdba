// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code of the format "spirv/1". The driver's compiler makes machine code of a module when it is loaded.
#include <algorithm>

#include "heddle/sdk/futex.h"
#include "level_zero/backend.h"
#include "level_zero/kernel.h"

namespace heddle::level_zero {

using stream::Entry;
using stream::Loading;

namespace {

// With dots: of integers, four bytes at a time.
constexpr std::string_view kAnyDevice = "spv1.0", kWithSubgroups = "spv1.3-sg32", kDots = "-dp4a";
// OpenCL's rules, by which the code is compiled, allow quotients and roots of f32 an error of 2.5 and 3 units in the last place without the flag.
constexpr const char* kBuildFlags = "-cl-fp32-correctly-rounded-divide-sqrt";
// Without the second flag, drivers may assume that no block of memory is larger than 4 GiB.
constexpr const char* kBuildFlagsOfLarge = "-cl-fp32-correctly-rounded-divide-sqrt -ze-opt-greater-than-4GB-buffer-required";
constexpr uint64_t kLongBuildNs = 500000000;
constexpr size_t kMostLog = 900;  // bytes of a log in an error
constexpr uint64_t kFourGiB = uint64_t{1} << 32;

LoadedModule& loaded(stream::Module module) noexcept {
  return *reinterpret_cast<LoadedModule*>(module);
}

std::string version_text(uint32_t version) {
  return std::to_string(version >> 16 & 0xff) + "." + std::to_string(version >> 8 & 0xff);
}

// NULL, or why the device does not run it.
heddle_status_t* check_module(const Loading& loading, const Facts& facts, const SpirvModule& spirv) {
  const auto unfit = [&](const std::string& why) { return loading.failed(HEDDLE_STATUS_FAILED_PRECONDITION, why); };
  if (spirv.version > facts.spirv_version) {
    return unfit("it is SPIR-V " + version_text(spirv.version) + ", and the driver takes up to " + version_text(facts.spirv_version) +
                 "; install a newer driver");
  }
  for (uint32_t capability : spirv.capabilities) {
    const bool is_of_subgroups = capability == kSubgroupDispatch || capability == kGroupNonUniform || capability == kGroupNonUniformShuffle;
    const bool is_of_dots = capability == kDotProduct || capability == kDotProductInput4x8BitPacked;
    const bool lacks = (is_of_dots && !facts.has_dots) || (is_of_subgroups && !facts.has_subgroups_of_32) ||
                       (capability == kFloat64 && !facts.has_double) || (capability == kFloat16 && !facts.has_half) ||
                       (capability == kInt64Atomics && !facts.has_int64_atomics);
    if (lacks)
      return unfit("it needs " + capability_name(capability) + ", which this device does not have; use another device for this part");
    if (!is_known_capability(capability)) {
      return loading.failed(HEDDLE_STATUS_INVALID_ARGUMENT,
                            "its SPIR-V needs " + capability_name(capability) + ", which spirv/1 does not allow");
    }
  }
  return nullptr;
}

// The log of a build, without blank ends, and no longer than an error may be.
std::string read_log(const Api& api, ze_module_build_log_handle_t log) {
  std::string text;
  size_t size = 0;
  if (log && api.zeModuleBuildLogGetString(log, &size, nullptr) == ZE_RESULT_SUCCESS && size) {
    text.resize(size);
    if (api.zeModuleBuildLogGetString(log, &size, text.data()) != ZE_RESULT_SUCCESS) text.clear();
    text.resize(std::min(size, text.size()));
  }
  if (log) api.zeModuleBuildLogDestroy(log);
  while (!text.empty() && (text.back() == '\0' || text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.substr(0, kMostLog);
}

// The parameters of the code and those of the entry.
heddle_status_t* check_parameters(const Loading& loading, const SpirvKernel& kernel, const Entry& entry) {
  const auto wrong = [&](const std::string& why) { return loading.entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT, why); };
  std::vector<uint32_t> bits;  // of a constant; 0: an address
  if (entry.plain) {
    bits.assign(entry.binding_count, 0);
    bits.insert(bits.end(), entry.constants_bytes / 8, 64);
  }
  for (const stream::Argument& argument : entry.arguments)
    bits.push_back(argument.kind == HEDDLE_ARGUMENT_BINDING ? 0 : argument.size_bytes * 8);
  const size_t wanted = bits.size() + (entry.shared_bytes ? 1 : 0);
  const std::vector<SpirvParameter>& parameters = *kernel.parameters;
  if (parameters.size() != wanted) {
    return wrong("its code takes " + std::to_string(parameters.size()) + " arguments, but should take " + std::to_string(wanted) +
                 (entry.shared_bytes ? ", of which the last is local memory" : ""));
  }
  for (size_t i = 0; i < wanted; ++i) {
    const bool is_local = i == bits.size();
    const SpirvParameter::Kind should = is_local  ? SpirvParameter::kLocalPointer
                                        : bits[i] ? SpirvParameter::kInteger
                                                  : SpirvParameter::kGlobalPointer;
    if (parameters[i].kind == should && (is_local || parameters[i].bits == bits[i])) continue;
    return wrong("argument " + std::to_string(i) + " of its code should be " +
                 (is_local  ? "a pointer to local memory"
                  : bits[i] ? "an integer of " + std::to_string(bits[i]) + " bits"
                            : std::string("a pointer to global memory")));
  }
  const bool has_size = std::any_of(kernel.local_size, kernel.local_size + 3, [](uint32_t size) { return size != 0; });
  if (has_size && !std::equal(kernel.local_size, kernel.local_size + 3, entry.block)) {
    return wrong("its code is for workgroups of " + std::to_string(kernel.local_size[0]) + " x " + std::to_string(kernel.local_size[1]) +
                 " x " + std::to_string(kernel.local_size[2]) + " threads");
  }
  return nullptr;
}

// What the driver's compiler made of it.
heddle_status_t* check_properties(const Loading& loading, const Facts& facts, const ze_kernel_properties_t& properties,
                                  const Entry& entry) {
  const uint64_t local = uint64_t{properties.localMemSize} + entry.shared_bytes, most = static_cast<uint64_t>(facts.shared_bytes);
  if (local > most) {
    return loading.entry_failed(
        HEDDLE_STATUS_INVALID_ARGUMENT,
        "its " + std::to_string(local) + " bytes of local memory are more than the " + std::to_string(most) + " of this device");
  }
  return nullptr;
}

}  // namespace

ze_result_t Kernel::prepare(const Entry& entry) {
  if (entry.plain) {
    for (uint32_t i = 0; i < entry.arguments_bytes / 8; ++i) arguments_.push_back({i * 8, 8, i < entry.binding_count});
  }
  for (const stream::Argument& argument : entry.arguments) {
    arguments_.push_back({argument.at, argument.size_bytes, argument.kind == HEDDLE_ARGUMENT_BINDING});
  }
  if (const ze_result_t bad = api_.zeKernelSetGroupSize(handle_, entry.block[0], entry.block[1], entry.block[2])) return bad;
  if (!entry.shared_bytes) return ZE_RESULT_SUCCESS;
  return api_.zeKernelSetArgumentValue(handle_, static_cast<uint32_t>(arguments_.size()), entry.shared_bytes, nullptr);
}

ze_result_t Kernel::append(ze_command_list_handle_t list, const uint32_t (&grid)[3], const char* packed) {
  const ze_group_count_t groups = {grid[0], grid[1], grid[2]};
  std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const Argument& argument = arguments_[i];
    uint64_t value = 0;
    std::memcpy(&value, packed + argument.at, argument.bytes);
    // An empty binding has no address, which Level Zero expresses by no value.
    const void* passed = argument.is_address && value == 0 ? nullptr : &value;
    if (const ze_result_t bad = api_.zeKernelSetArgumentValue(handle_, static_cast<uint32_t>(i), argument.bytes, passed)) return bad;
  }
  return api_.zeCommandListAppendLaunchKernel(list, handle_, &groups, nullptr, 0, nullptr);
}

uint32_t Backend::rank(std::string_view format, std::string_view target) const noexcept {
  if (format != HEDDLE_CODE_SPIRV || facts.spirv_version < 0x10000) return 0;
  const bool dots = target.ends_with(kDots);
  if (dots) {
    if (!facts.has_dots) return 0;
    target.remove_suffix(kDots.size());
  }
  const uint32_t base = target == kAnyDevice ? 1 : target == kWithSubgroups && facts.has_subgroups_of_32 ? 3 : 0;
  return base == 0 ? 0 : base + dots;
}

heddle_status_t* Backend::load_module(Loading& loading, stream::Module* out) {
  const heddle_executable_params_t& params = loading.params;
  SpirvModule spirv;
  std::string reason;
  const heddle_status_code_t read = read_spirv(params.code, params.code_bytes, &spirv, &reason);
  if (read != HEDDLE_STATUS_OK) return loading.failed(read, reason);
  if (heddle_status_t* bad = check_module(loading, facts, spirv)) return bad;
  auto description = structure<ze_module_desc_t>(ZE_STRUCTURE_TYPE_MODULE_DESC);
  description.format = ZE_MODULE_FORMAT_IL_SPIRV;
  description.inputSize = params.code_bytes;
  description.pInputModule = static_cast<const uint8_t*>(params.code);
  description.pBuildFlags = facts.memory_bytes > kFourGiB ? kBuildFlagsOfLarge : kBuildFlags;
  const uint64_t began_ns = sdk::monotonic_ns();
  ze_module_handle_t handle = nullptr;
  ze_module_build_log_handle_t log = nullptr;
  // A loader with several drivers translates handles, but in version 1.8 not that of the log of a failure.
  const bool has_log = own_handle(api, facts.place.driver) == facts.place.driver;
  const ze_result_t built = api.zeModuleCreate(shared_->handle, facts.place.device, &description, &handle, has_log ? &log : nullptr);
  const std::string said = read_log(api, log);
  if (meaning_of(built) == stream::Meaning::kContextEnded) return loading.device->failed(seen(built), "loading code");
  if (built != ZE_RESULT_SUCCESS)
    return loading.failed(built, said.empty() ? "the driver says nothing more" : "the driver's compiler says: " + said);
  struct Holder {
    const Api& api;
    ze_module_handle_t module;
    ~Holder() {
      if (module) api.zeModuleDestroy(module);
    }
  } holder{api, handle};
  auto module = std::make_unique<LoadedModule>(api, handle);
  holder.module = nullptr;
  module->spirv = std::move(spirv);
  *out = reinterpret_cast<stream::Module>(module.release());
  if (const uint64_t took_ns = sdk::monotonic_ns() - began_ns; took_ns > kLongBuildNs) {
    log_line(
        loading.device, HEDDLE_LOG_INFO, "code.cpp",
        "the driver compiled executable '%.*s' in %.0f ms; Intel's keeps machine code for the next time if NEO_CACHE_PERSISTENT=1 is set",
        stream::shown(loading.name()), loading.name().data(), static_cast<double>(took_ns) * 1e-6);
  }
  return nullptr;
}

void Backend::unload_module(stream::Module which) noexcept {
  delete &loaded(which);
}

heddle_status_t* Backend::load_entry(Loading& loading, stream::Module of, const heddle_entry_params_t&, Entry* entry) {
  LoadedModule& module = loaded(of);
  const auto found = module.spirv.kernels.find(entry->name);
  if (found == module.spirv.kernels.end()) return loading.entry_failed(HEDDLE_STATUS_NOT_FOUND, "its code has no entry point of that name");
  if (heddle_status_t* bad = check_parameters(loading, found->second, *entry)) return bad;
  auto description = structure<ze_kernel_desc_t>(ZE_STRUCTURE_TYPE_KERNEL_DESC);
  description.pKernelName = entry->name.c_str();
  module.kernels.reserve(module.kernels.size() + 1);
  ze_kernel_handle_t handle = nullptr;
  if (Result bad = seen(api.zeKernelCreate(module.handle, &description, &handle))) return loading.device->failed(bad, "creating a kernel");
  struct Holder {
    const Api& api;
    ze_kernel_handle_t kernel;
    ~Holder() {
      if (kernel) api.zeKernelDestroy(kernel);
    }
  } holder{api, handle};
  module.kernels.push_back(std::make_unique<Kernel>(api, handle));
  holder.kernel = nullptr;
  Kernel& kernel = *module.kernels.back();
  auto properties = structure<ze_kernel_properties_t>(ZE_STRUCTURE_TYPE_KERNEL_PROPERTIES);
  if (Result bad = seen(api.zeKernelGetProperties(handle, &properties))) return loading.device->failed(bad, "reading a kernel's resources");
  if (heddle_status_t* bad = check_properties(loading, facts, properties, *entry)) return bad;
  if (Result bad = seen(kernel.prepare(*entry))) return loading.device->failed(bad, "setting a kernel's workgroup and local memory");
  entry->function = reinterpret_cast<stream::Function>(&kernel);
  return nullptr;
}

}  // namespace heddle::level_zero
