// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of a driver's device that the building blocks use: its table, its host, and its live children. A driver's device derives from it, so
// that a heddle_device_t* is a DeviceRoot*.
#ifndef HEDDLE_SDK_DEVICE_ROOT_H_
#define HEDDLE_SDK_DEVICE_ROOT_H_

#include <atomic>
#include <cstdio>

#include "heddle/driver.h"

namespace heddle::sdk {

// Number of live objects of each kind (HD-L-01).
struct LiveObjects {
  std::atomic<uint64_t> queues{0}, buffers{0}, timelines{0}, executables{0}, files{0}, recordings{0};

  bool any() const noexcept {
    return queues.load() || buffers.load() || timelines.load() || executables.load() || files.load() || recordings.load();
  }
  // "2 queues, 1 buffer"
  void describe(char* text, size_t capacity) const noexcept {
    size_t used = 0;
    auto add = [&](const std::atomic<uint64_t>& counter, const char* one, const char* many) {
      const auto count = static_cast<unsigned long long>(counter.load());
      if (!count || used + 1 >= capacity) return;
      const int written = std::snprintf(text + used, capacity - used, "%s%llu %s", used ? ", " : "", count, count == 1 ? one : many);
      if (written > 0) used += static_cast<size_t>(written);
    };
    if (capacity) text[0] = 0;
    add(queues, "queue", "queues");
    add(buffers, "buffer", "buffers");
    add(timelines, "timeline", "timelines");
    add(executables, "executable", "executables");
    add(files, "file", "files");
    add(recordings, "recording", "recordings");
  }
};

struct DeviceRoot {
  const heddle_driver_api_t* api;  // HD-H-01: the first word
  const heddle_host_t* host;
  const char* who;           // begins every error text, e.g. "cpu"
  uint32_t spin_ns = 20000;  // how long a host wait spins before it sleeps; 0 on a single core
  // Runs, in the calling thread, enqueued work that a wait for this point depends on; false if there is none to run. NULL: work runs only on the
  // driver's own threads. A caller that waits at once thus saves two hand-overs between threads.
  bool (*help)(DeviceRoot* device, heddle_point_t point) = nullptr;
  LiveObjects live;
};

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_DEVICE_ROOT_H_
