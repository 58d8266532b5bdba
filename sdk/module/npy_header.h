// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The header of a .npy file: NumPy's type codes and the bytes that precede the data, format versions 1 to 3 (numpy.lib.format). Used by the
// tools, by the reader of parameters in .npy and .npz files, and by the core's dumps. Reads no data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/types.h"
#include "sdk/module/file_view.h"

namespace heddle::module {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

// For example "<f4"; empty for types that NumPy lacks: bf16, f8, i4.
std::string_view npy_type_code(heddle_element_type_t type);
// The inverse; '|' and '<' are equivalent for one-byte types, '=' is the host's byte order. HEDDLE_TYPE_UNDEFINED for any other code.
heddle_element_type_t npy_type_from_code(std::string_view code);

// A header of format version 1.0, in C order, padded so that the data is 64-byte aligned. Requires a type with a code and at most
// HEDDLE_MAX_RANK dimensions.
std::string npy_header(heddle_element_type_t type, std::span<const int64_t> dims);

constexpr size_t kMaxNpyHeaderBytes = 10'000;
constexpr size_t kNpyHeadBytes = 12 + kMaxNpyHeaderBytes;  // including the fields before it

// The content of a header: type and shape, and where the data starts. Strings of dtype 'S' are bytes (u8) with one more dimension.
struct NpyHeader {
  heddle_element_type_t element_type = HEDDLE_TYPE_UNDEFINED;
  std::vector<int64_t> dims;
  size_t data_offset = 0;
};
// `file` is the beginning of the file: at least its first kNpyHeadBytes bytes, or all of it. The header is parsed as a literal and never evaluated;
// only little-endian, C order.
Wrong parse_npy_header(std::span<const std::byte> file, NpyHeader& out);
// Reads the header of the `length` bytes at `offset` of a file. These must be a complete .npy file: a header and as much data as it states.
Wrong read_npy_header(const FileView& file, uint64_t offset, uint64_t length, NpyHeader& out);

}  // namespace heddle::module
