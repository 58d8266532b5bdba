// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function of dispatches as a host program: the memory of each value, where barriers are needed, and how long a slice of the arena is in use. Used
// by emit for the main function and for the initializer.
#pragma once

#include <heddle_module/module_generated.h>

#include <optional>
#include <string>
#include <vector>

#include "compiler/emit/globals.h"
#include "compiler/emit/kernels.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle::emit {

// The properties of a slot that a program needs.
struct SlotTarget {
  std::string name;  // as in the IR
  std::string family;
  // The executables that have its kernels: the family's own first, then those of claims. A region is in one of them, or in the own one for calls that its
  // claim has no entry for.
  struct Code {
    const Kernels* kernels;
    uint32_t executable;
  };
  std::vector<Code> codes;
  const Code& of(tx::DispatchOp region) const {
    for (const Code& code : llvm::reverse(codes)) {
      if (code.kernels->has(region)) return code;
    }
    return codes.front();
  }
  // The own one, if the region's is another.
  const Code* rest_of(tx::DispatchOp region) const {
    return codes.front().kernels->has(region) && &of(region) != &codes.front() ? &codes.front() : nullptr;
  }
};
// One per slot, in the module's order.
using ProgramTarget = std::vector<SlotTarget>;

// Position of a slot; that of the default slot for an unknown name.
uint32_t slot_index(const ProgramTarget& target, llvm::StringRef name);

// How many of a function's results are the model's own; the others are verdicts (tx::checks_attr).
unsigned own_result_count(mlir::func::FuncOp function);

// The place of each argument and of each result in the function's signature; none for state.
struct Places {
  explicit Places(mlir::func::FuncOp function);
  std::vector<std::optional<uint32_t>> arguments, results;
};

// The program of `function` for a combination of families; with `initializer`, results go to the derived globals of their names.
mlir::FailureOr<std::unique_ptr<module_format::ProgramT>> schedule(mlir::func::FuncOp function, const ProgramTarget& target,
                                                                   Globals& globals, bool initializer);

}  // namespace heddle::emit
