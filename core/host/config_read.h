// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads heddle.toml files into a Config, all errors at once. Used by host.cpp and `heddle config check`; it reads files and
// environment, and loads nothing. Options of plugins are checked later, by config_check, when the manifests are known.
#ifndef HEDDLE_CORE_HOST_CONFIG_READ_H_
#define HEDDLE_CORE_HOST_CONFIG_READ_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/host/config.h"
#include "core/host/diagnostics.h"

namespace heddle::host {

// A key whose meaning only a plugin's manifest knows.
struct RawOption {
  std::string owner;  // plugin id of [driver."id"], or path of the allocator's table
  TomlNode node;
  Place place;      // of the value
  Place key_place;  // of the key
};

struct ConfigRead {
  Config config;
  Diagnostics diagnostics;
  bool is_partial = false;  // syntax errors hide some of it
  std::vector<RawOption> driver_options;
  std::vector<RawOption> allocator_options;
  // Where a key stands in config.effective, and an option in its list: files may have very many.
  std::map<std::string, uint32_t> effective_at, option_at;
  std::vector<std::pair<std::string, Place>> driver_tables;     // ids of [driver."id"] and where
  std::vector<std::pair<std::string, Place>> device_tables;     // aliases of [device.*] and where
  std::vector<std::pair<std::string, Place>> plugin_ids;        // ids that [plugins] and [device.*] name, and where
  std::vector<std::pair<std::string, Place>> allocator_tables;  // paths, and where their `plugin` is, or the table
  Place validation_place{};                                     // of the last [validation]
  std::vector<std::pair<std::string, Place>> aliases_used;      // device aliases that routes and links name, and where
  std::vector<std::pair<std::string, Place>> libraries_used;    // ids of library plugins that [[prefer]] names, or patterns, and where
};

struct ConfigSources {
  bool use_files = true;        // false: only the text
  bool use_environment = true;  // HEDDLE_CONFIG, HEDDLE_SET, HEDDLE_LOG
  std::string path;             // empty: $HEDDLE_CONFIG, then $XDG_CONFIG_HOME/heddle/heddle.toml, then /etc/heddle/heddle.toml
  std::string text;             // wins over files and environment
  // Read if no other file is. What it says of [plugins.security] and [modules.security] holds in any case.
  std::string system_path = "/etc/heddle/heddle.toml";
};

// Files, then HEDDLE_SET, then HEDDLE_LOG, then the text: the last that says something wins, but security only ever becomes tighter than
// the system's file. Never fails otherwise than through diagnostics.
void read_config(const ConfigSources& sources, ConfigRead* out_read);

// Reads one text as if it were a file of that name, on top of what is there. Imports are relative to the name's folder.
void read_config_text(const std::string& name, const std::string& text, ConfigRead* read);

// What can be told only when everything is read: aliases that exist, devices that are whole.
void finish_config(ConfigRead* read);

// True for "0-3,8".
bool is_cpu_list(std::string_view text);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_CONFIG_READ_H_
