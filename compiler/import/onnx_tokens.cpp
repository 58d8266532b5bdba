// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See onnx_tokens.h: which texts have tokens that are only counted.
#include "compiler/import/onnx_tokens.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "compiler/import/onnx_microsoft.h"

namespace heddle::import {
namespace {

// Whether the node gives [rows, tokens], for tokens of one or two dimensions before, and nothing else.
bool is_flat(const onnx::NodeProto& node) {
  if (!node.domain().empty() && node.domain() != "ai.onnx") return false;
  if (node.op_type() == "Identity") return true;
  if (node.op_type() != "Flatten") return false;
  return std::all_of(node.attribute().begin(), node.attribute().end(),
                     [](const auto& one) { return one.name() != "axis" || one.i() == 1; });
}

bool has_pool_of_strings(const onnx::NodeProto& node) {
  return std::any_of(node.attribute().begin(), node.attribute().end(), [](const auto& one) { return one.name() == "pool_strings"; });
}

bool has_stop_words(const onnx::NodeProto& node) {
  return std::any_of(node.attribute().begin(), node.attribute().end(),
                     [](const auto& one) { return one.name() == "stopwords" && one.strings_size() > 0; });
}

// How often each value is read, also by graphs in attributes and as an output.
void count_reads(const onnx::GraphProto& graph, std::map<std::string_view, int>& reads) {
  for (const auto& node : graph.node()) {
    for (const std::string& input : node.input()) ++reads[input];
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) count_reads(attribute.g(), reads);
      for (const auto& part : attribute.graphs()) count_reads(part, reads);
    }
  }
  for (const auto& output : graph.output()) ++reads[output.name()];
}

}  // namespace

std::vector<TokenChain> token_chains(const onnx::GraphProto& graph) {
  if (std::none_of(graph.node().begin(), graph.node().end(), [](const auto& node) { return node.op_type() == "Tokenizer"; })) return {};
  std::map<std::string_view, const onnx::NodeProto*> makers;  // of the nodes so far; null for what is defined otherwise, or twice
  for (const auto& input : graph.input()) makers[input.name()] = nullptr;
  for (const auto& tensor : graph.initializer()) makers[tensor.name()] = nullptr;
  std::map<std::string_view, int> reads;
  count_reads(graph, reads);
  auto maker_of = [&](const onnx::NodeProto& node) -> const onnx::NodeProto* {
    if (node.input_size() != 1) return nullptr;
    const auto known = makers.find(node.input(0));
    return known != makers.end() && known->second && known->second->output_size() == 1 ? known->second : nullptr;
  };
  std::vector<TokenChain> chains;
  for (const auto& node : graph.node()) {
    for (const std::string& output : node.output()) {
      const auto [known, is_new] = makers.try_emplace(output, &node);
      if (!is_new) known->second = nullptr;
    }
    if (node.op_type() != "TfIdfVectorizer" || !node.domain().empty() || !has_pool_of_strings(node)) continue;
    TokenChain chain;
    chain.counts = &node;
    for (const onnx::NodeProto* at = maker_of(node); at && reads[at->output(0)] == 1; at = maker_of(*at)) {
      chain.token_nodes.insert(chain.token_nodes.begin(), at);
      if (!is_flat(*at)) break;
    }
    if (chain.token_nodes.empty()) continue;
    const onnx::NodeProto& first = *chain.token_nodes.front();
    if (first.op_type() != "Tokenizer" || first.domain() != microsoft_domain) continue;
    const onnx::NodeProto* before = maker_of(first);
    if (before && before->op_type() == "StringNormalizer" && before->domain().empty() && !has_stop_words(*before))
      chain.normalizer = before;
    chains.push_back(std::move(chain));
  }
  return chains;
}

}  // namespace heddle::import
