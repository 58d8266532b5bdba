// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interprets the bytecode of host programs, instruction by instruction. Semantics are those of sdk/module/module.fbs.
// Relies on the guarantees of sdk/module/verifier.h: every index of an instruction is in range, and no program runs off its end.
#include "core/submit/interpreter.h"

#include <algorithm>

#include "sdk/module/element_types.h"

namespace heddle::submit {

namespace {

namespace mf = module_format;
constexpr uint32_t kNoRegister = 0xFFFFFFFFu;

const char* symbol_of(mf::Op op) {
  switch (op) {
    case mf::Op::Add:
      return "+";
    case mf::Op::Sub:
      return "-";
    case mf::Op::Mul:
      return "*";
    case mf::Op::FloorDiv:
      return "floordiv";
    case mf::Op::CeilDiv:
      return "ceildiv";
    default:
      return "mod";
  }
}

}  // namespace

Interpreter::Interpreter(const mf::Program& program, const open::Signature& signature,
                         const std::vector<std::vector<int64_t>>& argument_dims, std::span<const int64_t> symbols, InterpreterLimits limits)
    : program_(program), signature_(signature), argument_dims_(argument_dims), limits_(limits), registers_(program.register_count(), 0) {
  result_dims_.reserve(signature.results.size());
  for (const open::TensorSignature& result : signature.results) {
    std::vector<int64_t> dims;
    for (const open::Extent& extent : result.extents) {
      dims.push_back(extent.symbol >= 0 ? symbols[static_cast<size_t>(extent.symbol)] : extent.value);
    }
    result_dims_.push_back(std::move(dims));
  }
  find_fixed();
}

Status Interpreter::arithmetic(mf::Op op, const mf::Instruction& instruction) {
  int64_t left = registers_[instruction.b()], right = registers_[instruction.c()], result = 0;
  bool overflows = false;
  switch (op) {
    case mf::Op::Add:
      overflows = __builtin_add_overflow(left, right, &result);
      break;
    case mf::Op::Sub:
      overflows = __builtin_sub_overflow(left, right, &result);
      break;
    case mf::Op::Mul:
      overflows = __builtin_mul_overflow(left, right, &result);
      break;
    default: {
      if (right == 0) {
        return error(HEDDLE_STATUS_INVALID_ARGUMENT, "instruction {} computes {} {} 0, which divides by zero", next_, left, symbol_of(op));
      }
      if (right == -1) {  // the one quotient that overflows, and x86 traps on its remainder too
        if (op == mf::Op::Mod) {
          result = 0;
        } else {
          overflows = __builtin_sub_overflow(int64_t{0}, left, &result);
        }
        break;
      }
      int64_t quotient = left / right, rest = left % right;
      if (op == mf::Op::FloorDiv) {
        result = rest != 0 && (rest < 0) != (right < 0) ? quotient - 1 : quotient;
      } else if (op == mf::Op::CeilDiv) {
        result = rest != 0 && (rest < 0) == (right < 0) ? quotient + 1 : quotient;
      } else {
        result = rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
      }
    }
  }
  if (overflows) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT, "instruction {} computes {} {} {}, which does not fit in 64 bits [HD-M-02]", next_, left,
                 symbol_of(op), right);
  }
  registers_[instruction.a()] = result;
  return Status();
}

Status Interpreter::binding(const mf::BindingRef& ref, RecordedBinding* out) const {
  out->value = ref.value();
  out->access = ref.access();
  out->offset = 0;
  out->length = kToEnd;
  if (ref.offset_register() != kNoRegister) {
    int64_t offset = registers_[ref.offset_register()];
    if (offset < 0) return error(HEDDLE_STATUS_OUT_OF_RANGE, "instruction {} names value {} at byte {}", next_, ref.value(), offset);
    out->offset = static_cast<uint64_t>(offset);
  }
  if (ref.length_register() != kNoRegister) {
    int64_t length = registers_[ref.length_register()];
    if (length < 0) return error(HEDDLE_STATUS_OUT_OF_RANGE, "instruction {} names {} bytes of value {}", next_, length, ref.value());
    out->length = static_cast<uint64_t>(length);
  }
  return Status();
}

Status Interpreter::check_command_count() const {
  if (recording_.commands.size() < limits_.commands && recording_.bindings.size() / 4 < limits_.commands &&
      recording_.constants.size() / 4 < limits_.commands) {
    return Status();
  }
  return error(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "the program requests more than {} commands", limits_.commands);
}

bool Interpreter::guards_hold(const mf::Candidate& candidate) {
  for (const mf::Guard* guard : *candidate.guards()) {
    int64_t value = registers_[guard->register_()];
    int64_t divisor = guard->divisor();
    ++steps_;
    if (value < guard->min() || value > guard->max() || (divisor != 0 && divisor != -1 && value % divisor != 0)) return false;
  }
  return true;
}

Status Interpreter::dispatch(uint32_t index) {
  const mf::DispatchSite* site = program_.dispatches()->Get(index);
  RecordedCommand command;
  command.kind = RecordedKind::kDispatch;
  command.site = index;
  command.instruction = next_;
  Status refused;
  bool taken = false;
  for (uint32_t c = 0; c < site->candidates()->size(); ++c) {
    const mf::Candidate* candidate = site->candidates()->Get(c);
    if (!guards_hold(*candidate)) continue;
    taken = true;
    for (uint32_t i = 0; i < 3 && taken; ++i) {
      int64_t workgroups = registers_[candidate->grid()->Get(i)];
      if (workgroups < 0 || workgroups > INT64_C(0xFFFFFFFF)) {
        return error(HEDDLE_STATUS_INVALID_ARGUMENT, "region '{}' requests {} workgroups in dimension {}", site->name()->string_view(),
                     workgroups, i);
      }
      command.grid[i] = static_cast<uint32_t>(workgroups);
      const uint32_t most = site->slot() < slots_.size() ? slots_[site->slot()].most_workgroups[i] : 0;
      if (most == 0 || command.grid[i] <= most) continue;
      taken = false;
      refused = error(HEDDLE_STATUS_OUT_OF_RANGE, "region '{}' requests {} workgroups in dimension {}, and its device supports at most {}",
                      site->name()->string_view(), workgroups, i, most);
    }
    command.candidate = c;
    command.entry = candidate->entry();
    if (taken) break;
  }
  if (!taken && !site->operation()) {
    if (!refused.ok()) return refused;
    return error(HEDDLE_STATUS_INVALID_ARGUMENT, "no kernel of region '{}' accepts these extents", site->name()->string_view());
  }
  command.has_kernel = taken;
  command.first_binding = static_cast<uint32_t>(recording_.bindings.size());
  command.binding_count = site->bindings()->size();
  command.first_constant = static_cast<uint32_t>(recording_.constants.size());
  command.constant_count = site->constants()->size();
  steps_ += command.binding_count + command.constant_count;
  for (const mf::BindingRef* ref : *site->bindings()) {
    RecordedBinding bound;
    HEDDLE_RETURN_IF_ERROR(binding(*ref, &bound));
    recording_.bindings.push_back(bound);
  }
  for (uint32_t constant : *site->constants()) recording_.constants.push_back(registers_[constant]);
  recording_.commands.push_back(command);
  return Status();
}

Status Interpreter::set_result_dim(uint32_t result, uint32_t dim, int64_t value) {
  int64_t& extent = result_dims_[result][dim];
  if (value < 0 || (extent >= 0 && extent != value)) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT, "instruction {} sets extent {} of result '{}' to {}{}", next_, dim,
                 signature_.results[result].name, value, extent >= 0 ? fmt::format(", which is {}", extent) : std::string());
  }
  extent = value;
  return Status();
}

std::string Interpreter::given() const {
  constexpr size_t kMostListed = 8;
  std::string text;
  size_t listed = 0, varying = 0;
  for (size_t i = 0; i < signature_.arguments.size(); ++i) {
    const open::TensorSignature& argument = signature_.arguments[i];
    if (std::ranges::all_of(argument.extents, [](const open::Extent& extent) { return extent.symbol < 0; })) continue;
    if (++varying > kMostListed) continue;
    text += fmt::format("{}'{}' {}", listed++ == 0 ? "; given are " : ", ", argument.name,
                        module::shape_text(argument.element_type, argument_dims_[i]));
  }
  if (varying > listed) text += fmt::format(", and {} more inputs", varying - listed);
  return text;
}

std::string Interpreter::compared(uint32_t condition) const {
  const auto* code = program_.code();
  auto writer = [&](uint32_t target) -> const mf::Instruction* {
    for (uint32_t i = next_; i-- > 0;) {
      const mf::Instruction* one = code->Get(i);
      if (writes_register(static_cast<mf::Op>(one->op())) && one->a() == target) return one;
    }
    return nullptr;
  };
  const mf::Instruction* comparison = writer(condition);
  if (!comparison) return {};
  const int64_t left = registers_[comparison->b()], right = registers_[comparison->c()];
  // The program may have overwritten one of the two: the current values may differ from those compared.
  switch (static_cast<mf::Op>(comparison->op())) {
    case mf::Op::Equal:
      return left != right ? fmt::format("; they are {} and {}", left, right) : std::string();
    case mf::Op::LessEqual: {
      if (left <= right) return {};
      const mf::Instruction* limit = writer(comparison->c());
      const bool is_upper = limit && static_cast<mf::Op>(limit->op()) == mf::Op::Literal;
      return is_upper ? fmt::format("; {} is above {}", left, right) : fmt::format("; {} is below {}", right, left);
    }
    default:
      return {};
  }
}

void Interpreter::add_barrier() {
  if (!recording_.commands.empty() && recording_.commands.back().kind != RecordedKind::kBarrier) recording_.commands.push_back({});
}

Result<Interpreter::Outcome> Interpreter::run() {
  const auto* code = program_.code();
  const uint32_t count = code->size();
  int64_t* r = registers_.data();
  recording_.commands.reserve(std::min<size_t>(count, limits_.commands));
  while (next_ < count) {
    if (!pauses_.empty() && next_ == pauses_.front()) {
      pauses_ = pauses_.subspan(1);
      return Outcome::kPaused;
    }
    if (++steps_ > limits_.steps) {
      return error(HEDDLE_STATUS_RESOURCE_EXHAUSTED,
                   "the program runs for more than {} instructions, the limit for a call; a longer loop needs several calls",
                   limits_.steps);
    }
    const mf::Instruction& instruction = *code->Get(next_);
    const uint32_t a = instruction.a(), b = instruction.b(), c = instruction.c();
    const mf::Op op = static_cast<mf::Op>(instruction.op());
    if (op >= mf::Op::Dispatch && op <= mf::Op::Fill && piece_ == kNoPiece) {
      piece_ = next_;
      if (!skipped_.empty() && skipped_[next_] != 0) {
        was_skipped_ = true;
        next_ = skipped_[next_];
        continue;
      }
    }
    if (recorded_ && op >= mf::Op::Dispatch && op <= mf::Op::Fill && !(*recorded_)[next_]) {
      ++next_;
      continue;
    }
    switch (op) {
      case mf::Op::Return: {
        for (size_t i = 0; i < result_dims_.size(); ++i) {
          for (size_t j = 0; j < result_dims_[i].size(); ++j) {
            if (result_dims_[i][j] < 0) {
              return error(HEDDLE_STATUS_INTERNAL, "the program leaves extent {} of result '{}' unset", j, signature_.results[i].name);
            }
          }
        }
        end_ = next_;
        return Outcome::kFinished;
      }
      case mf::Op::Literal:
        r[a] = program_.literals()->Get(b);
        break;
      case mf::Op::Move:
        r[a] = r[b];
        break;
      case mf::Op::Add:
      case mf::Op::Sub:
      case mf::Op::Mul:
      case mf::Op::FloorDiv:
      case mf::Op::CeilDiv:
      case mf::Op::Mod:
        HEDDLE_RETURN_IF_ERROR(arithmetic(op, instruction));
        break;
      case mf::Op::Min:
        r[a] = r[b] < r[c] ? r[b] : r[c];
        break;
      case mf::Op::Max:
        r[a] = r[b] > r[c] ? r[b] : r[c];
        break;
      case mf::Op::Equal:
        r[a] = r[b] == r[c] ? 1 : 0;
        break;
      case mf::Op::Less:
        r[a] = r[b] < r[c] ? 1 : 0;
        break;
      case mf::Op::LessEqual:
        r[a] = r[b] <= r[c] ? 1 : 0;
        break;
      case mf::Op::Branch:
        next_ = a;
        continue;
      case mf::Op::BranchIf:
        if (r[b] != 0) {
          next_ = a;
          continue;
        }
        break;
      case mf::Op::ArgumentDim:
        r[a] = argument_dims_[b][c];
        break;
      case mf::Op::ComputeUnits:
        r[a] = b < slots_.size() ? slots_[b].compute_units : 0;
        break;
      case mf::Op::ResultDim:
        HEDDLE_RETURN_IF_ERROR(set_result_dim(a, b, r[c]));
        break;
      case mf::Op::Check:
        if (r[b] == 0) {
          std::string_view message = program_.messages()->Get(a)->string_view();
          if (message.empty()) message = "a condition that the module sets does not hold";
          return error(HEDDLE_STATUS_INVALID_ARGUMENT, "{}{}{}", message, compared(b), given());
        }
        break;
      case mf::Op::Dispatch:
        HEDDLE_RETURN_IF_ERROR(check_command_count());
        HEDDLE_RETURN_IF_ERROR(dispatch(a));
        break;
      case mf::Op::Copy: {
        HEDDLE_RETURN_IF_ERROR(check_command_count());
        const mf::CopySite* site = program_.copies()->Get(a);
        RecordedCommand command;
        command.kind = RecordedKind::kCopy;
        command.site = a;
        command.first_binding = static_cast<uint32_t>(recording_.bindings.size());
        command.binding_count = 2;
        RecordedBinding source, target;
        HEDDLE_RETURN_IF_ERROR(binding(site->source(), &source));
        HEDDLE_RETURN_IF_ERROR(binding(site->target(), &target));
        recording_.bindings.push_back(source);
        recording_.bindings.push_back(target);
        recording_.commands.push_back(command);
        break;
      }
      case mf::Op::Fill: {
        HEDDLE_RETURN_IF_ERROR(check_command_count());
        RecordedCommand command;
        command.kind = RecordedKind::kFill;
        command.site = a;
        command.first_binding = static_cast<uint32_t>(recording_.bindings.size());
        command.binding_count = 1;
        RecordedBinding target;
        HEDDLE_RETURN_IF_ERROR(binding(program_.fills()->Get(a)->target(), &target));
        recording_.bindings.push_back(target);
        recording_.commands.push_back(command);
        break;
      }
      case mf::Op::Barrier:
        HEDDLE_RETURN_IF_ERROR(check_command_count());
        add_barrier();
        break;
      case mf::Op::ReadScalar: {
        int64_t offset = r[c];
        if (offset < 0) return error(HEDDLE_STATUS_OUT_OF_RANGE, "instruction {} reads value {} at byte {}", next_, b, offset);
        scalar_ = {b, 1, static_cast<uint64_t>(offset), sizeof(int64_t)};
        scalar_register_ = a;
        ++next_;
        end_ = next_ - 1;
        return Outcome::kNeedsScalar;
      }
      case mf::Op::Submit:
        end_ = next_++;
        return Outcome::kSubmit;
      default:
        return error(HEDDLE_STATUS_UNIMPLEMENTED, "instruction {} has the unknown operation {}", next_, instruction.op());
    }
    ++next_;
  }
  return error(HEDDLE_STATUS_INTERNAL, "the program runs off its end");
}

}  // namespace heddle::submit
