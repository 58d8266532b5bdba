// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The suppression of boxes: a sieve, whose arithmetic is the overlap of two boxes.
#include "compiler/stage/root_stages.h"
#include "compiler/stage/scalar_body.h"
#include "compiler/stage/sieve.h"
#include "compiler/stage/value_builder.h"

using namespace mlir;

namespace heddle::stage {

namespace {

// Along one axis of the image: where a box begins and ends.
struct Side {
  Value low, high;
};

class Overlap : public ValueBuilder {
 public:
  using ValueBuilder::ValueBuilder;

  Side side(Value a, Value b) {
    Value is_first = compare(arith::CmpFPredicate::OGE, a, b);
    return {select(is_first, b, a), select(is_first, a, b)};
  }
  Value area(Side y, Side x) { return mul(sub(y.high, y.low), sub(x.high, x.low)); }
  // The length that both have, which is negative if they are apart.
  Value common(Side a, Side b) {
    Value low = select(compare(arith::CmpFPredicate::OGT, a.low, b.low), a.low, b.low);
    Value high = select(compare(arith::CmpFPredicate::OLT, a.high, b.high), a.high, b.high);
    return sub(high, low);
  }
  Value is_positive(Value a) { return compare(arith::CmpFPredicate::OGT, a, constant(0)); }
  Value both(Value a, Value b) { return make<arith::AndIOp>(a, b); }

  // Each box is y1, x1, y2, x2.
  Value exceeds(ArrayRef<Value> first, ArrayRef<Value> second, Value threshold) {
    Side y1 = side(first[0], first[2]), x1 = side(first[1], first[3]), y2 = side(second[0], second[2]), x2 = side(second[1], second[3]);
    Value height = common(y1, y2), width = common(x1, x2), shared = mul(width, height), one = area(y1, x1), other = area(y2, x2);
    Value all = sub(add(one, other), shared);
    Value counts = both(both(is_positive(height), is_positive(width)), is_positive(shared));
    counts = both(counts, both(both(is_positive(one), is_positive(other)), is_positive(all)));
    return both(counts, compare(arith::CmpFPredicate::OGT, div(shared, all), threshold));
  }
};

}  // namespace

Operation* RootStages::suppress(tx::SuppressOp suppress, TypeRange types) {
  Location location = builder_.getUnknownLoc();
  Exprs extents = tx::extents(tx::tensor(suppress.getResult()));
  const auto rank = static_cast<unsigned>(extents.size()), along = rank - 1;
  StageBody limit = body(rank), removes = body(rank + 1), init = body(rank);

  auto yield = [&](StageBody& body, Value value) { body.builder.create<SieveYieldOp>(location, value); };
  Value most = limit.element(suppress.getLimit(), {});
  if (!most) return nullptr;
  yield(limit, most);

  auto box = [&](AffineExpr at) {
    SmallVector<Value> corners;
    for (int64_t i = 0; i < 4; ++i) {
      Exprs place = dims(0, rank);
      place[along] = at;
      place.push_back(getAffineConstantExpr(i, context_));
      corners.push_back(removes.element(suppress.getBoxes(), place));
    }
    return corners;
  };
  SmallVector<Value> stays = box(getAffineDimExpr(rank, context_)), later = box(getAffineDimExpr(along, context_));
  Value threshold = removes.element(suppress.getThreshold(), {});
  if (!threshold || llvm::is_contained(stays, Value()) || llvm::is_contained(later, Value())) return nullptr;
  Overlap overlap(removes.builder, location, threshold.getType());
  yield(removes, overlap.exceeds(stays, later, threshold));

  Value there = init.element(suppress.getCandidates(), dims(0, rank));
  if (!there) return nullptr;
  yield(init, there);

  SmallVector<Value> reads = limit.reads;
  SmallVector<Attribute> accesses = limit.accesses;
  for (StageBody* body : {&removes, &init}) {
    llvm::append_range(reads, body->reads);
    llvm::append_range(accesses, body->accesses);
  }
  auto op = builder_.create<SieveOp>(location, types.front(), reads, static_cast<int64_t>(limit.reads.size()),
                                     static_cast<int64_t>(removes.reads.size()), builder_.getArrayAttr(accesses),
                                     domain(extents, {extents[along]}), static_cast<int64_t>(along));
  limit.move_to(op.getLimit());
  removes.move_to(op.getRemoves());
  init.move_to(op.getInit());
  return op;
}

}  // namespace heddle::stage
