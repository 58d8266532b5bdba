// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See tile_copy.h. A thread copies pieces at the same position along the depth, so that taps and channels are computed once per step.
#include "compiler/targets/cuda/tile_copy.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

constexpr int64_t smallest_async_bytes = 4;
constexpr int64_t farthest_offset = int64_t{1} << 30;  // bytes, the limit of an instruction's constant

}  // namespace

TileCopy::TileCopy(const TileFrame& frame)
    : f_(frame), k_(frame.k), shape_(frame.shape), tile_(frame.tile), size_(frame.shape.element_bytes()) {
  prepare_lhs();
  prepare_rhs();
}

Value TileCopy::pointer(Value base, Value elements) const {
  return k_.pointer(base, elements, shape_.element);
}

Value TileCopy::rhs_pointer(Value base, Value elements) const {
  return k_.pointer(base, elements, shape_.rhs_element);
}

Value TileCopy::behind(Value source, int64_t bytes) const {
  if (bytes == 0) return source;
  return k_.builder.create<LLVM::GEPOp>(k_.location, source.getType(), k_.builder.getI8Type(), source,
                                        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(bytes)});
}

void TileCopy::prepare_lhs() {
  int64_t piece = shape_.lhs_piece(), pieces = tile_.depth(size_) / piece, lines = k_.threads() / pieces;
  Value depth = k_.mul(k_.rem(k_.thread(), k_.index(pieces)), piece), line = k_.div(k_.thread(), k_.index(pieces));
  lhs_depth_ = f_.narrow(depth);
  lhs_shared_ = f_.narrow(k_.add(k_.mul(line, tile_.lhs_row_bytes()), k_.mul(depth, size_)));
  bool even = shape_.has_even_rows() && tile_.rows * shape_.lhs_row * size_ < farthest_offset;
  Value base = k_.operand(shape_.lhs.getArgNumber());
  Value start = k_.add(k_.extent(shape_.lhs_start), k_.mul(f_.batch, k_.extent(shape_.lhs_batch)));
  for (int64_t in_tile = 0; in_tile < tile_.rows; in_tile += lines) {
    Piece one = {};
    one.base = base;
    Value row = k_.add(k_.add(f_.first_row, line), in_tile);
    one.is_there = k_.less(row, f_.rows);
    one.shared_offset = in_tile * tile_.lhs_row_bytes();
    if (even && in_tile > 0) {
      one.source = lhs_.front().source;
      one.source_offset = in_tile * shape_.lhs_row * size_;
    } else if (shape_.has_even_rows()) {
      one.source = pointer(base, k_.add(start, k_.mul(row, shape_.lhs_row)));
    } else {
      Value x = k_.rem(row, k_.index(shape_.width)), rest = k_.div(row, k_.index(shape_.width));
      Value y = k_.rem(rest, k_.index(shape_.height)), image = k_.div(rest, k_.index(shape_.height));
      Value from_y = k_.add(k_.mul(y, shape_.stride_height), -shape_.pad_top),
            from_x = k_.add(k_.mul(x, shape_.stride_width), -shape_.pad_left);
      Value from = k_.add(k_.add(k_.mul(image, shape_.lhs_image), k_.mul(from_y, shape_.lhs_line)), k_.mul(from_x, shape_.lhs_row));
      one.source = pointer(base, k_.add(start, from));
      if (!shape_.is_inside()) {
        one.y = f_.narrow(from_y);
        one.x = f_.narrow(from_x);
      }
    }
    lhs_.push_back(one);
  }
}

void TileCopy::prepare_rhs() {
  bool turned = shape_.rhs_transposed;
  int64_t piece = tile_.rhs_piece(shape_), pieces = (turned ? tile_.depth(size_) : tile_.columns) / piece, lines = k_.threads() / pieces;
  Value along = k_.mul(k_.rem(k_.thread(), k_.index(pieces)), piece), line = k_.div(k_.thread(), k_.index(pieces));
  Value depth = turned ? along : line, in_tile = turned ? line : along;
  rhs_depth_ = f_.narrow(depth);
  int64_t row_bytes = tile_.rhs_row_bytes(shape_);
  bool scattered = turned && !shape_.tensor_cores;  // [columns, depth] to [depth, columns]
  Value shared = turned && !scattered ? k_.add(k_.mul(line, row_bytes), k_.mul(along, size_))
                                      : k_.add(k_.mul(depth, row_bytes), k_.mul(in_tile, size_));
  rhs_shared_ = f_.narrow(k_.add(shared, tile_.lhs_bytes()));
  Value start = k_.add(k_.extent(shape_.rhs_start), k_.mul(f_.batch, k_.extent(shape_.rhs_batch)));
  int64_t pitch = shape_.rhs_row;
  Value column = k_.add(f_.first_column, in_tile);
  start = k_.add(start, turned ? k_.add(k_.mul(column, pitch), depth) : k_.add(k_.mul(depth, pitch), column));
  Value base = k_.operand(shape_.rhs.getArgNumber());
  int64_t count = turned ? tile_.columns : tile_.depth(size_), pitch_bytes = pitch * shape_.rhs_element_bytes();
  bool far = count * pitch_bytes >= farthest_offset;
  Value source = rhs_pointer(base, start), zero;
  auto load_zero = [&](Value at, int64_t lanes) {
    Value first =
        k_.min(shape_.is_conv ? k_.add(k_.mul(f_.batch, shape_.columns), at) : at, k_.index(shape_.columns * shape_.groups - lanes));
    return k_.load(k_.operand(shape_.zero.getArgNumber()), first, k_.builder.getF32Type(), lanes);
  };
  if (shape_.zero && !turned) zero = load_zero(column, piece);
  for (int64_t further = 0; further < count; further += lines) {
    Piece one = {};
    one.base = base;
    one.source = far ? rhs_pointer(base, k_.add(start, further * pitch)) : source;
    one.source_offset = far ? 0 : further * pitch_bytes;
    one.zero = shape_.zero && turned
                   ? k_.splat(k_.make<vector::ExtractOp>(load_zero(k_.add(column, further), 1), ArrayRef<int64_t>{0}), piece)
                   : zero;
    one.depth = turned ? 0 : further;
    one.shared_offset = further * (scattered ? size_ : row_bytes);
    Value here = turned ? k_.add(column, further) : column;
    if (shape_.columns % tile_.columns != 0) one.is_there = k_.less(here, k_.index(shape_.columns));
    rhs_.push_back(one);
  }
}

TileCopy::Position TileCopy::position(Value step) {
  Position at;
  int64_t depth = tile_.depth(size_);
  at.in_range = f_.inside(step, f_.narrow(f_.end_step));
  auto add = [&](Value a, Value b) { return k_.make<arith::AddIOp>(a, b); };
  auto mul = [&](Value a, int64_t b) { return k_.make<arith::MulIOp>(a, f_.word(b)); };
  auto div = [&](Value a, int64_t b) { return k_.make<arith::DivUIOp>(a, f_.word(b)); };
  auto rem = [&](Value a, int64_t b) { return k_.make<arith::RemUIOp>(a, f_.word(b)); };
  Value first_channel = mul(step, depth), tap = f_.word(0), channel;
  if (tile_.is_flat(shape_)) {  // taps and channels in a row
    at.channel = first_channel;
    at.rhs_first = f_.widen(first_channel);
    Value here = add(first_channel, lhs_depth_);
    if (shape_.depth() % depth != 0) at.lhs_is_there = f_.inside(here, f_.word(shape_.depth()));
    tap = shape_.taps > 1 ? div(here, shape_.channels) : tap;
    channel = shape_.taps > 1 ? rem(here, shape_.channels) : here;
  } else {
    // All taps of the same channels one after the other: they read mostly the same elements, which are still in the first-level cache.
    tap = rem(step, shape_.taps);
    at.channel = mul(div(step, shape_.taps), depth);
    at.rhs_first = f_.widen(add(mul(tap, shape_.channels), at.channel));
    channel = add(at.channel, lhs_depth_);
    if (shape_.channels % depth != 0) at.lhs_is_there = f_.inside(channel, f_.word(shape_.channels));
  }
  at.tap_y = mul(div(tap, shape_.kernel_width), shape_.dilation_height);
  at.tap_x = mul(rem(tap, shape_.kernel_width), shape_.dilation_width);
  Value from = k_.add(k_.mul(f_.widen(at.tap_y), shape_.lhs_line), k_.mul(f_.widen(at.tap_x), shape_.lhs_row));
  at.lhs_offset = k_.add(from, f_.widen(channel));
  return at;
}

void TileCopy::add(Copies& copies, const Piece& piece, Value source, Value is_there, const Position& at, Value shared, int64_t bytes,
                   bool near) {
  int64_t from = piece.source_offset, to = piece.shared_offset;
  if (bytes >= smallest_async_bytes) {
    copies.start.push_back([=, this] {
      // Missing bytes become 0.
      Value there = is_there ? f_.choose(is_there, f_.word(bytes), f_.word(0)) : f_.word(bytes);
      std::string size = std::to_string(bytes), cache = near || bytes < 16 ? "ca" : "cg";
      f_.assembly(
          "@$3 cp.async." + cache + ".shared.global [$0+" + std::to_string(to) + "], [$1+" + std::to_string(from) + "], " + size + ", $2;",
          "r,l,r,b", {shared, source, there, at.in_range});
    });
    return;
  }
  auto loaded = std::make_shared<Value>();
  Value first = piece.base;
  copies.start.push_back([=, this] {
    Value there = f_.both(is_there, at.in_range);
    Value value = k_.builder.create<LLVM::LoadOp>(k_.location, shape_.element, f_.choose(there, behind(source, from), first),
                                                  static_cast<unsigned>(bytes));
    *loaded = f_.choose(there, value, k_.constant(shape_.element, 0));
  });
  copies.finish.push_back([=, this] { f_.store_shared(*loaded, shared, to, static_cast<unsigned>(bytes)); });
}

void TileCopy::add_converted(Copies& copies, const Piece& piece, Value source, Value is_there, Value shared) {
  const int64_t count = tile_.rhs_piece(shape_);
  auto loaded = std::make_shared<Value>();
  copies.start.push_back([=, this] {
    auto type = k_.vector_type(k_.memory_type(shape_.rhs_element), count);
    *loaded = k_.builder.create<LLVM::LoadOp>(k_.location, type, f_.choose(is_there, behind(source, piece.source_offset), piece.base),
                                              static_cast<unsigned>(count * shape_.rhs_element_bytes()));
  });
  copies.finish.push_back([=, this] {
    Value value = k_.to_f32(*loaded, shape_.rhs_element);
    if (piece.zero) value = k_.make<arith::SubFOp>(value, piece.zero);
    if (!shape_.element.isF32()) value = k_.make<arith::TruncFOp>(k_.vector_type(shape_.element, count), value);
    value = f_.choose(is_there, value, k_.constant(value.getType(), 0));
    f_.store_shared(value, shared, piece.shared_offset, static_cast<unsigned>(count * size_));
  });
}

TileCopy::Copies TileCopy::step(Value step, Value stage) {
  Copies copies;
  Position at = position(step);
  Value lhs_shared = k_.make<arith::AddIOp>(stage, lhs_shared_), rhs_shared = k_.make<arith::AddIOp>(stage, rhs_shared_);
  llvm::DenseMap<Value, Value> moved;  // sources by their position in the first step
  auto move = [&](Value source, Value offset, bool is_rhs = false) {
    Value& there = moved[source];
    if (!there) there = is_rhs ? rhs_pointer(source, offset) : pointer(source, offset);
    return there;
  };
  for (const Piece& piece : lhs_) {
    Value is_there = f_.both(piece.is_there, at.lhs_is_there);
    if (piece.y) {
      Value y = k_.make<arith::AddIOp>(piece.y, at.tap_y), x = k_.make<arith::AddIOp>(piece.x, at.tap_x);
      is_there = f_.both(is_there, f_.both(f_.inside(y, f_.word(shape_.in_height)), f_.inside(x, f_.word(shape_.in_width))));
    }
    add(copies, piece, move(piece.source, at.lhs_offset), is_there, at, lhs_shared, shape_.lhs_piece() * size_, shape_.taps > 1);
  }
  int64_t pitch = shape_.rhs_transposed ? 1 : shape_.rhs_row;
  Value offset = k_.mul(at.rhs_first, pitch);
  bool partial = (tile_.is_flat(shape_) ? shape_.depth() : shape_.channels) % tile_.depth(size_) != 0;
  Value extent = f_.word(tile_.is_flat(shape_) ? shape_.depth() : shape_.channels);
  moved.clear();
  for (const Piece& piece : rhs_) {
    Value is_there = piece.is_there;
    if (partial) {
      Value depth = k_.make<arith::AddIOp>(k_.make<arith::AddIOp>(at.channel, rhs_depth_), f_.word(piece.depth));
      is_there = f_.both(is_there, f_.inside(depth, extent));
    }
    Value source = move(piece.source, offset, /*is_rhs=*/true);
    if (shape_.converts()) {
      add_converted(copies, piece, source, f_.both(is_there, at.in_range), rhs_shared);
    } else {
      add(copies, piece, source, is_there, at, rhs_shared, tile_.rhs_piece(shape_) * size_, false);
    }
  }
  return copies;
}

}  // namespace heddle::targets::cuda
