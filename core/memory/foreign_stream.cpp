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
  sweep(HEDDLE_TIMEOUT_INFINITE);
  if (queue_) static_cast<void>(Status(device_.api().device->queue_destroy(queue_)));
}

void ForeignStream::sweep(uint64_t timeout_ns) {
  while (!unfinished_.empty()) {
    heddle_point_t point{unfinished_.front(), 1};
    Status reached(device_.api().timeline->wait(&point, 1, HEDDLE_WAIT_ALL, timeout_ns));
    if (timeout_ns == 0 && reached.code() == HEDDLE_STATUS_DEADLINE_EXCEEDED) return;
    device_.api().timeline->destroy(point.timeline);
    unfinished_.pop_front();
  }
}

Result<Ref<Timeline>> ForeignStream::mark() {
  Result<Ref<Timeline>> timeline = device_.create_timeline();
  if (!timeline.ok()) return timeline;
  heddle_point_t point{(*timeline)->get(), (*timeline)->next()};
  heddle_submission_t submission{sizeof(submission), 0, nullptr, {sizeof(heddle_sync_t), 0, 1, 0, nullptr, &point}};
  HEDDLE_RETURN_IF_ERROR(device_.noted(Status(device_.api().dispatch->submit(queue_, &submission))));
  return timeline;
}

Status ForeignStream::wait() {
  Result<Ref<Timeline>> marked = mark();
  return marked.ok() ? (*marked)->wait((*marked)->last()) : marked.take_status();
}

Status ForeignStream::leave(const heddle_point_t& point) noexcept {
  std::lock_guard lock(mutex_);
  sweep(0);
  try {
    unfinished_.push_back(nullptr);  // first, since the following steps need no host memory
  } catch (const std::bad_alloc&) {
    return error(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "out of memory");
  }
  heddle_point_t end{nullptr, 1};
  Status left = device_.noted(Status(device_.api().timeline->create(device_.get(), 0, &end.timeline)));
  if (left.ok()) {
    heddle_submission_t submission{sizeof(submission), 0, nullptr, {sizeof(heddle_sync_t), 1, 1, 0, &point, &end}};
    left = device_.noted(Status(device_.api().dispatch->submit(queue_, &submission)));
    if (!left.ok()) device_.api().timeline->destroy(end.timeline);
  }
  if (left.ok()) {
    unfinished_.back() = end.timeline;
  } else {
    unfinished_.pop_back();
  }
  return left;
}

}  // namespace heddle::memory
