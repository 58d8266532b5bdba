// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loading (HD-B-03), negotiation (HD-E-02) and instances. Libraries are kept in a table that is never destroyed, unless their manifest allows
// unloading: Boost's destructor would unload them while their code may still run.
#include "core/host/load.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <map>
#include <mutex>
#include <vector>

#include "core/host/table_copy.h"
#include "core/status.h"
#include "sdk/module/printable.h"

namespace heddle::host {
namespace {

struct Library {
  boost::dll::shared_library shared;
  PluginLibrary plugin;
};

std::mutex libraries_mutex;

struct Known {
  std::weak_ptr<Library> loaded;
  std::shared_ptr<Library> kept;  // reference of a plugin whose manifest does not allow unloading
};

std::map<std::string, Known>& libraries() {
  static auto* table = new std::map<std::string, Known>;
  return *table;
}

// Call with the mutex held.
PluginLibraryRef owned(std::shared_ptr<Library> library, bool unloadable, Known& known) {
  known.loaded = library;
  if (!unloadable) known.kept = library;
  const PluginLibrary* plugin = &library->plugin;
  return PluginLibraryRef(std::move(library), plugin);
}

// Keeps an object alive until the process ends although nothing here uses it any more.
void keep_forever(std::shared_ptr<void> object) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::shared_ptr<void>>;
  std::lock_guard lock(mutex);
  kept->push_back(std::move(object));
}

std::string text_of(const char* text, uint32_t size, size_t capacity) {
  return one_line(std::string_view(text, std::min<size_t>(size, capacity)));
}

// Makes invisible characters visible in messages about ids or versions that differ: 'com.acme.weaver\0' (16 bytes).
std::string shown(std::string_view text) {
  std::string line = one_line(text);
  return line == text ? fmt::format("'{}'", line) : fmt::format("'{}' ({} bytes)", line, text.size());
}

// Compares the library's id and version with its manifest.
Verdict check_identity(const PluginLibrary& plugin, std::string_view id, std::string_view version) {
  const char* what = plugin.id != id ? "id" : plugin.version != version ? "version" : nullptr;
  if (!what) return {};
  const bool is_id = plugin.id != id;
  return {PluginState::kIncompatible,
          fmt::format("its library says {} {}, its manifest {}; install library and manifest of the same build [HD-E-03]", what,
                      shown(is_id ? plugin.id : plugin.version), shown(is_id ? id : version))};
}

// Derives the state from the dynamic linker's message.
Verdict verdict_of_dlopen(const std::string& path, std::string_view text) {
  std::string reason = one_line(text);
  if (reason.empty()) reason = "the dynamic linker gave no reason";
  // "<library>: cannot open shared object file: ..." names a needed library if it is not the plugin itself.
  const bool absent = text.find("cannot open shared object file") != std::string_view::npos;
  const bool itself = text.substr(0, path.size()) == path;
  return {absent && !itself ? PluginState::kMissingDependency : PluginState::kIncompatible,
          fmt::format("loading {} failed: {} [HD-B-03]", path, reason)};
}

// An exception from a plugin breaks HD-B-01; it becomes a failure of that plugin and is not propagated.
template <typename Call>
Status contained(const PluginLibrary& library, const char* function, Call&& call) noexcept {
  try {
    return Status(call());
  } catch (...) {
    return error(HEDDLE_STATUS_INTERNAL,
                 "the function {} of {} threw an exception, which must not leave a plugin; report this to its vendor [HD-B-01]", function,
                 library.id);
  }
}

// dlsym also finds symbols of a plugin's dependencies, but the entry must belong to the plugin itself.
bool is_symbol_of(const boost::dll::shared_library& shared, const void* symbol) {
  Dl_info info;
  const auto* map = static_cast<const link_map*>(shared.native());
  return dladdr(symbol, &info) != 0 && info.dli_fname && map->l_name && std::string_view(info.dli_fname) == map->l_name;
}

Verdict negotiate(heddle_plugin_entry_fn_t entry, std::string_view expected_id, std::string_view expected_version, PluginLibrary& plugin) {
  heddle_negotiation_t record{};
  record.struct_size = sizeof(record);
  record.host_min_minor = HEDDLE_ABI_MIN_MINOR;
  record.host_max_minor = HEDDLE_ABI_MINOR;
  const void* table = entry(&record);
  std::string ranges = fmt::format("{} works with ABI {}.{} to {}.{}, this libheddle with {}.{} to {}.{}", expected_id, HEDDLE_ABI_MAJOR,
                                   record.plugin_min_minor, HEDDLE_ABI_MAJOR, record.plugin_max_minor, HEDDLE_ABI_MAJOR,
                                   record.host_min_minor, HEDDLE_ABI_MAJOR, record.host_max_minor);
  if (!table) {
    // The plugin's own text would only repeat this, unless the ranges overlap.
    const bool newer = record.plugin_min_minor > HEDDLE_ABI_MINOR, older = record.plugin_max_minor < HEDDLE_ABI_MIN_MINOR;
    if (newer || older) {
      return {PluginState::kIncompatible,
              fmt::format("{}; install a newer {} [HD-E-02]", ranges, newer ? "libheddle" : "version of the plugin")};
    }
    const std::string said = text_of(record.reason, record.reason_size, sizeof(record.reason));
    return {PluginState::kIncompatible, fmt::format("its entry refuses this host, though {}: {}; report this to its vendor [HD-E-02]",
                                                    ranges, said.empty() ? std::string("it gave no reason") : said)};
  }
  if (record.chosen_minor < HEDDLE_ABI_MIN_MINOR || record.chosen_minor > HEDDLE_ABI_MINOR) {
    return {PluginState::kIncompatible,
            fmt::format("negotiation failed: the plugin chose ABI {}.{}, but {} [HD-E-02]", HEDDLE_ABI_MAJOR, record.chosen_minor, ranges)};
  }
  LoadedSegments loaded;
  if (std::string wrong = copy_table(table, loaded, &plugin.table); !wrong.empty()) {
    return {PluginState::kIncompatible, "negotiation failed: " + wrong};
  }
  plugin.abi_minor = record.chosen_minor;
  plugin.id = view(plugin.table.id);
  plugin.version = view(plugin.table.version);
  return check_identity(plugin, expected_id, expected_version);
}

template <typename Table>
std::string copy_interface(const PluginLibrary& library, heddle_plugin_instance_t* instance, std::string_view id,
                           const LoadedSegments& loaded, Table* out_table) {
  const void* source = library.table.get_interface(instance, heddle::to_c(id));
  if (!source) return fmt::format("it has no {}, which its kind requires [HD-E-03]", id);
  return copy_table(source, loaded, out_table);
}

template <typename Table>
std::string copy_optional(const PluginLibrary& library, heddle_plugin_instance_t* instance, std::string_view id,
                          const LoadedSegments& loaded, Table* out_table) {
  static const Table all_holes = [] {
    Table table = {};
    table.struct_size = sizeof table;
    return table;
  }();
  const void* source = library.table.get_interface(instance, heddle::to_c(id));
  return copy_table(source ? source : &all_holes, loaded, out_table);
}

std::string copy_driver(PluginInstance& instance, const LoadedSegments& loaded) {
  auto driver = std::make_unique<LoadedDriver>();
  const PluginLibrary& library = *instance.library;
  driver->id = library.id;
  driver->abi_minor = library.abi_minor;
  driver->api = {sizeof(heddle_driver_api_t),
                 0,
                 &instance.host->table,
                 instance.handle,
                 &driver->device,
                 &driver->buffer,
                 &driver->transfer,
                 &driver->param_io,
                 &driver->dispatch,
                 &driver->timeline,
                 &driver->native,
                 &driver->profile,
                 &driver->blocks};
  std::string wrong = copy_interface(library, instance.handle, HEDDLE_DEVICE_INTERFACE, loaded, &driver->device);
  if (wrong.empty()) wrong = copy_interface(library, instance.handle, HEDDLE_BUFFER_INTERFACE, loaded, &driver->buffer);
  if (wrong.empty()) wrong = copy_interface(library, instance.handle, HEDDLE_TRANSFER_INTERFACE, loaded, &driver->transfer);
  if (wrong.empty()) wrong = copy_interface(library, instance.handle, HEDDLE_PARAM_IO_INTERFACE, loaded, &driver->param_io);
  if (wrong.empty()) wrong = copy_interface(library, instance.handle, HEDDLE_DISPATCH_INTERFACE, loaded, &driver->dispatch);
  if (wrong.empty()) wrong = copy_interface(library, instance.handle, HEDDLE_TIMELINE_INTERFACE, loaded, &driver->timeline);
  if (wrong.empty()) wrong = copy_optional(library, instance.handle, HEDDLE_NATIVE_INTERFACE, loaded, &driver->native);
  if (wrong.empty()) wrong = copy_optional(library, instance.handle, HEDDLE_PROFILE_INTERFACE, loaded, &driver->profile);
  if (wrong.empty()) wrong = copy_optional(library, instance.handle, HEDDLE_BLOCKS_INTERFACE, loaded, &driver->blocks);
  if (wrong.empty()) instance.driver = std::move(driver);
  return wrong;
}

// For plugin kinds with one interface.
template <typename Loaded, typename Table>
std::string copy_only(PluginInstance& instance, std::string_view id, const LoadedSegments& loaded, Table Loaded::* table,
                      std::unique_ptr<Loaded>* out) {
  auto made = std::make_unique<Loaded>();
  made->id = instance.library->id;
  made->abi_minor = instance.library->abi_minor;
  made->instance = instance.handle;
  std::string wrong = copy_interface(*instance.library, instance.handle, id, loaded, &((*made).*table));
  if (wrong.empty()) *out = std::move(made);
  return wrong;
}

}  // namespace

Verdict check_library_path(const std::string& path) {
  if (path.find('$') == std::string::npos) return {};
  return {PluginState::kIncompatible,
          fmt::format("loading '{}' failed: the dynamic linker replaces what follows a '$', and would load another file than was checked; "
                      "rename the file or the directory [HD-B-03]",
                      path)};
}

PluginLibraryRef load_library(const std::string& path, std::string_view expected_id, std::string_view expected_version, bool unloadable,
                              Verdict* out_verdict) {
  *out_verdict = {};
  if (path.empty() || path.front() != '/') {
    *out_verdict = {PluginState::kIncompatible, fmt::format("loading '{}' failed: the path is not absolute [HD-B-03]", path)};
    return nullptr;
  }
  if (*out_verdict = check_library_path(path); out_verdict->state != PluginState::kAvailable) return nullptr;
  std::lock_guard lock(libraries_mutex);
  Known& known = libraries()[path];
  if (std::shared_ptr<Library> loaded = known.loaded.lock()) {
    *out_verdict = check_identity(loaded->plugin, expected_id, expected_version);
    return out_verdict->state == PluginState::kAvailable ? owned(std::move(loaded), unloadable, known) : nullptr;
  }
  auto library = std::make_shared<Library>();
  boost::dll::fs::error_code failed;
  dlerror();
  library->shared.load(path, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local, failed);
  if (!library->shared.is_loaded()) {
    const char* text = dlerror();  // the error code is only "bad file descriptor"
    *out_verdict = verdict_of_dlopen(path, text ? text : "");
    return nullptr;
  }
  PluginLibrary& plugin = library->plugin;
  plugin.path = path;
  void* entry = dlsym(library->shared.native(), HEDDLE_PLUGIN_ENTRY_NAME);
  if (!entry || !is_symbol_of(library->shared, entry)) {
    *out_verdict = {PluginState::kIncompatible,
                    fmt::format("loading {} failed: it exports no {}; it is no plugin, or one of another major ABI version [HD-E-01]", path,
                                HEDDLE_PLUGIN_ENTRY_NAME)};
  } else {
    *out_verdict = negotiate(reinterpret_cast<heddle_plugin_entry_fn_t>(entry), expected_id, expected_version, plugin);
  }
  if (out_verdict->state != PluginState::kAvailable) {
    keep_forever(std::move(library));  // mapped code stays mapped (HD-L-02), even if it is unusable
    return nullptr;
  }
  return owned(std::move(library), unloadable, known);
}

namespace {

const char* probe_verdict_text(uint32_t verdict) {
  switch (verdict) {
    case HEDDLE_PROBE_NO_DEVICE:
      return "that there is no device";
    case HEDDLE_PROBE_MISSING_DEPENDENCY:
      return "that a dependency is missing";
    default:
      return "that it cannot work here";
  }
}

}  // namespace

Verdict run_probe(const PluginLibrary& library, const heddle_host_t& host) {
  if (!library.table.probe) return {};
  heddle_probe_result_t result{};
  result.struct_size = sizeof(result);
  Status status = contained(library, "probe", [&] { return library.table.probe(&host, &result); });
  if (!status.ok()) return {PluginState::kProbeFailed, one_line(status.message())};
  Verdict verdict;
  verdict.reason = text_of(result.reason, result.reason_size, sizeof(result.reason));
  verdict.vendor_version = text_of(result.vendor_version, result.vendor_version_size, sizeof(result.vendor_version));
  verdict.device_count = result.device_count;
  switch (result.verdict) {
    case HEDDLE_PROBE_AVAILABLE:
      verdict.reason.clear();
      return verdict;
    case HEDDLE_PROBE_NO_DEVICE:
      verdict.state = PluginState::kNoDevice;
      break;
    case HEDDLE_PROBE_NO_PERMISSION:
      verdict.state = PluginState::kNoDevice;
      verdict.reason =
          "no permission: " +
          (verdict.reason.empty() ? fmt::format("{} does not say for what; report this to its vendor", library.id) : verdict.reason);
      break;
    case HEDDLE_PROBE_MISSING_DEPENDENCY:
      verdict.state = PluginState::kMissingDependency;
      break;
    case HEDDLE_PROBE_INCOMPATIBLE:
      verdict.state = PluginState::kIncompatible;
      break;
    default:
      verdict.state = PluginState::kProbeFailed;
      verdict.reason = fmt::format("its probe answered with verdict {}, which this libheddle does not know", result.verdict);
  }
  if (verdict.reason.empty()) {
    verdict.reason = fmt::format("the function probe of {} says {} and gives no reason; report this to its vendor", library.id,
                                 probe_verdict_text(result.verdict));
  }
  return verdict;
}

std::unique_ptr<PluginInstance> create_instance(PluginLibraryRef loaded_library, std::unique_ptr<PluginHost> host, Verdict* out_verdict) {
  *out_verdict = {};
  auto instance = std::make_unique<PluginInstance>();
  const PluginLibrary& library = *loaded_library;
  instance->library = std::move(loaded_library);
  instance->host = std::move(host);
  Status status = contained(library, "create", [&] { return library.table.create(&instance->host->table, &instance->handle); });
  if (!status.ok()) {
    instance->handle = nullptr;
    *out_verdict = {PluginState::kProbeFailed, fmt::format("creating an instance failed: {}", one_line(status.message()))};
    return nullptr;
  }
  if (!instance->handle) {
    *out_verdict = {PluginState::kIncompatible, "creating an instance failed: it gave neither a status nor an instance [HD-E-03]"};
    return nullptr;
  }
  LoadedSegments loaded;
  std::string wrong;
  if ((library.table.kind & (HEDDLE_PLUGIN_DRIVER | HEDDLE_PLUGIN_ALLOCATOR | HEDDLE_PLUGIN_LIBRARY)) == 0) {
    wrong = fmt::format("its plugin table's kind is {}, neither driver nor allocator nor library [HD-E-03]", library.table.kind);
  }
  if (wrong.empty() && (library.table.kind & HEDDLE_PLUGIN_DRIVER)) wrong = copy_driver(*instance, loaded);
  if (wrong.empty() && (library.table.kind & HEDDLE_PLUGIN_ALLOCATOR)) {
    wrong = copy_only(*instance, HEDDLE_ALLOCATOR_INTERFACE, loaded, &LoadedAllocator::allocator, &instance->allocator);
  }
  if (wrong.empty() && (library.table.kind & HEDDLE_PLUGIN_LIBRARY)) {
    wrong = copy_only(*instance, HEDDLE_LIBRARY_INTERFACE, loaded, &LoadedLibrary::library, &instance->operations);
  }
  if (!wrong.empty()) {
    *out_verdict = {PluginState::kIncompatible, std::move(wrong)};
    return nullptr;
  }
  return instance;
}

void PluginInstance::validate(const heddle_validation_t& layer) {
  if (driver) layer.wrap_driver(&driver->api, heddle::to_c(library->id));
  if (allocator) layer.wrap_allocator(&allocator->allocator, handle, &host->table, heddle::to_c(library->id));
  if (operations) layer.wrap_library(&operations->library, handle, &host->table, heddle::to_c(library->id));
  validation = &layer;
}

PluginInstance::~PluginInstance() {
  if (!handle) return;
  Status status = contained(*library, "shutdown", [&] {
    return validation ? validation->shutdown(handle, library->table.shutdown) : library->table.shutdown(handle);
  });
  if (status.ok()) return;
  if (status.code() != HEDDLE_STATUS_UNIMPLEMENTED) {
    host->services->log.write(HEDDLE_LOG_WARN, library->id, std::string("shutting down failed: ").append(one_line(status.message())));
  }
  // Children may still call through the tables and the host: keep both alive.
  keep_forever(std::move(driver));
  keep_forever(std::move(allocator));
  keep_forever(std::move(operations));
  keep_forever(std::move(host));
  keep_forever(std::const_pointer_cast<PluginLibrary>(library));
}

}  // namespace heddle::host
