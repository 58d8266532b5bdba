// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the readers of the JSON in safetensors headers and in indexes of shards share. Private to this room.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

#include "sdk/module/error.h"

namespace heddle::module {

// DATA_LOSS: what is wrong with the index of a file.
Error broken_index(const std::string& path, std::string_view cause);

// `bytes` of the file as JSON, an object of at most 16 levels. The parser owns what `out` refers to.
Status read_json(int descriptor, const std::string& path, uint64_t offset, uint64_t bytes, simdjson::dom::parser& parser,
                 simdjson::dom::object& out);
Status read_bytes(int descriptor, const std::string& path, uint64_t offset, char* out, uint64_t bytes);

}  // namespace heddle::module
