// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks ownership and modes along a path. Each component is opened from its parent's descriptor, and never through a link.
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

// The user that is trusted besides root: the user itself. With raised privileges this is the user that the program was given when it was started.
// If it was given only a group or capabilities, its user is the caller, and only root is trusted.
uid_t trusted_user() {
  if (!is_secure_process()) return geteuid();
  const auto effective = static_cast<uid_t>(getauxval(AT_EUID));
  return effective == static_cast<uid_t>(getauxval(AT_UID)) ? 0 : effective;
}

// The user whose process serves that file system: it can report any owners and modes. 0 also if no process serves it; -1: unknown.
int64_t server_of(int descriptor, dev_t device) {
  struct statfs system;
  // A file system that does not answer counts as served by a process: the kernel's own always answer.
  if (fstatfs(descriptor, &system) == 0 && system.f_type != FUSE_SUPER_MAGIC) return 0;
  std::string mounts;
  if (!read_text_file("/proc/self/mountinfo", 16 << 20, &mounts).empty()) return -1;
  return fuse_user(mounts, major(device), minor(device));
}

std::string why_not(int descriptor, const std::string& path) {
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) return fmt::format("{} cannot be examined: {}", path, std::strerror(errno));
  const uid_t user = trusted_user();
  if (facts.st_uid != 0 && facts.st_uid != user) {
    return fmt::format("{} belongs to user {}, neither to root nor to user {}", path, facts.st_uid, user);
  }
  if ((facts.st_mode & 022) != 0) return fmt::format("{} can be written by others (mode {:04o})", path, facts.st_mode & 07777);
  const int64_t server = server_of(descriptor, facts.st_dev);
  if (server != 0 && server != static_cast<int64_t>(user)) {
    return fmt::format("{} is on a file system served by {}, who can fake owners", path,
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
    // The name of a mount may contain anything but blanks, so the options are the last word.
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
  return wrong.empty() ? wrong : wrong + "; strict mode requires that only root or the user itself can write it";
}

}  // namespace heddle::host
