// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds plugins. A wrong manifest is one plugin with a reason; it hides nothing except later manifests with the same id.
#include "core/host/discovery.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/host/text_file.h"
#include "core/host/trust.h"
#include "heddle/plugin.h"

namespace heddle::host {
namespace {

constexpr size_t kMaxManifestsInFolder = 256;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void split(const std::string& text, std::vector<std::string>* out) {
  for (size_t start = 0; start <= text.size();) {
    size_t end = std::min(text.find(':', start), text.size());
    out->push_back(text.substr(start, end - start));
    start = end + 1;
  }
}

// Manifests of a directory in the order of their names, so that every run sees the same order, and the same ones if there are too many.
std::vector<std::string> all_manifests_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* entries = opendir(folder.c_str());
  if (!entries) return names;
  while (dirent* entry = readdir(entries)) {
    std::string name = entry->d_name;
    if (name.size() > 5 && name.front() != '.' && name.compare(name.size() - 5, 5, ".toml") == 0) names.push_back(std::move(name));
  }
  closedir(entries);
  std::sort(names.begin(), names.end());
  for (std::string& name : names) name = folder + "/" + name;
  return names;
}

// The ones that are read; a line about the others in out_lines, which may be NULL.
std::vector<std::string> manifests_in(const std::string& folder, std::vector<std::string>* out_lines) {
  std::vector<std::string> paths = all_manifests_in(folder);
  if (paths.size() <= kMaxManifestsInFolder) return paths;
  if (out_lines) {
    out_lines->push_back(fmt::format("plugin directory '{}' holds {} manifests; the first {} by name are read", folder, paths.size(),
                                     kMaxManifestsInFolder));
  }
  paths.resize(kMaxManifestsInFolder);
  return paths;
}

// The id for a plugin whose manifest does not give one: the manifest's file name.
std::string id_from_path(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  name.resize(name.size() - 5);
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return c < 0x21 || c >= 0x7f; }, '?');
  return name;
}

FoundPlugin read_plugin(const std::string& given, bool strict) {
  FoundPlugin plugin;
  std::string path = given;
  plugin.manifest.path = given;
  if (strict) {
    if (std::string wrong = why_untrusted(given, &path); !wrong.empty()) {
      plugin.manifest.id = id_from_path(given);
      plugin.verdict = {PluginState::kUntrusted, wrong};
      return plugin;
    }
    plugin.manifest.path = path;  // others may change links, but not this path
  }
  std::string text;
  if (std::string wrong = read_text_file(path, kMaxManifestBytes, &text); !wrong.empty()) {
    plugin.verdict = {PluginState::kIncompatible, fmt::format("reading its manifest {} failed: {}", path, wrong)};
  } else {
    Diagnostics diagnostics;
    if (!parse_manifest(path, text, diagnostics, &plugin.manifest)) {
      plugin.verdict = {PluginState::kIncompatible, "its manifest is wrong: " + diagnostics.first_line()};
      if (diagnostics.error_count() > 1) plugin.verdict.reason += fmt::format(" (and {} more)", diagnostics.error_count() - 1);
    }
  }
  if (plugin.manifest.id.empty()) plugin.manifest.id = id_from_path(path);
  return plugin;
}

bool is_passed_over(const FoundPlugin& plugin, const DiscoveryParams& params) {
  if (plugin.verdict.state == PluginState::kUntrusted) return true;
  auto pin = params.pins.find(plugin.manifest.id);
  return pin != params.pins.end() && plugin.manifest.version != pin->second;
}

}  // namespace

std::string library_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&library_folder), &info) || !info.dli_fname) return {};
  char* resolved = realpath(info.dli_fname, nullptr);
  if (!resolved) return {};
  std::string path(resolved);
  std::free(resolved);
  return path.substr(0, path.find_last_of('/'));
}

std::vector<std::string> search_folders(const DiscoveryParams& params) {
  std::vector<std::string> wanted = params.api_folders;
  wanted.insert(wanted.end(), params.config_folders.begin(), params.config_folders.end());
  if (params.use_environment) {
    split(environment("HEDDLE_PLUGIN_PATH"), &wanted);
    std::string data = environment("XDG_DATA_HOME");
    if (data.empty() && !environment("HOME").empty()) data = environment("HOME") + "/.local/share";
    if (!data.empty()) wanted.push_back(data + "/heddle/plugins.d");
  }
  if (std::string own = library_folder(); !own.empty()) {
    wanted.push_back(own + "/heddle/plugins.d");
    wanted.push_back(own + "/../lib/heddle/plugins.d");  // for a program in bin that links the host statically
  }
  for (const char* folder : {"/etc/heddle/plugins.d", "/usr/local/lib/heddle/plugins.d", "/usr/lib/heddle/plugins.d"})
    wanted.emplace_back(folder);
  std::vector<std::string> folders;
  for (std::string& folder : wanted) {
    if (folder.empty() || folder.front() != '/') continue;
    folder = std::filesystem::path(folder).lexically_normal().string();
    while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
    if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(std::move(folder));
  }
  return folders;
}

std::vector<std::string> unusable_folders(const DiscoveryParams& params) {
  std::vector<std::string> lines;
  auto look = [&](const std::vector<std::string>& folders, std::string_view who) {
    for (const std::string& folder : folders) {
      std::error_code failed;
      if (folder.empty()) continue;
      if (folder.front() != '/') {
        lines.push_back(fmt::format("plugin directory '{}' of {} is not searched: it is not absolute", folder, who));
      } else if (!std::filesystem::is_directory(folder, failed)) {
        lines.push_back(fmt::format("plugin directory '{}' of {} cannot be searched: {}", folder, who,
                                    failed ? failed.message() : std::string("it is not a directory")));
      }
    }
  };
  look(params.api_folders, "the application");
  std::vector<std::string> named;
  if (params.use_environment) split(environment("HEDDLE_PLUGIN_PATH"), &named);
  look(named, "HEDDLE_PLUGIN_PATH");
  return lines;
}

std::vector<FoundPlugin> discover(const std::vector<std::string>& folders, const DiscoveryParams& params,
                                  std::vector<std::string>* out_lines) {
  std::vector<FoundPlugin> found;
  for (const std::string& folder : folders) {
    for (const std::string& path : manifests_in(folder, out_lines)) {
      FoundPlugin plugin = read_plugin(path, params.strict);
      if (plugin.manifest.kind == HEDDLE_PLUGIN_TARGET) continue;  // the compiler's
      auto earlier = std::find_if(found.begin(), found.end(), [&](const FoundPlugin& p) { return p.manifest.id == plugin.manifest.id; });
      if (earlier == found.end()) {
        found.push_back(std::move(plugin));
      } else if (is_passed_over(*earlier, params) && !is_passed_over(plugin, params)) {
        // A pin and strict mode look beyond the first directory.
        plugin.shadowed = std::move(earlier->shadowed);
        plugin.shadowed.insert(plugin.shadowed.begin(), earlier->manifest.path);
        *earlier = std::move(plugin);
      } else {
        earlier->shadowed.push_back(path);
      }
    }
  }
  for (FoundPlugin& plugin : found) {
    if (plugin.verdict.state == PluginState::kAvailable && is_passed_over(plugin, params)) {
      plugin.verdict = {PluginState::kDisabled, fmt::format("it is version {}, but the configuration pins version {}",
                                                            plugin.manifest.version, params.pins.at(plugin.manifest.id))};
    }
  }
  return found;
}

}  // namespace heddle::host
