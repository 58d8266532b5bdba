// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums up globals as globals.cpp allocates them, and arenas as plan.cpp lays them out. Field names are part of the runtime's stable interface.
#include "core/submit/memory_needs.h"
#include "core/submit/initializer_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/host/json_text.h"
#include "sdk/module/element_types.h"

namespace heddle::submit {

namespace {

namespace mf = module_format;

// Saturates at the largest number. A pool has no blocks of 0 bytes.
void add_block(uint64_t& sum, uint64_t size_bytes) {
  if (__builtin_add_overflow(sum, std::max<uint64_t>(size_bytes, 1), &sum)) sum = UINT64_MAX;
}
void add(uint64_t& sum, uint64_t bytes) {
  if (bytes != 0) add_block(sum, bytes);
}

// `"name": 1, "other": 2`
std::string fields(std::initializer_list<std::pair<const char*, uint64_t>> list) {
  std::string out;
  for (const auto& [name, bytes] : list) out += fmt::format("{}\"{}\": {}", out.empty() ? "" : ", ", name, bytes);
  return out;
}

// Concatenated, as an array under a name.
std::string listed(const char* name, const std::vector<std::string>& json) {
  return fmt::format("\"{}\": [{}]", name, fmt::join(json, ", "));
}

// Without a device the need of a plugin's operation is unknown: kernels are chosen where possible, and the remaining operations are counted.
class Unasked final : public Choices {
 public:
  Result<Choice> choose(const mf::DispatchSite&, bool kernel_fits, std::span<const int64_t>) override {
    if (!kernel_fits) ++operations;
    return Choice{&none_, nullptr};
  }
  uint32_t operations = 0;

 private:
  const std::vector<heddle_entry_t*> none_;
};

// Bytes on one device.
struct Held {
  uint64_t parameters = 0, constants = 0, derived = 0, state = 0;
  uint64_t weights = 0;        // the sum of the first three
  uint64_t while_loading = 0;  // the maximum live at once before the first call
  uint64_t sources = 0;        // of these, the parameters that only the initializer reads
};
struct Called {
  uint64_t arguments = 0, copies = 0, results = 0, arena = 0;
};

class Needs {
 public:
  Needs(const open::OpenModule& module, const Machine& machine, const Programs& programs)
      : module_(module), machine_(machine), programs_(programs), held_(machine.device_names.size()) {}

  // "places", and a list of what is not counted in them.
  Result<std::string> places() {
    Status summed = sum_up_globals();
    if (!summed.ok()) return wrap(std::move(summed), "heddle: planning the memory of " + module_.path() + " failed");
    std::string not_counted;
    if (programs_.initializer) {
      std::vector<Called> called(held_.size());
      Status run = measure(*programs_.initializer, open::initializer_signature(), {}, called, not_counted);
      if (!run.ok()) return wrap(std::move(run), "heddle: planning the memory of the initializer of " + module_.path() + " failed");
      for (size_t device = 0; device < held_.size(); ++device) add(held_[device].while_loading, called[device].arena);
    }
    std::vector<std::string> json;
    for (uint32_t device = 0; device < held_.size(); ++device) {
      Held& held = held_[device];
      for (const uint64_t part : {held.parameters, held.constants, held.derived}) add(held.weights, part);
      std::vector<std::string> slots;
      for (uint32_t slot = 0; slot < machine_.device_of_slot.size(); ++slot) {
        if (machine_.device_of_slot[slot] == device) slots.push_back(module_.metadata().slots()->Get(slot)->name()->str());
      }
      json.push_back(fmt::format("{{\"place\": {}, \"slots\": {}, {}}}", host::json_quoted(machine_.device_names[device]),
                                 host::json_quoted(slots),
                                 fields({{"parameters", held.parameters},
                                         {"constants", held.constants},
                                         {"derived", held.derived},
                                         {"weights", held.weights},
                                         {"state", held.state},
                                         {"peak_at_load", held.while_loading},
                                         {"peak_at_load_mapped", held.while_loading - held.parameters - held.sources}})));
    }
    return listed("places", json) + (not_counted.empty() ? "" : ", \"not_counted_at_load\": [" + not_counted + "]");
  }

  // A single call, on each device. INVALID_ARGUMENT for arguments that the function does not accept.
  Result<std::string> call(const mf::Program& program, const open::Signature& signature, const std::vector<std::vector<int64_t>>& dims) {
    std::vector<Called> called(held_.size());
    std::string not_counted;
    Status measured = measure(program, signature, dims, called, not_counted);
    if (!measured.ok()) return wrap(std::move(measured), "heddle: planning the memory of a call of '" + signature.name + "' failed");
    std::vector<std::string> shapes, json;
    for (size_t i = 0; i < dims.size(); ++i) shapes.push_back(module::shape_text(signature.arguments[i].element_type, dims[i]));
    for (size_t device = 0; device < called.size(); ++device) {
      const Called& bytes = called[device];
      const Held& held = held_[device];
      uint64_t total = 0;
      for (const uint64_t part : {held.weights, held.state, bytes.arguments, bytes.results, bytes.arena}) add(total, part);
      json.push_back("{" +
                     fields({{"arguments", bytes.arguments},
                             {"copies", bytes.copies},
                             {"results", bytes.results},
                             {"arena", bytes.arena},
                             {"total", total},
                             {"peak", std::max(total, held.while_loading)}}) +
                     "}");
    }
    return fmt::format("{{\"arguments\": {}, {}, \"not_counted\": [{}]}}", host::json_quoted(shapes), listed("places", json), not_counted);
  }

 private:
  Status sum_up_globals() {
    const mf::Module& meta = module_.metadata();
    const ReadGlobals read = find_read_globals(meta, programs_);
    // Parameters that are the same bytes are read once per device.
    std::set<std::string> counted;
    for (uint32_t i = 0; i < meta.globals()->size(); ++i) {
      const mf::Global& global = *meta.globals()->Get(i);
      if (!read.at_all[i] || (global.kind() == mf::GlobalKind::Parameter && !read.by_functions[i])) continue;
      Held& held = held_[machine_.globals[i].device];
      uint64_t* const kinds[] = {&held.parameters, &held.constants, &held.derived, &held.state};
      const auto [bytes, key] = bytes_of(i);
      if (!key.empty() && !counted.insert(key).second) continue;
      add_block(held.while_loading, bytes);
      if (read.by_functions[i]) add_block(*kinds[static_cast<size_t>(global.kind())], bytes);
    }
    if (!programs_.initializer) return Status();
    // The block for data that only the initializer reads.
    std::vector<bool> elsewhere(meta.globals()->size());
    for (uint32_t i = 0; i < elsewhere.size(); ++i) {
      const mf::Global& global = *meta.globals()->Get(i);
      elsewhere[i] = global.kind() == mf::GlobalKind::Parameter && counted.contains(bytes_of(i).second);
    }
    const std::vector<InitializerPart> parts =
        parts_of_initializer(meta, *programs_.initializer, read.by_functions, usual_part_bytes(meta));
    Result<InitializerStage> stage = stage_of_initializer(meta, parts, machine_, elsewhere);
    if (!stage.ok()) return stage.take_status();
    for (size_t device = 0; device < held_.size(); ++device) {
      held_[device].sources = stage->bytes_of_device[device];
      add(held_[device].while_loading, held_[device].sources);
    }
    return Status();
  }

  // The bytes of a global; and for a parameter its identity on the device: in the module's file, or a name in a scope.
  std::pair<uint64_t, std::string> bytes_of(uint32_t index) const {
    const mf::Module& meta = module_.metadata();
    const mf::Global& global = *meta.globals()->Get(index);
    if (global.kind() != mf::GlobalKind::Parameter) return {global.size_bytes(), ""};
    const uint32_t device = machine_.globals[index].device;
    const mf::Parameter& parameter = *meta.parameters()->Get(global.index());
    const module::FileExtent extent = module_.file().parameter_extent(parameter);
    return {parameter.size_bytes(), parameter.stored() ? fmt::format("{} {}+{}", device, extent.offset, extent.length)
                                                       : fmt::format("{} {}:{}{}", device, parameter.scope()->size(),
                                                                     parameter.scope()->string_view(), parameter.name()->string_view())};
  }

  Status measure(const mf::Program& program, const open::Signature& signature, const std::vector<std::vector<int64_t>>& dims,
                 std::vector<Called>& out, std::string& not_counted) {
    std::vector<int64_t> symbols(signature.symbols.size(), -1);
    for (uint32_t i = 0; i < dims.size(); ++i) {
      const open::TensorSignature& argument = signature.arguments[i];
      const open::ActualShape shape{argument.element_type, static_cast<uint32_t>(dims[i].size()), dims[i].data()};
      const std::optional<uint64_t> bytes = module::tensor_bytes(HEDDLE_TYPE_BITS(argument.element_type), dims[i]);
      const bool fits = shape.rank == argument.extents.size() &&
                        open::fits(argument.extents.data(), shape.dims, shape.rank, signature.symbols, symbols.data());
      if (!fits || !bytes)
        return error(HEDDLE_STATUS_INVALID_ARGUMENT, "{}{} [HD-F-01]", open::explain_argument(signature, i, shape, symbols),
                     fits ? ", whose bytes do not fit 64 bits" : "");
      Called& called = out[machine_.device_of_slot[argument.slot]];
      add_block(called.arguments, *bytes);
      if (argument.is_consumed) add_block(called.copies, *bytes);
    }
    Interpreter interpreter(program, signature, dims, symbols);
    interpreter.describe_slots(machine_.slots);
    Result<Interpreter::Outcome> outcome = interpreter.run();
    if (!outcome.ok()) return outcome.take_status();
    Resolver resolver(program, signature, machine_, dims);
    Plan plan;
    const bool is_one_piece = *outcome == Interpreter::Outcome::kFinished;
    if (!is_one_piece) resolver.place_all();
    HEDDLE_RETURN_IF_ERROR(resolver.plan_memory(interpreter, 0, plan));
    for (const ArenaNeed& arena : plan.arenas) add_block(out[arena.device].arena, arena.size_bytes);
    bool is_whole = is_one_piece || resolver.all_placed();
    for (size_t i = 0; i < plan.results.size(); ++i) {
      if (signature.results[i].alias >= 0) continue;  // in the memory of an argument
      if (plan.result_known[i]) {
        add_block(out[plan.results[i].device].results, plan.results[i].size_bytes);
      } else {
        is_whole = false;
      }
    }
    if (!is_whole) not_counted = "\"everything after the first extent that is computed while it runs\"";
    if (auto* unasked = dynamic_cast<Unasked*>(machine_.choices); unasked && std::exchange(unasked->operations, 0) != 0)
      not_counted += (is_whole ? "" : ", ") + std::string("\"the workspace of operators of plugins, which depends on the device\"");
    return Status();
  }

  const open::OpenModule& module_;
  const Machine& machine_;
  const Programs& programs_;
  std::vector<Held> held_;  // per device
};

// Each slot is a separate device with the smallest requirements.
Machine unbound_machine(const mf::Module& module) {
  Machine machine;
  for (const mf::Slot* slot : *module.slots()) machine.device_names.push_back(slot->name()->str());
  const size_t count = machine.device_names.size();
  machine.min_alignment_of_device.assign(count, 64);
  machine.slots.resize(count);
  machine.device_of_slot.resize(count);
  std::iota(machine.device_of_slot.begin(), machine.device_of_slot.end(), 0u);
  place_globals(module, machine);
  return machine;
}

std::vector<std::string> families_of(const mf::Program& program) {
  std::vector<std::string> families;
  for (const auto* family : *program.families()) families.push_back(family->str());
  return families;
}

using ProgramList = flatbuffers::Vector<flatbuffers::Offset<mf::Program>>;

// The program for the same devices as `like`; NULL if there is none.
const mf::Program* program_like(const mf::Program& like, const ProgramList& list) {
  const std::vector<std::string> families = families_of(like);
  for (const mf::Program* program : list) {
    if (families_of(*program) == families) return program;
  }
  return nullptr;
}

}  // namespace

Result<std::string> memory_needs(const std::shared_ptr<Runtime>& runtime, const std::shared_ptr<const open::OpenModule>& module,
                                 MemoryRequest request) {
  const mf::Module& meta = module->metadata();
  const open::Signature& signature = module->signatures()[request.function];
  std::vector<std::string> json;
  auto add_program = [&](const Machine& machine, const Programs& programs) -> Status {
    Needs needs(*module, machine, programs);
    const mf::Program& program = *programs.functions[request.function];
    Result<std::string> places = needs.places();
    if (!places.ok()) return places.take_status();
    std::vector<std::string> calls;
    auto add_call = [&](const std::vector<std::vector<int64_t>>& dims) -> Status {
      Result<std::string> call = needs.call(program, signature, dims);
      if (call.ok()) calls.push_back(std::move(*call));
      return call.take_status();
    };
    const auto always = open::static_dims(signature);
    if (always && request.call_count == 0) HEDDLE_RETURN_IF_ERROR(add_call(*always));
    const heddle_shape_t* shape = request.shapes;
    for (uint32_t i = 0; i < request.call_count; ++i) {
      std::vector<std::vector<int64_t>> dims(signature.arguments.size());
      for (std::vector<int64_t>& extents : dims) {
        if (shape->rank > HEDDLE_MAX_RANK || (shape->rank != 0 && !shape->dims)) {
          return error(HEDDLE_STATUS_INVALID_ARGUMENT,
                       "heddle: planning the memory of call {} failed: a shape has rank {}{}; ranks are up to {}", i, shape->rank,
                       shape->dims ? "" : " and no extents", HEDDLE_MAX_RANK);
        }
        extents.assign(shape->dims, shape->dims + shape->rank);
        ++shape;
      }
      HEDDLE_RETURN_IF_ERROR(add_call(dims));
    }
    json.push_back(fmt::format("{{\"families\": {}, {}, {}}}", host::json_quoted(families_of(program)), *places, listed("calls", calls)));
    return Status();
  };
  if (request.binding) {
    request.binding->bind_only = true;
    Result<memory::Ref<Instance>> instance = Instance::create(runtime, module, *request.binding);
    if (!instance.ok()) return instance.take_status();
    HEDDLE_RETURN_IF_ERROR(add_program((*instance)->machine(), (*instance)->programs()));
  } else {
    for (const mf::Program* like : *meta.functions()->Get(request.function)->programs()) {
      // If one of the other functions has no program for the same devices, slots cannot be bound to these.
      Programs programs;
      for (const mf::Function* function : *meta.functions()) programs.functions.push_back(program_like(*like, *function->programs()));
      programs.initializer = program_like(*like, *meta.initializer());
      if (std::ranges::count(programs.functions, nullptr) != 0 || (!programs.initializer && meta.initializer()->size() != 0)) continue;
      Machine machine = unbound_machine(meta);
      Unasked unasked;
      machine.choices = &unasked;
      HEDDLE_RETURN_IF_ERROR(add_program(machine, programs));
    }
  }
  return fmt::format("{{\"function\": {}, \"bound\": {}, {}}}", host::json_quoted(signature.name), request.binding.has_value(),
                     listed("programs", json));
}

}  // namespace heddle::submit
