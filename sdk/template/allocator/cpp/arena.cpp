// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See arena.h.
#include "arena.h"

#include <algorithm>

#include "heddle/sdk/status.h"

namespace sample {

namespace {

constexpr uint64_t kGrain = 64;
constexpr uint64_t kChunkBytes = uint64_t{8} << 20;  // smallest buffer that is asked for

unsigned long long number(uint64_t value) {
  return value;
}
uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace

Arena::~Arena() {
  for (Chunk& chunk : chunks_) provider_.free(provider_.self, chunk.buffer);
}

heddle_status_t* Arena::allocate(uint64_t size_bytes, uint64_t alignment_bytes, heddle_block_t* out) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (size_bytes > UINT64_MAX / 4) return exhausted(size_bytes, "no provider");
  const uint64_t alignment = std::max(alignment_bytes, kGrain);
  const uint64_t size = round_up(std::max<uint64_t>(size_bytes, 1), kGrain);
  collect();
  if (!take(size, alignment, size_bytes, out)) {
    heddle_status_t* failed = grow(size, alignment);
    if (failed && host_->status_code(host_->self, failed) == HEDDLE_STATUS_RESOURCE_EXHAUSTED) {
      // What is free in pieces may be enough in one: give it back and ask once more (HD-M-03).
      host_->status_free(host_->self, failed);
      trim_locked(0);
      ++statistics_.retries;
      failed = grow(size, alignment);
    }
    if (failed) return failed;
    if (!take(size, alignment, size_bytes, out))
      return exhausted(size_bytes, "the new buffer");  // its provider gave less than was asked for
  }
  ++live_;
  ++statistics_.allocations;
  statistics_.requested += size_bytes;
  statistics_.allocated += size;
  statistics_.peak_allocated = std::max(statistics_.peak_allocated, statistics_.allocated);
  return nullptr;
}

// First fit, over chunks whose buffers are aligned to at least `alignment` at every multiple of it.
bool Arena::take(uint64_t size, uint64_t alignment, uint64_t requested, heddle_block_t* out) {
  for (Chunk& chunk : chunks_) {
    if (chunk.size - chunk.used < size) continue;
    for (auto at = chunk.pieces.begin(); at != chunk.pieces.end(); ++at) {
      if (at->second.used) continue;
      const uint64_t offset = round_up(at->first, alignment), end = at->first + at->second.length;
      if (offset > end || size > end - offset) continue;
      if (offset > at->first) {  // the part before stays free
        at->second.length = offset - at->first;
        at = chunk.pieces.emplace(offset, Piece{end - offset, 0, false, {}}).first;
      }
      if (end - offset > size) chunk.pieces.emplace(offset + size, Piece{end - offset - size, 0, false, {}});
      at->second = {size, requested, true, {}};
      chunk.used += size;
      *out = {chunk.buffer, offset, size, reinterpret_cast<uint64_t>(&chunk)};
      return true;
    }
  }
  return false;
}

heddle_status_t* Arena::grow(uint64_t size, uint64_t alignment) {
  // A small alignment is asked for as a large one, so that most blocks fit every chunk; larger ones get their own.
  const uint64_t wanted = std::max(alignment, uint64_t{1} << 16);
  uint64_t bytes = std::max(size, kChunkBytes);
  const uint64_t held = statistics_.bytes_reserved;
  if (limit_ && bytes > limit_ - std::min(limit_, held)) bytes = size;
  if (limit_ && bytes > limit_ - std::min(limit_, held)) return exhausted(size, "the option pool_limit");
  chunks_.emplace_back();
  Chunk& chunk = chunks_.back();
  chunk.pieces.emplace(0, Piece{bytes, 0, false, {}});
  heddle_status_t* failed = provider_.allocate(provider_.self, bytes, wanted, &chunk.buffer);
  if (failed && bytes > size && host_->status_code(host_->self, failed) == HEDDLE_STATUS_RESOURCE_EXHAUSTED) {
    host_->status_free(host_->self, failed);
    bytes = size;
    chunk.pieces.begin()->second.length = bytes;
    failed = provider_.allocate(provider_.self, bytes, wanted, &chunk.buffer);
  }
  if (failed) {
    chunks_.pop_back();
    if (host_->status_code(host_->self, failed) != HEDDLE_STATUS_RESOURCE_EXHAUSTED) return failed;
    host_->status_free(host_->self, failed);
    return exhausted(size, "the provider");
  }
  chunk.size = bytes;
  statistics_.bytes_reserved += bytes;
  statistics_.peak_reserved = std::max(statistics_.peak_reserved, statistics_.bytes_reserved);
  return nullptr;
}

heddle_status_t* Arena::exhausted(uint64_t size, const char* who_has_none) {
  ++statistics_.exhaustions;
  return heddle::sdk::status(
      host_, HEDDLE_STATUS_RESOURCE_EXHAUSTED,
      "arena: allocating %llu bytes from '%s' failed: %s has no more; %llu blocks hold %llu bytes, %llu wait for points, "
      "%llu are held in all [HD-M-03]",
      number(size), name_.c_str(), who_has_none, number(live_), number(statistics_.allocated), number(waiting_),
      number(statistics_.bytes_reserved));
}

void Arena::free(const heddle_block_t& block, const heddle_point_t* points, uint32_t count) {
  std::lock_guard<std::mutex> lock(mutex_);
  Chunk& chunk = *reinterpret_cast<Chunk*>(block.token);
  const auto piece = chunk.pieces.find(block.offset);
  if (piece == chunk.pieces.end() || !piece->second.used) return;
  --live_;
  ++statistics_.frees;
  statistics_.requested -= piece->second.requested;
  statistics_.allocated -= piece->second.length;
  for (uint32_t i = 0; i < count; ++i) {
    if (!provider_.reached(provider_.self, points[i])) piece->second.points.push_back(points[i]);
  }
  if (piece->second.points.empty()) {
    release(chunk, piece);
  } else {
    ++waiting_;
  }
}

// Makes a piece free and joins it with free neighbours.
void Arena::release(Chunk& chunk, std::map<uint64_t, Piece>::iterator piece) {
  chunk.used -= piece->second.length;
  piece->second = {piece->second.length, 0, false, {}};
  const auto next = std::next(piece);
  if (next != chunk.pieces.end() && !next->second.used) {
    piece->second.length += next->second.length;
    chunk.pieces.erase(next);
  }
  if (piece != chunk.pieces.begin() && !std::prev(piece)->second.used) {
    std::prev(piece)->second.length += piece->second.length;
    chunk.pieces.erase(piece);
  }
}

// Frees what waited for points that are reached now.
void Arena::collect() {
  if (waiting_ == 0) return;
  for (Chunk& chunk : chunks_) {
    for (auto at = chunk.pieces.begin(); at != chunk.pieces.end();) {
      const auto piece = at++;
      std::vector<heddle_point_t>& points = piece->second.points;
      if (points.empty()) continue;
      std::erase_if(points, [&](const heddle_point_t& point) { return provider_.reached(provider_.self, point) != 0; });
      if (!points.empty()) continue;
      --waiting_;
      if (at != chunk.pieces.end() && !at->second.used) ++at;  // release takes the next one away
      release(chunk, piece);
    }
  }
}

void Arena::trim(uint64_t keep_bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  collect();
  trim_locked(keep_bytes);
}

void Arena::trim_locked(uint64_t keep_bytes) {
  std::erase_if(chunks_, [&](Chunk& chunk) {
    if (chunk.used != 0 || statistics_.bytes_reserved <= keep_bytes) return false;
    provider_.free(provider_.self, chunk.buffer);
    statistics_.bytes_reserved -= chunk.size;
    return true;
  });
}

heddle_allocator_statistics_t Arena::statistics() {
  std::lock_guard<std::mutex> lock(mutex_);
  heddle_allocator_statistics_t values = statistics_;
  for (const Chunk& chunk : chunks_) values.inactive_split += chunk.used ? chunk.size - chunk.used : 0;
  return values;
}

uint64_t Arena::live_blocks() {
  std::lock_guard<std::mutex> lock(mutex_);
  return live_;
}

}  // namespace sample
