// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmul and convolution on the CUDA target, as PTX that ptxas accepts and that spills nothing, in tiles and within less shared memory;
// where there is a device, also run there against the reference.
#include <algorithm>
#include <cmath>

#include "compiler/targets/cuda/cuda.h"
#include "tests/compiler/contraction_cases.h"
#include "tests/compiler/cuda_case.h"
#include "tests/compiler/cuda_run.h"

namespace heddle::tests {
namespace {

constexpr int64_t most_products = 70'000'000;  // that the reference computes in a few seconds

int64_t elements(llvm::ArrayRef<int64_t> shape, const std::vector<int64_t>& symbols) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent >= 0 ? extent : symbols.front();
  return count;
}

// What a contraction's results may be off. jump: the same where the tail is not continuous.
CheckOptions options_of(const Case& c, double jump, targets::Math math) {
  CheckOptions options;
  options.symbols = c.symbols;
  options.ranges = c.ranges();
  double spread = std::sqrt(static_cast<double>(c.depth()));
  bool exact = c.element == "f32" && math == targets::Math::strict;
  double step = step_of(c.element == "f32" ? "f16" : c.element);  // TF32 has the mantissa of f16
  options.relative = exact ? 1e-5 : 2 * step;
  options.absolute = (exact ? 1e-6 * spread + 1e-6 : step * (2 * spread + 2)) * c.largest_weight();
  options.absolute += jump;
  options.math = math;
  return options;
}

void check(const std::string& what, const Case& c, double jump, targets::Math math = targets::Math::strict,
           llvm::ArrayRef<int64_t> limits = {0}) {
  SCOPED_TRACE(what);
  ParsedRegion parsed(c.region(false));
  check_code(parsed.region(), what, math);
  auto result = llvm::cast<mlir::RankedTensorType>(parsed.region().getOutputs()[0].getType());
  if (elements(result.getShape(), c.symbols) * c.depth() > most_products) return;
  check_results(parsed.region(), options_of(c, jump, math), limits);
}

constexpr int64_t shared_limits[] = {0, 65536, 40000, 1000};

constexpr double quantized_jump = 0.2501;  // the next step, where a sum lies between two

void check(const std::string& what, Conv conv, llvm::ArrayRef<int64_t> limits = {0}) {
  for (const char* element : float_elements) {
    conv.element = element;
    double jump = conv.tail == Conv::quantized ? quantized_jump : 0;
    if (conv.tail == Conv::curved && conv.element != "f32") jump = 1;
    check(what + " of " + element, conv.to_case(), jump, targets::Math::strict, limits);
  }
  conv.element = "f32";
  double jump = conv.tail == Conv::quantized ? quantized_jump : conv.tail == Conv::curved ? 1 : 0;
  check(what + " of tf32", conv.to_case(), jump, targets::Math::fast, limits);
}

void check(const std::string& what, Matmul matmul) {
  for (const char* element : float_elements) {
    matmul.element = element;
    check(what + " of " + element, matmul.to_case(), 0);
  }
  matmul.element = "f32";
  check(what + " of tf32", matmul.to_case(), 0, targets::Math::fast);
}

TEST_F(CudaTarget, Multiplies) {
  check("digits 1", Matmul{.rows = 1, .depth = 784, .columns = 128, .bias = true});
  check("digits 2", Matmul{.rows = 1, .depth = 128, .columns = 10, .bias = true});
  check("last layer of AlexNet", Matmul{.rows = 1, .depth = 4096, .columns = 1000, .bias = true});
  check("first dense layer of VGG", Matmul{.rows = 1, .depth = 25088, .columns = 4096, .bias = true});
  check("a batch of digits", Matmul{.rows = 37, .depth = 784, .columns = 128, .symbolic_rows = true, .bias = true});
  check("many workgroups", Matmul{.rows = 1290, .depth = 16, .columns = 2568});
  check("many batches", Matmul{.batch = {100}, .rows = 20, .depth = 72, .columns = 256, .bias = true});
  check("many rows", Matmul{.rows = 12800, .depth = 40, .columns = 128});
  check("large", Matmul{.rows = 2048, .depth = 1024, .columns = 1024, .bias = true});
  check("odd", Matmul{.rows = 97, .depth = 113, .columns = 109});
  check("batches", Matmul{.batch = {2, 3}, .rows = 70, .depth = 40, .columns = 72, .batched_rhs = true});
}

std::string rung_of(Matmul matmul, targets::Math math) {
  ParsedRegion parsed(matmul.to_case().region(false));
  return check_code(parsed.region(), "rung", "sm_90a", 0, math).rung;
}

// Each workgroup of a cluster adds a part of every sum; the last may have a shorter part, or none.
TEST_F(CudaTarget, MultipliesInClusters) {
  struct Product {
    Matmul matmul;
    const char* rung;
  };
  const Product products[] = {
      {{.rows = 49, .depth = 512, .columns = 512, .bias = true}, "tile 32x32, 4 slices, 3 stages, clusters of 4"},
      {{.rows = 49, .depth = 500, .columns = 512}, "tile 32x32, 4 slices, 3 stages, clusters of 4"},
      {{.rows = 33, .depth = 320, .columns = 64, .transpose_rhs = true}, "tile 32x32, 4 slices, 3 stages, clusters of 4"},
      {{.rows = 193, .depth = 512, .columns = 704, .bias = true}, "tile 32x32, 4 slices, 3 stages, clusters of 2"},
      {{.batch = {3}, .rows = 20, .depth = 777, .columns = 96, .batched_rhs = true}, "tile 32x32, 4 slices, 3 stages, clusters of 4"},
      {{.rows = 128, .depth = 3072, .columns = 768, .bias = true}, "tile 64x64, 4 slices, 3 stages, clusters of 4"},
  };
  for (const Product& product : products) {
    SCOPED_TRACE(product.rung);
    EXPECT_EQ(rung_of(product.matmul, targets::Math::strict), product.rung);
    check("cluster", product.matmul.to_case(), 0);
  }
}

TEST_F(CudaTarget, MultipliesOnTensorCoresInClusters) {
  struct Product {
    Matmul matmul;
    targets::Math math;
    const char* rung;
  };
  const Product products[] = {
      {{.rows = 61, .depth = 4000, .columns = 256, .element = "f16"},
       targets::Math::strict,
       "tile 32x32, 4 slices, 3 stages, clusters of 4"},
      {{.rows = 33, .depth = 8200, .columns = 64, .transpose_rhs = true, .element = "bf16"},
       targets::Math::strict,
       "tile 16x32, 8 slices, 3 stages, clusters of 4"},
      {{.rows = 100, .depth = 5000, .columns = 128, .bias = true, .transpose_rhs = true, .element = "f16"},
       targets::Math::strict,
       "tile 16x32, 8 slices, 3 stages, clusters of 4"},
      {{.batch = {3}, .rows = 20, .depth = 9000, .columns = 96, .batched_rhs = true, .element = "bf16"},
       targets::Math::strict,
       "tile 16x32, 8 slices, 3 stages, clusters of 4"},
      {{.rows = 64, .depth = 16000, .columns = 64, .bias = true, .element = "bf16"},
       targets::Math::strict,
       "tile 16x32, 8 slices, 3 stages, clusters of 8"},
      {{.rows = 200, .depth = 1100, .columns = 256, .element = "f32"},
       targets::Math::fast,
       "tile 32x64, 2 slices, 3 stages, clusters of 4, tf32"},
      {{.rows = 65, .depth = 7000, .columns = 128, .transpose_rhs = true, .element = "f32"},
       targets::Math::fast,
       "tile 16x32, 8 slices, 3 stages, clusters of 4, tf32"},
      {{.rows = 128, .depth = 4000, .columns = 128, .element = "f32"},
       targets::Math::fast,
       "tile 32x32, 4 slices, 3 stages, clusters of 4, tf32"},
  };
  for (const Product& product : products) {
    SCOPED_TRACE(product.rung);
    EXPECT_EQ(rung_of(product.matmul, product.math), product.rung);
    check("cluster", product.matmul.to_case(), 0, product.math);
  }
  check("groups", Conv{.batch = 6,
                       .height = 16,
                       .width = 16,
                       .channels = 64,
                       .columns = 64,
                       .kernel = {14, 14},
                       .low = {1, 1},
                       .high = {1, 1},
                       .groups = 2});
  // As the gradient of a filter is computed.
  check("a kernel as large as the image",
        Conv{.batch = 8, .height = 16, .width = 16, .channels = 32, .columns = 32, .kernel = {14, 14}, .low = {1, 1}, .high = {1, 1}});
}

// A grid is the same for every chip, and only some have clusters.
TEST_F(CudaTarget, SaysClustersWhereAChipHasThem) {
  ParsedRegion parsed(Matmul{.rows = 49, .depth = 512, .columns = 512}.to_case().region(false));
  for (auto [chip, has_clusters] : {std::pair{"sm_80", false}, {"sm_90a", true}}) {
    auto kernel = compile_region(*targets::make_cuda_target(chip, targets::Math::strict, 0), parsed.region());
    ASSERT_TRUE(kernel);
    std::string code(kernel->code.begin(), kernel->code.end());
    EXPECT_EQ(code.find(".reqnctapercluster 4, 1, 1") != std::string::npos, has_clusters) << chip;
    EXPECT_EQ(code.find("shared::cluster") != std::string::npos, has_clusters) << chip;
  }
}

TEST_F(CudaTarget, StoresRowsApart) {
  check(
      "a convolution",
      Conv{.height = 14, .width = 14, .channels = 32, .columns = 48, .low = {1, 1}, .high = {1, 1}, .tail = Conv::bias_relu, .pitch = 112});
  check("symbolic images",
        Conv{.batch = 3, .height = 7, .width = 5, .channels = 24, .columns = 64, .kernel = {1, 1}, .symbolic_batch = true, .pitch = 80});
  check("a product", Matmul{.rows = 130, .depth = 72, .columns = 80, .bias = true, .pitch = 96});
  check("a cluster", Matmul{.rows = 49, .depth = 512, .columns = 512, .bias = true, .pitch = 528});
}

TEST_F(CudaTarget, ReadsSlices) {
  check("columns", Matmul{.rows = 130, .depth = 64, .columns = 80, .bias = true, .before = {0, 16}, .after = {0, 8}});
  check("odd columns", Matmul{.rows = 130, .depth = 64, .columns = 80, .before = {0, 3}, .after = {2, 4}});
  check("a cluster", Matmul{.rows = 49, .depth = 512, .columns = 512, .bias = true, .before = {1, 8}, .after = {0, 0}});
  check("symbolic rows",
        Matmul{.rows = 37, .depth = 784, .columns = 128, .symbolic_rows = true, .bias = true, .before = {0, 4}, .after = {0, 12}});
  check("batches", Matmul{.batch = {2, 3},
                          .rows = 70,
                          .depth = 40,
                          .columns = 72,
                          .batched_rhs = true,
                          .before = {0, 0, 1, 8},
                          .after = {0, 0, 2, 8},
                          .rhs_before = {0, 0, 8, 16},
                          .rhs_after = {0, 0, 1, 8}});
  check("a transposed right side",
        Matmul{.rows = 33, .depth = 320, .columns = 64, .transpose_rhs = true, .rhs_before = {3, 2}, .rhs_after = {1, 1}});
  const Shape before{0, 0, 0, 16}, after{0, 0, 0, 8}, all_before{1, 2, 1, 3}, all_after{0, 1, 2, 5};
  for (auto [b, a] : {std::pair(before, after), std::pair(all_before, all_after)}) {
    Conv conv{.batch = 2, .height = 14, .width = 13, .channels = 32, .columns = 48, .low = {1, 1}, .high = {1, 1}, .tail = Conv::bias_relu};
    conv.before = b;
    conv.after = a;
    check("a convolution", conv);
    conv.kernel = {1, 1};
    conv.low = conv.high = {0, 0};
    check("pixels", conv);
    conv.groups = 2;
    check("groups", conv);
    conv.strides = {2, 2};
    check("strides", conv);
  }
}

TEST_F(CudaTarget, MultipliesInTilesWhateverTheSizes) {
  for (auto [rows, depth, columns] : {std::tuple{130, 129, 131}, {131, 130, 134}, {133, 132, 140}, {17, 9, 9}}) {
    std::string name = std::to_string(rows) + "x" + std::to_string(depth) + "x" + std::to_string(columns);
    check(name, Matmul{.rows = rows, .depth = depth, .columns = columns, .bias = true});
    check(name + ", transposed", Matmul{.rows = rows, .depth = depth, .columns = columns, .transpose_rhs = true});
    for (const char* element : float_elements) {
      EXPECT_EQ(rung_of(Matmul{.rows = rows, .depth = depth, .columns = columns, .element = element}, targets::Math::strict).substr(0, 4),
                "tile");
    }
  }
}

TEST_F(CudaTarget, MultipliesWithQuantizedWeights) {
  for (auto [integers, zero] : quantized_weights) {
    std::string what = integers + std::string(zero ? ", with zeros" : "");
    check(what, Matmul{.rows = 130, .depth = 200, .columns = 136, .bias = true, .integers = integers, .has_zero = zero});
    check(what + ", odd", Matmul{.rows = 33, .depth = 77, .columns = 131, .integers = integers, .has_zero = zero});
    check(what + ", transposed",
          Matmul{.rows = 70, .depth = 40, .columns = 72, .transpose_rhs = true, .integers = integers, .has_zero = zero});
    check(what + ", batches",
          Matmul{.batch = {3}, .rows = 20, .depth = 64, .columns = 40, .batched_rhs = true, .integers = integers, .has_zero = zero});
    Conv conv{.height = 9, .width = 11, .channels = 24, .columns = 80, .low = {1, 1}, .high = {1, 1}, .tail = Conv::bias_relu};
    conv.integers = integers;
    conv.has_zero = zero;
    check(what + ", convolution", conv);
    conv.groups = 2;
    check(what + ", groups", conv);
    conv.groups = 24;
    conv.columns = 24;
    check(what + ", depthwise", conv);
  }
  for (const char* element : float_elements) {
    EXPECT_EQ(
        rung_of(Matmul{.rows = 64, .depth = 64, .columns = 64, .element = element, .integers = "i8"}, targets::Math::strict).substr(0, 4),
        "tile");
  }
}

std::string strategy_of(Matmul matmul) {
  ParsedRegion parsed(matmul.to_case().region(false));
  auto plans = targets::make_cuda_target("sm_90a", targets::Math::strict)->plans(parsed.region());
  return mlir::succeeded(plans) ? plans->front().strategy : "none";
}

// Few neighbors and many, vectors and single elements, whole rounds of loads and what is left behind them.
TEST_F(CudaTarget, MultipliesAFewRows) {
  for (int64_t rows : {1, 8}) {
    for (auto [depth, columns] : {std::pair{9, 10}, {100, 1003}, {1111, 20}, {1536, 768}, {64, 16000}}) {
      std::string name = std::to_string(rows) + "x" + std::to_string(depth) + "x" + std::to_string(columns);
      Matmul matmul{.rows = rows, .depth = depth, .columns = columns, .bias = true};
      EXPECT_EQ(strategy_of(matmul), "gemv") << name;
      check(name, matmul);
      matmul.transpose_rhs = true;
      EXPECT_EQ(strategy_of(matmul), "gemv") << name;
      check(name + ", transposed", matmul);
    }
  }
  check("batches of rows", Matmul{.batch = {2, 2}, .rows = 2, .depth = 40, .columns = 72, .bias = true});
  for (auto [integers, zero] : quantized_weights) {
    for (bool transposed : {false, true}) {
      Matmul matmul{
          .rows = 2, .depth = 200, .columns = 136, .bias = true, .transpose_rhs = transposed, .integers = integers, .has_zero = zero};
      EXPECT_EQ(strategy_of(matmul), "gemv") << integers;
      check(integers + std::string(zero ? ", with zeros" : "") + (transposed ? ", transposed" : ""), matmul);
    }
  }
  EXPECT_NE(strategy_of(Matmul{.rows = 9, .depth = 64, .columns = 64}), "gemv");
  EXPECT_EQ(strategy_of(Matmul{.batch = {1}, .rows = 1, .depth = 64, .columns = 64, .batched_rhs = true}), "gemv");
  EXPECT_NE(strategy_of(Matmul{.batch = {2}, .rows = 1, .depth = 64, .columns = 64, .batched_rhs = true}), "gemv");
  EXPECT_NE(strategy_of(Matmul{.rows = 2, .depth = 64, .columns = 64, .symbolic_rows = true}), "gemv");
}

TEST_F(CudaTarget, RoundsToTf32OnlyWhenAllowed) {
  Matmul matmul{.rows = 256, .depth = 256, .columns = 256};
  EXPECT_EQ(rung_of(matmul, targets::Math::strict).find("tf32"), std::string::npos);
  EXPECT_NE(rung_of(matmul, targets::Math::fast).find("tf32"), std::string::npos);
  matmul.element = "f16";
  EXPECT_EQ(rung_of(matmul, targets::Math::strict), rung_of(matmul, targets::Math::fast));
}

TEST_F(CudaTarget, MultipliesTransposedOperands) {
  check("right", Matmul{.rows = 70, .depth = 200, .columns = 104, .bias = true, .transpose_rhs = true});
  check("right, odd", Matmul{.rows = 33, .depth = 21, .columns = 19, .transpose_rhs = true});
  check("left", Matmul{.rows = 33, .depth = 40, .columns = 24, .transpose_lhs = true});
  check("right of batches", Matmul{.batch = {3}, .rows = 20, .depth = 64, .columns = 40, .batched_rhs = true, .transpose_rhs = true});
}

TEST_F(CudaTarget, MultipliesAndStoresTheResultTransposed) {
  check("digits", Matmul{.rows = 1, .depth = 784, .columns = 128, .bias = true, .transpose_result = true});
  check("large", Matmul{.rows = 2048, .depth = 256, .columns = 1024, .bias = true, .transpose_result = true});
  check("slices", Matmul{.rows = 64, .depth = 2048, .columns = 64, .transpose_result = true});
  check("odd", Matmul{.rows = 97, .depth = 113, .columns = 109, .bias = true, .transpose_result = true});
  check("pairs of rows", Matmul{.rows = 134, .depth = 72, .columns = 131, .transpose_result = true});
  check("symbolic rows", Matmul{.rows = 70, .depth = 40, .columns = 72, .symbolic_rows = true, .bias = true, .transpose_result = true});
  check("batches", Matmul{.batch = {2, 3}, .rows = 72, .depth = 40, .columns = 36, .batched_rhs = true, .transpose_result = true});
  check("too shallow for tiles", Matmul{.rows = 33, .depth = 5, .columns = 24, .bias = true, .transpose_result = true});
  Matmul matmul{.rows = 512, .depth = 256, .columns = 256, .transpose_result = true};
  EXPECT_EQ(rung_of(matmul, targets::Math::strict).substr(0, 4), "tile");
}

TEST_F(CudaTarget, ConvolvesAndStoresChannelsFirst) {
  auto square = [](int64_t size, int64_t channels, int64_t columns, int64_t kernel, Conv::Tail tail) {
    return Conv{.height = size,
                .width = size,
                .channels = channels,
                .columns = columns,
                .kernel = {kernel, kernel},
                .low = {kernel / 2, kernel / 2},
                .high = {kernel / 2, kernel / 2},
                .tail = tail,
                .channels_first = true};
  };
  check("VGG", square(112, 64, 128, 3, Conv::bias_relu));
  check("many columns", square(64, 64, 256, 3, Conv::none));
  check("ResNet, 1x1", square(56, 64, 256, 1, Conv::bias_relu));
  check("ResNet, last", square(7, 512, 512, 3, Conv::bias_relu));
  check("SqueezeNet, last", square(13, 512, 1000, 1, Conv::bias_relu));
  check("any tail", square(9, 24, 24, 3, Conv::curved));
  check("something beside it", square(16, 24, 40, 3, Conv::residual));
  check("quantized", square(12, 20, 36, 3, Conv::quantized), shared_limits);
  Conv batch = square(8, 16, 32, 3, Conv::bias_relu);
  batch.batch = 5;
  batch.symbolic_batch = true;
  check("symbolic batch", batch);
  Conv grouped = square(12, 48, 128, 5, Conv::bias_relu);
  grouped.groups = 2;
  check("groups", grouped);
}

TEST_F(CudaTarget, ConvolvesAsTheNetworksDo) {
  auto square = [](int64_t size, int64_t channels, int64_t columns, int64_t kernel, int64_t stride, int64_t pad, Conv::Tail tail) {
    return Conv{.height = size,
                .width = size,
                .channels = channels,
                .columns = columns,
                .kernel = {kernel, kernel},
                .strides = {stride, stride},
                .low = {pad, pad},
                .high = {pad, pad},
                .tail = tail};
  };
  check("ResNet, first", square(224, 3, 64, 7, 2, 3, Conv::bias_relu));
  check("ResNet, first, small", square(30, 3, 64, 7, 2, 3, Conv::bias_relu));
  check("AlexNet, first", square(63, 3, 96, 11, 4, 0, Conv::bias_relu));
  check("VGG", square(112, 64, 128, 3, 1, 1, Conv::bias_relu));
  check("VGG, small", square(14, 64, 72, 3, 1, 1, Conv::bias_relu));
  check("ResNet, 1x1", square(56, 64, 256, 1, 1, 0, Conv::residual));
  check("ResNet, 1x1, small", square(14, 64, 256, 1, 1, 0, Conv::residual));
  check("ResNet, 1x1, strided", square(28, 64, 128, 1, 2, 0, Conv::bias_relu));
  check("ResNet, last", square(7, 512, 512, 3, 1, 1, Conv::bias_relu));
  check("Inception, 5x5", square(14, 16, 48, 5, 1, 2, Conv::bias_relu));
  check("SqueezeNet, last", square(13, 512, 1000, 1, 1, 0, Conv::bias_relu));
  check("ZFNet", square(26, 96, 256, 5, 2, 0, Conv::bias_relu));
  check("any tail", square(9, 24, 24, 3, 1, 1, Conv::curved));
  check("pairs of channels", square(9, 6, 10, 3, 1, 1, Conv::residual));
  check("fours of channels", square(9, 12, 20, 3, 2, 1, Conv::bias_relu));
  Conv grouped = square(13, 48, 128, 5, 1, 2, Conv::bias_relu);
  grouped.groups = 2;
  check("AlexNet, groups", grouped);
  Conv shuffled = square(14, 68, 272, 1, 1, 0, Conv::residual);
  shuffled.groups = 4;
  check("ShuffleNet, groups", shuffled);
  Conv depthwise = square(28, 136, 136, 3, 2, 1, Conv::bias_relu);
  depthwise.groups = 136;
  check("ShuffleNet, depthwise", depthwise);
  Conv dilated = square(15, 24, 40, 3, 1, 2, Conv::none);
  dilated.dilations = {2, 2};
  check("dilated", dilated);
  Conv batch = square(8, 16, 32, 3, 1, 1, Conv::residual);
  batch.batch = 5;
  batch.symbolic_batch = true;
  check("symbolic batch", batch);
}

// A tile is chosen for a usual batch and runs with any: one image is few enough for the reference, even in the largest tiles.
TEST_F(CudaTarget, ConvolvesInTilesOfEverySize) {
  struct Image {
    int64_t size, channels, columns, kernel;
    const char *element, *rung;
  };
  constexpr Image images[] = {
      {24, 64, 256, 3, "f16", "tile 128x256, 1 slices, 3 stages"},  {64, 64, 96, 3, "f16", "tile 256x128, 1 slices, 3 stages"},
      {20, 96, 512, 1, "f16", "tile 128x128, 1 slices, 3 stages"},  {24, 32, 96, 3, "f16", "tile 128x128, 2 slices, 3 stages"},
      {20, 16, 512, 3, "f16", "tile 128x128, 1 slices, 4 stages"},  {20, 16, 512, 1, "f16", "tile 128x128, 1 slices, 2 stages"},
      {24, 512, 192, 1, "f16", "tile 256x64, 1 slices, 3 stages"},  {24, 32, 32, 3, "f16", "tile 128x64, 2 slices, 4 stages"},
      {24, 64, 96, 1, "f16", "tile 64x128, 1 slices, 2 stages"},    {24, 96, 96, 1, "f16", "tile 128x64, 1 slices, 3 stages"},
      {20, 32, 32, 3, "f16", "tile 64x64, 2 slices, 4 stages"},     {12, 32, 64, 3, "f16", "tile 32x64, 2 slices, 3 stages"},
      {12, 64, 32, 3, "f16", "tile 32x32, 4 slices, 3 stages"},     {4, 64, 32, 3, "f16", "tile 16x32, 8 slices, 3 stages"},
      {128, 16, 256, 1, "f32", "tile 128x256, 1 slices, 2 stages"}, {64, 16, 512, 1, "f32", "tile 128x128, 1 slices, 2 stages"},
      {64, 16, 128, 3, "f32", "tile 64x64, 4 slices, 3 stages"},    {4, 16, 32, 3, "f32", "tile 32x32, 4 slices, 3 stages"}};
  for (const Image& image : images) {
    for (bool channels_first : {false, true}) {
      Conv conv{.height = image.size,
                .width = image.size,
                .channels = image.channels,
                .columns = image.columns,
                .kernel = {image.kernel, image.kernel},
                .low = {image.kernel / 2, image.kernel / 2},
                .high = {image.kernel / 2, image.kernel / 2},
                .tail = Conv::bias_relu,
                .symbolic_batch = true,
                .channels_first = channels_first,
                .element = image.element};
      SCOPED_TRACE(image.rung);
      ParsedRegion parsed(conv.to_case().region(false));
      EXPECT_EQ(check_code(parsed.region(), "one image", "sm_90a").rung, image.rung);
      check_results(parsed.region(), options_of(conv.to_case(), 0, targets::Math::strict));
    }
  }
}

// -------------------------------------------------------------------- quantized convolution and memory that runs short

// int8 weights as they are published, to a filter: the scale is one a column.
std::string dequantization(int64_t columns, int64_t channels, int64_t height, int64_t width) {
  std::string from = type_of({columns, channels, height, width}, "i8"), same = tensor(type_of({columns, channels, height, width})),
              to = type_of({height, width, channels, columns}), scale = type_of({columns});
  return region_text({from, "f32", scale}, {to},
                     "%c = tx.cast %0 : " + tensor(from) + " -> " + same +
                         "\n%p = tx.broadcast %1 {dimensions = array<i64>} : tensor<f32> -> " + same + "\n%d = tx.sub %c, %p : " + same +
                         "\n%s = tx.broadcast %2 {dimensions = array<i64: 0>} : " + tensor(scale) + " -> " + same +
                         "\n%m = tx.mul %d, %s : " + same + "\n%t = tx.transpose %m {permutation = array<i64: 2, 3, 1, 0>} : " + same +
                         " -> " + tensor(to) + "\n tx.yield %t : " + tensor(to));
}

// The convolution and its weights, within each limit of shared memory: a rung that fits, the first one where that fits. Where there is a
// device, each of these kernels runs, if the reference can compute the whole of the result.
void check_limits(const std::string& what, Conv conv) {
  ParsedRegion weights(dequantization(conv.columns, conv.channels / conv.groups, conv.kernel[0], conv.kernel[1]));
  for (const char* chip : {"sm_80", "sm_90a"}) {
    for (int64_t limit : {0, 1000}) check_code(weights.region(), what + ", weights", chip, limit);
  }
  conv.tail = Conv::quantized;
  for (const char* element : {"f32", "f16"}) {
    conv.element = element;
    std::string name = what + " of " + element;
    SCOPED_TRACE(name);
    ParsedRegion parsed(conv.to_case().region(false));
    for (const char* chip : {"sm_80", "sm_90a"}) {
      targets::KernelResources whole = check_code(parsed.region(), name, chip);
      for (int64_t limit : llvm::drop_begin(shared_limits)) {
        targets::KernelResources needs = check_code(parsed.region(), name + " in " + std::to_string(limit), chip, limit);
        EXPECT_EQ(needs.rung == whole.rung, static_cast<int64_t>(whole.shared_memory_bytes) <= limit) << whole.rung << ", " << needs.rung;
        if (limit == 1000) {
          EXPECT_EQ(needs.shared_memory_bytes, 0u);  // the generic kernel
        }
      }
    }
  }
  CheckOptions options;
  options.ranges = {{-128, 127}, {-5, 5}, {0.001, 0.02}};
  options.absolute = 1e-6;
  check_results(weights.region(), options, {0, 1000});
  check(what, conv, shared_limits);
}

// A square of the result of a large convolution of stride 1, as the result of a small one.
struct Square {
  static constexpr int64_t side = 3;

  Conv conv;
  Tensor image;  // what it reads

  Square(const Conv& whole, const Tensor& whole_image, int64_t row, int64_t column) : conv(whole) {
    const int64_t at[] = {row, column}, extents[] = {whole.height, whole.width};
    int64_t first[2], last[2];
    for (size_t d = 0; d < 2; ++d) {
      int64_t low = at[d] - whole.low[d], high = low + side - 1 + (whole.kernel[d] - 1) * whole.dilations[d];
      first[d] = std::max<int64_t>(low, 0);
      last[d] = std::min(high, extents[d] - 1);
      conv.low[d] = first[d] - low;
      conv.high[d] = high - last[d];
    }
    conv.height = last[0] - first[0] + 1;
    conv.width = last[1] - first[1] + 1;
    image.shape = {1, conv.height, conv.width, conv.channels};
    for (int64_t y = first[0]; y <= last[0]; ++y) {
      auto line = whole_image.data.begin() + (y * whole.width + first[1]) * whole.channels;
      image.data.insert(image.data.end(), line, line + conv.width * conv.channels);
    }
  }

  // What the reference gives for it: [side, side, columns].
  Tensor result(const std::vector<Tensor>& whole_operands) const {
    ParsedRegion parsed(conv.to_case().region(false));
    std::vector<Tensor> operands = whole_operands;
    operands[0] = image;
    return std::move(evaluate(parsed.region(), operands).front());
  }
};

// Within each limit of shared memory, where there is a device: results that are too many for the reference, in a few squares, and that
// nothing is left as it was.
void check_squares(const std::string& what, Conv conv, llvm::ArrayRef<std::pair<int64_t, int64_t>> squares) {
  if (!has_cuda_device()) return;
  for (const char* name : {"f32", "f16"}) {
    conv.element = name;
    ParsedRegion parsed(conv.to_case().region(false));
    auto type = llvm::cast<mlir::RankedTensorType>(parsed.region().getOutputs()[0].getType());
    CheckOptions options = options_of(conv.to_case(), quantized_jump, targets::Math::strict);
    std::vector<Tensor> operands = random_operands(parsed.region(), options), wanted;
    for (auto [row, column] : squares) wanted.push_back(Square(conv, operands[0], row, column).result(operands));
    for (int64_t limit : shared_limits) {
      SCOPED_TRACE(what + " of " + name + ", shared memory " + std::to_string(limit));
      options.shared_memory_bytes = limit;
      run_on_cuda(parsed.region(), operands, options, [&](const std::string& chip, const std::vector<std::vector<char>>& results) {
        const size_t bytes = element_bytes(type.getElementType());
        auto untouched = [&](size_t i) {
          return std::all_of(&results[0][i * bytes], &results[0][i * bytes] + bytes, [](char byte) { return byte == before_results; });
        };
        size_t left = 0;
        for (size_t i = 0; i < static_cast<size_t>(type.getNumElements()); ++i) left += untouched(i);
        EXPECT_EQ(left, 0u) << chip << ": elements not written, of " << type.getNumElements();
        for (size_t s = 0; s < squares.size(); ++s) {
          auto [row, column] = squares[s];
          Tensor got{wanted[s].shape, {}};
          for (int64_t y = row; y < row + Square::side; ++y) {
            size_t first = static_cast<size_t>((y * type.getDimSize(2) + column) * conv.columns);
            Tensor line = from_bytes(&results[0][first * bytes], {Square::side, conv.columns}, type.getElementType());
            got.data.insert(got.data.end(), line.data.begin(), line.data.end());
          }
          expect_close(got, wanted[s], options, chip + ", square at " + std::to_string(row) + ", " + std::to_string(column));
        }
      });
    }
  }
}

TEST(Squares, AreWhatTheWholeConvolutionGives) {
  Conv conv{
      .height = 9, .width = 11, .channels = 5, .columns = 7, .low = {1, 2}, .high = {2, 1}, .dilations = {1, 2}, .tail = Conv::quantized};
  ParsedRegion parsed(conv.to_case().region(false));
  CheckOptions options;
  std::vector<Tensor> operands = random_operands(parsed.region(), options);
  Tensor whole = evaluate(parsed.region(), operands).front();
  const int64_t height = whole.shape[1], width = whole.shape[2];
  for (int64_t row = 0; row + Square::side <= height; ++row) {
    for (int64_t column = 0; column + Square::side <= width; ++column) {
      Tensor square = Square(conv, operands[0], row, column).result(operands);
      ASSERT_EQ(square.data.size(), static_cast<size_t>(Square::side * Square::side * conv.columns));
      for (int64_t y = 0; y < Square::side; ++y) {
        auto got = square.data.begin() + y * Square::side * conv.columns;
        auto wanted = whole.data.begin() + ((row + y) * width + column) * conv.columns;
        EXPECT_TRUE(std::equal(got, got + Square::side * conv.columns, wanted)) << row << ", " << column << ", line " << y;
      }
    }
  }
}

TEST_F(CudaTarget, FitsAQuantizedConvolutionIntoItsMemory) {
  Conv conv{.height = 512, .width = 512, .channels = 64, .columns = 256, .low = {1, 1}, .high = {1, 1}, .tail = Conv::quantized};
  check_limits("512x512x64 to 256", conv);
  // Corners, and where tiles of 128 and of 32 pixels meet.
  check_squares("512x512x64 to 256", conv, {{0, 0}, {0, 509}, {509, 0}, {509, 509}, {255, 126}, {300, 31}});
}

TEST_F(CudaTarget, FitsQuantizedConvolutionsOfOddSizes) {
  check_limits("7x9x3 to 20", Conv{.height = 7, .width = 9, .channels = 3, .columns = 20, .low = {1, 1}, .high = {1, 1}});
  check_limits("7x9x5 to 63", Conv{.height = 7, .width = 9, .channels = 5, .columns = 63, .low = {1, 1}, .high = {1, 1}});
  check_limits("7x9x20 to 65", Conv{.height = 7, .width = 9, .channels = 20, .columns = 65, .low = {1, 1}, .high = {1, 1}});
  check_limits("7x9x63 to 64", Conv{.height = 7, .width = 9, .channels = 63, .columns = 64, .low = {1, 1}, .high = {1, 1}});
  check_limits("7x9x65 to 5", Conv{.height = 7, .width = 9, .channels = 65, .columns = 5, .low = {1, 1}, .high = {1, 1}});
  check_limits("1x1x65 to 20", Conv{.height = 1, .width = 1, .channels = 65, .columns = 20, .kernel = {1, 1}});
  check_limits("513x1x20 to 64", Conv{.height = 513, .width = 1, .channels = 20, .columns = 64, .low = {1, 1}, .high = {1, 1}});
  check_limits("7x9x60 to 40, 5 groups",
               Conv{.height = 7, .width = 9, .channels = 60, .columns = 40, .low = {1, 1}, .high = {1, 1}, .groups = 5});
  check_limits("513x1x63 to 20, stride 3",
               Conv{.height = 513, .width = 1, .channels = 63, .columns = 20, .strides = {3, 3}, .low = {1, 1}, .high = {1, 1}});
  check_limits("7x9x20 to 64, dilation 2",
               Conv{.height = 7, .width = 9, .channels = 20, .columns = 64, .low = {2, 2}, .high = {2, 2}, .dilations = {2, 2}});
}

}  // namespace
}  // namespace heddle::tests
