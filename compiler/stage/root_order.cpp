// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scatters and sorts: stages that go along a dimension in an order that matters.
#include "compiler/stage/root_stages.h"
#include "compiler/stage/scalar_body.h"

using namespace mlir;

namespace heddle::stage {

namespace {

// NaN is larger than all numbers.
Value comes_before(OpBuilder& b, Value first, Value second, bool descending, bool no_sign) {
  Location at = b.getUnknownLoc();
  if (descending) std::swap(first, second);
  if (!llvm::isa<FloatType>(first.getType()))
    return b.create<arith::CmpIOp>(at, no_sign ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt, first, second);
  Value is_less = b.create<arith::CmpFOp>(at, arith::CmpFPredicate::OLT, first, second);
  Value is_number = b.create<arith::CmpFOp>(at, arith::CmpFPredicate::OEQ, first, first),
        is_nan = b.create<arith::CmpFOp>(at, arith::CmpFPredicate::UNE, second, second);
  return b.create<arith::OrIOp>(at, is_less, b.create<arith::AndIOp>(at, is_number, is_nan));
}

}  // namespace

Operation* RootStages::scatter(tx::ScatterOp scatter, TypeRange types) {
  Location location = builder_.getUnknownLoc();
  Exprs extents = tx::extents(tx::tensor(scatter.getInput()));
  const auto rank = static_cast<unsigned>(extents.size()), axis = static_cast<unsigned>(scatter.getAxis());
  Type element = tx::tensor(scatter.getInput()).getElementType();
  StageBody place = body(rank + 1), step = body(rank + 1), init = body(rank);
  Exprs own = dims(0, rank), of_update = own;
  of_update[axis] = getAffineDimExpr(rank, context_);

  Value index = place.element(scatter.getIndices(), tx::tensor(scatter.getIndices()).getRank() == 1 ? Exprs{of_update[axis]} : of_update);
  if (!index) return nullptr;
  OpBuilder& b = place.builder;
  index = place.widened(index, scatter.getIndices(), b.getI64Type());
  Value size = b.create<ExtentOp>(location, b.getI64Type(), AffineMapAttr::get(AffineMap::get(0, symbols_, extents[axis])));
  Value is_negative = b.create<arith::CmpIOp>(location, arith::CmpIPredicate::slt, index, b.create<arith::ConstantIntOp>(location, 0, 64));
  place.yield({b.create<arith::SelectOp>(location, is_negative, b.create<arith::AddIOp>(location, index, size), index)});

  Value update = step.element(scatter.getUpdates(), of_update);
  if (!update) return nullptr;
  Value old = step.add_argument(scalar_type(element));
  if (scatter.getKind()) {
    if (old.getType() != update.getType()) old = step.builder.create<arith::ExtFOp>(location, update.getType(), old);
    update = emit_combined(step.builder, *scatter.getKind(), old, update, is_unsigned(element));
  }
  step.yield({step.to_storage(update, element)});
  Value first = init.element(scatter.getInput(), own);
  if (!first) return nullptr;
  init.yield({init.to_storage(first, element)});

  SmallVector<Value> reads = place.reads;
  SmallVector<Attribute> accesses = place.accesses;
  for (StageBody* body : {&step, &init}) {
    llvm::append_range(reads, body->reads);
    llvm::append_range(accesses, body->accesses);
  }
  auto op = builder_.create<ScatterOp>(location, types, reads, static_cast<int64_t>(place.reads.size()),
                                       static_cast<int64_t>(step.reads.size()), builder_.getArrayAttr(accesses),
                                       domain(extents, {tx::extents(tx::tensor(scatter.getUpdates()))[axis]}), static_cast<int64_t>(axis));
  place.move_to(op.getPlace());
  step.move_to(op.getStep());
  init.move_to(op.getInit());
  return op;
}

Operation* RootStages::sort(tx::SortOp sort, TypeRange types) {
  Location location = builder_.getUnknownLoc();
  Exprs extents = tx::extents(tx::tensor(sort.getResult()));
  const auto rank = static_cast<unsigned>(extents.size()), axis = static_cast<unsigned>(sort.getAxis());
  StageBody element = body(rank + 1), before = body(0);
  Exprs place = dims(0, rank);
  place[axis] = getAffineDimExpr(rank, context_);
  Value value = element.element(sort.getInput(), place);
  if (!value) return nullptr;
  element.yield({value});
  Value first = before.add_argument(value.getType()), second = before.add_argument(value.getType());
  before.yield({comes_before(before.builder, first, second, sort.getDescending(), is_unsigned(tx::element_of(sort.getInput())))});
  auto op = builder_.create<SortOp>(location, types.front(), element.reads, builder_.getArrayAttr(element.accesses),
                                    domain(extents, {tx::extents(tx::tensor(sort.getInput()))[axis]}), static_cast<int64_t>(axis));
  element.move_to(op.getElement());
  before.move_to(op.getBefore());
  return op;
}

}  // namespace heddle::stage
