// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cutting, reusing, joining and giving back.
#include "pool.h"

#include <algorithm>
#include <bit>

HEDDLE_ALLOCATOR_PLUGIN(heddle::pool::Pool)

namespace heddle::pool {
namespace {

using sdk::number;
using sdk::status;

// Chosen with the traces of tests/support/memory_trace.h: what is reserved at its peak against calls of the provider.
constexpr uint64_t kLeastLarge = 512 << 10, kMostLarge = 8 << 20;   // a large block is a 64th of what is reserved, within these
constexpr uint64_t kLeastChunk = 128 << 10, kMostChunk = 64 << 20;  // a shared chunk is an 8th of all shared ones, within these
constexpr uint64_t kLargeClasses = 16;                              // between two powers of two
constexpr uint64_t kWaste = 4;                                      // a large block leaves at most a 4th of its size unused
constexpr uint64_t kSlack = 10;                                     // a 10th more than was needed at most may be reserved
constexpr uint64_t kCutChunk = 24;                                  // a chunk of at most a 24th of what was needed at most is cut
constexpr uint64_t kCutBlock = 4;                                   // by a block of at least a 4th of it

constexpr uint64_t kMaxSize = uint64_t{1} << 62;
constexpr uint64_t kChunkAlignment = 4096;
constexpr size_t kSettleOnAllocate = 4;
constexpr heddle_string_t kOwner = sdk::string_of("chunks of heddle.pool");

// to: a power of two, as every alignment is.
uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) & ~(to - 1);
}

}  // namespace

Pool::Pool(const sdk::AllocatorSetup& setup) : host_(setup.host()), provider_(setup.provider()), name_(setup.name()) {}

Pool::~Pool() {
  for (Chunk* chunk : chunks_) {
    std::vector<heddle_point_t> points;
    for (Part* part = chunk->first; part;) {
      Part* after = part->after;
      if (part->pending) points.insert(points.end(), part->pending->points.begin(), part->pending->points.end());
      delete part->pending;
      delete part;
      part = after;
    }
    provider_.free(provider_.self, &chunk->block, points.data(), static_cast<uint32_t>(points.size()));
    delete chunk;
  }
  while (Part* part = spare_parts_) {
    spare_parts_ = part->next_free;
    delete part;
  }
}

heddle_status_t* Pool::open(const sdk::AllocatorSetup& setup) {
  uint64_t initial = 0, limit = 0;
  std::string on_limit;
  if (heddle_status_t* bad = setup.bytes("pool_initial", &initial)) return bad;
  if (heddle_status_t* bad = setup.bytes("pool_limit", &limit)) return bad;
  if (heddle_status_t* bad = setup.text("on_limit", &on_limit)) return bad;
  if (limit && initial > limit) {
    return status(host_, HEDDLE_STATUS_INVALID_ARGUMENT, "pool: creating a pool failed: pool_initial %llu is more than pool_limit %llu",
                  number(initial), number(limit));
  }
  if (limit) limit_ = limit;
  trims_ = on_limit != "fail";
  if (!initial) return nullptr;
  if (initial > kMaxSize) {
    return status(host_, HEDDLE_STATUS_INVALID_ARGUMENT, "pool: reserving %llu bytes failed: more than 2^62", number(initial));
  }
  Lock lock(mutex_);
  Part* part = nullptr;
  const uint64_t size = initial / kGranule * kGranule;
  if (heddle_status_t* failed = grow(&lock, std::max(size, kGranule), {size, kChunkAlignment, false}, &part)) return failed;
  part->chunk->initial = true;
  make_free(part);
  return nullptr;
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

Pool::Wanted Pool::rounded(const heddle_block_params_t& params) const noexcept {
  const uint64_t alignment = std::max(params.alignment_bytes, kGranule);
  const uint64_t size = std::max(round_up(params.size_bytes, kGranule), kGranule);
  if (size < std::clamp(std::bit_floor(reserved_.current / 64), kLeastLarge, kMostLarge) && alignment <= kChunkAlignment)
    return {size, alignment, false};
  return {round_up(size, std::max(std::bit_floor(size) / kLargeClasses, kChunkAlignment)), std::max(alignment, kChunkAlignment), true};
}

Part* Pool::find_free(const Wanted& wanted) const noexcept {
  if (wanted.large) {
    Part* part = free_[Chunk::kWhole].find(wanted.size, wanted.alignment);
    if (part && part->size - wanted.size <= wanted.size / kWaste) return part;
    if ((part = free_[Chunk::kCut].find(wanted.size, wanted.alignment))) return part;
  }
  return free_[Chunk::kShared].find(wanted.size, wanted.alignment);
}

Part* Pool::find_to_cut(const Wanted& wanted, uint64_t needed) const noexcept {
  Part* part = wanted.large ? free_[Chunk::kWhole].find(wanted.size, wanted.alignment) : nullptr;
  return part && part->size <= needed / kCutChunk && wanted.size >= part->size / kCutBlock ? part : nullptr;
}

Part* Pool::take(Part* part, const Wanted& wanted) {
  const uint64_t start = round_up(part->offset, wanted.alignment);
  // Made first, so that running out of memory leaves everything as it was.
  Part* head = nullptr;
  Part* tail = nullptr;
  if (part->chunk->kind != Chunk::kWhole) {
    try {
      if (start != part->offset) head = new_part();
      if (part->offset + part->size != start + wanted.size) tail = new_part();
    } catch (...) {
      if (head) drop_part(head);
      make_free(part);
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
    tail->offset = start + wanted.size;
    tail->size = part->size - wanted.size;
    tail->before = part;
    tail->after = part->after;
    if (part->after) part->after->before = tail;
    part->after = tail;
    part->size = wanted.size;
  }
  part->state = Part::State::kUsed;  // so that the rest does not join it again
  if (head) make_free(head);
  if (tail) make_free(tail);
  activate(part->chunk, part->size);
  return part;
}

void Pool::make_free(Part* part) noexcept {
  FreeBlocks& list = free_[part->chunk->kind];
  part->state = Part::State::kFree;
  if (Part* after = part->after; after && after->state == Part::State::kFree) {
    list.remove(after);
    part->size += after->size;
    part->after = after->after;
    if (after->after) after->after->before = part;
    drop_part(after);
  }
  if (Part* before = part->before; before && before->state == Part::State::kFree) {
    list.remove(before);
    before->size += part->size;
    before->after = part->after;
    if (part->after) part->after->before = before;
    drop_part(part);
    part = before;
  }
  if (part->chunk->kind == Chunk::kCut && part->size == part->chunk->size) part->chunk->kind = Chunk::kWhole;
  free_[part->chunk->kind].insert(part);
}

void Pool::activate(Chunk* chunk, uint64_t bytes) noexcept {
  if (chunk->active_parts++ == 0) empty_bytes_ -= chunk->size;
  chunk->active_bytes += bytes;
  active_.add(bytes);
  inactive_split_.become(reserved_.current - active_.current - empty_bytes_);
}

void Pool::deactivate(Chunk* chunk, uint64_t bytes) noexcept {
  if (--chunk->active_parts == 0) empty_bytes_ += chunk->size;
  chunk->active_bytes -= bytes;
  active_.subtract(bytes);
  inactive_split_.become(reserved_.current - active_.current - empty_bytes_);
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
  deactivate(part->chunk, part->size);
}

void Pool::settle(size_t most) {
  for (Part* part = first_pending_; part && most != 0; --most) {
    Part* next = part->next_free;
    std::vector<heddle_point_t>& points = part->pending->points;
    std::erase_if(points, [&](const heddle_point_t& point) { return provider_.reached(provider_.self, point) != 0; });
    if (points.empty()) {
      unlink_pending(part);
      make_free(part);
    }
    part = next;
  }
}

Part* Pool::find_in_stream_order(const Wanted& wanted, heddle_point_t after) {
  Part* best = nullptr;
  for (Part* part = first_pending_; part; part = part->next_free) {
    if ((part->offset & (wanted.alignment - 1)) != 0 || !holds(*part, wanted.size, wanted.alignment) || (best && part->size >= best->size))
      continue;
    const auto& points = part->pending->points;
    const bool behind = std::all_of(points.begin(), points.end(), [&](const heddle_point_t& point) {
      return (point.timeline == after.timeline && point.value <= after.value) || provider_.reached(provider_.self, point) != 0;
    });
    if (behind) best = part;
  }
  return best;
}

Part* Pool::find_with_waits(const Wanted& wanted, uint32_t capacity) {
  Part* best = nullptr;
  for (Part* part = first_pending_; part; part = part->next_free) {
    if ((part->offset & (wanted.alignment - 1)) != 0 || !holds(*part, wanted.size, wanted.alignment)) continue;
    if (part->pending->points.size() <= capacity && (!best || part->size < best->size)) best = part;
  }
  return best;
}

uint64_t Pool::shared_chunk_bytes(uint64_t size) const noexcept {
  return std::max(round_up(size, kChunkAlignment), std::clamp(std::bit_floor(shared_bytes_ / 8), kLeastChunk, kMostChunk));
}

heddle_status_t* Pool::grow(Lock* lock, uint64_t bytes, const Wanted& wanted, Part** out_part) {
  const uint64_t held = reserved_.current + asked_bytes_;
  if (held > limit_ || bytes > limit_ - held) {
    return status(host_, HEDDLE_STATUS_RESOURCE_EXHAUSTED, "pool_limit of %llu bytes leaves %llu", number(limit_),
                  number(limit_ - std::min(limit_, held)));
  }
  heddle_block_params_t params = {};
  params.struct_size = sizeof params;
  params.size_bytes = bytes;
  params.alignment_bytes = std::max(wanted.alignment, kChunkAlignment);
  params.owner = &kOwner;
  auto* chunk = new Chunk;
  chunk->size = bytes;
  chunk->alignment = params.alignment_bytes;
  chunk->kind = wanted.large ? Chunk::kWhole : Chunk::kShared;
  asked_bytes_ += bytes;  // so that the limit holds without the lock
  lock->unlock();
  uint32_t wait_count = 0;
  heddle_status_t* failed = provider_.allocate(provider_.self, &params, &chunk->block, nullptr, &wait_count);
  lock->lock();
  asked_bytes_ -= bytes;
  if (failed) {
    delete chunk;
    return failed;
  }
  Part* whole = nullptr;
  try {
    whole = new_part();
    chunk->index = chunks_.size();
    chunks_.push_back(chunk);
  } catch (...) {
    if (whole) drop_part(whole);
    lock->unlock();
    provider_.free(provider_.self, &chunk->block, nullptr, 0);
    delete chunk;
    lock->lock();
    throw;
  }
  whole->chunk = chunk;
  whole->size = bytes;
  chunk->first = whole;
  ++provider_allocations_;
  reserved_.add(bytes);
  empty_bytes_ += bytes;
  if (chunk->kind == Chunk::kShared) shared_bytes_ += bytes;
  *out_part = whole;
  return nullptr;
}

void Pool::hand_out(Part* part, const heddle_block_params_t& params, heddle_block_t* out) noexcept {
  part->requested = params.size_bytes;
  part->owner = params.owner;
  ++allocations_;
  requested_.add(params.size_bytes);
  allocated_.add(part->size);
  needed_peak_ = std::max(needed_peak_, requested_.current + pending_bytes_);
  *out = {part->chunk->block.buffer, part->chunk->block.offset + part->offset, params.size_bytes, reinterpret_cast<uint64_t>(part)};
}

heddle_status_t* Pool::allocate(const heddle_block_params_t& params, heddle_block_t* out, heddle_point_t* out_waits,
                                uint32_t* out_wait_count) {
  Lock lock(mutex_);
  if (params.size_bytes > kMaxSize || params.alignment_bytes > kMaxSize) return exhausted(&lock, params.size_bytes, "more than 2^62 bytes");
  const Wanted wanted = rounded(params);
  auto take_free = [&]() -> bool {
    Part* part = find_free(wanted);
    if (!part) return false;
    free_[part->chunk->kind].remove(part);
    hand_out(take(part, wanted), params, out);
    return true;
  };
  // Split, the rest of a pending part would be reused without its points: it is handed out whole.
  auto take_pending = [&](Part* part) {
    unlink_pending(part);
    part->state = Part::State::kUsed;
    activate(part->chunk, part->size);
    hand_out(part, params, out);
  };

  if (first_pending_) settle(kSettleOnAllocate);
  if (take_free()) return nullptr;
  if (first_pending_) {
    settle(SIZE_MAX);
    if (take_free()) return nullptr;
    if (Part* part = params.after.timeline ? find_in_stream_order(wanted, params.after) : nullptr) {
      if (part->size <= wanted.size + wanted.size / 2) {  // a much larger one would be wasted
        take_pending(part);
        return nullptr;
      }
    }
  }
  std::string cause;
  for (bool retry : {false, true}) {
    uint64_t bytes = wanted.large ? wanted.size : shared_chunk_bytes(wanted.size);
    if (retry) {
      ++retries_;
      bytes = wanted.large ? wanted.size : round_up(wanted.size, kChunkAlignment);
      settle(SIZE_MAX);
      give_back(&lock, 0, true);
      if (take_free()) return nullptr;
    } else {
      // What is empty goes, or is cut, before more is reserved than what is in use can explain.
      const uint64_t needed = std::max(needed_peak_, requested_.current + pending_bytes_ + params.size_bytes);
      const uint64_t most = needed + needed / kSlack;
      if (reserved_.current + asked_bytes_ + bytes > most) {
        if (Part* part = find_to_cut(wanted, needed)) {
          free_[Chunk::kWhole].remove(part);
          part->chunk->kind = Chunk::kCut;
          hand_out(take(part, wanted), params, out);
          return nullptr;
        }
        give_back(&lock, most - std::min(most, bytes), false);
      }
    }
    Part* part = nullptr;
    heddle_status_t* failed = grow(&lock, bytes, wanted, &part);
    if (!failed) {
      hand_out(take(part, wanted), params, out);
      return nullptr;
    }
    if (host_->status_code(host_->self, failed) != HEDDLE_STATUS_RESOURCE_EXHAUSTED) return failed;
    cause = sdk::take_text(host_, failed);
    if (!trims_) break;
  }
  // All that is left is memory that work still uses: the caller's own, which it does not wait for, or others', with what to wait for.
  if (params.after.timeline) {
    Part* part = find_in_stream_order(wanted, params.after);
    if (!part && (part = find_with_waits(wanted, params.wait_capacity))) {
      *out_wait_count = static_cast<uint32_t>(part->pending->points.size());
      std::copy(part->pending->points.begin(), part->pending->points.end(), out_waits);
    }
    if (part) {
      take_pending(part);
      return nullptr;
    }
  }
  return exhausted(&lock, params.size_bytes, std::move(cause));
}

heddle_status_t* Pool::exhausted(Lock* lock, uint64_t size, std::string cause) {
  ++exhaustions_;
  char state[256];
  std::snprintf(state, sizeof state,
                " (%llu reserved, of which %llu in %llu live blocks, %llu freed but still in use by the device, %llu free in parts of used "
                "chunks)",
                number(reserved_.current), number(allocated_.current), number(allocations_ - frees_), number(pending_bytes_),
                number(inactive_split_.current));
  lock->unlock();
  cause = cause.substr(0, cause.find('\n')) + state;
  return sdk::exhaustion_status(host_, "pool", name_, size, cause, limit_ == UINT64_MAX ? "use less" : "raise pool_limit or use less",
                                sdk::Holders::of(host_, [&](auto visit, void* context) { return holders(visit, context); }));
}

void Pool::free(const heddle_block_t& block, const heddle_point_t* points, uint32_t count) {
  auto* part = reinterpret_cast<Part*>(block.token);
  Lock lock(mutex_);
  ++frees_;
  requested_.subtract(part->requested);
  allocated_.subtract(part->size);
  for (uint32_t i = 0; i < count; ++i) {
    if (provider_.reached(provider_.self, points[i])) continue;
    make_pending(part, points, count);
    return;
  }
  deactivate(part->chunk, part->size);
  make_free(part);
}

void Pool::give_back(Lock* lock, uint64_t keep_bytes, bool also_initial) {
  if (reserved_.current <= keep_bytes || !empty_bytes_) return;
  std::vector<Chunk*> empty;
  for (Chunk* chunk : chunks_) {
    if (chunk->active_parts == 0 && (also_initial || !chunk->initial)) empty.push_back(chunk);
  }
  std::sort(empty.begin(), empty.end(), [](const Chunk* a, const Chunk* b) { return a->size > b->size; });
  size_t count = 0;
  for (Chunk* chunk : empty) {
    if (reserved_.current <= keep_bytes) break;
    free_[chunk->kind].remove(chunk->first);  // without active parts, one free part is all there is
    drop_part(chunk->first);
    chunks_.back()->index = chunk->index;
    std::swap(chunks_[chunk->index], chunks_.back());
    chunks_.pop_back();
    reserved_.subtract(chunk->size);
    empty_bytes_ -= chunk->size;
    if (chunk->kind == Chunk::kShared) shared_bytes_ -= chunk->size;
    ++count;
  }
  lock->unlock();
  for (size_t i = 0; i < count; ++i) {
    provider_.free(provider_.self, &empty[i]->block, nullptr, 0);
    delete empty[i];
  }
  lock->lock();
}

heddle_status_t* Pool::trim(uint64_t keep_bytes) {
  Lock lock(mutex_);
  settle(SIZE_MAX);
  give_back(&lock, keep_bytes, true);
  lock.unlock();
  return provider_.trim(provider_.self, keep_bytes);
}

heddle_status_t* Pool::statistics(heddle_allocator_statistics_t* out) {
  Lock lock(mutex_);
  *out = {out->struct_size,
          0,
          requested_,
          allocated_,
          active_,
          reserved_,
          inactive_split_,
          std::max({free_[Chunk::kShared].largest_bytes(), free_[Chunk::kWhole].largest_bytes(), free_[Chunk::kCut].largest_bytes()}),
          allocations_,
          frees_,
          provider_allocations_,
          retries_,
          exhaustions_};
  return nullptr;
}

heddle_status_t* Pool::holders(heddle_holder_visitor_t visit, void* context) {
  sdk::Holders holders;
  {
    Lock lock(mutex_);
    for (const Chunk* chunk : chunks_) {
      for (const Part* part = chunk->first; part; part = part->after) {
        if (part->state == Part::State::kUsed) holders.add(part->owner, part->requested);
      }
    }
  }
  holders.visit(visit, context);
  return nullptr;
}

uint64_t Pool::live_blocks() {
  Lock lock(mutex_);
  return allocations_ - frees_;
}

}  // namespace heddle::pool
