// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels compute, for any device: "portable/1" (heddle/sdk/portable/code.h). Called like the other targets; makes no machine code and chooses no
// plan: a region's stages become one kernel, whose grid is a single workgroup.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/targets/target.h"
#include "compiler/targets/workspace.h"

namespace heddle::targets {

inline constexpr std::string_view portable_level = "generic";

// The workspace of a region's portable code: for the tensors between its nodes, and for what the interpreter's threads take above their scratch memory.
// None if there is nothing of that, or if its kernel can have no further binding: since there are as many as may be, or since those are also the operands
// of an operation that may run instead.
std::optional<Workspace> portable_workspace(tx::DispatchOp region);

// For devices of this family: "portable", or that of a target plugin, whose kernels are beside the plugin's. Null for another name than portable_level.
std::unique_ptr<Target> make_portable_target(std::string_view name, std::string family = "portable");

}  // namespace heddle::targets
