// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A CUDA device's buffers. Lowering reads address and size on the hot path.
#ifndef HEDDLE_CUDA_MEMORY_H_
#define HEDDLE_CUDA_MEMORY_H_

#include "cuda/device.h"

namespace heddle::cuda {

struct Buffer {
  const heddle_driver_api_t* api;  // HD-H-01: the first word
  CUdeviceptr address = 0;         // 0 if size is 0
  uint64_t size = 0;
  Device* device = nullptr;
  uint64_t alignment = kAlignment;
  uint32_t memory = 0;
  char* host = nullptr;         // where the host sees it, NULL for device memory
  CUdeviceptr block = 0;        // what to give back to the pool, 0 if it is not from there
  CUdeviceptr large = 0;        // what to give back to CUDA itself, 0 if it is not a block of its own
  void* pinned = nullptr;       // what to give back to cuMemFreeHost
  void* registered = nullptr;   // what to unregister
  uint64_t overhead_bytes = 0;  // beyond size, outside of the pool
  void (*release)(void*) = nullptr;
  void* release_context = nullptr;

  static Buffer* from(heddle_buffer_t* handle) noexcept { return reinterpret_cast<Buffer*>(handle); }
  heddle_buffer_t* handle() noexcept { return reinterpret_cast<heddle_buffer_t*>(this); }
  bool holds(uint64_t offset, uint64_t length) const noexcept { return offset <= size && length <= size - offset; }
};

// Memory for a buffer whose size, alignment and kind are set, and back again. The context is current.
CUresult allocate(Device* device, Buffer* buffer);
void give_back(Device* device, Buffer* buffer) noexcept;

}  // namespace heddle::cuda
#endif  // HEDDLE_CUDA_MEMORY_H_
