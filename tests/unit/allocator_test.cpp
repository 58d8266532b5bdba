// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an allocator owes the host: blocks that never overlap, reuse in stream order, limits, exact statistics. The first cases run on every
// allocator, the others on heddle.pool.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "plugin_host.h"

namespace heddle::test {
namespace {

// Buffers of malloc'ed tags and points that a test reaches by hand.
class Provider {
 public:
  Provider() {
    table_ = {this,
              [](void* self, uint64_t size, uint64_t alignment, heddle_buffer_t** out) {
                return static_cast<Provider*>(self)->allocate(size, alignment, out);
              },
              [](void* self, heddle_buffer_t* buffer) { static_cast<Provider*>(self)->free(buffer); },
              [](void* self, heddle_point_t point) -> uint32_t { return static_cast<Provider*>(self)->reached(point) ? 1 : 0; }};
  }
  const heddle_provider_t* table() const { return &table_; }
  void reach(heddle_timeline_t* timeline, uint64_t value) {
    std::lock_guard<std::mutex> lock(mutex_);
    reached_[timeline] = value;
  }
  uint64_t live() {
    std::lock_guard<std::mutex> lock(mutex_);
    return sizes_.size();
  }
  uint64_t live_bytes() {
    std::lock_guard<std::mutex> lock(mutex_);
    uint64_t sum = 0;
    for (const auto& [buffer, size] : sizes_) sum += size;
    return sum;
  }
  uint64_t size_of(heddle_buffer_t* buffer) {
    std::lock_guard<std::mutex> lock(mutex_);
    return sizes_.at(buffer);
  }
  uint64_t capacity = UINT64_MAX;
  std::atomic<uint64_t> asked{0};
  PluginHost* host = nullptr;

 private:
  heddle_status_t* allocate(uint64_t size, uint64_t, heddle_buffer_t** out) {
    ++asked;
    *out = nullptr;
    if (size > capacity || live_bytes() > capacity - size) {
      return host->table()->status_create(nullptr, HEDDLE_STATUS_RESOURCE_EXHAUSTED, {}, 0, string_of("the provider is full"));
    }
    *out = reinterpret_cast<heddle_buffer_t*>(new char);
    std::lock_guard<std::mutex> lock(mutex_);
    sizes_[*out] = size;
    return nullptr;
  }
  void free(heddle_buffer_t* buffer) {
    std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_EQ(sizes_.erase(buffer), 1u);
    delete reinterpret_cast<char*>(buffer);
  }
  bool reached(heddle_point_t point) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = reached_.find(point.timeline);
    return found != reached_.end() && found->second >= point.value;
  }
  heddle_provider_t table_;
  std::mutex mutex_;
  std::map<heddle_buffer_t*, uint64_t> sizes_;
  std::map<heddle_timeline_t*, uint64_t> reached_;
};

class AllocatorTest : public testing::Test {
 protected:
  void open(const char* path, const std::vector<heddle_option_t>& options = {}) {
    provider.host = &host;
    plugin = std::make_unique<LoadedPlugin>(path);
    ASSERT_OK((*plugin)->create(host.table(), &instance));
    api = static_cast<const heddle_allocator_interface_t*>((*plugin)->get_interface(instance, string_of(HEDDLE_ALLOCATOR_INTERFACE)));
    ASSERT_NE(api, nullptr);
    heddle_allocator_params_t params = {
        sizeof params, static_cast<uint32_t>(options.size()), provider.table(), options.data(), sizeof(heddle_option_t), string_of("test")};
    ASSERT_OK(api->create(instance, &params, &allocator));
  }
  void TearDown() override {
    if (allocator) EXPECT_OK(api->destroy(allocator));
    if (instance) EXPECT_OK((*plugin)->shutdown(instance));
    EXPECT_EQ(provider.live(), 0u) << "buffers were not given back";
    EXPECT_EQ(PluginHost::live_statuses().load(), 0);
  }
  heddle_status_t* try_allocate(uint64_t size, heddle_block_t* out, heddle_point_t after = {}, uint64_t alignment = 0) {
    heddle_block_params_t params = {sizeof params, 8, size, alignment, after};
    return api->allocate(allocator, &params, out, waits, &wait_count);
  }
  heddle_block_t allocate(uint64_t size, heddle_point_t after = {}, uint64_t alignment = 0) {
    heddle_block_t block = {};
    EXPECT_OK(try_allocate(size, &block, after, alignment));
    return block;
  }
  void free(const heddle_block_t& block, const std::vector<heddle_point_t>& points = {}) {
    api->free(allocator, &block, points.data(), static_cast<uint32_t>(points.size()));
  }
  heddle_allocator_statistics_t statistics() {
    heddle_allocator_statistics_t values = {};
    values.struct_size = sizeof values;
    EXPECT_OK(api->statistics(allocator, &values));
    return values;
  }
  static heddle_timeline_t* timeline(uintptr_t number) { return reinterpret_cast<heddle_timeline_t*>(number * 64); }
  static heddle_option_t bytes(const char* name, int64_t value) {
    return {sizeof(heddle_option_t), HEDDLE_OPTION_INT, string_of(name), value, 0, {}};
  }

  PluginHost host;
  Provider provider;
  std::unique_ptr<LoadedPlugin> plugin;
  heddle_plugin_instance_t* instance = nullptr;
  const heddle_allocator_interface_t* api = nullptr;
  heddle_allocator_t* allocator = nullptr;
  heddle_point_t waits[8] = {};
  uint32_t wait_count = 0;
};

class EveryAllocator : public AllocatorTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { open(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Plugins, EveryAllocator,
                         testing::Values(HEDDLE_TEST_PLUGINS "/libheddle_system.so", HEDDLE_TEST_PLUGINS "/libheddle_pool.so"),
                         [](const auto& info) { return std::string(info.param).find("pool") != std::string::npos ? "pool" : "system"; });

TEST_P(EveryAllocator, BlocksLieInsideTheirBuffersAndNeverOverlap) {
  std::mt19937_64 random(7);
  std::vector<heddle_block_t> live;
  for (int step = 0; step < 4000; ++step) {
    if (live.size() < 50 || random() % 2) {
      const uint64_t size = random() % (1ull << (4 + random() % 20));
      const uint64_t alignment = random() % 4 ? 0 : 64ull << (random() % 8);
      const heddle_block_t block = allocate(size, {}, alignment);
      ASSERT_EQ(wait_count, 0u);
      ASSERT_EQ(block.length, size);
      ASSERT_EQ(block.offset % (alignment ? alignment : 64), 0u);
      ASSERT_LE(block.offset + block.length, provider.size_of(block.buffer));
      for (const heddle_block_t& other : live) {
        ASSERT_FALSE(other.buffer == block.buffer && other.offset < block.offset + block.length &&
                     block.offset < other.offset + other.length);
      }
      live.push_back(block);
    } else {
      const size_t at = random() % live.size();
      free(live[at]);
      live[at] = live.back();
      live.pop_back();
    }
    uint64_t requested = 0;
    for (const heddle_block_t& block : live) requested += block.length;
    ASSERT_EQ(statistics().requested, requested);
  }
  for (const heddle_block_t& block : live) free(block);
  EXPECT_EQ(statistics().requested, 0u);
  EXPECT_EQ(statistics().allocated, 0u);
  EXPECT_EQ(statistics().allocations, statistics().frees);
}

TEST_P(EveryAllocator, AFreedBlockIsNotReusedBeforeItsPointsForTheHost) {
  const heddle_block_t first = allocate(5 << 20);
  free(first, {{timeline(1), 5}});
  for (int i = 0; i < 3; ++i) {
    const heddle_block_t second = allocate(5 << 20);
    EXPECT_FALSE(second.buffer == first.buffer && second.offset == first.offset);
    EXPECT_EQ(wait_count, 0u);
    free(second);
  }
  provider.reach(timeline(1), 5);
  EXPECT_OK(api->trim(allocator, 0));
  EXPECT_EQ(provider.live(), 0u);
}

TEST_P(EveryAllocator, DestroyingWithLiveBlocksFails) {
  const heddle_block_t block = allocate(100);
  EXPECT_FAILS(api->destroy(allocator), HEDDLE_STATUS_FAILED_PRECONDITION, "1 block ");
  EXPECT_FAILS((*plugin)->shutdown(instance), HEDDLE_STATUS_FAILED_PRECONDITION, "HD-L-01");
  free(block);
}

TEST_P(EveryAllocator, RefusesABadAlignment) {
  heddle_block_t block = {};
  EXPECT_FAILS(try_allocate(100, &block, {}, 96), HEDDLE_STATUS_INVALID_ARGUMENT, "96");
}

TEST_P(EveryAllocator, ExhaustionSaysWhyAndLeavesThePoolUsable) {
  provider.capacity = 64 << 20;
  heddle_block_t block = {};
  EXPECT_FAILS(try_allocate(100 << 20, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "the provider is full");
  EXPECT_EQ(statistics().exhaustions, 1u);
  block = allocate(1000);
  free(block);
}

class PoolTest : public AllocatorTest {
 protected:
  void SetUp() override { open(HEDDLE_TEST_PLUGINS "/libheddle_pool.so"); }
  void reopen(const std::vector<heddle_option_t>& options) {
    EXPECT_OK(api->destroy(allocator));
    EXPECT_OK((*plugin)->shutdown(instance));
    allocator = nullptr;
    open(HEDDLE_TEST_PLUGINS "/libheddle_pool.so", options);
  }
};

TEST_F(PoolTest, ReusesWhatWasFreed) {
  const heddle_block_t first = allocate(1000);
  free(first);
  const heddle_block_t second = allocate(1000);
  EXPECT_EQ(second.buffer, first.buffer);
  EXPECT_EQ(second.offset, first.offset);
  EXPECT_EQ(provider.asked.load(), 1u);
  free(second);
}

TEST_F(PoolTest, JoinsNeighbours) {
  std::vector<heddle_block_t> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(allocate(256 << 10));
  EXPECT_EQ(provider.asked.load(), 1u);
  for (int i : {1, 3, 5, 7, 0, 2, 4, 6}) free(blocks[static_cast<size_t>(i)]);
  const heddle_block_t whole = allocate(2 << 20);
  EXPECT_EQ(provider.asked.load(), 1u);
  free(whole);
}

TEST_F(PoolTest, TakesTheBestFit) {
  const heddle_block_t small = allocate(40 << 10), wall = allocate(256), large = allocate(44 << 10), end = allocate(256);
  free(large);
  free(small);
  const heddle_block_t got = allocate(43 << 10);
  EXPECT_EQ(got.offset, large.offset);
  const heddle_block_t other = allocate(40 << 10);
  EXPECT_EQ(other.offset, small.offset);
  for (const heddle_block_t& block : {wall, end, got, other}) free(block);
}

TEST_F(PoolTest, ReusesInStreamOrderWithoutWaiting) {
  const heddle_block_t first = allocate(10 << 20);
  free(first, {{timeline(1), 5}});
  const heddle_block_t early = allocate(10 << 20, {timeline(1), 4});  // before the last use
  EXPECT_NE(early.buffer, first.buffer);
  const heddle_block_t other = allocate(10 << 20, {timeline(2), 9});
  EXPECT_NE(other.buffer, first.buffer);
  const heddle_block_t behind = allocate(10 << 20, {timeline(1), 5});
  EXPECT_EQ(behind.buffer, first.buffer);
  EXPECT_EQ(wait_count, 0u);
  for (const heddle_block_t& block : {early, other, behind}) free(block);
}

TEST_F(PoolTest, ReusesOnceAllPointsAreReached) {
  const heddle_block_t first = allocate(10 << 20);
  free(first, {{timeline(1), 5}, {timeline(2), 1}});
  provider.reach(timeline(1), 7);
  const heddle_block_t second = allocate(10 << 20);
  EXPECT_NE(second.buffer, first.buffer);
  provider.reach(timeline(2), 1);
  const heddle_block_t third = allocate(10 << 20);
  EXPECT_EQ(third.buffer, first.buffer);
  free(second);
  free(third);
}

TEST_F(PoolTest, HoldsItsLimitAndNamesIt) {
  reopen({bytes("pool_limit", 20 << 20)});
  const heddle_block_t first = allocate(16 << 20);
  heddle_block_t block = {};
  EXPECT_FAILS(try_allocate(5 << 20, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "pool_limit of 20971520");
  EXPECT_LE(statistics().bytes_reserved, 20u << 20);
  const heddle_block_t second = allocate(4 << 20);
  EXPECT_EQ(provider.live_bytes(), 20u << 20);
  free(first);
  free(second);
}

TEST_F(PoolTest, TakesItsInitialSizeAtOnce) {
  reopen({bytes("pool_initial", 64 << 20)});
  EXPECT_EQ(statistics().bytes_reserved, 64u << 20);
  const uint64_t asked = provider.asked;
  const heddle_block_t block = allocate(60 << 20);
  EXPECT_EQ(provider.asked.load(), asked);
  free(block);
  heddle_option_t wrong[] = {bytes("pool_initial", 2), bytes("pool_limit", 1)};
  heddle_allocator_params_t params = {sizeof params, 2, provider.table(), wrong, sizeof(heddle_option_t), string_of("wrong")};
  heddle_allocator_t* other = nullptr;
  EXPECT_FAILS(api->create(instance, &params, &other), HEDDLE_STATUS_INVALID_ARGUMENT, "pool_initial 2 is more than pool_limit 1");
}

TEST_F(PoolTest, TrimsBeforeItGivesUp) {
  provider.capacity = 100 << 20;
  const heddle_block_t first = allocate(60 << 20);
  free(first);
  EXPECT_EQ(provider.live_bytes(), 60u << 20);
  const heddle_block_t second = allocate(90 << 20);
  EXPECT_EQ(provider.live_bytes(), 90u << 20);
  EXPECT_EQ(statistics().retries, 1u);
  EXPECT_EQ(statistics().exhaustions, 0u);
  free(second);
}

TEST_F(PoolTest, HandsOverMemoryInUseOnlyWithItsPoints) {
  provider.capacity = 10 << 20;
  const heddle_block_t first = allocate(10 << 20);
  free(first, {{timeline(1), 5}});
  heddle_block_t block = {};
  // The host cannot wait; a queue can.
  EXPECT_FAILS(try_allocate(10 << 20, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "10485760 freed but still in use");
  block = allocate(10 << 20, {timeline(2), 1});
  EXPECT_EQ(block.buffer, first.buffer);
  ASSERT_EQ(wait_count, 1u);
  EXPECT_EQ(waits[0].timeline, timeline(1));
  EXPECT_EQ(waits[0].value, 5u);
  free(block);
}

TEST_F(PoolTest, TrimKeepsWhatItIsTold) {
  std::vector<heddle_block_t> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocate(10 << 20));
  for (const heddle_block_t& block : blocks) free(block);
  EXPECT_EQ(statistics().bytes_reserved, 40u << 20);
  EXPECT_OK(api->trim(allocator, 20 << 20));
  EXPECT_EQ(statistics().bytes_reserved, 20u << 20);
  EXPECT_EQ(provider.live_bytes(), 20u << 20);
  EXPECT_OK(api->trim(allocator, 0));
  EXPECT_EQ(provider.live(), 0u);
}

TEST_F(PoolTest, ReservedBytesStayFlatOverManySteps) {
  uint64_t value = 0, reserved = 0;
  std::mt19937_64 random(3);
  std::vector<uint64_t> sizes(30);
  for (uint64_t& size : sizes) size = 1 + random() % (3 << 20);
  for (int step = 0; step < 2000; ++step) {
    std::vector<heddle_block_t> blocks;
    for (uint64_t size : sizes) blocks.push_back(allocate(size, {timeline(1), value}));
    ++value;
    for (const heddle_block_t& block : blocks) free(block, {{timeline(1), value}});
    if (value > 2) provider.reach(timeline(1), value - 2);
    if (step == 20) reserved = statistics().bytes_reserved;
    if (step > 20) {
      ASSERT_EQ(statistics().bytes_reserved, reserved) << step;
    }
  }
  provider.reach(timeline(1), value);
}

TEST_F(PoolTest, CountsFreePartsOfUsedChunks) {
  const heddle_block_t block = allocate(1000);
  const heddle_allocator_statistics_t values = statistics();
  EXPECT_EQ(values.requested, 1000u);
  EXPECT_EQ(values.allocated, 1024u);
  EXPECT_EQ(values.bytes_reserved, 2u << 20);
  EXPECT_EQ(values.inactive_split, (2u << 20) - 1024);
  free(block);
  EXPECT_EQ(statistics().inactive_split, 0u);
  EXPECT_EQ(statistics().peak_allocated, 1024u);
}

TEST_F(PoolTest, KeepsItsBooksUnderThreads) {
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      std::vector<heddle_block_t> live;
      for (int step = 0; step < 3000; ++step) {
        if (live.empty() || (live.size() < 20 && random() % 2)) {
          heddle_block_params_t params = {sizeof params, 0, random() % 300000, 0, {}};
          heddle_block_t block = {};
          uint32_t count = 0;
          heddle_status_t* failed = api->allocate(allocator, &params, &block, nullptr, &count);
          if (failed) {
            ADD_FAILURE() << failed->message;
            PluginHost::free_status(failed);
          } else {
            live.push_back(block);
          }
        } else {
          heddle_point_t point = {timeline(1 + seed), static_cast<uint64_t>(step)};
          api->free(allocator, &live.back(), &point, step % 3 == 0);
          if (step % 5 == 0) provider.reach(timeline(1 + seed), static_cast<uint64_t>(step));
          live.pop_back();
        }
      }
      for (const heddle_block_t& block : live) api->free(allocator, &block, nullptr, 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(statistics().requested, 0u);
  EXPECT_EQ(statistics().allocated, 0u);
  EXPECT_EQ(statistics().allocations, statistics().frees);
  for (uintptr_t i = 1; i <= 8; ++i) provider.reach(timeline(i), 1 << 20);
  EXPECT_OK(api->trim(allocator, 0));
  EXPECT_EQ(statistics().bytes_reserved, 0u);
}

}  // namespace
}  // namespace heddle::test
