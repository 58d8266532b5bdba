// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See walk_emitter.h.
#include "compiler/targets/walk_emitter.h"

using namespace mlir;

namespace heddle::targets {

// The results of other stages are never read: a region with walks has only this stage.
WalkEmitter::WalkEmitter(KernelBuilder& kernel, stage::WalkOp walk)
    : k_(kernel),
      walk_(walk),
      domain_(walk.getDomain()),
      body_(kernel, walk, [](unsigned, const BodyPlace&) -> Element { llvm_unreachable("a walk reads only operands"); }),
      along_(static_cast<size_t>(walk.getAlong())) {}

Value WalkEmitter::memory_place(ArrayRef<Value> index) const {
  MLIRContext* context = domain_.getContext();
  AffineExpr place = getAffineConstantExpr(0, context);
  for (auto [d, extent] : llvm::enumerate(domain_.parallel())) place = place * extent + getAffineDimExpr(d, context);
  return body_.evaluate(place, index);
}

void WalkEmitter::along(int64_t lanes, const std::function<void(Value, int64_t, Value)>& body) {
  const AffineExpr extent = domain_.getExtents().getResult(along_);
  const auto known = tx::static_extent(extent);
  if (lanes == 0 || !known || *known == 1) {
    if (known == 1) return body(k_.index(0), 0, {});
    return k_.loop(k_.index(0), k_.extent(extent), [&](Value position) { body(position, 0, {}); });
  }
  const int64_t whole = *known / lanes * lanes;
  if (whole > 0) k_.loop(k_.index(0), k_.index(whole), k_.index(lanes), [&](Value position) { body(position, lanes, {}); });
  if (whole < *known) body(k_.index(whole), lanes, k_.remainder_mask(k_.index(*known - whole), lanes));
}

void WalkEmitter::store_initial(ArrayRef<Value> line) {
  SmallVector<Value> index(line);
  along(0, [&](Value position, int64_t, Value) {
    index[along_] = position;
    BodyPlace place;
    place.index = index;
    Value at = memory_place(index);
    for (auto [i, element] : llvm::enumerate(body_.run(walk_.getInit().front(), 0, 0, {}, place)))
      k_.store(element.value, k_.result(i), at);
  });
}

KernelBuilder::Values WalkEmitter::places_of(ArrayRef<Walk> walks) {
  const auto in_start = static_cast<unsigned>(walk_.getStartReads()), in_next = static_cast<unsigned>(walk_.getNextReads());
  auto place_of = [&](const Walk& walk) {
    BodyPlace place;
    place.index = walk.first;
    place.index[along_] = k_.index(0);
    place.index.push_back(walk.second);
    return place;
  };
  KernelBuilder::Values places;
  for (const Walk& walk : walks) places.push_back(body_.run(walk_.getStart().front(), 0, in_start, {}, place_of(walk))[0].value);
  return k_.loop(k_.index(0), k_.index(static_cast<int64_t>(walk_.getSteps())), k_.index(1), places, [&](Value, ValueRange carried) {
    KernelBuilder::Values next;
    for (auto [walk, at] : llvm::zip_equal(walks, carried)) {
      BodyPlace place = place_of(walk);
      place.index.push_back(at);
      next.push_back(body_.run(walk_.getNext().front(), in_start, in_next, {}, place)[0].value);
    }
    return next;
  });
}

void WalkEmitter::update(const Walk& walk, Value leads_to, int64_t lanes) {
  const auto first = static_cast<unsigned>(walk_.getStartReads() + walk_.getNextReads());
  along(lanes, [&](Value position, int64_t own_lanes, Value mask) {
    BodyPlace place;
    place.index = walk.first;
    place.index[along_] = position;
    place.index.append({walk.second, leads_to});
    place.lanes = own_lanes;
    place.lane_dimension = static_cast<unsigned>(along_);
    place.mask = mask;
    Value at = memory_place(place.index);
    SmallVector<Element> old;
    for (auto [i, result] : llvm::enumerate(walk_->getResults()))
      old.push_back({k_.load(k_.result(i), at, tx::element_of(result), own_lanes, mask), own_lanes > 0});
    SmallVector<Element> updated = body_.run(walk_.getUpdate().front(), first, walk_->getNumOperands() - first, old, place);
    for (auto [i, element] : llvm::enumerate(updated)) k_.store(body_.to_lanes(element, own_lanes).value, k_.result(i), at, mask);
  });
}

void WalkEmitter::take(ArrayRef<Walk> walks, int64_t lanes) {
  KernelBuilder::Values places = places_of(walks);
  for (auto [walk, place] : llvm::zip_equal(walks, places)) update(walk, place, lanes);
}

void WalkEmitter::take_line(ArrayRef<Value> line, int64_t at_once, int64_t lanes) {
  const AffineExpr extent = domain_.folded().front();
  auto from = [&](Value first, int64_t count) {
    SmallVector<Walk> walks;
    for (int64_t i = 0; i < count; ++i) walks.push_back({SmallVector<Value>(line), k_.add(first, i)});
    take(walks, lanes);
  };
  const auto known = tx::static_extent(extent);
  const Value count = k_.extent(extent), zero = k_.index(0);
  if (known) at_once = std::clamp<int64_t>(*known, 1, at_once);
  const Value whole = known ? k_.index(*known / at_once * at_once) : k_.mul(k_.div(count, k_.index(at_once)), at_once);
  k_.loop(zero, whole, k_.index(at_once), [&](Value first) { from(first, at_once); });
  if (known && *known % at_once == 0) return;
  if (known) return from(whole, *known % at_once);
  k_.loop(whole, count, [&](Value first) { from(first, 1); });
}

void emit_walks(KernelBuilder& kernel, stage::WalkOp walk, ArrayRef<Value> line) {
  constexpr int64_t at_once = 8;
  WalkEmitter emitter(kernel, walk);
  emitter.store_initial(line);
  emitter.take_line(line, at_once, /*lanes=*/0);
}

}  // namespace heddle::targets
