// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/placements.h"

#include <algorithm>

#include "compiler/ir/tx.h"
#include "llvm/Support/JSON.h"

namespace heddle::import {
namespace {

// The letters of a pattern, for comparing it with names.
std::string plain(llvm::StringRef pattern) {
  std::string text;
  for (char c : pattern) {
    if (!llvm::StringRef("*?[]{}\\").contains(c)) text += c;
  }
  return text;
}

std::string spelled(llvm::StringRef kind, llvm::StringRef name) {
  return kind.empty() ? name.str() : kind.str() + ":" + name.str();
}

}  // namespace

std::string Placements::add(llvm::StringRef text) {
  auto wrong = [&](const std::string& cause) {
    return "compiler: placement '" + llvm::json::fixUTF8(text) + "' is not understood: " + cause;
  };
  if (!llvm::json::isUTF8(text)) return wrong("it is not UTF-8 text");  // it is shown in the report
  auto [pattern, slot] = text.rsplit('=');
  if (slot.empty() || pattern.empty()) return wrong("it is written PATTERN=@slot, such as Softmax_1=@host or op:Softmax=@host");
  if (!tx::is_slot_name(slot)) return wrong("'" + slot.str() + "' names no slot; use default, or @ with letters, digits, '_', '-' and '.'");
  llvm::StringRef kind;
  for (llvm::StringRef known : {"op", "input", "output"}) {
    if (pattern.consume_front((known + ":").str())) {
      kind = known;
      break;
    }
  }
  constexpr size_t most_alternatives = 1024;  // of {a,b}{c,d}...
  auto glob = llvm::GlobPattern::create(pattern, most_alternatives);
  if (!glob) return wrong("its pattern: " + llvm::toString(glob.takeError()));
  rules_.push_back({text.str(), kind.str(), slot.str(), std::move(*glob)});
  return "";
}

const Placements::Rule* Placements::find(std::vector<Question> questions) {
  Rule* found = nullptr;
  if (rules_.empty()) return found;
  for (const Question& question : questions) asked_.emplace(question.kind, question.name);
  for (Rule& rule : rules_) {
    bool fits = std::any_of(questions.begin(), questions.end(),
                            [&](const Question& question) { return rule.kind == question.kind && rule.pattern.match(question.name); });
    if (!fits) continue;
    rule.used = true;
    found = &rule;
  }
  return found;
}

const Placements::Rule* Placements::of_node(llvm::StringRef name, llvm::StringRef op_type) {
  return find({{"", name}, {"op", op_type}});
}

std::string Placements::unmatched() const {
  auto rule = std::find_if(rules_.begin(), rules_.end(), [](const Rule& one) { return !one.used; });
  if (rule == rules_.end()) return "";
  // A node is easily confused with the operator of the same name.
  auto alike = [](llvm::StringRef a, llvm::StringRef b) { return a == b || ((a.empty() || a == "op") && (b.empty() || b == "op")); };
  std::string wanted = plain(llvm::StringRef(rule->text).rsplit('=').first.substr(rule->kind.empty() ? 0 : rule->kind.size() + 1));
  std::vector<std::pair<unsigned, std::string>> near;
  for (const auto& [kind, name] : asked_) {
    constexpr unsigned farthest = 64;
    if (alike(rule->kind, kind))
      near.emplace_back(llvm::StringRef(wanted).edit_distance_insensitive(name, true, farthest), spelled(kind, name));
  }
  std::sort(near.begin(), near.end());
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(near.size(), 3); ++i) names += (i ? ", '" : "'") + near[i].second + "'";
  std::string what = rule->kind.empty() ? "node" : rule->kind == "op" ? "operator" : rule->kind;
  return "compiler: placement '" + rule->text + "' matches no " + what + " of the model" +
         (names.empty() ? "; it has none" : "; the nearest names are " + names);
}

}  // namespace heddle::import
