// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs compiled regions as SPIR-V on an OpenCL device of this machine, which may be its CPU. Used by tests of targets.
#pragma once

#include <vector>

#include "tests/compiler/expected.h"

namespace heddle::tests {

// Empty where a device takes SPIR-V and shares memory with the host; else why there is none.
const std::string& no_opencl_device();

// EXPECTs that the SPIR-V is valid, if HEDDLE_SPIRV_VAL names a validator, and needs f64 only for tensors of it; where there is a device, that its kernel gives the results wanted and writes nothing but them.
void check_on_opencl(tx::DispatchOp region, const std::vector<Tensor>& operands, const Expected& wanted, const CheckOptions& options);

}  // namespace heddle::tests
