// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The x86-64 target: code of format x86_64-elf/1 for one level. Made by the pipeline, once per requested level.
#pragma once

#include <memory>
#include <string_view>

#include "compiler/targets/target.h"

namespace heddle::targets {

// level: "x86-64-v3" or "x86-64-v4"; null for any other.
std::unique_ptr<Target> make_x86_64_target(std::string_view level);

// The dialects that emitters use; the context of a pipeline with this target needs them.
void register_x86_64_dialects(mlir::DialectRegistry& registry);

}  // namespace heddle::targets
