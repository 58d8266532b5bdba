// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-read-dequantized: matrix products read weights of 4 bits with a scale for each block along the sums as they are stored. Everything else reads
// values, which are computed when the module is loaded if they are of constants.
#include "compiler/passes/passes.h"

#include "compiler/ir/bits.h"
#include "compiler/ir/narrow.h"
#include "compiler/passes/constant_expression.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// Ops that compute with the integers of one tx.dequantize.
class Integers {
 public:
  explicit Integers(tx::DequantizeOp op) : op_(op), builder_(op) {}

  // All values, as f32.
  Value values();
  // Nothing if no kernel reads such blocks.
  std::optional<tx::Nibbles> nibbles();
  // Of these for [N, K], K being the axis. An element has 8 added if it had a sign.
  Value panels(const tx::Nibbles& type);

 private:
  Value bytes();
  // Null if it is always 8, else of ui8.
  Value zeros();
  // The bytes of the elements of a tensor, [..., elements * bytes].
  Value bytes_of(Value floats);
  // [rows, each...] as [panels, 16, each...].
  Value by_panels(Value value);

  RankedTensorType type(ArrayRef<int64_t> shape, Type element) { return RankedTensorType::get(shape, element); }
  Type byte() { return builder_.getIntegerType(8, /*isSigned=*/false); }

  Value splat(RankedTensorType type, int64_t number) {
    auto scalar = RankedTensorType::get({}, type.getElementType());
    const bool is_float = llvm::isa<FloatType>(type.getElementType());
    Attribute element = is_float ? Attribute(builder_.getFloatAttr(type.getElementType(), number))
                                 : Attribute(builder_.getIntegerAttr(type.getElementType(), number));
    Value constant =
        builder_.create<tx::ConstantOp>(op_.getLoc(), scalar, llvm::cast<ElementsAttr>(DenseElementsAttr::get(scalar, element)));
    return builder_.createOrFold<tx::BroadcastOp>(op_.getLoc(), type, constant, ArrayRef<int64_t>{});
  }
  template <typename OpT>
  Value with(Value value, int64_t number) {
    return builder_.create<OpT>(op_.getLoc(), value.getType(), value, splat(tx::tensor(value), number));
  }
  Value cast(Value value, Type element) {
    if (tx::element_of(value) == element) return value;
    return builder_.create<tx::CastOp>(op_.getLoc(), tx::with_element_type(tx::tensor(value), element), value);
  }
  Value reshape(Value value, ArrayRef<int64_t> shape) {
    return builder_.createOrFold<tx::ReshapeOp>(op_.getLoc(), type(shape, tx::element_of(value)), value);
  }
  Value transpose(Value value) {
    ArrayRef<int64_t> shape = tx::tensor(value).getShape();
    return builder_.create<tx::TransposeOp>(op_.getLoc(), type({shape[1], shape[0]}, tx::element_of(value)), value,
                                            ArrayRef<int64_t>{1, 0});
  }
  Value concat(ArrayRef<Value> parts, ArrayRef<int64_t> shape, int64_t axis = 2) {
    return builder_.create<tx::ConcatOp>(op_.getLoc(), type(shape, tx::element_of(parts[0])), parts, builder_.getI64IntegerAttr(axis));
  }
  Value permuted(Value value, ArrayRef<int64_t> order) {
    SmallVector<int64_t> shape;
    for (int64_t from : order) shape.push_back(tx::tensor(value).getDimSize(from));
    return builder_.create<tx::TransposeOp>(op_.getLoc(), type(shape, tx::element_of(value)), value, order);
  }
  Value columns_last(Value value) { return op_.getAxis() == 1 ? value : transpose(value); }
  // Two matrices by turns of columns, [rows, columns * 2], or by turns of rows.
  Value by_turns(Value first, Value second, bool of_rows) {
    const int64_t rows = tx::tensor(first).getDimSize(0), columns = tx::tensor(first).getDimSize(1);
    const SmallVector<int64_t> each{rows, of_rows ? 1 : columns, of_rows ? columns : 1};
    SmallVector<int64_t> both(each);
    both[of_rows ? 1 : 2] = 2;
    Value all = concat({reshape(first, each), reshape(second, each)}, both, of_rows ? 1 : 2);
    return reshape(all, of_rows ? ArrayRef<int64_t>{rows * 2, columns} : ArrayRef<int64_t>{rows, columns * 2});
  }
  Value low(Value bytes) { return with<tx::BitAndOp>(bytes, 15); }
  Value high(Value bytes) { return with<tx::DivOp>(bytes, 16); }
  // Each element of a matrix of one for each block as often as a block has elements.
  Value spread(Value value, RankedTensorType to) {
    const auto axis = static_cast<int64_t>(op_.getAxis());
    SmallVector<int64_t> repeated(tx::tensor(value).getShape()), kept;
    repeated.insert(repeated.begin() + axis + 1, static_cast<int64_t>(op_.getBlock()));
    for (int64_t d = 0; d < 3; ++d) {
      if (d != axis + 1) kept.push_back(d);
    }
    value = builder_.create<tx::BroadcastOp>(op_.getLoc(), type(repeated, tx::element_of(value)), value, kept);
    return reshape(value, to.getShape());
  }

  tx::DequantizeOp op_;
  OpBuilder builder_;
};

Value Integers::values() {
  Value all = by_turns(low(op_.getInput()), high(op_.getInput()), /*of_rows=*/false);
  Type f32 = builder_.getF32Type();
  RankedTensorType to = tx::tensor(op_.getResult());
  if (op_.getIsSigned()) all = with<tx::SubOp>(with<tx::BitXorOp>(cast(all, builder_.getIntegerType(8)), 8), 8);
  all = cast(all, f32);
  if (op_.getZeros()) all = builder_.create<tx::SubOp>(op_.getLoc(), to, all, spread(cast(op_.getZeros(), f32), to));
  return builder_.create<tx::MulOp>(op_.getLoc(), to, all, spread(cast(op_.getScales(), f32), to));
}

Value Integers::bytes() {
  Value bytes = op_.getInput();
  if (op_.getIsSigned()) bytes = with<tx::BitXorOp>(bytes, 0x88);
  if (op_.getAxis() == 1) return bytes;
  // [K, N / 2], with two of N in a byte: each half becomes [N / 2, K / 2] with two of K in a byte.
  auto paired = [&](Value half) -> Value {
    Value all = transpose(half);
    RankedTensorType to = type({tx::tensor(all).getDimSize(0), tx::tensor(all).getDimSize(1) / 2}, byte());
    auto every_second = [&](int64_t first) -> Value {
      return builder_.create<tx::SliceOp>(op_.getLoc(), to, all, ArrayRef<int64_t>{0, first}, ArrayRef<int64_t>{1, 2});
    };
    return builder_.create<tx::AddOp>(op_.getLoc(), to, every_second(0), with<tx::MulOp>(every_second(1), 16));
  };
  return by_turns(paired(low(bytes)), paired(high(bytes)), /*of_rows=*/true);
}

bool is_all(Value value, int64_t number) {
  if (auto broadcast = value.getDefiningOp<tx::BroadcastOp>()) value = broadcast.getInput();
  auto constant = value.getDefiningOp<tx::ConstantOp>();
  auto elements = constant ? llvm::dyn_cast<DenseIntElementsAttr>(constant.getValue()) : DenseIntElementsAttr();
  return elements && elements.isSplat() && elements.getSplatValue<APInt>().getZExtValue() == static_cast<uint64_t>(number);
}

Value Integers::zeros() {
  Value zeros = op_.getZeros();
  if (!zeros) return op_.getIsSigned() ? Value() : splat(tx::with_element_type(tx::tensor(columns_last(op_.getScales())), byte()), 0);
  if (!op_.getIsSigned() && is_all(zeros, 8)) return {};
  if (op_.getIsSigned()) zeros = with<tx::BitXorOp>(low(cast(zeros, byte())), 8);
  return columns_last(zeros);
}

std::optional<tx::Nibbles> Integers::nibbles() {
  if (op_.getZeros() && llvm::isa<FloatType>(tx::element_of(op_.getZeros()))) return {};
  const bool is_eight = op_.getZeros() ? !op_.getIsSigned() && is_all(op_.getZeros(), 8) : op_.getIsSigned();
  tx::Nibbles type{static_cast<int64_t>(op_.getBlock()), tx::element_of(op_.getScales()).isF16(), !is_eight};
  if (!tx::block_type(type.name())) return {};
  return type;
}

Value Integers::bytes_of(Value floats) {
  const unsigned bits = tx::element_of(floats).getIntOrFloatBitWidth();
  const int64_t count = bits / 8;
  SmallVector<int64_t> shape(tx::tensor(floats).getShape()), all_bytes(shape);
  shape.push_back(1);
  RankedTensorType whole = tx::with_element_type(tx::tensor(floats), builder_.getIntegerType(bits, /*isSigned=*/false));
  Value integers = builder_.create<tx::BitCastOp>(op_.getLoc(), whole, floats);
  SmallVector<Value> parts;
  for (int64_t i = 0; i < count; ++i) {
    Value part = i == 0 ? integers : with<tx::DivOp>(integers, int64_t{1} << (8 * i));
    parts.push_back(reshape(cast(with<tx::BitAndOp>(part, 255), byte()), shape));
  }
  shape.back() = count;
  all_bytes.back() *= count;
  return reshape(concat(parts, shape, static_cast<int64_t>(shape.size()) - 1), all_bytes);
}

Value Integers::by_panels(Value value) {
  SmallVector<int64_t> shape(tx::tensor(value).getShape()), low(shape.size(), 0), high(low);
  const int64_t panels = llvm::divideCeilSigned(shape[0], tx::Nibbles::columns);
  high[0] = panels * tx::Nibbles::columns - shape[0];
  shape[0] += high[0];
  if (high[0] > 0)
    value = builder_.create<tx::PadOp>(op_.getLoc(), type(shape, tx::element_of(value)), value, low, high, APFloat(0.0)).getResult();
  shape[0] = tx::Nibbles::columns;
  shape.insert(shape.begin(), panels);
  return reshape(value, shape);
}

Value Integers::panels(const tx::Nibbles& type) {
  constexpr int64_t columns = tx::Nibbles::columns, words = 8;
  Value elements = bytes();
  const int64_t rows = tx::tensor(elements).getDimSize(0), blocks = tx::tensor(elements).getDimSize(1) * 2 / type.elements;
  const int64_t count = llvm::divideCeilSigned(rows, columns);
  auto of_blocks = [&](Value value, int64_t bytes) { return reshape(value, {count, blocks, columns * bytes}); };
  // [panel, row, block, ...] becomes [panel, block, ..., row, ...].
  Value scales = columns_last(type.has_halves ? op_.getScales() : cast(op_.getScales(), builder_.getF32Type()));
  SmallVector<Value> parts{of_blocks(bytes_of(permuted(by_panels(scales), {0, 2, 1})), type.scale_bytes())};
  if (type.has_zeros) parts.push_back(of_blocks(permuted(by_panels(zeros()), {0, 2, 1}), 1));
  elements = reshape(by_panels(elements), {count, columns, blocks, type.elements / words, words / 2});
  parts.push_back(of_blocks(permuted(elements, {0, 2, 3, 1, 4}), type.elements / 2));
  const int64_t bytes = type.panel_block_bytes();
  return reshape(concat(parts, {count, blocks, bytes}), {count, blocks * bytes});
}

// The weights that the op reads along their blocks; null for anything else.
tx::DequantizeOp matrix_of(tx::MatmulOp matmul) {
  if (matmul.getZero() || matmul.getBlocks() || matmul.getPackedShape() || matmul.getTransposeLhs()) return {};
  if (!tx::element_of(matmul.getLhs()).isF32() || !tx::element_of(matmul.getResult()).isF32()) return {};
  Value weights = matmul.getRhs();
  int64_t axis = matmul.getTransposeRhs() ? 1 : 0;  // of the blocks
  if (auto transpose = weights.getDefiningOp<tx::TransposeOp>(); transpose && transpose.getPermutation() == ArrayRef<int64_t>{1, 0}) {
    weights = transpose.getInput();
    axis = 1 - axis;
  }
  auto dequantize = weights.getDefiningOp<tx::DequantizeOp>();
  if (!dequantize || static_cast<int64_t>(dequantize.getAxis()) != axis || !Integers(dequantize).nibbles()) return {};
  if (tx::tensor(weights).getNumElements() == 0 || !is_constant_expression(weights)) return {};
  return dequantize;
}

struct ReadDequantized : PassWrapper<ReadDequantized, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ReadDequantized)
  explicit ReadDequantized(bool as_stored) : as_stored_(as_stored) {}
  StringRef getArgument() const final { return "heddle-read-dequantized"; }
  StringRef getDescription() const final {
    return "matmul(x, transpose(narrow_dequantize(w, s) {axis = 1, block = 32, is_signed}))  ->  matmul(x, panels of w and s) "
           "{blocks = \"u4x32\", transpose_rhs}";
  }
  void runOnOperation() override {
    llvm::MapVector<Operation*, SmallVector<tx::MatmulOp>> readers;
    if (as_stored_) {
      getOperation().walk([&](tx::MatmulOp matmul) {
        if (tx::DequantizeOp weights = matrix_of(matmul)) readers[weights].push_back(matmul);
      });
    }
    for (auto& [weights, ops] : readers) read(llvm::cast<tx::DequantizeOp>(weights), ops);
    SmallVector<tx::DequantizeOp> all;
    getOperation().walk([&](tx::DequantizeOp op) { all.push_back(op); });
    for (tx::DequantizeOp op : all) {
      for (Operation* user : llvm::make_early_inc_range(op->getUsers())) {
        if (isOpTriviallyDead(user)) user->erase();
      }
      if (!op->use_empty()) op.getResult().replaceAllUsesWith(Integers(op).values());
      op.erase();
    }
  }

 private:
  static void read(tx::DequantizeOp weights, ArrayRef<tx::MatmulOp> products) {
    Integers integers(weights);
    const tx::Nibbles type = *integers.nibbles();
    Value panels = integers.panels(type);
    for (tx::MatmulOp matmul : products) {
      matmul.getRhsMutable().assign(panels);
      matmul.setTransposeRhs(true);
      matmul.setBlocks(type.name());
    }
  }

  const bool as_stored_;
};

}  // namespace

std::unique_ptr<Pass> read_dequantized(bool as_stored) {
  return std::make_unique<ReadDequantized>(as_stored);
}

}  // namespace heddle::passes
