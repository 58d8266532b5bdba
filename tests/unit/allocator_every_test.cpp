// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What every allocator owes the host, alone and stacked: aligned blocks that never overlap, no reuse before points, exact books, and nothing
// lost when the memory below fails.
#include <random>
#include <thread>

#include "allocator_case.h"

namespace heddle::test {
namespace {

class EveryAllocator : public AllocatorCase, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { open(GetParam(), {{"arena", {bytes("chunk", 1 << 20)}}}); }
};
INSTANTIATE_TEST_SUITE_P(Stacks, EveryAllocator,
                         ::testing::Values("system", "pool", "arena", "limit pool", "track pool", "log arena", "limit track log pool",
                                           "pool track system", "pool limit arena", "arena pool", "pool pool"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST_P(EveryAllocator, BlocksAreAlignedInsideTheirBuffersAndNeverOverlap) {
  std::mt19937_64 random(7);
  std::vector<heddle_block_t> live;
  uint64_t requested = 0, total = 0;
  for (int step = 0; step < 3000; ++step) {
    if (live.size() < 50 || random() % 2) {
      const uint64_t size = random() % (1ull << (4 + random() % 20));
      const uint64_t alignment = random() % 4 ? 0 : 64ull << (random() % 12);
      const heddle_block_t block = allocate(size, {}, alignment);
      ASSERT_EQ(wait_count, 0u);
      ASSERT_EQ(block.length, size);
      const FakeMemory::Buffer buffer = memory.buffer(block.buffer);
      ASSERT_GE(buffer.alignment, alignment) << "the buffer need not start on a multiple";
      ASSERT_EQ(block.offset % (alignment ? alignment : 64), 0u);
      ASSERT_LE(block.offset + block.length, buffer.size);
      for (const heddle_block_t& other : live) {
        ASSERT_FALSE(other.buffer == block.buffer && other.offset < block.offset + block.length &&
                     block.offset < other.offset + other.length);
      }
      live.push_back(block);
      requested += size;
      total += size;
    } else {
      const size_t at = random() % live.size();
      requested -= live[at].length;
      free(live[at]);
      live[at] = live.back();
      live.pop_back();
    }
    ASSERT_EQ(statistics().requested.current, requested);
  }
  for (const heddle_block_t& block : live) free(block);
  const heddle_allocator_statistics_t now = statistics();
  EXPECT_EQ(now.requested.current, 0u);
  EXPECT_EQ(now.requested.total, total);
  EXPECT_EQ(now.allocated.current, 0u);
  EXPECT_EQ(now.active.current, 0u);
  EXPECT_EQ(now.inactive_split.current, 0u);
  EXPECT_EQ(now.allocations, now.frees);
}

TEST_P(EveryAllocator, AFreedBlockIsNotReusedBeforeItsPointsForTheHost) {
  const heddle_block_t first = allocate(40 << 20);
  free(first, {{timeline(1), 5}});
  EXPECT_EQ(statistics().allocated.current, 0u);
  EXPECT_GE(statistics().active.current, 40u << 20);
  for (int i = 0; i < 3; ++i) {
    const heddle_block_t second = allocate(40 << 20);
    EXPECT_FALSE(second.buffer == first.buffer && second.offset == first.offset);
    EXPECT_EQ(wait_count, 0u);
    free(second);
  }
  EXPECT_OK(trim(0));
  EXPECT_GE(memory.live_bytes(), 40u << 20) << "memory that work still uses was given back";
  memory.reach(timeline(1), 5);
  EXPECT_OK(trim(0));
  EXPECT_EQ(memory.live(), 0u);
  EXPECT_EQ(memory.freed_with_points.load(), 0u);
  EXPECT_EQ(statistics().active.current, 0u);
  EXPECT_GE(memory.trims.load(), 2u) << "what is below was not trimmed";
}

TEST_P(EveryAllocator, PointsOfAnotherQueueHoldABlockToo) {
  const heddle_block_t first = allocate(1 << 20);
  free(first, {{timeline(1), 5}, {timeline(2), 9}});
  memory.reach(timeline(1), 7);
  EXPECT_OK(trim(0));
  EXPECT_GT(memory.live(), 0u);
  memory.reach(timeline(2), 9);
  EXPECT_OK(trim(0));
  EXPECT_EQ(memory.live(), 0u);
}

TEST_P(EveryAllocator, DestroyingGivesWhatWaitsBackWithItsPoints) {
  free(allocate(1 << 20), {{timeline(1), 5}});
  while (!allocators.empty()) allocators.pop_back();
  EXPECT_EQ(memory.live(), 0u);
  EXPECT_EQ(memory.freed_with_points.load(), 1u);
}

TEST_P(EveryAllocator, DestroyingWithLiveBlocksListsThem) {
  const heddle_block_t weights[] = {allocate(100, {}, 0, &kWeights), allocate(200, {}, 0, &kWeights)};
  const heddle_block_t other = allocate(50);
  EXPECT_FAILS(top().destroy(), HEDDLE_STATUS_FAILED_PRECONDITION, "3 live blocks");
  EXPECT_FAILS(top().destroy(), HEDDLE_STATUS_FAILED_PRECONDITION, "300 bytes in       2 blocks: weights");
  EXPECT_FAILS(top().destroy(), HEDDLE_STATUS_FAILED_PRECONDITION, "50 bytes in       1 block : unknown owner");
  EXPECT_FAILS(top().shutdown(), HEDDLE_STATUS_FAILED_PRECONDITION, "HD-L-01");
  for (const heddle_block_t& block : weights) free(block);
  free(other);
}

TEST_P(EveryAllocator, RefusesABadAlignment) {
  heddle_block_t block = {};
  EXPECT_FAILS(try_allocate(100, &block, {}, 96), HEDDLE_STATUS_INVALID_ARGUMENT, "96");
}

TEST_P(EveryAllocator, RefusesWhatNoMemoryHolds) {
  memory.capacity = uint64_t{1} << 40;
  for (uint64_t size : {UINT64_MAX, UINT64_MAX - 255, uint64_t{1} << 63, uint64_t{1} << 50}) {
    heddle_block_t block = {};
    EXPECT_FAILS(try_allocate(size, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED, std::to_string(size));
  }
  heddle_block_t block = {};
  Result failed(try_allocate(100, &block, {}, uint64_t{1} << 63));
  if (failed.ok()) free(block);
}

TEST_P(EveryAllocator, ExhaustionSaysWhyAndWhoAndLeavesTheRestUsable) {
  memory.capacity = 64 << 20;
  const heddle_block_t held = allocate(1000, {}, 0, &kWeights);
  heddle_block_t block = {};
  EXPECT_FAILS(try_allocate(100 << 20, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "the provider is full");
  EXPECT_FAILS(try_allocate(100 << 20, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "1000 bytes in       1 block : weights");
  EXPECT_EQ(block.buffer, nullptr);
  EXPECT_EQ(statistics().exhaustions, 2u);
  EXPECT_GE(statistics().retries, 2u);
  free(held);
  free(allocate(1000));
}

// Every call of the memory below fails once, in every way.
TEST_P(EveryAllocator, SurvivesAFailureOfEachAllocationBelow) {
  for (heddle_status_code_t code : {HEDDLE_STATUS_RESOURCE_EXHAUSTED, HEDDLE_STATUS_DEVICE_LOST}) {
    memory.failure = code;
    uint64_t failures = 0, runs = 0;
    for (bool triggered = true; triggered; ++runs) {
      ASSERT_LT(runs, 1000u);
      EXPECT_OK(trim(0));
      ASSERT_EQ(memory.live(), 0u);
      memory.fail_at = static_cast<int64_t>(runs);
      std::vector<heddle_block_t> live;
      std::mt19937_64 random(5);
      for (int step = 0; step < 60; ++step) {
        heddle_block_t block = {};
        Result result(try_allocate(1 + random() % (1ull << (10 + random() % 14)), &block));
        if (result.ok()) {
          live.push_back(block);
        } else {
          EXPECT_EQ(result.code(), code) << result.message();
          EXPECT_NE(result.message().find("told to fail"), std::string::npos) << result.message();
          EXPECT_EQ(block.buffer, nullptr);
          ++failures;
        }
        if (live.size() > 20) {
          free(live.front(), {{timeline(3), 1}});
          live.erase(live.begin());
        }
      }
      triggered = memory.fail_at.load() < 0;
      memory.fail_at = -1;
      memory.reach(timeline(3), 1);
      for (const heddle_block_t& block : live) free(block);
      EXPECT_EQ(statistics().requested.current, 0u);
    }
    EXPECT_GT(runs, 3u);
    // One refusal is made good by the retry.
    EXPECT_EQ(failures != 0, code != HEDDLE_STATUS_RESOURCE_EXHAUSTED);
  }
}

TEST_P(EveryAllocator, BooksAddUpUnderThreads) {
  std::atomic<uint64_t> total{0}, allocations{0}, largest{0};
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      std::vector<heddle_block_t> live;
      uint64_t held = 0;
      for (int step = 0; step < 2000; ++step) {
        if (live.empty() || (live.size() < 20 && random() % 2)) {
          heddle_block_params_t params = {sizeof params, 0, random() % 300000, 0, {}, seed % 2 ? &kWeights : &kTensors, 0};
          heddle_block_t block = {};
          uint32_t count = 0;
          heddle_status_t* failed = top().api()->allocate(top().get(), &params, &block, nullptr, &count);
          if (failed) {
            ADD_FAILURE() << failed->message;
            PluginHost::free_status(failed);
            continue;
          }
          live.push_back(block);
          total += block.length;
          ++allocations;
          held += block.length;
          for (uint64_t most = largest; most < held && !largest.compare_exchange_weak(most, held);) {
          }
        } else {
          heddle_point_t point = {timeline(1 + seed), static_cast<uint64_t>(step)};
          held -= live.back().length;
          top().api()->free(top().get(), &live.back(), &point, step % 3 == 0);
          if (step % 5 == 0) memory.reach(timeline(1 + seed), static_cast<uint64_t>(step));
          live.pop_back();
        }
        if (step % 500 == 0) {
          EXPECT_OK(trim(1 << 20));
          statistics();
          holders();
        }
      }
      for (const heddle_block_t& block : live) top().api()->free(top().get(), &block, nullptr, 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uintptr_t i = 1; i <= 8; ++i) memory.reach(timeline(i), 1 << 20);
  EXPECT_OK(trim(0));
  const heddle_allocator_statistics_t now = statistics();
  EXPECT_EQ(now.requested.current, 0u);
  EXPECT_EQ(now.requested.total, total.load());
  EXPECT_GE(now.requested.peak, largest.load());
  EXPECT_GE(now.allocated.total, now.requested.total);
  EXPECT_EQ(now.allocated.current, 0u);
  EXPECT_EQ(now.active.current, 0u);
  EXPECT_EQ(now.bytes_reserved.current, 0u);
  EXPECT_EQ(now.inactive_split.current, 0u);
  EXPECT_GE(now.bytes_reserved.peak, now.active.peak);
  EXPECT_EQ(now.allocations, allocations.load());
  EXPECT_EQ(now.frees, allocations.load());
  EXPECT_EQ(memory.live(), 0u);
  for (const auto& [owner, holder] : holders()) {
    EXPECT_EQ(holder.blocks, 0u) << owner;
    EXPECT_EQ(holder.requested.current, 0u) << owner;
  }
}

TEST_P(EveryAllocator, TakesStructsOfOtherSizes) {
  struct {
    heddle_block_params_t params;
    uint64_t tail;
  } larger = {{sizeof larger, 0, 100, 0, {}, nullptr, 0}, 0};
  heddle_block_t block = {};
  ASSERT_OK(top().api()->allocate(top().get(), &larger.params, &block, nullptr, &wait_count));
  free(block);
  larger.tail = 1;
  EXPECT_FAILS(top().api()->allocate(top().get(), &larger.params, &block, nullptr, &wait_count), HEDDLE_STATUS_INVALID_ARGUMENT, "HD-E-04");
  larger.params.struct_size = offsetof(heddle_block_params_t, alignment_bytes);
  ASSERT_OK(top().api()->allocate(top().get(), &larger.params, &block, nullptr, &wait_count));
  free(block);
  heddle_allocator_statistics_t small = {};
  small.struct_size = offsetof(heddle_allocator_statistics_t, allocated);
  ASSERT_OK(top().api()->statistics(top().get(), &small));
  EXPECT_EQ(small.requested.total, 200u);
  EXPECT_EQ(small.allocated.total, 0u) << "written past its struct_size";
}

TEST_P(EveryAllocator, DoesNothingInAForkedChild) {
  const heddle_block_t block = allocate(100);
  host.forked_child = true;
  heddle_block_t other = {};
  EXPECT_FAILS(try_allocate(100, &other), HEDDLE_STATUS_FAILED_PRECONDITION, "HD-T-01");
  free(block);
  EXPECT_FAILS(trim(0), HEDDLE_STATUS_FAILED_PRECONDITION, "HD-T-01");
  host.forked_child = false;
  EXPECT_EQ(statistics().frees, 0u);
  free(block);
}

}  // namespace
}  // namespace heddle::test
