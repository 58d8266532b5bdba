// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that outlives a call, on every driver: parameters from files, constants, derived values, state; weights that are shared; two devices.
#include <nlohmann/json.hpp>

#include "core_drivers.h"
#include "sdk/module/safetensors.h"

namespace heddle::testing {
namespace {

class RuntimeGlobals : public OnDriver {
 protected:
  static std::span<const std::byte> bytes_of(const std::vector<float>& values) { return std::as_bytes(std::span<const float>(values)); }

  // out = a + global, four elements.
  void add_biased(ModuleBuilder& module, const std::string& name, uint32_t global) {
    mf::FunctionT& function = module.add_function(name);
    function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(4)}));
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(4)}));
    ProgramBuilder p = program();
    uint32_t four = p.literal(4), one = p.literal(1);
    p.dispatch("bias", kAdd,
               {ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.global(global), kRead),
                ProgramBuilder::whole(p.result(0), kWrite)},
               {four, four}, {one, one, one});
    function.programs.push_back(p.finish());
  }
  std::vector<float> run(const InstanceHandle& instance, const std::string& name, const std::vector<float>& a) {
    heddle_function_t* function = find_function(instance, name);
    TensorHandle argument = make_tensor(function, 0, {4}, a);
    return read_tensor(call_for_one(function, {argument.get()}));
  }
  std::string write_tensors(const std::string& name, const std::string& tensor, const std::vector<float>& values,
                            std::vector<int64_t> dims) {
    std::string path = folder.path(name);
    module::SafetensorsTensor one;
    one.name = tensor;
    one.element_type = HEDDLE_TYPE_F32;
    one.dims = std::move(dims);
    one.source = {values.size() * 4, bytes_of(values), nullptr};
    module::Status written = module::write_safetensors({one}, path);
    EXPECT_FALSE(written) << written->message;
    return path;
  }

  const std::vector<float> stored_ = {1, 2, 3, 4}, outside_ = {10, 20, 30, 40}, constant_ = {100, 200, 300, 400};
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeGlobals, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeGlobals, ReadsParametersFromTheModuleAndFromFiles) {
  ModuleBuilder module = builder();
  uint32_t inside = module.add_parameter("", "inside", {4}, bytes_of(stored_)),
           other = module.add_parameter("model", "layer.bias", {4}, {});
  uint32_t first = module.add_global("inside", mf::GlobalKind::Parameter, 16, inside);
  uint32_t second = module.add_global("outside", mf::GlobalKind::Parameter, 16, other);
  uint32_t third = module.add_global("constant", mf::GlobalKind::Constant, 16);
  module.module.globals[third]->data = std::make_unique<mf::Range>(module.writer.add_constant(bytes_of(constant_)));
  add_biased(module, "inside", first);
  add_biased(module, "outside", second);
  add_biased(module, "constant", third);
  std::string file = write_tensors("weights.safetensors", "layer.bias", outside_, {4});
  InstanceHandle instance = open(module, {{"model", file}});
  ASSERT_NE(instance, nullptr);
  EXPECT_EQ(run(instance, "inside", {1, 1, 1, 1}), (std::vector<float>{2, 3, 4, 5}));
  EXPECT_EQ(run(instance, "outside", {1, 1, 1, 1}), (std::vector<float>{11, 21, 31, 41}));
  EXPECT_EQ(run(instance, "constant", {1, 1, 1, 1}), (std::vector<float>{101, 201, 301, 401}));
}

TEST_P(RuntimeGlobals, ReadsLargeParametersExactly) {
  constexpr int64_t kCount = 3'000'001;  // 12 MB: many chunks, and a tail
  std::vector<float> values(kCount);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 8191);
  ModuleBuilder module = builder();
  uint32_t parameter = module.add_parameter("", "big", {kCount}, bytes_of(values));
  uint32_t global = module.add_global("big", mf::GlobalKind::Parameter, kCount * 4, parameter);
  mf::FunctionT& function = module.add_function("main");
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(kCount)}));
  ProgramBuilder p = program();
  p.copy(ProgramBuilder::whole(p.global(global), kRead), ProgramBuilder::whole(p.result(0), kWrite));
  function.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  EXPECT_TRUE(read_tensor(call_for_one(find_function(instance), {})) == values);
}

TEST_P(RuntimeGlobals, SaysWhichParameterIsMissingOrWrong) {
  ModuleBuilder module = builder();
  uint32_t parameter = module.add_parameter("model", "layer.bias", {4}, {});
  add_biased(module, "main", module.add_global("bias", mf::GlobalKind::Parameter, 16, parameter));
  std::string path = folder.path("m.heddle");
  ASSERT_EQ(module.write(path), "");
  ModuleHandle opened = open_module(runtime.get(), path);
  InstanceHandle instance;
  std::vector<std::pair<std::string, std::string>> slots = {{"", GetParam().device}};
  auto create = [&](const std::string& file) { return create_instance(opened.get(), slots, &instance, {{"model", file}}); };
  HEDDLE_EXPECT_FAILS(create_instance(opened.get(), slots, &instance), HEDDLE_STATUS_NOT_FOUND,
                      "no file is given for its scope 'model'; pass one with --params model=FILE");
  HEDDLE_EXPECT_FAILS(create(folder.path("absent.safetensors")), HEDDLE_STATUS_NOT_FOUND, "absent.safetensors");
  HEDDLE_EXPECT_FAILS(create(write_tensors("other.safetensors", "layer.weight", outside_, {4})), HEDDLE_STATUS_NOT_FOUND, "layer.bias");
  HEDDLE_EXPECT_FAILS(create(write_tensors("shape.safetensors", "layer.bias", outside_, {2, 2})), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "the module expects f32[4], the file has f32[2,2]");
  write_file(folder.path("broken.safetensors"), "not a safetensors file at all");
  HEDDLE_EXPECT_FAILS(create(folder.path("broken.safetensors")), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "broken.safetensors' failed: it is a text");
  HEDDLE_EXPECT_FAILS(create_instance(opened.get(), slots, &instance, {{"model", path}, {"model", path}}), HEDDLE_STATUS_DATA_LOSS,
                      "m.heddle");
}

// Values in blocks are converted into the type that the module wants, in pieces: 40,000 blocks of 34 bytes, each an f16 scale and 32 integers.
TEST_P(RuntimeGlobals, ConvertsBlocksOfGguf) {
  constexpr size_t kBlocks = 40'000, kCount = kBlocks * 32;
  std::string file("GGUF\3\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0w\1\0\0\0", 37);
  for (const auto& [value, bytes] : {std::pair<uint64_t, int>{kCount, 8}, {8, 4}, {0, 8}}) {
    for (int i = 0; i < bytes; ++i) file.push_back(static_cast<char>(value >> (8 * i)));
  }
  file.resize((file.size() + 31) / 32 * 32);
  std::vector<float> values(kCount);
  for (size_t i = 0; i < kBlocks; ++i) {
    const bool half = i % 3 == 0;  // 0.5 or 1
    file.push_back(0);
    file.push_back(half ? 0x38 : 0x3C);
    for (size_t j = 0; j < 32; ++j) {
      const auto number = static_cast<int8_t>(i * 7 + j * 5);
      file.push_back(static_cast<char>(number));
      values[i * 32 + j] = static_cast<float>(number) * (half ? 0.5f : 1.0f);
    }
  }
  write_file(folder.path("w.gguf"), file);
  for (const heddle_element_type_t type : {HEDDLE_TYPE_F32, HEDDLE_TYPE_F16, HEDDLE_TYPE_I32}) {
    ModuleBuilder module = builder();
    uint32_t parameter = module.add_parameter("", "w", {kCount}, {});
    const uint64_t bytes = kCount * HEDDLE_TYPE_BITS(type) / 8;
    module.module.parameters[parameter]->element_type = type;
    module.module.parameters[parameter]->size_bytes = bytes;
    uint32_t global = module.add_global("w", mf::GlobalKind::Parameter, bytes, parameter);
    mf::FunctionT& function = module.add_function("main");
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(static_cast<int64_t>(bytes / 4))}));
    ProgramBuilder p = program();
    p.copy(ProgramBuilder::whole(p.global(global), kRead), ProgramBuilder::whole(p.result(0), kWrite));
    function.programs.push_back(p.finish());
    if (type == HEDDLE_TYPE_I32) {
      const std::string path = folder.path("m.heddle");
      ASSERT_EQ(module.write(path), "");
      ModuleHandle opened = open_module(runtime.get(), path);
      InstanceHandle instance;
      HEDDLE_EXPECT_FAILS(create_instance(opened.get(), {{"", GetParam().device}}, &instance, {{"", folder.path("w.gguf")}}),
                          HEDDLE_STATUS_INVALID_ARGUMENT, "the module expects i32[1280000], the file has Q8_0[1280000]");
      continue;
    }
    InstanceHandle instance = open(module, {{"", folder.path("w.gguf")}});
    ASSERT_NE(instance, nullptr);
    const std::vector<float> got = read_tensor(call_for_one(find_function(instance), {}));
    ASSERT_EQ(got.size() * 4, bytes);
    if (type == HEDDLE_TYPE_F32) {
      EXPECT_TRUE(got == values);
    } else {
      const auto* halves = reinterpret_cast<const _Float16*>(got.data());
      EXPECT_TRUE(std::equal(values.begin(), values.end(), halves, [](float a, _Float16 b) { return a == static_cast<float>(b); }));
    }
  }
}

// derived = stored + stored, once, by the initializer; the parameter itself is gone afterwards.
TEST_P(RuntimeGlobals, DerivesValuesOnceAndFreesTheirSources) {
  ModuleBuilder module = builder();
  uint32_t parameter = module.add_parameter("", "w", {4}, bytes_of(stored_));
  uint32_t source = module.add_global("w", mf::GlobalKind::Parameter, 16, parameter, true);
  uint32_t derived = module.add_global("packed", mf::GlobalKind::Derived, 16);
  add_biased(module, "main", derived);
  ProgramBuilder p = program();
  uint32_t four = p.literal(4), one = p.literal(1), size = p.literal(16), scratch = p.transient(size);
  p.copy(ProgramBuilder::whole(p.global(source), kRead), ProgramBuilder::whole(scratch, kWrite));
  p.barrier();
  p.dispatch("pack", kAdd,
             {ProgramBuilder::whole(p.global(source), kRead), ProgramBuilder::whole(scratch, kRead),
              ProgramBuilder::whole(p.global(derived), kWrite)},
             {four, four}, {one, one, one});
  module.module.initializer.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
  EXPECT_EQ(statistics["dispatches"], 1);
  EXPECT_EQ(statistics["global_bytes"], 16) << "the source is freed";
  EXPECT_EQ(run(instance, "main", {0, 0, 0, 1}), (std::vector<float>{2, 4, 6, 9}));
  EXPECT_EQ(run(instance, "main", {0, 0, 0, 2}), (std::vector<float>{2, 4, 6, 10}));
  EXPECT_EQ(nlohmann::json::parse(instance_report(instance, "statistics"))["dispatches"], 3);

  // Only routed: nothing of the module runs.
  InstanceHandle routed = open(module, {}, HEDDLE_INSTANCE_ROUTE_ONLY);
  ASSERT_NE(routed, nullptr);
  EXPECT_EQ(nlohmann::json::parse(instance_report(routed, "route"))["executables"].size(), 1u);
  statistics = nlohmann::json::parse(instance_report(routed, "statistics"));
  EXPECT_EQ(statistics["dispatches"], 0);
  EXPECT_EQ(statistics["global_bytes"], 0);
  heddle_function_t* function = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_instance_function(routed.get(), c_string("main"), &function), HEDDLE_STATUS_FAILED_PRECONDITION,
                      "HEDDLE_INSTANCE_ROUTE_ONLY");
}

// What the initializer alone reads is not in memory at once: three large parameters, each read by what is before and behind a barrier, with a transient
// from one part of the initializer to the next.
TEST_P(RuntimeGlobals, LoadsSourcesOfDerivedValuesPartByPart) {
  constexpr uint64_t kCount = uint64_t{3} << 20, kBytes = kCount * 4;
  ModuleBuilder module = builder();
  std::vector<uint32_t> sources, derived;
  std::vector<std::vector<float>> all(3, std::vector<float>(kCount));  // as long as the module's builder
  for (uint32_t i = 0; i < 3; ++i) {
    std::vector<float>& values = all[i];
    for (size_t j = 0; j < values.size(); ++j) values[j] = static_cast<float>(j % 1000 + i);
    const std::string name = "w" + std::to_string(i);
    sources.push_back(module.add_global(name, mf::GlobalKind::Parameter, kBytes,
                                        module.add_parameter("", name, {static_cast<int64_t>(kCount)}, bytes_of(values)), true));
    derived.push_back(module.add_global("packed" + std::to_string(i), mf::GlobalKind::Derived, kBytes));
    add_biased(module, "main" + std::to_string(i), derived.back());
  }
  ProgramBuilder p = program();
  const uint32_t count = p.literal(kCount), one = p.literal(1), size = p.literal(kBytes);
  std::vector<uint32_t> scratch, first_use;
  for (uint32_t i = 0; i <= 3; ++i) {
    if (i < 3) {
      scratch.push_back(p.transient(size));
      first_use.push_back(p.next_instruction());
      p.copy(ProgramBuilder::whole(p.global(sources[i]), kRead), ProgramBuilder::whole(scratch[i], kWrite));
    }
    if (i > 0) {
      p.dispatch("pack", kAdd,
                 {ProgramBuilder::whole(p.global(sources[i - 1]), kRead), ProgramBuilder::whole(scratch[i - 1], kRead),
                  ProgramBuilder::whole(p.global(derived[i - 1]), kWrite)},
                 {count, count}, {one, one, one});
      p.lives(scratch[i - 1], first_use[i - 1], p.next_instruction() - 1);
    }
    p.barrier();
  }
  module.module.initializer.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  for (uint32_t i = 0; i < 3; ++i) {
    const auto first = static_cast<float>(2 * i);
    EXPECT_EQ(run(instance, "main" + std::to_string(i), {0, 0, 0, 1}), (std::vector<float>{first, first + 2, first + 4, first + 7}));
  }
  const auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
  EXPECT_EQ(statistics["global_bytes"], 3 * kBytes) << "the sources are freed";
  EXPECT_EQ(statistics["weights"]["bytes_read"], 3 * kBytes);
  // Three derived values, two sources and two transients; with all sources at once it would be 8 * kBytes.
  for (const auto& device : statistics["devices"]) {
    if (device["pool"].contains("peak_requested")) {
      EXPECT_LT(device["pool"]["peak_requested"], 8 * kBytes);
    }
  }
}

// Sources are read into memory that earlier ones no longer need: w0 again, in a later part than w1, and w2, which a function reads as well.
TEST_P(RuntimeGlobals, ReadsSourcesIntoTheSameMemory) {
  constexpr uint64_t kCount = uint64_t{3} << 20, kBytes = kCount * 4;
  ModuleBuilder module = builder();
  std::vector<std::vector<float>> all(3, std::vector<float>(kCount));  // as long as the module's builder
  std::vector<uint32_t> parameters;
  for (uint32_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < kCount; ++j) all[i][j] = static_cast<float>(j % 1000 + 10 * i);
    parameters.push_back(module.add_parameter("", "w" + std::to_string(i), {static_cast<int64_t>(kCount)}, bytes_of(all[i])));
  }
  add_biased(module, "kept", module.add_global("w2 of a function", mf::GlobalKind::Parameter, kBytes, parameters[2]));
  ProgramBuilder p = program();
  const uint32_t count = p.literal(kCount), one = p.literal(1);
  uint32_t number = 0;
  for (const uint32_t i : {0, 1, 0, 2}) {
    const std::string name = std::to_string(number++);
    const uint32_t source = module.add_global("source " + name, mf::GlobalKind::Parameter, kBytes, parameters[i], true);
    const uint32_t derived = module.add_global("derived " + name, mf::GlobalKind::Derived, kBytes);
    p.dispatch("pack" + name, kAdd,
               {ProgramBuilder::whole(p.global(source), kRead), ProgramBuilder::whole(p.global(source), kRead),
                ProgramBuilder::whole(p.global(derived), kWrite)},
               {count, count}, {one, one, one});
    p.barrier();
    add_biased(module, "main" + name, derived);
  }
  module.module.initializer.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  EXPECT_EQ(run(instance, "kept", {0, 0, 0, 1}), (std::vector<float>{20, 21, 22, 24}));
  number = 0;
  for (const uint32_t i : {0, 1, 0, 2}) {
    const auto first = static_cast<float>(20 * i);
    EXPECT_EQ(run(instance, "main" + std::to_string(number++), {0, 0, 0, 1}), (std::vector<float>{first, first + 2, first + 4, first + 7}));
  }
  const auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
  EXPECT_EQ(statistics["global_bytes"], 5 * kBytes);
  EXPECT_EQ(statistics["weights"]["bytes_read"], 4 * kBytes);
  EXPECT_EQ(statistics["weights"]["shared"], 1) << "w2";
  // One parameter, four derived values, and room for one source.
  for (const auto& device : statistics["devices"]) {
    if (!device["pool"].contains("peak_requested")) continue;
    EXPECT_LT(device["pool"]["peak_requested"], 6 * kBytes + kBytes / 2);
  }
}

TEST_P(RuntimeGlobals, SharesWeightsBetweenInstances) {
  ModuleBuilder module = builder();
  uint32_t parameter = module.add_parameter("", "w", {4}, bytes_of(stored_));
  add_biased(module, "main", module.add_global("w", mf::GlobalKind::Parameter, 16, parameter));
  InstanceHandle first = open(module);
  ASSERT_NE(first, nullptr);
  ModuleHandle opened = open_module(runtime.get(), folder.path("module1.heddle"));
  InstanceHandle second;
  HEDDLE_ASSERT_OK(create_instance(opened.get(), {{"", GetParam().device}}, &second));
  auto statistics = nlohmann::json::parse(instance_report(second, "statistics"));
  EXPECT_EQ(statistics["weights"]["bytes_read"], 16) << "read once";
  EXPECT_EQ(statistics["weights"]["shared"], 1);
  first.reset();
  EXPECT_EQ(run(second, "main", {0, 0, 0, 0}), stored_);
  second.reset();
  HEDDLE_ASSERT_OK(create_instance(opened.get(), {{"", GetParam().device}}, &second));
  EXPECT_EQ(nlohmann::json::parse(instance_report(second, "statistics"))["weights"]["bytes_read"], 32) << "nobody held it";
}

TEST_P(RuntimeGlobals, KeepsStateBetweenCallsAndApartBetweenInstances) {
  ModuleBuilder module = builder();
  uint32_t state = module.add_global("steps", mf::GlobalKind::State, 8);
  mf::FunctionT& function = module.add_function("main");
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
  ProgramBuilder p = program();
  uint32_t one = p.literal(1);
  p.dispatch("step", kChainStep, {ProgramBuilder::whole(p.global(state), kReadWrite)}, {one}, {one, one, one});
  p.barrier();
  p.copy(ProgramBuilder::whole(p.global(state), kRead), ProgramBuilder::whole(p.result(0), kWrite));
  function.programs.push_back(p.finish());
  InstanceHandle first = open(module), second = open(module);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  auto step = [](const InstanceHandle& instance) { return read_tensor<int64_t>(call_for_one(find_function(instance), {}))[0]; };
  EXPECT_EQ(step(first), 1);
  EXPECT_EQ(step(first), 4);
  EXPECT_EQ(step(first), 13);
  EXPECT_EQ(step(second), 1);
}

TEST_P(RuntimeGlobals, StatesShareTheWeights) {
  ModuleBuilder module = builder();
  uint32_t parameter = module.add_parameter("", "w", {4}, bytes_of(stored_));
  add_biased(module, "main", module.add_global("w", mf::GlobalKind::Parameter, 16, parameter));
  uint32_t kept = module.add_global("kept", mf::GlobalKind::State, 4096);
  ProgramBuilder p = program();
  mf::FunctionT& function = module.add_function("keep");
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(512)}, HEDDLE_TYPE_I64));
  p.copy(ProgramBuilder::whole(p.global(kept), kRead), ProgramBuilder::whole(p.result(0), kWrite));
  function.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  auto live = [&] {
    return nlohmann::json::parse(instance_report(instance, "statistics"))["devices"][0]["pool"]["requested"].get<uint64_t>();
  };
  const uint64_t before = live();
  std::vector<StateHandle> states;
  for (int i = 0; i < 64; ++i) {
    heddle_state_t* state = nullptr;
    HEDDLE_ASSERT_OK(heddle_state_create(instance.get(), &state));
    states.emplace_back(state);
  }
  EXPECT_EQ(live(), before + 64 * 4096) << "the state alone";
  states.clear();
  EXPECT_EQ(live(), before);
}

TEST_P(RuntimeGlobals, RefusesAStateThatItCannotMake) {
  ModuleBuilder module = builder();
  uint32_t state = module.add_global("steps", mf::GlobalKind::State, 8);
  mf::FunctionT& function = module.add_function("main");
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
  ProgramBuilder p = program();
  p.copy(ProgramBuilder::whole(p.global(state), kRead), ProgramBuilder::whole(p.result(0), kWrite));
  function.programs.push_back(p.finish());
  InstanceHandle routed = open(module, {}, HEDDLE_INSTANCE_ROUTE_ONLY);
  ASSERT_NE(routed, nullptr);
  heddle_state_t* made = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_state_create(routed.get(), &made), HEDDLE_STATUS_FAILED_PRECONDITION, "HEDDLE_INSTANCE_ROUTE_ONLY");
  // The instance's own state begins with 1, by the initializer.
  ProgramBuilder first = program();
  uint32_t one = first.literal(1);
  first.dispatch("first", kChainStep, {ProgramBuilder::whole(first.global(state), kReadWrite)}, {one}, {one, one, one});
  module.module.initializer.push_back(first.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  EXPECT_EQ(read_tensor<int64_t>(call_for_one(find_function(instance), {}))[0], 1);
  HEDDLE_EXPECT_FAILS(heddle_state_create(instance.get(), &made), HEDDLE_STATUS_UNIMPLEMENTED, "gives state 'steps' its first value");
}

TEST_P(RuntimeGlobals, GivesAllMemoryBack) {
  ModuleBuilder module = builder();
  uint32_t parameter = module.add_parameter("", "w", {4}, bytes_of(stored_));
  add_biased(module, "main", module.add_global("w", mf::GlobalKind::Parameter, 16, parameter));
  InstanceHandle keeper = open(module);
  ASSERT_NE(keeper, nullptr);
  run(keeper, "main", {0, 0, 0, 0});
  auto live = [&] {
    return nlohmann::json::parse(instance_report(keeper, "statistics"))["devices"][0]["pool"]["requested"].get<uint64_t>();
  };
  uint64_t before = live();
  for (int i = 0; i < 20; ++i) {
    InstanceHandle instance = open(module);
    ASSERT_NE(instance, nullptr);
    EXPECT_EQ(run(instance, "main", {0, 0, 0, 0}), stored_);
  }
  EXPECT_EQ(live(), before);
}

class RuntimeTwoDevices : public OnDriver {
 protected:
  std::string config() const override {
    std::string device = GetParam().device, plugin = device.substr(0, device.find(':'));
    return OnDriver::config() + "[driver.\"" + plugin + "\"]\ndevice_count = 2\n";
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeTwoDevices, ::testing::ValuesIn(kDrivers), driver_name);

// t = a + a on @a; copied to @b; out = t + t there; and back to @a as a second result.
TEST_P(RuntimeTwoDevices, CopiesBetweenSlots) {
  ModuleBuilder module = builder({"@a", "@b"});
  mf::FunctionT& function = module.add_function("main");
  function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(4)}, HEDDLE_TYPE_F32, 0));
  function.results.push_back(ModuleBuilder::type("on_b", {ModuleBuilder::extent(4)}, HEDDLE_TYPE_F32, 1));
  function.results.push_back(ModuleBuilder::type("on_a", {ModuleBuilder::extent(4)}, HEDDLE_TYPE_F32, 0));
  ProgramBuilder p({GetParam().family, GetParam().family});
  uint32_t four = p.literal(4), one = p.literal(1), size = p.literal(16);
  uint32_t here = p.transient(size), there = p.transient(size);
  auto twice = [&](const char* name, uint32_t from, uint32_t to, uint32_t slot) {
    p.dispatch(name, kAdd, {ProgramBuilder::whole(from, kRead), ProgramBuilder::whole(from, kRead), ProgramBuilder::whole(to, kWrite)},
               {four, four}, {one, one, one}, slot);
    p.barrier();
  };
  twice("first", p.argument(0), here, 0);
  p.copy(ProgramBuilder::whole(here, kRead), ProgramBuilder::whole(there, kWrite));
  p.barrier();
  twice("second", there, p.result(0), 1);
  p.copy(ProgramBuilder::whole(p.result(0), kRead), ProgramBuilder::whole(p.result(1), kWrite));
  function.programs.push_back(p.finish());
  std::string path = folder.path("two.heddle");
  ASSERT_EQ(module.write(path), "");
  ModuleHandle opened = open_module(runtime.get(), path);
  std::string first = GetParam().device, second = first.substr(0, first.size() - 1) + "1";
  for (bool apart : {true, false}) {
    InstanceHandle instance;
    HEDDLE_ASSERT_OK(create_instance(opened.get(), {{"@a", first}, {"@b", apart ? second : first}}, &instance));
    heddle_function_t* main = find_function(instance);
    TensorHandle a = make_tensor<float>(main, 0, {4}, {1, 2, 3, 4});
    for (int i = 0; i < 3; ++i) {
      heddle_tensor_t* arguments[] = {a.get()};
      heddle_tensor_t* results[2] = {};
      HEDDLE_ASSERT_OK(heddle_call(main, arguments, 1, results, 2));
      TensorHandle on_b(results[0]), on_a(results[1]);
      EXPECT_EQ(read_tensor(on_b), (std::vector<float>{4, 8, 12, 16}));
      EXPECT_EQ(read_tensor(on_a), (std::vector<float>{4, 8, 12, 16}));
      heddle_call_t* started = nullptr;
      heddle_tensor_t* later[2] = {};
      HEDDLE_ASSERT_OK(heddle_call_start(main, nullptr, arguments, 1, later, 2, &started));
      CallHandle call(started);
      TensorHandle later_b(later[0]), later_a(later[1]);
      EXPECT_EQ(read_tensor(later_a), (std::vector<float>{4, 8, 12, 16}));
      HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
      EXPECT_EQ(read_tensor(later_b), (std::vector<float>{4, 8, 12, 16}));
    }
    auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
    EXPECT_EQ(statistics["device_crossings"], apart ? 12 : 0);
  }
}

TEST_P(RuntimeTwoDevices, BringsArgumentsOfAnotherDeviceOver) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  std::string path = folder.path("one.heddle");
  ASSERT_EQ(module.write(path), "");
  ModuleHandle opened = open_module(runtime.get(), path);
  std::string first = GetParam().device, second = first.substr(0, first.size() - 1) + "1";
  InstanceHandle here, there;
  HEDDLE_ASSERT_OK(create_instance(opened.get(), {{"", first}}, &here));
  HEDDLE_ASSERT_OK(create_instance(opened.get(), {{"", second}}, &there));
  TensorHandle a = make_tensor<float>(find_function(here), 0, {1, 4}, {1, 2, 3, 4});
  TensorHandle twice = call_for_one(find_function(there), {a.get(), a.get()});
  ASSERT_NE(twice, nullptr);
  TensorHandle thrice = call_for_one(find_function(here), {a.get(), twice.get()});
  EXPECT_EQ(read_tensor(thrice), (std::vector<float>{3, 6, 9, 12}));
}

}  // namespace
}  // namespace heddle::testing
