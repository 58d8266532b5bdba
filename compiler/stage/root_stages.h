// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes the stages of ops that are more than a place or a body: reductions, windows, sums along an axis, contractions, scatters and sorts. Each
// stage includes the ops on its results. Called where regions become stages; each family of ops has a file.
#pragma once

#include "compiler/ir/suppress.h"
#include "compiler/stage/stage_body.h"

namespace heddle::tx {
class NgramsOp;
class TreesOp;
}  // namespace heddle::tx

namespace heddle::stage {

// Whether the op's results are accumulated by a stage, which also computes the ops on them.
bool is_root(mlir::Operation* op);

// An index over a root's own dimensions, then the reduced ones, and its bound: elements for which the index is below 0 or not below the bound are
// skipped.
using Bounded = std::pair<mlir::AffineExpr, mlir::AffineExpr>;

// Appends stages with `builder`. Each method returns null if there is no such stage; `reason` then says why.
class RootStages {
 public:
  RootStages(mlir::OpBuilder& builder, const mlir::IRMapping& operands, unsigned symbols, std::string& reason)
      : builder_(builder), operands_(operands), symbols_(symbols), reason_(reason), context_(builder.getContext()) {}

  // A stage of the root that computes these values, all over one domain, and stores them with the given types.
  mlir::Operation* rooted(mlir::Operation* root, llvm::ArrayRef<mlir::Value> outputs, llvm::ArrayRef<mlir::AffineExpr> extents,
                          mlir::TypeRange types);
  // A stage without a root: each element is computed from the elements that it depends on.
  mlir::Operation* map(llvm::ArrayRef<mlir::Value> outputs, llvm::ArrayRef<mlir::AffineExpr> extents, mlir::TypeRange types);
  // For these, nothing else is computed from their results in the same stage.
  mlir::Operation* scatter(tx::ScatterOp scatter, mlir::TypeRange types);
  mlir::Operation* sort(tx::SortOp sort, mlir::TypeRange types);
  mlir::Operation* suppress(tx::SuppressOp suppress, mlir::TypeRange types);
  mlir::Operation* walk(tx::TreesOp trees, mlir::TypeRange types);
  mlir::Operation* ngrams(tx::NgramsOp ngrams, mlir::TypeRange types);

 private:
  StageBody body(unsigned rank) const { return StageBody(context_, rank, symbols_, operands_, reason_); }
  bool finish(StageBody& body, llvm::ArrayRef<mlir::Value> outputs, unsigned rank, mlir::TypeRange types);

  // Adds the arguments for the accumulators, and the computation of the root's results from them.
  static void add_results(mlir::Operation* root, StageBody& last);
  mlir::Operation* fold(mlir::Operation* root, StageBody& last, llvm::ArrayRef<mlir::AffineExpr> extents, mlir::TypeRange types);
  mlir::Operation* scan(tx::CumsumOp cumsum, StageBody& last, llvm::ArrayRef<mlir::AffineExpr> extents, mlir::TypeRange types);
  mlir::Operation* contract(mlir::Operation* root, StageBody& last, llvm::ArrayRef<mlir::AffineExpr> extents, mlir::TypeRange types,
                            mlir::Type accumulator);

  Exprs dims(unsigned first, unsigned count) const;
  // A domain of these extents, for a root that is read at `root_at`.
  DomainAttr domain(llvm::ArrayRef<mlir::AffineExpr> parallel, llvm::ArrayRef<mlir::AffineExpr> folded,
                    llvm::ArrayRef<mlir::AffineExpr> root_at = {}, llvm::ArrayRef<Bounded> within = {}) const;
  // The place of an operand of the root, over its own parallel and reduced dimensions, as a place over the domain.
  static Exprs over_domain(llvm::ArrayRef<mlir::AffineExpr> place, llvm::ArrayRef<mlir::AffineExpr> root_at,
                           llvm::ArrayRef<mlir::AffineExpr> reduced);

  mlir::OpBuilder& builder_;
  const mlir::IRMapping& operands_;
  const unsigned symbols_;
  std::string& reason_;
  mlir::MLIRContext* context_;
};

// x and y combined, in compute types.
mlir::Value emit_combined(mlir::OpBuilder& builder, tx::ReduceKind kind, mlir::Value x, mlir::Value y, bool no_sign);

// Whether windows along a dimension, the first of which begins at -pad, may reach beyond the input.
bool reaches_out(mlir::AffineExpr input, mlir::AffineExpr result, mlir::AffineExpr taps, int64_t stride, int64_t dilation, int64_t pad);

}  // namespace heddle::stage
