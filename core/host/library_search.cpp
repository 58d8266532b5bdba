// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows the dynamic linker's order (ld.so(8)): run path, LD_LIBRARY_PATH as it was when the process started, ld.so.cache, system directories. The
// linker itself reports the second and the last; the cache is read in the layout of glibc's dl-cache.h.
#include "core/host/library_search.h"

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

bool is_usable(const std::string& path) {
  ElfFile file;
  return read_elf_file(path, ElfParts::kHeaders, &file).empty() && file.elf_class == (sizeof(void*) == 8 ? 2u : 1u) &&
         file.machine == own_machine();
}

}  // namespace

std::string find_in_linker_cache(std::string_view cache, std::string_view soname) {
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
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = kHeaderBytes + i * kEntryBytes;
    if (word(entry) != kWanted || text(word(entry + 4)) != soname) continue;
    std::string_view path = text(word(entry + 8));
    if (!path.empty() && path.front() == '/') return std::string(path);
  }
  return {};
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

std::string LibrarySearch::find_file(const std::string& soname) {
  std::string found = find(soname);
  return found.empty() || found.find('/') != std::string::npos ? found : mapped_from(soname);
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
    std::string path = find_in_linker_cache(cache, soname);
    if (!path.empty() && is_usable(path)) return path;
  }
  return {};
}

}  // namespace heddle::host
