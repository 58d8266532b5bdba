// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See root_stages.h. The parts that all stages with a root share.
#include "compiler/stage/root_stages.h"

#include "compiler/stage/scalar_body.h"

using namespace mlir;

namespace heddle::stage {

bool is_root(Operation* op) {
  return llvm::isa<tx::ReduceOp, tx::ArgReduceOp, tx::CumsumOp, tx::MatmulOp, tx::ConvOp, tx::PoolOp, tx::LrnOp>(op);
}

bool reaches_out(AffineExpr input, AffineExpr result, AffineExpr taps, int64_t stride, int64_t dilation, int64_t pad) {
  auto in = tx::static_extent(input), out = tx::static_extent(result), count = tx::static_extent(taps);
  return pad > 0 || !in || !out || !count || (*out - 1) * stride + (*count - 1) * dilation - pad >= *in;
}

Exprs RootStages::dims(unsigned first, unsigned count) const {
  Exprs result;
  for (unsigned i = 0; i < count; ++i) result.push_back(getAffineDimExpr(first + i, context_));
  return result;
}

DomainAttr RootStages::domain(ArrayRef<AffineExpr> parallel, ArrayRef<AffineExpr> folded, ArrayRef<AffineExpr> root_at,
                              ArrayRef<Bounded> within) const {
  Exprs extents(parallel);
  llvm::append_range(extents, folded);
  unsigned rank = extents.size(), reduced = folded.size();
  SmallVector<AffineMap> bounded;
  for (const auto& [index, bound] : within) {
    AffineExpr at = over_domain(index, root_at, dims(rank - reduced, reduced)).front();
    bounded.push_back(AffineMap::get(rank, symbols_, {at, bound}, context_));
  }
  return DomainAttr::get(context_, AffineMap::get(0, symbols_, extents, context_), reduced, bounded);
}

Exprs RootStages::over_domain(ArrayRef<AffineExpr> place, ArrayRef<AffineExpr> root_at, ArrayRef<AffineExpr> reduced) {
  Exprs known(root_at), result;
  llvm::append_range(known, reduced);
  for (AffineExpr index : place) result.push_back(index.replaceDims(known));
  return result;
}

// Yields an element of each output. False, with the reason, if an output has no form.
bool RootStages::finish(StageBody& body, ArrayRef<Value> outputs, unsigned rank, TypeRange types) {
  SmallVector<Value> elements;
  for (auto [output, type] : llvm::zip_equal(outputs, types)) {
    Value element = body.element(output, dims(0, rank));
    if (!element) return false;
    elements.push_back(body.to_storage(element, llvm::cast<RankedTensorType>(type).getElementType()));
  }
  body.yield(elements);
  return true;
}

Operation* RootStages::map(ArrayRef<Value> outputs, ArrayRef<AffineExpr> extents, TypeRange types) {
  unsigned rank = extents.size();
  StageBody own = body(rank);
  if (!finish(own, outputs, rank, types)) return nullptr;
  auto op = builder_.create<MapOp>(builder_.getUnknownLoc(), types, own.reads, builder_.getArrayAttr(own.accesses), domain(extents, {}));
  own.move_to(op.getBody());
  return op;
}

Operation* RootStages::rooted(Operation* root, ArrayRef<Value> outputs, ArrayRef<AffineExpr> extents, TypeRange types) {
  unsigned rank = extents.size();
  StageBody last = body(rank);
  last.root = root;
  add_results(root, last);
  if (!finish(last, outputs, rank, types)) return nullptr;
  if (last.root_at.size() != static_cast<size_t>(tx::tensor(root->getResult(0)).getRank())) {
    last.refuse("nothing reads the results of " + tx::describe(root));
    return nullptr;
  }
  if (auto cumsum = llvm::dyn_cast<tx::CumsumOp>(root)) return scan(cumsum, last, extents, types);
  if (tx::is_contraction(root)) return contract(root, last, extents, types, compute_type(tx::element_of(root->getResult(0))));
  return fold(root, last, extents, types);
}

}  // namespace heddle::stage
