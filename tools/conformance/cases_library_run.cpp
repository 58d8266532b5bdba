// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases of library plugins: their operations, from prepare to destroy. They run on the kit's own threads, as on a driver's.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "library_session.h"

namespace heddle::conformance {
namespace {

void results_repeat() {
  Instance instance;
  each_request([&](Request& request) {
    const Operation first(&instance, request), second(&instance, request);
    const std::vector<char> result = result_of(instance, request, first, '\0');
    CHECK(result_of(instance, request, first, '\x5a') == result,
          "%s: the same inputs give different bytes the second time, or not all of the outputs is written [HD-O-03]",
          request.name().c_str());
    CHECK(result_of(instance, request, second, '\xff') == result, "%s: two operations for one request differ [HD-O-03]",
          request.name().c_str());
  });
}

uint64_t digest(const std::vector<char>& bytes) {
  uint64_t value = 0xcbf29ce484222325;  // FNV-1a
  for (char byte : bytes) value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return value;
}

// The digest of a request's results in a process that never had another operation; none if it is UNIMPLEMENTED.
std::optional<uint64_t> digest_alone(const Request& request) {
  constexpr int kUnimplemented = 9;
  int ends[2];
  REQUIRE(pipe(ends) == 0, "making a pipe failed");
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0, "forking failed");
  if (child == 0) {
    alarm(20);
    Instance instance;
    heddle_operation_properties_t properties = {};
    properties.struct_size = sizeof properties;
    Result status(api(instance).query(instance.handle, &request.c, &properties));
    if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) _exit(kUnimplemented);
    const uint64_t value = digest(result_of(instance, request, Operation(&instance, request), '\0'));
    _exit(write(ends[1], &value, sizeof value) != sizeof value);
  }
  close(ends[1]);
  uint64_t value = 0;
  const bool told = read(ends[0], &value, sizeof value) == sizeof value;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kUnimplemented) return std::nullopt;
  REQUIRE(told, "%s: a separate process ended before it had a result", request.name().c_str());
  return value;
}

// Two nodes of a model are two operations of one operator, each with its own attributes.
void attributes_stay_with_their_operation() {
  struct Pair {
    Pair(const OperatorRequest& source, const OperatorRequest& changed) : one(source), other(changed) {}
    Request one, other;
    uint64_t other_alone = 0;
  };
  std::deque<Pair> pairs;
  for (const OperatorRequest& source : settings().requests) {  // before this process has loaded the plugin
    OperatorRequest changed = source;
    size_t numbers = 0;
    for (OperatorRequest::Attribute& attribute : changed.attributes) {
      for (double& each : attribute.floats) each = each * 0.75 + 0.375, ++numbers;
    }
    const std::optional<uint64_t> alone = numbers ? digest_alone(Request(changed)) : std::nullopt;
    if (alone) pairs.emplace_back(source, changed).other_alone = *alone;
  }
  if (pairs.empty()) absent("none of its requests has a number as attribute that may have another value");
  Instance instance;
  for (const Pair& pair : pairs) {
    const std::string name = pair.one.name();
    const Operation first(&instance, pair.one);
    const std::vector<char> result = result_of(instance, pair.one, first, '\0');
    {
      const Operation second(&instance, pair.other);
      const std::vector<char> others = result_of(instance, pair.other, second, '\0');
      CHECK(digest(others) == pair.other_alone, "%s: an operation gives different bytes after one with other attributes was used [HD-E-06]",
            name.c_str());
      CHECK(result_of(instance, pair.one, first, '\0') == result,
            "%s: a second operation with other attributes changes what the first one gives [HD-O-03]", name.c_str());
      CHECK(result_of(instance, pair.other, second, '\0') == others, "%s: the first operation changes what the second one gives [HD-O-03]",
            name.c_str());
    }
    CHECK(result_of(instance, pair.one, first, '\0') == result, "%s: the end of one operation changes what another one gives [HD-O-03]",
          name.c_str());
  }
}

void shards_are_independent() {
  Instance instance;
  bool sharded = false;
  each_request([&](Request& request) {
    const Operation operation(&instance, request);
    if (operation.shards() < 2) return;
    sharded = true;
    const std::vector<char> result = result_of(instance, request, operation, '\0');
    Memory backwards(request, operation.properties, '\x33'), at_once(request, operation.properties, '\x44');
    backwards.fill_inputs(settings().seed);
    for (uint64_t shard = operation.shards(); shard-- > 0;) run(instance, operation, backwards, shard, shard + 1);
    backwards.check("enqueue of single shards");
    CHECK(backwards.contents(true) == result, "%s: shards one by one, the last first, give different bytes [HD-O-03]",
          request.name().c_str());
    at_once.fill_inputs(settings().seed);
    std::vector<std::thread> threads;
    for (uint64_t part = 0; part < 4; ++part) {
      const uint64_t first = operation.shards() * part / 4, last = operation.shards() * (part + 1) / 4;
      threads.emplace_back([&, first, last] { run(instance, operation, at_once, first, last); });
    }
    for (std::thread& thread : threads) thread.join();
    at_once.check("enqueue of shards at once");
    CHECK(at_once.contents(true) == result, "%s: concurrent shards give different bytes [HD-O-03]", request.name().c_str());
  });
  if (!sharded) absent("none of its requests is divided into shards");
}

void calls_at_once() {
  Instance instance;
  each_request([&](Request& request) {
    const Operation operation(&instance, request);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i, alone = result_of(instance, request, operation, '\0', i)] {
        for (int k = 0; k < 20; ++k) {
          if (result_of(instance, request, operation, static_cast<char>(i * 20 + k), i) != alone)
            fail("%s: concurrent calls of one operation disturb each other [HD-O-03]", request.name().c_str());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

void enqueue_takes_no_memory() {
  Instance instance;
  each_request([&](Request& request) {
    const Operation operation(&instance, request);
    result_of(instance, request, operation, '\0');
    const uint64_t allocations = instance.host.allocations();
    const uint64_t descriptors = count_descriptors(), threads = count_threads();
    for (int i = 0; i < 20; ++i) result_of(instance, request, operation, '\0');
    CHECK(instance.host.allocations() == allocations, "%s: enqueue allocates memory of the host [HD-O-03]", request.name().c_str());
    CHECK(count_descriptors() <= descriptors && count_threads() <= threads, "%s: enqueue leaves descriptors or threads [HD-O-03]",
          request.name().c_str());
  });
}

void operations_leave_nothing() {
  Instance instance;
  each_request([&](Request& request) {
    const std::string what = "prepare and destroy of " + request.name();
    expect_no_growth(what.c_str(), 3000, uint64_t{10} * 1000000000, [&] { Operation(&instance, request); });
  });
}

void prepare_out_of_memory() {
  each_request([&](Request& request) {
    for (int after = 0; after < 20; ++after) {
      Instance instance;
      instance.host.fail_allocation(after);
      heddle_operation_t* operation = nullptr;
      Result status(api(instance).prepare(instance.handle, &request.c, &operation));
      if (!instance.host.has_failed_allocation()) {
        if (operation) api(instance).destroy(operation);
        return;
      }
      CHECK(status.ok() || status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED, "%s: without memory prepare returned %s",
            request.name().c_str(), status.text().c_str());
      if (operation) api(instance).destroy(operation);
    }
  });
}

void shutdown_with_an_operation() {
  Instance instance;
  each_request([&](Request& request) {
    const Operation operation(&instance, request);
    Result status(plugin().table.shutdown(instance.handle));
    REQUIRE(status.code() == HEDDLE_STATUS_FAILED_PRECONDITION, "shutdown with a live operation returned %s [HD-L-01]",
            status.text().c_str());
    result_of(instance, request, operation, '\0');  // the refusal changed nothing
  });
}

void libraries_do_nothing_in_forked_children() {
  Instance instance;
  each_request([&](Request& request) {
    const Operation operation(&instance, request);
    Memory memory(request, operation.properties, '\0');
    memory.fill_inputs(settings().seed);
    std::fflush(nullptr);
    const pid_t child = fork();
    REQUIRE(child >= 0, "forking failed");
    if (child == 0) {
      alarm(20);
      heddle_operation_t* made = nullptr;
      const heddle_operation_call_t call = memory.call(0, operation.shards());
      Result prepared(api(instance).prepare(instance.handle, &request.c, &made)), enqueued(api(instance).enqueue(operation.handle, &call));
      api(instance).destroy(operation.handle);
      _exit((prepared.code() != HEDDLE_STATUS_FAILED_PRECONDITION) + (enqueued.code() != HEDDLE_STATUS_FAILED_PRECONDITION));
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(!WIFSIGNALED(status), "a call in a forked child ended in %s [HD-T-01]", strsignal(WTERMSIG(status)));
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "%d of 2 calls in a forked child were not FAILED_PRECONDITION [HD-T-01]",
          WEXITSTATUS(status));
    result_of(instance, request, operation, '\0');
  });
}

void null_library_releases() {
  Instance instance;
  api(instance).destroy(nullptr);
}

}  // namespace

void add_library_run_cases(Cases* out) {
  out->insert(out->end(),
              {{"library.repeatable", "the same inputs give the same bytes; all of the outputs, and nothing else, is written",
                results_repeat, Kind::kLibrary},
               {"library.attributes", "operations of one operator keep their own attributes", attributes_stay_with_their_operation,
                Kind::kLibrary, true},
               {"library.shards", "shards run in any order and concurrently", shards_are_independent, Kind::kLibrary},
               {"library.calls_at_once", "calls of one operation do not disturb each other", calls_at_once, Kind::kLibrary},
               {"library.no_memory_in_enqueue", "enqueue allocates no memory of the host, and leaves nothing behind",
                enqueue_takes_no_memory, Kind::kLibrary},
               {"library.operations", "3000 times prepare and destroy leave nothing behind", operations_leave_nothing, Kind::kLibrary},
               {"library.exhaustion", "without memory prepare is RESOURCE_EXHAUSTED", prepare_out_of_memory, Kind::kLibrary},
               {"library.shutdown_with_an_operation", "shutdown with a live operation is refused and changes nothing",
                shutdown_with_an_operation, Kind::kLibrary},
               {"library.forked_child", "in a forked child calls are FAILED_PRECONDITION and releases do nothing",
                libraries_do_nothing_in_forked_children, Kind::kLibrary},
               {"library.null", "destroying NULL does nothing", null_library_releases, Kind::kLibrary}});
}

}  // namespace heddle::conformance
