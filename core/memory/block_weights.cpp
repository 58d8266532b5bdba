// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Called through block_weights.h. Each thread has one buffer for blocks, and one for values unless it writes them in place; both stay in its cache.
#include "core/memory/block_weights.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>

#include "core/memory/param_io.h"

namespace heddle::memory {

namespace {

// Bytes of values per piece: few for host memory, to which a copy costs little; more for others, where each copy is a transfer that is waited for.
constexpr uint64_t kHostPieceBytes = uint64_t{256} << 10, kDevicePieceBytes = uint64_t{4} << 20;
constexpr size_t kMostThreads = 16, kPiecesPerThread = 16;

// A pattern counts as a block.
uint64_t value_bytes_per_block(const WeightExtent& from) {
  return from.block ? uint64_t{from.block->elements} * (HEDDLE_TYPE_BITS(from.type) / 8) : from.pattern.size();
}

void make_values(const WeightExtent& from, const std::byte* blocks, uint64_t count, std::byte* out) {
  if (from.block) return module::decode_blocks(*from.block, blocks, count, from.type, out);
  for (uint64_t i = 0; i < count; ++i) std::memcpy(out + i * from.pattern.size(), from.pattern.data(), from.pattern.size());
}

}  // namespace

struct BlockWeights::Buffers {
  std::vector<std::byte> blocks, values;
};

Status BlockWeights::read() {
  if (Status read = encoded_.read(); !read.ok()) {
    if (read.code() != HEDDLE_STATUS_UNIMPLEMENTED) return read;
    device_.host().log(HEDDLE_LOG_INFO, "memory",
                       fmt::format("the host decodes parameters for device '{}': {}", device_.alias(), read.message()));
    parts_.insert(parts_.end(), decoded_.begin(), decoded_.end());
  }
  return make();
}

Status BlockWeights::make() {
  const uint64_t piece_bytes = device_.unified() ? kHostPieceBytes : kDevicePieceBytes;
  for (const Part& part : parts_) {
    const WeightExtent& from = *part.from;
    HEDDLE_RETURN_IF_ERROR(allocate_weight(device_, from, *part.to));
    const uint64_t per_block = value_bytes_per_block(from);
    const uint64_t total = from.length / per_block, most = std::max<uint64_t>(piece_bytes / per_block, 1);
    for (uint64_t done = 0; done < total; done += most) pieces_.push_back({&part, done, std::min(most, total - done)});
  }
  std::vector<std::thread> threads;
  const size_t wanted =
      std::min({kMostThreads, static_cast<size_t>(std::thread::hardware_concurrency()), pieces_.size() / kPiecesPerThread});
  try {
    while (threads.size() + 1 < wanted) threads.emplace_back([this] { work(); });
  } catch (const std::system_error&) {  // with fewer threads, then
  } catch (const std::bad_alloc&) {
  }
  work();
  for (std::thread& thread : threads) thread.join();
  return std::move(failure_);
}

void BlockWeights::work() {
  try {
    Buffers buffers;
    for (size_t i = next_++; i < pieces_.size() && !stop_.load(std::memory_order_relaxed); i = next_++) {
      if (Status status = convert(pieces_[i], buffers); !status.ok()) return fail(std::move(status));
    }
  } catch (const std::bad_alloc&) {
    fail(error(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "converting parameters for device '{}' failed: out of memory; free memory",
               device_.alias()));
  }
}

void BlockWeights::fail(Status&& failure) {
  std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = std::move(failure);
  stop_.store(true, std::memory_order_relaxed);
}

Status BlockWeights::convert(const Piece& piece, Buffers& buffers) {
  HEDDLE_RETURN_IF_ERROR(check_cancelled(device_, cancelled_));
  const WeightExtent& from = *piece.part->from;
  if (from.block) {
    const uint64_t encoded = piece.blocks * from.block->bytes;
    if (buffers.blocks.size() < encoded) buffers.blocks.resize(encoded);
    HEDDLE_RETURN_IF_ERROR(read_bytes(from, from.offset + piece.first_block * from.block->bytes, encoded, buffers.blocks.data()));
  }
  const uint64_t per_block = value_bytes_per_block(from), bytes = piece.blocks * per_block;
  const heddle_block_t& to = piece.part->to->block();
  const heddle_binding_t target{to.buffer, to.offset + piece.first_block * per_block, bytes};
  auto copying = [&](Status&& failed) {
    return wrap(std::move(failed), fmt::format("copying tensor '{}' to device '{}'", from.name, device_.alias()));
  };
  if (device_.unified()) {
    Result<void*> mapped = device_.map(target, HEDDLE_MAP_WRITE | HEDDLE_MAP_DISCARD);
    if (!mapped.ok()) return copying(mapped.take_status());
    make_values(from, buffers.blocks.data(), piece.blocks, static_cast<std::byte*>(*mapped));
    Status unmapped = device_.unmap(target, HEDDLE_MAP_WRITE);
    return unmapped.ok() ? Status() : copying(std::move(unmapped));
  }
  if (buffers.values.size() < bytes) buffers.values.resize(bytes);
  make_values(from, buffers.blocks.data(), piece.blocks, buffers.values.data());
  Status copied = device_.upload(buffers.values.data(), target);
  return copied.ok() ? Status() : copying(std::move(copied));
}

}  // namespace heddle::memory
