// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Splitting, reusing and joining parts, and the statistics.
#include "heap.h"

#include <algorithm>
#include <memory>

namespace heddle::pool {
namespace {

constexpr uint64_t kWaste = 4;        // a large block leaves at most a 4th of its size unused
constexpr uint64_t kSplitChunk = 24;  // chunks of at most a 24th of the peak need may be split
constexpr uint64_t kSplitBlock = 4;   // by a block of at least a 4th of the chunk
constexpr size_t kSettleOnAllocate = 4;

uint64_t more_split(int64_t split) noexcept {
  return static_cast<uint64_t>(std::max<int64_t>(split, 0));
}

// Whether one block takes all of it.
bool is_whole(const Chunk& chunk) noexcept {
  return chunk.kind == Chunk::kWhole || chunk.kind == Chunk::kSpilled;
}

}  // namespace

Heap::~Heap() {
  while (Part* part = spare_parts_) {
    spare_parts_ = part->next_free;
    delete part;
  }
}

uint64_t Peaks::now(Quantity quantity) const noexcept {
  uint64_t sum = 0;
  for (const Heap* heap : heaps_) sum += heap->books.now[quantity];
  return sum;
}

// The remainder up to a peak is divided equally among the heaps, regardless of their use: a heap that has much now may soon have more.
void Peaks::look() noexcept {
  for (uint32_t i = 0; i < kQuantities; ++i) {
    const uint64_t sum = now(static_cast<Quantity>(i));
    peak_[i] = std::max(peak_[i], sum);
    const uint64_t share = (peak_[i] - sum) / heaps_.size();
    for (Heap* heap : heaps_) heap->books.bound[i] = heap->books.now[i] + share;
  }
}

// The sum of the bounds does not change. Takes half of what another heap has left, so that this is rare, or as much as is needed.
bool Heap::borrow(const uint64_t (&more)[kQuantities]) noexcept {
  const std::vector<Heap*>& heaps = of_all_.heaps();
  const size_t self = static_cast<size_t>(std::find(heaps.begin(), heaps.end(), this) - heaps.begin());
  for (size_t i = 1; i < heaps.size(); ++i) {
    Heap& other = *heaps[(self + i) % heaps.size()];
    if (!other.lock.try_lock()) continue;
    bool enough = true;
    for (uint32_t at = 0; at < kQuantities; ++at) {
      const uint64_t wanted = books.now[at] + more[at];
      if (wanted <= books.bound[at]) continue;
      const uint64_t left = other.books.bound[at] - other.books.now[at];
      const uint64_t taken = std::max(std::min(left, wanted - books.bound[at]), left / 2);
      other.books.bound[at] -= taken;
      books.bound[at] += taken;
      enough &= wanted <= books.bound[at];
    }
    other.lock.unlock();
    if (enough) return true;
  }
  return false;
}

int64_t Heap::split_by_activating(const Chunk& chunk, uint64_t bytes) noexcept {
  return static_cast<int64_t>(chunk.active_parts == 0 ? chunk.size - chunk.span_bytes - bytes : 0 - bytes);
}

int64_t Heap::split_by_deactivating(const Chunk& chunk, uint64_t bytes) noexcept {
  return static_cast<int64_t>(chunk.active_parts == 1 ? bytes - (chunk.size - chunk.span_bytes) : bytes);
}

void Heap::add_split(int64_t bytes) noexcept {
  books.now[kInactiveSplit] += static_cast<uint64_t>(bytes);
  books.total[kInactiveSplit] += static_cast<uint64_t>(std::max<int64_t>(bytes, 0));
}

// Done before anything changes, so that running out of memory leaves everything unchanged.
void Heap::have_spare_parts() {
  constexpr size_t kMost = 2;  // before and after a block
  size_t count = 0;
  for (Part* part = spare_parts_; part && count < kMost; part = part->next_free) ++count;
  for (; count < kMost; ++count) drop_part(new Part);
}

Part* Heap::new_part(Chunk* chunk, uint64_t offset, uint64_t size, Part* before, Part* after) noexcept {
  Part* part = spare_parts_;
  spare_parts_ = part->next_free;
  part->chunk = chunk;
  part->offset = offset;
  part->size = size;
  part->before = before;
  part->after = after;
  (before ? before->after : chunk->first) = part;
  if (after) after->before = part;
  return part;
}

void Heap::drop_part(Part* part) noexcept {
  part->next_free = spare_parts_;
  spare_parts_ = part;
}

Part* Heap::add(Chunk* chunk) {
  have_spare_parts();
  chunk->index = chunks.size();
  chunks.push_back(chunk);
  Part* whole = new_part(chunk, 0, chunk->size, nullptr, nullptr);
  chunk->heap = this;
  make_free(whole);
  return whole;
}

void Heap::remove(Chunk* chunk) noexcept {
  free_[chunk->kind].remove(chunk->first);  // it consists of one free part
  drop_part(chunk->first);
  chunks.back()->index = chunk->index;
  std::swap(chunks[chunk->index], chunks.back());
  chunks.pop_back();
}

Part* Heap::find_free(const Wanted& wanted) noexcept {
  if (wanted.size <= kQuickSize) {
    Part* part = quick_[wanted.size / kGranule];
    if (part && (part->offset & (wanted.alignment - 1)) == 0) return part;
  }
  if (Part* part = find_joined(wanted)) return part;
  if (quick_bytes_ == 0) return nullptr;
  join_quick();
  return find_joined(wanted);
}

void Heap::join_quick() noexcept {
  for (Part*& first : quick_) {
    while (Part* part = first) {
      first = part->next_free;
      make_free(part);
    }
  }
  quick_bytes_ = 0;
}

Part* Heap::find_joined(const Wanted& wanted) const noexcept {
  if (wanted.large) {
    Part* part = free_[Chunk::kWhole].find(wanted.size, wanted.alignment);
    if (part && part->size - wanted.size <= wanted.size / kWaste) return part;
    if ((part = free_[Chunk::kSplit].find(wanted.size, wanted.alignment))) return part;
  }
  return free_[Chunk::kShared].find(wanted.size, wanted.alignment);
}

Part* Heap::find_to_split(const Wanted& wanted, uint64_t needed) noexcept {
  const uint64_t all = std::max(wanted.size, wanted.soon);
  Part* part = wanted.large ? free_[Chunk::kWhole].find(all, wanted.alignment) : nullptr;
  if (!part) return nullptr;
  const bool is_for_several = wanted.soon > wanted.size && part->size - all <= all / kWaste;
  if (!is_for_several && (part->size > needed / kSplitChunk || wanted.size < part->size / kSplitBlock)) return nullptr;
  split(part);
  return part;
}

void Heap::split(Part* whole) noexcept {
  free_[Chunk::kWhole].remove(whole);
  whole->chunk->kind = Chunk::kSplit;
  free_[Chunk::kSplit].insert(whole);
}

bool Heap::allocate(const Wanted& wanted, const heddle_block_params_t& params, heddle_block_t* out) {
  if (first_pending_ && !settle(kSettleOnAllocate)) return false;
  if (Part* part = find_free(wanted)) return take(part, wanted, params, out);
  if (!first_pending_) return false;
  if (!settle(SIZE_MAX)) return false;
  if (Part* part = find_free(wanted)) return take(part, wanted, params, out);
  Part* part = params.after.timeline ? find_in_stream_order(wanted, params.after) : nullptr;
  // A much larger part would be wasted.
  return part && part->size <= wanted.size + wanted.size / 2 && take_pending(part, params, out);
}

uint64_t Heap::size_of_taken(const Part& part, const Wanted& wanted) const noexcept {
  return is_whole(*part.chunk) ? part.size : wanted.size;
}

bool Heap::take(Part* part, const Wanted& wanted, const heddle_block_params_t& params, heddle_block_t* out) {
  const bool quick = part->state == Part::State::kQuick;
  if (!quick) have_spare_parts();
  const uint64_t size = size_of_taken(*part, wanted), requested = params.size_bytes;
  const int64_t split = split_by_activating(*part->chunk, size);
  const bool fits = has_room(kRequested, requested) & has_room(kAllocated, size) & has_room(kActive, size) & has_room(kNeeded, requested) &
                    has_room(kInactiveSplit, static_cast<uint64_t>(split));
  if (!fits && !peaks && !borrow({requested, size, size, more_split(split), requested})) return false;
  add(kRequested, requested);
  add(kAllocated, size);
  add(kActive, size);
  add(kNeeded, requested);
  add_split(split);
  if (!fits && peaks) peaks->look();
  if (quick) {
    quick_[size / kGranule] = part->next_free;
    quick_bytes_ -= size;
  } else {
    part = split_off(part, wanted);
  }
  part->state = Part::State::kUsed;
  ++part->chunk->active_parts;
  hand_out(part, params, out);
  return true;
}

Part* Heap::take_span(Part* part, const Wanted& wanted) {
  have_spare_parts();
  part = split_off(part, wanted);
  part->state = Part::State::kSpan;
  Chunk* chunk = part->chunk;
  ++chunk->spans;
  chunk->span_bytes += part->size;
  if (chunk->active_parts != 0) subtract(kInactiveSplit, part->size);
  return part;
}

void Heap::free_span(Part* part) noexcept {
  Chunk* chunk = part->chunk;
  --chunk->spans;
  chunk->span_bytes -= part->size;
  if (chunk->active_parts != 0) {
    add(kInactiveSplit, part->size);
    peaks->look();
  }
  make_free(part);
}

// The rest keeps its place in its list if possible.
Part* Heap::split_off(Part* part, const Wanted& wanted) noexcept {
  FreeBlocks& list = free_[part->chunk->kind];
  const uint64_t start = round_up(part->offset, wanted.alignment), old_size = part->size;
  const uint64_t head = start - part->offset, remainder = old_size - head - wanted.size;
  if (is_whole(*part->chunk) || (head == 0 && remainder == 0)) {
    list.remove(part);
    return part;
  }
  if (head == 0) {
    Part* taken = new_part(part->chunk, start, wanted.size, part->before, part);
    part->offset = start + wanted.size;
    part->size = remainder;
    list.resized(part, old_size);
    return taken;
  }
  Part* taken = new_part(part->chunk, start, wanted.size, part, part->after);
  part->size = head;
  list.resized(part, old_size);
  if (remainder != 0) {
    Part* rest = new_part(part->chunk, start + wanted.size, remainder, taken, taken->after);
    rest->state = Part::State::kFree;
    list.insert(rest);
  }
  return taken;
}

void Heap::make_free(Part* part) noexcept {
  Chunk* chunk = part->chunk;
  FreeBlocks& list = free_[chunk->kind];
  Part* before = part->before && part->before->state == Part::State::kFree ? part->before : nullptr;
  Part* after = part->after && part->after->state == Part::State::kFree ? part->after : nullptr;
  if (before) {
    const uint64_t old_size = before->size;
    before->size += part->size;
    before->after = part->after;
    drop_part(part);
    if (after) {
      list.remove(after);
      before->size += after->size;
      before->after = after->after;
      drop_part(after);
    }
    if (before->after) before->after->before = before;
    list.resized(before, old_size);
    part = before;
  } else if (after) {
    const uint64_t old_size = after->size;
    after->offset = part->offset;
    after->size += part->size;
    after->before = part->before;
    (part->before ? part->before->after : chunk->first) = after;
    drop_part(part);
    list.resized(after, old_size);
    part = after;
  } else {
    part->state = Part::State::kFree;
    list.insert(part);
  }
  if (chunk->kind == Chunk::kSplit && part->size == chunk->size) {
    list.remove(part);
    chunk->kind = Chunk::kWhole;
    free_[Chunk::kWhole].insert(part);
  }
}

void Heap::hand_out(Part* part, const heddle_block_params_t& params, heddle_block_t* out) noexcept {
  part->requested = params.size_bytes;
  part->owner = params.owner;
  ++books.allocations;
  *out = {part->chunk->block.buffer, part->chunk->block.offset + part->offset, params.size_bytes, reinterpret_cast<uint64_t>(part)};
}

bool Heap::free(Part* part, const heddle_point_t* points, uint32_t count) {
  const bool waits =
      std::any_of(points, points + count, [&](const heddle_point_t& point) { return !provider_.reached(provider_.self, point); });
  const uint64_t size = part->size, requested = part->requested;
  if (waits) {
    auto pending = std::make_unique<Pending>();
    pending->points.assign(points, points + count);
    const bool fits = has_room(kNeeded, size - requested);
    if (!fits && !peaks && !borrow({0, 0, 0, 0, size - requested})) return false;
    subtract(kRequested, requested);
    subtract(kAllocated, size);
    add(kNeeded, size - requested);
    if (!fits && peaks) peaks->look();
    part->pending = pending.release();
    part->state = Part::State::kPending;
    part->next_free = nullptr;
    part->previous_free = last_pending_;
    (last_pending_ ? last_pending_->next_free : first_pending_) = part;
    last_pending_ = part;
    books.pending_bytes += size;
  } else {
    const int64_t split = split_by_deactivating(*part->chunk, size);
    const bool fits = has_room(kInactiveSplit, static_cast<uint64_t>(split));
    if (!fits && !peaks && !borrow({0, 0, 0, more_split(split), 0})) return false;
    subtract(kRequested, requested);
    subtract(kAllocated, size);
    subtract(kActive, size);
    subtract(kNeeded, requested);
    add_split(split);
    if (!fits && peaks) peaks->look();
    --part->chunk->active_parts;
    if (size <= kQuickSize && quick_bytes_ + size <= kQuickBytes && part->chunk->kind == Chunk::kShared) {
      part->state = Part::State::kQuick;
      part->next_free = quick_[size / kGranule];
      quick_[size / kGranule] = part;
      quick_bytes_ += size;
    } else {
      make_free(part);
    }
  }
  ++books.frees;
  return true;
}

void Heap::unlink_pending(Part* part) noexcept {
  (part->previous_free ? part->previous_free->next_free : first_pending_) = part->next_free;
  (part->next_free ? part->next_free->previous_free : last_pending_) = part->previous_free;
  books.pending_bytes -= part->size;
  delete part->pending;
  part->pending = nullptr;
}

bool Heap::settle(size_t most) {
  for (Part* part = first_pending_; part && most != 0; --most) {
    Part* next = part->next_free;
    std::vector<heddle_point_t>& points = part->pending->points;
    std::erase_if(points, [&](const heddle_point_t& point) { return provider_.reached(provider_.self, point) != 0; });
    if (points.empty()) {
      const int64_t split = split_by_deactivating(*part->chunk, part->size);
      const bool fits = has_room(kInactiveSplit, static_cast<uint64_t>(split));
      if (!fits && !peaks && !borrow({0, 0, 0, more_split(split), 0})) return false;
      subtract(kActive, part->size);
      subtract(kNeeded, part->size);
      add_split(split);
      if (!fits && peaks) peaks->look();
      unlink_pending(part);
      --part->chunk->active_parts;
      make_free(part);
    }
    part = next;
  }
  return true;
}

Part* Heap::find_in_stream_order(const Wanted& wanted, heddle_point_t after) const {
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

Part* Heap::find_with_waits(const Wanted& wanted, uint32_t capacity) const noexcept {
  Part* best = nullptr;
  for (Part* part = first_pending_; part; part = part->next_free) {
    if ((part->offset & (wanted.alignment - 1)) != 0 || !holds(*part, wanted.size, wanted.alignment)) continue;
    if (part->pending->points.size() <= capacity && (!best || part->size < best->size)) best = part;
  }
  return best;
}

bool Heap::take_pending(Part* part, const heddle_block_params_t& params, heddle_block_t* out) {
  const uint64_t requested = params.size_bytes;
  const bool fits = has_room(kRequested, requested) & has_room(kAllocated, part->size);
  if (!fits && !peaks && !borrow({requested, part->size, 0, 0, 0})) return false;
  add(kRequested, requested);
  add(kAllocated, part->size);
  subtract(kNeeded, part->size - requested);
  if (!fits && peaks) peaks->look();
  unlink_pending(part);
  part->state = Part::State::kUsed;
  hand_out(part, params, out);
  return true;
}

uint64_t Heap::largest_free() noexcept {
  join_quick();
  uint64_t bytes = 0;
  for (const FreeBlocks& list : free_) bytes = std::max(bytes, list.largest_bytes());
  return bytes;
}

}  // namespace heddle::pool
