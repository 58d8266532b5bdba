// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry of libheddle_validation.so: replaces a plugin's functions by those of the layer.
#include "core/validation/layer.h"

#include "core/validation/call.h"
#include "core/validation/region.h"

namespace heddle::validation {
namespace {

Plugin* add_plugin(heddle_plugin_instance_t* instance, const heddle_host_t* host, heddle_string_t id) {
  // A plugin may be both: one instance, one record.
  if (Plugin* known = registry().of(instance)) return known;
  auto plugin = std::make_unique<Plugin>();
  plugin->id = view(id);
  plugin->host = host;
  plugin->instance = instance;
  return registry().add(std::move(plugin));
}

void wrap_driver(heddle_driver_api_t* api, heddle_string_t id) noexcept {
  std::lock_guard lock(registry().mutex);
  Plugin* plugin = add_plugin(api->instance, api->host, id);
  plugin->driver = *api;
  plugin->api = api;
  api->device = &kDeviceTable;
  api->buffer = &kBufferTable;
  api->transfer = &kTransferTable;
  api->param_io = &kParamIoTable;
  api->dispatch = &kDispatchTable;
  api->timeline = &kTimelineTable;
  api->native = &kNativeTable;
  api->profile = &kProfileTable;
  api->blocks = &kBlocksTable;
}

void wrap_allocator(heddle_allocator_interface_t* table, heddle_plugin_instance_t* instance, const heddle_host_t* host,
                    heddle_string_t id) noexcept {
  std::lock_guard lock(registry().mutex);
  add_plugin(instance, host, id)->allocator = *table;
  *table = kAllocatorTable;
}

void wrap_library(heddle_library_interface_t* table, heddle_plugin_instance_t* instance, const heddle_host_t* host,
                  heddle_string_t id) noexcept {
  std::lock_guard lock(registry().mutex);
  add_plugin(instance, host, id)->library = *table;
  *table = kLibraryTable;
}

heddle_status_t* shutdown(heddle_plugin_instance_t* instance, heddle_status_t* (*own)(heddle_plugin_instance_t* instance)) noexcept {
  Call call("shutdown");
  Plugin* plugin = registry().of(instance);
  if (!plugin) return own(instance);
  call.set_plugin(plugin);
  const uint64_t live = plugin->live;
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] { return own(instance); });
  if (status) return status;
  if (live != 0) call.plugin_broke("HD-L-01", "it shut down with {} live devices, allocators or operations", live);
  if (const size_t owed = registry().drop_callbacks(*plugin)) {
    call.plugin_broke("HD-T-03", "it shut down without having called {} notifications or releases", owed);
  }
  registry().end(*plugin);
  const std::string line =
      fmt::format("validation: {} calls of {} were checked, {} violations were found", plugin->calls, plugin->id, plugin->violations);
  plugin->host->log(plugin->host->self, HEDDLE_LOG_INFO, {}, 0, {line.data(), line.size()});
  return nullptr;
}

void report(heddle_plugin_instance_t* instance, void (*visit)(void* context, uint64_t calls, uint64_t violations, heddle_string_t first),
            void* context) noexcept {
  uint64_t calls = 0, violations = 0;
  std::string first;
  {
    std::lock_guard lock(registry().mutex);
    const Plugin* plugin = registry().of(instance);
    if (!plugin) return;
    calls = plugin->calls;
    violations = plugin->violations;
    for (const std::string& text : plugin->first) first.append(first.empty() ? "" : "\n").append(text);
  }
  visit(context, calls, violations, {first.data(), first.size()});
}

constexpr heddle_validation_t kLayer = {sizeof(heddle_validation_t),
                                        0,
                                        wrap_driver,
                                        wrap_allocator,
                                        shutdown,
                                        report,
                                        looks_at,
                                        region_begins,
                                        region_ended,
                                        wrap_host,
                                        wrap_library};

}  // namespace
}  // namespace heddle::validation

extern "C" HEDDLE_EXPORT const heddle_validation_t* heddle_validation_entry(uint32_t version) {
  return version == HEDDLE_VALIDATION_VERSION ? &heddle::validation::kLayer : nullptr;
}
