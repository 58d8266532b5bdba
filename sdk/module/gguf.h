// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The GGUF format, version 3 (ggml-org/ggml, docs/gguf.md): counts, key-value pairs, tensor infos, padding, data. Used by core/open
// (`--params FILE`) and by heddle params. Reads no tensor data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sdk/module/parameter_index.h"

namespace heddle::module {

constexpr std::string_view kGgufMagic = "GGUF";

// Reads and checks the header through the descriptor, which the caller keeps; `path` is for error texts. Dimensions are in row-major order, the
// reverse of the file's. The metadata has the pairs whose values are strings, numbers or booleans, as texts; arrays are checked and left out.
// DATA_LOSS for a file that breaks a rule of the format, UNIMPLEMENTED for another version or byte order and for types that this version does not
// know the size of.
Result<ParameterIndex> read_gguf_index(int descriptor, uint64_t file_bytes, const std::string& path);

}  // namespace heddle::module
