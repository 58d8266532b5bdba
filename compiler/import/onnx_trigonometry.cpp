// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trigonometric and hyperbolic functions and their inverses, from exponentials, logarithms, roots and polynomials. 16-bit floats are computed in f32.
#include <numbers>

#include "compiler/import/onnx_graph.h"

using namespace mlir;

namespace heddle::import {
namespace {

// Arithmetic on tensors of one type of floats.
class Floats {
 public:
  explicit Floats(Node& node) : node(node), input_(node.input(0)) {
    RankedTensorType own = Node::type_of(input_);
    Type element = own.getElementType();
    if (!llvm::isa<FloatType>(element)) node.refuse_inputs("its input needs elements that are floats");
    const bool is_wide = element.isF64();
    type_ = tx::with_element_type(own, is_wide ? element : node.builder.getF32Type());
    bools_ = tx::with_element_type(own, node.builder.getI1Type());
    x = node.converted(input_, type_.getElementType());
  }

  Node& node;
  Value x;

  bool is_f64() const { return type_.getElementType().isF64(); }
  Value number(double value) const { return node.splat(type_, value); }
  Value add(Value a, Value b) const { return node.make<tx::AddOp>(type_, a, b); }
  Value sub(Value a, Value b) const { return node.make<tx::SubOp>(type_, a, b); }
  Value mul(Value a, Value b) const { return node.make<tx::MulOp>(type_, a, b); }
  Value div(Value a, Value b) const { return node.make<tx::DivOp>(type_, a, b); }
  Value abs(Value a) const { return node.make<tx::AbsOp>(type_, a); }
  Value exp(Value a) const { return node.make<tx::ExpOp>(type_, a); }
  Value log(Value a) const { return node.make<tx::LogOp>(type_, a); }
  Value sqrt(Value a) const { return node.make<tx::SqrtOp>(type_, a); }
  Value sin(Value a) const { return node.make<tx::SinOp>(type_, a); }
  Value cos(Value a) const { return node.make<tx::CosOp>(type_, a); }
  Value is_less(Value a, double bound) const { return node.make<tx::CompareOp>(bools_, tx::CompareKind::lt, a, number(bound)); }
  Value is_above(Value a, double bound) const { return node.make<tx::CompareOp>(bools_, tx::CompareKind::gt, a, number(bound)); }
  Value select(Value condition, Value a, Value b) const { return node.make<tx::SelectOp>(type_, condition, a, b); }
  // The magnitude with the sign of x; zeros of both signs stay as they are.
  Value with_sign_of_x(Value magnitude) const {
    Value negative = select(is_less(x, 0), node.make<tx::NegOp>(type_, magnitude), x);
    return select(is_above(x, 0), magnitude, negative);
  }
  Value polynomial(Value a, ArrayRef<double> coefficients) const {
    Value result = number(coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back())) result = add(mul(result, a), number(coefficient));
    return result;
  }
  void set_result(Value result) const { node.set_result(node.converted(result, Node::type_of(input_).getElementType())); }

 private:
  Value input_;
  RankedTensorType type_, bools_;
};

// atan(a) for a >= 0. Above 1 it is pi / 2 - atan(1 / a), above tan(pi / 8) it is pi / 4 + atan((a - 1) / (a + 1)). For the rest, atan(t) / t as a
// polynomial in t^2 through its values at the nodes of Chebyshev's polynomials, with an error of 7e-10 for f32, and of 4e-16 for f64.
Value atan_of(const Floats& f, Value a) {
  constexpr double single[] = {0.9999999993712283,   -0.33333306893049197, 0.1999818304110657,
                               -0.14239532669965557, 0.10569828808183758,  -0.06026305231103937};
  constexpr double wide[] = {1.0,
                             -0.3333333333332835,
                             0.1999999999888747,
                             -0.14285714178620587,
                             0.11111105545124962,
                             -0.090907345436451,
                             0.07688790221012176,
                             -0.06619542255044335,
                             0.05457730327694262,
                             -0.027165032360662904,
                             -0.05009386301405275,
                             0.17514090103195812,
                             -0.18561349763933618};
  Value one = f.number(1), is_large = f.is_above(a, 1);
  Value t = f.select(is_large, f.div(one, a), a);
  Value is_middle = f.is_above(t, 0.41421356237309503);
  Value u = f.select(is_middle, f.div(f.sub(t, one), f.add(t, one)), t);
  Value result = f.mul(u, f.polynomial(f.mul(u, u), f.is_f64() ? ArrayRef<double>(wide) : ArrayRef<double>(single)));
  result = f.select(is_middle, f.add(f.number(std::numbers::pi / 4), result), result);
  return f.select(is_large, f.sub(f.number(std::numbers::pi / 2), result), result);
}

// atanh(s) for |s| of at most 1 / 4: s + s^3 / 3 + s^5 / 5 + ...
Value small_atanh(const Floats& f, Value s) {
  SmallVector<double> coefficients;
  for (int i = 0; i < (f.is_f64() ? 13 : 6); ++i) coefficients.push_back(1.0 / (2 * i + 1));
  return f.mul(s, f.polynomial(f.mul(s, s), coefficients));
}

// log(1 + y) for y >= 0: 2 atanh(y / (2 + y)) below 2 / 3.
Value log_of_one_plus(const Floats& f, Value y) {
  Value small = f.mul(f.number(2), small_atanh(f, f.div(y, f.add(f.number(2), y))));
  return f.select(f.is_less(y, 2.0 / 3), small, f.log(f.add(f.number(1), y)));
}

// Whose squares are beyond the precision of 1.
constexpr double large = 1e9;

void tan(Node& node) {
  Floats f(node);
  f.set_result(f.div(f.sin(f.x), f.cos(f.x)));
}

void atan(Node& node) {
  Floats f(node);
  f.set_result(f.with_sign_of_x(atan_of(f, f.abs(f.x))));
}

// atan(x / sqrt(1 - x^2))
void asin(Node& node) {
  Floats f(node);
  Value a = f.abs(f.x), one = f.number(1);
  Value result = atan_of(f, f.div(a, f.sqrt(f.mul(f.sub(one, a), f.add(one, a)))));
  f.set_result(f.with_sign_of_x(result));
}

// 2 atan(sqrt((1 - x) / (1 + x)))
void acos(Node& node) {
  Floats f(node);
  Value one = f.number(1);
  f.set_result(f.mul(f.number(2), atan_of(f, f.sqrt(f.div(f.sub(one, f.x), f.add(one, f.x))))));
}

// From exp(|x| / 2), whose square overflows where the result does. Near 0, sinh is a series, since the exponentials cancel out.
void sinh(Node& node) {
  Floats f(node);
  Value a = f.abs(f.x), half = f.exp(f.mul(a, f.number(0.5)));
  Value rest = f.div(f.div(f.number(0.5), half), half);
  SmallVector<double> coefficients{1};
  for (int i = 1; i < (f.is_f64() ? 10 : 6); ++i) coefficients.push_back(coefficients.back() / (2 * i * (2 * i + 1)));
  Value series = f.mul(a, f.polynomial(f.mul(a, a), coefficients));
  Value result = f.select(f.is_less(a, 1), series, f.sub(f.mul(f.mul(half, f.number(0.5)), half), rest));
  f.set_result(f.with_sign_of_x(result));
}

void cosh(Node& node) {
  Floats f(node);
  Value half = f.exp(f.mul(f.abs(f.x), f.number(0.5)));
  f.set_result(f.add(f.mul(f.mul(half, f.number(0.5)), half), f.div(f.div(f.number(0.5), half), half)));
}

// log(a + sqrt(a^2 + 1)) = log(1 + a + a^2 / (1 + sqrt(a^2 + 1)))
void asinh(Node& node) {
  Floats f(node);
  Value a = f.abs(f.x), one = f.number(1), square = f.mul(a, a);
  Value y = f.add(a, f.div(square, f.add(one, f.sqrt(f.add(square, one)))));
  Value of_large = f.add(f.log(a), f.number(std::numbers::ln2));
  f.set_result(f.with_sign_of_x(f.select(f.is_above(a, large), of_large, log_of_one_plus(f, y))));
}

// log(x + sqrt(x^2 - 1)); not a number below 1.
void acosh(Node& node) {
  Floats f(node);
  Value one = f.number(1), above = f.sub(f.x, one);
  Value y = f.add(above, f.mul(f.sqrt(above), f.sqrt(f.add(f.x, one))));
  Value of_large = f.add(f.log(f.x), f.number(std::numbers::ln2));
  f.set_result(f.select(f.is_above(f.x, large), of_large, log_of_one_plus(f, y)));
}

void atanh(Node& node) {
  Floats f(node);
  Value one = f.number(1), a = f.abs(f.x);
  Value of_large = f.mul(f.number(0.5), f.log(f.div(f.add(one, a), f.sub(one, a))));
  f.set_result(f.with_sign_of_x(f.select(f.is_less(a, 0.25), small_atanh(f, a), of_large)));
}

}  // namespace

const Table& trigonometry_operators() {
  static const Table table = {
      {"Acos", acos},   {"Acosh", acosh}, {"Asin", asin}, {"Asinh", asinh}, {"Atan", atan},
      {"Atanh", atanh}, {"Cosh", cosh},   {"Sinh", sinh}, {"Tan", tan},
  };
  return table;
}

}  // namespace heddle::import
