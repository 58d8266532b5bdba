// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The frame of a kernel of ptx/1. Called by emitters; knows no strategy.
#include "compiler/targets/cuda/kernel_builder.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

constexpr int64_t binding_alignment = 64;  // bytes; code.h
constexpr size_t most_fetched = 16;        // bindings whose addresses are fetched early
constexpr unsigned shared_space = 3;
constexpr int64_t shared_alignment = 16;  // bytes

}  // namespace

KernelBuilder::KernelBuilder(tx::DispatchOp region, StringRef symbol_name, ModuleOp kernels_module, const Chip& target_chip,
                             int64_t thread_count, bool is_small)
    : LlvmKernelBuilder(region, kernels_module), chip(target_chip), is_small_(is_small) {
  threads_ = thread_count;
  auto ptr = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64 = builder.getI64Type(), i32 = builder.getI32Type();
  llvm::SmallVector<bool> aliased = aliased_bindings(region);
  SmallVector<Type> types(aliased.size(), ptr);
  types.append(symbol_count(region), i64);
  entry_ = builder.create<func::FuncOp>(location, symbol_name, builder.getFunctionType(types, {}));
  entry_->setAttr(threads_attr, builder.getI64IntegerAttr(threads_));
  for (unsigned i = 0; i < aliased.size(); ++i) {
    if (!aliased[i]) entry_.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
    entry_.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(), builder.getI64IntegerAttr(binding_alignment));
  }
  symbol = entry_.getName();
  Block* body = entry_.addEntryBlock();
  builder.setInsertionPointToStart(body);
  for (unsigned i = 0; i < aliased.size(); ++i) bindings_.push_back(body->getArgument(i));
  for (unsigned i = aliased.size(); i < types.size(); ++i) symbols_.push_back(body->getArgument(i));
  block_ = make<arith::ExtUIOp>(i64, builder.create<NVVM::BlockIdXOp>(location, i32).getResult());
  thread_ = make<arith::ExtUIOp>(i64, builder.create<NVVM::ThreadIdXOp>(location, i32).getResult());
  if (!chip.starts_early) return;
  if (is_small) control("griddepcontrol.launch_dependents;");
  // Memory is accessed only after the previous kernel has finished (code.h). The kernel's arguments are fetched while it waits.
  ValueRange given = ValueRange(bindings_).take_front(most_fetched);
  std::string constraints;
  for (size_t i = 0; i < given.size(); ++i) constraints += "l,";
  control("griddepcontrol.wait;", given, constraints);
}

void KernelBuilder::control(const char* text, ValueRange operands, const std::string& constraints) {
  builder.create<LLVM::InlineAsmOp>(location, TypeRange(), operands, text, constraints + "~{memory}", /*has_side_effects=*/true,
                                    /*is_align_stack=*/false, LLVM::AsmDialectAttr(), ArrayAttr());
}

void KernelBuilder::let_next_start() {
  if (chip.starts_early && !is_small_) control("griddepcontrol.launch_dependents;");
}

void KernelBuilder::set_residents(int64_t count) {
  entry_->setAttr(residents_attr, builder.getI64IntegerAttr(count));
}

void KernelBuilder::set_cluster(int64_t count) {
  entry_->setAttr(cluster_attr, builder.getI64IntegerAttr(count));
}

void KernelBuilder::cluster_barrier() {
  control("barrier.cluster.arrive.release.aligned;");
  control("barrier.cluster.wait.acquire.aligned;");
}

Value KernelBuilder::shared_of(Value memory, int64_t rank) {
  // A generic address, as `memory` is.
  std::string text = "mapa.u64 $0, $1, " + std::to_string(rank) + ";";
  auto there = builder.create<LLVM::InlineAsmOp>(location, TypeRange(builder.getI64Type()), memory, text, "=l,l",
                                                 /*has_side_effects=*/false, /*is_align_stack=*/false, LLVM::AsmDialectAttr(), ArrayAttr());
  return builder.create<LLVM::IntToPtrOp>(location, memory.getType(), there.getResult(0));
}

void KernelBuilder::barrier() {
  builder.create<NVVM::Barrier0Op>(location);
}

Value KernelBuilder::exchange(Value value, int64_t distance) {
  return exchange_words(value, [&](Value word) -> Value {
    Value all = builder.create<arith::ConstantIntOp>(location, -1, 32);
    Value by = builder.create<arith::ConstantIntOp>(location, distance, 32);
    Value clamp = builder.create<arith::ConstantIntOp>(location, subgroup_size - 1, 32);
    return builder.create<NVVM::ShflOp>(location, builder.getI32Type(), all, word, by, clamp, NVVM::ShflKind::bfly, UnitAttr());
  });
}

Value KernelBuilder::shared_base() {
  // One symbol for all kernels: its size is given when a kernel is launched.
  constexpr llvm::StringLiteral name = "shared";
  auto global = kernels.lookupSymbol<LLVM::GlobalOp>(name);
  if (!global) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(kernels.getBody());
    global = builder.create<LLVM::GlobalOp>(location, LLVM::LLVMArrayType::get(builder.getI8Type(), 0), /*isConstant=*/false,
                                            LLVM::Linkage::External, name, Attribute(), shared_alignment, shared_space);
  }
  return builder.create<LLVM::AddressOfOp>(location, global);
}

Value KernelBuilder::shared(Type element, int64_t count) {
  Value memory = builder.create<LLVM::AddrSpaceCastOp>(location, LLVM::LLVMPointerType::get(builder.getContext()), shared_base());
  Value at = pointer(memory, index(shared_bytes_), builder.getI8Type());
  int64_t bytes = count * (memory_type(element).getIntOrFloatBitWidth() / 8);
  shared_bytes_ += (bytes + shared_alignment - 1) / shared_alignment * shared_alignment;
  return at;
}

}  // namespace heddle::targets::cuda
