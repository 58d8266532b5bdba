// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Called through encoded_weights.h. The driver orders reading and decoding of a chunk; this thread waits until a chunk is decoded before it has the next
// but one read to the same place.
#include "core/memory/encoded_weights.h"

#include <algorithm>

#include "core/memory/param_io.h"
#include "heddle/ext/blocks.h"

namespace heddle::memory {

namespace {

constexpr uint64_t kAlignment = 256;  // of the blocks in a chunk; heddle.blocks/1 requires 64
// A chunk's size: large, since the link idles briefly between two reads, but a small part of the device's memory.
constexpr uint64_t kLeastChunk = uint64_t{4} << 20, kMostChunk = uint64_t{512} << 20, kPartOfMemory = 256;

uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace

EncodedWeights::~EncodedWeights() {
  for (Chunk& chunk : chunks_) static_cast<void>(land(chunk));  // nothing may use the memory when it is freed
  for (const File& file : files_) {
    if (file.handle) device_.api().param_io->file_close(file.handle);
  }
  if (staging_.buffer) device_.pool().free(staging_);
}

bool EncodedWeights::add(const WeightExtent& extent, Weight& weight) {
  if (!extent.block || device_.unified()) return false;
  if (!Status(device_.api().blocks->supports(device_.get(), to_c(extent.block->name), extent.type)).ok()) return false;
  auto file = std::find_if(files_.begin(), files_.end(), [&](const File& known) { return known.descriptor == extent.descriptor; });
  if (file == files_.end()) file = files_.insert(file, {extent.descriptor, extent.path, {}, nullptr});
  // In file order, which suits disks and read-ahead.
  file->parts.insert(std::upper_bound(file->parts.begin(), file->parts.end(), extent.offset,
                                      [](uint64_t offset, const Part& part) { return offset < part.from->offset; }),
                     {&extent, &weight});
  return true;
}

Status EncodedWeights::open() {
  for (File& file : files_) {
    HEDDLE_RETURN_IF_ERROR(device_.noted(
        Status(device_.api().param_io->file_open(device_.get(), file.descriptor, HEDDLE_FILE_READ, to_c(file.path), &file.handle))));
  }
  return Status();
}

Status EncodedWeights::allocate() {
  for (const File& file : files_) {
    for (const Part& part : file.parts) {
      HEDDLE_RETURN_IF_ERROR(check_cancelled(device_, cancelled_));
      HEDDLE_RETURN_IF_ERROR(allocate_weight(device_, *part.from, *part.to));
    }
  }
  return Status();
}

Status EncodedWeights::allocate_staging() {
  uint64_t total = 0;
  for (const File& file : files_) {
    for (const Part& part : file.parts) total += round_up(part.from->block_bytes, kAlignment);
  }
  const uint64_t most = std::clamp(device_.description().memory_bytes / kPartOfMemory, kLeastChunk, kMostChunk);
  // Several chunks also of a small file, so that its first part is decoded while the others are read.
  chunk_bytes_ = round_up(std::clamp(total / 4, kLeastChunk, most), kAlignment);
  for (;; chunk_bytes_ = round_up(chunk_bytes_ / 2, kAlignment)) {
    Status allocated = device_.allocate(kPlaces * chunk_bytes_, kAlignment, kWeights, &staging_);
    if (allocated.ok()) return Status();
    staging_ = {};
    if (allocated.code() != HEDDLE_STATUS_RESOURCE_EXHAUSTED) return allocated;
    if (chunk_bytes_ <= kLeastChunk) return error(HEDDLE_STATUS_UNIMPLEMENTED, "no memory to decode parameters: {}", allocated.message());
  }
}

Status EncodedWeights::read() {
  if (files_.empty()) return Status();
  HEDDLE_RETURN_IF_ERROR(open());
  HEDDLE_RETURN_IF_ERROR(allocate());
  HEDDLE_RETURN_IF_ERROR(allocate_staging());
  if (config_.method.empty()) return read_by(HEDDLE_FILE_METHOD_ANY);
  Status refused =
      error(HEDDLE_STATUS_UNIMPLEMENTED, "param_io.method has no method that reads to the memory of device '{}'", device_.alias());
  for (const std::string& name : config_.method) {
    const ReadMethod* method = read_method(name, device_.driver_minor());
    if (!method) continue;
    Status read = read_by(method->number);
    if (read.ok() || read.code() != HEDDLE_STATUS_UNIMPLEMENTED) return read;
    refused = std::move(read);
  }
  return refused;
}

Status EncodedWeights::read_by(uint32_t method) {
  heddle_param_io_params_t params = read_params(config_);
  params.method = method;
  Status first;
  uint64_t number = 0;
  for (const File& file : files_) {
    uint64_t block = 0;
    for (size_t part = 0; part < file.parts.size() && first.ok();) {
      Chunk& chunk = chunks_[number++ % kPlaces];
      first = land(chunk);
      if (first.ok()) first = check_cancelled(device_, cancelled_);
      if (!first.ok()) break;
      fill(chunk, file, &part, &block);
      first = begin(chunk, params);
    }
  }
  for (size_t i = 0; i < kPlaces; ++i) {
    if (Status landed = land(chunks_[number++ % kPlaces]); first.ok()) first = std::move(landed);
  }
  return first;
}

void EncodedWeights::fill(Chunk& chunk, const File& file, size_t* part, uint64_t* block) const {
  const uint64_t offset = static_cast<uint64_t>(&chunk - chunks_) * chunk_bytes_;
  chunk.file = &file;
  for (uint64_t used = 0; *part < file.parts.size(); used = round_up(used, kAlignment)) {
    const auto& [from, to] = file.parts[*part];
    const uint64_t bytes = from->block->bytes, per_block = uint64_t{from->block->elements} * (HEDDLE_TYPE_BITS(from->type) / 8);
    const uint64_t left = from->block_bytes / bytes - *block;
    const uint64_t count = used < chunk_bytes_ ? std::min(left, (chunk_bytes_ - used) / bytes) : 0;
    if (count == 0) break;
    const uint64_t place = staging_.offset + offset + used;
    chunk.from.push_back(from);
    chunk.extents.push_back({from->offset + *block * bytes, count * bytes, staging_.buffer, place});
    chunk.items.push_back({to_c(from->block->name),
                           from->type,
                           0,
                           count,
                           {staging_.buffer, place, count * bytes},
                           {to->block().buffer, to->block().offset + *block * per_block, count * per_block}});
    used += count * bytes;
    *block += count;
    if (count < left) break;
    *block = 0;
    ++*part;
  }
}

Status EncodedWeights::begin(Chunk& chunk, heddle_param_io_params_t& params) {
  const heddle_driver_api_t& api = device_.api();
  Result<Device::Pending> reading = device_.start([&](const heddle_sync_t* sync) {
    return api.param_io->read(device_.queue(), sync, chunk.file->handle, chunk.extents.data(), chunk.extents.size(), &params);
  });
  if (!reading.ok()) return reading_failed(reading.take_status(), chunk.file->path, nullptr);
  chunk.reading = std::move(*reading);
  chunk.reads = true;
  const heddle_point_t read{chunk.reading.timeline->get(), chunk.reading.value};
  Result<Device::Pending> decoding = device_.start(
      [&](const heddle_sync_t* sync) { return api.blocks->decode(device_.queue(), sync, chunk.items.data(), chunk.items.size()); },
      std::span(&read, 1));
  if (!decoding.ok()) return decoding_failed(decoding.take_status(), chunk);
  chunk.decoding = std::move(*decoding);
  chunk.decodes = true;
  return Status();
}

Status EncodedWeights::land(Chunk& chunk) {
  // Decoding waits for reading, and fails with it; both have ended when it has.
  Status decoded = chunk.decodes ? device_.finish(std::move(chunk.decoding)) : Status();
  Status read = chunk.reads ? device_.finish(std::move(chunk.reading)) : Status();
  if (!read.ok()) {
    const size_t index = failed_extent(read);
    read = reading_failed(std::move(read), chunk.file->path, index < chunk.from.size() ? chunk.from[index] : nullptr);
  } else if (!decoded.ok()) {
    read = decoding_failed(std::move(decoded), chunk);
  }
  chunk.reads = chunk.decodes = false;
  chunk.from.clear();
  chunk.extents.clear();
  chunk.items.clear();
  return read;
}

Status EncodedWeights::decoding_failed(Status&& failure, const Chunk& chunk) const {
  return wrap(std::move(failure),
              fmt::format("decoding tensor '{}' of {} on device '{}'", chunk.from.front()->name, chunk.file->path, device_.alias()));
}

}  // namespace heddle::memory
