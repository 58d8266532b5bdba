// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Types whose elements are stored in blocks with common scales, such as Q4_K of GGUF: their sizes, and their conversion to floats. Used by the
// reader of GGUF, by the core when it loads parameters, and by heddle params.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "heddle/types.h"

namespace heddle::module {

struct BlockType {
  std::string_view name;  // "Q4_K"
  uint32_t elements;      // per block
  uint32_t bytes;         // per block
  // Converts `count` blocks to count * elements values; null for a type that can be listed but not converted.
  void (*decode)(const uint8_t* blocks, size_t count, float* out);
  void (*decode_avx2)(const uint8_t* blocks, size_t count, float* out);  // the same for processors with AVX2
};

constexpr uint32_t kMostBlockElements = 256;

// All types that have a name.
std::span<const BlockType> block_types();
// Null for a name that is not known.
const BlockType* block_type(std::string_view name);

// f32, f16, bf16
bool decodes_to(heddle_element_type_t type);
// Converts whole blocks to values of one of these types. f16 and bf16 are rounded once from the f32 value, to nearest, ties to even; too large
// values become infinite.
void decode_blocks(const BlockType& block, const std::byte* blocks, size_t count, heddle_element_type_t type, std::byte* out);

}  // namespace heddle::module
