// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cache: one small text file per verdict, named by a hash of its key and containing the whole key, written to a temporary file and renamed.
#include "core/host/probe_cache.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <set>

#include "core/host/elf_file.h"
#include "core/host/library_search.h"
#include "core/host/probe.h"
#include "core/host/process.h"
#include "core/host/text_file.h"

namespace heddle::host {
namespace {

constexpr char kFormat[] = "heddle-probe-cache/2";
constexpr size_t kMaxBytes = 64 << 10;
constexpr int64_t kFailureSeconds = 600;  // a crash or a timeout may have had a temporary cause

bool append_file_facts(const std::string& path, std::string& key) {
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) return false;
  key += fmt::format("file {} {} {} {}.{} {}.{}\n", facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec,
                     facts.st_ctim.tv_sec, facts.st_ctim.tv_nsec);
  return true;
}

std::string escaped(std::string_view text);

// The vendor's libraries as the linker would find them now: they change when the vendor's driver is updated.
void append_libraries(const Manifest& manifest, std::string& key) {
  ElfFile file;
  if (!read_elf_file(manifest.library_path, ElfParts::kNeeded, &file).empty()) return;  // preflight will report it
  LibrarySearch search(file.run_path, manifest.library_path);
  auto append = [&](const std::string& soname) {
    key += fmt::format("needs {}\n", escaped(soname));
    for (const std::string& path : search.find_all(soname)) append_file_facts(path, key);
  };
  for (const NeededLibrary& library : manifest.libraries) append(library.soname);
  for (const std::string& soname : manifest.opened_libraries) append(soname);
  for (const std::string& soname : file.needed) append(soname);
}

// The kernel part of a vendor's driver: modules bound to devices of the vendors in the manifest.
void append_kernel_modules(const Manifest& manifest, std::string& key) {
  DIR* devices = manifest.pci_vendors.empty() ? nullptr : opendir("/sys/bus/pci/devices");
  if (!devices) return;
  std::set<std::string> lines;
  while (dirent* entry = readdir(devices)) {
    if (entry->d_name[0] == '.') continue;
    const std::string device = fmt::format("/sys/bus/pci/devices/{}", entry->d_name);
    std::string text;
    if (!read_text_file(device + "/vendor", 4096, &text).empty()) continue;
    const unsigned long vendor = std::strtoul(text.c_str(), nullptr, 16);
    if (std::find(manifest.pci_vendors.begin(), manifest.pci_vendors.end(), vendor) == manifest.pci_vendors.end()) continue;
    char module[256] = {};
    const ssize_t size = readlink((device + "/driver/module").c_str(), module, sizeof(module) - 1);
    std::string line = fmt::format("driver {}", size > 0 ? escaped(module) : "none");
    for (const char* fact : {"version", "srcversion"}) {
      if (read_text_file(fmt::format("{}/driver/module/{}", device, fact), 256, &text).empty()) line += " " + escaped(text);
    }
    lines.insert(line + "\n");
  }
  closedir(devices);
  for (const std::string& line : lines) key += line;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\n' || c == '\\' || static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

uint64_t hash_of(std::string_view text) {
  uint64_t hash = 14695981039346656037ull;  // FNV-1a
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211ull;
  return hash;
}

std::string name_of(const std::string& id, const std::string& key) {
  return fmt::format("{}-{:016x}", id, hash_of(key));
}

}  // namespace

std::string ProbeCache::default_folder() {
  return module::UserCache::default_folder("probe");
}

std::string ProbeCache::key_of(const Manifest& manifest, const std::vector<OptionValue>& options) {
  std::string key = fmt::format("{}\nhost {}.{} {}\nid {}\n", kFormat, HEDDLE_ABI_MAJOR, HEDDLE_ABI_MINOR, geteuid(), escaped(manifest.id));
  key += fmt::format("library {}\n", escaped(manifest.library_path));
  if (!append_file_facts(manifest.library_path, key) || !append_file_facts(manifest.path, key)) return {};
  static const std::string boot = [] {
    std::string text;
    (void)read_text_file("/proc/sys/kernel/random/boot_id", 64, &text);
    return text;
  }();
  if (boot.empty()) return {};
  key += "boot " + boot;
  append_libraries(manifest, key);
  append_kernel_modules(manifest, key);
  // For manifests that name no vendor. An allocator has no device of its own.
  const bool has_device = manifest.kind != HEDDLE_PLUGIN_ALLOCATOR;
  for (const char* path :
       {"/sys/module/nvidia/version", "/sys/module/amdgpu/srcversion", "/sys/module/i915/srcversion", "/sys/module/xe/srcversion"}) {
    std::string version;
    if (has_device && read_text_file(path, 256, &version).empty()) key += fmt::format("module {} {}\n", path, escaped(version));
  }
  auto append_variable = [&](const char* name) {
    if (const char* value = std::getenv(name)) key += fmt::format("env {}={}\n", name, escaped(value));
  };
  for (const std::string& name : manifest.code_variables) append_variable(name.c_str());
  for (const char* name :
       {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY", "ONEAPI_DEVICE_SELECTOR", "LD_LIBRARY_PATH", "LD_PRELOAD"}) {
    append_variable(name);
  }
  for (const OptionValue& option : options) key += fmt::format("option {}\n", escaped(option_to_argument(option)));
  return key;
}

std::string ProbeCache::why_unused() const {
  const std::string wrong = cache_.why_unused();
  return wrong.empty() ? wrong : "probe results of plugins are not cached: " + wrong;
}

bool ProbeCache::find(const std::string& id, const std::string& key, Verdict* out_verdict) const {
  if (key.empty()) return false;
  const std::optional<std::string> found = cache_.find(name_of(id, key), kMaxBytes);
  if (!found || found->compare(0, key.size(), key) != 0) return false;
  // After the key: "verdict <state> <devices> <time>", "vendor <text>", "reason <text>", "end".
  std::string_view rest = std::string_view(*found).substr(key.size());
  auto line = [&](std::string_view word, std::string_view* out_text) {
    size_t end = rest.find('\n');
    if (end == std::string_view::npos || rest.substr(0, word.size()) != word || end < word.size()) return false;
    *out_text = rest.substr(word.size(), end - word.size());
    rest.remove_prefix(end + 1);
    return true;
  };
  std::string_view numbers, vendor, reason, nothing;
  if (!line("verdict ", &numbers) || !line("vendor ", &vendor) || !line("reason ", &reason) || !line("end", &nothing)) return false;
  uint32_t state = 0, devices = 0;
  int64_t kept_at = 0;
  const char* end = numbers.data() + numbers.size();
  auto read = std::from_chars(numbers.data(), end, state);
  if (read.ec != std::errc() || read.ptr == end) return false;
  read = std::from_chars(read.ptr + 1, end, devices);
  if (read.ec != std::errc() || read.ptr == end) return false;
  read = std::from_chars(read.ptr + 1, end, kept_at);
  if (read.ec != std::errc() || !is_finding(state) || devices > kMaxDevices) return false;
  const int64_t age = static_cast<int64_t>(time(nullptr)) - kept_at;
  if (static_cast<PluginState>(state) != PluginState::kAvailable && (age < 0 || age > kFailureSeconds)) return false;
  *out_verdict = {static_cast<PluginState>(state), std::string(reason), devices, std::string(vendor)};
  return true;
}

void ProbeCache::keep(const std::string& id, const std::string& key, const Verdict& verdict) const {
  if (key.empty() || !verdict.lasting) return;
  if (verdict.state == PluginState::kNoDevice || verdict.state == PluginState::kMissingDependency) return;
  (void)cache_.keep(
      name_of(id, key),
      key + fmt::format("verdict {} {} {}\nvendor {}\nreason {}\nend\n", static_cast<uint32_t>(verdict.state), verdict.device_count,
                        static_cast<int64_t>(time(nullptr)), escaped(verdict.vendor_version), escaped(verdict.reason)));
}

}  // namespace heddle::host
