// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Merges the values of the threads of a workgroup into one set: over the lanes of a subgroup by exchanges, and over subgroups through shared memory,
// always in the same order. The strategy says how to merge; the machine, how threads read each other's values (kernel_builder.h).
#pragma once

#include "compiler/targets/kernel_builder.h"

namespace heddle::targets {

class Subgroups {
 public:
  using Values = KernelBuilder::Values;
  // Merges two sets of values into one.
  using Merge = llvm::function_ref<Values(mlir::ValueRange, mlir::ValueRange)>;

  // Subgroups of `size` threads, a power of two that divides the workgroup's size.
  Subgroups(KernelBuilder& kernel, int64_t size) : kernel_(kernel), size_(size) {}

  int64_t size() const { return size_; }
  int64_t count() const { return kernel_.threads() / size_; }  // of a workgroup
  // Computed at this point, i64: the thread's number in its subgroup, and the subgroup's number in the workgroup.
  mlir::Value lane() const { return kernel_.rem(kernel_.thread(), kernel_.index(size_)); }
  mlir::Value own() const { return kernel_.div(kernel_.thread(), kernel_.index(size_)); }

  // Merges over the lanes whose numbers differ by multiples of `apart`; each lane gets the result.
  Values across_lanes(Values values, Merge merge, int64_t apart = 1) const;
  // Merges over all subgroups, if all lanes of a subgroup have the same values; every thread gets the result. All threads of the workgroup must take
  // part.
  Values across_all(Values values, Merge merge) const;
  // The same if each lane has its own values: merges each lane over all subgroups.
  Values across_all_by_lane(Values values, Merge merge) const;
  // Merges the values that `of` returns for each subgroup.
  Values merged(llvm::function_ref<Values(int64_t)> of, Merge merge) const;

 private:
  llvm::SmallVector<mlir::Value> shared(mlir::ValueRange values, int64_t count) const;
  void store(mlir::ValueRange values, mlir::ValueRange memory, mlir::Value at) const;
  Values load(mlir::ValueRange values, mlir::ValueRange memory, mlir::Value at) const;

  KernelBuilder& kernel_;
  int64_t size_;
};

}  // namespace heddle::targets
