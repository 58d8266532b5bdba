// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The globals of an instance: parameters read from files, constants uploaded, derived values computed once, state zeroed.
// Part of Instance; runs when an instance is created, never on the path of a call.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/submit/initializer_parts.h"
#include "core/submit/instance.h"
#include "core/submit/run.h"

namespace heddle::submit {

namespace {

namespace mf = module_format;

void note_globals(const mf::Program& program, std::vector<bool>& used) {
  for (const mf::Value* value : *program.values()) {
    if (value->kind() == mf::ValueKind::Global) used[value->index()] = true;
  }
}

// Checked after the reads: a file that was modified or replaced meanwhile may have been read half old, half new. The module's own file was opened
// by name earlier, so for it only the contents count.
Status check_unchanged(const std::vector<memory::WeightExtent>& extents, const open::OpenModule& module) {
  std::map<int, std::vector<const memory::WeightExtent*>> files;
  for (const memory::WeightExtent& extent : extents) files[extent.descriptor].push_back(&extent);
  for (const auto& [descriptor, read] : files) {
    const auto [first, last] =
        std::minmax_element(read.begin(), read.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
    std::string change = open::change_since((*first)->file, descriptor);
    if (change.empty() && descriptor != module.file().descriptor())
      change = open::replacement_of((*first)->file, std::string((*first)->path));
    if (change.empty()) continue;
    const std::string tensors = read.size() == 1 ? fmt::format("tensor '{}'", (*first)->name)
                                                 : fmt::format("{} tensors, '{}' to '{}',", read.size(), (*first)->name, (*last)->name);
    return error(HEDDLE_STATUS_DATA_LOSS, "heddle: reading {} (bytes [{}, {})) of {} failed: {}; load it again", tensors, (*first)->offset,
                 (*last)->offset + (*last)->file_bytes(), (*first)->path, change);
  }
  return Status();
}

}  // namespace

ReadGlobals find_read_globals(const mf::Module& module, const Programs& programs) {
  ReadGlobals read;
  read.by_functions.assign(module.globals()->size(), false);
  for (const mf::Program* program : programs.functions) note_globals(*program, read.by_functions);
  read.at_all = read.by_functions;
  if (programs.initializer) note_globals(*programs.initializer, read.at_all);
  return read;
}

void place_globals(const mf::Module& module, Machine& machine) {
  uint32_t states = 0;
  for (const mf::Global* global : *module.globals()) {
    GlobalMemory& memory = machine.globals.emplace_back();
    memory.device = machine.device_of_slot[global->slot()];
    memory.is_state = global->kind() == mf::GlobalKind::State;
    if (!memory.is_state) continue;
    memory.state_index = states++;
    memory.memory.length = global->size_bytes();
  }
}

Status Instance::locate_parameters(const InstanceRequest& request, Located& located) {
  const mf::Module& meta = module_->metadata();
  read_ = find_read_globals(meta, programs());
  globals_.resize(meta.globals()->size());
  place_globals(meta, machine_);
  HEDDLE_RETURN_IF_ERROR(located.files.open(request.parameter_files));
  located.extents.resize(meta.globals()->size());
  for (uint32_t i = 0; i < meta.globals()->size(); ++i) {
    const mf::Global* global = meta.globals()->Get(i);
    if (global->kind() != mf::GlobalKind::Parameter || !read_.at_all[i]) continue;
    const mf::Parameter& parameter = *meta.parameters()->Get(global->index());
    Result<open::ParameterExtent> extent = located.files.find(*module_, parameter);
    if (!extent.ok()) return extent.take_status();
    located.extents[i] = {extent->descriptor, extent->offset, extent->block ? extent->value_bytes : extent->length,
                          extent->file,       extent->path,   parameter.name()->string_view(),
                          extent->block,      extent->type,   extent->length,
                          extent->pattern};
    if (read_.by_functions[i]) located.kept.push_back(i);
  }
  return Status();
}

Status Instance::make_globals(const Located& located) {
  HEDDLE_RETURN_IF_ERROR(load_parameters(located.kept, located.extents, {}));
  HEDDLE_RETURN_IF_ERROR(allocate_globals());
  return run_initializer(located.kept, located.extents);
}

Status Instance::allocate_globals() {
  const auto& globals = *module_->metadata().globals();
  for (uint32_t i = 0; i < globals.size(); ++i) {
    const mf::Global* global = globals.Get(i);
    if (global->kind() == mf::GlobalKind::Parameter || global->kind() == mf::GlobalKind::State || !read_.at_all[i]) continue;
    memory::Device& device = *devices_[machine_.globals[i].device];
    heddle_block_t block{};
    Status allocated = device.allocate(global->size_bytes(), 64, memory::kState, &block);
    if (!allocated.ok()) {
      return wrap(std::move(allocated), fmt::format("heddle: allocating {} bytes for '{}' on device '{}' failed", global->size_bytes(),
                                                    global->name()->string_view(), device.alias()));
    }
    globals_[i] = std::make_shared<memory::Weight>(memory::Ref<memory::Device>(&device), block);
    machine_.globals[i].memory = {block.buffer, block.offset, global->size_bytes()};
    if (global->size_bytes() == 0) continue;
    if (global->kind() == mf::GlobalKind::Constant) {
      std::span<const std::byte> bytes = module_->file().constants(*global->data());
      if (bytes.size() != global->size_bytes()) {
        return error(HEDDLE_STATUS_DATA_LOSS, "heddle: reading constant '{}' of {} failed: it has {} bytes of {}",
                     global->name()->string_view(), module_->path(), bytes.size(), global->size_bytes());
      }
      HEDDLE_RETURN_IF_ERROR(device.upload(bytes.data(), machine_.globals[i].memory));
    }
  }
  Result<memory::Ref<State>> state = State::create(module_->metadata(), machine_, devices_, read_.at_all, serial_);
  if (!state.ok()) return state.take_status();
  state_ = std::move(*state);
  return Status();
}

Status Instance::load_parameters(const std::vector<uint32_t>& globals, const std::vector<memory::WeightExtent>& extents,
                                 const std::vector<memory::StagePlace>& place_of_global) {
  for (uint32_t device = 0; device < devices_.size(); ++device) {
    std::vector<memory::WeightExtent> here;
    std::vector<memory::StagePlace> places;
    std::vector<uint32_t> owners;
    for (uint32_t i : globals) {
      if (machine_.globals[i].device != device) continue;
      here.push_back(extents[i]);
      owners.push_back(i);
      if (!place_of_global.empty()) places.push_back(place_of_global[i]);
    }
    if (here.empty()) continue;
    Result<std::vector<std::shared_ptr<memory::Weight>>> weights = runtime_->weights.load(
        *devices_[device], here, runtime_->host->config().param_io, places, loading_ ? &loading_->cancelled() : nullptr);
    if (!weights.ok()) return wrap(weights.take_status(), "heddle: loading the parameters of " + module_->path() + " failed");
    for (size_t i = 0; i < weights->size(); ++i) {
      const heddle_block_t& block = (*weights)[i]->block();
      machine_.globals[owners[i]].memory = {block.buffer, block.offset, here[i].length};
      globals_[owners[i]] = std::move((*weights)[i]);
    }
    HEDDLE_RETURN_IF_ERROR(check_unchanged(here, *module_));
  }
  return Status();
}

Status Instance::run_initializer(const std::vector<uint32_t>& kept, const std::vector<memory::WeightExtent>& extents) {
  const mf::Program* program = initializer();
  if (!program) return Status();
  const mf::Module& meta = module_->metadata();
  const std::vector<InitializerPart> parts = parts_of_initializer(meta, *program, read_.by_functions, usual_part_bytes(meta));
  std::vector<bool> elsewhere(globals_.size(), false);  // the same bytes are among those that functions read
  auto key_of = [&](uint32_t i) {
    return std::tuple(machine_.globals[i].device, extents[i].file, extents[i].offset, extents[i].length, extents[i].type);
  };
  std::set<decltype(key_of(0))> loaded;
  for (uint32_t i : kept) loaded.insert(key_of(i));
  for (uint32_t i = 0; i < globals_.size(); ++i) elsewhere[i] = loaded.contains(key_of(i));
  Result<InitializerStage> stage = stage_of_initializer(meta, parts, machine_, elsewhere);
  if (!stage.ok()) return wrap(stage.take_status(), "heddle: running the initializer of " + module_->path() + " failed");
  std::vector<std::shared_ptr<memory::Stage>> stage_of_device;
  for (size_t device = 0; device < devices_.size(); ++device)
    stage_of_device.push_back(std::make_shared<memory::Stage>(devices_[device], stage->bytes_of_device[device]));
  std::vector<memory::StagePlace> places;
  for (uint32_t i = 0; i < globals_.size(); ++i) places.push_back({stage_of_device[machine_.globals[i].device], stage->offsets[i]});
  std::vector<uint32_t> pauses;
  for (size_t i = 1; i < parts.size(); ++i) pauses.push_back(parts[i].first_instruction);
  size_t part = 0;
  auto free_part = [&] {
    for (uint32_t i : parts[part].freed) {
      globals_[i].reset();
      machine_.globals[i].memory = {};
    }
  };
  auto next_part = [&] {
    free_part();
    return load_parameters(parts[++part].loaded, extents, places);
  };
  HEDDLE_RETURN_IF_ERROR(load_parameters(parts[0].loaded, extents, places));
  Pace here(nullptr);
  Run run({*program, open::initializer_signature(), machine_, devices_, {}, {}, state_.get()}, here, counters_);
  Status status = run.whole_program({}, {}, [](uint32_t, const ResultNeed&) { return Status(); }, pauses, next_part).run();
  if (!status.ok()) return in_region(std::move(status), *program, "heddle: running the initializer of " + module_->path() + " failed");
  free_part();
  // No other code reads what only the initializer has written.
  for (uint32_t i = 0; i < globals_.size(); ++i) {
    if (read_.by_functions[i] || machine_.globals[i].is_state) continue;
    globals_[i].reset();
    machine_.globals[i].memory = {};
  }
  return Status();
}

uint64_t Instance::next_serial() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

Result<memory::Ref<State>> Instance::create_state() const {
  if (functions_.empty() && module_->metadata().functions()->size() != 0)
    return error(HEDDLE_STATUS_FAILED_PRECONDITION,
                 "heddle: making a state failed: the instance was created with HEDDLE_INSTANCE_ROUTE_ONLY");
  if (const mf::Program* program = initializer()) {
    std::vector<bool> used(module_->metadata().globals()->size());
    note_globals(*program, used);
    for (size_t i = 0; i < used.size(); ++i) {
      if (used[i] && machine_.globals[i].is_state)
        return error(
            HEDDLE_STATUS_UNIMPLEMENTED,
            "heddle: making a state failed: the code that loads {} gives state '{}' its first value, which only the instance's own state "
            "gets; create another instance",
            module_->path(), module_->metadata().globals()->Get(static_cast<uint32_t>(i))->name()->string_view());
    }
  }
  return State::create(module_->metadata(), machine_, devices_, read_.by_functions, serial_);
}

}  // namespace heddle::submit
