// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Short names for arith and math ops on values of one type: a scalar, or a vector of them.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

namespace heddle::stage {

class ValueBuilder {
 public:
  ValueBuilder(mlir::OpBuilder& builder, mlir::Location location, mlir::Type type) : builder_(builder), location_(location), type_(type) {}

  mlir::Type type() const { return type_; }
  bool is_double() const { return mlir::getElementTypeOrSelf(type_).isF64(); }
  bool is_float() const { return llvm::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(type_)); }

  // The type with another element: a scalar for a scalar, a vector of the same length for a vector.
  mlir::Type like(mlir::Type element) const {
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(type_)) return vector.clone(element);
    return element;
  }

  // The same number in every lane, of this type or of the given one.
  mlir::Value constant(double value, mlir::Type type = {}) {
    if (!type) type = type_;
    mlir::Type element = mlir::getElementTypeOrSelf(type);
    mlir::TypedAttr scalar;
    if (auto float_type = llvm::dyn_cast<mlir::FloatType>(element)) {
      scalar = builder_.getFloatAttr(float_type, value);
    } else {
      scalar = builder_.getIntegerAttr(element, static_cast<int64_t>(value));
    }
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(type)) scalar = mlir::SplatElementsAttr::get(vector, scalar);
    return builder_.create<mlir::arith::ConstantOp>(location_, scalar);
  }

  template <typename OpType, typename... Args>
  mlir::Value make(Args&&... args) {
    return builder_.createOrFold<OpType>(location_, std::forward<Args>(args)...);
  }
  mlir::Value add(mlir::Value a, mlir::Value b) { return make<mlir::arith::AddFOp>(a, b); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return make<mlir::arith::SubFOp>(a, b); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return make<mlir::arith::MulFOp>(a, b); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return make<mlir::arith::DivFOp>(a, b); }
  mlir::Value sqrt(mlir::Value a) { return make<mlir::math::SqrtOp>(a); }
  mlir::Value abs(mlir::Value a) { return make<mlir::math::AbsFOp>(a); }
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value a, mlir::Value b) {
    return make<mlir::arith::CmpFOp>(predicate, a, b);
  }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) { return make<mlir::arith::SelectOp>(condition, a, b); }

 protected:
  mlir::OpBuilder& builder_;
  mlir::Location location_;
  mlir::Type type_;
};

}  // namespace heddle::stage
