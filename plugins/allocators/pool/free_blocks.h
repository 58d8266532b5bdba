// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The free parts of a pool by size class: eight classes a power of two, a bitmap of those that are not empty, best fit inside a class.
// Used by pool.cpp under its lock; knows nothing of points and limits.
#ifndef HEDDLE_POOL_FREE_BLOCKS_H_
#define HEDDLE_POOL_FREE_BLOCKS_H_

#include <cstddef>
#include <cstdint>

#include "heddle/allocator.h"

namespace heddle::pool {

constexpr uint64_t kGranule = 256;  // sizes and offsets are multiples

struct Part;
struct Pending;

// What the provider gave.
struct Chunk {
  // kShared: parts for small blocks. kWhole: one large block takes all of it. kCut: was whole, and now has parts for large blocks.
  enum Kind : uint32_t { kShared, kWhole, kCut };
  heddle_block_t block = {};
  uint64_t size = 0;
  uint64_t alignment = 0;
  uint64_t active_parts = 0;  // handed out or pending
  uint64_t active_bytes = 0;
  Part* first = nullptr;
  size_t index = 0;  // in Pool::chunks_
  Kind kind = kShared;
  bool initial = false;  // of pool_initial: only a trim gives it back
};

// A part of a chunk: free, handed out, or freed and waiting for points. Parts of a chunk form a list in order of offset.
struct Part {
  enum class State : uint32_t { kFree, kUsed, kPending };
  Chunk* chunk = nullptr;
  uint64_t offset = 0;  // in the chunk
  uint64_t size = 0;
  uint64_t requested = 0;                  // while used
  const heddle_string_t* owner = nullptr;  // while used
  Part* before = nullptr;                  // in the chunk
  Part* after = nullptr;
  Part* previous_free = nullptr;  // in its class, or in the list of pending ones
  Part* next_free = nullptr;
  Pending* pending = nullptr;
  State state = State::kFree;
};

// True if `size` bytes fit after the part's start is rounded up to `alignment`, a power of two and no more than its chunk's.
bool holds(const Part& part, uint64_t size, uint64_t alignment) noexcept;

class FreeBlocks {
 public:
  void insert(Part* part) noexcept;
  void remove(Part* part) noexcept;
  // The best part that holds them; NULL if none is there. The part stays inserted.
  Part* find(uint64_t size, uint64_t alignment) const noexcept;
  uint64_t largest_bytes() const noexcept;

 private:
  static constexpr uint32_t kClasses = 512;
  static uint32_t class_of(uint64_t size) noexcept;
  uint32_t next_class(uint32_t from) const noexcept;  // the first non-empty one at or after; kClasses if none

  Part* first_[kClasses] = {};
  uint64_t filled_[kClasses / 64] = {};
};

}  // namespace heddle::pool
#endif  // HEDDLE_POOL_FREE_BLOCKS_H_
