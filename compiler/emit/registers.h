// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Registers of a host program: every affine expression is computed once, before the commands or, if it depends on symbols that the program reads,
// directly after the last of these reads. Conditions of a call are checked there too.
#pragma once

#include <heddle_module/module_generated.h>

#include <unordered_map>

#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/AffineExpr.h"

namespace heddle::emit {

class Registers {
 public:
  explicit Registers(module_format::ProgramT& program) : program_(program) {}

  // Where symbol `position` comes from: extent `dim` of argument `argument`.
  void bind_symbol(unsigned position, uint32_t argument, uint32_t dim);
  // How symbol `position` is computed.
  void define_symbol(unsigned position, module_format::Op op, mlir::AffineExpr left, mlir::AffineExpr right);
  // Symbol `position` has the value that the program reads to the returned register. Reads are counted from 1 on, in program order.
  uint32_t read_symbol(unsigned position, unsigned read);
  // The read after which the register has its value; 0: none is needed.
  unsigned read_of(uint32_t of) const { return reads_.lookup(of); }
  // The register that holds the expression's value.
  uint32_t value_of(mlir::AffineExpr expression);
  uint32_t literal(int64_t value);
  // The number of compute units of the slot's device.
  uint32_t compute_units(uint32_t slot);
  // The register that holds 1 if left <= right, else 0.
  uint32_t at_most(uint32_t left, uint32_t right);
  // The same for left == right.
  uint32_t equal(uint32_t left, uint32_t right);
  // The smaller one of the two.
  uint32_t least(uint32_t left, uint32_t right);
  uint32_t sum(uint32_t left, uint32_t right);
  uint32_t product(uint32_t left, uint32_t right);
  // Refuses the call with that message if the register is 0, before anything requested later is computed.
  void check(uint32_t condition, uint32_t message);
  // Extent `dim` of that result is the register.
  void set_result_dim(uint32_t result, uint32_t dim, uint32_t value);
  // The instructions for registers that depend on no read, which come before the commands.
  const std::vector<module_format::Instruction>& code() const { return code_.front(); }
  // Those that come directly after a read; null: there are none.
  const std::vector<module_format::Instruction>* code_after(unsigned read) const { return read < code_.size() ? &code_[read] : nullptr; }

 private:
  // `after`: the read that has to come before.
  uint32_t emit(module_format::Op op, uint32_t b, uint32_t c, unsigned after = 0);
  uint32_t emit_computed(module_format::Op op, uint32_t left, uint32_t right);
  std::vector<module_format::Instruction>& code_of(unsigned read);

  module_format::ProgramT& program_;
  std::vector<std::vector<module_format::Instruction>> code_{1};  // by read
  llvm::DenseMap<uint32_t, unsigned> reads_;                      // of registers that depend on one
  llvm::DenseMap<mlir::AffineExpr, uint32_t> known_;
  std::unordered_map<int64_t, uint32_t> literals_;  // a DenseMap has no room for the largest and the smallest number
  llvm::DenseMap<unsigned, uint32_t> symbols_;
  llvm::DenseMap<uint32_t, uint32_t> compute_units_;
};

}  // namespace heddle::emit
