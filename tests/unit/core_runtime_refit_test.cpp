// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// New values for the parameters of a live instance, and files that are laid over others, on every driver.
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "core_drivers.h"
#include "sdk/module/safetensors.h"

namespace heddle::testing {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

heddle_status_t* try_refit(const InstanceHandle& instance, const Files& files, const Files& overlays = {}) {
  std::vector<heddle_parameter_file_t> given[2];
  for (const auto& [scope, path] : files) given[0].push_back({c_string(scope), c_string(path)});
  for (const auto& [scope, path] : overlays) given[1].push_back({c_string(scope), c_string(path)});
  heddle_refit_params_t params{};
  params.struct_size = sizeof(params);
  params.parameter_files = given[0].data();
  params.parameter_file_count = static_cast<uint32_t>(given[0].size());
  params.overlays = given[1].data();
  params.overlay_count = static_cast<uint32_t>(given[1].size());
  return heddle_instance_refit(instance.get(), &params);
}

class RuntimeRefit : public OnDriver {
 protected:
  static constexpr int64_t kWidth = 4;

  std::string write(const std::string& name, const std::vector<std::pair<std::string, float>>& tensors, int64_t width = kWidth) {
    std::vector<std::vector<float>> values;
    std::vector<module::SafetensorsTensor> out;
    for (const auto& [tensor, value] : tensors) values.emplace_back(static_cast<size_t>(width), value);
    for (size_t i = 0; i < tensors.size(); ++i) {
      module::SafetensorsTensor one;
      one.name = tensors[i].first;
      one.element_type = HEDDLE_TYPE_F32;
      one.dims = {width};
      one.source = {values[i].size() * 4, std::as_bytes(std::span<const float>(values[i])), nullptr};
      out.push_back(std::move(one));
    }
    const std::string path = folder.path(name);
    module::Status written = module::write_safetensors(out, path);
    EXPECT_FALSE(written) << written->message;
    return path;
  }
  // Every function returns 2 u + v, where the initializer computes 2 u and frees u: "main", "slow" after many pauses, and "pieces", which first
  // looks at its argument.
  ModuleBuilder summing() const {
    ModuleBuilder module = builder();
    const uint32_t u = module.add_global("u", mf::GlobalKind::Parameter, 16, module.add_parameter("", "u", {kWidth}, {}), true);
    const uint32_t v = module.add_global("v", mf::GlobalKind::Parameter, 16, module.add_parameter("", "v", {kWidth}, {}));
    const uint32_t twice = module.add_global("twice", mf::GlobalKind::Derived, 16);
    ProgramBuilder first = program();
    add(first, first.global(u), first.global(u), first.global(twice));
    module.module.initializer.push_back(first.finish());
    for (const char* name : {"main", "slow", "pieces"}) {
      mf::FunctionT& function = module.add_function(name);
      const bool in_pieces = name == std::string("pieces");
      if (in_pieces) function.arguments.push_back(ModuleBuilder::type("n", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
      function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(kWidth)}));
      ProgramBuilder p = program();
      const uint32_t one = p.literal(1), zero = p.literal(0);
      if (in_pieces) p.emit(mf::Op::ReadScalar, p.reg(), p.argument(0), zero);
      if (name == std::string("slow")) {
        const uint32_t waited = p.transient(p.literal(kWidth));
        const uint32_t at = p.dispatch("wait", kSlowly, {ProgramBuilder::whole(waited, kWrite)}, {p.literal(3000)}, {one, one, one});
        p.lives(waited, at, at);
        p.barrier();
      }
      add(p, p.global(twice), p.global(v), p.result(0));
      function.programs.push_back(p.finish());
    }
    return module;
  }
  // "main" returns v and what is computed from u and w: one value, u + w, or two, 2 u and 2 w; or 2 u + w, with 2 u as an intermediate value.
  ModuleBuilder computing(int values, bool in_two_steps = false) const {
    ModuleBuilder module = builder();
    const uint32_t u = module.add_global("u", mf::GlobalKind::Parameter, 16, module.add_parameter("", "u", {kWidth}, {}), true);
    const uint32_t w = module.add_global("w", mf::GlobalKind::Parameter, 16, module.add_parameter("", "w", {kWidth}, {}), true);
    const uint32_t v = module.add_global("v", mf::GlobalKind::Parameter, 16, module.add_parameter("", "v", {kWidth}, {}));
    const uint32_t one = module.add_global("one", mf::GlobalKind::Derived, 16);
    const uint32_t two = values == 2 ? module.add_global("two", mf::GlobalKind::Derived, 16) : one;
    ProgramBuilder first = program();
    if (in_two_steps) {
      const uint32_t twice = first.transient(first.literal(kWidth * 4));
      add(first, first.global(u), first.global(u), twice);
      first.barrier();
      add(first, twice, first.global(w), first.global(one));
    } else {
      add(first, first.global(u), first.global(values == 2 ? u : w), first.global(one));
    }
    if (values == 2) add(first, first.global(w), first.global(w), first.global(two));
    module.module.initializer.push_back(first.finish());
    mf::FunctionT& function = module.add_function("main");
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(kWidth)}));
    ProgramBuilder p = program();
    if (values == 2) {
      const uint32_t waited = p.transient(p.literal(kWidth * 4));
      add(p, p.global(one), p.global(two), waited);
      p.barrier();
      add(p, waited, p.global(v), p.result(0));
    } else {
      add(p, p.global(one), p.global(v), p.result(0));
    }
    function.programs.push_back(p.finish());
    return module;
  }
  static void add(ProgramBuilder& p, uint32_t a, uint32_t b, uint32_t out) {
    const uint32_t width = p.literal(kWidth), one = p.literal(1);
    p.dispatch("add", kAdd, {ProgramBuilder::whole(a, kRead), ProgramBuilder::whole(b, kRead), ProgramBuilder::whole(out, kWrite)},
               {width, width}, {one, one, one});
  }
  // What a call returns, if all elements are the same; otherwise a failed test.
  static float sum(heddle_function_t* function, const std::vector<heddle_tensor_t*>& arguments = {}) {
    const std::vector<float> values = read_tensor(call_for_one(function, arguments));
    EXPECT_EQ(values, std::vector<float>(kWidth, values[0]));
    return values[0];
  }
  uint64_t live(const InstanceHandle& instance) {
    return nlohmann::json::parse(instance_report(instance, "statistics"))["devices"][0]["pool"]["requested"].get<uint64_t>();
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeRefit, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeRefit, ReplacesAllOrSomeValues) {
  ModuleBuilder module = summing();
  InstanceHandle instance = open(module, {{"", write("first", {{"u", 1}, {"v", 10}})}});
  ASSERT_NE(instance, nullptr);
  heddle_function_t* main = find_function(instance, "main");
  EXPECT_EQ(sum(main), 12);
  const uint64_t before = live(instance);
  HEDDLE_ASSERT_OK(try_refit(instance, {{"", write("all", {{"u", 2}, {"v", 20}, {"not in the module", 5}})}}));
  EXPECT_EQ(sum(main), 24);
  HEDDLE_ASSERT_OK(try_refit(instance, {{"", write("v", {{"v", 30}})}}));
  EXPECT_EQ(sum(main), 34) << "u of the refit before";
  HEDDLE_ASSERT_OK(try_refit(instance, {{"", write("u", {{"u", 3}})}}));
  EXPECT_EQ(sum(main), 36);
  HEDDLE_ASSERT_OK(try_refit(instance, {{"", write("both", {{"u", 4}, {"v", 40}})}}, {{"", write("over", {{"v", 1}})}}));
  EXPECT_EQ(sum(main), 9);
  for (int i = 0; i < 50; ++i) HEDDLE_ASSERT_OK(try_refit(instance, {{"", folder.path(i % 2 ? "first" : "all")}}));
  EXPECT_EQ(sum(main), 12);
  EXPECT_EQ(live(instance), before);
  const auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
  EXPECT_EQ(statistics["global_bytes"], 32);
  EXPECT_EQ(statistics["calls"], 6);
  EXPECT_EQ(statistics["dispatches"], 6 + 1 + 53)
      << "one of each call and of each load, except of that of v alone, which nothing is computed from";
}

// A file is used under its name only as long as the instance needs it.
TEST_P(RuntimeRefit, NeedsOnlyFilesWhoseValuesItComputesWith) {
  ModuleBuilder module = computing(1);
  const std::string u = write("u1", {{"u", 1}}), w = write("w1", {{"w", 2}});
  InstanceHandle instance = open(module, {{"", u}, {"", w}, {"", write("v1", {{"v", 10}})}});
  ASSERT_NE(instance, nullptr);
  heddle_function_t* main = find_function(instance, "main");
  EXPECT_EQ(sum(main), 13);
  std::filesystem::remove(folder.path("v1"));
  const std::string old = folder.path("old");
  std::filesystem::rename(w, old);
  HEDDLE_ASSERT_OK(try_refit(instance, {{"", write("v2", {{"v", 20}})}}));
  EXPECT_EQ(sum(main), 23) << "nothing is computed from v";
  const std::string u2 = write("u2", {{"u", 2}});
  HEDDLE_EXPECT_FAILS(try_refit(instance, {{"", u2}}), HEDDLE_STATUS_NOT_FOUND,
                      "it also computes with 'w', which none of the given files has");
  EXPECT_EQ(write("w1", {{"w", 7}}), w);
  HEDDLE_EXPECT_FAILS(try_refit(instance, {{"", u2}}), HEDDLE_STATUS_FAILED_PRECONDITION, "changed since 'w' was read from it");
  EXPECT_EQ(sum(main), 23);
  HEDDLE_ASSERT_OK(try_refit(instance, {{"", w}}));
  EXPECT_EQ(sum(main), 28);
  std::filesystem::remove(old);
  HEDDLE_ASSERT_OK(try_refit(instance, {{"", u2}}));
  EXPECT_EQ(sum(main), 29);
}

// Only what depends on the new values is computed again, and files of others are not read.
TEST_P(RuntimeRefit, ComputesOnlyWhatDependsOnNewValues) {
  ModuleBuilder module = computing(2);
  ASSERT_EQ(module.write(folder.path("m.heddle")), "");
  const std::vector<std::string> first = {write("u1", {{"u", 1}}), write("w1", {{"w", 2}}), write("v1", {{"v", 10}})};
  ModuleHandle opened = open_module(runtime.get(), folder.path("m.heddle"));
  ASSERT_NE(opened, nullptr);
  InstanceHandle instance, other;
  for (InstanceHandle* one : {&instance, &other})
    HEDDLE_ASSERT_OK(create_instance(opened.get(), {{"", GetParam().device}}, one, {{"", first[0]}, {"", first[1]}, {"", first[2]}}));
  heddle_function_t* main = find_function(instance, "main");
  EXPECT_EQ(sum(main), 2 + 4 + 10);
  for (const std::string& path : first) std::filesystem::remove(path);
  auto dispatches = [](const InstanceHandle& of) {
    return nlohmann::json::parse(instance_report(of, "statistics"))["dispatches"].get<int>();
  };
  int known = dispatches(instance);
  auto computed = [&](const std::string& name, const std::vector<std::pair<std::string, float>>& tensors) {
    HEDDLE_EXPECT_OK(try_refit(instance, {{"", write(name, tensors)}}));
    const int now = dispatches(instance), more = now - known;
    known = now;
    return more;
  };
  EXPECT_EQ(computed("v2", {{"v", 20}}), 0);
  EXPECT_EQ(computed("u2", {{"u", 3}}), 1);
  EXPECT_EQ(sum(main), 6 + 4 + 20);
  known = dispatches(instance);
  EXPECT_EQ(computed("w2", {{"w", 5}}), 1);
  EXPECT_EQ(sum(main), 6 + 10 + 20);
  known = dispatches(instance);
  EXPECT_EQ(computed("all", {{"u", 1}, {"w", 1}, {"v", 1}}), 2);
  EXPECT_EQ(sum(main), 2 + 2 + 1);
  EXPECT_EQ(sum(find_function(other, "main")), 2 + 4 + 10) << "the values of the other instance";
  // Those of the same files are shared again, whichever parts were computed.
  known = dispatches(other);
  for (const char* file : {"v2", "u2", "w2", "all"}) HEDDLE_EXPECT_OK(try_refit(other, {{"", folder.path(file)}}));
  EXPECT_EQ(sum(find_function(other, "main")), 5);
  EXPECT_EQ(dispatches(other) - known, 1 + 1 + 2) << "two sets that no instance has any more, none for the last, and the call";
}

TEST_P(RuntimeRefit, ComputesIntermediateValuesAgain) {
  ModuleBuilder module = computing(1, true);
  const std::string u = write("u1", {{"u", 1}});
  InstanceHandle instance = open(module, {{"", u}, {"", write("w1", {{"w", 2}})}, {"", write("v1", {{"v", 10}})}});
  ASSERT_NE(instance, nullptr);
  heddle_function_t* main = find_function(instance, "main");
  EXPECT_EQ(sum(main), 2 + 2 + 10);
  HEDDLE_ASSERT_OK(try_refit(instance, {{"", write("w2", {{"w", 5}})}}));
  EXPECT_EQ(sum(main), 2 + 5 + 10);
  std::filesystem::remove(u);
  HEDDLE_EXPECT_FAILS(try_refit(instance, {{"", folder.path("w1")}}), HEDDLE_STATUS_NOT_FOUND, "it also computes with 'u'");
  HEDDLE_ASSERT_OK(try_refit(instance, {{"", write("u2", {{"u", 3}})}}));
  EXPECT_EQ(sum(main), 6 + 5 + 10);
}

TEST_P(RuntimeRefit, KeepsTheOldValuesWhenItFails) {
  ModuleBuilder module = summing();
  const std::string first = write("first", {{"u", 1}, {"v", 10}});
  InstanceHandle instance = open(module, {{"", first}});
  ASSERT_NE(instance, nullptr);
  heddle_function_t* main = find_function(instance, "main");
  EXPECT_EQ(sum(main), 12);
  const uint64_t before = live(instance);
  const std::string second = write("second", {{"u", 2}, {"v", 20}});
  HEDDLE_EXPECT_FAILS(try_refit(instance, {}), HEDDLE_STATUS_INVALID_ARGUMENT, "no file is given");
  HEDDLE_EXPECT_FAILS(try_refit(instance, {{"", folder.path("absent")}}), HEDDLE_STATUS_NOT_FOUND, "so it keeps those it had");
  HEDDLE_EXPECT_FAILS(try_refit(instance, {{"other scope", second}}), HEDDLE_STATUS_NOT_FOUND, "uses none of its tensors");
  HEDDLE_EXPECT_FAILS(try_refit(instance, {{"", write("names", {{"w", 1}})}}), HEDDLE_STATUS_NOT_FOUND, "the file's first tensor is 'w'");
  HEDDLE_EXPECT_FAILS(try_refit(instance, {{"", first}, {"", second}}), HEDDLE_STATUS_INVALID_ARGUMENT, "both");
  HEDDLE_EXPECT_FAILS(try_refit(instance, {{"", write("wide", {{"u", 2}, {"v", 3}}, 5)}}), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "the module expects f32[4], the file has f32[5]");
  std::filesystem::resize_file(second, std::filesystem::file_size(second) - 4);
  HEDDLE_EXPECT_FAILS(try_refit(instance, {{"", second}}), HEDDLE_STATUS_DATA_LOSS, "second");
  HEDDLE_EXPECT_FAILS(heddle_instance_refit(instance.get(), nullptr), HEDDLE_STATUS_INVALID_ARGUMENT, "params");
  EXPECT_EQ(sum(main), 12);
  EXPECT_EQ(live(instance), before);
  InstanceHandle routed = open(module, {}, HEDDLE_INSTANCE_ROUTE_ONLY);
  HEDDLE_EXPECT_FAILS(try_refit(routed, {{"", first}}), HEDDLE_STATUS_FAILED_PRECONDITION, "HEDDLE_INSTANCE_ROUTE_ONLY");
}

// Calls in flight keep the values that they began with, and their memory until they are over.
TEST_P(RuntimeRefit, CallsInFlightFinishWithTheOldValues) {
  ModuleBuilder module = summing();
  InstanceHandle instance = open(module, {{"", write("first", {{"u", 1}, {"v", 10}})}}, HEDDLE_INSTANCE_IN_BACKGROUND);
  ASSERT_NE(instance, nullptr);
  heddle_function_t *slow = find_function(instance, "slow"), *main = find_function(instance, "main");
  const std::string second = write("second", {{"u", 2}, {"v", 20}});
  auto start = [&](CallHandle& call) {
    heddle_tensor_t* result = nullptr;
    heddle_call_t* started = nullptr;
    HEDDLE_EXPECT_OK(heddle_call_start(slow, nullptr, nullptr, 0, &result, 1, &started));
    call.reset(started);
    return TensorHandle(result);
  };
  std::vector<CallHandle> calls(3);
  std::vector<TensorHandle> results;
  for (CallHandle& call : calls) results.push_back(start(call));
  calls[1].reset();
  HEDDLE_ASSERT_OK(try_refit(instance, {{"", second}}));
  CallHandle later;
  TensorHandle renewed = start(later);
  EXPECT_EQ(sum(main), 24);
  for (const TensorHandle& result : results) EXPECT_EQ(read_tensor(result), std::vector<float>(kWidth, 12));
  EXPECT_EQ(read_tensor(renewed), std::vector<float>(kWidth, 24));
  calls.clear();
  later.reset();
  results.clear();
  renewed.reset();
  const uint64_t before = live(instance);
  for (int i = 0; i < 3; ++i) {
    CallHandle call;
    TensorHandle result = start(call);
    HEDDLE_ASSERT_OK(try_refit(instance, {{"", folder.path(i % 2 ? "second" : "first")}}));
    EXPECT_EQ(read_tensor(result), std::vector<float>(kWidth, i % 2 ? 12 : 24));
  }
  sum(main);
  sum(slow);
  EXPECT_EQ(live(instance), before);
}

// The file of refit k has k for both. A call returns 3 k for one k that was current while it began.
TEST_P(RuntimeRefit, NoCallSeesAMixture) {
  constexpr uint32_t kRefits = 150;
  ModuleBuilder module = summing();
  auto write_file = [&](uint32_t k) {
    const auto value = static_cast<float>(k);
    return write("values" + std::to_string(k), {{"u", value}, {"v", value}});
  };
  InstanceHandle instance = open(module, {{"", write_file(0)}});
  ASSERT_NE(instance, nullptr);
  heddle_function_t *main = find_function(instance, "main"), *pieces = find_function(instance, "pieces");
  TensorHandle n = make_tensor<int64_t>(pieces, 0, {1}, {42}, HEDDLE_TYPE_I64);
  sum(main);
  sum(pieces, {n.get()});
  const uint64_t before = live(instance);
  std::atomic<uint32_t> begun{0}, finished{0}, calls{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; !done; ++i) {
        const bool in_pieces = (i + static_cast<uint32_t>(t)) % 4 == 0;
        const auto least = static_cast<float>(3 * finished.load());
        float got = 0;
        if (i % 3 == 0) {
          heddle_tensor_t *argument = n.get(), *result = nullptr;
          heddle_call_t* call = nullptr;
          HEDDLE_EXPECT_OK(heddle_call_start(in_pieces ? pieces : main, nullptr, &argument, in_pieces ? 1 : 0, &result, 1, &call));
          const auto most = static_cast<float>(3 * begun.load());
          CallHandle owned(call);
          if (t % 2) owned.reset();
          float values[kWidth] = {};
          HEDDLE_EXPECT_OK(heddle_tensor_read(TensorHandle(result).get(), values, sizeof(values)));
          for (const float value : values) EXPECT_EQ(value, values[0]);
          got = values[0];
          EXPECT_LE(got, most) << "a later refit's";
        } else {
          got = in_pieces ? sum(pieces, {n.get()}) : sum(main);
        }
        EXPECT_GE(got, least);
        EXPECT_LE(got, static_cast<float>(3 * begun.load()));
        EXPECT_EQ(static_cast<uint32_t>(got) % 3, 0u) << got;
        ++calls;
        if (HasFailure()) return;
      }
    });
  }
  for (uint32_t k = 1; k <= kRefits; ++k) {
    const std::string path = write_file(k);
    begun = k;
    HEDDLE_EXPECT_OK(try_refit(instance, {{"", path}}));
    finished = k;
    std::filesystem::remove(folder.path("values" + std::to_string(k - 1)));
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum(main), 3 * kRefits);
  EXPECT_EQ(sum(pieces, {n.get()}), 3 * kRefits);
  const auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
  EXPECT_EQ(statistics["calls"], calls + 4);
  EXPECT_EQ(statistics["dispatches"], calls + 4 + 1 + kRefits);
  // More calls at a time have more frames, but "main" and "pieces" have no intermediate values.
  EXPECT_EQ(live(instance), before);
}

// The state goes on, also where the initializer gives it a first value.
TEST_P(RuntimeRefit, StatesKeepTheirValues) {
  ModuleBuilder module = summing();
  const uint32_t state = module.add_global("steps", mf::GlobalKind::State, 8);
  add_step(module, "step", state, false);
  ProgramBuilder first = program();
  const uint32_t one = first.literal(1);
  first.dispatch("first", kChainStep, {ProgramBuilder::whole(first.global(state), kReadWrite)}, {one}, {one, one, one});
  module.module.initializer.clear();  // "twice" is not needed here
  module.module.initializer.push_back(first.finish());
  InstanceHandle instance = open(module, {{"", write("first", {{"u", 1}, {"v", 10}})}});
  ASSERT_NE(instance, nullptr);
  heddle_function_t* step = find_function(instance, "step");
  TensorHandle n = make_tensor<int64_t>(step, 0, {1}, {1}, HEDDLE_TYPE_I64);
  EXPECT_EQ(read_tensor<int64_t>(call_for_one(step, {n.get()}))[0], 4);
  HEDDLE_ASSERT_OK(try_refit(instance, {{"", write("second", {{"u", 2}, {"v", 20}})}}));
  EXPECT_EQ(read_tensor<int64_t>(call_for_one(step, {n.get()}))[0], 13);
}

// Times are those of calls, before and after.
TEST_P(RuntimeRefit, ProfilesCountCallsOnly) {
  ModuleBuilder module = summing();
  InstanceHandle instance = open(module, {{"", write("first", {{"u", 1}, {"v", 10}})}}, HEDDLE_INSTANCE_PROFILE);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* main = find_function(instance, "main");
  auto executions = [&] {
    uint64_t count = 0;
    const std::string report = instance_report(instance, "profile");
    for (size_t at = report.find("\"count\":"); at != std::string::npos; at = report.find("\"count\":", at + 1))
      count += std::strtoull(report.c_str() + at + 8, nullptr, 10);
    return count;
  };
  sum(main);
  EXPECT_EQ(executions(), 1u) << instance_report(instance, "profile");
  HEDDLE_ASSERT_OK(try_refit(instance, {{"", write("second", {{"u", 2}, {"v", 20}})}}));
  EXPECT_EQ(sum(main), 24);
  EXPECT_EQ(executions(), 2u) << instance_report(instance, "profile");
}

TEST_P(RuntimeRefit, LaysFilesOverOthers) {
  ModuleBuilder module = summing();
  const std::string path = folder.path("m.heddle"), base = write("base", {{"u", 1}, {"v", 10}}), v = write("v", {{"v", 20}, {"w", 0}}),
                    again = write("again", {{"v", 30}});
  ASSERT_EQ(module.write(path), "");
  ModuleHandle opened = open_module(runtime.get(), path);
  auto create = [&](const Files& overlays, InstanceHandle& out) {
    std::vector<heddle_parameter_file_t> over;
    for (const auto& [scope, file] : overlays) over.push_back({c_string(scope), c_string(file)});
    const heddle_parameter_file_t file{c_string(""), c_string(base)};
    const heddle_slot_binding_t slot{c_string(""), c_string(GetParam().device)};
    heddle_instance_params_t params{};
    params.struct_size = sizeof(params);
    params.slots = &slot;
    params.slot_count = 1;
    params.parameter_files = &file;
    params.parameter_file_count = 1;
    params.overlays = over.data();
    params.overlay_count = static_cast<uint32_t>(over.size());
    heddle_instance_t* instance = nullptr;
    heddle_status_t* status = heddle_instance_create(opened.get(), &params, &instance);
    out.reset(instance);
    return status;
  };
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(create({{"", v}}, instance));
  EXPECT_EQ(sum(find_function(instance, "main")), 22);
  HEDDLE_ASSERT_OK(create({{"", v}, {"", again}}, instance));
  EXPECT_EQ(sum(find_function(instance, "main")), 32);
  HEDDLE_EXPECT_FAILS(create({{"other", v}}, instance), HEDDLE_STATUS_NOT_FOUND, "uses none of its tensors");
  HEDDLE_EXPECT_FAILS(create({{"", write("wide", {{"v", 1}}, 5)}}, instance), HEDDLE_STATUS_INVALID_ARGUMENT, "wide");
  HEDDLE_EXPECT_FAILS(create_instance(opened.get(), {{"", GetParam().device}}, &instance, {{"", base}, {"", v}}),
                      HEDDLE_STATUS_INVALID_ARGUMENT, "both");
}

TEST_P(RuntimeRefit, ChecksHashesOnRequest) {
  auto refused = [&](ModuleBuilder& module, const std::string& file) {
    const std::string path = folder.path("refused" + std::to_string(module.module.parameters[0]->hash) + ".heddle");
    EXPECT_EQ(module.write(path), "");
    ModuleHandle opened = open_module(runtime.get(), path);
    InstanceHandle instance;
    return create_instance(opened.get(), {{"", GetParam().device}}, &instance, {{"", file}}, HEDDLE_INSTANCE_CHECK_HASHES);
  };
  const std::string first = write("first", {{"u", 1}, {"v", 10}}), second = write("second", {{"u", 2}, {"v", 10}});
  ModuleBuilder module = summing();
  const std::vector<float> values[] = {std::vector<float>(kWidth, 1), std::vector<float>(kWidth, 10)};
  for (size_t i = 0; i < 2; ++i) {
    const auto bytes = std::as_bytes(std::span<const float>(values[i]));
    module.module.parameters[i]->hash =
        module::hash_each_piece({bytes.size(), bytes, nullptr}, [](std::span<const std::byte>) { return std::nullopt; }).value();
  }
  InstanceHandle instance = open(module, {{"", first}}, HEDDLE_INSTANCE_CHECK_HASHES);
  ASSERT_NE(instance, nullptr);
  EXPECT_EQ(sum(find_function(instance, "main")), 12);
  HEDDLE_EXPECT_OK(try_refit(instance, {{"", second}}));  // new values are what a refit is for
  EXPECT_EQ(sum(find_function(instance, "main")), 14);
  // u is read by the initializer only; in the background, the first use has the error.
  HEDDLE_EXPECT_FAILS(refused(module, second), HEDDLE_STATUS_DATA_LOSS,
                      "checking parameter 'u' of " + second + " failed: its 16 bytes have hash ");
  InstanceHandle later = open(module, {{"", second}}, HEDDLE_INSTANCE_CHECK_HASHES | HEDDLE_INSTANCE_IN_BACKGROUND);
  ASSERT_NE(later, nullptr);
  HEDDLE_EXPECT_FAILS(heddle_instance_wait(later.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_DATA_LOSS, "parameter 'u'");
  module.module.parameters[0]->hash = 0;
  HEDDLE_EXPECT_FAILS(refused(module, first), HEDDLE_STATUS_FAILED_PRECONDITION, "the module has no hash of it");
}

}  // namespace
}  // namespace heddle::testing
