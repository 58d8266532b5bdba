// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// StableHLO text of any bytes: it is refused with one error text, or what was imported is valid IR that the passes take through to dispatches, and the
// target has kernels, or an error, for.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "compiler/code/target_devices.h"
#include "compiler/emit/kernels.h"
#include "compiler/import/stablehlo_importer.h"
#include "compiler/pipeline.h"
#include "compiler/targets/x86_64/x86_64.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

namespace {

void require(bool condition, const char* what, const std::string& detail) {
  if (condition) return;
  std::fprintf(stderr, "stablehlo_fuzz: %s: %s\n", what, detail.c_str());
  std::abort();
}

// Kernels for everything, or a word why there are none.
void make_kernels(mlir::ModuleOp module, mlir::MLIRContext& context, const std::string& said) {
  mlir::PassManager passes(&context);
  const heddle::compiler::TargetDevices devices({{"cpu", "x86-64-v3"}}, heddle::targets::Math::strict);
  heddle::compiler::add_model_passes(passes);
  heddle::compiler::add_combination_passes(passes, devices);
  module->setAttr(heddle::tx::families_attr, mlir::Builder(&context).getStrArrayAttr({"cpu"}));
  require(mlir::succeeded(passes.run(module)), "a pass failed", said);
  auto target = heddle::targets::make_x86_64_target("x86-64-v3");
  heddle::emit::Kernels kernels;
  kernels.add(module, "cpu");
  mlir::OwningOpRef<mlir::ModuleOp> code = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  for (const heddle::emit::Kernel& kernel : kernels.all()) {
    std::vector<heddle::targets::Answer> answers;
    auto plans = target->plans(kernel.region, {}, &answers);
    if (mlir::succeeded(plans) && mlir::succeeded(target->emit(kernel.region, plans->front(), kernel.symbol, *code))) continue;
    require(!said.empty(), "a kernel was refused without a word", "");
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int descriptor = memfd_create("program.mlir", MFD_CLOEXEC);
  if (descriptor < 0 || write(descriptor, data, size) != static_cast<ssize_t>(size)) std::abort();
  {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    mlir::DialectRegistry registry;
    registry.insert<heddle::tx::TxDialect, mlir::func::FuncDialect>();
    heddle::targets::register_x86_64_dialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    std::string said;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic& diagnostic) { said += diagnostic.str() + "; "; });
    heddle::tx::ParameterStore parameters;
    heddle::import::ImportError error;
    auto module = heddle::import::import_stablehlo("/proc/self/fd/" + std::to_string(descriptor), context, parameters, error);
    if (!module) {
      require(error.code != HEDDLE_STATUS_OK && !error.message.empty(), "a failure without an error", "");
      require(error.code != HEDDLE_STATUS_INTERNAL, "an internal error", error.message);
    } else {
      require(mlir::succeeded(mlir::verify(*module)), "the importer made invalid IR", said);
      make_kernels(*module, context, said);
    }
  }
  close(descriptor);
  return 0;
}
