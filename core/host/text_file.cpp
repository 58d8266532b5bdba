// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bounded reading; never blocks on a pipe or a device in place of a file.
#include "core/host/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/host/descriptor.h"

namespace heddle::host {

std::string read_text_file(const std::string& path, size_t max_bytes, std::string* out_text, uint32_t* out_owner) {
  out_text->clear();
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  return file ? read_text_file(file.get(), max_bytes, out_text, out_owner) : std::strerror(errno);
}

std::string read_text_file(int descriptor, size_t max_bytes, std::string* out_text, uint32_t* out_owner) {
  out_text->clear();
  std::string wrong;
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) {
    wrong = std::strerror(errno);
  } else if (!S_ISREG(facts.st_mode)) {
    wrong = "it is not a regular file";
  }
  if (wrong.empty() && out_owner) *out_owner = facts.st_uid;
  // The size is only a hint: files of /sys report 4096, and files may grow.
  char buffer[16384];
  while (wrong.empty()) {
    ssize_t count = read(descriptor, buffer, sizeof(buffer));
    if (count == 0) break;
    if (count < 0) {
      if (errno == EINTR) continue;
      wrong = std::strerror(errno);
      break;
    }
    if (out_text->size() + static_cast<size_t>(count) > max_bytes) {
      wrong = fmt::format("it has more than {} bytes", max_bytes);
      break;
    }
    out_text->append(buffer, static_cast<size_t>(count));
  }
  if (!wrong.empty()) out_text->clear();
  return wrong;
}

}  // namespace heddle::host
