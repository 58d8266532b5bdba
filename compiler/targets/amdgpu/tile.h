// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a workgroup computes a tile of a contraction's results: sizes, local memory, and which tile suits a contraction. The same for all chips, since
// the grid is. Emits nothing.
#pragma once

#include <string>
#include <vector>

#include "compiler/targets/amdgpu/tile_product.h"
#include "compiler/targets/staged_contraction.h"

namespace heddle::targets::amdgpu {

struct Tile {
  int64_t rows, columns;

  // In each step, a part of the depth is in local memory: so many bytes of each row and of each column, next to each other. They are followed by
  // others, so that neighboring rows begin in different banks.
  static constexpr int64_t step_bytes = 64, row_bytes = step_bytes + 16;

  static int64_t depth(const Contraction& shape) { return step_bytes / shape.element_bytes(); }
  int64_t extent(Contraction::Side side) const { return side == Contraction::lhs ? rows : columns; }
  // Rows, then columns.
  int64_t stage_bytes() const { return (rows + columns) * row_bytes; }

  // Sums go through local memory, so that neighbors are stored together: in bands of some fragments of every wave, in place of the two stages.
  int64_t bands(const Contraction& shape) const;
  int64_t band_rows(const Contraction& shape) const { return rows / bands(shape); }
  int64_t exchange_row_bytes(const Contraction& shape) const { return (columns + 4) * shape.sum_bytes(); }
  ProductShape product(const Contraction& shape) const;
  int64_t shared_bytes(const Contraction& shape) const;

  // How a thread copies its share of one side in each step: pieces of neighbors along the depth; or of neighbors across it, of which it reads some below
  // each other, and stores those along the depth together.
  struct Copy {
    bool is_along_depth = true;
    int64_t deep = 1, across = 1, pieces = 1;
    int64_t lanes() const { return is_along_depth ? deep : across; }
    int64_t reads_of_piece() const { return is_along_depth ? 1 : deep; }
  };
  Copy copy(const Contraction& shape, Contraction::Side side) const;

  mlir::AffineExpr workgroups(const Contraction& shape) const;
  // Clocks for the whole contraction. Not measured: from published rates of arithmetic and memory.
  double estimate(const Contraction& shape) const;
  std::string name() const { return "tile " + std::to_string(rows) + "x" + std::to_string(columns); }

  // The tiles that the contraction may have, the best by estimate first; at least one.
  static std::vector<Tile> ranked(const Contraction& shape);
};

}  // namespace heddle::targets::amdgpu
