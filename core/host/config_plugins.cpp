// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table [plugins] of heddle.toml.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/host/config_reader.h"
#include "core/host/manifest.h"

namespace heddle::host {

void ConfigReader::ids(TableReader& table, const char* key, std::vector<std::string>* out) {
  std::vector<std::string> names;
  const TomlNode* array = table.value(key, {TomlNode::kArray});
  if (!array || !table.strings(key, &names)) return;
  for (size_t i = 0; i < names.size(); ++i) {
    const Place place = table.place(array->children[i]);
    if (!is_plugin_id(names[i])) {
      diagnostics_.error(place, "E105", fmt::format("'{}' holds \"{}\", which is no plugin id", key, names[i].substr(0, 64)), {},
                         names[i].size() + 2);
    } else {
      read_.plugin_ids.emplace_back(names[i], place);
    }
  }
  *out = std::move(names);
}

void ConfigReader::plugins(TableReader table) {
  std::vector<std::string> paths;
  if (table.strings("paths", &paths)) {
    for (const std::string& path : paths) {
      if (path.front() != '/') {
        diagnostics_.error(table.place(*table.find("paths")), "E105",
                           fmt::format("'paths' holds \"{}\", which is not absolute", path.substr(0, 128)));
      }
    }
    config_.plugin_paths = std::move(paths);
    effective(table, "paths");
  }
  ids(table, "require", &config_.plugin_require);
  ids(table, "disable", &config_.plugin_disable);
  effective(table, "require");
  effective(table, "disable");
  if (const TomlNode* pins = table.table("pin")) {
    TableReader pin(*pins, table.file(), "plugins.pin", diagnostics_);
    for (const TomlNode* entry : pin.rest()) {
      if (entry->kind != TomlNode::kString || entry->string.size() < 2 || entry->string.front() != '=') {
        diagnostics_.error(pin.place(*entry), "E205",
                           fmt::format("pin of '{}' is {}; an exact version was expected, e.g. \"=1.4.2\"", entry->key.substr(0, 64),
                                       to_toml(*entry).substr(0, 64)),
                           {}, to_toml(*entry).size());
        continue;
      }
      config_.plugin_pin[entry->key] = entry->string.substr(1);
      read_.plugin_ids.emplace_back(entry->key, pin.key_place(*entry));
      effective(pin, entry->key);
    }
  }
  if (const TomlNode* probes = table.table("probe")) {
    TableReader probe(*probes, table.file(), "plugins.probe", diagnostics_);
    for (const TomlNode* entry : probe.rest()) {
      size_t how = 0;
      if (!probe.choice(entry->key, {"child", "in-process"}, &how)) continue;
      config_.plugin_probe[entry->key] = entry->string;
      read_.plugin_ids.emplace_back(entry->key, probe.key_place(*entry));
      effective(probe, entry->key);
    }
  }
  if (const TomlNode* node = table.table("security")) {
    TableReader security(*node, table.file(), "plugins.security", diagnostics_);
    size_t mode = 0;
    if (security.choice("mode", {"normal", "strict"}, &mode)) {
      config_.strict = mode == 1;
      effective(security, "mode");
    }
    for (const char* key : {"digests", "keys"}) {
      if (const TomlNode* found = security.value(key, {TomlNode::kTable, TomlNode::kArray})) {
        not_yet(security.key_place(*found), fmt::format("[plugins.security] {}", key), "take it out", std::strlen(key));
      }
    }
    security.finish();
  }
  table.finish();
}

}  // namespace heddle::host
