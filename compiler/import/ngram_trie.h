// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The trie of a list of n-grams, as tx.ngrams reads it. Knows neither protobuf nor IR.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace heddle::import {

// A node's parent, what is added to a symbol to get to its child, and the number of the n-gram that ends there.
using TrieNode = std::array<int32_t, 3>;

// An n-gram as the symbols from the root on, which are from 1 to 2^20, and its number.
struct TrieWord {
  std::vector<int32_t> symbols;
  int32_t number;
};

// Of two words with the same symbols, the last one counts. Places without a node have the parent -1, as the root; the last place is one, so that a
// place behind it may be clamped. Empty if there would be more than
// 2^30 places.
std::vector<TrieNode> make_trie(const std::vector<TrieWord>& words, int32_t none);

}  // namespace heddle::import
