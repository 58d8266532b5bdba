// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.arena: takes consecutive blocks from large chunks, and uses a chunk from its beginning again when all its blocks are free. For memory that
// is allocated and freed together, such as that of a call.
#include <memory>
#include <mutex>

#include "heddle/sdk/allocator.h"

namespace heddle::arena {
namespace {

using sdk::number;

constexpr uint64_t kGranule = 256;
constexpr uint64_t kChunkAlignment = 4096;
constexpr uint64_t kMaxSize = uint64_t{1} << 62;
constexpr heddle_string_t kOwner = sdk::string_of("chunks of heddle.arena");

// to: a power of two, like every alignment.
uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) & ~(to - 1);
}

struct Chunk {
  heddle_block_t block = {};
  uint64_t size = 0, alignment = 0;
  uint64_t used = 0;         // used bytes, from the beginning
  uint64_t live_blocks = 0;  // 0: `used` is 0
  uint64_t live_bytes = 0;
  uint64_t waiting_bytes = 0;          // freed after `points`
  std::vector<heddle_point_t> points;  // work that may still use it, one per timeline
};

// One block; its address is the token.
struct Piece {
  Chunk* chunk;
  uint64_t size;
  uint64_t requested;
  const heddle_string_t* owner;
  Piece* before;  // in the list of live blocks, or of spare ones
  Piece* after;
};

class Arena {
 public:
  static constexpr const char* kId = "heddle.arena";
  static constexpr const char* kVersion = "0.1.0";

  explicit Arena(const sdk::AllocatorSetup& setup) : host_(setup.host()), provider_(setup.provider()), name_(setup.name()) {}
  ~Arena() {
    for (const auto& chunk : chunks_) {
      provider_.free(provider_.self, &chunk->block, chunk->points.data(), static_cast<uint32_t>(chunk->points.size()));
    }
    while (Piece* piece = spare_) {
      spare_ = piece->after;
      delete piece;
    }
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  heddle_status_t* open(const sdk::AllocatorSetup& setup) noexcept { return setup.bytes("chunk", &chunk_bytes_); }

  heddle_status_t* allocate(const heddle_block_params_t& params, heddle_block_t* out, heddle_point_t* out_waits, uint32_t* out_wait_count) {
    Lock lock(mutex_);
    if (params.size_bytes > kMaxSize || params.alignment_bytes > kMaxSize) {
      return exhausted(&lock, params.size_bytes, "more than 2^62 bytes");
    }
    const uint64_t alignment = std::max(params.alignment_bytes, kGranule);
    const uint64_t size = std::max(round_up(params.size_bytes, kGranule), kGranule);
    Chunk* chunk = find(size, alignment, params.after, 0);
    std::string cause;
    for (bool retry : {false, true}) {
      if (chunk) break;
      if (retry) {
        ++retries_;
        give_back(&lock, 0);
      }
      heddle_status_t* failed = grow(&lock, retry ? size : std::max(size, chunk_bytes_), alignment, &chunk);
      if (!failed) break;
      if (host_->status_code(host_->self, failed) != HEDDLE_STATUS_RESOURCE_EXHAUSTED) return failed;
      cause = sdk::take_text(host_, failed);
      chunk = find(size, alignment, params.after, 0);
    }
    // All remaining memory is still in use by work; it is returned with the points to wait for.
    if (!chunk && params.after.timeline) {
      chunk = find(size, alignment, params.after, params.wait_capacity);
      if (chunk) {
        *out_wait_count = static_cast<uint32_t>(chunk->points.size());
        std::copy(chunk->points.begin(), chunk->points.end(), out_waits);
      }
    }
    if (!chunk) return exhausted(&lock, params.size_bytes, std::move(cause));
    Piece* piece = spare_ ? spare_ : new Piece{};
    if (piece == spare_) spare_ = piece->after;
    const uint64_t offset = round_up(chunk->used, alignment);
    *piece = {chunk, size, params.size_bytes, params.owner, nullptr, live_};
    if (live_) live_->before = piece;
    live_ = piece;
    if (chunk->live_blocks++ == 0 && chunk->points.empty()) empty_bytes_ -= chunk->size;
    chunk->live_bytes += size;
    chunk->used = offset + size;
    ++allocations_;
    requested_.add(params.size_bytes);
    allocated_.add(size);
    active_.add(size);
    inactive_split_.become(reserved_.current - active_.current - empty_bytes_);
    *out = {chunk->block.buffer, chunk->block.offset + offset, params.size_bytes, reinterpret_cast<uint64_t>(piece)};
    return nullptr;
  }

  void free(const heddle_block_t& block, const heddle_point_t* points, uint32_t count) {
    auto* piece = reinterpret_cast<Piece*>(block.token);
    Lock lock(mutex_);
    Chunk& chunk = *piece->chunk;
    bool waits = false;
    for (uint32_t i = 0; i < count; ++i) {
      if (provider_.reached(provider_.self, points[i])) continue;
      waits = true;
      auto known =
          std::find_if(chunk.points.begin(), chunk.points.end(), [&](const heddle_point_t& p) { return p.timeline == points[i].timeline; });
      if (known == chunk.points.end()) {
        chunk.points.push_back(points[i]);
      } else {
        known->value = std::max(known->value, points[i].value);
      }
    }
    (piece->before ? piece->before->after : live_) = piece->after;
    if (piece->after) piece->after->before = piece->before;
    ++frees_;
    requested_.subtract(piece->requested);
    allocated_.subtract(piece->size);
    chunk.live_bytes -= piece->size;
    if (waits) {
      chunk.waiting_bytes += piece->size;
    } else {
      active_.subtract(piece->size);
    }
    if (--chunk.live_blocks == 0) {
      chunk.used = 0;
      if (chunk.points.empty()) empty_bytes_ += chunk.size;
    }
    inactive_split_.become(reserved_.current - active_.current - empty_bytes_);
    piece->after = spare_;
    spare_ = piece;
  }

  heddle_status_t* statistics(heddle_allocator_statistics_t* out) {
    Lock lock(mutex_);
    uint64_t largest = 0;
    for (const auto& chunk : chunks_) {
      settle(*chunk);
      if (chunk->points.empty()) largest = std::max(largest, chunk->size - chunk->used);
    }
    *out = {out->struct_size,      0,        requested_,  allocated_, active_, reserved_, inactive_split_, largest, allocations_, frees_,
            provider_allocations_, retries_, exhaustions_};
    return nullptr;
  }

  heddle_status_t* trim(uint64_t keep_bytes) {
    Lock lock(mutex_);
    give_back(&lock, keep_bytes);
    lock.unlock();
    return provider_.trim(provider_.self, keep_bytes);
  }

  heddle_status_t* holders(heddle_holder_visitor_t visit, void* context) {
    sdk::Holders holders;
    {
      Lock lock(mutex_);
      for (const Piece* piece = live_; piece; piece = piece->after) holders.add(piece->owner, piece->requested);
    }
    holders.visit(visit, context);
    return nullptr;
  }

  uint64_t live_blocks() {
    Lock lock(mutex_);
    return allocations_ - frees_;
  }

 private:
  using Lock = std::unique_lock<std::mutex>;

  // Forgets the points that are reached.
  void settle(Chunk& chunk) {
    if (chunk.points.empty()) return;
    std::erase_if(chunk.points, [&](const heddle_point_t& point) { return provider_.reached(provider_.self, point) != 0; });
    if (!chunk.points.empty()) return;
    active_.subtract(chunk.waiting_bytes);
    chunk.waiting_bytes = 0;
    if (chunk.live_blocks == 0) empty_bytes_ += chunk.size;
    inactive_split_.become(reserved_.current - active_.current - empty_bytes_);
  }

  // The fullest chunk with enough space that a caller at `after` may use after waiting for at most `capacity` points.
  Chunk* find(uint64_t size, uint64_t alignment, heddle_point_t after, uint32_t capacity) {
    Chunk* best = nullptr;
    for (const auto& chunk : chunks_) {
      const uint64_t offset = round_up(chunk->used, alignment);
      if (chunk->alignment < alignment || offset > chunk->size || size > chunk->size - offset) continue;
      settle(*chunk);
      const bool ordered = std::all_of(chunk->points.begin(), chunk->points.end(), [&](const heddle_point_t& point) {
        return point.timeline == after.timeline && point.value <= after.value;
      });
      if (!ordered && chunk->points.size() > capacity) continue;
      if (!best || chunk->used > best->used) best = chunk.get();
    }
    return best;
  }

  heddle_status_t* grow(Lock* lock, uint64_t bytes, uint64_t alignment, Chunk** out_chunk) {
    auto chunk = std::make_unique<Chunk>();
    heddle_block_params_t params = {};
    params.struct_size = sizeof params;
    params.size_bytes = chunk->size = round_up(bytes, kChunkAlignment);
    params.alignment_bytes = chunk->alignment = std::max(alignment, kChunkAlignment);
    params.owner = &kOwner;
    lock->unlock();
    uint32_t wait_count = 0;
    heddle_status_t* failed = provider_.allocate(provider_.self, &params, &chunk->block, nullptr, &wait_count);
    lock->lock();
    if (failed) return failed;
    const heddle_block_t block = chunk->block;
    try {
      chunks_.push_back(std::move(chunk));
    } catch (...) {
      lock->unlock();
      provider_.free(provider_.self, &block, nullptr, 0);
      lock->lock();
      throw;
    }
    *out_chunk = chunks_.back().get();
    ++provider_allocations_;
    reserved_.add(params.size_bytes);
    empty_bytes_ += params.size_bytes;
    return nullptr;
  }

  // Returns chunks without blocks to the provider until at most keep_bytes are reserved. Releases the lock meanwhile.
  void give_back(Lock* lock, uint64_t keep_bytes) {
    std::vector<std::unique_ptr<Chunk>> gone;
    gone.reserve(chunks_.size());
    for (size_t i = 0; i < chunks_.size() && reserved_.current > keep_bytes;) {
      settle(*chunks_[i]);
      if (chunks_[i]->live_blocks != 0 || !chunks_[i]->points.empty()) {
        ++i;
        continue;
      }
      reserved_.subtract(chunks_[i]->size);
      empty_bytes_ -= chunks_[i]->size;
      gone.push_back(std::move(chunks_[i]));
      chunks_[i] = std::move(chunks_.back());
      chunks_.pop_back();
    }
    lock->unlock();
    for (const auto& chunk : gone) provider_.free(provider_.self, &chunk->block, nullptr, 0);
    lock->lock();
  }

  heddle_status_t* exhausted(Lock* lock, uint64_t size, std::string cause) {
    ++exhaustions_;
    char state[160];
    std::snprintf(state, sizeof state, " (%llu reserved, of which %llu in %llu live blocks, %llu freed but still in use by the device)",
                  number(reserved_.current), number(allocated_.current), number(allocations_ - frees_),
                  number(active_.current - allocated_.current));
    lock->unlock();
    cause = cause.substr(0, cause.find('\n')) + state;
    return sdk::exhaustion_status(host_, "arena", name_, size, cause, "use less, or heddle.pool",
                                  sdk::Holders::of(host_, [&](auto visit, void* context) { return holders(visit, context); }));
  }

  const heddle_host_t* const host_;
  const heddle_provider_t& provider_;
  const std::string name_;
  uint64_t chunk_bytes_ = 32 << 20;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  Piece* live_ = nullptr;
  Piece* spare_ = nullptr;
  uint64_t empty_bytes_ = 0;  // bytes of chunks without blocks and points
  sdk::MemoryCount requested_, allocated_, active_, reserved_, inactive_split_;
  uint64_t allocations_ = 0, frees_ = 0, provider_allocations_ = 0, retries_ = 0, exhaustions_ = 0;
};

}  // namespace
}  // namespace heddle::arena

HEDDLE_ALLOCATOR_PLUGIN(heddle::arena::Arena)
