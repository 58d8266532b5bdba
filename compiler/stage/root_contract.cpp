// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products and convolutions.
#include "compiler/stage/root_stages.h"
#include "compiler/stage/scalar_body.h"

using namespace mlir;

namespace heddle::stage {

namespace {

// Reduced extents, and where the operands are read: over the dimensions of the result, then the reduced ones. Reduced elements outside of
// `within` are skipped.
struct Places {
  Exprs folded, lhs, rhs;
  SmallVector<Bounded> within;
};

Exprs all_dims(MLIRContext* context, unsigned count) {
  Exprs dims;
  for (unsigned i = 0; i < count; ++i) dims.push_back(getAffineDimExpr(i, context));
  return dims;
}

// Dimensions: batch..., m, n, then k.
Places places_of(tx::MatmulOp matmul) {
  Places places;
  unsigned rank = static_cast<unsigned>(tx::tensor(matmul.getResult()).getRank());
  Exprs own = all_dims(matmul.getContext(), rank + 1);
  AffineExpr m = own[rank - 2], n = own[rank - 1], k = own[rank];
  Exprs extents = tx::extents(tx::tensor(matmul.getLhs()));
  places.folded = {extents[extents.size() - (matmul.getTransposeLhs() ? 2 : 1)]};
  places.lhs.assign(own.begin(), own.begin() + (rank - 2));
  if (tx::tensor(matmul.getRhs()).getRank() > 2) places.rhs = places.lhs;
  llvm::append_range(places.lhs, matmul.getTransposeLhs() ? Exprs{k, m} : Exprs{m, k});
  llvm::append_range(places.rhs, matmul.getTransposeRhs() ? Exprs{n, k} : Exprs{k, n});
  return places;
}

// Dimensions: n, spatial..., f, then taps..., c.
Places places_of(tx::ConvOp conv) {
  Places places;
  Exprs filter = tx::extents(tx::tensor(conv.getFilter())), input = tx::extents(tx::tensor(conv.getInput())),
        result = tx::extents(tx::tensor(conv.getResult()));
  unsigned rank = static_cast<unsigned>(result.size()), spatial = rank - 2;
  Exprs own = all_dims(conv.getContext(), rank + spatial + 1);
  AffineExpr column = own[rank - 1], channel = own[rank + spatial];
  int64_t groups = static_cast<int64_t>(conv.getGroups());
  places.lhs = {own[0]};
  for (unsigned d = 0; d < spatial; ++d) {
    int64_t stride = conv.getStrides()[d], dilation = conv.getDilations()[d], low = conv.getPadsLow()[d];
    AffineExpr tap = own[rank + d], index = own[d + 1] * stride + tap * dilation - low;
    places.lhs.push_back(index);
    places.rhs.push_back(tap);
    places.folded.push_back(filter[d]);
    if (reaches_out(input[d + 1], result[d + 1], filter[d], stride, dilation, low)) places.within.push_back({index, input[d + 1]});
  }
  places.folded.push_back(filter[spatial]);
  AffineExpr group_columns = filter[spatial + 1].floorDiv(groups);
  places.lhs.push_back(groups == 1 ? channel : column.floorDiv(group_columns) * filter[spatial] + channel);
  llvm::append_range(places.rhs, Exprs{channel, column});
  return places;
}

}  // namespace

Operation* RootStages::contract(Operation* root, StageBody& last, ArrayRef<AffineExpr> extents, TypeRange types, Type accumulator) {
  Location location = builder_.getUnknownLoc();
  Value lhs = root->getOperand(0), rhs = root->getOperand(1);
  auto matmul = llvm::dyn_cast<tx::MatmulOp>(root);
  auto conv = llvm::dyn_cast<tx::ConvOp>(root);
  if ((matmul && matmul.getPackedShape()) || (conv && conv.getPackedShape())) {
    last.refuse("its weights are packed for the CPU's microkernel");
    return nullptr;
  }
  if (accumulator.isInteger(1)) {
    last.refuse("it sums bools");
    return nullptr;
  }
  Places places = matmul ? places_of(matmul) : places_of(conv);
  unsigned rank = extents.size(), reduced = static_cast<unsigned>(places.folded.size());
  auto over = [&](ArrayRef<AffineExpr> place) { return over_domain(place, last.root_at, dims(rank, reduced)); };
  StageBody factors = body(rank + reduced);
  Value a = factors.element(lhs, over(places.lhs));
  auto element_of_rhs = [&] {
    if (matmul && matmul.getBlocks()) return factors.decoded(rhs, *matmul.getBlocks(), over(places.rhs));
    return factors.element(rhs, over(places.rhs));
  };
  Value b = a ? element_of_rhs() : Value();
  if (!b) return nullptr;
  a = factors.widened(a, lhs, accumulator);
  if (!matmul || !matmul.getBlocks()) b = factors.widened(b, rhs, accumulator);
  if (Value zero = tx::zero_of(root)) {
    AffineExpr column = getAffineDimExpr(static_cast<unsigned>(last.root_at.size()) - 1, context_);
    Value less = factors.element(zero, over({column}));
    if (!less) return nullptr;
    b = factors.builder.create<arith::SubFOp>(location, b, factors.widened(less, zero, accumulator));
  }
  factors.yield({a, b});
  SmallVector<Value> reads = factors.reads;
  SmallVector<Attribute> accesses = factors.accesses;
  llvm::append_range(reads, last.reads);
  llvm::append_range(accesses, last.accesses);
  auto op = builder_.create<ContractOp>(location, types, reads, builder_.getI64IntegerAttr(static_cast<int64_t>(factors.reads.size())),
                                        builder_.getArrayAttr(accesses), domain(extents, places.folded, last.root_at, places.within),
                                        TypeAttr::get(accumulator));
  factors.move_to(op.getFactors());
  last.move_to(op.getFinish());
  return op;
}

}  // namespace heddle::stage
