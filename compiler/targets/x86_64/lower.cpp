// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scf, arith, math, vector and func to the LLVM dialect, to LLVM IR, through LLVM's O3 to an object. Called by the target.
#include "compiler/targets/x86_64/lower.h"

#include <memory>
#include <mutex>

#include "compiler/targets/code_units.h"
#include "compiler/targets/llvm_backend.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

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

// All functions except the unit's own are internal, or belong to another unit.
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

bool has_type(const llvm::Module& module, llvm::function_ref<bool(const llvm::Type&)> wanted) {
  for (const llvm::Function& function : module) {
    for (const llvm::BasicBlock& block : function) {
      if (llvm::any_of(block, [&](const llvm::Instruction& instruction) { return wanted(*instruction.getType()); })) return true;
    }
  }
  return false;
}

// LLVM narrows the maximum of two widened bf16 to one of bf16, which it then computes in f32 and rounds by a call of this function.
void define_rounding_to_bf16(llvm::Module& module) {
  llvm::LLVMContext& context = module.getContext();
  auto* type = llvm::FunctionType::get(llvm::Type::getBFloatTy(context), {llvm::Type::getFloatTy(context)}, false);
  auto* function = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, "__truncsfbf2", module);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "", function));
  llvm::Value* bits = b.CreateBitCast(function->getArg(0), b.getInt32Ty());
  llvm::Value* upper = b.CreateLShr(bits, 16);
  llvm::Value* rounded = b.CreateLShr(b.CreateAdd(bits, b.CreateAdd(b.CreateAnd(upper, 1), b.getInt32(0x7fff))), 16);  // ties to even
  llvm::Value* is_nan = b.CreateFCmpUNO(function->getArg(0), function->getArg(0));
  llvm::Value* result = b.CreateSelect(is_nan, b.CreateOr(upper, 0x40), rounded);
  b.CreateRet(b.CreateBitCast(b.CreateTrunc(result, b.getInt16Ty()), b.getBFloatTy()));
  llvm::appendToUsed(module, {function});
}

// For the maximum or minimum of two scalars of f16, LLVM would call the C library's function for f32, which is not available here.
void define_library_functions(llvm::Module& module) {
  if (has_type(module, [](const llvm::Type& type) { return type.getScalarType()->isBFloatTy(); })) define_rounding_to_bf16(module);
  if (!has_type(module, [](const llvm::Type& type) { return type.isHalfTy(); })) return;
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* f32 = llvm::Type::getFloatTy(context);
  for (auto [name, operation] : {std::pair("fmaxf", llvm::Intrinsic::maxnum), std::pair("fminf", llvm::Intrinsic::minnum)}) {
    auto* function =
        llvm::Function::Create(llvm::FunctionType::get(f32, {f32, f32}, false), llvm::GlobalValue::InternalLinkage, name, module);
    llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "", function));
    builder.CreateRet(builder.CreateBinaryIntrinsic(operation, function->getArg(0), function->getArg(1)));
    llvm::appendToUsed(module, {function});
  }
}

// VSCALEFPS of AVX-512, for whole registers.
Value scale_by_power(OpBuilder& builder, Location location, Value value, Value exponent) {
  VectorType type = VectorType::get({16}, builder.getF32Type());
  if (value.getType() != type) return {};
  Value all_lanes = builder.create<LLVM::ConstantOp>(location, builder.getI16IntegerAttr(-1));
  constexpr int32_t current_rounding = 4;
  Value rounding = builder.create<LLVM::ConstantOp>(location, builder.getI32IntegerAttr(current_rounding));
  return builder
      .create<LLVM::CallIntrinsicOp>(location, type, builder.getStringAttr("llvm.x86.avx512.mask.scalef.ps.512"),
                                     ValueRange{value, exponent, value, all_lanes, rounding})
      .getResult(0);
}

// Rounding to bf16 on the bits: for masked lanes LLVM would call a library function, which is not available here.
LogicalResult expand_bf16(ModuleOp unit) {
  auto rounds = [](Operation* op) { return llvm::isa<arith::TruncFOp>(op) && getElementTypeOrSelf(op->getResult(0)).isBF16(); };
  if (!unit.walk([&](Operation* op) { return rounds(op) ? WalkResult::interrupt() : WalkResult::advance(); }).wasInterrupted())
    return success();
  RewritePatternSet patterns(unit.getContext());
  arith::populateExpandBFloat16Patterns(patterns);
  return applyPatternsAndFoldGreedily(unit, std::move(patterns));
}

FailureOr<std::vector<char>> lower(ModuleOp unit, const Level& level, llvm::CodeGenFileType type) {
  if (failed(expand_bf16(unit))) return failure();
  if (failed(lower_to_llvm(unit, level.f32_lanes() == 16 ? ScaleByPower(scale_by_power) : ScaleByPower()))) return failure();
  llvm::LLVMContext context;
  auto module = translate(unit, context);
  if (!module) return failure();
  define_library_functions(*module);
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
