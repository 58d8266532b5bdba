// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is over before what begins, on every driver: results that are given twice, state after a failure, whose failure it is.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "core_drivers.h"

namespace heddle::testing {
namespace {

constexpr int64_t kPlanRounds = 100'000;
constexpr int64_t kLong = 3000;  // thousands of pauses: what comes after it would come first if it did not wait

class RuntimeOrder : public OnDriver {
 protected:
  static mf::TensorTypeT* add_result(mf::FunctionT& function, uint32_t type, uint32_t slot = 0) {
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, type, slot));
    return function.results.back().get();
  }
  // out = 1, late.
  void add_slow(ModuleBuilder& module) const {
    mf::FunctionT& function = module.add_function("slow");
    add_result(function, HEDDLE_TYPE_U32);
    ProgramBuilder p = program();
    uint32_t one = p.literal(1), spins = p.literal(kLong);
    p.dispatch("slow", kSlowly, {ProgramBuilder::whole(p.result(0), kWrite)}, {spins}, {one, one, one});
    function.programs.push_back(p.finish());
  }
  // out = 7 after a look at a scalar: runs in pieces.
  void add_scalar(ModuleBuilder& module) const {
    mf::FunctionT& function = module.add_function("scalar");
    function.arguments.push_back(ModuleBuilder::type("n", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    add_result(function, HEDDLE_TYPE_U32);
    ProgramBuilder p = program();
    uint32_t n = p.reg(), zero = p.literal(0);
    p.emit(mf::Op::ReadScalar, n, p.argument(0), zero);
    p.fill(ProgramBuilder::whole(p.result(0), kWrite), 7, 4);
    function.programs.push_back(p.finish());
  }
  // value = value * 3 + 1; out = value. First, with scalar, a look at the argument.
  void add_step(ModuleBuilder& module, uint32_t state, const std::string& name, bool scalar) const {
    mf::FunctionT& function = module.add_function(name);
    function.arguments.push_back(ModuleBuilder::type("n", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    add_result(function, HEDDLE_TYPE_I64);
    ProgramBuilder p = program();
    uint32_t one = p.literal(1), zero = p.literal(0), n = p.reg();
    if (scalar) {
      uint32_t spins = p.literal(scalar ? 200 : 0), size = p.literal(4);
      p.dispatch("spin", kSlowly, {ProgramBuilder::whole(p.transient(size), kWrite)}, {spins}, {one, one, one});
      p.emit(mf::Op::ReadScalar, n, p.argument(0), zero);
    }
    p.dispatch("step", kChainStep, {ProgramBuilder::whole(p.global(state), kReadWrite)}, {one}, {one, one, one});
    p.barrier();
    p.copy(ProgramBuilder::whole(p.global(state), kRead), ProgramBuilder::whole(p.result(0), kWrite));
    function.programs.push_back(p.finish());
  }
  // Spins, then fails.
  void add_breaks(ModuleBuilder& module, uint32_t state, int64_t spins) const {
    mf::FunctionT& function = module.add_function("breaks");
    ProgramBuilder p = program();
    uint32_t one = p.literal(1), code = p.literal(42), count = p.literal(spins);
    p.dispatch("quiet region", kSlowly, {{p.global(state), kWhole, kWhole, kReadWrite}}, {count}, {one, one, one});
    p.barrier();
    p.dispatch("bad region", kFailing, {}, {code}, {one, one, one});
    function.programs.push_back(p.finish());
  }
  CallHandle start(const InstanceHandle& instance, const std::string& name, std::vector<heddle_tensor_t*> arguments,
                   std::vector<heddle_tensor_t*>& results) {
    heddle_call_t* call = nullptr;
    HEDDLE_EXPECT_OK(heddle_call_start(find_function(instance, name), nullptr, arguments.data(), static_cast<uint32_t>(arguments.size()),
                                       results.data(), static_cast<uint32_t>(results.size()), &call));
    return CallHandle(call);
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeOrder, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeOrder, WaitsForAResultThatAnEarlierCallStillFills) {
  ModuleBuilder module = builder();
  add_slow(module);
  add_scalar(module);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* scalar = find_function(instance, "scalar");
  TensorHandle n = make_tensor<int64_t>(scalar, 0, {1}, {0}, HEDDLE_TYPE_I64);
  for (bool waits : {true, false}) {
    TensorHandle out = make_tensor<uint32_t>(scalar, 0, {1}, {0}, HEDDLE_TYPE_U32);
    std::vector<heddle_tensor_t*> results = {out.get()};
    CallHandle first = start(instance, "slow", {}, results), second;
    if (waits) {
      heddle_tensor_t* argument = n.get();
      HEDDLE_EXPECT_OK(heddle_call(scalar, &argument, 1, results.data(), 1));
    } else {
      second = start(instance, "scalar", {n.get()}, results);
      HEDDLE_EXPECT_OK(heddle_call_wait(second.get(), HEDDLE_TIMEOUT_INFINITE));
    }
    HEDDLE_EXPECT_OK(heddle_call_wait(first.get(), HEDDLE_TIMEOUT_INFINITE));
    EXPECT_EQ(read_tensor<uint32_t>(out), std::vector<uint32_t>{7}) << "the later call wins";
  }
}

TEST_P(RuntimeOrder, WritesATensorAgainWhoseCallFailed) {
  ModuleBuilder module = builder();
  mf::FunctionT& function = module.add_function("breaks");
  function.arguments.push_back(ModuleBuilder::type("n", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32));
  add_result(function, HEDDLE_TYPE_U32);
  ProgramBuilder p = program();
  uint32_t one = p.literal(1), code = p.literal(3);
  p.dispatch("bad region", kFailing, {}, {code}, {one, one, one});
  function.programs.push_back(p.finish());
  add_slow(module);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* breaks = find_function(instance, "breaks");
  TensorHandle n = make_tensor<uint32_t>(breaks, 0, {1}, {0}, HEDDLE_TYPE_U32);
  TensorHandle out = make_tensor<uint32_t>(breaks, 0, {1}, {5}, HEDDLE_TYPE_U32);
  std::vector<heddle_tensor_t*> results = {out.get()};
  CallHandle call = start(instance, "breaks", {n.get()}, results);
  uint32_t value = 9;
  HEDDLE_EXPECT_FAILS(heddle_tensor_read(out.get(), &value, 4), HEDDLE_STATUS_INTERNAL, "");
  HEDDLE_EXPECT_FAILS(heddle_call(find_function(instance, "slow"), nullptr, 0, results.data(), 1), HEDDLE_STATUS_INTERNAL,
                      "calling 'slow' failed: an earlier call or upload that it waits for failed");
  HEDDLE_EXPECT_OK(heddle_tensor_write(out.get(), &value, 4));
  EXPECT_EQ(read_tensor<uint32_t>(out), std::vector<uint32_t>{9});
  HEDDLE_EXPECT_OK(heddle_call(find_function(instance, "slow"), nullptr, 0, results.data(), 1));
  EXPECT_EQ(read_tensor<uint32_t>(out), std::vector<uint32_t>{1});
}

TEST_P(RuntimeOrder, FilesTheRegionUnderPayloads) {
  ModuleBuilder module = builder();
  uint32_t state = module.add_global("value", mf::GlobalKind::State, 8);
  add_breaks(module, state, 1);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_status_t* status = heddle_call(find_function(instance, "breaks"), nullptr, 0, nullptr, 0);
  ASSERT_NE(status, nullptr);
  EXPECT_EQ(cpp_string(heddle_status_payload(status, c_string("region"))), "1");
  EXPECT_EQ(cpp_string(heddle_status_payload(status, c_string("region_name"))), "bad region");
  heddle_status_free(status);
}

// However late a call on the state fails, the calls after it fail with it; whether it had failed when they started makes no difference.
TEST_P(RuntimeOrder, StateStaysFailedWhenACallOnItFails) {
  int modules = 0;
  for (bool waits : {false, true}) {
    for (const char* after : {"step", "scalar_step"}) {
      ModuleBuilder module = builder();
      uint32_t state = module.add_global("value", mf::GlobalKind::State, 8);
      add_breaks(module, state, waits ? 1 : kLong);
      add_step(module, state, "step", false);
      add_step(module, state, "scalar_step", true);
      InstanceHandle instance = open(module);
      ASSERT_NE(instance, nullptr);
      heddle_function_t* function = find_function(instance, after);
      TensorHandle n = make_tensor<int64_t>(function, 0, {1}, {0}, HEDDLE_TYPE_I64);
      std::vector<heddle_tensor_t*> none;
      CallHandle broken = start(instance, "breaks", {}, none);
      if (waits) HEDDLE_EXPECT_FAILS(heddle_call_wait(broken.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_INTERNAL, "'bad region'");
      for (int i = 0; i < 3; ++i) {
        std::vector<heddle_tensor_t*> results = {nullptr};
        CallHandle call = start(instance, after, {n.get()}, results);
        TensorHandle out(results[0]);
        HEDDLE_EXPECT_FAILS(
            heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_INTERNAL,
            "state is undefined since an earlier call on it failed; create a new one, or a new instance for its own [HD-S-02]");
        heddle_tensor_t* argument = n.get();
        heddle_tensor_t* result = nullptr;
        HEDDLE_EXPECT_FAILS(heddle_call(function, &argument, 1, &result, 1), HEDDLE_STATUS_INTERNAL, "state is undefined");
      }
      HEDDLE_EXPECT_FAILS(heddle_call_wait(broken.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_INTERNAL, "'bad region'");
      ModuleHandle opened = open_module(runtime.get(), folder.path("module" + std::to_string(++modules) + ".heddle"));
      InstanceHandle fresh;
      HEDDLE_ASSERT_OK(create_instance(opened.get(), {{"", GetParam().device}}, &fresh));
      EXPECT_EQ(read_tensor<int64_t>(call_for_one(find_function(fresh, after), {n.get()})), std::vector<int64_t>{1});
    }
  }
}

StateHandle create_state(const InstanceHandle& instance) {
  heddle_state_t* state = nullptr;
  HEDDLE_EXPECT_OK(heddle_state_create(instance.get(), &state));
  return StateHandle(state);
}

// Starts a call of one argument and one result on a state.
heddle_status_t* start_on(heddle_function_t* function, const StateHandle& state, heddle_tensor_t* argument, TensorHandle* out,
                          CallHandle* call) {
  heddle_call_params_t params{};
  params.struct_size = sizeof(params);
  params.state = state.get();
  heddle_tensor_t* result = nullptr;
  heddle_call_t* started = nullptr;
  heddle_status_t* status = heddle_call_start(function, &params, &argument, 1, &result, 1, &started);
  out->reset(result);
  call->reset(started);
  return status;
}

// Calls of every kind on states in turns: each state has a value of its own, also while calls on others are in flight, and also if its handle is
// released while a call uses it. The instance's own state is another one.
TEST_P(RuntimeOrder, StatesOfOneInstanceAreApart) {
  constexpr int kStates = 64, kRounds = 6;
  ModuleBuilder module = builder();
  uint32_t value = module.add_global("value", mf::GlobalKind::State, 8);
  add_step(module, value, "step", false);
  add_step(module, value, "scalar_step", true);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t *step = find_function(instance, "step"), *scalar = find_function(instance, "scalar_step");
  TensorHandle n = make_tensor<int64_t>(step, 0, {1}, {0}, HEDDLE_TYPE_I64);
  std::vector<StateHandle> states;
  for (int i = 0; i < kStates; ++i) states.push_back(create_state(instance));
  int64_t expected = 0;
  for (int round = 0; round < kRounds; ++round) {
    expected = 3 * expected + 1;
    std::vector<TensorHandle> outs(kStates);
    std::vector<CallHandle> calls(kStates);
    for (int i = 0; i < kStates; ++i) {
      HEDDLE_ASSERT_OK(start_on((i + round) % 3 == 0 ? scalar : step, states[static_cast<size_t>(i)], n.get(),
                                &outs[static_cast<size_t>(i)], &calls[static_cast<size_t>(i)]));
    }
    if (round + 1 == kRounds) states.clear();
    for (const CallHandle& call : calls) HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
    for (const TensorHandle& out : outs) EXPECT_EQ(read_tensor<int64_t>(out), std::vector<int64_t>{expected});
  }
  EXPECT_EQ(read_tensor<int64_t>(call_for_one(step, {n.get()})), std::vector<int64_t>{1});
}

TEST_P(RuntimeOrder, AStateFailsAlone) {
  ModuleBuilder module = builder();
  uint32_t value = module.add_global("value", mf::GlobalKind::State, 8);
  add_breaks(module, value, 1);
  add_step(module, value, "step", false);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t *step = find_function(instance, "step"), *breaks = find_function(instance, "breaks");
  TensorHandle n = make_tensor<int64_t>(step, 0, {1}, {0}, HEDDLE_TYPE_I64);
  StateHandle broken = create_state(instance), other = create_state(instance);
  TensorHandle out;
  CallHandle call;
  heddle_call_params_t params{};
  params.struct_size = sizeof(params);
  params.state = broken.get();
  heddle_call_t* started = nullptr;
  HEDDLE_ASSERT_OK(heddle_call_start(breaks, &params, nullptr, 0, nullptr, 0, &started));
  call.reset(started);
  HEDDLE_EXPECT_FAILS(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_INTERNAL, "'bad region'");
  HEDDLE_EXPECT_OK(start_on(step, other, n.get(), &out, &call));
  EXPECT_EQ(read_tensor<int64_t>(out), std::vector<int64_t>{1});
  EXPECT_EQ(read_tensor<int64_t>(call_for_one(step, {n.get()})), std::vector<int64_t>{1});
  HEDDLE_EXPECT_OK(start_on(step, broken, n.get(), &out, &call));
  HEDDLE_EXPECT_FAILS(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_INTERNAL, "state is undefined");
}

TEST_P(RuntimeOrder, RefusesAStateOfAnotherInstance) {
  ModuleBuilder module = builder();
  add_step(module, module.add_global("value", mf::GlobalKind::State, 8), "step", false);
  InstanceHandle first = open(module), second = open(module);
  ASSERT_NE(second, nullptr);
  heddle_function_t* step = find_function(second, "step");
  TensorHandle n = make_tensor<int64_t>(step, 0, {1}, {0}, HEDDLE_TYPE_I64), out;
  StateHandle state = create_state(first);
  CallHandle call;
  HEDDLE_EXPECT_FAILS(start_on(step, state, n.get(), &out, &call), HEDDLE_STATUS_INVALID_ARGUMENT, "its state is one of another instance");
  first.reset();
  HEDDLE_EXPECT_FAILS(start_on(step, state, n.get(), &out, &call), HEDDLE_STATUS_INVALID_ARGUMENT, "its state is one of another instance");
  HEDDLE_EXPECT_FAILS(heddle_state_create(nullptr, nullptr), HEDDLE_STATUS_INVALID_ARGUMENT, "instance is NULL");
  heddle_state_release(nullptr);
}

// Calls that run in pieces on threads of their own, and calls that are enqueued at once: state sees them as they were started.
TEST_P(RuntimeOrder, KeepsTheOrderOfStartsOnState) {
  ModuleBuilder module = builder();
  uint32_t state = module.add_global("value", mf::GlobalKind::State, 8);
  add_step(module, state, "step", false);
  add_step(module, state, "scalar_step", true);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  TensorHandle n = make_tensor<int64_t>(find_function(instance, "step"), 0, {1}, {0}, HEDDLE_TYPE_I64);
  std::vector<CallHandle> calls;
  std::vector<TensorHandle> outs;
  for (int i = 0; i < 24; ++i) {
    std::vector<heddle_tensor_t*> results = {nullptr};
    calls.push_back(start(instance, i % 3 == 0 ? "scalar_step" : "step", {n.get()}, results));
    outs.emplace_back(results[0]);
  }
  for (const CallHandle& call : calls) HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
  int64_t value = 0;
  for (const TensorHandle& out : outs) {
    value = value * 3 + 1;
    EXPECT_EQ(read_tensor<int64_t>(out), std::vector<int64_t>{value});
  }
}

int64_t computed_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// A call takes its turn on the state when it is started. Its plan is made before: it keeps no other call waiting, whose plan is there already, and the
// calls after it come after it.
TEST_P(RuntimeOrder, KeepsNoOtherCallOnTheStateWaitingForItsPlan) {
  constexpr int64_t kSlow = 40;
  ModuleBuilder module = builder();
  const uint32_t state = module.add_global("value", mf::GlobalKind::State, 8);
  mf::FunctionT& function = module.add_function("main");
  ModuleBuilder::add_symbol(function, "n", 0, 1000, 1);
  function.arguments.push_back(ModuleBuilder::type("x", {ModuleBuilder::symbol(0)}, HEDDLE_TYPE_I8));
  add_result(function, HEDDLE_TYPE_I64);
  ProgramBuilder p = program();
  const uint32_t n = p.argument_dim(0, 0), one = p.literal(1), i = p.reg(), more = p.reg();
  const uint32_t rounds = p.arithmetic(mf::Op::Mul, n, p.literal(kPlanRounds));
  const uint32_t loop = p.emit(mf::Op::Add, i, i, one);  // the host's arithmetic: a plan for n takes n times as long as one for 1
  p.emit(mf::Op::Less, more, i, rounds);
  p.emit(mf::Op::BranchIf, loop, more);
  p.dispatch("step", kChainStep, {ProgramBuilder::whole(p.global(state), kReadWrite)}, {one}, {one, one, one});
  p.barrier();
  p.copy(ProgramBuilder::whole(p.global(state), kRead), ProgramBuilder::whole(p.result(0), kWrite));
  function.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* main = find_function(instance);
  auto argument = [&](int64_t extent) {
    return make_tensor<int8_t>(main, 0, {extent}, std::vector<int8_t>(static_cast<size_t>(extent)), HEDDLE_TYPE_I8);
  };
  const TensorHandle quick = argument(1), slow = argument(kSlow);
  const StateHandle of_both = create_state(instance), other = create_state(instance);
  TensorHandle out;
  CallHandle call;
  HEDDLE_ASSERT_OK(start_on(main, other, quick.get(), &out, &call));  // makes the plan
  HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));

  std::vector<int64_t> seen;  // by calls of this thread
  int64_t by_slow = 0;
  constexpr int64_t kTakesTurnNs = 5'000'000;  // a small part of the time that the plan takes
  std::atomic<int64_t> begun_ns{0};            // by the clock of the thread's own computing, so that it does not matter when it has to wait
  std::atomic<bool> is_planned{false};
  int meanwhile = 0;
  std::thread planning([&] {
    TensorHandle result;
    CallHandle started;
    begun_ns = computed_ns(CLOCK_THREAD_CPUTIME_ID);
    HEDDLE_EXPECT_OK(start_on(main, of_both, slow.get(), &result, &started));
    is_planned = true;
    by_slow = read_tensor<int64_t>(result).at(0);
  });
  clockid_t clock{};
  ASSERT_EQ(pthread_getcpuclockid(planning.native_handle(), &clock), 0);
  while (!is_planned) {
    const bool is_planning = begun_ns != 0 && computed_ns(clock) > begun_ns + kTakesTurnNs;
    TensorHandle result;
    CallHandle started;
    HEDDLE_EXPECT_OK(start_on(main, of_both, quick.get(), &result, &started));
    seen.push_back(read_tensor<int64_t>(result).at(0));
    meanwhile += is_planning && !is_planned ? 1 : 0;
  }
  planning.join();
  // At most one, if they waited; with more, a busy machine makes fewer of them.
  EXPECT_GT(meanwhile, 2) << "calls on the state waited for the plan of another one";
  // Each call saw the value of the one before it, and one of them that of the call whose plan took long.
  HEDDLE_ASSERT_OK(start_on(main, of_both, quick.get(), &out, &call));
  seen.push_back(read_tensor<int64_t>(out).at(0));
  seen.push_back(by_slow);
  std::vector<int64_t> expected(seen.size());
  for (size_t k = 0; k < seen.size(); ++k) expected[k] = k == 0 ? 1 : static_cast<int64_t>(3 * static_cast<uint64_t>(expected[k - 1]) + 1);
  std::vector<int64_t> of_this_thread(seen.begin(), seen.end() - 1), values = expected;
  std::sort(seen.begin(), seen.end());
  std::sort(values.begin(), values.end());
  EXPECT_EQ(seen, values);
  expected.erase(std::find(expected.begin(), expected.end(), by_slow));
  EXPECT_EQ(of_this_thread, expected) << "the order of starts";
}

// A signal fails only once nothing of the submission runs any more (HD-Q-06): what others free then is nobody's.
TEST_P(RuntimeOrder, FailsOnlyWhenItsWorkIsOver) {
  ModuleBuilder module = builder();
  constexpr int64_t kGroups = 64;
  mf::FunctionT& function = module.add_function("main");
  function.arguments.push_back(ModuleBuilder::type("n", {ModuleBuilder::extent(kGroups)}, HEDDLE_TYPE_U32));
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(kGroups)}, HEDDLE_TYPE_U32));
  ProgramBuilder p = program();
  uint32_t one = p.literal(1), groups = p.literal(kGroups), spins = p.literal(20), code = p.literal(3);
  for (int i = 0; i < 4; ++i) {
    p.dispatch("count", kCount, {ProgramBuilder::whole(p.result(0), kReadWrite)}, {}, {groups, one, one});
    p.dispatch("slow", kSlowly, {ProgramBuilder::whole(p.result(0), kReadWrite)}, {spins}, {groups, one, one});
    if (i == 1) p.dispatch("bad", kFailing, {}, {code}, {groups, one, one});
  }
  function.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* main = find_function(instance);
  TensorHandle n = make_tensor<uint32_t>(main, 0, {kGroups}, std::vector<uint32_t>(kGroups), HEDDLE_TYPE_U32);
  for (int i = 0; i < 10; ++i) {
    TensorHandle out = make_tensor<uint32_t>(main, 0, {kGroups}, std::vector<uint32_t>(kGroups), HEDDLE_TYPE_U32);
    std::vector<heddle_tensor_t*> results = {out.get()};
    CallHandle call = start(instance, "main", {n.get()}, results);
    HEDDLE_EXPECT_FAILS(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_INTERNAL, "in region 'bad'");
    const std::vector<uint32_t> mark(kGroups, 0xabcdef);
    HEDDLE_EXPECT_OK(heddle_tensor_write(out.get(), mark.data(), mark.size() * 4));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(read_tensor<uint32_t>(out), mark);
  }
}

class RuntimeOrderTwoDevices : public RuntimeOrder {
 protected:
  std::string config() const override {
    std::string device = GetParam().device, plugin = device.substr(0, device.find(':'));
    return OnDriver::config() + "[driver.\"" + plugin + "\"]\ndevice_count = 2\n";
  }
  std::string second() const {
    std::string first = GetParam().device;
    return first.substr(0, first.size() - 1) + "1";
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeOrderTwoDevices, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeOrderTwoDevices, WaitsForAResultThatAnEarlierCallStillFills) {
  ModuleBuilder module = builder({"@a", "@b"});
  mf::FunctionT& slow = module.add_function("slow");
  add_result(slow, HEDDLE_TYPE_U32);
  ProgramBuilder p({GetParam().family, GetParam().family});
  uint32_t one = p.literal(1), spins = p.literal(kLong);
  p.dispatch("slow", kSlowly, {ProgramBuilder::whole(p.result(0), kWrite)}, {spins}, {one, one, one});
  slow.programs.push_back(p.finish());
  mf::FunctionT& over = module.add_function("over");  // a copy from @b to @a
  over.arguments.push_back(ModuleBuilder::type("b", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32, 1));
  over.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32, 0));
  add_result(over, HEDDLE_TYPE_U32);
  ProgramBuilder q({GetParam().family, GetParam().family});
  q.copy(ProgramBuilder::whole(q.argument(0), kRead), ProgramBuilder::whole(q.result(0), kWrite));
  over.programs.push_back(q.finish());
  std::string path = folder.path("two.heddle");
  ASSERT_EQ(module.write(path), "");
  ModuleHandle opened = open_module(runtime.get(), path);
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(create_instance(opened.get(), {{"@a", GetParam().device}, {"@b", second()}}, &instance));
  heddle_function_t* function = find_function(instance, "over");
  TensorHandle b = make_tensor<uint32_t>(function, 0, {1}, {7}, HEDDLE_TYPE_U32),
               a = make_tensor<uint32_t>(function, 1, {1}, {0}, HEDDLE_TYPE_U32);
  for (bool waits : {true, false}) {
    TensorHandle out = make_tensor<uint32_t>(function, 1, {1}, {0}, HEDDLE_TYPE_U32);
    std::vector<heddle_tensor_t*> results = {out.get()};
    CallHandle first = start(instance, "slow", {}, results), other;
    if (waits) {
      heddle_tensor_t* arguments[] = {b.get(), a.get()};
      HEDDLE_EXPECT_OK(heddle_call(function, arguments, 2, results.data(), 1));
    } else {
      other = start(instance, "over", {b.get(), a.get()}, results);
      HEDDLE_EXPECT_OK(heddle_call_wait(other.get(), HEDDLE_TIMEOUT_INFINITE));
    }
    HEDDLE_EXPECT_OK(heddle_call_wait(first.get(), HEDDLE_TIMEOUT_INFINITE));
    EXPECT_EQ(read_tensor<uint32_t>(out), std::vector<uint32_t>{7});
  }
}

// A value that was placed on one device stays there, also where a later piece would run on it elsewhere.
TEST_P(RuntimeOrderTwoDevices, KeepsAPlacedValueOnItsDevice) {
  ModuleBuilder module = builder({"@a", "@b"});
  mf::FunctionT& function = module.add_function("main");
  function.arguments.push_back(ModuleBuilder::type("n", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
  ProgramBuilder p({GetParam().family, GetParam().family});
  uint32_t one = p.literal(1), zero = p.literal(0), size = p.literal(64), n = p.reg(), scratch = p.transient(size);
  p.fill(ProgramBuilder::whole(scratch, kWrite), 0, 1);
  p.barrier();
  p.dispatch("step", kChainStep, {ProgramBuilder::whole(scratch, kReadWrite)}, {one}, {one, one, one}, 0);
  p.emit(mf::Op::ReadScalar, n, p.argument(0), zero);
  p.dispatch("step", kChainStep, {ProgramBuilder::whole(scratch, kReadWrite)}, {one}, {one, one, one}, 1);
  function.programs.push_back(p.finish());
  std::string path = folder.path("two.heddle");
  ASSERT_EQ(module.write(path), "");
  ModuleHandle opened = open_module(runtime.get(), path);
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(create_instance(opened.get(), {{"@a", GetParam().device}, {"@b", second()}}, &instance));
  TensorHandle argument = make_tensor<int64_t>(find_function(instance), 0, {1}, {0}, HEDDLE_TYPE_I64);
  heddle_tensor_t* arguments[] = {argument.get()};
  HEDDLE_EXPECT_FAILS(heddle_call(find_function(instance), arguments, 1, nullptr, 0), HEDDLE_STATUS_UNIMPLEMENTED,
                      "the module must copy it first");
}

}  // namespace
}  // namespace heddle::testing
