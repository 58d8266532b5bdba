// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an application has beside test.streams: streams of its own, and memory that is the device's. Tests include this; they ask the plugin
// for a table of its own.
#ifndef HEDDLE_TESTS_STREAMS_APPLICATION_H_
#define HEDDLE_TESTS_STREAMS_APPLICATION_H_

#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

#include "heddle/plugin.h"

namespace heddle::test {

struct ApplicationTable {
  uint64_t (*create_stream)(uint64_t lag_us);
  void (*destroy_stream)(uint64_t stream);
  void (*enqueue)(uint64_t stream, void (*function)(void* context), void* context);
  void (*synchronize)(uint64_t stream);
  void (*add_memory)(void* memory, uint64_t bytes, int ordinal);
  void (*remove_memory)(void* memory);
};
#define HEDDLE_TEST_APPLICATION "test.application/1"

#ifdef HEDDLE_TEST_DRIVERS
inline const ApplicationTable& application() {
  static const ApplicationTable* table = [] {
    void* library = dlopen(HEDDLE_TEST_DRIVERS "/libheddle_test_streams.so", RTLD_NOW | RTLD_LOCAL);
    auto entry = library ? reinterpret_cast<heddle_plugin_entry_fn_t>(dlsym(library, HEDDLE_PLUGIN_ENTRY_NAME)) : nullptr;
    heddle_negotiation_t negotiation = {};
    negotiation.struct_size = sizeof negotiation;
    negotiation.host_min_minor = HEDDLE_ABI_MIN_MINOR;
    negotiation.host_max_minor = HEDDLE_ABI_MINOR;
    const heddle_plugin_t* plugin = entry ? entry(&negotiation) : nullptr;
    if (!plugin) {
      std::fputs("test.streams cannot be loaded\n", stderr);
      std::abort();
    }
    return static_cast<const ApplicationTable*>(
        plugin->get_interface(nullptr, {HEDDLE_TEST_APPLICATION, sizeof HEDDLE_TEST_APPLICATION - 1}));
  }();
  return *table;
}

// What is enqueued runs in order in its thread, after all that drivers have enqueued there.
class ApplicationStream {
 public:
  // lag: the time that it takes to come to each piece of work.
  explicit ApplicationStream(std::chrono::microseconds lag = {})
      : stream_(application().create_stream(static_cast<uint64_t>(lag.count()))) {}
  ~ApplicationStream() { application().destroy_stream(stream_); }  // after all work
  ApplicationStream(const ApplicationStream&) = delete;
  ApplicationStream& operator=(const ApplicationStream&) = delete;

  void enqueue(std::function<void()> work) {
    application().enqueue(
        stream_,
        [](void* context) {
          const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(context));
          (*owned)();
        },
        new std::function<void()>(std::move(work)));
  }
  void synchronize() { application().synchronize(stream_); }
  uint64_t native() const { return stream_; }

 private:
  const uint64_t stream_;
};

// Memory of the process that is memory of a device, too, while the object lives.
class ApplicationMemory {
 public:
  ApplicationMemory(void* memory, uint64_t bytes, int ordinal = 0) : memory_(memory) { application().add_memory(memory, bytes, ordinal); }
  ~ApplicationMemory() { application().remove_memory(memory_); }
  ApplicationMemory(const ApplicationMemory&) = delete;
  ApplicationMemory& operator=(const ApplicationMemory&) = delete;

 private:
  void* const memory_;
};
#endif  // HEDDLE_TEST_DRIVERS

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_STREAMS_APPLICATION_H_
