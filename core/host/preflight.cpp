// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Preflight. Reads only headers and directories; every refusal names the requirement, what was found and what to do.
#include "core/host/preflight.h"

#include <dirent.h>
#include <elf.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>

#include "core/host/cpu_level.h"
#include "core/host/digest.h"
#include "core/host/elf_file.h"
#include "core/host/library_search.h"
#include "core/host/load.h"
#include "core/host/text_file.h"
#include "core/host/trust.h"

namespace heddle::host {
namespace {

std::string own_architecture() {
  return machine_name(own_machine());
}

// Vendors on the PCI bus; false if the kernel does not report them.
bool read_pci_vendors(std::set<uint32_t>* out) {
  DIR* devices = opendir("/sys/bus/pci/devices");
  if (!devices) return false;
  while (dirent* entry = readdir(devices)) {
    if (entry->d_name[0] == '.') continue;
    std::string text;
    if (!read_text_file(fmt::format("/sys/bus/pci/devices/{}/vendor", entry->d_name), 4096, &text).empty()) continue;
    uint32_t vendor = 0;
    if (text.size() > 2 && std::from_chars(text.data() + 2, text.data() + text.size(), vendor, 16).ec == std::errc()) out->insert(vendor);
  }
  closedir(devices);
  return true;
}

Verdict check_abi(const Manifest& manifest) {
  if (manifest.abi_min.major == HEDDLE_ABI_MAJOR && manifest.abi_min.minor <= HEDDLE_ABI_MINOR &&
      manifest.abi_max.minor >= HEDDLE_ABI_MIN_MINOR) {
    return {};
  }
  const bool newer = manifest.abi_min.major > HEDDLE_ABI_MAJOR ||
                     (manifest.abi_min.major == HEDDLE_ABI_MAJOR && manifest.abi_min.minor > HEDDLE_ABI_MINOR);
  return {PluginState::kIncompatible,
          fmt::format("{} {} works with ABI {}.{} to {}.{}, this libheddle with {}.{} to {}.{}; install {} [HD-E-02]", manifest.id,
                      manifest.version, manifest.abi_min.major, manifest.abi_min.minor, manifest.abi_max.major, manifest.abi_max.minor,
                      HEDDLE_ABI_MAJOR, HEDDLE_ABI_MIN_MINOR, HEDDLE_ABI_MAJOR, HEDDLE_ABI_MINOR,
                      newer ? "a newer libheddle" : "a newer version of the plugin")};
}

Verdict check_isa(const Manifest& manifest) {
  if (manifest.isa.empty()) return {};
  const uint32_t level = level_from_name(manifest.isa);
  if (level == 0) {
    return {PluginState::kIncompatible,
            fmt::format("its manifest asks for isa '{}', which is not known; x86-64, x86-64-v2, x86-64-v3 or x86-64-v4 was expected",
                        manifest.isa)};
  }
  std::vector<std::string> missing = missing_features(level);
  if (missing.empty() && own_machine() == EM_X86_64) return {};
  return {PluginState::kIncompatible, fmt::format("it is built for {}, this CPU has x86-64-v{} and lacks {}; install a build for this CPU",
                                                  manifest.isa, cpu_level(), fmt::join(missing, ", "))};
}

Verdict check_library_file(const Manifest& manifest, ElfFile* out_file) {
  if (std::string wrong = read_elf_file(manifest.library_path, ElfParts::kAll, out_file); !wrong.empty()) {
    return {
        PluginState::kIncompatible,
        fmt::format(
            "its library {} cannot be used: {}; reinstall the plugin, or correct `library`, which is relative to the manifest's directory",
            manifest.library_path, wrong)};
  }
  if (out_file->machine != own_machine() || out_file->elf_class != (sizeof(void*) == 8 ? 2u : 1u)) {
    return {PluginState::kIncompatible,
            fmt::format("its library {} is built for {}-bit {}, this process is {}-bit {}", manifest.library_path,
                        out_file->elf_class == 2 ? 64 : 32, machine_name(out_file->machine), sizeof(void*) * 8, own_architecture())};
  }
  if (out_file->type != ET_DYN) {
    return {PluginState::kIncompatible, fmt::format("its library {} is not a shared library", manifest.library_path)};
  }
  return {};
}

// Symbols that a plugin exports besides its entry may replace a function of the application or of another plugin.
Verdict check_exports(const Manifest& manifest, const ElfFile& file) {
  std::string others;
  size_t count = 0;
  for (const std::string& name : file.exports) {
    if (name == HEDDLE_PLUGIN_ENTRY_NAME) continue;
    if (++count <= 3) others += (others.empty() ? "" : ", ") + name.substr(0, 64) + (name.size() > 64 ? "..." : "");
  }
  if (count == 0) return {};
  return {PluginState::kIncompatible,
          fmt::format(
              "its library {} exports {}{} symbols besides {}: {}{}; link it with a version script that exports only the entry [HD-B-01]",
              manifest.library_path, file.exports.size() >= kMaxExports ? "at least " : "", count, HEDDLE_PLUGIN_ENTRY_NAME, others,
              count > 3 ? ", ..." : "")};
}

// Entries of a run path must be absolute or below the library's directory, so that the directories examined here are those that the dynamic linker
// searches. Empty if they are.
std::string why_no_run_path(const ElfFile& file) {
  for (const std::string& entry : file.run_path) {
    std::string_view rest = entry;
    for (std::string_view origin : {"${ORIGIN}", "$ORIGIN"}) {
      if (!rest.starts_with(origin)) continue;
      rest.remove_prefix(origin.size());
      if (rest.empty()) rest = "/";
      break;
    }
    if (rest.starts_with('/') && rest.find('$') == std::string_view::npos) continue;
    return fmt::format("the entry '{}' of its RUNPATH or RPATH {}", entry.substr(0, 128),
                       rest.find('$') == std::string_view::npos ? "means the current directory, or one below it"
                                                                : "has a '$' other than a leading $ORIGIN");
  }
  return {};
}

Verdict check_run_path(const Manifest& manifest, const ElfFile& file) {
  const std::string wrong = why_no_run_path(file);
  if (wrong.empty()) return {};
  return {PluginState::kIncompatible,
          fmt::format("its library {} could load code from anywhere: {}; link it with absolute entries, or entries such as "
                      "$ORIGIN/../lib [HD-B-03]",
                      manifest.library_path, wrong)};
}

// A digest in a manifest detects accidents, such as a partially written file; it does not establish trust (docs/trust.md).
Verdict check_integrity(const Manifest& manifest) {
  if (manifest.sha256.empty()) return {};
  std::string found;
  if (std::string wrong = read_sha256(manifest.library_path, kMaxLibraryBytes, &found); !wrong.empty())
    return {PluginState::kIncompatible, wrong};
  if (found == manifest.sha256) return {};
  return {PluginState::kIncompatible,
          fmt::format("its library {} has the SHA-256 digest {}, but its manifest says {}; reinstall the plugin", manifest.library_path,
                      found, manifest.sha256)};
}

Verdict check_pci(const Manifest& manifest) {
  std::set<uint32_t> present;
  if (manifest.pci_vendors.empty() || !read_pci_vendors(&present)) return {};
  std::string wanted;
  for (uint16_t vendor : manifest.pci_vendors) {
    if (present.count(vendor)) return {};
    wanted += fmt::format("{}{:#06x}", wanted.empty() ? "" : " or ", vendor);
  }
  return {PluginState::kNoDevice, fmt::format("no device of PCI vendor {} is on the bus ({} vendors seen)", wanted, present.size())};
}

Verdict check_libraries(const Manifest& manifest, const ElfFile& file) {
  LibrarySearch search(file.run_path, manifest.library_path);
  auto missing = [&](const std::string& soname, const std::string& hint) {
    return Verdict{PluginState::kMissingDependency,
                   fmt::format("it needs {}, which is in none of {}; {}", soname, fmt::join(search.searched(), ", "),
                               hint.empty() ? "install the package that has it, or add its directory to the linker's search path" : hint)};
  };
  for (const NeededLibrary& library : manifest.libraries) {
    if (search.find(library.soname).empty()) return missing(library.soname, library.hint);
  }
  for (const std::string& soname : file.needed) {
    if (search.find(soname).empty()) return missing(soname, {});
  }
  return {};
}

// If a directory does not exist, its nearest existing parent decides who may create it.
std::string why_untrusted_folder(std::string folder) {
  while (folder.size() > 1 && access(folder.c_str(), F_OK) != 0) folder.resize(std::max<size_t>(1, folder.find_last_of('/')));
  std::string path;
  return why_untrusted(folder, &path);
}

// With the subdirectories for processors, in which the linker looks first.
std::string why_untrusted_search(const std::string& folder) {
  std::string wrong = why_untrusted_folder(folder);
  for (const std::string& inner : processor_folders(folder)) {
    if (wrong.empty()) wrong = why_untrusted_folder(inner);
  }
  return wrong;
}

// LD_LIBRARY_PATH comes before all but run paths. A name with a '/' is not searched for in directories.
std::string why_untrusted_environment() {
  const char* given = std::getenv("LD_LIBRARY_PATH");
  if (!given || *given == '\0') return {};
  std::string wrong, path = given;
  for (size_t start = 0; start <= path.size() && wrong.empty();) {
    const size_t end = std::min(path.find_first_of(":;", start), path.size());
    const std::string folder = path.substr(start, end - start);
    wrong = !folder.starts_with('/') ? "it names the current directory, or one below it, and strict mode requires absolute ones"
            : folder.find('$') != std::string::npos ? "it has a '$', which the dynamic linker would replace"
                                                    : why_untrusted_search(folder);
    start = end + 1;
  }
  return wrong.empty() ? wrong : "LD_LIBRARY_PATH: " + wrong;
}

}  // namespace

std::string why_needed_untrusted(const Manifest& manifest) {
  std::string wrong;
  for (const std::string& name : manifest.code_variables) {
    const char* value = std::getenv(name.c_str());
    if (value && *value != '\0')
      return fmt::format(
          "the environment variable {} is set, and lets libraries that {} opens load any code; unset it, or do not use strict mode", name,
          manifest.id);
  }
  std::set<std::string> seen = {manifest.library_path};
  std::vector<std::string> waiting = {manifest.library_path};
  bool needs_some = false;
  while (!waiting.empty()) {
    const std::string path = std::move(waiting.back());
    waiting.pop_back();
    ElfFile file;
    if (!read_elf_file(path, ElfParts::kNeeded, &file).empty()) continue;  // the dynamic linker does not accept it either
    if (wrong = why_no_run_path(file); !wrong.empty()) return fmt::format("{}: {}", path, wrong);
    LibrarySearch search(file.run_path, path);
    if (path == manifest.library_path) {  // libraries that it opens itself
      for (const NeededLibrary& library : manifest.libraries) file.needed.push_back(library.soname);
      file.needed.insert(file.needed.end(), manifest.opened_libraries.begin(), manifest.opened_libraries.end());
    }
    for (const std::string& folder : search.run_folders()) {
      if (wrong = why_untrusted_search(folder); !wrong.empty()) return fmt::format("the RUNPATH of {}: {}", path, wrong);
    }
    for (const std::string& soname : file.needed) {
      if (soname.find('$') != std::string::npos)
        return fmt::format("{} needs '{}', which the dynamic linker would resolve to another file", path, soname);
      for (const std::string& found : search.find_all(soname)) {  // none: loading will fail
        std::string trusted;
        if (!seen.insert(found).second) continue;
        if (wrong = why_untrusted(found, &trusted); !wrong.empty()) return fmt::format("{} needs {}: {}", path, soname, wrong);
        needs_some = true;
        waiting.push_back(found);
      }
    }
  }
  return needs_some ? why_untrusted_environment() : std::string();
}

Verdict preflight_quick(const Manifest& manifest) {
  if (Verdict verdict = check_abi(manifest); verdict.state != PluginState::kAvailable) return verdict;
  if (!manifest.arch.empty() && manifest.arch != own_architecture()) {
    return {PluginState::kIncompatible, fmt::format("it is built for {}, this process is {}; install a build for {}", manifest.arch,
                                                    own_architecture(), own_architecture())};
  }
  if (Verdict verdict = check_library_path(manifest.library_path); verdict.state != PluginState::kAvailable) return verdict;
  return check_isa(manifest);
}

Verdict preflight_integrity(const Manifest& manifest) {
  return check_integrity(manifest);
}

Verdict preflight(const Manifest& manifest) {
  Verdict verdict = preflight_quick(manifest);
  ElfFile file;
  if (verdict.state == PluginState::kAvailable) verdict = check_library_file(manifest, &file);
  if (verdict.state == PluginState::kAvailable) verdict = check_integrity(manifest);
  if (verdict.state == PluginState::kAvailable) verdict = check_exports(manifest, file);
  if (verdict.state == PluginState::kAvailable) verdict = check_run_path(manifest, file);
  if (verdict.state == PluginState::kAvailable) verdict = check_pci(manifest);
  if (verdict.state == PluginState::kAvailable) verdict = check_libraries(manifest, file);
  return verdict;
}

}  // namespace heddle::host
