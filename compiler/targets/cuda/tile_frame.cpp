// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See tile_frame.h.
#include "compiler/targets/cuda/tile_frame.h"

using namespace mlir;

namespace heddle::targets::cuda {

TileFrame::TileFrame(KernelBuilder& kernel, const TiledContraction& contraction, const Tile& chosen, Value block)
    : Instructions(kernel), shape(contraction), tile(chosen) {
  first_step = k.index(0);
  end_step = k.index(tile.steps(shape));
  if (tile.cluster > 1) {
    rank = k.rem(block, k.index(tile.cluster));
    block = k.div(block, k.index(tile.cluster));
    int64_t each = (tile.steps(shape) + tile.cluster - 1) / tile.cluster;
    first_step = k.mul(rank, each);
    end_step = k.min(k.add(first_step, each), end_step);
  }
  Value column_tiles = k.index((shape.columns + tile.columns - 1) / tile.columns), row_tiles = k.extent(shape.rows.ceilDiv(tile.rows));
  rows = k.extent(shape.rows);
  first_column = k.mul(k.rem(block, column_tiles), tile.columns);
  Value rest = k.div(block, column_tiles);
  first_row = k.mul(k.rem(rest, row_tiles), tile.rows);
  batch = k.div(rest, row_tiles);
  Value slice_threads = k.index(k.threads() / tile.slices);
  slice = k.div(k.thread(), slice_threads);
  in_slice = k.rem(k.thread(), slice_threads);
}

}  // namespace heddle::targets::cuda
