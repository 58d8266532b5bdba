// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the host can tell about itself, as JSON: devices, plugins, configuration. Tools print it; it opens nothing.
#include <fmt/format.h>

#include "core/host/host.h"
#include "core/host/json_text.h"
#include "core/host/manifest.h"
#include "core/host/text_file.h"

namespace heddle::host {
namespace {

std::string plugins_report(Host& host) {
  std::string out = "{\"plugins\":[";
  bool first = true;
  for (const PluginInfo& plugin : host.plugins(true)) {
    std::vector<std::string> kinds;
    if (plugin.kind & HEDDLE_PLUGIN_DRIVER) kinds.emplace_back("driver");
    if (plugin.kind & HEDDLE_PLUGIN_ALLOCATOR) kinds.emplace_back("allocator");
    if (plugin.kind & HEDDLE_PLUGIN_LIBRARY) kinds.emplace_back("library");
    std::vector<std::string> operators;
    for (const OperatorId& id : plugin.operators) operators.push_back(fmt::format("{}::{}/{}", id.domain, id.name, id.version));
    out += fmt::format(
        "{}{{\"id\":{},\"version\":{},\"kind\":{},\"families\":{},\"state\":{},\"reason\":{},\"manifest\":{},\"library\":{},"
        "\"devices\":{},\"vendor_version\":{},\"from_cache\":{},\"shadowed\":{},\"operators\":{}}}",
        first ? "" : ",", quoted(plugin.id), quoted(plugin.version), quoted(kinds), quoted(plugin.families),
        quoted(std::string_view(name_of(plugin.state))), quoted(plugin.reason), quoted(plugin.manifest_path), quoted(plugin.library_path),
        plugin.device_count, quoted(plugin.vendor_version), plugin.from_cache, quoted(plugin.shadowed), quoted(operators));
    first = false;
  }
  return out + "]}";
}

std::string devices_report(Host& host) {
  std::string out = "{\"devices\":[";
  bool first = true;
  for (const DeviceInfo& device : host.devices()) {
    const heddle_device_description_t& d = device.description;
    std::string uuid;
    for (uint8_t byte : d.uuid) uuid += fmt::format("{:02x}", byte);
    std::vector<std::string> formats;
    for (uint32_t i = 0; i < d.code_format_count && d.code_formats; ++i) formats.emplace_back(view(d.code_formats[i]));
    out += fmt::format(
        "{}{{\"alias\":{},\"driver\":{},\"ordinal\":{},\"name\":{},\"family\":{},\"pci\":{},\"uuid\":{},\"numa\":{},\"memory_bytes\":{},"
        "\"compute_units\":{},\"max_allocation_bytes\":{},\"unified_memory\":{},\"code_formats\":{},\"cpus\":{},\"configured\":{}}}",
        first ? "" : ",", quoted(device.alias), quoted(device.driver->id), device.ordinal, quoted(view(d.name)), quoted(view(d.family)),
        quoted(view(d.pci)), quoted(uuid), d.numa_node, d.memory_bytes, d.compute_units, d.max_allocation_bytes,
        (d.features & HEDDLE_DEVICE_UNIFIED_MEMORY) != 0, quoted(formats), quoted(device.cpus),
        device.config ? quoted(device.config->place) : "null");
    first = false;
  }
  return out + "],\"skipped\":" + quoted(host.skipped()) + "}";
}

std::string config_report(Host& host) {
  std::string out = "{\"files\":" + quoted(host.config().files) + ",\"values\":[";
  bool first = true;
  for (const ConfigValue& value : host.effective()) {
    out += fmt::format("{}{{\"key\":{},\"value\":{},\"origin\":{}}}", first ? "" : ",", quoted(value.key), quoted(value.text),
                       quoted(value.origin));
    first = false;
  }
  return out + "],\"warnings\":" + quoted(host.config_warnings()) + "}";
}

std::string validation_report(Host& host) {
  std::string out = "{\"plugins\":[";
  bool first = true;
  for (const ValidationInfo& plugin : host.validated()) {
    out += fmt::format("{}{{\"id\":{},\"calls\":{},\"violations\":{},\"first\":{}}}", first ? "" : ",", quoted(plugin.id), plugin.calls,
                       plugin.violations, quoted(plugin.first));
    first = false;
  }
  return out + "]}";
}

// A plugin's manifest that need not be installed, as discovery would read it.
Result<std::string> manifest_report(const std::string& path) {
  std::string text;
  if (std::string wrong = read_text_file(path, kMaxManifestBytes, &text); !wrong.empty()) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT, "host: reading manifest '{}' failed: {}", path, wrong);
  }
  Diagnostics diagnostics;
  Manifest manifest;
  const bool valid = parse_manifest(path, text, diagnostics, &manifest);
  return fmt::format("{{\"valid\":{},\"diagnostics\":{}}}", valid, quoted(diagnostics.render()));
}

}  // namespace

Result<std::string> Host::report(std::string_view topic) {
  constexpr std::string_view kManifest = "manifest:";
  if (topic.starts_with(kManifest)) return manifest_report(std::string(topic.substr(kManifest.size())));
  if (topic == "plugins") return plugins_report(*this);
  if (topic == "devices") return devices_report(*this);
  if (topic == "config") return config_report(*this);
  if (topic == "schema") return schema();
  if (topic == "validation") return validation_report(*this);
  return error(HEDDLE_STATUS_NOT_FOUND,
               "host: reporting on '{}' failed: there is no such topic; devices, plugins, config, schema, validation or manifest:PATH was "
               "expected",
               topic);
}

}  // namespace heddle::host
