// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Waiting for a driver's timeline, and signalling one: part of every call. Called through device.h.
#include "core/memory/device.h"

namespace heddle::memory {

Timeline::~Timeline() {
  if (timeline_) device_->api().timeline->destroy(timeline_);
}

Status Timeline::wait(uint64_t value, uint64_t timeout_ns) const {
  heddle_point_t point{timeline_, value};
  return noted(Status(device_->api().timeline->wait(&point, 1, HEDDLE_WAIT_ALL, timeout_ns)));
}

bool Timeline::reached(uint64_t value) const {
  uint64_t now = 0;
  const Status failed = noted(Status(device_->api().timeline->query(timeline_, &now)));
  return failed.ok() && now >= value;
}

bool Timeline::pending(uint64_t value) const {
  uint64_t now = 0;
  const Status failed = noted(Status(device_->api().timeline->query(timeline_, &now)));
  return failed.ok() && now < value;
}

Status Timeline::noted(Status&& outcome) const {
  // A failure that the host set on a timeline may be the loss of another device.
  return signalled_ == Signalled::kByDriver ? device_->noted(std::move(outcome)) : std::move(outcome);
}

void Timeline::finish(uint64_t value, Status&& outcome) const {
  const heddle_timeline_interface_t& timeline = *device_->api().timeline;
  if (outcome.ok()) outcome = Status(timeline.signal(timeline_, value));
  if (!outcome.ok()) timeline.fail(timeline_, value, outcome.release());
}

}  // namespace heddle::memory
