// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See tile_product.h. Steps are copied several ahead. With tensor cores, operands of the next group of products are loaded while one is computed, and
// the copies of a step are spread between its products. Instructions and the layout of matrix elements in registers are those of the PTX ISA:
// ldmatrix, mma.sync.m16n8k16 (f16, bf16) and m16n8k8 (tf32).
#include "compiler/targets/cuda/tile_product.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

using Values = KernelBuilder::Values;

// Shared by both kinds of product: the pipeline of copies.
class Pipeline : public TileProduct {
 public:
  explicit Pipeline(const TileFrame& frame) : f_(frame), k_(frame.k), shape_(frame.shape), tile_(frame.tile) {}

 protected:
  VectorType four() const { return k_.vector_type(k_.builder.getF32Type(), 4); }
  Value add(Value a, int64_t b) const { return k_.make<arith::AddIOp>(a, f_.word(b)); }
  int64_t stage_bytes() const { return tile_.stage_bytes(shape_); }
  Value after(Value stage) const {  // next stage in the ring
    Value next = add(stage, stage_bytes()), end = add(f_.shared(), tile_.stages * stage_bytes());
    return f_.choose(k_.make<arith::CmpIOp>(arith::CmpIPredicate::eq, next, end), f_.shared(), next);
  }
  // Elements of neighboring columns: in one access if they are contiguous.
  void store_neighbors(Value elements, Value address, int64_t offset, const Tile::Exchange& exchange) const {
    int64_t count = llvm::cast<VectorType>(elements.getType()).getNumElements();
    if (exchange.column_bytes == 4) return f_.store_shared(elements, address, offset, static_cast<unsigned>(count * 4));
    for (int64_t e = 0; e < count; ++e) {
      Value one = k_.builder.create<vector::ExtractOp>(k_.location, elements, ArrayRef<int64_t>{e});
      f_.store_shared(one, address, offset + e * exchange.column_bytes, 4);
    }
  }
  void commit() const { f_.assembly("cp.async.commit_group;", "", {}); }
  // Waits until the copies of all threads are done, except those of the latest steps.
  void arrive() const {
    f_.assembly("cp.async.wait_group " + std::to_string(tile_.stages - 2) + ";", "", {});
    k_.barrier();
  }
  static void run(const std::vector<std::function<void()>>& all) {
    for (const auto& one : all) one();
  }
  void begin(TileCopy& copy) const {
    for (int64_t s = 0; s + 1 < tile_.stages; ++s) {
      TileCopy::Copies copies = copy.step(add(f_.narrow(f_.first_step), s), add(f_.shared(), s * stage_bytes()));
      run(copies.start);
      run(copies.finish);
      commit();
    }
  }
  void end() const {
    f_.assembly("cp.async.wait_all;", "", {});
    k_.barrier();
  }

  const TileFrame& f_;
  KernelBuilder& k_;
  const TiledContraction& shape_;
  const Tile& tile_;
};

class FusedMultiplyAdd final : public Pipeline {
 public:
  explicit FusedMultiplyAdd(const TileFrame& frame) : Pipeline(frame) {
    Value across = k_.index(threads_across());
    across_ = k_.rem(f_.in_slice, across);
    down_ = k_.div(f_.in_slice, across);
  }

  SmallVector<Value> sum(TileCopy& copy) override {
    begin(copy);
    Values carried(static_cast<size_t>(tile_.thread_rows * column_groups()), k_.constant(four(), 0));
    carried.push_back(f_.shared());                                           // stage of this step
    carried.push_back(add(f_.shared(), (tile_.stages - 1) * stage_bytes()));  // stage being filled
    Values results = k_.loop(f_.first_step, f_.end_step, k_.index(1), carried, [&](Value step, ValueRange values) {
      arrive();
      TileCopy::Copies copies = copy.step(add(f_.narrow(step), tile_.stages - 1), values.back());
      run(copies.start);
      run(copies.finish);
      commit();
      Value stage = values.drop_back().back();
      Values next = multiply(stage, values.drop_back(2));
      next.append({after(stage), after(values.back())});
      return next;
    });
    end();
    results.pop_back_n(2);
    return results;
  }

  void store(ArrayRef<Value> sums, Value address, const Tile::Exchange& exchange) const override {
    Value place = k_.add(k_.mul(down_, exchange.row_bytes), k_.mul(across_, 4 * exchange.column_bytes));
    Value at = k_.make<arith::AddIOp>(address, f_.narrow(place)), none = k_.splat(unknown_zero(), 4);
    for (auto [j, sum] : llvm::enumerate(sums)) {
      Value words = k_.make<arith::OrIOp>(k_.make<arith::BitcastOp>(none.getType(), sum), none);
      store_neighbors(k_.make<arith::BitcastOp>(sum.getType(), words), at,
                      static_cast<int64_t>(j) * threads_across() * 4 * exchange.column_bytes, exchange);
    }
  }
  Value row_of(Value group, Value row) const override { return k_.add(k_.mul(group, tile_.group_rows(shape_)), row); }

 private:
  // Four sums that are stored at once are in neighboring registers, as the factors that were loaded at once are. If they had these registers all the
  // time, most products would read a factor and a sum from the same bank, of which each gives one register per clock. The assembler chooses others for
  // the loop if the stored values are results of another operation, with a zero that it does not know to be one.
  Value unknown_zero() const { return f_.assembly("mov.u32 $0, %smid; shr.u32 $0, $0, 24;", "=r", {}, f_.i32(), /*pure=*/true); }

  int64_t column_groups() const { return tile_.thread_columns / 4; }
  int64_t threads_across() const { return tile_.columns / tile_.thread_columns; }  // of one slice
  int64_t threads_down() const { return tile_.rows / tile_.thread_rows; }

  Values multiply(Value stage, ValueRange sums) {
    int64_t rhs_row = tile_.rhs_row_bytes(shape_);
    Value lhs_place = k_.add(k_.mul(down_, tile_.lhs_row_bytes()), k_.mul(f_.slice, tile_.step_bytes));
    Value rhs_place = k_.add(k_.mul(across_, 16), k_.mul(f_.slice, tile_.step_bytes / 4 * rhs_row));
    Value lhs = k_.make<arith::AddIOp>(stage, f_.narrow(lhs_place)),
          rhs = add(k_.make<arith::AddIOp>(stage, f_.narrow(rhs_place)), tile_.lhs_bytes());
    return k_.loop(k_.index(0), k_.index(tile_.step_bytes / 16), k_.index(1), sums, [&](Value quad, ValueRange values) {
      Values next(values.begin(), values.end());
      Value lhs_quad = k_.make<arith::AddIOp>(lhs, f_.narrow(k_.mul(quad, 16))),
            rhs_quad = k_.make<arith::AddIOp>(rhs, f_.narrow(k_.mul(quad, 4 * rhs_row)));
      SmallVector<Value> left;
      for (int64_t i = 0; i < tile_.thread_rows; ++i)
        left.push_back(f_.load_shared(lhs_quad, i * threads_down() * tile_.lhs_row_bytes(), four(), 16));
      for (int64_t d = 0; d < 4; ++d) {
        SmallVector<Value> right;
        for (int64_t j = 0; j < column_groups(); ++j)
          right.push_back(f_.load_shared(rhs_quad, d * rhs_row + j * threads_across() * 16, four(), 16));
        for (int64_t i = 0; i < tile_.thread_rows; ++i) {
          Value one = k_.splat(k_.builder.create<vector::ExtractOp>(k_.location, left[static_cast<size_t>(i)], ArrayRef<int64_t>{d}), 4);
          for (int64_t j = 0; j < column_groups(); ++j) {
            Value& sum = next[static_cast<size_t>(i * column_groups() + j)];
            sum = k_.make<math::FmaOp>(one, right[static_cast<size_t>(j)], sum);
          }
        }
      }
      return next;
    });
  }

  Value across_, down_;
};

// A subgroup has fragments of 16 x 8 results. A group of products goes over 32 bytes of the depth.
class MatrixMultiplyAdd final : public Pipeline {
 public:
  explicit MatrixMultiplyAdd(const TileFrame& frame) : Pipeline(frame), tf32_(shape_.element.isF32()) {
    Value lane = k_.rem(k_.thread(), k_.index(subgroup_size)), subgroup = k_.div(f_.in_slice, k_.index(subgroup_size));
    lane_ = lane;
    subgroup_down_ = k_.div(subgroup, k_.index(tile_.warp_columns));
    Value row = k_.mul(subgroup_down_, tile_.rows / tile_.warp_rows);
    column_ = k_.mul(k_.rem(subgroup, k_.index(tile_.warp_columns)), tile_.columns / tile_.warp_columns);
    auto part = [&](int64_t by, int64_t count) { return k_.rem(k_.div(lane, k_.index(by)), k_.index(count)); };
    Value depth = k_.mul(f_.slice, tile_.step_bytes);  // bytes
    lhs_ = f_.narrow(k_.add(k_.mul(k_.add(row, part(1, 16)), tile_.lhs_row_bytes()), k_.add(depth, k_.mul(part(16, 2), 16))));
    int64_t rhs_row = tile_.rhs_row_bytes(shape_), size = shape_.element_bytes();
    Value rhs;
    if (shape_.rhs_transposed) {
      Value column = k_.add(column_, k_.add(part(1, 8), k_.mul(part(16, 2), 8)));
      rhs = k_.add(k_.mul(column, rhs_row), k_.add(depth, k_.mul(part(8, 2), 16)));
    } else {
      Value first = k_.mul(f_.slice, tile_.step_bytes / size);
      Value line = k_.add(first, tf32_ ? part(1, 4) : part(1, 16)), column = k_.add(column_, tf32_ ? part(4, 8) : k_.mul(part(16, 2), 8));
      rhs = k_.add(k_.mul(line, rhs_row), k_.mul(column, size));
    }
    rhs_ = f_.narrow(k_.add(rhs, tile_.lhs_bytes()));
  }

  SmallVector<Value> sum(TileCopy& copy) override {
    begin(copy);
    int64_t groups = tile_.step_bytes / 32;
    size_t sums = static_cast<size_t>(fragments_down() * fragments_across());
    bool ahead = loads_ahead();
    Values carried(sums, k_.constant(four(), 0));
    if (ahead) {
      arrive();
      carried.append(load(f_.shared(), 0));
    }
    carried.push_back(f_.shared());                                           // stage of this step
    carried.push_back(add(f_.shared(), (tile_.stages - 1) * stage_bytes()));  // stage being filled
    Values results = k_.loop(f_.first_step, f_.end_step, k_.index(1), carried, [&](Value step, ValueRange values) {
      Values next(values.begin(), values.begin() + static_cast<ptrdiff_t>(sums));
      ValueRange rest = values.drop_front(sums).drop_back(2);
      Values fragments(rest.begin(), rest.end());
      Value stage = values[values.size() - 2], filled = values.back(), following = after(stage);
      if (!ahead) arrive();
      // The stage being filled was read in the previous step, whose last load came before the latest barrier.
      TileCopy::Copies copies = copy.step(add(f_.narrow(step), tile_.stages - 1), filled);
      int64_t copying = ahead ? std::max<int64_t>(1, groups - 1) : groups;  // groups whose products are mixed with copies
      size_t started = 0;
      for (int64_t g = 0; g < groups; ++g) {
        if (!ahead) fragments = load(stage, g);
        Values loaded;
        if (ahead) loaded = g + 1 < groups ? load(stage, g + 1) : load(following, 0);
        size_t all = copies.start.size(), from = started,
               until = all * static_cast<size_t>(std::min(g + 1, copying)) / static_cast<size_t>(copying);
        multiply(fragments, next, [&](size_t done, size_t products) {
          for (; started < from + (until - from) * done / products; ++started) copies.start[started]();
        });
        if (g + 1 == copying) {
          run(copies.finish);
          commit();
          if (ahead) arrive();
        }
        fragments = std::move(loaded);
      }
      next.append(fragments);
      next.append({following, after(filled)});
      return next;
    });
    end();
    results.truncate(sums);
    return results;
  }

  void store(ArrayRef<Value> sums, Value address, const Tile::Exchange& exchange) const override {
    Value quad = k_.index(4), row = k_.add(k_.mul(subgroup_down_, 16), k_.div(lane_, quad)),
          column = k_.add(column_, k_.mul(k_.rem(lane_, quad), 2));
    Value at = k_.make<arith::AddIOp>(address, f_.narrow(k_.add(k_.mul(row, exchange.row_bytes), k_.mul(column, exchange.column_bytes))));
    for (auto [j, sum] : llvm::enumerate(sums)) {
      for (int64_t half = 0; half < 2; ++half) {
        Value two = k_.builder.create<vector::ExtractStridedSliceOp>(k_.location, sum, ArrayRef<int64_t>{half * 2}, ArrayRef<int64_t>{2},
                                                                     ArrayRef<int64_t>{1});
        store_neighbors(two, at, half * 8 * exchange.row_bytes + static_cast<int64_t>(j) * 8 * exchange.column_bytes, exchange);
      }
    }
  }
  Value row_of(Value group, Value row) const override {
    Value down = k_.mul(k_.div(row, k_.index(16)), tile_.rows / tile_.warp_rows);
    return k_.add(k_.add(down, k_.mul(group, 16)), k_.rem(row, k_.index(16)));
  }

 private:
  // Operands of the next products are loaded during the current ones, unless another workgroup can use the time.
  bool loads_ahead() const { return tile_.residents == 1; }
  int64_t fragments_down() const { return tile_.rows / tile_.warp_rows / 16; }
  int64_t fragments_across() const { return tile_.columns / tile_.warp_columns / 8; }

  // Operands of a group of products: four words per fragment of the left side, two of the right one.
  Values load(Value stage, int64_t group) const {
    Values words;
    Value lhs = k_.make<arith::AddIOp>(stage, lhs_), rhs = k_.make<arith::AddIOp>(stage, rhs_);
    int64_t rhs_row = tile_.rhs_row_bytes(shape_);
    for (int64_t i = 0; i < fragments_down(); ++i) f_.load_matrices(lhs, i * 16 * tile_.lhs_row_bytes() + group * 32, false, words);
    for (int64_t j = 0; j < fragments_across(); j += 2) {
      if (shape_.rhs_transposed) {
        f_.load_matrices(rhs, j * 8 * rhs_row + group * 32, false, words);
      } else if (!tf32_) {
        f_.load_matrices(rhs, j * 16 + group * 16 * rhs_row, true, words);
      } else {
        for (int64_t e = 0; e < 4; ++e) {
          words.push_back(f_.load_shared(rhs, (group * 8 + e % 2 * 4) * rhs_row + (j + e / 2) * 32, f_.i32(), 4));
        }
      }
    }
    return words;
  }

  void multiply(const Values& fragments, Values& sums, const std::function<void(size_t done, size_t all)>& after_each) const {
    std::string type = tf32_ ? "tf32" : shape_.element.isF16() ? "f16" : "bf16";
    Values words(fragments);
    if (tf32_) {
      for (Value& word : words) word = f_.assembly("cvt.rna.tf32.f32 $0, $1;", "=r,r", word, f_.i32(), /*pure=*/true);
    }
    size_t down = static_cast<size_t>(fragments_down()), across = static_cast<size_t>(fragments_across());
    for (size_t i = 0; i < down; ++i) {
      for (size_t n = 0; n < across; ++n) {
        size_t j = i % 2 == 0 ? n : across - 1 - n;  // back and forth: the last used fragment is used again
        Value& sum = sums[i * across + j];
        ValueRange all = words;
        Values four;
        for (int64_t e = 0; e < 4; ++e) four.push_back(k_.builder.create<vector::ExtractOp>(k_.location, sum, ArrayRef<int64_t>{e}));
        f_.multiply_add(type, all.slice(i * 4, 4), all.slice(down * 4 + j * 2, 2), four);
        for (int64_t e = 0; e < 4; ++e)
          sum = k_.builder.create<vector::InsertOp>(k_.location, four[static_cast<size_t>(e)], sum, ArrayRef<int64_t>{e});
        after_each(i * across + n + 1, down * across);
      }
    }
  }

  bool tf32_;
  Value lane_, subgroup_down_, column_;
  Value lhs_, rhs_;  // i32: where this lane reads in a stage
};

}  // namespace

std::unique_ptr<TileProduct> TileProduct::make(const TileFrame& frame) {
  if (frame.shape.tensor_cores) return std::make_unique<MatrixMultiplyAdd>(frame);
  return std::make_unique<FusedMultiplyAdd>(frame);
}

}  // namespace heddle::targets::cuda
