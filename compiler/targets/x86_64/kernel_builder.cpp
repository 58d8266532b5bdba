// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The frame of a kernel of x86_64-elf/1. Called by emitters; knows no strategy.
#include "compiler/targets/x86_64/kernel_builder.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

// Integers of 16 bits in place of bf16; other types are unchanged.
Type bits_of_bf16(Type type) {
  if (!getElementTypeOrSelf(type).isBF16()) return type;
  Type bits = IntegerType::get(type.getContext(), 16);
  auto vector = llvm::dyn_cast<VectorType>(type);
  return vector ? Type(vector.clone(bits)) : bits;
}

}  // namespace

namespace {

// Byte offsets in heddle_x86_64_dispatch_t.
constexpr int64_t bindings_offset = 0;
constexpr int64_t constants_offset = 16;

}  // namespace

KernelBuilder::KernelBuilder(tx::DispatchOp region, StringRef symbol_name, ModuleOp kernels_module, const Level& target_level)
    : LlvmKernelBuilder(region, kernels_module), level(target_level) {
  auto ptr = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64 = builder.getI64Type(), i32 = builder.getI32Type();
  int64_t symbols = symbol_count(region);
  llvm::SmallVector<bool> aliased = aliased_bindings(region);

  // private @symbol.body(bindings..., symbols..., first, last, workspace)
  SmallVector<Type> types(aliased.size(), ptr);
  types.append(symbols, i64);
  types.append({i64, i64, ptr});
  body_ = builder.create<func::FuncOp>(location, (symbol_name + ".body").str(), builder.getFunctionType(types, {}));
  body_.setPrivate();
  for (unsigned i = 0; i < aliased.size(); ++i) {
    if (!aliased[i]) body_.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
  }

  // The entry reads the dispatch structure.
  auto entry = builder.create<func::FuncOp>(location, symbol_name, builder.getFunctionType({ptr, i64, i64, ptr}, {i32}));
  symbol = entry.getName();
  Block* block = entry.addEntryBlock();
  builder.setInsertionPointToStart(block);
  auto field = [&](Value from, int64_t offset, Type type) -> Value {
    Value at = builder.create<LLVM::GEPOp>(location, ptr, builder.getI8Type(), from, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
    return builder.create<LLVM::LoadOp>(location, type, at, 8);
  };
  SmallVector<Value> arguments;
  Value bindings = field(block->getArgument(0), bindings_offset, ptr);
  for (unsigned i = 0; i < aliased.size(); ++i) arguments.push_back(field(bindings, 8 * static_cast<int64_t>(i), ptr));
  if (symbols > 0) {
    Value constants = field(block->getArgument(0), constants_offset, ptr);
    for (int64_t i = 0; i < symbols; ++i) arguments.push_back(field(constants, 8 * i, i64));
  }
  arguments.append({block->getArgument(1), block->getArgument(2), block->getArgument(3)});
  builder.create<func::CallOp>(location, body_, arguments);
  Value zero = builder.create<arith::ConstantIntOp>(location, 0, 32);
  builder.create<func::ReturnOp>(location, zero);

  Block* body_block = body_.addEntryBlock();
  builder.setInsertionPointToStart(body_block);
  auto argument = body_block->args_begin();
  for (unsigned i = 0; i < aliased.size(); ++i) bindings_.push_back(*argument++);
  for (int64_t i = 0; i < symbols; ++i) symbols_.push_back(*argument++);
  first_ = *argument++;
  last_ = *argument++;
  workspace_ = *argument++;
}

Value KernelBuilder::stack(int64_t bytes, int64_t alignment) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&body_.front());
  Value size = index(bytes);
  auto ptr = LLVM::LLVMPointerType::get(builder.getContext());
  return builder.create<LLVM::AllocaOp>(location, ptr, builder.getI8Type(), size, alignment);
}

void KernelBuilder::transpose(MutableArrayRef<Value> rows) {
  // Blocks of 1, 2, 4 ... change places across the diagonal.
  const int64_t lanes = static_cast<int64_t>(rows.size());
  for (int64_t s = 1; s < lanes; s *= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t l = 0; l < lanes; ++l) {
      low.push_back((l & s) == 0 ? l : lanes + l - s);
      high.push_back((l & s) == 0 ? l + s : lanes + l);
    }
    for (int64_t r = 0; r < lanes; ++r) {
      if ((r & s) != 0) continue;
      Value a = rows[r], b = rows[r + s];
      rows[r] = builder.create<vector::ShuffleOp>(location, a, b, low);
      rows[r + s] = builder.create<vector::ShuffleOp>(location, a, b, high);
    }
  }
}

Value KernelBuilder::load_memory(Type type, Value base, Value element_index, Value mask) {
  Type bits = bits_of_bf16(type);
  Value loaded = LlvmKernelBuilder::load_memory(bits, base, element_index, mask);
  return bits == type ? loaded : make<arith::BitcastOp>(type, loaded);
}

void KernelBuilder::store_memory(Value value, Value base, Value element_index, Value mask) {
  Type bits = bits_of_bf16(value.getType());
  LlvmKernelBuilder::store_memory(bits == value.getType() ? value : make<arith::BitcastOp>(bits, value), base, element_index, mask);
}

}  // namespace heddle::targets::x86_64
