// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See user_cache.h. All checks use open descriptors, whose targets cannot be exchanged.
#include "sdk/module/user_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "sdk/module/error.h"

namespace heddle::module {
namespace {

// Owns a file descriptor.
class Opened {
 public:
  explicit Opened(int number) : number_(number) {}
  Opened(Opened&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Opened& operator=(Opened&&) = delete;
  ~Opened() { close_now(); }
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  int take() { return std::exchange(number_, -1); }
  void close_now() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

std::string absolute(const char* variable) {
  const char* value = std::getenv(variable);
  return value && value[0] == '/' ? value : "";
}

bool make_folders(const std::string& folder) {
  for (size_t at = folder.find('/', 1); at != std::string::npos; at = folder.find('/', at + 1)) {
    if (mkdir(folder.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST) return false;
  }
  return mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
}

std::string why_not_own(int descriptor, mode_t kind, mode_t forbidden) {
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) return std::strerror(errno);
  if ((facts.st_mode & S_IFMT) != kind) return "it is of another kind";
  if (facts.st_uid != geteuid()) return concat("it belongs to user ", facts.st_uid, ", not to user ", geteuid());
  if ((facts.st_mode & forbidden) != 0) {
    std::string mode;
    for (int shift = 9; shift >= 0; shift -= 3) mode.push_back(static_cast<char>('0' + (facts.st_mode >> shift & 7)));
    return concat("others have access to it (mode ", mode, ")");
  }
  return {};
}

// Fails unless only the user has access to it.
Opened open_folder(const std::string& folder, std::string& wrong) {
  Opened opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  wrong = opened ? why_not_own(opened.get(), S_IFDIR, 077) : std::strerror(errno);
  if (!wrong.empty()) opened.close_now();
  return opened;
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

std::string UserCache::default_folder(std::string_view name) {
  if (getauxval(AT_SECURE) != 0) return {};
  std::string cache = absolute("XDG_CACHE_HOME");
  if (cache.empty()) {
    cache = absolute("HOME");
    if (cache.empty()) return {};
    cache += "/.cache";
  }
  return concat(cache, "/heddle/", name);
}

int UserCache::open(const std::string& name) const {
  if (folder_.empty()) return -1;
  std::string wrong;
  const Opened folder = open_folder(folder_, wrong);
  if (!folder) return -1;
  Opened file(openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  return file && why_not_own(file.get(), S_IFREG, 022).empty() ? file.take() : -1;
}

std::optional<std::string> UserCache::find(const std::string& name, size_t most_bytes) const {
  const Opened file(open(name));
  struct stat facts;
  if (!file || fstat(file.get(), &facts) != 0) return {};
  if (facts.st_size < 0 || static_cast<uint64_t>(facts.st_size) > most_bytes) return {};
  std::string bytes(static_cast<size_t>(facts.st_size), '\0');
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = read(file.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return {};
    done += static_cast<size_t>(count);
  }
  return bytes;
}

bool UserCache::keep(const std::string& name, std::string_view bytes) const {
  return keep(
      name, [](int descriptor, const void* context) { return write_all(descriptor, *static_cast<const std::string_view*>(context)); },
      &bytes);
}

bool UserCache::keep(const std::string& name, bool (*write)(int, const void*), const void* context) const {
  if (folder_.empty() || !make_folders(folder_)) return false;
  std::string wrong;
  const Opened folder = open_folder(folder_, wrong);
  if (!folder) return false;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::string temporary = concat(name, ".", getpid(), "-", now.tv_sec, "-", now.tv_nsec);
  Opened file(openat(folder.get(), temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return false;
  const bool is_written = write(file.get(), context);
  if (is_written && renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) == 0) return true;
  const int why = errno;
  unlinkat(folder.get(), temporary.c_str(), 0);
  errno = why;
  return false;
}

void UserCache::touch(const std::string& name) const {
  std::string wrong;
  const Opened folder = open_folder(folder_, wrong);
  if (folder) (void)utimensat(folder.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

void UserCache::trim(uint64_t most_bytes, bool (*is_entry)(std::string_view name)) const {
  std::string wrong;
  const Opened folder = open_folder(folder_, wrong);
  DIR* entries = folder ? fdopendir(dup(folder.get())) : nullptr;
  if (!entries) return;
  struct Entry {
    int64_t used_ns;
    uint64_t bytes;
    std::string name;
  };
  std::vector<Entry> files;
  uint64_t all = 0;
  while (const dirent* entry = readdir(entries)) {
    struct stat facts;
    const std::string_view name(entry->d_name);
    if (!is_entry(name.substr(0, name.find('.')))) continue;
    if (fstatat(folder.get(), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(facts.st_mode)) continue;
    files.push_back({facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec, static_cast<uint64_t>(facts.st_size), entry->d_name});
    all += files.back().bytes;
  }
  closedir(entries);
  while (all > most_bytes && !files.empty()) {
    const auto oldest = std::ranges::min_element(files, {}, &Entry::used_ns);
    (void)unlinkat(folder.get(), oldest->name.c_str(), 0);  // another process may already have done this
    all -= oldest->bytes;
    std::swap(*oldest, files.back());
    files.pop_back();
  }
}

std::string UserCache::why_unused() const {
  std::string wrong;
  if (folder_.empty() || open_folder(folder_, wrong) || access(folder_.c_str(), F_OK) != 0) return {};  // the first entry creates it
  return concat(folder_, " is not used: ", wrong, "; only its user may have access to it (mode 0700)");
}

}  // namespace heddle::module
