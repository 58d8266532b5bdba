// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/ir/suppress.h"

#define GET_OP_CLASSES
#include "suppress_op.cpp.inc"

using namespace mlir;

namespace heddle::tx {

LogicalResult SuppressOp::verify() {
  const Type element = element_of(getBoxes());
  if (!llvm::isa<FloatType>(element)) return emitOpError("has boxes of ") << element << "; floats were expected";
  SmallVector<AffineExpr> boxes = extents(tensor(getBoxes())), list = extents(tensor(getResult()));
  if (list.empty()) return emitOpError("needs a list of boxes");
  if (boxes.empty() || static_extent(boxes.pop_back_val()) != 4 || boxes != list)
    return emitOpError("has boxes of other extents than the result and 4");
  if (extents(tensor(getCandidates())) != list) return emitOpError("has candidates of other extents than the result");
  if (!element_of(getCandidates()).isInteger(1) || !element_of(getResult()).isInteger(1))
    return emitOpError("has candidates or results that are not i1");
  if (tensor(getThreshold()).getRank() != 0 || element_of(getThreshold()) != element)
    return emitOpError("has a threshold that is no number of the type of the boxes");
  if (tensor(getLimit()).getRank() != 0 || !element_of(getLimit()).isSignlessInteger(64))
    return emitOpError("has a limit that is no number of i64");
  return success();
}

}  // namespace heddle::tx
