// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: lifetimes, and what is left behind at the end.
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "allocator_session.h"

namespace heddle::conformance {
namespace {

void shutdown_with_a_device() {
  Instance instance;
  heddle_device_t* device = open_device(&instance, 0, nullptr);
  Result status(plugin().table.shutdown(instance.handle));
  REQUIRE(status.code() == HEDDLE_STATUS_FAILED_PRECONDITION, "shutdown with an open device returned %s [HD-L-01]", status.text().c_str());
  CHECK(status.message().find('1') != std::string::npos || status.message().find("device") != std::string::npos,
        "the refusal does not list the live objects: %s [HD-L-01]", status.message().c_str());
  // The refusal changed nothing.
  heddle_buffer_params_t params = {sizeof params, 0, 64, 0};
  heddle_buffer_t* buffer = nullptr;
  EXPECT_OK(instance.tables.buffer.allocate(device, &params, &buffer));
  if (buffer) instance.tables.buffer.free(buffer);
  EXPECT_OK(instance.tables.device.close(device));
}

void close_with_children() {
  Instance instance;
  heddle_device_t* device = open_device(&instance, 0, nullptr);
  const Tables& tables = instance.tables;
  auto refused = [&](const char* child) {
    Result status(tables.device.close(device));
    REQUIRE(status.code() == HEDDLE_STATUS_FAILED_PRECONDITION, "closing a device with a %s returned %s [HD-L-01]", child,
            status.text().c_str());
    CHECK(status.message().find(child) != std::string::npos, "the refusal does not name the live %s: %s [HD-L-01]", child,
          status.message().c_str());
  };
  heddle_buffer_params_t params = {sizeof params, 0, 64, 0};
  heddle_buffer_t* buffer = nullptr;
  REQUIRE_OK(tables.buffer.allocate(device, &params, &buffer));
  refused("buffer");
  tables.buffer.free(buffer);
  heddle_timeline_t* timeline = nullptr;
  REQUIRE_OK(tables.timeline.create(device, 0, &timeline));
  refused("timeline");
  tables.timeline.destroy(timeline);
  heddle_queue_params_t queue_params = {sizeof queue_params, 0};
  heddle_queue_t* queue = nullptr;
  REQUIRE_OK(tables.device.queue_create(device, &queue_params, &queue));
  refused("queue");
  EXPECT_OK(tables.device.queue_destroy(queue));
  TemporaryFile file(random_bytes(10));
  heddle_file_t* opened = nullptr;
  REQUIRE_OK(tables.param_io.file_open(device, file.descriptor, HEDDLE_FILE_READ, string_of("f"), &opened));
  refused("file");
  tables.param_io.file_close(opened);
  EXPECT_OK(tables.device.close(device));
}

// The children whose creation needs a queue or kernels.
void close_with_work() {
  Session session;
  const Tables& tables = session.tables();
  auto refused = [&](const char* child) {
    Result status(tables.device.close(session.device));
    REQUIRE(status.code() == HEDDLE_STATUS_FAILED_PRECONDITION, "closing a device with a %s returned %s [HD-L-01]", child,
            status.text().c_str());
    CHECK(status.message().find(child) != std::string::npos, "the refusal does not name the live %s: %s [HD-L-01]", child,
          status.message().c_str());
  };
  if (session.description.features & HEDDLE_DEVICE_RECORDING) {
    List list;
    list.fill(session.buffer(64), 0, 64, 1, 1);
    const uint8_t dynamic = 0;
    heddle_recording_t* recording = nullptr;
    Result status(tables.dispatch.record(session.queue, list.commands.data(), 1, &dynamic, &recording));
    if (recording) {
      refused("recording");
      tables.dispatch.recording_free(recording);
    }
  }
  if (!Kernels::choose(&session)) return;
  Kernels kernels(&session);
  session.destroy_queue(session.queue);
  refused("executable");
}

void close_with_children_of_all_kinds() {
  close_with_children();
  close_with_work();
}

void destroy_a_busy_queue() {
  Session session;
  Result failure(nullptr);
  heddle_queue_t* queue = session.try_queue(&failure);
  if (!queue) queue = session.queue;
  const heddle_point_t busy = session.point();
  session.keep_busy(busy, queue);
  const uint64_t size = session.fitting(1 << 20);
  heddle_buffer_t* buffer = session.buffer(size);
  const heddle_point_t done = session.point();
  List list;
  REQUIRE_OK(session.submit(list.fill(buffer, 0, size, 0x21, 1), {busy}, {done}, queue).release());
  const heddle_point_t last = session.point();
  session.keep_busy(last, queue);  // long, to detect a queue that only waits for its beginning
  session.destroy_queue(queue);    // waits for all enqueued work
  for (const heddle_point_t& point : {last, done}) {
    Result now = session.wait(point, 0);
    CHECK(now.ok(), "after queue_destroy the signal of enqueued work returned %s", now.text().c_str());
  }
  if (queue == session.queue) session.queue = session.try_queue(&failure);
  CHECK(session.download(buffer, size - 1, 1)[0] == 0x21, "work that was enqueued on a destroyed queue was not done");
}

void work_pending_at_the_end() {
  for (int i = 0; i < 3; ++i) destroy_a_busy_queue();  // a thread that is late may miss it once
}

void instances_leave_nothing() {
  expect_no_growth("create and shutdown", 1000, uint64_t{15} * 1000000000, [] { Instance instance; });
}

void devices_leave_nothing() {
  for (int i = 0; i < 3; ++i) {
    const uint64_t threads = count_threads();
    {
      Instance instance;
      EXPECT_OK(instance.tables.device.close(open_device(&instance, 0, nullptr)));
    }
    for (int k = 0; k < 500 && count_threads() > threads; ++k) usleep(2000);  // a joined thread leaves the list a moment later
    CHECK(count_threads() <= threads,
          "%llu threads before a device was opened, %llu after it was closed and its instance shut down [HD-T-01]", number(threads),
          number(count_threads()));
  }
  Instance instance;
  expect_no_growth("open and close", 300, uint64_t{15} * 1000000000, [&] {
    heddle_device_t* device = open_device(&instance, 0, nullptr);
    heddle_queue_params_t queue_params = {sizeof queue_params, 0};
    heddle_queue_t* queue = nullptr;
    REQUIRE_OK(instance.tables.device.queue_create(device, &queue_params, &queue));
    EXPECT_OK(instance.tables.device.queue_destroy(queue));
    EXPECT_OK(instance.tables.device.close(device));
  });
}

void objects_leave_nothing() {
  Session session;
  const bool has_kernels = Kernels::choose(&session) != nullptr;
  const std::vector<char> bytes = random_bytes(70000);
  TemporaryFile file(bytes);
  expect_no_growth("allocate, submit, read a file, load and free", 500, uint64_t{15} * 1000000000, [&] {
    heddle_buffer_t* buffer = session.buffer(70000);
    List list;
    session.run(list.fill(buffer, 0, 70000, 1, 1));
    heddle_file_t* opened = nullptr;
    REQUIRE_OK(session.tables().param_io.file_open(session.device, file.descriptor, HEDDLE_FILE_READ, string_of("f"), &opened));
    const heddle_point_t done = session.point();
    const std::vector<heddle_point_t> signals = {done};
    const heddle_sync_t sync = session.sync({}, signals);
    const heddle_extent_t extent = {0, 70000, buffer, 0};
    REQUIRE_OK(session.tables().param_io.read(session.queue, &sync, opened, &extent, 1, nullptr));
    session.reach(done);
    session.tables().param_io.file_close(opened);
    session.destroy(done.timeline);
    session.free(buffer);
    if (has_kernels) Kernels kernels(&session);
  });
}

int child_of(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0, "forking failed");
  if (child == 0) {
    alarm(20);
    body();
    _exit(77);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

void exit_without_shutdown() {
  const int status = child_of([] {
    auto* session = new Session;
    auto* other = new Session;
    heddle_buffer_t* buffer = session->buffer(1000);
    List list;
    session->run(list.fill(buffer, 0, 1000, 1, 1));
    static std::vector<Session*> kept;  // reachable for leak checkers
    kept = {session, other};
    std::exit(0);
  });
  CHECK(!WIFSIGNALED(status), "exit with open devices ended in %s", strsignal(WTERMSIG(status)));
  CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "exit(0) with open devices ended with exit code %d", WEXITSTATUS(status));
}

void forked_children_do_nothing() {
  Session session;
  heddle_buffer_t* buffer = session.buffer(4096);
  heddle_timeline_t* timeline = session.timeline();
  const std::vector<char> bytes = random_bytes(4096);
  session.upload(buffer, 0, bytes.data(), 4096);
  // Directly through the plugin's own functions: the kit's checks must not help.
  const int status = child_of([&] {
    int wrong = 0;
    auto refused = [&](heddle_status_t* failure) {
      Result result(failure);
      if (result.code() != HEDDLE_STATUS_FAILED_PRECONDITION) ++wrong;
    };
    heddle_buffer_params_t params = {sizeof params, 0, 64, 0};
    heddle_buffer_t* made = nullptr;
    refused(session.tables().buffer.allocate(session.device, &params, &made));
    heddle_queue_params_t queue_params = {sizeof queue_params, 0};
    heddle_queue_t* queue = nullptr;
    refused(session.tables().device.queue_create(session.device, &queue_params, &queue));
    heddle_device_open_params_t open = {sizeof open, 0, &session.instance.api, {nullptr, 0}, -1, 0};
    heddle_device_t* device = nullptr;
    refused(session.tables().device.open(session.instance.handle, 0, &open, &device));
    refused(session.submit(List(), {}, {{timeline, 1}}).release());
    refused(session.tables().timeline.signal(timeline, 1));
    uint64_t reached = 0;
    refused(session.tables().timeline.query(timeline, &reached));
    refused(session.wait({timeline, 1}, 200000000).release());
    session.tables().buffer.free(buffer);
    session.tables().timeline.destroy(timeline);
    _exit(wrong);
  });
  CHECK(!WIFSIGNALED(status), "a call in a forked child ended in %s [HD-T-01]", strsignal(WTERMSIG(status)));
  CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "%d of 7 calls in a forked child were not FAILED_PRECONDITION [HD-T-01]",
        WEXITSTATUS(status));
  CHECK(session.download(buffer, 0, 4096) == bytes, "a release in a forked child took the buffer from its parent [HD-T-01]");
}

void use_it() {
  heddle_probe_result_t probed = {};
  probed.struct_size = sizeof probed;
  {
    Instance instance;
    Result ignored(plugin().table.probe(instance.host.table(), &probed));  // plugin.probe is about what it says
  }
  if (plugin().is_driver()) {
    Session session;
    const std::vector<char> bytes = random_bytes(70000);
    heddle_buffer_t* buffer = session.buffer(70000);
    session.upload(buffer, 0, bytes.data(), 70000);
    List list;
    session.run(list.fill(buffer, 0, 1000, 1, 1));
    CHECK(std::equal(bytes.begin() + 1000, bytes.end(), session.download(buffer, 0, 70000).begin() + 1000), "bytes came back changed");
    if (Kernels::choose(&session)) Kernels kernels(&session);
  }
  if (plugin().is_allocator()) {
    Allocator allocator;
    heddle_block_t block = {};
    REQUIRE_OK(allocator.try_allocate(1000, 64, &block).release());
    allocator.api().free(allocator.handle, &block, nullptr, 0);
  }
}

void expect_unloaded() {
  unload_plugin();
  REQUIRE(!is_mapped(),
          "its library stays mapped when it is unloaded: it has a thread-local object with a destructor, a symbol that is unique in a "
          "process (STB_GNU_UNIQUE), or the flag NODELETE; correct it, or remove load.unloadable from the manifest [HD-L-02]");
}

// As the host does: once its last instance is shut down. A thread or a handler that is still in it crashes.
void it_can_be_unloaded() {
  auto use_and_look = [] {
    const uint64_t threads = count_threads();
    use_it();
    for (int i = 0; i < 500 && count_threads() > threads; ++i) usleep(2000);
    REQUIRE(count_threads() <= threads,
            "%llu threads before it was used, %llu after it was shut down: they run code that is about to be unloaded [HD-T-01]",
            number(threads), number(count_threads()));
    const uint64_t handlers = count_exit_handlers();
    REQUIRE(handlers == 0,
            "it has %llu functions that run when it is unloaded, or when the process ends: of atexit, or of static objects with a "
            "destructor; do that "
            "work in shutdown [HD-L-02]",
            number(handlers));
  };
  use_it();  // resources that a vendor library keeps are not the plugin's
  use_and_look();
  expect_unloaded();
  expect_no_growth("load, use, shutdown and unload", 50, uint64_t{20} * 1000000000, [&] {
    use_and_look();
    expect_unloaded();
  });
}

// A thread that used it ends, and then the process, after its code is unloaded.
void nothing_runs_after_unloading() {
  const int status = child_of([] {
    std::atomic<int> step{0};
    std::thread user([&] {
      use_it();
      step = 1;
      while (step != 2) usleep(1000);
    });
    while (step != 1) usleep(1000);
    expect_unloaded();
    step = 2;
    user.join();
    usleep(100000);
    std::exit(failed() ? 1 : 0);
  });
  CHECK(!WIFSIGNALED(status),
        "after it was unloaded a thread that had used it, or the process, ended in %s: something still calls its code [HD-L-02]",
        strsignal(WTERMSIG(status)));
  CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "the process that unloaded it ended with exit code %d", WEXITSTATUS(status));
}

// A signal to the process runs its handler in any thread that does not block it: in a plugin's thread, application code would run unexpectedly.
void signals_stay_out() {
  const std::set<std::string> before = thread_ids();
  Session session;
  for (const std::string& library : loaded_libraries()) {
    const bool is_its_own = settings().library.ends_with("/" + library) || is_of_the_system(library);
    if (!plugin().libraries_before.count(library) && !is_its_own)
      absent("threads of %s, which it opens, cannot be distinguished from its own", library.c_str());
  }
  heddle_buffer_t* buffer = session.buffer(4096);
  List list;
  session.run(list.fill(buffer, 0, 4096, 1, 1));
  for (int look = 0; look < 10; ++look) {
    usleep(2000);  // the C library blocks all signals in a new thread until it has begun
    for (const std::string& thread : thread_ids()) {
      const uint64_t blocked = before.count(thread) ? UINT64_MAX : blocked_signals(thread);
      for (int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD}) {
        REQUIRE(blocked >> (signal - 1) & 1, "a thread of the plugin does not block signal %d, %s, whose handler may run in it [HD-T-02]",
                signal, strsignal(signal));
      }
    }
  }
}

void null_releases() {
  Session session;
  EXPECT_OK(session.tables().device.close(nullptr));
  EXPECT_OK(session.tables().device.queue_destroy(nullptr));
  session.tables().dispatch.recording_free(nullptr);
  session.tables().buffer.free(nullptr);
  session.tables().timeline.destroy(nullptr);
  session.tables().dispatch.executable_unload(nullptr);
  session.tables().param_io.file_close(nullptr);
}

}  // namespace

void add_lifetime_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"lifetime.shutdown_with_a_device", "shutdown with an open device is refused and changes nothing", shutdown_with_a_device,
        Kind::kDriver},
       {"lifetime.close_with_children", "closing a device with live children is refused, and names them", close_with_children_of_all_kinds,
        Kind::kDriver},
       {"lifetime.work_pending", "destroying a queue waits for its work", work_pending_at_the_end, Kind::kDriver},
       {"lifetime.instances", "1000 times create and shutdown leave nothing behind", instances_leave_nothing, Kind::kAny},
       {"lifetime.devices", "opening and closing devices leaves nothing behind", devices_leave_nothing, Kind::kDriver},
       {"lifetime.objects", "buffers, work, files and executables leave nothing behind", objects_leave_nothing, Kind::kDriver},
       {"lifetime.exit", "a process may exit without closing and shutting down [HD-L-02]", exit_without_shutdown, Kind::kDriver, true},
       {"lifetime.forked_child", "in a forked child calls are FAILED_PRECONDITION and releases do nothing", forked_children_do_nothing,
        Kind::kDriver},
       {kUnloadCases[0], "it can be loaded, used, shut down and unloaded 50 times, and leaves nothing behind", it_can_be_unloaded,
        Kind::kAny, true},
       {kUnloadCases[1], "after it is unloaded, threads that used it end without a crash, and so does the process",
        nothing_runs_after_unloading, Kind::kAny, true},
       {"lifetime.signals", "threads of the plugin block the signals that are sent to the process", signals_stay_out, Kind::kDriver},
       {"lifetime.null", "releasing NULL does nothing", null_releases, Kind::kDriver}});
}

}  // namespace heddle::conformance
