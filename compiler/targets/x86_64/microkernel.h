// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inner kernel of every contraction: a tile of C as a batch of A blocks times B panels, accumulated in registers, followed by the element-wise
// epilogue. One private function per form, shared by all kernels of an image; knows no op and no tiling.
//
//   C[rows x columns] (+)= sum over r < batches: A[offsets[r] + i * lda + k] * B[(r * depth + k) * ldb + j],  k < depth
//
// The sum begins at zero and is added to C when it is complete. With `parts`, it is itself a sum of parts, each of which begins at zero: a long chain of
// additions would round more.
#pragma once

#include "compiler/targets/x86_64/contraction_epilogue.h"

namespace heddle::targets::x86_64 {

struct MicrokernelForm {
  int64_t rows;            // of the tile
  int64_t vectors;         // registers across the tile
  int64_t columns;         // of the tile that exist; at most vectors * lanes, the last vector's others are masked
  bool packed;             // B is a panel with rows of `panel` columns; else rows of ldb, and columns that do not exist are not read
  bool gathered;           // rows of A have offsets of their own instead of being lda apart
  bool scattered = false;  // rows of C, and of what the epilogue reads there, have offsets of their own
  const Epilogue* epilogue = nullptr;  // null: C is the plain sum
  mlir::Type integers = {};            // of B, or floats of 16 bits, converted when read; null: B is f32
  bool has_zero = false;               // the zero of its column is subtracted from each integer
  int64_t lanes = 0;                   // of a vector; 0: all of a register
  int64_t panel = 0;                   // 0: vectors * lanes
  bool parts = false;                  // of part_batches batches and part_depth elements of each
};

struct MicrokernelArguments {
  mlir::Value a;        // f32 pointers to the first element of the tile
  mlir::Value offsets;  // pointer to i64 element offsets, one per batch; null for a single batch at 0
  mlir::Value lda;      // i64, or with `gathered` a pointer to i64 offsets of the rows
  mlir::Value batches;
  mlir::Value depth;
  mlir::Value b;
  mlir::Value ldb;   // unused when packed
  mlir::Value zero;  // f32 pointer at the tile's first column; null without zeros
  mlir::Value c;
  mlir::Value ldc;                                 // i64, or with `scattered` a pointer to i64 offsets of the rows
  mlir::Value accumulate;                          // i1: add the values in C
  mlir::Value part_batches = {}, part_depth = {};  // with `parts`; at least 1
  mlir::Value ahead;  // elements from the tile in C, and in full operands of the epilogue, to where they are prefetched
  mlir::Value next;   // a buffer used soon: element r * next_batch + k * next_step of it is prefetched
  mlir::Value next_step;
  mlir::Value next_batch = {};              // null: depth * next_step
  llvm::SmallVector<mlir::Value> epilogue;  // one pointer per operand: at the tile's first element (full), at its column, or at the element
};

// The most rows of a tile with this many vectors that stay in registers.
int64_t tile_rows(const Level& level, int64_t vectors);

// How the columns of a panel of `width` columns are divided into vectors. Few columns have vectors of 8 lanes, of which none is masked where there are
// 8: a store with a mask is slow to read again.
struct PanelVectors {
  int64_t vectors, lanes, rows;  // rows: the most of a tile
  static PanelVectors of(const Level& level, int64_t width, int64_t columns);
};

// Pointer to these i64 values as a constant of the image.
mlir::Value constant_offsets(KernelBuilder& kernel, llvm::ArrayRef<int64_t> offsets);

// Calls the microkernel of this form, adding it to the kernels if it does not exist yet.
void call_microkernel(KernelBuilder& kernel, const MicrokernelForm& form, const MicrokernelArguments& arguments);

}  // namespace heddle::targets::x86_64
