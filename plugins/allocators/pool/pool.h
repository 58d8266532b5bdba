// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.pool: chunks from the provider, cut into parts, reused in stream order. One lock, not held while the provider is asked for memory.
//
// Small blocks are cut out of shared chunks, best fit, joined with free neighbours when they are freed. A large block takes a chunk of its own,
// of a size class that a later block of about its size fits into. What is empty is kept for reuse as long as no more is reserved than a tenth
// above the most that was ever needed; where a block would make it more, an empty chunk is cut for it, or empty chunks go back first.
#ifndef HEDDLE_POOL_POOL_H_
#define HEDDLE_POOL_POOL_H_

#include <mutex>
#include <string>
#include <vector>

#include "free_blocks.h"
#include "heddle/sdk/allocator.h"

namespace heddle::pool {

// What a freed part waits for.
struct Pending {
  std::vector<heddle_point_t> points;
};

class Pool {
 public:
  static constexpr const char* kId = "heddle.pool";
  static constexpr const char* kVersion = "0.1.0";

  explicit Pool(const sdk::AllocatorSetup& setup);
  // Only without live blocks. What still waits for points goes back with them.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  heddle_status_t* open(const sdk::AllocatorSetup& setup);
  heddle_status_t* allocate(const heddle_block_params_t& params, heddle_block_t* out, heddle_point_t* out_waits, uint32_t* out_wait_count);
  void free(const heddle_block_t& block, const heddle_point_t* points, uint32_t count);
  heddle_status_t* statistics(heddle_allocator_statistics_t* out);
  heddle_status_t* trim(uint64_t keep_bytes);
  heddle_status_t* holders(heddle_holder_visitor_t visit, void* context);
  uint64_t live_blocks();

 private:
  using Lock = std::unique_lock<std::mutex>;

  // What is asked for, rounded.
  struct Wanted {
    uint64_t size, alignment;
    bool large;
  };
  Wanted rounded(const heddle_block_params_t& params) const noexcept;

  Part* new_part();
  void drop_part(Part* part) noexcept;
  Part* find_free(const Wanted& wanted) const noexcept;
  // An empty chunk for a large block, of which the rest stays free for others. needed: the most that was needed so far.
  Part* find_to_cut(const Wanted& wanted, uint64_t needed) const noexcept;
  // Makes a part that is in no list a used one, cutting off what is too much. If it throws, the part is free again.
  Part* take(Part* part, const Wanted& wanted);
  // A part that is in no list becomes free, joined with its free neighbours.
  void make_free(Part* part) noexcept;
  void make_pending(Part* part, const heddle_point_t* points, uint32_t count);
  // Out of the list of pending ones; it is in no list then.
  void unlink_pending(Part* part) noexcept;
  // Frees pending parts whose points are reached, the oldest first; looks at no more than `most`.
  void settle(size_t most);
  // A pending part that a caller at `after` may use without waiting.
  Part* find_in_stream_order(const Wanted& wanted, heddle_point_t after);
  // A pending part that a caller may use once it has waited for at most `capacity` points.
  Part* find_with_waits(const Wanted& wanted, uint32_t capacity);
  uint64_t shared_chunk_bytes(uint64_t size) const noexcept;
  // A new chunk as one part that is in no list. It lets the lock go while it asks.
  heddle_status_t* grow(Lock* lock, uint64_t bytes, const Wanted& wanted, Part** out_part);
  void activate(Chunk* chunk, uint64_t bytes) noexcept;
  void deactivate(Chunk* chunk, uint64_t bytes) noexcept;
  // Gives empty chunks back, the largest first, until at most keep_bytes are reserved. It lets the lock go while it does.
  void give_back(Lock* lock, uint64_t keep_bytes, bool also_initial);
  void hand_out(Part* part, const heddle_block_params_t& params, heddle_block_t* out) noexcept;
  heddle_status_t* exhausted(Lock* lock, uint64_t size, std::string cause);

  const heddle_host_t* const host_;
  const heddle_provider_t& provider_;
  const std::string name_;
  uint64_t limit_ = UINT64_MAX;
  bool trims_ = true;
  std::mutex mutex_;
  std::vector<Chunk*> chunks_;
  FreeBlocks free_[3];             // by kind of chunk
  Part* first_pending_ = nullptr;  // oldest
  Part* last_pending_ = nullptr;
  Part* spare_parts_ = nullptr;
  uint64_t pending_bytes_ = 0;
  uint64_t needed_peak_ = 0;   // most that was requested and pending at once
  uint64_t empty_bytes_ = 0;   // of chunks without active parts
  uint64_t shared_bytes_ = 0;  // of shared chunks
  uint64_t asked_bytes_ = 0;   // of the provider, in calls that have not returned
  sdk::MemoryCount requested_, allocated_, active_, reserved_, inactive_split_;
  uint64_t allocations_ = 0, frees_ = 0, provider_allocations_ = 0, retries_ = 0, exhaustions_ = 0;
};

}  // namespace heddle::pool
#endif  // HEDDLE_POOL_POOL_H_
