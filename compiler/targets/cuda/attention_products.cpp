// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The products of attention (attention_form.h): by tensor cores, with 16 or 32 queries per subgroup, or by fused multiply-add, with the same queries
// in 16 neighboring threads. The layout of matrix elements in registers is that of the PTX ISA, mma.sync.m16n8k16.
#include "compiler/targets/cuda/attention_form.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

using Values = KernelBuilder::Values;

class ProductsBase : public AttentionProducts {
 protected:
  ProductsBase(const Instructions& frame, const AttentionForm& form) : f_(frame), k_(frame.k), form_(form) {}
  Value add(Value a, Value b) const { return k_.make<arith::AddIOp>(a, b); }
  Value add(Value a, int64_t b) const { return b == 0 ? a : add(a, f_.word(b)); }
  Value lane_of(int64_t count) const { return k_.rem(k_.thread(), k_.index(count)); }
  Value group_of(int64_t count) const { return k_.div(k_.thread(), k_.index(count)); }

  const Instructions& f_;
  KernelBuilder& k_;
  const AttentionForm& form_;
};

class AttentionByTensorCores final : public ProductsBase {
 public:
  AttentionByTensorCores(const Instructions& frame, const AttentionForm& form) : ProductsBase(frame, form) {
    score_groups = AttentionForm::keys / 8;
    result_groups = form.columns / 8;
    score_lanes = result_lanes = 2;
    row_distances = {1, 2};
    lane_ = lane_of(subgroup_size);
    first_row_ = k_.mul(group_of(subgroup_size), 8 * form.thread_rows);
    auto part = [&](int64_t by, int64_t count) { return k_.rem(k_.div(lane_, k_.index(by)), k_.index(count)); };
    int64_t row = form.row_bytes(form.depth);
    queries_ = add(f_.shared(), f_.narrow(k_.add(k_.mul(k_.add(first_row_, part(1, 16)), row), k_.mul(part(16, 2), 16))));
    keys_ = f_.narrow(k_.add(k_.mul(k_.add(part(1, 8), k_.mul(part(16, 2), 8)), row), k_.mul(part(8, 2), 16)));
    Value values = k_.add(k_.mul(part(1, 16), form.row_bytes(form.columns)), k_.mul(part(16, 2), 16));
    values_ = f_.narrow(k_.add(values, AttentionForm::keys * row));
  }

  Value row(int64_t thread_row) const override {
    return k_.add(k_.add(first_row_, k_.div(lane_, k_.index(4))), thread_row / 2 * 16 + thread_row % 2 * 8);
  }
  Value key(int64_t group) const override { return k_.add(k_.mul(k_.rem(lane_, k_.index(4)), 2), group * 8); }
  Value column(int64_t group) const override { return key(group); }

  Values scores(Value stage) const override {
    int64_t row = form_.row_bytes(form_.depth), tiles = form_.thread_rows / 2;
    Value keys = add(stage, keys_);
    Values sums(static_cast<size_t>(form_.thread_rows * score_groups * 2), k_.constant(k_.builder.getF32Type(), 0));
    for (int64_t d = 0; d < form_.depth / 16; ++d) {
      Values queries;
      for (int64_t i = 0; i < tiles; ++i) f_.load_matrices(queries_, i * 16 * row + d * 32, false, queries);
      for (int64_t n = 0; n < score_groups; n += 2) {
        Values words;
        f_.load_matrices(keys, n * 8 * row + d * 32, false, words);
        for (int64_t i = 0; i < tiles; ++i) {
          for (int64_t side = 0; side < 2; ++side)
            multiply(words_of(queries, i * 4, 4), words_of(words, side * 2, 2), sums, score_groups, i, n + side);
        }
      }
    }
    return sums;
  }

  void accumulate(Value stage, ValueRange weights, Values& results) const override {
    int64_t row = form_.row_bytes(form_.columns), tiles = form_.thread_rows / 2;
    Value values = add(stage, values_);
    for (int64_t step = 0; step < AttentionForm::keys / 16; ++step) {
      Values left, rest;
      for (int64_t i = 0; i < tiles; ++i) {
        for (int64_t half = 0; half < 2; ++half) {
          for (int64_t down = 0; down < 2; ++down) {
            size_t at = static_cast<size_t>(((i * 2 + down) * score_groups + step * 2 + half) * 2);
            left.push_back(pack(weights[at], weights[at + 1]));
            if (form_.splits_weights) rest.push_back(pack(rest_of(weights[at]), rest_of(weights[at + 1])));
          }
        }
      }
      for (int64_t n = 0; n < result_groups; n += 2) {
        Values words;
        f_.load_matrices(values, step * 16 * row + n * 16, true, words);
        for (int64_t i = 0; i < tiles; ++i) {
          for (int64_t side = 0; side < 2; ++side)
            multiply(words_of(left, i * 4, 4), words_of(words, side * 2, 2), results, result_groups, i, n + side);
          for (int64_t side = 0; side < 2 && form_.splits_weights; ++side)
            multiply(words_of(rest, i * 4, 4), words_of(words, side * 2, 2), results, result_groups, i, n + side);
        }
      }
    }
  }

 private:
  // What is left of a weight when it is rounded.
  Value rest_of(Value weight) const {
    Value rounded = k_.make<arith::TruncFOp>(form_.element, weight);
    return k_.make<arith::SubFOp>(weight, k_.make<arith::ExtFOp>(weight.getType(), rounded));
  }
  static ValueRange words_of(const Values& words, int64_t first, int64_t count) {
    return ValueRange(words).slice(static_cast<size_t>(first), static_cast<size_t>(count));
  }

  // The product of a tile of 16 rows, added to the sums of this thread's two rows.
  void multiply(ValueRange lhs, ValueRange rhs, Values& sums, int64_t groups, int64_t tile, int64_t group) const {
    size_t upper = static_cast<size_t>((tile * 2 * groups + group) * 2), lower = upper + static_cast<size_t>(groups * 2);
    Values four = {sums[upper], sums[upper + 1], sums[lower], sums[lower + 1]};
    f_.multiply_add(form_.element.isF16() ? "f16" : "bf16", lhs, rhs, four);
    sums[upper] = four[0];
    sums[upper + 1] = four[1];
    sums[lower] = four[2];
    sums[lower + 1] = four[3];
  }

  Value pack(Value low, Value high) const {
    std::string type = form_.element.isF16() ? "f16x2" : "bf16x2";
    return f_.assembly("cvt.rn." + type + ".f32 $0, $1, $2;", "=r,f,f", {high, low}, f_.i32(), /*pure=*/true);
  }

  Value lane_, first_row_;
  Value queries_, keys_, values_;  // i32: where this lane reads; keys and values: within a stage
};

class AttentionByMultiplyAdd final : public ProductsBase {
 public:
  AttentionByMultiplyAdd(const Instructions& frame, const AttentionForm& form) : ProductsBase(frame, form) {
    score_groups = AttentionForm::keys / across;
    score_lanes = 1;
    result_groups = form.columns / (across * 4);
    result_lanes = 4;
    row_distances = {1, 2, 4, 8};
    lane_ = lane_of(across);
    first_row_ = k_.mul(group_of(across), form.thread_rows);
    int64_t row = form.row_bytes(form.depth);
    queries_ = add(f_.shared(), f_.narrow(k_.mul(first_row_, row)));
    keys_ = f_.narrow(k_.mul(lane_, row));
    weights_ = add(f_.shared(), f_.narrow(k_.add(k_.mul(first_row_, weight_row()), form.query_bytes())));
    values_ = f_.narrow(k_.add(k_.mul(lane_, 16), AttentionForm::keys * row));
  }

  static constexpr int64_t across = 16;  // threads

  Value row(int64_t thread_row) const override { return k_.add(first_row_, thread_row); }
  Value key(int64_t group) const override { return k_.add(lane_, group * across); }
  Value column(int64_t group) const override { return k_.add(k_.mul(lane_, 4), group * across * 4); }

  Values scores(Value stage) const override {
    int64_t row = form_.row_bytes(form_.depth);
    Value keys = add(stage, keys_);
    Values sums(static_cast<size_t>(form_.thread_rows * score_groups), k_.constant(k_.builder.getF32Type(), 0));
    return k_.loop(k_.index(0), k_.index(form_.depth), k_.index(4), sums, [&](Value depth, ValueRange carried) {
      Values next(carried);
      Value at = f_.narrow(k_.mul(depth, 4));
      SmallVector<Values> left = rows(add(queries_, at), row, form_.thread_rows), right = rows(add(keys, at), across * row, score_groups);
      for (size_t r = 0; r < left.size(); ++r) {
        for (size_t g = 0; g < right.size(); ++g) {
          Value& sum = next[r * right.size() + g];
          for (size_t i = 0; i < 4; ++i) sum = k_.make<math::FmaOp>(left[r][i], right[g][i], sum);
        }
      }
      return next;
    });
  }

  void accumulate(Value stage, ValueRange weights, Values& results) const override {
    // The threads that share rows are in one subgroup.
    Value mine = add(weights_, f_.narrow(k_.mul(lane_, 4)));
    for (int64_t r = 0; r < form_.thread_rows; ++r) {
      for (int64_t g = 0; g < score_groups; ++g)
        f_.store_shared(weights[static_cast<size_t>(r * score_groups + g)], mine, r * weight_row() + g * across * 4, 4);
    }
    f_.assembly("bar.warp.sync -1;", "", {});
    int64_t row = form_.row_bytes(form_.columns);
    Value values = add(stage, values_);
    results = k_.loop(k_.index(0), k_.index(AttentionForm::keys), k_.index(4), results, [&](Value key, ValueRange carried) {
      Values next(carried);
      SmallVector<Values> left = rows(add(weights_, f_.narrow(k_.mul(key, 4))), weight_row(), form_.thread_rows);
      Value at = add(values, f_.narrow(k_.mul(key, row)));
      for (int64_t i = 0; i < 4; ++i) {
        SmallVector<Values> right = rows(add(at, i * row), across * 16, result_groups);
        for (size_t r = 0; r < left.size(); ++r) {
          for (size_t g = 0; g < right.size(); ++g) {
            for (size_t e = 0; e < 4; ++e) {
              Value& sum = next[(r * right.size() + g) * 4 + e];
              sum = k_.make<math::FmaOp>(left[r][static_cast<size_t>(i)], right[g][e], sum);
            }
          }
        }
      }
      return next;
    });
  }

 private:
  int64_t weight_row() const { return form_.row_bytes(AttentionForm::keys); }

  // Four neighbors of each of these rows.
  SmallVector<Values> rows(Value address, int64_t distance, int64_t count) const {
    SmallVector<Values> result;
    for (int64_t i = 0; i < count; ++i) {
      Value four = f_.load_shared(address, i * distance, k_.vector_type(k_.builder.getF32Type(), 4), 16);
      Values one;
      for (int64_t e = 0; e < 4; ++e) one.push_back(k_.builder.create<vector::ExtractOp>(k_.location, four, ArrayRef<int64_t>{e}));
      result.push_back(std::move(one));
    }
    return result;
  }

  Value lane_, first_row_;
  Value queries_, keys_, weights_, values_;  // i32: where this thread reads; keys and values: within a stage
};

}  // namespace

std::unique_ptr<AttentionProducts> AttentionProducts::make(const Instructions& frame, const AttentionForm& form) {
  if (form.tensor_cores()) return std::make_unique<AttentionByTensorCores>(frame, form);
  return std::make_unique<AttentionByMultiplyAdd>(frame, form);
}

}  // namespace heddle::targets::cuda
