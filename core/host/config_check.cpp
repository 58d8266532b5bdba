// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks the configuration against manifests.
#include "core/host/config_check.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

namespace heddle::host {
namespace {

const FoundPlugin* find_plugin(const std::vector<FoundPlugin>& plugins, const std::string& id) {
  for (const FoundPlugin& plugin : plugins) {
    if (plugin.manifest.id == id) return &plugin;
  }
  return nullptr;
}

// known: keys of the table that are not options, for the hint.
void check_option(const RawOption& raw, const std::string& title, const Manifest& manifest, const std::vector<std::string>& known,
                  Diagnostics& diagnostics, std::vector<OptionValue>* out_values) {
  const OptionSpec* spec = manifest.option(raw.node.key);
  if (!spec) {
    std::vector<std::string> candidates = known;
    for (const OptionSpec& option : manifest.options) candidates.push_back(option.name);
    return unknown_key(diagnostics, raw.key_place, raw.node.key, fmt::format("[{}]", title), candidates);
  }
  OptionValue value;
  if (read_option_value(*spec, raw.node, raw.place, diagnostics.name_of(raw.key_place), diagnostics, &value))
    out_values->push_back(std::move(value));
}

void check_allocator(const std::string& path, const Manifest& manifest, ConfigRead& read, std::vector<OptionValue>* out_values) {
  const RawOption* raw_initial = nullptr;
  for (const RawOption& raw : read.allocator_options) {
    if (raw.owner != path) continue;
    check_option(raw, path, manifest, {"plugin", "over"}, read.diagnostics, out_values);
    if (raw.node.key == "pool_initial") raw_initial = &raw;
  }
  auto value = [&](std::string_view name) -> const OptionValue* {
    auto found = std::find_if(out_values->begin(), out_values->end(), [&](const OptionValue& v) { return v.name == name; });
    return found == out_values->end() ? nullptr : &*found;
  };
  const OptionValue* initial = value("pool_initial");
  const OptionValue* limit = value("pool_limit");
  if (initial && limit && limit->int_value != 0 && initial->int_value > limit->int_value) {
    read.diagnostics.error(raw_initial->place, "E203",
                           fmt::format("pool_initial of [{}] is {} bytes, its pool_limit {}; at most the limit was expected", path,
                                       initial->int_value, limit->int_value),
                           "raise pool_limit, or lower pool_initial", to_toml(raw_initial->node).size());
  }
}

// A plugin, or a glob of plugins, in [[prefer]]: reports it if it can never run a region.
template <typename TellUnknown>
void check_library(const std::string& pattern, Place place, const std::vector<FoundPlugin>& plugins, ConfigRead& read,
                   const TellUnknown& tell_unknown) {
  bool is_there = false, is_library = false, is_enabled = false;
  for (const FoundPlugin& plugin : plugins) {
    const std::string& id = plugin.manifest.id;
    if (fnmatch(pattern.c_str(), id.c_str(), 0) != 0) continue;
    if (plugin.verdict.state == PluginState::kIncompatible) return;  // its manifest cannot be relied on
    is_there = true;
    if ((plugin.manifest.kind & HEDDLE_PLUGIN_LIBRARY) == 0) continue;
    is_library = true;
    const std::vector<std::string>& disabled = read.config.plugin_disable;
    is_enabled |= std::find(disabled.begin(), disabled.end(), id) == disabled.end();
  }
  const size_t width = pattern.size() + sizeof("'library:'") - 1;
  if (is_enabled || pattern == "*") return;
  if (!is_there) return tell_unknown(pattern, place);
  if (!is_library) {
    read.diagnostics.error(place, "E105", fmt::format("plugin '{}' is not a library; a library was expected", pattern.substr(0, 64)), {},
                           width);
  } else {
    read.diagnostics.warning(
        place, "E203",
        fmt::format("'{}' is preferred here, but in 'disable' of [plugins]; one of them was expected", pattern.substr(0, 64)), {}, width);
  }
}

// A route or a link without [device.*] tables names a driver, by its id or the last part of it, or a driver with an ordinal. A driver with an ordinal may be missing here: one
// configuration may serve many machines.
void check_driver_names(ConfigRead& read, const std::vector<FoundPlugin>& plugins) {
  std::vector<std::string> names, ids;
  for (const FoundPlugin& plugin : plugins) {
    if ((plugin.manifest.kind & HEDDLE_PLUGIN_DRIVER) == 0) continue;
    ids.push_back(plugin.manifest.id);
    names.push_back(ids.back().substr(ids.back().rfind('.') + 1));
  }
  const std::string found = names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
  std::set<std::string> told;
  for (const auto& [alias, place] : read.aliases_used) {
    if (read.diagnostics.is_full()) break;
    const size_t colon = alias.find(':');
    const std::string name = alias.substr(0, colon), ordinal = colon == std::string::npos ? "" : alias.substr(colon + 1);
    const bool has_ordinal = !ordinal.empty() && ordinal.size() < 10 && ordinal.find_first_not_of("0123456789") == std::string::npos;
    const bool is_installed = std::ranges::count(names, name) + std::ranges::count(ids, name) != 0;
    if ((is_installed && (colon == std::string::npos || has_ordinal)) || !told.insert(alias).second) continue;
    const std::string meant = is_installed ? fmt::format("did you mean '{}:0'?", name) : did_you_mean(name, names);
    if (has_ordinal) {
      read.diagnostics.warning(place, "E202", fmt::format("no driver '{}' is installed; found {}", name.substr(0, 64), found), meant,
                               alias.size() + 2);
    } else {
      read.diagnostics.error(
          place, "E202",
          fmt::format("no device is named '{}'; an alias of a [device.*] table, or a driver with an ordinal such as cpu:0, was "
                      "expected; drivers found: {}",
                      alias.substr(0, 64), found),
          meant, alias.size() + 2);
    }
  }
}

}  // namespace

CheckedOptions check_options(ConfigRead* read, const std::vector<FoundPlugin>& plugins) {
  CheckedOptions checked;
  Diagnostics& diagnostics = read->diagnostics;
  std::vector<std::string> ids;
  for (const FoundPlugin& plugin : plugins) ids.push_back(plugin.manifest.id);

  std::set<std::string> told(ids.begin(), ids.end());
  auto tell_unknown = [&](const std::string& id, Place place) {
    if (diagnostics.is_full() || !told.insert(id).second) return;
    diagnostics.warning(
        place, "E201",
        fmt::format("no plugin '{}' is installed; found {}", id, ids.empty() ? "none" : fmt::format("{}", fmt::join(ids, ", "))),
        did_you_mean(id, ids), id.size() + 2);
  };
  for (const auto& [id, place] : read->plugin_ids) tell_unknown(id, place);
  for (const auto& [id, place] : read->driver_tables) tell_unknown(id, place);

  for (const auto& [pattern, place] : read->libraries_used) check_library(pattern, place, plugins, *read, tell_unknown);

  if (read->config.devices.empty()) check_driver_names(*read, plugins);

  for (const RawOption& raw : read->driver_options) {
    const FoundPlugin* plugin = find_plugin(plugins, raw.owner);
    // A manifest with errors cannot be relied on.
    if (!plugin || plugin->verdict.state == PluginState::kIncompatible) continue;
    check_option(raw, fmt::format("driver.\"{}\"", raw.owner), plugin->manifest, {}, diagnostics, &checked.by_driver[raw.owner]);
  }
  for (const DeviceConfig& device : read->config.devices) {
    for (size_t depth = 0; depth < device.allocators.size(); ++depth) {
      const std::string& named = device.allocators[depth].plugin;
      if (named.empty() && depth != 0) continue;  // already reported
      const std::string path = allocator_path(device.alias, depth);
      const FoundPlugin* plugin = find_plugin(plugins, named.empty() ? kDefaultAllocator : named);
      if (!plugin || plugin->verdict.state == PluginState::kIncompatible) continue;
      if ((plugin->manifest.kind & HEDDLE_PLUGIN_ALLOCATOR) == 0) {
        for (const auto& [known, place] : read->allocator_tables) {
          if (known == path)
            diagnostics.error(place, "E105", fmt::format("plugin '{}' is not an allocator; an allocator was expected", named), {},
                              named.size() + 2);
        }
        continue;
      }
      check_allocator(path, plugin->manifest, *read, &checked.by_allocator[path]);
    }
  }
  return checked;
}

std::vector<OptionValue> with_defaults(const Manifest& manifest, const std::vector<OptionValue>& values) {
  std::vector<OptionValue> merged;
  for (const OptionSpec& spec : manifest.options) {
    auto set = std::find_if(values.begin(), values.end(), [&](const OptionValue& v) { return v.name == spec.name; });
    merged.push_back(set == values.end() ? spec.fallback : *set);
  }
  return merged;
}

}  // namespace heddle::host
