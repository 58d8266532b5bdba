// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads heddle.toml files into a Config and reports all errors at once. Used by host.cpp and `heddle config check`. It reads files and the
// environment, and loads nothing. Plugin options are checked later, by config_check, when the manifests are known.
#ifndef HEDDLE_CORE_HOST_CONFIG_READ_H_
#define HEDDLE_CORE_HOST_CONFIG_READ_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/host/config.h"
#include "core/host/diagnostics.h"

namespace heddle::host {

// A key that only a plugin's manifest can interpret.
struct RawOption {
  std::string owner;  // plugin id of [driver."id"], or the path of the allocator's table
  TomlNode node;
  Place place;      // location of the value
  Place key_place;  // location of the key
};

struct ConfigRead {
  Config config;
  Diagnostics diagnostics;
  bool is_partial = false;  // some of it could not be read because of syntax errors
  std::vector<RawOption> driver_options;
  std::vector<RawOption> allocator_options;
  // Index of a key in config.effective, and of an option in its list: files may be very large.
  std::map<std::string, uint32_t> effective_at, option_at;
  std::vector<std::pair<std::string, Place>> driver_tables;     // ids of [driver."id"], with locations
  std::vector<std::pair<std::string, Place>> device_tables;     // aliases of [device.*], with locations
  std::vector<std::pair<std::string, Place>> plugin_ids;        // ids in [plugins] and [device.*], with locations
  std::vector<std::pair<std::string, Place>> allocator_tables;  // paths, with the location of `plugin`, or of the table
  Place validation_place{};                                     // location of the last [validation]
  std::vector<std::pair<std::string, Place>> aliases_used;      // device aliases in routes and links, with locations
  std::vector<std::pair<std::string, Place>> libraries_used;    // ids or globs of library plugins in [[prefer]], with locations
};

struct ConfigSources {
  bool use_files = true;        // false: only the text is used
  bool use_environment = true;  // HEDDLE_CONFIG, HEDDLE_SET, HEDDLE_LOG
  std::string path;             // empty: $HEDDLE_CONFIG, then $XDG_CONFIG_HOME/heddle/heddle.toml, then /etc/heddle/heddle.toml
  std::string text;             // overrides files and environment
  // Read if no other file is. Its [plugins.security] and [modules.security] apply in any case.
  std::string system_path = "/etc/heddle/heddle.toml";
};

// Files, then HEDDLE_SET, then HEDDLE_LOG, then the text: the last one that sets a value wins, but security settings can only be tightened relative
// to the system's file. Reports failures only through diagnostics.
void read_config(const ConfigSources& sources, ConfigRead* out_read);

// Reads one text as if it were a file of that name, in addition to earlier ones. Imports are relative to the directory in the name.
void read_config_text(const std::string& name, const std::string& text, ConfigRead* read);

// The checks that need everything to be read: whether aliases exist, whether devices are complete.
void finish_config(ConfigRead* read);

// True for "0-3,8".
bool is_cpu_list(std::string_view text);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_CONFIG_READ_H_
