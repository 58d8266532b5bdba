// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs compiled regions on the CUDA devices of this machine, through libcuda.so.1 alone: the driver plugin has its own tests. Used by
// tests of targets.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/compiler/expected.h"

namespace heddle::tests {

// What every byte of a result is before the kernel runs, and what lies around it. As a float it is NaN.
inline constexpr char before_results = static_cast<char>(0xff);

// "sm_80", "sm_90a": those that a device here executes.
const std::vector<std::string>& runnable_chips();

// Whether there is one of them. Fails the current test where there is none and HEDDLE_GPU=required.
bool has_cuda_device();

// Calls `look` with each chip and the bytes of its kernel's results. EXPECTs that they are the same each time, and that kernels write nothing
// but their results. Does nothing without a device.
using LookAtResults = std::function<void(const std::string& chip, const std::vector<std::vector<char>>& results)>;
void run_on_cuda(tx::DispatchOp region, const std::vector<Tensor>& operands, const CheckOptions& options, const LookAtResults& look);

// The same, and EXPECTs the results wanted.
void check_on_cuda(tx::DispatchOp region, const std::vector<Tensor>& operands, const Expected& wanted, const CheckOptions& options);

}  // namespace heddle::tests
