// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function of dispatches as a host program: which memory each value lives in, when barriers are needed, how long a slice of the
// arena is held. Called by emit for the main function and for the initializer.
#pragma once

#include <heddle_module/module_generated.h>

#include "compiler/emit/globals.h"
#include "compiler/emit/kernels.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle::emit {

struct ProgramTarget {
  llvm::StringRef family;
  const Kernels& kernels;
  uint32_t executable;  // that holds them
};

// The program of `function` for a family; with `initializer`, results go to the derived globals of their names.
mlir::FailureOr<std::unique_ptr<module_format::ProgramT>> schedule(mlir::func::FuncOp function, const ProgramTarget& target,
                                                                   Globals& globals, bool initializer);

}  // namespace heddle::emit
