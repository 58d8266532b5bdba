// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The header of a .npy file: NumPy's names for element types, and the bytes in front of the data. Used by tools and by dumps of the core;
// it reads and writes no file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "heddle/types.h"

namespace heddle::module {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

// "<f4"; empty for what NumPy has no type for: bf16, f8, i4.
std::string_view npy_type_code(heddle_element_type_t type);
// The same backwards; '|' and '<' mean the same for one byte, '=' is the host's order. HEDDLE_TYPE_UNDEFINED for any other code.
heddle_element_type_t npy_type_from_code(std::string_view code);

// Of format 1.0, in C order; data follows on 64 bytes. The type has a code, and there are at most HEDDLE_MAX_RANK dimensions.
std::string npy_header(heddle_element_type_t type, std::span<const int64_t> dims);

}  // namespace heddle::module
