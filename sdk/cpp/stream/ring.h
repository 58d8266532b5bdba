// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A bounded ring of pinned slots, through which host threads and the copy engines move bytes at the same time. Used by parameter I/O and by
// transfers of ordinary host memory, only on the device's thread for jobs.
#ifndef HEDDLE_SDK_STREAM_RING_H_
#define HEDDLE_SDK_STREAM_RING_H_

#include <functional>

#include "heddle/sdk/stream/device.h"

namespace heddle::sdk::stream {

class Ring {
 public:
  static constexpr uint64_t kPieceBytes = uint64_t{1} << 20;  // bytes that a thread moves at once, unless a plan says otherwise
  static constexpr uint64_t kPinnedBytes = uint64_t{64}
                                           << 20;  // limit of all slots, unless a plan says otherwise; a large move takes as much

  // All pieces of a move and their layout in slots. Several threads fill a slot, round after round; pieces of a round that are adjacent in the slot
  // and in device memory are one copy, since copies below about 16 MiB do not reach the rate of the link.
  class Plan {
   public:
    // piece_bytes: the maximum of a piece in a slot including its lead, a multiple of a page. pinned_bytes, threads: 0 lets the ring choose.
    Plan(bool to_device, uint64_t total_bytes, uint64_t piece_bytes, uint64_t pinned_bytes, uint32_t threads);
    // Call in order. `host` is the host address of the device memory, so that no slot is needed, or null. In its slot the piece comes after the one
    // that it continues, or `lead` bytes after the start of a page that it does not share.
    void add(Address device, char* host, uint64_t length, uint64_t lead, bool continues);

    // Fills memory (to_device) or consumes its contents; false stops everything. Called from several threads.
    std::function<bool(uint64_t index, char* memory)> host_side;
    // The piece has arrived.
    std::function<void(uint64_t index)> arrived = [](uint64_t) {};

   private:
    friend class Ring;
    struct Piece {
      Address device;
      char* host;
      uint64_t length, slot_at, round;
    };
    struct Round {
      uint64_t first, pieces;  // index of the first piece, and how many use its slot
    };
    bool to_device_;
    uint64_t slot_bytes_, slots_, threads_, pinned_bytes_;
    std::vector<Piece> pieces_;
    std::vector<Round> rounds_;
    uint64_t used_ = 0;  // used bytes of the last round's slot
  };

  explicit Ring(Device* device) : device_(device) {}
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Makes the slots that a large move needs, so that the first one begins at once. What fails is told by the move.
  void prepare_for_large_moves();
  // Moves all pieces; NULL also if host_side stopped it. One call at a time.
  heddle_status_t* move(const Plan& plan);
  uint64_t bytes_held() const noexcept { return held_.load(std::memory_order_relaxed); }

 private:
  // Pinned memory of one or more slots, since pinning takes about as long for 16 MiB as for 64 (H200).
  struct Region {
    void* mapping = nullptr;
    char* memory = nullptr;  // aligned start inside the mapping, for huge pages
    uint64_t bytes = 0;
    bool registered = false;
    bool allocated = false;  // by the vendor, for one that does not register memory
  };
  struct Slot {
    char* memory;
    uint64_t bytes;
    Event event;  // recorded after the copies of a round
  };
  class Move;
  Result prepare(uint64_t slots, uint64_t slot_bytes, uint64_t pinned_bytes);
  Result pin(uint64_t bytes);
  void map(Region* region);
  void release() noexcept;

  Device* device_;
  Stream stream_ =
      nullptr;  // a single one: sequential copies free the slots one after the other; two parallel copies would keep two slots busy for as long
  std::vector<Region> regions_;
  std::vector<Slot> slots_;
  std::atomic<uint64_t> held_{0};
};

}  // namespace heddle::sdk::stream
#endif  // HEDDLE_SDK_STREAM_RING_H_
