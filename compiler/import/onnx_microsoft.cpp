// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names and meaning of attributes and inputs: ONNX Runtime's docs/ContribOperators.md.
#include "compiler/import/onnx_microsoft.h"

#include "compiler/import/onnx_microsoft_attention.h"
#include "compiler/ir/bits.h"
#include "compiler/ir/narrow.h"

namespace heddle::import {
namespace {

constexpr double default_epsilon = 1e-12f;

void gelu(Node& node, NodeWriter& w) {
  w.node("Gelu", {node.input_name(0)}, {node.output(0)});
}

void biased_gelu(Node& node, NodeWriter& w) {
  const bool is_fast = node.type() == "FastGelu";
  const std::string x = node.has_input(1) ? w.op("Add", {node.input_name(0), node.input_name(1)}) : node.input_name(0);
  onnx::NodeProto& made = w.node("Gelu", {x}, {node.output(0)});
  if (is_fast) NodeWriter::set(made, "approximate", std::string("tanh"));
}

void quick_gelu(Node& node, NodeWriter& w) {
  const std::string x = node.input_name(0);
  const std::string gate = w.op("Sigmoid", {w.op("Mul", {x, w.number(static_cast<float>(node.number("alpha", 1.702f)), x)})});
  w.node("Mul", {x, gate}, {node.output(0)});
}

void bias_add(Node& node, NodeWriter& w) {
  w.node("Add", {w.op("Add", {node.input_name(0), node.input_name(1)}), node.input_name(2)}, {node.output(0)});
}

void pass_on(NodeWriter& w, const std::string& value, const Node& node, int output) {
  if (node.wants_output(output)) w.node("Identity", {value}, {node.output(output)});
}

// A layer normalization of `x`, with the outputs of the node.
void normalized(Node& node, NodeWriter& w, const std::string& x, int gamma, int beta, bool is_rms) {
  Names inputs{x, node.input_name(gamma)};
  if (!is_rms && node.has_input(beta)) inputs.push_back(node.input_name(beta));
  Names outputs{node.output(0)};
  if (!is_rms && (node.wants_output(1) || node.wants_output(2))) {
    outputs.push_back(node.wants_output(1) ? node.output(1) : "");
    if (node.wants_output(2)) outputs.push_back(node.output(2));
  }
  onnx::NodeProto& made = w.node(is_rms ? "RMSNormalization" : "LayerNormalization", inputs, outputs);
  NodeWriter::set(made, "axis", node.integer("axis", -1));
  NodeWriter::set(made, "epsilon", static_cast<float>(node.number("epsilon", is_rms && node.type()[0] != 'S' ? 1e-5f : default_epsilon)));
}

void skip_normalization(Node& node, NodeWriter& w) {
  const bool is_rms = node.type() == "SkipSimplifiedLayerNormalization";
  std::string sum = w.op("Add", {node.input_name(0), node.input_name(1)});
  const int bias = is_rms ? 3 : 4;
  if (node.has_input(bias)) sum = w.op("Add", {sum, node.input_name(bias)});
  normalized(node, w, sum, 2, 3, is_rms);
  pass_on(w, sum, node, 3);
}

void simplified_normalization(Node& node, NodeWriter& w) {
  normalized(node, w, node.input_name(0), 1, 2, /*is_rms=*/true);
}

// Words, positions and segments: inputs are ids, segments, three tables, gamma, beta, mask, positions.
void embedding(Node& node, NodeWriter& w) {
  const std::string ids = node.input_name(0), shape = w.op("Shape", {ids});
  std::string sum = w.op("Gather", {node.input_name(2), ids});
  const std::string length = w.op("Gather", {shape, w.integers({1})});
  std::string positions = node.has_input(8) ? w.op("Gather", {node.input_name(3), node.input_name(8)})
                                            : w.op("Slice", {node.input_name(3), w.integers({0}), length, w.integers({0})});
  sum = w.op("Add", {sum, positions});
  if (node.has_input(1) && node.has_input(4)) sum = w.op("Add", {sum, w.op("Gather", {node.input_name(4), node.input_name(1)})});
  Names inputs{sum, node.input_name(5)};
  if (node.has_input(6)) inputs.push_back(node.input_name(6));
  NodeWriter::set(w.node("LayerNormalization", inputs, {node.output(0)}), "epsilon",
                  static_cast<float>(node.number("epsilon", default_epsilon)));
  if (node.wants_output(1)) {
    if (node.integer("mask_index_type", node.has_input(7) ? 1 : 0) > 1)
      node.fail("mask_index_type is not 0 or 1", HEDDLE_STATUS_UNIMPLEMENTED);
    std::string of_batch;
    if (node.has_input(7)) {
      of_batch = w.op("ReduceSum", {node.input_name(7), w.integers({1})}, "keepdims", int64_t{0});
    } else {
      of_batch = w.op("Expand", {w.integer(0), w.op("Gather", {shape, w.integers({0})})});
    }
    NodeWriter::set(w.node("Cast", {of_batch}, {node.output(1)}), "to", int64_t{onnx::TensorProto::INT32});
  }
  pass_on(w, sum, node, 2);
}

// The matrix, or the batch of them, of a product that may be transposed.
std::string factor(Node& node, NodeWriter& w, int input, const char* transposed, const char* batch) {
  const int64_t rank = Node::type_of(node.input(input)).getRank();
  std::vector<int64_t> order(static_cast<size_t>(rank));
  for (int64_t i = 0; i < rank; ++i) order[static_cast<size_t>(i)] = i;
  if (rank > 1 && node.integer(batch, 0) != 0) {
    order.erase(order.begin());
    order.insert(order.end() - 1, 0);
  }
  if (rank > 1 && node.integer(transposed, 0) != 0) std::swap(order[order.size() - 1], order[order.size() - 2]);
  return w.transpose(node.input_name(input), order);
}

// The last node: an activation, as FusedConv and FusedGemm have it.
void activated(Node& node, NodeWriter& w, const std::string& x) {
  const std::string type = node.text("activation", "");
  std::vector<double> numbers;
  if (node.has_attribute("activation_params")) numbers = node.number_list("activation_params");
  auto number = [&](size_t i, const char* name, double otherwise) {
    return static_cast<float>(i < numbers.size() ? numbers[i] : node.number(name, otherwise));
  };
  if (type.empty()) return pass_on(w, x, node, 0);
  Names inputs{x};
  if (type == "Clip") inputs = {x, w.number(number(0, "activation_min", 0), x), w.number(number(1, "activation_max", 0), x)};
  onnx::NodeProto& made = w.node(type, inputs, {node.output(0)});
  if (type == "LeakyRelu") NodeWriter::set(made, "alpha", number(0, "activation_alpha", 0.01f));
  if (type == "HardSigmoid") {
    NodeWriter::set(made, "alpha", number(0, "activation_alpha", 0.2f));
    NodeWriter::set(made, "beta", number(1, "activation_beta", 0.5f));
  }
  if (type != "Clip" && type != "LeakyRelu" && type != "HardSigmoid" && type != "Relu" && type != "Tanh" && type != "Sigmoid")
    node.fail("activation '" + type + "' is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
}

void fused_matmul(Node& node, NodeWriter& w) {
  std::string product = w.op("MatMul", {factor(node, w, 0, "transA", "transBatchA"), factor(node, w, 1, "transB", "transBatchB")});
  const double alpha = node.number("alpha", 1);
  if (alpha != 1) product = w.op("Mul", {product, w.number(static_cast<float>(alpha), product)});
  pass_on(w, product, node, 0);
}

void fused_gemm(Node& node, NodeWriter& w) {
  Names inputs{node.input_name(0), node.input_name(1)};
  if (node.has_input(2)) inputs.push_back(node.input_name(2));
  const std::string product = w.fresh();
  onnx::NodeProto& made = w.node("Gemm", inputs, {product});
  for (const char* name : {"alpha", "beta"}) NodeWriter::set(made, name, static_cast<float>(node.number(name, 1)));
  for (const char* name : {"transA", "transB"}) NodeWriter::set(made, name, node.integer(name, 0));
  activated(node, w, product);
}

void fused_conv(Node& node, NodeWriter& w) {
  Names inputs{node.input_name(0), node.input_name(1)};
  if (node.has_input(2)) inputs.push_back(node.input_name(2));
  std::string x = w.fresh();
  onnx::NodeProto& made = w.node("Conv", inputs, {x});
  for (const char* name : {"dilations", "kernel_shape", "pads", "strides"}) {
    if (node.has_attribute(name)) NodeWriter::set(made, name, node.integer_list(name));
  }
  if (node.has_attribute("group")) NodeWriter::set(made, "group", node.integer("group"));
  if (node.has_attribute("auto_pad")) NodeWriter::set(made, "auto_pad", node.text("auto_pad", ""));
  if (node.has_input(3)) x = w.op("Add", {x, node.input_name(3)});
  activated(node, w, x);
}

// Of a quantized input, whose scale and zero point are the inputs after it, or elsewhere.
std::string dequantized(Node& node, NodeWriter& w, int input, int scale, int zero, int64_t axis = 1) {
  Names inputs{node.input_name(input), node.input_name(scale)};
  if (zero >= 0 && node.has_input(zero)) inputs.push_back(node.input_name(zero));
  return w.op("DequantizeLinear", inputs, "axis", axis);
}

void quantized(Node& node, NodeWriter& w, const std::string& x, int scale, int zero) {
  Names inputs{x, node.input_name(scale)};
  if (node.has_input(zero)) inputs.push_back(node.input_name(zero));
  w.node("QuantizeLinear", inputs, {node.output(0)});
}

void quantized_binary(Node& node, NodeWriter& w) {
  const std::string a = dequantized(node, w, 0, 1, 2), b = dequantized(node, w, 3, 4, 5);
  quantized(node, w, w.op(node.type() == "QLinearAdd" ? "Add" : "Mul", {a, b}), 6, 7);
}

// X, its scale and zero point, and those of the result.
void quantized_unary(Node& node, NodeWriter& w) {
  const std::string x = dequantized(node, w, 0, 1, 2);
  std::string result;
  if (node.integer("channels_last", 0) != 0) node.fail("channels_last is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  if (node.type() == "QLinearSigmoid") {
    result = w.op("Sigmoid", {x});
  } else if (node.type() == "QLinearLeakyRelu") {
    result = w.op("LeakyRelu", {x}, "alpha", static_cast<float>(node.number("alpha", 0.01f)));
  } else if (node.type() == "QLinearSoftmax") {
    if (node.integer("opset", 13) < 13) node.fail("attribute 'opset' is below 13", HEDDLE_STATUS_UNIMPLEMENTED);
    result = w.op("Softmax", {x}, "axis", node.integer("axis", -1));
  } else if (node.type() == "QLinearGlobalAveragePool") {
    result = w.op("GlobalAveragePool", {x});
  } else if (node.type() == "QLinearAveragePool") {
    result = w.fresh();
    onnx::NodeProto& made = w.node("AveragePool", {x}, {result});
    for (const char* name : {"kernel_shape", "pads", "strides"}) {
      if (node.has_attribute(name)) NodeWriter::set(made, name, node.integer_list(name));
    }
    for (const char* name : {"ceil_mode", "count_include_pad"}) NodeWriter::set(made, name, node.integer(name, 0));
    if (node.has_attribute("auto_pad")) NodeWriter::set(made, "auto_pad", node.text("auto_pad", ""));
  } else {
    Names inputs{x};
    if (node.has_attribute("axes")) inputs.push_back(w.integers(node.integer_list("axes")));
    result = w.op("ReduceMean", inputs, "keepdims", node.integer("keepdims", 1));
  }
  quantized(node, w, result, 3, 4);
}

void quantized_concat(Node& node, NodeWriter& w) {
  Names parts;
  for (int i = 2; i + 2 < node.input_count(); i += 3) parts.push_back(dequantized(node, w, i, i + 1, i + 2));
  quantized(node, w, w.concat(parts, node.integer("axis")), 0, 1);
}

void quantized_where(Node& node, NodeWriter& w) {
  const std::string x = dequantized(node, w, 1, 2, 3), y = dequantized(node, w, 4, 5, 6);
  quantized(node, w, w.op("Where", {node.input_name(0), x, y}), 7, 8);
}

// A, B and C, which is of i32 with the product of both scales.
void quantized_gemm(Node& node, NodeWriter& w) {
  const bool transposed = node.integer("transB", 0) != 0;
  std::string a = dequantized(node, w, 0, 1, 2), b = dequantized(node, w, 3, 4, 5, transposed ? 0 : 1), c;
  if (node.integer("transA", 0) != 0) a = w.transpose(a, {1, 0});
  if (transposed) b = w.transpose(b, {1, 0});
  std::string product = w.op("MatMul", {a, b});
  const auto alpha = static_cast<float>(node.number("alpha", 1));
  if (alpha != 1) product = w.op("Mul", {product, w.number(alpha, product)});
  if (node.has_input(6)) {
    c = w.op("Mul", {w.op("CastLike", {node.input_name(6), product}), w.op("Mul", {node.input_name(1), node.input_name(4)})});
    product = w.op("Add", {product, alpha == 1 ? c : w.op("Mul", {c, w.number(alpha, c)})});
  }
  if (node.has_input(7)) return quantized(node, w, product, 7, 8);
  pass_on(w, product, node, 0);
}

// The product of dequantized matrices. Scales of B may be one per column.
void product_of_dequantized(Node& node, NodeWriter& w, const std::string& a, int b, int scale, int zero, int bias) {
  const int64_t rank = Node::type_of(node.input(b)).getRank();
  std::string product = w.op("MatMul", {a, dequantized(node, w, b, scale, zero, rank - 1)});
  if (node.has_input(bias)) product = w.op("Add", {product, node.input_name(bias)});
  pass_on(w, product, node, 0);
}

void integer_product(Node& node, NodeWriter& w) {
  product_of_dequantized(node, w, dequantized(node, w, 0, 2, 4, Node::type_of(node.input(0)).getRank() - 2), 1, 3, 5, 6);
}

void dynamic_product(Node& node, NodeWriter& w) {
  const std::string x = node.input_name(0), zero = w.number(0, x);
  const std::string low = w.op("Min", {zero, w.op("ReduceMin", {x}, "keepdims", int64_t{0})});
  const std::string high = w.op("Max", {zero, w.op("ReduceMax", {x}, "keepdims", int64_t{0})});
  const std::string scale = w.op("Div", {w.op("Sub", {high, low}), w.number(255, x)});
  const std::string is_flat = w.op("Equal", {scale, zero}), divisor = w.op("Where", {is_flat, w.number(1, x), scale});
  const std::string place = w.op("Clip", {w.op("Round", {w.op("Div", {w.op("Neg", {low}), divisor})}), zero, w.number(255, x)});
  const std::string point = w.op("Cast", {place}, "to", int64_t{onnx::TensorProto::UINT8});
  const std::string coded = w.op("QuantizeLinear", {x, divisor, point});
  product_of_dequantized(node, w, w.op("DequantizeLinear", {coded, divisor, point}), 1, 2, 3, 4);
}

void same_as_default(Node& node, NodeWriter& w) {
  Names inputs;
  for (int i = 0; i < node.input_count(); ++i) inputs.push_back(node.has_input(i) ? node.input_name(i) : "");
  onnx::NodeProto& made = w.node(node.type(), inputs, {node.output(0)});
  if (node.has_attribute("axis")) NodeWriter::set(made, "axis", node.integer("axis"));
  if (node.has_attribute("upper")) NodeWriter::set(made, "upper", node.integer("upper"));
}

// The numbers of `bits` in bytes, the first one in the lowest bits, as a new last dimension of a tensor of that rank.
std::string parts_of_bytes(NodeWriter& w, const std::string& packed, int64_t bits, int64_t rank) {
  Names parts;
  const std::string mask = w.op("CastLike", {w.integer((1 << bits) - 1), packed});
  for (int64_t shift = 0; shift < 8; shift += bits) {
    std::string part = packed;
    if (shift != 0) part = w.op("BitShift", {packed, w.op("CastLike", {w.integer(shift), packed})}, "direction", std::string("RIGHT"));
    parts.push_back(w.unsqueeze(w.op("BitwiseAnd", {part, mask}), rank));
  }
  return w.concat(parts, rank);
}

// Columns of weights in blocks of `bits` each, [N, blocks, bytes], as numbers of [N, K].
std::string unpacked(Node& node, NodeWriter& w, const std::string& packed, int64_t bits, const std::vector<int64_t>& shape) {
  const std::string numbers = bits == 8 ? packed : parts_of_bytes(w, packed, bits, Node::type_of(node.input(1)).getRank());
  return w.op("Reshape", {numbers, w.integers(shape)});
}

// The elements of 4 bits in the bytes of a matrix, the first one in the low bits: as many columns as are asked for.
mlir::Value halves_of_bytes(Node& node, mlir::Value bytes, int64_t columns) {
  mlir::RankedTensorType type = Node::type_of(bytes);
  const auto rows = type.getDimSize(0), stored = type.getDimSize(1);
  auto extents = [&](std::initializer_list<int64_t> numbers) {
    Extents all;
    for (int64_t number : numbers) all.push_back(node.builder.getAffineConstantExpr(number));
    return all;
  };
  mlir::Value low = node.make<tx::BitAndOp>(type, bytes, node.splat(type, 15)),
              high = node.make<tx::DivOp>(type, bytes, node.splat(type, 16));
  const Extents one = extents({rows, stored, 1});
  mlir::Value all = node.reshape(node.concatenated({node.reshape(low, one), node.reshape(high, one)}, 2), extents({rows, stored * 2}));
  if (stored * 2 == columns) return all;
  return node.make<tx::SliceOp>(node.tensor_type(extents({rows, columns}), type.getElementType()), all, llvm::ArrayRef<int64_t>{0, 0},
                                llvm::ArrayRef<int64_t>{1, 1});
}

// Weights of 4 bits as MatMulNBits has them, as values [N, K] of the type of `like`; empty if products cannot read them as they are stored
// (heddle-read-dequantized).
std::string dequantized_columns(Node& node, NodeWriter& w, int64_t rows, int64_t depth, int64_t block, mlir::Value like) {
  mlir::Value bytes = node.input(1), scales = node.input(2), zeros = node.has_input(3) ? node.input(3) : mlir::Value();
  const int64_t blocks = depth / block;
  auto element = [](mlir::Value value) { return Node::type_of(value).getElementType(); };
  auto has = [](mlir::Value value, int64_t elements) {
    return Node::type_of(value).hasStaticShape() && Node::type_of(value).getNumElements() == elements;
  };
  auto matrix = [&](mlir::Value value, int64_t columns) {
    return node.reshape(value, {node.builder.getAffineConstantExpr(rows), node.builder.getAffineConstantExpr(columns)});
  };
  if (depth % block != 0 || !(bytes.getDefiningOp<tx::ParameterOp>() || bytes.getDefiningOp<tx::ConstantOp>())) return {};
  if (!element(bytes).isUnsignedInteger(8) || !has(bytes, rows * (depth / 2)) || !has(scales, rows * blocks)) return {};
  if (!element(scales).isF32() && !element(scales).isF16() && !element(scales).isBF16()) return {};
  if (!zeros) {
    auto type = mlir::RankedTensorType::get({rows, blocks}, element(bytes));
    zeros = node.splat(type, 8);
  } else if (llvm::isa<mlir::FloatType>(element(zeros)) && has(zeros, rows * blocks)) {
    zeros = matrix(zeros, blocks);
  } else if (element(zeros).isUnsignedInteger(8) && has(zeros, rows * ((blocks + 1) / 2))) {
    zeros = halves_of_bytes(node, matrix(zeros, (blocks + 1) / 2), blocks);
  } else {
    return {};
  }
  auto type = mlir::RankedTensorType::get({rows, depth}, node.builder.getF32Type());
  mlir::Value value =
      node.make<tx::DequantizeOp>(type, matrix(bytes, depth / 2), matrix(scales, blocks), zeros, node.builder.getI64IntegerAttr(1),
                                  node.builder.getI64IntegerAttr(block), mlir::UnitAttr());
  const std::string name = w.fresh();
  Operand operand;
  operand.value = node.converted(value, element(like));
  node.graph.operands[name] = operand;
  return name;
}

void product_of_bits(Node& node, NodeWriter& w) {
  const int64_t rows = node.integer("N"), depth = node.integer("K"), bits = node.integer("bits", 4), block = node.integer("block_size");
  if (bits != 2 && bits != 4 && bits != 8)
    node.fail("bits is " + std::to_string(bits) + "; 2, 4 and 8 are supported", HEDDLE_STATUS_UNIMPLEMENTED);
  if (block < 16 || (block & (block - 1)) != 0 || rows < 1 || depth < 1 || depth > largest_extent || rows > largest_extent ||
      block > largest_extent)
    node.fail("N, K and block_size do not fit");
  if (node.has_input(4)) node.fail("g_idx is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  if (node.integer("weight_prepacked", 0) != 0) node.fail("weight_prepacked is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  const int64_t blocks = (depth + block - 1) / block;
  const std::string a = node.input_name(0);
  const std::string stored = bits == 4 ? dequantized_columns(node, w, rows, depth, block, node.input(0)) : "";
  if (!stored.empty()) {
    std::string product = w.op("MatMul", {a, w.transpose(stored, {1, 0})});
    if (node.has_input(5)) product = w.op("Add", {product, node.input_name(5)});
    return pass_on(w, product, node, 0);
  }
  std::string weights = w.op("CastLike", {unpacked(node, w, node.input_name(1), bits, {rows, blocks, block}), a});
  std::string zero = w.number(static_cast<float>(1 << (bits - 1)), a);
  if (node.has_input(3)) {
    if (llvm::isa<mlir::FloatType>(Node::type_of(node.input(3)).getElementType())) {
      zero = w.op("Reshape", {node.input_name(3), w.integers({rows, blocks, 1})});
    } else {
      const int64_t packed = (blocks * bits + 7) / 8, whole = packed * 8 / bits;
      const std::string bytes = w.op("Reshape", {node.input_name(3), w.integers({rows, packed, 1})});
      std::string points = unpacked(node, w, bytes, bits, {rows, whole, 1});
      points = w.op("Slice", {points, w.integers({0}), w.integers({blocks}), w.integers({1})});
      zero = w.op("CastLike", {points, a});
    }
  }
  const std::string scales = w.op("CastLike", {w.op("Reshape", {node.input_name(2), w.integers({rows, blocks, 1})}), a});
  weights = w.op("Mul", {w.op("Sub", {weights, zero}), scales});
  weights = w.op("Reshape", {weights, w.integers({rows, blocks * block})});
  if (blocks * block != depth) weights = w.op("Slice", {weights, w.integers({0}), w.integers({depth}), w.integers({1})});
  std::string product = w.op("MatMul", {a, w.transpose(weights, {1, 0})});
  if (node.has_input(5)) product = w.op("Add", {product, node.input_name(5)});
  pass_on(w, product, node, 0);
}

// The rows of a packed tensor, with as many elements along the last dimension as are asked for.
std::string unpacked_rows(NodeWriter& w, const std::string& packed, int64_t bits, int64_t rank, int64_t stored, int64_t elements) {
  std::vector<int64_t> shape(static_cast<size_t>(rank), 0);  // 0 keeps an extent
  shape.back() = stored * 8 / bits;
  const std::string all = w.op("Reshape", {parts_of_bytes(w, packed, bits, rank), w.integers(shape)});
  return shape.back() == elements ? all : w.op("Slice", {all, w.integers({0}), w.integers({elements}), w.integers({rank - 1})});
}

void gather_blocks(Node& node, NodeWriter& w) {
  const mlir::RankedTensorType data = Node::type_of(node.input(0)), scales = Node::type_of(node.input(2));
  const bool is_bytes = data.getElementType().isUnsignedInteger(8), is_float = llvm::isa<mlir::FloatType>(data.getElementType());
  const int64_t bits = is_bytes ? node.integer("bits", 4) : 8, rank = data.getRank();
  int64_t block = node.integer("block_size", 128);
  if (rank == 0) node.fail("input 0 is a scalar");
  const int64_t gathered = node.axis(node.integer("gather_axis", 0), rank), along = node.axis(node.integer("quantize_axis", 1), rank);
  if (bits != 2 && bits != 4 && bits != 8)
    node.fail("bits is " + std::to_string(bits) + "; 2, 4 and 8 are supported", HEDDLE_STATUS_UNIMPLEMENTED);
  if (gathered == along) node.fail("gather_axis and quantize_axis are the same");
  if (is_bytes && gathered != 0) node.fail("gather_axis is not 0, as it has to be for elements of uint8");
  if (!data.hasStaticShape() || !scales.hasStaticShape()) node.fail("data and scales have no static shapes", HEDDLE_STATUS_UNIMPLEMENTED);
  llvm::SmallVector<int64_t> extents(data.getShape());
  const int64_t stored = extents.back();
  if (stored > largest_extent / 8)
    node.fail("data has more than " + std::to_string(largest_extent / 8) + " elements along the last dimension");
  if (bits < 8) extents.back() = stored * 8 / bits;
  if (block == 0 && is_float) block = std::max<int64_t>(extents[static_cast<size_t>(along)], 1);
  if (block < 1 || block > largest_extent) node.fail("block_size is " + std::to_string(block));
  llvm::SmallVector<int64_t> blocks = extents;
  blocks[static_cast<size_t>(along)] = (extents[static_cast<size_t>(along)] + block - 1) / block;
  if (scales.getShape() != llvm::ArrayRef(blocks))
    node.fail("scales do not have one element for each block of data", HEDDLE_STATUS_UNIMPLEMENTED);
  auto taken = [&](int input) { return w.op("Gather", {node.input_name(input), node.input_name(1)}, "axis", gathered); };
  const int64_t more = Node::type_of(node.input(1)).getRank() - 1;
  std::string rows = taken(0), zero;
  const std::string by = taken(2);
  if (bits < 8) rows = unpacked_rows(w, rows, bits, rank + more, stored, extents.back());
  if (node.has_input(3)) {
    zero = taken(3);
    const mlir::RankedTensorType zeros = Node::type_of(node.input(3));
    if (bits < 8 && zeros.getRank() != rank) node.fail("zero_points do not have the rank of data");
    if (bits < 8) zero = unpacked_rows(w, zero, bits, rank + more, zeros.getShape().back(), blocks.back());
  } else if (is_bytes) {
    const std::string middle = w.op("CastLike", {w.integer(int64_t{1} << (bits - 1)), rows});
    zero = w.op("Expand", {middle, w.op("Shape", {by})});
  }
  Names inputs{rows, by};
  if (!zero.empty()) inputs.push_back(zero);
  onnx::NodeProto& made = w.node("DequantizeLinear", inputs, {node.output(0)});
  NodeWriter::set(made, "axis", along > gathered ? along + more : along);
  NodeWriter::set(made, "block_size", block);
}

using Expand = void (*)(Node&, NodeWriter&);
const std::map<std::string, Expand, std::less<>>& expansions() {
  static const std::map<std::string, Expand, std::less<>> all = {{"Attention", packed_attention},
                                                                 {"BiasAdd", bias_add},
                                                                 {"BiasGelu", biased_gelu},
                                                                 {"DequantizeLinear", same_as_default},
                                                                 {"DynamicQuantizeMatMul", dynamic_product},
                                                                 {"EmbedLayerNormalization", embedding},
                                                                 {"FastGelu", biased_gelu},
                                                                 {"FusedConv", fused_conv},
                                                                 {"FusedGemm", fused_gemm},
                                                                 {"FusedMatMul", fused_matmul},
                                                                 {"GatherBlockQuantized", gather_blocks},
                                                                 {"Gelu", gelu},
                                                                 {"GroupQueryAttention", grouped_attention},
                                                                 {"MatMulIntegerToFloat", integer_product},
                                                                 {"MatMulNBits", product_of_bits},
                                                                 {"MultiHeadAttention", multi_head_attention},
                                                                 {"QAttention", quantized_attention},
                                                                 {"QGemm", quantized_gemm},
                                                                 {"QLinearAdd", quantized_binary},
                                                                 {"QLinearAveragePool", quantized_unary},
                                                                 {"QLinearConcat", quantized_concat},
                                                                 {"QLinearGlobalAveragePool", quantized_unary},
                                                                 {"QLinearLeakyRelu", quantized_unary},
                                                                 {"QLinearMul", quantized_binary},
                                                                 {"QLinearReduceMean", quantized_unary},
                                                                 {"QLinearSigmoid", quantized_unary},
                                                                 {"QLinearSoftmax", quantized_unary},
                                                                 {"QLinearWhere", quantized_where},
                                                                 {"QuantizeLinear", same_as_default},
                                                                 {"QuickGelu", quick_gelu},
                                                                 {"RotaryEmbedding", rotary},
                                                                 {"SimplifiedLayerNormalization", simplified_normalization},
                                                                 {"SkipLayerNormalization", skip_normalization},
                                                                 {"SkipSimplifiedLayerNormalization", skip_normalization},
                                                                 {"Trilu", same_as_default}};
  return all;
}

}  // namespace

bool is_microsoft(const onnx::NodeProto& node) {
  if (node.domain() == microsoft_domain) return expansions().contains(node.op_type());
  return (node.domain().empty() || node.domain() == default_domain) &&
         (node.op_type() == "SimplifiedLayerNormalization" || node.op_type() == "SkipSimplifiedLayerNormalization");
}

void expand_microsoft(Node& node, NodeWriter& writer) {
  expansions().find(node.type())->second(node, writer);
}

std::vector<std::string> microsoft_operators() {
  std::vector<std::string> names;
  for (const auto& [name, expand] : expansions()) names.push_back(std::string(microsoft_domain) + "." + name);
  return names;
}

}  // namespace heddle::import
