// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Packs slices with known lives into one block: slices that never live at the same time may share bytes.
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
  uint32_t first = 0, last = 0;   // instructions, both included
  uint64_t offset = 0;            // out
};

// Sets the offsets and gives the bytes of the whole. Largest slice first, each into the smallest gap that fits between the slices it lives
// together with. RESOURCE_EXHAUSTED beyond 2^48 bytes.
Result<uint64_t> pack(std::vector<Slice>& slices);

// What calls of one function whose extents grow, such as the steps of a decoder, have in common: a packing by capacity. [any]
class Packings {
 public:
  // As pack() above. Slices that live as those of an earlier call did, and fit into what these got, lie where these lay, so that the arena is as large. No slice
  // gets more than an eighth beyond what it needs: those that have shrunk further are packed anew, and those that have grown since the last packing get some more.
  Result<uint64_t> pack(std::vector<Slice>& slices);
  // Packings whose arenas may be too large for the memory that is there.
  void forget();

 private:
  struct Packing {
    std::vector<Slice> slices;
    uint64_t bytes = 0;
  };
  std::mutex lock_;
  std::vector<Packing> kept_;  // the last used one is the last
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_ARENA_H_
