// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the index of a parameter file of any format that the runtime accepts. Used by core/open and by heddle params.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sdk/module/parameter_index.h"

namespace heddle::module {

enum class ParameterFormat : uint8_t { kSafetensors, kGguf, kNpz, kNpy, kIrpa, kOnnx };

// Determined by the first bytes of a file, of which 8 are enough; safetensors if they are those of no other format.
ParameterFormat parameter_format(std::string_view first_bytes);
// What a file of no such format is, and what to do with it, if its first 8 bytes show it; else empty.
std::string_view other_format(std::string_view first_bytes);
// "safetensors", "GGUF", "npz", "npy", "IRPA", "ONNX"
const char* format_name(ParameterFormat format);
// As the readers of the formats, which it calls.
Result<ParameterIndex> read_parameter_index(int descriptor, uint64_t file_bytes, const std::string& path, std::string_view first_bytes);

}  // namespace heddle::module
