// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "heddle/sdk/target/plugin.h"

#include "heddle/sdk/portable/text.h"

namespace heddle::sdk::target {

int64_t integer_of(const Hello& hello, std::string_view name, int64_t otherwise) {
  for (const Fact& fact : hello.facts) {
    if (fact.name == name && fact.kind == HEDDLE_OPTION_INT) return fact.integer;
  }
  return otherwise;
}

std::string text_of(const Hello& hello, std::string_view name, const std::string& otherwise) {
  for (const Fact& fact : hello.facts) {
    if (fact.name == name && fact.kind == HEDDLE_OPTION_STRING) return fact.text;
  }
  return otherwise;
}

std::string text_of(const Graph& graph, const std::vector<portable::Kernel>& kernels) {
  // Extents are shown as those of portable code are, whose kinds have the same numbers.
  portable::Kernel values;
  for (const Expression& e : graph.expressions)
    values.expressions.push_back({static_cast<portable::Expression::Kind>(e.kind), e.value, e.a, e.b});
  std::string text = "graph " + graph.function + ": " + std::to_string(graph.nodes.size()) + " nodes in " +
                     std::to_string(graph.group_count) + " groups, " + std::to_string(graph.symbol_count) + " symbols\n";
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    text += "  value " + std::to_string(v) + ": " + portable::text_of(values, {value.type, value.extents});
    if (value.flags & HEDDLE_TARGET_VALUE_KNOWN) text += ", known when the model is loaded";
    if (value.flags & HEDDLE_TARGET_VALUE_LEAVES) text += ", leaves the graph";
    text += "\n";
  }
  const auto list = [](const std::vector<uint32_t>& numbers) {
    std::string out;
    for (uint32_t number : numbers) out += (out.empty() ? "" : ", ") + std::to_string(number);
    return out;
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    text += "  node " + std::to_string(n) + ": " + node.name + (node.location.empty() ? "" : " '" + node.location + "'") + ", group " +
            std::to_string(node.group) + ", kernel " + std::to_string(node.kernel) + ", values " + list(node.inputs) + " -> " +
            list(node.outputs) + "\n";
  }
  for (size_t k = 0; k < kernels.size(); ++k) text += std::to_string(k) + " = " + portable::text_of(kernels[k]);
  return text;
}

}  // namespace heddle::sdk::target
