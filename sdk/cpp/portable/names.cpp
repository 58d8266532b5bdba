// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See names.h.
#include "heddle/sdk/portable/names.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <optional>

#include "heddle/sdk/portable/ops.h"
#include "term_values.h"
#include "terms_of_names.h"
#include "terms_of_nodes.h"

namespace heddle::sdk::portable {

namespace {

using TermIds = std::vector<TermId>;

constexpr uint64_t kMostValues = uint64_t{1} << 22;  // computed for a kernel
constexpr size_t kMostIndices = 64, kLeastIndices = 16;

std::string shown(Scalar type, const Number& number) {
  char text[40];
  if (is_float(type)) {
    std::snprintf(text, sizeof text, "%.9g", number.real);
  } else {
    std::snprintf(text, sizeof text, "%" PRId64, with_sign(type, number.bits));
  }
  return text;
}

class Checker {
 public:
  Checker(const Kernel& kernel, const std::vector<int64_t>& symbols) : k_(kernel), symbols_(symbols) {
    for (uint32_t op = 0; op < k_.ops.size(); ++op)
      out_.push_back({NameCheck::kUnknown, op, NameCheck::kNone, "no output is computed from it"});
    for (uint32_t output = 0; output < k_.named_outputs.size(); ++output) {
      if (k_.named_outputs[output] < k_.inputs) out_.push_back({NameCheck::kUnknown, NameCheck::kNone, node_of(output), {}, output});
    }
    is_judged_.resize(out_.size());
  }

  std::vector<NameCheck> run() {
    try {
      if (k_.named_outputs.empty()) throw Unknown{"the kernel does not say which ops its outputs are"};
      nodes_.emplace(terms_, k_, symbols_);
      std::vector<int64_t> known;
      for (uint32_t e = 0; e < k_.expressions.size(); ++e) known.push_back(nodes_->known(e));
      names_.emplace(terms_, k_, known);
      check_forms();
      for (uint32_t output = 0; output < k_.outputs; ++output) by_nodes_.push_back(of_nodes(output));
      for (TermId term : by_nodes_) collect(term);
      for (TermId term : by_nodes_) collect(simplifier_.under(term, {}));
      for (uint32_t output = 0; output < k_.outputs; ++output) compare(output);
    } catch (const Unknown& unknown) {
      for (size_t i = 0; i < out_.size(); ++i) {
        if (!is_judged_[i]) out_[i].reason = unknown.reason;
      }
    }
    return std::move(out_);
  }

 private:
  // The verdict that is worse counts. `check` is the number of an op, or of an output's check.
  void judge(size_t check, NameCheck::Verdict verdict, const std::string& reason) {
    NameCheck& judged = out_[check];
    if (is_judged_[check] && judged.verdict >= verdict) return;
    is_judged_[check] = true;
    judged.verdict = verdict;
    judged.reason = reason;
  }

  // Of the value that an output is named as: the number of its op or, if it is an input, of the output's own check.
  size_t check_of(uint32_t output) const {
    const uint32_t value = k_.named_outputs[output];
    if (value >= k_.inputs) return value - k_.inputs;
    size_t check = k_.ops.size();
    while (out_[check].output != output) ++check;
    return check;
  }

  uint32_t node_of(uint32_t output) const {
    for (uint32_t n = 0; n < k_.nodes.size(); ++n) {
      if (std::count(k_.nodes[n].results.begin(), k_.nodes[n].results.end(), k_.inputs + output)) return n;
    }
    return NameCheck::kNone;
  }

  void check_forms() {
    for (uint32_t op = 0; op < k_.ops.size(); ++op) {
      try {
        names_->check(op);
        has_form_.push_back(true);
      } catch (const Unknown& unknown) {
        has_form_.push_back(false);
        judge(op, NameCheck::kUnknown, unknown.reason);
      } catch (const Disagreement& found) {
        has_form_.push_back(false);
        judge(op, NameCheck::kDisagrees, found.reason);
      }
    }
  }

  TermIds place_of(const std::vector<int64_t>& extents) {
    TermIds place;
    for (size_t d = 0; d < extents.size(); ++d) place.push_back(terms_.dimension(static_cast<uint32_t>(d), extents[d]));
    return place;
  }

  TermId of_nodes(uint32_t output) {
    const uint32_t tensor = k_.inputs + output;
    const std::vector<int64_t>& extents = nodes_->extents(tensor);
    return nodes_->element(tensor, place_of(extents), static_cast<uint32_t>(extents.size()));
  }

  // The ops that an output is computed from by its name.
  std::vector<uint32_t> ops_of(uint32_t output) const {
    std::vector<bool> is_used(k_.ops.size());
    std::vector<uint32_t> waiting = {k_.named_outputs[output]}, found;
    while (!waiting.empty()) {
      const uint32_t value = waiting.back();
      waiting.pop_back();
      if (value < k_.inputs || is_used[value - k_.inputs]) continue;
      is_used[value - k_.inputs] = true;
      const std::vector<uint32_t>& operands = k_.ops[value - k_.inputs].operands;
      waiting.insert(waiting.end(), operands.begin(), operands.end());
    }
    for (uint32_t op = 0; op < k_.ops.size(); ++op) {
      if (is_used[op]) found.push_back(op);
    }
    return found;
  }

  void compare(uint32_t output) {
    const std::vector<uint32_t> ops = ops_of(output);
    const uint32_t value = k_.named_outputs[output], tensor = k_.inputs + output;
    const size_t own = check_of(output);
    auto leave_unknown = [&](const std::string& why) {
      for (uint32_t op : ops) {
        if (has_form_[op]) judge(op, NameCheck::kUnknown, why);
      }
      if (value < k_.inputs) judge(own, NameCheck::kUnknown, why);
    };
    for (uint32_t op : ops) {
      if (!has_form_[op])
        return leave_unknown("an output is computed from op " + std::to_string(op) + " too, which is not known or disagrees");
    }
    try {
      const std::vector<int64_t>& extents = nodes_->extents(tensor);
      TermIds at;
      if (!reshaped(terms_, extents, names_->extents(value), place_of(extents), &at))
        throw Disagreement{"an output has another number of elements"};
      const TermId by_names =
          names_->to_storage(names_->element(value, at, static_cast<uint32_t>(extents.size())), k_.tensors[tensor].type);
      const TermId first = simplifier_.under(by_nodes_[output], {}), second = simplifier_.under(by_names, {});
      for (uint32_t op : ops) note_node(op);
      if (simplifier_.are_same(first, second, {})) {
        for (uint32_t op : ops) judge(op, NameCheck::kAgrees, "");
        if (value < k_.inputs) judge(own, NameCheck::kAgrees, "");
        return;
      }
      if (terms_[first].type != terms_[second].type) throw Disagreement{"an output has another type"};
      const std::string difference = difference_of(output, first, second);
      const std::string no_difference = "its expression has another form than the nodes', and the same values where it was computed";
      std::vector<bool> is_in_nodes(k_.ops.size());
      for (uint32_t op : ops) is_in_nodes[op] = is_found(op);
      for (uint32_t op : ops) {
        // The op that the output is has another expression, even if its own is somewhere in the nodes.
        if (is_in_nodes[op] && op + k_.inputs != value) {
          judge(op, NameCheck::kAgrees, "");
        } else if (difference.empty()) {
          judge(op, NameCheck::kTested, no_difference);
        } else if (std::all_of(k_.ops[op].operands.begin(), k_.ops[op].operands.end(),
                               [&](uint32_t operand) { return operand < k_.inputs || is_in_nodes[operand - k_.inputs]; })) {
          judge(op, NameCheck::kDisagrees, difference);
        } else {
          judge(op, NameCheck::kUnknown, "what it is computed from disagrees");
        }
      }
      const bool is_blamed = std::any_of(ops.begin(), ops.end(), [&](uint32_t op) { return out_[op].verdict == NameCheck::kDisagrees; });
      if (!difference.empty() && !is_blamed) judge(own, NameCheck::kDisagrees, difference);
      if (difference.empty() && value < k_.inputs) judge(own, NameCheck::kTested, no_difference);
    } catch (const Disagreement& found) {
      judge(own, NameCheck::kDisagrees, found.reason);
      leave_unknown("an output that is computed from it disagrees");
    } catch (const Unknown& unknown) {
      leave_unknown(unknown.reason);
    }
  }

  // All terms that nodes compute.
  void collect(TermId root) {
    TermIds waiting = {root};
    while (!waiting.empty()) {
      const TermId term = waiting.back();
      waiting.pop_back();
      if (!in_nodes_.insert(term).second) continue;
      waiting.insert(waiting.end(), terms_[term].args.begin(), terms_[term].args.end());
    }
  }

  // Whether nodes have the op's values, wherever they are asked for.
  bool is_found(uint32_t op) {
    const std::set<TermId>& instances = names_->instances(op);
    return !instances.empty() && std::all_of(instances.begin(), instances.end(), [&](TermId term) {
      return terms_.is_constant(term) || in_nodes_.contains(term) || in_nodes_.contains(simplifier_.under(term, {}));
    });
  }

  void note_node(uint32_t op) {
    for (TermId term : names_->instances(op)) {
      if (out_[op].node == NameCheck::kNone) out_[op].node = terms_[term].owner;
    }
  }

  // Where, and by how much, an output has another value by its name than by the nodes; empty if nowhere, as far as it was computed.
  std::string difference_of(uint32_t output, TermId by_nodes, TermId by_names) {
    const std::vector<int64_t>& extents = nodes_->extents(k_.inputs + output);
    const auto count = static_cast<uint64_t>(count_of(extents));
    if (count == 0) throw Unknown{"an output has no elements with which it could be tested"};
    std::vector<std::vector<int64_t>> inputs;
    for (uint32_t i = 0; i < k_.inputs; ++i) inputs.push_back(nodes_->extents(i));
    std::vector<TermValues> values;
    values.reserve(TermValues::kSeeds);
    for (uint32_t seed = 0; seed < TermValues::kSeeds; ++seed) values.emplace_back(terms_, inputs, seed, &work_);
    const size_t indices = static_cast<size_t>(std::min<uint64_t>(count, kMostIndices));
    size_t done = 0;
    uint64_t random = 1;
    try {
      for (; done < indices; ++done) {
        // All of them if there are few, else the first and the last one, and others.
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t flat = count <= kMostIndices ? done : done == 0 ? 0 : done == 1 ? count - 1 : (random >> 16) % count;
        std::vector<int64_t> index(extents.size());
        for (size_t d = extents.size(); d-- > 0;) {
          index[d] = static_cast<int64_t>(flat % static_cast<uint64_t>(extents[d]));
          flat /= static_cast<uint64_t>(extents[d]);
        }
        for (TermValues& each : values) {
          for (size_t d = 0; d < index.size(); ++d) each.set(static_cast<uint32_t>(d), index[d]);
          const Number a = each.at(by_nodes), b = each.at(by_names);
          const Scalar type = terms_[by_nodes].type;
          if (is_same(type, a, b)) continue;
          std::string where;
          for (int64_t i : index) where += (where.empty() ? "" : ", ") + std::to_string(i);
          return "output " + std::to_string(output) + " at [" + where + "] is " + shown(type, a) + " by the nodes and " + shown(type, b) +
                 " by the names, for some input";
        }
      }
    } catch (const Unknown&) {
      if (done < std::min(indices, kLeastIndices)) throw;
    }
    return {};
  }

  const Kernel& k_;
  const std::vector<int64_t>& symbols_;
  Terms terms_;
  Simplifier simplifier_{terms_};
  std::optional<NodeTerms> nodes_;
  std::optional<NameTerms> names_;
  TermIds by_nodes_;
  std::set<TermId> in_nodes_;
  std::vector<bool> has_form_, is_judged_;
  std::vector<NameCheck> out_;
  uint64_t work_ = kMostValues;
};

}  // namespace

bool integers_of(const NamedOp& op, std::string_view attribute, std::vector<int64_t>* out) {
  if (const auto* values = attribute_of<std::vector<int64_t>>(op, attribute)) {
    *out = *values;
  } else if (const auto* value = attribute_of<int64_t>(op, attribute)) {
    *out = {*value};
  } else if (const auto* flag = attribute_of<bool>(op, attribute)) {
    *out = {*flag ? 1 : 0};
  } else {
    out->clear();
    return false;
  }
  return true;
}

std::vector<NameCheck> check_names(const Kernel& kernel, const std::vector<int64_t>& symbols) {
  return Checker(kernel, symbols).run();
}

const char* name_of(NameCheck::Verdict verdict) {
  constexpr const char* kNames[] = {"agrees", "tested", "unknown", "disagrees"};
  return kNames[verdict];
}

std::string text_of_names(const std::vector<Kernel>& kernels) {
  size_t counts[4] = {};
  std::string lines;
  for (const Kernel& kernel : kernels) {
    auto with = [&](int64_t symbol) { return check_names(kernel, std::vector<int64_t>(kernel.symbols, symbol)); };
    auto worst = [](const std::vector<NameCheck>& checks) {
      NameCheck::Verdict verdict = NameCheck::kAgrees;
      for (const NameCheck& check : checks) verdict = std::max(verdict, check.verdict);
      return verdict;
    };
    std::vector<NameCheck> checks = with(3);
    if (worst(checks) != NameCheck::kAgrees && kernel.symbols > 0) {
      std::vector<NameCheck> others = with(400);
      if (worst(others) < worst(checks)) checks = std::move(others);
    }
    for (const NameCheck& check : checks) {
      ++counts[check.verdict];
      if (check.verdict == NameCheck::kAgrees) continue;
      const std::string what = check.op == NameCheck::kNone ? "output " + std::to_string(check.output) + ": its input"
                                                            : "op " + std::to_string(check.op) + ": " + kernel.ops[check.op].name;
      lines += "  kernel " + kernel.name + ": " + what + " " + name_of(check.verdict) + ": " + check.reason + "\n";
    }
  }
  return "names: " + std::to_string(counts[NameCheck::kAgrees]) + " agree, " + std::to_string(counts[NameCheck::kTested]) + " tested, " +
         std::to_string(counts[NameCheck::kUnknown]) + " unknown, " + std::to_string(counts[NameCheck::kDisagrees]) + " disagree\n" + lines;
}

}  // namespace heddle::sdk::portable
