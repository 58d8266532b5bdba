// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A CPU device's buffers. Commands use data and size on the hot path.
#ifndef HEDDLE_CPU_MEMORY_H_
#define HEDDLE_CPU_MEMORY_H_

#include "cpu/device.h"

namespace heddle::cpu {

// CPU memory is of all kinds at once.
constexpr uint32_t kAllKinds = HEDDLE_MEMORY_DEVICE | HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED;

struct Buffer {
  const heddle_driver_api_t* api;  // HD-H-01: the first word
  char* data = nullptr;
  uint64_t size = 0;
  Device* device = nullptr;
  uint64_t alignment = kAlignment;
  uint32_t memory = 0;
  void* mapped = nullptr;  // the range to unmap, NULL if the memory is from the heap or imported
  uint64_t mapped_bytes = 0;
  uint64_t reserved_bytes = 0;  // beyond size, for the statistics
  bool heap = false;
  SteadyFiles::Mapping* steady = nullptr;  // the file that the memory is of; `mapped` is NULL then
  void (*release)(void*) = nullptr;
  void* release_context = nullptr;

  static Buffer* from(heddle_buffer_t* handle) noexcept { return reinterpret_cast<Buffer*>(handle); }
  heddle_buffer_t* handle() noexcept { return reinterpret_cast<heddle_buffer_t*>(this); }
  char* at(uint64_t offset) const noexcept { return data + offset; }
  bool holds(uint64_t offset, uint64_t length) const noexcept { return offset <= size && length <= size - offset; }
};

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_MEMORY_H_
