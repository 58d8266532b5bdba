// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A queue of a CPU device: cheap lists run in the caller's thread, the others in the queue's thread or in that of a caller that waits for
// them, whichever comes first; they start in the order of submission. Files are read and written by a separate thread, so that other work does not
// wait while a model is loaded: submissions are ordered by their points alone.
#ifndef HEDDLE_CPU_QUEUE_H_
#define HEDDLE_CPU_QUEUE_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "cpu/commands.h"

namespace heddle::cpu {

class Queue {
 public:
  enum class For { kAll, kFiles };
  explicit Queue(Device* device, For what = For::kAll);
  // Waits for all enqueued work.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  static Queue* from(heddle_queue_t* handle) noexcept { return reinterpret_cast<Queue*>(handle); }
  heddle_queue_t* handle() noexcept { return reinterpret_cast<heddle_queue_t*>(this); }
  Device* device() const noexcept { return device_; }
  // The queue for reads and writes of files; created on first use, and owned by this queue.
  Queue* files();

  // Creates an empty work in a block of this queue; NULL when exhausted. Then lower into it, and submit or abandon it.
  class Draft {
   public:
    explicit Draft(Queue* queue) noexcept;
    ~Draft();  // abandons the work if it was not submitted
    Draft(const Draft&) = delete;
    Draft& operator=(const Draft&) = delete;
    Arena arena;
    Work* work;

   private:
    Queue* queue_;
  };

  // Checks waits and signals, then runs the work or hands it over. Consumes the draft, unless this fails.
  heddle_status_t* submit(Draft* draft, const heddle_sync_t& sync) noexcept;

  // Takes a ready work that signals `point`'s timeline, or an earlier one; NULL if there is none. Pass it to run_taken.
  Work* take_for(heddle_point_t point) noexcept;
  // After this returns, the queue may be destroyed.
  void run_taken(Work* work) noexcept;

 private:
  void loop() noexcept;
  Work* take_first() noexcept;
  void execute(Work* work, bool* own_core) noexcept;
  bool reads_lost(const Work& work) const noexcept;
  void retire(const Work& work, heddle_status_t* failure) noexcept;
  void give_back(Arena::Block* blocks) noexcept;
  heddle_status_t* hand_over(Work* work) noexcept;

  [[maybe_unused]] const heddle_driver_api_t* api_;  // HD-H-01: the first word
  Device* device_;
  const For what_;
  std::once_flag files_made_;
  std::unique_ptr<Queue> files_;
  std::atomic<Arena::Block*> spare_{nullptr};
  std::atomic<uint64_t> pending_{0};  // works handed over and not yet run
  std::atomic<uint32_t> helpers_{0};  // callers that are running a work; incremented under mutex_
  std::mutex mutex_;
  Work* first_ = nullptr;  // under mutex_, like all members up to here
  Work** end_ = &first_;
  bool started_ = false;
  bool pinned_ = false;
  std::atomic<uint32_t> news_{0};  // incremented with every work; the thread sleeps on it
  std::atomic<uint32_t> sleeping_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_QUEUE_H_
