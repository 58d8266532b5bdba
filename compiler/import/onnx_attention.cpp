// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention and rotary embeddings. Attention is written as the products, masks and softmax that the passes make one kernel of.
#include "compiler/import/onnx_attention.h"

#include <cmath>
#include <limits>

#include "compiler/import/onnx_checks.h"

using namespace mlir;

namespace heddle::import {
namespace {

// [batch, sequence, heads * size] -> [batch, heads, sequence, size]; a tensor of rank 4 has this form already.
Value with_heads(Node& node, Value value, const char* attribute) {
  const Extents from = Node::extents_of(value);
  if (from.size() == 4) return value;
  const int64_t heads = node.integer(attribute);
  if (heads < 1 || heads > largest_extent) node.fail(std::string(attribute) + " is " + std::to_string(heads));
  AffineExpr count = node.builder.getAffineConstantExpr(heads), size = exact_quotient(from[2], count, node.builder.getContext());
  if (!size) node.refuse_inputs("a hidden size is not a multiple of " + std::string(attribute) + ", which is " + std::to_string(heads));
  return node.transpose(node.reshape(value, {from[0], from[1], count, size}), {0, 2, 1, 3});
}

// Two tensors of rank 4, one behind the other along dimension 2.
Value appended(Node& node, Value past, Value value) {
  Extents before = Node::extents_of(past), own = Node::extents_of(value);
  if (before.size() != 4 || Node::type_of(past).getElementType() != Node::type_of(value).getElementType())
    node.refuse_inputs("a past state does not fit its input");
  for (size_t i : {0, 1, 3}) {
    if (!node.are_equal(before[i], own[i]))
      node.refuse_inputs("extents of a past state and its input differ on dimension " + std::to_string(i));
    own[i] = before[i];
  }
  Extents all = before;
  all[2] = node.computed(sum(before[2], own[2]));
  SmallVector<Value> parts{past, node.with_extents(value, own)};
  RankedTensorType type = node.tensor_type(all, Node::type_of(value).getElementType());
  return node.make<tx::ConcatOp>(type, parts, node.builder.getI64IntegerAttr(2));
}

Value numbers_along(Node& node, const Extents& extents, int64_t dimension) {
  return node.make<tx::IotaOp>(node.tensor_type(extents, node.builder.getI64Type()), node.builder.getI64IntegerAttr(dimension));
}

Value compared_numbers(Node& node, tx::CompareKind kind, Value a, Value b) {
  return node.make<tx::CompareOp>(tx::with_element_type(Node::type_of(a), node.builder.getI1Type()), kind, a, b);
}

// The mask as numbers to add to the scores, up to the given number of keys; those behind its end are left out.
Value mask_as_numbers(Node& node, AffineExpr keys, Type element) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Value mask = node.input(3);
  RankedTensorType type = Node::type_of(mask);
  if (type.getRank() < 1 || type.getRank() > 4) node.refuse_inputs("the mask needs rank 1 to 4");
  if (type.getElementType().isInteger(1)) {
    RankedTensorType numbers = tx::with_element_type(type, element);
    mask = node.make<tx::SelectOp>(numbers, mask, node.splat(numbers, 0), node.splat(numbers, -infinity));
  } else {
    mask = node.converted(mask, element);
  }
  Extents extents = Node::extents_of(mask);
  auto has = tx::static_extent(extents.back()), wanted = tx::static_extent(keys);
  if (has == 1 || !has || !wanted || *has >= *wanted) return mask;
  SmallVector<int64_t> low(extents.size(), 0), high(extents.size(), 0);
  high.back() = *wanted - *has;
  extents.back() = keys;
  return node.make<tx::PadOp>(node.tensor_type(extents, element), mask, low, high, llvm::APFloat(-infinity));
}

// Whether a sample has the key: nonpad_kv_seqlen, input 6, says how many it has.
Value is_present(Node& node, const Extents& scores) {
  Value lengths = node.input(6);
  Extents own = Node::extents_of(lengths);
  if (own.size() != 1 || !node.are_equal(own[0], scores[0]))
    node.refuse_inputs("nonpad_kv_seqlen does not have one element for each sample");
  lengths = node.converted(node.with_extents(lengths, scores[0]), node.builder.getI64Type());
  const Extents matrix{scores[0], scores[3]};
  RankedTensorType type = node.tensor_type(matrix, node.builder.getI64Type());
  lengths = node.make<tx::BroadcastOp>(type, lengths, ArrayRef<int64_t>{0});
  Value present = compared_numbers(node, tx::CompareKind::lt, numbers_along(node, matrix, 1), lengths);
  RankedTensorType to = node.tensor_type(scores, node.builder.getI1Type());
  return node.make<tx::BroadcastOp>(to, present, ArrayRef<int64_t>{0, 3});
}

// Whether the key is not after the query, where the queries begin after `past` keys.
Value is_reached(Node& node, const Extents& scores, AffineExpr past) {
  const Extents matrix{scores[2], scores[3]};
  Value rows = numbers_along(node, matrix, 0), columns = numbers_along(node, matrix, 1);
  if (past != node.builder.getAffineConstantExpr(0))
    rows = node.make<tx::AddOp>(Node::type_of(rows), rows, node.broadcast(node.extent_value(past), matrix));
  return node.broadcast(compared_numbers(node, tx::CompareKind::le, columns, rows), scores);
}

Type precision_of(Node& node, Type otherwise) {
  const int64_t wanted = node.integer("softmax_precision", 0);
  if (wanted == 0) return otherwise;
  constexpr int64_t floats[] = {onnx::TensorProto::FLOAT, onnx::TensorProto::FLOAT16, onnx::TensorProto::DOUBLE,
                                onnx::TensorProto::BFLOAT16};
  if (!llvm::is_contained(floats, wanted)) node.fail("softmax_precision is " + std::to_string(wanted));
  return element_type(node.builder.getContext(), static_cast<int32_t>(wanted), node.describe());
}

// Keys or values with as many heads as the query: each of theirs serves several of its heads, one after the other.
Value for_all_heads(Node& node, Value value, const Extents& of_query, AffineExpr keys, AffineExpr size) {
  AffineExpr heads = Node::extents_of(value)[1], repeats = exact_quotient(of_query[1], heads, node.builder.getContext());
  if (!repeats) node.refuse_inputs("the query's heads are not a multiple of the key's");
  value = node.with_extents(value, {of_query[0], heads, keys, size});
  if (repeats == node.builder.getAffineConstantExpr(1)) return value;
  RankedTensorType type = node.tensor_type({of_query[0], heads, repeats, keys, size}, Node::type_of(value).getElementType());
  value = node.builder.createOrFold<tx::BroadcastOp>(node.location(), type, value, ArrayRef<int64_t>{0, 1, 3, 4});
  return node.reshape(value, {of_query[0], of_query[1], keys, size});
}

// The query times the attribute, or else by the root of the size of its heads.
Value scaled_query(Node& node, Value query) {
  double scale = node.number("scale", 0);
  if (!node.has_attribute("scale")) {
    auto size = tx::static_extent(Node::extents_of(query)[3]);
    if (!size) node.fail("the size of its heads is symbolic, and attribute 'scale' is absent", HEDDLE_STATUS_UNIMPLEMENTED);
    scale = *size > 0 ? 1 / std::sqrt(static_cast<double>(*size)) : 1;
  }
  return node.make<tx::MulOp>(Node::type_of(query), query, node.splat(Node::type_of(query), scale));
}

// The softmax of scores over the keys.
Value softmax_of_keys(Node& node, Value scores) {
  return node.make<tx::SoftmaxOp>(Node::type_of(scores), scores, node.builder.getI64IntegerAttr(3), UnitAttr());
}

void attention(Node& node) {
  Value q = node.input(0), k = node.input(1), v = node.input(2);
  const int64_t rank = Node::type_of(q).getRank();
  if ((rank != 3 && rank != 4) || Node::type_of(k).getRank() != rank || Node::type_of(v).getRank() != rank)
    node.refuse_inputs("Q, K and V need rank 3 or rank 4");
  Type element = Node::type_of(q).getElementType();
  if (!llvm::isa<FloatType>(element) || Node::type_of(k).getElementType() != element)
    node.refuse_inputs("Q and K need elements of one float type");
  q = with_heads(node, q, "q_num_heads");
  k = with_heads(node, k, "kv_num_heads");
  v = with_heads(node, v, "kv_num_heads");
  AffineExpr past = node.builder.getAffineConstantExpr(0);
  if (node.has_input(4) != node.has_input(5)) node.fail("it has only one of past_key and past_value");
  if (node.has_input(4)) {
    if (node.has_input(6)) node.fail("it has a past state and nonpad_kv_seqlen, of which there must be only one");
    if (Node::type_of(node.input(4)).getRank() != 4) node.refuse_inputs("past_key needs rank 4");
    past = Node::extents_of(node.input(4))[2];
    k = appended(node, node.input(4), k);
    v = appended(node, node.input(5), v);
  }
  if (node.wants_output(1)) node.set_result(k, 1);
  if (node.wants_output(2)) node.set_result(v, 2);

  const Extents of_q = Node::extents_of(q);
  Extents of_k = Node::extents_of(k), of_v = Node::extents_of(v);
  const bool fits = node.are_equal(of_q[0], of_k[0]) && node.are_equal(of_q[3], of_k[3]) && node.are_equal(of_k[0], of_v[0]) &&
                    node.are_equal(of_k[1], of_v[1]) && node.are_equal(of_k[2], of_v[2]);
  if (!fits) node.refuse_inputs("the extents of Q, K and V do not fit");
  k = for_all_heads(node, k, of_q, of_k[2], of_q[3]);
  v = for_all_heads(node, v, of_q, of_k[2], of_v[3]);
  q = scaled_query(node, q);
  const Extents extents{of_q[0], of_q[1], of_q[2], of_k[2]};
  RankedTensorType type = node.tensor_type(extents, element);
  Value scores = node.make<tx::MatmulOp>(type, q, node.transpose(k, {0, 1, 3, 2}));

  const int64_t shown = node.integer("qk_matmul_output_mode", 0);
  if (shown < 0 || shown > 3) node.fail("qk_matmul_output_mode is " + std::to_string(shown));
  auto show = [&](int64_t mode, Value value) {
    if (mode == shown && node.wants_output(3)) node.set_result(node.converted(value, element), 3);
  };
  show(0, scores);
  if (const double cap = node.number("softcap", 0); cap > 0) {
    Value inner = node.make<tx::TanhOp>(type, node.make<tx::DivOp>(type, scores, node.splat(type, cap)));
    scores = node.make<tx::MulOp>(type, inner, node.splat(type, cap));
  }
  show(1, scores);
  if (node.has_input(3)) {
    Value mask = mask_as_numbers(node, of_k[2], element);
    scores = node.make<tx::AddOp>(type, scores, node.broadcast(mask, extents));
  }
  auto keep = [&](Value kept) {
    scores = node.make<tx::SelectOp>(type, kept, scores, node.splat(type, -std::numeric_limits<double>::infinity()));
  };
  if (node.integer("is_causal", 0) != 0) keep(is_reached(node, extents, past));
  if (node.has_input(6)) keep(is_present(node, extents));
  show(2, scores);
  Value weights = node.converted(scores, precision_of(node, element));
  weights = softmax_of_keys(node, weights);
  weights = node.converted(weights, Node::type_of(v).getElementType());
  show(3, weights);
  RankedTensorType to = node.tensor_type({of_q[0], of_q[1], of_q[2], of_v[3]}, Node::type_of(v).getElementType());
  Value result = node.converted(node.make<tx::MatmulOp>(to, weights, v), element);
  if (rank == 3) {
    AffineExpr hidden = node.computed(product(of_q[1], of_v[3]));
    result = node.reshape(node.transpose(result, {0, 2, 1, 3}), {of_q[0], of_q[2], hidden});
  }
  node.set_result(result);
}

// A part of the last dimension: from `start` on, `count` elements, each `stride` after the one before.
Value part_of_last(Node& node, Value value, int64_t start, int64_t count, int64_t stride) {
  Extents extents = Node::extents_of(value);
  SmallVector<int64_t> starts(extents.size(), 0), strides(extents.size(), 1);
  starts.back() = start;
  strides.back() = stride;
  extents.back() = node.builder.getAffineConstantExpr(count);
  RankedTensorType type = node.tensor_type(extents, Node::type_of(value).getElementType());
  return node.builder.createOrFold<tx::SliceOp>(node.location(), type, value, starts, strides);
}

Value joined_at_last(Node& node, ArrayRef<Value> parts) {
  Extents extents = Node::extents_of(parts[0]);
  for (Value part : parts.drop_front()) extents.back() = node.computed(sum(extents.back(), Node::extents_of(part).back()));
  RankedTensorType type = node.tensor_type(extents, Node::type_of(parts[0]).getElementType());
  return node.make<tx::ConcatOp>(type, parts, node.builder.getI64IntegerAttr(static_cast<int64_t>(extents.size()) - 1));
}

// Pairs of elements of each head are rotated by the angle of their position: the two halves of the rotated part, or neighbors if interleaved.
void rotary_embedding(Node& node) {
  Value x = node.input(0), cosines = node.input(1), sines = node.input(2);
  const Extents given = Node::extents_of(x);
  if (given.size() != 3 && given.size() != 4) node.refuse_inputs("the input needs rank 3 or 4");
  // [batch, sequence, heads, size]
  if (given.size() == 4) {
    x = node.transpose(x, {0, 2, 1, 3});
  } else {
    const int64_t heads = node.integer("num_heads");
    AffineExpr count = node.builder.getAffineConstantExpr(heads);
    AffineExpr size = heads < 1 || heads > largest_extent ? AffineExpr() : exact_quotient(given[2], count, node.builder.getContext());
    if (!size) node.refuse_inputs("the hidden size is not a multiple of num_heads, which is " + std::to_string(heads));
    x = node.reshape(x, {given[0], given[1], count, size});
  }
  const Extents extents = Node::extents_of(x);
  auto size = tx::static_extent(extents[3]);
  if (!size) node.fail("the size of its heads is symbolic", HEDDLE_STATUS_UNIMPLEMENTED);
  int64_t rotated = node.integer("rotary_embedding_dim", 0);
  if (rotated == 0) rotated = *size;
  if (rotated < 2 || rotated > *size || rotated % 2 != 0)
    node.fail("rotary_embedding_dim is " + std::to_string(rotated) + ", for heads of size " + std::to_string(*size));
  const int64_t half = rotated / 2;
  AffineExpr one = node.builder.getAffineConstantExpr(1);
  const Extents angles{extents[0], extents[1], node.builder.getAffineConstantExpr(half)};
  Extents spread{extents[0], extents[1], extents[2], angles[2]};
  // [batch, sequence, half], or rows of [positions, half] by position
  auto of_positions = [&](Value table) {
    Extents own = Node::extents_of(table);
    if (node.has_input(3)) {
      Value positions = node.input(3);
      Extents places = Node::extents_of(positions);
      if (own.size() != 2 || places.size() != 2) node.refuse_inputs("with position_ids, these and both caches need rank 2");
      expect_inside(node, table, 0, positions);
      RankedTensorType type = node.tensor_type({places[0], places[1], own[1]}, Node::type_of(table).getElementType());
      table = node.make<tx::GatherOp>(type, table, positions, node.builder.getI64IntegerAttr(0));
      own = Node::extents_of(table);
    }
    bool fits = own.size() == 3;
    for (size_t i = 0; fits && i < 3; ++i) fits = node.are_equal(own[i], angles[i]);
    if (!fits) node.refuse_inputs("the caches do not have " + std::to_string(half) + " elements for each position");
    table = node.reshape(node.with_extents(table, angles), {angles[0], angles[1], one, angles[2]});
    return node.broadcast(table, spread);
  };
  cosines = of_positions(cosines);
  sines = of_positions(sines);
  const bool interleaved = node.integer("interleaved", 0) != 0;
  Value first = interleaved ? part_of_last(node, x, 0, half, 2) : part_of_last(node, x, 0, half, 1);
  Value second = interleaved ? part_of_last(node, x, 1, half, 2) : part_of_last(node, x, half, half, 1);
  RankedTensorType type = node.tensor_type(spread, Node::type_of(x).getElementType());
  auto times = [&](Value a, Value b) { return node.make<tx::MulOp>(type, a, b); };
  Value real = node.make<tx::SubOp>(type, times(first, cosines), times(second, sines));
  Value imaginary = node.make<tx::AddOp>(type, times(first, sines), times(second, cosines));
  SmallVector<Value> parts;
  if (interleaved) {
    Extents pairs = spread;
    pairs.push_back(one);
    Value both = joined_at_last(node, {node.reshape(real, pairs), node.reshape(imaginary, pairs)});
    spread.back() = node.builder.getAffineConstantExpr(rotated);
    parts.push_back(node.reshape(both, spread));
  } else {
    parts = {real, imaginary};
  }
  if (rotated < *size) parts.push_back(part_of_last(node, x, rotated, *size - rotated, 1));
  Value result = parts.size() == 1 ? parts[0] : joined_at_last(node, parts);
  node.set_result(given.size() == 4 ? node.transpose(result, {0, 2, 1, 3}) : node.reshape(result, given));
}

}  // namespace

void flex_attention(Node& node, const onnx::NodeProto& proto, Parts& parts) {
  Value q = node.input(0), k = node.input(1), v = node.input(2);
  Type element = Node::type_of(q).getElementType();
  for (Value value : {q, k, v}) {
    if (Node::type_of(value).getRank() != 4 || Node::type_of(value).getElementType() != element || !llvm::isa<FloatType>(element))
      node.refuse_inputs("Q, K and V need rank 4 and elements of one float type");
  }
  const Extents of_q = Node::extents_of(q), of_k = Node::extents_of(k), of_v = Node::extents_of(v);
  const bool fits = node.are_equal(of_q[0], of_k[0]) && node.are_equal(of_q[3], of_k[3]) && node.are_equal(of_k[0], of_v[0]) &&
                    node.are_equal(of_k[1], of_v[1]) && node.are_equal(of_k[2], of_v[2]);
  if (!fits) node.refuse_inputs("the extents of Q, K and V do not fit");
  k = for_all_heads(node, k, of_q, of_k[2], of_q[3]);
  v = for_all_heads(node, v, of_q, of_k[2], of_v[3]);
  Type precise = precision_of(node, element.isF64() ? element : Type(node.builder.getF32Type()));
  RankedTensorType type = node.tensor_type({of_q[0], of_q[1], of_q[2], of_k[2]}, element);
  Value scores = node.make<tx::MatmulOp>(type, scaled_query(node, q), node.transpose(k, {0, 1, 3, 2}));
  scores = node.converted(scores, precise);
  auto modified = [&](const char* name, Value value) {
    for (const auto& attribute : proto.attribute()) {
      if (attribute.name() != name) continue;
      Value result = applied(node, node.subgraph(name), parts, value);
      if (result.getType() != value.getType()) node.fail("its graph '" + std::string(name) + "' changes the shape or the element type");
      return result;
    }
    return value;
  };
  Value weights = modified("prob_mod", softmax_of_keys(node, modified("score_mod", scores)));
  RankedTensorType to = node.tensor_type({of_q[0], of_q[1], of_q[2], of_v[3]}, precise);
  node.set_result(node.converted(node.make<tx::MatmulOp>(to, weights, node.converted(v, precise)), element));
}

const Table& attention_operators() {
  static const Table table = {
      {"Attention", attention},
      {"RotaryEmbedding", rotary_embedding},
  };
  return table;
}

}  // namespace heddle::import
