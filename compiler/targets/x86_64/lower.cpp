// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scf, arith, math, vector and func to the LLVM dialect, to LLVM IR, through LLVM's O3 to an object. Called by assemble().
#include "compiler/targets/x86_64/lower.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "compiler/targets/llvm_backend.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
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

// ------------------------------------------------------------------------------------------------- spreading kernels

// The symbols that an op and everything reachable from it refers to, in the module's order.
class Reach {
 public:
  explicit Reach(ModuleOp kernels) {
    for (Operation& op : *kernels.getBody()) {
      if (auto name = op.getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName())) ops_[name] = &op;
    }
  }
  void add(Operation* op, llvm::SetVector<Operation*>& reached) const {
    if (!reached.insert(op)) return;
    op->walk([&](Operation* inner) {
      for (NamedAttribute attribute : inner->getAttrs()) {
        attribute.getValue().walk([&](FlatSymbolRefAttr reference) {
          if (auto found = ops_.find(reference.getAttr()); found != ops_.end()) add(found->second, reached);
        });
      }
    });
  }

 private:
  llvm::DenseMap<StringAttr, Operation*> ops_;
};

bool is_entry(Operation& op) {
  auto function = llvm::dyn_cast<func::FuncOp>(op);
  return function && function.isPublic();
}

// Modules inside a new one, each with some entries and all that these need; `shared` gets the names that are in several.
OwningOpRef<ModuleOp> spread(ModuleOp kernels, llvm::StringSet<>& shared) {
  constexpr int64_t ops_per_object = 4000;
  Reach reach(kernels);
  SmallVector<llvm::SetVector<Operation*>> parts;
  int64_t ops = ops_per_object;
  for (Operation& op : *kernels.getBody()) {
    if (!is_entry(op)) continue;
    if (ops >= ops_per_object) {
      parts.emplace_back();
      ops = 0;
    }
    size_t before = parts.back().size();
    reach.add(&op, parts.back());
    for (Operation* added : ArrayRef<Operation*>(parts.back().getArrayRef()).drop_front(before)) added->walk([&](Operation*) { ++ops; });
  }
  llvm::DenseMap<Operation*, unsigned> uses;
  for (const auto& part : parts) {
    for (Operation* op : part) {
      if (++uses[op] == 2) shared.insert(op->getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName()).getValue());
    }
  }
  OwningOpRef<ModuleOp> all = ModuleOp::create(kernels.getLoc());
  OpBuilder builder(kernels.getContext());
  for (const auto& part : parts) {
    builder.setInsertionPointToEnd(all->getBody());
    auto module = builder.create<ModuleOp>(kernels.getLoc());
    builder.setInsertionPointToEnd(module.getBody());
    for (Operation* op : part) builder.clone(*op);
  }
  return all;
}

// --------------------------------------------------------------------------------------------------------------- LLVM

// The LLVM module of one MLIR module in the LLVM dialect; null after a diagnostic.
std::unique_ptr<llvm::Module> translate(ModuleOp module, llvm::LLVMContext& context, const llvm::StringSet<>& shared) {
  auto translated = translateModuleToLLVMIR(module, context, "kernels");
  if (!translated) {
    module.emitError("x86_64: translating kernels to LLVM IR failed");
    return nullptr;
  }
  // The conversion from func keeps private functions external.
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    if (function.isPrivate() && !function.isExternal())
      translated->getFunction(function.getName())->setLinkage(llvm::GlobalValue::InternalLinkage);
  }
  for (llvm::GlobalObject& object : translated->global_objects()) {
    if (!shared.contains(object.getName()) || object.isDeclaration()) continue;
    object.setLinkage(llvm::GlobalValue::LinkOnceODRLinkage);
    object.setVisibility(llvm::GlobalValue::HiddenVisibility);
    object.setComdat(translated->getOrInsertComdat(object.getName()));
  }
  return translated;
}

// One unit of work for a thread: an LLVM module with a context of its own.
struct Unit {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
  std::vector<char> bytes;
  std::string error;
};

void generate(Unit& unit, const Level& level, llvm::CodeGenFileType type) {
  auto machine = make_machine(level, unit.error);
  if (!machine) return;
  unit.error = generate_code(*unit.module, *machine, type, unit.bytes);
  unit.module.reset();
}

FailureOr<std::vector<Unit>> generate_all(ModuleOp kernels, const Level& level, llvm::CodeGenFileType type) {
  llvm::StringSet<> shared;
  OwningOpRef<ModuleOp> parts = spread(kernels, shared);
  PassManager passes(kernels.getContext(), ModuleOp::getOperationName());
  add_lowering(passes.nest<ModuleOp>());
  if (failed(passes.run(*parts))) return failure();

  std::vector<Unit> units;
  for (auto part : parts->getOps<ModuleOp>()) {
    Unit unit;
    unit.context = std::make_unique<llvm::LLVMContext>();
    unit.module = translate(part, *unit.context, shared);
    if (!unit.module) return failure();
    units.push_back(std::move(unit));
  }
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < units.size(); i = next++) generate(units[i], level, type);
  };
  std::vector<std::thread> threads;
  size_t count = std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), units.size());
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  for (const Unit& unit : units) {
    if (!unit.error.empty()) return kernels.emitError("x86_64: code generation for ") << level.name << " failed: " << unit.error;
  }
  return units;
}

}  // namespace

FailureOr<std::vector<std::vector<char>>> lower_to_objects(ModuleOp kernels, const Level& level) {
  auto units = generate_all(kernels, level, llvm::CodeGenFileType::ObjectFile);
  if (failed(units)) return failure();
  std::vector<std::vector<char>> objects;
  for (Unit& unit : *units) objects.push_back(std::move(unit.bytes));
  return objects;
}

FailureOr<std::string> lower_to_assembly(ModuleOp kernels, const Level& level) {
  auto units = generate_all(kernels, level, llvm::CodeGenFileType::AssemblyFile);
  if (failed(units)) return failure();
  std::string text;
  for (const Unit& unit : *units) text.append(unit.bytes.begin(), unit.bytes.end());
  return text;
}

}  // namespace heddle::targets::x86_64
