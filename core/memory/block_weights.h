// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads weights whose bytes are not those in the file: values in blocks, such as Q4_K of GGUF, and repeated patterns. The device decodes blocks if its
// driver can (encoded_weights.h). All others are made on the host, piece by piece, and each piece is copied to the device. Used by weights.cpp.
#ifndef HEDDLE_CORE_MEMORY_BLOCK_WEIGHTS_H_
#define HEDDLE_CORE_MEMORY_BLOCK_WEIGHTS_H_

#include <atomic>
#include <mutex>
#include <vector>

#include "core/memory/encoded_weights.h"
#include "core/memory/weights.h"

namespace heddle::memory {

class BlockWeights {
 public:
  BlockWeights(Device& device, const host::ParamIoConfig& config, const std::atomic<bool>* cancelled)
      : device_(device), cancelled_(cancelled), encoded_(device, config, cancelled) {}
  BlockWeights(const BlockWeights&) = delete;
  BlockWeights& operator=(const BlockWeights&) = delete;

  void add(const WeightExtent& extent, Weight& weight) { (encoded_.add(extent, weight) ? decoded_ : parts_).push_back({&extent, &weight}); }
  // Allocates, reads and converts all of them, with several threads if they are large. Returns the first failure, when all threads have ended.
  Status read();

 private:
  struct Part {
    const WeightExtent* from;
    Weight* to;
  };
  // Some blocks of a weight.
  struct Piece {
    const Part* part;
    uint64_t first_block, blocks;
  };
  struct Buffers;
  Status make();
  // Takes pieces until none is left or one failed.
  void work();
  // Reads and converts to values in the device's memory.
  Status convert(const Piece& piece, Buffers& buffers);
  void fail(Status&& failure);

  Device& device_;
  const std::atomic<bool>* cancelled_;
  EncodedWeights encoded_;
  std::vector<Part> decoded_, parts_;  // what the device decodes, and what the host makes
  std::vector<Piece> pieces_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  Status failure_;
};

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_BLOCK_WEIGHTS_H_
