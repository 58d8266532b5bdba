// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The header of a .npy file: NumPy's type codes and the bytes that precede the data. Used by the tools and by the core's dumps;
// does no file I/O.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "heddle/types.h"

namespace heddle::module {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

// For example "<f4"; empty for types that NumPy lacks: bf16, f8, i4.
std::string_view npy_type_code(heddle_element_type_t type);
// The inverse; '|' and '<' are equivalent for one-byte types, '=' is the host's byte order. HEDDLE_TYPE_UNDEFINED for any other code.
heddle_element_type_t npy_type_from_code(std::string_view code);

// A header of format version 1.0, in C order, padded so that the data is 64-byte aligned. Requires a type with a code and at most
// HEDDLE_MAX_RANK dimensions.
std::string npy_header(heddle_element_type_t type, std::span<const int64_t> dims);

}  // namespace heddle::module
