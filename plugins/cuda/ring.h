// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A bounded ring of pinned slots through which host threads and the copy engines move bytes at the same time. Used by parameter I/O and by
// transfers of ordinary host memory, on the device's thread for jobs only.
#ifndef HEDDLE_CUDA_RING_H_
#define HEDDLE_CUDA_RING_H_

#include <functional>

#include "cuda/device.h"

namespace heddle::cuda {

class Ring {
 public:
  // One move of at most a slot: between device memory, or memory that host and device see, and what the caller's function handles.
  struct Piece {
    CUdeviceptr device;
    char* host;  // where the host sees the device's side: no slot is needed; else null
    uint64_t length;
  };
  struct Plan {
    uint64_t count;
    uint64_t slot_bytes;
    uint64_t pinned_bytes;  // bound of the ring; 0: its own choice
    uint32_t threads;       // 0: its own choice
    bool to_device;
    std::function<Piece(uint64_t index)> piece;
    // Fills memory (to_device) or takes what is in it; false stops everything. From several threads.
    std::function<bool(uint64_t index, char* memory)> host_side;
    // The piece has arrived.
    std::function<void(uint64_t index)> arrived;
  };

  explicit Ring(Device* device) : device_(device) {}
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Moves all pieces; NULL also when host_side stopped it. One call at a time.
  heddle_status_t* move(const Plan& plan);
  uint64_t bytes_held() const noexcept { return held_.load(std::memory_order_relaxed); }

 private:
  struct Slot {
    char* memory = nullptr;
    uint64_t bytes = 0;
    CUevent event = nullptr;
  };
  static constexpr uint32_t kStreams = 2;
  CUresult prepare(uint32_t slots, uint64_t slot_bytes);
  void release() noexcept;

  Device* device_;
  CUstream streams_[kStreams] = {};
  std::vector<Slot> slots_;
  std::atomic<uint64_t> held_{0};
};

}  // namespace heddle::cuda
#endif  // HEDDLE_CUDA_RING_H_
