// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared by the readers of JSON in safetensors headers and in indexes of shards. Private to this directory.
#pragma once

#include <string>
#include <string_view>

#include "sdk/module/error.h"

namespace heddle::module {

// DATA_LOSS: the index of a file is wrong.
Error broken_index(const std::string& path, std::string_view cause);

// Reads `bytes` of the file and checks that they are JSON of at most 16 levels.
Status read_json(int descriptor, const std::string& path, uint64_t offset, uint64_t bytes, std::string& out);
Status read_bytes(int descriptor, const std::string& path, uint64_t offset, char* out, uint64_t bytes);

}  // namespace heddle::module
