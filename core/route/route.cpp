// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Chooses devices, programs and variants, and explains the choices.
// Slots are bound in order, each to the first preferred device for which the remaining slots can be bound, too.
#include "core/route/route.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "heddle/code.h"

namespace heddle::route {

namespace {

namespace mf = module_format;
using module::JsonWriter;

constexpr uint32_t kMaxBindings = 4096;  // combinations of devices to try
constexpr size_t kMaxReasons = 64;

struct Refusal {
  std::string slot, device, reason;
};

struct RankedVariant {
  uint32_t variant = 0;
  uint32_t rank = 0;
};

}  // namespace

DeviceLimits limits_of(const heddle_device_description_t& device) {
  return {device.max_bindings, device.max_constants_bytes, device.max_workgroup_size, device.subgroup_size, device.shared_memory_bytes};
}

std::string why_too_large(const mf::Executable& executable, const mf::Variant& variant, const DeviceLimits& limits) {
  const uint32_t count = std::min(executable.entries()->size(), variant.resources()->size());
  for (uint32_t i = 0; i < count; ++i) {
    const mf::Entry* entry = executable.entries()->Get(i);
    const mf::EntryResources* needs = variant.resources()->Get(i);
    uint64_t threads = 1;
    for (uint32_t side : *needs->workgroup_size()) {
      if (__builtin_mul_overflow(threads, uint64_t{side}, &threads)) threads = UINT64_MAX;
    }
    const struct {
      const char* what;
      uint64_t needed, there;
    } each[] = {{"bindings", entry->binding_count(), limits.max_bindings},
                {"bytes of constants", entry->constants_bytes(), limits.max_constants_bytes},
                {"threads in a workgroup", threads, limits.max_workgroup_size},
                {"bytes of shared memory", needs->shared_memory_bytes(), limits.shared_memory_bytes}};
    for (const auto& one : each) {
      if (one.there == 0 || one.needed <= one.there) continue;
      return fmt::format("its entry '{}' needs {} {}, the device has {} [HD-M-04]", entry->name()->string_view(), one.needed, one.what,
                         one.there);
    }
    if (needs->subgroup_size() != 0 && limits.subgroup_size != 0 && needs->subgroup_size() != limits.subgroup_size) {
      return fmt::format("its entry '{}' is for subgroups of {} threads, the device's have {} [HD-M-04]", entry->name()->string_view(),
                         needs->subgroup_size(), limits.subgroup_size);
    }
  }
  return "";
}

namespace {

// Programs that any device may run whose driver takes their code, if there is none of its own family (heddle/code.h, portable/1).
constexpr std::string_view kPortable = "portable";

class Search {
 public:
  Search(const mf::Module& module, const std::vector<DeviceFacts>& facts, const std::vector<SlotPreference>& preferences, const Rank& rank,
         const std::vector<RefusedCode>& refused)
      : module_(module),
        facts_(facts),
        preferences_(preferences),
        rank_(rank),
        slots_(module.slots()->size()),
        bound_(slots_, 0),
        families_(slots_) {
    for (const RefusedCode& code : refused) unfit_[{code.executable, code.device, code.variant}] = code.reason;
  }

  Result<Route> run() {
    if (bind(0)) return make_route();
    return refused();
  }

  // After run() chose a route. Does not query devices.
  void explain(JsonWriter& out) const {
    explain_slots(out);
    explain_functions(out);
    explain_executables(out);
  }

 private:
  std::string slot_name(uint32_t slot) const {
    std::string name = module_.slots()->Get(slot)->name()->str();
    return name.empty() ? "default" : name;
  }

  void refuse(uint32_t slot, uint32_t device, std::string reason) {
    for (const Refusal& old : refusals_) {
      if (old.device == facts_[device].alias && old.reason == reason && old.slot == slot_name(slot)) return;
    }
    if (refusals_.size() < kMaxReasons) refusals_.push_back({slot_name(slot), facts_[device].alias, std::move(reason)});
  }

  // Whether the families bound to slots [0, count) are a prefix of the program's families.
  bool starts_with(const mf::Program* program, uint32_t count) const {
    for (uint32_t i = 0; i < count; ++i) {
      if (program->families()->Get(i)->string_view() != families_[i]) return false;
    }
    return true;
  }

  bool has_program(const flatbuffers::Vector<flatbuffers::Offset<mf::Program>>& programs, uint32_t count) const {
    return std::any_of(programs.begin(), programs.end(), [&](const mf::Program* program) { return starts_with(program, count); });
  }

  bool bind(uint32_t slot) {
    if (slot == slots_) return complete();
    for (uint32_t device : preferences_[slot].devices) {
      if (++tried_ > kMaxBindings) return false;
      bound_[slot] = device;
      std::string missing;
      bool has_programs = false;
      for (std::string_view family : {std::string_view(facts_[device].family), kPortable}) {
        if (bound_as_another(slot, device, family)) continue;
        families_[slot] = family;
        std::string lacks = missing_program(slot + 1);
        has_programs |= lacks.empty();
        if (lacks.empty() && bind(slot + 1)) return true;
        if (missing.empty()) missing = std::move(lacks);
        if (family == kPortable) break;
      }
      if (!has_programs) refuse(slot, device, missing);
    }
    return false;
  }

  // A device runs programs of one family.
  bool bound_as_another(uint32_t slot, uint32_t device, std::string_view family) const {
    for (uint32_t i = 0; i < slot; ++i) {
      if (bound_[i] == device && families_[i] != family) return true;
    }
    return false;
  }

  // Why no set of programs starts with the families bound so far; empty if one does.
  std::string missing_program(uint32_t count) const {
    std::string families;
    for (uint32_t i = 0; i < count; ++i) families.append(i ? "," : "").append(families_[i]);
    for (const mf::Function* function : *module_.functions()) {
      if (!has_program(*function->programs(), count)) {
        return "function '" + function->name()->str() + "' has no program for '" + families + "'";
      }
    }
    if (module_.initializer()->size() != 0 && !has_program(*module_.initializer(), count)) {
      return "the initializer has no program for '" + families + "'";
    }
    return "";
  }

  // All slots are bound: every executable that the programs use needs a variant.
  bool complete() {
    std::set<std::pair<uint32_t, uint32_t>> needed;  // executable, slot
    for_each_site([&](const mf::DispatchSite& site) { needed.insert({site.executable(), site.slot()}); });
    chosen_.clear();
    for (const auto& [executable, slot] : needed) {
      uint32_t device = bound_[slot];
      if (chosen_.count({executable, device})) continue;
      std::optional<RankedVariant> best = best_variant(executable, device, families_[slot]);
      if (!best && unusable_.count(device)) return false;  // the reason is already recorded
      if (!best) {
        std::string offered, unfit;
        for (const mf::Variant* variant : *module_.executables()->Get(executable)->variants()) {
          const std::string format = variant->format()->str();
          if (offered.size() < 200) offered += (offered.empty() ? "" : ", ") + format + " " + variant->target()->str();
          if (format.starts_with("portable/") && format != HEDDLE_CODE_PORTABLE) {
            unfit = format == "portable/0" ? "; portable/0 was not frozen, so compile the model again"
                                           : "; install a newer Heddle, and a driver that takes " + format;
          }
        }
        for (const auto& [key, reason] : unfit_) {
          if (key.executable != executable || key.device != device || reason.empty() || unfit.size() > 400) continue;
          const mf::Variant* variant = module_.executables()->Get(executable)->variants()->Get(key.variant);
          unfit += "; " + variant->format()->str() + " " + variant->target()->str() + ": " + reason;
        }
        refuse(slot, device,
               "executable '" + module_.executables()->Get(executable)->name()->str() + "' has no variant that it runs (it has " +
                   (offered.empty() ? "none" : offered) + ")" + unfit);
        return false;
      }
      chosen_[{executable, device}] = *best;
    }
    return true;
  }

  // Visits the sites of kernels in the programs for the bound families.
  template <typename Visit>
  void for_each_site(const Visit& visit) const {
    auto visit_program = [&](const flatbuffers::Vector<flatbuffers::Offset<mf::Program>>& programs) {
      const int64_t index = program_index(programs);
      if (index < 0) return;
      for (const mf::DispatchSite* site : *programs.Get(static_cast<uint32_t>(index))->dispatches()) {
        if (site->candidates()->size() != 0) visit(*site);
      }
    };
    for (const mf::Function* function : *module_.functions()) visit_program(*function->programs());
    visit_program(*module_.initializer());
  }

  std::optional<RankedVariant> best_variant(uint32_t executable, uint32_t device, std::string_view family) {
    std::optional<RankedVariant> best;
    const auto& variants = *module_.executables()->Get(executable)->variants();
    for (uint32_t i = 0; i < variants.size(); ++i) {
      const mf::Variant* variant = variants.Get(i);
      if (variant->family()->string_view() != family) continue;
      auto key = std::make_pair(device, variant->format()->str() + " " + variant->target()->str());
      auto known = ranks_.find(key);
      if (known == ranks_.end()) {
        Result<uint32_t> rank = rank_(device, variant->format()->string_view(), variant->target()->string_view());
        uint32_t value = 0;
        if (rank.ok()) {
          value = *rank;
        } else {  // the device cannot be opened: this is a reason, not a failure
          refuse(slot_of(device), device, std::string(rank.status().message()));
          unusable_.insert(device);
        }
        known = ranks_.emplace(key, value).first;
      }
      if (known->second == 0) continue;
      auto fits = unfit_.find({executable, device, i});
      if (fits == unfit_.end()) {
        std::string reason = why_too_large(*module_.executables()->Get(executable), *variant, facts_[device].limits);
        fits = unfit_.emplace(Tried{executable, device, i}, std::move(reason)).first;
      }
      if (fits->second.empty() && (!best || known->second > best->rank)) best = RankedVariant{i, known->second};
    }
    return best;
  }

  uint32_t slot_of(uint32_t device) const {
    for (uint32_t i = 0; i < slots_; ++i) {
      if (bound_[i] == device) return i;
    }
    return 0;
  }

  Route make_route() {
    Route route;
    std::map<uint32_t, uint32_t> index_of;
    for (uint32_t device : bound_) {
      if (index_of.emplace(device, static_cast<uint32_t>(route.devices.size())).second) route.devices.push_back(device);
      route.device_of_slot.push_back(index_of[device]);
    }
    for (const mf::Function* function : *module_.functions()) {
      route.program_of_function.push_back(static_cast<uint32_t>(program_index(*function->programs())));
    }
    if (module_.initializer()->size() != 0) route.initializer = program_index(*module_.initializer());
    std::map<std::pair<uint32_t, uint32_t>, std::set<uint32_t>> entries;  // per executable and device
    for_each_site([&](const mf::DispatchSite& site) {
      for (const mf::Candidate* candidate : *site.candidates())
        entries[{site.executable(), bound_[site.slot()]}].insert(candidate->entry());
    });
    for (const auto& [key, ranked] : chosen_) {
      const std::set<uint32_t>& used = entries[key];
      route.code.push_back({key.first, index_of[key.second], ranked.variant, {used.begin(), used.end()}});
    }
    return route;
  }

  int64_t program_index(const flatbuffers::Vector<flatbuffers::Offset<mf::Program>>& programs) const {
    for (uint32_t i = 0; i < programs.size(); ++i) {
      if (starts_with(programs.Get(i), slots_)) return i;
    }
    return -1;
  }

  void explain_slots(JsonWriter& out) const {
    out.key("slots").open('[');
    for (uint32_t i = 0; i < slots_; ++i) {
      const DeviceFacts& device = facts_[bound_[i]];
      out.open('{').key("slot").text(module_.slots()->Get(i)->name()->string_view()).key("device").text(device.alias);
      out.key("driver").text(device.driver).key("family").text(device.family).key("reason").text(preferences_[i].reason);
      out.key("absent").open('[');
      for (const std::string& absent : preferences_[i].absent) out.text(absent);
      out.close(']').key("refused").open('[');
      for (const Refusal& refusal : refusals_) {
        if (refusal.slot != slot_name(i)) continue;
        out.open('{').key("device").text(refusal.device).key("reason").text(refusal.reason).close('}');
      }
      out.close(']').close('}');
    }
    out.close(']');
  }

  void explain_functions(JsonWriter& out) const {
    out.key("functions").open('[');
    for (const mf::Function* function : *module_.functions()) {
      const auto program = static_cast<uint32_t>(program_index(*function->programs()));
      out.open('{').key("name").text(function->name()->string_view()).count("program", program).key("families").open('[');
      for (const auto* family : *function->programs()->Get(program)->families()) out.text(family->string_view());
      out.close(']').close('}');
    }
    out.close(']');
  }

  void explain_executables(JsonWriter& out) const {
    out.key("executables").open('[');
    for (const auto& [key, ranked] : chosen_) {
      const mf::Executable* executable = module_.executables()->Get(key.first);
      const mf::Variant* chosen = executable->variants()->Get(ranked.variant);
      out.open('{').key("name").text(executable->name()->string_view()).key("device").text(facts_[key.second].alias);
      out.key("format").text(chosen->format()->string_view()).key("target").text(chosen->target()->string_view());
      out.count("rank", ranked.rank).key("others").open('[');
      for (uint32_t i = 0; i < executable->variants()->size(); ++i) {
        const mf::Variant* variant = executable->variants()->Get(i);
        if (i == ranked.variant) continue;
        out.open('{').key("format").text(variant->format()->string_view()).key("target").text(variant->target()->string_view());
        auto rank = ranks_.find({key.second, variant->format()->str() + " " + variant->target()->str()});
        if (rank == ranks_.end()) {
          out.key("rank").null();
        } else {
          out.count("rank", rank->second);
        }
        auto fits = unfit_.find({key.first, key.second, i});
        if (fits != unfit_.end() && !fits->second.empty()) out.key("reason").text(fits->second);
        out.close('}');
      }
      out.close(']').close('}');
    }
    out.close(']');
  }

  Status refused() const {
    bool nothing =
        std::any_of(preferences_.begin(), preferences_.end(), [](const SlotPreference& preference) { return preference.devices.empty(); });
    std::string reasons;
    for (uint32_t i = 0; i < slots_; ++i) {
      std::string of_slot;
      for (const Refusal& refusal : refusals_) {
        if (refusal.slot == slot_name(i)) of_slot += (of_slot.empty() ? "" : "; ") + refusal.device + ": " + refusal.reason;
      }
      for (const std::string& absent : preferences_[i].absent) of_slot += (of_slot.empty() ? "" : "; ") + absent;
      if (of_slot.empty() && preferences_[i].devices.empty()) of_slot = "no device is available";
      if (!of_slot.empty())
        reasons += (reasons.empty() ? "" : "; ") + ("slot " + slot_name(i) + " (" + preferences_[i].reason + "): ") + of_slot;
    }
    std::string families;
    for (const std::string& family : families_of(module_)) families += (families.empty() ? "" : ", ") + family;
    return error(nothing ? HEDDLE_STATUS_NOT_FOUND : HEDDLE_STATUS_UNAVAILABLE,
                 "route: binding the module's slots to devices failed: {}; the module is compiled for: {}; see 'heddle devices' and "
                 "'heddle plugins --why'",
                 reasons.empty() ? std::string("no combination fits") : reasons, families.empty() ? std::string("nothing") : families);
  }

  const mf::Module& module_;
  const std::vector<DeviceFacts> facts_;  // copies, for explain()
  const std::vector<SlotPreference> preferences_;
  const Rank& rank_;  // only while it runs
  uint32_t slots_;
  std::vector<uint32_t> bound_;
  std::vector<std::string> families_;  // of the programs that each slot's device runs: its own, or kPortable
  uint32_t tried_ = 0;
  std::vector<Refusal> refusals_;
  std::map<std::pair<uint32_t, uint32_t>, RankedVariant> chosen_;  // executable, device
  std::map<std::pair<uint32_t, std::string>, uint32_t> ranks_;
  std::set<uint32_t> unusable_;  // devices whose rank query failed
  struct Tried {
    uint32_t executable, device, variant;
    auto operator<=>(const Tried&) const = default;
  };
  std::map<Tried, std::string> unfit_;  // why it does not fit the device; empty if it fits
};

}  // namespace

Result<Route> choose(const mf::Module& module, const std::vector<DeviceFacts>& facts, const std::vector<SlotPreference>& preferences,
                     const Rank& rank, const std::vector<RefusedCode>& refused) {
  auto search = std::make_shared<Search>(module, facts, preferences, rank, refused);
  Result<Route> route = search->run();
  if (route.ok()) route->explain = [search = std::move(search)](JsonWriter& out) { search->explain(out); };
  return route;
}

std::vector<std::string> families_of(const mf::Module& module) {
  std::vector<std::string> families;
  auto add = [&](const mf::Program* program) {
    for (const auto* family : *program->families()) {
      std::string name = family->str();
      if (std::find(families.begin(), families.end(), name) == families.end()) families.push_back(std::move(name));
    }
  };
  for (const mf::Function* function : *module.functions()) {
    for (const mf::Program* program : *function->programs()) add(program);
  }
  for (const mf::Program* program : *module.initializer()) add(program);
  return families;
}

}  // namespace heddle::route
