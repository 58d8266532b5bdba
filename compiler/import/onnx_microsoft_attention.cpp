// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All become the default domain's Attention, which the passes make one kernel of.
#include "compiler/import/onnx_microsoft_attention.h"

#include <limits>

namespace heddle::import {
namespace {

int64_t rank_of(Node& node, int input) {
  return Node::type_of(node.input(input)).getRank();
}

// The last extent of an input, which has to be known.
int64_t last_extent(Node& node, int input) {
  if (rank_of(node, input) == 0) node.refuse_inputs("input " + std::to_string(input) + " is a scalar");
  auto known = tx::static_extent(Node::extents_of(node.input(input)).back());
  if (!known) node.fail("the last extent of input " + std::to_string(input) + " is symbolic", HEDDLE_STATUS_UNIMPLEMENTED);
  return *known;
}

int64_t heads_of(Node& node, const char* attribute) {
  const int64_t heads = node.integer(attribute);
  if (heads < 1 || heads > largest_extent) node.fail(std::string(attribute) + " is " + std::to_string(heads));
  return heads;
}

// [batch, sequence, heads * size] -> [batch, heads, sequence, size]
std::string with_heads(NodeWriter& w, const std::string& x, int64_t heads) {
  return w.transpose(w.op("Reshape", {x, w.integers({0, 0, heads, -1})}), {0, 2, 1, 3});
}

std::string extent(NodeWriter& w, const std::string& x, int64_t dimension) {
  return w.op("Gather", {w.op("Shape", {x}), w.integer(dimension)});
}

std::string counted(NodeWriter& w, const std::string& count) {
  return w.op("Range", {w.integer(0), count, w.integer(1)});
}

// One attention; values have a dimension for heads.
struct Query {
  std::string q, k, v, mask, past_key, past_value;
  std::string present_key, present_value;  // names for the results, or empty
  bool is_causal = false;
  double scale = 0, softcap = 0;  // 0: by default, none
};

// Its result as [batch, sequence, hidden].
void attend(NodeWriter& w, const Query& query, const std::string& result) {
  Names inputs{query.q, query.k, query.v, query.mask, query.past_key, query.past_value};
  while (inputs.back().empty()) inputs.pop_back();
  Names outputs{w.fresh()};
  if (!query.present_key.empty() || !query.present_value.empty()) {
    outputs.push_back(query.present_key);
    outputs.push_back(query.present_value);
  }
  onnx::NodeProto& made = w.node("Attention", inputs, outputs);
  NodeWriter::set(made, "is_causal", int64_t{query.is_causal});
  if (query.scale != 0) NodeWriter::set(made, "scale", static_cast<float>(query.scale));
  if (query.softcap != 0) NodeWriter::set(made, "softcap", static_cast<float>(query.softcap));
  w.node("Reshape", {w.transpose(outputs[0], {0, 2, 1, 3}), w.integers({0, 0, -1})}, {result});
}

// A mask of keys as numbers to add to scores: [batch, 1, 1 or queries, keys]. Keys that do not count get mask_filter_value.
std::string mask_of_keys(Node& node, NodeWriter& w, int input, const Query& query) {
  const int64_t rank = rank_of(node, input);
  std::string mask = node.input_name(input);
  if (rank == 1) {  // how many keys of each sample count
    if (rank_of(node, 0) == 0) node.refuse_inputs("input 0 is a scalar");
    if (!node.are_equal(Node::extents_of(node.input(input))[0], Node::extents_of(node.input(0))[0]))
      node.fail("a mask that is a vector of another length than the batch is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
    std::string keys = extent(w, query.k, 2);
    if (!query.past_key.empty()) keys = w.op("Add", {keys, extent(w, query.past_key, 2)});
    mask = w.op("Less", {counted(w, keys), w.unsqueeze(w.op("CastLike", {mask, w.integer(0)}), 1)});
  } else if (rank == 2 || rank == 3) {
    mask = w.op("Cast", {mask}, "to", int64_t{onnx::TensorProto::BOOL});
  } else {
    node.fail("a mask of rank " + std::to_string(rank) + " is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  }
  mask = w.op("Unsqueeze", {mask, rank == 3 ? w.integers({1}) : w.integers({1, 2})});
  return w.op("Where", {mask, w.number(0, query.q), w.number(static_cast<float>(node.number("mask_filter_value", -10000)), query.q)});
}

void set_mask(Node& node, NodeWriter& w, int mask, int bias, Query& query) {
  if (node.has_input(mask)) query.mask = mask_of_keys(node, w, mask, query);
  if (!node.has_input(bias)) return;
  query.mask = query.mask.empty() ? node.input_name(bias) : w.op("Add", {query.mask, node.input_name(bias)});
}

void refuse(Node& node, int input, const char* name) {
  if (node.has_input(input)) node.fail(std::string("input ") + name + " is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
}

// Element `index` along an axis of extent `count`.
std::string part(NodeWriter& w, const std::string& x, int64_t axis, int64_t index) {
  return w.op("Gather", {x, w.integer(index)}, "axis", axis);
}

// The rest of both kinds of attention with one product.
void attend_packed(Node& node, NodeWriter& w, const std::string& product, int64_t width, int mask, int past, int bias) {
  const int64_t heads = heads_of(node, "num_heads");
  std::vector<int64_t> sizes(3, width / 3);
  if (node.has_attribute("qkv_hidden_sizes")) sizes = node.integer_list("qkv_hidden_sizes");
  if (sizes.size() != 3 || sizes[0] < 0 || sizes[1] < 0 || sizes[2] < 0 || sizes[0] > width || sizes[1] > width ||
      sizes[0] + sizes[1] + sizes[2] != width)
    node.fail("the sizes of query, key and value do not add up to " + std::to_string(width));
  if (node.integer("do_rotary", 0) != 0) node.fail("do_rotary is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  Names parts{w.fresh(), w.fresh(), w.fresh()};
  NodeWriter::set(w.node("Split", {product, w.integers(sizes)}, parts), "axis", int64_t{2});
  Query query;
  query.q = with_heads(w, parts[0], heads);
  query.k = with_heads(w, parts[1], heads);
  query.v = with_heads(w, parts[2], heads);
  query.is_causal = node.integer("unidirectional", 0) != 0;
  query.scale = node.number("scale", 0);
  if (node.has_input(past)) {
    query.past_key = part(w, node.input_name(past), 0, 0);
    query.past_value = part(w, node.input_name(past), 0, 1);
  }
  set_mask(node, w, mask, bias, query);
  if (node.wants_output(1)) {
    query.present_key = w.fresh();
    query.present_value = w.fresh();
  }
  attend(w, query, node.output(0));
  if (!node.wants_output(1)) return;
  NodeWriter::set(w.node("Concat", {w.unsqueeze(query.present_key, 0), w.unsqueeze(query.present_value, 0)}, {node.output(1)}), "axis",
                  int64_t{0});
}

}  // namespace

void multi_head_attention(Node& node, NodeWriter& w) {
  const int64_t heads = heads_of(node, "num_heads");
  refuse(node, 8, "past_sequence_length");
  refuse(node, 9, "cache_indirection");
  if (node.wants_output(3)) node.unsupported("output 3 ('" + node.output(3) + "') is not supported");
  Query query;
  auto head = [&](const std::string& x) { return w.transpose(x, {0, 2, 1, 3}); };  // of [batch, sequence, heads, size]
  const std::string q = node.input_name(0);
  if (rank_of(node, 0) == 5) {  // [batch, sequence, heads, 3, size]
    query.q = head(part(w, q, 3, 0));
    query.k = head(part(w, q, 3, 1));
    query.v = head(part(w, q, 3, 2));
    refuse(node, 3, "bias of packed inputs");
  } else if (!node.has_input(1)) {
    node.fail("it has no key");
  } else if (rank_of(node, 1) == 5) {  // [batch, keys, heads, 2, size]
    query.q = with_heads(w, q, heads);
    query.k = head(part(w, node.input_name(1), 3, 0));
    query.v = head(part(w, node.input_name(1), 3, 1));
    refuse(node, 3, "bias of packed inputs");
  } else {
    const bool has_heads = rank_of(node, 1) == 4;  // [batch, heads, keys, size]
    Names three{q, node.input_name(1), node.input_name(2)};
    if (node.has_input(3)) {
      const int64_t all = last_extent(node, 3), first = last_extent(node, 0);
      const int64_t second = has_heads ? first : last_extent(node, 1);
      if (first > all || second > all - first) node.refuse_inputs("the bias does not fit");
      Names biases{w.fresh(), w.fresh(), w.fresh()};
      w.node("Split", {node.input_name(3), w.integers({first, second, all - first - second})}, biases);
      for (size_t i = 0; i < (has_heads ? 1u : 3u); ++i) three[i] = w.op("Add", {three[i], biases[i]});
    }
    query.q = with_heads(w, three[0], heads);
    query.k = has_heads ? three[1] : with_heads(w, three[1], heads);
    query.v = has_heads ? three[2] : with_heads(w, three[2], heads);
  }
  if (node.has_input(6)) query.past_key = node.input_name(6);
  if (node.has_input(7)) query.past_value = node.input_name(7);
  query.is_causal = node.integer("unidirectional", 0) != 0;
  query.scale = node.number("scale", 0);
  set_mask(node, w, 4, 5, query);
  if (node.wants_output(1)) query.present_key = node.output(1);
  if (node.wants_output(2)) query.present_value = node.output(2);
  attend(w, query, node.output(0));
}

void packed_attention(Node& node, NodeWriter& w) {
  refuse(node, 6, "past_sequence_length");
  std::string product = w.op("MatMul", {node.input_name(0), node.input_name(1)});
  if (node.has_input(2)) product = w.op("Add", {product, node.input_name(2)});
  attend_packed(node, w, product, last_extent(node, 1), 3, 4, 5);
}

void quantized_attention(Node& node, NodeWriter& w) {
  auto dequantized = [&](int input, int scale, int zero, int64_t axis) {
    Names inputs{node.input_name(input), node.input_name(scale)};
    if (node.has_input(zero)) inputs.push_back(node.input_name(zero));
    return w.op("DequantizeLinear", inputs, "axis", axis);
  };
  const std::string product = w.op("MatMul", {dequantized(0, 3, 6, 2), dequantized(1, 4, 7, 1)});
  constexpr int no_input = 100;
  attend_packed(node, w, w.op("Add", {product, node.input_name(2)}), last_extent(node, 1), 5, 8, no_input);
}

void grouped_attention(Node& node, NodeWriter& w) {
  const int64_t heads = heads_of(node, "num_heads"), groups = heads_of(node, "kv_num_heads");
  refuse(node, 11, "head_sink");
  refuse(node, 12, "k_scale");
  refuse(node, 13, "v_scale");
  if (node.integer("causal", 1) == 0) node.fail("causal 0 is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  if (node.integer("sliding_window_cache", 0) != 0) node.fail("sliding_window_cache is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  for (const char* name : {"k_quant_type", "v_quant_type"}) {
    if (node.text(name, "NONE") != "NONE") node.fail(std::string(name) + " other than NONE is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  }
  if (node.integer("smooth_softmax", 0) > 0) node.fail("smooth_softmax is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  if (node.has_input(3) != node.has_input(4)) node.fail("it has only one of past_key and past_value");
  Names three{node.input_name(0), "", ""};
  if (node.has_input(1)) {
    three = {three[0], node.input_name(1), node.input_name(2)};
  } else {
    const int64_t size = last_extent(node, 0) / (heads + 2 * groups);
    Names parts{w.fresh(), w.fresh(), w.fresh()};
    NodeWriter::set(w.node("Split", {three[0], w.integers({heads * size, groups * size, groups * size})}, parts), "axis", int64_t{2});
    three = parts;
  }
  for (int i : {0, 1}) {  // each head is normalized
    if (!node.has_input(14 + i)) continue;
    std::string& x = three[static_cast<size_t>(i)];
    const std::string apart = w.op("Reshape", {x, w.integers({0, 0, i == 0 ? heads : groups, -1})}), normalized = w.fresh();
    onnx::NodeProto& made = w.node("RMSNormalization", {apart, node.input_name(14 + i)}, {normalized});
    NodeWriter::set(made, "axis", int64_t{-1});
    NodeWriter::set(made, "epsilon", static_cast<float>(node.number("qk_norm_epsilon", 1e-6f)));
    x = w.op("Reshape", {normalized, w.integers({0, 0, -1})});
  }
  auto as_i64 = [&](const std::string& x) { return w.op("CastLike", {x, w.integer(0)}); };
  const std::string length = extent(w, three[0], 1);
  // How many keys each sample had before: [batch, 1].
  std::string before = w.op("Reshape", {as_i64(node.input_name(5)), w.integers({-1, 1})});
  before = w.op("Max", {w.op("Sub", {w.op("Add", {before, w.integer(1)}), length}), w.integer(0)});
  const std::string places = w.op("Add", {before, counted(w, length)});  // of the queries: [batch, sequence]
  if (node.integer("do_rotary", 0) != 0) {
    const std::string positions = node.has_input(9) ? node.input_name(9) : places;
    for (size_t i : {0, 1}) {
      const std::string rotated = w.fresh();
      onnx::NodeProto& made = w.node("RotaryEmbedding", {three[i], node.input_name(7), node.input_name(8), positions}, {rotated});
      NodeWriter::set(made, "interleaved", node.integer("rotary_interleaved", 0));
      NodeWriter::set(made, "num_heads", i == 0 ? heads : groups);
      NodeWriter::set(made, "rotary_embedding_dim", 2 * last_extent(node, 7));
      three[i] = rotated;
    }
  }
  Query query;
  query.q = with_heads(w, three[0], heads);
  std::string key = with_heads(w, three[1], groups), value = with_heads(w, three[2], groups);
  std::string reach = w.unsqueeze(w.unsqueeze(places, 2), 1);  // the last key of each query: [batch, 1, sequence, 1]
  std::string keys;
  if (node.has_input(3)) {
    // Key j is the past's, or one of this call's from `before` on; behind them the memory stays as it was.
    const std::string past = extent(w, node.input_name(3), 2);
    const std::string total = w.op("Reshape", {as_i64(node.input_name(6)), w.integers({})});
    keys = counted(w, w.op("Max", {past, total}));
    const std::string own = w.op("Add", {w.op("Sub", {keys, before}), past});
    const std::string is_own = w.op("And", {w.op("GreaterOrEqual", {keys, before}), w.op("Less", {keys, w.op("Add", {before, length})})});
    const std::string last = w.op("Sub", {w.op("Add", {past, length}), w.integer(1)});
    const std::string from = w.op("Where", {is_own, own, w.op("Min", {keys, last})});
    const std::string places_of_keys = w.op("Unsqueeze", {from, w.integers({1, 3})});
    auto present = [&](const std::string& old, const std::string& added) {
      const std::string all = w.concat({old, added}, 2);
      const std::string shape =
          w.concat({w.op("Shape", {added}, "end", int64_t{2}), w.op("Shape", {keys}), w.op("Shape", {added}, "start", int64_t{3})}, 0);
      return w.op("GatherElements", {all, w.op("Expand", {places_of_keys, shape})}, "axis", int64_t{2});
    };
    key = present(node.input_name(3), key);
    value = present(node.input_name(4), value);
  } else {
    keys = counted(w, length);
  }
  if (node.wants_output(1)) w.node("Identity", {key}, {node.output(1)});
  if (node.wants_output(2)) w.node("Identity", {value}, {node.output(2)});
  query.k = key;
  query.v = value;
  std::string is_seen = w.op("LessOrEqual", {keys, reach});
  if (const int64_t window = node.integer("local_window_size", -1); window > 0)
    is_seen = w.op("And", {is_seen, w.op("Greater", {keys, w.op("Sub", {reach, w.integer(window)})})});
  const std::string never = w.number(-std::numeric_limits<float>::infinity(), query.q);
  query.mask = w.op("Where", {is_seen, node.has_input(10) ? node.input_name(10) : w.number(0, query.q), never});
  query.scale = node.number("scale", 0);
  query.softcap = node.number("softcap", 0);
  attend(w, query, node.output(0));
}

void rotary(Node& node, NodeWriter& w) {
  if (node.number("scale", 1) != 1) node.fail("scale is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  if (node.integer("is_packed_batching", 0) != 0) node.fail("is_packed_batching is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  const std::string x = node.input_name(0);
  const int64_t rank = rank_of(node, 0), half = last_extent(node, 2);
  int64_t heads = node.integer("num_heads", 0);
  std::string positions = node.input_name(1);
  if (rank_of(node, 1) == 1) {  // where the sequence begins
    const std::string steps = extent(w, x, rank == 4 ? 2 : 1);
    const std::string shape = w.concat({w.op("Shape", {x}, "end", int64_t{1}), w.op("Reshape", {steps, w.integers({1})})}, 0);
    positions = w.op("Expand", {w.op("Add", {counted(w, steps), w.op("CastLike", {positions, w.integer(0)})}), shape});
  }
  if (rank == 3 && heads == 0 && half > 0) heads = last_extent(node, 0) / (2 * half);
  onnx::NodeProto& made = w.node("RotaryEmbedding", {x, node.input_name(2), node.input_name(3), positions}, {node.output(0)});
  NodeWriter::set(made, "interleaved", node.integer("interleaved", 0));
  if (rank == 3) NodeWriter::set(made, "num_heads", heads);
  NodeWriter::set(made, "rotary_embedding_dim", node.integer("rotary_embedding_dim", 0));
}

}  // namespace heddle::import
