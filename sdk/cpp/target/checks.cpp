// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See checks.h.
#include "heddle/sdk/target/checks.h"

#include <algorithm>
#include <set>

#include "heddle/code.h"

namespace heddle::sdk::target {

namespace {

constexpr size_t most_entries = 64, most_expressions = 65536, most_guards = 64;
constexpr size_t most_shown = 300;

bool is_plain(char c) {
  return c >= ' ' && c <= '~';
}

std::string shown(std::string_view text) {
  std::string out(text.substr(0, most_shown));
  std::replace_if(out.begin(), out.end(), [](char c) { return !is_plain(c); }, '?');
  return out;
}

bool is_printable(std::string_view text, size_t most) {
  return !text.empty() && text.size() <= most && std::all_of(text.begin(), text.end(), is_plain);
}

// What an expression lacks; empty: nothing. The host program computes them, so there is no division by what is not a positive constant.
std::string why_no_expression(const std::vector<Expression>& all, uint32_t symbols) {
  if (all.size() > most_expressions)
    return "it has " + std::to_string(all.size()) + " expressions, more than " + std::to_string(most_expressions);
  for (size_t i = 0; i < all.size(); ++i) {
    const Expression& one = all[i];
    const std::string which = "expression " + std::to_string(i);
    if (one.kind == HEDDLE_TARGET_CONSTANT) continue;
    if (one.kind == HEDDLE_TARGET_SYMBOL) {
      if (one.value < 0 || one.value >= static_cast<int64_t>(symbols))
        return which + " is symbol " + std::to_string(one.value) + ", and there are " + std::to_string(symbols);
      continue;
    }
    if (one.kind < HEDDLE_TARGET_ADD || one.kind > HEDDLE_TARGET_MODULO)
      return which + " is of kind " + std::to_string(one.kind) + ", which is not known";
    if (one.a >= i || one.b >= i) return which + " has operands that do not come before it";
    if (one.kind >= HEDDLE_TARGET_FLOOR_DIVIDE && (all[one.b].kind != HEDDLE_TARGET_CONSTANT || all[one.b].value <= 0))
      return which + " divides by something other than a positive constant";
  }
  return {};
}

}  // namespace

bool owns_format(std::string_view family, std::string_view format) {
  // Formats of this project stay its own, whatever a target is called.
  for (std::string_view own :
       {HEDDLE_CODE_X86_64_ELF, HEDDLE_CODE_PTX, HEDDLE_CODE_CUBIN, HEDDLE_CODE_HSACO, HEDDLE_CODE_SPIRV, HEDDLE_CODE_PORTABLE}) {
    if (own.substr(0, own.find('/')) == format.substr(0, format.find('/'))) return false;
  }
  if (!format.starts_with(family) || format.size() == family.size()) return false;
  const char next = format[family.size()];
  return next == '/' || next == '-' || next == '_' || next == '.';
}

std::string check(const Kernel& kernel, const Code& code, const CodeRules& rules) {
  if (code.bytes.size() > rules.most_bytes)
    return "the code has " + std::to_string(code.bytes.size()) + " bytes, more than the " + std::to_string(rules.most_bytes) +
           " that it may have";
  if (code.bytes.empty()) return "the code is empty";
  if (!is_printable(code.format, 64) || code.format.find('/') == std::string::npos)
    return "the format is '" + shown(code.format) + "'; NAME/VERSION was expected";
  if (!rules.takes_foreign_formats && !owns_format(rules.family, code.format)) {
    return "the format '" + code.format + "' does not belong to target '" + rules.family + "', which may have '" + rules.family +
           "/1' or '" + rules.family + "-elf/1'; --foreign-formats allows others";
  }
  if (code.format.starts_with("portable/")) return "it returned portable code, which the compiler writes itself";
  if (!is_printable(code.target, 64))
    return "the target within the format is '" + shown(code.target) + "'; 1 to 64 printable bytes were expected";
  if (std::string wrong = why_no_expression(code.expressions, kernel.symbol_count); !wrong.empty()) return wrong;
  if (code.entries.empty()) return "the code has no entry";
  if (code.entries.size() > most_entries)
    return "the code has " + std::to_string(code.entries.size()) + " entries, more than " + std::to_string(most_entries);
  std::set<std::string> names;
  for (const Entry& entry : code.entries) {
    const std::string which = "entry '" + shown(entry.name) + "'";
    if (entry.name.empty()) return "an entry has no name; '" + kernel.name + "' was expected, or that and '_' and more";
    const bool is_named = entry.name == kernel.name || entry.name.starts_with(kernel.name + "_");
    if (!is_named || entry.name.size() > 255 ||
        entry.name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != std::string::npos)
      return which + " has another name than '" + kernel.name + "', or that and '_' and more";
    if (!names.insert(entry.name).second) return which + " is there twice";
    if (entry.guards.size() > most_guards) return which + " has more than " + std::to_string(most_guards) + " guards";
    for (const Guard& guard : entry.guards) {
      if (guard.expression >= code.expressions.size() || guard.min > guard.max)
        return which + " has a guard without an expression or without a range";
    }
    if (entry.guards.empty() && &entry != &code.entries.back()) return which + " has no guards, and is not the last";
    if (entry.workgroups >= code.expressions.size()) return which + " has no expression for its number of workgroups";
    const Expression& workgroups = code.expressions[entry.workgroups];
    if (workgroups.kind == HEDDLE_TARGET_CONSTANT && (workgroups.value < 1 || workgroups.value > UINT32_MAX))
      return which + " has " + std::to_string(workgroups.value) + " workgroups";
    if (entry.binding_count != kernel.input_count + kernel.output_count) {
      return which + " has " + std::to_string(entry.binding_count) + " bindings, and the kernel " +
             std::to_string(kernel.input_count + kernel.output_count);
    }
    if (entry.constants_bytes != kernel.symbol_count * 8)
      return which + " has " + std::to_string(entry.constants_bytes) + " bytes of constants, and the kernel " +
             std::to_string(kernel.symbol_count * 8);
    if (entry.workgroup_size == 0 || entry.subgroup_size > entry.workgroup_size)
      return which + " has workgroups of " + std::to_string(entry.workgroup_size) + " threads, and subgroups of " +
             std::to_string(entry.subgroup_size);
    auto exceeds = [&](const char* what, uint64_t needed, uint64_t limit) {
      return needed <= limit ? std::string()
                             : which + " needs " + std::to_string(needed) + " " + what + ", more than the " + std::to_string(limit) +
                                   " of its manifest";
    };
    for (const std::string& wrong : {exceeds("threads of a workgroup", entry.workgroup_size, rules.limits.workgroup_size),
                                     exceeds("bytes of shared memory", entry.shared_memory_bytes, rules.limits.shared_memory_bytes),
                                     exceeds("bytes of workspace", entry.workspace_bytes, rules.limits.workspace_bytes)}) {
      if (!wrong.empty()) return wrong;
    }
  }
  return {};
}

std::string check(const Graph& graph, size_t kernel_count) {
  auto wrong = [](const char* what, uint64_t number, uint64_t count) {
    return "the graph refers to " + std::string(what) + " " + std::to_string(number) + ", and has " + std::to_string(count);
  };
  for (size_t i = 0; i < graph.expressions.size(); ++i) {
    const Expression& one = graph.expressions[i];
    if (one.kind == HEDDLE_TARGET_CONSTANT) continue;
    if (one.kind == HEDDLE_TARGET_SYMBOL) {
      if (one.value < 0 || one.value >= static_cast<int64_t>(graph.symbol_count))
        return wrong("symbol", static_cast<uint64_t>(one.value), graph.symbol_count);
    } else if (one.kind < HEDDLE_TARGET_ADD || one.kind > HEDDLE_TARGET_MODULO) {
      return "the graph has an expression of kind " + std::to_string(one.kind) + ", which is not known";
    } else if (one.a >= i || one.b >= i) {
      return wrong("an expression before", std::max(one.a, one.b), i);
    }
  }
  for (const Value& value : graph.values) {
    for (uint32_t extent : value.extents) {
      if (extent >= graph.expressions.size()) return wrong("expression", extent, graph.expressions.size());
    }
  }
  for (const Node& node : graph.nodes) {
    if (node.kernel >= kernel_count) return wrong("kernel", node.kernel, kernel_count);
    if (node.group >= graph.group_count) return wrong("group", node.group, graph.group_count);
    for (const std::vector<uint32_t>* list : {&node.inputs, &node.outputs}) {
      for (uint32_t value : *list) {
        if (value >= graph.values.size()) return wrong("value", value, graph.values.size());
      }
    }
  }
  return {};
}

std::string check(const Graph& graph, const Answer& answer) {
  for (const Claim& claim : answer.claims) {
    if (!is_printable(claim.name, 64)) return "a claim's name is '" + shown(claim.name) + "'; 1 to 64 printable bytes were expected";
  }
  for (const Refusal& refusal : answer.refusals) {
    if (refusal.node >= graph.nodes.size())
      return "a refusal is of node " + std::to_string(refusal.node) + ", and there are " + std::to_string(graph.nodes.size());
  }
  return {};
}

std::string compare_records(const Code& said, const Code& found) {
  for (const Entry& entry : said.entries) {
    const auto at = std::find_if(found.entries.begin(), found.entries.end(), [&](const Entry& other) { return other.name == entry.name; });
    if (at == found.entries.end()) return "entry '" + entry.name + "' is not in the code, says its own inspect";
    struct Compared {
      const char* what;
      uint64_t said, found;
    };
    for (const Compared& one : {Compared{"bindings", entry.binding_count, at->binding_count},
                                {"bytes of constants", entry.constants_bytes, at->constants_bytes},
                                {"threads of a workgroup", entry.workgroup_size, at->workgroup_size},
                                {"threads of a subgroup", entry.subgroup_size, at->subgroup_size},
                                {"bytes of shared memory", entry.shared_memory_bytes, at->shared_memory_bytes},
                                {"bytes of workspace", entry.workspace_bytes, at->workspace_bytes}}) {
      if (one.said == one.found) continue;
      return "entry '" + entry.name + "' has " + std::to_string(one.said) + " " + one.what + " in its record, and " +
             std::to_string(one.found) + " in the code, says its own inspect";
    }
  }
  return {};
}

}  // namespace heddle::sdk::target
