// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See tile_operand.h. All pieces of a thread are at the same position along the depth, so that this is computed once per step.
#include "compiler/targets/amdgpu/tile_operand.h"

#include <algorithm>

#include "compiler/targets/thread_space.h"

using namespace mlir;

namespace heddle::targets::amdgpu {

Value kept_factor(LlvmKernelBuilder& k, Value factor, Type element) {
  auto like = [&](Type type) -> Type {
    auto vector = llvm::dyn_cast<VectorType>(factor.getType());
    return vector ? Type(vector.clone(type)) : type;
  };
  Operation* last = factor.getDefiningOp();
  if (llvm::isa_and_nonnull<arith::ExtFOp, arith::ExtSIOp, arith::ExtUIOp>(last) &&
      getElementTypeOrSelf(last->getOperand(0).getType()) == element) {
    factor = last->getOperand(0);
  } else if (factor.getType() != like(element)) {
    factor =
        llvm::isa<FloatType>(element) ? k.make<arith::TruncFOp>(like(element), factor) : k.make<arith::TruncIOp>(like(element), factor);
  }
  return element.isBF16() ? k.make<arith::BitcastOp>(like(k.builder.getI16Type()), factor) : factor;
}

TileOperand::TileOperand(LlvmKernelBuilder& kernel, const LocalMemory& memory, const Contraction& shape, const Tile& tile,
                         Contraction::Side side, Value first, ValueRange element, bool shifts)
    : k_(kernel), memory_(memory), shape_(shape), side_(side), copy_(tile.copy(shape, side)), shifts_(shifts && shape.is_unsigned[side]) {
  const int64_t size = shape.element_bytes(), depth = Tile::depth(shape);
  const Walk& outer = shape.outer(side);
  Value deep = k_.index(depth / copy_.deep), in_depth = k_.mul(k_.rem(k_.thread(), deep), copy_.deep),
        line = k_.mul(k_.div(k_.thread(), deep), copy_.across);
  in_depth_ = in_depth;
  place_ = memory_.narrow(k_.add(k_.mul(line, Tile::row_bytes), k_.mul(in_depth, size)));
  if (side == Contraction::rhs) place_ = memory_.add(place_, memory_.word(tile.rows * Tile::row_bytes));
  apart_ = tile_threads / (depth / copy_.deep) * copy_.across;
  Value last = k_.sub(k_.extent(outer.count(shape.context())), k_.index(copy_.across));
  for (int64_t piece = 0; piece < copy_.pieces; ++piece) {
    // Rows after the last one are not stored in the end, so they may be any.
    Value index = k_.min(k_.add(k_.add(first, line), piece * apart_), last);
    const bool is_row = side == Contraction::lhs;
    at_.push_back(shape.parallel_index(k_, element, is_row ? index : Value(), is_row ? Value() : index));
  }
}

TileOperand::Loaded TileOperand::load(Value step) const {
  Loaded loaded;
  const stage::ContractOp contract = shape_.stage();
  const AffineExpr extent = shape_.depth.count(shape_.context());
  const auto known = tx::static_extent(extent);
  const bool is_whole = known && *known % Tile::depth(shape_) == 0;
  Value count = k_.extent(extent), first = k_.add(k_.mul(step, Tile::depth(shape_)), in_depth_);
  const int64_t below = copy_.reads_of_piece();  // that are read one after the other
  struct Depth {
    SmallVector<Value> index;  // in the reduced dimensions
    Value exists;              // null: it does
  };
  SmallVector<Depth> depths;
  for (int64_t i = 0; i < below; ++i) {
    Depth depth;
    Value own = k_.add(first, i);
    if (!is_whole) {
      depth.exists = k_.less(own, count);
      own = k_.max(k_.min(own, k_.sub(count, k_.index(copy_.is_along_depth ? copy_.deep : 1))), k_.index(0));
    }
    depth.index.assign(shape_.domain().getReduced(), k_.index(0));
    const SmallVector<Value> indices = delinearize(k_, own, shape_.depth.extents(shape_.context()));
    for (auto [dimension, value] : llvm::zip(shape_.depth.dimensions, indices))
      depth.index[dimension.at - shape_.domain().getParallelRank()] = value;
    depths.push_back(std::move(depth));
  }
  for (const SmallVector<Value>& at : at_) {
    for (const Depth& depth : depths) {
      Loaded::Piece piece;
      piece.place.index = at;
      llvm::append_range(piece.place.index, depth.index);
      if (copy_.lanes() > 1) {
        piece.place.lanes = copy_.lanes();
        piece.place.lane_dimension = (copy_.is_along_depth ? shape_.depth : shape_.outer(side_)).dimensions.back().at;
      }
      BodyEmitter body(k_, contract, {});
      piece.counts = depth.exists;
      Value inside;  // where there may be memory
      for (AffineMap bounded : side_ == Contraction::lhs ? shape_.domain().getWithin() : ArrayRef<AffineMap>()) {
        Value index = body.evaluate(bounded.getResult(0), piece.place.index), bound = k_.extent(bounded.getResult(1));
        Value own = k_.make<arith::CmpIOp>(arith::CmpIPredicate::ult, index, bound);
        inside = inside ? k_.make<arith::AndIOp>(inside, own) : own;
      }
      if (inside) piece.counts = piece.counts ? k_.make<arith::AndIOp>(piece.counts, inside) : inside;
      piece.place.guard = known ? inside : piece.counts;  // a symbol may be 0
      const ArrayRef<bool> reads = shape_.reads_of(side_);
      for (unsigned i = 0; i < reads.size(); ++i) {
        Type other = stage::scalar_type(tx::element_of(contract->getOperand(i)));
        piece.reads[i] = reads[i] ? body.read(i, piece.place) : Element{k_.constant(other, 0), false};
      }
      loaded.pieces.push_back(std::move(piece));
    }
  }
  return loaded;
}

Value TileOperand::factor(const Loaded::Piece& piece) const {
  stage::ContractOp contract = shape_.stage();
  BodyEmitter body(k_, contract, {});
  body.known = piece.reads;
  const auto reads = static_cast<unsigned>(contract.getStepReads());
  const SmallVector<Element> both = body.run(contract.getFactors().front(), 0, reads, {}, piece.place);
  Element own = both[side_];
  own.value = kept_factor(k_, own.value, shape_.element);
  Value value = body.to_lanes(own, piece.place.lanes).value;
  if (piece.counts) value = k_.make<arith::SelectOp>(piece.counts, value, k_.constant(value.getType(), 0));
  return shifts_ ? k_.make<arith::XOrIOp>(value, k_.constant(value.getType(), INT8_MIN)) : value;
}

void TileOperand::store(const Loaded& loaded, Value stage) const {
  Value to = memory_.add(stage, place_);
  const int64_t size = shape_.element_bytes(), below = copy_.reads_of_piece();
  const auto alignment = static_cast<unsigned>(copy_.deep * size);
  for (int64_t piece = 0; piece < copy_.pieces; ++piece) {
    const int64_t offset = piece * apart_ * Tile::row_bytes;
    SmallVector<Value> values;
    for (int64_t i = 0; i < below; ++i) values.push_back(factor(loaded.pieces[static_cast<size_t>(piece * below + i)]));
    if (copy_.is_along_depth) {
      memory_.store(values.front(), to, offset, alignment);
      continue;
    }
    for (int64_t lane = 0; lane < copy_.across; ++lane) {
      SmallVector<Value> column;
      for (Value value : values) column.push_back(k_.builder.create<vector::ExtractOp>(k_.location, value, ArrayRef<int64_t>{lane}));
      Value together = column.front();
      if (copy_.deep > 1) {
        together = k_.constant(k_.vector_type(column.front().getType(), copy_.deep), 0);
        for (auto [i, one] : llvm::enumerate(column))
          together = k_.builder.create<vector::InsertOp>(k_.location, one, together, ArrayRef<int64_t>{static_cast<int64_t>(i)});
      }
      memory_.store(together, to, offset + lane * Tile::row_bytes, alignment);
    }
  }
}

}  // namespace heddle::targets::amdgpu
