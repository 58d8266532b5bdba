// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See multiply.h. Sums of a tile stay in registers; the compiler makes the vector instructions, for AVX2 too, which is chosen when it runs.
#include "multiply.h"

namespace heddle::sdk::portable {

namespace {

using Vector = float __attribute__((vector_size(32), aligned(4)));

template <int64_t kHigh>
__attribute__((always_inline)) inline void tile(const Product& p, int64_t row, int64_t column) {
  const float* a = p.a + row * p.a_stride;
  const float* b = p.b + column;
  float* out = p.sums + row * p.sums_stride + column;
  Vector low[kHigh], high[kHigh];
  for (int64_t r = 0; r < kHigh; ++r) {
    low[r] = *reinterpret_cast<const Vector*>(out + r * p.sums_stride);
    high[r] = *reinterpret_cast<const Vector*>(out + r * p.sums_stride + 8);
  }
  for (int64_t k = 0; k < p.depth; ++k) {
    const Vector left = *reinterpret_cast<const Vector*>(b + k * p.b_stride),
                 right = *reinterpret_cast<const Vector*>(b + k * p.b_stride + 8);
#pragma GCC unroll 6
    for (int64_t r = 0; r < kHigh; ++r) {
      const float one = a[r * p.a_stride + k];
      low[r] += left * one;
      high[r] += right * one;
    }
  }
  for (int64_t r = 0; r < kHigh; ++r) {
    *reinterpret_cast<Vector*>(out + r * p.sums_stride) = low[r];
    *reinterpret_cast<Vector*>(out + r * p.sums_stride + 8) = high[r];
  }
}

__attribute__((always_inline)) inline void all_tiles(const Product& p) {
  for (int64_t column = 0; column < p.columns; column += kTileColumns) {
    int64_t row = 0;
    for (; row + kTileRows <= p.rows; row += kTileRows) tile<kTileRows>(p, row, column);
    for (; row < p.rows; ++row) tile<1>(p, row, column);
  }
}

__attribute__((target("avx2,fma"))) void with_avx2(const Product& p) {
  all_tiles(p);
}

void without(const Product& p) {
  all_tiles(p);
}

}  // namespace

void multiply_block(const Product& product) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  has_avx2 ? with_avx2(product) : without(product);
}

}  // namespace heddle::sdk::portable
