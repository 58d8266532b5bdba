// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ensembles of trees: a stage of walks. Dimensions of the domain are row, group, weight and tree; the place of a walk is a node of its tree, or its
// index in the list of all nodes.
#include <limits>

#include "compiler/ir/trees.h"
#include "compiler/stage/root_stages.h"
#include "compiler/stage/scalar_body.h"
#include "compiler/stage/walk.h"

using namespace mlir;

namespace heddle::stage {
namespace {

// Whether a walk goes to the first child, i1.
Value goes_first(StageBody& body, tx::TreesOp trees, Value x, Value threshold, ArrayRef<AffineExpr> node) {
  OpBuilder& b = body.builder;
  const Location at = b.getUnknownLoc();
  auto compared = [&](arith::CmpFPredicate predicate) -> Value { return b.create<arith::CmpFOp>(at, predicate, x, threshold); };
  Value first = compared(trees.getStrict() ? arith::CmpFPredicate::OLT : arith::CmpFPredicate::OLE);
  if (!trees.getFlags()) return first;
  Value flags = body.element(trees.getFlags(), node);
  if (!flags) return {};
  auto has = [&](int64_t bit) -> Value {
    const Type type = flags.getType();
    Value mask = b.create<arith::ConstantOp>(at, b.getIntegerAttr(type, bit)),
          zero = b.create<arith::ConstantOp>(at, b.getIntegerAttr(type, 0));
    return b.create<arith::CmpIOp>(at, arith::CmpIPredicate::ne, b.create<arith::AndIOp>(at, flags, mask), zero);
  };
  first = b.create<arith::SelectOp>(at, has(tx::equal_goes_first), compared(arith::CmpFPredicate::OEQ), first);
  first = b.create<arith::SelectOp>(at, has(tx::below_goes_first), compared(arith::CmpFPredicate::OLT), first);
  Value is_nan = b.create<arith::CmpFOp>(at, arith::CmpFPredicate::UNO, x, x);
  return b.create<arith::OrIOp>(at, first, b.create<arith::AndIOp>(at, is_nan, has(tx::nan_goes_first)));
}

// A place in the list of nodes; a damaged table does not lead out of it.
Value inside(OpBuilder& b, Value place, tx::TreesOp trees) {
  const Location at = b.getUnknownLoc();
  const int64_t last = tx::tensor(trees.getChildren()).getDimSize(0) - 1;
  return b.create<arith::MinUIOp>(at, place, b.create<arith::ConstantIntOp>(at, last, 64));
}

Value initial(OpBuilder& b, tx::ReduceKind kind, Type type) {
  double value = 0;
  if (kind == tx::ReduceKind::max) value = -std::numeric_limits<double>::infinity();
  if (kind == tx::ReduceKind::min) value = std::numeric_limits<double>::infinity();
  return b.create<arith::ConstantOp>(b.getUnknownLoc(), b.getFloatAttr(type, value));
}

}  // namespace

Operation* RootStages::walk(tx::TreesOp trees, TypeRange types) {
  enum : unsigned { row, group, weight, tree, place, rank = 5 };
  const Location at = builder_.getUnknownLoc();
  const bool is_complete = !trees.getChildren();
  const Exprs extents = tx::extents(tx::tensor(trees.getResult())), own = dims(0, rank);
  const Type element = tx::element_of(trees.getResult());
  const int64_t nodes = (int64_t{1} << (is_complete ? trees.getSteps() : 0)) - 1;  // of a complete tree
  const Value counted = is_complete ? trees.getWeights() : trees.getRoots();
  StageBody start = body(rank - 1), next = body(rank), update = body(rank), init = body(weight + 1);

  const Type i64 = builder_.getI64Type();
  if (is_complete) {
    start.yield({start.builder.create<arith::ConstantIntOp>(at, 0, 64)});
  } else {
    Value root = start.element(trees.getRoots(), {own[group], own[tree]});
    if (!root) return nullptr;
    start.yield({inside(start.builder, start.builder.create<arith::ExtUIOp>(at, i64, root), trees)});
  }

  const Exprs node = is_complete ? Exprs{own[group], own[tree], own[place]} : Exprs{own[place]};
  Value x = next.looked_up(trees.getInput(), {own[row], own[row]}, 1, trees.getFeatures(), node);
  Value threshold = x ? next.element(trees.getThresholds(), node) : Value();
  Value child = is_complete || !threshold ? Value() : next.element(trees.getChildren(), node);
  if (!threshold || (!is_complete && !child)) return nullptr;
  Value is_first = goes_first(next, trees, x, threshold, node);
  if (!is_first) return nullptr;
  OpBuilder& b = next.builder;
  auto number = [&](int64_t value) -> Value { return b.create<arith::ConstantIntOp>(at, value, 64); };
  if (is_complete) {
    Value first = b.create<arith::ExtUIOp>(at, i64, is_first);
    Value second = b.create<arith::AddIOp>(at, b.create<arith::AddIOp>(at, next.index(place), next.index(place)), number(2));
    next.yield({b.create<arith::SubIOp>(at, second, first)});
  } else {
    child = b.create<arith::ExtUIOp>(at, i64, child);
    Value is_second = b.create<arith::SelectOp>(at, is_first, number(0), number(1));
    Value first = b.create<arith::ShRUIOp>(at, child, number(1));
    next.yield({inside(b, b.create<arith::AddIOp>(at, first, b.create<arith::AndIOp>(at, child, is_second)), trees)});
  }

  const Exprs leaf = is_complete ? Exprs{own[group], own[tree], own[place] - nodes, own[weight]} : Exprs{own[place], own[weight]};
  Value leads_to = update.element(trees.getWeights(), leaf);
  if (!leads_to) return nullptr;
  Value old = update.add_argument(scalar_type(element));
  update.yield({emit_combined(update.builder, trees.getKind(), old, leads_to, /*no_sign=*/false)});
  init.yield({initial(init.builder, trees.getKind(), element)});

  SmallVector<Value> reads = start.reads;
  SmallVector<Attribute> accesses = start.accesses;
  for (StageBody* body : {&next, &update}) {
    llvm::append_range(reads, body->reads);
    llvm::append_range(accesses, body->accesses);
  }
  AffineExpr walks = tx::extents(tx::tensor(counted))[1];
  auto op = builder_.create<WalkOp>(at, types, reads, static_cast<int64_t>(start.reads.size()), static_cast<int64_t>(next.reads.size()),
                                    builder_.getArrayAttr(accesses), domain(extents, {walks}), static_cast<int64_t>(weight),
                                    static_cast<int64_t>(trees.getSteps()));
  start.move_to(op.getStart());
  next.move_to(op.getNext());
  update.move_to(op.getUpdate());
  init.move_to(op.getInit());
  return op;
}

}  // namespace heddle::stage
