// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host finds, checks, probes and loads plugins, in this order and each step only on demand. A plugin that fails a step keeps a state and a
// reason; no step of one plugin depends on another plugin. Devices are in host_devices.cpp.
#include "core/host/host.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <thread>

#include "core/host/config_schema.h"
#include "core/host/digest.h"
#include "core/host/discovery.h"
#include "core/host/host_state.h"
#include "core/host/preflight.h"
#include "core/host/probe.h"
#include "core/host/trace.h"
#include "core/host/validation.h"

namespace heddle::host {

Plugin* Host::State::find(std::string_view id) {
  for (Plugin& plugin : plugins) {
    if (plugin.manifest.id == id) return &plugin;
  }
  return nullptr;
}

std::string Host::State::known_ids(uint32_t kind) const {
  std::string text;
  for (const Plugin& plugin : plugins) {
    if ((plugin.manifest.kind & kind) != 0) text.append(text.empty() ? "" : ", ").append(plugin.manifest.id);
  }
  return text.empty() ? fmt::format("none in {}", fmt::join(folders, ", ")) : text;
}

Status Host::State::not_in_child() const {
  if (!services->fork.in_forked_child()) return {};
  return Status(HEDDLE_STATUS_FAILED_PRECONDITION,
                "host: using a runtime failed: it was opened before this process was forked; open a new one in the child [HD-T-01]");
}

void Host::State::skip(std::string reason) {
  if (std::find(skipped.begin(), skipped.end(), reason) == skipped.end()) skipped.push_back(std::move(reason));
}

void Host::State::warn_once(const std::string& text) {
  if (text.empty() || std::find(warned.begin(), warned.end(), text) != warned.end()) return;
  warned.push_back(text);
  services->log.write(HEDDLE_LOG_WARN, "host", text);
}

// Checks the library against the operator's digests. The library is read anew each time.
Verdict Host::State::check_digests(const Plugin& plugin) const {
  const auto& table = config().security.plugin_digests;
  if (!table) return {};
  const auto listed = table->find(plugin.manifest.id);
  if (listed == table->end()) {
    return {PluginState::kUntrusted,
            fmt::format("{} is not among plugins.security.digests of the configuration; add the SHA-256 digest of {} to allow it",
                        plugin.manifest.id, plugin.manifest.library_path)};
  }
  std::string found;
  if (std::string wrong = read_sha256(plugin.manifest.library_path, kMaxLibraryBytes, &found); !wrong.empty())
    return {PluginState::kUntrusted, wrong};
  if (std::find(listed->second.begin(), listed->second.end(), found) != listed->second.end()) return {};
  return {PluginState::kUntrusted,
          fmt::format("its library {} has the SHA-256 digest {}, which plugins.security.digests of the configuration does not list for {}",
                      plugin.manifest.library_path, found, plugin.manifest.id)};
}

// True if nothing more has to be found out about the plugin; otherwise it passed preflight and waits for its probe.
bool Host::State::use_verdict_without_probe(Plugin& plugin, const std::string& key) {
  if (plugin.verdict.state != PluginState::kAvailable) return true;
  if (is_strict()) {
    std::string path;
    if (std::string wrong = why_untrusted(plugin.manifest.library_path, &path); !wrong.empty()) {
      plugin.verdict = {PluginState::kUntrusted, std::move(wrong)};
      return true;
    }
    plugin.manifest.library_path = path;
    if (std::string wrong = why_needed_untrusted(plugin.manifest); !wrong.empty()) {
      plugin.verdict = {PluginState::kUntrusted, std::move(wrong)};
      return true;
    }
  }
  plugin.verdict = check_digests(plugin);
  if (plugin.verdict.state != PluginState::kAvailable) return true;
  plugin.verdict = preflight_quick(plugin.manifest);
  if (plugin.verdict.state != PluginState::kAvailable) return true;
  if (!options.fresh_probe && cache.find(plugin.manifest.id, key, &plugin.verdict)) {
    plugin.from_cache = true;
    return true;
  }
  plugin.verdict = preflight(plugin.manifest);
  if (plugin.verdict.state != PluginState::kAvailable) return true;
  auto how = config().plugin_probe.find(plugin.manifest.id);
  if (how == config().plugin_probe.end() || how->second != "in-process") return false;
  // The operator chose this: a crash is then a crash of this process.
  if (const PluginLibraryRef library = load_plugin(plugin.manifest, &plugin.verdict)) {
    PluginHost plugin_host(plugin.manifest.id, library->abi_minor, services, plugin.options);
    plugin.verdict = run_probe(*library, plugin_host.table);
  }
  return true;
}

void Host::State::look(const std::vector<Plugin*>& wanted) {
  std::vector<Plugin*> waiting;
  std::vector<std::string> keys;
  std::vector<ProbeRequest> requests;
  for (Plugin* plugin : wanted) {
    if (plugin->looked) continue;
    plugin->looked = true;
    std::string key = ProbeCache::key_of(plugin->manifest, plugin->options);
    if (use_verdict_without_probe(*plugin, key)) continue;
    waiting.push_back(plugin);
    keys.push_back(std::move(key));
    requests.push_back(
        {plugin->manifest.id, plugin->manifest.version, plugin->manifest.library_path, plugin->manifest.timeout_ms, plugin->options});
  }
  if (waiting.empty()) return;
  const std::string program = find_probe_program();
  if (program.empty()) {
    for (Plugin* plugin : waiting) {
      plugin->verdict = {
          PluginState::kProbeFailed,
          fmt::format(
              "heddle-probe is neither in {0} nor in its sibling directories ../libexec and ../bin; install it, or set [plugins.probe] "
              "\"{1}\" = \"in-process\"",
              library_folder(), plugin->manifest.id)};
    }
    return;
  }
  std::vector<Verdict> verdicts = probe_in_children(program, requests, is_strict());
  for (size_t i = 0; i < waiting.size(); ++i) {
    waiting[i]->verdict = std::move(verdicts[i]);
    cache.keep(waiting[i]->manifest.id, keys[i], waiting[i]->verdict);
  }
}

PluginLibraryRef Host::State::load_plugin(const Manifest& manifest, Verdict* out_verdict) {
  PluginLibraryRef library = load_library(manifest.library_path, manifest.id, manifest.version, manifest.unloadable, out_verdict);
  if (library) libraries.push_back(library);
  return library;
}

Verdict Host::State::load_now(Plugin& plugin) {
  for (const Plugin& other : plugins) {
    if (!other.instance || &other == &plugin) continue;
    auto names = [](const Manifest& a, const Manifest& b) {
      return std::find(a.conflicts.begin(), a.conflicts.end(), b.id) != a.conflicts.end();
    };
    if (names(plugin.manifest, other.manifest) || names(other.manifest, plugin.manifest)) {
      return {PluginState::kIncompatible, fmt::format("it conflicts with {}, which is loaded; disable one of them", other.manifest.id)};
    }
  }
  Verdict verdict = check_digests(plugin);
  if (verdict.state == PluginState::kAvailable && plugin.from_cache) verdict = preflight_integrity(plugin.manifest);
  if (verdict.state != PluginState::kAvailable) return verdict;
  const PluginLibraryRef library = load_plugin(plugin.manifest, &verdict);
  if (!library) return verdict;
  if ((library->table.kind & plugin.manifest.kind) != plugin.manifest.kind) {
    return {PluginState::kIncompatible, fmt::format("its manifest says kind {}, its library {}; they must be the same [HD-E-03]",
                                                    kind_text(plugin.manifest.kind), kind_text(library->table.kind))};
  }
  auto plugin_host = std::make_unique<PluginHost>(plugin.manifest.id, library->abi_minor, services, plugin.options);
  if (config().validation.calls) validation->wrap_host(&plugin_host->table);
  plugin.instance = create_instance(library, std::move(plugin_host), &verdict);
  if (plugin.instance && config().validation.calls) plugin.instance->validate(*validation);
  return verdict;
}

Status Host::State::load(Plugin& plugin) {
  if (plugin.instance) return {};
  look({&plugin});
  if (plugin.verdict.state == PluginState::kAvailable) {
    Verdict verdict = load_now(plugin);
    if (plugin.instance) {
      plugin.verdict.state = PluginState::kLoaded;
      services->log.write(HEDDLE_LOG_DEBUG, "host",
                          fmt::format("loaded {} {} from {}", plugin.manifest.id, plugin.manifest.version, plugin.manifest.library_path));
      return {};
    }
    plugin.verdict = std::move(verdict);
  }
  return error(HEDDLE_STATUS_UNAVAILABLE, "host: loading plugin {} failed: {}: {}", plugin.manifest.id, words_of(plugin.verdict.state),
               plugin.verdict.reason);
}

Result<std::string> Host::module_path(const std::string& path) const {
  std::string trusted = path;
  if (config().security.strict_modules || is_secure_process()) {
    if (std::string wrong = why_untrusted(path, &trusted); !wrong.empty()) {
      return error(HEDDLE_STATUS_PERMISSION_DENIED, "module: opening '{}' failed: {}; a module holds native code", path, wrong);
    }
  }
  return trusted;
}

Status Host::check_module(const std::string& path, int descriptor, std::span<const std::byte> head) const {
  if (!config().security.module_digests) return {};
  std::string found;
  if (std::string wrong = read_sha256(path, descriptor, head, kMaxModuleBytes, &found); !wrong.empty()) {
    return error(HEDDLE_STATUS_PERMISSION_DENIED, "module: opening '{}' failed: {}", path, wrong);
  }
  const std::vector<std::string>& listed = *config().security.module_digests;
  if (std::find(listed.begin(), listed.end(), found) != listed.end()) return {};
  return error(HEDDLE_STATUS_PERMISSION_DENIED,
               "module: opening '{}' failed: its SHA-256 digest {} is not among the {} of modules.security.digests in the configuration",
               path, found, listed.size());
}

Host::Host(std::unique_ptr<State> state) : state_(std::move(state)) {}

Host::~Host() {
  // A forked child owns none of this: its threads do not exist, and the devices belong to the parent (HD-T-01).
  if (state_ && state_->services && state_->services->fork.in_forked_child()) (void)state_.release();
}

Result<std::unique_ptr<Host>> Host::open(const HostOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  // With raised privileges only the system's file and what the application names are read.
  const bool believe_environment = !options.no_config && !is_secure_process();
  ConfigSources sources;
  sources.use_files = !options.no_config;
  sources.use_environment = believe_environment;
  sources.path = options.config_path;
  sources.text = options.config_text;
  read_config(sources, &state->read);
  const Config& config = state->config();

  DiscoveryParams params;
  params.api_folders = options.plugin_paths;
  params.config_folders = config.plugin_paths;
  params.strict = state->is_strict();
  params.use_environment = believe_environment && !params.strict;
  params.pins = config.plugin_pin;
  state->folders = search_folders(params);
  std::vector<std::string> too_many;
  std::vector<FoundPlugin> found = discover(state->folders, params, &too_many);
  state->checked = check_options(&state->read, found);
  if (state->read.diagnostics.has_errors()) {
    const size_t count = state->read.diagnostics.error_count();
    return error(HEDDLE_STATUS_INVALID_ARGUMENT, "config: reading the configuration failed: {} error{}\n{}", count, count == 1 ? "" : "s",
                 state->read.diagnostics.render());
  }
  state->services = std::make_shared<HostServices>(options.log, config.log.level, config.log.components,
                                                   std::clamp(std::thread::hardware_concurrency(), 1u, 4u));
  if (!config.trace.sink.empty()) state->services->trace = std::make_unique<Trace>(config.trace, state->services->log);
  if (config.validation.any()) {
    Result<const heddle_validation_t*> layer = open_validation(state->is_strict());
    if (!layer.ok()) return layer.take_status();
    state->validation = *layer;
  }
  std::vector<std::string> lines = unusable_folders(params);
  lines.insert(lines.end(), too_many.begin(), too_many.end());
  for (const std::string& line : lines) state->services->log.write(HEDDLE_LOG_WARN, "host", line);
  for (Code code : {Code("E108"), Code("E204")}) {
    for (const std::string& line : state->read.diagnostics.warnings(code)) state->services->log.write(HEDDLE_LOG_WARN, "host", line);
  }
  state->cache = ProbeCache(params.strict ? std::string() : ProbeCache::default_folder());
  if (const std::string why = state->cache.why_unused(); !why.empty()) state->services->log.write(HEDDLE_LOG_DEBUG, "host", why);
  for (FoundPlugin& plugin : found) {
    for (const std::string& other : plugin.shadowed) {
      const std::string folder = plugin.manifest.path.substr(0, plugin.manifest.path.rfind('/'));
      if (other.substr(0, other.rfind('/')) != folder) continue;
      state->services->log.write(
          HEDDLE_LOG_WARN, "host",
          fmt::format("plugin directory '{}' holds two manifests of {}: {} is used and {} is not; remove one", folder, plugin.manifest.id,
                      plugin.manifest.path.substr(folder.size() + 1), other.substr(folder.size() + 1)));
    }
    Plugin& entry = state->plugins.emplace_back();
    entry.manifest = std::move(plugin.manifest);
    entry.verdict = std::move(plugin.verdict);
    entry.shadowed = std::move(plugin.shadowed);
    entry.options = with_defaults(entry.manifest, state->checked.by_driver[entry.manifest.id]);
    const auto& disabled = config.plugin_disable;
    if (std::find(disabled.begin(), disabled.end(), entry.manifest.id) != disabled.end()) {
      entry.verdict = {PluginState::kDisabled, "the configuration disables it"};
    }
  }
  std::unique_ptr<Host> host(new Host(std::move(state)));
  for (const std::string& id : config.plugin_require) {
    Plugin* plugin = host->state_->find(id);
    if (!plugin) {
      return error(HEDDLE_STATUS_UNAVAILABLE,
                   "host: starting failed: the configuration requires {}, which is in none of {}; install it, or name the "
                   "directory of its manifest with --plugin-path or plugins.paths",
                   id, fmt::join(host->state_->folders, ", "));
    }
    host->state_->look({plugin});
    if (plugin->verdict.state != PluginState::kAvailable) {
      return error(HEDDLE_STATUS_UNAVAILABLE, "host: starting failed: the configuration requires {}", plugin->why());
    }
  }
  return host;
}

std::string Host::schema() const {
  std::lock_guard lock(state_->mutex);
  std::vector<const Manifest*> manifests;
  for (const Plugin& plugin : state_->plugins) manifests.push_back(&plugin.manifest);
  return config_schema(manifests);
}

const Config& Host::config() const {
  return state_->config();
}

std::vector<ConfigValue> Host::effective() const {
  std::vector<ConfigValue> values = config().effective;
  auto add_defaults = [&](const std::string& table, const Manifest& manifest, const std::vector<OptionValue>& options) {
    for (const OptionValue& option : options) {
      if (option.origin == kManifestDefault)
        values.push_back({table + "." + option.name, to_toml(option), fmt::format("{} of {}", kManifestDefault, manifest.path)});
    }
  };
  std::lock_guard lock(state_->mutex);
  for (const Plugin& plugin : state_->plugins) {
    if (plugin.is_driver()) add_defaults(fmt::format("driver.\"{}\"", plugin.manifest.id), plugin.manifest, plugin.options);
  }
  for (const DeviceConfig& device : config().devices) {
    for (size_t depth = 0; depth < std::max<size_t>(device.allocators.size(), 1); ++depth) {
      const std::string named = depth < device.allocators.size() ? device.allocators[depth].plugin : "";
      const Plugin* plugin = state_->find(named.empty() ? kDefaultAllocator : named);
      const std::string path = allocator_path(device.alias, depth);
      if (named.empty()) values.push_back({path + ".plugin", fmt::format("\"{}\"", kDefaultAllocator), kManifestDefault});
      if (!plugin) continue;
      add_defaults(path, plugin->manifest, with_defaults(plugin->manifest, state_->checked.by_allocator[path]));
    }
  }
  return with_default_values(std::move(values), config().devices);
}

const heddle_validation_t* Host::validation() const {
  return state_->validation;
}

std::vector<ValidationInfo> Host::validated() {
  std::vector<ValidationInfo> list;
  std::lock_guard lock(state_->mutex);
  for (const Plugin& plugin : state_->plugins) {
    if (!plugin.instance || !plugin.instance->validation) continue;
    list.push_back({plugin.manifest.id, 0, 0, {}});
    state_->validation->report(
        plugin.instance->handle,
        [](void* info, uint64_t calls, uint64_t violations, heddle_string_t first) {
          auto* into = static_cast<ValidationInfo*>(info);
          into->calls = calls;
          into->violations = violations;
          into->first = view(first);
        },
        &list.back());
  }
  return list;
}

// open fails if there are errors, so only warnings remain.
std::string Host::config_warnings() const {
  return state_->read.diagnostics.render();
}

std::vector<PluginInfo> Host::plugins(bool look) {
  std::lock_guard lock(state_->mutex);
  if (look && !state_->services->fork.in_forked_child()) {
    std::vector<Plugin*> all;
    for (Plugin& plugin : state_->plugins) all.push_back(&plugin);
    state_->look(all);
  }
  std::vector<PluginInfo> list;
  for (const Plugin& plugin : state_->plugins) {
    const Manifest& manifest = plugin.manifest;
    list.push_back({manifest.id, manifest.version, manifest.kind, manifest.families, plugin.verdict.state, plugin.verdict.reason,
                    manifest.path, manifest.library_path, plugin.verdict.vendor_version, plugin.verdict.device_count, plugin.from_cache,
                    plugin.shadowed, manifest.operators});
  }
  return list;
}

Result<LoadedDriver*> Host::driver(std::string_view plugin_id) {
  HEDDLE_RETURN_IF_ERROR(state_->not_in_child());
  std::lock_guard lock(state_->mutex);
  Plugin* plugin = state_->find(plugin_id);
  if (!plugin || !plugin->is_driver()) {
    return error(HEDDLE_STATUS_NOT_FOUND, "host: loading driver {} failed: no such driver is installed; found {}", plugin_id,
                 state_->known_ids(HEDDLE_PLUGIN_DRIVER));
  }
  HEDDLE_RETURN_IF_ERROR(state_->load(*plugin));
  return plugin->instance->driver.get();
}

Result<LoadedAllocator*> Host::allocator(std::string_view plugin_id) {
  HEDDLE_RETURN_IF_ERROR(state_->not_in_child());
  std::lock_guard lock(state_->mutex);
  Plugin* plugin = state_->find(plugin_id);
  if (!plugin || (plugin->manifest.kind & HEDDLE_PLUGIN_ALLOCATOR) == 0) {
    return error(HEDDLE_STATUS_NOT_FOUND, "host: loading allocator {} failed: no such allocator is installed; found {}", plugin_id,
                 state_->known_ids(HEDDLE_PLUGIN_ALLOCATOR));
  }
  HEDDLE_RETURN_IF_ERROR(state_->load(*plugin));
  return plugin->instance->allocator.get();
}

std::vector<LibraryCandidate> Host::libraries(const OperatorId& wanted, const std::string& pattern, size_t* out_others) {
  std::vector<LibraryCandidate> found;
  *out_others = 0;
  if (!state_->not_in_child().ok()) return found;
  std::lock_guard lock(state_->mutex);
  std::vector<Plugin*> declaring;
  for (Plugin& plugin : state_->plugins) {
    if ((plugin.manifest.kind & HEDDLE_PLUGIN_LIBRARY) == 0 || fnmatch(pattern.c_str(), plugin.manifest.id.c_str(), 0) != 0) continue;
    const bool declares = std::any_of(plugin.manifest.operators.begin(), plugin.manifest.operators.end(), [&](const OperatorId& id) {
      return id.domain == wanted.domain && id.name == wanted.name && id.version == wanted.version;
    });
    if (declares) declaring.push_back(&plugin);
    *out_others += !declares;
  }
  state_->look(declaring);  // their probes run in parallel
  for (Plugin* plugin : declaring) {
    const bool loaded = state_->load(*plugin).ok();
    found.push_back(
        {plugin->manifest.id, loaded ? plugin->instance->operations.get() : nullptr, loaded ? std::string() : plugin->why(" declares it")});
  }
  return found;
}

Result<std::vector<AllocatorLayer>> Host::allocators(const DeviceInfo& device) {
  std::vector<AllocatorLayer> stack;
  const bool configured = device.config && !device.config->allocators.empty();
  for (size_t depth = 0; depth < (configured ? device.config->allocators.size() : 1); ++depth) {
    std::string id = configured ? device.config->allocators[depth].plugin : "";
    if (id.empty()) id = kDefaultAllocator;
    Result<LoadedAllocator*> loaded = allocator(id);
    if (!loaded.ok() && !configured) {
      log(HEDDLE_LOG_DEBUG, "memory", fmt::format("device '{}' has no pool: {}", device.alias, loaded.status().message()));
      return stack;
    }
    if (!loaded.ok()) return loaded.take_status();
    std::lock_guard lock(state_->mutex);
    std::vector<OptionValue> values;
    if (configured) {
      if (auto set = state_->checked.by_allocator.find(allocator_path(device.alias, depth)); set != state_->checked.by_allocator.end()) {
        values = set->second;
      }
    }
    stack.push_back({*loaded, with_defaults(state_->find(id)->manifest, values)});
  }
  return stack;
}

Executor& Host::executor() {
  return state_->services->executor;
}

void Host::log(uint32_t level, std::string_view component, std::string_view message) {
  state_->services->log.write(level, component, message);
}

uint32_t Host::log_level(std::string_view component) const {
  return state_->services->log.level(component);
}

Trace* Host::trace() const {
  return static_cast<Trace*>(state_->services->trace.get());
}

bool Host::in_forked_child() const {
  return state_->services->fork.in_forked_child();
}

}  // namespace heddle::host
