// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns a recording into a plan: sizes, devices, the arena, bounds of every range, and the command list with its patches.
// Called by Function for every new tuple of extents; not on the path of a repeated call.
#include "core/submit/plan.h"

#include <algorithm>

#include "core/submit/operations.h"
#include "core/submit/profile.h"
#include "sdk/module/element_types.h"

namespace heddle::submit {

namespace {

namespace mf = module_format;

// Drivers detect overlaps of open-ended ranges; this only checks that a range is inside its value.
Status check_range(const RecordedBinding& binding, uint64_t size, uint64_t* out_length) {
  if (binding.offset > size || (binding.length != kToEnd && binding.length > size - binding.offset)) {
    return error(HEDDLE_STATUS_OUT_OF_RANGE, "bytes [{}, {}) of value {} are requested, which has {}", binding.offset,
                 binding.length == kToEnd ? std::string("end") : fmt::format("{}+{}", binding.offset, binding.length), binding.value, size);
  }
  *out_length = binding.length == kToEnd ? size - binding.offset : binding.length;
  return Status();
}

}  // namespace

uint64_t Plan::arena_bytes() const {
  uint64_t bytes = 0;
  for (const ArenaNeed& arena : arenas) bytes += arena.size_bytes;
  return bytes;
}

Resolver::Resolver(const mf::Program& program, const open::Signature& signature, const Machine& machine,
                   const std::vector<std::vector<int64_t>>& argument_dims, memory::Ref<Globals> globals, std::vector<Packings>* packings)
    : program_(program),
      signature_(signature),
      machine_(machine),
      globals_(std::move(globals)),
      places_(globals_ ? globals_->places : machine.globals),
      packings_(packings) {
  for (size_t i = 0; i < signature.arguments.size(); ++i) {
    std::optional<uint64_t> bytes = module::tensor_bytes(HEDDLE_TYPE_BITS(signature.arguments[i].element_type), argument_dims[i]);
    if (!bytes) {
      failure_ = error(HEDDLE_STATUS_INVALID_ARGUMENT, "input '{}' has more bytes than 63 bits can count", signature.arguments[i].name);
      return;
    }
    argument_bytes_.push_back(*bytes);
  }
  results_.resize(signature.results.size());
  result_known_.resize(signature.results.size(), false);
  transients_.resize(program.transients()->size());
  // A copy may name a transient before a dispatch of a later piece does.
  for (uint32_t i = 0; i < program.dispatches()->size() && machine.device_names.size() > 1; ++i) {
    const mf::DispatchSite* site = program.dispatches()->Get(i);
    for (const mf::BindingRef* ref : *site->bindings()) {
      const mf::Value* value = program.values()->Get(ref->value());
      if (value->kind() != mf::ValueKind::Transient || transients_[value->index()].device_known) continue;
      transients_[value->index()].device = machine.device_of_slot[site->slot()];
      transients_[value->index()].device_known = true;
    }
  }

  // The compiler guarantees that values with disjoint lifetimes may share bytes. Commands between two barriers may overlap in time in any order, so
  // a lifetime ends at the barrier after its last use.
  const auto* code = program.code();
  next_barrier_.assign(code->size() + 1, code->size());
  for (uint32_t i = code->size(); i-- > 0;) {
    next_barrier_[i] = static_cast<mf::Op>(code->Get(i)->op()) == mf::Op::Barrier ? i : next_barrier_[i + 1];
  }
  for (const mf::Transient* transient : *program.transients()) {
    last_with_barrier_.push_back(next_barrier_[std::min(transient->last(), code->size())]);
  }
}

Status Resolver::size_results(const Interpreter& interpreter, bool all) {
  for (size_t i = 0; i < results_.size(); ++i) {
    const std::vector<int64_t>& dims = interpreter.result_dims()[i];
    bool known = std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim >= 0; });
    if (!known && !all) continue;
    std::optional<uint64_t> bytes = module::tensor_bytes(HEDDLE_TYPE_BITS(signature_.results[i].element_type), dims);
    if (!bytes) {
      return error(HEDDLE_STATUS_INVALID_ARGUMENT, "result '{}' would be {}, more bytes than 63 bits can count", signature_.results[i].name,
                   module::shape_text(signature_.results[i].element_type, dims));
    }
    results_[i] = {dims, *bytes, machine_.device_of_slot[signature_.results[i].slot]};
    result_known_[i] = true;
  }
  return Status();
}

// Transients have no slot: they are on the device of the dispatches that name them, or of the other side of their copies.
Status Resolver::find_devices(const Recording& recording, size_t first_command, std::vector<bool>& used) {
  auto transient_of = [&](const RecordedBinding& binding) -> int64_t {
    const mf::Value* value = program_.values()->Get(binding.value);
    return value->kind() == mf::ValueKind::Transient ? static_cast<int64_t>(value->index()) : -1;
  };
  auto device_of = [&](const RecordedBinding& binding) -> int64_t {
    const mf::Value* value = program_.values()->Get(binding.value);
    switch (value->kind()) {
      case mf::ValueKind::Argument:
        return machine_.device_of_slot[signature_.arguments[value->index()].slot];
      case mf::ValueKind::Result:
        return machine_.device_of_slot[signature_.results[value->index()].slot];
      case mf::ValueKind::Global:
        return machine_.globals[value->index()].device;
      case mf::ValueKind::Verdict:
        return machine_.device_of_slot[program_.checks()->all()->Get(value->index())->slot()];
      default:
        return transients_[value->index()].device_known ? static_cast<int64_t>(transients_[value->index()].device) : -1;
    }
  };
  for (size_t i = first_command; i < recording.commands.size(); ++i) {
    const RecordedCommand& command = recording.commands[i];
    for (uint32_t j = 0; j < command.binding_count; ++j) {
      int64_t transient = transient_of(recording.bindings[command.first_binding + j]);
      if (transient < 0) continue;
      used[static_cast<size_t>(transient)] = true;
      if (command.kind != RecordedKind::kDispatch) continue;
      TransientPlace& place = transients_[static_cast<size_t>(transient)];
      if (place.device_known) continue;  // a conflicting device is detected when the dispatch is added
      place.device = machine_.device_of_slot[program_.dispatches()->Get(command.site)->slot()];
      place.device_known = true;
    }
  }
  if (machine_.device_names.size() == 1) return Status();
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = first_command; i < recording.commands.size(); ++i) {
      const RecordedCommand& command = recording.commands[i];
      if (command.kind != RecordedKind::kCopy) continue;
      for (uint32_t j = 0; j < 2; ++j) {
        int64_t transient = transient_of(recording.bindings[command.first_binding + j]);
        int64_t other = device_of(recording.bindings[command.first_binding + 1 - j]);
        if (transient < 0 || other < 0 || transients_[static_cast<size_t>(transient)].device_known) continue;
        transients_[static_cast<size_t>(transient)].device = static_cast<uint32_t>(other);
        transients_[static_cast<size_t>(transient)].device_known = true;
        changed = true;
      }
    }
  }
  return Status();
}

std::span<const int64_t> operation_dims(const mf::DispatchSite& site, const Recording& recording, const RecordedCommand& command) {
  size_t count = 0;
  if (site.operation()) {
    for (const mf::BindingType* type : *site.operation()->operands()) count += type->rank();
  }
  return {recording.constants.data() + command.first_constant + command.constant_count - count, count};
}

Status Resolver::choose_runners(const Recording& recording, size_t first_command, Plan& plan) {
  runners_.clear();
  next_runner_ = 0;
  for (size_t i = first_command; i < recording.commands.size(); ++i) {
    const RecordedCommand& command = recording.commands[i];
    if (command.kind != RecordedKind::kDispatch) continue;
    const mf::DispatchSite* site = program_.dispatches()->Get(command.site);
    Result<Choice> choice = machine_.choices->choose(*site, command.has_kernel, operation_dims(*site, recording, command));
    if (!choice.ok()) return wrap(choice.take_status(), region(command));
    if (choice->operation) plan.operations.push_back(choice->operation);
    runners_.push_back({std::move(*choice), {}});
  }
  return Status();
}

Status Resolver::place_transients(const Interpreter& interpreter, size_t first_command, Plan& plan) {
  std::vector<bool> used(transients_.size(), false);
  HEDDLE_RETURN_IF_ERROR(find_devices(interpreter.recording(), first_command, used));
  for (uint32_t i = 0; i < transients_.size() && places_all_; ++i) {
    const uint32_t size = program_.transients()->Get(i)->size_register();
    // A negative size is refused where a command uses the value: the program may not get there.
    if (interpreter.is_fixed(size) && interpreter.register_value(size) >= 0) used[i] = true;
  }
  places_all_ = false;
  for (uint32_t device = 0; device < machine_.device_names.size(); ++device) {
    std::vector<Slice> slices;
    std::vector<uint32_t> owners;
    const uint64_t least = std::max<uint64_t>(machine_.min_alignment_of_device[device], 64);
    uint64_t alignment = least;
    for (uint32_t i = 0; i < transients_.size(); ++i) {
      TransientPlace& place = transients_[i];
      if (!used[i] || place.device != device) continue;
      const mf::Transient* transient = program_.transients()->Get(i);
      int64_t size = interpreter.register_value(transient->size_register());
      if (size < 0) return error(HEDDLE_STATUS_OUT_OF_RANGE, "intermediate value {} would have {} bytes", i, size);
      // A value of an earlier piece keeps its place; one that has grown since gets a new place.
      place.size = static_cast<uint64_t>(size);
      if (place.placed && place.size <= place.capacity) continue;
      Slice slice;
      slice.size_bytes = static_cast<uint64_t>(size);
      // With a reserve, so that a value that grows in each step of a loop gets few places, which together have at most 4.5 times its bytes.
      if (place.placed) slice.size_bytes = std::max(slice.size_bytes, place.capacity + place.capacity / 2);
      slice.alignment_bytes = std::max<uint64_t>(transient->alignment(), least);
      slice.first = transient->first();
      slice.last = last_with_barrier_[i];
      alignment = std::max(alignment, slice.alignment_bytes);
      slices.push_back(slice);
      owners.push_back(i);
    }
    // A workspace is live from its command to the next barrier.
    std::vector<Runner*> workspaces;
    auto next = runners_.begin();
    for (size_t i = first_command; i < interpreter.recording().commands.size(); ++i) {
      const RecordedCommand& command = interpreter.recording().commands[i];
      if (command.kind != RecordedKind::kDispatch) continue;
      Runner& runner = *next++;
      const Operation* operation = runner.choice.operation.get();
      const mf::DispatchSite* site = program_.dispatches()->Get(command.site);
      if (!operation || operation->workspace_bytes == 0 || machine_.device_of_slot[site->slot()] != device) continue;
      Slice slice;
      slice.size_bytes = operation->workspace_bytes;
      slice.alignment_bytes = std::max<uint64_t>(operation->workspace_alignment, least);
      slice.first = command.instruction;
      slice.last = next_barrier_[command.instruction];
      alignment = std::max(alignment, slice.alignment_bytes);
      slices.push_back(slice);
      workspaces.push_back(&runner);
    }
    if (slices.empty()) continue;
    Result<uint64_t> bytes = packings_ ? (*packings_)[device].pack(slices) : pack(slices);
    if (!bytes.ok()) return bytes.take_status();
    for (size_t i = 0; i < workspaces.size(); ++i) {
      const Slice& slice = slices[owners.size() + i];
      workspaces[i]->workspace = {Source::kArena, arena_count_, nullptr, slice.offset, slice.size_bytes, device};
    }
    for (size_t i = 0; i < owners.size(); ++i) {
      TransientPlace& place = transients_[owners[i]];
      place.placed = true;
      place.device_known = true;  // a later piece must not move it to another device
      place.arena = arena_count_;
      place.offset = slices[i].offset;
      place.capacity = slices[i].size_bytes;
    }
    plan.arenas.push_back({device, *bytes, alignment});
    ++arena_count_;
  }
  return Status();
}

Result<Place> Resolver::place_of(const RecordedBinding& binding) const {
  const mf::Value* value = program_.values()->Get(binding.value);
  Place place;
  place.index = value->index();
  switch (value->kind()) {
    case mf::ValueKind::Argument:
      place.source = Source::kArgument;
      place.device = machine_.device_of_slot[signature_.arguments[place.index].slot];
      HEDDLE_RETURN_IF_ERROR(check_range(binding, argument_bytes_[place.index], &place.length));
      place.offset = binding.offset;
      return place;
    case mf::ValueKind::Result:
      place.source = Source::kResult;
      if (!result_known_[place.index]) {
        return error(HEDDLE_STATUS_INTERNAL, "the program uses result '{}' before it sets all its extents",
                     signature_.results[place.index].name);
      }
      place.device = results_[place.index].device;
      HEDDLE_RETURN_IF_ERROR(check_range(binding, results_[place.index].size_bytes, &place.length));
      place.offset = binding.offset;
      return place;
    case mf::ValueKind::Transient: {
      const TransientPlace& transient = transients_[place.index];
      if (!transient.placed) return error(HEDDLE_STATUS_INTERNAL, "value {} is read before any command names it", binding.value);
      place.source = Source::kArena;
      place.device = transient.device;
      HEDDLE_RETURN_IF_ERROR(check_range(binding, transient.size, &place.length));
      place.offset = transient.offset + binding.offset;
      place.index = transient.arena;
      return place;
    }
    case mf::ValueKind::Verdict:
      place.source = Source::kVerdict;
      place.device = machine_.device_of_slot[program_.checks()->all()->Get(value->index())->slot()];
      HEDDLE_RETURN_IF_ERROR(check_range(binding, sizeof(int64_t), &place.length));
      place.offset = place.index * verdict_stride(place.device) + binding.offset;
      place.index = place.device;
      return place;
    default: {
      const GlobalMemory& global = places_[place.index];
      if (global.is_state) {
        place.source = Source::kState;
        place.index = global.state_index;
        place.device = global.device;
        HEDDLE_RETURN_IF_ERROR(check_range(binding, global.memory.length, &place.length));
        place.offset = binding.offset;
        return place;
      }
      if (!global.memory.buffer) {
        return error(HEDDLE_STATUS_INTERNAL, "the program uses global {}, which only the initializer may use", place.index);
      }
      place.source = Source::kFixed;
      place.device = global.device;
      HEDDLE_RETURN_IF_ERROR(check_range(binding, global.memory.length, &place.length));
      place.buffer = global.memory.buffer;
      place.offset = global.memory.offset + binding.offset;
      return place;
    }
  }
}

std::string Resolver::region(const RecordedCommand& command) const {
  switch (command.kind) {
    case RecordedKind::kDispatch:
      return fmt::format("region '{}'", program_.dispatches()->Get(command.site)->name()->string_view());
    case RecordedKind::kCopy:
      return fmt::format("copy {}", command.site);
    case RecordedKind::kFill:
      return fmt::format("fill {}", command.site);
    default:
      return "barrier";
  }
}

void Resolver::open_segment(Plan& plan, uint32_t device) {
  if (!plan.segments.empty() && !plan.segments.back().crossing && plan.segments.back().device == device) {
    if (barrier_pending_ && plan.segments.back().count != 0) {
      plan.commands.push_back(heddle_command_t{});  // HEDDLE_COMMAND_BARRIER
      plan.first_binding.push_back(0);
      plan.candidates.push_back(Profile::kNoCandidate);
      ++plan.segments.back().count;
    }
    barrier_pending_ = false;
    return;
  }
  barrier_pending_ = false;
  Segment segment;
  segment.device = device;
  segment.first = static_cast<uint32_t>(plan.commands.size());
  plan.segments.push_back(segment);
}

namespace {

void push_command(Plan& plan, const heddle_command_t& command, uint32_t first_binding, uint32_t candidate = Profile::kNoCandidate) {
  plan.commands.push_back(command);
  plan.first_binding.push_back(first_binding);
  plan.candidates.push_back(candidate);
  ++plan.segments.back().count;
}

void add_patch(Plan& plan, const Place& place, Field field, uint32_t at) {
  if (place.source != Source::kFixed) plan.patches.push_back({place.source, field, place.index, at, place.offset});
}

}  // namespace

Status Resolver::add_bindings(const Recording& recording, const RecordedCommand& recorded, uint32_t device, Plan& plan) {
  for (uint32_t i = 0; i < recorded.binding_count; ++i) {
    Result<Place> place = place_of(recording.bindings[recorded.first_binding + i]);
    if (!place.ok()) return place.take_status();
    if (place->device != device) {
      return error(HEDDLE_STATUS_UNIMPLEMENTED, "it runs on device '{}' and binding {} is on device '{}'; the module must copy it first",
                   machine_.device_names[device], i, machine_.device_names[place->device]);
    }
    add_patch(plan, *place, Field::kBinding, static_cast<uint32_t>(plan.bindings.size()));
    plan.bindings.push_back({place->buffer, place->offset, place->length});
  }
  return Status();
}

Status Resolver::add_operation(const Recording& recording, const RecordedCommand& recorded, const Runner& runner, Plan& plan) {
  const Operation& operation = *runner.choice.operation;
  const uint32_t device = machine_.device_of_slot[program_.dispatches()->Get(recorded.site)->slot()];
  open_segment(plan, device);
  const uint32_t first = static_cast<uint32_t>(plan.bindings.size());
  HEDDLE_RETURN_IF_ERROR(add_bindings(recording, recorded, device, plan));
  // The plugin relies on the operands' types: nothing else tells it their lengths.
  for (uint32_t i = 0; i < recorded.binding_count; ++i) {
    const uint64_t needed = operation.operand_bytes[i];
    uint64_t& length = plan.bindings[first + i].length;
    if (length < needed) return error(HEDDLE_STATUS_OUT_OF_RANGE, "operand {} has {} bytes, and its value {}", i, needed, length);
    length = needed;
  }
  heddle_command_t command{};
  command.kind = HEDDLE_COMMAND_DISPATCH;
  command.as.dispatch.entry = operation.entry;
  command.as.dispatch.binding_count = recorded.binding_count;
  if (operation.workspace_bytes != 0) {
    add_patch(plan, runner.workspace, Field::kBinding, static_cast<uint32_t>(plan.bindings.size()));
    plan.bindings.push_back({nullptr, runner.workspace.offset, runner.workspace.length});
    ++command.as.dispatch.binding_count;
  }
  command.as.dispatch.grid[0] = operation.shards;
  command.as.dispatch.grid[1] = command.as.dispatch.grid[2] = 1;
  command.as.dispatch.region = recorded.site;
  push_command(plan, command, first);
  return Status();
}

Status Resolver::add_kernel(const Recording& recording, const RecordedCommand& recorded, const Runner& runner, Plan& plan) {
  const mf::DispatchSite* site = program_.dispatches()->Get(recorded.site);
  uint32_t device = machine_.device_of_slot[site->slot()];
  const std::vector<heddle_entry_t*>& entries = *runner.choice.kernels;
  if (recorded.entry >= entries.size()) {
    return error(HEDDLE_STATUS_UNAVAILABLE, "executable {} has no code for device '{}'", site->executable(), machine_.device_names[device]);
  }
  open_segment(plan, device);
  uint32_t first = static_cast<uint32_t>(plan.bindings.size());
  HEDDLE_RETURN_IF_ERROR(add_bindings(recording, recorded, device, plan));
  heddle_command_t command{};
  command.kind = HEDDLE_COMMAND_DISPATCH;
  command.as.dispatch.entry = entries[recorded.entry];
  command.as.dispatch.binding_count = recorded.binding_count;
  const uint32_t constant_count = recorded.constant_count - static_cast<uint32_t>(operation_dims(*site, recording, recorded).size());
  command.as.dispatch.constants_bytes = constant_count * static_cast<uint32_t>(sizeof(int64_t));
  command.as.dispatch.constants = constant_count ? plan.constants.data() + plan.constants.size() : nullptr;
  std::copy(recorded.grid, recorded.grid + 3, command.as.dispatch.grid);
  command.as.dispatch.region = recorded.site;
  // resolve() reserved capacity, so that the memory to which commands point does not move.
  plan.constants.insert(plan.constants.end(), recording.constants.begin() + recorded.first_constant,
                        recording.constants.begin() + recorded.first_constant + constant_count);
  push_command(plan, command, first, recorded.candidate);
  return Status();
}

Status Resolver::add_copy(const Recording& recording, const RecordedCommand& recorded, Plan& plan) {
  Result<Place> source = place_of(recording.bindings[recorded.first_binding]);
  if (!source.ok()) return source.take_status();
  Result<Place> target = place_of(recording.bindings[recorded.first_binding + 1]);
  if (!target.ok()) return target.take_status();
  if (source->length != target->length) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT, "it copies {} bytes to {}", source->length, target->length);
  }
  if (source->length == 0) return Status();
  if (source->device != target->device) {
    Segment segment;
    segment.crossing = true;
    segment.from = *source;
    segment.to = *target;
    plan.segments.push_back(segment);
    barrier_pending_ = false;
    return Status();
  }
  open_segment(plan, source->device);
  heddle_command_t command{};
  command.kind = HEDDLE_COMMAND_COPY;
  command.as.copy = {source->buffer, target->buffer, source->offset, target->offset, source->length};
  uint32_t at = static_cast<uint32_t>(plan.commands.size());
  add_patch(plan, *source, Field::kCopySource, at);
  add_patch(plan, *target, Field::kCopyTarget, at);
  push_command(plan, command, 0);
  return Status();
}

Status Resolver::add_fill(const Recording& recording, const RecordedCommand& recorded, Plan& plan) {
  const mf::FillSite* site = program_.fills()->Get(recorded.site);
  Result<Place> target = place_of(recording.bindings[recorded.first_binding]);
  if (!target.ok()) return target.take_status();
  if (target->length == 0) return Status();
  open_segment(plan, target->device);
  heddle_command_t command{};
  command.kind = HEDDLE_COMMAND_FILL;
  command.as.fill = {target->buffer, target->offset, target->length, site->pattern(), site->pattern_bytes(), 0};
  add_patch(plan, *target, Field::kFillTarget, static_cast<uint32_t>(plan.commands.size()));
  push_command(plan, command, 0);
  return Status();
}

Status Resolver::plan_memory(const Interpreter& interpreter, size_t first_command, Plan& plan) {
  if (!failure_.ok()) return failure_.clone();
  HEDDLE_RETURN_IF_ERROR(size_results(interpreter, false));
  HEDDLE_RETURN_IF_ERROR(choose_runners(interpreter.recording(), first_command, plan));
  HEDDLE_RETURN_IF_ERROR(place_transients(interpreter, first_command, plan));
  plan.results = results_;
  plan.result_known = result_known_;
  return Status();
}

Status Resolver::plan_ahead(const Interpreter& whole) {
  is_planned_ahead_ = true;
  ahead_ = memory::Ref<Plan>::adopt(new Plan());
  return plan_memory(whole, 0, *ahead_);
}

Result<memory::Ref<Plan>> Resolver::resolve(const Interpreter& interpreter, size_t first_command) {
  const Recording& recording = interpreter.recording();
  memory::Ref<Plan> plan = ahead_ ? std::move(ahead_) : memory::Ref<Plan>::adopt(new Plan());
  plan->program = &program_;
  plan->signature = &signature_;
  plan->globals = globals_;
  plan->profile = machine_.profile;
  plan->inspected = machine_.inspection != nullptr;
  if (!is_planned_ahead_) HEDDLE_RETURN_IF_ERROR(plan_memory(interpreter, first_command, *plan));
  size_t bindings = 0, constants = 0;
  for (size_t i = first_command; i < recording.commands.size(); ++i) {
    bindings += recording.commands[i].binding_count + 1;  // an operation also has its workspace
    constants += recording.commands[i].constant_count;
  }
  barrier_pending_ = false;
  plan->commands.reserve(recording.commands.size() - first_command);
  plan->first_binding.reserve(recording.commands.size() - first_command);
  plan->bindings.reserve(bindings);
  plan->constants.reserve(constants);
  auto add_dispatch = [&](const RecordedCommand& command) {
    const Runner& next = runners_[next_runner_++];
    return next.choice.operation ? add_operation(recording, command, next, *plan) : add_kernel(recording, command, next, *plan);
  };
  for (size_t i = first_command; i < recording.commands.size(); ++i) {
    const RecordedCommand& command = recording.commands[i];
    const size_t before = plan->commands.size();
    if (command.kind == RecordedKind::kBarrier) {
      barrier_pending_ = true;
      continue;
    }
    Status added = command.kind == RecordedKind::kDispatch ? add_dispatch(command)
                   : command.kind == RecordedKind::kCopy   ? add_copy(recording, command, *plan)
                                                           : add_fill(recording, command, *plan);
    if (!added.ok()) return wrap(std::move(added), region(command));
    if (command.kind != RecordedKind::kCopy || !interpreter.moves(*program_.copies()->Get(command.site))) continue;
    if (plan->commands.size() != before) {  // otherwise it has no bytes, or is between devices
      plan->moving.push_back(static_cast<uint32_t>(plan->commands.size() - 1));
      plan->moving.push_back(command.site);
    } else if (!plan->segments.empty() && plan->segments.back().crossing) {
      plan->moves_between_devices = true;
    }
  }
  // A function without commands still signals.
  if (plan->segments.empty()) open_segment(*plan, machine_.device_of_slot.empty() ? 0 : machine_.device_of_slot[0]);
  auto is_of_frame = [](const Patch& patch) { return patch.source == Source::kArena || patch.source == Source::kVerdict; };
  const auto others = std::stable_partition(plan->patches.begin(), plan->patches.end(), is_of_frame);
  plan->frame_patch_count = static_cast<uint32_t>(others - plan->patches.begin());
  add_verdicts(interpreter, first_command, *plan);
  for (const Segment& segment : plan->segments) ++(segment.crossing ? plan->crossing_count : plan->submission_count);
  for (const heddle_command_t& command : plan->commands) {
    if (command.kind == HEDDLE_COMMAND_DISPATCH) ++plan->dispatch_count;
    if (command.kind == HEDDLE_COMMAND_COPY || command.kind == HEDDLE_COMMAND_FILL) ++plan->copy_count;
    if (command.kind == HEDDLE_COMMAND_COPY) plan->copied_bytes += command.as.copy.length;
  }
  return plan;
}

void Resolver::add_verdicts(const Interpreter& interpreter, size_t first_command, Plan& plan) const {
  if (!program_.checks()) return;
  const Recording& recording = interpreter.recording();
  std::vector<bool> written(program_.checks()->all()->size(), false);
  for (size_t i = first_command; i < recording.commands.size(); ++i) {
    const RecordedCommand& command = recording.commands[i];
    for (uint32_t j = 0; j < command.binding_count; ++j) {
      const mf::Value* value = program_.values()->Get(recording.bindings[command.first_binding + j].value);
      if (value->kind() == mf::ValueKind::Verdict) written[value->index()] = true;
    }
  }
  const auto& checks = *program_.checks()->all();
  for (uint32_t i = 0; i < checks.size(); ++i) {
    const uint32_t verdict = checks.Get(i)->verdict();
    if (!written[verdict]) continue;
    const uint32_t device = machine_.device_of_slot[checks.Get(verdict)->slot()];
    plan.verdicts.push_back({device, i, verdict * verdict_stride(device), interpreter.register_value(checks.Get(i)->limit_register())});
  }
}

bool Resolver::all_placed() const {
  return std::ranges::all_of(transients_, &TransientPlace::placed);
}

Result<Place> Resolver::place(const Interpreter& interpreter, const RecordedBinding& binding) {
  if (!failure_.ok()) return failure_.clone();
  HEDDLE_RETURN_IF_ERROR(size_results(interpreter, false));
  return place_of(binding);
}

}  // namespace heddle::submit
