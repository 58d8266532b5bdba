// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-import: prints an ONNX file as tx text, for tests and for those who work on the compiler.
#include "compiler/import/onnx_importer.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

int main(int argc, char** argv) {
  const llvm::StringRef argument = argc == 2 ? argv[1] : "";
  if (argument.empty() || argument == "--help") {
    (argument.empty() ? llvm::errs() : llvm::outs()) << "usage: heddle-import FILE.onnx | --list-operators\n";
    return argument.empty() ? 2 : 0;
  }
  if (argument == "--list-operators") {
    for (const std::string& name : heddle::import::supported_operators()) llvm::outs() << name << '\n';
    return 0;
  }
  mlir::MLIRContext context;
  context.loadDialect<heddle::tx::TxDialect, mlir::func::FuncDialect>();
  heddle::tx::ParameterStore parameters;
  heddle::import::ImportError error;
  auto module = heddle::import::import_onnx(argv[1], context, parameters, error);
  if (!module) {
    llvm::errs() << error.message << '\n';
    return 1;
  }
  if (mlir::failed(mlir::verify(*module))) return 1;
  module->print(llvm::outs());
  return 0;
}
