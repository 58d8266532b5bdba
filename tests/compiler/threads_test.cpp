// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What threads do together, by exchanges and shared memory, on every machine that has them: rows, and products of a few rows with a matrix.
#include <gtest/gtest.h>

#include <array>

#include "tests/compiler/contraction_cases.h"
#include "tests/compiler/kernel_run.h"
#include "tests/compiler/opencl_run.h"

namespace heddle::tests {
namespace {

CheckOptions rows_options() {
  CheckOptions options;
  options.strategy = "rows";
  options.absolute = options.relative = 1e-4;
  return options;
}

std::string reduction(const std::string& kind, const std::string& in, const std::string& axes, const std::string& out) {
  return one_op({in}, out, "reduce " + kind + " %0 {axes = array<i64: " + axes + ">} : " + tensor(in) + " -> " + tensor(out));
}

std::string softmax(const std::string& type, const char* axis) {
  return one_op({type}, type, std::string("softmax %0 {axis = ") + axis + "} : " + tensor(type));
}

// Says in the list of skipped tests that SPIR-V was not run.
TEST(Threads, HaveAnOpenClDevice) {
  if (!no_opencl_device().empty()) GTEST_SKIP() << no_opencl_device();
}

// By a subgroup, by a workgroup, across memory in one thread, by all subgroups, and by more threads where there may be more.
TEST(Threads, ReduceRows) {
  struct Shapes {
    const char *in, *axes, *out;
  };
  for (auto [in, axes, out] : {Shapes{"11x70", "1", "11"},
                               {"300x4", "1", "300"},
                               {"3x2000", "1", "3"},
                               {"2x2003", "1", "2"},
                               {"9x44", "0", "44"},
                               {"9x45", "0", "45"},
                               {"100x70", "0", "70"},
                               {"1500x33", "0", "33"},
                               {"3x5x129", "1, 2", "3"},
                               {"3x40x9", "0, 2", "40"}}) {
    for (const char* kind : {"sum", "max", "mean"}) {
      SCOPED_TRACE(std::string(kind) + " of " + in + " over " + axes);
      check_region(reduction(kind, std::string(in) + "xf32", axes, std::string(out) + "xf32"), rows_options());
    }
  }
}

// Each in a slot of its own width.
TEST(Threads, ReduceRowsOfAnyElement) {
  for (const char* element : {"f16", "bf16", "f64", "i8", "ui8", "i16", "i32", "i64"}) {
    SCOPED_TRACE(element);
    CheckOptions options = rows_options();
    if (element[0] != 'f' && element[0] != 'b') options.ranges = {{0, 100}};
    if (std::string(element).find("16") != std::string::npos) options.absolute = options.relative = 1e-2;
    for (const char* in : {"5x72", "2x1500"}) {
      const std::string type = std::string(in) + "x" + element, out = std::string(1, in[0]) + "x" + element;
      check_region(reduction("max", type, "1", out), options);
      if (std::string(element).find('8') == std::string::npos && std::string(element) != "i16")
        check_region(reduction("sum", type, "1", out), options);
    }
    check_region(reduction("min", std::string("40x70x") + element, "0", std::string("70x") + element), options);
  }
}

TEST(Threads, ExponentiateRows) {
  CheckOptions options = rows_options();
  options.ranges = {{-20, 20}};
  for (auto [type, axis] : {std::pair{"5x37xf32", "1"}, {"2x3000xf32", "1"}, {"3x20x33xf32", "1"}, {"12x5xf32", "0"}, {"50x20xf32", "0"}})
    check_region(softmax(type, axis), options);
  options.absolute = options.relative = 2e-3;
  check_region(softmax("5x64xf16", "1"), options);
}

// The last workgroup has as many rows as the others, or fewer.
TEST(Threads, GoThroughAnyNumberOfRows) {
  const std::string in = "?x40xf32, #tx.dims<()[s0] -> (s0, 40)>", out = "?xf32, #tx.dims<()[s0] -> (s0)>";
  const std::string sum = "%s = tx.reduce sum %0 {axes = array<i64: 1>} : " + tensor(in) + " -> " + tensor(out);
  const std::string text = region_text({in}, {out}, sum + "\ntx.yield %s : " + tensor(out), "", {"n"});
  for (int64_t n : {0, 1, 7, 8, 9, 64}) {
    CheckOptions options = rows_options();
    options.symbols = {n};
    check_region(text, options);
  }
}

TEST(Threads, NormalizeRows) {
  for (auto [rows, row] : {std::pair{"11", "96"}, {"3", "1536"}}) check_region(normalization(rows, row, "f32"), rows_options());
  CheckOptions options = rows_options();
  options.absolute = options.relative = 2e-2;
  check_region(normalization("11", "96", "f16"), options);
}

// Exact. Each side with the values at the ends of its range.
void check_dots(const std::string& lhs, const std::string& rhs, const std::string& result, const std::string& op,
                const std::vector<int64_t>& symbols = {}) {
  SCOPED_TRACE(op + ": " + lhs + ", " + rhs);
  auto range = [](const std::string& type) {
    return type.find("ui8") == std::string::npos ? std::pair<double, double>(-128, 127) : std::pair<double, double>(0, 255);
  };
  CheckOptions options;
  options.strategy = "dots";
  options.ranges = {range(lhs), range(rhs)};
  if (result.ends_with("xi8")) options.ranges = {{-1, 1}, {-2, 2}};  // the reference does not wrap
  options.relative = options.absolute = 0;
  options.symbols = symbols;
  const std::string text =
      "%y = tx." + op + " : " + tensor(lhs) + ", " + tensor(rhs) + " -> " + tensor(result) + "\ntx.yield %y : " + tensor(result);
  check_region(region_text({lhs, rhs}, {result}, text, "", symbols.empty() ? std::vector<std::string>{} : std::vector<std::string>{"n"}),
               options);
}

// With and without signs on each side, depths that are and are not whole words or steps, operands in any order, padding, groups.
TEST(Threads, MultiplyBytesFourAtATime) {
  for (const char* lhs : {"i8", "ui8"}) {
    for (const char* rhs : {"i8", "ui8"}) {
      check_dots(std::string("37x43x") + lhs, std::string("43x50x") + rhs, "37x50xi32", "matmul %0, %1");
    }
  }
  for (int64_t depth : {30, 64}) {
    const std::string k = std::to_string(depth);
    check_dots("9x" + k + "xi8", "17x" + k + "xui8", "9x17xi32", "matmul %0, %1 {transpose_rhs}");
  }
  check_dots("40x33xui8", "40x70xi8", "33x70xi32", "matmul %0, %1 {transpose_lhs}");
  check_dots("3x20x12xi8", "3x12x16xi8", "3x20x16xi32", "matmul %0, %1");
  check_dots("520x8xi8", "8x530xui8", "520x530xi32", "matmul %0, %1");  // larger tiles
  check_dots("12x40xi8", "40x16xi8", "12x16xi8", "matmul %0, %1");      // the lower bits of the sums
  const std::string attributes = "strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, ";
  check_dots("2x9x11x5xui8", "3x3x5x20xi8", "2x9x6x20xi32",
             "conv %0, %1 {" + attributes + "pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, groups = 1 : i64}");
  check_dots("1x9x11x24xi8", "3x3x12x32xi8", "1x7x5x32xi32",
             "conv %0, %1 {" + attributes + "pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, groups = 2 : i64}");
  for (int64_t n : {0, 41}) {
    check_dots("?x20xi8, #tx.dims<()[s0] -> (s0, 20)>", "20x24xui8", "?x24xi32, #tx.dims<()[s0] -> (s0, 24)>", "matmul %0, %1", {n});
    check_dots("20x?xi8, #tx.dims<()[s0] -> (20, s0)>", "?x24xui8, #tx.dims<()[s0] -> (s0, 24)>", "20x24xi32", "matmul %0, %1", {n});
  }
}

void check_product(Matmul matmul) {
  Case product = matmul.to_case();
  CheckOptions options;
  options.strategy = "gemv";
  options.ranges = product.ranges();
  options.symbols = product.symbols;
  options.absolute = 1e-5 * static_cast<double>(product.depth()) * product.largest_weight();
  options.relative = matmul.element == "f32" ? 1e-4 : 1e-2;
  check_region(product.region(false), options);
}

// Few neighbors and many, vectors and single elements, whole rounds of loads and what is left behind them.
TEST(Threads, MultiplyAFewRows) {
  for (int64_t rows : {1, 8}) {
    for (auto [depth, columns] : {std::pair{9, 10}, {100, 1003}, {1111, 20}, {200, 768}, {64, 4000}}) {
      for (bool transposed : {false, true}) {
        SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(depth) + "x" + std::to_string(columns) +
                     (transposed ? ", transposed" : ""));
        check_product({.rows = rows, .depth = depth, .columns = columns, .bias = true, .transpose_rhs = transposed});
      }
    }
  }
  check_product({.batch = {2, 2}, .rows = 2, .depth = 40, .columns = 72, .bias = true});
  check_product({.batch = {1}, .rows = 2, .depth = 40, .columns = 72, .batched_rhs = true, .bias = true});
  check_product(
      {.rows = 8, .depth = 40, .columns = 16000, .bias = true});  // more of f32 than shared memory has room for, with all neighbors
}
TEST(Threads, MultiplyAFewRowsOfAnyElement) {
  for (bool transposed : {false, true}) {
    for (const char* element : {"f16", "bf16"}) {
      SCOPED_TRACE(element);
      check_product({.rows = 3, .depth = 200, .columns = 136, .bias = true, .transpose_rhs = transposed, .element = element});
    }
    for (auto [integers, zero] : quantized_weights) {
      SCOPED_TRACE(integers);
      check_product(
          {.rows = 2, .depth = 200, .columns = 136, .bias = true, .transpose_rhs = transposed, .integers = integers, .has_zero = zero});
    }
  }
}

// Each of several matrices has workgroups of its own, in one kernel.
TEST(Threads, MultiplyAFewRowsWithSeveralMatrices) {
  for (const char* element : {"f32", "bf16"}) {
    for (int64_t rows : {1, 5}) {
      SCOPED_TRACE(std::string(element) + ", " + std::to_string(rows) + " rows");
      auto type = [&](int64_t m, int64_t n) { return std::to_string(m) + "x" + std::to_string(n) + "x" + element; };
      const std::vector<int64_t> columns = {136, 20, 600};
      std::vector<std::string> operands = {type(rows, 300)}, results;
      std::string body, yielded, types;
      for (auto [i, n] : llvm::enumerate(columns)) {
        const std::string own = std::to_string(i), matrix = std::to_string(operands.size());
        operands.push_back(i == 1 ? type(n, 300) : type(300, n));
        results.push_back(type(rows, n));
        const std::string result = tensor(results.back());
        body += "%m" + own + " = tx.matmul %0, %" + matrix + (i == 1 ? " {transpose_rhs}" : "") + " : " + tensor(operands.front()) + ", " +
                tensor(operands.back()) + " -> " + result + "\n%r" + own + " = tx.relu %m" + own + " : " + result + "\n";
        yielded += (i == 0 ? "%r" : ", %r") + own;
        types += (i == 0 ? "" : ", ") + result;
      }
      CheckOptions options;
      options.strategy = "gemv";
      options.absolute = 3e-3;
      options.relative = std::string(element) == "f32" ? 1e-4 : 1e-2;
      check_region(region_text(operands, results, body + "tx.yield " + yielded + " : " + types), options);
    }
  }
}

// One result of the sums with two matrices: along columns, and along the depth.
TEST(Threads, MultiplyAFewRowsWithAGate) {
  for (auto [rows, depth, columns] : {std::array<int64_t, 3>{1, 64, 520}, {3, 777, 40}}) {
    for (bool transposed : {false, true}) {
      SCOPED_TRACE(std::to_string(depth) + "x" + std::to_string(columns) + (transposed ? ", transposed" : ""));
      auto type = [](int64_t m, int64_t n) { return std::to_string(m) + "x" + std::to_string(n) + "xf32"; };
      const std::string row = type(rows, depth), matrix = transposed ? type(columns, depth) : type(depth, columns),
                        result = type(rows, columns);
      auto product = [&](const char* name, const char* operand) {
        return std::string(name) + " = tx.matmul %0, " + operand + (transposed ? " {transpose_rhs}" : "") + " : " + tensor(row) + ", " +
               tensor(matrix) + " -> " + tensor(result) + "\n";
      };
      const std::string of = " : " + tensor(result);
      CheckOptions options;
      options.strategy = "gemv";
      options.absolute = options.relative = 1e-3;
      check_region(
          region_text({row, matrix, matrix, result}, {result},
                      product("%gate", "%1") + "%open = tx.sigmoid %gate" + of + "\n%left = tx.mul %gate, %open" + of + "\n" +
                          product("%up", "%2") + "%both = tx.mul %left, %up" + of + "\n%y = tx.add %both, %3" + of + "\ntx.yield %y" + of),
          options);
    }
  }
}

}  // namespace
}  // namespace heddle::tests
