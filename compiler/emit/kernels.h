// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of one family of devices, of all models that it runs a part of: regions that are alike share one, whatever their slot.
// Collected before code generation, named in the host programs afterwards. Knows targets only through their interface.
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
  std::string text;  // the region's, without names and locations
  uint32_t binding_count = 0;
  uint32_t symbol_count = 0;  // constants: one int64 per symbol of the function
  targets::KernelPlan plan;
};

class Kernels {
 public:
  // Adds the regions on the model's slots of this family, in order.
  void add(mlir::ModuleOp model, llvm::StringRef family);

  std::vector<Kernel>& all() { return kernels_; }
  const std::vector<Kernel>& all() const { return kernels_; }
  uint32_t index_of(tx::DispatchOp region) const { return index_.lookup(region); }

 private:
  std::vector<Kernel> kernels_;
  llvm::StringMap<uint32_t> known_;  // by text
  llvm::DenseMap<mlir::Operation*, uint32_t> index_;
};

// Symbols of the function that a region is in.
uint32_t symbol_count(mlir::Operation* op);

}  // namespace heddle::emit
