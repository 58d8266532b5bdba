// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The metadata of any module: what the verifier lets pass is routed, interpreted and planned, and every command of the plan must lie inside
// the memory that a driver would be given. The driver is one that executes nothing: its kernels and buffers are only addresses.
// The first byte of the input chooses extents and answers; the rest is the metadata.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "core/route/route.h"
#include "core/submit/instance.h"
#include "core/submit/interpreter.h"
#include "core/submit/operations.h"
#include "core/submit/plan.h"
#include "sdk/module/element_types.h"
#include "sdk/module/verifier.h"

namespace {

using namespace heddle;
using namespace heddle::submit;
namespace mf = heddle::module_format;

constexpr InterpreterLimits kLimits{1 << 16, 1 << 12};
constexpr int kMaxPieces = 8;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "program_fuzz: %s\n", what);
  std::abort();
}

void require_text(const Status& status) {
  require(!status.message().empty(), "an error has no text");
}

// Two devices, slots on them in turn; globals of their size, entries that are only addresses.
struct Nothing {
  explicit Nothing(const mf::Module& module) {
    machine.device_names = {"a", "b"};
    for (uint32_t i = 0; i < module.slots()->size(); ++i) machine.device_of_slot.push_back(i % 2);
    place_globals(module, machine);
    for (uint32_t i = 0; i < module.globals()->size(); ++i) {
      if (!machine.globals[i].is_state) machine.globals[i].memory = {buffer(), 64, module.globals()->Get(i)->size_bytes()};
    }
    for (const mf::Executable* executable : *module.executables()) {
      std::vector<heddle_entry_t*> entries(executable->entries()->size(), reinterpret_cast<heddle_entry_t*>(uintptr_t{16}));
      machine.entries.push_back({entries, entries});
    }
    machine.min_alignment_of_device.assign(machine.device_names.size(), 256);
    machine.slots.assign(machine.device_of_slot.size(), {{0, 0, 1 << 16}, 4});
  }
  static heddle_buffer_t* buffer() { return reinterpret_cast<heddle_buffer_t*>(uintptr_t{32}); }
  Machine machine;
};

struct Limits {
  const Plan& plan;
  const std::vector<uint64_t>& arguments;
  const std::vector<uint64_t>& arenas;  // of all pieces so far
  const std::vector<uint64_t>& states;

  void check(Source source, uint32_t index, uint64_t offset, uint64_t length) const {
    uint64_t size = 0;
    switch (source) {
      case Source::kArgument:
        size = arguments.at(index);
        break;
      case Source::kResult:
        require(plan.result_known.at(index), "a result without a size is used");
        size = plan.results.at(index).size_bytes;
        break;
      case Source::kState:
        size = states.at(index);
        break;
      case Source::kArena:
        size = arenas.at(index);
        break;
      case Source::kVerdict:
        require(std::any_of(plan.verdicts.begin(), plan.verdicts.end(), [&](const VerdictNeed& need) { return need.device == index; }),
                "a verdict on a device without any");
        size = plan.program->checks()->all()->size() * 256;  // their alignment
        break;
      case Source::kFixed:
        return;  // checked against the global below
    }
    require(offset <= size && length <= size - offset, "a range is outside its memory");
  }
};

void check_plan(const Plan& plan, const Machine& machine, const std::vector<uint64_t>& arguments, const std::vector<uint64_t>& arenas) {
  std::vector<uint64_t> states;
  for (const GlobalMemory& global : machine.globals) {
    if (global.is_state) states.push_back(global.memory.length);
  }
  Limits limits{plan, arguments, arenas, states};
  uint64_t largest_global = 0;
  for (const GlobalMemory& global : machine.globals) largest_global = std::max(largest_global, global.memory.length);
  for (const Patch& patch : plan.patches) {
    uint64_t length = 0;
    const heddle_command_t* command = patch.field == Field::kBinding ? nullptr : &plan.commands.at(patch.at);
    switch (patch.field) {
      case Field::kBinding:
        length = plan.bindings.at(patch.at).length;
        break;
      case Field::kCopySource:
      case Field::kCopyTarget:
        length = command->as.copy.length;
        break;
      case Field::kFillTarget:
        length = command->as.fill.length;
        break;
    }
    limits.check(patch.source, patch.index, patch.offset, length);
  }
  for (const heddle_binding_t& binding : plan.bindings) {
    if (binding.buffer) require(binding.length <= largest_global, "a binding is longer than every global");
  }
  uint32_t next = 0;
  for (const Segment& segment : plan.segments) {
    if (segment.crossing) {
      require(segment.from.device != segment.to.device && segment.from.length == segment.to.length, "a copy between devices");
      limits.check(segment.from.source, segment.from.index, segment.from.offset, segment.from.length);
      limits.check(segment.to.source, segment.to.index, segment.to.offset, segment.to.length);
      continue;
    }
    require(segment.first == next, "segments leave commands out");
    next += segment.count;
  }
  require(next == plan.commands.size() && plan.first_binding.size() == plan.commands.size(), "segments end early");
  for (size_t i = 0; i < plan.commands.size(); ++i) {
    if (plan.commands[i].kind != HEDDLE_COMMAND_DISPATCH) continue;
    const heddle_dispatch_command_t& dispatch = plan.commands[i].as.dispatch;
    require(plan.first_binding[i] + uint64_t{dispatch.binding_count} <= plan.bindings.size(), "bindings of a dispatch");
    const auto* constants = static_cast<const int64_t*>(dispatch.constants);
    require(!constants || (constants >= plan.constants.data() &&
                           constants + dispatch.constants_bytes / 8 <= plan.constants.data() + plan.constants.size()),
            "constants of a dispatch");
  }
}

// Takes the kernels, or prepares the operation, as the number says: operands are as long as their extents say, and some have a workspace.
class Any final : public Choices {
 public:
  Any(const Machine& machine, uint8_t choice) : machine_(machine), choice_(choice) {}

  Result<Choice> choose(const mf::DispatchSite& site, bool kernel_fits, std::span<const int64_t> dims) override {
    if (kernel_fits && (!site.operation() || choice_ % 2 == 0)) {
      return Choice{&machine_.entries[site.executable()][machine_.device_of_slot[site.slot()]], nullptr};
    }
    require(site.operation() != nullptr, "a region that nothing runs");
    const mf::Operation& wanted = *site.operation();
    auto made = std::make_shared<Operation>();
    made->entry = reinterpret_cast<heddle_entry_t*>(this);
    made->shards = wanted.version();
    made->workspace_bytes = wanted.version() % 3 * 1000;
    made->workspace_alignment = 256;
    size_t at = 0;
    for (const mf::BindingType* type : *wanted.operands()) {
      require(at + type->rank() <= dims.size(), "an operand's extents are not there");
      std::optional<uint64_t> bytes = module::tensor_bytes(HEDDLE_TYPE_BITS(type->element_type()), dims.subspan(at, type->rank()));
      if (!bytes) return error(HEDDLE_STATUS_INVALID_ARGUMENT, "an operand that is no tensor");
      made->operand_bytes.push_back(*bytes);
      at += type->rank();
    }
    require(at == dims.size(), "extents of no operand");
    return Choice{nullptr, std::move(made)};
  }

 private:
  const Machine& machine_;
  uint8_t choice_;
};

// A steady piece has the commands that it had before, except for the places of copies.
void check_same(const mf::Program& program, const Interpreter& interpreter, const Recording& before) {
  const Recording& now = interpreter.recording();
  require(now.commands.size() == before.commands.size() && now.constants == before.constants, "a steady piece changed");
  for (size_t i = 0; i < now.commands.size(); ++i) {
    const RecordedCommand &a = before.commands[i], &b = now.commands[i];
    require(a.kind == b.kind && a.site == b.site && a.has_kernel == b.has_kernel && a.candidate == b.candidate && a.entry == b.entry,
            "a command of a steady piece changed");
    require(std::equal(a.grid, a.grid + 3, b.grid) && a.binding_count == b.binding_count, "a dispatch of a steady piece changed");
    const bool moves = a.kind == RecordedKind::kCopy && interpreter.moves(*program.copies()->Get(a.site));
    for (uint32_t j = 0; j < a.binding_count; ++j) {
      const RecordedBinding &from = before.bindings[a.first_binding + j], &to = now.bindings[b.first_binding + j];
      require(from.value == to.value && from.access == to.access && from.length == to.length && (moves || from.offset == to.offset),
              "a range of a steady piece changed");
    }
  }
}

void run_program(const mf::Program& program, const open::Signature& signature, const Machine& machine, uint8_t choice) {
  std::vector<int64_t> symbols;
  for (const open::SymbolRange& symbol : signature.symbols) {
    int64_t extent = choice & 1 ? symbol.min : std::min<int64_t>(symbol.max, choice);
    symbols.push_back(std::max<int64_t>(extent, 0));
  }
  std::vector<std::vector<int64_t>> dims;
  std::vector<uint64_t> bytes;
  for (const open::TensorSignature& type : signature.arguments) {
    std::vector<int64_t> extents;
    for (const open::Extent& extent : type.extents) {
      extents.push_back(extent.symbol >= 0 ? symbols[static_cast<size_t>(extent.symbol)] : std::max<int64_t>(extent.value, 0));
    }
    std::optional<uint64_t> size = module::tensor_bytes(HEDDLE_TYPE_BITS(type.element_type), extents);
    if (!size) return;  // such a tensor cannot be made
    bytes.push_back(*size);
    dims.push_back(std::move(extents));
  }
  Interpreter interpreter(program, signature, dims, symbols, kLimits);
  interpreter.describe_slots(machine.slots);
  Resolver resolver(program, signature, machine, dims);
  if (choice & 2) resolver.place_all();
  std::vector<uint64_t> arenas;
  std::map<uint32_t, Recording> steady;  // by their first commands
  for (int piece = 0; piece <= kMaxPieces; ++piece) {
    interpreter.begin_piece();
    Result<Interpreter::Outcome> outcome = interpreter.run();
    if (!outcome.ok()) return require_text(outcome.status());
    if (interpreter.is_steady()) {
      const auto [first, is_new] = steady.try_emplace(interpreter.piece(), interpreter.recording());
      if (!is_new) check_same(program, interpreter, first->second);
    }
    Result<memory::Ref<Plan>> plan = resolver.resolve(interpreter, 0);
    if (!plan.ok()) return require_text(plan.status());
    for (const ArenaNeed& arena : (*plan)->arenas) arenas.push_back(arena.size_bytes);
    check_plan(**plan, machine, bytes, arenas);
    if (*outcome == Interpreter::Outcome::kFinished) return;
    if (*outcome == Interpreter::Outcome::kSubmit) continue;
    Result<Place> place = resolver.place(interpreter, interpreter.scalar());
    if (!place.ok()) return require_text(place.status());
    interpreter.answer(static_cast<int64_t>(choice) * piece - 3);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  uint8_t choice = data[0];
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  void* raw = nullptr;
  require(posix_memalign(&raw, 64, size) == 0, "no memory");
  std::unique_ptr<void, Free> copy(raw);
  std::memcpy(raw, data + 1, size - 1);
  if (module::verify_metadata({static_cast<const std::byte*>(raw), size - 1}, {4096, 65536, 65536})) return 0;
  const mf::Module& module = *mf::GetModule(raw);

  Nothing nothing(module);
  Any any(nothing.machine, choice);
  nothing.machine.choices = &any;
  std::vector<route::DeviceFacts> facts;
  for (const std::string& family : route::families_of(module)) {
    if (facts.size() < 4) facts.push_back({"device" + std::to_string(facts.size()), "driver", family});
  }
  route::SlotPreference preference{{}, "devices in order", {}};
  for (uint32_t i = 0; i < facts.size(); ++i) preference.devices.push_back(i);
  auto rank = [&](uint32_t device, std::string_view, std::string_view target) -> Result<uint32_t> {
    return static_cast<uint32_t>((device + target.size() + choice) % 3);
  };
  Result<route::Route> route = route::choose(module, facts, std::vector<route::SlotPreference>(module.slots()->size(), preference), rank);
  if (!route.ok()) require_text(route.status());

  for (const mf::Function* function : *module.functions()) {
    Result<open::Signature> signature = open::make_signature(*function);
    if (!signature.ok()) {
      require_text(signature.status());
      continue;
    }
    for (const mf::Program* program : *function->programs()) run_program(*program, *signature, nothing.machine, choice);
  }
  const open::Signature initializer{"initializer", {}, {}, {}};
  for (const mf::Program* program : *module.initializer()) run_program(*program, initializer, nothing.machine, choice);
  return 0;
}
