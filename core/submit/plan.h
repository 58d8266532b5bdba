// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plan: the submissions of one call of a function, for one tuple of extents, with everything resolved that does not change between calls.
// Made from a recording of the interpreter, cached by Function, run through Frame. Uses drivers' tables only as data.
//
// Glossary
//   arena    one block per device that holds the call's intermediate values
//   patch    a location in the command list that names an argument, a result, the state, the arena or a verdict: filled in per frame or per call
//   segment  consecutive commands for one device, or one copy between two devices
#ifndef HEDDLE_CORE_SUBMIT_PLAN_H_
#define HEDDLE_CORE_SUBMIT_PLAN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/memory/ref.h"
#include "core/submit/arena.h"
#include "core/submit/interpreter.h"
#include "core/submit/shared.h"
#include "heddle/allocator.h"
#include "heddle/driver.h"

namespace heddle::memory {
class Weight;
}

namespace heddle::submit {

// Where a value is, before its block is known.
enum class Source : uint32_t { kFixed, kArgument, kResult, kState, kArena, kVerdict };

struct Place {
  Source source = Source::kFixed;
  uint32_t index = 0;                 // index of the argument, result, block of the state or arena; for verdicts, of the device
  heddle_buffer_t* buffer = nullptr;  // kFixed
  uint64_t offset = 0;                // from the start of the source's block, or of the buffer
  uint64_t length = 0;
  uint32_t device = 0;
};

enum class Field : uint32_t { kBinding, kCopySource, kCopyTarget, kFillTarget };

struct Patch {
  Source source;
  Field field;
  uint32_t index;  // same as in Place
  uint32_t at;     // index of a binding or command
  uint64_t offset;
};

struct Segment {
  uint32_t device = 0;
  uint32_t first = 0, count = 0;  // range of commands
  bool crossing = false;          // true: a copy from `from` to `to`, between two devices
  Place from, to;
};

struct ArenaNeed {
  uint32_t device = 0;
  uint64_t size_bytes = 0;
  uint64_t alignment_bytes = 64;
};

// A check of the program whose verdict is written: an int64 in the frame's memory for verdicts on a device.
struct VerdictNeed {
  uint32_t device = 0;
  uint32_t check = 0;   // index of the check in the program
  uint64_t offset = 0;  // offset of the verdict
  int64_t limit = 0;
};

struct ResultNeed {
  std::vector<int64_t> dims;
  uint64_t size_bytes = 0;
  uint32_t device = 0;
};

// The context for resolving programs: the instance's devices, globals and loaded code. Borrowed, immutable while plans exist.
struct GlobalMemory {
  heddle_binding_t memory{};  // of a state only its length: each State has memory of its own
  uint32_t device = 0;
  bool is_state = false;
  uint32_t state_index = 0;  // among the globals of the kind State
};
// The values of all globals but states, one entry per global. Immutable once they are loaded; a refit makes others. Plans name the memory and keep it.
class Globals final : public memory::Counted {
 public:
  std::vector<GlobalMemory> places;
  std::vector<std::shared_ptr<memory::Weight>> weights;  // parameters are shared with other instances; NULL: nothing is kept
  Shared<Shareable> derived;  // the object with constants and derived values, unless they are of this instance alone
};
struct Operation;
class Profile;
class Inspection;
struct Link;

// What runs a region: kernels, or an operation.
struct Choice {
  const std::vector<heddle_entry_t*>* kernels = nullptr;  // of the executable, indexed by Candidate.entry; NULL: the operation runs it
  std::shared_ptr<const Operation> operation;
};
class Choices {
 public:
  // Chooses for a call in which a kernel of the region accepts the extents, or none does. dims: of the operation's operands, concatenated; empty if
  // there is no operation. A failure's text is only the cause. [any] [may-block]
  virtual Result<Choice> choose(const module_format::DispatchSite& site, bool kernel_fits, std::span<const int64_t> dims) = 0;

 protected:
  ~Choices() = default;
};
// The extents of the operation's operands that a command recorded, after the constants of the kernel.
std::span<const int64_t> operation_dims(const module_format::DispatchSite& site, const Recording& recording,
                                        const RecordedCommand& command);

struct Machine {
  std::vector<std::string> device_names;
  std::vector<uint64_t> min_alignment_of_device;
  std::vector<SlotDevice> slots;
  std::vector<uint32_t> device_of_slot;
  Profile* profile = nullptr;         // sums up the times of commands; NULL: no profile
  Inspection* inspection = nullptr;   // inspects the values of regions; NULL: no inspection
  Choices* choices = nullptr;         // chooses what runs regions
  std::span<const Link> links;        // see links.h; empty for one device
  std::vector<GlobalMemory> globals;  // of an instance without the memory, which is in Globals
  // [executable][device] -> entries; empty if not loaded, null for entries that no chosen program dispatches.
  std::vector<std::vector<std::vector<heddle_entry_t*>>> entries;
};

class Plan final : public memory::Counted {
 public:
  // Members that every call uses come first.
  std::vector<int64_t> key;
  std::vector<Segment> segments;
  std::vector<ResultNeed> results;
  std::vector<Patch> patches;  // first those to frames' own memory, then those to arguments, results and the state
  uint32_t frame_patch_count = 0;
  bool inspected = false;  // its commands are enqueued one by one and inspected
  // Has no commands: the program has loops, and its calls with these extents run in pieces; always, or until they recur.
  enum class InPieces : uint8_t { kNo, kOnce, kAlways } in_pieces = InPieces::kNo;
  Profile* profile = nullptr;  // belongs to the instance, like program
  const module_format::Program* program = nullptr;
  std::vector<heddle_command_t> commands;  // frames fill in .dispatch.bindings
  std::vector<uint32_t> first_binding;     // per command, for dispatches
  std::vector<uint32_t> candidates;        // per command, for profiles: index of its kernel among the site's candidates
  std::vector<heddle_binding_t> bindings;
  std::vector<int64_t> constants;  // commands point into it
  std::vector<ArenaNeed> arenas;
  std::vector<VerdictNeed> verdicts;  // verdicts that the commands write
  std::vector<uint32_t> moving;       // copies with other places in other steps of a loop: the command and the site of each
  bool moves_between_devices = false;
  std::vector<std::shared_ptr<const Operation>> operations;  // operations that commands name
  std::vector<bool> result_known;                            // false: a later piece of the program sets its extents
  const open::Signature* signature = nullptr;                // belongs to the module
  uint32_t submission_count = 0, dispatch_count = 0, copy_count = 0, crossing_count = 0;
  uint64_t copied_bytes = 0;
  memory::Ref<Globals> globals;  // the memory that commands name

  // Whether the plan is a single submission on one device.
  bool single() const { return segments.size() == 1 && !segments[0].crossing && !inspected; }
  uint64_t arena_bytes() const;
};

// Resolves the recordings of one run of a program. A static program is resolved once; one that reads scalars, piece by piece, where the arenas of
// earlier pieces stay.
class Resolver {
 public:
  // globals: empty for the machine's. packings: shared with the function's other calls, one per device; NULL: not shared.
  Resolver(const module_format::Program& program, const open::Signature& signature, const Machine& machine,
           const std::vector<std::vector<int64_t>>& argument_dims, memory::Ref<Globals> globals = {},
           std::vector<Packings>* packings = nullptr);

  // The memory need of the commands from first_command on: arenas, results and operations of the plan, but no commands.
  Status plan_memory(const Interpreter& interpreter, size_t first_command, Plan& plan);
  // The commands from first_command on as a plan. Arena indices continue those of earlier pieces; plan.arenas holds only the new ones.
  // A failure's text is only the cause.
  Result<memory::Ref<Plan>> resolve(const Interpreter& interpreter, size_t first_command);
  // The next plan also places all transients of a fixed size, so that later pieces need no arenas for them. With one device only: otherwise the
  // device of a transient is known when a command names it.
  void place_all() { places_all_ = machine_.device_names.size() == 1; }
  // Plans the memory of all commands of a program without scalars that is then resolved in pieces: the first plan has the arenas of all of them, in
  // which values of different pieces share bytes. whole: the program, recorded at once.
  Status plan_ahead(const Interpreter& whole);
  // Whether every transient has a place.
  bool all_placed() const;
  // The place of a range of a value that a plan names.
  Result<Place> place_of(const RecordedBinding& binding) const;
  // The place of a value that the program reads; only values that earlier pieces named have a place.
  Result<Place> place(const Interpreter& interpreter, const RecordedBinding& binding);

 private:
  struct TransientPlace {
    bool placed = false;
    bool device_known = false;
    uint32_t device = 0;
    uint32_t arena = 0;
    uint64_t offset = 0;
    uint64_t size = 0;
    uint64_t capacity = 0;  // at least `size`
  };
  // What runs a dispatch among the commands that are being resolved, and where an operation's workspace is.
  struct Runner {
    Choice choice;
    Place workspace;
  };
  Status choose_runners(const Recording& recording, size_t first_command, Plan& plan);
  Status size_results(const Interpreter& interpreter, bool all);
  Status place_transients(const Interpreter& interpreter, size_t first_command, Plan& plan);
  Status find_devices(const Recording& recording, size_t first_command, std::vector<bool>& used);
  // Adds the bindings of a command; each must be on the device.
  Status add_bindings(const Recording& recording, const RecordedCommand& command, uint32_t device, Plan& plan);
  Status add_operation(const Recording& recording, const RecordedCommand& command, const Runner& runner, Plan& plan);
  Status add_kernel(const Recording& recording, const RecordedCommand& command, const Runner& runner, Plan& plan);
  Status add_copy(const Recording& recording, const RecordedCommand& command, Plan& plan);
  Status add_fill(const Recording& recording, const RecordedCommand& command, Plan& plan);
  void open_segment(Plan& plan, uint32_t device);
  // Distance between verdicts: bindings begin at aligned offsets.
  uint64_t verdict_stride(uint32_t device) const { return std::max<uint64_t>(machine_.min_alignment_of_device[device], 64); }
  // Adds the verdicts of the checks that the commands from first_command on write.
  void add_verdicts(const Interpreter& interpreter, size_t first_command, Plan& plan) const;
  std::string region(const RecordedCommand& command) const;

  const module_format::Program& program_;
  const open::Signature& signature_;
  const Machine& machine_;
  const memory::Ref<Globals> globals_;
  const std::vector<GlobalMemory>& places_;  // of globals
  std::vector<Packings>* packings_;
  std::vector<uint64_t> argument_bytes_;
  std::vector<ResultNeed> results_;
  std::vector<bool> result_known_;
  std::vector<TransientPlace> transients_;
  std::vector<uint32_t> next_barrier_;       // per instruction: the first barrier at or after it
  std::vector<uint32_t> last_with_barrier_;  // per transient: its last instruction, extended to the next barrier
  std::vector<Runner> runners_;              // one per dispatch, in the order of the commands
  size_t next_runner_ = 0;                   // of the next dispatch that is resolved
  memory::Ref<Plan> ahead_;                  // what plan_ahead() found, until the first plan takes it
  bool is_planned_ahead_ = false;
  uint32_t arena_count_ = 0;
  bool places_all_ = false;
  bool barrier_pending_ = false;  // a barrier is needed before the next command of the segment; between segments the core waits anyway
  Status failure_;                // failure of the constructor
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_PLAN_H_
