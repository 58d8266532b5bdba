// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Called through encoded_weights.h. The driver orders reading and decoding of a chunk; this thread waits until a chunk is decoded before it has the next
// but one read to the same place.
#include "core/memory/encoded_weights.h"

#include <algorithm>
#include <charconv>

#include "core/memory/param_io.h"
#include "heddle/ext/blocks.h"

namespace heddle::memory {

namespace {

constexpr size_t kPlaces = 2;
constexpr uint64_t kAlignment = 256;  // of the blocks in a chunk; heddle.blocks/1 requires 64
// A chunk's size: large, since the link idles briefly between two reads, but a small part of the device's memory.
constexpr uint64_t kLeastChunk = uint64_t{4} << 20, kMostChunk = uint64_t{512} << 20, kPartOfMemory = 256;

uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace

EncodedWeights::~EncodedWeights() {
  while (!flights_.empty()) static_cast<void>(land());  // nothing may use the memory when it is freed
  for (const File& file : files_) {
    if (file.handle) device_.api().param_io->file_close(file.handle);
  }
  if (staging_.buffer) device_.pool().free(staging_);
}

bool EncodedWeights::add(const WeightExtent& extent, Weight& weight) {
  if (!extent.block || device_.unified()) return false;
  if (!Status(device_.api().blocks->supports(device_.get(), to_c(extent.block->name), extent.type)).ok()) return false;
  auto file = std::find_if(files_.begin(), files_.end(), [&](const File& known) { return known.descriptor == extent.descriptor; });
  if (file == files_.end()) file = files_.insert(file, {extent.descriptor, std::string(extent.path), {}, nullptr});
  file->parts.push_back({&extent, &weight});
  return true;
}

Status EncodedWeights::check_cancelled() const {
  if (!cancelled_ || !cancelled_->load(std::memory_order_relaxed)) return Status();
  return error(HEDDLE_STATUS_CANCELLED, "reading parameters to device '{}' was cancelled: the instance was released", device_.alias());
}

Status EncodedWeights::open() {
  for (File& file : files_) {
    // In file order, which suits disks and read-ahead.
    std::sort(file.parts.begin(), file.parts.end(), [](const Part& a, const Part& b) { return a.from->offset < b.from->offset; });
    HEDDLE_RETURN_IF_ERROR(device_.noted(
        Status(device_.api().param_io->file_open(device_.get(), file.descriptor, HEDDLE_FILE_READ, to_c(file.path), &file.handle))));
  }
  return Status();
}

Status EncodedWeights::allocate() {
  for (const File& file : files_) {
    for (const Part& part : file.parts) {
      HEDDLE_RETURN_IF_ERROR(check_cancelled());
      Status allocated = part.to->allocate(part.from->length);
      if (!allocated.ok()) {
        return wrap(std::move(allocated), fmt::format("allocating {} bytes for a parameter of {} on device '{}'", part.from->length,
                                                      part.from->path, device_.alias()));
      }
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
    if (allocated.code() != HEDDLE_STATUS_RESOURCE_EXHAUSTED) {
      return wrap(std::move(allocated),
                  fmt::format("allocating {} bytes to decode parameters on device '{}'", kPlaces * chunk_bytes_, device_.alias()));
    }
    if (chunk_bytes_ <= kLeastChunk) {
      return error(HEDDLE_STATUS_UNIMPLEMENTED, "device '{}' has no {} bytes of memory left to decode parameters", device_.alias(),
                   kPlaces * chunk_bytes_);
    }
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
      if (flights_.size() == kPlaces) first = land();
      if (first.ok()) first = check_cancelled();
      if (first.ok()) first = begin(next_chunk(file, number++ % kPlaces * chunk_bytes_, &part, &block), params);
    }
  }
  while (!flights_.empty()) {
    if (Status landed = land(); first.ok()) first = std::move(landed);
  }
  return first;
}

EncodedWeights::Chunk EncodedWeights::next_chunk(const File& file, uint64_t offset, size_t* part, uint64_t* block) const {
  Chunk chunk;
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
  return chunk;
}

Status EncodedWeights::begin(Chunk chunk, heddle_param_io_params_t& params) {
  const heddle_driver_api_t& api = device_.api();
  Result<Device::Pending> reading = device_.start([&](const heddle_sync_t* sync) {
    return api.param_io->read(device_.queue(), sync, chunk.file->handle, chunk.extents.data(), chunk.extents.size(), &params);
  });
  if (!reading.ok()) return wrap(reading.take_status(), "reading parameters from " + chunk.file->path);
  chunk.reading = std::move(*reading);
  const heddle_point_t read{chunk.reading.timeline->get(), chunk.reading.value};
  flights_.push_back(std::move(chunk));
  Chunk& flight = flights_.back();
  Result<Device::Pending> decoding = device_.start(
      [&](const heddle_sync_t* sync) { return api.blocks->decode(device_.queue(), sync, flight.items.data(), flight.items.size()); },
      std::span(&read, 1));
  if (!decoding.ok()) {
    return wrap(decoding.take_status(),
                fmt::format("decoding tensor '{}' of {} on device '{}'", flight.from.front()->name, flight.file->path, device_.alias()));
  }
  flight.decoding = std::move(*decoding);
  flight.decodes = true;
  return Status();
}

Status EncodedWeights::land() {
  Chunk chunk = std::move(flights_.front());
  flights_.pop_front();
  // Decoding waits for reading, and fails with it; both have ended when it has.
  Status decoded = chunk.decodes ? device_.finish(std::move(chunk.decoding)) : Status();
  Status read = device_.finish(std::move(chunk.reading));
  if (read.ok()) {
    if (decoded.ok()) return Status();
    return wrap(std::move(decoded),
                fmt::format("decoding tensor '{}' of {} on device '{}'", chunk.from.front()->name, chunk.file->path, device_.alias()));
  }
  // A driver identifies the extent by its number in the read; the message gets the tensor's name.
  const std::string_view text = view(heddle_status_payload(read.get(), to_c("extent")));
  size_t index = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), index).ec != std::errc() || index >= chunk.from.size()) {
    return wrap(std::move(read), "reading parameters from " + chunk.file->path);
  }
  const WeightExtent& weight = *chunk.from[index];
  return wrap(std::move(read), fmt::format("reading tensor '{}' (bytes [{}, {}) of {})", weight.name, weight.offset,
                                           weight.offset + weight.block_bytes, chunk.file->path))
      .payload("parameter", weight.name);
}

}  // namespace heddle::memory
