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

  // One for each that is different, and for each of its plans once these are known.
  const std::vector<Kernel>& all() const { return kernels_; }
  // Once, when all are added: each kernel becomes one for each of its plans, in their order. plans: of the kernels, in order; none is empty.
  void plan(std::vector<targets::Plans> plans);

  // Those of a region are neighbors, in the order of its plans.
  uint32_t first_of(tx::DispatchOp region) const { return first_[index_.lookup(region)]; }
  llvm::ArrayRef<Kernel> of(tx::DispatchOp region) const {
    uint32_t index = index_.lookup(region);
    return llvm::ArrayRef(kernels_).slice(first_[index], first_[index + 1] - first_[index]);
  }

 private:
  std::vector<Kernel> kernels_;
  std::vector<uint32_t> first_;      // kernel of each text, and the end
  llvm::StringMap<uint32_t> known_;  // texts, in order
  llvm::DenseMap<mlir::Operation*, uint32_t> index_;
};

// Symbols of the function that a region is in.
uint32_t symbol_count(mlir::Operation* op);

}  // namespace heddle::emit
