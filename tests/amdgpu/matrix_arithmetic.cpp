// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sums of products of matrix instructions. AMD says which denormals are flushed (MIOpen, "MI200 MFMA behavior specifics"), and nothing about the
// order of additions or what is rounded in between. For MFMA it has been measured: P. Xie et al., "Bit-Accurate Modeling of GPU Matrix
// Multiply-Accumulate Units" (arXiv 2511.10909). For WMMA nothing is published. A seed chooses between what was measured and other sums that a device
// could just as well compute; without approximation it is the measured one.
#include "tests/amdgpu/matrix.h"
#include "tests/amdgpu/values.h"

namespace heddle::amdgpu {
namespace {

float flushed(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
}
float flushed_if(bool flush, float x) {
  return flush ? flushed(x) : x;
}

double power_of_two(int exponent) {  // of a normal f64
  return as_double(static_cast<uint64_t>(1023 + exponent) << 52);
}
// The exponent of the leading bit, at least that of the smallest normal value of the format.
int exponent_of(float x, int smallest) {
  const int biased = static_cast<int>(as_bits(x) >> 23 & 255);
  return std::max(biased - 127, smallest);
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
float fused_group(const float* a, const float* b, unsigned n, float c, Element type_a, Element type_b) {
  double products[16];
  int exponents[16];
  bool finite = std::isfinite(c);
  int largest = -126;
  for (unsigned i = 0; i < n; ++i) {
    products[i] = static_cast<double>(a[i]) * static_cast<double>(b[i]);
    finite = finite && std::fabs(products[i]) < 0x1p128;
    exponents[i] = products[i] == 0 ? -126 : exponent_of(a[i], smallest_exponent(type_a)) + exponent_of(b[i], smallest_exponent(type_b));
    largest = i == 0 ? exponents[i] : std::max(largest, exponents[i]);
  }
  if (!finite) {
    double sum = static_cast<double>(c);
    for (unsigned i = 0; i < n; ++i) sum += std::fabs(products[i]) < 0x1p128 ? 0 : products[i] * HUGE_VAL;
    return static_cast<float>(sum);
  }
  double sum = 0;
  for (unsigned i = 0; i < n; ++i) sum += std::trunc(products[i] * power_of_two(24 - largest));
  const int together = std::max(largest, exponent_of(c, -126));
  const double products_cut = std::floor(sum * power_of_two(largest - together + 31 - 24)) * power_of_two(together - 31);
  const double c_cut = std::floor(static_cast<double>(c) * power_of_two(24 - together)) * power_of_two(together - 24);
  return static_cast<float>(products_cut + c_cut);
}

// CDNA2: products of f16 and bf16 and every sum are rounded, and denormals flushed; pairs first, then pairs of pairs, then C.
float pairs_group(const float* a, const float* b, unsigned n, float c) {
  float s = flushed(flushed(a[0] * b[0]) + flushed(a[1] * b[1]));
  if (n == 4) s = flushed(s + flushed(flushed(a[2] * b[2]) + flushed(a[3] * b[3])));
  return flushed(c + s);
}

float tree(const float* a, const float* b, unsigned n) {
  if (n == 1) return a[0] * b[0];
  return tree(a, b, n / 2) + tree(a + n / 2, b + n / 2, n - n / 2);
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
T in_order(const Summation& sum, const T* a, const T* b, unsigned k, T c) {
  for (unsigned n = 0; n < k; ++n) {
    const unsigned i = sum.order == Summation::Backward ? k - 1 - n : n;
    c = std::fma(a[i], b[i], c);
  }
  return c;
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

float dot(const MatrixPlan& plan, const Summation& sum, const float* a, const float* b, float c) {
  const Matrix& m = *plan.matrix;
  const bool half = m.d == Element::F16 || m.d == Element::Bf16;
  switch (sum.order) {
    case Summation::Measured:
      if (plan.arithmetic == MatrixPlan::FusedOfCdna3) {
        for (unsigned i = 0; i < m.k; i += plan.group) c = fused_group(a + i, b + i, std::min(plan.group, m.k - i), c, m.a, m.b);
        return c;
      }
      if (plan.arithmetic == MatrixPlan::PairsOfCdna2) {
        for (unsigned i = 0; i < m.k; i += plan.group) c = pairs_group(a + i, b + i, std::min(plan.group, m.k - i), c);
        return c;
      }
      return rounded(m.d, sum, in_order(sum, a, b, m.k, c));
    case Summation::Forward:
    case Summation::Backward:
      if (half) {  // an accumulator of 16 bits
        for (unsigned i = 0; i < m.k; i += 2) c = rounded(m.d, sum, in_order(sum, a + i, b + i, 2, c));
        return c;
      }
      return rounded(m.d, sum, in_order(sum, a, b, m.k, c));
    case Summation::Tree:
      return rounded(m.d, sum, tree(a, b, m.k) + c);
    case Summation::Wide: {  // products are exact in f64
      double s = static_cast<double>(c);
      for (unsigned i = 0; i < m.k; ++i) s += static_cast<double>(a[i]) * static_cast<double>(b[i]);
      return rounded(m.d, sum, m.d == Element::F32 ? static_cast<float>(s) : odd_float(s));
    }
  }
  return c;
}

double dot(const Summation& sum, const double* a, const double* b, unsigned k, double c) {
  if (sum.order == Summation::Tree || sum.order == Summation::Wide) {
    double s = 0;
    for (unsigned i = 0; i < k; ++i) s += a[i] * b[i];
    return c + s;
  }
  return in_order(sum, a, b, k, c);
}

}  // namespace heddle::amdgpu
