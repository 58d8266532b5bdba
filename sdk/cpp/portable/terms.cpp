// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See terms.h. Indices, conditions and reads; term_instructions.cpp has the rest.
#include "terms.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

namespace heddle::sdk::portable {

namespace {

constexpr uint64_t kMostWork = uint64_t{1} << 20;  // terms, with their operands
constexpr uint32_t kMostDepth = 2000;

int64_t wrapped_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrapped_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t floor_of(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}
// a - floor(a / b) * b, for b > 0.
int64_t rest_of(int64_t a, int64_t b) {
  return a % b + (a % b < 0 ? b : 0);
}

}  // namespace

void Terms::work(uint64_t steps) {
  work_ += steps;
  if (work_ > kMostWork) throw Unknown{"the kernel is too large to compare"};
}

bool Terms::is_constant(TermId term, uint64_t* out_bits) const {
  const Term& t = terms_[term];
  if (!t.is(Term::kInstruction, Op::kConstant)) return false;
  if (out_bits) *out_bits = static_cast<uint64_t>(t.data[0]);
  return true;
}

TermId Terms::intern(Term term) {
  work(1 + term.args.size() + term.data.size());
  const uint64_t head = static_cast<uint64_t>(term.kind) << 16 | static_cast<uint64_t>(term.op) << 8 | static_cast<uint64_t>(term.type);
  auto [found, is_new] = known_.try_emplace({head, {term.data, term.args}}, static_cast<TermId>(terms_.size()));
  if (!is_new) return found->second;
  for (TermId arg : term.args) {
    term.free |= terms_[arg].free;
    term.depth = std::max(term.depth, terms_[arg].depth + 1);
  }
  if (term.depth > kMostDepth) throw Unknown{"the kernel's values are nested too deeply to compare"};
  if (term.kind == Term::kDimension || term.kind == Term::kArgument) {
    if (term.data[0] >= 64) throw Unknown{"the kernel has too many dimensions to compare"};
    term.free = uint64_t{1} << term.data[0];
  } else if (term.is_binder()) {
    // One level more may be that of its arguments.
    if (term.data[0] >= 62) throw Unknown{"the kernel has too many dimensions to compare"};
    term.free &= (uint64_t{1} << term.data[0]) - 1;
  }
  bound(term);
  term.owner = owner;
  terms_.push_back(std::move(term));
  return found->second;
}

// Bounds of an index.
void Terms::bound(Term& term) const {
  if (term.type != Scalar::kI64) return;
  auto set = [&](int64_t low, int64_t high) {
    if (is_near(low, high)) term.low = low, term.high = high;
  };
  switch (term.kind) {
    case Term::kInstruction: {
      if (term.op == Op::kConstant) set(term.data[0], term.data[0]);
      if (term.op != Op::kMaxSI && term.op != Op::kMinSI) break;
      const Term &a = terms_[term.args[0]], &b = terms_[term.args[1]];
      if (term.op == Op::kMaxSI) term.low = std::max(a.low, b.low), term.high = std::max(a.high, b.high);
      if (term.op == Op::kMinSI) term.low = std::min(a.low, b.low), term.high = std::min(a.high, b.high);
      break;
    }
    case Term::kDimension:
      set(0, std::max<int64_t>(0, term.data[1] - 1));
      break;
    case Term::kIndex:
      set(0, std::max<int64_t>(0, term.data[0] - 1));
      break;
    case Term::kMod:
      set(0, term.data[0] - 1);
      break;
    case Term::kFloorDiv: {
      const Term& of = terms_[term.args[0]];
      if (is_near(of.low, of.high)) set(floor_of(of.low, term.data[0]), floor_of(of.high, term.data[0]));
      break;
    }
    case Term::kSum: {
      __extension__ using Wide = __int128;
      Wide low = term.data[0], high = low;
      for (size_t i = 0; i < term.args.size(); ++i) {
        const Term& of = terms_[term.args[i]];
        const Wide factor = term.data[i + 1];
        if (!is_near(of.low, of.high)) return;
        low += factor * (factor > 0 ? of.low : of.high);
        high += factor * (factor > 0 ? of.high : of.low);
        if (low <= -kFar || high >= kFar) return;
      }
      set(static_cast<int64_t>(low), static_cast<int64_t>(high));
      break;
    }
    default:
      break;
  }
}

TermId Terms::constant(Scalar type, uint64_t bits) {
  return intern({Term::kInstruction, Op::kConstant, type, {static_cast<int64_t>(masked(type, bits))}, {}});
}

TermId Terms::real(Scalar type, double value) {
  if (is_float(type)) return constant(type, bits_of_number(type, {value, 0}));
  return constant(type, compute(Op::kFToSI, Scalar::kI64, 0, &type, std::array<Number, 2>{Number{value, 0}}.data()).bits);
}

TermId Terms::dimension(uint32_t level, int64_t extent) {
  return extent == 1 ? integer(0) : intern({Term::kDimension, Op::kConstant, Scalar::kI64, {level, extent}, {}});
}

TermId Terms::argument(uint32_t level, uint32_t number, Scalar type) {
  return intern({Term::kArgument, Op::kConstant, type, {level, number}, {}});
}

// ---- sums of indices

Terms::Sum Terms::sum_of(TermId term) const {
  const Term& t = terms_[term];
  Sum sum;
  if (t.is(Term::kInstruction, Op::kConstant)) {
    sum.constant = t.data[0];
  } else if (t.kind == Term::kSum) {
    sum.constant = t.data[0];
    for (size_t i = 0; i < t.args.size(); ++i) sum.factors[t.args[i]] = t.data[i + 1];
  } else {
    sum.factors[term] = 1;
  }
  return sum;
}

TermId Terms::of_sum(const Sum& from) {
  Sum sum = from;
  // d * floor(x / d) is x - x mod d.
  for (const auto& [atom, factor] : from.factors) {
    const Term t = terms_[atom];
    auto found = sum.factors.find(atom);
    if (found == sum.factors.end() || found->second == 0 || t.kind != Term::kFloorDiv || found->second % t.data[0] != 0) continue;
    const int64_t times = found->second / t.data[0];
    sum.factors.erase(found);
    const Sum whole = sum_of(t.args[0]), rest = sum_of(mod(t.args[0], t.data[0]));
    sum.constant = wrapped_add(sum.constant, wrapped_mul(times, wrapped_add(whole.constant, wrapped_mul(rest.constant, -1))));
    for (const auto& [one, by] : whole.factors) sum.factors[one] = wrapped_add(sum.factors[one], wrapped_mul(times, by));
    for (const auto& [one, by] : rest.factors) sum.factors[one] = wrapped_add(sum.factors[one], wrapped_mul(wrapped_mul(times, by), -1));
  }
  std::erase_if(sum.factors, [](const auto& each) { return each.second == 0; });
  if (sum.factors.empty()) return integer(sum.constant);
  if (sum.factors.size() == 1 && sum.constant == 0 && sum.factors.begin()->second == 1) return sum.factors.begin()->first;
  Term term = {Term::kSum, Op::kConstant, Scalar::kI64, {sum.constant}, {}};
  for (const auto& [atom, factor] : sum.factors) {
    term.args.push_back(atom);
    term.data.push_back(factor);
  }
  return intern(std::move(term));
}

TermId Terms::add(TermId a, TermId b) {
  Sum sum = sum_of(a);
  const Sum other = sum_of(b);
  work(sum.factors.size() + other.factors.size());
  sum.constant = wrapped_add(sum.constant, other.constant);
  for (const auto& [atom, factor] : other.factors) sum.factors[atom] = wrapped_add(sum.factors[atom], factor);
  return of_sum(sum);
}

TermId Terms::scale(TermId a, int64_t by) {
  Sum sum = sum_of(a);
  work(sum.factors.size());
  sum.constant = wrapped_mul(sum.constant, by);
  for (auto& [atom, factor] : sum.factors) factor = wrapped_mul(factor, by);
  return of_sum(sum);
}

bool Terms::differ_by(TermId a, TermId b, int64_t* out) {
  return is_constant(sub(a, b), out);
}

TermId Terms::floor_div(TermId a, int64_t by) {
  if (by <= 0) return integer(0);
  if (by == 1) return a;
  const Sum sum = sum_of(a);
  // Terms that are multiples of the divisor leave the quotient.
  Sum whole, rest;
  for (const auto& [atom, factor] : sum.factors) (factor % by == 0 ? whole : rest).factors[atom] = factor % by == 0 ? factor / by : factor;
  whole.constant = floor_of(sum.constant, by);
  rest.constant = rest_of(sum.constant, by);
  const TermId left = of_sum(rest);
  const Term& range = terms_[left];
  if (is_near(range.low, range.high) && floor_of(range.low, by) == floor_of(range.high, by)) {
    whole.constant = wrapped_add(whole.constant, floor_of(range.low, by));
    return of_sum(whole);
  }
  Term term = {Term::kFloorDiv, Op::kConstant, Scalar::kI64, {by}, {left}};
  if (range.kind == Term::kFloorDiv && range.data[0] < kFar / by) {
    term.data[0] = by * range.data[0];
    term.args[0] = range.args[0];
    return add(of_sum(whole), floor_div(term.args[0], term.data[0]));
  }
  // What is too small to matter beside multiples of a divisor of the divisor.
  for (const auto& [unused, factor] : rest.factors) {
    const int64_t common = std::gcd(rest_of(factor, by), by);
    if (common == 1) continue;
    Sum large, small;
    for (const auto& [atom, each] : rest.factors) {
      const bool is_multiple = each % common == 0;
      (is_multiple ? large : small).factors[atom] = is_multiple ? each / common : each;
    }
    large.constant = floor_of(rest.constant, common);
    small.constant = rest_of(rest.constant, common);
    const Term& ignored = terms_[of_sum(small)];
    if (ignored.low < 0 || ignored.high >= common || !is_near(ignored.low, ignored.high)) continue;
    return add(of_sum(whole), floor_div(of_sum(large), by / common));
  }
  return add(of_sum(whole), intern(std::move(term)));
}

TermId Terms::mod(TermId a, int64_t by) {
  if (by <= 1) return integer(0);
  Sum rest;
  const Sum sum = sum_of(a);
  for (const auto& [atom, factor] : sum.factors) {
    const int64_t left = rest_of(factor, by);
    // Terms that differ by a multiple of the divisor are written in one way: with factors as they were where these are smaller than it.
    if (left != 0) rest.factors[atom] = factor < 0 && factor > -by ? factor : left;
  }
  rest.constant = rest_of(sum.constant, by);
  const TermId left = of_sum(rest);
  const Term& range = terms_[left];
  if (is_near(range.low, range.high) && floor_of(range.low, by) == floor_of(range.high, by))
    return plus(left, -floor_of(range.low, by) * by);
  if (range.kind == Term::kMod && range.data[0] % by == 0) return mod(range.args[0], by);
  return intern({Term::kMod, Op::kConstant, Scalar::kI64, {by}, {left}});
}

// ---- conditions

TermId Terms::not_negative(TermId a) {
  const Term& t = terms_[a];
  if (t.low >= 0 && is_near(t.low, t.high)) return flag(true);
  if (t.high < 0 && is_near(t.low, t.high)) return flag(false);
  return intern({Term::kNotNegative, Op::kConstant, Scalar::kI1, {}, {a}});
}

TermId Terms::all(const std::vector<TermId>& terms) {
  std::vector<TermId> parts;
  for (TermId term : terms) {
    const Term& t = terms_[term];
    if (t.kind == Term::kAll) {
      parts.insert(parts.end(), t.args.begin(), t.args.end());
      continue;
    }
    uint64_t bits;
    if (!is_constant(term, &bits)) {
      parts.push_back(term);
    } else if (bits == 0) {
      return flag(false);
    }
  }
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  if (parts.empty()) return flag(true);
  if (parts.size() == 1) return parts[0];
  return intern({Term::kAll, Op::kConstant, Scalar::kI1, {}, std::move(parts)});
}

// ---- reads

TermId Terms::load(uint32_t tensor, Scalar type, const std::vector<TermId>& place) {
  return intern({Term::kLoad, Op::kConstant, type, {tensor}, place});
}

TermId Terms::index(TermId integer, int64_t extent, bool has_no_sign) {
  if (extent <= 1) return this->integer(0);
  uint64_t bits;
  if (is_constant(integer, &bits)) {
    int64_t value = has_no_sign ? static_cast<int64_t>(bits) : with_sign(terms_[integer].type, bits);
    if (value < 0) value = wrapped_add(value, extent);
    return this->integer(std::clamp<int64_t>(value, 0, extent - 1));
  }
  return intern({Term::kIndex, Op::kConstant, Scalar::kI64, {extent, has_no_sign}, {integer}});
}

TermId Terms::make(Term term) {
  switch (term.kind) {
    case Term::kInstruction:
      return instruction(term.op, term.type, term.args, term.data.empty() ? 0 : static_cast<uint64_t>(term.data[0]));
    case Term::kSum: {
      TermId sum = integer(term.data[0]);
      for (size_t i = 0; i < term.args.size(); ++i) sum = add(sum, scale(term.args[i], term.data[i + 1]));
      return sum;
    }
    case Term::kFloorDiv:
      return floor_div(term.args[0], term.data[0]);
    case Term::kMod:
      return mod(term.args[0], term.data[0]);
    case Term::kNotNegative:
      return not_negative(term.args[0]);
    case Term::kAll:
      return all(term.args);
    case Term::kIndex:
      return index(term.args[0], term.data[0], term.data[1] != 0);
    default:
      return intern({term.kind, term.op, term.type, std::move(term.data), std::move(term.args)});
  }
}

// ---- reshapes

int64_t count_of(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  bool is_empty = false;
  for (int64_t extent : extents) {
    is_empty |= extent == 0;
    if (extent < 0 || (extent > 0 && __builtin_mul_overflow(count, extent, &count)) || count >= kFar)
      throw Unknown{"a tensor is too large"};
  }
  return is_empty ? 0 : count;
}

bool reshaped(Terms& terms, const std::vector<int64_t>& from, const std::vector<int64_t>& to, const std::vector<TermId>& at,
              std::vector<TermId>* out) {
  *out = std::vector<TermId>(to.size(), terms.integer(0));
  const int64_t count = count_of(to);
  if (count_of(from) != count) return false;
  if (count == 0) return true;
  size_t f = from.size(), t = to.size();
  while (f > 0 && t > 0) {
    // Dimensions [f, f_end) correspond to dimensions [t, t_end); as few as possible.
    const size_t f_end = f, t_end = t;
    int64_t have = from[--f], want = to[--t];
    while (have != want) have < want ? have *= from[--f] : want *= to[--t];
    TermId linear = terms.integer(0);
    for (size_t i = f; i < f_end; ++i) linear = terms.add(terms.scale(linear, from[i]), at[i]);
    for (size_t i = t_end; i-- > t;) {
      (*out)[i] = i == t ? linear : terms.mod(linear, to[i]);
      linear = terms.floor_div(linear, to[i]);
    }
  }
  return true;
}

}  // namespace heddle::sdk::portable
