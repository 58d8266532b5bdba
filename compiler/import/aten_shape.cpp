// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Views, copies of parts, and joining. Views are values of their own: PyTorch's functionalization has replaced all writes to them.
#include <limits>

#include "compiler/import/aten_program.h"
#include "compiler/import/onnx_writer.h"

using namespace mlir;

namespace heddle::import::aten {
namespace {

// The same elements in the extents of the result.
void view(Op& op) {
  op.set(op.node.reshape(op.tensor("self"), op.result_extents()));
}
void unsafe_view(Op& op) {
  op.set(op.node.reshape(op.tensor(op.optional("a") ? "a" : "self"), op.result_extents()));
}
void expand(Op& op) {
  op.set(op.node.broadcast(op.tensor("self"), op.result_extents()));
}
// prims.broadcast_in_dim(a, shape, broadcast_dimensions)
void broadcast_in_dim(Op& op) {
  Value a = op.tensor("a");
  const std::vector<int64_t> places = op.integers("broadcast_dimensions");
  const Extents to = op.result_extents(), from = Op::extents_of(a);
  if (places.size() != from.size()) op.fail("broadcast_dimensions does not have one dimension for each of its operand");
  Extents between(to.size(), op.constant(1));
  for (size_t i = 0; i < places.size(); ++i)
    between[static_cast<size_t>(op.dimension(places[i], static_cast<int64_t>(to.size())))] = from[i];
  op.set(op.node.broadcast(op.node.reshape(a, between), to));
}

void permute(Op& op) {
  Value x = op.tensor("self");
  SmallVector<int64_t> order;
  for (int64_t one : op.integers("dims")) order.push_back(op.dimension(one, Op::rank_of(x)));
  if (static_cast<int64_t>(order.size()) != Op::rank_of(x)) op.fail("dims does not have all dimensions");
  op.set(order.empty() ? x : op.node.transpose(x, order));
}
void transpose(Op& op) {
  Value x = op.tensor("self");
  if (Op::rank_of(x) == 0) return op.set(x);
  const int64_t a = op.dimension(op.integer("dim0"), Op::rank_of(x)), b = op.dimension(op.integer("dim1"), Op::rank_of(x));
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < Op::rank_of(x); ++i) order.push_back(i == a ? b : i == b ? a : i);
  op.set(op.node.transpose(x, order));
}
void t(Op& op) {
  Value x = op.tensor("self");
  op.set(Op::rank_of(x) < 2 ? x : op.node.transpose(x, {1, 0}));
}

void slice(Op& op) {
  Value x = op.tensor("self");
  const int64_t dimension = op.dimension(op.integer("dim", 0), Op::rank_of(x));
  op.set(
      op.slice(x, dimension, op.expression("start", 0), op.expression("end", std::numeric_limits<int64_t>::max()), op.integer("step", 1)));
}
// The index may be negative, or an expression.
Value selected(Op& op, Value x, int64_t dimension, AffineExpr index) {
  const AffineExpr extent = Op::extents_of(x)[static_cast<size_t>(dimension)];
  if (auto known = tx::static_extent(index); known && *known < 0) index = op.node.computed(sum(extent, index));
  if (auto known = tx::static_extent(index)) {
    if (tx::static_extent(extent) && (*known < 0 || *known >= *tx::static_extent(extent)))
      op.fail("index " + std::to_string(*known) + " is outside of dimension " + std::to_string(dimension));
  }
  Value part = op.slice(x, dimension, index, op.node.computed(sum(index, op.constant(1))));
  return op.without(part, {dimension});
}
void select(Op& op) {
  Value x = op.tensor("self");
  op.set(selected(op, x, op.dimension(op.integer("dim"), Op::rank_of(x)), op.expression("index")));
}
void unbind(Op& op) {
  Value x = op.tensor("self");
  const int64_t dimension = op.dimension(op.integer("dim", 0), Op::rank_of(x));
  for (unsigned i = 0; i < op.result_count(); ++i) op.set(selected(op, x, dimension, op.constant(i)), i);
}
// split_with_sizes, split and chunk: the results state how long each part is.
void split(Op& op) {
  Value x = op.tensor("self");
  const int64_t dimension = op.dimension(op.integer("dim", 0), Op::rank_of(x));
  AffineExpr start = op.constant(0);
  for (unsigned i = 0; i < op.result_count(); ++i) {
    AffineExpr end = op.node.computed(sum(start, op.result_extents(i)[static_cast<size_t>(dimension)]));
    op.set(op.slice(x, dimension, start, end), i);
    start = end;
  }
}
void flip(Op& op) {
  Value x = op.tensor("self");
  constexpr int64_t lowest = std::numeric_limits<int64_t>::min();
  for (int64_t dimension : op.integers("dims"))
    x = op.slice(x, op.dimension(dimension, Op::rank_of(x)), op.constant(-1), op.constant(lowest), -1);
  op.set(x);
}

void cat(Op& op) {
  SmallVector<Value> parts;
  for (Value part : op.tensors("tensors")) {
    if (!part) op.fail("one of its tensors is None");
    // A vector without elements may stand for a tensor of any rank.
    const Extents extents = Op::extents_of(part);
    if (extents.size() == 1 && tx::static_extent(extents[0]) == 0 && op.result_extents().size() != 1) continue;
    parts.push_back(op.converted(part, op.result_element()));
  }
  if (parts.empty()) return op.set(op.node.splat(op.result_type(), 0));
  op.set(op.node.concatenated(parts, op.dimension(op.integer("dim", 0), Op::rank_of(parts[0]))));
}
void stack(Op& op) {
  SmallVector<Value> parts;
  const int64_t rank = static_cast<int64_t>(op.result_extents().size()), dimension = op.dimension(op.integer("dim", 0), rank);
  for (Value part : op.tensors("tensors")) {
    if (!part) op.fail("one of its tensors is None");
    Extents extents = Op::extents_of(part);
    extents.insert(extents.begin() + dimension, op.constant(1));
    parts.push_back(op.node.reshape(op.converted(part, op.result_element()), extents));
  }
  if (parts.empty()) op.fail("it has no tensors");
  op.set(op.node.concatenated(parts, dimension));
}

void repeat(Op& op) {
  Value x = op.tensor("self");
  const std::vector<AffineExpr> counts = op.expressions("repeats");
  Extents extents = Op::extents_of(x);
  if (counts.size() < extents.size()) op.fail("repeats has fewer numbers than its operand has dimensions");
  extents.insert(extents.begin(), counts.size() - extents.size(), op.constant(1));
  op.set(op.node.repeat(op.node.reshape(x, extents), counts, /*elements=*/false));
}

Value padded(Op& op, const char* mode, std::optional<double> filler) {
  Value x = op.tensor("self");
  const int64_t rank = Op::rank_of(x);
  const std::vector<AffineExpr> pairs = op.expressions(op.has("padding") ? "padding" : "pad");
  if (pairs.size() % 2 != 0 || static_cast<int64_t>(pairs.size()) > 2 * rank) op.fail("its pads are not pairs of the last dimensions");
  std::vector<AffineExpr> pads(static_cast<size_t>(2 * rank), op.constant(0));
  for (size_t i = 0; i < pairs.size() / 2; ++i) {
    const size_t dimension = static_cast<size_t>(rank) - 1 - i;
    pads[dimension] = pairs[2 * i];
    pads[static_cast<size_t>(rank) + dimension] = pairs[2 * i + 1];
  }
  SmallVector<Operand> operands{{x, {}, 0}, Op::known(pads)};
  if (filler) operands.push_back(Operand{op.node.splat(RankedTensorType::get({}, Op::element_of(x)), *filler), {}, 0});
  return op.by_onnx("Pad", operands, 1, [&](onnx::NodeProto& node) { NodeWriter::set(node, "mode", std::string(mode)); }).front();
}
void constant_pad(Op& op) {
  op.set(padded(op, "constant", op.number("value", 0)));
}
void reflection_pad(Op& op) {
  op.set(padded(op, "reflect", {}));
}
void replication_pad(Op& op) {
  op.set(padded(op, "edge", {}));
}

// The part of a dimension from start to end is `part`.
Value replaced(Op& op, Value x, Value part, int64_t dimension, AffineExpr start, AffineExpr end) {
  const AffineExpr whole = Op::extents_of(x)[static_cast<size_t>(dimension)];
  SmallVector<Value> parts;
  auto add = [&](Value one) {
    if (tx::static_extent(Op::extents_of(one)[static_cast<size_t>(dimension)]) != 0) parts.push_back(one);
  };
  add(op.slice(x, dimension, op.constant(0), start));
  add(part);
  add(op.slice(x, dimension, end, whole));
  return op.node.concatenated(parts, dimension);
}
void select_scatter(Op& op) {
  Value x = op.tensor("self"), source = op.converted(op.tensor("src"), op.result_element());
  const int64_t dimension = op.dimension(op.integer("dim"), Op::rank_of(x));
  Extents extents = Op::extents_of(x);
  AffineExpr index = op.expression("index");
  if (auto known = tx::static_extent(index); known && *known < 0)
    index = op.node.computed(sum(extents[static_cast<size_t>(dimension)], index));
  extents[static_cast<size_t>(dimension)] = op.constant(1);
  op.set(replaced(op, x, op.node.reshape(source, extents), dimension, index, op.node.computed(sum(index, op.constant(1)))));
}
// Each element along the dimension is one of the tensor or of the source, one behind the other.
Value with_steps(Op& op, Value x, Value source, int64_t dimension) {
  constexpr int64_t most = 1 << 16;
  const int64_t whole = op.extent(x, dimension), step = op.integer("step");
  int64_t start = op.integer("start", 0), end = op.integer("end", whole);
  if (step < 1) op.fail("the step is " + std::to_string(step));
  if (whole > most) op.unsupported("steps above 1 along more than " + std::to_string(most) + " elements are not supported");
  start = std::clamp<int64_t>(start < 0 ? start + whole : start, 0, whole);
  end = std::clamp<int64_t>(end < 0 ? end + whole : end, start, whole);
  const int64_t count = llvm::divideCeilSigned(end - start, step);
  Extents extents = Op::extents_of(x);
  extents[static_cast<size_t>(dimension)] = op.constant(count);
  std::vector<int64_t> places(static_cast<size_t>(whole));
  for (int64_t i = 0; i < whole; ++i)
    places[static_cast<size_t>(i)] = i >= start && i < end && (i - start) % step == 0 ? whole + (i - start) / step : i;
  Value both = op.node.concatenated({x, op.node.broadcast(source, extents)}, dimension);
  return op
      .by_onnx("Gather", {Operand{both, {}, 0}, op.known(places)}, 1,
               [&](onnx::NodeProto& node) { NodeWriter::set(node, "axis", dimension); })
      .front();
}
void slice_scatter(Op& op) {
  Value x = op.tensor("self"), source = op.converted(op.tensor("src"), op.result_element());
  const int64_t dimension = op.dimension(op.integer("dim", 0), Op::rank_of(x));
  const AffineExpr whole = Op::extents_of(x)[static_cast<size_t>(dimension)];
  if (op.integer("step", 1) != 1) return op.set(with_steps(op, x, source, dimension));
  AffineExpr start = op.expression("start", 0);
  if (auto known = tx::static_extent(start); known && *known < 0) start = op.node.computed(sum(whole, start));
  if (tx::static_extent(start).value_or(0) < 0) start = op.constant(0);
  AffineExpr count = Op::extents_of(source)[static_cast<size_t>(dimension)];
  Extents extents = Op::extents_of(x);
  extents[static_cast<size_t>(dimension)] = count;
  op.set(replaced(op, x, op.node.broadcast(source, extents), dimension, start, op.node.computed(sum(start, count))));
}

}  // namespace

const Table& shape_ops() {
  static const Table table = {
      {"aten._unsafe_view.default", view},
      {"aten.cat.default", cat},
      {"aten.constant_pad_nd.default", constant_pad},
      {"aten.expand.default", expand},
      {"aten.flip.default", flip},
      {"aten.permute.default", permute},
      {"aten.reflection_pad1d.default", reflection_pad},
      {"aten.reflection_pad2d.default", reflection_pad},
      {"aten.reflection_pad3d.default", reflection_pad},
      {"aten.repeat.default", repeat},
      {"aten.replication_pad1d.default", replication_pad},
      {"aten.replication_pad2d.default", replication_pad},
      {"aten.replication_pad3d.default", replication_pad},
      {"aten.reshape.default", view},
      {"aten.select.int", select},
      {"aten.select_scatter.default", select_scatter},
      {"aten.slice.Tensor", slice},
      {"aten.slice_scatter.default", slice_scatter},
      {"aten.split.Tensor", split},
      {"aten.split_with_sizes.default", split},
      {"aten.squeeze.default", view},
      {"aten.squeeze.dim", view},
      {"aten.squeeze.dims", view},
      {"aten.stack.default", stack},
      {"aten.t.default", t},
      {"aten.transpose.int", transpose},
      {"aten.unbind.int", unbind},
      {"aten.unsqueeze.default", view},
      {"aten.view.default", view},
      {"prims.broadcast_in_dim.default", broadcast_in_dim},
      {"prims.view_of.default", unsafe_view},
  };
  return table;
}

}  // namespace heddle::import::aten
