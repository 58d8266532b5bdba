// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code objects and launches of their kernels, which the interpreter runs.
#include <cinttypes>
#include <stdexcept>

#include "runtime.h"

namespace heddle::test::hip {
namespace {

std::mutex modules_mutex;
std::map<Module*, std::shared_ptr<Module>>& modules = *new std::map<Module*, std::shared_ptr<Module>>;
std::map<const void*, Function*>& functions = *new std::map<const void*, Function*>;
std::vector<Function*>& retired = *new std::vector<Function*>;  // of unloaded modules, which enqueued work names

// The size of an ELF file, as AMD's loader computes it from a pointer alone.
uint64_t size_of_file(const char* file) {
  uint64_t sections;
  uint16_t section_size, section_count;
  std::memcpy(&sections, file + 40, 8);
  std::memcpy(&section_size, file + 58, 2);
  std::memcpy(&section_count, file + 60, 2);
  uint64_t end = sections + uint64_t{section_size} * section_count;
  for (uint16_t i = 0; i < section_count; ++i) {
    uint32_t type;
    uint64_t offset, size;
    std::memcpy(&type, file + sections + uint64_t{i} * section_size + 4, 4);
    std::memcpy(&offset, file + sections + uint64_t{i} * section_size + 24, 8);
    std::memcpy(&size, file + sections + uint64_t{i} * section_size + 32, 8);
    if (type != 8) end = std::max(end, offset + size);
  }
  return end;
}

uint64_t explicit_bytes(const amdgpu::Kernel& kernel) {
  uint64_t end = 0;
  for (const amdgpu::Argument& argument : kernel.arguments) {
    if (!argument.kind.starts_with("hidden_")) end = std::max<uint64_t>(end, uint64_t{argument.offset} + argument.size);
  }
  return end;
}

}  // namespace

Function* function_of(const void* handle) {
  std::lock_guard<std::mutex> lock(modules_mutex);
  const auto found = functions.find(handle);
  return found == functions.end() ? nullptr : found->second;
}

int KernelLaunch::make(const void* handle, const uint32_t (&grid)[3], const uint32_t (&block)[3], uint32_t shared_bytes, void** parameters,
                       void** extra, KernelLaunch* out) {
  const Function* function = function_of(handle);
  if (!function) return kInvalidHandle;
  const amdgpu::Kernel& kernel = *function->kernel;
  uint64_t threads = 1, items[3];
  for (int i = 0; i < 3; ++i) {
    items[i] = uint64_t{grid[i]} * block[i];
    threads *= block[i];
    if (items[i] == 0 || items[i] > UINT32_MAX) return kInvalidConfiguration;
  }
  if (threads > 1024 || uint64_t{shared_bytes} + kernel.lds_bytes > 65536) return kInvalidValue;
  if (threads > kernel.max_workgroup) return kLaunchFailure;  // HIP's result, which ends no context
  const uint64_t needed = explicit_bytes(kernel);
  if (parameters || (needed && !extra)) {
    say("kernel '%s' is launched without a block of arguments, the only form that is implemented", kernel.name.c_str());
    return kInvalidValue;
  }
  out->arguments.assign(kernel.kernarg_bytes, std::byte{GpuMemory::kPoison});
  if (extra) {
    if (extra[0] != reinterpret_cast<void*>(1) || extra[2] != reinterpret_cast<void*>(2) || extra[4] != reinterpret_cast<void*>(3))
      return kInvalidValue;
    size_t given;
    std::memcpy(&given, extra[3], sizeof given);
    if (given < needed) {
      say("kernel '%s' reads %" PRIu64 " bytes of arguments, and a launch gives %zu", kernel.name.c_str(), needed, given);
      return kInvalidValue;
    }
    std::memcpy(out->arguments.data(), extra[1], std::min<uint64_t>(given, kernel.kernarg_bytes));
  }
  out->function = function;
  out->module = function->module;
  out->grid = {static_cast<uint32_t>(items[0]), static_cast<uint32_t>(items[1]), static_cast<uint32_t>(items[2])};
  out->block = {block[0], block[1], block[2]};
  out->shared_bytes = shared_bytes;
  return kSuccess;
}

int KernelLaunch::run(Device* device, std::mt19937_64& random) const {
  const GpuMemory::Blocks blocks = GpuMemory::all().snapshot();  // keeps their bytes
  amdgpu::Memory memory;
  for (const auto& [address, block] : blocks) {
    const bool is_own = block.owner == MemoryOwner::kHost || block.ordinal == device->ordinal;
    bool is_reached = is_own;
    if (!is_own) {
      std::lock_guard<std::mutex> lock(device->mutex);
      is_reached = device->peers.contains(block.ordinal);
    }
    if (is_reached)
      memory.map(address, block.bytes, block.size, true, block.owner == MemoryOwner::kHost ? "pinned memory" : "device memory");
  }
  std::lock_guard<std::mutex> lock(module->mutex);
  amdgpu::Options options;
  options.seed = random();
  amdgpu::Dispatch dispatch = {grid, block, arguments, shared_bytes};
  std::vector<std::byte> filled = arguments;
  amdgpu::fill_hidden_arguments(*function->kernel, dispatch, filled);
  dispatch.kernarg = filled;
  const amdgpu::Outcome outcome = amdgpu::run(*module->code, *function->kernel, dispatch, memory, options);
  count_kernel(outcome.statistics.instructions);
  if (outcome.ok()) return kSuccess;
  const bool ends = settings().aborts && settings().major < 7;
  if (settings().verbose || ends) say("%s", outcome.fault.c_str());
  if (ends) std::abort();
  return outcome.fault.find("outside of every allocation") != std::string::npos ? kIllegalAddress : kLaunchFailure;
}

extern "C" {

int hipModuleLoadData(void** out, const void* image) {
  Device* self = current();
  *out = nullptr;
  if (const int bad = state(self)) return result(bad);
  const auto* file = static_cast<const char*>(image);
  if (!file || std::memcmp(file, "\177ELF", 4) != 0) return result(kInvalidImage);
  auto module = std::make_shared<Module>();
  module->ordinal = self->ordinal;
  try {
    module->code = amdgpu::CodeObject::load({reinterpret_cast<const std::byte*>(file), size_of_file(file)},
                                            (uint64_t{0x5000} << 32) + (next_seed() % 4096 << 32));
  } catch (const std::exception& error) {
    say("%s", error.what());
    return result(kInvalidImage);
  }
  if (module->code->processor() != settings().chip) return result(kNoBinary);
  std::lock_guard<std::mutex> lock(modules_mutex);
  modules[module.get()] = module;
  *out = module.get();
  return kSuccess;
}

int hipModuleUnload(void* handle) {
  std::lock_guard<std::mutex> lock(modules_mutex);
  const auto found = modules.find(static_cast<Module*>(handle));
  if (found == modules.end()) return result(kInvalidHandle);
  for (const auto& [name, function] : found->second->functions) {
    functions.erase(function);
    function->module.reset();  // work that is enqueued has the module itself
    retired.push_back(function);
  }
  modules.erase(found);
  return kSuccess;
}

int hipModuleGetFunction(void** out, void* handle, const char* name) {
  std::lock_guard<std::mutex> lock(modules_mutex);
  const auto found = modules.find(static_cast<Module*>(handle));
  if (found == modules.end()) return result(kInvalidHandle);
  const amdgpu::Kernel* kernel = found->second->code->kernel(name);
  if (!kernel) return result(kNotFound);
  Function*& function = found->second->functions[name];
  if (!function) function = new Function{found->second, kernel};  // a handle is not used for another function
  functions[function] = function;
  *out = function;
  return kSuccess;
}

int hipFuncGetAttribute(int* out, int attribute, void* handle) {
  const Function* function = function_of(handle);
  if (!function) return result(kInvalidHandle);
  if (attribute != 0 && attribute != 1) return result(kInvalidValue);
  *out = static_cast<int>(attribute == 0 ? function->kernel->max_workgroup : function->kernel->lds_bytes);
  return kSuccess;
}

int hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                          unsigned block_z, unsigned shared_bytes, void* on, void** parameters, void** extra) {
  Stream* stream = stream_of(on);
  if (!stream) return result(kContextIsDestroyed);
  if (const int bad = state(stream->device)) return result(bad);
  KernelLaunch launch;
  const uint32_t grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
  if (const int bad = KernelLaunch::make(function, grid, block, shared_bytes, parameters, extra, &launch)) return result(bad);
  if (launch.module->ordinal != stream->device->ordinal) {
    say("a kernel of device %d is launched on a stream of device %d", launch.module->ordinal, stream->device->ordinal);
    return result(kInvalidHandle);
  }
  return result(stream->enqueue([launch, stream] { return launch.run(stream->device, stream->queue->random()); }));
}
}

}  // namespace heddle::test::hip
