// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cutting, reusing, joining and giving back.
#include "pool.h"

#include <algorithm>
#include <cstdio>
#include <new>

#include "heddle/sdk/status.h"

namespace heddle::pool {
namespace {

using sdk::status;

constexpr uint64_t kSmall = 256 << 10, kSmallChunk = 2 << 20;
constexpr uint64_t kMiddle = 8 << 20, kMiddleChunk = 32 << 20;
constexpr uint64_t kRound = 2 << 20;
constexpr uint64_t kMaxSize = uint64_t{1} << 62;
constexpr uint64_t kChunkAlignment = 4096;
constexpr size_t kSettleOnAllocate = 4;

uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}
unsigned long long number(uint64_t value) {
  return value;
}

// True if a part that starts at `offset` holds `size` bytes after rounding its start up.
bool holds(const Part* part, uint64_t size, uint64_t alignment) {
  const uint64_t skipped = round_up(part->offset, alignment) - part->offset;
  return part->size >= size && part->size - size >= skipped;
}

}  // namespace

Pool::Pool(Instance* instance, const heddle_provider_t& provider, std::string name, uint64_t limit_bytes)
    : instance_(instance), provider_(provider), name_(std::move(name)), limit_(limit_bytes) {
  instance_->pools.fetch_add(1);
}

Pool::~Pool() {
  for (Chunk* chunk : chunks_) {
    for (Part* part = chunk->first; part;) {
      Part* after = part->after;
      delete part->pending;
      delete part;
      part = after;
    }
    provider_.free(provider_.self, chunk->buffer);
    delete chunk;
  }
  while (Part* part = spare_parts_) {
    spare_parts_ = part->next_free;
    delete part;
  }
  instance_->pools.fetch_sub(1);
}

Part* Pool::new_part() {
  if (Part* part = spare_parts_) {
    spare_parts_ = part->next_free;
    *part = Part();
    return part;
  }
  return new Part;
}

void Pool::drop_part(Part* part) noexcept {
  part->next_free = spare_parts_;
  spare_parts_ = part;
}

Part* Pool::carve(Part* part, uint64_t size, uint64_t alignment) {
  const uint64_t start = round_up(part->offset, alignment);
  // Made first, so that running out of memory leaves everything as it was.
  Part* head = start != part->offset ? new_part() : nullptr;
  Part* tail = nullptr;
  if (part->offset + part->size != start + size) {
    try {
      tail = new_part();
    } catch (...) {
      if (head) drop_part(head);
      throw;
    }
  }
  if (head) {
    head->chunk = part->chunk;
    head->offset = part->offset;
    head->size = start - part->offset;
    head->before = part->before;
    head->after = part;
    (part->before ? part->before->after : part->chunk->first) = head;
    part->before = head;
    part->offset = start;
    part->size -= head->size;
  }
  if (tail) {
    tail->chunk = part->chunk;
    tail->offset = start + size;
    tail->size = part->size - size;
    tail->before = part;
    tail->after = part->after;
    if (part->after) part->after->before = tail;
    part->after = tail;
    part->size = size;
  }
  part->state = Part::State::kUsed;  // so that the rest does not join it again
  if (head) make_free(head);
  if (tail) make_free(tail);
  return part;
}

void Pool::make_free(Part* part) noexcept {
  part->state = Part::State::kFree;
  if (Part* after = part->after; after && after->state == Part::State::kFree) {
    free_.remove(after);
    part->size += after->size;
    part->after = after->after;
    if (after->after) after->after->before = part;
    drop_part(after);
  }
  if (Part* before = part->before; before && before->state == Part::State::kFree) {
    free_.remove(before);
    before->size += part->size;
    before->after = part->after;
    if (part->after) part->after->before = before;
    drop_part(part);
    part = before;
  }
  free_.insert(part);
}

void Pool::make_pending(Part* part, const heddle_point_t* points, uint32_t count) {
  part->pending = new Pending;
  part->pending->points.assign(points, points + count);
  part->state = Part::State::kPending;
  part->next_free = nullptr;
  part->previous_free = last_pending_;
  (last_pending_ ? last_pending_->next_free : first_pending_) = part;
  last_pending_ = part;
  pending_bytes_ += part->size;
}

void Pool::unlink_pending(Part* part) noexcept {
  (part->previous_free ? part->previous_free->next_free : first_pending_) = part->next_free;
  (part->next_free ? part->next_free->previous_free : last_pending_) = part->previous_free;
  part->previous_free = part->next_free = nullptr;
  pending_bytes_ -= part->size;
  delete part->pending;
  part->pending = nullptr;
}

void Pool::settle(size_t most) {
  for (Part* part = first_pending_; part && most != 0; --most) {
    Part* next = part->next_free;
    std::vector<heddle_point_t>& points = part->pending->points;
    std::erase_if(points, [&](const heddle_point_t& point) { return provider_.reached(provider_.self, point) != 0; });
    if (points.empty()) {
      unlink_pending(part);
      --part->chunk->used_parts;
      part->chunk->used_bytes -= part->size;
      make_free(part);
    }
    part = next;
  }
}

Part* Pool::find_in_stream_order(uint64_t size, uint64_t alignment, heddle_point_t after) {
  Part* best = nullptr;
  for (Part* part = first_pending_; part; part = part->next_free) {
    if (!holds(part, size, alignment) || (best && part->size >= best->size)) continue;
    const auto& points = part->pending->points;
    const bool behind = std::all_of(points.begin(), points.end(), [&](const heddle_point_t& point) {
      return (point.timeline == after.timeline && point.value <= after.value) || provider_.reached(provider_.self, point) != 0;
    });
    if (behind) best = part;
  }
  return best;
}

Part* Pool::find_with_waits(uint64_t size, uint64_t alignment, uint32_t capacity) {
  Part* best = nullptr;
  for (Part* part = first_pending_; part; part = part->next_free) {
    if (!holds(part, size, alignment) || part->pending->points.size() > capacity) continue;
    if (!best || part->size < best->size) best = part;
  }
  return best;
}

uint64_t Pool::chunk_bytes(uint64_t size) const noexcept {
  if (size <= kSmall) return kSmallChunk;
  if (size <= kMiddle) return kMiddleChunk;
  return round_up(size, kRound);
}

heddle_status_t* Pool::grow(Lock* lock, uint64_t bytes, uint64_t alignment) {
  uint64_t wanted = bytes;
  if (limit_ && (statistics_.bytes_reserved >= limit_ || wanted > limit_ - statistics_.bytes_reserved)) {
    const uint64_t left = limit_ - std::min(limit_, statistics_.bytes_reserved);
    return status(host(), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "pool_limit of %llu bytes leaves %llu", number(limit_), number(left));
  }
  auto* chunk = new Chunk;
  statistics_.bytes_reserved += wanted;  // taken before the lock is let go, so that the limit holds
  lock->unlock();
  heddle_status_t* failed = provider_.allocate(provider_.self, wanted, std::max(alignment, kChunkAlignment), &chunk->buffer);
  lock->lock();
  if (failed) {
    statistics_.bytes_reserved -= wanted;
    delete chunk;
    return failed;
  }
  chunk->size = wanted;
  Part* whole = nullptr;
  try {
    whole = new_part();
    chunk->index = chunks_.size();
    chunks_.push_back(chunk);
  } catch (...) {
    statistics_.bytes_reserved -= wanted;
    if (whole) drop_part(whole);
    lock->unlock();
    provider_.free(provider_.self, chunk->buffer);
    delete chunk;
    lock->lock();
    throw;
  }
  whole->chunk = chunk;
  whole->size = wanted;
  chunk->first = whole;
  free_.insert(whole);
  statistics_.peak_reserved = std::max(statistics_.peak_reserved, statistics_.bytes_reserved);
  return nullptr;
}

heddle_status_t* Pool::reserve(uint64_t bytes) {
  Lock lock(mutex_);
  if (bytes > kMaxSize) {
    return status(host(), HEDDLE_STATUS_INVALID_ARGUMENT, "pool: reserving %llu bytes failed: more than 2^62", number(bytes));
  }
  return bytes ? grow(&lock, round_up(bytes, kGranule), kChunkAlignment) : nullptr;
}

void Pool::hand_out(Part* part, const heddle_block_params_t& params, heddle_block_t* out) noexcept {
  part->state = Part::State::kUsed;
  part->requested = params.size_bytes;
  ++part->chunk->used_parts;
  part->chunk->used_bytes += part->size;
  ++statistics_.allocations;
  statistics_.requested += params.size_bytes;
  statistics_.allocated += part->size;
  statistics_.peak_allocated = std::max(statistics_.peak_allocated, statistics_.allocated);
  *out = {part->chunk->buffer, part->offset, params.size_bytes, reinterpret_cast<uint64_t>(part)};
}

heddle_status_t* Pool::allocate(const heddle_block_params_t& params, heddle_block_t* out, heddle_point_t* out_waits,
                                uint32_t* out_wait_count) {
  *out_wait_count = 0;
  if (params.alignment_bytes & (params.alignment_bytes - 1)) {
    return status(host(), HEDDLE_STATUS_INVALID_ARGUMENT, "pool: allocating %llu bytes from '%s' failed: alignment %llu is no power of two",
                  number(params.size_bytes), name_.c_str(), number(params.alignment_bytes));
  }
  const uint64_t alignment = std::max(params.alignment_bytes, kGranule);
  if (params.size_bytes > kMaxSize || alignment > kMaxSize) return exhausted(params.size_bytes, nullptr);
  const uint64_t size = std::max(round_up(params.size_bytes, kGranule), kGranule);

  Lock lock(mutex_);
  if (first_pending_) settle(kSettleOnAllocate);
  // From a list into a used part; what carve throws leaves the part in its list.
  auto take_free = [&](Part* part) {
    free_.remove(part);
    try {
      return carve(part, size, alignment);
    } catch (...) {
      free_.insert(part);
      throw;
    }
  };
  auto take_pending = [&](Part* part) {
    // Split off as a free part, the rest would be reused without its points: hand the whole part out.
    unlink_pending(part);
    --part->chunk->used_parts;
    part->chunk->used_bytes -= part->size;
    return part;
  };
  heddle_status_t* cause = nullptr;
  for (int attempt = 0;; ++attempt) {
    if (Part* part = free_.find(size, alignment)) {
      hand_out(take_free(part), params, out);
      break;
    }
    if (first_pending_) {
      settle(SIZE_MAX);
      if (Part* part = free_.find(size, alignment)) {
        hand_out(take_free(part), params, out);
        break;
      }
      // A much larger part would be wasted on this block, since it is not split.
      if (params.after.timeline) {
        Part* part = find_in_stream_order(size, alignment, params.after);
        if (part && part->offset % alignment == 0 && (part->size <= size + size / 2 || attempt > 0)) {
          hand_out(take_pending(part), params, out);
          break;
        }
      }
    }
    if (attempt == 2) {
      // All that is left: memory that others still use, handed over with what to wait for.
      Part* part = params.after.timeline ? find_with_waits(size, alignment, params.wait_capacity) : nullptr;
      if (part && part->offset % alignment == 0) {
        *out_wait_count = static_cast<uint32_t>(part->pending->points.size());
        std::copy(part->pending->points.begin(), part->pending->points.end(), out_waits);
        hand_out(take_pending(part), params, out);
        break;
      }
      lock.unlock();
      return exhausted(params.size_bytes, cause);
    }
    if (cause) {
      host()->status_free(host()->self, cause);
      cause = nullptr;
    }
    // Chunks are aligned to the request, so that a fresh one always fits it. The second time as small as can be.
    const uint64_t bytes = attempt == 0 ? chunk_bytes(size) : size;
    if (attempt == 1) {
      ++statistics_.retries;
      give_back(&lock, 0);
    }
    cause = grow(&lock, bytes, alignment);
    if (!cause) {
      attempt = -1;  // somebody else may take it before us; then again
      continue;
    }
    if (host()->status_code(host()->self, cause) != HEDDLE_STATUS_RESOURCE_EXHAUSTED) return cause;
  }
  if (cause) host()->status_free(host()->self, cause);
  return nullptr;
}

heddle_status_t* Pool::exhausted(uint64_t size, heddle_status_t* cause) {
  uint64_t pending_bytes = 0;
  {
    Lock lock(mutex_);
    ++statistics_.exhaustions;
    pending_bytes = pending_bytes_;
  }
  const heddle_allocator_statistics_t now = statistics();
  char reason[320] = "";
  if (cause) {
    const heddle_string_t text = host()->status_message(host()->self, cause);
    std::snprintf(reason, sizeof reason, " (%.*s)", static_cast<int>(std::min<uint64_t>(text.size, 300)), text.data);
    host()->status_free(host()->self, cause);
  }
  return status(host(), HEDDLE_STATUS_RESOURCE_EXHAUSTED,
                "pool: allocating %llu bytes from '%s' failed: %llu reserved, of which %llu in %llu live blocks, %llu freed but still in "
                "use by the device, %llu free in parts of used chunks%s; raise pool_limit or use less [HD-M-03]",
                number(size), name_.c_str(), number(now.bytes_reserved), number(now.allocated), number(now.allocations - now.frees),
                number(pending_bytes), number(now.inactive_split), reason);
}

void Pool::free(const heddle_block_t& block, const heddle_point_t* points, uint32_t count) {
  auto* part = reinterpret_cast<Part*>(block.token);
  Lock lock(mutex_);
  ++statistics_.frees;
  statistics_.requested -= part->requested;
  statistics_.allocated -= part->size;
  bool wait = false;
  for (uint32_t i = 0; i < count && !wait; ++i) wait = provider_.reached(provider_.self, points[i]) == 0;
  if (wait) {
    make_pending(part, points, count);
    return;
  }
  --part->chunk->used_parts;
  part->chunk->used_bytes -= part->size;
  make_free(part);
}

std::vector<heddle_buffer_t*> Pool::take_empty_chunks(uint64_t keep_bytes) {
  std::vector<Chunk*> empty;
  for (Chunk* chunk : chunks_) {
    if (chunk->used_parts == 0) empty.push_back(chunk);
  }
  std::sort(empty.begin(), empty.end(), [](const Chunk* a, const Chunk* b) { return a->size > b->size; });
  std::vector<heddle_buffer_t*> buffers;
  buffers.reserve(empty.size());
  for (Chunk* chunk : empty) {
    if (statistics_.bytes_reserved <= keep_bytes) break;
    free_.remove(chunk->first);  // without used parts, one free part is all there is
    drop_part(chunk->first);
    chunks_.back()->index = chunk->index;
    std::swap(chunks_[chunk->index], chunks_.back());
    chunks_.pop_back();
    statistics_.bytes_reserved -= chunk->size;
    buffers.push_back(chunk->buffer);
    delete chunk;
  }
  return buffers;
}

void Pool::give_back(Lock* lock, uint64_t keep_bytes) {
  const std::vector<heddle_buffer_t*> buffers = take_empty_chunks(keep_bytes);
  if (buffers.empty()) return;
  lock->unlock();
  for (heddle_buffer_t* buffer : buffers) provider_.free(provider_.self, buffer);
  lock->lock();
}

void Pool::trim(uint64_t keep_bytes) {
  Lock lock(mutex_);
  settle(SIZE_MAX);
  give_back(&lock, keep_bytes);
}

heddle_allocator_statistics_t Pool::statistics() {
  Lock lock(mutex_);
  heddle_allocator_statistics_t now = statistics_;
  for (const Chunk* chunk : chunks_) {
    if (chunk->used_parts) now.inactive_split += chunk->size - chunk->used_bytes;
  }
  return now;
}

uint64_t Pool::live_blocks() {
  Lock lock(mutex_);
  return statistics_.allocations - statistics_.frees;
}

}  // namespace heddle::pool
