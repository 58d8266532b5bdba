// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interface of a target: plan a region, emit its kernel, turn kernels into code bytes. Called by compiler/code, once per dispatch and variant. A
// target knows tx regions and its own code format, but no file format and no host program.
#pragma once

#include "compiler/targets/code_units.h"
#include "compiler/targets/math.h"
#include "compiler/targets/strategy.h"

namespace heddle::targets {

// A kernel of an image, the name of its unit, and the number of its bindings and constants, if it is known.
struct LinkedKernel {
  std::string symbol, unit;
  std::optional<uint32_t> argument_count = {};
};

// A code format and a level within it, e.g. x86_64-elf/1 with x86-64-v4.
class Target {
 public:
  virtual ~Target() = default;
  virtual std::string format() const = 0;
  virtual std::string name() const = 0;
  virtual std::string family() const = 0;
  // The last one takes every region that has stages (targets/generic.h).
  virtual const Strategies& strategies() const = 0;

  // The plans of the first strategy that takes the region, with the reasons of those before it; or of the one named `only`. Fails, with a diagnostic
  // that has all reasons, for a region that none takes. With `answers`, strategies after the first are asked as well, and each answer is added
  // there, in order; kernels are the same.
  mlir::FailureOr<Plans> plans(tx::DispatchOp region, llvm::StringRef only = {}, std::vector<Answer>* answers = nullptr) const;

  // Whether contractions read constant right sides in panels, which a strategy makes from tx.pack.
  virtual bool reads_panels() const { return false; }
  // Whether contractions and look-ups read weights in blocks (`blocks` of tx.matmul) about as fast as values.
  virtual bool reads_blocks() const { return false; }
  // Whether a convolution with a constant filter should use the strategy "winograd".
  virtual bool prefers_winograd(tx::ConvOp) const { return false; }
  // Whether a contraction's kernel can read the broadcast operand of an element-wise op in its epilogue.
  virtual bool reads_behind_contraction(tx::BroadcastOp) const { return true; }
  // How many results of reductions keep the whole device busy, if a core or a workgroup computes each.
  virtual int64_t results_at_once() const { return 1; }
  // How many neighbors in memory one of them computes together, where the elements of each result are apart from each other.
  virtual int64_t neighbors_at_once() const { return 1; }

  // Whether a strategy other than the generic one takes the region. `why_not`, if not null, gets the reason.
  bool has_own_kernel(tx::DispatchOp region, std::string* why_not = nullptr) const;

  // Whether all plans of the region allow it (KernelPlan::works_in_place).
  bool works_in_place(tx::DispatchOp region) const;
  // Likewise for KernelPlan::stores_rows_apart.
  bool stores_rows_apart(tx::DispatchOp region) const;

  // Adds the kernel of the region, named `symbol`, to `kernels`. `plan` is one of plans(), of this or of another variant of the family.
  mlir::FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, llvm::StringRef symbol,
                                        mlir::ModuleOp kernels) const;

  // Everything that code of a region depends on besides the region, for caches.
  virtual std::string identity() const { return format() + " " + name(); }

  // The code of a unit of emit()'s output, which is consumed. Deterministic; any number of threads may call it at once, for modules of one context.
  virtual mlir::FailureOr<std::vector<char>> generate(mlir::ModuleOp unit) const = 0;

  // One image that offers these kernels, from the code of their units, in the same order, followed by that of the functions that they call. Errors
  // are diagnostics at the location.
  virtual mlir::FailureOr<std::vector<char>> link(llvm::ArrayRef<llvm::ArrayRef<char>> units, llvm::ArrayRef<LinkedKernel> kernels,
                                                  mlir::Location location) const = 0;

  // Adds to the resources of an image's kernels, in order, what the image says of them. Fails, with a diagnostic at the location, for a kernel that
  // the device cannot run.
  virtual mlir::LogicalResult inspect(llvm::ArrayRef<char> /*image*/, llvm::ArrayRef<LinkedKernel> /*kernels*/,
                                      llvm::MutableArrayRef<KernelResources> /*resources*/, mlir::Location /*location*/) const {
    return mlir::success();
  }

  // All kernels in the module, which is consumed, as an image.
  mlir::FailureOr<std::vector<char>> assemble(mlir::ModuleOp kernels) const;

 private:
  bool all_plans(tx::DispatchOp region, bool KernelPlan::* may) const;
};

}  // namespace heddle::targets
