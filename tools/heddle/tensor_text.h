// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A tensor in host memory, the arguments of --input and --output, and parsing and printing of its values.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tools/heddle/shape_text.h"

namespace heddle::tool {

// Dense, row-major; sub-byte types are packed, lowest bits first.
struct HostTensor {
  Shape shape;
  std::vector<std::byte> bytes;
};

// "[name=]VALUE" where VALUE is "f32[2,3]=1,2,3", "f32[2,3]=@x.bin", "@x.npy", "@x.bin" or "@x.npz:array". A name does not contain '=', start with
// '@' or look like a shape.
struct TensorArgument {
  std::string name;   // empty: by position
  Shape shape;        // element type undefined if not given
  std::string path;   // empty: the values are in the text
  std::string array;  // of an .npz file; empty: not given
  std::string values;
};
Wrong parse_tensor_argument(std::string_view text, TensorArgument& out);
// In quotes, so that a shell passes it on as it is: 'f32[2,3]=1'.
std::string in_shell_quotes(std::string_view text);
// "[name=]@FILE", the file for a result.
Wrong parse_output_argument(std::string_view text, TensorArgument& out);

// Replaces each unnamed .npz file without an array by one argument per array, with the array's name. A file that cannot be read stays as it is:
// load_tensor reports why.
void expand_npz(std::vector<TensorArgument>& arguments);

// Reads the tensor that an argument describes; of an .npz file, the array that is given, or the one with the argument's name. A raw file without a shape uses `expected`; negative extents in it are unknown, and refused. "1" or
// "1,2,3": one value fills the whole tensor.
Wrong load_tensor(const TensorArgument& argument, const Shape& expected, HostTensor& out);
// Writes .npy, or raw bytes if the name does not end in ".npy".
Wrong save_tensor(const std::string& path, const HostTensor& tensor);

// Element `index` as a number; exact for all types except the largest 64-bit integers.
double element(const HostTensor& tensor, uint64_t index);
// Stores a number, rounded to the type; parse_values has already refused integers that are out of range.
void set_element(HostTensor& tensor, uint64_t index, double value);
// The shortest text that preserves the value when it is read again.
std::string element_text(const HostTensor& tensor, uint64_t index);
// "f32[2,3]=1,2,3,4,5,6"; at most `most` values, then "...".
std::string tensor_text(const HostTensor& tensor, uint64_t most);
Wrong parse_values(std::string_view text, HostTensor& tensor);

}  // namespace heddle::tool
