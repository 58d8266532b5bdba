// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls through runtime.h on every driver: shapes, control flow, intermediate values, state, plans that are reused.
#include <fcntl.h>
#include <stdio.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <thread>

#include <nlohmann/json.hpp>

#include "core_drivers.h"

namespace heddle::testing {
namespace {

class RuntimeCall : public OnDriver {};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeCall, ::testing::ValuesIn(kDrivers), driver_name);

std::vector<float> ramp(size_t count, float first, float step) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = first + step * static_cast<float>(i);
  return values;
}

TEST_P(RuntimeCall, AddsTwoTensors) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  TensorHandle a = make_tensor(function, 0, {2, 4}, ramp(8, 1, 1)), b = make_tensor(function, 1, {2, 4}, ramp(8, 10, 10));
  TensorHandle out = call_for_one(function, {a.get(), b.get()});
  ASSERT_NE(out, nullptr);
  EXPECT_EQ(dims_of(out), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(read_tensor(out), ramp(8, 11, 11));
}

TEST_P(RuntimeCall, TakesEverySizeOfASymbolicBatch) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 3);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  for (int64_t batch : {1, 7, 64, 1000, 7, 1}) {
    size_t count = static_cast<size_t>(batch * 3);
    TensorHandle a = make_tensor(function, 0, {batch, 3}, ramp(count, 0, 1)), b = make_tensor(function, 1, {batch, 3}, ramp(count, 5, 2));
    TensorHandle out = call_for_one(function, {a.get(), b.get()});
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(read_tensor(out), ramp(count, 5, 3)) << batch;
  }
  auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
  EXPECT_EQ(statistics["calls"], 6);
  EXPECT_EQ(statistics["dispatches"], 6);
  EXPECT_EQ(statistics["plans_made"], 4) << "a tuple of extents is planned once";
}

TEST_P(RuntimeCall, NamesTheSymbolsOfItsTypes) {
  ModuleBuilder module = builder();
  mf::FunctionT& added = add_adder(module, "main", 3);
  ModuleBuilder::add_symbol(added, "sequence", 1, 64, 1);
  added.arguments.push_back(ModuleBuilder::type("mask", {ModuleBuilder::symbol(1), ModuleBuilder::extent(2), ModuleBuilder::symbol(0)}));
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  auto text = [&](heddle_status_t* (*get)(const heddle_function_t*, uint32_t, heddle_tensor_type_t*), uint32_t index) {
    heddle_tensor_type_t type{};
    type.struct_size = sizeof(type);
    HEDDLE_EXPECT_OK(get(function, index, &type));
    std::string all = cpp_string(type.name);
    for (uint32_t i = 0; i < HEDDLE_MAX_RANK; ++i) {
      if (i < type.rank) all += " " + std::to_string(type.dims[i]);
      if (type.symbols[i].size != 0) all += "=" + cpp_string(type.symbols[i]);
    }
    return all;
  };
  EXPECT_EQ(text(heddle_function_argument, 0), "a -1=batch 3");
  EXPECT_EQ(text(heddle_function_argument, 2), "mask -1=sequence 2 -1=batch");
  EXPECT_EQ(text(heddle_function_result, 0), "out -1=batch 3");

  // A caller that was built against ABI 0.1, whose struct ends before the symbols.
  heddle_tensor_type_t old;
  std::memset(static_cast<void*>(&old), 0x5a, sizeof(old));
  old.struct_size = offsetof(heddle_tensor_type_t, symbols);
  HEDDLE_ASSERT_OK(heddle_function_argument(function, 0, &old));
  EXPECT_EQ(old.dims[0], -1);
  EXPECT_EQ(old.symbols[0].size, 0x5a5a5a5a5a5a5a5au) << "the end that the caller does not have was written";
}

TEST_P(RuntimeCall, KeepsMorePlansThanItsCacheHolds) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 1);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  for (int round = 0; round < 2; ++round) {
    for (int64_t batch = 1; batch <= 50; ++batch) {
      size_t count = static_cast<size_t>(batch);
      TensorHandle a = make_tensor(function, 0, {batch, 1}, ramp(count, 1, 0)), b = make_tensor(function, 1, {batch, 1}, ramp(count, 2, 0));
      EXPECT_EQ(read_tensor(call_for_one(function, {a.get(), b.get()})), ramp(count, 3, 0));
    }
  }
}

TEST_P(RuntimeCall, GivesEmptyResultsForABatchOfZero) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 4, 0);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  TensorHandle a = make_tensor<float>(function, 0, {0, 4}, {}), b = make_tensor<float>(function, 1, {0, 4}, {});
  TensorHandle out = call_for_one(function, {a.get(), b.get()});
  ASSERT_NE(out, nullptr);
  EXPECT_EQ(dims_of(out), (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(heddle_tensor_size(out.get()), 0u);
}

TEST_P(RuntimeCall, WritesIntoAResultTensorOfTheCaller) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 2);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  TensorHandle a = make_tensor(function, 0, {1, 2}, ramp(2, 1, 1)), b = make_tensor(function, 1, {1, 2}, ramp(2, 1, 1));
  TensorHandle mine = make_tensor(function, 0, {1, 2}, ramp(2, 0, 0));
  heddle_tensor_t* result = mine.get();
  heddle_tensor_t* arguments[] = {a.get(), b.get()};
  HEDDLE_ASSERT_OK(heddle_call(function, arguments, 2, &result, 1));
  EXPECT_EQ(result, mine.get());
  EXPECT_EQ(read_tensor(mine), ramp(2, 2, 2));
}

TEST_P(RuntimeCall, FeedsResultsIntoLaterCalls) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 2);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  TensorHandle value = make_tensor(function, 0, {1, 2}, ramp(2, 1, 0)), one = make_tensor(function, 1, {1, 2}, ramp(2, 1, 0));
  for (int i = 0; i < 100; ++i) value = call_for_one(function, {value.get(), one.get()});
  EXPECT_EQ(read_tensor(value), ramp(2, 101, 0));
}

// value = value * 3 + i for i in 0 .. n-1, in a loop of the host program, through an intermediate value.
TEST_P(RuntimeCall, RunsALoopOfDispatches) {
  ModuleBuilder module = builder();
  mf::FunctionT& function_type = module.add_function("main");
  ModuleBuilder::add_symbol(function_type, "n", 0, 1000, 1);
  function_type.arguments.push_back(ModuleBuilder::type("steps", {ModuleBuilder::symbol(0)}, HEDDLE_TYPE_I8));
  function_type.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
  ProgramBuilder p = program();
  uint32_t eight = p.literal(8), one = p.literal(1), i = p.reg(), n = p.argument_dim(0, 0);
  uint32_t scratch = p.transient(eight);
  p.fill(ProgramBuilder::whole(scratch, kWrite), 1, 8);
  uint32_t loop = p.barrier();
  uint32_t done = p.arithmetic(mf::Op::LessEqual, n, i);
  uint32_t leave = p.emit(mf::Op::BranchIf, 0, done);
  p.dispatch("step", kChainStep, {ProgramBuilder::whole(scratch, kReadWrite)}, {i}, {one, one, one});
  p.emit(mf::Op::Add, i, i, one);
  p.emit(mf::Op::Branch, loop);
  p.program->code[leave] = mf::Instruction(static_cast<uint16_t>(mf::Op::BranchIf), 0, p.next_instruction(), done, 0);
  p.copy(ProgramBuilder::whole(scratch, kRead), ProgramBuilder::whole(p.result(0), kWrite));
  function_type.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  for (int64_t steps : {0, 1, 10, 100}) {
    TensorHandle argument = make_tensor<int8_t>(function, 0, {steps}, std::vector<int8_t>(static_cast<size_t>(steps)), HEDDLE_TYPE_I8);
    uint64_t expected = 1;
    for (int64_t k = 0; k < steps; ++k) expected = expected * 3 + static_cast<uint64_t>(k);
    TensorHandle out = call_for_one(function, {argument.get()});
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(read_tensor<uint64_t>(out), std::vector<uint64_t>{expected}) << steps;
  }
}

// The same in pieces, so that nothing grows with the steps: the value of step i is also copied to element i of a result. A piece whose constants are the
// same in each step is resolved once; one that depends on the step, each time.
TEST_P(RuntimeCall, RunsALoopInPieces) {
  for (const bool is_steady : {true, false}) {
    ModuleBuilder module = builder();
    mf::FunctionT& function_type = module.add_function("main");
    ModuleBuilder::add_symbol(function_type, "n", 0, 100'000, 1);
    function_type.arguments.push_back(ModuleBuilder::type("steps", {ModuleBuilder::symbol(0)}, HEDDLE_TYPE_I8));
    function_type.results.push_back(ModuleBuilder::type("last", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    function_type.results.push_back(ModuleBuilder::type("all", {ModuleBuilder::symbol(0)}, HEDDLE_TYPE_I64));
    ProgramBuilder p = program();
    uint32_t eight = p.literal(8), one = p.literal(1), zero = p.literal(0), i = p.reg(), n = p.argument_dim(0, 0);
    uint32_t scratch = p.transient(eight), done = p.reg(), offset = p.reg();
    p.fill(ProgramBuilder::whole(scratch, kWrite), 1, 8);
    p.emit(mf::Op::Move, i, zero);
    p.emit(mf::Op::Submit);
    uint32_t loop = p.emit(mf::Op::LessEqual, done, n, i);
    uint32_t leave = p.emit(mf::Op::BranchIf, 0, done);
    p.emit(mf::Op::Mul, offset, i, eight);
    p.dispatch("step", kChainStep, {ProgramBuilder::whole(scratch, kReadWrite)}, {is_steady ? one : i}, {one, one, one});
    p.barrier();
    p.copy(ProgramBuilder::whole(scratch, kRead), {p.result(1), offset, eight, kWrite});
    p.emit(mf::Op::Submit);
    p.emit(mf::Op::Add, i, i, one);
    p.emit(mf::Op::Branch, loop);
    p.program->code[leave] = mf::Instruction(static_cast<uint16_t>(mf::Op::BranchIf), 0, p.next_instruction(), done, 0);
    p.copy(ProgramBuilder::whole(scratch, kRead), ProgramBuilder::whole(p.result(0), kWrite));
    function_type.programs.push_back(p.finish());
    InstanceHandle instance = open(module);
    ASSERT_NE(instance, nullptr);
    heddle_function_t* function = find_function(instance);
    // From the second call with as many steps on, all of them are planned as one list, if they are few.
    for (int64_t steps : {0, 1, 2, 300, 2, 2, 40, 40, 1, 40, 300, 0, 40}) {
      TensorHandle argument = make_tensor<int8_t>(function, 0, {steps}, std::vector<int8_t>(static_cast<size_t>(steps)), HEDDLE_TYPE_I8);
      std::vector<uint64_t> expected;
      uint64_t value = 1;
      for (int64_t k = 0; k < steps; ++k) expected.push_back(value = value * 3 + static_cast<uint64_t>(is_steady ? 1 : k));
      heddle_tensor_t* given = argument.get();
      heddle_tensor_t* results[] = {nullptr, nullptr};
      HEDDLE_EXPECT_OK(heddle_call(function, &given, 1, results, 2));
      TensorHandle last(results[0]), all(results[1]);
      EXPECT_EQ(read_tensor<uint64_t>(last), std::vector<uint64_t>{value}) << steps;
      EXPECT_EQ(read_tensor<uint64_t>(all), expected) << steps;
    }
    const nlohmann::json statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
    EXPECT_EQ(statistics["dispatches"], 768);
    // Steady steps are enqueued together, up to 16 of them.
    if (is_steady) {
      EXPECT_LT(statistics["submissions"], 450);
    } else {
      EXPECT_GE(statistics["submissions"], 640);
    }
  }
}

// The place of a slice is looked at in every step, also in a piece that is not resolved again.
TEST_P(RuntimeCall, RefusesASliceBehindItsValue) {
  ModuleBuilder module = builder();
  mf::FunctionT& function_type = module.add_function("main");
  function_type.arguments.push_back(ModuleBuilder::type("in", {ModuleBuilder::extent(4)}, HEDDLE_TYPE_I64));
  function_type.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
  ProgramBuilder p = program();
  const uint32_t eight = p.literal(8), offset = p.reg(), from = p.argument(0), to = p.result(0);
  p.emit(mf::Op::Submit);
  uint32_t loop = p.copy({from, offset, eight, kRead}, ProgramBuilder::whole(to, kWrite));
  p.emit(mf::Op::Submit);
  p.emit(mf::Op::Add, offset, offset, eight);
  p.emit(mf::Op::Branch, loop);
  function_type.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  TensorHandle in = make_tensor<int64_t>(function, 0, {4}, {1, 2, 3, 4}, HEDDLE_TYPE_I64);
  heddle_tensor_t *given = in.get(), *result = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_call(function, &given, 1, &result, 1), HEDDLE_STATUS_OUT_OF_RANGE, "bytes [32, 32+8) of value");
}

// The same for how long it is: what goes to the end of its value has no bytes in the first step, and more in each later one.
TEST_P(RuntimeCall, CopiesSlicesThatGrow) {
  ModuleBuilder module = builder();
  mf::FunctionT& function_type = module.add_function("main");
  function_type.arguments.push_back(ModuleBuilder::type("in", {ModuleBuilder::extent(4)}, HEDDLE_TYPE_I64));
  function_type.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(4)}, HEDDLE_TYPE_I64));
  ProgramBuilder p = program();
  const uint32_t eight = p.literal(8), zero = p.literal(0), size = p.literal(32), offset = p.reg(), goes_on = p.reg();
  p.emit(mf::Op::Move, offset, size);
  p.emit(mf::Op::Submit);
  const uint32_t loop = p.copy({p.argument(0), offset, kWhole, kRead}, {p.result(0), offset, kWhole, kWrite});
  p.emit(mf::Op::Submit);
  p.emit(mf::Op::Sub, offset, offset, eight);
  p.emit(mf::Op::LessEqual, goes_on, zero, offset);
  p.emit(mf::Op::BranchIf, loop, goes_on);
  function_type.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  TensorHandle in = make_tensor<int64_t>(find_function(instance), 0, {4}, {1, 2, 3, 4}, HEDDLE_TYPE_I64);
  TensorHandle out = call_for_one(find_function(instance), {in.get()});
  ASSERT_NE(out, nullptr);
  EXPECT_EQ(read_tensor<int64_t>(out), (std::vector<int64_t>{1, 2, 3, 4}));
}

// A device that records lists replays them from the third call of a frame on, each time with that call's tensors.
TEST_P(RuntimeCall, ReplaysALongListWithNewTensors) {
  constexpr int64_t kWidth = 16;
  ModuleBuilder module = builder();
  mf::FunctionT& function_type = module.add_function("main");
  function_type.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(kWidth)}));
  for (const char* name : {"sums", "copy", "ones", "more"}) {
    function_type.results.push_back(ModuleBuilder::type(name, {ModuleBuilder::extent(kWidth)}));
  }
  ProgramBuilder p = program();
  uint32_t bytes = p.literal(kWidth * 4), elements = p.literal(kWidth), one = p.literal(1);
  uint32_t twice = p.transient(bytes), a = p.argument(0), last = 0;
  uint32_t first =
      p.dispatch("twice", kAdd, {ProgramBuilder::whole(a, kRead), ProgramBuilder::whole(a, kRead), ProgramBuilder::whole(twice, kWrite)},
                 {elements, elements}, {one, one, one});
  p.barrier();
  last = p.dispatch("thrice", kAdd,
                    {ProgramBuilder::whole(twice, kRead), ProgramBuilder::whole(a, kRead), ProgramBuilder::whole(p.result(0), kWrite)},
                    {elements, elements}, {one, one, one});
  p.lives(twice, first, last);
  p.copy(ProgramBuilder::whole(a, kRead), ProgramBuilder::whole(p.result(1), kWrite));
  p.fill(ProgramBuilder::whole(p.result(2), kWrite), 0x3f800000, 4);
  p.barrier();
  // What the list itself wrote is not only read.
  p.dispatch("more", kAdd,
             {ProgramBuilder::whole(p.result(0), kRead), ProgramBuilder::whole(a, kRead), ProgramBuilder::whole(p.result(3), kWrite)},
             {elements, elements}, {one, one, one});
  function_type.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  constexpr int kCalls = 8;
  std::vector<TensorHandle> kept;  // so that every call has other addresses
  for (int call = 0; call < kCalls; ++call) {
    TensorHandle input = make_tensor(function, 0, {kWidth}, ramp(kWidth, static_cast<float>(call), 1));
    heddle_tensor_t* arguments[] = {input.get()};
    heddle_tensor_t* results[4] = {};
    HEDDLE_ASSERT_OK(heddle_call(function, arguments, 1, results, 4));
    kept.push_back(std::move(input));
    for (heddle_tensor_t* result : results) kept.emplace_back(result);
    EXPECT_EQ(read_tensor(kept[kept.size() - 4]), ramp(kWidth, static_cast<float>(call) * 3, 3)) << call;
    EXPECT_EQ(read_tensor(kept[kept.size() - 3]), ramp(kWidth, static_cast<float>(call), 1)) << call;
    EXPECT_EQ(read_tensor(kept[kept.size() - 2]), ramp(kWidth, 1, 0)) << call;
    EXPECT_EQ(read_tensor(kept[kept.size() - 1]), ramp(kWidth, static_cast<float>(call) * 4, 4)) << call;
  }
  auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
  EXPECT_EQ(statistics["dispatches"], 3 * kCalls);
  bool records = std::string(GetParam().name) == "Streams";
  EXPECT_EQ(statistics["replays"], records ? kCalls - 2 : 0);
}

TEST_P(RuntimeCall, ReportsWhatRegionsTakeWhereTheDeviceTellsTime) {
  constexpr int64_t kWidth = 16;
  ModuleBuilder module = builder();
  mf::FunctionT& function_type = module.add_function("main");
  function_type.results.push_back(ModuleBuilder::type("slow", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32));
  function_type.results.push_back(ModuleBuilder::type("ones", {ModuleBuilder::extent(kWidth)}));
  ProgramBuilder p = program();
  uint32_t one = p.literal(1), spins = p.literal(200);
  p.dispatch("wait", kSlowly, {ProgramBuilder::whole(p.result(0), kWrite)}, {spins}, {one, one, one});
  p.barrier();
  p.fill(ProgramBuilder::whole(p.result(1), kWrite), 0x3f800000, 4);
  function_type.programs.push_back(p.finish());
  const auto begin = std::chrono::steady_clock::now();
  InstanceHandle plain = open(module), timed = open(module, {}, HEDDLE_INSTANCE_PROFILE);
  ASSERT_TRUE(plain && timed);
  heddle_text_t* none = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_instance_report(plain.get(), c_string("profile"), &none), HEDDLE_STATUS_FAILED_PRECONDITION,
                      "HEDDLE_INSTANCE_PROFILE");
  constexpr uint64_t kCalls = 5;
  for (uint64_t i = 0; i < kCalls; ++i) {
    heddle_tensor_t* results[2] = {};
    HEDDLE_ASSERT_OK(heddle_call(find_function(timed), nullptr, 0, results, 2));
    EXPECT_EQ(read_tensor(TensorHandle(results[1])), ramp(kWidth, 1, 0));
    TensorHandle(results[0]).reset();
  }
  const auto wall = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
  const auto regions = nlohmann::json::parse(instance_report(timed, "profile"))["regions"];
  ASSERT_EQ(regions.size(), 2u);
  EXPECT_EQ(regions[0]["region"], "wait");
  EXPECT_EQ(regions[0]["kind"], "dispatch");
  EXPECT_EQ(regions[0]["count"], kCalls);
  EXPECT_GT(regions[0]["min_ns"].get<uint64_t>(), 0u);
  EXPECT_LE(regions[0]["min_ns"].get<uint64_t>(), regions[0]["max_ns"].get<uint64_t>());
  EXPECT_EQ(regions[1]["region"], "");
  EXPECT_EQ(regions[1]["kind"], "fill");
  EXPECT_EQ(regions[1]["count"], kCalls);
  EXPECT_LE(regions[0]["total_ns"].get<uint64_t>() + regions[1]["total_ns"].get<uint64_t>(), static_cast<uint64_t>(wall));
}

// t0 = a + a; t1 = t0 + t0; ... : every t lives for two steps, so that few slices are enough for all.
TEST_P(RuntimeCall, SharesTheArenaBetweenValuesThatDoNotLiveTogether) {
  constexpr int kSteps = 12;
  constexpr int64_t kWidth = 1000;
  ModuleBuilder module = builder();
  mf::FunctionT& function_type = module.add_function("main");
  function_type.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(kWidth)}));
  function_type.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(kWidth)}));
  ProgramBuilder p = program();
  uint32_t bytes = p.literal(kWidth * 4), elements = p.literal(kWidth), one = p.literal(1);
  uint32_t previous = p.argument(0);
  std::vector<std::pair<uint32_t, uint32_t>> made;  // value, instruction that writes it
  for (int step = 0; step < kSteps; ++step) {
    bool last = step + 1 == kSteps;
    uint32_t next = last ? p.result(0) : p.transient(bytes);
    uint32_t at =
        p.dispatch("double", kAdd,
                   {ProgramBuilder::whole(previous, kRead), ProgramBuilder::whole(previous, kRead), ProgramBuilder::whole(next, kWrite)},
                   {elements, elements}, {one, one, one});
    if (step > 0) p.lives(made.back().first, made.back().second, at);
    if (!last) made.emplace_back(next, at);
    p.barrier();
    previous = next;
  }
  function_type.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  for (int round = 0; round < 3; ++round) {
    TensorHandle a = make_tensor(function, 0, {kWidth}, ramp(kWidth, static_cast<float>(round), 1));
    TensorHandle out = call_for_one(function, {a.get()});
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(read_tensor(out), ramp(kWidth, static_cast<float>(round) * 4096, 4096));
  }
  auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
  EXPECT_EQ(statistics["dispatches"], 3 * kSteps);
  EXPECT_EQ(statistics["frames_made"], 1) << "a steady caller keeps its arena";
  EXPECT_LE(statistics["peak_arena_bytes"], 2 * 4096) << "two values live at a time, not eleven";
  EXPECT_GE(statistics["peak_arena_bytes"], 2 * 4000);
}

// As the steps of a decoder do: each length comes once.
TEST_P(RuntimeCall, KeepsTheArenaWhileExtentsGrow) {
  ModuleBuilder module = builder();
  mf::FunctionT& function_type = module.add_function("main");
  ModuleBuilder::add_symbol(function_type, "length", 1, 2000, 1);
  function_type.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::symbol(0)}));
  function_type.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::symbol(0)}));
  ProgramBuilder p = program();
  uint32_t elements = p.argument_dim(0, 0), bytes = p.arithmetic(mf::Op::Mul, elements, p.literal(4)), one = p.literal(1);
  uint32_t between = p.transient(bytes);
  auto add_twice = [&](uint32_t from, uint32_t to) {
    p.dispatch("double", kAdd, {ProgramBuilder::whole(from, kRead), ProgramBuilder::whole(from, kRead), ProgramBuilder::whole(to, kWrite)},
               {elements, elements}, {one, one, one});
  };
  add_twice(p.argument(0), between);
  p.barrier();
  add_twice(between, p.result(0));
  function_type.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  auto call = [&](int64_t length) {
    const auto count = static_cast<size_t>(length);
    TensorHandle a = make_tensor(function, 0, {length}, ramp(count, static_cast<float>(length), 1));
    EXPECT_EQ(read_tensor(call_for_one(function, {a.get()})), ramp(count, 4 * static_cast<float>(length), 4)) << length;
  };
  for (int64_t length = 1000; length <= 1100; ++length) call(length);
  auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
  EXPECT_EQ(statistics["plans_made"], 101);
  EXPECT_LE(statistics["arena_bytes"], 4000 + 4096 + 4608) << "of the first length, and of two capacities";
  // Lengths that come again keep a frame each.
  for (int round = 0; round < 3; ++round) {
    for (int64_t length : {1098, 1099, 1100}) call(length);
  }
  const auto frames = nlohmann::json::parse(instance_report(instance, "statistics"))["frames_made"];
  for (int64_t length : {1098, 1099, 1100}) call(length);
  EXPECT_EQ(nlohmann::json::parse(instance_report(instance, "statistics"))["frames_made"], frames);
}

TEST_P(RuntimeCall, CopiesAndFillsPartsOfValues) {
  ModuleBuilder module = builder();
  mf::FunctionT& function_type = module.add_function("main");
  function_type.arguments.push_back(ModuleBuilder::type("in", {ModuleBuilder::extent(8)}, HEDDLE_TYPE_U8));
  function_type.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(16)}, HEDDLE_TYPE_U8));
  ProgramBuilder p = program();
  uint32_t two = p.literal(2), four = p.literal(4), ten = p.literal(10);
  p.fill(ProgramBuilder::whole(p.result(0), kWrite), 0xAB, 1);
  p.barrier();
  p.copy({p.argument(0), two, four, kRead}, {p.result(0), ten, four, kWrite});
  function_type.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  TensorHandle in = make_tensor<uint8_t>(function, 0, {8}, {1, 2, 3, 4, 5, 6, 7, 8}, HEDDLE_TYPE_U8);
  std::vector<uint8_t> expected(16, 0xAB);
  for (size_t i = 0; i < 4; ++i) expected[10 + i] = static_cast<uint8_t>(3 + i);
  EXPECT_EQ(read_tensor<uint8_t>(call_for_one(function, {in.get()})), expected);
}

TEST_P(RuntimeCall, SetsResultExtentsFromTheProgram) {
  ModuleBuilder module = builder();
  mf::FunctionT& function_type = module.add_function("main");
  ModuleBuilder::add_symbol(function_type, "n", 1, 100, 1);
  function_type.arguments.push_back(ModuleBuilder::type("in", {ModuleBuilder::symbol(0)}, HEDDLE_TYPE_U8));
  function_type.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::unknown(), ModuleBuilder::extent(2)}, HEDDLE_TYPE_U8));
  ProgramBuilder p = program();
  uint32_t n = p.argument_dim(0, 0), two = p.literal(2);
  uint32_t half = p.arithmetic(mf::Op::CeilDiv, n, two);
  p.emit(mf::Op::ResultDim, 0, 0, half);
  p.fill(ProgramBuilder::whole(p.result(0), kWrite), 7, 1);
  function_type.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  TensorHandle in = make_tensor<uint8_t>(function, 0, {5}, {1, 2, 3, 4, 5}, HEDDLE_TYPE_U8);
  TensorHandle out = call_for_one(function, {in.get()});
  ASSERT_NE(out, nullptr);
  EXPECT_EQ(dims_of(out), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(read_tensor<uint8_t>(out), std::vector<uint8_t>(6, 7));
}

// The first int64 of the argument is the length of the result: the call is suspended until it is known.
TEST_P(RuntimeCall, GoesOnWhenASizeIsReadFromTheDevice) {
  ModuleBuilder module = builder();
  mf::FunctionT& function_type = module.add_function("main");
  function_type.arguments.push_back(ModuleBuilder::type("in", {ModuleBuilder::extent(2)}, HEDDLE_TYPE_I64));
  function_type.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::unknown()}, HEDDLE_TYPE_I64));
  ProgramBuilder p = program();
  uint32_t eight = p.literal(8), sixteen = p.literal(16), one = p.literal(1), zero = p.literal(0);
  uint32_t copy = p.transient(sixteen);
  p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(copy, kWrite));
  p.barrier();
  p.dispatch("step", kChainStep, {{copy, zero, eight, kReadWrite}}, {one}, {one, one, one});  // value * 3 + 1
  p.barrier();
  uint32_t length = p.reg();
  p.emit(mf::Op::ReadScalar, length, copy, zero);
  p.emit(mf::Op::ResultDim, 0, 0, length);
  uint32_t bytes = p.arithmetic(mf::Op::Mul, length, eight);
  uint32_t later = p.transient(bytes);
  p.fill(ProgramBuilder::whole(later, kWrite), 9, 8);
  p.barrier();
  p.copy({copy, eight, eight, kRead}, {later, zero, eight, kWrite});
  p.barrier();
  p.copy(ProgramBuilder::whole(later, kRead), ProgramBuilder::whole(p.result(0), kWrite));
  function_type.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  for (int64_t length : {1, 5, 2}) {
    TensorHandle in = make_tensor<int64_t>(function, 0, {2}, {length, 77}, HEDDLE_TYPE_I64);
    TensorHandle out = call_for_one(function, {in.get()});
    ASSERT_NE(out, nullptr);
    std::vector<int64_t> expected(static_cast<size_t>(length * 3 + 1), 9);
    expected[0] = 77;
    EXPECT_EQ(dims_of(out), (std::vector<int64_t>{length * 3 + 1}));
    EXPECT_EQ(read_tensor<int64_t>(out), expected);
  }
  auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
  EXPECT_EQ(statistics["scalars_read"], 3);
}

TEST_P(RuntimeCall, TakesTheFirstKernelWhoseGuardsHold) {
  ModuleBuilder module = builder();
  mf::FunctionT& function_type = module.add_function("main");
  ModuleBuilder::add_symbol(function_type, "n", 1, 64, 1);
  function_type.arguments.push_back(ModuleBuilder::type("in", {ModuleBuilder::symbol(0)}, HEDDLE_TYPE_U8));
  function_type.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(4)}, HEDDLE_TYPE_U32));
  ProgramBuilder p = program();
  uint32_t n = p.argument_dim(0, 0), one = p.literal(1), three = p.literal(3);
  p.fill(ProgramBuilder::whole(p.result(0), kWrite), 0, 4);
  p.barrier();
  p.dispatch("count", kCount, {ProgramBuilder::whole(p.result(0), kReadWrite)}, {}, {three, one, one});
  auto even = std::make_unique<mf::CandidateT>();  // multiples of 2 up to 8: one workgroup
  even->entry = kCount;
  even->grid = {one, one, one};
  even->guards = {mf::Guard(n, 0, 0, 8, 2)};
  auto& candidates = p.program->dispatches.back()->candidates;
  candidates.insert(candidates.begin(), std::move(even));
  function_type.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  for (int64_t length : {4, 5, 10}) {
    TensorHandle in = make_tensor<uint8_t>(function, 0, {length}, std::vector<uint8_t>(static_cast<size_t>(length)), HEDDLE_TYPE_U8);
    std::vector<uint32_t> expected = length == 4 ? std::vector<uint32_t>{1, 0, 0, 0} : std::vector<uint32_t>{1, 1, 1, 0};
    EXPECT_EQ(read_tensor<uint32_t>(call_for_one(function, {in.get()})), expected) << length;
  }
}

TEST_P(RuntimeCall, RunsConcurrentCallsOfOneFunction) {
  constexpr int kThreads = 8, kCalls = 200;
  ModuleBuilder module = builder();
  add_adder(module, "main", 16);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        int64_t batch = 1 + (t + i) % 3;
        size_t count = static_cast<size_t>(batch * 16);
        float start = static_cast<float>(t * 1000 + i);
        TensorHandle a = make_tensor(function, 0, {batch, 16}, ramp(count, start, 1)),
                     b = make_tensor(function, 1, {batch, 16}, ramp(count, 1, 1));
        TensorHandle out = call_for_one(function, {a.get(), b.get()});
        if (!out || read_tensor(out) != ramp(count, start + 1, 2)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
  EXPECT_EQ(statistics["calls"], kThreads * kCalls);
  EXPECT_EQ(statistics["failed_calls"], 0);
}

TEST_P(RuntimeCall, OutlivesItsParentsThroughATensor) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 2);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  TensorHandle a = make_tensor(function, 0, {1, 2}, ramp(2, 1, 1)), b = make_tensor(function, 1, {1, 2}, ramp(2, 1, 1));
  TensorHandle out = call_for_one(function, {a.get(), b.get()});
  instance.reset();
  runtime.reset();
  EXPECT_EQ(read_tensor(out), ramp(2, 2, 2));
}

// Somebody exchanges the file all the time: one that is listed, one that is not.
TEST_P(RuntimeCall, OpensOnlyWhatItsDigestWasTakenOf) {
  const std::string path = folder.path("m.heddle"), other = folder.path("other.heddle");
  for (const bool listed : {true, false}) {
    ModuleBuilder module = builder();
    add_adder(module, listed ? "listed" : "other", 2);
    ASSERT_EQ(module.write(listed ? path : other), "");
  }
  std::unique_ptr<FILE, int (*)(FILE*)> command(popen(("sha256sum '" + path + "'").c_str(), "r"), pclose);
  char digest[65] = {};
  ASSERT_EQ(fread(digest, 1, 64, command.get()), 64u);
  runtime = open_runtime({HEDDLE_TEST_PLUGINS}, std::string("[modules.security]\ndigests = [\"") + digest + "\"]\n");
  ASSERT_NE(runtime, nullptr);
  std::atomic<bool> over = false;
  std::thread attacker([&] {
    while (!over) renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
  });
  size_t opened = 0, refused = 0;
  for (int i = 0; i < 1000; ++i) {
    heddle_module_t* raw = nullptr;
    const Outcome outcome(heddle_module_open(runtime.get(), c_string(path), nullptr, &raw));
    if (!outcome.ok()) {
      EXPECT_EQ(outcome.code, HEDDLE_STATUS_PERMISSION_DENIED) << outcome.message;
      ++refused;
      continue;
    }
    ++opened;
    ModuleHandle module(raw);
    heddle_text_t* text = nullptr;
    HEDDLE_EXPECT_OK(heddle_module_report(module.get(), &text));
    EXPECT_EQ(nlohmann::json::parse(take_text(text))["functions"][0]["name"], "listed");
  }
  over = true;
  attacker.join();
  EXPECT_GT(opened, 0u);
  EXPECT_GT(refused, 0u);
}

TEST_P(RuntimeCall, ReportsRouteAndModule) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 2);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  auto route = nlohmann::json::parse(instance_report(instance, "route"));
  EXPECT_EQ(route["slots"][0]["family"], GetParam().family);
  EXPECT_EQ(route["executables"][0]["target"], "x86-64-v3");
  HEDDLE_EXPECT_FAILS(heddle_instance_report(instance.get(), c_string("weather"), nullptr), HEDDLE_STATUS_INVALID_ARGUMENT, "out_json");
  heddle_text_t* text = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_instance_report(instance.get(), c_string("weather"), &text), HEDDLE_STATUS_NOT_FOUND, "weather");
  ModuleHandle opened = open_module(runtime.get(), folder.path("module1.heddle"));
  HEDDLE_ASSERT_OK(heddle_module_report(opened.get(), &text));
  auto report = nlohmann::json::parse(take_text(text));
  EXPECT_EQ(report["functions"][0]["arguments"][0]["type"], "f32[batch,2]");
  EXPECT_EQ(report["executables"][0]["entries"].size(), static_cast<size_t>(kKernelCount));
}

}  // namespace
}  // namespace heddle::testing
