// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See tile_product.h. Which factors and sums a lane has is as in AMD's ISA documents of each chip (CDNA2, CDNA3: "Matrix Arithmetic Instructions";
// RDNA3, RDNA4: "Wave Matrix Multiply Accumulate"). The order of the depth is free, as long as it is the same on both sides, so a lane loads 16 bytes
// of one row at a time, and gives them to as many instructions as they are for.
#include "compiler/targets/amdgpu/tile_product.h"

#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::targets::amdgpu {

namespace {

using Values = KernelBuilder::Values;

constexpr int64_t load_bytes = tile_access_bytes;

// 256 threads compute a fragment of one result each.
class MultiplyAdd final : public TileProduct {
 public:
  MultiplyAdd(LlvmKernelBuilder& kernel, const LocalMemory& memory, const ProductShape& shape) : TileProduct(kernel, memory, shape) {
    down_ = shape.rows / fragment;
    across_ = shape.columns / fragment;
    group_down_ = k_.index(0);
    first_column_ = k_.index(0);
    row_ = k_.div(k_.thread(), k_.index(fragment));
    column_ = k_.rem(k_.thread(), k_.index(fragment));
    lhs_ = memory_.narrow(k_.mul(row_, shape.lhs_bytes));
    rhs_ = memory_.narrow(k_.mul(column_, shape.rhs_bytes));
  }

  Values zeros() const override { return Values(static_cast<size_t>(down_ * across_), k_.constant(shape_.sum, 0)); }

  Values add_products(Value lhs_address, Value rhs_address, ValueRange sums) const override {
    const int64_t count = load_bytes / shape_.element_bytes();
    Type element = shape_.element.isBF16() ? Type(k_.builder.getI16Type()) : shape_.element;
    VectorType type = k_.vector_type(element, count);
    Value lhs = memory_.add(lhs_address, lhs_), rhs = memory_.add(rhs_address, rhs_);
    return k_.loop(k_.index(0), k_.index(shape_.step_bytes), k_.index(load_bytes), sums, [&](Value depth, ValueRange carried) {
      Values next(carried.begin(), carried.end());
      Value at = memory_.narrow(depth);
      SmallVector<SmallVector<Value>> left = load(memory_.add(lhs, at), down_, shape_.lhs_bytes, type, shape_.lhs_unsigned),
                                      right = load(memory_.add(rhs, at), across_, shape_.rhs_bytes, type, shape_.rhs_unsigned);
      for (size_t e = 0; e < static_cast<size_t>(count); ++e) {
        for (size_t i = 0; i < left.size(); ++i) {
          for (size_t j = 0; j < right.size(); ++j) {
            Value& sum = next[i * right.size() + j];
            sum = llvm::isa<FloatType>(shape_.sum) ? k_.make<math::FmaOp>(left[i][e], right[j][e], sum)
                                                   : k_.make<arith::AddIOp>(k_.make<arith::MulIOp>(left[i][e], right[j][e]), sum);
          }
        }
      }
      return next;
    });
  }

  Values scaled_rows(ValueRange sums, Value factors) const override {
    Values scaled;
    Value own = memory_.add(factors, memory_.narrow(k_.mul(row_, 4)));
    for (int64_t i = 0; i < down_; ++i) {
      Value factor = memory_.load(shape_.sum, own, i * fragment * 4, 4);
      for (int64_t j = 0; j < across_; ++j) scaled.push_back(k_.make<arith::MulFOp>(sums[static_cast<size_t>(i * across_ + j)], factor));
    }
    return scaled;
  }

 private:
  // The elements of each fragment's row, in the type of the sums.
  SmallVector<SmallVector<Value>> load(Value address, int64_t fragments, int64_t row_bytes, VectorType type, bool is_unsigned) const {
    SmallVector<SmallVector<Value>> all;
    for (int64_t i = 0; i < fragments; ++i) {
      Value loaded = memory_.load(type, address, i * fragment * row_bytes, load_bytes);
      SmallVector<Value> elements;
      for (int64_t e = 0; e < type.getNumElements(); ++e)
        elements.push_back(widened(k_.builder.create<vector::ExtractOp>(k_.location, loaded, ArrayRef<int64_t>{e}), is_unsigned));
      all.push_back(std::move(elements));
    }
    return all;
  }

  Value widened(Value one, bool is_unsigned) const {
    if (one.getType() == shape_.sum) return one;
    if (shape_.element.isBF16()) {
      Type i32 = k_.builder.getI32Type();
      Value bits = k_.make<arith::ShLIOp>(k_.make<arith::ExtUIOp>(i32, one), k_.constant(i32, 16));
      return k_.make<arith::BitcastOp>(shape_.sum, bits);
    }
    if (llvm::isa<FloatType>(shape_.element)) return k_.make<arith::ExtFOp>(shape_.sum, one);
    return is_unsigned ? k_.make<arith::ExtUIOp>(shape_.sum, one) : k_.make<arith::ExtSIOp>(shape_.sum, one);
  }

  void store_fragment(Value sum, Value row, int64_t column_fragment, Value address) const override {
    Value to = exchange_address(address, k_.add(row, row_), column_);
    memory_.store(sum, to, column_fragment * fragment * shape_.sum_bytes(), static_cast<unsigned>(shape_.sum_bytes()));
  }

  Value row_, column_;  // i64, in a fragment
  Value lhs_, rhs_;     // i32: where this thread reads in a stage
};

// The instruction of a chip for factors of a type, and what a lane of a wave has of them.
struct MatrixInstruction {
  enum Kind : uint8_t { f32, f16, bf16, i8 } kind;
  MatrixUnit unit;

  static std::optional<MatrixInstruction> of(Type element, Type sum, const Chip& chip) {
    if (element.isF32() && sum.isF32() && amdgpu::is_mfma(chip.matrix_unit)) return MatrixInstruction{f32, chip.matrix_unit};
    if (element.isF16()) return MatrixInstruction{f16, chip.matrix_unit};
    if (element.isBF16()) return MatrixInstruction{bf16, chip.matrix_unit};
    if (element.isInteger(8) && sum.isInteger(32)) return MatrixInstruction{i8, chip.matrix_unit};
    return std::nullopt;
  }

  bool is_mfma() const { return amdgpu::is_mfma(unit); }
  int64_t element_bytes() const { return kind == f32 ? 4 : kind == i8 ? 1 : 2; }

  // A lane has bytes of a row of the left side and of a column of the right side, for one instruction.
  int64_t lane_bytes() const {
    if (kind == f32) return 4;
    switch (unit) {
      case MatrixUnit::mfma_cdna2:
        return kind == i8 ? 4 : 8;
      case MatrixUnit::mfma_cdna3:
        return 8;
      case MatrixUnit::wmma_rdna3:
        return kind == i8 ? 16 : 32;
      case MatrixUnit::wmma_rdna4:
        return kind == i8 ? 8 : 16;
    }
    llvm_unreachable("a matrix unit");
  }
  // How many lanes share a row, each with another part of the depth. On RDNA3, both halves of a wave have the same.
  int64_t parts() const { return is_mfma() ? 4 : unit == MatrixUnit::wmma_rdna4 ? 2 : 1; }

  // A wave has 16 x 16 sums: as many of a lane.
  int64_t sums() const { return is_mfma() ? 4 : 8; }
  // The row of sum `i` of a lane in the `part`th group of 16 lanes (i64) is part * of_part + i * of_sum. Its column is the lane's number in its group.
  int64_t row_of_part() const { return is_mfma() ? 4 : unit == MatrixUnit::wmma_rdna4 ? 8 : 1; }
  int64_t row_of_sum() const { return unit == MatrixUnit::wmma_rdna3 ? 2 : 1; }

  // What an instruction takes of a lane.
  Type operand(OpBuilder& builder) const {
    auto vector = [&](int64_t count, Type type) -> Type { return count == 1 ? type : VectorType::get({count}, type); };
    if (kind == f32) return builder.getF32Type();
    if (kind == i8)
      return is_mfma() ? Type(builder.getIntegerType(static_cast<unsigned>(lane_bytes() * 8)))
                       : vector(lane_bytes() / 4, builder.getI32Type());
    return vector(lane_bytes() / 2, kind == f16 ? Type(builder.getF16Type()) : Type(builder.getI16Type()));
  }

  // a_unsigned, b_unsigned: of bytes, and only where the instruction can have them (TileProduct::shifts_unsigned).
  Value emit(LlvmKernelBuilder& k, Value a, Value b, Value sum, bool a_unsigned = false, bool b_unsigned = false) const {
    const Type type = sum.getType();
    auto word = [&](int64_t value) -> Value { return k.builder.create<LLVM::ConstantOp>(k.location, k.builder.getI32Type(), value); };
    auto flag = [&](bool value) -> Value {
      return k.builder.create<LLVM::ConstantOp>(k.location, k.builder.getI1Type(), k.builder.getBoolAttr(value));
    };
    if (is_mfma()) {
      Value none = word(0);
      const SmallVector<Value> operands{a, b, sum, none, none, none};
      if (kind == f32) return k.builder.create<ROCDL::mfma_f32_16x16x4f32>(k.location, type, operands);
      if (kind == f16) return k.builder.create<ROCDL::mfma_f32_16x16x16f16>(k.location, type, operands);
      if (kind == bf16) return k.builder.create<ROCDL::mfma_f32_16x16x16bf16_1k>(k.location, type, operands);
      if (unit == MatrixUnit::mfma_cdna2) return k.builder.create<ROCDL::mfma_i32_16x16x16i8>(k.location, type, operands);
      return k.builder.create<ROCDL::mfma_i32_16x16x32_i8>(k.location, type, operands);
    }
    if (kind == i8) {
      Value saturates = flag(false);
      return k.builder.create<ROCDL::wmma_i32_16x16x16_iu8>(k.location, type,
                                                            ValueRange{flag(!a_unsigned), a, flag(!b_unsigned), b, sum, saturates});
    }
    if (kind == f16) return k.builder.create<ROCDL::wmma_f32_16x16x16_f16>(k.location, type, ValueRange{a, b, sum});
    return k.builder.create<ROCDL::wmma_f32_16x16x16_bf16>(k.location, type, ValueRange{a, b, sum});
  }
};

// A wave has some fragments below and next to each other.
//
// MFMA knows only bytes with a sign. Others are stored less 128, and with x = x' + 128, w = w' + 128,
//   sum x w' = sum x' w' + 128 sum w',   sum x' w = sum x' w' + 128 sum x',   sum x w = sum x' w' + 128 sum w' + 128 sum x' + 128^2 depth,
// where sums of one side are products with a matrix of ones: one more product for each fragment of a row, or of a column, of fragments. All modulo 2^32.
class MatrixProduct final : public TileProduct {
 public:
  MatrixProduct(LlvmKernelBuilder& kernel, const LocalMemory& memory, const ProductShape& shape, const Chip& chip,
                MatrixInstruction instruction)
      : TileProduct(kernel, memory, shape), instruction_(instruction) {
    const int64_t waves = tile_threads / chip.wave_size, waves_across = waves / waves_down(shape.rows);
    groups_down_ = waves_down(shape.rows);
    down_ = shape.rows / fragment / groups_down_;
    across_ = shape.columns / fragment / waves_across;
    Value wave = k_.div(k_.thread(), k_.index(chip.wave_size)), lane = k_.rem(k_.thread(), k_.index(chip.wave_size));
    group_down_ = k_.div(wave, k_.index(waves_across));
    first_column_ = k_.mul(k_.rem(wave, k_.index(waves_across)), across_ * fragment);
    line_ = k_.rem(lane, k_.index(fragment));
    part_ = k_.div(lane, k_.index(fragment));
    Value in_row = instruction_.parts() > 1 ? k_.mul(part_, load_bytes) : k_.index(0);
    Value row = k_.add(k_.mul(group_down_, down_ * fragment), line_), column = k_.add(first_column_, line_);
    lhs_ = memory_.narrow(k_.add(k_.mul(row, shape.lhs_bytes), in_row));
    rhs_ = memory_.narrow(k_.add(k_.mul(column, shape.rhs_bytes), in_row));
    shifts_lhs_ = shape.lhs_unsigned && shifts_unsigned(chip);
    shifts_rhs_ = shape.rhs_unsigned && shifts_unsigned(chip);
  }

  // Those of products, then those of columns of the right side, then those of rows of the left side.
  Values zeros() const override {
    const int64_t count = down_ * across_ + (shifts_lhs_ ? across_ : 0) + (shifts_rhs_ ? down_ : 0);
    return Values(static_cast<size_t>(count), k_.constant(k_.vector_type(shape_.sum, instruction_.sums()), 0));
  }

  Values finished(ValueRange sums, Value depth) const override {
    const auto products = static_cast<size_t>(down_ * across_), across = static_cast<size_t>(across_);
    Values result(sums.begin(), sums.begin() + static_cast<ptrdiff_t>(products));
    if (!shifts_lhs_ && !shifts_rhs_) return result;
    const Type type = result.front().getType();
    auto times = [&](Value value, int64_t bits) { return k_.make<arith::ShLIOp>(value, k_.constant(type, bits)); };
    Value both;
    if (shifts_lhs_ && shifts_rhs_) {
      Value factor = k_.make<arith::TruncIOp>(shape_.sum, depth);
      both = times(k_.make<vector::BroadcastOp>(type, factor), 2 * sign_bit);
    }
    for (auto [i, sum] : llvm::enumerate(result)) {
      if (shifts_lhs_) sum = k_.make<arith::AddIOp>(sum, times(sums[products + i % across], sign_bit));
      if (shifts_rhs_) sum = k_.make<arith::AddIOp>(sum, times(sums[products + (shifts_lhs_ ? across : 0) + i / across], sign_bit));
      if (both) sum = k_.make<arith::AddIOp>(sum, both);
    }
    return result;
  }

  Values add_products(Value lhs_address, Value rhs_address, ValueRange sums) const override {
    Values next(sums.begin(), sums.end());
    Value lhs = memory_.add(lhs_address, lhs_), rhs = memory_.add(rhs_address, rhs_);
    // What the lanes of a row load together, at least the factors of one instruction.
    const int64_t own = std::max(load_bytes, instruction_.lane_bytes()), together = own * instruction_.parts();
    for (int64_t depth = 0; depth < shape_.step_bytes; depth += together) {
      SmallVector<Values> left, right;
      for (int64_t i = 0; i < down_; ++i) left.push_back(load(lhs, i * fragment * shape_.lhs_bytes + depth, own));
      for (int64_t j = 0; j < across_; ++j) right.push_back(load(rhs, j * fragment * shape_.rhs_bytes + depth, own));
      for (size_t n = 0; n < left.front().size(); ++n) {
        for (size_t i = 0; i < left.size(); ++i) {
          for (size_t j = 0; j < right.size(); ++j) {
            Value& sum = next[i * right.size() + j];
            sum = instruction_.emit(k_, left[i][n], right[j][n], sum, shape_.lhs_unsigned, shape_.rhs_unsigned);
          }
        }
        size_t after = left.size() * right.size();
        for (size_t j = 0; shifts_lhs_ && j < right.size(); ++j, ++after)
          next[after] = instruction_.emit(k_, ones(), right[j][n], next[after]);
        for (size_t i = 0; shifts_rhs_ && i < left.size(); ++i, ++after)
          next[after] = instruction_.emit(k_, left[i][n], ones(), next[after]);
      }
    }
    return next;
  }

  Values scaled_rows(ValueRange sums, Value factors) const override {
    Values scaled;
    Value first = k_.add(k_.mul(group_down_, down_ * fragment), k_.mul(part_, instruction_.row_of_part()));
    Value own = memory_.add(factors, memory_.narrow(k_.mul(first, 4)));
    for (int64_t i = 0; i < down_; ++i) {
      Value rows = k_.constant(k_.vector_type(shape_.sum, instruction_.sums()), 0);
      for (int64_t e = 0; e < instruction_.sums(); ++e) {
        Value factor = memory_.load(shape_.sum, own, (i * fragment + e * instruction_.row_of_sum()) * 4, 4);
        rows = k_.builder.create<vector::InsertOp>(k_.location, factor, rows, ArrayRef<int64_t>{e});
      }
      for (int64_t j = 0; j < across_; ++j) scaled.push_back(k_.make<arith::MulFOp>(sums[static_cast<size_t>(i * across_ + j)], rows));
    }
    return scaled;
  }

 private:
  static constexpr int64_t sign_bit = 7;  // of a byte

  // A lane's bytes of a matrix of ones, for MFMA.
  Value ones() const {
    const Type type = instruction_.operand(k_.builder);
    const APInt bytes = APInt::getSplat(type.getIntOrFloatBitWidth(), APInt(8, 1));
    return k_.builder.create<arith::ConstantOp>(k_.location, k_.builder.getIntegerAttr(type, bytes));
  }

  // The operands of one instruction after the other.
  Values load(Value address, int64_t offset, int64_t bytes) const {
    const Type operand = instruction_.operand(k_.builder);
    const Type element = getElementTypeOrSelf(operand);
    auto width = [](Type type) { return static_cast<int64_t>(type.getIntOrFloatBitWidth()) / 8; };
    const int64_t count = instruction_.lane_bytes() / width(element), each = load_bytes / width(element);
    Values loaded, operands;
    for (int64_t at = 0; at < bytes; at += load_bytes)
      loaded.push_back(memory_.load(k_.vector_type(element, each), address, offset + at, load_bytes));
    if (loaded.size() == 2) {
      SmallVector<int64_t> all;
      for (int64_t i = 0; i < 2 * each; ++i) all.push_back(i);
      operands.push_back(k_.builder.create<vector::ShuffleOp>(k_.location, loaded[0], loaded[1], all));
      return operands;
    }
    for (int64_t first = 0; first < each; first += count) {
      if (count == each) {
        operands.push_back(loaded.front());
      } else if (count == 1) {
        operands.push_back(k_.builder.create<vector::ExtractOp>(k_.location, loaded.front(), ArrayRef<int64_t>{first}));
      } else {
        operands.push_back(k_.builder.create<vector::ExtractStridedSliceOp>(k_.location, loaded.front(), ArrayRef<int64_t>{first},
                                                                            ArrayRef<int64_t>{count}, ArrayRef<int64_t>{1}));
      }
    }
    return operands;
  }

  void store_fragment(Value sums, Value row, int64_t column_fragment, Value address) const override {
    Value first = k_.add(row, k_.mul(part_, instruction_.row_of_part()));
    Value to = exchange_address(address, first, k_.add(first_column_, line_));
    for (int64_t i = 0; i < instruction_.sums(); ++i) {
      Value one = k_.builder.create<vector::ExtractOp>(k_.location, sums, ArrayRef<int64_t>{i});
      const int64_t offset = i * instruction_.row_of_sum() * shape_.exchange_bytes + column_fragment * fragment * shape_.sum_bytes();
      memory_.store(one, to, offset, static_cast<unsigned>(shape_.sum_bytes()));
    }
  }

  MatrixInstruction instruction_;
  bool shifts_lhs_, shifts_rhs_;  // whether that side is stored less 128
  Value line_, part_;             // i64: this lane in its group of 16, and the number of the group
  Value lhs_, rhs_;               // i32: where this lane reads in a stage
};

}  // namespace

Value TileProduct::exchange_address(Value address, Value row, Value column) const {
  return memory_.add(address, memory_.narrow(k_.add(k_.mul(row, shape_.exchange_bytes), k_.mul(column, shape_.sum_bytes()))));
}

void TileProduct::store_band(ValueRange sums, int64_t band, Value address) const {
  const int64_t count = down_ / shape_.bands;
  for (int64_t i = 0; i < count; ++i) {
    Value row = k_.mul(k_.add(k_.mul(group_down_, count), i), fragment);
    for (int64_t j = 0; j < across_; ++j) store_fragment(sums[static_cast<size_t>((band * count + i) * across_ + j)], row, j, address);
  }
}

Value TileProduct::row_of(Value row, int64_t band) const {
  const int64_t count = down_ / shape_.bands;
  if (groups_down_ == 1) return k_.add(row, band * count * fragment);
  Value group = k_.div(row, k_.index(count * fragment)), inside = k_.rem(row, k_.index(count * fragment));
  return k_.add(k_.mul(group, down_ * fragment), k_.add(inside, band * count * fragment));
}

bool TileProduct::has_matrices(Type element, Type sum, const Chip& chip) {
  return MatrixInstruction::of(element, sum, chip).has_value();
}

std::unique_ptr<TileProduct> TileProduct::make(LlvmKernelBuilder& kernel, const LocalMemory& memory, const ProductShape& shape,
                                               const Chip& chip) {
  if (auto instruction = MatrixInstruction::of(shape.element, shape.sum, chip))
    return std::make_unique<MatrixProduct>(kernel, memory, shape, chip, *instruction);
  return std::make_unique<MultiplyAdd>(kernel, memory, shape);
}

}  // namespace heddle::targets::amdgpu
