// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An application's stream as a queue of a device: work is inserted after what is on the stream and before what is enqueued there later.
// Created by Device::foreign_stream for calls that request it; knows nothing of functions.
#ifndef HEDDLE_CORE_MEMORY_FOREIGN_STREAM_H_
#define HEDDLE_CORE_MEMORY_FOREIGN_STREAM_H_

#include <deque>
#include <mutex>

#include "core/memory/device.h"

namespace heddle::memory {

class ForeignStream {
 public:
  // The device must outlive it.
  static Result<std::unique_ptr<ForeignStream>> open(Device& device, uint64_t native);
  // Waits for the work that mark() and leave() enqueued.
  ~ForeignStream();
  ForeignStream(const ForeignStream&) = delete;
  ForeignStream& operator=(const ForeignStream&) = delete;

  uint64_t native() const { return native_; }
  const Device& device() const { return device_; }
  // `user`: who must call finish(user) once it needs no more of the stream. [any]
  // A timeline of the device whose last() is reached once the work now on the stream is complete.
  Result<Ref<Timeline>> mark(const void* user);
  // Waits for the work that is on the stream now. [may-block]
  Status wait(const void* user);
  // Later work on the stream waits for the timeline's value, whose work is already enqueued. Never throws.
  Status leave(const Ref<Timeline>& timeline, uint64_t value, const void* user) noexcept;
  // Waits for what mark() and leave() enqueued for the user, and for what was enqueued before it. [any] [may-block]
  void finish(const void* user);

 private:
  ForeignStream(Device& device, uint64_t native) : device_(device), native_(native) {}
  // A submission on the stream, which uses these timelines until it is complete (HD-Q-03). They keep the device alive: hence finish().
  struct Submitted {
    Ref<Timeline> signal, wait;
    const void* user;
  };
  // Enqueues a submission that waits for the value, if there is a timeline, and signals a new timeline. [serial:mutex]
  Result<Ref<Timeline>> submit(const Ref<Timeline>& wait, uint64_t value, const void* user);
  // Forgets the first submissions, `at_least` of them, for which it waits, and all others that are complete. [serial:mutex]
  void sweep(size_t at_least);

  Device& device_;
  const uint64_t native_;
  heddle_queue_t* queue_ = nullptr;
  std::mutex mutex_;
  std::deque<Submitted> unfinished_;  // in the order of the stream
};

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_FOREIGN_STREAM_H_
