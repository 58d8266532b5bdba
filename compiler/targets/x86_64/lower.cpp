// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scf, arith, math, vector and func to the LLVM dialect, to LLVM IR, through LLVM's O3 to an object. Called by assemble().
#include "compiler/targets/x86_64/lower.h"

#include <memory>
#include <mutex>

#include "llvm/ADT/SmallString.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
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
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

constexpr llvm::StringLiteral triple = "x86_64-unknown-linux-gnu";

std::unique_ptr<llvm::TargetMachine> make_machine(const Level& level, std::string& error) {
  static std::once_flag initialized;
  std::call_once(initialized, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple.str(), error);
  if (!target) return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(triple, level.name, "", options, llvm::Reloc::PIC_,
                                                                          llvm::CodeModel::Small, llvm::CodeGenOptLevel::Aggressive));
}

LogicalResult lower_to_llvm_dialect(ModuleOp kernels) {
  PassManager passes(kernels.getContext(), ModuleOp::getOperationName(), PassManager::Nesting::Implicit);
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addNestedPass<func::FuncOp>(createCSEPass());
  passes.addNestedPass<func::FuncOp>(createLoopInvariantCodeMotionPass());
  passes.addPass(createConvertSCFToCFPass());
  passes.addPass(arith::createArithExpandOpsPass());  // ceil and floor division
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createConvertFuncToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  return passes.run(kernels);
}

std::unique_ptr<llvm::Module> optimize(ModuleOp kernels, llvm::LLVMContext& context, llvm::TargetMachine& machine) {
  if (failed(lower_to_llvm_dialect(kernels))) return nullptr;
  auto module = translateModuleToLLVMIR(kernels, context, "kernels");
  if (!module) {
    kernels.emitError("x86_64: translating kernels to LLVM IR failed");
    return nullptr;
  }
  module->setDataLayout(machine.createDataLayout());
  module->setTargetTriple(triple);
  for (llvm::Function& function : *module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("no-builtins");
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    function.addFnAttr(llvm::Attribute::NoUnwind);
    function.addFnAttr(llvm::Attribute::WillReturn);
    if (function.hasLocalLinkage()) continue;
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
  pass_builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(*module, modules);
  return module;
}

template <typename Buffer>
LogicalResult generate(ModuleOp kernels, const Level& level, llvm::CodeGenFileType type, Buffer& bytes) {
  std::string error;
  auto machine = make_machine(level, error);
  if (!machine) return kernels.emitError("x86_64: code generation for ") << level.name << " failed: " << error;
  llvm::LLVMContext context;
  auto module = optimize(kernels, context, *machine);
  if (!module) return failure();
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, type)) return kernels.emitError("x86_64: LLVM cannot write this kind of file");
  passes.run(*module);
  return success();
}

}  // namespace

FailureOr<std::vector<char>> lower_to_object(ModuleOp kernels, const Level& level) {
  SmallString<0> bytes;
  if (failed(generate(kernels, level, llvm::CodeGenFileType::ObjectFile, bytes))) return failure();
  return std::vector<char>(bytes.begin(), bytes.end());
}

FailureOr<std::string> lower_to_assembly(ModuleOp kernels, const Level& level) {
  SmallString<0> bytes;
  if (failed(generate(kernels, level, llvm::CodeGenFileType::AssemblyFile, bytes))) return failure();
  return bytes.str().str();
}

}  // namespace heddle::targets::x86_64
