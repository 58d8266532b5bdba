// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-multiply-bytes: products and convolutions of two quantized tensors become those of their bytes, summed in 32 bits, for devices that have
// instructions for that. Zero points and scales are applied to the sums. Others compute them in f32 (heddle-keep-quantized), or ConvInteger in i32.
#include "compiler/passes/passes.h"

#include <cstdint>
#include <limits>

#include "compiler/ir/tx.h"
#include "compiler/passes/slots.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// Below these, kernels of bytes are no faster.
constexpr int64_t fewest_rows = 8, fewest_columns = 8, shortest_sum = 8;

bool is_byte(Value value) {
  return tx::element_of(value).isInteger(8);
}

// The one number that all elements of a constant are, if they are known and whole.
std::optional<int64_t> known_number(Value value) {
  while (Operation* op = value.getDefiningOp()) {
    if (llvm::isa<tx::BroadcastOp, tx::ReshapeOp, tx::TransposeOp, tx::CastOp>(op)) {
      value = op->getOperand(0);
      continue;
    }
    auto constant = llvm::dyn_cast<tx::ConstantOp>(op);
    auto splat = constant ? llvm::dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
    if (!splat || !splat.isSplat()) return {};
    if (auto integer = llvm::dyn_cast<IntegerType>(splat.getElementType())) {
      if (integer.getWidth() > 32) return {};
      const APInt number = splat.getSplatValue<APInt>();
      return integer.isUnsigned() ? static_cast<int64_t>(number.getZExtValue()) : number.getSExtValue();
    }
    const APFloat number = splat.getSplatValue<APFloat>();
    APSInt whole(64, /*isUnsigned=*/false);
    bool is_exact = false;
    if (number.convertToInteger(whole, APFloat::rmTowardZero, &is_exact) != APFloat::opOK || !is_exact) return {};
    return whole.getExtValue();
  }
  return {};
}

// A number that all elements are: a value of rank 0. Null if they may differ.
Value one_number(OpBuilder& builder, Value value) {
  if (auto broadcast = value.getDefiningOp<tx::BroadcastOp>())
    return tx::tensor(broadcast.getInput()).getRank() == 0 ? broadcast.getInput() : Value();
  auto constant = value.getDefiningOp<tx::ConstantOp>();
  auto splat = constant ? llvm::dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
  if (!splat) return {};
  auto scalar = RankedTensorType::get({}, tx::element_of(value));
  return builder.create<tx::ConstantOp>(value.getLoc(), scalar, splat.resizeSplat(scalar));
}

// (bytes - zero) * scale, as a side of a contraction reads it.
struct Quantized {
  Value bytes;                    // before `moves`
  Value zero, scale;              // tensors of all their elements; null: 0, 1
  SmallVector<Operation*> moves;  // transposes and reshapes of the bytes, in order
};

std::optional<Quantized> read_quantized(Value value) {
  if (is_byte(value)) return Quantized{value, {}, {}, {}};
  Operation* op = value.getDefiningOp();
  if (!op || !(tx::element_of(value).isF32() || tx::element_of(value).isInteger(32))) return {};
  if (llvm::isa<tx::CastOp>(op)) return is_byte(op->getOperand(0)) ? std::optional(Quantized{op->getOperand(0), {}, {}, {}}) : std::nullopt;
  if (!llvm::isa<tx::TransposeOp, tx::ReshapeOp, tx::SubOp, tx::MulOp>(op)) return {};
  auto quantized = read_quantized(op->getOperand(0));
  if (!quantized || is_byte(op->getOperand(0))) return {};
  if (llvm::isa<tx::TransposeOp, tx::ReshapeOp>(op)) {
    quantized->moves.push_back(op);
    return quantized;
  }
  if (quantized->scale) return {};
  if (llvm::isa<tx::MulOp>(op)) {
    if (!tx::element_of(value).isF32()) return {};
    quantized->scale = op->getOperand(1);
    return quantized;
  }
  if (quantized->zero) return {};
  quantized->zero = op->getOperand(1);
  return quantized;
}

class Rewriter {
 public:
  explicit Rewriter(Operation* op) : op_(op), builder_(op), loc_(op->getLoc()) {}

  void run() {
    auto matmul = llvm::dyn_cast<tx::MatmulOp>(op_);
    auto conv = llvm::dyn_cast<tx::ConvOp>(op_);
    const Type element = tx::element_of(op_->getResult(0));
    is_float_ = element.isF32();
    if (!is_float_ && !element.isInteger(32)) return;
    if (conv ? conv.getPackedShape().has_value() : matmul.getPackedShape() || matmul.getBlocks() || matmul.getTransposeLhs()) return;
    if (is_byte(op_->getOperand(0))) return;  // it is one already
    auto lhs = read_quantized(op_->getOperand(0)), rhs = read_quantized(op_->getOperand(1));
    if (!lhs || !rhs || rhs->scale) return;
    if (Value zero = conv ? conv.getZero() : matmul.getZero()) {
      if (rhs->zero || !rhs->moves.empty()) return;
      rhs->zero = zero;
    }
    if (!is_worthwhile(conv)) return;
    if (lhs->zero && !(lhs_zero_ = zero_point(lhs->zero, tx::element_of(lhs->bytes)))) return;
    if (lhs->scale && !(scale_ = one_number(builder_, lhs->scale))) return;
    std::optional<int64_t> known = lhs->zero ? known_number(lhs->zero) : 0;
    if (known == 0) lhs_zero_ = Value();

    // A right side of 0 to 255 around 128 has a sign without it.
    bool shifts = false;
    if (rhs->zero) {
      const auto own = known_number(rhs->zero);
      shifts = own == 128 && tx::element_of(rhs->bytes).isUnsignedInteger();
      if (own != 0 && !shifts && !(rhs_zero_ = zero_points(rhs->zero, tx::element_of(rhs->bytes)))) return;
      if (rhs_zero_ && conv && conv.getGroups() != 1) return;
    }
    // Otherwise a sum of floats would be close to what does not fit.
    const int64_t largest = rhs_zero_ ? 255 : tx::element_of(rhs->bytes).isUnsignedInteger() && !shifts ? 255 : 128;
    if (is_float_ && depth_ > std::numeric_limits<int32_t>::max() / (255 * largest)) return;

    Value left = moved(*lhs), right = shifts ? with_sign(moved(*rhs)) : moved(*rhs);
    rewrite(conv, matmul, left, right, known);
  }

 private:
  // Whether there are enough rows, columns and products. Sets depth_.
  bool is_worthwhile(tx::ConvOp conv) {
    const RankedTensorType result = tx::tensor(op_->getResult(0)), rhs = tx::tensor(op_->getOperand(1));
    const int64_t rank = result.getRank();
    int64_t columns = result.getDimSize(rank - 1);
    if (conv) {
      if (!rhs.hasStaticShape() || llvm::any_of(conv.getPadsLow(), [](int64_t pad) { return pad < 0; }) ||
          llvm::any_of(conv.getPadsHigh(), [](int64_t pad) { return pad < 0; }))
        return false;
      columns /= static_cast<int64_t>(conv.getGroups());
      depth_ = rhs.getNumElements() / std::max<int64_t>(1, rhs.getShape().back());
    } else {
      const bool transposed = llvm::cast<tx::MatmulOp>(op_).getTransposeRhs();
      depth_ = rhs.getDimSize(rhs.getRank() - (transposed ? 1 : 2));
      const int64_t rows = result.getDimSize(rank - 2);
      if (!ShapedType::isDynamic(rows) && rows < fewest_rows) return false;
    }
    return !ShapedType::isDynamic(columns) && columns >= fewest_columns && !ShapedType::isDynamic(depth_) && depth_ >= shortest_sum;
  }

  // The number in i32, of rank 0, if it is one that bytes of the type can be. Null if elements may differ.
  Value zero_point(Value value, Type byte) {
    Value number = one_number(builder_, value);
    if (!number) return {};
    if (auto cast = number.getDefiningOp<tx::CastOp>(); cast && tx::element_of(cast.getInput()) == byte)
      return converted(cast.getInput(), i32());
    const auto known = known_number(number);
    const int64_t low = byte.isUnsignedInteger() ? 0 : INT8_MIN;
    return known && *known >= low && *known <= low + UINT8_MAX ? converted(number, i32()) : Value();
  }

  // The same for the right side, or a vector with one for each of its columns.
  Value zero_points(Value value, Type byte) {
    auto cast = value.getDefiningOp<tx::CastOp>();
    const bool is_vector = tx::tensor(value).getRank() == 1 && cast && tx::element_of(cast.getInput()) == byte;
    return is_vector ? converted(cast.getInput(), i32()) : zero_point(value, byte);
  }

  Type i32() { return builder_.getI32Type(); }

  Value converted(Value value, Type element) {
    if (tx::element_of(value) == element) return value;
    return builder_.create<tx::CastOp>(loc_, tx::with_element_type(tx::tensor(value), element), value);
  }

  Value spread(Value value, RankedTensorType like, ArrayRef<int64_t> dimensions = {}) {
    return builder_.createOrFold<tx::BroadcastOp>(loc_, tx::with_element_type(like, tx::element_of(value)), value, dimensions);
  }

  Value number(Type element, int64_t value) {
    auto scalar = RankedTensorType::get({}, element);
    const APInt bits(element.getIntOrFloatBitWidth(), static_cast<uint64_t>(value));
    return builder_.create<tx::ConstantOp>(loc_, scalar, DenseElementsAttr::get(scalar, bits));
  }

  Value moved(const Quantized& quantized) {
    Value value = quantized.bytes;
    for (Operation* move : quantized.moves) {
      OperationState state(move->getLoc(), move->getName(), value,
                           tx::with_element_type(tx::tensor(move->getResult(0)), tx::element_of(value)), move->getAttrs());
      value = builder_.create(state)->getResult(0);
    }
    return value;
  }

  // Bytes from 0 to 255, less 128.
  Value with_sign(Value value) {
    Value wide = converted(value, i32());
    wide = builder_.create<tx::SubOp>(loc_, wide.getType(), wide, spread(number(i32(), 128), tx::tensor(wide)));
    return converted(wide, builder_.getI8Type());
  }

  // An image with the zero point around it, in place of the convolution's zeros.
  Value padded(Value image, tx::ConvOp conv, std::optional<int64_t> known) {
    RankedTensorType from = tx::tensor(image);
    SmallVector<AffineExpr> extents = tx::extents(from);
    SmallVector<int64_t> low(extents.size(), 0), high(extents.size(), 0);
    for (size_t i = 0; i < conv.getPadsLow().size(); ++i) {
      low[1 + i] = conv.getPadsLow()[i];
      high[1 + i] = conv.getPadsHigh()[i];
      extents[1 + i] = extents[1 + i] + (low[1 + i] + high[1 + i]);
    }
    RankedTensorType to = tx::tensor_type(extents, from.getElementType());
    auto pad = [&](RankedTensorType type, Value value, double filler) -> Value {
      return builder_.create<tx::PadOp>(loc_, type, value, low, high, APFloat(filler));
    };
    if (known) return pad(to, image, static_cast<double>(*known));
    const Type i1 = builder_.getI1Type();
    Value inside = pad(tx::with_element_type(to, i1), spread(number(i1, 1), tx::with_element_type(from, i1)), 0);
    Value zero = spread(converted(lhs_zero_, from.getElementType()), to);
    return builder_.create<tx::SelectOp>(loc_, to, inside, pad(to, image, 0), zero);
  }

  // Sums over some dimensions, in i32.
  Value summed(Value value, ArrayRef<int64_t> axes) {
    SmallVector<AffineExpr> left;
    for (auto [i, extent] : llvm::enumerate(tx::extents(tx::tensor(value)))) {
      if (!llvm::is_contained(axes, static_cast<int64_t>(i))) left.push_back(extent);
    }
    return builder_.create<tx::ReduceOp>(loc_, tx::tensor_type(left, i32()), tx::ReduceKind::sum, converted(value, i32()), axes);
  }

  // The sums over the windows of a convolution, of an image without channels: a convolution with a filter of ones.
  Value of_windows(Value image, tx::ConvOp conv) {
    SmallVector<AffineExpr> extents = tx::extents(tx::tensor(image)), results = tx::extents(tx::tensor(conv.getResult()));
    extents.push_back(builder_.getAffineConstantExpr(1));
    results.back() = extents.back();
    SmallVector<int64_t> window(tx::tensor(conv.getFilter()).getShape().drop_back(2));
    window.append({1, 1});
    Value ones = spread(number(i32(), 1), RankedTensorType::get(window, i32()));
    Value sums = builder_.create<tx::ConvOp>(
        loc_, tx::tensor_type(results, i32()), builder_.create<tx::ReshapeOp>(loc_, tx::tensor_type(extents, i32()), image), ones, Value(),
        conv.getStrides(), conv.getPadsLow(), conv.getPadsHigh(), conv.getDilations(), 1, DenseI64ArrayAttr());
    results.pop_back();
    return builder_.create<tx::ReshapeOp>(loc_, tx::tensor_type(results, i32()), sums);
  }

  void rewrite(tx::ConvOp conv, tx::MatmulOp matmul, Value left, Value right, std::optional<int64_t> known) {
    const RankedTensorType type = tx::with_element_type(tx::tensor(op_->getResult(0)), i32());
    const int64_t rank = type.getRank();
    Operation* copy = builder_.clone(*op_);
    if (conv) {
      auto own = llvm::cast<tx::ConvOp>(copy);
      own.getZeroMutable().clear();
      const SmallVector<int64_t> none(conv.getPadsLow().size(), 0);
      if (lhs_zero_ && (conv.getPadsLow() != ArrayRef<int64_t>(none) || conv.getPadsHigh() != ArrayRef<int64_t>(none))) {
        left = padded(left, conv, known);
        own.setPadsLow(none);
        own.setPadsHigh(none);
        copy->moveAfter(left.getDefiningOp());
        builder_.setInsertionPointAfter(copy);
      }
    } else {
      llvm::cast<tx::MatmulOp>(copy).getZeroMutable().clear();
    }
    copy->setOperand(0, left);
    copy->setOperand(1, right);
    copy->getResult(0).setType(type);
    Value result = copy->getResult(0);
    auto subtract = [&](Value value) { result = builder_.create<tx::SubOp>(loc_, type, result, value); };
    auto times = [&](Value sums, Value zero) -> Value {
      return builder_.create<tx::MulOp>(loc_, sums.getType(), sums, spread(zero, tx::tensor(sums)));
    };
    // (x - x0) (w - w0) = x w - x0 (sums of w's columns) - w0 (sums of the rows of x - x0)
    if (lhs_zero_) {
      const int64_t own = tx::tensor(right).getRank();
      SmallVector<int64_t> axes;
      for (int64_t d = 0; d + 1 < own; ++d) axes.push_back(d);
      if (matmul) axes = {matmul.getTransposeRhs() ? own - 1 : own - 2};
      SmallVector<int64_t> places;
      for (int64_t d = 0; matmul && own > 2 && d < own - 2; ++d) places.push_back(d);
      places.push_back(rank - 1);
      subtract(spread(times(summed(right, axes), lhs_zero_), type, places));
    }
    if (rhs_zero_) {
      Value wide = converted(left, i32());
      if (lhs_zero_) wide = builder_.create<tx::SubOp>(loc_, wide.getType(), wide, spread(lhs_zero_, tx::tensor(wide)));
      Value sums = summed(wide, {rank - 1});
      if (conv) sums = of_windows(sums, llvm::cast<tx::ConvOp>(copy));
      SmallVector<int64_t> places, column;
      for (int64_t d = 0; d + 1 < rank; ++d) places.push_back(d);
      if (tx::tensor(rhs_zero_).getRank() == 1) column.push_back(rank - 1);
      subtract(builder_.create<tx::MulOp>(loc_, type, spread(sums, type, places), spread(rhs_zero_, type, column)));
    }
    if (is_float_) {
      result = converted(result, builder_.getF32Type());
      if (scale_) result = builder_.create<tx::MulOp>(loc_, result.getType(), result, spread(scale_, tx::tensor(result)));
    }
    op_->getResult(0).replaceAllUsesWith(result);
    op_->erase();
  }

  Operation* op_;
  OpBuilder builder_;
  Location loc_;
  bool is_float_ = false;
  int64_t depth_ = 0;
  Value lhs_zero_;  // of rank 0, i32; null: 0
  Value rhs_zero_;  // the same, or of rank 1 with one for each column
  Value scale_;     // of rank 0, f32; null: 1
};

struct MultiplyBytes : PassWrapper<MultiplyBytes, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MultiplyBytes)
  explicit MultiplyBytes(const Devices& devices) : devices_(devices) {}
  StringRef getArgument() const final { return "heddle-multiply-bytes"; }
  StringRef getDescription() const final {
    return "conv(cast(x) - broadcast z, w): f32  ->  cast(conv(x, w): i32 - broadcast (z * sum w)) for x and w of 8 bits; the same for "
           "matmul";
  }
  void runOnOperation() override {
    Slots slots(getOperation());
    auto module = getOperation()->getParentOfType<ModuleOp>();
    SmallVector<Operation*> found;
    getOperation().walk([&](Operation* op) {
      if (!llvm::isa<tx::ConvOp, tx::MatmulOp>(op)) return;
      if (devices_.multiply_bytes(tx::family_of(module, slots.of_or_default(op)))) found.push_back(op);
    });
    for (Operation* op : found) Rewriter(op).run();
  }

 private:
  const Devices& devices_;
};

}  // namespace

std::unique_ptr<Pass> multiply_bytes(const Devices& devices) {
  return std::make_unique<MultiplyBytes>(devices);
}

}  // namespace heddle::passes
