// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loaded code: CUDA modules and their kernels, with the layout of each kernel's arguments. Lowering reads entries on the hot path.
#ifndef HEDDLE_CUDA_CODE_H_
#define HEDDLE_CUDA_CODE_H_

#include "cuda/memory.h"

namespace heddle::cuda {

// One argument of a recipe and its location among the kernel's arguments.
struct Argument {
  uint32_t kind = 0;
  uint32_t index = 0;
  uint32_t size_bytes = 0;
  uint32_t at = 0;
  heddle_tensor_map_t map = {};
};

struct Entry {
  const heddle_driver_api_t* api = nullptr;  // HD-H-01: the first word
  Device* device = nullptr;
  CUfunction function = nullptr;
  uint32_t binding_count = 0, constants_bytes = 0;
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;
  uint32_t arguments_bytes = 0;
  bool starts_early = false;  // the kernel itself waits for the kernel that it depends on
  bool plain = true;          // addresses of the bindings, then the constants
  std::vector<Argument> arguments;
  std::string name;

  static Entry* from(heddle_entry_t* handle) noexcept { return reinterpret_cast<Entry*>(handle); }
  heddle_entry_t* handle() noexcept { return reinterpret_cast<heddle_entry_t*>(this); }
};

struct Executable {
  const heddle_driver_api_t* api = nullptr;
  Device* device = nullptr;
  CUmodule module = nullptr;
  std::vector<Entry> entries;
  static Executable* from(heddle_executable_t* handle) noexcept { return reinterpret_cast<Executable*>(handle); }
  heddle_executable_t* handle() noexcept { return reinterpret_cast<heddle_executable_t*>(this); }
};

heddle_status_t* variant_rank(heddle_device_t* device, heddle_string_t format, heddle_string_t target, uint32_t* out) noexcept;
heddle_status_t* executable_load(heddle_device_t* device, const heddle_executable_params_t* params, heddle_executable_t** out) noexcept;
void executable_unload(heddle_executable_t* executable) noexcept;
heddle_status_t* executable_entry(heddle_executable_t* executable, uint32_t index, heddle_entry_t** out) noexcept;

// tensor_map.cpp. Returns a reason for an invalid payload.
const char* check_tensor_map(const heddle_tensor_map_t& map, uint32_t constants_bytes) noexcept;
// Writes the 128 bytes of the descriptor; the address is that of the binding.
CUresult encode_tensor_map(const Api& cuda, const heddle_tensor_map_t& map, CUdeviceptr address, const int64_t* constants,
                           void* out) noexcept;

}  // namespace heddle::cuda
#endif  // HEDDLE_CUDA_CODE_H_
