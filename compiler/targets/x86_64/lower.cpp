// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scf, arith, math, vector and func to the LLVM dialect, to LLVM IR, through LLVM's O3 to an object. Called by the target.
#include "compiler/targets/x86_64/lower.h"

#include <memory>
#include <mutex>

#include "compiler/targets/code_units.h"
#include "compiler/targets/llvm_backend.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

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
  return make_llvm_machine(triple, level.name, "", llvm::Reloc::PIC_, error);
}

// --------------------------------------------------------------------------------------------------------------- LLVM

// Everything but the unit's own function is internal, or another unit's.
std::unique_ptr<llvm::Module> translate(ModuleOp unit, llvm::LLVMContext& context) {
  auto translated = translateModuleToLLVMIR(unit, context, "kernels");
  if (!translated) {
    unit.emitError("x86_64: translating kernels to LLVM IR failed");
    return nullptr;
  }
  for (auto function : unit.getOps<LLVM::LLVMFuncOp>()) {
    llvm::Function* own = translated->getFunction(function.getName());
    if (function.isExternal()) own->setVisibility(llvm::GlobalValue::HiddenVisibility);
    // The conversion from func keeps private functions external.
    if (function.isPrivate() && !function.isExternal()) own->setLinkage(llvm::GlobalValue::InternalLinkage);
  }
  return translated;
}

FailureOr<std::vector<char>> lower(ModuleOp unit, const Level& level, llvm::CodeGenFileType type) {
  if (failed(lower_to_llvm(unit))) return failure();
  llvm::LLVMContext context;
  auto module = translate(unit, context);
  if (!module) return failure();
  std::string error;
  std::vector<char> bytes;
  if (auto machine = make_machine(level, error)) error = generate_code(*module, *machine, type, bytes);
  if (!error.empty())
    return FailureOr<std::vector<char>>(unit.emitError("x86_64: code generation for ") << level.name << " failed: " << error);
  return bytes;
}

}  // namespace

FailureOr<std::vector<char>> lower_to_object(ModuleOp unit, const Level& level) {
  return lower(unit, level, llvm::CodeGenFileType::ObjectFile);
}

FailureOr<std::string> lower_to_assembly(ModuleOp kernels, const Level& level) {
  std::string text;
  for (const CodeUnit& unit : split_code(kernels)) {
    auto bytes = lower(*unit.module, level, llvm::CodeGenFileType::AssemblyFile);
    if (failed(bytes)) return failure();
    text.append(bytes->begin(), bytes->end());
  }
  return text;
}

}  // namespace heddle::targets::x86_64
