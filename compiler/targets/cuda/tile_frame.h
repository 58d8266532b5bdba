// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The position of a workgroup and its threads in a tiled contraction. Used by tile_copy, tile_product and tiled_contraction.
#pragma once

#include "compiler/targets/cuda/instructions.h"
#include "compiler/targets/cuda/tile.h"

namespace heddle::targets::cuda {

class TileFrame : public Instructions {
 public:
  TileFrame(KernelBuilder& kernel, const TiledContraction& contraction, const Tile& chosen, mlir::Value block);

  const TiledContraction& shape;
  const Tile& tile;

  mlir::Value rows, first_row, first_column;  // i64
  mlir::Value batch;                          // i64; for a convolution: the group
  mlir::Value slice, in_slice;                // i64: the slice of this thread's sums, and the thread within it
  mlir::Value rank;                           // i64: this workgroup's rank in its cluster; null without a cluster
  mlir::Value first_step, end_step;           // i64: the steps of this workgroup
};

}  // namespace heddle::targets::cuda
