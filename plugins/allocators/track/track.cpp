// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.track: an adaptor that tracks every live block and its owner: exact counts per owner, an error for a block that is freed twice or
// was never allocated, and a list of live blocks when it is to be destroyed.
#include <cstdarg>
#include <map>
#include <mutex>

#include "heddle/sdk/allocator.h"

namespace heddle::track {
namespace {

using sdk::number;
using sdk::view_of;

constexpr size_t kMostListed = 16;

class Track {
 public:
  static constexpr const char* kId = "heddle.track";
  static constexpr const char* kVersion = "0.1.0";

  explicit Track(const sdk::AllocatorSetup& setup) : host_(setup.host()), provider_(setup.provider()), name_(setup.name()) {}
  heddle_status_t* open(const sdk::AllocatorSetup&) noexcept { return nullptr; }

  heddle_status_t* allocate(const heddle_block_params_t& params, heddle_block_t* out, heddle_point_t* out_waits, uint32_t* out_wait_count) {
    heddle_status_t* failed = provider_.allocate(provider_.self, &params, out, out_waits, out_wait_count);
    if (failed) return failed;
    try {
      std::lock_guard<std::mutex> lock(mutex_);
      const std::string_view text = params.owner ? view_of(*params.owner) : std::string_view();
      auto owner = owners_.find(text);
      if (owner == owners_.end()) owner = owners_.emplace(text, Owner()).first;
      live_.insert_or_assign({out->buffer, out->offset}, Live{&*owner, params.size_bytes, ++allocations_});
      ++owner->second.blocks;
      owner->second.requested.add(params.size_bytes);
    } catch (...) {
      provider_.free(provider_.self, out, nullptr, 0);
      *out = {};
      *out_wait_count = 0;
      throw;
    }
    return nullptr;
  }

  void free(const heddle_block_t& block, const heddle_point_t* points, uint32_t count) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      auto found = live_.find({block.buffer, block.offset});
      if (found == live_.end() || found->second.size != block.length) return refuse(block);
      Owner& owner = found->second.owner->second;
      --owner.blocks;
      owner.requested.subtract(block.length);
      live_.erase(found);
    }
    provider_.free(provider_.self, &block, points, count);
  }

  heddle_status_t* statistics(heddle_allocator_statistics_t* out) noexcept { return provider_.statistics(provider_.self, out); }
  heddle_status_t* trim(uint64_t keep_bytes) noexcept { return provider_.trim(provider_.self, keep_bytes); }

  heddle_status_t* holders(heddle_holder_visitor_t visit, void* context) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [name, owner] : owners_) {
      const heddle_holder_t holder = {sdk::string_of(name), owner.blocks, owner.requested};
      visit(context, &holder);
    }
    return nullptr;
  }

  uint64_t live_blocks() {
    std::lock_guard<std::mutex> lock(mutex_);
    return live_.size();
  }

  // Before destroying fails: lists the oldest blocks, one per line.
  void log_leaks() {
    std::lock_guard<std::mutex> lock(mutex_);
    std::map<uint64_t, const Live*> oldest;
    for (const auto& [place, live] : live_) {
      oldest.emplace(live.number, &live);
      if (oldest.size() > kMostListed) oldest.erase(std::prev(oldest.end()));
    }
    for (const auto& [order, live] : oldest) {
      log("track: '%s' still has allocation %llu: %llu bytes for %s", name_.c_str(), number(order), number(live->size),
          live->owner->first.empty() ? "unknown owner" : live->owner->first.c_str());
    }
  }

 private:
  struct Owner {
    uint64_t blocks = 0;
    sdk::MemoryCount requested;
  };
  using Owners = std::map<std::string, Owner, std::less<>>;
  struct Live {
    Owners::value_type* owner;
    uint64_t size;
    uint64_t number;  // number of its allocation, from 1
  };

  void refuse(const heddle_block_t& block) {
    log("track: freeing %llu bytes at offset %llu of '%s' failed: no such block is live; it was freed before, or changed since it was "
        "returned, "
        "and is ignored",
        number(block.length), number(block.offset), name_.c_str());
  }
  [[gnu::format(printf, 2, 3)]] void log(const char* format, ...) {
    char text[320];
    va_list arguments;
    va_start(arguments, format);
    const int written = std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const size_t size = written < 0 ? 0 : std::min<size_t>(static_cast<size_t>(written), sizeof text - 1);
    host_->log(host_->self, HEDDLE_LOG_ERROR, sdk::string_of("track.cpp"), __LINE__, {text, size});
  }

  const heddle_host_t* const host_;
  const heddle_provider_t& provider_;
  const std::string name_;
  std::mutex mutex_;
  Owners owners_;
  std::map<std::pair<heddle_buffer_t*, uint64_t>, Live> live_;
  uint64_t allocations_ = 0;
};

}  // namespace
}  // namespace heddle::track

HEDDLE_ALLOCATOR_PLUGIN(heddle::track::Track)
