// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device's memory that allocators are tested on: buffers are tags, points are reached by hand, and any call can be made to fail. And
// allocators stacked on it as the host stacks them. Knows nothing of any allocator.
#ifndef HEDDLE_TESTS_FAKE_MEMORY_H_
#define HEDDLE_TESTS_FAKE_MEMORY_H_

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "heddle/allocator.h"
#include "plugin_host.h"

namespace heddle::test {

class FakeMemory {
 public:
  explicit FakeMemory(PluginHost& host) : host_(host) {
    table_.struct_size = sizeof table_;
    table_.self = this;
    table_.allocate = [](void* self, const heddle_block_params_t* params, heddle_block_t* out, heddle_point_t*, uint32_t* out_wait_count) {
      *out_wait_count = 0;
      return static_cast<FakeMemory*>(self)->allocate(*params, out);
    };
    table_.free = [](void* self, const heddle_block_t* block, const heddle_point_t* points, uint32_t count) {
      static_cast<FakeMemory*>(self)->free(*block, points, count);
    };
    table_.statistics = [](void* self, heddle_allocator_statistics_t* out) -> heddle_status_t* {
      auto* memory = static_cast<FakeMemory*>(self);
      *out = {out->struct_size, 0, {}, {}, {}, {}, {}, 0, memory->asked, memory->freed, 0, 0, 0};
      out->requested.current = out->allocated.current = out->active.current = out->bytes_reserved.current = memory->live_bytes();
      return nullptr;
    };
    table_.trim = [](void* self, uint64_t) -> heddle_status_t* {
      ++static_cast<FakeMemory*>(self)->trims;
      return nullptr;
    };
    table_.holders = [](void*, heddle_holder_visitor_t, void*) -> heddle_status_t* { return nullptr; };
    table_.reached = [](void* self, heddle_point_t point) -> uint32_t { return static_cast<FakeMemory*>(self)->reached(point) ? 1 : 0; };
  }
  const heddle_provider_t* table() const { return &table_; }
  // From now on it has memory of the host, too.
  void offer_host_memory() {
    table_.allocate_on_host = [](void* self, const heddle_block_params_t* params, heddle_block_t* out) {
      return static_cast<FakeMemory*>(self)->allocate(*params, out, true);
    };
  }
  uint64_t live_host_bytes() {
    std::lock_guard<std::mutex> lock(mutex_);
    return live_host_bytes_;
  }

  void reach(heddle_timeline_t* timeline, uint64_t value) {
    std::lock_guard<std::mutex> lock(mutex_);
    reached_[timeline] = value;
  }
  uint64_t live() {
    std::lock_guard<std::mutex> lock(mutex_);
    return buffers_.size();
  }
  uint64_t live_bytes() {
    std::lock_guard<std::mutex> lock(mutex_);
    return live_bytes_;
  }
  uint64_t peak_bytes() {
    std::lock_guard<std::mutex> lock(mutex_);
    return peak_bytes_;
  }
  struct Buffer {
    uint64_t size, alignment;
    bool on_host = false;
  };
  Buffer buffer(heddle_buffer_t* buffer) {
    std::lock_guard<std::mutex> lock(mutex_);
    return buffers_.at(buffer);
  }
  std::vector<std::string> owners() {
    std::lock_guard<std::mutex> lock(mutex_);
    return owners_;
  }

  uint64_t capacity = UINT64_MAX, host_capacity = UINT64_MAX;
  // The n-th next allocation fails with `failure`; -1: none.
  std::atomic<int64_t> fail_at{-1};
  heddle_status_code_t failure = HEDDLE_STATUS_RESOURCE_EXHAUSTED;
  std::atomic<uint64_t> asked{0}, freed{0}, trims{0}, freed_with_points{0};

 private:
  heddle_status_t* allocate(const heddle_block_params_t& params, heddle_block_t* out, bool on_host = false) {
    *out = {};
    ++asked;
    if (fail_at.load() >= 0 && fail_at.fetch_sub(1) == 0) {
      return host_.table()->status_create(nullptr, failure, {}, 0, string_of("the memory was told to fail"));
    }
    std::lock_guard<std::mutex> lock(mutex_);
    uint64_t& live_bytes = on_host ? live_host_bytes_ : live_bytes_;
    const uint64_t most = on_host ? host_capacity : capacity;
    if (params.size_bytes > most || live_bytes > most - params.size_bytes) {
      return host_.table()->status_create(nullptr, HEDDLE_STATUS_RESOURCE_EXHAUSTED, {}, 0,
                                          string_of(on_host ? "the host is full" : "the provider is full"));
    }
    auto* buffer = reinterpret_cast<heddle_buffer_t*>(new char);
    buffers_[buffer] = {params.size_bytes, std::max<uint64_t>(params.alignment_bytes, 64), on_host};
    live_bytes += params.size_bytes;
    peak_bytes_ = std::max(peak_bytes_, live_bytes_);
    owners_.push_back(params.owner ? text_of(*params.owner) : "");
    *out = {buffer, 0, params.size_bytes, 0};
    return nullptr;
  }
  void free(const heddle_block_t& block, const heddle_point_t* points, uint32_t count) {
    ++freed;
    for (uint32_t i = 0; i < count; ++i) {
      if (!reached(points[i])) {
        ++freed_with_points;
        break;
      }
    }
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = buffers_.find(block.buffer);
    if (found == buffers_.end()) {
      ADD_FAILURE() << "a buffer was freed that is not there";
      return;
    }
    EXPECT_EQ(block.length, found->second.size) << "the block came back changed";
    (found->second.on_host ? live_host_bytes_ : live_bytes_) -= found->second.size;
    buffers_.erase(found);
    delete reinterpret_cast<char*>(block.buffer);
  }
  bool reached(heddle_point_t point) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = reached_.find(point.timeline);
    return found != reached_.end() && found->second >= point.value;
  }

  PluginHost& host_;
  heddle_provider_t table_ = {};
  std::mutex mutex_;
  std::map<heddle_buffer_t*, Buffer> buffers_;
  std::map<heddle_timeline_t*, uint64_t> reached_;
  std::vector<std::string> owners_;
  uint64_t live_bytes_ = 0, peak_bytes_ = 0, live_host_bytes_ = 0;
};

// One allocator of a plugin, over a provider, and itself as a provider for another. Destroyed in reverse order of construction.
class StackedAllocator {
 public:
  // path: the plugin's library.
  StackedAllocator(PluginHost& host, const std::string& path, const heddle_provider_t* below,
                   const std::vector<heddle_option_t>& options = {})
      : plugin_(path), below_(below) {
    Result created(plugin_->create(host.table(), &instance_));
    EXPECT_TRUE(created.ok()) << created.message();
    api_ = static_cast<const heddle_allocator_interface_t*>(plugin_->get_interface(instance_, string_of(HEDDLE_ALLOCATOR_INTERFACE)));
    Result opened(create(options, &allocator_));
    EXPECT_TRUE(opened.ok()) << opened.message();
    table_.struct_size = sizeof table_;
    table_.self = this;
    table_.allocate = [](void* self, const heddle_block_params_t* params, heddle_block_t* out, heddle_point_t* out_waits,
                         uint32_t* out_wait_count) {
      auto* at = static_cast<StackedAllocator*>(self);
      return at->api_->allocate(at->allocator_, params, out, out_waits, out_wait_count);
    };
    table_.free = [](void* self, const heddle_block_t* block, const heddle_point_t* points, uint32_t count) {
      auto* at = static_cast<StackedAllocator*>(self);
      at->api_->free(at->allocator_, block, points, count);
    };
    table_.statistics = [](void* self, heddle_allocator_statistics_t* out) {
      auto* at = static_cast<StackedAllocator*>(self);
      return at->api_->statistics(at->allocator_, out);
    };
    table_.trim = [](void* self, uint64_t keep_bytes) {
      auto* at = static_cast<StackedAllocator*>(self);
      return at->api_->trim(at->allocator_, keep_bytes);
    };
    table_.holders = [](void* self, heddle_holder_visitor_t visit, void* context) {
      auto* at = static_cast<StackedAllocator*>(self);
      return at->api_->holders(at->allocator_, visit, context);
    };
    table_.reached = [](void* self, heddle_point_t point) {
      auto* at = static_cast<StackedAllocator*>(self);
      return at->below_->reached(at->below_->self, point);
    };
  }
  ~StackedAllocator() {
    Result destroyed(destroy());
    EXPECT_TRUE(destroyed.ok()) << destroyed.message();
    Result ended(shutdown());
    EXPECT_TRUE(ended.ok()) << ended.message();
  }
  StackedAllocator(const StackedAllocator&) = delete;
  StackedAllocator& operator=(const StackedAllocator&) = delete;

  // A second one of the same plugin; the caller destroys it.
  heddle_status_t* create(const std::vector<heddle_option_t>& options, heddle_allocator_t** out) {
    heddle_allocator_params_t params = {
        sizeof params, static_cast<uint32_t>(options.size()), below_, options.data(), sizeof(heddle_option_t), string_of("test")};
    return api_->create(instance_, &params, out);
  }
  heddle_status_t* destroy() {
    heddle_status_t* failed = allocator_ ? api_->destroy(allocator_) : nullptr;
    if (!failed) allocator_ = nullptr;
    return failed;
  }
  heddle_status_t* shutdown() {
    heddle_status_t* failed = instance_ ? plugin_->shutdown(instance_) : nullptr;
    if (!failed) instance_ = nullptr;
    return failed;
  }
  const heddle_provider_t* table() const { return &table_; }
  const heddle_allocator_interface_t* api() const { return api_; }
  heddle_allocator_t* get() const { return allocator_; }

 private:
  LoadedPlugin plugin_;
  const heddle_provider_t* below_;
  heddle_plugin_instance_t* instance_ = nullptr;
  const heddle_allocator_interface_t* api_ = nullptr;
  heddle_allocator_t* allocator_ = nullptr;
  heddle_provider_t table_ = {};
};

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_FAKE_MEMORY_H_
