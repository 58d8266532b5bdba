// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Faults of a CUDA device, each in a child process of its own: kernels that fault, memory that is out, code that is damaged, processes that
// are killed. The case starts this program again for itself alone, with its part in HEDDLE_GPU_ROLE.
#include <cstdlib>
#include <thread>

#include "cuda_case.h"

namespace heddle::test {
namespace {

class CudaFault : public Cuda {
 protected:
  void SetUp() override {
    require_device();
    if (HasFatalFailure() || IsSkipped()) return;
    arm_watchdog(110);
    parts.begin();
    if (!parts.role.empty()) open();
  }
  void TearDown() override {
    parts.end();
    Cuda::TearDown();
  }
  // In the parent: plays the whole case in one child. False in the child.
  bool in_parent() {
    if (!parts.role.empty()) return false;
    Child("alone", parts.folder).expect_passes(90);
    return true;
  }
  heddle_status_t* allocate(uint64_t size, heddle_buffer_t** out) {
    heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, size, 0};
    return driver().buffer_api->allocate(driver().device, &params, out);
  }
  // A kernel that faults, and everyone who waits for it.
  void expect_loss(const KernelFacts& facts, const std::vector<int64_t>& constants, bool recorded = false);

  Parts parts;
};

struct Told {
  std::atomic<int> calls{0};
  heddle_status_code_t code = HEDDLE_STATUS_OK;
  std::string text;
  static void tell(void* context, const heddle_status_t* failure) {
    auto* at = static_cast<Told*>(context);
    if (failure) {
      at->code = failure->code;
      at->text = failure->message;
    }
    ++at->calls;
  }
};

void CudaFault::expect_loss(const KernelFacts& facts, const std::vector<int64_t>& constants, bool recorded) {
  const heddle_dispatch_interface_t* dispatch = driver().dispatch_api;
  const std::string named = std::string("'") + facts.name + "'";
  heddle_buffer_t *value = driver().make_filled(std::vector<uint64_t>{1}), *large = driver().make_buffer(10 << 20);
  heddle_queue_t *other = driver().make_queue(driver().device), *idle = driver().make_queue(driver().device);
  std::vector<char> bytes(10 << 20);
  {
    Loaded bad(&driver(), facts), chain(&driver(), chain_facts()), linger(&driver(), linger_facts());
    const std::vector<heddle_binding_t> bindings = {{value, 0, 8}};
    const std::vector<int64_t> one = {1}, long_enough = {50000000};
    heddle_timeline_t *before = driver().make_timeline(), *at = driver().make_timeline(), *behind = driver().make_timeline(),
                      *moved = driver().make_timeline(), *held = driver().make_timeline();
    heddle_recording_t* recording = nullptr;
    const heddle_command_t command = bad.command({}, constants);
    // It is behind a kernel that lasts, so that all who wait are there when it faults.
    ASSERT_OK(driver().submit({linger.command({}, long_enough)}, {}, {{before, 1}}, other));
    const heddle_point_t wait = {before, 1}, signal = {at, 1};
    if (recorded) {
      ASSERT_OK(dispatch->record(other, &command, 1, nullptr, &recording));
      const heddle_sync_t sync = {sizeof sync, 1, 1, 0, &wait, &signal};
      ASSERT_OK(dispatch->replay(recording, nullptr, 0, &sync));
    } else {
      ASSERT_OK(driver().submit({command}, {wait}, {signal}, other));
    }
    ASSERT_OK(driver().submit({chain.command(bindings, one)}, {{at, 1}}, {{behind, 1}}));
    const heddle_point_t third = {moved, 1};
    const heddle_sync_t upload = {sizeof upload, 1, 1, 0, &signal, &third};
    const heddle_binding_t target = {large, 0, bytes.size()};
    ASSERT_OK(driver().transfer_api->upload(driver().queue, &upload, bytes.data(), &target));
    ASSERT_OK(driver().submit({}, {{held, 1}, {at, 1}}, {{held, 2}}));
    Told told;
    EXPECT_OK(driver().timeline_api->notify(at, 1, Told::tell, &told));
    std::vector<std::thread> waiters;
    for (heddle_timeline_t* timeline : {at, behind, moved, at}) {
      waiters.emplace_back([&, timeline] { EXPECT_FAILS(driver().wait(timeline, 1, kPatience), HEDDLE_STATUS_DEVICE_LOST, named); });
    }
    for (std::thread& waiter : waiters) waiter.join();
    for (int i = 0; i < 10000 && told.calls == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(told.calls, 1);
    EXPECT_EQ(told.code, HEDDLE_STATUS_DEVICE_LOST);
    EXPECT_NE(told.text.find(named), std::string::npos) << told.text;
    EXPECT_EQ(told.text.find("'chain'"), std::string::npos) << "what waits did not fault: " << told.text;
    {
      Result result = driver().wait(at, 1, 0);
      EXPECT_EQ(result.payload("region"), "42");
      std::printf("%s\n", result.message().c_str());
    }
    EXPECT_OK(driver().timeline_api->signal(held, 1));
    EXPECT_FAILS(driver().wait(held, 2, kPatience), HEDDLE_STATUS_DEVICE_LOST, named);
    EXPECT_TRUE(driver().wait(before, 1, 0).ok()) << "what was reached stays reached";

    // Whatever is asked now.
    const heddle_sync_t none = {sizeof none, 0, 0, 0, nullptr, nullptr};
    const heddle_binding_t small = {value, 0, 8};
    EXPECT_FAILS(driver().submit({}, {}, {{behind, 9}}), HEDDLE_STATUS_DEVICE_LOST, named);
    EXPECT_FAILS(driver().transfer_api->upload(driver().queue, &none, bytes.data(), &small), HEDDLE_STATUS_DEVICE_LOST, named);
    EXPECT_FAILS(driver().transfer_api->download(other, &none, &target, bytes.data()), HEDDLE_STATUS_DEVICE_LOST, named);
    EXPECT_FAILS(driver().transfer_api->peer_copy(other, &none, &small, &small), HEDDLE_STATUS_DEVICE_LOST, named);
    heddle_buffer_t* buffer = nullptr;
    EXPECT_FAILS(allocate(100, &buffer), HEDDLE_STATUS_DEVICE_LOST, named);
    EXPECT_FAILS(driver().buffer_api->import_host(driver().device, bytes.data(), bytes.size(), nullptr, nullptr, &buffer),
                 HEDDLE_STATUS_DEVICE_LOST, named);
    heddle_executable_t* executable = nullptr;
    EXPECT_FAILS(load_code(driver(), driver().device, "ptx/1", "sm_80", kPtx80, std::strlen(kPtx80), {chain_facts()}, &executable),
                 HEDDLE_STATUS_DEVICE_LOST, named);
    heddle_recording_t* another = nullptr;
    EXPECT_FAILS(dispatch->record(driver().queue, nullptr, 0, nullptr, &another), HEDDLE_STATUS_DEVICE_LOST, named);
    if (recording) EXPECT_FAILS(dispatch->replay(recording, nullptr, 0, &none), HEDDLE_STATUS_DEVICE_LOST, named);
    heddle_queue_t* queue = nullptr;
    const heddle_queue_params_t params = {sizeof params, 0};
    EXPECT_FAILS(driver().device_api->queue_create(driver().device, &params, &queue), HEDDLE_STATUS_DEVICE_LOST, named);
    driver().statistics();
    dispatch->recording_free(recording);
    for (heddle_timeline_t* timeline : {before, at, behind, moved, held}) driver().timeline_api->destroy(timeline);
  }
  free({value, large});
  EXPECT_OK(driver().device_api->queue_destroy(other));
  EXPECT_OK(driver().device_api->queue_destroy(idle));
  EXPECT_OK(driver().device_api->queue_destroy(driver().queue));
  EXPECT_OK(driver().device_api->close(driver().device));
  driver().queue = nullptr;
  driver().device = nullptr;
  // CUDA may let the process go on or not; whatever it says is said in a status.
  heddle_device_open_params_t again = {sizeof again, 0, &driver().api, {}, -1, 0};
  Result opened(driver().device_api->open(driver().instance(), 0, &again, &driver().device));
  std::printf("opened again: %s\n", opened.ok() ? "yes" : opened.message().c_str());
  if (opened.ok()) {
    driver().queue = driver().make_queue(driver().device);
    expect_works();
  }
}

TEST_F(CudaFault, AnIllegalAddressLosesTheDevice) {
  if (in_parent()) return;
  expect_loss({"store_wild", 0, 1}, {16});
}

TEST_F(CudaFault, AMisalignedAddressLosesTheDevice) {
  if (in_parent()) return;
  expect_loss({"store_wild", 0, 1}, {0x7001});
}

TEST_F(CudaFault, ATrapLosesTheDevice) {
  if (in_parent()) return;
  expect_loss({"trap_now", 0, 0}, {});
}

TEST_F(CudaFault, ATrapInARecordingLosesTheDevice) {
  if (in_parent()) return;
  expect_loss({"trap_now", 0, 0}, {}, true);
}

// Nobody waits: the next calls find out, and still know the kernel's name.
TEST_F(CudaFault, AFaultThatNobodyWaitsForIsNamed) {
  if (in_parent()) return;
  {
    Loaded bad(&driver(), {"store_wild", 0, 1}), chain(&driver(), chain_facts());
    heddle_buffer_t* value = driver().make_filled(std::vector<uint64_t>{1});
    const std::vector<heddle_binding_t> bindings = {{value, 0, 8}};
    const std::vector<int64_t> one = {1}, wild = {16};
    heddle_queue_t* other = driver().make_queue(driver().device);
    heddle_timeline_t* timeline = driver().make_timeline();
    ASSERT_OK(driver().submit({bad.command({}, wild)}, {}, {}, other));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    uint64_t last = 0;
    heddle_status_code_t code = HEDDLE_STATUS_OK;
    std::string text;
    for (int i = 0; i < 1000 && code == HEDDLE_STATUS_OK; ++i) {
      Result result(driver().submit({chain.command(bindings, one)}, {}, {{timeline, ++last}}));
      code = result.code();
      text = result.message();
    }
    EXPECT_EQ(code, HEDDLE_STATUS_DEVICE_LOST) << "a submit sees what CUDA answers";
    EXPECT_NE(text.find("'store_wild'"), std::string::npos) << text;
    EXPECT_FAILS(driver().wait(timeline, 1, kPatience), HEDDLE_STATUS_DEVICE_LOST, "'store_wild'");
    EXPECT_OK(driver().device_api->queue_destroy(other));
    driver().timeline_api->destroy(timeline);
    free({value});
  }
}

TEST_F(CudaFault, OutOfMemoryIsSaidWithNumbersAndPasses) {
  constexpr uint64_t kChunk = uint64_t{1} << 30;
  if (parts.role == "holder") {
    // Nine tenths of what is free, for as long as the other part needs.
    Libcuda cuda;
    int device = 0;
    void* context = nullptr;
    size_t free_bytes = 0, total = 0;
    ASSERT_EQ(cuda.cuDeviceGet(&device, 0), 0);
    ASSERT_EQ(cuda.cuDevicePrimaryCtxRetain(&context, device), 0);
    ASSERT_EQ(cuda.cuCtxSetCurrent(context), 0);
    ASSERT_EQ(cuda.cuMemGetInfo(&free_bytes, &total), 0);
    std::vector<heddle_buffer_t*> buffers;
    for (uint64_t held = 0; held + kChunk <= free_bytes / 10 * 9; held += kChunk) {
      heddle_buffer_t* buffer = nullptr;
      ASSERT_OK(allocate(kChunk, &buffer));
      buffers.push_back(buffer);
    }
    parts.tell("held");
    std::this_thread::sleep_for(std::chrono::seconds(80));  // it is killed before
    return;
  }
  if (parts.role.empty()) {
    Child holder("holder", parts.folder);
    ASSERT_TRUE(parts.is_told("held", &holder, 40)) << holder.said();
    Child("limited", parts.folder).expect_passes(60);
    return;
  }
  std::vector<heddle_buffer_t*> buffers;
  std::string text;
  for (int i = 0; i < 1000 && text.empty(); ++i) {
    heddle_buffer_t* buffer = nullptr;
    Result result(allocate(kChunk, &buffer));
    if (result.ok()) {
      buffers.push_back(buffer);
      continue;
    }
    EXPECT_EQ(result.code(), HEDDLE_STATUS_RESOURCE_EXHAUSTED);
    EXPECT_EQ(buffer, nullptr);
    text = result.message();
  }
  std::printf("%s\n", text.c_str());
  EXPECT_LT(buffers.size() * kChunk, description.memory_bytes / 4) << "another process holds most of the memory";
  EXPECT_NE(text.find("allocating " + std::to_string(kChunk) + " bytes of device memory"), std::string::npos) << text;
  EXPECT_NE(text.find("bytes are free"), std::string::npos) << text;
  EXPECT_NE(text.find("this process holds " + std::to_string(buffers.size() * kChunk)), std::string::npos) << text;
  EXPECT_NE(text.find("HD-M-03"), std::string::npos) << text;
  // What is freed is there again, also in other sizes.
  ASSERT_FALSE(buffers.empty());
  free({buffers.back()});
  buffers.pop_back();
  expect_works();
  for (uint64_t size : {kChunk / 4 * 3, kChunk / 2, kChunk / 8 * 5}) {
    heddle_buffer_t* buffer = nullptr;
    EXPECT_OK(allocate(size, &buffer));
    if (buffer) {
      EXPECT_OK(driver().run({fill(buffer, 0, size, 1, 1)}));
      free({buffer});
    }
  }
  EXPECT_EQ(driver().statistics().bytes_allocated, buffers.size() * kChunk);
  for (heddle_buffer_t* buffer : buffers) free({buffer});
  expect_works();
}

// ------------------------------------------------------------------------------------------------------------------- code

TEST_F(CudaFault, PtxOfTheFutureNamesTheDriversVersion) {
  if (in_parent()) return;
  std::string text = kPtx80;
  text.replace(text.find("7.0"), 3, "99.9");
  Libcuda cuda;
  int version = 0;
  EXPECT_EQ(cuda.cuDriverGetVersion(&version), 0);
  const std::string named = "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  heddle_executable_t* executable = nullptr;
  {
    Result result(load_code(driver(), driver().device, "ptx/1", "sm_80", text.data(), text.size(), {chain_facts()}, &executable));
    std::printf("%s\n", result.message().c_str());
    EXPECT_EQ(result.code(), HEDDLE_STATUS_FAILED_PRECONDITION);
    EXPECT_NE(result.message().find(named), std::string::npos) << result.message();
    EXPECT_NE(result.message().find("too old"), std::string::npos) << result.message();
    EXPECT_NE(result.message().find("gpu_test"), std::string::npos) << result.message();
  }
  expect_works();
}

TEST_F(CudaFault, DamagedPtxIsRefused) {
  if (in_parent()) return;
  const std::string good = kPtx80;
  auto replaced = [&](const char* from, const char* to) {
    std::string text = good;
    text.replace(text.find(from), std::strlen(from), to);
    return text;
  };
  std::string with_nul = good;
  with_nul[200] = '\0';
  const std::string texts[] = {"x",
                               std::string(5000, 'x'),
                               good.substr(0, good.find("mul.wide.u32") + 5),
                               good.substr(0, 30),
                               replaced("mul.wide.u32", "mul.wode.u32"),
                               replaced(".target sm_80", ".target sm_12"),
                               replaced("ld.param.u64 %rd3, [count]", "ld.param.u64 %rd3, [cuont]"),
                               with_nul,
                               std::string("\x7f"
                                           "ELF") +
                                   std::string(100, '\0')};
  for (const std::string& text : texts) {
    heddle_executable_t* executable = nullptr;
    Result result(load_code(driver(), driver().device, "ptx/1", "sm_80", text.data(), text.size(), {chain_facts()}, &executable));
    EXPECT_TRUE(result.code() == HEDDLE_STATUS_INVALID_ARGUMENT || result.code() == HEDDLE_STATUS_NOT_FOUND ||
                result.code() == HEDDLE_STATUS_FAILED_PRECONDITION)
        << result.code() << ": " << result.message();
    EXPECT_NE(result.message().find("gpu_test"), std::string::npos) << result.message();
    EXPECT_EQ(executable, nullptr);
    std::printf("%s\n", result.message().c_str());
  }
  // A function that is nowhere.
  const std::string unresolved = replaced("trap;", "call.uni nowhere;").insert(good.find("// out[i] = a[i]"), ".extern .func nowhere;\n");
  heddle_executable_t* executable = nullptr;
  {
    Result result(
        load_code(driver(), driver().device, "ptx/1", "sm_80", unresolved.data(), unresolved.size(), {chain_facts()}, &executable));
    EXPECT_FALSE(result.ok());
    std::printf("%s\n", result.message().c_str());
  }
  // One NUL at the end is allowed.
  EXPECT_OK(load_code(driver(), driver().device, "ptx/1", "sm_80", good.c_str(), good.size() + 1, {chain_facts()}, &executable));
  driver().dispatch_api->executable_unload(executable);
  expect_works();
}

TEST_F(CudaFault, DamagedCubinsAreRefused) {
  if (in_parent()) return;
  // A cubin of this device's own, by CUDA's linker.
  Libcuda cuda;
  int device = 0;
  void *context = nullptr, *link = nullptr, *linked = nullptr;
  size_t size = 0;
  ASSERT_EQ(cuda.cuDeviceGet(&device, 0), 0);
  ASSERT_EQ(cuda.cuDevicePrimaryCtxRetain(&context, device), 0);
  ASSERT_EQ(cuda.cuCtxSetCurrent(context), 0);
  constexpr int kInputPtx = 1;
  ASSERT_EQ(cuda.cuLinkCreate(0, nullptr, nullptr, &link), 0);
  ASSERT_EQ(cuda.cuLinkAddData(link, kInputPtx, const_cast<char*>(kPtx80), std::strlen(kPtx80) + 1, "kernels", 0, nullptr, nullptr), 0);
  ASSERT_EQ(cuda.cuLinkComplete(link, &linked, &size), 0);
  const std::vector<char> good(static_cast<char*>(linked), static_cast<char*>(linked) + size);
  EXPECT_EQ(cuda.cuLinkDestroy(link), 0);
  EXPECT_EQ(cuda.cuCtxSetCurrent(nullptr), 0);
  EXPECT_EQ(cuda.cuDevicePrimaryCtxRelease(device), 0);

  heddle_executable_t* executable = nullptr;
  uint32_t rank = 0;
  EXPECT_OK(driver().dispatch_api->variant_rank(driver().device, string_of("cubin/1"), string_of("sm_80"), &rank));
  if (rank == 0) {  // its target is what the device is
    heddle_executable_t* refused = nullptr;
    EXPECT_FAILS(load_code(driver(), driver().device, "cubin/1", "sm_80", good.data(), good.size(), {chain_facts()}, &refused),
                 HEDDLE_STATUS_FAILED_PRECONDITION, "sm_80");
  }
  const char* target = nullptr;
  for (const char* known : {"sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"}) {
    EXPECT_OK(driver().dispatch_api->variant_rank(driver().device, string_of("cubin/1"), string_of(known), &rank));
    if (rank) target = known;
  }
  ASSERT_TRUE(target);
  auto load = [&](const std::vector<char>& code) {
    return load_code(driver(), driver().device, "cubin/1", target, code.data(), code.size(), {chain_facts()}, &executable);
  };
  ASSERT_OK(load(good));
  driver().dispatch_api->executable_unload(executable);
  for (size_t length : {size_t{1}, size_t{63}, size_t{64}, size_t{200}, good.size() / 2, good.size() - 1}) {
    std::vector<char> cut(good.begin(), good.begin() + static_cast<long>(length));
    Result result(load(cut));
    EXPECT_TRUE(result.code() == HEDDLE_STATUS_DATA_LOSS || result.code() == HEDDLE_STATUS_INVALID_ARGUMENT)
        << length << " of " << good.size() << ": " << result.message();
    if (result.ok()) driver().dispatch_api->executable_unload(executable);
  }
  auto damaged = [&](size_t at, char value) {
    std::vector<char> code = good;
    code[at] = value;
    return code;
  };
  EXPECT_FAILS(load(damaged(0, 'X')), HEDDLE_STATUS_INVALID_ARGUMENT, "gpu_test");
  EXPECT_FAILS(load(damaged(4, 1)), HEDDLE_STATUS_INVALID_ARGUMENT, "gpu_test");
  EXPECT_FAILS(load(damaged(18, 62)), HEDDLE_STATUS_INVALID_ARGUMENT, "gpu_test");
  EXPECT_FAILS(load(damaged(46, 100)), HEDDLE_STATUS_DATA_LOSS, "gpu_test");  // where its sections are: far behind its end
  EXPECT_FAILS(load(std::vector<char>(10000, 'x')), HEDDLE_STATUS_INVALID_ARGUMENT, "gpu_test");
  expect_works();
}

// -------------------------------------------------------------------------------------------------------------- processes

TEST_F(CudaFault, AProcessKilledInACopyLeavesTheDeviceUsable) {
  constexpr uint64_t kSize = uint64_t{1} << 30;
  if (parts.role == "copies") {
    heddle_buffer_t* buffer = driver().make_buffer(kSize);
    std::vector<char> bytes(kSize, 1);
    driver().write(buffer, 0, bytes.data(), 1 << 20);
    parts.tell("copying");
    for (;;) driver().write(buffer, 0, bytes.data(), kSize);  // until it is killed; its watchdog bounds it
  }
  if (parts.role == "copies_pinned") {
    heddle_buffer_t *pinned = driver().make_buffer(kSize, HEDDLE_MEMORY_PINNED), *buffer = driver().make_buffer(kSize);
    parts.tell("copying pinned");
    for (;;) EXPECT_OK(driver().run({copy(pinned, 0, buffer, 0, kSize), barrier(), copy(buffer, 0, pinned, 0, kSize)}));
  }
  if (parts.role == "after") {
    expect_works();
    heddle_buffer_t* buffer = driver().make_buffer(kSize);
    EXPECT_OK(driver().run({fill(buffer, 0, kSize, 5, 4)}));
    free({buffer});
    return;
  }
  for (const auto& [part, sign] : {std::pair<const char*, const char*>{"copies", "copying"}, {"copies_pinned", "copying pinned"}}) {
    Child child(part, parts.folder);
    ASSERT_TRUE(parts.is_told(sign, &child, 40)) << child.said();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_FALSE(child.ends(0)) << child.said();
    child.kill_now();
    Child("after", parts.folder).expect_passes(40);
  }
}

}  // namespace
}  // namespace heddle::test
