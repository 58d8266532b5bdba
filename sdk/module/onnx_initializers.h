// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The initializers of an ONNX model as parameters, with their bytes in the model's file or in files of external data. Reads protobuf's structure
// through a small buffer, without the library and without the values. Called by parameter_formats.cpp; open_external by all who read the data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sdk/module/parameter_index.h"

namespace heddle::module {

// Protocol buffers: field 1 of a model is the version of ONNX's IR, followed by a field with a length or a number.
bool is_onnx(std::string_view first_bytes);

// All initializers of the main graph; opens no file of external data. DATA_LOSS for a file that is not such a message, a duplicate name, a size that
// differs from the one of type and shape, and external data without a place. In lists of integers, the file's bytes are not those of the values, which
// become patterns: 256 MiB at most. Strings and sparse tensors are left out.
Result<ParameterIndex> read_onnx_index(int descriptor, uint64_t file_bytes, const std::string& path);

// Opens external data of the model at `path`: its location must be below the model's directory, without links, and all tensors must end in it. The
// caller closes the descriptor. INVALID_ARGUMENT for the path of a descriptor, which has no directory.
Result<int> open_external(const std::string& path, const ExternalFile& file);

}  // namespace heddle::module
