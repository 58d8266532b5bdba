// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the index space of a result is divided into workgroups, and the loops over one workgroup's part: rows of an inner dimension that is walked in
// vectors. Used by the elemental strategies; independent of what is computed.
#pragma once

#include <functional>

#include "compiler/targets/target.h"
#include "compiler/targets/x86_64/kernel_builder.h"

namespace heddle::targets::x86_64 {

// Elements: parts of a row that is divided are multiples of it, and it is a multiple of every vector and stretch.
inline constexpr int64_t longest_vector_run = 128;

// An index space: outer dimensions, walked one index at a time, and the inner extent.
struct RowSpace {
  llvm::SmallVector<mlir::AffineExpr> outer;
  mlir::AffineExpr inner;

  // The space of these extents with the last `flattened` of them walked as one.
  static RowSpace of(llvm::ArrayRef<mlir::AffineExpr> extents, unsigned flattened);
  mlir::AffineExpr rows() const;
};

// A tiling of a space: blocks of rows, and of parts of a row if rows are long.
struct RowTiling {
  RowSpace space;
  int64_t rows_per_block = 1;
  int64_t inner_per_block = 0;  // 0: rows are not divided
  mlir::AffineExpr workgroups;
  uint64_t cost_ns = 0;

  // About 4 us per workgroup, and at most 128 KiB of f32, at ns_per_element.
  static RowTiling make(RowSpace space, double ns_per_element);
};

// One stretch of a row: `vectors` whole vectors from `inner` on; or, with a mask, one partial vector; or, with lanes 0, one element.
struct Stretch {
  llvm::ArrayRef<mlir::Value> outer;  // index of each outer dimension
  mlir::Value inner;
  int64_t vectors;
  int64_t lanes;
  mlir::Value mask;
};

// Loops over workgroup `block` of the tiling. `vectors` is the most that the body takes at a time; 0: one element.
void row_loops(KernelBuilder& kernel, const RowTiling& tiling, mlir::Value block, int64_t vectors,
               const std::function<void(const Stretch&)>& body);

// The index of every dimension for a row number.
llvm::SmallVector<mlir::Value> row_index(KernelBuilder& kernel, llvm::ArrayRef<mlir::AffineExpr> outer, mlir::Value row);

// The part [from, to) of one row.
void inner_loops(KernelBuilder& kernel, llvm::ArrayRef<mlir::Value> outer, mlir::Value from, mlir::Value to, int64_t vectors,
                 const std::function<void(const Stretch&)>& body);

}  // namespace heddle::targets::x86_64
