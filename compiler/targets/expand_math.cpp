// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Series are Taylor's (exp, tanh near 0) and that of artanh (log), so that f32 and f64 share one implementation and differ in the number of terms;
// erf has its own. Tests check the largest errors.
#include "compiler/targets/expand_math.h"

#include <cmath>
#include <numbers>

#include "compiler/stage/value_builder.h"
#include "compiler/targets/single_precision.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::targets {

namespace {

class Body : public stage::ValueBuilder {
 public:
  Body(OpBuilder& builder, Location location, Type type, const ScaleByPower& scale)
      : ValueBuilder(builder, location, type), scale_(scale) {}

  Type integer() const { return like(builder_.getIntegerType(is_double() ? 64 : 32)); }
  Value fma(Value a, Value b, Value c) { return make<math::FmaOp>(a, b, c); }
  Value bits(Value a) { return make<arith::BitcastOp>(integer(), a); }
  Value from_bits(Value a) { return make<arith::BitcastOp>(type_, a); }

  // Horner's scheme; coefficients start with the constant one.
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value result = constant(coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back())) result = fma(result, x, constant(coefficient));
    return result;
  }

  Value exp(Value x);
  Value log(Value x);
  Value tanh(Value x);
  Value erf(Value x);

 private:
  const ScaleByPower& scale_;
};

// exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln 2 / 2. Without an instruction for it, 2^n is applied as two factors, so that results cover
// denormal numbers as well as the largest ones.
Value Body::exp(Value x) {
  bool wide = is_double();
  Value low = constant(wide ? -746 : -104), high = constant(wide ? 710 : 89);
  Value clamped = select(compare(arith::CmpFPredicate::OLT, x, low), low, x);
  clamped = select(compare(arith::CmpFPredicate::OGT, clamped, high), high, clamped);
  Value n = make<math::RoundEvenOp>(mul(clamped, constant(std::numbers::log2e)));
  // ln 2 in two parts; n * part 1 is exact.
  double part1 = wide ? 0x1.62e42feep-1 : 0x1.62e4p-1;
  Value r = fma(n, constant(-part1), clamped);
  r = fma(n, constant(-(wide ? 0x1.a39ef35793c76p-33 : std::numbers::ln2 - 0x1.62e4p-1)), r);
  SmallVector<double> series;
  double factorial = 1;
  for (int k = 0; k <= (wide ? 13 : 7); ++k) {
    if (k > 0) factorial *= k;
    series.push_back(1 / factorial);
  }
  Value p = polynomial(r, series);
  if (Value scaled = scale_ ? scale_(builder_, location_, p, n) : Value()) return scaled;
  Value exponent = make<arith::FPToSIOp>(integer(), n);
  Value half = make<arith::ShRSIOp>(exponent, constant(1, integer()));
  Value rest = make<arith::SubIOp>(exponent, half);
  auto power_of_two = [&](Value k) {
    Value biased = make<arith::AddIOp>(k, constant(wide ? 1023 : 127, integer()));
    return from_bits(make<arith::ShLIOp>(biased, constant(wide ? 52 : 23, integer())));
  };
  Value result = mul(mul(p, power_of_two(half)), power_of_two(rest));
  return select(compare(arith::CmpFPredicate::UNO, x, x), x, result);
}

// log(x) = n ln 2 + 2 artanh(s), s = (m - 1) / (m + 1), x = 2^n m with sqrt(1/2) <= m < sqrt(2).
Value Body::log(Value x) {
  bool wide = is_double();
  int mantissa_bits = wide ? 52 : 23;
  double smallest = wide ? 0x1p-1022 : 0x1p-126, scale = wide ? 0x1p54 : 0x1p25;
  Value tiny = compare(arith::CmpFPredicate::OLT, x, constant(smallest));
  Value scaled = select(tiny, mul(x, constant(scale)), x);
  Value raw = bits(scaled);
  // Subtracting the bits of sqrt(1/2) splits m and n at that mantissa.
  int64_t root_half = wide ? 0x3fe6a09e667f3bcd : 0x3f3504f3;
  auto integer_constant = [&](int64_t value) -> Value {
    Type element = getElementTypeOrSelf(integer());
    TypedAttr scalar = builder_.getIntegerAttr(element, value);
    if (auto vector = llvm::dyn_cast<VectorType>(integer())) scalar = SplatElementsAttr::get(vector, scalar);
    return builder_.create<arith::ConstantOp>(location_, scalar);
  };
  Value shifted = make<arith::SubIOp>(raw, integer_constant(root_half));
  Value n_integer = make<arith::ShRSIOp>(shifted, integer_constant(mantissa_bits));
  Value m = from_bits(make<arith::SubIOp>(raw, make<arith::ShLIOp>(n_integer, integer_constant(mantissa_bits))));
  Value n = make<arith::SIToFPOp>(type_, n_integer);
  n = select(tiny, sub(n, constant(wide ? 54 : 25)), n);
  Value f = sub(m, constant(1));
  Value s = div(f, add(m, constant(1)));
  Value z = mul(s, s);
  SmallVector<double> series;
  for (int k = 1; k <= (wide ? 11 : 5); ++k) series.push_back(2.0 / (2 * k + 1));
  Value correction = mul(mul(s, z), polynomial(z, series));
  double part1 = wide ? 0x1.62e42feep-1 : 0x1.62e4p-1;
  Value result = fma(n, constant(wide ? 0x1.a39ef35793c76p-33 : std::numbers::ln2 - 0x1.62e4p-1), correction);
  result = add(fma(n, constant(part1), add(s, s)), result);
  double infinity = std::numeric_limits<double>::infinity();
  result = select(compare(arith::CmpFPredicate::OEQ, x, constant(infinity)), x, result);
  result = select(compare(arith::CmpFPredicate::OEQ, x, constant(0)), constant(-infinity), result);
  return select(compare(arith::CmpFPredicate::UGE, x, constant(0)), select(compare(arith::CmpFPredicate::UNO, x, x), x, result),
                constant(std::numeric_limits<double>::quiet_NaN()));
}

Value Body::tanh(Value x) {
  // Taylor below 0.25; 1 - 2 / (exp(2 |x|) + 1) above, where there is no cancellation.
  static constexpr double series[] = {1.0,
                                      -1.0 / 3,
                                      2.0 / 15,
                                      -17.0 / 315,
                                      62.0 / 2835,
                                      -1382.0 / 155925,
                                      21844.0 / 6081075,
                                      -929569.0 / 638512875,
                                      6404582.0 / 10854718875,
                                      -443861162.0 / 1856156927625};
  Value size = abs(x);
  Value z = mul(x, x);
  Value near = mul(x, polynomial(z, ArrayRef<double>(series).take_front(is_double() ? 10 : 5)));
  Value e = exp(add(size, size));
  Value far = sub(constant(1), div(constant(2), add(e, constant(1))));
  far = make<math::CopySignOp>(far, x);
  return select(compare(arith::CmpFPredicate::OLT, size, constant(0.25)), near, far);
}

// Below `border`, x P(x^2); above it, 1 - 2^y, where y = log2(erfc(t)) is a polynomial in t = |x|, clamped to where erf rounds to 1. In f32 the
// coefficients minimize the largest error, relative in the first form and absolute in the second. In f64, P is Taylor's, and the other
// polynomial, which gives y + t^2 / ln 2, interpolates at Chebyshev's points.
Value Body::erf(Value x) {
  const bool wide = is_double();
  static constexpr double f32_near[] = {1.12837916, -0.376125505, 0.112824553, -0.026791463, 0.00503218125, -0.000620325474},
                          f32_log[] = {-0.00230464259, -1.61756567, -0.936750343, -0.132889787, 0.0229631021, -0.00186945481},
                          f32_power[] = {1.00000007, 0.693146967, 0.240221197, 0.0555071327, 0.00967554133, 0.00132764715};
  // In t - 3.
  static constexpr double f64_log[] = {
      -2.4819592291948025,     -0.43822394077669452,   0.06146714924865234,     -0.010693099537074355,   0.0019524142577084006,
      -0.00035445882300692871, 6.2153886483657788e-05, -1.0265446536209055e-05, 1.5428020378106348e-06,  -1.9646158166152235e-07,
      1.6533628323505545e-08,  9.1434121296638029e-10, -8.8059061393809407e-10, 2.7276033990467334e-10,  -6.3521300055278585e-11,
      1.2304400422219379e-11,  -1.973741548700352e-12, 2.3928855631636192e-13,  -1.2431368509103412e-14, -4.9202081275950209e-15,
      2.6434714014620792e-15,  -8.016615756302553e-16, 1.5477696228975053e-16,  -1.7161412974096289e-17, 8.2854196507514928e-19};
  const double border = 0.875, one_from = wide ? 6 : 4;
  SmallVector<double> near_series(std::begin(f32_near), std::end(f32_near));
  if (wide) {
    near_series.clear();
    double factorial = 1;
    for (int k = 0; k <= 16; ++k) {
      if (k > 0) factorial *= -k;
      near_series.push_back(2 / std::sqrt(std::numbers::pi) / (factorial * (2 * k + 1)));
    }
  }
  Value size = abs(x), near = mul(x, polynomial(mul(x, x), near_series));
  Value t = select(compare(arith::CmpFPredicate::OGT, size, constant(one_from)), constant(one_from), size);
  Value left;  // minus erf(t)
  if (wide) {
    Value y = fma(mul(t, t), constant(-std::numbers::log2e), polynomial(sub(t, constant(3)), f64_log));
    left = sub(exp(mul(y, constant(std::numbers::ln2))), constant(1));
  } else {
    Value y = polynomial(t, f32_log), n = make<math::RoundEvenOp>(y), p = polynomial(sub(y, n), f32_power);
    Value scaled = scale_ ? scale_(builder_, location_, p, n) : Value();
    if (scaled) {
      left = sub(scaled, constant(1));
    } else {
      Value biased = make<arith::AddIOp>(make<arith::FPToSIOp>(integer(), n), constant(127, integer()));
      left = fma(p, from_bits(make<arith::ShLIOp>(biased, constant(23, integer()))), constant(-1));
    }
  }
  return select(compare(arith::CmpFPredicate::ULT, size, constant(border)), near, make<math::CopySignOp>(left, x));
}

// x^y through f64, so that y log|x| keeps its digits; then the special cases of pow in C's annex F.
Value power(OpBuilder& builder, Location location, Value x, Value y, const ScaleByPower& scale) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Body own(builder, location, x.getType(), scale);
  Body body(builder, location, own.like(builder.getF64Type()), scale);
  auto wide = [&](Value value) { return own.is_double() ? value : body.make<arith::ExtFOp>(body.type(), value); };
  Value result = body.exp(body.mul(wide(y), body.log(body.abs(wide(x)))));
  if (!own.is_double()) result = own.make<arith::TruncFOp>(x.getType(), result);

  Value zero = own.constant(0), one = own.constant(1);
  result = own.select(own.compare(arith::CmpFPredicate::OEQ, own.abs(x), one), one, result);  // also where y is infinite, or NaN
  // Negative only for odd y; of negative numbers, finite ones have powers for whole y only.
  Value floor = own.make<math::FloorOp>(y), half = own.mul(y, own.constant(0.5));
  auto both = [&](Value a, Value b) { return own.make<arith::AndIOp>(a, b); };
  Value is_odd =
      both(own.compare(arith::CmpFPredicate::OEQ, floor, y), own.compare(arith::CmpFPredicate::ONE, own.make<math::FloorOp>(half), half));
  result = own.select(is_odd, own.make<math::CopySignOp>(result, x), result);
  Value is_negative =
      both(own.compare(arith::CmpFPredicate::OLT, x, zero), own.compare(arith::CmpFPredicate::OGT, x, own.constant(-infinity)));
  result = own.select(both(is_negative, own.compare(arith::CmpFPredicate::UNE, floor, y)),
                      own.constant(std::numeric_limits<double>::quiet_NaN()), result);
  return own.select(own.compare(arith::CmpFPredicate::OEQ, y, zero), one, result);
}

// Through f64: x = n * pi / 2 + r, |r| <= pi / 4, with pi / 2 in two parts, of which the second is the rounding error of the first; then Taylor's
// series. f32 from 2^48 on, for which n loses digits, are left to single_precision.h: a branch that ordinary vectors do not take. f64 have no such
// branch: from about 2^30 on, small results are less exact, and from 2^51 on they are wrong, up to infinity.
Value sine_or_cosine(OpBuilder& builder, Location location, Value x, bool is_cosine) {
  const ScaleByPower none;
  Body own(builder, location, x.getType(), none);
  Body body(builder, location, own.like(builder.getF64Type()), none);
  Value wide = own.is_double() ? x : body.make<arith::ExtFOp>(body.type(), x);
  // The lowest bits of the sum are n, which counts quarters of the circle.
  Value whole = body.constant(0x1.8p52), sum = body.fma(wide, body.constant(2 / std::numbers::pi), whole), n = body.sub(sum, whole);
  Value r = body.fma(n, body.constant(-0x1.921fb54442d18p+0), wide);
  r = body.fma(n, body.constant(-0x1.1a62633145c07p-54), r);
  SmallVector<double> odd, even;
  double factorial = 1;
  for (int k = 0; k <= 8; ++k) {
    if (k > 0) factorial *= -(2 * k - 1) * (2 * k);
    even.push_back(1 / factorial);
    odd.push_back(1 / (factorial * (2 * k + 1)));
  }
  Value square = body.mul(r, r), sine = body.mul(r, body.polynomial(square, odd)), cosine = body.polynomial(square, even);
  auto integer = [&](double value) { return body.constant(value, body.integer()); };
  Value quarter = body.bits(sum);
  if (is_cosine) quarter = body.make<arith::AddIOp>(quarter, integer(1));
  Value is_odd = body.make<arith::CmpIOp>(arith::CmpIPredicate::ne, body.make<arith::AndIOp>(quarter, integer(1)), integer(0));
  Value sign = body.make<arith::ShLIOp>(body.make<arith::AndIOp>(quarter, integer(2)), integer(62));
  Value result = body.from_bits(body.make<arith::XOrIOp>(body.bits(body.select(is_odd, cosine, sine)), sign));
  if (!own.is_double()) result = own.make<arith::TruncFOp>(x.getType(), result);
  if (!is_cosine) result = own.select(own.compare(arith::CmpFPredicate::OEQ, x, own.constant(0)), x, result);  // of -0, it is -0
  if (own.is_double()) return result;

  Value is_large = own.compare(arith::CmpFPredicate::OGE, own.abs(x), own.constant(0x1p48)), any = is_large;
  if (llvm::isa<VectorType>(x.getType())) any = builder.create<vector::ReductionOp>(location, vector::CombiningKind::OR, is_large);
  auto choice = builder.create<scf::IfOp>(
      location, any,
      [&](OpBuilder& then, Location at) {
        Value exact = single_sine_or_cosine(then, at, x, is_cosine);
        then.create<scf::YieldOp>(at, Value(then.create<arith::SelectOp>(at, is_large, exact, result)));
      },
      [&](OpBuilder& otherwise, Location at) { otherwise.create<scf::YieldOp>(at, result); });
  return choice.getResult(0);
}

struct ExpandMath : PassWrapper<ExpandMath, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMath)
  ExpandMath(ScaleByPower scale, bool has_f64) : scale_(std::move(scale)), has_f64_(has_f64) {}
  StringRef getArgument() const final { return "heddle-expand-math"; }
  void getDependentDialects(DialectRegistry& registry) const override { registry.insert<scf::SCFDialect, vector::VectorDialect>(); }
  StringRef getDescription() const final { return "exp, log, tanh, erf, cos, sin and powf by arithmetic"; }

  void runOnOperation() override {
    SmallVector<Operation*> found;
    getOperation()->walk([&](Operation* op) {
      if (llvm::isa<math::ExpOp, math::LogOp, math::TanhOp, math::ErfOp, math::CosOp, math::SinOp, math::PowFOp>(op)) found.push_back(op);
    });
    for (Operation* op : found) {
      OpBuilder builder(op);
      Value x = op->getOperand(0), result;
      Body body(builder, op->getLoc(), x.getType(), scale_);
      if (llvm::isa<math::ExpOp>(op)) result = body.exp(x);
      if (llvm::isa<math::LogOp>(op)) result = body.log(x);
      if (llvm::isa<math::TanhOp>(op)) result = body.tanh(x);
      if (llvm::isa<math::ErfOp>(op)) result = body.erf(x);
      const bool is_single = !has_f64_ && !body.is_double(), is_cosine = llvm::isa<math::CosOp>(op);
      if (llvm::isa<math::CosOp, math::SinOp>(op)) {
        result =
            is_single ? single_sine_or_cosine(builder, op->getLoc(), x, is_cosine) : sine_or_cosine(builder, op->getLoc(), x, is_cosine);
      }
      if (llvm::isa<math::PowFOp>(op)) {
        Value y = op->getOperand(1);
        result = is_single ? single_power(builder, op->getLoc(), x, y) : power(builder, op->getLoc(), x, y, scale_);
      }
      op->getResult(0).replaceAllUsesWith(result);
      op->erase();
    }
  }

 private:
  ScaleByPower scale_;
  bool has_f64_;
};

}  // namespace

std::unique_ptr<Pass> expand_math(ScaleByPower scale) {
  return std::make_unique<ExpandMath>(std::move(scale), /*has_f64=*/true);
}

std::unique_ptr<Pass> expand_math_without_f64() {
  return std::make_unique<ExpandMath>(ScaleByPower(), /*has_f64=*/false);
}

}  // namespace heddle::targets
