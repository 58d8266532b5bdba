// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Greedy packing by size, as in "greedy by size" of offset calculation for tensors (Pisarchyk and Lee, 2020), with best fit among gaps.
// Quadratic in the number of slices that live together; above kMaxSlices nothing is shared.
#include "core/submit/arena.h"

#include <algorithm>
#include <numeric>

namespace heddle::submit {

namespace {

constexpr size_t kMaxSlices = 8192;
constexpr uint64_t kMaxBytes = uint64_t{1} << 48;

uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
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
  std::vector<uint32_t> placed;  // by offset
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

}  // namespace heddle::submit
