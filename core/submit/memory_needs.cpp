// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Globals summed up as globals.cpp allocates them, arenas as plan.cpp lays them out. Field names are part of the runtime's promise.
#include "core/submit/memory_needs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "sdk/module/element_types.h"

namespace heddle::submit {

namespace {

namespace mf = module_format;
using Json = nlohmann::ordered_json;

// A pool gives no block of 0 bytes.
uint64_t block_bytes(uint64_t size_bytes) {
  return std::max<uint64_t>(size_bytes, 1);
}

// Without a device nobody can say what an operation of a plugin takes: kernels are taken, and the rest is counted.
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
  uint64_t while_loading = 0;  // all that lives at once before the first call
  uint64_t weights() const { return parameters + constants + derived; }
};

class Needs {
 public:
  Needs(const open::OpenModule& module, Machine& machine, const Programs& programs)
      : module_(module), machine_(machine), programs_(programs), held_(machine.device_names.size()) {
    const auto& globals = *module_.metadata().globals();
    machine_.globals.resize(globals.size());
    for (uint32_t i = 0; i < globals.size(); ++i) machine_.globals[i].device = machine_.device_of_slot[globals.Get(i)->slot()];
  }

  Status sum_up_globals() {
    const mf::Module& meta = module_.metadata();
    const ReadGlobals read = find_read_globals(meta, programs_);
    // Parameters that are the same bytes are read once for a device: of the module's file, or of one name in one scope.
    std::set<std::string> counted[2];
    for (uint32_t i = 0; i < meta.globals()->size(); ++i) {
      if (!read.at_all[i]) continue;
      const mf::Global& global = *meta.globals()->Get(i);
      const uint32_t device = machine_.globals[i].device;
      const mf::Parameter* parameter = global.kind() == mf::GlobalKind::Parameter ? meta.parameters()->Get(global.index()) : nullptr;
      auto is_new = [&](bool for_calls) {
        if (!parameter) return true;
        const module::FileExtent extent = module_.file().parameter_extent(*parameter);
        const std::string key = parameter->stored() ? fmt::format("{} {} {}", device, extent.offset, extent.length)
                                                    : fmt::format("{}:{} {}{}", device, parameter->scope()->size(),
                                                                  parameter->scope()->string_view(), parameter->name()->string_view());
        return counted[for_calls].insert(key).second;
      };
      Held& held = held_[device];
      const uint64_t bytes = block_bytes(parameter ? parameter->size_bytes() : global.size_bytes());
      if (is_new(false)) HEDDLE_RETURN_IF_ERROR(add(&held.while_loading, bytes));
      if (!read.by_functions[i] || !is_new(true)) continue;
      uint64_t* const kind = parameter                                   ? &held.parameters
                             : global.kind() == mf::GlobalKind::Constant ? &held.constants
                             : global.kind() == mf::GlobalKind::Derived  ? &held.derived
                                                                         : &held.state;
      HEDDLE_RETURN_IF_ERROR(add(kind, bytes));
    }
    if (!programs_.initializer) return Status();
    Result<Json> run = call(*programs_.initializer, open::initializer_signature(), {});
    if (!run.ok()) return wrap(run.take_status(), "heddle: planning the memory of the initializer of " + module_.path() + " failed");
    for (uint32_t device = 0; device < held_.size(); ++device)
      HEDDLE_RETURN_IF_ERROR(add(&held_[device].while_loading, (*run)["places"][device]["arena"].get<uint64_t>()));
    if (run->contains("not_counted")) not_counted_at_load = (*run)["not_counted"];
    return Status();
  }

  Json not_counted_at_load;  // null: it is all there is
  Json places() const {
    Json out = Json::array();
    for (uint32_t device = 0; device < held_.size(); ++device) {
      const Held& held = held_[device];
      out.push_back({{"place", machine_.device_names[device]},
                     {"slots", Json::array()},
                     {"parameters", held.parameters},
                     {"constants", held.constants},
                     {"derived", held.derived},
                     {"weights", held.weights()},
                     {"state", held.state},
                     {"peak_at_load", held.while_loading}});
      for (uint32_t slot = 0; slot < machine_.device_of_slot.size(); ++slot) {
        if (machine_.device_of_slot[slot] == device) out.back()["slots"].push_back(module_.metadata().slots()->Get(slot)->name()->str());
      }
    }
    return out;
  }

  // One call alone, on each device. INVALID_ARGUMENT for arguments that the function does not take.
  Result<Json> call(const mf::Program& program, const open::Signature& signature, const std::vector<std::vector<int64_t>>& dims) {
    struct Bytes {
      uint64_t arguments = 0, results = 0, arena = 0;
    };
    std::vector<Bytes> on(held_.size());
    std::vector<int64_t> symbols(signature.symbols.size(), -1);
    Json shapes = Json::array(), missing = Json::array();
    for (uint32_t i = 0; i < dims.size(); ++i) {
      const open::TensorSignature& argument = signature.arguments[i];
      const open::ActualShape shape{argument.element_type, static_cast<uint32_t>(dims[i].size()), dims[i].data()};
      const std::optional<uint64_t> bytes = module::tensor_bytes(HEDDLE_TYPE_BITS(argument.element_type), dims[i]);
      if (!bytes || !open::fits(signature, i, shape, symbols))
        return error(HEDDLE_STATUS_INVALID_ARGUMENT, "{} [HD-F-01]", open::explain_argument(signature, i, shape, symbols));
      HEDDLE_RETURN_IF_ERROR(add(&on[machine_.device_of_slot[argument.slot]].arguments, block_bytes(*bytes)));
      shapes.push_back(module::shape_text(argument.element_type, dims[i]));
    }
    Unasked unasked;
    Machine machine = machine_;
    if (!machine.choices) machine.choices = &unasked;
    Interpreter interpreter(program, signature, dims, symbols);
    interpreter.limit_grids(machine.grid_of_slot);
    Result<Interpreter::Outcome> outcome = interpreter.run();
    if (!outcome.ok()) return outcome.take_status();
    Resolver resolver(program, signature, machine, dims);
    Plan plan;
    HEDDLE_RETURN_IF_ERROR(resolver.plan_memory(interpreter, 0, plan));
    for (const ArenaNeed& arena : plan.arenas) HEDDLE_RETURN_IF_ERROR(add(&on[arena.device].arena, block_bytes(arena.size_bytes)));
    bool all_known = true;
    for (size_t i = 0; i < plan.results.size(); ++i) {
      all_known &= plan.result_known[i];
      if (plan.result_known[i]) HEDDLE_RETURN_IF_ERROR(add(&on[plan.results[i].device].results, block_bytes(plan.results[i].size_bytes)));
    }
    if (*outcome == Interpreter::Outcome::kNeedsScalar || !all_known)
      missing.push_back("what comes behind the first extent that is computed while it runs");
    if (unasked.operations != 0) missing.push_back("the workspace of operators of plugins, which depends on the device");
    Json out{{"arguments", std::move(shapes)}, {"places", Json::array()}};
    for (size_t device = 0; device < on.size(); ++device) {
      const Bytes& bytes = on[device];
      uint64_t total = 0;
      for (const uint64_t part : {held_[device].weights(), held_[device].state, bytes.arguments, bytes.results, bytes.arena})
        HEDDLE_RETURN_IF_ERROR(add(&total, part));
      out["places"].push_back({{"arguments", bytes.arguments},
                               {"results", bytes.results},
                               {"arena", bytes.arena},
                               {"total", total},
                               {"peak", std::max(total, held_[device].while_loading)}});
    }
    if (!missing.empty()) out["not_counted"] = std::move(missing);
    return out;
  }

 private:
  static Status add(uint64_t* sum, uint64_t bytes) {
    if (!__builtin_add_overflow(*sum, bytes, sum)) return Status();
    return error(HEDDLE_STATUS_OUT_OF_RANGE, "its bytes are more than 64 bits count [HD-M-02]");
  }

  const open::OpenModule& module_;
  Machine& machine_;
  const Programs& programs_;
  std::vector<Held> held_;  // per device
};

// Each slot a device of its own that wants no more than every device does.
Machine unbound_machine(const mf::Module& module) {
  Machine machine;
  for (const mf::Slot* slot : *module.slots()) machine.device_names.push_back(slot->name()->str());
  const size_t count = machine.device_names.size();
  machine.min_alignment_of_device.assign(count, 64);
  machine.grid_of_slot.assign(count, {0, 0, 0});
  machine.device_of_slot.resize(count);
  std::iota(machine.device_of_slot.begin(), machine.device_of_slot.end(), 0u);
  return machine;
}

std::vector<std::string> families_of(const mf::Program& program) {
  std::vector<std::string> families;
  for (const auto* family : *program.families()) families.push_back(family->str());
  return families;
}

// The programs for what the slots may be bound to; nothing where one is missing.
std::optional<Programs> programs_for(const mf::Module& module, const std::vector<std::string>& families) {
  auto find = [&](const flatbuffers::Vector<flatbuffers::Offset<mf::Program>>& list) -> const mf::Program* {
    const auto found = std::find_if(list.begin(), list.end(), [&](const mf::Program* one) { return families_of(*one) == families; });
    return found == list.end() ? nullptr : *found;
  };
  Programs programs;
  for (const mf::Function* function : *module.functions()) programs.functions.push_back(find(*function->programs()));
  programs.initializer = find(*module.initializer());
  const bool complete =
      (programs.initializer || module.initializer()->size() == 0) && std::ranges::all_of(programs.functions, std::identity());
  return complete ? std::optional(std::move(programs)) : std::nullopt;
}

}  // namespace

Result<std::string> memory_needs(const std::shared_ptr<Runtime>& runtime, const std::shared_ptr<const open::OpenModule>& module,
                                 MemoryRequest request) {
  Result<uint32_t> function = module->find_function(request.function);
  if (!function.ok()) return function.take_status();
  const open::Signature& signature = module->signatures()[*function];
  if (const auto dims = open::static_dims(signature); dims && request.shapes.empty()) request.shapes.push_back(*dims);
  Json out{{"function", signature.name}, {"bound", request.binding.has_value()}, {"programs", Json::array()}};
  auto add = [&](Machine machine, const Programs& programs) -> Status {
    Needs needs(*module, machine, programs);
    HEDDLE_RETURN_IF_ERROR(needs.sum_up_globals());
    const mf::Program& program = *programs.functions[*function];
    Json calls = Json::array();
    for (const std::vector<std::vector<int64_t>>& shape : request.shapes) {
      Result<Json> call = needs.call(program, signature, shape);
      if (!call.ok()) return wrap(call.take_status(), "heddle: planning the memory of a call of '" + signature.name + "' failed");
      calls.push_back(std::move(*call));
    }
    out["programs"].push_back({{"families", families_of(program)}, {"places", needs.places()}, {"calls", std::move(calls)}});
    if (!needs.not_counted_at_load.is_null()) out["programs"].back()["not_counted_at_load"] = std::move(needs.not_counted_at_load);
    return Status();
  };
  if (request.binding) {
    request.binding->bind_only = true;
    Result<memory::Ref<Instance>> instance = Instance::create(runtime, module, *request.binding);
    if (!instance.ok()) return instance.take_status();
    HEDDLE_RETURN_IF_ERROR(add((*instance)->machine(), (*instance)->programs()));
  } else {
    for (const mf::Program* program : *module->metadata().functions()->Get(*function)->programs()) {
      if (const std::optional<Programs> programs = programs_for(module->metadata(), families_of(*program)))
        HEDDLE_RETURN_IF_ERROR(add(unbound_machine(module->metadata()), *programs));
    }
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace heddle::submit
