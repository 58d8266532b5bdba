// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// JSON written with nlohmann-json, whose header is slow to compile: commands that only write values use this file instead.
#pragma once

#include <cstdint>
#include <string>

#include "tools/heddle/tensor_text.h"

namespace heddle::tool {

// {"name":"y","shape":[2,10],"type":"f32","values":[...]}: a flat list of at most `most` values.
std::string result_json(const std::string& name, const HostTensor& tensor, uint64_t most);
// The same in parts: the text up to "values":[ and one value; ]} ends it. NaN and infinities, which JSON cannot express as numbers, are the strings
// "nan", "inf" and "-inf".
std::string result_json_head(const std::string& name, const Shape& shape);
std::string value_json(const HostTensor& tensor, uint64_t index);

}  // namespace heddle::tool
