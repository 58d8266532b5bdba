// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the stages of a region to a kernel of portable code. Used by the portable target only.
#pragma once

#include <string>

#include "compiler/stage/stage.h"
#include "heddle/sdk/portable/code.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle::targets {

// The attribute of a function of stages with the named ops that they are made of: pairs of a name and a dictionary.
inline constexpr llvm::StringLiteral named_ops_attr = "portable.ops";

// Attribute of a region: its results may have different extents, and stages of their own. The compiler forms no such regions for portable code; a target
// plugin may claim one.
inline constexpr llvm::StringLiteral several_stages_attr = "portable.several_stages";
mlir::FailureOr<stage::StagedRegion> stages_of(tx::DispatchOp region, std::string& reason);

mlir::ArrayAttr named_ops_of(tx::DispatchOp region);

// A function with one dispatch of stages. On failure false: `reason` says what the format has no form for.
bool encode(mlir::func::FuncOp function, sdk::portable::Kernel& kernel, std::string& reason);

}  // namespace heddle::targets
