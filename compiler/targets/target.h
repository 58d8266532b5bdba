// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What every target offers: plan a region, emit its kernel, turn kernels into code bytes. Called by the pipeline, once per
// dispatch and variant; a target knows tx regions and its own code format, no file format and no host program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/tx.h"
#include "compiler/targets/math.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::targets {

// How a region is cut into workgroups. The same for all variants of a family, since the host program holds the grid.
struct KernelPlan {
  mlir::AffineExpr workgroups;  // number of workgroups (x; y = z = 1) over the function's symbols
  uint64_t cost_ns = 0;         // estimate for one workgroup on one core
};

// What one variant needs for one kernel.
struct KernelResources {
  uint64_t workspace_bytes = 0;
  uint32_t workgroup_size = 1;       // threads
  uint32_t subgroup_size = 0;        // threads that exchange values without memory; 0: none do
  uint64_t shared_memory_bytes = 0;  // of one workgroup
  uint32_t registers = 0;            // of a thread; 0: not known
  uint64_t spilled_bytes = 0;        // of a thread, if the registers are known
  std::string rung;                  // step of the resource ladder, if not the first
};

// A code format and a level within it, e.g. x86_64-elf/1 with x86-64-v4.
class Target {
 public:
  virtual ~Target() = default;
  virtual std::string format() const = 0;
  virtual std::string name() const = 0;
  virtual std::string family() const = 0;

  // Cuts the region into workgroups; fails, with a diagnostic on the op, for a region this family has no strategy for.
  virtual mlir::FailureOr<KernelPlan> plan(tx::DispatchOp region) const = 0;

  // Adds the kernel of the region, named `symbol`, to `kernels`. `plan` is what plan() answered.
  virtual mlir::FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, llvm::StringRef symbol,
                                                mlir::ModuleOp kernels) const = 0;

  // Code bytes for all kernels in the module, which it consumes. Deterministic.
  virtual mlir::FailureOr<std::vector<char>> assemble(mlir::ModuleOp kernels) const = 0;
};

}  // namespace heddle::targets
