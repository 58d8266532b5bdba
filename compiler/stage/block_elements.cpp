// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The value at a place of a matrix whose rows are stored in blocks, computed from bytes. The arithmetic is that of sdk/module/block_values.h, in f32 and
// in its order, so that values are equal bit by bit.
#include "compiler/ir/narrow.h"
#include "compiler/stage/stage_body.h"

using namespace mlir;

namespace heddle::stage {

namespace {

// Reads and computes for one value. Indices of bytes are sums of terms (k floordiv c) * m and k mod c, so that neighboring values have neighboring bytes
// where that is possible (memory_step() of targets/stage_emitter.h).
class BlockElement {
 public:
  BlockElement(StageBody& body, Value stored, const tx::BlockType& type, ArrayRef<AffineExpr> at)
      : b_(body), location_(body.builder.getUnknownLoc()), stored_(stored), type_(type), row_(at.drop_back()), k_(at.back()) {}

  Value value() {
    if (auto nibbles = tx::Nibbles::named(type_.name)) return element_of_panel(*nibbles);
    if (type_.name == "Q4_0") return mul(to_f32(sub(nibble(whole(2) + k_ % 16, part_of(16, 2)), 8)), f16_at(0));
    if (type_.name == "Q8_0") return mul(to_f32(signed_at(whole(2) + k_ % 32)), f16_at(0));
    if (type_.name == "Q6_K") return q6_k();
    return q4_k_or_q5_k(type_.name == "Q5_K");
  }

 private:
  // k floordiv `size`, modulo `count`.
  AffineExpr part_of(int64_t size, int64_t count) const { return k_.floorDiv(size) - k_.floorDiv(size * count) * count; }
  // The place of a byte of the block.
  AffineExpr whole(int64_t byte) const { return k_.floorDiv(type_.elements) * type_.bytes + byte; }

  Type i32() { return b_.builder.getI32Type(); }
  template <typename OpT>
  Value make(Value a, Value b) {
    return b_.builder.create<OpT>(location_, a, b);
  }
  Value constant(int32_t value) { return b_.builder.create<arith::ConstantIntOp>(location_, value, 32); }
  Value sub(Value a, int32_t b) { return make<arith::SubIOp>(a, constant(b)); }
  Value shifted_right(Value a, Value by) { return make<arith::ShRUIOp>(a, by); }
  Value masked(Value a, int32_t mask) { return make<arith::AndIOp>(a, constant(mask)); }
  Value mul(Value a, Value b) { return make<arith::MulFOp>(a, b); }
  Value to_f32(Value integer) { return b_.builder.create<arith::SIToFPOp>(location_, b_.builder.getF32Type(), integer); }

  Value read(AffineExpr byte) {
    SmallVector<AffineExpr> place(row_);
    place.push_back(byte);
    return b_.element(stored_, place);
  }
  Value byte_at(AffineExpr byte) { return b_.builder.create<arith::ExtUIOp>(location_, i32(), read(byte)); }
  Value signed_at(AffineExpr byte) { return b_.builder.create<arith::ExtSIOp>(location_, i32(), read(byte)); }
  Value f16_at(int64_t byte) { return half_at(whole(byte)); }
  Value half_at(AffineExpr byte) {
    Type i16 = b_.builder.getI16Type();
    auto wide = [&](AffineExpr at) -> Value { return b_.builder.create<arith::ExtUIOp>(location_, i16, read(at)); };
    Value high = make<arith::ShLIOp>(wide(byte + 1), b_.builder.create<arith::ConstantIntOp>(location_, 8, 16));
    Value half = b_.builder.create<arith::BitcastOp>(location_, b_.builder.getF16Type(), make<arith::OrIOp>(wide(byte), high));
    return b_.builder.create<arith::ExtFOp>(location_, b_.builder.getF32Type(), half);
  }
  // The value of an index, i32.
  Value computed(AffineExpr index) { return b_.builder.create<arith::TruncIOp>(location_, i32(), b_.computed(index)); }
  Value times(Value a, int32_t factor) { return make<arith::MulIOp>(a, constant(factor)); }

  // The low half of a byte, or the high one if `half` is 1.
  Value nibble(AffineExpr byte, AffineExpr half) { return masked(shifted_right(byte_at(byte), times(computed(half), 4)), 15); }

  // Scale (0) or minimum (4) of 32 values, of 6 bits: see ScaleAndMinimum of block_values.h.
  Value packed_scale(int64_t which) {
    AffineExpr quarter = part_of(32, 4);
    Value own = byte_at(whole(4 + which) + quarter), others = byte_at(whole(4 + 8) + quarter);
    Value low = masked(which == 0 ? others : shifted_right(others, constant(4)), 15);
    Value late = make<arith::OrIOp>(low, make<arith::ShLIOp>(shifted_right(own, constant(6)), constant(4)));
    Value is_late = b_.builder.create<arith::CmpIOp>(location_, arith::CmpIPredicate::ne, computed(part_of(128, 2)), constant(0));
    return b_.builder.create<arith::SelectOp>(location_, is_late, late, masked(own, 63));
  }

  Value q4_k_or_q5_k(bool has_high_bits) {
    Value by = mul(f16_at(0), to_f32(packed_scale(0))), less = mul(f16_at(2), to_f32(packed_scale(4)));
    Value q = nibble(whole(has_high_bits ? 48 : 16) + part_of(64, 4) * 32 + k_ % 32, part_of(32, 2));
    if (has_high_bits) {
      Value bit = masked(shifted_right(byte_at(whole(16) + k_ % 32), computed(part_of(32, 8))), 1);
      q = make<arith::OrIOp>(q, make<arith::ShLIOp>(bit, constant(4)));
    }
    return make<arith::SubFOp>(mul(by, to_f32(q)), less);
  }

  // A row is one of a panel, and its elements are at places that depend on all of these.
  Value element_of_panel(const tx::Nibbles& type) {
    constexpr int64_t columns = tx::Nibbles::columns;
    AffineExpr row = row_.back(), lane = row % columns, at = k_.floorDiv(type.elements) * type.panel_block_bytes();
    row_.back() = row.floorDiv(columns);
    AffineExpr in_block = k_ % type.elements;
    Value q = nibble(at + in_block.floorDiv(8) * (4 * columns) + lane * 4 + (in_block % 8).floorDiv(2) + type.panel_elements_at(), k_ % 2),
          scale;
    if (type.has_halves) {
      scale = half_at(at + lane * 2);
    } else {
      for (int64_t i = 0; i < 4; ++i) {
        Value byte = byte_at(at + lane * 4 + i);
        if (i > 0) byte = make<arith::ShLIOp>(byte, constant(static_cast<int32_t>(8 * i)));
        scale = scale ? make<arith::OrIOp>(scale, byte) : byte;
      }
      scale = b_.builder.create<arith::BitcastOp>(location_, b_.builder.getF32Type(), scale);
    }
    Value less = type.has_zeros ? make<arith::SubIOp>(q, byte_at(at + lane + type.panel_zeros_at())) : sub(q, 8);
    return mul(to_f32(less), scale);
  }

  Value q6_k() {
    Value by = mul(f16_at(208), to_f32(signed_at(whole(192) + part_of(16, 16))));
    Value low = nibble(whole(0) + part_of(128, 2) * 64 + part_of(32, 2) * 32 + k_ % 32, part_of(64, 2));
    Value high = byte_at(whole(128) + part_of(128, 2) * 32 + k_ % 32);
    high = masked(shifted_right(high, times(computed(part_of(32, 4)), 2)), 3);
    return mul(by, to_f32(sub(make<arith::OrIOp>(low, make<arith::ShLIOp>(high, constant(4))), 32)));
  }

  StageBody& b_;
  Location location_;
  Value stored_;
  const tx::BlockType& type_;
  SmallVector<AffineExpr> row_;
  AffineExpr k_;
};

}  // namespace

Value StageBody::decoded(Value stored, StringRef blocks, ArrayRef<AffineExpr> at) {
  for (size_t i = 0; i < gathered_.size(); ++i) {
    if (at.back().isFunctionOfDim(rank_ + static_cast<unsigned>(i))) return refuse("columns of blocks are looked up");
  }
  if (!operands_.contains(stored)) return refuse("blocks are computed in the region");
  return BlockElement(*this, stored, *tx::block_type(blocks), at).value();
}

}  // namespace heddle::stage
