// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.pool: fitting, joining, stream order, its limit, what it keeps, and the order of what it tries when memory ends.
#include <random>
#include <set>
#include <thread>

#include "allocator_case.h"

namespace heddle::test {
namespace {

class PoolTest : public AllocatorCase {
 protected:
  void open_pool(const Options& options = {}) { open("pool", {{"pool", options}}); }
};

TEST_F(PoolTest, ReusesWhatWasFreed) {
  open_pool();
  for (uint64_t size : {uint64_t{1000}, uint64_t{20} << 20}) {
    const heddle_block_t first = allocate(size);
    const uint64_t asked = memory.asked;
    free(first);
    const heddle_block_t second = allocate(size - 10);
    EXPECT_EQ(second.buffer, first.buffer);
    EXPECT_EQ(second.offset, first.offset);
    EXPECT_EQ(memory.asked.load(), asked);
    free(second);
  }
}

TEST_F(PoolTest, JoinsNeighboursWhateverTheOrder) {
  open_pool({bytes("pool_initial", 2 << 20)});
  for (const auto& order : {std::vector<size_t>{1, 3, 5, 7, 0, 2, 4, 6}, {0, 1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}}) {
    std::vector<heddle_block_t> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(allocate(256 << 10));
    EXPECT_EQ(statistics().largest_free, 0u);
    for (size_t i : order) free(blocks[i]);
    EXPECT_EQ(statistics().largest_free, 2u << 20);
  }
  EXPECT_EQ(memory.asked.load(), 1u);
}

TEST_F(PoolTest, TakesTheBestFit) {
  open_pool({bytes("pool_initial", 2 << 20)});
  const heddle_block_t small = allocate(40 << 10), wall = allocate(256), large = allocate(44 << 10), end = allocate(256);
  free(large);
  free(small);
  const heddle_block_t got = allocate(43 << 10), other = allocate(40 << 10);
  EXPECT_EQ(got.offset, large.offset);
  EXPECT_EQ(other.offset, small.offset);
  for (const heddle_block_t& block : {wall, end, got, other}) free(block);
}

TEST_F(PoolTest, KeepsLargeAlignmentsAmongSmallOnes) {
  open_pool({bytes("pool_initial", 8 << 20)});
  std::vector<heddle_block_t> blocks;
  for (uint64_t alignment : {64u, 256u, 4096u, 65536u, 2097152u}) {
    blocks.push_back(allocate(300, {}, 64));
    blocks.push_back(allocate(300, {}, alignment));
    EXPECT_EQ(blocks.back().offset % alignment, 0u);
    EXPECT_GE(memory.buffer(blocks.back().buffer).alignment, alignment);
  }
  for (const heddle_block_t& block : blocks) free(block);
}

TEST_F(PoolTest, ReusesInStreamOrderWithoutWaiting) {
  open_pool();
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
  open_pool();
  const heddle_block_t first = allocate(10 << 20);
  free(first, {{timeline(1), 5}, {timeline(2), 1}});
  memory.reach(timeline(1), 7);
  const heddle_block_t second = allocate(10 << 20);
  EXPECT_NE(second.buffer, first.buffer);
  memory.reach(timeline(2), 1);
  const heddle_block_t third = allocate(10 << 20);
  EXPECT_EQ(third.buffer, first.buffer);
  free(second);
  free(third);
}

TEST_F(PoolTest, JoinsWhatWaitedWithItsNeighbours) {
  open_pool({bytes("pool_initial", 1 << 20)});
  const heddle_block_t left = allocate(256 << 10), middle = allocate(256 << 10), right = allocate(512 << 10);
  free(left);
  free(right);
  free(middle, {{timeline(1), 1}});
  EXPECT_EQ(statistics().largest_free, 512u << 10);
  memory.reach(timeline(1), 1);
  const heddle_block_t whole = allocate(1 << 20);
  EXPECT_EQ(memory.asked.load(), 1u);
  free(whole);
}

TEST_F(PoolTest, HandsOverMemoryInUseOnlyWithItsPoints) {
  open_pool();
  memory.capacity = 10 << 20;
  const heddle_block_t first = allocate(10 << 20);
  free(first, {{timeline(1), 5}, {timeline(3), 2}});
  heddle_block_t block = {};
  // The host cannot wait; a queue can, if it has room for the points.
  EXPECT_FAILS(try_allocate(10 << 20, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "10485760 freed but still in use");
  heddle_block_params_t params = {sizeof params, 1, 10 << 20, 0, {timeline(2), 1}, nullptr, 0};
  EXPECT_FAILS(top().api()->allocate(top().get(), &params, &block, waits, &wait_count), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "still in use");
  block = allocate(10 << 20, {timeline(2), 1});
  EXPECT_EQ(block.buffer, first.buffer);
  ASSERT_EQ(wait_count, 2u);
  EXPECT_EQ(waits[0].timeline, timeline(1));
  EXPECT_EQ(waits[0].value, 5u);
  EXPECT_EQ(waits[1].timeline, timeline(3));
  free(block);
}

TEST_F(PoolTest, HoldsItsLimitAndNamesItAndTheHolders) {
  open_pool({bytes("pool_limit", 20 << 20)});
  const heddle_block_t first = allocate(16 << 20, {}, 0, &kWeights);
  heddle_block_t block = {};
  EXPECT_FAILS(
      try_allocate(5 << 20, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED,
      "pool: allocating 5242880 bytes from 'test' failed: pool_limit of 20971520 bytes leaves 4194304 (16777216 reserved, of which "
      "16777216 in 1 live blocks, 0 freed but still in use by the device, 0 free in parts of used chunks); raise pool_limit or use "
      "less [HD-M-03]\n         16777216 bytes in       1 block : weights");
  const heddle_block_t second = allocate(4 << 20);
  EXPECT_EQ(memory.live_bytes(), 20u << 20);
  EXPECT_EQ(memory.peak_bytes(), 20u << 20);
  free(first);
  free(second);
}

TEST_F(PoolTest, HoldsItsLimitWhenChunksAreLargerThanWhatIsLeft) {
  open_pool({bytes("pool_limit", 40 << 10)});
  const heddle_block_t first = allocate(20 << 10), second = allocate(20 << 10);
  EXPECT_LE(memory.peak_bytes(), 40u << 10);
  free(first);
  free(second);
}

TEST_F(PoolTest, FailsAtOnceAtItsLimitWhenToldSo) {
  open_pool({bytes("pool_limit", 20 << 20), text("on_limit", "fail")});
  free(allocate(16 << 20));
  heddle_block_t block = {};
  // The empty chunk is not given back for it, since no more is reserved than needed.
  free(allocate(4 << 20));
  EXPECT_FAILS(try_allocate(21 << 20, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "pool_limit");
  EXPECT_EQ(statistics().retries, 0u);
  EXPECT_EQ(statistics().exhaustions, 1u);
}

TEST_F(PoolTest, TakesItsInitialSizeAtOnceAndKeepsIt) {
  open_pool({bytes("pool_initial", 64 << 20)});
  EXPECT_EQ(statistics().bytes_reserved.current, 64u << 20);
  const heddle_block_t block = allocate(60 << 20);
  EXPECT_EQ(memory.asked.load(), 1u);
  free(block);
  free(allocate(100 << 20));  // larger than it, while it is empty
  EXPECT_GE(memory.live_bytes(), 64u << 20);
  EXPECT_OK(trim(0));
  EXPECT_EQ(memory.live(), 0u);
  heddle_allocator_t* other = nullptr;
  EXPECT_FAILS(top().create({bytes("pool_initial", 2), bytes("pool_limit", 1)}, &other), HEDDLE_STATUS_INVALID_ARGUMENT,
               "pool_initial 2 is more than pool_limit 1");
  EXPECT_FAILS(top().create({bytes("pool_initial", -1)}, &other), HEDDLE_STATUS_INVALID_ARGUMENT, "a number of bytes");
  EXPECT_FAILS(top().create({text("pool_limit", "much")}, &other), HEDDLE_STATUS_INVALID_ARGUMENT, "pool_limit");
  memory.fail_at = 0;
  EXPECT_FAILS(top().create({bytes("pool_initial", 1 << 20)}, &other), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "told to fail");
  EXPECT_EQ(other, nullptr);
}

// What HD-M-03 says, step by step.
TEST_F(PoolTest, TriesEverythingInOrderBeforeItGivesUp) {
  open_pool();
  // What others finished comes first, without a call of the provider.
  const heddle_block_t waiting = allocate(40 << 20), live = allocate(40 << 20, {}, 0, &kWeights);
  free(waiting, {{timeline(1), 1}});
  memory.reach(timeline(1), 1);
  memory.capacity = 80 << 20;
  uint64_t asked = memory.asked;
  const heddle_block_t again = allocate(40 << 20);
  EXPECT_EQ(again.buffer, waiting.buffer);
  EXPECT_EQ(memory.asked.load(), asked);
  free(again);
  // Then a trim and one more try: 40 MiB are live, 40 empty, and as much as 80 was needed before.
  memory.capacity = 85 << 20;
  asked = memory.asked;
  const heddle_block_t larger = allocate(44 << 20);
  EXPECT_LE(memory.asked.load(), asked + 2);
  EXPECT_EQ(memory.live_bytes(), 84u << 20);
  // Then it is over, after exactly one more try.
  asked = memory.asked;
  const uint64_t retries = statistics().retries;
  heddle_block_t block = {};
  EXPECT_FAILS(try_allocate(2 << 20, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "41943040 bytes in       1 block : weights");
  EXPECT_EQ(memory.asked.load(), asked + 2);
  EXPECT_EQ(statistics().retries, retries + 1);
  EXPECT_EQ(statistics().exhaustions, 1u);
  free(larger);
  free(live);
}

TEST_F(PoolTest, RetriesAfterATrim) {
  open_pool();
  const heddle_block_t both[] = {allocate(60 << 20), allocate(60 << 20)};
  for (const heddle_block_t& block : both) free(block);
  EXPECT_OK(trim(0));
  memory.capacity = 100 << 20;  // another process took some
  free(allocate(60 << 20));
  const heddle_block_t block = allocate(62 << 20);
  EXPECT_EQ(memory.live_bytes(), 62u << 20);
  EXPECT_EQ(statistics().retries, 1u);
  EXPECT_EQ(statistics().exhaustions, 0u);
  free(block);
}

TEST_F(PoolTest, TrimKeepsWhatItIsTold) {
  open_pool();
  std::vector<heddle_block_t> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocate(10 << 20));
  for (const heddle_block_t& block : blocks) free(block);
  EXPECT_EQ(statistics().bytes_reserved.current, 40u << 20);
  EXPECT_OK(trim(20 << 20));
  EXPECT_EQ(statistics().bytes_reserved.current, 20u << 20);
  EXPECT_EQ(memory.live_bytes(), 20u << 20);
  EXPECT_OK(trim(0));
  EXPECT_EQ(memory.live(), 0u);
}

// As long as calls are few, what is empty is given back for what is exactly needed.
TEST_F(PoolTest, SavesWhileTheProviderWasAskedSeldom) {
  open_pool();
  std::vector<heddle_block_t> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(allocate(16 << 20));
  for (const heddle_block_t& block : blocks) free(block);
  blocks.clear();
  const uint64_t asked = memory.asked;
  for (int i = 0; i < 80; ++i) blocks.push_back(allocate(8 << 20));
  EXPECT_LE(memory.peak_bytes(), 40u * (16 << 20) / 16 * 17);
  EXPECT_EQ(memory.asked.load(), asked + 80);
  for (const heddle_block_t& block : blocks) free(block);
}

// Else a large chunk serves smaller large blocks, and is whole again afterwards.
TEST_F(PoolTest, CutsEmptyChunksRatherThanGrow) {
  open_pool();
  for (int i = 0; i < 1100; ++i) {
    free(allocate(16 << 20));
    EXPECT_OK(trim(0));
  }
  std::vector<heddle_block_t> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(allocate(16 << 20));
  for (const heddle_block_t& block : blocks) free(block);
  const uint64_t asked = memory.asked;
  blocks.clear();
  for (int i = 0; i < 80; ++i) blocks.push_back(allocate(8 << 20));
  EXPECT_LE(memory.peak_bytes(), 40u * (16 << 20) / 10 * 11);
  EXPECT_LE(memory.asked.load(), asked + 20);
  for (const heddle_block_t& block : blocks) free(block);
  blocks.clear();
  const uint64_t again = memory.asked;
  for (int i = 0; i < 30; ++i) blocks.push_back(allocate(16 << 20));
  EXPECT_EQ(memory.asked.load(), again);
  for (const heddle_block_t& block : blocks) free(block);
}

TEST_F(PoolTest, AsksOnceForWhatComesSoon) {
  open_pool();
  const uint64_t sizes[] = {(9 << 20) + 4096, 8 << 20, 12 << 20};
  std::vector<heddle_block_t> blocks;
  auto allocate_all = [&] {
    uint64_t soon = (29 << 20) + 4096;
    for (uint64_t size : sizes) {
      EXPECT_OK(try_allocate(size, &blocks.emplace_back(), {}, 4096, nullptr, soon));
      soon -= size;
    }
  };
  for (int round = 0; round < 3; ++round) {
    allocate_all();
    EXPECT_EQ(memory.asked.load(), 1u);
    EXPECT_EQ(statistics().bytes_reserved.current, (29u << 20) + 4096);
    EXPECT_EQ(std::set<uint64_t>({blocks[0].offset, blocks[1].offset, blocks[2].offset}).size(), 3u);
    if (round == 1) {  // one of them alone is used again
      free(blocks[1]);
      blocks[1] = allocate(8 << 20);
      EXPECT_EQ(memory.asked.load(), 1u);
    }
    for (const heddle_block_t& block : blocks) free(block);
    blocks.clear();
  }
  EXPECT_OK(trim(0));
  EXPECT_EQ(memory.live(), 0u);
  // Where all of it is more than there is, each gets what it needs.
  memory.capacity = 18 << 20;
  EXPECT_OK(try_allocate(9 << 20, &blocks.emplace_back(), {}, 4096, nullptr, 29 << 20));
  EXPECT_OK(try_allocate(8 << 20, &blocks.emplace_back(), {}, 4096, nullptr, 20 << 20));
  for (const heddle_block_t& block : blocks) free(block);
}

TEST_F(PoolTest, ReservedBytesStayFlatOverManySteps) {
  open_pool();
  uint64_t value = 0, asked = 0;
  std::mt19937_64 random(3);
  std::vector<uint64_t> sizes(30);
  for (uint64_t& size : sizes) size = 1 + random() % (3 << 20);
  for (int step = 0; step < 1000; ++step) {
    std::vector<heddle_block_t> blocks;
    for (uint64_t size : sizes) blocks.push_back(allocate(size, {timeline(1), value}));
    ++value;
    for (const heddle_block_t& block : blocks) free(block, {{timeline(1), value}});
    if (value > 2) memory.reach(timeline(1), value - 2);
    if (step == 20) asked = memory.asked;
    if (step > 20) {
      ASSERT_EQ(memory.asked.load(), asked) << step;
    }
  }
  memory.reach(timeline(1), value);
}

TEST_F(PoolTest, CountsEveryKindOfBytes) {
  open_pool({bytes("pool_initial", 1 << 20)});
  const heddle_block_t block = allocate(1000), other = allocate(2000);
  heddle_allocator_statistics_t now = statistics();
  EXPECT_EQ(now.requested.current, 3000u);
  EXPECT_EQ(now.allocated.current, 1024u + 2048);
  EXPECT_EQ(now.active.current, 1024u + 2048);
  EXPECT_EQ(now.bytes_reserved.current, 1u << 20);
  EXPECT_EQ(now.inactive_split.current, (1u << 20) - 1024 - 2048);
  EXPECT_EQ(now.largest_free, (1u << 20) - 1024 - 2048);
  free(other, {{timeline(1), 1}});
  now = statistics();
  EXPECT_EQ(now.requested.current, 1000u);
  EXPECT_EQ(now.allocated.current, 1024u);
  EXPECT_EQ(now.active.current, 1024u + 2048) << "work still uses it";
  memory.reach(timeline(1), 1);
  free(block);
  free(allocate(100));
  now = statistics();
  EXPECT_EQ(now.active.current, 0u);
  EXPECT_EQ(now.inactive_split.current, 0u);
  EXPECT_EQ(now.requested.peak, 3000u);
  EXPECT_EQ(now.requested.total, 3100u);
  EXPECT_EQ(now.allocated.peak, 1024u + 2048);
  EXPECT_EQ(now.inactive_split.peak, (1u << 20) - 256);
  EXPECT_EQ(now.bytes_reserved.total, 1u << 20);
  EXPECT_EQ(now.allocations, 3u);
  EXPECT_EQ(now.frees, 3u);
  EXPECT_EQ(now.provider_allocations, 1u);
}

TEST_F(PoolTest, ListsHoldersByText) {
  open_pool();
  const heddle_string_t same = {"weights", 7};
  const heddle_block_t blocks[] = {allocate(100, {}, 0, &kWeights), allocate(50, {}, 0, &same), allocate(7, {}, 0, &kTensors), allocate(1)};
  EXPECT_EQ(holders().size(), 3u);
  EXPECT_EQ(holders()["weights"].blocks, 2u);
  EXPECT_EQ(holders()["weights"].requested.current, 150u);
  EXPECT_EQ(holders()["tensors"].requested.current, 7u);
  EXPECT_EQ(holders()[""].blocks, 1u);
  for (const heddle_block_t& block : blocks) free(block);
  EXPECT_TRUE(holders().empty());
}

TEST_F(PoolTest, SpillsToTheHostAfterATrimAndSaysSoOnce) {
  memory.offer_host_memory();
  open_pool({bytes("pool_limit", 20 << 20), text("on_limit", "spill")});
  const heddle_block_t first = allocate(8 << 20), empty = allocate(8 << 20);
  free(empty);
  const heddle_block_t second = allocate(12 << 20);  // the trim is enough
  EXPECT_EQ(memory.live_host_bytes(), 0u);
  EXPECT_TRUE(host.logged_lines().empty());
  const heddle_block_t third = allocate(5 << 20, {}, 0, &kWeights), small = allocate(100);
  EXPECT_TRUE(memory.buffer(third.buffer).on_host);
  EXPECT_TRUE(memory.buffer(small.buffer).on_host);
  EXPECT_EQ(third.length, 5u << 20);
  EXPECT_EQ(memory.live_bytes(), 20u << 20);
  EXPECT_EQ(memory.live_host_bytes(), (5u << 20) + 4096);
  ASSERT_EQ(host.logged_lines().size(), 1u);
  EXPECT_NE(host.logged_lines()[0].find("pool: memory of 'test' is full; from now on blocks come from host memory"), std::string::npos)
      << host.logged_lines()[0];
  EXPECT_EQ(holders()["weights, spilled to the host"].requested.current, 5u << 20);
  EXPECT_EQ(holders()["unknown owner, spilled to the host"].requested.current, 100u);
  const heddle_allocator_statistics_t now = statistics();
  EXPECT_EQ(now.requested.current, (25u << 20) + 100);
  EXPECT_EQ(now.bytes_reserved.current, (25u << 20) + 4096);
  EXPECT_EQ(now.exhaustions, 0u);
  // It goes back at once, with its points, and is not there for others.
  free(third, {{timeline(1), 1}});
  free(small);
  EXPECT_EQ(memory.live_host_bytes(), 0u);
  EXPECT_EQ(memory.freed_with_points.load(), 1u);
  EXPECT_EQ(statistics().bytes_reserved.current, 20u << 20);
  EXPECT_EQ(statistics().active.current, 20u << 20);
  free(first);
  const heddle_block_t fourth = allocate(5 << 20);
  EXPECT_FALSE(memory.buffer(fourth.buffer).on_host);
  free(second);
  free(fourth);
}

TEST_F(PoolTest, SpillsWhenTheMemoryBelowIsFullAndHoldsNoBoundThere) {
  memory.offer_host_memory();
  open_pool({text("on_limit", "spill")});
  memory.capacity = 10 << 20;
  memory.host_capacity = 30 << 20;
  const heddle_block_t first = allocate(10 << 20, {}, 0, &kTensors), second = allocate(20 << 20, {}, 1 << 20, &kWeights);
  EXPECT_TRUE(memory.buffer(second.buffer).on_host);
  EXPECT_GE(memory.buffer(second.buffer).alignment, 1u << 20);
  heddle_block_t block = {};
  EXPECT_FAILS(try_allocate(20 << 20, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED,
               "the provider is full, and for host memory: the host is full");
  EXPECT_FAILS(try_allocate(20 << 20, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "1 block : weights, spilled to the host");
  EXPECT_EQ(statistics().exhaustions, 2u);
  // What is freed behind points is better than memory of the host, for those who come after them.
  free(first, {{timeline(1), 5}});
  const heddle_block_t behind = allocate(10 << 20, {timeline(1), 5});
  EXPECT_EQ(behind.buffer, first.buffer);
  free(behind);
  free(second);
}

TEST_F(PoolTest, SpillsWhatSeveralThreadsHold) {
  memory.offer_host_memory();
  open_pool({bytes("pool_limit", 1 << 20), text("on_limit", "spill")});
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      std::vector<heddle_block_t> live;
      for (int step = 0; step < 500; ++step) {
        heddle_block_params_t params = {sizeof params, 0, random() % 60000, 0, {}, nullptr, 0};
        heddle_block_t block = {};
        uint32_t count = 0;
        EXPECT_OK(top().api()->allocate(top().get(), &params, &block, nullptr, &count));
        live.push_back(block);
        if (live.size() < 30) continue;
        top().api()->free(top().get(), &live.front(), nullptr, 0);
        live.erase(live.begin());
      }
      for (const heddle_block_t& block : live) top().api()->free(top().get(), &block, nullptr, 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(memory.peak_bytes(), 1u << 20);
  EXPECT_EQ(memory.live_host_bytes(), 0u);
  EXPECT_EQ(statistics().requested.current, 0u);
  EXPECT_EQ(host.logged_lines().size(), 1u);
}

TEST_F(PoolTest, TrimsInsteadWhereThereIsNoOtherMemoryAndSaysSo) {
  open_pool({bytes("pool_limit", 20 << 20), text("on_limit", "spill")});
  ASSERT_EQ(host.logged_lines().size(), 1u);
  EXPECT_EQ(host.logged_lines()[0],
            "pool: on_limit = \"spill\" acts as \"trim\" for 'test': the provider below the pool offers no host memory that the device "
            "can access");
  free(allocate(16 << 20));
  const heddle_block_t block = allocate(20 << 20);
  heddle_block_t other = {};
  EXPECT_FAILS(try_allocate(1, &other), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "pool_limit of 20971520 bytes leaves 0");
  free(block);
}

}  // namespace
}  // namespace heddle::test
