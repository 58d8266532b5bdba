// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A thread that does the work of all queues of a device, in the order of arrival, for drivers on the base classes of driver.h whose vendor's calls block,
// or are asynchronous and waited for at the end of a submission. Adds to the device's counter kernel_ns the time from the first dispatch of a submission to
// the end of that submission.
#ifndef HEDDLE_SDK_WORKER_H_
#define HEDDLE_SDK_WORKER_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "heddle/sdk/driver.h"

namespace heddle::sdk {

class Worker {
 public:
  // Does one operation, in the worker's thread, after the submission's waits were reached. It may throw. A failure ends the submission, and fails its
  // signals.
  using Run = std::function<heddle_status_t*(const Operation&)>;
  // Called after the last operation of a submission, and after a failure: returns when the device has done everything (HD-Q-06).
  using Finish = std::function<heddle_status_t*()>;

  // Throws std::system_error if the thread cannot be started. It blocks all signals (HD-T-02) and has the default floating-point environment.
  Worker(Device* device, Run run, Finish finish);
  // Finishes the enqueued work first.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // A queue for Device::make_queue, made with sdk::make.
  heddle_status_t* make_queue(Queue** out);

 private:
  class WorkerQueue;
  struct Item {
    std::unique_ptr<Submission> submission;
    uint64_t* unfinished;  // the queue's counter
  };
  void loop();
  heddle_status_t* run(const Submission& submission);

  Device* device_;
  Run run_;
  Finish finish_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;  // under mutex_, as are all counters
  bool stop_ = false;       // under mutex_
  std::thread thread_;
};

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_WORKER_H_
