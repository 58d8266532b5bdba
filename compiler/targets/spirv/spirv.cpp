// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See spirv.h. MLIR's spirv dialect and its serializer write the words. The code of one kernel is kept as MLIR's bytecode of a module in that dialect:
// such modules are joined by name, and types and constants of an image then occur once, as SPIR-V demands.
#include "compiler/targets/spirv/spirv.h"

#include "compiler/targets/dot_threads.h"
#include "compiler/targets/gemv_threads.h"
#include "compiler/targets/generic_threads.h"
#include "compiler/targets/rows_threads.h"
#include "compiler/targets/single_precision.h"
#include "heddle/code.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Conversion/ArithToSPIRV/ArithToSPIRV.h"
#include "mlir/Conversion/ControlFlowToSPIRV/ControlFlowToSPIRV.h"
#include "mlir/Conversion/FuncToSPIRV/FuncToSPIRV.h"
#include "mlir/Conversion/MathToSPIRV/MathToSPIRV.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVDialect.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"
#include "mlir/Dialect/SPIRV/Transforms/Passes.h"
#include "mlir/Dialect/SPIRV/Transforms/SPIRVConversion.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/SPIRV/Serialization.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace heddle::targets {

namespace {

constexpr uint64_t local_alignment = 16;  // bytes
constexpr spirv::Capability capabilities[] = {spirv::Capability::Kernel,  spirv::Capability::Addresses, spirv::Capability::Linkage,
                                              spirv::Capability::Int8,    spirv::Capability::Int16,     spirv::Capability::Int64,
                                              spirv::Capability::Float16, spirv::Capability::Float64};

// What a device has to have. Subgroups of this size exchange values, and are threads with consecutive numbers. Dots: SPV_KHR_integer_dot_product with
// four bytes in 32 bits; a level with them has the same code as the one before it, but for kernels of that strategy.
struct Level {
  std::string_view name;
  spirv::Version version;
  bool has_subgroups;
  bool has_dots;
};
constexpr Level levels[] = {{"spv1.0", spirv::Version::V_1_0, false, false},
                            {"spv1.0-dp4a", spirv::Version::V_1_0, false, true},
                            {"spv1.3-sg32", spirv::Version::V_1_3, true, false},
                            {"spv1.3-sg32-dp4a", spirv::Version::V_1_3, true, true}};
constexpr int64_t subgroup_size = 32;

spirv::TargetEnvAttr environment(MLIRContext* context, const Level& level) {
  SmallVector<spirv::Capability> known(std::begin(capabilities), std::end(capabilities));
  if (level.has_subgroups) {
    known.append({spirv::Capability::SubgroupDispatch, spirv::Capability::GroupNonUniform, spirv::Capability::GroupNonUniformShuffle});
  }
  SmallVector<spirv::Extension> extensions;
  if (level.has_dots) {
    known.append({spirv::Capability::DotProduct, spirv::Capability::DotProductInput4x8BitPacked});
    extensions.push_back(spirv::Extension::SPV_KHR_integer_dot_product);
  }
  auto version = spirv::VerCapExtAttr::get(level.version, known, extensions, context);
  return spirv::TargetEnvAttr::get(version, spirv::getDefaultResourceLimits(context), spirv::ClientAPI::OpenCL);
}

Value dot(KernelBuilder& kernel, Value a, bool a_has_sign, Value b, bool b_has_sign) {
  auto bytes = spirv::PackedVectorFormatAttr::get(kernel.builder.getContext(), spirv::PackedVectorFormat::PackedVectorFormat4x8Bit);
  const Type type = a.getType();
  if (a_has_sign && b_has_sign) return kernel.builder.create<spirv::SDotOp>(kernel.location, type, a, b, bytes);
  if (!a_has_sign && !b_has_sign) return kernel.builder.create<spirv::UDotOp>(kernel.location, type, a, b, bytes);
  if (b_has_sign) std::swap(a, b);
  return kernel.builder.create<spirv::SUDotOp>(kernel.location, type, a, b, bytes);
}

class SpirvKernelBuilder final : public KernelBuilder {
 public:
  SpirvKernelBuilder(tx::DispatchOp region, StringRef symbol_name, ModuleOp kernels_module, int64_t thread_count, const Level& level)
      : KernelBuilder(region, kernels_module), level_(level) {
    threads_ = thread_count;
    SmallVector<Type> types;
    auto add = [&](ValueRange tensors) {
      for (Value tensor : tensors) {
        Type element = stored_type(memory_type(tx::tensor(tensor).getElementType()));
        types.push_back(spirv::PointerType::get(element, spirv::StorageClass::CrossWorkgroup));
      }
    };
    add(region.getInputs());
    add(region.getOutputs());
    size_t bindings = types.size();
    types.append(symbol_count(region), builder.getI64Type());
    entry_ = builder.create<func::FuncOp>(location, symbol_name, builder.getFunctionType(types, {}));
    entry_->setAttr(threads_attr, builder.getI64IntegerAttr(threads_));
    symbol = entry_.getName();
    Block* body = entry_.addEntryBlock();
    builder.setInsertionPointToStart(body);
    for (unsigned i = 0; i < types.size(); ++i) (i < bindings ? bindings_ : symbols_).push_back(body->getArgument(i));
    auto x_of = [&](spirv::BuiltIn which) -> Value {
      Operation* here = builder.create<arith::ConstantIntOp>(location, 0, 64);
      Value all = spirv::getBuiltinVariableValue(here, which, builder.getI64Type(), builder);
      return builder.create<spirv::CompositeExtractOp>(location, all, ArrayRef<int32_t>{0});
    };
    block_ = x_of(spirv::BuiltIn::WorkgroupId);
    thread_ = x_of(spirv::BuiltIn::LocalInvocationId);
  }

  void finish() override { builder.create<func::ReturnOp>(location); }

  void barrier() override {
    builder.create<spirv::ControlBarrierOp>(
        location, spirv::Scope::Workgroup, spirv::Scope::Workgroup,
        spirv::MemorySemantics::AcquireRelease | spirv::MemorySemantics::WorkgroupMemory | spirv::MemorySemantics::CrossWorkgroupMemory);
  }

  // Within a subgroup or, in SPIR-V 1.0, which has no such instruction and leaves the size of a subgroup to the device, through memory, by the whole
  // workgroup.
  Value exchange(Value value, int64_t distance) override {
    if (level_.has_subgroups) return shuffle(value, distance);
    Value& memory = slots_[value.getType()];
    if (!memory) memory = shared(value.getType(), threads_);
    store(value, memory, thread_);
    barrier();
    Value other = load(memory, make<arith::XOrIOp>(thread_, index(distance)), value.getType());
    barrier();  // the next exchange stores there
    return other;
  }

  // Part of one piece of memory, the last argument. It points to what is aligned to 16 bytes.
  Value shared(Type element, int64_t count) override {
    auto pointer_to = [](Type type) { return spirv::PointerType::get(type, spirv::StorageClass::Workgroup); };
    if (!local_) {
      const unsigned last = entry_.getNumArguments();
      entry_.insertArgument(last, pointer_to(VectorType::get({4}, builder.getI32Type())), {}, location);
      local_ = entry_.getArgument(last);
    }
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&entry_.getBody().front());
    Type memory = stored_type(memory_type(element));
    Value bytes = builder.create<spirv::BitcastOp>(location, pointer_to(builder.getI8Type()), local_);
    Value start = builder.create<arith::ConstantIntOp>(location, shared_bytes_, 64);
    Value first = builder.create<spirv::PtrAccessChainOp>(location, bytes.getType(), bytes, start, ValueRange());
    shared_bytes_ +=
        static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(count) * memory.getIntOrFloatBitWidth() / 8, local_alignment));
    if (memory.isInteger(8)) return first;
    return builder.create<spirv::BitcastOp>(location, pointer_to(memory), first);
  }
  int64_t shared_bytes() const override { return shared_bytes_; }

 private:
  Value shuffle(Value value, int64_t distance) {
    const Type type = value.getType();
    if (type.isBF16()) value = builder.create<arith::BitcastOp>(location, builder.getI16Type(), value);
    Value mask = builder.create<arith::ConstantIntOp>(location, distance, 32);
    Value other = builder.create<spirv::GroupNonUniformShuffleXorOp>(location, spirv::Scope::Subgroup, value, mask);
    return type.isBF16() ? builder.create<arith::BitcastOp>(location, type, other).getResult() : other;
  }

  // SPIR-V 1.0 has no bf16: its bits are an i16.
  Type stored_type(Type memory) { return memory.isBF16() ? Type(builder.getI16Type()) : memory; }

  Value at(Value base, Value element_index) {
    return builder.create<spirv::PtrAccessChainOp>(location, base.getType(), base, element_index, ValueRange());
  }
  // Kernels of lanes are not supported: device compilers vectorize threads.
  static void check(Type type, Value mask) {
    if (mask || llvm::isa<VectorType>(type)) llvm::report_fatal_error("spirv: memory is accessed one element at a time");
  }

  Value load_memory(Type type, Value base, Value element_index, Value mask) override {
    check(type, mask);
    auto aligned = spirv::MemoryAccessAttr::get(builder.getContext(), spirv::MemoryAccess::Aligned);
    auto bytes = builder.getI32IntegerAttr(static_cast<int32_t>(type.getIntOrFloatBitWidth() / 8));
    Value loaded = builder.create<spirv::LoadOp>(location, stored_type(type), at(base, element_index), aligned, bytes);
    return type.isBF16() ? builder.create<arith::BitcastOp>(location, type, loaded).getResult() : loaded;
  }
  void store_memory(Value value, Value base, Value element_index, Value mask) override {
    check(value.getType(), mask);
    auto aligned = spirv::MemoryAccessAttr::get(builder.getContext(), spirv::MemoryAccess::Aligned);
    auto bytes = builder.getI32IntegerAttr(static_cast<int32_t>(value.getType().getIntOrFloatBitWidth() / 8));
    if (value.getType().isBF16()) value = builder.create<arith::BitcastOp>(location, builder.getI16Type(), value);
    builder.create<spirv::StoreOp>(location, at(base, element_index), value, aligned, bytes);
  }

  const Level& level_;
  func::FuncOp entry_;
  Value local_;                        // the argument for shared memory
  llvm::DenseMap<Type, Value> slots_;  // of an exchange: one for each thread, by element type
  int64_t shared_bytes_ = 0;
};

// For bf16, whose bits are an i16.
struct Bf16Constant final : OpConversionPattern<arith::ConstantOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(arith::ConstantOp op, OpAdaptor, ConversionPatternRewriter& rewriter) const override {
    auto value = llvm::dyn_cast<FloatAttr>(op.getValue());
    if (!value || !value.getType().isBF16()) return failure();
    Type bits = rewriter.getI16Type();
    rewriter.replaceOpWithNewOp<spirv::ConstantOp>(op, bits, rewriter.getIntegerAttr(bits, value.getValue().bitcastToAPInt()));
    return success();
  }
};

// Lowers everything to the spirv dialect, in the same module.
LogicalResult convert(ModuleOp kernels, const Level& level) {
  MLIRContext* context = kernels.getContext();
  PassManager passes(context, ModuleOp::getOperationName());
  passes.addPass(expand_math_without_f64());  // f64 is an option of devices
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addNestedPass<func::FuncOp>(createCSEPass());
  passes.addNestedPass<func::FuncOp>(createLoopInvariantCodeMotionPass());
  passes.addPass(createConvertSCFToCFPass());
  arith::ArithExpandOpsPassOptions expansions;  // ceil and floor division
  expansions.includeBf16 = true;
  passes.addPass(arith::createArithExpandOpsPass(expansions));
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  if (failed(passes.run(kernels))) return failure();

  spirv::TargetEnvAttr target = environment(context, level);
  SPIRVTypeConverter types(target);
  types.addConversion([](BFloat16Type type) -> Type { return IntegerType::get(type.getContext(), 16); });
  RewritePatternSet patterns(context);
  patterns.add<Bf16Constant>(types, context, /*benefit=*/2);
  arith::populateArithToSPIRVPatterns(types, patterns);
  populateMathToSPIRVPatterns(types, patterns);
  cf::populateControlFlowToSPIRVPatterns(types, patterns);
  populateFuncToSPIRVPatterns(types, patterns);
  populateBuiltinFuncToSPIRVPatterns(types, patterns);
  std::unique_ptr<SPIRVConversionTarget> legal = SPIRVConversionTarget::get(target);
  return applyPartialConversion(kernels, *legal, std::move(patterns));
}

// A spirv.module of the kernels and their variables.
FailureOr<spirv::ModuleOp> gather(ModuleOp kernels, const Level& level) {
  MLIRContext* context = kernels.getContext();
  OpBuilder builder(context);
  Location location = kernels.getLoc();
  builder.setInsertionPointToEnd(kernels.getBody());
  auto module = builder.create<spirv::ModuleOp>(location, spirv::AddressingModel::Physical64, spirv::MemoryModel::OpenCL);
  module->setAttr(spirv::getTargetEnvAttrName(), environment(context, level));
  SmallVector<Attribute> inputs;
  SmallVector<spirv::FuncOp> functions;
  for (Operation& op : llvm::make_early_inc_range(*kernels.getBody())) {
    if (&op == module) continue;
    auto variable = llvm::dyn_cast<spirv::GlobalVariableOp>(op);
    if (variable && variable.storageClass() == spirv::StorageClass::Input) inputs.push_back(FlatSymbolRefAttr::get(variable));
    if (auto function = llvm::dyn_cast<spirv::FuncOp>(op)) functions.push_back(function);
    op.moveBefore(module.getBody(), module.getBody()->end());
  }
  builder.setInsertionPointToEnd(module.getBody());
  for (spirv::FuncOp function : functions) {
    auto threads = function->getAttrOfType<IntegerAttr>(threads_attr);
    builder.create<spirv::EntryPointOp>(location, spirv::ExecutionModel::Kernel, function, inputs);
    builder.create<spirv::ExecutionModeOp>(location, function, spirv::ExecutionMode::LocalSize,
                                           ArrayRef<int32_t>{static_cast<int32_t>(threads.getInt()), 1, 1});
    if (level.has_subgroups) {
      builder.create<spirv::ExecutionModeOp>(location, function, spirv::ExecutionMode::SubgroupSize,
                                             ArrayRef<int32_t>{static_cast<int32_t>(subgroup_size)});
    }
    // Products that are to be rounded once with a sum are written so.
    builder.create<spirv::ExecutionModeOp>(location, function, spirv::ExecutionMode::ContractionOff, ArrayRef<int32_t>{});
  }
  PassManager passes(context, spirv::ModuleOp::getOperationName());
  passes.addPass(createStripDebugInfoPass());
  if (failed(passes.run(module))) return failure();
  return module;
}

// A module of the kernel, whose name becomes `symbol`.
OwningOpRef<spirv::ModuleOp> read_unit(ArrayRef<char> bytes, const LinkedKernel& kernel, Location location) {
  llvm::SourceMgr sources;  // bytecode has to be aligned
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(StringRef(bytes.data(), bytes.size())), llvm::SMLoc());
  auto unit = parseSourceFile<spirv::ModuleOp>(sources, ParserConfig(location.getContext()));
  auto function = unit ? unit->lookupSymbol<spirv::FuncOp>(kernel.unit) : spirv::FuncOp();
  if (!function) {
    emitError(location, "spirv: the code of kernel '") << kernel.symbol << "' has no function '" << kernel.unit << "'";
    return {};
  }
  if (kernel.unit == kernel.symbol) return unit;
  auto name = StringAttr::get(location.getContext(), kernel.symbol);
  if (failed(SymbolTable::replaceAllSymbolUses(function, name, *unit))) return {};
  function.setSymName(name);
  return unit;
}

// Moves what the unit has into the image. Variables of one name are the same built-in ones.
void join(spirv::ModuleOp unit, spirv::ModuleOp image) {
  for (Operation& op : llvm::make_early_inc_range(*unit.getBody())) {
    auto variable = llvm::dyn_cast<spirv::GlobalVariableOp>(op);
    if (variable && image.lookupSymbol(variable.getSymName())) continue;
    op.moveBefore(image.getBody(), variable ? image.getBody()->begin() : image.getBody()->end());
  }
}

class SpirvTarget final : public Target {
 public:
  explicit SpirvTarget(const Level& level) : level_(level) {
    ThreadMachine machine{.most_threads = 256,
                          .subgroup_size = subgroup_size,
                          .shared_bytes = 24 << 10,  // of the 32 KiB that any device has; exchanges use the rest
                          .exchanges_in_branches = level.has_subgroups,
                          .open = {}};
    machine.open = [&level](tx::DispatchOp region, const KernelPlan&, StringRef symbol, ModuleOp kernels, int64_t threads) {
      return std::make_unique<SpirvKernelBuilder>(region, symbol, kernels, threads, level);
    };
    strategies_.push_back(rows_on_threads(machine));
    strategies_.push_back(gemv_on_threads(machine));
    if (level.has_dots) machine.dot = dot;
    strategies_.push_back(dots_on_threads(machine));
    strategies_.push_back(generic_on_threads(std::move(machine)));
  }

  std::string format() const override { return HEDDLE_CODE_SPIRV; }
  std::string name() const override { return std::string(level_.name); }
  std::string family() const override { return "level_zero"; }
  const Strategies& strategies() const override { return strategies_; }
  int64_t results_at_once() const override { return 256; }
  int64_t neighbors_at_once() const override { return subgroup_size; }

  FailureOr<std::vector<char>> generate(ModuleOp kernels) const override {
    if (failed(convert(kernels, level_))) return failure();
    auto module = gather(kernels, level_);
    if (failed(module)) return failure();
    std::string bytes;
    llvm::raw_string_ostream stream(bytes);
    if (failed(writeBytecodeToFile(*module, stream))) return kernels.emitError("spirv: writing the code of a kernel failed");
    return std::vector<char>(bytes.begin(), bytes.end());
  }

  FailureOr<std::vector<char>> link(ArrayRef<ArrayRef<char>> units, ArrayRef<LinkedKernel> kernels, Location location) const override {
    if (units.size() != kernels.size()) {
      return FailureOr<std::vector<char>>(emitError(location, "spirv: ")
                                          << units.size() << " units of code are not those of " << kernels.size()
                                          << " kernels; kernels cannot call functions of other units");
    }
    OpBuilder builder(location.getContext());
    OwningOpRef<spirv::ModuleOp> image =
        builder.create<spirv::ModuleOp>(location, spirv::AddressingModel::Physical64, spirv::MemoryModel::OpenCL);
    (*image)->setAttr(spirv::getTargetEnvAttrName(), environment(location.getContext(), level_));
    for (auto [bytes, kernel] : llvm::zip_equal(units, kernels)) {
      OwningOpRef<spirv::ModuleOp> unit = read_unit(bytes, kernel, location);
      if (!unit) return failure();
      join(*unit, *image);
    }
    PassManager passes(location.getContext(), spirv::ModuleOp::getOperationName());
    passes.addPass(spirv::createSPIRVUpdateVCEPass());  // version and capabilities that it uses
    SmallVector<uint32_t, 0> words;
    if (failed(passes.run(*image)) || failed(spirv::serialize(*image, words)))
      return FailureOr<std::vector<char>>(emitError(location, "spirv: writing an image of ") << kernels.size() << " kernels failed");
    const char* start = reinterpret_cast<const char*>(words.data());
    return std::vector<char>(start, start + words.size() * sizeof(uint32_t));
  }

 private:
  const Level& level_;
  Strategies strategies_;
};

}  // namespace

std::unique_ptr<Target> make_spirv_target(std::string_view name) {
  for (const Level& level : levels) {
    if (level.name == name) return std::make_unique<SpirvTarget>(level);
  }
  return nullptr;
}

std::vector<std::string> spirv_levels() {
  std::vector<std::string> names;
  for (const Level& level : levels) names.emplace_back(level.name);
  return names;
}

std::string spirv_level_below(std::string_view name, const std::vector<std::string>& strategies) {
  if (llvm::is_contained(strategies, dot_strategy)) return "";
  for (const Level& level : levels) {
    if (level.name == name && level.has_dots) return std::string((&level - 1)->name);
  }
  return "";
}

void register_spirv_dialects(DialectRegistry& registry) {
  registry.insert<spirv::SPIRVDialect>();
}

}  // namespace heddle::targets
