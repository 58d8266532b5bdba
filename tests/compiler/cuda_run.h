// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs compiled regions on the CUDA devices of this machine, through libcuda.so.1 alone: the driver plugin has its own tests. Used by
// tests of targets.
#pragma once

#include <string>
#include <vector>

#include "tests/compiler/kernel_run.h"

namespace heddle::tests {

// "sm_80", "sm_90a": those that a device here executes.
const std::vector<std::string>& runnable_chips();

// Whether there is one of them. Fails the current test where there is none and HEDDLE_GPU=required.
bool has_cuda_device();

// EXPECTs that kernels for these chips give the results wanted, the same bytes each time, and write nothing but their results. Does
// nothing without a device.
void check_on_cuda(tx::DispatchOp region, const std::vector<Tensor>& operands, const std::vector<Tensor>& wanted,
                   const CheckOptions& options);

}  // namespace heddle::tests
