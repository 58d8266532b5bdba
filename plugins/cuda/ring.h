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
  static constexpr uint64_t kPieceBytes = uint64_t{1} << 20;    // what a thread moves at once, unless a plan says otherwise
  static constexpr uint64_t kPinnedBytes = uint64_t{64} << 20;  // bound of all slots; the same

  // All pieces of a move and how they lie in slots. A slot is filled by several threads, round after round; what of a round lies side by side
  // in the slot and in device memory is one copy, since copies of less than some 16 MiB do not reach the rate of the link.
  class Plan {
   public:
    // piece_bytes: the most that a piece takes in a slot with its lead, a multiple of a page. pinned_bytes, threads: 0 is the ring's choice.
    Plan(bool to_device, uint64_t total_bytes, uint64_t piece_bytes, uint64_t pinned_bytes, uint32_t threads);
    // In order. `host` is where the host sees the device's side, so that no slot is needed, or null. In its slot the piece lies behind the one
    // it continues, or `lead` bytes behind the start of a page that it shares with nobody.
    void add(CUdeviceptr device, char* host, uint64_t length, uint64_t lead, bool continues);

    // Fills memory (to_device) or takes what is in it; false stops everything. From several threads.
    std::function<bool(uint64_t index, char* memory)> host_side;
    // The piece has arrived.
    std::function<void(uint64_t index)> arrived = [](uint64_t) {};

   private:
    friend class Ring;
    struct Piece {
      CUdeviceptr device;
      char* host;
      uint64_t length, slot_at, round;
    };
    struct Round {
      uint64_t first, pieces;  // the first one's index, and how many use its slot
    };
    bool to_device_;
    uint64_t slot_bytes_, slots_, threads_, pinned_bytes_;
    std::vector<Piece> pieces_;
    std::vector<Round> rounds_;
    uint64_t used_ = 0;  // of the last round's slot
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
    void* mapping = nullptr;
    char* memory = nullptr;  // in it, where huge pages may begin
    uint64_t bytes = 0;
    bool registered = false;
    CUevent event = nullptr;  // behind the copies of a round
  };
  class Move;
  CUresult prepare(uint64_t slots, const Plan& plan);
  // Not before a slot's first copy: by then threads have filled it, and so made its pages at the same time, each a part. To pin 96 MiB that
  // nobody has touched takes 25 ms.
  CUresult pin(Slot* slot);
  void map(Slot* slot, uint64_t bytes);
  void release() noexcept;

  Device* device_;
  CUstream stream_ = nullptr;  // one: copies in turn free the slots in turn, two at once would keep two busy for as long
  std::vector<Slot> slots_;
  std::atomic<uint64_t> held_{0};
};

}  // namespace heddle::cuda
#endif  // HEDDLE_CUDA_RING_H_
