// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators on the bits of elements.
#include "compiler/import/onnx_broadcast.h"
#include "compiler/ir/bits.h"

using namespace mlir;

namespace heddle::import {
namespace {

SmallVector<Value> integer_inputs(Node& node) {
  if (node.input_count() != 2) node.fail("it needs 2 inputs");
  SmallVector<Value> values = broadcast_inputs(node);
  auto type = llvm::dyn_cast<IntegerType>(Node::type_of(values[0]).getElementType());
  if (!type || type.getWidth() == 1) node.refuse_inputs("its inputs need elements that are integers");
  return values;
}

template <typename OpT>
void bitwise(Node& node) {
  SmallVector<Value> values = integer_inputs(node);
  node.set_result(node.make<OpT>(Node::type_of(values[0]), values[0], values[1]));
}

// In two's complement, and for integers without a sign: (0 - x) - 1.
void bitwise_not(Node& node) {
  Value x = node.input(0);
  RankedTensorType type = Node::type_of(x);
  if (!llvm::isa<IntegerType>(type.getElementType()) || type.getElementType().isInteger(1))
    node.refuse_inputs("its input needs elements that are integers");
  node.set_result(node.make<tx::SubOp>(type, node.make<tx::SubOp>(type, node.splat(type, 0), x), node.splat(type, 1)));
}

// By 32, 16, 8, 4, 2 and 1, each if the distance has that bit: a product or a quotient. As many bits as the type has, or more, leave 0.
void bit_shift(Node& node) {
  SmallVector<Value> values = integer_inputs(node);
  Value x = values[0], distance = values[1];
  RankedTensorType type = Node::type_of(x), bools = tx::with_element_type(type, node.builder.getI1Type());
  if (!type.getElementType().isUnsignedInteger()) node.refuse_inputs("its inputs need elements without a sign");
  const std::string direction = node.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") node.fail("direction '" + direction + "' is neither LEFT nor RIGHT");
  const auto width = static_cast<int64_t>(type.getElementTypeBitWidth());
  auto reaches = [&](Value value, int64_t bound) {
    return node.make<tx::CompareOp>(bools, tx::CompareKind::ge, value, node.splat(type, static_cast<double>(bound)));
  };
  Value is_beyond = reaches(distance, width);
  for (int64_t bits = width / 2; bits >= 1; bits /= 2) {
    Value factor = node.splat(type, static_cast<double>(uint64_t{1} << bits)), has_bit = reaches(distance, bits);
    Value shifted = direction == "LEFT" ? node.make<tx::MulOp>(type, x, factor) : node.make<tx::DivOp>(type, x, factor);
    x = node.make<tx::SelectOp>(type, has_bit, shifted, x);
    Value rest = node.make<tx::SubOp>(type, distance, node.splat(type, static_cast<double>(bits)));
    distance = node.make<tx::SelectOp>(type, has_bit, rest, distance);
  }
  node.set_result(node.make<tx::SelectOp>(type, is_beyond, node.splat(type, 0), x));
}

// A bool is a byte that is 0 or 1; a byte becomes a bool that says whether it is not 0.
void bit_cast(Node& node) {
  Value x = node.input(0);
  const Type bytes = node.builder.getIntegerType(8, false),
             to = element_type(node.builder.getContext(), node.integer("to"), node.describe());
  auto stored = [&](Type type) { return type.isInteger(1) ? bytes : type; };
  Type from = stored(Node::type_of(x).getElementType());
  if (from.getIntOrFloatBitWidth() != stored(to).getIntOrFloatBitWidth())
    node.refuse_inputs("the type of 'to' has elements of another size");
  if (from != stored(to) && llvm::isa<FloatType>(from) && llvm::isa<FloatType>(to))
    node.fail("the bits of one type of floats as another one are not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  x = node.converted(x, from);
  const bool only_sign = llvm::isa<IntegerType>(from) && llvm::isa<IntegerType>(stored(to));
  if (only_sign) {
    x = node.converted(x, stored(to));
  } else if (from != stored(to)) {
    x = node.make<tx::BitCastOp>(tx::with_element_type(Node::type_of(x), stored(to)), x);
  }
  node.set_result(node.converted(x, to));
}

}  // namespace

const Table& bit_operators() {
  static const Table table = {
      {"BitCast", bit_cast},
      {"BitShift", bit_shift},
      {"BitwiseAnd", bitwise<tx::BitAndOp>},
      {"BitwiseNot", bitwise_not},
      {"BitwiseOr", bitwise<tx::BitOrOp>},
      {"BitwiseXor", bitwise<tx::BitXorOp>},
  };
  return table;
}

}  // namespace heddle::import
