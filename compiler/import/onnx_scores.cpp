// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See onnx_scores.h.
#include "compiler/import/onnx_scores.h"

#include <cmath>

#include "compiler/import/onnx_text.h"

using namespace mlir;

namespace heddle::import {
namespace {

// 1 / (1 + e^-|x|), mirrored for x below 0.
Value logistic(Node& node, Value x) {
  return node.make<tx::SigmoidOp>(Node::type_of(x), x);
}

// Winitzki's approximation of the inverse error function, as ONNX Runtime has it; NaN outside of 0 to 1.
Value probit(Node& node, Value score) {
  const Arithmetic a(node);
  const double third = 0.147, pi = 3.14159;
  Value x = a.sub(a.mul(score, a.number(score, 2)), a.number(score, 1)), one = a.number(score, 1);
  Value logarithm = node.make<tx::LogOp>(Node::type_of(x), a.mul(a.sub(one, x), a.add(one, x)));
  Value v = a.add(a.number(score, 2 / (pi * third)), a.mul(a.number(score, 0.5), logarithm));
  Value inner = a.sqrt(a.sub(a.mul(v, v), a.mul(a.number(score, 1 / third), logarithm)));
  Value size = a.sqrt(a.sub(inner, v)), is_negative = a.compare(tx::CompareKind::lt, x, a.number(score, 0));
  Value inverse = a.select(is_negative, node.make<tx::NegOp>(Node::type_of(size), size), size);
  return a.mul(inverse, a.number(score, 1.41421356));
}

// Scores near 0 have no part in the sum, and stay near 0.
Value softmax_zero(Node& node, Value scores) {
  const Arithmetic a(node);
  const Extents extents = Node::extents_of(scores);
  auto exponential = [&](Value x) { return node.make<tx::ExpOp>(Node::type_of(x), x); };
  Value most = node.broadcast(a.reduce(tx::ReduceKind::max, scores, {1}), extents);
  Value counts = a.compare(tx::CompareKind::gt, a.abs(scores), a.number(scores, 1e-7));
  Value others = a.mul(scores, exponential(node.make<tx::NegOp>(Node::type_of(most), most)));
  Value terms = exponential(a.sub(scores, most));
  Value sum = a.reduce(tx::ReduceKind::sum, a.select(counts, terms, a.number(scores, 0)), {1});
  return a.div(a.select(counts, terms, others), node.broadcast(sum, extents));
}

}  // namespace

PostTransform post_transform_of(Node& node) {
  const std::pair<const char*, PostTransform> known[] = {{"NONE", PostTransform::none},
                                                         {"SOFTMAX", PostTransform::softmax},
                                                         {"LOGISTIC", PostTransform::logistic},
                                                         {"SOFTMAX_ZERO", PostTransform::softmax_zero},
                                                         {"PROBIT", PostTransform::probit}};
  const std::string name = node.text("post_transform", "NONE");
  for (const auto& [text, transform] : known) {
    if (name == text) return transform;
  }
  node.fail("post_transform '" + name + "' is not one of NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO and PROBIT");
}

Value rows_of(Node& node, Value input, bool keeps_f64) {
  const Type own = Node::type_of(input).getElementType();
  const Extents extents = Node::extents_of(input);
  if (extents.empty() || extents.size() > 2) node.refuse_inputs("its input needs rank 1 or 2, rows of features");
  if (own.isInteger(1)) node.refuse_inputs("its input has bools");
  if (extents.size() == 1) input = node.reshape(input, {node.builder.getAffineConstantExpr(1), extents[0]});
  return keeps_f64 && own.isF64() ? input : node.converted(input, node.builder.getF32Type());
}

Value transformed(Node& node, Value scores, PostTransform transform) {
  if (transform != PostTransform::probit && tx::is_one(Node::extents_of(scores)[1])) return scores;
  switch (transform) {
    case PostTransform::none:
      return scores;
    case PostTransform::softmax:
      return node.make<tx::SoftmaxOp>(Node::type_of(scores), scores, node.builder.getI64IntegerAttr(1), UnitAttr());
    case PostTransform::logistic:
      return logistic(node, scores);
    case PostTransform::softmax_zero:
      return softmax_zero(node, scores);
    case PostTransform::probit:
      return probit(node, scores);
  }
  llvm_unreachable("all transforms are handled");
}

Value two_scores(Node& node, Value score, PostTransform transform, bool is_mixed) {
  const Arithmetic a(node);
  if (transform == PostTransform::probit) node.unsupported("post_transform PROBIT of a single score for two classes is not supported");
  Value negative = node.make<tx::NegOp>(Node::type_of(score), score), other = is_mixed ? negative : a.sub(a.number(score, 1), score);
  if (transform == PostTransform::logistic) {
    other = logistic(node, negative);
    score = logistic(node, score);
  }
  const Extents extents{Node::extents_of(score)[0], node.builder.getAffineConstantExpr(2)};
  return node.make<tx::ConcatOp>(node.tensor_type(extents, Node::type_of(score).getElementType()), ValueRange{other, score},
                                 node.builder.getI64IntegerAttr(1));
}

Value vector_like(Node& node, Value like, ArrayRef<double> numbers) {
  const Type element = Node::type_of(like).getElementType();
  const RankedTensorType type = RankedTensorType::get(static_cast<int64_t>(numbers.size()), element);
  std::vector<char> bytes;
  auto append = [&](auto number) {
    const auto* first = reinterpret_cast<const char*>(&number);
    bytes.insert(bytes.end(), first, first + sizeof(number));
  };
  for (double number : numbers) {
    if (element.isF64()) append(number);
    if (element.isF32()) append(static_cast<float>(number));
  }
  if (!element.isF32() && !element.isF64()) node.fail("its numbers are neither f32 nor f64", HEDDLE_STATUS_UNIMPLEMENTED);
  return node.graph.made_tensor(type, std::move(bytes), node.output(0) + ".numbers", node.location());
}

Value plus_columns(Node& node, Value rows, ArrayRef<double> numbers) {
  if (llvm::all_of(numbers, [](double number) { return number == 0; })) return rows;
  const RankedTensorType type = Node::type_of(rows);
  return node.make<tx::AddOp>(type, rows, node.broadcast(vector_like(node, rows, numbers), tx::extents(type)));
}

ClassLabels labels_of(Node& node, const char* integers, const char* strings) {
  ClassLabels labels;
  if (node.has_attribute(strings)) labels.strings = node.text_list(strings);
  if (labels.strings.empty() || node.has_attribute(integers)) labels.integers = node.integer_list(integers);
  if (!labels.strings.empty() && !labels.integers.empty()) node.fail(std::string("it has both '") + integers + "' and '" + strings + "'");
  return labels;
}

void set_labels(Node& node, Value classes, const ClassLabels& labels) {
  auto at = [&](Value table) {
    Extents extents = Node::extents_of(classes);
    llvm::append_range(extents, llvm::drop_begin(Node::extents_of(table)));
    return node.make<tx::GatherOp>(node.tensor_type(extents, Node::type_of(table).getElementType()), table, classes,
                                   node.builder.getI64IntegerAttr(0));
  };
  if (!labels.strings.empty()) {
    const auto count = static_cast<int64_t>(labels.strings.size());
    return node.set_text(at(text_constant(node.builder, labels.strings, {count}, "the labels of " + node.describe(), node.location())));
  }
  bool counts_up = true;
  for (auto [i, label] : llvm::enumerate(labels.integers)) counts_up &= label == static_cast<int64_t>(i);
  if (counts_up) return node.set_result(classes);
  const RankedTensorType type = RankedTensorType::get(static_cast<int64_t>(labels.size()), node.builder.getI64Type());
  node.set_result(
      at(node.builder.create<tx::ConstantOp>(node.location(), type, DenseElementsAttr::get(type, ArrayRef<int64_t>(labels.integers)))));
}

Value largest_class(Node& node, Value scores) {
  const RankedTensorType type = node.tensor_type({Node::extents_of(scores)[0]}, node.builder.getI64Type());
  return node.make<tx::ArgReduceOp>(type, tx::ReduceKind::max, scores, uint64_t{1});
}

Value class_above(Node& node, Value score, double bound) {
  const Arithmetic a(node);
  Value flat = node.reshape(score, {Node::extents_of(score)[0]});
  return node.converted(a.compare(tx::CompareKind::gt, flat, a.number(flat, bound)), node.builder.getI64Type());
}

}  // namespace heddle::import
