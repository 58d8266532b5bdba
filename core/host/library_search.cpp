// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows the dynamic linker's order (ld.so(8)): run path, LD_LIBRARY_PATH as it was when the process started, ld.so.cache, system directories. The
// linker itself reports the second and the last; the cache is read in the layout of glibc's dl-cache.h.
#include "core/host/library_search.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/host/elf_file.h"
#include "core/host/text_file.h"

namespace heddle::host {
namespace {

constexpr char kCachePath[] = "/etc/ld.so.cache";
constexpr size_t kMaxCacheBytes = 16 << 20;

void append_once(std::vector<std::string>& folders, std::string folder) {
  if (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  // A relative directory would depend on the current directory.
  if (folder.empty() || folder.front() != '/') return;
  if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(std::move(folder));
}

std::string expand_origin(std::string folder, const std::string& origin) {
  for (std::string_view token : {std::string_view("${ORIGIN}"), std::string_view("$ORIGIN")}) {
    for (size_t at = folder.find(token); at != std::string::npos; at = folder.find(token, at + origin.size())) {
      folder.replace(at, token.size(), origin);
    }
  }
  return folder;
}

bool is_loaded(const std::string& soname) {
  // RTLD_NOLOAD maps nothing: it only tells whether the library is already loaded.
  void* handle = dlopen(soname.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return false;
  dlclose(handle);
  return true;
}

// The directories that the linker searches for this program: LD_LIBRARY_PATH, its own run path, the system's.
std::vector<std::string> program_folders() {
  std::vector<std::string> folders;
  void* program = dlopen(nullptr, RTLD_LAZY);
  if (!program) return folders;
  Dl_serinfo size{};
  if (dlinfo(program, RTLD_DI_SERINFOSIZE, &size) == 0) {
    auto memory = std::make_unique<char[]>(size.dls_size);
    auto* paths = reinterpret_cast<Dl_serinfo*>(memory.get());
    if (dlinfo(program, RTLD_DI_SERINFOSIZE, paths) == 0 && dlinfo(program, RTLD_DI_SERINFO, paths) == 0) {
      for (unsigned i = 0; i < paths->dls_cnt; ++i) append_once(folders, paths->dls_serpath[i].dls_name);
    }
  }
  dlclose(program);
  return folders;
}

constexpr char kNewSubfolder[] = "glibc-hwcaps";
// Of glibc before 2.37: the platform's name, and names of features.
#if defined(__x86_64__)
constexpr const char* kOldSubfolders[] = {"tls", "x86_64", "haswell", "xeon_phi", "avx512_1", "sse2"};
#elif defined(__aarch64__)
constexpr const char* kOldSubfolders[] = {"tls", "aarch64", "atomics"};
#else
constexpr const char* kOldSubfolders[] = {"tls"};
#endif
constexpr int kMaxOldDepth = 4;

bool is_folder(const std::string& path) {
  struct stat facts;
  return stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

void append_old_subfolders(const std::string& folder, int depth, std::vector<std::string>* out) {
  if (depth == kMaxOldDepth) return;
  for (const char* name : kOldSubfolders) {
    const std::string path = folder + "/" + name;
    if (!is_folder(path)) continue;
    out->push_back(path);
    append_old_subfolders(path, depth + 1, out);
  }
}

bool is_usable(const std::string& path) {
  ElfFile file;
  return read_elf_file(path, ElfParts::kHeaders, &file).empty() && file.elf_class == (sizeof(void*) == 8 ? 2u : 1u) &&
         file.machine == own_machine();
}

}  // namespace

std::vector<std::string> processor_folders(const std::string& folder) {
  std::vector<std::string> found;
  const std::string outer = folder + "/" + kNewSubfolder;
  if (DIR* entries = opendir(outer.c_str())) {
    found.push_back(outer);
    while (const dirent* entry = readdir(entries)) {
      const std::string path = outer + "/" + entry->d_name;
      if (entry->d_name[0] != '.' && is_folder(path)) found.push_back(path);
    }
    closedir(entries);
  }
  append_old_subfolders(folder, 0, &found);
  return found;
}

std::vector<std::string> find_in_linker_cache(std::string_view cache, std::string_view soname) {
  // struct cache_file_new: magic and version (20 bytes), nlibs, len_strings, flags, 3 bytes, extension_offset, 12 bytes.
  // struct file_entry_new: flags, key, value, osversion (4 bytes each), hwcap (8). Offsets count from the header.
  constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
  constexpr size_t kHeaderBytes = 48, kEntryBytes = 24;
  size_t start = 0;
  if (cache.substr(0, kMagic.size()) != kMagic) {
    // An old-format table may come first: "ld.so-1.7.0", a count, entries of 12 bytes, then the new table, aligned.
    start = cache.find(kMagic);
    if (start == std::string_view::npos) return {};
  }
  cache.remove_prefix(start);
  if (cache.size() < kHeaderBytes) return {};
  auto word = [&](size_t offset) {
    uint32_t value;
    std::memcpy(&value, cache.data() + offset, sizeof(value));
    return value;
  };
  auto text = [&](uint32_t offset) -> std::string_view {
    if (offset >= cache.size()) return {};
    size_t end = cache.find('\0', offset);
    return end == std::string_view::npos ? std::string_view() : cache.substr(offset, end - offset);
  };
  const size_t count = std::min<size_t>(word(kMagic.size()), (cache.size() - kHeaderBytes) / kEntryBytes);
#if defined(__x86_64__)
  constexpr uint32_t kWanted = 0x0303;  // FLAG_X8664_LIB64 | FLAG_ELF_LIBC6
#elif defined(__aarch64__)
  constexpr uint32_t kWanted = 0x0a03;
#else
  constexpr uint32_t kWanted = 0x0003;
#endif
  std::vector<std::string> found;
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = kHeaderBytes + i * kEntryBytes;
    if (word(entry) != kWanted || text(word(entry + 4)) != soname) continue;
    std::string_view path = text(word(entry + 8));
    if (!path.empty() && path.front() == '/') found.emplace_back(path);
  }
  return found;
}

namespace {

std::string mapped_from(const std::string& soname) {
  void* handle = dlopen(soname.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return {};
  link_map* map = nullptr;
  std::string path;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name) path = map->l_name;
  dlclose(handle);
  return path;
}

}  // namespace

std::vector<std::string> LibrarySearch::find_all(const std::string& soname) {
  std::vector<std::string> found;
  auto append = [&](std::string path) {
    if (is_usable(path) && std::find(found.begin(), found.end(), path) == found.end()) found.push_back(std::move(path));
  };
  if (soname.find('/') != std::string::npos) {
    append(soname);
    return found;
  }
  if (std::string mapped = mapped_from(soname); !mapped.empty()) return {std::move(mapped)};
  for (const auto* folders : {&folders_, &system_folders_}) {
    for (const std::string& folder : *folders) {
      for (const std::string& inner : processor_folders(folder)) append(inner + "/" + soname);
      append(folder + "/" + soname);
    }
  }
  std::string cache;
  if (read_text_file(kCachePath, kMaxCacheBytes, &cache).empty()) {
    for (std::string& path : find_in_linker_cache(cache, soname)) append(std::move(path));
  }
  return found;
}

LibrarySearch::LibrarySearch(const std::vector<std::string>& run_path, const std::string& library_path) {
  const std::string origin = library_path.substr(0, library_path.find_last_of('/'));
  for (const std::string& folder : run_path) append_once(folders_, expand_origin(folder, origin));
  for (std::string& folder : program_folders()) append_once(system_folders_, std::move(folder));
  searched_ = folders_;
  for (const std::string& folder : system_folders_) append_once(searched_, folder);
  searched_.emplace_back(kCachePath);
}

std::string LibrarySearch::find(const std::string& soname) {
  if (soname.find('/') != std::string::npos) return is_usable(soname) ? soname : std::string();
  if (is_loaded(soname)) return soname;
  for (const auto* folders : {&folders_, &system_folders_}) {
    for (const std::string& folder : *folders) {
      std::string path = folder + "/" + soname;
      if (is_usable(path)) return path;
    }
  }
  std::string cache;
  if (read_text_file(kCachePath, kMaxCacheBytes, &cache).empty()) {
    for (std::string& path : find_in_linker_cache(cache, soname)) {
      if (is_usable(path)) return std::move(path);
    }
  }
  return {};
}

}  // namespace heddle::host
