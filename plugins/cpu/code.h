// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loaded executables of the CPU driver. Commands read an Entry on the hot path.
#ifndef HEDDLE_CPU_CODE_H_
#define HEDDLE_CPU_CODE_H_

#include <string>
#include <vector>

#include "cpu/debug_symbols.h"
#include "cpu/device.h"
#include "cpu/image.h"
#include "heddle/ext/library.h"

namespace heddle::cpu {

struct Entry {
  const heddle_driver_api_t* api;  // HD-H-01: the first word
  Device* device;
  heddle_x86_64_kernel_t kernel;
  uint32_t binding_count;
  uint32_t constants_bytes;
  uint64_t workspace_bytes;
  uint64_t cost_ns;  // per workgroup; 0: unknown
  std::string name;
  // For an operation of a library plugin, which has no kernel: then workspace_bytes is 0, and the operation's own workspace is its last binding.
  const heddle_library_interface_t* library = nullptr;
  heddle_operation_t* operation = nullptr;
  uint32_t operand_count = 0;

  static Entry* from(heddle_entry_t* handle) noexcept { return reinterpret_cast<Entry*>(handle); }
  heddle_entry_t* handle() noexcept { return reinterpret_cast<heddle_entry_t*>(this); }
};

struct Executable {
  const heddle_driver_api_t* api;
  Device* device;
  Image image;
  std::vector<Entry> entries;
  DebuggerSymbols debugger;

  static Executable* from(heddle_executable_t* handle) noexcept { return reinterpret_cast<Executable*>(handle); }
  heddle_executable_t* handle() noexcept { return reinterpret_cast<heddle_executable_t*>(this); }
};

heddle_status_t* variant_rank(heddle_device_t* device, heddle_string_t format, heddle_string_t target, uint32_t* out) noexcept;
heddle_status_t* executable_load(heddle_device_t* device, const heddle_executable_params_t* params, heddle_executable_t** out) noexcept;
heddle_status_t* operation_load(heddle_device_t* device, const heddle_operation_params_t* params, heddle_executable_t** out) noexcept;

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_CODE_H_
