// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Detects forks by a page that the kernel wipes in children (MADV_WIPEONFORK): keeping it costs nothing, and a check costs one load.
// If the kernel does not support this, compares process ids. Knows nothing of plugins.
#include "core/host/process.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

namespace heddle::host {

ForkMark::ForkMark() : page_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), pid_(getpid()) {
  void* memory = mmap(nullptr, page_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  if (madvise(memory, page_bytes_, MADV_WIPEONFORK) != 0) {
    munmap(memory, page_bytes_);
    return;
  }
  page_ = static_cast<std::atomic<uint32_t>*>(memory);
  page_->store(1, std::memory_order_relaxed);
}

ForkMark::~ForkMark() {
  if (page_) munmap(page_, page_bytes_);
}

bool ForkMark::in_forked_child() const {
  if (page_) return page_->load(std::memory_order_relaxed) == 0;
  return pid_ != getpid();
}

uint64_t clock_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace heddle::host
