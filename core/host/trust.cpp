// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ownership and modes along a path, each component opened from its parent's descriptor and never through a link.
#include "core/host/trust.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace heddle::host {
namespace {

std::string why_not(int descriptor, const std::string& path) {
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) return fmt::format("{} cannot be looked at: {}", path, std::strerror(errno));
  if (facts.st_uid != 0 && facts.st_uid != geteuid()) {
    return fmt::format("{} belongs to user {}, neither to root nor to user {}", path, facts.st_uid, geteuid());
  }
  if ((facts.st_mode & 022) != 0) return fmt::format("{} can be written by others (mode {:04o})", path, facts.st_mode & 07777);
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

bool is_secure_process() {
  return getauxval(AT_SECURE) != 0;
}

std::string why_untrusted(const std::string& path, std::string* out_path) {
  std::string wrong = check_path(path, out_path);
  return wrong.empty() ? wrong : wrong + "; strict mode asks for root or the user itself as the only writer";
}

}  // namespace heddle::host
