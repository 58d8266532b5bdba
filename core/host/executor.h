// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host's threads for work that must not run where it arises: callbacks of drivers, calls in several pieces, host calls (HD-Q-04).
// Used by the host table and by calls in pieces; starts no thread until work arrives or is announced.
#ifndef HEDDLE_CORE_HOST_EXECUTOR_H_
#define HEDDLE_CORE_HOST_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "core/status.h"

namespace heddle::host {

class Executor {
 public:
  explicit Executor(uint32_t max_threads);
  // Runs the accepted work, including work that is not due yet, then joins.
  ~Executor();
  // Runs function(context) once on one of its threads. UNAVAILABLE after stop, or if no thread can be started.
  Status execute(void (*function)(void* context), void* context) noexcept;
  // The same, not before CLOCK_MONOTONIC reaches due_ns.
  Status execute_at(uint64_t due_ns, void (*function)(void* context), void* context) noexcept;
  // Work that its owner keeps alive until the function begins. Enqueueing needs no memory, so that a driver callback can always hand it over.
  struct Job {
    void (*function)(void* context) = nullptr;
    void* context = nullptr;
    Job* next = nullptr;  // used by the executor
  };
  // Ensures that there is a thread for jobs; call once before the first job. RESOURCE_EXHAUSTED if none can be started.
  Status prepare() noexcept;
  // Runs the job's function once on one of its threads; tries to start another thread if none is idle. False: stop was called, the job is not run.
  bool run(Job* job) noexcept;
  // Cancels what execute_at was given; false if it is running or has run.
  bool take_back(uint64_t due_ns, void* context) noexcept;
  // Accepts no more work.
  void stop() noexcept;

 private:
  struct State;
  Status add(uint64_t due_ns, void (*function)(void* context), void* context) noexcept;
  std::atomic<bool> is_prepared_{false};
  std::shared_ptr<State> state_;  // shared with its threads: the last reference to the host may be dropped on one of them
};

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_EXECUTOR_H_
