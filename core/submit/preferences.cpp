// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Assigns rules to regions when an instance is created, and chooses what runs each region when a plan is made. Called through preferences.h.
#include "core/submit/preferences.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <optional>

#include "core/submit/portable_parts.h"
#include "sdk/module/element_types.h"
#include "sdk/module/region_name.h"

namespace heddle::submit {

namespace {

namespace mf = module_format;

constexpr uint32_t kWrite = 2;  // of BindingRef.access
constexpr std::string_view kOwn = "own", kVariant = "variant:", kLibrary = "library:", kInterpreted = "interpreted";

bool fits(const std::string& pattern, std::string_view text) {
  return fnmatch(pattern.c_str(), std::string(text).c_str(), 0) == 0;
}

// The type of the first value that it writes; UNDEFINED if the module does not tell.
heddle_element_type_t type_of(const mf::DispatchSite& site) {
  if (const mf::Operation* operation = site.operation()) return operation->operands()->Get(operation->input_count())->element_type();
  const auto* types = site.binding_types();
  for (uint32_t i = 0; types && i < types->size(); ++i) {
    if (site.bindings()->Get(i)->access() & kWrite) return types->Get(i)->element_type();
  }
  return HEDDLE_TYPE_UNDEFINED;
}

bool touches_derived(const mf::Module& module, const mf::Program& program, const mf::DispatchSite& site) {
  return std::ranges::any_of(*site.bindings(), [&](const mf::BindingRef* binding) {
    const mf::Value* value = program.values()->Get(binding->value());
    return value->kind() == mf::ValueKind::Global && module.globals()->Get(value->index())->kind() == mf::GlobalKind::Derived;
  });
}

std::string name_of(const mf::Variant& variant) {
  return fmt::format("{} {}", variant.format()->string_view(), variant.target()->string_view());
}

}  // namespace

Preferences::Preferences(host::Host& host, const open::OpenModule& module, const route::Route& route, const Machine& machine,
                         std::span<const memory::Ref<memory::Device>> devices)
    : host_(host), module_(module), route_(route), machine_(machine), devices_(devices), operations_(host, devices) {}

const Preferences::Order& Preferences::order_of(const mf::DispatchSite& site) const {
  static const Way own{Kind::kOwn, {}, std::string(kOwn), nullptr, {}};
  static const Way library{Kind::kLibrary, std::string(kAnyLibrary), "library:*", nullptr, {}};
  static const Order kernels{nullptr, {own}}, operation{nullptr, {library}}, both{nullptr, {own, library}};
  if (auto ruled = orders_.find(&site); ruled != orders_.end()) return ruled->second;
  if (!site.operation()) return kernels;
  return site.candidates()->size() == 0 ? operation : both;
}

bool Preferences::is_open(const mf::DispatchSite& site) const {
  return site.operation() || orders_.contains(&site);
}

const host::PreferConfig* Preferences::rule_for(const mf::DispatchSite& site) {
  const std::string_view name = site.name()->string_view();
  const mf::Operation* operation = site.operation();
  for (const host::PreferConfig& rule : host_.config().prefers) {
    const bool matches = module::region_matches(rule.op, name) ||
                         (operation && (fits(rule.op, operation->name()->string_view()) || fits(rule.op, submit::name_of(*operation))));
    if (!matches) continue;
    if (rule.dtype.empty()) return &rule;
    const heddle_element_type_t type = type_of(site);
    if (std::ranges::find(rule.dtype, module::element_type_name(type)) != rule.dtype.end()) return &rule;
    if (type != HEDDLE_TYPE_UNDEFINED || told_untyped_) continue;
    told_untyped_ = true;
    host_.log(
        HEDDLE_LOG_WARN, "submit",
        fmt::format("[[prefer]] at {} depends on dtype, but {} does not state the element type of region '{}'; compile the model again",
                    rule.place, module_.path(), name));
  }
  return nullptr;
}

void Preferences::find_variant(Way& way, const mf::Program& program, const mf::DispatchSite& site, const Load& load) {
  const mf::Executable& executable = *module_.metadata().executables()->Get(site.executable());
  const uint32_t device_index = machine_.device_of_slot[site.slot()];
  const memory::Device& device = *devices_[device_index];
  std::optional<uint32_t> best;
  uint32_t best_rank = 0;
  std::string there, wrong;
  for (uint32_t i = 0; i < executable.variants()->size(); ++i) {
    const mf::Variant& variant = *executable.variants()->Get(i);
    const std::string_view format = variant.format()->string_view(), target = variant.target()->string_view();
    if (variant.family()->string_view() != view(device.description().family)) continue;
    if (there.size() < 200) there += (there.empty() ? "" : ", ") + std::string(target);
    if (!fits(way.name, target) && !fits(way.name, format) && !fits(way.name, name_of(variant))) continue;
    uint32_t rank = 0;
    Status ranked(device.api().dispatch->variant_rank(device.get(), to_c(format), to_c(target), &rank));
    std::string why = !ranked.ok() ? std::string(ranked.message()) : rank == 0 ? "the device does not run it" : "";
    if (why.empty()) why = route::why_too_large(executable, variant, route::limits_of(device.description()));
    if (!why.empty()) {
      wrong += fmt::format("{}{}: {}", wrong.empty() ? "" : "; ", name_of(variant), why);
    } else if (!best || rank > best_rank) {
      best = i;
      best_rank = rank;
    }
  }
  if (!best) {
    way.refusal = !wrong.empty()
                      ? wrong
                      : fmt::format("executable '{}' has no such variant for it; it has {}", executable.name()->string_view(), there);
    return;
  }
  const route::ChosenCode* chosen = chosen_for(site);
  if (!chosen) return;  // no chosen program has such a site
  way.kernels = &machine_.entries[chosen->executable][chosen->device];
  if (chosen->variant == *best) return;
  // For example, panels of weights are as wide as a variant's registers: the regions that pack and read them must use the same variant.
  if (touches_derived(module_.metadata(), program, site)) {
    way.refusal = fmt::format("it shares derived values with other regions, and their layout is that of {}",
                              name_of(*executable.variants()->Get(chosen->variant)));
    return;
  }
  use_code(way, {site.executable(), device_index, *best, chosen->entries}, load);
}

void Preferences::find_own_kernels(Way& way, const mf::DispatchSite& site, const Load& load) {
  const route::ChosenCode* chosen = chosen_for(site);
  if (!chosen) return;
  struct Found {
    bool is_portable, has_own;
    std::string why;
  } found = {false, false, "its code for the device is not portable"};
  auto see = [](void* its, heddle_string_t, const heddle_portable_part_t& part) {
    auto& all = *static_cast<Found*>(its);
    if (!std::exchange(all.is_portable, true)) all.why = view(part.reason);
    all.has_own |= part.kernel.size != 0;
  };
  route::ChosenCode code{chosen->executable, chosen->device, chosen->variant, {site.candidates()->Get(0)->entry()}, way.own_kernels};
  visit_portable_parts(*devices_[chosen->device], module_, code, see, &found);
  if (!found.has_own && !(found.is_portable && way.own_kernels == kInterpreted)) {
    way.refusal = std::move(found.why);
    return;
  }
  code.entries = chosen->entries;
  use_code(way, std::move(code), load);
}

const route::ChosenCode* Preferences::chosen_for(const mf::DispatchSite& site) const {
  for (const route::ChosenCode& code : route_.code) {
    if (code.executable == site.executable() && code.device == machine_.device_of_slot[site.slot()]) return &code;
  }
  return nullptr;
}

void Preferences::use_code(Way& way, route::ChosenCode code, const Load& load) {
  for (Loaded& known : loaded_) {
    if (known.code.executable != code.executable || known.code.device != code.device || known.code.variant != code.variant ||
        known.code.own_kernels != code.own_kernels)
      continue;
    way.kernels = &known.kernels;
    return;
  }
  Loaded& loaded = loaded_.emplace_front(Loaded{std::move(code), {}});
  way.kernels = &loaded.kernels;
  Status status = load(loaded.code, &loaded.kernels);
  if (status.ok()) return;
  way.refusal = std::string(status.message());
  loaded_.pop_front();
}

Preferences::Way Preferences::way_of(const std::string& text, const mf::Program& program, const mf::DispatchSite& site, const Load& load) {
  Way way;
  way.text = text;
  if (text.starts_with(kLibrary)) {
    way.kind = Kind::kLibrary;
    way.name = text.substr(kLibrary.size());
    if (!site.operation()) {
      way.refusal = "the module names no operation for it; compile the model with --operators and the plugin's manifest";
    } else if (view(devices_[machine_.device_of_slot[site.slot()]]->description().operation_target).empty()) {
      way.refusal = "its device's driver does not run operations of library plugins";
    }
    return way;
  }
  if (site.candidates()->size() == 0) way.refusal = "the module has no kernel for it";
  if (text == kOwn) return way;
  way.kind = Kind::kVariant;
  if (!way.refusal.empty()) return way;
  if (text.starts_with(kVariant)) {
    way.name = text.substr(kVariant.size());
    find_variant(way, program, site, load);
  } else {
    way.own_kernels = std::string_view(text).substr(text.find(':') + 1);  // of "interpreted", all
    find_own_kernels(way, site, load);
  }
  return way;
}

void Preferences::add(std::string_view function, const mf::Program& program, const Load& load) {
  for (const mf::DispatchSite* site : *program.dispatches()) {
    added_.push_back({function, site});
    const host::PreferConfig* rule = rule_for(*site);
    if (!rule) continue;
    Order order{rule, {}};
    bool is_sure = false;  // alternatives after existing kernels need not be searched for now
    for (const std::string& text : rule->use) {
      Way way = way_of(text, program, *site, load);
      if (way.kind != Kind::kLibrary) {
        is_sure |= way.refusal.empty();
      } else if (way.refusal.empty() && !is_sure) {
        way.refusal = std::string(operations_.check(*site->operation(), way.name).message());
      }
      order.ways.push_back(std::move(way));
    }
    orders_.emplace(site, std::move(order));
  }
}

Result<Choice> Preferences::take(const Way& way, const mf::DispatchSite& site, bool kernel_fits, std::span<const int64_t> dims) {
  if (!way.refusal.empty()) return error(HEDDLE_STATUS_UNAVAILABLE, "{}", way.refusal);
  const uint32_t device = machine_.device_of_slot[site.slot()];
  if (way.kind == Kind::kLibrary) {
    Result<std::shared_ptr<const Operation>> operation = operations_.prepare(*site.operation(), device, dims, way.name);
    if (!operation.ok()) return operation.take_status();
    return Choice{nullptr, std::move(*operation)};
  }
  if (!kernel_fits) return error(HEDDLE_STATUS_UNAVAILABLE, "none of its kernels accepts these extents");
  return Choice{way.kernels ? way.kernels : &machine_.entries[site.executable()][device], nullptr};
}

Status Preferences::nothing_will_do(const Order& order, const std::vector<std::string>& passed) const {
  if (!order.rule)
    return error(HEDDLE_STATUS_UNAVAILABLE, "neither of the two can run it: {}; {}", fmt::join(passed, "; "), kInstallLibrary);
  return error(HEDDLE_STATUS_UNAVAILABLE, "no entry of [[prefer]] at {} can run it: {}; add one that can to its 'use', or remove the rule",
               order.rule->place, passed.empty() ? std::string("its 'use' is empty") : fmt::format("{}", fmt::join(passed, "; ")));
}

Result<Choice> Preferences::choose(const mf::DispatchSite& site, bool kernel_fits, std::span<const int64_t> dims) {
  if (!is_open(site)) return Choice{&machine_.entries[site.executable()][machine_.device_of_slot[site.slot()]], nullptr};
  const Order& order = order_of(site);
  Decided decided;
  for (const Way& way : order.ways) {
    Result<Choice> choice = take(way, site, kernel_fits, dims);
    if (choice.ok()) {
      decided.runs = choice->operation ? fmt::format("{}{}", kLibrary, choice->operation->plugin)
                     : way.kernels     ? way.text
                                       : name_of_own(site);
      note(site, order, std::move(decided));
      return choice;
    }
    const heddle_status_code_t code = choice.status().code();
    if (code == HEDDLE_STATUS_DEVICE_LOST) return choice;
    if (!order.rule && order.ways.size() == 1) {
      if (code != HEDDLE_STATUS_NOT_FOUND) return choice;
      return error(code, "{}; {}", choice.status().message(), kInstallLibrary).payload("operator", submit::name_of(*site.operation()));
    }
    decided.passed.push_back(fmt::format("{}: {}", way.text, choice.status().message()));
  }
  return nothing_will_do(order, decided.passed);
}

Status Preferences::check(const mf::DispatchSite& site) {
  const Order& order = order_of(site);
  std::vector<std::string> passed;
  for (const Way& way : order.ways) {
    Status status = !way.refusal.empty()         ? error(HEDDLE_STATUS_UNAVAILABLE, "{}", way.refusal)
                    : way.kind == Kind::kLibrary ? operations_.check(*site.operation(), way.name)
                                                 : Status();
    if (status.ok()) return status;
    if (!order.rule && order.ways.size() == 1)
      return error(status.code(), "{}; {}", status.message(), kInstallLibrary).payload("operator", submit::name_of(*site.operation()));
    passed.push_back(fmt::format("{}: {}", way.text, status.message()));
  }
  return nothing_will_do(order, passed);
}

void Preferences::decide(const mf::Program& program, const open::Signature& signature) {
  const std::optional<std::vector<std::vector<int64_t>>> dims = open::static_dims(signature);
  if (!dims) return;
  Interpreter interpreter(program, signature, *dims, {});
  interpreter.describe_slots(machine_.slots);
  if (!interpreter.run().ok()) return;
  for (const RecordedCommand& command : interpreter.recording().commands) {
    if (command.kind != RecordedKind::kDispatch) continue;
    const mf::DispatchSite& site = *program.dispatches()->Get(command.site);
    if (!is_open(site)) continue;
    Result<Choice> choice = choose(site, command.has_kernel, operation_dims(site, interpreter.recording(), command));
    if (!choice.ok()) note(site, order_of(site), {"nothing", {std::string(choice.status().message())}});
  }
}

std::string Preferences::name_of_own(const mf::DispatchSite& site) const {
  const route::ChosenCode* chosen = chosen_for(site);
  if (!chosen) return std::string(kOwn);
  const mf::Variant* variant = module_.metadata().executables()->Get(chosen->executable)->variants()->Get(chosen->variant);
  return fmt::format("{} {}", kOwn, variant->target()->string_view());
}

void Preferences::note(const mf::DispatchSite& site, const Order& order, Decided decided) {
  {
    std::lock_guard lock(mutex_);
    Decided& known = decided_[&site];
    if (known.runs == decided.runs && known.passed == decided.passed) return;
    known = decided;
  }
  if (decided.passed.empty()) return;
  host_.log(HEDDLE_LOG_INFO, "submit",
            fmt::format("region '{}' is run by {}{}; skipped: {}", site.name()->string_view(), decided.runs,
                        order.rule ? ", by [[prefer]] at " + order.rule->place : std::string(), fmt::join(decided.passed, "; ")));
}

std::vector<Preferences::Region> Preferences::regions() const {
  std::vector<Region> list;
  std::lock_guard lock(mutex_);
  for (const Added& added : added_) {
    const Order& order = order_of(*added.site);
    Region region{added.function, added.site->name()->string_view(), added.site->slot(), {}, {}, {}};
    region.why = order.rule ? "[[prefer]] at " + order.rule->place : "no rule";
    if (auto known = decided_.find(added.site); known != decided_.end()) {
      region.runs = known->second.runs;
      region.passed = known->second.passed;
    } else {
      for (const Way& way : order.ways) {
        if (!way.refusal.empty()) {
          region.passed.push_back(way.text + ": " + way.refusal);
          continue;
        }
        region.runs += (region.runs.empty() ? "" : ", or else ") + (way.kind == Kind::kOwn ? name_of_own(*added.site) : way.text);
        const uint32_t last = added.site->candidates()->size() - 1;
        if (way.kind != Kind::kLibrary && added.site->candidates()->Get(last)->guards()->size() == 0) break;  // it accepts any extents
      }
    }
    list.push_back(std::move(region));
  }
  return list;
}

}  // namespace heddle::submit
