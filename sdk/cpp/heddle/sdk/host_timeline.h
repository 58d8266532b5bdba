// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A timeline in host memory: for drivers whose work completes on host threads. A heddle_timeline_t* of such a
// driver is a HostTimeline*. Knows nothing of queues.
//
// One word holds the value and two flags, so that a signal without watchers is a single compare-and-swap and touches nothing
// afterwards: a thread that sees the value may destroy the timeline at once. Values are below 2^62.
#ifndef HEDDLE_SDK_HOST_TIMELINE_H_
#define HEDDLE_SDK_HOST_TIMELINE_H_

#include <atomic>
#include <mutex>

#include "heddle/sdk/device_root.h"

namespace heddle::sdk {

class HostTimeline {
 public:
  static constexpr uint64_t kMaxValue = HEDDLE_TIMELINE_MAX_VALUE;
  enum class State { kPending, kReached, kFailed };

  HostTimeline(DeviceRoot* device, uint64_t initial_value) noexcept : api_(device->api), device_(device), word_(initial_value << 2) {}
  ~HostTimeline();
  HostTimeline(const HostTimeline&) = delete;
  HostTimeline& operator=(const HostTimeline&) = delete;

  static HostTimeline* from(heddle_timeline_t* timeline) noexcept { return reinterpret_cast<HostTimeline*>(timeline); }
  heddle_timeline_t* handle() noexcept { return reinterpret_cast<heddle_timeline_t*>(this); }

  DeviceRoot* device() const noexcept { return device_; }
  uint64_t reached() const noexcept { return word_.load(std::memory_order_acquire) >> 2; }
  // Of several points. HEDDLE_WAIT_ALL: a failure ends the wait at once; *out_failed is the first failed point. HEDDLE_WAIT_ANY: a reached point takes
  // precedence over a failed one.
  static State judge(const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t* out_failed) noexcept;
  State state(uint64_t value) const noexcept {
    const uint64_t word = word_.load(std::memory_order_acquire);
    if ((word >> 2) >= value) [[likely]]
      return State::kReached;
    if (word & kPoisoned) [[unlikely]] {
      return value >= failed_at_.load(std::memory_order_acquire) ? State::kFailed : State::kPending;
    }
    return State::kPending;
  }
  // The failure that poisons `value`, owned by the caller; NULL if it is not poisoned.
  heddle_status_t* failure(uint64_t value) const noexcept;
  // NULL once `value` is reached or fails; the result of query().
  heddle_status_t* query(uint64_t* out_value) const noexcept;

  // Advances to `value`. False, without any change, if it is not larger than the reached value or if the timeline is poisoned.
  bool advance(uint64_t value) noexcept;
  // Takes the status. The first failure wins; values that are already reached stay reached.
  void fail(uint64_t value, heddle_status_t* failure) noexcept;
  heddle_status_t* notify(uint64_t value, void (*function)(void*, const heddle_status_t*), void* context);

  // For drivers that replace slots of the table below: why an argument is refused. check_wait: the first point has a timeline.
  static heddle_status_t* check_value(DeviceRoot* device, const char* what, uint64_t value) noexcept;
  static heddle_status_t* check_wait(const heddle_point_t* points, uint64_t count, uint32_t mode) noexcept;
  // The calls of heddle.timeline/1 that concern several timelines.
  static heddle_status_t* wait(const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout_ns);

 private:
  // A watcher: a sleeping waiter (wake) or a callback (function). Nodes of callbacks are owned.
  struct Watch {
    uint64_t value = 0;
    Watch* next = nullptr;
    std::atomic<uint32_t>* wake = nullptr;
    void (*function)(void*, const heddle_status_t*) = nullptr;
    void* context = nullptr;
    heddle_status_t* failure = nullptr;
  };
  static constexpr uint64_t kWatched = 1;
  static constexpr uint64_t kPoisoned = 2;

  bool advance_watched(uint64_t value) noexcept;
  // With the lock held: removes due watchers from the list, wakes waiters, returns callbacks in the order of registration.
  Watch* take_due() noexcept;
  static void run_callbacks(const heddle_host_t* host, Watch* due) noexcept;
  bool add_waiter(Watch* watch) noexcept;  // false: already reached or failed
  void remove_waiter(Watch* watch) noexcept;

  [[maybe_unused]] const heddle_driver_api_t* api_;  // HD-H-01: the first word
  DeviceRoot* device_;
  std::atomic<uint64_t> word_;
  std::atomic<uint64_t> failed_at_{UINT64_MAX};
  mutable std::mutex mutex_;
  heddle_status_t* failure_ = nullptr;  // under mutex_
  Watch* watches_ = nullptr;            // under mutex_
};

// heddle.timeline/1 over HostTimeline, for every driver whose devices derive from DeviceRoot.
const heddle_timeline_interface_t* host_timeline_interface() noexcept;

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_HOST_TIMELINE_H_
