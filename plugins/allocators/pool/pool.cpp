// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads and their heaps, calls of the provider, and the steps that are tried before memory runs out.
#include "pool.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

HEDDLE_ALLOCATOR_PLUGIN(heddle::pool::Pool)

namespace heddle::pool {
namespace {

using sdk::number;
using sdk::status;

// Chosen with the traces of tests/support/memory_trace.h: what is reserved at its peak against calls of the provider.
constexpr uint64_t kLeastLarge = 256 << 10,
                   kMostLarge = 8 << 20;     // a large block is at least a 64th of the reserved bytes, within these limits;
constexpr uint64_t kSavingLarge = 64 << 10;  // while the pool saves, a 512th, and at least this
constexpr uint64_t kLeastChunk = 128 << 10,
                   kMostChunk = 64 << 20;  // a shared chunk is at most a 16th of all shared ones, within these limits
constexpr uint64_t kLargeClasses = 64;     // between two powers of two
constexpr uint64_t kSlack = 16;            // a 16th more than the peak need may be reserved,
constexpr uint64_t kHeapSlack = 8 << 20;   // and this for each heap after the first
// The pool saves as long as it has called the provider at most this often, plus once per this number of blocks.
constexpr uint64_t kSavingCalls = 1024, kSavingBlocks = 512;

// Heaps of threads after the first.
constexpr uint64_t kMostOfSpan = 256 << 10;                     // larger blocks belong to the first heap
constexpr uint64_t kSpanBlocks = 4;                             // a span holds at least this many blocks of the size that it is made for,
constexpr uint64_t kLeastSpan = 64 << 10, kMostSpan = 4 << 20;  // and is a 4th of the heap's other spans, within these limits
constexpr uint64_t kSpanShare = 4;

constexpr uint64_t kMaxSize = uint64_t{1} << 62;
constexpr uint64_t kChunkAlignment = 4096;
constexpr heddle_string_t kOwner = sdk::string_of("chunks of heddle.pool");

// Numbers of threads, independent of hosts and pools.
uint32_t thread_number() noexcept {
  static std::atomic<uint32_t> last{0};
  thread_local uint32_t number = 0;
  if (number == 0) number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

}  // namespace

Pool::Pool(const sdk::AllocatorSetup& setup)
    : host_(setup.host()), provider_(setup.provider()), name_(setup.name()), large_bytes_(kSavingLarge) {
  add_heap();
}

Pool::~Pool() {
  std::map<Chunk*, std::vector<heddle_point_t>> points;  // points of the provider's chunks
  for (uint32_t i = heap_count_; i-- > 0;) {
    for (Chunk* chunk : heaps_[i]->chunks) {
      std::vector<heddle_point_t>& waits = points[chunk->span ? chunk->span->chunk : chunk];
      for (Part* part = chunk->first; part;) {
        Part* after = part->after;
        if (part->pending) waits.insert(waits.end(), part->pending->points.begin(), part->pending->points.end());
        delete part->pending;
        if (part->state != Part::State::kSpan) delete part;
        part = after;
      }
    }
  }
  for (uint32_t i = heap_count_; i-- > 0;) {
    for (Chunk* chunk : heaps_[i]->chunks) {
      if (!chunk->span) {
        const std::vector<heddle_point_t>& waits = points[chunk];
        provider_.free(provider_.self, &chunk->block, waits.data(), static_cast<uint32_t>(waits.size()));
      }
      delete chunk->span;
      delete chunk;
    }
    delete heaps_[i];
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
  if (on_limit == "spill") {
    spills_ = HEDDLE_HAS(&provider_, allocate_on_host);
    if (!spills_) {
      log("pool: on_limit = \"spill\" acts as \"trim\" for '" + name_ +
          "': the provider below the pool offers no host memory that the device can access");
    }
  }
  if (!initial) return nullptr;
  if (initial > kMaxSize) {
    return status(host_, HEDDLE_STATUS_INVALID_ARGUMENT, "pool: reserving %llu bytes failed: more than 2^62", number(initial));
  }
  All all(*this);
  Part* part = nullptr;
  const uint64_t size = initial / kGranule * kGranule;
  if (heddle_status_t* failed = grow(&all, std::max(size, kGranule), {size, kChunkAlignment, false}, &part)) return failed;
  part->chunk->initial = true;
  return nullptr;
}

// The first heap's lock is taken first: its holder knows the number of heaps.
void Pool::All::lock() noexcept {
  held_ = true;
  pool_.heaps_[0]->lock.lock();
  for (uint32_t i = 1; i < pool_.heap_count_; ++i) pool_.heaps_[i]->lock.lock();
  for (uint32_t i = 0; i < pool_.heap_count_; ++i) pool_.heaps_[i]->peaks = &pool_.peaks_;
}

void Pool::All::unlock() noexcept {
  held_ = false;
  const uint32_t count = pool_.heap_count_;
  for (uint32_t i = count; i-- > 0;) {
    if (count > 1) pool_.heaps_[i]->peaks = nullptr;
    pool_.heaps_[i]->lock.unlock();
  }
}

Wanted Pool::rounded(uint64_t size_bytes, uint64_t alignment_bytes, bool first, uint64_t soon) const noexcept {
  const uint64_t alignment = std::max(alignment_bytes, kGranule);
  const uint64_t size = std::max(round_up(size_bytes, kGranule), kGranule);
  const bool small = size < large_bytes_.load(std::memory_order_relaxed) || (!first && size <= kMostOfSpan);
  if (small && alignment <= kChunkAlignment) return {size, alignment, false};
  const uint64_t chunk_alignment = std::max(alignment, kChunkAlignment);
  // Blocks that are to share a chunk fill it, so their sizes have no classes.
  if (soon >= size_bytes && soon != 0 && soon <= kMaxSize) return {round_up(size, kChunkAlignment), chunk_alignment, true, soon};
  return {round_up(size, std::max(std::bit_floor(size) / kLargeClasses, kChunkAlignment)), chunk_alignment, true};
}

Heap* Pool::heap_for(uint32_t thread, const Wanted& wanted) const noexcept {
  const uint8_t slot = slots_[thread % kSlots].load(std::memory_order_acquire);
  if (slot == 0) return nullptr;
  return heaps_[wanted.large || wanted.size > kMostOfSpan ? 0 : slot - 1];
}

void Pool::add_heap() {
  auto heap = std::make_unique<Heap>(provider_, peaks_);
  peaks_.add(heap.get());
  heap->peaks = &peaks_;
  heaps_[heap_count_++] = heap.release();
}

Heap& Pool::heap_of_new_thread(uint32_t thread, const Wanted& wanted) {
  if (threads_ == heap_count_ && heap_count_ < kHeaps) {
    add_heap();
    heaps_[heap_count_ - 1]->lock.lock();
  }
  slots_[thread % kSlots].store(static_cast<uint8_t>(1 + threads_++ % kHeaps), std::memory_order_release);
  return *heap_for(thread, wanted);
}

heddle_status_t* Pool::allocate(const heddle_block_params_t& params, heddle_block_t* out, heddle_point_t* out_waits,
                                uint32_t* out_wait_count) {
  if (params.size_bytes > kMaxSize || params.alignment_bytes > kMaxSize) {
    All all(*this);
    return exhausted(&all, params.size_bytes, "more than 2^62 bytes");
  }
  const uint32_t thread = thread_number();
  const bool first = slots_[thread % kSlots].load(std::memory_order_relaxed) <= 1;
  const Wanted wanted = rounded(params.size_bytes, params.alignment_bytes, first, params.soon_bytes);
  if (Heap* heap = heap_for(thread, wanted)) {
    std::lock_guard lock(heap->lock);
    if (heap->allocate(wanted, params, out)) return nullptr;
  }
  sdk::EnvironmentKeeper keep;
  All all(*this);
  return allocate_with_all(&all, thread, wanted, params, out, out_waits, out_wait_count);
}

heddle_status_t* Pool::allocate_with_all(All* all, uint32_t thread, const Wanted& wanted, const heddle_block_params_t& params,
                                         heddle_block_t* out, heddle_point_t* out_waits, uint32_t* out_wait_count) {
  Heap* known = heap_for(thread, wanted);
  Heap& heap = known ? *known : heap_of_new_thread(thread, wanted);
  if (heap.allocate(wanted, params, out)) return nullptr;
  if (&heap != heaps_[0]) {
    heddle_status_t* failed = add_span(all, &heap, wanted, params.size_bytes);
    if (!failed) {
      heap.take(heap.find_free(wanted), wanted, params, out);
      return nullptr;
    }
    if (host_->status_code(host_->self, failed) != HEDDLE_STATUS_RESOURCE_EXHAUSTED) return failed;
    host_->status_free(host_->self, failed);
  }
  std::string cause;
  for (bool retry : {false, true}) {
    Part* part = nullptr;
    heddle_status_t* failed = obtain(all, wanted, params.size_bytes, retry, &part);
    if (!failed) {
      part->chunk->heap->take(part, wanted, params, out);
      return nullptr;
    }
    if (host_->status_code(host_->self, failed) != HEDDLE_STATUS_RESOURCE_EXHAUSTED) return failed;
    cause = sdk::take_text(host_, failed);
    if (!trims_) break;
  }
  // All remaining memory is still in use by work: the caller's own, for which it does not wait, or others', which is returned with the points
  // to wait for.
  if (params.after.timeline) {
    Part* part = nullptr;
    for (uint32_t i = 0; i < heap_count_ && !part; ++i) part = heaps_[i]->find_in_stream_order(wanted, params.after);
    for (uint32_t i = 0; i < heap_count_ && !part; ++i) {
      if (!(part = heaps_[i]->find_with_waits(wanted, params.wait_capacity))) continue;
      *out_wait_count = static_cast<uint32_t>(part->pending->points.size());
      std::copy(part->pending->points.begin(), part->pending->points.end(), out_waits);
    }
    if (part) {
      part->chunk->heap->take_pending(part, params, out);
      return nullptr;
    }
  }
  if (spills_) {
    heddle_status_t* failed = spill(all, wanted, params, out);
    if (!failed) return nullptr;
    if (host_->status_code(host_->self, failed) != HEDDLE_STATUS_RESOURCE_EXHAUSTED) return failed;
    const std::string text = sdk::take_text(host_, failed);
    cause = cause.substr(0, cause.find('\n')) + ", and for host memory: " + text;
  }
  return exhausted(all, params.size_bytes, std::move(cause));
}

heddle_status_t* Pool::obtain(All* all, const Wanted& wanted, uint64_t asked, bool retry, Part** out_part) {
  uint64_t bytes = wanted.large ? wanted.size : shared_chunk_bytes(wanted.size);
  if (wanted.soon > bytes && !retry) asked = bytes = round_up(wanted.soon, kChunkAlignment);
  if (retry) {
    ++retries_;
    bytes = wanted.large ? wanted.size : round_up(wanted.size, kChunkAlignment);
    settle_all();
    free_empty_spans();
    if ((*out_part = find_anywhere(wanted))) return nullptr;
    give_back(all, 0, true);
    if ((*out_part = find_anywhere(wanted))) return nullptr;  // something was freed meanwhile
  } else {
    if ((*out_part = heaps_[0]->find_free(wanted))) return nullptr;
    if (wanted.soon > wanted.size && (*out_part = heaps_[0]->find_to_split(wanted, 0))) return nullptr;
    // Empty chunks are returned or split before more is reserved than the use can explain. While saving, nothing is split, since the rest may stay
    // free for long, and shared chunks grow by no more than the block.
    const uint64_t needed = std::max(peaks_.peak(kNeeded), peaks_.now(kNeeded) + asked);
    const uint64_t most = needed + needed / kSlack + (heap_count_ - 1) * kHeapSlack;
    if (reserved_.current + asked_bytes_ + bytes > most) {
      if (heap_count_ > 1) {
        settle_all();
        free_empty_spans();
        if ((*out_part = heaps_[0]->find_free(wanted))) return nullptr;
      }
      if (!saves_ && (*out_part = heaps_[0]->find_to_split(wanted, needed))) return nullptr;
      if (saves_ && !wanted.large) bytes = std::min(bytes, std::max(round_up(wanted.size, kChunkAlignment), kSavingLarge));
      give_back(all, most - std::min(most, bytes), false);
    }
  }
  return grow(all, bytes, wanted, out_part);
}

heddle_status_t* Pool::add_span(All* all, Heap* heap, const Wanted& wanted, uint64_t asked) {
  uint64_t bytes = 0;
  for (const Chunk* chunk : heap->chunks) bytes += chunk->size;
  bytes = std::max(kSpanBlocks * wanted.size, std::clamp(std::bit_floor(bytes / kSpanShare), kLeastSpan, kMostSpan));
  const Wanted span = rounded(bytes, kChunkAlignment, true, 0);
  auto chunk = std::make_unique<Chunk>();
  Part* part = nullptr;
  if (heddle_status_t* failed = obtain(all, span, asked, false, &part)) return failed;
  part = heaps_[0]->take_span(part, span);
  const heddle_block_t& whole = part->chunk->block;
  chunk->block = {whole.buffer, whole.offset + part->offset, part->size, 0};
  chunk->size = part->size;
  chunk->alignment = kChunkAlignment;
  chunk->span = part;
  try {
    heap->add(chunk.get());
  } catch (...) {
    heaps_[0]->free_span(part);
    throw;
  }
  chunk.release();
  return nullptr;
}

void Pool::free_empty_spans() noexcept {
  for (uint32_t i = 1; i < heap_count_; ++i) {
    heaps_[i]->join_quick();
    std::vector<Chunk*>& chunks = heaps_[i]->chunks;
    for (size_t at = chunks.size(); at-- > 0;) {
      Chunk* chunk = chunks[at];
      if (chunk->active_parts != 0) continue;
      heaps_[i]->remove(chunk);
      heaps_[0]->free_span(chunk->span);
      delete chunk;
    }
  }
}

void Pool::settle_all() {
  for (uint32_t i = 0; i < heap_count_; ++i) heaps_[i]->settle(SIZE_MAX);
}

Part* Pool::find_anywhere(const Wanted& wanted) const noexcept {
  Part* part = nullptr;
  for (uint32_t i = 0; i < heap_count_ && !part; ++i) part = heaps_[i]->find_free(wanted);
  return part;
}

uint64_t Pool::shared_chunk_bytes(uint64_t size) const noexcept {
  return std::max(round_up(size, kChunkAlignment), std::clamp(std::bit_floor(shared_bytes_ / 16), kLeastChunk, kMostChunk));
}

heddle_status_t* Pool::grow(All* all, uint64_t bytes, const Wanted& wanted, Part** out_part) {
  const uint64_t held = reserved_.current - spilled_bytes_ + asked_bytes_;
  if (held > limit_ || bytes > limit_ - held) {
    return status(host_, HEDDLE_STATUS_RESOURCE_EXHAUSTED, "pool_limit of %llu bytes leaves %llu", number(limit_),
                  number(limit_ - std::min(limit_, held)));
  }
  auto chunk = std::make_unique<Chunk>();
  chunk->size = bytes;
  chunk->kind = wanted.large ? Chunk::kWhole : Chunk::kShared;
  if (heddle_status_t* failed = add_chunk(all, std::move(chunk), wanted.alignment, out_part)) return failed;
  if (wanted.large && bytes > wanted.size) heaps_[0]->split(*out_part);
  return nullptr;
}

heddle_status_t* Pool::add_chunk(All* all, std::unique_ptr<Chunk> chunk, uint64_t alignment, Part** out_part) {
  const bool spilled = chunk->kind == Chunk::kSpilled;
  const uint64_t bytes = chunk->size;
  chunk->alignment = std::max(alignment, kChunkAlignment);
  heddle_block_params_t params = {};
  params.struct_size = sizeof params;
  params.size_bytes = bytes;
  params.alignment_bytes = chunk->alignment;
  params.owner = &kOwner;
  if (!spilled) asked_bytes_ += bytes;  // so that the limit holds while the locks are released
  all->unlock();
  uint32_t wait_count = 0;
  heddle_status_t* failed = spilled ? provider_.allocate_on_host(provider_.self, &params, &chunk->block)
                                    : provider_.allocate(provider_.self, &params, &chunk->block, nullptr, &wait_count);
  all->lock();
  if (!spilled) asked_bytes_ -= bytes;
  if (failed) return failed;
  try {
    *out_part = heaps_[0]->add(chunk.get());
  } catch (...) {
    all->unlock();
    provider_.free(provider_.self, &chunk->block, nullptr, 0);
    all->lock();
    throw;
  }
  if (chunk->kind == Chunk::kShared) shared_bytes_ += bytes;
  if (spilled) spilled_bytes_ += bytes;
  chunk.release();
  ++provider_allocations_;
  reserved_.add(bytes);
  reserved_changed();
  return nullptr;
}

heddle_status_t* Pool::spill(All* all, const Wanted& wanted, const heddle_block_params_t& params, heddle_block_t* out) {
  auto chunk = std::make_unique<Chunk>();
  chunk->size = round_up(wanted.size, kChunkAlignment);
  chunk->kind = Chunk::kSpilled;
  Part* part = nullptr;
  if (heddle_status_t* failed = add_chunk(all, std::move(chunk), wanted.alignment, &part)) return failed;
  heaps_[0]->take(part, wanted, params, out);
  if (!std::exchange(has_spilled_, true)) {
    all->unlock();
    log("pool: memory of '" + name_ + "' is full; from now on blocks come from host memory, which is slower: the first one has " +
        std::to_string(params.size_bytes) + " bytes; raise pool_limit or use less");
  }
  return nullptr;
}

// The provider waits for the points.
void Pool::free_spilled(Part* part, const heddle_point_t* points, uint32_t count) {
  const std::unique_ptr<Chunk> chunk(part->chunk);
  {
    All all(*this);
    heaps_[0]->free(part, nullptr, 0);
    heaps_[0]->remove(chunk.get());
    spilled_bytes_ -= chunk->size;
    reserved_.subtract(chunk->size);
    reserved_changed();
  }
  provider_.free(provider_.self, &chunk->block, points, count);
}

void Pool::log(const std::string& text) const noexcept {
  if (host_->log_level(host_->self) <= HEDDLE_LOG_WARN)
    host_->log(host_->self, HEDDLE_LOG_WARN, sdk::string_of("pool.cpp"), __LINE__, sdk::string_of(text));
}

// If blocks share fewer chunks, less is reserved in vain, at the price of more calls of the provider. If there would be many calls, the calls
// matter more.
void Pool::reserved_changed() noexcept {
  saves_ = provider_allocations_ <= kSavingCalls + total(&Books::allocations) / kSavingBlocks;
  const uint64_t large = saves_ ? std::max(reserved_.current / 512, kSavingLarge) : std::max(reserved_.current / 64, kLeastLarge);
  large_bytes_.store(std::min(std::bit_floor(large), kMostLarge), std::memory_order_relaxed);
}

uint64_t Pool::total(uint64_t Books::* count) const noexcept {
  uint64_t sum = 0;
  for (const Heap* heap : peaks_.heaps()) sum += heap->books.*count;
  return sum;
}

heddle_status_t* Pool::exhausted(All* all, uint64_t size, std::string cause) {
  ++exhaustions_;
  char state[256];
  std::snprintf(state, sizeof state,
                " (%llu reserved, of which %llu in %llu live blocks, %llu freed but still in use by the device, %llu free in parts of used "
                "chunks)",
                number(reserved_.current), number(peaks_.now(kAllocated)), number(total(&Books::allocations) - total(&Books::frees)),
                number(total(&Books::pending_bytes)), number(peaks_.now(kInactiveSplit)));
  all->unlock();
  cause = cause.substr(0, cause.find('\n')) + state;
  return sdk::exhaustion_status(host_, "pool", name_, size, cause, limit_ == UINT64_MAX ? "use less" : "raise pool_limit or use less",
                                sdk::Holders::of(host_, [&](auto visit, void* context) { return holders(visit, context); }));
}

void Pool::free(const heddle_block_t& block, const heddle_point_t* points, uint32_t count) {
  auto* part = reinterpret_cast<Part*>(block.token);
  if (part->chunk->kind == Chunk::kSpilled) return free_spilled(part, points, count);
  Heap& heap = *part->chunk->heap;
  {
    std::lock_guard lock(heap.lock);
    if (heap.free(part, points, count)) return;
  }
  All all(*this);
  heap.free(part, points, count);
}

void Pool::give_back(All* all, uint64_t keep_bytes, bool also_initial) {
  Heap& first = *heaps_[0];
  if (reserved_.current <= keep_bytes) return;
  first.join_quick();
  std::vector<Chunk*> empty;
  for (Chunk* chunk : first.chunks) {
    if (chunk->active_parts == 0 && chunk->spans == 0 && (also_initial || !chunk->initial)) empty.push_back(chunk);
  }
  std::sort(empty.begin(), empty.end(), [](const Chunk* a, const Chunk* b) { return a->size > b->size; });
  if (empty.empty()) return;
  size_t count = 0;
  for (Chunk* chunk : empty) {
    if (reserved_.current <= keep_bytes) break;
    first.remove(chunk);
    reserved_.subtract(chunk->size);
    if (chunk->kind == Chunk::kShared) shared_bytes_ -= chunk->size;
    ++count;
  }
  reserved_changed();
  all->unlock();
  for (size_t i = 0; i < count; ++i) {
    provider_.free(provider_.self, &empty[i]->block, nullptr, 0);
    delete empty[i];
  }
  all->lock();
}

heddle_status_t* Pool::trim(uint64_t keep_bytes) {
  {
    All all(*this);
    settle_all();
    free_empty_spans();
    give_back(&all, keep_bytes, true);
  }
  return provider_.trim(provider_.self, keep_bytes);
}

heddle_status_t* Pool::statistics(heddle_allocator_statistics_t* out) {
  All all(*this);
  auto count = [&](Quantity quantity) {
    heddle_memory_count_t of = {peaks_.now(quantity), peaks_.peak(quantity), 0};
    for (const Heap* heap : peaks_.heaps()) of.total += heap->books.total[quantity];
    return of;
  };
  uint64_t largest = 0;
  for (uint32_t i = 0; i < heap_count_; ++i) largest = std::max(largest, heaps_[i]->largest_free());
  *out = {out->struct_size,      0,       count(kRequested),          count(kAllocated),    count(kActive),        reserved_,
          count(kInactiveSplit), largest, total(&Books::allocations), total(&Books::frees), provider_allocations_, retries_,
          exhaustions_};
  return nullptr;
}

heddle_status_t* Pool::holders(heddle_holder_visitor_t visit, void* context) {
  sdk::Holders holders;
  {
    All all(*this);
    for (uint32_t i = 0; i < heap_count_; ++i) {
      for (const Chunk* chunk : heaps_[i]->chunks) {
        for (const Part* part = chunk->first; part; part = part->after) {
          if (part->state != Part::State::kUsed) continue;
          if (chunk->kind != Chunk::kSpilled) {
            holders.add(part->owner, part->requested);
            continue;
          }
          const std::string owner(part->owner ? sdk::view_of(*part->owner) : "unknown owner");
          const std::string spilled = owner + ", spilled to the host";
          const heddle_string_t text = sdk::string_of(spilled);
          holders.add(&text, part->requested);
        }
      }
    }
  }
  holders.visit(visit, context);
  return nullptr;
}

uint64_t Pool::live_blocks() {
  All all(*this);
  return total(&Books::allocations) - total(&Books::frees);
}

}  // namespace heddle::pool
