// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes .npz files as numpy.savez does: a ZIP archive of stored .npy files, with ZIP64 if the sizes require it. Used by convert.
#pragma once

#include <string>
#include <vector>

#include "sdk/module/parameter_source.h"
#include "tools/heddle/tensor_text.h"

namespace heddle::tool {

struct NpzArray {
  std::string name;  // unique, without .npy, at most kMaxNpzNameBytes of UTF-8 without NUL
  Shape shape;       // of a type that NumPy supports, with at most HEDDLE_MAX_RANK dimensions
  module::ParameterSource source;
};
constexpr size_t kMaxNpzNameBytes = 65535 - 4;

// Writes through a temporary file; each source is read once. The same arrays give the same bytes.
module::Status write_npz(const std::vector<NpzArray>& arrays, const std::string& path);

}  // namespace heddle::tool
