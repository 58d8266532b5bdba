// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See multiply.h. Sums of a tile stay in registers; the compiler makes the vector instructions, for AVX2 and AVX-512 too, which are chosen at run time.
#include "multiply.h"

#include <cstring>

namespace heddle::sdk::portable {

namespace {

using Vector8 = float __attribute__((vector_size(32)));
using Vector16 = float __attribute__((vector_size(64)));

// In memory, where it is aligned as its elements are. An attribute of the vector's own name would not reach templates.
template <typename Vector>
struct __attribute__((packed, may_alias)) InMemory {
  Vector value;
};

// kHigh rows of kWide vectors each.
template <typename Vector, int64_t kWide, int64_t kHigh>
__attribute__((always_inline)) inline void tile(const Product& p, int64_t row, int64_t column) {
  constexpr int64_t kLanes = sizeof(Vector) / sizeof(float);
  const float* a = p.a + row * p.a_stride;
  const float* b = p.b + column / kPanelColumns * p.b_panel + column % kPanelColumns;
  float* out = p.sums + row * p.sums_stride + column;
  Vector sums[kHigh][kWide];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kHigh; ++r) {
#pragma GCC unroll 2
    for (int64_t w = 0; w < kWide; ++w) sums[r][w] = reinterpret_cast<const InMemory<Vector>*>(out + r * p.sums_stride + w * kLanes)->value;
  }
  for (int64_t k = 0; k < p.depth; ++k) {
    Vector right[kWide];
#pragma GCC unroll 2
    for (int64_t w = 0; w < kWide; ++w) right[w] = reinterpret_cast<const InMemory<Vector>*>(b + k * p.b_stride + w * kLanes)->value;
#pragma GCC unroll 8
    for (int64_t r = 0; r < kHigh; ++r) {
      const float one = a[r * p.a_stride + k];
#pragma GCC unroll 2
      for (int64_t w = 0; w < kWide; ++w) sums[r][w] += right[w] * one;
    }
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < kHigh; ++r) {
#pragma GCC unroll 2
    for (int64_t w = 0; w < kWide; ++w) reinterpret_cast<InMemory<Vector>*>(out + r * p.sums_stride + w * kLanes)->value = sums[r][w];
  }
}

// All rows of a tile's columns. kHigh: of the highest tiles, which need all registers.
template <typename Vector, int64_t kWide, int64_t kHigh>
__attribute__((always_inline)) inline void all_rows(const Product& p, int64_t column) {
  int64_t row = 0;
  for (; row + kHigh <= p.rows; row += kHigh) tile<Vector, kWide, kHigh>(p, row, column);
  if (row + 4 <= p.rows) {
    tile<Vector, kWide, 4>(p, row, column);
    row += 4;
  }
  for (; row < p.rows; ++row) tile<Vector, kWide, 1>(p, row, column);
}

__attribute__((target("avx512f,fma"))) void with_avx512(const Product& p) {
  int64_t column = 0;
  for (; column + kTileColumns < p.columns; column += kPanelColumns) all_rows<Vector16, 2, 8>(p, column);
  if (column < p.columns) all_rows<Vector16, 1, 8>(p, column);
}

__attribute__((always_inline)) inline void by_16_columns(const Product& p) {
  for (int64_t column = 0; column < p.columns; column += kTileColumns) all_rows<Vector8, 2, 6>(p, column);
}

__attribute__((target("avx2,fma"))) void with_avx2(const Product& p) {
  by_16_columns(p);
}

void without(const Product& p) {
  by_16_columns(p);
}

__attribute__((always_inline)) inline bool all_finite(const float* values, int64_t count) {
  uint32_t odd = 0;  // the first bit is set where all bits of an exponent are
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof bits);
    odd |= (bits & 0x7F800000u) + 0x00800000u;
  }
  return (odd & 0x80000000u) == 0;
}

__attribute__((target("avx2"))) bool all_finite_with_avx2(const float* values, int64_t count) {
  return all_finite(values, count);
}

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}

}  // namespace

void multiply_block(const Product& product) {
  static const bool has_avx512 = has_avx2() && __builtin_cpu_supports("avx512f");
  has_avx512 ? with_avx512(product) : has_avx2() ? with_avx2(product) : without(product);
}

bool are_finite(const float* values, int64_t count) {
  return has_avx2() ? all_finite_with_avx2(values, count) : all_finite(values, count);
}

}  // namespace heddle::sdk::portable
