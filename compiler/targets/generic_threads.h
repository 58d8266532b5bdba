// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The generic kernel (generic.h) on machines of threads: each thread computes one index, or a few neighbors.
#pragma once

#include "compiler/targets/generic.h"
#include "compiler/targets/strategy.h"

namespace heddle::targets {

// The properties of a machine that the strategy needs.
struct ThreadMachine {
  int64_t threads = 256;        // usual size of a workgroup
  int64_t most_threads = 1024;  // of a workgroup
  int64_t subgroup_size = 32;   // workgroup sizes are multiples of it; for a machine that chooses it per kernel, the largest
  int64_t access_bytes = 0;     // of one thread, at most; 0: elements are accessed one at a time
  int64_t shared_bytes = 0;     // of one workgroup, at most; 0: its threads do not work together
  // Workgroups of a cluster, at most, which read each other's shared memory; 1: there are no clusters. If not `has_clusters`, then other machines that
  // run the same grid have them.
  int64_t most_in_cluster = 1;
  bool has_clusters = false;
  // Whether a subgroup exchanges values without memory, and may do so while others of its workgroup do not.
  bool exchanges_in_branches = true;
  // Opens a kernel.
  std::function<std::unique_ptr<KernelBuilder>(tx::DispatchOp region, const KernelPlan& plan, llvm::StringRef symbol,
                                               mlir::ModuleOp kernels, int64_t threads)>
      open;
  // The sum of the four products of the bytes of two i32, each with or without a sign, as an i32 that wraps; empty: the machine has no such instruction.
  std::function<mlir::Value(KernelBuilder& kernel, mlir::Value a, bool a_has_sign, mlir::Value b, bool b_has_sign)> dot = {};

  // Sets properties of a finished kernel that open() created.
  KernelResources resources(const KernelBuilder& kernel) const;
};

std::unique_ptr<Strategy> generic_on_threads(ThreadMachine machine);

}  // namespace heddle::targets
