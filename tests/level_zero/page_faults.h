// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Page faults of kernels: as on a GPU, a kernel that accesses an address at which nothing is does not end the process.
#pragma once

#include <cstdint>

namespace heddle::level_zero_stand_in {

// For its lifetime, an access of any thread to an address without a mapping gets a page of zeros, which is unmapped at the end. Accesses to memory that is
// there and inaccessible, such as the host's to device memory, stay segmentation faults, and so do those to the first 64 KiB. One at a time.
class PageFaults {
 public:
  PageFaults();
  ~PageFaults();
  PageFaults(const PageFaults&) = delete;
  PageFaults& operator=(const PageFaults&) = delete;
  // The first address that was accessed so; 0 if there was none.
  uintptr_t first() const;
};

}  // namespace heddle::level_zero_stand_in
