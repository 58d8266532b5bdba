// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Verifiers of the ops on bits: elements are integers.
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

}  // namespace heddle::tx
