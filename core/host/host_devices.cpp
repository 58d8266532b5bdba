// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host's devices: those of the configuration, or all that the drivers describe; look-up by name; and reasons for missing devices.
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "core/host/device_select.h"
#include "core/host/diagnostics.h"
#include "core/host/host_state.h"

namespace heddle::host {

// Finds a plugin by its full id, or by the last part of its id.
Plugin* Host::State::find_by_name(std::string_view name) {
  if (Plugin* plugin = find(std::string("heddle.").append(name))) return plugin;
  if (Plugin* plugin = find(name)) return plugin;
  for (Plugin& plugin : plugins) {
    if (plugin.is_driver() && plugin.short_name() == name) return &plugin;
  }
  return nullptr;
}

// All devices of a loaded driver, without regard to the configuration's names.
Status Host::State::describe(Plugin& plugin, std::vector<DeviceInfo>* out_devices) {
  LoadedDriver* driver = plugin.instance->driver.get();
  if (!driver)
    return error(HEDDLE_STATUS_UNAVAILABLE, "host: listing devices of {} failed: its library is not a driver", plugin.manifest.id);
  uint32_t count = 0;
  if (Status status(driver->api.device->count(driver->api.instance, &count)); !status.ok()) return status;
  count = std::min(count, kMaxDevices);
  for (uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    DeviceInfo info;
    info.alias = fmt::format("{}:{}", plugin.short_name(), ordinal);
    info.driver = driver;
    info.ordinal = ordinal;
    info.description = {};
    info.description.struct_size = sizeof(info.description);
    if (Status status(driver->api.device->describe(driver->api.instance, ordinal, &info.description)); !status.ok()) return status;
    out_devices->push_back(std::move(info));
  }
  return {};
}

Result<DeviceInfo> Host::State::configured_device(const DeviceConfig& device) {
  Plugin* plugin = find(device.driver);
  if (!plugin) {
    return error(HEDDLE_STATUS_UNAVAILABLE, "host: finding device {} ({}) failed: its driver {} is not installed; found {}", device.alias,
                 device.place, device.driver, known_ids(HEDDLE_PLUGIN_DRIVER));
  }
  if (Status status = load(*plugin); !status.ok())
    return wrap(std::move(status), fmt::format("device {} ({})", device.alias, device.place));
  std::vector<DeviceInfo> all;
  if (Status status = describe(*plugin, &all); !status.ok())
    return wrap(std::move(status), fmt::format("device {} ({})", device.alias, device.place));
  std::string wrong;
  const DeviceInfo* found = select_device(device, all, &wrong);
  if (!found) return error(HEDDLE_STATUS_NOT_FOUND, "{}", wrong);
  warn_once(why_not_by_ordinal(device, *found));
  DeviceInfo info = *found;
  info.alias = device.alias;
  info.cpus = device.cpus;
  info.numa = device.numa;
  info.config = &device;
  return info;
}

std::vector<DeviceInfo> Host::devices(const std::vector<std::string>& families) {
  std::vector<DeviceInfo> list;
  if (!state_->not_in_child().ok()) return list;
  std::lock_guard lock(state_->mutex);
  auto wanted = [&](const Plugin& plugin) {
    const auto& offered = plugin.manifest.families;
    return families.empty() || offered.empty() || std::any_of(offered.begin(), offered.end(), [&](const std::string& family) {
             return std::find(families.begin(), families.end(), family) != families.end();
           });
  };
  // All probes run at once, whichever plugins are loaded afterwards.
  std::vector<Plugin*> drivers;
  const auto& configured = state_->config().devices;
  auto other_families = [&](const Plugin& plugin) {
    return fmt::format("{} is of {}, and the module is for {}", plugin.manifest.id, fmt::join(plugin.manifest.families, ", "),
                       fmt::join(families, ", "));
  };
  for (Plugin& plugin : state_->plugins) {
    const bool named = configured.empty() || std::any_of(configured.begin(), configured.end(),
                                                         [&](const DeviceConfig& d) { return d.driver == plugin.manifest.id; });
    if (plugin.is_driver() && named && wanted(plugin)) drivers.push_back(&plugin);
  }
  if (drivers.empty() && configured.empty()) {
    for (const Plugin& plugin : state_->plugins) {
      if (plugin.is_driver()) state_->skip(other_families(plugin));
    }
  }
  state_->look(drivers);
  if (!configured.empty()) {
    for (const DeviceConfig& device : configured) {
      Plugin* plugin = state_->find(device.driver);
      if (plugin && !wanted(*plugin)) {
        state_->skip(fmt::format("device {} ({}): its driver {}", device.alias, device.place, other_families(*plugin)));
        continue;
      }
      Result<DeviceInfo> info = state_->configured_device(device);
      if (info.ok()) {
        list.push_back(std::move(*info));
      } else {
        state_->skip(std::string(info.status().message()));
      }
    }
    for (const LinkConfig& link : state_->config().links) state_->warn_once(why_not_linked(link, list));
    return list;
  }
  for (Plugin* plugin : drivers) {
    Status status = state_->load(*plugin);
    if (status.ok()) status = state_->describe(*plugin, &list);
    if (!status.ok()) state_->skip(std::string(status.message()));
  }
  return list;
}

Result<DeviceInfo> Host::device(std::string_view name) {
  HEDDLE_RETURN_IF_ERROR(state_->not_in_child());
  std::lock_guard lock(state_->mutex);
  for (const DeviceConfig& device : state_->config().devices) {
    if (device.alias == name) return state_->configured_device(device);
  }
  const size_t colon = name.find(':');
  uint32_t ordinal = 0;
  Plugin* plugin = state_->find_by_name(name.substr(0, colon));
  bool is_number = true;
  if (colon != std::string_view::npos) {
    const char* end = name.data() + name.size();
    auto read = std::from_chars(name.data() + colon + 1, end, ordinal);
    is_number = read.ec == std::errc() && read.ptr == end;
  }
  if (!plugin || !plugin->is_driver() || !is_number) {
    std::vector<std::string> names;
    for (const DeviceConfig& device : state_->config().devices) names.push_back(device.alias);
    for (const Plugin& candidate : state_->plugins) {
      if (candidate.is_driver()) names.push_back(candidate.short_name());
    }
    std::string hint = did_you_mean(name, names);
    return error(HEDDLE_STATUS_NOT_FOUND,
                 "host: finding device {} failed: no device has that name; {}an alias of the configuration, or a driver with an ordinal "
                 "such as cpu:0, of {}, was expected",
                 name, hint.empty() ? "" : hint + " ",
                 names.empty() ? state_->known_ids(HEDDLE_PLUGIN_DRIVER) : fmt::format("{}", fmt::join(names, ", ")));
  }
  HEDDLE_RETURN_IF_ERROR(state_->load(*plugin));
  std::vector<DeviceInfo> all;
  HEDDLE_RETURN_IF_ERROR(state_->describe(*plugin, &all));
  if (ordinal >= all.size()) {
    return error(HEDDLE_STATUS_NOT_FOUND, "host: finding device {} failed: {} has {} device{}; {}", name, plugin->manifest.id, all.size(),
                 all.size() == 1 ? "" : "s",
                 all.empty() ? "heddle plugins --why shows the reason" : fmt::format("the last is {}", all.back().alias));
  }
  return std::move(all[ordinal]);
}

std::vector<std::string> Host::skipped() {
  std::lock_guard lock(state_->mutex);
  return state_->skipped;
}

}  // namespace heddle::host
