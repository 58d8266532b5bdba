// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contexts, streams and events of the host's backend.
#ifndef HEDDLE_TESTS_STREAMS_HOST_STREAM_H_
#define HEDDLE_TESTS_STREAMS_HOST_STREAM_H_

#include "host_backend.h"
#include "late_gpu.h"

namespace heddle::test {

// A device's context, which all handles of the device in the process share unless each has its own.
struct HostContext {
  int ordinal = 0;
  int uses = 0;  // under the lock of all contexts
  std::atomic<int> ended{stream::kSuccess};
  std::atomic<uint64_t> used_bytes{0};
};

struct HostStream : LateStream {
  HostStream(HostContext* its_context, uint64_t seed, uint64_t latency_us)
      : LateStream(&its_context->ended, seed, latency_us), context(its_context) {}
  // Of an application: for whichever device uses it. lag_us: before each piece of work.
  explicit HostStream(uint64_t its_lag_us) : LateStream(&never(), 1, 0), lag_us(its_lag_us) {}
  HostContext* const context = nullptr;
  const uint64_t lag_us = 0;
  std::atomic<bool> is_captured{false};

 private:
  static std::atomic<int>& never() {
    static std::atomic<int> ended{stream::kSuccess};
    return ended;
  }
};

struct HostEvent {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0, passed = 0;
  uint64_t time_ns = 0;
  HostContext* context = nullptr;
};

// What is behind a completion word. With the option batch_us, streams write `reached`, and the word shows it later; first_ns: the time of the first
// value that it does not show yet.
struct HostWord {
  std::atomic<uint64_t> shown, reached, first_ns;
};

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_STREAMS_HOST_STREAM_H_
