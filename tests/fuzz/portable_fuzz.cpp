// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Portable code of any bytes: it is refused with an error, or each kernel runs on bindings of exactly the size that it needs, or fails with an error. With
// a workspace for the tensors between its nodes it has the same results. What is read is written as bytes that are read as the same.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "heddle/sdk/portable/interpreter.h"
#include "heddle/sdk/portable/names.h"
#include "heddle/sdk/portable/ops.h"
#include "heddle/sdk/portable/text.h"

namespace portable = heddle::sdk::portable;

namespace {

constexpr uint64_t kMostBytes = 1 << 16;  // of a binding

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "portable_fuzz: %s\n", what);
  std::abort();
}

// Bytes of a tensor if all symbols have this value; kMostBytes if there are more.
uint64_t bytes_of(const portable::Kernel& kernel, const portable::Tensor& tensor, int64_t symbol) {
  std::vector<int64_t> values;
  for (const portable::Expression& e : kernel.expressions) {
    int64_t value = 0;
    const int64_t a = values.empty() ? 0 : values[e.a], b = values.empty() ? 0 : values[e.b];
    if (e.kind == portable::Expression::kConstant) value = e.value;
    if (e.kind == portable::Expression::kSymbol) value = symbol;
    if (e.kind == portable::Expression::kAdd && __builtin_add_overflow(a, b, &value)) value = 0;
    if (e.kind == portable::Expression::kMul && __builtin_mul_overflow(a, b, &value)) value = 0;
    if (e.kind == portable::Expression::kFloorDiv && b > 0) value = a / b - (a % b < 0);
    if (e.kind == portable::Expression::kCeilDiv && b > 0) value = a / b - (a % b < 0) + (a % b != 0);
    if (e.kind == portable::Expression::kMod && b > 0) value = a - (a / b - (a % b < 0)) * b;
    values.push_back(value);
  }
  portable::Scalar scalar;
  portable::scalar_of(tensor.type, &scalar);
  uint64_t count = portable::bytes_of(scalar);
  for (uint32_t extent : tensor.extents) {
    if (values[extent] <= 0) return 0;
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(values[extent]), &count)) return kMostBytes;
  }
  return count < kMostBytes ? count : kMostBytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::vector<portable::Kernel> kernels;
  std::string error;
  if (!portable::read_image(bytes, &kernels, &error)) {
    if (error.empty()) stop("refused without a reason");
    return 0;
  }
  for (portable::Kernel& kernel : kernels) {
    const std::string written = portable::write_kernel(kernel), image = portable::write_image({{kernel.name, written}});
    if (portable::text_of(kernel).size() > 4096 + 1000 * size) stop("its text is much longer than the code");
    std::vector<portable::Kernel> again;
    if (!portable::read_image(image, &again, &error) || portable::write_kernel(again.front()) != written)
      stop("what was written is not read");
    const auto symbol = static_cast<int64_t>(size % 5);
    const std::vector<int64_t> symbols(kernel.symbols, symbol);
    std::vector<std::unique_ptr<uint64_t[]>> memory;
    std::vector<portable::Memory> bindings;
    for (uint32_t i = 0; i < kernel.inputs + kernel.outputs; ++i) {
      const uint64_t length = bytes_of(kernel, kernel.tensors[i], symbol);
      memory.push_back(std::make_unique<uint64_t[]>(length / 8 + 1));
      for (uint64_t j = 0; j < length / 8; ++j) memory.back()[j] = (j + i) * 0x9E3779B97F4A7C15u;
      bindings.push_back({reinterpret_cast<char*>(memory.back().get()), length});
    }
    portable::check_names(kernel, symbols);
    for (const portable::NamedOp& op : kernel.ops) {
      std::string why;
      if (!portable::is_as_known(op, &why) && why.empty()) stop("a name is not known without a reason");
    }
    portable::parts_of(kernel, nullptr, symbols.data());
    const portable::Program program(std::move(kernel));
    error.clear();
    const portable::Limits limits = {1 << 14, 1 << 16};
    const bool is_done = program.run(bindings, symbols.data(), symbols.size(), &error, limits);
    if (!is_done && error.empty()) stop("failed without a reason");
    std::vector<uint64_t> needed;
    uint64_t workspace_bytes = 0;
    if (!program.binding_bytes(symbols.data(), symbols.size(), &needed, &error, &workspace_bytes) || workspace_bytes == 0) continue;
    if (workspace_bytes > kMostBytes) continue;
    std::vector<std::string> results;
    for (uint32_t i = program.kernel().inputs; i < bindings.size(); ++i) {
      results.emplace_back(bindings[i].data, bindings[i].bytes);
      std::memset(bindings[i].data, 0x5A, bindings[i].bytes);
    }
    const auto workspace = std::make_unique<uint64_t[]>(workspace_bytes / 8);
    bindings.push_back({reinterpret_cast<char*>(workspace.get()), workspace_bytes});
    error.clear();
    const bool is_done_again = program.run(bindings, symbols.data(), symbols.size(), &error, limits);
    if (!is_done_again && error.empty()) stop("failed without a reason");
    if (is_done && !is_done_again) stop("failed with a workspace only");
    for (size_t i = 0; i < results.size() && is_done; ++i) {
      const portable::Memory& result = bindings[program.kernel().inputs + i];
      if (results[i].compare(0, needed[program.kernel().inputs + i], result.data, needed[program.kernel().inputs + i]) != 0)
        stop("its results are others with a workspace");
    }
  }
  return 0;
}
