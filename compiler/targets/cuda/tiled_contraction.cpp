// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmul and convolution through shared memory: copies (tile_copy), sums of products (tile_product), then the epilogue, applied to the sums before
// they are stored. A convolution is an implicit matmul: rows are pixels, and the depth is taps and channels.
#include "compiler/targets/cuda/tiled_contraction.h"

#include "compiler/targets/cuda/tile_product.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

constexpr int64_t most_at_once = 8;  // points of a thread whose operands are loaded together

// Moves the sums to the outputs through shared memory, so that each thread stores 16 contiguous bytes, and threads together store whole lines.
// Neighbors are columns, or rows.
class TileOutput {
 public:
  TileOutput(const TileFrame& frame, tx::DispatchOp region, ArrayRef<Output> outputs, tx::TransposeOp transpose)
      : f_(frame), k_(frame.k), shape_(frame.shape), tile_(frame.tile), region_(region), outputs_(outputs), transpose_(transpose) {
    lanes_ = 16 / shape_.element_bytes();
    while (neighbors() % lanes_ != 0) lanes_ /= 2;
    band_rows_ = tile_.rows / tile_.bands(shape_);
    exchange_ = tile_.exchange(shape_, band_rows_);
  }

  LogicalResult store(const TileProduct& product, ArrayRef<Value> sums) {
    int64_t groups = tile_.row_groups(shape_), bands = tile_.bands(shape_), group_rows = tile_.group_rows(shape_);
    size_t vectors = sums.size() / static_cast<size_t>(groups);
    Value address = k_.make<arith::AddIOp>(f_.shared(), f_.narrow(k_.mul(f_.slice, exchange_.slice_bytes)));
    LogicalResult all = success();
    for (int64_t band = 0; band < bands && succeeded(all); ++band) {
      if (band > 0) {
        if (f_.rank) {
          f_.cluster_barrier();
        } else {
          k_.barrier();
        }
      }
      int64_t first = band * (groups / bands);
      for (int64_t g = 0; g < groups / bands; ++g) {
        Value to = k_.make<arith::AddIOp>(address, f_.word(g * group_rows * exchange_.row_bytes));
        product.store(sums.slice(static_cast<size_t>(first + g) * vectors, vectors), to, exchange_);
      }
      k_.barrier();
      if (f_.rank) {
        if (tile_.slices > 1) add_slices();
        f_.cluster_barrier();
      }
      all = store_band(product, first);
    }
    if (f_.rank) f_.cluster_barrier();  // others may still read what this one has
    return all;
  }

 private:
  // Where a thread stores, and whether that is inside of the result.
  struct Place {
    Point point;
    Value is_there, sums;
  };

  // The number of results that are always contiguous in memory.
  int64_t neighbors() const {
    if (!transpose_) return shape_.columns;
    if (shape_.is_conv) return shape_.width;
    auto rows = llvm::dyn_cast<AffineConstantExpr>(shape_.rows);
    return rows ? rows.getValue() : 1;
  }

  // How all threads store a band of the exchange memory: `across` of them per line of neighbors, `lines` at once, in so many turns.
  struct Walk {
    int64_t across, lines, turns;
  };
  Walk walk() const {
    int64_t line_length = transpose_ ? band_rows_ : tile_.columns, all_lines = transpose_ ? tile_.columns : band_rows_;
    int64_t across = line_length / lanes_, lines = std::clamp<int64_t>(k_.threads() / across, 1, all_lines);
    return {across, lines, all_lines / lines};
  }

  // Adds the sums of all slices, and stores them at the place of the first slice.
  void add_slices() {
    auto [across, lines, turns] = walk();
    Value in_line = k_.mul(k_.rem(k_.thread(), k_.index(across)), lanes_), line = k_.div(k_.thread(), k_.index(across));
    auto add_all = [&] {
      for (int64_t turn = 0; turn < turns; ++turn) {
        Value at = exchange_address(k_.add(line, turn * lines), in_line);
        f_.store_shared(sum_of_slices(at), at, 0, 16);
      }
    };
    if (lines * across < k_.threads()) {
      k_.branch(k_.less(line, k_.index(lines)), add_all);
    } else {
      add_all();
    }
  }

  Value exchange_address(Value exchange_row, Value column_in_tile) const {
    Value address = k_.add(k_.mul(exchange_row, exchange_.row_bytes), k_.mul(column_in_tile, exchange_.column_bytes));
    return k_.make<arith::AddIOp>(f_.shared(), f_.narrow(address));
  }

  Value sum_of_slices(Value at) const {
    Type type = lanes_ > 1 ? Type(k_.vector_type(k_.builder.getF32Type(), lanes_)) : k_.builder.getF32Type();
    int64_t line_bytes = transpose_ ? exchange_.column_bytes : exchange_.row_bytes, aligned = 4;
    while (aligned < std::min<int64_t>(lanes_ * 4, 16) && line_bytes % (aligned * 2) == 0) aligned *= 2;
    Value sum;
    for (int64_t s = 0; s < tile_.slices; ++s) {
      Value part = f_.load_shared(at, exchange_.slice_bytes * s, type, static_cast<unsigned>(aligned));
      sum = sum ? k_.make<arith::AddFOp>(sum, part) : part;
    }
    return sum;
  }

  // The sums of four or eight f32 at this address in all workgroups of the cluster, added in the order of their ranks.
  Value sum_of_cluster(Value at) const {
    assert((lanes_ == 4 || lanes_ == 8) && "only whole tiles have clusters");
    SmallVector<Value, 2> sums(static_cast<size_t>(lanes_ / 4));
    for (int64_t rank = 0; rank < tile_.cluster; ++rank) {
      Value there = f_.in_cluster(at, rank);
      for (auto [i, sum] : llvm::enumerate(sums)) {
        Value part = f_.load_cluster(i == 0 ? there : k_.make<arith::AddIOp>(there, f_.word(16)));
        sum = sum ? k_.make<arith::AddFOp>(sum, part) : part;
      }
    }
    if (sums.size() == 1) return sums[0];
    return k_.builder.create<vector::ShuffleOp>(k_.location, sums[0], sums[1], ArrayRef<int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  }

  // The exchange memory to the outputs. A workgroup of a cluster stores its share of the lines.
  LogicalResult store_band(const TileProduct& product, int64_t first_group) {
    auto [across, lines, turns] = walk();
    int64_t own_turns = (turns + tile_.cluster - 1) / tile_.cluster, at_once = std::min(own_turns, most_at_once);
    Value in_line = k_.mul(k_.rem(k_.thread(), k_.index(across)), lanes_), line = k_.div(k_.thread(), k_.index(across));
    LogicalResult all = success();
    auto store_some = [&](Value turn) {
      std::vector<Place> places;
      std::vector<SmallVector<Value>> values;
      for (int64_t i = 0; i < at_once; ++i) {
        Value here = k_.add(k_.mul(k_.add(turn, i), lines), line);
        places.push_back(transpose_ ? place(product, first_group, in_line, here) : place(product, first_group, here, in_line));
      }
      // All loads come before the first store, so that they are in flight together.
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
            if (transpose_) {
              store_transposed(k_, evaluator, element, output.result, transpose_, one.point);
            } else {
              RankedTensorType stored = tx::tensor(output.value);
              if (k_.pitch()) {
                SmallVector<AffineExpr> extents = tx::extents(stored);
                extents.back() = k_.builder.getAffineConstantExpr(*k_.pitch());
                stored = tx::tensor_type(extents, stored.getElementType());
              }
              evaluator.store(element, k_.result(output.result), stored, one.point);
            }
          }
        });
      }
    };
    Value first = f_.rank ? k_.mul(f_.rank, own_turns) : k_.index(0);
    Value end = f_.rank ? k_.min(k_.add(first, own_turns), k_.index(turns)) : k_.index(turns);
    auto store_all = [&] { k_.loop(first, end, k_.index(at_once), store_some); };
    if (lines * across < k_.threads()) {
      k_.branch(k_.less(line, k_.index(lines)), store_all);
    } else {
      store_all();
    }
    return all;
  }

  // Neighboring sums, starting at a row of the exchange memory and a column.
  Place place(const TileProduct& product, int64_t first_group, Value exchange_row, Value column_in_tile) {
    Place result;
    Value at = exchange_address(exchange_row, column_in_tile);
    result.sums = f_.rank ? sum_of_cluster(at) : sum_of_slices(at);
    int64_t group_rows = tile_.group_rows(shape_), row_lanes = transpose_ ? lanes_ : 1, column_lanes = transpose_ ? 1 : lanes_;
    Value group = k_.add(k_.div(exchange_row, k_.index(group_rows)), first_group);
    Value row = k_.add(f_.first_row, product.row_of(group, k_.rem(exchange_row, k_.index(group_rows))));
    Value column = k_.add(f_.first_column, column_in_tile);
    result.is_there = k_.less(row, f_.rows);
    if (shape_.columns % tile_.columns != 0) {
      result.is_there = f_.both(result.is_there, k_.less(column, k_.index(shape_.columns)));
      column = k_.min(column, k_.index(shape_.columns - column_lanes));
    }
    row = k_.min(row, k_.sub(f_.rows, k_.index(row_lanes)));  // for operands that are loaded besides the product
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
    result.point.at.push_back({column, 0, {}});
    result.point.lanes = lanes_ > 1 ? lanes_ : 0;
    if (lanes_ > 1) result.point.at[result.point.at.size() - (transpose_ ? 2 : 1)].step = 1;
    return result;
  }

  const TileFrame& f_;
  KernelBuilder& k_;
  const TiledContraction& shape_;
  const Tile& tile_;
  tx::DispatchOp region_;
  ArrayRef<Output> outputs_;
  tx::TransposeOp transpose_;
  int64_t lanes_, band_rows_;
  Tile::Exchange exchange_;
};

class TilePart final : public Part {
 public:
  // divided: the tile of each workgroup of a cluster where a chip has no clusters; without one, the first of them has the whole tile.
  TilePart(tx::DispatchOp region, ArrayRef<Output> outputs, tx::TransposeOp transpose, TiledContraction shape, Tile tile,
           std::optional<Tile> divided, size_t tiles)
      : region_(region),
        outputs_(outputs),
        transpose_(transpose),
        shape_(std::move(shape)),
        tile_(tile),
        divided_(divided),
        tiles_(tiles) {}

  AffineExpr workgroups() const override {
    int64_t column_tiles = (shape_.columns + tile_.columns - 1) / tile_.columns;
    return shape_.rows.ceilDiv(tile_.rows) * shape_.batches * (column_tiles * shape_.groups * tile_.cluster);
  }
  std::string rung() const override { return tile_.name() + (shape_.tensor_cores && shape_.element.isF32() ? ", tf32" : ""); }
  bool works_in_place() const override { return !transpose_; }
  bool stores_rows_apart() const override {
    tx::DispatchOp region = region_;
    ValueRange yielded = region.getBody().front().getTerminator()->getOperands();
    return !transpose_ && llvm::all_of(outputs_, [&](const Output& output) { return output.value == yielded[output.result]; });
  }
  int64_t residents() const override { return tile_.residents; }
  int64_t cluster() const override { return tile_.cluster; }
  size_t tiles() const override { return tiles_; }
  std::string choice() const override {
    return rung() + ", steps of " + std::to_string(tile_.slices * tile_.step_bytes) + " bytes, " + std::to_string(tile_.residents) +
           " per multiprocessor";
  }
  double estimate_ns() const override { return tile_.estimate_ns; }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    k.shared(k.builder.getI8Type(), (k.chip.has_clusters || !divided_ ? tile_ : *divided_).shared_bytes(shape_));
    if (tile_.cluster == 1 || k.chip.has_clusters) return emit_tile(k, tile_, block);
    // The grid is the same for every chip.
    LogicalResult done = success();
    Value member = k.rem(block, k.index(tile_.cluster)), tile = k.div(block, k.index(tile_.cluster));
    if (!divided_) {
      Tile alone = tile_;
      alone.cluster = 1;
      k.branch(k.less(member, k.index(1)), [&] { done = emit_tile(k, alone, tile); });
      return done;
    }
    const int64_t down = tile_.rows / divided_->rows, across = tile_.columns / divided_->columns;
    Value column_tiles = k.index(shape_.columns / tile_.columns), rest = k.div(tile, column_tiles);
    Value row_tiles = k.extent(shape_.rows.ceilDiv(tile_.rows)), own_row_tiles = k.extent(shape_.rows.ceilDiv(divided_->rows));
    Value column_tile = k.add(k.mul(k.rem(tile, column_tiles), across), k.rem(member, k.index(across)));
    Value row_tile = k.add(k.mul(k.rem(rest, row_tiles), down), k.div(member, k.index(across)));
    Value row = k.add(k.make<arith::MulIOp>(k.div(rest, row_tiles), own_row_tiles), row_tile);
    k.branch(k.less(row_tile, own_row_tiles),
             [&] { done = emit_tile(k, *divided_, k.add(k.mul(row, shape_.columns / divided_->columns), column_tile)); });
    return done;
  }

 private:
  LogicalResult emit_tile(KernelBuilder& k, const Tile& tile, Value block) const {
    TileFrame frame(k, shape_, tile, block);
    TileCopy copy(frame);
    auto product = TileProduct::make(frame);
    SmallVector<Value> sums = product->sum(copy);
    return TileOutput(frame, region_, outputs_, transpose_).store(*product, sums);
  }

  tx::DispatchOp region_;
  std::vector<Output> outputs_;
  tx::TransposeOp transpose_;
  TiledContraction shape_;
  Tile tile_;
  std::optional<Tile> divided_;
  size_t tiles_;
};

}  // namespace

std::unique_ptr<Part> tile_part(tx::DispatchOp region, ArrayRef<Output> outputs, Operation* root, tx::TransposeOp transpose,
                                const Budget& budget) {
  auto shape = TiledContraction::read(root, budget.math);
  if (!shape) return nullptr;
  shape->rows_last = transpose != nullptr;
  std::vector<Tile> tiles = Tile::ranked(*shape, budget.shared_memory_bytes, budget.clusters);
  if (tiles.empty()) return nullptr;
  const Tile& tile = tiles[std::min<size_t>(budget.tile, tiles.size() - 1)];
  return std::make_unique<TilePart>(region, outputs, transpose, *shape, tile, tile.divided(*shape, budget.shared_memory_bytes),
                                    tiles.size());
}

}  // namespace heddle::targets::cuda
