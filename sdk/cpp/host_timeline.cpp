// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Host timelines: signal, poison, watch, wait. Called by drivers and, through the interface, by the host.
#include "heddle/sdk/host_timeline.h"

#include <cstddef>
#include <memory>
#include <vector>

#include "heddle/sdk/futex.h"
#include "heddle/sdk/status.h"

namespace heddle::sdk {

using State = HostTimeline::State;

HostTimeline::~HostTimeline() {
  // A thread that is just leaving a signal still holds the lock.
  std::lock_guard<std::mutex> lock(mutex_);
  while (Watch* watch = watches_) {
    watches_ = watch->next;
    if (watch->function) unmake(device_->host, watch);
  }
  if (failure_) device_->host->status_free(device_->host->self, failure_);
}

heddle_status_t* HostTimeline::failure(uint64_t value) const noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_ || value < failed_at_.load(std::memory_order_relaxed)) return nullptr;
  return device_->host->status_clone(device_->host->self, failure_);
}

heddle_status_t* HostTimeline::query(uint64_t* out_value) const noexcept {
  const uint64_t word = word_.load(std::memory_order_acquire);
  *out_value = word >> 2;
  return word & kPoisoned ? failure(UINT64_MAX) : nullptr;
}

bool HostTimeline::advance(uint64_t value) noexcept {
  uint64_t word = word_.load(std::memory_order_relaxed);
  do {
    if (word & (kWatched | kPoisoned)) [[unlikely]]
      return advance_watched(value);
    if ((word >> 2) >= value) [[unlikely]]
      return false;
  } while (!word_.compare_exchange_weak(word, value << 2, std::memory_order_acq_rel, std::memory_order_relaxed));
  return true;
}

bool HostTimeline::advance_watched(uint64_t value) noexcept {
  const heddle_host_t* host = device_->host;
  Watch* due = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    uint64_t word = word_.load(std::memory_order_acquire);
    do {
      if ((word >> 2) >= value) return false;
      if ((word & kPoisoned) && value >= failed_at_.load(std::memory_order_relaxed)) return false;
    } while (!word_.compare_exchange_weak(word, (value << 2) | (word & 3), std::memory_order_acq_rel));
    due = take_due();
  }
  run_callbacks(host, due);  // `this` may be destroyed
  return true;
}

void HostTimeline::fail(uint64_t value, heddle_status_t* status) noexcept {
  const heddle_host_t* host = device_->host;
  Watch* due = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failure_) {
      // The first failure wins; it may only be extended downwards to values that are not reached.
      uint64_t first = failed_at_.load(std::memory_order_relaxed);
      const uint64_t reached = word_.load(std::memory_order_acquire) >> 2;
      if (value <= reached) value = reached + 1;
      if (value < first) failed_at_.store(value, std::memory_order_release);
    } else {
      failure_ = status;
      status = nullptr;
      uint64_t word = word_.load(std::memory_order_acquire);
      do {  // values that are reached when the flag is set stay reached
        const uint64_t next = (word >> 2) + 1;
        failed_at_.store(value < next ? next : value, std::memory_order_release);
      } while (!word_.compare_exchange_weak(word, word | kPoisoned, std::memory_order_acq_rel));
    }
    due = take_due();
  }
  if (status) host->status_free(host->self, status);
  run_callbacks(host, due);
}

HostTimeline::Watch* HostTimeline::take_due() noexcept {
  Watch* callbacks = nullptr;
  Watch** callbacks_end = &callbacks;
  Watch** link = &watches_;
  while (Watch* watch = *link) {
    const State now = state(watch->value);
    if (now == State::kPending) {
      link = &watch->next;
      continue;
    }
    *link = watch->next;
    watch->next = nullptr;
    if (watch->wake) {
      std::atomic<uint32_t>* wake = watch->wake;  // valid until its owner gets our lock
      watch->wake = nullptr;
      wake->fetch_add(1, std::memory_order_release);
      futex_wake(*wake);
    } else {
      if (now == State::kFailed) watch->failure = device_->host->status_clone(device_->host->self, failure_);
      *callbacks_end = watch;
      callbacks_end = &watch->next;
    }
  }
  if (!watches_) word_.fetch_and(~kWatched, std::memory_order_acq_rel);
  return callbacks;
}

void HostTimeline::run_callbacks(const heddle_host_t* host, Watch* due) noexcept {
  while (due) {
    Watch* next = due->next;
    due->function(due->context, due->failure);
    if (due->failure) host->status_free(host->self, due->failure);
    unmake(host, due);
    due = next;
  }
}

heddle_status_t* HostTimeline::notify(uint64_t value, void (*function)(void*, const heddle_status_t*), void* context) {
  auto* watch = make<Watch>(device_->host);
  watch->value = value;
  watch->function = function;
  watch->context = context;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    word_.fetch_or(kWatched, std::memory_order_acq_rel);
    if (state(value) == State::kPending) {
      Watch** end = &watches_;
      while (*end) end = &(*end)->next;
      *end = watch;
      return nullptr;
    }
    if (!watches_) word_.fetch_and(~kWatched, std::memory_order_acq_rel);
    if (state(value) == State::kFailed) watch->failure = device_->host->status_clone(device_->host->self, failure_);
  }
  run_callbacks(device_->host, watch);
  return nullptr;
}

bool HostTimeline::add_waiter(Watch* watch) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  word_.fetch_or(kWatched, std::memory_order_acq_rel);
  if (state(watch->value) != State::kPending) {
    if (!watches_) word_.fetch_and(~kWatched, std::memory_order_acq_rel);
    watch->wake = nullptr;
    return false;
  }
  watch->next = watches_;
  watches_ = watch;
  return true;
}

void HostTimeline::remove_waiter(Watch* watch) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  for (Watch** link = &watches_; *link; link = &(*link)->next) {
    if (*link != watch) continue;
    *link = watch->next;
    if (!watches_) word_.fetch_and(~kWatched, std::memory_order_acq_rel);
    return;
  }
}

HostTimeline::State HostTimeline::judge(const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t* out_failed) noexcept {
  bool pending = false, failed = false;
  for (uint64_t i = 0; i < count; ++i) {
    switch (from(points[i].timeline)->state(points[i].value)) {
      case State::kReached:
        if (mode == HEDDLE_WAIT_ANY) return State::kReached;
        break;
      case State::kFailed:
        if (!failed) *out_failed = i;
        failed = true;
        break;
      case State::kPending:
        pending = true;
        break;
    }
  }
  return failed ? State::kFailed : pending ? State::kPending : State::kReached;
}

namespace {

// True if this thread ran work that one of the points may have waited for.
bool help_any(const heddle_point_t* points, uint64_t count) noexcept {
  for (uint64_t i = 0; i < count; ++i) {
    const HostTimeline* timeline = HostTimeline::from(points[i].timeline);
    if (timeline->state(points[i].value) != State::kPending) continue;
    DeviceRoot* device = timeline->device();
    if (device->help && device->help(device, points[i])) return true;
  }
  return false;
}

}  // namespace

heddle_status_t* HostTimeline::wait(const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout_ns) {
  if (count == 0) return nullptr;
  uint64_t failed = 0;
  State verdict = judge(points, count, mode, &failed);
  if (verdict == State::kReached) [[likely]]
    return nullptr;
  DeviceRoot* device = from(points[0].timeline)->device();
  const heddle_host_t* host = device->host;
  if (timeout_ns == HEDDLE_TIMEOUT_INFINITE) {  // work has no deadline
    while (verdict == State::kPending && help_any(points, count)) verdict = judge(points, count, mode, &failed);
  }
  if (verdict == State::kPending && timeout_ns != 0) {
    const uint64_t start = monotonic_ns();
    const uint64_t end = timeout_ns > UINT64_MAX - start ? UINT64_MAX : start + timeout_ns;
    const uint64_t spin_end = start + device->spin_ns < end ? start + device->spin_ns : end;
    for (uint64_t now = start; verdict == State::kPending && now < spin_end; now = monotonic_ns()) {
      for (int i = 0; i < 16 && verdict == State::kPending; ++i) {
        cpu_pause();
        verdict = judge(points, count, mode, &failed);
      }
    }
    if (verdict == State::kPending) {
      constexpr uint64_t kOnStack = 8;
      std::atomic<uint32_t> wake{0};
      Watch few[kOnStack];
      std::unique_ptr<Watch[]> many;
      Watch* watches = few;
      if (count > kOnStack) {
        many.reset(new Watch[count]);
        watches = many.get();
      }
      for (uint64_t i = 0; i < count; ++i) {
        watches[i].value = points[i].value;
        watches[i].wake = &wake;
        if (!from(points[i].timeline)->add_waiter(&watches[i])) wake.fetch_add(1, std::memory_order_relaxed);
      }
      for (;;) {
        const uint32_t seen = wake.load(std::memory_order_acquire);
        verdict = judge(points, count, mode, &failed);
        if (verdict != State::kPending) break;
        uint64_t left = UINT64_MAX;
        if (end != UINT64_MAX) {
          const uint64_t now = monotonic_ns();
          if (now >= end) break;
          left = end - now;
        }
        futex_wait(wake, seen, left);
      }
      // Takes each lock, so that no signal still holds a pointer to this stack frame.
      for (uint64_t i = 0; i < count; ++i) from(points[i].timeline)->remove_waiter(&watches[i]);
    }
  }
  if (verdict == State::kReached) return nullptr;
  if (verdict == State::kFailed) return from(points[failed].timeline)->failure(points[failed].value);
  return status(host, HEDDLE_STATUS_DEADLINE_EXCEEDED,
                "%s: waiting for %s of %llu points failed: not reached within %llu ns; nothing was changed", device->who,
                mode == HEDDLE_WAIT_ANY ? "any" : "all", static_cast<unsigned long long>(count),
                static_cast<unsigned long long>(timeout_ns));
}

heddle_status_t* HostTimeline::check_value(DeviceRoot* device, const char* what, uint64_t value) noexcept {
  if (value <= kMaxValue) [[likely]]
    return nullptr;
  return sdk::status(device->host, HEDDLE_STATUS_OUT_OF_RANGE, "%s: %s at value %llu failed: values end at 2^62-1; use smaller steps",
                     device->who, what, number(value));
}

heddle_status_t* HostTimeline::check_wait(const heddle_point_t* points, uint64_t count, uint32_t mode) noexcept {
  DeviceRoot* device = from(points[0].timeline)->device();
  if (mode > HEDDLE_WAIT_ANY) {
    return sdk::status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: waiting failed: mode %u is neither all (0) nor any (1)",
                       device->who, mode);
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (!points[i].timeline) {
      return sdk::status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: waiting failed: point %llu has no timeline", device->who,
                         number(i));
    }
    if (from(points[i].timeline)->device() != device) {
      return sdk::status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                         "%s: waiting failed: its points belong to several devices; wait for each device separately [HD-Q-02]",
                         device->who);
    }
  }
  return nullptr;
}

namespace {

heddle_status_t* create_host_timeline(heddle_device_t* handle, uint64_t initial_value, heddle_timeline_t** out) noexcept {
  *out = nullptr;
  auto* device = reinterpret_cast<DeviceRoot*>(handle);
  return guarded(device->host, "creating a timeline", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = HostTimeline::check_value(device, "creating a timeline", initial_value)) return bad;
    *out = make<HostTimeline>(device->host, device, initial_value)->handle();
    device->live.timelines.fetch_add(1);
    return nullptr;
  });
}

void timeline_destroy(heddle_timeline_t* handle) noexcept {
  if (!handle) return;
  HostTimeline* timeline = HostTimeline::from(handle);
  DeviceRoot* device = timeline->device();
  guarded_release(device->host, [&] {
    unmake(device->host, timeline);
    device->live.timelines.fetch_sub(1);
  });
}

heddle_status_t* timeline_query(heddle_timeline_t* handle, uint64_t* out_value) noexcept {
  HostTimeline* timeline = HostTimeline::from(handle);
  *out_value = 0;
  return guarded(timeline->device()->host, "querying a timeline", [&] { return timeline->query(out_value); });
}

heddle_status_t* timeline_signal(heddle_timeline_t* handle, uint64_t value) noexcept {
  HostTimeline* timeline = HostTimeline::from(handle);
  DeviceRoot* device = timeline->device();
  return guarded(device->host, "signalling a timeline", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = HostTimeline::check_value(device, "signalling a timeline", value)) return bad;
    if (timeline->advance(value)) return nullptr;
    if (heddle_status_t* failure = timeline->failure(value)) return failure;
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "%s: signalling value %llu failed: the timeline has reached %llu; values only grow", device->who,
                  static_cast<unsigned long long>(value), static_cast<unsigned long long>(timeline->reached()));
  });
}

void timeline_fail(heddle_timeline_t* handle, uint64_t value, heddle_status_t* failure) noexcept {
  HostTimeline* timeline = HostTimeline::from(handle);
  const heddle_host_t* host = timeline->device()->host;
  guarded_release(host, [&] {
    if (!failure) failure = status(host, HEDDLE_STATUS_UNKNOWN, "a timeline was failed without a reason");
    timeline->fail(value, failure);
  });
}

heddle_status_t* timeline_wait(const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout_ns) noexcept {
  if (count == 0) return nullptr;
  if (!points[0].timeline) return nullptr;  // no host to create a status with; the host checks this (HD-Q-02)
  DeviceRoot* device = HostTimeline::from(points[0].timeline)->device();
  return guarded(device->host, "waiting for timelines", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = HostTimeline::check_wait(points, count, mode)) return bad;
    return HostTimeline::wait(points, count, mode, timeout_ns);
  });
}

heddle_status_t* timeline_notify(heddle_timeline_t* handle, uint64_t value, void (*function)(void*, const heddle_status_t*),
                                 void* context) noexcept {
  HostTimeline* timeline = HostTimeline::from(handle);
  return guarded(timeline->device()->host, "asking for a notification", [&] { return timeline->notify(value, function, context); });
}

heddle_status_t* timeline_export(heddle_timeline_t* handle, heddle_string_t kind, uint64_t* out) noexcept {
  *out = 0;
  DeviceRoot* device = HostTimeline::from(handle)->device();
  return status(device->host, HEDDLE_STATUS_UNIMPLEMENTED, "%s: exporting a timeline as '%.*s' failed: unknown kind", device->who,
                static_cast<int>(kind.size), kind.data);
}

heddle_status_t* timeline_import(heddle_device_t* handle, heddle_string_t kind, uint64_t, heddle_timeline_t** out) noexcept {
  *out = nullptr;
  auto* device = reinterpret_cast<DeviceRoot*>(handle);
  return status(device->host, HEDDLE_STATUS_UNIMPLEMENTED, "%s: importing a timeline from '%.*s' failed: unknown kind", device->who,
                static_cast<int>(kind.size), kind.data);
}

}  // namespace

const heddle_timeline_interface_t* host_timeline_interface() noexcept {
  static const heddle_timeline_interface_t table = {sizeof(heddle_timeline_interface_t),
                                                    0,
                                                    create_host_timeline,
                                                    timeline_destroy,
                                                    timeline_query,
                                                    timeline_signal,
                                                    timeline_fail,
                                                    timeline_wait,
                                                    timeline_notify,
                                                    timeline_export,
                                                    timeline_import};
  return &table;
}

}  // namespace heddle::sdk
