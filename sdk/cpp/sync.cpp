// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "heddle/sdk/sync.h"

#include <pthread.h>

#include "heddle/sdk/host_timeline.h"
#include "heddle/sdk/status.h"

namespace heddle::sdk {

heddle_status_t* bad_sync(const DeviceRoot* device, const heddle_sync_t& sync) noexcept {
  if ((sync.wait_count && !sync.waits) || (sync.signal_count && !sync.signals)) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: submitting failed: %u waits%s and %u signals%s", device->who,
                  sync.wait_count, sync.waits ? "" : " (null)", sync.signal_count, sync.signals ? "" : " (null)");
  }
  for (uint32_t i = 0; i < sync.wait_count; ++i) {
    if (!sync.waits[i].timeline) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: submitting failed: wait %u has no timeline", device->who, i);
    }
  }
  for (uint32_t i = 0; i < sync.signal_count; ++i) {
    const heddle_point_t& point = sync.signals[i];
    if (!point.timeline) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: submitting failed: signal %u has no timeline", device->who, i);
    }
    const uint64_t reached = HostTimeline::from(point.timeline)->reached();
    if (point.value > reached && point.value <= HostTimeline::kMaxValue) continue;
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "%s: submitting failed: signal %u is to value %llu and its timeline has reached %llu; values only grow, up to 2^62-1",
                  device->who, i, number(point.value), number(reached));
  }
  return nullptr;
}

SignalsBlocked::SignalsBlocked() noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}
SignalsBlocked::~SignalsBlocked() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace heddle::sdk
