// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversion of many elements to double and back: for casts and for the search for NaN. Each conversion rounds once, like those of float_formats.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "heddle/types.h"

namespace heddle::tool {

constexpr size_t kBlockElements = 4096;

// f64, f32, f16, bf16, and the types of 8 bits
bool is_float(heddle_element_type_t type);
// `bytes` are out.size() elements of a float type.
void decode_block(heddle_element_type_t type, const std::byte* bytes, std::span<double> out);
// Rounds to nearest, ties to even; values that are too large become infinite. f64, f32, f16 or bf16.
void encode_block(heddle_element_type_t type, std::span<const double> values, std::byte* out);
// From this value on, a number rounds to infinity: half a unit of the last place above the largest number of such a type.
double overflow_limit(heddle_element_type_t type);

}  // namespace heddle::tool
