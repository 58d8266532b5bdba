// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/emit/registers.h"

#include <algorithm>

#include "llvm/Support/ErrorHandling.h"

using namespace mlir;

namespace heddle::emit {

std::vector<module_format::Instruction>& Registers::code_of(unsigned read) {
  if (code_.size() <= read) code_.resize(read + 1);
  return code_[read];
}

uint32_t Registers::emit(module_format::Op op, uint32_t b, uint32_t c, unsigned after) {
  uint32_t target = program_.register_count++;
  code_of(after).emplace_back(static_cast<uint16_t>(op), 0, target, b, c);
  if (after != 0) reads_[target] = after;
  return target;
}

uint32_t Registers::emit_computed(module_format::Op op, uint32_t left, uint32_t right) {
  return emit(op, left, right, std::max(read_of(left), read_of(right)));
}

uint32_t Registers::read_symbol(unsigned position, unsigned read) {
  const uint32_t target = program_.register_count++;
  symbols_[position] = target;
  reads_[target] = read;
  return target;
}

void Registers::set_result_dim(uint32_t result, uint32_t dim, uint32_t value) {
  code_of(read_of(value)).emplace_back(static_cast<uint16_t>(module_format::Op::ResultDim), 0, result, dim, value);
}

void Registers::bind_symbol(unsigned position, uint32_t argument, uint32_t dim) {
  if (!symbols_.contains(position)) symbols_[position] = emit(module_format::Op::ArgumentDim, argument, dim);
}

void Registers::define_symbol(unsigned position, module_format::Op op, AffineExpr left, AffineExpr right) {
  uint32_t a = value_of(left), b = value_of(right);
  symbols_[position] = emit_computed(op, a, b);
}

uint32_t Registers::literal(int64_t value) {
  auto [it, is_new] = literals_.try_emplace(value, 0);
  if (is_new) {
    program_.literals.push_back(value);
    it->second = emit(module_format::Op::Literal, program_.literals.size() - 1, 0);
  }
  return it->second;
}

uint32_t Registers::compute_units(uint32_t slot) {
  auto [it, is_new] = compute_units_.try_emplace(slot, 0);
  if (is_new) it->second = emit(module_format::Op::ComputeUnits, slot, 0);
  return it->second;
}

uint32_t Registers::at_most(uint32_t left, uint32_t right) {
  return emit_computed(module_format::Op::LessEqual, left, right);
}

uint32_t Registers::least(uint32_t left, uint32_t right) {
  return emit_computed(module_format::Op::Min, left, right);
}

uint32_t Registers::sum(uint32_t left, uint32_t right) {
  return emit_computed(module_format::Op::Add, left, right);
}

uint32_t Registers::product(uint32_t left, uint32_t right) {
  return emit_computed(module_format::Op::Mul, left, right);
}

uint32_t Registers::equal(uint32_t left, uint32_t right) {
  return emit_computed(module_format::Op::Equal, left, right);
}

void Registers::check(uint32_t condition, uint32_t message) {
  code_of(read_of(condition)).emplace_back(static_cast<uint16_t>(module_format::Op::Check), 0, message, condition, 0);
}

uint32_t Registers::value_of(AffineExpr expression) {
  if (auto it = known_.find(expression); it != known_.end()) return it->second;
  uint32_t result = 0;
  if (auto constant = llvm::dyn_cast<AffineConstantExpr>(expression)) {
    result = literal(constant.getValue());
  } else if (auto symbol = llvm::dyn_cast<AffineSymbolExpr>(expression)) {
    result = symbols_.lookup(symbol.getPosition());
  } else {
    auto binary = llvm::cast<AffineBinaryOpExpr>(expression);
    uint32_t left = value_of(binary.getLHS()), right = value_of(binary.getRHS());
    switch (expression.getKind()) {
      case AffineExprKind::Add:
        result = emit_computed(module_format::Op::Add, left, right);
        break;
      case AffineExprKind::Mul:
        result = emit_computed(module_format::Op::Mul, left, right);
        break;
      case AffineExprKind::FloorDiv:
        result = emit_computed(module_format::Op::FloorDiv, left, right);
        break;
      case AffineExprKind::CeilDiv:
        result = emit_computed(module_format::Op::CeilDiv, left, right);
        break;
      case AffineExprKind::Mod:
        result = emit_computed(module_format::Op::Mod, left, right);
        break;
      default:
        llvm_unreachable("a binary expression has no other kind");
    }
  }
  known_[expression] = result;
  return result;
}

}  // namespace heddle::emit
