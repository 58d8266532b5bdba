// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A tensor in host memory, what --input and --output say about one, and how its values are read and printed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tools/heddle/shape_text.h"

namespace heddle::tool {

// Dense, row-major; sub-byte types packed, lowest bits first.
struct HostTensor {
  Shape shape;
  std::vector<std::byte> bytes;
};

// "[name=]VALUE" where VALUE is "2x3xf32=1,2,3", "2x3xf32=@x.bin", "@x.npy" or "@x.bin". A name holds no '=' and does not start
// with '@' or look like a shape.
struct TensorArgument {
  std::string name;  // empty: by position
  Shape shape;       // element type undefined if not given
  std::string path;  // empty: values are in the text
  std::string values;
};
Wrong parse_tensor_argument(std::string_view text, TensorArgument& out);
// "[name=]@FILE", where a result goes.
Wrong parse_output_argument(std::string_view text, TensorArgument& out);

// Reads the tensor that an argument describes. A raw file without a shape takes `expected`; dimensions below zero in it are then unknown, and
// refused. "1" or "1,2,3": one value fills the whole tensor.
Wrong load_tensor(const TensorArgument& argument, const Shape& expected, HostTensor& out);
// Writes .npy, or the raw bytes where the name does not end so.
Wrong save_tensor(const std::string& path, const HostTensor& tensor);

// Element `index` as a number; exact for all types but the largest 64-bit integers.
double element(const HostTensor& tensor, uint64_t index);
// Stores a number, rounded as the type does; out-of-range integers are refused by parse_values before.
void set_element(HostTensor& tensor, uint64_t index, double value);
// As it should be read again: shortest form that keeps the value.
std::string element_text(const HostTensor& tensor, uint64_t index);
// "2x3xf32=1,2,3,4,5,6"; at most `most` values, then "...".
std::string tensor_text(const HostTensor& tensor, uint64_t most);
Wrong parse_values(std::string_view text, HostTensor& tensor);

}  // namespace heddle::tool
