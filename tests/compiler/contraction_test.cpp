// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmul and convolution with their element-wise tails, and packing for x86-64, against the reference.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/targets/x86_64/lower.h"
#include "compiler/targets/x86_64/x86_64.h"
#include "mlir/IR/Diagnostics.h"
#include "tests/compiler/contraction_cases.h"
#include "tests/compiler/cuda_run.h"
#include "tests/compiler/kernel_run.h"

namespace heddle::tests {
namespace {

void check(const Case& c) {
  ParsedRegion parsed(c.region(c.packed));
  std::vector<Tensor> inputs;
  for (auto [i, input] : llvm::enumerate(parsed.region().getInputs())) {
    auto type = llvm::cast<mlir::RankedTensorType>(input.getType());
    if (i == 1) type = mlir::RankedTensorType::get(c.whole_filter.empty() ? c.filter : c.whole_filter, type.getElementType());
    inputs.push_back(random_tensor(type, c.symbols, c.ranges()[i], static_cast<uint32_t>(i + 1)));
  }
  CheckOptions options;
  options.symbols = c.symbols;
  options.relative = 1e-5;
  options.absolute = (1e-6 * std::sqrt(static_cast<double>(c.depth())) + 1e-6) * c.largest_weight();
  ParsedRegion unpacked(c.region(false));  // which has stages
  const Expected wanted = expected_results(unpacked.region(), inputs, options);
  for (const std::string& level : runnable_levels()) {
    std::vector<Tensor> given = inputs;
    if (c.packed) {
      ParsedRegion pack(c.pack_region());
      LoadedKernel packer(pack.region(), level);
      if (!packer.usable()) continue;
      given[1] = run_kernel(packer, pack.region(), {inputs[1]}, {}, false)[0];
      Tensor again = run_kernel(packer, pack.region(), {inputs[1]}, {}, true)[0];
      EXPECT_EQ(given[1].data, again.data) << level;
    }
    LoadedKernel kernel(parsed.region(), level);
    if (!kernel.usable()) continue;
    for (bool single : {false, true}) {
      std::vector<Tensor> got = run_kernel(kernel, parsed.region(), given, c.symbols, single);
      expect_results(got, wanted, options, level + (single ? ", one workgroup a call" : ", one call"));
    }
  }
  check_on_cuda(unpacked.region(), inputs, wanted, options);
}

void check(const Conv& v) {
  check(v.to_case());
}

void check(const Matmul& v) {
  check(v.to_case());
}

TEST(Matmul, MultipliesOddSizes) {
  check(Matmul{.rows = 97, .depth = 113, .columns = 109});
  check(Matmul{.rows = 7, .depth = 5, .columns = 3});
}
TEST(Matmul, MultipliesInSeveralPassesOverK) {
  check(Matmul{.rows = 31, .depth = 1613, .columns = 67});
  check(Matmul{.rows = 31, .depth = 1613, .columns = 67, .bias = true});
}
TEST(Matmul, CutsManyRowsIntoBands) {
  check(Matmul{.rows = 997, .depth = 64, .columns = 65, .bias = true});
}
TEST(Matmul, MultipliesOneRow) {
  check(Matmul{.rows = 1, .depth = 600, .columns = 1000, .bias = true});
}
TEST(Matmul, MultipliesWhenKIsOne) {
  check(Matmul{.rows = 13, .depth = 1, .columns = 33});
}
TEST(Matmul, MultipliesWhenNIsOneOr17) {
  check(Matmul{.rows = 29, .depth = 77, .columns = 1});
  check(Matmul{.rows = 29, .depth = 77, .columns = 17, .bias = true});
}
// Workgroups pack what they read: the same bits as with panels.
TEST(Matmul, PacksInWorkgroups) {
  for (int64_t rows : {9, 50, 128}) {
    for (auto [depth, columns] : std::vector<std::pair<int64_t, int64_t>>{{1, 8}, {17, 75}, {64, 128}, {100, 33}, {2100, 40}, {768, 200}}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(depth) + " x " + std::to_string(columns));
      const Matmul turned{.rows = rows, .depth = depth, .columns = columns, .packed = false, .bias = true, .transpose_rhs = true};
      check(turned);
      Matmul plain = turned;
      plain.packed = true;
      plain.transpose_rhs = false;
      ParsedRegion pack(plain.to_case().pack_region()), packed(plain.to_case().region(true)), own(turned.to_case().region(false));
      std::vector<Tensor> inputs;
      for (auto [i, input] : llvm::enumerate(own.region().getInputs()))
        inputs.push_back(random_tensor(llvm::cast<mlir::RankedTensorType>(input.getType()), {}, {-1, 1}, static_cast<uint32_t>(i + 1)));
      Tensor matrix{{depth, columns}, std::vector<double>(inputs[1].data.size())};
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t n = 0; n < columns; ++n)
          matrix.data[static_cast<size_t>(k * columns + n)] = inputs[1].data[static_cast<size_t>(n * depth + k)];
      }
      for (const std::string& level : runnable_levels()) {
        LoadedKernel packer(pack.region(), level), first(packed.region(), level), second(own.region(), level, "microkernel");
        ASSERT_TRUE(packer.usable() && first.usable() && second.usable());
        std::vector<Tensor> given = inputs;
        given[1] = run_kernel(packer, pack.region(), {matrix}, {}, false)[0];
        EXPECT_EQ(run_kernel(first, packed.region(), given, {}, false)[0].data, run_kernel(second, own.region(), inputs, {}, false)[0].data)
            << level;
      }
    }
  }
}

TEST(Matmul, PacksSlicesInWorkgroups) {
  check(Matmul{.rows = 40,
               .depth = 70,
               .columns = 33,
               .packed = false,
               .transpose_rhs = true,
               .before = {1, 3},
               .after = {0, 9},
               .rhs_before = {2, 1},
               .rhs_after = {3, 4}});
  check(Matmul{.rows = 100, .depth = 70, .columns = 129, .packed = false, .symbolic_rows = true, .transpose_rhs = true});
}

// Few rows by a transposed matrix as it lies.
TEST(DotProducts, TakesOddSizes) {
  for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (auto [depth, columns] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 17}, {16, 16}, {77, 40}, {600, 8}, {64, 200}}) {
      check(Matmul{.rows = rows, .depth = depth, .columns = columns, .packed = false, .bias = depth > 16, .transpose_rhs = true});
    }
  }
}

TEST(DotProducts, TakesSlicesAndBatches) {
  check(Matmul{.batch = {2, 1}, .rows = 3, .depth = 70, .columns = 33, .packed = false, .transpose_rhs = true});
  check(Matmul{.rows = 4,
               .depth = 70,
               .columns = 33,
               .packed = false,
               .transpose_rhs = true,
               .before = {1, 3},
               .after = {0, 9},
               .rhs_before = {2, 1},
               .rhs_after = {3, 4}});
  check(Matmul{.rows = 4, .depth = 70, .columns = 33, .packed = false, .transpose_rhs = true, .pitch = 50});
}

TEST(DotProducts, DoesTheTail) {
  for (int64_t columns : {32, 43}) {
    const std::string result = type_of({5, columns}), t = tensor(result), matrix = type_of({columns, 70}), column = type_of({columns});
    ParsedRegion parsed(region_text({"5x70xf32", matrix, column, "5xf32", result}, {result},
                                    "%y = tx.matmul %0, %1 {transpose_rhs} : tensor<5x70xf32>, " + tensor(matrix) + " -> " + t +
                                        "\n%c = tx.broadcast %2 {dimensions = array<i64: 1>} : " + tensor(column) + " -> " + t +
                                        "\n%r = tx.broadcast %3 {dimensions = array<i64: 0>} : tensor<5xf32> -> " + t +
                                        "\n%a = tx.add %y, %c : " + t + "\n%b = tx.mul %a, %r : " + t + "\n%d = tx.tanh %b : " + t +
                                        "\n%z = tx.add %d, %4 : " + t + "\ntx.yield %z : " + t,
                                    "attributes {tied = array<i64: 4>}"));
    CheckOptions options;
    options.relative = options.absolute = 1e-5;
    std::vector<Tensor> inputs;
    for (auto [i, input] : llvm::enumerate(parsed.region().getInputs()))
      inputs.push_back(random_tensor(llvm::cast<mlir::RankedTensorType>(input.getType()), {}, {-1, 1}, static_cast<uint32_t>(i + 1)));
    const Expected wanted = expected_results(parsed.region(), inputs, options);
    for (const std::string& level : runnable_levels()) {
      LoadedKernel kernel(parsed.region(), level);
      ASSERT_TRUE(kernel.usable());
      EXPECT_EQ(kernel.plan_text(), "dot products ");
      for (bool single : {false, true}) expect_results(run_kernel(kernel, parsed.region(), inputs, {}, single), wanted, options, level);
    }
  }
}

TEST(DotProducts, LeaveOtherRegionsToOthers) {
  auto taker = [](const Matmul& v) {
    ParsedRegion parsed(v.to_case().region(v.packed));
    return targets::make_x86_64_target("x86-64-v4")->plans(parsed.region())->front().strategy;
  };
  EXPECT_EQ(taker({.rows = 8, .depth = 8, .columns = 20, .packed = false, .transpose_rhs = true}), "dot products");
  EXPECT_EQ(taker({.rows = 9, .depth = 8, .columns = 20, .packed = false, .transpose_rhs = true}), "microkernel");
  EXPECT_EQ(taker({.rows = 4, .depth = 8, .columns = 20, .packed = false, .symbolic_rows = true, .transpose_rhs = true}), "microkernel");
  EXPECT_EQ(taker({.rows = 4, .depth = 8, .columns = 20, .packed = false}), "microkernel");
}

// As it lies: the same panels as of a matrix that was transposed before.
TEST(Matmul, PacksTransposedMatrices) {
  for (auto [depth, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{4, 4}, {17, 75}, {64, 128}, {100, 1}, {33, 50}, {1, 40}, {16, 200}}) {
    SCOPED_TRACE(std::to_string(depth) + " x " + std::to_string(columns));
    const std::string matrix = type_of({depth, columns}), transposed = type_of({columns, depth}),
                      packed = type_of({depth * ((columns + 15) / 16 * 16)});
    auto pack = [&](const std::string& from) {
      return "%p = tx.pack " + from + " {groups = 1} : " + tensor(matrix) + " -> " + tensor(packed) + "\ntx.yield %p : " + tensor(packed);
    };
    ParsedRegion plain(region_text({matrix}, {packed}, pack("%0")));
    ParsedRegion turned(region_text(
        {transposed}, {packed},
        "%t = tx.transpose %0 {permutation = array<i64: 1, 0>} : " + tensor(transposed) + " -> " + tensor(matrix) + "\n" + pack("%t")));
    Tensor values = random_tensor(llvm::cast<mlir::RankedTensorType>(plain.region().getInputs()[0].getType()), {}, {-2, 2}, 1);
    Tensor other{{columns, depth}, std::vector<double>(values.data.size())};
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t n = 0; n < columns; ++n)
        other.data[static_cast<size_t>(n * depth + k)] = values.data[static_cast<size_t>(k * columns + n)];
    }
    for (const std::string& level : runnable_levels()) {
      LoadedKernel first(plain.region(), level), second(turned.region(), level);
      ASSERT_TRUE(first.usable() && second.usable());
      for (bool single : {false, true}) {
        EXPECT_EQ(run_kernel(first, plain.region(), {values}, {}, single)[0].data,
                  run_kernel(second, turned.region(), {other}, {}, single)[0].data)
            << level;
      }
    }
  }
}

// The same panels as of a filter that was copied before.
TEST(Conv, PacksTransposedFilters) {
  struct Filter {
    int64_t taps, channels, columns, groups;
  };
  for (auto [taps, channels, columns, groups] :
       std::vector<Filter>{{1, 8, 24, 1}, {3, 20, 40, 1}, {128, 6, 96, 2}, {9, 5, 34, 2}, {2, 160, 16, 1}, {3, 192, 48, 3}}) {
    for (bool channels_first : {true, false}) {
      SCOPED_TRACE(std::to_string(taps) + " x " + std::to_string(channels) + " x " + std::to_string(columns) + " of " +
                   std::to_string(groups) + (channels_first ? ", channels first" : ""));
      const int64_t own = (columns / groups + 15) / 16 * 16;
      const std::string filter = type_of({taps, channels, columns}), packed = type_of({groups * taps * channels * own}),
                        stored = type_of(channels_first ? Shape{columns, channels, taps} : Shape{columns, taps, channels});
      auto pack = [&](const std::string& from) {
        return "%p = tx.pack " + from + " {groups = " + std::to_string(groups) + "} : " + tensor(filter) + " -> " + tensor(packed) +
               "\ntx.yield %p : " + tensor(packed);
      };
      ParsedRegion plain(region_text({filter}, {packed}, pack("%0")));
      ParsedRegion turned(region_text({stored}, {packed},
                                      std::string("%t = tx.transpose %0 {permutation = array<i64: ") +
                                          (channels_first ? "2, 1, 0" : "1, 2, 0") + ">} : " + tensor(stored) + " -> " + tensor(filter) +
                                          "\n" + pack("%t")));
      Tensor values = random_tensor(llvm::cast<mlir::RankedTensorType>(plain.region().getInputs()[0].getType()), {}, {-2, 2}, 1);
      Tensor other{shape_of(llvm::cast<mlir::RankedTensorType>(turned.region().getInputs()[0].getType()), {}),
                   std::vector<double>(values.data.size())};
      for (int64_t t = 0; t < taps; ++t) {
        for (int64_t c = 0; c < channels; ++c) {
          for (int64_t f = 0; f < columns; ++f) {
            const int64_t at = channels_first ? (f * channels + c) * taps + t : (f * taps + t) * channels + c;
            other.data[static_cast<size_t>(at)] = values.data[static_cast<size_t>((t * channels + c) * columns + f)];
          }
        }
      }
      for (const std::string& level : runnable_levels()) {
        LoadedKernel first(plain.region(), level), second(turned.region(), level, "pack");
        ASSERT_TRUE(first.usable() && second.usable());
        for (bool single : {false, true}) {
          EXPECT_EQ(run_kernel(first, plain.region(), {values}, {}, single)[0].data,
                    run_kernel(second, turned.region(), {other}, {}, single)[0].data)
              << level;
        }
      }
    }
  }
}

TEST(Matmul, TakesUnpackedRightSides) {
  check(Matmul{.rows = 4, .depth = 4, .columns = 4, .packed = false});
  check(Matmul{.rows = 45, .depth = 1000, .columns = 75, .packed = false, .bias = true});
  check(Matmul{.rows = 3, .depth = 50, .columns = 1, .packed = false});
}
TEST(Matmul, MultipliesBatches) {
  check(Matmul{.batch = {3}, .rows = 10, .depth = 20, .columns = 30});
  check(Matmul{.batch = {2, 3}, .rows = 10, .depth = 20, .columns = 30, .packed = false, .batched_rhs = true});
}
TEST(Matmul, TakesRowsKnownAtRunTime) {
  for (int64_t rows : {1, 5, 6, 100, 203}) check(Matmul{.rows = rows, .depth = 70, .columns = 100, .symbolic_rows = true, .bias = true});
}

// The same bits as with a depth that the compiler knows.
struct UnknownDepth {
  int64_t depth;
  std::string rows;  // "s0": as many as the depth
  bool batched;      // three images, with a right side for each
};

void check(const UnknownDepth& v) {
  auto text_of = [&](bool is_known) {
    auto t = [&](const std::string& first, const std::string& second) {
      std::string shape = v.batched ? "3x" : "", dims = v.batched ? "3, " : "";
      for (const std::string& one : {first, second}) shape += (one != "s0" ? one : is_known ? std::to_string(v.depth) : "?") + "x";
      return shape + "f32" + (shape.find('?') != std::string::npos ? ", #tx.dims<()[s0] -> (" + dims + first + ", " + second + ")>" : "");
    };
    const std::string lhs = t(v.rows, "s0"), rhs = t("s0", "75"), result = t(v.rows, "75");
    const std::string body = "%a = tx.matmul %0, %1 : tensor<" + lhs + ">, tensor<" + rhs + "> -> tensor<" + result +
                             ">\n%b = tx.broadcast %2 {dimensions = array<i64: " + (v.batched ? "2" : "1") +
                             ">} : tensor<75xf32> -> tensor<" + result + ">\n%c = tx.add %a, %b : tensor<" + result +
                             ">\ntx.yield %c : tensor<" + result + ">";
    return region_text({lhs, rhs, "75xf32"}, {result}, body, "", is_known ? std::vector<std::string>{} : std::vector<std::string>{"m"});
  };
  SCOPED_TRACE(text_of(false) + "\ndepth " + std::to_string(v.depth));
  ParsedRegion parsed(text_of(false));
  CheckOptions options;
  options.symbols = {v.depth};
  options.relative = 1e-5;
  options.absolute = 1e-6 * std::sqrt(static_cast<double>(v.depth)) + 1e-6;
  std::vector<Tensor> inputs;
  for (auto [i, input] : llvm::enumerate(parsed.region().getInputs()))
    inputs.push_back(
        random_tensor(llvm::cast<mlir::RankedTensorType>(input.getType()), options.symbols, {-1, 1}, static_cast<uint32_t>(i + 1)));
  const Expected wanted = expected_results(parsed.region(), inputs, options);
  for (const std::string& level : runnable_levels()) {
    LoadedKernel kernel(parsed.region(), level, "microkernel");
    ASSERT_TRUE(kernel.usable());
    const std::vector<Tensor> got = run_kernel(kernel, parsed.region(), inputs, options.symbols, false);
    expect_results(got, wanted, options, level);
    EXPECT_EQ(got[0].data, run_kernel(kernel, parsed.region(), inputs, options.symbols, true)[0].data) << level;
    if (v.depth == 0) continue;  // no kernel has that as a fixed depth
    ParsedRegion known(text_of(true));
    LoadedKernel fixed(known.region(), level, "microkernel");
    ASSERT_TRUE(fixed.usable());
    EXPECT_EQ(got[0].data, run_kernel(fixed, known.region(), inputs, {}, false)[0].data) << level;
  }
}

TEST(Matmul, TakesDepthKnownAtRunTime) {
  check(UnknownDepth{0, "45", false});
  check(UnknownDepth{70, "s0", false});
  check(UnknownDepth{70, "45", true});
  check(UnknownDepth{2100, "13", false});
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (double value : values) most = std::max(most, std::abs(value));
  return most;
}

// The largest difference, relative to the largest number.
double difference(const Tensor& got, const Tensor& wanted) {
  std::vector<double> apart;
  for (auto [one, other] : llvm::zip_equal(got.data, wanted.data)) apart.push_back(one - other);
  return largest(apart) / largest(wanted.data);
}

// One chain of so many additions would be 4e-6 to 1e-5 away. However the work is divided, and whether it is in one pass, sums have the same bits.
TEST(Matmul, AddsUpInParts) {
  constexpr int64_t depth = 40001, columns = 17, many = 20;
  auto text_of = [&](int64_t rows, bool tied) {
    const std::string lhs = std::to_string(rows) + "x" + std::to_string(depth) + "xf32",
                      rhs = std::to_string(depth) + "x" + std::to_string(columns) + "xf32",
                      result = std::to_string(rows) + "x" + std::to_string(columns) + "xf32";
    const std::string body = "%a = tx.matmul %0, %1 : tensor<" + lhs + ">, tensor<" + rhs + "> -> tensor<" + result +
                             ">\n%c = tx.add %a, %2 : tensor<" + result + ">\ntx.yield %c : tensor<" + result + ">";
    return region_text({lhs, rhs, result}, {result}, body, tied ? "attributes {tied = array<i64: 2>}" : "");
  };
  ParsedRegion usual(text_of(many, false));
  std::vector<Tensor> inputs;
  for (auto [i, input] : llvm::enumerate(usual.region().getInputs()))
    inputs.push_back(random_tensor(llvm::cast<mlir::RankedTensorType>(input.getType()), {}, {-1, 1}, static_cast<uint32_t>(i + 1)));
  const Tensor wanted = evaluate(usual.region(), inputs, {})[0];
  for (const std::string& level : runnable_levels()) {
    LoadedKernel kernel(usual.region(), level, "microkernel");
    ASSERT_TRUE(kernel.usable());
    const Tensor first = run_kernel(kernel, usual.region(), inputs, {}, false)[0];
    EXPECT_LT(difference(first, wanted), 2e-6) << level;
    for (auto [rows, tied] : std::vector<std::pair<int64_t, bool>>{{many, true}, {4, false}, {4, true}}) {
      std::vector<Tensor> few = inputs;
      for (auto [number, width] : {std::pair{0, depth}, {2, columns}}) {
        few[number].shape[0] = rows;
        few[number].data.resize(static_cast<size_t>(rows * width));
      }
      ParsedRegion region(text_of(rows, tied));
      LoadedKernel other(region.region(), level, "microkernel");
      ASSERT_TRUE(other.usable());
      const std::vector<double> got = run_kernel(other, region.region(), few, {}, false)[0].data;
      EXPECT_EQ(got, std::vector<double>(first.data.begin(), first.data.begin() + rows * columns)) << level << ", " << rows << " rows";
    }
  }
}

TEST(Conv, AddsUpInParts) {
  const Conv conv{.height = 97, .width = 97, .channels = 8, .columns = 17, .kernel = {96, 96}};
  ParsedRegion parsed(conv.to_case().region(true)), pack(conv.to_case().pack_region());
  const Tensor image = random_tensor(llvm::cast<mlir::RankedTensorType>(parsed.region().getInputs()[0].getType()), {}, {-1, 1}, 1);
  const Tensor filter = random_tensor(llvm::cast<mlir::RankedTensorType>(pack.region().getInputs()[0].getType()), {}, {-1, 1}, 2);
  const Tensor wanted = evaluate(parsed.region(), {image, filter}, {})[0];
  for (const std::string& level : runnable_levels()) {
    LoadedKernel packer(pack.region(), level), kernel(parsed.region(), level);
    ASSERT_TRUE(packer.usable() && kernel.usable());
    const Tensor packed = run_kernel(packer, pack.region(), {filter}, {}, false)[0];
    EXPECT_LT(difference(run_kernel(kernel, parsed.region(), {image, packed}, {}, false)[0], wanted), 2e-6) << level;
  }
}

// Integers on the right side, in every way that it is read.
TEST(Matmul, MultipliesWithQuantizedWeights) {
  for (auto [integers, zero] : quantized_weights) {
    SCOPED_TRACE(integers);
    check(Matmul{.rows = 31, .depth = 1613, .columns = 67, .bias = true, .integers = integers, .has_zero = zero});
    check(Matmul{.rows = 1, .depth = 77, .columns = 200, .integers = integers, .has_zero = zero});
    check(Matmul{.rows = 45, .depth = 100, .columns = 75, .packed = false, .integers = integers, .has_zero = zero});
    check(Matmul{.rows = 100, .depth = 70, .columns = 129, .symbolic_rows = true, .integers = integers, .has_zero = zero});
  }
  check(Matmul{
      .batch = {2, 3}, .rows = 10, .depth = 20, .columns = 30, .packed = false, .batched_rhs = true, .integers = "i8", .has_zero = true});
}

// Products of one left operand, each with an epilogue of its own, in one kernel.
TEST(Matmul, HasSiblings) {
  for (const std::string rows : {"100", "?"}) {
    auto t = [&](int64_t columns) {
      return rows + "x" + std::to_string(columns) + "xf32" +
             (rows == "?" ? ", #tx.dims<()[s0] -> (s0, " + std::to_string(columns) + ")>" : "");
    };
    std::string lhs = t(72), first = t(64), second = t(40), third = t(17);
    std::string body = "%a = tx.matmul %0, %1 : tensor<" + lhs + ">, tensor<72x64xf32> -> tensor<" + first + ">\n" +
                       "%b = tx.broadcast %4 {dimensions = array<i64: 1>} : tensor<64xf32> -> tensor<" + first + ">\n" +
                       "%ab = tx.add %a, %b : tensor<" + first + ">\n" + "%c = tx.matmul %0, %2 : tensor<" + lhs +
                       ">, tensor<72x40xf32> -> tensor<" + second + ">\n%d = tx.tanh %c : tensor<" + second +
                       ">\n%e = tx.matmul %0, %3 : tensor<" + lhs + ">, tensor<72x17xf32> -> tensor<" + third +
                       ">\ntx.yield %ab, %d, %e : tensor<" + first + ">, tensor<" + second + ">, tensor<" + third + ">";
    std::string text = region_text({lhs, "72x64xf32", "72x40xf32", "72x17xf32", "64xf32"}, {first, second, third}, body, "",
                                   rows == "?" ? std::vector<std::string>{"m"} : std::vector<std::string>{});
    SCOPED_TRACE(text);
    ParsedRegion parsed(text);
    CheckOptions options;
    if (rows == "?") options.symbols = {37};
    options.relative = options.absolute = 1e-5;
    std::vector<Tensor> inputs;
    for (auto [i, input] : llvm::enumerate(parsed.region().getInputs()))
      inputs.push_back(
          random_tensor(llvm::cast<mlir::RankedTensorType>(input.getType()), options.symbols, {-1, 1}, static_cast<uint32_t>(i + 1)));
    const Expected wanted = expected_results(parsed.region(), inputs, options);
    for (const std::string& level : runnable_levels()) {
      LoadedKernel kernel(parsed.region(), level, "siblings");
      ASSERT_TRUE(kernel.usable());
      for (bool single : {false, true}) {
        expect_results(run_kernel(kernel, parsed.region(), inputs, options.symbols, single), wanted, options, level);
      }
    }
  }
}

TEST(Winograd, ConvolvesOddSizes) {
  for (auto [height, width] : {std::pair<int64_t, int64_t>{1, 1}, {1, 5}, {2, 2}, {5, 7}, {13, 13}, {8, 6}}) {
    check(Conv{.height = height, .width = width, .channels = 20, .columns = 17, .low = {1, 1}, .high = {1, 1}, .winograd = true});
  }
}

TEST(Winograd, ConvolvesAnyChannelsAndColumns) {
  for (auto [channels, columns] : {std::pair<int64_t, int64_t>{1, 1}, {5, 130}, {16, 75}, {48, 64}, {600, 40}}) {
    check(Conv{.height = 9, .width = 6, .channels = channels, .columns = columns, .low = {1, 1}, .high = {1, 1}, .winograd = true});
  }
}

TEST(Winograd, PadsAsItIsTold) {
  check(Conv{.height = 8, .width = 9, .channels = 32, .columns = 32, .winograd = true});
  check(Conv{.height = 8, .width = 9, .channels = 32, .columns = 32, .low = {0, 1}, .high = {2, 0}, .winograd = true});
  check(Conv{.height = 7, .width = 4, .channels = 32, .columns = 32, .low = {2, 2}, .high = {2, 2}, .winograd = true});
  check(Conv{.height = 6, .width = 6, .channels = 8, .columns = 16, .low = {5, 0}, .high = {0, 6}, .winograd = true});
}

TEST(Winograd, DoesTheTail) {
  for (Conv::Tail tail : {Conv::bias_relu, Conv::residual, Conv::scalars, Conv::rows, Conv::curved, Conv::gelu}) {
    for (int64_t size : {6, 7}) {
      check(Conv{.height = size, .width = 6, .channels = 32, .columns = 40, .low = {1, 1}, .high = {1, 1}, .tail = tail, .winograd = true});
    }
  }
  check(Conv{.height = 6,
             .width = 7,
             .channels = 32,
             .columns = 48,
             .low = {1, 1},
             .high = {1, 1},
             .tail = Conv::residual,
             .tied = true,
             .winograd = true});
}

TEST(Winograd, ConvolvesManyImages) {
  check(Conv{.batch = 3, .height = 10, .width = 10, .channels = 64, .columns = 128, .low = {1, 1}, .high = {1, 1}, .winograd = true});
  check(Conv{.batch = 5,
             .height = 9,
             .width = 7,
             .channels = 32,
             .columns = 70,
             .low = {1, 1},
             .high = {1, 1},
             .symbolic_batch = true,
             .winograd = true});
}

TEST(Winograd, CutsBandsAndBlocks) {
  check(Conv{.height = 28,
             .width = 28,
             .channels = 128,
             .columns = 128,
             .low = {1, 1},
             .high = {1, 1},
             .tail = Conv::bias_relu,
             .winograd = true});
  check(Conv{.height = 14, .width = 14, .channels = 256, .columns = 320, .low = {1, 1}, .high = {1, 1}, .winograd = true});
}

// Strict math allows four times the error of sums of products (docs/compiler.md).
TEST(Winograd, IsAsExactAsStrictMathWantsIt) {
  for (int64_t channels : {32, 64, 256, 512}) {
    for (double low : {-1.0, 0.0}) {  // of both signs; of one, as behind a relu
      double worst[2] = {0, 0}, squares[2] = {0, 0};
      for (bool winograd : {false, true}) {
        const Conv conv{
            .height = 12, .width = 12, .channels = channels, .columns = 32, .low = {1, 1}, .high = {1, 1}, .winograd = winograd};
        ParsedRegion parsed(conv.to_case().region(true)), pack(conv.to_case().pack_region());
        const std::string level = runnable_levels().back();
        LoadedKernel packer(pack.region(), level), kernel(parsed.region(), level);
        ASSERT_TRUE(packer.usable() && kernel.usable());
        Tensor image = random_tensor(llvm::cast<mlir::RankedTensorType>(parsed.region().getInputs()[0].getType()), {}, {low, 1}, 1);
        Tensor filter = random_tensor(llvm::cast<mlir::RankedTensorType>(pack.region().getInputs()[0].getType()), {}, {-1, 1}, 2);
        Tensor wanted = evaluate(parsed.region(), {image, filter}, {})[0];
        Tensor packed = run_kernel(packer, pack.region(), {filter}, {}, false)[0];
        Tensor got = run_kernel(kernel, parsed.region(), {image, packed}, {}, false)[0];
        for (auto [a, b] : llvm::zip_equal(got.data, wanted.data)) {
          worst[winograd] = std::max(worst[winograd], std::abs(a - b));
          squares[winograd] += (a - b) * (a - b);
        }
      }
      EXPECT_LE(worst[1], 4 * worst[0]) << channels << " channels from " << low;
      EXPECT_LE(std::sqrt(squares[1]), 4 * std::sqrt(squares[0])) << channels << " channels from " << low;
    }
  }
}

// Every plan, also those for other numbers of cores.
TEST(Winograd, GivesTheSameBitsHoweverItIsCut) {
  const Conv conv{.height = 15, .width = 14, .channels = 64, .columns = 144, .low = {1, 1}, .high = {1, 1}, .winograd = true};
  ParsedRegion parsed(conv.to_case().region(true)), pack(conv.to_case().pack_region());
  for (const std::string& level : runnable_levels()) {
    LoadedKernel packer(pack.region(), level);
    if (!packer.usable()) continue;
    std::vector<Tensor> given{random_tensor(llvm::cast<mlir::RankedTensorType>(parsed.region().getInputs()[0].getType()), {}, {-1, 1}, 1)};
    Tensor filter = random_tensor(llvm::cast<mlir::RankedTensorType>(pack.region().getInputs()[0].getType()), {}, {-1, 1}, 2);
    given.push_back(run_kernel(packer, pack.region(), {filter}, {}, false)[0]);
    std::optional<Tensor> first;
    const size_t plans = targets::make_x86_64_target(level)->plans(parsed.region(), "winograd")->size();
    EXPECT_GT(plans, 1U) << level;
    for (size_t plan = 0; plan < plans; ++plan) {
      LoadedKernel kernel(parsed.region(), level, "winograd", plan);
      ASSERT_TRUE(kernel.usable());
      Tensor got = run_kernel(kernel, parsed.region(), given, {}, plan % 2 == 0)[0];
      if (!first) first = got;
      EXPECT_EQ(got.data, first->data) << level << ", " << kernel.plan_text();
    }
  }
}

TEST(Conv, ConvolvesOnePixelFilters) {
  check(Conv{.height = 14, .width = 14, .channels = 96, .columns = 80, .kernel = {1, 1}, .tail = Conv::bias_relu});
  check(Conv{.height = 15, .width = 13, .channels = 40, .columns = 70, .kernel = {1, 1}, .strides = {2, 2}});
  check(Conv{.batch = 3, .height = 7, .width = 9, .channels = 16, .columns = 16, .kernel = {1, 1}, .tail = Conv::residual, .tied = true});
}
TEST(Conv, ConvolvesThreeByThreeWithHalo) {
  check(Conv{.height = 14, .width = 14, .channels = 32, .columns = 64, .low = {1, 1}, .high = {1, 1}, .tail = Conv::bias_relu});
  check(Conv{.height = 7, .width = 7, .channels = 192, .columns = 96, .low = {1, 1}, .high = {1, 1}, .tail = Conv::residual});
  check(Conv{.height = 56, .width = 56, .channels = 8, .columns = 24, .low = {1, 1}, .high = {1, 1}, .tail = Conv::scalars});
}
TEST(Conv, StoresRowsApart) {
  for (int64_t columns : {16, 64, 80, 24, 7}) {
    SCOPED_TRACE(columns);
    check(Conv{.height = 14, .width = 13, .channels = 24, .columns = columns, .kernel = {1, 1}, .tail = Conv::bias_relu, .pitch = 96});
    check(Conv{
        .height = 9, .width = 11, .channels = 40, .columns = columns, .low = {1, 1}, .high = {1, 1}, .tail = Conv::curved, .pitch = 80});
    check(Conv{.batch = 2, .height = 5, .width = 9, .channels = 300, .columns = columns, .low = {1, 1}, .high = {1, 1}, .pitch = 128});
    check(Conv{.batch = 3, .height = 4, .width = 4, .channels = 8, .columns = columns, .tail = Conv::rows, .pitch = 96});
    check(Conv{.batch = 3, .height = 4, .width = 4, .channels = 8, .columns = columns, .symbolic_batch = true, .pitch = 96});
  }
  check(Conv{.height = 6, .width = 6, .channels = 16, .columns = 32, .groups = 2, .pitch = 64});
  check(Conv{.height = 6, .width = 6, .channels = 16, .columns = 32, .packed = false, .pitch = 64});
}
TEST(Winograd, StoresRowsApart) {
  for (int64_t columns : {16, 32, 40}) {
    check(Conv{.height = 9,
               .width = 8,
               .channels = 32,
               .columns = columns,
               .low = {1, 1},
               .high = {1, 1},
               .tail = Conv::bias_relu,
               .winograd = true,
               .pitch = 80});
    check(Conv{.batch = 2,
               .height = 6,
               .width = 6,
               .channels = 64,
               .columns = columns,
               .low = {1, 1},
               .high = {1, 1},
               .tail = Conv::rows,
               .winograd = true,
               .pitch = 48});
  }
}
TEST(Matmul, StoresRowsApart) {
  check(Matmul{.rows = 70, .depth = 60, .columns = 48, .bias = true, .pitch = 112});
  check(Matmul{.rows = 5, .depth = 1613, .columns = 33, .symbolic_rows = true, .pitch = 64});
  check(Matmul{.batch = {2, 3}, .rows = 9, .depth = 20, .columns = 16, .packed = false, .batched_rhs = true, .pitch = 32});
}
TEST(Matmul, ReadsSlices) {
  const Shape columns_before{0, 5}, columns_after{0, 3};
  check(Matmul{.rows = 70, .depth = 60, .columns = 48, .bias = true, .before = columns_before, .after = columns_after});
  check(Matmul{.rows = 70, .depth = 60, .columns = 48, .before = {3, 5}, .after = {2, 0}});
  check(Matmul{.rows = 31, .depth = 1613, .columns = 33, .before = {0, 16}, .after = {0, 0}});
  check(Matmul{
      .rows = 37, .depth = 70, .columns = 100, .symbolic_rows = true, .bias = true, .before = columns_before, .after = columns_after});
  // Rows of all batches are at the same distance, or each batch has its own.
  check(Matmul{.batch = {3}, .rows = 10, .depth = 20, .columns = 30, .before = {0, 0, 4}, .after = {0, 0, 8}});
  check(Matmul{.batch = {3}, .rows = 1, .depth = 20, .columns = 30, .before = {0, 6, 0}, .after = {0, 1, 0}});
  check(Matmul{.batch = {3}, .rows = 40, .depth = 20, .columns = 30, .bias = true, .before = {1, 2, 4}, .after = {0, 1, 0}});
  check(Matmul{.batch = {2, 3},
               .rows = 10,
               .depth = 20,
               .columns = 30,
               .packed = false,
               .batched_rhs = true,
               .before = {0, 0, 1, 2},
               .after = {0, 0, 1, 2},
               .rhs_before = {0, 0, 3, 7},
               .rhs_after = {0, 0, 1, 4}});
  check(Matmul{.rows = 45, .depth = 100, .columns = 75, .packed = false, .bias = true, .rhs_before = {2, 3}, .rhs_after = {0, 1}});
}
TEST(Matmul, RefusesSlicesThatAreNotEvenlySpaced) {
  auto error = [](const Matmul& matmul) { return plan_error(ParsedRegion(matmul.to_case().region(matmul.packed)).region()); };
  EXPECT_THAT(error(Matmul{.batch = {3}, .rows = 4, .depth = 20, .columns = 30, .before = {0, 2, 0}, .after = {0, 0, 0}}),
              testing::HasSubstr("a matmul reads only slices whose rows are at the same distance"));
}
TEST(Conv, ReadsSlices) {
  const Shape before{0, 0, 0, 8}, after{0, 0, 0, 16}, all_before{1, 2, 1, 3}, all_after{0, 1, 2, 5};
  for (auto [b, a] : {std::pair(before, after), std::pair(all_before, all_after)}) {
    check(
        Conv{.height = 14, .width = 13, .channels = 24, .columns = 40, .kernel = {1, 1}, .tail = Conv::bias_relu, .before = b, .after = a});
    check(Conv{.batch = 2, .height = 6, .width = 7, .channels = 16, .columns = 32, .kernel = {1, 1}, .before = b, .after = a});
    check(Conv{.height = 9, .width = 11, .channels = 40, .columns = 33, .low = {1, 1}, .high = {1, 1}, .before = b, .after = a});
    check(Conv{.height = 9, .width = 11, .channels = 300, .columns = 33, .strides = {2, 2}, .before = b, .after = a});
    check(Conv{.height = 9, .width = 11, .channels = 3, .columns = 16, .before = b, .after = a});
    check(Conv{.height = 6, .width = 6, .channels = 16, .columns = 32, .groups = 2, .before = b, .after = a});
    check(Conv{.height = 6, .width = 6, .channels = 16, .columns = 32, .packed = false, .before = b, .after = a});
    check(
        Conv{.height = 7, .width = 9, .channels = 24, .columns = 24, .low = {1, 1}, .high = {1, 1}, .groups = 24, .before = b, .after = a});
    check(Conv{.height = 9,
               .width = 8,
               .channels = 32,
               .columns = 40,
               .low = {1, 1},
               .high = {1, 1},
               .tail = Conv::bias_relu,
               .winograd = true,
               .before = b,
               .after = a});
    check(Conv{
        .height = 1, .width = 40, .channels = 16, .columns = 24, .kernel = {1, 3}, .low = {0, 1}, .high = {0, 1}, .before = b, .after = a});
  }
  check(Conv{.batch = 3,
             .height = 4,
             .width = 4,
             .channels = 8,
             .columns = 16,
             .kernel = {1, 1},
             .symbolic_batch = true,
             .before = before,
             .after = after});
  check(Conv{
      .batch = 3, .height = 4, .width = 4, .channels = 8, .columns = 16, .kernel = {1, 1}, .pitch = 32, .before = before, .after = after});
}
TEST(Conv, RefusesRowsApartWithAnEpilogueOfDenseRows) {
  ParsedRegion parsed(
      Conv{.height = 6, .width = 6, .channels = 8, .columns = 16, .tail = Conv::residual, .pitch = 32}.to_case().region(true));
  EXPECT_THAT(plan_error(parsed.region()), testing::HasSubstr("the microkernel kernel of this region stores only dense rows"));
}
TEST(Conv, ConvolvesQuantizedFilters) {
  for (auto [integers, zero] : quantized_weights) {
    SCOPED_TRACE(integers);
    Conv conv{.height = 9, .width = 11, .channels = 24, .columns = 72, .low = {1, 1}, .high = {1, 1}, .tail = Conv::residual};
    conv.integers = integers;
    conv.has_zero = zero;
    check(conv);
    conv.groups = 2;
    check(conv);
    conv.groups = 24;  // depthwise
    conv.columns = 24;
    conv.packed = false;
    check(conv);
  }
}
// A line is cut anywhere, each band with its own part of the halo; the last one is shorter.
TEST(Conv, ConvolvesLinesWithHalo) {
  check(
      Conv{.height = 1, .width = 1500, .channels = 40, .columns = 72, .kernel = {1, 3}, .low = {0, 1}, .high = {0, 1}, .tail = Conv::gelu});
  check(Conv{.batch = 2,
             .height = 1,
             .width = 401,
             .channels = 12,
             .columns = 20,
             .kernel = {1, 5},
             .strides = {1, 2},
             .low = {0, 7},
             .high = {0, 3}});
  check(Conv{.height = 1,
             .width = 300,
             .channels = 16,
             .columns = 32,
             .kernel = {1, 3},
             .low = {0, 2},
             .high = {0, 2},
             .groups = 2,
             .tail = Conv::residual});
  check(Conv{
      .height = 1, .width = 4, .channels = 8, .columns = 16, .kernel = {1, 3}, .low = {0, 9}, .high = {0, 9}, .tail = Conv::bias_relu});
  check(Conv{
      .height = 1, .width = 70, .channels = 8, .columns = 16, .kernel = {3, 3}, .low = {1, 1}, .high = {1, 1}, .tail = Conv::bias_relu});
}
TEST(Conv, ConvolvesImagesOfSymbolicSize) {
  const Conv same{.channels = 20, .columns = 70, .low = {1, 1}, .high = {1, 1}, .tail = Conv::residual, .symbolic_image = true};
  for (auto [height, width] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 40}, {9, 7}, {17, 65}}) {
    SCOPED_TRACE(std::to_string(height) + " x " + std::to_string(width));
    Conv conv = same;
    conv.height = height;
    conv.width = width;
    check(conv);
    conv.tied = true;
    conv.batch = 2;
    check(conv);
    conv = same;  // one pixel: rows of a matrix
    conv.height = height;
    conv.width = width;
    conv.batch = 3;
    conv.kernel = {1, 1};
    conv.low = conv.high = {0, 0};
    check(conv);
    conv = same;  // each channel alone
    conv.height = height;
    conv.width = width;
    conv.channels = conv.columns = conv.groups = 21;
    conv.strides = {1, 2};
    check(conv);
  }
}
TEST(Conv, ConvolvesImagesOfSymbolicSizeInAnyWay) {
  const Conv any{.height = 37, .width = 45, .channels = 3, .columns = 24, .symbolic_image = true};
  auto with = [&](const std::function<void(Conv&)>& change) {
    Conv conv = any;
    change(conv);
    check(conv);
  };
  with([](Conv& c) { c.kernel = {7, 7}, c.strides = {2, 2}, c.low = c.high = {3, 3}, c.tail = Conv::bias_relu; });
  with([](Conv& c) { c.kernel = {5, 3}, c.strides = {2, 3}, c.low = {4, 0}, c.high = {0, 5}, c.tail = Conv::swish; });
  with([](Conv& c) { c.channels = 40, c.columns = 130, c.kernel = {1, 1}, c.strides = {2, 2}; });
  with([](Conv& c) { c.channels = 32, c.columns = 64, c.groups = 2, c.kernel = {3, 3}, c.dilations = {2, 3}, c.low = {2, 3}; });
  with([](Conv& c) { c.channels = 384, c.low = c.high = {1, 1}, c.height = 9, c.width = 18, c.tail = Conv::residual; });  // in passes
  with([](Conv& c) { c.kernel = {4, 4}, c.strides = {4, 4}, c.packed = false, c.tail = Conv::bias_relu; });
  with([](Conv& c) { c.channels = 16, c.low = c.high = {0, 40}, c.tail = Conv::swish, c.pitch = 48; });
  with([](Conv& c) { c.channels = 600, c.columns = 16, c.height = 11, c.width = 35, c.low = c.high = {1, 1}, c.integers = "i8"; });
}
TEST(Winograd, ConvolvesImagesOfSymbolicSize) {
  for (auto [height, width] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 40}, {16, 14}, {17, 29}}) {
    SCOPED_TRACE(std::to_string(height) + " x " + std::to_string(width));
    check(Conv{.batch = 2,
               .height = height,
               .width = width,
               .channels = 40,
               .columns = 70,
               .low = {1, 1},
               .high = {1, 1},
               .tail = Conv::residual,
               .winograd = true,
               .symbolic_image = true});
  }
}
TEST(Conv, ComputesAnyElementWiseTail) {
  check(Conv{.height = 7, .width = 7, .channels = 5, .columns = 24, .low = {1, 1}, .high = {1, 1}, .tail = Conv::curved});
}
TEST(Conv, ReadsAValueForEachRow) {
  check(Conv{.batch = 2, .height = 7, .width = 9, .channels = 5, .columns = 40, .low = {1, 1}, .high = {1, 1}, .tail = Conv::rows});
  check(Conv{.height = 6, .width = 5, .channels = 16, .columns = 48, .groups = 2, .tail = Conv::rows});
  check(Conv{.batch = 3, .height = 13, .width = 7, .channels = 700, .columns = 70, .kernel = {1, 1}, .tail = Conv::rows});
  check(Conv{.height = 9, .width = 9, .channels = 24, .columns = 24, .low = {1, 1}, .high = {1, 1}, .groups = 24, .tail = Conv::rows});
}
TEST(Conv, ComputesALongTailOnAStoredTile) {
  for (bool tied : {false, true}) {
    check(Conv{.height = 9, .width = 11, .channels = 12, .columns = 75, .low = {1, 1}, .high = {1, 1}, .tail = Conv::gelu, .tied = tied});
    check(Conv{.height = 9, .width = 9, .channels = 384, .columns = 40, .low = {1, 1}, .high = {1, 1}, .tail = Conv::gelu, .tied = tied});
  }
  check(Conv{.height = 5, .width = 5, .channels = 24, .columns = 24, .low = {1, 1}, .high = {1, 1}, .groups = 24, .tail = Conv::gelu});
}
TEST(Conv, HasNarrowVectorsForFewColumns) {
  for (int64_t columns : {3, 8, 11}) {
    check(Conv{.height = 9, .width = 11, .channels = 12, .columns = columns, .low = {1, 1}, .high = {1, 1}, .tail = Conv::gelu});
  }
  check(Conv{
      .height = 9, .width = 35, .channels = 12, .columns = 8, .low = {1, 1}, .high = {1, 1}, .tail = Conv::swish, .symbolic_image = true});
  check(Conv{.height = 5, .width = 5, .channels = 384, .columns = 8, .low = {1, 1}, .high = {1, 1}, .tail = Conv::residual});
}
TEST(Conv, ConvolvesInSeveralPasses) {
  check(Conv{.height = 9, .width = 9, .channels = 384, .columns = 40, .low = {1, 1}, .high = {1, 1}, .tail = Conv::residual});
  check(Conv{.height = 9, .width = 9, .channels = 384, .columns = 40, .low = {1, 1}, .high = {1, 1}, .tail = Conv::residual, .tied = true});
}
TEST(Conv, ConvolvesFirstLayers) {
  check(Conv{.height = 47,
             .width = 45,
             .channels = 3,
             .columns = 64,
             .kernel = {7, 7},
             .strides = {2, 2},
             .low = {3, 3},
             .high = {3, 3},
             .tail = Conv::bias_relu});
  check(Conv{.height = 51, .width = 51, .channels = 3, .columns = 96, .kernel = {11, 11}, .strides = {4, 4}});
  check(Conv{.height = 33, .width = 33, .channels = 3, .columns = 24, .strides = {2, 2}, .low = {1, 1}, .high = {1, 1}});
  check(Conv{.height = 8, .width = 8, .channels = 1, .columns = 16, .low = {1, 1}, .high = {1, 1}, .tail = Conv::bias_relu});
}
TEST(Conv, ConvolvesShapesOfKnownNetworks) {
  check(Conv{.height = 13,
             .width = 13,
             .channels = 48,
             .columns = 40,
             .low = {1, 1},
             .high = {1, 1},
             .groups = 2,
             .tail = Conv::bias_relu});  // AlexNet
  check(
      Conv{.height = 28, .width = 28, .channels = 128, .columns = 32, .low = {1, 1}, .high = {1, 1}, .tail = Conv::bias_relu});  // DenseNet
  check(Conv{.height = 14,
             .width = 14,
             .channels = 24,
             .columns = 64,
             .kernel = {5, 5},
             .low = {2, 2},
             .high = {2, 2},
             .tail = Conv::bias_relu});  // Inception
  check(Conv{
      .height = 28, .width = 28, .channels = 64, .columns = 96, .strides = {2, 2}, .low = {1, 1}, .high = {1, 1}, .tail = Conv::bias_relu});
  check(Conv{.height = 14, .width = 14, .channels = 256, .columns = 64, .low = {1, 1}, .high = {1, 1}, .tail = Conv::bias_relu});  // ResNet
  check(Conv{.height = 14, .width = 14, .channels = 72, .columns = 144, .kernel = {1, 1}, .strides = {2, 2}, .tail = Conv::bias_relu});
  check(
      Conv{.height = 7, .width = 7, .channels = 68, .columns = 272, .kernel = {1, 1}, .groups = 4, .tail = Conv::residual});  // ShuffleNet
  check(Conv{.height = 13, .width = 13, .channels = 64, .columns = 250, .kernel = {1, 1}, .tail = Conv::bias_relu});          // SqueezeNet
  check(Conv{
      .height = 37, .width = 37, .channels = 64, .columns = 96, .kernel = {5, 5}, .strides = {2, 2}, .tail = Conv::bias_relu});  // ZFNet
}
TEST(Conv, StridesAndPadsUnevenly) {
  check(Conv{.height = 13, .width = 17, .channels = 20, .columns = 36, .strides = {2, 1}, .low = {0, 2}, .high = {1, 0}});
  check(Conv{.height = 13, .width = 17, .channels = 20, .columns = 36, .kernel = {5, 3}, .strides = {2, 3}, .low = {4, 0}, .high = {0, 5}});
}
TEST(Conv, Dilates) {
  check(Conv{.height = 15, .width = 16, .channels = 12, .columns = 20, .low = {2, 2}, .high = {2, 2}, .dilations = {2, 2}});
  check(Conv{.height = 15, .width = 16, .channels = 160, .columns = 20, .dilations = {2, 3}});
}
TEST(Conv, Groups) {
  check(Conv{.height = 13,
             .width = 13,
             .channels = 32,
             .columns = 64,
             .kernel = {5, 5},
             .low = {2, 2},
             .high = {2, 2},
             .groups = 2,
             .tail = Conv::bias_relu});
  check(Conv{.height = 14, .width = 14, .channels = 60, .columns = 68, .kernel = {1, 1}, .groups = 4, .tail = Conv::residual});
  check(Conv{.height = 9, .width = 9, .channels = 320, .columns = 40, .low = {1, 1}, .high = {1, 1}, .groups = 2});
}
TEST(Conv, ConvolvesEachChannelAlone) {
  for (bool packed : {false, true}) {
    check(Conv{.height = 14,
               .width = 14,
               .channels = 40,
               .columns = 40,
               .low = {1, 1},
               .high = {1, 1},
               .groups = 40,
               .tail = Conv::bias_relu,
               .packed = packed});
    check(Conv{.batch = 2,
               .height = 15,
               .width = 17,
               .channels = 21,
               .columns = 21,
               .strides = {2, 2},
               .low = {1, 1},
               .high = {1, 1},
               .groups = 21,
               .tail = Conv::residual,
               .packed = packed});
    check(Conv{.height = 5,
               .width = 7,  // a dilated row of the filter, 9, is wider than the input
               .channels = 16,
               .columns = 16,
               .kernel = {5, 5},
               .low = {2, 2},
               .high = {2, 2},
               .dilations = {1, 2},
               .groups = 16,
               .packed = packed,
               .symbolic_batch = false});
  }
}
TEST(Conv, TakesUnpackedFilters) {
  check(Conv{.height = 10, .width = 10, .channels = 6, .columns = 20, .low = {1, 1}, .high = {1, 1}, .packed = false});
  check(Conv{.height = 8, .width = 8, .channels = 192, .columns = 20, .low = {1, 1}, .high = {1, 1}, .packed = false});
  check(Conv{.height = 8,
             .width = 8,
             .channels = 10,
             .columns = 30,
             .low = {1, 1},
             .high = {1, 1},
             .groups = 5,
             .tail = Conv::bias_relu,
             .packed = false});
  check(Conv{.height = 8, .width = 8, .channels = 10, .columns = 30, .low = {1, 1}, .high = {1, 1}, .groups = 10, .packed = false});
}
TEST(Conv, TakesBatches) {
  check(Conv{.batch = 3, .height = 8, .width = 8, .channels = 16, .columns = 32, .low = {1, 1}, .high = {1, 1}, .tail = Conv::bias_relu});
  check(Conv{.batch = 3,
             .height = 8,
             .width = 8,
             .channels = 16,
             .columns = 32,
             .low = {1, 1},
             .high = {1, 1},
             .tail = Conv::residual,
             .symbolic_batch = true});
  check(Conv{.batch = 5,
             .height = 8,
             .width = 8,
             .channels = 16,
             .columns = 32,
             .kernel = {1, 1},
             .tail = Conv::residual,
             .symbolic_batch = true});
  check(Conv{.batch = 2,
             .height = 8,
             .width = 8,
             .channels = 16,
             .columns = 16,
             .low = {1, 1},
             .high = {1, 1},
             .groups = 16,
             .tail = Conv::bias_relu,
             .symbolic_batch = true});
}
TEST(Conv, ConvolvesLines) {
  Case c;
  c.input = "2x31x12xf32";
  c.result = "2x15x20xf32";
  c.filter = {4, 12, 20};
  c.op = "tx.conv";
  c.attributes =
      "strides = array<i64: 2>, pads_low = array<i64: 1>, pads_high = array<i64: 1>, dilations = array<i64: 1>, groups = 1 : i64";
  check(c);
}

// A spilled accumulator costs a fifth of the speed or more, and shows in no result.
TEST(Matmul, KeepsItsTileInRegisters) {
  for (const targets::x86_64::Level* level : {&targets::x86_64::level_v3, &targets::x86_64::level_v4}) {
    ParsedRegion parsed(region_text({"96x64xf32", "8192xf32"}, {"96x128xf32"},
                                    "%y = tx.matmul %0, %1 {packed_shape = array<i64: 64, 128>} : tensor<96x64xf32>, tensor<8192xf32> -> "
                                    "tensor<96x128xf32>\n tx.yield %y : tensor<96x128xf32>"));
    auto target = targets::make_x86_64_target(level->name);
    mlir::OwningOpRef<mlir::ModuleOp> kernels = mlir::ModuleOp::create(mlir::UnknownLoc::get(parsed.context()));
    auto plans = target->plans(parsed.region());
    ASSERT_TRUE(mlir::succeeded(plans));
    ASSERT_TRUE(mlir::succeeded(target->emit(parsed.region(), plans->back(), "kernel", *kernels)));
    auto assembly = targets::x86_64::lower_to_assembly(*kernels, *level);
    ASSERT_TRUE(mlir::succeeded(assembly));
    size_t sums = 0, spills = 0;
    llvm::SmallVector<llvm::StringRef> lines;
    llvm::StringRef(*assembly).split(lines, '\n');
    for (llvm::StringRef line : lines) {
      sums += line.contains("vfmadd");
      spills += (line.contains("zmm") || line.contains("ymm")) && line.contains("(%rsp)");
    }
    EXPECT_GE(sums, 12u) << level->name;
    EXPECT_EQ(spills, 0u) << level->name;
  }
}

}  // namespace
}  // namespace heddle::tests
