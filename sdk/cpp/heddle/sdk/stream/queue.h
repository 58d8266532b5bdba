// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A queue: one stream, its completion word, and the work in flight on it.
//
// A submission whose waits are all reached or already enqueued on a stream is issued at once. One that waits for a value that the host has yet to
// signal is held by the engine, so that no stream ever waits for work that is not enqueued (HD-Q-01).
#ifndef HEDDLE_SDK_STREAM_QUEUE_H_
#define HEDDLE_SDK_STREAM_QUEUE_H_

#include <atomic>
#include <deque>
#include <mutex>

#include "heddle/sdk/stream/list.h"
#include "heddle/sdk/stream/timeline.h"

namespace heddle::sdk::stream {

struct Recording;

// The work of one submit, transfer or replay; lives until it retires, then its memory is reused.
struct Submission {
  // Bytes that are copied to the host once the list is done.
  struct Download {
    void* target;
    const char* source;
    uint64_t length;
  };
  List list;
  Recording* recording = nullptr;  // replayed instead of the list
  std::vector<heddle_point_t> waits, signals;
  std::vector<Download> downloads;
  std::vector<Event> events;  // for a timed list: one before it and one after each op
  Watches watches;            // from submit to retirement
  heddle_command_time_t* times = nullptr;
  uint64_t number = 0;
  bool issued = false;                 // reached the stream
  heddle_status_t* failure = nullptr;  // failure of issuing, or of a wait

  void clear() noexcept {
    list.clear();
    recording = nullptr;
    waits.clear();
    signals.clear();
    downloads.clear();
    events.clear();
    times = nullptr;
    number = 0;
    issued = false;
    failure = nullptr;
  }
};

class Queue {
 public:
  explicit Queue(Device* device) noexcept : api_(device->api), device_(device) {}
  heddle_status_t* start(uint32_t priority);
  // On a stream of the application, on this device.
  heddle_status_t* start_over(Stream stream);
  // Waits for all enqueued work. The device no longer lists the queue.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  static Queue* from(heddle_queue_t* handle) noexcept { return reinterpret_cast<Queue*>(handle); }
  heddle_queue_t* handle() noexcept { return reinterpret_cast<heddle_queue_t*>(this); }
  Device* device() const noexcept { return device_; }
  Stream stream() const noexcept { return stream_; }

  // An empty submission; pass it to submit or abandon.
  Submission* draft();
  void abandon(Submission* submission) noexcept;
  // Checks waits and signals, then issues the submission or holds it. Always consumes it.
  heddle_status_t* submit(Submission* submission, const heddle_sync_t& sync);
  // Creates the events of a draft whose list is timed.
  heddle_status_t* take_events(Submission* submission);
  // Issues a held submission if its waits are enqueued now.
  bool try_issue(Submission* submission) noexcept;

  bool has_news() const noexcept {
    return done() > retired_.load(std::memory_order_acquire) || loose_.load(std::memory_order_acquire) != 0 ||
           (device_->is_lost() && unfinished_.load(std::memory_order_acquire) != 0);
  }
  // Advances or fails the signals of completed work; true if there was any. Work that waited for a point of another queue comes after that queue's, so
  // that it gets the failure of the point: where that is of this device, this returns, and *out_must_wait is set.
  bool retire(bool* out_must_wait) noexcept;
  // Adds the kernels of the submission that is running on the stream, for the text of a fault; none if it waits for another queue.
  void list_suspects(std::vector<Suspect>* out);
  // Counts work of the device's thread for jobs that was enqueued on this queue.
  void begin_job() noexcept { jobs_.fetch_add(1, std::memory_order_acq_rel); }
  void end_job() noexcept { jobs_.fetch_sub(1, std::memory_order_acq_rel); }
  void pin() noexcept { pins_.fetch_add(1, std::memory_order_acq_rel); }
  void unpin() noexcept { pins_.fetch_sub(1, std::memory_order_acq_rel); }

 private:
  enum class Issue { kDone, kHeld };
  uint64_t done() const noexcept {
    if (device_->backend.capabilities().polls_words) device_->backend.poll_word(*word_);
    return word_->value->load(std::memory_order_acquire);
  }
  Issue issue_locked(Submission* submission, Result* out_result, size_t* out_failed);
  Issue issue(Submission* submission);
  heddle_status_t* submit_checked(Submission* submission, const heddle_sync_t& sync, bool* out_counted);
  heddle_status_t* take_word();
  void read_times(const Submission& submission) noexcept;
  void finish(Submission* submission) noexcept;
  Device* first_of(const Submission& submission) const noexcept;

  const heddle_driver_api_t* api_;  // HD-H-01: the first word of the object
  Device* device_;
  Stream stream_ = nullptr;
  bool is_foreign_ = false;
  Word* word_ = nullptr;  // written by the stream
  std::mutex mutex_;
  uint64_t last_ = 0;                  // number of the last issued submission; under mutex_, like all members up to here
  std::deque<Submission*> in_flight_;  // in the order of their numbers
  std::vector<Submission*> spare_;
  std::deque<Submission*> failed_;  // submissions that never reached the stream
  std::atomic<uint64_t> loose_{0};  // size of failed_
  std::atomic<uint64_t> retired_{0};
  std::atomic<uint64_t> unfinished_{0};
  std::atomic<uint64_t> jobs_{0};
  std::atomic<uint32_t> pins_{0};
  std::atomic<bool> retiring_{false};
};

// NULL, or why an application's stream accepts no work now.
heddle_status_t* check_not_captured(Device* device, Stream stream) noexcept;

}  // namespace heddle::sdk::stream
#endif  // HEDDLE_SDK_STREAM_QUEUE_H_
