// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See gemm.h.
#include "heddle/sdk/portable/gemm.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "heddle/sdk/portable/product_places.h"

namespace heddle::sdk::portable {
namespace {

constexpr int64_t kMostGathered = 2 << 20;  // elements of a factor at a time

// The step from one number of a group to the next, if it is always the same; 0 for a single number.
std::optional<int64_t> step_of(const ProductForm& form, const ProductGroup& group, int64_t ProductDim::* step) {
  std::optional<int64_t> inner;
  int64_t count = 1;
  for (size_t i = group.dims.size(); i-- > 0;) {
    const ProductDim& dim = form.dims[group.dims[i]];
    if (dim.extent == 1) continue;
    int64_t expected;
    if (inner && (__builtin_mul_overflow(*inner, count, &expected) || dim.*step != expected)) return std::nullopt;
    if (!inner) inner = dim.*step;
    count *= dim.extent;  // of what fits memory
  }
  return inner.value_or(0);
}

// A matrix [rows, columns] in memory, row-major, or transposed: [columns, rows].
struct Layout {
  int64_t leading;
  bool transposed;
};
std::optional<Layout> layout_of(int64_t rows, std::optional<int64_t> row_step, int64_t columns, std::optional<int64_t> column_step) {
  if (!row_step || !column_step) return std::nullopt;
  if ((columns == 1 || *column_step == 1) && (rows == 1 || *row_step >= columns)) return Layout{rows == 1 ? columns : *row_step, false};
  if ((rows == 1 || *row_step == 1) && (columns == 1 || *column_step >= rows)) return Layout{columns == 1 ? rows : *column_step, true};
  return std::nullopt;
}

// Neighbors in the depth that are neighbors in memory and have the same bounds, such as the channels at a place of a window.
std::vector<size_t> ends_of_runs(const std::vector<int64_t>& offsets, const ProductPlaces& depth, const FactorBounds& bounds) {
  std::vector<size_t> ends;
  for (size_t k = 0; k < offsets.size(); ++k) {
    const bool goes_on = k > 0 && offsets[k] - offsets[k - 1] == 1 && std::all_of(bounds.which.begin(), bounds.which.end(), [&](size_t b) {
                           return depth.bounds[b][k] == depth.bounds[b][k - 1];
                         });
    if (goes_on) {
      ends.back() = k + 1;
    } else {
      ends.push_back(k + 1);
    }
  }
  return ends;
}

// One factor at one number of the batch.
class Factor {
 public:
  Factor(const OwnCall& call, bool is_left, const ProductGroup& outer, const ProductGroup& depth, const ProductPlaces& of_depth)
      : call_(call), form_(*call.offer.product), is_left_(is_left), outer_(outer), depth_(depth), of_depth_(of_depth) {
    const auto step = is_left ? &ProductDim::left : &ProductDim::right;
    const std::optional<int64_t> of_outer = step_of(form_, outer, step), of_inner = step_of(form_, depth, step);
    // The left factor is [rows, depth], the right one [depth, columns].
    layout_ = is_left ? layout_of(outer.count, of_outer, depth.count, of_inner) : layout_of(depth.count, of_inner, outer.count, of_outer);
    outer_step_ = of_outer.value_or(0);
  }

  void at(const ProductPlaces& batch, int64_t number) {
    const auto n = static_cast<size_t>(number);
    data_ = reinterpret_cast<const float*>(call_.tensors[is_left_ ? form_.left : form_.right].data);
    base_ = is_left_ ? form_.left_offset + batch.left[n] : form_.right_offset + batch.right[n];
    bounds_.emplace(form_, batch, number, is_left_ ? ProductDim::kRows : ProductDim::kColumns);
    is_matrix_ = layout_ && bounds_->which.empty();
    if (!is_matrix_) ends_ = ends_of_runs(is_left_ ? of_depth_.left : of_depth_.right, of_depth_, *bounds_);
  }

  // Rows or columns that are in memory at a time.
  int64_t block() const { return is_matrix_ ? outer_.count : std::max<int64_t>(1, std::min(outer_.count, kMostGathered / depth_.count)); }

  // Gives `count` rows or columns from `first` on.
  const float* give(int64_t first, int64_t count, int64_t* out_leading, bool* out_transposed) {
    if (is_matrix_) {
      *out_leading = layout_->leading;
      *out_transposed = layout_->transposed;
      return data_ + base_ + first * outer_step_;
    }
    *out_leading = depth_.count;
    *out_transposed = !is_left_;  // [rows, depth], [columns, depth]
    gathered_.resize(static_cast<size_t>(count * depth_.count));
    const ProductPlaces outer(form_, outer_, first, count);
    const std::vector<int64_t>&from = is_left_ ? outer.left : outer.right, &inner = is_left_ ? of_depth_.left : of_depth_.right;
    const uint32_t parts = call_.workers ? call_.workers->count() : 1;
    auto gather = [&](uint32_t part) {
      for (auto o = static_cast<size_t>(part); o < from.size(); o += parts) {
        float* to = gathered_.data() + o * inner.size();
        size_t k = 0;
        for (size_t end : ends_) {
          const size_t bytes = (end - k) * sizeof(float);
          if (bounds_->hold(outer, o, of_depth_, k)) {
            std::memcpy(to + k, data_ + (base_ + from[o] + inner[k]), bytes);
          } else {
            std::memset(to + k, 0, bytes);
          }
          k = end;
        }
      }
    };
    if (call_.workers) {
      call_.workers->run(parts, gather);
    } else {
      gather(0);
    }
    return gathered_.data();
  }

 private:
  const OwnCall& call_;
  const ProductForm& form_;
  const bool is_left_;
  const ProductGroup &outer_, &depth_;
  const ProductPlaces& of_depth_;
  std::optional<Layout> layout_;
  int64_t outer_step_ = 0, base_ = 0;
  const float* data_ = nullptr;
  std::optional<FactorBounds> bounds_;
  bool is_matrix_ = false;
  std::vector<size_t> ends_;
  std::vector<float> gathered_;
};

}  // namespace

std::string why_no_gemm(const ProductForm& form) {
  if (form.left_type != Scalar::kF32 || form.right_type != Scalar::kF32 || form.accumulator != Scalar::kF32) return "it is not f32 in f32";
  return why_not_by_factors(form);
}

GemmSize gemm_size(const ProductForm& form) {
  return {ProductGroup(form, ProductDim::kBatch).count, ProductGroup(form, ProductDim::kRows).count,
          ProductGroup(form, ProductDim::kColumns).count, ProductGroup(form, ProductDim::kDepth).count};
}

bool run_by_gemm(const OwnCall& call, const std::function<std::string(const Gemm&)>& gemm, std::string* out_error) {
  const ProductForm& form = *call.offer.product;
  const ProductGroup batch(form, ProductDim::kBatch), rows(form, ProductDim::kRows), columns(form, ProductDim::kColumns),
      depth(form, ProductDim::kDepth);
  if (batch.count == 0 || rows.count == 0 || columns.count == 0) return true;
  if (depth.count == 0) {
    std::fill_n(call.sums, batch.count * rows.count * columns.count, 0.0F);
    return true;
  }
  const ProductPlaces of_batch(form, batch, 0, batch.count), of_depth(form, depth, 0, depth.count);
  const std::optional<int64_t> row_step = step_of(form, rows, &ProductDim::sums), column_step = step_of(form, columns, &ProductDim::sums);
  const std::optional<Layout> layout = layout_of(rows.count, row_step, columns.count, column_step);
  Factor left(call, true, rows, depth, of_depth), right(call, false, columns, depth, of_depth);
  std::vector<float> sums;
  for (int64_t number = 0; number < batch.count; ++number) {
    left.at(of_batch, number);
    right.at(of_batch, number);
    float* const to = call.sums + of_batch.sums[static_cast<size_t>(number)];
    for (int64_t column = 0; column < columns.count; column += right.block()) {
      Gemm each{};
      each.k = depth.count;
      each.n = std::min(right.block(), columns.count - column);
      each.b = right.give(column, each.n, &each.ldb, &each.b_transposed);
      for (int64_t row = 0; row < rows.count; row += left.block()) {
        each.m = std::min(left.block(), rows.count - row);
        each.a = left.give(row, each.m, &each.lda, &each.a_transposed);
        Gemm asked = each;
        if (layout) {
          asked.c = to + row * *row_step + column * *column_step;
          asked.ldc = layout->leading;
          // Columns are beside each other in memory: the transposed sums are the product of the transposed factors.
          if (layout->transposed) {
            std::swap(asked.m, asked.n);
            std::swap(asked.a, asked.b);
            std::swap(asked.lda, asked.ldb);
            asked.a_transposed = !each.b_transposed;
            asked.b_transposed = !each.a_transposed;
          }
        } else {
          sums.resize(static_cast<size_t>(each.m * each.n));
          asked.c = sums.data();
          asked.ldc = each.n;
        }
        if (std::string wrong = gemm(asked); !wrong.empty()) {
          *out_error = std::move(wrong);
          return false;
        }
        if (layout) continue;
        const ProductPlaces of_rows(form, rows, row, each.m), of_columns(form, columns, column, each.n);
        const float* from = sums.data();
        for (int64_t of_row : of_rows.sums) {
          for (int64_t of_column : of_columns.sums) to[of_row + of_column] = *from++;
        }
      }
    }
  }
  return true;
}

}  // namespace heddle::sdk::portable
