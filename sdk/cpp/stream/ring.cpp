// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads take pieces in order. To the device: a piece's thread waits until its slot's earlier copies have finished and fills its part; the thread
// that fills the last part of a round enqueues the round's copies. From the device: the reverse, copies first.
#include "stream/ring.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <new>
#include <thread>

namespace heddle::sdk::stream {
namespace {

constexpr uint64_t kMostThreads = 48;
constexpr uint64_t kSlots = 4;  // eight are no faster (H200)
constexpr uint64_t kSlotBytes = uint64_t{16} << 20;
constexpr uint64_t kBytesPerPinningThread = uint64_t{8} << 20;
constexpr uint64_t kBytesPerThread = uint64_t{4} << 20;  // a thread for less data does not pay off
constexpr uint64_t kPage = 4096, kHugePage = uint64_t{2} << 20;
constexpr uint64_t kNoRound = UINT64_MAX;

uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

// As many as the cores but two, which start copies and wait; at least those that keep a disk busy, and at most those that fill the link. More threads
// than cores lose a third of the rate (H200, 16 cores).
uint64_t default_threads() {
  constexpr int kLeast = 12, kMost = 16;
  cpu_set_t cores;
  const int count = sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 0;
  return static_cast<uint64_t>(std::clamp(count - 2, kLeast, kMost));
}

// Runs it on this many threads, including this one, or on as many as the system allows.
template <typename Work>
void in_threads(uint64_t count, const Work& work) {
  std::vector<std::thread> others;
  others.reserve(count);
  try {
    while (others.size() + 1 < count) others.emplace_back(work);
  } catch (const std::exception&) {
  }
  work();
  for (std::thread& other : others) other.join();
}

}  // namespace

Ring::Plan::Plan(bool to_device, uint64_t total_bytes, uint64_t piece_bytes, uint64_t pinned_bytes, uint32_t threads)
    : to_device_(to_device), pinned_bytes_(std::max(pinned_bytes ? pinned_bytes : kPinnedBytes, piece_bytes)) {
  const uint64_t largest = std::min(kSlotBytes, round_up(std::min(total_bytes, kSlotBytes), kHugePage));
  slot_bytes_ = std::max(piece_bytes, std::min(largest, pinned_bytes_ / kSlots / kPage * kPage));
  slots_ = std::min(kSlots, pinned_bytes_ / slot_bytes_);
  threads_ =
      std::clamp<uint64_t>(total_bytes / kBytesPerThread, 1, threads ? std::min<uint64_t>(threads, kMostThreads) : default_threads());
}

void Ring::Plan::add(Address device, char* host, uint64_t length, uint64_t lead, bool continues) {
  if (host) {
    pieces_.push_back({device, host, length, 0, kNoRound});
    return;
  }
  uint64_t at = continues ? used_ : round_up(used_, kPage) + lead;
  if (rounds_.empty() || at + length > slot_bytes_) {
    rounds_.push_back({pieces_.size(), 0});
    at = lead;
  }
  pieces_.push_back({device, nullptr, length, at, rounds_.size() - 1});
  ++rounds_.back().pieces;
  used_ = at + length;
}

Ring::~Ring() {
  release();
  if (stream_) device_->backend.destroy_stream(stream_);
}

void Ring::release() noexcept {
  for (Slot& slot : slots_) {
    if (slot.event) device_->backend.destroy_event(slot.event);
  }
  slots_.clear();
  for (Region& region : regions_) {
    if (region.registered) device_->backend.unregister_host(region.memory);
    if (region.allocated) device_->backend.free_host(region.memory);
    if (region.mapping) munmap(region.mapping, region.bytes + kHugePage);
  }
  regions_.clear();
  held_.store(0, std::memory_order_relaxed);
}

// Its pages are there when this returns, since pinning would make them one after the other: 25 ms for 96 MiB.
void Ring::map(Region* region) {
  void* mapping = mmap(nullptr, region->bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  region->mapping = mapping;
  region->memory = reinterpret_cast<char*>(round_up(reinterpret_cast<uint64_t>(mapping), kHugePage));
  // Preferences, which the system may refuse: huge pages, which are pinned faster; no copy for a forked child; the device's memory node.
  madvise(region->memory, region->bytes, MADV_HUGEPAGE);
  madvise(region->memory, region->bytes, MADV_DONTFORK);
  if (const int node = device_->facts().numa_node; node >= 0 && node < 63) {
    constexpr int kPreferred = 1;  // MPOL_PREFERRED
    const unsigned long nodes = 1ul << node;
    syscall(SYS_mbind, region->memory, region->bytes, kPreferred, &nodes, 64ul, 0u);
  }
  std::atomic<uint64_t> next{0};
  in_threads(region->bytes / kBytesPerPinningThread + 1, [&] {
    for (uint64_t at; (at = next.fetch_add(kHugePage)) < region->bytes;) {
      const uint64_t end = std::min(region->bytes, at + kHugePage);
      for (; at < end; at += kPage) static_cast<volatile char*>(region->memory)[at] = 0;
    }
  });
}

Result Ring::pin(uint64_t bytes) {
  Backend& backend = device_->backend;
  Region& region = regions_.emplace_back();
  region.bytes = bytes;
  if (backend.capabilities().registers_host) {
    map(&region);
    if (Result bad = backend.register_host(region.memory, bytes, false)) return bad;
    region.registered = true;
  } else {
    void* memory = nullptr;
    if (Result bad = backend.allocate_host(bytes, false, &memory)) return bad;
    region.memory = static_cast<char*>(memory);
    region.allocated = true;
  }
  held_.fetch_add(bytes, std::memory_order_relaxed);
  return kSuccess;
}

Result Ring::prepare(uint64_t slots, uint64_t slot_bytes, uint64_t pinned_bytes) {
  Backend& backend = device_->backend;
  if (!stream_) {
    if (Result bad = backend.create_stream(0, &stream_)) return bad;
  }
  // Moves of different sizes leave slots of different sizes and numbers.
  bool too_small = false;
  uint64_t bytes = 0;
  for (const Slot& slot : slots_) {
    too_small |= slot.bytes < slot_bytes;
    bytes += slot.bytes;
  }
  if (slots > slots_.size()) bytes += (slots - slots_.size()) * slot_bytes;
  if (too_small || bytes > pinned_bytes) release();
  if (slots <= slots_.size()) return kSuccess;
  const uint64_t missing = slots - slots_.size();
  if (Result bad = pin(missing * slot_bytes)) return bad;
  for (uint64_t i = 0; i < missing; ++i) {
    Slot& slot = slots_.emplace_back(Slot{regions_.back().memory + i * slot_bytes, slot_bytes, nullptr});
    if (Result bad = backend.create_event(false, &slot.event)) return bad;
  }
  return kSuccess;
}

void Ring::prepare_for_large_moves() {
  ContextScope scope(device_);
  if (prepare(kSlots, kSlotBytes, kPinnedBytes) != kSuccess) release();
}

// One call of move().
class Ring::Move {
 public:
  Move(Ring* ring, const Plan& plan, uint64_t slots) : ring_(ring), backend_(ring->device_->backend), plan_(plan), turns_(slots) {}

  Result run() {
    for (uint64_t i = 0; i < turns_.size(); ++i) turns_[i].left = plan_.rounds_[i].pieces;
    if (!plan_.to_device_) {
      for (uint64_t i = 0; i < turns_.size(); ++i) copy(i);
    }
    in_threads(std::min<uint64_t>(plan_.threads_, plan_.pieces_.size()), [this] { work(); });
    // Also after a failure: no copy may be in progress when the memory is freed.
    check(backend_.synchronize_stream(ring_->stream_));
    if (plan_.to_device_ && !stop_) {
      const uint64_t rounds = plan_.rounds_.size();
      for (uint64_t i = rounds - turns_.size(); i < rounds; ++i) tell(i);
    }
    return failed_;
  }

 private:
  // The progress of a slot through its rounds; under mutex_.
  struct Turn {
    uint64_t left = 0;    // unfinished pieces of its round
    uint64_t copied = 0;  // the last round whose copies are enqueued, counted from 1
    uint64_t told = 0;    // the last round whose arrival is reported, counted from 1
  };

  void work() {
    ContextScope scope(ring_->device_);
    while (!stop_.load(std::memory_order_relaxed)) {
      const uint64_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= plan_.pieces_.size()) return;
      const Plan::Piece& piece = plan_.pieces_[index];
      if (!piece.host && !await(piece.round)) return;
      char* memory = piece.host ? piece.host : ring_->slots_[piece.round % turns_.size()].memory + piece.slot_at;
      if (!plan_.host_side(index, memory)) return stop();
      if (piece.host || !plan_.to_device_) plan_.arrived(index);
      if (!piece.host) finish(piece.round);
    }
  }

  // Waits until this round's part of the slot may be filled, or may be read. False if everything is to stop.
  bool await(uint64_t round) {
    const uint64_t slots = turns_.size();
    if (plan_.to_device_ && round < slots) return true;
    const uint64_t copied = plan_.to_device_ ? round - slots : round;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || turns_[round % slots].copied > copied; });
      if (stop_) return false;
    }
    if (!check(backend_.synchronize_event(ring_->slots_[round % slots].event))) return false;
    if (plan_.to_device_) tell(copied);
    return true;
  }

  // A thread has finished a piece of this round.
  void finish(uint64_t round) {
    const uint64_t slots = turns_.size(), next = round + slots;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      Turn& turn = turns_[round % slots];
      if (--turn.left) return;
      turn.left = next < plan_.rounds_.size() ? plan_.rounds_[next].pieces : 0;
    }
    if (plan_.to_device_) {
      copy(round);
    } else if (next < plan_.rounds_.size()) {
      copy(next);
    }
  }

  // Enqueues the copies of a round.
  void copy(uint64_t round) {
    Slot& slot = ring_->slots_[round % turns_.size()];
    const uint64_t end = round + 1 < plan_.rounds_.size() ? plan_.rounds_[round + 1].first : plan_.pieces_.size();
    Address device = 0;
    uint64_t at = 0, length = 0;
    auto enqueue = [&] {
      const auto host = reinterpret_cast<Address>(slot.memory + at);
      return length == 0 || check(plan_.to_device_ ? backend_.copy(device, host, length, ring_->stream_)
                                                   : backend_.copy(host, device, length, ring_->stream_));
    };
    for (uint64_t i = plan_.rounds_[round].first; i < end; ++i) {
      const Plan::Piece& piece = plan_.pieces_[i];
      if (piece.host) continue;
      if (length && piece.device == device + length && piece.slot_at == at + length) {
        length += piece.length;
        continue;
      }
      if (!enqueue()) return;
      device = piece.device;
      at = piece.slot_at;
      length = piece.length;
    }
    if (!enqueue() || !check(backend_.record_event(slot.event, ring_->stream_))) return;
    std::lock_guard<std::mutex> lock(mutex_);
    turns_[round % turns_.size()].copied = round + 1;
    changed_.notify_all();
  }

  // The bytes of a round are on the device.
  void tell(uint64_t round) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      uint64_t& told = turns_[round % turns_.size()].told;
      if (told > round) return;
      told = round + 1;
    }
    const uint64_t end = round + 1 < plan_.rounds_.size() ? plan_.rounds_[round + 1].first : plan_.pieces_.size();
    for (uint64_t i = plan_.rounds_[round].first; i < end; ++i) {
      if (!plan_.pieces_[i].host) plan_.arrived(i);
    }
  }

  void stop() {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  bool check(Result result) {
    if (result == kSuccess) return true;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (failed_ == kSuccess) failed_ = result;
    }
    stop();
    return false;
  }

  Ring* ring_;
  Backend& backend_;
  const Plan& plan_;
  std::atomic<uint64_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Turn> turns_;  // one per slot
  Result failed_ = kSuccess;
};

heddle_status_t* Ring::move(const Plan& plan) {
  if (plan.pieces_.empty()) return nullptr;
  ContextScope scope(device_);
  const uint64_t slots = std::min<uint64_t>(plan.slots_, plan.rounds_.size());
  Result result = prepare(slots, plan.slot_bytes_, plan.pinned_bytes_);
  if (result != kSuccess) {
    release();
    return device_->failed(result, "preparing pinned memory for copies");
  }
  result = Move(this, plan, slots).run();
  return result == kSuccess ? nullptr : device_->failed(result, "copying through pinned memory");
}

}  // namespace heddle::sdk::stream
