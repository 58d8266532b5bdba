// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See terms_of_names.h. Ops that walk through tables: boxes that remove others, decision trees, n-grams.
#include <limits>

#include "terms_of_names.h"

namespace heddle::sdk::portable {

// Which boxes of a list stay, if each that stays removes later ones that overlap it.
TermId NameTerms::suppress(const Use& use) {
  const size_t along = use.at.size() - 1;
  const int64_t extent = use.result.extents[along];
  Binder binder = begin(terms_, Term::kSieve, use.depth, {extent}, false);
  binder.term.data.push_back(extent);
  const TermId later = terms_.dimension(binder.arguments, extent);
  const Scalar type = computed_as(operand(use.op, 0).type);
  auto at = [&](TermId index) {
    TermIds place = use.at;
    place[along] = index;
    return place;
  };
  auto make = [&](Op op, TermId a, TermId b) { return terms_.instruction(op, type, {a, b}); };
  auto is = [&](Predicate predicate, TermId a, TermId b) { return terms_.compare(Op::kCompareF, predicate, a, b); };
  struct Side {
    TermId low, high;
  };
  struct Box {
    Side y, x;
  };
  auto box = [&](TermId index) {
    TermId corners[4];
    for (int64_t i = 0; i < 4; ++i) {
      TermIds place = at(index);
      place.push_back(terms_.integer(i));
      corners[i] = element(use.operand(0), place, binder.depth);
    }
    auto side = [&](TermId a, TermId b) {
      const TermId is_first = is(Predicate::kGreaterEqual, a, b);
      return Side{terms_.select(is_first, b, a), terms_.select(is_first, a, b)};
    };
    return Box{side(corners[0], corners[2]), side(corners[1], corners[3])};
  };
  auto length = [&](const Side& a) { return make(Op::kSubF, a.high, a.low); };
  // What both have; negative if they are apart.
  auto common = [&](const Side& a, const Side& b) {
    return make(Op::kSubF, terms_.select(is(Predicate::kLess, a.high, b.high), a.high, b.high),
                terms_.select(is(Predicate::kGreater, a.low, b.low), a.low, b.low));
  };
  const Box first = box(binder.dims[0]), second = box(later);
  const TermId height = common(first.y, second.y), width = common(first.x, second.x), shared = make(Op::kMulF, width, height);
  const TermId one = make(Op::kMulF, length(first.y), length(first.x)), other = make(Op::kMulF, length(second.y), length(second.x));
  const TermId all = make(Op::kSubF, make(Op::kAddF, one, other), shared);
  TermIds conditions;
  for (TermId area : {height, width, shared, one, other, all}) conditions.push_back(is(Predicate::kGreater, area, terms_.real(type, 0)));
  conditions.push_back(is(Predicate::kGreater, make(Op::kDivF, shared, all), element(use.operand(2), {}, binder.depth)));
  binder.term.args = {use.at[along], element(use.operand(3), {}, binder.depth), terms_.all(conditions),
                      element(use.operand(1), at(later), binder.depth)};
  return terms_.make({Term::kResult, Op::kConstant, Scalar::kI1, {0}, {terms_.make(std::move(binder.term))}});
}

// The weights of the leaves that a row reaches in a group of trees, as one.
TermId NameTerms::trees(const Use& use) {
  enum : size_t { kInput, kFeatures, kThresholds, kWeights, kMore };
  const size_t count = use.op.operands.size();
  const bool is_complete = count < 6, has_flags = count % 2 == 1;
  const int64_t steps = integer_of(use.op, "steps");
  const std::string kind = text_of(use.op, "kind");
  const TermId row = use.at[0], group = use.at[1], weight = use.at[2];
  const Integers& counted = operand(use.op, is_complete ? kWeights : kMore + 1).extents;
  const Scalar type = computed_as(use.result.type);
  Binder binder = begin(terms_, Term::kWalk, use.depth, {counted[1]}, false);
  binder.term.data.push_back(steps);
  const TermId tree = binder.dims[0], old = terms_.argument(binder.arguments, 0, type),
               place = terms_.argument(binder.arguments, 1, Scalar::kI64);
  auto value = [&](size_t i, const TermIds& at) { return element(use.operand(i), at, binder.depth); };
  auto make = [&](Op op, TermId a, TermId b) { return terms_.instruction(op, Scalar::kI64, {a, b}); };
  auto wide = [&](TermId x) { return terms_.instruction(Op::kExtUI, Scalar::kI64, {x}); };
  auto inside = [&](TermId x) { return make(Op::kMinUI, x, terms_.integer(operand(use.op, kMore).extents[0] - 1)); };
  const TermId start = is_complete ? terms_.integer(0) : inside(wide(value(kMore + 1, {group, tree})));

  const TermIds node = is_complete ? TermIds{group, tree, place} : TermIds{place};
  const TermId feature = index_at(use.operand(kFeatures), node, operand(use.op, kInput).extents[1], binder.depth);
  const TermId x = value(kInput, {row, feature}), threshold = value(kThresholds, node);
  auto is = [&](Predicate predicate) { return terms_.compare(Op::kCompareF, predicate, x, threshold); };
  TermId first = is(flag_of(use.op, "strict") ? Predicate::kLess : Predicate::kLessEqual);
  if (has_flags) {
    const TermId flags = value(count - 1, node);
    const Scalar bits = terms_[flags].type;
    auto has = [&](uint64_t bit) {
      const TermId own = terms_.instruction(Op::kAndI, bits, {flags, terms_.constant(bits, bit)});
      return terms_.compare(Op::kCompareI, Predicate::kNotEqual, own, terms_.constant(bits, 0));
    };
    constexpr uint64_t kNanFirst = 1, kEqualFirst = 2, kBelowFirst = 4;
    first = terms_.select(has(kEqualFirst), is(Predicate::kEqual), first);
    first = terms_.select(has(kBelowFirst), is(Predicate::kLess), first);
    const TermId is_nan = terms_.compare(Op::kCompareF, Predicate::kUnordered, x, x);
    first = terms_.instruction(Op::kOrI, Scalar::kI1, {first, terms_.all({is_nan, has(kNanFirst)})});
  }
  TermId next;
  if (is_complete) {
    next = terms_.sub(terms_.plus(terms_.scale(place, 2), 2), wide(first));
  } else {
    const TermId child = wide(value(kMore, node));
    const TermId is_second = terms_.select(first, terms_.integer(0), terms_.integer(1));
    next = inside(terms_.add(make(Op::kShrUI, child, terms_.integer(1)), make(Op::kAndI, child, is_second)));
  }
  const int64_t nodes = (int64_t{1} << (is_complete ? steps : 0)) - 1;
  const TermIds leaf = is_complete ? TermIds{group, tree, terms_.plus(place, -nodes), weight} : TermIds{place, weight};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double initial = kind == "max" ? -kInfinity : kind == "min" ? kInfinity : 0;
  binder.term.args = {start, next, combined(kind, old, value(kWeights, leaf), false), terms_.real(type, initial)};
  return terms_.make({Term::kResult, Op::kConstant, type, {0}, {terms_.make(std::move(binder.term))}});
}

// The number of the n-gram that ends before each byte; the list is a trie in a double array.
TermId NameTerms::ngrams(const Use& use) {
  enum : uint32_t { kAt, kNode, kIsIn, kFound, kCharacters, kLast, kLastBase, kLeft };
  enum : int64_t { kParent, kBase, kNumber };
  constexpr int64_t kNowhere = -2;
  const int64_t longest = integer_of(use.op, "longest"), least = integer_of(use.op, "least"), none = integer_of(use.op, "none");
  const bool counts_characters = least > 1, has_phases = longest > 1, is_runs = flag_of(use.op, "runs");
  const int64_t extent = use.result.extents[2];
  Binder binder = begin(terms_, Term::kScan, use.depth, {extent}, false);
  binder.term.data = {use.depth, extent, 0, 1};
  const TermId byte = binder.dims[0];
  auto i32 = [&](int64_t value) { return terms_.constant(Scalar::kI32, static_cast<uint64_t>(value)); };
  std::vector<int64_t> initial = {kNowhere, 0, none};
  if (counts_characters || has_phases) initial.insert(initial.end(), {0, kNowhere, 0, 0});
  binder.term.args = {use.at[2], terms_.integer(0)};
  TermIds sums = {terms_.argument(binder.arguments, 0, Scalar::kI64)};
  for (int64_t value : initial) {
    binder.term.args.push_back(i32(value));
    sums.push_back(terms_.argument(binder.arguments, static_cast<uint32_t>(sums.size()), Scalar::kI32));
  }
  // Bytes outside of the text are 0.
  auto text_at = [&](TermId at) {
    const Value& text = operand(use.op, 0);
    return terms_.select(terms_.inside(at, text.extents[1]), element(use.operand(0), {use.at[0], at}, binder.depth),
                         terms_.constant(stored_as(text.type), 0));
  };
  auto index = [&](TermId of, int64_t most, uint32_t type_of) {
    return terms_.index(of, most, is_unsigned(operand(use.op, type_of).type));
  };
  const Integers& letters = operand(use.op, 2).extents;
  TermId lead = terms_.integer(0);
  if (letters[0] > 1) {
    const TermId before = index(text_at(terms_.plus(byte, -1)), operand(use.op, 1).extents[0], 0);
    lead = index(element(use.operand(1), {before}, binder.depth), letters[0], 1);
  }
  const TermId letter = element(use.operand(2), {lead, index(text_at(byte), letters[1], 0)}, binder.depth);
  auto of_node = [&](int64_t column) { return element(use.operand(3), {sums[kAt], terms_.integer(column)}, binder.depth); };

  auto is = [&](Predicate predicate, TermId a, TermId b) { return terms_.compare(Op::kCompareI, predicate, a, b); };
  auto equal = [&](TermId a, TermId b) { return is(Predicate::kEqual, a, b); };
  auto is_set = [&](TermId a) { return is(Predicate::kNotEqual, a, i32(0)); };
  auto without = [&](TermId a, TermId b) { return terms_.all({a, terms_.instruction(Op::kXOrI, Scalar::kI1, {b, terms_.flag(true)})}); };
  auto make = [&](Op op, TermId a, TermId b) { return terms_.instruction(op, Scalar::kI32, {a, b}); };
  auto narrow = [&](TermId a) { return terms_.instruction(Op::kTruncI, Scalar::kI32, {a}); };
  const TermId is_here = equal(of_node(kParent), sums[kNode]);
  const TermId here = terms_.select(is_here, narrow(sums[kAt]), i32(kNowhere));
  const TermId base = terms_.select(is_here, of_node(kBase), i32(0)), number = terms_.select(is_here, of_node(kNumber), i32(none));
  const TermId is_letter = is_set(letter), was_letter = is_set(sums[kIsIn]), one = make(Op::kAndI, letter, i32(1));
  const TermId begins = is_runs ? without(is_letter, was_letter) : terms_.all({is_letter, is_set(one)});
  const TermId goes_on = without(is_letter, begins);
  TermId ends = without(was_letter, goes_on);
  TermIds next(sums.size());
  if (counts_characters) ends = terms_.all({ends, is(Predicate::kGreaterEqual, sums[kCharacters], i32(least))});
  next[kFound] = terms_.select(ends, number, i32(none));
  TermId start = i32(0), start_base = i32(0);
  if (next.size() > kCharacters) {
    next[kCharacters] = terms_.select(begins, i32(1), make(Op::kAddI, sums[kCharacters], one));
    next[kLast] = terms_.select(ends, here, sums[kLast]);
    next[kLastBase] = terms_.select(ends, base, sums[kLastBase]);
    // Tokens before the next one with which an n-gram begins.
    const TermId before = terms_.select(equal(byte, terms_.integer(0)), narrow(use.at[1]), sums[kLeft]);
    const TermId fewer = terms_.select(equal(before, i32(0)), i32(longest - 1), make(Op::kAddI, before, i32(-1)));
    next[kLeft] = terms_.select(ends, fewer, before);
    if (has_phases) {
      const TermId is_new = equal(next[kLeft], i32(0));
      start = terms_.select(is_new, start, next[kLast]);
      start_base = terms_.select(is_new, start_base, next[kLastBase]);
    }
  }
  next[kNode] = terms_.select(begins, start, terms_.select(goes_on, here, i32(kNowhere)));
  next[kIsIn] = terms_.instruction(Op::kExtUI, Scalar::kI32, {is_letter});
  TermId symbol = make(Op::kShrUI, letter, i32(1));
  symbol = terms_.select(begins, symbol, make(Op::kAddI, symbol, i32(integer_of(use.op, "goes_on"))));
  const TermId to =
      make(Op::kMinUI, make(Op::kAddI, terms_.select(begins, start_base, base), symbol), i32(operand(use.op, 3).extents[0] - 1));
  next[kAt] = terms_.instruction(Op::kExtUI, Scalar::kI64, {to});
  binder.term.args.insert(binder.term.args.end(), next.begin(), next.end());
  const auto result = static_cast<int64_t>(next.size()) + kFound;
  return terms_.make({Term::kResult, Op::kConstant, Scalar::kI32, {result}, {terms_.make(std::move(binder.term))}});
}

}  // namespace heddle::sdk::portable
