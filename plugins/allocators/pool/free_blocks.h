// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The free parts of a pool by size class: four classes a power of two, a bitmap of those that are not empty, best fit inside a class.
// Used by pool.cpp under its lock; knows nothing of buffers and points.
#ifndef HEDDLE_POOL_FREE_BLOCKS_H_
#define HEDDLE_POOL_FREE_BLOCKS_H_

#include <cstdint>

namespace heddle::pool {

constexpr uint64_t kGranule = 256;  // sizes and offsets are multiples

struct Chunk;
struct Pending;

// A part of a chunk: free, handed out, or freed and waiting for points. Parts of a chunk form a list in order of offset.
struct Part {
  enum class State : uint32_t { kFree, kUsed, kPending };
  Chunk* chunk = nullptr;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t requested = 0;  // while used
  Part* before = nullptr;  // in the chunk
  Part* after = nullptr;
  Part* previous_free = nullptr;  // in its class, or in the list of pending ones
  Part* next_free = nullptr;
  Pending* pending = nullptr;
  State state = State::kFree;
};

class FreeBlocks {
 public:
  void insert(Part* part) noexcept;
  void remove(Part* part) noexcept;
  // The best part of at least `size` bytes that also fits once its start is rounded up to `alignment`; NULL if none is there. The part
  // stays inserted.
  Part* find(uint64_t size, uint64_t alignment) const noexcept;

 private:
  static constexpr uint32_t kClasses = 256;
  static uint32_t class_of(uint64_t size) noexcept;
  static bool fits(const Part* part, uint64_t size, uint64_t alignment) noexcept;
  uint32_t next_class(uint32_t from) const noexcept;  // the first non-empty one at or after; kClasses if none

  Part* first_[kClasses] = {};
  uint64_t filled_[kClasses / 64] = {};
};

}  // namespace heddle::pool
#endif  // HEDDLE_POOL_FREE_BLOCKS_H_
