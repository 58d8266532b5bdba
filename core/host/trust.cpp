// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ownership and modes along a path, each component opened from its parent's descriptor and never through a link.
#include "core/host/trust.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "core/host/text_file.h"

namespace heddle::host {
namespace {

// Beside root, whose files are good: the user itself. With raised rights that is the one whom the program was given, as it was started;
// where it was given a group or capabilities only, the user is the caller, and root alone is left.
uid_t trusted_user() {
  if (!is_secure_process()) return geteuid();
  const auto effective = static_cast<uid_t>(getauxval(AT_EUID));
  return effective == static_cast<uid_t>(getauxval(AT_UID)) ? 0 : effective;
}

// Who serves that file system, if a process does: what it says of owners and modes is its own invention. 0 also where none does, -1: not known.
int64_t server_of(int descriptor, dev_t device) {
  struct statfs system;
  // One that does not answer is served too: the kernel's own always do.
  if (fstatfs(descriptor, &system) == 0 && system.f_type != FUSE_SUPER_MAGIC) return 0;
  std::string mounts;
  if (!read_text_file("/proc/self/mountinfo", 16 << 20, &mounts).empty()) return -1;
  return fuse_user(mounts, major(device), minor(device));
}

std::string why_not(int descriptor, const std::string& path) {
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) return fmt::format("{} cannot be looked at: {}", path, std::strerror(errno));
  const uid_t user = trusted_user();
  if (facts.st_uid != 0 && facts.st_uid != user) {
    return fmt::format("{} belongs to user {}, neither to root nor to user {}", path, facts.st_uid, user);
  }
  if ((facts.st_mode & 022) != 0) return fmt::format("{} can be written by others (mode {:04o})", path, facts.st_mode & 07777);
  const int64_t server = server_of(descriptor, facts.st_dev);
  if (server != 0 && server != static_cast<int64_t>(user)) {
    return fmt::format("{} is on a file system that {} serves, who can make up owners", path,
                       server < 0 ? "an unknown user" : fmt::format("user {}", server));
  }
  return {};
}

std::string check_path(const std::string& path, std::string* out_path) {
  char* resolved = realpath(path.c_str(), nullptr);
  if (!resolved) return fmt::format("{} cannot be found: {}", path, std::strerror(errno));
  *out_path = resolved;
  std::free(resolved);
  int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (at < 0) return fmt::format("/ cannot be opened: {}", std::strerror(errno));
  std::string wrong = why_not(at, "/");
  for (size_t start = 1; wrong.empty() && start < out_path->size();) {
    const size_t end = std::min(out_path->find('/', start), out_path->size());
    const std::string so_far = out_path->substr(0, end);
    const int next = openat(at, out_path->substr(start, end - start).c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0) {
      wrong = fmt::format("{} cannot be opened: {}", so_far, std::strerror(errno));
      break;
    }
    close(at);
    at = next;
    wrong = why_not(at, so_far);
    start = end + 1;
  }
  close(at);
  return wrong;
}

}  // namespace

int64_t fuse_user(std::string_view mounts, uint32_t device_major, uint32_t device_minor) {
  // 36 35 0:45 / /mnt rw,nosuid - fuse.sshfs name rw,user_id=1000,group_id=1000
  const std::string device = fmt::format(" {}:{} ", device_major, device_minor);
  while (!mounts.empty()) {
    const std::string_view line = mounts.substr(0, mounts.find('\n'));
    mounts.remove_prefix(std::min(line.size() + 1, mounts.size()));
    const size_t second = line.find(' ', line.find(' ') + 1);
    if (second == std::string_view::npos || line.substr(second, device.size()) != device) continue;
    // The name of a mount may hold anything but blanks, so the last word it is, of options.
    const std::string_view options = line.substr(line.rfind(' ') + 1);
    constexpr std::string_view kKey = "user_id=";
    for (size_t start = 0; start < options.size();) {
      const std::string_view option = options.substr(start, options.find(',', start) - start);
      start += option.size() + 1;
      uint32_t user = 0;
      if (option.substr(0, kKey.size()) == kKey &&
          std::from_chars(option.data() + kKey.size(), option.data() + option.size(), user).ec == std::errc()) {
        return user;
      }
    }
  }
  return -1;
}

bool is_secure_process() {
  return getauxval(AT_SECURE) != 0;
}

std::string why_untrusted(const std::string& path, std::string* out_path) {
  std::string wrong = check_path(path, out_path);
  return wrong.empty() ? wrong : wrong + "; strict mode asks for root or the user itself as the only writer";
}

}  // namespace heddle::host
