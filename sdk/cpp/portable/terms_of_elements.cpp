// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See terms_of_names.h. Ops on elements that are at the same place.
#include <cmath>
#include <limits>

#include "terms_of_names.h"

namespace heddle::sdk::portable {

TermId NameTerms::compare(const std::string& kind, TermId a, TermId b, bool no_sign) {
  using P = Predicate;
  static const std::map<std::string_view, std::array<Predicate, 3>> kPredicatesOf = {
      {"eq", {P::kEqual, P::kEqual, P::kEqual}},     {"ne", {P::kOrNotEqual, P::kNotEqual, P::kNotEqual}},
      {"lt", {P::kLess, P::kLess, P::kBelow}},       {"le", {P::kLessEqual, P::kLessEqual, P::kBelowEqual}},
      {"gt", {P::kGreater, P::kGreater, P::kAbove}}, {"ge", {P::kGreaterEqual, P::kGreaterEqual, P::kAboveEqual}},
  };
  const auto found = kPredicatesOf.find(kind);
  if (found == kPredicatesOf.end()) throw Disagreement{"there is no comparison '" + kind + "'"};
  const bool of_floats = is_float(terms_[a].type);
  return terms_.compare(of_floats ? Op::kCompareF : Op::kCompareI, found->second[of_floats ? 0 : no_sign ? 2 : 1], a, b);
}

TermId NameTerms::combined(const std::string& kind, TermId a, TermId b, bool no_sign) {
  const Scalar type = terms_[a].type;
  const bool real = is_float(type);
  if (kind == "sum" || kind == "mean") return terms_.instruction(real ? Op::kAddF : Op::kAddI, type, {a, b});
  if (kind == "prod") return terms_.instruction(real ? Op::kMulF : Op::kMulI, type, {a, b});
  if (kind == "max") return terms_.instruction(real ? Op::kMaximumF : no_sign ? Op::kMaxUI : Op::kMaxSI, type, {a, b});
  if (kind == "min") return terms_.instruction(real ? Op::kMinimumF : no_sign ? Op::kMinUI : Op::kMinSI, type, {a, b});
  throw Disagreement{"there is no reduction '" + kind + "'"};
}

TermId NameTerms::identity(const std::string& kind, Scalar type, bool no_sign) {
  if (kind != "max" && kind != "min") return terms_.real(type, kind == "prod" ? 1 : 0);
  const bool low = kind == "max";
  if (is_float(type)) return terms_.real(type, low ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity());
  const uint64_t top = uint64_t{1} << (width_of(type) - 1);
  return terms_.constant(type, no_sign ? (low ? 0 : ~uint64_t{0}) : low ? top : top - 1);
}

TermId NameTerms::divided(TermId a, TermId b, bool no_sign) {
  const Scalar type = terms_[a].type;
  const TermId zero = terms_.constant(type, 0), one = terms_.constant(type, 1);
  const TermId by_zero = terms_.compare(Op::kCompareI, Predicate::kEqual, b, zero);
  if (no_sign) return terms_.select(by_zero, zero, terms_.instruction(Op::kDivUI, type, {a, terms_.select(by_zero, one, b)}));
  const TermId minus = terms_.compare(Op::kCompareI, Predicate::kEqual, b, terms_.constant(type, ~uint64_t{0}));
  const TermId safe = terms_.select(terms_.instruction(Op::kOrI, Scalar::kI1, {by_zero, minus}), one, b);
  const TermId quotient =
      terms_.select(minus, terms_.instruction(Op::kSubI, type, {zero, a}), terms_.instruction(Op::kDivSI, type, {a, safe}));
  return terms_.select(by_zero, zero, quotient);
}

// Whole, half and quarter exponents up to 3 are products and square roots.
TermId NameTerms::power(TermId x, double exponent) {
  const Scalar type = terms_[x].type;
  const double quarters = std::fabs(exponent) * 4;
  if (quarters != std::floor(quarters) || quarters > 12) return terms_.instruction(Op::kPowF, type, {x, terms_.real(type, exponent)});
  const TermId one = terms_.real(type, 1);
  if (quarters == 0) return one;
  const int whole = static_cast<int>(quarters) / 4, rest = static_cast<int>(quarters) % 4;
  TermId result = kNoTerm;
  auto times = [&](TermId factor) { result = result == kNoTerm ? factor : terms_.instruction(Op::kMulF, type, {result, factor}); };
  for (int i = 0; i < whole; ++i) times(x);
  if (rest != 0) {
    const TermId root = terms_.instruction(Op::kSqrtF, type, {x});
    if (rest >= 2) times(root);
    if (rest % 2 == 1) times(terms_.instruction(Op::kSqrtF, type, {root}));
  }
  return exponent < 0 ? terms_.instruction(Op::kDivF, type, {one, result}) : result;
}

TermId NameTerms::cast(TermId x, heddle_element_type_t from, heddle_element_type_t to) {
  const TermId made = cast_as_computed(x, from, to);
  const Scalar stored = stored_as(to), computed = computed_as(to);
  if (stored == computed || !is_float(computed) || from == to) return made;
  return terms_.instruction(Op::kExtF, computed, {terms_.instruction(Op::kTruncF, stored, {made})});
}

TermId NameTerms::cast_as_computed(TermId x, heddle_element_type_t from, heddle_element_type_t to) {
  const Scalar source = computed_as(from), target = computed_as(to);
  auto make = [&](Op op) { return terms_.instruction(op, target, {x}); };
  if (is_float(source) && is_float(target)) return source == target ? x : make(source == Scalar::kF32 ? Op::kExtF : Op::kTruncF);
  if (is_float(target)) return make(is_unsigned(from) ? Op::kUIToF : Op::kSIToF);
  const TermId zero = terms_.real(source, 0);
  if (target == Scalar::kI1) {
    if (is_float(source)) return terms_.compare(Op::kCompareF, Predicate::kOrNotEqual, x, zero);
    return terms_.compare(Op::kCompareI, Predicate::kNotEqual, x, zero);
  }
  const uint32_t width = width_of(target);
  if (!is_float(source)) {
    if (width_of(source) == width) return x;
    return make(width_of(source) > width ? Op::kTruncI : is_unsigned(from) ? Op::kExtUI : Op::kExtSI);
  }
  // Saturating, by way of values that fit; NaN becomes 0.
  const bool no_sign = is_unsigned(to);
  const TermId low = terms_.real(source, no_sign ? 0 : -std::ldexp(1.0, static_cast<int>(width) - 1));
  const TermId beyond = terms_.real(source, std::ldexp(1.0, static_cast<int>(width) - (no_sign ? 0 : 1)));
  auto is = [&](Predicate predicate, TermId bound) { return terms_.compare(Op::kCompareF, predicate, x, bound); };
  const TermId safe = terms_.select(is(Predicate::kGreaterEqual, low), terms_.select(is(Predicate::kLess, beyond), x, zero), zero);
  const TermId converted = width < 32 ? terms_.instruction(Op::kTruncI, target, {terms_.instruction(Op::kFToSI, Scalar::kI32, {safe})})
                                      : terms_.instruction(no_sign ? Op::kFToUI : Op::kFToSI, target, {safe});
  const uint64_t top = uint64_t{1} << (width - 1);
  const TermId least = terms_.constant(target, no_sign ? 0 : top), most = terms_.constant(target, no_sign ? ~uint64_t{0} : top - 1);
  return terms_.select(is(Predicate::kGreaterEqual, beyond), most, terms_.select(is(Predicate::kLess, low), least, converted));
}

TermId NameTerms::bit_cast(TermId x, heddle_element_type_t from, heddle_element_type_t to) {
  const Scalar source = stored_as(from), target = stored_as(to), computed = computed_as(to);
  if (terms_[x].type != source) x = terms_.instruction(Op::kTruncF, source, {x});
  x = terms_.instruction(Op::kBitcast, target, {x});
  return computed == target ? x : terms_.instruction(Op::kExtF, computed, {x});
}

// Philox4x32-10, of which the first word is the result.
TermId NameTerms::random_bits(TermId index, TermId seed) {
  auto number = [&](uint32_t value) { return terms_.constant(Scalar::kI32, value); };
  auto low = [&](TermId value) { return terms_.instruction(Op::kTruncI, Scalar::kI32, {value}); };
  auto high = [&](TermId value) { return low(terms_.instruction(Op::kShrUI, Scalar::kI64, {value, terms_.integer(32)})); };
  auto wide = [&](TermId value) { return terms_.instruction(Op::kExtUI, Scalar::kI64, {value}); };
  auto mixed = [&](TermId a, TermId b) { return terms_.instruction(Op::kXOrI, Scalar::kI32, {a, b}); };
  auto product = [&](uint32_t factor, TermId value) {
    return terms_.instruction(Op::kMulI, Scalar::kI64, {wide(value), wide(number(factor))});
  };
  constexpr uint32_t kFactors[] = {0xD2511F53, 0xCD9E8D57}, kSteps[] = {0x9E3779B9, 0xBB67AE85};
  TermId words[] = {low(index), high(index), number(0), number(0)}, key[] = {low(seed), high(seed)};
  for (int round = 0; round < 10; ++round) {
    const TermId first = product(kFactors[0], words[0]), second = product(kFactors[1], words[2]);
    words[0] = mixed(mixed(high(second), words[1]), key[0]);
    words[1] = low(second);
    words[2] = mixed(mixed(high(first), words[3]), key[1]);
    words[3] = low(first);
    for (int i = 0; i < 2; ++i) key[i] = terms_.instruction(Op::kAddI, Scalar::kI32, {key[i], number(kSteps[i])});
  }
  return words[0];
}

TermId NameTerms::element_wise(const NamedOp& op, const Value& result, const TermIds& x) {
  const std::string& name = op.name;
  const heddle_element_type_t from = operand(op, 0).type;
  const bool no_sign = is_unsigned(from);
  const Scalar type = terms_[x[0]].type;
  const bool real = is_float(type);
  auto make = [&](Op what, const TermIds& args) { return terms_.instruction(what, type, args); };
  const TermId zero = terms_.real(type, 0);
  if (name == "cast") return cast(x[0], from, result.type);
  if (name == "bit_cast") return bit_cast(x[0], from, result.type);
  if (name == "select") return terms_.select(x[0], x[1], x[2]);
  if (name == "compare") return compare(text_of(op, "kind"), x[0], x[1], no_sign);
  if (name == "random_bits") return random_bits(x[0], x[1]);
  if (name == "narrow_decode") return narrow_decode(op, x[0]);
  if (name == "narrow_encode") return narrow_encode(op, x[0]);
  if (name == "bit_and") return make(Op::kAndI, x);
  if (name == "bit_or") return make(Op::kOrI, x);
  if (name == "bit_xor") return make(Op::kXOrI, x);
  if (name == "add") return make(real ? Op::kAddF : Op::kAddI, x);
  if (name == "sub") return make(real ? Op::kSubF : Op::kSubI, x);
  if (name == "mul") return make(real ? Op::kMulF : Op::kMulI, x);
  if (name == "div") return real ? make(Op::kDivF, x) : divided(x[0], x[1], no_sign);
  if (name == "max") return combined("max", x[0], x[1], no_sign);
  if (name == "min") return combined("min", x[0], x[1], no_sign);
  if (name == "neg") return real ? make(Op::kNegF, x) : make(Op::kSubI, {zero, x[0]});
  if (name == "abs") {
    if (real) return make(Op::kAbsF, x);
    return no_sign ? x[0] : make(Op::kMaxSI, {x[0], make(Op::kSubI, {zero, x[0]})});
  }
  if (name == "relu") {
    if (!real) return no_sign ? x[0] : make(Op::kMaxSI, {x[0], zero});
    return terms_.select(terms_.compare(Op::kCompareF, Predicate::kGreater, zero, x[0]), zero, x[0]);
  }
  if (name == "floor") return real ? make(Op::kFloorF, x) : x[0];
  if (name == "ceil") return real ? make(Op::kCeilF, x) : x[0];
  if (name == "round") return real ? make(Op::kRoundEvenF, x) : x[0];
  if (!real) throw Disagreement{"its operands are no floats"};
  const TermId one = terms_.real(type, 1);
  if (name == "exp") return make(Op::kExpF, x);
  if (name == "log") return make(Op::kLogF, x);
  if (name == "sqrt") return make(Op::kSqrtF, x);
  if (name == "tanh") return make(Op::kTanhF, x);
  if (name == "cos") return make(Op::kCosF, x);
  if (name == "sin") return make(Op::kSinF, x);
  if (name == "erf") return make(Op::kErfF, x);
  if (name == "rsqrt") return make(Op::kDivF, {one, make(Op::kSqrtF, x)});
  if (name == "reciprocal") return make(Op::kDivF, {one, x[0]});
  if (name == "sigmoid") return make(Op::kDivF, {one, make(Op::kAddF, {one, make(Op::kExpF, {make(Op::kSubF, {zero, x[0]})})})});
  if (name == "pow") {
    uint64_t bits;
    if (terms_.is_constant(x[1], &bits)) {
      const double exponent = number_of_bits(type, bits).real;
      if (exponent == std::floor(exponent) || exponent == 0.5) return power(x[0], exponent);
    }
    return make(Op::kPowF, x);
  }
  throw Unknown{"the library has no expansion of it"};
}

}  // namespace heddle::sdk::portable
