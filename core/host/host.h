// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host: configuration, plugins and the devices they offer. Created by core/api.cpp, used by core/route, core/memory and
// core/submit. It opens no device, allocates no device memory and knows nothing of modules.
//
// Glossary
//   plugin    a manifest that was found, in any state; loaded only on demand
//   driver    a loaded plugin with its tables copied to full size (HD-E-04)
//   device    something a driver can open, under an alias; listing devices opens none
//
// Threads: every function is [any]; loading is serialized inside. A Host must outlive everything that was created through it.
#ifndef HEDDLE_CORE_HOST_HOST_H_
#define HEDDLE_CORE_HOST_HOST_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/host/config.h"
#include "core/host/executor.h"
#include "core/host/load.h"
#include "core/host/log.h"
#include "core/host/manifest.h"
#include "core/host/plugin_state.h"
#include "core/host/process.h"
#include "core/status.h"
#include "heddle/allocator.h"
#include "heddle/driver.h"

namespace heddle::host {

// The information that `heddle plugins --why` prints.
struct PluginInfo {
  std::string id;
  std::string version;
  uint32_t kind = 0;                  // bits HEDDLE_PLUGIN_*
  std::vector<std::string> families;  // of a driver, from its manifest: "cpu", "cuda"; empty: unknown
  PluginState state = PluginState::kAvailable;
  std::string reason;  // empty for available and loaded
  std::string manifest_path;
  std::string library_path;
  std::string vendor_version;
  uint32_t device_count = 0;          // as reported by the probe
  bool from_cache = false;            // the verdict came from the probe cache
  std::vector<std::string> shadowed;  // manifests of the same id in later directories
  std::vector<OperatorId> operators;  // operators of a library plugin
};

// A device that can be opened: driver->api.device->open(driver->api.instance, ordinal, params). Fill params with &driver->api, and with cpus and
// numa from here.
struct DeviceInfo {
  std::string alias;  // from the configuration, or "cpu:0" if there is none
  LoadedDriver* driver = nullptr;
  uint32_t ordinal = 0;
  heddle_device_description_t description;  // strings borrowed from the driver's instance
  std::string cpus;
  int32_t numa = -1;
  const DeviceConfig* config = nullptr;  // NULL if the configuration does not name the device
};

// The violations that the validation layer found in a plugin.
struct ValidationInfo {
  std::string id;
  uint64_t calls = 0, violations = 0;
  std::string first;  // texts of the first violations, one per line
};

// One allocator of a stack and the options to create it with: the manifest's defaults, overridden by the configuration.
struct AllocatorLayer {
  LoadedAllocator* allocator = nullptr;
  std::vector<OptionValue> options;
};

// A plugin that declares an operator; library is NULL if it cannot be used, and `reason` says why.
struct LibraryCandidate {
  std::string id;
  LoadedLibrary* library = nullptr;
  std::string reason;
};

struct HostOptions {
  bool no_config = false;                 // do not read heddle.toml and the environment
  std::string config_path;                // empty: $HEDDLE_CONFIG, then the user's and the system's heddle.toml
  std::string config_text;                // TOML that overrides the files
  std::vector<std::string> plugin_paths;  // searched first
  LogSink log;                            // if write is NULL: standard error
  bool fresh_probe = false;               // probe plugins anew and ignore the cache
};

class Host {
 public:
  // Reads configuration and manifests, loads nothing. INVALID_ARGUMENT carries every error in the configuration; UNAVAILABLE names a required
  // plugin that is not available.
  static Result<std::unique_ptr<Host>> open(const HostOptions& options);
  // Shuts down the plugins' instances; an instance with live children is left alone and logged.
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const Config& config() const;
  // Every value of the configuration, and the manifests' defaults for plugin options that it does not set.
  std::vector<ConfigValue> effective() const;
  // Warnings about the configuration, with locations and excerpts; empty if there are none.
  std::string config_warnings() const;

  // The validation layer; NULL if the configuration enables none of it.
  const heddle_validation_t* validation() const;
  std::vector<ValidationInfo> validated();

  // Every plugin found, in order of discovery. With look, plugins not yet examined are checked and probed (in parallel, in child processes);
  // without, their state is only what the manifest tells.
  std::vector<PluginInfo> plugins(bool look);

  // Loads on first use. NOT_FOUND lists the known ids; UNAVAILABLE gives state and reason.
  Result<LoadedDriver*> driver(std::string_view plugin_id);
  Result<LoadedAllocator*> allocator(std::string_view plugin_id);

  // Every plugin whose id matches the glob and whose manifest declares the operator, in order of discovery, loaded on first use. out_others: the
  // number of library plugins that match but do not declare it.
  std::vector<LibraryCandidate> libraries(const OperatorId& wanted, const std::string& pattern, size_t* out_others);

  // The devices that can be opened; loads their drivers. They are those of the configuration's [device.*], or without any, all of every available
  // driver. families filters by the manifests' families ("cpu"), so that unneeded drivers are not loaded; empty: all. A driver that fails is left
  // out, with its reason in plugins() and, for configured devices, in skipped().
  std::vector<DeviceInfo> devices(const std::vector<std::string>& families = {});
  // One device by name: an alias, "cpu", "cpu:1" or "heddle.cpu:0". Loads only its driver. NOT_FOUND lists the existing names; UNAVAILABLE says why
  // the driver is not available.
  Result<DeviceInfo> device(std::string_view name);

  // Why devices are missing that the configuration names or that a driver should offer: "gpu0: loading plugin heddle.cuda failed: ...".
  std::vector<std::string> skipped();

  // The device's allocators as configured, loaded; else the default pool, else none. Fails with NOT_FOUND and UNAVAILABLE as above.
  Result<std::vector<AllocatorLayer>> allocators(const DeviceInfo& device);

  // The path for opening a module, if its location and ownership permit it. PERMISSION_DENIED says why not.
  Result<std::string> module_path(const std::string& path) const;
  // Checks an open module against the configuration's digests. head: its first bytes, exactly as they will be used.
  Status check_module(const std::string& path, int descriptor, std::span<const std::byte> head) const;

  // For work that cannot continue on its current thread.
  Executor& executor();

  // Logs a line under that component; dropped if its level is below the component's level.
  void log(uint32_t level, std::string_view component, std::string_view message);
  uint32_t log_level(std::string_view component) const;

  // NULL: the configuration asks for no trace. Owned by the host.
  class Trace* trace() const;

  // True in a process forked since open: there every function that would use a plugin returns FAILED_PRECONDITION (HD-T-01).
  bool in_forked_child() const;

  // Report topics of runtime.h as JSON: "devices", "plugins", "config", "schema", "validation".
  Result<std::string> report(std::string_view topic);
  // heddle.toml as a JSON Schema, with the options of the drivers found.
  std::string schema() const;

 private:
  struct State;
  explicit Host(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_HOST_H_
