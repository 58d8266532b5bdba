// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See terms_of_names.h. Numbers that are stored as bits: floats of 8 and 4 bits, and rows in blocks.
#include <cmath>
#include <string>

#include "terms_of_names.h"

namespace heddle::sdk::portable {

namespace {

constexpr uint32_t kInfinity = 0x7F800000, kNan = 0x7FC00000, kMagnitude = 0x7FFFFFFF;  // of f32
constexpr int kMantissaBits = 23, kBias = 127;

struct Format {
  const char* name;
  int exponent_bits, mantissa_bits, bias;
  uint32_t largest, infinity, nan;  // bits; 0: there is none
  bool nan_replaces_zero;           // NaN is in the place of -0
};
constexpr Format kFormats[] = {
    {"f8e4m3", 4, 3, 7, 0x7E, 0, 0x7F, false},     {"f8e4m3fnuz", 4, 3, 8, 0x7F, 0, 0x80, true},
    {"f8e5m2", 5, 2, 15, 0x7B, 0x7C, 0x7E, false}, {"f8e5m2fnuz", 5, 2, 16, 0x7F, 0, 0x80, true},
    {"f8e8m0", 8, 0, 127, 0xFE, 0, 0xFF, false},   {"f4e2m1", 2, 1, 1, 0x7, 0, 0, false},
};

const Format& format_of(const NamedOp& op) {
  const std::string name = text_of(op, "format");
  for (const Format& format : kFormats) {
    if (name == format.name) return format;
  }
  throw Disagreement{"there is no format '" + name + "'"};
}

// Arithmetic on i32.
struct Bits {
  Terms& terms;

  TermId number(uint32_t value) { return terms.constant(Scalar::kI32, value); }
  TermId make(Op op, TermId a, TermId b) { return terms.instruction(op, Scalar::kI32, {a, b}); }
  TermId both(TermId a, uint32_t mask) { return make(Op::kAndI, a, number(mask)); }
  TermId either(TermId a, TermId b) { return make(Op::kOrI, a, b); }
  TermId up(TermId a, int by) { return by == 0 ? a : make(Op::kShlI, a, number(static_cast<uint32_t>(by))); }
  TermId down(TermId a, int by) { return by == 0 ? a : make(Op::kShrUI, a, number(static_cast<uint32_t>(by))); }
  TermId sum(TermId a, TermId b) { return make(Op::kAddI, a, b); }
  TermId is(Predicate predicate, TermId a, uint32_t b) { return terms.compare(Op::kCompareI, predicate, a, number(b)); }
  TermId below(TermId a, uint32_t b) { return is(Predicate::kBelow, a, b); }
  TermId above(TermId a, uint32_t b) { return is(Predicate::kAbove, a, b); }
  TermId equal(TermId a, uint32_t b) { return is(Predicate::kEqual, a, b); }
  TermId choose(TermId condition, TermId a, TermId b) { return terms.select(condition, a, b); }
  TermId of_float(TermId a) { return terms.instruction(Op::kBitcast, Scalar::kI32, {a}); }
  TermId to_float(TermId a) { return terms.instruction(Op::kBitcast, Scalar::kF32, {a}); }
  TermId scaled(TermId a, int power) {
    return terms.instruction(Op::kMulF, Scalar::kF32, {a, terms.real(Scalar::kF32, std::ldexp(1.0, power))});
  }
};

}  // namespace

TermId NameTerms::narrow_decode(const NamedOp& op, TermId x) {
  const Format& format = format_of(op);
  Bits k{terms_};
  const TermId v = terms_.instruction(Op::kExtUI, Scalar::kI32, {x});
  if (format.exponent_bits == 8) {
    const TermId bits = k.choose(k.equal(v, 0), k.number(0x00400000), k.up(v, kMantissaBits));
    return k.to_float(k.choose(k.equal(v, 0xFF), k.number(kNan), bits));
  }
  const int sign_at = format.exponent_bits + format.mantissa_bits;
  const TermId magnitude = k.both(v, (1u << sign_at) - 1);
  const TermId normal =
      k.sum(k.up(magnitude, kMantissaBits - format.mantissa_bits), k.number(static_cast<uint32_t>(kBias - format.bias) << kMantissaBits));
  TermId small = terms_.instruction(Op::kSIToF, Scalar::kF32, {magnitude});
  small = k.of_float(k.scaled(small, 1 - format.bias - format.mantissa_bits));
  TermId bits = k.choose(k.below(magnitude, 1u << format.mantissa_bits), small, normal);
  if (format.infinity != 0) {
    const TermId special = k.choose(k.equal(magnitude, format.infinity), k.number(kInfinity), k.number(kNan));
    bits = k.choose(k.below(magnitude, format.infinity), bits, special);
  } else if (format.nan != 0 && !format.nan_replaces_zero) {
    bits = k.choose(k.equal(magnitude, format.nan), k.number(kNan), bits);
  }
  bits = k.either(bits, k.up(k.down(v, sign_at), 31));
  if (format.nan_replaces_zero) bits = k.choose(k.equal(v, format.nan), k.number(kNan), bits);
  return k.to_float(bits);
}

TermId NameTerms::narrow_encode(const NamedOp& op, TermId x) {
  const Format& format = format_of(op);
  const bool saturates = flag_of(op, "saturate");
  Bits k{terms_};
  const TermId bits = k.of_float(x), magnitude = k.both(bits, kMagnitude);
  TermId is_nan = k.above(magnitude, kInfinity);
  auto stored = [&](TermId code) { return terms_.instruction(Op::kTruncI, Scalar::kI8, {code}); };
  if (format.exponent_bits == 8) {
    std::string round = text_of(op, "round");
    if (round.empty()) round = "up";
    if (round != "up" && round != "down" && round != "nearest") throw Disagreement{"there is no rounding '" + round + "'"};
    TermId code = k.down(magnitude, kMantissaBits);
    if (round != "down") {
      // Below 2^-126 the numbers to choose from are 0x400000 and 0x800000.
      const bool is_up = round == "up";
      const TermId least = k.choose(k.equal(code, 0), k.number(is_up ? 0x400001 : 0x600000), k.number(is_up ? 1 : 0x400000));
      const TermId next = terms_.compare(Op::kCompareI, Predicate::kAboveEqual, k.both(magnitude, 0x7FFFFF), least);
      code = k.sum(code, terms_.instruction(Op::kExtUI, Scalar::kI32, {next}));
    }
    code = saturates ? k.make(Op::kMinUI, code, k.number(0xFE)) : k.choose(k.below(magnitude, 0x00400000), k.number(0xFF), code);
    return stored(k.choose(is_nan, k.number(0xFF), code));
  }
  const int drop = kMantissaBits - format.mantissa_bits, sign_at = format.exponent_bits + format.mantissa_bits;
  const TermId odd = k.both(k.down(magnitude, drop), 1);
  TermId normal = k.down(k.sum(k.sum(magnitude, odd), k.number((1u << (drop - 1)) - 1)), drop);
  normal = k.sum(normal, k.number(0u - (static_cast<uint32_t>(kBias - format.bias) << format.mantissa_bits)));
  const TermId is_small = k.below(magnitude, static_cast<uint32_t>(kBias + 1 - format.bias) << kMantissaBits);
  TermId small = k.to_float(k.choose(is_small, magnitude, k.number(0)));
  small = terms_.instruction(Op::kRoundEvenF, Scalar::kF32, {k.scaled(small, format.bias - 1 + format.mantissa_bits)});
  TermId code = k.choose(is_small, terms_.instruction(Op::kFToSI, Scalar::kI32, {small}), normal);
  const bool is_bounded = saturates || (format.infinity == 0 && format.nan == 0);
  const TermId is_large = k.above(code, format.largest);
  code = k.choose(is_large, k.number(is_bounded ? format.largest : format.infinity != 0 ? format.infinity : format.nan), code);
  const TermId sign = k.up(k.down(bits, 31), sign_at);
  if (format.nan_replaces_zero) {
    code = k.choose(k.equal(code, 0), code, k.either(code, sign));
    if (!is_bounded) is_nan = terms_.instruction(Op::kOrI, Scalar::kI1, {is_nan, is_large});
    code = k.choose(is_nan, k.number(format.nan), code);
  } else if (format.nan == 0) {
    code = k.choose(is_nan, k.number(1u << sign_at), k.either(code, sign));
  } else {
    code = k.either(k.choose(is_nan, k.number(format.nan), code), sign);
  }
  return stored(code);
}

// The value, an f32, at a place of a matrix whose rows are stored in blocks of this type.
TermId NameTerms::block_element(uint32_t value, const std::string& type, TermIds at, uint32_t depth) {
  Bits k{terms_};
  const TermId column = at.back();
  at.pop_back();
  int64_t elements = 0, bytes = 0;
  auto read = [&](TermId byte) {
    TermIds place = at;
    place.push_back(byte);
    return element(value, place, depth);
  };
  auto whole = [&](int64_t byte) { return terms_.plus(terms_.scale(terms_.floor_div(column, elements), bytes), byte); };
  auto part_of = [&](int64_t size, int64_t count) {
    return terms_.sub(terms_.floor_div(column, size), terms_.scale(terms_.floor_div(column, size * count), count));
  };
  auto byte_at = [&](TermId byte) { return terms_.instruction(Op::kExtUI, Scalar::kI32, {read(byte)}); };
  auto signed_at = [&](TermId byte) { return terms_.instruction(Op::kExtSI, Scalar::kI32, {read(byte)}); };
  auto computed = [&](TermId index) { return terms_.instruction(Op::kTruncI, Scalar::kI32, {index}); };
  auto times = [&](TermId a, uint32_t by) { return k.make(Op::kMulI, a, k.number(by)); };
  auto less = [&](TermId a, uint32_t by) { return k.make(Op::kSubI, a, k.number(by)); };
  auto to_real = [&](TermId a) { return terms_.instruction(Op::kSIToF, Scalar::kF32, {a}); };
  auto mul = [&](TermId a, TermId b) { return terms_.instruction(Op::kMulF, Scalar::kF32, {a, b}); };
  auto half_at = [&](TermId byte) {
    auto wide = [&](TermId place) { return terms_.instruction(Op::kExtUI, Scalar::kI16, {read(place)}); };
    const TermId high = terms_.instruction(Op::kShlI, Scalar::kI16, {wide(terms_.plus(byte, 1)), terms_.constant(Scalar::kI16, 8)});
    const TermId both = terms_.instruction(Op::kOrI, Scalar::kI16, {wide(byte), high});
    return terms_.instruction(Op::kExtF, Scalar::kF32, {terms_.instruction(Op::kBitcast, Scalar::kF16, {both})});
  };
  // The low half of a byte, or the high one if `half` is 1.
  auto nibble = [&](TermId byte, TermId half) { return k.both(k.make(Op::kShrUI, byte_at(byte), times(computed(half), 4)), 15); };
  auto in = [&](int64_t count) { return terms_.mod(column, count); };

  if (type == "Q4_0" || type == "Q8_0") {
    elements = 32;
    bytes = type == "Q4_0" ? 18 : 34;
    if (type == "Q8_0") return mul(to_real(signed_at(terms_.add(whole(2), in(32)))), half_at(whole(0)));
    return mul(to_real(less(nibble(terms_.add(whole(2), in(16)), part_of(16, 2)), 8)), half_at(whole(0)));
  }
  if (type == "Q6_K") {
    elements = 256;
    bytes = 210;
    const TermId by = mul(half_at(whole(208)), to_real(signed_at(terms_.add(whole(192), part_of(16, 16)))));
    auto place = [&](int64_t first, int64_t step) {
      return terms_.add(terms_.add(whole(first), terms_.scale(part_of(128, 2), step)), in(32));
    };
    const TermId low = nibble(terms_.add(place(0, 64), terms_.scale(part_of(32, 2), 32)), part_of(64, 2));
    TermId high = byte_at(place(128, 32));
    high = k.both(k.make(Op::kShrUI, high, times(computed(part_of(32, 4)), 2)), 3);
    return mul(by, to_real(less(k.either(low, k.up(high, 4)), 32)));
  }
  if (type == "Q4_K" || type == "Q5_K") {
    elements = 256;
    const bool has_high_bits = type == "Q5_K";
    bytes = has_high_bits ? 176 : 144;
    // Scale (0) or minimum (4) of 32 values, of 6 bits.
    auto packed = [&](int64_t which) {
      const TermId quarter = part_of(32, 4), own = byte_at(terms_.add(whole(4 + which), quarter)),
                   others = byte_at(terms_.add(whole(12), quarter));
      const TermId low = k.both(which == 0 ? others : k.down(others, 4), 15);
      const TermId late = k.either(low, k.up(k.down(own, 6), 4));
      const TermId is_late = terms_.compare(Op::kCompareI, Predicate::kNotEqual, computed(part_of(128, 2)), k.number(0));
      return k.choose(is_late, late, k.both(own, 63));
    };
    const TermId by = mul(half_at(whole(0)), to_real(packed(0))), minimum = mul(half_at(whole(2)), to_real(packed(4)));
    const TermId place = terms_.add(terms_.add(whole(has_high_bits ? 48 : 16), terms_.scale(part_of(64, 4), 32)), in(32));
    TermId q = nibble(place, part_of(32, 2));
    if (has_high_bits) {
      const TermId bit = k.both(k.make(Op::kShrUI, byte_at(terms_.add(whole(16), in(32))), computed(part_of(32, 8))), 1);
      q = k.either(q, k.up(bit, 4));
    }
    return terms_.instruction(Op::kSubF, Scalar::kF32, {mul(by, to_real(q)), minimum});
  }
  throw Unknown{"the library does not know blocks of type '" + type + "'"};
}

}  // namespace heddle::sdk::portable
