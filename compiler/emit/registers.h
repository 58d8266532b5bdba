// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Registers of a host program: every affine expression is computed once, ahead of the commands. What has to hold before that is checked there too.
#pragma once

#include <heddle_module/module_generated.h>

#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/AffineExpr.h"

namespace heddle::emit {

class Registers {
 public:
  explicit Registers(module_format::ProgramT& program) : program_(program) {}

  // Where symbol `position` comes from: extent `dim` of argument `argument`.
  void bind_symbol(unsigned position, uint32_t argument, uint32_t dim);
  // What it is computed of.
  void define_symbol(unsigned position, module_format::Op op, mlir::AffineExpr left, mlir::AffineExpr right);
  // The register that holds the expression's value.
  uint32_t value_of(mlir::AffineExpr expression);
  uint32_t literal(int64_t value);
  // Of the device of that slot.
  uint32_t compute_units(uint32_t slot);
  // The register that holds 1 if left <= right, else 0.
  uint32_t at_most(uint32_t left, uint32_t right);
  // The same for left == right.
  uint32_t equal(uint32_t left, uint32_t right);
  // Refuses the call with that message where the register holds 0, before anything is computed that is asked for later.
  void check(uint32_t condition, uint32_t message);
  // Instructions that compute all of them.
  const std::vector<module_format::Instruction>& code() const { return code_; }

 private:
  uint32_t emit(module_format::Op op, uint32_t b, uint32_t c);

  module_format::ProgramT& program_;
  std::vector<module_format::Instruction> code_;
  llvm::DenseMap<mlir::AffineExpr, uint32_t> known_;
  llvm::DenseMap<int64_t, uint32_t> literals_;
  llvm::DenseMap<unsigned, uint32_t> symbols_;
  llvm::DenseMap<uint32_t, uint32_t> compute_units_;
};

}  // namespace heddle::emit
