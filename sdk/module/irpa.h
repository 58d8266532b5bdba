// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The IRPA format, version 0 (iree-org/iree, schemas/parameter_archive.h): linked headers, each with a table of entries, a segment of names and
// metadata, and a segment of data. Used by core/open (`--params FILE`) and by heddle params. Reads no tensor data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/module/parameter_index.h"
#include "sdk/module/safetensors.h"

namespace heddle::module {

constexpr std::string_view kIrpaMagic = "IRPA";

// Reads and checks all headers and entries through the descriptor, which the caller keeps; `path` is for error texts. The format has no types and
// shapes: an entry is untyped, u8[length], unless its metadata is the text of a type, as write_irpa writes it. DATA_LOSS for a file that breaks a
// rule of the format, UNIMPLEMENTED for another version and for data in other files.
Result<ParameterIndex> read_irpa_index(int descriptor, uint64_t file_bytes, const std::string& path);

// Writes tensors in the given order, each at a multiple of 64 bytes, with its type as metadata ("f32[2,3]"), through a temporary file.
Status write_irpa(const std::vector<SafetensorsTensor>& tensors, const std::string& path);

}  // namespace heddle::module
