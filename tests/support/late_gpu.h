// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What stand-ins of vendors' libraries share: memory that the host cannot touch, work that starts late and in an order that a seed chooses.
#ifndef HEDDLE_TESTS_LATE_GPU_H_
#define HEDDLE_TESTS_LATE_GPU_H_

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/sdk/signals_blocked.h"

namespace heddle::test {

enum class MemoryOwner { kUnknown, kHost, kDevice };

// Every block that a device may access, of all devices: host and devices have one address space. Addresses of device memory fault in the host; its bytes
// are elsewhere. They are never 0 at first, and live as long as any work that has found them; after a block is freed they are different ones.
class GpuMemory {
 public:
  struct Block {
    uint64_t size = 0;
    MemoryOwner owner = MemoryOwner::kUnknown;
    int ordinal = -1;
    char* bytes = nullptr;              // where they are
    std::shared_ptr<void> keeps_bytes;  // of device memory
    uint32_t flags = 0;                 // of whoever adds it
  };
  using Blocks = std::map<uint64_t, Block>;
  static constexpr int kPoison = 0xdb;
  static constexpr uint64_t kMostPoisoned = uint64_t{32} << 10;  // larger blocks have it at both ends only

  static GpuMemory& all() {
    static auto* memory = new GpuMemory;
    return *memory;
  }

  // An address for device memory; 0 if there is none. add() makes it known.
  static uint64_t reserve(uint64_t size, Block* out) {
    const uint64_t mapped = mapped_bytes(size);
    void* shown = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void* bytes = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shown == MAP_FAILED || bytes == MAP_FAILED) {
      if (shown != MAP_FAILED) munmap(shown, mapped);
      if (bytes != MAP_FAILED) munmap(bytes, mapped);
      return 0;
    }
    out->size = size;
    out->owner = MemoryOwner::kDevice;
    out->bytes = static_cast<char*>(bytes);
    out->keeps_bytes = std::shared_ptr<void>(bytes, [mapped](void* memory) { munmap(memory, mapped); });
    poison(*out);
    return reinterpret_cast<uint64_t>(shown);
  }
  uint64_t allocate(uint64_t size, int ordinal) {
    Block block;
    const uint64_t address = reserve(size, &block);
    block.ordinal = ordinal;
    if (address) add(address, block);
    return address;
  }
  uint64_t free(uint64_t address) {
    const Block block = remove(address);
    poison(block);
    munmap(reinterpret_cast<void*>(address), mapped_bytes(block.size));
    return block.size;
  }

  void add(uint64_t address, const Block& block) {
    std::lock_guard<std::mutex> lock(mutex_);
    blocks_[address] = block;
  }
  Block remove(uint64_t address) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) std::abort();  // the driver frees what it does not have
    Block block = found->second;
    blocks_.erase(found);
    return block;
  }
  bool starts_at(uint64_t address) {
    std::lock_guard<std::mutex> lock(mutex_);
    return blocks_.contains(address);
  }
  bool overlaps(uint64_t address, uint64_t size) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto next = blocks_.lower_bound(address + size);
    return next != blocks_.begin() && std::prev(next)->first + std::prev(next)->second.size > address;
  }
  // The block of an address; false if there is none.
  bool find(uint64_t address, uint64_t size, Block* out, uint64_t* out_offset) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto next = blocks_.upper_bound(address);
    if (next == blocks_.begin()) return false;
    const auto& [start, block] = *std::prev(next);
    if (address - start > block.size || size > block.size - (address - start)) return false;
    *out = block;
    *out_offset = address - start;
    return true;
  }
  Blocks snapshot() {
    std::lock_guard<std::mutex> lock(mutex_);
    return blocks_;
  }

 private:
  static uint64_t mapped_bytes(uint64_t size) { return (size + 4095) / 4096 * 4096; }
  static void poison(const Block& block) {
    const uint64_t some = std::min(block.size, kMostPoisoned);
    std::memset(block.bytes, kPoison, some);
    std::memset(block.bytes + block.size - some, kPoison, some);
  }

  std::mutex mutex_;
  Blocks blocks_;
};

// Work in order, in a thread of its own; none is done once *ended is not 0. The first result of work that is not 0 becomes *ended.
class LateStream {
 public:
  using Work = std::function<int()>;
  LateStream(std::atomic<int>* ended, uint64_t seed, uint64_t latency_us) : random_(seed), latency_us_(latency_us), ended_(ended) {
    sdk::SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  }
  ~LateStream() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  LateStream(const LateStream&) = delete;
  LateStream& operator=(const LateStream&) = delete;

  // The number of the work, counted from 1.
  uint64_t enqueue(Work work) {
    std::lock_guard<std::mutex> lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
    return ++enqueued_;
  }
  bool is_done(uint64_t number) {
    std::lock_guard<std::mutex> lock(mutex_);
    return done_ >= number;
  }
  void wait_for(uint64_t number) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= number; });
  }
  void wait_for_all() {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t last = enqueued_;
    changed_.wait(lock, [&] { return done_ >= last; });
  }
  std::mt19937_64& random() { return random_; }  // of the stream's thread

 private:
  void run() {
    std::fesetenv(FE_DFL_ENV);  // not that of the thread which created the stream
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || !work_.empty(); });
      if (work_.empty()) return;
      Work work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      if (latency_us_ && random_() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % latency_us_));
      if (*ended_ == 0) {
        if (const int result = work()) *ended_ = result;
      }
      work = nullptr;
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  std::mt19937_64 random_;
  const uint64_t latency_us_;
  std::atomic<int>* const ended_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;
  uint64_t enqueued_ = 0, done_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

// A copy or a fill, between bytes that exist.
inline void copy_rows(char* to, uint64_t to_stride, const char* from, uint64_t from_stride, uint64_t row_bytes, uint64_t rows) {
  for (uint64_t i = 0; i < rows; ++i) std::memmove(to + i * to_stride, from + i * from_stride, row_bytes);
}
inline void fill_units(char* to, uint64_t count, uint32_t unit, uint32_t value, uint64_t pitch) {
  if (unit == 1 && pitch == 1) {
    std::memset(to, static_cast<int>(value), count);
    return;
  }
  for (uint64_t i = 0; i < count; ++i) std::memcpy(to + i * pitch, &value, unit);
}

// Runs the nodes of a graph in an order that their edges allow. before(i): the numbers of the nodes that node i waits for, counted from 1. run(i): 0, or
// a failure, after which no other node runs.
template <typename Before, typename Run>
int run_in_any_order(size_t count, std::mt19937_64& random, const Before& before, const Run& run) {
  std::vector<size_t> open(count), ready;
  std::vector<std::vector<size_t>> after(count);
  for (size_t i = 0; i < count; ++i) {
    const std::vector<uintptr_t>& numbers = before(i);
    open[i] = numbers.size();
    for (uintptr_t number : numbers) after[number - 1].push_back(i);
    if (!open[i]) ready.push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const size_t next = ready.back();
    ready.pop_back();
    if (const int bad = run(next)) return bad;
    for (size_t i : after[next]) {
      if (--open[i] == 0) ready.push_back(i);
    }
  }
  return 0;
}

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_LATE_GPU_H_
