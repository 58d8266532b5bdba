// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The schema of heddle.toml, one function per table. Implemented in config_read.cpp (files, devices), config_plugins.cpp and config_tables.cpp (the
// rest), and used only there.
#ifndef HEDDLE_CORE_HOST_CONFIG_READER_H_
#define HEDDLE_CORE_HOST_CONFIG_READER_H_

#include <string>
#include <vector>

#include "core/host/config_read.h"
#include "core/host/table_reader.h"

namespace heddle::host {

class ConfigReader {
 public:
  explicit ConfigReader(ConfigRead& read) : read_(read), config_(read.config), diagnostics_(read.diagnostics) {}

  enum class Who { kSystem, kCaller, kEnvironment };
  // importer: location of the import; null for a file that is not imported. variable: the environment variable that names the file.
  void file(const std::string& path, const Place* importer, Who who, const char* variable = nullptr);
  // Reads only [plugins.security] and [modules.security] of that file and its imports.
  void security_of(const std::string& path);
  void text(const std::string& name, const std::string& text);
  // Enforces the system file's settings, regardless of what was read after it: strict stays strict, and no digests are added.
  void tighten(const SecurityConfig& system, const std::string& origin);
  // Records a value for `heddle config effective`, replacing an earlier one of the same key.
  void effective_value(const std::string& path, const std::string& text, const std::string& origin);

 private:
  void root(const TomlNode& node, uint32_t file);
  void imports(TableReader& table);
  void plugins(TableReader table);
  void plugin_security(TableReader table);
  void module_security(TableReader table);
  // A digest, or a list of digests.
  bool digests(TableReader& table, const std::string& key, std::vector<std::string>* out);
  void driver(TableReader table, const std::string& id);
  void device(TableReader table, const std::string& alias);
  void select(TableReader table, DeviceConfig& device);
  void allocator(TableReader table, DeviceConfig& device, size_t depth);
  void affinity(TableReader table, DeviceConfig& device);
  void param_io(TableReader table);
  void links(TableReader& table);
  void routes(TableReader& table);
  void prefers(TableReader& table);
  // One item of a rule's `use`.
  void preferred(const std::string& item, Place place);
  void log(TableReader table);
  void trace(TableReader table);
  void validation(TableReader table);

  void effective(TableReader& table, const std::string& key);
  // Keeps an option until its manifest is known, and replaces an earlier one of the same key.
  void keep_option(std::vector<RawOption>& options, const std::string& owner, TableReader& table, const TomlNode& entry);
  DeviceConfig& device_named(const std::string& alias);
  void ids(TableReader& table, const char* key, std::vector<std::string>* out);

  ConfigRead& read_;
  Config& config_;
  Diagnostics& diagnostics_;
  bool security_only_ = false;
  Who who_ = Who::kCaller;               // who named the current file, or the file that imports it
  std::string folder_;                   // directory of that file
  std::vector<std::string> open_files_;  // real paths of the files being read, outermost first
};

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_CONFIG_READER_H_
