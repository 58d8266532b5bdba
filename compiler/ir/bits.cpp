// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Verifiers of the ops on bits.
#include "compiler/ir/bits.h"

#define GET_OP_CLASSES
#include "bit_ops.cpp.inc"

using namespace mlir;

namespace heddle::tx {
namespace {

LogicalResult verify_integers(Operation* op) {
  if (llvm::isa<IntegerType>(llvm::cast<RankedTensorType>(op->getResult(0).getType()).getElementType())) return success();
  return op->emitOpError("needs elements that are integers");
}

}  // namespace

LogicalResult BitAndOp::verify() {
  return verify_integers(*this);
}
LogicalResult BitOrOp::verify() {
  return verify_integers(*this);
}
LogicalResult BitXorOp::verify() {
  return verify_integers(*this);
}

LogicalResult BitCastOp::verify() {
  const Type from = element_of(getInput()), to = element_of(getResult());
  if (extents(tensor(getInput())) != extents(tensor(getResult()))) return emitOpError("changes the extents");
  if (from.isInteger(1) || to.isInteger(1)) return emitOpError("has elements of i1, whose other bits are not known");
  if (from.getIntOrFloatBitWidth() != to.getIntOrFloatBitWidth())
    return emitOpError("makes ") << to << " of " << from << ", of another size";
  return success();
}

LogicalResult RandomBitsOp::verify() {
  for (Value operand : {getIndex(), getSeed()}) {
    if (!element_of(operand).isSignlessInteger(64)) return emitOpError("has elements of ") << element_of(operand) << "; i64 was expected";
    if (extents(tensor(operand)) != extents(tensor(getResult()))) return emitOpError("has operands of other extents than the result");
  }
  if (!element_of(getResult()).isUnsignedInteger(32)) return emitOpError("gives ") << element_of(getResult()) << "; ui32 was expected";
  return success();
}

}  // namespace heddle::tx
