// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Linear models and support vector machines of ai.onnx.ml.
#include <cstring>
#include <numeric>

#include "compiler/import/onnx_data.h"
#include "compiler/import/onnx_scores.h"

using namespace mlir;

namespace heddle::import {
namespace {

std::vector<double> optional_numbers(Node& node, const char* name) {
  return node.has_attribute(name) ? node.number_list(name) : std::vector<double>();
}

// [rows, columns] of f32 from a list in row-major order.
Value coefficient_matrix(Node& node, ArrayRef<double> numbers, int64_t rows, int64_t columns, const std::string& name) {
  const RankedTensorType type = RankedTensorType::get({rows, columns}, node.builder.getF32Type());
  std::vector<float> narrow(numbers.begin(), numbers.end());
  std::vector<char> bytes(narrow.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), narrow.data(), bytes.size());
  return node.graph.made_tensor(type, std::move(bytes), node.output(0) + "." + name, node.location());
}

// The number of features, which the rows have to have.
int64_t features_of(Node& node, Value rows, size_t numbers, int64_t per_feature, const char* name) {
  const auto count = static_cast<int64_t>(numbers);
  if (per_feature <= 0 || count % per_feature != 0 || count == 0)
    node.fail(std::string("attribute '") + name + "' has " + std::to_string(count) + " elements, which are not rows for " +
              std::to_string(per_feature));
  const int64_t features = count / per_feature;
  if (!node.are_equal(Node::extents_of(rows)[1], node.builder.getAffineConstantExpr(features)))
    node.refuse_inputs("it has coefficients for " + std::to_string(features) + " features");
  return features;
}

// Products of rows with the rows of coefficients, [outputs, features], plus a number for each.
Value scores_by(Node& node, Value rows, const std::vector<double>& coefficients, int64_t outputs, const std::vector<double>& added) {
  const int64_t features = features_of(node, rows, coefficients.size(), outputs, "coefficients");
  std::vector<double> turned(coefficients.size());
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t f = 0; f < features; ++f)
      turned[static_cast<size_t>(f * outputs + o)] = coefficients[static_cast<size_t>(o * features + f)];
  }
  Value factors = coefficient_matrix(node, turned, features, outputs, "coefficients");
  const Extents rows_extents = Node::extents_of(rows), inner{rows_extents[0], node.builder.getAffineConstantExpr(features)};
  const Extents extents{rows_extents[0], node.builder.getAffineConstantExpr(outputs)};
  Value scores = node.make<tx::MatmulOp>(node.tensor_type(extents, node.builder.getF32Type()), node.with_extents(rows, inner), factors);
  return plus_columns(node, scores, added);
}

void linear_regressor(Node& node) {
  Value rows = rows_of(node, node.input(0));
  const int64_t targets = node.integer("targets", 1);
  std::vector<double> intercepts = optional_numbers(node, "intercepts");
  if (intercepts.empty()) intercepts.assign(static_cast<size_t>(std::clamp<int64_t>(targets, 0, 1 << 24)), 0);
  if (targets < 1 || static_cast<int64_t>(intercepts.size()) != targets)
    node.fail("it has " + std::to_string(targets) + " targets and " + std::to_string(intercepts.size()) + " intercepts");
  Value scores = scores_by(node, rows, node.number_list("coefficients"), targets, intercepts);
  node.set_result(transformed(node, scores, post_transform_of(node)));
}

void linear_classifier(Node& node) {
  const ClassLabels labels = labels_of(node, "classlabels_ints", "classlabels_strings");
  Value rows = rows_of(node, node.input(0));
  std::vector<double> intercepts = optional_numbers(node, "intercepts");
  if (intercepts.empty()) intercepts.assign(labels.size(), 0);
  if (intercepts.empty()) node.fail("it has no classes");
  if (intercepts.size() != labels.size() && intercepts.size() != 1)
    node.fail("it has " + std::to_string(labels.size()) + " labels and " + std::to_string(intercepts.size()) + " intercepts");
  Value scores = scores_by(node, rows, node.number_list("coefficients"), static_cast<int64_t>(intercepts.size()), intercepts);
  const PostTransform transform = post_transform_of(node);
  Value result;
  if (intercepts.size() > 1) {
    set_labels(node, largest_class(node, scores), labels);
    result = transformed(node, scores, transform);
  } else {
    if (labels.size() != 2 && !labels.strings.empty())
      node.fail("it has one intercept and " + std::to_string(labels.size()) + " labels that are strings", HEDDLE_STATUS_UNIMPLEMENTED);
    set_labels(node, class_above(node, scores, 0), labels.size() == 2 ? labels : ClassLabels{{0, 1}});
    result = labels.size() == 2 ? two_scores(node, scores, transform, /*is_mixed=*/false) : transformed(node, scores, transform);
  }
  if (node.wants_output(1)) node.set_result(result, 1);
}

// ----------------------------------------------------------------------------------------------------- support vectors

// Each row with each support vector, [N, vectors].
Value kernel_of(Node& node, Value rows, const std::vector<double>& vectors, int64_t count) {
  const Arithmetic a(node);
  std::vector<double> parameters = optional_numbers(node, "kernel_params");
  if (parameters.empty()) parameters = {0, 0, 0};
  if (parameters.size() != 3) node.fail("kernel_params has " + std::to_string(parameters.size()) + " elements; 3 were expected");
  const double gamma = parameters[0], coef0 = parameters[1], degree = parameters[2];
  const std::string kind = node.text("kernel_type", "LINEAR");
  if (kind == "RBF") {  // e^(-gamma |x - v|^2)
    const int64_t features = features_of(node, rows, vectors.size(), count, "support_vectors");
    Value all = coefficient_matrix(node, vectors, count, features, "support_vectors");
    const Extents whole{Node::extents_of(rows)[0], node.builder.getAffineConstantExpr(count), node.builder.getAffineConstantExpr(features)};
    Value difference = a.sub(a.spread(node.with_extents(rows, {whole[0], whole[2]}), whole, {0, 2}), a.spread(all, whole, {1, 2}));
    const RankedTensorType type = node.tensor_type({whole[0], whole[1]}, node.builder.getF32Type());
    Value squares = node.make<tx::ReduceOp>(type, tx::ReduceKind::sum, a.mul(difference, difference), ArrayRef<int64_t>{2});
    return node.make<tx::ExpOp>(type, a.mul(squares, a.number(squares, -gamma)));
  }
  Value products = scores_by(node, rows, vectors, count, {});
  if (kind == "LINEAR") return products;
  Value inner = a.add(a.mul(products, a.number(products, gamma)), a.number(products, coef0));
  if (kind == "POLY") return a.pow(inner, a.number(inner, degree));
  if (kind == "SIGMOID") return node.make<tx::TanhOp>(Node::type_of(inner), inner);
  node.fail("kernel_type '" + kind + "' is none of LINEAR, POLY, RBF and SIGMOID");
}

double first_of(Node& node, const char* name) {
  const std::vector<double> numbers = node.number_list(name);
  if (numbers.empty()) node.fail(std::string("attribute '") + name + "' is empty");
  return numbers[0];
}

void svm_regressor(Node& node) {
  if (post_transform_of(node) != PostTransform::none)
    node.unsupported("post_transform " + node.text("post_transform", "") + " is not supported");
  Value rows = rows_of(node, node.input(0));
  const int64_t count = node.integer("n_supports", 0);
  const std::vector<double> coefficients = node.number_list("coefficients"), rho{first_of(node, "rho")};
  Value result;
  if (count > 0) {
    if (static_cast<int64_t>(coefficients.size()) != count)
      node.fail("it has " + std::to_string(count) + " support vectors and " + std::to_string(coefficients.size()) + " coefficients");
    result = scores_by(node, kernel_of(node, rows, node.number_list("support_vectors"), count), coefficients, 1, rho);
  } else {
    result = scores_by(node, rows, coefficients, 1, rho);
  }
  if (node.integer("one_class", 0) != 0) {
    const Arithmetic a(node);
    result = a.select(a.compare(tx::CompareKind::gt, result, a.number(result, 0)), a.number(result, 1), a.number(result, -1));
  }
  node.set_result(result);
}

// Pairs of classes vote: the score of each is a sum over the support vectors of the two classes.
Value scores_of_pairs(Node& node, Value kernel, ArrayRef<int64_t> per_class, const std::vector<double>& coefficients,
                      const std::vector<double>& rho) {
  const auto classes = static_cast<int64_t>(per_class.size());
  const int64_t count = std::accumulate(per_class.begin(), per_class.end(), int64_t{0}), pairs = classes * (classes - 1) / 2;
  if (static_cast<int64_t>(coefficients.size()) != (classes - 1) * count || static_cast<int64_t>(rho.size()) < pairs)
    node.fail("it has " + std::to_string(coefficients.size()) + " coefficients and " + std::to_string(rho.size()) + " rho for " +
              std::to_string(count) + " support vectors of " + std::to_string(classes) + " classes");
  std::vector<double> factors(static_cast<size_t>(pairs * count));
  int64_t pair = 0, begin_i = 0;
  for (int64_t i = 0; i < classes; begin_i += per_class[static_cast<size_t>(i)], ++i) {
    int64_t begin_j = begin_i + per_class[static_cast<size_t>(i)];
    for (int64_t j = i + 1; j < classes; begin_j += per_class[static_cast<size_t>(j)], ++j, ++pair) {
      auto put = [&](int64_t row, int64_t begin, int64_t size) {
        for (int64_t v = begin; v < begin + size; ++v)
          factors[static_cast<size_t>(pair * count + v)] = coefficients[static_cast<size_t>(row * count + v)];
      };
      put(j - 1, begin_i, per_class[static_cast<size_t>(i)]);
      put(i, begin_j, per_class[static_cast<size_t>(j)]);
    }
  }
  return scores_by(node, kernel, factors, pairs, std::vector<double>(rho.begin(), rho.begin() + pairs));
}

// The class that wins most pairs, of several the first one.
Value class_by_votes(Node& node, Value scores, int64_t classes) {
  const Arithmetic a(node);
  const int64_t pairs = classes * (classes - 1) / 2;
  // A pair (i, j) votes for i if its score is above 0, else for j: votes = won * (to_i - to_j) + to_j.
  std::vector<double> change(static_cast<size_t>(pairs * classes)), otherwise(static_cast<size_t>(classes));
  int64_t pair = 0;
  for (int64_t i = 0; i < classes; ++i) {
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      change[static_cast<size_t>(i * pairs + pair)] = 1;
      change[static_cast<size_t>(j * pairs + pair)] = -1;
      otherwise[static_cast<size_t>(j)] += 1;
    }
  }
  Value won = node.converted(a.compare(tx::CompareKind::gt, scores, a.number(scores, 0)), node.builder.getF32Type());
  return largest_class(node, scores_by(node, won, change, classes, otherwise));
}

// Labels of an SVMClassifier, as many as it supports.
ClassLabels svm_labels(Node& node, int64_t most) {
  ClassLabels labels = labels_of(node, "classlabels_ints", "classlabels_strings");
  if (labels.size() < 2 || static_cast<int64_t>(labels.size()) > most)
    node.fail("it has " + std::to_string(labels.size()) + " classes; 2 to " + std::to_string(most) + " are supported",
              HEDDLE_STATUS_UNIMPLEMENTED);
  return labels;
}

std::vector<int64_t> vectors_per_class(const Node& node) {
  std::vector<int64_t> all = node.integer_list("vectors_per_class", std::vector<int64_t>());
  for (int64_t own : all) {
    if (own < 0 || own > largest_extent) node.fail("vectors_per_class has the element " + std::to_string(own));
  }
  return all;
}

// The scores of pairs of classes, [N, pairs].
Value pair_scores(Node& node, Value rows, ArrayRef<int64_t> per_class, size_t classes) {
  if (per_class.size() != classes)
    node.fail("it has " + std::to_string(classes) + " labels, and support vectors for " + std::to_string(per_class.size()) + " classes");
  const int64_t count = std::accumulate(per_class.begin(), per_class.end(), int64_t{0});
  Value kernel = kernel_of(node, rows, node.number_list("support_vectors"), count);
  return scores_of_pairs(node, kernel, per_class, node.number_list("coefficients"), node.number_list("rho"));
}

void svm_classifier(Node& node) {
  const ClassLabels labels = svm_labels(node, 1024);
  const auto classes = static_cast<int64_t>(labels.size());
  Value rows = rows_of(node, node.input(0));
  const std::vector<int64_t> per_class = vectors_per_class(node);
  const std::vector<double> coefficients = node.number_list("coefficients");
  const PostTransform transform = post_transform_of(node);
  Value label, result;
  if (llvm::all_of(per_class, [](int64_t own) { return own == 0; })) {
    const Arithmetic a(node);
    const std::vector<double> rho(labels.size(), first_of(node, "rho"));
    Value scores = scores_by(node, rows, coefficients, classes, rho);
    label = largest_class(node, scores);
    if (classes == 2) {  // the second one also if the larger score is above a bound
      const bool is_positive = llvm::all_of(coefficients, [](double one) { return one >= 0; });
      Value most = node.reshape(a.reduce(tx::ReduceKind::max, scores, {1}), {Node::extents_of(scores)[0]});
      Value is_second =
          is_positive ? a.compare(tx::CompareKind::ge, most, a.number(most, 0.5)) : a.compare(tx::CompareKind::gt, most, a.number(most, 0));
      label = a.select(is_second, a.number(label, 1), label);
    }
    result = transformed(node, scores, transform);
  } else {
    Value scores = pair_scores(node, rows, per_class, labels.size());
    label = class_by_votes(node, scores, classes);
    result = classes == 2 ? two_scores(node, scores, transform, transform == PostTransform::none) : transformed(node, scores, transform);
  }
  set_labels(node, label, labels);
  if (node.wants_output(1)) node.set_result(result, 1);
}

// Of each pair of classes (i, j), [N, pairs], the probability of i, as matrices Q [N, classes, classes]: the probabilities p of the classes are those
// for which p Q p is least. Q has -r(i, j) r(j, i), and the sum of the r(j, i)^2 on its diagonal.
Value coupled(Node& node, Value pairs, int64_t classes) {
  const Arithmetic a(node);
  const AffineExpr rows = Node::extents_of(pairs)[0];
  const int64_t count = classes * (classes - 1) / 2;
  std::vector<int64_t> from(static_cast<size_t>(classes * classes), 2 * count), turned = from;  // the last column is of zeros
  int64_t pair = 0;
  for (int64_t i = 0; i < classes; ++i) {
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      const auto ij = static_cast<size_t>(i * classes + j), ji = static_cast<size_t>(j * classes + i);
      from[ij] = turned[ji] = pair;
      from[ji] = turned[ij] = count + pair;
    }
  }
  Value zeros = node.splat(node.tensor_type({rows, node.builder.getAffineConstantExpr(1)}, node.builder.getF32Type()), 0);
  Value all = node.concatenated({pairs, a.sub(a.number(pairs, 1), pairs), zeros}, 1);
  const AffineExpr size = node.builder.getAffineConstantExpr(classes);
  const Extents square{rows, size, size};
  auto matrix = [&](ArrayRef<int64_t> columns) {
    auto type = RankedTensorType::get({static_cast<int64_t>(columns.size())}, node.builder.getI64Type());
    return node.reshape(taken(node, all, node.make<tx::ConstantOp>(type, DenseElementsAttr::get(type, columns)), 1), square);
  };
  Value r = matrix(from), other = matrix(turned);
  Value diagonal = node.broadcast(a.reduce(tx::ReduceKind::sum, a.mul(other, other), {2}), square);
  Value is_diagonal =
      a.compare(tx::CompareKind::eq, a.iota(square, 1, node.builder.getI64Type()), a.iota(square, 2, node.builder.getI64Type()));
  return a.select(is_diagonal, diagonal, node.make<tx::NegOp>(Node::type_of(r), a.mul(r, other)));
}

}  // namespace

bool has_probabilities(const onnx::NodeProto& node) {
  return node.op_type() == "SVMClassifier" &&
         llvm::any_of(node.attribute(),
                      [](const auto& attribute) { return attribute.name() == "prob_a" && attribute.floats_size() > 0; }) &&
         llvm::any_of(node.attribute(), [](const auto& attribute) {
           return attribute.name() == "vectors_per_class" && llvm::any_of(attribute.ints(), [](int64_t own) { return own != 0; });
         });
}

void expand_probabilities(Node& node, NodeWriter& w) {
  constexpr int64_t most_classes = 64;  // each is a step of the loop's body
  const ClassLabels labels = svm_labels(node, most_classes);
  const auto classes = static_cast<int64_t>(labels.size());
  const Arithmetic a(node);
  Value scores = pair_scores(node, rows_of(node, node.input(0)), vectors_per_class(node), labels.size());
  set_labels(node, class_by_votes(node, scores, classes), labels);
  const PostTransform transform = post_transform_of(node);
  if (transform != PostTransform::none) {
    node.unsupported("post_transform " + node.text("post_transform", "") + " of probabilities (prob_a and prob_b) is not supported",
                     "NONE");
    return;
  }
  const std::vector<double> factors = node.number_list("prob_a"), added = optional_numbers(node, "prob_b");
  const auto pairs = static_cast<size_t>(classes * (classes - 1) / 2);
  if (factors.size() < pairs || added.size() != factors.size())
    node.fail("prob_a has " + std::to_string(factors.size()) + " elements and prob_b " + std::to_string(added.size()) + "; both need " +
              std::to_string(pairs) + ", one for each pair of classes");
  if (!node.wants_output(1)) return;
  const Extents extents = Node::extents_of(scores);
  auto row = [&](const std::vector<double>& numbers) {
    return node.broadcast(vector_like(node, scores, ArrayRef(numbers).take_front(pairs)), extents);
  };
  Value x = a.add(a.mul(scores, row(factors)), row(added));
  Value probability = a.sub(a.number(x, 1), node.make<tx::SigmoidOp>(Node::type_of(x), x));
  constexpr double least = 1e-7;
  probability = a.min(a.max(probability, a.number(x, least)), a.number(x, 1 - least));
  auto named = [&](Value value) {
    std::string name = w.fresh();
    node.graph.operands.try_emplace(name, Operand{value, {}, 0});
    return name;
  };
  // Wu, Lin, Weng, Probability Estimates for Multi-class Classification by Pairwise Coupling, 2004, algorithm 2: one class after the other is brought
  // closer, until all are close enough. ONNX Runtime has these bounds, too.
  const float close = 0.005f / static_cast<float>(classes);
  constexpr int64_t most_steps = 100;
  const std::string q = named(coupled(node, probability, classes));
  const RankedTensorType type = node.tensor_type({extents[0], node.builder.getAffineConstantExpr(classes)}, node.builder.getF32Type());
  const std::string first = named(node.splat(type, 1.0 / static_cast<double>(classes)));
  onnx::NodeProto& loop = w.node("Loop", {w.integer(most_steps), "", first}, {node.output(1)});
  onnx::AttributeProto& body = *loop.add_attribute();
  body.set_name("body");
  body.set_type(onnx::AttributeProto::GRAPH);
  body.mutable_g()->set_name("step");
  const std::string before = w.fresh();
  for (const std::string& input : {w.fresh(), w.fresh(), before}) body.mutable_g()->add_input()->set_name(input);
  NodeWriter in = w.within(*body.mutable_g()->mutable_node());
  auto sum = [&](const std::string& value, int64_t axis, int64_t keeps) {
    return in.op("ReduceSum", {value, in.integers({axis})}, "keepdims", keeps);
  };
  std::string p = before, qp = sum(in.op("Mul", {q, in.unsqueeze(p, 1)}), 2, 0), pqp = sum(in.op("Mul", {p, qp}), 1, 1);
  const std::string error = in.op("ReduceMax", {in.op("Abs", {in.op("Sub", {qp, pqp})}), in.integers({1})}, "keepdims", int64_t{1});
  const std::string is_close = in.op("Less", {error, in.number(close, error)}), two = in.number(2, p), one = in.number(1, p);
  const Names q_columns = in.split(q, 2, classes);
  for (int64_t t = 0; t < classes; ++t) {
    auto at = [&](const std::string& value) { return in.op("Gather", {value, in.integers({t})}, "axis", int64_t{1}); };
    const std::string column = in.op("Squeeze", {q_columns[static_cast<size_t>(t)], in.integers({2})}), own = at(column), at_t = at(qp);
    const std::string change = in.op("Div", {in.op("Sub", {pqp, at_t}), own}), whole = in.op("Add", {one, change});
    const std::string more = in.op("Add", {in.op("Mul", {change, own}), in.op("Mul", {two, at_t})});
    pqp = in.op("Div", {in.op("Div", {in.op("Add", {pqp, in.op("Mul", {change, more})}), whole}), whole});
    qp = in.op("Div", {in.op("Add", {qp, in.op("Mul", {change, column})}), whole});
    std::vector<double> only_t(labels.size());
    only_t[static_cast<size_t>(t)] = 1;
    p = in.op("Div", {in.op("Add", {p, in.op("Mul", {change, named(vector_like(node, scores, only_t))})}), whole});
  }
  const std::string open = in.op("Cast", {in.op("Not", {is_close})}, "to", int64_t{onnx::TensorProto::INT32});
  const std::string goes_on = in.op("Cast", {in.op("ReduceSum", {open}, "keepdims", int64_t{0})}, "to", int64_t{onnx::TensorProto::BOOL});
  body.mutable_g()->add_output()->set_name(goes_on);
  body.mutable_g()->add_output()->set_name(in.op("Where", {is_close, before, p}));
}

const Table& linear_model_operators() {
  static const Table table = {
      {"LinearClassifier", linear_classifier},
      {"LinearRegressor", linear_regressor},
      {"SVMClassifier", svm_classifier},
      {"SVMRegressor", svm_regressor},
  };
  return table;
}

}  // namespace heddle::import
