// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Driver buffers as blocks. A driver frees immediately, so blocks that are freed after points are kept here until the points are reached.
#include "core/memory/device_memory.h"

#include <algorithm>
#include <string_view>

namespace heddle::memory {

DeviceMemory::DeviceMemory(heddle_device_t* device, const heddle_driver_api_t& api, const heddle_device_description_t& description)
    : device_(device), api_(api) {
  provider_.struct_size = sizeof(provider_);
  provider_.self = this;
  provider_.allocate = [](void* self, const heddle_block_params_t* params, heddle_block_t* out_block, heddle_point_t*,
                          uint32_t* out_wait_count) {
    *out_block = {};
    *out_wait_count = 0;
    return static_cast<DeviceMemory*>(self)->allocate(*params, HEDDLE_MEMORY_DEVICE, out_block).release();
  };
  if ((description.memory_kinds & HEDDLE_MEMORY_PINNED) && !(description.features & HEDDLE_DEVICE_UNIFIED_MEMORY)) {
    provider_.allocate_on_host = [](void* self, const heddle_block_params_t* params, heddle_block_t* out_block) {
      *out_block = {};
      return static_cast<DeviceMemory*>(self)->allocate(*params, HEDDLE_MEMORY_PINNED, out_block).release();
    };
  }
  provider_.free = [](void* self, const heddle_block_t* block, const heddle_point_t* points, uint32_t point_count) noexcept {
    static_cast<DeviceMemory*>(self)->free(*block, points, point_count);
  };
  provider_.statistics = [](void* self, heddle_allocator_statistics_t* out_statistics) -> heddle_status_t* {
    static_cast<DeviceMemory*>(self)->statistics(out_statistics);
    return nullptr;
  };
  provider_.trim = [](void* self, uint64_t) -> heddle_status_t* {
    static_cast<DeviceMemory*>(self)->settle();
    return nullptr;
  };
  provider_.holders = [](void* self, heddle_holder_visitor_t visit, void* context) -> heddle_status_t* {
    static_cast<DeviceMemory*>(self)->holders(visit, context);
    return nullptr;
  };
  provider_.reached = [](void* self, heddle_point_t point) -> uint32_t { return static_cast<DeviceMemory*>(self)->reached(point) ? 1 : 0; };
}

DeviceMemory::~DeviceMemory() {
  for (const auto& [buffer, waiting] : waiting_) api_.buffer->free(buffer);
}

void DeviceMemory::Count::add(uint64_t bytes) {
  current += bytes;
  total += bytes;
  peak = std::max(peak, current);
}

Status DeviceMemory::allocate(const heddle_block_params_t& params, uint32_t memory, heddle_block_t* out_block) {
  settle();
  heddle_buffer_params_t wanted{sizeof(wanted), memory, params.size_bytes, params.alignment_bytes};
  heddle_buffer_t* buffer = nullptr;
  Status status(api_.buffer->allocate(device_, &wanted, &buffer));
  if (!status.ok() && status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED && settle()) {
    status = Status(api_.buffer->allocate(device_, &wanted, &buffer));
    std::lock_guard lock(mutex_);
    ++retries_;
  }
  std::lock_guard lock(mutex_);
  if (!status.ok()) {
    if (status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED) ++exhaustions_;
    return status;
  }
  try {
    live_[buffer] = {params.size_bytes, params.owner, {}};
  } catch (const std::bad_alloc&) {  // the caller is a plugin: no exception may reach it
    api_.buffer->free(buffer);
    return Status(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "memory: allocating a buffer failed: host memory is exhausted [HD-S-01]");
  }
  requested_.add(params.size_bytes);
  reserved_.add(params.size_bytes);
  ++allocations_;
  *out_block = {buffer, 0, params.size_bytes, 0};
  return status;
}

void DeviceMemory::free(const heddle_block_t& block, const heddle_point_t* points, uint32_t point_count) {
  {
    std::lock_guard lock(mutex_);
    auto live = live_.extract(block.buffer);
    if (live.empty()) return;
    requested_.current -= live.mapped().size;
    ++frees_;
    if (point_count != 0) {
      live.mapped().points.assign(points, points + point_count);
      waiting_.insert(std::move(live));
    } else {
      reserved_.current -= live.mapped().size;
    }
  }
  if (point_count == 0) api_.buffer->free(block.buffer);
  settle();
}

bool DeviceMemory::settle() {
  std::vector<heddle_buffer_t*> done;
  {
    std::lock_guard lock(mutex_);
    if (waiting_.empty()) return false;
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      std::erase_if(at->second.points, [&](const heddle_point_t& point) { return reached(point); });
      if (!at->second.points.empty()) {
        ++at;
        continue;
      }
      reserved_.current -= at->second.size;
      done.push_back(at->first);
      at = waiting_.erase(at);
    }
  }
  for (heddle_buffer_t* buffer : done) api_.buffer->free(buffer);
  return !done.empty();
}

bool DeviceMemory::reached(heddle_point_t point) const {
  if (!point.timeline) return true;
  uint64_t value = 0;
  const Status failed(api_.timeline->query(point.timeline, &value));
  return !failed.ok() || value >= point.value;
}

void DeviceMemory::statistics(heddle_allocator_statistics_t* out_statistics) const {
  std::lock_guard lock(mutex_);
  *out_statistics = {out_statistics->struct_size,
                     0,
                     requested_,
                     requested_,
                     reserved_,
                     reserved_,
                     {},
                     0,
                     allocations_,
                     frees_,
                     allocations_,
                     retries_,
                     exhaustions_};
}

void DeviceMemory::holders(heddle_holder_visitor_t visit, void* context) const {
  std::map<std::string_view, heddle_holder_t> lines;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [buffer, live] : live_) {
      const std::string_view owner = live.owner ? view(*live.owner) : std::string_view();
      heddle_holder_t& line = lines.try_emplace(owner, heddle_holder_t{to_c(owner), 0, {}}).first->second;
      ++line.blocks;
      line.requested.current += live.size;
    }
  }
  for (const auto& [owner, line] : lines) visit(context, &line);
}

}  // namespace heddle::memory
