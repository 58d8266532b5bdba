// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small pool: takes large buffers from its provider, cuts blocks out of them first fit, joins what is freed with its neighbours. A block that is
// freed with points waits until they are reached; this policy uses no stream order. Knows nothing of the ABI's tables (plugin.cpp does).
#ifndef SAMPLE_ARENA_H_
#define SAMPLE_ARENA_H_

#include <list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "heddle/allocator.h"

namespace sample {

class Arena {
 public:
  Arena(const heddle_host_t* host, const heddle_provider_t& provider, std::string name, uint64_t limit_bytes)
      : host_(host), provider_(provider), name_(std::move(name)), limit_(limit_bytes) {}
  // Gives all buffers back. No block lives.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  heddle_status_t* allocate(uint64_t size_bytes, uint64_t alignment_bytes, heddle_block_t* out);
  void free(const heddle_block_t& block, const heddle_point_t* points, uint32_t count);
  void trim(uint64_t keep_bytes);
  heddle_allocator_statistics_t statistics();
  uint64_t live_blocks();
  const std::string& name() const { return name_; }

 private:
  struct Piece {
    uint64_t length = 0;
    uint64_t requested = 0;
    bool used = false;
    std::vector<heddle_point_t> points;  // of a piece that was freed and waits
  };
  struct Chunk {
    heddle_buffer_t* buffer = nullptr;
    uint64_t size = 0;
    uint64_t used = 0;                 // bytes of pieces that are not free
    std::map<uint64_t, Piece> pieces;  // by offset; free ones are joined
  };
  using Chunks = std::list<Chunk>;

  bool take(uint64_t size, uint64_t alignment, uint64_t requested, heddle_block_t* out);
  void release(Chunk& chunk, std::map<uint64_t, Piece>::iterator piece);
  void collect();
  void trim_locked(uint64_t keep_bytes);
  heddle_status_t* grow(uint64_t size, uint64_t alignment);
  heddle_status_t* exhausted(uint64_t size, const char* who_has_none);

  const heddle_host_t* host_;
  const heddle_provider_t provider_;
  const std::string name_;
  const uint64_t limit_;
  std::mutex mutex_;  // guards all that follows
  Chunks chunks_;
  uint64_t live_ = 0, waiting_ = 0;
  heddle_allocator_statistics_t statistics_ = {};
};

}  // namespace sample
#endif  // SAMPLE_ARENA_H_
