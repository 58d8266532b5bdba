// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of library plugins in modules that are built by hand: where they come from, what is said when nobody has them, and how they run
// between kernels, in several calls and threads. tests/library has the plugins.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "core_drivers.h"
#include "heddle/ext/library.h"

namespace heddle::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Scale {
  std::string mode = {};
  double factor = 2;
  std::string domain = "test", name = "Scale";
  uint32_t version = 1, element_type = HEDDLE_TYPE_F32;
};

std::unique_ptr<mf::OperationT> operation_of(const Scale& wanted, uint32_t rank) {
  auto operation = std::make_unique<mf::OperationT>();
  operation->domain = wanted.domain;
  operation->name = wanted.name;
  operation->version = wanted.version;
  operation->input_count = 1;
  operation->operands = {{wanted.element_type, rank}, {wanted.element_type, rank}};
  auto factor = std::make_unique<mf::OperationAttributeT>();
  factor->name = "factor";
  factor->kind = HEDDLE_ATTRIBUTE_FLOAT;
  factor->floats = {wanted.factor};
  operation->attributes.push_back(std::move(factor));
  if (!wanted.mode.empty()) {
    auto mode = std::make_unique<mf::OperationAttributeT>();
    mode->name = "mode";
    mode->kind = HEDDLE_ATTRIBUTE_STRING;
    mode->text.assign(wanted.mode.begin(), wanted.mode.end());
    operation->attributes.push_back(std::move(mode));
  }
  return operation;
}

class Operations : public ::testing::Test {
 protected:
  void open(const std::string& config = "", const std::vector<std::string>& folders = {HEDDLE_TEST_LIBRARIES "/plugins.d"}) {
    std::vector<std::string> paths = folders;
    paths.insert(paths.end(), {HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS});
    runtime_ = open_runtime(paths, config.empty() ? std::string(kInProcess) : config);
    ASSERT_NE(runtime_, nullptr);
  }

  // result = 2 * argument (kernel), then scaled by each operator, then plus the argument (kernel); all batch x width.
  std::string write(const std::vector<Scale>& scales, int64_t batch, int64_t width = 3) {
    ModuleBuilder module("cpu");
    module.add_kernels(HEDDLE_TEST_KERNELS);
    mf::FunctionT& function = module.add_function("main");
    const bool symbolic = batch < 0;
    if (symbolic) ModuleBuilder::add_symbol(function, "batch", 1, INT64_MAX, 1);
    const mf::Dim first = symbolic ? ModuleBuilder::symbol(0) : ModuleBuilder::extent(batch);
    function.arguments.push_back(ModuleBuilder::type("a", {first, ModuleBuilder::extent(width)}));
    function.results.push_back(ModuleBuilder::type("out", {first, ModuleBuilder::extent(width)}));
    ProgramBuilder p({"cpu"});
    const uint32_t rows = symbolic ? p.argument_dim(0, 0) : p.literal(batch), columns = p.literal(width);
    const uint32_t elements = p.arithmetic(mf::Op::Mul, rows, columns), each = p.literal(64), one = p.literal(1);
    const uint32_t bytes = p.arithmetic(mf::Op::Mul, elements, p.literal(4)), groups = p.arithmetic(mf::Op::CeilDiv, elements, each);
    auto whole = ProgramBuilder::whole;
    uint32_t value = p.transient(bytes);
    p.dispatch("double", kAdd, {whole(p.argument(0), kRead), whole(p.argument(0), kRead), whole(value, kWrite)}, {elements, each},
               {groups, one, one});
    for (size_t i = 0; i < scales.size(); ++i) {
      p.barrier();
      const uint32_t next = p.transient(bytes);
      auto site = std::make_unique<mf::DispatchSiteT>();
      site->name = "scale " + std::to_string(i);
      site->bindings = {whole(value, kRead), whole(next, kWrite)};
      site->constants = {rows, columns, rows, columns};
      site->operation = operation_of(scales[i], 2);
      p.program->dispatches.push_back(std::move(site));
      p.emit(mf::Op::Dispatch, static_cast<uint32_t>(p.program->dispatches.size() - 1));
      value = next;
    }
    p.barrier();
    p.dispatch("add", kAdd, {whole(value, kRead), whole(p.argument(0), kRead), whole(p.result(0), kWrite)}, {elements, each},
               {groups, one, one});
    function.programs.push_back(p.finish());
    const std::string path = folder_.path("module" + std::to_string(++modules_) + ".heddle");
    EXPECT_EQ(module.write(path), "");
    return path;
  }

  Outcome try_instance(const std::string& path, const std::string& device = "heddle.cpu:0") {
    ModuleHandle module = open_module(runtime_.get(), path);
    return Outcome(create_instance(module.get(), {{"", device}}, &instance_));
  }

  void expect_call(const std::vector<float>& input, const std::vector<int64_t>& dims, float factor) {
    heddle_function_t* function = find_function(instance_);
    TensorHandle a = make_tensor(function, 0, dims, input);
    std::vector<float> expected;
    for (float value : input) expected.push_back(2 * value * factor + value);
    EXPECT_EQ(read_tensor(call_for_one(function, {a.get()})), expected);
  }

  nlohmann::json statistics() { return nlohmann::json::parse(instance_report(instance_, "statistics")); }

  static constexpr std::string_view kInProcess =
      "version = 1\n[plugins.probe]\n\"test.library\" = \"in-process\"\n\"test.other_library\" = \"in-process\"\n\"heddle.cpu\" = "
      "\"in-process\"\n\"test.streams\" = \"in-process\"\n";
  TemporaryFolder folder_;
  RuntimeHandle runtime_;
  InstanceHandle instance_;
  int modules_ = 0;
};

TEST_F(Operations, RunBetweenKernelsInTheirPlace) {
  open();
  Outcome made = try_instance(write({{.factor = 3}, {.mode = "cheap", .factor = 5}}, 2));
  ASSERT_TRUE(made.ok()) << made.message;
  expect_call({1, 2, 3, 4, 5, 6}, {2, 3}, 15);
  const nlohmann::json told = statistics();
  EXPECT_EQ(told["plans_made"], 1) << "the plan was made with the instance";
  EXPECT_EQ(told["submissions"], 1) << "kernels and operations are one list";
  EXPECT_EQ(told["dispatches"], 4);
  EXPECT_EQ(told["operations"], (nlohmann::json{"test::Scale/1 from test.library", "test::Scale/1 from test.library"}));
}

TEST_F(Operations, TakeTheExtentsOfEachCall) {
  open();
  Outcome made = try_instance(write({{.factor = 3}}, -1));
  ASSERT_TRUE(made.ok()) << made.message;
  EXPECT_FALSE(statistics().contains("operations")) << "without extents nothing can be prepared";
  for (int64_t batch : {1, 4, 100, 4, 1}) {
    std::vector<float> input(static_cast<size_t>(3 * batch));
    for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i);
    expect_call(input, {batch, 3}, 3);
  }
  EXPECT_EQ(statistics()["operations"].size(), 3u);
}

TEST_F(Operations, ForgetExtentsThatNobodyUses) {
  open();
  ASSERT_TRUE(try_instance(write({{.factor = 3}}, -1)).ok());
  for (int64_t batch = 1; batch <= 400; ++batch) expect_call(std::vector<float>(static_cast<size_t>(3 * batch), 1), {batch, 3}, 3);
  EXPECT_LE(statistics()["operations"].size(), 256u);
}

TEST_F(Operations, RunInSeveralCallsAndThreads) {
  open();
  ASSERT_TRUE(try_instance(write({{.factor = 3}, {.factor = 7}}, 8, 100)).ok());
  heddle_function_t* function = find_function(instance_);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 20; ++round) {
        std::vector<CallHandle> calls;
        std::vector<TensorHandle> inputs, outputs;
        std::vector<std::vector<float>> expected;
        for (int i = 0; i < 4; ++i) {
          std::vector<float> input(800);
          for (size_t k = 0; k < input.size(); ++k) input[k] = static_cast<float>((thread * 31 + round * 7 + i + static_cast<int>(k)) % 64);
          expected.emplace_back();
          for (float value : input) expected.back().push_back(43 * value);
          inputs.push_back(make_tensor(function, 0, {8, 100}, input));
          heddle_tensor_t *in = inputs.back().get(), *out = nullptr;
          heddle_call_t* call = nullptr;
          HEDDLE_EXPECT_OK(heddle_call_start(function, nullptr, &in, 1, &out, 1, &call));
          calls.emplace_back(call);
          outputs.emplace_back(out);
        }
        for (size_t i = 0; i < calls.size(); ++i) {
          HEDDLE_EXPECT_OK(heddle_call_wait(calls[i].get(), HEDDLE_TIMEOUT_INFINITE));
          wrong += read_tensor(outputs[i]) != expected[i];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(Operations, DoNotHoldTheCallersThread) {
  open();
  ASSERT_TRUE(try_instance(write({{.mode = "slow"}}, 2)).ok());
  heddle_function_t* function = find_function(instance_);
  TensorHandle a = make_tensor(function, 0, {2, 3}, std::vector<float>(6, 1));
  // On a busy machine any thread is away for that long at times; one that is held is so each time.
  auto least = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 50 && least >= std::chrono::milliseconds(20); ++i) {
    heddle_tensor_t *in = a.get(), *out = nullptr;
    heddle_call_t* call = nullptr;
    const auto start = std::chrono::steady_clock::now();
    HEDDLE_ASSERT_OK(heddle_call_start(function, nullptr, &in, 1, &out, 1, &call));
    least = std::min(least, std::chrono::steady_clock::now() - start);
    CallHandle owner(call);
    TensorHandle result(out);
    HEDDLE_EXPECT_OK(heddle_call_wait(call, HEDDLE_TIMEOUT_INFINITE));
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(30));
  }
  EXPECT_LT(least, std::chrono::milliseconds(20)) << "what is of unknown cost runs elsewhere";
}

TEST_F(Operations, FailTheirCallWithTheirNameAndNoOther) {
  open();
  ASSERT_TRUE(try_instance(write({{.factor = 3}, {.mode = "fail"}}, 2)).ok());
  heddle_function_t* function = find_function(instance_);
  for (int i = 0; i < 3; ++i) {
    TensorHandle a = make_tensor(function, 0, {2, 3}, std::vector<float>(6, 1));
    heddle_tensor_t *in = a.get(), *out = nullptr;
    heddle_status_t* status = heddle_call(function, &in, 1, &out, 1);
    EXPECT_EQ(cpp_string(heddle_status_payload(status, c_string("region_name"))), "scale 1");
    Outcome failed(status);
    EXPECT_EQ(failed.code, HEDDLE_STATUS_DATA_LOSS);
    EXPECT_THAT(failed.message, AllOf(HasSubstr("in region 'scale 1'"), HasSubstr("test: scaling 6 elements failed: it was asked to")));
  }
  EXPECT_EQ(statistics()["failed_calls"], 3);
}

TEST_F(Operations, AreMissedWhenTheInstanceIsMade) {
  open("", {});
  for (int64_t batch : {int64_t{2}, int64_t{-1}}) {
    Outcome made = try_instance(write({{}}, batch));
    EXPECT_EQ(made.code, HEDDLE_STATUS_NOT_FOUND);
    EXPECT_THAT(made.message, AllOf(HasSubstr("region 'scale 0'"), HasSubstr("test::Scale/1"), HasSubstr("no library plugin is installed"),
                                    HasSubstr("[HD-O-01]")));
  }
}

TEST_F(Operations, SayWhatEveryPluginAnswered) {
  open("", {HEDDLE_TEST_LIBRARIES "/plugins.d", HEDDLE_TEST_LIBRARIES "/other.d"});
  Outcome refused = try_instance(write({{.mode = "refuse"}}, 2));
  EXPECT_EQ(refused.code, HEDDLE_STATUS_NOT_FOUND);
  EXPECT_THAT(refused.message, AllOf(HasSubstr("test::Scale/1 (f32[2,3] -> f32[2,3]) on device 'cpu:0'"),
                                     HasSubstr("test.library returned UNIMPLEMENTED: test::Scale/1: it refuses on purpose"),
                                     HasSubstr("test.other_library returned UNIMPLEMENTED"), Not(HasSubstr("not declare"))));
  // Declared by its manifest, and not in its library.
  Outcome absent = try_instance(write({{.mode = "refuse", .version = 3}}, 2));
  EXPECT_THAT(absent.message, AllOf(HasSubstr("test.library returned UNIMPLEMENTED"), HasSubstr("test.other_library returned NOT_FOUND")));
  Outcome other = try_instance(write({{.domain = "nobody"}}, 2));
  EXPECT_THAT(other.message,
              HasSubstr("nobody::Scale/1 (f32[2,3] -> f32[2,3]) on device 'cpu:0' is not offered by any plugin; 2 library plugins do "
                        "not declare it; install"));
}

TEST_F(Operations, AreRefusedForTypesAndBadAnswers) {
  open();
  Outcome types = try_instance(write({{.element_type = HEDDLE_TYPE_I32}}, 2));
  EXPECT_EQ(types.code, HEDDLE_STATUS_NOT_FOUND);
  EXPECT_THAT(types.message, AllOf(HasSubstr("i32[2,3] -> i32[2,3]"), HasSubstr("x is i32[2,3]")));
  Outcome prepare = try_instance(write({{.mode = "prepare_fails"}}, 2));
  EXPECT_THAT(prepare.message, HasSubstr("test.library returned RESOURCE_EXHAUSTED"));
  Outcome workspace = try_instance(write({{.mode = "odd_workspace"}}, 2));
  EXPECT_THAT(workspace.message,
              AllOf(HasSubstr("test.library returned INTERNAL: query requests 24 bytes of workspace on 3"), HasSubstr("[HD-O-02]")));
}

TEST_F(Operations, AreNotForDevicesWhoseDriverRunsNone) {
  open();
  Outcome made = try_instance(write({{}}, 2), "test.streams:0");
  EXPECT_EQ(made.code, HEDDLE_STATUS_NOT_FOUND);
  EXPECT_THAT(made.message, HasSubstr("on device 'streams:0': its driver does not run operations of library plugins"));
}

TEST_F(Operations, ComeFromTheFirstPluginThatTakesThem) {
  open("", {HEDDLE_TEST_LIBRARIES "/other.d", HEDDLE_TEST_LIBRARIES "/plugins.d"});
  ASSERT_TRUE(try_instance(write({{.factor = 3}}, 2)).ok());
  EXPECT_EQ(statistics()["operations"], nlohmann::json{"test::Scale/1 from test.other_library"});
  ASSERT_TRUE(try_instance(write({{.factor = 3, .version = 3}}, 2)).ok());
  EXPECT_EQ(statistics()["operations"], nlohmann::json{"test::Scale/3 from test.library"});
}

TEST_F(Operations, GoByDisabledAndPinnedPlugins) {
  open(std::string(kInProcess) + "[plugins]\ndisable = [\"test.library\"]\n");
  Outcome disabled = try_instance(write({{}}, 2));
  EXPECT_THAT(disabled.message, HasSubstr("test.library declares it, but it is disabled: the configuration disables it"));

  // Two versions of one id: the first folder's, unless the other is pinned.
  const std::string older = folder_.path("older.d");
  std::filesystem::create_directory(older);
  std::ifstream source(HEDDLE_TEST_LIBRARIES "/plugins.d/test.library.toml");
  std::string manifest{std::istreambuf_iterator<char>(source), {}};
  const std::string library = HEDDLE_TEST_LIBRARIES "/plugins.d/libheddle_test_library.so";
  manifest.replace(manifest.find("libheddle_test_library.so"), 25, library);
  manifest.replace(manifest.find("1.0.0"), 5, "0.9.0");
  const size_t second = manifest.find("[[operator]]", manifest.find("[[operator]]") + 1);
  manifest.replace(manifest.find("name = \"Scale\""), 14, "name = \"Gone\" ");
  ASSERT_NE(second, std::string::npos);
  std::ofstream(older + "/test.library.toml") << manifest;
  open("", {older, HEDDLE_TEST_LIBRARIES "/plugins.d"});
  EXPECT_EQ(try_instance(write({{}}, 2)).code, HEDDLE_STATUS_NOT_FOUND) << "0.9.0 does not declare it";
  open(std::string(kInProcess) + "[plugins.pin]\n\"test.library\" = \"=1.0.0\"\n", {older, HEDDLE_TEST_LIBRARIES "/plugins.d"});
  Outcome pinned = try_instance(write({{}}, 2));
  EXPECT_TRUE(pinned.ok()) << pinned.message;
}

TEST_F(Operations, OutliveTheirInstanceOnlyUntilTheCallIsOver) {
  open();
  ASSERT_TRUE(try_instance(write({{.mode = "slow"}}, 2)).ok());
  heddle_function_t* function = find_function(instance_);
  TensorHandle a = make_tensor(function, 0, {2, 3}, std::vector<float>(6, 1));
  heddle_tensor_t *in = a.get(), *out = nullptr;
  heddle_call_t* call = nullptr;
  HEDDLE_ASSERT_OK(heddle_call_start(function, nullptr, &in, 1, &out, 1, &call));
  TensorHandle result(out);
  heddle_call_release(call);
  instance_.reset();
  EXPECT_EQ(read_tensor(result), std::vector<float>(6, 5));
}

}  // namespace
}  // namespace heddle::testing
