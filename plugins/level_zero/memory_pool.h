// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device memory of one device. Level Zero has no pools: a freed block is kept for a later allocation of about its size, up to a limit.
#ifndef HEDDLE_LEVEL_ZERO_MEMORY_POOL_H_
#define HEDDLE_LEVEL_ZERO_MEMORY_POOL_H_

#include <map>

#include "level_zero/signals.h"

namespace heddle::level_zero {

class MemoryPool {
 public:
  // largest: what the driver allocates at once without being asked for more.
  MemoryPool(std::shared_ptr<SharedContext> context, ze_device_handle_t device, uint64_t largest, uint64_t retain_bytes) noexcept
      : context_(std::move(context)), device_(device), largest_(largest), retain_bytes_(retain_bytes) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // From any thread. Blocks are aligned to 256 bytes. pooled: a kept block may be used, and this one kept.
  ze_result_t allocate(uint64_t bytes, bool pooled, uint64_t* out);
  void free(uint64_t block) noexcept;
  void trim() noexcept;
  uint64_t pooled_bytes();     // of all pooled blocks, free or not
  uint64_t allocated_bytes();  // of all blocks

 private:
  using Kept = std::multimap<uint64_t, uint64_t>;  // size, address
  struct Block {
    uint64_t bytes = 0;
    Kept::node_type place;  // of a pooled block, so that freeing needs no memory
  };
  using Blocks = std::map<uint64_t, Block>;  // by address
  ze_result_t obtain(uint64_t bytes, uint64_t* out);

  const std::shared_ptr<SharedContext> context_;
  const ze_device_handle_t device_;
  const uint64_t largest_, retain_bytes_;
  std::mutex mutex_;
  Blocks live_;  // under mutex_, like the rest
  Kept kept_;    // free blocks
  uint64_t kept_bytes_ = 0, pooled_bytes_ = 0, allocated_bytes_ = 0;
};

}  // namespace heddle::level_zero
#endif  // HEDDLE_LEVEL_ZERO_MEMORY_POOL_H_
