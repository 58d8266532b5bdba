// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.system: no pool at all. Each block is one buffer of the provider, freed when its points are reached. For debugging
// (every overrun hits a page of its own) and as the yardstick of the pool.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "heddle/allocator.h"
#include "heddle/sdk/negotiate.h"
#include "heddle/sdk/status.h"

namespace heddle::system_allocator {
namespace {

using sdk::guarded;
using sdk::status;

struct Instance {
  const heddle_host_t* host;
  std::atomic<uint64_t> allocators{0};
  explicit Instance(const heddle_host_t* its_host) noexcept : host(its_host) {}
  static Instance* from(heddle_plugin_instance_t* handle) noexcept { return reinterpret_cast<Instance*>(handle); }
};

unsigned long long number(uint64_t value) noexcept {
  return value;
}

// One block; its address is the token.
struct Block {
  heddle_buffer_t* buffer;
  uint64_t size;
  std::vector<heddle_point_t> points;  // to be reached before the buffer goes back
};

class Allocator {
 public:
  Allocator(Instance* instance, const heddle_provider_t& provider, std::string name)
      : instance_(instance), host_(instance->host), provider_(provider), name_(std::move(name)) {
    instance_->allocators.fetch_add(1);
  }
  ~Allocator() {
    // The host frees blocks before it destroys us; what still waits for a point is no longer in use.
    for (Block* block : waiting_) release(block);
    instance_->allocators.fetch_sub(1);
  }

  static Allocator* from(heddle_allocator_t* handle) noexcept { return reinterpret_cast<Allocator*>(handle); }
  heddle_allocator_t* handle() noexcept { return reinterpret_cast<heddle_allocator_t*>(this); }
  const heddle_host_t* host() const noexcept { return host_; }

  heddle_status_t* allocate(const heddle_block_params_t& params, heddle_block_t* out) {
    free_reached();
    Block* block = sdk::make<Block>(host_);
    heddle_status_t* failed = provider_.allocate(provider_.self, params.size_bytes, params.alignment_bytes, &block->buffer);
    if (failed) {
      sdk::unmake(host_, block);
      std::lock_guard<std::mutex> lock(mutex_);
      if (host_->status_code(host_->self, failed) == HEDDLE_STATUS_RESOURCE_EXHAUSTED) ++statistics_.exhaustions;
      return failed;
    }
    block->size = params.size_bytes;
    *out = {block->buffer, 0, params.size_bytes, reinterpret_cast<uint64_t>(block)};
    std::lock_guard<std::mutex> lock(mutex_);
    ++live_;
    ++statistics_.allocations;
    statistics_.requested += block->size;
    statistics_.allocated += block->size;
    statistics_.bytes_reserved += block->size;
    statistics_.peak_allocated = std::max(statistics_.peak_allocated, statistics_.allocated);
    statistics_.peak_reserved = std::max(statistics_.peak_reserved, statistics_.bytes_reserved);
    return nullptr;
  }

  void free(const heddle_block_t& handed, const heddle_point_t* points, uint32_t count) {
    auto* block = reinterpret_cast<Block*>(handed.token);
    bool wait = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      --live_;
      ++statistics_.frees;
      statistics_.requested -= block->size;
      statistics_.allocated -= block->size;
      for (uint32_t i = 0; i < count; ++i) {
        if (provider_.reached(provider_.self, points[i])) continue;
        block->points.push_back(points[i]);
        wait = true;
      }
      if (wait) waiting_.push_back(block);
    }
    if (!wait) release(block);
    free_reached();
  }

  uint64_t live() {
    std::lock_guard<std::mutex> lock(mutex_);
    return live_;
  }
  heddle_allocator_statistics_t statistics() {
    std::lock_guard<std::mutex> lock(mutex_);
    return statistics_;
  }
  const std::string& name() const { return name_; }

  // Gives back what waited and waits no more.
  void free_reached() {
    std::vector<Block*> done;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (waiting_.empty()) return;
      auto reached = [&](Block* block) {
        for (const heddle_point_t& point : block->points) {
          if (!provider_.reached(provider_.self, point)) return false;
        }
        done.push_back(block);
        return true;
      };
      std::erase_if(waiting_, reached);
    }
    for (Block* block : done) release(block);
  }

 private:
  void release(Block* block) {
    provider_.free(provider_.self, block->buffer);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      statistics_.bytes_reserved -= block->size;
    }
    sdk::unmake(host_, block);
  }

  Instance* instance_;
  const heddle_host_t* host_;
  const heddle_provider_t provider_;
  const std::string name_;
  std::mutex mutex_;
  uint64_t live_ = 0;
  std::vector<Block*> waiting_;
  heddle_allocator_statistics_t statistics_ = {};
};

heddle_status_t* allocator_create(heddle_plugin_instance_t* handle, const heddle_allocator_params_t* in,
                                  heddle_allocator_t** out) noexcept {
  *out = nullptr;
  Instance* instance = Instance::from(handle);
  const heddle_host_t* host = instance->host;
  return guarded(host, "creating an allocator", [&]() -> heddle_status_t* {
    heddle_allocator_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(host, "heddle_allocator_params_t", bad_byte);
    if (!params.provider) return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "system: creating an allocator failed: no provider");
    *out = sdk::make<Allocator>(host, instance, *params.provider, std::string(sdk::view_of(params.name)))->handle();
    return nullptr;
  });
}

heddle_status_t* allocator_destroy(heddle_allocator_t* handle) noexcept {
  if (!handle) return nullptr;
  Allocator* allocator = Allocator::from(handle);
  const heddle_host_t* host = allocator->host();
  return guarded(host, "destroying an allocator", [&]() -> heddle_status_t* {
    if (const uint64_t live = allocator->live()) {
      return status(host, HEDDLE_STATUS_FAILED_PRECONDITION,
                    "system: destroying '%s' failed: %llu block%s (%llu bytes) live; free them first [HD-L-01]", allocator->name().c_str(),
                    number(live), live == 1 ? "" : "s", number(allocator->statistics().allocated));
    }
    sdk::unmake(host, allocator);
    return nullptr;
  });
}

heddle_status_t* allocator_allocate(heddle_allocator_t* handle, const heddle_block_params_t* in, heddle_block_t* out, heddle_point_t*,
                                    uint32_t* out_wait_count) noexcept {
  *out = {};
  *out_wait_count = 0;
  Allocator* allocator = Allocator::from(handle);
  const heddle_host_t* host = allocator->host();
  return guarded(host, "allocating a block", [&]() -> heddle_status_t* {
    heddle_block_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(host, "heddle_block_params_t", bad_byte);
    if (params.alignment_bytes & (params.alignment_bytes - 1)) {
      return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "system: allocating %llu bytes failed: alignment %llu is no power of two",
                    number(params.size_bytes), number(params.alignment_bytes));
    }
    return allocator->allocate(params, out);
  });
}

void allocator_free(heddle_allocator_t* handle, const heddle_block_t* block, const heddle_point_t* points, uint32_t count) noexcept {
  if (!block || !block->token) return;
  Allocator* allocator = Allocator::from(handle);
  sdk::guarded_release(allocator->host(), [&] { allocator->free(*block, points, count); });
}

heddle_status_t* allocator_statistics(heddle_allocator_t* handle, heddle_allocator_statistics_t* out) noexcept {
  sdk::write_struct(Allocator::from(handle)->statistics(), out);
  return nullptr;
}

heddle_status_t* allocator_trim(heddle_allocator_t* handle, uint64_t) noexcept {
  Allocator* allocator = Allocator::from(handle);
  return guarded(allocator->host(), "trimming", [&]() -> heddle_status_t* {
    allocator->free_reached();
    return nullptr;
  });
}

heddle_status_t* plugin_probe(const heddle_host_t*, heddle_probe_result_t* out) noexcept {
  heddle_probe_result_t result = {};
  result.verdict = HEDDLE_PROBE_AVAILABLE;
  sdk::write_struct(result, out);
  return nullptr;
}

heddle_status_t* plugin_create(const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept {
  *out = nullptr;
  return guarded(host, "creating an instance of heddle.system", [&]() -> heddle_status_t* {
    *out = reinterpret_cast<heddle_plugin_instance_t*>(sdk::make<Instance>(host, host));
    return nullptr;
  });
}

heddle_status_t* plugin_shutdown(heddle_plugin_instance_t* handle) noexcept {
  Instance* instance = Instance::from(handle);
  const heddle_host_t* host = instance->host;
  return guarded(host, "shutting heddle.system down", [&]() -> heddle_status_t* {
    if (const uint64_t live = instance->allocators.load()) {
      return status(host, HEDDLE_STATUS_FAILED_PRECONDITION,
                    "system: shutting down failed: %llu allocator%s live; destroy them first [HD-L-01]", number(live),
                    live == 1 ? " is" : "s are");
    }
    sdk::unmake(host, instance);
    return nullptr;
  });
}

const void* plugin_get_interface(heddle_plugin_instance_t*, heddle_string_t id) noexcept {
  static const heddle_allocator_interface_t table = {sizeof(heddle_allocator_interface_t),
                                                     0,
                                                     allocator_create,
                                                     allocator_destroy,
                                                     allocator_allocate,
                                                     allocator_free,
                                                     allocator_statistics,
                                                     allocator_trim};
  return sdk::view_of(id) == HEDDLE_ALLOCATOR_INTERFACE ? &table : nullptr;
}

}  // namespace
}  // namespace heddle::system_allocator

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  using namespace heddle;
  static const heddle_plugin_t plugin = {sizeof(heddle_plugin_t),
                                         HEDDLE_PLUGIN_ALLOCATOR,
                                         {"heddle.system", 13},
                                         {"0.1.0", 5},
                                         system_allocator::plugin_probe,
                                         system_allocator::plugin_create,
                                         system_allocator::plugin_shutdown,
                                         system_allocator::plugin_get_interface};
  return sdk::negotiate(negotiation, "heddle.system", &plugin);
}
