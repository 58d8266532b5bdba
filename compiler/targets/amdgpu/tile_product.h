// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sums of products of a tile: by matrix instructions, or by multiply-add. Used by tiled_contraction; independent of where factors come from, and of
// the use of the sums.
#pragma once

#include <memory>

#include "compiler/targets/amdgpu/chip.h"
#include "compiler/targets/amdgpu/local_memory.h"
#include "compiler/targets/amdgpu/tile.h"

namespace heddle::targets::amdgpu {

class TileProduct {
 public:
  virtual ~TileProduct() = default;

  static std::unique_ptr<TileProduct> make(LlvmKernelBuilder& kernel, const LocalMemory& memory, const Contraction& shape, const Tile& tile,
                                           const Chip& chip);
  // Whether the chip has matrix instructions for the contraction's types.
  static bool has_matrices(const Contraction& shape, const Chip& chip);

  using Values = KernelBuilder::Values;
  // Sums of nothing: this thread's, fragment by fragment, those of a row of fragments next to each other.
  virtual Values zeros() const = 0;
  // Adds the products of one step, whose factors are at that address (i32). All threads of the workgroup must take part.
  virtual Values add_products(mlir::Value stage, mlir::ValueRange sums) const = 0;
  // Stores the sums of a band from the start of local memory on, in rows of Tile::exchange_row_bytes.
  void store_band(mlir::ValueRange sums, int64_t band) const;
  // The row of the tile that a row of a band is. i64.
  mlir::Value row_of(mlir::Value row, int64_t band) const;

 protected:
  TileProduct(LlvmKernelBuilder& kernel, const LocalMemory& memory, const Contraction& shape, const Tile& tile)
      : k_(kernel), memory_(memory), shape_(shape), tile_(tile) {}

  // The threads that compute fragments together: how many such groups are below each other, and fragments of one group.
  int64_t groups_down_ = 1, down_ = 1, across_ = 1;
  // Where this thread's group begins. i64.
  mlir::Value group_down_, first_column_;
  // Stores one fragment's sums: `row` (i64) is the fragment's first row in the exchange memory.
  virtual void store_fragment(mlir::Value sums, mlir::Value row, int64_t column_fragment) const = 0;

  mlir::Value exchange_address(mlir::Value row, mlir::Value column) const;

  LlvmKernelBuilder& k_;
  const LocalMemory& memory_;
  const Contraction& shape_;
  const Tile& tile_;
};

}  // namespace heddle::targets::amdgpu
