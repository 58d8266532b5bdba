// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of a module: regions that are alike share one. Collected before code generation, named in the host programs
// afterwards. Knows targets only through their interface.
#pragma once

#include <string>
#include <vector>

#include "compiler/targets/target.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace heddle::emit {

struct Kernel {
  tx::DispatchOp region;  // the first of those that share it
  std::string symbol;
  uint32_t binding_count = 0;
  uint32_t symbol_count = 0;  // constants: one int64 per symbol of the function
  targets::KernelPlan plan;
};

class Kernels {
 public:
  // All regions of the module, in order.
  static Kernels collect(mlir::ModuleOp module);

  std::vector<Kernel>& all() { return kernels_; }
  const std::vector<Kernel>& all() const { return kernels_; }
  uint32_t index_of(tx::DispatchOp region) const { return index_.lookup(region); }

 private:
  std::vector<Kernel> kernels_;
  llvm::DenseMap<mlir::Operation*, uint32_t> index_;
};

// Symbols of the function that a region is in.
uint32_t symbol_count(mlir::Operation* op);

}  // namespace heddle::emit
