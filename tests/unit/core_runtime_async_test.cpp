// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls that are started and waited for later, on every driver: order, timeouts, failures, cancelling, handles given back early.
#include <atomic>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "../streams/application.h"
#include "core_drivers.h"

namespace heddle::testing {
namespace {

class RuntimeAsync : public OnDriver {
 protected:
  // out = slowly counted; spins for `spins` thousand pauses.
  void add_slow(ModuleBuilder& module, int64_t spins) {
    mf::FunctionT& function = module.add_function("slow");
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32));
    ProgramBuilder p = program();
    uint32_t one = p.literal(1), count = p.literal(spins);
    p.dispatch("wait", kSlowly, {ProgramBuilder::whole(p.result(0), kWrite)}, {count}, {one, one, one});
    function.programs.push_back(p.finish());
  }
  CallHandle start(heddle_function_t* function, const std::vector<heddle_tensor_t*>& arguments, TensorHandle* result) {
    heddle_call_t* call = nullptr;
    heddle_tensor_t* out = nullptr;
    HEDDLE_EXPECT_OK(heddle_call_start(function, nullptr, arguments.data(), static_cast<uint32_t>(arguments.size()), &out, 1, &call));
    result->reset(out);
    return CallHandle(call);
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeAsync, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeAsync, ChainsCallsWithoutWaiting) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  TensorHandle one = make_tensor<float>(function, 1, {1, 4}, {1, 1, 1, 1});
  TensorHandle value = make_tensor<float>(function, 0, {1, 4}, {0, 0, 0, 0});
  for (int i = 0; i < 50; ++i) {
    TensorHandle next;
    CallHandle call = start(function, {value.get(), one.get()}, &next);  // given back before it is over
    value = std::move(next);
  }
  EXPECT_EQ(read_tensor(value), (std::vector<float>{50, 50, 50, 50}));
}

TEST_P(RuntimeAsync, TakesMemoryOfTheProcessAndKnowsNoStreams) {
  if (std::string(GetParam().name) != "Cpu") GTEST_SKIP() << "it has streams";
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  int releases = 0;
  alignas(256) static float place[64] = {};
  heddle_device_memory_t memory = {
      sizeof memory, 0, reinterpret_cast<uint64_t>(place), 16, [](void* count) { ++*static_cast<int*>(count); }, &releases};
  const int64_t dims[] = {1, 4};
  heddle_tensor_t* tensor = nullptr;
  auto wrap = [&](uint32_t index) { return heddle_tensor_from_device(function, index, HEDDLE_TYPE_F32, dims, 2, &memory, &tensor); };
  HEDDLE_EXPECT_FAILS(wrap(2), HEDDLE_STATUS_OUT_OF_RANGE, "argument 2");
  memory.size_bytes = 20;
  HEDDLE_EXPECT_FAILS(wrap(0), HEDDLE_STATUS_INVALID_ARGUMENT, "got 20");
  memory.size_bytes = 16;
  memory.address += 4;
  HEDDLE_EXPECT_FAILS(wrap(1), HEDDLE_STATUS_INVALID_ARGUMENT, "multiple of");
  memory.flags = HEDDLE_DEVICE_MEMORY_RESULT;
  HEDDLE_EXPECT_FAILS(wrap(1), HEDDLE_STATUS_OUT_OF_RANGE, "result 1");
  EXPECT_EQ(releases, 4) << "once for each failure";
  EXPECT_EQ(tensor, nullptr);

  memory.address -= 4;
  HEDDLE_ASSERT_OK(wrap(0));
  TensorHandle output(tensor);
  memory = {sizeof memory, 0, reinterpret_cast<uint64_t>(place + 16), 16, memory.release, &releases};
  HEDDLE_ASSERT_OK(wrap(0));
  TensorHandle input(tensor);
  std::fill_n(place + 16, 4, 2.0f);
  TensorHandle one = make_tensor<float>(function, 1, {1, 4}, {1, 1, 1, 1});
  heddle_tensor_t *arguments[] = {input.get(), one.get()}, *out = output.get();
  HEDDLE_EXPECT_OK(heddle_call(function, arguments, 2, &out, 1));
  EXPECT_EQ(place[3], 3) << "read and written in place";
  input = {};
  EXPECT_EQ(releases, 5);
  output = {};
  EXPECT_EQ(releases, 6);

  arguments[0] = one.get();
  out = nullptr;
  heddle_call_t* call = nullptr;
  heddle_call_params_t params{};
  params.struct_size = sizeof params;
  params.flags = HEDDLE_CALL_NATIVE_STREAM;
  HEDDLE_EXPECT_FAILS(heddle_call_start(function, &params, arguments, 2, &out, 1, &call), HEDDLE_STATUS_UNIMPLEMENTED, "heddle.native/1");
  uint64_t address = 0;
  HEDDLE_EXPECT_OK(heddle_tensor_address(one.get(), &address));
  EXPECT_NE(address, 0u);
}

// The application's stream lingers and fills x, the call lingers and adds x to itself, the stream takes the result and spoils both; nobody waits
// on the host.
TEST_P(RuntimeAsync, OrdersCallsWithAStreamOfTheApplication) {
  if (std::string(GetParam().name) != "Streams") GTEST_SKIP() << "it has no streams";
  constexpr int kTurns = 12;
  ModuleBuilder module = builder();
  mf::FunctionT& function_type = module.add_function("main");
  function_type.arguments.push_back(ModuleBuilder::type("x", {ModuleBuilder::extent(4)}));
  function_type.results.push_back(ModuleBuilder::type("y", {ModuleBuilder::extent(4)}));
  ProgramBuilder p = program();
  uint32_t spins = p.literal(100), four = p.literal(4), single = p.literal(1), waited = p.transient(four);
  uint32_t first = p.dispatch("wait", kSlowly, {ProgramBuilder::whole(waited, kWrite)}, {spins}, {single, single, single});
  p.lives(waited, first, first);
  p.barrier();
  p.dispatch("add", kAdd,
             {ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.argument(0), kRead),
              ProgramBuilder::whole(p.result(0), kWrite)},
             {four, four}, {single, single, single});
  function_type.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  alignas(256) float x[64] = {}, y[64] = {};
  const test::ApplicationMemory known_x(x, sizeof x), known_y(y, sizeof y);
  int releases = 0;
  auto over = [&](float* place, uint32_t index, uint32_t flags) {
    heddle_device_memory_t memory = {
        sizeof memory, flags, reinterpret_cast<uint64_t>(place), 16, [](void* count) { ++*static_cast<int*>(count); }, &releases};
    const int64_t dims[] = {4};
    heddle_tensor_t* tensor = nullptr;
    HEDDLE_EXPECT_OK(heddle_tensor_from_device(function, index, HEDDLE_TYPE_F32, dims, 1, &memory, &tensor));
    return TensorHandle(tensor);
  };
  std::vector<float> taken;
  {
    TensorHandle input = over(x, 0, 0), output = over(y, 0, HEDDLE_DEVICE_MEMORY_RESULT);
    uint64_t address = 0;
    HEDDLE_EXPECT_OK(heddle_tensor_address(output.get(), &address));
    EXPECT_EQ(address, reinterpret_cast<uint64_t>(y));
    std::vector<CallHandle> calls;
    test::ApplicationStream stream;
    std::atomic<bool> all_started{false};
    stream.enqueue([&all_started] {
      for (int i = 0; i < 10000 && !all_started; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_TRUE(all_started) << "starting a call waited for the stream";
    });
    for (int turn = 0; turn < kTurns; ++turn) {
      stream.enqueue([&x, turn] {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        std::fill_n(x, 4, static_cast<float>(turn));
      });
      heddle_tensor_t *arguments[] = {input.get()}, *out = output.get();
      heddle_call_params_t params{};
      params.struct_size = sizeof params;
      params.flags = HEDDLE_CALL_NATIVE_STREAM;
      params.native_stream = stream.native();
      heddle_call_t* call = nullptr;
      HEDDLE_ASSERT_OK(heddle_call_start(function, &params, arguments, 1, &out, 1, &call));
      calls.emplace_back(call);
      stream.enqueue([&] {
        taken.push_back(y[3]);
        std::fill_n(x, 4, -1000.0f);
        std::fill_n(y, 4, -1000.0f);
      });
    }
    all_started = true;
    for (CallHandle& call : calls) HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
    stream.synchronize();
    EXPECT_EQ(releases, 0);
    calls.clear();
  }
  ASSERT_EQ(taken.size(), static_cast<size_t>(kTurns));
  for (int turn = 0; turn < kTurns; ++turn) EXPECT_EQ(taken[static_cast<size_t>(turn)], static_cast<float>(2 * turn));
  EXPECT_EQ(releases, 2);
  instance.reset();  // and with it the queue over the stream, which is gone
}

// A thread reads a result while others start calls that fill it again: what it reads is undefined, and nothing else.
TEST_P(RuntimeAsync, ReadsAResultThatLaterCallsFill) {
  ModuleBuilder module = builder();
  add_slow(module, 1);
  std::vector<InstanceHandle> instances;  // calls of different functions have timelines of their own
  for (int i = 0; i < 3; ++i) instances.push_back(open(module));
  ASSERT_NE(instances[2], nullptr);
  TensorHandle result = call_for_one(find_function(instances[0]), {});
  std::atomic<bool> over{false};
  std::thread reader([&] {
    uint32_t value = 0;
    while (!over) HEDDLE_EXPECT_OK(heddle_tensor_read(result.get(), &value, sizeof(value)));
  });
  for (int i = 0; i < 3000; ++i) {
    heddle_tensor_t* out = result.get();
    heddle_call_t* call = nullptr;
    HEDDLE_EXPECT_OK(heddle_call_start(find_function(instances[static_cast<size_t>(i % 3)]), nullptr, nullptr, 0, &out, 1, &call));
    heddle_call_release(call);
    if (i % 500 == 0) {  // ends the timelines of its calls
      InstanceHandle next = open(module);
      instances[static_cast<size_t>(i % 3)] = std::move(next);
    }
  }
  over = true;
  reader.join();
}

TEST_P(RuntimeAsync, WaitTimesOutAndLeavesTheCallRunning) {
  ModuleBuilder module = builder();
  add_slow(module, 2000);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  TensorHandle result;
  CallHandle call = start(find_function(instance), {}, &result);
  HEDDLE_EXPECT_FAILS(heddle_call_wait(call.get(), 0), HEDDLE_STATUS_DEADLINE_EXCEEDED, "");
  HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
  HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), 0));
  EXPECT_EQ(read_tensor<uint32_t>(result), std::vector<uint32_t>{1});
}

// Counts, and remembers what a wait without time said in the callback.
struct Told {
  heddle_call_t* call = nullptr;
  std::promise<heddle_status_code_t> code;
  std::atomic<int> times{0};
  std::thread::id thread;
  static void tell(void* context) {
    Told& self = *static_cast<Told*>(context);
    self.thread = std::this_thread::get_id();
    ++self.times;
    self.code.set_value(self.call ? Outcome(heddle_call_wait(self.call, 0)).code : HEDDLE_STATUS_OK);
  }
};

TEST_P(RuntimeAsync, NotifiesOnceAtTheEndOfACall) {
  ModuleBuilder module = builder();
  add_slow(module, 500);
  add_failing(module);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  for (const auto& [name, code] : {std::pair("slow", HEDDLE_STATUS_OK), std::pair("breaks", HEDDLE_STATUS_INTERNAL)}) {
    TensorHandle result;
    CallHandle call = start(find_function(instance, name), {}, &result);
    Told during, after;
    during.call = after.call = call.get();
    HEDDLE_ASSERT_OK(heddle_call_notify(call.get(), Told::tell, &during));
    EXPECT_EQ(during.code.get_future().get(), code) << name;
    EXPECT_NE(during.thread, std::this_thread::get_id());
    EXPECT_EQ(Outcome(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE)).code, code);
    HEDDLE_ASSERT_OK(heddle_call_notify(call.get(), Told::tell, &after));  // of a call that is over
    EXPECT_EQ(after.code.get_future().get(), code) << name;
    EXPECT_EQ(during.times, 1);
  }
}

TEST_P(RuntimeAsync, NotifiesWithoutAHandleAndFromTheCallback) {
  ModuleBuilder module = builder();
  add_slow(module, 500);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  TensorHandle result;
  Told told;
  {
    CallHandle call = start(find_function(instance, "slow"), {}, &result);
    HEDDLE_ASSERT_OK(heddle_call_notify(call.get(), Told::tell, &told));
  }
  EXPECT_EQ(told.code.get_future().get(), HEDDLE_STATUS_OK);

  CallHandle released = start(find_function(instance, "slow"), {}, &result);  // in the callback
  std::promise<void> over;
  std::pair<CallHandle*, std::promise<void>*> both(&released, &over);
  HEDDLE_ASSERT_OK(heddle_call_notify(
      released.get(),
      [](void* context) {
        auto& [call, done] = *static_cast<std::pair<CallHandle*, std::promise<void>*>*>(context);
        call->reset();
        done->set_value();
      },
      &both));
  over.get_future().get();
  EXPECT_EQ(read_tensor<uint32_t>(result).size(), 1u);
  HEDDLE_EXPECT_FAILS(heddle_call_notify(nullptr, Told::tell, nullptr), HEDDLE_STATUS_INVALID_ARGUMENT, "heddle_call_notify");
}

TEST_P(RuntimeAsync, InstanceWaitsForCallsThatNobodyHolds) {
  ModuleBuilder module = builder();
  add_slow(module, 500);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  TensorHandle result;
  start(find_function(instance), {}, &result).reset();
  instance.reset();
  EXPECT_EQ(read_tensor<uint32_t>(result), std::vector<uint32_t>{1});
}

// The call goes on, fills its results, and keeps what it needs; its failure is that of reading a result.
TEST_P(RuntimeAsync, ReleasesCallsInFlight) {
  ModuleBuilder module = builder();
  add_slow(module, 2000);
  for (const bool fails : {false, true}) {
    mf::FunctionT& function = module.add_function(fails ? "breaks" : "adds");
    function.arguments.push_back(ModuleBuilder::type("x", {ModuleBuilder::extent(4)}));
    function.results.push_back(ModuleBuilder::type("y", {ModuleBuilder::extent(4)}));
    ProgramBuilder p = program();
    uint32_t one = p.literal(1), four = p.literal(4), spins = p.literal(2000), code = p.literal(7), waited = p.transient(four);
    p.dispatch("wait", kSlowly, {ProgramBuilder::whole(waited, kWrite)}, {spins}, {one, one, one});
    p.barrier();
    if (fails) p.dispatch("bad region", kFailing, {}, {code}, {one, one, one});
    p.dispatch("add", kAdd,
               {ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.argument(0), kRead),
                ProgramBuilder::whole(p.result(0), kWrite)},
               {four, four}, {one, one, one});
    function.programs.push_back(p.finish());
  }
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  for (const bool fails : {false, true}) {
    heddle_function_t* function = find_function(instance, fails ? "breaks" : "adds");
    TensorHandle argument = make_tensor<float>(function, 0, {4}, {1, 2, 3, 4}), result;
    CallHandle call = start(function, {argument.get()}, &result);
    heddle_status_t* unfinished = heddle_call_wait(call.get(), 0);
    EXPECT_EQ(heddle_status_payload(unfinished, c_string("deadline")).size, 0u) << "only the wait timed out";
    HEDDLE_EXPECT_FAILS(unfinished, HEDDLE_STATUS_DEADLINE_EXCEEDED, "");
    argument.reset();
    call.reset();
    if (fails) {
      float values[4];
      HEDDLE_EXPECT_FAILS(heddle_tensor_read(result.get(), values, sizeof(values)), HEDDLE_STATUS_INTERNAL, "");
    } else {
      EXPECT_EQ(read_tensor(result), (std::vector<float>{2, 4, 6, 8}));
    }
  }
  // The instance first: the handle of the call keeps it, and releasing that waits for the work.
  TensorHandle result;
  CallHandle call = start(find_function(instance, "slow"), {}, &result);
  instance.reset();
  HEDDLE_EXPECT_FAILS(heddle_call_wait(call.get(), 0), HEDDLE_STATUS_DEADLINE_EXCEEDED, "");
  call.reset();
  EXPECT_EQ(read_tensor<uint32_t>(result), std::vector<uint32_t>{1});
}

TEST_P(RuntimeAsync, GivesTheFailureToEveryWaiterAndReader) {
  ModuleBuilder module = builder();
  mf::FunctionT& failing = module.add_function("breaks");
  failing.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1), ModuleBuilder::extent(4)}));
  ProgramBuilder p = program();
  uint32_t one = p.literal(1), code = p.literal(7);
  p.dispatch("bad region", kFailing, {}, {code}, {one, one, one});
  failing.programs.push_back(p.finish());
  add_adder(module, "add", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  TensorHandle result;
  CallHandle call = start(find_function(instance, "breaks"), {}, &result);
  for (int i = 0; i < 2; ++i) {
    HEDDLE_EXPECT_FAILS(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_INTERNAL, "in region 'bad region'");
  }
  float values[4];
  HEDDLE_EXPECT_FAILS(heddle_tensor_read(result.get(), values, sizeof(values)), HEDDLE_STATUS_INTERNAL, "");
  heddle_tensor_t* arguments[] = {result.get(), result.get()};
  heddle_tensor_t* sum = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_call(find_function(instance, "add"), arguments, 2, &sum, 1), HEDDLE_STATUS_INTERNAL, "calling 'add' failed");
  EXPECT_EQ(sum, nullptr);
}

// A loop of the host program that asks the device whether to go on, which it always says: only cancelling ends it.
TEST_P(RuntimeAsync, CancelDropsWhatIsNotEnqueued) {
  ModuleBuilder module = builder();
  mf::FunctionT& function = module.add_function("main");
  function.arguments.push_back(ModuleBuilder::type("go", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
  ProgramBuilder p = program();
  uint32_t zero = p.literal(0), go = p.reg(), more = p.reg();
  p.emit(mf::Op::Add, more, zero, zero);
  uint32_t loop = p.emit(mf::Op::ReadScalar, go, p.argument(0), zero);
  p.emit(mf::Op::BranchIf, loop, go);
  p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.result(0), kWrite));
  function.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* main = find_function(instance);
  TensorHandle go_on = make_tensor<int64_t>(main, 0, {1}, {1}, HEDDLE_TYPE_I64),
               stop = make_tensor<int64_t>(main, 0, {1}, {0}, HEDDLE_TYPE_I64);
  TensorHandle result;
  CallHandle call = start(main, {go_on.get()}, &result);
  HEDDLE_EXPECT_FAILS(heddle_call_wait(call.get(), 1'000'000), HEDDLE_STATUS_DEADLINE_EXCEEDED, "");
  heddle_call_cancel(call.get());
  HEDDLE_EXPECT_FAILS(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_CANCELLED, "calling 'main' failed");
  int64_t value = 0;
  HEDDLE_EXPECT_FAILS(heddle_tensor_read(result.get(), &value, 8), HEDDLE_STATUS_CANCELLED, "");
  EXPECT_EQ(read_tensor<int64_t>(call_for_one(main, {stop.get()})), std::vector<int64_t>{0});
}

// A result whose extents are found out on the way is valid on completion, and usable as an argument before.
TEST_P(RuntimeAsync, PassesOnResultsOfUnknownExtents) {
  ModuleBuilder module = builder();
  mf::FunctionT& grow = module.add_function("grow");
  grow.arguments.push_back(ModuleBuilder::type("n", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
  grow.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::unknown(), ModuleBuilder::extent(1)}));
  ProgramBuilder p = program();
  uint32_t zero = p.literal(0), n = p.reg();
  p.emit(mf::Op::ReadScalar, n, p.argument(0), zero);
  p.emit(mf::Op::ResultDim, 0, 0, n);
  p.fill(ProgramBuilder::whole(p.result(0), kWrite), 0x3F800000, 4);  // 1.0f
  grow.programs.push_back(p.finish());
  add_adder(module, "add", 1);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* grows = find_function(instance, "grow");
  TensorHandle five = make_tensor<int64_t>(grows, 0, {1}, {5}, HEDDLE_TYPE_I64);
  TensorHandle ones, sum;
  CallHandle first = start(grows, {five.get()}, &ones);
  CallHandle second = start(find_function(instance, "add"), {ones.get(), ones.get()}, &sum);
  HEDDLE_EXPECT_OK(heddle_call_wait(second.get(), HEDDLE_TIMEOUT_INFINITE));
  EXPECT_EQ(dims_of(sum), (std::vector<int64_t>{5, 1}));
  EXPECT_EQ(read_tensor(sum), std::vector<float>(5, 2.0f));
  HEDDLE_EXPECT_OK(heddle_call_wait(first.get(), 0));
}

// Calls in flight that touch the same state run in the order they were started.
TEST_P(RuntimeAsync, OrdersCallsThatTouchState) {
  constexpr int kCalls = 30;
  ModuleBuilder module = builder();
  uint32_t state = module.add_global("value", mf::GlobalKind::State, 8);
  mf::FunctionT& function = module.add_function("main");
  function.arguments.push_back(ModuleBuilder::type("n", {ModuleBuilder::symbol(0)}, HEDDLE_TYPE_I8));
  ModuleBuilder::add_symbol(function, "n", 0, 1000, 1);
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
  ProgramBuilder p = program();
  uint32_t one = p.literal(1), n = p.argument_dim(0, 0);
  p.dispatch("step", kChainStep, {ProgramBuilder::whole(p.global(state), kReadWrite)}, {n}, {one, one, one});
  p.barrier();
  p.copy(ProgramBuilder::whole(p.global(state), kRead), ProgramBuilder::whole(p.result(0), kWrite));
  function.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* main = find_function(instance);
  std::vector<CallHandle> calls;
  std::vector<TensorHandle> results(kCalls);
  std::vector<int64_t> expected;
  int64_t value = 0;
  for (int i = 0; i < kCalls; ++i) {
    TensorHandle argument = make_tensor<int8_t>(main, 0, {i}, std::vector<int8_t>(static_cast<size_t>(i)), HEDDLE_TYPE_I8);
    calls.push_back(start(main, {argument.get()}, &results[static_cast<size_t>(i)]));
    value = value * 3 + i;
    expected.push_back(value);
  }
  for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(read_tensor<int64_t>(results[i])[0], expected[i]) << i;
}

TEST_P(RuntimeAsync, RunsManyCallsInFlightFromManyThreads) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      float base = static_cast<float>(t);
      TensorHandle a = make_tensor<float>(function, 0, {1, 4}, {base, base, base, base});
      for (int round = 0; round < 20; ++round) {
        std::vector<CallHandle> calls(8);
        std::vector<TensorHandle> results(8);
        for (size_t i = 0; i < calls.size(); ++i) calls[i] = start(function, {a.get(), a.get()}, &results[i]);
        for (size_t i = 0; i < calls.size(); ++i) {
          if (i % 2) HEDDLE_EXPECT_OK(heddle_call_wait(calls[i].get(), HEDDLE_TIMEOUT_INFINITE));
          if (read_tensor(results[i]) != std::vector<float>(4, 2 * base)) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Arguments and results beyond what a call has room for inside itself, each pending when the next call takes it.
TEST_P(RuntimeAsync, ChainsCallsOfManyArguments) {
  constexpr size_t kMany = 24;
  ModuleBuilder module = builder();
  mf::FunctionT& turns = module.add_function("main");  // out[i] = in[i + 1]
  ProgramBuilder p = program();
  for (size_t i = 0; i < kMany; ++i) {
    turns.arguments.push_back(ModuleBuilder::type("in" + std::to_string(i), {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    turns.results.push_back(ModuleBuilder::type("out" + std::to_string(i), {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
  }
  for (uint32_t i = 0; i < kMany; ++i) {
    p.copy(ProgramBuilder::whole(p.argument((i + 1) % kMany), kRead), ProgramBuilder::whole(p.result(i), kWrite));
  }
  turns.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  std::vector<TensorHandle> values;
  for (size_t i = 0; i < kMany; ++i) {
    values.push_back(make_tensor<int64_t>(function, static_cast<uint32_t>(i), {1}, {static_cast<int64_t>(i)}, HEDDLE_TYPE_I64));
  }
  std::vector<CallHandle> calls;
  for (int round = 0; round < 5; ++round) {
    std::vector<heddle_tensor_t*> arguments, results(kMany, nullptr);
    for (const TensorHandle& value : values) arguments.push_back(value.get());
    heddle_call_t* call = nullptr;
    HEDDLE_ASSERT_OK(heddle_call_start(function, nullptr, arguments.data(), kMany, results.data(), kMany, &call));
    calls.emplace_back(call);
    for (size_t i = 0; i < kMany; ++i) values[i].reset(results[i]);
  }
  for (size_t i = 0; i < kMany; ++i) EXPECT_EQ(read_tensor<int64_t>(values[i])[0], static_cast<int64_t>((i + 5) % kMany));
}

TEST_P(RuntimeAsync, CountsExactlyOnceNoCallIsInFlight) {
  constexpr int64_t kPlans = 40;  // more than are kept
  ModuleBuilder module = builder();
  add_adder(module, "add", 4);
  add_failing(module);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t *add = find_function(instance, "add"), *breaks = find_function(instance, "breaks");
  uint64_t calls = 0, failed = 0;
  for (int64_t batch = 1; batch <= kPlans; ++batch) {
    const size_t count = static_cast<size_t>(batch) * 4;
    TensorHandle a = make_tensor(add, 0, {batch, 4}, std::vector<float>(count, 1));
    std::vector<CallHandle> held(3);
    std::vector<TensorHandle> results(held.size() + 1);
    for (size_t i = 0; i < held.size(); ++i) held[i] = start(add, {a.get(), a.get()}, &results[i]);
    start(add, {a.get(), a.get()}, &results.back()).reset();  // nobody waits for it
    call_for_one(add, {a.get(), a.get()});
    calls += held.size() + 2;
    for (const CallHandle& call : held) HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
    for (const TensorHandle& result : results) EXPECT_EQ(read_tensor(result), std::vector<float>(count, 2));
    // Refused once its frame is taken, so that nothing is enqueued.
    TensorHandle longer = make_tensor(add, 0, {batch + 1, 4}, std::vector<float>(count + 4, 1));
    heddle_tensor_t *arguments[] = {a.get(), a.get()}, *wrong = longer.get();
    HEDDLE_EXPECT_FAILS(heddle_call(add, arguments, 2, &wrong, 1), HEDDLE_STATUS_INVALID_ARGUMENT, "result");
    heddle_call_t* refused = nullptr;
    HEDDLE_EXPECT_FAILS(heddle_call_start(add, nullptr, arguments, 2, &wrong, 1, &refused), HEDDLE_STATUS_INVALID_ARGUMENT, "result");
    failed += 2;
  }
  const uint64_t submitted = calls;
  TensorHandle result;
  CallHandle call = start(breaks, {}, &result);
  HEDDLE_EXPECT_FAILS(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_INTERNAL, "bad region");
  ++failed;
  auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
  EXPECT_EQ(statistics["calls"], submitted + failed);
  EXPECT_EQ(statistics["failed_calls"], failed);
  EXPECT_EQ(statistics["submissions"], submitted + 1) << "the one whose region broke was enqueued";
  EXPECT_EQ(statistics["dispatches"], submitted + 1);
  EXPECT_EQ(nlohmann::json::parse(instance_report(instance, "statistics")), statistics) << "asking counts nothing";
}

// The frame of a call, and with it the timeline, goes to the next call only when the last of those who wait has left.
TEST_P(RuntimeAsync, LetsManyThreadsWaitForOneCall) {
  ModuleBuilder module = builder();
  add_slow(module, 5);
  add_failing(module);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t *slow = find_function(instance, "slow"), *breaks = find_function(instance, "breaks");
  for (int round = 0; round < 50; ++round) {
    const bool fails = round % 3 == 2;
    TensorHandle result;
    CallHandle call = start(fails ? breaks : slow, {}, &result);
    std::atomic<int> told{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        const heddle_status_code_t code = Outcome(heddle_call_wait(call.get(), t == 0 ? 1000 : HEDDLE_TIMEOUT_INFINITE)).code;
        if (code == (fails ? HEDDLE_STATUS_INTERNAL : HEDDLE_STATUS_OK) || (t == 0 && code == HEDDLE_STATUS_DEADLINE_EXCEEDED)) ++told;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(told, 3) << round;
  }
  auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
  EXPECT_EQ(statistics["calls"], 50);
  EXPECT_EQ(statistics["failed_calls"], 16) << "each is told to all who wait, and counted once";
}

// Handles of the application may go in any order: calls that are out keep the instance.
TEST_P(RuntimeAsync, CallsOutliveTheHandleOfTheirInstance) {
  ModuleBuilder module = builder();
  add_slow(module, 200);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  TensorHandle results[3];
  CallHandle calls[3];
  for (int i = 0; i < 3; ++i) calls[i] = start(find_function(instance, "slow"), {}, &results[i]);
  HEDDLE_EXPECT_OK(heddle_call_wait(calls[0].get(), HEDDLE_TIMEOUT_INFINITE));
  instance.reset();
  HEDDLE_EXPECT_OK(heddle_call_wait(calls[1].get(), HEDDLE_TIMEOUT_INFINITE));
  for (CallHandle& call : calls) call.reset();  // the last one's work may be under way
  for (const TensorHandle& result : results) EXPECT_EQ(read_tensor<uint32_t>(result), std::vector<uint32_t>{1});
}

}  // namespace
}  // namespace heddle::testing
