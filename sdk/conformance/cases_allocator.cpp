// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: heddle.allocator/1.
#include <algorithm>
#include <climits>
#include <cstring>
#include <map>

#include "allocator_session.h"

namespace heddle::conformance {
namespace {

bool overlap(const heddle_block_t& a, uint64_t a_size, const heddle_block_t& b, uint64_t b_size) {
  return a.buffer == b.buffer && a.offset < b.offset + b_size && b.offset < a.offset + a_size;
}

struct Live {
  heddle_block_t block;
  uint64_t size;
};

void blocks_are_disjoint() {
  Allocator allocator;
  std::vector<Live> live;
  for (int i = 0; i < 3000; ++i) {
    if (!live.empty() && random_below(100) < 45) {
      const size_t which = random_below(live.size());
      allocator.free(live[which].block);
      live[which] = live.back();
      live.pop_back();
      continue;
    }
    const uint64_t size = random_below(4) ? random_below(5000) + 1 : random_below(3 << 20) + 1;
    const uint64_t alignment = random_below(3) ? 0 : uint64_t{1} << random_below(13);
    const heddle_block_t block = allocator.allocate(size, alignment);
    for (const Live& other : live) {
      REQUIRE(!overlap(block, size, other.block, other.size), "two live blocks overlap: %llu at %llu and %llu at %llu of one buffer",
              number(size), number(block.offset), number(other.size), number(other.block.offset));
    }
    live.push_back({block, size});
  }
  for (const Live& each : live) allocator.free(each.block);
}

void odd_sizes() {
  Allocator allocator;
  std::vector<heddle_block_t> blocks;
  for (uint64_t size : {uint64_t{0}, uint64_t{0}, uint64_t{1}, uint64_t{63}, uint64_t{64}, uint64_t{65}, (uint64_t{1} << 32) + 1}) {
    blocks.push_back(allocator.allocate(size));
  }
  for (uint64_t alignment = 1; alignment <= 1 << 21; alignment *= 2) blocks.push_back(allocator.allocate(100, alignment));
  for (const heddle_block_t& block : blocks) allocator.free(block);
  heddle_block_t block;
  EXPECT_CODE(allocator.try_allocate(64, 3, &block).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_CODE(allocator.try_allocate(64, 96, &block).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  for (uint64_t size : {UINT64_MAX, UINT64_MAX - 100, UINT64_MAX / 2}) {
    Result status = allocator.try_allocate(size, 0, &block);
    CHECK(status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED, "%llu bytes gave %s; RESOURCE_EXHAUSTED was expected", number(size),
          status.text().c_str());
  }
}

void provider_gets_all_back() {
  Timeline stream;  // outlives the allocator
  Allocator allocator;
  std::vector<heddle_block_t> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(allocator.allocate(1 + random_below(100000)));
  for (const heddle_block_t& block : blocks) allocator.free(block);
  const heddle_point_t used_until = {stream.handle(), 7};
  allocator.free(allocator.allocate(12345), {used_until});
  EXPECT_OK(allocator.api().destroy(allocator.handle));
  allocator.handle = nullptr;
  CHECK(allocator.provider.buffers.empty(), "destroy left %zu of the provider's buffers", allocator.provider.buffers.size());
  CHECK(allocator.provider.waits_for(used_until), "destroy gave memory back without the point that it was freed behind [HD-M-05]");
  stream.value = 7;
}

void destroy_with_blocks() {
  Allocator allocator;
  const heddle_block_t block = allocator.allocate(12345);
  Result status(allocator.api().destroy(allocator.handle));
  REQUIRE(status.code() == HEDDLE_STATUS_FAILED_PRECONDITION, "destroy with a live block gave %s [HD-L-01]", status.text().c_str());
  CHECK(status.message().find('1') != std::string::npos, "the refusal does not say what lives: %s", status.message().c_str());
  allocator.free(block);
}

void shutdown_with_an_allocator() {
  Allocator allocator;
  Result status(plugin().table.shutdown(allocator.instance.handle));
  REQUIRE(status.code() == HEDDLE_STATUS_FAILED_PRECONDITION, "shutdown with a live allocator gave %s [HD-L-01]", status.text().c_str());
  allocator.free(allocator.allocate(10));
}

void no_provider() {
  Instance instance;
  heddle_allocator_params_t params = {sizeof params, 0, nullptr, nullptr, sizeof(heddle_option_t), string_of("kit")};
  heddle_allocator_t* made = nullptr;
  EXPECT_CODE(instance.tables.allocator.create(instance.handle, &params, &made), HEDDLE_STATUS_INVALID_ARGUMENT);
}

void waits_for_points() {
  Timeline one, two;  // outlive the allocator
  Allocator allocator(uint64_t{8} << 20);
  const heddle_point_t points[] = {{one.handle(), 5}, {two.handle(), 7}};
  // All memory there is, in one block: freed with two points that are not reached.
  const uint64_t size = uint64_t{5} << 20;
  heddle_block_t first = allocator.allocate(size);
  allocator.free(first, {points[0], points[1]});
  heddle_block_t second;
  auto try_all = [&](const char* when, bool expected) {
    Result status = allocator.try_allocate(size, 0, &second);
    CHECK(status.ok() == expected, "%s: a block that must be usable at once gave %s [HD-M-01]", when, status.text().c_str());
    if (!status.ok())
      CHECK(status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED, "%s: the block gave %s; RESOURCE_EXHAUSTED was expected", when,
            status.text().c_str());
    if (status.ok() && !expected) allocator.free(second);
  };
  try_all("freed with two points, neither reached", false);
  one.value = 5;
  try_all("freed with two points, one reached", false);
  two.value = 6;
  try_all("freed with two points, one reached", false);
  two.value = 7;
  try_all("freed with two points, both reached", true);
  if (second.buffer) allocator.free(second);
}

// All the memory there is, freed with points of streams and asked for by a caller at a place of one of them: it comes with the points that the caller
// is not behind, or not at all.
class StreamOrder {
 public:
  struct Place {
    size_t stream;
    uint64_t value;
  };
  void freed(std::vector<Place> points, std::vector<size_t> reached = {}) {
    points_ = std::move(points);
    reached_ = std::move(reached);
  }
  void ask(Place after) {
    Timeline streams[4];  // outlive the allocator
    Allocator allocator(uint64_t{8} << 20);
    const uint64_t size = uint64_t{5} << 20;
    std::vector<heddle_point_t> points, waits;
    std::string text;
    for (const Place& each : points_) {
      points.push_back({streams[each.stream].handle(), each.value});
      text += (text.empty() ? "" : " and ") + said(each);
    }
    allocator.free(allocator.allocate(size), points);
    for (size_t stream : reached_) streams[stream].value = 1000;
    heddle_block_t block;
    Result status = allocator.try_allocate(size, 0, &block, {streams[after.stream].handle(), after.value}, &waits);
    CHECK(status.ok() || status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED,
          "a block in stream order gave %s; success or RESOURCE_EXHAUSTED was expected", status.text().c_str());
    for (const Place& each : points_) {
      const bool is_reached = std::find(reached_.begin(), reached_.end(), each.stream) != reached_.end();
      if (!status.ok() || is_reached || (each.stream == after.stream && each.value <= after.value)) continue;
      const bool waited = std::any_of(waits.begin(), waits.end(), [&](heddle_point_t point) {
        return point.timeline == streams[each.stream].handle() && point.value >= each.value;
      });
      CHECK(waited, "a block freed behind %s came to %s without %s among the %zu points to wait for [HD-M-01]", text.c_str(),
            said(after).c_str(), said(each).c_str(), waits.size());
    }
    points.push_back({streams[after.stream].handle(), after.value});  // a wait for where the caller is already is none
    for (const heddle_point_t& wait : waits) {
      CHECK(std::any_of(points.begin(), points.end(),
                        [&](heddle_point_t point) { return point.timeline == wait.timeline && wait.value <= point.value; }),
            "a block freed behind %s came to %s with a point to wait for that is none of those it was freed with", text.c_str(),
            said(after).c_str());
    }
    if (status.ok()) allocator.free(block);
    for (Timeline& stream : streams) stream.value = 1000;
    allocator.free(allocator.allocate(size));
  }

 private:
  static std::string said(Place place) {
    return "point " + std::to_string(place.value) + " of stream " + std::string(1, static_cast<char>('A' + place.stream));
  }
  std::vector<Place> points_;
  std::vector<size_t> reached_;  // streams
};

constexpr size_t A = 0, B = 1, C = 2;

void stream_order() {
  StreamOrder order;
  order.freed({{A, 3}});
  order.ask({A, 3});
  order.ask({A, 4});  // the stream's own: behind it
  // Another stream's values say nothing of this one's.
  for (uint64_t value : {uint64_t{1}, uint64_t{3}, uint64_t{100}}) order.ask({B, value});
  order.freed({{A, 5}, {B, 2}});
  for (StreamOrder::Place after : {StreamOrder::Place{A, 9}, {B, 9}, {C, 1}, {C, 100}}) order.ask(after);
  order.freed({{A, 5}, {B, 2}}, {B});
  order.ask({C, 100});
  order.freed({{B, 2}, {A, 5}, {C, 7}}, {B});
  order.ask({C, 100});
  order.ask({B, 100});
}

void earlier_in_the_stream() {
  StreamOrder order;
  order.freed({{A, 9}});
  order.ask({A, 4});
  order.ask({A, 8});
  order.freed({{B, 2}, {A, 9}});
  order.ask({A, 8});
}

// The most bytes in a row that no live block has.
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
  CHECK(full.requested.current - start.requested.current == requested, "requested is %llu after %llu bytes were asked for",
        number(full.requested.current), number(requested));
  CHECK(full.requested.total - start.requested.total == requested, "requested in total is %llu after %llu bytes were asked for",
        number(full.requested.total), number(requested));
  CHECK(full.allocated.current >= full.requested.current && full.active.current >= full.allocated.current,
        "requested %llu, allocated %llu and active %llu do not grow", number(full.requested.current), number(full.allocated.current),
        number(full.active.current));
  CHECK(full.bytes_reserved.current == allocator.provider.used, "bytes_reserved is %llu, and the provider gave %llu",
        number(full.bytes_reserved.current), number(allocator.provider.used));
  CHECK(full.bytes_reserved.current >= full.active.current, "bytes_reserved %llu is less than active %llu",
        number(full.bytes_reserved.current), number(full.active.current));
  CHECK(full.allocations - start.allocations == 200, "allocations is %llu after 200", number(full.allocations - start.allocations));
  for (const heddle_memory_count_t* count : {&full.requested, &full.allocated, &full.active, &full.bytes_reserved, &full.inactive_split}) {
    CHECK(count->peak >= count->current && count->total >= count->peak, "of a quantity there are %llu bytes, %llu at most, %llu in total",
          number(count->current), number(count->peak), number(count->total));
  }
  std::vector<Live> left;
  for (size_t i = 0; i < live.size(); ++i) {
    if (i % 2) left.push_back(live[i]);
    if (i % 2 == 0) allocator.free(live[i].block);
  }
  const heddle_allocator_statistics_t half = allocator.statistics();
  const uint64_t gap = largest_gap(allocator.provider, left);
  CHECK(half.largest_free <= gap, "largest_free is %llu, and there are no more than %llu free bytes in a row", number(half.largest_free),
        number(gap));
  for (const Live& each : left) allocator.free(each.block);
  const heddle_allocator_statistics_t now = allocator.statistics();
  CHECK(now.requested.current == start.requested.current && now.allocated.current == start.allocated.current &&
            now.active.current == start.active.current,
        "with all blocks freed requested is %llu, allocated %llu and active %llu", number(now.requested.current),
        number(now.allocated.current), number(now.active.current));
  CHECK(now.frees - start.frees == 200, "frees is %llu after 200", number(now.frees - start.frees));
  CHECK(now.allocated.peak == full.allocated.current && now.requested.peak == full.requested.current,
        "the peaks of requested and allocated are %llu and %llu, and the most was %llu and %llu", number(now.requested.peak),
        number(now.allocated.peak), number(full.requested.current), number(full.allocated.current));
  CHECK(now.requested.total == full.requested.total, "frees changed what was requested in total");
  CHECK(now.allocated.total == full.allocated.total && now.active.total == full.active.total &&
            now.bytes_reserved.total >= full.bytes_reserved.total,
        "frees changed what was allocated, active or reserved in total");
  CHECK(now.provider_allocations == allocator.provider.calls, "provider_allocations is %llu, and the provider gave %llu times",
        number(now.provider_allocations), number(allocator.provider.calls));
  CHECK(now.inactive_split.current == 0, "with all blocks freed inactive_split is %llu", number(now.inactive_split.current));
  const heddle_block_t waits = allocator.allocate(70000);
  allocator.free(waits, {{stream.handle(), 1}});
  const heddle_allocator_statistics_t waiting = allocator.statistics();
  CHECK(waiting.requested.current == start.requested.current && waiting.allocated.current == start.allocated.current,
        "with all blocks freed, one behind a point, requested is %llu and allocated %llu; both count what is live",
        number(waiting.requested.current), number(waiting.allocated.current));
  CHECK(!allocator.provider.buffers.count(waits.buffer) || waiting.active.current >= start.active.current + 70000,
        "70000 bytes wait for a point, and active is %llu", number(waiting.active.current));
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
      REQUIRE(found != told.end() || holds.blocks == 0, "%s: holders do not tell of '%s'", when, owner.c_str());
      if (found == told.end()) continue;
      CHECK(found->second.blocks == holds.blocks && found->second.requested.current == holds.bytes,
            "%s: '%s' holds %llu bytes in %llu blocks by holders, and %llu in %llu by what was asked for", when, owner.c_str(),
            number(found->second.requested.current), number(found->second.blocks), number(holds.bytes), number(holds.blocks));
    }
    for (const auto& [owner, holder] : told)
      CHECK(expected.count(owner), "%s: holders tell of %s, whom nobody named", when, shown(owner).c_str());
    const uint64_t requested = allocator.statistics().requested.current;
    CHECK(sum == requested, "%s: the sum of the holders is %llu, and requested %llu", when, number(sum), number(requested));
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
  CHECK(allocator.holders().empty(), "with all blocks freed, one behind a point, there are holders");
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
  CHECK(allocator.provider.used == 0, "after a trim to 0 with nothing live %llu bytes are held", number(allocator.provider.used));
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
            "when the provider has no more a block gave %s; RESOURCE_EXHAUSTED was expected", status.text().c_str());
    CHECK(status.message().find("1048576") != std::string::npos, "the refusal does not name the size: %s", status.message().c_str());
    CHECK(status.message().find("the kit's weights") != std::string::npos, "the refusal does not say who holds the memory: %s [HD-M-03]",
          status.message().c_str());
    break;
  }
  REQUIRE(blocks.size() >= 32 && blocks.size() <= 64, "of 64 MiB %zu blocks of 1 MiB were had", blocks.size());
  CHECK(allocator.statistics().exhaustions >= 1, "exhaustions is 0 after one");
  for (const heddle_block_t& each : blocks) allocator.free(each);
  // Many small free blocks become one large one: what is free is given back, and asked for again.
  const uint64_t refusals = allocator.provider.refusals, frees = allocator.provider.frees, retries = allocator.statistics().retries;
  Result status = allocator.try_allocate(uint64_t{40} << 20, 0, &block);
  CHECK(status.ok(), "with all of 64 MiB free 40 MiB gave %s; it trims and tries again [HD-M-03]", status.text().c_str());
  if (status.ok() && allocator.provider.refusals > refusals && allocator.provider.frees > frees)
    CHECK(allocator.statistics().retries > retries, "what was refused, and had after a trim, does not count among the retries");
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
      CHECK(status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED, "beyond its limit a block gave %s; RESOURCE_EXHAUSTED was expected",
            status.text().c_str());
      break;
    }
    blocks.push_back(block);
  }
  CHECK(allocator.provider.peak <= 16 << 20, "with a limit of 16 MiB %llu bytes were taken", number(allocator.provider.peak));
  CHECK(blocks.size() >= 80, "with a limit of 16 MiB only %zu blocks of 100000 bytes were had", blocks.size());
  for (const heddle_block_t& block : blocks) allocator.free(block);
}

// Memory as a training step uses it: activations last in, first out; gradients; workspaces that come and go.
void fragmentation() {
  Allocator allocator;
  std::vector<uint64_t> layers;
  // Buffers are records and no memory, so that the run can be so large that what an allocator takes at a time does not count.
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
  CHECK(allocator.provider.peak <= peak * 3 / 2, "a training run with %llu live bytes at most took %llu from the provider", number(peak),
        number(allocator.provider.peak));
}

void provider_fails() {
  Allocator allocator;
  allocator.provider.limit = 0;
  heddle_block_t block;
  EXPECT_CODE(allocator.try_allocate(uint64_t{200} << 20, 0, &block).release(), HEDDLE_STATUS_RESOURCE_EXHAUSTED);
  allocator.provider.limit = uint64_t{1} << 40;
  allocator.free(allocator.allocate(uint64_t{200} << 20));
}

void structs() {
  Allocator allocator;
  struct {
    heddle_block_params_t params;
    uint64_t tail[kTailWords];
  } larger = {{sizeof larger, 0, 1000, 0, {nullptr, 0}, nullptr}, {}};
  heddle_block_t block = {};
  uint32_t waits = 0;
  EXPECT_OK(allocator.api().allocate(allocator.handle, &larger.params, &block, nullptr, &waits));
  allocator.free(block);
  larger.tail[kTailWords - 1] = 7;
  EXPECT_CODE(allocator.api().allocate(allocator.handle, &larger.params, &block, nullptr, &waits), HEDDLE_STATUS_INVALID_ARGUMENT);
  heddle_block_params_t smaller = {offsetof(heddle_block_params_t, alignment_bytes), 0, 1000, 3, {nullptr, 0}, nullptr};
  Result small(allocator.api().allocate(allocator.handle, &smaller, &block, nullptr, &waits));
  CHECK(small.ok(), "block params without an alignment gave %s [HD-E-04]", small.text().c_str());
  if (small.ok()) allocator.free(block);
  struct {
    heddle_allocator_statistics_t known;
    char behind[32];
  } memory;
  std::memset(&memory, 0x77, sizeof memory);
  memory.known.struct_size = 24;
  Result status(allocator.api().statistics(allocator.handle, &memory.known));
  if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) return;
  for (size_t i = 24; i < sizeof memory; ++i) {
    REQUIRE(reinterpret_cast<char*>(&memory)[i] == 0x77, "with statistics of 24 bytes byte %zu was written [HD-E-04]", i);
  }
}

void host_memory_ends() {
  Allocator allocator;
  bool injected = true;
  for (int64_t at = 0; at < 200 && injected && !failed(); ++at) {
    allocator.instance.host.fail_allocation(at);
    heddle_block_t block;
    Result status = allocator.try_allocate(uint64_t{70} << 20, 0, &block);
    injected = allocator.instance.host.has_failed_allocation();
    CHECK(status.ok() || status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED,
          "a block without host memory gave %s; success or RESOURCE_EXHAUSTED was expected", status.text().c_str());
    if (status.ok()) allocator.free(block);
    allocator.instance.host.fail_allocation(-1);
    allocator.trim(0);
    CHECK(allocator.provider.used == 0, "a block that could not be had for want of host memory left %llu bytes of the provider's",
          number(allocator.provider.used));
  }
}

void in_threads() {
  Allocator allocator;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::vector<Live> live;
  for (int t = 0; t < 8; ++t) {
    const uint64_t seed = random_numbers()();
    threads.emplace_back([&, seed] {
      std::mt19937_64 numbers(seed);
      std::vector<Live> own;
      for (int i = 0; i < 500; ++i) {
        if (own.size() > 20 || (!own.empty() && numbers() % 2)) {
          const Live last = own.back();
          own.pop_back();
          {
            std::lock_guard<std::mutex> lock(mutex);
            std::erase_if(live, [&](const Live& each) {
              return each.block.buffer == last.block.buffer && each.block.offset == last.block.offset && each.size == last.size;
            });
          }
          allocator.free(last.block);
          continue;
        }
        const uint64_t size = numbers() % 200000 + 1;
        const Live made = {allocator.allocate(size), size};
        own.push_back(made);
        std::lock_guard<std::mutex> lock(mutex);
        for (const Live& other : live) {
          REQUIRE(!overlap(made.block, size, other.block, other.size), "two threads were given overlapping blocks");
        }
        live.push_back(made);
      }
      for (const Live& each : own) {
        std::lock_guard<std::mutex> lock(mutex);
        std::erase_if(
            live, [&](const Live& other) { return other.block.buffer == each.block.buffer && other.block.offset == each.block.offset; });
        allocator.free(each.block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(allocator.statistics().requested.current == 0, "with all blocks freed by 8 threads requested is %llu",
        number(allocator.statistics().requested.current));
}

void null_releases() {
  Instance instance;
  EXPECT_OK(instance.tables.allocator.destroy(nullptr));
}

void alignment_beyond_the_buffer() {
  Allocator allocator;
  heddle_block_t first = allocator.allocate(100, 4096), second = allocator.allocate(100, 4096);
  CHECK(allocator.provider.largest_alignment >= 4096, "a block aligned to 4096 lies in a buffer that was asked for with alignment %llu",
        number(allocator.provider.largest_alignment));
  allocator.free(first);
  allocator.free(second);
}

}  // namespace

void add_allocator_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"allocator.disjoint", "live blocks do not overlap, are aligned and lie inside the provider's buffers", blocks_are_disjoint,
        Kind::kAllocator},
       {"allocator.sizes", "sizes from 0 to beyond 4 GiB work; what cannot be is refused [HD-M-02]", odd_sizes, Kind::kAllocator},
       {"allocator.alignment", "a buffer is asked for with the alignment of its blocks", alignment_beyond_the_buffer, Kind::kAllocator},
       {"allocator.gives_back", "destroy gives all buffers back", provider_gets_all_back, Kind::kAllocator},
       {"allocator.destroy_with_blocks", "destroy with live blocks is refused and changes nothing", destroy_with_blocks, Kind::kAllocator},
       {"allocator.shutdown_with_one", "shutdown with a live allocator is refused", shutdown_with_an_allocator, Kind::kAllocator},
       {"allocator.no_provider", "an allocator without a provider is INVALID_ARGUMENT", no_provider, Kind::kAllocator},
       {"allocator.waits", "a freed block is used again once all its points are reached", waits_for_points, Kind::kAllocator},
       {"allocator.stream_order", "in stream order a block comes with all that its next user has to wait for", stream_order,
        Kind::kAllocator},
       {"allocator.earlier", "a block is not given to an earlier place of its stream", earlier_in_the_stream, Kind::kAllocator},
       {"allocator.statistics", "statistics add up [HD-M-07]", statistics_add_up, Kind::kAllocator},
       {"allocator.holders", "holders add up to what is requested, by the owners that were given [HD-M-07]", holders_add_up,
        Kind::kAllocator},
       {"allocator.trim", "trim gives back what is free", trims, Kind::kAllocator},
       {"allocator.exhaustion", "what is free is given back and asked for again before memory ends", exhausted, Kind::kAllocator},
       {"allocator.limit", "the limit of the option pool_limit, or limit, is kept", limit_is_kept, Kind::kAllocator},
       {"allocator.fragmentation", "a training run takes little more than its live bytes", fragmentation, Kind::kAllocator},
       {"allocator.provider_fails", "a provider's failure is passed on and harms nothing", provider_fails, Kind::kAllocator},
       {"allocator.structs", "sized structs, smaller and larger", structs, Kind::kAllocator},
       {"allocator.host_memory", "host memory that ends leaves no buffer behind", host_memory_ends, Kind::kAllocator},
       {"allocator.null", "destroying NULL does nothing", null_releases, Kind::kAllocator},
       {"allocator.threads", "8 threads allocate and free", in_threads, Kind::kAllocator}});
}

}  // namespace heddle::conformance
