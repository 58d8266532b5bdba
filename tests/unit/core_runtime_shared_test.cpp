// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls, tensors and functions that several hold at once, on every driver: results that a later call takes over, streams, counts, and everything
// that may be done with calls from many threads at a time. HEDDLE_STRESS_SECONDS says for how long; without it, briefly.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "../streams/application.h"
#include "core_drivers.h"

namespace heddle::testing {
namespace {

class RuntimeShared : public OnDriver {
 protected:
  static constexpr int64_t kWidth = 4;
  // out = 2 x, after `spins` thousand pauses.
  void add_slow_double(ModuleBuilder& module, const std::string& name, int64_t spins) const {
    mf::FunctionT& function = module.add_function(name);
    function.arguments.push_back(ModuleBuilder::type("x", {ModuleBuilder::extent(kWidth)}));
    function.results.push_back(ModuleBuilder::type("y", {ModuleBuilder::extent(kWidth)}));
    ProgramBuilder p = program();
    uint32_t pauses = p.literal(spins), width = p.literal(kWidth), one = p.literal(1), waited = p.transient(width);
    uint32_t first = p.dispatch("wait", kSlowly, {ProgramBuilder::whole(waited, kWrite)}, {pauses}, {one, one, one});
    p.lives(waited, first, first);
    p.barrier();
    p.dispatch("add", kAdd,
               {ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.argument(0), kRead),
                ProgramBuilder::whole(p.result(0), kWrite)},
               {width, width}, {one, one, one});
    function.programs.push_back(p.finish());
  }
  // result: the tensor to write into, or NULL for a new one; what it is then.
  static heddle_status_t* try_start(heddle_function_t* function, heddle_tensor_t* argument, heddle_tensor_t** result, CallHandle* out,
                                    uint64_t deadline_ns = 0, heddle_call_params_t params = {}) {
    params.struct_size = sizeof(params);
    params.deadline_ns = deadline_ns;
    heddle_call_t* call = nullptr;
    heddle_status_t* status = heddle_call_start(function, &params, &argument, argument ? 1 : 0, result, 1, &call);
    out->reset(call);
    return status;
  }
  // Of one element, whose size is not known before its call is over.
  static int64_t number(const TensorHandle& tensor) {
    int64_t value = -1;
    HEDDLE_EXPECT_OK(heddle_tensor_read(tensor.get(), &value, sizeof(value)));
    return value;
  }
  static TensorHandle floats(heddle_function_t* function, float value) {
    return make_tensor<float>(function, 0, {kWidth}, std::vector<float>(kWidth, value));
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeShared, ::testing::ValuesIn(kDrivers), driver_name);

// Both calls fill one tensor, the second behind the first. That the first is over says nothing about what the tensor holds.
TEST_P(RuntimeShared, AResultBelongsToTheLastCallThatFillsIt) {
  ModuleBuilder module = builder();
  add_slow_double(module, "quick", 1);
  add_slow_double(module, "middle", 200);
  add_slow_double(module, "slow", 3000);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t *quick = find_function(instance, "quick"), *middle = find_function(instance, "middle"),
                    *slow = find_function(instance, "slow");
  TensorHandle one = floats(quick, 1), two = floats(quick, 2), three = floats(quick, 3);
  heddle_tensor_t* filled = nullptr;
  CallHandle first, second;
  HEDDLE_ASSERT_OK(try_start(quick, one.get(), &filled, &first));
  TensorHandle result(filled);
  HEDDLE_ASSERT_OK(try_start(slow, two.get(), &filled, &second));
  HEDDLE_EXPECT_OK(heddle_call_wait(first.get(), HEDDLE_TIMEOUT_INFINITE));
  EXPECT_EQ(read_tensor(result), std::vector<float>(kWidth, 4)) << "the second call was not waited for";
  HEDDLE_EXPECT_OK(heddle_call_wait(second.get(), HEDDLE_TIMEOUT_INFINITE));

  // The same where the first call's handle is given back at once, and its end is seen when some other call starts.
  HEDDLE_ASSERT_OK(try_start(middle, one.get(), &filled, &first));
  first.reset();
  HEDDLE_ASSERT_OK(try_start(slow, three.get(), &filled, &second));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CallHandle other;
  heddle_tensor_t* elsewhere = nullptr;
  HEDDLE_ASSERT_OK(try_start(quick, one.get(), &elsewhere, &other));
  TensorHandle made_elsewhere(elsewhere);
  EXPECT_EQ(read_tensor(result), std::vector<float>(kWidth, 6));
}

// The host waits for such a call before it is returned, and what it made is the caller's all the same.
TEST_P(RuntimeShared, ACallInPiecesOnAStreamGivesItsResults) {
  if (std::string(GetParam().name) != "Streams") GTEST_SKIP() << "it has no streams";
  ModuleBuilder module = builder();
  add_looked_at(module);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  TensorHandle n = make_tensor<int64_t>(function, 0, {1}, {42}, HEDDLE_TYPE_I64);
  test::ApplicationStream stream;
  heddle_call_params_t params{};
  params.flags = HEDDLE_CALL_NATIVE_STREAM;
  params.native_stream = stream.native();
  heddle_tensor_t* result = nullptr;
  CallHandle call;
  HEDDLE_ASSERT_OK(try_start(function, n.get(), &result, &call, 0, params));
  ASSERT_NE(result, nullptr);
  EXPECT_EQ(read_tensor<int64_t>(TensorHandle(result)), std::vector<int64_t>{42});
  HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), 0));
  call.reset();
  instance.reset();
}

// What a call leaves on a stream ends after the call does, and uses the call's timelines until then.
TEST_P(RuntimeShared, CallsOnStreamsKeepWhatTheStreamsUse) {
  if (std::string(GetParam().name) != "Streams") GTEST_SKIP() << "it has no streams";
  runtime = open_runtime({HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS}, config() + "[validation]\ncalls = true\n");
  std::vector<std::unique_ptr<test::ApplicationStream>> streams;
  for (int i = 0; i < 20; ++i)  // more than a device keeps
    streams.push_back(std::make_unique<test::ApplicationStream>(std::chrono::milliseconds(2)));
  ModuleBuilder module = builder();
  add_slow_double(module, "main", 1);
  for (int round = 0; round < 5; ++round) {
    InstanceHandle instance = open(module);
    ASSERT_NE(instance, nullptr);
    heddle_function_t* function = find_function(instance);
    TensorHandle x = floats(function, 1);
    std::vector<TensorHandle> results;
    for (const std::unique_ptr<test::ApplicationStream>& stream : streams) {
      heddle_call_params_t params{};
      params.flags = HEDDLE_CALL_NATIVE_STREAM;
      params.native_stream = stream->native();
      heddle_tensor_t* result = nullptr;
      CallHandle call;
      HEDDLE_ASSERT_OK(try_start(function, x.get(), &result, &call, 0, params));
      results.emplace_back(result);
    }
    for (const TensorHandle& result : results) EXPECT_EQ(read_tensor(result), std::vector<float>(kWidth, 2));
  }
  expect_no_violations();
}

// A call is counted when it takes what it runs with; one that is refused then is taken back, also while somebody looks.
TEST_P(RuntimeShared, CountsOfRefusedCallsDoNotFallBelowZero) {
  ModuleBuilder module = builder();
  add_slow_double(module, "main", 1);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  TensorHandle x = floats(function, 1);
  call_for_one(function, {x.get()});
  std::atomic<bool> done{false};
  std::atomic<uint64_t> refused{0};
  std::vector<std::thread> threads;
  const int64_t dims[] = {1};
  const int64_t number = 7;
  heddle_tensor_t* wrong = nullptr;
  {
    ModuleBuilder other = builder();
    add_looked_at(other);
    InstanceHandle maker = open(other);
    HEDDLE_ASSERT_OK(heddle_tensor_from_host(find_function(maker), 0, HEDDLE_TYPE_I64, dims, 1, &number, 8, &wrong));
  }
  TensorHandle kept(wrong);
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!done) {
        heddle_tensor_t *argument = x.get(), *out = wrong;
        if (Outcome(heddle_call(function, &argument, 1, &out, 1)).code == HEDDLE_STATUS_INVALID_ARGUMENT) ++refused;
      }
    });
  }
  uint64_t most = 0;
  for (int i = 0; i < 300; ++i) {
    const auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
    most = std::max({most, statistics["submissions"].get<uint64_t>(), statistics["dispatches"].get<uint64_t>() / 2});
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 1u + threads.size()) << "calls in flight may be counted, and no more";
  const auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
  EXPECT_EQ(statistics["submissions"], 1);
  EXPECT_EQ(statistics["dispatches"], 2);
  EXPECT_EQ(statistics["failed_calls"], refused.load());
  EXPECT_EQ(statistics["calls"], refused + 1);
}

// Each thread does what it draws; what all of them did is known at the end.
TEST_P(RuntimeShared, ManyThreadsDoEverythingAtOnce) {
  constexpr int kThreads = 6;
  const char* asked = std::getenv("HEDDLE_STRESS_SECONDS");
  const uint64_t end_ns = now_ns() + static_cast<uint64_t>(asked ? std::atof(asked) * 1e9 : 1e9);
  for (uint32_t round = 0; round == 0 || now_ns() < end_ns; ++round) {
    ModuleBuilder module = builder();
    add_slow_double(module, "double", 2);
    add_slow_double(module, "long double", 40);
    add_failing(module);
    add_looked_at(module);
    add_adder(module, "add", kWidth);
    const uint32_t state = module.add_global("value", mf::GlobalKind::State, 8);
    add_step(module, "step", state, false);
    add_step(module, "looked at step", state, true);
    InstanceHandle instance = open(module);
    ASSERT_NE(instance, nullptr);
    heddle_function_t *twice = find_function(instance, "double"), *slow = find_function(instance, "long double"),
                      *breaks = find_function(instance, "breaks"), *looked = find_function(instance, "looked at"),
                      *add = find_function(instance, "add"), *step = find_function(instance, "step"),
                      *looked_step = find_function(instance, "looked at step");
    // Calls that all threads wait for, and cancel.
    constexpr size_t kShared = 4;
    CallHandle shared[kShared];
    TensorHandle shared_results[kShared];
    for (size_t i = 0; i < kShared; ++i) {
      TensorHandle x = i == 2 ? make_tensor<int64_t>(looked, 0, {1}, {5}, HEDDLE_TYPE_I64) : floats(slow, 1);
      heddle_tensor_t* out = nullptr;
      HEDDLE_ASSERT_OK(try_start(i == 1 ? breaks : i == 2 ? looked : slow, i == 1 ? nullptr : x.get(), &out, &shared[i]));
      shared_results[i].reset(out);
    }
    std::atomic<uint64_t> wrong{0}, steps{0}, calls{kShared}, failed{1};
    std::vector<CallHandle> left[kThreads];
    std::vector<TensorHandle> left_results[kThreads];
    std::vector<std::thread> threads;
    const uint64_t round_end_ns = std::min(end_ns, now_ns() + 1'000'000'000);
    for (uint32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 draw(round * 100 + t);
        const float mine = static_cast<float>(t + 1);
        TensorHandle x = floats(twice, mine), y = floats(twice, 0),
                     pair = make_tensor<float>(add, 0, {1, kWidth}, std::vector<float>(kWidth, mine)),
                     n = make_tensor<int64_t>(looked, 0, {1}, {t}, HEDDLE_TYPE_I64);
        auto expect = [&](bool right) {
          if (!right) ++wrong;
        };
        for (size_t i = 0; i < kShared; ++i) {
          const heddle_status_code_t code =
              Outcome(heddle_call_wait(shared[i].get(), draw() % 2 ? HEDDLE_TIMEOUT_INFINITE : draw() % 500'000)).code;
          expect(code == HEDDLE_STATUS_DEADLINE_EXCEEDED || code == (i == 1 ? HEDDLE_STATUS_INTERNAL : HEDDLE_STATUS_OK));
          if (i != 2) heddle_call_cancel(shared[i].get());  // everything is enqueued: too late
        }
        do {
          heddle_tensor_t *out = nullptr, *in_place = y.get();
          CallHandle call, next;
          switch (draw() % 11) {
            case 0:  // waits
              expect(read_tensor(call_for_one(twice, {x.get()})) == std::vector<float>(kWidth, 2 * mine));
              ++calls;
              break;
            case 1:  // wait with a timeout, then for good
              expect(Outcome(try_start(twice, x.get(), &out, &call)).ok());
              while (Outcome(heddle_call_wait(call.get(), draw() % 20'000)).code == HEDDLE_STATUS_DEADLINE_EXCEEDED) {
              }
              expect(read_tensor(TensorHandle(out)) == std::vector<float>(kWidth, 2 * mine));
              ++calls;
              break;
            case 2:  // abandoned, read later
              expect(Outcome(try_start(slow, x.get(), &out, &call)).ok());
              call.reset();
              expect(read_tensor(TensorHandle(out)) == std::vector<float>(kWidth, 2 * mine));
              ++calls;
              break;
            case 3:  // fails, seen or not
              expect(Outcome(try_start(breaks, nullptr, &out, &call)).ok());
              TensorHandle(out).reset();
              if (draw() % 2) expect(Outcome(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE)).code == HEDDLE_STATUS_INTERNAL);
              ++calls;
              ++failed;
              break;
            case 4: {  // in pieces, perhaps cancelled or too late
              const uint32_t how = draw() % 4;
              const uint64_t deadline_ns = how == 0 ? now_ns() + draw() % 300'000 : 0;
              Outcome started = try_start(looked, n.get(), &out, &call, deadline_ns);
              TensorHandle result(out);
              ++calls;
              if (!started.ok()) {
                expect(started.code == HEDDLE_STATUS_DEADLINE_EXCEEDED);
                ++failed;
                break;
              }
              if (how == 1) heddle_call_cancel(call.get());
              const heddle_status_code_t code = Outcome(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE)).code;
              expect(code == HEDDLE_STATUS_OK || (how == 0 && code == HEDDLE_STATUS_DEADLINE_EXCEEDED) ||
                     (how == 1 && code == HEDDLE_STATUS_CANCELLED));
              if (code == HEDDLE_STATUS_OK) {
                expect(number(result) == t);
              } else {
                ++failed;
              }
              break;
            }
            case 5: {  // one tensor is filled by two, one behind the other
              TensorHandle zero = floats(twice, 0);
              expect(Outcome(try_start(twice, zero.get(), &in_place, &call)).ok());
              if (draw() % 2) call.reset();
              expect(Outcome(try_start(slow, x.get(), &in_place, &next)).ok());
              if (call && draw() % 2) expect(Outcome(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE)).ok());
              expect(read_tensor(y) == std::vector<float>(kWidth, 2 * mine));
              calls += 2;
              break;
            }
            case 6: {  // a call that is held back by one in pieces, and given back
              heddle_tensor_t *made = nullptr, *copied = nullptr;
              expect(Outcome(try_start(looked, n.get(), &made, &call)).ok());
              expect(Outcome(try_start(looked, made, &copied, &next)).ok());
              call.reset();
              if (draw() % 2) next.reset();
              TensorHandle first(made);
              expect(number(TensorHandle(copied)) == t);
              calls += 2;
              break;
            }
            case 7:  // state, in one piece or in several
              expect(Outcome(try_start(draw() % 2 ? step : looked_step, n.get(), &out, &call)).ok());
              if (draw() % 2) call.reset();
              static_cast<void>(number(TensorHandle(out)));
              ++steps;
              ++calls;
              break;
            case 8: {  // many extents: plans come and go
              const int64_t batch = 1 + draw() % 40;
              const std::vector<float> values(static_cast<size_t>(batch * kWidth), mine);
              TensorHandle wide = make_tensor<float>(add, 0, {batch, kWidth}, values);
              heddle_tensor_t* arguments[] = {wide.get(), wide.get()};
              heddle_call_t* started = nullptr;
              expect(Outcome(heddle_call_start(add, nullptr, arguments, 2, &out, 1, &started)).ok());
              call.reset(started);
              expect(read_tensor(TensorHandle(out)) == std::vector<float>(values.size(), 2 * mine));
              ++calls;
              break;
            }
            case 9:  // refused
              in_place = n.get();
              expect(Outcome(try_start(twice, x.get(), &in_place, &call)).code == HEDDLE_STATUS_INVALID_ARGUMENT);
              ++calls;
              ++failed;
              break;
            default:
              if (draw() % 8 == 0) expect(instance_report(instance, "statistics").find("18446744073709") == std::string::npos);
              break;
          }
        } while (now_ns() < round_end_ns);
        // Whose work is under way when the instance's handle goes.
        for (int i = 0; i < 6; ++i) {
          CallHandle call;
          heddle_tensor_t* out = nullptr;
          expect(Outcome(try_start(i % 3 == 2 ? looked : slow, i % 3 == 2 ? n.get() : x.get(), &out, &call)).ok());
          ++calls;
          left_results[t].emplace_back(out);
          left[t].push_back(std::move(call));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    ASSERT_EQ(wrong, 0u);
    for (size_t i = 0; i < kShared; ++i) {
      EXPECT_EQ(Outcome(heddle_call_wait(shared[i].get(), HEDDLE_TIMEOUT_INFINITE)).code,
                i == 1 ? HEDDLE_STATUS_INTERNAL : HEDDLE_STATUS_OK);
      shared[i].reset();
    }
    if (round % 2 == 0) {
      for (std::vector<CallHandle>& some : left) {
        for (CallHandle& call : some) HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
      }
      TensorHandle zero = make_tensor<int64_t>(step, 0, {1}, {0}, HEDDLE_TYPE_I64);
      uint64_t value = 0;
      for (uint64_t i = 0; i <= steps; ++i) value = value * 3 + 1;
      EXPECT_EQ(static_cast<uint64_t>(read_tensor<int64_t>(call_for_one(step, {zero.get()}))[0]), value) << steps << " steps";
      const auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
      EXPECT_EQ(statistics["calls"], calls + 1);
      EXPECT_EQ(statistics["failed_calls"], failed.load());
    }
    // Every thread gives its calls back, and one of them the instance.
    for (uint32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (CallHandle& call : left[t]) call.reset();
      });
    }
    instance.reset();
    for (std::thread& thread : threads) thread.join();
    for (uint32_t t = 0; t < kThreads; ++t) {
      for (size_t i = 0; i < left_results[t].size(); ++i) {
        if (i % 3 == 2) {
          EXPECT_EQ(number(left_results[t][i]), t);
        } else {
          EXPECT_EQ(read_tensor(left_results[t][i])[0], 2 * static_cast<float>(t + 1));
        }
      }
    }
  }
}

}  // namespace
}  // namespace heddle::testing
