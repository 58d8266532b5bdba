// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Empty submissions on the application's stream: one that signals, one that waits.
#include "core/memory/foreign_stream.h"

#include <new>

namespace heddle::memory {

Result<std::unique_ptr<ForeignStream>> ForeignStream::open(Device& device, uint64_t native) {
  std::unique_ptr<ForeignStream> stream(new ForeignStream(device, native));
  Status imported = device.noted(Status(device.api().native->queue_import(device.get(), native, &stream->queue_)));
  if (!imported.ok()) {
    return wrap(std::move(imported),
                fmt::format("heddle: using the application's stream {:#x} on device '{}' failed", native, device.alias()));
  }
  return stream;
}

ForeignStream::~ForeignStream() {
  sweep(unfinished_.size());
  if (queue_) static_cast<void>(Status(device_.api().device->queue_destroy(queue_)));
}

void ForeignStream::sweep(size_t at_least) {
  for (; !unfinished_.empty(); unfinished_.pop_front()) {
    const Timeline& signal = *unfinished_.front().signal;
    if (at_least != 0) {
      --at_least;
      static_cast<void>(signal.wait(signal.last()));  // a failure ends it, too
    } else if (signal.pending(signal.last())) {
      return;
    }
  }
}

Result<Ref<Timeline>> ForeignStream::submit(const Ref<Timeline>& wait, uint64_t value, const void* user) {
  sweep(0);
  Result<Ref<Timeline>> timeline = device_.create_timeline();
  if (!timeline.ok()) return timeline;
  heddle_point_t after{wait ? wait->get() : nullptr, value}, point{(*timeline)->get(), (*timeline)->next()};
  heddle_submission_t submission{sizeof(submission), 0, nullptr, {sizeof(heddle_sync_t), wait ? 1u : 0u, 1, 0, &after, &point}};
  unfinished_.push_back({*timeline, wait, user});  // first, since what is enqueued cannot be taken back
  Status submitted = device_.noted(Status(device_.api().dispatch->submit(queue_, &submission)));
  if (submitted.ok()) return timeline;
  unfinished_.pop_back();
  return submitted;
}

Result<Ref<Timeline>> ForeignStream::mark(const void* user) {
  std::lock_guard lock(mutex_);
  return submit({}, 0, user);
}

Status ForeignStream::wait(const void* user) {
  Result<Ref<Timeline>> marked = mark(user);
  return marked.ok() ? (*marked)->wait((*marked)->last()) : marked.take_status();
}

Status ForeignStream::leave(const Ref<Timeline>& timeline, uint64_t value, const void* user) noexcept {
  try {
    std::lock_guard lock(mutex_);
    Result<Ref<Timeline>> left = submit(timeline, value, user);
    return left.ok() ? Status() : left.take_status();
  } catch (const std::bad_alloc&) {
    return error(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "out of memory");
  }
}

void ForeignStream::finish(const void* user) {
  std::lock_guard lock(mutex_);
  size_t count = unfinished_.size();
  while (count != 0 && unfinished_[count - 1].user != user) --count;
  sweep(count);
}

}  // namespace heddle::memory
