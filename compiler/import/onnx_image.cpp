// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions, pooling and normalization over images. ONNX is channels-first: each translation transposes in and out, and
// heddle-propagate-transposes removes what meets.
#include "compiler/import/onnx_graph.h"

using namespace mlir;

namespace heddle::import {
namespace {

// Window of a convolution or pooling along each spatial dimension.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, low, high;
};

// Output extent of a window along one dimension.
AffineExpr output_extent(Node& node, AffineExpr input, int64_t low, int64_t high, int64_t kernel, int64_t stride, int64_t dilation,
                         bool ceil) {
  // pads, kernel, stride and dilation are below 2^41 by read_window, so that these sums fit; the division rounds down
  int64_t shift = low + high - (dilation * (kernel - 1) + 1) + (ceil ? stride - 1 : 0);
  auto constant = [&](int64_t value) { return node.builder.getAffineConstantExpr(value); };
  return node.computed(sum(quotient(sum(input, constant(shift)), stride), constant(1)));
}

Window read_window(Node& node, ArrayRef<AffineExpr> spatial, std::vector<int64_t> kernel) {
  size_t rank = spatial.size();
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
  std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic == "NOTSET" || automatic.empty()) return window;
  window.low.assign(rank, 0);
  window.high.assign(rank, 0);
  if (automatic == "VALID") return window;
  if (automatic != "SAME_UPPER" && automatic != "SAME_LOWER") node.fail("auto_pad '" + automatic + "' is not known");
  for (size_t i = 0; i < rank; ++i) {
    auto extent = llvm::dyn_cast<AffineConstantExpr>(spatial[i]);
    if (!extent) node.fail("auto_pad over a symbolic extent", HEDDLE_STATUS_UNIMPLEMENTED);
    int64_t outputs = (extent.getValue() + window.strides[i] - 1) / window.strides[i];
    int64_t total =
        std::max<int64_t>(0, (outputs - 1) * window.strides[i] + window.dilations[i] * (window.kernel[i] - 1) + 1 - extent.getValue());
    window.low[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    window.high[i] = total - window.low[i];
  }
  return window;
}

RankedTensorType output_type(Node& node, Value input, const Window& window, AffineExpr channels, bool ceil) {
  Extents from = Node::extents_of(input), to{from[0]};  // channels-last
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    AffineExpr extent =
        output_extent(node, from[1 + i], window.low[i], window.high[i], window.kernel[i], window.strides[i], window.dilations[i], ceil);
    if (auto constant = llvm::dyn_cast<AffineConstantExpr>(extent)) {
      int64_t value = constant.getValue();
      // with ceil_mode, a window that would start in the padding behind the input does not count
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

ArrayRef<AffineExpr> spatial_of(const Extents& channels_first) {
  return ArrayRef<AffineExpr>(channels_first).drop_front(2);
}

void check_image(Node& node, Value input) {
  if (Node::type_of(input).getRank() < 3)
    node.fail("the input needs rank 3 or more, has " + std::to_string(Node::type_of(input).getRank()));
}

void conv(Node& node) {
  Value input = node.input(0), filter = node.input(1);
  check_image(node, input);
  Extents extents = Node::extents_of(input);
  RankedTensorType filter_type = Node::type_of(filter);
  if (!filter_type.hasStaticShape() || filter_type.getRank() != Node::type_of(input).getRank())
    node.fail("the filter does not fit the input's rank");
  ArrayRef<int64_t> shape = filter_type.getShape();
  std::vector<int64_t> kernel(shape.begin() + 2, shape.end());
  if (node.integer_list("kernel_shape", kernel) != kernel) node.fail("kernel_shape is not the filter's");
  Window window = read_window(node, spatial_of(extents), kernel);
  int64_t groups = node.integer("group", 1);
  if (groups < 1 || groups > std::max<int64_t>(1, shape[0]) || shape[0] % groups != 0)
    node.fail("group " + std::to_string(groups) + " does not divide " + std::to_string(shape[0]) + " filters");
  AffineExpr channels = product(node.builder.getAffineConstantExpr(shape[1]), node.builder.getAffineConstantExpr(groups));
  if (extents[1] != channels) {
    node.fail("the input's channels are not " + std::to_string(shape[1]) + " x " + std::to_string(groups));
  }
  Value image = node.channels_last(input);
  SmallVector<int64_t> order;  // [F, C, spatial...] -> [spatial..., C, F]
  for (int64_t i = 2; i < filter_type.getRank(); ++i) order.push_back(i);
  order.append({1, 0});
  RankedTensorType type = output_type(node, image, window, node.builder.getAffineConstantExpr(shape[0]), false);
  Value result = node.make<tx::ConvOp>(type, image, node.transpose(filter, order), window.strides, window.low, window.high,
                                       window.dilations, groups, DenseI64ArrayAttr());
  if (node.has_input(2)) {
    Value bias = node.input(2);
    if (Node::type_of(bias).getShape() != ArrayRef<int64_t>{shape[0]})
      node.fail("the bias does not have " + std::to_string(shape[0]) + " elements");
    result = node.make<tx::AddOp>(type, result, node.broadcast(bias, tx::extents(type)));
  }
  node.set_result(node.channels_first(result));
}

template <tx::PoolKind kind>
void pool(Node& node) {
  Value input = node.input(0);
  check_image(node, input);
  Extents extents = Node::extents_of(input);
  Window window = read_window(node, spatial_of(extents), node.integer_list("kernel_shape"));
  if (node.wants_output(1)) node.fail("its output Indices is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  if (node.integer("storage_order", 0) != 0) node.fail("storage_order 1 is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  bool include_pad = node.integer("count_include_pad", 0) != 0;
  Value image = node.channels_last(input);
  RankedTensorType type = output_type(node, image, window, extents[1], node.integer("ceil_mode", 0) != 0);
  Value result = node.make<tx::PoolOp>(type, kind, image, window.kernel, window.strides, window.low, window.high, window.dilations,
                                       include_pad && kind == tx::PoolKind::average);
  node.set_result(node.channels_first(result));
}

template <tx::ReduceKind kind>
void global_pool(Node& node) {
  Value input = node.input(0);
  check_image(node, input);
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
  if (node.integer("training_mode", 0) != 0) node.fail("training_mode 1 is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  if (node.integer("spatial", 1) != 1) node.fail("spatial 0 is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  SmallVector<Value> vectors;
  for (int i = 1; i < 5; ++i) {
    vectors.push_back(node.input(i));
    if (Node::extents_of(vectors.back()) != Extents{Node::extents_of(input)[1]})
      node.fail("input " + std::to_string(i) + " has not one element a channel");
  }
  Value image = node.channels_last(input);
  Value result = node.make<tx::BatchNormOp>(Node::type_of(image), image, vectors[0], vectors[1], vectors[2], vectors[3],
                                            node.builder.getF64FloatAttr(node.number("epsilon", 1e-5f)));
  node.set_result(node.channels_first(result));
}

void lrn(Node& node) {
  Value input = node.input(0);
  check_image(node, input);
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
      {"Conv", conv},
      {"GlobalAveragePool", global_pool<tx::ReduceKind::mean>},
      {"GlobalMaxPool", global_pool<tx::ReduceKind::max>},
      {"LRN", lrn},
      {"MaxPool", pool<tx::PoolKind::max>},
  };
  return table;
}

}  // namespace heddle::import
