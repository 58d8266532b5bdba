// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The buffers of a device. Lowering uses address and size on the hot path.
#ifndef HEDDLE_SDK_STREAM_MEMORY_H_
#define HEDDLE_SDK_STREAM_MEMORY_H_

#include "heddle/sdk/stream/device.h"

namespace heddle::sdk::stream {

struct Buffer {
  const heddle_driver_api_t* api;  // HD-H-01: the first word
  Address address = 0;             // 0 if size is 0
  uint64_t size = 0;
  Device* device = nullptr;
  uint64_t alignment = kAlignment;
  uint32_t memory = 0;
  char* host = nullptr;         // its host address, NULL for device memory
  Address block = 0;            // block to return to the pool, 0 if it is not from the pool
  Address large = 0;            // separate block, 0 if it is not one
  void* pinned = nullptr;       // pinned memory of the buffer itself
  void* registered = nullptr;   // memory to unregister
  uint64_t overhead_bytes = 0;  // bytes beyond size, outside of the pool
  void (*release)(void*) = nullptr;
  void* release_context = nullptr;

  static Buffer* from(heddle_buffer_t* handle) noexcept { return reinterpret_cast<Buffer*>(handle); }
  heddle_buffer_t* handle() noexcept { return reinterpret_cast<heddle_buffer_t*>(this); }
  Address at(uint64_t offset) const noexcept { return address + offset; }
  bool holds(uint64_t offset, uint64_t length) const noexcept { return offset <= size && length <= size - offset; }
};

// Allocates memory for a buffer whose size, alignment and kind are set, and frees it. If it fails, the buffer has none. The context must be current.
Result allocate(Device* device, Buffer* buffer);
void give_back(Device* device, Buffer* buffer) noexcept;

}  // namespace heddle::sdk::stream
#endif  // HEDDLE_SDK_STREAM_MEMORY_H_
