// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions between narrow element types and those that kernels compute in, made of tx ops.
#include "compiler/import/onnx_narrow.h"

#include "compiler/import/onnx_microsoft.h"
#include "compiler/ir/bits.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace heddle::import {
namespace {

Value stored(Node& node, Value narrow, const tx::NarrowFormat& format) {
  return node.make<tx::StoredOp>(tx::with_element_type(Node::type_of(narrow), tx::stored_type(format, node.builder.getContext())), narrow);
}

Value narrowed(Node& node, Value integers, const tx::NarrowFormat& format) {
  Type narrow = tx::NarrowType::get(node.builder.getContext(), format.name);
  return node.make<tx::StoredOp>(tx::with_element_type(Node::type_of(integers), narrow), integers);
}

Value encoded(Node& node, Value value, const tx::NarrowFormat& format, const Rounding& rounding) {
  Value numbers = node.converted(value, node.builder.getF32Type());
  auto saturate = rounding.saturate ? node.builder.getUnitAttr() : UnitAttr();
  auto mode = format.exponent_bits == 8 ? node.builder.getStringAttr(rounding.mode) : StringAttr();
  Value bits = node.make<tx::EncodeFloatOp>(tx::with_element_type(Node::type_of(value), node.builder.getIntegerType(8, false)), numbers,
                                            node.builder.getStringAttr(format.name), saturate, mode);
  return narrowed(node, bits, format);
}

}  // namespace

std::string onnx_name(const tx::NarrowFormat& format) {
  if (!format.is_float()) return (format.is_unsigned() ? "UINT" : "INT") + std::to_string(format.bits());
  const std::string name = "FLOAT" + format.name.drop_front().upper();
  return format.name == "f8e4m3" ? name + "FN" : name;
}

bool accepts_narrow(const std::string& domain, const std::string& operator_name) {
  if (domain == microsoft_domain) return operator_name == "GatherBlockQuantized";
  static const llvm::StringSet<> known = {"Cast",     "CastLike",       "Concat",    "DequantizeLinear",
                                          "Expand",   "Flatten",        "Gather",    "GatherElements",
                                          "GatherND", outputs_operator, "Identity",  "If",
                                          "Loop",     "QuantizeLinear", "Reshape",   "Scan",
                                          "Shape",    "Size",           "Slice",     "Split",
                                          "Squeeze",  "Tile",           "Transpose", "Unsqueeze",
                                          "Where"};
  return domain.empty() && known.contains(operator_name);
}

Rounding rounding_of(Node& node) {
  Rounding rounding;
  rounding.saturate = node.integer("saturate", 1) != 0;
  const std::string mode = node.text("round_mode", "up");
  for (StringRef known : {"up", "down", "nearest"}) {
    if (mode == known) rounding.mode = known;
  }
  if (rounding.mode != mode) node.fail("attribute 'round_mode' is '" + mode + "'; it has to be up, down or nearest");
  return rounding;
}

Value widened(Node& node, Value value) {
  const tx::NarrowFormat* format = tx::narrow_format(Node::type_of(value).getElementType());
  if (!format) return value;
  value = stored(node, value, *format);
  if (!format->is_float()) return value;
  RankedTensorType type = tx::with_element_type(Node::type_of(value), node.builder.getF32Type());
  return node.make<tx::DecodeFloatOp>(type, value, node.builder.getStringAttr(format->name));
}

Value cast_narrow(Node& node, Value value, Type element, const Rounding& rounding) {
  if (Node::type_of(value).getElementType() == element) return value;
  const tx::NarrowFormat* format = tx::narrow_format(element);
  value = widened(node, value);
  if (!format) return node.converted(value, element);
  if (format->is_float()) return encoded(node, value, *format, rounding);
  Type whole = tx::stored_type(*format, node.builder.getContext());
  if (llvm::isa<FloatType>(Node::type_of(value).getElementType())) value = node.converted(value, node.builder.getI32Type());
  value = node.converted(value, whole);
  RankedTensorType type = Node::type_of(value);
  value = node.make<tx::BitAndOp>(type, value, node.splat(type, (1 << format->bits()) - 1));
  if (!format->is_unsigned()) {
    Value sign = node.splat(type, 1 << (format->bits() - 1));
    value = node.make<tx::SubOp>(type, node.make<tx::BitXorOp>(type, value, sign), sign);
  }
  return narrowed(node, value, *format);
}

Value quantized_narrow(Node& node, Value value, const tx::NarrowFormat& format, const Rounding& rounding) {
  if (format.is_float()) return encoded(node, value, format, rounding);
  RankedTensorType type = Node::type_of(value);
  const int range = 1 << format.bits(), least = format.is_unsigned() ? 0 : -range / 2;
  value = node.make<tx::MaxOp>(type, value, node.splat(type, least));
  value = node.make<tx::MinOp>(type, value, node.splat(type, least + range - 1));
  return narrowed(node, node.converted(value, tx::stored_type(format, node.builder.getContext())), format);
}

}  // namespace heddle::import
