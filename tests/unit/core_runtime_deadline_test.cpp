// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Deadlines and cancelling, on every driver: what is not enqueued is dropped, what is finishes, and the next call works.
#include "core_drivers.h"

namespace heddle::testing {
namespace {

constexpr int64_t kLong = 2000;  // thousands of pauses
constexpr uint64_t kShortNs = 5'000'000;

class RuntimeDeadline : public OnDriver {
 protected:
  std::string config() const override {
    std::string device = GetParam().device, plugin = device.substr(0, device.find(':'));
    return OnDriver::config() + "[driver.\"" + plugin + "\"]\ndevice_count = 2\n";
  }
  InstanceHandle open_two(ModuleBuilder& module) {
    std::string first = GetParam().device, path = folder.path("two.heddle");
    EXPECT_EQ(module.write(path), "");
    ModuleHandle opened = open_module(runtime.get(), path);
    InstanceHandle instance;
    HEDDLE_EXPECT_OK(create_instance(opened.get(), {{"@a", first}, {"@b", first.substr(0, first.size() - 1) + "1"}}, &instance));
    return instance;
  }
  heddle_status_t* try_start(heddle_function_t* function, uint64_t deadline_ns, std::vector<heddle_tensor_t*> arguments,
                             TensorHandle* result, CallHandle* call) {
    heddle_call_params_t params{};
    params.struct_size = sizeof(params);
    params.deadline_ns = deadline_ns;
    heddle_call_t* started = nullptr;
    heddle_tensor_t* out = nullptr;
    heddle_status_t* status =
        heddle_call_start(function, &params, arguments.data(), static_cast<uint32_t>(arguments.size()), &out, result ? 1 : 0, &started);
    if (result) result->reset(out);
    call->reset(started);
    return status;
  }
  CallHandle start(heddle_function_t* function, uint64_t deadline_ns, std::vector<heddle_tensor_t*> arguments, TensorHandle* result) {
    CallHandle call;
    HEDDLE_EXPECT_OK(try_start(function, deadline_ns, std::move(arguments), result, &call));
    return call;
  }
  // Slow on @a, copied, slow on @b as long as the argument says: 0 not at all.
  void add_two(ModuleBuilder& module) const {
    mf::FunctionT& function = module.add_function("two");
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32, 1));
    ProgramBuilder p({GetParam().family, GetParam().family});
    uint32_t one = p.literal(1), spins = p.literal(kLong), size = p.literal(4), here = p.transient(size), there = p.transient(size);
    p.dispatch("first region", kSlowly, {ProgramBuilder::whole(here, kWrite)}, {spins}, {one, one, one}, 0);
    p.barrier();
    p.copy(ProgramBuilder::whole(here, kRead), ProgramBuilder::whole(there, kWrite));
    p.barrier();
    p.dispatch("second region", kCount, {ProgramBuilder::whole(there, kReadWrite)}, {}, {one, one, one}, 1);
    p.barrier();
    p.copy(ProgramBuilder::whole(there, kRead), ProgramBuilder::whole(p.result(0), kWrite));
    function.programs.push_back(p.finish());
  }
  // Adds one to the state after a slow region.
  void add_step(ModuleBuilder& module, const std::string& name, uint32_t state, bool reads_scalar, int64_t spins) const {
    mf::FunctionT& function = module.add_function(name);
    function.arguments.push_back(ModuleBuilder::type("n", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    ProgramBuilder p = program();
    uint32_t one = p.literal(1), zero = p.literal(0), count = p.literal(spins), size = p.literal(4), n = p.reg();
    p.dispatch("slow", kSlowly, {ProgramBuilder::whole(p.transient(size), kWrite)}, {count}, {one, one, one});
    if (reads_scalar) p.emit(mf::Op::ReadScalar, n, p.argument(0), zero);
    p.dispatch("step", kChainStep, {ProgramBuilder::whole(p.global(state), kReadWrite)}, {one}, {one, one, one});
    p.barrier();
    p.copy(ProgramBuilder::whole(p.global(state), kRead), ProgramBuilder::whole(p.result(0), kWrite));
    function.programs.push_back(p.finish());
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeDeadline, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeDeadline, DropsTheSegmentsThatAreNotEnqueued) {
  ModuleBuilder module = builder({"@a", "@b"});
  add_two(module);
  InstanceHandle instance = open_two(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* two = find_function(instance);
  for (bool cancels : {false, true}) {
    TensorHandle result;
    CallHandle call = start(two, cancels ? 0 : now_ns() + kShortNs, {}, &result);
    if (cancels) heddle_call_cancel(call.get());
    const heddle_status_code_t code = cancels ? HEDDLE_STATUS_CANCELLED : HEDDLE_STATUS_DEADLINE_EXCEEDED;
    for (int i = 0; i < 2; ++i) {
      HEDDLE_EXPECT_FAILS(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE), code, "what was enqueued has finished");
    }
    uint32_t value = 0;
    HEDDLE_EXPECT_FAILS(heddle_tensor_read(result.get(), &value, 4), code, "");
    TensorHandle again;
    CallHandle next = start(two, now_ns() + 60'000'000'000, {}, &again);
    HEDDLE_EXPECT_OK(heddle_call_wait(next.get(), HEDDLE_TIMEOUT_INFINITE));
    EXPECT_EQ(read_tensor<uint32_t>(again), std::vector<uint32_t>{2});
  }
}

TEST_P(RuntimeDeadline, NamesTheRegionThatWasNext) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* main = find_function(instance);
  TensorHandle a = make_tensor<float>(main, 0, {1, 4}, {1, 2, 3, 4}), result;
  CallHandle call;
  heddle_status_t* status = try_start(main, now_ns(), {a.get(), a.get()}, &result, &call);
  EXPECT_EQ(cpp_string(heddle_status_payload(status, c_string("region_name"))), "add");
  EXPECT_NE(heddle_status_payload(status, c_string("deadline")).size, 0u);
  HEDDLE_EXPECT_FAILS(
      status, HEDDLE_STATUS_DEADLINE_EXCEEDED,
      "in region 'add': the deadline of the call passed before that region was enqueued; what was enqueued has finished [HD-Q-05]");
  EXPECT_EQ(result, nullptr);
  call = start(main, UINT64_MAX, {a.get(), a.get()}, &result);
  HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
}

// What is all enqueued goes on to its end.
TEST_P(RuntimeDeadline, LetsEnqueuedWorkFinish) {
  ModuleBuilder module = builder();
  mf::FunctionT& function = module.add_function("slow");
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32));
  ProgramBuilder p = program();
  uint32_t one = p.literal(1), spins = p.literal(kLong);
  p.dispatch("slow", kSlowly, {ProgramBuilder::whole(p.result(0), kWrite)}, {spins}, {one, one, one});
  function.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  TensorHandle result;
  CallHandle call = start(find_function(instance), now_ns() + kShortNs, {}, &result);
  heddle_call_cancel(call.get());
  HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
  EXPECT_EQ(read_tensor<uint32_t>(result), std::vector<uint32_t>{1});
}

// The state is somebody else's for long; who waits for it gives up in time, whether it is one submission or several pieces.
TEST_P(RuntimeDeadline, EndsTheWaitForATurn) {
  ModuleBuilder module = builder();
  uint32_t state = module.add_global("value", mf::GlobalKind::State, 8);
  add_step(module, "long", state, true, kLong);
  add_step(module, "one", state, false, 0);
  add_step(module, "pieces", state, true, 0);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* owner = find_function(instance, "long");
  TensorHandle n = make_tensor<int64_t>(owner, 0, {1}, {0}, HEDDLE_TYPE_I64);
  int64_t expected = 0;
  for (const char* name : {"one", "pieces"}) {
    for (bool cancels : {false, true}) {
      TensorHandle first, second, third;
      CallHandle holds = start(owner, 0, {n.get()}, &first);
      CallHandle waits = start(find_function(instance, name), cancels ? 0 : now_ns() + kShortNs, {n.get()}, &second);
      if (cancels) heddle_call_cancel(waits.get());
      HEDDLE_EXPECT_FAILS(heddle_call_wait(waits.get(), HEDDLE_TIMEOUT_INFINITE),
                          cancels ? HEDDLE_STATUS_CANCELLED : HEDDLE_STATUS_DEADLINE_EXCEEDED, "");
      HEDDLE_EXPECT_FAILS(heddle_call_wait(holds.get(), 0), HEDDLE_STATUS_DEADLINE_EXCEEDED, "");  // the other gave up before
      CallHandle after = start(find_function(instance, name), 0, {n.get()}, &third);
      HEDDLE_EXPECT_OK(heddle_call_wait(after.get(), HEDDLE_TIMEOUT_INFINITE));
      HEDDLE_EXPECT_OK(heddle_call_wait(holds.get(), HEDDLE_TIMEOUT_INFINITE));
      expected = (expected * 3 + 1) * 3 + 1;
      EXPECT_EQ(read_tensor<int64_t>(third), std::vector<int64_t>{expected});
    }
  }
}

// An argument that a call in pieces still makes: starting does not wait for it, and giving up does not either.
TEST_P(RuntimeDeadline, EndsTheWaitForAnArgument) {
  ModuleBuilder module = builder({"@a", "@b"});
  add_two(module);
  mf::FunctionT& function = module.add_function("more");
  function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32, 1));
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32, 1));
  ProgramBuilder p({GetParam().family, GetParam().family});
  p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.result(0), kWrite));
  function.programs.push_back(p.finish());
  InstanceHandle instance = open_two(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t *two = find_function(instance, "two"), *more = find_function(instance, "more");
  for (bool cancels : {false, true}) {
    TensorHandle made, dropped, copied;
    CallHandle makes = start(two, 0, {}, &made);
    CallHandle waits = start(more, cancels ? 0 : now_ns() + kShortNs, {made.get()}, &dropped),
               stays = start(more, 0, {made.get()}, &copied);
    if (cancels) heddle_call_cancel(waits.get());
    HEDDLE_EXPECT_FAILS(heddle_call_wait(waits.get(), HEDDLE_TIMEOUT_INFINITE),
                        cancels ? HEDDLE_STATUS_CANCELLED : HEDDLE_STATUS_DEADLINE_EXCEEDED, "calling 'more' failed");
    HEDDLE_EXPECT_FAILS(heddle_call_wait(makes.get(), 0), HEDDLE_STATUS_DEADLINE_EXCEEDED, "");  // the other gave up before
    HEDDLE_EXPECT_OK(heddle_call_wait(stays.get(), HEDDLE_TIMEOUT_INFINITE));
    EXPECT_EQ(read_tensor<uint32_t>(copied), std::vector<uint32_t>{2});
    waits.reset();
  }
}

// A loop of the host program that never ends by itself.
TEST_P(RuntimeDeadline, EndsAProgramThatReadsScalars) {
  ModuleBuilder module = builder();
  mf::FunctionT& function = module.add_function("main");
  function.arguments.push_back(ModuleBuilder::type("go", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
  ProgramBuilder p = program();
  uint32_t zero = p.literal(0), go = p.reg();
  uint32_t loop = p.emit(mf::Op::ReadScalar, go, p.argument(0), zero);
  p.emit(mf::Op::BranchIf, loop, go);
  function.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* main = find_function(instance);
  TensorHandle one = make_tensor<int64_t>(main, 0, {1}, {1}, HEDDLE_TYPE_I64),
               none = make_tensor<int64_t>(main, 0, {1}, {0}, HEDDLE_TYPE_I64);
  CallHandle call = start(main, now_ns() + kShortNs, {one.get()}, nullptr);
  HEDDLE_EXPECT_FAILS(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_DEADLINE_EXCEEDED, "calling 'main' failed");
  heddle_tensor_t* argument = none.get();
  HEDDLE_EXPECT_OK(heddle_call(main, &argument, 1, nullptr, 0));
}

TEST_P(RuntimeDeadline, KnowsNoTailOfItsParameters) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  struct {
    heddle_call_params_t params;
    uint64_t tail;
  } newer{};
  newer.params.struct_size = sizeof(newer);
  newer.tail = 1;
  heddle_tensor_t* none[2] = {};
  heddle_call_t* call = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_call_start(find_function(instance), &newer.params, none, 2, none, 1, &call), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "heddle_call_params_t has a value at byte 48");
}

// A later version may give them a meaning that an older library must not ignore.
TEST_P(RuntimeDeadline, KnowsNoOtherFlagsAndNoReservedValues) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_tensor_t* none[2] = {};
  heddle_call_t* call = nullptr;
  heddle_call_params_t params{};
  params.struct_size = sizeof(params);
  params.flags = HEDDLE_CALL_NATIVE_STREAM | 0x8000u;
  HEDDLE_EXPECT_FAILS(heddle_call_start(find_function(instance), &params, none, 2, none, 1, &call), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "heddle_call_params_t.flags has bits 0x8000, which this library");
  params.flags = 0;
  params.reserved = 3;
  HEDDLE_EXPECT_FAILS(heddle_call_start(find_function(instance), &params, none, 2, none, 1, &call), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "heddle_call_params_t.reserved has bits 0x3, which this library");
  heddle_runtime_params_t runtime{};
  runtime.struct_size = sizeof(runtime);
  runtime.flags = 2;
  heddle_runtime_t* opened = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_runtime_create(&runtime, &opened), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "heddle_runtime_params_t.flags has bits 0x2, which this library");
}

}  // namespace
}  // namespace heddle::testing
