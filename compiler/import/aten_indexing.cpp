// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements at places that are data. A call with an index outside of its dimension is refused, as PyTorch refuses it.
#include "compiler/import/aten_indexing.h"

#include "compiler/import/onnx_broadcast.h"
#include "compiler/import/onnx_checks.h"

using namespace mlir;

namespace heddle::import::aten {

Indexing read_indexing(Op& op, Value x) {
  Indexing all;
  SmallVector<Value> given = op.tensors("indices");
  const int64_t rank = Op::rank_of(x);
  if (static_cast<int64_t>(given.size()) > rank) op.fail("it has more indices than dimensions");
  SmallVector<Extents> shapes;
  SmallVector<Value> indices;
  for (auto [i, index] : llvm::enumerate(given)) {
    if (!index) continue;
    const Type element = Op::element_of(index);
    if (Op::is_float(element)) op.fail("an index has elements that are floats");
    if (element.isInteger(1) || element.isUnsignedInteger(8))
      op.unsupported("masks as indices are not supported, since the number of elements is data");
    all.axes.push_back(static_cast<int64_t>(i));
    indices.push_back(op.converted(index, op.builder.getI64Type()));
    shapes.push_back(Op::extents_of(index));
  }
  if (indices.empty()) op.fail("it has no index");
  all.shape = common_extents(op.node, shapes);
  const Extents extents = Op::extents_of(x);
  AffineExpr rows = op.constant(1);
  for (auto [axis, index] : llvm::zip(all.axes, indices)) {
    const AffineExpr extent = extents[static_cast<size_t>(axis)];
    expect_inside(op.node, x, axis, index);
    Value place = op.node.broadcast(index, all.shape), size = op.m.extent(extent, place);
    place = op.m.select(op.m.compare(tx::CompareKind::lt, place, op.m.number(place, 0)), op.m.add(place, size), place);
    all.places = all.places ? op.m.add(op.m.mul(all.places, size), place) : place;
    rows = op.node.computed(product(rows, extent));
    all.order.push_back(axis);
  }
  for (int64_t i = 0; i < rank; ++i) {
    if (llvm::is_contained(all.axes, i)) continue;
    all.order.push_back(i);
    all.rest.push_back(extents[static_cast<size_t>(i)]);
  }
  all.rows = rows;
  const bool are_adjacent = all.axes.back() - all.axes.front() + 1 == static_cast<int64_t>(all.axes.size());
  all.first = are_adjacent ? all.axes.front() : 0;
  return all;
}

namespace {

// result[.., places.., ..]
void index(Op& op) {
  Value x = op.tensor("self");
  const Indexing by = read_indexing(op, x);
  const auto places = static_cast<int64_t>(by.shape.size());
  if (by.axes.size() == 1) {
    Extents extents = Op::extents_of(x);
    extents.erase(extents.begin() + by.axes[0]);
    extents.insert(extents.begin() + by.axes[0], by.shape.begin(), by.shape.end());
    return op.set(op.make<tx::GatherOp>(op.node.tensor_type(extents, Op::element_of(x)), x, by.places, by.axes[0]));
  }
  Extents rows{by.rows}, extents = by.shape;
  rows.append(by.rest);
  extents.append(by.rest);
  Value table = op.node.reshape(op.node.transpose(x, by.order), rows);
  Value taken = op.make<tx::GatherOp>(op.node.tensor_type(extents, Op::element_of(x)), table, by.places, int64_t{0});
  if (by.first == 0) return op.set(taken);
  SmallVector<int64_t> order;  // the places come behind the first dimensions of the rest
  for (int64_t i = 0; i < by.first; ++i) order.push_back(places + i);
  for (int64_t i = 0; i < places; ++i) order.push_back(i);
  for (int64_t i = places + by.first; i < static_cast<int64_t>(extents.size()); ++i) order.push_back(i);
  op.set(op.node.transpose(taken, order));
}

Value taken_along(Op& op, Value x, int64_t axis, Value places) {
  expect_inside_from_zero(op.node, x, axis, places);
  Extents extents = Op::extents_of(x);
  const Extents shape = Op::extents_of(places);
  extents.erase(extents.begin() + axis);
  extents.insert(extents.begin() + axis, shape.begin(), shape.end());
  return op.make<tx::GatherOp>(op.node.tensor_type(extents, Op::element_of(x)), x, places, axis);
}
void index_select(Op& op) {
  Value x = op.tensor("self"), places = op.tensor("index");
  if (Op::rank_of(x) == 0) return op.set(x);
  if (Op::rank_of(places) == 0) places = op.node.reshape(places, {op.constant(1)});
  op.set(taken_along(op, x, op.dimension(op.integer("dim"), Op::rank_of(x)), places));
}
void embedding(Op& op) {
  op.set(taken_along(op, op.tensor("weight"), 0, op.tensor("indices")));
}

// result[i, j] = self[index[i, j], j]
void gather(Op& op) {
  Value x = op.tensor("self"), places = op.tensor("index");
  if (Op::rank_of(x) == 0 || Op::rank_of(places) == 0) op.unsupported("it is not supported for numbers");
  const int64_t axis = op.dimension(op.integer("dim"), Op::rank_of(x));
  expect_inside_from_zero(op.node, x, axis, places);
  const Extents extents = Op::extents_of(places);
  Extents own = Op::extents_of(x);
  // The operand is cut to the places' extents.
  for (size_t i = 0; i < own.size(); ++i) {
    if (static_cast<int64_t>(i) != axis && i < extents.size() && own[i] != extents[i])
      x = op.slice(x, static_cast<int64_t>(i), op.constant(0), extents[i]);
  }
  op.set(op.make<tx::GatherElementsOp>(op.node.tensor_type(extents, Op::element_of(x)), x, places, axis));
}

// The elements at (i, i) of two dimensions, or beside the diagonal, as the last dimension.
void diagonal(Op& op) {
  Value x = op.tensor("self");
  const int64_t a = op.dimension(op.integer("dim1", 0), Op::rank_of(x)), b = op.dimension(op.integer("dim2", 1), Op::rank_of(x));
  if (a == b) op.fail("dim1 and dim2 are one dimension");
  const int64_t offset = op.integer("offset", 0);
  const Extents extents = Op::extents_of(x), to = op.result_extents();
  SmallVector<int64_t> order{a, b};
  Extents rest;
  for (int64_t i = 0; i < Op::rank_of(x); ++i) {
    if (i == a || i == b) continue;
    order.push_back(i);
    rest.push_back(extents[static_cast<size_t>(i)]);
  }
  const AffineExpr rows = extents[static_cast<size_t>(a)], columns = extents[static_cast<size_t>(b)];
  Extents table{op.node.computed(product(rows, columns))};
  table.append(rest);
  const Arithmetic& m = op.m;
  Value i = m.iota({to.back()}, 0, op.builder.getI64Type());
  Value row = m.add(i, m.number(i, static_cast<double>(std::max<int64_t>(-offset, 0)))),
        column = m.add(i, m.number(i, static_cast<double>(std::max<int64_t>(offset, 0))));
  Value places = m.add(m.mul(row, m.extent(columns, row)), column);
  Extents taken{to.back()};
  taken.append(rest);
  Value made = op.make<tx::GatherOp>(op.node.tensor_type(taken, Op::element_of(x)), op.node.reshape(op.node.transpose(x, order), table),
                                     places, int64_t{0});
  SmallVector<int64_t> last;
  for (int64_t d = 1; d < static_cast<int64_t>(taken.size()); ++d) last.push_back(d);
  last.push_back(0);
  op.set(op.node.transpose(made, last));
}

// How a tensor lies in memory, by the attribute self_strides: its dimensions, the outermost first. It may have no gaps.
SmallVector<int64_t> order_in_memory(Op& op, Value x) {
  const std::vector<AffineExpr> strides = op.expressions("self_strides");
  const Extents extents = Op::extents_of(x);
  if (strides.size() != extents.size()) op.fail("self_strides does not have one number for each dimension");
  SmallVector<int64_t> order, left;
  for (size_t i = 0; i < extents.size(); ++i) (tx::static_extent(extents[i]) == 1 ? order : left).push_back(static_cast<int64_t>(i));
  AffineExpr expected = op.constant(1);
  SmallVector<int64_t> inner;  // the innermost first
  while (!left.empty()) {
    auto found = llvm::find_if(left, [&](int64_t i) { return strides[static_cast<size_t>(i)] == expected; });
    if (found == left.end()) op.unsupported("its operand does not lie in memory without gaps");
    expected = op.node.computed(product(expected, extents[static_cast<size_t>(*found)]));
    inner.push_back(*found);
    left.erase(found);
  }
  order.append(inner.rbegin(), inner.rend());
  return order;
}

// A tensor as it lies in memory, the shape of a view of it, and which element of memory each of the view's is.
struct Strided {
  SmallVector<int64_t> order;
  Extents in_memory, shape;
  Value flat, places;  // places is null if they are 0, 1, 2 and so on
};
Strided read_strided(Op& op) {
  Value x = op.tensor("self");
  Strided all{order_in_memory(op, x), {}, {}, {}, {}};
  Value ordered = op.node.transpose(x, all.order);
  all.in_memory = Op::extents_of(ordered);
  const AffineExpr count = op.node.count_of(all.in_memory), one = op.constant(1);
  all.flat = op.node.reshape(ordered, {count});
  const std::vector<AffineExpr> sizes = op.expressions("size"), strides = op.expressions("stride");
  if (sizes.size() != strides.size()) op.fail("size and stride differ in length");
  all.shape.assign(sizes.begin(), sizes.end());
  const AffineExpr offset = op.expression("storage_offset", 0);
  AffineExpr last = offset, expected = one;
  bool is_whole = tx::static_extent(offset) == 0;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (tx::static_extent(sizes[i]) == 1) continue;
    if (tx::static_extent(strides[i]).value_or(0) < 0) op.fail("stride " + std::to_string(i) + " is negative");
    is_whole = is_whole && strides[i] == expected;
    expected = op.node.computed(product(expected, sizes[i]));
    last = op.node.computed(sum(last, op.node.computed(product(op.node.computed(difference(sizes[i], one)), strides[i]))));
  }
  if (is_whole && expected == count) return all;
  if (!op.program.graph.symbols.require(count, op.node.computed(sum(last, one)), op.describe()) ||
      tx::static_extent(offset).value_or(0) < 0)
    op.fail("its view has elements outside of its operand");
  const Arithmetic& m = op.m;
  if (sizes.empty()) {
    all.places = op.node.extent_value(offset);
    return all;
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    Value place = m.iota(all.shape, static_cast<int64_t>(i), op.builder.getI64Type());
    place = m.mul(place, m.extent(strides[i], place));
    all.places = all.places ? m.add(all.places, place) : place;
  }
  if (tx::static_extent(offset) != 0) all.places = m.add(all.places, m.extent(offset, all.places));
  return all;
}
void as_strided(Op& op) {
  const Strided by = read_strided(op);
  if (!by.places) return op.set(op.node.reshape(by.flat, by.shape));
  op.set(op.make<tx::GatherOp>(op.node.tensor_type(by.shape, Op::element_of(by.flat)), by.flat, by.places, int64_t{0}));
}
// The tensor with the elements of a view replaced.
void as_strided_scatter(Op& op) {
  const Strided by = read_strided(op);
  const AffineExpr count = op.node.count_of(by.shape);
  Value source = op.converted(op.node.broadcast(op.tensor("src"), by.shape), Op::element_of(by.flat)),
        made = op.node.reshape(source, {count});
  if (by.places) {
    made =
        op.make<tx::ScatterOp>(Op::type_of(by.flat), by.flat, op.node.reshape(by.places, {count}), made, int64_t{0}, tx::ReduceKindAttr());
  }
  SmallVector<int64_t> back(by.order.size());
  for (auto [i, dimension] : llvm::enumerate(by.order)) back[static_cast<size_t>(dimension)] = static_cast<int64_t>(i);
  op.set(op.node.transpose(op.node.reshape(made, by.in_memory), back));
}

}  // namespace

const Table& indexing_ops() {
  static const Table table = {
      {"aten._unsafe_index.Tensor", index},
      {"aten.as_strided.default", as_strided},
      {"aten.as_strided_scatter.default", as_strided_scatter},
      {"aten.diagonal.default", diagonal},
      {"aten.embedding.default", embedding},
      {"aten.gather.default", gather},
      {"aten.index.Tensor", index},
      {"aten.index_select.default", index_select},
  };
  return table;
}

}  // namespace heddle::import::aten
