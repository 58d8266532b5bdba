// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small pool as a plugin: takes large chunks from its provider, divides them into blocks by first fit, and merges freed blocks with their
// neighbors. A block that is freed with points waits until they are reached; this policy does not use stream order. Replace the id here and
// in the manifest with your own, in reverse DNS.
#include <list>
#include <map>
#include <mutex>

#include "heddle/sdk/allocator.h"

namespace sample {
namespace {

namespace sdk = heddle::sdk;
using sdk::number;

constexpr uint64_t kGrain = 64;
constexpr uint64_t kChunkBytes = uint64_t{8} << 20;      // minimum size of a request
constexpr uint64_t kChunkAlignment = uint64_t{1} << 16;  // so that most blocks fit every chunk
constexpr uint64_t kMost = uint64_t{1} << 62;            // so that no sum of two overflows
constexpr heddle_string_t kOwner = sdk::string_of("chunks of org.example.arena");

// to: a power of two, like every alignment.
uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) & ~(to - 1);
}

struct Piece {
  uint64_t length = 0;
  uint64_t requested = 0;
  const heddle_string_t* owner = nullptr;
  bool used = false;                   // live or waiting
  std::vector<heddle_point_t> points;  // of a freed piece that waits
};
using Pieces = std::map<uint64_t, Piece>;  // by offset; adjacent free pieces are merged

struct Chunk {
  heddle_block_t block = {};
  uint64_t size = 0, alignment = 0;
  uint64_t used = 0;  // bytes of pieces that are not free
  Pieces pieces;
};

class Arena {
 public:
  static constexpr const char* kId = "org.example.arena";
  static constexpr const char* kVersion = "0.1.0";

  explicit Arena(const sdk::AllocatorSetup& setup) : host_(setup.host()), provider_(setup.provider()), name_(setup.name()) {}
  // Returns all chunks. No block is live, but some may wait.
  ~Arena() {
    for (Chunk& chunk : chunks_) {
      std::vector<heddle_point_t> points;
      for (auto& [offset, piece] : chunk.pieces) points.insert(points.end(), piece.points.begin(), piece.points.end());
      provider_.free(provider_.self, &chunk.block, points.data(), static_cast<uint32_t>(points.size()));
    }
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  heddle_status_t* open(const sdk::AllocatorSetup& setup) noexcept { return setup.bytes("pool_limit", &limit_); }

  heddle_status_t* allocate(const heddle_block_params_t& params, heddle_block_t* out, heddle_point_t*, uint32_t*) {
    Lock lock(mutex_);
    if (std::max(params.size_bytes, params.alignment_bytes) > kMost) return exhausted(params.size_bytes, "no device has that much");
    const uint64_t size = round_up(std::max<uint64_t>(params.size_bytes, 1), kGrain);
    collect();
    if (take(size, params, out)) return nullptr;
    heddle_status_t* failed = grow(&lock, size, std::max(size, kChunkBytes), params.alignment_bytes);
    if (failed && host_->status_code(host_->self, failed) == HEDDLE_STATUS_RESOURCE_EXHAUSTED) {
      // Free memory in separate chunks may be enough as one: return it and try once more (HD-M-03).
      host_->status_free(host_->self, failed);
      ++retries_;
      give_back(&lock, 0);
      if (take(size, params, out)) return nullptr;  // another thread has freed memory
      failed = grow(&lock, size, size, params.alignment_bytes);
    }
    if (failed) {
      if (host_->status_code(host_->self, failed) != HEDDLE_STATUS_RESOURCE_EXHAUSTED) return failed;
      return exhausted(params.size_bytes, sdk::take_text(host_, failed));
    }
    take(size, params, out);  // the new chunk is large enough, and the lock was held since
    return nullptr;
  }

  void free(const heddle_block_t& block, const heddle_point_t* points, uint32_t count) {
    std::vector<heddle_point_t> pending;
    for (uint32_t i = 0; i < count; ++i) {
      if (!provider_.reached(provider_.self, points[i])) pending.push_back(points[i]);
    }
    Lock lock(mutex_);
    Chunk& chunk = *reinterpret_cast<Chunk*>(block.token);
    const auto at = chunk.pieces.find(block.offset - chunk.block.offset);
    Piece& piece = at->second;
    ++frees_;
    requested_.subtract(piece.requested);
    allocated_.subtract(piece.length);
    piece.points = std::move(pending);
    if (piece.points.empty()) {
      release(chunk, at);
    } else {
      ++waiting_;
    }
  }

  heddle_status_t* statistics(heddle_allocator_statistics_t* out) {
    Lock lock(mutex_);
    collect();
    uint64_t largest = 0;
    for (const Chunk& chunk : chunks_) {
      for (const auto& [offset, piece] : chunk.pieces) {
        if (!piece.used) largest = std::max(largest, piece.length);
      }
    }
    *out = {out->struct_size,      0,        requested_,  allocated_, active_, reserved_, inactive_split_, largest, allocations_, frees_,
            provider_allocations_, retries_, exhaustions_};
    return nullptr;
  }

  heddle_status_t* trim(uint64_t keep_bytes) {
    {
      Lock lock(mutex_);
      collect();
      give_back(&lock, keep_bytes);
    }
    return provider_.trim(provider_.self, keep_bytes);
  }

  heddle_status_t* holders(heddle_holder_visitor_t visit, void* context) {
    Lock lock(mutex_);
    holders_now().visit(visit, context);
    return nullptr;
  }

  uint64_t live_blocks() {
    Lock lock(mutex_);
    return allocations_ - frees_;
  }

 private:
  using Lock = std::unique_lock<std::mutex>;

  bool take(uint64_t size, const heddle_block_params_t& params, heddle_block_t* out) {
    for (Chunk& chunk : chunks_) {
      if (chunk.size - chunk.used < size || chunk.alignment < params.alignment_bytes) continue;
      for (auto at = chunk.pieces.begin(); at != chunk.pieces.end(); ++at) {
        const uint64_t offset = round_up(at->first, params.alignment_bytes), end = at->first + at->second.length;
        if (at->second.used || offset > end || size > end - offset) continue;
        if (offset > at->first) {  // the part before stays free
          const auto rest = chunk.pieces.emplace(offset, Piece{end - offset, 0, nullptr, false, {}}).first;
          at->second.length = offset - at->first;
          at = rest;
        }
        if (end - offset > size) chunk.pieces.emplace(offset + size, Piece{end - offset - size, 0, nullptr, false, {}});
        at->second = {size, params.size_bytes, params.owner, true, {}};
        chunk.used += size;
        ++allocations_;
        requested_.add(params.size_bytes);
        allocated_.add(size);
        active_.add(size);
        count_split();
        *out = {chunk.block.buffer, chunk.block.offset + offset, params.size_bytes, reinterpret_cast<uint64_t>(&chunk)};
        return true;
      }
    }
    return false;
  }

  // Requests a chunk of `bytes` from the provider, or of `least` if the limit allows no more. Releases the lock meanwhile.
  heddle_status_t* grow(Lock* lock, uint64_t least, uint64_t bytes, uint64_t alignment) {
    const uint64_t left = limit_ == 0 ? UINT64_MAX : limit_ - std::min(limit_, reserved_.current + asked_);
    if (bytes > left) bytes = least;
    if (bytes > left) return sdk::status(host_, HEDDLE_STATUS_RESOURCE_EXHAUSTED, "the option pool_limit is %llu", number(limit_));
    std::list<Chunk> made(1);
    Chunk& chunk = made.front();
    chunk.size = bytes;
    chunk.alignment = std::max(alignment, kChunkAlignment);
    chunk.pieces[0].length = bytes;
    heddle_block_params_t params = {};
    params.struct_size = sizeof params;
    params.size_bytes = bytes;
    params.alignment_bytes = chunk.alignment;
    params.owner = &kOwner;
    uint32_t wait_count = 0;
    asked_ += bytes;
    lock->unlock();
    heddle_status_t* failed = provider_.allocate(provider_.self, &params, &chunk.block, nullptr, &wait_count);
    lock->lock();
    asked_ -= bytes;
    if (failed) return failed;
    chunks_.splice(chunks_.end(), made);
    ++provider_allocations_;
    reserved_.add(bytes);
    return nullptr;
  }

  // Frees a piece and merges it with free neighbors.
  void release(Chunk& chunk, Pieces::iterator at) {
    chunk.used -= at->second.length;
    active_.subtract(at->second.length);
    at->second.used = false;
    const auto next = std::next(at);
    if (next != chunk.pieces.end() && !next->second.used) {
      at->second.length += next->second.length;
      chunk.pieces.erase(next);
    }
    if (at != chunk.pieces.begin() && !std::prev(at)->second.used) {
      std::prev(at)->second.length += at->second.length;
      chunk.pieces.erase(at);
    }
    count_split();
  }

  // Frees the pieces whose points are reached now.
  void collect() {
    if (waiting_ == 0) return;
    for (Chunk& chunk : chunks_) {
      for (auto at = chunk.pieces.begin(); at != chunk.pieces.end();) {
        const auto piece = at++;
        std::vector<heddle_point_t>& points = piece->second.points;
        if (points.empty()) continue;
        std::erase_if(points, [&](const heddle_point_t& point) { return provider_.reached(provider_.self, point) != 0; });
        if (!points.empty()) continue;
        --waiting_;
        if (at != chunk.pieces.end() && !at->second.used) ++at;  // release removes the next one
        release(chunk, piece);
      }
    }
  }

  // Returns free chunks until at most keep_bytes are reserved. Releases the lock meanwhile.
  void give_back(Lock* lock, uint64_t keep_bytes) {
    std::list<Chunk> gone;
    for (auto at = chunks_.begin(); at != chunks_.end() && reserved_.current > keep_bytes;) {
      const auto chunk = at++;
      if (chunk->used != 0) continue;
      reserved_.subtract(chunk->size);
      gone.splice(gone.end(), chunks_, chunk);
    }
    lock->unlock();
    for (const Chunk& chunk : gone) provider_.free(provider_.self, &chunk.block, nullptr, 0);
    lock->lock();
  }

  void count_split() {
    uint64_t split = 0;
    for (const Chunk& chunk : chunks_) split += chunk.used ? chunk.size - chunk.used : 0;
    inactive_split_.become(split);
  }

  sdk::Holders holders_now() const {
    sdk::Holders holders;
    for (const Chunk& chunk : chunks_) {
      for (const auto& [offset, piece] : chunk.pieces) {
        if (piece.used && piece.points.empty()) holders.add(piece.owner, piece.requested);
      }
    }
    return holders;
  }

  heddle_status_t* exhausted(uint64_t size_bytes, std::string cause) {
    ++exhaustions_;
    char state[120];
    std::snprintf(state, sizeof state, " (%llu bytes reserved, %llu of them in blocks, %llu waiting for points)", number(reserved_.current),
                  number(allocated_.current), number(active_.current - allocated_.current));
    cause = cause.substr(0, cause.find('\n')) + state;
    return sdk::exhaustion_status(host_, sdk::short_name(kId), name_, size_bytes, cause, "use less", holders_now());
  }

  const heddle_host_t* const host_;
  const heddle_provider_t& provider_;
  const std::string name_;
  uint64_t limit_ = 0;  // 0: none
  std::mutex mutex_;    // guards all members below
  std::list<Chunk> chunks_;
  uint64_t waiting_ = 0;  // pieces
  uint64_t asked_ = 0;    // bytes that other threads are requesting from the provider
  sdk::MemoryCount requested_, allocated_, active_, reserved_, inactive_split_;
  uint64_t allocations_ = 0, frees_ = 0, provider_allocations_ = 0, retries_ = 0, exhaustions_ = 0;
};

}  // namespace
}  // namespace sample

HEDDLE_ALLOCATOR_PLUGIN(sample::Arena)
