// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the known networks need of the CUDA target, as PTX that ptxas accepts and that spills nothing; where there is a device, also run
// there against the reference.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "compiler/targets/cuda/chip.h"
#include "compiler/targets/cuda/cuda.h"
#include "compiler/targets/cuda/machine_code.h"
#include "tests/compiler/contraction_cases.h"
#include "tests/compiler/cuda_run.h"
#include "tests/compiler/kernel_run.h"

namespace heddle::tests {
namespace {

constexpr uint64_t most_spilled_bytes = 64;
constexpr uint64_t registers_of_workgroup = 65536;
constexpr int64_t most_products = 70'000'000;  // that the reference computes in a few seconds

const char* ptxas() {
  const char* path = getenv("HEDDLE_PTXAS");
  return path && access(path, X_OK) == 0 ? path : nullptr;
}

int64_t shared_limit(const std::string& chip) {
  return chip == "sm_80" ? targets::cuda::sm_80.shared_memory_bytes : targets::cuda::sm_90a.shared_memory_bytes;
}

// Skips where neither ptxas nor a device is there.
class CudaTarget : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_cuda_device() && !ptxas()) GTEST_SKIP() << "SKIP: no ptxas (nvidia-cuda-nvcc of PyPI), no CUDA device";
  }
};

// EXPECTs that the region's kernel assembles within the chip's means, or within so many bytes of shared memory. Its resources.
targets::KernelResources check_code(tx::DispatchOp region, const std::string& what, const std::string& chip, int64_t limit = 0,
                                    targets::Math math = targets::Math::strict) {
  auto kernel = compile_region(*targets::make_cuda_target(chip, math, limit), region);
  if (!kernel) {
    ADD_FAILURE() << what << ", " << chip;
    return {};
  }
  const targets::KernelResources& needs = kernel->resources;
  targets::AssembledKernel code;
  if (ptxas()) {
    auto machine = targets::assemble_ptx(ptxas(), chip, kernel->code);
    if (!machine) {
      ADD_FAILURE() << what << ": " << llvm::toString(machine.takeError());
      return needs;
    }
    EXPECT_EQ(machine->kernels.size(), 1u) << what << ", " << chip;
    if (!machine->kernels.empty()) code = machine->kernels.front();
    EXPECT_GT(code.registers, 0u) << what << ", " << chip;
    EXPECT_LE(code.spilled_bytes, most_spilled_bytes) << what << ", " << chip << ", " << needs.rung;
    EXPECT_LE((code.registers + 7) / 8 * 8 * needs.workgroup_size, registers_of_workgroup) << what << ", " << chip;
    printf("%s, %s: %u threads, %u registers, %llu bytes spilled, %llu bytes shared; %s\n", what.c_str(), chip.c_str(),
           needs.workgroup_size, code.registers, static_cast<unsigned long long>(code.spilled_bytes),
           static_cast<unsigned long long>(needs.shared_memory_bytes), needs.rung.c_str());
  }
  EXPECT_LE(needs.shared_memory_bytes + code.shared_bytes, static_cast<uint64_t>(limit > 0 ? limit : shared_limit(chip)))
      << what << ", " << chip;
  return needs;
}

void check_code(tx::DispatchOp region, const std::string& what, targets::Math math = targets::Math::strict) {
  for (const char* chip : {"sm_80", "sm_90a"}) check_code(region, what, chip, 0, math);
}

std::vector<Tensor> random_operands(tx::DispatchOp region, const CheckOptions& options) {
  std::vector<Tensor> operands;
  for (auto [i, input] : llvm::enumerate(region.getInputs())) {
    auto range = options.ranges[std::min(i, options.ranges.size() - 1)];
    operands.push_back(random_tensor(llvm::cast<mlir::RankedTensorType>(input.getType()), options.symbols, range,
                                     options.seed + static_cast<uint32_t>(i)));
  }
  return operands;
}

// Compares with the reference, where there is a device. limits: of shared memory; 0 for what the chip has.
void check_results(tx::DispatchOp region, CheckOptions options, llvm::ArrayRef<int64_t> limits = {0}) {
  if (!has_cuda_device()) return;
  std::vector<Tensor> operands = random_operands(region, options), wanted = evaluate(region, operands, options.symbols);
  for (int64_t limit : limits) {
    SCOPED_TRACE("shared memory " + std::to_string(limit));
    options.shared_memory_bytes = limit;
    check_on_cuda(region, operands, wanted, options);
  }
}

// Distance of neighboring numbers, against their size. Every op of the reference rounds to the element; kernels round once.
double step_of(const std::string& element) {
  return element == "bf16" ? 1.0 / 128 : element == "f16" ? 1.0 / 1024 : 1e-6;
}

// A region of f32 text with another element.
std::string with_element(std::string text, const std::string& element) {
  for (size_t at = 0; (at = text.find("f32", at)) != std::string::npos; at += element.size()) text.replace(at, 3, element);
  return text;
}

constexpr const char* float_elements[] = {"f32", "f16", "bf16"};

// A region of f32 text, for each float type.
void check(const std::string& what, const std::string& text, CheckOptions options = {}) {
  for (const char* element : float_elements) {
    SCOPED_TRACE(what + " of " + element);
    ParsedRegion parsed(with_element(text, element));
    check_code(parsed.region(), what + " of " + element);
    CheckOptions here = options;
    here.relative = std::max(options.relative, 4 * step_of(element));
    if (std::string(element) != "f32") here.absolute = std::max(options.absolute, 4 * step_of(element));
    check_results(parsed.region(), here);
  }
}

std::string one_op(const std::vector<std::string>& operands, const std::string& result, const std::string& op) {
  return region_text(operands, {result}, "%x = tx." + op + "\n tx.yield %x : tensor<" + result + ">");
}

int64_t elements(llvm::ArrayRef<int64_t> shape, const std::vector<int64_t>& symbols) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent >= 0 ? extent : symbols.front();
  return count;
}

// What a contraction's results may be off. jump: the same where the tail is not continuous.
CheckOptions options_of(const Case& c, double jump, targets::Math math) {
  CheckOptions options;
  options.symbols = c.symbols;
  options.ranges = {{-1, 1}};
  double spread = std::sqrt(static_cast<double>(c.depth()));
  bool exact = c.element == "f32" && math == targets::Math::strict;
  double step = step_of(c.element == "f32" ? "f16" : c.element);  // TF32 has the mantissa of f16
  options.relative = exact ? 1e-5 : 2 * step;
  options.absolute = exact ? 1e-6 * spread + 1e-6 : step * (2 * spread + 2);
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

// ------------------------------------------------------------------------------------------------------- contractions

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
          EXPECT_EQ(needs.rung, "one thread a result");
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

// --------------------------------------------------------------------------------------------------------- everything else

std::string pool(const std::string& kind, const std::string& in, const std::string& out, const std::string& attributes) {
  return one_op({in}, out, "pool " + kind + " %0 {" + attributes + "} : tensor<" + in + "> -> tensor<" + out + ">");
}

TEST_F(CudaTarget, Pools) {
  const char* three_by_two =
      "kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, "
      "dilations = array<i64: 1, 1>";
  const char* whole =
      "kernel = array<i64: 7, 7>, strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, "
      "dilations = array<i64: 1, 1>";
  check("max pool", pool("max", "1x112x112x64xf32", "1x56x56x64xf32", three_by_two));
  check("average pool", pool("average", "1x28x28x24xf32", "1x14x14x24xf32", std::string(three_by_two) + ", include_pad"));
  check("average of an image", pool("average", "1x7x7x1000xf32", "1x1x1x1000xf32", whole));
  check("max pool of odd channels", pool("max", "2x13x13x19xf32", "2x7x7x19xf32", three_by_two));
  std::string in = "?x8x8x24xf32, #tx.dims<()[s0] -> (s0, 8, 8, 24)>", out = "?x4x4x24xf32, #tx.dims<()[s0] -> (s0, 4, 4, 24)>";
  CheckOptions options;
  options.symbols = {7};
  check("max pool of a batch",
        region_text({in}, {out},
                    std::string("%p = tx.pool max %0 {") + three_by_two + "} : tensor<" + in + "> -> tensor<" + out +
                        ">\n tx.yield %p : tensor<" + out + ">",
                    "", {"batch"}),
        options);
}

TEST_F(CudaTarget, Normalizes) {
  for (auto [type, axis] :
       {std::pair{"1x1000xf32", "1"}, {"1x10xf32", "1"}, {"1x1000x1x1xf32", "1"}, {"5x37xf32", "1"}, {"3x20001xf32", "1"}}) {
    check(std::string("softmax of ") + type, one_op({type}, type, std::string("softmax %0 {axis = ") + axis + "} : tensor<" + type + ">"));
  }
  check("lrn", one_op({"1x27x27x96xf32"}, "1x27x27x96xf32",
                      "lrn %0 {size = 5, alpha = 1.0e-4, beta = 0.75, bias = 1.0} : tensor<1x27x27x96xf32>"));
  CheckOptions options;
  options.symbols = {9};
  std::string type = "?x10xf32, #tx.dims<()[s0] -> (s0, 10)>";
  check("softmax of a batch",
        region_text({type}, {type}, "%x = tx.softmax %0 {axis = 1} : tensor<" + type + ">\n tx.yield %x : tensor<" + type + ">", "",
                    {"batch"}),
        options);
}

TEST_F(CudaTarget, Reduces) {
  struct Shapes {
    const char *in, *axes, *out;
  };
  CheckOptions options;
  options.absolute = 1e-4;
  for (const Shapes& s : {Shapes{"1x7x7x1024xf32", "1, 2", "1x1024xf32"},
                          {"3x7000xf32", "1", "3xf32"},
                          {"3x70xf32", "1", "3xf32"},
                          {"2000x40xf32", "0", "40xf32"},
                          {"3x5x9xf32", "0, 2", "5xf32"}}) {
    for (const char* kind : {"mean", "max"}) {
      check(
          std::string(kind) + " over " + s.axes + " of " + s.in,
          one_op({s.in}, s.out,
                 std::string("reduce ") + kind + " %0 {axes = array<i64: " + s.axes + ">} : tensor<" + s.in + "> -> tensor<" + s.out + ">"),
          options);
    }
  }
}

TEST_F(CudaTarget, MovesData) {
  check("concat", one_op({"1x28x28x64xf32", "1x28x28x96xf32", "1x28x28x19xf32"}, "1x28x28x179xf32",
                         "concat %0, %1, %2 {axis = 3} : tensor<1x28x28x64xf32>, tensor<1x28x28x96xf32>, tensor<1x28x28x19xf32> -> "
                         "tensor<1x28x28x179xf32>"));
  check("image to channels last",
        one_op({"1x3x56x56xf32"}, "1x56x56x3xf32",
               "transpose %0 {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x3x56x56xf32> -> tensor<1x56x56x3xf32>"));
  check("channels first", one_op({"1x7x7x512xf32"}, "1x512x7x7xf32",
                                 "transpose %0 {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x7x7x512xf32> -> tensor<1x512x7x7xf32>"));
  check("filter", one_op({"64x32x3x3xf32"}, "3x3x32x64xf32",
                         "transpose %0 {permutation = array<i64: 2, 3, 1, 0>} : tensor<64x32x3x3xf32> -> tensor<3x3x32x64xf32>"));
  check("channel shuffle",
        one_op({"1x14x14x4x68xf32"}, "1x14x14x68x4xf32",
               "transpose %0 {permutation = array<i64: 0, 1, 2, 4, 3>} : tensor<1x14x14x4x68xf32> -> tensor<1x14x14x68x4xf32>"));
  check("pad", one_op({"1x9x9x20xf32"}, "1x11x12x20xf32",
                      "pad %0 {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 1, 2, 0>, value = 0.0} : tensor<1x9x9x20xf32> -> "
                      "tensor<1x11x12x20xf32>"));
  check("slice",
        one_op({"9x30x40xf32"}, "4x30x13xf32",
               "slice %0 {starts = array<i64: 1, 0, 2>, strides = array<i64: 2, 1, 3>} : tensor<9x30x40xf32> -> tensor<4x30x13xf32>"));
  CheckOptions options;
  options.ranges = {{-2, 2}, {-6, 5}};
  check("gather",
        one_op({"6x33xf32", "2x4xi64"}, "2x4x33xf32", "gather %0, %1 {axis = 0} : tensor<6x33xf32>, tensor<2x4xi64> -> tensor<2x4x33xf32>"),
        options);
}

TEST_F(CudaTarget, ComputesElementWise) {
  const char* type = "2x14x14x40xf32";
  std::string t = tensor(type);
  check("batch normalization",
        region_text({type, "40xf32", "40xf32"}, {type},
                    "%a = tx.broadcast %1 {dimensions = array<i64: 3>} : tensor<40xf32> -> " + t + "\n%m = tx.mul %0, %a : " + t +
                        "\n%b = tx.broadcast %2 {dimensions = array<i64: 3>} : tensor<40xf32> -> " + t + "\n%s = tx.add %m, %b : " + t +
                        "\n%r = tx.relu %s : " + t + "\n tx.yield %r : " + t));
  for (const char* op :
       {"neg", "abs", "exp", "tanh", "sigmoid", "erf", "relu", "floor", "ceil", "round", "sqrt", "rsqrt", "log", "reciprocal"}) {
    CheckOptions options;
    options.ranges = {{0.5, 2}};
    check(op, one_op({type}, type, std::string(op) + " %0 : " + t), options);
  }
  for (const char* op : {"add", "sub", "mul", "div", "max", "min", "pow"}) {
    CheckOptions options;
    options.ranges = {{0.5, 2}};
    check(op, one_op({type, type}, type, std::string(op) + " %0, %1 : " + t), options);
  }
  std::string batch = "?x40xf32, #tx.dims<()[s0] -> (s0, 40)>";
  CheckOptions options;
  options.symbols = {77};
  check("a batch", region_text({batch}, {batch}, "%s = tx.relu %0 : " + tensor(batch) + "\n tx.yield %s : " + tensor(batch), "", {"batch"}),
        options);
}

TEST_F(CudaTarget, CastsBetweenTypes) {
  const char* types[] = {"f32", "f16", "bf16", "i8", "ui8", "i32", "i64", "i1"};
  for (const char* from : types) {
    for (const char* to : types) {
      if (std::string(from) == to) continue;
      std::string a = "1000x" + std::string(from), b = "1000x" + std::string(to);
      ParsedRegion parsed(one_op({a}, b, "cast %0 : " + tensor(a) + " -> " + tensor(b)));
      check_code(parsed.region(), a + " to " + b);
    }
  }
}

}  // namespace
}  // namespace heddle::tests
