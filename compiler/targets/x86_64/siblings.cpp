// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contractions that do not depend on each other, such as Q, K and V of a layer: each has the microkernel strategy's workgroups, one after the other.
#include "compiler/targets/candidates.h"
#include "compiler/targets/sibling_regions.h"
#include "compiler/targets/x86_64/kernel_builder.h"
#include "compiler/targets/x86_64/strategies.h"

#include <map>

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

struct Sibling : SiblingRegion {
  Plans plans;
};

struct Siblings {
  OwningOpRef<ModuleOp> module;  // of the regions
  SmallVector<Sibling> all;
};

FailureOr<Siblings> read(tx::DispatchOp region) {
  auto regions = sibling_regions(region);
  if (failed(regions)) return failure();
  Siblings siblings{std::move(regions->module), {}};
  for (SiblingRegion& one : regions->all) {
    auto plans = plans_microkernel(one.region);
    if (failed(plans)) return failure();
    siblings.all.push_back({std::move(one), std::move(*plans)});
  }
  return siblings;
}

}  // namespace

FailureOr<Plans> plans_siblings(tx::DispatchOp region) {
  auto siblings = read(region);
  if (failed(siblings)) return failure();
  Plans plans = siblings->all.front().plans;
  for (KernelPlan& plan : plans) plan.works_in_place = plan.stores_rows_apart = false;  // unlike each product alone
  for (const Sibling& sibling : ArrayRef(siblings->all).drop_front()) {
    // Combines the first plan of a case with the first, the second with the second. Cases that only some siblings have are dropped.
    Plans joint;
    std::map<std::string, size_t> taken;  // number of the sibling's plans taken, by case
    for (KernelPlan& plan : plans) {
      SmallVector<const KernelPlan*> same;
      for (const KernelPlan& other : sibling.plans) {
        if (other.guards == plan.guards) same.push_back(&other);
      }
      size_t& next = taken[text_of(plan.guards)];
      if (next >= same.size()) continue;
      const KernelPlan& other = *same[next++];
      plan.workgroups = plan.workgroups + other.workgroups;
      plan.cost_ns = std::max(plan.cost_ns, other.cost_ns);
      plan.estimate_ns += other.estimate_ns;
      plan.choice.text += "; " + other.choice.text;
      llvm::append_range(plan.choice.numbers, other.choice.numbers);
      joint.push_back(std::move(plan));
    }
    plans = std::move(joint);
  }
  return plans;
}

FailureOr<KernelResources> emit_siblings(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels,
                                         const Level& level) {
  auto siblings = read(region);
  if (failed(siblings)) return failure();
  KernelResources resources;
  SmallVector<func::FuncOp> bodies;
  SmallVector<AffineExpr> workgroups;
  ArrayRef<int64_t> numbers = plan.choice.numbers;
  for (auto [i, sibling] : llvm::enumerate(siblings->all)) {
    std::string own = (symbol + "." + Twine(i)).str();
    auto chosen = llvm::find_if(sibling.plans, [&](const KernelPlan& one) {
      return one.choice.numbers.size() <= numbers.size() && numbers.take_front(one.choice.numbers.size()) == ArrayRef(one.choice.numbers);
    });
    if (chosen == sibling.plans.end()) return FailureOr<KernelResources>(region.emitError("x86_64: the plan is for another region"));
    numbers = numbers.drop_front(chosen->choice.numbers.size());
    workgroups.push_back(chosen->workgroups);
    auto needs = emit_microkernel(sibling.region, *chosen, own, kernels, level);
    if (failed(needs)) return failure();
    resources.workspace_bytes = std::max(resources.workspace_bytes, needs->workspace_bytes);
    kernels.lookupSymbol<func::FuncOp>(own).erase();  // nothing else calls it
    bodies.push_back(kernels.lookupSymbol<func::FuncOp>(own + ".body"));
  }
  KernelBuilder kernel(region, symbol, kernels, level);
  AffineExpr start = getAffineConstantExpr(0, region.getContext());
  for (auto [i, sibling] : llvm::enumerate(siblings->all)) {
    AffineExpr end = start + workgroups[i];
    Value offset = kernel.extent(start);
    Value first = kernel.sub(kernel.max(kernel.first(), offset), offset);
    Value last = kernel.sub(kernel.min(kernel.last(), kernel.extent(end)), offset);
    SmallVector<Value> arguments;
    for (unsigned input : sibling.inputs) arguments.push_back(kernel.operand(input));
    arguments.push_back(kernel.result(static_cast<unsigned>(i)));
    for (int64_t symbol_number = 0; symbol_number < symbol_count(region); ++symbol_number) {
      arguments.push_back(kernel.extent(getAffineSymbolExpr(static_cast<unsigned>(symbol_number), region.getContext())));
    }
    arguments.append({first, last, kernel.workspace()});
    kernel.branch(kernel.less(first, last), [&] { kernel.builder.create<func::CallOp>(kernel.location, bodies[i], arguments); });
    start = end;
  }
  kernel.finish();
  return resources;
}

}  // namespace heddle::targets::x86_64
