// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The free parts of a pool by size class: eight classes per power of two, a bitmap of those that are not empty, best fit inside a class.
// Used by heap.cpp under its lock; knows nothing of points and limits.
#ifndef HEDDLE_POOL_FREE_BLOCKS_H_
#define HEDDLE_POOL_FREE_BLOCKS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "heddle/allocator.h"

namespace heddle::pool {

constexpr uint64_t kGranule = 256;  // sizes and offsets are multiples of it

class Heap;
struct Part;

// to: a power of two, like every alignment.
inline uint64_t round_up(uint64_t value, uint64_t to) noexcept {
  return (value + to - 1) & ~(to - 1);
}

// A request, rounded.
struct Wanted {
  uint64_t size, alignment;
  bool large;
  uint64_t soon = 0;  // as in heddle_block_params_t: a new chunk has as many bytes
};

// The point that a freed part waits for.
struct Pending {
  std::vector<heddle_point_t> points;
};

// Memory from the provider, or a span: a part of such a chunk, from which a heap serves its threads.
struct alignas(64) Chunk {
  // kShared: parts for small blocks. kWhole: one large block takes all of it. kSplit: was whole, and now has parts for large blocks. kSpilled: in
  // host memory, for one block.
  enum Kind : uint32_t { kShared, kWhole, kSplit, kSpilled };
  heddle_block_t block = {};
  uint64_t size = 0;
  uint64_t alignment = 0;
  uint64_t active_parts = 0;  // in use or pending
  uint64_t spans = 0;         // parts that are chunks of other heaps
  uint64_t span_bytes = 0;
  Part* first = nullptr;
  Part* span = nullptr;  // the part of another chunk that this chunk is made of; NULL: it is from the provider
  Heap* heap = nullptr;
  size_t index = 0;  // index in Heap::chunks
  Kind kind = kShared;
  bool initial = false;  // from pool_initial: only a trim returns it
};

// A part of a chunk: free, in use, freed and waiting for points, or a chunk of another heap; kQuick: free, and not joined yet. The parts of a chunk
// form a list in the order of offsets. Parts of different heaps share no cache line.
struct alignas(64) Part {
  enum class State : uint32_t { kFree, kUsed, kPending, kSpan, kQuick };
  // One cache line for the members that a search uses.
  Chunk* chunk = nullptr;
  uint64_t offset = 0;  // offset in the chunk
  uint64_t size = 0;
  Part* before = nullptr;  // neighbors in the chunk
  Part* after = nullptr;
  Part* previous_free = nullptr;  // in its class, or in the list of pending parts
  Part* next_free = nullptr;
  State state = State::kFree;
  uint64_t requested = 0;                  // valid while used
  const heddle_string_t* owner = nullptr;  // valid while used
  Pending* pending = nullptr;
};

// Whether `size` bytes fit after the part's start is rounded up to `alignment`, a power of two that does not exceed its chunk's.
bool holds(const Part& part, uint64_t size, uint64_t alignment) noexcept;

class FreeBlocks {
 public:
  void insert(Part* part) noexcept {
    const uint32_t at = class_of(part->size);
    part->previous_free = nullptr;
    part->next_free = first_[at];
    if (first_[at]) first_[at]->previous_free = part;
    first_[at] = part;
    filled_[at / 64] |= uint64_t{1} << (at % 64);
  }
  void remove(Part* part) noexcept { remove(part, class_of(part->size)); }
  // Call when its size has changed.
  void resized(Part* part, uint64_t old_size) noexcept {
    const uint32_t at = class_of(old_size);
    if (at == class_of(part->size)) return;
    remove(part, at);
    insert(part);
  }
  // The best part for this size; NULL if there is none. The part stays inserted.
  Part* find(uint64_t size, uint64_t alignment) const noexcept;
  uint64_t largest_bytes() const noexcept;

 private:
  static constexpr uint32_t kClasses = 512;
  // Eight classes between powers of two; sizes of at least a granule, and below 2^63.
  static uint32_t class_of(uint64_t size) noexcept {
    const auto log = static_cast<uint32_t>(std::bit_width(size)) - 1;
    return log * 8 + static_cast<uint32_t>(size >> (log - 3) & 7);
  }
  void remove(Part* part, uint32_t at) noexcept {
    if (part->previous_free) {
      part->previous_free->next_free = part->next_free;
    } else {
      first_[at] = part->next_free;
      if (!first_[at]) filled_[at / 64] &= ~(uint64_t{1} << (at % 64));
    }
    if (part->next_free) part->next_free->previous_free = part->previous_free;
  }
  uint32_t next_class(uint32_t from) const noexcept;  // the first non-empty one at or after; kClasses if none

  Part* first_[kClasses] = {};
  uint64_t filled_[kClasses / 64] = {};
};

}  // namespace heddle::pool
#endif  // HEDDLE_POOL_FREE_BLOCKS_H_
