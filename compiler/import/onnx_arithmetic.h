// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element-wise arithmetic on tensors of one type, for operators that are composed of much of it.
#pragma once

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

// Operands have one type, which is that of the result, except for comparisons (bools) and conversions.
class Arithmetic {
 public:
  explicit Arithmetic(Node& node) : node_(node) {}

  using Value = mlir::Value;
  Value add(Value a, Value b) const { return node_.make<tx::AddOp>(Node::type_of(a), a, b); }
  Value sub(Value a, Value b) const { return node_.make<tx::SubOp>(Node::type_of(a), a, b); }
  Value mul(Value a, Value b) const { return node_.make<tx::MulOp>(Node::type_of(a), a, b); }
  Value div(Value a, Value b) const { return node_.make<tx::DivOp>(Node::type_of(a), a, b); }
  Value max(Value a, Value b) const { return node_.make<tx::MaxOp>(Node::type_of(a), a, b); }
  Value min(Value a, Value b) const { return node_.make<tx::MinOp>(Node::type_of(a), a, b); }
  Value abs(Value a) const { return node_.make<tx::AbsOp>(Node::type_of(a), a); }
  Value floor(Value a) const { return node_.make<tx::FloorOp>(Node::type_of(a), a); }
  Value round(Value a) const { return node_.make<tx::RoundOp>(Node::type_of(a), a); }
  Value pow(Value a, Value b) const { return node_.make<tx::PowOp>(Node::type_of(a), a, b); }
  Value sqrt(Value a) const { return node_.make<tx::SqrtOp>(Node::type_of(a), a); }
  Value select(Value condition, Value a, Value b) const { return node_.make<tx::SelectOp>(Node::type_of(a), condition, a, b); }
  Value compare(tx::CompareKind kind, Value a, Value b) const {
    return node_.make<tx::CompareOp>(tx::with_element_type(Node::type_of(a), node_.builder.getI1Type()), kind, a, b);
  }
  Value both(Value a, Value b) const { return select(a, b, a); }  // of bools
  // A number for each element of a tensor like this one.
  Value number(Value like, double value) const { return node_.splat(Node::type_of(like), value); }
  // 0 <= a < bound
  Value is_inside(Value a, Value bound) const {
    return both(compare(tx::CompareKind::ge, a, number(a, 0)), compare(tx::CompareKind::lt, a, bound));
  }
  // Each element's index along the dimension.
  Value iota(llvm::ArrayRef<mlir::AffineExpr> extents, int64_t dimension, mlir::Type element) const {
    return node_.make<tx::IotaOp>(node_.tensor_type(extents, element), node_.builder.getI64IntegerAttr(dimension));
  }
  // The extent for each element of a tensor like this one.
  Value extent(mlir::AffineExpr extent, Value like) const {
    if (auto known = tx::static_extent(extent)) return number(like, static_cast<double>(*known));
    mlir::RankedTensorType type = Node::type_of(like);
    return node_.broadcast(node_.converted(node_.extent_value(extent), type.getElementType()), tx::extents(type));
  }
  // The tensor's dimension i as dimension places[i] of a tensor of these extents.
  Value spread(Value a, llvm::ArrayRef<mlir::AffineExpr> extents, llvm::ArrayRef<int64_t> places) const {
    return node_.builder.createOrFold<tx::BroadcastOp>(node_.location(), node_.tensor_type(extents, Node::type_of(a).getElementType()), a,
                                                       places);
  }
  // Reduced along the dimensions, which stay with an extent of 1.
  Value reduce(tx::ReduceKind kind, Value a, llvm::ArrayRef<int64_t> axes) const {
    Extents kept = Node::extents_of(a), left;
    for (size_t i = 0; i < kept.size(); ++i) {
      if (llvm::is_contained(axes, static_cast<int64_t>(i))) {
        kept[i] = node_.builder.getAffineConstantExpr(1);
      } else {
        left.push_back(kept[i]);
      }
    }
    Value reduced = node_.make<tx::ReduceOp>(node_.tensor_type(left, Node::type_of(a).getElementType()), kind, a, axes);
    return node_.reshape(reduced, kept);
  }

 private:
  Node& node_;
};

}  // namespace heddle::import
