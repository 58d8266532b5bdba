// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loading of an instance's parameters by a thread of its own, while the application already has the instance.
// Owned by Instance; calls wait for its end.
#ifndef HEDDLE_CORE_SUBMIT_LOADING_H_
#define HEDDLE_CORE_SUBMIT_LOADING_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "core/status.h"

namespace heddle::submit {

class Loading {
 public:
  Loading() = default;
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;
  ~Loading() { stop(); }
  // Starts the work. It returns soon after cancelled() has become true.
  Status start(std::function<Status()> work);
  // Cancels the work and waits until it has returned.
  void stop();
  const std::atomic<bool>& cancelled() const { return cancelled_; }
  // Waits for the end of the work and returns its failure; DEADLINE_EXCEEDED if it goes on. [any] [may-block]
  Status wait(uint64_t timeout_ns) const;

 private:
  void end(Status&& outcome);

  std::thread thread_;
  std::atomic<bool> cancelled_{false}, over_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  Status failure_;  // set before over_, then constant
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_LOADING_H_
