// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See cuda_case.h.
#include "tests/compiler/cuda_case.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "compiler/targets/cuda/chip.h"
#include "compiler/targets/cuda/cuda.h"
#include "compiler/targets/cuda/machine_code.h"
#include "tests/compiler/cuda_run.h"

namespace heddle::tests {

namespace {

constexpr uint64_t most_spilled_bytes = 64;
constexpr uint64_t registers_of_workgroup = 65536;

const char* ptxas() {
  const char* path = getenv("HEDDLE_PTXAS");
  return path && access(path, X_OK) == 0 ? path : nullptr;
}

int64_t shared_limit(const std::string& chip) {
  return chip == "sm_80" ? targets::cuda::sm_80.shared_memory_bytes : targets::cuda::sm_90a.shared_memory_bytes;
}

// A region of f32 text with another element.
std::string with_element(std::string text, const std::string& element) {
  for (size_t at = 0; (at = text.find("f32", at)) != std::string::npos; at += element.size()) text.replace(at, 3, element);
  return text;
}

}  // namespace

void CudaTarget::SetUp() {
  if (!has_cuda_device() && !ptxas()) GTEST_SKIP() << "SKIP: no ptxas (nvidia-cuda-nvcc of PyPI), no CUDA device";
}

targets::KernelResources check_code(tx::DispatchOp region, const std::string& what, const std::string& chip, int64_t limit,
                                    targets::Math math) {
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

void check_code(tx::DispatchOp region, const std::string& what, targets::Math math) {
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

void check_results(tx::DispatchOp region, CheckOptions options, llvm::ArrayRef<int64_t> limits) {
  if (!has_cuda_device()) return;
  std::vector<Tensor> operands = random_operands(region, options);
  const Expected wanted = expected_results(region, operands, options);
  for (int64_t limit : limits) {
    SCOPED_TRACE("shared memory " + std::to_string(limit));
    options.shared_memory_bytes = limit;
    check_on_cuda(region, operands, wanted, options);
  }
}

double step_of(const std::string& element) {
  return element == "bf16" ? 1.0 / 128 : element == "f16" ? 1.0 / 1024 : 1e-6;
}

void check_floats(const std::string& what, const std::string& text, CheckOptions options) {
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

}  // namespace heddle::tests
