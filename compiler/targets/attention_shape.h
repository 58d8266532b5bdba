// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A region of two products with rows of scores between them, as strategies for attention see it: which dimensions are queries, keys, columns and the
// batch, and the code of the factors and of the stored results. Knows no target.
#pragma once

#include "compiler/targets/rows.h"

namespace heddle::targets {

struct AttentionShape {
  stage::StagedRegion staged;
  stage::ContractOp first, second;  // scores[.., query, key] and results[.., query, column]; both sum in f32
  RowsKernel rows;                  // the stages between them
  // Dimensions of rows: the one of queries (none if there is only one query); the others are the batch.
  std::optional<unsigned> query;
  llvm::SmallVector<mlir::AffineExpr> batch;  // extents of all dimensions of rows, 1 for the queries
  mlir::AffineExpr queries, keys;             // at least 1
  int64_t depth = 1, columns = 1;             // elements of a query, and of a result
  mlir::Type element;                         // of the operands of both products in the graph; null if they differ
  // f16 or bf16, if the products are of f32, queries, keys and values were cast from it, and results are cast to it; else null.
  mlir::Type cast_from;
  // The dimensions of the two products' domains.
  unsigned first_key = 0;
  std::optional<unsigned> second_column;  // none: there is only one

  // Fails for other regions: with a diagnostic, which begins with `who`, if they have two products.
  static mlir::FailureOr<AttentionShape> read(tx::DispatchOp region, llvm::StringRef who);

  unsigned first_depth() const { return stage_domain(first).getParallelRank(); }
  // Whether the columns of a result are contiguous in memory.
  bool has_neighboring_columns() const;

  // ---- emitting. `element` is the index of a batch element, in the dimensions of rows.
  // The index in the first product's domain for a query, a key and an index of the sum.
  llvm::SmallVector<mlir::Value> first_index(KernelBuilder& k, llvm::ArrayRef<mlir::Value> element, mlir::Value query_index,
                                             mlir::Value key, mlir::Value depth_index) const;
  // The same for the second product, whose sums are over keys; without a key for its results.
  llvm::SmallVector<mlir::Value> second_index(KernelBuilder& k, llvm::ArrayRef<mlir::Value> element, mlir::Value query_index,
                                              mlir::Value column, mlir::Value key) const;
  // Factor 0 or 1 of a product, in f32: lanes along one of the dimensions of its domain, or one element (0).
  static mlir::Value factor(KernelBuilder& k, stage::ContractOp product, unsigned number, const BodyPlace& place);
  // Computes and stores the results of these sums: `lanes` neighboring columns, or one (0).
  void store(KernelBuilder& k, llvm::ArrayRef<mlir::Value> element, mlir::Value query_index, mlir::Value column, mlir::Value sums,
             int64_t lanes, mlir::Value mask) const;

 private:
  static stage::DomainAttr stage_domain(stage::ContractOp product) { return product->getAttrOfType<stage::DomainAttr>("domain"); }
};

}  // namespace heddle::targets
