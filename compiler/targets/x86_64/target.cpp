// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The x86-64 target: sends each region to the strategy for it, and turns kernels into an image. Called by the pipeline.
#include "compiler/stage/stage.h"
#include "compiler/targets/x86_64/contraction.h"
#include "compiler/targets/x86_64/elemental.h"
#include "compiler/targets/x86_64/generic.h"
#include "compiler/targets/x86_64/image.h"
#include "compiler/targets/x86_64/kernel_builder.h"
#include "compiler/targets/x86_64/lower.h"
#include "compiler/targets/x86_64/x86_64.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"

using namespace mlir;

namespace heddle::targets {

namespace x86_64 {
namespace {

class X86Target final : public Target {
 public:
  explicit X86Target(const Level& level) : level_(level) {}

  std::string format() const override { return "x86_64-elf/1"; }
  std::string name() const override { return std::string(level_.name); }
  std::string family() const override { return "cpu"; }

  FailureOr<KernelPlan> plan(tx::DispatchOp region) const override {
    if (!is_contraction(region)) return plan_elemental(region);
    std::string why, also;
    auto plan = plan_if_taken(region, why);
    if (succeeded(plan)) return plan;
    auto generic = plan_generic(region, also);
    if (succeeded(generic)) return generic;
    return FailureOr<KernelPlan>(region.emitError(why) << "; nor does the generic kernel take it: " << also);
  }

  FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, llvm::StringRef symbol, ModuleOp kernels) const override {
    if (!is_contraction(region)) return emit_elemental(region, plan, symbol, kernels, level_);
    std::string why;
    if (failed(plan_if_taken(region, why))) return emit_generic(region, symbol, kernels, level_);
    return emit_contraction(region, plan, symbol, kernels, level_);
  }

  FailureOr<std::vector<char>> assemble(ModuleOp kernels) const override {
    auto objects = lower_to_objects(kernels, level_);
    if (failed(objects)) return failure();
    std::string error;
    std::vector<char> image = link_image(*objects, error);
    if (image.empty()) return kernels.emitError(error);
    return image;
  }

 private:
  // The microkernels' plan; without one, why there is none.
  static FailureOr<KernelPlan> plan_if_taken(tx::DispatchOp region, std::string& why) {
    ScopedDiagnosticHandler quiet(region.getContext(), [&](Diagnostic& diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error && why.empty()) why = diagnostic.str();
    });
    return plan_contraction(region);
  }

  const Level& level_;
};

}  // namespace
}  // namespace x86_64

std::unique_ptr<Target> make_x86_64_target(std::string_view level) {
  for (const x86_64::Level* known : {&x86_64::level_v3, &x86_64::level_v4}) {
    if (known->name == level) return std::make_unique<x86_64::X86Target>(*known);
  }
  return nullptr;
}

void register_x86_64_dialects(DialectRegistry& registry) {
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect,
                  stage::StageDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

}  // namespace heddle::targets
