// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The product of two blocks of f32 in scratch memory. Knows nothing of nodes.
#pragma once

#include <cstdint>

namespace heddle::sdk::portable {

inline constexpr int64_t kTileColumns = 16, kPanelColumns = 2 * kTileColumns;

struct Product {
  const float* a;  // row r begins at a + r * a_stride; depth elements
  int64_t a_stride;
  // Column c of row k is at b + c / kPanelColumns * b_panel + k * b_stride + c % kPanelColumns; memory up to a multiple of kTileColumns. Panels that are
  // dense, b_stride = kPanelColumns, stay in the first cache.
  const float* b;
  int64_t b_stride, b_panel;
  float* sums;  // row r begins at sums + r * sums_stride; memory up to a multiple of kTileColumns
  int64_t sums_stride;
  int64_t rows, columns, depth;
};

// sums += a * b. Columns beyond the last one, up to a multiple of a tile, are computed as well. The bits are the same on any processor that has AVX2.
void multiply_block(const Product& product);

// Whether none is infinite or NaN.
bool are_finite(const float* values, int64_t count);

}  // namespace heddle::sdk::portable
