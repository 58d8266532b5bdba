// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The globals of an instance: parameters read from files, constants uploaded, derived values computed once, state zeroed.
// Part of Instance; runs when an instance is created, never on the path of a call.
#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <map>
#include <set>
#include <thread>
#include <tuple>

#include "core/memory/param_io.h"
#include "core/submit/function.h"
#include "core/submit/initializer_parts.h"
#include "core/submit/instance.h"
#include "core/submit/run.h"
#include "sdk/module/reader.h"

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

// The constants and derived values of instances, one entry per global.
class Derived final : public Shareable {
 public:
  std::vector<std::shared_ptr<memory::Weight>> weights;
};

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

void Instance::Located::note(uint32_t global, const open::ParameterExtent& extent, std::string_view name) {
  extents[global] = {extent.descriptor, extent.offset,         extent.block ? extent.value_bytes : extent.length,
                     extent.file,       extent.path,           name,
                     extent.block,      extent.type,           extent.length,
                     extent.pattern,    extent.stays_in_blocks};
  origins[global].identity = extents[global].identity();
}

Status Instance::locate_parameters(const std::vector<open::ParameterFiles::Named>& files, const Globals* current, Located& located) const {
  const mf::Module& meta = module_->metadata();
  clock_gettime(CLOCK_REALTIME, &located.begin);
  HEDDLE_RETURN_IF_ERROR(located.files.open(files));
  located.extents.resize(meta.globals()->size());
  located.names = names_;
  located.names.insert(located.names.end(), files.begin(), files.end());
  located.origins = origins_;
  located.origins.resize(meta.globals()->size());
  std::vector<uint32_t> again;
  std::vector<bool> changed(meta.globals()->size());
  for (uint32_t i = 0; i < meta.globals()->size(); ++i) {
    const mf::Global* global = meta.globals()->Get(i);
    if (global->kind() != mf::GlobalKind::Parameter || !read_.at_all[i]) continue;
    const mf::Parameter& parameter = *meta.parameters()->Get(global->index());
    if (current && parameter.stored() && read_.by_functions[i]) continue;
    Result<open::ParameterExtent> extent = located.files.find(*module_, parameter, current != nullptr);
    if (!extent.ok()) return extent.take_status();
    if (extent->descriptor < 0) {
      if (!read_.by_functions[i]) again.push_back(i);
      continue;
    }
    located.note(i, *extent, parameter.name()->string_view());
    if (extent->source != open::ParameterExtent::kOfModule) {
      located.origins[i].file = static_cast<uint32_t>(names_.size() + extent->source);
      changed[i] = true;
    }
    if (read_.by_functions[i]) located.kept.push_back(i);
  }
  HEDDLE_RETURN_IF_ERROR(located.files.check_use(*module_));
  if (const mf::Program* program = initializer(); program && current) {
    located.rerun = rerun_of_initializer(meta, *program, changed);
    std::vector<bool> needed(changed.size());
    for (const InitializerPart& part : parts_of_initializer(meta, *program, read_.by_functions, UINT64_MAX, located.rerun.instructions)) {
      for (uint32_t i : part.loaded) needed[i] = true;
    }
    std::erase_if(again, [&](uint32_t i) { return !needed[i]; });
  }
  if (again.empty()) return Status();
  const mf::Parameter& first = *meta.parameters()->Get(meta.globals()->Get(again[0])->index());
  return wrap(locate_again(again, located),
              fmt::format("it also computes with {}, which none of the given files has", module::in_quotes(first.name()->string_view())));
}

Status Instance::locate_again(const std::vector<uint32_t>& globals, Located& located) const {
  const mf::Module& meta = module_->metadata();
  std::vector<open::ParameterFiles::Named> files;
  for (uint32_t file = 0; file < names_.size(); ++file) {
    if (std::ranges::any_of(globals, [&](uint32_t i) { return origins_[i].file == file; })) files.push_back(names_[file]);
  }
  HEDDLE_RETURN_IF_ERROR(located.earlier.open(files));
  for (uint32_t i : globals) {
    const mf::Parameter& parameter = *meta.parameters()->Get(meta.globals()->Get(i)->index());
    Result<open::ParameterExtent> extent = located.earlier.find(*module_, parameter);
    if (!extent.ok()) return extent.take_status();
    const open::FileIdentity& before = origins_[i].identity.file;
    std::string change = open::change_since(before, extent->descriptor);
    if (!std::equal(before.begin(), before.begin() + open::kFileSize, extent->file.begin())) change = "it is another file than before";
    if (change.empty() && before[open::kFileChanged] != extent->file[open::kFileChanged])
      change = "it was modified, or its mode or links were";
    if (!change.empty()) {
      return error(HEDDLE_STATUS_FAILED_PRECONDITION, "{} changed since '{}' was read from it: {}; name a file that has it", extent->path,
                   module::one_line(parameter.name()->string_view()), change);
    }
    located.note(i, *extent, parameter.name()->string_view());
  }
  return Status();
}

Status Instance::check_hashes(const Located& located) const {
  const mf::Module& meta = module_->metadata();
  for (uint32_t i = 0; i < located.extents.size(); ++i) {
    const memory::WeightExtent& extent = located.extents[i];
    const uint32_t file = located.origins[i].file;
    if (extent.descriptor < 0 || (file != open::ParameterExtent::kOfModule && located.names[file].over)) continue;
    if (loading_ && loading_->cancelled()) break;  // the load says so
    const uint64_t expected = meta.parameters()->Get(meta.globals()->Get(i)->index())->hash();
    const uint64_t bytes = extent.block ? extent.block_bytes : extent.length;
    auto refuse = [&](const char* cause) {
      return error(HEDDLE_STATUS_FAILED_PRECONDITION, "heddle: checking parameter '{}' of {} failed: {}", extent.name, extent.path, cause);
    };
    if (expected == 0)
      return refuse("the module has no hash of it: compile with --params-in-hashes, if it was left to a file, or with this version");
    try {
      const module::Result<uint64_t> hash =
          module::hash_of({extent.descriptor, extent.offset, bytes}, std::string(extent.path), extent.pattern);
      if (!hash.ok()) return open::to_status(hash.error(), "");
      if (hash.value() == expected) continue;
      if (extent.block)
        return refuse("its values are stored in blocks, which are others than those that were compiled; load it without the check");
      return error(
          HEDDLE_STATUS_DATA_LOSS,
          "heddle: checking parameter '{}' of {} failed: its {} bytes have hash {:016x}, and {} was compiled with {:016x}; copy the file "
          "again, or load other values, or the same ones stored in another way, on purpose without the check",
          extent.name, extent.path, bytes, hash.value(), module_->path(), expected);
    } catch (const std::bad_alloc&) {
      return error(HEDDLE_STATUS_RESOURCE_EXHAUSTED,
                   "heddle: checking parameter '{}' of {} failed: the host has no memory to read its {} bytes", extent.name, extent.path,
                   bytes);
    }
  }
  return Status();
}

void Instance::Located::drop_unused_names(const std::vector<bool>& in_memory) {
  std::vector<uint32_t> place(names.size(), UINT32_MAX);
  for (uint32_t i = 0; i < origins.size(); ++i) {
    if (in_memory[i]) origins[i].file = open::ParameterExtent::kOfModule;
    if (origins[i].file != open::ParameterExtent::kOfModule) place[origins[i].file] = 0;
  }
  std::vector<open::ParameterFiles::Named> used;
  for (uint32_t file = 0; file < place.size(); ++file) {
    if (place[file] != 0) continue;
    place[file] = static_cast<uint32_t>(used.size());
    used.push_back(std::move(names[file]));
  }
  for (Origin& origin : origins) {
    if (origin.file != open::ParameterExtent::kOfModule) origin.file = place[origin.file];
  }
  names = std::move(used);
}

Result<memory::Ref<Globals>> Instance::make_globals(const Located& located, const Globals* current, State& state) {
  note_fresh_files(located);
  auto made = memory::Ref<Globals>::adopt(new Globals());
  made->places = machine_.globals;
  made->weights.resize(made->places.size());
  for (uint32_t i = 0; current && i < made->places.size(); ++i) {
    if (module_->metadata().globals()->Get(i)->kind() == mf::GlobalKind::Derived) continue;
    made->places[i] = current->places[i];
    made->weights[i] = current->weights[i];
  }
  HEDDLE_RETURN_IF_ERROR(load_parameters(located.kept, located.extents, {}, *made));
  HEDDLE_RETURN_IF_ERROR(make_derived(located, made, current, state));
  return made;
}

std::string Instance::derived_key(const Located& located, const Globals& made, bool by_content) const {
  const mf::Program* program = initializer();
  if (!program || inspection_) return {};
  for (const mf::DispatchSite* site : *program->dispatches()) {
    if (site->operation()) return {};
  }
  std::string key;
  auto add = [&](const auto& value) { key.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  add(module_->file().content_hash());
  if (!by_content) add(module_->identity());
  add(route_.initializer);
  for (uint32_t chosen : route_.program_of_function) add(chosen);
  for (uint32_t device : machine_.device_of_slot) add(device);
  for (const route::ChosenCode& code : route_.code) add(std::array{code.executable, code.device, code.variant});
  std::vector<bool> used(made.places.size());
  note_globals(*program, used);
  open::FileIdentity file{};
  std::string digest;  // of that file
  for (uint32_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    if (made.places[i].is_state) return {};
    if (module_->metadata().globals()->Get(i)->kind() != mf::GlobalKind::Parameter) continue;
    memory::WeightIdentity identity = located.identity_of(i, made);
    if (by_content) {
      if (file != identity.file) digest = digest_of_weights(identity.file, located, i);
      if (digest.empty()) return {};
      file = std::exchange(identity.file, {});
      key += digest;
    }
    add(identity);
  }
  return key;
}

Status Instance::make_derived(const Located& located, const memory::Ref<Globals>& made, const Globals* current, State& state) {
  auto compute = [&] {
    // What does not change is that of before.
    for (uint32_t i = 0; current && !located.rerun.globals.empty() && i < made->weights.size(); ++i) {
      if (made->weights[i] || located.rerun.globals[i]) continue;
      made->places[i] = current->places[i];
      made->weights[i] = current->weights[i];
    }
    HEDDLE_RETURN_IF_ERROR(allocate_globals(read_.at_all, *made));
    return run_initializer(located, made, state);
  };
  auto fresh = std::make_unique<Derived>();
  fresh->key = derived_key(located, *made, false);
  if (fresh->key.empty()) return compute();
  for (const memory::Ref<memory::Device>& device : devices_) {
    const memory::Device* const on = device.get();
    fresh->key.append(reinterpret_cast<const char*>(&on), sizeof(on));
  }
  Shared<Derived> derived = runtime_->derived.find_or_add(std::move(fresh));
  std::unique_lock lock(derived->making, std::defer_lock);
  while (!lock.try_lock()) {  // nobody tells of a cancellation
    HEDDLE_RETURN_IF_ERROR(memory::check_cancelled(*devices_[0], cancelled()));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const bool is_made = runtime_->derived.is_made(*derived);
  DerivedFile file;
  bool is_new = false;
  if (!is_made) {
    file = derived_file(located, *made);
    if (!file.name.empty() && read_derived(file, *made)) {
      HEDDLE_RETURN_IF_ERROR(allocate_globals(read_.by_functions, *made));
    } else {
      HEDDLE_RETURN_IF_ERROR(compute());
      is_new = true;
    }
    derived->weights.resize(made->weights.size());
  }
  for (uint32_t i = 0; i < made->weights.size(); ++i) {
    const mf::Global* global = module_->metadata().globals()->Get(i);
    if (global->kind() == mf::GlobalKind::Parameter) continue;
    if (!is_made) {
      derived->weights[i] = made->weights[i];
    } else if (derived->weights[i] && !made->weights[i]) {
      const heddle_block_t& block = derived->weights[i]->block();
      made->places[i].memory = {block.buffer, block.offset, global->size_bytes()};
      made->weights[i] = derived->weights[i];
    }
  }
  derived->is_made = true;
  lock.unlock();  // nobody has to wait for the disk
  if (is_new) keep_derived(file, *made);
  made->derived.reset(derived.release());
  return Status();
}

Status Instance::allocate_globals(const std::vector<bool>& used, Globals& made) {
  const auto& globals = *module_->metadata().globals();
  for (uint32_t i = 0; i < globals.size(); ++i) {
    const mf::Global* global = globals.Get(i);
    if (global->kind() == mf::GlobalKind::Parameter || global->kind() == mf::GlobalKind::State || !used[i] || made.weights[i]) continue;
    memory::Device& device = *devices_[machine_.globals[i].device];
    heddle_block_t block{};
    Status allocated = device.allocate(global->size_bytes(), 64, memory::kState, &block);
    if (!allocated.ok()) {
      return wrap(std::move(allocated), fmt::format("heddle: allocating {} bytes for '{}' on device '{}' failed", global->size_bytes(),
                                                    global->name()->string_view(), device.alias()));
    }
    made.weights[i] = std::make_shared<memory::Weight>(memory::Ref<memory::Device>(&device), block);
    made.places[i].memory = {block.buffer, block.offset, global->size_bytes()};
    if (global->size_bytes() == 0) continue;
    if (global->kind() == mf::GlobalKind::Constant) {
      std::span<const std::byte> bytes = module_->file().constants(*global->data());
      if (bytes.size() != global->size_bytes()) {
        return error(HEDDLE_STATUS_DATA_LOSS, "heddle: reading constant '{}' of {} failed: it has {} bytes of {}",
                     global->name()->string_view(), module_->path(), bytes.size(), global->size_bytes());
      }
      HEDDLE_RETURN_IF_ERROR(device.upload(bytes.data(), made.places[i].memory));
    }
  }
  return Status();
}

Status Instance::load_parameters(const std::vector<uint32_t>& globals, const std::vector<memory::WeightExtent>& extents,
                                 const std::vector<memory::StagePlace>& place_of_global, Globals& made, bool may_change) {
  for (uint32_t device = 0; device < devices_.size(); ++device) {
    std::vector<memory::WeightExtent> here;
    std::vector<memory::StagePlace> places;
    std::vector<uint32_t> owners;
    here.reserve(globals.size());
    owners.reserve(globals.size());
    for (uint32_t i : globals) {
      if (machine_.globals[i].device != device) continue;
      here.push_back(extents[i]);
      owners.push_back(i);
      if (!place_of_global.empty()) places.push_back(place_of_global[i]);
    }
    if (here.empty()) continue;
    Result<std::vector<std::shared_ptr<memory::Weight>>> weights =
        runtime_->weights.load(*devices_[device], here, runtime_->host->config().param_io, places, cancelled());
    if (!weights.ok()) return wrap(weights.take_status(), "heddle: loading the parameters of " + module_->path() + " failed");
    for (size_t i = 0; i < weights->size(); ++i) {
      const heddle_block_t& block = (*weights)[i]->block();
      made.places[owners[i]].memory = {block.buffer, block.offset, here[i].length};
      made.weights[owners[i]] = std::move((*weights)[i]);
    }
    if (may_change) HEDDLE_RETURN_IF_ERROR(check_unchanged(here, *module_));
  }
  return Status();
}

Status Instance::run_initializer(const Located& located, const memory::Ref<Globals>& made, State& state) {
  const mf::Program* program = initializer();
  if (!program) return Status();
  const mf::Module& meta = module_->metadata();
  const std::vector<InitializerPart> parts =
      parts_of_initializer(meta, *program, read_.by_functions, usual_part_bytes(meta), located.rerun.instructions);
  const std::vector<memory::WeightExtent>& extents = located.extents;
  std::vector<bool> elsewhere(extents.size(), false);  // the same bytes are among those that functions read
  auto key_of = [&](uint32_t i) {
    return std::tuple(machine_.globals[i].device, extents[i].file, extents[i].offset, extents[i].length, extents[i].type);
  };
  std::set<decltype(key_of(0))> loaded;
  for (uint32_t i : located.kept) loaded.insert(key_of(i));
  for (uint32_t i = 0; i < extents.size(); ++i) elsewhere[i] = loaded.contains(key_of(i));
  Result<InitializerStage> stage = stage_of_initializer(meta, parts, machine_, elsewhere);
  if (!stage.ok()) return wrap(stage.take_status(), "heddle: running the initializer of " + module_->path() + " failed");
  std::vector<std::shared_ptr<memory::Stage>> stage_of_device;
  for (size_t device = 0; device < devices_.size(); ++device)
    stage_of_device.push_back(std::make_shared<memory::Stage>(devices_[device], stage->bytes_of_device[device]));
  std::vector<memory::StagePlace> places;
  for (uint32_t i = 0; i < extents.size(); ++i) places.push_back({stage_of_device[machine_.globals[i].device], stage->offsets[i]});
  std::vector<uint32_t> pauses;
  for (size_t i = 1; i < parts.size(); ++i) pauses.push_back(parts[i].first_instruction);
  size_t part = 0;
  auto free_part = [&] {
    for (uint32_t i : parts[part].freed) {
      made->weights[i].reset();
      made->places[i].memory = {};
    }
  };
  auto next_part = [&] {
    free_part();
    return load_parameters(parts[++part].loaded, extents, places, *made);
  };
  HEDDLE_RETURN_IF_ERROR(load_parameters(parts[0].loaded, extents, places, *made));
  Pace here(nullptr);
  Machine machine = machine_;
  machine.profile = nullptr;  // it is for calls
  const std::vector<bool>& runs = located.rerun.instructions;
  Run run({*program, open::initializer_signature(), machine, made, devices_, {}, {}, &state, nullptr, runs.empty() ? nullptr : &runs}, here,
          counters_);
  Status status = run.whole_program({}, {}, [](uint32_t, const ResultNeed&) { return Status(); }, pauses, next_part).run();
  if (!status.ok()) return in_region(std::move(status), *program, "heddle: running the initializer of " + module_->path() + " failed");
  free_part();
  // No other code reads what only the initializer has written.
  for (uint32_t i = 0; i < extents.size(); ++i) {
    if (read_.by_functions[i] || made->places[i].is_state) continue;
    made->weights[i].reset();
    made->places[i].memory = {};
  }
  return Status();
}

Status Instance::refit(const std::vector<open::ParameterFiles::Named>& files, const std::atomic<bool>* cancel) {
  constexpr uint64_t kLookNs = 10'000'000;  // how often it looks whether it is cancelled, where nobody tells
  const std::string context = "heddle: replacing the parameters of an instance of " + module_->path() + " failed, so it keeps those it had";
  auto check_cancelled = [&] {
    if (!cancel || !cancel->load(std::memory_order_relaxed)) return Status();
    return error(HEDDLE_STATUS_CANCELLED, "{}: it was cancelled", context);
  };
  Status loaded = wait_until_loaded(cancel ? kLookNs : HEDDLE_TIMEOUT_INFINITE);
  while (cancel && loaded.code() == HEDDLE_STATUS_DEADLINE_EXCEEDED) {
    HEDDLE_RETURN_IF_ERROR(check_cancelled());
    loaded = wait_until_loaded(kLookNs);
  }
  HEDDLE_RETURN_IF_ERROR(std::move(loaded));
  if (functions_.empty() && module_->metadata().functions()->size() != 0)
    return error(HEDDLE_STATUS_FAILED_PRECONDITION, "{}: it was created with HEDDLE_INSTANCE_ROUTE_ONLY", context);
  if (files.empty()) return error(HEDDLE_STATUS_INVALID_ARGUMENT, "{}: no file is given; name at least one", context);
  std::unique_lock one_at_a_time(refit_mutex_, std::defer_lock);
  while (!one_at_a_time.try_lock()) {
    HEDDLE_RETURN_IF_ERROR(check_cancelled());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  refit_cancel_ = cancel;
  struct Forget {
    const std::atomic<bool>*& cancel;
    ~Forget() { cancel = nullptr; }
  } forget{refit_cancel_};
  memory::Ref<Globals> current = globals();
  Located located;
  if (Status found = locate_parameters(files, current.get(), located); !found.ok()) return wrap(std::move(found), context);
  for (open::ParameterFiles::Named& file : located.names) file.over = true;  // over those of earlier loads
  located.drop_unused_names(read_.by_functions);
  // States keep their values: what the initializer writes to one is for this run only.
  std::vector<bool> used(read_.at_all.size());
  if (const mf::Program* program = initializer()) note_globals(*program, used);
  Result<memory::Ref<State>> state = State::create(module_->metadata(), machine_, devices_, used, serial_);
  if (!state.ok()) return wrap(state.take_status(), context);
  Result<memory::Ref<Globals>> made = make_globals(located, current.get(), **state);
  if (!made.ok()) return wrap(made.take_status(), context);
  HEDDLE_RETURN_IF_ERROR(check_cancelled());
  Function::drop_plans(functions_, [&] {
    std::lock_guard lock(globals_lock_);
    std::swap(globals_, *made);
  });
  names_ = std::move(located.names);
  origins_ = std::move(located.origins);
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
