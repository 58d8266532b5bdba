// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls while the host has no memory left, on every driver: each allocation of a call fails in turn. What comes back says so or is the result, nobody
// waits for ever, what a device still writes to stays, and counts are right. A program of its own: it replaces operator new.
#include <link.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "../streams/application.h"
#include "core_two_devices.h"

namespace {
// Of this thread: how many more allocations succeed before one fails.
constexpr uint64_t kEndless = std::numeric_limits<uint64_t>::max();
thread_local uint64_t left = kEndless;
// Of the core, in any thread: how many more succeed before one fails, or all do. Drivers and their threads are not asked for that.
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
std::atomic<int64_t> left_in_core{kNever};
std::atomic<bool> all_fail{false};

struct Core {
  uintptr_t begin = 0, end = 0;
  Core() {
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* core) {
          if (!std::strstr(info->dlpi_name, "/libheddle.so")) return 0;
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const ElfW(Phdr)& part = info->dlpi_phdr[i];
            if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
            static_cast<Core*>(core)->begin = info->dlpi_addr + part.p_vaddr;
            static_cast<Core*>(core)->end = info->dlpi_addr + part.p_vaddr + part.p_memsz;
          }
          return 1;
        },
        this);
  }
};

bool fails_in_core(const void* caller) noexcept {
  if (left_in_core.load(std::memory_order_relaxed) == kNever) return false;
  static const Core core;
  if (const auto at = reinterpret_cast<uintptr_t>(caller); at < core.begin || at >= core.end) return false;
  const int64_t before = left_in_core.fetch_sub(1, std::memory_order_relaxed);
  return before == 0 || (before < 0 && all_fail.load(std::memory_order_relaxed));
}

void* allocate(std::size_t size, const void* caller) noexcept {
  if (fails_in_core(caller)) return nullptr;
  if (left != kEndless && left-- == 0) {
    left = kEndless;
    return nullptr;
  }
  return std::malloc(size ? size : 1);
}
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* memory = allocate(size, __builtin_return_address(0))) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, __builtin_return_address(0));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace heddle::testing {
namespace {

class RuntimeExhausted : public OnDriver {
 protected:
  void SetUp() override {
    OnDriver::SetUp();
    if (IsSkipped()) return;
    ModuleBuilder module = builder();
    add_adder(module, "add", 4);
    mf::FunctionT& slow = module.add_function("slow");
    slow.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32));
    ProgramBuilder p = program();
    uint32_t one = p.literal(1), spins = p.literal(100), size = p.literal(4096);
    uint32_t waited = p.transient(size);
    p.dispatch("wait", kSlowly, {ProgramBuilder::whole(waited, kWrite)}, {spins}, {one, one, one});
    p.barrier();
    p.dispatch("count", kSlowly, {ProgramBuilder::whole(p.result(0), kWrite)}, {spins}, {one, one, one});
    slow.programs.push_back(p.finish());
    add_failing(module);
    add_looked_at(module);
    add_step(module, "step", module.add_global("value", mf::GlobalKind::State, 8), false);
    instance = open(module);
    ASSERT_NE(instance, nullptr);
  }
  nlohmann::json statistics() const { return nlohmann::json::parse(instance_report(instance, "statistics")); }

  // Runs it with the first allocation of this thread failing, then with the second, until it needs no more; and again, now that everything is made
  // which is kept between calls. run: gives what came back.
  template <typename Run>
  void fail_each_allocation(heddle_status_code_t otherwise, Run run) {
    for (int sweep = 0; sweep < 2; ++sweep) {
      for (uint64_t allowed = 0;; ++allowed) {
        ASSERT_LT(allowed, 10000u) << "it never ends";
        left = allowed;
        heddle_status_t* status = run();
        const bool failed = left == kEndless;
        left = kEndless;
        const Outcome outcome(status);
        if (!failed) {
          EXPECT_EQ(outcome.code, otherwise) << outcome.message;
          break;
        }
        EXPECT_TRUE(outcome.code == otherwise || outcome.code == HEDDLE_STATUS_RESOURCE_EXHAUSTED)
            << "allocation " << allowed << ": " << outcome.code << " " << outcome.message;
      }
    }
  }
  InstanceHandle instance;
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeExhausted, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeExhausted, CallsThatWaitSucceedOrSayThatMemoryIsExhausted) {
  heddle_function_t *add = find_function(instance, "add"), *breaks = find_function(instance, "breaks"),
                    *slow = find_function(instance, "slow");
  int64_t batch = 0;
  uint64_t done = 0;
  std::vector<TensorHandle> inputs;
  for (int i = 1; i < 200; ++i) inputs.push_back(make_tensor<float>(add, 0, {i, 4}, std::vector<float>(static_cast<size_t>(i) * 4, 1)));
  fail_each_allocation(HEDDLE_STATUS_OK, [&] {  // of new extents each time: a plan and a frame are made
    heddle_tensor_t* x = inputs[static_cast<size_t>(batch++)].get();
    heddle_tensor_t *arguments[] = {x, x}, *out = nullptr;
    heddle_status_t* status = heddle_call(add, arguments, 2, &out, 1);
    done += status == nullptr;
    heddle_tensor_release(out);
    return status;
  });
  fail_each_allocation(HEDDLE_STATUS_INTERNAL, [&] {
    heddle_tensor_t* out = nullptr;
    return heddle_call(breaks, nullptr, 0, &out, 1);
  });
  const uint64_t before = statistics()["submissions"], arena = statistics()["arena_bytes"];
  done = 0;
  fail_each_allocation(HEDDLE_STATUS_OK, [&] {
    heddle_tensor_t* out = nullptr;
    heddle_status_t* status = heddle_call(slow, nullptr, 0, &out, 1);
    done += status == nullptr;
    heddle_tensor_release(out);
    return status;
  });
  EXPECT_GT(done, 0u);
  EXPECT_EQ(statistics()["submissions"], before + done);
  EXPECT_EQ(statistics()["arena_bytes"], arena + 4096) << "one frame, which is used again";
}

TEST_P(RuntimeExhausted, StartedCallsEndForAllWhoWait) {
  heddle_function_t *breaks = find_function(instance, "breaks"), *slow = find_function(instance, "slow"),
                    *looked = find_function(instance, "looked at");
  TensorHandle n = make_tensor<int64_t>(looked, 0, {1}, {3}, HEDDLE_TYPE_I64);
  heddle_tensor_t* argument = n.get();
  auto start_and_wait = [&](heddle_function_t* function, uint32_t arguments, heddle_status_code_t otherwise) {
    return [&, function, arguments, otherwise]() -> heddle_status_t* {
      heddle_tensor_t* out = nullptr;
      heddle_call_t* started = nullptr;
      heddle_status_t* status = heddle_call_start(function, nullptr, &argument, arguments, &out, 1, &started);
      TensorHandle result(out);
      CallHandle call(started);
      if (status) return status;
      status = heddle_call_wait(started, HEDDLE_TIMEOUT_INFINITE);
      const uint64_t rest = std::exchange(left, kEndless);
      const Outcome second(heddle_call_wait(started, HEDDLE_TIMEOUT_INFINITE));
      EXPECT_TRUE(second.code == otherwise || (arguments != 0 && second.code == HEDDLE_STATUS_RESOURCE_EXHAUSTED))
          << "whoever asked first may have had no memory, the call itself had some: " << second.message;
      left = rest;
      return status;
    };
  };
  fail_each_allocation(HEDDLE_STATUS_OK, start_and_wait(slow, 0, HEDDLE_STATUS_OK));
  fail_each_allocation(HEDDLE_STATUS_INTERNAL, start_and_wait(breaks, 0, HEDDLE_STATUS_INTERNAL));
  fail_each_allocation(HEDDLE_STATUS_OK, start_and_wait(looked, 1, HEDDLE_STATUS_OK));
  EXPECT_EQ(read_tensor<int64_t>(call_for_one(looked, {argument})), std::vector<int64_t>{3});
}

TEST_P(RuntimeExhausted, CallsOnStateThatNeverBeganLeaveItAsItIs) {
  heddle_function_t* step = find_function(instance, "step");
  const TensorHandle n = make_tensor<int64_t>(step, 0, {1}, {0}, HEDDLE_TYPE_I64);
  uint64_t wanted = 0;
  const auto check = [&](const TensorHandle& result) {
    wanted = wanted * 3 + 1;
    const uint64_t rest = std::exchange(left, kEndless);
    EXPECT_EQ(static_cast<uint64_t>(read_tensor<int64_t>(result)[0]), wanted);
    left = rest;
  };
  for (const bool starts : {false, true}) {
    fail_each_allocation(HEDDLE_STATUS_OK, [&]() -> heddle_status_t* {
      heddle_tensor_t *argument = n.get(), *out = nullptr;
      heddle_call_t* started = nullptr;
      heddle_status_t* status =
          starts ? heddle_call_start(step, nullptr, &argument, 1, &out, 1, &started) : heddle_call(step, &argument, 1, &out, 1);
      const TensorHandle result(out);
      const CallHandle call(started);
      if (!status && starts) status = heddle_call_wait(started, HEDDLE_TIMEOUT_INFINITE);
      if (!status) check(result);
      return status;
    });
  }
  check(call_for_one(step, {n.get()}));
}

// What is given back while a device works on it is kept, without memory to note it down.
TEST_P(RuntimeExhausted, CallsThatNobodyHoldsAreKept) {
  heddle_function_t *slow = find_function(instance, "slow"), *looked = find_function(instance, "looked at");
  TensorHandle n = make_tensor<int64_t>(looked, 0, {1}, {3}, HEDDLE_TYPE_I64);
  heddle_tensor_t* argument = n.get();
  std::vector<TensorHandle> results;
  results.reserve(10000);
  for (const bool pieces : {false, true}) {
    fail_each_allocation(HEDDLE_STATUS_OK, [&] {
      heddle_tensor_t* out = nullptr;
      heddle_call_t* call = nullptr;
      heddle_status_t* status = heddle_call_start(pieces ? looked : slow, nullptr, &argument, pieces ? 1 : 0, &out, 1, &call);
      heddle_call_release(call);
      if (!status) results.emplace_back(out);
      return status;
    });
  }
  EXPECT_GT(results.size(), 1u);
  instance.reset();
  for (const TensorHandle& result : results) {
    char bytes[8];
    const Outcome read(heddle_tensor_read(result.get(), bytes, heddle_tensor_size(result.get())));
    EXPECT_TRUE(read.ok() || read.code == HEDDLE_STATUS_RESOURCE_EXHAUSTED) << read.message;
  }
}

TEST_P(RuntimeExhausted, CallsThatNeverBeganGiveDonatedTensorsBack) {
  for (const char* name : {"add", "looked at"}) {
    heddle_function_t* function = find_function(instance, name);
    const bool adds = std::string_view(name) == "add";
    const auto fresh = [&] {
      return adds ? make_tensor<float>(function, 0, {1, 4}, {5, 5, 5, 5}) : make_tensor<int64_t>(function, 0, {1}, {5}, HEDDLE_TYPE_I64);
    };
    const TensorHandle other = fresh();
    TensorHandle given = fresh();
    fail_each_allocation(HEDDLE_STATUS_OK, [&]() -> heddle_status_t* {
      const uint32_t donated = 0;
      heddle_call_params_t params{};
      params.struct_size = sizeof(params);
      params.donated_arguments = &donated;
      params.donated_argument_count = 1;
      heddle_tensor_t *arguments[] = {given.get(), other.get()}, *out = nullptr;
      heddle_call_t* started = nullptr;
      heddle_status_t* status = heddle_call_start(function, &params, arguments, adds ? 2 : 1, &out, 1, &started);
      const TensorHandle result(out);
      const CallHandle call(started);
      const uint64_t rest = std::exchange(left, kEndless);
      if (!status) {
        static_cast<void>(Outcome(heddle_call_wait(started, HEDDLE_TIMEOUT_INFINITE)));
        given = fresh();
      } else {
        HEDDLE_EXPECT_OK(heddle_tensor_wait(given.get(), HEDDLE_TIMEOUT_INFINITE));
        if (adds) {
          EXPECT_EQ(read_tensor(given), (std::vector<float>{5, 5, 5, 5}));
        } else {
          EXPECT_EQ(read_tensor<int64_t>(given), std::vector<int64_t>{5});
        }
      }
      left = rest;
      return status;
    });
  }
}

TEST_P(RuntimeExhausted, MemoryOfTheApplicationIsReleasedOnce) {
  alignas(256) static float memory[4];
  const test::ApplicationMemory known(memory, sizeof memory);
  heddle_function_t* add = find_function(instance, "add");
  const int64_t dims[] = {1, 4};
  fail_each_allocation(HEDDLE_STATUS_OK, [&] {
    int releases = 0;
    const heddle_device_memory_t given = {
        sizeof given, 0, reinterpret_cast<uint64_t>(memory), sizeof memory, [](void* count) { ++*static_cast<int*>(count); }, &releases};
    heddle_tensor_t* made = nullptr;
    heddle_status_t* status = heddle_tensor_from_device(add, 0, HEDDLE_TYPE_F32, dims, 2, &given, &made);
    heddle_tensor_release(made);
    EXPECT_EQ(releases, 1);
    return status;
  });
}

// Each source is released once, and what is uploaded is there or the failure was told. The copies end in threads of the host.
TEST_P(RuntimeExhausted, UploadsReleaseTheirSourceOnce) {
  heddle_runtime_device_t* opened = nullptr;
  HEDDLE_ASSERT_OK(heddle_runtime_device(runtime.get(), c_string(GetParam().device), &opened));
  const std::unique_ptr<heddle_runtime_device_t, Releases<heddle_runtime_device_t, heddle_runtime_device_release>> device(opened);
  for (const int64_t count : {int64_t{4}, int64_t{100000}}) {
    const std::vector<float> values(static_cast<size_t>(count), 3);
    std::atomic<int> releases{0};
    int started = 0;
    const bool starts_by_copy = count == 4;
    fail_each_allocation(HEDDLE_STATUS_OK, [&]() -> heddle_status_t* {
      heddle_tensor_t* made = nullptr;
      heddle_status_t* status = heddle_tensor_create(device.get(), HEDDLE_TYPE_F32, &count, 1, starts_by_copy ? values.data() : nullptr,
                                                     starts_by_copy ? values.size() * sizeof(float) : 0, &made);
      const TensorHandle tensor(made);
      if (status) return status;
      ++started;
      status = heddle_tensor_upload(
          tensor.get(), values.data(), values.size() * sizeof(float), [](void* count) { ++*static_cast<std::atomic<int>*>(count); },
          &releases);
      if (status) return status;
      const uint64_t rest = std::exchange(left, kEndless);
      EXPECT_EQ(read_tensor(tensor), values);
      left = rest;
      return status;
    });
    EXPECT_GT(started, 2);
    for (int i = 0; i < 20000 && releases != started; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(releases, started);
  }
}

// Calls in pieces go on in threads of the host, and there too an allocation may fail. Whatever fails, what a device still works on is waited for.
struct Pair {
  const char *name, *a, *b;
  uint64_t peer_copies;  // of a call
  int64_t elements;
};
void PrintTo(const Pair& pair, std::ostream* out) {
  *out << pair.name;
}
class TwoDevicesExhausted : public OverTwoDevices, public ::testing::WithParamInterface<Pair> {};
constexpr int64_t kFew = 1000, kPieces = int64_t{5} << 19;  // 10 MiB: three pieces of what is copied through
INSTANTIATE_TEST_SUITE_P(Pairs, TwoDevicesExhausted,
                         ::testing::Values(Pair{"Straight", "test.streams:0", "test.streams:1", 2, kFew},
                                           Pair{"Staged", "left", "right", 0, kFew}, Pair{"StagedInPieces", "left", "right", 0, kPieces},
                                           Pair{"GpuAndCpu", "test.streams:0", "heddle.cpu:0", 0, kFew},
                                           Pair{"CpuAndGpu", "heddle.cpu:0", "test.streams:0", 0, kFew},
                                           Pair{"Cpus", "heddle.cpu:0", "heddle.cpu:1", 2, kFew}),
                         [](const auto& info) { return info.param.name; });

TEST_P(TwoDevicesExhausted, CallsInPiecesEndAndTheNextOneIsRight) {
  open_runtime_with(
      "[device.left]\ndriver = \"test.streams\"\nselect = { ordinal = 0 }\n"
      "[device.right]\ndriver = \"test.streams\"\nselect = { ordinal = 1 }\n"
      "[[link]]\nbetween = [\"left\", \"right\"]\np2p = \"off\"\n");
  ModuleBuilder module = builder();
  add_round_trip(module, GetParam().elements);
  const InstanceHandle instance = open(module, GetParam().a, GetParam().b);
  ASSERT_NE(instance, nullptr);
  const auto counted = [&](const char* name) -> uint64_t { return nlohmann::json::parse(instance_report(instance, "statistics"))[name]; };
  heddle_function_t* round = find_function(instance, "round");
  const size_t count = static_cast<size_t>(GetParam().elements);
  const std::vector<float> values(count, 0.5f), wanted(count, 2.0f);
  const TensorHandle input = make_tensor<float>(round, 0, {GetParam().elements}, values);
  const auto run = [&](bool starts, TensorHandle* result) -> heddle_status_t* {
    heddle_tensor_t *argument = input.get(), *out = nullptr;
    heddle_call_t* call = nullptr;
    heddle_status_t* status =
        starts ? heddle_call_start(round, nullptr, &argument, 1, &out, 1, &call) : heddle_call(round, &argument, 1, &out, 1);
    result->reset(out);
    const CallHandle started(call);
    return status || !starts ? status : heddle_call_wait(call, HEDDLE_TIMEOUT_INFINITE);
  };
  TensorHandle first;
  HEDDLE_ASSERT_OK(run(false, &first));
  EXPECT_EQ(counted("peer_copies"), GetParam().peer_copies);
  const uint64_t arena = counted("arena_bytes");
  for (const bool starts : {false, true}) {
    for (const bool all : {false, true}) {
      for (int64_t allowed = 0;; ++allowed) {
        ASSERT_LT(allowed, 10000) << "it never ends";
        TensorHandle result;
        all_fail = all;
        left_in_core = allowed;
        heddle_status_t* status = run(starts, &result);
        const bool failed = left_in_core.exchange(kNever) < 0;
        const Outcome outcome(status);
        EXPECT_TRUE(outcome.ok() || (failed && outcome.code == HEDDLE_STATUS_RESOURCE_EXHAUSTED))
            << "allocation " << allowed << ": " << outcome.code << " " << outcome.message;
        if (outcome.ok()) {
          EXPECT_EQ(read_tensor<float>(result), wanted) << "allocation " << allowed;
        }
        TensorHandle next;
        HEDDLE_ASSERT_OK(run(starts, &next));
        ASSERT_EQ(read_tensor<float>(next), wanted) << "after allocation " << allowed;
        if (!failed) break;
      }
    }
  }
  EXPECT_EQ(counted("arena_bytes"), arena) << "one frame, which is used again";
}

}  // namespace
}  // namespace heddle::testing
