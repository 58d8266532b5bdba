// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Allocates slices of pinned chunks. A chunk starts again from its beginning once it is unused; a slice that does not fit gets a chunk of its own.
#include "heddle/sdk/stream/staging.h"

namespace heddle::sdk::stream {

Staging::~Staging() {
  for (Chunk& chunk : chunks_) {
    if (chunk.base) device_->backend.free_host(chunk.base);
  }
}

Staging::Chunk* Staging::find(uint64_t bytes, Result* out_result) {
  if (current_ && current_->live == 0) current_->used = 0;
  if (current_ && bytes <= current_->bytes - current_->used) return current_;
  for (Chunk& chunk : chunks_) {
    if (chunk.live != 0 || chunk.bytes < bytes) continue;
    chunk.used = 0;
    return current_ = &chunk;
  }
  const uint64_t wanted = bytes > kChunkBytes ? (bytes + 4095) / 4096 * 4096 : kChunkBytes;
  const uint64_t most = device_->instance->options.staging_bytes;
  if (wanted > most || held_.load(std::memory_order_relaxed) > most - wanted) return nullptr;
  void* memory = nullptr;
  *out_result = device_->backend.allocate_host(wanted, false, &memory);
  if (*out_result != kSuccess) return nullptr;
  held_.fetch_add(wanted, std::memory_order_relaxed);
  chunks_.push_back({static_cast<char*>(memory), wanted, 0, 0});
  return current_ = &chunks_.back();
}

heddle_status_t* Staging::take(uint64_t bytes, Slice* out) {
  bytes = (bytes + 63) / 64 * 64;
  Result result = kSuccess;
  for (int attempt = 0; attempt < 2; ++attempt) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (Chunk* chunk = find(bytes, &result)) {
        *out = {chunk->base + chunk->used, chunk};
        chunk->used += bytes;
        ++chunk->live;
        return nullptr;
      }
    }
    if (result != kSuccess) return device_->failed(result, "allocating pinned staging memory");
    if (!device_->poll()) break;  // returns the slices of finished copies
  }
  return status(device_, HEDDLE_STATUS_RESOURCE_EXHAUSTED,
                "staging %llu bytes failed: %llu of %llu bytes of pinned staging memory are in use; wait for copies in flight, "
                "or raise the option staging",
                number(bytes), number(bytes_held()), number(device_->instance->options.staging_bytes));
}

void Staging::give(const Slice& slice) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  --slice.chunk->live;
}

}  // namespace heddle::sdk::stream
