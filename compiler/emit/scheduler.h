// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How schedule() makes a program: the state that its parts share. Commands and memory are in schedule.cpp, symbols and checks in schedule_extents.cpp,
// dispatches and operations in schedule_dispatches.cpp, reads, branches and loops in schedule_control.cpp,
// memory of donated arguments in schedule_donations.cpp. Used only by these files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/emit/registers.h"
#include "compiler/emit/schedule.h"
#include "compiler/ir/control.h"
#include "compiler/ir/read.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallSet.h"

namespace heddle::emit {

namespace mf = module_format;

class Scheduler {
 public:
  Scheduler(mlir::func::FuncOp function, const ProgramTarget& target, Globals& globals, bool initializer)
      : function_(function), top_(function), places_(function), target_(target), globals_(globals), initializer_(initializer) {}
  mlir::FailureOr<std::unique_ptr<mf::ProgramT>> run();

 private:
  static constexpr uint32_t whole = 0xFFFFFFFF;  // BindingRef: from 0, or up to the end
  static constexpr uint32_t slice_alignment = 64;
  enum Access : uint32_t { read = 1, write = 2 };

  mlir::LogicalResult add_ops();
  // Where symbols get their values: a read, the beginning of a step of a loop, or the end of a loop.
  struct Read {
    mlir::Operation* op;
    llvm::SmallVector<unsigned> symbols;
  };
  // Adds the reads of a function and of its parts in the order of their commands; `parts` becomes the function and these.
  void find_reads(mlir::func::FuncOp function, llvm::SmallVectorImpl<mlir::func::FuncOp>& parts);
  mlir::LogicalResult bind_symbols();
  // What depends on the value relies on its range.
  void bind_read(unsigned symbol, unsigned read);
  // Checked early, since values that depend on the quotient are computed before other checks.
  void check_divisor(llvm::StringRef kind, mlir::AffineExpr dividend, mlir::AffineExpr divisor);
  mlir::LogicalResult verify_checks();
  // First: if they are not equal, errors that follow from it would mislead the caller.
  mlir::LogicalResult check_given_extents();
  // A computed extent is negative if, for example, a window does not fit into the input. Kernels rely on extents that are not negative, and two
  // negative ones give a size that looks valid, so the program refuses them before anything else. It also refuses a product of symbols above 64
  // bits, which is possible if inputs are empty, because it computes the product.
  void check_extents();
  // A part of a table whose length is symbolic must be inside the table.
  void check_inside(tx::SliceOp slice);

  // Results of regions that are parts of a concat outside of regions: where they start, and how long they are, in bytes.
  struct Part {
    mlir::Value concat;
    mlir::AffineExpr start, length;  // length: null if rows have a pitch; up to the end
  };
  // Regions store the parts of a concat outside of regions in its memory: as ranges of bytes or, with a pitch, as parts of its rows.
  mlir::LogicalResult find_parts();

  static int64_t element_bytes(mlir::RankedTensorType type) { return (type.getElementTypeBitWidth() + 7) / 8; }

  void check(mlir::AffineExpr value, std::string refusal, int64_t least = 0);
  void check_condition(uint32_t condition, std::string refusal);
  // A message has at most 65,535 bytes, and a model's names may be long. They are shortened between characters.
  static llvm::StringRef shortened(llvm::StringRef name);
  // "dimension 2 (in the compiler's order) of the result of 'node' has the extent s0 - 5", the mistake, and where the extents come from.
  std::string refusal(mlir::Operation* op, llvm::StringRef value, unsigned dim, mlir::AffineExpr extent, llvm::StringRef mistake);
  // "; s2 is floordiv(s0, s1), s0 is dimension 0 ('batch') of input 'x', s1 is dimension 1 ('sequence') of input 'x'"
  void name_symbols(llvm::raw_string_ostream& stream, llvm::ArrayRef<mlir::AffineExpr> extents);
  void result_dims();

  void command(mf::Op op, uint32_t a, uint32_t b = 0, uint32_t c = 0) { commands_.emplace_back(static_cast<uint16_t>(op), 0, a, b, c); }
  uint32_t add_value(mf::ValueKind kind, uint32_t index);
  // The value that a function result is written to: its own result, its state, the derived global of its name, or what a branch or a loop names.
  uint32_t result_value(unsigned index);

  // The results that take the memory of arguments.
  mlir::LogicalResult find_aliases();
  // Whether the ops that make the value may write it to the memory of the argument: all readers of the argument come before, or it overwrites the
  // argument element by element.
  static bool may_take_place(mlir::Value value, mlir::BlockArgument argument);
  // Whether the extents of a result of the function are known when its storage is written: if they are read later, another value has the bytes first.
  bool knows_extents(mlir::Value result, mlir::Value storage);
  // A barrier, if the value has the memory of an argument that was read since the last one.
  void wait_for_readers(uint32_t value);

  // A dispatch, an operation or a transfer writes a result of the function in place; a value from elsewhere, or requested twice, is copied.
  void assign_results(mlir::func::ReturnOp return_op);
  // Verdicts are written in place too; several checks of one value share one.
  void note_checks(mlir::ValueRange verdicts);
  mlir::LogicalResult copy_results(mlir::func::ReturnOp return_op);

  void add_copy(uint32_t source, uint32_t target);
  void add_copy(const mf::BindingRef& source, const mf::BindingRef& target);
  // The runtime knows the devices of both ends: a transfer within one device is an ordinary copy there.
  void add_transfer(tx::TransferOp transfer);
  // The initializer first fills the globals that the functions requested, and then those that it needs itself before they are read.
  void add_fills();

  // The program value that holds a tensor.
  uint32_t locate(mlir::Value storage);
  uint32_t state_of(mlir::BlockArgument argument);
  uint32_t add_transient(mlir::RankedTensorType type);
  uint32_t add_transient(uint32_t size_register);
  mlir::AffineExpr bytes_of(mlir::RankedTensorType type) const { return tx::element_count(type) * element_bytes(type); }
  // The program value of a constant or a parameter.
  uint32_t slot_of(mlir::Operation* leaf) const;
  void note_use(uint32_t value);
  // Emits a barrier if the value was written since the last one.
  void synchronize(uint32_t value);
  void add_barrier();

  // Bindings of an op that reads and writes tensors, after a barrier if one is needed.
  void bind(mf::DispatchSiteT& site, mlir::ValueRange inputs, mlir::ValueRange outputs);
  // The memory between the nodes of a kernel, as the last binding.
  void bind_workspace(const Kernel& kernel, mf::DispatchSiteT& site);
  // A concat without rows has no bytes, so its parts start at 0.
  uint32_t start_of(const Part& part);
  static void note_pitch(tx::DispatchOp dispatch, mf::DispatchSiteT& site);
  // A result is in the memory of the operand that it is tied to.
  mlir::LogicalResult take_places(tx::DispatchOp dispatch);
  // The index of the slot that the op names, or none.
  template <typename OpT>
  std::optional<uint32_t> slot_of_op(OpT op) {
    uint32_t slot = slot_index(target_, op.getSlot().value_or(""));
    if (target_[slot].name == op.getSlot()) return slot;
    op.emitError("is on no slot of the module");
    return std::nullopt;
  }

  mlir::LogicalResult add_operation(tx::CustomOp custom);
  // The id, the record and the operands of the op.
  void add_operation_of(mlir::Operation* op, llvm::StringRef domain, llvm::StringRef name, uint64_t version, mlir::DictionaryAttr record,
                        mf::DispatchSiteT& site);
  void add_operand(mlir::Value value, mf::DispatchSiteT& site);
  static std::unique_ptr<mf::OperationAttributeT> describe(mlir::NamedAttribute named);
  // The range that the last added binding covers.
  static void note_type(mlir::Value value, mf::DispatchSiteT& site);
  // Kernels rely on elements to read if they have results to compute: a call without such elements is refused, except for reductions.
  void check_empty_values(tx::DispatchOp dispatch, const targets::KernelPlan& plan);
  // What a kernel requires of a call.
  void check_limits(tx::DispatchOp dispatch, const targets::KernelPlan& plan);
  // A kernel for the calls that `when` is for; runs: whether it has workgroups.
  std::unique_ptr<mf::CandidateT> candidate_of(const Candidate& when, const Kernels& kernels, uint32_t kernel, bool runs, uint32_t slot);
  // Whether nothing is computed from the value if the extent is 0. `seen`: values that were visited already.
  static bool empties_all(mlir::Value value, mlir::AffineExpr extent, const targets::KernelPlan& plan, llvm::DenseSet<mlir::Value>& seen);
  mlir::LogicalResult add_dispatch(tx::DispatchOp dispatch);

  uint32_t new_register() { return program_->register_count++; }
  // The number that a device computed, in a register of its own.
  uint32_t read_number(mlir::Value number);
  // The elements that are extents from here on. What depends on them is computed directly after the last of these reads, in finish().
  mlir::LogicalResult add_read(tx::ReadOp read);
  // A jump whose target is set by land().
  size_t jump(mf::Op op, uint32_t condition = 0);
  void land(size_t at);
  // A function in place of a call of it, with its arguments and results in these values.
  mlir::LogicalResult add_nested(mlir::Operation* op, mlir::FlatSymbolRefAttr name, llvm::StringRef slot,
                                 llvm::ArrayRef<uint32_t> arguments, llvm::ArrayRef<uint32_t> results);
  llvm::SmallVector<uint32_t> locate_all(mlir::ValueRange values);
  // Each branch is a piece of its own, which is the same whenever it is taken.
  mlir::LogicalResult add_branch(tx::IfOp branch);

  // A slice of a value that a loop goes along: the value, the slice's own memory, and its range in the value.
  struct Slice {
    uint32_t whole, own, offset, bytes;
  };
  // The values of symbols from here on: registers that are moved to theirs.
  mlir::LogicalResult set_symbols(mlir::Operation* op, llvm::ArrayRef<std::pair<unsigned, uint32_t>> symbols);
  // A carried value whose extents vary: its memory, the register with its size, and the value that a step makes.
  struct Varying {
    size_t index;
    uint32_t value, size, next, next_size;
  };
  // Copies the first bytes of a value to another one.
  void copy_bytes(uint32_t source, uint32_t target, uint32_t bytes);
  // The memory of a loop does not grow with its steps: carried values stay where they are, and slices are copied from and to their place. Values whose
  // extents vary get new memory where they have grown.
  mlir::LogicalResult add_loop(tx::LoopOp loop);

  // The instructions in which a transient value that is used by these commands is live, counted from the first command, both inclusive.
  std::pair<uint32_t, uint32_t> lifetime(std::pair<uint32_t, uint32_t> use) const;
  // Transients of static size move to the memory of donated arguments that are no longer needed, instead of the arena.
  void reuse_donated_arguments();
  // Of a program whose commands name values only as ranges.
  void remove_transients(llvm::function_ref<bool(uint32_t value)> is_removed);
  // Inserts the code that depends on reads behind these.
  void insert_code_after_reads();
  // Prepends the register code, and turns uses into lifetimes in units of barriers.
  void finish();

  // Where the results of a function that is part of another one go.
  struct Nested {
    llvm::ArrayRef<uint32_t> results;
  };

  mlir::func::FuncOp function_, top_;  // the one whose ops are added; the one that the program is for
  const Nested* nested_ = nullptr;     // of function_; null for top_
  uint32_t first_check_ = 0;           // of function_, among the program's
  const Places places_;                // of top_
  const ProgramTarget& target_;
  Globals& globals_;
  bool initializer_;
  std::unique_ptr<mf::ProgramT> program_ = std::make_unique<mf::ProgramT>();
  Registers registers_{*program_};
  llvm::DenseMap<unsigned, std::pair<unsigned, unsigned>> sources_;  // argument and dimension of each symbol that is given
  llvm::DenseSet<mlir::AffineExpr> divisors_;                        // that have a check
  llvm::SmallSetVector<unsigned, 8> unread_;                         // symbols whose reads come later
  std::vector<Read> reads_;                                          // in program order
  std::vector<size_t> read_ends_;                                    // positions in commands_ behind the commands of each read
  std::vector<mf::Instruction> commands_;
  std::vector<uint32_t> barriers_;                    // positions in commands_
  std::vector<std::pair<uint32_t, uint32_t>> uses_;   // of each transient: first and last command
  llvm::DenseMap<uint32_t, uint32_t> argument_uses_;  // of arguments, by value: last command
  llvm::DenseMap<uint32_t, uint64_t> static_bytes_;   // of transients whose size is static
  llvm::DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> values_;
  llvm::DenseMap<mlir::Value, uint32_t> location_;
  llvm::DenseMap<mlir::Value, Part> parts_;
  llvm::DenseSet<mlir::AffineExpr> checked_;
  llvm::DenseMap<mlir::Value, uint32_t> verdicts_;  // of the values of checks
  llvm::DenseMap<unsigned, mlir::BlockArgument> alias_of_result_;
  uint32_t operations_ = 0;
  llvm::SmallSet<uint32_t, 16> written_, read_;  // values since the last barrier; those that are only read
};

}  // namespace heddle::emit
