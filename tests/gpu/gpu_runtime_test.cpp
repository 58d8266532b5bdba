// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls through runtime.h over a CUDA device and the CPU: copies between them, several calls in flight, scalars, deadlines; and faults of the
// device, in processes of their own. Skipped where there is no device; fails with HEDDLE_GPU=required.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <thread>

#include "../support/module_builder.h"
#include "../support/runtime_session.h"
#include "../temporary_folder.h"
#include "cuda_case.h"
#include "heddle/code.h"
#include "heddle/ext/dlpack.h"
#include "ptx.h"

namespace heddle::testing {
namespace {

constexpr uint32_t kLinger = 0, kChainOnGpu = 1, kStoreWild = 2;
constexpr uint32_t kGpu = 0, kCpu = 1;  // slots

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

class GpuAndCpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    runtime = open_runtime({(here.parent_path() / "lib/heddle/plugins.d").string()},
                           "version = 1\n[plugins.probe]\n\"heddle.cpu\" = \"in-process\"\n\"heddle.cuda\" = \"in-process\"\n");
    ASSERT_NE(runtime, nullptr);
    ModuleBuilder module = builder();
    add_round_trip(module, "probe", 4);
    const Outcome outcome(create(module, &probe));
    if (outcome.ok()) return;
    if (const char* wanted = std::getenv("HEDDLE_GPU"); wanted && std::strcmp(wanted, "required") == 0) FAIL() << outcome.message;
    GTEST_SKIP() << "SKIP: no CUDA device: " << outcome.message;
  }

  static ModuleBuilder builder() {
    ModuleBuilder made("cuda", {"@gpu", "@cpu"});
    auto executable = std::make_unique<mf::ExecutableT>();
    executable->name = "kernels";
    auto variant = std::make_unique<mf::VariantT>();
    variant->format = HEDDLE_CODE_PTX;
    variant->target = "sm_80";
    variant->family = "cuda";
    variant->code = std::make_unique<mf::Range>(made.writer.add_code(std::as_bytes(std::span(test::kPtx80, std::strlen(test::kPtx80)))));
    const struct {
      const char* name;
      uint32_t bindings, constants;
    } entries[] = {{"linger", 0, 1}, {"chain", 1, 1}, {"store_wild", 0, 1}};
    for (const auto& one : entries) {
      auto entry = std::make_unique<mf::EntryT>();
      entry->name = one.name;
      entry->binding_count = one.bindings;
      entry->constants_bytes = one.constants * 8;
      executable->entries.push_back(std::move(entry));
      variant->resources.push_back(std::make_unique<mf::EntryResourcesT>());
      variant->resources.back()->workgroup_size = {1, 1, 1};
    }
    executable->variants.push_back(std::move(variant));
    made.module.executables.push_back(std::move(executable));
    return made;
  }
  static ProgramBuilder program() { return ProgramBuilder({"cuda", "cpu"}); }
  // there = a, on the CPU; back = there, on the GPU.
  static void add_round_trip(ModuleBuilder& module, const std::string& name, int64_t elements) {
    mf::FunctionT& function = module.add_function(name);
    function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(elements)}, HEDDLE_TYPE_F32, kGpu));
    function.results.push_back(ModuleBuilder::type("there", {ModuleBuilder::extent(elements)}, HEDDLE_TYPE_F32, kCpu));
    function.results.push_back(ModuleBuilder::type("back", {ModuleBuilder::extent(elements)}, HEDDLE_TYPE_F32, kGpu));
    ProgramBuilder p = program();
    p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.result(0), kWrite));
    p.barrier();
    p.copy(ProgramBuilder::whole(p.result(0), kRead), ProgramBuilder::whole(p.result(1), kWrite));
    function.programs.push_back(p.finish());
  }
  // On the GPU, after some time, 3 * a + 1; there = that, on the CPU; back = there, on the GPU.
  static void add_slow(ModuleBuilder& module, const std::string& name, int64_t nanoseconds) {
    mf::FunctionT& function = module.add_function(name);
    function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64, kCpu));
    function.results.push_back(ModuleBuilder::type("there", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64, kCpu));
    function.results.push_back(ModuleBuilder::type("back", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64, kGpu));
    ProgramBuilder p = program();
    uint32_t one = p.literal(1), size = p.literal(8), time = p.literal(nanoseconds), value = p.transient(size);
    p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(value, kWrite));
    p.barrier();
    p.dispatch("linger", kLinger, {}, {time}, {one, one, one}, kGpu);
    p.barrier();
    p.dispatch("step", kChainOnGpu, {ProgramBuilder::whole(value, kReadWrite)}, {one}, {one, one, one}, kGpu);
    p.barrier();
    p.copy(ProgramBuilder::whole(value, kRead), ProgramBuilder::whole(p.result(0), kWrite));
    p.barrier();
    p.copy(ProgramBuilder::whole(p.result(0), kRead), ProgramBuilder::whole(p.result(1), kWrite));
    function.programs.push_back(p.finish());
  }
  heddle_status_t* create(ModuleBuilder& module, InstanceHandle* out) {
    std::string path = folder.path("module" + std::to_string(++modules_) + ".heddle");
    EXPECT_EQ(module.write(path), "");
    ModuleHandle opened = open_module(runtime.get(), path);
    return create_instance(opened.get(), {{"@gpu", "heddle.cuda:0"}, {"@cpu", "heddle.cpu:0"}}, out);
  }
  static CallHandle start(heddle_function_t* function, uint64_t deadline_ns, heddle_tensor_t* argument,
                          std::vector<heddle_tensor_t*> results, std::vector<TensorHandle>* out) {
    heddle_call_params_t params{};
    params.struct_size = sizeof(params);
    params.deadline_ns = deadline_ns;
    heddle_call_t* call = nullptr;
    HEDDLE_EXPECT_OK(heddle_call_start(function, &params, &argument, 1, results.data(), static_cast<uint32_t>(results.size()), &call));
    for (heddle_tensor_t* result : results) out->emplace_back(result);
    return CallHandle(call);
  }

  TemporaryFolder folder;
  RuntimeHandle runtime;
  InstanceHandle probe;

 private:
  int modules_ = 0;
};

TEST_F(GpuAndCpu, MovesValuesOfEverySize) {
  for (int64_t elements : {int64_t{1}, int64_t{1000}, int64_t{1} << 20, (int64_t{45} << 20) / 4 + 3}) {
    ModuleBuilder module = builder();
    add_round_trip(module, "main", elements);
    InstanceHandle instance;
    HEDDLE_ASSERT_OK(create(module, &instance));
    heddle_function_t* main = find_function(instance);
    std::vector<float> values(static_cast<size_t>(elements));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 8191);
    TensorHandle a = make_tensor<float>(main, 0, {elements}, values);
    std::vector<CallHandle> calls;
    std::vector<TensorHandle> results;
    for (int i = 0; i < 3; ++i) calls.push_back(start(main, 0, a.get(), {nullptr, nullptr}, &results));
    for (const CallHandle& call : calls) HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
    for (const TensorHandle& result : results) EXPECT_TRUE(read_tensor(result) == values) << elements;
    heddle_tensor_t *argument = a.get(), *given[] = {results[0].get(), results[1].get()};
    const uint64_t before = now_ns();
    for (int i = 0; i < 5; ++i) HEDDLE_EXPECT_OK(heddle_call(main, &argument, 1, given, 2));
    const double seconds = static_cast<double>(now_ns() - before) / 5e9;
    std::printf("%lld bytes there and back: %.1f us, %.2f GB/s\n", static_cast<long long>(elements * 4), seconds * 1e6,
                static_cast<double>(elements) * 8 / seconds / 1e9);
    EXPECT_TRUE(read_tensor(results[1]) == values);
  }
}

TEST_F(GpuAndCpu, RunsManyCallsFromManyThreads) {
  ModuleBuilder module = builder();
  add_slow(module, "main", 10'000);
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(create(module, &instance));
  heddle_function_t* main = find_function(instance);
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      TensorHandle a = make_tensor<int64_t>(main, 0, {1}, {t}, HEDDLE_TYPE_I64);
      for (int round = 0; round < 20; ++round) {
        std::vector<CallHandle> calls;
        std::vector<TensorHandle> results;
        for (int i = 0; i < 16; ++i) calls.push_back(start(main, 0, a.get(), {nullptr, nullptr}, &results));
        for (const CallHandle& call : calls) HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
        for (const TensorHandle& result : results) EXPECT_EQ(read_tensor<int64_t>(result)[0], 3 * t + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GpuAndCpu, DropsWhatIsNotEnqueuedInTime) {
  ModuleBuilder module = builder();
  add_slow(module, "main", 50'000'000);
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(create(module, &instance));
  heddle_function_t* main = find_function(instance);
  TensorHandle a = make_tensor<int64_t>(main, 0, {1}, {7}, HEDDLE_TYPE_I64);
  for (bool cancels : {false, true}) {
    std::vector<TensorHandle> results;
    CallHandle call = start(main, cancels ? 0 : now_ns() + 10'000'000, a.get(), {nullptr, nullptr}, &results);
    if (cancels) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      heddle_call_cancel(call.get());
    }
    HEDDLE_EXPECT_FAILS(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE),
                        cancels ? HEDDLE_STATUS_CANCELLED : HEDDLE_STATUS_DEADLINE_EXCEEDED, "8 bytes were copied from device 'cpu");
    int64_t value = 0;
    for (const TensorHandle& result : results) {
      HEDDLE_EXPECT_FAILS(heddle_tensor_read(result.get(), &value, 8), cancels ? HEDDLE_STATUS_CANCELLED : HEDDLE_STATUS_DEADLINE_EXCEEDED,
                          "");
    }
    CallHandle next = start(main, now_ns() + 10'000'000'000, a.get(), {nullptr, nullptr}, &results);
    HEDDLE_EXPECT_OK(heddle_call_wait(next.get(), HEDDLE_TIMEOUT_INFINITE));
    for (size_t i : {2, 3}) EXPECT_EQ(read_tensor<int64_t>(results[i])[0], 22);
  }
}

// A call that lingers fills the tensor, then an upload does, then a call reads it; nobody waits on the host. Small amounts go through a staging slice
// of the driver, large ones through its ring.
TEST_F(GpuAndCpu, UploadsBetweenCallsAndPassesTensorsByDlpack) {
  constexpr uint64_t kLingerNs = 50'000'000;
  heddle_runtime_device_t* opened = nullptr;
  HEDDLE_ASSERT_OK(heddle_runtime_device(runtime.get(), c_string("heddle.cuda:0"), &opened));
  const std::unique_ptr<heddle_runtime_device_t, Releases<heddle_runtime_device_t, heddle_runtime_device_release>> device(opened);
  heddle_runtime_device_properties_t properties{};
  properties.struct_size = sizeof(properties);
  HEDDLE_ASSERT_OK(heddle_runtime_device_describe(opened, &properties));
  EXPECT_EQ(cpp_string(properties.family), "cuda");
  EXPECT_EQ(properties.alignment_bytes, 256u);
  for (const int64_t elements : {int64_t{16}, int64_t{1} << 20}) {
    ModuleBuilder module = builder();
    mf::FunctionT& function = module.add_function("main");
    function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(elements)}, HEDDLE_TYPE_F32, kGpu));
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(elements)}, HEDDLE_TYPE_F32, kGpu));
    ProgramBuilder p = program();
    uint32_t one = p.literal(1), time = p.literal(static_cast<int64_t>(kLingerNs));
    p.dispatch("linger", kLinger, {}, {time}, {one, one, one}, kGpu);
    p.barrier();
    p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.result(0), kWrite));
    function.programs.push_back(p.finish());
    InstanceHandle instance;
    HEDDLE_ASSERT_OK(create(module, &instance));
    heddle_function_t* main = find_function(instance);
    const std::vector<float> zeros(static_cast<size_t>(elements), 0);
    heddle_tensor_t* made = nullptr;
    HEDDLE_ASSERT_OK(heddle_tensor_create(opened, HEDDLE_TYPE_F32, &elements, 1, zeros.data(), zeros.size() * 4, &made));
    const TensorHandle input(made);
    for (int turn = 1; turn <= 4; ++turn) {
      std::vector<float> values(static_cast<size_t>(elements), static_cast<float>(turn));
      std::atomic<int> releases{0};
      std::vector<TensorHandle> results;
      const uint64_t before = now_ns();
      const CallHandle filling = start(main, 0, input.get(), {nullptr}, &results);
      HEDDLE_ASSERT_OK(heddle_tensor_upload(
          results[0].get(), values.data(), values.size() * 4, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &releases));
      const CallHandle reading = start(main, 0, results[0].get(), {nullptr}, &results);
      const uint64_t enqueued = now_ns() - before;
      if (turn == 2) {  // the first one allocates, the third one may be recorded
        EXPECT_LT(enqueued, kLingerNs) << "it waited";
      }
      EXPECT_TRUE(read_tensor(results[1]) == values) << turn;
      EXPECT_TRUE(read_tensor(results[0]) == values) << turn;
      for (int i = 0; i < 10000 && releases == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_EQ(releases, 1);

      void* out = nullptr;
      HEDDLE_ASSERT_OK(heddle_dlpack_export(results[1].get(), 0, &out));
      const auto* managed = static_cast<heddle_dlpack_managed_t*>(out);
      uint64_t address = 0, again_at = 0;
      HEDDLE_EXPECT_OK(heddle_tensor_address(results[1].get(), &address));
      EXPECT_EQ(managed->tensor.device.type, HEDDLE_DLPACK_CUDA);
      EXPECT_EQ(managed->tensor.device.id, static_cast<int32_t>(properties.ordinal));
      EXPECT_EQ(reinterpret_cast<uint64_t>(managed->tensor.data), address);
      results.pop_back();
      heddle_tensor_t* again = nullptr;
      HEDDLE_ASSERT_OK(heddle_dlpack_import(opened, out, 0, &again));
      const TensorHandle imported(again);
      HEDDLE_EXPECT_OK(heddle_tensor_address(again, &again_at));
      EXPECT_EQ(again_at, address);
      EXPECT_TRUE(read_tensor(imported) == values);
    }
  }
}

// The extent of the result is what the GPU computes.
TEST_F(GpuAndCpu, ReadsScalars) {
  ModuleBuilder module = builder();
  mf::FunctionT& function = module.add_function("main");
  function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64, kGpu));
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::unknown()}, HEDDLE_TYPE_I64, kGpu));
  ProgramBuilder p = program();
  uint32_t one = p.literal(1), zero = p.literal(0), size = p.literal(8), n = p.reg(), value = p.transient(size);
  p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(value, kWrite));
  p.barrier();
  p.dispatch("step", kChainOnGpu, {ProgramBuilder::whole(value, kReadWrite)}, {one}, {one, one, one}, kGpu);
  p.barrier();
  p.emit(mf::Op::ReadScalar, n, value, zero);
  p.emit(mf::Op::ResultDim, 0, 0, n);
  p.fill(ProgramBuilder::whole(p.result(0), kWrite), 9, 8);
  function.programs.push_back(p.finish());
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(create(module, &instance));
  heddle_function_t* main = find_function(instance);
  for (int64_t a : {1, 5, 2}) {
    TensorHandle argument = make_tensor<int64_t>(main, 0, {1}, {a}, HEDDLE_TYPE_I64);
    std::vector<TensorHandle> results;
    CallHandle call = start(main, 0, argument.get(), {nullptr}, &results);
    HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
    EXPECT_EQ(read_tensor<int64_t>(results[0]), std::vector<int64_t>(static_cast<size_t>(3 * a + 1), 9));
    EXPECT_EQ(read_tensor<int64_t>(call_for_one(main, {argument.get()})), std::vector<int64_t>(static_cast<size_t>(3 * a + 1), 9));
  }
}

// ---------------------------------------------------------------------------------------------------------------- faults

class GpuAndCpuFault : public GpuAndCpu {
 protected:
  void SetUp() override {
    test::arm_watchdog(110);
    GpuAndCpu::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    parts.begin();
    if (!parts.role.empty()) return;
    probe.reset();  // the parent only starts the others: it has no part of the device
    runtime.reset();
  }
  void TearDown() override {
    parts.end();
    alarm(0);
  }
  static void expect_round_trip(const InstanceHandle& instance) {
    const std::vector<float> values = {1, 2, 3, 4};
    heddle_function_t* probing = find_function(instance, "probe");
    TensorHandle a = make_tensor<float>(probing, 0, {4}, values);
    std::vector<TensorHandle> results;
    CallHandle call = start(probing, 0, a.get(), {nullptr, nullptr}, &results);
    HEDDLE_EXPECT_OK(heddle_call_wait(call.get(), HEDDLE_TIMEOUT_INFINITE));
    for (const TensorHandle& result : results) EXPECT_EQ(read_tensor(result), values);
  }

  test::Parts parts;
};

TEST_F(GpuAndCpuFault, AWildStoreEndsTheDeviceAndNothingElse) {
  if (parts.role == "after") return expect_round_trip(probe);
  if (parts.role.empty()) {
    test::Child faults("faults", parts.folder);
    faults.expect_passes(60);
    std::printf("%s", faults.said().c_str());
    test::Child("after", parts.folder).expect_passes(40);
    return;
  }
  ModuleBuilder module = builder();
  mf::FunctionT& function = module.add_function("wild");
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64, kGpu));
  {
    ProgramBuilder p = program();
    uint32_t one = p.literal(1), address = p.literal(16);
    p.fill(ProgramBuilder::whole(p.result(0), kWrite), 9, 8);
    p.barrier();
    p.dispatch("the wild region", kStoreWild, {}, {address}, {one, one, one}, kGpu);
    function.programs.push_back(p.finish());
  }
  ModuleBuilder other("cpu");
  mf::FunctionT& counts = other.add_function("main");
  counts.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(4)}));
  {
    ProgramBuilder p({"cpu"});
    p.fill(ProgramBuilder::whole(p.result(0), kWrite), 0x3f800000, 4);
    counts.programs.push_back(p.finish());
  }
  const std::string path = folder.path("cpu.heddle");
  ASSERT_EQ(other.write(path), "");
  InstanceHandle lost, on_cpu;
  HEDDLE_ASSERT_OK(create(module, &lost));
  HEDDLE_ASSERT_OK(create_instance(open_module(runtime.get(), path).get(), {{"", "heddle.cpu:0"}}, &on_cpu));
  expect_round_trip(probe);
  const std::vector<float> ones(4, 1.0f);
  EXPECT_EQ(read_tensor(call_for_one(find_function(on_cpu), {})), ones);
  {
    heddle_tensor_t* out = nullptr;
    const Outcome outcome(heddle_call(find_function(lost, "wild"), nullptr, 0, &out, 1));
    const TensorHandle result(out);
    std::printf("%s\n", outcome.message.c_str());
    EXPECT_EQ(outcome.code, HEDDLE_STATUS_DEVICE_LOST);
    EXPECT_NE(outcome.message.find("in region 'the wild region'"), std::string::npos);
    EXPECT_NE(outcome.message.find("'store_wild'"), std::string::npos);
  }
  {
    heddle_tensor_t* out = nullptr;
    HEDDLE_EXPECT_FAILS(heddle_call(find_function(lost, "wild"), nullptr, 0, &out, 1), HEDDLE_STATUS_DEVICE_LOST, "calling 'wild' failed");
    const TensorHandle result(out);
  }
  EXPECT_EQ(read_tensor(call_for_one(find_function(on_cpu), {})), ones) << "the CPU has no part in it";
  // Once nobody has the device any more, CUDA may make a new context of it, or not in this process; the status says which.
  lost.reset();
  probe.reset();
  ModuleBuilder again = builder();
  add_round_trip(again, "probe", 4);
  InstanceHandle fresh;
  const Outcome opened(create(again, &fresh));
  std::printf("opened again: %s\n", opened.ok() ? "yes" : opened.message.c_str());
  if (opened.ok()) {
    expect_round_trip(fresh);
  } else {
    EXPECT_EQ(opened.code, HEDDLE_STATUS_UNAVAILABLE);
    EXPECT_NE(opened.message.find("start a new process"), std::string::npos) << opened.message;
  }
  EXPECT_EQ(read_tensor(call_for_one(find_function(on_cpu), {})), ones);
}

TEST_F(GpuAndCpuFault, MemoryThatAnotherProcessHoldsIsNamedAndComesBack) {
  constexpr size_t kMega = size_t{1} << 20;
  if (parts.role.empty()) {
    test::Child holder("holder", parts.folder);
    ASSERT_TRUE(parts.is_told("held", &holder, 40)) << holder.said();
    test::Child limited("limited", parts.folder);
    ASSERT_TRUE(parts.is_told("refused", &limited, 40)) << limited.said();
    holder.kill_now();
    parts.tell("gone");
    limited.expect_passes(40);
    std::printf("%s", limited.said().c_str());
    return;
  }
  test::Libcuda cuda;
  int device = 0;
  void* context = nullptr;
  size_t free_bytes = 0, total = 0;
  ASSERT_EQ(cuda.cuDeviceGet(&device, 0), 0);
  ASSERT_EQ(cuda.cuDevicePrimaryCtxRetain(&context, device), 0);
  ASSERT_EQ(cuda.cuCtxSetCurrent(context), 0);
  ASSERT_EQ(cuda.cuMemGetInfo(&free_bytes, &total), 0);
  if (parts.role == "holder") {
    constexpr size_t kChunk = 256 * kMega;
    for (size_t held = 0; held + kChunk <= free_bytes / 10 * 9; held += kChunk) {
      uint64_t block = 0;
      ASSERT_EQ(cuda.cuMemAlloc(&block, kChunk), 0);
    }
    parts.tell("held");
    std::this_thread::sleep_for(std::chrono::seconds(100));  // it is killed before
    return;
  }
  const size_t bytes = total / 4 / kMega * kMega;
  ASSERT_LT(free_bytes, bytes) << "another process holds most of the memory";
  ModuleBuilder module = builder();
  add_round_trip(module, "probe", 4);
  mf::FunctionT& function = module.add_function("large");  // the end of a quarter of the device's memory, filled
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64, kGpu));
  ProgramBuilder p = program();
  uint32_t size = p.literal(static_cast<int64_t>(bytes)), last = p.literal(static_cast<int64_t>(bytes - 8)), eight = p.literal(8),
           zero = p.literal(0), value = p.transient(size);
  p.fill(ProgramBuilder::whole(value, kWrite), 9, 8);
  p.barrier();
  p.copy({value, last, eight, kRead}, {p.result(0), zero, eight, kWrite});
  function.programs.push_back(p.finish());
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(create(module, &instance));
  heddle_function_t* large = find_function(instance, "large");
  auto call = [&](TensorHandle* result) {
    heddle_tensor_t* out = nullptr;
    Outcome outcome(heddle_call(large, nullptr, 0, &out, 1));
    result->reset(out);
    return outcome;
  };
  TensorHandle result;
  for (int turn = 0; turn < 2; ++turn) {
    const Outcome refused = call(&result);
    std::printf("%s\n", refused.message.c_str());
    EXPECT_EQ(refused.code, HEDDLE_STATUS_RESOURCE_EXHAUSTED);
    for (const char* part : {"bytes are free", "this process holds", "HD-M-03", "allocating "}) {
      EXPECT_NE(refused.message.find(part), std::string::npos) << part;
    }
    expect_round_trip(instance);  // what fits goes on
  }
  parts.tell("refused");
  ASSERT_TRUE(parts.is_told("gone", nullptr, 40));
  // The driver takes a dead process's memory back in its own time.
  int tries = 0;
  for (Outcome outcome = call(&result);; outcome = call(&result)) {
    if (outcome.ok() || ++tries == 50) {
      EXPECT_TRUE(outcome.ok()) << outcome.message;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::printf("after %d more refusals there were %zu bytes\n", tries, bytes);
  ASSERT_NE(result, nullptr);
  EXPECT_EQ(read_tensor<int64_t>(result), std::vector<int64_t>{9});
  EXPECT_EQ(cuda.cuCtxSetCurrent(nullptr), 0);
  EXPECT_EQ(cuda.cuDevicePrimaryCtxRelease(device), 0);
}

}  // namespace
}  // namespace heddle::testing
