// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ring of pinned slots, and loading, without a device: CUDA's functions are stand-ins here, a stream is a thread that copies in its own time,
// and device memory is memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <set>
#include <thread>

#include "../support/plugin_host.h"
#include "cuda/backend.h"
#include "heddle/sdk/stream/staging.h"
#include "stream/engine.h"
#include "stream/ring.h"

namespace heddle::test {
namespace {

using sdk::stream::Ring;

constexpr sdk::stream::Vendor kVendor = {"test.cuda", "0", "cuda", "CUDA", "cuda", "", ""};

class Instance : public sdk::stream::Instance {
 public:
  explicit Instance(const heddle_host_t* its_host) : sdk::stream::Instance(its_host, kVendor) {
    devices.push_back(&facts_);
    facts_.capability = 90;
    facts_.max_threads = facts_.block[0] = facts_.block[1] = facts_.block[2] = 64;
  }
  std::span<const heddle_string_t> code_formats() const noexcept override { return {}; }
  heddle_device_link_t link(uint32_t, uint32_t) const override { return {}; }
  const char* lack(uint32_t) const override { return nullptr; }
  std::unique_ptr<sdk::stream::Backend> make_backend(uint32_t) override { return nullptr; }
  const cuda::Facts& facts() const { return facts_; }

 private:
  cuda::Facts facts_;
};

// The one stream, and how many of its copies fail.
class Stream {
 public:
  Stream() : thread_([this] { run(); }) {}
  ~Stream() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  uint64_t enqueue(std::function<void()> work) {
    std::lock_guard<std::mutex> lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
    return ++enqueued_;
  }
  void wait(uint64_t number) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= number; });
  }
  uint64_t enqueued() {
    std::lock_guard<std::mutex> lock(mutex_);
    return enqueued_;
  }

 private:
  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || !work_.empty(); });
      if (work_.empty()) return;
      std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  uint64_t enqueued_ = 0, done_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

// What the stand-ins work on.
struct Gpu {
  Stream stream;
  std::atomic<uint64_t> copies{0}, registered_bytes{0}, most_registered{0};
  std::atomic<int64_t> copies_until_failure{INT64_MAX};
  std::mutex mutex;
  std::map<void*, uint64_t> registered;
};
Gpu* gpu = nullptr;
struct Event {
  std::atomic<uint64_t> number{0};
};

cuda::Api stand_ins() {
  cuda::Api api;
  api.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
  api.cuCtxGetCurrent = [](CUcontext* out) {
    *out = nullptr;
    return CUDA_SUCCESS;
  };
  api.cuGetErrorName = api.cuGetErrorString = [](CUresult, const char** out) {
    *out = "stand-in";
    return CUDA_SUCCESS;
  };
  api.cuCtxGetStreamPriorityRange = [](int* least, int* greatest) {
    *least = *greatest = 0;
    return CUDA_SUCCESS;
  };
  api.cuStreamCreateWithPriority = [](CUstream* out, unsigned, int) {
    *out = reinterpret_cast<CUstream>(gpu);
    return CUDA_SUCCESS;
  };
  api.cuStreamDestroy = [](CUstream) { return CUDA_SUCCESS; };
  api.cuStreamSynchronize = [](CUstream) {
    gpu->stream.wait(gpu->stream.enqueued());
    return CUDA_SUCCESS;
  };
  api.cuEventCreate = [](CUevent* out, unsigned) {
    *out = reinterpret_cast<CUevent>(new Event);
    return CUDA_SUCCESS;
  };
  api.cuEventDestroy = [](CUevent event) {
    delete reinterpret_cast<Event*>(event);
    return CUDA_SUCCESS;
  };
  api.cuEventRecord = [](CUevent event, CUstream) {
    reinterpret_cast<Event*>(event)->number = gpu->stream.enqueue([] {});
    return CUDA_SUCCESS;
  };
  api.cuEventSynchronize = [](CUevent event) {
    gpu->stream.wait(reinterpret_cast<Event*>(event)->number);
    return CUDA_SUCCESS;
  };
  api.cuMemHostRegister = [](void* memory, size_t bytes, unsigned) {
    std::lock_guard<std::mutex> lock(gpu->mutex);
    gpu->registered[memory] = bytes;
    gpu->registered_bytes += bytes;
    gpu->most_registered = std::max(gpu->most_registered.load(), gpu->registered_bytes.load());
    return CUDA_SUCCESS;
  };
  api.cuMemHostUnregister = [](void* memory) {
    std::lock_guard<std::mutex> lock(gpu->mutex);
    gpu->registered_bytes -= gpu->registered.at(memory);
    gpu->registered.erase(memory);
    return CUDA_SUCCESS;
  };
  api.cuMemcpyAsync = [](CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
    if (gpu->copies_until_failure-- <= 0) return CUDA_ERROR_INVALID_VALUE;
    ++gpu->copies;
    gpu->stream.enqueue([=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
    return CUDA_SUCCESS;
  };
  api.cuModuleLoadDataEx = [](CUmodule* out, const void*, unsigned, CUjit_option*, void**) {
    *out = reinterpret_cast<CUmodule>(gpu);
    return CUDA_SUCCESS;
  };
  api.cuModuleUnload = [](CUmodule) { return CUDA_SUCCESS; };
  api.cuModuleGetFunction = [](CUfunction* out, CUmodule, const char*) {
    *out = reinterpret_cast<CUfunction>(gpu);
    return CUDA_SUCCESS;
  };
  api.cuFuncGetAttribute = [](int* out, CUfunction_attribute which, CUfunction) {
    *out = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 64 : 0;
    return CUDA_SUCCESS;
  };
  return api;
}

class CudaRing : public ::testing::Test {
 protected:
  void SetUp() override {
    gpu = &gpu_;
    api_ = stand_ins();
    instance_ = std::make_unique<Instance>(host_.table());
    device_ =
        std::make_unique<sdk::stream::Device>(instance_.get(), 0u, nullptr, std::make_unique<cuda::Backend>(api_, instance_->facts()));
    ring = std::make_unique<Ring>(device_.get());
  }
  void TearDown() override {
    ring.reset();
    EXPECT_EQ(gpu_.registered_bytes, 0u);
    device_.reset();
    instance_.reset();
  }
  static std::vector<char> noise(size_t size) {
    std::vector<char> bytes(size);
    std::mt19937 random(7);
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  }
  static CUdeviceptr address(const char* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

  // Moves a block of bytes, cut into pieces, one way.
  struct Moved {
    bool to_device = true;
    uint64_t piece = 4096, pinned = 0;
    uint32_t threads = 0;
    uint64_t stop_at = UINT64_MAX;
  };
  heddle_status_t* move(std::vector<char>& host, std::vector<char>& device, const Moved& how, std::vector<uint64_t>* arrived = nullptr) {
    Ring::Plan plan(how.to_device, host.size(), how.piece, how.pinned, how.threads);
    for (uint64_t at = 0; at < host.size(); at += how.piece) {
      plan.add(address(device.data()) + at, nullptr, std::min(how.piece, host.size() - at), 0, at != 0);
    }
    std::mutex mutex;
    plan.host_side = [&](uint64_t index, char* memory) {
      const uint64_t at = index * how.piece, bytes = std::min(how.piece, host.size() - at);
      std::memcpy(how.to_device ? memory : host.data() + at, how.to_device ? host.data() + at : memory, bytes);
      return index != how.stop_at;
    };
    plan.arrived = [&](uint64_t index) {
      std::lock_guard<std::mutex> lock(mutex);
      if (arrived) arrived->push_back(index);
    };
    return ring->move(plan);
  }

  PluginHost host_;
  Gpu gpu_;
  cuda::Api api_;
  std::unique_ptr<Instance> instance_;
  std::unique_ptr<sdk::stream::Device> device_;
  std::unique_ptr<Ring> ring;
};

TEST_F(CudaRing, MovesBytesBothWaysAndTellsEachPieceOnce) {
  std::vector<char> host = noise(20'000'001);
  for (uint64_t piece : {uint64_t{4096}, uint64_t{65536}, uint64_t{3} << 20}) {
    for (uint32_t threads : {0u, 1u, 48u}) {
      for (bool to_device : {true, false}) {
        std::vector<char> device(host.size()), back(host.size());
        if (!to_device) std::reverse_copy(host.begin(), host.end(), device.begin());
        std::vector<uint64_t> arrived;
        EXPECT_OK(move(to_device ? host : back, device, {to_device, piece, uint64_t{3} << 20, threads}, &arrived));
        EXPECT_TRUE(to_device ? device == host : back == device) << piece << " " << threads;
        EXPECT_EQ(arrived.size(), (host.size() + piece - 1) / piece);
        EXPECT_EQ(std::set<uint64_t>(arrived.begin(), arrived.end()).size(), arrived.size());
      }
    }
  }
}

TEST_F(CudaRing, JoinsPiecesIntoLargeCopies) {
  std::vector<char> host = noise(64 << 20), device(64 << 20);
  EXPECT_OK(move(host, device, {true, uint64_t{1} << 20}));
  EXPECT_TRUE(device == host);
  EXPECT_EQ(gpu_.copies, 4u);
}

TEST_F(CudaRing, HoldsNoMoreThanItsBound) {
  std::vector<char> host = noise(20 << 20), device(20 << 20);
  for (uint64_t pinned : {uint64_t{4096}, uint64_t{100'000}, uint64_t{1} << 20, uint64_t{10} << 20}) {
    gpu_.most_registered = gpu_.registered_bytes.load();
    EXPECT_OK(move(host, device, {true, 4096, pinned}));
    EXPECT_LE(ring->bytes_held(), pinned);
    EXPECT_LE(gpu_.registered_bytes, pinned);
    EXPECT_TRUE(device == host) << pinned;
    std::fill(device.begin(), device.end(), 0);
  }
  std::vector<char> little(3 << 20);
  EXPECT_OK(move(little, device, {true, 4096, 0}));
  EXPECT_OK(move(host, device, {true, 4096, uint64_t{5} << 20}));
  EXPECT_LE(ring->bytes_held(), uint64_t{5} << 20) << "with slots of two sizes";
  Moved stopped{true, 4096, uint64_t{10} << 20};
  stopped.stop_at = 0;
  EXPECT_OK(move(host, device, stopped));
  EXPECT_OK(move(host, device, {true, 4096, 4096}));
  EXPECT_LE(ring->bytes_held(), 4096u) << "smaller than what an earlier move left";
}

// Extents at odd places, as a file has them: each piece has a lead and pages of its own, and nothing beside its bytes is touched.
TEST_F(CudaRing, KeepsThePagesAroundPiecesApart) {
  const std::vector<char> file = noise(3'000'000);
  std::vector<char> device(file.size(), 0), expected(file.size(), 0);
  struct Extent {
    uint64_t offset, length;
  };
  std::vector<Extent> extents;
  for (uint64_t i = 0; i < 400; ++i) extents.push_back({(i * 7919) % 2'000'000 + i % 5, 1 + (i * 131) % 9000});
  Ring::Plan plan(true, file.size(), 16384, 65536, 8);
  std::vector<Extent> pieces;
  for (const Extent& extent : extents) {
    for (uint64_t at = extent.offset, end = extent.offset + extent.length; at < end;) {
      const uint64_t next = std::min(at / 4096 * 4096 + 16384, end);
      plan.add(address(device.data()) + at, nullptr, next - at, at % 4096, at != extent.offset);
      pieces.push_back({at, next - at});
      at = next;
    }
    std::copy_n(file.begin() + static_cast<long>(extent.offset), extent.length, expected.begin() + static_cast<long>(extent.offset));
  }
  plan.host_side = [&](uint64_t index, char* memory) {
    const auto& [offset, length] = pieces[index];
    const uint64_t lead = offset % 4096, whole = (lead + length + 4095) / 4096 * 4096;
    EXPECT_EQ((reinterpret_cast<uint64_t>(memory) - lead) % 4096, 0u);
    std::memcpy(memory - lead, file.data() + offset - lead, whole);  // as a read past the page cache would
    return true;
  };
  EXPECT_OK(ring->move(plan));
  EXPECT_TRUE(device == expected);
}

TEST_F(CudaRing, GivesMemoryThatTheHostSeesToItsThreads) {
  std::vector<char> host = noise(1'000'000), seen(1'000'000), device(1'000'000);
  Ring::Plan plan(true, 2'000'000, 4096, 65536, 4);
  for (uint64_t at = 0; at < host.size(); at += 4000) {
    plan.add(address(device.data()) + at, nullptr, std::min<uint64_t>(4000, host.size() - at), 0, false);
    plan.add(0, seen.data() + at, std::min<uint64_t>(4000, host.size() - at), 0, false);
  }
  std::atomic<int> arrived{0};
  plan.host_side = [&](uint64_t index, char* memory) {
    const uint64_t at = index / 2 * 4000;
    std::memcpy(memory, host.data() + at, std::min<uint64_t>(4000, host.size() - at));
    return true;
  };
  plan.arrived = [&](uint64_t) { ++arrived; };
  EXPECT_OK(ring->move(plan));
  EXPECT_TRUE(device == host && seen == host);
  EXPECT_EQ(arrived, 500);
}

TEST_F(CudaRing, StopsWhereItIsTold) {
  std::vector<char> host = noise(20 << 20), device(20 << 20);
  for (bool to_device : {true, false}) {
    for (uint64_t at : {0u, 7u, 2000u, 5119u}) {
      std::vector<uint64_t> arrived;
      Moved how{to_device, 4096, 262144, 8};
      how.stop_at = at;
      EXPECT_OK(move(host, device, how, &arrived));
      EXPECT_EQ(std::count(arrived.begin(), arrived.end(), at), 0);
    }
  }
  EXPECT_OK(move(host, device, {true, 4096, 262144, 8}));
  EXPECT_TRUE(device == host);
}

// The instruction that waits for the work before a kernel needs compute capability 9.0.
TEST_F(CudaRing, CodeForOlderTargetsStartsInOrder) {
  heddle_entry_params_t entry = {};
  entry.struct_size = sizeof entry;
  entry.name = string_of("kernel");
  for (uint32_t& extent : entry.workgroup_size) extent = 1;
  const std::string code = "any text";
  for (const auto& [target, flags, starts_early] :
       {std::tuple("sm_80", 0u, false), std::tuple("sm_80", HEDDLE_ENTRY_EARLY, false), std::tuple("sm_90", 0u, true),
        std::tuple("sm_90", HEDDLE_ENTRY_EARLY, true), std::tuple("sm_90a", HEDDLE_ENTRY_IN_ORDER, false)}) {
    entry.flags = flags;
    const heddle_executable_params_t params = {
        sizeof params,           1, string_of(HEDDLE_CODE_PTX), string_of(target), code.data(), code.size(), &entry, sizeof entry,
        string_of("executable"), {}};
    sdk::stream::Executable executable;
    executable.device = device_.get();
    EXPECT_OK(sdk::stream::Loading(device_.get(), params).load(&executable));
    ASSERT_EQ(executable.entries.size(), 1u);
    EXPECT_EQ(executable.entries[0].starts_early, starts_early) << target << ", flags " << flags;
  }
}

TEST_F(CudaRing, AFailedCopyEndsTheMoveAndTheNextOneWorks) {
  std::vector<char> host = noise(20 << 20), device(20 << 20);
  for (bool to_device : {true, false}) {
    for (int64_t copies : {0, 1, 5, 50}) {
      gpu_.copies_until_failure = copies;
      EXPECT_FAILS(move(host, device, {to_device, 4096, 262144, 8}), HEDDLE_STATUS_INVALID_ARGUMENT, "copying through pinned memory");
    }
  }
  gpu_.copies_until_failure = INT64_MAX;
  host = noise(20 << 20);
  EXPECT_OK(move(host, device, {true, 4096, 262144, 8}));
  EXPECT_TRUE(device == host);
}

}  // namespace
}  // namespace heddle::test
