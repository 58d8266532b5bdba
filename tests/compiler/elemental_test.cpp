// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element-wise ops and data movement, against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "tests/compiler/cuda_run.h"
#include "tests/compiler/kernel_run.h"
#include "tests/compiler/opencl_run.h"

namespace heddle::tests {
namespace {

struct UnaryCase {
  const char* op;
  double low, high;
};

class Unary : public ::testing::TestWithParam<UnaryCase> {};

TEST_P(Unary, AgreesWithTheReference) {
  CheckOptions options;
  options.ranges = {{GetParam().low, GetParam().high}};
  options.relative = 1e-6;
  options.absolute = 1e-37;
  check_region(one_op({"3x1001xf32"}, "3x1001xf32", std::string(GetParam().op) + " %0 : tensor<3x1001xf32>"), options);
}

INSTANTIATE_TEST_SUITE_P(Ops, Unary,
                         ::testing::Values(UnaryCase{"neg", -9, 9}, UnaryCase{"abs", -9, 9}, UnaryCase{"exp", -100, 88},
                                           UnaryCase{"exp", -1, 1}, UnaryCase{"log", 1e-9, 1e9}, UnaryCase{"log", 0.5, 1.5},
                                           UnaryCase{"sqrt", 0, 100}, UnaryCase{"rsqrt", 1e-3, 100}, UnaryCase{"reciprocal", -3, 3},
                                           UnaryCase{"tanh", -12, 12}, UnaryCase{"tanh", -0.3, 0.3}, UnaryCase{"sigmoid", -80, 80},
                                           UnaryCase{"erf", -5, 5}, UnaryCase{"erf", -1, 1}, UnaryCase{"relu", -2, 2},
                                           UnaryCase{"floor", -5, 5}, UnaryCase{"ceil", -5, 5}, UnaryCase{"round", -5, 5}));

class Binary : public ::testing::TestWithParam<const char*> {};

TEST_P(Binary, AgreesWithTheReferenceOnFloats) {
  CheckOptions options;
  if (std::string(GetParam()) == "pow") options.ranges = {{0.1, 8}, {-4, 4}};
  check_region(one_op({"2x7x33xf32", "2x7x33xf32"}, "2x7x33xf32", std::string(GetParam()) + " %0, %1 : tensor<2x7x33xf32>"), options);
}

class IntegerBinary : public ::testing::TestWithParam<const char*> {};

TEST_P(IntegerBinary, AgreesWithTheReference) {
  CheckOptions options;
  options.relative = options.absolute = 0;
  for (const char* type : {"77xi32", "77xi64", "77xi8", "77xui8"}) {
    options.ranges = {{0, 11}, {1, 10}};
    if (type[2] == 'i') options.ranges = {{-11, 11}, {1, 10}};
    check_region(one_op({type, type}, type, std::string(GetParam()) + " %0, %1 : tensor<" + type + ">"), options);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Binary, ::testing::Values("add", "sub", "mul", "div", "max", "min", "pow"));
INSTANTIATE_TEST_SUITE_P(Ops, IntegerBinary, ::testing::Values("add", "sub", "mul", "div", "max", "min"));

TEST(Elemental, ComparesAndSelects) {
  for (const char* kind : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    CheckOptions options;
    options.ranges = {{-2, 2}};
    check_region(region_text({"5x40xi32", "5x40xi32"}, {"5x40xi1", "5x40xi32"},
                             std::string("%c = tx.compare ") + kind +
                                 " %0, %1 : tensor<5x40xi32> -> tensor<5x40xi1>\n"
                                 "%s = tx.select %c, %0, %1 : tensor<5x40xi1>, tensor<5x40xi32>\n"
                                 "tx.yield %c, %s : tensor<5x40xi1>, tensor<5x40xi32>"),
                 options);
  }
}

TEST(Elemental, CastsBetweenTypes) {
  const char* types[] = {"f32", "f64", "f16", "bf16", "i8", "ui8", "i16", "i32", "i64", "i1"};
  for (const char* from : types) {
    for (const char* to : types) {
      if (std::string(from) == to) continue;
      CheckOptions options;
      options.ranges = {{-300, 300}};
      options.relative = std::string(to) == "bf16" ? 1.6e-2 : std::string(to) == "f16" ? 1e-3 : 1e-6;
      std::string a = "130x" + std::string(from), b = "130x" + std::string(to);
      SCOPED_TRACE(a + " to " + b);
      check_region(one_op({a}, b, "cast %0 : tensor<" + a + "> -> tensor<" + b + ">"), options);
    }
  }
}

TEST(Elemental, RoundsHalfTypesToNearest) {
  CheckOptions options;
  options.relative = options.absolute = 0;
  options.ranges = {{-1000, 1000}};
  for (const char* to : {"bf16", "f16"}) {
    ParsedRegion parsed(
        one_op({"4099xf32"}, std::string("4099x") + to, std::string("cast %0 : tensor<4099xf32> -> tensor<4099x") + to + ">"));
    auto type = llvm::cast<mlir::RankedTensorType>(parsed.region().getInputs()[0].getType());
    Tensor operand = random_tensor(type, {}, {-1000, 1000}, 3);
    mlir::Type element = llvm::cast<mlir::RankedTensorType>(parsed.region().getOutputs()[0].getType()).getElementType();
    Tensor wanted = operand;
    for (double& value : wanted.data) value = stored(value, element);
    for (const std::string& level : runnable_levels()) {
      LoadedKernel kernel(parsed.region(), level);
      ASSERT_TRUE(kernel.usable());
      expect_close(run_kernel(kernel, parsed.region(), {operand}, {}, false)[0], wanted, options, level + " " + to);
    }
    check_on_cuda(parsed.region(), {operand}, Expected{{wanted}, {}}, options);
  }
}

// Down to the denormal numbers, and where nothing but 0 or infinity is left; in whole registers and behind them.
TEST(Elemental, ExponentialsAtTheirLimits) {
  double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> values;
  while (values.size() < 45) {
    for (double x : {0.0, -87.2, -87.4, -95.0, -103.2, -103.9, -104.5, -1e30, -infinity, 88.7, 88.8, 1e30, infinity, std::nan(""), 1e-30})
      values.push_back(x);
  }
  ParsedRegion parsed(one_op({"45xf32"}, "45xf32", "exp %0 : tensor<45xf32>"));
  Tensor operand{{45}, values};
  mlir::Type type = llvm::cast<mlir::RankedTensorType>(parsed.region().getInputs()[0].getType()).getElementType();
  for (double& value : operand.data) value = stored(value, type);
  for (const std::string& level : runnable_levels()) {
    LoadedKernel kernel(parsed.region(), level);
    ASSERT_TRUE(kernel.usable());
    Tensor got = run_kernel(kernel, parsed.region(), {operand}, {}, false)[0];
    for (size_t i = 0; i < values.size(); ++i) {
      double x = operand.data[i], wanted = stored(std::exp(x), type), most = std::max(1e-6 * wanted, 1.5e-45);
      EXPECT_TRUE(std::isnan(x) ? std::isnan(got.data[i]) : got.data[i] == wanted || std::abs(got.data[i] - wanted) <= most)
          << level << ": exp(" << x << ") is " << got.data[i] << ", not " << wanted;
    }
  }
}

TEST(Elemental, RoundsTiesToEvenAtEverySize) {
  double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> values = {0.0, 0.49999997, 0.5, 0.50000006, 1.5, 2.5, 3.5, 254.5, 255.5, 1e30, infinity, std::nan("")};
  // around 2^22 and 2^23 halves end in f32, around 2^51 and 2^52 in f64
  for (double power : {0x1p22, 0x1p23, 0x1p51, 0x1p52}) {
    for (double step : {-1.5, -0.5, 0.5, 1.0, 1.5, 2.5}) values.push_back(power + step);
  }
  for (size_t i = values.size(); i-- > 0;) values.push_back(-values[i]);
  std::string count = std::to_string(values.size());
  for (const char* element : {"f32", "f64"}) {
    ParsedRegion parsed(one_op({count + "x" + element}, count + "x" + element, "round %0 : tensor<" + count + "x" + element + ">"));
    mlir::Type type = llvm::cast<mlir::RankedTensorType>(parsed.region().getInputs()[0].getType()).getElementType();
    Tensor operand{{static_cast<int64_t>(values.size())}, values};
    for (double& value : operand.data) value = stored(value, type);
    for (const std::string& level : runnable_levels()) {
      LoadedKernel kernel(parsed.region(), level);
      ASSERT_TRUE(kernel.usable());
      Tensor got = run_kernel(kernel, parsed.region(), {operand}, {}, false)[0];
      for (size_t i = 0; i < values.size(); ++i) {
        double x = operand.data[i], wanted = std::nearbyint(x);
        EXPECT_TRUE(std::isnan(x) ? std::isnan(got.data[i]) : got.data[i] == wanted && std::signbit(got.data[i]) == std::signbit(wanted))
            << level << " " << element << ": " << x << " became " << got.data[i] << ", not " << wanted;
      }
    }
    CheckOptions exact;
    exact.relative = exact.absolute = 0;
    Tensor wanted = operand;
    for (double& value : wanted.data) value = std::nearbyint(value);
    check_on_cuda(parsed.region(), {operand}, Expected{{wanted}, {}}, exact);
  }
}

TEST(Elemental, ComputesHalfTypesInSinglePrecision) {
  CheckOptions options;
  options.relative = 1.6e-2;
  check_region(one_op({"3x21xbf16", "3x21xbf16"}, "3x21xbf16", "mul %0, %1 : tensor<3x21xbf16>"), options);
  options.relative = 1e-3;
  check_region(one_op({"3x21xf16", "3x21xf16"}, "3x21xf16", "add %0, %1 : tensor<3x21xf16>"), options);
}

// A comparison and a selection of one f16, of which LLVM would make a call of a function.
TEST(Elemental, SelectsTheLargerOneOfHalfTypes) {
  for (const char* kind : {"gt", "lt"}) {
    check_region(region_text(
        {"f16"}, {"f16"},
        "%c = tx.constant dense<1.671875> : tensor<f16>\n%g = tx.compare " + std::string(kind) +
            " %0, %c : tensor<f16> -> tensor<i1>\n%y = tx.select %g, %0, %c : tensor<i1>, tensor<f16>\ntx.yield %y : tensor<f16>"));
  }
}

TEST(Elemental, RunsDoubles) {
  CheckOptions options;
  options.relative = 1e-13;
  options.absolute = 1e-300;
  options.ranges = {{0.01, 40}};
  for (const char* op : {"exp", "log", "sqrt", "sigmoid"})
    check_region(one_op({"77xf64"}, "77xf64", std::string(op) + " %0 : tensor<77xf64>"), options);
  options.ranges = {{-7, 7}};
  check_region(one_op({"3001xf64"}, "3001xf64", "erf %0 : tensor<3001xf64>"), options);
}

// ------------------------------------------------------------------------------------------- sin, cos and pow of every f32

// Values of all finite exponents: the first and last one of each and random ones, both signs.
std::vector<double> floats_of_all_exponents(int of_each, std::mt19937& random) {
  std::vector<double> values;
  for (int exponent = -149; exponent < 128; ++exponent) {
    for (int k = 0; k < of_each; ++k) {
      const double fraction = k == 0 ? 0 : k == 1 ? 0x1.fffffep-1 : random() / 0x1p32;
      const float value = std::min(static_cast<float>(std::ldexp(1 + fraction, exponent)), std::numeric_limits<float>::max());
      values.push_back(k % 2 ? value : -value);
      values.push_back(k % 2 ? -value : value);
    }
  }
  return values;
}

// Checks `op` of f32 and, so that the sign of a zero counts, its reciprocal, which is looked at where the op is to be exact.
void check_single(const std::string& op, const std::vector<std::vector<double>>& operands, const std::vector<double>& wanted, bool exact) {
  const auto count = static_cast<int64_t>(wanted.size());
  const std::string type = std::to_string(count) + "xf32", tensor = "tensor<" + type + ">";
  std::string body = "%y = tx." + op + " %0" + (operands.size() > 1 ? ", %1" : "") + " : " + tensor + "\n";
  Expected expected{{Tensor{{count}, wanted}}, {}};
  if (exact) {
    body += "%r = tx.reciprocal %y : " + tensor + "\n";
    expected.by_ops.push_back(expected.by_ops[0]);
    for (double& value : expected.by_ops[1].data) value = 1 / value;
  }
  body += exact ? "tx.yield %y, %r : " + tensor + ", " + tensor : "tx.yield %y : " + tensor;
  ParsedRegion parsed(region_text(std::vector<std::string>(operands.size(), type), std::vector<std::string>(exact ? 2 : 1, type), body));
  CheckOptions options;  // 1.5 units in the last place, also of denormal numbers
  options.relative = exact ? 0 : 1.5 * 0x1p-23;
  options.absolute = exact ? 0 : 1.5 * 0x1p-149;
  std::vector<Tensor> tensors;
  for (const std::vector<double>& values : operands) tensors.push_back({{count}, values});
  check_results(parsed.region(), tensors, expected, options);
  options.strategy = "generic";  // of scalars, and on every machine
  check_results(parsed.region(), tensors, expected, options);
}

TEST(SinglePrecision, SineAndCosineOfAllExponents) {
  std::mt19937 random(5);
  std::vector<double> values = floats_of_all_exponents(12, random);
  for (int k = 1; k < 2000; ++k) values.push_back(static_cast<float>(k * std::numbers::pi / 2));
  // Of all f32, those nearest to a multiple of pi / 2, between 2^-30 and 2^-27.7 of it.
  for (double x : {0x1.f37c8ap+95, 0x1.47d0fep+34, 0x1.f37c8ap+96, 0x1.47d0fep+35, 0x1.f9cbe2p+7, 0x1.32ede2p+85, 0x1.628d4cp+40})
    values.push_back(x);
  std::vector<double> sines, cosines;
  for (double x : values) {
    sines.push_back(std::sin(x));
    cosines.push_back(std::cos(x));
  }
  check_single("sin", {values}, sines, false);
  check_single("cos", {values}, cosines, false);

  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  check_single("sin", {{0.0, -0.0, 0x1p-126, -0x1p-126, infinity, -infinity, nan}}, {0.0, -0.0, 0x1p-126, -0x1p-126, nan, nan, nan}, true);
  check_single("cos", {{0.0, -0.0, 0x1p-126, -0x1p-126, infinity, -infinity, nan}}, {1, 1, 1, 1, nan, nan, nan}, true);
}

TEST(SinglePrecision, PowersOfAllExponents) {
  std::mt19937 random(6);
  std::vector<double> bases, exponents, wanted;
  auto add = [&](double x, double y) {
    const double power = std::pow(x, static_cast<double>(static_cast<float>(y)));
    // Infinities and NaN are below.
    if (std::isnan(power) || std::abs(power) > std::numeric_limits<float>::max()) return;
    bases.push_back(x);
    exponents.push_back(static_cast<float>(y));
    wanted.push_back(power);
  };
  for (double x : floats_of_all_exponents(6, random)) {
    // Results from denormal numbers to the largest ones, and around 1.
    for (double largest : {150.0, 1.0}) add(std::abs(x), (random() / 0x1p31 - 1) * largest / std::log2(std::abs(x)));
    add(x, static_cast<double>(random() % 9) - 4);
  }
  for (int k = 0; k < 2000; ++k) {
    const double x = static_cast<float>(1 + (random() / 0x1p31 - 1) * std::ldexp(1, -1 - k % 23));
    if (x != 1) add(x, (random() / 0x1p31 - 1) * 149 / std::log2(x));
  }
  check_single("pow", {bases, exponents}, wanted, false);

  // What C's annex F says, from the library.
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> special = {0.0, -0.0,    1,  -1,    2,      -2,      0.5,       -0.5,     infinity, -infinity,
                                       nan, -0x1p64, 64, -63.0, 0x1p24, 0x1p127, -0x1p-126, 0x1p-126, 16777215, -16777215};
  std::vector<double> left, right, results;
  for (double x : special) {
    for (double y : special) {
      const double power = std::pow(x, y);
      const bool is_special = power == 0 || std::isnan(power) || std::isinf(power) || std::abs(power) == 1;
      if (!is_special && std::abs(power) < 0x1p128 && std::abs(power) > 0x1p-150) continue;
      left.push_back(x);
      right.push_back(y);
      results.push_back(std::abs(power) >= 0x1p128    ? std::copysign(infinity, power)
                        : std::abs(power) <= 0x1p-150 ? std::copysign(0.0, power)
                                                      : power);
    }
  }
  check_single("pow", {left, right}, results, true);
}

// ------------------------------------------------------------------------------------------------------ data movement

TEST(Movement, BroadcastsAChannelVector) {
  check_region(region_text({"2x5x5x20xf32", "20xf32"}, {"2x5x5x20xf32"},
                           "%b = tx.broadcast %1 {dimensions = array<i64: 3>} : tensor<20xf32> -> tensor<2x5x5x20xf32>\n"
                           "%s = tx.add %0, %b : tensor<2x5x5x20xf32>\n%r = tx.relu %s : tensor<2x5x5x20xf32>\n"
                           "tx.yield %r : tensor<2x5x5x20xf32>"));
}

TEST(Movement, BroadcastsAColumnAndAScalar) {
  check_region(region_text({"6x1x37xf32", "6x1xf32", "f32"}, {"6x4x37xf32"},
                           "%a = tx.broadcast %0 {dimensions = array<i64: 0, 1, 2>} : tensor<6x1x37xf32> -> tensor<6x4x37xf32>\n"
                           "%b = tx.broadcast %1 {dimensions = array<i64: 0, 1>} : tensor<6x1xf32> -> tensor<6x4x37xf32>\n"
                           "%c = tx.broadcast %2 {dimensions = array<i64>} : tensor<f32> -> tensor<6x4x37xf32>\n"
                           "%x = tx.mul %a, %b : tensor<6x4x37xf32>\n%y = tx.sub %x, %c : tensor<6x4x37xf32>\n"
                           "tx.yield %y : tensor<6x4x37xf32>"));
}

TEST(Movement, SlicesWithStridesAndBackwards) {
  check_region(
      one_op({"9x30x40xf32"}, "4x30x13xf32",
             "slice %0 {starts = array<i64: 1, 0, 2>, strides = array<i64: 2, 1, 3>} : tensor<9x30x40xf32> -> tensor<4x30x13xf32>"));
  check_region(one_op({"9x40xf32"}, "9x40xf32",
                      "slice %0 {starts = array<i64: 0, 39>, strides = array<i64: 1, -1>} : tensor<9x40xf32> -> tensor<9x40xf32>"));
  check_region(one_op({"9x6x8xf32"}, "5x6x8xf32",
                      "slice %0 {starts = array<i64: 3, 0, 0>, strides = array<i64: 1, 1, 1>} : tensor<9x6x8xf32> -> tensor<5x6x8xf32>"));
}

TEST(Movement, PadsEveryDimension) {
  check_region(
      one_op({"2x5x19xf32"}, "3x8x24xf32",
             "pad %0 {low = array<i64: 0, 1, 2>, high = array<i64: 1, 2, 3>, value = 7.0} : tensor<2x5x19xf32> -> tensor<3x8x24xf32>"));
  check_region(one_op(
      {"1x5x5x20xi8"}, "1x7x7x20xi8",
      "pad %0 {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 1, 1, 0>, value = -3.0} : tensor<1x5x5x20xi8> -> tensor<1x7x7x20xi8>"));
}

TEST(Movement, ConcatenatesAlongEveryAxis) {
  check_region(one_op({"2x3x5xf32", "2x3x40xf32", "2x3x1xf32"}, "2x3x46xf32",
                      "concat %0, %1, %2 {axis = 2} : tensor<2x3x5xf32>, tensor<2x3x40xf32>, tensor<2x3x1xf32> -> tensor<2x3x46xf32>"));
  check_region(one_op({"2x3x5xf32", "2x1x5xf32"}, "2x4x5xf32",
                      "concat %0, %1 {axis = 1} : tensor<2x3x5xf32>, tensor<2x1x5xf32> -> tensor<2x4x5xf32>"));
  check_region(one_op({"2x3x5xf32", "1x3x5xf32"}, "3x3x5xf32",
                      "concat %0, %1 {axis = 0} : tensor<2x3x5xf32>, tensor<1x3x5xf32> -> tensor<3x3x5xf32>"));
}

TEST(Movement, ComputesOnAConcatAndInsideOne) {
  check_region(region_text({"4x5xf32", "4x20xf32", "25xf32"}, {"4x25xf32"},
                           "%n = tx.neg %1 : tensor<4x20xf32>\n"
                           "%c = tx.concat %0, %n {axis = 1} : tensor<4x5xf32>, tensor<4x20xf32> -> tensor<4x25xf32>\n"
                           "%b = tx.broadcast %2 {dimensions = array<i64: 1>} : tensor<25xf32> -> tensor<4x25xf32>\n"
                           "%s = tx.add %c, %b : tensor<4x25xf32>\ntx.yield %s : tensor<4x25xf32>"));
  // A concat behind a slice is selected element by element.
  check_region(
      region_text({"4x5xf32", "4x20xf32"}, {"4x12xf32"},
                  "%c = tx.concat %0, %1 {axis = 1} : tensor<4x5xf32>, tensor<4x20xf32> -> tensor<4x25xf32>\n"
                  "%s = tx.slice %c {starts = array<i64: 0, 1>, strides = array<i64: 1, 2>} : tensor<4x25xf32> -> tensor<4x12xf32>\n"
                  "tx.yield %s : tensor<4x12xf32>"));
  // One that is read at its own index, and at another one, too.
  check_region(
      region_text({"4x8xf32", "4x8xf32"}, {"4x16xf32"},
                  "%c = tx.concat %0, %1 {axis = 1} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x16xf32>\n"
                  "%a = tx.slice %c {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : tensor<4x16xf32> -> tensor<4x8xf32>\n"
                  "%b = tx.slice %c {starts = array<i64: 0, 8>, strides = array<i64: 1, 1>} : tensor<4x16xf32> -> tensor<4x8xf32>\n"
                  "%r = tx.concat %b, %a {axis = 1} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x16xf32>\n"
                  "%s = tx.add %c, %r : tensor<4x16xf32>\ntx.yield %s : tensor<4x16xf32>"));
}

TEST(Movement, GathersSlices) {
  CheckOptions options;
  options.ranges = {{-2, 2}, {-6, 5}};
  check_region(
      one_op({"6x33xf32", "2x4xi64"}, "2x4x33xf32", "gather %0, %1 {axis = 0} : tensor<6x33xf32>, tensor<2x4xi64> -> tensor<2x4x33xf32>"),
      options);
  check_region(one_op({"5x6xf32", "21xi32"}, "5x21xf32", "gather %0, %1 {axis = 1} : tensor<5x6xf32>, tensor<21xi32> -> tensor<5x21xf32>"),
               options);
}

TEST(Movement, ReshapesBetweenOtherOps) {
  check_region(region_text({"4x6x10xf32"}, {"6x4x10xf32"},
                           "%r = tx.reshape %0 : tensor<4x6x10xf32> -> tensor<8x3x10xf32>\n%n = tx.neg %r : tensor<8x3x10xf32>\n"
                           "%s = tx.reshape %n : tensor<8x3x10xf32> -> tensor<4x6x10xf32>\n"
                           "%t = tx.transpose %s {permutation = array<i64: 1, 0, 2>} : tensor<4x6x10xf32> -> tensor<6x4x10xf32>\n"
                           "tx.yield %t : tensor<6x4x10xf32>"));
  check_region(
      region_text({"4x30xf32"}, {"2x5x12xf32"},
                  "%p = tx.slice %0 {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : tensor<4x30xf32> -> tensor<4x30xf32>\n"
                  "%q = tx.transpose %p {permutation = array<i64: 1, 0>} : tensor<4x30xf32> -> tensor<30x4xf32>\n"
                  "%r = tx.reshape %q : tensor<30x4xf32> -> tensor<2x5x12xf32>\n%n = tx.abs %r : tensor<2x5x12xf32>\n"
                  "tx.yield %n : tensor<2x5x12xf32>"));
}

TEST(Movement, ReadsConstants) {
  check_region(region_text(
      {"3x4xf32"}, {"3x4xf32", "3x4xi1"},
      "%c = tx.constant dense<[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]]> : tensor<3x4xf32>\n"
      "%d = tx.constant dense<[[true, false, true, true], [true, false, false, true], [false, false, true, false]]> : tensor<3x4xi1>\n"
      "%h = tx.constant dense<0.5> : tensor<3x4xf32>\n"
      "%s = tx.mul %c, %h : tensor<3x4xf32>\n%t = tx.add %0, %s : tensor<3x4xf32>\n"
      "tx.yield %t, %d : tensor<3x4xf32>, tensor<3x4xi1>"));
}

TEST(Movement, YieldsOutputsOfSeveralShapes) {
  check_region(region_text({"3x40xf32", "7xf32"}, {"3x40xf32", "7xf32", "120xf32"},
                           "%a = tx.abs %0 : tensor<3x40xf32>\n%b = tx.neg %1 : tensor<7xf32>\n"
                           "%c = tx.reshape %a : tensor<3x40xf32> -> tensor<120xf32>\n"
                           "tx.yield %a, %b, %c : tensor<3x40xf32>, tensor<7xf32>, tensor<120xf32>"));
}

TEST(Movement, WritesInPlace) {
  check_region(region_text({"3x40xf32", "3x40xf32"}, {"3x40xf32"}, "%a = tx.add %0, %1 : tensor<3x40xf32>\ntx.yield %a : tensor<3x40xf32>",
                           "attributes {tied = array<i64: 0>}"));
}

TEST(Movement, HandlesSymbolsEmptyTensorsAndScalars) {
  const char* type = "?x8xf32, #tx.dims<()[s0] -> (s0, 8)>";
  std::string text = region_text({type, "8xf32"}, {type},
                                 std::string("%b = tx.broadcast %1 {dimensions = array<i64: 1>} : tensor<8xf32> -> tensor<") + type +
                                     ">\n%s = tx.add %0, %b : tensor<" + type + ">\ntx.yield %s : tensor<" + type + ">",
                                 "", {"batch"});
  for (int64_t batch : {1, 3, 5000, 0}) {
    CheckOptions options;
    options.symbols = {batch};
    check_region(text, options);
  }
  std::string flat =
      region_text({type}, {type}, std::string("%s = tx.relu %0 : tensor<") + type + ">\ntx.yield %s : tensor<" + type + ">", "", {"batch"});
  for (int64_t batch : {1, 3, 9001, 0}) {
    CheckOptions options;
    options.symbols = {batch};
    check_region(flat, options);
  }
  check_region(one_op({"f32"}, "f32", "neg %0 : tensor<f32>"));
  check_region(one_op({"0x4xf32"}, "0x4xf32", "neg %0 : tensor<0x4xf32>"));
}

TEST(Movement, CutsLargeTensorsIntoWorkgroups) {
  ParsedRegion parsed(one_op({"1x56x56x256xf32"}, "1x56x56x256xf32", "relu %0 : tensor<1x56x56x256xf32>"));
  LoadedKernel kernel(parsed.region(), runnable_levels().front());
  ASSERT_TRUE(kernel.usable());
  EXPECT_GE(kernel.workgroups(), 16u);
  EXPECT_LE(kernel.workgroups(), 400u);
  ParsedRegion tiny(one_op({"100xf32"}, "100xf32", "relu %0 : tensor<100xf32>"));
  LoadedKernel small(tiny.region(), runnable_levels().front());
  ASSERT_TRUE(small.usable());
  EXPECT_EQ(small.workgroups(), 1u);
}

}  // namespace
}  // namespace heddle::tests
