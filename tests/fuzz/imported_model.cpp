// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See imported_model.h.
#include "tests/fuzz/imported_model.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "compiler/code/target_devices.h"
#include "compiler/emit/kernels.h"
#include "compiler/emit/schedule.h"
#include "compiler/pipeline.h"
#include "compiler/targets/candidates.h"
#include "compiler/targets/x86_64/x86_64.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
// The inline code of LLVM's arenas poisons their memory here, and what Debian's libMLIR allocates in them, which is not instrumented, stays poisoned.
extern "C" const char* __asan_default_options() {
  return "allow_user_poisoning=0";
}
#endif
#endif

namespace heddle::fuzz {
namespace {

// The host programs of all functions, of what is computed at load last.
void schedule_functions(mlir::ModuleOp module, const emit::Kernels& kernels, const std::string& said) {
  module_format::ModuleT file;
  module::ModuleWriter writer;
  emit::Globals globals(file, writer);
  globals.begin_combination("cpu");
  emit::ProgramTarget target;
  for (llvm::StringRef name : tx::slots_of(module)) target.push_back({name.str(), "cpu", {{&kernels, 0}}});
  mlir::func::FuncOp initializer;
  for (auto function : module.getOps<mlir::func::FuncOp>()) {
    if (function.getName() == tx::initializer_name) initializer = function;
    if (function == initializer || function.isPrivate()) continue;
    require(mlir::succeeded(emit::schedule(function, target, globals, /*initializer=*/false)), "no host program", said);
  }
  if (!initializer) return;
  require(mlir::succeeded(emit::schedule(initializer, target, globals, /*initializer=*/true)), "no host program for the load", said);
}

}  // namespace

void require(bool condition, const char* what, const std::string& detail) {
  if (condition) return;
  std::fprintf(stderr, "fuzz: %s: %s\n", what, detail.c_str());
  std::abort();
}

void load_dialects(mlir::MLIRContext& context) {
  mlir::DialectRegistry registry;
  registry.insert<tx::TxDialect, mlir::func::FuncDialect>();
  targets::register_x86_64_dialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
}

void compile_imported(mlir::ModuleOp module, const std::string& said) {
  mlir::MLIRContext& context = *module.getContext();
  require(mlir::succeeded(mlir::verify(module)), "the importer made invalid IR", said);
  mlir::PassManager passes(&context);
  const compiler::TargetDevices devices({{"cpu", "x86-64-v3"}}, targets::Math::strict);
  compiler::add_model_passes(passes);
  compiler::add_combination_passes(passes, devices);
  module->setAttr(tx::families_attr, mlir::Builder(&context).getStrArrayAttr({"cpu"}));
  require(mlir::succeeded(passes.run(module)), "a pass failed", said);
  auto target = targets::make_x86_64_target("x86-64-v3");
  emit::Kernels kernels;
  kernels.add(module, "cpu");
  mlir::OwningOpRef<mlir::ModuleOp> code = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  std::vector<targets::Plans> chosen;
  for (const emit::Kernel& kernel : kernels.all()) {
    std::vector<targets::Answer> answers;
    auto plans = target->plans(kernel.region, {}, &answers);
    if (mlir::failed(plans) || mlir::failed(target->emit(kernel.region, plans->front(), kernel.symbol, *code))) {
      require(!said.empty(), "a kernel was refused without a word");
      return;
    }
    chosen.push_back(targets::choose(*plans, [](const std::string&) { return std::string(); }));
  }
  kernels.plan(std::move(chosen));
  schedule_functions(module, kernels, said);
}

}  // namespace heddle::fuzz
