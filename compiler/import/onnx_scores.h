// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the classifiers and regressors of ai.onnx.ml share: their input as rows of floats, what `post_transform` does to scores, and labels.
#pragma once

#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_writer.h"

namespace heddle::import {

enum class PostTransform { none, softmax, logistic, softmax_zero, probit };

// The attribute `post_transform`, a text.
PostTransform post_transform_of(Node& node);

// The input as [N, F] of floats: f32, or f64 if it has it and `keeps_f64`. A vector is one row. Other types are converted to f32.
mlir::Value rows_of(Node& node, mlir::Value input, bool keeps_f64 = false);

// Scores [N, C] after the transform, with ONNX Runtime's formulas. A single column is changed by PROBIT only.
mlir::Value transformed(Node& node, mlir::Value scores, PostTransform transform);

// Two scores of rows that have one, [N, 1]: (1 - s, s), or with `is_mixed` (-s, s); by LOGISTIC its values of -s and s.
mlir::Value two_scores(Node& node, mlir::Value score, PostTransform transform, bool is_mixed);

// A vector of numbers that the importer made, in the type of `like`.
mlir::Value vector_like(Node& node, mlir::Value like, llvm::ArrayRef<double> numbers);
// Rows [N, C] plus a number per column.
mlir::Value plus_columns(Node& node, mlir::Value rows, llvm::ArrayRef<double> numbers);

// Labels of classes: integers or strings.
struct ClassLabels {
  std::vector<int64_t> integers = {};
  std::vector<std::string> strings = {};
  size_t size() const { return strings.empty() ? integers.size() : strings.size(); }
};
// Those of two attributes, of which a node has one.
ClassLabels labels_of(Node& node, const char* integers, const char* strings);
// Result 0 of the node: the labels of classes, i64 [N].
void set_labels(Node& node, mlir::Value classes, const ClassLabels& labels);
// The class of the largest score in each row, of several the first one: i64 [N].
mlir::Value largest_class(Node& node, mlir::Value scores);
// 1 for rows whose score, [N, 1], is above the bound, else 0: i64 [N].
mlir::Value class_above(Node& node, mlir::Value score, double bound);

// Whether the node is a classifier by support vectors that gives probabilities.
bool has_probabilities(const onnx::NodeProto& node);
// It as nodes, of which one is a loop.
void expand_probabilities(Node& node, NodeWriter& writer);

}  // namespace heddle::import
