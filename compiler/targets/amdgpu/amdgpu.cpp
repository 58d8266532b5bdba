// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See amdgpu.h.
#include "compiler/targets/amdgpu/amdgpu.h"

#include <mutex>

#include "compiler/targets/amdgpu/attention.h"
#include "compiler/targets/amdgpu/chip.h"
#include "compiler/targets/amdgpu/image.h"
#include "compiler/targets/amdgpu/tiled_contraction.h"
#include "compiler/targets/gemv_threads.h"
#include "compiler/targets/generic_threads.h"
#include "compiler/targets/llvm_backend.h"
#include "compiler/targets/llvm_kernel_builder.h"
#include "compiler/targets/rows_threads.h"
#include "heddle/code.h"
#include "llvm/IR/CallingConv.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Target/LLVMIR/Dialect/ROCDL/ROCDLToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

using namespace mlir;

namespace heddle::targets {

namespace {

constexpr llvm::StringLiteral triple = "amdgcn-amd-amdhsa";
constexpr unsigned global_space = 1, local_space = 3;
constexpr int64_t local_alignment = 16;  // bytes
constexpr uint32_t code_object_version = 400;

class AmdgpuKernelBuilder final : public LlvmKernelBuilder {
 public:
  AmdgpuKernelBuilder(tx::DispatchOp region, StringRef symbol_name, ModuleOp kernels_module, int64_t thread_count, const amdgpu::Chip& chip)
      : LlvmKernelBuilder(region, kernels_module), wave_(chip.wave_size) {
    threads_ = thread_count;
    Type i64 = builder.getI64Type(), i32 = builder.getI32Type();
    llvm::SmallVector<bool> aliased = aliased_bindings(region);
    SmallVector<Type> types(aliased.size(), LLVM::LLVMPointerType::get(builder.getContext(), global_space));
    types.append(symbol_count(region), i64);
    auto entry = builder.create<func::FuncOp>(location, symbol_name, builder.getFunctionType(types, {}));
    entry->setAttr(threads_attr, builder.getI64IntegerAttr(threads_));
    for (unsigned i = 0; i < aliased.size(); ++i) {
      if (!aliased[i]) entry.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
    }
    symbol = entry.getName();
    Block* body = entry.addEntryBlock();
    builder.setInsertionPointToStart(body);
    for (unsigned i = 0; i < types.size(); ++i) (i < aliased.size() ? bindings_ : symbols_).push_back(body->getArgument(i));
    block_ = make<arith::ExtUIOp>(i64, builder.create<ROCDL::BlockIdXOp>(location, i32).getResult());
    thread_ = make<arith::ExtUIOp>(i64, builder.create<ROCDL::ThreadIdXOp>(location, i32).getResult());
  }

  // With the fences of a workgroup.
  void barrier() override { builder.create<ROCDL::BarrierOp>(location); }

  // The other lane is of the same subgroup, and so of the same wave.
  Value exchange(Value value, int64_t distance) override {
    constexpr int64_t word_bytes = 4;
    Value other = make<arith::XOrIOp>(rem(thread_, index(wave_)), index(distance));
    Value at = make<arith::TruncIOp>(builder.getI32Type(), mul(other, word_bytes));
    return exchange_words(
        value, [&](Value word) -> Value { return builder.create<ROCDL::DsBpermuteOp>(location, builder.getI32Type(), at, word); });
  }

  // Local memory, which LLVM lays out: a pointer in its address space.
  Value shared(Type element, int64_t count) override {
    Type memory = memory_type(element);
    LLVM::GlobalOp global;
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(kernels.getBody());
      global = builder.create<LLVM::GlobalOp>(
          location, LLVM::LLVMArrayType::get(memory, static_cast<unsigned>(count)), /*isConstant=*/false, LLVM::Linkage::Internal,
          (symbol + "_shared_" + Twine(shared_bytes_)).str(), Attribute(), local_alignment, local_space);
    }
    shared_bytes_ += llvm::alignTo(count * memory.getIntOrFloatBitWidth() / 8, local_alignment);
    return builder.create<LLVM::AddressOfOp>(location, global);
  }
  int64_t shared_bytes() const override { return shared_bytes_; }

 private:
  int64_t wave_;
  int64_t shared_bytes_ = 0;
};

// Keeps the first error of LLVM's code generator, for example that a kernel needs more local memory than there is. Without a handler, LLVM would
// end the process.
void keep_error(const llvm::DiagnosticInfo* diagnostic, void* text) {
  auto& error = *static_cast<std::string*>(text);
  if (diagnostic->getSeverity() != llvm::DS_Error || !error.empty()) return;
  llvm::raw_string_ostream stream(error);
  llvm::DiagnosticPrinterRawOStream printer(stream);
  diagnostic->print(printer);
  constexpr llvm::StringLiteral no_location("<unknown>:0:0: ");
  if (llvm::StringRef(error).starts_with(no_location)) error.erase(0, no_location.size());
}

void mark_kernels(ModuleOp kernels, llvm::Module& module) {
  module.addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version", code_object_version);
  for (auto function : kernels.getOps<LLVM::LLVMFuncOp>()) {
    auto threads = function->getAttrOfType<IntegerAttr>(threads_attr);
    if (!threads) continue;
    llvm::Function* kernel = module.getFunction(function.getName());
    std::string size = std::to_string(threads.getInt());
    kernel->setCallingConv(llvm::CallingConv::AMDGPU_KERNEL);
    kernel->setVisibility(llvm::GlobalValue::ProtectedVisibility);  // exported
    kernel->addFnAttr("amdgpu-flat-work-group-size", size + "," + size);
    kernel->addFnAttr("uniform-work-group-size", "true");
    kernel->addFnAttr("amdgpu-no-implicitarg-ptr");  // a driver passes no hidden arguments
  }
}

std::unique_ptr<llvm::TargetMachine> make_machine(StringRef chip, std::string& error) {
  static std::once_flag initialized;
  std::call_once(initialized, [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
  });
  return make_llvm_machine(triple, chip, "", llvm::Reloc::PIC_, error);
}

class AmdgpuTarget final : public Target {
 public:
  explicit AmdgpuTarget(const amdgpu::Chip& chip) : chip_(chip) {
    ThreadMachine machine{.most_threads = amdgpu::most_workgroup_size,
                          .subgroup_size = amdgpu::subgroup_size,
                          .access_bytes = 16,
                          .shared_bytes = amdgpu::most_shared_bytes,
                          .open = {}};
    machine.open = [&chip](tx::DispatchOp region, const KernelPlan&, StringRef symbol, ModuleOp kernels, int64_t threads) {
      return std::make_unique<AmdgpuKernelBuilder>(region, symbol, kernels, threads, chip);
    };
    strategies_.push_back(amdgpu::attention_by_blocks(machine, chip));
    strategies_.push_back(rows_on_threads(machine));
    strategies_.push_back(gemv_on_threads(machine));
    strategies_.push_back(amdgpu::tiled_contractions(machine, chip));
    strategies_.push_back(generic_on_threads(std::move(machine)));
  }

  std::string format() const override { return HEDDLE_CODE_HSACO; }
  std::string name() const override { return std::string(chip_.name); }
  std::string family() const override { return "hip"; }
  const Strategies& strategies() const override { return strategies_; }
  int64_t results_at_once() const override { return 256; }
  int64_t neighbors_at_once() const override { return amdgpu::subgroup_size; }

  FailureOr<std::vector<char>> generate(ModuleOp kernels) const override {
    if (failed(lower_to_llvm(kernels))) return failure();
    std::string error, diagnosed;
    llvm::LLVMContext context;
    context.setDiagnosticHandlerCallBack(keep_error, &diagnosed);
    auto module = translateModuleToLLVMIR(kernels, context, "kernels");
    if (!module) return kernels.emitError("amdgpu: translating kernels to LLVM IR failed");
    mark_kernels(kernels, *module);
    std::vector<char> bytes;
    if (auto machine = make_machine(chip_.name, error)) error = generate_code(*module, *machine, llvm::CodeGenFileType::ObjectFile, bytes);
    if (error.empty()) error = diagnosed;
    if (!error.empty()) return kernels.emitError("amdgpu: code generation for ") << chip_.name << " failed: " << error;
    return bytes;
  }

  FailureOr<std::vector<char>> link(ArrayRef<ArrayRef<char>> units, ArrayRef<LinkedKernel> kernels, Location location) const override {
    auto image = amdgpu::link_image(units, chip_, kernels);
    if (!image) return FailureOr<std::vector<char>>(emitError(location, llvm::toString(image.takeError())));
    return std::move(*image);
  }

  LogicalResult inspect(ArrayRef<char> image, ArrayRef<LinkedKernel> kernels, MutableArrayRef<KernelResources> resources,
                        Location location) const override {
    llvm::Error error = amdgpu::inspect_image(image, chip_, kernels, resources);
    return error ? LogicalResult(emitError(location, llvm::toString(std::move(error)))) : success();
  }

 private:
  const amdgpu::Chip& chip_;
  Strategies strategies_;
};

}  // namespace

std::unique_ptr<Target> make_amdgpu_target(std::string_view chip) {
  for (const amdgpu::Chip& known : amdgpu::chips) {
    if (known.name == chip) return std::make_unique<AmdgpuTarget>(known);
  }
  return nullptr;
}

std::vector<std::string> amdgpu_chips() {
  std::vector<std::string> names;
  for (const amdgpu::Chip& chip : amdgpu::chips) names.emplace_back(chip.name);
  return names;
}

void register_amdgpu_dialects(DialectRegistry& registry) {
  registry.insert<ROCDL::ROCDLDialect>();
  registerROCDLDialectTranslation(registry);
}

}  // namespace heddle::targets
