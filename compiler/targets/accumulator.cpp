// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See accumulator.h.
#include "compiler/targets/accumulator.h"

#include <limits>

#include "compiler/stage/scalar_body.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace heddle::targets {

Value Accumulator::identity(int64_t lanes) const {
  Type computed = stage::compute_type(element_);
  TypedAttr value;
  if (auto float_type = llvm::dyn_cast<FloatType>(computed)) {
    double infinity = std::numeric_limits<double>::infinity();
    double start = kind_ == tx::ReduceKind::max    ? -infinity
                   : kind_ == tx::ReduceKind::min  ? infinity
                   : kind_ == tx::ReduceKind::prod ? 1
                                                   : 0;
    value = FloatAttr::get(float_type, start);
  } else {
    unsigned width = computed.getIntOrFloatBitWidth();
    bool no_sign = stage::is_unsigned(element_);
    APInt start(width, kind_ == tx::ReduceKind::prod ? 1 : 0);
    if (kind_ == tx::ReduceKind::max) start = no_sign ? APInt::getMinValue(width) : APInt::getSignedMinValue(width);
    if (kind_ == tx::ReduceKind::min) start = no_sign ? APInt::getMaxValue(width) : APInt::getSignedMaxValue(width);
    value = IntegerAttr::get(computed, start);
  }
  if (lanes > 0) value = SplatElementsAttr::get(k_.vector_type(computed, lanes), value);
  return k_.builder.create<arith::ConstantOp>(k_.location, value);
}

Value Accumulator::combine(Value a, Value b) const {
  bool is_float = llvm::isa<FloatType>(getElementTypeOrSelf(a.getType()));
  switch (kind_) {
    case tx::ReduceKind::sum:
    case tx::ReduceKind::mean:
      return is_float ? k_.make<arith::AddFOp>(a, b) : k_.make<arith::AddIOp>(a, b);
    case tx::ReduceKind::prod:
      return is_float ? k_.make<arith::MulFOp>(a, b) : k_.make<arith::MulIOp>(a, b);
    case tx::ReduceKind::max:
      return stage::emit_fast_max(k_.builder, k_.location, a, b, stage::is_unsigned(element_));
    case tx::ReduceKind::min:
      return stage::emit_fast_min(k_.builder, k_.location, a, b, stage::is_unsigned(element_));
  }
  llvm_unreachable("a reduction that tx does not have");
}

Value Accumulator::masked(Value value, Value mask, int64_t lanes) const {
  return mask ? k_.make<arith::SelectOp>(mask, value, identity(lanes)) : value;
}

Value Accumulator::across_lanes(Value vector) const {
  int64_t lanes = llvm::cast<VectorType>(vector.getType()).getNumElements();
  // Halves onto each other, down to one.
  while (lanes > 1) {
    lanes /= 2;
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < lanes; ++i) {
      low.push_back(i);
      high.push_back(i + lanes);
    }
    Value a = k_.builder.create<vector::ShuffleOp>(k_.location, vector, vector, low);
    Value b = k_.builder.create<vector::ShuffleOp>(k_.location, vector, vector, high);
    vector = combine(a, b);
  }
  return k_.builder.create<vector::ExtractOp>(k_.location, vector, ArrayRef<int64_t>{0});
}

Value Accumulator::mean(Value sum, Value count) const {
  Type type = sum.getType(), scalar = getElementTypeOrSelf(type);
  Value divisor;
  if (llvm::isa<FloatType>(scalar)) {
    divisor = k_.make<arith::SIToFPOp>(scalar, count);
  } else {
    divisor = scalar.isInteger(64) ? count : k_.make<arith::TruncIOp>(scalar, count);
  }
  if (auto vector = llvm::dyn_cast<VectorType>(type)) divisor = k_.splat(divisor, vector.getNumElements());
  if (llvm::isa<FloatType>(scalar)) return k_.make<arith::DivFOp>(sum, divisor);
  return stage::is_unsigned(element_) ? k_.make<arith::DivUIOp>(sum, divisor) : k_.make<arith::DivSIOp>(sum, divisor);
}

}  // namespace heddle::targets
