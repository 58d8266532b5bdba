// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.cuda on a device: devices, buffers, transfers, copies and fills, and what it leaves of the caller's CUDA state.
#include <algorithm>
#include <numeric>
#include <thread>

#include "cuda_case.h"

namespace heddle::test {
namespace {

using CudaDriver = Cuda;
using CudaTransfers = Cuda;

// ---------------------------------------------------------------------------------------------------------------- devices

TEST_F(CudaDriver, DescribesItsDevice) {
  EXPECT_EQ(text_of(description.family), "cuda");
  EXPECT_FALSE(text_of(description.name).empty());
  EXPECT_GE(description.compute_units, 1u);
  EXPECT_GE(description.memory_bytes, uint64_t{1} << 30);
  EXPECT_EQ(description.min_alignment_bytes, 256u);
  EXPECT_GE(description.shared_memory_bytes, 48u << 10);
  EXPECT_EQ(description.subgroup_size, 32u);
  ASSERT_EQ(description.code_format_count, 2u);
  EXPECT_EQ(text_of(description.code_formats[0]), "cubin/1");
  EXPECT_EQ(text_of(description.code_formats[1]), "ptx/1");
  bool any = false;
  for (uint8_t byte : description.uuid) any = any || byte != 0;
  EXPECT_TRUE(any);
}

TEST_F(CudaDriver, RejectsAnOrdinalThatIsNotThere) {
  heddle_device_t* device = nullptr;
  heddle_device_open_params_t params = {sizeof params, 0, &driver().api, {}, -1, 0};
  EXPECT_FAILS(driver().device_api->open(driver().instance(), 99, &params, &device), HEDDLE_STATUS_OUT_OF_RANGE, "99");
  EXPECT_EQ(device, nullptr);
}

TEST_F(CudaDriver, OpensDevicesAgainAndAgain) {
  uint32_t count = 0;
  ASSERT_OK(driver().device_api->count(driver().instance(), &count));
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<heddle_device_t*> devices;
    for (uint32_t i = 0; i < 3; ++i) devices.push_back(driver().open(i % std::min(count, 3u)));
    for (size_t i = 0; i < devices.size(); ++i) {
      ASSERT_TRUE(devices[i]);
      heddle_queue_t* queue = driver().make_queue(devices[i]);
      heddle_buffer_t* buffer = driver().make_buffer(1000, HEDDLE_MEMORY_DEVICE, devices[i]);
      heddle_timeline_t* timeline = driver().make_timeline(0, devices[i]);
      EXPECT_OK(driver().submit({fill(buffer, 0, 1000, i, 1)}, {}, {{timeline, 1}}, queue));
      EXPECT_TRUE(driver().wait(timeline, 1, kPatience).ok());
      EXPECT_FAILS(driver().device_api->close(devices[i]), HEDDLE_STATUS_FAILED_PRECONDITION, "1 queue, 1 buffer, 1 timeline");
      driver().timeline_api->destroy(timeline);
      driver().buffer_api->free(buffer);
      EXPECT_OK(driver().device_api->queue_destroy(queue));
    }
    for (size_t i : {1, 0, 2}) EXPECT_OK(driver().device_api->close(devices[i]));
  }
  expect_works();
  EXPECT_FAILS(driver().plugin()->shutdown(driver().instance()), HEDDLE_STATUS_FAILED_PRECONDITION, "HD-L-01");
}

TEST_F(CudaDriver, InstancesComeAndGo) {
  for (int i = 0; i < 3; ++i) {
    close();
    open();
    if (HasFatalFailure()) return;
    expect_works();
  }
}

TEST_F(CudaDriver, WorksOnTwoDevicesOfOneOrdinal) {
  heddle_device_t* other = driver().open(0);
  heddle_queue_t* queue = driver().make_queue(other);
  const std::vector<uint8_t> bytes = noise(1 << 20);
  heddle_buffer_t* here = driver().make_filled(bytes);
  heddle_buffer_t* there = driver().make_buffer(bytes.size(), HEDDLE_MEMORY_DEVICE, other);
  heddle_timeline_t* timeline = driver().make_timeline(0, other);
  const heddle_point_t point = {timeline, 1};
  const heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
  const heddle_binding_t from = {here, 0, bytes.size()}, to = {there, 0, bytes.size()};
  EXPECT_OK(driver().transfer_api->peer_copy(queue, &sync, &from, &to));
  EXPECT_TRUE(driver().wait(timeline, 1, kPatience).ok());
  EXPECT_EQ(driver().values_of<uint8_t>(there, bytes.size()), bytes);
  driver().timeline_api->destroy(timeline);
  free({here, there});
  EXPECT_OK(driver().device_api->queue_destroy(queue));
  EXPECT_OK(driver().device_api->close(other));
}

TEST_F(CudaDriver, AnswersFailedPreconditionInAForkedChild) {
  host->forked_child = true;
  heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, 16, 0};
  heddle_buffer_t* buffer = nullptr;
  EXPECT_FAILS(driver().buffer_api->allocate(driver().device, &params, &buffer), HEDDLE_STATUS_FAILED_PRECONDITION, "HD-T-01");
  EXPECT_FAILS(driver().submit({}, {}, {}), HEDDLE_STATUS_FAILED_PRECONDITION, "HD-T-01");
  host->forked_child = false;
}

// Everything that enters the driver, from a thread that never used CUDA and from one with a context of its own.
TEST_F(CudaDriver, LeavesTheCallersContextAlone) {
  Libcuda cuda;
  int device = 0;
  ASSERT_EQ(cuda.cuDeviceGet(&device, 0), 0);
  std::thread([&] {
    void* own = nullptr;
    for (bool has_context : {false, true}) {
      if (has_context) {
        ASSERT_EQ(cuda.cuCtxCreate(&own, 0, device), 0);
      }
      auto unchanged = [&](const char* after) {
        void* now = nullptr;
        EXPECT_EQ(cuda.cuCtxGetCurrent(&now), 0);
        EXPECT_EQ(now, own) << after;
      };
      unchanged("nothing");
      heddle_device_t* opened = driver().open(0);
      unchanged("open");
      heddle_queue_t* queue = driver().make_queue(opened);
      unchanged("queue_create");
      heddle_buffer_t* buffer = driver().make_buffer(4096, HEDDLE_MEMORY_DEVICE, opened);
      heddle_buffer_t* pinned = driver().make_buffer(4096, HEDDLE_MEMORY_PINNED, opened);
      unchanged("allocate");
      heddle_timeline_t* timeline = driver().make_timeline(0, opened);
      const uint64_t one = 1;
      EXPECT_OK(driver().submit({fill(buffer, 0, 4096, 7, 1), barrier(), update(buffer, 0, &one, 8)}, {}, {{timeline, 1}}, queue));
      unchanged("submit");
      EXPECT_TRUE(driver().wait(timeline, 1, kPatience).ok());
      unchanged("wait");
      {
        Loaded chain(&driver(), chain_facts(), "sm_80", opened);
        unchanged("executable_load");
        const std::vector<heddle_binding_t> bindings = {{buffer, 0, 8}};
        const std::vector<int64_t> constants = {4};
        const heddle_command_t command = chain.command(bindings, constants);
        EXPECT_OK(driver().submit({command}, {}, {{timeline, 2}}, queue));
        unchanged("a dispatch");
        const uint8_t dynamic[] = {1};
        heddle_recording_t* recording = nullptr;
        EXPECT_OK(driver().dispatch_api->record(queue, &command, 1, dynamic, &recording));
        unchanged("record");
        EXPECT_TRUE(driver().wait(timeline, 2, kPatience).ok());
        const heddle_point_t third = {timeline, 3};
        const heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &third};
        const heddle_binding_t moved = {buffer, 8, 8};
        if (recording) EXPECT_OK(driver().dispatch_api->replay(recording, &moved, 1, &sync));
        unchanged("replay");
        EXPECT_TRUE(driver().wait(timeline, 3, kPatience).ok());
        driver().dispatch_api->recording_free(recording);
        unchanged("recording_free");
      }
      unchanged("executable_unload");
      std::vector<char> large(1 << 20);
      uint64_t value = 3;
      for (uint64_t size : {uint64_t{100}, uint64_t{4096}}) {
        const heddle_binding_t binding = {buffer, 0, size};
        const heddle_point_t up = {timeline, ++value}, down = {timeline, ++value};
        const heddle_sync_t up_sync = {sizeof up_sync, 0, 1, 0, nullptr, &up}, down_sync = {sizeof down_sync, 1, 1, 0, &up, &down};
        EXPECT_OK(driver().transfer_api->upload(queue, &up_sync, large.data(), &binding));
        unchanged("upload");
        EXPECT_OK(driver().transfer_api->download(queue, &down_sync, &binding, large.data()));
        unchanged("download");
        EXPECT_TRUE(driver().wait(timeline, value, kPatience).ok());
      }
      heddle_device_statistics_t statistics = {};
      statistics.struct_size = sizeof statistics;
      EXPECT_OK(driver().device_api->statistics(opened, &statistics));
      unchanged("statistics");
      heddle_buffer_t* imported = nullptr;
      EXPECT_OK(driver().buffer_api->import_host(opened, large.data(), large.size(), nullptr, nullptr, &imported));
      unchanged("import_host");
      driver().timeline_api->destroy(timeline);
      free({buffer, pinned, imported});
      unchanged("free");
      EXPECT_OK(driver().device_api->queue_destroy(queue));
      unchanged("queue_destroy");
      EXPECT_OK(driver().device_api->close(opened));
      unchanged("close");
    }
    EXPECT_EQ(cuda.cuCtxDestroy(own), 0);
  }).join();
}

// ---------------------------------------------------------------------------------------------------------------- buffers

TEST_F(CudaDriver, AllocatesEverySizeClassAligned) {
  for (uint32_t memory : {HEDDLE_MEMORY_DEVICE, HEDDLE_MEMORY_PINNED, HEDDLE_MEMORY_HOST_VISIBLE}) {
    for (uint64_t size : {0ull, 1ull, 255ull, 256ull, 4097ull, 300000ull, 50000000ull}) {
      for (uint64_t alignment : {0ull, 1ull, 256ull, 4096ull, 65536ull, 4ull << 20}) {
        heddle_buffer_params_t params = {sizeof params, memory, size, alignment};
        heddle_buffer_t* buffer = nullptr;
        ASSERT_OK(driver().buffer_api->allocate(driver().device, &params, &buffer));
        const heddle_buffer_properties_t found = properties(buffer);
        EXPECT_EQ(found.size_bytes, size);
        EXPECT_EQ(found.device_address % std::max<uint64_t>(alignment, 256), 0u) << size << " at " << alignment;
        EXPECT_EQ(found.memory & memory, memory);
        EXPECT_EQ(found.device_address != 0, size != 0);
        if (size && memory != HEDDLE_MEMORY_DEVICE) {
          char* pointer = mapped(buffer, size);
          pointer[0] = pointer[size - 1] = 3;
        }
        if (size) EXPECT_OK(driver().run({fill(buffer, 0, size, 9, 1)}));
        free({buffer});
      }
    }
  }
  EXPECT_EQ(driver().statistics().bytes_allocated, 0u);
}

TEST_F(CudaDriver, RefusesWhatNoBufferIs) {
  heddle_buffer_t* buffer = nullptr;
  auto allocate = [&](uint32_t memory, uint64_t size, uint64_t alignment) {
    heddle_buffer_params_t params = {sizeof params, memory, size, alignment};
    return driver().buffer_api->allocate(driver().device, &params, &buffer);
  };
  for (uint64_t alignment : {3ull, 48ull, 5000ull}) {
    EXPECT_FAILS(allocate(HEDDLE_MEMORY_DEVICE, 64, alignment), HEDDLE_STATUS_INVALID_ARGUMENT, std::to_string(alignment));
  }
  EXPECT_FAILS(allocate(HEDDLE_MEMORY_DEVICE | HEDDLE_MEMORY_PINNED, 64, 0), HEDDLE_STATUS_INVALID_ARGUMENT, "ask for one");
  EXPECT_FAILS(allocate(1024, 64, 0), HEDDLE_STATUS_INVALID_ARGUMENT, "unknown");
  for (uint64_t size : {uint64_t{1} << 60, UINT64_MAX, UINT64_MAX - 4095}) {
    EXPECT_FAILS(allocate(HEDDLE_MEMORY_DEVICE, size, 0), HEDDLE_STATUS_RESOURCE_EXHAUSTED, std::to_string(size));
    EXPECT_FAILS(allocate(HEDDLE_MEMORY_PINNED, size, 0), HEDDLE_STATUS_RESOURCE_EXHAUSTED, std::to_string(size));
    EXPECT_EQ(buffer, nullptr);
  }
  heddle_buffer_t* hidden = driver().make_buffer(100);
  void* pointer = nullptr;
  EXPECT_FAILS(driver().buffer_api->map(hidden, 0, 1, HEDDLE_MAP_READ, &pointer), HEDDLE_STATUS_FAILED_PRECONDITION, "host");
  heddle_buffer_t* visible = driver().make_buffer(100, HEDDLE_MEMORY_HOST_VISIBLE);
  EXPECT_FAILS(driver().buffer_api->map(visible, 10, 91, HEDDLE_MAP_READ, &pointer), HEDDLE_STATUS_OUT_OF_RANGE, "100 bytes");
  EXPECT_FAILS(driver().buffer_api->map(visible, 0, 1, 0, &pointer), HEDDLE_STATUS_INVALID_ARGUMENT, "flags");
  free({hidden, visible});
}

TEST_F(CudaDriver, HostAndDeviceSeePinnedMemory) {
  heddle_buffer_t* pinned = driver().make_buffer(100000, HEDDLE_MEMORY_PINNED | HEDDLE_MEMORY_HOST_VISIBLE);
  heddle_buffer_t* device = driver().make_buffer(100000);
  char* pointer = mapped(pinned, 100000);
  for (int i = 0; i < 100000; ++i) pointer[i] = static_cast<char>(i * 7);
  EXPECT_OK(driver().buffer_api->flush(pinned, 0, 100000));
  ASSERT_OK(driver().run({copy(pinned, 0, device, 0, 100000), barrier(), copy(device, 1, pinned, 0, 99999)}));
  EXPECT_OK(driver().buffer_api->invalidate(pinned, 0, 100000));
  bool same = true;
  for (int i = 0; i < 99999; ++i) same = same && pointer[i] == static_cast<char>((i + 1) * 7);
  EXPECT_TRUE(same);
  EXPECT_OK(driver().buffer_api->unmap(pinned));
  free({pinned, device});
}

TEST_F(CudaDriver, ImportsHostMemoryAndReleasesItOnce) {
  std::vector<uint8_t> memory = noise(3000001);
  const std::vector<uint8_t> before = memory;
  int released = 0;
  auto release = [](void* context) { ++*static_cast<int*>(context); };
  heddle_buffer_t *buffer = nullptr, *again = nullptr;
  ASSERT_OK(driver().buffer_api->import_host(driver().device, memory.data(), memory.size(), release, &released, &buffer));
  EXPECT_EQ(driver().values_of<uint8_t>(buffer, memory.size()), before);
  ASSERT_OK(driver().run({fill(buffer, 1, memory.size() - 2, 0xabcd, 2)}));
  EXPECT_EQ(memory.front(), before.front());
  EXPECT_EQ(memory[1], 0xcd);
  EXPECT_EQ(memory[2], 0xab);
  EXPECT_EQ(memory.back(), before.back());
  // The same memory a second time.
  ASSERT_OK(driver().buffer_api->import_host(driver().device, memory.data(), memory.size(), release, &released, &again));
  EXPECT_EQ(driver().values_of<uint8_t>(again, 2)[1], 0xcd);
  free({again});
  EXPECT_EQ(released, 1);
  EXPECT_EQ(driver().values_of<uint8_t>(buffer, 2)[1], 0xcd) << "the first import outlives the second";
  free({buffer});
  EXPECT_EQ(released, 2);
  EXPECT_FAILS(driver().buffer_api->import_host(driver().device, nullptr, 4, release, &released, &buffer), HEDDLE_STATUS_INVALID_ARGUMENT,
               "null");
  EXPECT_EQ(released, 3);
  ASSERT_OK(driver().buffer_api->import_host(driver().device, nullptr, 0, release, &released, &buffer));
  free({buffer});
  EXPECT_EQ(released, 4);
}

// What the driver says that it holds is what the device lost, within what others may take meanwhile.
TEST_F(CudaDriver, ItsStatisticsAreHonest) {
  Libcuda cuda;
  int device = 0;
  void* context = nullptr;
  ASSERT_EQ(cuda.cuDeviceGet(&device, 0), 0);
  ASSERT_EQ(cuda.cuDevicePrimaryCtxRetain(&context, device), 0);
  ASSERT_EQ(cuda.cuCtxSetCurrent(context), 0);
  auto used = [&]() -> int64_t {
    size_t free_bytes = 0, total = 0;
    EXPECT_EQ(cuda.cuMemGetInfo(&free_bytes, &total), 0);
    return static_cast<int64_t>(total - free_bytes);
  };
  auto held = [&]() -> int64_t {
    const heddle_device_statistics_t now = driver().statistics();
    return static_cast<int64_t>(now.bytes_allocated + now.bytes_reserved);
  };
  constexpr int64_t kSlack = int64_t{96} << 20;
  const int64_t used_before = used(), held_before = held();
  std::vector<heddle_buffer_t*> buffers;
  uint64_t asked = 0;
  for (uint64_t i = 0; i < 40; ++i) {
    const uint64_t size = (uint64_t{16} << 20) + i * 100003;
    buffers.push_back(driver().make_buffer(size));
    asked += size;
    EXPECT_EQ(driver().statistics().bytes_allocated, asked);
  }
  EXPECT_LT(std::abs((used() - used_before) - (held() - held_before)), kSlack);
  EXPECT_GE(used() - used_before, static_cast<int64_t>(asked) - kSlack);
  for (heddle_buffer_t* buffer : buffers) free({buffer});
  EXPECT_EQ(driver().statistics().bytes_allocated, 0u);
  EXPECT_LT(std::abs((used() - used_before) - (held() - held_before)), kSlack);
  heddle_buffer_t* pinned = driver().make_buffer(10000, HEDDLE_MEMORY_PINNED);
  EXPECT_EQ(driver().statistics().bytes_allocated, 10000u);
  free({pinned});
  EXPECT_EQ(cuda.cuCtxSetCurrent(nullptr), 0);
  EXPECT_EQ(cuda.cuDevicePrimaryCtxRelease(device), 0);
}

TEST_F(CudaDriver, SurvivesExhaustedHostMemory) {
  heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, 64, 0};
  heddle_buffer_t* buffer = nullptr;
  host->fail_allocation(0);
  EXPECT_FAILS(driver().buffer_api->allocate(driver().device, &params, &buffer), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "exhausted");
  heddle_timeline_t* timeline = nullptr;
  host->fail_allocation(0);
  EXPECT_FAILS(driver().timeline_api->create(driver().device, 0, &timeline), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "exhausted");
  host->fail_allocation(-1);
  expect_works();
}

// -------------------------------------------------------------------------------------------------------------- transfers

TEST_F(CudaTransfers, MoveEverySizeFromOrdinaryMemory) {
  for (uint64_t size : {1ull, 63ull, 4096ull, 100001ull, 262144ull, 262145ull, 1000000ull, 1048576ull, 9000001ull, 100000000ull}) {
    const std::vector<uint8_t> bytes = noise(size, static_cast<uint32_t>(size));
    heddle_buffer_t* buffer = driver().make_buffer(size + 3);
    driver().write(buffer, 3, bytes.data(), size);
    std::vector<uint8_t> back(size);
    driver().read(buffer, 3, back.data(), size);
    EXPECT_TRUE(back == bytes) << size;
    free({buffer});
  }
}

TEST_F(CudaTransfers, MoveEverySizeFromPinnedMemory) {
  constexpr uint64_t kLargest = 100000000;
  heddle_buffer_t* source = driver().make_buffer(kLargest, HEDDLE_MEMORY_PINNED);
  heddle_buffer_t* target = driver().make_buffer(kLargest, HEDDLE_MEMORY_PINNED);
  const std::vector<uint8_t> bytes = noise(kLargest);
  char *from = mapped(source, kLargest), *to = mapped(target, kLargest);
  std::memcpy(from, bytes.data(), kLargest);
  for (uint64_t size : {uint64_t{1}, uint64_t{4095}, uint64_t{1} << 20, kLargest}) {
    heddle_buffer_t* buffer = driver().make_buffer(size + 1);
    driver().write(buffer, 1, from, size);
    driver().read(buffer, 1, to, size);
    EXPECT_EQ(std::memcmp(to, bytes.data(), size), 0) << size;
    std::memset(to, 0, size);
    free({buffer});
  }
  // A caller's own pinned memory.
  Libcuda cuda;
  heddle_buffer_t* buffer = driver().make_buffer(1 << 20);
  std::thread([&] {
    int device = 0;
    void *context = nullptr, *own = nullptr;
    ASSERT_EQ(cuda.cuDeviceGet(&device, 0), 0);
    ASSERT_EQ(cuda.cuDevicePrimaryCtxRetain(&context, device), 0);
    ASSERT_EQ(cuda.cuCtxSetCurrent(context), 0);
    ASSERT_EQ(cuda.cuMemHostAlloc(&own, 1 << 20, 0), 0);
    std::memcpy(own, bytes.data(), 1 << 20);
    driver().write(buffer, 0, own, 1 << 20);
    EXPECT_EQ(cuda.cuMemFreeHost(own), 0);
    EXPECT_EQ(cuda.cuDevicePrimaryCtxRelease(device), 0);
  }).join();
  EXPECT_EQ(driver().values_of<uint8_t>(buffer, 1 << 20)[12345], bytes[12345]);
  free({buffer, source, target});
}

TEST_F(CudaTransfers, MoveBetweenOrdinaryMemoryAndPinnedBuffers) {
  for (uint64_t size : {1000ull, 5000000ull}) {
    const std::vector<uint8_t> bytes = noise(size);
    heddle_buffer_t* buffer = driver().make_buffer(size, HEDDLE_MEMORY_HOST_VISIBLE);
    driver().write(buffer, 0, bytes.data(), size);
    EXPECT_EQ(std::memcmp(mapped(buffer, size), bytes.data(), size), 0);
    EXPECT_TRUE(driver().values_of<uint8_t>(buffer, size) == bytes);
    free({buffer});
  }
}

TEST_F(CudaTransfers, OverlapFromSeveralThreads) {
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const uint64_t size = 3000000 + t;
      const std::vector<uint8_t> bytes = noise(size, t);
      heddle_buffer_t* buffer = driver().make_buffer(size);
      for (int i = 0; i < 5; ++i) {
        driver().write(buffer, 0, bytes.data(), size);
        EXPECT_TRUE(driver().values_of<uint8_t>(buffer, size) == bytes);
      }
      free({buffer});
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CudaTransfers, RejectWhatIsOutOfRange) {
  heddle_buffer_t* buffer = driver().make_buffer(64);
  char bytes[64] = {};
  const heddle_sync_t sync = {sizeof sync, 0, 0, 0, nullptr, nullptr};
  const heddle_binding_t binding = {buffer, 1, 64}, none = {nullptr, 0, 4}, whole = {buffer, 0, 64};
  EXPECT_FAILS(driver().transfer_api->upload(driver().queue, &sync, bytes, &binding), HEDDLE_STATUS_OUT_OF_RANGE, "64 bytes at 1");
  EXPECT_FAILS(driver().transfer_api->download(driver().queue, &sync, &binding, bytes), HEDDLE_STATUS_OUT_OF_RANGE, "64 bytes at 1");
  EXPECT_FAILS(driver().transfer_api->upload(driver().queue, &sync, bytes, &none), HEDDLE_STATUS_INVALID_ARGUMENT, "no buffer");
  EXPECT_FAILS(driver().transfer_api->upload(driver().queue, &sync, nullptr, &whole), HEDDLE_STATUS_INVALID_ARGUMENT, "null");
  free({buffer});
}

TEST_F(CudaTransfers, AQueueEndsAfterItsTransfers) {
  const uint64_t size = 100000000;
  const std::vector<uint8_t> bytes = noise(size);
  heddle_buffer_t* buffer = driver().make_buffer(size);
  heddle_timeline_t* timeline = driver().make_timeline();
  heddle_queue_t* queue = driver().make_queue(driver().device);
  const heddle_point_t point = {timeline, 1};
  const heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
  const heddle_binding_t binding = {buffer, 0, size};
  ASSERT_OK(driver().transfer_api->upload(queue, &sync, bytes.data(), &binding));
  EXPECT_OK(driver().device_api->queue_destroy(queue));
  EXPECT_TRUE(driver().wait(timeline, 1, 0).ok()) << "queue_destroy waits for what is enqueued";
  EXPECT_TRUE(driver().wait(timeline, 1, kPatience).ok());
  driver().timeline_api->destroy(timeline);
  free({buffer});
}

// --------------------------------------------------------------------------------------------------------------- commands

TEST_F(CudaDriver, CopiesInsideOneBufferAndBetweenTwo) {
  const std::vector<uint8_t> bytes = noise(100000);
  heddle_buffer_t* a = driver().make_filled(bytes);
  heddle_buffer_t* b = driver().make_filled(std::vector<uint8_t>(100000, 0));
  ASSERT_OK(driver().run({copy(a, 1, b, 3, 999), barrier(), copy(b, 3, b, 50001, 999), copy(a, 0, b, 99999, 1), copy(a, 0, a, 0, 0)}));
  const std::vector<uint8_t> got = driver().values_of<uint8_t>(b, 100000);
  EXPECT_TRUE(std::equal(bytes.begin() + 1, bytes.begin() + 1000, got.begin() + 3));
  EXPECT_TRUE(std::equal(bytes.begin() + 1, bytes.begin() + 1000, got.begin() + 50001));
  EXPECT_EQ(got[2], 0);
  EXPECT_EQ(got[1002], 0);
  EXPECT_EQ(got[99999], bytes[0]);
  EXPECT_FAILS(driver().run({copy(a, 0, a, 10, 11)}), HEDDLE_STATUS_INVALID_ARGUMENT, "overlap");
  EXPECT_OK(driver().run({copy(a, 0, a, 10, 10)}));
  EXPECT_FAILS(driver().run({copy(a, 0, b, 99995, 10)}), HEDDLE_STATUS_OUT_OF_RANGE, "100000 bytes");
  EXPECT_FAILS(driver().run({copy(a, UINT64_MAX - 5, b, 0, 10)}), HEDDLE_STATUS_OUT_OF_RANGE, "");
  free({a, b});
}

TEST_F(CudaDriver, FillsWithEveryPatternFromEveryPlace) {
  for (uint32_t bytes : {1u, 2u, 4u, 8u}) {
    for (uint64_t length : {0ull, 1ull, 7ull, 8ull, 13ull, 64ull, 1001ull, 250003ull}) {
      for (uint64_t offset : {8ull, 9ull, 10ull, 12ull}) {
        for (uint64_t pattern : {0x8877665544332211ull, 0x1111111111111111ull, 0x2233223322332233ull, 0x4455667744556677ull}) {
          heddle_buffer_t* buffer = driver().make_filled(std::vector<uint8_t>(length + 24, 0xee));
          ASSERT_OK(driver().run({fill(buffer, offset, length, pattern, bytes)}));
          const std::vector<uint8_t> got = driver().values_of<uint8_t>(buffer, length + 24);
          bool same = got[offset - 1] == 0xee && got[offset + length] == 0xee;
          for (uint64_t i = 0; i < length; ++i) same = same && got[offset + i] == static_cast<uint8_t>(pattern >> (8 * (i % bytes)));
          EXPECT_TRUE(same) << bytes << " bytes, length " << length << " at " << offset << ", pattern " << pattern;
          free({buffer});
        }
      }
    }
  }
  heddle_buffer_t* buffer = driver().make_buffer(16);
  EXPECT_FAILS(driver().run({fill(buffer, 0, 16, 0, 3)}), HEDDLE_STATUS_INVALID_ARGUMENT, "pattern of 3");
  EXPECT_FAILS(driver().run({fill(buffer, 1, 16, 0, 1)}), HEDDLE_STATUS_OUT_OF_RANGE, "16 bytes");
  free({buffer});
}

TEST_F(CudaDriver, FillsALotWithAWidePattern) {
  const uint64_t size = (uint64_t{200} << 20) + 5;  // more rows than one call of CUDA's takes
  heddle_buffer_t* buffer = driver().make_buffer(size);
  const uint64_t pattern = 0x0102030405060708u;
  ASSERT_OK(driver().run({fill(buffer, 0, size, pattern, 8)}));
  for (uint64_t at : {uint64_t{0}, uint64_t{1} << 27, (uint64_t{1} << 27) - 8, size - 21}) {
    uint8_t got[16];
    driver().read(buffer, at, got, 16);
    for (uint64_t i = 0; i < 16; ++i) EXPECT_EQ(got[i], static_cast<uint8_t>(pattern >> (8 * ((at + i) % 8)))) << at + i;
  }
  free({buffer});
}

TEST_F(CudaDriver, CapturesAnUpdatesSource) {
  Loaded linger(&driver(), linger_facts());
  const std::vector<int64_t> constants = {20000000};
  for (uint64_t size : {16ull, 100000ull, 3000000ull}) {
    std::vector<uint8_t> source = noise(size);
    const std::vector<uint8_t> before = source;
    heddle_buffer_t* buffer = driver().make_buffer(size + 1);
    heddle_timeline_t* timeline = driver().make_timeline();
    ASSERT_OK(driver().submit({linger.command({}, constants), barrier(), update(buffer, 1, source.data(), size)}, {}, {{timeline, 1}}));
    source.assign(size, 99);
    EXPECT_TRUE(driver().wait(timeline, 1, kPatience).ok());
    EXPECT_TRUE(driver().wait(timeline, 1, 0).ok());
    std::vector<uint8_t> got(size);
    driver().read(buffer, 1, got.data(), size);
    EXPECT_TRUE(got == before) << size;
    driver().timeline_api->destroy(timeline);
    free({buffer});
  }
}

TEST_F(CudaDriver, CopiesRowsAtStrides) {
  const std::vector<uint8_t> bytes = noise(1000);
  heddle_buffer_t* source = driver().make_filled(bytes);
  struct Case {
    uint64_t from, to, source_stride, target_stride, row_bytes, rows;
  };
  for (const Case& c : {Case{5, 2, 20, 10, 4, 3}, Case{0, 0, 7, 7, 7, 100}, Case{1, 3, 0, 9, 5, 20}, Case{3, 1, 2, 30, 11, 9},
                        Case{0, 0, 0, 0, 100, 1}, Case{9, 9, 1, 1, 0, 5}, Case{4, 4, 30, 64, 29, 12}}) {
    heddle_buffer_t* target = driver().make_filled(std::vector<uint8_t>(1000, 0xff));
    const heddle_binding_t from = {source, c.from, 0}, to = {target, c.to, 0};
    heddle_command_t command = {};
    command.kind = HEDDLE_COMMAND_COPY_2D;
    command.as.copy_2d = {&from, &to, c.source_stride, c.target_stride, c.row_bytes, c.rows};
    ASSERT_OK(driver().run({command}));
    std::vector<uint8_t> expected(1000, 0xff);
    for (uint64_t row = 0; row < c.rows; ++row) {
      for (uint64_t i = 0; i < c.row_bytes; ++i) expected[c.to + row * c.target_stride + i] = bytes[c.from + row * c.source_stride + i];
    }
    EXPECT_TRUE(driver().values_of<uint8_t>(target, 1000) == expected) << c.source_stride << " to " << c.target_stride;
    command.as.copy_2d = {&from, &to, 20, 20, 8, 1000};
    EXPECT_FAILS(driver().run({command}), HEDDLE_STATUS_OUT_OF_RANGE, "1000 bytes");
    command.as.copy_2d = {&from, &to, 20, 20, 8, UINT64_MAX};
    EXPECT_FAILS(driver().run({command}), HEDDLE_STATUS_OUT_OF_RANGE, "2^64");
    command.as.copy_2d = {&from, &to, 20, 4, 8, 2};
    EXPECT_FAILS(driver().run({command}), HEDDLE_STATUS_INVALID_ARGUMENT, "overlap");
    free({target});
  }
  free({source});
}

TEST_F(CudaDriver, CountsItsWork) {
  const heddle_device_statistics_t before = driver().statistics();
  Loaded chain(&driver(), chain_facts());
  heddle_buffer_t* value = driver().make_filled(std::vector<uint64_t>{1, 1});
  const std::vector<heddle_binding_t> bindings = {{value, 0, 8}};
  const std::vector<int64_t> constants = {0};
  ASSERT_OK(driver().run({chain.command(bindings, constants), chain.command(bindings, constants), barrier(), fill(value, 0, 8, 0, 1)}));
  const heddle_device_statistics_t after = driver().statistics();
  EXPECT_EQ(after.submissions - before.submissions, 2u) << "an upload and a list";
  EXPECT_EQ(after.dispatches - before.dispatches, 2u);
  EXPECT_EQ(after.copies - before.copies, 2u);
  EXPECT_GE(after.bytes_reserved, before.bytes_reserved);
  free({value});
}

}  // namespace
}  // namespace heddle::test
