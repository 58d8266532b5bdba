// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A transposed matrix, [columns, K], into a panel. Used by pack and contraction; knows no op.
#pragma once

#include "compiler/targets/x86_64/kernel_builder.h"

namespace heddle::targets::x86_64 {

// A unit of columns (Panels::unit), each of which is contiguous along K in the source.
struct PanelColumns {
  mlir::Value source;   // the first element of the first column
  int64_t source_step;  // elements from one column to the next
  mlir::Value target;   // the first element of the panel's first row
  mlir::Value target_step;
  int64_t depth;                                        // elements of each column
  mlir::Value existing = {};                            // columns that exist, at least 1; others become zeros. Null: all do
  std::function<mlir::Value(mlir::Value)> row_of = {};  // the panel's row of an element of a column; null: they have the same order
};

// Squares of a vector's width are transposed in registers.
void write_columns(KernelBuilder& kernel, mlir::Type element, const PanelColumns& columns);

}  // namespace heddle::targets::x86_64
