// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loading (HD-B-03), negotiation (HD-E-02) and instances. Libraries live in a table that is never destroyed: a destructor of
// Boost's would unload them while their code may still run.
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

std::map<std::string, std::unique_ptr<Library>>& libraries() {
  static auto* table = new std::map<std::string, std::unique_ptr<Library>>;
  return *table;
}

// What must stay in place until the process ends although nothing here uses it any more.
void keep_forever(std::shared_ptr<void> object) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::shared_ptr<void>>;
  std::lock_guard lock(mutex);
  kept->push_back(std::move(object));
}

// Text from a plugin may hold anything; logs and terminals get one clean line.
std::string one_line(std::string_view text) {
  std::string line = module::one_line(text.substr(0, 1024));
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

std::string one_line(const char* text, uint32_t size, size_t capacity) {
  return one_line(std::string_view(text, std::min<size_t>(size, capacity)));
}

// The dynamic linker's words decide which state fits.
Verdict verdict_of_dlopen(const std::string& path, std::string_view text) {
  std::string reason = one_line(text);
  if (reason.empty()) reason = "the dynamic linker gave no reason";
  // "<library>: cannot open shared object file: ..." names a needed library when it is not the plugin itself.
  const bool absent = text.find("cannot open shared object file") != std::string_view::npos;
  const bool itself = text.substr(0, path.size()) == path;
  return {absent && !itself ? PluginState::kMissingDependency : PluginState::kIncompatible,
          fmt::format("loading {} failed: {} [HD-B-03]", path, reason)};
}

// An exception that a plugin lets out breaks HD-B-01; it is a failure of that plugin and goes no further.
template <typename Call>
Status contained(const char* what, Call&& call) noexcept {
  try {
    return Status(call());
  } catch (...) {
    return error(HEDDLE_STATUS_INTERNAL, "plugin: {} threw an exception across the ABI [HD-B-01]", what);
  }
}

// dlsym also finds symbols of the libraries a plugin needs; the entry has to be the plugin's own.
bool is_symbol_of(const boost::dll::shared_library& shared, const void* symbol) {
  Dl_info info;
  const auto* map = static_cast<const link_map*>(shared.native());
  return dladdr(symbol, &info) != 0 && info.dli_fname && map->l_name && std::string_view(info.dli_fname) == map->l_name;
}

Verdict negotiate(heddle_plugin_entry_fn_t entry, std::string_view expected_id, PluginLibrary& plugin) {
  heddle_negotiation_t record{};
  record.struct_size = sizeof(record);
  record.host_min_minor = HEDDLE_ABI_MINOR;
  record.host_max_minor = HEDDLE_ABI_MINOR;
  const void* table = entry(&record);
  std::string ranges = fmt::format("{} works with ABI {}.{} to {}.{}, this libheddle with {}.{} to {}.{}", expected_id, HEDDLE_ABI_MAJOR,
                                   record.plugin_min_minor, HEDDLE_ABI_MAJOR, record.plugin_max_minor, HEDDLE_ABI_MAJOR,
                                   record.host_min_minor, HEDDLE_ABI_MAJOR, record.host_max_minor);
  if (!table) {
    std::string said = one_line(record.reason, record.reason_size, sizeof(record.reason));
    const bool newer = record.plugin_min_minor > HEDDLE_ABI_MINOR;
    return {PluginState::kIncompatible, fmt::format("negotiation failed: {}{}{}; install {} [HD-E-02]", ranges, said.empty() ? "" : ": ",
                                                    said, newer ? "a newer libheddle" : "a newer version of the plugin")};
  }
  if (record.chosen_minor < HEDDLE_ABI_MINOR || record.chosen_minor > HEDDLE_ABI_MINOR) {
    return {PluginState::kIncompatible,
            fmt::format("negotiation failed: the plugin chose ABI {}.{}, but {} [HD-E-02]", HEDDLE_ABI_MAJOR, record.chosen_minor, ranges)};
  }
  LoadedSegments loaded;
  if (std::string wrong = copy_table(table, loaded, &plugin.table); !wrong.empty()) {
    return {PluginState::kIncompatible, "negotiation failed: " + wrong};
  }
  plugin.abi_minor = record.chosen_minor;
  plugin.id = one_line(view(plugin.table.id));
  plugin.version = one_line(view(plugin.table.version));
  if (plugin.id != expected_id) {
    return {PluginState::kIncompatible,
            fmt::format("the library says that it is '{}', its manifest '{}' [HD-E-03]", plugin.id, expected_id)};
  }
  return {};
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
                 &driver->profile};
  std::string wrong = copy_interface(library, instance.handle, HEDDLE_DEVICE_INTERFACE, loaded, &driver->device);
  if (wrong.empty()) wrong = copy_interface(library, instance.handle, HEDDLE_BUFFER_INTERFACE, loaded, &driver->buffer);
  if (wrong.empty()) wrong = copy_interface(library, instance.handle, HEDDLE_TRANSFER_INTERFACE, loaded, &driver->transfer);
  if (wrong.empty()) wrong = copy_interface(library, instance.handle, HEDDLE_PARAM_IO_INTERFACE, loaded, &driver->param_io);
  if (wrong.empty()) wrong = copy_interface(library, instance.handle, HEDDLE_DISPATCH_INTERFACE, loaded, &driver->dispatch);
  if (wrong.empty()) wrong = copy_interface(library, instance.handle, HEDDLE_TIMELINE_INTERFACE, loaded, &driver->timeline);
  if (wrong.empty()) wrong = copy_optional(library, instance.handle, HEDDLE_NATIVE_INTERFACE, loaded, &driver->native);
  if (wrong.empty()) wrong = copy_optional(library, instance.handle, HEDDLE_PROFILE_INTERFACE, loaded, &driver->profile);
  if (wrong.empty()) instance.driver = std::move(driver);
  return wrong;
}

std::string copy_allocator(PluginInstance& instance, const LoadedSegments& loaded) {
  auto allocator = std::make_unique<LoadedAllocator>();
  const PluginLibrary& library = *instance.library;
  allocator->id = library.id;
  allocator->abi_minor = library.abi_minor;
  allocator->instance = instance.handle;
  std::string wrong = copy_interface(library, instance.handle, HEDDLE_ALLOCATOR_INTERFACE, loaded, &allocator->allocator);
  if (wrong.empty()) instance.allocator = std::move(allocator);
  return wrong;
}

}  // namespace

Verdict check_library_path(const std::string& path) {
  if (path.find('$') == std::string::npos) return {};
  return {PluginState::kIncompatible,
          fmt::format("loading '{}' failed: the dynamic linker replaces what follows a '$', and would load another file than was checked; "
                      "rename the file or the folder [HD-B-03]",
                      path)};
}

const PluginLibrary* load_library(const std::string& path, std::string_view expected_id, Verdict* out_verdict) {
  *out_verdict = {};
  if (path.empty() || path.front() != '/') {
    *out_verdict = {PluginState::kIncompatible, fmt::format("loading '{}' failed: the path is not absolute [HD-B-03]", path)};
    return nullptr;
  }
  if (*out_verdict = check_library_path(path); out_verdict->state != PluginState::kAvailable) return nullptr;
  std::lock_guard lock(libraries_mutex);
  if (auto found = libraries().find(path); found != libraries().end()) {
    if (found->second->plugin.id == expected_id) return &found->second->plugin;
    *out_verdict = {PluginState::kIncompatible,
                    fmt::format("the library says that it is '{}', its manifest '{}' [HD-E-03]", found->second->plugin.id, expected_id)};
    return nullptr;
  }
  auto library = std::make_unique<Library>();
  boost::dll::fs::error_code failed;
  dlerror();
  library->shared.load(path, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local, failed);
  if (!library->shared.is_loaded()) {
    const char* text = dlerror();  // the error code says only "bad file descriptor"
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
    *out_verdict = negotiate(reinterpret_cast<heddle_plugin_entry_fn_t>(entry), expected_id, plugin);
  }
  if (out_verdict->state != PluginState::kAvailable) {
    keep_forever(std::move(library));  // mapped code stays mapped (HD-L-02), also when it is of no use
    return nullptr;
  }
  return &libraries().emplace(path, std::move(library)).first->second->plugin;
}

Verdict run_probe(const PluginLibrary& library, const heddle_host_t& host) {
  if (!library.table.probe) return {};
  heddle_probe_result_t result{};
  result.struct_size = sizeof(result);
  Status status = contained("its probe", [&] { return library.table.probe(&host, &result); });
  if (!status.ok()) return {PluginState::kProbeFailed, one_line(status.message())};
  Verdict verdict;
  verdict.reason = one_line(result.reason, result.reason_size, sizeof(result.reason));
  verdict.vendor_version = one_line(result.vendor_version, result.vendor_version_size, sizeof(result.vendor_version));
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
      verdict.reason = "no permission: " + verdict.reason;
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
  if (verdict.reason.empty()) verdict.reason = "its probe gave no reason";
  return verdict;
}

std::unique_ptr<PluginInstance> create_instance(const PluginLibrary& library, std::unique_ptr<PluginHost> host, Verdict* out_verdict) {
  *out_verdict = {};
  auto instance = std::make_unique<PluginInstance>();
  instance->library = &library;
  instance->host = std::move(host);
  Status status = contained("its create", [&] { return library.table.create(&instance->host->table, &instance->handle); });
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
  if ((library.table.kind & (HEDDLE_PLUGIN_DRIVER | HEDDLE_PLUGIN_ALLOCATOR)) == 0) {
    wrong = fmt::format("its plugin table's kind is {}, neither driver nor allocator [HD-E-03]", library.table.kind);
  }
  if (wrong.empty() && (library.table.kind & HEDDLE_PLUGIN_DRIVER)) wrong = copy_driver(*instance, loaded);
  if (wrong.empty() && (library.table.kind & HEDDLE_PLUGIN_ALLOCATOR)) wrong = copy_allocator(*instance, loaded);
  if (!wrong.empty()) {
    *out_verdict = {PluginState::kIncompatible, std::move(wrong)};
    return nullptr;
  }
  return instance;
}

PluginInstance::~PluginInstance() {
  if (!handle) return;
  Status status = contained("its shutdown", [&] { return library->table.shutdown(handle); });
  if (status.ok()) return;
  if (status.code() != HEDDLE_STATUS_UNIMPLEMENTED) {
    host->services->log.write(HEDDLE_LOG_WARN, library->id, std::string("shutting down failed: ").append(one_line(status.message())));
  }
  // Children may still call through the tables and the host: leave both in place.
  keep_forever(std::move(driver));
  keep_forever(std::move(allocator));
  keep_forever(std::move(host));
}

}  // namespace heddle::host
