// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Linear models and support vector machines of ai.onnx.ml.
#include <cstring>
#include <numeric>

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

void svm_classifier(Node& node) {
  const ClassLabels labels = labels_of(node, "classlabels_ints", "classlabels_strings");
  const auto classes = static_cast<int64_t>(labels.size());
  if (classes < 2 || classes > 1024)
    node.fail("it has " + std::to_string(classes) + " classes; 2 to 1024 are supported", HEDDLE_STATUS_UNIMPLEMENTED);
  Value rows = rows_of(node, node.input(0));
  const std::vector<int64_t> per_class = node.integer_list("vectors_per_class", std::vector<int64_t>());
  const std::vector<double> coefficients = node.number_list("coefficients");
  const PostTransform transform = post_transform_of(node);
  int64_t count = 0;
  for (int64_t own : per_class) {
    if (own < 0 || own > largest_extent) node.fail("vectors_per_class has the element " + std::to_string(own));
    count += own;
  }
  Value label, result;
  if (count == 0) {
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
    if (per_class.size() != labels.size())
      node.fail("it has " + std::to_string(classes) + " labels, and support vectors for " + std::to_string(per_class.size()) + " classes");
    if (node.has_attribute("prob_a") && !node.number_list("prob_a").empty())
      node.unsupported("probabilities (prob_a and prob_b) are not supported", "a classifier without them");
    Value kernel = kernel_of(node, rows, node.number_list("support_vectors"), count);
    Value scores = scores_of_pairs(node, kernel, per_class, coefficients, node.number_list("rho"));
    label = class_by_votes(node, scores, classes);
    result = classes == 2 ? two_scores(node, scores, transform, transform == PostTransform::none) : transformed(node, scores, transform);
  }
  set_labels(node, label, labels);
  if (node.wants_output(1)) node.set_result(result, 1);
}

}  // namespace

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
