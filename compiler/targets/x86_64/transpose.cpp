// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The strategy for transposes that move the innermost dimension: square tiles are loaded along the input's innermost dimension, transposed in
// registers, and stored along the output's. Narrow dimensions (few channels) are interleaved instead. Called by elemental.cpp.
#include "compiler/targets/x86_64/strategy.h"

#include <algorithm>

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

// Dimensions that are adjacent and in the same order in input and output; walked as one by the coordinate of the last.
struct Group {
  SmallVector<int64_t> out_dims;
  SmallVector<int64_t> in_dims;
  AffineExpr extent;
};

tx::TransposeOp transpose_behind(Value value, llvm::DenseSet<Value>& seen) {
  Operation* op = value.getDefiningOp();
  if (!op || !seen.insert(value).second) return {};
  if (auto transpose = llvm::dyn_cast<tx::TransposeOp>(op)) return transpose;
  if (!tx::is_elementwise(op)) return {};
  for (Value operand : op->getOperands()) {
    if (auto transpose = transpose_behind(operand, seen)) return transpose;
  }
  return {};
}

class TransposePart final : public Part {
 public:
  TransposePart(tx::DispatchOp region, ArrayRef<Output> outputs, tx::TransposeOp transpose)
      : region_(region), outputs_(outputs), transpose_(transpose) {
    // Other values at the point do not use merged dimensions.
    bool plain = outputs.size() == 1 && outputs.front().value == transpose.getResult() && llvm::isa<BlockArgument>(transpose.getInput());
    auto extents = tx::extents(tx::tensor(transpose.getResult()));
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    SmallVector<int64_t> in_dims;  // those with more than one index
    for (int64_t d = 0; d < static_cast<int64_t>(permutation.size()); ++d) {
      if (tx::tensor(transpose.getInput()).getDimSize(static_cast<unsigned>(d)) != 1) in_dims.push_back(d);
    }
    auto rank_of = [&](int64_t in_dim) { return llvm::find(in_dims, in_dim) - in_dims.begin(); };
    for (size_t d = 0; d < permutation.size(); ++d) {
      if (tx::static_extent(extents[d]) == 1) continue;
      bool joins = plain && !groups_.empty() && rank_of(groups_.back().in_dims.back()) + 1 == rank_of(permutation[d]);
      if (!joins) groups_.push_back({{}, {}, getAffineConstantExpr(1, region.getContext())});
      groups_.back().out_dims.push_back(static_cast<int64_t>(d));
      groups_.back().in_dims.push_back(permutation[d]);
      groups_.back().extent = groups_.back().extent * extents[d];
    }
    if (groups_.empty()) return;
    i_ = groups_.size() - 1;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].in_dims.back() == in_dims.back()) j_ = g;
    }
    if (!is_useful()) return;

    // Few indices on one side, and the other side adjacent to it: both sides of a tile are contiguous.
    auto i_extent = tx::static_extent(groups_[i_].extent), j_extent = tx::static_extent(groups_[j_].extent);
    bool out_adjacent = j_ + 1 == i_;
    bool in_adjacent = rank_of(groups_[i_].in_dims.back()) + 1 == rank_of(groups_[j_].in_dims.front());
    if (plain && out_adjacent && i_extent && *i_extent <= narrow_limit) {
      form_ = interleave;
    } else if (plain && in_adjacent && j_extent && *j_extent <= narrow_limit) {
      form_ = separate;
    }
    double per_element = form_ == tiles ? 0.2 : 0.1;
    tile_ns_ = per_element * static_cast<double>(tile_lanes) *
               static_cast<double>(form_ == interleave ? *i_extent
                                   : form_ == separate ? *j_extent
                                                       : tile_lanes);
    tiles_per_block_ = static_cast<int64_t>(std::clamp(4000 / tile_ns_, 1.0, 1e6));
    // Tiles in order: blocks of i, the other dimensions, blocks of j.
    counts_.push_back(form_ == interleave ? getAffineConstantExpr(1, region.getContext()) : groups_[i_].extent.ceilDiv(tile_lanes));
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (g != i_ && g != j_) counts_.push_back(groups_[g].extent);
    }
    counts_.push_back(form_ == separate ? getAffineConstantExpr(1, region.getContext()) : groups_[j_].extent.ceilDiv(tile_lanes));
    total_ = getAffineConstantExpr(1, region.getContext());
    for (AffineExpr count : counts_) total_ = total_ * count;
  }

  // False if the innermost dimension stays, so that rows are contiguous on both sides.
  bool is_useful() const { return groups_.size() > 1 && i_ != j_; }

  AffineExpr workgroups() const override { return total_.ceilDiv(tiles_per_block_); }
  uint64_t cost_ns() const override { return static_cast<uint64_t>(tile_ns_ * static_cast<double>(tiles_per_block_)) + 20; }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    LogicalResult all = success();
    Value from = k.mul(block, tiles_per_block_);
    Value to = k.min(k.extent(total_), k.add(from, tiles_per_block_));
    ElementEvaluator evaluator(k, region_);
    k.loop(from, to, [&](Value tile) {
      Tile at = locate(k, tile);
      if (form_ == interleave) {
        all = interleave_tile(k, evaluator, at);
      } else if (form_ == separate) {
        all = separate_tile(k, evaluator, at);
      } else {
        all = square_tiles(k, evaluator, at);
      }
    });
    return all;
  }

 private:
  // The same tiling for every level: a tile is a whole number of vectors wide.
  static constexpr int64_t tile_lanes = 16;
  static constexpr int64_t narrow_limit = 8;
  enum Form { tiles, interleave, separate };

  struct Tile {
    SmallVector<Value> others;  // index of each group; null for i and j
    Value i, j;                 // first indices
  };

  Tile locate(KernelBuilder& k, Value tile) const {
    SmallVector<Value> index = row_index(k, counts_, tile);
    Tile result;
    size_t next = 1;
    for (size_t g = 0; g < groups_.size(); ++g) result.others.push_back(g == i_ || g == j_ ? Value() : index[next++]);
    result.i = k.mul(index.front(), tile_lanes);
    result.j = k.mul(index.back(), tile_lanes);
    return result;
  }

  // An index of the output (or the input): coordinates of the groups, 0 elsewhere.
  Point point(KernelBuilder& k, bool output, const Tile& tile, Coordinate i, Coordinate j, int64_t lanes, Value mask) const {
    Point result;
    result.lanes = lanes;
    result.mask = mask;
    tx::TransposeOp transpose = transpose_;
    result.at.assign(transpose.getPermutation().size(), Coordinate{k.index(0), 0, {}});
    for (size_t g = 0; g < groups_.size(); ++g) {
      int64_t dim = output ? groups_[g].out_dims.back() : groups_[g].in_dims.back();
      result.at[dim] = g == i_ ? i : g == j_ ? j : Coordinate{tile.others[g], 0, {}};
    }
    return result;
  }

  Value input() const {
    tx::TransposeOp transpose = transpose_;
    return transpose.getInput();
  }

  LogicalResult store(KernelBuilder& k, ElementEvaluator& evaluator, Value elements, const Point& at) const {
    tx::TransposeOp transpose = transpose_;
    evaluator.set(transpose.getResult(), elements);
    LogicalResult result = store_outputs(k, evaluator, outputs_, at);
    evaluator.unset(transpose.getResult());
    return result;
  }

  // A tile of tile_lanes x tile_lanes as squares of one vector's width.
  LogicalResult square_tiles(KernelBuilder& k, ElementEvaluator& evaluator, const Tile& tile) const {
    int64_t lanes = k.level.f32_lanes();
    LogicalResult all = success();
    Value i_extent = k.extent(groups_[i_].extent), j_extent = k.extent(groups_[j_].extent);
    for (int64_t di = 0; di < tile_lanes; di += lanes) {
      for (int64_t dj = 0; dj < tile_lanes; dj += lanes) {
        Tile square = tile;
        square.i = k.add(tile.i, di);
        square.j = k.add(tile.j, dj);
        auto i_fixed = tx::static_extent(groups_[i_].extent), j_fixed = tx::static_extent(groups_[j_].extent);
        if (i_fixed && *i_fixed <= di) continue;  // never more than the first square
        if (j_fixed && *j_fixed <= dj) continue;
        bool i_remainder = !i_fixed || *i_fixed % lanes != 0, j_remainder = !j_fixed || *j_fixed % lanes != 0;
        auto emit = [&](bool part_of_j) {
          if (succeeded(all)) all = square_tile(k, evaluator, square, i_remainder, part_of_j);
        };
        auto body = [&] {
          if (j_fixed && *j_fixed < lanes) {
            emit(true);
          } else if (j_remainder) {
            k.branch(k.less(j_extent, k.add(square.j, lanes)), [&] { emit(true); }, [&] { emit(false); });
          } else {
            emit(false);
          }
        };
        if (di == 0 && dj == 0) {
          body();
        } else {
          k.branch(k.make<arith::AndIOp>(k.less(square.i, i_extent), k.less(square.j, j_extent)), body);
        }
      }
    }
    return all;
  }

  LogicalResult square_tile(KernelBuilder& k, ElementEvaluator& evaluator, const Tile& tile, bool i_remainder, bool part_of_j) const {
    int64_t lanes = k.level.f32_lanes();
    Value i_extent = k.extent(groups_[i_].extent), j_extent = k.extent(groups_[j_].extent);
    Value i_left = k.sub(i_extent, tile.i), j_left = k.sub(j_extent, tile.j);
    Value i_mask = i_remainder ? k.remainder_mask(i_left, lanes) : Value(), j_mask = part_of_j ? k.remainder_mask(j_left, lanes) : Value();
    SmallVector<Value> rows;
    for (int64_t r = 0; r < lanes; ++r) {
      Value i = k.add(tile.i, r);
      if (i_remainder && r > 0) i = k.min(i, k.sub(i_extent, k.index(1)));  // the last row again, for lanes that are not stored
      rows.push_back(evaluator.element(input(), point(k, false, tile, {i, 0, {}}, {tile.j, 1, {}}, lanes, j_mask)));
      if (!rows.back()) return failure();
    }
    k.transpose(rows);
    LogicalResult all = success();
    auto j_fixed = tx::static_extent(groups_[j_].extent);
    int64_t count = part_of_j && j_fixed && *j_fixed < lanes ? *j_fixed : lanes;
    for (int64_t c = 0; c < count && succeeded(all); ++c) {
      auto put = [&] {
        all = store(k, evaluator, rows[c], point(k, true, tile, {tile.i, 1, {}}, {k.add(tile.j, c), 0, {}}, lanes, i_mask));
      };
      if (part_of_j && c > 0 && count == lanes) {
        k.branch(k.less(k.index(c), j_left), put);
      } else {
        put();
      }
    }
    return all;
  }

  // A vector whose lane l is lane source(l).second of vectors[source(l).first].
  static Value pick(KernelBuilder& k, ArrayRef<Value> vectors, int64_t lanes,
                    llvm::function_ref<std::pair<int64_t, int64_t>(int64_t)> source) {
    Value result;
    for (int64_t v = 0; v < static_cast<int64_t>(vectors.size()); ++v) {
      SmallVector<int64_t> mask;
      bool used = false;
      for (int64_t l = 0; l < lanes; ++l) {
        auto [vector, lane] = source(l);
        used |= vector == v;
        mask.push_back(vector == v ? (result ? lanes : 0) + lane : l);
      }
      if (!used) continue;
      Value first = result ? result : vectors[v];
      result = k.builder.create<vector::ShuffleOp>(k.location, first, vectors[v], mask);
    }
    return result;
  }

  // All of i, lanes of j: the output's elements (j, i) are contiguous.
  LogicalResult interleave_tile(KernelBuilder& k, ElementEvaluator& evaluator, const Tile& tile) const {
    int64_t lanes = k.level.f32_lanes(), narrow = *tx::static_extent(groups_[i_].extent);
    auto j_fixed = tx::static_extent(groups_[j_].extent);
    LogicalResult all = success();
    for (int64_t dj = 0; dj < tile_lanes; dj += lanes) {
      Value j = k.add(tile.j, dj), left = k.sub(k.extent(groups_[j_].extent), j);
      auto emit = [&](bool remainder) {
        SmallVector<Value> rows;
        for (int64_t r = 0; r < narrow; ++r) {
          Value mask = remainder ? k.remainder_mask(left, lanes) : Value();
          rows.push_back(evaluator.element(input(), point(k, false, tile, {k.index(r), 0, {}}, {j, 1, {}}, lanes, mask)));
          if (!rows.back()) all = failure();
        }
        for (int64_t v = 0; v < narrow && succeeded(all); ++v) {
          Value mask = remainder ? k.remainder_mask(k.sub(k.mul(left, narrow), k.index(v * lanes)), lanes) : Value();
          Value elements = pick(k, rows, lanes, [&](int64_t l) { return std::pair((v * lanes + l) % narrow, (v * lanes + l) / narrow); });
          all = store(k, evaluator, elements, point(k, true, tile, {k.index(v * lanes), 1, {}}, {j, 0, {}}, lanes, mask));
        }
      };
      with_remainder(k, left, lanes, j_fixed && *j_fixed % lanes == 0, emit);
    }
    return all;
  }

  // All of j, lanes of i: the input's elements (i, j) are contiguous.
  LogicalResult separate_tile(KernelBuilder& k, ElementEvaluator& evaluator, const Tile& tile) const {
    int64_t lanes = k.level.f32_lanes(), narrow = *tx::static_extent(groups_[j_].extent);
    auto i_fixed = tx::static_extent(groups_[i_].extent);
    LogicalResult all = success();
    for (int64_t di = 0; di < tile_lanes; di += lanes) {
      Value i = k.add(tile.i, di), left = k.sub(k.extent(groups_[i_].extent), i);
      auto emit = [&](bool remainder) {
        SmallVector<Value> vectors;
        for (int64_t v = 0; v < narrow; ++v) {
          Value mask = remainder ? k.remainder_mask(k.sub(k.mul(left, narrow), k.index(v * lanes)), lanes) : Value();
          vectors.push_back(evaluator.element(input(), point(k, false, tile, {i, 0, {}}, {k.index(v * lanes), 1, {}}, lanes, mask)));
          if (!vectors.back()) all = failure();
        }
        for (int64_t r = 0; r < narrow && succeeded(all); ++r) {
          Value mask = remainder ? k.remainder_mask(left, lanes) : Value();
          Value elements =
              pick(k, vectors, lanes, [&](int64_t l) { return std::pair((l * narrow + r) / lanes, (l * narrow + r) % lanes); });
          all = store(k, evaluator, elements, point(k, true, tile, {i, 1, {}}, {k.index(r), 0, {}}, lanes, mask));
        }
      };
      with_remainder(k, left, lanes, i_fixed && *i_fixed % lanes == 0, emit);
    }
    return all;
  }

  // Emits the body for a whole vector, for a partial one, or not at all, depending on the number of indices that are left.
  static void with_remainder(KernelBuilder& k, Value left, int64_t lanes, bool never_partial, const std::function<void(bool)>& body) {
    auto partial = [&] {
      if (!never_partial) k.branch(k.less(k.index(0), left), [&] { body(true); });
    };
    k.branch(k.less(left, k.index(lanes)), partial, [&] { body(false); });
  }

  tx::DispatchOp region_;
  std::vector<Output> outputs_;
  tx::TransposeOp transpose_;
  SmallVector<Group> groups_;
  size_t i_ = 0, j_ = 0;  // the groups that are innermost in the output and in the input
  Form form_ = tiles;
  double tile_ns_ = 1;
  int64_t tiles_per_block_ = 1;
  SmallVector<AffineExpr> counts_;
  AffineExpr total_;
};

}  // namespace

FailureOr<Parts> transpose_parts(tx::DispatchOp region, ArrayRef<Output> outputs) {
  Parts parts;
  llvm::DenseSet<Value> seen;
  tx::TransposeOp transpose;
  for (const Output& output : outputs) {
    if (!transpose) transpose = transpose_behind(output.value, seen);
  }
  if (!transpose) return parts;
  auto part = std::make_unique<TransposePart>(region, outputs, transpose);
  if (part->is_useful()) parts.push_back(std::move(part));
  return parts;
}

}  // namespace heddle::targets::x86_64
