// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/onnx_part.h"

#include <algorithm>
#include <iterator>

#include "compiler/import/onnx_checks.h"
#include "compiler/ir/control.h"
#include "llvm/ADT/ScopeExit.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace heddle::import {

void collect_captures(const onnx::GraphProto& graph, std::set<std::string>& captures) {
  std::set<std::string> used, own;
  for (const auto& input : graph.input()) own.insert(input.name());
  for (const auto& tensor : graph.initializer()) own.insert(tensor.name());
  for (const auto& node : graph.node()) {
    used.insert(node.input().begin(), node.input().end());
    own.insert(node.output().begin(), node.output().end());
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) collect_captures(attribute.g(), used);
    }
  }
  for (const auto& output : graph.output()) used.insert(output.name());
  std::set_difference(used.begin(), used.end(), own.begin(), own.end(), std::inserter(captures, captures.end()));
  captures.erase("");
}

bool is_constant(Value value, unsigned depth) {
  constexpr unsigned deepest = 8;
  Operation* op = value.getDefiningOp();
  return op && depth < deepest && llvm::isa_and_nonnull<tx::TxDialect>(op->getDialect()) && !tx::stays_apart(op) &&
         op->getNumRegions() == 0 && llvm::all_of(op->getOperands(), [&](Value operand) { return is_constant(operand, depth + 1); });
}

Value repeated(Value value, OpBuilder& builder, IRMapping& copies) {
  if (Value known = copies.lookupOrNull(value)) return known;
  for (Value operand : value.getDefiningOp()->getOperands()) repeated(operand, builder, copies);
  builder.clone(*value.getDefiningOp(), copies);
  return copies.lookup(value);
}

GraphPart::GraphPart(Node& node, const onnx::GraphProto& proto, Parts& parts, const std::string& name)
    : node_(node), graph_(node.graph), proto_(proto), parts_(parts), first_symbol_(node.graph.symbols.names().size()) {
  if (proto.sparse_initializer_size() != 0) node.unsupported("a graph with sparse initializers is not supported");
  OpBuilder::InsertionGuard guard(graph_.builder);
  auto outer = llvm::cast<func::FuncOp>(graph_.builder.getBlock()->getParentOp());
  graph_.builder.setInsertionPointToEnd(outer->getParentOfType<ModuleOp>().getBody());
  function_ =
      graph_.builder.create<func::FuncOp>(node.location(), outer.getName().str() + "." + name, graph_.builder.getFunctionType({}, {}));
  function_.setPrivate();
  function_.addEntryBlock();
}

FlatSymbolRefAttr GraphPart::name() const {
  func::FuncOp function = function_;
  return FlatSymbolRefAttr::get(function.getSymNameAttr());
}

BlockArgument GraphPart::insert_argument(size_t index, Type type) {
  return function_.getBody().front().insertArgument(static_cast<unsigned>(index), type, node_.location());
}

bool GraphPart::uses(const std::string& name) const {
  onnx::GraphProto open = proto_;
  open.clear_input();
  std::set<std::string> names;
  collect_captures(open, names);
  return names.contains(name);
}

Value GraphPart::as_declared(Node& outputs, Value value, const onnx::ValueInfoProto& output) const {
  const auto& type = output.type().tensor_type();
  Extents extents = Node::extents_of(value);
  if (!type.has_shape() || static_cast<size_t>(type.shape().dim_size()) != extents.size()) return value;
  for (auto [i, extent] : llvm::enumerate(extents)) {
    const int64_t declared = type.shape().dim(static_cast<int>(i)).dim_value();
    if (declared <= 0 || declared > largest_extent || !graph_.symbols.is_read_since(extent, first_symbol_)) continue;
    const AffineExpr number = graph_.builder.getAffineConstantExpr(declared);
    if (graph_.symbols.equate(extent, number, node_.describe(), /*learn=*/false)) extent = number;
  }
  return outputs.with_extents(value, extents);
}

void GraphPart::translate(const std::set<std::string>& captures, const SmallVector<Value>& values, size_t declared) {
  std::map<std::string, Operand> outer;
  std::vector<Check> outer_checks;
  llvm::SetVector<Attribute> outer_extents;
  OpBuilder::InsertionGuard guard(graph_.builder);
  graph_.builder.setInsertionPointToEnd(&function_.getBody().front());
  IRMapping inside;
  for (Value value : values) {
    BlockArgument argument = add_argument(value.getType());
    inside.map(value, argument);
    if (auto range = graph_.ranges.find(value); range != graph_.ranges.end()) {
      const auto known = range->second;
      graph_.ranges[argument] = known;
    }
  }
  std::map<std::string, Operand> operands = std::move(own_);
  for (const std::string& name : captures) {
    auto found = graph_.operands.find(name);
    if (found == graph_.operands.end()) continue;  // an error of the node that uses it
    operands.try_emplace(name, with_values(found->second, [&](Value value) {
                           return inside.contains(value) ? inside.lookup(value) : repeated(value, graph_.builder, inside);
                         }));
  }
  outer.swap(graph_.operands);
  outer_checks.swap(graph_.checks);
  graph_.symbols.swap_checks(outer_extents);
  graph_.operands.swap(operands);
  auto restore = llvm::make_scope_exit([&] {
    graph_.operands.swap(outer);
    graph_.checks.swap(outer_checks);
    graph_.symbols.swap_checks(outer_extents);
  });
  parts_.translate(proto_);
  onnx::NodeProto end;
  for (const auto& output : proto_.output()) *end.add_input() = output.name();
  end.set_op_type(outputs_operator);
  Node outputs(graph_, end, node_.location());
  for (int i = 0; i < proto_.output_size(); ++i) {
    const Operand& known = outputs.any_operand(i);
    const bool is_one = known.elements && known.elements->size() == 1;
    elements_.push_back(is_one ? (*known.elements)[0] : AffineExpr());
    forms_.push_back(form_of(known));
    const bool is_declared = known.is_tensor() && static_cast<size_t>(i) >= declared;
    for (Value value : tensors_of(outputs, known)) results_.push_back(is_declared ? as_declared(outputs, value, proto_.output(i)) : value);
  }
  checks_.swap(graph_.checks);
  if (ArrayAttr extents = graph_.symbols.extent_checks()) function_->setAttr(tx::extent_checks_attr, extents);
}

bool GraphPart::is_own(Type type) const {
  return llvm::any_of(tx::extents(llvm::cast<RankedTensorType>(type)),
                      [&](AffineExpr extent) { return graph_.symbols.is_read_since(extent, first_symbol_); });
}

void GraphPart::drop() {
  Block* functions = function_->getBlock();
  while (&functions->back() != function_) functions->back().erase();
  function_.erase();
}

void GraphPart::take_type(size_t result, Type type) {
  if (results_[result].getType() != type) results_[result] = at_end().create<tx::ReshapeOp>(node_.location(), type, results_[result]);
}

void GraphPart::finish(ArrayRef<size_t> carried, size_t first_carried) {
  graph_.checks.swap(checks_);
  ArrayAttr described = graph_.checks.empty() ? ArrayAttr() : describe_checks(graph_, results_);
  graph_.checks.swap(checks_);
  OpBuilder builder = at_end();
  builder.create<func::ReturnOp>(node_.location(), results_);
  Block& block = function_.getBody().front();
  function_.setFunctionType(builder.getFunctionType(block.getArgumentTypes(), ValueRange(results_).getTypes()));
  if (described) function_->setAttr(tx::checks_attr, described);
  for (size_t i : carried)
    function_.setArgAttr(static_cast<unsigned>(i), tx::alias_attr, builder.getI64IntegerAttr(static_cast<int64_t>(first_carried + i)));
}

SmallVector<Value> captured_values(const Graph& graph, const std::set<std::string>& names) {
  llvm::SetVector<Value> values;
  for (const std::string& name : names) {
    auto found = graph.operands.find(name);
    if (found == graph.operands.end()) continue;
    with_values(found->second, [&](Value value) {
      if (!is_constant(value)) values.insert(value);
      return value;
    });
  }
  return values.takeVector();
}

Value as_number(Node& node, Value value, const char* what) {
  if (!llvm::isa<IntegerType>(Node::type_of(value).getElementType())) node.refuse_inputs(std::string(what) + " is no bool or integer");
  Value scalar = Node::type_of(value).getRank() == 0 ? value : node.with_extents(value, {});
  return node.converted(scalar, node.builder.getI64Type());
}

const onnx::GraphProto& part_of(const Node& node, const onnx::NodeProto& proto, const std::string& name) {
  for (const auto& attribute : proto.attribute()) {
    if (attribute.name() == name && attribute.type() == onnx::AttributeProto::GRAPH) return attribute.g();
  }
  node.fail("attribute '" + name + "' must be a graph");
}

void check_outputs(const Node& node, const onnx::GraphProto& part, int expected, const char* name) {
  if (part.output_size() != expected) {
    node.fail("its graph '" + std::string(name) + "' has " + std::to_string(part.output_size()) + " outputs, and " +
              std::to_string(expected) + " are needed");
  }
}

std::string text_of(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

}  // namespace heddle::import
