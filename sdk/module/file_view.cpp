// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Called through file_view.h.
#include "sdk/module/file_view.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace heddle::module {

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
