// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Single arrays of .npz files, for --input and --expect. A file is recognized by its content as well as by its name, so that an archive is never
// read as raw bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/heddle/input_file.h"
#include "tools/heddle/tensor_text.h"

namespace heddle::tool {

// Whether the name ends in .npz or the file is a ZIP archive. False for a file that cannot be opened under another name.
bool is_npz(const std::string& path);
// Names without .npy, in the order of the file. Error texts contain the path.
Wrong npz_array_names(const std::string& path, std::vector<std::string>& out);
// Without an array, the error text lists those of the file.
Wrong read_npz_array(const std::string& path, const std::string& array, HostTensor& out);

}  // namespace heddle::tool
