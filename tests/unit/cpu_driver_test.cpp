// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What every driver owes the host: devices, buffers, transfers, command lists, errors. Runs on heddle.cpu and on test.streams.
#include <cfenv>
#include <cstring>
#include <numeric>
#include <thread>

#include <xmmintrin.h>

#include "cpu_driver_case.h"

namespace heddle::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, Driver, every_driver(), name_of);

std::vector<float> ramp(size_t count, float step) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i) * step;
  return values;
}

// ---------------------------------------------------------------------------------------------------------------- devices

TEST_P(Driver, DescribesItsDevice) {
  heddle_device_description_t description = {};
  description.struct_size = sizeof description;
  ASSERT_OK(driver.device_api->describe(driver.instance(), 0, &description));
  EXPECT_EQ(text_of(description.family), "cpu");
  EXPECT_GE(description.compute_units, 1u);
  EXPECT_GT(description.memory_bytes, 0u);
  EXPECT_EQ(description.min_alignment_bytes & (description.min_alignment_bytes - 1), 0u);
  ASSERT_GE(description.code_format_count, 1u);
  EXPECT_EQ(text_of(description.code_formats[0]), "x86_64-elf/1");
}

TEST_P(Driver, WritesOnlyTheCallersBytesOfADescription) {
  heddle_device_description_t description;
  std::memset(&description, 0xcd, sizeof description);
  description.struct_size = 8;
  ASSERT_OK(driver.device_api->describe(driver.instance(), 0, &description));
  EXPECT_EQ(description.ordinal, 0u);
  EXPECT_EQ(description.name.size, 0xcdcdcdcdcdcdcdcdu);
}

TEST_P(Driver, RejectsAnOrdinalThatIsNotThere) {
  heddle_device_t* device = nullptr;
  heddle_device_open_params_t params = {sizeof params, 0, &driver.api, {}, -1, 0};
  EXPECT_FAILS(driver.device_api->open(driver.instance(), 99, &params, &device), HEDDLE_STATUS_OUT_OF_RANGE, "99");
  EXPECT_EQ(device, nullptr);
}

TEST_P(Driver, AcceptsLargerStructsOnlyWithAZeroTail) {
  struct Larger {
    heddle_device_open_params_t params;
    uint64_t tail;
  } larger = {{sizeof(Larger), 0, &driver.api, {}, -1, 0}, 0};
  heddle_device_t* device = nullptr;
  ASSERT_OK(driver.device_api->open(driver.instance(), 0, &larger.params, &device));
  EXPECT_OK(driver.device_api->close(device));
  larger.tail = uint64_t{1} << 40;
  EXPECT_FAILS(driver.device_api->open(driver.instance(), 0, &larger.params, &device), HEDDLE_STATUS_INVALID_ARGUMENT, "HD-E-04");
}

TEST_P(Driver, ClosingWithLiveChildrenFailsAndListsThem) {
  heddle_device_t* device = driver.open(0);
  heddle_buffer_t* buffer = driver.make_buffer(16, HEDDLE_MEMORY_DEVICE, device);
  heddle_timeline_t* timeline = driver.make_timeline(0, device);
  EXPECT_FAILS(driver.device_api->close(device), HEDDLE_STATUS_FAILED_PRECONDITION, "1 buffer, 1 timeline");
  driver.timeline_api->destroy(timeline);
  driver.buffer_api->free(buffer);
  EXPECT_OK(driver.device_api->close(device));
}

TEST_P(Driver, ShutdownWithAnOpenDeviceFails) {
  EXPECT_FAILS(driver.plugin()->shutdown(driver.instance()), HEDDLE_STATUS_FAILED_PRECONDITION, "HD-L-01");
}

TEST_P(Driver, AnswersFailedPreconditionInAForkedChild) {
  host.forked_child = true;
  heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, 16, 0};
  heddle_buffer_t* buffer = nullptr;
  EXPECT_FAILS(driver.buffer_api->allocate(driver.device, &params, &buffer), HEDDLE_STATUS_FAILED_PRECONDITION, "HD-T-01");
  EXPECT_FAILS(driver.submit({}, {}, {}), HEDDLE_STATUS_FAILED_PRECONDITION, "HD-T-01");
  host.forked_child = false;
}

// ---------------------------------------------------------------------------------------------------------------- buffers

TEST_P(Driver, AllocatesEverySizeClassAligned) {
  for (uint64_t size : {0ull, 1ull, 63ull, 64ull, 4097ull, 300000ull, 5000000ull}) {
    for (uint64_t alignment : {0ull, 64ull, 4096ull, 65536ull}) {
      heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, size, alignment};
      heddle_buffer_t* buffer = nullptr;
      ASSERT_OK(driver.buffer_api->allocate(driver.device, &params, &buffer));
      heddle_buffer_properties_t properties = {};
      properties.struct_size = sizeof properties;
      ASSERT_OK(driver.buffer_api->properties(buffer, &properties));
      EXPECT_EQ(properties.size_bytes, size);
      EXPECT_EQ(properties.device_address % (alignment ? alignment : 64), 0u);
      EXPECT_TRUE(properties.memory & HEDDLE_MEMORY_DEVICE);
      driver.buffer_api->free(buffer);
    }
  }
  EXPECT_EQ(driver.statistics().bytes_allocated, 0u);
  EXPECT_EQ(driver.statistics().bytes_reserved, 0u);
}

TEST_P(Driver, CountsAllocatedBytesExactly) {
  heddle_buffer_t* a = driver.make_buffer(1000);
  heddle_buffer_t* b = driver.make_buffer(1 << 20);
  EXPECT_EQ(driver.statistics().bytes_allocated, 1000u + (1 << 20));
  free({a});
  EXPECT_EQ(driver.statistics().bytes_allocated, 1u << 20);
  free({b});
}

TEST_P(Driver, RefusesMoreThanThereIs) {
  for (uint64_t size : {uint64_t{1} << 60, UINT64_MAX, UINT64_MAX - 4095}) {
    heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, size, 0};
    heddle_buffer_t* buffer = nullptr;
    EXPECT_FAILS(driver.buffer_api->allocate(driver.device, &params, &buffer), HEDDLE_STATUS_RESOURCE_EXHAUSTED, std::to_string(size));
    EXPECT_EQ(buffer, nullptr);
  }
}

TEST_P(Driver, RefusesAnAlignmentThatIsNoPowerOfTwo) {
  for (uint64_t alignment : {3ull, 48ull, 96ull, 5000ull}) {
    heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, 64, alignment};
    heddle_buffer_t* buffer = nullptr;
    EXPECT_FAILS(driver.buffer_api->allocate(driver.device, &params, &buffer), HEDDLE_STATUS_INVALID_ARGUMENT, std::to_string(alignment));
  }
}

TEST_P(Driver, MapsHostVisibleMemoryAndNothingElse) {
  const uint32_t kind = GetParam().host_visible ? HEDDLE_MEMORY_DEVICE : HEDDLE_MEMORY_HOST_VISIBLE;
  heddle_buffer_t* buffer = driver.make_buffer(100, kind);
  void* pointer = nullptr;
  ASSERT_OK(driver.buffer_api->map(buffer, 10, 90, HEDDLE_MAP_READ | HEDDLE_MAP_WRITE, &pointer));
  std::memset(pointer, 7, 90);
  EXPECT_OK(driver.buffer_api->flush(buffer, 10, 90));
  EXPECT_OK(driver.buffer_api->invalidate(buffer, 10, 90));
  EXPECT_OK(driver.buffer_api->unmap(buffer));
  EXPECT_EQ(driver.values_of<char>(buffer, 100)[99], 7);
  EXPECT_FAILS(driver.buffer_api->map(buffer, 10, 91, HEDDLE_MAP_READ, &pointer), HEDDLE_STATUS_OUT_OF_RANGE, "100 bytes");
  EXPECT_FAILS(driver.buffer_api->map(buffer, UINT64_MAX, 2, HEDDLE_MAP_READ, &pointer), HEDDLE_STATUS_OUT_OF_RANGE, "");
  EXPECT_FAILS(driver.buffer_api->map(buffer, 0, 1, 0, &pointer), HEDDLE_STATUS_INVALID_ARGUMENT, "flags");
  free({buffer});
  if (GetParam().host_visible) return;
  heddle_buffer_t* hidden = driver.make_buffer(100);
  EXPECT_FAILS(driver.buffer_api->map(hidden, 0, 1, HEDDLE_MAP_READ, &pointer), HEDDLE_STATUS_FAILED_PRECONDITION, "host");
  free({hidden});
}

TEST_P(Driver, ImportsHostMemoryAndReleasesItOnce) {
  alignas(64) static float memory[16] = {1, 2, 3};
  int released = 0;
  auto release = [](void* context) { ++*static_cast<int*>(context); };
  heddle_buffer_t* buffer = nullptr;
  ASSERT_OK(driver.buffer_api->import_host(driver.device, memory, sizeof memory, release, &released, &buffer));
  EXPECT_EQ(driver.values_of<float>(buffer, 3), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(released, 0);
  free({buffer});
  EXPECT_EQ(released, 1);
  EXPECT_FAILS(driver.buffer_api->import_host(driver.device, nullptr, 4, release, &released, &buffer), HEDDLE_STATUS_INVALID_ARGUMENT,
               "null");
  EXPECT_EQ(released, 2);
}

TEST_P(Driver, SurvivesExhaustedHostMemory) {
  heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, 64, 0};
  heddle_buffer_t* buffer = nullptr;
  host.fail_allocation(0);
  EXPECT_FAILS(driver.buffer_api->allocate(driver.device, &params, &buffer), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "exhausted");
  host.fail_allocation(0);
  heddle_timeline_t* timeline = nullptr;
  EXPECT_FAILS(driver.timeline_api->create(driver.device, 0, &timeline), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "exhausted");
  host.fail_allocation(-1);
}

// -------------------------------------------------------------------------------------------------------------- transfers

TEST_P(Driver, UploadsAndDownloadsAcrossSizes) {
  for (uint64_t size : {1ull, 63ull, 64ull, 65ull, 4096ull, 100001ull, 3000000ull}) {
    std::vector<uint8_t> bytes(size);
    for (uint64_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 31 + size);
    heddle_buffer_t* buffer = driver.make_buffer(size + 3);
    driver.write(buffer, 3, bytes.data(), size);
    std::vector<uint8_t> back(size);
    driver.read(buffer, 3, back.data(), size);
    EXPECT_EQ(back, bytes) << size;
    free({buffer});
  }
}

TEST_P(Driver, RejectsTransfersOutOfRange) {
  heddle_buffer_t* buffer = driver.make_buffer(64);
  char bytes[64] = {};
  heddle_sync_t sync = {sizeof sync, 0, 0, 0, nullptr, nullptr};
  heddle_binding_t binding = {buffer, 1, 64};
  EXPECT_FAILS(driver.transfer_api->upload(driver.queue, &sync, bytes, &binding), HEDDLE_STATUS_OUT_OF_RANGE, "64 bytes at 1");
  EXPECT_FAILS(driver.transfer_api->download(driver.queue, &sync, &binding, bytes), HEDDLE_STATUS_OUT_OF_RANGE, "64 bytes at 1");
  free({buffer});
}

heddle_command_t copy(heddle_buffer_t* source, uint64_t from, heddle_buffer_t* target, uint64_t to, uint64_t length) {
  heddle_command_t made = {};
  made.kind = HEDDLE_COMMAND_COPY;
  made.as.copy = {source, target, from, to, length};
  return made;
}
heddle_command_t fill(heddle_buffer_t* target, uint64_t offset, uint64_t length, uint64_t pattern, uint32_t bytes) {
  heddle_command_t made = {};
  made.kind = HEDDLE_COMMAND_FILL;
  made.as.fill = {target, offset, length, pattern, bytes, 0};
  return made;
}

TEST_P(Driver, CopiesInsideOneBufferAndBetweenTwo) {
  heddle_buffer_t* a = driver.make_filled(ramp(1000, 1));
  heddle_buffer_t* b = driver.make_filled(ramp(1000, 0));
  ASSERT_OK(driver.run({copy(a, 0, b, 400, 4 * 100), barrier(), copy(b, 400, b, 2000, 400)}));
  const std::vector<float> values = driver.values_of<float>(b, 1000);
  EXPECT_EQ(values[199], 99);
  EXPECT_EQ(values[599], 99);
  EXPECT_EQ(values[99], 0);
  free({a, b});
}

TEST_P(Driver, RejectsOverlappingCopies) {
  heddle_buffer_t* a = driver.make_buffer(100);
  EXPECT_FAILS(driver.run({copy(a, 0, a, 10, 11)}), HEDDLE_STATUS_INVALID_ARGUMENT, "overlap");
  EXPECT_OK(driver.run({copy(a, 0, a, 10, 10)}));
  EXPECT_FAILS(driver.run({copy(a, 0, a, 95, 10)}), HEDDLE_STATUS_OUT_OF_RANGE, "100 bytes");
  EXPECT_FAILS(driver.run({copy(a, UINT64_MAX - 5, a, 0, 10)}), HEDDLE_STATUS_OUT_OF_RANGE, "");
  free({a});
}

TEST_P(Driver, FillsWithEveryPatternAndATail) {
  for (uint32_t bytes : {1u, 2u, 4u, 8u}) {
    for (uint64_t length : {0ull, 1ull, 7ull, 64ull, 1001ull, 2500003ull}) {
      const uint64_t pattern = 0x8877665544332211u;
      heddle_buffer_t* buffer = driver.make_filled(std::vector<uint8_t>(length + 16, 0xee));
      ASSERT_OK(driver.run({fill(buffer, 8, length, pattern, bytes)}));
      const std::vector<uint8_t> got = driver.values_of<uint8_t>(buffer, length + 16);
      EXPECT_EQ(got[7], 0xee);
      EXPECT_EQ(got[8 + length], 0xee);
      bool same = true;
      for (uint64_t i = 0; i < length; ++i) same = same && got[8 + i] == static_cast<uint8_t>(pattern >> (8 * (i % bytes)));
      EXPECT_TRUE(same) << bytes << " bytes, length " << length;
      free({buffer});
    }
  }
  heddle_buffer_t* buffer = driver.make_buffer(16);
  EXPECT_FAILS(driver.run({fill(buffer, 0, 16, 0, 3)}), HEDDLE_STATUS_INVALID_ARGUMENT, "pattern of 3");
  free({buffer});
}

TEST_P(Driver, CapturesAnUpdatesSource) {
  heddle_buffer_t* buffer = driver.make_filled(std::vector<uint32_t>(4, 0));
  Kernels kernels(&driver);
  std::vector<uint32_t> source = {1, 2, 3, 4};
  heddle_command_t update = {};
  update.kind = HEDDLE_COMMAND_UPDATE;
  update.as.update = {buffer, 0, 16, source.data()};
  heddle_timeline_t* timeline = driver.make_timeline();
  heddle_buffer_t* out = driver.make_buffer(400);
  const std::vector<heddle_binding_t> bindings = {{out, 0, 400}};
  const std::vector<int64_t> constants = {20};
  // The slow kernel keeps the list from running in this thread before the source changes.
  ASSERT_OK(driver.submit({kernels.command(kSlow, bindings, constants, 100), barrier(), update}, {}, {{timeline, 1}}));
  source.assign(4, 99);
  EXPECT_TRUE(driver.wait(timeline, 1).ok());
  EXPECT_EQ(driver.values_of<uint32_t>(buffer, 4), (std::vector<uint32_t>{1, 2, 3, 4}));
  driver.timeline_api->destroy(timeline);
  free({buffer, out});
}

TEST_P(Driver, CopiesRowsAtStrides) {
  std::vector<uint8_t> bytes(100);
  std::iota(bytes.begin(), bytes.end(), 0);
  heddle_buffer_t* source = driver.make_filled(bytes);
  heddle_buffer_t* target = driver.make_filled(std::vector<uint8_t>(100, 0xff));
  const heddle_binding_t from = {source, 5, 0}, to = {target, 2, 0};
  heddle_command_t command = {};
  command.kind = HEDDLE_COMMAND_COPY_2D;
  command.as.copy_2d = {&from, &to, 20, 10, 4, 3};
  ASSERT_OK(driver.run({command}));
  const std::vector<uint8_t> got = driver.values_of<uint8_t>(target, 100);
  EXPECT_EQ(got[2], 5);
  EXPECT_EQ(got[5], 8);
  EXPECT_EQ(got[6], 0xff);
  EXPECT_EQ(got[12], 25);
  EXPECT_EQ(got[22], 45);
  command.as.copy_2d.rows = 6;
  EXPECT_FAILS(driver.run({command}), HEDDLE_STATUS_OUT_OF_RANGE, "100 bytes");
  command.as.copy_2d.rows = UINT64_MAX;
  EXPECT_FAILS(driver.run({command}), HEDDLE_STATUS_OUT_OF_RANGE, "2^64");
  free({source, target});
}

// --------------------------------------------------------------------------------------------------------------- dispatch

TEST_P(Driver, RunsAKernelOverAllWorkgroups) {
  Kernels kernels(&driver);
  const size_t count = 100000;
  heddle_buffer_t* a = driver.make_filled(ramp(count, 1));
  heddle_buffer_t* b = driver.make_filled(ramp(count, 2));
  heddle_buffer_t* out = driver.make_buffer(count * 4);
  const std::vector<heddle_binding_t> bindings = {{a, 0, count * 4}, {b, 0, count * 4}, {out, 0, count * 4}};
  const std::vector<int64_t> constants = {static_cast<int64_t>(count), 128};
  ASSERT_OK(driver.run({kernels.command(kAddF32, bindings, constants, static_cast<uint32_t>((count + 127) / 128))}));
  const std::vector<float> got = driver.values_of<float>(out, count);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(got[i], static_cast<float>(i) * 3) << i;
  free({a, b, out});
}

TEST_P(Driver, RunsEachWorkgroupOnce) {
  Kernels kernels(&driver);
  for (uint32_t grid : {1u, 2u, 3u, 5u, 17u, 1000u, 99991u}) {
    heddle_buffer_t* counts = driver.make_filled(std::vector<uint32_t>(grid, 0));
    const std::vector<heddle_binding_t> bindings = {{counts, 0, grid * 4ull}};
    ASSERT_OK(driver.run({kernels.command(kCountWorkgroups, bindings, {}, grid)}));
    EXPECT_EQ(driver.values_of<uint32_t>(counts, grid), std::vector<uint32_t>(grid, 1)) << grid;
    free({counts});
  }
}

TEST_P(Driver, HandsTheGridToTheKernel) {
  Kernels kernels(&driver);
  heddle_buffer_t* sums = driver.make_filled(std::vector<uint64_t>(1, 0));
  const std::vector<heddle_binding_t> bindings = {{sums, 0, 8}};
  ASSERT_OK(driver.run({kernels.command(kReadGrid, bindings, {}, 2, 3, 4)}));
  EXPECT_EQ(driver.values_of<uint64_t>(sums, 1)[0], 1004003002u);
  free({sums});
}

TEST_P(Driver, KeepsTheOrderOfAChainAcrossBarriers) {
  Kernels kernels(&driver);
  for (Kernel kind : {kChain, kChainUnknownCost}) {
    heddle_buffer_t* value = driver.make_filled(std::vector<uint64_t>(1, 1));
    const std::vector<heddle_binding_t> bindings = {{value, 0, 8}};
    std::vector<std::vector<int64_t>> constants;
    for (int64_t i = 0; i < 100; ++i) constants.push_back({i});
    std::vector<heddle_command_t> commands;
    uint64_t expected = 1;
    for (int i = 0; i < 100; ++i) {
      commands.push_back(kernels.command(kind, bindings, constants[static_cast<size_t>(i)], 1));
      commands.push_back(barrier());
      expected = expected * 3 + static_cast<uint64_t>(i);
    }
    const uint64_t before = driver.statistics().dispatches;
    ASSERT_OK(driver.run(commands));
    EXPECT_EQ(driver.values_of<uint64_t>(value, 1)[0], expected);
    EXPECT_EQ(driver.statistics().dispatches, before + 100);
    free({value});
  }
}

TEST_P(Driver, ZeroWorkgroupsStillSignal) {
  Kernels kernels(&driver);
  heddle_timeline_t* timeline = driver.make_timeline();
  heddle_buffer_t* counts = driver.make_filled(std::vector<uint32_t>(1, 0));
  const std::vector<heddle_binding_t> bindings = {{counts, 0, 4}};
  ASSERT_OK(driver.submit({kernels.command(kCountWorkgroups, bindings, {}, 5, 0, 5)}, {}, {{timeline, 1}}));
  EXPECT_TRUE(driver.wait(timeline, 1).ok());
  EXPECT_EQ(driver.values_of<uint32_t>(counts, 1)[0], 0u);
  driver.timeline_api->destroy(timeline);
  free({counts});
}

TEST_P(Driver, GivesEachWorkerItsOwnWorkspace) {
  Kernels kernels(&driver);
  heddle_buffer_t* out = driver.make_filled(std::vector<uint32_t>(5000, 0));
  const std::vector<heddle_binding_t> bindings = {{out, 0, 20000}};
  ASSERT_OK(driver.run({kernels.command(kUseWorkspace, bindings, {}, 5000)}));
  EXPECT_EQ(driver.values_of<uint32_t>(out, 5000), std::vector<uint32_t>(5000, 1));
  free({out});
}

TEST_P(Driver, RelocatesConstantTables) {
  Kernels kernels(&driver);
  heddle_buffer_t* out = driver.make_buffer(16);
  const std::vector<heddle_binding_t> bindings = {{out, 0, 16}};
  ASSERT_OK(driver.run({kernels.command(kReadTable, bindings, {}, 4)}));
  EXPECT_EQ(driver.values_of<uint32_t>(out, 4), (std::vector<uint32_t>{11, 22, 11, 22}));
  free({out});
}

TEST_P(Driver, KernelsSeeTheDefaultFloatStateAndCallersKeepTheirs) {
  Kernels kernels(&driver);
  heddle_buffer_t* out = driver.make_buffer(4 * 64);
  const std::vector<heddle_binding_t> bindings = {{out, 0, 4 * 64}};
  const std::vector<int64_t> zero = {0};
  std::fesetround(FE_UPWARD);
  _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, denormals are zero
  std::feclearexcept(FE_ALL_EXCEPT);
  const unsigned before = _mm_getcsr();
  errno = 4711;
  heddle_status_t* failure = driver.run({kernels.command(kReadMxcsr, bindings, {}, 64)});
  const int error = errno;
  heddle_buffer_t* other = driver.make_buffer(4);
  const std::vector<heddle_binding_t> other_bindings = {{other, 0, 4}};
  heddle_status_t* second = driver.run({kernels.command(kDirtyMxcsr, other_bindings, zero, 1)});
  const unsigned after = _mm_getcsr();
  _mm_setcsr(0x1f80);
  std::fesetround(FE_TONEAREST);
  EXPECT_OK(failure);
  EXPECT_OK(second);
  EXPECT_EQ(after, before);
  EXPECT_EQ(error, 4711);
  for (uint32_t state : driver.values_of<uint32_t>(out, 64)) EXPECT_EQ(state & 0xffc0u, 0x1f80u);
  free({out, other});
}

TEST_P(Driver, CopiesArgumentsAtEnqueue) {
  Kernels kernels(&driver);
  heddle_buffer_t* value = driver.make_filled(std::vector<uint64_t>(1, 0));
  heddle_buffer_t* flags = driver.make_buffer(400);
  heddle_timeline_t* timeline = driver.make_timeline();
  std::vector<heddle_binding_t> slow_bindings = {{flags, 0, 400}}, bindings = {{value, 0, 8}};
  std::vector<int64_t> slow_constants = {20}, constants = {5};
  ASSERT_OK(driver.submit(
      {kernels.command(kSlow, slow_bindings, slow_constants, 100), barrier(), kernels.command(kChain, bindings, constants, 1)}, {},
      {{timeline, 1}}));
  constants[0] = 99;
  bindings[0].offset = 8;
  slow_bindings[0] = {};
  slow_constants[0] = 0;
  EXPECT_TRUE(driver.wait(timeline, 1).ok());
  EXPECT_EQ(driver.values_of<uint64_t>(value, 1)[0], 5u);
  driver.timeline_api->destroy(timeline);
  free({value, flags});
}

TEST_P(Driver, RejectsWhatDoesNotFitTheEntry) {
  Kernels kernels(&driver);
  heddle_buffer_t* buffer = driver.make_buffer(64);
  const std::vector<heddle_binding_t> one = {{buffer, 0, 64}}, two = {{buffer, 0, 64}, {buffer, 0, 64}}, outside = {{buffer, 32, 33}},
                                      wrapped = {{buffer, UINT64_MAX, 2}}, missing = {{nullptr, 0, 8}};
  const std::vector<int64_t> none, constant = {1};
  auto grid = [&](uint32_t x, uint32_t y, uint32_t z) { return kernels.command(kCountWorkgroups, one, none, x, y, z); };
  EXPECT_FAILS(driver.run({kernels.command(kCountWorkgroups, two, none, 1)}), HEDDLE_STATUS_INVALID_ARGUMENT, "2 bindings");
  EXPECT_FAILS(driver.run({kernels.command(kCountWorkgroups, one, constant, 1)}), HEDDLE_STATUS_INVALID_ARGUMENT, "8 bytes of constants");
  EXPECT_FAILS(driver.run({barrier(), kernels.command(kCountWorkgroups, outside, none, 1)}), HEDDLE_STATUS_OUT_OF_RANGE,
               "command 1 (kernel 'count_workgroups', region 7)");
  EXPECT_FAILS(driver.run({kernels.command(kCountWorkgroups, wrapped, none, 1)}), HEDDLE_STATUS_OUT_OF_RANGE, "binding 0");
  EXPECT_FAILS(driver.run({kernels.command(kCountWorkgroups, missing, none, 1)}), HEDDLE_STATUS_OUT_OF_RANGE, "no buffer");
  EXPECT_FAILS(driver.run({grid(UINT32_MAX, 1, 1)}), HEDDLE_STATUS_OUT_OF_RANGE, "4294967295");
  EXPECT_FAILS(driver.run({grid(0x7fffffff, 0x7fffffff, 0x7fffffff)}), HEDDLE_STATUS_OUT_OF_RANGE, "grid");
  heddle_command_t no_entry = {};
  no_entry.kind = HEDDLE_COMMAND_DISPATCH;
  EXPECT_FAILS(driver.run({no_entry}), HEDDLE_STATUS_INVALID_ARGUMENT, "no entry");
  heddle_command_t unknown = {};
  unknown.kind = 77;
  EXPECT_FAILS(driver.run({unknown}), HEDDLE_STATUS_INVALID_ARGUMENT, "77");
  free({buffer});
}

TEST_P(Driver, AFailedSubmitChangesNothing) {
  Kernels kernels(&driver);
  heddle_buffer_t* counts = driver.make_filled(std::vector<uint32_t>(1, 0));
  heddle_timeline_t* timeline = driver.make_timeline();
  const std::vector<heddle_binding_t> good = {{counts, 0, 4}}, bad = {{counts, 0, 5}};
  const std::vector<int64_t> none;
  EXPECT_FAILS(driver.submit({kernels.command(kCountWorkgroups, good, none, 1), kernels.command(kCountWorkgroups, bad, none, 1)}, {},
                             {{timeline, 1}}),
               HEDDLE_STATUS_OUT_OF_RANGE, "command 1");
  EXPECT_EQ(driver.values_of<uint32_t>(counts, 1)[0], 0u);
  EXPECT_EQ(driver.wait(timeline, 1, 0).code(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  ASSERT_OK(driver.submit({kernels.command(kCountWorkgroups, good, none, 1)}, {}, {{timeline, 1}}));
  EXPECT_TRUE(driver.wait(timeline, 1).ok());
  driver.timeline_api->destroy(timeline);
  free({counts});
}

TEST_P(Driver, AKernelsFailurePoisonsTheSignals) {
  Kernels kernels(&driver);
  heddle_timeline_t* timeline = driver.make_timeline();
  const std::vector<heddle_binding_t> none;
  const std::vector<int64_t> constants = {13};
  ASSERT_OK(driver.submit({kernels.command(kFail, none, constants, 3)}, {}, {{timeline, 5}}));
  Result first = driver.wait(timeline, 5);
  EXPECT_EQ(first.code(), HEDDLE_STATUS_INTERNAL);
  EXPECT_NE(first.message().find("kernel 'fail'"), std::string::npos) << first.message();
  EXPECT_EQ(first.payload("region"), "7");
  // What waits for it fails with the same text and does not run.
  heddle_timeline_t* later = driver.make_timeline();
  ASSERT_OK(driver.submit({}, {{timeline, 5}}, {{later, 1}}));
  EXPECT_FAILS(driver.timeline_api->wait(std::vector<heddle_point_t>{{later, 1}}.data(), 1, HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE),
               HEDDLE_STATUS_INTERNAL, first.message());
  driver.timeline_api->destroy(timeline);
  driver.timeline_api->destroy(later);
}

TEST_P(Driver, RefusesUnknownFormatsTargetsAndKernels) {
  uint32_t rank = 99;
  ASSERT_OK(driver.dispatch_api->variant_rank(driver.device, string_of("ptx/1"), string_of("sm_90"), &rank));
  EXPECT_EQ(rank, 0u);
  ASSERT_OK(driver.dispatch_api->variant_rank(driver.device, string_of("x86_64-elf/1"), string_of("x86-64-v9"), &rank));
  EXPECT_EQ(rank, 0u);
  ASSERT_OK(driver.dispatch_api->variant_rank(driver.device, string_of("x86_64-elf/1"), string_of("x86-64-v3"), &rank));
  EXPECT_EQ(rank, 30u);

  const std::vector<char> image = kernel_image();
  heddle_entry_params_t entry = kernel_entries()[kNothing];
  heddle_executable_params_t params = {
      sizeof params,     1, string_of("x86_64-elf/1"), string_of("x86-64-v9"), image.data(), image.size(), &entry, sizeof entry,
      string_of("test"), {}};
  heddle_executable_t* executable = nullptr;
  EXPECT_FAILS(driver.dispatch_api->executable_load(driver.device, &params, &executable), HEDDLE_STATUS_FAILED_PRECONDITION, "x86-64-v9");
  params.target = string_of("x86-64-v3");
  entry.name = string_of("no_such_kernel");
  EXPECT_FAILS(driver.dispatch_api->executable_load(driver.device, &params, &executable), HEDDLE_STATUS_NOT_FOUND, "no_such_kernel");
  entry.name = string_of("nothing");
  params.code_bytes = 100;
  EXPECT_FAILS(driver.dispatch_api->executable_load(driver.device, &params, &executable), HEDDLE_STATUS_DATA_LOSS, "test");
  EXPECT_EQ(executable, nullptr);
}

TEST_P(Driver, LooksEntriesUpByIndex) {
  Kernels kernels(&driver);
  heddle_entry_t* entry = nullptr;
  EXPECT_FAILS(driver.dispatch_api->entry(kernels.executable(), 99, &entry), HEDDLE_STATUS_NOT_FOUND, "99");
  EXPECT_EQ(entry, nullptr);
}

TEST_P(Driver, KeepsTwoInstancesApart) {
  PluginHost other_host;
  {
    OpenDriver other(GetParam().path, &other_host);
    heddle_buffer_t* buffer = other.make_buffer(100);
    EXPECT_EQ(driver.statistics().bytes_allocated, 0u);
    EXPECT_EQ(other.statistics().bytes_allocated, 100u);
    other.buffer_api->free(buffer);
  }
}

}  // namespace
}  // namespace heddle::test
