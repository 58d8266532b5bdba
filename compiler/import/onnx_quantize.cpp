// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// QuantizeLinear and DequantizeLinear as arithmetic on floats, per tensor or per axis. Ops after the importer know nothing of quantization: a
// dequantized weight is a conversion and a product like any other. Passes keep it in memory as it is stored, and its readers convert it where
// possible (docs/operators.md).
#include "compiler/import/onnx_narrow.h"

using namespace mlir;

namespace heddle::import {
namespace {

Type element_of(Value value) {
  return Node::type_of(value).getElementType();
}

bool is_one_element(Value value) {
  RankedTensorType type = Node::type_of(value);
  return type.hasStaticShape() && type.getNumElements() == 1;
}

Value convert(Node& node, Value value, Type element) {
  if (element_of(value) == element) return value;
  return node.make<tx::CastOp>(tx::with_element_type(Node::type_of(value), element), value);
}

// The type if it is in the list, else nothing.
std::string nearest_of(const std::string& type, const std::string& among) {
  for (StringRef rest = among; !rest.empty() && !type.empty();) {
    auto [word, more] = rest.split(' ');
    if (word.trim(",") == type) return type;
    rest = more;
  }
  return {};
}

// The type that an attribute selects; null if it is absent, 0 or not supported.
Type type_attribute(Node& node, const char* name, const std::string& among, llvm::function_ref<bool(Type)> accepted) {
  int64_t number = node.integer(name, 0);
  if (number == 0) return {};
  int32_t known = number > 0 && number <= INT32_MAX ? static_cast<int32_t>(number) : 0;
  Type type = is_element_type(known) ? element_type(node.builder.getContext(), known, node.describe(), /*may_be_narrow=*/true) : Type();
  if (type && accepted(type)) return type;
  node.unsupported("attribute '" + std::string(name) + "' is " + (known ? element_type_name(known) : std::to_string(number)) +
                       "; supported are " + among,
                   type ? "" : nearest_of(nearest_element_type(known), among));
  return {};
}

bool is_computed_float(Type type) {
  return type.isF32() || type.isF16() || type.isBF16();
}
constexpr const char* computed_floats = "FLOAT, FLOAT16 and BFLOAT16";

bool is_exponent(Type type) {
  const tx::NarrowFormat* narrow = tx::narrow_format(type);
  return narrow && narrow->exponent_bits == 8;
}

bool is_quantized(Type type) {
  return type.isInteger(8) || type.isInteger(16) || (tx::narrow_format(type) && !is_exponent(type));
}
constexpr const char* quantized_types =
    "INT8, UINT8, INT16, UINT16, INT4, UINT4, INT2, UINT2, FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ and FLOAT4E2M1";

// How scale and zero point, inputs 1 and 2, apply to input 0.
class Granularity {
 public:
  explicit Granularity(Node& node) : node_(node), extents_(Node::extents_of(node.input(0))), block_(node.integer("block_size", 0)) {
    Value scale = node.input(1);
    RankedTensorType type = Node::type_of(scale);
    bool one = is_one_element(scale);
    if (node.has_input(2)) {
      Value zero_point = node.input(2);
      bool fits = one ? is_one_element(zero_point) : Node::extents_of(zero_point) == tx::extents(type);
      if (!fits) node.refuse_inputs("the shapes of scale and zero point differ");
    }
    const auto rank = static_cast<int64_t>(extents_.size());
    if (block_ < 0 || block_ > largest_extent)
      node.fail("attribute 'block_size' is " + std::to_string(block_) + "; it is 0 or the number of elements of a block");
    if (block_ > 0 && type.getRank() == rank && rank > 0) {
      axis_ = node.axis(node.integer("axis", 1), rank);
      for (auto [d, extent] : llvm::enumerate(tx::extents(type))) {
        const bool is_axis = static_cast<int64_t>(d) == *axis_;
        AffineExpr wanted = is_axis ? blocks() : extents_[d];
        if (!node.are_equal(extent, wanted))
          node.refuse_inputs(is_axis ? "the scale does not have one element for each block of " + std::to_string(block_) + " along axis " +
                                           std::to_string(*axis_)
                                     : "the scale differs from the tensor along another axis than that of the blocks, " +
                                           std::to_string(*axis_));
      }
      return;
    }
    block_ = 0;  // of one scale, and of one for each index, it means nothing
    if (one) return;
    if (type.getRank() != 1)
      node.fail("the scale needs rank 0 or 1, or with a block_size that of the tensor, has " + std::to_string(type.getRank()));
    if (node.opset() < 13) node.fail("before opset 13 the scale has one element");
    axis_ = node.axis(node.integer("axis", 1), rank);
    if (tx::extents(type)[0] != extents_[*axis_]) {
      node.fail("the scale does not have one element for each index of axis " + std::to_string(*axis_));
    }
  }

  // The number of elements of a block, and the axis along which they are; nothing if there are no blocks.
  std::optional<std::pair<int64_t, int64_t>> block() const {
    if (block_ == 0) return {};
    return std::pair(block_, *axis_);
  }

  // A scale or zero point in the given element type, broadcast over the tensor.
  Value spread(Value value, Type element) const {
    value = node_.converted(widened(node_, value), element);
    RankedTensorType type = tx::tensor_type(extents_, element);
    if (block_ != 0) return spread_blocks(value);
    if (axis_) return node_.make<tx::BroadcastOp>(type, value, ArrayRef<int64_t>{*axis_});
    return node_.broadcast(node_.reshape(value, {}), extents_);
  }
  // The same; a known number becomes part of the kernels that compute with it.
  Value spread_known(Value value, Type element) const {
    if (DenseElementsAttr known = axis_ ? DenseElementsAttr() : known_elements(value))
      return node_.splat(tx::tensor_type(extents_, element),
                         number_of(*known.getValues<Attribute>().begin(), element_of(value).isUnsignedInteger()));
    return spread(value, element);
  }

 private:
  AffineExpr blocks() const {
    AffineExpr more = sum(extents_[static_cast<size_t>(*axis_)], node_.builder.getAffineConstantExpr(block_ - 1));
    return node_.computed(more ? quotient(more, block_) : more);
  }
  // Each element as often as a block has elements, of which the last one may have fewer.
  Value spread_blocks(Value value) const {
    const auto axis = static_cast<size_t>(*axis_);
    AffineExpr one = node_.builder.getAffineConstantExpr(1);
    SmallVector<AffineExpr> counts(extents_.size(), one);
    counts[axis] = node_.builder.getAffineConstantExpr(block_);
    // The extent that the compiler derives from the tensor's, so that it sees that what is left over is less than a block.
    Extents from = extents_;
    from[axis] = blocks();
    value = node_.repeat(node_.with_extents(value, from), counts, /*elements=*/true);
    if (Node::extents_of(value) == extents_) return value;
    const SmallVector<int64_t> starts(extents_.size(), 0), strides(extents_.size(), 1);
    return node_.make<tx::SliceOp>(tx::tensor_type(extents_, element_of(value)), value, starts, strides);
  }

  Node& node_;
  Extents extents_;
  int64_t block_;  // elements of a block along the axis; 0: there are none
  std::optional<int64_t> axis_;
};

bool is_stored(Value value) {
  if (auto transpose = value.getDefiningOp<tx::TransposeOp>()) value = transpose.getInput();  // of a file that has it transposed
  return value.getDefiningOp<tx::ConstantOp>() || value.getDefiningOp<tx::ParameterOp>();
}

// Null if there is none, or if it is known to be 0: weights are usually symmetric, and are then so for all files of parameters. The zero point of
// a computed value may be 0 in one file only.
Value zero_point(Node& node) {
  if (!node.has_input(2)) return {};
  Value value = node.input(2);
  auto narrow = value.getDefiningOp<tx::StoredOp>();
  Value integers = narrow ? narrow.getInput() : value;  // or the bits of floats
  const bool is_read = known_elements(integers) || (node.graph.names_weights() && is_stored(node.input(0)));
  if (!is_read || !node.graph.is_zero(integers)) return value;
  node.graph.take_as_symmetric(value);
  return {};
}

// saturate(round(x / scale) + zero point)
void quantize(Node& node) {
  Value x = node.input(0), scale = node.input(1);
  Type f32 = node.builder.getF32Type();
  for (Value value : {x, scale}) {
    if (!is_computed_float(element_of(value)) && !element_of(value).isSignlessInteger(32) && !is_exponent(element_of(value)))
      node.fail("x and y_scale need elements that are floats or int32");
  }
  if (is_exponent(element_of(x))) node.fail("x needs elements that are floats or int32, has FLOAT8E8M0");
  Type to = type_attribute(node, "output_dtype", quantized_types, is_quantized);
  if (node.has_input(2)) {
    Type given = element_of(node.input(2));
    if (!is_quantized(given)) node.fail(std::string("the zero point needs one of the element types ") + quantized_types);
    if (to && to != given) node.fail("attribute 'output_dtype' is not the zero point's type");
    to = given;
  }
  if (!to) to = node.builder.getIntegerType(8, false);
  Type precision = type_attribute(node, "precision", computed_floats, is_computed_float);
  if (!precision) precision = is_computed_float(element_of(scale)) ? element_of(scale) : f32;
  const tx::NarrowFormat* narrow = tx::narrow_format(to);
  const Rounding rounding = rounding_of(node);
  Granularity granularity(node);

  Value dividend = convert(node, x, precision);
  Value steps = node.make<tx::DivOp>(Node::type_of(dividend), dividend, granularity.spread_known(scale, precision));
  steps = convert(node, steps, f32);  // 16-bit floats do not represent every step of 16 bits
  if (!narrow || !narrow->is_float()) steps = node.make<tx::RoundOp>(Node::type_of(steps), steps);
  // exact below 2^24; larger values saturate
  if (Value zero = zero_point(node)) steps = node.make<tx::AddOp>(Node::type_of(steps), steps, granularity.spread_known(zero, f32));
  node.set_result(narrow ? quantized_narrow(node, steps, *narrow, rounding) : convert(node, steps, to));
}

// A stored matrix of integers of 4 bits in whole blocks, which products can read as it is (heddle-read-dequantized); null for anything else.
Value dequantized_blocks(Node& node, const Granularity& granularity) {
  Value x = node.input(0), scale = node.input(1), zero = zero_point(node);
  const tx::NarrowFormat* narrow = tx::narrow_format(element_of(x));
  RankedTensorType type = Node::type_of(x);
  auto block = granularity.block();
  auto stored = x.getDefiningOp<tx::StoredOp>();
  if (!block || !narrow || narrow->is_float() || narrow->bits() != 4 || !is_stored(stored ? stored.getInput() : x)) return {};
  if (type.getRank() != 2 || !type.hasStaticShape() || type.getDimSize(1) % 2 != 0 || is_exponent(element_of(scale))) return {};
  auto [elements, axis] = *block;
  if (elements < 16 || !llvm::isPowerOf2_64(static_cast<uint64_t>(elements)) || type.getDimSize(axis) % elements != 0) return {};
  AffineExpr rows = node.builder.getAffineConstantExpr(type.getDimSize(0));
  AffineExpr row_bytes = node.builder.getAffineConstantExpr(type.getDimSize(1) / 2);
  Value bytes = node.reshape(node.make<tx::PackedOp>(tx::packed_type(type), x), {rows, row_bytes});
  auto is_signed = narrow->is_unsigned() ? UnitAttr() : node.builder.getUnitAttr();
  return node.make<tx::DequantizeOp>(tx::with_element_type(type, node.builder.getF32Type()), bytes, scale,
                                     zero ? widened(node, zero) : zero, node.builder.getI64IntegerAttr(axis),
                                     node.builder.getI64IntegerAttr(elements), is_signed);
}

// (x - zero point) * scale
void dequantize(Node& node) {
  Value x = node.input(0), scale = node.input(1);
  Type f32 = node.builder.getF32Type();
  bool wide = element_of(x).isSignlessInteger(32);
  if (!is_quantized(element_of(x)) && !wide) node.fail(std::string("x needs one of the element types INT32, ") + quantized_types);
  if (node.has_input(2) && element_of(node.input(2)) != element_of(x)) node.refuse_inputs("element types of x and zero point differ");
  if (!is_computed_float(element_of(scale)) && !is_exponent(element_of(scale)))
    node.fail(std::string("the scale needs one of the element types FLOAT8E8M0, ") + computed_floats);
  Type to = type_attribute(node, "output_dtype", computed_floats, is_computed_float);
  if (!to) to = is_exponent(element_of(scale)) ? f32 : element_of(scale);
  Granularity granularity(node);
  if (Value value = dequantized_blocks(node, granularity)) return node.set_result(convert(node, value, to));

  // 16 bits and their differences are exact in f32, 32 bits are not
  Type difference = wide ? element_of(x) : f32;
  Value steps = convert(node, widened(node, x), difference);
  if (Value zero = zero_point(node)) steps = node.make<tx::SubOp>(Node::type_of(steps), steps, granularity.spread_known(zero, difference));
  steps = convert(node, steps, f32);
  node.set_result(convert(node, node.make<tx::MulOp>(Node::type_of(steps), steps, granularity.spread_known(scale, f32)), to));
}

}  // namespace

const Table& quantize_operators() {
  static const Table table = {
      {"DequantizeLinear", dequantize},
      {"QuantizeLinear", quantize},
  };
  return table;
}

}  // namespace heddle::import
