// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Indices of several dimensions of a tensor, as index and index_put have them.
#pragma once

#include "compiler/import/aten_program.h"

namespace heddle::import::aten {

struct Indexing {
  llvm::SmallVector<int64_t> axes;   // that are indexed, rising
  llvm::SmallVector<int64_t> order;  // these, then the others
  Extents shape;                     // of the places
  Extents rest;                      // the extents of the other dimensions
  AffineExpr rows;                   // the product of the indexed extents
  Value places;                      // i64, not negative: rows of the tensor as [rows, rest...]
  int64_t first = 0;                 // where the dimensions of the places are in the result
};

// The argument `indices` of an operator, for that tensor.
Indexing read_indexing(Op& op, Value x);

}  // namespace heddle::import::aten
