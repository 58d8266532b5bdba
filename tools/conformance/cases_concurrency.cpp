// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: several threads, many queues, two plugins. Run them under ThreadSanitizer, too.
#include <algorithm>
#include <cstring>
#include <functional>

#include "session.h"

namespace heddle::conformance {
namespace {

constexpr int kThreads = 8;

void in_threads(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

void creating_and_destroying() {
  Session session;
  const Tables& tables = session.tables();
  in_threads([&](int number) {
    for (int i = 0; i < 50; ++i) {
      heddle_buffer_params_t params = {sizeof params, 0, static_cast<uint64_t>(1 + number * 1000 + i), 0};
      heddle_buffer_t* buffer = nullptr;
      REQUIRE_OK(tables.buffer.allocate(session.device, &params, &buffer));
      heddle_timeline_t* timeline = nullptr;
      REQUIRE_OK(tables.timeline.create(session.device, 0, &timeline));
      heddle_queue_params_t queue_params = {sizeof queue_params, 0};
      heddle_queue_t* queue = nullptr;
      Result made(tables.device.queue_create(session.device, &queue_params, &queue));
      REQUIRE(made.ok() || made.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED,
              "queue_create returned %s; success or RESOURCE_EXHAUSTED was expected", made.text().c_str());
      if (queue) EXPECT_OK(tables.device.queue_destroy(queue));
      EXPECT_OK(tables.timeline.signal(timeline, 1));
      tables.timeline.destroy(timeline);
      tables.buffer.free(buffer);
    }
  });
}

void devices_in_threads() {
  Instance instance;
  in_threads([&](int) {
    for (int i = 0; i < 3; ++i) {
      heddle_device_t* device = open_device(&instance, 0, nullptr);
      EXPECT_OK(instance.tables.device.close(device));
    }
  });
}

void many_queues() {
  Session session;
  std::vector<heddle_queue_t*> queues;
  Result failure(nullptr);
  while (queues.size() < 100) {
    heddle_queue_t* queue = session.try_queue(&failure);
    if (!queue) break;
    queues.push_back(queue);
  }
  REQUIRE(queues.size() == 100 || failure.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED,
          "queue number %zu returned %s; a limit is RESOURCE_EXHAUSTED", queues.size() + 1, failure.text().c_str());
  if (queues.empty()) queues.push_back(session.queue);
  const uint64_t each = 64;
  heddle_buffer_t* buffer = session.buffer(each * queues.size());
  heddle_timeline_t* timeline = session.timeline();
  std::vector<heddle_point_t> points;
  for (size_t i = 0; i < queues.size(); ++i) {
    List list;
    points.push_back(session.point());
    REQUIRE_OK(session.submit(list.fill(buffer, i * each, each, i, 1), {}, {points.back()}, queues[i]).release());
  }
  REQUIRE_OK(session.submit(List(), points, {{timeline, 1}}).release());
  session.reach({timeline, 1});
  const std::vector<char> bytes = session.download(buffer, 0, each * queues.size());
  for (size_t i = 0; i < queues.size(); ++i) {
    CHECK(bytes[i * each] == static_cast<char>(i) && bytes[i * each + each - 1] == static_cast<char>(i),
          "the work of queue %zu was not done", i);
  }
}

void submitting_in_threads() {
  Session session;
  heddle_queue_t* queues[] = {session.queue, session.other_queue()};
  const uint64_t part = session.fitting(64 << 10) / 8;
  heddle_buffer_t* buffer = session.buffer(part * kThreads);
  in_threads([&](int number) {
    const Tables& tables = session.tables();
    heddle_timeline_t *filled = nullptr, *loaded = nullptr;
    REQUIRE_OK(tables.timeline.create(session.device, 0, &filled));
    REQUIRE_OK(tables.timeline.create(session.device, 0, &loaded));
    std::vector<char> bytes(part);
    for (uint64_t i = 1; i <= 50; ++i) {
      const char value = static_cast<char>(i * 3 + static_cast<uint64_t>(number));
      List list;
      list.fill(buffer, static_cast<uint64_t>(number) * part, part, static_cast<uint64_t>(value), 1);
      REQUIRE_OK(session.submit(list, {}, {{filled, i}}, queues[(static_cast<uint64_t>(number) + i) % 2]).release());
      const heddle_point_t wait = {filled, i}, signal = {loaded, i};
      const heddle_sync_t sync = {sizeof sync, 1, 1, 0, &wait, &signal};
      const heddle_binding_t source = {buffer, static_cast<uint64_t>(number) * part, part};
      REQUIRE_OK(tables.transfer.download(queues[i % 2], &sync, &source, bytes.data()));
      Result waited = session.wait(signal);
      REQUIRE(waited.ok(), "a wait in one of %d threads returned %s", kThreads, waited.text().c_str());
      REQUIRE(std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return byte == value; }), "bytes of one thread show in another's");
    }
    tables.timeline.destroy(filled);
    tables.timeline.destroy(loaded);
  });
}

void waiting_in_threads() {
  Session session;
  for (int round = 0; round < 20; ++round) {
    const heddle_point_t done = session.point(), never = session.point();
    std::thread signaller([&] {
      usleep(500);
      if (round % 2) {
        EXPECT_OK(session.tables().timeline.signal(done.timeline, 1));
      } else {
        EXPECT_OK(session.submit(List(), {}, {done}).release());
      }
    });
    in_threads([&](int number) {
      const heddle_point_t points[] = {never, done};
      Result result(number % 2 ? session.tables().timeline.wait(points, 2, HEDDLE_WAIT_ANY, patience_ns())
                               : session.tables().timeline.wait(&done, 1, HEDDLE_WAIT_ALL, patience_ns()));
      CHECK(result.ok(), "one of %d threads that wait for one point saw %s", kThreads, result.text().c_str());
    });
    signaller.join();
    session.destroy(done.timeline);
    session.destroy(never.timeline);
  }
}

void instances_in_threads() {
  // [serial:plugin] for create; all other calls of two instances may be concurrent.
  Instance first, second;
  std::thread one([&] {
    for (int i = 0; i < 5; ++i) EXPECT_OK(first.tables.device.close(open_device(&first, 0, nullptr)));
  });
  for (int i = 0; i < 5; ++i) EXPECT_OK(second.tables.device.close(open_device(&second, 0, nullptr)));
  one.join();
}

// Uses the other plugin a little, together with the tested one.
void use_beside(const heddle_plugin_t* other, Host* host) {
  heddle_probe_result_t result = {};
  result.struct_size = sizeof result;
  if (other->probe) Result probed(other->probe(host->table(), &result));
  heddle_plugin_instance_t* instance = nullptr;
  Result created(other->create(host->table(), &instance));
  if (!created.ok()) return;  // it may have no device here, but it was loaded
  if (other->kind & HEDDLE_PLUGIN_DRIVER) {
    const auto* api = static_cast<const heddle_device_interface_t*>(other->get_interface(instance, string_of(HEDDLE_DEVICE_INTERFACE)));
    heddle_driver_api_t table = {};
    table.struct_size = sizeof table;
    table.host = host->table();
    heddle_device_open_params_t params = {sizeof params, 0, &table, {nullptr, 0}, -1, 0};
    heddle_device_t* device = nullptr;
    Result opened(api->open(instance, 0, &params, &device));
    if (device) EXPECT_OK(api->close(device));
  }
  EXPECT_OK(other->shutdown(instance));
}

void use_ours() {
  if (!plugin().is_driver()) {
    Instance instance;
    return;
  }
  Session session;
  heddle_buffer_t* buffer = session.buffer(5000);
  const std::vector<char> bytes = random_bytes(5000);
  session.upload(buffer, 0, bytes.data(), 5000);
  CHECK(session.download(buffer, 0, 5000) == bytes, "with another plugin loaded bytes come back changed");
}

void beside_another() {
  if (settings().beside.empty()) absent("--beside was not given");
  Host host({});
  const heddle_plugin_t* other = load_beside(settings().beside);  // the tested plugin was loaded before
  use_beside(other, &host);
  use_ours();
  use_beside(other, &host);
}

}  // namespace

void add_concurrency_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"concurrency.creating", "8 threads create and destroy buffers, timelines and queues", creating_and_destroying, Kind::kDriver},
       {"concurrency.devices", "8 threads open and close devices", devices_in_threads, Kind::kDriver},
       {"concurrency.many_queues", "100 queues work, or there is a limit", many_queues, Kind::kDriver},
       {"concurrency.submitting", "8 threads submit to two queues and see their own work", submitting_in_threads, Kind::kDriver},
       {"concurrency.waiting", "8 threads wait for one point", waiting_in_threads, Kind::kDriver},
       {"concurrency.instances", "two instances are used at once", instances_in_threads, Kind::kDriver},
       {"concurrency.beside_another", "it works with another plugin in the process (--beside)", beside_another, Kind::kAny, false, true}});
}

}  // namespace heddle::conformance
