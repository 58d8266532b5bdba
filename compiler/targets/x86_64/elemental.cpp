// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions of element-wise ops and data movement: each group of outputs with one index space uses the first strategy that takes it. Called by the
// target's plan() and emit().
#include "compiler/targets/x86_64/strategies.h"

#include "compiler/targets/x86_64/strategy.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

// A part once for each repetition of its group.
class RepeatedPart final : public Part {
 public:
  RepeatedPart(std::unique_ptr<Part> part, OutputGroup group) : part_(std::move(part)), group_(std::move(group)) {}

  AffineExpr workgroups() const override { return part_->workgroups() * static_cast<int64_t>(group_.repetitions.size() + 1); }
  uint64_t cost_ns() const override { return part_->cost_ns(); }
  bool works_in_place() const override { return part_->works_in_place(); }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    return emit_repetitions(k, group_, part_->workgroups(), block, [&](Value own) { return part_->emit(k, own); });
  }

 private:
  std::unique_ptr<Part> part_;
  OutputGroup group_;
};

FailureOr<Parts> parts_of(tx::DispatchOp region) {
  Parts parts;
  for (const OutputGroup& group : output_groups(region)) {
    auto found = transpose_parts(region, group.outputs);
    if (failed(found)) return failure();
    if (found->empty()) found = elementwise_parts(region, group.outputs);
    for (auto& part : *found) {
      if (!group.repetitions.empty()) part = std::make_unique<RepeatedPart>(std::move(part), group);
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

}  // namespace

FailureOr<Plans> plans_output_groups(tx::DispatchOp region) {
  for (Operation& op : region.getBody().front()) {
    if (tx::is_contraction(&op) || llvm::isa<tx::PackOp, tx::BatchNormOp, tx::ParameterOp>(op)) return failure();
  }
  auto parts = parts_of(region);
  if (failed(parts)) return failure();
  KernelPlan plan;
  plan.workgroups = getAffineConstantExpr(0, region.getContext());
  plan.copies_by_operand = true;
  plan.works_in_place = llvm::all_of(*parts, [](const auto& part) { return part->works_in_place(); });
  for (const auto& part : *parts) {
    plan.workgroups = plan.workgroups + part->workgroups();
    plan.cost_ns = std::max(plan.cost_ns, part->cost_ns());
  }
  return Plans{plan};
}

FailureOr<KernelResources> emit_output_groups(tx::DispatchOp region, const KernelPlan&, StringRef symbol, ModuleOp kernels,
                                              const Level& level) {
  auto parts = parts_of(region);
  if (failed(parts)) return failure();
  KernelBuilder kernel(region, symbol, kernels, level);
  AffineExpr start = getAffineConstantExpr(0, region.getContext());
  LogicalResult all = success();
  for (const auto& part : *parts) {
    AffineExpr end = start + part->workgroups();
    Value offset = kernel.extent(start);
    Value from = kernel.first(), to = kernel.last();
    if (parts->size() > 1) {
      from = kernel.max(from, offset);
      to = kernel.min(to, kernel.extent(end));
    }
    kernel.loop(from, to, [&](Value workgroup) {
      if (succeeded(all)) all = part->emit(kernel, kernel.sub(workgroup, offset));
    });
    start = end;
  }
  kernel.finish();
  if (failed(all)) return failure();
  return KernelResources{};
}

}  // namespace heddle::targets::x86_64
