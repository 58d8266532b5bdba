// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The blocks of some threads: parts of chunks, freed parts that wait for points, and their statistics. Used by pool.cpp under the heap's lock;
// knows nothing of threads, limits and the origin of chunks.
//
// Peaks are for all heaps together. So a heap has for each quantity a bound up to which it need not look at other heaps, and the bounds of all
// heaps add up to at most the peak: below them no peak changes. An operation that would pass a bound borrows from another heap's bound; if no heap
// has enough left, it is refused and nothing changes. The caller then takes the locks of all heaps and repeats it; it is then counted, and new
// bounds are set.
#ifndef HEDDLE_POOL_HEAP_H_
#define HEDDLE_POOL_HEAP_H_

#include <vector>

#include "free_blocks.h"
#include "heddle/sdk/spin_lock.h"

namespace heddle::pool {

// The counted quantities, in bytes. kNeeded: requested, or freed and waiting for points.
enum Quantity : uint32_t { kRequested, kAllocated, kActive, kInactiveSplit, kNeeded, kQuantities };

// The counts of one heap.
struct alignas(64) Books {
  uint64_t now[kQuantities] = {};
  uint64_t bound[kQuantities] = {};
  uint64_t total[kQuantities] = {};  // sum of everything ever added
  uint64_t allocations = 0, frees = 0;
  uint64_t pending_bytes = 0;
};

class Heap;

// The peaks of all heaps. All locks must be held; for heaps() the lock of any heap suffices.
class Peaks {
 public:
  void add(Heap* heap) { heaps_.push_back(heap); }
  const std::vector<Heap*>& heaps() const noexcept { return heaps_; }
  // Call if a bound may have been passed.
  void look() noexcept;
  uint64_t now(Quantity quantity) const noexcept;
  uint64_t peak(Quantity quantity) const noexcept { return peak_[quantity]; }

 private:
  std::vector<Heap*> heaps_;
  uint64_t peak_[kQuantities] = {};
};

class alignas(64) Heap {
 public:
  Heap(const heddle_provider_t& provider, Peaks& of_all) noexcept : provider_(provider), of_all_(of_all) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  sdk::SpinLock lock;
  Peaks* peaks = nullptr;  // set while all locks are held, or the heap is the only one
  Books books;
  std::vector<Chunk*> chunks;

  // The chunk is empty, and becomes one free part of this heap.
  Part* add(Chunk* chunk);
  // The chunk has no active part and no span. The caller owns it afterwards.
  void remove(Chunk* chunk) noexcept;

  // A block from free parts, or from parts freed before `after`; false: there is none, or it would pass a bound.
  bool allocate(const Wanted& wanted, const heddle_block_params_t& params, heddle_block_t* out);
  // A free part that is large enough; NULL if there is none. The part stays free.
  Part* find_free(const Wanted& wanted) noexcept;
  // Joins the parts that were kept for quick reuse. Before that, a chunk without active parts may consist of several free parts.
  void join_quick() noexcept;
  // The part of an empty chunk for a large block; the rest of it stays free. The chunk has the size of this block and those that come soon, or is
  // small beside `needed`, the peak need so far.
  Part* find_to_split(const Wanted& wanted, uint64_t needed) noexcept;
  // From now on, parts of this empty chunk are for several large blocks.
  void split(Part* whole) noexcept;
  // Makes a free part a used one, and splits off the excess. False: it would pass a bound.
  bool take(Part* part, const Wanted& wanted, const heddle_block_params_t& params, heddle_block_t* out);
  // The same for a part that becomes a chunk of another heap. All locks must be held.
  Part* take_span(Part* part, const Wanted& wanted);
  void free_span(Part* part) noexcept;

  // False: it would pass a bound.
  bool free(Part* part, const heddle_point_t* points, uint32_t count);
  // Frees pending parts whose points are reached, the oldest first; examines at most `most`. False: it would pass a bound.
  bool settle(size_t most);
  // A pending part that a caller at `after` may use without waiting.
  Part* find_in_stream_order(const Wanted& wanted, heddle_point_t after) const;
  // A pending part that a caller may use after waiting for at most `capacity` points.
  Part* find_with_waits(const Wanted& wanted, uint32_t capacity) const noexcept;
  // Returned as a whole: the rest of a split part would be reused without its points. False: it would pass a bound.
  bool take_pending(Part* part, const heddle_block_params_t& params, heddle_block_t* out);

  uint64_t largest_free() noexcept;

 private:
  // Takes over the unused parts of other heaps' bounds. False: they are not sufficient.
  bool borrow(const uint64_t (&more)[kQuantities]) noexcept;
  // Whether a change by this amount stays within the bound.
  bool has_room(Quantity quantity, uint64_t more) const noexcept { return books.now[quantity] + more <= books.bound[quantity]; }
  void add(Quantity quantity, uint64_t bytes) noexcept {
    books.now[quantity] += bytes;
    books.total[quantity] += bytes;
  }
  void subtract(Quantity quantity, uint64_t bytes) noexcept { books.now[quantity] -= bytes; }
  // The change of kInactiveSplit, the free bytes in partly active chunks without their spans, when a part becomes active or stops being active.
  static int64_t split_by_activating(const Chunk& chunk, uint64_t bytes) noexcept;
  static int64_t split_by_deactivating(const Chunk& chunk, uint64_t bytes) noexcept;
  void add_split(int64_t bytes) noexcept;
  void have_spare_parts();
  // A spare part, linked in between two neighbors of the chunk.
  Part* new_part(Chunk* chunk, uint64_t offset, uint64_t size, Part* before, Part* after) noexcept;
  void drop_part(Part* part) noexcept;
  uint64_t size_of_taken(const Part& part, const Wanted& wanted) const noexcept;
  // Splits a part for the request off a free one; it is then in no list and not free any more.
  Part* split_off(Part* part, const Wanted& wanted) noexcept;
  Part* find_joined(const Wanted& wanted) const noexcept;
  // A part that is in no list becomes free, joined with its free neighbors.
  void make_free(Part* part) noexcept;
  void unlink_pending(Part* part) noexcept;
  void hand_out(Part* part, const heddle_block_params_t& params, heddle_block_t* out) noexcept;

  const heddle_provider_t& provider_;
  Peaks& of_all_;
  Part* first_pending_ = nullptr;  // oldest
  Part* last_pending_ = nullptr;
  Part* spare_parts_ = nullptr;
  // Small free parts that wait for a block of exactly their size, the last freed first. They are joined before a request fails.
  static constexpr uint64_t kQuickSize = 4 << 10, kQuickBytes = 64 << 10;
  Part* quick_[kQuickSize / kGranule + 1] = {};
  uint64_t quick_bytes_ = 0;
  FreeBlocks free_[4];  // per kind of chunk; those of the last kind are not searched
};

}  // namespace heddle::pool
#endif  // HEDDLE_POOL_HEAP_H_
