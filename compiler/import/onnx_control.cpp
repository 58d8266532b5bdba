// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// If, Loop and Scan. A graph in an attribute becomes a private function. Names that it takes from outside become its arguments, after those that
// the operator defines; constants are repeated in it, so that they are its own weights.
#include "compiler/import/onnx_control.h"

#include "compiler/import/onnx_attention.h"
#include "compiler/import/onnx_data.h"
#include "compiler/import/onnx_part.h"
#include "compiler/import/onnx_text.h"
#include "compiler/import/onnx_unrolled.h"
#include "compiler/ir/control.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;

namespace heddle::import {
namespace {

// A branch that is taken in every call: its nodes in place of the node.
void take_branch(Node& node, const onnx::GraphProto& branch, const Parts& parts) {
  if (branch.input_size() != 0) node.fail("its graph '" + branch.name() + "' has inputs, and those of If have none");
  std::vector<Operand> results = inlined(node, branch, {}, parts);
  for (int i = 0; i < static_cast<int>(results.size()); ++i) node.set_operand(std::move(results[static_cast<size_t>(i)]), i);
}

// The type of a result of an If, whose branches give these values: what differs between two extents is computed from the condition, and read.
RankedTensorType type_of_both(Node& node, Value condition, Value then_value, Value else_value, const std::string& which) {
  const RankedTensorType a = Node::type_of(then_value), b = Node::type_of(else_value);
  if (a == b) return a;
  const Extents of_then = tx::extents(a), of_else = tx::extents(b);
  auto is_one = [](AffineExpr extent) { return tx::static_extent(extent) == 1; };
  const bool has_one = llvm::all_of(of_then, is_one) && llvm::all_of(of_else, is_one);
  if (a.getElementType() != b.getElementType() || (a.getRank() != b.getRank() && !has_one)) {
    node.fail(which + " is " + text_of(a) + " in then_branch and " + text_of(b) +
                  " in else_branch; branches that give different types or ranks are not supported",
              HEDDLE_STATUS_UNIMPLEMENTED);
  }
  if (a.getRank() != b.getRank()) return a.getRank() > b.getRank() ? a : b;
  Extents to = of_then, first, second;
  for (auto [x, y] : llvm::zip(of_then, of_else)) {
    if (x == y) continue;
    first.push_back(x);
    second.push_back(y);
  }
  const Integers is_then(node, node.broadcast(condition, {node.builder.getAffineConstantExpr(static_cast<int64_t>(first.size()))}));
  const std::vector<AffineExpr> read =
      read_extents(node, numbers_of(node, first).where(is_then, numbers_of(node, second)), "extent of " + which);
  size_t next = 0;
  for (auto [extent, x, y] : llvm::zip(to, of_then, of_else)) {
    if (x != y) extent = read[next++];
  }
  return node.tensor_type(to, a.getElementType());
}

// "output 0", "tensor 2 of output 1": result i of a part whose outputs have these forms.
std::string result_name(ArrayRef<Form> forms, size_t index) {
  size_t output = 0;
  for (; output + 1 < forms.size() && index >= forms[output].count; ++output) index -= forms[output].count;
  const std::string name = "output " + std::to_string(output);
  return forms[output].is_sequence ? "tensor " + std::to_string(index) + " of " + name : name;
}

// Strings with the same number of bytes in both branches, where that is known, so that no extent is read.
void align_results(Node& node, GraphPart& then_part, GraphPart& else_part) {
  size_t at = 0;
  for (const Form& form : then_part.forms()) {
    for (size_t i = 0; i < form.count; ++i, ++at) {
      Value &of_then = then_part.results()[at], &of_else = else_part.results()[at];
      if (form.element.compound != onnx::TensorProto::STRING) continue;
      const std::optional<int64_t> a = tx::static_extent(width_of(of_then)), b = tx::static_extent(width_of(of_else));
      if (!a || !b || *a == *b) continue;
      OpBuilder::InsertionGuard guard(node.builder);
      GraphPart& shorter = *a < *b ? then_part : else_part;
      node.builder.setInsertionPointToEnd(shorter.block());
      Value& text = *a < *b ? of_then : of_else;
      text = padded(node, text, node.builder.getAffineConstantExpr(std::abs(*a - *b)));
    }
  }
}

// The branch that gives what the user stated, if the other one gives another kind of value: true for then_branch. None if both are alike.
std::optional<bool> stated_branch(const Node& node, const GraphPart& then_part, const GraphPart& else_part) {
  bool is_then = true, is_else = true;
  std::optional<int> different;
  for (int i = 0; i < node.output_count(); ++i) {
    const Form &a = then_part.forms()[static_cast<size_t>(i)], &b = else_part.forms()[static_cast<size_t>(i)];
    if (a.is_like(b) || !node.wants_output(i)) continue;
    if (!different) different = i;
    is_then &= is_stated(node.graph, node.output(i), a);
    is_else &= is_stated(node.graph, node.output(i), b);
  }
  if (!different) return {};
  const std::string name = node.output(*different);
  const Form &a = then_part.forms()[static_cast<size_t>(*different)], &b = else_part.forms()[static_cast<size_t>(*different)];
  const std::string differ = "output '" + name + "' is " + kind_of(a) + " in then_branch and " + kind_of(b) + " in else_branch";
  if (a.is_sequence != b.is_sequence && a.optional == b.optional) node.fail(differ);
  if (!is_then && !is_else) node.fail(differ + ", and neither is what the model is to be compiled for; correct its --specialize");
  if (is_then && is_else) {
    const std::string way = a.optional != b.optional ? "=present" : "=" + std::to_string(a.count);
    node.fail(differ + ", and the condition is data; compile the model for one of them, such as --specialize '" + name + way + "'",
              HEDDLE_STATUS_UNIMPLEMENTED);
  }
  return is_then;
}

void branch(Node& node, const onnx::NodeProto& proto, Parts& parts) {
  const onnx::GraphProto &then_graph = part_of(node, proto, "then_branch"), &else_graph = part_of(node, proto, "else_branch");
  check_outputs(node, then_graph, node.output_count(), "then_branch");
  check_outputs(node, else_graph, node.output_count(), "else_branch");
  const Operand& condition = node.operand(0);
  if (condition.elements && condition.elements->size() == 1) {
    if (auto known = tx::static_extent(condition.elements->front())) return take_branch(node, *known != 0 ? then_graph : else_graph, parts);
  }
  Value number = as_number(node, node.input(0), "the condition");
  std::set<std::string> captures;
  collect_captures(then_graph, captures);
  collect_captures(else_graph, captures);
  const SmallVector<Value> inputs = captured_values(node.graph, captures);
  const std::string name = "if" + std::to_string(parts.count++);
  const Symbols::Mark mark = node.graph.symbols.mark();
  GraphPart then_part(node, then_graph, parts, name + ".then"), else_part(node, else_graph, parts, name + ".else");
  then_part.translate(captures, inputs);
  else_part.translate(captures, inputs);
  if (std::optional<bool> taken = stated_branch(node, then_part, else_part)) {
    // It is translated again, in place of the node. Symbols of the other one are not needed.
    node.graph.symbols.go_back(mark);
    then_part.drop();
    pin(node, number, *taken ? 1 : 0, "the condition");
    return take_branch(node, *taken ? then_graph : else_graph, parts);
  }
  const std::vector<Form>& forms = then_part.forms();
  for (auto [i, of_then, of_else] : llvm::enumerate(forms, else_part.forms())) {
    if (of_then.count != 0 && of_then.element.compound != of_else.element.compound)
      node.fail("output " + std::to_string(i) + " has elements of one type in then_branch and of another one in else_branch");
  }
  align_results(node, then_part, else_part);
  SmallVector<Type> types;
  for (size_t i = 0; i < then_part.results().size(); ++i) {
    const std::string which = result_name(forms, i);
    for (GraphPart* part : {&then_part, &else_part}) {
      if (part->is_own(part->results()[i].getType()))
        node.fail(which + " has an extent that a branch computes from values of the call, which is not supported",
                  HEDDLE_STATUS_UNIMPLEMENTED);
    }
    types.push_back(type_of_both(node, number, then_part.results()[i], else_part.results()[i], which));
    for (GraphPart* part : {&then_part, &else_part}) part->take_type(i, types.back());
  }
  SmallVector<Value> results;
  if (types.empty()) {  // optionals without values, and empty sequences
    then_part.drop();
  } else {
    then_part.finish();
    else_part.finish();
    auto op = node.builder.create<tx::IfOp>(node.location(), types, number, inputs, then_part.name(), else_part.name(), StringAttr());
    results = op.getOutputs();
  }
  ArrayRef<Value> rest = results;
  for (auto [i, form] : llvm::enumerate(forms)) {
    node.set_operand(made_of(form, rest.take_front(form.count)), static_cast<int>(i));
    rest = rest.drop_front(form.count);
  }
}

}  // namespace

Value applied(Node& node, const onnx::GraphProto& part, const Parts& parts, Value input) {
  if (part.input_size() != 1 || part.output_size() != 1)
    node.fail("its graph '" + part.name() + "' does not have one input and one output");
  Graph& graph = node.graph;
  std::map<std::string, Operand> outer = graph.operands;
  auto restore = llvm::make_scope_exit([&] { graph.operands.swap(outer); });
  if (!graph.operands.try_emplace(part.input(0).name(), Operand{input, {}, 0}).second)
    node.fail("input '" + part.input(0).name() + "' of its graph is the name of another value");
  parts.translate(part);
  onnx::NodeProto end;
  end.set_op_type(outputs_operator);
  end.add_input(part.output(0).name());
  return Node(graph, end, node.location()).input(0);
}

bool is_control(const onnx::NodeProto& node) {
  if (node.domain() == preview_domain) return node.op_type() == "FlexAttention";
  return domain_key(node.domain()).empty() &&
         (node.op_type() == "If" || node.op_type() == "Loop" || node.op_type() == "Scan" || node.op_type() == "SequenceMap");
}

void import_control(Node& node, const onnx::NodeProto& proto, Parts& parts) {
  if (proto.op_type() == "FlexAttention") return flex_attention(node, proto, parts);
  if (proto.op_type() == "If") return branch(node, proto, parts);
  if (proto.op_type() == "SequenceMap") return sequence_map(node, proto, parts);
  return proto.op_type() == "Loop" ? import_loop(node, proto, parts) : import_scan(node, proto, parts);
}

}  // namespace heddle::import
