// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See llvm_kernel_builder.h.
#include "compiler/targets/llvm_kernel_builder.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// Masked lanes of bf16 are selected as integers: without masks in hardware they are taken one by one, and LLVM would convert each to f32 and back by
// a call.
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

Value LlvmKernelBuilder::gather(Value base, Value start, Value offsets, Type element, Value mask) {
  int64_t lanes = llvm::cast<VectorType>(offsets.getType()).getNumElements();
  Type memory = memory_type(element), vector = vector_type(memory, lanes);
  auto pointers = LLVM::getFixedVectorType(LLVM::LLVMPointerType::get(builder.getContext()), static_cast<unsigned>(lanes));
  Value addresses = builder.create<LLVM::GEPOp>(location, pointers, memory, pointer(base, start, element), ArrayRef<LLVM::GEPArg>{offsets});
  if (!mask) mask = constant(vector_type(builder.getI1Type(), lanes), 1);
  Value fill = builder.create<arith::ConstantOp>(location, builder.getZeroAttr(vector));
  Value loaded = builder.create<LLVM::masked_gather>(location, vector, addresses, mask, ValueRange{fill},
                                                     builder.getI32IntegerAttr(static_cast<int32_t>(alignment_of(memory))));
  return element.isInteger(1) ? make<arith::CmpIOp>(arith::CmpIPredicate::ne, loaded, fill) : loaded;
}

Value LlvmKernelBuilder::table(DenseElementsAttr elements) {
  Type element = elements.getElementType(), memory = memory_type(element);
  int64_t count = elements.getNumElements();
  auto flat_type = RankedTensorType::get({count}, memory);
  DenseElementsAttr flat;
  if (element.isInteger(1)) {
    SmallVector<APInt> bytes;
    for (bool bit : elements.getValues<bool>()) bytes.push_back(APInt(8, bit));
    flat = DenseElementsAttr::get(flat_type, bytes);
  } else {
    flat = DenseElementsAttr::getFromRawBuffer(flat_type, elements.getRawData());
  }
  LLVM::GlobalOp global;
  for (auto existing : kernels.getOps<LLVM::GlobalOp>()) {
    if (existing.getValueOrNull() == flat) global = existing;
  }
  if (!global) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(kernels.getBody());
    int64_t index = std::distance(kernels.getOps<LLVM::GlobalOp>().begin(), kernels.getOps<LLVM::GlobalOp>().end());
    global = builder.create<LLVM::GlobalOp>(location, LLVM::LLVMArrayType::get(memory, count), /*isConstant=*/true, LLVM::Linkage::Internal,
                                            "constant." + std::to_string(index), flat, /*alignment=*/64);
  }
  return builder.create<LLVM::AddressOfOp>(location, global);
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
