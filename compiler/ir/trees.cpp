// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/ir/trees.h"

#define GET_OP_CLASSES
#include "trees_op.cpp.inc"

using namespace mlir;

namespace heddle::tx {

LogicalResult TreesOp::verify() {
  const RankedTensorType input = tensor(getInput()), result = tensor(getResult()), features = tensor(getFeatures());
  const Type element = input.getElementType();
  if (!element.isF32() && !element.isF64()) return emitOpError("has elements of ") << element << "; f32 or f64 was expected";
  for (Value value : {getThresholds(), getWeights(), getResult()}) {
    if (element_of(value) != element) return emitOpError("mixes elements of ") << element << " and " << element_of(value);
  }
  if (getKind() != ReduceKind::sum && getKind() != ReduceKind::max && getKind() != ReduceKind::min)
    return emitOpError("needs kind sum, max or min");
  const bool is_complete = !getChildren();
  const auto steps = static_cast<int64_t>(getSteps());
  if (steps < 1 || steps > (is_complete ? most_complete_steps : most_tree_steps)) return emitOpError("cannot take ") << steps << " steps";
  if (static_cast<bool>(getChildren()) != static_cast<bool>(getRoots())) return emitOpError("needs both children and roots, or none");
  if (!llvm::isa<IntegerType>(features.getElementType())) return emitOpError("features are not integers");
  SmallVector<Value> tables{getFeatures(), getThresholds(), getWeights()};
  for (Value table : {getChildren(), getRoots(), getFlags()}) {
    if (table) tables.push_back(table);
  }
  for (Value table : tables) {
    if (!tensor(table).hasStaticShape()) return emitOpError("has a table with a symbolic extent");
  }
  if (input.getRank() != 2 || result.getRank() != 3) return emitOpError("needs an input of rank 2 and a result of rank 3");
  ArrayRef<int64_t> weights = tensor(getWeights()).getShape();
  SmallVector<int64_t> nodes, groups;
  if (is_complete) {
    if (weights.size() != 4 || weights[2] != int64_t{1} << steps) return emitOpError("weights do not fit complete trees");
    nodes = {weights[0], weights[1], weights[2] - 1};
    groups = {weights[0], weights[3]};
  } else {
    if (weights.size() != 2 || tensor(getRoots()).getRank() != 2) return emitOpError("weights or roots have another rank");
    nodes = {weights[0]};
    groups = {tensor(getRoots()).getShape()[0], weights[1]};
    if (!element_of(getChildren()).isSignlessInteger(32) || !element_of(getRoots()).isSignlessInteger(32))
      return emitOpError("children and roots are not i32");
  }
  for (Value table : {getFeatures(), getThresholds(), getChildren(), getFlags()}) {
    if (table && tensor(table).getShape() != ArrayRef<int64_t>(nodes)) return emitOpError("has tables of nodes with different extents");
  }
  if (getFlags() && !element_of(getFlags()).isUnsignedInteger(8)) return emitOpError("flags are not ui8");
  SmallVector<AffineExpr> wanted{extents(input)[0]};
  for (int64_t extent : groups) wanted.push_back(getAffineConstantExpr(extent, getContext()));
  return extents(result) == wanted ? success() : emitOpError("result extents do not fit");
}

}  // namespace heddle::tx
