// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Through the LLVM dialect and LLVM's NVPTX code generator to PTX; no CUDA toolkit is involved. See lower.h.
#include "compiler/targets/cuda/lower.h"

#include <memory>
#include <mutex>

#include "compiler/targets/cuda/kernel_builder.h"
#include "compiler/targets/llvm_backend.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
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

// Marks each function with a workgroup size as a kernel of that size.
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

// Marks the inline assembly instructions as convergent, since matrix instructions need all threads of a subgroup: none of them may be moved into a
// branch, even if its result is only used there.
void keep_together(llvm::Module& module) {
  for (llvm::Function& function : module) {
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
      auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
      if (call && call->isInlineAsm()) call->setConvergent();
    }
  }
}

// LLVM 19 has no way to say how many workgroups the clusters of a kernel have. A unit has one kernel.
void say_cluster(std::vector<char>& text, int64_t workgroups) {
  constexpr StringRef size = ".reqntid";
  size_t at = StringRef(text.data(), text.size()).find(size);
  assert(at != StringRef::npos && "a kernel has a workgroup size");
  std::string directives = ".explicitcluster\n.reqnctapercluster " + std::to_string(workgroups) + ", 1, 1\n";
  text.insert(text.begin() + static_cast<ptrdiff_t>(at), directives.begin(), directives.end());
}

}  // namespace

FailureOr<std::vector<char>> lower_to_ptx(ModuleOp unit, const Chip& chip) {
  if (failed(lower_to_llvm(unit))) return failure();
  llvm::LLVMContext context;
  auto module = translateModuleToLLVMIR(unit, context, "kernels");
  if (!module) return FailureOr<std::vector<char>>(unit.emitError("cuda: translating kernels to LLVM IR failed"));
  mark_kernels(unit, *module);
  keep_together(*module);
  // Other units have constants and functions of the same names.
  std::string kernel;
  for (auto function : unit.getOps<LLVM::LLVMFuncOp>()) {
    if (function->hasAttr(threads_attr)) kernel = function.getName().str();
  }
  for (llvm::GlobalObject& object : module->global_objects()) {
    if (object.hasLocalLinkage()) object.setName(kernel + "_" + object.getName());
  }
  std::string error;
  std::vector<char> text;
  if (auto machine = make_machine(chip, error)) error = generate_code(*module, *machine, llvm::CodeGenFileType::AssemblyFile, text);
  if (!error.empty())
    return FailureOr<std::vector<char>>(unit.emitError("cuda: code generation for ") << chip.name << " failed: " << error);
  for (auto function : unit.getOps<LLVM::LLVMFuncOp>()) {
    if (auto cluster = function->getAttrOfType<IntegerAttr>(cluster_attr)) say_cluster(text, cluster.getInt());
  }
  return text;
}

std::vector<char> join_ptx(ArrayRef<ArrayRef<char>> units, ArrayRef<LinkedKernel> kernels) {
  constexpr StringRef end_of_header = ".address_size 64\n", shared = ".extern .shared ";
  std::string text;
  llvm::StringSet<> declared;
  for (auto [i, unit] : llvm::enumerate(units)) {
    const LinkedKernel& kernel = kernels[i];
    StringRef rest(unit.data(), unit.size());
    size_t header = rest.find(end_of_header);
    if (i > 0 && header != StringRef::npos) rest = rest.drop_front(header + end_of_header.size());
    while (!rest.empty()) {
      auto [line, behind] = rest.split('\n');
      rest = behind;
      if (line.starts_with(shared) && !declared.insert(line).second) continue;
      // A unit has its kernel's name in many places, and no other kernel's name.
      for (size_t at = line.find(kernel.unit); at != StringRef::npos; at = line.find(kernel.unit)) {
        text += line.take_front(at);
        text += kernel.symbol;
        line = line.drop_front(at + kernel.unit.size());
      }
      text += line;
      text += '\n';
    }
  }
  return std::vector<char>(text.begin(), text.end());
}

}  // namespace heddle::targets::cuda
