// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What drivers do alike when work is submitted to them, and when they start threads.
#ifndef HEDDLE_SDK_SYNC_H_
#define HEDDLE_SDK_SYNC_H_

#include <csignal>

#include "heddle/sdk/host_timeline.h"

namespace heddle::sdk {

// Why a sync is refused.
heddle_status_t* bad_sync(const DeviceRoot* device, const heddle_sync_t& sync) noexcept;

// Checks a sync and its points, whose timelines are HostTimelines.
inline heddle_status_t* check_sync(const DeviceRoot* device, const heddle_sync_t& sync) noexcept {
  bool good = (!sync.wait_count || sync.waits) && (!sync.signal_count || sync.signals);
  for (uint32_t i = 0; good && i < sync.wait_count; ++i) good = sync.waits[i].timeline != nullptr;
  for (uint32_t i = 0; good && i < sync.signal_count; ++i) {
    const heddle_point_t& point = sync.signals[i];
    good = point.timeline && point.value > HostTimeline::from(point.timeline)->reached() && point.value <= HostTimeline::kMaxValue;
  }
  return good ? nullptr : bad_sync(device, sync);
}

// Threads that start meanwhile do not receive the application's signals (HD-T-01).
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept;
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_SYNC_H_
