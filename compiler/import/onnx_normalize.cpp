// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Normalizations over some dimensions of each sample: layers, instances, groups.
#include "compiler/import/onnx_graph.h"

using namespace mlir;

namespace heddle::import {
namespace {

// The value divided by the square root of the mean of its squares, over its dimensions from `first` on; with `centered`, its mean is subtracted
// first.
// parts: gets the mean, if it is subtracted, and the factor.
Value normalized(Node& node, Value value, int64_t first, bool centered, std::pair<Value, Value>* parts = nullptr) {
  RankedTensorType type = Node::type_of(value);
  SmallVector<int64_t> axes, outer;
  for (int64_t i = 0; i < type.getRank(); ++i) (i < first ? outer : axes).push_back(i);
  Extents extents = tx::extents(type);
  RankedTensorType reduced = node.tensor_type(ArrayRef<AffineExpr>(extents).take_front(first), type.getElementType());
  auto mean_of = [&](Value one) { return node.make<tx::ReduceOp>(reduced, tx::ReduceKind::mean, one, axes); };
  auto spread = [&](Value one) { return node.builder.create<tx::BroadcastOp>(node.location(), type, one, outer).getResult(); };
  Value mean = centered ? mean_of(value) : Value();
  if (centered) value = node.make<tx::SubOp>(type, value, spread(mean));
  Value square = mean_of(node.make<tx::MulOp>(type, value, value));
  Value shifted = node.make<tx::AddOp>(reduced, square, node.splat(reduced, node.number("epsilon", 1e-5f)));
  Value factor = node.make<tx::RsqrtOp>(reduced, shifted);
  if (parts) *parts = {mean, factor};
  return node.make<tx::MulOp>(type, value, spread(factor));
}

// Applies inputs 1 and 2: a factor and an offset for each index of a dimension.
Value scaled(Node& node, Value value, int64_t dimension) {
  RankedTensorType type = Node::type_of(value);
  AffineExpr extent = tx::extents(type)[dimension];
  auto spread = [&](int input) {
    Value vector = node.input(input);
    Extents own = Node::extents_of(vector);
    if (own.size() != 1 || !node.are_equal(extent, own[0]))
      node.fail("input " + std::to_string(input) + " does not have one element for each channel or group");
    return node.make<tx::BroadcastOp>(type, node.with_extents(vector, extent), ArrayRef<int64_t>{dimension});
  };
  return node.make<tx::AddOp>(type, node.make<tx::MulOp>(type, value, spread(1)), spread(2));
}

Type stash_type(Node& node) {
  int64_t stash = node.integer("stash_type", onnx::TensorProto::FLOAT);
  constexpr int64_t types[] = {onnx::TensorProto::FLOAT, onnx::TensorProto::FLOAT16, onnx::TensorProto::DOUBLE,
                               onnx::TensorProto::BFLOAT16};
  if (!llvm::is_contained(types, stash)) node.fail("stash_type is " + std::to_string(stash));
  return element_type(node.builder.getContext(), static_cast<int32_t>(stash), node.describe());
}

// Computes in the type of stash_type if it is wider, since the divisor and epsilon may be too small for f16.
Value in_stash_type(Node& node, Value value) {
  Type element = stash_type(node);
  bool is_wider = element.getIntOrFloatBitWidth() > Node::type_of(value).getElementTypeBitWidth();
  return is_wider ? node.converted(value, element) : value;
}

// Factors and offsets are broadcast.
void layer_norm(Node& node) {
  Value input = node.input(0);
  int64_t first = node.axis(node.integer("axis", -1), Node::type_of(input).getRank());
  RankedTensorType type = Node::type_of(input);
  std::pair<Value, Value> parts;
  Value result = node.converted(normalized(node, in_stash_type(node, input), first, /*centered=*/true, &parts), type.getElementType());
  Extents kept = tx::extents(type);
  for (size_t i = static_cast<size_t>(first); i < kept.size(); ++i) kept[i] = node.builder.getAffineConstantExpr(1);
  for (int i : {1, 2}) {
    if (!node.wants_output(i)) continue;
    Value part = i == 1 ? parts.first : parts.second;
    node.set_result(node.reshape(node.converted(part, stash_type(node)), kept), i);
  }
  result = node.make<tx::MulOp>(type, result, node.broadcast(node.input(1), tx::extents(type)));
  if (node.has_input(2)) result = node.make<tx::AddOp>(type, result, node.broadcast(node.input(2), tx::extents(type)));
  node.set_result(result);
}

// The result has the type of the factors.
void rms_norm(Node& node) {
  Value input = node.input(0), scale = node.input(1);
  RankedTensorType own = Node::type_of(input);
  int64_t first = node.axis(node.integer("axis", -1), own.getRank());
  Value result = node.converted(normalized(node, in_stash_type(node, input), first, /*centered=*/false), own.getElementType());
  result = node.converted(result, Node::type_of(scale).getElementType());
  RankedTensorType type = Node::type_of(result);
  node.set_result(node.make<tx::MulOp>(type, result, node.broadcast(scale, tx::extents(type))));
}

void instance_norm(Node& node) {
  Value input = node.input(0);
  node.check_image(input);
  node.set_result(scaled(node, normalized(node, input, 2, /*centered=*/true), 1));
}

// Factors are per group up to opset 20, per channel after that.
void group_norm(Node& node) {
  Value input = node.input(0);
  RankedTensorType type = Node::type_of(input);
  if (type.getRank() < 2) node.fail("the input needs rank 2 or more, has " + std::to_string(type.getRank()));
  Extents extents = tx::extents(type), grouped = extents;
  int64_t groups = node.integer("num_groups");
  if (groups < 1 || groups > largest_extent) node.fail("num_groups is " + std::to_string(groups));
  AffineExpr count = node.builder.getAffineConstantExpr(groups);
  grouped[1] = exact_quotient(extents[1], count, node.builder.getContext());
  if (!grouped[1]) node.fail("its channels are not a multiple of num_groups, which is " + std::to_string(groups));
  grouped.insert(grouped.begin() + 1, count);
  bool by_group = node.opset() < 21;
  if (!by_group) input = in_stash_type(node, input);
  Value result = node.converted(normalized(node, node.reshape(input, grouped), 2, /*centered=*/true), type.getElementType());
  if (by_group) result = scaled(node, result, 1);
  result = node.reshape(result, extents);
  node.set_result(by_group ? result : scaled(node, result, 1));
}

}  // namespace

const Table& normalize_operators() {
  static const Table table = {
      {"GroupNormalization", group_norm},
      {"InstanceNormalization", instance_norm},
      {"LayerNormalization", layer_norm},
      {"RMSNormalization", rms_norm},
  };
  return table;
}

}  // namespace heddle::import
