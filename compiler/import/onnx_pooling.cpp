// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pools by norms, the places that MaxPool found, and BatchNormalization in training.
#include <limits>

#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_window.h"

using namespace mlir;

namespace heddle::import {

Value places_of_largest(Node& node, Value image, const Window& window, RankedTensorType outputs, bool by_columns) {
  Arithmetic m(node);
  const Type i64 = node.builder.getI64Type();
  const Extents from = Node::extents_of(image), to = tx::extents(outputs);
  const size_t spatial = window.kernel.size();
  auto number = [&](int64_t value) { return node.builder.getAffineConstantExpr(value); };
  // where element `tap` of the window of `output` is, which may be outside
  auto place_of = [&](size_t d, Value output, Value tap) {
    Value place = m.add(m.mul(output, m.number(output, static_cast<double>(window.strides[d]))),
                        m.mul(tap, m.number(tap, static_cast<double>(window.dilations[d]))));
    return m.sub(place, m.number(place, static_cast<double>(window.low[d])));
  };
  auto clamped = [&](Value place, Value size) { return m.max(m.min(place, m.sub(size, m.number(size, 1))), m.number(place, 0)); };
  if (Node::type_of(image).getElementType().isInteger(8)) image = node.converted(image, node.builder.getI32Type());
  const Type element = Node::type_of(image).getElementType();
  if (!llvm::isa<FloatType>(element) && !element.isSignlessInteger(32))
    node.refuse_inputs("its input needs elements that are floats or of 8 bits");

  // The windows, [N, outputs and taps along each dimension, C].
  Value windows = image;
  SmallVector<Value> fit;
  SmallVector<int64_t> order{0}, behind;
  Extents whole{from[0]};
  for (size_t d = 0; d < spatial; ++d) {
    const Extents pair{to[1 + d], number(window.kernel[d])};
    Value place = place_of(d, m.iota(pair, 0, i64), m.iota(pair, 1, i64)), size = m.extent(from[1 + d], place);
    fit.push_back(m.is_inside(place, size));
    const auto axis = static_cast<int64_t>(1 + 2 * d);
    Extents extents = Node::extents_of(windows);
    extents[axis] = pair[1];
    extents.insert(extents.begin() + axis, pair[0]);
    windows = node.make<tx::GatherOp>(node.tensor_type(extents, element), windows, clamped(place, size), axis);
    whole.append(pair);
    order.push_back(axis);
    behind.push_back(axis + 1);
  }
  whole.push_back(from.back());
  const double lowest = llvm::isa<FloatType>(element) ? -std::numeric_limits<double>::infinity() : -0x1p31;
  for (size_t d = 0; d < spatial; ++d) {
    const auto axis = static_cast<int64_t>(1 + 2 * d);
    windows = m.select(m.spread(fit[d], whole, {axis, axis + 1}), windows, m.number(windows, lowest));
  }
  order.push_back(static_cast<int64_t>(1 + 2 * spatial));
  order.append(behind);
  int64_t taps = 1;
  for (int64_t one : window.kernel) {
    if (taps > largest_extent / one) node.fail("its windows have more than " + std::to_string(largest_extent) + " elements");
    taps *= one;
  }
  Extents rows = to;
  rows.push_back(number(taps));
  windows = node.reshape(node.transpose(windows, order), rows);
  Value rest = node.make<tx::ArgReduceOp>(node.tensor_type(to, i64), tx::ReduceKind::max, windows, static_cast<int64_t>(to.size()), false);

  SmallVector<Value> places(spatial);
  for (size_t d = spatial; d-- > 0;) {
    Value kernel = m.number(rest, static_cast<double>(window.kernel[d])), more = m.div(rest, kernel);
    Value place = place_of(d, m.iota(to, static_cast<int64_t>(1 + d), i64), m.sub(rest, m.mul(more, kernel)));
    places[d] = clamped(place, m.extent(from[1 + d], place));
    rest = more;
  }
  Value result = m.add(m.mul(m.iota(to, 0, i64), m.extent(from.back(), rest)), m.iota(to, static_cast<int64_t>(1 + spatial), i64));
  for (size_t i = 0; i < spatial; ++i) {
    const size_t d = by_columns ? spatial - 1 - i : i;
    result = m.add(m.mul(result, m.extent(from[1 + d], result)), places[d]);
  }
  return node.channels_first(result);
}

void batch_norm_in_training(Node& node) {
  Value input = node.input(0);
  const RankedTensorType type = Node::type_of(input);
  const Extents extents = tx::extents(type);
  Arithmetic m(node);
  const Type element = type.getElementType(), compute = element.isF64() ? element : Type(node.builder.getF32Type());
  SmallVector<Value> vectors;
  for (int i = 1; i < 5; ++i) {
    Value vector = node.input(i);
    const Extents own = Node::extents_of(vector);
    if (own.size() != 1 || !node.are_equal(extents[1], own[0]))
      node.fail("input " + std::to_string(i) + " does not have one element per channel");
    vectors.push_back(node.converted(node.with_extents(vector, {extents[1]}), compute));
  }
  SmallVector<int64_t> axes;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    if (i != 1) axes.push_back(i);
  }
  const RankedTensorType channels = node.tensor_type({extents[1]}, compute);
  auto mean_of = [&](Value value) { return node.make<tx::ReduceOp>(channels, tx::ReduceKind::mean, value, axes); };
  auto spread = [&](Value vector) { return m.spread(vector, extents, {1}); };
  Value x = node.converted(input, compute), mean = mean_of(x), centered = m.sub(x, spread(mean)),
        variance = mean_of(m.mul(centered, centered));
  Value shifted = m.add(variance, m.number(variance, node.number("epsilon", 1e-5f)));
  Value factor = m.div(vectors[0], m.sqrt(shifted));
  Value result = m.add(m.mul(centered, spread(factor)), spread(vectors[1]));
  node.set_result(node.converted(result, element));
  const double momentum = node.number("momentum", 0.9f);
  for (int i : {1, 2, 3, 4}) {
    if (!node.wants_output(i)) continue;
    Value current = i % 2 == 1 ? mean : variance;
    if (i < 3) {
      Value before = vectors[static_cast<size_t>(1 + i)];
      current = m.add(m.mul(before, m.number(before, momentum)), m.mul(current, m.number(current, 1 - momentum)));
    }
    node.set_result(node.converted(current, Node::type_of(node.input(i < 3 ? 2 + i : i)).getElementType()), i);
  }
}

namespace {

// The root of the sums of powers. Pads are zeros.
void lp_pool(Node& node) {
  Value input = node.input(0);
  node.check_image(input);
  const Extents extents = Node::extents_of(input);
  const Type element = Node::type_of(input).getElementType();
  if (!llvm::isa<FloatType>(element)) node.refuse_inputs("its input needs elements that are floats");
  Window window = read_padded_window(node, ArrayRef<AffineExpr>(extents).drop_front(2), node.integer_list("kernel_shape"));
  const double p = node.opset() < 2 ? node.number("p", 2.0) : static_cast<double>(node.integer("p", 2));
  if (!(p >= 1)) node.fail("p is " + std::to_string(p) + ", below 1");
  Arithmetic m(node);
  Value image = node.channels_last(node.converted(input, element.isF64() ? element : Type(node.builder.getF32Type())));
  const RankedTensorType type = output_type(node, image, window, extents[1], node.integer("ceil_mode", 0) != 0);
  // windows that are not full have more pads behind, so that averages are of all elements of the kernel
  double count = 1;
  for (size_t d = 0; d < window.kernel.size(); ++d) {
    window.high[d] += window.strides[d] - 1;
    if (window.high[d] >= 1 << 20) node.fail("pads and strides are out of range on dimension " + std::to_string(d));
    count *= static_cast<double>(window.kernel[d]);
  }
  Value powers = p == 1 ? m.abs(image) : p == 2 ? m.mul(image, image) : m.pow(m.abs(image), m.number(image, p));
  Value average = node.make<tx::PoolOp>(type, tx::PoolKind::average, powers, window.kernel, window.strides, window.low, window.high,
                                        window.dilations, /*include_pad=*/true);
  Value result = m.mul(average, m.number(average, count));
  if (p == 2) result = m.sqrt(result);
  if (p != 1 && p != 2) result = m.pow(result, m.number(result, 1 / p));
  node.set_result(node.converted(node.channels_first(result), element));
}

// The same of all elements of each channel.
void global_lp_pool(Node& node) {
  Value input = node.input(0);
  node.check_image(input);
  const Type element = Node::type_of(input).getElementType();
  if (!llvm::isa<FloatType>(element)) node.refuse_inputs("its input needs elements that are floats");
  const double p = node.opset() < 2 ? node.number("p", 2.0) : static_cast<double>(node.integer("p", 2));
  if (!(p >= 1)) node.fail("p is " + std::to_string(p) + ", below 1");
  Arithmetic m(node);
  Value image = node.converted(input, element.isF64() ? element : Type(node.builder.getF32Type()));
  const auto axes = llvm::to_vector(llvm::seq<int64_t>(2, Node::type_of(image).getRank()));
  Value result = m.reduce(tx::ReduceKind::sum,
                          p == 1   ? m.abs(image)
                          : p == 2 ? m.mul(image, image)
                                   : m.pow(m.abs(image), m.number(image, p)),
                          axes);
  if (p == 2) result = m.sqrt(result);
  if (p != 1 && p != 2) result = m.pow(result, m.number(result, 1 / p));
  node.set_result(node.converted(result, element));
}

}  // namespace

const Table& pooling_operators() {
  static const Table table = {{"GlobalLpPool", global_lp_pool}, {"LpPool", lp_pool}};
  return table;
}

}  // namespace heddle::import
