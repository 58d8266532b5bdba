// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kit's own host: the table that a plugin gets, statuses, options. It counts what a plugin leaves behind, and runs out of memory on
// demand. Written against sdk/include only, so that a plugin is not tested with the real host's mistakes.
#ifndef HEDDLE_CONFORMANCE_HOST_H_
#define HEDDLE_CONFORMANCE_HOST_H_

#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "heddle/allocator.h"
#include "heddle/driver.h"
#include "heddle/ext/blocks.h"
#include "heddle/ext/library.h"
#include "heddle/ext/native.h"
#include "heddle/ext/profile.h"
#include "heddle/target.h"

namespace heddle::conformance {

// A sanitizer uses address space and keeps freed memory, so neither tells anything about the plugin.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHasShadowMemory = true;
#else
constexpr bool kHasShadowMemory = false;
#endif

inline heddle_string_t string_of(std::string_view text) {
  return {text.data(), text.size()};
}
inline std::string text_of(heddle_string_t text) {
  return std::string(text.data ? text.data : "", text.data ? text.size : 0);
}
std::string code_name(heddle_status_code_t code);

// An option's value, from the manifest or the command line.
struct OptionValue {
  std::string name;
  uint32_t kind = HEDDLE_OPTION_STRING;
  int64_t int_value = 0;
  double float_value = 0;
  std::string string_value;
};

class Host {
 public:
  explicit Host(std::vector<OptionValue> options);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const heddle_host_t* table() const { return &table_; }
  // The next `after` allocations succeed, the following one fails, and so do `more` after it.
  void fail_allocation(int64_t after, int64_t more = 0);
  // Whether one has failed since fail_allocation.
  bool has_failed_allocation() const { return allocations_failed_.load() != 0; }
  int64_t live_memory() const { return live_memory_.load(); }
  uint64_t allocations() const { return allocations_.load(); }
  uint64_t statuses_made() const { return statuses_made_.load(); }

  // Of all hosts.
  static int64_t live_statuses();

 private:
  static Host* from(void* self) { return static_cast<Host*>(self); }
  void* allocate(uint64_t size, uint64_t alignment);

  heddle_host_t table_ = {};
  std::vector<OptionValue> options_;
  pid_t process_ = getpid();
  std::atomic<int64_t> live_memory_{0};
  std::atomic<uint64_t> allocations_{0}, allocations_failed_{0}, statuses_made_{0};
  std::atomic<int64_t> fail_after_{-1}, fail_more_{0};
  std::mutex mutex_;
  std::vector<std::thread> threads_;  // threads of execute; under mutex_
};

// Owns a status.
class Result {
 public:
  Result(heddle_status_t* status) : status_(status) {}  // NOLINT: converts on purpose
  Result(Result&& other) noexcept : status_(other.status_) { other.status_ = nullptr; }
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result();
  bool ok() const { return !status_; }
  heddle_status_code_t code() const;
  std::string message() const;
  std::string payload(const std::string& key) const;
  // "RESOURCE_EXHAUSTED: ..."
  std::string text() const;
  // For a function that takes the status.
  heddle_status_t* release() {
    heddle_status_t* status = status_;
    status_ = nullptr;
    return status;
  }

 private:
  heddle_status_t* status_;
};

heddle_status_t* make_status(heddle_status_code_t code, std::string_view message);

// Resources of the process, for comparison.
uint64_t count_descriptors();
uint64_t count_threads();
std::set<std::string> thread_ids();
// One bit per signal, the lowest for signal 1; all bits for a thread that has ended meanwhile.
uint64_t blocked_signals(const std::string& thread_id);
uint64_t count_mappings();
uint64_t address_space_bytes();
// Bytes in use from malloc, for comparison with an earlier call; 0 if another allocator replaces it.
int64_t heap_bytes();
// The maximum in bytes since reset_peak_memory.
uint64_t peak_resident_bytes();
uint64_t resident_bytes();
void reset_peak_memory();
uint64_t now_ns();

}  // namespace heddle::conformance
#endif  // HEDDLE_CONFORMANCE_HOST_H_
