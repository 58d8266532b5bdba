// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The initializers of an ONNX model, and where their bytes are: in the model's file, or in files of external data. Reads protobuf's structure through
// a small buffer, without the library and without the values. Used by checkpoint.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/types.h"
#include "sdk/module/file_view.h"
#include "tools/heddle/shape_text.h"

namespace heddle::tool {

struct Initializer {
  std::string name;
  Shape shape;        // the type is undefined if Heddle has no such type
  std::string dtype;  // name of such a type, as safetensors has it
  uint64_t length = 0;
  uint64_t offset = 0;        // in the model's file, or in that of external data
  std::string values;         // all bytes, if the model stores them as a list of numbers; else empty
  std::string location;       // of external data, relative to the model's directory; else empty
  uint64_t external_end = 0;  // of the range that the model names
};

// Tensors of types that no format of parameters has, such as strings, and sparse ones.
struct IgnoredInitializers {
  uint64_t count = 0;
  std::string first;
};

// An error text, or all initializers of the main graph in the file's order. Checks every size against the file; those of external data only against
// each other.
Wrong read_initializers(const module::FileView& file, std::vector<Initializer>& out, IgnoredInitializers& ignored);

}  // namespace heddle::tool
