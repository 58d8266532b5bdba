// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Local memory (LDS) of a workgroup as bytes, for kernels that lay it out themselves. Addresses are i32 offsets, and alignments are known.
#pragma once

#include "compiler/targets/llvm_kernel_builder.h"

namespace heddle::targets::amdgpu {

// The same i64, the same in all threads, of which LLVM knows nothing: a loop up to it is not unrolled, which would take more registers than there are.
inline mlir::Value hidden(LlvmKernelBuilder& k, mlir::Value value) {
  return k.builder
      .create<mlir::LLVM::InlineAsmOp>(k.location, mlir::TypeRange(value.getType()), mlir::ValueRange(value), "", "=s,0",
                                       /*has_side_effects=*/false, /*is_align_stack=*/false, mlir::LLVM::AsmDialectAttr(),
                                       mlir::ArrayAttr())
      .getResult(0);
}

class LocalMemory {
 public:
  LocalMemory(LlvmKernelBuilder& kernel, int64_t bytes) : k_(kernel), base_(kernel.shared(kernel.builder.getI8Type(), bytes)) {}

  // A multiple of `alignment` bytes, up to 16.
  mlir::Value load(mlir::Type type, mlir::Value address, int64_t offset, unsigned alignment) const {
    return k_.builder.create<mlir::LLVM::LoadOp>(k_.location, type, pointer(address, offset), alignment);
  }
  void store(mlir::Value value, mlir::Value address, int64_t offset, unsigned alignment) const {
    k_.builder.create<mlir::LLVM::StoreOp>(k_.location, value, pointer(address, offset), alignment);
  }

  // ---- arithmetic on i32
  mlir::Type i32() const { return k_.builder.getI32Type(); }
  mlir::Value word(int64_t value) const {
    return k_.make<mlir::arith::ConstantOp>(k_.builder.getI32IntegerAttr(static_cast<int32_t>(value)));
  }
  mlir::Value narrow(mlir::Value value) const { return k_.make<mlir::arith::TruncIOp>(i32(), value); }
  mlir::Value add(mlir::Value a, mlir::Value b) const { return k_.make<mlir::arith::AddIOp>(a, b); }
  mlir::Value sub(mlir::Value a, mlir::Value b) const { return k_.make<mlir::arith::SubIOp>(a, b); }

 private:
  mlir::Value pointer(mlir::Value address, int64_t offset) const {
    auto step = [&](mlir::Value from, mlir::LLVM::GEPArg by) -> mlir::Value {
      return k_.builder.create<mlir::LLVM::GEPOp>(k_.location, base_.getType(), k_.builder.getI8Type(), from,
                                                  llvm::ArrayRef<mlir::LLVM::GEPArg>{by});
    };
    mlir::Value at = step(base_, address);
    return offset == 0 ? at : step(at, static_cast<int32_t>(offset));
  }

  LlvmKernelBuilder& k_;
  mlir::Value base_;
};

}  // namespace heddle::targets::amdgpu
