// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases of the CUDA target: compiled for every chip, assembled by ptxas within the chip's means, and run against what they have to be (expected.h) where there
// is a device. Used by tests of that target.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/compiler/kernel_run.h"

namespace heddle::tests {

// Skips where neither ptxas nor a device is there.
class CudaTarget : public ::testing::Test {
 protected:
  void SetUp() override;
};

// EXPECTs that the region's kernel assembles within the chip's means, or within so many bytes of shared memory. Its resources.
targets::KernelResources check_code(tx::DispatchOp region, const std::string& what, const std::string& chip, int64_t limit = 0,
                                    targets::Math math = targets::Math::strict);
// For each chip.
void check_code(tx::DispatchOp region, const std::string& what, targets::Math math = targets::Math::strict);

std::vector<Tensor> random_operands(tx::DispatchOp region, const CheckOptions& options);

// Compares with what they have to be (expected.h), where there is a device. limits: of shared memory; 0 for what the chip has.
void check_results(tx::DispatchOp region, CheckOptions options, llvm::ArrayRef<int64_t> limits = {0});

inline constexpr const char* float_elements[] = {"f32", "f16", "bf16"};

// Distance of neighboring numbers, against their size. Every op of the reference rounds to the element; kernels round once.
double step_of(const std::string& element);

// Code and results of a region of f32 text, for each float type.
void check_floats(const std::string& what, const std::string& text, CheckOptions options = {});

}  // namespace heddle::tests
