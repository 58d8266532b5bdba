// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host: configuration, plugins and the devices they offer. Made by core/api.cpp, used by core/route, core/memory and
// core/submit. It opens no device, allocates no device memory and knows nothing of modules.
//
// Glossary
//   plugin    a manifest that was found, in whatever state; loaded only when something of it is asked for
//   driver    a loaded plugin with its tables copied to full size (HD-E-04)
//   device    something a driver can open, under an alias; listing devices opens none
//
// Threads: every function is [any]; loading is serialized inside. A Host outlives everything made through it.
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

// What `heddle plugins --why` prints.
struct PluginInfo {
  std::string id;
  std::string version;
  uint32_t kind = 0;                  // bits HEDDLE_PLUGIN_*
  std::vector<std::string> families;  // of a driver, as its manifest says: "cpu", "cuda"; empty: unknown
  PluginState state = PluginState::kAvailable;
  std::string reason;  // empty for available and loaded
  std::string manifest_path;
  std::string library_path;
  std::string vendor_version;
  uint32_t device_count = 0;          // as the probe counted
  bool from_cache = false;            // the verdict came from the probe cache
  std::vector<std::string> shadowed;  // manifests of the same id in later folders
  std::vector<OperatorId> operators;  // of a library
};

// A device that could be opened: driver->api.device->open(driver->api.instance, ordinal, params). Fill params with
// &driver->api, cpus and numa of here.
struct DeviceInfo {
  std::string alias;  // of the configuration, or "cpu:0" when there is none
  LoadedDriver* driver = nullptr;
  uint32_t ordinal = 0;
  heddle_device_description_t description;  // strings borrowed from the driver's instance
  std::string cpus;
  int32_t numa = -1;
  const DeviceConfig* config = nullptr;  // NULL when the configuration does not name it
};

// What the validation layer saw of a plugin.
struct ValidationInfo {
  std::string id;
  uint64_t calls = 0, violations = 0;
  std::string first;  // texts of the first violations, a line each
};

// One allocator of a stack, to be made with these options: the manifest's defaults, then the configuration.
struct AllocatorLayer {
  LoadedAllocator* allocator = nullptr;
  std::vector<OptionValue> options;
};

// A plugin that declares an operator; library is NULL where it cannot be used, and `reason` says why.
struct LibraryCandidate {
  std::string id;
  LoadedLibrary* library = nullptr;
  std::string reason;
};

struct HostOptions {
  bool no_config = false;                 // read no heddle.toml and no environment
  std::string config_path;                // empty: $HEDDLE_CONFIG, then the user's and the system's heddle.toml
  std::string config_text;                // TOML that wins over the files
  std::vector<std::string> plugin_paths;  // searched first
  LogSink log;                            // write NULL: standard error
  bool fresh_probe = false;               // look at plugins anew, whatever the cache says
};

class Host {
 public:
  // Reads configuration and manifests, loads nothing. INVALID_ARGUMENT carries every error of the configuration; UNAVAILABLE names
  // a required plugin that is not available.
  static Result<std::unique_ptr<Host>> open(const HostOptions& options);
  // Shuts instances down; an instance with live children is left alone and logged.
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const Config& config() const;
  // Every value of the configuration, and what manifests say where it sets no option of a plugin.
  std::vector<ConfigValue> effective() const;
  // What the configuration says that is not wrong but may not be meant, with places and excerpts; empty if nothing.
  std::string config_warnings() const;

  // The validation layer; NULL where the configuration asks for nothing of it.
  const heddle_validation_t* validation() const;
  std::vector<ValidationInfo> validated();

  // Every plugin found, in order of discovery. With look, those not yet looked at are checked and probed (in parallel, in child
  // processes); without, their state is only what the manifest told.
  std::vector<PluginInfo> plugins(bool look);

  // Loads on first use. NOT_FOUND lists known ids; UNAVAILABLE gives state and reason.
  Result<LoadedDriver*> driver(std::string_view plugin_id);
  Result<LoadedAllocator*> allocator(std::string_view plugin_id);

  // Every plugin whose id fits the pattern and whose manifest declares the operator, in order of discovery, loaded on first use. out_others: how many
  // library plugins that fit do not.
  std::vector<LibraryCandidate> libraries(const OperatorId& wanted, const std::string& pattern, size_t* out_others);

  // Devices that can be opened, loading their drivers: those of the configuration's [device.*], or without any, all of every available
  // driver. families filters by what manifests say ("cpu"), so that a driver nobody needs is not loaded; empty: all.
  // A driver that fails is left out, with its reason in plugins() and, for configured devices, in skipped().
  std::vector<DeviceInfo> devices(const std::vector<std::string>& families = {});
  // One device by name: an alias, "cpu", "cpu:1" or "heddle.cpu:0". Loads only its driver. NOT_FOUND lists what is
  // there; UNAVAILABLE says why the driver is not.
  Result<DeviceInfo> device(std::string_view name);

  // Why devices that the configuration names or that a driver should have offered are absent: "gpu0: loading plugin heddle.cuda failed: ...".
  std::vector<std::string> skipped();

  // The device's allocators as configured, loaded; else the default pool, else none. NOT_FOUND and UNAVAILABLE as above.
  Result<std::vector<AllocatorLayer>> allocators(const DeviceInfo& device);

  // The path to open a module by, if it may be opened as far as its place tells. PERMISSION_DENIED says why not.
  Result<std::string> module_path(const std::string& path) const;
  // The same of an open one by the configuration's digests. head: the first of its bytes, as they will be used.
  Status check_module(const std::string& path, int descriptor, std::span<const std::byte> head) const;

  // For work that cannot go on where it is.
  Executor& executor();

  // A line for the log, under that component; dropped when its level is below the component's.
  void log(uint32_t level, std::string_view component, std::string_view message);
  uint32_t log_level(std::string_view component) const;

  // NULL: the configuration asks for none. The host's.
  class Trace* trace() const;

  // True in a process forked since open: every function that would touch a plugin answers FAILED_PRECONDITION there (HD-T-01).
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
