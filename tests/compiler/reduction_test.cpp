// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pooling, reductions, softmax and local response normalization, against the reference.
#include <gtest/gtest.h>

#include "tests/compiler/kernel_run.h"

namespace heddle::tests {
namespace {

std::string pool_text(const std::string& kind, const std::string& in, const std::string& out, const std::string& kernel,
                      const std::string& strides, const std::string& low, const std::string& high, const std::string& dilations,
                      bool include_pad = false) {
  return one_op({in}, out,
                "pool " + kind + " %0 {kernel = array<i64: " + kernel + ">, strides = array<i64: " + strides +
                    ">, pads_low = array<i64: " + low + ">, pads_high = array<i64: " + high + ">, dilations = array<i64: " + dilations +
                    ">" + (include_pad ? ", include_pad" : "") + "} : tensor<" + in + "> -> tensor<" + out + ">");
}

TEST(Pool, TakesTheLargestOfWindows) {
  check_region(pool_text("max", "1x112x112x64xf32", "1x56x56x64xf32", "3, 3", "2, 2", "1, 1", "1, 1", "1, 1"));
  check_region(pool_text("max", "2x9x8x5xf32", "2x4x4x5xf32", "2, 2", "2, 2", "0, 0", "0, 0", "1, 1"));
  check_region(pool_text("max", "1x13x13x19xf32", "1x6x6x19xf32", "3, 3", "2, 2", "0, 0", "0, 0", "1, 1"));
  check_region(pool_text("max", "1x14x14x130xf32", "1x14x14x130xf32", "3, 3", "1, 1", "1, 1", "1, 1", "1, 1"));
}

TEST(Pool, CutsWindowsThatReachBeyondThePads) {
  // As ceil_mode and one-sided pads leave them.
  check_region(pool_text("max", "1x54x54x16xf32", "1x27x27x16xf32", "3, 3", "2, 2", "0, 0", "1, 1", "1, 1"));
  check_region(pool_text("max", "1x8x8x3xf32", "1x4x4x3xf32", "3, 3", "2, 2", "0, 0", "0, 0", "1, 1"));
  check_region(pool_text("average", "1x8x8x3xf32", "1x4x4x3xf32", "3, 3", "2, 2", "0, 0", "0, 0", "1, 1", true));
  check_region(pool_text("average", "1x7x7x40xf32", "1x2x2x40xf32", "7, 7", "1, 1", "0, 0", "1, 1", "1, 1"));
}

TEST(Pool, AveragesWithAndWithoutPads) {
  for (bool include_pad : {false, true}) {
    check_region(pool_text("average", "1x10x11x33xf32", "1x10x11x33xf32", "3, 3", "1, 1", "1, 1", "1, 1", "1, 1", include_pad));
    check_region(pool_text("average", "2x10x11x7xf32", "2x5x4x7xf32", "2, 3", "2, 3", "1, 0", "0, 2", "1, 1", include_pad));
  }
}

TEST(Pool, DilatesAndTakesOneAndThreeDimensions) {
  check_region(pool_text("max", "1x12x12x8xf32", "1x8x8x8xf32", "3, 3", "1, 1", "0, 0", "0, 0", "2, 2"));
  check_region(pool_text("max", "1x12x12x8xf32", "1x6x6x8xf32", "3, 3", "2, 2", "2, 2", "1, 1", "2, 2"));
  check_region(pool_text("average", "1x12x20xf32", "1x6x20xf32", "3", "2", "1", "0", "1"));
  check_region(pool_text("max", "1x6x6x6x20xf32", "1x3x3x3x20xf32", "2, 2, 2", "2, 2, 2", "0, 0, 0", "0, 0, 0", "1, 1, 1"));
}

TEST(Pool, PoolsIntegersAndHalfTypes) {
  CheckOptions options;
  options.ranges = {{-100, 100}};
  check_region(pool_text("max", "1x6x6x21xi8", "1x3x3x21xi8", "3, 3", "2, 2", "1, 1", "0, 0", "1, 1"), options);
  check_region(pool_text("max", "1x6x6x21xf16", "1x3x3x21xf16", "3, 3", "2, 2", "1, 1", "0, 0", "1, 1"));
}

TEST(Pool, AppliesOpsInFrontAndBehind) {
  check_region(region_text({"1x8x8x24xf32", "24xf32", "1x4x4x24xf32"}, {"1x4x4x24xf32"},
                           "%b = tx.broadcast %1 {dimensions = array<i64: 3>} : tensor<24xf32> -> tensor<1x8x8x24xf32>\n"
                           "%s = tx.mul %0, %b : tensor<1x8x8x24xf32>\n"
                           "%p = tx.pool max %s {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads_low = array<i64: 0, 0>, "
                           "pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>} : tensor<1x8x8x24xf32> -> tensor<1x4x4x24xf32>\n"
                           "%r = tx.add %p, %2 : tensor<1x4x4x24xf32>\n%z = tx.relu %r : tensor<1x4x4x24xf32>\n"
                           "tx.yield %z : tensor<1x4x4x24xf32>"));
}

TEST(Pool, TakesASymbolicBatch) {
  std::string in = "?x8x8x24xf32, #tx.dims<()[s0] -> (s0, 8, 8, 24)>", out = "?x4x4x24xf32, #tx.dims<()[s0] -> (s0, 4, 4, 24)>";
  std::string text = region_text({in}, {out},
                                 "%p = tx.pool max %0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads_low = array<i64: 0, 0>, "
                                 "pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>} : tensor<" +
                                     in + "> -> tensor<" + out +
                                     ">\n"
                                     "tx.yield %p : tensor<" +
                                     out + ">",
                                 "", {"batch"});
  for (int64_t batch : {1, 7, 0}) {
    CheckOptions options;
    options.symbols = {batch};
    check_region(text, options);
  }
}

struct ReduceCase {
  const char* in;
  const char* axes;
  const char* out;
};

class Reduce : public ::testing::TestWithParam<ReduceCase> {};

TEST_P(Reduce, AgreesWithTheReference) {
  const ReduceCase& c = GetParam();
  for (const char* kind : {"sum", "mean", "max", "min", "prod"}) {
    CheckOptions options;
    options.absolute = 1e-4;
    if (std::string(kind) == "prod") {
      options.ranges = {{0.9, 1.1}};
      options.relative = 1e-4;
    }
    SCOPED_TRACE(std::string(kind) + " over " + c.axes + " of " + c.in);
    std::string axes = std::string("array<i64") + (*c.axes ? ": " : "") + c.axes + ">";
    check_region(
        one_op({c.in}, c.out, std::string("reduce ") + kind + " %0 {axes = " + axes + "} : tensor<" + c.in + "> -> tensor<" + c.out + ">"),
        options);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Reduce,
                         ::testing::Values(ReduceCase{"1x7x7x200xf32", "1, 2", "1x200xf32"}, ReduceCase{"3x70xf32", "1", "3xf32"},
                                           ReduceCase{"3x5x129xf32", "1, 2", "3xf32"}, ReduceCase{"3x5x9xf32", "0, 2", "5xf32"},
                                           ReduceCase{"3x5x9xf32", "0, 1, 2", "f32"}, ReduceCase{"30x5xf32", "0", "5xf32"},
                                           ReduceCase{"2x9x5x16xf32", "1", "2x5x16xf32"}, ReduceCase{"4x6xf32", "", "4x6xf32"}));

TEST(ReduceOp, CountsInIntegers) {
  CheckOptions options;
  options.ranges = {{-9, 9}};
  options.relative = options.absolute = 0;
  for (const char* kind : {"sum", "max", "min"}) {
    check_region(
        one_op({"5x77xi32"}, "5xi32", std::string("reduce ") + kind + " %0 {axes = array<i64: 1>} : tensor<5x77xi32> -> tensor<5xi32>"),
        options);
    check_region(
        one_op({"5x77xi64"}, "77xi64", std::string("reduce ") + kind + " %0 {axes = array<i64: 0>} : tensor<5x77xi64> -> tensor<77xi64>"),
        options);
  }
}

TEST(ReduceOp, AppliesOpsInFrontAndBehind) {
  check_region(region_text({"6x100xf32", "6xf32"}, {"6xf32"},
                           "%q = tx.mul %0, %0 : tensor<6x100xf32>\n"
                           "%s = tx.reduce mean %q {axes = array<i64: 1>} : tensor<6x100xf32> -> tensor<6xf32>\n"
                           "%r = tx.sqrt %s : tensor<6xf32>\n%d = tx.div %1, %r : tensor<6xf32>\ntx.yield %d : tensor<6xf32>"));
  check_region(region_text({"1x7x7x48xf32"}, {"1x48x1x1xf32"},
                           "%s = tx.reduce mean %0 {axes = array<i64: 1, 2>} : tensor<1x7x7x48xf32> -> tensor<1x48xf32>\n"
                           "%r = tx.relu %s : tensor<1x48xf32>\n%d = tx.reshape %r : tensor<1x48xf32> -> tensor<1x48x1x1xf32>\n"
                           "tx.yield %d : tensor<1x48x1x1xf32>"));
}

TEST(Softmax, NormalizesAlongAnyAxis) {
  CheckOptions options;
  options.ranges = {{-20, 20}};
  options.absolute = 1e-7;
  options.relative = 2e-6;
  for (const char* log : {"", ", log"}) {
    if (*log) options.absolute = 1e-6;  // of values of up to 40 that nearly cancel
    for (auto [type, axis] : {std::pair{"1x1000xf32", "1"},
                              {"5x37xf32", "1"},
                              {"1x1000x1x1xf32", "1"},
                              {"3x20x33xf32", "1"},
                              {"12x5xf32", "0"},
                              {"4x16xf32", "1"}}) {
      SCOPED_TRACE(std::string(type) + " axis " + axis + log);
      check_region(one_op({type}, type, std::string("softmax %0 {axis = ") + axis + log + "} : tensor<" + type + ">"), options);
    }
  }
}

TEST(Softmax, AppliesOpsInFrontAndBehind) {
  check_region(region_text({"5x37xf32", "5x37xf32"}, {"5x37xf32"},
                           "%s = tx.add %0, %1 : tensor<5x37xf32>\n%x = tx.softmax %s {axis = 1} : tensor<5x37xf32>\n"
                           "%m = tx.mul %x, %1 : tensor<5x37xf32>\ntx.yield %m : tensor<5x37xf32>"));
}

TEST(Softmax, RunsInPlace) {
  check_region(region_text({"5x37xf32"}, {"5x37xf32"}, "%x = tx.softmax %0 {axis = 1} : tensor<5x37xf32>\ntx.yield %x : tensor<5x37xf32>",
                           "attributes {tied = array<i64: 0>}"));
}

// A row in registers, one in several steps with memory of its own, and one that is too long for that.
TEST(Rows, NormalizeInOneKernel) {
  CheckOptions options;
  options.strategy = "rows";
  options.absolute = 1e-4;
  options.relative = 1e-4;
  for (auto [rows, row] : {std::pair{"5", "64"}, {"3", "40"}, {"300", "7"}, {"4", "768"}, {"1", "5003"}, {"2", "20000"}})
    check_region(normalization(rows, row, "f32"), options);
  for (int64_t n : {1, 30, 1500}) {
    options.symbols = {n};
    check_region(normalization("?", "33", "f32", "s0"), options);
    check_region(normalization("3", "?", "f32", "", "s0"), options);
  }
  options.symbols = {};
  options.absolute = options.relative = 2e-2;
  check_region(normalization("5", "200", "f16"), options);
  check_region(normalization("5", "2000", "bf16"), options);
}

// What is exponentiated has no room in a result of two bytes.
TEST(Rows, ExponentiateAgainWhereNothingIsKept) {
  CheckOptions options;
  options.strategy = "rows";
  options.absolute = 1e-3;
  options.relative = 2e-3;
  const std::string type = "3x?xf16, #tx.dims<()[s0] -> (3, s0)>";
  for (int64_t n : {5, 70, 3000}) {
    options.symbols = {n};
    check_region(
        region_text({type}, {type}, "%x = tx.softmax %0 {axis = 1} : tensor<" + type + ">\ntx.yield %x : tensor<" + type + ">", "", {"n"}),
        options);
  }
}

// Over all but the channels, with the channels side by side in memory; and a result per row beside what is behind it.
TEST(Rows, NormalizeAcrossMemory) {
  CheckOptions options;
  options.strategy = "rows";
  options.absolute = 1e-4;
  for (const char* channels : {"20", "64"}) {
    const std::string whole = std::string("2x9x5x") + channels + "xf32", rows = std::string("2x") + channels + "xf32";
    check_region(region_text({whole}, {whole},
                             "%m = tx.reduce mean %0 {axes = array<i64: 1, 2>} : tensor<" + whole + "> -> tensor<" + rows +
                                 ">\n%b = tx.broadcast %m {dimensions = array<i64: 0, 3>} : tensor<" + rows + "> -> tensor<" + whole +
                                 ">\n%d = tx.sub %0, %b : tensor<" + whole + ">\n%e = tx.exp %d : tensor<" + whole +
                                 ">\n%s = tx.reduce max %e {axes = array<i64: 1, 2>} : tensor<" + whole + "> -> tensor<" + rows +
                                 ">\n%c = tx.broadcast %s {dimensions = array<i64: 0, 3>} : tensor<" + rows + "> -> tensor<" + whole +
                                 ">\n%x = tx.div %e, %c : tensor<" + whole + ">\ntx.yield %x : tensor<" + whole + ">"),
                 options);
  }
}

// The lanes go where neighbors are stored, with factors for each channel beside.
TEST(Rows, NormalizeChannelsOfNeighbors) {
  CheckOptions options;
  options.strategy = "rows";
  options.absolute = 1e-4;
  const std::string t = "tensor<2x20x70xf32>", r = "tensor<2x70xf32>", c = "tensor<20xf32>";
  check_region(region_text({"2x20x70xf32", "20xf32", "20xf32"}, {"2x20x70xf32"},
                           "%q = tx.mul %0, %0 : " + t + "\n%m = tx.reduce mean %q {axes = array<i64: 1>} : " + t + " -> " + r +
                               "\n%s = tx.rsqrt %m : " + r + "\n%b = tx.broadcast %s {dimensions = array<i64: 0, 2>} : " + r + " -> " + t +
                               "\n%n = tx.mul %0, %b : " + t + "\n%g = tx.broadcast %1 {dimensions = array<i64: 1>} : " + c + " -> " + t +
                               "\n%h = tx.mul %n, %g : " + t + "\n%o = tx.broadcast %2 {dimensions = array<i64: 1>} : " + c + " -> " + t +
                               "\n%x = tx.add %h, %o : " + t + "\ntx.yield %x : " + t),
               options);
}

TEST(Rows, FindWhereTheLargestIs) {
  CheckOptions options;
  options.strategy = "rows";
  options.ranges = {{-3, 4}};
  for (const char* rest : {"axis = 1 : i64", "axis = 1 : i64, last"}) {
    for (const char* kind : {"max", "min"})
      check_region(
          one_op({"7x300xi32"}, "7xi64", std::string("arg_reduce ") + kind + " %0 {" + rest + "} : tensor<7x300xi32> -> tensor<7xi64>"),
          options);
  }
}

// Wherever a row is: in a whole vector, in one of few, or in the rest.
TEST(Rows, GiveEqualRowsEqualBits) {
  ParsedRegion parsed(
      one_op({"13x13x1000xf32"}, "1000xf32", "reduce sum %0 {axes = array<i64: 0, 1>} : tensor<13x13x1000xf32> -> tensor<1000xf32>"));
  Tensor operand = random_tensor(tx::tensor(parsed.region().getInputs()[0]), {}, {1e6, 3e6}, 1);
  for (size_t i = 0; i < operand.data.size(); ++i) operand.data[i] = operand.data[i - i % 1000];
  for (const std::string& level : runnable_levels()) {
    LoadedKernel kernel(parsed.region(), level);
    ASSERT_TRUE(kernel.usable());
    for (bool single : {false, true}) {
      Tensor sums = run_kernel(kernel, parsed.region(), {operand}, {}, single)[0];
      for (double sum : sums.data) ASSERT_EQ(sum, sums.data[0]) << level;
    }
  }
}

// Regions of several stages also have the generic kernel.
TEST(Rows, AreNotNeeded) {
  CheckOptions options;
  options.strategy = "generic";
  options.absolute = 1e-4;
  check_region(normalization("3", "40", "f32"), options);
  check_region(one_op({"3x20x5xf32"}, "3x20x5xf32", "softmax %0 {axis = 1} : tensor<3x20x5xf32>"), options);
}

// What is normalized over one element is no row, and is computed all the same.
TEST(Rows, AreOfSeveralElements) {
  check_region(normalization("6", "1", "f32"));
  check_region(one_op({"3x1x5xf32"}, "3x1x5xf32", "softmax %0 {axis = 1} : tensor<3x1x5xf32>"));
}

TEST(Lrn, SumsOverNeighboringChannels) {
  for (const char* type : {"1x5x5x96xf32", "1x3x3x7xf32", "1x2x2x256xf32", "2x3x3x1xf32", "1x4x4x33xf32"}) {
    for (const char* rest : {"size = 5, alpha = 1.0e-4, beta = 0.75, bias = 1.0", "size = 4, alpha = 0.5, beta = 0.5, bias = 2.0",
                             "size = 3, alpha = 0.2, beta = 0.6, bias = 1.0"}) {
      SCOPED_TRACE(std::string(type) + " " + rest);
      check_region(one_op({type}, type, std::string("lrn %0 {") + rest + "} : tensor<" + type + ">"));
    }
  }
}

// No strategy of rows takes this; the generic kernel sums a row again for each of its elements.
TEST(Reductions, AreComputedInsideElementWiseRegions) {
  check_region(region_text({"6x100xf32"}, {"6x100xf32"},
                           "%s = tx.reduce mean %0 {axes = array<i64: 1>} : tensor<6x100xf32> -> tensor<6xf32>\n"
                           "%b = tx.broadcast %s {dimensions = array<i64: 0>} : tensor<6xf32> -> tensor<6x100xf32>\n"
                           "%d = tx.sub %0, %b : tensor<6x100xf32>\ntx.yield %d : tensor<6x100xf32>"));
}

// On every machine, and so also on AMD GPUs.
TEST(Rows, HaveElementsOfEachType) {
  CheckOptions options;
  options.strategy = "rows";
  for (auto [element, tolerance] : {std::pair("f32", 1e-5), {"f16", 4e-3}, {"bf16", 3e-2}}) {
    SCOPED_TRACE(element);
    options.relative = options.absolute = tolerance;
    const std::string rows = "3x70x" + std::string(element), column = "3x" + std::string(element);
    check_region(normalization("3", "70", element), options);
    check_region(one_op({rows}, rows, "softmax %0 {axis = 1 : i64} : tensor<" + rows + ">"), options);
    check_region(one_op({rows}, column, "reduce sum %0 {axes = array<i64: 1>} : tensor<" + rows + "> -> tensor<" + column + ">"), options);
  }
  for (const char* kind : {"sum", "max"}) {
    SCOPED_TRACE(kind);
    options.relative = options.absolute = 0;
    check_region(
        one_op({"3x50xi8"}, "3xi8", "reduce " + std::string(kind) + " %0 {axes = array<i64: 1>} : tensor<3x50xi8> -> tensor<3xi8>"),
        options);
  }
}

// Rows of `integers` that become numbers, x * 0.02, and results that become integers, round(y / scale), as DequantizeLinear and QuantizeLinear have it.
// `ops` make %y, which is of `result`, of %x; %1 is a row in f32.
std::string of_integers(const std::string& integers, const std::string& result, const std::string& scale, const std::string& ops) {
  auto tensor = [](const std::string& shape, const std::string& of) { return "tensor<" + shape + of + ">"; };
  auto repeated = [&](const std::string& name, const std::string& value, const std::string& shape) {
    return "%" + name + "0 = tx.constant dense<" + value + "> : tensor<f32>\n%" + name + " = tx.broadcast %" + name +
           "0 {dimensions = array<i64>} : tensor<f32> -> " + tensor(shape, "f32") + "\n";
  };
  const std::string rows = tensor("3x70x", "f32"), stored = tensor(result, integers), made = tensor(result, "f32");
  return region_text({"3x70x" + integers, "70xf32"}, {result + integers},
                     "%c = tx.cast %0 : " + tensor("3x70x", integers) + " -> " + rows + "\n" + repeated("t", "0.02", "3x70x") +
                         "%x = tx.mul %c, %t : " + rows + "\n" + ops + repeated("u", scale, result) + "%d = tx.div %y, %u : " + made +
                         "\n%r = tx.round %d : " + made + "\n%i = tx.cast %r : " + made + " -> " + stored + "\ntx.yield %i : " + stored);
}

// Results may differ by 1, where they are about in the middle between two.
TEST(Rows, ReadAndStoreIntegers) {
  CheckOptions options;
  options.strategy = "rows";
  options.relative = 0;
  options.absolute = 1;
  const std::string rows = "tensor<3x70xf32>", column = "tensor<3xf32>";
  const std::string normalized =
      "%m = tx.reduce mean %x {axes = array<i64: 1>} : " + rows + " -> " + column +
      "\n%b = tx.broadcast %m {dimensions = array<i64: 0>} : " + column + " -> " + rows + "\n%e = tx.sub %x, %b : " + rows +
      "\n%q = tx.mul %e, %e : " + rows + "\n%v = tx.reduce mean %q {axes = array<i64: 1>} : " + rows + " -> " + column +
      "\n%w = tx.rsqrt %v : " + column + "\n%wb = tx.broadcast %w {dimensions = array<i64: 0>} : " + column + " -> " + rows +
      "\n%n = tx.mul %e, %wb : " + rows + "\n%g = tx.broadcast %1 {dimensions = array<i64: 1>} : tensor<70xf32> -> " + rows +
      "\n%y = tx.mul %n, %g : " + rows + "\n";
  for (const char* integers : {"i8", "ui8"}) {
    SCOPED_TRACE(integers);
    options.ranges = {std::string(integers) == "i8" ? std::make_pair(-128.0, 127.0) : std::make_pair(0.0, 255.0), {-2, 2}};
    check_region(of_integers(integers, "3x70x", "0.001", "%y = tx.softmax %x {axis = 1 : i64} : " + rows + "\n"), options);
    check_region(of_integers(integers, "3x70x", "0.03", normalized), options);
    check_region(of_integers(integers, "3x", "0.03", "%y = tx.reduce mean %x {axes = array<i64: 1>} : " + rows + " -> " + column + "\n"),
                 options);
  }
}

}  // namespace
}  // namespace heddle::tests
