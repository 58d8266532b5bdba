// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Through the LLVM dialect and LLVM's NVPTX code generator to PTX; no CUDA toolkit is involved. See lower.h.
#include "compiler/targets/cuda/lower.h"

#include <memory>
#include <mutex>

#include "compiler/targets/cuda/kernel_builder.h"
#include "compiler/targets/llvm_backend.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

constexpr llvm::StringLiteral triple = "nvptx64-nvidia-cuda";

std::unique_ptr<llvm::TargetMachine> make_machine(const Chip& chip, std::string& error) {
  static std::once_flag initialized;
  std::call_once(initialized, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  return make_llvm_machine(triple, chip.name, chip.ptx, std::nullopt, error);
}

// Says of each function with a workgroup size that it is a kernel of that size.
void mark_kernels(ModuleOp kernels, llvm::Module& module) {
  llvm::LLVMContext& context = module.getContext();
  llvm::NamedMDNode* annotations = module.getOrInsertNamedMetadata("nvvm.annotations");
  for (auto function : kernels.getOps<LLVM::LLVMFuncOp>()) {
    auto threads = function->getAttrOfType<IntegerAttr>(threads_attr);
    if (!threads) continue;
    llvm::Function* kernel = module.getFunction(function.getName());
    auto annotate = [&](const char* name, uint32_t value) {
      auto* number = llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), value);
      annotations->addOperand(llvm::MDNode::get(
          context, {llvm::ValueAsMetadata::get(kernel), llvm::MDString::get(context, name), llvm::ValueAsMetadata::get(number)}));
    };
    annotate("kernel", 1);
    annotate("reqntidx", static_cast<uint32_t>(threads.getInt()));
    if (auto residents = function->getAttrOfType<IntegerAttr>(residents_attr)) {
      annotate("minctasm", static_cast<uint32_t>(residents.getInt()));
    }
  }
}

}  // namespace

FailureOr<std::vector<char>> lower_to_ptx(ModuleOp kernels, const Chip& chip) {
  PassManager passes(kernels.getContext(), ModuleOp::getOperationName());
  add_lowering(passes);
  if (failed(passes.run(kernels))) return failure();
  llvm::LLVMContext context;
  auto module = translateModuleToLLVMIR(kernels, context, "kernels");
  if (!module) return kernels.emitError("cuda: translating kernels to LLVM IR failed");
  mark_kernels(kernels, *module);
  std::string error;
  std::vector<char> text;
  if (auto machine = make_machine(chip, error)) error = generate_code(*module, *machine, llvm::CodeGenFileType::AssemblyFile, text);
  if (!error.empty()) return kernels.emitError("cuda: code generation for ") << chip.name << " failed: " << error;
  return text;
}

}  // namespace heddle::targets::cuda
