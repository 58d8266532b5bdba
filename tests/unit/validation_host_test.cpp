// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The validation layer on what a host does: each rule broken on purpose and caught, and the same done right and let through. Runs on every driver.
#include <thread>

#include "validation_case.h"

namespace heddle::test {
namespace {

class HostFaults : public Validated {
 protected:
  heddle_point_t point(heddle_timeline_t* timeline, uint64_t value) { return {timeline, value}; }
  // An empty list that signals, of a driver that does not run it: it is on its way until somebody else signals.
  static heddle_status_t* never_runs(heddle_queue_t*, const heddle_submission_t*) noexcept { return nullptr; }
  heddle_command_t fill(heddle_buffer_t* target, uint64_t offset, uint64_t length, uint32_t pattern_bytes = 4) {
    heddle_command_t command = {};
    command.kind = HEDDLE_COMMAND_FILL;
    command.as.fill = {target, offset, length, 0, pattern_bytes, 0};
    return command;
  }
  heddle_command_t copy(heddle_buffer_t* source, uint64_t from, heddle_buffer_t* target, uint64_t to, uint64_t length) {
    heddle_command_t command = {};
    command.kind = HEDDLE_COMMAND_COPY;
    command.as.copy = {source, target, from, to, length};
    return command;
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, HostFaults, every_driver(), name_of);

TEST_P(HostFaults, NothingIsToldOfWhatIsRight) {
  open();
  Kernels kernels(owner.get());
  heddle_buffer_t* a = driver().make_filled(std::vector<float>{1, 2, 3, 4});
  heddle_buffer_t* b = driver().make_filled(std::vector<float>{10, 20, 30, 40});
  heddle_buffer_t* sum = driver().make_buffer(16);
  const std::vector<heddle_binding_t> bindings = {{a, 0, 16}, {b, 0, 16}, {sum, 0, 16}};
  EXPECT_OK(driver().run({kernels.command(kAddF32, bindings, {4, 64}, 1), heddle_command_t{}, copy(sum, 0, a, 0, 16)}));
  EXPECT_EQ(driver().values_of<float>(a, 4), (std::vector<float>{11, 22, 33, 44}));
  for (heddle_buffer_t* buffer : {a, b, sum}) driver().buffer_api->free(buffer);
  EXPECT_EQ(violations(), 0u) << host.logged();
  EXPECT_GT(counts().first, 20u);
}

TEST_P(HostFaults, HandlesThatDoNotLive) {
  open();
  heddle_buffer_t* buffer = driver().make_buffer(64);
  driver().buffer_api->free(buffer);
  driver().buffer_api->free(buffer);
  expect_told("the host", "HD-L-01");
  void* pointer = nullptr;
  expect_host_fault(driver().buffer_api->map(buffer, 0, 64, HEDDLE_MAP_READ, &pointer), "HD-L-01");
  expect_host_fault(driver().device_api->queue_create(nullptr, nullptr, nullptr), "HD-L-01");
  heddle_timeline_t* timeline = driver().make_timeline();
  driver().timeline_api->destroy(timeline);
  uint64_t value = 0;
  expect_host_fault(driver().timeline_api->query(timeline, &value), "HD-L-01");
  // A queue is no buffer.
  expect_host_fault(driver().buffer_api->unmap(reinterpret_cast<heddle_buffer_t*>(driver().queue)), "HD-L-01");
}

TEST_P(HostFaults, RangesBeyondTheEnd) {
  open();
  heddle_buffer_t* buffer = driver().make_buffer(64);
  heddle_timeline_t* timeline = driver().make_timeline();
  const heddle_point_t done = point(timeline, 1);
  heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &done};
  char bytes[128] = {};
  for (const auto& [offset, length] : {std::pair<uint64_t, uint64_t>{0, 65}, {64, 1}, {UINT64_MAX, 2}, {2, UINT64_MAX}}) {
    const heddle_binding_t binding = {buffer, offset, length};
    expect_host_fault(driver().transfer_api->upload(driver().queue, &sync, bytes, &binding), "HD-M-02");
    expect_host_fault(driver().transfer_api->download(driver().queue, &sync, &binding, bytes), "HD-M-02");
    expect_host_fault(driver().submit({fill(buffer, offset, length)}, {}, {done}), "HD-M-02");
    void* pointer = nullptr;
    expect_host_fault(driver().buffer_api->map(buffer, offset, length, HEDDLE_MAP_READ, &pointer), "HD-M-02");
  }
  expect_host_fault(driver().submit({copy(buffer, 0, buffer, 16, 32)}, {}, {done}), "HD-M-02");
  expect_host_fault(driver().submit({fill(buffer, 0, 64, 3)}, {}, {done}), "HD-M-02");
  EXPECT_OK(driver().submit({copy(buffer, 0, buffer, 32, 32)}, {}, {done}));
  EXPECT_TRUE(driver().wait(timeline, 1).ok());
  driver().timeline_api->destroy(timeline);
  driver().buffer_api->free(buffer);
}

TEST_P(HostFaults, WaitsForWhatIsNotEnqueued) {
  open();
  heddle_timeline_t* before = driver().make_timeline();
  heddle_timeline_t* after = driver().make_timeline();
  expect_host_fault(driver().submit({}, {point(before, 1)}, {point(after, 1)}), "HD-Q-01");
  const uint64_t told = violations();
  EXPECT_OK(driver().submit({}, {}, {point(before, 1)}));
  EXPECT_OK(driver().submit({}, {point(before, 1)}, {point(after, 1)}));
  EXPECT_TRUE(driver().wait(after, 1).ok());
  EXPECT_EQ(violations(), told);
  for (heddle_timeline_t* timeline : {before, after}) driver().timeline_api->destroy(timeline);
}

TEST_P(HostFaults, ObjectsOfAnotherDevice) {
  open();
  heddle_device_t* other = driver().open(0);
  heddle_buffer_t* buffer = driver().make_buffer(64, HEDDLE_MEMORY_DEVICE, other);
  heddle_timeline_t* timeline = driver().make_timeline(0, other);
  heddle_timeline_t* own = driver().make_timeline();
  expect_host_fault(driver().submit({fill(buffer, 0, 64)}, {}, {point(own, 1)}), "HD-Q-02");
  expect_host_fault(driver().submit({}, {}, {point(timeline, 1)}), "HD-Q-02");
  const heddle_point_t done = point(own, 1);
  const heddle_sync_t sync = {sizeof(heddle_sync_t), 0, 1, 0, nullptr, &done};
  const heddle_binding_t there = {buffer, 0, 32}, beside = {buffer, 32, 32};
  expect_host_fault(driver().transfer_api->peer_copy(driver().queue, &sync, &there, &beside), "HD-Q-02");
  driver().buffer_api->free(buffer);
  for (heddle_timeline_t* one : {timeline, own}) driver().timeline_api->destroy(one);
  EXPECT_OK(driver().device_api->close(other));
}

TEST_P(HostFaults, WhatWorkUsesIsFreed) {
  open([] { bad.dispatch.submit = never_runs; });
  heddle_buffer_t* buffer = driver().make_buffer(64);
  heddle_timeline_t* timeline = driver().make_timeline();
  EXPECT_OK(driver().submit({fill(buffer, 0, 64)}, {}, {point(timeline, 1)}));
  driver().buffer_api->free(buffer);
  expect_told("the host", "HD-Q-03");
  driver().timeline_api->destroy(timeline);
  EXPECT_EQ(violations(), 2u) << host.logged();
  EXPECT_EQ(good.timeline.signal(timeline, 1), nullptr);  // now it is over
  driver().buffer_api->free(buffer);
  driver().timeline_api->destroy(timeline);
  EXPECT_EQ(violations(), 2u) << host.logged();
}

TEST_P(HostFaults, TimelinesThatAreSignalledWrongly) {
  open([] { bad.dispatch.submit = never_runs; });
  heddle_timeline_t* timeline = driver().make_timeline(5);
  expect_host_fault(driver().submit({}, {}, {point(timeline, 5)}), "HD-Q-09");
  expect_host_fault(driver().submit({}, {}, {point(timeline, HEDDLE_TIMELINE_MAX_VALUE + 1)}), "HD-Q-09");
  expect_host_fault(driver().timeline_api->signal(timeline, 4), "HD-Q-09");
  EXPECT_OK(driver().submit({}, {}, {point(timeline, 6)}));
  expect_host_fault(driver().submit({}, {}, {point(timeline, 7)}), "HD-Q-06");
  EXPECT_EQ(good.timeline.signal(timeline, 6), nullptr);
  const uint64_t told = violations();
  EXPECT_OK(driver().submit({}, {}, {point(timeline, 7)}));
  EXPECT_EQ(good.timeline.signal(timeline, 7), nullptr);
  EXPECT_EQ(violations(), told);
  driver().timeline_api->destroy(timeline);
}

TEST_P(HostFaults, UnmapsWithoutMaps) {
  if (!GetParam().host_visible) GTEST_SKIP() << "SKIP: its memory is not mapped";
  open();
  heddle_buffer_t* buffer = driver().make_buffer(64);
  expect_host_fault(driver().buffer_api->unmap(buffer), "HD-M-06");
  const uint64_t told = violations();
  void* pointer = nullptr;
  EXPECT_OK(driver().buffer_api->map(buffer, 0, 64, HEDDLE_MAP_READ, &pointer));
  EXPECT_OK(driver().buffer_api->map(buffer, 8, 8, HEDDLE_MAP_READ, &pointer));
  EXPECT_OK(driver().buffer_api->unmap(buffer));
  EXPECT_OK(driver().buffer_api->unmap(buffer));
  EXPECT_EQ(violations(), told);
  expect_host_fault(driver().buffer_api->unmap(buffer), "HD-M-06");
  expect_host_fault(driver().buffer_api->flush(buffer, 0, 8), "HD-M-06");
  driver().buffer_api->free(buffer);
}

TEST_P(HostFaults, ParametersThatNoStructHas) {
  open();
  heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, 64, 3};
  heddle_buffer_t* buffer = nullptr;
  expect_host_fault(driver().buffer_api->allocate(driver().device, &params, &buffer), "HD-M-04");
  params = {0, HEDDLE_MEMORY_DEVICE, 64, 0};
  expect_host_fault(driver().buffer_api->allocate(driver().device, &params, &buffer), "HD-E-04");
  heddle_submission_t submission = {};
  expect_host_fault(driver().dispatch_api->submit(driver().queue, &submission), "HD-E-04");
  heddle_command_t unknown = {};
  unknown.kind = 77;
  expect_host_fault(driver().submit({unknown}, {}, {}), "HD-E-04");
  heddle_device_statistics_t statistics = {};
  expect_host_fault(driver().device_api->statistics(driver().device, &statistics), "HD-E-04");
  heddle_device_open_params_t open_params = {sizeof open_params, 0, nullptr, {}, -1, 0};
  heddle_device_t* device = nullptr;
  expect_host_fault(driver().device_api->open(owner->instance(), 0, &open_params, &device), "HD-H-01");
}

TEST_P(HostFaults, DispatchesThatDoNotFitTheirKernel) {
  open();
  Kernels kernels(owner.get());
  heddle_buffer_t* buffer = driver().make_buffer(64);
  const std::vector<heddle_binding_t> two = {{buffer, 0, 16}, {buffer, 16, 16}},
                                      three = {{buffer, 0, 16}, {buffer, 16, 16}, {buffer, 32, 64}};
  expect_host_fault(driver().submit({kernels.command(kAddF32, two, {4, 64}, 1)}, {}, {}), "HD-C-01");
  expect_host_fault(driver().submit({kernels.command(kAddF32, three, {4, 64}, 1)}, {}, {}), "HD-M-02");
  heddle_device_description_t limits = {};
  limits.struct_size = sizeof limits;
  EXPECT_OK(driver().device_api->describe(owner->instance(), 0, &limits));
  if (limits.max_workgroup_count[1] != 0 && limits.max_workgroup_count[1] != UINT32_MAX) {
    const std::vector<heddle_binding_t> one = {{buffer, 0, 16}};
    expect_host_fault(driver().submit({kernels.command(kCountWorkgroups, one, {}, 1, limits.max_workgroup_count[1] + 1)}, {}, {}),
                      "HD-M-04");
  }
  driver().buffer_api->free(buffer);
}

TEST_P(HostFaults, ReplaysThatAreNotWhatWasRecorded) {
  if (GetParam().host_visible) GTEST_SKIP() << "SKIP: the driver records nothing";
  open();
  heddle_buffer_t* a = driver().make_filled(std::vector<float>{1, 2, 3, 4});
  heddle_buffer_t* b = driver().make_buffer(32);
  const heddle_command_t command = copy(a, 0, b, 0, 16);
  uint8_t dynamic[2] = {HEDDLE_BINDING_DYNAMIC, HEDDLE_BINDING_DYNAMIC | HEDDLE_BINDING_READ_ONLY};
  heddle_recording_t* recording = nullptr;
  expect_host_fault(driver().dispatch_api->record(driver().queue, &command, 1, dynamic, &recording), "HD-G-01");
  dynamic[1] = 0;
  EXPECT_OK(driver().dispatch_api->record(driver().queue, &command, 1, dynamic, &recording));
  heddle_timeline_t* timeline = driver().make_timeline();
  const heddle_point_t done = point(timeline, 1);
  heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &done};
  const heddle_binding_t right[] = {{a, 0, 16}, {b, 0, 16}}, longer[] = {{a, 0, 8}};
  expect_host_fault(driver().dispatch_api->replay(recording, right, 2, &sync), "HD-G-01");
  expect_host_fault(driver().dispatch_api->replay(recording, longer, 1, &sync), "HD-G-01");
  const uint64_t told = violations();
  EXPECT_OK(driver().dispatch_api->replay(recording, right, 1, &sync));
  EXPECT_TRUE(driver().wait(timeline, 1).ok());
  EXPECT_EQ(violations(), told);
  driver().buffer_api->free(b);  // which the recording names for good
  expect_told("the host", "HD-G-01");
  driver().dispatch_api->recording_free(recording);
  for (heddle_buffer_t* buffer : {a, b}) driver().buffer_api->free(buffer);
  driver().timeline_api->destroy(timeline);
  EXPECT_EQ(violations(), told + 1) << host.logged();
}

TEST_P(HostFaults, ChildrenThatOutliveTheirDevice) {
  open();
  heddle_device_t* other = driver().open(0);
  heddle_buffer_t* buffer = driver().make_buffer(64, HEDDLE_MEMORY_DEVICE, other);
  EXPECT_FAILS(driver().device_api->close(other), HEDDLE_STATUS_FAILED_PRECONDITION, "");  // the driver says so itself
  expect_told("the host", "HD-L-01");
  driver().buffer_api->free(buffer);
  const uint64_t told = violations();
  EXPECT_OK(driver().device_api->close(other));
  EXPECT_EQ(violations(), told);
}

TEST_P(HostFaults, TwoThreadsInsideOfASerialFunction) {
  static std::atomic<bool> inside, leave;
  inside = leave = false;
  open([] {
    bad.device.queue_destroy = [](heddle_queue_t* queue) noexcept -> heddle_status_t* {
      inside = true;
      while (!leave) std::this_thread::yield();
      return good.device.queue_destroy(queue);
    };
    bad.dispatch.recording_free = [](heddle_recording_t*) noexcept {};
    bad.param_io.file_close = [](heddle_file_t* file) noexcept { good.param_io.file_close(file); };
    bad.device.close = [](heddle_device_t* device) noexcept -> heddle_status_t* {
      inside = true;
      while (!leave) std::this_thread::yield();
      return good.device.close(device);
    };
  });
  heddle_queue_t* queue = driver().make_queue(driver().device);
  std::thread first([&] { EXPECT_OK(driver().device_api->queue_destroy(queue)); });
  while (!inside) std::this_thread::yield();
  expect_host_fault(driver().device_api->queue_destroy(queue), "HD-L-01");  // it is on its way out
  leave = true;
  first.join();
}

}  // namespace
}  // namespace heddle::test
