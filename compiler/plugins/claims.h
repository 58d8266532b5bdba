// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What target plugins claim becomes regions of its own, each with the attribute heddle.claim; and the code of such regions. Knows the plugins, and the
// compiler's regions; nothing of formats.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/emit/module_file.h"
#include "compiler/passes/passes.h"
#include "compiler/plugins/plugin.h"
#include "mlir/Pass/Pass.h"

namespace heddle::plugins {

using Warn = std::function<void(const std::string& text)>;  // may be empty

// heddle-claim-kernels, after heddle-form-dispatches: asks the plugins of the module's families, function by function. What is claimed becomes a
// region, and the rest of the regions that it was part of is divided into regions again.
std::unique_ptr<mlir::Pass> claim_kernels(TargetPlugins& plugins, const passes::Devices& devices, const Warn& warn);

// The code of all claimed regions of the family: an executable for each different one. Regions whose code cannot be had lose the attribute.
std::vector<emit::FamilyCode> emit_claims(TargetPlugin& plugin, const std::vector<emit::Combination>& combinations, const Warn& warn);

// The executable of one claim, for those regions of it in the models that `is_its` takes.
emit::FamilyCode code_of_claim(const TargetPlugin& plugin, const TargetPlugin::Kept& kept, const std::vector<emit::Combination>& models,
                               llvm::function_ref<bool(tx::DispatchOp)> is_its);

}  // namespace heddle::plugins
