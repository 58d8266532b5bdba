// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic on i32, shared memory, and the instructions for kernels with tiles, as in the PTX ISA. Used by the tiled contraction and by attention.
// Addresses of shared memory are i32, as those instructions take them.
#pragma once

#include "compiler/targets/cuda/kernel_builder.h"

namespace heddle::targets::cuda {

class Instructions {
 public:
  explicit Instructions(KernelBuilder& kernel);

  KernelBuilder& k;

  // ---- arithmetic on i32
  mlir::Type i32() const { return k.builder.getI32Type(); }
  mlir::Value word(int64_t value) const {
    return k.make<mlir::arith::ConstantOp>(k.builder.getI32IntegerAttr(static_cast<int32_t>(value)));
  }
  mlir::Value narrow(mlir::Value value) const { return k.make<mlir::arith::TruncIOp>(i32(), value); }
  mlir::Value widen(mlir::Value value) const { return k.make<mlir::arith::ExtSIOp>(k.builder.getI64Type(), value); }
  mlir::Value both(mlir::Value a, mlir::Value b) const { return !a ? b : !b ? a : k.make<mlir::arith::AndIOp>(a, b); }
  mlir::Value choose(mlir::Value condition, mlir::Value a, mlir::Value b) const { return k.make<mlir::arith::SelectOp>(condition, a, b); }
  // 0 <= value < extent
  mlir::Value inside(mlir::Value value, mlir::Value extent) const {
    return k.make<mlir::arith::CmpIOp>(mlir::arith::CmpIPredicate::ult, value, extent);
  }

  // ---- shared memory
  mlir::Value shared() const { return shared_; }  // address of its first byte
  mlir::Value load_shared(mlir::Value address, int64_t offset, mlir::Type type, unsigned alignment) const;
  void store_shared(mlir::Value value, mlir::Value address, int64_t offset, unsigned alignment) const;

  // ---- clusters
  // Waits for all threads of the cluster; makes their stores to shared memory visible to each other.
  void cluster_barrier() const;
  // Translates an address of shared memory to the same place in the workgroup of that rank, as an address of the cluster.
  mlir::Value in_cluster(mlir::Value address, int64_t rank) const;
  // Loads four f32 at an address of the cluster.
  mlir::Value load_cluster(mlir::Value address) const;

  // One instruction of PTX; a pure one neither accesses memory nor depends on it. No result type: none.
  mlir::Value assembly(const std::string& text, const std::string& constraints, mlir::ValueRange operands, mlir::Type result = {},
                       bool pure = false) const;

  // ---- matrices of a subgroup
  // Appends four words: of four 8 x 8 matrices of 16-bit elements, or 8 x 4 of 32 bits (ldmatrix); this lane's address is that of one of their rows.
  void load_matrices(mlir::Value address, int64_t offset, bool transposed, KernelBuilder::Values& to) const;
  // Adds a product to four sums (mma.sync): four words of the left side, two of the right one, of "f16", "bf16" or "tf32".
  void multiply_add(llvm::StringRef type, mlir::ValueRange lhs, mlir::ValueRange rhs, llvm::MutableArrayRef<mlir::Value> sums) const;

 private:
  mlir::Value shared_pointer(mlir::Value address, int64_t offset) const;

  mlir::Value shared_;
};

}  // namespace heddle::targets::cuda
