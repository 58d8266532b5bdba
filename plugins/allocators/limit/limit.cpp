// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.limit: an adaptor that limits the bytes that are live at once to its option `limit`, counted as requested.
#include <atomic>

#include "heddle/sdk/allocator.h"

namespace heddle::limit {
namespace {

using sdk::number;

class Limit {
 public:
  static constexpr const char* kId = "heddle.limit";
  static constexpr const char* kVersion = "0.1.0";

  explicit Limit(const sdk::AllocatorSetup& setup) : host_(setup.host()), provider_(setup.provider()), name_(setup.name()) {}
  heddle_status_t* open(const sdk::AllocatorSetup& setup) noexcept {
    heddle_status_t* bad = setup.bytes("limit", &limit_);
    if (!limit_) limit_ = UINT64_MAX;
    return bad;
  }

  heddle_status_t* allocate(const heddle_block_params_t& params, heddle_block_t* out, heddle_point_t* out_waits, uint32_t* out_wait_count) {
    uint64_t live = live_bytes_.load();
    do {
      if (live > limit_ || params.size_bytes > limit_ - live) return exhausted(params.size_bytes, live);
    } while (!live_bytes_.compare_exchange_weak(live, live + params.size_bytes));
    heddle_status_t* failed = provider_.allocate(provider_.self, &params, out, out_waits, out_wait_count);
    if (failed) {
      live_bytes_ -= params.size_bytes;
    } else {
      ++live_blocks_;
    }
    return failed;
  }

  void free(const heddle_block_t& block, const heddle_point_t* points, uint32_t count) noexcept {
    provider_.free(provider_.self, &block, points, count);
    live_bytes_ -= block.length;
    --live_blocks_;
  }

  heddle_status_t* statistics(heddle_allocator_statistics_t* out) noexcept {
    heddle_status_t* failed = provider_.statistics(provider_.self, out);
    out->exhaustions += exhaustions_.load();
    return failed;
  }
  heddle_status_t* trim(uint64_t keep_bytes) noexcept { return provider_.trim(provider_.self, keep_bytes); }
  heddle_status_t* holders(heddle_holder_visitor_t visit, void* context) noexcept {
    return provider_.holders(provider_.self, visit, context);
  }
  uint64_t live_blocks() noexcept { return live_blocks_.load(); }

 private:
  heddle_status_t* exhausted(uint64_t size, uint64_t live) {
    ++exhaustions_;
    char cause[96];
    std::snprintf(cause, sizeof cause, "the limit of %llu bytes leaves %llu", number(limit_), number(limit_ - std::min(limit_, live)));
    return sdk::exhaustion_status(host_, "limit", name_, size, cause, "raise limit or use less",
                                  sdk::Holders::of(host_, [&](auto visit, void* context) { return holders(visit, context); }));
  }

  const heddle_host_t* const host_;
  const heddle_provider_t& provider_;
  const std::string name_;
  uint64_t limit_ = 0;
  std::atomic<uint64_t> live_bytes_{0}, live_blocks_{0}, exhaustions_{0};
};

}  // namespace
}  // namespace heddle::limit

HEDDLE_ALLOCATOR_PLUGIN(heddle::limit::Limit)
