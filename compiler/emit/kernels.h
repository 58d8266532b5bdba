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

// A kernel for calls of which the guards hold.
struct Candidate {
  std::vector<targets::Guard> guards;
  uint32_t kernel;  // in Kernels::all()
};

class Kernels {
 public:
  // Adds the regions on the model's slots of this family, in order.
  void add(mlir::ModuleOp model, llvm::StringRef family);

  // One for each text, and for each choice of its plans once these are known.
  const std::vector<Kernel>& all() const { return kernels_; }
  // Once, when all are added. plans: of the kernels so far, in order; the last one of each has no guards.
  void plan(std::vector<targets::Plans> plans);

  // Of a region, in order, once plans are known; a call takes the first whose guards hold.
  llvm::ArrayRef<Candidate> candidates(tx::DispatchOp region) const { return candidates_[index_.lookup(region)]; }
  // The one that any call may take.
  const Kernel& usual(tx::DispatchOp region) const { return kernels_[candidates(region).back().kernel]; }

 private:
  std::vector<Kernel> kernels_;
  std::vector<std::vector<Candidate>> candidates_;  // by text
  llvm::StringMap<uint32_t> known_;                 // texts, in order
  llvm::DenseMap<mlir::Operation*, uint32_t> index_;
};

// Symbols of the function that a region is in.
uint32_t symbol_count(mlir::Operation* op);

}  // namespace heddle::emit
