// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The stand-in for a Level Zero driver, as an application sees it that keeps the rules.
#include <cstring>

#include "tests/level_zero/session.h"

namespace heddle::level_zero_stand_in {
namespace {

constexpr uint64_t kForever = UINT64_MAX;

TEST(LevelZero, AddsOnAnImmediateList) {
  Session s;
  constexpr size_t n = 1024;
  float* host = s.host_memory(3 * n);
  for (size_t i = 0; i < 2 * n; ++i) host[i] = static_cast<float>(i);
  float *a = s.device_memory(n), *b = s.device_memory(n), *out = s.device_memory(n);
  auto list = s.immediate();
  auto done = s.event();
  auto add = s.kernel("add");
  set(add, 0, out);
  set(add, 1, a);
  set(add, 2, b);
  MUST(zeCommandListAppendMemoryCopy(list, a, host, n * 4, nullptr, 0, nullptr));
  MUST(zeCommandListAppendMemoryCopy(list, b, host + n, n * 4, nullptr, 0, nullptr));
  MUST(zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  const ze_group_count_t groups = {n / 64, 1, 1};
  MUST(zeCommandListAppendLaunchKernel(list, add, &groups, nullptr, 0, nullptr));
  MUST(zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  MUST(zeCommandListAppendMemoryCopy(list, host + 2 * n, out, n * 4, done, 0, nullptr));
  MUST(zeEventHostSynchronize(done, kForever));
  for (size_t i = 0; i < n; ++i) ASSERT_EQ(host[2 * n + i], static_cast<float>(2 * i + n)) << i;
}

// 20 steps of x * 2 + 1, of which each needs the one before; arguments are those at the time of the append.
TEST(LevelZero, RunsARegularListTwice) {
  Session s;
  float* x = s.host_memory(64);
  std::fill_n(x, 64, 1.0F);
  auto step = s.kernel("step");
  auto queue = s.queue();
  auto list = s.list();
  const ze_group_count_t one = {1, 1, 1};
  for (int i = 0; i < 10; ++i) {
    set(step, 0, x);
    set(step, 1, i % 2 == 0 ? 2.0F : 3.0F);
    MUST(zeCommandListAppendLaunchKernel(list, step, &one, nullptr, 0, nullptr));
    MUST(zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  }
  set(step, 1, 100.0F);
  MUST(zeCommandListClose(list));
  const ze_fence_desc_t desc = {ZE_STRUCTURE_TYPE_FENCE_DESC, nullptr, 0};
  ze_fence_handle_t fence = nullptr;
  MUST(zeFenceCreate(queue, &desc, &fence));
  float wanted = 1;
  for (int run = 0; run < 2; ++run) {
    MUST(zeCommandQueueExecuteCommandLists(queue, 1, &list, fence));
    MUST(zeFenceHostSynchronize(fence, kForever));
    MUST(zeFenceReset(fence));
    for (int i = 0; i < 10; ++i) wanted = wanted * (i % 2 == 0 ? 2.0F : 3.0F) + 1;
    EXPECT_EQ(x[0], wanted);
    EXPECT_EQ(x[63], wanted);
  }
  MUST(zeFenceDestroy(fence));
}

TEST(LevelZero, TakesLocalMemoryAsAnArgument) {
  Session s;
  float* x = s.host_memory(256);
  for (size_t i = 0; i < 256; ++i) x[i] = static_cast<float>(i);
  auto reverse = s.kernel("reverse");
  set(reverse, 0, x);
  MUST(zeKernelSetArgumentValue(reverse, 1, 256, nullptr));
  auto list = s.immediate(ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
  const ze_group_count_t four = {4, 1, 1};
  MUST(zeCommandListAppendLaunchKernel(list, reverse, &four, nullptr, 0, nullptr));
  for (size_t i = 0; i < 256; ++i) ASSERT_EQ(x[i], static_cast<float>(i / 64 * 64 + 63 - i % 64));
}

TEST(LevelZero, KnowsItsKernels) {
  Session s;
  uint32_t count = 0;
  MUST(zeModuleGetKernelNames(s.module(), &count, nullptr));
  ASSERT_EQ(count, 4u);
  const ze_kernel_desc_t desc = {ZE_STRUCTURE_TYPE_KERNEL_DESC, nullptr, 0, "fixed"};
  ze_kernel_handle_t fixed = nullptr;
  MUST(zeKernelCreate(s.module(), &desc, &fixed));
  ze_kernel_properties_t p = {};
  p.stype = ZE_STRUCTURE_TYPE_KERNEL_PROPERTIES;
  MUST(zeKernelGetProperties(fixed, &p));
  EXPECT_EQ(p.numKernelArgs, 1u);
  EXPECT_EQ(p.requiredGroupSizeX, 32u);
  EXPECT_EQ(p.localMemSize, 128u);
  EXPECT_EQ(zeKernelSetGroupSize(fixed, 64, 1, 1), ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION);
  MUST(zeKernelSetGroupSize(fixed, 32, 1, 1));
  float value = 0;
  EXPECT_EQ(zeKernelSetArgumentValue(fixed, 1, sizeof value, &value), ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX);
  EXPECT_EQ(zeKernelSetArgumentValue(fixed, 0, sizeof value, &value), ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE);
  float* x = s.device_memory(32);
  float* y = s.host_memory(32);
  set(fixed, 0, x);
  auto list = s.immediate(ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
  const ze_group_count_t one = {1, 1, 1};
  MUST(zeCommandListAppendLaunchKernel(list, fixed, &one, nullptr, 0, nullptr));
  MUST(zeCommandListAppendMemoryCopy(list, y, x, 128, nullptr, 0, nullptr));
  EXPECT_EQ(y[0], 3);
  EXPECT_EQ(y[31], 3);
  MUST(zeKernelDestroy(fixed));
  const ze_kernel_desc_t unknown = {ZE_STRUCTURE_TYPE_KERNEL_DESC, nullptr, 0, "nothing"};
  EXPECT_EQ(zeKernelCreate(s.module(), &unknown, &fixed), ZE_RESULT_ERROR_INVALID_KERNEL_NAME);
}

TEST(LevelZero, SetsSpecializationConstants) {
  Session s;
  const uint32_t id = 7;
  const float factor = 5;
  const void* value = &factor;
  const ze_module_constants_t constants = {1, &id, &value};
  std::string log;
  ASSERT_EQ(s.build(Session::kernels_file(), &log, "", &constants), ZE_RESULT_SUCCESS) << log;
  float* x = s.host_memory(64);
  std::fill_n(x, 64, 1.0F);
  auto step = s.kernel("step");
  set(step, 0, x);
  set(step, 1, 2.0F);
  auto list = s.immediate(ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
  const ze_group_count_t one = {1, 1, 1};
  MUST(zeCommandListAppendLaunchKernel(list, step, &one, nullptr, 0, nullptr));
  EXPECT_EQ(x[0], 7);
}

int32_t dot_of(uint32_t a, uint32_t b, bool a_has_sign, bool b_has_sign) {
  const auto byte = [](uint32_t word, int i, bool has_sign) {
    const auto bits = static_cast<uint8_t>(word >> 8 * i);
    return has_sign ? static_cast<int32_t>(static_cast<int8_t>(bits)) : static_cast<int32_t>(bits);
  };
  int32_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += byte(a, i, a_has_sign) * byte(b, i, b_has_sign);
  return sum;
}

// Natively on Intel's runtime; for PoCL, the stand-in replaces them.
TEST(LevelZero, MultipliesBytesFourAtATime) {
  Session s;
  std::string log;
  ASSERT_EQ(s.build(Session::kernels_file("HEDDLE_ZE_DOTS"), &log), ZE_RESULT_SUCCESS) << log;
  const std::vector<uint32_t> values = {0,          0x80808080, 0x7f7f7f7f, 0xffffffff, 0x01020304, 0x00ff7f80,
                                        0x80ff0001, 0x12345678, 0x000000ff, 0xff000000, 0x7f80ff01};
  const size_t count = values.size() * values.size();
  auto *a = reinterpret_cast<uint32_t*>(s.host_memory(count)), *b = reinterpret_cast<uint32_t*>(s.host_memory(count));
  auto* out = reinterpret_cast<int32_t*>(s.host_memory(3 * count));
  for (size_t i = 0; i < count; ++i) {
    a[i] = values[i / values.size()];
    b[i] = values[i % values.size()];
  }
  auto dots = s.kernel("dots", 1);
  set(dots, 0, out);
  set(dots, 1, a);
  set(dots, 2, b);
  auto list = s.immediate(ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
  const ze_group_count_t groups = {static_cast<uint32_t>(count), 1, 1};
  MUST(zeCommandListAppendLaunchKernel(list, dots, &groups, nullptr, 0, nullptr));
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(out[3 * i], dot_of(a[i], b[i], true, true)) << std::hex << a[i] << " and " << b[i];
    ASSERT_EQ(out[3 * i + 1], dot_of(a[i], b[i], false, false)) << std::hex << a[i] << " and " << b[i];
    ASSERT_EQ(out[3 * i + 2], dot_of(a[i], b[i], true, false)) << std::hex << a[i] << " and " << b[i];
  }
}

TEST(LevelZero, RefusesDamagedModulesWithALog) {
  Session s;
  const std::vector<uint8_t> good = Session::kernels_file();
  std::string log;
  std::vector<uint8_t> bad = good;
  bad.resize(bad.size() - 400);
  EXPECT_EQ(s.build(bad, &log), ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
  EXPECT_NE(log, "");
  bad = good;
  bad[0] = 0;
  EXPECT_EQ(s.build(bad, &log), ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
  EXPECT_NE(log.find("magic number"), std::string::npos) << log;
  bad.resize(17);
  EXPECT_EQ(s.build(bad, &log), ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
  EXPECT_NE(log.find("no multiple of 4"), std::string::npos) << log;
  EXPECT_EQ(s.build(good, &log, "-ze-no-such-flag"), ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
  EXPECT_NE(log.find("-ze-no-such-flag"), std::string::npos) << log;
}

TEST(LevelZero, CopiesRegionsAndFills) {
  Session s;
  auto list = s.immediate(ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS, 1);  // a queue that only copies
  auto* host = reinterpret_cast<uint8_t*>(s.host_memory(64));
  for (size_t i = 0; i < 256; ++i) host[i] = static_cast<uint8_t>(i);
  auto* device = reinterpret_cast<uint8_t*>(s.device_memory(64));
  const uint16_t pattern = 0xbeef;
  MUST(zeCommandListAppendMemoryFill(list, device, &pattern, 2, 256, nullptr, 0, nullptr));
  const ze_copy_region_t from = {4, 2, 0, 3, 2, 1}, to = {1, 0, 0, 3, 2, 1};
  MUST(zeCommandListAppendMemoryCopyRegion(list, device, &to, 8, 0, host, &from, 16, 0, nullptr, 0, nullptr));
  auto* back = reinterpret_cast<uint8_t*>(s.host_memory(64));
  MUST(zeCommandListAppendMemoryCopy(list, back, device, 256, nullptr, 0, nullptr));
  const std::vector<uint8_t> wanted = {0xef, 36, 37, 38, 0xef, 0xbe, 0xef, 0xbe, 0xef, 52, 53, 54, 0xef, 0xbe};
  EXPECT_EQ(std::vector<uint8_t>(back, back + wanted.size()), wanted);
  EXPECT_EQ(back[255], 0xbe);
}

TEST(LevelZero, TimestampsWrap) {
  Session s;
  auto list = s.immediate(ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
  auto timed = s.event(ZE_EVENT_POOL_FLAG_HOST_VISIBLE | ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP);
  float* x = s.host_memory(1 << 20);
  float* y = s.host_memory(1 << 20);
  ze_kernel_timestamp_result_t result = {};
  EXPECT_EQ(zeEventQueryKernelTimestamp(timed, &result), ZE_RESULT_NOT_READY);
  MUST(zeCommandListAppendMemoryCopy(list, y, x, 4 << 20, timed, 0, nullptr));
  MUST(zeEventQueryKernelTimestamp(timed, &result));
  const uint32_t ticks = static_cast<uint32_t>(result.global.kernelEnd - result.global.kernelStart);
  EXPECT_GT(ticks, 0u);
  EXPECT_LT(ticks, 19'200'000u * 10);
  ze_device_properties_t p = {};
  p.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2;
  MUST(zeDeviceGetProperties(s.device, &p));
  EXPECT_EQ(p.timerResolution, 19'200'000u);
  p.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
  MUST(zeDeviceGetProperties(s.device, &p));
  EXPECT_EQ(p.timerResolution, 52u);
  EXPECT_EQ(p.kernelTimestampValidBits, 32u);
  uint64_t host = 0, first = 0, second = 0;
  MUST(zeDeviceGetGlobalTimestamps(s.device, &host, &first));
  auto* word = reinterpret_cast<uint64_t*>(s.host_memory(2));
  MUST(zeCommandListAppendWriteGlobalTimestamp(list, word, nullptr, 0, nullptr));
  MUST(zeDeviceGetGlobalTimestamps(s.device, &host, &second));
  EXPECT_LE(first, *word);
  EXPECT_LE(*word, second);
}

TEST(LevelZero, DescribesMemory) {
  Session s;
  float* device = s.device_memory(1000, 65536);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(device) % 65536, 0u);
  ze_memory_allocation_properties_t p = {};
  p.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES;
  ze_device_handle_t owner = nullptr;
  MUST(zeMemGetAllocProperties(s.context, device + 999, &p, &owner));
  EXPECT_EQ(p.type, ZE_MEMORY_TYPE_DEVICE);
  EXPECT_EQ(owner, s.device);
  void* base = nullptr;
  size_t size = 0;
  MUST(zeMemGetAddressRange(s.context, device + 999, &base, &size));
  EXPECT_EQ(base, device);
  EXPECT_EQ(size, 4000u);
  int here = 0;
  MUST(zeMemGetAllocProperties(s.context, &here, &p, &owner));
  EXPECT_EQ(p.type, ZE_MEMORY_TYPE_UNKNOWN);
  MUST(zeMemGetAllocProperties(s.context, s.host_memory(1), &p, &owner));
  EXPECT_EQ(p.type, ZE_MEMORY_TYPE_HOST);
}

TEST(LevelZero, ExhaustsMemory) {
  Session s;
  const ze_relaxed_allocation_limits_exp_desc_t relaxed = {ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC, nullptr,
                                                           ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE};
  const ze_device_mem_alloc_desc_t desc = {ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, &relaxed, 0, 0};
  const ze_device_mem_alloc_desc_t plain = {ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
  void* most = nullptr;
  void* more = nullptr;
  EXPECT_EQ(zeMemAllocDevice(s.context, &plain, uint64_t{3} << 30, 0, s.device, &most), ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
  MUST(zeMemAllocDevice(s.context, &desc, (uint64_t{4} << 30) - 4096, 0, s.device, &most));
  EXPECT_EQ(zeMemAllocDevice(s.context, &desc, 8192, 0, s.device, &more), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  MUST(zeMemFree(s.context, most));
  MUST(zeMemAllocDevice(s.context, &desc, 8192, 0, s.device, &more));
  MUST(zeMemFree(s.context, more));
  EXPECT_EQ(zeMemAllocDevice(s.context, &desc, uint64_t{5} << 30, 0, s.device, &more), ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
}

TEST(LevelZero, SaysWhatItLacks) {
  Session s;
  testing::internal::CaptureStderr();
  size_t page = 0;
  EXPECT_EQ(zeVirtualMemQueryPageSize(s.context, s.device, 1 << 20, &page), ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("not supported: zeVirtualMemQueryPageSize"), std::string::npos) << text;
}

}  // namespace
}  // namespace heddle::level_zero_stand_in
