// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The content of heddle.toml as plain data, with the origin of each value.
// Filled by config_read.cpp, read by every directory of core; knows nothing of TOML or of plugins.
#ifndef HEDDLE_CORE_HOST_CONFIG_H_
#define HEDDLE_CORE_HOST_CONFIG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heddle/plugin.h"

namespace heddle::host {

// One typed value of a plugin's option. Byte sizes are integers.
struct OptionValue {
  std::string name;
  uint32_t kind = HEDDLE_OPTION_STRING;  // HEDDLE_OPTION_*
  int64_t int_value = 0;                 // also 0 or 1 for BOOL
  double float_value = 0;
  std::string string_value;
  std::string origin;  // "heddle.toml:12:1", "HEDDLE_SET:1:1", "<text>:1:1" or kManifestDefault
};
inline constexpr char kManifestDefault[] = "default";
std::string to_toml(const OptionValue& option);
// The C view; it borrows from the values, which must stay alive and unchanged.
std::vector<heddle_option_t> to_c(const std::vector<OptionValue>& options);

struct DeviceSelector {
  enum Kind { kUuid, kPci, kOrdinal };
  Kind kind = kOrdinal;
  std::string text;  // the uuid or pci, as written
  uint32_t ordinal = 0;
};

// [device.X.allocator], or a table `over` in it: one allocator of a stack.
struct AllocatorConfig {
  std::string plugin;  // empty: the default pool, allowed for the first one only
};
// "device.X.allocator", "device.X.allocator.over": the path of table number `depth`, counted from the top.
std::string allocator_path(const std::string& alias, size_t depth);

// [device.X]
struct DeviceConfig {
  std::string alias;
  std::string driver;  // plugin id
  DeviceSelector select;
  bool has_select = false;
  bool select_is_wrong = false;             // the key exists, but is wrong
  std::vector<AllocatorConfig> allocators;  // from top to bottom; the last one is on the device; empty: the default pool
  int32_t numa = -1;
  std::string cpus;   // "0-15", empty: all
  std::string place;  // file:line:column of [device.X]
};

// [[route]]; first match wins.
struct RouteConfig {
  std::string slot;             // "@stage0", or "" / "default" for the default slot
  std::vector<std::string> to;  // aliases, in order of preference
  bool fallback_next = false;   // fallback = "next"; else an error
  std::string place;
};

// [[prefer]]; first match wins.
struct PreferConfig {
  std::string op;                  // glob of a region's name, or of its operator
  std::vector<std::string> dtype;  // names of element types; empty: any
  std::vector<std::string> use;    // "own", "library:ID", "variant:NAME", in order of preference
  std::string place;
};

// [[link]]
struct LinkConfig {
  std::string a, b;
  std::string kind;  // empty: detected
  std::string p2p;   // empty: not set, same as "auto"
  std::string place;
};

// One value for `heddle config effective --origin`.
struct ConfigValue {
  std::string key;   // "device.gpu0.allocator.pool_limit"
  std::string text;  // as TOML
  std::string origin;
};

struct ParamIoConfig {
  std::vector<std::string> method;  // "gds", "direct", "buffered", "preload", "mmap", to be tried in that order; empty: the driver's choice
  uint64_t chunk_bytes = 0;         // 0: the driver's choice
  uint32_t queue_depth = 0;
  uint64_t pinned_staging_bytes = 0;
  uint64_t derived_cache_bytes = 0;  // largest size of the directory of computed weights; 0: there is none
};

// [trace]
enum : uint32_t { kTraceDispatch = 1, kTraceTransfer = 2, kTraceMemory = 4, kTracePlugins = 8, kTraceAll = 15 };
struct TraceConfig {
  std::string sink;  // empty: no trace
  uint32_t categories = kTraceAll;
};

struct LogConfig {
  uint32_t level = HEDDLE_LOG_WARN;
  std::map<std::string, uint32_t> components;
};

// [validation]
struct ValidationConfig {
  bool calls = false;
  bool stop_at_nan = false, stop_at_inf = false;
  std::vector<std::string> dump;  // globs of region names
  std::string dump_folder;
  // Whether the values of regions are inspected.
  bool values() const { return stop_at_nan || stop_at_inf || !dump.empty(); }
  bool any() const { return calls || values(); }
};

// [plugins.security] and [modules.security]
struct SecurityConfig {
  bool strict = false;  // the key `mode` of [plugins.security]
  // For plugins: id -> SHA-256 digests of the libraries that may be loaded under it. If the table exists, no other id may be loaded.
  std::optional<std::map<std::string, std::vector<std::string>>> plugin_digests;
  bool strict_modules = false;
  std::optional<std::vector<std::string>> module_digests;  // digests of the modules that may be opened
};

// What happens if a device interprets portable code, which is slow.
enum class Interpreted : uint8_t { kAllow, kWarn, kForbid };

struct Config {
  Interpreted interpreted = Interpreted::kWarn;
  std::vector<std::string> files;  // files that were read, in order

  std::vector<std::string> plugin_paths;            // [plugins] paths
  std::vector<std::string> plugin_require;          // ids
  std::vector<std::string> plugin_disable;          // ids
  std::map<std::string, std::string> plugin_pin;    // id -> "=1.4.2"
  std::map<std::string, std::string> plugin_probe;  // id -> "child" | "in-process"
  SecurityConfig security;

  std::vector<DeviceConfig> devices;  // in order of the file
  std::vector<LinkConfig> links;
  std::vector<RouteConfig> routes;
  std::vector<PreferConfig> prefers;
  ParamIoConfig param_io;
  LogConfig log;
  TraceConfig trace;
  ValidationConfig validation;

  std::vector<ConfigValue> effective;  // every value, later files win
};

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_CONFIG_H_
