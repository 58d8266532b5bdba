// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code of the format "hsaco/1". What an entry asks for is compared with what the code object says of its kernel before AMD's library loads it.
#include <algorithm>

#include "hip/backend.h"
#include "hip/code_object.h"

namespace heddle::hip {
namespace {

using stream::Entry;
using stream::Loading;

constexpr uint64_t kMostThreadsOfGrid = UINT32_MAX;

struct Loaded {
  CodeObject object;
  ModuleHandle module = nullptr;
};
Loaded* of(stream::Module module) noexcept {
  return reinterpret_cast<Loaded*>(module);
}

std::string product(const uint32_t (&sizes)[3]) {
  return std::to_string(sizes[0]) + " x " + std::to_string(sizes[1]) + " x " + std::to_string(sizes[2]);
}

// Why an entry cannot run as this kernel; empty if it can.
std::string difference(const KernelFacts& kernel, const Facts& facts, const heddle_entry_params_t& in, const Entry& entry) {
  auto counts = [](const std::string& what, uint64_t code, uint64_t wanted) {
    return "its code has " + std::to_string(code) + " " + what + ", and the entry says " + std::to_string(wanted);
  };
  if (kernel.wave_size != static_cast<uint64_t>(facts.subgroup_size))
    return "its code is for waves of " + std::to_string(kernel.wave_size) + " threads, and the device has waves of " +
           std::to_string(facts.subgroup_size);
  if (kernel.shared_bytes != in.shared_memory_bytes) return counts("bytes of local memory", kernel.shared_bytes, in.shared_memory_bytes);
  const uint64_t threads = uint64_t{in.workgroup_size[0]} * in.workgroup_size[1] * in.workgroup_size[2];
  if (threads > kernel.most_threads) return counts("threads in a workgroup at most", kernel.most_threads, threads);
  for (int i = 0; i < 3; ++i) {
    if (kernel.exact_threads[i] != 0 && kernel.exact_threads[i] != in.workgroup_size[i]) {
      return "its code is for workgroups of other sizes than the entry's " + product(entry.block);
    }
  }
  const size_t count = entry.plain ? entry.binding_count + entry.constants_bytes / 8 : entry.arguments.size();
  const auto hidden = std::count_if(kernel.arguments.begin(), kernel.arguments.end(), [](const auto& each) { return each.is_hidden; });
  if (hidden != 0) return "its code takes " + std::to_string(hidden) + " hidden arguments";
  if (kernel.arguments.size() != count) return counts("arguments", kernel.arguments.size(), count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t offset = entry.plain ? 8 * i : entry.arguments[i].at, size = entry.plain ? 8 : entry.arguments[i].size_bytes;
    const KernelArgument& argument = kernel.arguments[i];
    if (argument.offset == offset && argument.size == size) continue;
    return "argument " + std::to_string(i) + " of its code has " + std::to_string(argument.size) + " bytes at " +
           std::to_string(argument.offset) + ", and should have " + std::to_string(size) + " at " + std::to_string(offset);
  }
  // The segment may be rounded up.
  const uint64_t end = entry.arguments_bytes;
  return kernel.arguments_bytes < end || kernel.arguments_bytes > (end + 7) / 8 * 8
             ? counts("bytes of arguments", kernel.arguments_bytes, end)
             : "";
}

}  // namespace

uint32_t Code::rank(std::string_view format, std::string_view target) const noexcept {
  return format == HEDDLE_CODE_HSACO && target == facts.chip ? 1 : 0;
}

heddle_status_t* Code::load_module(Loading& loading, stream::Module* out) {
  auto made = std::make_unique<Loaded>();
  std::string reason;
  const heddle_status_code_t checked = read_code_object(loading.params.code, loading.params.code_bytes, &made->object, &reason);
  if (checked != HEDDLE_STATUS_OK) return loading.failed(checked, reason);
  if (made->object.chip != facts.chip) {
    return loading.failed(HEDDLE_STATUS_INVALID_ARGUMENT, "its code is for " + made->object.chip + ", and its target is " + facts.chip);
  }
  if (const int bad = hip.hipModuleLoadData(&made->module, loading.params.code)) {
    return loading.device->ends_context(bad) ? loading.device->failed(bad, "loading code") : loading.failed(bad, "HIP refuses it");
  }
  *out = reinterpret_cast<stream::Module>(made.release());
  return nullptr;
}

void Code::unload_module(stream::Module module) noexcept {
  const std::unique_ptr<Loaded> loaded(of(module));
  hip.hipModuleUnload(loaded->module);
}

heddle_status_t* Code::load_entry(Loading& loading, stream::Module module, const heddle_entry_params_t& params, Entry* entry) {
  const auto& kernels = of(module)->object.kernels;
  const auto kernel = kernels.find(entry->name);
  if (kernel == kernels.end()) return loading.entry_failed(HEDDLE_STATUS_NOT_FOUND, "its code has no kernel of that name");
  if (const std::string why = difference(kernel->second, facts, params, *entry); !why.empty()) {
    return loading.entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT, why);
  }
  FunctionHandle function = nullptr;
  int threads = 0;
  if (const int bad = hip.hipModuleGetFunction(&function, of(module)->module, entry->name.c_str())) {
    return loading.device->failed(bad, "looking up a kernel");
  }
  if (const int bad = hip.hipFuncGetAttribute(&threads, kMaxThreads, function)) {
    return loading.device->failed(bad, "reading a kernel's attributes");
  }
  const uint32_t(&block)[3] = entry->block;
  if (uint64_t{block[0]} * block[1] * block[2] > static_cast<uint64_t>(std::max(threads, 0))) {
    return loading.entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT, "HIP runs it in workgroups of at most " + std::to_string(threads) +
                                                                    " threads, and the entry says " + product(block));
  }
  entry->function = reinterpret_cast<stream::Function>(function);
  entry->shared_bytes = 0;       // the code has it; launches add none
  for (int i = 0; i < 3; ++i) {  // HIP counts threads of a grid in 32 bits
    entry->most_workgroups[i] = static_cast<uint32_t>(std::min<uint64_t>(entry->most_workgroups[i], kMostThreadsOfGrid / block[i]));
  }
  return nullptr;
}

}  // namespace heddle::hip
