// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device's own threads: one retires work when no thread waits for it (notifications) and issues held submissions, one moves bytes
// that need a host thread (ordinary host memory, files). Both start on first use and are joined when the device is closed (HD-T-01).
#ifndef HEDDLE_SDK_STREAM_ENGINE_H_
#define HEDDLE_SDK_STREAM_ENGINE_H_

#include <condition_variable>
#include <functional>
#include <list>
#include <thread>

#include "heddle/sdk/stream/queue.h"

namespace heddle::sdk::stream {

class Engine {
 public:
  explicit Engine(Device* device) : device_(device) {}
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Takes a submission that cannot be issued yet.
  void hold(Queue* queue, Submission* submission);
  // A notification for a point is registered; until told() the thread retires work even if no thread waits.
  void watch();
  void told() noexcept;

  struct Job {
    std::vector<heddle_point_t> waits, signals;
    std::function<heddle_status_t*()> run;  // runs on the thread for jobs; returns NULL or its failure
    Queue* queue;          // the queue on which it was enqueued, whose destruction waits for it; NULL for one of the driver's own
    Watches watches = {};  // of the devices whose points it waits for
  };
  // Runs a job once its waits are reached.
  void enqueue(Job job);

  // Waits for points in a host thread and retires work meanwhile. Returns the verdict of heddle.timeline/1's wait. timeout_ns counts from now.
  static heddle_status_t* wait(Device* device, const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout_ns);

 private:
  void watch_loop() noexcept;
  void job_loop() noexcept;
  void start_watching();  // with mutex_ held
  bool release_held();
  void end(Job& job, heddle_status_t* failure) noexcept;

  Device* device_;
  std::mutex mutex_;
  std::condition_variable changed_, jobs_changed_;
  struct Held {
    Queue* queue;
    Submission* submission;
  };
  std::list<Held> held_;  // under mutex_
  std::list<Job> jobs_;   // under mutex_
  bool stop_ = false;
  std::atomic<uint64_t> watched_{0};
  std::thread watcher_, worker_;
};

}  // namespace heddle::sdk::stream
#endif  // HEDDLE_SDK_STREAM_ENGINE_H_
