// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One pool: chunks from the provider, cut into parts, reused in stream order. Called by plugin.cpp; one lock, held while the provider is
// not asked.
#ifndef HEDDLE_POOL_POOL_H_
#define HEDDLE_POOL_POOL_H_

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "free_blocks.h"
#include "heddle/allocator.h"

namespace heddle::pool {

// A buffer of the provider.
struct Chunk {
  heddle_buffer_t* buffer = nullptr;
  uint64_t size = 0;
  uint64_t used_parts = 0;  // handed out or pending
  uint64_t used_bytes = 0;
  Part* first = nullptr;
  size_t index = 0;  // in Pool::chunks_
};

// What a freed part waits for.
struct Pending {
  std::vector<heddle_point_t> points;
};

struct Instance {
  const heddle_host_t* host;
  std::atomic<uint64_t> pools{0};
  explicit Instance(const heddle_host_t* its_host) noexcept : host(its_host) {}
};

class Pool {
 public:
  Pool(Instance* instance, const heddle_provider_t& provider, std::string name, uint64_t limit_bytes);
  // Only without live blocks.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  const heddle_host_t* host() const noexcept { return instance_->host; }
  const std::string& name() const noexcept { return name_; }

  // Takes a first chunk of that many bytes.
  heddle_status_t* reserve(uint64_t bytes);
  heddle_status_t* allocate(const heddle_block_params_t& params, heddle_block_t* out, heddle_point_t* out_waits, uint32_t* out_wait_count);
  void free(const heddle_block_t& block, const heddle_point_t* points, uint32_t count);
  heddle_allocator_statistics_t statistics();
  void trim(uint64_t keep_bytes);
  uint64_t live_blocks();

 private:
  using Lock = std::unique_lock<std::mutex>;

  Part* new_part();
  void drop_part(Part* part) noexcept;
  // Cuts `size` bytes at an aligned offset out of a part that is in no list, and gives the rest back; the state is the caller's.
  Part* carve(Part* part, uint64_t size, uint64_t alignment);
  // A part that is in no list becomes free, joined with its free neighbours.
  void make_free(Part* part) noexcept;
  void make_pending(Part* part, const heddle_point_t* points, uint32_t count);
  void unlink_pending(Part* part) noexcept;
  // Frees pending parts whose points are reached, the oldest first; looks at no more than `most`.
  void settle(size_t most);
  // A pending part that a caller at `after` may use without waiting.
  Part* find_in_stream_order(uint64_t size, uint64_t alignment, heddle_point_t after);
  // A pending part that a caller may use once it has waited for at most `capacity` points.
  Part* find_with_waits(uint64_t size, uint64_t alignment, uint32_t capacity);
  heddle_status_t* grow(Lock* lock, uint64_t bytes, uint64_t alignment);
  // Empty chunks, largest first, until at most keep_bytes stay reserved; the caller frees them without the lock.
  std::vector<heddle_buffer_t*> take_empty_chunks(uint64_t keep_bytes);
  void give_back(Lock* lock, uint64_t keep_bytes);
  uint64_t chunk_bytes(uint64_t size) const noexcept;
  void hand_out(Part* part, const heddle_block_params_t& params, heddle_block_t* out) noexcept;
  heddle_status_t* exhausted(uint64_t size, heddle_status_t* cause);

  Instance* instance_;
  const heddle_provider_t provider_;
  const std::string name_;
  const uint64_t limit_;
  std::mutex mutex_;
  std::vector<Chunk*> chunks_;
  FreeBlocks free_;
  Part* first_pending_ = nullptr;  // oldest
  Part* last_pending_ = nullptr;
  Part* spare_parts_ = nullptr;
  uint64_t pending_bytes_ = 0;
  heddle_allocator_statistics_t statistics_ = {};
};

}  // namespace heddle::pool
#endif  // HEDDLE_POOL_POOL_H_
