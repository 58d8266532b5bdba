// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host's threads for work that may not run where it arises: callbacks of drivers, host calls (HD-Q-04).
// Used by host.cpp and the host table; starts no thread until it is given work.
#ifndef HEDDLE_CORE_HOST_EXECUTOR_H_
#define HEDDLE_CORE_HOST_EXECUTOR_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "core/status.h"

namespace heddle::host {

class Executor {
 public:
  explicit Executor(uint32_t max_threads) : max_threads_(max_threads) {}
  // Runs what was accepted, then joins.
  ~Executor();
  // Runs function(context) once on one of its threads. UNAVAILABLE once stop was called or when no thread can be started.
  Status execute(void (*function)(void* context), void* context) noexcept;
  // Accepts nothing more.
  void stop() noexcept;

 private:
  struct Task {
    void (*function)(void*);
    void* context;
  };
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::vector<std::thread> threads_;
  uint32_t idle_ = 0;
  const uint32_t max_threads_;
  bool stopped_ = false;
};

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_EXECUTOR_H_
