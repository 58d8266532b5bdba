// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-store-parts: the regions that compute the parts of a concat store them where the concat has them, so that nothing is copied: as a range of
// bytes, or as a part of each row.
#include "compiler/passes/passes.h"

#include "compiler/ir/tx.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// The alignment that kernels rely on for the start of a result.
constexpr int64_t alignment_bytes = 64;

// The concat that is all that the region computes, of one operand after another.
tx::ConcatOp only_concat(tx::DispatchOp region) {
  Block& body = region.getBody().front();
  auto concat = llvm::dyn_cast<tx::ConcatOp>(body.front());
  if (!concat || concat->getNextNode() != body.getTerminator() || region.getAlternative() || region.getTied()) return nullptr;
  return ValueRange(concat.getInputs()) == ValueRange(body.getArguments()) ? concat : nullptr;
}

// Whether it is the only result of a region on the same slot, and is read only as this part.
bool is_free(Value part, tx::DispatchOp region) {
  auto maker = part.getDefiningOp<tx::DispatchOp>();
  return maker && maker.getNumResults() == 1 && part.hasOneUse() && maker.getSlot() == region.getSlot() && !maker.getAlternative() &&
         !maker.getTied() && !maker.getPitchAttr();
}

// Sets the pitch of the regions that compute the parts, if all of them can store theirs in place.
bool try_to_store_in_place(tx::DispatchOp region, tx::ConcatOp concat, const Devices& devices, StringRef family) {
  const RankedTensorType whole = tx::tensor(concat.getResult());
  const bool has_ranges = tx::has_ranges(concat);
  if (!has_ranges && concat.getAxis() + 1 != static_cast<uint64_t>(whole.getRank())) return false;
  const int64_t element_bytes = (whole.getElementTypeBitWidth() + 7) / 8;
  int64_t start = 0;
  SmallVector<tx::DispatchOp> makers;
  for (Value part : region.getInputs()) {
    if (start % alignment_bytes != 0 || !is_free(part, region)) return false;
    makers.push_back(part.getDefiningOp<tx::DispatchOp>());
    auto count = tx::static_extent(has_ranges ? tx::element_count(tx::tensor(part)) : tx::extents(tx::tensor(part)).back());
    int64_t bytes = 0;
    if (!count || __builtin_mul_overflow(*count, element_bytes, &bytes) || __builtin_add_overflow(start, bytes, &start)) return false;
  }
  if (has_ranges) return true;
  if (start % alignment_bytes != 0) return false;  // where the second row starts
  for (tx::DispatchOp maker : makers) maker.setPitch(whole.getShape().back());
  if (llvm::all_of(makers, [&](tx::DispatchOp maker) { return devices.store_rows_apart(family, maker); })) return true;
  for (tx::DispatchOp maker : makers) maker.removePitchAttr();
  return false;
}

struct StoreParts : PassWrapper<StoreParts, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(StoreParts)
  StringRef getArgument() const final { return "heddle-store-parts"; }
  StringRef getDescription() const final { return "regions store the parts of a concat in its memory"; }
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.getName() == tx::initializer_name) continue;  // its values are read in its own order
      for (auto region : llvm::make_early_inc_range(function.getOps<tx::DispatchOp>())) {
        tx::ConcatOp concat = only_concat(region);
        StringRef family = tx::family_of(getOperation(), region.getSlot().value_or(tx::default_slot));
        if (!concat || !try_to_store_in_place(region, concat, devices_, family)) continue;
        OpBuilder builder(region);
        Location location = concat.getLoc();
        auto whole = builder.create<tx::ConcatOp>(location, concat.getType(), region.getInputs(), concat.getAxis());
        region.getResult(0).replaceAllUsesWith(whole);
        region.erase();
      }
    }
  }

  void getDependentDialects(DialectRegistry& registry) const override { devices_.register_dialects(registry); }

  explicit StoreParts(const Devices& devices) : devices_(devices) {}
  const Devices& devices_;
};

}  // namespace

std::unique_ptr<Pass> store_parts(const Devices& devices) {
  return std::make_unique<StoreParts>(devices);
}

}  // namespace heddle::passes
