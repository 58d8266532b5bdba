// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lowest provider of a stack of allocators: whole buffers of a driver. Owned by a Pool; knows no allocator.
#ifndef HEDDLE_CORE_MEMORY_DEVICE_MEMORY_H_
#define HEDDLE_CORE_MEMORY_DEVICE_MEMORY_H_

#include <map>
#include <mutex>
#include <vector>

#include "core/status.h"
#include "heddle/allocator.h"

namespace heddle::memory {

class DeviceMemory {
 public:
  // description: of the device.
  DeviceMemory(heddle_device_t* device, const heddle_driver_api_t& api, const heddle_device_description_t& description);
  // Call without live blocks, and after the device's queues have ended.
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  const heddle_provider_t& provider() const { return provider_; }

 private:
  struct Buffer {
    uint64_t size;
    const heddle_string_t* owner;
    std::vector<heddle_point_t> points;  // the block is freed once these points are reached
  };
  // A quantity with its current and peak value.
  struct Count : heddle_memory_count_t {
    Count() : heddle_memory_count_t{} {}
    void add(uint64_t bytes);
  };

  // memory: bits HEDDLE_MEMORY_*.
  Status allocate(const heddle_block_params_t& params, uint32_t memory, heddle_block_t* out_block);
  void free(const heddle_block_t& block, const heddle_point_t* points, uint32_t point_count);
  void statistics(heddle_allocator_statistics_t* out_statistics) const;
  void holders(heddle_holder_visitor_t visit, void* context) const;
  bool reached(heddle_point_t point) const;
  // Frees the blocks whose points are reached; true if there were any.
  bool settle();

  heddle_device_t* device_;
  const heddle_driver_api_t& api_;
  heddle_provider_t provider_{};
  mutable std::mutex mutex_;
  std::map<heddle_buffer_t*, Buffer> live_, waiting_;
  Count requested_, reserved_;
  uint64_t allocations_ = 0, frees_ = 0, retries_ = 0, exhaustions_ = 0;
};

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_DEVICE_MEMORY_H_
