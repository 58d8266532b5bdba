// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmul and convolution as tiles of the result that a workgroup computes from shared memory: what may be done so, and which tile.
// Read by the contraction strategy only.
#pragma once

#include "compiler/targets/cuda/strategy.h"

namespace heddle::targets::cuda {

// A matmul or a convolution as sums over taps and channels: result[batch or image, row, column]. All element counts.
struct TiledContraction {
  mlir::Operation* root = nullptr;
  mlir::Value lhs, rhs;  // region operands
  mlir::Type element;    // of both: f32, f16 or bf16
  bool is_conv = false;
  bool rhs_transposed = false;  // [columns, channels]
  bool rhs_batched = false;

  mlir::AffineExpr rows;                          // of one batch or group: images x pixels, or M
  mlir::AffineExpr batches;                       // of a matmul
  int64_t groups = 1, columns = 1, channels = 1;  // columns and channels of one group
  int64_t taps = 1;
  // Of a convolution:
  int64_t in_height = 1, in_width = 1, height = 1, width = 1, kernel_width = 1;
  int64_t stride_height = 1, stride_width = 1, dilation_height = 1, dilation_width = 1, pad_top = 0, pad_left = 0;
  unsigned spatial = 0;  // dimensions

  int64_t element_bytes() const { return element.getIntOrFloatBitWidth() / 8; }
  int64_t chunk() const { return 16 / element_bytes(); }  // elements of one access
  // Chunks of the left side never cross a tap; else its elements are fetched one by one.
  bool lhs_in_chunks() const { return channels % chunk() == 0; }
  int64_t depth() const { return taps * channels; }

  // Nothing if the root cannot be tiled.
  static std::optional<TiledContraction> read(mlir::Operation* root);
};

// How one workgroup of usual_threads works. `slices` groups of its threads each take a part of the depth of every step.
struct Tile {
  int64_t rows, columns;
  int64_t slices;
  int64_t step_bytes;                   // of one row of the left side, one step and one slice
  int64_t thread_rows, thread_columns;  // without tensor cores: results of one thread
  int64_t warp_rows, warp_columns;      // with tensor cores: subgroups along each side, of one slice
  int64_t stages;                       // steps in shared memory at once

  int64_t lhs_chunks() const { return slices * step_bytes / 16; }                             // of one row and step
  int64_t depth(int64_t element_bytes) const { return slices * step_bytes / element_bytes; }  // of one step, in elements
  int64_t lhs_row_bytes() const { return slices * step_bytes + 16; }  // 16 more, so that eight rows lie in different banks
  int64_t rhs_row_bytes(int64_t element_bytes) const { return columns * element_bytes + 16; }
  int64_t stage_bytes(int64_t element_bytes) const { return rows * lhs_row_bytes() + depth(element_bytes) * rhs_row_bytes(element_bytes); }
  int64_t shared_bytes(int64_t element_bytes) const;
  std::string name() const;

  // The first of the ladder that fits into shared memory and gives the device enough to do.
  static std::optional<Tile> choose(const TiledContraction& shape, int64_t shared_memory_bytes);
};

}  // namespace heddle::targets::cuda
