// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Named tensors in one or several files, whatever their format: safetensors, safetensors in shards with an index, .npz, .npy. Opening reads
// headers alone; data is read in pieces, and no file is mapped. Used by every action of heddle params.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "sdk/module/safetensors.h"
#include "tools/heddle/input_file.h"
#include "tools/heddle/tensor_text.h"

namespace heddle::tool {

struct StoredTensor {
  std::string name;
  Shape shape;        // the type is undefined where Heddle has none
  std::string dtype;  // such a type's name in the file; else empty
  uint32_t file = 0;  // of Checkpoint::files()
  uint64_t offset = 0, length = 0;
  // Of .npz: the CRC-32 of its member, which has a header before the data.
  std::optional<uint32_t> crc = {};
  uint64_t header_bytes = 0;

  bool has_values() const { return dtype.empty(); }
  // "f32", or the file's own name
  std::string type_text() const;
  // "2x3xf32"
  std::string shape_text() const;
};

class Checkpoint {
 public:
  // Opens and checks all of the structure: every file of it, every name, size and offset.
  Wrong open(const std::string& path);

  const std::string& path() const { return path_; }
  // "safetensors", "safetensors in shards", "npz", "npy"
  const std::string& format() const { return format_; }
  const std::vector<InputFile>& files() const { return files_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // sorted by name
  const StoredTensor* find(const std::string& name) const;
  uint64_t tensor_bytes() const;
  // Of safetensors; of shards, all that they say, the first where two say something else.
  const module::SafetensorsMetadata& metadata() const { return metadata_; }
  // What is odd and no error: a total that is wrong, tensors of a shard that the index does not name.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Bytes of a tensor's data. What is wrong names file, tensor and bytes.
  Wrong read(const StoredTensor& tensor, uint64_t offset, std::span<std::byte> out) const;
  // What is wrong if one of the files was written to meanwhile.
  Wrong changed() const;

 private:
  Wrong open_single(const std::string& first_bytes);
  Wrong open_safetensors(uint32_t file);
  Wrong open_shards();
  Wrong open_npz();
  Wrong open_npy();

  std::string path_, format_;
  std::vector<InputFile> files_;
  std::vector<StoredTensor> tensors_;
  module::SafetensorsMetadata metadata_;
  std::unordered_set<std::string> metadata_names_;
  std::vector<std::string> warnings_;
};

// Bytes of a piece, in which everything is read and written.
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;
// Hands out a tensor's data in order, as tensors of rank 1 and at most kPieceBytes of its type; of bytes where Heddle has no type for it.
Wrong for_each_piece(const Checkpoint& checkpoint, const StoredTensor& tensor, const std::function<Wrong(const HostTensor&)>& take);

}  // namespace heddle::tool
