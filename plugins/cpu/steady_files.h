// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files whose pages are a device's memory although others may write to them: the kernel lets nobody open such a file for writing, or truncate it,
// before this driver has copied the pages (a read lease, fcntl(2)). Used by param_io.cpp and memory.cpp.
#ifndef HEDDLE_CPU_STEADY_FILES_H_
#define HEDDLE_CPU_STEADY_FILES_H_

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "heddle/sdk/file.h"

namespace heddle::cpu {

class SteadyFiles {
 public:
  explicit SteadyFiles(const heddle_host_t* host) noexcept : host_(host) {}
  ~SteadyFiles();  // nothing is mapped any more
  SteadyFiles(const SteadyFiles&) = delete;
  SteadyFiles& operator=(const SteadyFiles&) = delete;

  struct Mapping {
    char* memory;  // of whole pages: bytes [offset, offset + bytes) of the file
    uint64_t offset, bytes;
    dev_t device;
    ino_t inode;
    int descriptor;  // holds the lease; -1 when the memory no longer belongs to the file
    bool is_lost;    // the contents may have changed
    Mapping* next;
  };

  // Maps bytes of a regular file from a page on; nothing is read yet. NULL and the reason if their contents cannot be guaranteed, or if mapping
  // would not be worth it. [any] [may-block]
  Mapping* map(const sdk::File& file, uint64_t offset, uint64_t bytes, const char** why);
  // [any] [may-block]: while the pages are copied
  void unmap(Mapping* mapping) noexcept;

  // Reads the bytes of the file at `to`, which is in the mapping, into the page cache, and enters the pages in the process's table. False if `to` is
  // not the place of these bytes, or if they cannot be read: errors are to be found by reading. [any] [may-block]
  static bool fill(const Mapping& mapping, int descriptor, uint64_t offset, uint64_t length, char* to) noexcept;

  // Whether the contents of something that is mapped may have changed: work that reads memory then fails with loss(), until it is unmapped.
  // [any] [no-block]
  bool has_lost() const noexcept { return in_doubt_.load(std::memory_order_acquire) || lost_.load(std::memory_order_acquire) != 0; }
  // NULL if nothing has changed after all. [any] [may-block]: while the pages are copied
  heddle_status_t* loss() noexcept;

 private:
  bool watch(const char** why);
  void loop() noexcept;
  void look() noexcept;
  void doubt() noexcept;
  void copy(Mapping& mapping) noexcept;
  void set_lost(Mapping& mapping, bool is_lost) noexcept;

  const heddle_host_t* host_;
  std::mutex mutex_;  // guards what follows; held while pages are copied
  std::condition_variable is_watched_;
  Mapping* first_ = nullptr;
  std::thread thread_;
  pid_t watcher_ = 0;  // the thread's number for the kernel; 0: there is none
  uint64_t lease_seconds_ = 0;
  uint64_t looked_ns_ = 0;  // when all leases were held
  char lost_name_[300] = {};
  bool stops_ = false;
  std::atomic<uint32_t> lost_{0};  // mappings; changes under mutex_, as does
  std::atomic<bool> in_doubt_{false};
};

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_STEADY_FILES_H_
