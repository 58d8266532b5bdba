// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Texts whose tokens are only counted: StringNormalizer, Tokenizer and TfIdfVectorizer, one behind the other. Tokens are then found in the bytes of the
// texts (tx.ngrams), and are no tensor.
#pragma once

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

// What an expression matches: a character of a set, or `least` of them and more.
struct Characters {
  std::vector<bool> ascii = std::vector<bool>(128, false);
  bool others = false;  // all that are not ASCII
  bool is_run = false;
  int64_t least = 1;
};

// The characters of the tokens of a Tokenizer, by the node's attributes.
Characters token_characters(Node& tokenizer);

// Letters from U+0080 to U+07FF have two bytes in UTF-8: 110xxxxx 10xxxxxx.
inline constexpr int32_t first_of_two = 0x80, codes_of_two = 0x800;
// Of codes below codes_of_two, the letter in the other case, if that has as many bytes.
std::vector<int32_t> codes_in_case(const Node& node, bool upper);

// Nodes of a graph between texts and their counts.
struct TokenChain {
  const onnx::NodeProto* normalizer = nullptr;      // of `tokenizer`'s input; null if there is none, or it removes stop words
  std::vector<const onnx::NodeProto*> token_nodes;  // a Tokenizer, and nodes that only flatten its result
  const onnx::NodeProto* counts = nullptr;          // TfIdfVectorizer
};
// The chains of a graph, in which nothing else reads the tokens.
std::vector<TokenChain> token_chains(const onnx::GraphProto& graph);
// The counts of a chain; `counts` and `tokenizer` are its nodes. False if they need a tensor of tokens.
bool count_tokens(const TokenChain& chain, Node& counts, Node& tokenizer);

}  // namespace heddle::import
