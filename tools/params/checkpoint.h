// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Named tensors in one or several files of any supported format: safetensors, safetensors in shards with an index, GGUF, IRPA, .npz, .npy, and the
// initializers of ONNX models. Opening reads only headers; data is read in parts, and no file is mapped. Used by every action of heddle params.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "sdk/module/parameter_index.h"
#include "tools/heddle/input_file.h"
#include "tools/heddle/tensor_text.h"

namespace heddle::tool {

struct StoredTensor {
  std::string name;
  Shape shape;        // the type is undefined if Heddle has no such type, and f32 for values that are stored in blocks
  std::string dtype;  // name of such a type in the file, or of a packed one; else empty
  uint32_t file = 0;  // index into Checkpoint::files()
  uint64_t offset = 0, length = 0;
  // For .npz: the CRC-32 of its member, which has a header before the data.
  std::optional<uint32_t> crc = {};
  uint64_t header_bytes = 0;
  const module::BlockType* block = nullptr;  // of values that are stored in blocks
  std::string pattern = {};                  // repeated up to `length` instead of stored, unless it is empty
  bool is_untyped = false;                   // shape is u8[length], since the file states none
  bool is_packed = false;  // two 4-bit integers per byte, the first one in the lower bits. dtype is "i4" or "u4", values are i8 or u8

  bool has_values() const { return shape.element_type != HEDDLE_TYPE_UNDEFINED; }
  // Of values as read_values returns them; `length` if Heddle has no such type.
  uint64_t value_bytes() const { return has_values() ? byte_count(shape).value_or(0) : length; }
  // "f32", or the type's name in the file
  std::string type_text() const;
  // "f32[2,3]"
  std::string shape_text() const;
};

constexpr const char kParameterFileHelp[] = "parameter file: safetensors, model.safetensors.index.json, GGUF, IRPA, .npz, .npy or .onnx";

class Checkpoint {
 public:
  // Opens and checks the whole structure: every file, every name, size and offset.
  Wrong open(const std::string& path);

  const std::string& path() const { return path_; }
  // "safetensors", "safetensors in shards", "GGUF", "IRPA", "npz", "npy", "ONNX"
  const std::string& format() const { return format_; }
  const std::vector<InputFile>& files() const { return files_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // sorted by name
  const StoredTensor* find(const std::string& name) const;
  uint64_t tensor_bytes() const;
  // The metadata of safetensors and GGUF files; for shards the union, where the first file wins if two differ.
  const module::ParameterMetadata& metadata() const { return metadata_; }
  // Oddities that are not errors: a wrong total, tensors of a shard that are not in the index.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Reads bytes of a tensor's data as they are stored. An error text names file, tensor and bytes.
  Wrong read(const StoredTensor& tensor, uint64_t offset, std::span<std::byte> out) const;
  // Reads bytes of a tensor's values of type shape.element_type: the same unless they are stored in blocks or packed. Whole values only.
  Wrong read_values(const StoredTensor& tensor, uint64_t offset, std::span<std::byte> out) const;
  // An error text if one of the files was modified since it was opened.
  Wrong changed() const;

 private:
  Wrong open_single(const std::string& first_bytes);
  Wrong open_indexed(uint32_t file, const std::string& first_bytes);
  Wrong open_shards();
  Wrong read_packed(const StoredTensor& tensor, uint64_t offset, std::span<std::byte> out) const;

  std::string path_, format_;
  std::vector<InputFile> files_;
  std::vector<StoredTensor> tensors_;
  module::ParameterMetadata metadata_;
  std::unordered_set<std::string> metadata_names_;
  std::vector<std::string> warnings_;
};

// Bytes of a piece, the unit of all reading and writing.
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;
// Calls the function with a tensor's data in order, as tensors of rank 1 of its type and of at most kPieceBytes; as bytes if Heddle lacks the type.
Wrong for_each_piece(const Checkpoint& checkpoint, const StoredTensor& tensor, const std::function<Wrong(const HostTensor&)>& take);

}  // namespace heddle::tool
