// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.native/1 of heddle.cuda: an application's memory and streams beside the driver's own.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "cuda_case.h"

namespace heddle::test {
namespace {

class CudaNative : public Cuda {
 protected:
  void SetUp() override {
    Cuda::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    native = driver().native_api;
    ASSERT_TRUE(native);
    uint64_t context = 0;
    ASSERT_OK(native->context(driver().device, &context));
    cuda.cuCtxGetCurrent(&before);
    ASSERT_EQ(cuda.cuCtxSetCurrent(reinterpret_cast<void*>(context)), 0);
  }
  void TearDown() override {
    if (native) cuda.cuCtxSetCurrent(before);
    Cuda::TearDown();
  }
  uint64_t allocate(size_t bytes) {
    uint64_t address = 0;
    EXPECT_EQ(cuda.cuMemAlloc(&address, bytes), 0);
    return address;
  }
  static void count_release(void* counter) { ++*static_cast<std::atomic<int>*>(counter); }
  heddle_buffer_t* import(uint64_t address, uint64_t size) {
    heddle_buffer_t* buffer = nullptr;
    EXPECT_OK(native->buffer_import(driver().device, address, size, count_release, &releases, &buffer));
    return buffer;
  }
  heddle_status_t* refused(uint64_t address, uint64_t size) {
    heddle_buffer_t* buffer = nullptr;
    heddle_status_t* status = native->buffer_import(driver().device, address, size, count_release, &releases, &buffer);
    EXPECT_EQ(buffer, nullptr);
    return status;
  }

  Libcuda cuda;
  void* before = nullptr;
  const heddle_native_interface_t* native = nullptr;
  std::atomic<int> releases{0};
};

TEST_F(CudaNative, ShowsThePrimaryContextAndItsOwnStream) {
  int device = 0;
  void* primary = nullptr;
  ASSERT_EQ(cuda.cuDeviceGet(&device, 0), 0);
  ASSERT_EQ(cuda.cuDevicePrimaryCtxRetain(&primary, device), 0);
  uint64_t context = 0, stream = 0;
  ASSERT_OK(native->context(driver().device, &context));
  EXPECT_EQ(reinterpret_cast<void*>(context), primary);
  ASSERT_OK(native->stream(driver().queue, &stream));
  heddle_buffer_t* buffer = driver().make_buffer(4096);
  ASSERT_EQ(cuda.cuMemsetD32Async(properties(buffer).device_address, 7, 1024, reinterpret_cast<void*>(stream)), 0);
  ASSERT_EQ(cuda.cuStreamSynchronize(reinterpret_cast<void*>(stream)), 0);
  EXPECT_EQ(driver().values_of<uint32_t>(buffer, 1024), std::vector<uint32_t>(1024, 7));
  free({buffer});
  cuda.cuDevicePrimaryCtxRelease(device);
}

// A new buffer may be where a freed one was, and be other memory.
TEST_F(CudaNative, AReplayUsesTheMemoryOfItsOwnBuffers) {
  Loaded chain(&driver(), chain_facts());
  heddle_buffer_t* first = driver().make_filled(std::vector<uint64_t>{1});
  const std::vector<heddle_binding_t> bindings = {{first, 0, 8}};
  const std::vector<int64_t> constants = {4};
  const heddle_command_t command = chain.command(bindings, constants);
  constexpr uint8_t kDynamic = HEDDLE_BINDING_DYNAMIC;
  heddle_recording_t* recording = nullptr;
  ASSERT_OK(driver().dispatch_api->record(driver().queue, &command, 1, &kDynamic, &recording));
  std::vector<uint64_t> memory;
  for (uint64_t turn = 0; turn < 8; ++turn) memory.push_back(allocate(256));
  std::vector<heddle_buffer_t*> places;
  for (uint64_t turn = 0; turn < memory.size(); ++turn) {
    heddle_buffer_t* buffer = import(memory[turn], 256);
    places.push_back(buffer);
    driver().write(buffer, 0, &turn, 8);
    const heddle_binding_t binding = {buffer, 0, 8};
    const heddle_point_t point = {driver().make_timeline(), 1};
    const heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
    ASSERT_OK(driver().await(driver().dispatch_api->replay(recording, &binding, 1, &sync), point));
    EXPECT_EQ(driver().values_of<uint64_t>(buffer, 1)[0], turn * 3 + 4) << turn;
    free({buffer});
  }
  std::sort(places.begin(), places.end());
  EXPECT_LT(std::unique(places.begin(), places.end()) - places.begin(), 8) << "no buffer was where another one had been";
  driver().dispatch_api->recording_free(recording);
  free({first});
  for (uint64_t address : memory) cuda.cuMemFree(address);
}

TEST_F(CudaNative, UsesMemoryOfTheApplication) {
  Loaded add(&driver(), add_facts());
  const uint64_t count = 5000, bytes = count * 4, address = allocate(3 * bytes + 512);
  heddle_buffer_t* buffer = import(address, 3 * bytes);
  heddle_buffer_t* shifted = import(address + 256, 3 * bytes);  // views may overlap
  ASSERT_TRUE(buffer && shifted);
  EXPECT_EQ(properties(buffer).device_address, address);
  EXPECT_EQ(properties(buffer).size_bytes, 3 * bytes);
  EXPECT_EQ(properties(buffer).memory, HEDDLE_MEMORY_DEVICE);
  EXPECT_GE(properties(shifted).alignment_bytes, 256u);
  const std::vector<float> ones(count, 1), twos(count, 2);
  driver().write(buffer, 0, ones.data(), bytes);
  driver().write(buffer, bytes, twos.data(), bytes);
  const std::vector<heddle_binding_t> bindings = {{buffer, 0, bytes}, {buffer, bytes, bytes}, {buffer, 2 * bytes, bytes}};
  const std::vector<int64_t> constants = {static_cast<int64_t>(count), 4};
  ASSERT_OK(driver().run({add.command(bindings, constants, (count + 127) / 128)}));
  std::vector<float> got(count);
  driver().read(shifted, 2 * bytes - 256, got.data(), bytes);
  EXPECT_EQ(got, std::vector<float>(count, 7));
  void* mapped = nullptr;
  EXPECT_FAILS(driver().buffer_api->map(buffer, 0, 16, HEDDLE_MAP_READ, &mapped), HEDDLE_STATUS_FAILED_PRECONDITION, "not host visible");
  EXPECT_EQ(releases, 0);
  free({buffer});
  EXPECT_EQ(releases, 1);
  free({shifted});
  EXPECT_EQ(releases, 2);
  EXPECT_EQ(cuda.cuMemFree(address), 0);
  EXPECT_EQ(driver().statistics().bytes_allocated, 0u);
}

TEST_F(CudaNative, RefusesMemoryThatIsNotTheDevices) {
  std::vector<char> ordinary(4096);
  void* pinned = nullptr;
  ASSERT_EQ(cuda.cuMemHostAlloc(&pinned, 4096, 0), 0);
  const uint64_t address = allocate(1 << 20);
  EXPECT_FAILS(refused(reinterpret_cast<uint64_t>(ordinary.data()), 4096), HEDDLE_STATUS_INVALID_ARGUMENT, "4096 bytes");
  EXPECT_FAILS(refused(reinterpret_cast<uint64_t>(pinned), 4096), HEDDLE_STATUS_INVALID_ARGUMENT, "is host memory");
  EXPECT_FAILS(refused(address, uint64_t{1} << 50), HEDDLE_STATUS_INVALID_ARGUMENT, "not memory that CUDA knows");
  EXPECT_FAILS(refused(address, UINT64_MAX), HEDDLE_STATUS_INVALID_ARGUMENT, "end after the address space");
  EXPECT_EQ(releases, 4);
  heddle_buffer_t* empty = import(0, 0);
  free({empty});
  EXPECT_EQ(releases, 5);
  cuda.cuMemFreeHost(pinned);
  cuda.cuMemFree(address);
}

// The application's stream lingers and then fills x; our queue computes out = x + x behind it; the stream takes out behind that. Nobody waits
// on the host before the end.
TEST_F(CudaNative, OrdersWorkWithAStreamOfTheApplication) {
  Loaded add(&driver(), add_facts()), linger(&driver(), linger_facts());
  const uint64_t count = 100000, bytes = count * 4;
  const uint64_t address = allocate(bytes);
  heddle_buffer_t *x = import(address, bytes), *out = driver().make_buffer(bytes);
  void* pinned = nullptr;
  ASSERT_EQ(cuda.cuMemHostAlloc(&pinned, bytes, 0), 0);
  void* made = nullptr;
  ASSERT_EQ(cuda.cuStreamCreate(&made, 1), 0);
  const std::vector<heddle_binding_t> bindings = {{x, 0, bytes}, {x, 0, bytes}, {out, 0, bytes}}, none;
  const std::vector<int64_t> constants = {static_cast<int64_t>(count), 0}, pause = {50000000};
  for (void* stream : {made, static_cast<void*>(nullptr)}) {
    heddle_queue_t* theirs = nullptr;
    ASSERT_OK(native->queue_import(driver().device, reinterpret_cast<uint64_t>(stream), &theirs));
    const auto begin = std::chrono::steady_clock::now();
    std::vector<heddle_timeline_t*> timelines;
    auto point = [&]() -> heddle_point_t {
      timelines.push_back(driver().make_timeline());
      return {timelines.back(), 1};
    };
    constexpr uint32_t kTurns = 6;
    for (uint32_t turn = 0; turn < kTurns; ++turn) {
      const heddle_point_t mark = point(), done = point();
      ASSERT_OK(driver().submit({linger.command(none, pause)}, {}, {point()}, theirs));
      const float value = static_cast<float>(turn + 1);
      uint32_t word;
      std::memcpy(&word, &value, 4);
      ASSERT_EQ(cuda.cuMemsetD32Async(address, word, count, stream), 0);
      ASSERT_OK(driver().submit({}, {}, {mark}, theirs));
      ASSERT_OK(driver().submit({add.command(bindings, constants, (count + 127) / 128)}, {mark}, {done}));
      ASSERT_OK(driver().submit({}, {done}, {point()}, theirs));
      ASSERT_EQ(cuda.cuMemcpyDtoHAsync(static_cast<char*>(pinned) + turn * 64, properties(out).device_address + bytes - 64, 64, stream), 0);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(250)) << "nothing waits on the host";
    ASSERT_EQ(cuda.cuStreamSynchronize(stream), 0);
    for (uint32_t turn = 0; turn < kTurns; ++turn) {
      EXPECT_EQ(static_cast<float*>(pinned)[turn * 16 + 15], static_cast<float>(2 * (turn + 1))) << turn;
    }
    for (heddle_timeline_t* timeline : timelines) {
      EXPECT_TRUE(driver().wait(timeline, 1, kPatience).ok());
      driver().timeline_api->destroy(timeline);
    }
    EXPECT_OK(driver().device_api->queue_destroy(theirs));
  }
  EXPECT_EQ(cuda.cuStreamDestroy(made), 0) << "the stream stayed the application's";
  cuda.cuMemFreeHost(pinned);
  free({x, out});
  cuda.cuMemFree(address);
}

TEST_F(CudaNative, SubmitWaitsWhereTheStreamCannotYet) {
  void* stream = nullptr;
  ASSERT_EQ(cuda.cuStreamCreate(&stream, 1), 0);
  heddle_queue_t* theirs = nullptr;
  ASSERT_OK(native->queue_import(driver().device, reinterpret_cast<uint64_t>(stream), &theirs));
  heddle_timeline_t *gate = driver().make_timeline(), *end = driver().make_timeline();
  std::atomic<bool> signalled{false};
  std::thread signal([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    signalled = true;
    EXPECT_OK(driver().timeline_api->signal(gate, 1));
  });
  EXPECT_OK(driver().submit({}, {{gate, 1}}, {{end, 1}}, theirs));
  EXPECT_TRUE(signalled) << "what comes on the stream next would overtake it";
  signal.join();
  EXPECT_TRUE(driver().wait(end, 1, kPatience).ok());
  for (heddle_timeline_t* timeline : {gate, end}) driver().timeline_api->destroy(timeline);
  EXPECT_OK(driver().device_api->queue_destroy(theirs));
  cuda.cuStreamDestroy(stream);
}

// What is allocated, loaded and run beside a capture of the application's ends no capture.
TEST_F(CudaNative, WorksBesideACapture) {
  void *stream = nullptr, *graph = nullptr;
  ASSERT_EQ(cuda.cuStreamCreate(&stream, 1), 0);
  for (int mode : {0, 1}) {  // global, of this thread
    ASSERT_EQ(cuda.cuStreamBeginCapture(stream, mode), 0);
    expect_works();
    heddle_buffer_t* pinned = driver().make_buffer(1 << 20, HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED);
    free({pinned});
    std::thread([&] { expect_works(); }).join();
    ASSERT_EQ(cuda.cuStreamEndCapture(stream, &graph), 0) << "the capture is whole";
    if (graph) cuda.cuGraphDestroy(graph);
  }
  cuda.cuStreamDestroy(stream);
}

TEST_F(CudaNative, RefusesStreamsItCannotOrder) {
  void *stream = nullptr, *graph = nullptr, *other = nullptr, *foreign = nullptr, *primary = nullptr;
  ASSERT_EQ(cuda.cuStreamCreate(&stream, 1), 0);
  heddle_queue_t *theirs = nullptr, *none = nullptr;
  ASSERT_OK(native->queue_import(driver().device, reinterpret_cast<uint64_t>(stream), &theirs));
  heddle_timeline_t* timeline = driver().make_timeline();
  ASSERT_EQ(cuda.cuStreamBeginCapture(stream, 1), 0);  // of this thread
  EXPECT_FAILS(driver().submit({}, {}, {{timeline, 1}}, theirs), HEDDLE_STATUS_FAILED_PRECONDITION, "captured");
  EXPECT_FAILS(native->queue_import(driver().device, reinterpret_cast<uint64_t>(stream), &none), HEDDLE_STATUS_FAILED_PRECONDITION,
               "captured");
  ASSERT_EQ(cuda.cuStreamEndCapture(stream, &graph), 0) << "the capture is whole";
  if (graph) cuda.cuGraphDestroy(graph);
  EXPECT_OK(driver().submit({}, {}, {{timeline, 1}}, theirs));
  EXPECT_TRUE(driver().wait(timeline, 1, kPatience).ok());
  driver().timeline_api->destroy(timeline);
  EXPECT_OK(driver().device_api->queue_destroy(theirs));
  cuda.cuStreamDestroy(stream);

  cuda.cuCtxGetCurrent(&primary);
  ASSERT_EQ(cuda.cuCtxCreate(&other, 0, 0), 0);
  ASSERT_EQ(cuda.cuStreamCreate(&foreign, 1), 0);
  ASSERT_EQ(cuda.cuCtxSetCurrent(primary), 0);
  EXPECT_FAILS(native->queue_import(driver().device, reinterpret_cast<uint64_t>(foreign), &none), HEDDLE_STATUS_INVALID_ARGUMENT,
               "another context");
  EXPECT_EQ(none, nullptr);
  cuda.cuStreamDestroy(foreign);
  cuda.cuCtxDestroy(other);
  ASSERT_EQ(cuda.cuCtxSetCurrent(primary), 0);
}

}  // namespace
}  // namespace heddle::test
