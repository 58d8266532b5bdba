// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies between two devices of one driver: straight, staged, or not at all, as [[link]] asks; what is in order with them; and what breaks.
#include "core_two_devices.h"

namespace heddle::testing {
namespace {

class RuntimePeers : public OverTwoDevices {
 protected:
  // Two aliases of two devices of the driver, with that p2p between them.
  void open_peers(const std::string& driver, const std::string& p2p, const std::string& stream_options = "") {
    const std::string config =
        "version = 1\n[plugins.probe]\n\"heddle.cpu\" = \"in-process\"\n\"test.streams\" = \"in-process\"\n"
        "[driver.\"heddle.cpu\"]\ndevice_count = 2\n[driver.\"test.streams\"]\ndevice_count = 2\n" +
        stream_options + "[log]\nlevel = \"error\"\n[device.left]\ndriver = \"" + driver +
        "\"\nselect = { ordinal = 0 }\n[device.right]\ndriver = \"" + driver +
        "\"\nselect = { ordinal = 1 }\n[device.other]\ndriver = \"heddle.cpu\"\nselect = { ordinal = 0 }\n" +
        (p2p.empty() ? "" : "[[link]]\nbetween = [\"right\", \"left\"]\np2p = \"" + p2p + "\"\n");
    runtime = open_runtime({HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS}, config);
    ASSERT_NE(runtime, nullptr);
  }
  static uint64_t counted(const InstanceHandle& instance, const std::string& name) {
    const std::string text = instance_report(instance, "statistics"), key = "\"" + name + "\": ";
    const size_t at = text.find(key);
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? 0 : std::stoull(text.substr(at + key.size()));
  }
  static std::vector<float> numbers(size_t count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = 0.1f * static_cast<float>(i % 9973) - 300;
    return values;
  }
};

// Through host memory and straight: the same bits, and each way is the one that was asked for.
TEST_F(RuntimePeers, EveryModeGivesTheSameBits) {
  for (const char* driver : {"test.streams", "heddle.cpu"}) {
    std::vector<float> first;
    for (const char* p2p : {"off", "auto", "require", ""}) {
      SCOPED_TRACE(std::string(driver) + " " + p2p);
      open_peers(driver, p2p);
      ModuleBuilder module = builder();
      add_round_trip(module, (int64_t{5} << 20) / 4 + 3);
      InstanceHandle instance = open(module, "left", "right");
      ASSERT_NE(instance, nullptr);
      heddle_function_t* round = find_function(instance, "round");
      const std::vector<float> values = numbers((size_t{5} << 20) / 4 + 3);
      TensorHandle a = make_tensor<float>(round, 0, {static_cast<int64_t>(values.size())}, values);
      const std::vector<float> out = read_tensor(call_for_one(round, {a.get()}));
      if (first.empty()) {
        first = out;
        for (size_t i = 0; i < out.size(); i += 997) ASSERT_EQ(out[i], 4 * values[i]);
      }
      EXPECT_EQ(out, first);
      const bool straight = std::string(p2p) != "off";
      EXPECT_EQ(counted(instance, "device_crossings"), 2u);
      EXPECT_EQ(counted(instance, "peer_copies"), straight ? 2u : 0u);
      const std::string route = instance_report(instance, "route");
      EXPECT_NE(route.find(straight ? "\"copies\": \"direct\"" : "\"copies\": \"staged\""), std::string::npos) << route;
      EXPECT_EQ(route.find("p2p = \\\"off\\\" at <text>:") == std::string::npos, straight) << route;
    }
  }
}

// What the source does next overwrites what is copied, what the target does next reads it; values of several turns, one behind the other.
TEST_F(RuntimePeers, WorkOnBothSidesIsInOrderWithTheCopy) {
  for (const char* p2p : {"off", "auto"}) {
    open_peers("test.streams", p2p, "latency_us = 2000\n");
    ModuleBuilder module = builder();
    mf::FunctionT& function = module.add_function("turns");
    constexpr int64_t kElements = 3000;
    function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(kElements)}));
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(kElements)}));
    ProgramBuilder p = program();
    uint32_t all = p.literal(kElements), one = p.literal(1), size = p.literal(kElements * 4);
    uint32_t here = p.transient(size), there = p.transient(size), sum = p.transient(size), back = p.transient(size);
    auto add = [&](uint32_t from, uint32_t with, uint32_t to, uint32_t slot) {
      p.dispatch("add", kAdd,
                 {ProgramBuilder::whole(from, kRead), ProgramBuilder::whole(with, kRead), ProgramBuilder::whole(to, kReadWrite)},
                 {all, all}, {one, one, one}, slot);
      p.barrier();
    };
    auto copy = [&](uint32_t from, uint32_t to) {
      p.copy(ProgramBuilder::whole(from, kRead), ProgramBuilder::whole(to, kWrite));
      p.barrier();
    };
    copy(p.argument(0), here);
    copy(here, there);
    add(there, there, sum, 1);  // 2a
    for (int turn = 0; turn < 3; ++turn) {
      add(here, here, here, 0);  // 2a, 4a, 8a: as soon as the last copy has read it
      copy(here, there);         // over what the sum has read
      add(there, sum, sum, 1);   // 4a, 8a, 16a
    }
    copy(sum, back);
    add(back, here, p.result(0), 0);  // 24a
    function.programs.push_back(p.finish());
    InstanceHandle instance = open(module, "left", "right");
    ASSERT_NE(instance, nullptr);
    heddle_function_t* turns = find_function(instance, "turns");
    const std::vector<float> values = numbers(kElements);
    TensorHandle a = make_tensor<float>(turns, 0, {kElements}, values);
    std::vector<CallHandle> calls;
    std::vector<TensorHandle> results(4);
    for (TensorHandle& result : results) calls.push_back(start(turns, {a.get()}, &result));
    std::vector<float> expected(values);
    for (float& value : expected) value = 8 * value + 16 * value;
    for (const TensorHandle& result : results) EXPECT_EQ(read_tensor(result), expected) << p2p;
    EXPECT_EQ(counted(instance, "peer_copies"), std::string(p2p) == "off" ? 0u : 4u * 5u);
  }
}

// The target is still at work on the bytes that the copy takes the place of.
TEST_F(RuntimePeers, ACopyWaitsForItsTarget) {
  open_peers("test.streams", "require", "latency_us = 0\n");
  ModuleBuilder module = builder();
  mf::FunctionT& function = module.add_function("late");
  function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(64)}));
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(64)}, HEDDLE_TYPE_F32, 1));
  ProgramBuilder p = program();
  uint32_t all = p.literal(64), one = p.literal(1), size = p.literal(256), spins = p.literal(1000);
  uint32_t there = p.transient(size), busy = p.transient(size);
  p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(there, kWrite));
  p.barrier();
  p.dispatch("busy", kSlowly, {ProgramBuilder::whole(busy, kWrite)}, {spins}, {one, one, one}, 1);
  p.barrier();
  p.dispatch("twice", kAdd,
             {ProgramBuilder::whole(there, kRead), ProgramBuilder::whole(there, kRead), ProgramBuilder::whole(p.result(0), kWrite)},
             {all, all}, {one, one, one}, 1);
  p.barrier();
  uint32_t next = p.transient(size);
  p.dispatch("next", kSlowly, {ProgramBuilder::whole(next, kWrite)}, {one}, {one, one, one}, 0);
  p.barrier();
  p.copy(ProgramBuilder::whole(next, kRead), ProgramBuilder::whole(there, kWrite));
  p.barrier();
  p.dispatch("keep", kSlowly, {ProgramBuilder::whole(there, kReadWrite)}, {one}, {one, one, one}, 1);
  function.programs.push_back(p.finish());
  InstanceHandle instance = open(module, "left", "right");
  ASSERT_NE(instance, nullptr);
  heddle_function_t* late = find_function(instance, "late");
  TensorHandle a = make_tensor<float>(late, 0, {64}, std::vector<float>(64, 2.0f));
  EXPECT_EQ(read_tensor(call_for_one(late, {a.get()})), std::vector<float>(64, 4.0f));
  EXPECT_EQ(counted(instance, "peer_copies"), 2u);
}

// What a device passes on has arrived there: round by a third device, whose copies the first one's driver does not see.
TEST_F(RuntimePeers, BytesThatArePassedOnHaveArrived) {
  runtime = open_runtime({HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS},
                         "version = 1\n[plugins.probe]\n\"test.streams\" = \"in-process\"\n[driver.\"test.streams\"]\ndevice_count = 3\n"
                         "latency_us = 5000\n");
  ASSERT_NE(runtime, nullptr);
  ModuleBuilder module("cpu", {"@a", "@b", "@c"});
  module.add_kernels(HEDDLE_TEST_KERNELS);
  mf::FunctionT& function = module.add_function("round");
  function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(64)}));
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(64)}));
  ProgramBuilder p({"cpu", "cpu", "cpu"});
  uint32_t all = p.literal(64), one = p.literal(1), size = p.literal(256);
  uint32_t places[3] = {p.transient(size), p.transient(size), p.transient(size)};
  uint32_t at_b = p.transient(size), at_c = p.transient(size), at_a = p.transient(size);
  auto add = [&](const char* name, uint32_t with, uint32_t to, uint32_t slot) {
    p.dispatch(name, kAdd, {ProgramBuilder::whole(with, kRead), ProgramBuilder::whole(with, kRead), ProgramBuilder::whole(to, kWrite)},
               {all, all}, {one, one, one}, slot);
    p.barrier();
  };
  auto copy = [&](uint32_t from, uint32_t to) {
    p.copy(ProgramBuilder::whole(from, kRead), ProgramBuilder::whole(to, kWrite));
    p.barrier();
  };
  // What fixes each transient's device is its first use in a dispatch.
  add("a", p.argument(0), places[0], 0);
  copy(places[0], at_b);
  copy(at_b, at_c);
  copy(at_c, at_a);
  add("b", at_b, places[1], 1);
  add("c", at_c, places[2], 2);
  add("out", at_a, p.result(0), 0);
  function.programs.push_back(p.finish());
  std::string path = folder.path("round.heddle");
  ASSERT_EQ(module.write(path), "");
  ModuleHandle opened = open_module(runtime.get(), path);
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(
      create_instance(opened.get(), {{"@a", "test.streams:0"}, {"@b", "test.streams:1"}, {"@c", "test.streams:2"}}, &instance));
  heddle_function_t* round = find_function(instance, "round");
  for (float value : {1.0f, 2.0f, 3.0f, 4.0f}) {
    TensorHandle a = make_tensor<float>(round, 0, {64}, std::vector<float>(64, value));
    EXPECT_EQ(read_tensor(call_for_one(round, {a.get()})), std::vector<float>(64, 4 * value));
  }
  EXPECT_EQ(counted(instance, "peer_copies"), 4u * 3u);
}

TEST_F(RuntimePeers, RequireFailsWithTheReason) {
  ModuleBuilder module = builder();
  add_round_trip(module, 8);
  InstanceHandle instance;
  open_peers("test.streams", "require", "peer = false\n");
  HEDDLE_EXPECT_FAILS(try_open(module, "left", "right", &instance), HEDDLE_STATUS_UNAVAILABLE,
                      "route: copying from device 'left' directly to device 'right', as p2p = \"require\" at <text>:");
  HEDDLE_EXPECT_FAILS(try_open(module, "left", "right", &instance), HEDDLE_STATUS_UNAVAILABLE,
                      "failed: test.streams does not copy between its devices (it has no HEDDLE_TRANSFER_PEER); write \"auto\"");
  // What does not use both devices of the link does not care.
  EXPECT_NE(open(module, "left", "other"), nullptr);
  EXPECT_NE(open(module, "left", "left"), nullptr);
  // With "auto" the same is staged, and the route says why.
  open_peers("test.streams", "auto", "peer = false\n");
  instance = open(module, "left", "right");
  ASSERT_NE(instance, nullptr);
  EXPECT_NE(instance_report(instance, "route").find("it has no HEDDLE_TRANSFER_PEER"), std::string::npos);
}

TEST_F(RuntimePeers, DevicesOfTwoDriversAreStaged) {
  open_peers("test.streams", "auto");
  ModuleBuilder module = builder();
  add_round_trip(module, 100);
  InstanceHandle instance = open(module, "left", "other");
  ASSERT_NE(instance, nullptr);
  EXPECT_NE(instance_report(instance, "route").find("they are devices of two drivers, test.streams and heddle.cpu"), std::string::npos);
  heddle_function_t* round = find_function(instance, "round");
  TensorHandle a = make_tensor<float>(round, 0, {100}, std::vector<float>(100, 2.0f));
  EXPECT_EQ(read_tensor(call_for_one(round, {a.get()})), std::vector<float>(100, 8.0f));
  EXPECT_EQ(counted(instance, "peer_copies"), 0u);
}

// A parameter that is mapped on the CPU goes to a GPU as a copy of its bytes.
TEST_F(RuntimePeers, PagesOfAFileGoToNoOtherDevice) {
  open_peers("test.streams", "auto", "pins = true\n[param_io]\nmethod = [\"mmap\"]\n");
  const std::vector<float> values = numbers((size_t{9} << 20) / 4);  // pieces of 4 MiB, and a part of one
  const auto count = static_cast<int64_t>(values.size());
  ModuleBuilder module = builder();
  const uint32_t parameter = module.add_parameter("", "w", {count}, std::as_bytes(std::span(values)));
  const uint32_t global = module.add_global("w", mf::GlobalKind::Parameter, values.size() * 4, parameter);
  mf::FunctionT& function = module.add_function("send");
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(count)}, HEDDLE_TYPE_F32, 1));
  ProgramBuilder p = program();
  p.copy(ProgramBuilder::whole(p.global(global), kRead), ProgramBuilder::whole(p.result(0), kWrite));
  function.programs.push_back(p.finish());
  InstanceHandle instance = open(module, "other", "left");
  ASSERT_NE(instance, nullptr);
  EXPECT_EQ(counted(instance, "bytes_mapped"), values.size() * 4);
  heddle_function_t* send = find_function(instance, "send");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(read_tensor(call_for_one(send, {})), values);
}

// A driver that says it copies and then does not: staged with "auto", an error with "require".
TEST_F(RuntimePeers, ADriverThatTakesItBack) {
  ModuleBuilder module = builder();
  add_round_trip(module, 100);
  for (const char* p2p : {"auto", "require"}) {
    open_peers("test.streams", p2p, "peer_fault = 4\n");
    InstanceHandle instance = open(module, "left", "right");
    ASSERT_NE(instance, nullptr);
    heddle_function_t* round = find_function(instance, "round");
    TensorHandle a = make_tensor<float>(round, 0, {100}, std::vector<float>(100, 2.0f));
    heddle_tensor_t* out = nullptr;
    heddle_tensor_t* arguments[] = {a.get()};
    Outcome outcome(heddle_call(round, arguments, 1, &out, 1));
    TensorHandle result(out);
    if (std::string(p2p) == "auto") {
      ASSERT_TRUE(outcome.ok()) << outcome.message;
      EXPECT_EQ(read_tensor(result), std::vector<float>(100, 8.0f));
    } else {
      EXPECT_EQ(outcome.code, HEDDLE_STATUS_UNIMPLEMENTED);
      EXPECT_NE(outcome.message.find("copying 400 bytes from device 'left' directly to device 'right'"), std::string::npos)
          << outcome.message;
    }
    EXPECT_EQ(counted(instance, "peer_copies"), 0u);
  }
}

// A copy that breaks is its call's failure, and poisons nothing else.
TEST_F(RuntimePeers, ABrokenCopyFailsItsCall) {
  open_peers("test.streams", "auto", "peer_fault = 1\nlatency_us = 1000\n");
  ModuleBuilder module = builder();
  add_round_trip(module, 100);
  add_slow(module, "elsewhere", 1, 0);
  mf::FunctionT& alone = module.add_function("alone");
  alone.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32));
  ProgramBuilder p = program();
  uint32_t one = p.literal(1);
  p.dispatch("alone", kSlowly, {ProgramBuilder::whole(p.result(0), kWrite)}, {one}, {one, one, one});
  alone.programs.push_back(p.finish());
  InstanceHandle instance = open(module, "left", "right");
  ASSERT_NE(instance, nullptr);
  heddle_function_t* round = find_function(instance, "round");
  TensorHandle a = make_tensor<float>(round, 0, {100}, std::vector<float>(100, 2.0f));
  for (int turn = 0; turn < 5; ++turn) {
    TensorHandle out;
    CallHandle call = start(round, {a.get()}, &out);
    HEDDLE_EXPECT_FAILS(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_INTERNAL, "the link broke");
    float value = 0;
    HEDDLE_EXPECT_FAILS(heddle_tensor_read(out.get(), &value, 4), HEDDLE_STATUS_INTERNAL, "");
    heddle_tensor_t* made = nullptr;
    HEDDLE_EXPECT_FAILS(heddle_call(find_function(instance, "elsewhere"), nullptr, 0, &made, 1), HEDDLE_STATUS_INTERNAL, "the link broke");
    EXPECT_EQ(read_tensor<uint32_t>(call_for_one(find_function(instance, "alone"), {})), std::vector<uint32_t>{1});
  }
}

// The device of the queue is lost with the copy; or the other one, which its own driver tells as soon as it is asked. The one that is left works.
TEST_F(RuntimePeers, ALossOfEitherDeviceIsThatDevices) {
  for (const int fault : {2, 3}) {
    SCOPED_TRACE(fault);
    open_peers("test.streams", "auto", "own_contexts = true\npeer_fault = " + std::to_string(fault) + "\n");
    ModuleBuilder module = builder();
    add_round_trip(module, 100);
    add_slow(module, "on_left", 1, 1);
    InstanceHandle instance = open(module, "left", "right");
    ASSERT_NE(instance, nullptr);
    heddle_function_t* round = find_function(instance, "round");
    TensorHandle a = make_tensor<float>(round, 0, {100}, std::vector<float>(100, 2.0f));
    heddle_tensor_t* out = nullptr;
    heddle_tensor_t* arguments[] = {a.get()};
    HEDDLE_EXPECT_FAILS(heddle_call(round, arguments, 1, &out, 1), fault == 2 ? HEDDLE_STATUS_DEVICE_LOST : HEDDLE_STATUS_UNAVAILABLE,
                        fault == 2 ? "on device 0" : "device 1, the other one, is lost");
    // Again: the lost one is left, the other one took no harm. From right to left everything is lost that touches the lost one.
    HEDDLE_EXPECT_FAILS(heddle_call(find_function(instance, "on_left"), nullptr, 0, &out, 1), HEDDLE_STATUS_DEVICE_LOST,
                        fault == 2 ? "on device 0" : "on device 1");
    // Opened anew, a module on the device that was not lost runs, and so does one on both until its copy.
    ModuleBuilder again = builder();
    mf::FunctionT& alone = again.add_function("alone");
    alone.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32));
    ProgramBuilder p = program();
    uint32_t one = p.literal(1);
    p.dispatch("alone", kSlowly, {ProgramBuilder::whole(p.result(0), kWrite)}, {one}, {one, one, one});
    alone.programs.push_back(p.finish());
    const char* left = fault == 2 ? "right" : "left";
    InstanceHandle rest = OverTwoDevices::open(again, left, left);
    ASSERT_NE(rest, nullptr);
    EXPECT_EQ(read_tensor<uint32_t>(call_for_one(find_function(rest, "alone"), {})), std::vector<uint32_t>{1});
    InstanceHandle reopened = OverTwoDevices::open(again, "left", "right");
    ASSERT_NE(reopened, nullptr);
    EXPECT_EQ(read_tensor<uint32_t>(call_for_one(find_function(reopened, "alone"), {})), std::vector<uint32_t>{1});
  }
}

}  // namespace
}  // namespace heddle::testing
