// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Called through file_view.h.
#include "sdk/module/file_view.h"

#include <fcntl.h>
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
    if (wrong == std::errc() && *end == '\0' && number >= 0) return fcntl(number, F_DUPFD_CLOEXEC, 0);
  }
  return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
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
