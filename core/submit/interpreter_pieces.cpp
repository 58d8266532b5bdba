// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which pieces of a program are the same whenever they run: their registers keep the values from before the first command.
// Called once for each piece that is recorded, so that it need not be recorded again.
#include <algorithm>

#include "core/submit/interpreter.h"

namespace heddle::submit {

namespace {

namespace mf = module_format;
constexpr uint32_t kNoRegister = 0xFFFFFFFFu;

}  // namespace

bool writes_register(mf::Op op) {
  return (op >= mf::Op::Literal && op <= mf::Op::LessEqual) || op == mf::Op::ArgumentDim || op == mf::Op::ReadScalar ||
         op == mf::Op::ComputeUnits;
}

bool is_in_pieces(const mf::Program& program) {
  return std::ranges::any_of(*program.code(), [](const mf::Instruction* at) {
    return static_cast<mf::Op>(at->op()) == mf::Op::ReadScalar || static_cast<mf::Op>(at->op()) == mf::Op::Submit;
  });
}

bool reads_scalars(const mf::Program& program) {
  return std::ranges::any_of(*program.code(),
                             [](const mf::Instruction* at) { return static_cast<mf::Op>(at->op()) == mf::Op::ReadScalar; });
}

void Interpreter::find_fixed() {
  if (!is_in_pieces(program_)) return;
  const auto* code = program_.code();
  fixed_.assign(program_.register_count(), 1);
  skipped_.assign(code->size(), 0);
  uint32_t first = 0;  // the first instruction that is no computation
  while (first < code->size()) {
    const mf::Op op = static_cast<mf::Op>(code->Get(first)->op());
    if (!(writes_register(op) && op != mf::Op::ReadScalar) && op != mf::Op::Check && op != mf::Op::ResultDim) break;
    ++first;
  }
  for (const mf::Instruction* at : *code) {
    const mf::Op op = static_cast<mf::Op>(at->op());
    if ((op == mf::Op::Branch || op == mf::Op::BranchIf) && at->a() < first) first = 0;
  }
  for (uint32_t i = first; i < code->size(); ++i) {
    if (writes_register(static_cast<mf::Op>(code->Get(i)->op()))) fixed_[code->Get(i)->a()] = 0;
  }
}

bool Interpreter::is_fixed(const mf::BindingRef& ref) const {
  const mf::Value* value = program_.values()->Get(ref.value());
  if (value->kind() == mf::ValueKind::Transient && !fixed_[program_.transients()->Get(value->index())->size_register()]) return false;
  // What moves and goes to the end of its value has another length in each step.
  return ref.length_register() == kNoRegister ? has_fixed_offset(ref) : fixed_[ref.length_register()] != 0;
}

bool Interpreter::has_fixed_offset(const mf::BindingRef& ref) const {
  return ref.offset_register() == kNoRegister || is_fixed(ref.offset_register());
}

bool Interpreter::moves(const mf::CopySite& site) const {
  return !has_fixed_offset(site.source()) || !has_fixed_offset(site.target());
}

bool Interpreter::is_steady(const mf::DispatchSite& site) const {
  auto all_fixed = [&](const auto& registers) { return std::ranges::all_of(registers, [&](uint32_t index) { return fixed_[index]; }); };
  for (const mf::Candidate* candidate : *site.candidates()) {
    if (!all_fixed(*candidate->grid())) return false;
    for (const mf::Guard* guard : *candidate->guards()) {
      if (!fixed_[guard->register_()]) return false;
    }
  }
  return all_fixed(*site.constants()) &&
         std::ranges::all_of(*site.bindings(), [&](const auto* ref) { return is_fixed(*ref) && has_fixed_offset(*ref); });
}

bool Interpreter::is_steady() const {
  if (fixed_.empty() || piece_ == kNoPiece || recorded_) return false;
  // Limits of verdicts are read when a piece has finished.
  if (program_.checks() &&
      !std::ranges::all_of(*program_.checks()->all(), [&](const auto* check) { return fixed_[check->limit_register()]; }))
    return false;
  for (uint32_t i = piece_; i < end_; ++i) {
    const mf::Instruction& at = *program_.code()->Get(i);
    switch (static_cast<mf::Op>(at.op())) {
      case mf::Op::Barrier:
        break;
      case mf::Op::Check:
        if (!fixed_[at.b()]) return false;
        break;
      case mf::Op::Dispatch:
        if (!is_steady(*program_.dispatches()->Get(at.a()))) return false;
        break;
      case mf::Op::Copy: {
        const mf::CopySite& site = *program_.copies()->Get(at.a());
        if (!is_fixed(site.source()) || !is_fixed(site.target())) return false;
        // Each frame has verdicts of its own.
        if (moves(site) && program_.values()->Get(site.target().value())->kind() == mf::ValueKind::Verdict) return false;
        break;
      }
      case mf::Op::Fill:
        if (!is_fixed(program_.fills()->Get(at.a())->target()) || !has_fixed_offset(program_.fills()->Get(at.a())->target())) return false;
        break;
      default:
        return false;
    }
  }
  return true;
}

void Interpreter::skip_piece() {
  skipped_[piece_] = end_;
}

void Interpreter::begin_piece() {
  recording_.commands.clear();
  recording_.bindings.clear();
  recording_.constants.clear();
  piece_ = kNoPiece;
  was_skipped_ = false;
}

}  // namespace heddle::submit
