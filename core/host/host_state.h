// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state of a host, for the files that implement Host: host.cpp, host_devices.cpp.
#ifndef HEDDLE_CORE_HOST_HOST_STATE_H_
#define HEDDLE_CORE_HOST_HOST_STATE_H_

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/host/config_check.h"
#include "core/host/config_read.h"
#include "core/host/host.h"
#include "core/host/host_table.h"
#include "core/host/load.h"
#include "core/host/probe_cache.h"
#include "core/host/trust.h"

namespace heddle::host {

// A plugin that was found, and its progress.
struct Plugin {
  Manifest manifest;
  Verdict verdict;
  std::vector<std::string> shadowed;
  std::vector<OptionValue> options;  // resolved
  bool looked = false;               // preflight and probe are done
  bool from_cache = false;
  std::unique_ptr<PluginInstance> instance;

  bool is_driver() const { return (manifest.kind & HEDDLE_PLUGIN_DRIVER) != 0; }
  // "cpu" of "heddle.cpu".
  std::string short_name() const { return manifest.id.substr(manifest.id.find_last_of('.') + 1); }
  // `behind` comes after the id, for example " declares it".
  std::string why(std::string_view behind = {}) const {
    return fmt::format("{}{}, but {}: {}", manifest.id, behind, words_of(verdict.state), verdict.reason);
  }
};

struct Host::State {
  // First member, so that it is destroyed last: unloadable libraries are unloaded once their instances are shut down and no thread of the host is
  // left that ran one of their functions.
  std::vector<PluginLibraryRef> libraries;
  HostOptions options;
  ConfigRead read;
  CheckedOptions checked;
  std::vector<std::string> folders;
  std::shared_ptr<HostServices> services;
  ProbeCache cache{""};
  const heddle_validation_t* validation = nullptr;

  std::mutex mutex;  // protects everything below
  std::vector<Plugin> plugins;
  std::vector<std::string> skipped, warned;

  const Config& config() const { return read.config; }
  Plugin* find(std::string_view id);
  Plugin* find_by_name(std::string_view name);
  std::string known_ids(uint32_t kind) const;

  bool is_strict() const { return config().security.strict || is_secure_process(); }
  Verdict check_digests(const Plugin& plugin) const;
  bool use_verdict_without_probe(Plugin& plugin, const std::string& key);
  void look(const std::vector<Plugin*>& wanted);
  PluginLibraryRef load_plugin(const Manifest& manifest, Verdict* out_verdict);
  Status load(Plugin& plugin);
  Verdict load_now(Plugin& plugin);
  Status describe(Plugin& plugin, std::vector<DeviceInfo>* out_devices);
  Result<DeviceInfo> configured_device(const DeviceConfig& device);
  Status not_in_child() const;
  void skip(std::string reason);
  void warn_once(const std::string& text);
};

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_HOST_STATE_H_
