// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device memory in blocks: an allocator plugin over the driver's buffers, or the driver's buffers themselves.
// Owned by a Device, used by everything that needs device memory; keeps no references to what it handed out.
#ifndef HEDDLE_CORE_MEMORY_POOL_H_
#define HEDDLE_CORE_MEMORY_POOL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "core/host/host.h"
#include "heddle/allocator.h"

namespace heddle::memory {

class Pool {
 public:
  // `allocator` NULL: every block is a buffer of the driver's own. options are read before it returns. min_alignment_bytes: the device's.
  static Result<std::unique_ptr<Pool>> create(heddle_device_t* device, const heddle_driver_api_t* api, std::string name,
                                              uint64_t min_alignment_bytes, host::LoadedAllocator* allocator,
                                              const std::vector<host::OptionValue>& options);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // A block the host or any queue may use at once, aligned as the device wants it at least; size 0 gives a small block. On exhaustion:
  // trim and retry once, unless on_limit = "fail", then RESOURCE_EXHAUSTED. [any] [may-block when the provider is asked]
  Status allocate(uint64_t size_bytes, uint64_t alignment_bytes, heddle_block_t* out_block);
  // No work uses the block any more. [any] [no-block]
  void free(const heddle_block_t& block);
  Status trim(uint64_t keep_bytes);
  heddle_allocator_statistics_t statistics() const;
  const std::string& allocator_id() const { return allocator_id_; }

 private:
  Pool() = default;
  static heddle_status_t* provider_allocate(void* self, uint64_t size, uint64_t alignment, heddle_buffer_t** out_buffer);
  static void provider_free(void* self, heddle_buffer_t* buffer);
  static uint32_t provider_reached(void* self, heddle_point_t point);
  Status allocate_once(uint64_t size_bytes, uint64_t alignment_bytes, heddle_block_t* out_block);

  heddle_device_t* device_ = nullptr;
  uint64_t min_alignment_bytes_ = 64;
  bool trims_ = true;
  const heddle_driver_api_t* api_ = nullptr;
  std::string name_;
  std::string allocator_id_;
  const heddle_allocator_interface_t* interface_ = nullptr;
  heddle_allocator_t* allocator_ = nullptr;
  heddle_provider_t provider_{};
  // Without an allocator plugin these are counted here.
  std::atomic<uint64_t> live_bytes_{0}, peak_bytes_{0}, allocations_{0}, frees_{0}, retries_{0}, exhaustions_{0};
};

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_POOL_H_
