// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Devices as the application sees them, tensors that no function made, and uploads that nobody waits for, on every driver.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "../streams/application.h"
#include "core_drivers.h"

namespace heddle::testing {
namespace {

using DeviceHandle = std::unique_ptr<heddle_runtime_device_t, Releases<heddle_runtime_device_t, heddle_runtime_device_release>>;

// Host memory of an upload that counts its releases.
struct Source {
  std::vector<float> values;
  std::atomic<int> releases{0};
  explicit Source(std::vector<float> of) : values(std::move(of)) {}
  static void release(void* source) {
    auto* self = static_cast<Source*>(source);
    std::fill(self->values.begin(), self->values.end(), -1000.0f);  // whoever still reads them gets this
    ++self->releases;
  }
  heddle_status_t* upload(heddle_tensor_t* tensor) {
    return heddle_tensor_upload(tensor, values.data(), values.size() * sizeof(float), release, this);
  }
  // Waits for the first release.
  bool released() const {
    for (int i = 0; i < 20000 && releases == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return releases == 1;
  }
};

// A stream of the application that does nothing until it is opened.
struct Gate {
  std::atomic<bool> is_open{false};
  test::ApplicationStream stream;
  Gate() {
    stream.enqueue([this] {
      while (!is_open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  }
  ~Gate() { is_open = true; }
};

class RuntimeTensor : public OnDriver {
 protected:
  std::string config() const override {
    std::string config = OnDriver::config();
    if (has_streams()) config += "[driver.\"test.streams\"]\nloss_code = 66\nown_contexts = true\naligned = true\npins = true\n";
    return config;
  }
  static bool has_streams() { return std::string(GetParam().name) == "Streams"; }

  DeviceHandle device(const std::string& name = GetParam().device) {
    heddle_runtime_device_t* out = nullptr;
    HEDDLE_EXPECT_OK(heddle_runtime_device(runtime.get(), c_string(name), &out));
    return DeviceHandle(out);
  }
  static TensorHandle create(const DeviceHandle& on, const std::vector<int64_t>& dims, const std::vector<float>& values) {
    heddle_tensor_t* out = nullptr;
    HEDDLE_EXPECT_OK(heddle_tensor_create(on.get(), HEDDLE_TYPE_F32, dims.data(), static_cast<uint32_t>(dims.size()), values.data(),
                                          values.size() * sizeof(float), &out));
    return TensorHandle(out);
  }
  static TensorHandle create_undefined(const DeviceHandle& on, const std::vector<int64_t>& dims) {
    heddle_tensor_t* out = nullptr;
    HEDDLE_EXPECT_OK(heddle_tensor_create(on.get(), HEDDLE_TYPE_F32, dims.data(), static_cast<uint32_t>(dims.size()), nullptr, 0, &out));
    return TensorHandle(out);
  }
  // out = a + b, 1 x 4, after what is on the stream; the result is pending until the gate opens.
  CallHandle start(heddle_function_t* function, std::vector<heddle_tensor_t*> arguments, heddle_tensor_t** out, Gate* gate = nullptr,
                   std::vector<uint32_t> donated = {}) {
    heddle_call_params_t params{};
    params.struct_size = sizeof params;
    if (gate) {
      params.flags = HEDDLE_CALL_NATIVE_STREAM;
      params.native_stream = gate->stream.native();
    }
    params.donated_arguments = donated.data();
    params.donated_argument_count = static_cast<uint32_t>(donated.size());
    heddle_call_t* call = nullptr;
    HEDDLE_EXPECT_OK(heddle_call_start(function, &params, arguments.data(), static_cast<uint32_t>(arguments.size()), out, 1, &call));
    return CallHandle(call);
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeTensor, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeTensor, NamesTheDeviceThatInstancesUse) {
  DeviceHandle first = device();
  heddle_runtime_device_properties_t properties{};
  properties.struct_size = sizeof properties;
  HEDDLE_ASSERT_OK(heddle_runtime_device_describe(first.get(), &properties));
  const std::string id = std::string(GetParam().device).substr(0, std::string(GetParam().device).find(':'));
  EXPECT_EQ(cpp_string(properties.driver), id);
  EXPECT_EQ(cpp_string(properties.name), id.substr(id.find('.') + 1) + ":0");
  EXPECT_EQ(cpp_string(properties.family), "cpu");
  EXPECT_EQ(properties.ordinal, 0u);
  EXPECT_EQ(properties.alignment_bytes, has_streams() ? 256u : 64u);
  // An application of an older minor, and one that forgot.
  properties.struct_size = offsetof(heddle_runtime_device_properties_t, family);
  properties.family = c_string("untouched");
  HEDDLE_ASSERT_OK(heddle_runtime_device_describe(first.get(), &properties));
  EXPECT_EQ(cpp_string(properties.family), "untouched");
  properties.struct_size = 0;
  HEDDLE_EXPECT_FAILS(heddle_runtime_device_describe(first.get(), &properties), HEDDLE_STATUS_INVALID_ARGUMENT, "struct_size is 0");

  EXPECT_EQ(device(id.substr(id.find('.') + 1)).get(), first.get()) << "two names of one device";
  EXPECT_EQ(heddle_runtime_device_retain(first.get()), first.get());
  heddle_runtime_device_release(first.get());
  EXPECT_EQ(heddle_runtime_device_retain(nullptr), nullptr);
  heddle_runtime_device_release(nullptr);

  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  heddle_tensor_type_t type{};
  type.struct_size = sizeof type;
  HEDDLE_ASSERT_OK(heddle_function_argument(function, 1, &type));
  EXPECT_EQ(type.device, first.get());
  type.device = nullptr;
  HEDDLE_ASSERT_OK(heddle_function_result(function, 0, &type));
  EXPECT_EQ(type.device, first.get());
  type.struct_size = offsetof(heddle_tensor_type_t, device);
  type.device = nullptr;
  HEDDLE_ASSERT_OK(heddle_function_result(function, 0, &type));
  EXPECT_EQ(type.device, nullptr) << "an application of an older minor";
  TensorHandle a = make_tensor<float>(function, 0, {1, 4}, {1, 2, 3, 4});
  EXPECT_EQ(heddle_tensor_device(a.get()), first.get());
  EXPECT_EQ(heddle_tensor_device(call_for_one(function, {a.get(), a.get()}).get()), first.get());
  EXPECT_EQ(heddle_tensor_device(nullptr), nullptr);
}

TEST_P(RuntimeTensor, SaysWhyADeviceCannotBeOpened) {
  heddle_runtime_device_t* out = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_runtime_device(runtime.get(), c_string("cpo:0"), &out), HEDDLE_STATUS_NOT_FOUND, "finding device cpo:0");
  const std::string seventh = std::string(GetParam().device).substr(0, std::string(GetParam().device).find(':')) + ":700";
  HEDDLE_EXPECT_FAILS(heddle_runtime_device(runtime.get(), c_string(seventh), &out), HEDDLE_STATUS_NOT_FOUND, "finding device " + seventh);
  EXPECT_EQ(out, nullptr);
  HEDDLE_EXPECT_FAILS(heddle_runtime_device(nullptr, c_string("cpu"), &out), HEDDLE_STATUS_INVALID_ARGUMENT, "runtime is NULL");
  HEDDLE_EXPECT_FAILS(heddle_runtime_device(runtime.get(), c_string("cpu"), nullptr), HEDDLE_STATUS_INVALID_ARGUMENT, "out_device is NULL");
  HEDDLE_EXPECT_FAILS(heddle_runtime_device_describe(nullptr, nullptr), HEDDLE_STATUS_INVALID_ARGUMENT, "device is NULL");
}

// One tensor as an argument of two modules' functions and as a result of both; it stays where it is, and nothing is copied.
TEST_P(RuntimeTensor, TensorsOfADeviceAreForFunctionsOfSeveralModules) {
  DeviceHandle on = device();
  TensorHandle a = create(on, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), sum = create_undefined(on, {2, 4});
  uint64_t before = 0, after = 0;
  HEDDLE_EXPECT_OK(heddle_tensor_address(sum.get(), &before));
  for (int turn = 0; turn < 2; ++turn) {
    ModuleBuilder module = builder();
    add_adder(module, "main", 4);
    InstanceHandle instance = open(module);
    ASSERT_NE(instance, nullptr);
    heddle_tensor_t *arguments[] = {a.get(), turn ? sum.get() : a.get()}, *out = sum.get();
    TensorHandle fresh;
    if (turn) {
      out = nullptr;
      HEDDLE_ASSERT_OK(heddle_call(find_function(instance), arguments, 2, &out, 1));
      fresh.reset(out);
      EXPECT_EQ(read_tensor(fresh), (std::vector<float>{3, 6, 9, 12, 15, 18, 21, 24}));
    } else {
      HEDDLE_ASSERT_OK(heddle_call(find_function(instance), arguments, 2, &out, 1));
    }
    const auto statistics = nlohmann::json::parse(instance_report(instance, "statistics"));
    EXPECT_EQ(statistics["calls"], 1) << statistics;
  }
  HEDDLE_EXPECT_OK(heddle_tensor_address(sum.get(), &after));
  EXPECT_EQ(before, after);
  EXPECT_EQ(read_tensor(sum), (std::vector<float>{2, 4, 6, 8, 10, 12, 14, 16}));
  EXPECT_EQ(dims_of(sum), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(heddle_tensor_element_type(sum.get()), HEDDLE_TYPE_F32);
  // In any order.
  runtime.reset();
  on.reset();
  EXPECT_EQ(read_tensor(a), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_P(RuntimeTensor, RefusesWhatNoTensorIs) {
  DeviceHandle on = device();
  heddle_tensor_t* out = nullptr;
  const float values[4] = {};
  const int64_t dims[17] = {2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, negative[] = {-1},
                large[] = {int64_t{1} << 40, int64_t{1} << 40};
  auto make = [&](heddle_element_type_t type, const int64_t* extents, uint32_t rank, const void* bytes, uint64_t size) {
    return heddle_tensor_create(on.get(), type, extents, rank, bytes, size, &out);
  };
  HEDDLE_EXPECT_FAILS(make(0x1234, dims, 2, values, 16), HEDDLE_STATUS_INVALID_ARGUMENT, "element type 0x1234");
  HEDDLE_EXPECT_FAILS(make(HEDDLE_TYPE_F32, dims, 17, values, 16), HEDDLE_STATUS_INVALID_ARGUMENT, "rank 17");
  HEDDLE_EXPECT_FAILS(make(HEDDLE_TYPE_F32, dims, 17, nullptr, 0), HEDDLE_STATUS_INVALID_ARGUMENT, "rank 17");
  HEDDLE_EXPECT_FAILS(make(HEDDLE_TYPE_F32, dims, 2, values, 12), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "f32[2,2] failed: it has 16 bytes, got 12");
  HEDDLE_EXPECT_FAILS(make(HEDDLE_TYPE_F32, negative, 1, nullptr, 0), HEDDLE_STATUS_INVALID_ARGUMENT, "it has too many bytes, got 0");
  HEDDLE_EXPECT_FAILS(make(HEDDLE_TYPE_F32, large, 2, nullptr, 0), HEDDLE_STATUS_INVALID_ARGUMENT, "it has too many bytes");
  HEDDLE_EXPECT_FAILS(make(HEDDLE_TYPE_F32, nullptr, 2, nullptr, 0), HEDDLE_STATUS_INVALID_ARGUMENT, "dims is NULL");
  HEDDLE_EXPECT_FAILS(make(HEDDLE_TYPE_F32, dims, 2, nullptr, 16), HEDDLE_STATUS_INVALID_ARGUMENT, "bytes is NULL");
  HEDDLE_EXPECT_FAILS(heddle_tensor_create(nullptr, HEDDLE_TYPE_F32, dims, 2, values, 16, &out), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "device is NULL");
  HEDDLE_EXPECT_FAILS(heddle_tensor_create(on.get(), HEDDLE_TYPE_F32, dims, 2, values, 16, nullptr), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "out_tensor is NULL");
  EXPECT_EQ(out, nullptr);
  // Scalars, and tensors without elements.
  HEDDLE_EXPECT_OK(make(HEDDLE_TYPE_F32, nullptr, 0, values, 4));
  EXPECT_EQ(read_tensor(TensorHandle(out)), (std::vector<float>{0}));
  const int64_t none[] = {0, 5};
  HEDDLE_EXPECT_OK(make(HEDDLE_TYPE_F32, none, 2, nullptr, 0));
  EXPECT_EQ(heddle_tensor_size(TensorHandle(out).get()), 0u);
  // A function names what it expects.
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  TensorHandle wrong = create(on, {1, 3}, {1, 2, 3});
  heddle_tensor_t *arguments[] = {wrong.get(), wrong.get()}, *result = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_call(find_function(instance), arguments, 2, &result, 1), HEDDLE_STATUS_INVALID_ARGUMENT, "f32[1,3]");
}

TEST_P(RuntimeTensor, ImportsMemoryOfTheApplication) {
  DeviceHandle on = device();
  std::atomic<int> releases{0};
  alignas(256) static float place[128] = {};
  const test::ApplicationMemory known(place, sizeof place);
  const int64_t dims[] = {1, 4};
  heddle_device_memory_t memory{};
  memory.struct_size = sizeof memory;
  memory.address = reinterpret_cast<uint64_t>(place);
  memory.size_bytes = 16;
  memory.release = [](void* count) { ++*static_cast<std::atomic<int>*>(count); };
  memory.context = &releases;
  heddle_tensor_t* out = nullptr;
  auto import = [&] { return heddle_tensor_import(on.get(), HEDDLE_TYPE_F32, dims, 2, &memory, &out); };
  memory.flags = HEDDLE_DEVICE_MEMORY_RESULT;
  HEDDLE_EXPECT_FAILS(import(), HEDDLE_STATUS_INVALID_ARGUMENT, "memory.flags is 1");
  memory.flags = 0;
  memory.size_bytes = 20;
  HEDDLE_EXPECT_FAILS(import(), HEDDLE_STATUS_INVALID_ARGUMENT, "it has 16 bytes, got 20");
  memory.size_bytes = 16;
  memory.address += 32;
  HEDDLE_EXPECT_FAILS(import(), HEDDLE_STATUS_INVALID_ARGUMENT, has_streams() ? "multiple of 256 bytes" : "multiple of 64 bytes");
  memory.address -= 32;
  EXPECT_EQ(releases, 3) << "once for each failure";
  EXPECT_EQ(out, nullptr);
  HEDDLE_EXPECT_FAILS(heddle_tensor_import(on.get(), HEDDLE_TYPE_F32, dims, 2, nullptr, &out), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "memory is NULL");

  releases = 0;
  HEDDLE_ASSERT_OK(import());
  TensorHandle result(out);
  memory.address += 256;
  HEDDLE_ASSERT_OK(import());
  TensorHandle argument(out);
  std::fill_n(place + 64, 4, 3.0f);
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_tensor_t *arguments[] = {argument.get(), argument.get()}, *results[] = {result.get()};
  HEDDLE_ASSERT_OK(heddle_call(find_function(instance), arguments, 2, results, 1));
  EXPECT_EQ(place[3], 6) << "read and written in place";
  argument.reset();
  EXPECT_EQ(releases, 1);
  runtime.reset();
  instance.reset();
  on.reset();
  EXPECT_EQ(releases, 1);
  result.reset();
  EXPECT_EQ(releases, 2);
}

// ------------------------------------------------------------------------------------------------------------- uploads

TEST_P(RuntimeTensor, UploadsBeforeTheCallsThatUseTheTensor) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  DeviceHandle on = device();
  constexpr int64_t kRows = 20000;  // too large to be copied in passing
  TensorHandle input = create_undefined(on, {kRows, 4});
  for (int turn = 1; turn <= 8; ++turn) {
    Source source(std::vector<float>(kRows * 4, static_cast<float>(turn)));
    HEDDLE_ASSERT_OK(source.upload(input.get()));
    heddle_tensor_t* out = nullptr;
    CallHandle call = start(function, {input.get(), input.get()}, &out);
    TensorHandle sum(out);
    if (turn % 2) {
      HEDDLE_EXPECT_OK(heddle_tensor_wait(input.get(), HEDDLE_TIMEOUT_INFINITE));
      EXPECT_EQ(read_tensor(input), std::vector<float>(kRows * 4, static_cast<float>(turn)));
    }
    EXPECT_EQ(read_tensor(sum), std::vector<float>(kRows * 4, static_cast<float>(2 * turn)));
    EXPECT_TRUE(source.released()) << source.releases;
  }
  // Two in a row: the second one wins, and both are released.
  Source first(std::vector<float>(kRows * 4, 1)), second(std::vector<float>(kRows * 4, 2));
  HEDDLE_ASSERT_OK(first.upload(input.get()));
  HEDDLE_ASSERT_OK(second.upload(input.get()));
  EXPECT_EQ(read_tensor(input), std::vector<float>(kRows * 4, 2));
  EXPECT_TRUE(first.released());
  EXPECT_TRUE(second.released());
  // A write after an upload, and an upload of nothing.
  Source third(std::vector<float>(kRows * 4, 3));
  HEDDLE_ASSERT_OK(third.upload(input.get()));
  const std::vector<float> written(kRows * 4, 4);
  HEDDLE_ASSERT_OK(heddle_tensor_write(input.get(), written.data(), written.size() * sizeof(float)));
  EXPECT_EQ(read_tensor(input), written);
  EXPECT_TRUE(third.released());
  TensorHandle empty = create_undefined(on, {0, 4});
  Source nothing({});
  HEDDLE_ASSERT_OK(nothing.upload(empty.get()));
  EXPECT_EQ(nothing.releases, 1);
  HEDDLE_EXPECT_OK(heddle_tensor_wait(empty.get(), 0));
  HEDDLE_ASSERT_OK(heddle_tensor_upload(input.get(), written.data(), written.size() * sizeof(float), nullptr, nullptr));
  EXPECT_EQ(read_tensor(input), written);
}

// The gate holds back the call that fills the tensor, so the upload, and with it the call that reads the tensor.
TEST_P(RuntimeTensor, AnUploadWaitsForTheCallThatFillsTheTensor) {
  if (!has_streams()) GTEST_SKIP() << "it has no streams";
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  DeviceHandle on = device();
  TensorHandle one = create(on, {1, 4}, {1, 1, 1, 1});
  Source source({5, 6, 7, 8}), later({50, 60, 70, 80});
  {
    Gate gate;
    heddle_tensor_t *filled = nullptr, *out = nullptr, *late_out = nullptr;
    CallHandle filling = start(function, {one.get(), one.get()}, &filled, &gate);
    TensorHandle tensor(filled);
    HEDDLE_ASSERT_OK(source.upload(tensor.get()));
    CallHandle reading = start(function, {tensor.get(), one.get()}, &out);
    TensorHandle sum(out);
    HEDDLE_EXPECT_FAILS(heddle_tensor_wait(tensor.get(), 20'000'000), HEDDLE_STATUS_DEADLINE_EXCEEDED,
                        "heddle: waiting for a tensor failed");
    HEDDLE_EXPECT_FAILS(heddle_call_wait(reading.get(), 0), HEDDLE_STATUS_DEADLINE_EXCEEDED, "");
    EXPECT_EQ(source.releases, 0);
    gate.is_open = true;
    HEDDLE_EXPECT_OK(heddle_call_wait(reading.get(), HEDDLE_TIMEOUT_INFINITE));
    EXPECT_EQ(read_tensor(sum), (std::vector<float>{6, 7, 8, 9}));
    EXPECT_EQ(read_tensor(tensor), (std::vector<float>{5, 6, 7, 8}));
    EXPECT_TRUE(source.released());
    // The call's own handle: its end does not make the tensor ready too early.
    HEDDLE_EXPECT_OK(heddle_call_wait(filling.get(), HEDDLE_TIMEOUT_INFINITE));
    HEDDLE_ASSERT_OK(later.upload(tensor.get()));
    CallHandle last = start(function, {tensor.get(), one.get()}, &late_out);
    EXPECT_EQ(read_tensor(TensorHandle(late_out)), (std::vector<float>{51, 61, 71, 81}));
    EXPECT_TRUE(later.released());
  }
}

TEST_P(RuntimeTensor, AFailedUploadFailsWhatUsesTheTensor) {
  if (!has_streams()) GTEST_SKIP() << "it has no streams";
  ModuleBuilder module = builder();
  add_adder(module, "add", 1);
  mf::FunctionT& function = module.add_function("breaks");
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1), ModuleBuilder::extent(1)}));
  ProgramBuilder p = program();
  const uint32_t single = p.literal(1), code = p.literal(7);
  p.dispatch("bad region", kFailing, {}, {code}, {single, single, single});
  function.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  DeviceHandle on = device();
  TensorHandle tensor = create(on, {1, 1}, {1});
  Source source({5}), again({6});
  heddle_tensor_t *out = tensor.get(), *sum = nullptr;
  float value = 0;
  {
    Gate gate;
    CallHandle breaking = start(find_function(instance, "breaks"), {}, &out, &gate);
    HEDDLE_ASSERT_OK(source.upload(tensor.get()));
    CallHandle reading = start(find_function(instance, "add"), {tensor.get(), tensor.get()}, &sum);
    TensorHandle result(sum);
    gate.is_open = true;
    HEDDLE_EXPECT_FAILS(heddle_call_wait(reading.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_INTERNAL,
                        "calling 'add' failed: an earlier call or upload that it waits for failed");
    HEDDLE_EXPECT_FAILS(heddle_tensor_read(tensor.get(), &value, 4), HEDDLE_STATUS_INTERNAL, "");
    HEDDLE_EXPECT_FAILS(heddle_tensor_wait(tensor.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_INTERNAL, "");
    EXPECT_TRUE(source.released());
    sum = nullptr;
    heddle_tensor_t* arguments[] = {tensor.get(), tensor.get()};
    HEDDLE_EXPECT_FAILS(heddle_call(find_function(instance, "add"), arguments, 2, &sum, 1), HEDDLE_STATUS_INTERNAL, "upload");
    HEDDLE_ASSERT_OK(again.upload(tensor.get()));
    EXPECT_EQ(read_tensor(tensor), std::vector<float>{6});
    EXPECT_EQ(read_tensor(call_for_one(find_function(instance, "add"), {tensor.get(), tensor.get()})), std::vector<float>{12});
  }
  EXPECT_TRUE(again.released());
  EXPECT_EQ(source.releases, 1);
}

// The order in which handles are released and the copy ends: any.
TEST_P(RuntimeTensor, HandlesMayBeReleasedBeforeTheUploadIsOver) {
  if (!has_streams()) GTEST_SKIP() << "it has no streams";
  for (int held = 0; held < 4; ++held) {
    RuntimeHandle own = open_runtime({HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS}, config());
    std::swap(runtime, own);
    Source source({5, 6, 7, 8});
    Gate gate;
    {
      ModuleBuilder module = builder();
      add_adder(module, "main", 4);
      InstanceHandle instance = open(module);
      ASSERT_NE(instance, nullptr);
      DeviceHandle on = device();
      TensorHandle one = create(on, {1, 4}, {1, 1, 1, 1});
      heddle_tensor_t* filled = nullptr;
      CallHandle filling = start(find_function(instance), {one.get(), one.get()}, &filled, &gate);
      TensorHandle tensor(filled);
      HEDDLE_ASSERT_OK(source.upload(tensor.get()));
      if (held == 0) filling.reset();
      if (held <= 1) tensor.reset();
      if (held <= 2) runtime.reset();
      gate.is_open = held != 1;
      if (held == 1) {
        runtime.reset();
        on.reset();
        std::thread opens([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          gate.is_open = true;
        });
        instance.reset();
        filling.reset();
        opens.join();
      }
    }
    EXPECT_TRUE(source.released()) << held;
    runtime.reset();
    std::swap(runtime, own);
  }
}

// The memory of a tensor that is being filled goes on to the call that takes it.
TEST_P(RuntimeTensor, ATensorMayBeDonatedWhileItIsUploaded) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  DeviceHandle on = device();
  for (int turn = 0; turn < 20; ++turn) {
    TensorHandle one = create(on, {1, 4}, {1, 1, 1, 1}), tensor = create_undefined(on, {1, 4});
    Source source({5, 6, 7, 8});
    std::unique_ptr<Gate> gate;
    CallHandle filling;
    if (has_streams() && turn % 2) {
      gate = std::make_unique<Gate>();
      heddle_tensor_t* filled = tensor.get();
      filling = start(function, {one.get(), one.get()}, &filled, gate.get());
      filling.reset();
    }
    HEDDLE_ASSERT_OK(source.upload(tensor.get()));
    heddle_tensor_t* out = nullptr;
    CallHandle taking = start(function, {tensor.get(), one.get()}, &out, nullptr, {0});
    TensorHandle sum(out);
    Source late({0, 0, 0, 0});
    HEDDLE_EXPECT_FAILS(late.upload(tensor.get()), HEDDLE_STATUS_FAILED_PRECONDITION, "uploading to a tensor failed: a call of 'main'");
    HEDDLE_EXPECT_FAILS(heddle_tensor_wait(tensor.get(), 0), HEDDLE_STATUS_FAILED_PRECONDITION, "waiting for a tensor failed");
    EXPECT_EQ(late.releases, 1);
    if (turn % 4 < 2) tensor.reset();
    if (gate) gate->is_open = true;
    EXPECT_EQ(read_tensor(sum), (std::vector<float>{6, 7, 8, 9}));
    EXPECT_TRUE(source.released());
  }
}

// The validation layer looks for memory that is freed while work uses it.
class RuntimeTensorChecked : public RuntimeTensor {
 protected:
  std::string config() const override {
    return OnDriver::config() + "[validation]\ncalls = true\n" + (has_streams() ? "[driver.\"test.streams\"]\nlatency_us = 20000\n" : "");
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeTensorChecked, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeTensorChecked, MemoryIsNotFreedBeforeTheUploadIsOver) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  DeviceHandle on = device();
  TensorHandle one = create(on, {5000, 4}, std::vector<float>(20000, 1));
  std::vector<std::unique_ptr<Source>> sources;
  std::vector<TensorHandle> sums;
  for (int turn = 0; turn < 12; ++turn) {
    TensorHandle tensor = create_undefined(on, {5000, 4});
    sources.push_back(std::make_unique<Source>(std::vector<float>(20000, static_cast<float>(turn))));
    HEDDLE_ASSERT_OK(sources.back()->upload(tensor.get()));
    if (turn % 3 == 0) continue;
    heddle_tensor_t* out = nullptr;
    start(find_function(instance), {tensor.get(), one.get()}, &out, nullptr,
          turn % 3 == 1 ? std::vector<uint32_t>{0} : std::vector<uint32_t>{});
    sums.emplace_back(out);
    if (turn % 2 == 0) {
      tensor.reset();
      EXPECT_EQ(read_tensor(sums.back())[19999], static_cast<float>(turn + 1));
    }
  }
  for (const auto& source : sources) EXPECT_TRUE(source->released());
  sums.clear();
  expect_no_violations();
}

// The call that takes the tensor ends before the upload does.
// Calls "main" with the tensor donated and a deadline after a millisecond, and waits.
Outcome donate_with_deadline(const InstanceHandle& instance, heddle_tensor_t* tensor) {
  const uint32_t donated = 0;
  heddle_call_params_t params{};
  params.struct_size = sizeof params;
  params.deadline_ns = now_ns() + 1'000'000;
  params.donated_arguments = &donated;
  params.donated_argument_count = 1;
  heddle_tensor_t* out = nullptr;
  heddle_call_t* call = nullptr;
  Outcome started(heddle_call_start(find_function(instance, "main"), &params, &tensor, 1, &out, 1, &call));
  TensorHandle result(out);
  CallHandle handle(call);
  return started.ok() ? Outcome(heddle_call_wait(call, HEDDLE_TIMEOUT_INFINITE)) : started;
}

// The donated tensor is still being filled, and the call that takes it misses its deadline before it begins.
TEST_P(RuntimeTensorChecked, ACallThatMissesItsDeadlineGivesADonatedTensorBack) {
  ModuleBuilder module = builder();
  add_looked_at(module, "main");
  mf::FunctionT& fill = module.add_function("fill");
  fill.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
  ProgramBuilder p = program();
  p.fill(ProgramBuilder::whole(p.result(0), kWrite), 5, 8);
  fill.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  int late = 0;
  for (int turn = 0; turn < 10; ++turn) {
    // Where there are streams, nothing fills it before the gate opens.
    const std::unique_ptr<Gate> gate = has_streams() ? std::make_unique<Gate>() : nullptr;
    heddle_tensor_t* made = nullptr;
    start(find_function(instance, "fill"), {}, &made, gate.get()).reset();
    TensorHandle tensor(made);
    const Outcome outcome = donate_with_deadline(instance, made);
    if (gate) gate->is_open = true;
    EXPECT_TRUE(outcome.ok() || outcome.code == HEDDLE_STATUS_DEADLINE_EXCEEDED) << outcome.message;
    int64_t value = 0;
    if (outcome.ok()) continue;
    ++late;
    HEDDLE_EXPECT_OK(heddle_tensor_read(made, &value, sizeof value));
    EXPECT_EQ(value, 5);
  }
  if (has_streams()) {
    EXPECT_NE(late, 0);
  }
  expect_no_violations();
}

TEST_P(RuntimeTensorChecked, ACallThatMissesItsDeadlineLeavesTheUploadItsMemory) {
  ModuleBuilder module = builder();
  add_looked_at(module, "main");
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  DeviceHandle on = device();
  const int64_t one = 1, value = 7;
  std::atomic<int> releases{0};
  int late = 0;
  for (int turn = 0; turn < 10; ++turn) {
    heddle_tensor_t* made = nullptr;
    HEDDLE_ASSERT_OK(heddle_tensor_create(on.get(), HEDDLE_TYPE_I64, &one, 1, nullptr, 0, &made));
    TensorHandle tensor(made);
    HEDDLE_ASSERT_OK(
        heddle_tensor_upload(made, &value, sizeof value, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &releases));
    const Outcome outcome = donate_with_deadline(instance, made);
    EXPECT_TRUE(outcome.ok() || outcome.code == HEDDLE_STATUS_DEADLINE_EXCEEDED) << outcome.message;
    late += !outcome.ok();
  }
  if (has_streams()) {
    EXPECT_NE(late, 0);
  }
  for (int i = 0; i < 20000 && releases != 10; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(releases, 10);
  expect_no_violations();
}

TEST_P(RuntimeTensor, ReleasesMemoryThatIsRefused) {
  alignas(256) static float memory[4];
  int releases = 0;
  const heddle_device_memory_t given = {
      sizeof given, 0, reinterpret_cast<uint64_t>(memory), sizeof memory, [](void* count) { ++*static_cast<int*>(count); }, &releases};
  const int64_t dims[] = {4};
  DeviceHandle on = device();
  heddle_tensor_t* made = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_tensor_import(nullptr, HEDDLE_TYPE_F32, dims, 1, &given, &made), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "device is NULL");
  EXPECT_EQ(releases, 1);
  HEDDLE_EXPECT_FAILS(heddle_tensor_from_device(nullptr, 0, HEDDLE_TYPE_F32, dims, 1, &given, &made), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "function is NULL");
  EXPECT_EQ(releases, 2);
  HEDDLE_EXPECT_FAILS(heddle_tensor_import(on.get(), HEDDLE_TYPE_F32, dims, 1, &given, nullptr), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "out_tensor is NULL");
  EXPECT_EQ(releases, 3);
  HEDDLE_EXPECT_FAILS(heddle_tensor_import(on.get(), HEDDLE_TYPE_F32, nullptr, 1, &given, &made), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "dims is NULL");
  EXPECT_EQ(releases, 4);
}

TEST_P(RuntimeTensor, ReleasesTheSourceOfAnUploadThatIsRefused) {
  DeviceHandle on = device();
  TensorHandle tensor = create(on, {1, 4}, {1, 2, 3, 4});
  Source small({1, 2, 3}), none({1, 2, 3, 4}), absent({1, 2, 3, 4});
  HEDDLE_EXPECT_FAILS(small.upload(tensor.get()), HEDDLE_STATUS_INVALID_ARGUMENT, "uploading 12 bytes to a tensor of 16 bytes failed");
  EXPECT_EQ(small.releases, 1);
  HEDDLE_EXPECT_FAILS(none.upload(nullptr), HEDDLE_STATUS_INVALID_ARGUMENT, "tensor is NULL");
  EXPECT_EQ(none.releases, 1);
  HEDDLE_EXPECT_FAILS(heddle_tensor_upload(tensor.get(), nullptr, 16, Source::release, &absent), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "bytes is NULL");
  EXPECT_EQ(absent.releases, 1);
  HEDDLE_EXPECT_FAILS(heddle_tensor_wait(nullptr, 0), HEDDLE_STATUS_INVALID_ARGUMENT, "tensor is NULL");
  if (has_streams()) {  // the driver refuses to read pages of a file
    const std::string path = folder.path("floats");
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    ASSERT_EQ(::ftruncate(file, 4096), 0);
    void* mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    std::atomic<int> releases{0};
    HEDDLE_EXPECT_FAILS(heddle_tensor_upload(
                            tensor.get(), mapped, 16, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &releases),
                        HEDDLE_STATUS_INVALID_ARGUMENT, "the source is pages of a file");
    EXPECT_EQ(releases, 1);
    ::munmap(mapped, 4096);
    ::close(file);
  }
  EXPECT_EQ(read_tensor(tensor), (std::vector<float>{1, 2, 3, 4})) << "unchanged";
}

TEST_P(RuntimeTensor, SeveralThreadsUploadAndCall) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  DeviceHandle on = device();
  std::vector<std::thread> threads;
  std::atomic<int> released{0};
  constexpr int kThreads = 4, kTurns = 50;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int turn = 0; turn < kTurns; ++turn) {
        const int64_t rows = turn % 2 ? 1 : 5000;
        const auto value = static_cast<float>(thread * kTurns + turn);
        TensorHandle tensor = create_undefined(on, {rows, 4});
        struct Values {
          std::vector<float> values;
          std::atomic<int>* released;
        };
        auto* values = new Values{std::vector<float>(static_cast<size_t>(rows) * 4, value), &released};
        HEDDLE_EXPECT_OK(heddle_tensor_upload(
            tensor.get(), values->values.data(), values->values.size() * sizeof(float),
            [](void* context) {
              auto* of = static_cast<Values*>(context);
              ++*of->released;
              delete of;
            },
            values));
        if (turn % 5 == 4) continue;  // released while it is copied
        TensorHandle sum = call_for_one(function, {tensor.get(), tensor.get()});
        EXPECT_EQ(read_tensor(sum), std::vector<float>(static_cast<size_t>(rows) * 4, 2 * value));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 20000 && released != kThreads * kTurns; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(released, kThreads * kTurns);
}

TEST_P(RuntimeTensor, ALostDeviceAnswersSoAndIsOpenedAgain) {
  if (!has_streams()) GTEST_SKIP() << "devices of the CPU are never lost";
  ModuleBuilder module = builder();
  add_adder(module, "add", 4);
  mf::FunctionT& lose = module.add_function("lose");
  lose.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32));
  ProgramBuilder p = program();
  uint32_t single = p.literal(1), code = p.literal(66);
  p.dispatch("deadly region", kFailing, {}, {code}, {single, single, single});
  lose.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  DeviceHandle on = device();
  TensorHandle tensor = create(on, {1, 4}, {1, 2, 3, 4});
  Source pending({5, 6, 7, 8}), late({5, 6, 7, 8});
  heddle_tensor_t* out = nullptr;
  {
    Gate gate;
    heddle_tensor_t *arguments[] = {tensor.get(), tensor.get()}, *filled = nullptr;
    CallHandle filling = start(find_function(instance, "add"), {arguments[0], arguments[1]}, &filled, &gate);
    TensorHandle result(filled);
    HEDDLE_ASSERT_OK(pending.upload(result.get()));
    // On one stream with what waits for the gate, or on another one, so before or after it opens.
    const CallHandle losing = start(find_function(instance, "lose"), {}, &out);
    const TensorHandle lost(std::exchange(out, nullptr));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.is_open = true;
    HEDDLE_EXPECT_FAILS(heddle_call_wait(losing.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_DEVICE_LOST, "");
    float values[4];
    HEDDLE_EXPECT_FAILS(heddle_tensor_read(result.get(), values, sizeof values), HEDDLE_STATUS_DEVICE_LOST, "");
    EXPECT_TRUE(pending.released());
  }
  const int64_t dims[] = {1, 4};
  HEDDLE_EXPECT_FAILS(heddle_tensor_create(on.get(), HEDDLE_TYPE_F32, dims, 2, nullptr, 0, &out), HEDDLE_STATUS_DEVICE_LOST, "");
  HEDDLE_EXPECT_FAILS(late.upload(tensor.get()), HEDDLE_STATUS_DEVICE_LOST, "");
  EXPECT_EQ(late.releases, 1);
  DeviceHandle again = device();
  EXPECT_NE(again.get(), on.get());
  EXPECT_EQ(read_tensor(create(again, {1, 4}, {1, 2, 3, 4})), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(pending.releases, 1);
}

}  // namespace
}  // namespace heddle::testing
