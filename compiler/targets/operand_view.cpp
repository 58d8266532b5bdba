// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See operand_view.h.
#include "compiler/targets/operand_view.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// The view with these extents, each of which counts some neighboring dimensions.
std::optional<OperandView> merged(const OperandView& view, ArrayRef<AffineExpr> extents) {
  OperandView result = view;
  result.extents.assign(extents.begin(), extents.end());
  // Any step will do for a dimension of one index.
  result.steps.assign(extents.size(), view.steps.empty() ? view.start : view.steps.back());
  size_t d = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (tx::is_one(extents[i])) continue;
    while (d < view.extents.size() && tx::is_one(view.extents[d])) ++d;
    size_t first = d;
    AffineExpr count = getAffineConstantExpr(1, view.start.getContext());
    while (d < view.extents.size() && (count != extents[i] || d == first)) count = count * view.extents[d++];
    auto step = view.joint_step(first, d);
    if (count != extents[i] || !step) return std::nullopt;
    result.steps[i] = *step;
  }
  while (d < view.extents.size()) {
    if (!tx::is_one(view.extents[d++])) return std::nullopt;
  }
  // Kernels read neighbors along the innermost dimension.
  if (!extents.empty() && !tx::is_one(extents.back()) && result.steps.back() != 1) return std::nullopt;
  return result;
}

}  // namespace

std::optional<OperandView> OperandView::of(Value operand) {
  if (auto reshape = operand.getDefiningOp<tx::ReshapeOp>()) {
    auto view = of(reshape.getInput());
    return view ? merged(*view, tx::extents(tx::tensor(operand))) : std::nullopt;
  }
  auto slice = operand.getDefiningOp<tx::SliceOp>();
  if (slice && llvm::any_of(slice.getStrides(), [](int64_t stride) { return stride != 1; })) return std::nullopt;
  auto binding = llvm::dyn_cast<BlockArgument>(slice ? slice.getInput() : operand);
  if (!binding) return std::nullopt;
  OperandView view;
  view.binding = binding;
  view.extents = tx::extents(tx::tensor(operand));
  view.is_slice = slice != nullptr;
  SmallVector<AffineExpr> whole = tx::extents(tx::tensor(binding));
  AffineExpr step = getAffineConstantExpr(1, operand.getContext());
  view.start = getAffineConstantExpr(0, operand.getContext());
  view.steps.resize(whole.size());
  for (size_t d = whole.size(); d-- > 0;) {
    view.steps[d] = step;
    if (slice) view.start = view.start + step * slice.getStarts()[d];
    step = step * whole[d];
  }
  return view;
}

std::optional<AffineExpr> OperandView::joint_step(size_t first, size_t last) const {
  std::optional<AffineExpr> inner, next;
  for (size_t d = last; d-- > first;) {
    if (tx::is_one(extents[d])) continue;
    if (next && *next != steps[d]) return std::nullopt;
    if (!inner) inner = steps[d];
    next = steps[d] * extents[d];
  }
  if (inner) return inner;
  // There is one index only: any step will do.
  return last < steps.size() ? steps[last] * extents[last] : getAffineConstantExpr(1, start.getContext());
}

std::optional<int64_t> OperandView::static_step(size_t first, size_t last) const {
  auto step = joint_step(first, last);
  return step ? tx::static_extent(*step) : std::nullopt;
}

}  // namespace heddle::targets
