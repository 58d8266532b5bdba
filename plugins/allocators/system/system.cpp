// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.system: no pool at all. Each block is one of the provider's, freed when its points are reached. For debugging (on a device every overrun
// hits a buffer's end) and as the reference for the pool.
#include <memory>
#include <mutex>

#include "heddle/sdk/allocator.h"

namespace heddle::system_allocator {
namespace {

// One block; its address is the token.
struct Block {
  heddle_block_t below = {};
  const heddle_string_t* owner = nullptr;
  Block* before = nullptr;  // in the list of live blocks, or of waiting ones
  Block* after = nullptr;
  std::vector<heddle_point_t> points;  // to be reached before it is freed
};

// A list of live or of waiting blocks.
class List {
 public:
  Block* first() const noexcept { return first_; }
  void insert(Block* block) noexcept {
    block->before = nullptr;
    block->after = first_;
    if (first_) first_->before = block;
    first_ = block;
  }
  void remove(Block* block) noexcept {
    (block->before ? block->before->after : first_) = block->after;
    if (block->after) block->after->before = block->before;
  }

 private:
  Block* first_ = nullptr;
};

class System {
 public:
  static constexpr const char* kId = "heddle.system";
  static constexpr const char* kVersion = "0.1.0";

  explicit System(const sdk::AllocatorSetup& setup) : host_(setup.host()), provider_(setup.provider()), name_(setup.name()) {}
  ~System() {
    while (Block* block = waiting_.first()) {
      waiting_.remove(block);
      provider_.free(provider_.self, &block->below, block->points.data(), static_cast<uint32_t>(block->points.size()));
      delete block;
    }
  }
  heddle_status_t* open(const sdk::AllocatorSetup&) noexcept { return nullptr; }

  heddle_status_t* allocate(const heddle_block_params_t& params, heddle_block_t* out, heddle_point_t* out_waits, uint32_t* out_wait_count) {
    release_reached();
    auto block = std::make_unique<Block>();
    block->owner = params.owner;
    heddle_status_t* failed = provider_.allocate(provider_.self, &params, &block->below, out_waits, out_wait_count);
    if (failed && host_->status_code(host_->self, failed) == HEDDLE_STATUS_RESOURCE_EXHAUSTED) {
      host_->status_free(host_->self, failed);
      release_reached();
      if (heddle_status_t* untrimmed = provider_.trim(provider_.self, 0)) host_->status_free(host_->self, untrimmed);
      failed = provider_.allocate(provider_.self, &params, &block->below, out_waits, out_wait_count);
      std::lock_guard<std::mutex> lock(mutex_);
      ++retries_;
    }
    if (failed) {
      if (host_->status_code(host_->self, failed) != HEDDLE_STATUS_RESOURCE_EXHAUSTED) return failed;
      return exhausted(params.size_bytes, sdk::take_text(host_, failed));
    }
    *out = {block->below.buffer, block->below.offset, params.size_bytes, reinterpret_cast<uint64_t>(block.get())};
    std::lock_guard<std::mutex> lock(mutex_);
    live_.insert(block.release());
    ++allocations_;
    requested_.add(params.size_bytes);
    reserved_.add(params.size_bytes);
    return nullptr;
  }

  void free(const heddle_block_t& handed, const heddle_point_t* points, uint32_t count) {
    auto* block = reinterpret_cast<Block*>(handed.token);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (uint32_t i = 0; i < count; ++i) {
        if (!provider_.reached(provider_.self, points[i])) block->points.push_back(points[i]);
      }
      live_.remove(block);
      waiting_.insert(block);
      ++frees_;
      requested_.subtract(handed.length);
    }
    release_reached();
  }

  heddle_status_t* statistics(heddle_allocator_statistics_t* out) {
    std::lock_guard<std::mutex> lock(mutex_);
    *out = {out->struct_size, 0,      requested_,   requested_, reserved_,   reserved_, {}, 0,
            allocations_,     frees_, allocations_, retries_,   exhaustions_};
    return nullptr;
  }

  heddle_status_t* trim(uint64_t keep_bytes) {
    release_reached();
    return provider_.trim(provider_.self, keep_bytes);
  }

  heddle_status_t* holders(heddle_holder_visitor_t visit, void* context) {
    sdk::Holders holders;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (const Block* block = live_.first(); block; block = block->after) holders.add(block->owner, block->below.length);
    }
    holders.visit(visit, context);
    return nullptr;
  }

  uint64_t live_blocks() {
    std::lock_guard<std::mutex> lock(mutex_);
    return allocations_ - frees_;
  }

 private:
  // Frees blocks whose points are reached.
  void release_reached() noexcept {
    List done;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (Block* block = waiting_.first(); block;) {
        Block* next = block->after;
        std::erase_if(block->points, [&](const heddle_point_t& point) { return provider_.reached(provider_.self, point) != 0; });
        if (block->points.empty()) {
          waiting_.remove(block);
          reserved_.subtract(block->below.length);
          done.insert(block);
        }
        block = next;
      }
    }
    while (Block* block = done.first()) {
      done.remove(block);
      provider_.free(provider_.self, &block->below, nullptr, 0);
      delete block;
    }
  }

  heddle_status_t* exhausted(uint64_t size, std::string cause) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++exhaustions_;
      cause = cause.substr(0, cause.find('\n')) + " (" + std::to_string(requested_.current) + " bytes live, " +
              std::to_string(reserved_.current - requested_.current) + " freed but still in use by the device)";
    }
    return sdk::exhaustion_status(host_, "system", name_, size, cause, "use less",
                                  sdk::Holders::of(host_, [&](auto visit, void* context) { return holders(visit, context); }));
  }

  const heddle_host_t* const host_;
  const heddle_provider_t& provider_;
  const std::string name_;
  std::mutex mutex_;
  List live_, waiting_;
  sdk::MemoryCount requested_, reserved_;
  uint64_t allocations_ = 0, frees_ = 0, retries_ = 0, exhaustions_ = 0;
};

}  // namespace
}  // namespace heddle::system_allocator

HEDDLE_ALLOCATOR_PLUGIN(heddle::system_allocator::System)
