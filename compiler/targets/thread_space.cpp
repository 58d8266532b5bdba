// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See thread_space.h.
#include "compiler/targets/thread_space.h"

using namespace mlir;

namespace heddle::targets {

AffineExpr product(ArrayRef<AffineExpr> extents) {
  AffineExpr result = extents.front();
  for (AffineExpr extent : extents.drop_front()) result = result * extent;
  return result;
}

SmallVector<Value> delinearize(KernelBuilder& k, Value index, ArrayRef<AffineExpr> extents) {
  bool narrow = true;
  int64_t count = 1;
  for (AffineExpr extent : extents) {
    auto fixed = llvm::dyn_cast<AffineConstantExpr>(extent);
    narrow &= fixed && fixed.getValue() > 0 && fixed.getValue() < (int64_t{1} << 31) && count < (int64_t{1} << 31);
    if (narrow) count *= fixed.getValue();
  }
  narrow &= count < (int64_t{1} << 31);
  Type i32 = k.builder.getI32Type(), i64 = k.builder.getI64Type();
  Value rest = narrow ? k.make<arith::TruncIOp>(i32, index) : index;
  SmallVector<Value> indices(extents.size());
  for (size_t d = extents.size(); d-- > 0;) {
    Value extent = k.extent(extents[d]);
    if (narrow) extent = k.make<arith::TruncIOp>(i32, extent);
    Value here = d == 0 ? rest : k.rem(rest, extent);
    if (d > 0) rest = k.div(rest, extent);
    indices[d] = narrow ? k.make<arith::ExtUIOp>(i64, here) : here;
  }
  return indices;
}

ThreadSpace::ThreadSpace(ArrayRef<AffineExpr> extents, unsigned flattened, int64_t lanes, int64_t threads) : lanes_(lanes) {
  extents_.assign(extents.begin(), extents.end() - flattened);
  AffineExpr inner = product(extents.take_back(flattened));
  extents_.push_back(lanes > 1 ? inner.floorDiv(lanes) : inner);
  points_ = product(extents_);
  workgroups_ = points_.ceilDiv(threads);
}

void ThreadSpace::emit(KernelBuilder& k, Value block, const std::function<void(ArrayRef<Value>, Value)>& body) const {
  Value id = k.add(k.mul(block, k.threads()), k.thread());
  k.branch(k.less(id, k.extent(points_)), [&] {
    SmallVector<Value> indices = delinearize(k, id, extents_);
    Value inner = indices.pop_back_val();
    body(indices, lanes_ > 1 ? k.mul(inner, lanes_) : inner);
  });
}

}  // namespace heddle::targets
