// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A timeline of a device with streams: a host timeline that also knows which of its values are enqueued, and on which queue.
#ifndef HEDDLE_SDK_STREAM_TIMELINE_H_
#define HEDDLE_SDK_STREAM_TIMELINE_H_

#include "heddle/sdk/host_timeline.h"
#include "heddle/sdk/stream/device.h"

namespace heddle::sdk::stream {

class Timeline : public sdk::HostTimeline {
 public:
  using sdk::HostTimeline::HostTimeline;
  static Timeline* from(heddle_timeline_t* handle) noexcept { return static_cast<Timeline*>(sdk::HostTimeline::from(handle)); }
  Device* device() const noexcept { return static_cast<Device*>(sdk::HostTimeline::device()); }

  // A value that a queue's stream will reach with the submission of that number.
  struct OnItsWay {
    uint64_t value;
    const Queue* queue;    // only compared: it may be destroyed
    const Device* device;  // of the queue; only compared
    Context context;       // of the queue
    const Word* word;
    uint64_t number;
  };
  void add(const OnItsWay& signal) {
    std::lock_guard<std::mutex> lock(mutex_);
    on_their_way_.push_back(signal);
  }
  // The first one that reaches `value`; false if none is enqueued yet.
  bool find(uint64_t value, OnItsWay* out) {
    std::lock_guard<std::mutex> lock(mutex_);
    const OnItsWay* best = nullptr;
    for (const OnItsWay& signal : on_their_way_) {
      if (signal.value >= value && (!best || signal.value < best->value)) best = &signal;
    }
    if (best) *out = *best;
    return best != nullptr;
  }
  void remove(uint64_t value) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(on_their_way_, [&](const OnItsWay& signal) { return signal.value == value; });
  }

 private:
  std::mutex mutex_;
  std::vector<OnItsWay> on_their_way_;
};

}  // namespace heddle::sdk::stream
#endif  // HEDDLE_SDK_STREAM_TIMELINE_H_
