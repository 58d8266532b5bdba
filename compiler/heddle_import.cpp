// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-import: prints an ONNX file, a StableHLO program or a graph of PyTorch as tx text, for tests and compiler developers.
#include "compiler/import/aten_importer.h"
#include "compiler/import/stablehlo_importer.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

int main(int argc, char** argv) {
  heddle::import::Operators operators;
  for (; argc > 3 && llvm::StringRef(argv[1]) == "--operators"; argc -= 2, argv += 2) {
    if (std::string wrong = operators.add(argv[2]); !wrong.empty()) {
      llvm::errs() << wrong << '\n';
      return 1;
    }
  }
  const llvm::StringRef argument = argc == 2 ? argv[1] : "";
  if (argument.empty() || argument == "--help") {
    (argument.empty() ? llvm::errs() : llvm::outs())
        << "usage: heddle-import [--operators MANIFEST]... FILE.onnx|FILE.mlir | --list-operators | --stablehlo-ops | --aten-ops\n";
    return argument.empty() ? 2 : 0;
  }
  if (argument == "--list-operators") {
    for (const std::string& name : heddle::import::supported_operators()) llvm::outs() << name << '\n';
    return 0;
  }
  if (argument == "--stablehlo-ops") {
    for (const std::string& name : heddle::import::supported_stablehlo_ops()) llvm::outs() << name << '\n';
    return 0;
  }
  if (argument == "--aten-ops") {
    for (const std::string& name : heddle::import::supported_aten_ops()) llvm::outs() << name << '\n';
    return 0;
  }
  mlir::MLIRContext context;
  context.loadDialect<heddle::tx::TxDialect, mlir::func::FuncDialect>();
  heddle::tx::ParameterStore parameters;
  heddle::import::ImportError error;
  auto module = heddle::import::is_aten(argv[1]) ? heddle::import::import_aten(argv[1], context, parameters, error)
                : heddle::import::is_stablehlo(argv[1])
                    ? heddle::import::import_stablehlo(argv[1], context, parameters, error)
                    : heddle::import::import_onnx(argv[1], context, parameters, error, {{}, nullptr, &operators});
  if (!module) {
    llvm::errs() << error.message << '\n';
    return 1;
  }
  if (mlir::failed(mlir::verify(*module))) return 1;
  module->print(llvm::outs());
  return 0;
}
