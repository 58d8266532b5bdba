// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See block_reader.h.
#include "compiler/targets/x86_64/block_reader.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

// Blocks have an even number of bytes and begin at even ones.
Value BlockReader::f16_at(int64_t byte) {
  Value half = k_.load(base_, k_.div(k_.add(at_, byte), k_.index(2)), k_.builder.getF16Type());
  return k_.make<arith::ExtFOp>(k_.builder.getF32Type(), half);
}

Value BlockReader::byte_at(int64_t byte, bool is_signed) {
  Value loaded = k_.load(base_, k_.add(at_, byte), k_.builder.getI8Type());
  Type i32 = k_.builder.getI32Type();
  return is_signed ? k_.make<arith::ExtSIOp>(i32, loaded) : k_.make<arith::ExtUIOp>(i32, loaded);
}

Value BlockReader::bytes_at(int64_t byte, bool is_signed) {
  Value loaded = k_.load(base_, k_.add(at_, byte), k_.builder.getI8Type(), lanes_);
  Type wide = k_.vector_type(k_.builder.getI32Type(), lanes_);
  return is_signed ? k_.make<arith::ExtSIOp>(wide, loaded) : k_.make<arith::ExtUIOp>(wide, loaded);
}

Value BlockReader::constant(int64_t value) const {
  return k_.constant(k_.vector_type(k_.builder.getI32Type(), lanes_), static_cast<double>(value));
}

Value BlockReader::bits(Value bytes, int64_t shift, int64_t mask) const {
  if (shift > 0) bytes = k_.make<arith::ShRUIOp>(bytes, constant(shift));
  return k_.make<arith::AndIOp>(bytes, constant(mask));
}

Value BlockReader::to_f32(Value integers) const {
  return k_.make<arith::SIToFPOp>(k_.vector_type(k_.builder.getF32Type(), lanes_), integers);
}

// All eight scales and minima of 6 bits at once: see ScaleAndMinimum of block_values.h.
void BlockReader::read_packed_scales() {
  constexpr int64_t packed = 4, half = 4;
  Type i32s = k_.vector_type(k_.builder.getI32Type(), half);
  auto bytes = [&](int64_t at) {
    return k_.make<arith::ExtUIOp>(i32s, k_.load(base_, k_.add(at_, packed + at), k_.builder.getI8Type(), half));
  };
  auto number = [&](int64_t value) { return k_.constant(i32s, static_cast<double>(value)); };
  auto values = [&](Value own, Value low, int64_t whole_at) -> Value {
    Value late = k_.make<arith::OrIOp>(low, k_.make<arith::ShLIOp>(k_.make<arith::ShRUIOp>(own, number(6)), number(4)));
    Value early = k_.make<arith::AndIOp>(own, number(63));
    Value all = k_.builder.create<vector::ShuffleOp>(k_.location, early, late, ArrayRef<int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
    Value floats = k_.make<arith::SIToFPOp>(k_.vector_type(k_.builder.getF32Type(), 2 * half), all);
    return k_.make<arith::MulFOp>(k_.splat(f16_at(whole_at), 2 * half), floats);
  };
  Value others = bytes(8);
  all_by_ = values(bytes(0), k_.make<arith::AndIOp>(others, number(15)), 0);
  all_less_ = values(bytes(4), k_.make<arith::ShRUIOp>(others, number(4)), 2);
}

const BlockReader::Scale& BlockReader::scale_of(int64_t group) {
  if (scale_.of == group) return scale_;
  scale_ = {group, {}, {}};
  if (type_.name == "Q6_K") {
    if (!whole_by_) whole_by_ = f16_at(208);
    Value own = k_.make<arith::SIToFPOp>(k_.builder.getF32Type(), byte_at(192 + group, true));
    scale_.by = spread(k_.make<arith::MulFOp>(whole_by_, own));
  } else if (type_.name == "Q4_K" || type_.name == "Q5_K") {
    if (!all_by_) read_packed_scales();
    auto one = [&](Value all) -> Value { return k_.builder.create<vector::ExtractOp>(k_.location, all, group); };
    scale_.by = spread(one(all_by_));
    scale_.less = spread(one(all_less_));
  } else {
    scale_.by = spread(f16_at(0));
  }
  return scale_;
}

Value BlockReader::values(int64_t first) {
  if (type_.name == "Q8_0") return k_.make<arith::MulFOp>(to_f32(bytes_at(2 + first, true)), scale_of(0).by);
  if (type_.name == "Q4_0") {
    Value q = bits(bytes_at(2 + first % 16), first / 16 * 4, 15);
    return k_.make<arith::MulFOp>(to_f32(k_.make<arith::SubIOp>(q, constant(8))), scale_of(0).by);
  }
  if (type_.name == "Q6_K") {
    const int64_t half = first / 128, part = first % 128 / 32;
    Value low = bits(bytes_at(64 * half + 32 * (part % 2) + first % 32), part / 2 * 4, 15);
    Value high = bits(bytes_at(128 + 32 * half + first % 32), part * 2, 3);
    Value q = k_.make<arith::OrIOp>(low, k_.make<arith::ShLIOp>(high, constant(4)));
    return k_.make<arith::MulFOp>(scale_of(first / 16).by, to_f32(k_.make<arith::SubIOp>(q, constant(32))));
  }
  const bool has_high_bits = type_.name == "Q5_K";
  const int64_t group = first / 32;
  Value q = bits(bytes_at((has_high_bits ? 48 : 16) + 32 * (group / 2) + first % 32), group % 2 * 4, 15);
  if (has_high_bits) {
    Value high = bits(bytes_at(16 + first % 32), group, 1);
    q = k_.make<arith::OrIOp>(q, k_.make<arith::ShLIOp>(high, constant(4)));
  }
  const Scale& scale = scale_of(group);
  return k_.make<arith::SubFOp>(k_.make<arith::MulFOp>(scale.by, to_f32(q)), scale.less);
}

}  // namespace heddle::targets::x86_64
