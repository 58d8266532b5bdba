// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element-wise operators, with numpy's broadcasting made explicit.
#include <limits>

#include "compiler/import/float_functions.h"
#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_broadcast.h"
#include "compiler/import/onnx_checks.h"
#include "compiler/import/onnx_narrow.h"

using namespace mlir;

namespace heddle::import {
Extents common_extents(Node& node, ArrayRef<Extents> operands) {
  Extents result;
  AffineExpr one = node.builder.getAffineConstantExpr(1);
  for (const Extents& extents : operands) {
    while (result.size() < extents.size()) result.insert(result.begin(), one);
    size_t offset = result.size() - extents.size();
    for (auto [i, extent] : llvm::enumerate(extents)) {
      AffineExpr& common = result[offset + i];
      if (common == one) {
        common = extent;
      } else if (extent != one && !node.are_equal(common, extent)) {
        node.refuse_inputs("operands do not broadcast: extents differ on dimension " + std::to_string(offset + i));
      }
    }
  }
  return result;
}

namespace {

Extents common_extents(Node& node, ArrayRef<Value> values) {
  SmallVector<Extents> extents;
  for (Value value : values) extents.push_back(Node::extents_of(value));
  return common_extents(node, extents);
}

// Up to opset 6 the second operand is broadcast if an attribute says so, with its dimensions at those of the first one from `axis` on.
Value placed_at_axis(Node& node, Value first, Value second) {
  const Extents whole = Node::extents_of(first), own = Node::extents_of(second);
  if (node.integer("broadcast", 0) == 0) {
    for (size_t i = 0; i < whole.size() && whole.size() == own.size(); ++i) {
      if (!node.are_equal(whole[i], own[i])) node.refuse_inputs("the shapes of the inputs differ, and attribute 'broadcast' is not 1");
    }
    if (whole.size() != own.size()) node.refuse_inputs("the shapes of the inputs differ, and attribute 'broadcast' is not 1");
  }
  if (!node.has_attribute("axis")) return second;
  const auto rank = static_cast<int64_t>(whole.size()), axis = node.axis(node.integer("axis"), rank);
  if (static_cast<int64_t>(own.size()) > rank - axis)
    node.refuse_inputs("the second input does not fit the first one from axis " + std::to_string(axis) + " on");
  Extents placed = own;
  placed.resize(static_cast<size_t>(rank - axis), node.builder.getAffineConstantExpr(1));
  return node.reshape(second, placed);
}

}  // namespace

SmallVector<Value> broadcast_inputs(Node& node) {
  SmallVector<Value> values;
  for (int i = 0; i < node.input_count(); ++i) values.push_back(node.input(i));
  if (values.empty()) node.fail("it has no inputs");
  for (Value value : values) {
    if (Node::type_of(value).getElementType() != Node::type_of(values[0]).getElementType())
      node.refuse_inputs("element types of the inputs differ");
  }
  if (node.opset() < 7 && values.size() == 2) values[1] = placed_at_axis(node, values[0], values[1]);
  Extents extents = common_extents(node, values);
  for (Value& value : values) value = node.broadcast(value, extents);
  return values;
}

namespace {

template <typename OpT>
void unary(Node& node) {
  Value input = node.input(0);
  node.set_result(node.make<OpT>(Node::type_of(input), input));
}

// The result of an operator on two known numbers, as on tensors; null if it is not a number.
template <typename OpT>
AffineExpr computed_number(Node& node, int64_t x, int64_t y) {
  int64_t result = 0;
  bool defined = true;
  if constexpr (std::is_same_v<OpT, tx::AddOp>) {
    defined = !__builtin_add_overflow(x, y, &result);
  } else if constexpr (std::is_same_v<OpT, tx::SubOp>) {
    defined = !__builtin_sub_overflow(x, y, &result);
  } else if constexpr (std::is_same_v<OpT, tx::MulOp>) {
    defined = !__builtin_mul_overflow(x, y, &result);
  } else if constexpr (std::is_same_v<OpT, tx::DivOp>) {
    defined = y != 0 && !(x == std::numeric_limits<int64_t>::min() && y == -1);
    if (defined) result = x / y;
  } else if constexpr (std::is_same_v<OpT, tx::MaxOp>) {
    result = std::max(x, y);
  } else if constexpr (std::is_same_v<OpT, tx::MinOp>) {
    result = std::min(x, y);
  } else {
    defined = false;
  }
  return defined ? node.builder.getAffineConstantExpr(result) : AffineExpr();
}

// The maximum or minimum of two expressions, if it is always the same one of them when no input symbol is 0: that one is taken, and calls in which
// it is the other one are refused.
AffineExpr chosen_of_some(Node& node, AffineExpr x, AffineExpr y, bool largest) {
  AffineExpr above = node.graph.symbols.if_positive(x), other = node.graph.symbols.if_positive(y);
  std::optional<bool> first = above && other ? at_least(largest ? above : other, largest ? other : above) : std::nullopt;
  std::optional<bool> second = above && other ? at_least(largest ? other : above, largest ? above : other) : std::nullopt;
  const bool is_first = first.value_or(false);
  if (!is_first && !second.value_or(false)) return {};
  AffineExpr chosen = is_first ? x : y, left = is_first ? y : x;
  return node.graph.symbols.require(largest ? chosen : left, largest ? left : chosen, node.describe()) ? chosen : AffineExpr();
}

// Arithmetic on shapes as arithmetic on extents; null if that is not possible.
template <typename OpT>
AffineExpr computed_element(Node& node, AffineExpr x, AffineExpr y) {
  auto known_x = tx::static_extent(x), known_y = tx::static_extent(y);
  if (known_x && known_y) return computed_number<OpT>(node, *known_x, *known_y);
  if constexpr (std::is_same_v<OpT, tx::AddOp>) {
    return node.computed(sum(x, y));
  } else if constexpr (std::is_same_v<OpT, tx::SubOp>) {
    return node.computed(difference(x, y));
  } else if constexpr (std::is_same_v<OpT, tx::MulOp>) {
    return node.computed(product(x, y));
  } else if constexpr (std::is_same_v<OpT, tx::DivOp>) {
    AffineExpr result;
    if (known_y) {
      result = *known_y > 0 ? node.computed(quotient(x, *known_y)) : AffineExpr();
    } else {
      result = exact_quotient(x, y, node.builder.getContext());
      if (!result) result = node.graph.symbols.defined("floordiv", x, y);
    }
    // Rounds down, although numbers below 0 would be rounded up: a call with a negative number is refused.
    const AffineExpr zero = node.builder.getAffineConstantExpr(0);
    return result && node.graph.symbols.require(x, zero, node.describe()) ? result : AffineExpr();
  } else if constexpr (std::is_same_v<OpT, tx::MaxOp> || std::is_same_v<OpT, tx::MinOp>) {
    constexpr bool is_max = std::is_same_v<OpT, tx::MaxOp>;
    if (AffineExpr chosen = chosen_of_some(node, x, y, is_max)) return chosen;
    return node.graph.symbols.defined(is_max ? "max" : "min", x, y);
  } else {
    return {};
  }
}

template <typename OpT>
bool fold_arithmetic(Node& node) {
  if (node.input_count() == 0 || node.operand(0).bits == 1) return false;
  return node.fold([&](ArrayRef<AffineExpr> elements) {
    AffineExpr result = elements[0];
    for (AffineExpr element : elements.drop_front()) result = result ? computed_element<OpT>(node, result, element) : result;
    return result;
  });
}

template <typename OpT>
void binary(Node& node) {
  if (node.input_count() != 2) node.fail("it needs 2 inputs");
  if (fold_arithmetic<OpT>(node)) return;
  SmallVector<Value> values = broadcast_inputs(node);
  if constexpr (std::is_same_v<OpT, tx::DivOp>) {
    // If the quotient has no elements, nothing is divided, so a zero is allowed.
    bool may_be_empty = llvm::any_of(Node::extents_of(values[0]), [](AffineExpr extent) { return !tx::is_positive(extent); });
    expect_not_zero(node, may_be_empty ? values[1] : node.input(1));
  }
  node.set_result(node.make<OpT>(Node::type_of(values[0]), values[0], values[1]));
}

RankedTensorType bools_like(Value value) {
  return tx::with_element_type(Node::type_of(value), IntegerType::get(value.getContext(), 1));
}

Value compared(Node& node, tx::CompareKind kind, Value a, Value b) {
  return node.make<tx::CompareOp>(bools_like(a), kind, a, b);
}

void negate(Node& node) {
  AffineExpr zero = node.builder.getAffineConstantExpr(0);
  auto negative = [&](ArrayRef<AffineExpr> elements) { return node.computed(difference(zero, elements[0])); };
  if (node.operand(0).is_shape() && node.fold(negative)) return;
  unary<tx::NegOp>(node);
}

// The remainder for two elements of shapes; null if it is not known.
AffineExpr remainder_of(Node& node, AffineExpr x, AffineExpr y, bool of_dividend) {
  auto known_x = tx::static_extent(x), known_y = tx::static_extent(y);
  if (!known_y && known_x == -1 && !of_dividend && tx::never_negative(y))
    return node.computed(difference(y, node.builder.getAffineConstantExpr(1)));
  if (!known_y) return node.graph.symbols.defined("mod", x, y);
  if (*known_y == 0 || *known_y == -1) return {};
  if (known_x) {
    int64_t rest = *known_x % *known_y;
    if (!of_dividend && rest != 0 && (rest < 0) != (*known_y < 0)) rest += *known_y;
    return node.builder.getAffineConstantExpr(rest);
  }
  if (*known_y < 0 || (of_dividend && !tx::never_negative(x))) return {};
  return node.computed(difference(x, product(quotient(x, *known_y), y)));
}

// What is left of a float, not negative, after it was divided by another one: exactly, for quotients below 2^53. Both are f64.
Value rest_after_division(Node& node, Value whole, Value by) {
  Arithmetic m(node);
  Value zero = m.number(whole, 0), times = m.floor(m.div(whole, by)), product = m.mul(times, by);
  // The error of the product, by halves of the factors' digits (T. J. Dekker).
  auto halves = [&](Value value) {
    Value large = m.mul(value, m.number(value, 134217729)), high = m.sub(large, m.sub(large, value));
    return std::pair(high, m.sub(value, high));
  };
  auto [times_high, times_low] = halves(times);
  auto [by_high, by_low] = halves(by);
  Value error = m.add(m.sub(m.mul(times_high, by_high), product), m.mul(times_high, by_low));
  error = m.add(m.add(error, m.mul(times_low, by_high)), m.mul(times_low, by_low));
  Value rest = m.sub(m.sub(whole, product), error);
  // The quotient may have been rounded to the next integer.
  rest = m.select(m.compare(tx::CompareKind::lt, rest, zero), m.add(rest, by), rest);
  rest = m.select(m.compare(tx::CompareKind::ge, rest, by), m.sub(rest, by), rest);
  return m.select(m.compare(tx::CompareKind::lt, whole, by), whole, rest);  // also for a dividend that is divided by infinity
}

// For floats, with the dividend's sign, computed in f64. Exact for quotients below 2^100; beyond, some number between 0 and the divisor, or NaN if the
// quotient overflows.
Value float_remainder(Node& node, Value x, Value y) {
  Arithmetic m(node);
  RankedTensorType type = Node::type_of(x), wide = tx::with_element_type(type, node.builder.getF64Type());
  auto widened = [&](Value value) { return type == wide ? value : node.make<tx::CastOp>(wide, value); };
  x = widened(x);
  Value whole = m.abs(x), by = m.abs(widened(y)), zero = m.number(x, 0), back;
  if (type == wide) {
    // Halves of very large numbers would be infinite.
    Value is_large = m.compare(tx::CompareKind::gt, whole, m.number(x, 0x1p900)), one = m.number(x, 1);
    Value scale = m.select(is_large, m.number(x, 0x1p-200), one);
    back = m.select(is_large, m.number(x, 0x1p200), one);
    whole = m.mul(whole, scale);
    by = m.mul(by, scale);
  }
  Value rest = rest_after_division(node, rest_after_division(node, whole, m.mul(by, m.number(by, 0x1p48))), by);
  // Of longer quotients, it need only be a rest.
  rest = m.select(m.compare(tx::CompareKind::ge, rest, by), zero, m.select(m.compare(tx::CompareKind::lt, rest, zero), zero, rest));
  if (back) rest = m.mul(rest, back);
  rest = m.select(has_sign(node, x), node.make<tx::NegOp>(wide, rest), rest);
  return type == wide ? rest : node.make<tx::CastOp>(type, rest);
}

// The remainder of a division, with the divisor's sign as in Python or, with fmod 1, the dividend's as in C.
void mod(Node& node) {
  if (node.input_count() != 2) node.fail("it needs 2 inputs");
  bool of_dividend = node.integer("fmod", 0) != 0;
  auto rest_of = [&](ArrayRef<AffineExpr> elements) { return remainder_of(node, elements[0], elements[1], of_dividend); };
  if (node.operand(0).is_shape() && node.fold(rest_of)) return;
  SmallVector<Value> values = broadcast_inputs(node);
  Value x = values[0], y = values[1];
  RankedTensorType type = Node::type_of(x);
  if (llvm::isa<FloatType>(type.getElementType())) {
    if (!of_dividend) node.fail("floats need fmod 1");
    node.set_result(float_remainder(node, x, y));
    return;
  }
  bool may_be_empty = llvm::any_of(tx::extents(type), [](AffineExpr extent) { return !tx::is_positive(extent); });
  expect_not_zero(node, may_be_empty ? y : node.input(1));
  Value times = node.make<tx::DivOp>(type, x, y);
  Value rest = node.make<tx::SubOp>(type, x, node.make<tx::MulOp>(type, times, y));
  if (!of_dividend && !type.getElementType().isUnsignedInteger()) {
    Value zero = node.splat(type, 0);
    Value differ =
        compared(node, tx::CompareKind::ne, compared(node, tx::CompareKind::lt, rest, zero), compared(node, tx::CompareKind::lt, y, zero));
    Value moved = node.make<tx::SelectOp>(type, differ, node.make<tx::AddOp>(type, rest, y), rest);
    rest = node.make<tx::SelectOp>(type, compared(node, tx::CompareKind::eq, rest, zero), rest, moved);
  }
  node.set_result(rest);
}

// Max, Min, Sum: any number of inputs.
template <typename OpT>
void variadic(Node& node) {
  if (fold_arithmetic<OpT>(node)) return;
  SmallVector<Value> values = broadcast_inputs(node);
  Value result = values[0];
  for (Value value : ArrayRef<Value>(values).drop_front()) result = node.make<OpT>(Node::type_of(result), result, value);
  node.set_result(result);
}

void mean(Node& node) {
  SmallVector<Value> values = broadcast_inputs(node);
  RankedTensorType type = Node::type_of(values[0]);
  Value result = values[0];
  for (Value value : ArrayRef<Value>(values).drop_front()) result = node.make<tx::AddOp>(type, result, value);
  node.set_result(node.make<tx::MulOp>(type, result, node.splat(type, 1.0 / values.size())));
}

// Small powers of elements of shapes are products.
bool fold_power(Node& node) {
  constexpr int64_t most = 8;
  if (node.input_count() != 2 || !node.operand(0).is_shape()) return false;
  return node.fold([&](ArrayRef<AffineExpr> elements) -> AffineExpr {
    auto exponent = tx::static_extent(elements[1]);
    if (!exponent || *exponent < 0 || *exponent > most) return {};
    AffineExpr result = node.builder.getAffineConstantExpr(1);
    for (int64_t i = 0; i < *exponent; ++i) result = node.computed(product(result, elements[0]));
    return result;
  });
}

void pow(Node& node) {
  if (fold_power(node)) return;
  Value base = node.input(0), exponent = node.input(1);
  if (Node::type_of(base).getElementType() != Node::type_of(exponent).getElementType()) {
    exponent = node.make<tx::CastOp>(tx::with_element_type(Node::type_of(exponent), Node::type_of(base).getElementType()), exponent);
  }
  if (node.opset() < 7) exponent = placed_at_axis(node, base, exponent);
  Extents extents = common_extents(node, {base, exponent});
  base = node.broadcast(base, extents);
  exponent = node.broadcast(exponent, extents);
  RankedTensorType type = Node::type_of(base), wide = tx::with_element_type(type, node.builder.getF64Type());
  if (llvm::isa<FloatType>(type.getElementType())) {
    node.set_result(node.make<tx::PowOp>(type, base, exponent));
    return;
  }
  Value power = node.make<tx::PowOp>(wide, node.make<tx::CastOp>(wide, base), node.make<tx::CastOp>(wide, exponent));
  node.set_result(node.make<tx::CastOp>(type, node.make<tx::RoundOp>(wide, power)));
}

// Bounds are attributes up to opset 10, optional inputs after that.
void clip(Node& node) {
  Value value = node.input(0);
  RankedTensorType type = Node::type_of(value);
  for (int side : {0, 1}) {
    const char* name = side == 0 ? "min" : "max";
    Value bound;
    if (node.opset() < 11) {
      if (node.has_attribute(name)) bound = node.splat(type, node.number(name, 0));
    } else if (node.has_input(1 + side)) {
      bound = node.broadcast(node.input(1 + side), Node::extents_of(value));
    }
    if (!bound) continue;
    value = side == 0 ? node.make<tx::MaxOp>(type, value, bound) : node.make<tx::MinOp>(type, value, bound);
  }
  if (value == node.input(0)) value = node.reshape(value, Node::extents_of(value));
  node.set_result(value);
}

void leaky_relu(Node& node) {
  Value input = node.input(0);
  RankedTensorType type = Node::type_of(input);
  Value zero = node.splat(type, 0.0);
  Value scaled = node.make<tx::MulOp>(type, node.make<tx::MinOp>(type, input, zero), node.splat(type, node.number("alpha", 0.01)));
  node.set_result(node.make<tx::AddOp>(type, node.make<tx::MaxOp>(type, input, zero), scaled));
}

void hard_sigmoid(Node& node) {
  Value input = node.input(0);
  RankedTensorType type = Node::type_of(input);
  bool swish = node.type() == "HardSwish";
  double alpha = swish ? 1.0 / 6.0 : node.number("alpha", 0.2), beta = swish ? 0.5 : node.number("beta", 0.5);
  Value line = node.make<tx::AddOp>(type, node.make<tx::MulOp>(type, input, node.splat(type, alpha)), node.splat(type, beta));
  Value gate = node.make<tx::MinOp>(type, node.make<tx::MaxOp>(type, line, node.splat(type, 0.0)), node.splat(type, 1.0));
  node.set_result(swish ? node.make<tx::MulOp>(type, input, gate) : gate);
}

void gelu(Node& node) {
  Value x = node.input(0);
  RankedTensorType type = Node::type_of(x);
  Value gate;
  if (node.text("approximate", "none") == "tanh") {
    Value cubed = node.make<tx::MulOp>(type, node.make<tx::MulOp>(type, x, x), x);
    Value inner = node.make<tx::AddOp>(type, x, node.make<tx::MulOp>(type, cubed, node.splat(type, 0.044715)));
    gate = node.make<tx::TanhOp>(type, node.make<tx::MulOp>(type, inner, node.splat(type, 0.7978845608028654)));
  } else {
    gate = node.make<tx::ErfOp>(type, node.make<tx::MulOp>(type, x, node.splat(type, 0.7071067811865476)));
  }
  Value half = node.make<tx::MulOp>(type, x, node.splat(type, 0.5));
  node.set_result(node.make<tx::MulOp>(type, half, node.make<tx::AddOp>(type, gate, node.splat(type, 1.0))));
}

// The result of comparing two elements of shapes, if it is the same for all values of the symbols; for example, an extent is never -1.
std::optional<bool> compared_elements(const Symbols& symbols, tx::CompareKind kind, AffineExpr x, AffineExpr y) {
  auto negated = [](std::optional<bool> value) { return value ? std::optional(!*value) : std::nullopt; };
  switch (kind) {
    case tx::CompareKind::eq:
      return symbols.equal(x, y);
    case tx::CompareKind::ne:
      return negated(symbols.equal(x, y));
    case tx::CompareKind::ge:
      return symbols.at_least(x, y);
    case tx::CompareKind::lt:
      return negated(symbols.at_least(x, y));
    case tx::CompareKind::le:
      return symbols.at_least(y, x);
    case tx::CompareKind::gt:
      return negated(symbols.at_least(y, x));
  }
  return {};
}

template <tx::CompareKind kind>
void compare(Node& node) {
  if (node.input_count() != 2) node.fail("it needs 2 inputs");
  auto decide = [&](ArrayRef<AffineExpr> elements) {
    std::optional<bool> result = compared_elements(node.graph.symbols, kind, elements[0], elements[1]);
    return result ? node.builder.getAffineConstantExpr(*result) : AffineExpr();
  };
  if (node.fold(decide, 1)) return;
  SmallVector<Value> values = broadcast_inputs(node);
  node.set_result(compared(node, kind, values[0], values[1]));
}

// And, Or: the second operand, or the result that the first one decides.
template <bool decided>
void logical(Node& node) {
  if (node.input_count() != 2) node.fail("it needs 2 inputs");
  AffineExpr decisive = node.builder.getAffineConstantExpr(decided);
  if (node.fold([&](ArrayRef<AffineExpr> elements) { return elements[0] == decisive ? decisive : elements[1]; })) return;
  SmallVector<Value> values = broadcast_inputs(node);
  RankedTensorType type = Node::type_of(values[0]);
  Value first = values[0], second = values[1], known = node.splat(type, decided);
  node.set_result(node.make<tx::SelectOp>(type, first, decided ? known : second, decided ? second : known));
}

void logical_not(Node& node) {
  AffineExpr one = node.builder.getAffineConstantExpr(1);
  if (node.operand(0).bits == 1 && node.fold([&](ArrayRef<AffineExpr> elements) { return one - elements[0]; })) return;
  Value input = node.input(0);
  node.set_result(compared(node, tx::CompareKind::eq, input, node.splat(Node::type_of(input), 0)));
}

void is_nan(Node& node) {
  Value input = node.input(0);
  node.set_result(compared(node, tx::CompareKind::ne, input, input));
}

void is_inf(Node& node) {
  Value input = node.input(0);
  RankedTensorType type = Node::type_of(input);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  bool positive = node.integer("detect_positive", 1) != 0, negative = node.integer("detect_negative", 1) != 0;
  Value magnitude = positive && negative ? node.make<tx::AbsOp>(type, input) : input;
  // If neither is requested, the result is false everywhere: no number is less than -infinity.
  auto kind = positive || negative ? tx::CompareKind::eq : tx::CompareKind::lt;
  node.set_result(compared(node, kind, magnitude, node.splat(type, positive ? infinity : -infinity)));
}

// NaN and zeros of both signs are unchanged.
void sign(Node& node) {
  Value input = node.input(0);
  RankedTensorType type = Node::type_of(input);
  Value zero = node.splat(type, 0), one = node.splat(type, 1), result = input;
  if (!type.getElementType().isUnsignedInteger()) {
    result = node.make<tx::SelectOp>(type, compared(node, tx::CompareKind::lt, input, zero), node.splat(type, -1), result);
  }
  node.set_result(node.make<tx::SelectOp>(type, compared(node, tx::CompareKind::gt, input, zero), one, result));
}

// positive if the input is above zero or NaN; else negative.
Value by_sign(Node& node, Value input, Value positive, Value negative) {
  Value zero = node.splat(Node::type_of(input), 0);
  return node.make<tx::SelectOp>(Node::type_of(input), compared(node, tx::CompareKind::lt, input, zero), negative, positive);
}

// factor * (exp(x / divisor) - 1)
Value exponential(Node& node, Value x, double factor, double divisor) {
  RankedTensorType type = Node::type_of(x);
  Value power = node.make<tx::ExpOp>(type, divisor == 1 ? x : node.make<tx::DivOp>(type, x, node.splat(type, divisor)));
  return node.make<tx::MulOp>(type, node.make<tx::SubOp>(type, power, node.splat(type, 1)), node.splat(type, factor));
}

void elu(Node& node) {
  Value x = node.input(0);
  double alpha = node.number("alpha", 1);
  node.set_result(by_sign(node, x, x, exponential(node, x, alpha, node.type() == "Celu" ? alpha : 1)));
}

void selu(Node& node) {
  Value x = node.input(0);
  RankedTensorType type = Node::type_of(x);
  const bool is_first = node.opset() < 6;
  double alpha = node.number("alpha", is_first ? 1.6732f : 1.67326319217681884765625),
         gamma = node.number("gamma", is_first ? 1.0507f : 1.05070102214813232421875);
  node.set_result(by_sign(node, x, node.make<tx::MulOp>(type, x, node.splat(type, gamma)), exponential(node, x, alpha * gamma, 1)));
}

// Up to opset 6 the slope has one element, or one for each channel.
void prelu(Node& node) {
  Value x = node.input(0), slope = node.input(1);
  Extents of_slope = Node::extents_of(slope);
  const auto rank = static_cast<size_t>(Node::type_of(x).getRank());
  if (node.opset() < 7 && of_slope.size() == 1 && rank > 2 && tx::static_extent(of_slope[0]) != 1) {
    of_slope.resize(rank - 1, node.builder.getAffineConstantExpr(1));
    slope = node.reshape(slope, of_slope);
  }
  slope = node.broadcast(slope, Node::extents_of(x));
  node.set_result(by_sign(node, x, x, node.make<tx::MulOp>(Node::type_of(x), x, slope)));
}

// log(1 + exp(x)), computed so that no part overflows: max(x, 0) + log(1 + exp(-|x|)).
Value softplus_of(Node& node, Value x) {
  RankedTensorType type = Node::type_of(x);
  Value small = node.make<tx::ExpOp>(type, node.make<tx::NegOp>(type, node.make<tx::AbsOp>(type, x)));
  Value rest = node.make<tx::LogOp>(type, node.make<tx::AddOp>(type, small, node.splat(type, 1)));
  return node.make<tx::AddOp>(type, node.make<tx::MaxOp>(type, x, node.splat(type, 0)), rest);
}

void softplus(Node& node) {
  node.set_result(softplus_of(node, node.input(0)));
}

void mish(Node& node) {
  Value x = node.input(0);
  RankedTensorType type = Node::type_of(x);
  node.set_result(node.make<tx::MulOp>(type, x, node.make<tx::TanhOp>(type, softplus_of(node, x))));
}

void softsign(Node& node) {
  Value x = node.input(0);
  RankedTensorType type = Node::type_of(x);
  node.set_result(node.make<tx::DivOp>(type, x, node.make<tx::AddOp>(type, node.make<tx::AbsOp>(type, x), node.splat(type, 1))));
}

void thresholded_relu(Node& node) {
  Value x = node.input(0);
  RankedTensorType type = Node::type_of(x);
  Value above = compared(node, tx::CompareKind::gt, x, node.splat(type, node.number("alpha", 1)));
  node.set_result(node.make<tx::SelectOp>(type, above, x, node.splat(type, 0)));
}

void where(Node& node) {
  if (node.input_count() != 3) node.fail("it needs 3 inputs");
  AffineExpr no = node.builder.getAffineConstantExpr(0);
  auto choose = [&](ArrayRef<AffineExpr> elements) { return elements[0] == no ? elements[2] : elements[1]; };
  if (node.operand(0).bits == 1 && node.fold(choose, 0, 1)) return;
  Value condition = node.input(0), on_true = node.input(1), on_false = node.input(2);
  Extents extents = common_extents(node, {condition, on_true, on_false});
  on_true = node.broadcast(on_true, extents);
  node.set_result(
      node.make<tx::SelectOp>(Node::type_of(on_true), node.broadcast(condition, extents), on_true, node.broadcast(on_false, extents)));
}

void cast_to(Node& node, Type type) {
  if (const Operand& operand = node.operand(0); operand.elements && operand.bits == 0 && type.isSignlessInteger(64)) {
    node.set_elements(*operand.elements, operand.rank);
    return;
  }
  if (tx::narrow_format(type) || (node.operand(0).value && tx::narrow_format(Node::type_of(node.operand(0).value).getElementType()))) {
    node.set_result(cast_narrow(node, node.input(0), type, rounding_of(node)));
    return;
  }
  bool to_bool = type.isInteger(1), whole = to_bool || type.isSignlessInteger(32) || type.isSignlessInteger(64);
  AffineExpr zero = node.builder.getAffineConstantExpr(0);
  auto converted = [&](ArrayRef<AffineExpr> elements) {
    if (!to_bool) return elements[0];
    std::optional<bool> is_zero = node.graph.symbols.equal(elements[0], zero);
    return is_zero ? node.builder.getAffineConstantExpr(!*is_zero) : AffineExpr();
  };
  if (whole && node.fold(converted, type.getIntOrFloatBitWidth())) return;
  Value input = node.input(0);
  RankedTensorType to = tx::with_element_type(Node::type_of(input), type);
  node.set_result(to == input.getType() ? input : node.make<tx::CastOp>(to, input));
}

// Up to opset 5 the attribute is the type's name.
void cast(Node& node) {
  onnx::TensorProto::DataType named = onnx::TensorProto::UNDEFINED;
  if (node.opset() < 6 && !onnx::TensorProto::DataType_Parse(node.text("to", ""), &named))
    node.fail("attribute 'to' names no element type");
  int64_t wanted = node.opset() < 6 ? static_cast<int64_t>(named) : node.integer("to");
  if (wanted < 0 || wanted > std::numeric_limits<int32_t>::max()) node.fail("element type " + std::to_string(wanted) + " is not known");
  cast_to(node, element_type(node.builder.getContext(), static_cast<int32_t>(wanted), node.describe(), /*may_be_narrow=*/true));
}

void cast_like(Node& node) {
  cast_to(node, Node::type_of(node.input(1)).getElementType());
}

}  // namespace

const Table& elementwise_operators() {
  static const Table table = {
      {"Abs", unary<tx::AbsOp>},
      {"Add", binary<tx::AddOp>},
      {"And", logical<false>},
      {"Cast", cast},
      {"CastLike", cast_like},
      {"Ceil", unary<tx::CeilOp>},
      {"Celu", elu},
      {"Clip", clip},
      {"Cos", unary<tx::CosOp>},
      {"Div", binary<tx::DivOp>},
      {"Elu", elu},
      {"Equal", compare<tx::CompareKind::eq>},
      {"Erf", unary<tx::ErfOp>},
      {"Exp", unary<tx::ExpOp>},
      {"Floor", unary<tx::FloorOp>},
      {"Gelu", gelu},
      {"Greater", compare<tx::CompareKind::gt>},
      {"GreaterOrEqual", compare<tx::CompareKind::ge>},
      {"HardSigmoid", hard_sigmoid},
      {"HardSwish", hard_sigmoid},
      {"IsInf", is_inf},
      {"IsNaN", is_nan},
      {"LeakyRelu", leaky_relu},
      {"Less", compare<tx::CompareKind::lt>},
      {"LessOrEqual", compare<tx::CompareKind::le>},
      {"Log", unary<tx::LogOp>},
      {"Max", variadic<tx::MaxOp>},
      {"Mean", mean},
      {"Min", variadic<tx::MinOp>},
      {"Mish", mish},
      {"Mod", mod},
      {"Mul", binary<tx::MulOp>},
      {"Neg", negate},
      {"Not", logical_not},
      {"Or", logical<true>},
      {"PRelu", prelu},
      {"Pow", pow},
      {"Reciprocal", unary<tx::ReciprocalOp>},
      {"Relu", unary<tx::ReluOp>},
      {"Round", unary<tx::RoundOp>},
      {"Selu", selu},
      {"Sigmoid", unary<tx::SigmoidOp>},
      {"Sign", sign},
      {"Sin", unary<tx::SinOp>},
      {"Softplus", softplus},
      {"Softsign", softsign},
      {"Sqrt", unary<tx::SqrtOp>},
      {"Sub", binary<tx::SubOp>},
      {"Sum", variadic<tx::AddOp>},
      {"Tanh", unary<tx::TanhOp>},
      {"ThresholdedRelu", thresholded_relu},
      {"Where", where},
      {"Xor", compare<tx::CompareKind::ne>},
  };
  return table;
}

}  // namespace heddle::import
