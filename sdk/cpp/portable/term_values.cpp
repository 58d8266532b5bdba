// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See term_values.h.
#include "term_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace heddle::sdk::portable {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

// Numbers of an input: small whole ones, of which many are equal; positive ones; others; and special ones, or any bits of integers.
Number made_up(Scalar type, uint64_t random, uint32_t seed) {
  seed %= 4;
  if (is_float(type)) {
    static constexpr double kSpecial[] = {0, -0.0, 1, -1, kInfinity, -kInfinity, kNan, 0.5, 2.5, -2.5, 1e-3, 1e6, -7, 300, 0.3, 3.5};
    switch (seed) {
      case 0:
        return {static_cast<double>(static_cast<int>(random % 7) - 3), 0};
      case 1:
        return {static_cast<double>(random % 64 + 1) / 16, 0};
      case 2:
        return {static_cast<double>(static_cast<int>(random % 4096) - 2048) / 256, 0};
      default:
        return {kSpecial[random % 16], 0};
    }
  }
  switch (seed) {
    case 0:
      return {0, masked(type, random % 7 - 3)};
    case 1:
      return {0, masked(type, random % 5)};
    case 2:
      return {0, masked(type, random % 300 - 100)};
    default:
      return {0, masked(type, random)};
  }
}

}  // namespace

bool is_same(Scalar type, const Number& a, const Number& b) {
  if (!is_float(type)) return a.bits == b.bits;
  if (std::isnan(a.real) || std::isnan(b.real)) return std::isnan(a.real) && std::isnan(b.real);
  if (a.real == b.real) return true;
  return std::fabs(a.real - b.real) <= 1e-9 * std::max({1.0, std::fabs(a.real), std::fabs(b.real)});
}

void TermValues::set(uint32_t level, int64_t index) {
  dims_[level] = index;
  changed_[level] = ++clock_;
}

void TermValues::set_arguments(uint32_t level, const Numbers& first, const Numbers& second) {
  arguments_[level] = first;
  arguments_[level].insert(arguments_[level].end(), second.begin(), second.end());
  changed_[level] = ++clock_;
}

Number TermValues::at(TermId term) {
  const Term& t = terms_[term];
  if (t.kind == Term::kResult) return all(t.args[0])[static_cast<size_t>(t.data[0])];
  if (t.kind == Term::kDimension) return {0, static_cast<uint64_t>(dims_[t.data[0]])};
  if (t.kind == Term::kArgument) return arguments_[t.data[0]][static_cast<size_t>(t.data[1])];
  if (t.is(Term::kInstruction, Op::kConstant)) return number_of_bits(t.type, static_cast<uint64_t>(t.data[0]));
  return all(term)[0];
}

// Values stay known while no index or argument that they depend on changes.
const TermValues::Numbers& TermValues::all(TermId term) {
  const Term& t = terms_[term];
  uint64_t changed = 0;
  for (uint64_t free = t.free; free != 0; free &= free - 1) changed = std::max(changed, changed_[__builtin_ctzll(free)]);
  if (const auto found = known_.find(term); found != known_.end() && found->second.time >= changed) return found->second.values;
  if (work_ == 0) throw Unknown{"it takes too long to compute"};
  --work_;
  Numbers values = t.is_binder() ? computed_binder(t) : computed(t);
  Known& known = known_[term];
  known = {std::move(values), clock_};
  return known.values;
}

// A binder that is in the place of a read may be computed inside of another one of the same levels, whose indices and arguments stay as they are.
TermValues::Numbers TermValues::computed_binder(const Term& t) {
  const auto level = static_cast<uint32_t>(t.data[0]);
  // Of a contraction and a fold: its dimensions, and one for arguments; of the others two.
  const uint32_t levels = t.kind == Term::kContract || t.kind == Term::kFold ? static_cast<uint32_t>(t.data.size()) : 2;
  const uint32_t end = std::min(level + levels, kLevels);
  const std::vector<int64_t> dims(dims_ + level, dims_ + end);
  const std::vector<Numbers> arguments(arguments_ + level, arguments_ + end);
  const uint64_t before = clock_;
  Numbers values = computed(t);
  for (uint32_t l = level; l < end; ++l) {
    if (changed_[l] <= before) continue;
    dims_[l] = dims[l - level];
    arguments_[l] = arguments[l - level];
    changed_[l] = ++clock_;
  }
  return values;
}

TermValues::Numbers TermValues::each(const std::vector<TermId>& args, size_t first, size_t count) {
  if (work_ < count) throw Unknown{"it takes too long to compute"};
  work_ -= count;
  Numbers out;
  for (size_t i = first; i < first + count; ++i) out.push_back(at(args[i]));
  return out;
}

template <typename Function>
void TermValues::for_each(const Term& binder, size_t dimensions, Function function) {
  const auto level = static_cast<uint32_t>(binder.data[0]);
  std::vector<int64_t> index(dimensions, 0);
  for (size_t d = 0; d < dimensions; ++d) {
    if (binder.data[d + 1] <= 0) return;
    set(level + static_cast<uint32_t>(d), 0);
  }
  for (;;) {
    if (work_ == 0) throw Unknown{"it takes too long to compute"};
    --work_;
    function();
    size_t d = dimensions;
    while (d > 0) {
      --d;
      index[d] = index[d] + 1 < binder.data[d + 1] ? index[d] + 1 : 0;
      set(level + static_cast<uint32_t>(d), index[d]);
      if (index[d] != 0) break;
      if (d == 0) return;
    }
    if (dimensions == 0) return;
  }
}

Number TermValues::loaded(const Term& t) {
  const auto tensor = static_cast<size_t>(t.data[0]);
  uint64_t place = 0;
  for (size_t d = 0; d < t.args.size(); ++d) {
    const int64_t index = index_of(t.args[d]), extent = extents_[tensor][d];
    if (index < 0 || index >= extent) return is_float(t.type) ? Number{kNan, 0} : Number{0, masked(t.type, 0xA5A5A5A5A5A5A5A5)};
    place = place * static_cast<uint64_t>(extent) + static_cast<uint64_t>(index);
  }
  return made_up(t.type, mixed(mixed(place + 1) + tensor * 0x9E3779B97F4A7C15 + seed_), seed_);
}

TermValues::Numbers TermValues::computed(const Term& t) {
  auto index = [](int64_t value) { return Numbers{{0, static_cast<uint64_t>(value)}}; };
  switch (t.kind) {
    case Term::kInstruction: {
      if (t.op == Op::kSelect) return {at(t.args[at(t.args[0]).bits ? 1 : 2])};
      Number operands[3];
      Scalar types[3] = {};
      for (size_t i = 0; i < t.args.size(); ++i) {
        operands[i] = at(t.args[i]);
        types[i] = terms_[t.args[i]].type;
      }
      return {compute(t.op, t.type, t.data.empty() ? 0 : static_cast<uint64_t>(t.data[0]), types, operands)};
    }
    case Term::kSum: {
      auto sum = static_cast<uint64_t>(t.data[0]);
      for (size_t i = 0; i < t.args.size(); ++i) sum += static_cast<uint64_t>(t.data[i + 1]) * at(t.args[i]).bits;
      return {{0, sum}};
    }
    case Term::kFloorDiv:
    case Term::kMod: {
      const int64_t x = index_of(t.args[0]), by = t.data[0], quotient = x / by - (x % by < 0);
      return index(t.kind == Term::kFloorDiv ? quotient : x - quotient * by);
    }
    case Term::kNotNegative:
      return index(index_of(t.args[0]) >= 0);
    case Term::kAll:
      return index(std::all_of(t.args.begin(), t.args.end(), [&](TermId part) { return holds(part); }));
    case Term::kLoad:
      return {loaded(t)};
    case Term::kIndex: {
      const uint64_t bits = at(t.args[0]).bits;
      int64_t value = t.data[1] ? static_cast<int64_t>(bits) : with_sign(terms_[t.args[0]].type, bits);
      if (value < 0) value = static_cast<int64_t>(static_cast<uint64_t>(value) + static_cast<uint64_t>(t.data[0]));
      return index(std::clamp<int64_t>(value, 0, t.data[0] - 1));
    }
    case Term::kContract:
      return contracted(t);
    case Term::kFold:
      return folded(t);
    case Term::kScan:
      return scanned(t);
    case Term::kScatter:
      return scattered(t);
    case Term::kSort:
      return sorted(t);
    case Term::kSieve:
      return sieved(t);
    case Term::kWalk:
      return walked(t);
    default:
      throw Unknown{"a term has no value"};
  }
}

TermValues::Numbers TermValues::contracted(const Term& t) {
  Number sum;
  for_each(t, t.data.size() - 1, [&] {
    if (!holds(t.args[0])) return;
    const Number a = at(t.args[1]), b = at(t.args[2]);
    sum.real += a.real * b.real;
    sum.bits = masked(t.type, sum.bits + a.bits * b.bits);
  });
  return {sum};
}

// In two parts, whose accumulators are merged.
TermValues::Numbers TermValues::folded(const Term& t) {
  const size_t count = (t.args.size() - 1) / 3, dimensions = t.data.size() - 1;
  const auto level = static_cast<uint32_t>(t.data[0] + static_cast<int64_t>(dimensions));
  const Numbers init = each(t.args, 1, count);
  Numbers parts[2] = {init, init};
  uint64_t number = 0;
  for_each(t, dimensions, [&] {
    Numbers& sums = parts[number++ / 2 % 2];
    if (!holds(t.args[0])) return;
    set_arguments(level, sums);
    sums = each(t.args, 1 + count, count);
  });
  set_arguments(level, parts[0], parts[1]);
  return each(t.args, 1 + 2 * count, count);
}

TermValues::Numbers TermValues::scanned(const Term& t) {
  const auto level = static_cast<uint32_t>(t.data[0]);
  const int64_t extent = t.data[1], last = index_of(t.args[0]);
  const bool reverse = t.data[2] != 0;
  const size_t count = (t.args.size() - 1) / 2;
  Numbers sums = each(t.args, 1, count), before = sums;
  for (int64_t i = 0; i < extent; ++i) {
    if (work_ == 0) throw Unknown{"it takes too long to compute"};
    --work_;
    const int64_t at = reverse ? extent - 1 - i : i;
    set(level, at);
    set_arguments(level + 1, sums);
    before = sums;
    sums = each(t.args, 1 + count, count);
    if (at == last) break;
  }
  before.insert(before.end(), sums.begin(), sums.end());
  return before;
}

TermValues::Numbers TermValues::scattered(const Term& t) {
  const auto level = static_cast<uint32_t>(t.data[0]);
  const int64_t place = index_of(t.args[0]);
  const size_t count = (t.args.size() - 2) / 2;
  Numbers elements = each(t.args, 2 + count, count);
  for_each(t, 1, [&] {
    if (index_of(t.args[1]) != place) return;
    set_arguments(level + 1, elements);
    elements = each(t.args, 2, count);
  });
  return elements;
}

TermValues::Numbers TermValues::sorted(const Term& t) {
  const auto level = static_cast<uint32_t>(t.data[0]);
  const int64_t place = index_of(t.args[0]);
  std::vector<Numbers> keys;
  for_each(t, 1, [&] { keys.push_back(each(t.args, 2, t.args.size() - 2)); });
  // An order that is none does not matter here: elements are counted.
  for (size_t i = 0; i < keys.size(); ++i) {
    int64_t ahead = 0;
    for (size_t j = 0; j < keys.size(); ++j) {
      if (work_ == 0) throw Unknown{"it takes too long to compute"};
      --work_;
      if (i == j) continue;
      set_arguments(level + 1, keys[j < i ? i : j], keys[j < i ? j : i]);
      const bool later_is_first = holds(t.args[1]);
      ahead += j < i ? !later_is_first : later_is_first;
    }
    if (ahead == place) return {{0, static_cast<uint64_t>(i)}};
  }
  return {{0, UINT64_MAX}};
}

TermValues::Numbers TermValues::sieved(const Term& t) {
  const auto level = static_cast<uint32_t>(t.data[0]);
  const int64_t place = index_of(t.args[0]), limit = index_of(t.args[1]), extent = t.data[1];
  if (extent > 4096) throw Unknown{"it takes too long to compute"};
  std::vector<bool> is_there;
  if (work_ < static_cast<uint64_t>(extent)) throw Unknown{"it takes too long to compute"};
  work_ -= static_cast<uint64_t>(extent);
  for (int64_t i = 0; i < extent; ++i) {
    set(level + 1, i);
    is_there.push_back(holds(t.args[3]));
  }
  int64_t kept = 0;
  for (int64_t i = 0; i < extent; ++i) {
    const auto own = static_cast<size_t>(i);
    if (!is_there[own]) continue;
    if (kept >= limit) {
      is_there[own] = false;
      continue;
    }
    ++kept;
    set(level, i);
    for (int64_t j = i + 1; j < extent; ++j) {
      if (work_ == 0) throw Unknown{"it takes too long to compute"};
      --work_;
      set(level + 1, j);
      if (holds(t.args[2])) is_there[static_cast<size_t>(j)] = false;
    }
  }
  return {{0, place >= 0 && place < extent && is_there[static_cast<size_t>(place)]}};
}

TermValues::Numbers TermValues::walked(const Term& t) {
  const auto level = static_cast<uint32_t>(t.data[0]);
  const size_t count = (t.args.size() - 2) / 2;
  Numbers elements = each(t.args, 2 + count, count);
  for_each(t, 1, [&] {
    set_arguments(level + 1, elements);
    Number place = at(t.args[0]);
    for (int64_t step = 0; step < t.data[2]; ++step) {
      if (work_ == 0) throw Unknown{"it takes too long to compute"};
      --work_;
      set_arguments(level + 1, elements, {place});
      place = at(t.args[1]);
    }
    set_arguments(level + 1, elements, {place});
    elements = each(t.args, 2, count);
  });
  return elements;
}

}  // namespace heddle::sdk::portable
