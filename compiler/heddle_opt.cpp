// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-opt: runs any pass on text, for tests and compiler developers.
#include "compiler/code/target_devices.h"
#include "compiler/ir/narrow.h"
#include "compiler/passes/passes.h"
#include "compiler/stage/stage.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char** argv) {
  mlir::DialectRegistry registry;
  registry.insert<heddle::tx::TxDialect, heddle::tx::NarrowDialect, heddle::stage::StageDialect, mlir::arith::ArithDialect,
                  mlir::func::FuncDialect, mlir::math::MathDialect>();
  const heddle::compiler::TargetDevices devices({{"cpu", "x86-64-v3"}, {"cuda", "sm_80"}, {"hip", "gfx90a"}},
                                                heddle::targets::Math::strict);
  heddle::passes::register_passes(devices);
  heddle::stage::register_passes();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Heddle pass driver\n", registry));
}
