// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sums of products of a tile: by matrix instructions, or by multiply-add. Used by tiled_contraction; independent of where factors come from, and of
// the use of the sums.
#pragma once

#include <memory>

#include "compiler/targets/amdgpu/chip.h"
#include "compiler/targets/amdgpu/local_memory.h"

namespace heddle::targets::amdgpu {

inline constexpr int64_t tile_threads = 256;      // of a workgroup
inline constexpr int64_t tile_access_bytes = 16;  // of a thread, at most

// Fragments of 16 rows and 16 columns are what one matrix instruction computes, and what 256 threads compute one result each of.
inline constexpr int64_t fragment = 16;

// Waves below each other, each with the rows of some fragments; the other waves are next to them.
constexpr int64_t waves_down(int64_t rows) {
  return rows >= 2 * fragment ? 2 : 1;
}

// A product of two matrices in local memory, by the threads of a workgroup of tile_threads.
struct ProductShape {
  mlir::Type element, sum;                          // of the factors, and of the sums
  bool lhs_unsigned = false, rhs_unsigned = false;  // bytes of that side are numbers from 0 to 255
  int64_t rows, columns;                            // multiples of 16 x waves below and next to each other
  int64_t step_bytes;                               // of the depth, of each row and column: a multiple of 64
  // From one row of the left side, or one column of the right side, to the next.
  int64_t lhs_bytes, rhs_bytes;
  // The exchange memory for sums: from one of its rows to the next, and the number of bands that the rows are divided into.
  int64_t exchange_bytes, bands = 1;

  int64_t element_bytes() const { return element.getIntOrFloatBitWidth() / 8; }
  int64_t sum_bytes() const { return sum.getIntOrFloatBitWidth() / 8; }
};

class TileProduct {
 public:
  virtual ~TileProduct() = default;

  static std::unique_ptr<TileProduct> make(LlvmKernelBuilder& kernel, const LocalMemory& memory, const ProductShape& shape,
                                           const Chip& chip);
  // Whether the chip has matrix instructions for these types.
  static bool has_matrices(mlir::Type element, mlir::Type sum, const Chip& chip);
  // Whether bytes without a sign lie in local memory less 128, since the chip multiplies only bytes with a sign.
  static bool shifts_unsigned(const Chip& chip) { return is_mfma(chip.matrix_unit); }

  using Values = KernelBuilder::Values;
  // Sums of nothing: this thread's, fragment by fragment, those of a row of fragments next to each other; and what finished() needs besides.
  virtual Values zeros() const = 0;
  // Adds the products of one step, whose factors are at these addresses (i32). All threads of the workgroup must take part.
  virtual Values add_products(mlir::Value lhs, mlir::Value rhs, mlir::ValueRange sums) const = 0;
  // The sums of the products alone, after the last step. depth: of all steps together (i64), with what was stored in place of missing factors.
  virtual Values finished(mlir::ValueRange sums, mlir::Value /*depth*/) const { return Values(sums.begin(), sums.end()); }
  // Multiplies the sums of each row by its f32 in local memory, from that address (i32) on.
  virtual Values scaled_rows(mlir::ValueRange sums, mlir::Value factors) const = 0;
  // Stores the sums of a band to the exchange memory at that address (i32).
  void store_band(mlir::ValueRange sums, int64_t band, mlir::Value address) const;
  // The row of the product that a row of a band is. i64.
  mlir::Value row_of(mlir::Value row, int64_t band) const;

 protected:
  TileProduct(LlvmKernelBuilder& kernel, const LocalMemory& memory, const ProductShape& shape)
      : k_(kernel), memory_(memory), shape_(shape) {}

  // The threads that compute fragments together: how many such groups are below each other, and fragments of one group.
  int64_t groups_down_ = 1, down_ = 1, across_ = 1;
  // Where this thread's group is. i64.
  mlir::Value group_down_, first_column_;
  // Stores one fragment's sums: `row` (i64) is the fragment's first row in the exchange memory.
  virtual void store_fragment(mlir::Value sums, mlir::Value row, int64_t column_fragment, mlir::Value address) const = 0;

  mlir::Value exchange_address(mlir::Value address, mlir::Value row, mlir::Value column) const;

  LlvmKernelBuilder& k_;
  const LocalMemory& memory_;
  const ProductShape shape_;
};

}  // namespace heddle::targets::amdgpu
