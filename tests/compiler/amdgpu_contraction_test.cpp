// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products and convolutions on AMD GPUs, in tiles: run by the interpreter of tests/amdgpu for every chip, with the tile that is thought the best and
// the one that is thought the worst, against what they have to be; and that chips use their matrix instructions.
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

void check(const std::string& what, const Case& c, double jump = 0) {
  SCOPED_TRACE(what);
  ParsedRegion parsed(c.region(false));
  const CheckOptions options = options_of(c, jump);
  const std::vector<Tensor> operands = random_operands(parsed.region(), options);
  check_on_amdgpu(parsed.region(), operands, expected_results(parsed.region(), operands, options), options);
}

void check(const std::string& what, Matmul matmul) {
  for (const char* element : float_elements) {
    matmul.element = element;
    check(what + " of " + element, matmul.to_case());
  }
}

constexpr double quantized_jump = 0.2501;  // the next step, where a sum lies between two

void check(const std::string& what, Conv conv) {
  for (const char* element : float_elements) {
    conv.element = element;
    const double jump = conv.tail == Conv::quantized ? quantized_jump : conv.tail == Conv::curved ? 1 : 0;
    check(what + " of " + element, conv.to_case(), jump);
  }
}

TEST(AmdgpuContraction, Multiplies) {
  check("odd", Matmul{.rows = 130, .depth = 129, .columns = 131, .bias = true});
  check("whole tiles", Matmul{.rows = 64, .depth = 64, .columns = 64});
}

TEST(AmdgpuContraction, MultipliesOtherTypes) {
  for (const char* element : {"f64", "i8", "i32"}) {
    check(element, Matmul{.rows = 37, .depth = 43, .columns = 40, .element = element}.to_case());
  }
}

TEST(AmdgpuContraction, MultipliesTransposedOperands) {
  check("right", Matmul{.rows = 33, .depth = 40, .columns = 24, .bias = true, .transpose_rhs = true});
  check("left", Matmul{.rows = 33, .depth = 40, .columns = 24, .transpose_lhs = true});
  check("result", Matmul{.rows = 72, .depth = 40, .columns = 36, .bias = true, .transpose_result = true});
  check("batches", Matmul{.batch = {2, 3}, .rows = 20, .depth = 40, .columns = 72, .batched_rhs = true});
  check("symbolic rows", Matmul{.rows = 37, .depth = 40, .columns = 72, .symbolic_rows = true, .bias = true, .pitch = 80});
}

TEST(AmdgpuContraction, MultipliesWithQuantizedWeights) {
  for (auto [integers, zero] : quantized_weights) {
    check(integers + std::string(zero ? ", with zeros" : ""),
          Matmul{.rows = 33, .depth = 77, .columns = 40, .bias = true, .integers = integers, .has_zero = zero});
  }
}

TEST(AmdgpuContraction, Convolves) {
  Conv conv{.height = 9, .width = 11, .channels = 24, .columns = 80, .low = {1, 1}, .high = {1, 1}, .tail = Conv::bias_relu};
  check("padded", conv);
  conv.groups = 2;
  check("groups", conv);
  conv.groups = 1;
  conv.channels_first = true;
  check("channels first", conv);
  check("strides", Conv{.batch = 3,
                        .height = 13,
                        .width = 10,
                        .channels = 3,
                        .columns = 20,
                        .strides = {2, 3},
                        .dilations = {1, 2},
                        .symbolic_batch = true});
}

}  // namespace
}  // namespace heddle::tests
