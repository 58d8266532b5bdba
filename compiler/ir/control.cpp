// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Verifiers of branches and loops: their functions must fit to their operands and results.
#include "compiler/ir/control.h"

#include "compiler/ir/read.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#define GET_OP_CLASSES
#include "branch_op.cpp.inc"
#define GET_OP_CLASSES
#include "loop_op.cpp.inc"

using namespace mlir;

namespace heddle::tx {

bool stays_apart(Operation* op) {
  return llvm::isa<CustomOp, IfOp, LoopOp, ReadOp>(op);
}

namespace {

bool is_number(Value value) {
  return value.getType() == RankedTensorType::get({}, IntegerType::get(value.getContext(), 64));
}

// The function, whose arguments have to be of these types, and whose first results of those.
LogicalResult verify_part(Operation* op, FlatSymbolRefAttr name, SymbolTableCollection& symbols, TypeRange arguments,
                          const SmallVector<Type>& results) {
  auto function = llvm::dyn_cast_or_null<FunctionOpInterface>(symbols.lookupNearestSymbolFrom(op, name));
  if (!function || !function.isPrivate() || function.isExternal())
    return op->emitOpError("names ") << name << ", which is no private function with a body";
  if (function.getArgumentTypes() != ArrayRef<Type>(llvm::to_vector(arguments)))
    return op->emitOpError("calls ") << name << ", whose arguments have other types";
  auto checks = function->getAttrOfType<ArrayAttr>(checks_attr);
  const size_t all = function.getResultTypes().size(), own = all - std::min(all, checks ? checks.size() : size_t{0});
  if (function.getResultTypes().take_front(own) != ArrayRef<Type>(results))
    return op->emitOpError("calls ") << name << ", whose results have other types";
  return success();
}

}  // namespace

LogicalResult IfOp::verify() {
  if (auto slot = getSlot(); slot && !is_slot_name(*slot)) return emitOpError("names the slot '") << *slot << "'";
  if (!is_number(getCondition())) return emitOpError("has a condition that is not one i64");
  if (getThenFunctionAttr() == getElseFunctionAttr()) return emitOpError("has one function for both cases");
  return success();
}

LogicalResult IfOp::verifySymbolUses(SymbolTableCollection& symbols) {
  const SmallVector<Type> results(getResultTypes());
  if (failed(verify_part(*this, getThenFunctionAttr(), symbols, getInputs().getTypes(), results))) return failure();
  return verify_part(*this, getElseFunctionAttr(), symbols, getInputs().getTypes(), results);
}

namespace {

// The type without its first dimension; null if that is another extent.
Type slice_type(Type type, AffineExpr count) {
  auto whole = llvm::cast<RankedTensorType>(type);
  if (whole.getRank() == 0) return {};
  const SmallVector<AffineExpr> all = extents(whole);
  return all[0] == count ? tensor_type(ArrayRef(all).drop_front(), whole.getElementType()) : Type();
}

}  // namespace

SmallVector<LoopOp::Varying> LoopOp::varying() {
  SmallVector<Varying> all;
  const ArrayRef<int64_t> symbols = getVaryingSymbols().value_or(ArrayRef<int64_t>());
  for (size_t i = 0; i + 1 < symbols.size(); i += 2) {
    const auto at = static_cast<unsigned>(i);
    all.push_back({getVarying()->getResult(at), getVarying()->getResult(at + 1), static_cast<unsigned>(symbols[i]),
                   static_cast<unsigned>(symbols[i + 1])});
  }
  return all;
}

namespace {

// The type with other extents in place of symbols that varying extents have after the loop.
RankedTensorType replaced(LoopOp loop, Type result, llvm::function_ref<AffineExpr(const LoopOp::Varying&)> by) {
  auto type = llvm::cast<RankedTensorType>(result);
  SmallVector<AffineExpr> all = extents(type);
  for (const LoopOp::Varying& one : loop.varying()) {
    for (AffineExpr& extent : all) {
      if (extent == getAffineSymbolExpr(one.after, result.getContext())) extent = by(one);
    }
  }
  return tensor_type(all, type.getElementType());
}

}  // namespace

RankedTensorType LoopOp::first_type(Type result) {
  return replaced(*this, result, [](const Varying& one) { return one.first; });
}
RankedTensorType LoopOp::inside_type(Type result) {
  return replaced(*this, result, [&](const Varying& one) { return getAffineSymbolExpr(one.inside, getContext()); });
}
RankedTensorType LoopOp::next_type(Type result) {
  return replaced(*this, result, [](const Varying& one) { return one.next; });
}

void LoopOp::getEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>& effects) {
  if (getVarying()) effects.emplace_back(MemoryEffects::Write::get());
}

LogicalResult LoopOp::verify() {
  if (auto slot = getSlot(); slot && !is_slot_name(*slot)) return emitOpError("names the slot '") << *slot << "'";
  for (Value number : {getTrips(), getCondition()}) {
    if (number && !is_number(number)) return emitOpError("has a number of steps or a condition that is not one i64");
  }
  if (getCount() && (getTrips() || getCount()->getNumDims() != 0 || getCount()->getNumResults() != 1))
    return emitOpError("has a malformed `count`, or one beside `trips`");
  if (!getCount() && !getTrips() && !getConditional()) return emitOpError("never ends");
  const size_t carried = getInit().size();
  if (carried > getNumResults()) return emitOpError("carries ") << carried << " values and has " << getNumResults() << " results";
  const ArrayRef<int64_t> symbols = getVaryingSymbols().value_or(ArrayRef<int64_t>());
  const bool has_pairs = symbols.size() % 2 == 0 && (getVarying() ? getVarying()->getNumResults() : 0) == symbols.size();
  if (!has_pairs || (getVarying() && getVarying()->getNumDims() != 0) || llvm::any_of(symbols, [](int64_t symbol) { return symbol < 0; }))
    return emitOpError("has a malformed `varying`, or other `varying_symbols`");
  for (auto [begin, end] : llvm::zip(getInit().getTypes(), getResultTypes())) {
    if (begin != first_type(end)) return emitOpError("carries a value that begins as ") << begin << " and ends as " << end;
  }
  SmallVector<Type> sliced(getScanned().getTypes());
  llvm::append_range(sliced, TypeRange(getResultTypes()).drop_front(carried));
  if (!sliced.empty() && (!getCount() || getCondition() || getConditional()))
    return emitOpError("has slices without a `count` that is certain");
  for (Type type : sliced) {
    if (!slice_type(type, getCount()->getResult(0)))
      return emitOpError("has slices of ") << type << ", whose first extent is not its `count`";
  }
  if (!getReversed().empty() && getReversed().size() != sliced.size())
    return emitOpError("says of ") << getReversed().size() << " of " << sliced.size() << " slices whether they are reversed";
  return success();
}

LogicalResult LoopOp::verifySymbolUses(SymbolTableCollection& symbols) {
  const size_t carried = getInit().size();
  const TypeRange of_results = getResultTypes();
  SmallVector<Type> arguments, results;
  for (Type type : of_results.take_front(carried)) arguments.push_back(inside_type(type));
  for (Type type : getScanned().getTypes()) arguments.push_back(slice_type(type, getCount()->getResult(0)));
  llvm::append_range(arguments, getInputs().getTypes());
  if (getConditional()) results.push_back(RankedTensorType::get({}, IntegerType::get(getContext(), 64)));
  for (Type type : of_results.take_front(carried)) results.push_back(next_type(type));
  for (Type type : of_results.drop_front(carried)) results.push_back(slice_type(type, getCount()->getResult(0)));
  return verify_part(*this, getBodyAttr(), symbols, arguments, results);
}

}  // namespace heddle::tx
