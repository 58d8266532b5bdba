// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The strategy for element-wise ops and data movement: every output element is computed where it is stored, in vectors along the innermost dimension.
// A concat is walked input by input. Called by elemental.cpp.
#include "compiler/targets/output_space.h"
#include "compiler/targets/x86_64/strategy.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

class ElementwisePart final : public Part {
 public:
  ElementwisePart(tx::DispatchOp region, ArrayRef<Output> outputs, OutputSpace space)
      : region_(region), outputs_(outputs), space_(std::move(space)) {
    tiling_ = RowTiling::make(RowSpace::of(space_.extents, space_.flattened), element_ns(outputs_));
  }

  AffineExpr workgroups() const override { return tiling_.workgroups; }
  uint64_t cost_ns() const override { return tiling_.cost_ns; }
  bool works_in_place() const override { return true; }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    LogicalResult all = success();
    ElementEvaluator evaluator(k, region_);
    space_.prepare(evaluator);
    row_loops(k, tiling_, block, 4, [&](const Stretch& stretch) {
      for (int64_t v = 0; v < stretch.vectors; ++v) {
        if (failed(all)) return;
        Value inner = k.add(stretch.inner, v * stretch.lanes);
        all = store_outputs(k, evaluator, outputs_, space_.point(k, stretch.outer, inner, stretch.lanes, stretch.mask));
      }
    });
    return all;
  }

 private:
  tx::DispatchOp region_;
  std::vector<Output> outputs_;
  OutputSpace space_;
  RowTiling tiling_;
};

// Time of one op per element, in units of an addition in vectors of 512 bits.
double weight(Operation* op) {
  return llvm::TypeSwitch<Operation*, double>(op)
      .Case<tx::ExpOp, tx::LogOp, tx::SigmoidOp>([](Operation*) { return 6.0; })
      .Case<tx::TanhOp, tx::ErfOp>([](Operation*) { return 10.0; })
      .Case<tx::PowOp>([](Operation*) { return 50.0; })
      .Case<tx::DivOp, tx::SqrtOp, tx::RsqrtOp, tx::ReciprocalOp>([](Operation*) { return 4.0; })
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
  for (OutputSpace& space : output_spaces(outputs)) parts.push_back(std::make_unique<ElementwisePart>(region, outputs, std::move(space)));
  return parts;
}

}  // namespace heddle::targets::x86_64
