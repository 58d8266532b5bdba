// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Broken rules, lost devices and settings of the stand-in for a Level Zero driver. Each scenario runs in a process of its own, since settings are read
// once and a lost device stays lost.
#include <sys/wait.h>

#include <cstring>
#include <functional>
#include <iostream>
#include <map>

#include "tests/level_zero/session.h"

namespace heddle::level_zero_stand_in {
namespace {

constexpr uint64_t kForever = UINT64_MAX;
const ze_group_count_t kOne = {1, 1, 1};

std::map<std::string, std::function<void()>>& scenarios() {
  static std::map<std::string, std::function<void()>> all;
  return all;
}
struct Scenario {
  Scenario(const char* name, std::function<void()> run) { scenarios()[name] = std::move(run); }
};
#define SCENARIO(name)                                      \
  void scenario_##name();                                   \
  const Scenario registered_##name(#name, scenario_##name); \
  void scenario_##name()

struct Outcome {
  int status = 0;
  std::string text;
  bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
  // A segmentation fault, which a sanitizer reports itself.
  bool is_fault() const { return status == -SIGSEGV || has("Sanitizer: SEGV") || has("Sanitizer:DEADLYSIGNAL"); }
};
std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << "status " << outcome.status << ": " << outcome.text;
}

// What a scenario says on its outputs, with these settings: "HEDDLE_ZE_SEED=3 ...".
Outcome run(const std::string& scenario, const std::string& environment = "") {
  const std::string command =
      "exec env -u GTEST_OUTPUT " + environment + " /proc/" + std::to_string(getpid()) + "/exe --scenario " + scenario + " 2>&1";
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("starting a child process failed");
  char part[4096];
  size_t n = 0;
  while ((n = fread(part, 1, sizeof part, pipe)) > 0) outcome.text.append(part, n);
  const int status = pclose(pipe);
  outcome.status = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  return outcome;
}

#define EXPECT_BROKEN(scenario, part)                                          \
  do {                                                                         \
    const Outcome outcome = run(scenario);                                     \
    EXPECT_TRUE(outcome.has("broken rule: ") && outcome.has(part)) << outcome; \
    EXPECT_TRUE(outcome.has("is lost")) << outcome;                            \
    EXPECT_EQ(outcome.status, 0) << outcome;                                   \
  } while (false)

void expect(ze_result_t result, ze_result_t wanted, const char* what) {
  if (result == wanted) return;
  char text[64];
  snprintf(text, sizeof text, " gave %#x, not %#x", static_cast<unsigned>(result), static_cast<unsigned>(wanted));
  throw std::runtime_error(what + std::string(text));
}
#define WANT(call, wanted) expect(call, wanted, #call)

// Orders.

// Ten steps of which each needs the one before, without anything that orders them.
SCENARIO(race) {
  Session s;
  float* x = s.host_memory(64);
  std::fill_n(x, 64, 1.0F);
  auto step = s.kernel("step");
  auto list = s.immediate();
  auto done = s.event();
  float wanted = 1;
  for (int i = 0; i < 10; ++i) {
    set(step, 0, x);
    set(step, 1, static_cast<float>(i));
    MUST(zeCommandListAppendLaunchKernel(list, step, &kOne, nullptr, 0, nullptr));
    wanted = wanted * static_cast<float>(i) + 1;
  }
  MUST(zeCommandListAppendBarrier(list, done, 0, nullptr));
  MUST(zeEventHostSynchronize(done, kForever));
  std::cout << (x[0] == wanted ? "right" : "wrong");
}

// The same with events between.
SCENARIO(chain) {
  Session s;
  float* x = s.host_memory(64);
  std::fill_n(x, 64, 1.0F);
  auto step = s.kernel("step");
  ze_command_list_handle_t lists[] = {s.immediate(), s.immediate()};
  std::vector<ze_event_handle_t> events;
  float wanted = 1;
  for (int i = 0; i < 10; ++i) {
    set(step, 0, x);
    set(step, 1, static_cast<float>(i));
    events.push_back(s.event());
    MUST(zeCommandListAppendLaunchKernel(lists[i % 2], step, &kOne, events[i], i == 0 ? 0 : 1, i == 0 ? nullptr : &events[i - 1]));
    wanted = wanted * static_cast<float>(i) + 1;
  }
  MUST(zeEventHostSynchronize(events.back(), kForever));
  std::cout << (x[0] == wanted ? "right" : "wrong");
}

// An event that is appended after a copy says nothing of the copy.
SCENARIO(signal_without_barrier) {
  Session s;
  constexpr size_t n = 1 << 14;
  float *from = s.host_memory(n), *to = s.host_memory(n);
  std::fill_n(from, n, 1.0F);
  auto list = s.immediate();
  auto done = s.event(), all = s.event();
  bool right = true;
  for (int i = 0; i < 16; ++i) {
    std::fill_n(to, n, 0.0F);
    MUST(zeEventHostReset(done));
    MUST(zeEventHostReset(all));
    MUST(zeCommandListAppendMemoryCopy(list, to, from, n * 4, all, 0, nullptr));
    MUST(zeCommandListAppendSignalEvent(list, done));
    MUST(zeEventHostSynchronize(done, kForever));
    right = right && to[n - 1] == 1;
    MUST(zeEventHostSynchronize(all, kForever));
  }
  std::cout << (right ? "right" : "wrong");
}

// Memory that a copy reads is changed before the copy has ended.
SCENARIO(staging_reused) {
  Session s;
  constexpr size_t n = 1 << 14;
  float *from = s.host_memory(n), *to = s.host_memory(n);
  auto list = s.immediate();
  auto done = s.event();
  bool right = true;
  for (int i = 0; i < 16; ++i) {
    std::fill_n(from, n, 1.0F);
    MUST(zeEventHostReset(done));
    MUST(zeCommandListAppendMemoryCopy(list, to, from, n * 4, done, 0, nullptr));
    std::fill_n(from, n, 2.0F);
    MUST(zeEventHostSynchronize(done, kForever));
    right = right && to[0] == 1 && to[n - 1] == 1;
  }
  std::cout << (right ? "right" : "wrong");
}

int count_wrong(const std::string& scenario, int seeds) {
  int wrong = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    const Outcome outcome = run(scenario, "HEDDLE_ZE_SEED=" + std::to_string(seed));
    EXPECT_TRUE(outcome.status == 0 && (outcome.has("right") || outcome.has("wrong"))) << outcome;
    wrong += outcome.has("wrong");
  }
  return wrong;
}

TEST(LevelZeroOrder, WhatNothingOrdersIsReordered) {
  EXPECT_GE(count_wrong("race", 3), 2);
  EXPECT_EQ(run("race", "HEDDLE_ZE_SEED=0").text, "right");
}

TEST(LevelZeroOrder, EventsOrder) {
  EXPECT_EQ(count_wrong("chain", 3), 0);
}

TEST(LevelZeroOrder, ASignalWaitsForNothing) {
  EXPECT_GE(count_wrong("signal_without_barrier", 3), 2);
}

TEST(LevelZeroOrder, StagingIsReadLate) {
  EXPECT_GE(count_wrong("staging_reused", 3), 2);
}

// Broken rules.

SCENARIO(freed_early) {
  Session s;
  float *from = s.host_memory(64), *to = s.host_memory(64);
  auto list = s.immediate();
  hook<decltype(heddle_level_zero_hold)>("heddle_level_zero_hold")(true);
  MUST(zeCommandListAppendMemoryCopy(list, to, from, 256, nullptr, 0, nullptr));
  s.forget(from);
  MUST(zeMemFree(s.context, from));
  WANT(zeCommandListAppendMemoryCopy(list, to, from, 256, nullptr, 0, nullptr), ZE_RESULT_ERROR_DEVICE_LOST);
}

SCENARIO(argument_missing) {
  Session s;
  auto add = s.kernel("add");
  set(add, 0, s.device_memory(64));
  auto list = s.immediate();
  WANT(zeCommandListAppendLaunchKernel(list, add, &kOne, nullptr, 0, nullptr), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

SCENARIO(pageable) {
  Session s;
  std::vector<float> here(64);
  auto list = s.immediate();
  WANT(zeCommandListAppendMemoryCopy(list, s.device_memory(64), here.data(), 256, nullptr, 0, nullptr), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

SCENARIO(copy_too_long) {
  Session s;
  auto list = s.immediate();
  WANT(zeCommandListAppendMemoryCopy(list, s.device_memory(64), s.host_memory(63), 256, nullptr, 0, nullptr),
       ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

SCENARIO(other_device) {
  Session s;
  const ze_device_mem_alloc_desc_t desc = {ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
  void* there = nullptr;
  MUST(zeMemAllocDevice(s.context, &desc, 256, 0, all_devices()[1], &there));
  ze_bool_t reaches = 1;
  MUST(zeDeviceCanAccessPeer(s.device, all_devices()[1], &reaches));
  std::cout << "peer " << int{reaches} << "\n";
  auto list = s.immediate(ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
  WANT(zeCommandListAppendMemoryCopy(list, s.device_memory(64), there, 256, nullptr, 0, nullptr),
       reaches ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT);
  MUST(zeMemFree(s.context, there));
}

SCENARIO(event_destroyed) {
  Session s;
  auto event = s.event();
  auto list = s.immediate();
  MUST(zeCommandListAppendWaitOnEvents(list, 1, &event));
  s.forget_event(event);
  MUST(zeEventDestroy(event));
}

SCENARIO(list_reset) {
  Session s;
  auto event = s.event();
  auto queue = s.queue();
  auto list = s.list();
  MUST(zeCommandListAppendWaitOnEvents(list, 1, &event));
  MUST(zeCommandListClose(list));
  MUST(zeCommandQueueExecuteCommandLists(queue, 1, &list, nullptr));
  MUST(zeCommandListReset(list));
}

SCENARIO(list_open) {
  Session s;
  auto queue = s.queue();
  auto list = s.list();
  MUST(zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  WANT(zeCommandQueueExecuteCommandLists(queue, 1, &list, nullptr), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

SCENARIO(kernel_on_copy_queue) {
  Session s;
  auto step = s.kernel("step");
  set(step, 0, s.device_memory(64));
  set(step, 1, 1.0F);
  auto list = s.immediate(ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS, 1);
  WANT(zeCommandListAppendLaunchKernel(list, step, &kOne, nullptr, 0, nullptr), ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE);
}

SCENARIO(local_memory) {
  Session s;
  auto reverse = s.kernel("reverse");
  set(reverse, 0, s.device_memory(64));
  MUST(zeKernelSetArgumentValue(reverse, 1, 70000, nullptr));
  auto list = s.immediate();
  WANT(zeCommandListAppendLaunchKernel(list, reverse, &kOne, nullptr, 0, nullptr), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
}

SCENARIO(event_not_visible) {
  Session s;
  auto event = s.event(0);
  WANT(zeEventQueryStatus(event), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

TEST(LevelZeroRules, EachBrokenRuleIsReported) {
  EXPECT_BROKEN("freed_early", "memory of 256 bytes is freed before the copy of 256 bytes");
  EXPECT_BROKEN("argument_missing", "argument 1 is not set");
  EXPECT_BROKEN("pageable", "the source of a copy: 256 bytes at");
  EXPECT_BROKEN("copy_too_long", "end after the allocation of 252 bytes");
  EXPECT_BROKEN("event_destroyed", "an event is destroyed before");
  EXPECT_BROKEN("list_reset", "a command list is reset before");
  EXPECT_BROKEN("list_open", "is not closed");
  EXPECT_BROKEN("kernel_on_copy_queue", "a queue that only copies");
  EXPECT_BROKEN("local_memory", "it needs 70000 bytes of local memory; a workgroup has 65536");
  EXPECT_BROKEN("event_not_visible", "whose pool is not visible");
}

TEST(LevelZeroRules, EndTheProcessOnRequest) {
  const Outcome outcome = run("pageable", "HEDDLE_ZE_ABORT=1");
  EXPECT_EQ(outcome.status, -SIGABRT) << outcome;
  EXPECT_TRUE(run("pageable", "HEDDLE_ZE_PAGEABLE=1").has("gave 0, not 0x78000004"));  // the copy is accepted
}

// The parameter validation of the loader is on: it refuses these before the stand-in sees them. Its check of lifetimes does nothing in version 1.8.12; the
// stand-in's own finds uses of destroyed objects.
SCENARIO(layers) {
  Session s;
  WANT(zeEventQueryStatus(nullptr), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
  const ze_host_mem_alloc_desc_t desc = {ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, nullptr, 0};
  WANT(zeMemAllocHost(s.context, &desc, 256, 0, nullptr), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
  void* memory = nullptr;
  WANT(zeMemAllocHost(s.context, &desc, 0, 0, &memory), ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
}

SCENARIO(destroyed_event) {
  Session s;
  auto event = s.event();
  s.forget_event(event);
  MUST(zeEventDestroy(event));
  WANT(zeEventQueryStatus(event), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

TEST(LevelZeroRules, TheLoadersLayersAreOn) {
  const Outcome outcome = run("layers");
  EXPECT_EQ(outcome.status, 0) << outcome;
  EXPECT_FALSE(outcome.has("broken rule")) << outcome;
  EXPECT_BROKEN("destroyed_event", "a destroyed event is used");
}

// Memory.

SCENARIO(host_reads_device) {
  Session s;
  std::cout << "before\n" << std::flush;
  std::cout << *static_cast<volatile float*>(s.device_memory(64));
}

SCENARIO(kernel_writes_too_far) {
  Session s;
  auto step = s.kernel("step");
  set(step, 0, s.device_memory(64 * 3));
  set(step, 1, 1.0F);
  auto list = s.immediate(ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
  const ze_group_count_t many = {4, 1, 1};
  std::cout << "before\n" << std::flush;
  MUST(zeCommandListAppendLaunchKernel(list, step, &many, nullptr, 0, nullptr));
}

SCENARIO(fresh_memory) {
  Session s;
  const float* x = s.host_memory(3);
  std::cout << (x[0] != x[0] && x[2] != x[2] ? "poisoned" : "clean");
}

TEST(LevelZeroMemory, OutOfBoundsIsAFault) {
  for (const char* scenario : {"host_reads_device", "kernel_writes_too_far"}) {
    const Outcome outcome = run(scenario);
    EXPECT_TRUE(outcome.is_fault()) << scenario << outcome;
    EXPECT_TRUE(outcome.has("before")) << outcome;
  }
  EXPECT_EQ(run("host_reads_device", "HEDDLE_ZE_PROTECT=0").status, 0);
  EXPECT_EQ(run("fresh_memory").text, "poisoned");
}

// Losses.

SCENARIO(lost) {
  Session s;
  float* x = s.host_memory(64);
  auto step = s.kernel("step");
  set(step, 0, x);
  set(step, 1, 1.0F);
  auto list = s.immediate();
  auto done = s.event();
  for (int i = 0; i < 5; ++i) {
    const ze_result_t result = zeCommandListAppendLaunchKernel(list, step, &kOne, nullptr, 0, nullptr);
    if (result != ZE_RESULT_ERROR_DEVICE_LOST) MUST(result);
  }
  if (getenv("HEDDLE_ZE_LOSE_AFTER") == nullptr) hook<decltype(heddle_level_zero_lose)>("heddle_level_zero_lose")(0);
  const ze_result_t result = zeCommandListAppendBarrier(list, done, 0, nullptr);
  if (result == ZE_RESULT_SUCCESS) {
    WANT(zeEventHostSynchronize(done, kForever), ZE_RESULT_ERROR_DEVICE_LOST);
  } else {
    WANT(result, ZE_RESULT_ERROR_DEVICE_LOST);
  }
  WANT(zeDeviceGetStatus(s.device), ZE_RESULT_ERROR_DEVICE_LOST);
  WANT(zeCommandListAppendBarrier(list, nullptr, 0, nullptr), ZE_RESULT_ERROR_DEVICE_LOST);
  std::cout << "commands " << hook<decltype(heddle_level_zero_commands)>("heddle_level_zero_commands")(0) << "\n";
}

TEST(LevelZeroLoss, EndsWaits) {
  Outcome outcome = run("lost", "HEDDLE_ZE_LOSE_AFTER=3");
  EXPECT_EQ(outcome.status, 0) << outcome;
  EXPECT_TRUE(outcome.has("commands 3\n")) << outcome;
  EXPECT_FALSE(outcome.has("broken rule")) << outcome;
  outcome = run("lost");
  EXPECT_EQ(outcome.status, 0) << outcome;
  EXPECT_FALSE(outcome.has("broken rule")) << outcome;
}

// Devices.

SCENARIO(list_devices) {
  for (ze_device_handle_t device : all_devices()) {
    ze_device_properties_t p = {};
    p.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
    MUST(zeDeviceGetProperties(device, &p));
    ze_pci_ext_properties_t pci = {};
    pci.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES;
    MUST(zeDevicePciGetPropertiesExt(device, &pci));
    uint32_t parts = 0;
    MUST(zeDeviceGetSubDevices(device, &parts, nullptr));
    std::cout << "bus " << pci.address.bus - 0x3a << " uuid " << int{p.uuid.id[8]} << "." << int{p.uuid.id[15]} << " parts " << parts
              << " GiB " << (p.maxMemAllocSize >> 29) << "; ";
  }
}

TEST(LevelZeroDevices, AreAsTheSettingsSay) {
  EXPECT_EQ(run("list_devices").text, "bus 0 uuid 1.0 parts 0 GiB 4; ");
  EXPECT_EQ(run("list_devices", "HEDDLE_ZE_DEVICES=0").text, "");
  EXPECT_EQ(run("list_devices", "HEDDLE_ZE_DEVICES=2 HEDDLE_ZE_SUB_DEVICES=2").text,
            "bus 0 uuid 1.0 parts 2 GiB 4; bus 1 uuid 2.0 parts 2 GiB 4; ");
  EXPECT_EQ(run("list_devices", "HEDDLE_ZE_SUB_DEVICES=2 ZE_FLAT_DEVICE_HIERARCHY=FLAT").text,
            "bus 0 uuid 1.1 parts 0 GiB 2; bus 0 uuid 1.2 parts 0 GiB 2; ");
  EXPECT_EQ(run("list_devices", "HEDDLE_ZE_DEVICES=3 ZE_AFFINITY_MASK=2").text, "bus 2 uuid 3.0 parts 0 GiB 4; ");
  EXPECT_EQ(run("list_devices", "HEDDLE_ZE_DEVICES=2 HEDDLE_ZE_SUB_DEVICES=2 ZE_AFFINITY_MASK=0,1.1").text,
            "bus 0 uuid 1.0 parts 2 GiB 4; bus 1 uuid 2.2 parts 0 GiB 2; ");
  const Outcome failed = run("list_devices", "HEDDLE_ZE_INIT_RESULT=0x78000001");
  EXPECT_TRUE(failed.status == 3 && failed.has("zeInit(0) gave 0x78000001")) << failed;
  const Outcome wrong = run("list_devices", "HEDDLE_ZE_DEVICES=two");
  EXPECT_TRUE(wrong.status == -SIGABRT && wrong.has("'two' is not a number up to 16")) << wrong;
}

TEST(LevelZeroDevices, ReachPeersOnlyIfTheyMay) {
  const Outcome may = run("other_device", "HEDDLE_ZE_DEVICES=2");
  EXPECT_TRUE(may.status == 0 && may.has("peer 1") && !may.has("broken rule")) << may;
  const Outcome not_peers = run("other_device", "HEDDLE_ZE_DEVICES=2 HEDDLE_ZE_PEERS=0");
  EXPECT_TRUE(not_peers.has("peer 0") && not_peers.has("are memory of device 1, which is no peer")) << not_peers;
}

}  // namespace

// Runs the scenario of that name in this process. 3: it failed.
int run_scenario(const char* name) {
  try {
    scenarios().at(name)();
    return 0;
  } catch (const std::exception& error) {
    std::cout << error.what() << std::endl;
    return 3;
  }
}

}  // namespace heddle::level_zero_stand_in

int main(int count, char** words) {
  if (count == 3 && std::string(words[1]) == "--scenario") return heddle::level_zero_stand_in::run_scenario(words[2]);
  testing::InitGoogleTest(&count, words);
  return RUN_ALL_TESTS();
}
