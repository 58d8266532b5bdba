// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A module in which a target plugin's kernels can be compared with portable code: for each claim "c0_add" a function of that name that runs the plugin's
// code, and "c0_add_portable" with the same signature, which an interpreter runs. Written by the pipeline, run by `heddle compile --verify-target`.
#pragma once

#include <string>
#include <vector>

#include "compiler/plugins/claims.h"
#include "mlir/IR/OwningOpRef.h"

namespace heddle::plugins {

// The functions; the first arguments of each are "symbolN", whose extents are the values of its symbols. Claims that cannot be compared are left out, with a
// warning.
mlir::OwningOpRef<mlir::ModuleOp> verification_model(const TargetPlugin& plugin, mlir::MLIRContext& context, const Warn& warn);

// The plugin's code for them, as emit_claims() made it for the model.
std::vector<emit::FamilyCode> verification_code(const TargetPlugin& plugin, const emit::Combination& model);

}  // namespace heddle::plugins
