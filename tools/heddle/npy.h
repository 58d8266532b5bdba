// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NumPy's .npy format, versions 1 to 3 (numpy.lib.format), and raw files. The header is parsed as a literal and never evaluated; only
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

// The content of a header: the shape, and where the data starts.
struct NpyHeader {
  Shape shape;
  size_t data_offset = 0;
};
// As in sdk/module/npy_header.h.
Wrong parse_npy_header(std::span<const std::byte> file, NpyHeader& out);
Wrong read_npy_header(const InputFile& file, uint64_t offset, uint64_t length, NpyHeader& out);

// NumPy has no bf16 and f8: it writes bf16 as '<V2', so bf16 is supported only with a shape given. Otherwise these types are refused.
Wrong read_npy(const std::string& path, HostTensor& out);
// The .npy file at `offset` of an archive. Error texts do not contain the path.
Wrong read_npy(const InputFile& file, uint64_t offset, uint64_t length, HostTensor& out);
// Written to a temporary file and renamed, so that a failure leaves no partial file.
Wrong write_npy(const std::string& path, const Shape& shape, const module::ParameterSource& data);

// Reads a file of exactly that size; `shape` is for the error text.
Wrong read_raw(const std::string& path, uint64_t size_bytes, const std::string& shape, std::vector<std::byte>& out);
Wrong write_raw(const std::string& path, const module::ParameterSource& data);

// An error text for a tensor whose type NumPy lacks, or which has more dimensions than are supported.
Wrong refuse_npy(const Shape& shape);
// The message of a failure of sdk/module's writers without its "module: ", since the command adds its own name.
Wrong wrong_of(const module::Status& failed);

}  // namespace heddle::tool
