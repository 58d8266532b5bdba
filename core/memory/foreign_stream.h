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
  // Waits for the work that leave() enqueued.
  ~ForeignStream();
  ForeignStream(const ForeignStream&) = delete;
  ForeignStream& operator=(const ForeignStream&) = delete;

  uint64_t native() const { return native_; }
  const Device& device() const { return device_; }
  // A timeline of the device whose last() is reached once the work now on the stream is complete. The stream lives until then. [any]
  Result<Ref<Timeline>> mark();
  // Waits for the work that is on the stream now. [any] [may-block]
  Status wait();
  // Later work on the stream waits for the point, whose work is already enqueued. Never throws. [any]
  Status leave(const heddle_point_t& point) noexcept;

 private:
  ForeignStream(Device& device, uint64_t native) : device_(device), native_(native) {}
  void sweep(uint64_t timeout_ns);  // call with the lock held

  Device& device_;
  const uint64_t native_;
  heddle_queue_t* queue_ = nullptr;
  std::mutex mutex_;
  std::deque<heddle_timeline_t*> unfinished_;  // from leave(), each is to reach 1
};

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_FOREIGN_STREAM_H_
