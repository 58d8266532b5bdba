// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of each element. Floats of 16 bits are computed in f32, integers and bools in the type of the result.
#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/import/aten_program.h"
#include "compiler/import/float_functions.h"
#include "compiler/import/onnx_writer.h"

using namespace mlir;

namespace heddle::import::aten {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

using Function = Value (*)(Op&, Value);

// A function of floats.
template <Function function>
void floats(Op& op) {
  op.set(function(op, op.computing(op.tensor("self"))));
}
template <typename OpT>
Value one(Op& op, Value x) {
  return op.unary<OpT>(x);
}
template <typename OpT>
void plain(Op& op) {
  floats<one<OpT>>(op);
}

// By the operator of ONNX with the same meaning.
template <const char* name>
Value named(Op& op, Value x) {
  return op.one_by_onnx(name, {x});
}
constexpr char acos_name[] = "Acos", acosh_name[] = "Acosh", asin_name[] = "Asin", asinh_name[] = "Asinh", atan_name[] = "Atan",
               atanh_name[] = "Atanh", cosh_name[] = "Cosh", sinh_name[] = "Sinh", tan_name[] = "Tan";

// Whole numbers stay as they are.
template <typename OpT>
void rounded(Op& op) {
  Value x = op.tensor("self");
  op.set(Op::is_float(Op::element_of(x)) ? op.unary<OpT>(op.computing(x)) : x);
}
Value cut_off(Op& op, Value x) {
  return op.m.select(op.m.compare(tx::CompareKind::lt, x, op.m.number(x, 0)), op.unary<tx::CeilOp>(x), op.unary<tx::FloorOp>(x));
}
void trunc(Op& op) {
  Value x = op.tensor("self");
  op.set(Op::is_float(Op::element_of(x)) ? cut_off(op, op.computing(x)) : x);
}

// With a number of decimals, which may be negative.
void round_decimals(Op& op) {
  Value x = op.tensor("self");
  const int64_t decimals = op.integer("decimals");
  if (!Op::is_float(Op::element_of(x))) op.unsupported("it is not supported for integers");
  if (decimals < -30 || decimals > 30) op.unsupported("it is not supported for " + std::to_string(decimals) + " decimals");
  x = op.computing(x);
  Value factor = op.m.number(x, std::pow(10.0, static_cast<double>(std::abs(decimals))));
  op.set(decimals < 0 ? op.m.mul(op.m.round(op.m.div(x, factor)), factor) : op.m.div(op.m.round(op.m.mul(x, factor)), factor));
}

Value exp2(Op& op, Value x) {
  return op.unary<tx::ExpOp>(op.m.mul(x, op.m.number(x, std::numbers::ln2)));
}
Value log2(Op& op, Value x) {
  return op.m.mul(op.unary<tx::LogOp>(x), op.m.number(x, std::numbers::log2e));
}
Value log10(Op& op, Value x) {
  return op.m.mul(op.unary<tx::LogOp>(x), op.m.number(x, std::numbers::log10e));
}
Value silu(Op& op, Value x) {
  return op.m.mul(x, op.unary<tx::SigmoidOp>(x));
}
Value erfc(Op& op, Value x) {
  return complement_of_erf(op.node, x);
}
Value expm1(Op& op, Value x) {
  return exp_minus_one(op.node, x);
}
Value log1p(Op& op, Value x) {
  return log_plus_one(op.node, x);
}

void absolute(Op& op) {
  Value x = op.tensor("self");
  const bool is_unsigned = Op::element_of(x).isUnsignedInteger() || Op::element_of(x).isInteger(1);
  op.set(is_unsigned ? x : op.unary<tx::AbsOp>(x));
}
void neg(Op& op) {
  op.set(op.unary<tx::NegOp>(op.tensor("self")));
}
void relu(Op& op) {
  op.set(op.unary<tx::ReluOp>(op.tensor("self")));
}
void sign(Op& op) {
  Value x = op.tensor("self");
  if (Op::element_of(x).isInteger(1)) return op.set(x);
  const Arithmetic& m = op.m;
  Value zero = m.number(x, 0), is_above = m.compare(tx::CompareKind::gt, x, zero), is_below = m.compare(tx::CompareKind::lt, x, zero);
  Value below = Op::element_of(x).isUnsignedInteger() ? zero : m.select(is_below, m.number(x, -1), zero);
  op.set(m.select(is_above, m.number(x, 1), below));  // 0 of NaN
}
void is_nan(Op& op) {
  Value x = op.tensor("self");
  op.set(op.m.compare(tx::CompareKind::ne, x, x));
}
void is_inf(Op& op) {
  Value x = op.tensor("self");
  if (!Op::is_float(Op::element_of(x))) return op.set(op.node.splat(op.result_type(), 0));
  op.set(op.m.compare(tx::CompareKind::eq, op.m.abs(x), op.m.number(x, infinity)));
}
void is_finite(Op& op) {
  Value x = op.tensor("self");
  if (!Op::is_float(Op::element_of(x))) return op.set(op.node.splat(op.result_type(), 1));
  op.set(op.m.compare(tx::CompareKind::lt, op.m.abs(x), op.m.number(x, infinity)));
}
void signbit(Op& op) {
  Value x = op.tensor("self");
  if (Op::is_float(Op::element_of(x))) op.unsupported("it is not supported for floats");
  op.set(op.m.compare(tx::CompareKind::lt, x, op.m.number(x, 0)));
}
void logical_not(Op& op) {
  op.set(op.negated(op.tensor("self")));
}
void bitwise_not(Op& op) {
  Value x = op.tensor("self");
  op.set(Op::element_of(x).isInteger(1) ? op.negated(x) : op.one_by_onnx("BitwiseNot", {x}));
}

// --------------------------------------------------------------------------------------------------- activations

void gelu(Op& op) {
  Value x = op.computing(op.tensor("self"));
  const std::string approximate = op.word("approximate", "none");
  op.set(op.by_onnx("Gelu", {Operand{x, {}, 0}}, 1, [&](onnx::NodeProto& node) {
             NodeWriter::set(node, "approximate", approximate);
           }).front());
}
// scale * x above 0, else scale * alpha * (exp(input_scale * x) - 1)
void elu(Op& op) {
  Value x = op.computing(op.tensor("self"));
  const Arithmetic& m = op.m;
  const double alpha = op.number("alpha", 1), scale = op.number("scale", 1), input_scale = op.number("input_scale", 1);
  Value is_above = m.compare(tx::CompareKind::gt, x, m.number(x, 0));
  Value below = m.mul(exp_minus_one(op.node, m.mul(x, m.number(x, input_scale))), m.number(x, alpha * scale));
  op.set(m.select(is_above, m.mul(x, m.number(x, scale)), below));
}
void leaky_relu(Op& op) {
  Value x = op.computing(op.tensor("self"));
  Value is_above = op.m.compare(tx::CompareKind::gt, x, op.m.number(x, 0));
  op.set(op.m.select(is_above, x, op.m.mul(x, op.m.number(x, op.number("negative_slope", 0.01)))));
}
void threshold_backward(Op& op) {
  SmallVector<Value> both = op.alike({op.term("grad_output"), op.term("self")}, op.promoted({op.term("grad_output"), op.term("self")}));
  Value is_open = op.m.compare(tx::CompareKind::le, both[1], op.m.number(both[1], op.number("threshold")));
  op.set(op.m.select(is_open, op.m.number(both[0], 0), both[0]));
}
Value hard_sigmoid_of(Op& op, Value x) {
  const Arithmetic& m = op.m;
  return m.div(m.min(m.max(m.add(x, m.number(x, 3)), m.number(x, 0)), m.number(x, 6)), m.number(x, 6));
}
Value hard_swish(Op& op, Value x) {
  const Arithmetic& m = op.m;
  return m.div(m.mul(x, m.min(m.max(m.add(x, m.number(x, 3)), m.number(x, 0)), m.number(x, 6))), m.number(x, 6));
}

// ------------------------------------------------------------------------------------------------- limits and types

// Between two limits, either of which may be missing; tensors or numbers.
void clamp(Op& op) {
  SmallVector<Term> terms{op.term("self")};
  int low = -1, high = -1;
  for (const char* name : {"min", "min_val"}) {
    if (!op.has(name)) continue;
    low = static_cast<int>(terms.size());
    terms.push_back(op.term(name));
  }
  for (const char* name : {"max", "max_val"}) {
    if (!op.has(name)) continue;
    high = static_cast<int>(terms.size());
    terms.push_back(op.term(name));
  }
  SmallVector<Value> values = op.alike(terms, op.result_element());
  Value x = values[0];
  if (low > 0) x = op.m.max(x, values[static_cast<size_t>(low)]);
  if (high > 0) x = op.m.min(x, values[static_cast<size_t>(high)]);
  op.set(x);
}
void same(Op& op) {
  op.set(op.tensor("self"));
}
void first(Op& op) {
  op.set(op.tensor("a"));
}
// copy(self, src): src, with the extents and elements of self.
void copy(Op& op) {
  op.set(op.node.broadcast(op.converted(op.tensor("src"), op.result_element()), op.result_extents()));
}

}  // namespace

const Table& elementwise_ops() {
  static const Table table = {
      {"aten.abs.default", absolute},
      {"aten.acos.default", floats<named<acos_name>>},
      {"aten.acosh.default", floats<named<acosh_name>>},
      {"aten.alias.default", same},
      {"aten.asin.default", floats<named<asin_name>>},
      {"aten.asinh.default", floats<named<asinh_name>>},
      {"aten.atan.default", floats<named<atan_name>>},
      {"aten.atanh.default", floats<named<atanh_name>>},
      {"aten.bitwise_not.default", bitwise_not},
      {"aten.ceil.default", rounded<tx::CeilOp>},
      {"aten.clamp.Tensor", clamp},
      {"aten.clamp.default", clamp},
      {"aten.clamp_max.default", clamp},
      {"aten.clamp_min.default", clamp},
      {"aten.clone.default", same},
      {"aten.contiguous.default", same},
      {"aten.copy.default", copy},
      {"aten.cos.default", plain<tx::CosOp>},
      {"aten.cosh.default", floats<named<cosh_name>>},
      {"aten.detach.default", same},
      {"aten.elu.default", elu},
      {"aten.erf.default", plain<tx::ErfOp>},
      {"aten.erfc.default", floats<erfc>},
      {"aten.exp.default", plain<tx::ExpOp>},
      {"aten.exp2.default", floats<exp2>},
      {"aten.expm1.default", floats<expm1>},
      {"aten.floor.default", rounded<tx::FloorOp>},
      {"aten.gelu.default", gelu},
      {"aten.hardsigmoid.default", floats<hard_sigmoid_of>},
      {"aten.hardswish.default", floats<hard_swish>},
      {"aten.hardtanh.default", clamp},
      {"aten.isfinite.default", is_finite},
      {"aten.isinf.default", is_inf},
      {"aten.isnan.default", is_nan},
      {"aten.leaky_relu.default", leaky_relu},
      {"aten.lift_fresh_copy.default", same},
      {"aten.log.default", plain<tx::LogOp>},
      {"aten.log10.default", floats<log10>},
      {"aten.log1p.default", floats<log1p>},
      {"aten.log2.default", floats<log2>},
      {"aten.logical_not.default", logical_not},
      {"aten.neg.default", neg},
      {"aten.reciprocal.default", plain<tx::ReciprocalOp>},
      {"aten.relu.default", relu},
      {"aten.round.decimals", round_decimals},
      {"aten.round.default", rounded<tx::RoundOp>},
      {"aten.rsqrt.default", plain<tx::RsqrtOp>},
      {"aten.sigmoid.default", plain<tx::SigmoidOp>},
      {"aten.sign.default", sign},
      {"aten.signbit.default", signbit},
      {"aten.silu.default", floats<silu>},
      {"aten.sin.default", plain<tx::SinOp>},
      {"aten.sinh.default", floats<named<sinh_name>>},
      {"aten.sqrt.default", plain<tx::SqrtOp>},
      {"aten.tan.default", floats<named<tan_name>>},
      {"aten.tanh.default", plain<tx::TanhOp>},
      {"aten.threshold_backward.default", threshold_backward},
      {"aten.trunc.default", trunc},
      {"aten._to_copy.default", same},
      {"prims.convert_element_type.default", first},
  };
  return table;
}

}  // namespace heddle::import::aten
