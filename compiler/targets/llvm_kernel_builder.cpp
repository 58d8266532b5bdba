// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See llvm_kernel_builder.h.
#include "compiler/targets/llvm_kernel_builder.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// Lanes of bf16 that a mask chooses are integers: without masks in hardware they are taken one by one, and LLVM would have each go through f32 and back by a call.
Type masked_type(Type type) {
  auto vector = llvm::dyn_cast<VectorType>(type);
  return vector && vector.getElementType().isBF16() ? vector.clone(IntegerType::get(type.getContext(), 16)) : type;
}

unsigned alignment_of(Type type) {
  return getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8;
}

}  // namespace

void LlvmKernelBuilder::finish() {
  builder.create<func::ReturnOp>(location);
}

Value LlvmKernelBuilder::pointer(Value base, Value element_index, Type element) {
  // Not inbounds: masked loads may start outside of their tensor.
  return builder.create<LLVM::GEPOp>(location, base.getType(), memory_type(element), base, ArrayRef<LLVM::GEPArg>{element_index});
}

Value LlvmKernelBuilder::load_memory(Type type, Value base, Value element_index, Value mask) {
  Value at = pointer(base, element_index, getElementTypeOrSelf(type));
  if (!mask) return builder.create<LLVM::LoadOp>(location, type, at, alignment_of(type));
  Type loaded = masked_type(type);
  Value fill = builder.create<arith::ConstantOp>(location, builder.getZeroAttr(loaded));
  Value elements = builder.create<LLVM::MaskedLoadOp>(location, loaded, at, mask, fill, alignment_of(type));
  return loaded == type ? elements : make<arith::BitcastOp>(type, elements);
}

void LlvmKernelBuilder::store_memory(Value value, Value base, Value element_index, Value mask) {
  Value at = pointer(base, element_index, getElementTypeOrSelf(value.getType()));
  if (mask) {
    Type stored = masked_type(value.getType());
    if (stored != value.getType()) value = make<arith::BitcastOp>(stored, value);
    builder.create<LLVM::MaskedStoreOp>(location, value, at, mask, alignment_of(value.getType()));
  } else {
    builder.create<LLVM::StoreOp>(location, value, at, alignment_of(value.getType()));
  }
}

void LlvmKernelBuilder::prefetch(Value base, Value element_index, Type element, int locality) {
  builder.create<LLVM::Prefetch>(location, pointer(base, element_index, element), /*rw=*/0, locality, /*cache=*/1);
}

Value LlvmKernelBuilder::exchange_words(Value value, llvm::function_ref<Value(Value)> word) {
  Type type = value.getType(), i32 = builder.getI32Type(), i64 = builder.getI64Type();
  unsigned bits = type.getIntOrFloatBitWidth();
  Type integer = builder.getIntegerType(bits);
  Value as_integer = type == integer ? value : make<arith::BitcastOp>(integer, value);
  Value exchanged;
  if (bits == 32) {
    exchanged = word(as_integer);
  } else if (bits < 32) {
    exchanged = make<arith::TruncIOp>(integer, word(make<arith::ExtUIOp>(i32, as_integer)));
  } else {
    Value half = builder.create<arith::ConstantIntOp>(location, 32, 64);
    Value low = make<arith::ExtUIOp>(i64, word(make<arith::TruncIOp>(i32, as_integer)));
    Value high = make<arith::ExtUIOp>(i64, word(make<arith::TruncIOp>(i32, make<arith::ShRUIOp>(as_integer, half))));
    exchanged = make<arith::OrIOp>(low, make<arith::ShLIOp>(high, half));
  }
  return type == integer ? exchanged : make<arith::BitcastOp>(type, exchanged);
}

}  // namespace heddle::targets
