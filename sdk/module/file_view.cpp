// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Called through file_view.h.
#include "sdk/module/file_view.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace heddle::module {

int open_to_read(const std::string& path) {
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    int number = -1;
    const auto [end, wrong] = std::from_chars(path.data() + folder.size(), path.data() + path.size(), number);
    if (wrong != std::errc() || *end != '\0' || number < 0) continue;
    const int flags = fcntl(number, F_GETFL);
    if (flags == -1 || (flags & (O_WRONLY | O_PATH)) == 0) return fcntl(number, F_DUPFD_CLOEXEC, 0);
    errno = EBADF;
    return -1;
  }
  return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

int open_beside(const std::string& path, const std::string& location) {
  const size_t slash = path.rfind('/');
  const int directory = open(slash == path.npos ? "." : path.substr(0, slash + 1).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return -1;
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;  // a FIFO would hang
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  auto opened = static_cast<int>(syscall(SYS_openat2, directory, location.c_str(), &how, sizeof how));
  int code = errno;
  if (opened < 0 && code == ENOSYS) {
    // An old kernel: only a plain name in the same directory can be checked without races.
    const bool is_plain = location.find('/') == location.npos && location != "..";
    opened = is_plain ? openat(directory, location.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY) : -1;
    code = is_plain ? errno : EXDEV;
  }
  close(directory);
  errno = code;
  return opened;
}

std::string why_not_beside(int error_number) {
  const std::string cause = error_number == EXDEV   ? "its location is outside the model's directory"
                            : error_number == ELOOP ? "its location is or goes through a link"
                                                    : std::strerror(error_number);
  return cause + "; it must be below the model's directory, without links";
}

bool is_descriptor_path(const std::string& path) {
  const size_t slash = path.rfind('/');
  struct statfs facts;
  return statfs(slash == path.npos ? "." : path.substr(0, slash + 1).c_str(), &facts) == 0 && facts.f_type == PROC_SUPER_MAGIC;
}

Wrong FileView::read(uint64_t offset, std::span<std::byte> out) const {
  for (uint64_t done = 0; done < out.size();) {
    // The system reads at most 2 GiB at once.
    const size_t most = std::min<uint64_t>(out.size() - done, uint64_t{1} << 30);
    const ssize_t got = pread(descriptor_, out.data() + done, most, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::strerror(errno);
    if (got == 0) return "the file became shorter while it was read";
    done += static_cast<uint64_t>(got);
  }
  return {};
}

}  // namespace heddle::module
