// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmul and convolution through shared memory: copies (tile_copy), sums of products (tile_product), then the element-wise ops behind the
// root, applied to the sums on their way out. A convolution is an implicit matmul: rows are pixels, and the depth is taps and channels.
#include "compiler/targets/cuda/tiled_contraction.h"

#include "compiler/targets/cuda/tile_product.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

constexpr int64_t most_at_once = 8;  // points of a thread whose operands are loaded together

// The sums to the outputs: through shared memory, so that each thread stores 16 neighboring bytes, and whole lines are stored together.
class TileOutput {
 public:
  TileOutput(const TileFrame& frame, tx::DispatchOp region, ArrayRef<Output> outputs)
      : f_(frame), k_(frame.k), shape_(frame.shape), tile_(frame.tile), region_(region), outputs_(outputs) {
    lanes_ = 16 / shape_.element_bytes();
    while (shape_.columns % lanes_ != 0) lanes_ /= 2;
  }

  LogicalResult store(const TileProduct& product, ArrayRef<Value> sums) {
    int64_t groups = tile_.row_groups(shape_), bands = tile_.bands(shape_), group_rows = tile_.group_rows(shape_);
    size_t vectors = sums.size() / static_cast<size_t>(groups);
    int64_t band_rows = groups / bands * group_rows;
    Value address = k_.make<arith::AddIOp>(f_.shared(), f_.narrow(k_.mul(f_.slice, band_rows * tile_.exchange_row_bytes())));
    LogicalResult all = success();
    for (int64_t band = 0; band < bands && succeeded(all); ++band) {
      if (band > 0) k_.barrier();
      int64_t first = band * (groups / bands);
      for (int64_t g = 0; g < groups / bands; ++g) {
        Value to = k_.make<arith::AddIOp>(address, f_.word(g * group_rows * tile_.exchange_row_bytes()));
        product.store(sums.slice(static_cast<size_t>(first + g) * vectors, vectors), to);
      }
      k_.barrier();
      all = store_rows(product, first, band_rows);
    }
    return all;
  }

 private:
  // Where a thread stores, and whether that is inside of the result.
  struct Place {
    Point point;
    Value is_there, sums;
  };

  // The rows of the exchange memory, by all threads.
  LogicalResult store_rows(const TileProduct& product, int64_t first_group, int64_t rows) {
    int64_t across = tile_.columns / lanes_, lines = std::clamp<int64_t>(k_.threads / across, 1, rows);
    int64_t turns = rows / lines, at_once = std::min(turns, most_at_once);
    Value column = k_.mul(k_.rem(k_.thread(), k_.index(across)), lanes_), line = k_.div(k_.thread(), k_.index(across));
    LogicalResult all = success();
    auto store_some = [&](Value turn) {
      std::vector<Place> places;
      std::vector<SmallVector<Value>> values;
      for (int64_t i = 0; i < at_once; ++i) {
        Value row = k_.add(k_.mul(k_.add(turn, i), lines), line);
        places.push_back(place(product, first_group, row, column, rows));
      }
      // All loads come before the first store, so that they are on their way together.
      for (const Place& one : places) {
        ElementEvaluator evaluator(k_, region_);
        evaluator.set(shape_.root->getResult(0), one.sums);
        SmallVector<Value> tensors;
        for (const Output& output : outputs_) tensors.push_back(output.value);
        values.push_back(evaluator.elements(tensors, one.point));
      }
      for (auto [one, elements] : llvm::zip(places, values)) {
        if (llvm::is_contained(elements, Value())) {
          all = failure();
          return;
        }
        k_.branch(one.is_there, [&] {
          ElementEvaluator evaluator(k_, region_);
          for (auto [output, element] : llvm::zip(outputs_, elements)) {
            evaluator.store(element, k_.result(output.result), llvm::cast<RankedTensorType>(output.value.getType()), one.point);
          }
        });
      }
    };
    auto store_all = [&] { k_.loop(k_.index(0), k_.index(turns), k_.index(at_once), store_some); };
    if (lines * across < k_.threads) {
      k_.branch(k_.less(line, k_.index(lines)), store_all);
    } else {
      store_all();
    }
    return all;
  }

  Place place(const TileProduct& product, int64_t first_group, Value exchange_row, Value column_in_tile, int64_t rows) {
    Place result;
    Value address = k_.add(k_.mul(exchange_row, tile_.exchange_row_bytes()), k_.mul(column_in_tile, 4));
    Value at = k_.make<arith::AddIOp>(f_.shared(), f_.narrow(address));
    Type type = lanes_ > 1 ? Type(k_.vector_type(k_.builder.getF32Type(), lanes_)) : k_.builder.getF32Type();
    for (int64_t s = 0; s < tile_.slices; ++s) {
      Value part =
          f_.load_shared(at, tile_.exchange_bytes(rows) / tile_.slices * s, type, static_cast<unsigned>(std::min<int64_t>(lanes_ * 4, 16)));
      result.sums = result.sums ? k_.make<arith::AddFOp>(result.sums, part) : part;
    }
    int64_t group_rows = tile_.group_rows(shape_);
    Value group = k_.add(k_.div(exchange_row, k_.index(group_rows)), first_group);
    Value row = k_.add(f_.first_row, product.row_of(group, k_.rem(exchange_row, k_.index(group_rows))));
    Value column = k_.add(f_.first_column, column_in_tile);
    result.is_there = k_.less(row, f_.rows);
    if (shape_.columns % tile_.columns != 0) {
      result.is_there = f_.both(result.is_there, k_.less(column, k_.index(shape_.columns)));
      column = k_.min(column, k_.index(shape_.columns - lanes_));
    }
    row = k_.min(row, k_.sub(f_.rows, k_.index(1)));  // what is loaded beside the result's elements
    auto extents = tx::extents(llvm::cast<RankedTensorType>(shape_.root->getResult(0).getType()));
    auto add = [&](Value index, ArrayRef<AffineExpr> over) {
      for (Value one : delinearize(k_, index, over)) result.point.at.push_back({one, 0, {}});
    };
    if (shape_.is_conv) {
      add(row, ArrayRef<AffineExpr>(extents).drop_back());
      if (shape_.groups > 1) column = k_.add(column, k_.mul(f_.batch, shape_.columns));
    } else {
      if (extents.size() > 2) add(f_.batch, ArrayRef<AffineExpr>(extents).drop_back(2));
      result.point.at.push_back({row, 0, {}});
    }
    result.point.lanes = lanes_ > 1 ? lanes_ : 0;
    result.point.at.push_back({column, lanes_ > 1 ? 1 : 0, {}});
    return result;
  }

  const TileFrame& f_;
  KernelBuilder& k_;
  const TiledContraction& shape_;
  const Tile& tile_;
  tx::DispatchOp region_;
  ArrayRef<Output> outputs_;
  int64_t lanes_;
};

class TilePart final : public Part {
 public:
  TilePart(tx::DispatchOp region, ArrayRef<Output> outputs, TiledContraction shape, Tile tile)
      : region_(region), outputs_(outputs), shape_(std::move(shape)), tile_(tile) {}

  AffineExpr workgroups() const override {
    int64_t column_tiles = (shape_.columns + tile_.columns - 1) / tile_.columns;
    return shape_.rows.ceilDiv(tile_.rows) * shape_.batches * (column_tiles * shape_.groups);
  }
  std::string rung() const override { return tile_.name() + (shape_.tensor_cores && shape_.element.isF32() ? ", tf32" : ""); }
  int64_t residents() const override { return tile_.residents; }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    k.shared(k.builder.getI8Type(), tile_.shared_bytes(shape_));
    TileFrame frame(k, shape_, tile_, block);
    TileCopy copy(frame);
    auto product = TileProduct::make(frame);
    SmallVector<Value> sums = product->sum(copy);
    return TileOutput(frame, region_, outputs_).store(*product, sums);
  }

 private:
  tx::DispatchOp region_;
  std::vector<Output> outputs_;
  TiledContraction shape_;
  Tile tile_;
};

}  // namespace

std::unique_ptr<Part> tile_part(tx::DispatchOp region, ArrayRef<Output> outputs, Operation* root, const Budget& budget) {
  auto shape = TiledContraction::read(root, budget.math);
  if (!shape) return nullptr;
  auto tile = Tile::choose(*shape, budget.shared_memory_bytes);
  if (!tile) return nullptr;
  return std::make_unique<TilePart>(region, outputs, *shape, *tile);
}

}  // namespace heddle::targets::cuda
