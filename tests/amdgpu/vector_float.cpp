// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Vector instructions on floats: what one lane computes. Names are those of GFX9; `canonical` maps the names of GFX11 to them. Sources: AMD Instinct
// MI200 ISA reference guide, chapters 6 (Vector ALU operations) and 12 (Instructions); RDNA3 ISA reference guide, chapters 7 and 16.
#include "tests/amdgpu/values.h"

namespace heddle::amdgpu {
namespace {

uint64_t hash(uint64_t x) {
  return Random{x}.next();
}

// An approximation with an error of at most 1 ulp: one of the two neighbors of the exact result. Denormals become 0 on either side (the f32 unit for
// transcendental functions has none).
float within_ulp(const Mode& m, double exact) {
  const auto nearest = static_cast<float>(exact);
  float result = nearest;
  if (m.approximate != 0 && std::isfinite(nearest) && static_cast<double>(nearest) != exact && nearest != 0) {
    if ((hash(m.approximate ^ as_bits(nearest)) & 1) != 0) {
      const float other = std::nextafter(nearest, static_cast<double>(nearest) < exact ? INFINITY : -INFINITY);
      if (std::isfinite(other)) result = other;
    }
  }
  return std::fabs(result) < std::numeric_limits<float>::min() ? std::copysign(0.0F, result) : result;
}
float flushed(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
}
// Within 2**29 ulp, as stated for f64: 24 bits are right.
double within_many_ulps(const Mode& m, double exact) {
  if (m.approximate == 0 || !std::isfinite(exact) || exact == 0) return exact;
  int exponent = 0;
  if (const double mantissa = std::frexp(exact, &exponent); std::fabs(mantissa) == 0.5) return exact;
  const auto h = static_cast<int64_t>(hash(m.approximate ^ as_bits(exact)) >> 36) - (int64_t{1} << 27);
  return exact + std::ldexp(static_cast<double>(h), std::ilogb(exact) - 52);
}
// MI200 ISA, V_SIN_F32 and V_COS_F32: beyond 256 turns the results are 0 and 1. But LLVM takes no part of a turn off before them on GFX9 and later, as if
// their domain had no end. So the seed chooses.
bool is_left_out(const Mode& m, double x) {
  return m.approximate != 0 && std::fabs(x) > 256 && (hash(m.approximate ^ as_bits(x)) & 1) != 0;
}
double sin_turns(const Mode& m, double x) {
  if (!std::isfinite(x)) return NAN;
  if (is_left_out(m, x)) return 0;
  const double r = x - std::nearbyint(x);
  return r == 0 || std::fabs(r) == 0.5 ? std::copysign(0.0, x) : std::sin(r * 2 * M_PI);
}
double cos_turns(const Mode& m, double x) {
  if (!std::isfinite(x)) return NAN;
  if (is_left_out(m, x)) return 1;
  const double r = std::fabs(x - std::nearbyint(x));
  return r == 0.25 ? 0.0 : std::cos(r * 2 * M_PI);
}

// MI200 ISA, V_MIN_F32 and V_MAX_F32: with IEEE mode a signaling NaN is returned, quieted; otherwise the operand that is a number.
template <class T>
T minimum(const Mode& m, T a, T b) {
  if (m.ieee && is_signaling(a)) return quiet(a);
  if (m.ieee && is_signaling(b)) return quiet(b);
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
T maximum(const Mode& m, T a, T b) {
  if (m.ieee && is_signaling(a)) return quiet(a);
  if (m.ieee && is_signaling(b)) return quiet(b);
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == 0 && b == 0) return std::signbit(a) ? b : a;
  return a < b ? b : a;
}
// GFX12: NaN if either is one.
template <class T>
T ieee_minimum(const Mode& m, T a, T b) {
  if (std::isnan(a)) return quiet(a);
  return std::isnan(b) ? quiet(b) : minimum(m, a, b);
}
template <class T>
T ieee_maximum(const Mode& m, T a, T b) {
  if (std::isnan(a)) return quiet(a);
  return std::isnan(b) ? quiet(b) : maximum(m, a, b);
}
template <class T>
T median(const Mode& m, T a, T b, T c) {
  if (std::isnan(a) || std::isnan(b) || std::isnan(c)) return minimum(m, minimum(m, a, b), c);
  const T top = maximum(m, maximum(m, a, b), c);
  if (top == a) return maximum(m, b, c);
  if (top == b) return maximum(m, a, c);
  return maximum(m, a, b);
}

template <class T>
T fract(T x) {
  if (std::isnan(x) || std::isinf(x)) return NAN;
  const T below = std::is_same_v<T, float> ? T(0x1.fffffep-1) : T(0x1.fffffffffffffp-1);
  return std::min(x - std::floor(x), below);
}
float fract_half(float x) {
  if (!std::isfinite(x)) return NAN;
  return std::min(x - std::floor(x), 0x1.ffcp-1F);
}
template <class T>
T mantissa(T x) {
  int e = 0;
  return std::isfinite(x) ? std::frexp(x, &e) : x;
}
template <class T>
int64_t exponent(T x) {
  int e = 0;
  if (std::isfinite(x)) std::frexp(x, &e);
  return e;
}
int scale_limit(int64_t n) {
  return static_cast<int>(std::clamp<int64_t>(n, -5000, 5000));
}

// Conversions to integers saturate, and NaN becomes 0.
template <class I, class F>
int64_t to_integer(F x) {
  if (std::isnan(x)) return 0;
  const auto t = static_cast<double>(std::trunc(x));
  if (t <= static_cast<double>(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
  if (t >= static_cast<double>(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
  return static_cast<int64_t>(t);
}
uint32_t pack(uint32_t low, uint32_t high) {
  return (low & 0xffff) | high << 16;
}
uint32_t norm(double x, double scale) {
  if (std::isnan(x)) return 0;
  return static_cast<uint32_t>(static_cast<int32_t>(std::nearbyint(std::clamp(x, scale == 32767.0 ? -1.0 : 0.0, 1.0) * scale)));
}
uint16_t half_toward_zero(float x) {
  if (std::isnan(x)) return float_to_half(x);
  return _cvtss_sh(x, _MM_FROUND_TO_ZERO);
}

// v_cmp_class: bits of the mask are sNaN, qNaN, -inf, -normal, -denormal, -0, +0, +denormal, +normal, +inf.
template <int kExponentBits, int kMantissaBits>
bool in_class(uint64_t bits, uint32_t mask) {
  const uint64_t sign = bits >> (kExponentBits + kMantissaBits) & 1;
  const uint64_t e = bits >> kMantissaBits & ((1u << kExponentBits) - 1);
  const uint64_t f = bits & ((uint64_t{1} << kMantissaBits) - 1);
  unsigned which = 0;
  if (e == (1u << kExponentBits) - 1) {
    if (f != 0) {
      which = (f >> (kMantissaBits - 1)) != 0 ? 1 : 0;
    } else {
      which = sign != 0 ? 2 : 9;
    }
  } else if (e != 0) {
    which = sign != 0 ? 3 : 8;
  } else if (f != 0) {
    which = sign != 0 ? 4 : 7;
  } else {
    which = sign != 0 ? 5 : 6;
  }
  return (mask >> which & 1) != 0;
}

// The division sequence. The guide's pseudocode of these three contradicts itself in places; what they have to do follows from the sequence that LLVM
// emits (SITargetLowering::LowerFDIV32, LowerFDIV64): scale the operand that is the first source so that neither the reciprocal nor the quotient leaves
// the range, undo the scale of the quotient in fmas where the mask says so, and take care of special values in fixup.
template <class T>
struct Limits;
template <>
struct Limits<float> {
  static constexpr int range = 96, scale = 64, tiny = -104, top = 127, bottom = -126;
};
template <>
struct Limits<double> {
  static constexpr int range = 768, scale = 128, tiny = -970, top = 1023, bottom = -1022;
};
template <class T>
int unbiased(T x) {  // of a denormal: that of the smallest normal number less one, as the field says
  if (x == 0) return Limits<T>::bottom - 1;
  return std::max(std::ilogb(x), Limits<T>::bottom - 1);
}
template <class T>
T div_scale(T s0, T s1, T s2, bool& mask) {
  using L = Limits<T>;
  mask = false;
  const bool of_denominator = std::memcmp(&s0, &s1, sizeof(T)) == 0, of_numerator = std::memcmp(&s0, &s2, sizeof(T)) == 0;
  if (s1 == 0 || s2 == 0) return NAN;
  if (std::isnan(s1) || std::isnan(s2) || std::isinf(s1) || std::isinf(s2)) return s0;
  const int e1 = unbiased(s1), e2 = unbiased(s2);
  const bool denominator_denormal = e1 < L::bottom;
  const bool reciprocal_denormal = std::fabs(T{1} / s1) < std::ldexp(T{1}, L::bottom);
  const bool quotient_denormal = std::fabs(static_cast<long double>(s2) / static_cast<long double>(s1)) < std::ldexp(1.0L, L::bottom);
  if (e2 - e1 >= L::range) {
    mask = true;
    return of_denominator ? std::ldexp(s0, L::scale) : s0;
  }
  if (denominator_denormal) return std::ldexp(s0, L::scale);
  if (reciprocal_denormal && quotient_denormal) {
    mask = true;
    return of_denominator ? std::ldexp(s0, -L::scale) : s0;  // the guide says up, which overflows
  }
  if (reciprocal_denormal) return std::ldexp(s0, -L::scale);
  if (quotient_denormal) {
    mask = true;
    return of_numerator ? std::ldexp(s0, L::scale) : s0;
  }
  if (e2 <= L::tiny) return std::ldexp(s0, L::scale);
  return s0;
}
// The exact result rounded once, although it is scaled: where that leaves the normal range, the residue decides.
template <class T>
T scaled_fma(T a, T b, T c, int scale) {
  const T r = std::fma(a, b, c);
  if (!std::isfinite(r) || r == 0 || std::ilogb(r) + scale > Limits<T>::bottom) return std::ldexp(r, scale);
  if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(std::ldexp(odd_fma(a, b, c), scale));
  } else {
    __extension__ using Quad = __float128;
    return static_cast<double>((Quad{a} * Quad{b} + Quad{c}) * Quad{std::ldexp(1.0, scale)});
  }
}
template <class T>
T div_fmas(T a, T b, T c, bool mask) {
  using L = Limits<T>;
  if (!mask) return std::fma(a, b, c);
  return scaled_fma(a, b, c, unbiased(c) >= 0 ? L::scale : -L::scale);
}
template <class T>
T div_fixup(T s0, T s1, T s2) {
  using L = Limits<T>;
  const bool sign = std::signbit(s1) != std::signbit(s2);
  const T one = sign ? T{-1} : T{1};
  if (std::isnan(s2)) return quiet(s2);
  if (std::isnan(s1)) return quiet(s1);
  if (s1 == 0 && s2 == 0) return std::copysign(std::numeric_limits<T>::quiet_NaN(), T{-1});
  if (std::isinf(s1) && std::isinf(s2)) return std::copysign(std::numeric_limits<T>::quiet_NaN(), T{-1});
  if (s1 == 0 || std::isinf(s2)) return std::copysign(std::numeric_limits<T>::infinity(), one);
  if (std::isinf(s1) || s2 == 0) return std::copysign(T{0}, one);
  const int e1 = unbiased(s1), e2 = unbiased(s2);
  if (e2 - e1 < L::bottom - (std::is_same_v<T, float> ? 24 : 53)) return std::copysign(T{0}, one);  // below the smallest denormal
  // The guide tests the exponent of s1 for its largest value here, which cannot be. Without this case, fma has made inf - inf.
  if (e2 - e1 > L::top + 1) return std::copysign(std::numeric_limits<T>::infinity(), one);
  return std::copysign(std::fabs(s0), one);
}
float half_div_fixup(float s0, float s1, float s2) {
  const float one = std::signbit(s1) != std::signbit(s2) ? -1.0F : 1.0F;
  if (std::isnan(s2)) return quiet(s2);
  if (std::isnan(s1)) return quiet(s1);
  if ((s1 == 0 && s2 == 0) || (std::isinf(s1) && std::isinf(s2))) return -NAN;
  if (s1 == 0 || std::isinf(s2)) return std::copysign(INFINITY, one);
  if (std::isinf(s1) || s2 == 0) return std::copysign(0.0F, one);
  return std::copysign(std::fabs(s0), one);
}
float cube(unsigned what, float x, float y, float z) {
  const float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  const unsigned axis = az >= ax && az >= ay ? 2 : ay >= ax ? 1 : 0;
  const bool negative = (axis == 2 ? z : axis == 1 ? y : x) < 0;
  if (what == 0) return static_cast<float>(axis * 2 + (negative ? 1 : 0));
  if (what == 3) return 2 * (axis == 2 ? z : axis == 1 ? y : x);
  if (what == 1) return axis == 2 ? (negative ? -x : x) : axis == 1 ? x : (negative ? z : -z);
  return axis == 1 ? (negative ? -z : z) : -y;
}
float dot2_half(uint32_t a, uint32_t b, float c) {  // fused in f32, the order is the guide's
  c = std::fma(half_to_float(static_cast<uint16_t>(a)), half_to_float(static_cast<uint16_t>(b)), c);
  return std::fma(half_to_float(static_cast<uint16_t>(a >> 16)), half_to_float(static_cast<uint16_t>(b >> 16)), c);
}
float dot2_bf16(uint32_t a, uint32_t b, float c) {
  c = std::fma(as_float(a << 16), as_float(b << 16), c);
  return std::fma(as_float(a & 0xffff0000), as_float(b & 0xffff0000), c);
}

Mode without_denormals(Mode m) {
  m.flush_in32 = m.flush_out32 = true;
  return m;
}
// v_mad_f32 and v_mac_f32 round the product and flush denormals, whatever the mode says.
void mad_f32(const Mode& mode, unsigned lanes, uint64_t* out, const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t,
             uint64_t*) {
  const Mode m = without_denormals(mode);
  for (unsigned i = 0; i < lanes; ++i) out[i] = F32::put(m, flushed(F32::get(m, a[i]) * F32::get(m, b[i])) + F32::get(m, c[i]));
}
float legacy(float a, float b) {
  return a == 0 || b == 0 ? 0.0F : a * b;
}
double ldexp64(double x, int64_t n) {
  return std::ldexp(x, scale_limit(n));
}

#define COMPARE(name, A, B, flags, expression)         \
  comparison<A, B, [](const Mode& m, auto a, auto b) { \
    static_cast<void>(m);                              \
    return (expression);                               \
  }>(name, flags)
#define FLOAT_COMPARES(prefix, suffix, T, flags)                                                                                     \
  COMPARE(prefix "f" suffix, T, T, flags, (static_cast<void>(a), static_cast<void>(b), false)),                                      \
      COMPARE(prefix "lt" suffix, T, T, flags, a < b), COMPARE(prefix "eq" suffix, T, T, flags, a == b),                             \
      COMPARE(prefix "le" suffix, T, T, flags, a <= b), COMPARE(prefix "gt" suffix, T, T, flags, a > b),                             \
      COMPARE(prefix "lg" suffix, T, T, flags, a<b || a> b), COMPARE(prefix "ge" suffix, T, T, flags, a >= b),                       \
      COMPARE(prefix "o" suffix, T, T, flags, !std::isnan(a) && !std::isnan(b)),                                                     \
      COMPARE(prefix "u" suffix, T, T, flags, std::isnan(a) || std::isnan(b)), COMPARE(prefix "nge" suffix, T, T, flags, !(a >= b)), \
      COMPARE(prefix "nlg" suffix, T, T, flags, !(a < b || a > b)), COMPARE(prefix "ngt" suffix, T, T, flags, !(a > b)),             \
      COMPARE(prefix "nle" suffix, T, T, flags, !(a <= b)), COMPARE(prefix "neq" suffix, T, T, flags, !(a == b)),                    \
      COMPARE(prefix "nlt" suffix, T, T, flags, !(a < b)),                                                                           \
      COMPARE(prefix "tru" suffix, T, T, flags, (static_cast<void>(a), static_cast<void>(b), true)),                                 \
      COMPARE(prefix "t" suffix, T, T, flags, (static_cast<void>(a), static_cast<void>(b), true))

const Valu kTable[] = {
    // f32
    OP2("v_add_f32", F32, F32, F32, a + b),
    OP2("v_sub_f32", F32, F32, F32, a - b),
    OP2("v_subrev_f32", F32, F32, F32, b - a),
    OP2("v_mul_f32", F32, F32, F32, a* b),
    OP2("v_mul_legacy_f32", F32, F32, F32, legacy(a, b)),
    OP2("v_min_f32", F32, F32, F32, minimum(m, a, b)),
    OP2("v_max_f32", F32, F32, F32, maximum(m, a, b)),
    OP3("v_min3_f32", F32, F32, F32, F32, minimum(m, minimum(m, a, b), c)),
    OP3("v_max3_f32", F32, F32, F32, F32, maximum(m, maximum(m, a, b), c)),
    OP3("v_med3_f32", F32, F32, F32, F32, median(m, a, b, c)),
    OP3("v_maxmin_f32", F32, F32, F32, F32, minimum(m, maximum(m, a, b), c)),
    OP3("v_minmax_f32", F32, F32, F32, F32, maximum(m, minimum(m, a, b), c)),
    OP3("v_fma_f32", F32, F32, F32, F32, std::fma(a, b, c)),
    OPX("v_fmac_f32", F32, F32, F32, F32, kAccumulate, std::fma(a, b, c)),
    OP3("v_fmamk_f32", F32, F32, F32, F32, std::fma(a, b, c)),
    OP3("v_fmaak_f32", F32, F32, F32, F32, std::fma(a, b, c)),
    {"v_mad_f32", Type::F32, {Type::F32, Type::F32, Type::F32}, mad_f32, 0},
    {"v_mac_f32", Type::F32, {Type::F32, Type::F32, Type::F32}, mad_f32, kAccumulate},
    {"v_madmk_f32", Type::F32, {Type::F32, Type::F32, Type::F32}, mad_f32, 0},
    {"v_madak_f32", Type::F32, {Type::F32, Type::F32, Type::F32}, mad_f32, 0},
    OP1("v_trunc_f32", F32, F32, std::trunc(a)),
    OP1("v_ceil_f32", F32, F32, std::ceil(a)),
    OP1("v_rndne_f32", F32, F32, std::nearbyint(a)),
    OP1("v_floor_f32", F32, F32, std::floor(a)),
    OP1("v_fract_f32", F32, F32, fract(a)),
    OP1("v_frexp_mant_f32", F32, F32, mantissa(a)),
    OP1("v_frexp_exp_i32_f32", I32, F32, exponent(a)),
    OP2("v_ldexp_f32", F32, F32, I32, std::ldexp(a, scale_limit(b))),
    OP1("v_rcp_f32", F32, F32, within_ulp(m, 1.0 / static_cast<double>(flushed(a)))),
    OP1("v_rcp_iflag_f32", F32, F32, within_ulp(m, 1.0 / static_cast<double>(flushed(a)))),
    OP1("v_rsq_f32", F32, F32, within_ulp(m, 1.0 / std::sqrt(static_cast<double>(flushed(a))))),
    OP1("v_sqrt_f32", F32, F32, within_ulp(m, std::sqrt(static_cast<double>(flushed(a))))),
    OP1("v_exp_f32", F32, F32, within_ulp(m, std::exp2(static_cast<double>(flushed(a))))),
    OP1("v_log_f32", F32, F32, within_ulp(m, std::log2(static_cast<double>(flushed(a))))),
    OP1("v_exp_legacy_f32", F32, F32, within_ulp(m, std::exp2(static_cast<double>(flushed(a))))),
    OP1("v_log_legacy_f32", F32, F32, within_ulp(m, std::log2(static_cast<double>(flushed(a))))),
    OP1("v_sin_f32", F32, F32, within_ulp(m, sin_turns(m, flushed(a)))),
    OP1("v_cos_f32", F32, F32, within_ulp(m, cos_turns(m, flushed(a)))),
    OP3("v_cubeid_f32", F32, F32, F32, F32, cube(0, a, b, c)),
    OP3("v_cubesc_f32", F32, F32, F32, F32, cube(1, a, b, c)),
    OP3("v_cubetc_f32", F32, F32, F32, F32, cube(2, a, b, c)),
    OP3("v_cubema_f32", F32, F32, F32, F32, cube(3, a, b, c)),
    {"v_div_scale_f32",
     Type::F32,
     {Type::F32, Type::F32, Type::F32},
     each_mask<F32, F32, F32, F32, [](const Mode&, float a, float b, float c, bool, bool& out) { return div_scale(a, b, c, out); }>,
     kMaskOut},
    {"v_div_fmas_f32",
     Type::F32,
     {Type::F32, Type::F32, Type::F32},
     each_mask<F32, F32, F32, F32, [](const Mode&, float a, float b, float c, bool in, bool&) { return div_fmas(a, b, c, in); }>,
     kImplicitVcc},
    OP3("v_div_fixup_f32", F32, F32, F32, F32, div_fixup(a, b, c)),
    // f64
    OP2("v_add_f64", F64, F64, F64, a + b),
    OP2("v_mul_f64", F64, F64, F64, a* b),
    OP2("v_min_f64", F64, F64, F64, minimum(m, a, b)),
    OP2("v_max_f64", F64, F64, F64, maximum(m, a, b)),
    OP3("v_fma_f64", F64, F64, F64, F64, std::fma(a, b, c)),
    OPX("v_fmac_f64", F64, F64, F64, F64, kAccumulate, std::fma(a, b, c)),
    OP1("v_trunc_f64", F64, F64, std::trunc(a)),
    OP1("v_ceil_f64", F64, F64, std::ceil(a)),
    OP1("v_rndne_f64", F64, F64, std::nearbyint(a)),
    OP1("v_floor_f64", F64, F64, std::floor(a)),
    OP1("v_fract_f64", F64, F64, fract(a)),
    OP1("v_frexp_mant_f64", F64, F64, mantissa(a)),
    OP1("v_frexp_exp_i32_f64", I32, F64, exponent(a)),
    OP2("v_ldexp_f64", F64, F64, I32, ldexp64(a, b)),
    OP1("v_rcp_f64", F64, F64, within_many_ulps(m, 1.0 / a)),
    OP1("v_rsq_f64", F64, F64, within_many_ulps(m, 1.0 / std::sqrt(a))),
    OP1("v_sqrt_f64", F64, F64, within_many_ulps(m, std::sqrt(a))),
    {"v_div_scale_f64",
     Type::F64,
     {Type::F64, Type::F64, Type::F64},
     each_mask<F64, F64, F64, F64, [](const Mode&, double a, double b, double c, bool, bool& out) { return div_scale(a, b, c, out); }>,
     kMaskOut},
    {"v_div_fmas_f64",
     Type::F64,
     {Type::F64, Type::F64, Type::F64},
     each_mask<F64, F64, F64, F64, [](const Mode&, double a, double b, double c, bool in, bool&) { return div_fmas(a, b, c, in); }>,
     kImplicitVcc},
    OP3("v_div_fixup_f64", F64, F64, F64, F64, div_fixup(a, b, c)),
    // f16
    OP2("v_add_f16", F16, F16, F16, a + b),
    OP2("v_sub_f16", F16, F16, F16, a - b),
    OP2("v_subrev_f16", F16, F16, F16, b - a),
    OP2("v_mul_f16", F16, F16, F16, a* b),
    OP2("v_min_f16", F16, F16, F16, minimum(m, a, b)),
    OP2("v_max_f16", F16, F16, F16, maximum(m, a, b)),
    OPX("v_min3_f16", F16, F16, F16, F16, kKeepsHigh, minimum(m, minimum(m, a, b), c)),
    OPX("v_max3_f16", F16, F16, F16, F16, kKeepsHigh, maximum(m, maximum(m, a, b), c)),
    OPX("v_med3_f16", F16, F16, F16, F16, kKeepsHigh, median(m, a, b, c)),
    OPX("v_maxmin_f16", F16, F16, F16, F16, kKeepsHigh, minimum(m, maximum(m, a, b), c)),
    OPX("v_minmax_f16", F16, F16, F16, F16, kKeepsHigh, maximum(m, minimum(m, a, b), c)),
    OP3("v_mad_legacy_f16", F16, F16, F16, F16, half_to_float(float_to_half(a* b)) + c),
    OP3("v_fma_legacy_f16", F16, F16, F16, F16, half_fma(a, b, c)),
    OP3("v_div_fixup_legacy_f16", F16, F16, F16, F16, half_div_fixup(a, b, c)),
    OPX("v_fma_f16", F16, F16, F16, F16, kKeepsHigh, half_fma(a, b, c)),
    OPX("v_fmac_f16", F16, F16, F16, F16, kAccumulate, half_fma(a, b, c)),
    OP3("v_fmamk_f16", F16, F16, F16, F16, half_fma(a, b, c)),
    OP3("v_fmaak_f16", F16, F16, F16, F16, half_fma(a, b, c)),
    OPX("v_mad_f16", F16, F16, F16, F16, kKeepsHigh, half_to_float(float_to_half(a* b)) + c),
    OPX("v_mac_f16", F16, F16, F16, F16, kAccumulate, half_to_float(float_to_half(a* b)) + c),
    OPX("v_div_fixup_f16", F16, F16, F16, F16, kKeepsHigh, half_div_fixup(a, b, c)),
    OP1("v_trunc_f16", F16, F16, std::trunc(a)),
    OP1("v_ceil_f16", F16, F16, std::ceil(a)),
    OP1("v_rndne_f16", F16, F16, std::nearbyint(a)),
    OP1("v_floor_f16", F16, F16, std::floor(a)),
    OP1("v_fract_f16", F16, F16, fract_half(a)),
    OP1("v_frexp_mant_f16", F16, F16, mantissa(a)),
    OP1("v_frexp_exp_i16_f16", I16, F16, exponent(a)),
    OP2("v_ldexp_f16", F16, F16, I16, std::ldexp(a, b)),
    // Stated as 0.51 ulp: the exact result rounded once.
    OP1("v_rcp_f16", F16, F16, odd_float(1.0 / static_cast<double>(a))),
    OP1("v_rsq_f16", F16, F16, odd_float(1.0 / std::sqrt(static_cast<double>(a)))),
    OP1("v_sqrt_f16", F16, F16, odd_float(std::sqrt(static_cast<double>(a)))),
    OP1("v_exp_f16", F16, F16, odd_float(std::exp2(static_cast<double>(a)))),
    OP1("v_log_f16", F16, F16, odd_float(std::log2(static_cast<double>(a)))),
    OP1("v_sin_f16", F16, F16, odd_float(sin_turns(m, static_cast<double>(a)))),
    OP1("v_cos_f16", F16, F16, odd_float(cos_turns(m, static_cast<double>(a)))),
    OP2("v_minimum_f32", F32, F32, F32, ieee_minimum(m, a, b)),
    OP2("v_maximum_f32", F32, F32, F32, ieee_maximum(m, a, b)),
    OP2("v_minimum_f64", F64, F64, F64, ieee_minimum(m, a, b)),
    OP2("v_maximum_f64", F64, F64, F64, ieee_maximum(m, a, b)),
    OP2("v_minimum_f16", F16, F16, F16, ieee_minimum(m, a, b)),
    OP2("v_maximum_f16", F16, F16, F16, ieee_maximum(m, a, b)),
    OP3("v_minimum3_f32", F32, F32, F32, F32, ieee_minimum(m, ieee_minimum(m, a, b), c)),
    OP3("v_maximum3_f32", F32, F32, F32, F32, ieee_maximum(m, ieee_maximum(m, a, b), c)),
    // conversions
    OP1("v_cvt_f32_f16", F32, F16, a),
    OP1("v_cvt_f16_f32", F16, F32, a),
    OP1("v_cvt_f32_f64", F32, F64, static_cast<float>(a)),
    OP1("v_cvt_f64_f32", F64, F32, static_cast<double>(a)),
    OP1("v_cvt_f32_i32", F32, I32, static_cast<float>(a)),
    OP1("v_cvt_f32_u32", F32, U32, static_cast<float>(a)),
    OP1("v_cvt_f64_i32", F64, I32, static_cast<double>(a)),
    OP1("v_cvt_f64_u32", F64, U32, static_cast<double>(a)),
    OP1("v_cvt_f16_i16", F16, I16, static_cast<float>(a)),
    OP1("v_cvt_f16_u16", F16, U16, static_cast<float>(a)),
    OP1("v_cvt_i32_f32", I32, F32, to_integer<int32_t>(a)),
    OP1("v_cvt_u32_f32", U32, F32, to_integer<uint32_t>(a)),
    OP1("v_cvt_i32_f64", I32, F64, to_integer<int32_t>(a)),
    OP1("v_cvt_u32_f64", U32, F64, to_integer<uint32_t>(a)),
    OP1("v_cvt_i16_f16", I16, F16, to_integer<int16_t>(a)),
    OP1("v_cvt_u16_f16", U16, F16, to_integer<uint16_t>(a)),
    OP1("v_cvt_flr_i32_f32", I32, F32, to_integer<int32_t>(std::floor(a))),
    OP1("v_cvt_f32_ubyte0", F32, U32, static_cast<float>(a & 255)),
    OP1("v_cvt_f32_ubyte1", F32, U32, static_cast<float>(a >> 8 & 255)),
    OP1("v_cvt_f32_ubyte2", F32, U32, static_cast<float>(a >> 16 & 255)),
    OP1("v_cvt_f32_ubyte3", F32, U32, static_cast<float>(a >> 24)),
    OP1("v_cvt_off_f32_i4", F32, U32, static_cast<float>(static_cast<int32_t>((a & 15) << 28) >> 28) / 16),
    OP2("v_cvt_pkrtz_f16_f32", B32, F32, F32, pack(half_toward_zero(a), half_toward_zero(b))),
    OP2("v_cvt_pknorm_i16_f32", B32, F32, F32, pack(norm(a, 32767), norm(b, 32767))),
    OP2("v_cvt_pknorm_u16_f32", B32, F32, F32, pack(norm(a, 65535), norm(b, 65535))),
    OP2("v_cvt_pk_i16_f32", B32, F32, F32,
        pack(static_cast<uint32_t>(to_integer<int16_t>(a)), static_cast<uint32_t>(to_integer<int16_t>(b)))),
    OP2("v_cvt_pk_u16_f32", B32, F32, F32,
        pack(static_cast<uint32_t>(to_integer<uint16_t>(a)), static_cast<uint32_t>(to_integer<uint16_t>(b)))),
    // packed: the loop of one half
    {"v_pk_add_f16", Type::PackedF16, {Type::PackedF16, Type::PackedF16, Type::None}, each<F16, F16, F16, None, HEDDLE_LAMBDA(a + b)>, 0},
    {"v_pk_mul_f16", Type::PackedF16, {Type::PackedF16, Type::PackedF16, Type::None}, each<F16, F16, F16, None, HEDDLE_LAMBDA(a* b)>, 0},
    {"v_pk_min_f16",
     Type::PackedF16,
     {Type::PackedF16, Type::PackedF16, Type::None},
     each<F16, F16, F16, None, HEDDLE_LAMBDA(minimum(m, a, b))>,
     0},
    {"v_pk_max_f16",
     Type::PackedF16,
     {Type::PackedF16, Type::PackedF16, Type::None},
     each<F16, F16, F16, None, HEDDLE_LAMBDA(maximum(m, a, b))>,
     0},
    {"v_pk_fma_f16",
     Type::PackedF16,
     {Type::PackedF16, Type::PackedF16, Type::PackedF16},
     each<F16, F16, F16, F16, HEDDLE_LAMBDA(half_fma(a, b, c))>,
     0},
    {"v_pk_fmac_f16",
     Type::PackedF16,
     {Type::PackedF16, Type::PackedF16, Type::PackedF16},
     each<F16, F16, F16, F16, HEDDLE_LAMBDA(half_fma(a, b, c))>,
     kAccumulate},
    {"v_pk_add_f32", Type::PackedF32, {Type::PackedF32, Type::PackedF32, Type::None}, each<F32, F32, F32, None, HEDDLE_LAMBDA(a + b)>, 0},
    {"v_pk_mul_f32", Type::PackedF32, {Type::PackedF32, Type::PackedF32, Type::None}, each<F32, F32, F32, None, HEDDLE_LAMBDA(a* b)>, 0},
    {"v_pk_fma_f32",
     Type::PackedF32,
     {Type::PackedF32, Type::PackedF32, Type::PackedF32},
     each<F32, F32, F32, F32, HEDDLE_LAMBDA(std::fma(a, b, c))>,
     0},
    // mixed: sources are f16 or f32
    OPX("v_mad_mix_f32", F32, F32, F32, F32, kMix, a* b + c),
    OPX("v_fma_mix_f32", F32, F32, F32, F32, kMix, std::fma(a, b, c)),
    {"v_fma_mixlo_f16",
     Type::F16,
     {Type::F32, Type::F32, Type::F32},
     each<F16, F32, F32, F32, HEDDLE_LAMBDA(odd_float(odd_fma(a, b, c)))>,
     kMix | kKeepsHigh},
    {"v_fma_mixhi_f16",
     Type::F16,
     {Type::F32, Type::F32, Type::F32},
     each<F16, F32, F32, F32, HEDDLE_LAMBDA(odd_float(odd_fma(a, b, c)))>,
     kMix | kWritesHigh},
    // dot products
    OPX("v_dot2_f32_f16", F32, B32, B32, F32, kOwnSelect, dot2_half(a, b, c)),
    OPX("v_dot2c_f32_f16", F32, B32, B32, F32, kOwnSelect | kAccumulate, dot2_half(a, b, c)),
    OPX("v_dot2acc_f32_f16", F32, B32, B32, F32, kOwnSelect | kAccumulate, dot2_half(a, b, c)),
    OPX("v_dot2_f32_bf16", F32, B32, B32, F32, kOwnSelect, dot2_bf16(a, b, c)),
    // comparisons
    FLOAT_COMPARES("v_cmp_", "_f16", F16, 0),
    FLOAT_COMPARES("v_cmp_", "_f32", F32, 0),
    FLOAT_COMPARES("v_cmp_", "_f64", F64, 0),
    FLOAT_COMPARES("v_cmpx_", "_f16", F16, kWritesExec),
    FLOAT_COMPARES("v_cmpx_", "_f32", F32, kWritesExec),
    FLOAT_COMPARES("v_cmpx_", "_f64", F64, kWritesExec),
    COMPARE("v_cmp_class_f16", B16, U32, 0, (in_class<5, 10>(a, b))),
    COMPARE("v_cmp_class_f32", B32, U32, 0, (in_class<8, 23>(a, b))),
    COMPARE("v_cmp_class_f64", B64, U32, 0, (in_class<11, 52>(a, b))),
    COMPARE("v_cmpx_class_f16", B16, U32, kWritesExec, (in_class<5, 10>(a, b))),
    COMPARE("v_cmpx_class_f32", B32, U32, kWritesExec, (in_class<8, 23>(a, b))),
    COMPARE("v_cmpx_class_f64", B64, U32, kWritesExec, (in_class<11, 52>(a, b))),
};

}  // namespace

const Valu* find_float_valu(std::string_view name) {
  static const auto map = [] {
    std::unordered_map<std::string_view, const Valu*> result;
    for (const Valu& entry : kTable) result.emplace(entry.name, &entry);
    return result;
  }();
  const auto found = map.find(name);
  return found == map.end() ? nullptr : found->second;
}

void list_float(std::vector<std::string>& names) {
  for (const Valu& entry : kTable) names.emplace_back(entry.name);
}

}  // namespace heddle::amdgpu
