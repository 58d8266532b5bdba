// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The schema of heddle.toml. Files override each other value by value: first the imports, in order, then the file that imports them, then the
// environment, then the text given through the API. Each value keeps the location that set it.
#include "core/host/config_reader.h"

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "core/host/log.h"
#include "core/host/manifest.h"
#include "core/host/table_reader.h"
#include "core/host/text_file.h"
#include "core/host/trust.h"

namespace heddle::host {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxFiles = 64;
constexpr size_t kMaxNamedDevices = 1024;
constexpr size_t kMaxAllocators = 8;  // allocators in one stack

}  // namespace

void ConfigReader::effective_value(const std::string& path, const std::string& text, const std::string& origin) {
  const auto [at, is_new] = read_.effective_at.emplace(path, static_cast<uint32_t>(config_.effective.size()));
  if (is_new) {
    config_.effective.push_back({path, text, origin});
  } else {
    config_.effective[at->second] = {path, text, origin};
  }
}

void ConfigReader::keep_option(std::vector<RawOption>& options, const std::string& owner, TableReader& table, const TomlNode& entry) {
  RawOption option{owner, entry, table.place(entry), table.key_place(entry)};
  const auto [at, is_new] = read_.option_at.emplace((&options == &read_.driver_options ? "driver " : "") + owner + "\n" + entry.key,
                                                    static_cast<uint32_t>(options.size()));
  if (is_new) {
    options.push_back(std::move(option));
  } else {
    options[at->second] = std::move(option);
  }
}

DeviceConfig& ConfigReader::device_named(const std::string& alias) {
  for (DeviceConfig& device : config_.devices) {
    if (device.alias == alias) return device;
  }
  config_.devices.emplace_back().alias = alias;
  return config_.devices.back();
}

void ConfigReader::security_of(const std::string& path) {
  security_only_ = true;
  file(path, nullptr, Who::kSystem);
  security_only_ = false;
}

void ConfigReader::file(const std::string& path, const Place* importer, Who who, const char* variable) {
  const std::string shown = variable ? fmt::format("{}, which {} names,", path, variable) : path;
  auto fail = [&](const std::string& message, std::string_view hint = {}) {
    Place place = importer ? *importer : Place{diagnostics_.add_file(path, ""), {}};
    diagnostics_.error(place, "E106", message, hint);
  };
  std::string real;
  if (is_secure_process()) {
    // The configuration decides which code runs, and lines of it are printed. So the caller may only name files that it can read, and others
    // must not be able to write them.
    std::string wrong = who != Who::kSystem && access(path.c_str(), R_OK) != 0 ? std::strerror(errno) : why_untrusted(path, &real);
    if (!wrong.empty()) return fail(fmt::format("reading {} with raised privileges failed: {}", shown, wrong));
  } else {
    char* resolved = realpath(path.c_str(), nullptr);
    if (!resolved) return fail(fmt::format("reading {} failed: {}", shown, std::strerror(errno)));
    real = resolved;
    std::free(resolved);
  }
  if (std::find(open_files_.begin(), open_files_.end(), real) != open_files_.end()) {
    std::string chain;
    for (const std::string& name : open_files_) chain += name + " -> ";
    return fail(fmt::format("imports form a cycle: {}{}; a file that is not being read already was expected", chain, real));
  }
  if (config_.files.size() >= kMaxFiles) return fail(fmt::format("more than {0} files are imported; at most {0} were expected", kMaxFiles));
  std::string content;
  uint32_t owner = 0;
  if (std::string wrong = read_text_file(real, kMaxFileBytes, &content, &owner); !wrong.empty()) {
    return fail(fmt::format("reading {} failed: {}", shown, wrong));
  }
  if (who == Who::kEnvironment && !importer && owner != 0 && owner != geteuid()) {
    return fail(fmt::format("reading {} failed: it belongs to user {}, neither to root nor to user {}", shown, owner, geteuid()),
                "name it with --config if it is meant, or change its owner");
  }
  open_files_.push_back(real);
  config_.files.push_back(path);
  const Who outer = std::exchange(who_, who);
  text(path, content);
  who_ = outer;
  open_files_.pop_back();
}

void ConfigReader::text(const std::string& name, const std::string& content) {
  const uint32_t file = diagnostics_.add_file(name, content);
  std::string outer = std::exchange(folder_, std::filesystem::path(name).parent_path().string());
  TomlTree tree = parse_toml(content);
  for (const TomlError& failed : tree.errors) diagnostics_.error({file, failed.place}, "E101", failed.message);
  if (!tree.errors.empty()) read_.is_partial = true;
  if (!tree.lost_header) root(tree.root, file);
  folder_ = std::move(outer);
}

void ConfigReader::root(const TomlNode& node, uint32_t file) {
  TableReader table(node, file, "", diagnostics_);
  imports(table);  // first, so that the rest of this file overrides it
  if (security_only_) {
    auto security = [&](const char* name, void (ConfigReader::*read)(TableReader)) {
      const TomlNode* outer = table.table(name);
      if (!outer) return;
      TableReader of(*outer, file, name, diagnostics_);
      if (const TomlNode* inner = of.table("security")) (this->*read)(TableReader(*inner, file, of.path_of("security"), diagnostics_));
    };
    security("plugins", &ConfigReader::plugin_security);
    security("modules", &ConfigReader::module_security);
    return;
  }
  int64_t version = 1;
  if (table.integer("version", INT64_MIN, INT64_MAX, &version) && version != 1) {
    diagnostics_.error(table.place(*node.find("version")), "E105", fmt::format("version {} is not known; 1 was expected", version),
                       version > 1 ? "install a newer libheddle" : "");
  }
  if (const TomlNode* child = table.table("plugins")) plugins(TableReader(*child, file, "plugins", diagnostics_));
  if (const TomlNode* child = table.table("modules")) {
    TableReader modules(*child, file, "modules", diagnostics_);
    if (const TomlNode* node = modules.table("security")) module_security(TableReader(*node, file, "modules.security", diagnostics_));
    modules.finish();
  }
  if (const TomlNode* child = table.table("driver")) {
    TableReader drivers(*child, file, "driver", diagnostics_);
    for (const TomlNode* entry : drivers.rest()) {
      if (!is_plugin_id(entry->key)) {
        diagnostics_.error(drivers.key_place(*entry), "E105",
                           fmt::format("[driver.*] names \"{}\", which is {}", entry->key.substr(0, 64), kNoPluginId), {},
                           entry->key.size());
      } else {
        // [driver.heddle.cpu] without quotes is the table `cpu` in the table `heddle`.
        const bool unquoted =
            entry->kind == TomlNode::kTable && !entry->children.empty() &&
            std::all_of(entry->children.begin(), entry->children.end(), [](const TomlNode& c) { return c.kind == TomlNode::kTable; });
        if (unquoted) {
          std::string meant = entry->key + "." + entry->children.front().key;
          diagnostics_.error(drivers.key_place(*entry), "E102", fmt::format("[driver.{}] holds tables only", entry->key),
                             fmt::format("quote the id: [driver.\"{}\"]", meant), entry->key.size());
        } else {
          driver(TableReader(*entry, file, drivers.path_of(entry->key), diagnostics_), entry->key);
        }
      }
    }
  }
  if (const TomlNode* child = table.table("device")) {
    TableReader devices(*child, file, "device", diagnostics_);
    for (const TomlNode* entry : devices.rest()) {
      const bool bare =
          !entry->key.empty() && entry->key.size() <= 64 &&
          entry->key.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == std::string::npos;
      if (!bare) {
        diagnostics_.error(devices.key_place(*entry), "E105",
                           fmt::format("the alias \"{}\" is not a valid device name; 1 to 64 letters, digits, '_' and '-' were expected",
                                       entry->key.substr(0, 64)),
                           {}, entry->key.size());
      } else if (config_.devices.size() >= kMaxNamedDevices) {
        diagnostics_.error(devices.key_place(*entry), "E206",
                           fmt::format("more than {0} devices are named; at most {0} were expected", kMaxNamedDevices));
        break;
      } else {
        device(TableReader(*entry, file, devices.path_of(entry->key), diagnostics_), entry->key);
      }
    }
  }
  size_t interpreted = 0;
  if (table.choice("interpreted", {"allow", "warn", "forbid"}, &interpreted)) {
    config_.interpreted = static_cast<Interpreted>(interpreted);
    effective(table, "interpreted");
  }
  if (const TomlNode* child = table.table("param_io")) param_io(TableReader(*child, file, "param_io", diagnostics_));
  links(table);
  routes(table);
  prefers(table);
  if (const TomlNode* child = table.table("log")) log(TableReader(*child, file, "log", diagnostics_));
  if (const TomlNode* child = table.table("trace")) trace(TableReader(*child, file, "trace", diagnostics_));
  if (const TomlNode* child = table.table("validation")) validation(TableReader(*child, file, "validation", diagnostics_));
  table.finish();
}

void ConfigReader::imports(TableReader& table) {
  std::vector<std::string> patterns;
  const TomlNode* array = table.value("imports", {TomlNode::kArray});
  if (!array || !table.strings("imports", &patterns)) return;
  for (size_t i = 0; i < patterns.size(); ++i) {
    const Place place = table.place(array->children[i]);
    if (open_files_.empty() && patterns[i].front() != '/') {
      diagnostics_.error(place, "E106",
                         fmt::format("importing {} failed: a configuration given as text has no directory; an absolute path was expected",
                                     patterns[i].substr(0, 128)));
      continue;
    }
    const std::string pattern = (std::filesystem::path(folder_) / patterns[i]).string();
    glob_t found{};
    const int failed = ::glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
    if (failed == 0) {
      for (size_t j = 0; j < found.gl_pathc; ++j) file(found.gl_pathv[j], &place, who_);
    } else if (failed != GLOB_NOMATCH) {
      diagnostics_.error(place, "E106", fmt::format("importing {} failed: the directory cannot be read", pattern),
                         "correct the path, or the permissions of the directory", patterns[i].size() + 2);
    } else if (patterns[i].find_first_of("*?[") == std::string::npos) {  // a glob may match nothing, but a named file must exist
      diagnostics_.error(place, "E106", fmt::format("importing {} failed: No such file or directory", pattern), {}, patterns[i].size() + 2);
    }
    globfree(&found);
  }
}

void ConfigReader::effective(TableReader& table, const std::string& key) {
  if (const TomlNode* found = table.find(key)) {
    effective_value(table.path_of(key), to_toml(*found), diagnostics_.name_of(table.key_place(*found)));
  }
}

void ConfigReader::driver(TableReader table, const std::string& id) {
  read_.driver_tables.emplace_back(id, table.own_place());
  for (const TomlNode* entry : table.rest()) {
    keep_option(read_.driver_options, id, table, *entry);
    effective(table, entry->key);
  }
}

void ConfigReader::device(TableReader table, const std::string& alias) {
  DeviceConfig& device = device_named(alias);
  read_.device_tables.emplace_back(alias, table.own_place());
  if (device.place.empty()) device.place = diagnostics_.name_of(table.own_place());
  if (table.string("driver", &device.driver)) {
    const Place place = table.place(*table.find("driver"));
    if (is_plugin_id(device.driver)) {
      read_.plugin_ids.emplace_back(device.driver, place);
    } else {
      diagnostics_.error(place, "E105", fmt::format("'driver' is \"{}\", which is {}", device.driver.substr(0, 64), kNoPluginId), {},
                         device.driver.size() + 2);
    }
    effective(table, "driver");
  }
  if (const TomlNode* node = table.table("select")) select(TableReader(*node, table.file(), table.path_of("select"), diagnostics_), device);
  if (const TomlNode* node = table.table("allocator"))
    allocator(TableReader(*node, table.file(), table.path_of("allocator"), diagnostics_), device, 0);
  if (const TomlNode* node = table.table("affinity"))
    affinity(TableReader(*node, table.file(), table.path_of("affinity"), diagnostics_), device);
  table.finish();
}

void ConfigReader::select(TableReader table, DeviceConfig& device) {
  DeviceSelector selector;
  device.select_is_wrong = true;  // reported below, unless it turns out to be correct
  int count = 0;
  int64_t ordinal = 0;
  if (table.string("uuid", &selector.text)) {
    selector.kind = DeviceSelector::kUuid;
    ++count;
  }
  if (table.string("pci", &selector.text)) {
    selector.kind = DeviceSelector::kPci;
    ++count;
  }
  if (table.integer("ordinal", 0, UINT32_MAX, &ordinal)) {
    selector.kind = DeviceSelector::kOrdinal;
    selector.ordinal = static_cast<uint32_t>(ordinal);
    ++count;
  }
  const bool other_errors = !table.rest().empty();
  table.finish();
  if (count > 1 || (count == 0 && !other_errors && !table.find("uuid") && !table.find("pci") && !table.find("ordinal"))) {
    diagnostics_.error(
        table.own_place(), "E203",
        fmt::format("'select' of device '{}' names {} of uuid, pci and ordinal; exactly one was expected", device.alias, count), {},
        std::string_view("select").size());
  }
  if (count == 1) {
    device.select = std::move(selector);
    device.has_select = true;
    device.select_is_wrong = false;
    for (const char* key : {"uuid", "pci", "ordinal"}) effective(table, key);
  }
}

void ConfigReader::allocator(TableReader table, DeviceConfig& device, size_t depth) {
  if (device.allocators.size() <= depth) device.allocators.resize(depth + 1);
  const std::string path = allocator_path(device.alias, depth);
  std::string& plugin = device.allocators[depth].plugin;
  Place place = table.own_place();
  if (table.string("plugin", &plugin)) {
    place = table.place(*table.find("plugin"));
    if (is_plugin_id(plugin)) {
      read_.plugin_ids.emplace_back(plugin, place);
    } else {
      diagnostics_.error(place, "E105", fmt::format("'plugin' is \"{}\", which is {}", plugin.substr(0, 64), kNoPluginId), {},
                         plugin.size() + 2);
    }
    effective(table, "plugin");
  }
  std::erase_if(read_.allocator_tables, [&](const auto& known) { return known.first == path && table.find("plugin"); });
  read_.allocator_tables.emplace_back(path, place);
  if (const TomlNode* over = table.table("over")) {
    if (depth + 1 < kMaxAllocators) {
      allocator(TableReader(*over, table.file(), table.path_of("over"), diagnostics_), device, depth + 1);
    } else {
      diagnostics_.error(table.key_place(*over), "E206",
                         fmt::format("more than {0} allocators are stacked; at most {0} were expected", kMaxAllocators), {},
                         over->key.size());
    }
  }
  // Other keys are options of the allocator's manifest. They are checked once the manifest is known.
  for (const TomlNode* entry : table.rest()) {
    keep_option(read_.allocator_options, path, table, *entry);
    effective(table, entry->key);
  }
}

void ConfigReader::affinity(TableReader table, DeviceConfig& device) {
  int64_t numa = 0;
  if (table.integer("numa", 0, 4095, &numa)) {
    device.numa = static_cast<int32_t>(numa);
    effective(table, "numa");
  }
  std::string cpus;
  if (table.string("cpus", &cpus)) {
    if (is_cpu_list(cpus)) {
      device.cpus = cpus;
      effective(table, "cpus");
    } else {
      const TomlNode& node = *table.find("cpus");
      diagnostics_.error(
          table.place(node), "E105",
          fmt::format("'cpus' is \"{}\", which is not a list of CPUs; e.g. \"0-15\" or \"0-3,8\" was expected", cpus.substr(0, 64)), {},
          to_toml(node).size());
    }
  }
  table.finish();
}

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The user's own file; empty if there is none.
std::string user_path() {
  std::string folder = environment("XDG_CONFIG_HOME");
  if (folder.empty() && !environment("HOME").empty()) folder = environment("HOME") + "/.config";
  if (folder.empty() || folder.front() != '/') return {};
  folder += "/heddle/heddle.toml";
  return access(folder.c_str(), F_OK) == 0 ? folder : "";
}

// A file that cannot be examined counts as existing, so that reading it fails: its settings must not be ignored silently.
bool is_there(const std::string& path) {
  struct stat facts;
  return stat(path.c_str(), &facts) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

// HEDDLE_LOG: "debug", or "info,heddle.cuda=debug".
void read_log_variable(const std::string& text, ConfigRead* read, ConfigReader& reader) {
  if (text.empty()) return;
  Config& config = read->config;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string word = text.substr(start, end - start);
    start = end + 1;
    const size_t equals = word.find('=');
    uint32_t level = 0;
    if (!log_level_from_name(equals == std::string::npos ? word : word.substr(equals + 1), &level)) {
      Place place{read->diagnostics.add_file("HEDDLE_LOG", text), {}};
      read->diagnostics.error(
          place, "E105", fmt::format("'{}' is not a log level; trace, debug, info, warn, error or off was expected", word.substr(0, 64)));
      continue;
    }
    if (equals == std::string::npos) {
      config.log.level = level;
    } else {
      config.log.components[word.substr(0, equals)] = level;
    }
    const std::string key = equals == std::string::npos ? "log.level" : fmt::format("log.components.\"{}\"", word.substr(0, equals));
    reader.effective_value(key, fmt::format("\"{}\"", log_level_name(level)), "HEDDLE_LOG");
  }
}

}  // namespace

std::string allocator_path(const std::string& alias, size_t depth) {
  std::string path = "device." + alias + ".allocator";
  for (size_t i = 0; i < depth; ++i) path += ".over";
  return path;
}

bool is_cpu_list(std::string_view text) {
  // ranges separated by commas: 0-3,8
  while (!text.empty()) {
    uint32_t first = 0, last = 0;
    auto read = std::from_chars(text.data(), text.data() + text.size(), first);
    if (read.ec != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(read.ptr - text.data()));
    last = first;
    if (!text.empty() && text.front() == '-') {
      text.remove_prefix(1);
      read = std::from_chars(text.data(), text.data() + text.size(), last);
      if (read.ec != std::errc()) return false;
      text.remove_prefix(static_cast<size_t>(read.ptr - text.data()));
    }
    if (last < first || last >= 65536) return false;
    if (text.empty()) return true;
    if (text.front() != ',') return false;
    text.remove_prefix(1);
  }
  return false;
}

void read_config_text(const std::string& name, const std::string& text, ConfigRead* read) {
  ConfigReader(*read).text(name, text);
}

void finish_config(ConfigRead* read) {
  Diagnostics& diagnostics = read->diagnostics;
  std::vector<std::string> aliases;
  for (const DeviceConfig& device : read->config.devices) aliases.push_back(device.alias);
  // With [device.*] tables only their aliases exist. Without them, names such as "cpu" or "cpu:1" are resolved when the devices are known.
  if (!aliases.empty()) {
    for (const auto& [alias, place] : read->aliases_used) {
      if (diagnostics.is_full()) break;
      if (std::find(aliases.begin(), aliases.end(), alias) != aliases.end()) continue;
      diagnostics.error(place, "E202", fmt::format("no device is named '{}'; there are {}", alias.substr(0, 64), fmt::join(aliases, ", ")),
                        did_you_mean(alias, aliases), alias.size() + 2);
    }
  }
  const std::set<std::string> disabled(read->config.plugin_disable.begin(), read->config.plugin_disable.end());
  for (const std::string& id : read->config.plugin_require) {
    if (diagnostics.is_full()) break;
    if (disabled.count(id) == 0) continue;
    Place place{};
    for (const auto& [named, at] : read->plugin_ids) {
      if (named == id) place = at;
    }
    diagnostics.error(place, "E203", fmt::format("'{}' is in both 'require' and 'disable' of [plugins]; one of them was expected", id), {},
                      id.size() + 2);
  }
  // The content of a line that could not be read is unknown.
  if (read->is_partial) return;
  if (!read->config.validation.dump.empty() && read->config.validation.dump_folder.empty()) {
    diagnostics.error(read->validation_place, "E104", "[validation] dumps regions and lacks the key 'dump_folder'");
  }
  for (const DeviceConfig& device : read->config.devices) {
    for (size_t depth = 1; depth < device.allocators.size(); ++depth) {
      if (!device.allocators[depth].plugin.empty()) continue;
      const std::string path = allocator_path(device.alias, depth);
      for (const auto& [known, at] : read->allocator_tables) {
        if (known == path)
          diagnostics.error(at, "E104", fmt::format("[{}] lacks the key 'plugin'", path), "add it, e.g. plugin = \"heddle.pool\"");
      }
    }
    const bool lacks_driver = device.driver.empty();
    if (!lacks_driver && (device.has_select || device.select_is_wrong)) continue;
    // The plain data keeps locations as text: find the table's location again by its name.
    Place place{};
    for (const auto& [alias, at] : read->device_tables) {
      if (alias == device.alias) place = at;
    }
    diagnostics.error(place, "E104", fmt::format("[device.{}] lacks the key '{}'", device.alias, lacks_driver ? "driver" : "select"),
                      lacks_driver ? "add it, e.g. driver = \"heddle.cpu\"" : "add it, e.g. select = { ordinal = 0 }");
  }
  for (size_t i = 0; i < read->config.routes.size(); ++i) {
    const RouteConfig& route = read->config.routes[i];
    read->config.effective.push_back({fmt::format("route[{}]", i),
                                      fmt::format("{{ slot = \"{}\", to = [\"{}\"], fallback = \"{}\" }}", route.slot,
                                                  fmt::join(route.to, "\", \""), route.fallback_next ? "next" : "error"),
                                      route.place});
  }
  for (size_t i = 0; i < read->config.prefers.size(); ++i) {
    const PreferConfig& prefer = read->config.prefers[i];
    const std::string dtype = prefer.dtype.empty() ? "" : fmt::format(", dtype = [\"{}\"]", fmt::join(prefer.dtype, "\", \""));
    read->config.effective.push_back({fmt::format("prefer[{}]", i),
                                      fmt::format("{{ op = \"{}\"{}, use = [\"{}\"] }}", prefer.op, dtype, fmt::join(prefer.use, "\", \"")),
                                      prefer.place});
  }
}

namespace {

constexpr char kSettings[] = "HEDDLE_SET";

// HEDDLE_SET: lines of TOML, or the same separated by semicolons.
std::string settings_as_lines(std::string text) {
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quote != 0) {
      if (text[i] == '\\' && quote == '"')
        ++i;
      else if (text[i] == quote)
        quote = 0;
    } else if (text[i] == '"' || text[i] == '\'') {
      quote = text[i];
    } else if (text[i] == ';') {
      text[i] = '\n';
    }
  }
  return text;
}

void read_sources(const ConfigSources& sources, const std::string& settings, ConfigRead* out_read) {
  using Who = ConfigReader::Who;
  ConfigReader reader(*out_read);
  std::string path = sources.path;
  Who who = Who::kCaller;
  const char* variable = nullptr;
  if (sources.use_files && path.empty() && sources.use_environment) {
    who = Who::kEnvironment;
    path = environment("HEDDLE_CONFIG");
    if (path.empty()) {
      path = user_path();
    } else {
      variable = "HEDDLE_CONFIG";
    }
  }
  if (is_there(sources.system_path)) {
    if (sources.use_files && path.empty()) {
      reader.file(sources.system_path, nullptr, Who::kSystem);
    } else {
      reader.security_of(sources.system_path);
    }
  }
  const SecurityConfig system = out_read->config.security;
  if (sources.use_files && !path.empty()) reader.file(path, nullptr, who, variable);
  if (!settings.empty()) reader.text(kSettings, settings);
  if (sources.use_environment) read_log_variable(environment("HEDDLE_LOG"), out_read, reader);
  if (!sources.text.empty()) reader.text("<text>", sources.text);
  reader.tighten(system, sources.system_path);
}

}  // namespace

void read_config(const ConfigSources& sources, ConfigRead* out_read) {
  read_sources(sources, {}, out_read);
  const std::string settings = sources.use_environment ? settings_as_lines(environment("HEDDLE_SET")) : "";
  if (!settings.empty()) {
    if (out_read->config.security.strict || out_read->config.security.strict_modules) {
      Diagnostics& diagnostics = out_read->diagnostics;
      diagnostics.warning({diagnostics.add_file(kSettings, settings), {}}, "E204",
                          "the variable is ignored: the configuration sets strict mode, in which the environment has no effect");
    } else {
      *out_read = {};
      read_sources(sources, settings, out_read);
    }
  }
  finish_config(out_read);
}

}  // namespace heddle::host
