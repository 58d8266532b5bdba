// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-store-narrow: elements of narrow types become bytes. Arguments, results and parameters keep the form in which they are outside, which is packed;
// inside of the model every element has a byte of its own, so that all ops that move elements also move these.
#include "compiler/passes/passes.h"

#include <cmath>

#include "compiler/ir/bits.h"
#include "compiler/ir/narrow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace heddle::passes {
namespace {

bool is_narrow(Value value) {
  auto type = llvm::dyn_cast<RankedTensorType>(value.getType());
  return type && tx::narrow_format(type.getElementType());
}

RankedTensorType unpacked_type(RankedTensorType narrow) {
  return tx::with_element_type(narrow, tx::stored_type(*tx::narrow_format(narrow.getElementType()), narrow.getContext()));
}

// Ops on tensors at one place.
class Ops {
 public:
  Ops(OpBuilder& builder, Location location) : builder_(builder), location_(location) {}

  Value unpacked(Value bytes, RankedTensorType narrow);
  Value packed(Value elements, RankedTensorType narrow);

 private:
  template <typename OpT>
  Value with_number(Value value, int number) {
    RankedTensorType type = tx::tensor(value);
    auto scalar = RankedTensorType::get({}, type.getElementType());
    Attribute element = builder_.getIntegerAttr(type.getElementType(), number);
    Value constant = builder_.create<tx::ConstantOp>(location_, scalar, llvm::cast<ElementsAttr>(DenseElementsAttr::get(scalar, element)));
    return builder_.create<OpT>(location_, type, value,
                                builder_.createOrFold<tx::BroadcastOp>(location_, type, constant, ArrayRef<int64_t>{}));
  }
  Value reshape(Value value, ArrayRef<AffineExpr> extents) {
    return builder_.createOrFold<tx::ReshapeOp>(location_, tx::tensor_type(extents, tx::element_of(value)), value);
  }
  Value slice(Value value, ArrayRef<AffineExpr> extents, ArrayRef<int64_t> starts) {
    const SmallVector<int64_t> strides(starts.size(), 1);
    return builder_.createOrFold<tx::SliceOp>(location_, tx::tensor_type(extents, tx::element_of(value)), value, starts, strides);
  }
  Value cast(Value value, Type element) {
    if (tx::element_of(value) == element) return value;
    return builder_.create<tx::CastOp>(location_, tx::with_element_type(tx::tensor(value), element), value);
  }
  Type byte() { return builder_.getIntegerType(8, /*isSigned=*/false); }

  OpBuilder& builder_;
  Location location_;
};

Value Ops::unpacked(Value bytes, RankedTensorType narrow) {
  const tx::NarrowFormat& format = *tx::narrow_format(narrow.getElementType());
  const int count = static_cast<int>(format.per_byte()), bits = static_cast<int>(format.bits());
  if (count == 1) return bytes;
  AffineExpr rows = tx::extents(tx::tensor(bytes))[0], one = builder_.getAffineConstantExpr(1);
  SmallVector<Value> parts;
  for (int i = 0; i < count; ++i) {
    Value part = i == 0 ? bytes : with_number<tx::DivOp>(bytes, 1 << (i * bits));
    if (i < count - 1) part = with_number<tx::BitAndOp>(part, (1 << bits) - 1);
    parts.push_back(reshape(part, {rows, one}));
  }
  Value all = builder_.create<tx::ConcatOp>(location_, tx::tensor_type(SmallVector<AffineExpr>{rows, one * count}, byte()), parts,
                                            builder_.getI64IntegerAttr(1));
  all = slice(reshape(all, {rows * count}), {tx::element_count(narrow)}, {0});
  if (!format.is_unsigned()) {
    const int sign = 1 << (bits - 1);
    all = with_number<tx::SubOp>(with_number<tx::BitXorOp>(cast(all, builder_.getIntegerType(8)), sign), sign);
  }
  return reshape(all, tx::extents(narrow));
}

Value Ops::packed(Value elements, RankedTensorType narrow) {
  const tx::NarrowFormat& format = *tx::narrow_format(narrow.getElementType());
  const int count = static_cast<int>(format.per_byte()), bits = static_cast<int>(format.bits());
  if (count == 1) return elements;
  AffineExpr all = tx::element_count(narrow), rows = tx::extents(tx::packed_type(narrow))[0], one = builder_.getAffineConstantExpr(1);
  Value flat = reshape(cast(elements, byte()), {all});
  if (!format.is_unsigned()) flat = with_number<tx::BitAndOp>(flat, (1 << bits) - 1);
  flat = builder_.create<tx::PadOp>(location_, tx::tensor_type(SmallVector<AffineExpr>{all + (count - 1)}, byte()), flat,
                                    ArrayRef<int64_t>{0}, ArrayRef<int64_t>{count - 1}, APFloat(0.0));
  flat = reshape(slice(flat, {rows * count}, {0}), {rows, one * count});
  Value sum;
  for (int i = 0; i < count; ++i) {
    Value part = reshape(slice(flat, {rows, one}, {0, i}), {rows});
    if (i > 0) part = with_number<tx::MulOp>(part, 1 << (i * bits));
    sum = sum ? builder_.create<tx::AddOp>(location_, part.getType(), sum, part).getResult() : part;
  }
  return sum;
}

// Its results are stored as elements of a byte each, or packed.
void store_results(Operation* op) {
  auto parameter = llvm::dyn_cast<tx::ParameterOp>(op);
  for (Value result : op->getResults()) {
    if (!is_narrow(result)) continue;
    RankedTensorType narrow = tx::tensor(result);
    if (!parameter) {
      result.setType(unpacked_type(narrow));
      continue;
    }
    parameter->setAttr(tx::narrow_attr, TypeAttr::get(narrow));
    result.setType(tx::packed_type(narrow));
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    // The readers until here are those of the elements, or of the bytes.
    SmallVector<OpOperand*> readers;
    for (OpOperand& use : llvm::make_early_inc_range(result.getUses())) {
      if (auto bytes = llvm::dyn_cast<tx::PackedOp>(use.getOwner())) {
        bytes.getResult().replaceAllUsesWith(result);
        bytes.erase();
      } else {
        readers.push_back(&use);
      }
    }
    if (readers.empty()) continue;
    Value elements = Ops(builder, op->getLoc()).unpacked(result, narrow);
    for (OpOperand* use : readers) use->set(elements);
  }
}

void store(func::FuncOp function) {
  Block& body = function.getBody().front();
  OpBuilder builder(function.getContext());
  auto terminator = llvm::cast<func::ReturnOp>(body.getTerminator());
  SmallVector<RankedTensorType> results;  // those of the model have their narrow types until all others are stored
  for (Value value : terminator.getOperands()) results.push_back(tx::tensor(value));
  SmallVector<std::pair<tx::PackedOp, RankedTensorType>> packed;
  for (auto parameter : llvm::make_early_inc_range(body.getOps<tx::ParameterOp>())) store_results(parameter);
  for (auto op : body.getOps<tx::PackedOp>()) packed.emplace_back(op, tx::tensor(op.getInput()));
  for (Operation& op : llvm::make_early_inc_range(body.without_terminator())) store_results(&op);
  builder.setInsertionPointToStart(&body);
  for (BlockArgument argument : body.getArguments()) {
    if (!is_narrow(argument)) continue;
    RankedTensorType narrow = tx::tensor(argument);
    if (function.isPrivate()) {
      argument.setType(unpacked_type(narrow));
      continue;
    }
    function.setArgAttr(argument.getArgNumber(), tx::narrow_attr, TypeAttr::get(narrow));
    argument.setType(tx::packed_type(narrow));
    SmallVector<OpOperand*> readers;
    for (OpOperand& use : argument.getUses()) readers.push_back(&use);
    Value elements = Ops(builder, argument.getLoc()).unpacked(argument, narrow);
    for (OpOperand* use : readers) use->set(elements);
  }
  for (Operation& op : llvm::make_early_inc_range(body.without_terminator())) {
    auto stored = llvm::dyn_cast<tx::StoredOp>(op);
    if (!stored) continue;
    stored.getResult().replaceAllUsesWith(stored.getInput());
    stored.erase();
  }
  for (auto [op, narrow] : packed) {
    builder.setInsertionPoint(op);
    op.getResult().replaceAllUsesWith(Ops(builder, op.getLoc()).packed(op.getInput(), narrow));
    op.erase();
  }
  builder.setInsertionPoint(terminator);
  for (auto [index, narrow] : llvm::enumerate(results)) {
    if (function.isPrivate() || !tx::narrow_format(narrow.getElementType())) continue;
    const auto which = static_cast<unsigned>(index);
    function.setResultAttr(which, tx::narrow_attr, TypeAttr::get(narrow));
    Value elements = terminator.getOperand(which);
    terminator.setOperand(which, Ops(builder, elements.getLoc()).packed(elements, narrow));
  }
  function.setFunctionType(builder.getFunctionType(body.getArgumentTypes(), terminator.getOperandTypes()));
}

struct StoreNarrow : PassWrapper<StoreNarrow, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(StoreNarrow)
  StringRef getArgument() const final { return "heddle-store-narrow"; }
  void getDependentDialects(DialectRegistry& registry) const override { registry.insert<tx::TxDialect>(); }
  StringRef getDescription() const final {
    return "argument x : tensor<5x!narrow.type<\"u4\">>  ->  argument x : tensor<3xui8>, and tensor<5xui8> made of its halves of bytes";
  }
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) store(function);
  }
};

}  // namespace

std::unique_ptr<Pass> store_narrow() {
  return std::make_unique<StoreNarrow>();
}

}  // namespace heddle::passes
