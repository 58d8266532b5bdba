// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums and other reductions, places of the largest and smallest elements, running sums and sorting. Sums of floats of 16 bits are computed in f32.
#include <cmath>

#include "compiler/import/aten_program.h"

using namespace mlir;

namespace heddle::import::aten {
namespace {

// The operand in the type of the result, or f32 for floats of 16 bits.
Value wide_input(Op& op) {
  Value x = op.converted(op.tensor("self"), op.result_element());
  return Op::is_float(Op::element_of(x)) ? op.computing(x) : x;
}

template <tx::ReduceKind kind>
void reduce(Op& op) {
  Value x = wide_input(op);
  const SmallVector<int64_t> axes = op.dimensions("dim", Op::rank_of(x));
  op.set(axes.empty() ? x : op.reduced(kind, x, axes, op.flag("keepdim")));
}
template <tx::ReduceKind kind>
void extreme(Op& op) {
  Value x = op.tensor("self");
  const SmallVector<int64_t> axes = op.dimensions("dim", Op::rank_of(x));
  if (axes.empty()) return op.set(x);
  if (Op::element_of(x).isInteger(1)) x = op.flags(x);
  op.set(op.reduced(kind, x, axes, op.flag("keepdim")));
}
// any and all
template <tx::ReduceKind kind>
void truth(Op& op) {
  Value x = op.is_true(op.tensor("self"));
  const SmallVector<int64_t> axes = op.dimensions("dim", Op::rank_of(x), /*empty_is_all=*/false);
  op.set(axes.empty() ? x : op.is_true(op.reduced(kind, op.flags(x), axes, op.flag("keepdim"))));
}

// The sum of squared distances from the mean, divided by the number of elements less `correction`.
struct Variance {
  Value mean, variance;  // with extents of 1
};
Variance variance_of(Op& op, Value x, ArrayRef<int64_t> axes, double correction) {
  const Arithmetic& m = op.m;
  Value mean = m.reduce(tx::ReduceKind::mean, x, axes);
  Value away = m.sub(x, op.node.broadcast(mean, Op::extents_of(x)));
  Value variance = m.reduce(tx::ReduceKind::mean, m.mul(away, away), axes);
  if (correction == 0) return {mean, variance};
  const Extents extents = Op::extents_of(x);
  Extents along;
  for (int64_t axis : axes) along.push_back(extents[static_cast<size_t>(axis)]);
  const AffineExpr count = op.node.count_of(along);
  Value total = m.extent(count, variance), left = m.sub(total, m.number(total, correction));
  left = m.max(left, m.number(left, 0));
  return {mean, m.mul(variance, m.div(total, left))};
}
double correction_of(Op& op) {
  if (op.attribute("unbiased")) return op.flag("unbiased") ? 1 : 0;
  return op.number("correction", 1);
}
template <bool is_deviation>
void variance(Op& op) {
  Value x = op.computing(op.tensor("self"));
  const SmallVector<int64_t> axes = op.dimensions("dim", Op::rank_of(x));
  if (axes.empty()) op.unsupported("it is not supported for a number");
  Value v = variance_of(op, x, axes, correction_of(op)).variance;
  if (is_deviation) v = op.unary<tx::SqrtOp>(v);
  op.set(op.flag("keepdim") ? v : op.without(v, axes));
}
void variance_and_mean(Op& op) {
  Value x = op.computing(op.tensor("self"));
  const SmallVector<int64_t> axes = op.dimensions("dim", Op::rank_of(x));
  if (axes.empty()) op.unsupported("it is not supported for a number");
  const Variance both = variance_of(op, x, axes, correction_of(op));
  const bool keep = op.flag("keepdim");
  op.set(keep ? both.variance : op.without(both.variance, axes), 0);
  op.set(keep ? both.mean : op.without(both.mean, axes), 1);
}

// The first of the largest or smallest elements; NaN is larger and smaller than all others.
Value place_of(Op& op, Value x, int64_t axis, bool is_max) {
  if (Op::element_of(x).isInteger(1)) x = op.flags(x);
  Extents left = Op::extents_of(x);
  left.erase(left.begin() + axis);
  const RankedTensorType type = op.node.tensor_type(left, op.builder.getI64Type());
  const auto kind = is_max ? tx::ReduceKind::max : tx::ReduceKind::min;
  Value place = op.make<tx::ArgReduceOp>(type, kind, x, axis, false);
  if (!Op::is_float(Op::element_of(x))) return place;
  Value is_nan = op.flags(op.m.compare(tx::CompareKind::ne, x, x));
  Value of_nan = op.make<tx::ArgReduceOp>(type, tx::ReduceKind::max, is_nan, axis, false);
  Value any = op.is_true(op.reduced(tx::ReduceKind::max, is_nan, {axis}, /*keep=*/false));
  return op.m.select(any, of_nan, place);
}
void arg_reduce(Op& op, bool is_max) {
  Value x = op.tensor("self");
  if (!op.attribute("dim")) {
    Value flat = op.node.reshape(x, {op.node.count_of(Op::extents_of(x))});
    return op.set(op.node.reshape(place_of(op, flat, 0, is_max), op.result_extents()));
  }
  const int64_t axis = op.dimension(op.integer("dim"), Op::rank_of(x));
  if (Op::rank_of(x) == 0) return op.set(op.node.splat(op.result_type(), 0));
  op.set(op.node.reshape(place_of(op, x, axis, is_max), op.result_extents()));
}
void arg_max(Op& op) {
  arg_reduce(op, true);
}
void arg_min(Op& op) {
  arg_reduce(op, false);
}
template <bool is_max>
void extreme_along(Op& op) {
  Value x = op.tensor("self");
  if (Op::rank_of(x) == 0) {
    op.set(x, 0);
    return op.set(op.node.splat(op.result_type(1), 0), 1);
  }
  const int64_t axis = op.dimension(op.integer("dim"), Op::rank_of(x));
  const bool keep = op.flag("keepdim");
  Value numbers = Op::element_of(x).isInteger(1) ? op.flags(x) : x;
  op.set(op.reduced(is_max ? tx::ReduceKind::max : tx::ReduceKind::min, numbers, {axis}, keep), 0);
  if (op.wants(1)) op.set(op.node.reshape(place_of(op, x, axis, is_max), op.result_extents(1)), 1);
}

void cumsum(Op& op) {
  Value x = wide_input(op);
  if (Op::rank_of(x) == 0) return op.set(x);
  op.set(op.make<tx::CumsumOp>(Op::type_of(x), x, op.dimension(op.integer("dim"), Op::rank_of(x)), false, false));
}

void sorted(Op& op, int64_t axis, bool descending) {
  Value x = op.tensor("self");
  if (Op::rank_of(x) == 0) {
    op.set(x, 0);
    return op.set(op.node.splat(op.result_type(1), 0), 1);
  }
  axis = op.dimension(axis, Op::rank_of(x));
  Value keys = Op::element_of(x).isInteger(1) ? op.flags(x) : x;
  Extents extents = Op::extents_of(x);
  extents[static_cast<size_t>(axis)] = op.result_extents()[static_cast<size_t>(axis)];
  Value places = op.make<tx::SortOp>(op.node.tensor_type(extents, op.builder.getI64Type()), keys, axis, descending);
  op.set(op.make<tx::GatherElementsOp>(op.node.tensor_type(extents, Op::element_of(x)), x, places, axis), 0);
  op.set(places, 1);
}
void sort(Op& op) {
  sorted(op, op.integer("dim", -1), op.flag("descending"));
}
void topk(Op& op) {
  sorted(op, op.integer("dim", -1), op.flag("largest", true));
}

}  // namespace

const Table& reduction_ops() {
  static const Table table = {
      {"aten.all.default", truth<tx::ReduceKind::min>},
      {"aten.all.dim", truth<tx::ReduceKind::min>},
      {"aten.all.dims", truth<tx::ReduceKind::min>},
      {"aten.amax.default", extreme<tx::ReduceKind::max>},
      {"aten.amin.default", extreme<tx::ReduceKind::min>},
      {"aten.any.default", truth<tx::ReduceKind::max>},
      {"aten.any.dim", truth<tx::ReduceKind::max>},
      {"aten.any.dims", truth<tx::ReduceKind::max>},
      {"aten.argmax.default", arg_max},
      {"aten.argmin.default", arg_min},
      {"aten.cumsum.default", cumsum},
      {"aten.max.default", extreme<tx::ReduceKind::max>},
      {"aten.max.dim", extreme_along<true>},
      {"aten.mean.default", reduce<tx::ReduceKind::mean>},
      {"aten.mean.dim", reduce<tx::ReduceKind::mean>},
      {"aten.min.default", extreme<tx::ReduceKind::min>},
      {"aten.min.dim", extreme_along<false>},
      {"aten.prod.default", reduce<tx::ReduceKind::prod>},
      {"aten.prod.dim_int", reduce<tx::ReduceKind::prod>},
      {"aten.sort.default", sort},
      {"aten.sort.stable", sort},
      {"aten.std.correction", variance<true>},
      {"aten.sum.default", reduce<tx::ReduceKind::sum>},
      {"aten.sum.dim_IntList", reduce<tx::ReduceKind::sum>},
      {"aten.topk.default", topk},
      {"aten.var.correction", variance<false>},
      {"aten.var.dim", variance<false>},
      {"aten.var_mean.correction", variance_and_mean},
  };
  return table;
}

}  // namespace heddle::import::aten
