// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels cut into what code is made of, each apart from the others: so several threads make it, and what was made before need not be made again. Knows
// no target.
#pragma once

#include <string>
#include <vector>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace heddle::targets {

// Of a private function that several kernels may call, whose name says all that is in it: it is a unit of its own.
inline constexpr llvm::StringLiteral outlined_attr = "heddle.outlined";

// One kernel with what it alone needs, or one outlined function.
struct CodeUnit {
  std::string name;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<std::string> calls;  // outlined functions, in order
};

// The units of all kernels of a module, then of the outlined functions, in the module's order.
std::vector<CodeUnit> split_code(mlir::ModuleOp kernels);

}  // namespace heddle::targets
