// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the instances of one runtime have together, on every driver: code, and values computed from weights.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
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
  // spins: how long it waits before.
  ModuleBuilder summing(bool with_state = false, int64_t spins = 0) const {
    ModuleBuilder module = builder();
    const std::vector<float> tens(kWidth, 10);
    const uint32_t u = module.add_global("u", mf::GlobalKind::Parameter, kWidth * 4, module.add_parameter("", "u", {kWidth}, {}), true);
    const uint32_t constant = module.add_global("constant", mf::GlobalKind::Constant, kWidth * 4);
    module.module.globals[constant]->data =
        std::make_unique<mf::Range>(module.writer.add_constant(std::as_bytes(std::span<const float>(tens))));
    const uint32_t sum = module.add_global("sum", mf::GlobalKind::Derived, kWidth * 4);
    ProgramBuilder first = program();
    if (spins != 0) {
      const uint32_t one = first.literal(1), waited = first.transient(first.literal(4));
      const uint32_t at = first.dispatch("wait", kSlowly, {ProgramBuilder::whole(waited, kWrite)}, {first.literal(spins)}, {one, one, one});
      first.lives(waited, at, at);
      first.barrier();
    }
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

TEST_P(RuntimeDerived, AreNotWaitedForByAnInstanceThatIsReleased) {
  ModuleBuilder module = summing(false, 30000);
  ModuleHandle opened = write_and_open(module, "m.heddle");
  const std::string one = write("one", 1);
  std::atomic<bool> is_made{false};
  InstanceHandle first, second;
  std::thread computing([&] {
    first = instantiate(opened, {{"", one}});
    is_made = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  HEDDLE_EXPECT_OK(create_instance(opened.get(), {{"", GetParam().device}}, &second, {{"", one}}, HEDDLE_INSTANCE_IN_BACKGROUND));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  second.reset();
  EXPECT_FALSE(is_made) << "it waited for the values of the other one";
  computing.join();
  EXPECT_EQ(result(first), 21);
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

// Computed weights on disk. Runtimes stand for processes.
class RuntimeDerivedCache : public RuntimeDerived {
 protected:
  std::string config() const override { return RuntimeDerived::config() + "[param_io]\nderived_cache = \"" + most_ + "\"\n" + more_; }
  void SetUp() override {
    if (const char* before = std::getenv("XDG_CACHE_HOME")) before_ = before;
    setenv("XDG_CACHE_HOME", folder.path("cache").c_str(), 1);
    RuntimeDerived::SetUp();
    if (IsSkipped()) return;
    ModuleBuilder module = summing();
    ASSERT_EQ(module.write(folder.path("m.heddle")), "");
  }
  void TearDown() override {
    if (before_.empty()) {
      unsetenv("XDG_CACHE_HOME");
    } else {
      setenv("XDG_CACHE_HOME", before_.c_str(), 1);
    }
  }
  // A file that is old enough to be remembered.
  std::string old(const std::string& name, float u) {
    const std::string path = write(name, u);
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    return path;
  }
  // What an instance in a runtime of its own returns, how many dispatches its initializer had, and what it logged.
  struct Loaded {
    float result;
    int dispatches;
    std::string log;
    nlohmann::json statistics;
  };
  Loaded load(const std::string& file) {
    ::testing::internal::CaptureStderr();
    Loaded loaded{};
    {
      RuntimeHandle fresh = open_runtime({HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS}, config());
      ModuleHandle module = open_module(fresh.get(), folder.path("m.heddle"));
      InstanceHandle instance;
      HEDDLE_EXPECT_OK(create_instance(module.get(), {{"", GetParam().device}}, &instance, {{"", file}}));
      if (instance) {
        loaded.statistics = statistics(instance);
        loaded.dispatches = loaded.statistics["dispatches"];
        loaded.result = result(instance);
      }
    }
    loaded.log = ::testing::internal::GetCapturedStderr();
    return loaded;
  }
  std::filesystem::path directory() const { return folder.path("cache/heddle/derived"); }
  // The files of computed weights; beside them are digests of files of weights.
  std::vector<std::filesystem::path> entries() const {
    std::vector<std::filesystem::path> found;
    if (std::filesystem::exists(directory())) {
      for (const auto& one : std::filesystem::directory_iterator(directory())) {
        std::error_code gone;  // which a file may be whose name has just been taken away
        if (const auto size = one.file_size(gone); !gone && size >= 4096) found.push_back(one.path());
      }
    }
    return found;
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  std::string before_, most_ = "1MiB", more_;
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeDerivedCache, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeDerivedCache, IsReadInsteadOfComputing) {
  const std::string one = old("one", 1), two = old("two", 2);
  const Loaded first = load(one);
  EXPECT_EQ(first.result, 21);
  EXPECT_EQ(first.dispatches, 1);
  EXPECT_EQ(first.log, "");
  ASSERT_EQ(entries().size(), 1u);
  EXPECT_EQ(std::filesystem::status(entries()[0]).permissions(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const Loaded second = load(one);
  EXPECT_EQ(second.result, 21);
  EXPECT_EQ(second.dispatches, 0);
  EXPECT_EQ(second.log, "");
  EXPECT_EQ(second.statistics["weights"]["bytes_read"], kWidth * 4) << "sum, but not u";
  EXPECT_EQ(second.statistics["devices"][0]["pool"]["requested"], 2 * kWidth * 4) << "sum and constant";
  const Loaded other = load(two);
  EXPECT_EQ(other.result, 22);
  EXPECT_EQ(other.dispatches, 1);
  EXPECT_EQ(entries().size(), 2u);
  EXPECT_EQ(load(one).dispatches, 0);
  std::filesystem::last_write_time(one, std::filesystem::last_write_time(one) + std::chrono::hours(-1));
  std::this_thread::sleep_for(std::chrono::milliseconds(60));  // another time of change
  EXPECT_EQ(load(one).dispatches, 0) << "another version of the file, but with the same bytes";
  EXPECT_EQ(entries().size(), 2u);
}

TEST_P(RuntimeDerivedCache, IsFoundByContent) {
  const std::string one = old("one", 1);
  EXPECT_EQ(load(one).dispatches, 1);
  const std::string copy = folder.path("copy");
  std::filesystem::copy_file(one, copy);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const Loaded copied = load(copy);
  EXPECT_EQ(copied.result, 21);
  EXPECT_EQ(copied.dispatches, 0);
  EXPECT_EQ(copied.log, "");
  EXPECT_EQ(entries().size(), 1u);
  // A file with other contents takes the place of one whose digest is known: same name, size and time of modification.
  const auto time = std::filesystem::last_write_time(copy);
  const std::string other = write("copy", 5);
  std::filesystem::last_write_time(copy, time);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const Loaded changed = load(other);
  EXPECT_EQ(changed.result, 25);
  EXPECT_EQ(changed.dispatches, 1);
}

// Later writes through a mapping do not change the file's times while its pages are not on the disk.
TEST_P(RuntimeDerivedCache, SeesWhatIsWrittenThroughAMapping) {
  const std::string one = old("one", 1);
  const auto size = std::filesystem::file_size(one);
  const int file = ::open(one.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  void* mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  ASSERT_NE(mapping, MAP_FAILED);
  float* values = reinterpret_cast<float*>(static_cast<char*>(mapping) + size - kWidth * sizeof(float));
  for (float value : {2.0f, 3.0f, 4.0f}) {
    std::fill(values, values + kWidth, value);
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    EXPECT_EQ(load(one).result, 20 + value);
  }
  munmap(mapping, size);
}

TEST_P(RuntimeDerivedCache, IsAbsentUnlessItIsAskedFor) {
  most_ = "0";
  const std::string one = old("one", 1);
  EXPECT_EQ(load(one).dispatches, 1);
  EXPECT_EQ(load(one).dispatches, 1);
  EXPECT_FALSE(std::filesystem::exists(folder.path("cache/heddle/derived")));
  most_ = "1MiB";
  more_ = "[[prefer]]\nop = \"*\"\nuse = [\"own\"]\n";
  EXPECT_EQ(load(one).result, 21);
  EXPECT_FALSE(std::filesystem::exists(folder.path("cache/heddle/derived")));
  more_.clear();
  EXPECT_EQ(load(one).dispatches, 1);
  EXPECT_EQ(load(one).dispatches, 0);
}

TEST_P(RuntimeDerivedCache, IsReplacedIfItIsDamaged) {
  const std::string one = old("one", 1), two = old("two", 2);
  load(one);
  ASSERT_EQ(entries().size(), 1u);
  const std::filesystem::path entry = entries()[0];
  load(two);
  ASSERT_EQ(entries().size(), 2u);
  const std::filesystem::path other = entries()[entries()[0] == entry ? 1 : 0];
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(entry));
  // Changes one byte.
  auto flip = [&](std::streamoff at) {
    std::fstream file(entry, std::ios::in | std::ios::out | std::ios::binary);
    char byte = 0;
    file.seekg(at).read(&byte, 1);
    byte = static_cast<char>(byte ^ 1);
    file.seekp(at).write(&byte, 1);
  };
  const std::pair<const char*, std::function<void()>> damages[] = {
      {"the beginning", [&] { flip(0); }},
      {"the size", [&] { flip(27); }},
      {"the key", [&] { flip(40); }},
      {"the values", [&] { flip(size - 100); }},
      {"the digest", [&] { flip(size - 1); }},
      {"the end", [&] { std::filesystem::resize_file(entry, size - 1); }},
      {"half", [&] { std::filesystem::resize_file(entry, size / 2); }},
      {"all", [&] { std::filesystem::resize_file(entry, 0); }},
      {"it is of other weights", [&] { std::filesystem::copy_file(other, entry, std::filesystem::copy_options::overwrite_existing); }},
  };
  for (const auto& [what, damage] : damages) {
    damage();
    const Loaded again = load(one);
    EXPECT_EQ(again.result, 21) << what;
    EXPECT_EQ(again.dispatches, 1) << what;
    EXPECT_TRUE(has(again.log, entry.filename().string())) << what << ": " << again.log;
    const Loaded mended = load(one);
    EXPECT_EQ(mended.result, 21) << what;
    EXPECT_EQ(mended.dispatches, 0) << what;
    EXPECT_EQ(mended.log, "") << what;
  }
}

TEST_P(RuntimeDerivedCache, IsBounded) {
  const std::string one = old("one", 1), two = old("two", 2), three = old("three", 3);
  most_ = "8KiB";
  const Loaded large = load(one);
  EXPECT_EQ(large.result, 21);
  EXPECT_TRUE(has(large.log, "larger than param_io.derived_cache")) << large.log;
  EXPECT_EQ(entries().size(), 0u);
  most_ = "20KiB";  // two files of a page of header and a page of values
  load(one);
  load(two);
  EXPECT_EQ(entries().size(), 2u);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(load(one).dispatches, 0);
  EXPECT_EQ(load(three).dispatches, 1);
  EXPECT_EQ(entries().size(), 2u);
  EXPECT_EQ(load(one).dispatches, 0) << "it was used after the second";
  EXPECT_EQ(load(two).dispatches, 1);
  std::ofstream(directory() / "not ours") << std::string(1 << 20, 'x');
  EXPECT_EQ(load(three).result, 23);
  EXPECT_TRUE(std::filesystem::exists(directory() / "not ours"));
}

TEST_P(RuntimeDerivedCache, IsNotUsedIfOthersHaveAccess) {
  const std::string one = old("one", 1);
  load(one);
  std::filesystem::permissions(directory(), std::filesystem::perms::others_read | std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
  const Loaded loaded = load(one);
  EXPECT_EQ(loaded.result, 21);
  EXPECT_EQ(loaded.dispatches, 1);
  EXPECT_TRUE(has(loaded.log, "only its user may have access")) << loaded.log;
  std::vector<std::filesystem::path> files;
  for (const auto& one_file : std::filesystem::directory_iterator(directory())) files.push_back(one_file.path());
  for (const std::filesystem::path& file : files) std::filesystem::remove(file);
  std::filesystem::remove(directory());
  std::ofstream(directory()) << "a file";
  EXPECT_EQ(load(one).result, 21);
}

TEST_P(RuntimeDerivedCache, LeavesNothingBehindOnAFullDisk) {
  const std::string one = old("one", 1);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{6000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const Loaded loaded = load(one);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(loaded.result, 21);
  EXPECT_TRUE(has(loaded.log, std::strerror(EFBIG))) << loaded.log;
  EXPECT_EQ(entries().size(), 0u);
  EXPECT_EQ(load(one).dispatches, 1);
  EXPECT_EQ(load(one).dispatches, 0);
}

TEST_P(RuntimeDerivedCache, IsNotKeptOfFilesThatMayStillChange) {
  const std::string one = write("one", 1);
  const timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
  ASSERT_EQ(utimensat(AT_FDCWD, one.c_str(), now, 0), 0);
  const auto begin = std::chrono::steady_clock::now();
  const Loaded loaded = load(one);
  if (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(45)) {
    EXPECT_EQ(entries().size(), 0u);
  }
  EXPECT_EQ(loaded.result, 21);
}

// What counts is when the file was read, not when the values are computed.
TEST_P(RuntimeDerivedCache, IsNotKeptOfSuchFilesThoughComputingTakesLong) {
  ModuleBuilder module = summing(false, 6000);
  ASSERT_EQ(module.write(folder.path("m.heddle")), "");
  ModuleHandle opened = open_module(runtime.get(), folder.path("m.heddle"));
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  // On a busy machine, a file may be read when it is no longer new.
  for (size_t turn = 0; turn < 5 && entries().size() == turn; ++turn) {
    const auto begin = std::chrono::steady_clock::now();
    const std::string one = write("one" + std::to_string(turn), static_cast<float>(1 + turn));  // other contents, another entry
    InstanceHandle instance = instantiate(opened, {{"", one}});
    if (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(60)) GTEST_SKIP() << "it did not take long";
    if (turn == 0) {
      EXPECT_EQ(result(instance), 21);
    }
  }
  EXPECT_LT(entries().size(), 5u);
}

TEST_P(RuntimeDerivedCache, SaysThatThereIsNoDirectory) {
  const std::string one = old("one", 1);
  const char* const home = std::getenv("HOME");
  const std::string before = home ? home : "";
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  const Loaded loaded = load(one);
  if (home) setenv("HOME", before.c_str(), 1);
  EXPECT_EQ(loaded.result, 21);
  EXPECT_TRUE(has(loaded.log, "neither XDG_CACHE_HOME nor HOME")) << loaded.log;
}

TEST_P(RuntimeDerivedCache, IsMappedWhereTheDeviceMaps) {
  const bool maps = std::string(GetParam().name) == "Cpu";
  more_ = "method = [\"mmap\", \"buffered\"]\n";
  const std::string one = old("one", 1);
  load(one);
  const Loaded mapped = load(one);
  EXPECT_EQ(mapped.result, 21);
  EXPECT_EQ(mapped.dispatches, 0);
  EXPECT_EQ(mapped.statistics["weights"]["bytes_mapped"], maps ? kWidth * 4 : 0);
  ASSERT_EQ(entries().size(), 1u);
  std::filesystem::resize_file(entries()[0], std::filesystem::file_size(entries()[0]) - 1);
  const Loaded truncated = load(one);
  EXPECT_EQ(truncated.result, 21);
  EXPECT_EQ(truncated.dispatches, 1);
  EXPECT_EQ(load(one).dispatches, 0);
}

TEST_P(RuntimeDerivedCache, FollowsARefit) {
  const std::string one = old("one", 1), two = old("two", 2);
  load(two);
  ModuleHandle opened = open_module(runtime.get(), folder.path("m.heddle"));
  InstanceHandle instance = instantiate(opened, {{"", one}});
  ASSERT_NE(instance, nullptr);
  const int before = statistics(instance)["dispatches"];
  EXPECT_EQ(before, 1);
  HEDDLE_ASSERT_OK(refit(instance, two));
  EXPECT_EQ(statistics(instance)["dispatches"], before) << "from the disk";
  EXPECT_EQ(result(instance), 22);
}

TEST_P(RuntimeDerivedCache, IsSharedByProcessesAtOnce) {
  const std::string files[] = {old("one", 1), old("two", 2)};
  most_ = "20KiB";
  constexpr int kThreads = 4, kRounds = 10;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < kRounds; ++round) {
        const int file = (thread + round) % 2;
        RuntimeHandle fresh = open_runtime({HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS}, config());
        ModuleHandle module = open_module(fresh.get(), folder.path("m.heddle"));
        InstanceHandle instance;
        HEDDLE_EXPECT_OK(create_instance(module.get(), {{"", GetParam().device}}, &instance, {{"", files[file]}}));
        if (instance && result(instance) == static_cast<float>(21 + file)) ++right;
        instance.reset();
        if (thread == 0 && round % 3 == 0) {
          std::error_code ignored;  // others remove and replace them meanwhile
          for (const std::filesystem::path& entry : entries()) std::filesystem::remove(entry, ignored);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads * kRounds);
  load(files[0]);
  EXPECT_EQ(load(files[0]).dispatches, 0);
}

}  // namespace
}  // namespace heddle::testing
