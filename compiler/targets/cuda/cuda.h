// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The CUDA target as the pipeline sees it: "ptx/1" for an sm_NN.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "compiler/targets/target.h"
#include "mlir/IR/DialectRegistry.h"

namespace heddle::targets {

// chip: "sm_80" or "sm_90a"; null for any other. shared_memory_bytes: the limit for a workgroup; 0: the chip's own limit.
std::unique_ptr<Target> make_cuda_target(std::string_view chip, Math math = Math::strict, int64_t shared_memory_bytes = 0);
void register_cuda_dialects(mlir::DialectRegistry& registry);

}  // namespace heddle::targets
