// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The generic kernel on every target: any map, fold and contraction.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/compiler/contraction_cases.h"
#include "tests/compiler/kernel_run.h"
#include "tests/compiler/opencl_run.h"

namespace heddle::tests {
namespace {

void check(const std::string& text, CheckOptions options = {}) {
  SCOPED_TRACE(text);
  options.strategy = "generic";
  check_region(text, options);
}

// Says in the list of skipped tests that SPIR-V was not run.
TEST(Generic, HasAnOpenClDevice) {
  if (!no_opencl_device().empty()) GTEST_SKIP() << no_opencl_device();
}

TEST(Generic, MapsElements) {
  check(region_text({"4x6xf32", "6xf32"}, {"4x6xf32"},
                    "%b = tx.broadcast %1 {dimensions = array<i64: 1>} : tensor<6xf32> -> tensor<4x6xf32>\n"
                    "%s = tx.add %0, %b : tensor<4x6xf32>\n %e = tx.erf %s : tensor<4x6xf32>\n %m = tx.mul %e, %s : tensor<4x6xf32>\n"
                    "tx.yield %m : tensor<4x6xf32>"));
  for (const char* op : {"exp", "tanh", "abs", "neg", "floor", "ceil"})
    check(one_op({"5x70xf32"}, "5x70xf32", std::string(op) + " %0 : tensor<5x70xf32>"));
  CheckOptions positive;
  positive.ranges = {{0.1, 4}};
  for (const char* op : {"log", "sqrt"}) check(one_op({"300xf32"}, "300xf32", std::string(op) + " %0 : tensor<300xf32>"), positive);
  check(region_text({"3x5xf32"}, {"3x5xf32", "15xf32"},
                    "%e = tx.exp %0 : tensor<3x5xf32>\n %t = tx.tanh %0 : tensor<3x5xf32>\n"
                    "%r = tx.reshape %t : tensor<3x5xf32> -> tensor<15xf32>\n tx.yield %e, %r : tensor<3x5xf32>, tensor<15xf32>"));
}
TEST(Generic, MovesElements) {
  check(one_op({"2x3x4xf32"}, "4x2x3xf32", "transpose %0 {permutation = array<i64: 2, 0, 1>} : tensor<2x3x4xf32> -> tensor<4x2x3xf32>"));
  check(one_op({"7x9xf32"}, "3x4xf32",
               "slice %0 {starts = array<i64: 1, 0>, strides = array<i64: 2, 2>} : tensor<7x9xf32> -> tensor<3x4xf32>"));
  check(one_op({"3x4xi32"}, "6x5xi32",
               "pad %0 {low = array<i64: 1, 0>, high = array<i64: 2, 1>, value = 7.0 : f64} : tensor<3x4xi32> -> tensor<6x5xi32>"));
}
TEST(Generic, StoresRowsApart) {
  const std::string apart = "attributes {pitch = 80 : i64}";
  auto check_rows = [&](const std::string& from, const std::string& to, const std::string& op) {
    check(region_text({from}, {to}, "%r = tx." + op + " : tensor<" + from + "> -> tensor<" + to + ">\n tx.yield %r : tensor<" + to + ">",
                      apart));
  };
  for (const char* element : {"xf32", "xf16", "xi8"}) {
    const std::string from = "1x7x9x32" + std::string(element);
    check_rows(
        from, from,
        "pool max %0 {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, "
        "dilations = array<i64: 1, 1>}");
    check_rows("5x64x3" + std::string(element), "3x5x64" + std::string(element), "transpose %0 {permutation = array<i64: 2, 0, 1>}");
  }
  check_rows("6x40xf32", "6x40xi64", "sort %0 {axis = 1}");
  check(region_text({"6x40xf32"}, {"6x40xf32"}, "%r = tx.cumsum %0 {axis = 0} : tensor<6x40xf32>\n tx.yield %r : tensor<6x40xf32>", apart));
}
TEST(Generic, JoinsParts) {
  check(one_op({"4x32xf32", "4x48xf32"}, "4x80xf32", "concat %0, %1 {axis = 1} : tensor<4x32xf32>, tensor<4x48xf32> -> tensor<4x80xf32>"));
  check(one_op({"3x5xi8", "3x2xi8", "3x9xi8"}, "3x16xi8",
               "concat %0, %1, %2 {axis = 1} : tensor<3x5xi8>, tensor<3x2xi8>, tensor<3x9xi8> -> tensor<3x16xi8>"));
  check(one_op({"2x7x20xf16", "2x0x20xf16", "2x1x20xf16"}, "2x8x20xf16",
               "concat %0, %1, %2 {axis = 1} : tensor<2x7x20xf16>, tensor<2x0x20xf16>, tensor<2x1x20xf16> -> tensor<2x8x20xf16>"));
  CheckOptions options;
  options.symbols = {3, 5};
  std::string a = "?x33xf32, #tx.dims<()[s0, s1] -> (s0, 33)>", b = "?x33xf32, #tx.dims<()[s0, s1] -> (s1, 33)>",
              both = "?x33xf32, #tx.dims<()[s0, s1] -> (s0 + s1, 33)>";
  check(region_text({a, b}, {both},
                    "%y = tx.concat %0, %1 {axis = 0} : tensor<" + a + ">, tensor<" + b + "> -> tensor<" + both +
                        ">\ntx.yield %y : tensor<" + both + ">",
                    "", {"m", "n"}),
        options);
}
// The halves of a row change places, and one its sign: what a rotation adds.
TEST(Generic, RotatesHalves) {
  check(region_text({"3x64xf32", "64xf32"}, {"3x64xf32"},
                    "%a = tx.slice %0 {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : tensor<3x64xf32> -> tensor<3x32xf32>\n"
                    "%b = tx.slice %0 {starts = array<i64: 0, 32>, strides = array<i64: 1, 1>} : tensor<3x64xf32> -> tensor<3x32xf32>\n"
                    "%n = tx.neg %b : tensor<3x32xf32>\n"
                    "%c = tx.concat %n, %a {axis = 1} : tensor<3x32xf32>, tensor<3x32xf32> -> tensor<3x64xf32>\n"
                    "%s = tx.broadcast %1 {dimensions = array<i64: 1>} : tensor<64xf32> -> tensor<3x64xf32>\n"
                    "%m = tx.mul %c, %s : tensor<3x64xf32>\n %y = tx.add %0, %m : tensor<3x64xf32>\n tx.yield %y : tensor<3x64xf32>"));
}
TEST(Generic, ReadsAtIndices) {
  CheckOptions options;
  options.ranges = {{-2, 2}, {-6, 5}};
  check(one_op({"6x33xf32", "2x4xi64"}, "2x4x33xf32", "gather %0, %1 {axis = 0} : tensor<6x33xf32>, tensor<2x4xi64> -> tensor<2x4x33xf32>"),
        options);
  check(one_op({"5x6xf16", "21xi32"}, "5x21xf16", "gather %0, %1 {axis = 1} : tensor<5x6xf16>, tensor<21xi32> -> tensor<5x21xf16>"),
        options);
  check(one_op({"6x40xf32", "3x40xi64"}, "3x40xf32",
               "gather_elements %0, %1 {axis = 0 : i64} : tensor<6x40xf32>, tensor<3x40xi64> -> tensor<3x40xf32>"),
        options);
  check(one_op({"4x6xi8", "4x70xi32"}, "4x70xi8",
               "gather_elements %0, %1 {axis = 1 : i64} : tensor<4x6xi8>, tensor<4x70xi32> -> tensor<4x70xi8>"),
        options);
  options.ranges = {{-2, 2}, {-3, 2}};
  check(one_op({"3x6x32xf32", "5x2xi64"}, "5x32xf32",
               "gather_nd %0, %1 {batch_dims = 0 : i64} : tensor<3x6x32xf32>, tensor<5x2xi64> -> tensor<5x32xf32>"),
        options);
  check(one_op({"4x3xi1", "4x1x5x1xi64"}, "4x1x5xi1",
               "gather_nd %0, %1 {batch_dims = 1 : i64} : tensor<4x3xi1>, tensor<4x1x5x1xi64> -> tensor<4x1x5xi1>"),
        options);
}
// Each value once, however many read it.
TEST(Generic, ReadsAtAnIndexOnce) {
  std::string body = "%x0 = tx.gather %0, %1 {axis = 0} : tensor<6x33xf32>, tensor<4xi64> -> tensor<4x33xf32>\n";
  for (int i = 0; i < 40; ++i)
    body += "%x" + std::to_string(i + 1) + " = tx.max %x" + std::to_string(i) + ", %x" + std::to_string(i) + " : tensor<4x33xf32>\n";
  CheckOptions options;
  options.ranges = {{-2, 2}, {-6, 5}};
  check(region_text({"6x33xf32", "4xi64"}, {"4x33xf32"}, body + "tx.yield %x40 : tensor<4x33xf32>"), options);
}
// Of nothing there is nothing to read, whatever the index.
TEST(Generic, ReadsZeroFromATensorWithoutElements) {
  ParsedRegion parsed(
      one_op({"0x64xf32", "3xi64"}, "3x64xf32", "gather %0, %1 {axis = 0} : tensor<0x64xf32>, tensor<3xi64> -> tensor<3x64xf32>"));
  std::vector<Tensor> operands = {{{0, 64}, {}}, {{3}, {0, 5, -1}}};
  for (const std::string& level : runnable_levels()) {
    LoadedKernel kernel(parsed.region(), level);
    ASSERT_TRUE(kernel.usable());
    std::vector<Tensor> results = run_kernel(kernel, parsed.region(), operands, {}, false);
    for (double element : results[0].data) EXPECT_EQ(element, 0);
  }
}
TEST(Generic, CountsIndices) {
  for (const char* type : {"3x40xi64", "3x40xf32", "3x40xi8"}) {
    for (const char* dimension : {"0", "1"})
      check(region_text(
          {}, {type},
          std::string("%x = tx.iota {dimension = ") + dimension + " : i64} : tensor<" + type + ">\n tx.yield %x : tensor<" + type + ">"));
  }
}
TEST(Generic, TakesSinesAndCosines) {
  for (const char* op : {"sin", "cos"}) {
    for (double most : {4.0, 1e4, 1e9}) {
      CheckOptions options;
      options.ranges = {{-most, most}};
      options.absolute = 1e-7;
      check(one_op({"5x70xf32"}, "5x70xf32", std::string(op) + " %0 : tensor<5x70xf32>"), options);
    }
    CheckOptions options;
    options.relative = options.absolute = 1e-14;
    check(one_op({"70xf64"}, "70xf64", std::string(op) + " %0 : tensor<70xf64>"), options);
  }
}
TEST(Generic, CastsAndCompares) {
  CheckOptions options;
  options.ranges = {{-300, 300}};
  for (const char* to : {"i8", "ui8", "i16", "i32", "i64", "f16", "bf16", "f64", "i1"}) {
    std::string type = std::string("5x7x") + to;
    options.relative = std::string(to) == "bf16" ? 4e-3 : std::string(to) == "f16" ? 5e-4 : 1e-6;  // half of the last place
    check(one_op({"5x7xf32"}, type, "cast %0 : tensor<5x7xf32> -> tensor<" + type + ">"), options);
    if (type != "5x7xi1") check(one_op({type}, "5x7xf32", "cast %0 : tensor<" + type + "> -> tensor<5x7xf32>"), options);
  }
  check(one_op({"9xui8", "9xui8"}, "9xi1", "compare lt %0, %1 : tensor<9xui8> -> tensor<9xi1>"), options);
}
TEST(Generic, FoldsDimensionsAway) {
  for (const char* kind : {"sum", "mean", "max", "min", "prod"}) {
    check(one_op({"3x4x5xf32"}, "3x5xf32",
                 std::string("reduce ") + kind + " %0 {axes = array<i64: 1>} : tensor<3x4x5xf32> -> tensor<3x5xf32>"));
  }
  check(one_op({"3x4xi8"}, "3xi8", "reduce max %0 {axes = array<i64: 1>} : tensor<3x4xi8> -> tensor<3xi8>"));
  CheckOptions options;
  options.relative = 2e-3;
  options.absolute = 2e-2;
  check(region_text(
            {"3x40xf16", "3xf16"}, {"3xf16"},
            "%q = tx.mul %0, %0 : tensor<3x40xf16>\n %s = tx.reduce sum %q {axes = array<i64: 1>} : tensor<3x40xf16> -> tensor<3xf16>\n"
            "%r = tx.sub %s, %1 : tensor<3xf16>\n tx.yield %r : tensor<3xf16>"),
        options);
}
// No target's folder has a line about these two.
TEST(Generic, FindsWhereTheLargestAndTheSmallestAre) {
  CheckOptions options;
  options.ranges = {{-3, 4}};  // integers: many are equal
  for (const char* type : {"3x40x5xf32", "3x40x5xi32", "3x40x5xui8", "3x40x5xf16"}) {
    if (std::string(type) == "3x40x5xui8") options.ranges = {{0, 4}};
    for (const char* kind : {"max", "min"}) {
      for (const char* rest : {"axis = 1 : i64", "axis = 1 : i64, last"})
        check(one_op({type}, "3x5xi64", std::string("arg_reduce ") + kind + " %0 {" + rest + "} : tensor<" + type + "> -> tensor<3x5xi64>"),
              options);
    }
  }
  check(one_op({"7x300xf32"}, "7xi64", "arg_reduce max %0 {axis = 1 : i64} : tensor<7x300xf32> -> tensor<7xi64>"));
}
TEST(Generic, SumsUpAlongAnAxis) {
  for (const char* rest :
       {"axis = 1 : i64", "axis = 1 : i64, exclusive", "axis = 1 : i64, reverse", "axis = 1 : i64, exclusive, reverse"}) {
    check(one_op({"3x20x5xf32"}, "3x20x5xf32", std::string("cumsum %0 {") + rest + "} : tensor<3x20x5xf32>"));
    check(one_op({"3x64xi64"}, "3x64xi64", std::string("cumsum %0 {") + rest + "} : tensor<3x64xi64>"));
  }
  CheckOptions options;
  options.symbols = {37};
  const std::string type = "2x?xf32, #tx.dims<()[s0] -> (2, s0)>";
  check(region_text({type}, {type},
                    "%c = tx.cumsum %0 {axis = 1 : i64} : tensor<" + type + ">\n %e = tx.exp %c : tensor<" + type +
                        ">\n tx.yield %e : tensor<" + type + ">",
                    "", {"n"}),
        options);
}
// Few lanes, of which LLVM would round some to bf16 by a library's function.
TEST(Generic, RoundsToBf16) {
  CheckOptions options;
  options.relative = 8e-3;
  options.absolute = 2e-2;
  check(one_op({"2x31xbf16"}, "2x31xbf16", "cumsum %0 {axis = 0 : i64} : tensor<2x31xbf16>"), options);
  options.ranges = {{-2, 2}, {0, 0}, {-2, 2}};
  check(one_op({"1x1xbf16", "1xi64", "1x1xbf16"}, "1x1xbf16",
               "scatter %0, %1, %2 {kind = 3 : i32, axis = 0 : i64} : tensor<1x1xbf16>, tensor<1xi64>, tensor<1x1xbf16>"),
        options);
}
// One index for each update or for each slice of them, some outside, some from the end, some the same.
TEST(Generic, ScattersUpdates) {
  CheckOptions options;
  for (const char* element : {"f32", "f16", "i8", "i64", "i1"}) {
    SCOPED_TRACE(element);
    auto t = [&](const char* shape) { return std::string(shape) + "x" + element; };
    auto scatter = [&](const char* shape, const char* indices, const char* updates, const std::string& rest) {
      check(one_op({t(shape), indices, t(updates)}, t(shape),
                   "scatter %0, %1, %2 {" + rest + "} : tensor<" + t(shape) + ">, tensor<" + indices + ">, tensor<" + t(updates) + ">"),
            options);
    };
    options.ranges = {{-2, 2}, {-12, 12}, {-2, 2}};
    options.absolute = 1e-3;
    scatter("9x70", "13xi64", "13x70", "axis = 0 : i64");
    scatter("3x9x16", "3x5x16xi32", "3x5x16", "axis = 1 : i64");
    scatter("4x9", "4x20xi64", "4x20", "axis = 1 : i64");
    scatter("300", "50xi64", "50", "axis = 0 : i64");
    if (std::string(element) == "i1") continue;
    for (const char* kind : {"0", "2", "3", "4"}) {
      std::string rest = std::string("kind = ") + kind + " : i32, axis = ";
      scatter("9x64", "13xi64", "13x64", rest + "0 : i64");
      scatter("4x9x3", "4x20x3xi32", "4x20x3", rest + "1 : i64");
    }
  }
  options.symbols = {7};
  const std::string data = "?x40xf32, #tx.dims<()[s0] -> (s0, 40)>", updates = "?x40xf32, #tx.dims<()[s0] -> (s0 * 2, 40)>",
                    indices = "?xi64, #tx.dims<()[s0] -> (s0 * 2)>";
  check(region_text({data, indices, updates}, {data},
                    "%r = tx.scatter %0, %1, %2 {axis = 0 : i64} : tensor<" + data + ">, tensor<" + indices + ">, tensor<" + updates +
                        ">\n tx.yield %r : tensor<" + data + ">",
                    "", {"n"}),
        options);
}
// Many are equal.
TEST(Generic, Sorts) {
  CheckOptions options;
  for (const char* element : {"f32", "f16", "i8", "ui8", "i64"}) {
    SCOPED_TRACE(element);
    options.ranges = {{element[0] == 'u' ? 0 : -40, 40}};
    auto sort = [&](const Shape& shape, size_t axis, int64_t count) {
      Shape first = shape;
      first[axis] = count;
      for (const char* rest : {"", ", descending"}) {
        check(one_op({type_of(shape, element)}, type_of(first, "i64"),
                     "sort %0 {axis = " + std::to_string(axis) + rest + "} : " + tensor(type_of(shape, element)) + " -> " +
                         tensor(type_of(first, "i64"))),
              options);
      }
    };
    sort({5, 300}, 1, 7);
    sort({3, 65, 4}, 1, 65);
    sort({130}, 0, 1);
    sort({2, 9}, 1, 8);
  }
  options.ranges = {{-2, 2}};
  const std::string type = "?x3xf32, #tx.dims<()[s0] -> (s0, 3)>", first = "?x3xi64, #tx.dims<()[s0] -> (s0 - 7, 3)>";
  for (int64_t n : {45, 7}) {  // of 7 none are wanted
    options.symbols = {n};
    check(region_text(
              {type}, {first},
              "%r = tx.sort %0 {axis = 0 : i64} : tensor<" + type + "> -> tensor<" + first + ">\n tx.yield %r : tensor<" + first + ">", "",
              {"n"}),
          options);
  }
}
// Trees of three steps over six features.
struct TreesCase {
  const char *kind, *element;
  int64_t groups, trees, outputs;
  bool has_flags;
};

void check_trees(const std::string& strategy, const std::string& rows) {
  for (const TreesCase& c : {TreesCase{"sum", "xf32", 1, 19, 1, false},
                             {"max", "xf32", 3, 5, 1, true},
                             {"sum strict", "xf64", 1, 9, 11, false},
                             {"min strict", "xf32", 2, 1, 3, true}}) {
    const std::string type = c.element, t = std::to_string(c.groups) + "x" + std::to_string(c.trees) + "x", o = std::to_string(c.outputs);
    std::vector<std::string> operands = {rows + "x6" + type, t + "7xui16", t + "7" + type, t + "8x" + o + type};
    if (c.has_flags) operands.push_back(t + "7xui8");
    const std::string result = rows + "x" + std::to_string(c.groups) + "x" + o + type;
    std::string types;
    for (const std::string& operand : operands) types += (types.empty() ? "tensor<" : ", tensor<") + operand + ">";
    CheckOptions options;
    options.strategy = strategy;
    options.ranges = {{-1, 1}, {0, 7}, {-1, 1}, {-1, 1}, {0, 8}};  // feature 6 does not exist, and is clamped
    options.ranges.resize(operands.size());
    check_region(one_op(operands, result,
                        std::string("trees ") + c.kind + " %0 features %1 thresholds %2 weights %3" + (c.has_flags ? " flags %4" : "") +
                            " steps 3 : (" + types + ") -> tensor<" + result + ">"),
                 options);
  }
}

TEST(Generic, WalksThroughTrees) {
  check_trees("generic", "5");
}

// Of a table of nodes that are found often, in texts of few letters; -1 is outside of the table.
TEST(Generic, FindsNgrams) {
  struct Case {
    const char *letters, *attributes, *result;
  };
  for (const Case& c :
       {Case{"1", "longest 1 least 1 goes_on 3 none 99 runs", "7x1x31"}, Case{"2", "longest 1 least 1 goes_on 1 none 0", "7x1x31"},
        Case{"3", "longest 2 least 1 goes_on 2 none 7 runs", "7x2x31"}, Case{"1", "longest 1 least 2 goes_on 0 none 3 runs", "7x1x31"},
        Case{"2", "longest 3 least 2 goes_on 2 none 5 runs", "7x3x31"}, Case{"2", "longest 4 least 1 goes_on 1 none 50", "7x4x31"}}) {
    const std::vector<std::string> operands = {"7x30xui8", "256xui8", std::string(c.letters) + "x256xi32", "6x3xi32"};
    const std::string result = std::string(c.result) + "xi32";
    std::string types;
    for (const std::string& operand : operands) types += (types.empty() ? "tensor<" : ", tensor<") + operand + ">";
    for (uint32_t seed : {1u, 2u, 3u}) {
      CheckOptions options;
      options.ranges = {{0, 20}, {0, 4}, {0, 5}, {-1, 5}};
      options.seed = seed;
      options.on_amdgpu = seed == 1;
      check(one_op(operands, result,
                   "ngrams %0 leads %1 letters %2 nodes %3 " + std::string(c.attributes) + " : (" + types + ") -> tensor<" + result + ">"),
            options);
    }
  }
}

TEST(Walks, TakeSeveralRowsAtATime) {
  check_trees("", "43");
  check_trees("", "3");
}

TEST(Generic, SortsNanBehindAllNumbers) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const Tensor values{{6}, {1, nan, 3, nan, 2, infinity}};
  const std::pair<const char*, std::vector<double>> orders[] = {{"", {0, 4, 2, 5, 1, 3}}, {", descending", {1, 3, 5, 2, 4, 0}}};
  for (const auto& [rest, wanted] : orders) {
    ParsedRegion parsed(one_op({"6xf32"}, "6xi64", std::string("sort %0 {axis = 0 : i64") + rest + "} : tensor<6xf32> -> tensor<6xi64>"));
    for (const std::string& level : runnable_levels()) {
      LoadedKernel kernel(parsed.region(), level);
      ASSERT_TRUE(kernel.usable());
      EXPECT_EQ(run_kernel(kernel, parsed.region(), {values}, {}, false)[0].data, wanted) << level;
    }
  }
}
TEST(Generic, RemovesWhatOverlaps) {
  CheckOptions options;
  options.on_amdgpu = false;
  options.ranges = {{0, 4}, {0, 2}, {0.2, 0.3}, {3, 9}};
  check(one_op({"2x3x40x4xf32", "2x3x40xi1", "f32", "i64"}, "2x3x40xi1",
               "suppress %0, %1, %2, %3 : tensor<2x3x40x4xf32>, tensor<2x3x40xi1>, tensor<f32>, tensor<i64> -> tensor<2x3x40xi1>"),
        options);
  options.on_amdgpu = true;
  const std::string boxes = "2x?x4xf16, #tx.dims<()[s0] -> (2, s0, 4)>", list = "2x?xi1, #tx.dims<()[s0] -> (2, s0)>";
  options.symbols = {70};
  check(region_text({boxes, list, "f16", "i64"}, {list},
                    "%r = tx.suppress %0, %1, %2, %3 : tensor<" + boxes + ">, tensor<" + list + ">, tensor<f16>, tensor<i64> -> tensor<" +
                        list + ">\n tx.yield %r : tensor<" + list + ">",
                    "", {"n"}),
        options);
}
TEST(Generic, TakesBitsForAnotherType) {
  CheckOptions options;
  for (const auto& [from, to] : {std::pair("f32", "i32"), std::pair("f16", "ui16"), std::pair("bf16", "i16")})
    check(one_op({std::string("70x") + from}, std::string("70x") + to,
                 std::string("bit_cast %0 : tensor<70x") + from + "> -> tensor<70x" + to + ">"),
          options);
  options.ranges = {{1 << 29, 1 << 30}};
  check(one_op({"5x70xi32"}, "5x70xf32", "bit_cast %0 : tensor<5x70xi32> -> tensor<5x70xf32>"), options);
}
// The first is a test vector that the authors of Philox published with it.
TEST(Generic, HasTheRandomBitsOfPhilox) {
  ParsedRegion parsed(one_op({"4xi64", "4xi64"}, "4xui32", "random_bits %0, %1 : tensor<4xi64>, tensor<4xi64> -> tensor<4xui32>"));
  const Tensor index{{4}, {0, 0, 1, 0x123456789AB}}, seed{{4}, {0, 0, 0, 0x98765432100}};
  const std::vector<double> wanted = evaluate(parsed.region(), {index, seed}, {})[0].data;
  EXPECT_EQ(wanted[0], 0x6627E8D5);
  for (const std::string& level : runnable_levels()) {
    LoadedKernel kernel(parsed.region(), level);
    ASSERT_TRUE(kernel.usable());
    EXPECT_EQ(run_kernel(kernel, parsed.region(), {index, seed}, {}, false)[0].data, wanted) << level;
  }
  check(one_op({"3x70xi64", "3x70xi64"}, "3x70xui32", "random_bits %0, %1 : tensor<3x70xi64>, tensor<3x70xi64> -> tensor<3x70xui32>"));
}
// Windows that end at the borders of the image, in the middle of it, or beyond its pads.
TEST(Generic, Pools) {
  auto pool = [](const std::string& kind, const std::string& in, const std::string& out, const std::string& rest) {
    return one_op({in}, out, "pool " + kind + " %0 {" + rest + "} : " + tensor(in) + " -> " + tensor(out));
  };
  const std::string three =
      "kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, "
      "dilations = array<i64: 1, 1>";
  for (const char* element : {"f32", "f16", "f64", "i8", "ui8"}) {
    SCOPED_TRACE(element);
    CheckOptions options;
    if (std::string(element) == "i8") options.ranges = {{-128, 127}};
    if (std::string(element) == "ui8") options.ranges = {{0, 255}};
    check(pool("max", std::string("2x9x8x70x") + element, std::string("2x5x4x70x") + element, three), options);
  }
  for (const char* rest : {"", ", include_pad"}) {
    check(pool("average", "2x9x8x70xf32", "2x5x4x70xf32", three + rest));
    check(pool("average", "1x9x3x5xf32", "1x5x2x5xf32", three + rest));
    check(pool("average", "1x12x20xf32", "1x7x20xf32",
               std::string("kernel = array<i64: 3>, strides = array<i64: 2>, pads_low = array<i64: 1>, pads_high = array<i64: 0>, "
                           "dilations = array<i64: 2>") +
                   rest));
  }
  CheckOptions options;
  options.symbols = {7};
  const std::string in = "1x?x4x33xf32, #tx.dims<()[s0] -> (1, s0, 4, 33)>",
                    out = "1x?x2x33xf32, #tx.dims<()[s0] -> (1, (s0 - 1) floordiv 2 + 1, 2, 33)>";
  for (const char* kind : {"max", "average"}) {
    check(region_text({in}, {out},
                      std::string("%p = tx.pool ") + kind + " %0 {" + three + "} : " + tensor(in) + " -> " + tensor(out) +
                          "\n%e = tx.relu %p : " + tensor(out) + "\n tx.yield %e : " + tensor(out),
                      "", {"n"}),
          options);
  }
}
// Lines of channels shorter than a window, than a vector, and longer than several.
TEST(Generic, NormalizesByNeighbors) {
  for (const char* type : {"5x3xf32", "4x96xf32", "3x200xf32", "2x70xf16", "2x70xf64"}) {
    CheckOptions options;
    if (std::string(type) == "2x70xf16") options.relative = 1e-3;
    for (const char* rest : {"size = 5, alpha = 1.0e-1, beta = 0.75, bias = 1.0", "size = 4, alpha = 2.0, beta = 0.6, bias = 2.0",
                             "size = 300, alpha = 1.0, beta = 1.5, bias = 0.5"}) {
      check(one_op({type}, type, std::string("lrn %0 {") + rest + "} : tensor<" + type + ">"), options);
    }
  }
  CheckOptions options;
  options.symbols = {41};
  const std::string type = "3x?xf32, #tx.dims<()[s0] -> (3, s0)>";
  check(region_text({type}, {type},
                    "%l = tx.lrn %0 {size = 5, alpha = 1.0e-1, beta = 0.75, bias = 1.0} : " + tensor(type) +
                        "\n%e = tx.exp %l : " + tensor(type) + "\n tx.yield %e : " + tensor(type),
                    "", {"n"}),
        options);
}
TEST(Generic, PadsWhatIsComputed) {
  const std::string pad = "%y = tx.pad %e {low = array<i64: 1, 5>, high = array<i64: 2, 0>, value = 7.0 : f64} : ";
  check(region_text({"3x40xf32"}, {"6x45xf32"},
                    "%e = tx.exp %0 : tensor<3x40xf32>\n" + pad + "tensor<3x40xf32> -> tensor<6x45xf32>\n tx.yield %y : tensor<6x45xf32>"));
  CheckOptions options;
  options.symbols = {2};  // less than what is in front of it
  const std::string in = "3x?xf32, #tx.dims<()[s0] -> (3, s0)>", out = "6x?xf32, #tx.dims<()[s0] -> (6, s0 + 5)>";
  check(region_text({in}, {out},
                    "%e = tx.exp %0 : " + tensor(in) + "\n" + pad + tensor(in) + " -> " + tensor(out) + "\n tx.yield %y : " + tensor(out),
                    "", {"n"}),
        options);
}
TEST(Generic, JoinsPartsThatMayBeEmpty) {
  const std::string a = "?x33xf32, #tx.dims<()[s0] -> (s0 - 3, 33)>", b = "2x33xf32", both = "?x33xf32, #tx.dims<()[s0] -> (s0 - 1, 33)>";
  for (int64_t n : {3, 9}) {
    CheckOptions options;
    options.symbols = {n};
    check(region_text({a, b}, {both},
                      "%y = tx.concat %0, %1 {axis = 0} : " + tensor(a) + ", " + tensor(b) + " -> " + tensor(both) +
                          "\ntx.yield %y : " + tensor(both),
                      "", {"n"}),
          options);
  }
}
TEST(Generic, Multiplies) {
  check(region_text({"5x7xf32", "7x35xf32", "35xf32"}, {"5x35xf32"},
                    "%p = tx.matmul %0, %1 : tensor<5x7xf32>, tensor<7x35xf32> -> tensor<5x35xf32>\n"
                    "%b = tx.broadcast %2 {dimensions = array<i64: 1>} : tensor<35xf32> -> tensor<5x35xf32>\n"
                    "%s = tx.add %p, %b : tensor<5x35xf32>\n tx.yield %s : tensor<5x35xf32>"));
}
TEST(Generic, ConvolvesInThreeDimensions) {
  // Groups of 10 columns, which lanes would straddle, and of 64.
  for (const char* columns : {"20", "128"}) {
    SCOPED_TRACE(columns);
    const std::string filter = std::string("3x1x2x4x") + columns + "xf32", result = std::string("2x4x3x4x") + columns + "xf32";
    check(one_op({"2x4x5x4x8xf32", filter}, result,
                 "conv %0, %1 {strides = array<i64: 1, 2, 1>, pads_low = array<i64: 1, 0, 1>, pads_high = array<i64: 1, 0, 0>, "
                 "dilations = array<i64: 1, 1, 1>, groups = 2 : i64} : tensor<2x4x5x4x8xf32>, tensor<" +
                     filter + "> -> tensor<" + result + ">"));
  }
}
TEST(Generic, MultipliesOtherElementTypes) {
  for (const char* element : {"f16", "bf16", "f64", "i8", "ui8", "i16", "ui16", "i32", "ui32", "ui64", "i64"}) {
    SCOPED_TRACE(element);
    const std::string e = element, in = "5x7x" + e, other = "7x35x" + e, out = "5x35x" + e;
    CheckOptions options;
    options.ranges = {{0, 4}};
    if (e == "f16") options.relative = 2e-3, options.absolute = 2e-2;
    if (e == "bf16") options.relative = 2e-2, options.absolute = 2e-1;
    check(one_op({in, other}, out, "matmul %0, %1 : tensor<" + in + ">, tensor<" + other + "> -> tensor<" + out + ">"), options);
    const std::string image = "1x6x5x3x" + e, filter = "3x3x3x20x" + e, result = "1x6x5x20x" + e;
    options.ranges = {{0, 2}};
    check(one_op({image, filter}, result,
                 "conv %0, %1 {strides = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, dilations = "
                 "array<i64: 1, 1>, "
                 "groups = 1 : i64} : tensor<" +
                     image + ">, tensor<" + filter + "> -> tensor<" + result + ">"),
          options);
  }
}
TEST(Generic, MultipliesTransposedOperandsOfAnySize) {
  const std::string s = "?x", dims = "#tx.dims<()[s0, s1] -> ";
  CheckOptions options;
  options.symbols = {5, 37};
  options.absolute = 1e-4;
  const std::string lhs = "?x6xf32, " + dims + "(s0, 6)>", rhs = "?x6xf32, " + dims + "(s1, 6)>", out = "?x?xf32, " + dims + "(s0, s1)>";
  check(region_text({lhs, rhs}, {out},
                    "%y = tx.matmul %0, %1 {transpose_rhs} : tensor<" + lhs + ">, tensor<" + rhs + "> -> tensor<" + out +
                        ">\n tx.yield %y : tensor<" + out + ">",
                    "", {"m", "n"}),
        options);
  // K is a symbol, and what is behind the product reads a row of the right length.
  const std::string a = "3x?xf32, " + dims + "(3, s0)>", b = "?x?xf32, " + dims + "(s0, s1)>", y = "3x?xf32, " + dims + "(3, s1)>",
                    row = "?xf32, " + dims + "(s1)>";
  check(region_text({a, b, row}, {y},
                    "%p = tx.matmul %0, %1 : tensor<" + a + ">, tensor<" + b + "> -> tensor<" + y +
                        ">\n %w = tx.broadcast %2 {dimensions = "
                        "array<i64: 1>} : tensor<" +
                        row + "> -> tensor<" + y + ">\n %q = tx.add %p, %w : tensor<" + y + ">\n %r = tx.tanh %q : tensor<" + y +
                        ">\n tx.yield %r : tensor<" + y + ">",
                    "", {"k", "n"}),
        options);
}
TEST(Generic, GivesZeroForNoProducts) {
  check(one_op({"3x0xf32", "0x5xf32"}, "3x5xf32", "matmul %0, %1 : tensor<3x0xf32>, tensor<0x5xf32> -> tensor<3x5xf32>"));
}

}  // namespace
}  // namespace heddle::tests
