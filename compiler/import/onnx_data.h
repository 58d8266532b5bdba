// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shapes, axes and counts that the model computes from values of a call. They are computed as vectors of i64, and the program reads those that are
// extents: they become symbols (tx.read). Axes stay data: a dimension that may be reduced or not is split into two, of which one is 1.
#pragma once

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

// A tensor of i64, and arithmetic on it. Operands have one shape, or are numbers.
class Integers {
 public:
  Integers(Node& node, mlir::Value value) : node_(&node), value_(value) {}

  mlir::Value value() const { return value_; }
  // The vector's element, as a vector of one.
  Integers at(int64_t index) const;
  // A vector repeated along a new dimension, the first or the second one.
  Integers rows(int64_t count) const;
  Integers columns(int64_t count) const;
  // A matrix reduced along its rows, or a vector to a vector of one.
  Integers reduced(tx::ReduceKind kind) const;
  // This where the condition is not 0, else `other`.
  Integers where(const Integers& condition, const Integers& other) const;

  friend Integers operator+(const Integers& a, const Integers& b);
  friend Integers operator-(const Integers& a, const Integers& b);
  friend Integers operator*(const Integers& a, const Integers& b);
  friend Integers operator/(const Integers& a, const Integers& b);  // rounded towards 0; the divisor must not be 0
  friend Integers min(const Integers& a, const Integers& b);
  friend Integers max(const Integers& a, const Integers& b);
  // 1 or 0.
  friend Integers operator<(const Integers& a, const Integers& b);
  friend Integers operator==(const Integers& a, const Integers& b);

  Integers number(int64_t value) const;  // everywhere in a tensor of this one's shape

 private:
  Node* node_;
  mlir::Value value_;
};

// Whether the input is a tensor whose elements are not known when the model is compiled. Asks for them (Graph::need_elements).
bool is_data(Node& node, int index);
// The elements of an integer input of rank 0 or 1 as a vector of i64 with a static extent, known or not.
Integers vector_of(Node& node, int index);
// 0, 1, .. in a vector of i64.
Integers counted(Node& node, int64_t count);
// Extents as a vector of i64.
Integers numbers_of(Node& node, llvm::ArrayRef<mlir::AffineExpr> extents);
// One vector behind the other.
Integers joined(Node& node, llvm::ArrayRef<Integers> parts);

// A new symbol whose value the program reads or moves to a register; `what` names it in messages.
mlir::AffineExpr new_symbol(Node& node, const std::string& what);
// The elements of a vector as extents: known ones as such, others as symbols that are read. `what` names them in messages, as in "extent 1 of ..".
std::vector<mlir::AffineExpr> read_extents(Node& node, const Integers& vector, const std::string& what);
// The elements of a shape-like input as extents, of which none may be below 0 if it is data.
std::vector<mlir::AffineExpr> extents_from(Node& node, int index, const std::string& what);

// Axes that are data, from an input: negative ones count from the end. A call with one outside of `rank` is refused.
Integers axes_from(Node& node, int index, int64_t rank);
// For each of `rank` dimensions, whether it is one of the axes: 1 or 0.
Integers is_axis(Node& node, const Integers& axes, int64_t rank);
// The extents without those of as many axes, and with 1 for each axis among the result's dimensions.
std::vector<mlir::AffineExpr> without_axes(Node& node, llvm::ArrayRef<mlir::AffineExpr> extents, const Integers& axes);
std::vector<mlir::AffineExpr> with_axes(Node& node, llvm::ArrayRef<mlir::AffineExpr> extents, const Integers& axes);
// The value in a shape that was computed from data: a call in which it has another number of elements is refused.
mlir::Value reshape_to(Node& node, mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> extents);

// The places of the elements that are 1, in order: a vector of i64, as long as there are such elements, which the program reads. `flags`: a vector of
// i64, 0 or 1. `what` names their number in messages.
mlir::Value places_of_ones(Node& node, mlir::Value flags, const std::string& what);

// The part of a dimension whose elements are at start, start + step, ..: i64 vectors of one element.
mlir::Value gather_from(Node& node, mlir::Value value, int64_t axis, const Integers& start, const Integers& step, mlir::AffineExpr count);
// Other extents: element i along a dimension is element i + shift of the value there, or `filler`, a scalar, if there is none. Dimensions that are not
// changed may be named.
mlir::Value shifted(Node& node, mlir::Value value, const Integers& shifts, llvm::ArrayRef<mlir::AffineExpr> to, mlir::Value filler,
                    llvm::ArrayRef<bool> is_changed = {});

// Elements of a value at places along an axis: a vector of i64.
mlir::Value taken(Node& node, mlir::Value value, mlir::Value places, int64_t axis = 0);

// The elements of a vector at indices, or parts of a tensor along its first dimension.
mlir::Value looked_up(Node& node, mlir::Value table, mlir::Value indices);

}  // namespace heddle::import
