// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmul and convolution as tiles of the result that a workgroup computes from shared memory: which contractions are possible, and with which tile.
// Read by the contraction strategy only.
#pragma once

#include "compiler/targets/cuda/strategy.h"

namespace heddle::targets::cuda {

// A matmul or a convolution as sums over taps and channels: result[batch or image, row, column]. All element counts.
struct TiledContraction {
  mlir::Operation* root = nullptr;
  mlir::BlockArgument lhs, rhs;
  mlir::Type element;        // of the factors: f32, f16 or bf16
  mlir::Type rhs_element;    // the same, or integers that are converted to it on their way to shared memory
  mlir::BlockArgument zero;  // an f32 per column that is subtracted from such integers; null for nothing
  bool tensor_cores = false;
  bool is_conv = false;
  bool rhs_transposed = false;  // [columns, channels]

  mlir::AffineExpr rows;                          // of one batch or group: images x pixels, or M
  mlir::AffineExpr batches;                       // of a matmul
  int64_t groups = 1, columns = 1, channels = 1;  // columns and channels of one group
  int64_t taps = 1;
  // Where operands lie in their bindings: the first element, and elements from one to the next.
  mlir::AffineExpr lhs_start, rhs_start;
  mlir::AffineExpr lhs_batch, rhs_batch;  // batches of a matmul, groups of a convolution
  int64_t lhs_row = 1, rhs_row = 1;       // rows, or pixels; rows of the depth, or columns if it is transposed
  int64_t lhs_line = 0, lhs_image = 0;    // rows of pixels, images
  // For a convolution:
  int64_t in_height = 1, in_width = 1, height = 1, width = 1, kernel_height = 1, kernel_width = 1;
  int64_t stride_height = 1, stride_width = 1, dilation_height = 1, dilation_width = 1, pad_top = 0, pad_left = 0;
  unsigned spatial = 0;  // dimensions

  bool has_even_pixels = true;  // all pixels are at the same distance
  bool rows_last = false;       // the result is stored with its rows innermost, not its columns

  int64_t element_bytes() const { return element.getIntOrFloatBitWidth() / 8; }
  int64_t rhs_element_bytes() const { return rhs_element.getIntOrFloatBitWidth() / 8; }  // in global memory
  bool converts() const { return rhs_element != element; }
  int64_t depth() const { return taps * channels; }
  // The number of elements that are copied at once: as many as are always in one tap, or in one row, and aligned.
  int64_t lhs_piece() const;
  int64_t rhs_piece() const;
  // Whether rows of the left side are at the same distance.
  bool has_even_rows() const;
  // Whether no tap is in the padding.
  bool is_inside() const;

  // Nothing if the root cannot be tiled.
  static std::optional<TiledContraction> read(mlir::Operation* root, Math math);
};

// How one workgroup of usual_threads works. `slices` groups of its threads each take a part of the depth of every step.
struct Tile {
  int64_t rows, columns;
  int64_t slices;
  int64_t step_bytes;                   // of one row of the left side, one step and one slice
  int64_t thread_rows, thread_columns;  // without tensor cores: results of one thread
  int64_t warp_rows, warp_columns;      // with tensor cores: subgroups along each side, of one slice
  int64_t stages;                       // steps in shared memory at once
  int64_t residents;                    // workgroups that a multiprocessor has registers for
  int64_t cluster = 1;                  // workgroups that share the steps of one tile, and each store a part of it
  double estimate_ns = 0;               // for the whole contraction

  int64_t depth(int64_t element_bytes) const { return slices * step_bytes / element_bytes; }  // of one step, in elements
  // Whether taps and channels are walked as one, which wastes less than steps that end with each tap's channels.
  bool is_flat(const TiledContraction& shape) const;
  int64_t steps(const TiledContraction& shape) const;

  // Rows in shared memory are longer than their contents, so that elements read together are in different banks.
  int64_t lhs_row_bytes() const { return slices * step_bytes + 16; }
  int64_t lhs_bytes() const { return rows * lhs_row_bytes(); }
  int64_t rhs_row_bytes(const TiledContraction& shape) const;
  int64_t rhs_piece(const TiledContraction& shape) const;
  int64_t stage_bytes(const TiledContraction& shape) const;

  // At the end all sums go through shared memory, so that they are stored in whole lines: in bands of a few rows of every subgroup, or of every row
  // of threads.
  int64_t row_groups(const TiledContraction& shape) const { return shape.tensor_cores ? rows / warp_rows / 16 : thread_rows; }
  int64_t group_rows(const TiledContraction& shape) const { return rows / row_groups(shape); }
  int64_t bands(const TiledContraction& shape) const;
  struct Exchange {
    int64_t row_bytes, column_bytes, slice_bytes;  // from one to the next
  };
  Exchange exchange(const TiledContraction& shape, int64_t exchange_rows) const;

  int64_t shared_bytes(const TiledContraction& shape) const;
  std::string name() const;
  // The tile that each workgroup of a cluster could have instead of a part of the depth: together they make this one. Nothing if there is none.
  std::optional<Tile> divided(const TiledContraction& shape, int64_t shared_memory_bytes) const;

  // The tiles that fit into shared memory, the best by estimate first. clusters: whether clusters are allowed.
  static std::vector<Tile> ranked(const TiledContraction& shape, int64_t shared_memory_bytes, bool clusters);
};

}  // namespace heddle::targets::cuda
