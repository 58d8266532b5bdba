// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See ngram_trie.h.
#include "compiler/import/ngram_trie.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace heddle::import {
namespace {

constexpr size_t most_places = size_t{1} << 30;
constexpr int32_t no_parent = -1;
constexpr int most_tries = 512;

// Words in order, which have the first `depth` symbols in common, and the place of the node that these lead to.
struct WordRange {
  size_t from, to, depth;
  int32_t place;
};

class TrieBuilder {
 public:
  TrieBuilder(const std::vector<TrieWord>& words, int32_t none) : words_(words), none_(none), order_(words.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return words_[a].symbols < words_[b].symbols; });
  }

  std::vector<TrieNode> run() {
    nodes_ = {{no_parent, 0, none_}};
    std::vector<WordRange> open = {{0, words_.size(), 0, 0}};
    for (size_t done = 0; done < open.size(); ++done) {
      WordRange own = open[done];
      for (; own.from < own.to && symbols(own.from).size() == own.depth; ++own.from)
        nodes_[static_cast<size_t>(own.place)][2] = words_[order_[own.from]].number;
      if (own.from == own.to) continue;
      std::vector<WordRange> children;
      for (size_t i = own.from; i < own.to; ++i) {
        if (i == own.from || symbols(i)[own.depth] != symbols(i - 1)[own.depth]) {
          if (!children.empty()) children.back().to = i;
          children.push_back({i, own.to, own.depth + 1, symbols(i)[own.depth]});
        }
      }
      // Children of the root are at the places of their symbols.
      const size_t base = own.depth == 0 ? 0 : base_for(children);
      if (base > most_places) return {};
      nodes_[static_cast<size_t>(own.place)][1] = static_cast<int32_t>(base);
      for (WordRange& child : children) {
        child.place += static_cast<int32_t>(base);
        take(static_cast<size_t>(child.place))[0] = own.place;
        open.push_back(child);
      }
    }
    nodes_.push_back({no_parent, 0, none_});
    return std::move(nodes_);
  }

 private:
  const std::vector<int32_t>& symbols(size_t i) const { return words_[order_[i]].symbols; }

  TrieNode& take(size_t place) {
    if (place >= nodes_.size()) nodes_.resize(place + 1, {no_parent, 0, none_});
    while (next_.size() <= place) next_.push_back(next_.size());
    next_[place] = place + 1;
    return nodes_[place];
  }
  bool is_free(size_t place) const { return place >= next_.size() || next_[place] == place; }

  // The first free place from this one on.
  size_t free_from(size_t place) {
    size_t end = place;
    while (end < next_.size() && next_[end] != end) end = next_[end];
    while (place < next_.size() && next_[place] != place) place = std::exchange(next_[place], end);
    return end;
  }

  // A base at which all children are at free places: one of the first at which the first child is, or behind all nodes.
  size_t base_for(const std::vector<WordRange>& children) {
    const auto first = static_cast<size_t>(children.front().place);
    size_t place = free_from(first);
    for (int tries = 0;; ++tries, place = free_from(place + 1)) {
      const size_t base = place - first;
      if (std::all_of(children.begin(), children.end(),
                      [&](const WordRange& child) { return is_free(base + static_cast<size_t>(child.place)); }))
        return base;
      if (tries == most_tries) return std::max(nodes_.size(), first) - first;
    }
  }

  const std::vector<TrieWord>& words_;
  const int32_t none_;
  std::vector<size_t> order_;
  std::vector<TrieNode> nodes_;
  std::vector<size_t> next_ = {1};  // of a taken place, one behind it, up to a free one; of a free place, itself
};

}  // namespace

std::vector<TrieNode> make_trie(const std::vector<TrieWord>& words, int32_t none) {
  return TrieBuilder(words, none).run();
}

}  // namespace heddle::import
