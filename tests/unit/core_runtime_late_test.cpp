// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What drivers of real devices do at times, as options of test.streams have it: lists that are not recorded, replays without room, signals
// that come late and many at once, files that cannot be read in the middle.
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "../streams/application.h"
#include "core_drivers.h"
#include "sdk/module/safetensors.h"

namespace heddle::testing {
namespace {

class RuntimeLate : public OnDriver {
 protected:
  void SetUp() override {}  // each case opens a runtime of its own
  void open_with(const std::string& options) {
    runtime = open_runtime({HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS}, config() + "[driver.\"test.streams\"]\n" + options);
    ASSERT_NE(runtime, nullptr);
  }
  // value = seed, eight times value = value * 3 + 1, on the result: long enough to be recorded.
  void add_chain(ModuleBuilder& module) const {
    mf::FunctionT& function = module.add_function("main");
    function.arguments.push_back(ModuleBuilder::type("seed", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    ProgramBuilder p = program();
    uint32_t one = p.literal(1);
    p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.result(0), kWrite));
    for (int i = 0; i < 8; ++i) {
      p.barrier();
      p.dispatch("step", kChainStep, {ProgramBuilder::whole(p.result(0), kReadWrite)}, {one}, {one, one, one});
    }
    function.programs.push_back(p.finish());
  }
  InstanceHandle open_chain(uint32_t flags = 0) {
    ModuleBuilder module = builder();
    add_chain(module);
    return open(module, {}, flags);
  }
  static int64_t chained(int64_t value) {
    for (int i = 0; i < 8; ++i) value = value * 3 + 1;
    return value;
  }
  // Calls with new tensors each time, several in flight; gives the instance's statistics.
  nlohmann::json run_chains(const InstanceHandle& instance, int rounds, int in_flight) {
    heddle_function_t* main = find_function(instance, "main");
    for (int round = 0; round < rounds; ++round) {
      std::vector<TensorHandle> seeds, results;
      std::vector<CallHandle> calls;
      for (int i = 0; i < in_flight; ++i) {
        seeds.push_back(make_tensor<int64_t>(main, 0, {1}, {round * 100 + i}, HEDDLE_TYPE_I64));
        heddle_tensor_t *argument = seeds.back().get(), *out = nullptr;
        heddle_call_t* call = nullptr;
        HEDDLE_EXPECT_OK(heddle_call_start(main, nullptr, &argument, 1, &out, 1, &call));
        results.emplace_back(out);
        calls.emplace_back(call);
      }
      for (int i = 0; i < in_flight; ++i) {
        HEDDLE_EXPECT_OK(heddle_call_wait(calls[static_cast<size_t>(i)].get(), HEDDLE_TIMEOUT_INFINITE));
        EXPECT_EQ(read_tensor<int64_t>(results[static_cast<size_t>(i)])[0], chained(round * 100 + i));
      }
    }
    return nlohmann::json::parse(instance_report(instance, "statistics"));
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeLate, ::testing::Values(kDrivers[1]), driver_name);

TEST_P(RuntimeLate, SubmitsListsThatCannotBeRecorded) {
  open_with("record = false\n");
  InstanceHandle instance = open_chain();
  ASSERT_NE(instance, nullptr);
  nlohmann::json statistics = run_chains(instance, 20, 2);
  EXPECT_EQ(statistics["replays"], 0);
  EXPECT_EQ(statistics["submissions"], 40);
}

TEST_P(RuntimeLate, SubmitsListsWhoseReplayFindsNoRoom) {
  open_with("exhausted_replays = 3\n");
  InstanceHandle instance = open_chain();
  ASSERT_NE(instance, nullptr);
  nlohmann::json statistics = run_chains(instance, 30, 2);
  EXPECT_EQ(statistics["submissions"], 60);
  EXPECT_GT(statistics["replays"], 20);
  EXPECT_LT(statistics["replays"], 50);
}

// A frame whose list is recorded serves a call that the host holds back: it is the call's own tensors that are used.
TEST_P(RuntimeLate, HoldsBackListsThatAreRecorded) {
  open_with("exhausted_replays = 5\n");
  ModuleBuilder module = builder();
  add_chain(module);
  add_looked_at(module, "late");
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  run_chains(instance, 6, 1);
  heddle_function_t *makes = find_function(instance, "late"), *chain = find_function(instance, "main");
  for (int64_t i = 0; i < 12; ++i) {
    TensorHandle seed = make_tensor<int64_t>(makes, 0, {1}, {i}, HEDDLE_TYPE_I64),
                 made = make_tensor<int64_t>(makes, 0, {1}, {-1}, HEDDLE_TYPE_I64);
    heddle_tensor_t *from = seed.get(), *to = made.get(), *out = nullptr;
    heddle_call_t *first = nullptr, *second = nullptr;
    HEDDLE_ASSERT_OK(heddle_call_start(makes, nullptr, &from, 1, &to, 1, &first));
    CallHandle making(first);
    HEDDLE_ASSERT_OK(heddle_call_start(chain, nullptr, &to, 1, &out, 1, &second));
    CallHandle held_back(second);
    TensorHandle result(out);
    EXPECT_EQ(read_tensor<int64_t>(result)[0], chained(i));
    HEDDLE_EXPECT_OK(heddle_call_wait(held_back.get(), HEDDLE_TIMEOUT_INFINITE));
  }
}

TEST_P(RuntimeLate, TakesSignalsThatComeManyAtOnce) {
  open_with("batch_us = 5000\n");
  InstanceHandle instance = open_chain();
  ASSERT_NE(instance, nullptr);
  EXPECT_EQ(run_chains(instance, 2, 20)["submissions"], 40);
}

// A call that ends at once, since one of its arguments has failed, leaves the block of a donated one to the call that still fills it.
TEST_P(RuntimeLate, DonatedMemoryOutlivesTheCallThatFillsIt) {
  open_with("");
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  mf::FunctionT& breaks = module.add_function("breaks");
  breaks.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1), ModuleBuilder::extent(4)}));
  ProgramBuilder p = program();
  const uint32_t one = p.literal(1);
  p.dispatch("bad region", kFailing, {}, {p.literal(7)}, {one, one, one});
  breaks.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* main = find_function(instance, "main");
  const TensorHandle ones = make_tensor<float>(main, 0, {1, 4}, {1, 1, 1, 1});
  heddle_tensor_t *given[] = {ones.get(), ones.get()}, *result = nullptr;
  heddle_call_t* started = nullptr;
  {
    test::ApplicationStream stream;
    stream.enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
    heddle_call_params_t params{};
    params.struct_size = sizeof(params);
    params.flags = HEDDLE_CALL_NATIVE_STREAM;
    params.native_stream = stream.native();
    HEDDLE_ASSERT_OK(heddle_call_start(main, &params, given, 2, &result, 1, &started));
    const CallHandle filling(started);
    const TensorHandle filled(result);
    heddle_tensor_t* broken = nullptr;
    HEDDLE_ASSERT_OK(heddle_call_start(find_function(instance, "breaks"), nullptr, nullptr, 0, &broken, 1, &started));
    const CallHandle breaking(started);
    const TensorHandle failed(broken);
    EXPECT_FALSE(Outcome(heddle_call_wait(breaking.get(), HEDDLE_TIMEOUT_INFINITE)).ok());
    const uint32_t donated = 1;
    heddle_call_params_t donating{};
    donating.struct_size = sizeof(donating);
    donating.donated_arguments = &donated;
    donating.donated_argument_count = 1;
    heddle_tensor_t *arguments[] = {failed.get(), filled.get()}, *none = nullptr;
    HEDDLE_ASSERT_OK(heddle_call_start(main, &donating, arguments, 2, &none, 1, &started));
    const CallHandle ending(started);
    const TensorHandle undefined(none);
    EXPECT_FALSE(Outcome(heddle_call_wait(ending.get(), HEDDLE_TIMEOUT_INFINITE)).ok());
    std::vector<TensorHandle> others;
    for (int i = 0; i < 8; ++i) others.push_back(make_tensor<float>(main, 0, {1, 4}, {9, 9, 9, 9}));
    HEDDLE_EXPECT_OK(heddle_call_wait(filling.get(), HEDDLE_TIMEOUT_INFINITE));
    for (const TensorHandle& other : others) EXPECT_EQ(read_tensor(other), (std::vector<float>{9, 9, 9, 9}));
    stream.synchronize();
    instance.reset();  // and with it the queue over the stream
  }
}

// Times are there when the signals are, and not before: who looks earlier finds zeros.
TEST_P(RuntimeLate, TellsWhatRegionsTakeWhenSignalsComeManyAtOnce) {
  constexpr int kRounds = 6, kAtOnce = 8;
  open_with("latency_us = 500\nbatch_us = 2000\n");
  InstanceHandle instance = open_chain(HEDDLE_INSTANCE_PROFILE);
  ASSERT_NE(instance, nullptr);
  const auto begin = std::chrono::steady_clock::now();
  run_chains(instance, kRounds, kAtOnce);
  const auto wall = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
  const auto regions = nlohmann::json::parse(instance_report(instance, "profile"))["regions"];
  ASSERT_EQ(regions.size(), 2u) << regions.dump();
  uint64_t total = 0;
  for (const auto& row : regions) {
    const bool is_step = row["region"] == "step";
    EXPECT_EQ(row["kind"], is_step ? "dispatch" : "copy");
    EXPECT_EQ(row["count"], kRounds * kAtOnce * (is_step ? 8 : 1));
    EXPECT_GT(row["min_ns"].get<uint64_t>(), 0u) << "a time was looked at before it was written";
    total += row["total_ns"].get<uint64_t>();
  }
  EXPECT_LE(total, 3 * static_cast<uint64_t>(wall)) << "each of three streams does one thing at a time";
}

TEST_P(RuntimeLate, AFileThatBreaksInTheMiddleIsNamedAndTheNextLoadWorks) {
  open_with("bad_byte = 100000\n");
  const std::vector<float> small(4, 2.0f), big(60000, 3.0f);
  auto tensor = [](const char* name, const std::vector<float>& values) {
    module::SafetensorsTensor one;
    one.name = name;
    one.element_type = HEDDLE_TYPE_F32;
    one.dims = {static_cast<int64_t>(values.size())};
    one.source = {values.size() * 4, std::as_bytes(std::span<const float>(values)), nullptr};
    return one;
  };
  const std::string file = folder.path("weights.safetensors");
  ASSERT_FALSE(module::write_safetensors({tensor("small", small), tensor("big", big), tensor("tail", small)}, file));
  for (const char* wanted : {"small", "big"}) {
    ModuleBuilder module = builder();
    mf::FunctionT& function = module.add_function("main");
    const int64_t count = wanted[0] == 's' ? 4 : 60000;
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(count)}));
    ProgramBuilder p = program();
    const uint32_t global = module.add_global(wanted, mf::GlobalKind::Parameter, static_cast<uint64_t>(count) * 4,
                                              module.add_parameter("m", wanted, {count}, {}));
    p.copy(ProgramBuilder::whole(p.global(global), kRead), ProgramBuilder::whole(p.result(0), kWrite));
    function.programs.push_back(p.finish());
    const std::string path = folder.path(std::string(wanted) + ".heddle");
    ASSERT_EQ(module.write(path), "");
    ModuleHandle opened = open_module(runtime.get(), path);
    for (int turn = 0; turn < 2; ++turn) {
      InstanceHandle instance;
      heddle_status_t* status = create_instance(opened.get(), {{"", GetParam().device}}, &instance, {{"m", file}});
      if (count == 4) {
        HEDDLE_EXPECT_OK(status);
        ASSERT_NE(instance, nullptr);
        EXPECT_EQ(read_tensor(call_for_one(find_function(instance), {})), small);
        continue;
      }
      Outcome outcome(status);
      EXPECT_EQ(outcome.code, HEDDLE_STATUS_DATA_LOSS) << outcome.message;
      EXPECT_NE(outcome.message.find("weights.safetensors"), std::string::npos) << outcome.message;
      EXPECT_NE(outcome.message.find("100000"), std::string::npos) << outcome.message;
    }
  }
}

}  // namespace
}  // namespace heddle::testing
