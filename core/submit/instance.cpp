// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creates instances: routing, opening devices, loading code; and destroys them.
// Called through instance.h; globals are filled in globals.cpp.
#include "core/submit/instance.h"

#include <algorithm>

#include "core/host/trace.h"
#include "core/submit/call.h"
#include "core/submit/function.h"
#include "core/submit/portable_parts.h"
#include "core/submit/preferences.h"

namespace heddle::submit {

namespace {

namespace mf = module_format;
using memory::Device;
using memory::Ref;

std::string shown(const std::string& slot) {
  return slot.empty() ? "default" : slot;
}

// The devices a slot may be bound to. All devices that the host returns are added to facts and infos, at the same index.
class Candidates {
 public:
  Candidates(host::Host& host, const InstanceRequest& request, std::vector<std::string> families)
      : host_(host), request_(request), families_(std::move(families)) {}

  Result<route::SlotPreference> of(const std::string& slot) {
    for (const auto& [name, device] : request_.slots) {
      if (name != slot) continue;
      Result<host::DeviceInfo> info = host_.device(device);
      if (!info.ok()) return wrap(info.take_status(), "route: binding slot " + shown(slot) + " to '" + device + "' failed");
      return route::SlotPreference{{add(*info)}, "requested", {}};
    }
    for (const host::RouteConfig& rule : host_.config().routes) {
      bool is_default = slot.empty() && (rule.slot.empty() || rule.slot == "default");
      if (!is_default && rule.slot != slot) continue;
      route::SlotPreference preference{{}, "[[route]] at " + rule.place, {}};
      for (const std::string& alias : rule.to) {
        Result<host::DeviceInfo> info = host_.device(alias);
        if (info.ok()) {
          preference.devices.push_back(add(*info));
        } else {
          preference.absent.push_back(alias + ": " + std::string(info.status().message()));
        }
      }
      if (rule.fallback_next) {
        for (uint32_t device : all()) {
          if (std::find(preference.devices.begin(), preference.devices.end(), device) == preference.devices.end())
            preference.devices.push_back(device);
        }
        preference.reason += ", then devices in order";
      }
      return preference;
    }
    return route::SlotPreference{all(), "devices in order", host_.skipped()};
  }

  const std::vector<route::DeviceFacts>& facts() const { return facts_; }
  const std::vector<host::DeviceInfo>& infos() const { return infos_; }

 private:
  uint32_t add(const host::DeviceInfo& info) {
    for (uint32_t i = 0; i < infos_.size(); ++i) {
      if (infos_[i].driver == info.driver && infos_[i].ordinal == info.ordinal && infos_[i].alias == info.alias) return i;
    }
    const heddle_device_description_t& device = info.description;
    facts_.push_back({info.alias, info.driver->id, std::string(view(device.family)), route::limits_of(device)});
    infos_.push_back(info);
    return static_cast<uint32_t>(infos_.size() - 1);
  }
  std::vector<uint32_t> all() {
    if (!listed_) {
      for (const host::DeviceInfo& info : host_.devices(families_)) all_.push_back(add(info));
      listed_ = true;
    }
    return all_;
  }

  host::Host& host_;
  const InstanceRequest& request_;
  std::vector<std::string> families_;
  std::vector<route::DeviceFacts> facts_;
  std::vector<host::DeviceInfo> infos_;
  std::vector<uint32_t> all_;
  bool listed_ = false;
};

}  // namespace

Result<Ref<Instance>> Instance::create(std::shared_ptr<Runtime> runtime, std::shared_ptr<const open::OpenModule> module,
                                       const InstanceRequest& request) {
  Ref<Instance> instance = Ref<Instance>::adopt(new Instance());
  instance->runtime_ = std::move(runtime);
  instance->module_ = std::move(module);
  if (request.bind_only) {
    HEDDLE_RETURN_IF_ERROR(instance->bind(request, {}));
    instance->make_room_for_code();
    place_globals(instance->module_->metadata(), instance->machine_);
    instance->find_preferences(false);
    return instance;
  }
  host::Trace* trace = instance->runtime_->host->trace();
  if (trace) HEDDLE_RETURN_IF_ERROR(trace->start());
  if (request.profiles || trace) instance->profile_ = std::make_unique<Profile>(instance->module_->metadata(), trace);
  Result<std::unique_ptr<Inspection>> inspection = Inspection::create(*instance->runtime_->host, *instance->module_);
  if (!inspection.ok()) return inspection.take_status();
  HEDDLE_RETURN_IF_ERROR(instance->bind_and_load(request));
  HEDDLE_RETURN_IF_ERROR(instance->find_links());
  instance->find_preferences(true);
  instance->inspection_ = std::move(*inspection);
  instance->machine_.inspection = instance->inspection_.get();
  if (request.route_only) {
    instance->decide_functions();
    return instance;
  }
  instance->read_ = find_read_globals(instance->module_->metadata(), instance->programs());
  place_globals(instance->module_->metadata(), instance->machine_);
  // Shared, since functions that a thread runs have to be copyable.
  const auto located = std::make_shared<Located>();
  located->check_hashes = request.check_hashes;
  HEDDLE_RETURN_IF_ERROR(instance->locate_parameters(request.parameter_files, nullptr, *located));
  for (uint32_t i = 0; i < instance->module_->signatures().size(); ++i) {
    instance->functions_.push_back(std::make_unique<Function>(*instance, instance->module_->signatures()[i], instance->program(i)));
  }
  if (request.in_background) {
    instance->loading_ = std::make_unique<Loading>();
    HEDDLE_RETURN_IF_ERROR(instance->loading_->start([of = instance.get(), located] { return of->load_data(*located); }));
    return instance;
  }
  HEDDLE_RETURN_IF_ERROR(instance->load_data(*located));
  return instance;
}

Status Instance::load_data(Located& located) {
  if (located.check_hashes) HEDDLE_RETURN_IF_ERROR(check_hashes(located));
  Result<memory::Ref<State>> state = State::create(module_->metadata(), machine_, devices_, read_.at_all, serial_);
  if (!state.ok()) return state.take_status();
  state_ = std::move(*state);
  Result<memory::Ref<Globals>> made = make_globals(located, nullptr, *state_);
  if (!made.ok()) return made.take_status();
  globals_ = std::move(*made);
  located.drop_unused_names(read_.by_functions);
  names_ = std::move(located.names);
  origins_ = std::move(located.origins);
  machine_.profile = profile_.get();  // from calls only
  return prepare_functions();
}

Status Instance::bind_and_load(const InstanceRequest& request) {
  std::vector<route::RefusedCode> refused;
  Status first;  // why the preferred choice failed
  for (;;) {
    Status bound = bind(request, refused);
    if (!bound.ok()) return first.ok() ? std::move(bound) : std::move(first);
    Status loaded = load_code();
    if (loaded.ok()) return loaded;
    if (failed_code_ < 0 || loaded.code() == HEDDLE_STATUS_DATA_LOSS || loaded.code() == HEDDLE_STATUS_DEVICE_LOST) {
      return first.ok() ? std::move(loaded) : std::move(first);
    }
    const route::ChosenCode& chosen = route_.code[static_cast<size_t>(failed_code_)];
    refused.push_back({chosen.executable, route_.devices[chosen.device], chosen.variant, std::string(loaded.message())});
    if (first.ok()) first = std::move(loaded);
    loaded_.clear();
    devices_.clear();
    machine_ = {};
  }
}

Status Instance::bind(const InstanceRequest& request, const std::vector<route::RefusedCode>& refused) {
  const mf::Module& meta = module_->metadata();
  for (const auto& [slot, device] : request.slots) {
    bool known = false;
    std::string names;
    for (const mf::Slot* one : *meta.slots()) {
      known |= one->name()->string_view() == slot;
      names += (names.empty() ? "" : ", ") + shown(one->name()->str());
    }
    if (!known) {
      return error(HEDDLE_STATUS_NOT_FOUND, "route: binding slot {} to '{}' failed: {} has no such slot; it has {}", shown(slot), device,
                   module_->path(), names);
    }
  }
  for (size_t i = 0; i < request.slots.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (request.slots[i].first != request.slots[j].first) continue;
      return error(HEDDLE_STATUS_INVALID_ARGUMENT, "route: binding slot {} failed: it is bound twice, to '{}' and to '{}'",
                   shown(request.slots[i].first), request.slots[j].second, request.slots[i].second);
    }
  }
  Candidates candidates(*runtime_->host, request, route::families_of(meta));
  std::vector<route::SlotPreference> of_slots;
  for (const mf::Slot* slot : *meta.slots()) {
    Result<route::SlotPreference> preference = candidates.of(slot->name()->str());
    if (!preference.ok()) return preference.take_status();
    of_slots.push_back(std::move(*preference));
  }
  auto rank = [&](uint32_t device, std::string_view format, std::string_view target) -> Result<uint32_t> {
    Result<Ref<Device>> opened = runtime_->devices.open(candidates.infos()[device]);
    if (!opened.ok()) return opened.take_status();
    uint32_t value = 0;
    Status ranked((*opened)->api().dispatch->variant_rank((*opened)->get(), to_c(format), to_c(target), &value));
    HEDDLE_RETURN_IF_ERROR((*opened)->noted(std::move(ranked)));
    return value;
  };
  Result<route::Route> route = route::choose(meta, candidates.facts(), of_slots, rank, refused);
  for (uint32_t i = 0; i < candidates.infos().size(); ++i) {
    if (!route.ok() || std::find(route->devices.begin(), route->devices.end(), i) == route->devices.end()) {
      runtime_->devices.close_unused(candidates.infos()[i]);
    }
  }
  if (!route.ok()) return route.take_status();
  route_ = std::move(*route);
  for (uint32_t device : route_.devices) {
    Result<Ref<Device>> opened = runtime_->devices.open(candidates.infos()[device]);
    if (!opened.ok()) return opened.take_status();
    devices_.push_back(std::move(*opened));
    machine_.device_names.push_back(devices_.back()->alias());
    machine_.min_alignment_of_device.push_back(devices_.back()->description().min_alignment_bytes);
  }
  machine_.device_of_slot = route_.device_of_slot;
  for (uint32_t device : machine_.device_of_slot) {
    const heddle_device_description_t& described = devices_[device]->description();
    const uint32_t(&most)[3] = described.max_workgroup_count;
    machine_.slots.push_back({{most[0], most[1], most[2]}, described.compute_units});
  }
  return Status();
}

Status Instance::find_links() {
  host::Host& host = *runtime_->host;
  Result<std::vector<Link>> links = submit::find_links(devices_, host.config());
  if (!links.ok()) return links.take_status();
  links_ = std::move(*links);
  machine_.links = links_;
  for (const Link& link : links_) {
    host.log(HEDDLE_LOG_INFO, "host",
             fmt::format("copies from '{}' to '{}' go {}: {}", devices_[link.from]->alias(), devices_[link.to]->alias(),
                         link.direct ? "directly" : "through host memory", link.reason));
  }
  return Status();
}

void Instance::make_room_for_code() {
  machine_.entries.assign(module_->metadata().executables()->size(), std::vector<std::vector<heddle_entry_t*>>(devices_.size()));
}

Status Instance::load_code() {
  make_room_for_code();
  failed_code_ = -1;
  for (const route::ChosenCode& chosen : route_.code) {
    Status status = load(chosen, &machine_.entries[chosen.executable][chosen.device]);
    if (status.ok()) continue;
    failed_code_ = &chosen - route_.code.data();
    return status;
  }
  return Status();
}

Status Instance::load(const route::ChosenCode& chosen, std::vector<heddle_entry_t*>* out_entries) {
  const mf::Executable& executable = *module_->metadata().executables()->Get(chosen.executable);
  const Ref<Device>& device = devices_[chosen.device];
  Status allowed = check_interpreted(*runtime_->host, *device, *module_, chosen);
  Result<Shared<Code>> code = allowed.ok() ? submit::load_code(runtime_->code, device, module_, chosen) : std::move(allowed);
  if (!code.ok()) {
    return wrap(code.take_status(), fmt::format("heddle: loading executable '{}' of {} on device '{}' failed",
                                                executable.name()->string_view(), module_->path(), device->alias()));
  }
  out_entries->assign(executable.entries()->size(), nullptr);
  for (uint32_t i = 0; i < chosen.entries.size(); ++i) (*out_entries)[chosen.entries[i]] = (*code)->entries[i];
  loaded_.push_back(std::move(*code));
  return Status();
}

const mf::Program& Instance::program(uint32_t function) const {
  return *module_->metadata().functions()->Get(function)->programs()->Get(route_.program_of_function[function]);
}

const mf::Program* Instance::initializer() const {
  if (route_.initializer < 0) return nullptr;
  return module_->metadata().initializer()->Get(static_cast<uint32_t>(route_.initializer));
}

Programs Instance::programs() const {
  Programs programs{{}, initializer()};
  for (uint32_t i = 0; i < module_->signatures().size(); ++i) programs.functions.push_back(&program(i));
  return programs;
}

void Instance::find_preferences(bool loads) {
  preferences_ = std::make_unique<Preferences>(*runtime_->host, *module_, route_, machine_, devices_);
  machine_.choices = preferences_.get();
  auto load_variant = [this, loads](const route::ChosenCode& chosen, std::vector<heddle_entry_t*>* out_entries) {
    return loads ? load(chosen, out_entries) : Status();
  };
  for (uint32_t i = 0; i < module_->signatures().size(); ++i) preferences_->add(module_->signatures()[i].name, program(i), load_variant);
  if (const mf::Program* program = initializer()) preferences_->add(open::initializer_signature().name, *program, load_variant);
}

void Instance::decide_functions() {
  for (uint32_t i = 0; i < module_->signatures().size(); ++i) preferences_->decide(program(i), module_->signatures()[i]);
  if (const mf::Program* program = initializer()) preferences_->decide(*program, open::initializer_signature());
}

Status Instance::prepare_functions() {
  for (const std::unique_ptr<Function>& function : functions_) {
    Status prepared = function->prepare(*preferences_);
    if (!prepared.ok())
      return wrap(std::move(prepared), fmt::format("heddle: preparing '{}' of {} failed", function->signature().name, module_->path()));
  }
  return Status();
}

Instance::~Instance() {
  if (loading_) loading_->stop();
  while (abandoned_) {
    CallPointer call = std::move(abandoned_);
    abandoned_ = std::move(call->next_abandoned_);
    static_cast<void>(call->wait(HEDDLE_TIMEOUT_INFINITE));
  }
  for (const Ref<memory::Device>& device : devices_) device->finish_foreign_streams(this);
  functions_.clear();
  preferences_.reset();
  loaded_.clear();
}

void Instance::release_handle(Instance* instance) {
  for (const std::unique_ptr<Function>& function : instance->functions_) function->keep_instance_while_called();
  instance->release();
}

void Instance::drop_idle_frames() {
  for (const std::unique_ptr<Function>& function : functions_) function->drop_idle_frames();
}

void Instance::abandon(CallPointer call) noexcept {
  std::lock_guard lock(abandoned_mutex_);
  call->next_abandoned_ = std::move(abandoned_);
  abandoned_ = std::move(call);
  abandoned_count_.fetch_add(1, std::memory_order_relaxed);
}

void Instance::reap_abandoned() noexcept {
  if (abandoned_count_.load(std::memory_order_relaxed) == 0) return;
  CallPointer over;  // a list, too; destroyed outside the lock
  {
    std::lock_guard lock(abandoned_mutex_);
    for (CallPointer* at = &abandoned_; *at;) {
      if (!(*at)->settle()) {
        at = &(*at)->next_abandoned_;
        continue;
      }
      CallPointer call = std::move(*at);
      *at = std::move(call->next_abandoned_);
      call->next_abandoned_ = std::move(over);
      over = std::move(call);
      abandoned_count_.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  while (over) over = CallPointer(std::move(over->next_abandoned_));
}

}  // namespace heddle::submit
