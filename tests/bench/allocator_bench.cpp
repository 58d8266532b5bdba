// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.pool: what a pair of calls costs, alone and from four threads, and how much it reserves for traces, recorded ones or generated.
//   allocator_bench [ROUNDS]    times, and traces of seeds that the pool was tuned on and of others
//   allocator_bench ROUNDS times  the times alone
//   allocator_bench FROM TO     the traces of these seeds
//   allocator_bench FILE...     replays what heddle.log wrote
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <thread>

#include "fake_memory.h"
#include "memory_trace.h"

namespace heddle::test {
namespace {

using Clock = std::chrono::steady_clock;

std::string plugin(const char* name) {
  return std::string(HEDDLE_TEST_PLUGINS "/libheddle_") + name + ".so";
}

constexpr int kPairs = 100000;

// Nanoseconds of a thread for a pair, of which it does kPairs while the others do theirs. body(thread, count) does that many.
double pair_ns(int threads, const std::function<void(size_t, int)>& body) {
  std::atomic<int> waiting{threads};
  std::atomic<double> sum{0};
  auto work = [&](size_t thread) {
    body(thread, kPairs / 5);
    --waiting;
    while (waiting.load() > 0) std::this_thread::yield();
    const Clock::time_point start = Clock::now();
    body(thread, kPairs);
    sum.fetch_add(std::chrono::duration<double>(Clock::now() - start).count() * 1e9 / kPairs);
  };
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) all.emplace_back(work, static_cast<size_t>(i));
  for (std::thread& thread : all) thread.join();
  return sum.load() / threads;
}

// What threads hold while they allocate and free: `held` blocks of up to `most` bytes each, of which the oldest is replaced.
struct Mix {
  const char* name;
  uint64_t most;
  int held;
};

// Of allocate and free. pools: 1 for all threads, or one for each.
double pool_pair_ns(int threads, int pools, const Mix& mix) {
  PluginHost host;
  FakeMemory memory(host);
  struct Thread {
    std::vector<uint64_t> sizes;
    std::vector<heddle_block_t> blocks;
    StackedAllocator* pool;
  };
  std::vector<std::unique_ptr<StackedAllocator>> all_pools;
  for (int i = 0; i < pools; ++i) all_pools.push_back(std::make_unique<StackedAllocator>(host, plugin("pool"), memory.table()));
  std::vector<Thread> states(static_cast<size_t>(threads));
  for (size_t i = 0; i < states.size(); ++i) {
    std::mt19937_64 random(i + 1);
    for (int j = 0; j < 4096; ++j) states[i].sizes.push_back(mix.held == 1 ? mix.most : 64 + random() % mix.most);
    states[i].pool = all_pools[i % all_pools.size()].get();
  }
  const double took = pair_ns(threads, [&](size_t thread, int count) {
    Thread& state = states[thread];
    StackedAllocator& pool = *state.pool;
    if (state.blocks.empty()) state.blocks.resize(static_cast<size_t>(mix.held));  // by the thread itself: no line is another's too
    heddle_block_params_t params = {sizeof params, 0, 0, 0, {}, nullptr, 0};
    uint32_t waits = 0;
    for (int i = 0; i < count; ++i) {
      heddle_block_t& block = state.blocks[static_cast<size_t>(i % mix.held)];
      if (block.buffer) pool.api()->free(pool.get(), &block, nullptr, 0);
      params.size_bytes = state.sizes[static_cast<size_t>(i) % 4096];
      PluginHost::free_status(pool.api()->allocate(pool.get(), &params, &block, nullptr, &waits));
    }
  });
  for (Thread& state : states) {
    for (heddle_block_t& block : state.blocks) state.pool->api()->free(state.pool->get(), &block, nullptr, 0);
  }
  return took;
}

// Of two additions to one word that all threads share: what a pair costs at least where each of its calls writes to shared memory.
double shared_word_ns(int threads) {
  alignas(64) std::atomic<uint64_t> word{0};
  constexpr int kTimes = 10;  // as long as with a pool, so that the threads really run at once
  return pair_ns(threads,
                 [&](size_t, int count) {
                   for (int i = 0; i < 2 * kTimes * count; ++i) word.fetch_add(1, std::memory_order_relaxed);
                 }) /
         kTimes;
}

void print_times(int rounds) {
  std::printf("ns of a thread for a pair of calls, least and median of %d rounds; ratios to one thread\n", rounds);
  std::printf("%-28s %16s %16s %16s %8s %8s %16s\n", "each thread holds", "1 thread", "4 on one pool", "4 on a pool each", "least",
              "median", "4 on one word");
  for (const Mix& mix :
       {Mix{"one block of 1000 B", 1000, 1}, {"32 blocks of up to 1 kB", 1000, 32}, {"32 blocks of up to 100 kB", 100000, 32}}) {
    std::vector<double> one, four, apart, word;
    for (int round = 0; round < rounds; ++round) {
      one.push_back(pool_pair_ns(1, 1, mix));
      four.push_back(pool_pair_ns(4, 1, mix));
      apart.push_back(pool_pair_ns(4, 4, mix));
      word.push_back(shared_word_ns(4));
    }
    const size_t middle = one.size() / 2;
    for (std::vector<double>* all : {&one, &four, &apart, &word}) std::sort(all->begin(), all->end());
    std::printf("%-28s %8.1f %7.1f %8.1f %7.1f %8.1f %7.1f %8.2f %8.2f %8.1f %7.1f\n", mix.name, one[0], one[middle], four[0], four[middle],
                apart[0], apart[middle], four[0] / one[0], four[middle] / one[middle], word[0], word[middle]);
  }
}

// What a trace makes heddle.log write, read back.
MemoryTrace recorded(const MemoryTrace& trace) {
  const std::string path = (std::filesystem::temp_directory_path() / ("heddle-trace-" + std::to_string(getpid()))).string();
  {
    PluginHost host;
    FakeMemory memory(host);
    const heddle_option_t file = {sizeof file, HEDDLE_OPTION_STRING, string_of("file"), 0, 0, string_of(path)};
    StackedAllocator log(host, plugin("log"), memory.table(), {file});
    std::vector<heddle_block_t> blocks;
    std::vector<heddle_string_t> owners;
    for (const std::string& owner : trace.owners) owners.push_back(string_of(owner));
    for (const MemoryTrace::Event& event : trace.events) {
      if (event.is_free) {
        log.api()->free(log.get(), &blocks[event.block], nullptr, 0);
        continue;
      }
      heddle_block_params_t params = {sizeof params, 0, event.size_bytes, 0, {}, &owners[event.owner], 0};
      uint32_t waits = 0;
      blocks.emplace_back();
      PluginHost::free_status(log.api()->allocate(log.get(), &params, &blocks.back(), nullptr, &waits));
    }
  }
  std::ifstream file(path);
  MemoryTrace read = read_trace(trace.name, file);
  std::filesystem::remove(path);
  return read;
}

// asked later: calls of the provider in the second half of the trace.
void replay(const MemoryTrace& trace, const char* seed) {
  PluginHost host;
  FakeMemory memory(host);
  StackedAllocator pool(host, plugin("pool"), memory.table());
  std::vector<heddle_block_t> blocks;
  heddle_block_params_t params = {sizeof params, 0, 0, 0, {}, nullptr, 0};
  uint32_t waits = 0;
  uint64_t asked_before = 0;
  size_t position = 0;
  for (const MemoryTrace::Event& event : trace.events) {
    if (++position == trace.events.size() / 2) asked_before = memory.asked;
    if (event.is_free) {
      pool.api()->free(pool.get(), &blocks[event.block], nullptr, 0);
      continue;
    }
    params.size_bytes = event.size_bytes;
    blocks.emplace_back();
    PluginHost::free_status(pool.api()->allocate(pool.get(), &params, &blocks.back(), nullptr, &waits));
  }
  const auto live = static_cast<double>(trace.peak_live_bytes()), reserved = static_cast<double>(memory.peak_bytes());
  std::printf("%-22s %6s %9llu %12.1f %12.1f %7.3f %7llu %12llu\n", trace.name.c_str(), seed,
              static_cast<unsigned long long>(trace.blocks()), live / 1048576, reserved / 1048576, reserved / live,
              static_cast<unsigned long long>(memory.asked.load()), static_cast<unsigned long long>(memory.asked.load() - asked_before));
}

void print_header() {
  std::printf("\n%-22s %6s %9s %12s %12s %7s %7s %12s\n", "trace", "seed", "blocks", "peak live MB", "reserved MB", "ratio", "asked",
              "asked later");
}

}  // namespace
}  // namespace heddle::test

int main(int argc, char** argv) {
  using namespace heddle::test;
  if (argc > 1 && std::filesystem::exists(argv[1])) {
    print_header();
    for (int i = 1; i < argc; ++i) {
      std::ifstream file(argv[i]);
      replay(read_trace(std::filesystem::path(argv[i]).filename().string(), file), "");
    }
    return 0;
  }
  const bool times = argc == 3 && std::string_view(argv[2]) == "times";
  if (argc <= 2 || times) print_times(argc > 1 ? std::atoi(argv[1]) : 41);
  if (times) return 0;
  print_header();
  std::vector<uint64_t> seeds = {1, 2, 3, 70001, 70002, 70003};
  if (argc > 2) {
    seeds.clear();
    for (uint64_t seed = std::strtoull(argv[1], nullptr, 10); seed <= std::strtoull(argv[2], nullptr, 10); ++seed) seeds.push_back(seed);
  }
  for (uint64_t seed : seeds) {
    const std::string text = std::to_string(seed);
    replay(recorded(resnet50_training(seed)), text.c_str());
    replay(recorded(transformer_serving(seed)), text.c_str());
    replay(recorded(power_law(seed)), text.c_str());
  }
}
