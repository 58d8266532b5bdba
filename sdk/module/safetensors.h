// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The safetensors format (huggingface/safetensors, README "Format"): u64 little-endian header size N, N bytes of JSON, data. The index
// reader serves core/open (`--params FILE`), the writer compiler/emit (`--params-out`), and both heddle params. Reads no tensor data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/module/error.h"
#include "sdk/module/output_file.h"
#include "sdk/module/parameter_index.h"
#include "sdk/module/parameter_source.h"

namespace heddle::module {

constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

using SafetensorsEntry = ParameterEntry;
using SafetensorsMetadata = ParameterMetadata;
using SafetensorsIndex = ParameterIndex;

// Reads and checks the header through the descriptor, which the caller keeps; `path` is for error texts. DATA_LOSS for a file that breaks a rule of
// the format: a header beyond the file or above 100,000,000 bytes, invalid UTF-8 or JSON, duplicate names, sizes that do not match their shapes,
// holes, overlaps, bytes after the last tensor.
Result<SafetensorsIndex> read_safetensors_index(int descriptor, uint64_t file_bytes, const std::string& path);

struct SafetensorsTensor {
  std::string name;
  heddle_element_type_t element_type = HEDDLE_TYPE_UNDEFINED;
  std::vector<int64_t> dims;
  ParameterSource source;
  std::string dtype = {};   // the format's name of a type that Heddle lacks; then element_type is undefined
  bool is_untyped = false;  // the shape is u8[bytes] because no other is known
};

// Writes tensors in the given order, after a header padded to 8 bytes, through a temporary file. UNIMPLEMENTED for i4 and u4, for which the format
// has no name; INVALID_ARGUMENT for a source whose size does not match its shape, or for a duplicate name.
Status write_safetensors(const std::vector<SafetensorsTensor>& tensors, const std::string& path, const SafetensorsMetadata& metadata = {});
// The same without naming the file: the caller commits `file`, which is new, or drops it. out_hashes, which may be NULL: the XXH3-64 of each tensor.
Status prepare_safetensors(const std::vector<SafetensorsTensor>& tensors, OutputFile& file, const SafetensorsMetadata& metadata = {},
                           std::vector<uint64_t>* out_hashes = nullptr);

}  // namespace heddle::module
