// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "level_zero/memory_pool.h"

namespace heddle::level_zero {
namespace {

constexpr uint64_t kAlignment = 256;
constexpr uint64_t kUnit = uint64_t{64} << 10;  // the pages of device memory; sizes are rounded up, so that blocks fit again

}  // namespace

MemoryPool::~MemoryPool() {
  trim();
}

ze_result_t MemoryPool::obtain(uint64_t bytes, uint64_t* out) {
  auto beyond = structure<ze_relaxed_allocation_limits_exp_desc_t>(ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC);
  beyond.flags = ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE;
  auto description = structure<ze_device_mem_alloc_desc_t>(ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC);
  if (bytes > largest_) description.pNext = &beyond;
  void* block = nullptr;
  const ze_result_t result = context_->api.zeMemAllocDevice(context_->handle, &description, bytes, kAlignment, device_, &block);
  *out = reinterpret_cast<uint64_t>(block);
  return result;
}

ze_result_t MemoryPool::allocate(uint64_t bytes, bool pooled, uint64_t* out) {
  if (bytes > UINT64_MAX - kUnit) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  const uint64_t size = (bytes + kUnit - 1) / kUnit * kUnit;
  std::lock_guard<std::mutex> lock(mutex_);
  if (const auto fitting = kept_.lower_bound(size); pooled && fitting != kept_.end() && fitting->first - size <= size / 4) {
    Block& living = live_[fitting->second];
    living.bytes = fitting->first;
    *out = fitting->second;
    kept_bytes_ -= fitting->first;
    living.place = kept_.extract(fitting);
    return ZE_RESULT_SUCCESS;
  }
  // What the block needs of the host's memory comes first: a block that is not in live_ would be lost.
  Blocks made;
  Block& living = made[0];
  living.bytes = size;
  if (pooled) living.place = kept_.extract(kept_.emplace(size, 0));
  uint64_t block = 0;
  if (const ze_result_t bad = obtain(size, &block)) return bad;
  if (pooled) living.place.mapped() = block;
  Blocks::node_type node = made.extract(made.begin());
  node.key() = block;
  live_.insert(std::move(node));
  allocated_bytes_ += size;
  if (pooled) pooled_bytes_ += size;
  *out = block;
  return ZE_RESULT_SUCCESS;
}

void MemoryPool::free(uint64_t block) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = live_.find(block);
  if (found == live_.end()) return;
  Block freed = std::move(found->second);
  live_.erase(found);
  const bool is_pooled = !freed.place.empty();
  if (is_pooled && freed.bytes <= retain_bytes_ && kept_bytes_ <= retain_bytes_ - freed.bytes) {
    kept_.insert(std::move(freed.place));
    kept_bytes_ += freed.bytes;
    return;
  }
  allocated_bytes_ -= freed.bytes;
  if (is_pooled) pooled_bytes_ -= freed.bytes;
  context_->api.zeMemFree(context_->handle, reinterpret_cast<void*>(block));
}

void MemoryPool::trim() noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [bytes, block] : kept_) context_->api.zeMemFree(context_->handle, reinterpret_cast<void*>(block));
  kept_.clear();
  allocated_bytes_ -= kept_bytes_;
  pooled_bytes_ -= kept_bytes_;
  kept_bytes_ = 0;
}

uint64_t MemoryPool::pooled_bytes() {
  std::lock_guard<std::mutex> lock(mutex_);
  return pooled_bytes_;
}

uint64_t MemoryPool::allocated_bytes() {
  std::lock_guard<std::mutex> lock(mutex_);
  return allocated_bytes_;
}

}  // namespace heddle::level_zero
