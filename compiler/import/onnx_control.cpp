// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// If, Loop and Scan. A graph in an attribute becomes a private function. Names that it takes from outside become its arguments, after those that
// the operator defines; constants are repeated in it, so that they are its own weights.
#include "compiler/import/onnx_control.h"

#include <algorithm>
#include <limits>
#include <set>

#include "compiler/import/onnx_attention.h"
#include "compiler/import/onnx_checks.h"
#include "compiler/import/onnx_collections.h"
#include "compiler/import/onnx_unrolled.h"
#include "compiler/ir/control.h"
#include "llvm/ADT/ScopeExit.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace heddle::import {
namespace {

// The names that the graph takes from outside, in their order.
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

// Whether the value is computed from constants alone, by a few ops.
bool is_constant(Value value, unsigned depth = 0) {
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

// A part while it is translated: its function, and the values from outside that its last arguments stand for.
class Part {
 public:
  Part(Node& node, const onnx::GraphProto& proto, Parts& parts, const std::string& name)
      : node_(node), graph_(node.graph), proto_(proto), parts_(parts) {
    if (proto.sparse_initializer_size() != 0) node.unsupported("a graph with sparse initializers is not supported");
    OpBuilder::InsertionGuard guard(graph_.builder);
    auto outer = llvm::cast<func::FuncOp>(graph_.builder.getBlock()->getParentOp());
    graph_.builder.setInsertionPointToEnd(outer->getParentOfType<ModuleOp>().getBody());
    function_ =
        graph_.builder.create<func::FuncOp>(node.location(), outer.getName().str() + "." + name, graph_.builder.getFunctionType({}, {}));
    function_.setPrivate();
    function_.addEntryBlock();
  }

  FlatSymbolRefAttr name() const {
    func::FuncOp function = function_;
    return FlatSymbolRefAttr::get(function.getSymNameAttr());
  }
  SmallVector<Value>& results() { return results_; }         // tensors: of sequences, all of them
  const std::vector<Form>& forms() const { return forms_; }  // of outputs

  BlockArgument add_argument(Type type) { return function_.getBody().front().addArgument(type, node_.location()); }

  // An input of the graph. Call before translate.
  void define(const std::string& name, Operand operand) { own_[name] = std::move(operand); }

  // Whether the graph, or a part of it, uses the name.
  bool uses(const std::string& name) const {
    onnx::GraphProto open = proto_;
    open.clear_input();
    std::set<std::string> names;
    collect_captures(open, names);
    return names.contains(name);
  }

  // Translates the graph; `values`: from outside, for which it gets arguments, in this order.
  void translate(const std::set<std::string>& captures, const SmallVector<Value>& values) {
    std::map<std::string, Operand> outer;
    std::vector<Check> outer_checks;
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
    graph_.operands.swap(operands);
    auto restore = llvm::make_scope_exit([&] {
      graph_.operands.swap(outer);
      graph_.checks.swap(outer_checks);
    });
    parts_.translate(proto_);
    onnx::NodeProto end;
    for (const auto& output : proto_.output()) *end.add_input() = output.name();
    end.set_op_type("graph output");
    Node outputs(graph_, end, node_.location());
    for (int i = 0; i < proto_.output_size(); ++i) {
      const Operand& known = outputs.any_operand(i);
      const bool is_one = known.elements && known.elements->size() == 1;
      elements_.push_back(is_one ? (*known.elements)[0] : AffineExpr());
      forms_.push_back(form_of(known));
      llvm::append_range(results_, tensors_of(outputs, known));
    }
    checks_.swap(graph_.checks);
  }

  // The number that an output always has; none if it is not known. After translate.
  std::optional<int64_t> known(size_t output) const { return elements_[output] ? tx::static_extent(elements_[output]) : std::nullopt; }

  // Removes the function, and those that were made after it.
  void drop() {
    Block* functions = function_->getBlock();
    while (&functions->back() != function_) functions->back().erase();
    function_.erase();
  }

  OpBuilder at_end() { return OpBuilder::atBlockEnd(&function_.getBody().front()); }

  // Ends the function with results(). The memory of the first `carried` arguments is for results from `first_carried` on.
  void finish(size_t carried = 0, size_t first_carried = 0) {
    graph_.checks.swap(checks_);
    ArrayAttr described = graph_.checks.empty() ? ArrayAttr() : describe_checks(graph_, results_);
    graph_.checks.swap(checks_);
    OpBuilder builder = at_end();
    builder.create<func::ReturnOp>(node_.location(), results_);
    Block& block = function_.getBody().front();
    function_.setFunctionType(builder.getFunctionType(block.getArgumentTypes(), ValueRange(results_).getTypes()));
    if (described) function_->setAttr(tx::checks_attr, described);
    for (size_t i = 0; i < carried; ++i)
      function_.setArgAttr(static_cast<unsigned>(i), tx::alias_attr, builder.getI64IntegerAttr(static_cast<int64_t>(first_carried + i)));
  }

 private:
  Node& node_;
  Graph& graph_;
  const onnx::GraphProto& proto_;
  Parts& parts_;
  func::FuncOp function_;
  std::map<std::string, Operand> own_;
  SmallVector<Value> results_;
  SmallVector<AffineExpr> elements_;  // of outputs; null: not one number
  std::vector<Form> forms_;
  std::vector<Check> checks_;
};

// The values from outside that parts take as arguments: those that are not constants.
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

// A branch that is taken in every call: its nodes in place of the node.
void take_branch(Node& node, const onnx::GraphProto& branch, const Parts& parts) {
  if (branch.input_size() != 0) node.fail("its graph '" + branch.name() + "' has inputs, and those of If have none");
  std::vector<Operand> results = inlined(node, branch, {}, parts);
  for (int i = 0; i < static_cast<int>(results.size()); ++i) node.set_operand(std::move(results[static_cast<size_t>(i)]), i);
}

std::string text_of(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

// "output 0", "tensor 2 of output 1": result i of a part whose outputs have these forms.
std::string result_name(ArrayRef<Form> forms, size_t index) {
  size_t output = 0;
  for (; output + 1 < forms.size() && index >= forms[output].count; ++output) index -= forms[output].count;
  const std::string name = "output " + std::to_string(output);
  return forms[output].is_sequence ? "tensor " + std::to_string(index) + " of " + name : name;
}

// The branch that gives what the user stated, if the other one gives another kind of value: true for then_branch. None if both are alike.
std::optional<bool> stated_branch(const Node& node, const Part& then_part, const Part& else_part) {
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
  Part then_part(node, then_graph, parts, name + ".then"), else_part(node, else_graph, parts, name + ".else");
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
  SmallVector<Type> types;
  for (auto [i, a, b] : llvm::enumerate(then_part.results(), else_part.results())) {
    if (a.getType() != b.getType()) {
      node.fail(result_name(forms, i) + " is " + text_of(a.getType()) + " in then_branch and " + text_of(b.getType()) +
                    " in else_branch; branches that give different extents are not supported",
                HEDDLE_STATUS_UNIMPLEMENTED);
    }
    types.push_back(a.getType());
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

// A loop of ONNX: what Loop and Scan have in common.
struct Steps {
  std::optional<AffineExpr> count;  // of steps
  Value trips, condition;           // null if there are none
  bool conditional = false;
  SmallVector<Value> init, scanned;
  SmallVector<int64_t> reversed;
};

Operation* make_loop(Node& node, Part& body, Steps& parts, const SmallVector<Value>& inputs, size_t rows) {
  const size_t carried = parts.init.size(), first = parts.conditional ? 1 : 0;
  SmallVector<Type> types;
  for (size_t i = 0; i < carried; ++i) {
    Type from = parts.init[i].getType(), to = body.results()[first + i].getType();
    if (from != to) {
      node.fail("a carried value is " + text_of(from) + " before a step and " + text_of(to) +
                    " after it; values whose types or extents change are not supported",
                HEDDLE_STATUS_UNIMPLEMENTED);
    }
    types.push_back(to);
  }
  if (rows != 0 && (!parts.count || parts.condition || parts.conditional)) {
    node.fail("it stacks values of all steps, and how many there are is known only when it runs, which is not supported",
              HEDDLE_STATUS_UNIMPLEMENTED);
  }
  for (size_t i = 0; i < rows; ++i) {
    RankedTensorType row = Node::type_of(body.results()[first + carried + i]);
    Extents extents = tx::extents(row);
    extents.insert(extents.begin(), *parts.count);
    types.push_back(node.tensor_type(extents, row.getElementType()));
  }
  if (!parts.count && !parts.trips && !parts.conditional) node.fail("it never ends: it has neither a number of steps nor a condition");
  body.finish(carried, first);
  AffineMapAttr count;
  if (parts.count) count = AffineMapAttr::get(AffineMap::get(0, static_cast<unsigned>(node.graph.symbols.names().size()), *parts.count));
  auto reversed =
      llvm::any_of(parts.reversed, [](int64_t one) { return one != 0; }) ? ArrayRef<int64_t>(parts.reversed) : ArrayRef<int64_t>();
  return node.builder.create<tx::LoopOp>(node.location(), types, parts.trips, parts.condition, parts.init, parts.scanned, inputs,
                                         body.name(), count, parts.conditional ? node.builder.getUnitAttr() : UnitAttr(),
                                         node.builder.getDenseI64ArrayAttr(reversed), StringAttr());
}

// The extents of the first dimensions of scanned values, which have to be the number of steps.
void refuse_other_types(const Node& node, const onnx::GraphProto& body) {
  for (const auto& input : body.input()) {
    if (input.has_type() && !input.type().has_tensor_type())
      node.fail("its body's input '" + input.name() + "' is no tensor, which is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  }
}

void refuse_other_results(const Node& node, const Part& body) {
  for (const auto& [i, form] : llvm::enumerate(body.forms())) {
    if (!form.is_tensor()) node.fail("output " + std::to_string(i) + " of its body is " + kind_of(form) + ", and has to be a tensor");
  }
}

void loop(Node& node, const onnx::NodeProto& of_node, Parts& all_parts) {
  const onnx::GraphProto& proto = part_of(node, of_node, "body");
  const int carried = node.input_count() - 2, rows = node.output_count() - carried;
  if (carried < 0 || rows < 0 || proto.input_size() != carried + 2) {
    node.fail("it has " + std::to_string(node.input_count()) + " inputs and " + std::to_string(node.output_count()) +
              " outputs, and its body " + std::to_string(proto.input_size()) + " inputs, which do not fit together");
  }
  check_outputs(node, proto, 1 + carried + rows, "body");
  for (int i = 0; i < carried; ++i) {
    if (!node.any_operand(2 + i).is_tensor()) return unroll_loop(node, proto, carried, rows, all_parts);
  }
  refuse_other_types(node, proto);
  Steps parts;
  if (node.has_input(0)) {
    const Operand& given = node.operand(0);
    if (given.is_shape() && given.elements->size() == 1) {
      parts.count = given.elements->front();
      if (tx::static_extent(*parts.count).value_or(0) < 0) parts.count = node.builder.getAffineConstantExpr(0);
    } else {
      parts.trips = as_number(node, node.input(0), "the number of steps");
    }
  }
  if (node.has_input(1)) {
    const Operand& given = node.operand(1);
    auto known = given.elements && given.elements->size() == 1 ? tx::static_extent(given.elements->front()) : std::nullopt;
    if (known == 0) parts.count = node.builder.getAffineConstantExpr(0);
    if (known == 0) parts.trips = {};
    if (!known) parts.condition = as_number(node, node.input(1), "the condition");
  }
  Part body(node, proto, all_parts, "loop" + std::to_string(all_parts.count++));
  const bool counts = body.uses(proto.input(0).name());
  const RankedTensorType number = RankedTensorType::get({}, node.builder.getI64Type());
  if (counts) {
    parts.init.push_back(node.splat(number, 0));
    Value step = body.add_argument(number);
    const auto limit = parts.count ? tx::static_extent(*parts.count) : std::nullopt;
    node.graph.ranges[step] = {0, limit && *limit > 0 ? *limit - 1 : std::numeric_limits<int64_t>::max() - 1};
    Operand operand;
    operand.value = step;
    const auto& type = proto.input(0).type().tensor_type();
    if (type.has_shape() && type.shape().dim_size() == 1) {
      OpBuilder::InsertionGuard guard(node.builder);
      node.builder.setInsertionPointToEnd(step.getParentBlock());
      operand.value = node.builder.create<tx::ReshapeOp>(node.location(), RankedTensorType::get({1}, node.builder.getI64Type()), step);
    }
    body.define(proto.input(0).name(), operand);
  }
  Operand always;
  always.elements = std::vector<AffineExpr>{node.builder.getAffineConstantExpr(1)};
  always.bits = 1;
  body.define(proto.input(1).name(), always);
  for (int i = 0; i < carried; ++i) {
    Value init = node.input(2 + i);
    parts.init.push_back(init);
    Operand operand;
    operand.value = body.add_argument(init.getType());
    body.define(proto.input(2 + i).name(), operand);
  }
  std::set<std::string> captures;
  collect_captures(proto, captures);
  const SmallVector<Value> inputs = captured_values(node.graph, captures);
  body.translate(captures, inputs);
  refuse_other_results(node, body);

  SmallVector<Value>& results = body.results();
  const std::optional<int64_t> goes_on = body.known(0);
  parts.conditional = goes_on != 1;
  {
    OpBuilder::InsertionGuard guard(node.builder);
    node.builder.setInsertionPointToEnd(results.front().getParentBlock());
    if (parts.conditional) {
      results.front() = as_number(node, results.front(), "the condition of its body");
    } else {
      results.erase(results.begin());
    }
    if (counts) {
      Block* block = node.builder.getBlock();
      Value next = node.make<tx::AddOp>(number, block->getArgument(0), node.splat(number, 1));
      results.insert(results.begin() + (parts.conditional ? 1 : 0), next);
    }
  }
  Operation* op = make_loop(node, body, parts, inputs, static_cast<size_t>(rows));
  for (int i = 0; i < node.output_count(); ++i) node.set_result(op->getResult(static_cast<unsigned>(i + (counts ? 1 : 0))), i);
}

// The value with that dimension first, or first again where it was.
Value with_axis_first(Node& node, Value value, int64_t axis, bool back) {
  if (axis == 0) return value;
  SmallVector<int64_t> permutation;
  const int64_t rank = Node::type_of(value).getRank();
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) permutation.push_back(i);
  }
  permutation.insert(permutation.begin(), axis);
  if (!back) return node.transpose(value, permutation);
  SmallVector<int64_t> inverse(permutation.size());
  for (auto [i, p] : llvm::enumerate(permutation)) inverse[static_cast<size_t>(p)] = static_cast<int64_t>(i);
  return node.transpose(value, inverse);
}

void scan(Node& node, const onnx::NodeProto& of_node, Parts& all_parts) {
  if (node.opset() < 9) node.fail("Scan of opset 8, which goes through batches, is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  const onnx::GraphProto& proto = part_of(node, of_node, "body");
  const int scanned = static_cast<int>(node.integer("num_scan_inputs")), carried = node.input_count() - scanned;
  const int rows = node.output_count() - carried;
  if (scanned < 1 || carried < 0 || rows < 0 || proto.input_size() != node.input_count()) {
    node.fail("it has " + std::to_string(node.input_count()) + " inputs, of which it scans " + std::to_string(scanned) + ", and " +
              std::to_string(node.output_count()) + " outputs, and its body " + std::to_string(proto.input_size()) +
              " inputs, which do not fit together");
  }
  check_outputs(node, proto, carried + rows, "body");
  refuse_other_types(node, proto);
  auto list = [&](const char* name, int count) {
    std::vector<int64_t> all = node.integer_list(name, std::vector<int64_t>(static_cast<size_t>(count), 0));
    if (all.size() != static_cast<size_t>(count))
      node.fail(std::string("attribute '") + name + "' has " + std::to_string(all.size()) + " numbers, and " + std::to_string(count) +
                " are needed");
    return all;
  };
  const std::vector<int64_t> axes = list("scan_input_axes", scanned), back = list("scan_input_directions", scanned),
                             output_axes = list("scan_output_axes", rows), output_back = list("scan_output_directions", rows);
  Steps parts;
  Part body(node, proto, all_parts, "scan" + std::to_string(all_parts.count++));
  auto define = [&](int input, Type type) {
    Operand operand;
    operand.value = body.add_argument(type);
    body.define(proto.input(input).name(), operand);
  };
  for (int i = 0; i < carried; ++i) {
    parts.init.push_back(node.input(i));
    define(i, parts.init.back().getType());
  }
  for (int i = 0; i < scanned; ++i) {
    const size_t at = static_cast<size_t>(i);
    Value value = node.input(carried + i);
    if (Node::type_of(value).getRank() == 0) node.refuse_inputs("it scans a scalar");
    value = with_axis_first(node, value, node.axis(axes[at], Node::type_of(value).getRank()), false);
    Extents extents = Node::extents_of(value);
    if (!parts.count) parts.count = extents[0];
    if (!node.are_equal(extents[0], *parts.count)) node.refuse_inputs("the values that it scans have different numbers of slices");
    extents[0] = *parts.count;
    value = node.with_extents(value, extents);
    parts.scanned.push_back(value);
    parts.reversed.push_back(back[at] != 0);
    define(carried + i, node.tensor_type(ArrayRef(extents).drop_front(), Node::type_of(value).getElementType()));
  }
  for (int64_t one : output_back) parts.reversed.push_back(one != 0);
  std::set<std::string> captures;
  collect_captures(proto, captures);
  const SmallVector<Value> inputs = captured_values(node.graph, captures);
  body.translate(captures, inputs);
  refuse_other_results(node, body);
  Operation* op = make_loop(node, body, parts, inputs, static_cast<size_t>(rows));
  for (int i = 0; i < node.output_count(); ++i) {
    Value result = op->getResult(static_cast<unsigned>(i));
    if (i >= carried)
      result =
          with_axis_first(node, result, node.axis(output_axes[static_cast<size_t>(i - carried)], Node::type_of(result).getRank()), true);
    node.set_result(result, i);
  }
}

}  // namespace

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
  end.set_op_type("graph output");
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
  return proto.op_type() == "Loop" ? loop(node, proto, parts) : scan(node, proto, parts);
}

}  // namespace heddle::import
