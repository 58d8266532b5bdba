// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The values of heddle.toml's keys that no file sets, for `heddle config effective`. Defaults of plugins' options are in their manifests.
#include <fmt/format.h>

#include <algorithm>

#include "core/host/config_check.h"
#include "core/host/log.h"

namespace heddle::host {
namespace {

std::string boolean(bool value) {
  return value ? "true" : "false";
}

}  // namespace

std::vector<ConfigValue> with_default_values(std::vector<ConfigValue> values, const std::vector<DeviceConfig>& devices) {
  static const Config unset;
  auto add = [&](const std::string& key, const std::string& text) {
    const bool is_set = std::any_of(values.begin(), values.end(), [&](const ConfigValue& one) { return one.key == key; });
    if (!is_set) values.push_back({key, text, kManifestDefault});
  };
  // For a list of tables, and a table whose keys are free: only if there is no element.
  auto add_absent = [&](const std::string& key, const std::string& text) {
    const bool is_set = std::any_of(values.begin(), values.end(), [&](const ConfigValue& one) {
      return one.key.starts_with(key) && one.key.size() > key.size() && (one.key[key.size()] == '[' || one.key[key.size()] == '.');
    });
    if (!is_set) add(key, text);
  };
  const std::string driver_chooses = "(the driver chooses)";
  add("interpreted", "\"warn\"");
  add("plugins.paths", "[]");
  add("plugins.require", "[]");
  add("plugins.disable", "[]");
  add("plugins.security.mode", unset.security.strict ? "\"strict\"" : "\"normal\"");
  add_absent("plugins.security.digests", "(any library)");
  add("modules.security.mode", unset.security.strict_modules ? "\"strict\"" : "\"normal\"");
  add("modules.security.digests", "(any module)");
  add_absent("device", "(all devices of all drivers, as cpu:0)");
  for (const DeviceConfig& device : devices) {
    for (const char* key : {"cpus", "numa"}) add(fmt::format("device.{}.affinity.{}", device.alias, key), "(any)");
  }
  add_absent("route", "(all devices in order)");
  add_absent("link", "(p2p = \"auto\" for all devices)");
  add_absent("prefer", "(each module's own kernels)");
  add("param_io.method", "[]");
  add("param_io.chunk", driver_chooses);
  add("param_io.queue_depth", driver_chooses);
  add("param_io.pinned_staging", driver_chooses);
  add("param_io.derived_cache", "0");
  add("log.level", fmt::format("\"{}\"", log_level_name(unset.log.level)));
  add("trace.sink", "(no trace)");
  add("trace.categories", "[\"dispatch\", \"transfer\", \"memory\", \"plugins\"]");
  add("validation.calls", boolean(unset.validation.calls));
  add("validation.stop_at_nan", boolean(unset.validation.stop_at_nan));
  add("validation.stop_at_inf", boolean(unset.validation.stop_at_inf));
  add("validation.dump", "[]");
  add("validation.dump_folder", "(none)");
  // Keys of one table next to each other, lists in their order.
  auto table_of = [](const std::string& key) { return key.substr(0, std::min(key.rfind('.'), key.find('['))); };
  std::stable_sort(values.begin(), values.end(),
                   [&](const ConfigValue& a, const ConfigValue& b) { return table_of(a.key) < table_of(b.key); });
  return values;
}

}  // namespace heddle::host
