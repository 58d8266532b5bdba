// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Distributes an index space over the threads of workgroups. Independent of what is computed.
#pragma once

#include <functional>

#include "compiler/targets/kernel_builder.h"

namespace heddle::targets {

// Elements of a result, one thread for `lanes` neighbors (0: for one), in row-major order. The last dimensions are walked as one.
class ThreadSpace {
 public:
  ThreadSpace(llvm::ArrayRef<mlir::AffineExpr> extents, unsigned flattened, int64_t lanes, int64_t threads);
  mlir::AffineExpr workgroups() const { return workgroups_; }
  // Runs body once, with this thread's indices: of the outer dimensions, and of its first element along the inner one.
  void emit(KernelBuilder& kernel, mlir::Value block,
            const std::function<void(llvm::ArrayRef<mlir::Value> outer, mlir::Value inner)>& body) const;

 private:
  llvm::SmallVector<mlir::AffineExpr> extents_;  // in steps of lanes along the last one
  int64_t lanes_;
  mlir::AffineExpr points_, workgroups_;
};

// For at least one extent.
mlir::AffineExpr product(llvm::ArrayRef<mlir::AffineExpr> extents);

// Quotient and remainder of a row-major index for each extent; cheap if all are static and small.
llvm::SmallVector<mlir::Value> delinearize(KernelBuilder& kernel, mlir::Value index, llvm::ArrayRef<mlir::AffineExpr> extents);

}  // namespace heddle::targets
