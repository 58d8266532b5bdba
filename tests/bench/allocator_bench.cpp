// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.pool: what a pair of calls costs, alone and from four threads, and how much it reserves for recorded traces.
//   allocator_bench [ROUNDS]    times, and traces of seeds that the pool was tuned on and of others
//   allocator_bench FROM TO     the traces of these seeds
//   allocator_bench FILE...     replays what heddle.log wrote
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
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

// Nanoseconds of a thread for a pair of allocate and free. Each thread keeps `held` blocks of up to `most` bytes and replaces the oldest.
double pair_ns(int threads, uint64_t most, int held) {
  PluginHost host;
  FakeMemory memory(host);
  StackedAllocator pool(host, plugin("pool"), memory.table());
  constexpr int kPairs = 100000;
  std::vector<std::vector<uint64_t>> sizes(static_cast<size_t>(threads));
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::mt19937_64 random(i + 1);
    for (int j = 0; j < 4096; ++j) sizes[i].push_back(held == 1 ? most : 64 + random() % most);
  }
  std::atomic<int> waiting{threads};
  std::atomic<double> sum{0};
  auto work = [&](size_t thread) {
    std::vector<heddle_block_t> blocks(static_cast<size_t>(held));
    heddle_block_params_t params = {sizeof params, 0, 0, 0, {}, nullptr};
    uint32_t waits = 0;
    auto pairs = [&](int count) {
      for (int i = 0; i < count; ++i) {
        heddle_block_t& block = blocks[static_cast<size_t>(i % held)];
        if (block.buffer) pool.api()->free(pool.get(), &block, nullptr, 0);
        params.size_bytes = sizes[thread][static_cast<size_t>(i) % 4096];
        pool.api()->allocate(pool.get(), &params, &block, nullptr, &waits);
      }
    };
    pairs(20000);
    --waiting;
    while (waiting.load() > 0) std::this_thread::yield();
    const Clock::time_point start = Clock::now();
    pairs(kPairs);
    const double took = std::chrono::duration<double>(Clock::now() - start).count() * 1e9 / kPairs;
    for (double before = sum.load(); !sum.compare_exchange_weak(before, before + took);) {
    }
    for (heddle_block_t& block : blocks) pool.api()->free(pool.get(), &block, nullptr, 0);
  };
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) all.emplace_back(work, static_cast<size_t>(i));
  for (std::thread& thread : all) thread.join();
  return sum.load() / threads;
}

void print_times(int rounds) {
  std::printf("%-28s %10s %10s %10s %10s %8s %8s\n", "pair of calls, ns", "1: least", "median", "4: least", "median", "ratio", "median");
  const struct {
    const char* name;
    uint64_t most;
    int held;
  } mixes[] = {{"one block of 1000 B", 1000, 1}, {"32 blocks of up to 1 kB", 1000, 32}, {"32 blocks of up to 100 kB", 100000, 32}};
  for (const auto& mix : mixes) {
    std::vector<double> one, four;
    for (int round = 0; round < rounds; ++round) {
      one.push_back(pair_ns(1, mix.most, mix.held));
      four.push_back(pair_ns(4, mix.most, mix.held));
    }
    std::sort(one.begin(), one.end());
    std::sort(four.begin(), four.end());
    const double middle_one = one[one.size() / 2], middle_four = four[four.size() / 2];
    std::printf("%-28s %10.1f %10.1f %10.1f %10.1f %8.2f %8.2f\n", mix.name, one[0], middle_one, four[0], middle_four, four[0] / one[0],
                middle_four / middle_one);
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
      heddle_block_params_t params = {sizeof params, 0, event.size_bytes, 0, {}, &owners[event.owner]};
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
  heddle_block_params_t params = {sizeof params, 0, 0, 0, {}, nullptr};
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
  if (argc <= 2) print_times(argc > 1 ? std::atoi(argv[1]) : 41);
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
