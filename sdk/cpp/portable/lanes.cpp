// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See lanes.h. Loops are written so that a compiler makes vector instructions of them.
#include "lanes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace heddle::sdk::portable {

float f32_of_f16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16, rest = bits & 0x7FFFu;
  if (rest >= 0x7C00) return std::bit_cast<float>(sign | 0x7F800000u | (rest & 0x3FFu) << 13);
  if (rest >= 0x0400) return std::bit_cast<float>(sign | ((rest << 13) + (112u << 23)));
  const float small = static_cast<float>(rest) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(small));
}

// Rounds to nearest even.
uint16_t f16_of_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
  if (rest > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | (rest >> 13 & 0x1FFu));
  if (rest >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);
  if (rest >= 0x38800000u) {
    const uint32_t rounded = rest + 0xFFFu + (rest >> 13 & 1u) - (112u << 23);
    return static_cast<uint16_t>(sign | rounded >> 13);
  }
  // Multiples of 2^-24: adding 0.5, whose last place that is, rounds.
  const float shifted = std::bit_cast<float>(rest) + 0.5f;
  return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f)));
}

namespace {

float f32_of_bf16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

uint16_t bf16_of_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

// Types in memory of the scalars; halves are their bits.
template <typename Function>
void with_integer(Scalar type, Function function) {
  switch (type) {
    case Scalar::kI1:
    case Scalar::kI8:
      return function(uint8_t{});
    case Scalar::kI16:
      return function(uint16_t{});
    case Scalar::kI32:
      return function(uint32_t{});
    default:
      return function(uint64_t{});
  }
}
template <typename Function>
void with_float(Scalar type, Function function) {
  type == Scalar::kF64 ? function(double{}) : function(float{});
}

template <typename T, typename R = T, typename Function>
void unary(const Lanes* in, int64_t count, void* out, Function function) {
  const T* a = static_cast<const T*>(in[0].data);
  R* r = static_cast<R*>(out);
  for (int64_t i = 0; i < count; ++i) r[i] = static_cast<R>(function(a[i]));
}
template <typename T, typename R = T, typename Function>
void binary(const Lanes* in, int64_t count, void* out, Function function) {
  const T* a = static_cast<const T*>(in[0].data);
  const T* b = static_cast<const T*>(in[1].data);
  R* r = static_cast<R*>(out);
  for (int64_t i = 0; i < count; ++i) r[i] = static_cast<R>(function(a[i], b[i]));
}

template <typename T>
bool compute_float(Op op, const Lanes* in, int64_t n, void* out) {
  switch (op) {
    case Op::kAddF:
      return binary<T>(in, n, out, [](T a, T b) { return a + b; }), true;
    case Op::kSubF:
      return binary<T>(in, n, out, [](T a, T b) { return a - b; }), true;
    case Op::kMulF:
      return binary<T>(in, n, out, [](T a, T b) { return a * b; }), true;
    case Op::kDivF:
      return binary<T>(in, n, out, [](T a, T b) { return a / b; }), true;
    case Op::kMaximumF:
      return binary<T>(in, n, out, [](T a, T b) { return a != a ? a : b != b ? b : a > b ? a : b; }), true;
    case Op::kMinimumF:
      return binary<T>(in, n, out, [](T a, T b) { return a != a ? a : b != b ? b : a < b ? a : b; }), true;
    case Op::kPowF:
      return binary<T>(in, n, out, [](T a, T b) { return std::pow(a, b); }), true;
    case Op::kNegF:
      return unary<T>(in, n, out, [](T a) { return -a; }), true;
    case Op::kAbsF:
      return unary<T>(in, n, out, [](T a) { return std::fabs(a); }), true;
    case Op::kCeilF:
      return unary<T>(in, n, out, [](T a) { return std::ceil(a); }), true;
    case Op::kFloorF:
      return unary<T>(in, n, out, [](T a) { return std::floor(a); }), true;
    case Op::kRoundEvenF:
      return unary<T>(in, n, out, [](T a) { return std::nearbyint(a); }), true;
    case Op::kSqrtF:
      return unary<T>(in, n, out, [](T a) { return std::sqrt(a); }), true;
    case Op::kExpF:
      return unary<T>(in, n, out, [](T a) { return std::exp(a); }), true;
    case Op::kLogF:
      return unary<T>(in, n, out, [](T a) { return std::log(a); }), true;
    case Op::kTanhF:
      return unary<T>(in, n, out, [](T a) { return std::tanh(a); }), true;
    case Op::kCosF:
      return unary<T>(in, n, out, [](T a) { return std::cos(a); }), true;
    case Op::kSinF:
      return unary<T>(in, n, out, [](T a) { return std::sin(a); }), true;
    case Op::kErfF:
      return unary<T>(in, n, out, [](T a) { return std::erf(a); }), true;
    default:
      return false;
  }
}

// A bool is 0 or 1 in a byte.
template <typename T>
T kept(T value, bool is_bool) {
  return is_bool ? static_cast<T>(value & 1) : value;
}

template <typename T>
void compute_integer(Op op, bool is_bool, const Lanes* in, int64_t n, void* out) {
  using S = std::make_signed_t<T>;
  constexpr T width = sizeof(T) * 8;
  auto with_sign = [is_bool](T value) { return is_bool ? static_cast<S>(-static_cast<S>(value & 1)) : static_cast<S>(value); };
  auto wide = [](T value) { return static_cast<uint64_t>(value); };
  switch (op) {
    case Op::kAddI:
      return binary<T>(in, n, out, [=](T a, T b) { return kept(static_cast<T>(wide(a) + wide(b)), is_bool); });
    case Op::kSubI:
      return binary<T>(in, n, out, [=](T a, T b) { return kept(static_cast<T>(wide(a) - wide(b)), is_bool); });
    case Op::kMulI:
      return binary<T>(in, n, out, [=](T a, T b) { return kept(static_cast<T>(wide(a) * wide(b)), is_bool); });
    case Op::kDivSI:
      return binary<T>(in, n, out, [=](T a, T b) {
        const S x = with_sign(a), y = with_sign(b);
        return b == 0 ? T{0} : y == -1 ? kept(static_cast<T>(0 - wide(static_cast<T>(x))), is_bool) : kept(static_cast<T>(x / y), is_bool);
      });
    case Op::kRemSI:
      return binary<T>(in, n, out, [=](T a, T b) {
        const S x = with_sign(a), y = with_sign(b);
        return b == 0 || y == -1 ? T{0} : kept(static_cast<T>(x % y), is_bool);
      });
    case Op::kDivUI:
      return binary<T>(in, n, out, [](T a, T b) { return b == 0 ? T{0} : static_cast<T>(a / b); });
    case Op::kRemUI:
      return binary<T>(in, n, out, [](T a, T b) { return b == 0 ? T{0} : static_cast<T>(a % b); });
    case Op::kMaxSI:
      return binary<T>(in, n, out, [=](T a, T b) { return with_sign(a) > with_sign(b) ? a : b; });
    case Op::kMinSI:
      return binary<T>(in, n, out, [=](T a, T b) { return with_sign(a) < with_sign(b) ? a : b; });
    case Op::kMaxUI:
      return binary<T>(in, n, out, [](T a, T b) { return a > b ? a : b; });
    case Op::kMinUI:
      return binary<T>(in, n, out, [](T a, T b) { return a < b ? a : b; });
    case Op::kAndI:
      return binary<T>(in, n, out, [](T a, T b) { return a & b; });
    case Op::kOrI:
      return binary<T>(in, n, out, [](T a, T b) { return a | b; });
    case Op::kXOrI:
      return binary<T>(in, n, out, [](T a, T b) { return a ^ b; });
    case Op::kShlI:
      return binary<T>(in, n, out, [=](T a, T b) { return b >= (is_bool ? T{1} : width) ? T{0} : static_cast<T>(wide(a) << b); });
    case Op::kShrUI:
      return binary<T>(in, n, out, [=](T a, T b) { return b >= (is_bool ? T{1} : width) ? T{0} : static_cast<T>(a >> b); });
    case Op::kShrSI:
      return binary<T>(in, n, out, [=](T a, T b) {
        const S x = with_sign(a);
        return kept(static_cast<T>(b >= width ? (x < 0 ? S{-1} : S{0}) : static_cast<S>(x >> b)), is_bool);
      });
    default:
      return;
  }
}

template <typename T>
void compare_floats(Predicate predicate, const Lanes* in, int64_t n, void* out) {
  auto with = [&](auto function) { binary<T, uint8_t>(in, n, out, function); };
  auto unordered = [](T a, T b) { return a != a || b != b; };
  switch (predicate) {
    case Predicate::kEqual:
      return with([](T a, T b) { return a == b; });
    case Predicate::kNotEqual:
      return with([](T a, T b) { return a < b || a > b; });
    case Predicate::kLess:
      return with([](T a, T b) { return a < b; });
    case Predicate::kLessEqual:
      return with([](T a, T b) { return a <= b; });
    case Predicate::kGreater:
      return with([](T a, T b) { return a > b; });
    case Predicate::kGreaterEqual:
      return with([](T a, T b) { return a >= b; });
    case Predicate::kUnordered:
      return with([=](T a, T b) { return unordered(a, b); });
    case Predicate::kOrdered:
      return with([=](T a, T b) { return !unordered(a, b); });
    case Predicate::kOrEqual:
      return with([](T a, T b) { return !(a < b || a > b); });
    case Predicate::kOrNotEqual:
      return with([](T a, T b) { return !(a == b); });
    case Predicate::kOrLess:
      return with([](T a, T b) { return !(a >= b); });
    case Predicate::kOrLessEqual:
      return with([](T a, T b) { return !(a > b); });
    case Predicate::kOrGreater:
      return with([](T a, T b) { return !(a <= b); });
    default:
      return with([](T a, T b) { return !(a < b); });
  }
}

template <typename T>
void compare_integers(Predicate predicate, bool is_bool, const Lanes* in, int64_t n, void* out) {
  using S = std::make_signed_t<T>;
  auto with_sign = [is_bool](T value) { return is_bool ? static_cast<S>(-static_cast<S>(value & 1)) : static_cast<S>(value); };
  auto with = [&](auto function) { binary<T, uint8_t>(in, n, out, function); };
  switch (predicate) {
    case Predicate::kEqual:
      return with([](T a, T b) { return a == b; });
    case Predicate::kNotEqual:
      return with([](T a, T b) { return a != b; });
    case Predicate::kLess:
      return with([=](T a, T b) { return with_sign(a) < with_sign(b); });
    case Predicate::kLessEqual:
      return with([=](T a, T b) { return with_sign(a) <= with_sign(b); });
    case Predicate::kGreater:
      return with([=](T a, T b) { return with_sign(a) > with_sign(b); });
    case Predicate::kGreaterEqual:
      return with([=](T a, T b) { return with_sign(a) >= with_sign(b); });
    case Predicate::kBelow:
      return with([](T a, T b) { return a < b; });
    case Predicate::kBelowEqual:
      return with([](T a, T b) { return a <= b; });
    case Predicate::kAbove:
      return with([](T a, T b) { return a > b; });
    default:
      return with([](T a, T b) { return a >= b; });
  }
}

void convert_float(Scalar from, Scalar to, const Lanes* in, int64_t n, void* out) {
  auto each = [&](auto read, auto in_memory) {
    using T = decltype(in_memory);
    auto with = [&](auto write) { unary<T, decltype(write(0.0f))>(in, n, out, [=](T value) { return write(read(value)); }); };
    switch (to) {
      case Scalar::kF16:
        return with([](auto value) { return f16_of_f32(static_cast<float>(value)); });
      case Scalar::kBf16:
        return with([](auto value) { return bf16_of_f32(static_cast<float>(value)); });
      case Scalar::kF32:
        return unary<T, float>(in, n, out, [=](T value) { return static_cast<float>(read(value)); });
      default:
        return unary<T, double>(in, n, out, [=](T value) { return static_cast<double>(read(value)); });
    }
  };
  switch (from) {
    case Scalar::kF16:
      return each(f32_of_f16, uint16_t{});
    case Scalar::kBf16:
      return each(f32_of_bf16, uint16_t{});
    case Scalar::kF32:
      return each([](float value) { return value; }, float{});
    default:
      return each([](double value) { return value; }, double{});
  }
}

// The nearest value that the type has; NaN becomes 0.
template <typename R, typename T>
R saturated(T value) {
  constexpr T low = static_cast<T>(std::numeric_limits<R>::min());
  constexpr T beyond = std::numeric_limits<R>::max() == std::numeric_limits<int64_t>::max() ? T{0x1p63}
                       : std::numeric_limits<R>::max() == std::numeric_limits<uint64_t>::max()
                           ? T{0x1p64}
                           : static_cast<T>(std::numeric_limits<R>::max()) + 1;
  if (!(value == value)) return 0;
  const T whole = std::trunc(value);
  if (whole < low) return std::numeric_limits<R>::min();
  if (whole >= beyond) return std::numeric_limits<R>::max();
  return static_cast<R>(whole);
}

void convert_integer(const Instruction& at, Scalar from, const Lanes* in, int64_t n, void* out) {
  const bool of_bool = from == Scalar::kI1, to_bool = at.type == Scalar::kI1;
  with_integer(from, [&](auto sample) {
    using T = decltype(sample);
    using S = std::make_signed_t<T>;
    auto with_sign = [of_bool](T value) { return of_bool ? static_cast<S>(-static_cast<S>(value & 1)) : static_cast<S>(value); };
    if (at.op == Op::kSIToF) return with_float(at.type, [&](auto to) { unary<T, decltype(to)>(in, n, out, with_sign); });
    if (at.op == Op::kUIToF)
      return with_float(at.type, [&](auto to) { unary<T, decltype(to)>(in, n, out, [](T value) { return value; }); });
    with_integer(at.type, [&](auto to) {
      using R = decltype(to);
      if (at.op == Op::kExtSI) return unary<T, R>(in, n, out, [=](T value) { return static_cast<R>(with_sign(value)); });
      unary<T, R>(in, n, out, [=](T value) { return kept(static_cast<R>(value), to_bool); });
    });
  });
}

void to_integer(const Instruction& at, Scalar from, const Lanes* in, int64_t n, void* out) {
  with_float(from, [&](auto sample) {
    using T = decltype(sample);
    with_integer(at.type, [&](auto to) {
      using R = decltype(to);
      using S = std::make_signed_t<R>;
      const bool to_bool = at.type == Scalar::kI1;
      if (at.op == Op::kFToUI) return unary<T, R>(in, n, out, [=](T value) { return kept(saturated<R>(value), to_bool); });
      unary<T, R>(in, n, out, [=](T value) { return kept(static_cast<R>(saturated<S>(value)), to_bool); });
    });
  });
}

template <typename T>
void select(const Lanes* in, int64_t n, void* out) {
  const auto* which = static_cast<const uint8_t*>(in[0].data);
  const T* a = static_cast<const T*>(in[1].data);
  const T* b = static_cast<const T*>(in[2].data);
  T* r = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) {
    const T mask = static_cast<T>(T{0} - static_cast<T>(which[i] != 0));  // a branch would be mispredicted as often as signs change
    r[i] = static_cast<T>((a[i] & mask) | (b[i] & static_cast<T>(~mask)));
  }
}

}  // namespace

void compute(const Instruction& at, Scalar from, const Lanes* in, int64_t n, void* out) {
  if (at.op >= Op::kAddF && at.op <= Op::kErfF) {
    at.type == Scalar::kF64 ? compute_float<double>(at.op, in, n, out) : compute_float<float>(at.op, in, n, out);
    return;
  }
  if (at.op >= Op::kAddI && at.op <= Op::kShrSI)
    return with_integer(at.type, [&](auto sample) { compute_integer<decltype(sample)>(at.op, at.type == Scalar::kI1, in, n, out); });
  const auto predicate = static_cast<Predicate>(at.value);
  switch (at.op) {
    case Op::kConstant:
      std::memcpy(out, &at.value, bytes_of(at.type));
      return;
    case Op::kCompareF:
      return with_float(from, [&](auto sample) { compare_floats<decltype(sample)>(predicate, in, n, out); });
    case Op::kCompareI:
      return with_integer(from, [&](auto sample) { compare_integers<decltype(sample)>(predicate, from == Scalar::kI1, in, n, out); });
    case Op::kSelect:
      return with_bits(at.type, [&](auto sample) { select<decltype(sample)>(in, n, out); });
    case Op::kExtF:
    case Op::kTruncF:
      return convert_float(from, at.type, in, n, out);
    case Op::kExtSI:
    case Op::kExtUI:
    case Op::kTruncI:
    case Op::kSIToF:
    case Op::kUIToF:
      return convert_integer(at, from, in, n, out);
    case Op::kFToSI:
    case Op::kFToUI:
      return to_integer(at, from, in, n, out);
    case Op::kBitcast:
      std::memcpy(out, in[0].data, static_cast<size_t>(n) * bytes_of(at.type));
      return;
    default:
      return;
  }
}

void spread(Scalar type, const void* value, int64_t count, void* out) {
  with_bits(type, [&](auto sample) {
    using T = decltype(sample);
    const T one = *static_cast<const T*>(value);
    std::fill_n(static_cast<T*>(out), count, one);
  });
}

}  // namespace heddle::sdk::portable
