// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The validation layer on what a driver does: a real driver with one function that breaks one rule, which is caught. What a driver does right is told
// nothing of in validation_host_test.cpp and in every test of the core that runs behind the layer.
#include <signal.h>
#include <xmmintrin.h>

#include <cerrno>
#include <cstring>

#include "validation_case.h"

namespace heddle::test {
namespace {

class PluginFaults : public Validated {
 protected:
  heddle_status_t* allocate(heddle_buffer_t** out, uint64_t size = 64) {
    heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, size, 0};
    return driver().buffer_api->allocate(driver().device, &params, out);
  }
  heddle_status_t* describe() {
    heddle_device_description_t description = {};
    description.struct_size = sizeof description;
    return driver().device_api->describe(owner->instance(), 0, &description);
  }
  heddle_status_t* count() {
    uint32_t found = 0;
    return driver().device_api->count(owner->instance(), &found);
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, PluginFaults, every_driver(), name_of);

TEST_P(PluginFaults, SucceedsWithoutAResult) {
  open([] {
    bad.buffer.allocate = [](heddle_device_t*, const heddle_buffer_params_t*, heddle_buffer_t**) noexcept -> heddle_status_t* {
      return nullptr;
    };
  });
  heddle_buffer_t* buffer = nullptr;
  expect_plugin_fault(allocate(&buffer), "HD-E-07");
}

TEST_P(PluginFaults, FailsAndLeavesAResult) {
  open([] {
    bad.timeline.create = [](heddle_device_t* device, uint64_t, heddle_timeline_t** out) noexcept {
      *out = reinterpret_cast<heddle_timeline_t*>(device);
      return refuse(HEDDLE_STATUS_UNAVAILABLE, "no");
    };
  });
  heddle_timeline_t* timeline = nullptr;
  EXPECT_FAILS(driver().timeline_api->create(driver().device, 0, &timeline), HEDDLE_STATUS_UNAVAILABLE, "no");  // its own failure stays
  EXPECT_EQ(timeline, nullptr);
  expect_told("the plugin", "HD-E-07");
}

TEST_P(PluginFaults, GivesOneHandleTwice) {
  open([] {
    bad.device.open = [](heddle_plugin_instance_t* instance, uint32_t ordinal, const heddle_device_open_params_t* params,
                         heddle_device_t** out) noexcept -> heddle_status_t* {
      static std::pair<heddle_plugin_instance_t*, heddle_device_t*> first;
      if (first.first == instance && the_host->logged().find("again") != std::string::npos) return *out = first.second, nullptr;
      heddle_status_t* status = good.device.open(instance, ordinal, params, out);
      first = {instance, *out};
      return status;
    };
  });
  host.table()->log(host.table()->self, HEDDLE_LOG_INFO, {}, 0, string_of("again"));
  heddle_device_open_params_t params = {sizeof params, 0, &owner->api, {}, -1, 0};
  heddle_device_t* device = nullptr;
  expect_plugin_fault(driver().device_api->open(owner->instance(), 0, &params, &device), "HD-E-07");
}

TEST_P(PluginFaults, GivesAHandleWithoutTheHostsTable) {
  open([] {
    bad.timeline.create = [](heddle_device_t* device, uint64_t value, heddle_timeline_t** out) noexcept {
      heddle_status_t* status = good.timeline.create(device, value, out);
      static const heddle_driver_api_t other = {};
      if (!status) reinterpret_cast<heddle_object_t*>(*out)->api = &other;
      return status;
    };
  });
  heddle_timeline_t* timeline = nullptr;
  expect_plugin_fault(driver().timeline_api->create(driver().device, 0, &timeline), "HD-H-01");
  EXPECT_EQ(timeline, nullptr);  // the driver has it back
}

TEST_P(PluginFaults, WritesBeyondAnOutputStruct) {
  open([] {
    bad.device.statistics = [](heddle_device_t* device, heddle_device_statistics_t* out) noexcept {
      heddle_status_t* status = good.device.statistics(device, out);
      std::memset(reinterpret_cast<char*>(out) + out->struct_size, 1, 4);
      return status;
    };
  });
  heddle_device_statistics_t statistics = {};
  statistics.struct_size = sizeof statistics;
  expect_plugin_fault(driver().device_api->statistics(driver().device, &statistics), "HD-E-04");
}

TEST_P(PluginFaults, DescribesADeviceThatCannotBe) {
  open();
  bad.device.describe = [](heddle_plugin_instance_t* instance, uint32_t ordinal, heddle_device_description_t* out) noexcept {
    heddle_status_t* status = good.device.describe(instance, ordinal, out);
    out->min_alignment_bytes = 3;
    return status;
  };
  expect_plugin_fault(describe(), "HD-M-04");
}

TEST_P(PluginFaults, ShowsABufferThatIsNotWhatWasAskedFor) {
  open([] {
    bad.buffer.properties = [](heddle_buffer_t* buffer, heddle_buffer_properties_t* out) noexcept {
      heddle_status_t* status = good.buffer.properties(buffer, out);
      out->device_address += 1;
      return status;
    };
  });
  heddle_buffer_t* buffer = nullptr;
  expect_plugin_fault(allocate(&buffer), "HD-M-04");
  EXPECT_EQ(buffer, nullptr);  // given back
}

TEST_P(PluginFaults, AnswersWithStatusesThatSayNothing) {
  open();
  bad.device.count = [](heddle_plugin_instance_t*, uint32_t*) noexcept { return refuse(99, "what"); };
  EXPECT_FAILS(count(), 99u, "what");
  expect_told("the plugin", "HD-S-01");
  bad.device.count = [](heddle_plugin_instance_t*, uint32_t*) noexcept { return refuse(HEDDLE_STATUS_INTERNAL, ""); };
  EXPECT_FAILS(count(), HEDDLE_STATUS_INTERNAL, "");
  EXPECT_EQ(violations(), 2u);
}

TEST_P(PluginFaults, ChangesTheCallersThread) {
  open();
  bad.device.count = [](heddle_plugin_instance_t* instance, uint32_t* out) noexcept {
    errno = EAGAIN;
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &mask, nullptr);
    _mm_setcsr(_mm_getcsr() | 0x8040);  // denormals are zero
    return good.device.count(instance, out);
  };
  errno = 0;
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  const uint32_t control = _mm_getcsr() & ~0x3Fu;
  EXPECT_OK(count());  // the work is done
  EXPECT_EQ(errno, 0);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&before, SIGUSR2), sigismember(&after, SIGUSR2));
  EXPECT_EQ(_mm_getcsr() & ~0x3Fu, control);
  expect_told("the plugin", "HD-T-02");
  for (const char* what : {"errno, to 11", "the signal mask", "the floating-point environment"}) {
    EXPECT_NE(host.logged().find(what), std::string::npos) << host.logged();
  }
}

TEST_P(PluginFaults, WaitsWhereItMayNot) {
  open();
  bad.transfer.properties = [](heddle_device_t* device, heddle_transfer_properties_t* out) noexcept {
    std::this_thread::sleep_for(kTooLong);
    return good.transfer.properties(device, out);
  };
  heddle_transfer_properties_t properties = {};
  properties.struct_size = sizeof properties;
  EXPECT_OK(driver().transfer_api->properties(driver().device, &properties));
  expect_told("the plugin", "HD-T-01");
}

TEST_P(PluginFaults, NotifiesTwice) {
  open([] {
    bad.timeline.notify = [](heddle_timeline_t* timeline, uint64_t value, void (*function)(void*, const heddle_status_t*),
                             void* context) noexcept {
      function(context, nullptr);
      return good.timeline.notify(timeline, value, function, context);
    };
  });
  heddle_timeline_t* timeline = driver().make_timeline();
  std::atomic<int> told{0};
  EXPECT_OK(driver().timeline_api->notify(
      timeline, 1, [](void* count, const heddle_status_t*) { ++*static_cast<std::atomic<int>*>(count); }, &told));
  EXPECT_OK(driver().timeline_api->signal(timeline, 1));
  EXPECT_TRUE(driver().wait(timeline, 1).ok());
  driver().timeline_api->destroy(timeline);
  for (int i = 0; i < 1000 && violations() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  expect_told("the plugin", "HD-T-03");
  EXPECT_EQ(told.load(), 1);  // the host is told once
}

TEST_P(PluginFaults, NeverNotifies) {
  open([] {
    bad.timeline.notify = [](heddle_timeline_t*, uint64_t, void (*)(void*, const heddle_status_t*), void*) noexcept -> heddle_status_t* {
      return nullptr;
    };
  });
  heddle_timeline_t* timeline = driver().make_timeline();
  EXPECT_OK(driver().timeline_api->notify(timeline, 1, [](void*, const heddle_status_t*) {}, nullptr));
  EXPECT_OK(driver().timeline_api->signal(timeline, 1));
  driver().timeline_api->destroy(timeline);
  owner.reset();
  EXPECT_NE(host.logged().find("without having called 1 notifications"), std::string::npos) << host.logged();
}

TEST_P(PluginFaults, ReleasesImportedMemoryTwice) {
  if (!GetParam().host_visible) GTEST_SKIP() << "SKIP: the driver imports nothing";
  open([] {
    bad.buffer.import_host = [](heddle_device_t* device, void* memory, uint64_t size, void (*release)(void*), void* context,
                                heddle_buffer_t** out) noexcept {
      heddle_status_t* status = good.buffer.import_host(device, memory, size, release, context, out);
      if (!status) release(context);
      return status;
    };
  });
  alignas(64) static char memory[64];
  int released = 0;
  heddle_buffer_t* buffer = nullptr;
  EXPECT_OK(driver().buffer_api->import_host(
      driver().device, memory, sizeof memory, [](void* count) { ++*static_cast<int*>(count); }, &released, &buffer));
  driver().buffer_api->free(buffer);
  EXPECT_EQ(released, 1);
  expect_told("the plugin", "HD-T-03");
}

TEST_P(PluginFaults, GoesOnAfterADeviceIsLost) {
  open();
  static bool lost;
  lost = true;
  bad.buffer.allocate = [](heddle_device_t* device, const heddle_buffer_params_t* params, heddle_buffer_t** out) noexcept {
    if (!std::exchange(lost, false)) return good.buffer.allocate(device, params, out);
    *out = nullptr;
    return refuse(HEDDLE_STATUS_DEVICE_LOST, "it is gone");
  };
  heddle_buffer_t* buffer = nullptr;
  EXPECT_FAILS(allocate(&buffer), HEDDLE_STATUS_DEVICE_LOST, "gone");
  EXPECT_EQ(violations(), 0u);
  expect_plugin_fault(allocate(&buffer), "HD-S-02");
}

TEST_P(PluginFaults, WaitsThatAreWrong) {
  open();
  heddle_timeline_t* timeline = driver().make_timeline();
  bad.timeline.wait = [](const heddle_point_t*, uint64_t, uint32_t, uint64_t) noexcept -> heddle_status_t* { return nullptr; };
  const heddle_point_t never = {timeline, 1};
  expect_plugin_fault(driver().timeline_api->wait(&never, 1, HEDDLE_WAIT_ALL, 1000), "HD-Q-09");
  bad.timeline.wait = [](const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t) noexcept {
    return good.timeline.wait(points, count, mode, 0);
  };
  EXPECT_FAILS(driver().timeline_api->wait(&never, 1, HEDDLE_WAIT_ALL, uint64_t{60} * 1000000000), HEDDLE_STATUS_DEADLINE_EXCEEDED, "");
  EXPECT_EQ(violations(), 2u) << host.logged();
  bad.timeline.wait = good.timeline.wait;
  EXPECT_FAILS(driver().timeline_api->wait(&never, 1, HEDDLE_WAIT_ALL, 1000), HEDDLE_STATUS_DEADLINE_EXCEEDED, "");
  EXPECT_EQ(violations(), 2u) << host.logged();
  driver().timeline_api->destroy(timeline);
}

TEST_P(PluginFaults, CountsBackwards) {
  open();
  heddle_timeline_t* timeline = driver().make_timeline(3);
  bad.timeline.query = [](heddle_timeline_t* of, uint64_t* out) noexcept {
    heddle_status_t* status = good.timeline.query(of, out);
    *out -= 1;
    return status;
  };
  uint64_t value = 0;
  expect_plugin_fault(driver().timeline_api->query(timeline, &value), "HD-Q-09");
  bad.timeline.query = [](heddle_timeline_t* of, uint64_t* out) noexcept {
    heddle_status_t* status = good.timeline.query(of, out);
    *out += 1;
    return status;
  };
  expect_plugin_fault(driver().timeline_api->query(timeline, &value), "HD-Q-09");
  bad.timeline.query = good.timeline.query;
  EXPECT_OK(good.timeline.signal(timeline, 5));  // what was seen wrongly is reached now
  driver().timeline_api->destroy(timeline);
}

TEST_P(PluginFaults, ClosesWhatHasChildren) {
  open();
  heddle_device_t* other = driver().open(0);
  heddle_buffer_t* buffer = driver().make_buffer(64, HEDDLE_MEMORY_DEVICE, other);
  bad.device.close = [](heddle_device_t*) noexcept -> heddle_status_t* { return nullptr; };
  EXPECT_OK(driver().device_api->close(other));
  bad.device.close = good.device.close;
  EXPECT_NE(host.logged().find("the plugin broke a rule: it closed a device"), std::string::npos) << host.logged();
  good.buffer.free(buffer);
  EXPECT_OK(good.device.close(other));
}

TEST_P(PluginFaults, EndsAQueueBeforeItsWork) {
  open();
  heddle_queue_t* queue = driver().make_queue(driver().device);
  heddle_timeline_t* timeline = driver().make_timeline();
  bad.dispatch.submit = [](heddle_queue_t*, const heddle_submission_t*) noexcept -> heddle_status_t* { return nullptr; };
  EXPECT_OK(driver().submit({}, {}, {{timeline, 1}}, queue));
  EXPECT_OK(driver().device_api->queue_destroy(queue));
  expect_told("the plugin", "HD-Q-06");
  EXPECT_OK(good.timeline.signal(timeline, 1));
  driver().timeline_api->destroy(timeline);
}

TEST_P(PluginFaults, ShutsDownWithDevices) {
  open();
  EXPECT_OK(layer().shutdown(owner->instance(), [](heddle_plugin_instance_t*) -> heddle_status_t* { return nullptr; }));
  EXPECT_NE(host.logged().find("it shut down with 1 live devices"), std::string::npos) << host.logged();
  // The layer knows nothing of them any more, so they end without it.
  owner->shut_down = nullptr;
  owner->device_api = &good.device;
}

}  // namespace
}  // namespace heddle::test
