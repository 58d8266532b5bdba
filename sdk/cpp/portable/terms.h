// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an element of a tensor is computed from, as a term: an expression over the elements of a kernel's inputs and over indices, in which nothing is
// left of how a kernel is divided into nodes or into ops. Terms are kept in a form in which equal computations are one term as far as its rules go,
// so that comparing two is comparing their numbers. Used to compare the names of ops with nodes (names.h).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heddle/sdk/portable/code.h"

namespace heddle::sdk::portable {

using TermId = uint32_t;
inline constexpr TermId kNoTerm = UINT32_MAX;
inline constexpr uint32_t kNoOwner = UINT32_MAX;

// A comparison that cannot be made.
struct Unknown {
  std::string reason;
};

// Dimensions and arguments belong to a level: those of an element's own place to the first ones, those that a reduction or another binder
// introduces to the next ones. So the same computation has the same term wherever it is at the same depth.
struct Term {
  enum Kind : uint8_t {
    kInstruction,  // op, on args; data: value, if the op has one. Also constants
    kDimension,    // data: level, extent
    kArgument,     // of a body of a binder; data: level, number of the argument
    kSum,          // of i64; args: terms, data: a constant, then the factor of each
    kFloorDiv,     // of an i64 by a constant above 0, in data
    kMod,
    kNotNegative,  // i1; whether an i64 is
    kAll,          // i1; args are in order, each once
    kLoad,         // of an element of an input; data: tensor; args: place
    kIndex,        // an index that is read: args: an integer of any size; data: extent, whether it has no sign
    kContract,     // args: which elements count, two factors; data: level, extents
    kFold,         // as kContract: which elements count, init..., step..., merge...
    kScan,         // args: place, init..., step...; data: level, extent, whether from the end, whether the first accumulator is a place
    kScatter,      // args: place along, place, step..., init...; data: level, extent
    kSort,         // args: place along, before, keys...; data: level, extent
    kSieve,        // args: place along, limit, removes, init; data: level, extent of the line, extent of those that stay
    kWalk,         // args: start, next, update..., init...; data: level, extent, steps
    kResult,       // of a binder with several; data: number. Of a scan: those before, then those after
  };
  Kind kind = kInstruction;
  Op op = Op::kConstant;
  Scalar type = Scalar::kI64;
  std::vector<int64_t> data;
  std::vector<TermId> args;
  // What follows from these.
  int64_t low = INT64_MIN, high = INT64_MAX;  // of integers with sign; of i64 only
  uint64_t free = 0;                          // levels that it depends on, a bit each
  uint32_t depth = 0;
  uint32_t owner = kNoOwner;  // the node by which it was made first
  bool is(Kind which, Op what) const { return kind == which && op == what; }
  bool is_binder() const { return kind >= kContract && kind < kResult; }
};

// Indices that can be computed with are nearer to 0.
inline constexpr int64_t kFar = int64_t{1} << 61;
inline bool is_near(int64_t low, int64_t high) {
  return low > -kFar && high < kFar;
}

// A scalar: `real` of floats, else `bits`, without those above the type's width.
struct Number {
  double real = 0;
  uint64_t bits = 0;
};
Number number_of_bits(Scalar type, uint64_t bits);
uint64_t bits_of_number(Scalar type, const Number& number);  // rounds
int64_t with_sign(Scalar type, uint64_t bits);
// An instruction on numbers; floats are not rounded, except by a bitcast.
Number compute(Op op, Scalar type, uint64_t value, const Scalar* types, const Number* operands);

class Terms {
 public:
  const Term& operator[](TermId term) const { return terms_[term]; }
  // The node for which terms are made.
  uint32_t owner = kNoOwner;

  TermId constant(Scalar type, uint64_t bits);
  TermId real(Scalar type, double value);
  TermId integer(int64_t value) { return constant(Scalar::kI64, static_cast<uint64_t>(value)); }
  TermId flag(bool value) { return constant(Scalar::kI1, value); }
  TermId dimension(uint32_t level, int64_t extent);
  TermId argument(uint32_t level, uint32_t number, Scalar type);
  TermId instruction(Op op, Scalar type, const std::vector<TermId>& args, uint64_t value = 0);
  TermId compare(Op op, Predicate predicate, TermId a, TermId b) {
    return instruction(op, Scalar::kI1, {a, b}, static_cast<uint64_t>(predicate));
  }
  TermId select(TermId condition, TermId a, TermId b) { return instruction(Op::kSelect, terms_[a].type, {condition, a, b}); }
  TermId add(TermId a, TermId b);
  TermId plus(TermId a, int64_t b) { return add(a, integer(b)); }
  TermId scale(TermId a, int64_t by);
  TermId sub(TermId a, TermId b) { return add(a, scale(b, -1)); }
  TermId floor_div(TermId a, int64_t by);
  TermId mod(TermId a, int64_t by);
  TermId not_negative(TermId a);
  TermId all(const std::vector<TermId>& terms);
  TermId inside(TermId index, int64_t extent) { return all({not_negative(index), not_negative(plus(scale(index, -1), extent - 1))}); }
  TermId load(uint32_t tensor, Scalar type, const std::vector<TermId>& place);
  TermId index(TermId integer, int64_t extent, bool has_no_sign);
  // A binder, or a term like another with other arguments, which is brought into its form again.
  TermId make(Term term);

  bool is_constant(TermId term, uint64_t* out_bits = nullptr) const;
  bool is_constant(TermId term, int64_t* out) const {
    uint64_t bits;
    if (!is_constant(term, &bits)) return false;
    *out = static_cast<int64_t>(bits);
    return true;
  }
  // Whether a is b plus a constant.
  bool differ_by(TermId a, TermId b, int64_t* out);
  void work(uint64_t steps);

 private:
  struct Sum {
    int64_t constant = 0;
    std::map<TermId, int64_t> factors;
  };
  Sum sum_of(TermId term) const;
  TermId of_sum(const Sum& sum);
  TermId intern(Term term);
  void bound(Term& term) const;
  bool fold(Op op, Scalar type, std::vector<TermId>& args, uint64_t& value, TermId* out);
  TermId compare_integers(Predicate predicate, TermId a, TermId b);

  std::deque<Term> terms_;  // references stay valid
  std::map<std::pair<uint64_t, std::pair<std::vector<int64_t>, std::vector<TermId>>>, TermId> known_;
  uint64_t work_ = 0;
};

// The term where these i64 are not negative, which may say more of its indices.
class Simplifier {
 public:
  explicit Simplifier(Terms& terms) : terms_(terms) {}
  TermId under(TermId term, const std::vector<TermId>& facts);
  // Whether two terms are the same there. Choices that one of them has are followed, up to `depth` at once.
  bool are_same(TermId a, TermId b, const std::vector<TermId>& facts, uint32_t depth = 12);

 private:
  TermId rebuilt(TermId term, const std::vector<TermId>& facts);
  void add_facts(TermId condition, bool holds, std::vector<TermId>* facts) const;
  bool bounds(TermId term, const std::vector<TermId>& facts, int64_t* low, int64_t* high);

  Terms& terms_;
  std::map<std::vector<TermId>, std::map<TermId, TermId>> known_;
};

// A place in a tensor of extents `to`, of the element that is at `at` in one of extents `from`, in row-major order. False if they have different
// counts.
bool reshaped(Terms& terms, const std::vector<int64_t>& from, const std::vector<int64_t>& to, const std::vector<TermId>& at,
              std::vector<TermId>* out);

// The product; Unknown if an extent is negative, or if that of extents other than 0 is not below kFar, so that no product of some of them is larger.
int64_t count_of(const std::vector<int64_t>& extents);

inline bool is_unsigned(heddle_element_type_t type) {
  return type == HEDDLE_TYPE_BOOL || type == HEDDLE_TYPE_U8 || type == HEDDLE_TYPE_U16 || type == HEDDLE_TYPE_U32 ||
         type == HEDDLE_TYPE_U64;
}

}  // namespace heddle::sdk::portable
