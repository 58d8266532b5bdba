// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies of a tiled contraction's operands to shared memory, one step of the depth at a time. Used by tiled_contraction; independent of products.
// Pieces of 16, 8 or 4 bytes are copied asynchronously (PTX ISA, cp.async), smaller ones through registers.
#pragma once

#include <functional>
#include <vector>

#include "compiler/targets/cuda/tile_frame.h"

namespace heddle::targets::cuda {

class TileCopy {
 public:
  explicit TileCopy(const TileFrame& frame);

  // The copies of a step (i32) into the stage at that address (i32), to be emitted in this order; a step after the last one copies nothing. `finish`
  // completes pieces that go through registers.
  struct Copies {
    std::vector<std::function<void()>> start, finish;
  };
  Copies step(mlir::Value step, mlir::Value stage);

 private:
  // One of the pieces that this thread copies each step.
  struct Piece {
    mlir::Value base;       // of the operand
    mlir::Value source;     // of the first step; may be outside of the operand if the piece is not copied
    int64_t source_offset;  // bytes after it
    int64_t shared_offset;  // bytes after this thread's place for the operand in a stage
    mlir::Value is_there;   // null: always
    mlir::Value y, x;       // i32, of the first tap
    int64_t depth;          // of the right side: elements after this thread's first one
    mlir::Value zero;       // of the right side's columns, as many as the piece has; null for none
  };
  // Where one step is. i32, except for the offsets, which are i64 elements.
  struct Position {
    mlir::Value in_range, channel, lhs_offset, rhs_first, tap_y, tap_x, lhs_is_there;
  };

  void prepare_lhs();
  void prepare_rhs();
  Position position(mlir::Value step);
  void add(Copies& copies, const Piece& piece, mlir::Value source, mlir::Value is_there, const Position& at, mlir::Value shared,
           int64_t bytes, bool near);
  // A piece of the right side whose elements change their type on the way.
  void add_converted(Copies& copies, const Piece& piece, mlir::Value source, mlir::Value is_there, mlir::Value shared);
  mlir::Value pointer(mlir::Value base, mlir::Value elements) const;
  mlir::Value rhs_pointer(mlir::Value base, mlir::Value elements) const;
  mlir::Value behind(mlir::Value source, int64_t bytes) const;

  const TileFrame& f_;
  KernelBuilder& k_;
  const TiledContraction& shape_;
  const Tile& tile_;
  const int64_t size_;
  mlir::Value lhs_depth_, rhs_depth_;    // i32: this thread's first element along a step
  mlir::Value lhs_shared_, rhs_shared_;  // i32: bytes in a stage
  std::vector<Piece> lhs_, rhs_;
};

}  // namespace heddle::targets::cuda
