// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pinned memory through which ordinary host memory is copied: slices of chunks, returned when the copy is done.
// Used by lowering and by transfers; knows nothing of streams.
#ifndef HEDDLE_SDK_STREAM_STAGING_H_
#define HEDDLE_SDK_STREAM_STAGING_H_

#include <deque>

#include "heddle/sdk/stream/device.h"

namespace heddle::sdk::stream {

class Staging {
 public:
  static constexpr uint64_t kChunkBytes = uint64_t{1} << 20;
  struct Chunk {
    char* base = nullptr;
    uint64_t bytes = 0, used = 0;
    uint32_t live = 0;
  };
  struct Slice {
    char* data = nullptr;
    Chunk* chunk = nullptr;
  };

  explicit Staging(Device* device) : device_(device) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // RESOURCE_EXHAUSTED if the option's limit is in use. The context must be current.
  heddle_status_t* take(uint64_t bytes, Slice* out);
  void give(const Slice& slice) noexcept;
  uint64_t bytes_held() const noexcept { return held_.load(std::memory_order_relaxed); }

 private:
  Chunk* find(uint64_t bytes, Result* out_result);

  Device* device_;
  std::mutex mutex_;
  std::deque<Chunk> chunks_;  // under mutex_; never moves
  Chunk* current_ = nullptr;
  std::atomic<uint64_t> held_{0};
};

}  // namespace heddle::sdk::stream
#endif  // HEDDLE_SDK_STREAM_STAGING_H_
