// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads a plugin's library into this process, negotiates, and creates instances. Used by host.cpp after preflight and probe, and by heddle-probe,
// which does the probe. It knows no manifest.
#ifndef HEDDLE_CORE_HOST_LOAD_H_
#define HEDDLE_CORE_HOST_LOAD_H_

#include <memory>
#include <string>
#include <string_view>

#include "core/host/host_table.h"
#include "core/host/plugin_state.h"
#include "core/validation/layer.h"
#include "heddle/allocator.h"
#include "heddle/driver.h"
#include "heddle/ext/blocks.h"
#include "heddle/ext/library.h"
#include "heddle/ext/native.h"
#include "heddle/ext/profile.h"

namespace heddle::host {

// A library that was mapped and negotiated with.
struct PluginLibrary {
  heddle_plugin_t table;  // full-size copy
  std::string id;
  std::string version;
  std::string path;
  uint32_t abi_minor = 0;
};

// Available, unless the dynamic linker would resolve the path differently from open.
Verdict check_library_path(const std::string& path);

// Unloaded with its last owner if all that ever requested it allow unloading; otherwise it stays for the life of the process (HD-L-02).
using PluginLibraryRef = std::shared_ptr<const PluginLibrary>;

// Maps the library at this absolute path (once per process) and negotiates; id and version must match its manifest. On failure NULL and a verdict.
PluginLibraryRef load_library(const std::string& path, std::string_view expected_id, std::string_view expected_version, bool unloadable,
                              Verdict* out_verdict);

// Asks the plugin whether it can work here. Also fills device_count and vendor_version.
Verdict run_probe(const PluginLibrary& library, const heddle_host_t& host);

// A driver in this process. Address and tables are stable until its instance is shut down; pass &api to device.open.
struct LoadedDriver {
  heddle_driver_api_t api;  // .host, .instance and the tables below
  heddle_device_interface_t device;
  heddle_buffer_interface_t buffer;
  heddle_transfer_interface_t transfer;
  heddle_param_io_interface_t param_io;
  heddle_dispatch_interface_t dispatch;
  heddle_timeline_interface_t timeline;
  heddle_native_interface_t native;
  heddle_profile_interface_t profile;
  heddle_blocks_interface_t blocks;
  std::string id;
  uint32_t abi_minor = 0;
};

// An allocator plugin in this process: allocator.create(instance, params) makes one pool.
struct LoadedAllocator {
  heddle_allocator_interface_t allocator;
  heddle_plugin_instance_t* instance = nullptr;
  std::string id;
  uint32_t abi_minor = 0;
};

// A library plugin in this process.
struct LoadedLibrary {
  heddle_library_interface_t library;
  heddle_plugin_instance_t* instance = nullptr;
  std::string id;
  uint32_t abi_minor = 0;
};

// One instance of a plugin: a driver, an allocator, a library or several of them, according to the kind in its table.
struct PluginInstance {
  PluginLibraryRef library;
  std::unique_ptr<PluginHost> host;
  heddle_plugin_instance_t* handle = nullptr;
  std::unique_ptr<LoadedDriver> driver;
  std::unique_ptr<LoadedAllocator> allocator;
  std::unique_ptr<LoadedLibrary> operations;
  const heddle_validation_t* validation = nullptr;  // its functions are in the tables; NULL: the plugin's own functions are

  PluginInstance() = default;
  PluginInstance(const PluginInstance&) = delete;
  // Shuts down. If there are live children, all that they may still use is kept alive, and a warning is logged (HD-L-01).
  ~PluginInstance();
  // Routes every call through the layer from now on. Call it before anything is created through the tables.
  void validate(const heddle_validation_t& layer);
};

// Creates an instance and copies its tables. On failure NULL and a verdict.
std::unique_ptr<PluginInstance> create_instance(PluginLibraryRef library, std::unique_ptr<PluginHost> host, Verdict* out_verdict);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_LOAD_H_
