// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What devices say of themselves and what the runtime makes of it: limits, alignment, and the end of a device.
#include <nlohmann/json.hpp>

#include "core_drivers.h"

namespace heddle::testing {
namespace {

constexpr int64_t kLossCode = 66;

class RuntimeDevice : public OnDriver {
 protected:
  std::string config() const override {
    std::string config = OnDriver::config();
    if (has_streams()) {
      config += "[driver.\"test.streams\"]\nloss_code = 66\nown_contexts = true\naligned = true\nshared = \"1KiB\"\nmax_grid = 4\n";
    }
    return config;
  }
  static bool has_streams() { return std::string(GetParam().name) == "Streams"; }
  // A second variant of the kernels, of a higher rank, whose entry `add` needs more.
  void add_better_variant(ModuleBuilder& module, uint32_t threads, uint64_t shared_bytes) const {
    mf::ExecutableT& executable = *module.module.executables[0];
    const mf::VariantT& first = *executable.variants[0];
    auto better = std::make_unique<mf::VariantT>(first);
    better->target = "x86-64-v4";
    better->resources[0]->workgroup_size = {threads, 1, 1};
    better->resources[0]->shared_memory_bytes = shared_bytes;
    executable.variants.push_back(std::move(better));
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeDevice, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeDevice, PassesOverAVariantThatDoesNotFit) {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512bw")) {
    GTEST_SKIP() << "the higher variant would not run here anyway";
  }
  struct {
    uint32_t threads;
    uint64_t shared_bytes;
    const char* reason;
  } needs[] = {{32, 0, "its entry 'add_f32' needs 32 threads in a workgroup, the device has 1 [HD-M-04]"},
               {1, 2048, "its entry 'add_f32' needs 2048 bytes of shared memory, the device has 1024 [HD-M-04]"}};
  for (const auto& need : needs) {
    if (need.shared_bytes && !has_streams()) continue;  // a CPU names no such limit
    ModuleBuilder module = builder();
    add_better_variant(module, need.threads, need.shared_bytes);
    add_adder(module, "main", 4);
    InstanceHandle instance = open(module);
    ASSERT_NE(instance, nullptr);
    auto route = nlohmann::json::parse(instance_report(instance, "route"));
    EXPECT_EQ(route["executables"][0]["target"], "x86-64-v3");
    EXPECT_EQ(route["executables"][0]["others"][0]["target"], "x86-64-v4");
    EXPECT_EQ(route["executables"][0]["others"][0]["reason"], need.reason);
    heddle_function_t* function = find_function(instance);
    TensorHandle a = make_tensor<float>(function, 0, {1, 4}, {1, 2, 3, 4});
    EXPECT_EQ(read_tensor(call_for_one(function, {a.get(), a.get()})), (std::vector<float>{2, 4, 6, 8}));
  }
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  module.module.executables[0]->variants[0]->resources[0]->workgroup_size = {2, 1, 1};
  std::string path = folder.path("large.heddle");
  ASSERT_EQ(module.write(path), "");
  ModuleHandle opened = open_module(runtime.get(), path);
  InstanceHandle instance;
  HEDDLE_EXPECT_FAILS(create_instance(opened.get(), {{"", GetParam().device}}, &instance), HEDDLE_STATUS_UNAVAILABLE,
                      "x86_64-elf/1 x86-64-v3: its entry 'add_f32' needs 2 threads in a workgroup, the device has 1");
}

// The driver finds out only when it loads the code.
TEST_P(RuntimeDevice, PassesOverAVariantThatTheDriverDoesNotLoad) {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512bw")) {
    GTEST_SKIP() << "the higher variant would not be tried here";
  }
  for (bool other : {true, false}) {
    ModuleBuilder module = builder();
    add_adder(module, "main", 4);
    std::ifstream file(HEDDLE_TEST_KERNELS, std::ios::binary);
    std::string image{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    for (size_t at = 0; (at = image.find("add_f32", at)) != std::string::npos;) image[at] = 'x';  // the kernel has another name there
    const mf::Range code = module.writer.add_code(std::as_bytes(std::span<const char>(image)));
    if (other) add_better_variant(module, 1, 0);
    *module.module.executables[0]->variants.back()->code = code;
    std::string path = folder.path("unloadable.heddle");
    ASSERT_EQ(module.write(path), "");
    ModuleHandle opened = open_module(runtime.get(), path);
    InstanceHandle instance;
    if (!other) {
      HEDDLE_EXPECT_FAILS(create_instance(opened.get(), {{"", GetParam().device}}, &instance), HEDDLE_STATUS_NOT_FOUND,
                          "heddle: loading executable 'test_kernels'");
      continue;
    }
    HEDDLE_ASSERT_OK(create_instance(opened.get(), {{"", GetParam().device}}, &instance));
    auto route = nlohmann::json::parse(instance_report(instance, "route"));
    EXPECT_EQ(route["executables"][0]["target"], "x86-64-v3");
    EXPECT_NE(route["executables"][0]["others"][0]["reason"].get<std::string>().find("loading"), std::string::npos);
    TensorHandle a = make_tensor<float>(find_function(instance), 0, {1, 4}, {1, 2, 3, 4});
    EXPECT_EQ(read_tensor(call_for_one(find_function(instance), {a.get(), a.get()})), (std::vector<float>{2, 4, 6, 8}));
  }
}

TEST_P(RuntimeDevice, PassesOverAKernelWhoseGridIsTooLarge) {
  const int64_t most = has_streams() ? 4 : 0x7fffffff;
  for (bool fallback : {true, false}) {
    ModuleBuilder module = builder();
    mf::FunctionT& function = module.add_function("main");
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(4)}, HEDDLE_TYPE_U32));
    ProgramBuilder p = program();
    uint32_t one = p.literal(1), groups = p.literal(most + 1);
    p.fill(ProgramBuilder::whole(p.result(0), kWrite), 0, 1);
    p.barrier();
    p.dispatch("wide", kCount, {ProgramBuilder::whole(p.result(0), kReadWrite)}, {}, {groups, one, one});
    if (fallback) {
      uint32_t four = p.literal(4);
      auto candidate = std::make_unique<mf::CandidateT>();
      candidate->entry = kCount;
      candidate->grid = {four, one, one};
      p.program->dispatches[0]->candidates.push_back(std::move(candidate));
      std::rotate(p.program->code.begin() + 2, p.program->code.end() - 1, p.program->code.end());  // the literal comes first
    }
    function.programs.push_back(p.finish());
    InstanceHandle instance = open(module);
    ASSERT_NE(instance, nullptr);
    if (fallback) {
      EXPECT_EQ(read_tensor<uint32_t>(call_for_one(find_function(instance), {})), (std::vector<uint32_t>{1, 1, 1, 1}));
    } else {
      heddle_tensor_t* out = nullptr;
      HEDDLE_EXPECT_FAILS(heddle_call(find_function(instance), nullptr, 0, &out, 1), HEDDLE_STATUS_OUT_OF_RANGE,
                          "region 'wide' requests " + std::to_string(most + 1) +
                              " workgroups in dimension 0, and its device supports at most " + std::to_string(most));
    }
  }
}

// test.streams refuses bindings that do not start where its min_alignment_bytes says.
TEST_P(RuntimeDevice, AlignsWhatItPlacesAsTheDeviceWants) {
  ModuleBuilder module = builder();
  uint32_t state = module.add_global("state", mf::GlobalKind::State, 24), other = module.add_global("other", mf::GlobalKind::State, 8);
  mf::FunctionT& function = module.add_function("main");
  function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(3)}));
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(3)}));
  ProgramBuilder p = program();
  uint32_t three = p.literal(3), one = p.literal(1), size = p.literal(12);
  uint32_t previous = p.argument(0);
  for (int i = 0; i < 5; ++i) {
    uint32_t next = i == 4 ? p.result(0) : p.transient(size);
    p.dispatch("add", kAdd,
               {ProgramBuilder::whole(previous, kRead), ProgramBuilder::whole(previous, kRead), ProgramBuilder::whole(next, kWrite)},
               {three, three}, {one, one, one});
    p.barrier();
    previous = next;
  }
  for (uint32_t global : {state, other}) {
    p.dispatch("step", kChainStep, {ProgramBuilder::whole(p.global(global), kReadWrite)}, {one}, {one, one, one});
  }
  function.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* main = find_function(instance);
  std::vector<TensorHandle> kept;
  for (int i = 0; i < 5; ++i) {
    kept.push_back(make_tensor<float>(main, 0, {3}, {1, 2, 3}));
    kept.push_back(call_for_one(main, {kept.back().get()}));
    EXPECT_EQ(read_tensor(kept.back()), (std::vector<float>{32, 64, 96}));
  }
}

// Devices of the CPU are never lost.
class RuntimeLoss : public RuntimeDevice {
 protected:
  ModuleBuilder module_with_loss() const {
    ModuleBuilder module = builder();
    add_adder(module, "add", 4);
    mf::FunctionT& function = module.add_function("lose");
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32));
    ProgramBuilder p = program();
    uint32_t one = p.literal(1), code = p.literal(kLossCode);
    p.dispatch("deadly region", kFailing, {}, {code}, {one, one, one});
    function.programs.push_back(p.finish());
    return module;
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeLoss, ::testing::Values(kDrivers[1]), driver_name);

TEST_P(RuntimeLoss, OldHandlesAnswerDeviceLostAndANewInstanceWorks) {
  for (bool waits : {true, false}) {
    ModuleBuilder module = module_with_loss();
    InstanceHandle old = open(module);
    ASSERT_NE(old, nullptr);
    heddle_function_t *lose = find_function(old, "lose"), *add = find_function(old, "add");
    TensorHandle a = make_tensor<float>(add, 0, {1, 4}, {1, 2, 3, 4});
    TensorHandle sum = call_for_one(add, {a.get(), a.get()});
    heddle_tensor_t* out = nullptr;
    if (waits) {
      HEDDLE_EXPECT_FAILS(heddle_call(lose, nullptr, 0, &out, 1), HEDDLE_STATUS_DEVICE_LOST, "in region 'deadly region'");
    } else {
      heddle_call_t* started = nullptr;
      HEDDLE_ASSERT_OK(heddle_call_start(lose, nullptr, nullptr, 0, &out, 1, &started));
      CallHandle call(started);
      TensorHandle result(out);
      HEDDLE_EXPECT_FAILS(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_DEVICE_LOST, "in region 'deadly region'");
      uint32_t value = 0;
      HEDDLE_EXPECT_FAILS(heddle_tensor_write(result.get(), &value, 4), HEDDLE_STATUS_DEVICE_LOST, "");
    }
    // A new instance of the same device, while everything of the old one lives.
    ModuleBuilder again = module_with_loss();
    InstanceHandle fresh = open(again);
    ASSERT_NE(fresh, nullptr);
    heddle_function_t* fresh_add = find_function(fresh, "add");
    TensorHandle b = make_tensor<float>(fresh_add, 0, {1, 4}, {1, 2, 3, 4});
    EXPECT_EQ(read_tensor(call_for_one(fresh_add, {b.get(), b.get()})), (std::vector<float>{2, 4, 6, 8}));

    float values[4] = {};
    heddle_tensor_t* arguments[] = {a.get(), a.get()};
    heddle_tensor_t* made = nullptr;
    heddle_call_t* started = nullptr;
    int64_t dims[] = {1, 4};
    HEDDLE_EXPECT_FAILS(heddle_call(add, arguments, 2, &made, 1), HEDDLE_STATUS_DEVICE_LOST, "calling 'add' failed");
    HEDDLE_EXPECT_FAILS(heddle_call_start(add, nullptr, arguments, 2, &made, 1, &started), HEDDLE_STATUS_DEVICE_LOST,
                        "calling 'add' failed");
    HEDDLE_EXPECT_FAILS(heddle_tensor_read(sum.get(), values, sizeof(values)), HEDDLE_STATUS_DEVICE_LOST, "in kernel 'fail'");
    HEDDLE_EXPECT_FAILS(heddle_tensor_write(a.get(), values, sizeof(values)), HEDDLE_STATUS_DEVICE_LOST, "");
    HEDDLE_EXPECT_FAILS(heddle_tensor_from_host(add, 0, HEDDLE_TYPE_F32, dims, 2, values, sizeof(values), &made), HEDDLE_STATUS_DEVICE_LOST,
                        "");
    // Its tensors cannot be brought over either.
    HEDDLE_EXPECT_FAILS(heddle_call(fresh_add, arguments, 2, &made, 1), HEDDLE_STATUS_DEVICE_LOST, "copying input 'a'");
    EXPECT_EQ(read_tensor(call_for_one(fresh_add, {b.get(), b.get()})), (std::vector<float>{2, 4, 6, 8}));
  }
}

TEST_P(RuntimeLoss, ALossWhileOthersAreInFlightEndsThemAll) {
  ModuleBuilder module = module_with_loss();
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* add = find_function(instance, "add");
  TensorHandle a = make_tensor<float>(add, 0, {1, 4}, {1, 2, 3, 4});
  heddle_tensor_t* arguments[] = {a.get(), a.get()};
  std::vector<CallHandle> calls;
  std::vector<TensorHandle> results;
  for (int i = 0; i < 20; ++i) {
    heddle_tensor_t* out = nullptr;
    heddle_call_t* started = nullptr;
    heddle_status_t* status = i == 10 ? heddle_call_start(find_function(instance, "lose"), nullptr, nullptr, 0, &out, 1, &started)
                                      : heddle_call_start(add, nullptr, arguments, 2, &out, 1, &started);
    calls.emplace_back(started);
    results.emplace_back(out);
    Outcome outcome(status);
    EXPECT_TRUE(outcome.ok() || outcome.code == HEDDLE_STATUS_DEVICE_LOST) << outcome.message;
  }
  for (const CallHandle& call : calls) {
    if (!call) continue;
    Outcome outcome(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
    EXPECT_TRUE(outcome.ok() || outcome.code == HEDDLE_STATUS_DEVICE_LOST) << outcome.message;
  }
}

}  // namespace
}  // namespace heddle::testing
