// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loop and Scan. Carried values whose extents steps change are found by importing the model again.
#include <algorithm>
#include <limits>

#include "compiler/import/onnx_data.h"
#include "compiler/import/onnx_part.h"
#include "compiler/import/onnx_unrolled.h"
#include "compiler/ir/control.h"

using namespace mlir;

namespace heddle::import {
namespace {

// A loop of ONNX: what Loop and Scan have in common.
struct LoopSteps {
  std::optional<AffineExpr> count;  // of steps
  Value trips, condition;           // null if there are none
  bool conditional = false;
  SmallVector<Value> init, scanned;
  SmallVector<int64_t> reversed;
  // An extent of a carried value that steps change: its symbols in a step and after the loop, its value before the first step, and after each.
  struct Varying {
    size_t value, dimension;
    AffineExpr inside, after, first, next;
    bool is_apart;  // the symbols are for this extent only
  };
  std::vector<Varying> varying;
};

// The name of an extent that a loop may change.
std::string extent_of(const Node& node, size_t value, size_t dimension) {
  return node.describe() + ": extent " + std::to_string(dimension) + " of carried value " + std::to_string(value);
}

// Of values whose extents begin alike, those are taken to stay alike that an earlier import did not find to be `apart`.
constexpr const char* apart = ", which is not that of another one";

void vary(Node& node, LoopSteps& parts, size_t value, size_t dimension, AffineExpr first, bool is_apart) {
  auto alike = llvm::find_if(parts.varying, [&](const auto& other) { return other.first == first && !other.is_apart; });
  LoopSteps::Varying one{value, dimension, {}, {}, first, {}, is_apart};
  if (alike != parts.varying.end() && !is_apart) {
    one.inside = alike->inside;
    one.after = alike->after;
  } else {
    const std::string which = "extent " + std::to_string(dimension) + " of carried value " + std::to_string(value);
    one.inside = new_symbol(node, which);
    one.after = new_symbol(node, which + " after the loop");
  }
  parts.varying.push_back(one);
}

// The type of carried value `value`, which begins as `init`, in the body.
RankedTensorType type_in_body(Node& node, LoopSteps& parts, size_t value, Value init) {
  Extents extents = Node::extents_of(init);
  for (auto [i, extent] : llvm::enumerate(extents)) {
    const std::string name = extent_of(node, value, i);
    if (!node.graph.symbols.varies(name)) continue;
    vary(node, parts, value, i, extent, node.graph.symbols.varies(name + apart));
    extent = parts.varying.back().inside;
  }
  return node.tensor_type(extents, Node::type_of(init).getElementType());
}

// The type of a carried value after the loop; null if steps change extents that they were not known to change, which the next import knows.
RankedTensorType type_after(Node& node, LoopSteps& parts, size_t value, RankedTensorType from, RankedTensorType to) {
  if (from.getElementType() != to.getElementType() || from.getRank() != to.getRank()) {
    node.fail("a carried value is " + text_of(from) + " before a step and " + text_of(to) +
                  " after it; values whose types or ranks change are not supported",
              HEDDLE_STATUS_UNIMPLEMENTED);
  }
  Extents before = tx::extents(from), after = tx::extents(to);
  bool is_known = true;
  for (auto [i, one, next] : llvm::enumerate(before, after)) {
    auto varying = llvm::find_if(parts.varying, [&, i = i](const auto& each) { return each.value == value && each.dimension == i; });
    std::string found = extent_of(node, value, i);
    if (varying == parts.varying.end()) {
      if (one == next) continue;
    } else {
      auto first = llvm::find_if(parts.varying, [&](const auto& other) { return other.inside == varying->inside; });
      varying->next = next;
      one = varying->after;
      if (first->next == next) continue;
      found += apart;
    }
    node.graph.symbols.note_varying(found);
    is_known = false;
  }
  return is_known ? node.tensor_type(before, from.getElementType()) : RankedTensorType();
}

// Values of all steps whose number is known only after the last one: carried values that get a row in each step.
void carry_rows(Node& node, GraphPart& body, LoopSteps& parts, size_t first, size_t rows) {
  const size_t carried = parts.init.size();
  for (size_t i = 0; i < rows; ++i) {
    Value& result = body.results()[first + carried + i];
    const RankedTensorType row = Node::type_of(result);
    if (body.is_own(row))
      node.fail("it stacks values with an extent that each step computes, which is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
    const AffineExpr none = node.builder.getAffineConstantExpr(0), one = node.builder.getAffineConstantExpr(1);
    if (i == 0) {
      vary(node, parts, carried, 0, none, /*is_apart=*/true);
    } else {
      parts.varying.push_back(parts.varying.back());
    }
    LoopSteps::Varying& varying = parts.varying.back();
    varying.value = carried + i;
    Extents extents = tx::extents(row);
    extents.insert(extents.begin(), none);
    const RankedTensorType empty = node.tensor_type(extents, row.getElementType());
    Value init =
        empty.hasStaticShape()
            ? Value(node.builder.create<tx::ConstantOp>(node.location(), empty, DenseElementsAttr::get(empty, ArrayRef<Attribute>())))
            : node.splat(empty, 0);
    parts.init.push_back(init);
    extents[0] = varying.inside;
    SmallVector<Value> both{body.insert_argument(carried + i, node.tensor_type(extents, row.getElementType()))};
    varying.next = node.computed(sum(varying.inside, one));
    OpBuilder::InsertionGuard guard(node.builder);
    node.builder.setInsertionPointToEnd(both[0].getParentBlock());
    extents[0] = one;
    both.push_back(node.reshape(result, extents));
    extents[0] = varying.next;
    result = node.make<tx::ConcatOp>(node.tensor_type(extents, row.getElementType()), both, node.builder.getI64IntegerAttr(0));
  }
}

// The number of steps as an extent, which the program reads.
void count_steps(Node& node, LoopSteps& parts) {
  const AffineExpr one = node.builder.getAffineConstantExpr(1);
  if (!parts.trips && !parts.count) return;  // it has no end
  const Integers given = parts.trips ? Integers(node, node.reshape(parts.trips, {one})) : numbers_of(node, {*parts.count});
  Integers steps = max(given, given.number(0));
  if (parts.condition) steps = steps.where(Integers(node, node.reshape(parts.condition, {one})), steps.number(0));
  parts.count = read_extents(node, steps, "number of steps")[0];
  parts.trips = parts.condition = {};
}

Operation* make_loop(Node& node, GraphPart& body, LoopSteps& parts, const SmallVector<Value>& inputs, size_t rows) {
  const size_t first = parts.conditional ? 1 : 0;
  if (rows != 0 && !parts.conditional && (parts.trips || parts.condition)) count_steps(node, parts);
  if (rows != 0 && (!parts.count || parts.condition || parts.conditional)) {
    carry_rows(node, body, parts, first, rows);
    rows = 0;
  }
  const size_t carried = parts.init.size();
  SmallVector<Type> types;
  for (size_t i = 0; i < carried; ++i) {
    const RankedTensorType to = Node::type_of(body.results()[first + i]);
    types.push_back(type_after(node, parts, i, Node::type_of(parts.init[i]), to));
  }
  if (!llvm::all_of(types, [](Type type) { return static_cast<bool>(type); }))
    node.fail("its steps change the extents of carried values in more ways than an import can find out", HEDDLE_STATUS_UNIMPLEMENTED);
  for (size_t i = 0; i < rows; ++i) {
    RankedTensorType row = Node::type_of(body.results()[first + carried + i]);
    Extents extents = tx::extents(row);
    if (body.is_own(row))
      node.fail("it stacks values with an extent that each step computes, which is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
    extents.insert(extents.begin(), *parts.count);
    types.push_back(node.tensor_type(extents, row.getElementType()));
  }
  if (!parts.count && !parts.trips && !parts.conditional) node.fail("it never ends: it has neither a number of steps nor a condition");
  SmallVector<size_t> in_place;
  SmallVector<AffineExpr> values;
  SmallVector<int64_t> symbols;
  for (size_t i = 0; i < carried; ++i) {
    if (llvm::none_of(parts.varying, [&](const auto& one) { return one.value == i; })) in_place.push_back(i);
  }
  for (auto [i, one] : llvm::enumerate(parts.varying)) {
    if (llvm::any_of(ArrayRef(parts.varying).take_front(i), [&](const auto& other) { return other.inside == one.inside; })) continue;
    values.append({one.first, one.next});
    for (AffineExpr symbol : {one.inside, one.after}) symbols.push_back(llvm::cast<AffineSymbolExpr>(symbol).getPosition());
  }
  body.finish(in_place, first);
  const auto symbol_count = static_cast<unsigned>(node.graph.symbols.names().size());
  AffineMapAttr count, varying;
  if (parts.count) count = AffineMapAttr::get(AffineMap::get(0, symbol_count, *parts.count));
  if (!values.empty()) varying = AffineMapAttr::get(AffineMap::get(0, symbol_count, values, node.builder.getContext()));
  auto reversed =
      llvm::any_of(parts.reversed, [](int64_t one) { return one != 0; }) ? ArrayRef<int64_t>(parts.reversed) : ArrayRef<int64_t>();
  return node.builder.create<tx::LoopOp>(node.location(), types, parts.trips, parts.condition, parts.init, parts.scanned, inputs,
                                         body.name(), count, parts.conditional ? node.builder.getUnitAttr() : UnitAttr(),
                                         node.builder.getDenseI64ArrayAttr(reversed), StringAttr(), varying,
                                         varying ? node.builder.getDenseI64ArrayAttr(symbols) : DenseI64ArrayAttr());
}

// The extents of the first dimensions of scanned values, which have to be the number of steps.
void refuse_other_types(const Node& node, const onnx::GraphProto& body) {
  for (const auto& input : body.input()) {
    if (input.has_type() && !input.type().has_tensor_type())
      node.fail("its body's input '" + input.name() + "' is no tensor, which is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  }
}

// `carried`: of values that the body takes from step to step, ONNX's number of their element type if that is compound. The outputs for them are those
// from `first` on.
void refuse_other_results(const Node& node, const GraphPart& body, ArrayRef<std::optional<int32_t>> carried, size_t first) {
  for (const auto& [i, form] : llvm::enumerate(body.forms())) {
    const std::string name = "output " + std::to_string(i) + " of its body";
    if (!form.is_tensor()) node.fail(name + " is " + kind_of(form) + ", and has to be a tensor");
    if (i >= first && i - first < carried.size() && form.element.compound != carried[i - first])
      node.fail(name + " has another element type than the carried value has before the step");
  }
}

}  // namespace

void import_loop(Node& node, const onnx::NodeProto& of_node, Parts& all_parts) {
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
  LoopSteps parts;
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
  GraphPart body(node, proto, all_parts, "loop" + std::to_string(all_parts.count++));
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
  SmallVector<std::optional<int32_t>> compound;  // of carried values
  for (int i = 0; i < carried; ++i) {
    compound.push_back(kind_of_elements(node, node.operand(2 + i)).compound);
    Value init = node.input(2 + i);
    Value inside = body.add_argument(type_in_body(node, parts, parts.init.size(), init));
    parts.init.push_back(init);
    body.define(proto.input(2 + i).name(), Operand::of(inside, compound.back()));
  }
  std::set<std::string> captures;
  collect_captures(proto, captures);
  const SmallVector<Value> inputs = captured_values(node.graph, captures);
  body.translate(captures, inputs, static_cast<size_t>(1 + carried));
  refuse_other_results(node, body, compound, 1);

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
  for (int i = 0; i < node.output_count(); ++i) {
    Value result = op->getResult(static_cast<unsigned>(i + (counts ? 1 : 0)));
    node.set_operand(Operand::of(result, body.forms()[static_cast<size_t>(1 + i)].element.compound), i);
  }
}

namespace {

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

// An attribute that Scan of opset 8 does not have.
constexpr const char* scan_input_axes = "scan_input_axes";

// Scan of opset 8 goes along the second dimension of its values for each element of the first one: a scan of scans.
void scan_batches(Node& node, const onnx::NodeProto& of_node, Parts& all_parts) {
  if (node.has_input(0)) node.fail("sequences of different lengths (sequence_lens) are not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  if (node.input_count() < 2) node.fail("it has no values to scan");
  const int64_t scanned = node.integer("num_scan_inputs"), inputs = node.input_count() - 1;
  auto set = [](onnx::NodeProto& proto, const char* name, const std::vector<int64_t>& values, bool is_list) {
    auto* attribute = proto.add_attribute();
    attribute->set_name(name);
    attribute->set_type(is_list ? onnx::AttributeProto::INTS : onnx::AttributeProto::INT);
    if (is_list) attribute->mutable_ints()->Assign(values.begin(), values.end());
    if (!is_list) attribute->set_i(values.front());
  };
  auto make = [&](onnx::NodeProto& proto, int64_t count, const onnx::GraphProto& body) {
    proto.set_op_type("Scan");
    proto.set_name(of_node.name());
    set(proto, "num_scan_inputs", {count}, /*is_list=*/false);
    set(proto, scan_input_axes, std::vector<int64_t>(static_cast<size_t>(std::max<int64_t>(count, 0))), /*is_list=*/true);
    auto* graph = proto.add_attribute();
    graph->set_name("body");
    graph->set_type(onnx::AttributeProto::GRAPH);
    *graph->mutable_g() = body;
  };
  onnx::GraphProto each;
  onnx::NodeProto& of_one = *each.add_node();
  make(of_one, scanned, part_of(node, of_node, "body"));
  set(of_one, "scan_input_directions",
      node.integer_list("directions", std::vector<int64_t>(static_cast<size_t>(std::max<int64_t>(scanned, 0)))),
      /*is_list=*/true);
  const std::string prefix = node.output_count() > 0 ? node.output(0) : node.describe();
  onnx::NodeProto all;
  for (int i = 0; i < inputs; ++i) {
    const std::string name = prefix + ".input" + std::to_string(i) + " of one element";
    each.add_input()->set_name(name);
    of_one.add_input(name);
    all.add_input(of_node.input(1 + i));
  }
  for (int i = 0; i < node.output_count(); ++i) {
    const std::string name = prefix + ".output" + std::to_string(i) + " of one element";
    each.add_output()->set_name(name);
    of_one.add_output(name);
    all.add_output(of_node.output(i));
  }
  make(all, inputs, each);
  Node whole(node.graph, all, node.location());
  import_scan(whole, all, all_parts);
}

}  // namespace

void import_scan(Node& node, const onnx::NodeProto& of_node, Parts& all_parts) {
  if (node.opset() < 9 && !node.has_attribute(scan_input_axes)) return scan_batches(node, of_node, all_parts);
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
  const std::vector<int64_t> axes = list(scan_input_axes, scanned), back = list("scan_input_directions", scanned),
                             output_axes = list("scan_output_axes", rows), output_back = list("scan_output_directions", rows);
  LoopSteps parts;
  GraphPart body(node, proto, all_parts, "scan" + std::to_string(all_parts.count++));
  SmallVector<std::optional<int32_t>> compound;  // of inputs
  for (int i = 0; i < node.input_count(); ++i) compound.push_back(kind_of_elements(node, node.operand(i)).compound);
  auto define = [&](int input, Type type) {
    body.define(proto.input(input).name(), Operand::of(body.add_argument(type), compound[static_cast<size_t>(input)]));
  };
  for (int i = 0; i < carried; ++i) {
    Value init = node.input(i);
    define(i, type_in_body(node, parts, parts.init.size(), init));
    parts.init.push_back(init);
  }
  for (int i = 0; i < scanned; ++i) {
    const size_t at = static_cast<size_t>(i);
    Value value = node.input(carried + i);
    const int64_t rank = rank_of(node.operand(carried + i), value);
    if (rank == 0) node.refuse_inputs("it scans a scalar");
    value = with_axis_first(node, value, node.axis(axes[at], rank), false);
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
  body.translate(captures, inputs, static_cast<size_t>(carried));
  refuse_other_results(node, body, ArrayRef(compound).take_front(static_cast<size_t>(carried)), 0);
  Operation* op = make_loop(node, body, parts, inputs, static_cast<size_t>(rows));
  for (int i = 0; i < node.output_count(); ++i) {
    Operand result = Operand::of(op->getResult(static_cast<unsigned>(i)), body.forms()[static_cast<size_t>(i)].element.compound);
    if (i >= carried)
      result.value = with_axis_first(node, result.value,
                                     node.axis(output_axes[static_cast<size_t>(i - carried)], rank_of(result, result.value)), true);
    node.set_operand(std::move(result), i);
  }
}

}  // namespace heddle::import
