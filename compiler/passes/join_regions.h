// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions with several results, for heddle-form-dispatches: element-wise regions of the same elements, regions that go through the same rows, and
// small element-wise ones that do not depend on each other.
#pragma once

#include <memory>

#include "compiler/ir/tx.h"
#include "compiler/passes/passes.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle::passes {

class RegionJoiner {
 public:
  // regions: those of the function that may be joined. most_bindings: limit per region.
  RegionJoiner(mlir::func::FuncOp function, llvm::ArrayRef<tx::DispatchOp> regions, unsigned most_bindings, const Devices& devices);

  void run();
  // The region that this one, which the constructor was given, became part of, or itself.
  mlir::Operation* now(mlir::Operation* region) const;
  // All regions, including those that became part of none, in no order.
  const llvm::SetVector<mlir::Operation*>& regions() const { return regions_; }

 private:
  using Path = llvm::SetVector<mlir::Operation*>;

  // Whether all ops of the region compute elements of its results' extents, each from elements at the same place, or from broadcasts.
  bool is_pointwise(tx::DispatchOp region) const;
  // The rows that a region of reductions goes through, each one contiguous in memory.
  struct Rows {
    llvm::SmallVector<mlir::AffineExpr> whole, reduced;  // the extents, and those without the dimensions of a row and without ones
    unsigned folds = 0;
  };
  // Nothing if it has no reductions, or ops that are not of their rows.
  std::optional<Rows> rows_of(tx::DispatchOp region) const;
  // Whether one kernel is likely to compute both as fast: the second one may read the first one's results.
  bool are_alike(tx::DispatchOp first, tx::DispatchOp second) const;
  llvm::StringRef family_of(tx::DispatchOp region) const;
  // Joins the region with a producer of its operands, or with an earlier reader of its operands. Returns the region that it became, or null.
  tx::DispatchOp join_with_earlier(tx::DispatchOp region);
  // Ops from `first` on that wait for it and come before `last`; nothing if they are too far apart, or if `last` waits for another one of them.
  std::optional<Path> waiting_between(tx::DispatchOp first, tx::DispatchOp last) const;
  // Regions that only move elements, or compute them while they do.
  bool is_movement(tx::DispatchOp region) const;
  void join_unrelated_ones();
  // Takes from these regions as many as fit into one, and joins them. Returns whether there were several.
  bool join_first(llvm::SmallVector<tx::DispatchOp>& regions);

  // The regions, in program order, as one in the place of the last; null, and nothing is changed, if that is not possible.
  tx::DispatchOp join(llvm::ArrayRef<tx::DispatchOp> parts);
  // Whether every result that takes the memory of an argument can still be computed in its place.
  bool keeps_places(tx::DispatchOp region) const;
  // The argument whose memory the result takes, if any.
  mlir::Value place_of(mlir::Value result) const;
  // Ops that have to come before the op, because they read an argument whose memory it overwrites.
  llvm::SmallVector<mlir::Operation*> readers_of_places(mlir::Operation* op) const;
  bool waits_for(mlir::Operation* op, const Path& others) const;
  // Puts ops of the function behind all that they wait for, in the order that they have as far as possible.
  void sort();

  mlir::func::FuncOp function_;
  const unsigned most_bindings_;
  const Devices& devices_;
  llvm::SetVector<mlir::Operation*> regions_;
  llvm::DenseMap<unsigned, mlir::Value> place_of_result_;  // of the function
  llvm::DenseMap<mlir::Operation*, mlir::Operation*> became_;
  struct Erase {
    void operator()(mlir::Operation* op) const { op->destroy(); }
  };
  llvm::SmallVector<std::unique_ptr<mlir::Operation, Erase>>
      gone_;  // kept, so that no other op gets its address: regions, and views of results
};

}  // namespace heddle::passes
