// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See tile.h.
#include "compiler/targets/amdgpu/tile.h"

#include <algorithm>
#include <cmath>

#include "compiler/targets/amdgpu/chip.h"

using namespace mlir;

namespace heddle::targets::amdgpu {

namespace {

constexpr Tile tiles[] = {{128, 128}, {128, 64}, {64, 64}, {32, 64}, {16, 128}};

// Of one compute unit, for the estimate: MI210's are in between those of the chips that code is made for.
constexpr double compute_units = 104;
constexpr double small_products = 512, f32_products = 128,
                 plain_products = 64;  // per clock: of at most 16 bits, of f32, without such instructions
constexpr double cache_bytes = 32;     // per clock, from the second-level cache
constexpr double step_clocks = 300, start_clocks = 2000, store_clocks = 0.25;
constexpr double hidden_share = 0.5;  // share of a step's waiting that another workgroup on the same compute unit makes up for

// That a thread has in flight; more of them would leave too few registers.
constexpr int64_t most_reads = 8;

// A symbol is usually the size of a batch.
constexpr int64_t usual_symbol = 16;

double value_of(AffineExpr expression) {
  SmallVector<AffineExpr> symbols(64, getAffineConstantExpr(usual_symbol, expression.getContext()));
  return static_cast<double>(tx::static_extent(expression.replaceSymbols(symbols)).value_or(1));
}

}  // namespace

int64_t Tile::bands(const Contraction& shape) const {
  const int64_t groups = rows / fragment / waves_down(rows);
  int64_t count = 1;
  while (count < groups && (groups % count != 0 || rows / count * exchange_row_bytes(shape) > 2 * stage_bytes())) ++count;
  return count;
}

ProductShape Tile::product(const Contraction& shape) const {
  return {.element = shape.element,
          .sum = shape.sum,
          .lhs_unsigned = shape.is_unsigned[Contraction::lhs],
          .rhs_unsigned = shape.is_unsigned[Contraction::rhs],
          .rows = rows,
          .columns = columns,
          .step_bytes = step_bytes,
          .lhs_bytes = row_bytes,
          .rhs_bytes = row_bytes,
          .exchange_bytes = exchange_row_bytes(shape),
          .bands = bands(shape)};
}

int64_t Tile::shared_bytes(const Contraction& shape) const {
  return std::max(2 * stage_bytes(), band_rows(shape) * exchange_row_bytes(shape));
}

Tile::Copy Tile::copy(const Contraction& shape, Contraction::Side side) const {
  const int64_t own = extent(side) * depth(shape) / tile_threads, most = std::min(own, tile_access_bytes / shape.element_bytes());
  Copy result;
  result.deep = shape.neighbors(side, shape.depth, most);
  if (const int64_t along = shape.neighbors(side, shape.outer(side), most); along > result.deep) {
    result.is_along_depth = false;
    result.across = along;
    result.deep = std::min(own / along, most);
    // So that it stores at least a word at a time.
    constexpr int64_t word_bytes = 4;
    while (result.deep < result.across && result.deep * shape.element_bytes() < word_bytes) {
      result.across /= 2;
      result.deep *= 2;
    }
  }
  result.pieces = own / (result.deep * result.across);
  return result;
}

AffineExpr Tile::workgroups(const Contraction& shape) const {
  MLIRContext* context = shape.context();
  return shape.rows.count(context).ceilDiv(rows) * shape.columns.count(context).ceilDiv(columns) * shape.batch.count(context);
}

double Tile::estimate(const Contraction& shape) const {
  const double area = static_cast<double>(rows * columns), sides = static_cast<double>(rows + columns);
  const double steps = std::ceil(value_of(shape.depth.count(shape.context())) / static_cast<double>(depth(shape)));
  const double rate = shape.element_bytes() <= 2 ? small_products : shape.element.isF32() ? f32_products : plain_products;
  const double products = area * static_cast<double>(depth(shape)) / rate;
  const double step = std::max(products, sides * static_cast<double>(step_bytes) / cache_bytes);
  const double count = value_of(workgroups(shape)), rounds = std::max(1.0, std::ceil(count / compute_units));
  const double waiting = step_clocks * (rounds > 1 ? hidden_share : 1);
  return rounds * (start_clocks + area * store_clocks + steps * (step + waiting));
}

std::vector<Tile> Tile::ranked(const Contraction& shape) {
  std::vector<Tile> all;
  for (const Tile& tile : tiles) {
    // Each thread copies at least one element of each side in a step.
    if (std::min(tile.rows, tile.columns) * depth(shape) < tile_threads) continue;
    const Copy left = tile.copy(shape, Contraction::lhs), right = tile.copy(shape, Contraction::rhs);
    const bool is_small = tile.rows * tile.columns <= 64 * 64;
    if (!is_small && shape.sum_bytes() > 4) continue;  // each sum takes two registers
    if (!is_small && left.pieces * left.reads_of_piece() + right.pieces * right.reads_of_piece() > most_reads) continue;
    if (tile.shared_bytes(shape) <= static_cast<int64_t>(most_shared_bytes)) all.push_back(tile);
  }
  llvm::stable_sort(all, [&](const Tile& a, const Tile& b) { return a.estimate(shape) < b.estimate(shape); });
  return all;
}

}  // namespace heddle::targets::amdgpu
