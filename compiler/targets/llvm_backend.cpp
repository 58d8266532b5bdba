// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See llvm_backend.h.
#include "compiler/targets/llvm_backend.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace heddle::targets {

std::unique_ptr<llvm::TargetMachine> make_llvm_machine(StringRef triple, StringRef cpu, StringRef features,
                                                       std::optional<llvm::Reloc::Model> relocation, std::string& error) {
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple.str(), error);
  if (!target) return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, cpu, features, options, relocation, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

namespace {

// Lowers everything to the LLVM dialect.
void add_lowering(OpPassManager& passes, const ScaleByPower& scale) {
  passes.addPass(expand_math(scale));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createLoopInvariantCodeMotionPass());
  passes.addPass(createConvertSCFToCFPass());
  arith::ArithExpandOpsPassOptions expansions;  // ceil and floor division
  expansions.includeBf16 = true;                // x86-64-v4 has no instruction for them
  passes.addPass(arith::createArithExpandOpsPass(expansions));
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createConvertFuncToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
}

}  // namespace

LogicalResult lower_to_llvm(ModuleOp unit, const ScaleByPower& scale) {
  // While a thread of the context waits for others, in a pass over functions or in the verifier, it would start another unit. So passes run on
  // modules, and emitting code verifies.
  PassManager passes(unit.getContext(), ModuleOp::getOperationName());
  passes.enableVerifier(false);
  add_lowering(passes, scale);
  return passes.run(unit);
}

void load_lowering_dialects(MLIRContext& context) {
  OwningOpRef<ModuleOp> nothing = ModuleOp::create(UnknownLoc::get(&context));
  (void)lower_to_llvm(*nothing);
}

namespace {

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  module.setDataLayout(machine.createDataLayout());
  module.setTargetTriple(machine.getTargetTriple().str());
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("no-builtins");
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    function.addFnAttr(llvm::Attribute::NoUnwind);
    function.addFnAttr(llvm::Attribute::WillReturn);
    function.setDSOLocal(true);
  }

  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;  // emitters vectorize
  tuning.SLPVectorization = false;
  tuning.LoopInterleaving = false;
  llvm::PassBuilder pass_builder(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  pass_builder.registerModuleAnalyses(modules);
  pass_builder.registerCGSCCAnalyses(graphs);
  pass_builder.registerFunctionAnalyses(functions);
  pass_builder.registerLoopAnalyses(loops);
  pass_builder.crossRegisterProxies(loops, functions, graphs, modules);
  pass_builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

}  // namespace

std::string generate_code(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type, std::vector<char>& bytes) {
  optimize(module, machine);
  SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type)) return "LLVM cannot write this kind of file";
  passes.run(module);
  bytes.assign(text.begin(), text.end());
  return {};
}

}  // namespace heddle::targets
