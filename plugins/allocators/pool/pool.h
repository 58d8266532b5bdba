// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.pool: chunks from the provider, split into parts, reused in stream order.
//
// Small blocks are split off shared chunks, best fit, and joined with free neighbors when they are freed. A large block takes a whole chunk, of a
// size class into which a later block of about its size fits. Empty chunks are kept for reuse as long as no more is reserved than a sixteenth above
// the peak need; if a block would exceed this, an empty chunk is split for it, or empty chunks are returned first. As long as the provider is
// called seldom the pool saves memory: more blocks count as large, no chunk is split, and a shared chunk that would exceed the sixteenth is as
// large as its block.
//
// The first heap has the provider's chunks and serves the first thread. Another thread has a heap of its own for its small blocks, whose chunks are
// spans: parts of the first heap. A call takes the lock of one heap; if that is not sufficient, it takes all of them, in their order. None is held
// while the provider is called.
#ifndef HEDDLE_POOL_POOL_H_
#define HEDDLE_POOL_POOL_H_

#include <atomic>
#include <memory>
#include <string>

#include "heap.h"
#include "heddle/sdk/allocator.h"

namespace heddle::pool {

class Pool {
 public:
  static constexpr const char* kId = "heddle.pool";
  static constexpr const char* kVersion = "0.1.0";
  static constexpr bool kKeepsFloatingPoint = true;

  explicit Pool(const sdk::AllocatorSetup& setup);
  // Call only without live blocks. Parts that still wait for points are returned with these.
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
  static constexpr uint32_t kHeaps = 16;
  static constexpr uint32_t kSlots = 64;

  // The locks of all heaps.
  class All {
   public:
    explicit All(Pool& pool) noexcept : pool_(pool) { lock(); }
    ~All() {
      if (held_) unlock();
    }
    All(const All&) = delete;
    All& operator=(const All&) = delete;
    void lock() noexcept;
    void unlock() noexcept;

   private:
    Pool& pool_;
    bool held_ = false;
  };
  // first: for a thread of the first heap. Other heaps have no large blocks.
  Wanted rounded(uint64_t size, uint64_t alignment, bool first, uint64_t soon) const noexcept;
  // The heap of the calling thread for that block; NULL: a new thread.
  Heap* heap_for(uint32_t thread, const Wanted& wanted) const noexcept;

  // For the rest all locks must be held.
  void add_heap();
  Heap& heap_of_new_thread(uint32_t thread, const Wanted& wanted);
  heddle_status_t* allocate_with_all(All* all, uint32_t thread, const Wanted& wanted, const heddle_block_params_t& params,
                                     heddle_block_t* out, heddle_point_t* out_waits, uint32_t* out_wait_count);
  // A free part that is large enough: an existing one, or one of a new chunk from the provider. asked: bytes of the block that it is for.
  heddle_status_t* obtain(All* all, const Wanted& wanted, uint64_t asked, bool retry, Part** out_part);
  // A span for a heap, large enough for a block of that size.
  heddle_status_t* add_span(All* all, Heap* heap, const Wanted& wanted, uint64_t asked);
  // Returns spans without active parts to the first heap.
  void free_empty_spans() noexcept;
  void settle_all();
  Part* find_anywhere(const Wanted& wanted) const noexcept;
  uint64_t shared_chunk_bytes(uint64_t size) const noexcept;
  // A new chunk as one free part. Releases the locks during the call of the provider.
  heddle_status_t* grow(All* all, uint64_t bytes, const Wanted& wanted, Part** out_part);
  heddle_status_t* add_chunk(All* all, std::unique_ptr<Chunk> chunk, uint64_t alignment, Part** out_part);
  // A block in host memory, if the provider has it.
  heddle_status_t* spill(All* all, const Wanted& wanted, const heddle_block_params_t& params, heddle_block_t* out);
  void free_spilled(Part* part, const heddle_point_t* points, uint32_t count);
  // Returns empty chunks, the largest first, until at most keep_bytes are reserved. Releases the locks meanwhile.
  void give_back(All* all, uint64_t keep_bytes, bool also_initial);
  void reserved_changed() noexcept;
  heddle_status_t* exhausted(All* all, uint64_t size, std::string cause);
  uint64_t total(uint64_t Books::* count) const noexcept;
  // At level warn.
  void log(const std::string& text) const noexcept;

  const heddle_host_t* const host_;
  const heddle_provider_t& provider_;
  const std::string name_;
  uint64_t limit_ = UINT64_MAX;
  bool trims_ = true;
  bool spills_ = false;
  std::atomic<uint64_t> large_bytes_;  // blocks of at least this size have chunks of their own
  Heap* heaps_[kHeaps] = {};           // each is set before a slot refers to it
  // By thread number modulo kSlots: 1 + index of its heap, 0: not seen yet. Hardly ever written.
  alignas(64) std::atomic<uint8_t> slots_[kSlots] = {};

  // The rest is guarded by all locks.
  alignas(64) Peaks peaks_;
  uint32_t heap_count_ = 0;     // guarded by the first heap's lock alone, too
  uint32_t threads_ = 0;        // threads seen
  uint64_t shared_bytes_ = 0;   // bytes of shared chunks of the first heap
  uint64_t asked_bytes_ = 0;    // bytes requested from the provider in calls that have not returned
  uint64_t spilled_bytes_ = 0;  // bytes of chunks in host memory, which do not count for the limit
  bool has_spilled_ = false;    // already logged
  bool saves_ = true;           // memory, rather than calls of the provider
  sdk::MemoryCount reserved_;
  uint64_t provider_allocations_ = 0, retries_ = 0, exhaustions_ = 0;
};

}  // namespace heddle::pool
#endif  // HEDDLE_POOL_POOL_H_
