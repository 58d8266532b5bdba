// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Losses over classes: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
#include "compiler/import/onnx_checks.h"

using namespace mlir;

namespace heddle::import {
namespace {

// The labels of samples, and which samples do not count.
struct Targets {
  Value indices;  // where a sample does not count, 0
  Value ignored;  // null if all count
};

Targets read_labels(Node& node, const Extents& scores) {
  Value labels = node.input(1);
  Extents samples{scores[0]}, own = Node::extents_of(labels);
  samples.append(scores.begin() + 2, scores.end());
  bool fits = own.size() == samples.size() && llvm::isa<IntegerType>(Node::type_of(labels).getElementType());
  for (size_t i = 0; fits && i < own.size(); ++i) fits = node.are_equal(samples[i], own[i]);
  if (!fits) node.refuse_inputs("the labels are not one integer for each sample");
  labels = node.converted(node.with_extents(labels, samples), node.builder.getI64Type());
  if (!node.has_attribute("ignore_index")) return {labels, {}};
  RankedTensorType type = Node::type_of(labels);
  DenseElementsAttr index = DenseElementsAttr::get(RankedTensorType::get({}, node.builder.getI64Type()), node.integer("ignore_index"));
  Value one = node.builder.create<tx::ConstantOp>(node.location(), index.getType(), index);
  Value ignored = node.make<tx::CompareOp>(tx::with_element_type(type, node.builder.getI1Type()), tx::CompareKind::eq, labels,
                                           node.broadcast(one, samples));
  return {node.make<tx::SelectOp>(type, ignored, node.splat(type, 0), labels), ignored};
}

// The sum of all elements.
Value sum_of(Node& node, Value value) {
  RankedTensorType type = Node::type_of(value);
  SmallVector<int64_t> axes;
  for (int64_t i = 0; i < type.getRank(); ++i) axes.push_back(i);
  return node.make<tx::ReduceOp>(RankedTensorType::get({}, type.getElementType()), tx::ReduceKind::sum, value, axes);
}

// Logarithms of probabilities, [N, C, ...], at the labels, [N, ...]: negated, weighted, reduced.
void set_loss(Node& node, Value logarithms) {
  const Extents scores = Node::extents_of(logarithms);
  const std::string reduction = node.text("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean") node.fail("reduction '" + reduction + "' is not none, sum or mean");
  Targets labels = read_labels(node, scores);
  const Extents samples = Node::extents_of(labels.indices);
  Type element = Node::type_of(logarithms).getElementType();
  RankedTensorType type = node.tensor_type(samples, element);

  Extents one_class = scores;
  one_class[1] = node.builder.getAffineConstantExpr(1);
  Value index = node.reshape(labels.indices, one_class);
  expect_inside(node, logarithms, 1, index);
  Value loss = node.make<tx::GatherElementsOp>(node.tensor_type(one_class, element), logarithms, index, node.builder.getI64IntegerAttr(1));
  loss = node.make<tx::NegOp>(type, node.reshape(loss, samples));

  Value weights;
  if (node.has_input(2)) {
    Value given = node.input(2);
    Extents own = Node::extents_of(given);
    if (own.size() != 1 || !node.are_equal(own[0], scores[1])) node.refuse_inputs("the weights are not one number for each class");
    weights = node.make<tx::GatherOp>(tx::with_element_type(type, Node::type_of(given).getElementType()), given, labels.indices,
                                      node.builder.getI64IntegerAttr(0));
    weights = node.converted(weights, element);
    loss = node.make<tx::MulOp>(type, loss, weights);
  } else if (labels.ignored) {
    weights = node.splat(type, 1);
  }
  if (labels.ignored) {
    Value zero = node.splat(type, 0);
    loss = node.make<tx::SelectOp>(type, labels.ignored, zero, loss);
    weights = node.make<tx::SelectOp>(type, labels.ignored, zero, weights);
  }
  if (reduction == "none") return node.set_result(loss);
  Value total = sum_of(node, loss);
  if (reduction == "sum") return node.set_result(total);
  Value count;
  if (weights) {
    count = sum_of(node, weights);
  } else {
    count = node.converted(node.extent_value(node.count_of(samples)), element);
  }
  node.set_result(node.make<tx::DivOp>(Node::type_of(total), total, count));
}

Value read_scores(Node& node) {
  Value scores = node.input(0);
  if (Node::type_of(scores).getRank() < 2 || !llvm::isa<FloatType>(Node::type_of(scores).getElementType()))
    node.refuse_inputs("the scores need rank 2 or more, and floats");
  return scores;
}

void negative_log_likelihood_loss(Node& node) {
  set_loss(node, read_scores(node));
}

void softmax_cross_entropy_loss(Node& node) {
  Value scores = read_scores(node);
  Value logarithms = node.make<tx::SoftmaxOp>(Node::type_of(scores), scores, node.builder.getI64IntegerAttr(1), node.builder.getUnitAttr());
  if (node.wants_output(1)) node.set_result(logarithms, 1);
  set_loss(node, logarithms);
}

}  // namespace

const Table& loss_operators() {
  static const Table table = {
      {"NegativeLogLikelihoodLoss", negative_log_likelihood_loss},
      {"SoftmaxCrossEntropyLoss", softmax_cross_entropy_loss},
  };
  return table;
}

}  // namespace heddle::import
