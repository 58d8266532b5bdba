// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The stand-in for the HSA runtime by itself: that it keeps the order that packets, signals and dependencies ask for and no other, and that wrong use is
// found. AMD's HIP library, which uses it rightly, is not involved.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

#define OK(call)                                       \
  do {                                                 \
    const hsa_status_t status_ = (call);               \
    ASSERT_EQ(status_, HSA_STATUS_SUCCESS) << status_; \
  } while (false)

constexpr hsa_status_t kMemoryFault = static_cast<hsa_status_t>(HSA_STATUS_ERROR_MEMORY_FAULT);

std::vector<char> read_kernels(const std::string& variant) {
  std::ifstream file(std::string(HEDDLE_HSA_KERNELS) + "/" + variant + ".hsaco", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct HsaTest : testing::Test {
  void SetUp() override {
    OK(hsa_init());
    OK(hsa_iterate_agents(
        [](hsa_agent_t agent, void* data) {
          auto* const self = static_cast<HsaTest*>(data);
          hsa_device_type_t type = HSA_DEVICE_TYPE_CPU;
          hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
          if (type == HSA_DEVICE_TYPE_CPU) self->host = agent;
          if (type == HSA_DEVICE_TYPE_GPU && self->gpu.handle == 0) self->gpu = agent;
          return HSA_STATUS_SUCCESS;
        },
        this));
    OK(hsa_amd_agent_iterate_memory_pools(host, find_pool, &host_pool));
    OK(hsa_amd_agent_iterate_memory_pools(gpu, find_pool, &gpu_pool));
    for (hsa_queue_t*& q : queues)
      OK(hsa_queue_create(
          gpu, 64, HSA_QUEUE_TYPE_MULTI,
          [](hsa_status_t status, hsa_queue_t*, void* data) { static_cast<HsaTest*>(data)->queue_status = status; }, this, UINT32_MAX,
          UINT32_MAX, &q));
    OK(load("version4", &executable));
    word = static_cast<uint32_t*>(allocate(host_pool, 64));
    *word = 0;
  }
  void TearDown() override {
    for (hsa_queue_t* q : queues) OK(hsa_queue_destroy(q));
    for (const hsa_signal_t s : signals) OK(hsa_signal_destroy(s));
    for (void* p : memory) OK(hsa_amd_memory_pool_free(p));
    OK(hsa_executable_destroy(executable));
    OK(hsa_shut_down());
  }

  // The first pool that allocates.
  static hsa_status_t find_pool(hsa_amd_memory_pool_t pool, void* data) {
    auto* const out = static_cast<hsa_amd_memory_pool_t*>(data);
    bool allocates = false;
    hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allocates);
    if (allocates && out->handle == 0) *out = pool;
    return HSA_STATUS_SUCCESS;
  }
  hsa_status_t load(const std::string& variant, hsa_executable_t* out) {
    const std::vector<char> code = read_kernels(variant);
    return load_bytes(code, out);
  }
  hsa_status_t load_bytes(const std::vector<char>& code, hsa_executable_t* out) {
    hsa_code_object_reader_t reader{};
    hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr, out);
    hsa_code_object_reader_create_from_memory(code.data(), code.size(), &reader);
    const hsa_status_t status = hsa_executable_load_agent_code_object(*out, gpu, reader, nullptr, nullptr);
    hsa_code_object_reader_destroy(reader);
    return status == HSA_STATUS_SUCCESS ? hsa_executable_freeze(*out, nullptr) : status;
  }
  void* allocate(hsa_amd_memory_pool_t pool, size_t bytes, bool for_gpu = true) {
    void* p = nullptr;
    EXPECT_EQ(hsa_amd_memory_pool_allocate(pool, bytes, 0, &p), HSA_STATUS_SUCCESS);
    if (for_gpu) {
      EXPECT_EQ(hsa_amd_agents_allow_access(1, &gpu, nullptr, p), HSA_STATUS_SUCCESS);
    }
    memory.push_back(p);
    return p;
  }
  hsa_signal_t signal(int64_t value) {
    hsa_signal_t s{};
    EXPECT_EQ(hsa_signal_create(value, 0, nullptr, &s), HSA_STATUS_SUCCESS);
    signals.push_back(s);
    return s;
  }
  static bool comes_true(hsa_signal_t s, int64_t value, uint64_t milliseconds = 20'000) {
    return hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_EQ, value, milliseconds * 1'000'000, HSA_WAIT_STATE_BLOCKED) == value;
  }

  // Writes a packet; `ring` tells the queue.
  template <class Packet>
  void submit(hsa_queue_t* q, Packet packet, unsigned type, bool barrier, bool ring = true) {
    static_assert(sizeof(Packet) == 64);
    const uint64_t index = hsa_queue_add_write_index_screlease(q, 1);
    while (index - hsa_queue_load_read_index_scacquire(q) >= q->size) std::this_thread::yield();
    auto* const slot = static_cast<char*>(q->base_address) + index % q->size * 64;
    uint32_t first = 0;
    std::memcpy(&first, &packet, 4);
    first = (first & 0xffff0000u) | type << HSA_PACKET_HEADER_TYPE | unsigned{barrier} << HSA_PACKET_HEADER_BARRIER;
    std::memcpy(slot + 4, reinterpret_cast<char*>(&packet) + 4, 60);
    __atomic_store_n(reinterpret_cast<uint32_t*>(slot), first, __ATOMIC_RELEASE);
    if (ring) hsa_signal_store_screlease(q->doorbell_signal, static_cast<int64_t>(index));
  }
  // The packet of one work item of a kernel whose arguments are an address and a number.
  hsa_kernel_dispatch_packet_t packet(const char* name, const void* address, uint32_t value, hsa_signal_t completion, uint32_t items = 1) {
    hsa_executable_symbol_t symbol{};
    EXPECT_EQ(hsa_executable_get_symbol_by_name(executable, (std::string(name) + ".kd").c_str(), &gpu, &symbol), HSA_STATUS_SUCCESS)
        << name;
    hsa_kernel_dispatch_packet_t p{};
    p.setup = 1;
    p.workgroup_size_x = static_cast<uint16_t>(items);
    p.workgroup_size_y = p.workgroup_size_z = 1;
    p.grid_size_x = items;
    p.grid_size_y = p.grid_size_z = 1;
    uint32_t bytes = 0;
    hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &p.kernel_object);
    hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, &p.group_segment_size);
    hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, &p.private_segment_size);
    hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, &bytes);
    auto* const arguments = static_cast<char*>(allocate(host_pool, bytes));
    std::memset(arguments, 0, bytes);
    std::memcpy(arguments, &address, 8);
    std::memcpy(arguments + 8, &value, std::min<size_t>(4, bytes - 8));
    p.kernarg_address = arguments;
    p.completion_signal = completion;
    return p;
  }
  void launch(hsa_queue_t* q, const char* name, const void* address, uint32_t value, hsa_signal_t completion, bool barrier = true,
              bool ring = true) {
    submit(q, packet(name, address, value, completion), HSA_PACKET_TYPE_KERNEL_DISPATCH, barrier, ring);
  }
  // The values that `word` has after `round`, in some rounds.
  std::set<uint32_t> outcomes(const std::function<void()>& round) {
    std::set<uint32_t> seen;
    for (int n = 0; n < 40; ++n) {
      *word = 0;
      round();
      seen.insert(*word);
    }
    return seen;
  }

  hsa_agent_t host{}, gpu{};
  hsa_amd_memory_pool_t host_pool{}, gpu_pool{};
  hsa_queue_t* queues[2] = {};
  hsa_executable_t executable{};
  std::vector<void*> memory;
  std::vector<hsa_signal_t> signals;
  std::atomic<int> queue_status{0};
  uint32_t* word = nullptr;  // of the host, for kernels
};

TEST_F(HsaTest, QueuesHaveNoOrder) {
  EXPECT_THAT(outcomes([&] {
                const hsa_signal_t done = signal(2);
                launch(queues[0], "store", word, 1, done);
                launch(queues[1], "store", word, 2, done);
                ASSERT_TRUE(comes_true(done, 0));
              }),
              testing::ElementsAre(1, 2));
}

TEST_F(HsaTest, PacketsOfAQueueHaveAnOrderWithTheBarrierBit) {
  const auto round = [&](bool barrier) {
    const hsa_signal_t done = signal(2);
    launch(queues[0], "store", word, 1, done, barrier);
    launch(queues[0], "store", word, 2, done, barrier);
    ASSERT_TRUE(comes_true(done, 0));
  };
  EXPECT_THAT(outcomes([&] { round(false); }), testing::ElementsAre(1, 2));
  EXPECT_THAT(outcomes([&] { round(true); }), testing::ElementsAre(2));
}

TEST_F(HsaTest, KernelsOfTwoQueuesTakeTurns) {
  const hsa_signal_t done = signal(2);
  launch(queues[0], "wait_for", word, 5, done);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  EXPECT_EQ(hsa_signal_load_relaxed(done), 2);
  launch(queues[1], "store", word, 5, done);
  EXPECT_TRUE(comes_true(done, 0));
}

TEST_F(HsaTest, BarriersWaitForSignals) {
  const hsa_signal_t a = signal(1), b = signal(1), done = signal(1);
  hsa_barrier_and_packet_t both{};
  both.dep_signal[0] = a;
  both.dep_signal[3] = b;
  submit(queues[0], both, HSA_PACKET_TYPE_BARRIER_AND, false);
  launch(queues[0], "store", word, 1, done, false);
  hsa_signal_store_relaxed(a, 0);
  EXPECT_FALSE(comes_true(done, 0, 10));
  hsa_signal_subtract_relaxed(b, 1);
  EXPECT_TRUE(comes_true(done, 0));

  const hsa_signal_t c = signal(1), d = signal(1), either_done = signal(1);
  hsa_barrier_or_packet_t either{};
  either.dep_signal[1] = c;
  either.dep_signal[2] = d;
  either.completion_signal = either_done;
  submit(queues[0], either, HSA_PACKET_TYPE_BARRIER_OR, true);
  EXPECT_FALSE(comes_true(either_done, 0, 10));
  hsa_signal_store_screlease(d, 0);
  EXPECT_TRUE(comes_true(either_done, 0));

  const hsa_signal_t value = signal(0x10), value_done = signal(1);
  hsa_amd_barrier_value_packet_t reaches{};
  reaches.header.AmdFormat = HSA_AMD_PACKET_TYPE_BARRIER_VALUE;
  reaches.signal = value;
  reaches.mask = 0xff;
  reaches.value = 0x20;
  reaches.cond = HSA_SIGNAL_CONDITION_GTE;
  reaches.completion_signal = value_done;
  submit(queues[0], reaches, HSA_PACKET_TYPE_VENDOR_SPECIFIC, true);
  hsa_signal_store_relaxed(value, 0x110);  // the mask leaves 0x10
  EXPECT_FALSE(comes_true(value_done, 0, 10));
  hsa_signal_add_relaxed(value, 0x15);
  EXPECT_TRUE(comes_true(value_done, 0));
}

TEST_F(HsaTest, APacketCountsOnceTheDoorbellRings) {
  const hsa_signal_t done = signal(1);
  launch(queues[0], "store", word, 1, done, true, false);
  EXPECT_FALSE(comes_true(done, 0, 20));
  hsa_signal_store_screlease(queues[0]->doorbell_signal, 0);
  EXPECT_TRUE(comes_true(done, 0));
}

TEST_F(HsaTest, CopiesHaveTheOrderOfTheirDependencies) {
  constexpr size_t kBytes = 1 << 20;
  auto* const first = static_cast<uint8_t*>(allocate(host_pool, kBytes));
  auto* const second = static_cast<uint8_t*>(allocate(host_pool, kBytes));
  auto* const on_gpu = static_cast<uint8_t*>(allocate(gpu_pool, kBytes));
  auto* const back = static_cast<uint8_t*>(allocate(host_pool, kBytes));
  std::memset(first, 1, kBytes);
  std::memset(second, 2, kBytes);
  const auto round = [&](bool ordered) {
    const hsa_signal_t a = signal(1), b = signal(1), c = signal(1);
    OK(hsa_amd_memory_async_copy(on_gpu, gpu, first, host, kBytes, 0, nullptr, a));
    OK(hsa_amd_memory_async_copy(on_gpu, gpu, second, host, kBytes, ordered ? 1 : 0, ordered ? &a : nullptr, b));
    const hsa_signal_t both[] = {a, b};
    OK(hsa_amd_memory_async_copy(back, host, on_gpu, gpu, kBytes, 2, both, c));
    ASSERT_TRUE(comes_true(c, 0));
    *word = 0;
    for (size_t n = 0; n < kBytes; ++n) *word |= back[n];
  };
  EXPECT_THAT(outcomes([&] { round(true); }), testing::ElementsAre(2));
  // Each byte is from the copy that came last there, and they are under way at the same time.
  EXPECT_THAT(outcomes([&] { round(false); }), testing::Contains(3));
}

TEST_F(HsaTest, ACopyIsLate) {
  constexpr size_t kBytes = 4 << 20;
  auto* const from = static_cast<uint8_t*>(allocate(host_pool, kBytes));
  auto* const to = static_cast<uint8_t*>(allocate(host_pool, kBytes));
  // One that is not waited for may not have happened yet.
  int late = 0;
  for (uint8_t n = 1; n <= 20; ++n) {
    std::memset(from, n, kBytes);
    const hsa_signal_t done = signal(1);
    OK(hsa_amd_memory_async_copy(to, host, from, host, kBytes, 0, nullptr, done));
    late += to[kBytes - 1] != n ? 1 : 0;
    ASSERT_TRUE(comes_true(done, 0));
    EXPECT_EQ(to[kBytes - 1], n);
  }
  EXPECT_GT(late, 0);
}

TEST_F(HsaTest, CopiesOfRectangles) {
  std::vector<uint8_t> expected(64 * 8);
  auto* const from = static_cast<uint8_t*>(allocate(host_pool, 64 * 8));
  auto* const to = static_cast<uint8_t*>(allocate(host_pool, 64 * 8));
  for (size_t n = 0; n < 64 * 8; ++n) from[n] = static_cast<uint8_t>(n * 3);
  std::memset(to, 0, 64 * 8);
  const hsa_pitched_ptr_t target = {to, 64, 512}, source = {from, 32, 512};
  const hsa_dim3_t at_target = {8, 2, 0}, at_source = {4, 1, 0}, range = {21, 5, 1};
  const hsa_signal_t done = signal(1);
  OK(hsa_amd_memory_async_copy_rect(&target, &at_target, &source, &at_source, &range, gpu, hsaHostToHost, 0, nullptr, done));
  ASSERT_TRUE(comes_true(done, 0));
  for (size_t y = 0; y < 5; ++y) std::memcpy(&expected[(2 + y) * 64 + 8], &from[(1 + y) * 32 + 4], 21);
  EXPECT_EQ(std::vector<uint8_t>(to, to + 512), expected);
  const hsa_pitched_ptr_t odd = {to, 63, 512};
  EXPECT_EQ(hsa_amd_memory_async_copy_rect(&odd, &at_target, &source, &at_source, &range, gpu, hsaHostToHost, 0, nullptr, done),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
}

TEST_F(HsaTest, SignalsHaveHandlersAndTimes) {
  const hsa_signal_t done = signal(1);
  std::atomic<int> called{0};
  OK(hsa_amd_signal_async_handler(
      done, HSA_SIGNAL_CONDITION_LT, 1,
      [](hsa_signal_value_t value, void* data) {
        EXPECT_EQ(value, 0);
        return ++*static_cast<std::atomic<int>*>(data) < 3;  // twice again
      },
      &called));
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  EXPECT_EQ(called, 0);
  launch(queues[0], "store", word, 1, done);
  ASSERT_TRUE(comes_true(done, 0));
  hsa_amd_profiling_dispatch_time_t time{};
  OK(hsa_amd_profiling_get_dispatch_time(gpu, done, &time));
  EXPECT_GT(time.start, 0u);
  EXPECT_GE(time.end, time.start);
  for (int n = 0; n < 5000 && called < 3; ++n) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  EXPECT_EQ(called, 3);
}

TEST_F(HsaTest, FaultsOfKernelsReachTheCallback) {
  const auto status_of = [&](hsa_kernel_dispatch_packet_t p) {
    hsa_queue_t* q = nullptr;
    queue_status = 0;
    EXPECT_EQ(
        hsa_queue_create(
            gpu, 64, HSA_QUEUE_TYPE_MULTI,
            [](hsa_status_t status, hsa_queue_t*, void* data) { static_cast<HsaTest*>(data)->queue_status = status; }, this, 0, 0, &q),
        HSA_STATUS_SUCCESS);
    submit(q, p, HSA_PACKET_TYPE_KERNEL_DISPATCH, true);
    for (int n = 0; n < 20000 && queue_status == 0; ++n) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(hsa_queue_destroy(q), HSA_STATUS_SUCCESS);
    return static_cast<hsa_status_t>(queue_status.load());
  };
  const hsa_signal_t none{};
  // Behind the end of memory; memory of the host that was never made accessible; memory that was freed.
  EXPECT_EQ(status_of(packet("store", word + 16, 1, none)), kMemoryFault);
  EXPECT_EQ(status_of(packet("store", allocate(host_pool, 64, false), 1, none)), kMemoryFault);
  void* freed = nullptr;
  OK(hsa_amd_memory_pool_allocate(gpu_pool, 64, 0, &freed));
  OK(hsa_amd_memory_pool_free(freed));
  EXPECT_EQ(status_of(packet("store", freed, 1, none)), kMemoryFault);
  // A packet that contradicts the kernel.
  hsa_kernel_dispatch_packet_t wrong = packet("reverse", word, 0, none);
  wrong.group_segment_size = 8;
  EXPECT_EQ(status_of(wrong), HSA_STATUS_ERROR_EXCEPTION);
  wrong = packet("store", word, 1, none);
  wrong.kernel_object += 32;
  EXPECT_EQ(status_of(wrong), HSA_STATUS_ERROR_EXCEPTION);
  wrong = packet("store", word, 1, none);
  wrong.grid_size_y = 2;
  EXPECT_EQ(status_of(wrong), HSA_STATUS_ERROR_EXCEPTION);
  wrong = packet("store", word, 1, none);
  std::vector<char> arguments(64);
  wrong.kernarg_address = arguments.data();
  EXPECT_NE(status_of(wrong), HSA_STATUS_SUCCESS);
  // A workgroup that the kernel does not allow.
  wrong = packet("slow", word, 1, none);
  wrong.workgroup_size_x = 1025;
  EXPECT_EQ(status_of(wrong), HSA_STATUS_ERROR_EXCEPTION);
}

TEST_F(HsaTest, WrongUseEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const hsa_signal_t done = signal(1);
  EXPECT_DEATH(
      {
        void* p = nullptr;
        hsa_amd_memory_pool_allocate(gpu_pool, 4096, 0, &p);
        hsa_amd_memory_pool_free(p);
        hsa_amd_memory_async_copy(word, host, p, gpu, 64, 0, nullptr, done);
        comes_true(done, 0);
      },
      "copy of 64 bytes.*it was freed");
  EXPECT_DEATH(
      {
        std::vector<char> pageable(64);
        hsa_amd_memory_async_copy(word, host, pageable.data(), host, 64, 0, nullptr, done);
        comes_true(done, 0);
      },
      "not inside of one allocation");
  EXPECT_DEATH(
      {
        hsa_signal_t gone{};
        hsa_signal_create(1, 0, nullptr, &gone);
        hsa_signal_destroy(gone);
        hsa_signal_store_relaxed(gone, 0);
      },
      "was destroyed");
}

TEST_F(HsaTest, Memory) {
  // What is new is not zero.
  auto* const bytes = static_cast<uint8_t*>(allocate(host_pool, 4096));
  EXPECT_NE(bytes[0], 0);
  // Pinned memory has another address for GPUs.
  alignas(4096) static char pinned[8192];
  void* address = nullptr;
  OK(hsa_amd_memory_lock_to_pool(pinned + 100, 5000, nullptr, 0, host_pool, 0, &address));
  EXPECT_NE(address, pinned + 100);
  EXPECT_EQ(reinterpret_cast<uint64_t>(address) % 4096, 100u);
  hsa_amd_pointer_info_t info{};
  info.size = sizeof(info);
  OK(hsa_amd_pointer_info(static_cast<char*>(address) + 10, &info, nullptr, nullptr, nullptr));
  EXPECT_EQ(info.type, HSA_EXT_POINTER_TYPE_LOCKED);
  EXPECT_EQ(info.hostBaseAddress, pinned + 100);
  EXPECT_EQ(info.sizeInBytes, 5000u);
  OK(hsa_amd_memory_unlock(pinned + 100));
  EXPECT_EQ(hsa_amd_memory_unlock(pinned + 100), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  void* p = nullptr;
  EXPECT_EQ(hsa_amd_memory_pool_allocate(gpu_pool, uint64_t{1} << 60, 0, &p), HSA_STATUS_ERROR_OUT_OF_RESOURCES);
  EXPECT_EQ(hsa_amd_memory_pool_free(bytes + 16), HSA_STATUS_ERROR_INVALID_ALLOCATION);
}

TEST_F(HsaTest, CodeObjects) {
  hsa_executable_t other{};
  hsa_executable_symbol_t symbol{};
  EXPECT_EQ(hsa_executable_get_symbol_by_name(executable, "absent.kd", &gpu, &symbol), HSA_STATUS_ERROR_INVALID_SYMBOL_NAME);
  EXPECT_EQ(load("gfx1100", &other), HSA_STATUS_ERROR_INVALID_ISA);
  OK(hsa_executable_destroy(other));
  std::vector<char> damaged = read_kernels("version4");
  damaged.resize(damaged.size() / 2);
  EXPECT_EQ(load_bytes(damaged, &other), HSA_STATUS_ERROR_INVALID_CODE_OBJECT);
  OK(hsa_executable_destroy(other));
  EXPECT_EQ(hsa_executable_destroy(other), HSA_STATUS_ERROR_INVALID_EXECUTABLE);
}

TEST_F(HsaTest, WhatIsAbsentSaysSo) {
  testing::internal::CaptureStderr();
  hsa_amd_ipc_memory_t handle{};
  EXPECT_EQ(hsa_amd_ipc_memory_create(word, 64, &handle), HSA_STATUS_ERROR);
  hsa_queue_t* q = nullptr;
  EXPECT_EQ(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_COOPERATIVE, nullptr, nullptr, 0, 0, &q), HSA_STATUS_ERROR_INVALID_QUEUE_CREATION);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(testing::HasSubstr("hsa_amd_ipc_memory_create: it is not implemented"),
                             testing::HasSubstr("hsa_queue_create: queues of type 2 are not implemented")));
}

}  // namespace
