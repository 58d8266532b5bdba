// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The product of two blocks of f32 in scratch memory. Knows nothing of nodes.
#pragma once

#include <cstdint>

namespace heddle::sdk::portable {

inline constexpr int64_t kTileRows = 6, kTileColumns = 16;

struct Product {
  const float* a;  // row r begins at a + r * a_stride; depth elements
  int64_t a_stride;
  const float* b;  // row k begins at b + k * b_stride; memory up to a multiple of kTileColumns
  int64_t b_stride;
  float* sums;  // likewise, a row for each of a
  int64_t sums_stride;
  int64_t rows, columns, depth;
};

// sums += a * b. Columns beyond the last one, up to a multiple of a tile, are computed as well.
void multiply_block(const Product& product);

}  // namespace heddle::sdk::portable
