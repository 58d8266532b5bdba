// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: failures of work, of the device, and of memory.
#include <algorithm>
#include <cstring>

#include "session.h"

namespace heddle::conformance {
namespace {

heddle_status_t* kit_failure(const char* text = "the kit failed it") {
  return make_status(HEDDLE_STATUS_ABORTED, text);
}

void the_first_sticks() {
  Session session;
  heddle_timeline_t* timeline = session.timeline(2);
  const heddle_timeline_interface_t& api = session.tables().timeline;
  api.fail(timeline, 5, kit_failure("the first failure"));
  api.fail(timeline, 5, kit_failure("the second failure"));
  api.fail(timeline, 9, kit_failure("the third failure"));
  for (uint64_t value : {5, 6, 1000}) {
    Result result = session.wait({timeline, value});
    CHECK(result.code() == HEDDLE_STATUS_ABORTED, "a wait for %llu of a timeline that failed from 5 on returned %s; ABORTED was expected",
          number(value), result.text().c_str());
    CHECK(result.message().find("the first failure") != std::string::npos, "a waiter sees '%s' instead of the first failure [HD-S-02]",
          result.message().c_str());
  }
  // A failure of a lower value poisons from there on; waiters still see the first failure.
  api.fail(timeline, 4, kit_failure("the fourth failure"));
  Result lower = session.wait({timeline, 4}, 1000000000);
  CHECK(lower.code() == HEDDLE_STATUS_ABORTED && lower.message().find("the first failure") != std::string::npos,
        "a wait for 4 of a timeline that failed from 5 on, then from 4 on, returned %s [HD-S-02]", lower.text().c_str());
  EXPECT_CODE(session.wait({timeline, 3}, 0).release(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  uint64_t reached = 0;
  Result queried(api.query(timeline, &reached));
  CHECK(queried.code() == HEDDLE_STATUS_ABORTED && reached == 2,
        "query of a failed timeline returned %s and %llu; the failure and 2 were expected", queried.text().c_str(), number(reached));
  session.reach({timeline, 2});
  Result signalled(api.signal(timeline, 6));
  CHECK(!signalled.ok(), "a signal went past a failure [HD-S-02]");
}

void reached_stays_reached() {
  Session session;
  heddle_timeline_t* timeline = session.timeline(7);
  session.tables().timeline.fail(timeline, 3, kit_failure());
  session.reach({timeline, 7});
  EXPECT_CODE(session.wait({timeline, 8}, 0).release(), HEDDLE_STATUS_ABORTED);
}

void any_counts_reached_first() {
  Session session;
  const heddle_point_t failed = session.point(), reached = {session.timeline(1), 1};
  session.tables().timeline.fail(failed.timeline, 1, kit_failure());
  const heddle_point_t points[] = {failed, reached};
  EXPECT_OK(session.tables().timeline.wait(points, 2, HEDDLE_WAIT_ANY, 0));
  EXPECT_CODE(session.tables().timeline.wait(points, 2, HEDDLE_WAIT_ALL, 0), HEDDLE_STATUS_ABORTED);
}

void a_failure_wakes() {
  Session session;
  const heddle_point_t point = session.point();
  std::thread failer([&] {
    usleep(5000);
    session.tables().timeline.fail(point.timeline, 1, kit_failure());
  });
  Result result = session.wait(point);
  failer.join();
  CHECK(result.code() == HEDDLE_STATUS_ABORTED, "a thread that waited when its point failed saw %s", result.text().c_str());
}

void failures_travel() {
  Session session;
  const heddle_point_t poisoned = session.point(), first = session.point(), beside = session.point(3), second = session.point();
  session.tables().timeline.fail(poisoned.timeline, 1, kit_failure("the kit's own words"));
  heddle_buffer_t* buffer = session.buffer(64);
  List list, behind;
  REQUIRE_OK(session.submit(list.fill(buffer, 0, 64, 1, 1), {poisoned}, {first, beside}).release());
  REQUIRE_OK(session.submit(behind.fill(buffer, 0, 64, 2, 1), {first}, {second}, session.other_queue_or_first()).release());
  Result result = session.wait(second);
  CHECK(result.code() == HEDDLE_STATUS_ABORTED, "work after a failed wait returned %s; its failure was expected [HD-S-02]",
        result.text().c_str());
  CHECK(result.message().find("the kit's own words") != std::string::npos, "a propagated failure lost its text: %s",
        result.message().c_str());
  Result also = session.wait(beside);
  CHECK(also.code() == HEDDLE_STATUS_ABORTED, "the second signal of work that failed returned %s [HD-S-02]", also.text().c_str());
  // It affects no other work.
  session.run(List());
}

void failed_transfers() {
  Session session;
  const heddle_point_t poisoned = session.point();
  session.tables().timeline.fail(poisoned.timeline, 1, kit_failure());
  heddle_buffer_t* buffer = session.buffer(64);
  char bytes[64] = {};
  const heddle_binding_t binding = {buffer, 0, 64};
  const std::vector<heddle_point_t> waits = {poisoned}, up = {session.point()}, down = {session.point()};
  const heddle_sync_t first = session.sync(waits, up), second = session.sync(waits, down);
  REQUIRE_OK(session.tables().transfer.upload(session.queue, &first, bytes, &binding));
  EXPECT_CODE(session.wait(up[0]).release(), HEDDLE_STATUS_ABORTED);
  REQUIRE_OK(session.tables().transfer.download(session.queue, &second, &binding, bytes));
  EXPECT_CODE(session.wait(down[0]).release(), HEDDLE_STATUS_ABORTED);
}

// Adds fills of the whole buffer that take about this long, each after a barrier.
void add_long_work(Session& session, heddle_buffer_t* buffer, uint64_t size, uint64_t duration_ns, List* list) {
  uint64_t shortest = UINT64_MAX;  // of one fill; the first also touches the memory
  for (int i = 0; i < 3; ++i) {
    List once;
    const uint64_t start = now_ns();
    session.run(once.fill(buffer, 0, size, 0, 1));
    shortest = std::min(shortest, now_ns() - start);
  }
  const uint64_t count = std::clamp<uint64_t>(duration_ns / std::max<uint64_t>(shortest, 1), 4, 1024);
  for (uint64_t i = 1; i <= count; ++i) list->barrier().fill(buffer, 0, size, i, 1);
}

// Commands after a failing kernel in its list may run or not, but not after the signal has reported the failure.
void nothing_runs_on(Session& session, const Kernels& kernels) {
  if (!session.has_memory(HEDDLE_MEMORY_HOST_VISIBLE)) return;
  const uint64_t size = session.fitting(8 << 20);
  heddle_buffer_t* buffer = session.buffer(size, HEDDLE_MEMORY_HOST_VISIBLE);
  List list;
  list.dispatch(kernels, "fail", {{buffer, 0, 64}}, {}, 1);
  add_long_work(session, buffer, size, 150000000, &list);
  const heddle_point_t done = session.point();
  REQUIRE_OK(session.submit(list, {}, {done}).release());
  Result told = session.wait(done);
  CHECK(!told.ok(), "a list whose first kernel failed returned success");
  const heddle_buffer_interface_t& api = session.tables().buffer;
  void* memory = nullptr;
  REQUIRE_OK(api.map(buffer, 0, size, HEDDLE_MAP_READ, &memory));
  const volatile char* bytes = static_cast<char*>(memory);
  EXPECT_OK(api.invalidate(buffer, 0, size));
  const char first = bytes[0], last = bytes[size - 1];
  usleep(30000);
  EXPECT_OK(api.invalidate(buffer, 0, size));
  CHECK(bytes[0] == first && bytes[size - 1] == last, "a list went on writing after its signal had failed [HD-Q-06]");
  EXPECT_OK(api.unmap(buffer));
}

void kernels_fail() {
  Session session;
  Kernels kernels(&session);
  heddle_buffer_t* buffer = session.buffer(64);
  List list;
  list.dispatch(kernels, "fail", {{buffer, 0, 64}}, {}, 1);
  const heddle_point_t done = session.point(), behind = session.point();
  Result submitted = session.submit(list, {}, {done});
  REQUIRE(submitted.ok(), "submitting a kernel that will fail returned %s; a failure while it runs fails the signal",
          submitted.text().c_str());
  Result result = session.wait(done);
  CHECK(result.code() != HEDDLE_STATUS_OK && result.code() != HEDDLE_STATUS_DEADLINE_EXCEEDED, "a failing kernel's signal returned %s",
        result.text().c_str());
  CHECK(result.message().find("fail") != std::string::npos, "the failure does not name the kernel: %s", result.message().c_str());
  CHECK(result.payload("region") == "4711", "the failure's payload 'region' is '%s'; 4711 was expected", result.payload("region").c_str());
  REQUIRE_OK(session.submit(List(), {done}, {behind}).release());
  EXPECT_CODE(session.wait(behind).release(), result.code());
  nothing_runs_on(session, kernels);
  session.run(List());
}

void lost_devices() {
  Session session;
  const bool must_end = session.description.features & HEDDLE_DEVICE_FAULT_ENDS_PROCESS;
  auto kernels = std::make_unique<Kernels>(&session);
  heddle_buffer_t* buffer = session.buffer(64);
  const heddle_point_t before = session.point();
  heddle_buffer_t* mapped = session.has_memory(HEDDLE_MEMORY_HOST_VISIBLE) ? session.buffer(64, HEDDLE_MEMORY_HOST_VISIBLE) : nullptr;
  List list, behind;
  list.dispatch(*kernels, "lose", {{buffer, 0, 64}}, {}, 1);
  const uint64_t size = session.fitting(8 << 20);
  heddle_buffer_t* large = session.buffer(size);
  add_long_work(session, large, size, 400000000, &behind);
  const heddle_point_t busy = session.point(), lost = session.point(), after = session.point();
  session.keep_busy(busy);  // so that both are enqueued before the loss
  if (must_end) expect_end("a fault of a kernel ends the process, as the driver says by HEDDLE_DEVICE_FAULT_ENDS_PROCESS");
  REQUIRE_OK(session.submit(list, {busy}, {lost}).release());
  Result enqueued = session.submit(behind, {busy}, {after});
  Result result = session.wait(lost);
  REQUIRE(!must_end,
          "the driver says by HEDDLE_DEVICE_FAULT_ENDS_PROCESS that a fault of a kernel ends the process; it did not end, and the wait "
          "returned %s",
          result.text().c_str());
  uint64_t over = 0;
  Result(session.tables().timeline.query(after.timeline, &over));
  if (enqueued.ok()) {
    // Work that had finished before the loss may be reported so; nothing is reached after it.
    Result rest = session.wait(after);
    if (result.code() == HEDDLE_STATUS_DEVICE_LOST && over < after.value)
      CHECK(rest.code() == HEDDLE_STATUS_DEVICE_LOST, "work that was enqueued before a loss and had not finished returned %s [HD-S-02]",
            rest.text().c_str());
  }
  if (result.code() != HEDDLE_STATUS_DEVICE_LOST) absent("none of the kit's kernels loses this device: %s", result.text().c_str());
  const Tables& tables = session.tables();
  heddle_buffer_params_t params = {sizeof params, 0, 64, 0};
  heddle_buffer_t* more = nullptr;
  EXPECT_CODE(tables.buffer.allocate(session.device, &params, &more), HEDDLE_STATUS_DEVICE_LOST);
  EXPECT_CODE(session.submit(List(), {}, {before}).release(), HEDDLE_STATUS_DEVICE_LOST);
  heddle_queue_t* queue = nullptr;
  heddle_queue_params_t queue_params = {sizeof queue_params, 0};
  EXPECT_CODE(tables.device.queue_create(session.device, &queue_params, &queue), HEDDLE_STATUS_DEVICE_LOST);
  const KernelSet set = kernels->set();
  const std::vector<heddle_entry_params_t> entries = Kernels::params_of(set);
  const heddle_executable_params_t code = Kernels::executable_of(set, entries);
  heddle_executable_t* executable = nullptr;
  EXPECT_CODE(tables.dispatch.executable_load(session.device, &code, &executable), HEDDLE_STATUS_DEVICE_LOST);
  heddle_timeline_t* timeline = nullptr;
  EXPECT_CODE(tables.timeline.create(session.device, 0, &timeline), HEDDLE_STATUS_DEVICE_LOST);
  const heddle_binding_t binding = {buffer, 0, 64};
  const std::vector<heddle_point_t> signals = {before};
  const heddle_sync_t sync = session.sync({}, signals);
  char bytes[64] = {};
  EXPECT_CODE(tables.transfer.upload(session.queue, &sync, bytes, &binding), HEDDLE_STATUS_DEVICE_LOST);
  EXPECT_CODE(tables.transfer.download(session.queue, &sync, &binding, bytes), HEDDLE_STATUS_DEVICE_LOST);
  TemporaryFile file(random_bytes(64));
  heddle_file_t* opened = nullptr;
  EXPECT_CODE(tables.param_io.file_open(session.device, file.descriptor, HEDDLE_FILE_READ, string_of("f"), &opened),
              HEDDLE_STATUS_DEVICE_LOST);
  if (mapped) {
    void* memory = nullptr;
    EXPECT_CODE(tables.buffer.map(mapped, 0, 64, HEDDLE_MAP_READ, &memory), HEDDLE_STATUS_DEVICE_LOST);
  }
  // Releases must succeed; the end of the session makes them. A new device works, or reports what must happen first.
  Result failure(nullptr);
  heddle_device_t* again = open_device(&session.instance, 0, &failure);
  CHECK(again || failure.code() == HEDDLE_STATUS_UNAVAILABLE,
        "opening a lost device again returned %s; success or UNAVAILABLE was expected", failure.text().c_str());
  if (again) {
    CHECK(Result(tables.buffer.allocate(again, &params, &more)).ok(), "the device that was opened after a loss does not work");
    if (more) tables.buffer.free(more);
    EXPECT_OK(tables.device.close(again));
  }
}

// A short complete use, in which every call may fail for lack of memory only. True if all calls succeeded.
bool small_life(Instance* instance) {
  bool whole = true;
  auto may_fail = [&](const char* what, heddle_status_t* status) {
    Result result(status);
    CHECK(result.ok() || result.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED,
          "%s without memory returned %s; RESOURCE_EXHAUSTED was expected", what, result.text().c_str());
    whole = whole && result.ok();
    return result.ok();
  };
  const Tables& tables = instance->tables;
  heddle_device_open_params_t open = {sizeof open, 0, &instance->api, {nullptr, 0}, -1, 0};
  heddle_device_t* device = nullptr;
  if (!may_fail("open", tables.device.open(instance->handle, 0, &open, &device))) return false;
  heddle_queue_params_t queue_params = {sizeof queue_params, 0};
  heddle_queue_t* queue = nullptr;
  heddle_buffer_params_t buffer_params = {sizeof buffer_params, 0, 4096, 0};
  heddle_buffer_t* buffer = nullptr;
  heddle_timeline_t* timeline = nullptr;
  if (may_fail("queue_create", tables.device.queue_create(device, &queue_params, &queue)) &&
      may_fail("allocate", tables.buffer.allocate(device, &buffer_params, &buffer)) &&
      may_fail("create", tables.timeline.create(device, 0, &timeline))) {
    List list;
    list.fill(buffer, 0, 4096, 1, 1).barrier().copy(buffer, 0, buffer, 2048, 1024);
    const heddle_point_t signal = {timeline, 1};
    const heddle_submission_t submission = {sizeof submission,
                                            static_cast<uint32_t>(list.commands.size()),
                                            list.commands.data(),
                                            {sizeof(heddle_sync_t), 0, 1, 0, nullptr, &signal}};
    if (may_fail("submit", tables.dispatch.submit(queue, &submission))) {
      may_fail("wait", tables.timeline.wait(&signal, 1, HEDDLE_WAIT_ALL, patience_ns()));
    }
  }
  if (queue) EXPECT_OK(tables.device.queue_destroy(queue));
  if (timeline) tables.timeline.destroy(timeline);
  if (buffer) tables.buffer.free(buffer);
  EXPECT_OK(tables.device.close(device));
  return whole;
}

void out_of_memory_in_a_life() {
  Instance instance;
  const int64_t before = instance.host.live_memory();
  if (!small_life(&instance)) return;
  int64_t at = 0;
  bool whole = false;
  for (; !whole && at < 500 && !failed(); ++at) {
    instance.host.fail_allocation(at);
    whole = small_life(&instance) && !instance.host.has_failed_allocation();
    instance.host.fail_allocation(-1);
    CHECK(instance.host.live_memory() == before, "after the allocation number %lld failed, %lld pieces of host memory are left",
          static_cast<long long>(at), static_cast<long long>(instance.host.live_memory() - before));
  }
  if (at == 1) absent("it takes no memory from the host");
}

void out_of_memory_in_create() {
  Host host(settings().options);
  for (int64_t at = 0; at < 200 && !failed(); ++at) {
    host.fail_allocation(at);
    heddle_plugin_instance_t* instance = nullptr;
    Result status(plugin().table.create(host.table(), &instance));
    const bool injected = host.has_failed_allocation();
    host.fail_allocation(-1);
    CHECK(status.ok() || status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED,
          "create without memory returned %s; success or RESOURCE_EXHAUSTED was expected", status.text().c_str());
    CHECK(!status.ok() || instance, "create returned neither a status nor an instance");
    if (instance) EXPECT_OK(plugin().table.shutdown(instance));
    CHECK(host.live_memory() == 0, "a create that failed left host memory");
    if (!injected) return;
  }
}

void out_of_memory_in_a_load() {
  Session session;
  const KernelSet* set = Kernels::choose(&session);
  if (!set) absent("the device runs none of the kit's code formats; give it kernels in its own with conformance/kernels.toml");
  const std::vector<heddle_entry_params_t> entries = Kernels::params_of(*set);
  const heddle_executable_params_t params = Kernels::executable_of(*set, entries);
  const int64_t before = session.instance.host.live_memory();
  for (int64_t at = 0; at < 200 && !failed(); ++at) {
    session.instance.host.fail_allocation(at);
    heddle_executable_t* executable = nullptr;
    Result status(session.tables().dispatch.executable_load(session.device, &params, &executable));
    const bool injected = session.instance.host.has_failed_allocation();
    session.instance.host.fail_allocation(-1);
    CHECK(status.ok() || status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED,
          "executable_load without memory returned %s; success or RESOURCE_EXHAUSTED was expected", status.text().c_str());
    if (executable) session.tables().dispatch.executable_unload(executable);
    CHECK(session.instance.host.live_memory() == before, "an executable_load that failed left host memory");
    if (!injected) return;
  }
}

}  // namespace

void add_failure_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"failure.first_sticks", "the first failure of a timeline stays, for every waiter", the_first_sticks, Kind::kDriver},
       {"failure.reached_stays", "values that were reached before a failure stay reached", reached_stays_reached, Kind::kDriver},
       {"failure.any", "in a wait for any, a reached point takes precedence over a failed one", any_counts_reached_first, Kind::kDriver},
       {"failure.wakes", "a failure wakes a thread that waits", a_failure_wakes, Kind::kDriver},
       {"failure.travels", "a failure propagates through waits, with its code and text", failures_travel, Kind::kDriver},
       {"failure.transfers", "transfers after a failure fail with it", failed_transfers, Kind::kDriver},
       {"failure.kernel", "a failing kernel fails its signals, with its name and region, when its list has ended", kernels_fail,
        Kind::kDriver},
       {"failure.device_lost",
        "every handle of a lost device reports the loss, and can be released; or the process ends, if the driver says so", lost_devices,
        Kind::kDriver},
       {"failure.memory_in_create", "create survives every allocation that fails", out_of_memory_in_create, Kind::kAny},
       {"failure.memory_in_life", "open, allocate and submit survive every allocation that fails", out_of_memory_in_a_life, Kind::kDriver},
       {"failure.memory_in_load", "loading code survives every allocation that fails", out_of_memory_in_a_load, Kind::kDriver}});
}

}  // namespace heddle::conformance
