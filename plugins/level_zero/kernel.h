// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loaded code: a module, and its kernels with what each launch passes to them.
#ifndef HEDDLE_LEVEL_ZERO_KERNEL_H_
#define HEDDLE_LEVEL_ZERO_KERNEL_H_

#include <memory>
#include <mutex>
#include <vector>

#include "heddle/sdk/stream/code.h"
#include "level_zero/api.h"
#include "level_zero/spirv.h"

namespace heddle::level_zero {

// A kernel of one entry. Level Zero keeps the arguments in the kernel until a launch is appended, so launches take turns.
class Kernel {
 public:
  Kernel(const Api& api, ze_kernel_handle_t handle) noexcept : api_(api), handle_(handle) {}
  ~Kernel() { api_.zeKernelDestroy(handle_); }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  static Kernel& of(const stream::Entry& entry) noexcept { return *reinterpret_cast<Kernel*>(entry.function); }

  ze_kernel_handle_t handle() const noexcept { return handle_; }
  // The arguments of each launch, as the entry has them, and what is the same for all: the workgroup and the local memory.
  ze_result_t prepare(const stream::Entry& entry);
  // From any thread. `arguments` are packed as the entry has them.
  ze_result_t append(ze_command_list_handle_t list, const uint32_t (&grid)[3], const char* arguments);

 private:
  struct Argument {
    uint32_t at, bytes;  // in the packed arguments
    bool is_address;
  };
  const Api& api_;
  const ze_kernel_handle_t handle_;
  std::vector<Argument> arguments_;
  std::mutex mutex_;
};

struct LoadedModule {
  LoadedModule(const Api& its_api, ze_module_handle_t its_handle) noexcept : api(its_api), handle(its_handle) {}
  ~LoadedModule() {
    kernels.clear();
    api.zeModuleDestroy(handle);
  }
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  const Api& api;
  const ze_module_handle_t handle;
  SpirvModule spirv;
  std::vector<std::unique_ptr<Kernel>> kernels;
};

}  // namespace heddle::level_zero
#endif  // HEDDLE_LEVEL_ZERO_KERNEL_H_
