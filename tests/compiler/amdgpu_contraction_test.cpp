// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products and convolutions on AMD GPUs, in tiles: run by the interpreter of tests/amdgpu for every chip, with the tile that is thought the best and
// the one that is thought the worst, against what they have to be; and that chips use their matrix instructions. HEDDLE_AMDGPU_CASES=all runs many more
// cases, for some minutes.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>

#include "compiler/targets/amdgpu/amdgpu.h"
#include "compiler/targets/amdgpu/chip.h"
#include "tests/compiler/amdgpu_run.h"
#include "tests/compiler/contraction_cases.h"
#include "tests/compiler/cuda_case.h"

namespace heddle::tests {
namespace {

bool runs_all() {
  const char* cases = getenv("HEDDLE_AMDGPU_CASES");
  return cases && std::string(cases) == "all";
}

// The elements of the cases that run: this one, or all floats.
std::vector<const char*> all_or(const char* element) {
  return runs_all() ? std::vector<const char*>(std::begin(float_elements), std::end(float_elements)) : std::vector<const char*>{element};
}

// What a contraction's results may be off. jump: the same where the tail is not continuous.
CheckOptions options_of(const Case& c, double jump) {
  CheckOptions options;
  options.symbols = c.symbols;
  options.ranges = c.ranges();
  options.strategy = "tiles";
  const double spread = std::sqrt(static_cast<double>(c.depth())), step = step_of(c.element);
  const bool is_exact = c.element == "f32" || c.element == "f64";
  options.relative = is_exact ? 1e-5 : 2 * step;
  options.absolute = (is_exact ? 1e-6 * spread + 1e-6 : step * (2 * spread + 2)) * c.largest_weight() + jump;
  return options;
}

void check(const std::string& what, const Case& c, double jump = 0, const std::string& strategy = "tiles") {
  SCOPED_TRACE(what + " of " + c.element);
  ParsedRegion parsed(c.region(false));
  CheckOptions options = options_of(c, jump);
  options.strategy = strategy;
  const std::vector<Tensor> operands = random_operands(parsed.region(), options);
  check_on_amdgpu(parsed.region(), operands, expected_results(parsed.region(), operands, options), options);
}

// In each of these types, or in one of them.
void check(const std::string& what, Matmul matmul, llvm::ArrayRef<const char*> elements = float_elements) {
  for (const char* element : elements) {
    matmul.element = element;
    check(what, matmul.to_case());
  }
}

constexpr double quantized_jump = 0.2501;  // the next step, where a sum lies between two

void check(const std::string& what, Conv conv, llvm::ArrayRef<const char*> elements = float_elements,
           const std::string& strategy = "tiles") {
  for (const char* element : elements) {
    conv.element = element;
    const double jump = conv.tail == Conv::quantized ? quantized_jump : conv.tail == Conv::curved ? 1 : 0;
    check(what, conv.to_case(), jump, strategy);
  }
}

TEST(AmdgpuContraction, MultipliesInTilesWhateverTheSizes) {
  check("odd", Matmul{.rows = 33, .depth = 77, .columns = 131, .bias = true});
  if (!runs_all()) return;
  check("whole tiles", Matmul{.rows = 64, .depth = 64, .columns = 64});
  check("large", Matmul{.rows = 513, .depth = 96, .columns = 520, .bias = true});
  for (auto [rows, depth, columns] : {std::tuple{130, 129, 131}, {131, 130, 134}, {133, 132, 140}, {17, 9, 9}, {8, 8, 8}, {97, 113, 109}}) {
    const std::string name = std::to_string(rows) + "x" + std::to_string(depth) + "x" + std::to_string(columns);
    check(name, Matmul{.rows = rows, .depth = depth, .columns = columns, .bias = true});
    check(name + ", transposed", Matmul{.rows = rows, .depth = depth, .columns = columns, .transpose_rhs = true});
  }
}

TEST(AmdgpuContraction, MultipliesOtherTypes) {
  for (const char* element : {"f64", "i8", "i32"}) check(element, Matmul{.rows = 37, .depth = 43, .columns = 40}, element);
  if (!runs_all()) return;
  for (const char* element : {"f64", "i8", "i16", "i32", "i64"}) {
    check("large", Matmul{.rows = 256, .depth = 128, .columns = 256, .transpose_rhs = true}, element);
    check("odd", Matmul{.rows = 131, .depth = 129, .columns = 70}, element);
  }
}

// A contraction of bytes, with and without a sign, summed in 32 bits: exact, and for each chip with its matrix instruction for integers.
void check_bytes(const std::string& text, const std::string& lhs, const std::string& rhs) {
  SCOPED_TRACE(lhs + " by " + rhs);
  ParsedRegion parsed(text);
  CheckOptions options;
  options.ranges.clear();
  for (const std::string& element : {lhs, rhs})
    options.ranges.push_back(element[0] == 'u' ? std::pair<double, double>(0, 255) : std::pair<double, double>(-128, 127));
  options.relative = options.absolute = 0;
  options.strategy = "tiles";
  const std::vector<Tensor> operands = random_operands(parsed.region(), options);
  check_on_amdgpu(parsed.region(), operands, expected_results(parsed.region(), operands, options), options);
  for (const std::string& chip : targets::amdgpu_chips()) {
    auto kernel = compile_region(*targets::make_amdgpu_target(chip), parsed.region());
    ASSERT_TRUE(kernel) << chip;
    EXPECT_NE(kernel->resources.rung.find(chip[3] == '9' ? ", MFMA" : ", WMMA"), std::string::npos)
        << chip << ": " << kernel->resources.rung;
  }
}

TEST(AmdgpuContraction, SumsIntegersInMoreBits) {
  for (const std::string lhs : {"i8", "ui8"}) {
    for (const std::string rhs : {"i8", "ui8"}) {
      const std::string a = "70x200x" + lhs, b = "200x72x" + rhs;
      check_bytes(one_op({a, b}, "70x72xi32", "matmul %0, %1 : " + tensor(a) + ", " + tensor(b) + " -> tensor<70x72xi32>"), lhs, rhs);
    }
  }
}

TEST(AmdgpuContraction, ConvolvesIntegersInMoreBits) {
  for (const std::string lhs : {"i8", "ui8"}) {
    for (const std::string rhs : {"i8", "ui8"}) {
      const std::string image = "1x9x11x24x" + lhs, filter = "3x3x24x72x" + rhs;
      check_bytes(one_op({image, filter}, "1x9x11x72xi32",
                         "conv %0, %1 {strides = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, "
                         "dilations = array<i64: 1, 1>, groups = 1 : i64} : " +
                             tensor(image) + ", " + tensor(filter) + " -> tensor<1x9x11x72xi32>"),
                  lhs, rhs);
    }
  }
}

TEST(AmdgpuContraction, MultipliesTransposedOperands) {
  check("right", Matmul{.rows = 33, .depth = 40, .columns = 24, .bias = true, .transpose_rhs = true}, "f16");
  check("left", Matmul{.rows = 33, .depth = 40, .columns = 24, .transpose_lhs = true}, "bf16");
  check("result", Matmul{.rows = 72, .depth = 40, .columns = 36, .bias = true, .transpose_result = true}, "f32");
  check("symbolic rows", Matmul{.rows = 37, .depth = 40, .columns = 72, .symbolic_rows = true, .bias = true, .pitch = 80}, "f16");
  if (!runs_all()) return;
  check("right", Matmul{.rows = 70, .depth = 200, .columns = 104, .bias = true, .transpose_rhs = true});
  check("left", Matmul{.rows = 33, .depth = 40, .columns = 24, .transpose_lhs = true});
  check("right of batches", Matmul{.batch = {3}, .rows = 20, .depth = 64, .columns = 40, .batched_rhs = true, .transpose_rhs = true});
  check("batches", Matmul{.batch = {2, 3}, .rows = 20, .depth = 40, .columns = 72, .batched_rhs = true});
  check("odd result", Matmul{.rows = 97, .depth = 113, .columns = 109, .bias = true, .transpose_result = true});
  check("symbolic rows", Matmul{.rows = 70, .depth = 40, .columns = 72, .symbolic_rows = true, .bias = true, .transpose_result = true});
  check("batches", Matmul{.batch = {2, 3}, .rows = 72, .depth = 40, .columns = 36, .batched_rhs = true, .transpose_result = true});
}

TEST(AmdgpuContraction, MultipliesSlices) {
  check("odd columns", Matmul{.rows = 130, .depth = 64, .columns = 80, .before = {0, 3}, .after = {2, 4}}, "f16");
  if (!runs_all()) return;
  check("columns", Matmul{.rows = 130, .depth = 64, .columns = 80, .bias = true, .before = {0, 16}, .after = {0, 8}});
  check("a transposed right side",
        Matmul{.rows = 33, .depth = 320, .columns = 64, .transpose_rhs = true, .rhs_before = {3, 2}, .rhs_after = {1, 1}});
}

TEST(AmdgpuContraction, MultipliesWithQuantizedWeights) {
  for (auto [integers, zero] : quantized_weights) {
    const std::string what = integers + std::string(zero ? ", with zeros" : "");
    Matmul matmul{.rows = 33, .depth = 77, .columns = 40, .bias = true, .integers = integers, .has_zero = zero};
    check(what, matmul, all_or(zero ? "bf16" : "f32"));
    if (!runs_all()) continue;
    matmul.transpose_rhs = true;
    check(what + ", transposed", matmul);
    check(what + ", even", Matmul{.rows = 130, .depth = 192, .columns = 136, .bias = true, .integers = integers, .has_zero = zero});
    Conv conv{.height = 9, .width = 11, .channels = 24, .columns = 80, .low = {1, 1}, .high = {1, 1}, .tail = Conv::bias_relu};
    conv.integers = integers;
    conv.has_zero = zero;
    check(what + ", convolution", conv);
    conv.groups = 2;
    check(what + ", groups", conv);
  }
}

TEST(AmdgpuContraction, Convolves) {
  Conv conv{.height = 9, .width = 11, .channels = 24, .columns = 80, .low = {1, 1}, .high = {1, 1}, .tail = Conv::bias_relu};
  check("padded", conv, all_or("f32"));
  conv.groups = 2;
  check("groups", conv, all_or("f16"));
  conv.groups = 1;
  conv.channels_first = true;
  check("channels first", conv, all_or("bf16"));
  if (!runs_all()) return;
  check("strides", Conv{.batch = 3,
                        .height = 13,
                        .width = 10,
                        .channels = 3,
                        .columns = 20,
                        .strides = {2, 3},
                        .dilations = {1, 2},
                        .symbolic_batch = true});
  check("pixels", Conv{.batch = 2, .height = 14, .width = 14, .channels = 64, .columns = 96, .kernel = {1, 1}, .tail = Conv::residual});
  check("gelu", Conv{.height = 14, .width = 14, .channels = 32, .columns = 48, .low = {1, 1}, .high = {1, 1}, .tail = Conv::gelu});
  check("curved", Conv{.height = 14, .width = 14, .channels = 32, .columns = 48, .low = {1, 1}, .high = {1, 1}, .tail = Conv::curved});
  check("VGG", Conv{.height = 28,
                    .width = 28,
                    .channels = 64,
                    .columns = 128,
                    .low = {1, 1},
                    .high = {1, 1},
                    .tail = Conv::bias_relu,
                    .channels_first = true});
}

// Smaller relatives of the large convolution of amdgpu_large_convolution_test.cpp, by whichever strategy takes them: odd sizes, groups, strides.
TEST(AmdgpuContraction, ConvolvesQuantizedImagesOfOddSizes) {
  const Shape one{1, 1}, two{2, 2}, three{3, 3};
  std::vector<Conv> all{
      {.height = 7, .width = 9, .channels = 3, .columns = 20, .low = one, .high = one},
      {.height = 7, .width = 9, .channels = 60, .columns = 40, .low = one, .high = one, .groups = 5},
      {.height = 7, .width = 9, .channels = 5, .columns = 63, .low = one, .high = one},
      {.height = 7, .width = 9, .channels = 20, .columns = 65, .low = one, .high = one},
      {.height = 7, .width = 9, .channels = 63, .columns = 64, .low = one, .high = one},
      {.height = 7, .width = 9, .channels = 65, .columns = 5, .low = one, .high = one},
      {.height = 1, .width = 1, .channels = 65, .columns = 20, .kernel = {1, 1}},
      {.height = 513, .width = 1, .channels = 20, .columns = 64, .low = one, .high = one},
      {.height = 513, .width = 1, .channels = 63, .columns = 20, .strides = three, .low = one, .high = one},
      {.height = 7, .width = 9, .channels = 20, .columns = 64, .low = two, .high = two, .dilations = two},
  };
  if (!runs_all()) all.resize(2);
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string what = "sibling " + std::to_string(i);
    Conv conv = all[i];
    conv.tail = Conv::quantized;
    check(what, conv, all_or(i == 0 ? "f16" : "f32"), "");
    conv.tail = Conv::bias_relu;
    conv.integers = "i8";
    conv.has_zero = i % 2 == 1;
    check(what + ", weights of i8", conv, i % 2 == 0 ? "f32" : "f16", "");
  }
}

// Which strategy takes a region, and its tile.
std::string rung_of(const Matmul& matmul, const std::string& chip, std::string* assembly = nullptr) {
  ParsedRegion parsed(matmul.to_case().region(false));
  auto kernel = compile_region(*targets::make_amdgpu_target(chip), parsed.region());
  if (!kernel) return "none";
  if (assembly) *assembly = assembly_of(*kernel);
  return kernel->plan.strategy + ", " + kernel->resources.rung;
}

TEST(AmdgpuContraction, UsesTheInstructionsOfEachChip) {
  struct Expected {
    const char *element, *cdna2, *cdna3, *rdna3, *rdna4;  // null: none
  };
  for (const Expected& expected :
       {Expected{"f32", "v_mfma_f32_16x16x4f32", "v_mfma_f32_16x16x4_f32", nullptr, nullptr},
        {"f16", "v_mfma_f32_16x16x16f16", "v_mfma_f32_16x16x16_f16", "v_wmma_f32_16x16x16_f16", "v_wmma_f32_16x16x16_f16"},
        {"bf16", "v_mfma_f32_16x16x16bf16_1k", "v_mfma_f32_16x16x16_bf16", "v_wmma_f32_16x16x16_bf16", "v_wmma_f32_16x16x16_bf16"},
        {"i8", "v_mfma_i32_16x16x16i8", "v_mfma_i32_16x16x32_i8", "v_wmma_i32_16x16x16_iu8", "v_wmma_i32_16x16x16_iu8"},
        {"f64", nullptr, nullptr, nullptr, nullptr}}) {
    const Matmul matmul{.rows = 64, .depth = 64, .columns = 64, .element = expected.element};
    for (auto [chip, instruction] :
         {std::pair("gfx90a", expected.cdna2), {"gfx942", expected.cdna3}, {"gfx1100", expected.rdna3}, {"gfx1201", expected.rdna4}}) {
      SCOPED_TRACE(std::string(expected.element) + " on " + chip);
      std::string assembly;
      const std::string rung = rung_of(matmul, chip, &assembly);
      const bool is_cdna = chip[3] == '9';
      EXPECT_EQ(rung, std::string("tiles, tile 32x64") + (!instruction ? "" : is_cdna ? ", MFMA" : ", WMMA"));
      if (assembly.empty()) continue;
      if (instruction) {
        EXPECT_NE(assembly.find(instruction), std::string::npos) << assembly;
      } else {
        EXPECT_EQ(assembly.find("mfma"), std::string::npos);
        EXPECT_EQ(assembly.find("wmma"), std::string::npos);
      }
    }
  }
}

TEST(AmdgpuContraction, LeavesWhatTilesWouldNotFit) {
  EXPECT_EQ(rung_of({.rows = 7, .depth = 5, .columns = 24}, "gfx942"), "generic, ");
  EXPECT_EQ(rung_of({.rows = 70, .depth = 5, .columns = 24}, "gfx942"), "generic, ");
  EXPECT_EQ(rung_of({.rows = 70, .depth = 50, .columns = 4}, "gfx942"), "generic, ");
  EXPECT_EQ(rung_of({.rows = 2, .depth = 64, .columns = 64}, "gfx942"), "gemv, ");
}

}  // namespace
}  // namespace heddle::tests
