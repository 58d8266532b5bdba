// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory ranges of this process's libraries, so that tables and strings from a plugin can be checked before they are read. Used by
// table_copy and load.
#ifndef HEDDLE_CORE_HOST_LOADED_SEGMENTS_H_
#define HEDDLE_CORE_HOST_LOADED_SEGMENTS_H_

#include <cstdint>
#include <vector>

namespace heddle::host {

class LoadedSegments {
 public:
  // Takes a snapshot of what is loaded now.
  LoadedSegments();
  // True if all of [data, data + size) lies in one readable segment of a loaded library.
  bool readable(const void* data, uint64_t size) const;
  // True if the address lies in an executable segment of a loaded library.
  bool executable(const void* address) const;

 private:
  struct Segment {
    uintptr_t start;
    uintptr_t end;
    uint32_t flags;  // PF_*
  };
  bool inside(uintptr_t start, uint64_t size, uint32_t flags) const;
  std::vector<Segment> segments_;
};

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_LOADED_SEGMENTS_H_
