// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the tables of heddle.toml that concern execution: parameters, links, routes, preferences, log, validation.
#include <fmt/format.h>

#include <algorithm>

#include "core/host/config_reader.h"
#include "core/host/log.h"
#include "core/host/manifest.h"
#include "sdk/module/element_types.h"

namespace heddle::host {

void ConfigReader::param_io(TableReader table) {
  std::vector<std::string> methods;
  if (table.strings("method", &methods)) {
    const TomlNode& node = *table.find("method");
    static const std::vector<std::string> known = {"gds", "direct", "buffered", "preload", "mmap"};
    for (size_t i = 0; i < methods.size(); ++i) {
      const Place place = table.place(node.children[i]);
      if (std::find(known.begin(), known.end(), methods[i]) == known.end()) {
        diagnostics_.error(place, "E105",
                           fmt::format("'method' holds \"{}\"; \"gds\", \"direct\", \"buffered\", \"preload\" or \"mmap\" was expected",
                                       methods[i].substr(0, 64)),
                           did_you_mean(methods[i], known), methods[i].size() + 2);
      }
    }
    config_.param_io.method = std::move(methods);
    effective(table, "method");
  }
  uint64_t chunk = 0;
  if (table.bytes("chunk", &chunk)) {
    constexpr uint64_t kBlock = 4096, kMost = uint64_t{1} << 30;  // as drivers read files
    const uint64_t nearest = (std::clamp(chunk, kBlock, kMost) + kBlock / 2) / kBlock * kBlock;
    if (chunk != 0 && chunk != nearest) {  // 0: the driver chooses
      const TomlNode& node = *table.find("chunk");
      diagnostics_.error(table.place(node), "E105",
                         fmt::format("'chunk' is {} bytes; a multiple of 4096 bytes, from \"4KiB\" to \"1GiB\", was expected", chunk),
                         fmt::format("the nearest is {}", nearest), to_toml(node).size());
    }
    config_.param_io.chunk_bytes = chunk;
    effective(table, "chunk");
  }
  int64_t depth = 0;
  if (table.integer("queue_depth", 1, 4096, &depth)) {
    config_.param_io.queue_depth = static_cast<uint32_t>(depth);
    effective(table, "queue_depth");
  }
  if (table.bytes("pinned_staging", &config_.param_io.pinned_staging_bytes)) effective(table, "pinned_staging");
  if (table.bytes("derived_cache", &config_.param_io.derived_cache_bytes)) effective(table, "derived_cache");
  table.finish();
}

void ConfigReader::links(TableReader& root) {
  for (const TomlNode* node : root.tables("link")) {
    TableReader table(*node, root.file(), "link", diagnostics_);
    LinkConfig link;
    link.place = diagnostics_.name_of(table.own_place());
    std::vector<std::string> between;
    table.require("between", "between = [\"gpu0\", \"gpu1\"]");
    if (table.strings("between", &between)) {
      const TomlNode& array = *table.find("between");
      if (between.size() != 2 || between[0] == between[1]) {
        diagnostics_.error(table.place(array), "E105",
                           fmt::format("'between' is [\"{}\"]; two different devices were expected", fmt::join(between, "\", \"")));
      } else {
        for (size_t i = 0; i < 2; ++i) read_.aliases_used.emplace_back(between[i], table.place(array.children[i]));
        link.a = between[0];
        link.b = between[1];
      }
    }
    size_t kind = 0, p2p = 0;
    static const std::vector<std::string> kinds = {"pci", "nvlink", "xgmi", "same-memory"};
    static const std::vector<std::string> modes = {"auto", "require", "off"};
    if (table.choice("kind", kinds, &kind)) link.kind = kinds[kind];
    if (table.choice("p2p", modes, &p2p)) link.p2p = modes[p2p];
    table.finish();
    config_.links.push_back(std::move(link));
    effective_value(
        fmt::format("link[{}]", config_.links.size() - 1),
        fmt::format("{{ between = [\"{}\", \"{}\"], kind = \"{}\", p2p = \"{}\" }}", config_.links.back().a, config_.links.back().b,
                    config_.links.back().kind, config_.links.back().p2p.empty() ? "auto" : config_.links.back().p2p),
        config_.links.back().place);
  }
}

void ConfigReader::routes(TableReader& root) {
  std::vector<RouteConfig> read;
  for (const TomlNode* node : root.tables("route")) {
    TableReader table(*node, root.file(), "route", diagnostics_);
    RouteConfig route;
    route.place = diagnostics_.name_of(table.own_place());
    table.require("slot", "slot = \"default\"");
    table.require("to", "to = [\"cpu:0\"]");
    if (table.string("slot", &route.slot) && !route.slot.empty() && route.slot != "default" && route.slot.front() != '@') {
      const TomlNode& slot = *table.find("slot");
      diagnostics_.error(table.place(slot), "E105",
                         fmt::format("slot \"{}\" starts with no '@'; \"@name\", or \"default\" for the slot without a name, was expected",
                                     route.slot.substr(0, 64)),
                         fmt::format("did you mean '@{}'?", route.slot.substr(0, 64)), to_toml(slot).size());
    }
    if (table.strings("to", &route.to)) {
      const TomlNode& array = *table.find("to");
      for (size_t i = 0; i < route.to.size(); ++i) read_.aliases_used.emplace_back(route.to[i], table.place(array.children[i]));
      if (route.to.empty()) diagnostics_.error(table.place(array), "E105", "'to' names no device; one or more were expected");
    }
    size_t fallback = 0;
    if (table.choice("fallback", {"error", "next"}, &fallback)) route.fallback_next = fallback == 1;
    table.finish();
    read.push_back(std::move(route));
  }
  // The first match wins, so the routes of a later file are inserted before those that it overrides.
  config_.routes.insert(config_.routes.begin(), read.begin(), read.end());
}

static const char expected[] = "\"own\", \"library:ID\", \"variant:NAME\", \"driver:NAME\" or \"interpreted\" was expected";

void ConfigReader::prefers(TableReader& root) {
  std::vector<PreferConfig> read;
  for (const TomlNode* node : root.tables("prefer")) {
    TableReader table(*node, root.file(), "prefer", diagnostics_);
    PreferConfig prefer;
    prefer.place = diagnostics_.name_of(table.own_place());
    table.require("op", "op = \"*.Softmax*\"");
    table.require("use", "use = [\"library:com.acme.ops\", \"own\"]");
    table.string("op", &prefer.op);
    table.strings("dtype", &prefer.dtype);
    static const std::vector<std::string> types = module::element_type_names();
    for (size_t i = 0; i < prefer.dtype.size(); ++i) {
      const std::string& name = prefer.dtype[i];
      if (std::find(types.begin(), types.end(), name) != types.end()) continue;
      diagnostics_.error(table.place(table.find("dtype")->children[i]), "E105",
                         fmt::format("'dtype' holds \"{}\"; {} was expected", name.substr(0, 64), quoted_words(types)),
                         did_you_mean(name, types), name.size() + 2);
    }
    if (table.strings("use", &prefer.use)) {
      const TomlNode& array = *table.find("use");
      for (size_t i = 0; i < prefer.use.size(); ++i) preferred(prefer.use[i], table.place(array.children[i]));
      if (prefer.use.empty()) {
        diagnostics_.error(table.place(array), "E105", fmt::format("'use' names nothing; {}", expected));
      }
    }
    table.finish();
    read.push_back(std::move(prefer));
  }
  // As for routes.
  config_.prefers.insert(config_.prefers.begin(), read.begin(), read.end());
}

void ConfigReader::preferred(const std::string& item, Place place) {
  static const std::vector<std::string> kinds = {"library:", "variant:", "driver:", "own", "interpreted"};
  if (item == kinds[3] || item == kinds[4]) return;
  const size_t colon = item.find(':');
  const std::string kind = item.substr(0, colon == std::string::npos ? colon : colon + 1);
  if (kind.ends_with(':') && std::find(kinds.begin(), kinds.end(), kind) != kinds.end() && kind.size() != item.size()) {
    if (kind == kinds[0]) read_.libraries_used.emplace_back(item.substr(kind.size()), place);
    return;
  }
  std::string hint = did_you_mean(kind, kinds);
  if (hint.empty() && colon == std::string::npos && is_plugin_id(item)) hint = fmt::format("did you mean 'library:{}'?", item);
  diagnostics_.error(place, "E105", fmt::format("'use' holds \"{}\"; {}", item.substr(0, 64), expected), hint, item.size() + 2);
}

void ConfigReader::log(TableReader table) {
  size_t level = 0;
  static const std::vector<std::string> levels = {"trace", "debug", "info", "warn", "error", "off"};
  if (table.choice("level", levels, &level)) {
    config_.log.level = static_cast<uint32_t>(level);
    effective(table, "level");
  }
  if (const TomlNode* node = table.table("components")) {
    TableReader components(*node, table.file(), "log.components", diagnostics_);
    for (const TomlNode* entry : components.rest()) {
      if (!components.choice(entry->key, levels, &level)) continue;
      config_.log.components[entry->key] = static_cast<uint32_t>(level);
      effective(components, entry->key);
    }
  }
  table.finish();
}

void ConfigReader::trace(TableReader table) {
  table.require("sink", "sink = \"trace.json\"");
  if (table.string("sink", &config_.trace.sink)) {
    if (config_.trace.sink.empty()) diagnostics_.error(table.value_place("sink"), "E105", "'sink' is empty; a path was expected");
    effective(table, "sink");
  }
  std::vector<std::string> categories;
  if (table.strings("categories", &categories)) {
    const TomlNode& array = *table.find("categories");
    static const std::vector<std::string> known = {"dispatch", "transfer", "memory", "plugins"};  // in the order of their bits
    config_.trace.categories = 0;
    for (size_t i = 0; i < categories.size(); ++i) {
      const auto found = std::find(known.begin(), known.end(), categories[i]);
      if (found != known.end()) {
        config_.trace.categories |= 1u << (found - known.begin());
        continue;
      }
      diagnostics_.error(table.place(array.children[i]), "E105",
                         fmt::format("'categories' holds \"{}\"; {} was expected", categories[i].substr(0, 64), quoted_words(known)),
                         did_you_mean(categories[i], known), categories[i].size() + 2);
    }
    effective(table, "categories");
  }
  table.finish();
}

void ConfigReader::validation(TableReader table) {
  ValidationConfig& config = config_.validation;
  read_.validation_place = table.own_place();
  if (table.boolean("calls", &config.calls)) effective(table, "calls");
  if (table.boolean("stop_at_nan", &config.stop_at_nan)) effective(table, "stop_at_nan");
  if (table.boolean("stop_at_inf", &config.stop_at_inf)) effective(table, "stop_at_inf");
  if (table.strings("dump", &config.dump)) effective(table, "dump");
  std::string folder;
  if (table.string("dump_folder", &folder)) {
    if (folder.empty() || folder.front() != '/') {
      diagnostics_.error(table.place(*table.find("dump_folder")), "E105",
                         fmt::format("'dump_folder' is \"{}\"; an absolute path was expected", folder.substr(0, 64)), {},
                         folder.size() + 2);
    }
    config.dump_folder = std::move(folder);
    effective(table, "dump_folder");
  }
  table.finish();
}

}  // namespace heddle::host
