// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where a workgroup and its threads are in a tiled contraction, and the instructions that its copies and its products are written with.
// Used by tile_copy, tile_product and tiled_contraction. Addresses of shared memory are i32, as those instructions take them.
#pragma once

#include "compiler/targets/cuda/tile.h"

namespace heddle::targets::cuda {

class TileFrame {
 public:
  TileFrame(KernelBuilder& kernel, const TiledContraction& contraction, const Tile& chosen, mlir::Value block);

  KernelBuilder& k;
  const TiledContraction& shape;
  const Tile& tile;

  mlir::Value rows, first_row, first_column;  // i64
  mlir::Value batch;                          // i64; of a convolution: the group
  mlir::Value slice, in_slice;                // i64: of this thread's sums, and the thread within it

  // ---- arithmetic on i32
  mlir::Type i32() const { return k.builder.getI32Type(); }
  mlir::Value word(int64_t value) const {
    return k.make<mlir::arith::ConstantOp>(k.builder.getI32IntegerAttr(static_cast<int32_t>(value)));
  }
  mlir::Value narrow(mlir::Value value) const { return k.make<mlir::arith::TruncIOp>(i32(), value); }
  mlir::Value widen(mlir::Value value) const { return k.make<mlir::arith::ExtSIOp>(k.builder.getI64Type(), value); }
  mlir::Value both(mlir::Value a, mlir::Value b) const { return !a ? b : !b ? a : k.make<mlir::arith::AndIOp>(a, b); }
  mlir::Value choose(mlir::Value condition, mlir::Value a, mlir::Value b) const { return k.make<mlir::arith::SelectOp>(condition, a, b); }
  // 0 <= value < extent
  mlir::Value inside(mlir::Value value, mlir::Value extent) const {
    return k.make<mlir::arith::CmpIOp>(mlir::arith::CmpIPredicate::ult, value, extent);
  }

  // ---- shared memory
  mlir::Value shared() const { return shared_; }  // address of its first byte
  mlir::Value load_shared(mlir::Value address, int64_t offset, mlir::Type type, unsigned alignment) const;
  void store_shared(mlir::Value value, mlir::Value address, int64_t offset, unsigned alignment) const;

  // One instruction of PTX; a pure one neither touches memory nor depends on it. No result type: none.
  mlir::Value assembly(const std::string& text, const std::string& constraints, mlir::ValueRange operands, mlir::Type result = {},
                       bool pure = false) const;

 private:
  mlir::Value shared_pointer(mlir::Value address, int64_t offset) const;

  mlir::Value shared_;
};

}  // namespace heddle::targets::cuda
