// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See own_kernels.h. Panels of both factors are packed, tile by tile, and multiplied in registers. A convolution is a product, too: the offset of an
// element is the sum of one of its row and one of its depth, and elements outside of the image are packed as 0.
#include "own_kernels.h"

#include <algorithm>
#include <cstring>

#include "heddle/sdk/portable/product_places.h"

namespace sample {
namespace {

using Bounds = portable::FactorBounds;
using Indices = portable::ProductGroup;
using Offsets = portable::ProductPlaces;
using portable::ProductDim;
using portable::ProductForm;

constexpr int64_t kMostRows = 384, kBlockColumns = 256, kBlockDepth = 256;  // of panels: 384 KiB and 256 KiB
constexpr int64_t kMostSums = 128 << 10;  // of a block of rows and all columns, if that is at least one tile
constexpr int64_t kFewest = 4;            // with fewer rows and columns, the interpreter is as fast

template <typename Number>
Number rounded(Number count, Number to) {
  return (count + to - 1) / to * to;
}

// Whether `count` numbers from `first` on follow each other.
bool is_dense(const std::vector<int64_t>& offsets, size_t first, size_t count) {
  for (size_t i = 1; i < count; ++i) {
    if (offsets[first + i] - offsets[first] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

// Packs `count` neighbors of each depth, in tiles of kWidth. The lines are read from one end to the other, as memory is fastest.
template <size_t kWidth>
void pack_lines(const float* from, const std::vector<int64_t>& depth_offsets, size_t count, float* to) {
  const size_t deep = depth_offsets.size(), whole = count / kWidth * kWidth;
  for (size_t k = 0; k < deep; ++k) {
    const float* line = from + depth_offsets[k];
    float* at = to + k * kWidth;
    for (size_t i = 0; i < whole; i += kWidth, at += deep * kWidth) std::memcpy(at, line + i, kWidth * sizeof(float));
    for (size_t i = whole; i < rounded(count, kWidth); ++i) at[i - whole] = i < count ? line[i] : 0;
  }
}

// Packs `tile` rows or columns beside each other, from number `start` on, for each depth; those beyond the end are 0.
void pack(const float* from, const std::vector<int64_t>& outer_offsets, const std::vector<int64_t>& depth_offsets, const Offsets& outer,
          const Offsets& depth, const Bounds& bounds, size_t start, size_t end, int64_t tile, float* to) {
  const size_t deep = depth_offsets.size(), width = static_cast<size_t>(tile);
  const auto copy = width == 32 ? pack_lines<32> : width == 16 ? pack_lines<16> : width == 12 ? pack_lines<12> : pack_lines<6>;
  if (bounds.which.empty() && is_dense(outer_offsets, start, end - start))
    return copy(from + outer_offsets[start], depth_offsets, end - start, to);
  // Runs of the depth that have the same bounds, such as the channels of a place in the window.
  std::vector<size_t> ends;
  for (size_t k = 0; k < deep && !bounds.which.empty(); ++k) {
    const bool is_same = k > 0 && std::all_of(bounds.which.begin(), bounds.which.end(),
                                              [&](size_t b) { return depth.bounds[b][k] == depth.bounds[b][k - 1]; });
    if (is_same) {
      ends.back() = k + 1;
    } else {
      ends.push_back(k + 1);
    }
  }
  for (size_t first = start; first < end; first += width, to += deep * width) {
    const size_t here = std::min(width, end - first);
    if (bounds.which.empty() && is_dense(outer_offsets, first, here)) {
      copy(from + outer_offsets[first], depth_offsets, here, to);
      continue;
    }
    for (size_t i = 0; i < width; ++i) {
      if (i >= here) {
        for (size_t k = 0; k < deep; ++k) to[k * width + i] = 0;
      } else if (bounds.which.empty()) {
        const float* line = from + outer_offsets[first + i];
        for (size_t k = 0; k < deep; ++k) to[k * width + i] = line[depth_offsets[k]];
      } else {
        const int64_t line = outer_offsets[first + i];
        size_t k = 0;
        for (size_t run_end : ends) {
          const bool holds = bounds.hold(outer, first + i, depth, k);
          for (; k < run_end; ++k) to[k * width + i] = holds ? from[line + depth_offsets[k]] : 0;
        }
      }
    }
  }
}

template <int kBytes>
using Vector __attribute__((vector_size(kBytes), aligned(4))) = float;

// sums[kRows, 2 vectors] += panels of depth `deep`.
template <int kRows, int kBytes>
__attribute__((always_inline)) inline void add_panels(const float* a, const float* b, int64_t deep, float* sums) {
  using V = Vector<kBytes>;
  constexpr int64_t kWidth = kBytes / 4, kColumns = 2 * kWidth;
  V low[kRows], high[kRows];
#pragma GCC unroll 12
  for (int64_t r = 0; r < kRows; ++r) {
    low[r] = *reinterpret_cast<const V*>(sums + r * kColumns);
    high[r] = *reinterpret_cast<const V*>(sums + r * kColumns + kWidth);
  }
  for (int64_t k = 0; k < deep; ++k, a += kRows, b += kColumns) {
    const V left = *reinterpret_cast<const V*>(b), right = *reinterpret_cast<const V*>(b + kWidth);
#pragma GCC unroll 12
    for (int64_t r = 0; r < kRows; ++r) {
      low[r] += left * a[r];
      high[r] += right * a[r];
    }
  }
#pragma GCC unroll 12
  for (int64_t r = 0; r < kRows; ++r) {
    *reinterpret_cast<V*>(sums + r * kColumns) = low[r];
    *reinterpret_cast<V*>(sums + r * kColumns + kWidth) = high[r];
  }
}
__attribute__((target("avx512f"))) void add_avx512(const float* a, const float* b, int64_t deep, float* sums) {
  add_panels<12, 64>(a, b, deep, sums);
}
__attribute__((target("avx2,fma"))) void add_avx2(const float* a, const float* b, int64_t deep, float* sums) {
  add_panels<6, 32>(a, b, deep, sums);
}
void add_baseline(const float* a, const float* b, int64_t deep, float* sums) {
  add_panels<6, 32>(a, b, deep, sums);
}

// Sums in registers, by what the processor has.
struct Tile {
  int64_t rows, columns;
  void (*add)(const float* a, const float* b, int64_t deep, float* sums);
};
const Tile& tile() {
  static const Tile chosen = __builtin_cpu_supports("avx512f")                                 ? Tile{12, 32, add_avx512}
                             : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? Tile{6, 16, add_avx2}
                                                                                               : Tile{6, 16, add_baseline};
  return chosen;
}

// One batch's rows from `first_row` on, against all columns.
void multiply(const ProductForm& form, const float* left, const float* right, const Offsets& batch, int64_t number, const Indices& rows,
              int64_t first_row, int64_t row_count, const Indices& columns, const Indices& depth, float* sums) {
  const auto [tile_rows, tile_columns, add] = tile();
  const auto at = static_cast<size_t>(number);
  left += form.left_offset + batch.left[at];
  right += form.right_offset + batch.right[at];
  sums += batch.sums[at];
  const Bounds of_rows(form, batch, number, ProductDim::kRows), of_columns(form, batch, number, ProductDim::kColumns);
  const Offsets row(form, rows, first_row, row_count), column(form, columns, 0, columns.count);
  const int64_t row_tiles = rounded(row_count, tile_rows) / tile_rows, column_tiles = rounded(columns.count, tile_columns) / tile_columns;
  const int64_t most_deep = std::min(kBlockDepth, depth.count);
  std::vector<float> a(static_cast<size_t>(row_tiles * tile_rows * most_deep)),
      b(static_cast<size_t>(std::min(kBlockColumns, column_tiles * tile_columns) * most_deep)),
      tiles(static_cast<size_t>(row_tiles * column_tiles * tile_rows * tile_columns));
  for (int64_t k = 0; k < depth.count; k += kBlockDepth) {
    const int64_t deep = std::min(kBlockDepth, depth.count - k);
    const Offsets inner(form, depth, k, deep);
    pack(left, row.left, inner.left, row, inner, of_rows, 0, row.left.size(), tile_rows, a.data());
    for (int64_t c = 0; c < columns.count; c += kBlockColumns) {
      const int64_t width = std::min(kBlockColumns, columns.count - c);
      pack(right, column.right, inner.right, column, inner, of_columns, static_cast<size_t>(c), static_cast<size_t>(c + width),
           tile_columns, b.data());
      for (int64_t i = 0; i * tile_columns < width; ++i) {
        for (int64_t r = 0; r < row_tiles; ++r) {
          add(a.data() + r * tile_rows * deep, b.data() + i * tile_columns * deep, deep,
              tiles.data() + (r * column_tiles + c / tile_columns + i) * tile_rows * tile_columns);
        }
      }
    }
  }
  for (int64_t r = 0; r < row_count; ++r) {
    const float* from = tiles.data() + (r / tile_rows * column_tiles * tile_rows + r % tile_rows) * tile_columns;
    float* to = sums + row.sums[static_cast<size_t>(r)];
    for (int64_t j = 0; j < columns.count; j += tile_columns, from += tile_rows * tile_columns) {
      const auto width = static_cast<size_t>(std::min(tile_columns, columns.count - j)), at_column = static_cast<size_t>(j);
      if (column.sums[at_column + width - 1] - column.sums[at_column] == static_cast<int64_t>(width) - 1) {
        std::memcpy(to + column.sums[at_column], from, width * sizeof(float));
      } else {
        for (size_t i = 0; i < width; ++i) to[column.sums[at_column + i]] = from[i];
      }
    }
  }
}

}  // namespace

portable::Answer OwnKernels::takes(const portable::Offer& offer) const {
  portable::Answer answer;
  const ProductForm* form = offer.product;
  if (!form) return answer;  // the library says why
  using portable::Scalar;
  if (form->left_type != Scalar::kF32 || form->right_type != Scalar::kF32 || form->accumulator != Scalar::kF32) {
    answer.reason = "the driver's kernel is for f32";
    return answer;
  }
  if (answer.reason = portable::why_not_by_factors(*form); !answer.reason.empty()) return answer;
  const int64_t rows = Indices(*form, ProductDim::kRows).count, columns = Indices(*form, ProductDim::kColumns).count;
  if (offer.has_symbols && (columns < kFewest || (rows < kFewest && form->is_convolution))) {
    answer.reason = "the driver's kernel is for more columns, " + std::to_string(rows) + " x " + std::to_string(columns) + " are too few";
    return answer;
  }
  answer.kernel = form->is_convolution ? "sample.convolution" : "sample.product";
  answer.reason = "f32 in f32";
  return answer;
}

bool OwnKernels::run(const portable::OwnCall& call, std::string*) const {
  const ProductForm& form = *call.offer.product;
  const Indices batch(form, ProductDim::kBatch), rows(form, ProductDim::kRows), columns(form, ProductDim::kColumns),
      depth(form, ProductDim::kDepth);
  if (batch.count == 0 || rows.count == 0 || columns.count == 0) return true;
  const auto* left = reinterpret_cast<const float*>(call.tensors[form.left].data);
  const auto* right = reinterpret_cast<const float*>(call.tensors[form.right].data);
  const Offsets of_batch(form, batch, 0, batch.count);
  const uint32_t threads = call.workers ? call.workers->count() : 1;
  const int64_t fitting = std::min(kMostRows, kMostSums / rounded(columns.count, tile().columns)),
                share = rows.count * batch.count / threads;
  const int64_t block = rounded(std::max<int64_t>(1, std::min(fitting, share)), tile().rows);
  const int64_t blocks = (rows.count + block - 1) / block, tasks = batch.count * blocks;
  auto run = [&](uint32_t part) {
    for (int64_t task = part; task < tasks; task += threads) {
      const int64_t first = task % blocks * block;
      multiply(form, left, right, of_batch, task / blocks, rows, first, std::min(block, rows.count - first), columns, depth, call.sums);
    }
  };
  if (call.workers) {
    call.workers->run(threads, run);
  } else {
    run(0);
  }
  return true;
}

}  // namespace sample
