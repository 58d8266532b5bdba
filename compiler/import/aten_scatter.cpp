// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes to places that are data. Of several writes to one place, the last one counts; PyTorch does not say which.
#include "compiler/import/aten_indexing.h"
#include "compiler/import/onnx_checks.h"
#include "compiler/import/onnx_writer.h"

using namespace mlir;

namespace heddle::import::aten {
namespace {

tx::ReduceKindAttr kind_of(Op& op, tx::ReduceKind kind) {
  return tx::ReduceKindAttr::get(op.builder.getContext(), kind);
}

// Rows of a matrix, at these places; `kind` combines them with what is there.
Value into_rows(Op& op, Value rows, Value places, Value updates, tx::ReduceKindAttr kind) {
  Extents extents = Op::extents_of(rows);
  extents[0] = Op::extents_of(places)[0];
  return op.make<tx::ScatterOp>(Op::type_of(rows), rows, places, op.node.broadcast(updates, extents), int64_t{0}, kind);
}

// self[mask] = number
void fill_where(Op& op, Value x, Value mask, Value number) {
  Extents extents = Op::extents_of(x), own = Op::extents_of(mask);
  if (own.size() > extents.size()) op.fail("the mask has more dimensions than its operand");
  own.resize(extents.size(), op.constant(1));
  op.set(op.m.select(op.node.broadcast(op.node.reshape(mask, own), extents), op.node.broadcast(number, extents), x));
}

void index_put(Op& op) {
  Value x = op.tensor("self"), values = op.converted(op.tensor("values"), Op::element_of(op.tensor("self")));
  const SmallVector<Value> given = op.tensors("indices");
  if (given.size() == 1 && given[0] && Op::element_of(given[0]).isInteger(1) && Op::rank_of(values) == 0 && !op.flag("accumulate"))
    return fill_where(op, x, given[0], values);
  const Indexing by = read_indexing(op, x);
  const bool adds = op.flag("accumulate");
  if (adds && Op::element_of(x).isInteger(1)) op.unsupported("bools are not accumulated");
  const auto places = static_cast<int64_t>(by.shape.size());
  // The values have the extents of what index gives; the places move to the front.
  Extents extents(by.rest.begin(), by.rest.begin() + by.first);
  extents.append(by.shape);
  extents.append(by.rest.begin() + by.first, by.rest.end());
  values = op.node.broadcast(values, extents);
  if (by.first != 0) {
    SmallVector<int64_t> order;
    for (int64_t i = 0; i < places; ++i) order.push_back(by.first + i);
    for (int64_t i = 0; i < static_cast<int64_t>(extents.size()); ++i) {
      if (i < by.first || i >= by.first + places) order.push_back(i);
    }
    values = op.node.transpose(values, order);
  }
  const AffineExpr count = op.node.count_of(by.shape), width = op.node.count_of(by.rest);
  Extents ordered;
  const Extents own = Op::extents_of(x);
  for (int64_t axis : by.order) ordered.push_back(own[static_cast<size_t>(axis)]);
  const Type element = Op::element_of(x);
  const bool is_narrow = adds && (element.isF16() || element.isBF16());
  Value rows = op.node.reshape(op.node.transpose(x, by.order), {by.rows, width}), updates = op.node.reshape(values, {count, width});
  if (is_narrow) {
    rows = op.converted(rows, op.builder.getF32Type());
    updates = op.converted(updates, op.builder.getF32Type());
  }
  Value made =
      into_rows(op, rows, op.node.reshape(by.places, {count}), updates, adds ? kind_of(op, tx::ReduceKind::sum) : tx::ReduceKindAttr());
  SmallVector<int64_t> back(by.order.size());
  for (auto [i, axis] : llvm::enumerate(by.order)) back[static_cast<size_t>(axis)] = static_cast<int64_t>(i);
  op.set(op.node.transpose(op.node.reshape(made, ordered), back));
}

// Slices of the source are added to those of self at these places of a dimension, or replace them.
template <bool adds>
void index_along(Op& op) {
  Value x = op.tensor("self"), index = op.tensor("index"), source = op.tensor("source");
  const int64_t rank = Op::rank_of(x);
  if (rank == 0 || Op::rank_of(source) != rank) op.unsupported("it is not supported for numbers");
  const Type own = Op::element_of(x);
  if (adds && own.isInteger(1)) op.unsupported("bools are not added");
  const int64_t axis = op.dimension(op.integer("dim"), rank);
  expect_inside_from_zero(op.node, x, axis, index);
  const bool is_narrow = adds && (own.isF16() || own.isBF16());
  const Type element = is_narrow ? Type(op.builder.getF32Type()) : own;
  SmallVector<int64_t> order{axis}, back;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) order.push_back(i);
    back.push_back(i == axis ? 0 : i < axis ? i + 1 : i);
  }
  Value turned = op.node.transpose(op.converted(x, element), order);
  const Extents extents = Op::extents_of(turned);
  const AffineExpr width = op.node.count_of(ArrayRef<AffineExpr>(extents).drop_front()), count = op.node.count_of(Op::extents_of(index));
  Value updates = op.node.reshape(op.node.transpose(op.converted(source, element), order), {count, width});
  if (adds && op.number("alpha", 1) != 1)
    updates = op.m.mul(updates, op.node.broadcast(op.value_of(op.term("alpha"), element), Op::extents_of(updates)));
  Value places = op.node.reshape(op.converted(index, op.builder.getI64Type()), {count});
  Value made = into_rows(op, op.node.reshape(turned, {extents[0], width}), places, updates,
                         adds ? kind_of(op, tx::ReduceKind::sum) : tx::ReduceKindAttr());
  op.set(op.node.transpose(op.node.reshape(made, extents), back));
}

// The gradient of embedding: rows are added at their indices, except for those of padding_idx.
void embedding_backward(Op& op) {
  if (op.flag("scale_grad_by_freq")) op.unsupported("scale_grad_by_freq is not supported");
  Value gradient = op.computing(op.tensor("grad_output")), indices = op.converted(op.tensor("indices"), op.builder.getI64Type());
  const Extents extents = op.result_extents();
  const AffineExpr count = op.node.count_of(Op::extents_of(indices));
  Value places = op.node.reshape(indices, {count}), updates = op.node.reshape(gradient, {count, extents[1]});
  const int64_t padding = op.integer("padding_idx", -1);
  if (padding >= 0) {
    Value is_padding = op.m.compare(tx::CompareKind::eq, places, op.m.number(places, static_cast<double>(padding)));
    is_padding = op.m.spread(is_padding, {count, extents[1]}, {0});
    updates = op.m.select(is_padding, op.m.number(updates, 0), updates);
  }
  Value zeros = op.node.splat(op.node.tensor_type(extents, Op::element_of(gradient)), 0);
  op.set(into_rows(op, zeros, places, updates, kind_of(op, tx::ReduceKind::sum)));
}

// The same by places in the tensor as one vector, since the indices have fewer elements than the tensor along another dimension.
Value scatter_flat(Op& op, Value x, Value places, Value source, int64_t axis, const std::string& reduction) {
  static const std::map<std::string, tx::ReduceKind> kinds = {
      {"add", tx::ReduceKind::sum}, {"mul", tx::ReduceKind::prod}, {"max", tx::ReduceKind::max}, {"min", tx::ReduceKind::min}};
  const Arithmetic& m = op.m;
  const Extents extents = Op::extents_of(x), shape = Op::extents_of(places);
  expect_inside_from_zero(op.node, x, axis, places);
  Value index = op.converted(places, op.builder.getI64Type()), flat;
  Value size = m.extent(extents[static_cast<size_t>(axis)], index);
  index = m.select(m.compare(tx::CompareKind::lt, index, m.number(index, 0)), m.add(index, size), index);
  for (int64_t i = 0; i < Op::rank_of(x); ++i) {
    Value place = i == axis ? index : m.iota(shape, i, op.builder.getI64Type());
    flat = flat ? m.add(m.mul(flat, m.extent(extents[static_cast<size_t>(i)], flat)), place) : place;
  }
  const AffineExpr count = op.node.count_of(shape);
  Value vector = op.node.reshape(x, {op.node.count_of(extents)});
  const tx::ReduceKindAttr kind = reduction.empty() ? tx::ReduceKindAttr() : kind_of(op, kinds.at(reduction));
  Value made = op.make<tx::ScatterOp>(Op::type_of(vector), vector, op.node.reshape(flat, {count}), op.node.reshape(source, {count}),
                                      int64_t{0}, kind);
  return op.node.reshape(made, extents);
}

// What is scattered, and where. Places and source have the same extents.
struct Scattering {
  Value places, source;
  int64_t axis;
};
Scattering read_scattering(Op& op, Value x) {
  Value places = op.tensor("index");
  if (Op::rank_of(x) == 0 || Op::rank_of(places) != Op::rank_of(x)) op.unsupported("it is not supported for numbers");
  const int64_t axis = op.dimension(op.integer("dim"), Op::rank_of(x));
  const Extents extents = Op::extents_of(places);
  Value source = op.optional("src");
  if (!source) source = op.node.broadcast(op.value_of(op.term("value"), Op::element_of(x)), extents);
  source = op.converted(source, Op::element_of(x));
  for (size_t i = 0; i < extents.size(); ++i) {
    if (Op::extents_of(source)[i] != extents[i]) source = op.slice(source, static_cast<int64_t>(i), op.constant(0), extents[i]);
  }
  return {places, source, axis};
}

// x[index[i, j], j] becomes, or gets added, multiplied and so on, source[i, j].
Value scattered(Op& op, Value x, Value places, Value source, int64_t axis, const std::string& reduction) {
  const Extents extents = Op::extents_of(places), whole = Op::extents_of(x);
  for (size_t i = 0; i < extents.size(); ++i) {
    if (static_cast<int64_t>(i) != axis && extents[i] != whole[i]) return scatter_flat(op, x, places, source, axis, reduction);
  }
  expect_inside_from_zero(op.node, x, axis, places);
  return op
      .by_onnx("ScatterElements", {Operand{x, {}, 0}, Operand{places, {}, 0}, Operand{source, {}, 0}}, 1,
               [&](onnx::NodeProto& node) {
                 NodeWriter::set(node, "axis", axis);
                 if (!reduction.empty()) NodeWriter::set(node, "reduction", reduction);
               })
      .front();
}
void scatter_with(Op& op, const std::string& reduction) {
  Value x = op.tensor("self");
  auto [places, source, axis] = read_scattering(op, x);
  const Type element = Op::element_of(x);
  if (!reduction.empty() && element.isInteger(1)) op.unsupported("bools are not combined");
  const bool is_narrow = !reduction.empty() && (element.isF16() || element.isBF16());
  if (is_narrow) {
    x = op.converted(x, op.builder.getF32Type());
    source = op.converted(source, op.builder.getF32Type());
  }
  op.set(scattered(op, x, places, source, axis, reduction));
}
// The elements of the source, in order, where the mask is set.
void masked_scatter(Op& op) {
  Value x = op.tensor("self"), source = op.tensor("source");
  const Extents extents = Op::extents_of(x);
  Value mask = op.node.broadcast(op.is_true(op.tensor("mask")), extents);
  const AffineExpr count = op.node.count_of(extents), given = op.node.count_of(Op::extents_of(source));
  Value flags = op.converted(op.node.reshape(mask, {count}), op.builder.getI64Type());
  Value places = op.make<tx::CumsumOp>(Op::type_of(flags), flags, int64_t{0}, /*exclusive=*/true, /*reverse=*/false);
  // Behind the last element that is set, places are not used.
  Value last = op.m.sub(op.m.extent(given, places), op.m.number(places, 1));
  Value used = op.m.select(op.is_true(flags), places, op.m.number(places, 0));
  expect_inside(op.node, op.node.reshape(source, {given}), 0, used);
  Value taken = op.make<tx::GatherOp>(op.node.tensor_type({count}, Op::element_of(source)), op.node.reshape(source, {given}),
                                      op.m.min(places, last), int64_t{0});
  op.set(op.m.select(mask, op.node.reshape(taken, extents), x));
}
void scatter(Op& op) {
  scatter_with(op, "");
}
void scatter_add(Op& op) {
  scatter_with(op, "add");
}
// scatter.reduce has add and multiply, scatter_reduce sum, prod, mean, amax and amin. Elements that get something do not count themselves if include_self
// is false; a mean is of those that count.
void scatter_reduce(Op& op) {
  static const std::map<std::string, std::string> kinds = {{"add", "add"},  {"multiply", "mul"}, {"sum", "add"}, {"mean", "add"},
                                                           {"prod", "mul"}, {"amax", "max"},     {"amin", "min"}};
  const std::string word = op.word("reduce", "");
  auto kind = kinds.find(word);
  if (kind == kinds.end()) op.unsupported("reduce '" + word + "' is not supported");
  const bool counts_self = op.flag("include_self", true), is_mean = word == "mean";
  if (counts_self && !is_mean) return scatter_with(op, kind->second);
  const Arithmetic& m = op.m;
  Value x = op.tensor("self");
  auto [places, source, axis] = read_scattering(op, x);
  const Type own = Op::element_of(x);
  if (own.isInteger(1)) op.unsupported("bools are not combined");
  x = op.is_float(own) ? op.computing(x) : x;
  source = op.converted(source, Op::element_of(x));
  Value counts = scattered(op, m.number(x, counts_self ? 1 : 0), places, m.number(source, 1), axis, "add");
  Value gets = m.compare(tx::CompareKind::gt, counts, m.number(counts, 0)), start = x;
  if (!counts_self) {
    // What changes nothing; for the largest and the smallest, any element that is combined with itself.
    Value neutral = kind->second == "add"   ? m.number(x, 0)
                    : kind->second == "mul" ? m.number(x, 1)
                                            : scattered(op, x, places, source, axis, "");
    start = m.select(gets, neutral, x);
  }
  Value made = scattered(op, start, places, source, axis, kind->second);
  if (is_mean) {
    Value whole = m.max(counts, m.number(counts, 1)), mean = m.div(made, whole);
    if (!op.is_float(own)) {  // rounded down
      Value rest = m.sub(made, m.mul(mean, whole));
      mean = m.select(m.compare(tx::CompareKind::lt, rest, m.number(rest, 0)), m.sub(mean, m.number(mean, 1)), mean);
    }
    made = mean;
  }
  op.set(made);
}

}  // namespace

const Table& scatter_ops() {
  static const Table table = {
      {"aten._unsafe_index_put.default", index_put},
      {"aten.embedding_dense_backward.default", embedding_backward},
      {"aten.index_add.default", index_along<true>},
      {"aten.index_copy.default", index_along<false>},
      {"aten.index_put.default", index_put},
      {"aten.masked_scatter.default", masked_scatter},
      {"aten.scatter.reduce", scatter_reduce},
      {"aten.scatter.src", scatter},
      {"aten.scatter.value", scatter},
      {"aten.scatter.value_reduce", scatter_reduce},
      {"aten.scatter_add.default", scatter_add},
      {"aten.scatter_reduce.two", scatter_reduce},
  };
  return table;
}

}  // namespace heddle::import::aten
