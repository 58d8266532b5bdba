// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host's threads for work that may not run where it arises: callbacks of drivers, calls in several pieces, host calls (HD-Q-04).
// Used by the host table and by calls in pieces; starts no thread until it is given work, or told that some will come.
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
  // Runs what was accepted, also what is not due yet, then joins.
  ~Executor();
  // Runs function(context) once on one of its threads. UNAVAILABLE once stop was called or when no thread can be started.
  Status execute(void (*function)(void* context), void* context) noexcept;
  // The same, not before CLOCK_MONOTONIC reaches due_ns.
  Status execute_at(uint64_t due_ns, void (*function)(void* context), void* context) noexcept;
  // Work that its owner keeps until the function begins. It needs no memory, so that a callback of a driver can always hand it on.
  struct Job {
    void (*function)(void* context) = nullptr;
    void* context = nullptr;
    Job* next = nullptr;  // the executor's
  };
  // Sees to it that there is a thread for jobs: once before the first. RESOURCE_EXHAUSTED when none can be started.
  Status prepare() noexcept;
  // Runs the job's function once on one of its threads; one more thread is tried for if none is idle. False: stop was called, it is not run.
  bool run(Job* job) noexcept;
  // Takes back what execute_at was given; false if it runs, or ran.
  bool take_back(uint64_t due_ns, void* context) noexcept;
  // Accepts nothing more.
  void stop() noexcept;

 private:
  struct State;
  Status add(uint64_t due_ns, void (*function)(void* context), void* context) noexcept;
  std::atomic<bool> is_prepared_{false};
  std::shared_ptr<State> state_;  // its threads' too: the last reference to the host may go away on one of them
};

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_EXECUTOR_H_
