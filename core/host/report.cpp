// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host's reports about itself, as JSON: devices, plugins, configuration. Tools print them; reporting opens nothing.
#include <fmt/format.h>

#include "core/host/host.h"
#include "core/host/json_text.h"
#include "core/host/manifest.h"
#include "core/host/text_file.h"
#include "core/host/trace.h"

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
        first ? "" : ",", json_quoted(plugin.id), json_quoted(plugin.version), json_quoted(kinds), json_quoted(plugin.families),
        json_quoted(std::string_view(name_of(plugin.state))), json_quoted(plugin.reason), json_quoted(plugin.manifest_path),
        json_quoted(plugin.library_path), plugin.device_count, json_quoted(plugin.vendor_version), plugin.from_cache,
        json_quoted(plugin.shadowed), json_quoted(operators));
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
        "\"compute_units\":{},\"max_allocation_bytes\":{},\"unified_memory\":{},\"fault_ends_process\":{},"
        "\"code_formats\":{},\"cpus\":{},\"configured\":{}}}",
        first ? "" : ",", json_quoted(device.alias), json_quoted(device.driver->id), device.ordinal, json_quoted(view(d.name)),
        json_quoted(view(d.family)), json_quoted(view(d.pci)), json_quoted(uuid), d.numa_node, d.memory_bytes, d.compute_units,
        d.max_allocation_bytes, (d.features & HEDDLE_DEVICE_UNIFIED_MEMORY) != 0, (d.features & HEDDLE_DEVICE_FAULT_ENDS_PROCESS) != 0,
        json_quoted(formats), json_quoted(device.cpus), device.config ? json_quoted(device.config->place) : "null");
    first = false;
  }
  return out + "],\"skipped\":" + json_quoted(host.skipped()) + "}";
}

std::string config_report(Host& host) {
  std::string out = "{\"files\":" + json_quoted(host.config().files) + ",\"values\":[";
  bool first = true;
  for (const ConfigValue& value : host.effective()) {
    out += fmt::format("{}{{\"key\":{},\"value\":{},\"origin\":{}}}", first ? "" : ",", json_quoted(value.key), json_quoted(value.text),
                       json_quoted(value.origin));
    first = false;
  }
  return out + "],\"warnings\":" + json_quoted(host.config_warnings()) + "}";
}

std::string validation_report(Host& host) {
  std::string out = "{\"plugins\":[";
  bool first = true;
  for (const ValidationInfo& plugin : host.validated()) {
    out += fmt::format("{}{{\"id\":{},\"calls\":{},\"violations\":{},\"first\":{}}}", first ? "" : ",", json_quoted(plugin.id),
                       plugin.calls, plugin.violations, json_quoted(plugin.first));
    first = false;
  }
  return out + "]}";
}

// Completes the file of [trace], so that a caller learns whether there is one.
Result<std::string> trace_report(Host& host) {
  if (!host.trace() || host.in_forked_child()) return std::string("{\"file\":null}");  // the parent's file
  HEDDLE_RETURN_IF_ERROR(host.trace()->finish());
  return fmt::format("{{\"file\":{}}}", json_quoted(host.trace()->path()));
}

// A plugin's manifest, which need not be installed, parsed as discovery would.
Result<std::string> manifest_report(const std::string& path) {
  std::string text;
  if (std::string wrong = read_text_file(path, kMaxManifestBytes, &text); !wrong.empty()) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT, "host: reading manifest '{}' failed: {}", path, wrong);
  }
  Diagnostics diagnostics;
  Manifest manifest;
  const bool valid = parse_manifest(path, text, diagnostics, &manifest);
  return fmt::format("{{\"valid\":{},\"diagnostics\":{}}}", valid, json_quoted(diagnostics.render()));
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
  if (topic == "trace") return trace_report(*this);
  return error(HEDDLE_STATUS_NOT_FOUND,
               "host: reporting on '{}' failed: no such topic; devices, plugins, config, schema, validation, trace or manifest:PATH was "
               "expected",
               topic);
}

}  // namespace heddle::host
