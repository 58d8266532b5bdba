// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads weights that are stored in blocks on devices whose driver has heddle.blocks/1: reads the blocks to the device, chunk by chunk into one of two
// places, where the device decodes one chunk while the next one is read. Used by block_weights.cpp, which makes other weights on the host.
#ifndef HEDDLE_CORE_MEMORY_ENCODED_WEIGHTS_H_
#define HEDDLE_CORE_MEMORY_ENCODED_WEIGHTS_H_

#include <atomic>
#include <string_view>
#include <vector>

#include "core/memory/weights.h"

namespace heddle::memory {

class EncodedWeights {
 public:
  EncodedWeights(Device& device, const host::ParamIoConfig& config, const std::atomic<bool>* cancelled)
      : device_(device), config_(config), cancelled_(cancelled) {}
  EncodedWeights(const EncodedWeights&) = delete;
  EncodedWeights& operator=(const EncodedWeights&) = delete;
  ~EncodedWeights();

  // Whether the device can decode this weight; if so, it is loaded by read().
  bool add(const WeightExtent& extent, Weight& weight);
  // Allocates, reads and decodes all of them. UNIMPLEMENTED: none of the configured methods reads the files, or there is no memory for the chunks; the
  // host can load the weights instead.
  Status read();

 private:
  struct Part {
    const WeightExtent* from;
    Weight* to;
  };
  struct File {
    int descriptor;
    std::string_view path;
    std::vector<Part> parts;
    heddle_file_t* handle;
  };
  // What is read and decoded at once: whole blocks of some parts of one file.
  struct Chunk {
    std::vector<const WeightExtent*> from;  // per item
    std::vector<heddle_extent_t> extents;
    std::vector<heddle_encoded_t> items;
    const File* file = nullptr;
    Device::Pending reading, decoding;
    bool reads = false, decodes = false;  // in progress
  };

  Status open();
  Status allocate();
  Status allocate_staging();
  Status read_by(uint32_t method);
  // Fills an empty chunk, for its place in the staging memory, from `*part` and `*block` of the file on.
  void fill(Chunk& chunk, const File& file, size_t* part, uint64_t* block) const;
  Status begin(Chunk& chunk, heddle_param_io_params_t& params);
  // Waits until the chunk is decoded, and empties it.
  Status land(Chunk& chunk);
  Status decoding_failed(Status&& failure, const Chunk& chunk) const;

  Device& device_;
  const host::ParamIoConfig& config_;
  const std::atomic<bool>* cancelled_;
  std::vector<File> files_;
  heddle_block_t staging_{};
  uint64_t chunk_bytes_ = 0;
  static constexpr size_t kPlaces = 2;
  Chunk chunks_[kPlaces];
};

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_ENCODED_WEIGHTS_H_
