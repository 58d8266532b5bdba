// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See llvm_kernel_builder.h.
#include "compiler/targets/llvm_kernel_builder.h"

using namespace mlir;

namespace heddle::targets {

namespace {

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
  Value fill = builder.create<arith::ConstantOp>(location, builder.getZeroAttr(type));
  return builder.create<LLVM::MaskedLoadOp>(location, type, at, mask, fill, alignment_of(type));
}

void LlvmKernelBuilder::store_memory(Value value, Value base, Value element_index, Value mask) {
  Value at = pointer(base, element_index, getElementTypeOrSelf(value.getType()));
  if (mask) {
    builder.create<LLVM::MaskedStoreOp>(location, value, at, mask, alignment_of(value.getType()));
  } else {
    builder.create<LLVM::StoreOp>(location, value, at, alignment_of(value.getType()));
  }
}

void LlvmKernelBuilder::prefetch(Value base, Value element_index, Type element, int locality) {
  builder.create<LLVM::Prefetch>(location, pointer(base, element_index, element), /*rw=*/0, locality, /*cache=*/1);
}

}  // namespace heddle::targets
