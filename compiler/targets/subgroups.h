// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes one set of values of those that the threads of a workgroup have: over the lanes of a subgroup, by exchanges, and over the subgroups, through shared
// memory, always in the same order. What is merged is the strategy's; how threads reach each other's values is the machine's (kernel_builder.h).
#pragma once

#include "compiler/targets/kernel_builder.h"

namespace heddle::targets {

class Subgroups {
 public:
  using Values = KernelBuilder::Values;
  // Makes one set of values of two.
  using Merge = llvm::function_ref<Values(mlir::ValueRange, mlir::ValueRange)>;

  // Of `size` threads, a power of two that divides the workgroup's.
  Subgroups(KernelBuilder& kernel, int64_t size) : kernel_(kernel), size_(size) {}

  int64_t size() const { return size_; }
  int64_t count() const { return kernel_.threads() / size_; }  // of a workgroup
  // Computed here, i64: which thread of its subgroup this is, and which subgroup of the workgroup that is.
  mlir::Value lane() const { return kernel_.rem(kernel_.thread(), kernel_.index(size_)); }
  mlir::Value own() const { return kernel_.div(kernel_.thread(), kernel_.index(size_)); }

  // Of the lanes whose numbers differ by multiples of `apart`, in each of them.
  Values across_lanes(Values values, Merge merge, int64_t apart = 1) const;
  // Of all subgroups, in every thread, where all lanes of a subgroup have the same values. Every thread of the workgroup is here.
  Values across_all(Values values, Merge merge) const;
  // The same where lanes have values of their own: of each lane over all subgroups.
  Values across_all_by_lane(Values values, Merge merge) const;
  // Of what `of` gives for each subgroup.
  Values merged(llvm::function_ref<Values(int64_t)> of, Merge merge) const;

 private:
  llvm::SmallVector<mlir::Value> shared(mlir::ValueRange values, int64_t count) const;
  void store(mlir::ValueRange values, mlir::ValueRange memory, mlir::Value at) const;
  Values load(mlir::ValueRange values, mlir::ValueRange memory, mlir::Value at) const;

  KernelBuilder& kernel_;
  int64_t size_;
};

}  // namespace heddle::targets
