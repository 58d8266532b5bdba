// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One side of a tile: its factors are computed from the stage's reads, and copied to local memory one step of the depth at a time. Used by
// tiled_contraction; independent of products.
#pragma once

#include "compiler/targets/amdgpu/local_memory.h"
#include "compiler/targets/amdgpu/tile.h"
#include "compiler/targets/stage_emitter.h"

namespace heddle::targets::amdgpu {

// A factor that a stage computes, or lanes of it, in the type in which it is kept in local memory: rounded, unless it has only been widened before. bf16
// becomes its bits, which all chips can move.
mlir::Value kept_factor(LlvmKernelBuilder& kernel, mlir::Value factor, mlir::Type element);

class TileOperand {
 public:
  // first: the tile's first row, or column, i64. element: the index of the batch element in the dimensions of its walk. shifts: bytes without a sign
  // are stored less 128.
  TileOperand(LlvmKernelBuilder& kernel, const LocalMemory& memory, const Contraction& shape, const Tile& tile, Contraction::Side side,
              mlir::Value first, mlir::ValueRange element, bool shifts);

  // What this thread reads for a step (i64), so that other work can come between this and store().
  struct Loaded {
    struct Piece {
      BodyPlace place;
      mlir::Value counts;  // i1: whether there is such an element; null: yes
      llvm::DenseMap<unsigned, Element> reads;
    };
    llvm::SmallVector<Piece> pieces;
  };
  Loaded load(mlir::Value step) const;
  // Computes the factors, and stores them to the stage at that address (i32).
  void store(const Loaded& loaded, mlir::Value stage) const;

 private:
  mlir::Value factor(const Loaded::Piece& piece) const;

  LlvmKernelBuilder& k_;
  const LocalMemory& memory_;
  const Contraction& shape_;
  const Contraction::Side side_;
  const Tile::Copy copy_;
  const bool shifts_;
  mlir::Value in_depth_;                                  // i64: this thread's first element of a step
  mlir::Value place_;                                     // i32: where it stores that, in a stage
  int64_t apart_;                                         // rows, or columns, from one piece to the next
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> at_;  // of each piece, in the parallel dimensions of the domain
};

}  // namespace heddle::targets::amdgpu
