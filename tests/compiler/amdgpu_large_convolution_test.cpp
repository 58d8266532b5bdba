// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The convolution of 512 x 512 pixels with 64 channels and weights of int8, dequantized, biased, quantized and stored channels first, as one kernel for AMD
// GPUs: within 65,536 bytes of local memory, and right in the workgroups that the interpreter runs. Three of them in all tests, with
// HEDDLE_AMDGPU_CASES=all 64 for each chip and type, with HEDDLE_AMDGPU_CASES=whole all 4,096 for one type, which takes minutes for each chip.
// whole:gfx942:3/16 is the fourth of 16 parts for one chip, for processes side by side.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/targets/amdgpu/amdgpu.h"
#include "tests/compiler/amdgpu_run.h"
#include "tests/compiler/kernel_run.h"

namespace heddle::tests {
namespace {

constexpr int64_t side = 512, channels = 64, columns = 256, taps = 3;
constexpr double low = -128, high = 127;
constexpr char untouched = '\x5a';

std::string text_of(const std::string& element) {
  const std::string input = "1x512x512x64x" + element, filter = "3x3x64x256xi8", column = "256x" + element,
                    pixels = "tensor<1x512x512x256x" + element + ">", stored = "1x256x512x512x" + element;
  auto constant = [&](const std::string& name, const std::string& value) {
    return "%" + name + " = tx.constant dense<" + value + "> : " + pixels + "\n";
  };
  auto repeated = [&](const std::string& name, const std::string& operand) {
    return "%" + name + " = tx.broadcast " + operand + " {dimensions = array<i64: 3>} : tensor<" + column + "> -> " + pixels + "\n";
  };
  return region_text({input, filter, column, column}, {stored},
                     "%y = tx.conv %0, %1 {strides = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, "
                     "dilations = array<i64: 1, 1>, "
                     "groups = 1 : i64} : tensor<" +
                         input + ">, tensor<" + filter + "> -> " + pixels + "\n" + repeated("scale", "%2") +
                         "%s = tx.mul %y, %scale : " + pixels + "\n" + repeated("bias", "%3") + "%b = tx.add %s, %bias : " + pixels + "\n" +
                         constant("step", "0.05") + constant("low", "-128.0") + constant("high", "127.0") +
                         "%d = tx.div %b, %step : " + pixels + "\n%f = tx.round %d : " + pixels + "\n%g = tx.max %f, %low : " + pixels +
                         "\n%h = tx.min %g, %high : " + pixels + "\n%z = tx.mul %h, %step : " + pixels +
                         "\n%t = tx.transpose %z {permutation = array<i64: 0, 3, 1, 2>} : " + pixels + " -> tensor<" + stored +
                         ">\ntx.yield %t : tensor<" + stored + ">");
}

// Numbers that look random, from 0 to 1.
double noise(uint64_t i) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9;
  return static_cast<double>((x ^ (x >> 32)) & 0xffffff) / 0xffffff;
}

struct Operands {
  Tensor image, weights, scale, bias;
  double step;  // of the quantization

  explicit Operands(mlir::Type element) : step(stored(0.05, element)) {
    auto fill = [&](Tensor& tensor, std::vector<int64_t> shape, uint64_t seed, double from, double to, mlir::Type type) {
      tensor.shape = std::move(shape);
      int64_t count = 1;
      for (int64_t extent : tensor.shape) count *= extent;
      tensor.data.resize(static_cast<size_t>(count));
      for (size_t i = 0; i < tensor.data.size(); ++i) {
        const double value = from + (to - from) * noise(i + seed);
        tensor.data[i] = type ? stored(value, type) : std::round(value);
      }
    };
    fill(image, {1, side, side, channels}, 0, -1, 1, element);
    fill(weights, {taps, taps, channels, columns}, 100'000'000, -127, 127, {});
    fill(scale, {columns}, 200'000'000, 0.001, 0.011, element);
    fill(bias, {columns}, 300'000'000, -2, 2, element);
  }

  double result(int64_t column, int64_t y, int64_t x) const {
    double sum = 0;
    for (int64_t dy = 0; dy < taps; ++dy) {
      for (int64_t dx = 0; dx < taps; ++dx) {
        const int64_t from_y = y + dy - 1, from_x = x + dx - 1;
        if (from_y < 0 || from_y >= side || from_x < 0 || from_x >= side) continue;
        const double* pixel = &image.data[static_cast<size_t>((from_y * side + from_x) * channels)];
        const double* weight = &weights.data[static_cast<size_t>((dy * taps + dx) * channels * columns + column)];
        for (int64_t c = 0; c < channels; ++c) sum += pixel[c] * weight[c * columns];
      }
    }
    const auto at = static_cast<size_t>(column);
    return std::clamp(std::nearbyint((sum * scale.data[at] + bias.data[at]) / step), low, high) * step;
  }
};

// Compares what was written of the result: so many elements, which are right up to one step of the quantization and what its type rounds.
void compare(const std::vector<char>& bytes, mlir::Type element, const Operands& operands, size_t written, double tolerance) {
  const size_t size = element_bytes(element);
  size_t seen = 0, wrong = 0, off = 0;
  for (size_t i = 0; i < bytes.size() / size; ++i) {
    const char* at = &bytes[i * size];
    if (std::all_of(at, at + size, [](char byte) { return byte == untouched; })) continue;
    ++seen;
    const auto place = static_cast<int64_t>(i);
    const double wanted = operands.result(place / (side * side), place / side % side, place % side),
                 got = from_bytes(at, {1}, element).data.front(), difference = std::fabs(got - wanted);
    off += difference > operands.step / 2 + tolerance * std::fabs(wanted);
    if (difference > operands.step * 1.01 + tolerance * std::fabs(wanted) && ++wrong <= 3)
      ADD_FAILURE() << "element " << i << " is " << got << ", not " << wanted;
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(seen, written);
  // Few sums lie so near to the middle between two steps that another order of summation rounds them the other way.
  EXPECT_LT(static_cast<double>(off), 1e-3 * static_cast<double>(written));
}

// One of `parts` parts of the workgroups.
struct Part {
  uint64_t number = 0, parts = 1;
};

void check(const std::string& chip, const std::string& element, size_t count, const Part& part = {}) {
  SCOPED_TRACE(element + " on " + chip);
  ParsedRegion parsed(text_of(element));
  auto target = targets::make_amdgpu_target(chip);
  auto kernel = compile_region(*target, parsed.region());
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->plan.strategy, "tiles");
  EXPECT_EQ(kernel->resources.rung.substr(0, 12), "tile 128x128");
  targets::KernelResources resources = kernel->resources;
  ASSERT_TRUE(
      mlir::succeeded(target->inspect(kernel->code, targets::LinkedKernel{"kernel", "kernel", 5}, resources, parsed.region().getLoc())));
  EXPECT_LE(resources.shared_memory_bytes, 65536u);
  EXPECT_EQ(resources.spilled_bytes, 0u);
  EXPECT_EQ(resources.machine->private_bytes, 0u);
  if (!has_amdgpu_interpreter()) return;
  const uint64_t all = kernel->workgroups();
  ASSERT_EQ(all, 4096u);  // two of columns for each of 2,048 of rows, a quarter of a line of pixels each
  // Both of columns, of the corners and borders, then some in between.
  std::set<uint64_t> chosen;
  for (uint64_t row_tile : {0, 2047, 1023, 3, 2044, 1020, 512, 515}) {
    for (uint64_t column_tile : {1, 0}) {
      if (chosen.size() < count) chosen.insert(row_tile * 2 + column_tile);
    }
  }
  for (uint64_t i = 0; chosen.size() < std::min<uint64_t>(count, all); ++i)
    chosen.insert(count >= all ? i : static_cast<uint64_t>(noise(i) * 4095));
  std::vector<uint64_t> workgroups;
  for (uint64_t workgroup : chosen) {
    if (workgroup % part.parts == part.number) workgroups.push_back(workgroup);
  }

  mlir::Type type = tx::tensor(parsed.region().getOutputs()[0]).getElementType();
  const Operands operands(type);
  mlir::Type i8 = tx::tensor(parsed.region().getInputs()[1]).getElementType();
  std::vector<std::vector<char>> contents{to_bytes(operands.image, type), to_bytes(operands.weights, i8), to_bytes(operands.scale, type),
                                          to_bytes(operands.bias, type)};
  contents.emplace_back(static_cast<size_t>(columns * side * side) * element_bytes(type), untouched);
  std::vector<llvm::MutableArrayRef<char>> bindings(contents.begin(), contents.end());
  uint64_t instructions = 0;
  ASSERT_EQ(run_workgroups(*kernel, bindings, 1, workgroups, &instructions), "");
  if (count >= all)
    printf("%s: workgroups=%zu instructions=%llu\n", chip.c_str(), workgroups.size(), static_cast<unsigned long long>(instructions));
  compare(contents.back(), type, operands, workgroups.size() * 128 * 128, element == "f32" ? 1e-6 : element == "f16" ? 2e-3 : 1.6e-2);
}

TEST(AmdgpuLargeConvolution, IsOneKernelInLocalMemory) {
  const char* cases = getenv("HEDDLE_AMDGPU_CASES");
  const std::string how = cases ? cases : "";
  if (how.rfind("whole", 0) == 0) {
    char only[16] = "";
    Part part;
    if (how != "whole") {
      unsigned long long number = 0, parts = 1;
      const int given = sscanf(how.c_str(), "whole:%15[^:]:%llu/%llu", only, &number, &parts);
      ASSERT_TRUE((given == 1 || given == 3) && number < parts)
          << "HEDDLE_AMDGPU_CASES=" << how << " is not of the form whole:CHIP:PART/PARTS";
      part = {number, parts};
    }
    size_t chips = 0;
    for (const std::string& chip : targets::amdgpu_chips()) {
      if (*only && chip != only) continue;
      check(chip, "f32", 4096, part);
      ++chips;
    }
    ASSERT_GT(chips, 0u) << "there is no chip " << only;
  } else if (how == "all") {
    for (const std::string& chip : targets::amdgpu_chips()) {
      for (const char* element : {"f32", "f16", "bf16"}) check(chip, element, 64);
    }
  } else {
    check("gfx942", "f32", 2);
    check("gfx1100", "f16", 2);
  }
}

}  // namespace
}  // namespace heddle::tests
