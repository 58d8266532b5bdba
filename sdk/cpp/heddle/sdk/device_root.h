// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the building blocks need to know of a driver's device: its table, its host, and which children live. A driver's
// device derives from it, so that a heddle_device_t* is a DeviceRoot*.
#ifndef HEDDLE_SDK_DEVICE_ROOT_H_
#define HEDDLE_SDK_DEVICE_ROOT_H_

#include <atomic>
#include <cstdio>

#include "heddle/driver.h"

namespace heddle::sdk {

// How many objects of each kind live (HD-L-01).
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
  const char* who;           // opens every error text, e.g. "cpu"
  uint32_t spin_ns = 20000;  // how long a host wait spins before it sleeps; 0 on a single core
  // Runs, in the calling thread, enqueued work that a wait for this point is waiting for; false if there is none to run. NULL: work runs
  // on the driver's own threads only. Why: a caller that waits at once saves two hand-overs between threads.
  bool (*help)(DeviceRoot* device, heddle_point_t point) = nullptr;
  LiveObjects live;
};

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_DEVICE_ROOT_H_
