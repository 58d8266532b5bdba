// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Greedy packing by size, as in "greedy by size" of tensor offset calculation (Pisarchyk and Lee, 2020), with best fit among gaps.
// Quadratic in the number of slices that are live together; above kMaxSlices nothing is shared.
#include "core/submit/arena.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace heddle::submit {

namespace {

constexpr size_t kMaxSlices = 8192;
constexpr uint64_t kMaxBytes = uint64_t{1} << 48;

uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

constexpr size_t kMaxPackings = 8;

// Whether lifetimes and alignments are the same as those of the others, so that slices no larger than the others can be placed at their offsets.
bool live_alike(const std::vector<Slice>& slices, const std::vector<Slice>& others) {
  return std::equal(slices.begin(), slices.end(), others.begin(), others.end(), [](const Slice& a, const Slice& b) {
    return a.first == b.first && a.last == b.last && a.alignment_bytes == b.alignment_bytes;
  });
}

// Whether each capacity is sufficient, and at most an eighth larger than needed. Checking only the sum or the largest would not do: the need of an
// arena is what is live at once, which may be a single slice.
bool fit(const std::vector<Slice>& slices, const std::vector<Slice>& capacities) {
  return std::equal(slices.begin(), slices.end(), capacities.begin(), [](const Slice& slice, const Slice& capacity) {
    return slice.size_bytes <= capacity.size_bytes && capacity.size_bytes - slice.size_bytes <= slice.size_bytes / 8;
  });
}

// In eight steps from one power of two to the next, which is at most an eighth more.
uint64_t capacity_for(uint64_t size) {
  const uint64_t step = std::bit_floor(size) / 8;
  return step == 0 ? size : (size + step - 1) / step * step;
}

Status too_large() {
  return error(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "the call's intermediate values need more than {} bytes", kMaxBytes);
}

}  // namespace

Result<uint64_t> pack(std::vector<Slice>& slices) {
  uint64_t total = 0;
  for (Slice& slice : slices) {
    if (slice.size_bytes > kMaxBytes || slice.alignment_bytes > kMaxBytes) return too_large();
  }
  if (slices.size() > kMaxSlices) {
    for (Slice& slice : slices) {
      slice.offset = align_up(total, slice.alignment_bytes);
      total = slice.offset + slice.size_bytes;
      if (total > kMaxBytes) return too_large();
    }
    return total;
  }

  std::vector<uint32_t> order(slices.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return slices[a].size_bytes > slices[b].size_bytes; });
  std::vector<uint32_t> placed;  // sorted by offset
  placed.reserve(slices.size());
  for (uint32_t index : order) {
    Slice& slice = slices[index];
    if (slice.size_bytes == 0) {
      slice.offset = 0;
      continue;
    }
    uint64_t best = UINT64_MAX, best_gap = UINT64_MAX, end = 0;
    for (uint32_t other_index : placed) {
      const Slice& other = slices[other_index];
      if (other.last < slice.first || slice.last < other.first) continue;
      uint64_t start = align_up(end, slice.alignment_bytes);
      if (other.offset > end && start + slice.size_bytes <= other.offset && other.offset - end < best_gap) {
        best = start;
        best_gap = other.offset - end;
      }
      end = std::max(end, other.offset + other.size_bytes);
    }
    slice.offset = best != UINT64_MAX ? best : align_up(end, slice.alignment_bytes);
    if (slice.offset + slice.size_bytes > kMaxBytes) return too_large();
    total = std::max(total, slice.offset + slice.size_bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), index, [&](uint32_t a, uint32_t b) { return slices[a].offset < slices[b].offset; }),
        index);
  }
  return total;
}

Result<uint64_t> Packings::pack(std::vector<Slice>& slices) {
  if (slices.size() > kMaxSlices ||
      std::any_of(slices.begin(), slices.end(), [](const Slice& slice) { return slice.size_bytes > kMaxBytes; }))
    return submit::pack(slices);
  std::lock_guard lock(lock_);
  for (size_t i = kept_.size(); i-- > 0;) {
    if (!live_alike(slices, kept_[i].slices) || !fit(slices, kept_[i].slices)) continue;
    std::rotate(kept_.begin() + static_cast<ptrdiff_t>(i), kept_.begin() + static_cast<ptrdiff_t>(i) + 1, kept_.end());
    for (size_t s = 0; s < slices.size(); ++s) slices[s].offset = kept_.back().slices[s].offset;
    return kept_.back().bytes;
  }
  Packing made{slices, 0};
  if (!kept_.empty() && live_alike(slices, kept_.back().slices)) {
    for (size_t s = 0; s < slices.size(); ++s) {
      Slice& slice = made.slices[s];
      if (slice.size_bytes > kept_.back().slices[s].size_bytes) slice.size_bytes = capacity_for(slice.size_bytes);
    }
  }
  Result<uint64_t> bytes = submit::pack(made.slices);
  if (!bytes.ok()) return submit::pack(slices);
  made.bytes = *bytes;
  for (size_t s = 0; s < slices.size(); ++s) slices[s].offset = made.slices[s].offset;
  if (kept_.size() == kMaxPackings) kept_.erase(kept_.begin());
  kept_.push_back(std::move(made));
  return bytes;
}

void Packings::forget() {
  std::lock_guard lock(lock_);
  kept_.clear();
}

}  // namespace heddle::submit
