// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See terms.h. A choice by an index says where that index is in what is chosen: a place that is taken modulo an extent, so that it is inside of a
// tensor everywhere, is then the place itself.
#include <algorithm>

#include "terms.h"

namespace heddle::sdk::portable {

TermId Simplifier::under(TermId term, const std::vector<TermId>& facts) {
  const Term::Kind kind = terms_[term].kind;
  if (kind != Term::kDimension && terms_[term].args.empty()) return term;
  auto& known = known_[facts];
  if (const auto found = known.find(term); found != known.end()) return found->second;
  const uint32_t owner = std::exchange(terms_.owner, terms_[term].owner);
  TermId result = kind == Term::kDimension ? term : rebuilt(term, facts);
  int64_t low, high;
  const bool is_index = kind == Term::kDimension || kind == Term::kSum;
  if (is_index && !facts.empty() && bounds(result, facts, &low, &high) && low == high) result = terms_.integer(low);
  terms_.owner = owner;
  known[term] = result;
  return result;
}

bool Simplifier::are_same(TermId a, TermId b, const std::vector<TermId>& facts, uint32_t depth) {
  a = under(a, facts);
  b = under(b, facts);
  if (a == b) return true;
  const Term &x = terms_[a], &y = terms_[b];
  if (depth == 0 || x.type != y.type) return false;
  for (const Term* choice : {&x, &y}) {
    if (!choice->is(Term::kInstruction, Op::kSelect)) continue;
    std::vector<TermId> then = facts, otherwise = facts;
    add_facts(choice->args[0], true, &then);
    add_facts(choice->args[0], false, &otherwise);
    if (then == facts || otherwise == facts) return false;
    return are_same(a, b, then, depth - 1) && are_same(a, b, otherwise, depth - 1);
  }
  if (x.kind != Term::kInstruction || y.kind != x.kind || x.op != y.op || x.data != y.data) return false;
  for (size_t i = 0; i < x.args.size(); ++i) {
    if (!are_same(x.args[i], y.args[i], facts, depth - 1)) return false;
  }
  return true;
}

TermId Simplifier::rebuilt(TermId term, const std::vector<TermId>& facts) {
  Term t = terms_[term];
  if (t.is_binder()) {  // its dimensions are others than those of the same level around it
    std::vector<TermId> outside = facts;
    std::erase_if(outside, [&](TermId fact) { return terms_[fact].free >> t.data[0] != 0; });
    if (outside != facts) return under(term, outside);
  }
  auto all_under = [&](size_t first, size_t end, const std::vector<TermId>& where) {
    for (size_t i = first; i < end; ++i) t.args[i] = under(t.args[i], where);
  };
  if (t.is(Term::kInstruction, Op::kSelect)) {
    t.args[0] = under(t.args[0], facts);
    std::vector<TermId> then = facts, otherwise = facts;
    add_facts(t.args[0], true, &then);
    add_facts(t.args[0], false, &otherwise);
    t.args[1] = under(t.args[1], then);
    t.args[2] = under(t.args[2], otherwise);
    return terms_.make(std::move(t));
  }
  if (t.kind == Term::kContract || t.kind == Term::kFold) {
    t.args[0] = under(t.args[0], facts);
    std::vector<TermId> inside = facts;
    add_facts(t.args[0], true, &inside);
    all_under(1, t.args.size(), inside);
    return terms_.make(std::move(t));
  }
  all_under(0, t.args.size(), facts);
  if (t.kind != Term::kMod && t.kind != Term::kFloorDiv && t.kind != Term::kNotNegative) return terms_.make(std::move(t));
  int64_t low, high;
  if (!bounds(t.args[0], facts, &low, &high)) return terms_.make(std::move(t));
  if (t.kind == Term::kNotNegative) return low >= 0 || high < 0 ? terms_.flag(low >= 0) : terms_.make(std::move(t));
  const int64_t by = t.data[0];
  auto quotient = [by](int64_t x) { return x / by - (x % by < 0); };
  if (quotient(low) != quotient(high)) return terms_.make(std::move(t));
  return t.kind == Term::kMod ? terms_.plus(t.args[0], -quotient(low) * by) : terms_.integer(quotient(low));
}

void Simplifier::add_facts(TermId condition, bool holds, std::vector<TermId>* facts) const {
  const Term& t = terms_[condition];
  if (t.kind == Term::kNotNegative) {
    facts->push_back(holds ? t.args[0] : terms_.plus(terms_.scale(t.args[0], -1), -1));
  } else if (t.kind == Term::kAll && holds) {
    for (TermId part : t.args) {
      if (terms_[part].kind == Term::kNotNegative) facts->push_back(terms_[part].args[0]);
    }
  }
  std::sort(facts->begin(), facts->end());
  facts->erase(std::unique(facts->begin(), facts->end()), facts->end());
}

bool Simplifier::bounds(TermId term, const std::vector<TermId>& facts, int64_t* low, int64_t* high) {
  *low = terms_[term].low;
  *high = terms_[term].high;
  for (TermId fact : facts) {
    int64_t by;
    if (terms_.differ_by(fact, term, &by) && is_near(by, by)) *low = std::max(*low, -by);
    if (terms_.is_constant(terms_.add(fact, term), &by) && is_near(by, by)) *high = std::min(*high, by);
  }
  return is_near(*low, *high);
}

}  // namespace heddle::sdk::portable
