// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See terms.h. The form of instructions; term_numbers.cpp has their results on numbers.
#include <algorithm>

#include "terms.h"

namespace heddle::sdk::portable {

namespace {

bool commutes(Op op) {
  switch (op) {
    case Op::kAddF:
    case Op::kMulF:
    case Op::kMaximumF:
    case Op::kMinimumF:
    case Op::kAddI:
    case Op::kMulI:
    case Op::kMaxSI:
    case Op::kMinSI:
    case Op::kMaxUI:
    case Op::kMinUI:
    case Op::kAndI:
    case Op::kOrI:
    case Op::kXOrI:
      return true;
    default:
      return false;
  }
}

}  // namespace

// Comparisons of indices are conditions on their difference.
TermId Terms::compare_integers(Predicate predicate, TermId a, TermId b) {
  const Term &x = terms_[a], &y = terms_[b];
  if (x.type != Scalar::kI64 || !is_near(x.low, x.high) || !is_near(y.low, y.high)) return kNoTerm;
  switch (predicate) {
    case Predicate::kLess:
      return not_negative(plus(sub(b, a), -1));
    case Predicate::kLessEqual:
      return not_negative(sub(b, a));
    case Predicate::kGreater:
      return not_negative(plus(sub(a, b), -1));
    case Predicate::kGreaterEqual:
      return not_negative(sub(a, b));
    default:
      return kNoTerm;
  }
}

// What an instruction on such operands is, if that is something simpler; else they may change their order.
bool Terms::fold(Op op, Scalar type, std::vector<TermId>& args, uint64_t& value, TermId* out) {
  auto give = [&](TermId term) {
    *out = term;
    return term != kNoTerm;
  };
  const bool is_index = type == Scalar::kI64;
  int64_t number = 0;
  auto is_number = [&](size_t i, double expected) {
    uint64_t bits;
    return is_constant(args[i], &bits) && bits == bits_of_number(type, {expected, static_cast<uint64_t>(static_cast<int64_t>(expected))});
  };
  if (op == Op::kCompareF || op == Op::kCompareI) {
    auto p = static_cast<Predicate>(value);
    // Predicates come in pairs, of which the one with "less" stays.
    auto swap = [&](Predicate from, Predicate to) {
      if (p != from) return false;
      std::swap(args[0], args[1]);
      p = to;
      return true;
    };
    (void)(swap(Predicate::kGreater, Predicate::kLess) || swap(Predicate::kGreaterEqual, Predicate::kLessEqual) ||
           swap(Predicate::kOrGreater, Predicate::kOrLess) || swap(Predicate::kOrGreaterEqual, Predicate::kOrLessEqual) ||
           swap(Predicate::kAbove, Predicate::kBelow) || swap(Predicate::kAboveEqual, Predicate::kBelowEqual));
    const bool is_symmetric = p == Predicate::kEqual || p == Predicate::kNotEqual || p == Predicate::kUnordered ||
                              p == Predicate::kOrdered || p == Predicate::kOrEqual || p == Predicate::kOrNotEqual;
    if (is_symmetric && args[0] > args[1]) std::swap(args[0], args[1]);
    value = static_cast<uint64_t>(p);
    for (size_t i = 0; i < 2 && op == Op::kCompareI && terms_[args[0]].type == Scalar::kI1; ++i) {
      uint64_t bits;
      if (is_constant(args[i], &bits) && p == (bits ? Predicate::kEqual : Predicate::kNotEqual)) return give(args[1 - i]);
    }
    for (size_t i = 0; i < 2 && op == Op::kCompareI && p == Predicate::kNotEqual; ++i) {
      uint64_t bits = 1;
      const Term& other = terms_[args[1 - i]];
      const bool is_wide = other.is(Term::kInstruction, Op::kExtUI) || other.is(Term::kInstruction, Op::kExtSI);
      if (is_constant(args[i], &bits) && bits == 0 && is_wide && terms_[other.args[0]].type == Scalar::kI1) return give(other.args[0]);
    }
    if (op == Op::kCompareI) return give(compare_integers(p, args[0], args[1]));
    return false;
  }
  if (commutes(op) && args[0] > args[1]) std::swap(args[0], args[1]);
  switch (op) {
    case Op::kAddI:
      if (is_index) return give(add(args[0], args[1]));
      if (is_number(0, 0)) return give(args[1]);
      return is_number(1, 0) && give(args[0]);
    case Op::kSubI:
      if (is_index) return give(sub(args[0], args[1]));
      return is_number(1, 0) && give(args[0]);
    case Op::kMulI:
      if (is_index && is_constant(args[0], &number)) return give(scale(args[1], number));
      if (is_index && is_constant(args[1], &number)) return give(scale(args[0], number));
      if (is_number(0, 1)) return give(args[1]);
      return is_number(1, 1) && give(args[0]);
    case Op::kDivSI:
    case Op::kRemSI: {
      const Term& x = terms_[args[0]];
      if (!is_index || !is_constant(args[1], &number) || number <= 0 || x.low < 0 || !is_near(x.low, x.high)) return false;
      return give(op == Op::kDivSI ? floor_div(args[0], number) : mod(args[0], number));
    }
    case Op::kMaxSI:
    case Op::kMinSI: {
      if (args[0] == args[1]) return give(args[0]);
      const Term &x = terms_[args[0]], &y = terms_[args[1]];
      if (!is_index) return false;
      if (x.low >= y.high) return give(op == Op::kMaxSI ? args[0] : args[1]);
      return y.low >= x.high && give(op == Op::kMaxSI ? args[1] : args[0]);
    }
    case Op::kAndI:
      if (type == Scalar::kI1) return give(all(args));
      if (args[0] == args[1] || is_number(0, 0)) return give(args[0]);
      return is_number(1, 0) && give(args[1]);
    case Op::kOrI:
      if (args[0] == args[1] || is_number(1, 0)) return give(args[0]);
      return is_number(0, 0) && give(args[1]);
    case Op::kXOrI: {
      for (size_t i = 0; i < 2; ++i) {
        if (is_number(i, 0)) return give(args[1 - i]);
      }
      if (type != Scalar::kI1) return false;
      for (size_t i = 0; i < 2; ++i) {
        const Term& other = terms_[args[1 - i]];
        if (!is_number(i, 1) || other.kind != Term::kNotNegative) continue;
        return give(not_negative(plus(scale(other.args[0], -1), -1)));
      }
      return false;
    }
    case Op::kAddF:
      if (is_number(0, -0.0)) return give(args[1]);
      return is_number(1, -0.0) && give(args[0]);
    case Op::kSubF:
      return is_number(1, 0.0) && give(args[0]);
    case Op::kMulF:
      if (is_number(0, 1)) return give(args[1]);
      return is_number(1, 1) && give(args[0]);
    case Op::kDivF:
      return is_number(1, 1) && give(args[0]);
    case Op::kMaximumF:
    case Op::kMinimumF:
      return args[0] == args[1] && give(args[0]);
    case Op::kExtF:
    case Op::kExtSI:
    case Op::kExtUI: {
      // Beside a constant, as around a padded value.
      const Term& x = terms_[args[0]];
      if (!x.is(Term::kInstruction, Op::kSelect) || !(is_constant(x.args[1]) || is_constant(x.args[2]))) return false;
      const std::vector<TermId> parts = x.args;
      return give(select(parts[0], instruction(op, type, {parts[1]}), instruction(op, type, {parts[2]})));
    }
    case Op::kNegF:
      return terms_[args[0]].is(Term::kInstruction, Op::kNegF) && give(terms_[args[0]].args[0]);
    case Op::kSelect: {
      uint64_t bits;
      if (is_constant(args[0], &bits)) return give(bits ? args[1] : args[2]);
      return args[1] == args[2] && give(args[1]);
    }
    case Op::kTruncF:
    case Op::kTruncI: {
      const Term& x = terms_[args[0]];
      const bool was_extended = op == Op::kTruncF ? x.is(Term::kInstruction, Op::kExtF)
                                                  : x.is(Term::kInstruction, Op::kExtSI) || x.is(Term::kInstruction, Op::kExtUI);
      return was_extended && terms_[x.args[0]].type == type && give(x.args[0]);
    }
    case Op::kBitcast:
      return terms_[args[0]].type == type && give(args[0]);
    default:
      return false;
  }
}

TermId Terms::instruction(Op op, Scalar type, const std::vector<TermId>& operands, uint64_t value) {
  if (op == Op::kConstant) return constant(type, value);
  std::vector<TermId> args = operands;
  TermId simpler;
  if (fold(op, type, args, value, &simpler)) {
    work(1);
    return simpler;
  }
  uint64_t own = 0;
  if (op == Op::kBitcast && is_constant(args[0], &own)) return constant(type, own);  // a NaN keeps its bits
  Number numbers[3];
  Scalar types[3];
  bool are_constant = true;
  for (size_t i = 0; i < args.size(); ++i) {
    uint64_t bits = 0;
    types[i] = terms_[args[i]].type;
    are_constant &= is_constant(args[i], &bits);
    numbers[i] = number_of_bits(types[i], bits);
  }
  if (are_constant) return constant(type, bits_of_number(type, compute(op, type, value, types, numbers)));
  Term term = {Term::kInstruction, op, type, {}, std::move(args)};
  if (has_value(op)) term.data.push_back(static_cast<int64_t>(value));
  return intern(std::move(term));
}

}  // namespace heddle::sdk::portable
