// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arithmetic of single values: types of operands, denormals, output modifiers, rounding to f16. For the tables of vector instructions.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <limits>

#include "tests/amdgpu/machine.h"

namespace heddle::amdgpu {

inline float as_float(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline uint32_t as_bits(float value) {
  return std::bit_cast<uint32_t>(value);
}
inline double as_double(uint64_t bits) {
  return std::bit_cast<double>(bits);
}
inline uint64_t as_bits(double value) {
  return std::bit_cast<uint64_t>(value);
}

// Signaling NaNs stay signaling, which the host's conversion does not do.
inline float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t{h & 0x8000u} << 16;
  if ((h & 0x7c00) == 0x7c00) return as_float(sign | 0x7f800000 | uint32_t{h & 0x3ffu} << 13);
  return _cvtsh_ss(h);
}
inline uint16_t float_to_half(float f) {
  const uint32_t bits = as_bits(f);
  if ((bits & 0x7fffffff) > 0x7f800000) {
    return static_cast<uint16_t>((bits >> 16 & 0x8000) | 0x7c00 | (bits >> 13 & 0x3ff) | ((bits >> 13 & 0x3ff) == 0 ? 0x200 : 0));
  }
  return _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT);
}
// Rounds once: to odd in f32, whose 24 bits are at least two more than the 11 of f16.
inline float odd_float(double d) {
  const float f = static_cast<float>(d);
  if (std::isnan(d) || static_cast<double>(f) == d) return f;
  uint32_t bits = as_bits(f);
  if (std::isinf(f)) return std::copysign(std::numeric_limits<float>::max(), f);
  if (std::fabs(static_cast<double>(f)) > std::fabs(d)) --bits;
  return as_float(bits | 1);
}
// a * b + c rounded to odd in f64, for operands whose product is exact in f64.
inline double odd_fma(double a, double b, double c) {
  const double p = a * b, s = p + c;
  if (!std::isfinite(s)) return s;
  const double t = s - p, error = (p - (s - t)) + (c - t);
  if (error == 0) return s;
  uint64_t bits = as_bits(s);
  if ((bits & 1) == 0) bits += (error > 0) == (s > 0) ? 1 : -1;
  return as_double(bits);
}
inline float half_fma(float a, float b, float c) {
  return odd_float(odd_fma(a, b, c));
}

template <class T>
inline bool is_signaling(T x) {
  if constexpr (sizeof(T) == 4) return std::isnan(x) && (as_bits(x) & 0x400000) == 0;
  return std::isnan(x) && (as_bits(static_cast<double>(x)) & 0x8000000000000) == 0;
}
template <class T>
inline T quiet(T x) {
  if constexpr (sizeof(T) == 4) return as_float(as_bits(x) | 0x400000);
  return static_cast<T>(as_double(as_bits(static_cast<double>(x)) | 0x8000000000000));
}

template <class T>
inline T clamp_float(const Mode& m, T v) {
  if (std::isnan(v)) return m.dx10_clamp ? T{0} : v;
  return v < 0 || v == 0 ? T{0} : v > 1 ? T{1} : v;
}
template <class T>
inline T output(const Mode& m, T v) {
  if (m.omod != 0) v = v * (m.omod == 1 ? T{2} : m.omod == 2 ? T{4} : T{0.5});
  if (m.clamp) v = clamp_float(m, v);
  return v;
}

struct None {
  static constexpr Type type = Type::None;
  static int get(const Mode&, uint64_t) { return 0; }
};
struct F16 {
  static constexpr Type type = Type::F16;
  static float get(const Mode& m, uint64_t bits) {
    const auto h = static_cast<uint16_t>(bits);
    if (m.flush_in64 && (h & 0x7c00) == 0) return half_to_float(h & 0x8000);
    return half_to_float(h);
  }
  static uint64_t put(const Mode& m, float v) {
    uint16_t h = float_to_half(m.omod != 0 || m.clamp ? output(m, half_to_float(float_to_half(v))) : v);
    if (m.flush_out64 && (h & 0x7c00) == 0) h &= 0x8000;
    return h;
  }
};
struct F32 {
  static constexpr Type type = Type::F32;
  static float get(const Mode& m, uint64_t bits) {
    auto b = static_cast<uint32_t>(bits);
    if (m.flush_in32 && (b & 0x7f800000) == 0) b &= 0x80000000;
    return as_float(b);
  }
  static uint64_t put(const Mode& m, float v) {
    uint32_t b = as_bits(m.omod != 0 || m.clamp ? output(m, v) : v);
    if (m.flush_out32 && (b & 0x7f800000) == 0) b &= 0x80000000;
    return b;
  }
};
struct F64 {
  static constexpr Type type = Type::F64;
  static double get(const Mode& m, uint64_t b) {
    if (m.flush_in64 && (b & 0x7ff0000000000000) == 0) b &= uint64_t{1} << 63;
    return as_double(b);
  }
  static uint64_t put(const Mode& m, double v) {
    uint64_t b = as_bits(m.omod != 0 || m.clamp ? output(m, v) : v);
    if (m.flush_out64 && (b & 0x7ff0000000000000) == 0) b &= uint64_t{1} << 63;
    return b;
  }
};
// Raw bits, although neg and abs apply to them as to floats.
struct B16 {
  static constexpr Type type = Type::B16;
  static uint32_t get(const Mode&, uint64_t b) { return static_cast<uint16_t>(b); }
  static uint64_t put(const Mode&, uint64_t v) { return static_cast<uint16_t>(v); }
};
struct B32 {
  static constexpr Type type = Type::B32;
  static uint32_t get(const Mode&, uint64_t b) { return static_cast<uint32_t>(b); }
  static uint64_t put(const Mode&, uint64_t v) { return static_cast<uint32_t>(v); }
};
struct B64 {
  static constexpr Type type = Type::B64;
  static uint64_t get(const Mode&, uint64_t b) { return b; }
  static uint64_t put(const Mode&, uint64_t v) { return v; }
};
template <class T, class Wide, Type kind>
struct Int {
  static constexpr Type type = kind;
  static T get(const Mode&, uint64_t b) { return static_cast<T>(b); }
  // The result of the operation before it is cut to the width; with clamp it saturates.
  static uint64_t put(const Mode& m, Wide v) {
    if (m.clamp) {
      if (v < static_cast<Wide>(std::numeric_limits<T>::min())) v = std::numeric_limits<T>::min();
      if (v > static_cast<Wide>(std::numeric_limits<T>::max())) v = std::numeric_limits<T>::max();
    }
    return static_cast<std::make_unsigned_t<T>>(v);
  }
};
using I16 = Int<int16_t, int64_t, Type::I16>;
using U16 = Int<uint16_t, int64_t, Type::U16>;
using I32 = Int<int32_t, int64_t, Type::I32>;
using U32 = Int<uint32_t, int64_t, Type::U32>;
using I64 = Int<int64_t, __int128, Type::I64>;
using U64 = Int<uint64_t, __int128, Type::U64>;

template <class D, class A, class B, class C, auto function>
void each(const Mode& m, unsigned lanes, uint64_t* out, const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t, uint64_t*) {
  for (unsigned i = 0; i < lanes; ++i) out[i] = D::put(m, function(m, A::get(m, a[i]), B::get(m, b[i]), C::get(m, c[i])));
}
// With a mask in and a mask out: function(mode, a, b, c, in, out).
template <class D, class A, class B, class C, auto function>
void each_mask(const Mode& m, unsigned lanes, uint64_t* out, const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t in,
               uint64_t* mask_out) {
  uint64_t result = 0;
  for (unsigned i = 0; i < lanes; ++i) {
    bool bit = false;
    out[i] = D::put(m, function(m, A::get(m, a[i]), B::get(m, b[i]), C::get(m, c[i]), (in >> i & 1) != 0, bit));
    result |= uint64_t{bit} << i;
  }
  *mask_out = result;
}
template <class A, class B, auto function>
void each_compare(const Mode& m, unsigned lanes, uint64_t*, const uint64_t* a, const uint64_t* b, const uint64_t*, uint64_t,
                  uint64_t* mask_out) {
  uint64_t result = 0;
  for (unsigned i = 0; i < lanes; ++i) result |= uint64_t{static_cast<bool>(function(m, A::get(m, a[i]), B::get(m, b[i])))} << i;
  *mask_out = result;
}

// `Quick` of the three above.
template <class... T>
constexpr bool is_quick = ((T::type == Type::None || (registers_of(T::type) == 1 && !is_half(T::type))) && ...);
inline Mode plain(const Mode& mode) {
  Mode m = mode;
  m.flush_in32 = m.flush_out32 = m.clamp = false;
  m.omod = 0;
  return m;
}
template <class D, class A, class B, class C, auto function>
uint64_t quick_each(const Mode& mode, unsigned lanes, uint32_t* __restrict out, const uint32_t* a, const uint32_t* b, const uint32_t* c,
                    uint64_t) {
  const Mode m = plain(mode);
  for (unsigned first = 0; first < lanes; first += 32) {
    for (unsigned i = first; i < first + 32; ++i)
      out[i] = static_cast<uint32_t>(D::put(m, function(m, A::get(m, a[i]), B::get(m, b[i]), C::get(m, c[i]))));
  }
  return 0;
}
template <class D, class A, class B, class C, auto function>
uint64_t quick_mask(const Mode& mode, unsigned lanes, uint32_t* __restrict out, const uint32_t* a, const uint32_t* b, const uint32_t* c,
                    uint64_t in) {
  const Mode m = plain(mode);
  uint64_t result = 0;
  for (unsigned i = 0; i < lanes; ++i) {
    bool bit = false;
    out[i] = static_cast<uint32_t>(D::put(m, function(m, A::get(m, a[i]), B::get(m, b[i]), C::get(m, c[i]), (in >> i & 1) != 0, bit)));
    result |= uint64_t{bit} << i;
  }
  return result;
}
template <class A, class B, auto function>
uint64_t quick_compare(const Mode& mode, unsigned lanes, uint32_t* __restrict, const uint32_t* a, const uint32_t* b, const uint32_t*,
                       uint64_t) {
  const Mode m = plain(mode);
  uint64_t result = 0;
  for (unsigned i = 0; i < lanes; ++i) result |= uint64_t{static_cast<bool>(function(m, A::get(m, a[i]), B::get(m, b[i])))} << i;
  return result;
}
template <class D, class A, class B, class C, auto function>
constexpr Quick quick_each_if() {
  if constexpr (is_quick<D, A, B, C>) return quick_each<D, A, B, C, function>;
  return nullptr;
}
template <class D, class A, class B, class C, auto function>
constexpr Quick quick_mask_if() {
  if constexpr (is_quick<D, A, B, C>) return quick_mask<D, A, B, C, function>;
  return nullptr;
}
template <class A, class B, auto function>
constexpr Quick quick_compare_if() {
  if constexpr (is_quick<A, B>) return quick_compare<A, B, function>;
  return nullptr;
}

#define HEDDLE_LAMBDA(expression)                                                                \
  [](const Mode& m, [[maybe_unused]] auto a, [[maybe_unused]] auto b, [[maybe_unused]] auto c) { \
    static_cast<void>(m);                                                                        \
    return (expression);                                                                         \
  }
// Entries of the tables, with both loops of one lambda.
template <class D, class A, class B, class C, auto function>
constexpr Valu operation(const char* name, uint32_t flags) {
  return {name, D::type, {A::type, B::type, C::type}, each<D, A, B, C, function>, flags, quick_each_if<D, A, B, C, function>()};
}
template <class D, class A, class B, class C, auto function>
constexpr Valu masked(const char* name, Type result, const std::array<Type, 3>& sources, uint32_t flags) {
  return {name, result, sources, each_mask<D, A, B, C, function>, flags, quick_mask_if<D, A, B, C, function>()};
}
template <class A, class B, auto function>
constexpr Valu comparison(const char* name, uint32_t flags) {
  return {
      name, Type::None, {A::type, B::type, Type::None}, each_compare<A, B, function>, kCompare | flags, quick_compare_if<A, B, function>()};
}
#define OPX(name, D, A, B, C, flags, expression) operation<D, A, B, C, HEDDLE_LAMBDA(expression)>(name, flags)
#define OP1(name, D, A, expression) OPX(name, D, A, None, None, 0, expression)
#define OP2(name, D, A, B, expression) OPX(name, D, A, B, None, 0, expression)
#define OP3(name, D, A, B, C, expression) OPX(name, D, A, B, C, 0, expression)

}  // namespace heddle::amdgpu
