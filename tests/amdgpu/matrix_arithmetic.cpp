// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sums of products of matrix instructions. AMD says which denormals are flushed (MIOpen, "MI200 MFMA behavior specifics"), and nothing about the
// order of additions or what is rounded in between. For MFMA it has been measured: P. Xie et al., "Bit-Accurate Modeling of GPU Matrix
// Multiply-Accumulate Units" (arXiv 2511.10909). For WMMA nothing is published. A seed chooses between what was measured and other sums that a device
// could just as well compute; without approximation it is the measured one.
#include "tests/amdgpu/matrix.h"
#include "tests/amdgpu/values.h"

namespace heddle::amdgpu {
namespace {

constexpr unsigned kMaxSize = 32, kMaxGroup = 16;

// Without branches, so that rows are vectors.
float flushed(float x) {
  const uint32_t bits = as_bits(x);
  return as_float((bits & 0x7f800000) == 0 ? bits & 0x80000000 : bits);
}
float flushed_if(bool flush, float x) {
  return flush ? flushed(x) : x;
}

double power_of_two(int exponent) {  // of a normal f64
  return as_double(static_cast<uint64_t>(1023 + int64_t{exponent}) << 52);
}
// The exponent of the leading bit, at least that of the smallest normal value of the format.
int exponent_of(float x, int smallest) {
  const int exponent = static_cast<int>(as_bits(x) >> 23 & 255) - 127;
  return exponent < smallest ? smallest : exponent;
}
int smallest_exponent(Element type) {
  switch (type) {
    case Element::F16:
      return -14;
    case Element::Fp8Fnuz:
      return -7;
    case Element::Bf8Fnuz:
      return -15;
    default:
      return -126;
  }
}

// CDNA3: the products of a group are cut, toward zero, to 24 bits below the largest exponent among them, and added; that sum, cut downwards to 31 bits,
// and C, cut downwards to 24 bits, below the larger of the two exponents, are added and rounded to the nearest. The products of 8-bit floats were
// measured to be added in two halves first; here they are one group.
void fused_group(const Matrix& m, const float* a, const float* b, unsigned n, float* c) {
  const int smallest_a = smallest_exponent(m.a), smallest_b = smallest_exponent(m.b);
  double products[kMaxGroup][kMaxSize];
  int largest[kMaxSize];
  bool finite = true;
  for (unsigned j = 0; j < m.size; ++j) {
    largest[j] = std::numeric_limits<int>::min();
    finite = finite && (as_bits(c[j]) & 0x7f800000) != 0x7f800000;
  }
  for (unsigned i = 0; i < n; ++i) {
    const int exponent_a = exponent_of(a[i], smallest_a);
    double top = 0;
    bool ordered = true;
    for (unsigned j = 0; j < m.size; ++j) {
      const double p = static_cast<double>(a[i]) * static_cast<double>(b[i * m.size + j]);
      const int e = p == 0 ? -126 : exponent_a + exponent_of(b[i * m.size + j], smallest_b);
      products[i][j] = p;
      largest[j] = e > largest[j] ? e : largest[j];
      const double magnitude = std::fabs(p);
      top = magnitude > top ? magnitude : top;
      ordered = ordered && p == p;
    }
    finite = finite && ordered && top < 0x1p128;
  }
  if (!finite) {
    for (unsigned j = 0; j < m.size; ++j) {
      bool special = !std::isfinite(c[j]);
      double sum = static_cast<double>(c[j]);
      for (unsigned i = 0; i < n; ++i) {
        if (std::fabs(products[i][j]) < 0x1p128) continue;
        special = true;
        sum += products[i][j] * HUGE_VAL;
      }
      if (!special) {
        Matrix one = m;
        one.size = 1;
        float column[kMaxGroup];
        for (unsigned i = 0; i < n; ++i) column[i] = b[i * m.size + j];
        fused_group(one, a, column, n, &c[j]);
      } else {
        c[j] = static_cast<float>(sum);
      }
    }
    return;
  }
  double sums[kMaxSize] = {}, scale[kMaxSize];
  for (unsigned j = 0; j < m.size; ++j) scale[j] = power_of_two(24 - largest[j]);
  for (unsigned i = 0; i < n; ++i) {
    for (unsigned j = 0; j < m.size; ++j) sums[j] += std::trunc(products[i][j] * scale[j]);
  }
  for (unsigned j = 0; j < m.size; ++j) {
    const int exponent_c = exponent_of(c[j], -126), together = largest[j] > exponent_c ? largest[j] : exponent_c;
    const double products_cut = std::floor(sums[j] * power_of_two(largest[j] - together + 31 - 24)) * power_of_two(together - 31);
    const double c_cut = std::floor(static_cast<double>(c[j]) * power_of_two(24 - together)) * power_of_two(together - 24);
    c[j] = static_cast<float>(products_cut + c_cut);
  }
}

// CDNA2: products of f16 and bf16 and every sum are rounded, and denormals flushed; pairs first, then pairs of pairs, then C.
void pairs_group(unsigned size, const float* a, const float* b, unsigned n, float* c) {
  const auto product = [&](unsigned i, unsigned j) { return flushed(a[i] * b[i * size + j]); };
  if (n == 4) {
    for (unsigned j = 0; j < size; ++j) {
      const float s = flushed(flushed(product(0, j) + product(1, j)) + flushed(product(2, j) + product(3, j)));
      c[j] = flushed(c[j] + s);
    }
  } else {
    for (unsigned j = 0; j < size; ++j) c[j] = flushed(c[j] + flushed(product(0, j) + product(1, j)));
  }
}

void tree(unsigned size, const float* a, const float* b, unsigned n, float* out) {
  if (n == 1) {
    for (unsigned j = 0; j < size; ++j) out[j] = a[0] * b[j];
    return;
  }
  float second[kMaxSize];
  tree(size, a, b, n / 2, out);
  tree(size, a + n / 2, b + size_t{n / 2} * size, n - n / 2, second);
  for (unsigned j = 0; j < size; ++j) out[j] += second[j];
}

// To the type of D. The value stays a float.
float rounded(Element d, const Summation& sum, float x) {
  if (d == Element::F16) {
    const uint16_t h = float_to_half(x);
    return half_to_float(sum.flush && (h & 0x7c00) == 0 ? h & 0x8000 : h);
  }
  if (d == Element::Bf16 && std::isfinite(x)) {
    uint32_t bits = as_bits(x);
    bits += 0x7fff + (bits >> 16 & 1);  // to the nearest even
    return flushed_if(sum.flush, as_float(bits & 0xffff0000));
  }
  return flushed_if(sum.flush, x);
}

float small_float(uint32_t bits, unsigned mantissa_bits, int bias) {
  const auto mantissa = static_cast<float>(bits & ((1u << mantissa_bits) - 1));
  const int exponent = static_cast<int>((bits & 0x7f) >> mantissa_bits);
  const auto one = static_cast<float>(1u << mantissa_bits);
  const float magnitude =
      std::ldexp(exponent == 0 ? mantissa : mantissa + one, std::max(exponent, 1) - bias - static_cast<int>(mantissa_bits));
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

template <class T>
void in_order_of(bool backward, unsigned size, const T* a, const T* b, unsigned k, T* __restrict c) {
  for (unsigned n = 0; n < k; ++n) {
    const unsigned i = backward ? k - 1 - n : n;
    for (unsigned j = 0; j < size; ++j) c[j] = std::fma(a[i], b[i * size + j], c[j]);
  }
}
template <class T>
void in_order(const Summation& sum, unsigned size, const T* a, const T* b, unsigned k, T* c) {
  const bool backward = sum.order == Summation::Backward;
  if (size == 32) return in_order_of(backward, 32, a, b, k, c);
  if (size == 16) return in_order_of(backward, 16, a, b, k, c);
  in_order_of(backward, size, a, b, k, c);
}

void round_row(const Matrix& m, const Summation& sum, float* row) {
  if (m.d == Element::F32 && !sum.flush) return;
  for (unsigned j = 0; j < m.size; ++j) row[j] = rounded(m.d, sum, row[j]);
}

}  // namespace

Summation choose_summation(const MatrixPlan& plan, const Options& options) {
  Summation sum;
  sum.flush = plan.flushes;
  if (!options.approximate) return sum;
  Random random{options.seed ^ plan.name_hash};
  static constexpr Summation::Order kOrders[] = {Summation::Measured, Summation::Measured, Summation::Forward,
                                                 Summation::Backward, Summation::Tree,     Summation::Wide};
  sum.order = kOrders[random.below(std::size(kOrders))];
  if (plan.matrix->wmma) sum.flush = (random.next() & 1) != 0;  // nothing is said about them
  return sum;
}

float decode_element(Element type, uint32_t bits, const Summation& sum) {
  switch (type) {
    case Element::F16:
      return sum.flush && (bits & 0x7c00) == 0 ? half_to_float(bits & 0x8000) : half_to_float(static_cast<uint16_t>(bits));
    case Element::Bf16:
      return flushed_if(sum.flush, as_float(bits << 16));
    case Element::Xf32: {  // 10 bits of the mantissa remain: cut, as measured, or rounded
      if ((bits & 0x7f800000) == 0x7f800000) return as_float(bits);
      if (sum.order != Summation::Measured) bits += 0xfff + (bits >> 13 & 1);
      return as_float(bits & 0xffffe000);
    }
    case Element::Fp8Fnuz:
      return bits == 0x80 ? std::numeric_limits<float>::quiet_NaN() : small_float(bits, 3, 8);
    case Element::Bf8Fnuz:
      return bits == 0x80 ? std::numeric_limits<float>::quiet_NaN() : small_float(bits, 2, 16);
    case Element::Fp8Ocp:
      return (bits & 0x7f) == 0x7f ? std::numeric_limits<float>::quiet_NaN() : small_float(bits, 3, 7);
    case Element::Bf8Ocp:
      return half_to_float(static_cast<uint16_t>(bits << 8));  // the upper half of an f16
    default:
      return flushed_if(sum.flush, as_float(bits));
  }
}

void add_products(const MatrixPlan& plan, const Summation& sum, const float* a, const float* b, float* c) {
  const Matrix& m = *plan.matrix;
  switch (sum.order) {
    case Summation::Measured:
      if (plan.arithmetic != MatrixPlan::Chain) {
        for (unsigned i = 0; i < m.k; i += plan.group) {
          const unsigned n = std::min(plan.group, m.k - i);
          if (plan.arithmetic == MatrixPlan::FusedOfCdna3) {
            fused_group(m, a + i, b + size_t{i} * m.size, n, c);
          } else {
            pairs_group(m.size, a + i, b + size_t{i} * m.size, n, c);
          }
        }
        return;
      }
      in_order(sum, m.size, a, b, m.k, c);
      break;
    case Summation::Forward:
    case Summation::Backward:
      if (m.d != Element::F32) {  // an accumulator of 16 bits
        for (unsigned i = 0; i < m.k; i += 2) {
          in_order(sum, m.size, a + i, b + size_t{i} * m.size, 2, c);
          round_row(m, sum, c);
        }
        return;
      }
      in_order(sum, m.size, a, b, m.k, c);
      break;
    case Summation::Tree: {
      float products[kMaxSize];
      tree(m.size, a, b, m.k, products);
      for (unsigned j = 0; j < m.size; ++j) c[j] += products[j];
      break;
    }
    case Summation::Wide: {  // products are exact in f64
      double s[kMaxSize];
      for (unsigned j = 0; j < m.size; ++j) s[j] = static_cast<double>(c[j]);
      for (unsigned i = 0; i < m.k; ++i) {
        for (unsigned j = 0; j < m.size; ++j) s[j] += static_cast<double>(a[i]) * static_cast<double>(b[i * m.size + j]);
      }
      for (unsigned j = 0; j < m.size; ++j) c[j] = m.d == Element::F32 ? static_cast<float>(s[j]) : odd_float(s[j]);
      break;
    }
  }
  round_row(m, sum, c);
}

void add_products(const MatrixPlan& plan, const Summation& sum, const double* a, const double* b, double* c) {
  const Matrix& m = *plan.matrix;
  if (sum.order != Summation::Tree && sum.order != Summation::Wide) return in_order(sum, m.size, a, b, m.k, c);
  double s[kMaxSize] = {};
  for (unsigned i = 0; i < m.k; ++i) {
    for (unsigned j = 0; j < m.size; ++j) s[j] += a[i] * b[i * m.size + j];
  }
  for (unsigned j = 0; j < m.size; ++j) c[j] += s[j];
}

}  // namespace heddle::amdgpu
