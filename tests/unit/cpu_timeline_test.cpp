// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Timelines and queues of every driver: signals, waits, failures, notifications. Runs on heddle.cpu and on test.streams.
#include <thread>

#include "cpu_driver_case.h"

namespace heddle::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, Driver, every_driver(), name_of);

TEST_P(Driver, SignalsOnlyGrow) {
  heddle_timeline_t* timeline = driver.make_timeline(5);
  uint64_t value = 0;
  ASSERT_OK(driver.timeline_api->query(timeline, &value));
  EXPECT_EQ(value, 5u);
  EXPECT_OK(driver.timeline_api->signal(timeline, 7));
  EXPECT_FAILS(driver.timeline_api->signal(timeline, 7), HEDDLE_STATUS_INVALID_ARGUMENT, "reached 7");
  EXPECT_FAILS(driver.timeline_api->signal(timeline, 6), HEDDLE_STATUS_INVALID_ARGUMENT, "6");
  EXPECT_FAILS(driver.submit({}, {}, {{timeline, 7}}), HEDDLE_STATUS_INVALID_ARGUMENT, "reached 7");
  driver.timeline_api->destroy(timeline);
}

TEST_P(Driver, ATimeoutLeavesEverythingAsItWas) {
  heddle_timeline_t* timeline = driver.make_timeline();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(driver.wait(timeline, 1, 0).code(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_EQ(driver.wait(timeline, 1, 20000000).code(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
  EXPECT_OK(driver.timeline_api->signal(timeline, 1));
  EXPECT_TRUE(driver.wait(timeline, 1, 0).ok());
  driver.timeline_api->destroy(timeline);
}

TEST_P(Driver, WaitsForAnyAndForAll) {
  heddle_timeline_t* a = driver.make_timeline();
  heddle_timeline_t* b = driver.make_timeline();
  const heddle_point_t both[] = {{a, 1}, {b, 1}};
  std::thread signaller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_OK(driver.timeline_api->signal(b, 1));
  });
  EXPECT_OK(driver.timeline_api->wait(both, 2, HEDDLE_WAIT_ANY, HEDDLE_TIMEOUT_INFINITE));
  signaller.join();
  EXPECT_FAILS(driver.timeline_api->wait(both, 2, HEDDLE_WAIT_ALL, 1000000), HEDDLE_STATUS_DEADLINE_EXCEEDED, "2 points");
  std::thread second([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_OK(driver.timeline_api->signal(a, 3));
  });
  EXPECT_OK(driver.timeline_api->wait(both, 2, HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE));
  second.join();
  EXPECT_FAILS(driver.timeline_api->wait(both, 2, 9, 0), HEDDLE_STATUS_INVALID_ARGUMENT, "mode 9");
  driver.timeline_api->destroy(a);
  driver.timeline_api->destroy(b);
}

TEST_P(Driver, TheFirstFailureWinsAndEndsWaits) {
  heddle_timeline_t* a = driver.make_timeline();
  heddle_timeline_t* b = driver.make_timeline();
  const heddle_host_t* table = host.table();
  auto failure = [&](const char* text) { return table->status_create(table->self, HEDDLE_STATUS_ABORTED, {}, 0, string_of(text)); };
  EXPECT_OK(driver.timeline_api->signal(a, 2));
  std::thread failing([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    driver.timeline_api->fail(a, 5, failure("the first"));
    driver.timeline_api->fail(a, 6, failure("the second"));
  });
  const heddle_point_t both[] = {{b, 1}, {a, 6}};
  EXPECT_FAILS(driver.timeline_api->wait(both, 2, HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE), HEDDLE_STATUS_ABORTED, "the first");
  failing.join();
  EXPECT_TRUE(driver.wait(a, 2).ok()) << "what was reached stays reached";
  EXPECT_OK(driver.timeline_api->signal(a, 4));
  EXPECT_FAILS(driver.timeline_api->signal(a, 5), HEDDLE_STATUS_ABORTED, "the first");
  uint64_t value = 0;
  EXPECT_FAILS(driver.timeline_api->query(a, &value), HEDDLE_STATUS_ABORTED, "the first");
  EXPECT_EQ(value, 4u);
  driver.timeline_api->destroy(a);
  driver.timeline_api->destroy(b);
}

struct Notified {
  std::atomic<int> calls{0};
  std::string failure;
};
void note(void* context, const heddle_status_t* failure) {
  auto* notified = static_cast<Notified*>(context);
  if (failure) notified->failure = failure->message;
  ++notified->calls;
}

TEST_P(Driver, NotifiesOnceOnSuccessOnFailureAndAtOnce) {
  heddle_timeline_t* timeline = driver.make_timeline();
  Notified early, reached, failed;
  EXPECT_OK(driver.timeline_api->notify(timeline, 0, note, &early));
  EXPECT_EQ(early.calls, 1);
  EXPECT_OK(driver.timeline_api->notify(timeline, 2, note, &reached));
  EXPECT_OK(driver.timeline_api->notify(timeline, 9, note, &failed));
  EXPECT_OK(driver.timeline_api->signal(timeline, 1));
  EXPECT_EQ(reached.calls, 0);
  ASSERT_OK(driver.submit({}, {}, {{timeline, 3}}));
  EXPECT_TRUE(driver.wait(timeline, 3).ok());
  for (int i = 0; i < 1000 && reached.calls == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(reached.calls, 1);
  EXPECT_EQ(failed.calls, 0);
  driver.timeline_api->fail(timeline, 4, host.table()->status_create(nullptr, HEDDLE_STATUS_ABORTED, {}, 0, string_of("why")));
  EXPECT_EQ(failed.calls, 1);
  EXPECT_EQ(failed.failure, "why");
  driver.timeline_api->destroy(timeline);
}

struct Resubmit {
  OpenDriver* driver;
  heddle_timeline_t* next;
  bool signals;
};

TEST_P(Driver, ANotificationMaySubmitAndSignal) {
  heddle_timeline_t* first = driver.make_timeline();
  heddle_timeline_t* next = driver.make_timeline();
  const bool is_at_once = GetParam().host_visible;
  Resubmit resubmit = {&driver, next, is_at_once};
  EXPECT_OK(driver.timeline_api->notify(
      first, 1,
      [](void* context, const heddle_status_t*) {
        auto* at = static_cast<Resubmit*>(context);
        EXPECT_OK(at->driver->submit({}, {}, {{at->next, 1}}));
        // Only where value 1 is reached by now.
        if (at->signals) EXPECT_OK(at->driver->timeline_api->signal(at->next, 2));
      },
      &resubmit));
  EXPECT_OK(driver.submit({}, {}, {{first, 1}}));
  EXPECT_TRUE(driver.wait(next, is_at_once ? 2 : 1).ok());
  driver.timeline_api->destroy(first);
  driver.timeline_api->destroy(next);
}

TEST_P(Driver, QueuesWaitForEachOther) {
  Kernels kernels(&driver);
  heddle_queue_t* other = driver.make_queue(driver.device);
  heddle_timeline_t* timeline = driver.make_timeline();
  heddle_buffer_t* value = driver.make_filled(std::vector<uint64_t>(1, 1));
  heddle_buffer_t* flags = driver.make_buffer(400);
  const std::vector<heddle_binding_t> bindings = {{value, 0, 8}}, slow_bindings = {{flags, 0, 400}};
  std::vector<std::vector<int64_t>> constants;
  for (int64_t i = 0; i < 20; ++i) constants.push_back({i});
  const std::vector<int64_t> slow_constants = {1};
  uint64_t expected = 1;
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_OK(driver.submit({kernels.command(kSlow, slow_bindings, slow_constants, 3), kernels.command(kChain, bindings, constants[i], 1)},
                            i ? std::vector<heddle_point_t>{{timeline, i}} : std::vector<heddle_point_t>{}, {{timeline, i + 1}},
                            i % 2 ? other : driver.queue));
    expected = expected * 3 + i;
  }
  EXPECT_TRUE(driver.wait(timeline, 20).ok());
  EXPECT_EQ(driver.values_of<uint64_t>(value, 1)[0], expected);
  EXPECT_OK(driver.device_api->queue_destroy(other));
  driver.timeline_api->destroy(timeline);
  free({value, flags});
}

TEST_P(Driver, DestroyingAQueueWaitsForItsWork) {
  Kernels kernels(&driver);
  heddle_queue_t* other = driver.make_queue(driver.device);
  heddle_timeline_t* timeline = driver.make_timeline();
  heddle_buffer_t* flags = driver.make_filled(std::vector<uint32_t>(50, 0));
  const std::vector<heddle_binding_t> bindings = {{flags, 0, 200}};
  const std::vector<int64_t> constants = {50};
  ASSERT_OK(driver.submit({kernels.command(kSlow, bindings, constants, 50)}, {}, {{timeline, 1}}, other));
  EXPECT_OK(driver.device_api->queue_destroy(other));
  EXPECT_TRUE(driver.wait(timeline, 1, 0).ok());
  EXPECT_EQ(driver.values_of<uint32_t>(flags, 50), std::vector<uint32_t>(50, 1));
  driver.timeline_api->destroy(timeline);
  free({flags});
}

}  // namespace
}  // namespace heddle::test
