// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/stablehlo_part.h"

#include "compiler/import/onnx_checks.h"
#include "compiler/import/onnx_part.h"
#include "compiler/ir/control.h"
#include "llvm/ADT/ScopeExit.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace heddle::import::stablehlo {

void collect_parts(const Data& data, SmallVector<Value>& parts) {
  parts.append(data.parts.begin(), data.parts.end());
  if (!data.tuple) return;
  for (const Data& member : *data.tuple) collect_parts(member, parts);
}

Data with_parts(const Data& data, llvm::function_ref<Value(Value)> change) {
  Data result = data;
  for (Value& part : result.parts) part = change(part);
  if (data.tuple) {
    std::vector<Data> members;
    for (const Data& member : *data.tuple) members.push_back(with_parts(member, change));
    result.tuple = std::make_shared<const std::vector<Data>>(std::move(members));
  }
  return result;
}

SmallVector<Value> flat(const std::vector<Data>& all) {
  SmallVector<Value> parts;
  for (const Data& data : all) collect_parts(data, parts);
  return parts;
}

std::vector<Data> like(const std::vector<Data>& forms, ArrayRef<Value> parts) {
  std::vector<Data> results;
  for (const Data& form : forms) {
    results.push_back(with_parts(form, [&](Value) {
      Value part = parts.front();
      parts = parts.drop_front();
      return part;
    }));
  }
  return results;
}

const Data* find(const Scope& inner, Value value) {
  for (const Scope* scope = &inner; scope; scope = scope->outside) {
    if (auto found = scope->values.find(value); found != scope->values.end()) return &found->second;
  }
  return nullptr;
}

Captured captured_by(const Op& op, const Scope& scope, ArrayRef<Region*> regions, const Data& more) {
  llvm::SetVector<Value> used, tensors;
  for (Region* region : regions) getUsedValuesDefinedAbove(*region, used);
  Captured captured;
  SmallVector<Value> parts;
  for (Value value : used) {
    const Data* data = find(scope, value);
    if (!data) op.fail("one of its regions uses a value that is not known here");
    captured.values.push_back({value, *data});
    collect_parts(*data, parts);
  }
  collect_parts(more, parts);
  for (Value part : parts) {
    if (!is_constant(part)) tensors.insert(part);
  }
  captured.tensors = tensors.takeVector();
  return captured;
}

Part::Part(Op& op, const std::string& name) : op_(op), graph_(op.program.graph), first_symbol_(graph_.symbols.names().size()) {
  OpBuilder::InsertionGuard guard(op.builder);
  auto outer = llvm::cast<func::FuncOp>(op.builder.getBlock()->getParentOp());
  op.builder.setInsertionPointToEnd(outer->getParentOfType<ModuleOp>().getBody());
  function_ = op.builder.create<func::FuncOp>(op.location(), outer.getName().str() + "." + name, op.builder.getFunctionType({}, {}));
  function_.setPrivate();
  function_.addEntryBlock();
}

FlatSymbolRefAttr Part::name() {
  return FlatSymbolRefAttr::get(function_.getSymNameAttr());
}

Data Part::argument(const Data& like) {
  return with_parts(like, [&](Value value) { return add_argument(value); });
}

void Part::translate(const Captured& captured, const Data& more, llvm::function_ref<SmallVector<Value>(Scope&, const Data& more)> make) {
  OpBuilder::InsertionGuard guard(op_.builder);
  op_.builder.setInsertionPointToEnd(&function_.getBody().front());
  IRMapping inside;
  for (Value value : captured.tensors) inside.map(value, add_argument(value));
  auto there = [&](Value value) { return inside.contains(value) ? inside.lookup(value) : repeated(value, op_.builder, inside); };
  Scope scope;
  for (const auto& [value, data] : captured.values) scope.values[value] = with_parts(data, there);
  std::vector<Check> outer_checks;
  llvm::SetVector<Attribute> outer_extents;
  outer_checks.swap(graph_.checks);
  graph_.symbols.swap_checks(outer_extents);
  auto restore = llvm::make_scope_exit([&] {
    graph_.checks.swap(outer_checks);
    graph_.symbols.swap_checks(outer_extents);
  });
  results_ = make(scope, with_parts(more, there));
  checks_.swap(graph_.checks);
  if (ArrayAttr extents = graph_.symbols.extent_checks()) function_->setAttr(tx::extent_checks_attr, extents);
}

bool Part::is_own(Type type) const {
  return llvm::any_of(tx::extents(llvm::cast<RankedTensorType>(type)),
                      [&](AffineExpr extent) { return graph_.symbols.is_read_since(extent, first_symbol_); });
}

void Part::take_type(size_t index, RankedTensorType type, const std::string& what) {
  Value& result = results_[index];
  if (result.getType() == type) return;
  const Extents own = Op::extents_of(result), wanted = tx::extents(type);
  bool fits = tx::element_of(result) == type.getElementType() && own.size() == wanted.size();
  for (size_t i = 0; fits && i < own.size(); ++i) fits = graph_.symbols.equate(own[i], wanted[i], op_.describe());
  if (!fits) op_.unsupported(what + " has shape " + text_of(result.getType()) + " and not " + text_of(type));
  OpBuilder::InsertionGuard guard(op_.builder);
  op_.builder.setInsertionPointToEnd(&function_.getBody().front());
  result = op_.node.reshape(result, wanted);
}

void Part::finish(size_t carried, size_t first_carried) {
  graph_.checks.swap(checks_);
  ArrayAttr described = graph_.checks.empty() ? ArrayAttr() : describe_checks(graph_, results_);
  graph_.checks.swap(checks_);
  Block& block = function_.getBody().front();
  OpBuilder builder = OpBuilder::atBlockEnd(&block);
  builder.create<func::ReturnOp>(op_.location(), results_);
  function_.setFunctionType(builder.getFunctionType(block.getArgumentTypes(), ValueRange(results_).getTypes()));
  if (described) function_->setAttr(tx::checks_attr, described);
  for (size_t i = 0; i < carried; ++i)
    function_.setArgAttr(static_cast<unsigned>(i), tx::alias_attr, builder.getI64IntegerAttr(static_cast<int64_t>(first_carried + i)));
}

BlockArgument Part::add_argument(Value like) {
  BlockArgument argument = function_.getBody().front().addArgument(like.getType(), op_.location());
  if (auto range = graph_.ranges.find(like); range != graph_.ranges.end()) {
    const auto known = range->second;
    graph_.ranges[argument] = known;
  }
  return argument;
}

SmallVector<Value> stepped(Op& op, const std::string& name, int64_t steps, ArrayRef<Value> first, ArrayRef<Value> outside, Step step) {
  Part part(op, name + std::to_string(op.program.parts++));
  Data carried, taken;
  carried.parts.push_back(op.splat(RankedTensorType::get({}, op.builder.getI64Type()), 0));
  carried.parts.append(first.begin(), first.end());
  taken.parts.append(outside.begin(), outside.end());
  const Captured captured = captured_by(op, op.scope(), {}, taken);
  const Data arguments = part.argument(carried);
  part.translate(captured, taken, [&](Scope&, const Data& inside) {
    Value number = arguments.parts.front();
    op.program.graph.ranges[number] = {0, std::max<int64_t>(steps, 1) - 1};
    SmallVector<Value> results = step(number, ArrayRef<Value>(arguments.parts).drop_front(), inside.parts);
    results.insert(results.begin(), op.binary<tx::AddOp>(number, op.number(number, 1)));
    return results;
  });
  SmallVector<Type> types;
  for (Value value : carried.parts) types.push_back(value.getType());
  part.finish(carried.parts.size());
  const auto symbols = static_cast<unsigned>(op.program.graph.symbols.names().size());
  auto count = AffineMapAttr::get(AffineMap::get(0, symbols, op.builder.getAffineConstantExpr(steps)));
  auto made = op.builder.create<tx::LoopOp>(op.location(), types, Value(), Value(), carried.parts, ValueRange(), captured.tensors,
                                            part.name(), count, UnitAttr(), op.builder.getDenseI64ArrayAttr({}), StringAttr(),
                                            AffineMapAttr(), DenseI64ArrayAttr());
  return SmallVector<Value>(made.getOutputs().drop_front());
}

}  // namespace heddle::import::stablehlo
