// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.timeline/1. HostTimeline implements the host's part; this file adds the polling of the device.
#include "heddle/sdk/stream/timeline.h"

#include "stream/engine.h"

namespace heddle::sdk::stream {

using sdk::HostTimeline;

namespace {

heddle_status_t* timeline_create(heddle_device_t* handle, uint64_t initial_value, heddle_timeline_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "creating a timeline", [&]() -> heddle_status_t* {
    if (heddle_status_t* lost = device->loss()) return lost;
    if (heddle_status_t* bad = HostTimeline::check_value(device, "creating a timeline", initial_value)) return bad;
    *out = sdk::make<Timeline>(device->host, device, initial_value)->handle();
    device->live.timelines.fetch_add(1);
    return nullptr;
  });
}

void timeline_destroy(heddle_timeline_t* handle) noexcept {
  if (!handle) return;
  Timeline* timeline = Timeline::from(handle);
  Device* device = timeline->device();
  sdk::guarded_release(device->host, [&] {
    sdk::unmake(device->host, timeline);
    device->live.timelines.fetch_sub(1);
  });
}

heddle_status_t* timeline_query(heddle_timeline_t* handle, uint64_t* out_value) noexcept {
  Timeline* timeline = Timeline::from(handle);
  *out_value = 0;
  return guarded(timeline->device()->host, "querying a timeline", [&] {
    timeline->device()->poll();
    return timeline->query(out_value);
  });
}

heddle_status_t* timeline_wait(const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout_ns) noexcept {
  if (count == 0) return nullptr;
  if (!points[0].timeline) return nullptr;  // no host to create a status with; the host checks this (HD-Q-02)
  Device* device = Timeline::from(points[0].timeline)->device();
  return guarded(device->host, "waiting for timelines", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = HostTimeline::check_wait(points, count, mode)) return bad;
    return Engine::wait(device, points, count, mode, timeout_ns);
  });
}

// During its lifetime the device's engine retires work.
struct Notice {
  Device* device;
  void (*function)(void*, const heddle_status_t*);
  void* context;
  static void tell(void* notice, const heddle_status_t* failure) {
    auto* self = static_cast<Notice*>(notice);
    const Notice copy = *self;
    sdk::unmake(copy.device->host, self);
    copy.device->engine->told();  // before the callback, which may release the last reference to the device
    copy.function(copy.context, failure);
  }
};

heddle_status_t* timeline_notify(heddle_timeline_t* handle, uint64_t value, void (*function)(void*, const heddle_status_t*),
                                 void* context) noexcept {
  Timeline* timeline = Timeline::from(handle);
  Device* device = timeline->device();
  return guarded(device->host, "asking for a notification", [&]() -> heddle_status_t* {
    auto* notice = sdk::make<Notice>(device->host, Notice{device, function, context});
    try {
      device->engine->watch();
    } catch (...) {
      sdk::unmake(device->host, notice);
      throw;
    }
    heddle_status_t* bad;
    try {
      bad = timeline->notify(value, Notice::tell, notice);
    } catch (...) {
      sdk::unmake(device->host, notice);
      device->engine->told();
      throw;
    }
    return bad;
  });
}

}  // namespace

const heddle_timeline_interface_t* timeline_interface() noexcept {
  static const heddle_timeline_interface_t table = [] {
    heddle_timeline_interface_t made = *host_timeline_interface();
    made.create = timeline_create;
    made.destroy = timeline_destroy;
    made.query = timeline_query;
    made.wait = timeline_wait;
    made.notify = timeline_notify;
    return made;
  }();
  return &table;
}

}  // namespace heddle::sdk::stream
