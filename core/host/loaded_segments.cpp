// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lists loaded segments through the dynamic linker.
#include "core/host/loaded_segments.h"

#include <link.h>

namespace heddle::host {

LoadedSegments::LoadedSegments() {
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* context) {
        auto& segments = *static_cast<std::vector<Segment>*>(context);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& header = info->dlpi_phdr[i];
          if (header.p_type != PT_LOAD) continue;
          uintptr_t start = info->dlpi_addr + header.p_vaddr;
          segments.push_back({start, start + header.p_memsz, header.p_flags});
        }
        return 0;
      },
      &segments_);
}

bool LoadedSegments::inside(uintptr_t start, uint64_t size, uint32_t flags) const {
  for (const Segment& segment : segments_) {
    if ((segment.flags & flags) == flags && start >= segment.start && start <= segment.end && size <= segment.end - start) {
      return true;
    }
  }
  return false;
}

bool LoadedSegments::readable(const void* data, uint64_t size) const {
  return data && inside(reinterpret_cast<uintptr_t>(data), size, PF_R);
}

bool LoadedSegments::executable(const void* address) const {
  return address && inside(reinterpret_cast<uintptr_t>(address), 1, PF_X);
}

}  // namespace heddle::host
