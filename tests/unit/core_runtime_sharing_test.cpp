// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the instances of one runtime have together, on every driver: code, and values computed from weights.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
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
    return {counts["made"], counts["shared"]};
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

// Values that are computed from weights.
class RuntimeDerived : public RuntimeSharing {
 protected:
  static constexpr int64_t kWidth = 1024;

  std::string write(const std::string& name, float u) {
    const std::vector<float> values(kWidth, u);
    module::SafetensorsTensor one;
    one.name = "u";
    one.element_type = HEDDLE_TYPE_F32;
    one.dims = {kWidth};
    one.source = {values.size() * 4, std::as_bytes(std::span<const float>(values)), nullptr};
    const std::string path = folder.path(name);
    module::Status written = module::write_safetensors({one}, path);
    EXPECT_FALSE(written) << written->message;
    return path;
  }
  static void add_wide(ProgramBuilder& p, uint32_t a, uint32_t b, uint32_t out) {
    const uint32_t width = p.literal(kWidth), one = p.literal(1);
    p.dispatch("add", kAdd, {ProgramBuilder::whole(a, kRead), ProgramBuilder::whole(b, kRead), ProgramBuilder::whole(out, kWrite)},
               {width, width}, {one, one, one});
  }
  // The initializer computes sum = u + constant, where the constant is 10 everywhere, and frees u; "main" returns sum + constant. with_state: the
  // initializer also sets a state.
  ModuleBuilder summing(bool with_state = false) const {
    ModuleBuilder module = builder();
    const std::vector<float> tens(kWidth, 10);
    const uint32_t u = module.add_global("u", mf::GlobalKind::Parameter, kWidth * 4, module.add_parameter("", "u", {kWidth}, {}), true);
    const uint32_t constant = module.add_global("constant", mf::GlobalKind::Constant, kWidth * 4);
    module.module.globals[constant]->data =
        std::make_unique<mf::Range>(module.writer.add_constant(std::as_bytes(std::span<const float>(tens))));
    const uint32_t sum = module.add_global("sum", mf::GlobalKind::Derived, kWidth * 4);
    ProgramBuilder first = program();
    add_wide(first, first.global(u), first.global(constant), first.global(sum));
    if (with_state) {
      const uint32_t state = module.add_global("state", mf::GlobalKind::State, kWidth * 4);
      add_wide(first, first.global(u), first.global(u), first.global(state));
    }
    module.module.initializer.push_back(first.finish());
    mf::FunctionT& function = module.add_function("main");
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(kWidth)}));
    ProgramBuilder p = program();
    add_wide(p, p.global(sum), p.global(constant), p.result(0));
    function.programs.push_back(p.finish());
    return module;
  }
  static float result(const InstanceHandle& instance) {
    const std::vector<float> values = read_tensor(call_for_one(find_function(instance), {}));
    EXPECT_EQ(values, std::vector<float>(kWidth, values[0]));
    return values[0];
  }
  // Computed, shared.
  static std::pair<int, int> derived(const InstanceHandle& instance) {
    const auto counts = statistics(instance)["derived"];
    return {counts["made"], counts["shared"]};
  }
  // Bytes in use on the device. The functions here need no memory besides their results.
  static uint64_t live(const InstanceHandle& instance) { return statistics(instance)["devices"][0]["pool"]["requested"]; }
  static heddle_status_t* refit(const InstanceHandle& instance, const std::string& path) {
    const heddle_parameter_file_t file = {{}, c_string(path)};
    heddle_refit_params_t params{};
    params.struct_size = sizeof(params);
    params.parameter_files = &file;
    params.parameter_file_count = 1;
    return heddle_instance_refit(instance.get(), &params);
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeDerived, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeDerived, AreComputedOnceForTheSameWeights) {
  ModuleBuilder module = summing();
  ModuleHandle opened = write_and_open(module, "m.heddle");
  const std::string file = write("one", 1);
  InstanceHandle first = instantiate(opened, {{"", file}});
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(derived(first), std::pair(1, 0));
  const uint64_t bytes = live(first);
  EXPECT_EQ(bytes, 2u * kWidth * 4) << "sum and constant";
  ModuleHandle same = open_module(runtime.get(), folder.path("m.heddle"));
  InstanceHandle second = instantiate(same, {{"", file}});
  EXPECT_EQ(derived(second), std::pair(1, 1));
  EXPECT_EQ(live(second), bytes);
  EXPECT_EQ(statistics(second)["dispatches"], 0);
  EXPECT_EQ(statistics(second)["global_bytes"], 2 * kWidth * 4) << "what it names, shared or not";
  first.reset();
  opened.reset();
  EXPECT_EQ(result(second), 21);
  second.reset();
  InstanceHandle third = instantiate(same, {{"", file}});
  EXPECT_EQ(derived(third), std::pair(2, 1)) << "they were freed with the last instance";
  EXPECT_EQ(live(third), bytes);
  EXPECT_EQ(result(third), 21);
}

TEST_P(RuntimeDerived, AreComputedForOtherFilesAndVersions) {
  ModuleBuilder module = summing();
  ModuleHandle opened = write_and_open(module, "m.heddle");
  const std::string one = write("one", 1), two = write("two", 2);
  InstanceHandle first = instantiate(opened, {{"", one}}), second = instantiate(opened, {{"", two}});
  EXPECT_EQ(derived(second), std::pair(2, 0));
  {  // in place: the same inode and size
    std::fstream out(one, std::ios::in | std::ios::out | std::ios::binary);
    const std::vector<float> fives(kWidth, 5);
    out.seekp(-kWidth * 4, std::ios::end);
    out.write(reinterpret_cast<const char*>(fives.data()), kWidth * 4);
  }
  std::filesystem::last_write_time(one, std::filesystem::last_write_time(one) + std::chrono::seconds(1));
  InstanceHandle third = instantiate(opened, {{"", one}});
  EXPECT_EQ(derived(third), std::pair(3, 0));
  EXPECT_EQ(result(first), 21);
  EXPECT_EQ(result(second), 22);
  EXPECT_EQ(result(third), 25);
  ModuleBuilder copied = summing();
  InstanceHandle fourth = instantiate(write_and_open(copied, "copy.heddle"), {{"", two}});
  EXPECT_EQ(derived(fourth), std::pair(4, 0)) << "of another module";
  EXPECT_EQ(result(fourth), 22);
}

TEST_P(RuntimeDerived, AreComputedPerDevice) {
  const DriverUnderTest& other = kDrivers[GetParam().device == std::string(kDrivers[0].device) ? 1 : 0];
  if (!std::filesystem::exists(other.plugin)) GTEST_SKIP() << other.plugin << " is not built";
  ModuleBuilder module = summing();
  ModuleHandle opened = write_and_open(module, "m.heddle");
  const std::string file = write("one", 1);
  InstanceHandle first = instantiate(opened, {{"", file}}), second;
  HEDDLE_ASSERT_OK(create_instance(opened.get(), {{"", other.device}}, &second, {{"", file}}));
  EXPECT_EQ(derived(second), std::pair(2, 0));
  EXPECT_EQ(code(second), std::pair(2, 0));
  first.reset();
  EXPECT_EQ(result(second), 21);
}

TEST_P(RuntimeDerived, FollowARefit) {
  ModuleBuilder module = summing();
  ModuleHandle opened = write_and_open(module, "m.heddle");
  const std::string one = write("one", 1), two = write("two", 2);
  InstanceHandle first = instantiate(opened, {{"", one}}), second = instantiate(opened, {{"", one}});
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  const uint64_t bytes = live(first);
  EXPECT_EQ(derived(first), std::pair(1, 1));
  HEDDLE_ASSERT_OK(refit(first, two));
  EXPECT_EQ(derived(first), std::pair(2, 1));
  EXPECT_EQ(live(first), bytes + kWidth * 4) << "two sums and one constant";
  EXPECT_EQ(result(first), 22);
  EXPECT_EQ(result(second), 21);
  InstanceHandle third = instantiate(opened, {{"", two}});
  EXPECT_EQ(derived(third), std::pair(2, 2)) << "with an instance that was given this file later";
  HEDDLE_ASSERT_OK(refit(first, one));
  third.reset();
  EXPECT_EQ(derived(first), std::pair(2, 3)) << "with the second again";
  EXPECT_EQ(result(first), 21);
  EXPECT_EQ(live(first), bytes);
  HEDDLE_ASSERT_OK(refit(second, one));
  EXPECT_EQ(derived(first), std::pair(2, 4)) << "nothing changed";
  second.reset();
  EXPECT_EQ(result(first), 21);
  EXPECT_EQ(live(first), bytes);
}

TEST_P(RuntimeDerived, AreNotSharedIfTheyComeWithState) {
  ModuleBuilder module = summing(true);
  ModuleHandle opened = write_and_open(module, "m.heddle");
  const std::string file = write("one", 1);
  InstanceHandle first = instantiate(opened, {{"", file}}), second = instantiate(opened, {{"", file}});
  EXPECT_EQ(derived(second), std::pair(0, 0));
  EXPECT_EQ(statistics(second)["dispatches"], 2);
  first.reset();
  EXPECT_EQ(result(second), 21);
}

TEST_P(RuntimeDerived, AreComputedByTheNextOneAfterAFailure) {
  ModuleBuilder module = summing();
  ModuleHandle opened = write_and_open(module, "m.heddle");
  const std::string file = write("one", 1);
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  InstanceHandle failed;
  const std::string broken = write("broken", 1);
  std::filesystem::resize_file(broken, std::filesystem::file_size(broken) - 4);
  EXPECT_FALSE(Outcome(create_instance(opened.get(), {{"", GetParam().device}}, &failed, {{"", broken}})).ok());
  write("broken", 3);
  InstanceHandle next = instantiate(opened, {{"", broken}});
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(result(next), 23);
}

TEST_P(RuntimeDerived, AreSharedByThreadsAtOnce) {
  ModuleBuilder module = summing();
  ModuleHandle opened = write_and_open(module, "m.heddle");
  const std::string files[] = {write("one", 1), write("two", 2)};
  constexpr int kThreads = 4, kRounds = 20;
  std::atomic<int> ready{0};
  std::vector<InstanceHandle> last(kThreads);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      for (int round = 0; round < kRounds; ++round) {
        const int file = (round + thread / 2) % 2;
        HEDDLE_EXPECT_OK(create_instance(opened.get(), {{"", GetParam().device}}, &last[thread], {{"", files[file]}},
                                         round % 4 == 0 ? HEDDLE_INSTANCE_IN_BACKGROUND : 0));
        EXPECT_EQ(result(last[thread]), 21 + file);
        HEDDLE_EXPECT_OK(refit(last[thread], files[1 - file]));
        EXPECT_EQ(result(last[thread]), 22 - file);
        if (round % 3 == 0) last[thread].reset();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto [computed, shared] = derived(last[0]);
  EXPECT_EQ(computed + shared, 2 * kThreads * kRounds);
  EXPECT_GT(shared, 0);
  last.clear();
  expect_no_violations();
}

}  // namespace
}  // namespace heddle::testing
