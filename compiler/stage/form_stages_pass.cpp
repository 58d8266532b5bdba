// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-form-stages: replaces the ops of each dispatch by the stages that form_stages() makes of them, for tests and compiler developers.
// Targets form stages themselves when a strategy asks for them.
#include "compiler/stage/stage.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace heddle::stage {
namespace {

struct FormStages : PassWrapper<FormStages, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FormStages)
  StringRef getArgument() const final { return "heddle-form-stages"; }
  StringRef getDescription() const final {
    return "dispatch { tx ops }  ->  dispatch { stages }; a dispatch without stages stays, with a remark";
  }
  void getDependentDialects(DialectRegistry& registry) const final {
    registry.insert<StageDialect, arith::ArithDialect, math::MathDialect>();
  }
  void runOnOperation() override {
    SmallVector<tx::DispatchOp> regions;
    getOperation().walk([&](tx::DispatchOp region) { regions.push_back(region); });
    for (tx::DispatchOp region : regions) {
      std::string reason;
      auto staged = form_stages(region, reason);
      if (failed(staged)) {
        region.emitRemark("cannot form stages: ") << reason;
        continue;
      }
      region.getBody().takeBody(staged->region.getBody());
    }
  }
};

}  // namespace

void register_passes() {
  PassRegistration<FormStages>();
}

}  // namespace heddle::stage
