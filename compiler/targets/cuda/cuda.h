// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The CUDA target as the pipeline sees it: "ptx/1" for an sm_NN.
#pragma once

#include <memory>
#include <string_view>

#include "compiler/targets/target.h"
#include "mlir/IR/DialectRegistry.h"

namespace heddle::targets {

// chip: "sm_80" or "sm_90a". Null for another one.
std::unique_ptr<Target> make_cuda_target(std::string_view chip);
void register_cuda_dialects(mlir::DialectRegistry& registry);

}  // namespace heddle::targets
