// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Packs slices with known lifetimes into one block: slices that are never live at the same time may share bytes.
// Used by plans, once per tuple of extents; pure arithmetic.
#ifndef HEDDLE_CORE_SUBMIT_ARENA_H_
#define HEDDLE_CORE_SUBMIT_ARENA_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "core/status.h"

namespace heddle::submit {

struct Slice {
  uint64_t size_bytes = 0;
  uint64_t alignment_bytes = 64;  // a power of two
  uint32_t first = 0, last = 0;   // instructions, both inclusive
  uint64_t offset = 0;            // out
};

// Sets the offsets and returns the total bytes. Places the largest slice first, each into the smallest sufficient gap between the slices that are
// live at the same time. RESOURCE_EXHAUSTED beyond 2^48 bytes.
Result<uint64_t> pack(std::vector<Slice>& slices);

// Shared by the calls of one function whose extents grow, such as the steps of a decoder: a packing by capacity. [any]
class Packings {
 public:
  // Like pack() above. If slices have the same lifetimes as those of an earlier call and fit into its capacities, they get the same offsets, and
  // the arena has the same size. No slice gets more than an eighth beyond its need: slices that shrank further are packed anew, and slices that
  // grew since the last packing get some reserve.
  Result<uint64_t> pack(std::vector<Slice>& slices);
  // Drops packings whose arenas may be too large for the available memory.
  void forget();

 private:
  struct Packing {
    std::vector<Slice> slices;
    uint64_t bytes = 0;
  };
  std::mutex lock_;
  std::vector<Packing> kept_;  // the most recently used is last
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_ARENA_H_
