// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The strategy for element-wise ops and data movement: every output element is computed where it is stored, along the innermost
// dimension in vectors. A concat is walked input by input. Called by elemental.cpp.
#include "compiler/targets/x86_64/strategy.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

RankedTensorType tensor(Value value) {
  return llvm::cast<RankedTensorType>(value.getType());
}

// The first concat that the value is, or is computed from by element-wise ops alone.
tx::ConcatOp concat_behind(Value value, llvm::DenseSet<Value>& seen) {
  Operation* op = value.getDefiningOp();
  if (!op || !seen.insert(value).second) return {};
  if (auto concat = llvm::dyn_cast<tx::ConcatOp>(op)) return concat;
  if (!tx::is_elementwise(op)) return {};
  for (Value operand : op->getOperands()) {
    if (auto concat = concat_behind(operand, seen)) return concat;
  }
  return {};
}

class ElementwisePart final : public Part {
 public:
  // `chosen` and `input`: the concat that is walked input by input, and the input of this part.
  ElementwisePart(tx::DispatchOp region, ArrayRef<Output> outputs, tx::ConcatOp chosen, unsigned input)
      : region_(region), outputs_(outputs), chosen_(chosen), input_(input) {
    MLIRContext* context = region.getContext();
    auto type = tensor(outputs.front().value);
    extents_ = tx::extents(type);
    start_ = getAffineConstantExpr(0, context);
    if (extents_.empty()) extents_.push_back(getAffineConstantExpr(1, context));
    if (chosen_) {
      axis_ = static_cast<unsigned>(chosen_.getAxis());
      for (unsigned i = 0; i < input_; ++i) start_ = start_ + tx::extents(tensor(chosen_.getInputs()[i]))[axis_];
      extents_[axis_] = tx::extents(tensor(chosen_.getInputs()[input_]))[axis_];
    }
    flattened_ = 1;
    while (flattened_ < extents_.size() &&
           llvm::all_of(
               outputs_, [&](const Output& output) { return can_flatten(output.value, flattened_ + 1, chosen_); }) &&
           (!chosen_ || axis_ <= extents_.size() - flattened_ - 1)) {
      ++flattened_;
    }
    cut_ = RowCut::make(RowSpace::of(extents_, flattened_), element_ns(outputs_));
  }

  AffineExpr workgroups() const override { return cut_.workgroups; }
  uint64_t cost_ns() const override { return cut_.cost_ns; }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    LogicalResult all = success();
    ElementEvaluator evaluator(k, region_);
    if (chosen_) evaluator.choose(chosen_, input_);
    row_loops(k, cut_, block, 4, [&](const Stretch& stretch) {
      for (int64_t v = 0; v < stretch.vectors; ++v) {
        if (failed(all)) return;
        Point point;
        point.lanes = stretch.lanes;
        point.mask = stretch.mask;
        for (Value index : stretch.outer) point.at.push_back({index, 0, {}});
        for (unsigned d = 0; d + 1 < flattened_; ++d) point.at.push_back({k.index(0), 0, {}});
        point.at.push_back({k.add(stretch.inner, v * stretch.lanes), stretch.lanes > 0 ? 1 : 0, {}});
        if (chosen_) point.at[axis_].base = k.add(point.at[axis_].base, k.extent(start_));
        if (tensor(outputs_.front().value).getRank() == 0) point.at.clear();
        all = store_outputs(k, evaluator, outputs_, point);
      }
    });
    return all;
  }

 private:
  tx::DispatchOp region_;
  std::vector<Output> outputs_;
  tx::ConcatOp chosen_;
  unsigned input_;
  unsigned axis_ = 0;
  AffineExpr start_;
  SmallVector<AffineExpr> extents_;
  unsigned flattened_;
  RowCut cut_;
};

// Time of one op on an element, in units of an addition in vectors of 512 bits.
double weight(Operation* op) {
  return llvm::TypeSwitch<Operation*, double>(op)
      .Case<tx::ExpOp, tx::LogOp, tx::SigmoidOp>([](Operation*) { return 6.0; })
      .Case<tx::TanhOp>([](Operation*) { return 10.0; })
      .Case<tx::ErfOp>([](Operation*) { return 20.0; })
      .Case<tx::PowOp>([](Operation*) { return 50.0; })
      .Case<tx::DivOp, tx::SqrtOp, tx::RsqrtOp, tx::ReciprocalOp>([](Operation*) { return 4.0; })
      .Case<tx::GatherOp>([](Operation*) { return 10.0; })
      .Case<tx::ReshapeOp, tx::BroadcastOp, tx::ConstantOp>([](Operation*) { return 0.0; })
      .Default([](Operation*) { return 1.0; });
}

void collect(Value value, llvm::SetVector<Operation*>& ops, llvm::DenseSet<Value>& loads) {
  Operation* op = value.getDefiningOp();
  if (!op) {
    loads.insert(value);
    return;
  }
  if (!ops.insert(op)) return;
  for (Value operand : op->getOperands()) collect(operand, ops, loads);
}

}  // namespace

double element_ns(ArrayRef<Output> outputs) {
  llvm::SetVector<Operation*> ops;
  llvm::DenseSet<Value> loads;
  for (const Output& output : outputs) collect(output.value, ops, loads);
  double work = static_cast<double>(loads.size() + outputs.size()) * 2.5;  // memory: about 4 bytes each at 80 GB/s
  for (Operation* op : ops) work += weight(op);
  return work * 0.02;
}

double element_ns(Value value) {
  return element_ns(Output{value, 0});
}

Parts elementwise_parts(tx::DispatchOp region, ArrayRef<Output> outputs) {
  Parts parts;
  llvm::DenseSet<Value> seen;
  tx::ConcatOp concat;
  for (const Output& output : outputs) {
    if (!concat) concat = concat_behind(output.value, seen);
  }
  if (!concat) {
    parts.push_back(std::make_unique<ElementwisePart>(region, outputs, concat, 0));
    return parts;
  }
  for (unsigned i = 0; i < concat.getInputs().size(); ++i) {
    if (tensor(concat.getInputs()[i]).getDimSize(concat.getAxis()) == 0) continue;
    parts.push_back(std::make_unique<ElementwisePart>(region, outputs, concat, i));
  }
  return parts;
}

}  // namespace heddle::targets::x86_64
