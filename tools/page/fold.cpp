// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks are runs of commands with period p in which command i equals command i + p: the same ops, results and kernel, and its values from the same
// places of the block, from the block before, or from the same node outside. The first block may take its values from elsewhere.
#include "tools/page/fold.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace heddle::tool {
namespace {

constexpr size_t kLongestBlock = 200;

struct Fold {
  size_t first = 0, period = 0, count = 0;  // commands first + k * period + place
  size_t carried = 0;                       // values that one block hands to the next
  size_t saved() const { return (count - 1) * period; }
};

class Folder {
 public:
  explicit Folder(const Graph& graph) : graph_(graph) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node::Kind kind = graph.nodes[i].kind;
      const bool is_end = kind == Node::Kind::kArgument || kind == Node::Kind::kState || kind == Node::Kind::kResult;
      place_of_.push_back(is_end ? kNone : commands_.size());
      if (!is_end) commands_.push_back(i);
    }
    std::map<std::string, size_t> numbers;
    for (const size_t node : commands_) looks_.push_back(numbers.try_emplace(look_of(graph.nodes[node]), numbers.size()).first->second);
    is_folded_.resize(commands_.size());
  }

  std::vector<Fold> find() {
    std::vector<Fold> folds;
    for (Fold best = find_best(); best.saved() >= 2; best = find_best()) {
      std::fill_n(is_folded_.begin() + static_cast<ptrdiff_t>(best.first), best.period * best.count, true);
      folds.push_back(best);
    }
    std::sort(folds.begin(), folds.end(), [](const Fold& a, const Fold& b) { return a.first < b.first; });
    return folds;
  }

  Picture draw(const std::vector<Fold>& folds) const {
    // The node that each is drawn as, and its repetition: 0 for one that is in no block.
    const size_t count = graph_.nodes.size();
    std::vector<size_t> same(count), block(count), repetition(count);
    for (size_t i = 0; i < count; ++i) same[i] = i;
    for (size_t f = 0; f < folds.size(); ++f) {
      for (size_t i = 0; i < folds[f].period * folds[f].count; ++i) {
        const size_t node = commands_[folds[f].first + i];
        same[node] = commands_[folds[f].first + i % folds[f].period];
        block[node] = f + 1;
        repetition[node] = i / folds[f].period;
      }
    }
    fold_ends(same, block, repetition);
    Picture out;
    out.blocks = folds.size();
    out.box_of.resize(count);
    // A block may use arguments that only its later repetitions read: sources come first.
    std::vector<size_t> order;
    for (const bool is_source : {true, false}) {
      for (size_t i = 0; i < count; ++i) {
        if (graph_.nodes[i].uses.empty() == is_source) order.push_back(i);
      }
    }
    for (const size_t i : order) {
      if (same[i] == i) {
        out.box_of[i] = out.boxes.size();
        out.boxes.push_back({i, 1, block[i]});
      } else {
        out.box_of[i] = out.box_of[same[i]];
        ++out.boxes[out.box_of[i]].count;
      }
    }
    std::set<std::pair<size_t, size_t>> known;
    for (size_t i = 0; i < count; ++i) {
      for (const Use& use : graph_.nodes[i].uses) {
        if (block[i] != 0 && block[i] == block[use.from] && repetition[i] != repetition[use.from]) continue;
        if (known.emplace(out.box_of[use.from], out.box_of[i]).second) out.lines.push_back({out.box_of[use.from], out.box_of[i]});
      }
    }
    return out;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  static std::string look_of(const Node& node) {
    std::string out = node.group + '\n' + std::to_string(node.slot) + '\n' + std::to_string(node.from_slot);
    for (const std::string& op : node.ops) out += '\n' + op;
    out += "\n>";
    for (const std::string& type : node.outputs) out += '\n' + type;
    return out + '\n' + (node.region ? text(*node.region, "kernel") : std::string());
  }

  // Where a command's values are from, relative to its block.
  std::vector<std::string> sources(size_t command, const Fold& fold) const {
    std::vector<std::string> out;
    const size_t begin = fold.first + (command - fold.first) / fold.period * fold.period;
    for (const Use& use : graph_.nodes[commands_[command]].uses) {
      const size_t from = place_of_[use.from];
      if (from == kNone) {
        out.push_back(graph_.nodes[use.from].group + ' ' + use.type);
      } else if (from >= begin) {
        out.push_back("here " + std::to_string(from - begin));
      } else if (from + fold.period >= begin) {
        out.push_back("before " + std::to_string(from + fold.period - begin));
      } else {
        out.push_back("outside " + std::to_string(from));
      }
    }
    return out;
  }

  static bool is_here(const std::string& source) { return source.starts_with("here "); }

  // How many blocks from `first` are equal, at most `most`; fills `carried`.
  Fold fold_at(size_t first, size_t period, size_t most) const {
    Fold fold{first, period, 1, 0};
    std::vector<std::vector<std::string>> pattern;
    std::set<std::string> carried;
    for (; fold.count < most; ++fold.count) {
      for (size_t place = 0; place < period; ++place) {
        std::vector<std::string> own = sources(first + fold.count * period + place, fold);
        if (fold.count > 1) {
          if (own != pattern[place]) return fold;
          continue;
        }
        const std::vector<std::string> head = sources(first + place, fold);
        if (head.size() != own.size()) return fold;
        for (size_t i = 0; i < own.size(); ++i) {
          if ((is_here(own[i]) || is_here(head[i])) && own[i] != head[i]) return fold;
          if (own[i].starts_with("before ")) carried.insert(own[i]);
        }
        pattern.push_back(std::move(own));
      }
      fold.carried = carried.size();
    }
    return fold;
  }

  // The fold that leaves the fewest boxes; of equal ones the one whose blocks hand on the fewest values.
  Fold find_best() const {
    Fold best{0, 1, 1, 0};
    const size_t count = commands_.size();
    for (size_t period = 1; period <= std::min(kLongestBlock, count / 2); ++period) {
      for (size_t begin = 0; begin + period < count;) {
        size_t end = begin;
        while (end + period < count && looks_[end] == looks_[end + period] && !is_folded_[end] && !is_folded_[end + period]) ++end;
        const size_t length = end - begin;  // commands begin to end + period have this period
        for (size_t phase = 0; phase < period && phase + period <= length; ++phase) {
          const size_t most = (length - phase) / period + 1;
          if ((most - 1) * period < std::max<size_t>(best.saved(), 2)) break;
          const Fold fold = fold_at(begin + phase, period, most);
          if (fold.saved() > best.saved() || (fold.saved() == best.saved() && fold.saved() > 0 && fold.carried < best.carried)) best = fold;
        }
        begin = end + 1;
      }
    }
    return best;
  }

  // Arguments, states and results that belong to one repetition are drawn with that of the first.
  void fold_ends(std::vector<size_t>& same, std::vector<size_t>& block, std::vector<size_t>& repetition) const {
    const std::vector<Node>& nodes = graph_.nodes;
    std::vector<std::vector<size_t>> readers(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const Use& use : nodes[i].uses) readers[use.from].push_back(i);
    }
    // The end at the same place of the first repetition, by its neighbor there, its kind, and its position among the neighbor's ends.
    std::map<std::string, size_t> first_ends;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (place_of_[i] != kNone) continue;
      std::vector<size_t> neighbors = readers[i];
      for (const Use& use : nodes[i].uses) neighbors.push_back(use.from);
      if (neighbors.empty() || block[neighbors[0]] == 0 || place_of_[neighbors[0]] == kNone) continue;
      const size_t own_block = block[neighbors[0]], own_repetition = repetition[neighbors[0]];
      if (std::any_of(neighbors.begin(), neighbors.end(),
                      [&](size_t one) { return block[one] != own_block || repetition[one] != own_repetition; }))
        continue;
      std::string key = nodes[i].group;
      for (const size_t one : neighbors) key += ' ' + std::to_string(same[one]);
      size_t position = 0;
      for (size_t other = 0; other < i; ++other) {
        if (place_of_[other] == kNone && nodes[other].group == nodes[i].group && shares(other, neighbors[0])) ++position;
      }
      key += '#' + std::to_string(position);
      block[i] = own_block;
      repetition[i] = own_repetition;
      same[i] = first_ends.try_emplace(key, i).first->second;
    }
  }
  bool shares(size_t end, size_t neighbor) const {
    auto uses = [&](size_t reader, size_t from) {
      const auto& list = graph_.nodes[reader].uses;
      return std::any_of(list.begin(), list.end(), [&](const Use& use) { return use.from == from; });
    };
    return uses(end, neighbor) || uses(neighbor, end);
  }

  const Graph& graph_;
  std::vector<size_t> commands_, place_of_, looks_;
  std::vector<bool> is_folded_;
};

}  // namespace

std::vector<size_t> Picture::nodes_of(size_t box) const {
  std::vector<size_t> out;
  for (size_t i = 0; i < box_of.size(); ++i) {
    if (box_of[i] == box) out.push_back(i);
  }
  return out;
}

Picture picture_of(const Graph& graph) {
  return Folder(graph).draw({});
}

Picture folded_picture_of(const Graph& graph) {
  Folder folder(graph);
  return folder.draw(folder.find());
}

}  // namespace heddle::tool
