// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns ops into calls of the vendor on one stream. A stream runs in order, so barriers cost nothing here.
#include <algorithm>

#include "heddle/sdk/stream/list.h"

namespace heddle::sdk::stream {
namespace {

constexpr uint64_t kMaxRows = uint64_t{1} << 24;  // per pitched fill

// Fills every `pitch`-th byte with a unit of `unit` bytes, starting at `to`.
Result fill_column(Backend& backend, Address to, uint64_t pitch, uint32_t unit, uint32_t value, uint64_t count, Stream stream) noexcept {
  for (uint64_t done = 0; done < count; done += kMaxRows) {
    const Result result = backend.fill_pitched({to + done * pitch, std::min(kMaxRows, count - done), unit, value}, pitch, stream);
    if (result != kSuccess) return result;
  }
  return kSuccess;
}

// Stores a pattern of `unit` bytes `count` times: the first unit byte by byte, the others by copies of what is there, twice as long each time.
Result fill_by_copies(Backend& backend, Address to, uint32_t unit, uint64_t pattern, uint64_t count, Stream stream) noexcept {
  for (uint32_t i = 0; i < unit; ++i) {
    if (Result bad = backend.fill({to + i, 1, 1, static_cast<uint8_t>(pattern >> (8 * i))}, stream)) return bad;
  }
  const uint64_t all = count * unit;
  for (uint64_t done = unit; done < all; done *= 2) {
    if (Result bad = backend.copy(to + done, to, std::min(done, all - done), stream)) return bad;
  }
  return kSuccess;
}

// The narrowest equivalent form of a pattern.
uint32_t narrow(uint64_t pattern, uint32_t bytes) noexcept {
  if (bytes == 8 && (pattern >> 32) == (pattern & 0xffffffffu)) bytes = 4;
  if (bytes == 4 && ((pattern >> 16) & 0xffffu) == (pattern & 0xffffu)) bytes = 2;
  if (bytes == 2 && ((pattern >> 8) & 0xffu) == (pattern & 0xffu)) bytes = 1;
  return bytes;
}

Result fill(Backend& backend, const Op::Fill& op, Stream stream) noexcept {
  const uint32_t bytes = narrow(op.pattern, op.pattern_bytes);
  const uint64_t count = op.length / bytes, remainder = op.length % bytes;
  const bool aligned = op.to % std::min(bytes, 4u) == 0;
  Result result = kSuccess;
  if (bytes == 1 || (bytes <= 4 && aligned)) {
    const uint32_t value = static_cast<uint32_t>(op.pattern) & (UINT32_MAX >> (32 - 8 * bytes));
    if (count) result = backend.fill({op.to, count, bytes, value}, stream);
  } else if (backend.capabilities().pitched_fill_unit == 0) {
    if (count) result = fill_by_copies(backend, op.to, bytes, op.pattern, count, stream);
  } else {  // column by column
    const uint32_t unit = aligned ? std::min({bytes, 4u, backend.capabilities().pitched_fill_unit}) : 1;
    for (uint32_t at = 0; at < bytes && count && result == kSuccess; at += unit) {
      const uint32_t value = static_cast<uint32_t>(op.pattern >> (8 * at)) & (UINT32_MAX >> (32 - 8 * unit));
      result = fill_column(backend, op.to + at, bytes, unit, value, count, stream);
    }
  }
  for (uint64_t i = 0; i < remainder && result == kSuccess; ++i) {
    result = backend.fill({op.to + count * bytes + i, 1, 1, static_cast<uint8_t>(op.pattern >> (8 * i))}, stream);
  }
  return result;
}

Result copy_2d(Backend& backend, const Copy2d& op, Stream stream) noexcept {
  if (op.rows == 1 || (op.from_stride == op.row_bytes && op.to_stride == op.row_bytes)) {
    return backend.copy(op.to, op.from, op.row_bytes * op.rows, stream);
  }
  const uint64_t max_pitch = backend.capabilities().max_pitch;
  if (op.from_stride >= op.row_bytes && op.from_stride <= max_pitch && op.to_stride <= max_pitch) return backend.copy_2d(op, stream);
  for (uint64_t i = 0; i < op.rows; ++i) {  // overlapping rows, or strides of gigabytes
    if (Result bad = backend.copy(op.to + i * op.to_stride, op.from + i * op.from_stride, op.row_bytes, stream)) return bad;
  }
  return kSuccess;
}

}  // namespace

Result issue(Backend& backend, const List& list, const std::vector<Event>& events, Stream stream, size_t* out_failed) noexcept {
  bool behind_kernel = false;  // the previous op is a kernel of this list that supports an early start
  if (!events.empty()) {
    if (Result bad = backend.record_event(events[0], stream)) return bad;
  }
  for (size_t i = 0; i < list.ops.size(); ++i) {
    const Op& op = list.ops[i];
    Result result = kSuccess;
    switch (op.kind) {
      case Op::Kind::kBarrier:
        break;
      case Op::Kind::kLaunch:
        // early: only a kernel precedes it on the stream, so that it may start before that kernel has finished.
        result = backend.launch(launch_of(list, op.launch), behind_kernel && op.launch.entry->starts_early, stream);
        break;
      case Op::Kind::kCopy:
        result = backend.copy(op.copy.to, op.copy.from, op.copy.length, stream);
        break;
      case Op::Kind::kFill:
        result = fill(backend, op.fill, stream);
        break;
      case Op::Kind::kCopy2d:
        result = copy_2d(backend, op.copy_2d, stream);
        break;
      case Op::Kind::kPeerCopy:
        result = backend.copy_peer(op.peer_copy.to, op.peer_copy.to_context, op.peer_copy.from, op.peer_copy.from_context,
                                   op.peer_copy.length, stream);
        break;
    }
    if (result == kSuccess && !events.empty()) result = backend.record_event(events[i + 1], stream);
    if (result != kSuccess) [[unlikely]] {
      *out_failed = i;
      return result;
    }
    if (op.kind != Op::Kind::kBarrier && events.empty()) behind_kernel = op.kind == Op::Kind::kLaunch && op.launch.entry->starts_early;
  }
  return kSuccess;
}

}  // namespace heddle::sdk::stream
