// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The x86-64 target: its strategies, and kernels into an image. Called by the pipeline.
#include "compiler/stage/stage.h"
#include "compiler/targets/x86_64/contraction_epilogue.h"
#include "compiler/targets/x86_64/image.h"
#include "compiler/targets/x86_64/kernel_builder.h"
#include "compiler/targets/x86_64/lower.h"
#include "compiler/targets/x86_64/row_loops.h"
#include "compiler/targets/x86_64/strategies.h"
#include "compiler/targets/x86_64/x86_64.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"

using namespace mlir;

namespace heddle::targets {

namespace x86_64 {
namespace {

// A pair of functions of strategies.h, for one level.
class Entry final : public Strategy {
 public:
  using MakePlans = FailureOr<Plans> (*)(tx::DispatchOp);
  using Emit = FailureOr<KernelResources> (*)(tx::DispatchOp, const KernelPlan&, StringRef, ModuleOp, const Level&);
  Entry(StringRef name, MakePlans plans, Emit emit, bool reads_stages, const Level& level)
      : name_(name), plans_(plans), emit_(emit), reads_stages_(reads_stages), level_(level) {}

  StringRef name() const override { return name_; }
  bool reads_stages() const override { return reads_stages_; }
  FailureOr<Plans> plans(tx::DispatchOp region) const override { return plans_(region); }
  FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels) const override {
    return emit_(region, plan, symbol, kernels, level_);
  }

 private:
  StringRef name_;
  MakePlans plans_;
  Emit emit_;
  bool reads_stages_;
  const Level& level_;
};

class X86Target final : public Target {
 public:
  explicit X86Target(const Level& level) : level_(level) {
    auto add = [&](StringRef name, auto plans, auto emit, bool reads_stages) {
      strategies_.push_back(std::make_unique<Entry>(name, plans, emit, reads_stages, level));
    };
    add("pack", plans_pack, emit_pack, false);
    add("depthwise", plans_depthwise, emit_depthwise, false);
    add("winograd", plans_winograd, emit_winograd, false);
    add("blocks", plans_blocks, emit_blocks, true);
    add("dot products", plans_dot_products, emit_dot_products, false);
    add("microkernel", plans_microkernel, emit_microkernel, false);
    add("siblings", plans_siblings, emit_siblings, false);
    add("walks", plans_walks, emit_walks, true);
    add("attention", plans_attention, emit_attention, true);
    add("rows", plans_rows, emit_rows, true);
    add("output groups", plans_output_groups, emit_output_groups, false);
    add("generic", plans_generic, emit_generic, true);
  }

  std::string format() const override { return "x86_64-elf/1"; }
  std::string name() const override { return std::string(level_.name); }
  std::string family() const override { return "cpu"; }

  const Strategies& strategies() const override { return strategies_; }
  bool reads_panels() const override { return true; }
  bool reads_blocks() const override { return true; }
  bool prefers_winograd(tx::ConvOp conv) const override { return x86_64::prefers_winograd(conv); }
  bool reads_behind_contraction(tx::BroadcastOp broadcast) const override { return Epilogue::takes(broadcast); }
  int64_t results_at_once() const override { return 16; }
  int64_t neighbors_at_once() const override { return longest_vector_run; }

  FailureOr<std::vector<char>> generate(ModuleOp unit) const override { return lower_to_object(unit, level_); }

  FailureOr<std::vector<char>> link(ArrayRef<ArrayRef<char>> units, ArrayRef<LinkedKernel> kernels, Location location) const override {
    std::string error;
    std::vector<char> image = link_image(units, kernels, error);
    if (image.empty()) return FailureOr<std::vector<char>>(emitError(location, error));
    return image;
  }

 private:
  const Level& level_;
  Strategies strategies_;
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
