// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls over two devices, of every pair of drivers: copies between them, what overlaps in time, and how many threads that takes.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "core_two_devices.h"

namespace heddle::testing {
namespace {

struct Pair {
  const char* name;
  const char* a;
  const char* b;
  const char* options = "";  // of test.streams
};
constexpr Pair kPairs[] = {{"CpuCpu", "heddle.cpu:0", "heddle.cpu:1"},
                           {"CpuStreams", "heddle.cpu:0", "test.streams:0"},
                           {"StreamsCpu", "test.streams:0", "heddle.cpu:0"},
                           {"StreamsStreams", "test.streams:0", "test.streams:1"},
                           {"StreamsStreamsStaged", "test.streams:0", "test.streams:1", "peer = false\n"}};

void PrintTo(const Pair& pair, std::ostream* out) {
  *out << pair.name;
}

double seconds_of(const std::function<void()>& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

size_t thread_count() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator()));
}

class RuntimePairs : public OverTwoDevices, public ::testing::WithParamInterface<Pair> {
 protected:
  void open_runtime_with(const std::string& more) { OverTwoDevices::open_runtime_with(more + GetParam().options); }
  InstanceHandle open(ModuleBuilder& module) { return OverTwoDevices::open(module, GetParam().a, GetParam().b); }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimePairs, ::testing::ValuesIn(kPairs), [](const auto& info) { return info.param.name; });

// More bytes than a piece of staging memory holds, and not a multiple of it; several calls at once, each with bytes of its own.
TEST_P(RuntimePairs, MovesValuesOfEverySize) {
  open_runtime_with("latency_us = 300\n");
  for (int64_t elements : {int64_t{1}, int64_t{1} << 20, (int64_t{11} << 20) / 4 + 3}) {
    ModuleBuilder module = builder();
    add_round_trip(module, elements);
    InstanceHandle instance = open(module);
    ASSERT_NE(instance, nullptr);
    heddle_function_t* round = find_function(instance, "round");
    std::vector<TensorHandle> arguments, results(3);
    std::vector<CallHandle> calls;
    for (int call = 0; call < 3; ++call) {
      std::vector<float> values(static_cast<size_t>(elements));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000 + static_cast<size_t>(call) * 1000);
      arguments.push_back(make_tensor<float>(round, 0, {elements}, values));
    }
    for (size_t call = 0; call < 3; ++call) calls.push_back(start(round, {arguments[call].get()}, &results[call]));
    TensorHandle waited = call_for_one(round, {arguments[1].get()});
    for (size_t call = 0; call < 3; ++call) {
      HEDDLE_EXPECT_OK(heddle_call_wait(calls[call].get(), HEDDLE_TIMEOUT_INFINITE));
      const std::vector<float> before = read_tensor(arguments[call]), after = read_tensor(results[call]);
      size_t wrong = 0;
      for (size_t i = 0; i < before.size(); ++i) wrong += after[i] != 4 * before[i];
      EXPECT_EQ(wrong, 0u) << elements << " elements, call " << call;
    }
    EXPECT_EQ(read_tensor(waited), read_tensor(results[1]));
  }
}

// What test.streams does is told after a while, which takes no core: calls of several threads wait for it at the same time.
class RuntimeDelayedPairs : public RuntimePairs {};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeDelayedPairs, ::testing::ValuesIn(kPairs + 1, std::end(kPairs)),
                         [](const auto& info) { return info.param.name; });

TEST_P(RuntimeDelayedPairs, CallsOverlapInTime) {
  open_runtime_with("latency_us = 0\nbatch_us = 20000\n");
  ModuleBuilder module = builder();
  add_slow(module, "forth", 1, 0);
  add_slow(module, "back", 1, 1);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* functions[] = {find_function(instance, "forth"), find_function(instance, "back")};
  for (heddle_function_t* function : functions) call_for_one(function, {});
  const double apart = seconds_of([&] {
    for (int i = 0; i < 8; ++i) call_for_one(functions[i % 2], {});
  });
  // A busy machine may hold up any one attempt; calls that never overlap are late in each.
  const auto least_of = [&](const std::function<void()>& calls) {
    double least = seconds_of(calls);
    for (int attempt = 1; attempt < 20 && least >= apart / 2; ++attempt) least = std::min(least, seconds_of(calls));
    return least;
  };
  const double started = least_of([&] {
    std::vector<CallHandle> calls;
    std::vector<TensorHandle> results(8);
    for (size_t i = 0; i < 8; ++i) calls.push_back(start(functions[i % 2], {}, &results[i]));
    for (const CallHandle& call : calls) HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
  });
  const double threads = least_of([&] {
    std::vector<std::thread> callers;
    for (int i = 0; i < 8; ++i) callers.emplace_back([&, i] { call_for_one(functions[i % 2], {}); });
    for (std::thread& caller : callers) caller.join();
  });
  EXPECT_LT(started, apart / 2);
  EXPECT_LT(threads, apart / 2);
}

TEST_P(RuntimePairs, CallsInFlightNeedNoThreadsOfTheirOwn) {
  open_runtime_with("latency_us = 20000\n");
  ModuleBuilder module = builder();
  add_slow(module, "slow", 20, 0);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* slow = find_function(instance, "slow");
  call_for_one(slow, {});
  const size_t before = thread_count();
  std::vector<CallHandle> calls;
  std::vector<TensorHandle> results(64);
  for (TensorHandle& result : results) calls.push_back(start(slow, {}, &result));
  size_t most = 0;
  for (int look = 0; look < 10; ++look) {
    most = std::max(most, thread_count());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LE(most, before + 8) << "of 64 calls in flight";
  for (size_t i = 0; i < calls.size(); i += 2) calls[i].reset();  // nobody waits for these
  for (const TensorHandle& result : results) EXPECT_EQ(read_tensor<uint32_t>(result), std::vector<uint32_t>{1});
}

// A later call's region fails on the other device: the calls around it go well, and nothing is used again while it is still in use.
TEST_P(RuntimePairs, AFailureInTheMiddleIsThatCallsAlone) {
  open_runtime_with("latency_us = 2000\n");
  ModuleBuilder module = builder();
  add_round_trip(module, 1000);
  mf::FunctionT& breaks = module.add_function("breaks");
  breaks.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32));
  ProgramBuilder p = program();
  uint32_t one = p.literal(1), code = p.literal(3), size = p.literal(4), spins = p.literal(10);
  uint32_t here = p.transient(size), there = p.transient(size);
  p.dispatch("good", kSlowly, {ProgramBuilder::whole(here, kWrite)}, {spins}, {one, one, one});
  p.copy(ProgramBuilder::whole(here, kRead), ProgramBuilder::whole(there, kWrite));
  p.dispatch("bad region", kFailing, {}, {code}, {one, one, one}, 1);
  p.barrier();
  p.dispatch("after", kSlowly, {ProgramBuilder::whole(there, kReadWrite)}, {spins}, {one, one, one}, 1);
  p.copy(ProgramBuilder::whole(there, kRead), ProgramBuilder::whole(p.result(0), kWrite));
  breaks.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t *round = find_function(instance, "round"), *broken = find_function(instance, "breaks");
  std::vector<float> values(1000, 1.5f);
  TensorHandle a = make_tensor<float>(round, 0, {1000}, values);
  for (int turn = 0; turn < 5; ++turn) {
    TensorHandle first, failed, second;
    CallHandle before = start(round, {a.get()}, &first), middle = start(broken, {}, &failed), after = start(round, {a.get()}, &second);
    HEDDLE_EXPECT_FAILS(heddle_call_wait(middle.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_INTERNAL, "in region 'bad region'");
    uint32_t value = 0;
    HEDDLE_EXPECT_FAILS(heddle_tensor_read(failed.get(), &value, 4), HEDDLE_STATUS_INTERNAL, "");
    EXPECT_EQ(read_tensor(first), std::vector<float>(1000, 6.0f));
    EXPECT_EQ(read_tensor(second), std::vector<float>(1000, 6.0f));
    heddle_tensor_t* out = nullptr;
    HEDDLE_EXPECT_FAILS(heddle_call(broken, nullptr, 0, &out, 1), HEDDLE_STATUS_INTERNAL, "in region 'bad region'");
  }
}

}  // namespace
}  // namespace heddle::testing
