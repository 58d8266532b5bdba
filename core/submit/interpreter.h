// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a host program for given extents and records its requests: commands with registers read, memory not yet resolved.
// Used by core/submit to make plans; knows nothing of devices, buffers or drivers, so that it can be fuzzed separately.
//
// A program with control flow ends a piece at Submit and at ReadScalar: run() returns kSubmit or kNeedsScalar; the caller runs the recorded commands,
// reads the value that is asked for, and calls run() again. A piece that always has the same commands need not be recorded again.
#ifndef HEDDLE_CORE_SUBMIT_INTERPRETER_H_
#define HEDDLE_CORE_SUBMIT_INTERPRETER_H_

#include <heddle_module/module_generated.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/open/signature.h"
#include "core/status.h"

namespace heddle::submit {

constexpr uint64_t kToEnd = UINT64_MAX;  // a length: up to the end of the value

struct RecordedBinding {
  uint32_t value = 0;
  uint32_t access = 0;
  uint64_t offset = 0;
  uint64_t length = kToEnd;
};

enum class RecordedKind : uint32_t { kBarrier, kDispatch, kCopy, kFill };

struct RecordedCommand {
  RecordedKind kind = RecordedKind::kBarrier;
  uint32_t site = 0;        // index among the program's sites of that kind
  bool has_kernel = false;  // dispatches: a kernel accepts these extents; otherwise there is an operation
  uint32_t candidate = 0;   // that kernel's index among the site's candidates
  uint32_t entry = 0;       // its index in Executable.entries
  uint32_t grid[3] = {0, 0, 0};
  uint32_t first_binding = 0;  // copies: source, then target; fills: target
  uint32_t binding_count = 0;
  uint32_t first_constant = 0;
  uint32_t constant_count = 0;
  uint32_t instruction = 0;
};

struct Recording {
  std::vector<RecordedCommand> commands;
  std::vector<RecordedBinding> bindings;
  std::vector<int64_t> constants;
};

// Hostile loops end in RESOURCE_EXHAUSTED.
struct InterpreterLimits {
  uint64_t steps = uint64_t{1} << 26;
  uint64_t commands = uint64_t{1} << 22;  // and a quarter of the limit for bindings and for constants
};

// Properties of a slot's device; 0: unknown.
struct SlotDevice {
  std::array<uint32_t, 3> most_workgroups{};  // per dispatch, in x, y and z
  uint32_t compute_units = 0;
};

// Whether r[a] is the result of the instruction.
bool writes_register(module_format::Op op);
// Whether the program has more than one piece, whatever the extents are.
bool is_in_pieces(const module_format::Program& program);
// Whether it reads scalars while it runs, so that it has to be in pieces.
bool reads_scalars(const module_format::Program& program);

class Interpreter {
 public:
  enum class Outcome { kFinished, kNeedsScalar, kPaused, kSubmit };

  // argument_dims: the extents of each argument. Static and symbolic extents of results are filled in from symbols (-1: unknown). All references
  // are kept and must outlive the interpreter.
  Interpreter(const module_format::Program& program, const open::Signature& signature,
              const std::vector<std::vector<int64_t>>& argument_dims, std::span<const int64_t> symbols, InterpreterLimits limits = {});

  // Kept by reference. A kernel whose grid exceeds the device's limits is skipped like one whose guards do not hold.
  void describe_slots(std::span<const SlotDevice> slots) { slots_ = slots; }

  // run() stops before each of these instructions when it reaches it, in this order; kept by reference.
  void pause_before(std::span<const uint32_t> instructions) { pauses_ = instructions; }

  // The commands of instructions that are false here are not recorded; kept by reference. Empty: all are.
  void record_only(const std::vector<bool>& instructions) { recorded_ = &instructions; }

  // The recording, since the last call of this, is of no use any more: the commands of the next piece are recorded from its start.
  void begin_piece();
  // Instead: the next piece is recorded behind this one, after a barrier. Consecutive barriers are merged, and none is needed before the first command.
  void add_barrier();
  // The instruction of the first command of the piece that was recorded or skipped; kNoPiece: the piece has no command.
  static constexpr uint32_t kNoPiece = 0xFFFFFFFFu;
  uint32_t piece() const { return piece_; }
  // Whether the piece has these commands whenever it begins at that instruction, up to the one at which run() stopped, except that copies may move.
  bool is_steady() const;
  // Whether the copy is from or to another place of a value in another step of a loop.
  bool moves(const module_format::CopySite& site) const;
  // The piece is skipped from now on: run() records nothing, and was_skipped() is true. Only for a steady piece.
  void skip_piece();
  bool was_skipped() const { return was_skipped_; }
  // Whether the register keeps the value that it has before the first command.
  bool is_fixed(uint32_t register_index) const { return fixed_.empty() || fixed_[register_index]; }

  // What the range is with the registers as they are now. [any]
  Status binding(const module_format::BindingRef& ref, RecordedBinding* out) const;

  // Runs until the program returns, needs a scalar, ends a piece, or pauses. A failure's text is only the cause: callers add the context.
  Result<Outcome> run();
  // After kNeedsScalar: the int64 to read; pass its value before calling run() again.
  RecordedBinding scalar() const { return scalar_; }
  void answer(int64_t value) { registers_[scalar_register_] = value; }

  const Recording& recording() const { return recording_; }
  Recording take_recording() { return std::move(recording_); }
  int64_t register_value(uint32_t index) const { return registers_[index]; }
  // The extents per result; -1 where the program has not set one.
  const std::vector<std::vector<int64_t>>& result_dims() const { return result_dims_; }

 private:
  Status arithmetic(module_format::Op op, const module_format::Instruction& instruction);
  Status dispatch(uint32_t site);
  bool guards_hold(const module_format::Candidate& candidate);
  Status set_result_dim(uint32_t result, uint32_t dim, int64_t value);
  Status check_command_count() const;
  // Which registers no instruction writes after the first that is no computation. Of programs in pieces only.
  void find_fixed();
  // The length, and with it the size of the value; the offset may vary if the length does not depend on it.
  bool is_fixed(const module_format::BindingRef& ref) const;
  bool has_fixed_offset(const module_format::BindingRef& ref) const;
  bool is_steady(const module_format::DispatchSite& site) const;
  // "; they are 6 and 5" or "; 0 is below 1": the two values that a check compared, as far as its condition tells; else empty.
  std::string compared(uint32_t condition) const;
  // "; given are 'x' f32[2,3], 'y' f32[4,3]": the arguments whose extents vary.
  std::string given() const;

  const module_format::Program& program_;
  const open::Signature& signature_;
  const std::vector<std::vector<int64_t>>& argument_dims_;
  InterpreterLimits limits_;
  std::span<const SlotDevice> slots_;
  std::vector<int64_t> registers_;
  std::vector<std::vector<int64_t>> result_dims_;
  Recording recording_;
  RecordedBinding scalar_;
  uint32_t scalar_register_ = 0;
  uint64_t steps_ = 0;
  uint32_t next_ = 0;                    // index of the next instruction
  uint32_t piece_ = kNoPiece, end_ = 0;  // of the piece: its first command, and the instruction at which run() stopped
  bool was_skipped_ = false;
  std::vector<uint8_t> fixed_;        // per register; empty: the program is one piece
  std::vector<uint32_t> skipped_;     // per instruction: where the steady piece that begins here ends; 0: none is known. Empty: as fixed_
  std::span<const uint32_t> pauses_;  // the remaining pauses
  const std::vector<bool>* recorded_ = nullptr;
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_INTERPRETER_H_
