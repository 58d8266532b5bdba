// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each thread has slots of its own and uses them in turn: it fills a slot, enqueues its copy and goes on with the next, and waits only where
// a slot is still being copied.
#include "cuda/ring.h"

#include <algorithm>
#include <thread>

namespace heddle::cuda {
namespace {

constexpr uint32_t kMostThreads = 12;
constexpr uint32_t kSlotsPerThread = 2;
constexpr uint64_t kBytesPerThread = uint64_t{4} << 20;  // a thread for less does not pay

}  // namespace

Ring::~Ring() {
  release();
  for (CUstream stream : streams_) {
    if (stream) device_->cuda.cuStreamDestroy(stream);
  }
}

void Ring::release() noexcept {
  for (Slot& slot : slots_) {
    if (slot.memory) device_->cuda.cuMemFreeHost(slot.memory);
    if (slot.event) device_->cuda.cuEventDestroy(slot.event);
  }
  slots_.clear();
  held_.store(0, std::memory_order_relaxed);
}

CUresult Ring::prepare(uint32_t count, uint64_t slot_bytes) {
  const Api& cuda = device_->cuda;
  for (CUstream& stream : streams_) {
    if (stream) continue;
    if (CUresult bad = cuda.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0)) return bad;
  }
  // Moves of different sizes leave slots of different sizes, and any of them may be used now.
  if (std::any_of(slots_.begin(), slots_.end(), [&](const Slot& slot) { return slot.bytes < slot_bytes || !slot.event; })) release();
  while (slots_.size() < count) {
    Slot slot;
    slot.bytes = slot_bytes;
    void* memory = nullptr;
    if (CUresult bad = cuda.cuMemHostAlloc(&memory, slot_bytes, CU_MEMHOSTALLOC_PORTABLE)) return bad;
    slot.memory = static_cast<char*>(memory);
    slots_.push_back(slot);
    held_.fetch_add(slot_bytes, std::memory_order_relaxed);
    if (CUresult bad = cuda.cuEventCreate(&slots_.back().event, CU_EVENT_DISABLE_TIMING)) return bad;
  }
  return CUDA_SUCCESS;
}

heddle_status_t* Ring::move(const Plan& plan) {
  if (plan.count == 0) return nullptr;
  const Api& cuda = device_->cuda;
  ContextScope scope(device_);
  uint64_t threads = std::min<uint64_t>(plan.threads ? std::min(plan.threads, 4 * kMostThreads) : kMostThreads, plan.count);
  threads = std::clamp<uint64_t>(plan.count * plan.slot_bytes / kBytesPerThread, 1, threads);
  uint64_t per_thread = std::min<uint64_t>(kSlotsPerThread, (plan.count + threads - 1) / threads);
  if (plan.pinned_bytes) {
    const uint64_t most = std::max<uint64_t>(1, plan.pinned_bytes / plan.slot_bytes);
    threads = std::min(threads, most);
    per_thread = std::min(per_thread, std::max<uint64_t>(1, most / threads));
  }
  if (plan.pinned_bytes && bytes_held() > plan.pinned_bytes) release();  // slots of an earlier, larger move
  CUresult result = prepare(static_cast<uint32_t>(threads * per_thread), plan.slot_bytes);
  if (result != CUDA_SUCCESS) return device_->failed(result, "preparing pinned memory for copies");

  std::atomic<uint64_t> next{0};
  std::atomic<int> failed{CUDA_SUCCESS};
  std::atomic<bool> stop{false};
  auto work = [&](uint32_t me) {
    ContextScope mine(device_);
    const CUstream stream = streams_[me % kStreams];
    struct Use {
      Slot* slot;
      uint64_t index = UINT64_MAX;  // what is being copied
    };
    std::vector<Use> own;
    for (uint64_t i = 0; i < per_thread; ++i) own.push_back({&slots_[me * per_thread + i]});
    auto check = [&](CUresult outcome) {
      if (outcome == CUDA_SUCCESS) return true;
      int none = CUDA_SUCCESS;
      failed.compare_exchange_strong(none, outcome);
      stop.store(true);
      return false;
    };
    // Ends the use of a slot.
    auto drain = [&](Use& use) {
      if (use.index == UINT64_MAX) return true;
      const uint64_t index = use.index;
      use.index = UINT64_MAX;
      if (!check(cuda.cuEventSynchronize(use.slot->event))) return false;
      if (!plan.to_device && !stop.load(std::memory_order_relaxed) && !plan.host_side(index, use.slot->memory)) {
        stop.store(true);
        return false;
      }
      plan.arrived(index);
      return true;
    };
    for (uint64_t turn = 0; !stop.load(std::memory_order_relaxed); ++turn) {
      const uint64_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= plan.count) break;
      const Piece piece = plan.piece(index);
      if (piece.host) {
        if (!plan.host_side(index, piece.host)) {
          stop.store(true);
          break;
        }
        plan.arrived(index);
        continue;
      }
      Use& use = own[turn % own.size()];
      if (!drain(use)) break;
      if (plan.to_device && !plan.host_side(index, use.slot->memory)) {
        stop.store(true);
        break;
      }
      const auto slot = reinterpret_cast<CUdeviceptr>(use.slot->memory);
      if (!check(plan.to_device ? cuda.cuMemcpyAsync(piece.device, slot, piece.length, stream)
                                : cuda.cuMemcpyAsync(slot, piece.device, piece.length, stream)) ||
          !check(cuda.cuEventRecord(use.slot->event, stream))) {
        break;
      }
      use.index = index;
    }
    for (Use& use : own) drain(use);
  };
  std::vector<std::thread> helpers;
  try {
    for (uint32_t i = 1; i < threads; ++i) helpers.emplace_back(work, i);
  } catch (const std::system_error&) {
    // as many as the system gives
  }
  work(0);
  for (std::thread& helper : helpers) helper.join();
  result = static_cast<CUresult>(failed.load());
  return result == CUDA_SUCCESS ? nullptr : device_->failed(result, "copying through pinned memory");
}

}  // namespace heddle::cuda
