// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Divides kernels into units that are compiled separately, so that several threads can compile them and cached code can be reused. Knows
// no target.
#pragma once

#include <string>
#include <vector>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace heddle::targets {

// Attribute of a private function that several kernels may call, whose name determines its contents: it is a unit of its own.
inline constexpr llvm::StringLiteral outlined_attr = "heddle.outlined";

// One kernel with everything that only it needs, or one outlined function.
struct CodeUnit {
  std::string name;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<std::string> calls;  // outlined functions, in order
};

// The units of all kernels of a module, then those of the outlined functions, in the module's order.
std::vector<CodeUnit> split_code(mlir::ModuleOp kernels);

}  // namespace heddle::targets
