// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which strategy makes a region's kernel. See target.h.
#include "compiler/targets/target.h"

#include <optional>

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// The first error that a strategy reports while it plans. It is hidden from the user as long as another strategy may take the region.
class Reason {
 public:
  explicit Reason(MLIRContext* context)
      : handler_(context, [this](Diagnostic& diagnostic) {
          if (diagnostic.getSeverity() != DiagnosticSeverity::Error) return failure();
          if (!location_) {
            location_ = diagnostic.getLocation();
            text_ = diagnostic.str();
          }
          return success();
        }) {}
  std::optional<Location> location() const { return location_; }
  const std::string& text() const { return text_; }

 private:
  std::optional<Location> location_;
  std::string text_;
  ScopedDiagnosticHandler handler_;
};

// For example "attention: reads three products; rows: ...".
std::string reasons_of(ArrayRef<Refusal> refusals) {
  std::string text;
  for (const Refusal& refusal : refusals) text += (text.empty() ? "" : "; ") + refusal.strategy + ": " + refusal.reason;
  return text;
}

// A region is tied, or has a pitch, if the plans of the first strategy allow it (Target::works_in_place); those of other strategies need not.
void drop_what_cannot_store(tx::DispatchOp region, Answer& answer) {
  auto drop = [&](bool KernelPlan::* may, const char* reason) {
    if (answer.plans.empty()) return;
    llvm::erase_if(answer.plans, [&](const KernelPlan& plan) { return !(plan.*may); });
    if (answer.plans.empty()) answer.reason = reason;
  };
  if (region.getTied()) drop(&KernelPlan::works_in_place, "its kernels do not overwrite an operand with a result");
  if (region.getPitchAttr()) drop(&KernelPlan::stores_rows_apart, "its kernels store only dense rows");
}

bool is_loaded(Type element) {
  if (!element.isIntOrFloat()) return false;
  unsigned bits = element.getIntOrFloatBitWidth();
  return element.isInteger(1) || (bits % 8 == 0 && bits <= 64);
}

}  // namespace

FailureOr<Plans> Target::plans(tx::DispatchOp region, StringRef only, std::vector<Answer>* answers) const {
  for (auto [operand, value] : llvm::enumerate(region.getInputs())) {
    Type element = tx::tensor(value).getElementType();
    if (!is_loaded(element)) {
      return FailureOr<Plans>(region.emitError()
                              << name() << ": operand " << operand << " has elements of type " << element << ", which kernels cannot load");
    }
  }
  bool has_only_stages = llvm::any_of(region.getBody().front(), [](Operation& op) { return tx::has_only_stages(&op); });
  std::vector<Refusal> refusals;
  std::optional<Location> at;  // of the op that the first refusal names
  FailureOr<Plans> taken = failure();
  for (const auto& strategy : strategies()) {
    if (!only.empty() && strategy->name() != only) continue;
    if (has_only_stages && !strategy->reads_stages()) {
      if (answers) answers->push_back({strategy->name().str(), {}, {}});
      continue;
    }
    Reason reason(region.getContext());
    FailureOr<Plans> plans = strategy->plans(region);
    if (succeeded(plans)) {
      for (KernelPlan& plan : *plans) plan.strategy = strategy->name();
    }
    if (answers) {
      answers->push_back({strategy->name().str(), succeeded(plans) ? *plans : Plans(), failed(plans) ? reason.text() : std::string()});
      if (succeeded(taken)) drop_what_cannot_store(region, answers->back());
    }
    if (succeeded(taken)) continue;
    if (succeeded(plans)) {
      for (KernelPlan& plan : *plans) plan.refusals = refusals;
      taken = std::move(plans);
      if (!answers) break;
      continue;
    }
    if (!reason.location() || (!refusals.empty() && refusals.back().reason == reason.text())) continue;
    if (!at) at = reason.location();
    refusals.push_back({strategy->name().str(), reason.text()});
  }
  if (succeeded(taken)) {
    if (region.getPitchAttr() && !llvm::all_of(*taken, [](const KernelPlan& plan) { return plan.stores_rows_apart; }))
      return FailureOr<Plans>(region.emitError() << name() << ": the " << taken->front().strategy
                                                 << " kernel of this region stores only dense rows; remove `pitch`");
    return taken;
  }
  InFlightDiagnostic error = emitError(at.value_or(region.getLoc()));
  if (refusals.empty()) error << name() << ": no kind of kernel fits this region";
  for (auto [i, refusal] : llvm::enumerate(refusals)) {
    if (i > 0) error << "; " << refusal.strategy << ": ";
    error << refusal.reason;
  }
  return failure();
}

bool Target::has_own_kernel(tx::DispatchOp region, std::string* why_not) const {
  ScopedDiagnosticHandler quiet(region.getContext(), [](Diagnostic&) { return success(); });
  Reason reason(region.getContext());
  FailureOr<Plans> found = plans(region);
  const StringRef generic = strategies().back()->name();
  if (succeeded(found) && found->back().strategy != generic) return true;
  if (!why_not) return false;
  *why_not = failed(found) ? reason.text() : reasons_of(found->back().refusals);
  if (why_not->empty()) *why_not = name() + ": only the " + generic.str() + " kernel fits this region";
  return false;
}

bool Target::all_plans(tx::DispatchOp region, bool KernelPlan::* may) const {
  ScopedDiagnosticHandler quiet(region.getContext(), [](Diagnostic&) { return success(); });
  FailureOr<Plans> found = plans(region);
  return succeeded(found) && llvm::all_of(*found, [&](const KernelPlan& plan) { return plan.*may; });
}

bool Target::works_in_place(tx::DispatchOp region) const {
  return all_plans(region, &KernelPlan::works_in_place);
}

bool Target::stores_rows_apart(tx::DispatchOp region) const {
  return all_plans(region, &KernelPlan::stores_rows_apart);
}

FailureOr<KernelResources> Target::emit(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels) const {
  for (const auto& strategy : strategies()) {
    if (strategy->name() != plan.strategy) continue;
    FailureOr<KernelResources> resources = strategy->emit(region, plan, symbol, kernels);
    if (succeeded(resources) && failed(verify(kernels))) return failure();
    return resources;
  }
  return FailureOr<KernelResources>(region.emitError() << name() << " has no strategy '" << plan.strategy << "'");
}

FailureOr<std::vector<char>> Target::assemble(ModuleOp kernels) const {
  std::vector<std::vector<char>> code;
  std::vector<LinkedKernel> linked;
  for (CodeUnit& unit : split_code(kernels)) {
    auto bytes = generate(*unit.module);
    if (failed(bytes)) return failure();
    code.push_back(std::move(*bytes));
    if (!kernels.lookupSymbol(unit.name)->hasAttr(outlined_attr)) linked.push_back({unit.name, unit.name});
  }
  return link(SmallVector<ArrayRef<char>>(code.begin(), code.end()), linked, kernels.getLoc());
}

}  // namespace heddle::targets
