// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The small operations that every emitter needs. Called by emitters; knows no strategy and no ABI.
#include "compiler/targets/kernel_builder.h"

#include <utility>

#include "mlir/Dialect/Affine/Utils.h"

using namespace mlir;

namespace heddle::targets {

int64_t symbol_count(tx::DispatchOp region) {
  auto function = region->getParentOfType<func::FuncOp>();
  if (!function) return 0;
  auto symbols = function->getAttrOfType<ArrayAttr>(tx::symbols_attr);
  return symbols ? static_cast<int64_t>(symbols.size()) : 0;
}

KernelBuilder::KernelBuilder(tx::DispatchOp region, ModuleOp kernels_module)
    : builder(kernels_module.getContext()),
      location(builder.getUnknownLoc()),  // the region's own location would only make equal kernels differ
      kernels(kernels_module),
      operand_count_(region.getInputs().size()),
      pitch_(region.getPitch()) {
  builder.setInsertionPointToEnd(kernels.getBody());
}

llvm::SmallVector<bool> KernelBuilder::aliased_bindings(tx::DispatchOp region) const {
  llvm::SmallVector<bool> aliased(operand_count_ + region.getOutputs().size(), false);
  if (auto tied = region.getTied()) {
    for (auto [i, operand_index] : llvm::enumerate(*tied)) {
      if (operand_index < 0) continue;
      aliased[operand_index] = aliased[operand_count_ + i] = true;
    }
  }
  return aliased;
}

void KernelBuilder::with_bindings(llvm::ArrayRef<unsigned> operands, unsigned result, const std::function<void()>& body) {
  llvm::SmallVector<Value> chosen;
  for (unsigned operand : operands) chosen.push_back(bindings_[operand]);
  chosen.push_back(bindings_[operand_count_ + result]);
  std::swap(bindings_, chosen);
  const unsigned whole = std::exchange(operand_count_, static_cast<unsigned>(operands.size()));
  body();
  operand_count_ = whole;
  std::swap(bindings_, chosen);
}

void KernelBuilder::with_bindings(llvm::ArrayRef<std::pair<unsigned, Value>> replaced, const std::function<void()>& body) {
  llvm::SmallVector<Value> own = bindings_;
  for (auto [binding, memory] : replaced) bindings_[binding] = memory;
  body();
  bindings_ = std::move(own);
}

void KernelBuilder::barrier() {
  llvm_unreachable("this machine's threads do not work together");
}
Value KernelBuilder::exchange(Value, int64_t) {
  llvm_unreachable("this machine's threads do not work together");
}
Value KernelBuilder::shared(Type, int64_t) {
  llvm_unreachable("this machine's threads do not work together");
}

void KernelBuilder::set_cluster(int64_t) {
  llvm_unreachable("this machine has no clusters");
}
void KernelBuilder::cluster_barrier() {
  llvm_unreachable("this machine has no clusters");
}
Value KernelBuilder::shared_of(Value, int64_t) {
  llvm_unreachable("this machine has no clusters");
}

Value KernelBuilder::gather(Value, Value, Value, Type, Value) {
  llvm_unreachable("this machine has no lanes");
}
Value KernelBuilder::table(DenseElementsAttr) {
  llvm_unreachable("this machine has no constants in memory");
}

Value KernelBuilder::extent(AffineExpr expression) {
  if (auto constant_expression = llvm::dyn_cast<AffineConstantExpr>(expression)) return index(constant_expression.getValue());
  if (auto symbol_expression = llvm::dyn_cast<AffineSymbolExpr>(expression)) return symbols_[symbol_expression.getPosition()];
  auto binary = llvm::cast<AffineBinaryOpExpr>(expression);
  Value lhs = extent(binary.getLHS()), rhs = extent(binary.getRHS());
  switch (binary.getKind()) {
    case AffineExprKind::Add:
      return add(lhs, rhs);
    case AffineExprKind::Mul:
      return mul(lhs, rhs);
    case AffineExprKind::FloorDiv:
      return make<arith::FloorDivSIOp>(lhs, rhs);
    case AffineExprKind::CeilDiv:
      return make<arith::CeilDivSIOp>(lhs, rhs);
    default: {  // Mod; the divisor is positive
      Value remainder = make<arith::RemSIOp>(lhs, rhs);
      return make<arith::SelectOp>(less(remainder, index(0)), add(remainder, rhs), remainder);
    }
  }
}

Value KernelBuilder::index(int64_t value) {
  return builder.create<arith::ConstantOp>(location, builder.getI64IntegerAttr(value));
}

Value KernelBuilder::constant(Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr scalar;
  if (auto float_type = llvm::dyn_cast<FloatType>(element)) {
    scalar = builder.getFloatAttr(float_type, value);
  } else if (element.isInteger(1)) {
    scalar = builder.getBoolAttr(value != 0);
  } else {
    scalar = builder.getIntegerAttr(element, static_cast<int64_t>(value));
  }
  if (auto vector = llvm::dyn_cast<VectorType>(type)) scalar = SplatElementsAttr::get(vector, scalar);
  return builder.create<arith::ConstantOp>(location, scalar);
}

Value KernelBuilder::add(Value a, Value b) {
  return make<arith::AddIOp>(a, b, arith::IntegerOverflowFlags::nsw);
}
Value KernelBuilder::sub(Value a, Value b) {
  return make<arith::SubIOp>(a, b, arith::IntegerOverflowFlags::nsw);
}
Value KernelBuilder::mul(Value a, Value b) {
  return make<arith::MulIOp>(a, b, arith::IntegerOverflowFlags::nsw);
}
Value KernelBuilder::div(Value a, Value b) {
  return make<arith::DivUIOp>(a, b);
}
Value KernelBuilder::rem(Value a, Value b) {
  return make<arith::RemUIOp>(a, b);
}
Value KernelBuilder::ceil_div(Value a, Value b) {
  return div(add(a, sub(b, index(1))), b);
}
Value KernelBuilder::min(Value a, Value b) {
  return make<arith::MinSIOp>(a, b);
}
Value KernelBuilder::max(Value a, Value b) {
  return make<arith::MaxSIOp>(a, b);
}
Value KernelBuilder::less(Value a, Value b) {
  return make<arith::CmpIOp>(arith::CmpIPredicate::slt, a, b);
}

Type KernelBuilder::memory_type(Type element) const {
  if (element.isInteger(1)) return IntegerType::get(element.getContext(), 8);
  if (auto integer = llvm::dyn_cast<IntegerType>(element); integer && !integer.isSignless()) {
    return IntegerType::get(element.getContext(), integer.getWidth());
  }
  return element;
}

Value KernelBuilder::load(Value base, Value element_index, Type element, int64_t lanes, Value mask) {
  Type memory = memory_type(element);
  Type type = lanes > 0 ? Type(vector_type(memory, lanes)) : memory;
  Value loaded = load_memory(type, base, element_index, mask);
  if (!element.isInteger(1)) return loaded;
  Value zero = builder.create<arith::ConstantOp>(location, builder.getZeroAttr(type));
  return builder.create<arith::CmpIOp>(location, arith::CmpIPredicate::ne, loaded, zero);
}

void KernelBuilder::store(Value value, Value base, Value element_index, Value mask) {
  if (getElementTypeOrSelf(value.getType()).isInteger(1)) {
    Type memory = memory_type(builder.getI1Type()), type = memory;
    if (auto vector = llvm::dyn_cast<VectorType>(value.getType())) type = vector.clone(memory);
    value = builder.create<arith::ExtUIOp>(location, type, value);
  }
  store_memory(value, base, element_index, mask);
}

Value KernelBuilder::to_f32(Value loaded, Type element) {
  if (element.isF32()) return loaded;
  Type type = builder.getF32Type();
  if (auto vector = llvm::dyn_cast<VectorType>(loaded.getType())) type = vector.clone(type);
  if (llvm::isa<FloatType>(element)) return builder.create<arith::ExtFOp>(location, type, loaded);
  if (element.isUnsignedInteger()) return builder.create<arith::UIToFPOp>(location, type, loaded);
  return builder.create<arith::SIToFPOp>(location, type, loaded);
}

Value KernelBuilder::splat(Value scalar, int64_t lanes) {
  return make<vector::SplatOp>(scalar, vector_type(scalar.getType(), lanes));
}

Value KernelBuilder::iota(Type element, int64_t lanes) {
  SmallVector<Attribute> values;
  for (int64_t i = 0; i < lanes; ++i) values.push_back(builder.getIntegerAttr(element, i));
  return builder.create<arith::ConstantOp>(location, DenseElementsAttr::get(vector_type(element, lanes), values));
}

Value KernelBuilder::remainder_mask(Value count, int64_t lanes) {
  Type i32 = builder.getI32Type();
  Value clamped = min(count, index(lanes));
  Value narrow = make<arith::TruncIOp>(i32, clamped);
  return make<arith::CmpIOp>(arith::CmpIPredicate::slt, iota(i32, lanes), splat(narrow, lanes));
}

KernelBuilder::Values KernelBuilder::loop(Value from, Value to, Value step, ValueRange carried,
                                          const std::function<Values(Value, ValueRange)>& body) {
  auto op = builder.create<scf::ForOp>(location, from, to, step, carried, [&](OpBuilder& nested, Location, Value i, ValueRange values) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(nested.getInsertionBlock(), nested.getInsertionPoint());
    Values next = body(i, values);
    builder.create<scf::YieldOp>(location, next);
  });
  builder.setInsertionPointAfter(op);
  return Values(op.getResults());
}

void KernelBuilder::loop(Value from, Value to, Value step, const std::function<void(Value)>& body) {
  loop(from, to, step, ValueRange{}, [&](Value i, ValueRange) -> Values {
    body(i);
    return {};
  });
}

KernelBuilder::Values KernelBuilder::branch(Value condition, TypeRange types, const std::function<Values()>& then,
                                            const std::function<Values()>& otherwise) {
  bool has_else = static_cast<bool>(otherwise);
  auto op = builder.create<scf::IfOp>(location, types, condition, /*addThenBlock=*/true, /*addElseBlock=*/has_else);
  auto fill = [&](Block* block, const std::function<Values()>& body) {
    builder.setInsertionPointToStart(block);
    Values values = body();
    builder.create<scf::YieldOp>(location, values);
  };
  fill(op.thenBlock(), then);
  if (has_else) fill(op.elseBlock(), otherwise);
  builder.setInsertionPointAfter(op);
  return Values(op.getResults());
}

void KernelBuilder::branch(Value condition, const std::function<void()>& then, const std::function<void()>& otherwise) {
  auto wrap = [](const std::function<void()>& body) -> std::function<Values()> {
    if (!body) return {};
    return [&body]() -> Values {
      body();
      return {};
    };
  };
  branch(condition, TypeRange{}, wrap(then), wrap(otherwise));
}

}  // namespace heddle::targets
