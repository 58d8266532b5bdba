// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which strategy makes a region's kernel. See target.h.
#include "compiler/targets/target.h"

#include <optional>

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// The first error that a strategy reports while it plans, kept from the user as long as another one may take the region.
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

bool is_loaded(Type element) {
  if (!element.isIntOrFloat()) return false;
  unsigned bits = element.getIntOrFloatBitWidth();
  return element.isInteger(1) || (bits % 8 == 0 && bits <= 64);
}

}  // namespace

FailureOr<Plans> Target::plans(tx::DispatchOp region, StringRef only) const {
  for (auto [operand, value] : llvm::enumerate(region.getInputs())) {
    Type element = tx::tensor(value).getElementType();
    if (!is_loaded(element)) {
      return FailureOr<Plans>(region.emitError()
                              << name() << ": operand " << operand << " has elements of type " << element << ", which kernels do not load");
    }
  }
  bool has_only_stages = llvm::any_of(region.getBody().front(), [](Operation& op) { return tx::has_only_stages(&op); });
  std::vector<Refusal> refusals;
  std::optional<Location> at;  // of the op that the first refusal names
  for (const auto& strategy : strategies()) {
    if (has_only_stages && !strategy->reads_stages()) continue;
    if (!only.empty() && strategy->name() != only) continue;
    Reason reason(region.getContext());
    FailureOr<Plans> plans = strategy->plans(region);
    if (succeeded(plans)) {
      for (KernelPlan& plan : *plans) {
        plan.strategy = strategy->name();
        plan.refusals = refusals;
      }
      return plans;
    }
    if (!reason.location() || (!refusals.empty() && refusals.back().reason == reason.text())) continue;
    if (!at) at = reason.location();
    refusals.push_back({strategy->name().str(), reason.text()});
  }
  InFlightDiagnostic error = emitError(at.value_or(region.getLoc()));
  if (refusals.empty()) error << name() << ": no strategy is for such a region";
  for (auto [i, refusal] : llvm::enumerate(refusals)) {
    if (i > 0) error << "; " << refusal.strategy << ": ";
    error << refusal.reason;
  }
  return failure();
}

bool Target::has_own_kernel(tx::DispatchOp region) const {
  ScopedDiagnosticHandler quiet(region.getContext(), [](Diagnostic&) { return success(); });
  FailureOr<Plans> found = plans(region);
  return succeeded(found) && found->back().strategy != strategies().back()->name();
}

bool Target::works_in_place(tx::DispatchOp region) const {
  ScopedDiagnosticHandler quiet(region.getContext(), [](Diagnostic&) { return success(); });
  FailureOr<Plans> found = plans(region);
  return succeeded(found) && llvm::all_of(*found, [](const KernelPlan& plan) { return plan.works_in_place; });
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
