// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels find about a call's values, on every driver: the call fails when it is over, and what it wrote stays undefined.
#include <atomic>
#include <chrono>
#include <thread>

#include "../streams/application.h"
#include "core_drivers.h"

namespace heddle::testing {
namespace {

constexpr uint32_t kI64 = HEDDLE_TYPE_I64;

class RuntimeChecks : public OnDriver {
 protected:
  // out = verdict, which is checked against the limit; a state is stepped, too, and read into out, if there is one.
  void add_checked(ModuleBuilder& module, mf::CheckKind kind, int64_t limit, uint32_t state = UINT32_MAX, bool scalar = false) {
    mf::FunctionT& function = module.add_function("main");
    function.arguments.push_back(ModuleBuilder::type("verdict", {ModuleBuilder::extent(1)}, kI64));
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, kI64));
    ProgramBuilder p = program();
    const uint32_t most = p.literal(limit), one = p.literal(1), zero = p.literal(0);
    const uint32_t verdict = p.value(mf::ValueKind::Verdict, 0);
    p.program->messages.push_back(kind == mf::CheckKind::Index ? "node 'x', dimension 0 of its input"
                                                               : "node 'y': an integer is divided by zero");
    p.program->checks = std::make_unique<mf::KernelChecksT>();
    p.program->checks->all.emplace_back(0, 0, kind, most, static_cast<uint32_t>(p.program->messages.size() - 1));
    p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(verdict, kWrite));
    if (scalar) {  // the rest is a piece of its own
      p.barrier();
      p.emit(mf::Op::ReadScalar, p.reg(), p.argument(0), zero);
    }
    if (state != UINT32_MAX) {
      p.dispatch("step", kChainStep, {ProgramBuilder::whole(p.global(state), kReadWrite)}, {one}, {one, one, one});
      p.barrier();
      p.copy(ProgramBuilder::whole(p.global(state), kRead), ProgramBuilder::whole(p.result(0), kWrite));
    } else {
      p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.result(0), kWrite));
    }
    function.programs.push_back(p.finish());
  }
  // A call's failure, or success.
  static void call(heddle_function_t* function, int64_t verdict, heddle_status_code_t expected, const std::string& text) {
    TensorHandle argument = make_tensor<int64_t>(function, 0, {1}, {verdict}, kI64);
    heddle_tensor_t *arguments[] = {argument.get()}, *result = nullptr;
    if (expected != HEDDLE_STATUS_OK) {
      HEDDLE_EXPECT_FAILS(heddle_call(function, arguments, 1, &result, 1), expected, text);
      EXPECT_EQ(result, nullptr);
      return;
    }
    TensorHandle out = call_for_one(function, {argument.get()});
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(read_tensor<int64_t>(out), std::vector<int64_t>{verdict});
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeChecks, ::testing::ValuesIn(kDrivers), driver_name);

// Each step of a loop copies its element of the argument to the verdict.
TEST_P(RuntimeChecks, AVerdictInALoopIsReadInEachStep) {
  ModuleBuilder module = builder();
  mf::FunctionT& function_type = module.add_function("main");
  function_type.arguments.push_back(ModuleBuilder::type("in", {ModuleBuilder::extent(4)}, kI64));
  function_type.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(4)}, kI64));
  ProgramBuilder p = program();
  const uint32_t eight = p.literal(8), last = p.literal(24), limit = p.literal(10), offset = p.reg(), goes_on = p.reg();
  p.program->messages.push_back("node 'x', dimension 0 of its input");
  p.program->checks = std::make_unique<mf::KernelChecksT>();
  p.program->checks->all.emplace_back(0, 0, mf::CheckKind::Index, limit, 0);
  p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.result(0), kWrite));
  p.emit(mf::Op::Submit);
  const uint32_t loop = p.copy({p.argument(0), offset, eight, kRead}, ProgramBuilder::whole(p.value(mf::ValueKind::Verdict, 0), kWrite));
  p.emit(mf::Op::Submit);
  p.emit(mf::Op::Add, offset, offset, eight);
  p.emit(mf::Op::LessEqual, goes_on, offset, last);
  p.emit(mf::Op::BranchIf, loop, goes_on);
  function_type.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  for (const int64_t wrong : {9, 12}) {
    const std::vector<int64_t> verdicts{2, 4, wrong, 6};
    TensorHandle in = make_tensor<int64_t>(function, 0, {4}, verdicts, kI64);
    if (wrong < 10) {
      TensorHandle out = call_for_one(function, {in.get()});
      ASSERT_NE(out, nullptr);
      EXPECT_EQ(read_tensor<int64_t>(out), verdicts);
      continue;
    }
    heddle_tensor_t *given = in.get(), *result = nullptr;
    HEDDLE_EXPECT_FAILS(heddle_call(function, &given, 1, &result, 1), HEDDLE_STATUS_OUT_OF_RANGE, "index 6 is outside -5..4");
  }
}

TEST_P(RuntimeChecks, AnIndexOutsideFailsTheCall) {
  for (bool scalar : {false, true}) {
    ModuleBuilder module = builder();
    add_checked(module, mf::CheckKind::Index, 10, UINT32_MAX, scalar);
    InstanceHandle instance = open(module);
    ASSERT_NE(instance, nullptr);
    heddle_function_t* function = find_function(instance);
    for (int round = 0; round < 3; ++round) {
      call(function, 9, HEDDLE_STATUS_OK, "");  // index -5
      call(function, 10, HEDDLE_STATUS_OUT_OF_RANGE, "node 'x', dimension 0 of its input: index 5 is outside -5..4");
      call(function, 8, HEDDLE_STATUS_OK, "");  // index 4
      call(function, 11, HEDDLE_STATUS_OUT_OF_RANGE, "index -6 is outside -5..4");
      call(function, INT64_MIN, HEDDLE_STATUS_OK, "");  // there were no indices
    }
  }
}

TEST_P(RuntimeChecks, NoIndexIsInsideOfNothing) {
  ModuleBuilder module = builder();
  add_checked(module, mf::CheckKind::Index, 0);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  call(find_function(instance), 0, HEDDLE_STATUS_OUT_OF_RANGE, "index 0 of a dimension without elements");
}

TEST_P(RuntimeChecks, ADivisionByZeroFailsTheCall) {
  ModuleBuilder module = builder();
  add_checked(module, mf::CheckKind::Divisor, 1);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  call(function, 0, HEDDLE_STATUS_OK, "");
  call(function, 1, HEDDLE_STATUS_INVALID_ARGUMENT, "node 'y': an integer is divided by zero");
}

// A call that was started, what reads its result, and the result itself.
TEST_P(RuntimeChecks, WhatComesOfAFailedCallFails) {
  ModuleBuilder module = builder();
  add_checked(module, mf::CheckKind::Index, 10);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  for (int64_t verdict : {int64_t{12}, int64_t{2}}) {
    TensorHandle argument = make_tensor<int64_t>(function, 0, {1}, {verdict}, kI64);
    heddle_tensor_t *arguments[] = {argument.get()}, *first = nullptr, *second = nullptr;
    heddle_call_t *producer = nullptr, *consumer = nullptr;
    HEDDLE_ASSERT_OK(heddle_call_start(function, nullptr, arguments, 1, &first, 1, &producer));
    TensorHandle kept_first(first);
    CallHandle kept_producer(producer);
    heddle_status_t* started = heddle_call_start(function, nullptr, &first, 1, &second, 1, &consumer);
    TensorHandle kept_second(second);
    CallHandle kept_consumer(consumer);
    int64_t out = 0;
    if (verdict == 2) {
      HEDDLE_EXPECT_OK(started);
      HEDDLE_EXPECT_OK(heddle_call_wait(consumer, HEDDLE_TIMEOUT_INFINITE));
      HEDDLE_EXPECT_OK(heddle_tensor_read(second, &out, sizeof out));
      EXPECT_EQ(out, 2);
      continue;
    }
    HEDDLE_EXPECT_FAILS(heddle_call_wait(producer, HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_OUT_OF_RANGE, "index 6 is outside");
    HEDDLE_EXPECT_FAILS(heddle_tensor_read(first, &out, sizeof out), HEDDLE_STATUS_OUT_OF_RANGE, "index 6 is outside");
    if (!started) {  // it may have seen the failure at once
      HEDDLE_EXPECT_FAILS(heddle_call_wait(consumer, HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_OUT_OF_RANGE, "an earlier call");
    } else {
      HEDDLE_EXPECT_FAILS(started, HEDDLE_STATUS_OUT_OF_RANGE, "an earlier call");
    }
  }
}

// On a stream of the application, a call is over when it is started, or tells later. Either way what it wrote cannot be read, and later calls are right.
TEST_P(RuntimeChecks, OnAStreamOfTheApplication) {
  if (std::string(GetParam().name) != "Streams") GTEST_SKIP() << "it has no streams";
  ModuleBuilder module = builder();
  add_checked(module, mf::CheckKind::Index, 10);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  test::ApplicationStream stream;
  for (const bool is_late : {false, true}) {
    for (const int64_t verdict : {2, 12, 3, 4, 11, 5}) {
      TensorHandle argument = make_tensor<int64_t>(function, 0, {1}, {verdict}, kI64);
      heddle_tensor_t *arguments[] = {argument.get()}, *result = nullptr;
      heddle_call_params_t params{};
      params.struct_size = sizeof params;
      params.flags = HEDDLE_CALL_NATIVE_STREAM | (is_late ? HEDDLE_CALL_LATE_CHECKS : 0u);
      params.native_stream = stream.native();
      std::atomic<bool> is_started{false};
      if (is_late) {
        stream.enqueue([&is_started] {
          for (int i = 0; i < 10000 && !is_started; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          EXPECT_TRUE(is_started) << "starting the call waited for the stream";
        });
      }
      heddle_call_t* started = nullptr;
      HEDDLE_ASSERT_OK(heddle_call_start(function, &params, arguments, 1, &result, 1, &started));
      TensorHandle kept(result);
      CallHandle call(started);
      if (is_late) {
        heddle_status_t* running = heddle_call_wait(started, 0);
        EXPECT_EQ(heddle_status_code(running), HEDDLE_STATUS_DEADLINE_EXCEEDED);
        EXPECT_NE(heddle_status_payload(running, {"checks", 6}).size, 0u);
        heddle_status_free(running);
      }
      is_started = true;
      if (is_late) stream.synchronize();
      int64_t out = 0;
      if (verdict < 10) {
        HEDDLE_EXPECT_OK(heddle_call_wait(started, is_late ? HEDDLE_TIMEOUT_INFINITE : 0));
        HEDDLE_EXPECT_OK(heddle_tensor_read(result, &out, sizeof out));
        EXPECT_EQ(out, verdict);
      } else {
        const uint64_t timeout_ns = is_late ? HEDDLE_TIMEOUT_INFINITE : 0;
        HEDDLE_EXPECT_FAILS(heddle_call_wait(started, timeout_ns), HEDDLE_STATUS_OUT_OF_RANGE, "node 'x', dimension 0 of its input: index");
        HEDDLE_EXPECT_FAILS(heddle_tensor_read(result, &out, sizeof out), HEDDLE_STATUS_OUT_OF_RANGE, "index");
      }
    }
  }
}

TEST_P(RuntimeChecks, StateIsUndefinedAfterIt) {
  ModuleBuilder module = builder();
  add_checked(module, mf::CheckKind::Index, 10, module.add_global("value", mf::GlobalKind::State, 8));
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  TensorHandle good = make_tensor<int64_t>(function, 0, {1}, {0}, kI64);
  for (int i = 0; i < 3; ++i) EXPECT_NE(call_for_one(function, {good.get()}), nullptr);
  call(function, 10, HEDDLE_STATUS_OUT_OF_RANGE, "index 5 is outside");
  call(function, 0, HEDDLE_STATUS_OUT_OF_RANGE, "state is undefined since an earlier call on it failed");
}

}  // namespace
}  // namespace heddle::testing
