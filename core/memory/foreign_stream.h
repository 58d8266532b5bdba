// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stream of the application's, as a queue of a device: work is put between what is on the stream and what comes there later.
// Made by Device::foreign_stream for calls that ask for it; knows nothing of functions.
#ifndef HEDDLE_CORE_MEMORY_FOREIGN_STREAM_H_
#define HEDDLE_CORE_MEMORY_FOREIGN_STREAM_H_

#include <deque>
#include <mutex>

#include "core/memory/device.h"

namespace heddle::memory {

class ForeignStream {
 public:
  // The device outlives it.
  static Result<std::unique_ptr<ForeignStream>> open(Device& device, uint64_t native);
  // Waits for what leave() enqueued.
  ~ForeignStream();
  ForeignStream(const ForeignStream&) = delete;
  ForeignStream& operator=(const ForeignStream&) = delete;

  uint64_t native() const { return native_; }
  const Device& device() const { return device_; }
  // A timeline of the device whose last() is reached once what is on the stream now is over. It lives until then. [any]
  Result<Ref<Timeline>> mark();
  // Waits for what is on the stream now. [any] [may-block]
  Status wait();
  // What comes on the stream from now on waits for the point, which is on its way. Never throws: the point's work is. [any]
  Status leave(const heddle_point_t& point) noexcept;

 private:
  ForeignStream(Device& device, uint64_t native) : device_(device), native_(native) {}
  void sweep(uint64_t timeout_ns);  // under the lock

  Device& device_;
  const uint64_t native_;
  heddle_queue_t* queue_ = nullptr;
  std::mutex mutex_;
  std::deque<heddle_timeline_t*> unfinished_;  // of leave(), each to reach 1
};

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_FOREIGN_STREAM_H_
