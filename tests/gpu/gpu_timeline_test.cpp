// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Timelines and queues of heddle.cuda: chains over queues, work that is held, failures, notifications, many submissions at once.
#include <thread>

#include "cuda_case.h"

namespace heddle::test {
namespace {

struct Notified {
  std::atomic<int> calls{0};
  std::string failure;
};
void note(void* context, const heddle_status_t* failure) {
  auto* notified = static_cast<Notified*>(context);
  if (failure) notified->failure = failure->message;
  ++notified->calls;
}

class CudaTimeline : public Cuda {
 protected:
  heddle_status_t* failure(const char* text) {
    return host->table()->status_create(nullptr, HEDDLE_STATUS_ABORTED, {}, 0, string_of(text));
  }
  static bool happens(const std::atomic<int>& calls, int count = 1) {
    for (int i = 0; i < 10000 && calls < count; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return calls == count;
  }
  // value * 3 + step for step 0 .. count - 1
  static uint64_t chained(uint64_t value, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) value = value * 3 + i;
    return value;
  }
  static std::vector<std::vector<int64_t>> steps(int64_t count) {
    std::vector<std::vector<int64_t>> all;
    for (int64_t i = 0; i < count; ++i) all.push_back({i});
    return all;
  }
};

TEST_F(CudaTimeline, SignalsOnlyGrow) {
  heddle_timeline_t* timeline = driver().make_timeline(5);
  uint64_t value = 0;
  ASSERT_OK(driver().timeline_api->query(timeline, &value));
  EXPECT_EQ(value, 5u);
  EXPECT_OK(driver().timeline_api->signal(timeline, 7));
  EXPECT_FAILS(driver().timeline_api->signal(timeline, 7), HEDDLE_STATUS_INVALID_ARGUMENT, "reached 7");
  EXPECT_FAILS(driver().submit({}, {}, {{timeline, 7}}), HEDDLE_STATUS_INVALID_ARGUMENT, "reached 7");
  EXPECT_FAILS(driver().timeline_api->signal(timeline, UINT64_MAX), HEDDLE_STATUS_OUT_OF_RANGE, "2^62-1");
  ASSERT_OK(driver().submit({}, {{timeline, 6}}, {{timeline, 8}}));
  EXPECT_TRUE(driver().wait(timeline, 8, kPatience).ok());
  driver().timeline_api->destroy(timeline);
}

TEST_F(CudaTimeline, ATimeoutLeavesEverythingAsItWas) {
  Loaded linger(&driver(), linger_facts());
  const std::vector<int64_t> constants = {100000000};
  heddle_timeline_t* timeline = driver().make_timeline();
  ASSERT_OK(driver().submit({linger.command({}, constants)}, {}, {{timeline, 1}}));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(driver().wait(timeline, 1, 0).code(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_EQ(driver().wait(timeline, 1, 20000000).code(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_GE(waited, std::chrono::milliseconds(20));
  EXPECT_LT(waited, std::chrono::milliseconds(90));
  EXPECT_TRUE(driver().wait(timeline, 1, kPatience).ok());
  EXPECT_TRUE(driver().wait(timeline, 1, 0).ok());
  driver().timeline_api->destroy(timeline);
}

TEST_F(CudaTimeline, WaitsForAnyAndForAll) {
  Loaded linger(&driver(), linger_facts());
  const std::vector<int64_t> shortly = {5000000}, constants = {60000000};
  heddle_queue_t* other = driver().make_queue(driver().device);
  heddle_timeline_t *a = driver().make_timeline(), *b = driver().make_timeline();
  const heddle_point_t both[] = {{a, 1}, {b, 1}};
  EXPECT_FAILS(driver().timeline_api->wait(both, 2, HEDDLE_WAIT_ANY, 1000000), HEDDLE_STATUS_DEADLINE_EXCEEDED, "any of 2 points");
  ASSERT_OK(driver().submit({linger.command({}, constants)}, {}, {{a, 1}}));
  ASSERT_OK(driver().submit({linger.command({}, shortly)}, {}, {{b, 1}}, other));
  EXPECT_OK(driver().timeline_api->wait(both, 2, HEDDLE_WAIT_ANY, kPatience));
  EXPECT_FAILS(driver().timeline_api->wait(both, 2, HEDDLE_WAIT_ALL, 1000000), HEDDLE_STATUS_DEADLINE_EXCEEDED, "all of 2 points");
  EXPECT_OK(driver().timeline_api->wait(both, 2, HEDDLE_WAIT_ALL, kPatience));
  EXPECT_FAILS(driver().timeline_api->wait(both, 2, 9, 0), HEDDLE_STATUS_INVALID_ARGUMENT, "mode 9");
  EXPECT_OK(driver().timeline_api->wait(both, 0, HEDDLE_WAIT_ALL, 0));
  driver().timeline_api->destroy(a);
  driver().timeline_api->destroy(b);
  EXPECT_OK(driver().device_api->queue_destroy(other));
}

TEST_F(CudaTimeline, TheFirstFailureWinsAndEndsWaits) {
  heddle_timeline_t *a = driver().make_timeline(), *b = driver().make_timeline();
  EXPECT_OK(driver().timeline_api->signal(a, 2));
  std::thread failing([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    driver().timeline_api->fail(a, 5, failure("the first"));
    driver().timeline_api->fail(a, 6, failure("the second"));
  });
  const heddle_point_t both[] = {{b, 1}, {a, 6}};
  EXPECT_FAILS(driver().timeline_api->wait(both, 2, HEDDLE_WAIT_ALL, kPatience), HEDDLE_STATUS_ABORTED, "the first");
  failing.join();
  EXPECT_TRUE(driver().wait(a, 2, 0).ok()) << "what was reached stays reached";
  EXPECT_OK(driver().timeline_api->signal(a, 4));
  EXPECT_FAILS(driver().timeline_api->signal(a, 5), HEDDLE_STATUS_ABORTED, "the first");
  uint64_t value = 0;
  EXPECT_FAILS(driver().timeline_api->query(a, &value), HEDDLE_STATUS_ABORTED, "the first");
  EXPECT_EQ(value, 4u);
  driver().timeline_api->destroy(a);
  driver().timeline_api->destroy(b);
}

// Two queues in turn; each submission waits for the one before on the other queue.
TEST_F(CudaTimeline, QueuesWaitForEachOther) {
  Loaded chain(&driver(), chain_facts());
  heddle_queue_t* queues[] = {driver().queue, driver().make_queue(driver().device)};
  heddle_timeline_t* timeline = driver().make_timeline();
  heddle_buffer_t* value = driver().make_filled(std::vector<uint64_t>{1});
  const std::vector<heddle_binding_t> bindings = {{value, 0, 8}};
  const auto constants = steps(200);
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_OK(driver().submit({chain.command(bindings, constants[i])}, {{timeline, i}}, {{timeline, i + 1}}, queues[i % 2]));
  }
  EXPECT_TRUE(driver().wait(timeline, 200, kPatience).ok());
  EXPECT_EQ(driver().values_of<uint64_t>(value, 1)[0], chained(1, 200));
  driver().timeline_api->destroy(timeline);
  free({value});
  EXPECT_OK(driver().device_api->queue_destroy(queues[1]));
}

// The wait is enqueued before its signal, twice over: the host's, and another queue's that is held itself.
TEST_F(CudaTimeline, HoldsWhatWaitsForWorkThatIsNotEnqueued) {
  Loaded chain(&driver(), chain_facts());
  heddle_queue_t* queues[] = {driver().queue, driver().make_queue(driver().device)};
  heddle_timeline_t* timeline = driver().make_timeline();
  heddle_buffer_t* value = driver().make_filled(std::vector<uint64_t>{1});
  const std::vector<heddle_binding_t> bindings = {{value, 0, 8}};
  const auto constants = steps(50);
  // From the last to the first, on queues in turn.
  for (uint64_t i = 50; i-- > 0;) {
    ASSERT_OK(driver().submit({chain.command(bindings, constants[i])}, {{timeline, i + 1}}, {{timeline, i + 2}}, queues[i % 2]));
  }
  EXPECT_EQ(driver().wait(timeline, 1, 20000000).code(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  // A queue with nothing but held work still takes what can run.
  EXPECT_OK(driver().run({}));
  EXPECT_EQ(driver().values_of<uint64_t>(value, 1)[0], 1u);
  EXPECT_OK(driver().timeline_api->signal(timeline, 1));
  EXPECT_TRUE(driver().wait(timeline, 51, kPatience).ok());
  EXPECT_EQ(driver().values_of<uint64_t>(value, 1)[0], chained(1, 50));
  driver().timeline_api->destroy(timeline);
  free({value});
  EXPECT_OK(driver().device_api->queue_destroy(queues[1]));
}

TEST_F(CudaTimeline, AnEarlierValueIsReachedByALaterSignal) {
  heddle_timeline_t *a = driver().make_timeline(), *b = driver().make_timeline();
  heddle_queue_t* other = driver().make_queue(driver().device);
  ASSERT_OK(driver().submit({}, {}, {{a, 100}}));
  ASSERT_OK(driver().submit({}, {{a, 3}, {a, 100}}, {{b, 1}, {a, 200}}, other));
  EXPECT_TRUE(driver().wait(b, 1, kPatience).ok());
  EXPECT_TRUE(driver().wait(a, 150, kPatience).ok());
  driver().timeline_api->destroy(a);
  driver().timeline_api->destroy(b);
  EXPECT_OK(driver().device_api->queue_destroy(other));
}

TEST_F(CudaTimeline, WaitsForMoreQueuesThanOneCallTakes) {
  Loaded linger(&driver(), linger_facts());
  const std::vector<int64_t> constants = {1000000};
  constexpr uint64_t kQueues = 20;
  std::vector<heddle_queue_t*> queues;
  std::vector<heddle_point_t> points;
  for (uint64_t i = 0; i < kQueues; ++i) {
    queues.push_back(driver().make_queue(driver().device));
    points.push_back({driver().make_timeline(), 1});
    ASSERT_OK(driver().submit({linger.command({}, constants)}, {}, {points.back()}, queues.back()));
  }
  heddle_timeline_t* all = driver().make_timeline();
  ASSERT_OK(driver().submit({}, points, {{all, 1}}));
  EXPECT_TRUE(driver().wait(all, 1, kPatience).ok());
  for (const heddle_point_t& point : points) EXPECT_TRUE(driver().wait(point.timeline, 1, 0).ok());
  for (const heddle_point_t& point : points) driver().timeline_api->destroy(point.timeline);
  driver().timeline_api->destroy(all);
  for (heddle_queue_t* queue : queues) EXPECT_OK(driver().device_api->queue_destroy(queue));
}

// ---------------------------------------------------------------------------------------------------- notifications, failures

TEST_F(CudaTimeline, NotifiesOnceOnSuccessOnFailureAndAtOnce) {
  Loaded linger(&driver(), linger_facts());
  const std::vector<int64_t> constants = {2000000};
  heddle_timeline_t* timeline = driver().make_timeline();
  Notified early, reached, failed;
  EXPECT_OK(driver().timeline_api->notify(timeline, 0, note, &early));
  EXPECT_EQ(early.calls, 1);
  EXPECT_OK(driver().timeline_api->notify(timeline, 2, note, &reached));
  EXPECT_OK(driver().timeline_api->notify(timeline, 9, note, &failed));
  ASSERT_OK(driver().submit({linger.command({}, constants)}, {}, {{timeline, 3}}));
  EXPECT_TRUE(happens(reached.calls)) << "nobody waits but the one that is told";
  EXPECT_EQ(reached.failure, "");
  EXPECT_EQ(failed.calls, 0);
  driver().timeline_api->fail(timeline, 4, failure("why"));
  EXPECT_TRUE(happens(failed.calls));
  EXPECT_EQ(failed.failure, "why");
  driver().timeline_api->destroy(timeline);
}

TEST_F(CudaTimeline, AFailureTravelsThroughWorkThatWaitsForIt) {
  Loaded chain(&driver(), chain_facts());
  heddle_buffer_t* value = driver().make_filled(std::vector<uint64_t>{1});
  const std::vector<heddle_binding_t> bindings = {{value, 0, 8}};
  const std::vector<int64_t> constants = {1};
  heddle_timeline_t *first = driver().make_timeline(), *second = driver().make_timeline(), *third = driver().make_timeline();
  heddle_queue_t* other = driver().make_queue(driver().device);
  ASSERT_OK(driver().submit({chain.command(bindings, constants)}, {{first, 1}}, {{second, 1}}));
  ASSERT_OK(driver().submit({}, {{second, 1}}, {{third, 1}}, other));
  std::vector<char> target(1 << 20, 'x');
  heddle_buffer_t* large = driver().make_buffer(target.size());
  const heddle_point_t wait = {third, 1}, signal = {third, 2};
  const heddle_sync_t sync = {sizeof sync, 1, 1, 0, &wait, &signal};
  const heddle_binding_t binding = {large, 0, target.size()};
  ASSERT_OK(driver().transfer_api->download(other, &sync, &binding, target.data()));
  Notified told;
  EXPECT_OK(driver().timeline_api->notify(third, 2, note, &told));
  driver().timeline_api->fail(first, 1, failure("the reason"));
  EXPECT_TRUE(happens(told.calls));
  EXPECT_EQ(told.failure, "the reason");
  for (heddle_timeline_t* timeline : {second, third}) {
    Result result = driver().wait(timeline, 1, kPatience);
    EXPECT_EQ(result.code(), HEDDLE_STATUS_ABORTED);
    EXPECT_EQ(result.message(), "the reason");
  }
  EXPECT_EQ(target, std::vector<char>(target.size(), 'x')) << "a failed download writes nothing";
  EXPECT_EQ(driver().values_of<uint64_t>(value, 1)[0], 1u) << "held work whose wait fails does not run";
  for (heddle_timeline_t* timeline : {first, second, third}) driver().timeline_api->destroy(timeline);
  free({value, large});
  EXPECT_OK(driver().device_api->queue_destroy(other));
  expect_works();
}

struct Resubmit {
  OpenDriver* driver;
  heddle_timeline_t* next;
  Notified* last;
};

TEST_F(CudaTimeline, ANotificationMaySubmitAndSignal) {
  heddle_timeline_t *first = driver().make_timeline(), *next = driver().make_timeline(), *after = driver().make_timeline();
  Notified last;
  Resubmit resubmit = {&driver(), next, &last};
  EXPECT_OK(driver().timeline_api->notify(
      first, 1,
      [](void* context, const heddle_status_t*) {
        auto* at = static_cast<Resubmit*>(context);
        EXPECT_OK(at->driver->submit({}, {}, {{at->next, 1}}));
        EXPECT_OK(at->driver->timeline_api->notify(at->next, 1, note, at->last));
      },
      &resubmit));
  EXPECT_OK(driver().submit({}, {}, {{first, 1}}));
  EXPECT_TRUE(driver().wait(first, 1, kPatience).ok());
  EXPECT_TRUE(happens(last.calls));
  for (heddle_timeline_t* timeline : {first, next, after}) driver().timeline_api->destroy(timeline);
}

TEST_F(CudaTimeline, ATimelineMayEndWithANotificationOpen) {
  heddle_timeline_t* timeline = driver().make_timeline();
  Notified never;
  EXPECT_OK(driver().timeline_api->notify(timeline, 1, note, &never));
  driver().timeline_api->destroy(timeline);
  EXPECT_OK(driver().device_api->queue_destroy(driver().queue));
  EXPECT_OK(driver().device_api->close(driver().device));  // its threads end
  EXPECT_EQ(never.calls, 0);
  driver().device = driver().open(0);
  driver().queue = driver().make_queue(driver().device);
  --host->live_memory;  // the notice of that timeline is nobody's any more
}

// ----------------------------------------------------------------------------------------------------------- many at once

// Four threads with a queue each; everything is in flight before the gate opens.
TEST_F(CudaTimeline, AThousandHeldSubmissionsFromFourThreads) {
  Loaded chain(&driver(), chain_facts());
  constexpr uint64_t kThreads = 4, kEach = 250;
  heddle_timeline_t* gate = driver().make_timeline();
  heddle_buffer_t* values = driver().make_filled(std::vector<uint64_t>(kThreads * 32, 1));
  const auto constants = steps(kEach);
  std::vector<heddle_queue_t*> queues;
  std::vector<heddle_timeline_t*> timelines;
  for (uint64_t t = 0; t < kThreads; ++t) {
    queues.push_back(driver().make_queue(driver().device));
    timelines.push_back(driver().make_timeline());
  }
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<heddle_binding_t> bindings = {{values, t * 256, 8}};
      for (uint64_t i = 0; i < kEach; ++i) {
        EXPECT_OK(
            driver().submit({chain.command(bindings, constants[i])}, {{gate, 1}, {timelines[t], i}}, {{timelines[t], i + 1}}, queues[t]));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(driver().wait(timelines[0], 1, 1000000).code(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_OK(driver().timeline_api->signal(gate, 1));
  for (heddle_timeline_t* timeline : timelines) EXPECT_TRUE(driver().wait(timeline, kEach, kPatience).ok());
  const std::vector<uint64_t> got = driver().values_of<uint64_t>(values, kThreads * 32);
  for (uint64_t t = 0; t < kThreads; ++t) EXPECT_EQ(got[t * 32], chained(1, kEach)) << t;
  for (heddle_timeline_t* timeline : timelines) driver().timeline_api->destroy(timeline);
  driver().timeline_api->destroy(gate);
  for (heddle_queue_t* queue : queues) EXPECT_OK(driver().device_api->queue_destroy(queue));
  free({values});
}

// The same on the device's side of things: one queue for all, behind a kernel that takes its time.
TEST_F(CudaTimeline, AThousandSubmissionsInFlightOnOneQueue) {
  Loaded linger(&driver(), linger_facts());
  Loaded counter(&driver(), {"count_threads", 1, 0, {32, 1, 1}});
  constexpr uint64_t kThreads = 4, kEach = 250;
  heddle_buffer_t* counts = driver().make_filled(std::vector<uint32_t>(320, 0));
  const std::vector<heddle_binding_t> bindings = {{counts, 0, 320 * 4}};
  const std::vector<int64_t> constants = {50000000};
  heddle_timeline_t* first = driver().make_timeline();
  ASSERT_OK(driver().submit({linger.command({}, constants)}, {}, {{first, 1}}));
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      heddle_timeline_t* mine = driver().make_timeline();
      for (uint64_t i = 0; i < kEach; ++i) {
        EXPECT_OK(driver().submit({counter.command(bindings, {}, 10), barrier(), copy(counts, 0, counts, 640, 4)}, {{first, 1}, {mine, i}},
                                  {{mine, i + 1}}));
        if (i == 100) {
          EXPECT_TRUE(driver().wait(mine, 10, kPatience).ok());
        }
      }
      EXPECT_TRUE(driver().wait(mine, kEach, kPatience).ok());
      driver().timeline_api->destroy(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<uint32_t> got = driver().values_of<uint32_t>(counts, 320);
  EXPECT_EQ(got[0], kThreads * kEach);
  EXPECT_EQ(got[319], kThreads * kEach);
  driver().timeline_api->destroy(first);
  free({counts});
}

TEST_F(CudaTimeline, QueuesComeAndGoWhileOthersWork) {
  Loaded chain(&driver(), chain_facts());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      heddle_buffer_t* value = driver().make_buffer(8);
      const uint64_t one = 1;
      driver().write(value, 0, &one, 8);
      const std::vector<heddle_binding_t> bindings = {{value, 0, 8}};
      const auto constants = steps(20);
      for (uint64_t i = 0; i < 20; ++i) {
        heddle_queue_t* queue = driver().make_queue(driver().device);
        heddle_timeline_t* timeline = driver().make_timeline();
        EXPECT_OK(driver().submit({chain.command(bindings, constants[i])}, {}, {{timeline, 1}}, queue));
        EXPECT_OK(driver().device_api->queue_destroy(queue));
        EXPECT_TRUE(driver().wait(timeline, 1, 0).ok()) << "the end of a queue waits for its work";
        driver().timeline_api->destroy(timeline);
      }
      uint64_t got = 0;
      driver().read(value, 0, &got, 8);
      EXPECT_EQ(got, chained(1, 20));
      free({value});
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace heddle::test
