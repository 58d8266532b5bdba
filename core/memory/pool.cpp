// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pools: the provider that allocator plugins see, the direct path without one, and what happens on exhaustion.
// Called through pool.h; knows nothing of tensors or programs.
#include "core/memory/pool.h"

#include <algorithm>

namespace heddle::memory {

Result<std::unique_ptr<Pool>> Pool::create(heddle_device_t* device, const heddle_driver_api_t* api, std::string name,
                                           uint64_t min_alignment_bytes, host::LoadedAllocator* allocator,
                                           const std::vector<host::OptionValue>& options) {
  std::unique_ptr<Pool> pool(new Pool());
  pool->device_ = device;
  pool->api_ = api;
  pool->name_ = std::move(name);
  pool->min_alignment_bytes_ = std::max<uint64_t>(min_alignment_bytes, 64);
  for (const host::OptionValue& option : options) {
    if (option.name == "on_limit" && option.string_value == "fail") pool->trims_ = false;
  }
  pool->provider_ = {pool.get(), provider_allocate, provider_free, provider_reached};
  if (allocator) {
    std::vector<heddle_option_t> c_options = host::to_c(options);
    heddle_allocator_params_t params{};
    params.struct_size = sizeof(params);
    params.option_count = static_cast<uint32_t>(c_options.size());
    params.provider = &pool->provider_;
    params.options = c_options.data();
    params.option_stride = sizeof(heddle_option_t);
    params.name = to_c(pool->name_);
    HEDDLE_RETURN_IF_ERROR(Status(allocator->allocator.create(allocator->instance, &params, &pool->allocator_)));
    pool->interface_ = &allocator->allocator;
    pool->allocator_id_ = allocator->id;
  }
  return pool;
}

Pool::~Pool() {
  // Blocks still live mean that somebody outlived the device, which holds a reference for each: our own bug. The driver's
  // close then says so too.
  if (allocator_) static_cast<void>(Status(interface_->destroy(allocator_)));
}

heddle_status_t* Pool::provider_allocate(void* self, uint64_t size, uint64_t alignment, heddle_buffer_t** out_buffer) {
  auto* pool = static_cast<Pool*>(self);
  heddle_buffer_params_t params{sizeof(params), HEDDLE_MEMORY_DEVICE, size, alignment};
  return pool->api_->buffer->allocate(pool->device_, &params, out_buffer);
}

void Pool::provider_free(void* self, heddle_buffer_t* buffer) {
  auto* pool = static_cast<Pool*>(self);
  pool->api_->buffer->free(buffer);
}

uint32_t Pool::provider_reached(void* self, heddle_point_t point) {
  auto* pool = static_cast<Pool*>(self);
  if (!point.timeline) return 1;
  Status status(pool->api_->timeline->wait(&point, 1, HEDDLE_WAIT_ALL, 0));
  return status.ok() || status.code() != HEDDLE_STATUS_DEADLINE_EXCEEDED ? 1 : 0;
}

Status Pool::allocate_once(uint64_t size_bytes, uint64_t alignment_bytes, heddle_block_t* out_block) {
  if (allocator_) {
    heddle_block_params_t params{};
    params.struct_size = sizeof(params);
    params.size_bytes = size_bytes;
    params.alignment_bytes = alignment_bytes;
    uint32_t wait_count = 0;
    return Status(interface_->allocate(allocator_, &params, out_block, nullptr, &wait_count));
  }
  heddle_buffer_t* buffer = nullptr;
  HEDDLE_RETURN_IF_ERROR(Status(provider_allocate(this, size_bytes, alignment_bytes, &buffer)));
  *out_block = {buffer, 0, size_bytes, 0};
  uint64_t live = live_bytes_.fetch_add(size_bytes, std::memory_order_relaxed) + size_bytes;
  uint64_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (peak < live && !peak_bytes_.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
  allocations_.fetch_add(1, std::memory_order_relaxed);
  return Status();
}

Status Pool::allocate(uint64_t size_bytes, uint64_t alignment_bytes, heddle_block_t* out_block) {
  if (size_bytes == 0) size_bytes = 1;  // every value has an address, so that drivers need no special case
  if (alignment_bytes < min_alignment_bytes_) alignment_bytes = min_alignment_bytes_;
  Status status = allocate_once(size_bytes, alignment_bytes, out_block);
  if (status.ok() || status.code() != HEDDLE_STATUS_RESOURCE_EXHAUSTED) return status;
  if (!trims_) {
    exhaustions_.fetch_add(1, std::memory_order_relaxed);
    return status;
  }
  retries_.fetch_add(1, std::memory_order_relaxed);
  Status trimmed = trim(0);
  if (trimmed.ok()) status = allocate_once(size_bytes, alignment_bytes, out_block);
  if (!status.ok()) exhaustions_.fetch_add(1, std::memory_order_relaxed);
  return status;
}

void Pool::free(const heddle_block_t& block) {
  if (!block.buffer) return;
  if (allocator_) {
    interface_->free(allocator_, &block, nullptr, 0);
    return;
  }
  live_bytes_.fetch_sub(block.length, std::memory_order_relaxed);
  frees_.fetch_add(1, std::memory_order_relaxed);
  api_->buffer->free(block.buffer);
}

Status Pool::trim(uint64_t keep_bytes) {
  return allocator_ ? Status(interface_->trim(allocator_, keep_bytes)) : Status();
}

heddle_allocator_statistics_t Pool::statistics() const {
  heddle_allocator_statistics_t statistics{};
  statistics.struct_size = sizeof(statistics);
  if (allocator_) {
    if (Status(interface_->statistics(allocator_, &statistics)).ok()) return statistics;
    statistics = {};
    statistics.struct_size = sizeof(statistics);
    return statistics;
  }
  uint64_t live = live_bytes_.load(std::memory_order_relaxed), peak = peak_bytes_.load(std::memory_order_relaxed);
  statistics.requested = statistics.allocated = statistics.bytes_reserved = live;
  statistics.peak_allocated = statistics.peak_reserved = peak;
  statistics.allocations = allocations_.load(std::memory_order_relaxed);
  statistics.frees = frees_.load(std::memory_order_relaxed);
  statistics.retries = retries_.load(std::memory_order_relaxed);
  statistics.exhaustions = exhaustions_.load(std::memory_order_relaxed);
  return statistics;
}

}  // namespace heddle::memory
