// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sums of a tiled contraction: fused multiply-add, or mma.sync on tensor cores. Used by tiled_contraction; independent of the use of the sums.
#pragma once

#include <memory>

#include "compiler/targets/cuda/tile_copy.h"

namespace heddle::targets::cuda {

class TileProduct {
 public:
  virtual ~TileProduct() = default;

  // Runs all steps. Returns the sums of this thread, in vectors of four, with those of a row group together.
  virtual llvm::SmallVector<mlir::Value> sum(TileCopy& copy) = 0;

  // Stores a row group's sums from an address (i32) on.
  virtual void store(llvm::ArrayRef<mlir::Value> sums, mlir::Value address, const Tile::Exchange& exchange) const = 0;
  // The row of the tile that a group's row is. i64.
  virtual mlir::Value row_of(mlir::Value group, mlir::Value row) const = 0;

  static std::unique_ptr<TileProduct> make(const TileFrame& frame);
};

}  // namespace heddle::targets::cuda
