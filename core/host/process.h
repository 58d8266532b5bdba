// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts about this process for hosts and plugins: the clock, and whether it is a forked child.
// Used by host.cpp and the host table.
#ifndef HEDDLE_CORE_HOST_PROCESS_H_
#define HEDDLE_CORE_HOST_PROCESS_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace heddle::host {

// Knows whether it is still in the process that created it (HD-T-01). One per host: a child may open a host of its own.
class ForkMark {
 public:
  ForkMark();
  ~ForkMark();
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;
  // True in a process forked since creation. Costs one load.
  bool in_forked_child() const;

 private:
  std::atomic<uint32_t>* page_ = nullptr;  // 1 in this process; the kernel wipes it to 0 in children
  size_t page_bytes_ = 0;
  pid_t pid_ = 0;  // used only without a page
};

// Monotonic clock in nanoseconds.
uint64_t clock_ns();

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_PROCESS_H_
