// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Size classes of free parts.
#include "free_blocks.h"

#include <algorithm>

namespace heddle::pool {
namespace {

constexpr uint32_t kLooks = 32;  // maximum number of parts of one class that a search compares

}  // namespace

bool holds(const Part& part, uint64_t size, uint64_t alignment) noexcept {
  if (part.size < size || part.chunk->alignment < alignment) return false;
  const uint64_t skipped = (0 - part.offset) & (alignment - 1);
  return part.size - size >= skipped;
}

uint32_t FreeBlocks::next_class(uint32_t from) const noexcept {
  for (uint32_t word = from / 64; word < kClasses / 64; ++word) {
    uint64_t bits = filled_[word];
    if (word == from / 64) bits &= ~uint64_t{0} << (from % 64);
    if (bits) return word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
  }
  return kClasses;
}

Part* FreeBlocks::find(uint64_t size, uint64_t alignment) const noexcept {
  for (uint32_t at = next_class(class_of(size)); at < kClasses; at = next_class(at + 1)) {
    Part* best = nullptr;
    uint32_t looks = 0;
    for (Part* part = first_[at]; part && looks < kLooks; part = part->next_free, ++looks) {
      if (!holds(*part, size, alignment)) continue;
      if (!best || part->size < best->size) best = part;
      if (part->size == size) break;
    }
    if (best) return best;
  }
  return nullptr;
}

uint64_t FreeBlocks::largest_bytes() const noexcept {
  uint32_t last = kClasses;
  for (uint32_t at = next_class(0); at < kClasses; at = next_class(at + 1)) last = at;
  uint64_t bytes = 0;
  if (last == kClasses) return bytes;
  for (const Part* part = first_[last]; part; part = part->next_free) bytes = std::max(bytes, part->size);
  return bytes;
}

}  // namespace heddle::pool
