// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of one family of devices, for all models that it runs a part of: equal regions share one, whatever their slot. Collected before code
// generation, named in the host programs afterwards. Knows targets only through their interface.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/targets/target.h"
#include "compiler/targets/workspace.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace heddle::emit {

struct Kernel {
  tx::DispatchOp region;  // the first of the regions that share it
  std::string symbol;
  std::string text;  // the region's, without names and locations
  uint32_t binding_count = 0;
  uint32_t symbol_count = 0;                    // constants: one int64 per symbol of the function
  std::optional<targets::Workspace> workspace;  // a binding after the region's own
  targets::KernelPlan plan;
};

// A kernel for calls that satisfy the guards.
struct Candidate {
  std::vector<targets::Guard> guards;
  uint32_t kernel;  // in Kernels::all()
  bool runs;        // false: without workgroups
};

// Attribute of a dispatch (StringAttr): what a target plugin claimed it as. The text of such a region has it.
inline constexpr llvm::StringLiteral claim_attr = "heddle.claim";
// Likewise (UnitAttr): the family's own code has the region, too, for calls for which the plugin's has no entry.
inline constexpr llvm::StringLiteral partly_claimed_attr = "heddle.partly_claimed";

// Whether the family's own code has a kernel for the region.
bool is_for_own_code(tx::DispatchOp region);

// What equal regions have in common.
std::string text_of(tx::DispatchOp region);

class Kernels {
 public:
  // Adds the regions on the model's slots of this family, in order; those of which `takes`, if there is one, says so.
  void add(mlir::ModuleOp model, llvm::StringRef family, llvm::function_ref<bool(tx::DispatchOp)> takes = {});

  // One for each text and, once its plans are known, for each choice of them.
  const std::vector<Kernel>& all() const { return kernels_; }
  // Called once, when all are added. plans: for the kernels so far, in order; the last plan of each has no guards. One without `workgroups` repeats the
  // choice of an earlier one, and is for calls in which the region's other kernel runs.
  // workspaces: likewise, what Kernel::workspace becomes; or none.
  void plan(std::vector<targets::Plans> plans, llvm::ArrayRef<std::optional<targets::Workspace>> workspaces = {});

  // After plan(): the name of a kernel in code that others made.
  void rename(uint32_t kernel, std::string symbol) { kernels_[kernel].symbol = std::move(symbol); }

  bool has(tx::DispatchOp region) const { return index_.contains(region); }
  // The candidates of a region, in order, once plans are known; a call takes the first whose guards hold.
  llvm::ArrayRef<Candidate> candidates(tx::DispatchOp region) const { return candidates_[index_.lookup(region)]; }
  // The kernel that any call may take.
  const Kernel& usual(tx::DispatchOp region) const { return kernels_[candidates(region).back().kernel]; }

 private:
  std::vector<Kernel> kernels_;
  std::vector<std::vector<Candidate>> candidates_;  // by text
  llvm::StringMap<uint32_t> known_;                 // texts, in order
  llvm::DenseMap<mlir::Operation*, uint32_t> index_;
};

// The number of symbols of the function that a region is in.
uint32_t symbol_count(mlir::Operation* op);

}  // namespace heddle::emit
