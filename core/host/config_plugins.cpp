// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the tables [plugins] and [modules] of heddle.toml.
#include <fmt/format.h>

#include <algorithm>

#include "core/host/config_reader.h"
#include "core/host/digest.h"
#include "core/host/manifest.h"

namespace heddle::host {

void ConfigReader::ids(TableReader& table, const char* key, std::vector<std::string>* out) {
  std::vector<std::string> names;
  const TomlNode* array = table.value(key, {TomlNode::kArray});
  if (!array || !table.strings(key, &names)) return;
  for (size_t i = 0; i < names.size(); ++i) {
    const Place place = table.place(array->children[i]);
    if (!is_plugin_id(names[i])) {
      diagnostics_.error(place, "E105", fmt::format("'{}' holds \"{}\", which is {}", key, names[i].substr(0, 64), kNoPluginId), {},
                         names[i].size() + 2);
    } else {
      read_.plugin_ids.emplace_back(names[i], place);
    }
  }
  *out = std::move(names);
}

void ConfigReader::plugins(TableReader table) {
  std::vector<std::string> paths;
  table.renamed("path", "paths");
  if (table.strings("paths", &paths)) {
    for (const std::string& path : paths) {
      if (path.front() != '/') {
        diagnostics_.error(
            table.place(*table.find("paths")), "E105",
            fmt::format("'paths' holds \"{}\", which is not absolute; a directory that begins with '/' was expected", path.substr(0, 128)));
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
    plugin_security(TableReader(*node, table.file(), "plugins.security", diagnostics_));
  }
  table.finish();
}

bool ConfigReader::digests(TableReader& table, const std::string& key, std::vector<std::string>* out) {
  const TomlNode* found = table.value(key, {TomlNode::kString, TomlNode::kArray});
  if (!found) return false;
  std::vector<std::string> read;
  auto one = [&](const TomlNode& node) {
    if (node.kind == TomlNode::kString && is_sha256(node.string)) {
      read.push_back(node.string);
      return;
    }
    diagnostics_.error(table.place(node), "E105",
                       fmt::format("'{}' holds {}, which is not a digest; {} were expected", key.substr(0, 64), to_toml(node).substr(0, 80),
                                   kDigestDigits),
                       {}, to_toml(node).size());
  };
  if (found->kind == TomlNode::kString) one(*found);
  for (const TomlNode& child : found->children) one(child);
  *out = std::move(read);
  return true;
}

void ConfigReader::plugin_security(TableReader table) {
  size_t mode = 0;
  if (table.choice("mode", {"normal", "strict"}, &mode)) {
    config_.security.strict = mode == 1;
    effective(table, "mode");
  }
  if (const TomlNode* node = table.table("digests")) {
    TableReader by_id(*node, table.file(), "plugins.security.digests", diagnostics_);
    if (!config_.security.plugin_digests) config_.security.plugin_digests.emplace();
    for (const TomlNode* entry : by_id.rest()) {
      if (!digests(by_id, entry->key, &(*config_.security.plugin_digests)[entry->key])) continue;
      read_.plugin_ids.emplace_back(entry->key, by_id.key_place(*entry));
      effective(by_id, entry->key);
    }
  }
  table.finish();
}

void ConfigReader::module_security(TableReader table) {
  size_t mode = 0;
  if (table.choice("mode", {"normal", "strict"}, &mode)) {
    config_.security.strict_modules = mode == 1;
    effective(table, "mode");
  }
  std::vector<std::string> listed;
  if (digests(table, "digests", &listed)) {
    config_.security.module_digests = std::move(listed);
    effective(table, "digests");
  }
  table.finish();
}

namespace {

void narrow(std::vector<std::string>& listed, const std::vector<std::string>& allowed) {
  std::erase_if(listed, [&](const std::string& digest) { return std::find(allowed.begin(), allowed.end(), digest) == allowed.end(); });
}

}  // namespace

void ConfigReader::tighten(const SecurityConfig& system, const std::string& origin) {
  SecurityConfig& now = config_.security;
  auto mode = [&](const char* key, bool strict, bool* out) {
    if (strict && !*out) effective_value(key, "\"strict\"", origin);
    *out = *out || strict;
  };
  mode("plugins.security.mode", system.strict, &now.strict);
  mode("modules.security.mode", system.strict_modules, &now.strict_modules);
  auto digests = [&](const std::string& key, std::vector<std::string>& listed, const std::vector<std::string>& allowed) {
    const size_t before = listed.size();
    narrow(listed, allowed);
    if (listed.size() == before) return;
    effective_value(key, listed.empty() ? "[]" : fmt::format("[\"{}\"]", fmt::join(listed, "\", \"")), origin);
  };
  if (system.plugin_digests) {
    static const TomlNode none;
    TableReader by_id(none, 0, "plugins.security.digests", diagnostics_);
    for (auto& [id, listed] : *now.plugin_digests) {
      const auto allowed = system.plugin_digests->find(id);
      digests(by_id.path_of(id), listed, allowed == system.plugin_digests->end() ? std::vector<std::string>() : allowed->second);
    }
  }
  if (system.module_digests) digests("modules.security.digests", *now.module_digests, *system.module_digests);
}

}  // namespace heddle::host
