// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See onnx_tree_tables.h. Trees of one depth or nearly so become complete ones, which need no indices of children; others are lists of nodes. If each
// tree has leaves for one target, trees are grouped by target, so that a leaf has one weight.
#include "compiler/import/onnx_tree_tables.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "compiler/import/onnx_arithmetic.h"
#include "compiler/ir/trees.h"

using namespace mlir;

namespace heddle::import {
namespace {

// Complete trees may have this many times the nodes of the trees that they are made from.
constexpr int64_t most_padding = 6, most_steps_of_complete = 14;
// Of a table.
constexpr int64_t largest_table_bytes = int64_t{1} << 31;

// A node as tx.trees has it: the child that elements up to the threshold go to is the first one.
struct Entry {
  int64_t feature = 0, first = -1, second = -1;
  double threshold = 0;
  uint8_t flags = 0;
};

class TablesBuilder {
 public:
  TablesBuilder(Node& node, Value rows, const Forest& forest)
      : node_(node), rows_(rows), forest_(forest), is_f64_(Node::type_of(rows).getElementType().isF64()) {}

  Value build() {
    read_nodes();
    measure();
    group();
    return is_complete() ? complete() : listed();
  }

 private:
  bool is_leaf(int64_t i) const { return forest_.nodes[static_cast<size_t>(i)].mode == NodeMode::leaf; }
  const Entry& entry(int64_t i) const { return entries_[static_cast<size_t>(i)]; }

  void read_nodes() {
    const auto columns = tx::static_extent(Node::extents_of(rows_)[1]);
    size_t inner = 0, strict = 0;
    for (const TreeNode& own : forest_.nodes) {
      inner += own.mode != NodeMode::leaf;
      strict += own.mode == NodeMode::lt || own.mode == NodeMode::gte;
    }
    is_strict_ = inner > 0 && strict == inner;
    for (const auto& [i, own] : llvm::enumerate(forest_.nodes)) {
      Entry& made = entries_.emplace_back();
      if (own.mode == NodeMode::leaf) {
        for (auto [target, weight] : own.weights) {
          if (target < 0 || target >= forest_.targets)
            node_.fail("a leaf is for target " + std::to_string(target) + ", and there are " + std::to_string(forest_.targets));
        }
        continue;
      }
      if (own.feature < 0 || (columns && own.feature >= *columns) || own.feature >= std::numeric_limits<int32_t>::max())
        node_.fail("node " + std::to_string(i) + " of a tree tests feature " + std::to_string(own.feature) +
                   (columns ? ", and rows have " + std::to_string(*columns) : ""));
      most_feature_ = std::max(most_feature_, own.feature);
      made.feature = own.feature;
      made.threshold = own.value;
      const bool is_turned = own.mode == NodeMode::gt || own.mode == NodeMode::gte || own.mode == NodeMode::neq;
      const bool nan_goes_true = own.missing_goes_true || own.mode == NodeMode::neq;
      made.first = is_turned ? own.if_false : own.if_true;
      made.second = is_turned ? own.if_true : own.if_false;
      if (nan_goes_true != is_turned) made.flags |= tx::nan_goes_first;
      if (own.mode == NodeMode::eq || own.mode == NodeMode::neq) made.flags |= tx::equal_goes_first;
      if ((own.mode == NodeMode::lt || own.mode == NodeMode::gte) && !is_strict_) made.flags |= tx::below_goes_first;
      for (int64_t child : {made.first, made.second}) {
        if (child < 0 || child >= static_cast<int64_t>(forest_.nodes.size()))
          node_.fail("node " + std::to_string(i) + " of a tree names a child that does not exist");
      }
      has_flags_ |= made.flags != 0;
    }
    const AffineExpr needed = node_.builder.getAffineConstantExpr(most_feature_ + 1);
    if (!columns && !node_.graph.symbols.require(Node::extents_of(rows_)[1], needed, node_.describe()))
      node_.refuse_inputs("its trees test feature " + std::to_string(most_feature_) + ", which its rows never have");
  }

  // The number of steps to the farthest leaf below each node. A node that is met again on the way to itself is a cycle.
  void measure() {
    constexpr int64_t unknown = -1, entered = -2;
    depths_.assign(entries_.size(), unknown);
    for (int64_t root : forest_.roots) {
      SmallVector<int64_t> waiting{root};
      while (!waiting.empty()) {
        const int64_t at = waiting.back();
        int64_t& depth = depths_[static_cast<size_t>(at)];
        if (depth >= 0 || is_leaf(at)) {
          depth = std::max<int64_t>(depth, 0);
          waiting.pop_back();
          continue;
        }
        int64_t below = 0;
        bool is_known = true;
        for (int64_t child : {entry(at).first, entry(at).second}) {
          const int64_t own = is_leaf(child) ? 0 : depths_[static_cast<size_t>(child)];
          if (own == entered && depth == entered) node_.fail("node " + std::to_string(child) + " of a tree is below itself");
          if (own == unknown) waiting.push_back(child);
          is_known &= own >= 0;
          below = std::max(below, own);
        }
        if (is_known) {
          depth = below + 1;
          waiting.pop_back();
        } else if (depth == entered && waiting.back() == at) {
          node_.fail("node " + std::to_string(at) + " of a tree is below itself");
        } else {
          depth = entered;
        }
      }
      steps_ = std::max(steps_, depths_[static_cast<size_t>(root)]);
    }
    if (steps_ > tx::most_tree_steps)
      node_.fail("a tree has a depth of " + std::to_string(steps_) + ", above " + std::to_string(tx::most_tree_steps),
                 HEDDLE_STATUS_UNIMPLEMENTED);
    for (const Entry& own : entries_) positions_ += own.first >= 0 ? 2 : 0;
    positions_ += static_cast<int64_t>(forest_.roots.size());
  }

  // Leaves below a tree's root all have one target: that target; -1 if they have several.
  std::vector<int64_t> targets_of_trees() const {
    constexpr int64_t none = -2, several = -1;
    std::vector<int64_t> below(entries_.size(), none);
    std::vector<bool> is_done(entries_.size());
    std::vector<int64_t> found;
    for (int64_t root : forest_.roots) {
      SmallVector<int64_t> waiting{root};
      while (!waiting.empty()) {
        const auto at = static_cast<size_t>(waiting.back());
        if (is_done[at]) {
          waiting.pop_back();
          continue;
        }
        auto join = [&](int64_t target) {
          if (target != none) below[at] = below[at] == none || below[at] == target ? target : several;
        };
        if (is_leaf(static_cast<int64_t>(at))) {
          for (auto [target, weight] : forest_.nodes[at].weights) join(target);
        } else {
          const size_t before = waiting.size();
          for (int64_t child : {entries_[at].first, entries_[at].second}) {
            if (!is_done[static_cast<size_t>(child)]) waiting.push_back(child);
          }
          if (waiting.size() > before) continue;
          for (int64_t child : {entries_[at].first, entries_[at].second}) join(below[static_cast<size_t>(child)]);
        }
        is_done[at] = true;
        waiting.pop_back();
      }
      found.push_back(below[static_cast<size_t>(root)] == none ? 0 : below[static_cast<size_t>(root)]);
    }
    return found;
  }

  // Groups of trees, by target if each tree has one.
  void group() {
    groups_.assign(1, forest_.roots);
    weights_ = forest_.targets;
    if (forest_.targets == 1) return;
    std::vector<std::vector<int64_t>> by_target(static_cast<size_t>(forest_.targets));
    for (auto [root, target] : llvm::zip_equal(forest_.roots, targets_of_trees())) {
      if (target < 0) return;
      by_target[static_cast<size_t>(target)].push_back(root);
    }
    size_t most = 0;
    for (const auto& trees : by_target) most = std::max(most, trees.size());
    if (most * by_target.size() > 2 * forest_.roots.size()) return;
    groups_ = std::move(by_target);
    weights_ = 1;
  }

  int64_t trees() const {
    size_t most = 1;
    for (const auto& group : groups_) most = std::max(most, group.size());
    return static_cast<int64_t>(most);
  }

  bool is_complete() const {
    if (steps_ > most_steps_of_complete) return false;
    const int64_t all = static_cast<int64_t>(groups_.size()) * trees() << (steps_ + 1);
    return all <= std::max<int64_t>(most_padding * positions_, 4096);
  }

  // A table of `count` elements that `write` fills, as bytes of the type.
  template <typename T>
  Value table(ArrayRef<int64_t> shape, Type element, const std::vector<T>& values, const char* what) {
    std::vector<char> bytes(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return node_.graph.made_tensor(RankedTensorType::get(shape, element), std::move(bytes), node_.output(0) + "." + what, node_.location());
  }

  Value floats(ArrayRef<int64_t> shape, const std::vector<double>& values, const char* what) {
    if (is_f64_) return table(shape, node_.builder.getF64Type(), values, what);
    std::vector<float> narrow;
    narrow.reserve(values.size());
    for (double value : values) narrow.push_back(static_cast<float>(value));
    return table(shape, node_.builder.getF32Type(), narrow, what);
  }

  Value features(ArrayRef<int64_t> shape, const std::vector<int32_t>& values) {
    Builder& b = node_.builder;
    if (most_feature_ > std::numeric_limits<uint16_t>::max()) return table(shape, b.getI32Type(), values, "features");
    const std::vector<uint16_t> narrow(values.begin(), values.end());
    return table(shape, b.getIntegerType(16, /*isSigned=*/false), narrow, "features");
  }

  double neutral() const {
    if (forest_.kind == tx::ReduceKind::sum) return 0;
    return std::numeric_limits<double>::infinity() * (forest_.kind == tx::ReduceKind::max ? -1 : 1);
  }

  // Of a leaf, for all targets or for its only one. A target that is named twice gets both, one after the other.
  void put_weights(const TreeNode& leaf, std::vector<double>& values, size_t first) const {
    for (auto [target, weight] : leaf.weights) {
      double& value = values[first + (weights_ == 1 ? 0 : static_cast<size_t>(target))];
      if (forest_.kind == tx::ReduceKind::sum) value += weight;
      if (forest_.kind == tx::ReduceKind::max) value = std::max(value, weight);
      if (forest_.kind == tx::ReduceKind::min) value = std::min(value, weight);
    }
  }

  void check_size(double elements) const {
    if (elements * 8 <= static_cast<double>(largest_table_bytes)) return;
    node_.fail("its trees need tables of " + std::to_string(static_cast<int64_t>(elements)) + " elements; at most " +
                   std::to_string(largest_table_bytes / 8) + " are supported",
               HEDDLE_STATUS_UNIMPLEMENTED);
  }

  Value make(Value features, Value thresholds, Value weights, Value children, Value roots, Value flags) {
    const auto groups = static_cast<int64_t>(groups_.size());
    MLIRContext* context = node_.builder.getContext();
    const Extents extents{Node::extents_of(rows_)[0], getAffineConstantExpr(groups, context), getAffineConstantExpr(weights_, context)};
    Value scores = node_.make<tx::TreesOp>(node_.tensor_type(extents, Node::type_of(rows_).getElementType()), forest_.kind, rows_, features,
                                           thresholds, weights, children, roots, flags, static_cast<uint64_t>(steps_), is_strict_);
    return node_.reshape(scores, {extents[0], extents[groups > 1 ? 1 : 2]});
  }

  // Trees in which every leaf is at the same depth: below a leaf that is not, all nodes lead to its weights.
  Value complete() {
    steps_ = std::max<int64_t>(steps_, 1);
    const auto groups = static_cast<int64_t>(groups_.size());
    const int64_t count = trees(), inner = (int64_t{1} << steps_) - 1, leaves = inner + 1;
    check_size(static_cast<double>(groups * count) * static_cast<double>(leaves) * static_cast<double>(weights_));
    const auto all = static_cast<size_t>(groups * count * inner);
    std::vector<int32_t> tested(all);
    std::vector<double> thresholds(all), weights(static_cast<size_t>(groups * count * leaves * weights_), neutral());
    std::vector<uint8_t> flags(has_flags_ ? all : 0);
    for (auto [g, group] : llvm::enumerate(groups_)) {
      for (auto [t, root] : llvm::enumerate(group)) {
        const size_t tree = g * static_cast<size_t>(count) + t;
        std::vector<int64_t> level{root};
        size_t at = tree * static_cast<size_t>(inner);
        for (int64_t step = 0; step < steps_; ++step) {
          std::vector<int64_t> next;
          for (int64_t own : level) {
            const Entry& from = entry(own);
            const bool goes_on = !is_leaf(own);
            if (goes_on) {
              tested[at] = static_cast<int32_t>(from.feature);
              thresholds[at] = from.threshold;
              if (has_flags_) flags[at] = from.flags;
            }
            ++at;
            next.push_back(goes_on ? from.first : own);
            next.push_back(goes_on ? from.second : own);
          }
          level = std::move(next);
        }
        for (auto [i, leaf] : llvm::enumerate(level)) {
          put_weights(forest_.nodes[static_cast<size_t>(leaf)], weights,
                      (tree * static_cast<size_t>(leaves) + i) * static_cast<size_t>(weights_));
        }
      }
    }
    const int64_t shape[] = {groups, count, inner}, of_weights[] = {groups, count, leaves, weights_};
    Value no_flags, features_value = features(shape, tested), thresholds_value = floats(shape, thresholds, "thresholds");
    Value flags_value = has_flags_ ? table(shape, node_.builder.getIntegerType(8, false), flags, "flags") : no_flags;
    return make(features_value, thresholds_value, floats(of_weights, weights, "weights"), {}, {}, flags_value);
  }

  // A list in which the children of a node are neighbors. A node that is the child of several is repeated, and what is below it is not.
  Value listed() {
    steps_ = std::max<int64_t>(steps_, 1);
    std::vector<int64_t> list;                              // nodes, by their positions
    std::vector<int64_t> children_of(entries_.size(), -1);  // positions of first children
    std::vector<int32_t> roots;
    const auto groups = static_cast<int64_t>(groups_.size());
    const int64_t count = trees();
    constexpr int64_t nothing = -1;  // a leaf without weights, for groups that have fewer trees
    size_t done = 0;
    for (const auto& group : groups_) {
      for (int64_t t = 0; t < count; ++t) {
        const bool has_tree = t < static_cast<int64_t>(group.size());
        roots.push_back(static_cast<int32_t>(list.size()));
        list.push_back(has_tree ? group[static_cast<size_t>(t)] : nothing);
        for (; done < list.size(); ++done) {
          const int64_t own = list[done];
          if (own == nothing || is_leaf(own) || children_of[static_cast<size_t>(own)] >= 0) continue;
          children_of[static_cast<size_t>(own)] = static_cast<int64_t>(list.size());
          list.push_back(entry(own).first);
          list.push_back(entry(own).second);
          if (list.size() >= std::numeric_limits<int32_t>::max() / 2)
            node_.fail("its trees have more nodes than are supported", HEDDLE_STATUS_UNIMPLEMENTED);
        }
      }
    }
    check_size(static_cast<double>(list.size()) * static_cast<double>(weights_));
    std::vector<int32_t> tested(list.size()), children(list.size());
    std::vector<double> thresholds(list.size()), weights(list.size() * static_cast<size_t>(weights_), neutral());
    std::vector<uint8_t> flags(has_flags_ ? list.size() : 0);
    for (auto [at, own] : llvm::enumerate(list)) {
      if (own == nothing || is_leaf(own)) {
        children[at] = static_cast<int32_t>(2 * at);
        if (own != nothing) put_weights(forest_.nodes[static_cast<size_t>(own)], weights, at * static_cast<size_t>(weights_));
        continue;
      }
      const Entry& from = entry(own);
      children[at] = static_cast<int32_t>(2 * children_of[static_cast<size_t>(own)] + 1);
      tested[at] = static_cast<int32_t>(from.feature);
      thresholds[at] = from.threshold;
      if (has_flags_) flags[at] = from.flags;
    }
    const auto size = static_cast<int64_t>(list.size());
    Builder& b = node_.builder;
    Value no_flags, features_value = features(size, tested), thresholds_value = floats(size, thresholds, "thresholds");
    Value children_value = table(size, b.getI32Type(), children, "children"),
          roots_value = table({groups, count}, b.getI32Type(), roots, "roots");
    Value flags_value = has_flags_ ? table(size, b.getIntegerType(8, false), flags, "flags") : no_flags;
    return make(features_value, thresholds_value, floats({size, weights_}, weights, "weights"), children_value, roots_value, flags_value);
  }

  Node& node_;
  Value rows_;
  const Forest& forest_;
  const bool is_f64_;
  std::vector<Entry> entries_;
  std::vector<int64_t> depths_;
  std::vector<std::vector<int64_t>> groups_;  // roots
  int64_t weights_ = 1;                       // of a leaf
  int64_t steps_ = 0, positions_ = 0, most_feature_ = 0;
  bool has_flags_ = false, is_strict_ = false;
};

}  // namespace

Value scores_of(Node& node, Value rows, const Forest& forest) {
  if (forest.roots.empty()) node.fail("it has no trees");
  Value scores = TablesBuilder(node, rows, forest).build();
  if (forest.kind == tx::ReduceKind::sum) return scores;
  const Arithmetic a(node);
  Value nothing = a.number(scores, std::numeric_limits<double>::infinity() * (forest.kind == tx::ReduceKind::max ? -1 : 1));
  return a.select(a.compare(tx::CompareKind::eq, scores, nothing), a.number(scores, 0), scores);
}

}  // namespace heddle::import
