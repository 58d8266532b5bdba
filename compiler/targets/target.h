// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What every target offers: plan a region, emit its kernel, turn kernels into code bytes. Called by the pipeline, once per
// dispatch and variant; a target knows tx regions and its own code format, no file format and no host program.
#pragma once

#include "compiler/targets/math.h"
#include "compiler/targets/strategy.h"

namespace heddle::targets {

// A code format and a level within it, e.g. x86_64-elf/1 with x86-64-v4.
class Target {
 public:
  virtual ~Target() = default;
  virtual std::string format() const = 0;
  virtual std::string name() const = 0;
  virtual std::string family() const = 0;
  // The last one takes every region that has stages (targets/generic.h).
  virtual const Strategies& strategies() const = 0;

  // The plan of the first strategy that takes the region, with why those before it did not; or of the one named `only`. Fails, with a diagnostic
  // that has all reasons, for a region that none takes.
  mlir::FailureOr<KernelPlan> plan(tx::DispatchOp region, llvm::StringRef only = {}) const;

  // Whether a strategy other than the generic one takes the region.
  bool has_own_kernel(tx::DispatchOp region) const;

  // Adds the kernel of the region, named `symbol`, to `kernels`. `plan` is what plan() answered, of this or of another variant of the family.
  mlir::FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, llvm::StringRef symbol,
                                        mlir::ModuleOp kernels) const;

  // Code bytes for all kernels in the module, which it consumes. Deterministic.
  virtual mlir::FailureOr<std::vector<char>> assemble(mlir::ModuleOp kernels) const = 0;
};

}  // namespace heddle::targets
