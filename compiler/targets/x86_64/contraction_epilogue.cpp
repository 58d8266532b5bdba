// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the element-wise epilogue of a contraction, and emits it for one vector. Called by contraction_shape and microkernel.
#include "compiler/targets/x86_64/contraction_epilogue.h"

#include "compiler/stage/scalar_body.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

// How a broadcast input maps to the result: along the last dimension, along all others, as one element, or in another way.
std::optional<EpilogueOperand::Kind> broadcast_kind(tx::BroadcastOp op) {
  SmallVector<AffineExpr> input = tx::extents(tx::tensor(op.getInput())), result = tx::extents(tx::tensor(op.getResult()));
  SmallVector<bool> is_read(result.size(), false);
  for (auto [extent, dimension] : llvm::zip_equal(input, op.getDimensions())) is_read[dimension] = !tx::is_one(extent);
  if (llvm::none_of(is_read, [](bool read) { return read; })) return EpilogueOperand::scalar;
  const size_t last = result.size() - 1;
  bool all_rows = true, no_row = true;
  for (size_t d = 0; d < last; ++d) {
    no_row &= !is_read[d];
    all_rows &= is_read[d] || tx::is_one(result[d]);
  }
  if (is_read[last]) return no_row ? std::optional(EpilogueOperand::column) : std::nullopt;
  // Its dimensions must be in the result's order.
  return all_rows && llvm::is_sorted(op.getDimensions()) ? std::optional(EpilogueOperand::row) : std::nullopt;
}

// Whether only the root reads it, so that it is part of how an operand is read (OperandView).
bool feeds(Operation* op, Operation* root) {
  return op->hasOneUse() && llvm::isa<tx::SliceOp, tx::ReshapeOp>(op) && (*op->user_begin() == root || feeds(*op->user_begin(), root));
}

// Values of the epilogue are f32, or the bools between a comparison and a selection.
bool is_supported(Operation* op) {
  Type element = llvm::cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  return tx::is_elementwise(op) && (element.isF32() || element.isInteger(1));
}

}  // namespace

FailureOr<Epilogue> Epilogue::read(tx::DispatchOp region, Operation* root) {
  Epilogue epilogue;
  epilogue.product_ = root->getResult(0);
  Block& block = region.getBody().front();
  auto yield = llvm::cast<tx::YieldOp>(block.getTerminator());
  if (yield.getValues().size() != 1)
    return region.emitError("x86_64: a contraction with ") << yield.getValues().size() << " results is not supported; 1 is";
  epilogue.result_ = yield.getValues().front();
  auto type = llvm::cast<RankedTensorType>(epilogue.product_.getType());
  Type f32 = Float32Type::get(region.getContext());

  llvm::DenseMap<Value, unsigned> numbers;
  numbers[epilogue.product_] = 0;
  llvm::raw_string_ostream key(epilogue.key_);
  auto add_operand = [&](EpilogueOperand::Kind kind, Value source, Value value) -> LogicalResult {
    auto argument = llvm::dyn_cast<BlockArgument>(source);
    if (!argument || llvm::cast<RankedTensorType>(source.getType()).getElementType() != f32) {
      return region.emitError("x86_64: an operand of a contraction's epilogue must be an f32 input of the region");
    }
    numbers[value] = numbers.size();
    epilogue.operands_.push_back({kind, argument.getArgNumber(), value});
    key << "o" << kind << ";";
    return success();
  };

  for (Operation& op : block.without_terminator()) {
    if (&op == root || feeds(&op, root)) continue;
    if (auto constant = llvm::dyn_cast<tx::ConstantOp>(op)) {
      auto splat = llvm::dyn_cast<SplatElementsAttr>(constant.getValue());
      if (!splat || !splat.getElementType().isF32())
        return op.emitError("x86_64: a constant in a contraction's region must be an f32 splat");
      numbers[constant] = numbers.size();
      double value = splat.getSplatValue<APFloat>().convertToFloat();
      epilogue.constants_.push_back({constant, value});
      key << "c" << llvm::bit_cast<uint64_t>(value) << ";";
      continue;
    }
    if (auto broadcast = llvm::dyn_cast<tx::BroadcastOp>(op)) {
      if (numbers.count(broadcast.getInput())) {  // of a constant: still that splat
        auto known = llvm::find_if(epilogue.constants_, [&](auto& c) { return c.first == broadcast.getInput(); });
        if (known == epilogue.constants_.end())
          return op.emitError("x86_64: a contraction's epilogue cannot broadcast a value that it computed");
        double value = known->second;
        epilogue.constants_.push_back({broadcast, value});
        numbers[broadcast] = numbers[broadcast.getInput()];
        continue;
      }
      auto kind = broadcast_kind(broadcast);
      if (!kind) return op.emitError("x86_64: a contraction's epilogue reads only broadcasts of columns, of rows and of one element");
      if (failed(add_operand(*kind, broadcast.getInput(), broadcast))) return failure();
      continue;
    }
    if (!is_supported(&op)) return op.emitError("x86_64: this op is not supported in the epilogue of a contraction");
    if (tx::extents(llvm::cast<RankedTensorType>(op.getResult(0).getType())) != tx::extents(type)) {
      return op.emitError("x86_64: an op in a contraction's epilogue has another shape than the product");
    }
    for (Value operand : op.getOperands()) {
      if (!numbers.count(operand) && failed(add_operand(EpilogueOperand::full, operand, operand))) return failure();
    }
    numbers[op.getResult(0)] = numbers.size();
    epilogue.ops_.push_back(&op);
    epilogue.is_long_ |= tx::is_costly(&op);
    key << op.getName().stripDialect() << op.getAttrDictionary();
    for (Value operand : op.getOperands()) key << "," << numbers[operand];
    key << ";";
  }
  if (!llvm::cast<RankedTensorType>(epilogue.result_.getType()).getElementType().isF32()) {
    return region.emitError("x86_64: a contraction's region must yield f32");
  }
  if (!numbers.count(epilogue.result_)) return region.emitError("x86_64: a contraction's region must yield a value that it computes");
  key << "r" << numbers[epilogue.result_];
  if (epilogue.ops_.empty()) epilogue.key_.clear();
  // If the result overwrites an operand, the operand must be read before anything is stored.
  if (region.overwritten()) epilogue.is_long_ = false;
  if (epilogue.is_long_ && !epilogue.key_.empty()) key << "long";
  return epilogue;
}

bool Epilogue::reads_full() const {
  return llvm::any_of(operands_, [](const EpilogueOperand& operand) { return operand.kind == EpilogueOperand::full; });
}

bool Epilogue::takes(tx::BroadcastOp broadcast) {
  return broadcast_kind(broadcast).has_value();
}

Value Epilogue::emit(KernelBuilder& kernel, Value product, ValueRange operands) const {
  llvm::DenseMap<Value, Value> values;
  values[product_] = product;
  for (auto [operand, value] : llvm::zip_equal(operands_, operands)) values[operand.value] = value;
  for (auto& [name, value] : constants_) values[name] = kernel.constant(product.getType(), value);
  for (Operation* op : ops_) {
    SmallVector<Value> in;
    for (Value operand : op->getOperands()) in.push_back(values.lookup(operand));
    values[op->getResult(0)] = stage::emit_scalar_body(kernel.builder, kernel.location, op, in);
  }
  return values.lookup(result_);
}

Value Epilogue::emit_at(KernelBuilder& kernel, Value product, Value element, Value column, Value mask) const {
  if (empty()) return product;
  Type f32 = kernel.builder.getF32Type();
  const int64_t lanes = kernel.level.f32_lanes();
  SmallVector<Value> values;
  for (const EpilogueOperand& operand : operands_) {
    Value base = kernel.operand(operand.binding);
    switch (operand.kind) {
      case EpilogueOperand::full:
        values.push_back(kernel.load(base, element, f32, lanes, mask));
        break;
      case EpilogueOperand::column:
        values.push_back(kernel.load(base, column, f32, lanes, mask));
        break;
      case EpilogueOperand::row: {
        Value pitch = kernel.pitch() ? kernel.index(*kernel.pitch()) : kernel.extent(tx::extents(tx::tensor(product_)).back());
        Value row = kernel.div(kernel.sub(element, column), pitch);
        values.push_back(kernel.splat(kernel.load(base, row, f32), lanes));
        break;
      }
      case EpilogueOperand::scalar:
        values.push_back(kernel.splat(kernel.load(base, kernel.index(0), f32), lanes));
        break;
    }
  }
  return emit(kernel, product, values);
}

}  // namespace heddle::targets::x86_64
