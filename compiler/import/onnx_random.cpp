// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/onnx_random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "compiler/import/onnx_arithmetic.h"
#include "compiler/ir/bits.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace heddle::import {
namespace {

using tx::CompareKind;

// A node's random numbers. Each draw gives numbers that are independent of those of the others.
class Random {
 public:
  explicit Random(Node& node) : node_(node), m_(node) {
    auto function = llvm::cast<func::FuncOp>(node.builder.getBlock()->getParentOp());
    if (function.isPrivate())
      node.fail("random numbers in a graph of If, Loop or Scan, which would be the same in each step, are not supported",
                HEDDLE_STATUS_UNIMPLEMENTED);
    RankedTensorType type = RankedTensorType::get({}, node.builder.getI64Type());
    if (node.has_attribute("seed")) {
      // A float by its bits; of Dropout's 64 bits, the lower ones.
      const uint32_t seed = node.type() == "Dropout" ? static_cast<uint32_t>(node.integer("seed"))
                                                     : std::bit_cast<uint32_t>(static_cast<float>(node.number("seed", 0)));
      seed_ = node.splat(type, seed);
      return;
    }
    Graph& graph = node.graph;
    if (!graph.calls) graph.calls = function.getBody().front().addArgument(type, NameLoc::get(node.builder.getStringAttr(calls_name)));
    // Below the number of the node are the bits of a seed, or of the number of the call.
    constexpr double numbers = 4294967296.0;
    seed_ = m_.add(graph.calls, node.splat(type, numbers * static_cast<double>(++graph.random_nodes)));
  }

  // From 0 to 1, without 1; with `reversed`, from 0 to 1, without 0. For f16 and bf16 as many bits as they have, in f32.
  Value uniform(ArrayRef<AffineExpr> extents, Type element, bool reversed = false) {
    const bool is_double = element.isF64();
    const Type computed = is_double ? element : Type(node_.builder.getF32Type());
    const int digits = element.isBF16() ? 8 : element.isF16() ? 11 : 24;
    Value result;
    if (is_double) {
      Value high = whole(bits(extents), 27, computed), low = whole(bits(extents), 26, computed);
      result = m_.add(m_.mul(high, m_.number(high, 0x1p26)), low);
    } else {
      result = whole(bits(extents), digits, computed);
    }
    if (reversed) result = m_.add(result, m_.number(result, 1));
    return m_.mul(result, m_.number(result, is_double ? 0x1p-53 : std::ldexp(1.0, -digits)));
  }

  // With a mean of 0 and a variance of 1, in f32 or f64: G. E. P. Box and M. E. Muller, A note on the generation of random normal deviates, 1958.
  Value normal(ArrayRef<AffineExpr> extents, Type element) {
    const Type computed = element.isF64() ? element : Type(node_.builder.getF32Type());
    Value radius = uniform(extents, computed, /*reversed=*/true), angle = uniform(extents, computed);
    RankedTensorType type = Node::type_of(radius);
    radius = node_.make<tx::LogOp>(type, radius);
    radius = m_.sqrt(m_.mul(radius, m_.number(radius, -2)));
    angle = node_.make<tx::CosOp>(type, m_.mul(angle, m_.number(angle, 2 * std::numbers::pi)));
    return m_.mul(radius, angle);
  }

 private:
  Value bits(ArrayRef<AffineExpr> extents) {
    const AffineExpr count = node_.count_of(extents);
    Value index = m_.iota({count}, 0, node_.builder.getI64Type());
    // No tensor has 2^45 elements.
    if (draws_ > 0) index = m_.add(index, m_.number(index, static_cast<double>(draws_) * 0x1p45));
    ++draws_;
    RankedTensorType type = tx::with_element_type(Node::type_of(index), node_.builder.getIntegerType(32, false));
    return node_.reshape(node_.make<tx::RandomBitsOp>(type, index, node_.broadcast(seed_, {count})), extents);
  }

  // The first bits as a number of that type.
  Value whole(Value bits, int count, Type element) {
    return node_.converted(m_.div(bits, m_.number(bits, std::ldexp(1.0, 32 - count))), element);
  }

  Node& node_;
  Arithmetic m_;
  Value seed_;  // rank 0, i64
  int64_t draws_ = 0;
};

// The type of the results: attribute dtype, or `otherwise`.
Type result_type(Node& node, Type otherwise) {
  return node.has_attribute("dtype") ? element_type(node.builder.getContext(), node.integer("dtype"), node.describe()) : otherwise;
}

Type float_result_type(Node& node, Type otherwise) {
  const Type type = result_type(node, otherwise);
  if (!llvm::isa<FloatType>(type)) node.fail("its results are not floats; give a dtype that is");
  return type;
}

// The extents of the result: attribute shape, or those of the input.
Extents result_extents(Node& node) {
  if (node.input_count() > 0) {
    const Operand& operand = node.operand(0);
    return operand.value ? Node::extents_of(operand.value) : Node::extents_of(node.input(0));
  }
  Extents extents;
  for (int64_t extent : node.integer_list("shape")) {
    if (extent < 0 || extent > largest_extent) node.fail("shape has the extent " + std::to_string(extent));
    extents.push_back(node.builder.getAffineConstantExpr(extent));
  }
  return extents;
}

Type type_of_input(Node& node) {
  return node.input_count() > 0 ? Node::type_of(node.input(0)).getElementType() : Type(node.builder.getF32Type());
}

void random_uniform(Node& node) {
  const Type element = float_result_type(node, type_of_input(node));
  const Arithmetic m(node);
  const double low = node.number("low", 0), high = node.number("high", 1);
  Value value = Random(node).uniform(result_extents(node), element);
  if (low != 0 || high != 1) value = m.add(m.mul(value, m.number(value, high - low)), m.number(value, low));
  node.set_result(node.converted(value, element));
}

void random_normal(Node& node) {
  const Type element = float_result_type(node, type_of_input(node));
  const Arithmetic m(node);
  Value value = Random(node).normal(result_extents(node), element);
  value = m.add(m.mul(value, m.number(value, node.number("scale", 1))), m.number(value, node.number("mean", 0)));
  node.set_result(node.converted(value, element));
}

// Numbers of an input of floats, in the type in which random ones are compared with them.
Value computed(Node& node, int index) {
  Value value = node.input(index);
  const Type element = Node::type_of(value).getElementType();
  if (!llvm::isa<FloatType>(element)) node.refuse_inputs("input " + std::to_string(index) + " needs elements that are floats");
  return element.isF64() ? value : node.converted(value, node.builder.getF32Type());
}

void bernoulli(Node& node) {
  const Arithmetic m(node);
  Value probability = computed(node, 0);
  const Extents extents = Node::extents_of(probability);
  Value drawn = Random(node).uniform(extents, Node::type_of(probability).getElementType());
  node.set_result(node.converted(m.compare(CompareKind::lt, drawn, probability), result_type(node, type_of_input(node))));
}

// How many sums of the first few probabilities a random part of their whole exceeds.
void multinomial(Node& node) {
  const Arithmetic m(node);
  Value logits = computed(node, 0);
  const Extents extents = Node::extents_of(logits);
  if (extents.size() != 2) node.refuse_inputs("its input is not [batch, classes]");
  const int64_t samples = node.integer("sample_size", 1);
  if (samples < 1 || samples > largest_extent) node.fail("sample_size is " + std::to_string(samples));
  if (!node.graph.symbols.require(extents[1], node.builder.getAffineConstantExpr(1), node.describe()) || tx::static_extent(extents[1]) == 0)
    node.refuse_inputs("its input has no classes");
  const Type element = Node::type_of(logits).getElementType(), i64 = node.builder.getI64Type(),
             result = result_type(node, node.builder.getI32Type());
  if (!llvm::isa<IntegerType>(result)) node.fail("dtype is not a type of integers");
  Value largest = node.broadcast(m.reduce(tx::ReduceKind::max, logits, {1}), extents), shifted = m.sub(logits, largest);
  Value weights = node.make<tx::ExpOp>(Node::type_of(shifted), shifted);
  Value sums = node.make<tx::CumsumOp>(Node::type_of(weights), weights, 1, false, false);
  const Extents drawn{extents[0], node.builder.getAffineConstantExpr(samples)}, all{drawn[0], drawn[1], extents[1]};
  // The whole is the last of the sums, in their order of additions.
  Extents column{extents[0], node.builder.getAffineConstantExpr(1)};
  Value last =
      m.sub(m.extent(extents[1], node.splat(node.tensor_type({column[1]}, i64), 0)), node.splat(node.tensor_type({column[1]}, i64), 1));
  Value whole = node.make<tx::GatherOp>(node.tensor_type(column, element), sums, last, 1);
  Value part = m.mul(Random(node).uniform(drawn, element), node.broadcast(whole, drawn));
  Value exceeds = node.converted(m.compare(CompareKind::le, m.spread(sums, all, {0, 2}), m.spread(part, all, {0, 1})), i64);
  Value number = node.make<tx::ReduceOp>(node.tensor_type(drawn, i64), tx::ReduceKind::sum, exceeds, ArrayRef<int64_t>{2});
  number = m.min(number, m.sub(m.extent(extents[1], number), m.number(number, 1)));
  node.set_result(node.converted(number, result));
}

}  // namespace

void dropout_in_training(Node& node) {
  const Arithmetic m(node);
  Value data = computed(node, 0), ratio;
  const Extents extents = Node::extents_of(data);
  const Type element = Node::type_of(data).getElementType(), own = Node::type_of(node.input(0)).getElementType();
  RankedTensorType number = RankedTensorType::get({}, element);
  auto scalar = [&](int index, Type type) {
    Value value = node.input(index);
    if (!Node::type_of(value).hasStaticShape() || Node::type_of(value).getNumElements() != 1)
      node.refuse_inputs("input " + std::to_string(index) + " is not one number");
    return node.converted(node.reshape(value, {}), type);
  };
  const bool by_inputs = node.opset() >= 12;
  ratio = by_inputs && node.has_input(1) ? scalar(1, element) : node.splat(number, by_inputs ? 0.5 : node.number("ratio", 0.5));
  Value kept = m.compare(CompareKind::ge, Random(node).uniform(extents, element), node.broadcast(ratio, extents));
  Value factor = m.div(node.splat(number, 1), m.sub(node.splat(number, 1), ratio));
  if (by_inputs) {
    Value trains = scalar(2, node.builder.getI1Type());
    factor = m.select(trains, factor, node.splat(number, 1));
    Value everywhere = node.broadcast(trains, extents);
    kept = m.select(everywhere, kept, node.splat(Node::type_of(kept), 1));
  }
  Value result = m.select(kept, m.mul(data, node.broadcast(factor, extents)), m.number(data, 0));
  node.set_result(node.converted(result, own));
  if (node.wants_output(1)) node.set_result(node.converted(kept, by_inputs ? node.builder.getI1Type() : own), 1);
}

Value next_calls(Graph& graph, Location location) {
  RankedTensorType type = Node::type_of(graph.calls);
  Value one = graph.builder.create<tx::ConstantOp>(location, type, DenseElementsAttr::get(type, int64_t{1}));
  Value next = graph.builder.create<tx::AddOp>(location, type, graph.calls, one);
  // Calls are counted in the 32 bits below the number of the node.
  Value all = graph.builder.create<tx::ConstantOp>(location, type, DenseElementsAttr::get(type, int64_t{0xFFFFFFFF}));
  return graph.builder.create<tx::BitAndOp>(location, type, next, all);
}

const Table& random_operators() {
  static const Table table = {
      {"Bernoulli", bernoulli},          {"Multinomial", multinomial},
      {"RandomNormal", random_normal},   {"RandomNormalLike", random_normal},
      {"RandomUniform", random_uniform}, {"RandomUniformLike", random_uniform},
  };
  return table;
}

}  // namespace heddle::import
