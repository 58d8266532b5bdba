// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arrays of .npz and .npy files as an index of parameters. Used by core/open (`--params FILE`) and by heddle params. Reads no array data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sdk/module/parameter_index.h"

namespace heddle::module {

// Whether a file starts like a ZIP archive: one with members, or an empty one.
bool is_zip(std::string_view first_bytes);

// The stored members of an .npz file, each by its name without .npy. DATA_LOSS for a damaged archive, and for members that are compressed or no
// arrays; `path` is for error texts.
Result<ParameterIndex> read_npz_index(int descriptor, uint64_t file_bytes, const std::string& path);
// The array of an .npy file, which has the file's name without directory and .npy.
Result<ParameterIndex> read_npy_index(int descriptor, uint64_t file_bytes, const std::string& path);

}  // namespace heddle::module
