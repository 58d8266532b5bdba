// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The .npy format of NumPy, versions 1 to 3 (numpy.lib.format), and raw files. The header is read as a literal and never evaluated;
// little-endian, C order. Used for --input, --output and --expect.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/module/parameter_source.h"
#include "tools/heddle/input_file.h"
#include "tools/heddle/tensor_text.h"

namespace heddle::tool {

constexpr size_t kMaxNpyHeaderBytes = 10'000;
constexpr size_t kNpyHeadBytes = 12 + kMaxNpyHeaderBytes;  // with what is before it

// What a header says: where the data starts, and its shape.
struct NpyHeader {
  Shape shape;
  size_t data_offset = 0;
};
// `file` is the beginning of the file, at least its first kNpyHeadBytes bytes or all of it.
Wrong parse_npy_header(std::span<const std::byte> file, NpyHeader& out);
// Of the `length` bytes at `offset` of a file, which must be a whole .npy file: a header, and the data that it says.
Wrong read_npy_header(const InputFile& file, uint64_t offset, uint64_t length, NpyHeader& out);

// NumPy has no bf16 and f8: bf16 is '<V2' there, and so read and written here only with a shape given. These types are refused.
Wrong read_npy(const std::string& path, HostTensor& out);
// Written beside the target and renamed, so that a failure leaves no half file.
Wrong write_npy(const std::string& path, const Shape& shape, const module::ParameterSource& data);

// A file of exactly that size; `shape` is for the error text.
Wrong read_raw(const std::string& path, uint64_t size_bytes, const std::string& shape, std::vector<std::byte>& out);
Wrong write_raw(const std::string& path, const module::ParameterSource& data);

// What is wrong with a tensor of a type that NumPy has none for, or of more dimensions than are read.
Wrong refuse_npy(const Shape& shape);
// A failure of sdk/module's writers without its "module: ": who failed is the command's to say.
Wrong wrong_of(const module::Status& failed);

}  // namespace heddle::tool
