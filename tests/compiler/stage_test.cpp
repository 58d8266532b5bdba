// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stages against their source: a region of tx ops, formed into stages, verifies, survives printing and parsing, and means the same to the
// interpreter of stages as the region does to the evaluator of tx.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/stage/interpreter.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "tests/compiler/kernel_run.h"
#include "tests/compiler/stage_arrays.h"

namespace heddle::tests {
namespace {

std::string print(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

// EXPECTs that the region has stages that mean the same.
void check_stages(const std::string& text, const CheckOptions& options = {}) {
  SCOPED_TRACE(text);
  ParsedRegion parsed(text);
  std::string reason;
  auto staged = stage::form_stages(parsed.region(), reason);
  ASSERT_TRUE(mlir::succeeded(staged)) << reason;
  ASSERT_TRUE(mlir::succeeded(mlir::verify(*staged->module)));
  const std::string printed = print(*staged->module);
  auto again = mlir::parseSourceString<mlir::ModuleOp>(printed, parsed.context());
  ASSERT_TRUE(again) << printed;
  EXPECT_EQ(print(*again), printed);

  std::vector<Tensor> operands;
  std::vector<stage::Array> arrays;
  for (auto [i, input] : llvm::enumerate(parsed.region().getInputs())) {
    auto type = tx::tensor(input);
    operands.push_back(
        random_tensor(type, options.symbols, options.ranges[std::min(i, options.ranges.size() - 1)], static_cast<uint32_t>(i + 1)));
    arrays.push_back(to_array(operands.back(), type.getElementType()));
  }
  std::vector<Tensor> wanted = evaluate(parsed.region(), operands, options.symbols);
  for (stage::FoldOrder order : {stage::FoldOrder::straight, stage::FoldOrder::halves, stage::FoldOrder::interleaved}) {
    SCOPED_TRACE("order of folds " + std::to_string(static_cast<int>(order)));
    std::vector<stage::Array> got = stage::interpret(staged->region, arrays, options.symbols, order);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      mlir::Type element = tx::tensor(parsed.region().getOutputs()[i]).getElementType();
      Tensor tensor = to_tensor(got[i], element);
      for (double& value : wanted[i].data) value = stored(value, element);
      expect_close(tensor, wanted[i], options, printed);
    }
  }
}

TEST(Stages, MapOneElementToAnother) {
  check_stages(
      region_text({"4x6xf32", "6xf32"}, {"4x6xf32"},
                  "%b = tx.broadcast %1 {dimensions = array<i64: 1>} : tensor<6xf32> -> tensor<4x6xf32>\n"
                  "%s = tx.add %0, %b : tensor<4x6xf32>\n %e = tx.erf %s : tensor<4x6xf32>\n %m = tx.mul %e, %s : tensor<4x6xf32>\n"
                  "tx.yield %m : tensor<4x6xf32>"));
}
TEST(Stages, HaveSeveralResults) {
  check_stages(region_text({"3x5xf32"}, {"3x5xf32", "15xf32"},
                           "%e = tx.exp %0 : tensor<3x5xf32>\n %t = tx.tanh %0 : tensor<3x5xf32>\n"
                           "%r = tx.reshape %t : tensor<3x5xf32> -> tensor<15xf32>\n tx.yield %e, %r : tensor<3x5xf32>, tensor<15xf32>"));
}
TEST(Stages, ReadWhereElementsWereMovedTo) {
  check_stages(
      one_op({"2x3x4xf32"}, "4x2x3xf32", "transpose %0 {permutation = array<i64: 2, 0, 1>} : tensor<2x3x4xf32> -> tensor<4x2x3xf32>"));
  check_stages(one_op({"7x9xf32"}, "3x4xf32",
                      "slice %0 {starts = array<i64: 1, 0>, strides = array<i64: 2, 2>} : tensor<7x9xf32> -> tensor<3x4xf32>"));
  check_stages(one_op({"3x4xi32"}, "6x5xi32",
                      "pad %0 {low = array<i64: 1, 0>, high = array<i64: 2, 1>, value = 7.0 : f64} : tensor<3x4xi32> -> tensor<6x5xi32>"));
  // A reshape between two moves divides and multiplies indices.
  check_stages(region_text(
      {"4x6xf32"}, {"3x8xf32"},
      "%t = tx.transpose %0 {permutation = array<i64: 1, 0>} : tensor<4x6xf32> -> tensor<6x4xf32>\n"
      "%r = tx.reshape %t : tensor<6x4xf32> -> tensor<8x3xf32>\n"
      "%u = tx.transpose %r {permutation = array<i64: 1, 0>} : tensor<8x3xf32> -> tensor<3x8xf32>\n tx.yield %u : tensor<3x8xf32>"));
}
TEST(Stages, ReadAtIndices) {
  CheckOptions options;
  options.ranges = {{-2, 2}, {-6, 5}};
  check_stages(
      one_op({"6x3xf32", "2x4xi64"}, "2x4x3xf32", "gather %0, %1 {axis = 0} : tensor<6x3xf32>, tensor<2x4xi64> -> tensor<2x4x3xf32>"),
      options);
}
TEST(Stages, CastAndCompare) {
  CheckOptions options;
  options.ranges = {{-300, 300}};
  for (const char* to : {"i8", "ui8", "i32", "f16", "i1"}) {
    std::string type = std::string("5x7x") + to;
    check_stages(one_op({"5x7xf32"}, type, "cast %0 : tensor<5x7xf32> -> tensor<" + type + ">"), options);
  }
  check_stages(one_op({"9xui8", "9xui8"}, "9xi1", "compare lt %0, %1 : tensor<9xui8> -> tensor<9xi1>"), options);
}
TEST(Stages, FoldDimensionsAway) {
  for (const char* kind : {"sum", "mean", "max", "min", "prod"}) {
    check_stages(one_op({"3x4x5xf32"}, "3x5xf32",
                        std::string("reduce ") + kind + " %0 {axes = array<i64: 1>} : tensor<3x4x5xf32> -> tensor<3x5xf32>"));
  }
  check_stages(one_op({"3x4xi8"}, "3xi8", "reduce max %0 {axes = array<i64: 1>} : tensor<3x4xi8> -> tensor<3xi8>"));
  // What is read is computed, and what is computed of the sum reads more.
  check_stages(
      region_text({"3x4xf16", "3xf16"}, {"3xf16"},
                  "%q = tx.mul %0, %0 : tensor<3x4xf16>\n %s = tx.reduce sum %q {axes = array<i64: 1>} : tensor<3x4xf16> -> tensor<3xf16>\n"
                  "%r = tx.sub %s, %1 : tensor<3xf16>\n tx.yield %r : tensor<3xf16>"));
}
TEST(Stages, FoldWithSeveralAccumulatorsAndByIndex) {
  CheckOptions options;
  options.ranges = {{-3, 4}};
  for (const char* rest : {"max %0 {axis = 1 : i64}", "min %0 {axis = 1 : i64, last}"})
    check_stages(one_op({"3x40x2xi8"}, "3x2xi64", std::string("arg_reduce ") + rest + " : tensor<3x40x2xi8> -> tensor<3x2xi64>"), options);
  for (const char* rest : {"axis = 1 : i64", "axis = 0 : i64, exclusive, reverse"})
    check_stages(one_op({"4x5xf32"}, "4x5xf32", std::string("cumsum %0 {") + rest + "} : tensor<4x5xf32>"));
}
TEST(Stages, ScatterUpdates) {
  CheckOptions options;
  options.ranges = {{-2, 2}, {-7, 7}, {-2, 2}};
  for (const char* rest : {"axis = 0 : i64", "axis = 0 : i64, kind = 0 : i32", "axis = 0 : i64, kind = 2 : i32"}) {
    check_stages(one_op({"5x4xf16", "9xi32", "9x4xf16"}, "5x4xf16",
                        std::string("scatter %0, %1, %2 {") + rest + "} : tensor<5x4xf16>, tensor<9xi32>, tensor<9x4xf16>"),
                 options);
  }
  check_stages(one_op({"3x5x2xi64", "3x8x2xi64", "3x8x2xi64"}, "3x5x2xi64",
                      "scatter %0, %1, %2 {axis = 1 : i64} : tensor<3x5x2xi64>, tensor<3x8x2xi64>, tensor<3x8x2xi64>"),
               options);
}
TEST(Stages, Sort) {
  CheckOptions options;
  options.ranges = {{-9, 9}};
  for (const char* rest : {"axis = 1 : i64", "axis = 1 : i64, descending"}) {
    check_stages(one_op({"3x40x2xi8"}, "3x11x2xi64", std::string("sort %0 {") + rest + "} : tensor<3x40x2xi8> -> tensor<3x11x2xi64>"),
                 options);
    check_stages(one_op({"3x40x2xf16"}, "3x40x2xi64", std::string("sort %0 {") + rest + "} : tensor<3x40x2xf16> -> tensor<3x40x2xi64>"),
                 options);
  }
}
TEST(Stages, RemoveWhatOverlaps) {
  CheckOptions options;
  options.ranges = {{0, 4}, {0, 2}, {0.2, 0.3}, {3, 9}};
  check_stages(one_op({"3x30x4xf32", "3x30xi1", "f32", "i64"}, "3x30xi1",
                      "suppress %0, %1, %2, %3 : tensor<3x30x4xf32>, tensor<3x30xi1>, tensor<f32>, tensor<i64> -> tensor<3x30xi1>"),
               options);
}
TEST(Stages, TakeBitsForAnotherType) {
  check_stages(one_op({"9xf32"}, "9xi32", "bit_cast %0 : tensor<9xf32> -> tensor<9xi32>"));
  check_stages(one_op({"9xf16"}, "9xui16", "bit_cast %0 : tensor<9xf16> -> tensor<9xui16>"));
  check_stages(one_op({"9xi64", "9xi64"}, "9xui32", "random_bits %0, %1 : tensor<9xi64>, tensor<9xi64> -> tensor<9xui32>"));
}
TEST(Stages, ContractWhatIsMovedAndComputed) {
  CheckOptions options;
  options.symbols = {5};
  const std::string dims = ", #tx.dims<()[s0] -> (s0, 2, 7)>", lhs = "?x2x7xf32" + dims;
  check_stages(region_text({lhs, "7x6xf32"}, {"?x2x6xf32, #tx.dims<()[s0] -> (s0, 2, 6)>"},
                           "%y = tx.matmul %0, %1 : tensor<" + lhs +
                               ">, tensor<7x6xf32> -> tensor<?x2x6xf32, #tx.dims<()[s0] -> (s0, 2, 6)>>\n"
                               "tx.yield %y : tensor<?x2x6xf32, #tx.dims<()[s0] -> (s0, 2, 6)>>",
                           "", {"n"}),
               options);
  options.symbols.clear();
  // A quantized factor, and a result in the other order.
  check_stages(
      region_text(
          {"5x7xf32", "7x6xi8"}, {"6x5xf32"},
          "%w = tx.cast %1 : tensor<7x6xi8> -> tensor<7x6xf32>\n %y = tx.matmul %0, %w : tensor<5x7xf32>, tensor<7x6xf32> -> "
          "tensor<5x6xf32>\n"
          "%t = tx.transpose %y {permutation = array<i64: 1, 0>} : tensor<5x6xf32> -> tensor<6x5xf32>\n tx.yield %t : tensor<6x5xf32>"),
      options);
  // Integers as they are stored, less the zero of their column.
  check_stages(one_op({"5x7xf32", "7x6xui8", "6xf32"}, "5x6xf32",
                      "matmul %0, %1, zero %2 : tensor<5x7xf32>, tensor<7x6xui8>, tensor<6xf32> -> tensor<5x6xf32>"),
               options);
  check_stages(
      one_op({"1x6x5x4xf16", "3x3x2x8xi8", "8xf32"}, "1x4x3x8xf32",
             "conv %0, %1, zero %2 {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = "
             "array<i64: 1, 1>, groups = 2 : i64} : tensor<1x6x5x4xf16>, tensor<3x3x2x8xi8>, tensor<8xf32> -> tensor<1x4x3x8xf32>"),
      options);
  check_stages(one_op({"1x6x5x4xf32", "3x3x2x8xf32"}, "1x3x5x8xf32",
                      "conv %0, %1 {strides = array<i64: 2, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, dilations = "
                      "array<i64: 1, 1>, "
                      "groups = 2 : i64} : tensor<1x6x5x4xf32>, tensor<3x3x2x8xf32> -> tensor<1x3x5x8xf32>"),
               options);
}

// Several stages, which hand values on.
TEST(Stages, GoThroughRows) {
  CheckOptions options;
  options.absolute = 1e-4;
  for (const char* axis : {"0", "1", "2"}) {
    check_stages(one_op({"3x4x5xf32"}, "3x4x5xf32", std::string("softmax %0 {axis = ") + axis + "} : tensor<3x4x5xf32>"), options);
    check_stages(one_op({"3x4x5xf32"}, "3x4x5xf32", std::string("softmax %0 {axis = ") + axis + ", log} : tensor<3x4x5xf32>"), options);
  }
  check_stages(normalization("3", "40", "f32"), options);
  options.symbols = {7};
  check_stages(normalization("?", "?", "f32", "s0 + 1", "s0"), options);
}

TEST(Stages, SayWhatHasNoForm) {
  auto reason_of = [](const std::string& text) {
    ParsedRegion parsed(text);
    std::string reason;
    EXPECT_TRUE(mlir::failed(stage::form_stages(parsed.region(), reason)));
    return reason;
  };
  EXPECT_THAT(reason_of(one_op({"3x4xf32"}, "48xf32", "pack %0 {groups = 1} : tensor<3x4xf32> -> tensor<48xf32>")),
              ::testing::HasSubstr("tx.pack"));
  EXPECT_THAT(reason_of(region_text({"3x4xf32"}, {"3xf32", "4xf32"},
                                    "%a = tx.reduce sum %0 {axes = array<i64: 1>} : tensor<3x4xf32> -> tensor<3xf32>\n"
                                    "%b = tx.reduce sum %0 {axes = array<i64: 0>} : tensor<3x4xf32> -> tensor<4xf32>\n tx.yield %a, %b : "
                                    "tensor<3xf32>, tensor<4xf32>")),
              ::testing::HasSubstr("its results have different extents"));
}

// What a fold of 1, 2, 4, 8, 16 gives in each order: straight, in halves, of every third element.
std::vector<double> folded(const std::string& init, const std::string& step, const std::string& merge) {
  ParsedRegion parsed(R"(
    func.func @region(%a: tensor<5xf32>) {
      %r = tx.dispatch "k"(%a) : (tensor<5xf32>) -> tensor<f32> {
      ^bb0(%x: tensor<5xf32>):
        %y = stage.fold #stage.domain<() -> (5), reduced = 1> reads(%x) step_reads 1 at [#stage.access<(d0) -> (d0)>] : (tensor<5xf32>) -> tensor<f32>
          init { %z = arith.constant )" +
                      init + R"( : f32
                 stage.yield %z : f32 }
          step { ^bb0(%i: i64, %e: f32, %s: f32): %n = )" +
                      step + R"( : f32
                 stage.yield %n : f32 }
          merge { ^bb0(%p: f32, %q: f32): %n = )" +
                      merge + R"( : f32
                  stage.yield %n : f32 }
          finish { ^bb0(%s: f32): stage.yield %s : f32 }
        tx.yield %y : tensor<f32>
      }
      return
    })");
  stage::Array operand{{5}, {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {16, 0}}};
  std::vector<double> results;
  for (stage::FoldOrder order : {stage::FoldOrder::straight, stage::FoldOrder::halves, stage::FoldOrder::interleaved})
    results.push_back(stage::interpret(parsed.region(), {operand}, {}, order)[0].elements[0].real);
  return results;
}

TEST(Stages, AreFoldedInPartsThatMergeJoins) {
  using ::testing::ElementsAre;
  EXPECT_THAT(folded("0.0", "arith.addf %s, %e", "arith.addf %p, %q"), ElementsAre(31, 31, 31));
  EXPECT_THAT(folded("0.0", "arith.maximumf %s, %e", "arith.maximumf %p, %q"), ElementsAre(16, 16, 16));
  // A wrong merge: 3 and 28, then 4, 18 and 9 from the last to the first.
  EXPECT_THAT(folded("0.0", "arith.addf %s, %e", "arith.mulf %p, %q"), ElementsAre(31, 84, 648));
  EXPECT_THAT(folded("0.0", "arith.addf %s, %e", "arith.maximumf %p, %q"), ElementsAre(31, 28, 18));
  EXPECT_THAT(folded("0.0", "arith.maximumf %s, %e", "arith.addf %p, %q"), ElementsAre(16, 18, 28));
  // A start that is no neutral element, which each walk has.
  EXPECT_THAT(folded("1.0", "arith.addf %s, %e", "arith.addf %p, %q"), ElementsAre(32, 33, 34));
  // Right for neighboring parts alone: the last element.
  EXPECT_THAT(folded("0.0", "arith.maximumf %e, %e", "arith.maximumf %q, %q"), ElementsAre(16, 16, 8));
}

// Each line of a stage that does not fit is refused, by name.
TEST(Stages, AreVerified) {
  const std::string good = R"(
    func.func @region(%a: tensor<4x3xf32>) {
      %r = tx.dispatch "k"(%a) : (tensor<4x3xf32>) -> (tensor<4xf32>) {
      ^bb0(%x: tensor<4x3xf32>):
        %y = stage.fold #stage.domain<() -> (4, 3), reduced = 1> reads(%x) step_reads 1 at [#stage.access<(d0, d1) -> (d0, d1)>] : (tensor<4x3xf32>) -> tensor<4xf32>
          init { %z = arith.constant 0.0 : f32
                 stage.yield %z : f32 }
          step { ^bb0(%i: i64, %j: i64, %e: f32, %s: f32): %n = arith.addf %s, %e : f32
                 stage.yield %n : f32 }
          merge { ^bb0(%p: f32, %q: f32): %n = arith.addf %p, %q : f32
                  stage.yield %n : f32 }
          finish { ^bb0(%i: i64, %s: f32): stage.yield %s : f32 }
        tx.yield %y : tensor<4xf32>
      }
      return
    })";
  ParsedRegion parsed(good);
  const std::pair<const char*, std::array<const char*, 2>> wrong[] = {
      {"read 0 is over 1 dimensions; 2 were expected", {"(d0, d1) -> (d0, d1)>]", "(d0) -> (d0, d0)>]"}},
      {"gives 1 indices of a tensor of rank 2", {"(d0, d1) -> (d0, d1)>]", "(d0, d1) -> (d0)>]"}},
      {"step_reads is 2", {"step_reads 1", "step_reads 2"}},
      {"reduces 3 of 2 dimensions", {"reduced = 1", "reduced = 3"}},
      {"5 indices in its parallel dimensions and a result of 4", {"(4, 3), reduced", "(5, 3), reduced"}},
      {"'finish' has arguments of other types", {"^bb0(%i: i64, %s: f32): stage.yield", "^bb0(%i: i32, %s: f32): stage.yield"}},
  };
  for (const auto& [said, change] : wrong) {
    std::string text = good;
    const std::string from = change[0], to = change[1];
    size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    std::string diagnostics;
    mlir::ScopedDiagnosticHandler handler(parsed.context(), [&](mlir::Diagnostic& diagnostic) { diagnostics += diagnostic.str(); });
    EXPECT_FALSE(mlir::parseSourceString<mlir::ModuleOp>(text, parsed.context())) << said;
    EXPECT_THAT(diagnostics, ::testing::HasSubstr(said));
  }
}

}  // namespace
}  // namespace heddle::tests
