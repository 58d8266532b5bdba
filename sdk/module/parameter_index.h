// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tensors of a parameter file of any format: names, types, shapes and places. Filled in by the reader of each format; used by core/open
// and by heddle params. Holds no tensor data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sdk/module/block_types.h"
#include "sdk/module/error.h"

namespace heddle::module {

struct ParameterEntry {
  std::string name;
  std::string dtype;                                           // as stated in the file, e.g. "F8_E8M0", "Q4_K"
  heddle_element_type_t element_type = HEDDLE_TYPE_UNDEFINED;  // undefined for a dtype without a Heddle type
  std::vector<int64_t> dims;
  uint32_t file = 0;                 // the file itself, or 1 + the number of one of its external files
  uint64_t offset = 0;               // from the start of that file, bytes
  uint64_t length = 0;               // bytes in the file
  const BlockType* block = nullptr;  // of elements that are stored in blocks; then element_type is undefined
  // Bytes that are repeated up to `length`, instead of data in the file; then `offset` is where they are in the file. Empty: none.
  std::string pattern = {};
  bool is_untyped = false;  // the file states no type and shape; they are u8[length]
  // Of a member of an .npz file: the CRC-32 of its header and its data, and the bytes of the header.
  std::optional<uint32_t> crc = {};
  uint64_t header_bytes = 0;
};

// A file beside the one that is read, which has the bytes of some of its tensors.
struct ExternalFile {
  std::string location;  // relative to the directory of the file that names it; as untrusted as that
  uint64_t end = 0;      // bytes that it must have at least
  std::string last;      // the tensor that ends there
};

// A file's metadata, in its order: names and texts.
using ParameterMetadata = std::vector<std::pair<std::string, std::string>>;

class ParameterIndex {
 public:
  ParameterIndex() = default;
  // Entries are sorted by name, and no name occurs twice.
  ParameterIndex(std::vector<ParameterEntry> entries, ParameterMetadata metadata, std::vector<ExternalFile> external_files = {},
                 std::string left_out = {})
      : entries_(std::move(entries)),
        metadata_(std::move(metadata)),
        external_files_(std::move(external_files)),
        left_out_(std::move(left_out)) {}
  const std::vector<ParameterEntry>& entries() const { return entries_; }
  const ParameterMetadata& metadata() const { return metadata_; }
  // Not opened yet: see open_external.
  const std::vector<ExternalFile>& external_files() const { return external_files_; }
  // A warning about tensors that no entry is for; else empty.
  const std::string& left_out() const { return left_out_; }
  const ParameterEntry* find(std::string_view name) const;

 private:
  std::vector<ParameterEntry> entries_;
  ParameterMetadata metadata_;
  std::vector<ExternalFile> external_files_;
  std::string left_out_;
};

// Sorts by offset, entries at the same one by length.
void sort_by_place(std::vector<ParameterEntry>& entries);

// Sorts by name. The first name that occurs twice, or null.
const std::string* sort_by_name(std::vector<ParameterEntry>& entries);

}  // namespace heddle::module
