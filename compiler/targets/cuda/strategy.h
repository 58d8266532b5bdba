// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the strategies share: the parts a region is made of, one index space each, and their workgroups in a row. Read by the
// target only.
#pragma once

#include <memory>

#include "compiler/targets/cuda/kernel_builder.h"
#include "compiler/targets/region_outputs.h"

namespace heddle::targets::cuda {

// Threads of a workgroup where a strategy has no reason for another number.
inline constexpr int64_t usual_threads = 256;

// A part of a region's work. plan() and emit() build the same parts in the same order.
class Part {
 public:
  virtual ~Part() = default;
  virtual mlir::AffineExpr workgroups() const = 0;
  // Emits workgroup `block` of this part.
  virtual mlir::LogicalResult emit(KernelBuilder& kernel, mlir::Value block) const = 0;
};
using Parts = std::vector<std::unique_ptr<Part>>;

// Elements of a result, `lanes` neighbours a thread (0: one), in row-major order. The last dimensions may be walked as one.
class ElementSpace {
 public:
  ElementSpace(llvm::ArrayRef<mlir::AffineExpr> extents, unsigned flattened, int64_t lanes);
  mlir::AffineExpr workgroups() const { return workgroups_; }
  // Runs body with this thread's point, if it has one.
  void emit(KernelBuilder& kernel, mlir::Value block, const std::function<void(const Point&)>& body) const;

 private:
  llvm::SmallVector<mlir::AffineExpr> extents_;
  unsigned flattened_;
  int64_t lanes_;
  mlir::AffineExpr points_, workgroups_;
};

// Lanes that fit the innermost extent: 4 where it is known to be a multiple, else 0.
int64_t lanes_for(mlir::AffineExpr inner);

// The strategies. A root is a reduction or a contraction.
Parts elementwise_parts(tx::DispatchOp region, llvm::ArrayRef<Output> outputs);
mlir::FailureOr<Parts> reduction_parts(tx::DispatchOp region, llvm::ArrayRef<Output> outputs, mlir::Operation* root);
mlir::FailureOr<Parts> contraction_parts(tx::DispatchOp region, llvm::ArrayRef<Output> outputs, mlir::Operation* root);

}  // namespace heddle::targets::cuda
