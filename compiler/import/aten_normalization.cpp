// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Softmax, normalization of layers and batches, and their gradients. Statistics of floats of 16 bits are computed in f32.
#include "compiler/import/aten_program.h"

using namespace mlir;

namespace heddle::import::aten {
namespace {

template <bool is_log>
void softmax(Op& op) {
  Value x = op.computing(op.tensor("self"));
  if (Op::rank_of(x) == 0) return op.set(op.m.number(x, is_log ? 0 : 1));
  auto made = op.make<tx::SoftmaxOp>(Op::type_of(x), x, op.dimension(op.integer("dim"), Op::rank_of(x)), is_log);
  op.set(made);
}
// With y the output: (g - sum(g * y)) * y, and of the logarithm g - exp(y) * sum(g).
template <bool is_log>
void softmax_backward(Op& op) {
  Value g = op.computing(op.tensor("grad_output")), y = op.computing(op.tensor("output"));
  if (Op::rank_of(y) == 0) return op.set(op.m.number(y, 0));
  const int64_t axis = op.dimension(op.integer("dim"), Op::rank_of(y));
  const Extents extents = Op::extents_of(y);
  g = op.node.broadcast(g, extents);
  const Arithmetic& m = op.m;
  if (is_log) {
    Value sum = op.node.broadcast(m.reduce(tx::ReduceKind::sum, g, {axis}), extents);
    return op.set(m.sub(g, m.mul(op.unary<tx::ExpOp>(y), sum)));
  }
  Value weighted = m.mul(g, y), sum = op.node.broadcast(m.reduce(tx::ReduceKind::sum, weighted, {axis}), extents);
  op.set(m.sub(weighted, m.mul(y, sum)));
}

// Results: the normalized tensor, the mean, and one by the standard deviation.
void layer_norm(Op& op) {
  Value x = op.computing(op.tensor("input"));
  const auto count = static_cast<int64_t>(op.expressions("normalized_shape").size());
  const int64_t first = Op::rank_of(x) - count;
  if (first < 0 || count == 0) op.fail("normalized_shape does not fit its input");
  const Extents extents = Op::extents_of(x);
  SmallVector<int64_t> axes;
  for (int64_t i = first; i < Op::rank_of(x); ++i) axes.push_back(i);
  const Arithmetic& m = op.m;
  Extents outer(extents.begin(), extents.begin() + first);
  SmallVector<int64_t> places;
  for (int64_t i = 0; i < first; ++i) places.push_back(i);
  const RankedTensorType of_rows = op.node.tensor_type(outer, Op::element_of(x));
  Value mean = op.make<tx::ReduceOp>(of_rows, tx::ReduceKind::mean, x, axes);
  Value away = m.sub(x, m.spread(mean, extents, places));
  Value square = op.make<tx::ReduceOp>(of_rows, tx::ReduceKind::mean, m.mul(away, away), axes);
  Value factor = op.unary<tx::RsqrtOp>(m.add(square, m.number(square, op.number("eps"))));
  Value result = m.mul(away, m.spread(factor, extents, places));
  if (Value weight = op.optional("weight")) result = m.mul(result, op.node.broadcast(op.converted(weight, Op::element_of(x)), extents));
  if (Value bias = op.optional("bias")) result = m.add(result, op.node.broadcast(op.converted(bias, Op::element_of(x)), extents));
  op.set(result, 0);
  if (op.wants(1)) op.set(op.node.reshape(mean, op.result_extents(1)), 1);
  if (op.wants(2)) op.set(op.node.reshape(factor, op.result_extents(2)), 2);
}

// A factor or an offset for each channel, in the type of the computation; `otherwise` if it is not there.
Value channel_vector(Op& op, const char* name, double otherwise, const RankedTensorType& type) {
  Value given = op.optional(name);
  if (!given) return op.node.splat(type, otherwise);
  return op.converted(op.node.broadcast(given, tx::extents(type)), type.getElementType());
}

// In inference: with the running statistics. The saved statistics are empty.
void batch_norm(Op& op) {
  Value input = op.tensor("input"), x = op.computing(input);
  if (Op::rank_of(x) < 2) op.fail("its input needs rank 2 or more");
  const RankedTensorType channels = op.node.tensor_type({Op::extents_of(x)[1]}, Op::element_of(x));
  Value scale = channel_vector(op, "weight", 1, channels), bias = channel_vector(op, "bias", 0, channels),
        mean = channel_vector(op, "running_mean", 0, channels), variance = channel_vector(op, "running_var", 1, channels);
  Value image = op.node.channels_last(x);
  Value result =
      op.make<tx::BatchNormOp>(Op::type_of(image), image, scale, bias, mean, variance, op.builder.getF64FloatAttr(op.number("eps")));
  op.set(op.node.channels_first(result), 0);
  for (unsigned i = 1; i < op.result_count(); ++i) op.set(op.node.splat(op.result_type(i), 0), i);
}

}  // namespace

const Table& normalization_ops() {
  static const Table table = {
      {"aten._log_softmax.default", softmax<true>},
      {"aten._log_softmax_backward_data.default", softmax_backward<true>},
      {"aten._native_batch_norm_legit_no_training.default", batch_norm},
      {"aten._softmax.default", softmax<false>},
      {"aten._softmax_backward_data.default", softmax_backward<false>},
      {"aten.native_layer_norm.default", layer_norm},
  };
  return table;
}

}  // namespace heddle::import::aten
