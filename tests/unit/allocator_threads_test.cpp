// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.pool with several threads: peaks stay exact, what one thread freed serves another one before memory ends, and everything comes back.
#include <barrier>
#include <functional>
#include <random>
#include <thread>

#include "allocator_case.h"

namespace heddle::test {
namespace {

// What the pool rounds a small block to.
uint64_t rounded(uint64_t size) {
  return std::max<uint64_t>((size + 255) / 256 * 256, 256);
}

struct Count {
  uint64_t current = 0, peak = 0, total = 0;
  void add(uint64_t bytes) {
    current += bytes;
    total += bytes;
    peak = std::max(peak, current);
  }
};

void expect_same(const heddle_memory_count_t& is, const Count& expected, const char* what, int step) {
  ASSERT_EQ(is.current, expected.current) << what << " at step " << step;
  ASSERT_EQ(is.peak, expected.peak) << what << " at step " << step;
  ASSERT_EQ(is.total, expected.total) << what << " at step " << step;
}

class PoolThreadsTest : public AllocatorCase {
 protected:
  // Calls body(0) .. body(count - 1), each in a thread of its own, all at once.
  static void at_once(size_t count, const std::function<void(size_t)>& body) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i) threads.emplace_back(body, i);
    for (std::thread& thread : threads) thread.join();
  }
  // Calls body in another thread, and waits.
  static void elsewhere(const std::function<void()>& body) { std::thread(body).join(); }

  // allocate and free with outputs of the caller's own, for threads.
  heddle_status_t* try_allocate_here(uint64_t size, heddle_block_t* out, heddle_point_t after = {}) {
    heddle_block_params_t params = {sizeof params, 0, size, 0, after, nullptr, 0};
    uint32_t count = 0;
    return top().api()->allocate(top().get(), &params, out, nullptr, &count);
  }
  heddle_block_t allocate_here(uint64_t size, heddle_point_t after = {}) {
    heddle_block_t block = {};
    EXPECT_OK(try_allocate_here(size, &block, after));
    return block;
  }
};

// Threads that take turns: any order of calls gives what one thread would have given.
TEST_F(PoolThreadsTest, CountsOfThreadsThatTakeTurnsAreThoseOfAModel) {
  open("pool");
  constexpr size_t kThreads = 6;
  constexpr int kSteps = 3000;
  Count requested, allocated, active;
  struct Live {
    heddle_block_t block;
    uint64_t size;
  };
  std::vector<Live> live;
  std::vector<uint64_t> pending;  // bytes whose point is not reached yet
  std::mt19937_64 random(11);
  std::atomic<int> turn{0};
  at_once(kThreads, [&](size_t thread) {
    for (;;) {
      int step = turn.load();
      while (step < kSteps && static_cast<size_t>(step) % kThreads != thread) {
        std::this_thread::yield();
        step = turn.load();
      }
      if (step >= kSteps) return;
      for (uint64_t calls = 1 + random() % 3; calls != 0; --calls) {
        if (live.empty() || (live.size() < 200 && random() % 2)) {
          const uint64_t size = random() % (random() % 4 ? 3000 : 60000);
          live.push_back({allocate_here(size), size});
          requested.add(size);
          allocated.add(rounded(size));
          active.add(rounded(size));
        } else {
          std::swap(live[random() % live.size()], live.back());
          const heddle_point_t point = {timeline(1), 1 + pending.size()};
          const bool waits = random() % 8 == 0;
          top().api()->free(top().get(), &live.back().block, &point, waits ? 1 : 0);
          requested.current -= live.back().size;
          allocated.current -= rounded(live.back().size);
          if (waits) {
            pending.push_back(rounded(live.back().size));
          } else {
            active.current -= rounded(live.back().size);
          }
          live.pop_back();
        }
      }
      const heddle_allocator_statistics_t now = statistics();
      expect_same(now.requested, requested, "requested", step);
      expect_same(now.allocated, allocated, "allocated", step);
      expect_same(now.active, active, "active", step);
      EXPECT_LE(now.active.current + now.inactive_split.current, now.bytes_reserved.current);
      EXPECT_EQ(now.bytes_reserved.current, memory.live_bytes());
      ++turn;
    }
  });
  for (const Live& block : live) free(block.block);
  memory.reach(timeline(1), pending.size());
  EXPECT_OK(trim(0));
  EXPECT_EQ(memory.live(), 0u);
  EXPECT_EQ(statistics().active.current, 0u);
  EXPECT_EQ(statistics().inactive_split.current, 0u);
}

// Between two barriers all threads only allocate, or only free: the most that is held at once is known, whatever order the calls had.
TEST_F(PoolThreadsTest, PeaksAreExactUnderThreads) {
  open("pool");
  constexpr size_t kThreads = 4;
  constexpr int kPhases = 150;
  std::vector<uint64_t> held(kThreads), rounded_held(kThreads);
  uint64_t peak = 0, rounded_peak = 0;
  std::barrier risen(kThreads, [&]() noexcept {
    uint64_t sum = 0, rounded_sum = 0;
    for (size_t i = 0; i < kThreads; ++i) {
      sum += held[i];
      rounded_sum += rounded_held[i];
    }
    peak = std::max(peak, sum);
    rounded_peak = std::max(rounded_peak, rounded_sum);
    const heddle_allocator_statistics_t now = statistics();
    EXPECT_EQ(now.requested.current, sum);
    EXPECT_EQ(now.requested.peak, peak);
    EXPECT_EQ(now.allocated.current, rounded_sum);
    EXPECT_EQ(now.allocated.peak, rounded_peak);
    EXPECT_EQ(now.active.peak, rounded_peak);
  });
  std::barrier fallen(kThreads);
  at_once(kThreads, [&](size_t thread) {
    std::mt19937_64 random(thread);
    std::vector<heddle_block_t> live;
    for (int phase = 0; phase < kPhases; ++phase) {
      for (uint64_t count = random() % 60; count != 0; --count) {
        live.push_back(allocate_here(random() % 5000));
        held[thread] += live.back().length;
        rounded_held[thread] += rounded(live.back().length);
      }
      risen.arrive_and_wait();
      for (uint64_t count = random() % (live.size() + 1); count != 0; --count) {
        held[thread] -= live.back().length;
        rounded_held[thread] -= rounded(live.back().length);
        top().api()->free(top().get(), &live.back(), nullptr, 0);
        live.pop_back();
      }
      fallen.arrive_and_wait();
    }
    for (const heddle_block_t& block : live) top().api()->free(top().get(), &block, nullptr, 0);
  });
  EXPECT_EQ(statistics().requested.current, 0u);
  EXPECT_EQ(statistics().inactive_split.current, 0u);
}

// Every thread frees what another one allocated.
TEST_F(PoolThreadsTest, BlocksMayBeFreedByOtherThreads) {
  open("pool");
  constexpr size_t kThreads = 4;
  std::vector<std::vector<heddle_block_t>> blocks(kThreads);
  std::barrier all(kThreads);
  at_once(kThreads, [&](size_t thread) {
    std::mt19937_64 random(thread);
    for (int round = 0; round < 50; ++round) {
      for (int i = 0; i < 100; ++i) blocks[thread].push_back(allocate_here(random() % 20000));
      all.arrive_and_wait();
      std::vector<heddle_block_t>& others = blocks[(thread + 1) % kThreads];
      for (const heddle_block_t& block : others) top().api()->free(top().get(), &block, nullptr, 0);
      all.arrive_and_wait();
      blocks[thread].clear();
      all.arrive_and_wait();
    }
  });
  EXPECT_EQ(statistics().allocated.current, 0u);
  EXPECT_EQ(statistics().allocations, kThreads * 50 * 100);
  EXPECT_EQ(statistics().frees, kThreads * 50 * 100);
  EXPECT_OK(trim(0));
  EXPECT_EQ(memory.live(), 0u);
}

TEST_F(PoolThreadsTest, AThreadTakesItsBlocksOutOfWhatIsReserved) {
  open("pool", {{"pool", {bytes("pool_initial", 32 << 20), bytes("pool_limit", 32 << 20)}}});
  at_once(4, [&](size_t thread) {
    std::mt19937_64 random(thread);
    std::vector<heddle_block_t> live;
    for (int i = 0; i < 2000; ++i) {
      live.push_back(allocate_here(random() % 100000));
      if (live.size() < 20) continue;
      top().api()->free(top().get(), &live.front(), nullptr, 0);
      live.erase(live.begin());
    }
    for (const heddle_block_t& block : live) top().api()->free(top().get(), &block, nullptr, 0);
  });
  EXPECT_EQ(memory.asked.load(), 1u);
  EXPECT_EQ(statistics().exhaustions, 0u);
  const heddle_block_t whole = allocate(32 << 20);  // once everything came back
  free(whole);
}

TEST_F(PoolThreadsTest, WhatOneThreadFreedServesAnotherBeforeMemoryEnds) {
  open("pool", {{"pool", {bytes("pool_limit", 8 << 20)}}});
  free(allocate(100));  // the first thread is this one
  std::vector<heddle_block_t> blocks;
  elsewhere([&] {
    for (int i = 0; i < 200; ++i) blocks.push_back(allocate_here(20000));
  });
  // All but a few come back: spans that are in use still serve others.
  elsewhere([&] {
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (i % 50 != 0) top().api()->free(top().get(), &blocks[i], nullptr, 0);
    }
  });
  std::vector<heddle_block_t> others;
  uint64_t sum = 0;
  for (;;) {
    heddle_block_t block = {};
    Result result(try_allocate(20000, &block));
    if (!result.ok()) {
      EXPECT_EQ(result.code(), HEDDLE_STATUS_RESOURCE_EXHAUSTED);
      break;
    }
    others.push_back(block);
    sum += rounded(20000);
  }
  EXPECT_GE(sum + 4 * rounded(20000), (uint64_t{8} << 20) / 10 * 9) << "free parts of other threads' spans were not used";
  EXPECT_LE(memory.peak_bytes(), 8u << 20);
  for (const heddle_block_t& block : others) free(block);
  for (size_t i = 0; i < blocks.size(); i += 50) free(blocks[i]);
  const heddle_block_t whole = allocate(8 << 20);
  free(whole);
}

TEST_F(PoolThreadsTest, EachThreadReusesInStreamOrderAndOthersDoNot) {
  open("pool");
  free(allocate(100));
  elsewhere([&] {
    const heddle_block_t first = allocate_here(5000);
    const heddle_point_t point = {timeline(1), 5};
    top().api()->free(top().get(), &first, &point, 1);
    const uint64_t reserved = statistics().bytes_reserved.current;
    std::vector<heddle_block_t> filling;  // so that only what waits is left of the span of 64 KiB
    for (int i = 0; i < 11; ++i) filling.push_back(allocate_here(5000));
    const heddle_block_t behind = allocate_here(5000, {timeline(1), 5});
    EXPECT_TRUE(behind.buffer == first.buffer && behind.offset == first.offset) << "not reused in stream order";
    EXPECT_EQ(statistics().bytes_reserved.current, reserved);
    for (const heddle_block_t& block : filling) top().api()->free(top().get(), &block, nullptr, 0);
    top().api()->free(top().get(), &behind, &point, 1);
  });
  EXPECT_EQ(statistics().allocated.current, 0u);
  EXPECT_EQ(statistics().active.current, rounded(5000));
  EXPECT_OK(trim(0));
  EXPECT_GT(memory.live(), 0u) << "memory that work still uses was given back";
  memory.reach(timeline(1), 5);
  EXPECT_OK(trim(0));
  EXPECT_EQ(memory.live(), 0u);
}

TEST_F(PoolThreadsTest, DestroyingGivesBackWhatWaitsInAThreadsSpan) {
  open("pool");
  const heddle_block_t held = allocate(100);
  elsewhere([&] {
    const heddle_block_t block = allocate_here(5000);
    const heddle_point_t point = {timeline(1), 5};
    top().api()->free(top().get(), &block, &point, 1);
  });
  free(held);
  allocators.pop_back();
  EXPECT_EQ(memory.live(), 0u);
  EXPECT_EQ(memory.freed_with_points.load(), 1u);
}

// More threads than heaps, one after another: nothing grows with their number.
TEST_F(PoolThreadsTest, ThreadsThatComeAndGoReserveNoMore) {
  open("pool");
  uint64_t peak = 0;
  for (int i = 0; i < 300; ++i) {
    elsewhere([&] {
      std::vector<heddle_block_t> blocks;
      for (int j = 0; j < 30; ++j) blocks.push_back(allocate_here(3000));
      for (const heddle_block_t& block : blocks) top().api()->free(top().get(), &block, nullptr, 0);
    });
    if (i == 40) peak = memory.peak_bytes();
  }
  EXPECT_EQ(memory.peak_bytes(), peak);
  EXPECT_LE(peak, 16u << 20);
  EXPECT_EQ(statistics().requested.peak, 30u * 3000);
}

}  // namespace
}  // namespace heddle::test
