// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions, pooling and normalization over images. ONNX is channels-first: each translation transposes its inputs and results, and
// heddle-propagate-transposes removes the pairs that cancel.
#include <limits>

#include "compiler/import/onnx_data.h"
#include "compiler/import/onnx_window.h"

using namespace mlir;

namespace heddle::import {
namespace {

// Output extent of a window along one dimension.
AffineExpr output_extent(Node& node, AffineExpr input, int64_t low, int64_t high, int64_t kernel, int64_t stride, int64_t dilation,
                         bool ceil) {
  // pads, kernel, stride and dilation are below 2^41 by read_window, so that these sums fit; the division rounds down
  int64_t shift = low + high - (dilation * (kernel - 1) + 1) + (ceil ? stride - 1 : 0);
  auto constant = [&](int64_t value) { return node.builder.getAffineConstantExpr(value); };
  return node.computed(sum(quotient(sum(input, constant(shift)), stride), constant(1)));
}

// Without the effect of auto_pad.
Window read_window(Node& node, size_t rank, std::vector<int64_t> kernel) {
  Window window;
  window.kernel = std::move(kernel);
  window.strides = node.integer_list("strides", std::vector<int64_t>(rank, 1));
  window.dilations = node.integer_list("dilations", std::vector<int64_t>(rank, 1));
  std::vector<int64_t> pads = node.integer_list("pads", std::vector<int64_t>(2 * rank, 0));
  if (window.kernel.size() != rank || window.strides.size() != rank || window.dilations.size() != rank || pads.size() != 2 * rank) {
    node.fail("kernel_shape, strides, dilations and pads do not fit " + std::to_string(rank) + " spatial dimensions");
  }
  for (size_t i = 0; i < rank; ++i) {
    bool sane = window.kernel[i] > 0 && window.strides[i] > 0 && window.dilations[i] > 0 && pads[i] >= 0 && pads[rank + i] >= 0;
    bool small = window.kernel[i] < (1 << 20) && window.strides[i] < (1 << 20) && window.dilations[i] < (1 << 20) && pads[i] < (1 << 20) &&
                 pads[rank + i] < (1 << 20);
    if (!sane || !small) node.fail("kernel_shape, strides, dilations or pads are out of range on dimension " + std::to_string(i));
  }
  window.low.assign(pads.begin(), pads.begin() + rank);
  window.high.assign(pads.begin() + rank, pads.end());
  return window;
}

enum class AutoPad { none, valid, same_upper, same_lower };

// If auto_pad is set, the pads of the window become 0.
AutoPad read_auto_pad(Node& node, Window& window) {
  std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic == "NOTSET" || automatic.empty()) return AutoPad::none;
  window.low.assign(window.low.size(), 0);
  window.high.assign(window.high.size(), 0);
  if (automatic == "VALID") return AutoPad::valid;
  if (automatic == "SAME_UPPER") return AutoPad::same_upper;
  if (automatic == "SAME_LOWER") return AutoPad::same_lower;
  node.fail("auto_pad '" + automatic + "' is not known");
}

}  // namespace

Window read_padded_window(Node& node, ArrayRef<AffineExpr> spatial, std::vector<int64_t> kernel, Pads* open) {
  Window window = read_window(node, spatial.size(), std::move(kernel));
  AutoPad automatic = read_auto_pad(node, window);
  if (automatic == AutoPad::none || automatic == AutoPad::valid) return window;
  auto constant = [&](int64_t value) { return node.builder.getAffineConstantExpr(value); };
  Pads pads;
  bool is_open = false;
  for (size_t i = 0; i < spatial.size(); ++i) {
    const int64_t stride = window.strides[i], reach = window.dilations[i] * (window.kernel[i] - 1) + 1;
    AffineExpr rounded = product(quotient(sum(spatial[i], constant(stride - 1)), stride), constant(stride));
    AffineExpr total = node.computed(difference(sum(rounded, constant(reach - stride)), spatial[i]));
    if (reach < stride) total = node.computed(node.graph.symbols.defined("max", total, constant(0)));
    AffineExpr half = node.computed(quotient(total, 2)), rest = node.computed(difference(total, half));
    const auto& [low, high] =
        pads.emplace_back(automatic == AutoPad::same_upper ? half : rest, automatic == AutoPad::same_upper ? rest : half);
    if (tx::static_extent(low) && tx::static_extent(high)) {
      window.low[i] = *tx::static_extent(low);
      window.high[i] = *tx::static_extent(high);
      pads.back() = {constant(0), constant(0)};
    } else {
      is_open = true;
    }
  }
  if (is_open && !open) node.fail("auto_pad over a symbolic extent", HEDDLE_STATUS_UNIMPLEMENTED);
  if (is_open) *open = std::move(pads);
  return window;
}

Value with_pads(Node& node, Value image, const Pads& pads, double value) {
  if (pads.empty()) return image;
  AffineExpr zero = node.builder.getAffineConstantExpr(0);
  Extents to = Node::extents_of(image), low{zero, zero};
  SmallVector<bool> is_changed{false, false};
  for (size_t i = 0; i < pads.size(); ++i) {
    low.push_back(pads[i].first);
    is_changed.push_back(pads[i] != std::pair(zero, zero));
    to[2 + i] = node.computed(sum(to[2 + i], sum(pads[i].first, pads[i].second)));
  }
  const Integers shifts = numbers_of(node, low);
  Value filler = node.splat(RankedTensorType::get({}, Node::type_of(image).getElementType()), value);
  return shifted(node, image, shifts.number(0) - shifts, to, filler, is_changed);
}

RankedTensorType output_type(Node& node, Value input, const Window& window, AffineExpr channels, bool ceil) {
  Extents from = Node::extents_of(input), to{from[0]};  // channels-last
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    AffineExpr extent =
        output_extent(node, from[1 + i], window.low[i], window.high[i], window.kernel[i], window.strides[i], window.dilations[i], ceil);
    if (auto constant = llvm::dyn_cast<AffineConstantExpr>(extent)) {
      int64_t value = constant.getValue();
      // with ceil_mode, a window that would start in the padding after the input does not count
      auto size = llvm::dyn_cast<AffineConstantExpr>(from[1 + i]);
      if (ceil && size && (value - 1) * window.strides[i] >= size.getValue() + window.low[i]) --value;
      if (value <= 0) node.fail("the window does not fit into dimension " + std::to_string(2 + i));
      extent = node.builder.getAffineConstantExpr(value);
    }
    to.push_back(extent);
  }
  to.push_back(channels);
  return node.tensor_type(to, Node::type_of(input).getElementType());
}

namespace {

ArrayRef<AffineExpr> spatial_of(const Extents& channels_first) {
  return ArrayRef<AffineExpr>(channels_first).drop_front(2);
}

std::vector<int64_t> kernel_of(Node& node, Value filter, int64_t rank) {
  RankedTensorType type = Node::type_of(filter);
  if (!type.hasStaticShape() || type.getRank() != rank) node.fail("the filter does not fit the input's rank");
  std::vector<int64_t> kernel(type.getShape().begin() + 2, type.getShape().end());
  if (node.integer_list("kernel_shape", kernel) != kernel) node.fail("kernel_shape is not the filter's");
  return kernel;
}

// A channels-last image with input 2 added, if it is given.
Value with_bias(Node& node, Value image) {
  if (!node.has_input(2)) return image;
  Value bias = node.input(2);
  RankedTensorType type = Node::type_of(image);
  int64_t channels = type.getShape().back();
  if (Node::type_of(bias).getShape() != ArrayRef<int64_t>{channels})
    node.fail("the bias does not have " + std::to_string(channels) + " elements");
  return node.make<tx::AddOp>(type, image, node.broadcast(bias, tx::extents(type)));
}

}  // namespace

Value convolved(Node& node, Value input, Value filter) {
  node.check_image(input);
  Extents extents = Node::extents_of(input);
  RankedTensorType filter_type = Node::type_of(filter);
  std::vector<int64_t> kernel = kernel_of(node, filter, Node::type_of(input).getRank());
  ArrayRef<int64_t> shape = filter_type.getShape();
  Pads pads;
  Window window = read_padded_window(node, spatial_of(extents), kernel, &pads);
  int64_t groups = node.integer("group", 1);
  if (groups < 1 || groups > std::max<int64_t>(1, shape[0]) || shape[0] % groups != 0)
    node.fail("group " + std::to_string(groups) + " does not divide " + std::to_string(shape[0]) + " filters");
  AffineExpr channels = product(node.builder.getAffineConstantExpr(shape[1]), node.builder.getAffineConstantExpr(groups));
  if (extents[1] != channels) {
    node.fail("the input's channels are not " + std::to_string(shape[1]) + " x " + std::to_string(groups));
  }
  Value image = node.channels_last(with_pads(node, input, pads, 0));
  SmallVector<int64_t> order;  // [F, C, spatial...] -> [spatial..., C, F]
  for (int64_t i = 2; i < filter_type.getRank(); ++i) order.push_back(i);
  order.append({1, 0});
  RankedTensorType type = output_type(node, image, window, node.builder.getAffineConstantExpr(shape[0]), false);
  // A pool of an image that is smaller than its window is empty, a convolution of one is an error.
  const Extents results = tx::extents(type);
  for (size_t i = 0; i < kernel.size(); ++i) {
    if (!node.graph.symbols.require(results[1 + i], node.builder.getAffineConstantExpr(1), node.describe()))
      node.fail("the window does not fit into dimension " + std::to_string(2 + i));
  }
  return node.make<tx::ConvOp>(type, image, node.transpose(filter, order), Value(), window.strides, window.low, window.high,
                               window.dilations, groups, DenseI64ArrayAttr());
}

namespace {

void conv(Node& node) {
  node.set_result(node.channels_first(with_bias(node, convolved(node, node.input(0), node.input(1)))));
}

// A convolution of each channel that sees no later positions. The positions before the first one are a state, or zeros.
void causal_conv(Node& node) {
  Value input = node.input(0), filter = node.input(1);
  const Extents extents = Node::extents_of(input);
  if (extents.size() != 3 || Node::type_of(filter).getRank() != 3) node.refuse_inputs("the input and the filter need rank 3");
  const std::vector<int64_t> kernel = kernel_of(node, filter, 3);
  const std::string activation = node.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") node.fail("activation '" + activation + "' is not known");
  auto constant = [&](int64_t value) { return node.builder.getAffineConstantExpr(value); };
  const int64_t channels = Node::type_of(filter).getShape()[0], before = kernel[0] - 1;
  if (extents[1] != constant(channels) || Node::type_of(filter).getShape()[1] != 1 || before < 0)
    node.refuse_inputs("the filter does not have one kernel for each channel");
  Extents padded{extents[0], extents[1], node.computed(sum(extents[2], constant(before)))};
  RankedTensorType type = node.tensor_type(padded, Node::type_of(input).getElementType());
  Value whole = input;
  if (node.has_input(3)) {
    const Extents wanted{extents[0], extents[1], constant(before)}, given = Node::extents_of(node.input(3));
    bool fits = given.size() == 3;
    for (size_t i = 0; fits && i < 3; ++i) fits = node.are_equal(wanted[i], given[i]);
    if (!fits) node.refuse_inputs("the past state does not have " + std::to_string(before) + " elements for each channel");
    if (before > 0) {
      SmallVector<Value> parts{node.with_extents(node.input(3), wanted), input};
      whole = node.make<tx::ConcatOp>(type, parts, node.builder.getI64IntegerAttr(2));
    }
  } else if (before > 0) {
    whole = node.make<tx::PadOp>(type, input, SmallVector<int64_t>{0, 0, before}, SmallVector<int64_t>{0, 0, 0}, llvm::APFloat(0.0));
  }
  if (!node.graph.symbols.require(extents[2], constant(1), node.describe())) node.fail("its input has no positions");
  Value image = node.channels_last(whole);
  SmallVector<int64_t> ones{1}, none{0};
  RankedTensorType to = node.tensor_type({extents[0], extents[2], extents[1]}, type.getElementType());
  Value result =
      node.make<tx::ConvOp>(to, image, node.transpose(filter, {2, 1, 0}), Value(), ones, none, none, ones, channels, DenseI64ArrayAttr());
  result = with_bias(node, result);
  if (activation != "none") result = node.make<tx::MulOp>(to, result, node.make<tx::SigmoidOp>(to, result));
  node.set_result(node.channels_first(result));
  if (!node.wants_output(1)) return;
  // the last positions, which are those from `length` on
  Extents state = extents;
  state[2] = constant(before);
  RankedTensorType places = node.tensor_type({state[2]}, node.builder.getI64Type());
  Value place = node.make<tx::IotaOp>(places, node.builder.getI64IntegerAttr(0));
  place = node.make<tx::AddOp>(places, place, node.broadcast(node.extent_value(extents[2]), {state[2]}));
  auto length = tx::static_extent(extents[2]);
  RankedTensorType of_state = node.tensor_type(state, type.getElementType());
  node.set_result(length ? node.make<tx::SliceOp>(of_state, whole, SmallVector<int64_t>{0, 0, *length}, SmallVector<int64_t>{1, 1, 1})
                         : node.make<tx::GatherOp>(of_state, whole, place, node.builder.getI64IntegerAttr(2)),
                  1);
}

// A dimension of ConvTranspose. An element at i adds to the outputs stride * i to stride * i + dilation * (kernel - 1), of which the first `low` are
// removed; stride * input + excess remain. Outputs whose indices have the same remainder modulo the stride are a phase: a convolution of
// the input with every stride-th element of the filter. All phases are one convolution; each phase is a group of channels of its result.
struct Transposed {
  int64_t stride, dilation, low, excess;
  int64_t taps;  // of each phase

  // Whole strides that are removed at the front, and how far the outputs extend beyond the input.
  int64_t front() const { return std::min(low / stride, dilation * (taps - 1)); }
  int64_t behind() const { return std::max<int64_t>(0, (excess + low + stride - 1) / stride); }
  int64_t pad_low() const { return dilation * (taps - 1) - front(); }
};

std::vector<Transposed> read_transposed(Node& node, ArrayRef<AffineExpr> spatial, const std::vector<int64_t>& kernel) {
  size_t rank = spatial.size();
  Window window = read_window(node, rank, kernel);
  AutoPad automatic = read_auto_pad(node, window);
  std::vector<int64_t> added = node.integer_list("output_padding", std::vector<int64_t>(rank, 0));
  std::vector<int64_t> outputs = node.integer_list("output_shape", std::vector<int64_t>{});
  if (added.size() != rank || (!outputs.empty() && outputs.size() != rank))
    node.fail("output_padding and output_shape do not fit " + std::to_string(rank) + " spatial dimensions");
  std::vector<Transposed> result;
  for (size_t i = 0; i < rank; ++i) {
    int64_t stride = window.strides[i], dilation = window.dilations[i];
    if (added[i] < 0 || added[i] >= 1 << 20) node.fail("output_padding is out of range on dimension " + std::to_string(i));
    int64_t reach = dilation * (kernel[i] - 1) + 1 + added[i] - stride, low = window.low[i], total_pads = low + window.high[i];
    if (!outputs.empty()) {
      auto extent = tx::static_extent(spatial[i]);
      if (!extent) node.fail("output_shape over a symbolic extent", HEDDLE_STATUS_UNIMPLEMENTED);
      total_pads = stride * *extent + reach - outputs[i];  // below 0: zeros behind
      if (total_pads < -(1 << 20) || outputs[i] < 1)
        node.fail("output_shape " + std::to_string(outputs[i]) + " does not fit dimension " + std::to_string(2 + i));
    } else if (automatic == AutoPad::same_upper || automatic == AutoPad::same_lower) {
      total_pads = std::max<int64_t>(0, reach);
    }
    if (!outputs.empty() || automatic != AutoPad::none)
      low = std::max<int64_t>(0, automatic == AutoPad::same_upper ? total_pads / 2 : total_pads - total_pads / 2);
    result.push_back({stride, dilation, low, reach - total_pads, kernel[i]});
  }
  return result;
}

// The filter with zeros between its elements along a dimension.
Value dilated(Node& node, Value filter, int64_t dimension, int64_t dilation) {
  Extents extents = Node::extents_of(filter), apart = extents;
  apart.insert(apart.begin() + dimension + 1, node.builder.getAffineConstantExpr(1));
  Value spread = node.reshape(filter, apart);
  SmallVector<int64_t> none(apart.size(), 0), behind = none;
  behind[dimension + 1] = dilation - 1;
  apart[dimension + 1] = node.builder.getAffineConstantExpr(dilation);
  Type element = Node::type_of(filter).getElementType();
  spread = node.make<tx::PadOp>(node.tensor_type(apart, element), spread, none, behind, llvm::APFloat(0.0));
  extents[dimension] = node.computed(product(extents[dimension], apart[dimension + 1]));
  return node.reshape(spread, extents);
}

// [C, M / groups, spatial...] -> [taps..., C / groups, groups * phases * M / groups], reversed as a convolution reads it.
Value filter_of_phases(Node& node, Value filter, ArrayRef<Transposed> dimensions, int64_t groups) {
  auto constant = [&](int64_t value) { return node.builder.getAffineConstantExpr(value); };
  Type element = Node::type_of(filter).getElementType();
  Extents whole = Node::extents_of(filter);
  SmallVector<int64_t> none(whole.size(), 0), behind = none;
  Extents split{constant(groups), node.computed(exact_quotient(whole[0], constant(groups), node.builder.getContext())), whole[1]};
  SmallVector<int64_t> starts(3, 0), strides(3, 1), taps, phases;
  for (auto [i, dimension] : llvm::enumerate(dimensions)) {
    int64_t filled = dimension.taps * dimension.stride;
    behind[2 + i] = filled - *tx::static_extent(whole[2 + i]);
    whole[2 + i] = constant(filled);
    taps.push_back(static_cast<int64_t>(split.size()));
    phases.push_back(taps.back() + 1);
    split.append({constant(dimension.taps), constant(dimension.stride)});
    starts.append({dimension.taps - 1, 0});
    strides.append({-1, 1});
  }
  if (behind != none) filter = node.make<tx::PadOp>(node.tensor_type(whole, element), filter, none, behind, llvm::APFloat(0.0));
  filter = node.reshape(filter, split);
  filter = node.make<tx::SliceOp>(node.tensor_type(split, element), filter, starts, strides);
  SmallVector<int64_t> order(taps);
  order.append({1, 0});
  llvm::append_range(order, phases);
  order.push_back(2);
  Extents joined;
  for (int64_t tap : taps) joined.push_back(split[tap]);
  joined.push_back(split[1]);
  AffineExpr filters = product(split[0], split[2]);
  for (int64_t phase : phases) filters = product(filters, split[phase]);
  joined.push_back(node.computed(filters));
  return node.reshape(node.transpose(filter, order), joined);
}

// [N, positions..., groups * phases * M / groups] -> [N, positions * stride..., M]
Value phases_joined(Node& node, Value value, ArrayRef<Transposed> dimensions, int64_t groups) {
  auto constant = [&](int64_t value) { return node.builder.getAffineConstantExpr(value); };
  Extents from = Node::extents_of(value), split(from.begin(), from.end() - 1), joined{from[0]};
  auto first = static_cast<int64_t>(dimensions.size()) + 2;  // phase
  split.push_back(constant(groups));
  SmallVector<int64_t> order{0};
  int64_t channels = *tx::static_extent(from.back());
  for (auto [i, dimension] : llvm::enumerate(dimensions)) {
    split.push_back(constant(dimension.stride));
    order.append({static_cast<int64_t>(1 + i), static_cast<int64_t>(first + i)});
    joined.push_back(node.computed(product(from[1 + i], split.back())));
    channels /= dimension.stride;
  }
  split.push_back(constant(channels / groups));
  order.append({first - 1, static_cast<int64_t>(split.size()) - 1});
  joined.push_back(constant(channels));
  return node.reshape(node.transpose(node.reshape(value, split), order), joined);
}

void conv_transpose(Node& node) {
  Value input = node.input(0), filter = node.input(1);
  node.check_image(input);
  Extents extents = Node::extents_of(input);
  auto constant = [&](int64_t value) { return node.builder.getAffineConstantExpr(value); };
  std::vector<int64_t> kernel = kernel_of(node, filter, Node::type_of(input).getRank());
  std::vector<Transposed> dimensions = read_transposed(node, spatial_of(extents), kernel);
  int64_t groups = node.integer("group", 1), channels = Node::type_of(filter).getShape()[0];
  if (groups < 1 || groups > std::max<int64_t>(1, channels) || channels % groups != 0)
    node.fail("group " + std::to_string(groups) + " does not divide " + std::to_string(channels) + " channels");
  if (extents[1] != constant(channels)) node.fail("the input's channels are not " + std::to_string(channels));

  Value image = node.channels_last(input);
  Extents positions{extents[0]}, outputs{extents[0]};
  SmallVector<int64_t> ones, pads_low, pads_high, dilations, starts{0};
  for (auto [i, dimension] : llvm::enumerate(dimensions)) {
    if (dimension.stride > 1 && dimension.dilation > 1) {
      filter = dilated(node, filter, static_cast<int64_t>(2 + i), dimension.dilation);
      dimension.taps *= dimension.dilation;
      dimension.dilation = 1;
    }
    dimension.taps = (dimension.taps + dimension.stride - 1) / dimension.stride;
    ones.push_back(1);
    pads_low.push_back(dimension.pad_low());
    pads_high.push_back(dimension.behind());
    dilations.push_back(dimension.dilation);
    starts.push_back(dimension.low - dimension.front() * dimension.stride);
    positions.push_back(node.computed(sum(extents[2 + i], constant(dimension.behind() - dimension.front()))));
    outputs.push_back(node.computed(sum(product(extents[2 + i], constant(dimension.stride)), constant(dimension.excess))));
    auto known = tx::static_extent(outputs.back());
    if (known && *known <= 0) node.fail("the pads leave nothing of dimension " + std::to_string(2 + i));
  }
  Value phases = filter_of_phases(node, filter, dimensions, groups);
  positions.push_back(Node::extents_of(phases).back());
  RankedTensorType type = node.tensor_type(positions, Node::type_of(input).getElementType());
  Value result = node.make<tx::ConvOp>(type, image, phases, Value(), ones, pads_low, pads_high, dilations, groups, DenseI64ArrayAttr());
  result = phases_joined(node, result, dimensions, groups);
  outputs.push_back(Node::extents_of(result).back());
  starts.push_back(0);
  SmallVector<int64_t> strides(starts.size(), 1);
  result =
      node.builder.createOrFold<tx::SliceOp>(node.location(), node.tensor_type(outputs, type.getElementType()), result, starts, strides);
  node.set_result(node.channels_first(with_bias(node, result)));
}

template <tx::PoolKind kind>
void pool(Node& node) {
  Value input = node.input(0);
  node.check_image(input);
  Extents extents = Node::extents_of(input);
  const bool can_pad = kind == tx::PoolKind::max && llvm::isa<FloatType>(Node::type_of(input).getElementType()) && !node.wants_output(1);
  Pads pads;
  Window window = read_padded_window(node, spatial_of(extents), node.integer_list("kernel_shape"), can_pad ? &pads : nullptr);
  input = with_pads(node, input, pads, -std::numeric_limits<double>::infinity());
  const bool by_columns = node.integer("storage_order", 0) != 0;
  bool include_pad = node.integer("count_include_pad", 0) != 0;
  Value image = node.channels_last(input);
  RankedTensorType type = output_type(node, image, window, extents[1], node.integer("ceil_mode", 0) != 0);
  Value result = node.make<tx::PoolOp>(type, kind, image, window.kernel, window.strides, window.low, window.high, window.dilations,
                                       include_pad && kind == tx::PoolKind::average);
  node.set_result(node.channels_first(result));
  if (node.wants_output(1)) node.set_result(places_of_largest(node, image, window, type, by_columns), 1);
}

template <tx::ReduceKind kind>
void global_pool(Node& node) {
  Value input = node.input(0);
  node.check_image(input);
  Extents extents = Node::extents_of(input);
  SmallVector<int64_t> axes;
  for (size_t i = 2; i < extents.size(); ++i) axes.push_back(i);
  Value reduced =
      node.make<tx::ReduceOp>(node.tensor_type({extents[0], extents[1]}, Node::type_of(input).getElementType()), kind, input, axes);
  for (size_t i = 2; i < extents.size(); ++i) extents[i] = node.builder.getAffineConstantExpr(1);
  node.set_result(node.reshape(reduced, extents));
}

void batch_norm(Node& node) {
  Value input = node.input(0);
  if (Node::type_of(input).getRank() < 2) node.fail("the input needs rank 2 or more");
  if (node.integer("spatial", 1) != 1) node.unsupported("spatial 0 is not supported", "spatial 1");
  // from opset 7 to 13 in training if there are further outputs
  const bool in_training = node.opset() < 7    ? node.integer("is_test", 0) == 0
                           : node.opset() < 14 ? node.wants_output(1) || node.wants_output(2)
                                               : node.integer("training_mode", 0) != 0;
  if (in_training) return batch_norm_in_training(node);
  SmallVector<Value> vectors;
  for (int i = 1; i < 5; ++i) {
    vectors.push_back(node.input(i));
    if (Node::extents_of(vectors.back()) != Extents{Node::extents_of(input)[1]})
      node.fail("input " + std::to_string(i) + " does not have one element per channel");
  }
  Value image = node.channels_last(input);
  Value result = node.make<tx::BatchNormOp>(Node::type_of(image), image, vectors[0], vectors[1], vectors[2], vectors[3],
                                            node.builder.getF64FloatAttr(node.number("epsilon", 1e-5f)));
  node.set_result(node.channels_first(result));
}

void lrn(Node& node) {
  Value input = node.input(0);
  node.check_image(input);
  int64_t size = node.integer("size");
  if (size < 1 || size >= 1 << 20) node.fail("size " + std::to_string(size) + " is out of range");
  Value image = node.channels_last(input);
  Builder& b = node.builder;
  Value result =
      node.make<tx::LrnOp>(Node::type_of(image), image, b.getI64IntegerAttr(size), b.getF64FloatAttr(node.number("alpha", 1e-4f)),
                           b.getF64FloatAttr(node.number("beta", 0.75)), b.getF64FloatAttr(node.number("bias", 1.0)));
  node.set_result(node.channels_first(result));
}

}  // namespace

const Table& image_operators() {
  static const Table table = {
      {"AveragePool", pool<tx::PoolKind::average>},
      {"BatchNormalization", batch_norm},
      {"CausalConvWithState", causal_conv},
      {"Conv", conv},
      {"ConvTranspose", conv_transpose},
      {"GlobalAveragePool", global_pool<tx::ReduceKind::mean>},
      {"GlobalMaxPool", global_pool<tx::ReduceKind::max>},
      {"LRN", lrn},
      {"MaxPool", pool<tx::PoolKind::max>},
  };
  return table;
}

}  // namespace heddle::import
