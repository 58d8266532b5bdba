// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle/heddle.hpp on every driver: owners, exceptions, types, calls. Knows the C interface and nothing of the core.
#include <array>
#include <new>
#include <thread>
#include <type_traits>

#include "../streams/application.h"
#include "core_drivers.h"
#include "heddle/ext/dlpack.h"
#include "sdk/cpp/heddle/heddle.hpp"
#include "sdk/module/safetensors.h"

namespace heddle::testing {
namespace {

static_assert(!std::is_copy_constructible_v<Tensor> && std::is_nothrow_move_constructible_v<Tensor> && sizeof(Tensor) == sizeof(void*));
static_assert(!std::is_copy_constructible_v<Call> && std::is_nothrow_move_assignable_v<Call> && sizeof(Call) == sizeof(void*));
static_assert(std::is_nothrow_copy_constructible_v<Error>, "exceptions are copied where nothing may be thrown");
static_assert(element_type_of<int64_t> == HEDDLE_TYPE_I64 && element_type_of<long long> == HEDDLE_TYPE_I64);
static_assert(element_type_of<uint8_t> == HEDDLE_TYPE_U8 && element_type_of<bool> == HEDDLE_TYPE_BOOL);
static_assert(element_type_of<std::byte> == HEDDLE_TYPE_UNDEFINED);

class CppLayer : public OnDriver {
 protected:
  // main: out = a + b, batch x 4; slow; breaks; many: 20 arguments and results, each result a copy of its argument.
  void SetUp() override {
    OnDriver::SetUp();
    if (::testing::Test::IsSkipped() || ::testing::Test::HasFatalFailure()) return;
    ModuleBuilder module = builder();
    add_adder(module, "main", 4);
    add_failing(module);
    mf::FunctionT& slow = module.add_function("slow");
    slow.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32));
    ProgramBuilder p = program();
    uint32_t one = p.literal(1), spins = p.literal(2000);
    p.dispatch("wait", kSlowly, {ProgramBuilder::whole(p.result(0), kWrite)}, {spins}, {one, one, one});
    slow.programs.push_back(p.finish());
    mf::FunctionT& many = module.add_function("many");
    ProgramBuilder copies = program();
    for (uint32_t i = 0; i < kMany; ++i) {
      many.arguments.push_back(ModuleBuilder::type("a" + std::to_string(i), {ModuleBuilder::extent(1)}, HEDDLE_TYPE_BOOL));
      many.results.push_back(ModuleBuilder::type("r" + std::to_string(i), {ModuleBuilder::extent(1)}, HEDDLE_TYPE_BOOL));
      copies.copy(ProgramBuilder::whole(copies.argument(i), kRead), ProgramBuilder::whole(copies.result(i), kWrite));
    }
    many.programs.push_back(copies.finish());
    path_ = folder.path("module.heddle");
    ASSERT_EQ(module.write(path_), "");
    RuntimeOptions options;
    options.config_text = config();
    options.plugin_paths = {HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS};
    options.flags = HEDDLE_RUNTIME_NO_CONFIG;
    runtime_ = Runtime::create(options);
    instance_ = runtime_.open(path_).create_instance({.slots = {{"", GetParam().device}}, .parameter_files = {}});
  }

  static constexpr uint32_t kMany = 20;
  std::string path_;
  Runtime runtime_;
  Instance instance_;
};
INSTANTIATE_TEST_SUITE_P(Drivers, CppLayer, ::testing::ValuesIn(kDrivers), driver_name);

// The failure of a function.
template <typename Function>
Error failure_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "it did not throw";
  return Error(heddle_status_create(HEDDLE_STATUS_UNKNOWN, c_string("nothing was thrown")));
}

TEST_P(CppLayer, CallsAFunction) {
  const heddle::Function main = instance_.function();
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  Tensor a = main.tensor(0, {2, 4}, values), b = main.tensor(1, std::vector<int64_t>{2, 4}, values), out;
  EXPECT_FALSE(out);
  main.call({&a, &b}, {&out});
  EXPECT_EQ(out.read<float>(), (std::vector<float>{2, 4, 6, 8, 10, 12, 14, 16}));
  EXPECT_EQ(out.text(), "f32[2,4]");
  EXPECT_EQ(out.size_bytes(), 32u);
  EXPECT_EQ(std::vector<int64_t>(out.dims().begin(), out.dims().end()), (std::vector<int64_t>{2, 4}));

  // A result that is not empty is written into.
  heddle_tensor_t* const first = out.get();
  b.write(std::array<float, 8>{});
  main.call({&a, &b}, {&out});
  EXPECT_EQ(out.get(), first);
  std::array<float, 8> read{};
  out.read(read);
  EXPECT_TRUE(std::equal(read.begin(), read.end(), values.begin()));

  std::vector<Tensor> results = main.call({&a, &a});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].read<float>()[7], 16);
}

TEST_P(CppLayer, DescribesAFunction) {
  const heddle::Function main = instance_.function("main");
  EXPECT_EQ(main.argument_count(), 2u);
  EXPECT_EQ(main.result_count(), 1u);
  const TensorType type = main.argument(1);
  EXPECT_EQ(type.name(), "b");
  EXPECT_EQ(type.element_type(), HEDDLE_TYPE_F32);
  ASSERT_EQ(type.dims().size(), 2u);
  EXPECT_LT(type.dims()[0], 0);
  EXPECT_EQ(type.symbol(0), "batch");
  EXPECT_EQ(type.symbol(1), "");
  EXPECT_EQ(type.text(), "f32[batch,4]");
  EXPECT_EQ(main.result(0).text(), "f32[batch,4]");
  const Error error = failure_of([&] { main.argument(2); });
  EXPECT_EQ(error.code(), HEDDLE_STATUS_OUT_OF_RANGE);
}

TEST_P(CppLayer, ThrowsWhatFailed) {
  const Error missing = failure_of([&] { runtime_.open("/nowhere/x.heddle"); });
  EXPECT_EQ(missing.code(), HEDDLE_STATUS_NOT_FOUND);
  EXPECT_EQ(missing.code_name(), "NOT_FOUND");
  EXPECT_NE(std::string(missing.what()).find("/nowhere/x.heddle"), std::string::npos) << missing.what();

  const heddle::Function main = instance_.function();
  Tensor a = main.tensor(0, {1, 4}, std::array<float, 4>{1, 2, 3, 4}), out;
  EXPECT_EQ(failure_of([&] { main.call({&a}, {&out}); }).code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(failure_of([&] { main.call({&a, &out}, {&out}); }).code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(failure_of([&] { main.tensor(0, {2, 4}, std::array<float, 4>{}); }).code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_FALSE(out) << "nothing changes when a call fails";

  const Error failed = failure_of([&] { instance_.function("breaks").call({}, {&out}); });
  EXPECT_EQ(failed.code(), HEDDLE_STATUS_INTERNAL);
  EXPECT_NE(view(heddle_status_payload(failed.status(), c_string("region"))), "") << "payloads can be reached";
}

TEST_P(CppLayer, ChecksTheTypeOfElements) {
  const heddle::Function main = instance_.function();
  Tensor a = main.tensor(0, {1, 4}, std::array<float, 4>{1, 2, 3, 4});
  const Error error = failure_of([&] { a.read<int64_t>(); });
  EXPECT_EQ(error.code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_STREQ(error.what(), "heddle: reading a tensor of f32[1,4] as i64 failed: its elements are f32; use this type, or bytes");
  std::array<float, 3> short_one{};
  EXPECT_EQ(failure_of([&] { a.read(short_one); }).code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(failure_of([&] { a.write(std::array<int32_t, 4>{}); }).code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  std::array<std::byte, 16> bytes{};
  a.read_bytes(bytes);
  a.write_bytes(bytes);
  EXPECT_EQ(a.read<float>(), (std::vector<float>{1, 2, 3, 4}));
}

TEST_P(CppLayer, PassesMoreTensorsThanAreOnTheStack) {
  const heddle::Function many = instance_.function("many");
  std::vector<Tensor> arguments, results(kMany);
  for (uint32_t i = 0; i < kMany; ++i) arguments.push_back(many.tensor(i, {1}, std::array<bool, 1>{i % 3 == 0}));
  many.call(arguments, results);
  many.start(arguments, results).wait();
  std::vector<Tensor> others = many.call(arguments);
  for (uint32_t i = 0; i < kMany; ++i) {
    EXPECT_EQ(results[i].read<uint8_t>()[0], i % 3 == 0) << i;
    EXPECT_EQ(others[i].read<uint8_t>()[0], i % 3 == 0) << i;
  }
}

TEST_P(CppLayer, StartsCallsAndWaits) {
  const heddle::Function slow = instance_.function("slow");
  Tensor result;
  Call call = slow.start({}, {&result});
  EXPECT_FALSE(call.wait_for(std::chrono::nanoseconds(-1)));
  EXPECT_TRUE(call.wait_for(std::chrono::hours(1)));
  call.wait();
  EXPECT_EQ(result.read<uint32_t>()[0], 1u);

  // A call that missed its deadline has failed, and is not one that goes on.
  Tensor late;
  const CallOptions past{.deadline = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(1)), .native_stream = {}};
  const Error missed = failure_of([&] { static_cast<void>(slow.start({}, {&late}, past).wait_for(std::chrono::hours(1))); });
  EXPECT_EQ(missed.code(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  const CallOptions future{.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1), .native_stream = {}};
  EXPECT_TRUE(slow.start({}, {&late}, future).wait_for(std::chrono::hours(1)));

  const State state = instance_.create_state();
  EXPECT_TRUE(slow.start({}, {&late}, {.deadline = {}, .native_stream = {}, .state = &state}).wait_for(std::chrono::hours(1)));

  // Released in flight, then its instance.
  Tensor last;
  static_cast<void>(slow.start({}, {&last}));
  instance_ = {};
  EXPECT_EQ(last.read<uint32_t>()[0], 1u);
}

TEST_P(CppLayer, OwnsItsHandles) {
  const heddle::Function main = instance_.function();
  Tensor a = main.tensor(0, {1, 4}, std::array<float, 4>{1, 2, 3, 4});
  Tensor second = a.share(), third = std::move(a);
  EXPECT_FALSE(a);  // NOLINT: it is empty
  EXPECT_EQ(second.get(), third.get());
  third = Tensor(third.release());
  second = {};
  EXPECT_EQ(third.read<float>()[3], 4);
  EXPECT_NE(instance_.report("route").view().find("{"), std::string_view::npos);
  Module module = runtime_.open(path_);
  runtime_ = {};  // kept by the module
  EXPECT_NE(module.report().view().find("\"batch\""), std::string_view::npos);
  const std::array<int64_t, 2> dims = {3, 4};
  const heddle_shape_t shapes[] = {{2, 0, dims.data()}, {2, 0, dims.data()}};
  heddle_memory_params_t params{};
  params.function = c_string("main");
  params.call_count = 1;
  params.shapes = shapes;
  EXPECT_NE(module.memory(params).view().find("\"arguments\""), std::string_view::npos);
}

TEST_P(CppLayer, WrapsMemoryOfTheApplication) {
  const heddle::Function main = instance_.function();
  alignas(256) static float place[64] = {1, 2, 3, 4};
  const test::ApplicationMemory known(place, sizeof place);
  int releases = 0;
  heddle_device_memory_t memory{};
  memory.address = reinterpret_cast<uint64_t>(place);
  memory.size_bytes = 16;
  memory.release = [](void* count) { ++*static_cast<int*>(count); };
  memory.context = &releases;
  const std::array<int64_t, 2> dims = {1, 4};
  {
    Tensor a = main.tensor_over(0, HEDDLE_TYPE_F32, dims, memory), out;
    EXPECT_EQ(a.address(), memory.address);
    main.call({&a, &a}, {&out});
    EXPECT_EQ(out.read<float>()[3], 8);
    EXPECT_EQ(releases, 0);
  }
  EXPECT_EQ(releases, 1);
  memory.size_bytes = 20;
  EXPECT_EQ(failure_of([&] { main.tensor_over(0, HEDDLE_TYPE_F32, dims, memory); }).code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(releases, 2);
}

TEST_P(CppLayer, LaysFilesOverOthersAndReplacesParameters) {
  ModuleBuilder module = builder();
  const uint32_t w = module.add_global("w", mf::GlobalKind::Parameter, 16, module.add_parameter("", "w", {4}, {}));
  mf::FunctionT& main = module.add_function("main");
  main.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(4)}));
  ProgramBuilder p = program();
  p.copy(ProgramBuilder::whole(p.global(w), kRead), ProgramBuilder::whole(p.result(0), kWrite));
  main.programs.push_back(p.finish());
  const std::string path = folder.path("parameters.heddle");
  ASSERT_EQ(module.write(path), "");
  auto file = [&](const std::string& name, float value) {
    const std::vector<float> values(4, value);
    module::SafetensorsTensor tensor;
    tensor.name = "w";
    tensor.element_type = HEDDLE_TYPE_F32;
    tensor.dims = {4};
    tensor.source = {16, std::as_bytes(std::span<const float>(values)), nullptr};
    EXPECT_FALSE(module::write_safetensors({tensor}, folder.path(name)));
    return ParameterFile{"", folder.path(name)};
  };
  InstanceOptions options;
  options.slots = {{"", GetParam().device}};
  options.parameter_files = {file("one", 1)};
  options.overlays = {file("two", 2)};
  const Instance instance = runtime_.open(path).create_instance(options);
  auto value = [&] {
    Tensor out;
    instance.function().call({}, {&out});
    return out.read<float>()[3];
  };
  EXPECT_EQ(value(), 2);
  instance.refit({file("three", 3)});
  EXPECT_EQ(value(), 3);
  instance.refit({}, {file("four", 4)});
  EXPECT_EQ(value(), 4);
  EXPECT_EQ(failure_of([&] { instance.refit({{"other", options.overlays[0].path}}); }).code(), HEDDLE_STATUS_NOT_FOUND);
  EXPECT_EQ(value(), 4);
  std::atomic<uint8_t> cancel{1};
  EXPECT_EQ(failure_of([&] { instance.refit({file("five", 5)}, {}, &cancel); }).code(), HEDDLE_STATUS_CANCELLED);
  EXPECT_EQ(value(), 4);
  cancel = 0;
  instance.refit({file("five", 5)}, {}, &cancel);
  EXPECT_EQ(value(), 5);
}

TEST_P(CppLayer, MakesTensorsOfADevice) {
  Function main = instance_.function("main");
  Device device = runtime_.device(GetParam().device);
  EXPECT_EQ(device.get(), main.argument(0).device().get());
  EXPECT_EQ(device.properties().ordinal, 0u);
  EXPECT_TRUE(device.name().ends_with(":0"));
  EXPECT_EQ(device.share().get(), device.get());
  EXPECT_EQ(failure_of([&] { runtime_.device("nothing"); }).code(), HEDDLE_STATUS_NOT_FOUND);
  const std::vector<float> values = {1, 2, 3, 4};
  Tensor a = device.tensor({1, 4}, values);
  const int64_t dims[] = {1, 4};
  Tensor b = device.tensor_from_bytes(HEDDLE_TYPE_F32, dims), out;
  EXPECT_EQ(b.device().get(), device.get());
  EXPECT_EQ(failure_of([&] { device.tensor({1, 5}, values); }).code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(failure_of([&] { device.tensor({1, 5}, std::vector<float>()); }).code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(device.tensor({0, 5}, std::vector<float>()).size_bytes(), 0u);

  auto source = std::make_shared<const std::vector<float>>(std::vector<float>{10, 20, 30, 40});
  std::weak_ptr<const std::vector<float>> kept = source;
  EXPECT_EQ(failure_of([&] { b.upload(std::make_shared<const std::vector<int32_t>>(4, 1)); }).code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  b.upload(std::move(source));
  main.call({&a, &b}, {&out});
  EXPECT_EQ(out.read<float>(), (std::vector<float>{11, 22, 33, 44}));
  b.wait();
  for (int i = 0; i < 20000 && !kept.expired(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(kept.expired());

  alignas(256) static float place[64] = {5, 6, 7, 8};
  const test::ApplicationMemory known(place, sizeof place);
  bool released = false;
  heddle_device_memory_t memory{};
  memory.address = reinterpret_cast<uint64_t>(place);
  memory.size_bytes = 16;
  memory.release = [](void* flag) { *static_cast<bool*>(flag) = true; };
  memory.context = &released;
  {
    Tensor over = device.tensor_over(HEDDLE_TYPE_F32, dims, memory);
    main.call({&over, &over}, {&out});
    EXPECT_EQ(out.read<float>(), (std::vector<float>{10, 12, 14, 16}));
  }
  EXPECT_TRUE(released);

  if (std::string(GetParam().name) != "Cpu") return;  // test.streams calls itself a CPU, and its memory is not the host's
  void* managed = nullptr;
  check(heddle_dlpack_export(a.get(), 0, &managed));
  auto* exported = static_cast<heddle_dlpack_managed_t*>(managed);
  heddle_tensor_t* again = nullptr;
  check(heddle_dlpack_import(device.get(), exported, 0, &again));
  a = {};
  EXPECT_EQ(Tensor(again).read<float>(), values);
}

}  // namespace
}  // namespace heddle::testing
