// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments that the caller gives up, and results in the memory of arguments, on every driver.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "../streams/application.h"
#include "core_drivers.h"

namespace heddle::testing {
namespace {

class RuntimeDonation : public OnDriver {
 protected:
  static constexpr int64_t kWidth = 1024;
  static constexpr const char* kTaken = "a call of 'main' (input 'x') took it; use what that call returned, or donate a copy [HD-F-02]";

  // y = x + b; `in_place`: y takes the memory of x.
  static void add_sum(ModuleBuilder& module, ProgramBuilder p, const std::string& name, bool in_place, int64_t spins = 0) {
    mf::FunctionT& function = module.add_function(name);
    for (const char* argument : {"x", "b"}) function.arguments.push_back(ModuleBuilder::type(argument, {ModuleBuilder::extent(kWidth)}));
    function.results.push_back(ModuleBuilder::type("y", {ModuleBuilder::extent(kWidth)}));
    if (in_place) {
      function.donations = std::make_unique<mf::DonationsT>();
      function.donations->all.emplace_back(0, 0);
    }
    uint32_t width = p.literal(kWidth), one = p.literal(1);
    if (spins != 0) {
      uint32_t pauses = p.literal(spins), waited = p.transient(width);
      uint32_t first = p.dispatch("wait", kSlowly, {ProgramBuilder::whole(waited, kWrite)}, {pauses}, {one, one, one});
      p.lives(waited, first, first);
      p.barrier();
    }
    p.dispatch("add", kAdd,
               {ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.argument(1), kRead),
                ProgramBuilder::whole(p.result(0), kWrite)},
               {width, width}, {one, one, one});
    function.programs.push_back(p.finish());
  }
  // y = x + 2 b, where x + b is written over x.
  static void add_over_argument(ModuleBuilder& module, ProgramBuilder p) {
    mf::FunctionT& function = module.add_function("over");
    for (const char* argument : {"x", "b"}) function.arguments.push_back(ModuleBuilder::type(argument, {ModuleBuilder::extent(kWidth)}));
    function.results.push_back(ModuleBuilder::type("y", {ModuleBuilder::extent(kWidth)}));
    function.donations = std::make_unique<mf::DonationsT>();
    function.donations->all.emplace_back(0, -1);
    const uint32_t width = p.literal(kWidth), one = p.literal(1);
    for (uint32_t to : {p.argument(0), p.result(0)}) {
      p.dispatch(
          "add", kAdd,
          {ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.argument(1), kRead), ProgramBuilder::whole(to, kWrite)},
          {width, width}, {one, one, one});
      p.barrier();
    }
    function.programs.push_back(p.finish());
  }
  void SetUp() override {
    OnDriver::SetUp();
    if (IsSkipped()) return;
    runtime = open_runtime({HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS}, config() + "[validation]\ncalls = true\n");
    ModuleBuilder module = builder();
    add_sum(module, program(), "main", true);
    add_sum(module, program(), "plain", false);
    add_sum(module, program(), "slow", false, 2000);
    add_over_argument(module, program());
    instance_ = open(module);
    ASSERT_NE(instance_, nullptr);
    main_ = find_function(instance_, "main");
    plain_ = find_function(instance_, "plain");
    b_ = floats(1);
  }
  void TearDown() override {
    if (!IsSkipped()) expect_no_violations();
  }
  TensorHandle floats(float value) const { return make_tensor<float>(main_, 0, {kWidth}, std::vector<float>(kWidth, value)); }
  static std::vector<float> all(float value) { return std::vector<float>(kWidth, value); }
  // Starts a call whose arguments `donated` are taken.
  heddle_status_t* start(heddle_function_t* function, heddle_tensor_t* x, std::vector<uint32_t> donated, TensorHandle* result,
                         CallHandle* out, uint64_t deadline_ns = 0) {
    heddle_call_params_t params{};
    params.struct_size = sizeof(params);
    params.donated_arguments = donated.data();
    params.donated_argument_count = static_cast<uint32_t>(donated.size());
    params.deadline_ns = deadline_ns;
    heddle_tensor_t *arguments[] = {x, b_.get()}, *made = result->get();
    heddle_call_t* call = nullptr;
    heddle_status_t* status = heddle_call_start(function, &params, arguments, 2, &made, 1, &call);
    if (made != result->get()) result->reset(made);
    out->reset(call);
    return status;
  }
  heddle_status_t* donate(heddle_function_t* function, heddle_tensor_t* x, TensorHandle* result) {
    CallHandle call;
    heddle_status_t* status = start(function, x, {0}, result, &call);
    return status ? status : heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE);
  }
  // A tensor over memory of the application; `releases` counts.
  TensorHandle over(float* memory, int* releases, uint32_t flags = 0) const {
    heddle_device_memory_t given = {
        sizeof given, flags, reinterpret_cast<uint64_t>(memory), kWidth * sizeof(float), [](void* count) { ++*static_cast<int*>(count); },
        releases};
    const int64_t dims[] = {kWidth};
    heddle_tensor_t* made = nullptr;
    HEDDLE_EXPECT_OK(heddle_tensor_from_device(main_, 0, HEDDLE_TYPE_F32, dims, 1, &given, &made));
    return TensorHandle(made);
  }
  // Bytes of tensors on the device.
  uint64_t live() const { return nlohmann::json::parse(instance_report(instance_, "statistics"))["devices"][0]["pool"]["requested"]; }
  static void expect_taken(heddle_tensor_t* tensor, const char* taken = kTaken) {
    std::vector<float> values(kWidth);
    HEDDLE_EXPECT_FAILS(heddle_tensor_read(tensor, values.data(), kWidth * sizeof(float)), HEDDLE_STATUS_FAILED_PRECONDITION, taken);
    HEDDLE_EXPECT_FAILS(heddle_tensor_write(tensor, values.data(), kWidth * sizeof(float)), HEDDLE_STATUS_FAILED_PRECONDITION, taken);
    uint64_t address = 0;
    HEDDLE_EXPECT_FAILS(heddle_tensor_address(tensor, &address), HEDDLE_STATUS_FAILED_PRECONDITION, taken);
    EXPECT_EQ(heddle_tensor_size(tensor), kWidth * sizeof(float));
    EXPECT_EQ(heddle_tensor_dims(tensor)[0], kWidth);
  }

  InstanceHandle instance_;
  heddle_function_t *main_ = nullptr, *plain_ = nullptr;
  TensorHandle b_;
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeDonation, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeDonation, TheTypesTellIt) {
  heddle_tensor_type_t type{};
  type.struct_size = sizeof(type);
  HEDDLE_ASSERT_OK(heddle_function_argument(main_, 0, &type));
  EXPECT_EQ(type.flags, HEDDLE_TENSOR_TYPE_CONSUMED | HEDDLE_TENSOR_TYPE_ALIASED);
  EXPECT_EQ(type.alias, 0u);
  HEDDLE_ASSERT_OK(heddle_function_argument(main_, 1, &type));
  EXPECT_EQ(type.flags, 0u);
  HEDDLE_ASSERT_OK(heddle_function_result(main_, 0, &type));
  EXPECT_EQ(type.flags, HEDDLE_TENSOR_TYPE_ALIASED);
  HEDDLE_ASSERT_OK(heddle_function_result(plain_, 0, &type));
  EXPECT_EQ(type.flags, 0u);
}

TEST_P(RuntimeDonation, ABorrowedArgumentStaysAsItIs) {
  TensorHandle x = floats(5);
  for (int round = 0; round < 5; ++round) {
    TensorHandle y = call_for_one(main_, {x.get(), b_.get()});
    ASSERT_NE(y, nullptr);
    EXPECT_EQ(read_tensor(y), all(6));
    EXPECT_EQ(read_tensor(x), all(5));
    // Into a tensor of the caller's, which is the copy then.
    TensorHandle given = floats(0);
    heddle_tensor_t *arguments[] = {x.get(), b_.get()}, *result = given.get();
    HEDDLE_ASSERT_OK(heddle_call(main_, arguments, 2, &result, 1));
    EXPECT_EQ(read_tensor(given), all(6));
    EXPECT_EQ(read_tensor(x), all(5));
    // One tensor for both.
    EXPECT_EQ(read_tensor(call_for_one(main_, {x.get(), x.get()})), all(10));
  }
}

TEST_P(RuntimeDonation, ADonatedArgumentBecomesTheResult) {
  TensorHandle x = floats(5), y;
  uint64_t before = 0, after = 0;
  const bool has_address = heddle_tensor_address(x.get(), &before) == nullptr;
  HEDDLE_ASSERT_OK(donate(main_, x.get(), &y));  // frames exist from here on
  if (has_address) {
    HEDDLE_ASSERT_OK(heddle_tensor_address(y.get(), &after));
    EXPECT_EQ(before, after);
  }
  EXPECT_EQ(read_tensor(y), all(6));
  expect_taken(x.get());
  // As an argument of either kind, donated again, and for a result.
  heddle_tensor_t *arguments[] = {x.get(), b_.get()}, *result = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_call(plain_, arguments, 2, &result, 1), HEDDLE_STATUS_FAILED_PRECONDITION, kTaken);
  TensorHandle none;
  HEDDLE_EXPECT_FAILS(donate(main_, x.get(), &none), HEDDLE_STATUS_FAILED_PRECONDITION, kTaken);
  heddle_tensor_t *others[] = {y.get(), b_.get()}, *given = x.get();
  HEDDLE_EXPECT_FAILS(heddle_call(plain_, others, 2, &given, 1), HEDDLE_STATUS_FAILED_PRECONDITION, kTaken);
}

TEST_P(RuntimeDonation, AChainStaysInOneTensor) {
  TensorHandle x = floats(0);
  TensorHandle y;
  HEDDLE_ASSERT_OK(donate(main_, x.get(), &y));
  const uint64_t bytes = live();
  for (int i = 1; i < 300; ++i) {
    x = std::move(y);
    HEDDLE_ASSERT_OK(donate(main_, x.get(), &y));
    if (i % 50 != 0) continue;
    EXPECT_EQ(live(), bytes) << i;
  }
  EXPECT_EQ(read_tensor(y), all(300));
}

// No call is waited for before the next one is started.
TEST_P(RuntimeDonation, AChainOfStartedCallsStaysInOneTensor) {
  std::vector<CallHandle> calls(64);
  TensorHandle x = floats(0), y;
  const uint64_t bytes = live();
  for (int round = 0; round < 4; ++round) {
    for (CallHandle& call : calls) {
      HEDDLE_ASSERT_OK(start(main_, x.get(), {0}, &y, &call));
      x = std::move(y);
    }
    EXPECT_EQ(live(), bytes) << round;
    for (CallHandle& call : calls) HEDDLE_ASSERT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
  }
  EXPECT_EQ(read_tensor(x), all(256));
}

TEST_P(RuntimeDonation, AResultInPlaceStaysTheCallers) {
  TensorHandle x = floats(5);
  heddle_tensor_t *arguments[] = {x.get(), b_.get()}, *result = x.get();
  for (int i = 1; i <= 10; ++i) {
    HEDDLE_ASSERT_OK(heddle_call(main_, arguments, 2, &result, 1));
    EXPECT_EQ(read_tensor(x), all(5.f + static_cast<float>(i)));
  }
  EXPECT_EQ(result, x.get());
  HEDDLE_EXPECT_FAILS(heddle_call(plain_, arguments, 2, &result, 1), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "is also argument 'x'; pass another one, or none for a new tensor; compile the model with --alias");
  heddle_tensor_t* both[] = {x.get(), x.get()};
  HEDDLE_EXPECT_FAILS(heddle_call(main_, both, 2, &result, 1), HEDDLE_STATUS_INVALID_ARGUMENT, "is also argument 'x'");
  result = b_.get();
  HEDDLE_EXPECT_FAILS(heddle_call(main_, arguments, 2, &result, 1), HEDDLE_STATUS_INVALID_ARGUMENT, "is also argument 'b'");
  EXPECT_EQ(read_tensor(x), all(15));
}

TEST_P(RuntimeDonation, ACallThatDoesNotBeginTakesNothing) {
  TensorHandle x = floats(5), y;
  CallHandle call;
  HEDDLE_EXPECT_FAILS(start(main_, x.get(), {2}, &y, &call), HEDDLE_STATUS_OUT_OF_RANGE, "argument 2 is to be donated, and it takes 2");
  HEDDLE_EXPECT_FAILS(start(main_, x.get(), {0, 0}, &y, &call), HEDDLE_STATUS_INVALID_ARGUMENT, "input 'x' is donated twice");
  HEDDLE_EXPECT_FAILS(start(main_, b_.get(), {0}, &y, &call), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "the tensor that is donated as input 'x' is also input 'b'");
  TensorHandle wrong = make_tensor<float>(main_, 0, {2}, {1, 2});
  HEDDLE_EXPECT_FAILS(start(main_, x.get(), {0}, &wrong, &call), HEDDLE_STATUS_INVALID_ARGUMENT, "result 'y' is f32[1024]");
  EXPECT_EQ(read_tensor(x), all(5));
  HEDDLE_EXPECT_FAILS(start(plain_, x.get(), {0}, &wrong, &call), HEDDLE_STATUS_INVALID_ARGUMENT, "result 'y' is f32[1024]");
  EXPECT_EQ(read_tensor(x), all(5));
  heddle_call_params_t params{};
  params.struct_size = sizeof(params);
  params.donated_argument_count = 1;
  heddle_tensor_t *arguments[] = {x.get(), b_.get()}, *result = nullptr;
  heddle_call_t* none = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_call_start(main_, &params, arguments, 2, &result, 1, &none), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "donated_arguments");
  // The deadline has passed.
  heddle_status_t* late = start(main_, x.get(), {0}, &y, &call, 1);
  if (late) {
    EXPECT_EQ(read_tensor(x), all(5));
  }
  HEDDLE_EXPECT_FAILS(late ? late : heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_DEADLINE_EXCEEDED, "deadline");
}

// The other users keep what they see, and the call gets a copy.
TEST_P(RuntimeDonation, ATensorWithOtherUsersIsCopied) {
  TensorHandle x = floats(5), y, slow_result;
  CallHandle reader;
  HEDDLE_ASSERT_OK(start(find_function(instance_, "slow"), x.get(), {}, &slow_result, &reader));
  HEDDLE_ASSERT_OK(donate(main_, x.get(), &y));
  EXPECT_EQ(read_tensor(y), all(6));
  expect_taken(x.get());
  EXPECT_EQ(read_tensor(slow_result), all(6));
  HEDDLE_EXPECT_OK(heddle_call_wait(reader.get(), HEDDLE_TIMEOUT_INFINITE));

  TensorHandle shared = floats(7), second(heddle_tensor_retain(shared.get()));
  HEDDLE_ASSERT_OK(donate(main_, shared.get(), &y));
  EXPECT_EQ(read_tensor(y), all(8));
  expect_taken(second.get());
}

// The stream fills x late. Borrowed, x is copied after that; donated, y is in the memory of the application.
TEST_P(RuntimeDonation, ArgumentsThatAStreamFills) {
  if (std::string(GetParam().name) != "Streams") GTEST_SKIP() << "it has no streams";
  alignas(256) static float memory[kWidth];
  const test::ApplicationMemory known(memory, sizeof memory);
  test::ApplicationStream stream;
  for (bool donates : {false, true}) {
    std::fill_n(memory, kWidth, -1000.f);
    heddle_device_memory_t given = {sizeof given, 0, reinterpret_cast<uint64_t>(memory), sizeof memory, nullptr, nullptr};
    const int64_t dims[] = {kWidth};
    heddle_tensor_t* made = nullptr;
    HEDDLE_ASSERT_OK(heddle_tensor_from_device(main_, 0, HEDDLE_TYPE_F32, dims, 1, &given, &made));
    TensorHandle x(made), y;
    stream.enqueue([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::fill_n(memory, kWidth, 5.f);
    });
    heddle_call_params_t params{};
    params.struct_size = sizeof(params);
    params.flags = HEDDLE_CALL_NATIVE_STREAM;
    params.native_stream = stream.native();
    const uint32_t donated = 0;
    params.donated_arguments = &donated;
    params.donated_argument_count = donates ? 1 : 0;
    heddle_tensor_t *arguments[] = {x.get(), b_.get()}, *result = nullptr;
    heddle_call_t* call = nullptr;
    HEDDLE_ASSERT_OK(heddle_call_start(main_, &params, arguments, 2, &result, 1, &call));
    y.reset(result);
    CallHandle kept(call);
    HEDDLE_EXPECT_OK(heddle_call_wait(call, HEDDLE_TIMEOUT_INFINITE));
    stream.synchronize();
    EXPECT_EQ(read_tensor(y), all(6));
    EXPECT_EQ(memory[kWidth - 1], donates ? 6.f : 5.f);
  }
  instance_.reset();  // and with it the queue over the stream
}

// The result of a donated tensor is in the application's memory, which nothing uses after it was released.
TEST_P(RuntimeDonation, MemoryOfTheApplicationIsNotUsedOnceItIsReleased) {
  alignas(256) static float memory[kWidth];
  const test::ApplicationMemory known(memory, sizeof memory);
  int releases = 0;
  for (heddle_function_t* function : {main_, plain_}) {
    std::fill_n(memory, kWidth, 5.f);
    releases = 0;
    TensorHandle x = over(memory, &releases), y;
    ASSERT_NE(x, nullptr);
    HEDDLE_ASSERT_OK(donate(function, x.get(), &y));
    EXPECT_EQ(read_tensor(y), all(6));
    EXPECT_EQ(releases, function == main_ ? 0 : 1);
    y.reset();
    EXPECT_EQ(releases, 1) << "the handle of x is still held";
    std::fill_n(memory, kWidth, 7.f);
    for (int i = 0; i < 20; ++i) {
      TensorHandle other = floats(1), result;
      HEDDLE_ASSERT_OK(donate(function, other.get(), &result));
    }
    EXPECT_EQ(std::count(memory, memory + kWidth, 7.f), kWidth);
  }
}

TEST_P(RuntimeDonation, ConsumableMemoryIsOverwrittenAgainAndAgain) {
  alignas(256) static float memory[2 * kWidth];
  const test::ApplicationMemory known(memory, sizeof memory);
  int releases = 0;
  TensorHandle x = over(memory, &releases, HEDDLE_DEVICE_MEMORY_CONSUMABLE), borrowed = over(memory, &releases),
               shifted = over(memory + kWidth / 2, &releases);
  uint64_t address = 0;
  if (heddle_status_t* unknown = heddle_tensor_address(x.get(), &address)) {
    heddle_status_free(unknown);
    GTEST_SKIP() << "the driver does not provide addresses";
  }
  heddle_function_t* function = find_function(instance_, "over");
  auto call = [&](heddle_tensor_t* first, heddle_tensor_t* second) {
    std::fill_n(memory, 2 * kWidth, 5.f);
    TensorHandle y = call_for_one(function, {first, second});
    return y ? read_tensor(y) : std::vector<float>();
  };
  const uint64_t before = live();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(call(x.get(), b_.get()), all(7));
    EXPECT_EQ(std::count(memory, memory + kWidth, 6.f), kWidth) << "no copy was made";
  }
  EXPECT_EQ(live(), before);
  EXPECT_EQ(call(borrowed.get(), b_.get()), all(7));
  EXPECT_EQ(std::count(memory, memory + kWidth, 5.f), kWidth);
  // What another argument shares stays as it is.
  for (heddle_tensor_t* other : {x.get(), borrowed.get(), shifted.get()}) {
    EXPECT_EQ(call(x.get(), other), all(15));
    EXPECT_EQ(std::count(memory, memory + 2 * kWidth, 5.f), 2 * kWidth);
  }
  // A result takes the memory of an argument only if it is passed for both.
  std::fill_n(memory, kWidth, 5.f);
  EXPECT_EQ(read_tensor(call_for_one(main_, {x.get(), b_.get()})), all(6));
  EXPECT_EQ(std::count(memory, memory + kWidth, 5.f), kWidth);
  EXPECT_EQ(releases, 0);
}

// As for one tensor in two places.
TEST_P(RuntimeDonation, TensorsThatOverlapAreRefused) {
  alignas(256) static float memory[2 * kWidth];
  const test::ApplicationMemory known(memory, sizeof memory);
  std::fill_n(memory, 2 * kWidth, 5.f);
  int releases = 0;
  TensorHandle x = over(memory, &releases), shifted = over(memory + kWidth / 2, &releases), beside = over(memory + kWidth, &releases),
               again = over(memory, &releases);
  uint64_t address = 0;
  if (heddle_status_t* unknown = heddle_tensor_address(x.get(), &address)) {
    heddle_status_free(unknown);
    GTEST_SKIP() << "the driver does not provide addresses";
  }
  auto call = [&](heddle_function_t* function, heddle_tensor_t* first, heddle_tensor_t* second, heddle_tensor_t* result) {
    heddle_tensor_t* arguments[] = {first, second};
    return heddle_call(function, arguments, 2, &result, 1);
  };
  for (heddle_function_t* function : {main_, plain_}) {
    for (heddle_tensor_t* other : {shifted.get(), again.get()}) {
      HEDDLE_EXPECT_FAILS(call(function, x.get(), b_.get(), other), HEDDLE_STATUS_INVALID_ARGUMENT,
                          "result 'y' is to be written to a tensor that overlaps argument 'x'; pass another one");
      HEDDLE_EXPECT_FAILS(call(function, b_.get(), x.get(), other), HEDDLE_STATUS_INVALID_ARGUMENT, "overlaps argument 'b'");
    }
  }
  HEDDLE_EXPECT_FAILS(call(main_, x.get(), shifted.get(), x.get()), HEDDLE_STATUS_INVALID_ARGUMENT, "overlaps argument 'b'");
  TensorHandle none;
  b_.swap(shifted);
  HEDDLE_EXPECT_FAILS(donate(main_, x.get(), &none), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "the tensor that is donated as input 'x' is also input 'b', or overlaps it");
  b_.swap(shifted);
  EXPECT_EQ(std::count(memory, memory + 2 * kWidth, 5.f), 2 * kWidth);
  // Memory next to it, arguments that overlap, and one tensor for both.
  HEDDLE_EXPECT_OK(call(plain_, x.get(), again.get(), beside.get()));
  EXPECT_EQ(read_tensor(beside), all(10));
  HEDDLE_EXPECT_OK(call(main_, x.get(), beside.get(), x.get()));
  EXPECT_EQ(read_tensor(again), all(15));
}

TEST_P(RuntimeDonation, ADonationThatBroughtNothingIsLogged) {
  TensorHandle x = floats(5), y, second(heddle_tensor_retain(x.get()));
  ::testing::internal::CaptureStderr();
  heddle_status_t* status = donate(main_, x.get(), &y);
  std::string log = ::testing::internal::GetCapturedStderr();
  HEDDLE_EXPECT_OK(status);
  EXPECT_NE(log.find("donating input 'x' of 'main' saved nothing: its 4096 bytes are copied, since the tensor has other users"), log.npos)
      << log;
  x = floats(5);
  ::testing::internal::CaptureStderr();
  status = donate(plain_, x.get(), &y);
  log = ::testing::internal::GetCapturedStderr();
  HEDDLE_EXPECT_OK(status);
  EXPECT_NE(log.find("donating input 'x' of 'plain' saved nothing: its 4096 bytes are not overwritten"), log.npos) << log;
  x = floats(5);
  y.reset();
  ::testing::internal::CaptureStderr();
  status = donate(main_, x.get(), &y);
  log = ::testing::internal::GetCapturedStderr();
  HEDDLE_EXPECT_OK(status);
  EXPECT_EQ(log, "");
}

TEST_P(RuntimeDonation, OtherDonatedMemoryIsFreedAfterTheCall) {
  TensorHandle x = floats(5), y;
  HEDDLE_ASSERT_OK(donate(plain_, x.get(), &y));
  EXPECT_EQ(read_tensor(y), all(6));
  expect_taken(x.get(), "a call of 'plain' (input 'x') took it");
  const uint64_t bytes = live();
  TensorHandle z, again = floats(7);
  EXPECT_GE(live(), bytes + kWidth * sizeof(float));
  HEDDLE_ASSERT_OK(donate(plain_, again.get(), &z));
  EXPECT_EQ(live(), bytes + kWidth * sizeof(float)) << "one more result, and no argument";
}

// Calls in pieces, on one number.
class RuntimeDonationInPieces : public OnDriver {
 protected:
  std::string config() const override { return OnDriver::config() + "[validation]\ncalls = true\n"; }
  void SetUp() override {
    OnDriver::SetUp();
    if (IsSkipped()) return;
    ModuleBuilder module = builder();
    add_make(module, "make", 8000);
    add_make(module, "make soon", 50);
    add_looked_at(module, "look");
    mf::FunctionT& copy = module.add_function("copy");
    copy.arguments.push_back(ModuleBuilder::type("n", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    copy.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    ProgramBuilder p = program();
    p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.result(0), kWrite));
    copy.programs.push_back(p.finish());
    instance = open(module);
    ASSERT_NE(instance, nullptr);
  }
  void TearDown() override {
    if (!IsSkipped()) expect_no_violations();
  }
  // Returns 5, late.
  void add_make(ModuleBuilder& module, const std::string& name, int64_t spins) const {
    mf::FunctionT& make = module.add_function(name);
    make.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    ProgramBuilder p = program();
    const uint32_t one = p.literal(1), waited = p.transient(p.literal(4));
    const uint32_t at = p.dispatch("wait", kSlowly, {ProgramBuilder::whole(waited, kWrite)}, {p.literal(spins)}, {one, one, one});
    p.lives(waited, at, at);
    p.barrier();
    p.fill(ProgramBuilder::whole(p.result(0), kWrite), 5, 8);
    make.programs.push_back(p.finish());
  }
  CallHandle start(const char* name, std::vector<heddle_tensor_t*> arguments, TensorHandle* result, bool donates = false,
                   uint64_t deadline_ns = 0) {
    const uint32_t first = 0;
    heddle_call_params_t params{};
    params.struct_size = sizeof(params);
    params.donated_arguments = &first;
    params.donated_argument_count = donates ? 1 : 0;
    params.deadline_ns = deadline_ns;
    heddle_tensor_t* made = result->get();
    heddle_call_t* call = nullptr;
    HEDDLE_EXPECT_OK(heddle_call_start(find_function(instance, name), &params, arguments.data(), static_cast<uint32_t>(arguments.size()),
                                       &made, 1, &call));
    if (made != result->get()) result->reset(made);
    return CallHandle(call);
  }
  InstanceHandle instance;
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeDonationInPieces, ::testing::ValuesIn(kDrivers), driver_name);

// The call that fills the donated tensor has not begun, so it looks for that tensor's memory later.
TEST_P(RuntimeDonationInPieces, WhatAnotherCallFillsLater) {
  TensorHandle n, out, given = make_tensor<int64_t>(find_function(instance, "look"), 0, {1}, {99}, HEDDLE_TYPE_I64);
  CallHandle making = start("make", {}, &n), filling = start("look", {n.get()}, &given), last = start("copy", {given.get()}, &out, true);
  EXPECT_EQ(read_tensor<int64_t>(out), std::vector<int64_t>{5});
  HEDDLE_EXPECT_OK(heddle_call_wait(filling.get(), HEDDLE_TIMEOUT_INFINITE));
  HEDDLE_EXPECT_OK(heddle_call_wait(last.get(), HEDDLE_TIMEOUT_INFINITE));
}

TEST_P(RuntimeDonationInPieces, WhatAPlanThatWaitsFillsLater) {
  TensorHandle n, out, between, given = make_tensor<int64_t>(find_function(instance, "look"), 0, {1}, {99}, HEDDLE_TYPE_I64);
  CallHandle making = start("make", {}, &n), filling = start("look", {n.get()}, &given), copying = start("copy", {given.get()}, &between);
  CallHandle last = start("copy", {between.get()}, &out, true);
  EXPECT_EQ(read_tensor<int64_t>(out), std::vector<int64_t>{5});
  HEDDLE_EXPECT_OK(heddle_call_wait(copying.get(), HEDDLE_TIMEOUT_INFINITE));
}

TEST_P(RuntimeDonationInPieces, IsGivenBackBeforeAnyoneWhoWaitsGoesOn) {
  std::atomic<int> late{0};
  for (int turn = 0; turn < 200; ++turn) {
    TensorHandle n, out;
    CallHandle making = start("make soon", {}, &n), call = start("look", {n.get()}, &out, true, now_ns() + 500'000);
    const auto wait = [&] {
      const Outcome outcome(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
      if (outcome.message.find("nothing was enqueued") == std::string::npos) return;
      ++late;
      HEDDLE_EXPECT_OK(heddle_tensor_wait(n.get(), HEDDLE_TIMEOUT_INFINITE));
    };
    std::thread other(wait);
    wait();
    other.join();
  }
  RecordProperty("late", late);
}

// An upload or a write after a call that ended early comes after the work that still filled the tensor.
TEST_P(RuntimeDonationInPieces, AGivenResultIsWaitedForAlthoughTheDeadlinePassed) {
  for (const bool uploads : {true, false}) {
    TensorHandle n = make_tensor<int64_t>(find_function(instance, "look"), 0, {1}, {0}, HEDDLE_TYPE_I64);
    TensorHandle given = make_tensor<int64_t>(find_function(instance, "look"), 0, {1}, {0}, HEDDLE_TYPE_I64);
    const int64_t first = 7, second = 9;
    CallHandle filling = start("make", {}, &given);
    if (uploads) {
      HEDDLE_ASSERT_OK(heddle_tensor_upload(given.get(), &first, 8, nullptr, nullptr));
    }
    CallHandle late = start("look", {n.get()}, &given, false, now_ns() + 1'000'000);
    HEDDLE_EXPECT_FAILS(heddle_call_wait(late.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_DEADLINE_EXCEEDED, "");
    HEDDLE_ASSERT_OK(uploads ? heddle_tensor_upload(given.get(), &second, 8, nullptr, nullptr)
                             : heddle_tensor_write(given.get(), &second, 8));
    HEDDLE_EXPECT_OK(heddle_tensor_wait(given.get(), HEDDLE_TIMEOUT_INFINITE));
    HEDDLE_EXPECT_OK(heddle_call_wait(filling.get(), HEDDLE_TIMEOUT_INFINITE));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(read_tensor<int64_t>(given), std::vector<int64_t>{9}) << uploads;
  }
}

}  // namespace
}  // namespace heddle::testing
