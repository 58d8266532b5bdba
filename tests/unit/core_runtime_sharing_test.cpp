// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the instances of one runtime have together, on every driver: code, and values computed from weights.
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "core_drivers.h"
#include "sdk/module/safetensors.h"

namespace heddle::testing {
namespace {

class RuntimeSharing : public OnDriver {
 protected:
  // The validation layer sees code that is used after it was unloaded.
  std::string config() const override { return OnDriver::config() + "[validation]\ncalls = true\n"; }

  static void add(ProgramBuilder& p, uint32_t a, uint32_t b, uint32_t out) {
    const uint32_t four = p.literal(4), one = p.literal(1);
    p.dispatch("add", kAdd, {ProgramBuilder::whole(a, kRead), ProgramBuilder::whole(b, kRead), ProgramBuilder::whole(out, kWrite)},
               {four, four}, {one, one, one});
  }
  // Returns a + a.
  ModuleBuilder doubling() const {
    ModuleBuilder module = builder();
    mf::FunctionT& function = module.add_function("main");
    function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(4)}));
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(4)}));
    ProgramBuilder p = program();
    add(p, p.argument(0), p.argument(0), p.result(0));
    function.programs.push_back(p.finish());
    return module;
  }
  ModuleHandle write_and_open(ModuleBuilder& module, const std::string& name) {
    const std::string path = folder.path(name);
    EXPECT_EQ(module.write(path), "");
    return open_module(runtime.get(), path);
  }
  InstanceHandle instantiate(const ModuleHandle& module, const std::vector<std::pair<std::string, std::string>>& files = {}) {
    InstanceHandle instance;
    HEDDLE_EXPECT_OK(create_instance(module.get(), {{"", GetParam().device}}, &instance, files));
    return instance;
  }
  static float run(const InstanceHandle& instance, float value) {
    heddle_function_t* function = find_function(instance);
    TensorHandle argument = make_tensor(function, 0, {4}, std::vector<float>(4, value));
    const std::vector<float> values = read_tensor(call_for_one(function, {argument.get()}));
    EXPECT_EQ(values, std::vector<float>(4, values[0]));
    return values[0];
  }
  static nlohmann::json statistics(const InstanceHandle& instance) {
    return nlohmann::json::parse(instance_report(instance, "statistics"));
  }
  // Loaded, shared.
  static std::pair<int, int> code(const InstanceHandle& instance) {
    const auto counts = statistics(instance)["code"];
    return {counts["loaded"], counts["shared"]};
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeSharing, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeSharing, LoadsTheSameCodeOnce) {
  ModuleBuilder module = doubling();
  ModuleHandle opened = write_and_open(module, "m.heddle");
  InstanceHandle first = instantiate(opened);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(code(first), std::pair(1, 0));
  InstanceHandle second = instantiate(opened);
  EXPECT_EQ(code(second), std::pair(1, 1));
  std::filesystem::copy_file(folder.path("m.heddle"), folder.path("copy.heddle"));
  ModuleHandle copy = open_module(runtime.get(), folder.path("copy.heddle"));
  InstanceHandle third = instantiate(copy);
  EXPECT_EQ(code(third), std::pair(1, 2));
  EXPECT_EQ(run(first, 1), 2);
  first.reset();
  second.reset();
  opened.reset();  // the code's bytes were in it
  EXPECT_EQ(run(third, 2), 4);
  InstanceHandle fourth = instantiate(copy);
  EXPECT_EQ(code(fourth), std::pair(1, 3));
  third.reset();
  EXPECT_EQ(run(fourth, 3), 6);
  fourth.reset();
  InstanceHandle again = instantiate(copy);
  EXPECT_EQ(code(again), std::pair(2, 3)) << "it was unloaded with the last instance";
  EXPECT_EQ(run(again, 4), 8);
  again.reset();
  expect_no_violations();
}

TEST_P(RuntimeSharing, LoadsCodeAgainForOtherEntriesOrBytes) {
  ModuleBuilder module = doubling();
  ModuleHandle opened = write_and_open(module, "m.heddle");
  InstanceHandle first = instantiate(opened);
  ASSERT_NE(first, nullptr);
  ModuleBuilder waiting = doubling();
  ProgramBuilder p = program();
  const uint32_t one = p.literal(1), waited = p.transient(p.literal(4));
  const uint32_t at = p.dispatch("wait", kSlowly, {ProgramBuilder::whole(waited, kWrite)}, {p.literal(1)}, {one, one, one});
  p.lives(waited, at, at);
  p.barrier();
  add(p, p.argument(0), p.argument(0), p.result(0));
  waiting.module.functions[0]->programs[0] = p.finish();
  InstanceHandle other = instantiate(write_and_open(waiting, "waiting.heddle"));
  EXPECT_EQ(code(other), std::pair(2, 0));
  ModuleBuilder renamed = doubling();
  renamed.module.executables[0]->name = "kernels of another name";
  InstanceHandle named = instantiate(write_and_open(renamed, "renamed.heddle"));
  EXPECT_EQ(code(named), std::pair(3, 0)) << "errors and profilers show the name";
  ModuleBuilder dearer = doubling();
  for (auto& variant : dearer.module.executables[0]->variants) {
    for (auto& resources : variant->resources) resources->cost += 1;
  }
  InstanceHandle costs = instantiate(write_and_open(dearer, "dearer.heddle"));
  EXPECT_EQ(code(costs), std::pair(4, 0));
  for (const InstanceHandle* instance : {&first, &other, &named, &costs}) EXPECT_EQ(run(*instance, 5), 10);
}

TEST_P(RuntimeSharing, LoadsCodeOnceForThreadsAtOnce) {
  ModuleBuilder module = doubling();
  ModuleHandle opened = write_and_open(module, "m.heddle");
  constexpr int kThreads = 4, kRounds = 20;
  std::atomic<int> ready{0};
  std::vector<InstanceHandle> last(kThreads);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      for (int round = 0; round < kRounds; ++round) {
        last[thread] = instantiate(opened);
        ASSERT_NE(last[thread], nullptr);
        EXPECT_EQ(run(last[thread], static_cast<float>(thread)), static_cast<float>(2 * thread));
        if (round % 3 == 0) last[thread].reset();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto [loaded, shared] = code(last[0]);
  EXPECT_EQ(loaded + shared, kThreads * kRounds);
  EXPECT_GT(shared, 0);
  last.clear();
  expect_no_violations();
}

}  // namespace
}  // namespace heddle::testing
