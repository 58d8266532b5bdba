// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: heddle.timeline/1, and the waits and signals of submissions.
#include <algorithm>
#include <cstring>

#include "session.h"

namespace heddle::conformance {
namespace {

uint64_t value_of(Session& session, heddle_timeline_t* timeline) {
  uint64_t value = 12345;
  REQUIRE_OK(session.tables().timeline.query(timeline, &value));
  return value;
}

Result wait_for(Session& session, const std::vector<heddle_point_t>& points, uint32_t mode, uint64_t timeout_ns = patience_ns()) {
  return session.tables().timeline.wait(points.data(), points.size(), mode, timeout_ns);
}

void initial_values() {
  Session session;
  for (uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{1000000007}, HEDDLE_TIMELINE_MAX_VALUE}) {
    heddle_timeline_t* timeline = session.timeline(value);
    CHECK(value_of(session, timeline) == value, "a timeline created at %llu reports %llu", number(value),
          number(value_of(session, timeline)));
    session.reach({timeline, value});
  }
  for (uint64_t value : {HEDDLE_TIMELINE_MAX_VALUE + 1, UINT64_MAX}) {
    heddle_timeline_t* timeline = nullptr;
    EXPECT_REFUSED(session.tables().timeline.create(session.device, value, &timeline));
  }
}

void host_signals() {
  Session session;
  heddle_timeline_t* timeline = session.timeline();
  for (uint64_t value : {uint64_t{1}, uint64_t{2}, uint64_t{100}, uint64_t{1} << 40, HEDDLE_TIMELINE_MAX_VALUE}) {
    EXPECT_OK(session.tables().timeline.signal(timeline, value));
    CHECK(value_of(session, timeline) == value, "after a signal of %llu query returns %llu", number(value),
          number(value_of(session, timeline)));
    session.reach({timeline, value});
    session.reach({timeline, value / 2});
  }
}

void values_only_grow() {
  Session session;
  heddle_timeline_t* timeline = session.timeline(10);
  for (uint64_t value : {uint64_t{10}, uint64_t{9}, uint64_t{0}}) {
    EXPECT_CODE(session.tables().timeline.signal(timeline, value), HEDDLE_STATUS_INVALID_ARGUMENT);
    EXPECT_CODE(session.submit(List(), {}, {{timeline, value}}).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  }
  for (uint64_t value : {HEDDLE_TIMELINE_MAX_VALUE + 1, UINT64_MAX}) {
    EXPECT_REFUSED(session.tables().timeline.signal(timeline, value));
    EXPECT_REFUSED(session.submit(List(), {}, {{timeline, value}}).release());
  }
  CHECK(value_of(session, timeline) == 10, "after signals that were refused the value is %llu", number(value_of(session, timeline)));
}

void bad_points() {
  Session session;
  EXPECT_CODE(session.submit(List(), {{nullptr, 1}}, {}).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_CODE(session.submit(List(), {}, {{nullptr, 1}}).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  heddle_submission_t submission = {sizeof submission, 0, nullptr, {sizeof(heddle_sync_t), 1, 0, 0, nullptr, nullptr}};
  EXPECT_CODE(session.tables().dispatch.submit(session.queue, &submission), HEDDLE_STATUS_INVALID_ARGUMENT);
  submission = {sizeof submission, 3, nullptr, {sizeof(heddle_sync_t), 0, 0, 0, nullptr, nullptr}};
  EXPECT_CODE(session.tables().dispatch.submit(session.queue, &submission), HEDDLE_STATUS_INVALID_ARGUMENT);
  const heddle_point_t reached = {session.timeline(1), 1};
  EXPECT_CODE(wait_for(session, {reached}, 77).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_OK(session.tables().timeline.wait(nullptr, 0, HEDDLE_WAIT_ALL, 0));
}

void any_and_all() {
  Session session;
  const heddle_point_t a = {session.timeline(), 5}, b = {session.timeline(), 7};
  EXPECT_CODE(wait_for(session, {a, b}, HEDDLE_WAIT_ANY, 1000000).release(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_OK(session.tables().timeline.signal(b.timeline, 6));
  EXPECT_CODE(wait_for(session, {a, b}, HEDDLE_WAIT_ANY, 1000000).release(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_OK(session.tables().timeline.signal(b.timeline, 7));
  EXPECT_OK(wait_for(session, {a, b}, HEDDLE_WAIT_ANY).release());
  EXPECT_CODE(wait_for(session, {a, b}, HEDDLE_WAIT_ALL, 1000000).release(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_OK(session.tables().timeline.signal(a.timeline, 9));
  EXPECT_OK(wait_for(session, {a, b}, HEDDLE_WAIT_ALL).release());
}

void timeouts() {
  Session session;
  const heddle_point_t done = session.point();
  const uint64_t start = now_ns();
  EXPECT_CODE(session.wait(done, 0).release(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  CHECK(now_ns() - start < 1000000000, "a wait with timeout 0 took %llu ms; it polls", number((now_ns() - start) / 1000000));
  const uint64_t middle = now_ns();
  EXPECT_CODE(session.wait(done, 30000000).release(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  const uint64_t took = now_ns() - middle;
  CHECK(took >= 25000000 && took < 5000000000, "a wait of 30 ms took %llu us", number(took / 1000));
  // The timeout changed nothing: work may still signal it, and a later wait succeeds.
  REQUIRE_OK(session.submit(List(), {}, {done}).release());
  session.reach(done);
  // Timeouts have 64 bits of nanoseconds, and so has their sum with the current time.
  for (uint64_t timeout_ns : {(uint64_t{1} << 32) + 1000, uint64_t{1} << 42, UINT64_MAX - 1, HEDDLE_TIMEOUT_INFINITE}) {
    const heddle_point_t later = session.point();
    std::thread signaller([&] {
      usleep(20000);
      EXPECT_OK(session.tables().timeline.signal(later.timeline, later.value));
    });
    Result result = session.wait(later, timeout_ns);
    signaller.join();
    CHECK(result.ok(), "a wait of %llu ns for a signal after 20 ms returned %s", number(timeout_ns), result.text().c_str());
  }
}

void wakes_a_thread() {
  Session session;
  for (int i = 0; i < 20; ++i) {
    const heddle_point_t done = session.point(3);
    std::thread signaller([&] {
      usleep(static_cast<unsigned>(random_below(3000)));
      EXPECT_OK(session.tables().timeline.signal(done.timeline, 3));
    });
    Result result = session.wait(done);
    signaller.join();
    REQUIRE(result.ok(), "a wait for a signal from another thread returned %s", result.text().c_str());
  }
}

void waits_across_queues() {
  Session session;
  heddle_queue_t* other = session.other_queue();
  const uint64_t size = session.fitting(100000);
  heddle_buffer_t* a = session.buffer(size);
  heddle_buffer_t* b = session.buffer(size);
  const std::vector<char> ones(size, 1);
  for (int i = 0; i < 5; ++i) {
    const heddle_point_t busy = session.point(), filled = session.point(), copied = session.point();
    List clear, fill, copy;
    session.run(clear.fill(a, 0, size, 0, 1).fill(b, 0, size, 0, 1));
    session.keep_busy(busy);
    // The wait is enqueued long before the work that it waits for has finished.
    REQUIRE_OK(session.submit(fill.fill(a, 0, size, 1, 1), {busy}, {filled}).release());
    REQUIRE_OK(session.submit(copy.copy(a, 0, b, 0, size), {filled}, {copied}, other).release());
    session.reach(copied);
    CHECK(session.download(b, 0, size) == ones, "a copy on another queue did not wait for the fill before it [HD-Q-01]");
  }
}

void signals_come_last() {
  Session session;
  const uint64_t size = session.fitting(4 << 20);
  heddle_buffer_t* buffer = session.buffer(size, session.has_memory(HEDDLE_MEMORY_HOST_VISIBLE) ? HEDDLE_MEMORY_HOST_VISIBLE : 0u);
  for (int i = 1; i <= 20; ++i) {
    const heddle_point_t done = session.point();
    List list;
    list.fill(buffer, 0, size, 0, 1).barrier().fill(buffer, 0, size, static_cast<uint64_t>(i), 1);
    REQUIRE_OK(session.submit(list, {}, {done}).release());
    session.reach(done);
    const std::vector<char> bytes = session.download(buffer, 0, size);
    CHECK(bytes[size - 1] == static_cast<char>(i) && bytes[0] == static_cast<char>(i),
          "a signal was reached before the work had finished [HD-Q-06]");
    if (!session.has_memory(HEDDLE_MEMORY_HOST_VISIBLE)) continue;
    void* mapped = nullptr;
    const heddle_point_t again = session.point();
    List more;
    REQUIRE_OK(session.submit(more.fill(buffer, 0, size, 77, 1), {}, {again}).release());
    session.reach(again);
    REQUIRE_OK(session.tables().buffer.map(buffer, 0, size, HEDDLE_MAP_READ, &mapped));
    EXPECT_OK(session.tables().buffer.invalidate(buffer, 0, size));
    CHECK(static_cast<char*>(mapped)[size - 1] == 77, "a signal was reached before the host could see the work [HD-Q-06]");
    EXPECT_OK(session.tables().buffer.unmap(buffer));
  }
}

void downloads_are_over() {
  Session session;
  const uint64_t size = session.fitting(2 << 20);
  heddle_buffer_t* buffer = session.buffer(size);
  List list;
  session.run(list.fill(buffer, 0, size, 9, 1));
  for (int i = 0; i < 20; ++i) {
    std::vector<char> bytes(size, 0);
    const heddle_point_t done = session.point();
    const std::vector<heddle_point_t> signals = {done};
    const heddle_sync_t sync = session.sync({}, signals);
    const heddle_binding_t source = {buffer, 0, size};
    REQUIRE_OK(session.tables().transfer.download(session.queue, &sync, &source, bytes.data()));
    session.reach(done);
    CHECK(bytes[0] == 9 && bytes[size - 1] == 9, "a download's signal was reached before all bytes had arrived [HD-Q-06]");
  }
}

void enqueue_does_not_block() {
  Session session;
  const heddle_point_t first = session.point();
  session.keep_busy(first);  // also measures, so that the others have the right duration
  session.reach(first);
  uint64_t submitted = 0, took = 0;
  // A driver that blocks does so each time; another may be delayed by other work on the machine.
  for (int attempt = 0; attempt < 10;) {
    const heddle_point_t busy = session.point();
    const uint64_t start = now_ns();
    session.keep_busy(busy);
    submitted = now_ns() - start;
    session.reach(busy);
    took = now_ns() - start;
    if (took < 4000000) {
      // The work was measured while other work delayed it.
      if (!session.keep_busy_longer()) absent("the longest work finishes too soon to see the difference");
      continue;
    }
    if (submitted < took / 2) return;
    ++attempt;
  }
  CHECK(false, "submit took %llu us of the %llu us that its work took [HD-T-01]", number(submitted / 1000), number(took / 1000));
}

void many_points() {
  Session session;
  std::vector<heddle_point_t> points;
  for (uint64_t i = 0; i < 100; ++i) points.push_back({session.timeline(), i + 1});
  std::vector<heddle_point_t> shuffled = points;
  std::shuffle(shuffled.begin(), shuffled.end(), random_numbers());
  std::thread signaller([&] {
    for (const heddle_point_t& point : shuffled) {
      EXPECT_OK(session.tables().timeline.signal(point.timeline, point.value));
      usleep(50);
    }
  });
  Result result = wait_for(session, points, HEDDLE_WAIT_ALL);
  signaller.join();
  CHECK(result.ok(), "waiting for 100 points returned %s", result.text().c_str());
  const std::vector<heddle_point_t> signals = {session.point(), session.point(), session.point(9)};
  REQUIRE_OK(session.submit(List(), points, signals).release());
  EXPECT_OK(wait_for(session, signals, HEDDLE_WAIT_ALL).release());  // each, before its timeline is destroyed: signals come in any order
}

void destroyed_at_once() {
  Session session;
  for (int i = 0; i < 1000; ++i) {
    const heddle_point_t done = session.point();
    REQUIRE_OK(session.submit(List(), {}, {done}).release());
    session.reach(done);
    session.destroy(done.timeline);  // allowed as soon as the wait has shown the point
  }
}

struct Notified {
  std::atomic<int> calls{0};
  std::atomic<uint32_t> code{0};
  Session* session = nullptr;
  heddle_point_t then{}, next{};
  static void note(void* context, const heddle_status_t* failure) {
    auto* self = static_cast<Notified*>(context);
    const heddle_host_t* host = self->session->instance.host.table();
    self->code = host->status_code(host->self, failure);
    // A callback may submit and signal.
    if (self->then.timeline) EXPECT_OK(self->session->submit(List(), {}, {self->then}).release());
    if (self->next.timeline) EXPECT_OK(self->session->tables().timeline.signal(self->next.timeline, self->next.value));
    ++self->calls;
  }
  void expect(int times, const char* what) {
    for (int i = 0; i < 2000 && calls < times; ++i) usleep(1000);
    usleep(2000);
    REQUIRE(calls == times, "%s called its function %d times; %d was expected", what, calls.load(), times);
  }
};

void notify(Session& session, heddle_point_t point, Notified* notified) {
  notified->session = &session;
  Result status(session.tables().timeline.notify(point.timeline, point.value, Notified::note, notified));
  REQUIRE(status.ok(), "heddle.timeline/1 notify returned %s; success was expected: the host uses it in every call in several pieces",
          status.text().c_str());
}

void notifications() {
  Session session;
  Notified pending, reached, failed, work;
  const heddle_point_t point = session.point(5), poisoned = session.point(), submitted = session.point();
  notify(session, point, &pending);
  EXPECT_OK(session.tables().timeline.signal(point.timeline, 4));
  pending.expect(0, "a notification for 5 at 4");
  EXPECT_OK(session.tables().timeline.signal(point.timeline, 5));
  pending.expect(1, "a notification");
  CHECK(pending.code == HEDDLE_STATUS_OK, "a notification of a reached point has a failure");
  EXPECT_OK(session.tables().timeline.signal(point.timeline, 6));
  pending.expect(1, "a notification");
  notify(session, point, &reached);
  reached.expect(1, "a notification for a point that was reached before");
  notify(session, poisoned, &failed);
  session.tables().timeline.fail(poisoned.timeline, 1, make_status(HEDDLE_STATUS_ABORTED, "the kit failed it"));
  failed.expect(1, "a notification for a point that fails");
  CHECK(failed.code == HEDDLE_STATUS_ABORTED, "a notification of a failed point has %s; ABORTED was expected",
        code_name(failed.code).c_str());
  Notified late, chained, behind;
  notify(session, poisoned, &late);
  late.expect(1, "a notification for a point that failed before");
  CHECK(late.code == HEDDLE_STATUS_ABORTED, "a notification for a point that failed before has %s; ABORTED was expected",
        code_name(late.code).c_str());
  const heddle_point_t own = session.point();
  chained.next = {own.timeline, 2};
  notify(session, own, &chained);
  notify(session, chained.next, &behind);
  EXPECT_OK(session.tables().timeline.signal(own.timeline, 1));
  chained.expect(1, "a notification whose function signals its own timeline");
  session.reach(chained.next);
  behind.expect(1, "a notification for a value that another one signalled");
  work.then = session.point();
  notify(session, submitted, &work);
  REQUIRE_OK(session.submit(List(), {}, {submitted}).release());
  work.expect(1, "a notification of work");
  session.reach(work.then);
}

void unknown_handle_kinds() {
  Session session;
  heddle_timeline_t* timeline = session.timeline();
  uint64_t handle = 1;
  EXPECT_CODE(session.tables().timeline.export_handle(timeline, string_of("no-such-kind"), &handle), HEDDLE_STATUS_UNIMPLEMENTED);
  heddle_timeline_t* imported = nullptr;
  EXPECT_CODE(session.tables().timeline.import_handle(session.device, string_of("no-such-kind"), 1, &imported),
              HEDDLE_STATUS_UNIMPLEMENTED);
}

}  // namespace

void add_timeline_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"timeline.initial_value", "a timeline starts at its initial value, at most 2^62-1 [HD-Q-09]", initial_values, Kind::kDriver},
       {"timeline.host_signal", "the host signals, and waits and queries see it [HD-Q-09]", host_signals, Kind::kDriver},
       {"timeline.only_grows", "a signal that does not grow, or ends beyond 2^62-1, is refused [HD-Q-09]", values_only_grow, Kind::kDriver},
       {"timeline.bad_points", "points without a timeline and missing arrays are INVALID_ARGUMENT", bad_points, Kind::kDriver},
       {"timeline.any_all", "a wait for any and a wait for all", any_and_all, Kind::kDriver},
       {"timeline.timeout", "a timeout is observed and changes nothing [HD-Q-09]", timeouts, Kind::kDriver},
       {"timeline.wakes", "a signal wakes a thread that waits [HD-Q-09]", wakes_a_thread, Kind::kDriver},
       {"timeline.across_queues", "a wait that is enqueued first sees the work that it waits for", waits_across_queues, Kind::kDriver},
       {"timeline.signals_last", "a signal is reached after the work, visibly to the host", signals_come_last, Kind::kDriver},
       {"timeline.download_over", "a download's signal is reached after its bytes have arrived", downloads_are_over, Kind::kDriver},
       {"timeline.no_block", "enqueueing does not wait for the enqueued work", enqueue_does_not_block, Kind::kDriver},
       {"timeline.many_points", "100 points in one wait, and in one submission", many_points, Kind::kDriver},
       {"timeline.destroyed_at_once", "a timeline may be destroyed as soon as a wait has shown its point", destroyed_at_once,
        Kind::kDriver},
       {"timeline.notify", "a notification comes exactly once, reached or failed, and may submit [HD-T-03]", notifications, Kind::kDriver},
       {"timeline.handle_kinds", "unknown kinds of handles are UNIMPLEMENTED", unknown_handle_kinds, Kind::kDriver}});
}

}  // namespace heddle::conformance
