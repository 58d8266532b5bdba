// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ensembles of decision trees of ai.onnx.ml: TreeEnsembleClassifier and TreeEnsembleRegressor, whose nodes are lists of attributes by tree and node, and
// TreeEnsemble, whose leaves have lists of their own.
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "compiler/import/onnx_scores.h"
#include "compiler/import/onnx_tree_tables.h"

using namespace mlir;

namespace heddle::import {
namespace {

using Key = std::pair<int64_t, int64_t>;  // tree, node

std::vector<double> numbers_of(Node& node, const onnx::TensorProto& tensor, const std::string& name) {
  double count = 1;
  for (int64_t extent : tensor.dims()) count *= static_cast<double>(extent);
  if (count < 0 || count > 0x1p31) node.fail("attribute '" + name + "' has extents that no list has");
  const uint64_t bytes = element_bytes(tensor.data_type());
  std::vector<char> data(static_cast<size_t>(count) * bytes);
  const std::string error = bytes == 0 ? "its type is not supported" : read_tensor(*node.graph.file, tensor, 0, data.size(), data.data());
  if (!error.empty()) node.fail("attribute '" + name + "': " + error, HEDDLE_STATUS_DATA_LOSS);
  std::vector<double> numbers(static_cast<size_t>(count));
  auto at = [&](size_t i, auto zero) {
    std::memcpy(&zero, data.data() + i * sizeof(zero), sizeof(zero));
    return zero;
  };
  for (size_t i = 0; i < numbers.size(); ++i) {
    switch (tensor.data_type()) {
      case onnx::TensorProto::FLOAT:
        numbers[i] = static_cast<double>(at(i, float{}));
        break;
      case onnx::TensorProto::DOUBLE:
        numbers[i] = at(i, double{});
        break;
      case onnx::TensorProto::UINT8:
        numbers[i] = at(i, uint8_t{});
        break;
      case onnx::TensorProto::FLOAT16: {
        llvm::APFloat half(llvm::APFloat::IEEEhalf(), llvm::APInt(16, at(i, uint16_t{})));
        bool lost;
        half.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
        numbers[i] = half.convertToDouble();
        break;
      }
      default:
        node.fail("attribute '" + name + "' has elements of " + element_type_name(tensor.data_type()) + "; floats were expected");
    }
  }
  return numbers;
}

// A list of floats, or the tensor of the same name that ends in _as_tensor.
std::vector<double> numbers_of(Node& node, const std::string& name) {
  const std::string as_tensor = name + "_as_tensor";
  if (const onnx::TensorProto* tensor = node.tensor(as_tensor.c_str())) {
    if (node.has_attribute(name.c_str()) && !node.number_list(name.c_str()).empty())
      node.fail("it has both '" + name + "' and '" + as_tensor + "'");
    return numbers_of(node, *tensor, as_tensor);
  }
  return node.has_attribute(name.c_str()) ? node.number_list(name.c_str()) : std::vector<double>();
}

void check_length(Node& node, const char* name, size_t have, size_t wanted) {
  if (have == wanted) return;
  node.fail(std::string("attribute '") + name + "' has " + std::to_string(have) + " elements; " + std::to_string(wanted) +
            " were expected");
}

NodeMode mode_of(Node& node, const std::string& name) {
  const std::pair<const char*, NodeMode> known[] = {
      {"BRANCH_LEQ", NodeMode::leq}, {"BRANCH_LT", NodeMode::lt},   {"BRANCH_GTE", NodeMode::gte}, {"BRANCH_GT", NodeMode::gt},
      {"BRANCH_EQ", NodeMode::eq},   {"BRANCH_NEQ", NodeMode::neq}, {"LEAF", NodeMode::leaf}};
  for (const auto& [text, mode] : known) {
    if (name == text) return mode;
  }
  node.fail("a node's mode '" + name + "' is none of BRANCH_LEQ, BRANCH_LT, BRANCH_GTE, BRANCH_GT, BRANCH_EQ, BRANCH_NEQ and LEAF");
}

std::string node_text(const Key& key) {
  return "node " + std::to_string(key.second) + " of tree " + std::to_string(key.first);
}

// Attributes whose names begin with `kind`, "class" or "target", say what the leaves have.
Forest read_forest(Node& node, const std::string& kind, const std::string& ids) {
  Forest forest;
  const std::vector<int64_t> trees = node.integer_list("nodes_treeids"), numbers = node.integer_list("nodes_nodeids"),
                             features = node.integer_list("nodes_featureids"), if_true = node.integer_list("nodes_truenodeids"),
                             if_false = node.integer_list("nodes_falsenodeids"),
                             missing = node.integer_list("nodes_missing_value_tracks_true", std::vector<int64_t>());
  const std::vector<std::string> modes = node.text_list("nodes_modes");
  const std::vector<double> values = numbers_of(node, "nodes_values");
  const size_t count = trees.size();
  check_length(node, "nodes_nodeids", numbers.size(), count);
  check_length(node, "nodes_featureids", features.size(), count);
  check_length(node, "nodes_truenodeids", if_true.size(), count);
  check_length(node, "nodes_falsenodeids", if_false.size(), count);
  check_length(node, "nodes_modes", modes.size(), count);
  check_length(node, "nodes_values", values.size(), count);
  if (!missing.empty()) check_length(node, "nodes_missing_value_tracks_true", missing.size(), count);

  std::map<Key, int64_t> known;
  std::set<int64_t> begun;
  for (size_t i = 0; i < count; ++i) {
    const Key key{trees[i], numbers[i]};
    if (!known.try_emplace(key, static_cast<int64_t>(i)).second) node.fail(node_text(key) + " is defined twice");
    if (begun.insert(trees[i]).second) forest.roots.push_back(static_cast<int64_t>(i));  // the first node of a tree is its root
  }
  for (size_t i = 0; i < count; ++i) {
    TreeNode& own = forest.nodes.emplace_back();
    own.mode = mode_of(node, modes[i]);
    if (own.mode == NodeMode::leaf) continue;
    own.feature = features[i];
    own.value = values[i];
    own.missing_goes_true = !missing.empty() && missing[i] != 0;
    auto child = [&](int64_t number) {
      auto found = known.find({trees[i], number});
      if (found == known.end())
        node.fail(node_text({trees[i], numbers[i]}) + " has the child " + std::to_string(number) + ", which does not exist");
      return found->second;
    };
    own.if_true = child(if_true[i]);
    own.if_false = child(if_false[i]);
  }

  const std::string of_trees = kind + "_treeids", of_nodes = kind + "_nodeids", of_weights = kind + "_weights";
  const std::vector<int64_t> leaf_trees = node.integer_list(of_trees.c_str()), leaf_nodes = node.integer_list(of_nodes.c_str()),
                             targets = node.integer_list(ids.c_str());
  const std::vector<double> weights = numbers_of(node, of_weights);
  check_length(node, of_nodes.c_str(), leaf_nodes.size(), leaf_trees.size());
  check_length(node, ids.c_str(), targets.size(), leaf_trees.size());
  check_length(node, of_weights.c_str(), weights.size(), leaf_trees.size());
  for (size_t i = 0; i < leaf_trees.size(); ++i) {
    const Key key{leaf_trees[i], leaf_nodes[i]};
    auto found = known.find(key);
    if (found == known.end()) node.fail("a weight is for " + node_text(key) + ", which does not exist");
    TreeNode& leaf = forest.nodes[static_cast<size_t>(found->second)];
    if (leaf.mode == NodeMode::leaf) leaf.weights.emplace_back(targets[i], weights[i]);  // those of other nodes are never reached
  }
  return forest;
}

// The rows, with doubles if the input has them.
Value rows_of_trees(Node& node) {
  return rows_of(node, node.input(0), /*keeps_f64=*/true);
}

Value mean_over_trees(Node& node, Value scores, const Forest& forest) {
  const Arithmetic a(node);
  return a.div(scores, a.number(scores, static_cast<double>(forest.roots.size())));
}

void tree_ensemble_regressor(Node& node) {
  Value rows = rows_of_trees(node);
  Forest forest = read_forest(node, "target", "target_ids");
  forest.targets = node.integer("n_targets", 1);
  if (forest.targets < 1 || forest.targets > largest_extent) node.fail("n_targets is " + std::to_string(forest.targets));
  const std::string aggregate = node.text("aggregate_function", "SUM");
  if (aggregate == "MIN") forest.kind = tx::ReduceKind::min;
  if (aggregate == "MAX") forest.kind = tx::ReduceKind::max;
  if (aggregate != "SUM" && aggregate != "AVERAGE" && aggregate != "MIN" && aggregate != "MAX")
    node.fail("aggregate_function '" + aggregate + "' is none of SUM, AVERAGE, MIN and MAX");
  Value scores = scores_of(node, rows, forest);
  if (aggregate == "AVERAGE") scores = mean_over_trees(node, scores, forest);
  std::vector<double> base = numbers_of(node, "base_values");
  if (!base.empty()) {
    check_length(node, "base_values", base.size(), static_cast<size_t>(forest.targets));
    scores = plus_columns(node, scores, base);
  }
  scores = transformed(node, scores, post_transform_of(node));
  node.set_result(node.converted(scores, node.builder.getF32Type()));
}

// Two classes with weights for one of them only are ONNX Runtime's binary case: the score is for the second class.
struct OneClass {
  bool holds = true, is_second = false, is_mixed = false;
};
OneClass one_class_of(const Forest& forest) {
  OneClass found;
  bool is_first = false;
  for (const TreeNode& leaf : forest.nodes) {
    for (auto [target, weight] : leaf.weights) {
      (target == 0 ? is_first : found.is_second) = true;
      found.is_mixed |= weight < 0;
    }
  }
  found.holds = !(is_first && found.is_second);
  return found;
}

void tree_ensemble_classifier(Node& node) {
  const ClassLabels labels = labels_of(node, "classlabels_int64s", "classlabels_strings");
  Value rows = rows_of_trees(node);
  Forest forest = read_forest(node, "class", "class_ids");
  forest.targets = static_cast<int64_t>(labels.size());
  if (labels.size() < 2)
    node.fail("it has " + std::to_string(labels.size()) + " classes; at least 2 are supported", HEDDLE_STATUS_UNIMPLEMENTED);
  const PostTransform transform = post_transform_of(node);
  const std::vector<double> base = numbers_of(node, "base_values");
  const OneClass one = one_class_of(forest);
  const bool is_binary = labels.size() == 2 && one.holds;
  if (is_binary && base.size() > (one.is_second ? 0 : 1))
    node.fail("base_values with weights for only one of two classes are not supported in this form", HEDDLE_STATUS_UNIMPLEMENTED);
  if (base.size() > 1) check_length(node, "base_values", base.size(), labels.size());
  if (is_binary && !one.is_second) forest.targets = 1;
  Value scores = scores_of(node, rows, forest);
  std::vector<double> of_columns = base;
  of_columns.resize(static_cast<size_t>(forest.targets));
  scores = plus_columns(node, scores, of_columns);
  Value label, result;
  const double bound = one.is_mixed ? 0 : 0.5;
  if (is_binary && one.is_second) {
    const SmallVector<int64_t> starts{0, 1}, strides{1, 1};
    const Extents column{Node::extents_of(scores)[0], node.builder.getAffineConstantExpr(1)};
    Value second = node.make<tx::SliceOp>(node.tensor_type(column, Node::type_of(scores).getElementType()), scores, starts, strides);
    label = class_above(node, second, bound);
    result = transformed(node, scores, transform);
  } else if (is_binary) {
    label = class_above(node, scores, bound);
    result = two_scores(node, scores, transform, one.is_mixed);
  } else {
    label = largest_class(node, scores);
    result = transformed(node, scores, transform);
  }
  set_labels(node, label, labels);
  if (node.wants_output(1)) node.set_result(node.converted(result, node.builder.getF32Type()), 1);
}

// ------------------------------------------------------------------------------------------------------- TreeEnsemble

class EnsembleReader {
 public:
  explicit EnsembleReader(Node& node) : node_(node) {}

  Forest read() {
    const std::vector<double> modes = tensor("nodes_modes"), splits = tensor("nodes_splits");
    const std::vector<int64_t> features = node_.integer_list("nodes_featureids"), if_true = node_.integer_list("nodes_truenodeids"),
                               if_false = node_.integer_list("nodes_falsenodeids"), true_leafs = node_.integer_list("nodes_trueleafs"),
                               false_leafs = node_.integer_list("nodes_falseleafs"),
                               missing = node_.integer_list("nodes_missing_value_tracks_true", std::vector<int64_t>());
    count_ = features.size();
    check_length(node_, "nodes_modes", modes.size(), count_);
    check_length(node_, "nodes_splits", splits.size(), count_);
    check_length(node_, "nodes_truenodeids", if_true.size(), count_);
    check_length(node_, "nodes_falsenodeids", if_false.size(), count_);
    check_length(node_, "nodes_trueleafs", true_leafs.size(), count_);
    check_length(node_, "nodes_falseleafs", false_leafs.size(), count_);
    if (!missing.empty()) check_length(node_, "nodes_missing_value_tracks_true", missing.size(), count_);
    const std::vector<int64_t> targets = node_.integer_list("leaf_targetids");
    const std::vector<double> weights = tensor("leaf_weights");
    check_length(node_, "leaf_weights", weights.size(), targets.size());
    leaves_ = targets.size();

    forest_.nodes.resize(count_ + leaves_);
    for (size_t i = 0; i < leaves_; ++i) forest_.nodes[count_ + i].weights.emplace_back(targets[i], weights[i]);
    for (size_t i = 0; i < count_; ++i) {
      TreeNode own;
      own.feature = features[i];
      own.value = splits[i];
      own.missing_goes_true = !missing.empty() && missing[i] != 0;
      own.if_true = child(i, if_true[i], true_leafs[i] != 0);
      own.if_false = child(i, if_false[i], false_leafs[i] != 0);
      constexpr NodeMode by_number[] = {NodeMode::leq, NodeMode::lt, NodeMode::gte, NodeMode::gt, NodeMode::eq, NodeMode::neq};
      constexpr int member = 6;
      const double mode = modes[i];
      if (mode >= 0 && mode < member) {
        own.mode = by_number[static_cast<size_t>(mode)];
        forest_.nodes[i] = own;
      } else if (mode == member) {
        put_members(i, own);
      } else {
        node_.fail("node " + std::to_string(i) + " has mode " + std::to_string(static_cast<int64_t>(mode)) + "; modes are 0 to 6");
      }
    }
    for (int64_t root : node_.integer_list("tree_roots")) {
      if (root < 0 || root >= static_cast<int64_t>(count_))
        node_.fail("the root " + std::to_string(root) + " is none of the " + std::to_string(count_) + " nodes");
      forest_.roots.push_back(root);
    }
    return std::move(forest_);
  }

 private:
  std::vector<double> tensor(const char* name) {
    const onnx::TensorProto* found = node_.tensor(name);
    if (!found) node_.fail(std::string("attribute '") + name + "' is missing");
    return numbers_of(node_, *found, name);
  }

  int64_t child(size_t of, int64_t index, bool is_leaf) {
    const size_t most = is_leaf ? leaves_ : count_;
    if (index < 0 || index >= static_cast<int64_t>(most))
      node_.fail("node " + std::to_string(of) + " names " + (is_leaf ? "leaf " : "node ") + std::to_string(index) + ", and there are " +
                 std::to_string(most));
    return index + (is_leaf ? static_cast<int64_t>(count_) : 0);
  }

  // A node whose elements have to be in a set becomes one node for each of its numbers. Sets end with NaN, in the order of such nodes.
  void put_members(size_t at, TreeNode own) {
    if (members_.empty()) members_ = tensor("membership_values");
    std::vector<double> numbers;
    for (; next_member_ < members_.size() && !std::isnan(members_[next_member_]); ++next_member_) numbers.push_back(members_[next_member_]);
    if (next_member_ == members_.size()) node_.fail("membership_values has no set for node " + std::to_string(at));
    ++next_member_;
    own.mode = NodeMode::eq;
    const int64_t otherwise = own.if_false;
    if (numbers.empty()) numbers.push_back(std::numeric_limits<double>::quiet_NaN());  // which nothing equals
    for (auto [i, number] : llvm::enumerate(numbers)) {
      own.value = number;
      const bool is_last = i + 1 == numbers.size();
      own.if_false = is_last ? otherwise : static_cast<int64_t>(forest_.nodes.size());
      forest_.nodes[at] = own;
      if (is_last) break;
      at = forest_.nodes.size();
      forest_.nodes.emplace_back();
    }
  }

  Node& node_;
  Forest forest_;
  size_t count_ = 0, leaves_ = 0, next_member_ = 0;
  std::vector<double> members_;
};

void tree_ensemble(Node& node) {
  const Type own = Node::type_of(node.input(0)).getElementType();
  if (!llvm::isa<FloatType>(own)) node.refuse_inputs("its input needs floats");
  Value rows = rows_of_trees(node);
  Forest forest = EnsembleReader(node).read();
  forest.targets = node.integer("n_targets", 1);
  if (forest.targets < 1 || forest.targets > largest_extent) node.fail("n_targets is " + std::to_string(forest.targets));
  enum : int64_t { average, sum, min, max };
  const int64_t aggregate = node.integer("aggregate_function", sum), transform = node.integer("post_transform", 0);
  if (aggregate < average || aggregate > max) node.fail("aggregate_function is " + std::to_string(aggregate) + "; 0 to 3 were expected");
  if (transform < 0 || transform > 4) node.fail("post_transform is " + std::to_string(transform) + "; 0 to 4 were expected");
  if (aggregate == min) forest.kind = tx::ReduceKind::min;
  if (aggregate == max) forest.kind = tx::ReduceKind::max;
  Value scores = scores_of(node, rows, forest);
  if (aggregate == average) scores = mean_over_trees(node, scores, forest);
  constexpr PostTransform by_number[] = {PostTransform::none, PostTransform::softmax, PostTransform::logistic, PostTransform::softmax_zero,
                                         PostTransform::probit};
  node.set_result(node.converted(transformed(node, scores, by_number[transform]), own));
}

}  // namespace

const Table& tree_operators() {
  static const Table table = {
      {"TreeEnsemble", tree_ensemble},
      {"TreeEnsembleClassifier", tree_ensemble_classifier},
      {"TreeEnsembleRegressor", tree_ensemble_regressor},
  };
  return table;
}

}  // namespace heddle::import
