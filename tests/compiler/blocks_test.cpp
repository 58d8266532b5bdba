// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products and look-ups of weights that are stored in blocks, for x86-64, against values decoded by sdk/module.
#include <cmath>
#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compiler/cuda_run.h"
#include "tests/compiler/expected.h"
#include "tests/compiler/kernel_run.h"

namespace heddle::tests {
namespace {

struct Format {
  const char* name;
  std::vector<int64_t> scales;  // bytes of its f16 numbers
};
const Format formats[] = {{"Q4_0", {0}}, {"Q8_0", {0}}, {"Q4_K", {0, 2}}, {"Q5_K", {0, 2}}, {"Q6_K", {208}}};

// Any bytes, with scales from 1/64 to 1/32.
Tensor random_blocks(const Format& format, int64_t rows, int64_t values, uint32_t seed) {
  const tx::BlockType& type = *tx::block_type(format.name);
  std::mt19937 random(seed);
  Tensor blocks{{rows, *tx::block_row_bytes(type, values)}, {}};
  for (int64_t i = 0; i < rows * values / type.elements; ++i) {
    const size_t first = blocks.data.size();
    for (int64_t byte = 0; byte < type.bytes; ++byte) blocks.data.push_back(random() % 256);
    for (int64_t scale : format.scales) blocks.data[first + static_cast<size_t>(scale) + 1] = 0x24;
  }
  return blocks;
}

std::string bytes_of(const Format& format, int64_t rows, int64_t values) {
  return std::to_string(rows) + "x" + std::to_string(*tx::block_row_bytes(*tx::block_type(format.name), values)) + "xui8";
}

// At every level, by the usual strategy, in one call and in one per workgroup, and by the generic one.
void check(const ParsedRegion& parsed, const std::vector<Tensor>& inputs, const CheckOptions& options, bool is_few = true) {
  const Expected wanted = expected_results(parsed.region(), inputs, options);
  for (const std::string& level : runnable_levels()) {
    for (const std::string& strategy : {std::string(), std::string("generic")}) {
      if (!strategy.empty() && !is_few) continue;
      LoadedKernel kernel(parsed.region(), level, strategy);
      ASSERT_TRUE(kernel.usable());
      for (bool single : {false, true}) {
        expect_results(run_kernel(kernel, parsed.region(), inputs, options.symbols, single), wanted, options,
                       level + " " + kernel.plan_text() + (single ? ", one workgroup a call" : ", one call"));
      }
    }
  }
  check_on_cuda(parsed.region(), inputs, wanted, options);
}

struct Product {
  Format format;
  int64_t rows, depth, columns;
  bool symbolic = false, bias = false;

  std::string text() const {
    const std::string n = std::to_string(columns), k = std::to_string(depth);
    auto type = [&](const std::string& last) {
      if (!symbolic) return std::to_string(rows) + "x" + last + "xf32";
      return "?x" + last + "xf32, #tx.dims<()[s0] -> (s0, " + last + ")>";
    };
    const std::string x = type(k), w = bytes_of(format, columns, depth), y = type(n);
    std::string body = "%p = tx.matmul %0, %1 {transpose_rhs, blocks = \"" + std::string(format.name) + "\"} : tensor<" + x + ">, tensor<" +
                       w + "> -> tensor<" + y + ">\n";
    std::vector<std::string> operands{x, w};
    if (bias) {
      operands.push_back(n + "xf32");
      body += "%b = tx.broadcast %2 {dimensions = array<i64: 1>} : tensor<" + n + "xf32> -> tensor<" + y +
              ">\n%s = tx.add %p, %b : tensor<" + y + ">\n%t = tx.tanh %s : tensor<" + y + ">\ntx.yield %t : tensor<" + y + ">";
    } else {
      body += "tx.yield %p : tensor<" + y + ">";
    }
    return region_text(operands, {y}, body, "", symbolic ? std::vector<std::string>{"n"} : std::vector<std::string>{});
  }

  std::vector<Tensor> inputs(const ParsedRegion& parsed) const {
    std::vector<Tensor> all;
    auto type_of = [&](unsigned i) { return llvm::cast<mlir::RankedTensorType>(parsed.region().getInputs()[i].getType()); };
    all.push_back(random_tensor(type_of(0), symbols(), {-1, 1}, 1));
    all.push_back(random_blocks(format, columns, depth, 2));
    if (bias) all.push_back(random_tensor(type_of(2), symbols(), {-1, 1}, 3));
    return all;
  }
  std::vector<int64_t> symbols() const { return symbolic ? std::vector<int64_t>{rows} : std::vector<int64_t>{}; }
};

void check(const Product& product) {
  SCOPED_TRACE(std::string(product.format.name) + ", " + std::to_string(product.rows) + " x " + std::to_string(product.depth) + " x " +
               std::to_string(product.columns));
  ParsedRegion parsed(product.text());
  CheckOptions options;
  options.symbols = product.symbols();
  options.relative = 1e-5;
  options.absolute = 2e-5 * std::sqrt(static_cast<double>(product.depth));
  check(parsed, product.inputs(parsed), options, product.rows * product.depth * product.columns < 1 << 16);
}

TEST(Blocks, AreMultipliedWithFewRows) {
  for (const Format& format : formats) {
    check({format, 1, 512, 19});
    check({format, 3, 256, 6});
  }
}

TEST(Blocks, AreMultipliedWithManyRows) {
  for (const Format& format : formats) check({format, 70, 768, 21});
  check({formats[1], 11, 544, 16, false, true});
}

TEST(Blocks, AreMultipliedWithRowsKnownAtRunTime) {
  for (int64_t rows : {0, 1, 2, 67}) check({formats[1], rows, 96, 24, true, true});
}

// The sums of a row do not depend on how many others there are.
TEST(Blocks, GiveTheSameBitsForAnyNumberOfRows) {
  for (const Format& format : formats) {
    const Product many{format, 9, 1280, 18, true};
    ParsedRegion parsed(many.text());
    const std::vector<Tensor> inputs = many.inputs(parsed);
    for (const std::string& level : runnable_levels()) {
      LoadedKernel kernel(parsed.region(), level);
      ASSERT_TRUE(kernel.usable());
      const Tensor all = run_kernel(kernel, parsed.region(), inputs, {9}, false)[0];
      for (int64_t row = 0; row < 9; ++row) {
        std::vector<Tensor> one = inputs;
        one[0] = {{1, many.depth}, {}};
        one[0].data.assign(inputs[0].data.begin() + row * many.depth, inputs[0].data.begin() + (row + 1) * many.depth);
        const Tensor result = run_kernel(kernel, parsed.region(), one, {1}, false)[0];
        EXPECT_THAT(result.data,
                    testing::ElementsAreArray(all.data.begin() + row * many.columns, all.data.begin() + (row + 1) * many.columns))
            << level << ", row " << row;
      }
    }
  }
}

TEST(Blocks, AreLookedUp) {
  for (const Format& format : formats) {
    SCOPED_TRACE(format.name);
    const std::string w = bytes_of(format, 7, 512);
    ParsedRegion parsed(one_op({w, "2x3xi64"}, "2x3x512xf32",
                               "gather %0, %1 {axis = 0 : i64, blocks = \"" + std::string(format.name) + "\"} : tensor<" + w +
                                   ">, tensor<2x3xi64> -> tensor<2x3x512xf32>"));
    const std::vector<Tensor> inputs{random_blocks(format, 7, 512, 4), Tensor{{2, 3}, {0, 6, -1, 3, -7, 2}}};
    CheckOptions options;
    options.relative = 1e-6;  // the interpreter of stages computes in f64
    check(parsed, inputs, options);
    const Tensor exact = evaluate(parsed.region(), inputs)[0];
    for (const std::string& level : runnable_levels()) {
      LoadedKernel kernel(parsed.region(), level);
      ASSERT_TRUE(kernel.usable());
      EXPECT_EQ(run_kernel(kernel, parsed.region(), inputs, {}, false)[0].data, exact.data) << level;
    }
  }
}

}  // namespace
}  // namespace heddle::tests
