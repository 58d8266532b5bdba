// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.timeline/1, checked: the host's signals and waits, and whether the driver's answers are consistent.
#include "core/validation/call.h"

namespace heddle::validation {
namespace {

heddle_status_t* keep(Call& call, heddle_status_t* status, heddle_timeline_t** out_timeline, const std::shared_ptr<Timeline>& record,
                      const std::shared_ptr<Device>& parent) {
  return call.keep<Timeline>(status, out_timeline, record, parent,
                             [&](heddle_timeline_t* made) { call.plugin().driver.timeline->destroy(made); });
}

heddle_status_t* create(heddle_device_t* device, uint64_t initial_value, heddle_timeline_t** out_timeline) noexcept {
  Call call("heddle.timeline/1 create");
  std::shared_ptr<Device> parent = call.live<Device>(device, "device");
  if (initial_value > HEDDLE_TIMELINE_MAX_VALUE) call.host_broke("HD-Q-09", "initial_value is {}", initial_value);
  if (call.refused()) return call.refusal();
  heddle_status_t* status =
      call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.timeline->create(device, initial_value, out_timeline); });
  call.check_lost(status);
  auto record = std::make_shared<Timeline>();
  record->enqueued = record->reached = initial_value;
  return keep(call, status, out_timeline, record, parent);
}

void destroy(heddle_timeline_t* timeline) noexcept {
  Call call("heddle.timeline/1 destroy");
  if (!timeline) return;
  std::shared_ptr<Timeline> record = call.live<Timeline>(timeline, "timeline");
  if (!record) return;
  call.check_unused(*record, "timeline");
  if (!record->imported && !record->over(record->enqueued)) {
    call.host_broke("HD-Q-03", "timeline is {}, but enqueued work will signal {}", fmt::ptr(timeline), record->enqueued);
  }
  if (call.refused()) return;
  check_transfers(call, *record);
  record->live = false;
  record->uses = {};  // timelines may refer to each other
  call.forget(record);
  call.pass(Tag::kMayBlock, [&] { call.plugin().driver.timeline->destroy(timeline); });
}

heddle_status_t* query(heddle_timeline_t* timeline, uint64_t* out_value) noexcept {
  Call call("heddle.timeline/1 query");
  std::shared_ptr<Timeline> record = call.live<Timeline>(timeline, "timeline");
  if (call.refused()) return call.refusal();
  const uint64_t seen = record->reached;
  heddle_status_t* status = call.pass(Tag::kNoBlock, [&] { return call.plugin().driver.timeline->query(timeline, out_value); });
  if (!status && *out_value < seen) call.plugin_broke("HD-Q-09", "it reports {}, but {} was reached before", *out_value, seen);
  if (!status && !record->imported && *out_value > record->enqueued) {
    call.plugin_broke("HD-Q-09", "it reports {}, but only {} is enqueued", *out_value, record->enqueued);
  }
  if (!status) record->reached = std::max(record->reached, *out_value);
  check_transfers(call, *record);
  return call.answer(status);
}

heddle_status_t* signal(heddle_timeline_t* timeline, uint64_t value) noexcept {
  Call call("heddle.timeline/1 signal");
  std::shared_ptr<Timeline> record = call.live<Timeline>(timeline, "timeline");
  if (call.refused()) return call.refusal();
  if (value > HEDDLE_TIMELINE_MAX_VALUE || (!record->imported && value <= record->enqueued)) {
    call.host_broke("HD-Q-09", "value is {}, but {} was enqueued before", value, record->enqueued);
    return call.refusal();
  }
  const uint64_t before = record->enqueued;
  record->enqueued = value;  // before the value is visible
  heddle_status_t* status = call.pass(Tag::kNoBlock, [&] { return call.plugin().driver.timeline->signal(timeline, value); });
  if (status) {
    if (record->enqueued == value) record->enqueued = before;
  } else {
    record->reached = std::max(record->reached, value);
  }
  return call.answer(status);
}

void fail(heddle_timeline_t* timeline, uint64_t value, heddle_status_t* failure) noexcept {
  Call call("heddle.timeline/1 fail");
  std::shared_ptr<Timeline> record = call.live<Timeline>(timeline, "timeline");
  if (record && !failure) call.host_broke("HD-S-02", "status is NULL, which is not a failure");
  if (record && value > HEDDLE_TIMELINE_MAX_VALUE) call.host_broke("HD-Q-09", "value is {}", value);
  if (call.refused()) {
    if (record && failure) record->plugin->host->status_free(record->plugin->host->self, failure);
    return;
  }
  record->failed_from = std::min(record->failed_from, value);
  call.pass(Tag::kNoBlock, [&] { call.plugin().driver.timeline->fail(timeline, value, failure); });
}

heddle_status_t* wait(const heddle_point_t* points, uint64_t point_count, uint32_t mode, uint64_t timeout_ns) noexcept {
  Call call("heddle.timeline/1 wait");
  std::vector<std::shared_ptr<Timeline>> timelines;
  if (point_count == 0 || !points) call.host_broke("HD-Q-01", "it has {} points", points ? point_count : 0);
  for (uint64_t i = 0; points && i < point_count; ++i) {
    timelines.push_back(call.live_here<Timeline>(points[i].timeline, fmt::format("points[{}].timeline", i)));
    if (points[i].value > HEDDLE_TIMELINE_MAX_VALUE) call.host_broke("HD-Q-09", "points[{}].value is {}", i, points[i].value);
  }
  if (mode != HEDDLE_WAIT_ALL && mode != HEDDLE_WAIT_ANY) call.host_broke("HD-E-04", "mode is {}", mode);
  if (call.refused()) return call.refusal();
  const heddle_host_t& host = *call.plugin().host;
  const uint64_t start = host.clock_ns(host.self);
  const heddle_driver_api_t& driver = call.plugin().driver;
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] { return driver.timeline->wait(points, point_count, mode, timeout_ns); });
  const uint64_t took_ns = host.clock_ns(host.self) - start;
  auto timelines_are_seen = [&] {
    for (const auto& timeline : timelines) check_transfers(call, *timeline);
  };
  if (status) {
    timelines_are_seen();
    if (host.status_code(host.self, status) == HEDDLE_STATUS_DEADLINE_EXCEEDED && took_ns < timeout_ns) {
      // A point may also fail with this code by itself.
      bool poisoned = false;
      for (const auto& timeline : timelines) {
        uint64_t value = 0;
        poisoned |= timeline->ask(&value);
      }
      if (!poisoned) call.plugin_broke("HD-Q-09", "it returned after {} ns of {}", took_ns, timeout_ns);
    }
    return status;
  }
  uint64_t over = 0;
  for (uint64_t i = 0; i < point_count; ++i) {
    if (!timelines[i]->live || timelines[i]->over(points[i].value)) ++over;
  }
  if (over < (mode == HEDDLE_WAIT_ALL ? point_count : 1)) {
    call.plugin_broke("HD-Q-09", "it succeeded, but {} of {} points are reached; the first is value {} of timeline {}, which is at {}",
                      over, point_count, points[0].value, fmt::ptr(points[0].timeline), timelines[0]->reached);
  }
  timelines_are_seen();
  return call.answer(nullptr);
}

// Through a number, so that a second call is detected (HD-T-03).
void notified(void* number, const heddle_status_t* failure) noexcept {
  if (postpone(notified, number, failure)) return;
  Registry::Callback callback;
  {
    Call call("notification of heddle.timeline/1 notify");
    if (!registry().take_callback(number, &callback)) return call.plugin_broke("HD-T-03", "it was called a second time");
    call.set_plugin(callback.plugin);
    if (!failure) callback.timeline->reached = std::max(callback.timeline->reached, callback.value);
    if (!failure) check_transfers(call, *callback.timeline, false);
  }
  callback.notified(callback.context, failure);
}

heddle_status_t* notify(heddle_timeline_t* timeline, uint64_t value, void (*function)(void* context, const heddle_status_t* failure),
                        void* context) noexcept {
  Call call("heddle.timeline/1 notify");
  std::shared_ptr<Timeline> record = call.live<Timeline>(timeline, "timeline");
  if (record && !function) call.host_broke("HD-T-03", "function is NULL");
  if (record && value > HEDDLE_TIMELINE_MAX_VALUE) call.host_broke("HD-Q-09", "value is {}", value);
  if (call.refused()) return call.refusal();
  void* number = registry().add_callback({&call.plugin(), "notify", function, nullptr, context, record, value});
  heddle_status_t* status =
      call.pass(Tag::kNoBlock, [&] { return call.plugin().driver.timeline->notify(timeline, value, notified, number); });
  if (status) {
    Registry::Callback unused;
    if (!registry().take_callback(number, &unused)) call.plugin_broke("HD-T-03", "it failed, but also called the function");
  }
  return status;
}

heddle_status_t* export_handle(heddle_timeline_t* timeline, heddle_string_t kind, uint64_t* out_handle) noexcept {
  Call call("heddle.timeline/1 export_handle");
  std::shared_ptr<Timeline> record = call.live<Timeline>(timeline, "timeline");
  if (call.refused()) return call.refusal();
  heddle_status_t* status =
      call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.timeline->export_handle(timeline, kind, out_handle); });
  if (!status) record->imported = true;  // from now on others signal it, too
  return call.answer(status);
}

heddle_status_t* import_handle(heddle_device_t* device, heddle_string_t kind, uint64_t handle, heddle_timeline_t** out_timeline) noexcept {
  Call call("heddle.timeline/1 import_handle");
  std::shared_ptr<Device> parent = call.live<Device>(device, "device");
  if (call.refused()) return call.refusal();
  heddle_status_t* status =
      call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.timeline->import_handle(device, kind, handle, out_timeline); });
  auto record = std::make_shared<Timeline>();
  record->imported = true;
  return keep(call, status, out_timeline, record, parent);
}

}  // namespace

const heddle_timeline_interface_t kTimelineTable = {
    sizeof(heddle_timeline_interface_t), 0, create, destroy, query, signal, fail, wait, notify, export_handle, import_handle};

}  // namespace heddle::validation
