// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.param_io/1: copies file extents to device memory and back, through the ring. No file is mapped or registered; no memory use grows with the
// size of the file.
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "heddle/sdk/driver_parts.h"
#include "heddle/sdk/futex.h"
#include "heddle/sdk/stream/memory.h"
#include "stream/engine.h"
#include "stream/ring.h"

namespace heddle::sdk::stream {

namespace {

using DeviceFile = sdk::DeviceFile<Device>;

heddle_status_t* run_job(Device* device, sdk::FileJob& job, const heddle_param_io_params_t& params) {
  job.choose_method();
  const std::vector<sdk::FileChunk>& chunks = job.chunks();
  Ring::Plan plan(!job.writes(), job.total_bytes(), job.chunk_bytes(), params.pinned_bytes, params.queue_depth);
  for (size_t i = 0; i < chunks.size(); ++i) {
    const sdk::FileChunk& chunk = chunks[i];
    const Buffer* buffer = Buffer::from(chunk.buffer);
    plan.add(buffer->address + chunk.buffer_offset, buffer->host ? buffer->host + chunk.buffer_offset : nullptr, chunk.length,
             job.direct() ? chunk.lead() : 0, i && chunks[i - 1].extent == chunk.extent);
  }
  plan.host_side = [&](uint64_t index, char* memory) {
    const bool in_slot = Buffer::from(chunks[index].buffer)->host == nullptr;
    return !job.cancelled() && job.move(chunks[index], memory, in_slot ? sdk::FileJob::Room::kBlocks : sdk::FileJob::Room::kChunk);
  };
  plan.arrived = [&](uint64_t index) { job.arrived(chunks[index]); };
  if (chunks.empty()) job.cancelled();
  const uint64_t started = sdk::monotonic_ns();
  heddle_status_t* failure = device->ring->move(plan);
  if (!failure) failure = job.result();
  if (!failure && job.total_bytes()) {
    const double seconds = static_cast<double>(sdk::monotonic_ns() - started) * 1e-9;
    log_line(device, HEDDLE_LOG_DEBUG, "param_io.cpp", "%s %llu bytes%s in %.3f ms (%.1f GB/s)", job.writes() ? "wrote" : "read",
             number(job.total_bytes()), job.direct() ? " bypassing the page cache" : "", seconds * 1e3,
             static_cast<double>(job.total_bytes()) * 1e-9 / seconds);
  }
  return failure;
}

heddle_status_t* move_extents(heddle_queue_t* queue_handle, const heddle_sync_t* sync_in, heddle_file_t* file_handle,
                              const heddle_extent_t* extents, uint64_t count, const heddle_param_io_params_t* in, bool writes) noexcept {
  Device* device = Queue::from(queue_handle)->device();
  return guarded(device->host, writes ? "writing a file" : "reading a file", [&]() -> heddle_status_t* {
    const DeviceFile* file = DeviceFile::from(file_handle);
    heddle_sync_t sync;
    heddle_param_io_params_t params = {};
    uint64_t bad_byte;
    if (!sdk::read_struct(sync_in, &sync, &bad_byte)) return sdk::tail_status(device->host, "heddle_sync_t", bad_byte);
    if (in && !sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(device->host, "heddle_param_io_params_t", bad_byte);
    if (heddle_status_t* bad = check_sync(device, sync)) return bad;
    if (heddle_status_t* lost = device->loss()) return lost;
    auto job = std::make_shared<sdk::FileJob>(device->host, device->who, file ? &file->file : nullptr, writes);
    // A slot of the ring holds one chunk, so a chunk is no larger than the bound; several are read and copied at the same time.
    const uint64_t pinned = params.pinned_bytes ? params.pinned_bytes : Ring::kPinnedBytes;
    params.chunk_bytes = params.chunk_bytes ? std::min(params.chunk_bytes, pinned) : std::min(Ring::kPieceBytes, pinned / 4);
    if (heddle_status_t* bad = job->start(extents, count, params, Ring::kPieceBytes)) return bad;
    for (uint64_t i = 0; i < count; ++i) {
      const Buffer* buffer = Buffer::from(extents[i].buffer);
      if (heddle_status_t* bad = job->add(i, extents[i], buffer ? buffer->size : 0)) return bad;
    }
    device->engine->enqueue({{sync.waits, sync.waits + sync.wait_count},
                             {sync.signals, sync.signals + sync.signal_count},
                             [device, job, params] { return run_job(device, *job, params); },
                             Queue::from(queue_handle)});
    return nullptr;
  });
}

// The pinned slots are made while the caller allocates memory for what it will read.
heddle_status_t* open_file(heddle_device_t* handle, int32_t descriptor, uint32_t access, heddle_string_t name,
                           heddle_file_t** out) noexcept {
  if (heddle_status_t* bad = DeviceFile::open(handle, descriptor, access, name, out)) return bad;
  Device* device = Device::from(handle);
  struct stat facts = {};
  if (!(access & HEDDLE_FILE_READ) || fstat(descriptor, &facts) != 0 || static_cast<uint64_t>(facts.st_size) < Ring::kPinnedBytes)
    return nullptr;
  heddle_status_t* bad = guarded(device->host, "opening a file", [&]() -> heddle_status_t* {
    device->engine->enqueue({{},
                             {},
                             [device]() -> heddle_status_t* {
                               device->ring->prepare_for_large_moves();
                               return nullptr;
                             },
                             nullptr});
    return nullptr;
  });
  if (bad) DeviceFile::close(std::exchange(*out, nullptr));
  return bad;
}

heddle_status_t* param_io_read(heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                               uint64_t count, const heddle_param_io_params_t* params) noexcept {
  return move_extents(queue, sync, file, extents, count, params, false);
}

heddle_status_t* param_io_write(heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                                uint64_t count, const heddle_param_io_params_t* params) noexcept {
  return move_extents(queue, sync, file, extents, count, params, true);
}

}  // namespace

const heddle_param_io_interface_t* param_io_interface() noexcept {
  static const heddle_param_io_interface_t table = {
      sizeof(heddle_param_io_interface_t), 0, open_file, DeviceFile::close, param_io_read, param_io_write, nullptr};
  return &table;
}

}  // namespace heddle::sdk::stream
