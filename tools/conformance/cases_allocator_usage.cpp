// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases of heddle.allocator/1: statistics and holders, and exhausted memory: trims, limits, fragmentation.
#include <algorithm>
#include <map>

#include "allocator_session.h"

namespace heddle::conformance {
namespace {

// The largest contiguous number of bytes without a live block.
uint64_t largest_gap(Provider& provider, const std::vector<Live>& live) {
  std::map<heddle_buffer_t*, std::map<uint64_t, uint64_t>> used;
  for (const Live& each : live) used[each.block.buffer][each.block.offset] = each.size;
  uint64_t largest = 0;
  for (const auto& [buffer, given] : provider.buffers) {
    uint64_t end = 0;
    for (const auto& [offset, size] : used[buffer]) {
      largest = std::max(largest, offset - end);
      end = offset + size;
    }
    largest = std::max(largest, buffer->size - end);
  }
  return largest;
}

void statistics_add_up() {
  Timeline stream;  // outlives the allocator
  Allocator allocator;
  const heddle_allocator_statistics_t start = allocator.statistics();
  std::vector<Live> live;
  uint64_t requested = 0;
  for (int i = 0; i < 200; ++i) {
    const uint64_t size = random_below(100000) + 1;
    live.push_back({allocator.allocate(size), size});
    requested += size;
  }
  const heddle_allocator_statistics_t full = allocator.statistics();
  CHECK(full.requested.current - start.requested.current == requested, "requested is %llu after %llu bytes were requested",
        number(full.requested.current), number(requested));
  CHECK(full.requested.total - start.requested.total == requested, "the total of requested is %llu after %llu bytes were requested",
        number(full.requested.total), number(requested));
  CHECK(full.allocated.current >= full.requested.current && full.active.current >= full.allocated.current,
        "requested %llu, allocated %llu and active %llu do not grow", number(full.requested.current), number(full.allocated.current),
        number(full.active.current));
  CHECK(full.bytes_reserved.current == allocator.provider.used, "bytes_reserved is %llu, but the provider allocated %llu",
        number(full.bytes_reserved.current), number(allocator.provider.used));
  CHECK(full.bytes_reserved.current >= full.active.current, "bytes_reserved %llu is less than active %llu",
        number(full.bytes_reserved.current), number(full.active.current));
  CHECK(full.allocations - start.allocations == 200, "allocations is %llu after 200", number(full.allocations - start.allocations));
  for (const heddle_memory_count_t* count : {&full.requested, &full.allocated, &full.active, &full.bytes_reserved, &full.inactive_split}) {
    CHECK(count->peak >= count->current && count->total >= count->peak, "a quantity has %llu bytes, a peak of %llu and a total of %llu",
          number(count->current), number(count->peak), number(count->total));
  }
  std::vector<Live> left;
  for (size_t i = 0; i < live.size(); ++i) {
    if (i % 2) left.push_back(live[i]);
    if (i % 2 == 0) allocator.free(live[i].block);
  }
  const heddle_allocator_statistics_t half = allocator.statistics();
  const uint64_t gap = largest_gap(allocator.provider, left);
  CHECK(half.largest_free <= gap, "largest_free is %llu, but at most %llu contiguous bytes are free", number(half.largest_free),
        number(gap));
  for (const Live& each : left) allocator.free(each.block);
  const heddle_allocator_statistics_t now = allocator.statistics();
  CHECK(now.requested.current == start.requested.current && now.allocated.current == start.allocated.current &&
            now.active.current == start.active.current,
        "with all blocks freed requested is %llu, allocated %llu and active %llu", number(now.requested.current),
        number(now.allocated.current), number(now.active.current));
  CHECK(now.frees - start.frees == 200, "frees is %llu after 200", number(now.frees - start.frees));
  CHECK(now.allocated.peak == full.allocated.current && now.requested.peak == full.requested.current,
        "the peaks of requested and allocated are %llu and %llu, but the maxima were %llu and %llu", number(now.requested.peak),
        number(now.allocated.peak), number(full.requested.current), number(full.allocated.current));
  CHECK(now.requested.total == full.requested.total, "frees changed the total of requested");
  CHECK(now.allocated.total == full.allocated.total && now.active.total == full.active.total &&
            now.bytes_reserved.total >= full.bytes_reserved.total,
        "frees changed the total of allocated, active or reserved");
  CHECK(now.provider_allocations == allocator.provider.calls, "provider_allocations is %llu, but the provider allocated %llu times",
        number(now.provider_allocations), number(allocator.provider.calls));
  CHECK(now.inactive_split.current == 0, "with all blocks freed inactive_split is %llu", number(now.inactive_split.current));
  const heddle_block_t waits = allocator.allocate(70000);
  allocator.free(waits, {{stream.handle(), 1}});
  const heddle_allocator_statistics_t waiting = allocator.statistics();
  CHECK(waiting.requested.current == start.requested.current && waiting.allocated.current == start.allocated.current,
        "with all blocks freed, one after a point, requested is %llu and allocated %llu; both count what is live",
        number(waiting.requested.current), number(waiting.allocated.current));
  CHECK(!allocator.provider.buffers.count(waits.buffer) || waiting.active.current >= start.active.current + 70000,
        "70000 bytes wait for a point, but active is %llu", number(waiting.active.current));
  stream.value = 1;
}

void holders_add_up() {
  Timeline stream;                     // outlives the allocator
  const std::string copy = "weights";  // owners are compared by text
  const heddle_string_t weights = string_of("weights"), gradients = string_of("gradients \u00e4 \"0\""), same = string_of(copy);
  Allocator allocator;
  CHECK(allocator.holders().empty(), "without blocks there are holders");
  struct Expected {
    uint64_t blocks = 0, bytes = 0;
  };
  std::map<std::string, Expected> expected;
  struct Owned {
    Live live;
    std::string owner;
  };
  std::vector<Owned> live;
  auto compare = [&](const char* when) {
    const std::map<std::string, heddle_holder_t> told = allocator.holders();
    uint64_t sum = 0;
    for (const auto& [owner, holder] : told) sum += holder.requested.current;
    for (const auto& [owner, holds] : expected) {
      const auto found = told.find(owner);
      REQUIRE(found != told.end() || holds.blocks == 0, "%s: holders do not report '%s'", when, owner.c_str());
      if (found == told.end()) continue;
      CHECK(found->second.blocks == holds.blocks && found->second.requested.current == holds.bytes,
            "%s: '%s' holds %llu bytes in %llu blocks according to holders, but %llu in %llu were requested", when, owner.c_str(),
            number(found->second.requested.current), number(found->second.blocks), number(holds.bytes), number(holds.blocks));
    }
    for (const auto& [owner, holder] : told)
      CHECK(expected.count(owner), "%s: holders report %s, which never was an owner", when, shown(owner).c_str());
    const uint64_t requested = allocator.statistics().requested.current;
    CHECK(sum == requested, "%s: the sum of the holders is %llu, but requested is %llu", when, number(sum), number(requested));
  };
  const heddle_string_t* const owners[] = {&weights, &gradients, &same, nullptr};
  for (int i = 0; i < 200; ++i) {
    const heddle_string_t* owner = owners[i % 4];
    const uint64_t size = random_below(100000) + 1;
    live.push_back({{allocator.allocate(size, 0, owner), size}, owner ? text_of(*owner) : std::string()});
    Expected& holds = expected[live.back().owner];
    ++holds.blocks;
    holds.bytes += size;
  }
  compare("with 200 blocks");
  while (!live.empty()) {
    allocator.free(live.back().live.block);
    Expected& holds = expected[live.back().owner];
    --holds.blocks;
    holds.bytes -= live.back().live.size;
    live.pop_back();
    if (live.size() == 90) compare("with 90 blocks left");
  }
  allocator.free(allocator.allocate(70000, 0, &weights), {{stream.handle(), 1}});
  CHECK(allocator.holders().empty(), "with all blocks freed, one after a point, there are holders");
  stream.value = 1;
}

void trims() {
  Allocator allocator;
  std::vector<heddle_block_t> blocks;
  for (int i = 0; i < 50; ++i) blocks.push_back(allocator.allocate(uint64_t{3} << 20));
  const heddle_block_t kept = allocator.allocate(1000);
  allocator.trim(0);
  for (const heddle_block_t& block : blocks) allocator.free(block);
  allocator.trim(0);
  CHECK(allocator.provider.used <= uint64_t{66} << 20, "after a trim to 0 with 1000 live bytes %llu bytes are held",
        number(allocator.provider.used));
  allocator.free(kept);
  allocator.trim(0);
  allocator.trim(uint64_t{5} << 20);
  CHECK(!allocator.provider.trims.empty() && allocator.provider.trims.back() == uint64_t{5} << 20,
        "a trim down to %llu bytes was not passed on to the provider as such [HD-M-05]", number(uint64_t{5} << 20));
  allocator.trim(0);
  CHECK(allocator.provider.used == 0, "after a trim to 0 without live blocks %llu bytes are held", number(allocator.provider.used));
  allocator.free(allocator.allocate(1000));
}

void exhausted() {
  Allocator allocator(uint64_t{64} << 20);
  const heddle_string_t weights = string_of("the kit's weights");
  std::vector<heddle_block_t> blocks;
  heddle_block_t block;
  for (int i = 0; i < 1000; ++i) {
    Result status = allocator.try_allocate(uint64_t{1} << 20, 0, &block, {nullptr, 0}, nullptr, &weights);
    if (status.ok()) {
      blocks.push_back(block);
      continue;
    }
    REQUIRE(status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED,
            "when the provider is exhausted a block returned %s; RESOURCE_EXHAUSTED was expected", status.text().c_str());
    CHECK(status.message().find("1048576") != std::string::npos, "the refusal does not name the size: %s", status.message().c_str());
    CHECK(status.message().find("the kit's weights") != std::string::npos,
          "the refusal does not name the owners of the memory: %s [HD-M-03]", status.message().c_str());
    break;
  }
  REQUIRE(blocks.size() >= 32 && blocks.size() <= 64, "%zu blocks of 1 MiB were allocated in 64 MiB", blocks.size());
  CHECK(allocator.statistics().exhaustions >= 1, "exhaustions is 0 after one");
  for (const heddle_block_t& each : blocks) allocator.free(each);
  // Many small free blocks become one large one: the free memory is returned, and requested again.
  const uint64_t refusals = allocator.provider.refusals, frees = allocator.provider.frees, retries = allocator.statistics().retries;
  Result status = allocator.try_allocate(uint64_t{40} << 20, 0, &block);
  CHECK(status.ok(), "with all of 64 MiB free 40 MiB returned %s; it must trim and try again [HD-M-03]", status.text().c_str());
  if (status.ok() && allocator.provider.refusals > refusals && allocator.provider.frees > frees)
    CHECK(allocator.statistics().retries > retries, "an allocation that succeeded after a trim is not counted in retries");
  if (status.ok()) allocator.free(block);
}

void limit_is_kept() {
  std::vector<OptionValue> bounded;
  bool initial = false;
  for (const OptionValue& option : settings().options) {
    if (option.name == "pool_limit" || option.name == "limit") bounded.push_back(integer(option.name.c_str(), 16 << 20));
    if (option.name == "pool_initial") initial = true;
  }
  if (bounded.empty()) absent("its manifest has no option pool_limit or limit");
  if (initial) bounded.push_back(integer("pool_initial", 0));
  Allocator allocator(uint64_t{1} << 40, bounded);
  std::vector<heddle_block_t> blocks;
  for (int i = 0; i < 1000; ++i) {
    heddle_block_t block;
    Result status = allocator.try_allocate(100000, 0, &block);
    if (!status.ok()) {
      CHECK(status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED, "beyond its limit a block returned %s; RESOURCE_EXHAUSTED was expected",
            status.text().c_str());
      break;
    }
    blocks.push_back(block);
  }
  CHECK(allocator.provider.peak <= 16 << 20, "with a limit of 16 MiB %llu bytes were requested", number(allocator.provider.peak));
  CHECK(blocks.size() >= 80, "with a limit of 16 MiB only %zu blocks of 100000 bytes were allocated", blocks.size());
  for (const heddle_block_t& block : blocks) allocator.free(block);
}

// Memory use like that of a training step: activations last in, first out; gradients; short-lived workspaces.
void fragmentation() {
  Allocator allocator;
  std::vector<uint64_t> layers;
  // Buffers are records without memory, so the run can be so large that the size of an allocator's chunks does not matter.
  for (int i = 0; i < 60; ++i) layers.push_back((random_below(63) + 1) << (16 + random_below(8)));
  uint64_t live = 0, peak = 0;
  auto get = [&](std::vector<Live>* blocks, uint64_t size) {
    blocks->push_back({allocator.allocate(size), size});
    live += size;
    peak = std::max(peak, live);
  };
  auto drop = [&](std::vector<Live>* blocks) {
    live -= blocks->back().size;
    allocator.free(blocks->back().block);
    blocks->pop_back();
  };
  std::vector<Live> weights, activations, gradients, workspace;
  for (uint64_t size : layers) get(&weights, size * 2);
  for (int step = 0; step < 10; ++step) {
    for (uint64_t size : layers) {
      get(&workspace, size / 2 + 512);
      get(&activations, size);
      drop(&workspace);
    }
    while (!activations.empty()) {
      get(&gradients, activations.back().size * 2);
      get(&workspace, activations.back().size + 1000);
      drop(&workspace);
      drop(&activations);
    }
    while (!gradients.empty()) drop(&gradients);
  }
  while (!weights.empty()) drop(&weights);
  CHECK(allocator.provider.peak <= peak * 3 / 2, "a training run with at most %llu live bytes requested %llu from the provider",
        number(peak), number(allocator.provider.peak));
}

}  // namespace

void add_allocator_usage_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"allocator.statistics", "statistics add up [HD-M-07]", statistics_add_up, Kind::kAllocator},
       {"allocator.holders", "holders add up to what is requested, by the owners that were given [HD-M-07]", holders_add_up,
        Kind::kAllocator},
       {"allocator.trim", "trim returns free memory", trims, Kind::kAllocator},
       {"allocator.exhaustion", "free memory is returned and requested again before an allocation fails", exhausted, Kind::kAllocator},
       {"allocator.limit", "the limit of the option pool_limit, or limit, is enforced", limit_is_kept, Kind::kAllocator},
       {"allocator.fragmentation", "a training run requests little more than its live bytes", fragmentation, Kind::kAllocator}});
}

}  // namespace heddle::conformance
