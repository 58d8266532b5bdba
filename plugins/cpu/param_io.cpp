// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.param_io/1: reads file extents directly into buffers and back. Every extent is divided into chunks; the device's workers read them with
// pread, several in flight, so that nothing is staged unless reads bypass the page cache. Bytes that are read to where they are mapped are only made
// present.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "cpu/memory.h"
#include "cpu/queue.h"
#include "heddle/sdk/file.h"

namespace heddle::cpu {

using sdk::guarded;
using sdk::status;

namespace {

constexpr uint64_t kDefaultChunk = 4 << 20;
constexpr uint32_t kChunksEach = 4;  // chunks per worker in a batch

using DeviceFile = sdk::DeviceFile<Device>;

}  // namespace

// One call of read or write.
struct IoJob {
  IoJob(const heddle_host_t* host, const sdk::File* file, bool writes, uint32_t at_once)
      : file_read(writes ? nullptr : file), job(host, "cpu", file, writes), in_flight(at_once) {}
  const sdk::File* file_read;
  sdk::FileJob job;
  uint32_t in_flight;  // 0: one per worker
  uint32_t workers = 0;
  // Reads that bypass the page cache read whole blocks into separate memory: one chunk per worker.
  std::unique_ptr<char, decltype(&std::free)> blocks{nullptr, &std::free};
};

namespace {

// Some chunks of a job.
struct Batch {
  IoJob* io;
  uint64_t first;
};

int32_t io_piece(void* context, uint64_t first, uint64_t last, uint32_t place) noexcept {
  const auto* batch = static_cast<const Batch*>(context);
  IoJob* io = batch->io;
  sdk::FileJob& job = io->job;
  for (uint64_t i = first; i < last; ++i) {
    const sdk::FileChunk& chunk = job.chunks()[batch->first + i];
    if (job.cancelled()) return 1;
    const Buffer* buffer = Buffer::from(chunk.buffer);
    char* to = buffer->data + chunk.buffer_offset;
    if (buffer->steady && io->file_read &&
        SteadyFiles::fill(*buffer->steady, io->file_read->descriptor, chunk.file_offset, chunk.length, to)) {
      // present
    } else if (io->blocks) {
      char* from = io->blocks.get() + std::min(place, io->workers) * job.chunk_bytes() + chunk.lead();
      if (!job.move(chunk, from, sdk::FileJob::Room::kBlocks)) return 1;
      std::memcpy(to, from, chunk.length);
    } else if (!job.move(chunk, to, sdk::FileJob::Room::kChunk)) {
      return 1;
    }
    job.arrived(chunk);
  }
  return 0;
}

}  // namespace

heddle_status_t* run_io(Device* device, Workers::Team* team, IoJob* io) noexcept {
  sdk::EnvironmentKeeper keep;
  Workers& workers = device->workers;
  io->job.choose_method();
  io->workers = workers.count() - 1;  // number of the workers' places; the caller's place comes after them
  if (io->job.direct()) {
    io->blocks.reset(static_cast<char*>(std::aligned_alloc(sdk::kFileBlock, workers.count() * io->job.chunk_bytes())));
  }
  const uint32_t at_once = io->in_flight ? std::min(io->in_flight, workers.count()) : workers.count();
  const uint64_t all = io->job.chunks().size();
  // Between two batches other callers get their share of the workers.
  for (Batch batch{io, 0}; batch.first < all;) {
    const uint64_t count = std::min<uint64_t>(all - batch.first, uint64_t{kChunksEach} * at_once);
    if (team->run(io_piece, &batch, count, team->settle(at_once), 1) != 0) break;
    batch.first += count;
  }
  if (io->job.chunks().empty()) io->job.cancelled();
  return io->job.result();
}

void free_io(Device* device, IoJob* io) noexcept {
  sdk::unmake(device->host, io);
}

namespace {

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
    IoJob* io = sdk::make<IoJob>(device->host, device->host, file ? &file->file : nullptr, writes, params.queue_depth);
    struct Holder {
      Device* device;
      IoJob* io;
      ~Holder() {
        if (io) free_io(device, io);
      }
    } holder{device, io};
    if (heddle_status_t* bad = io->job.start(extents, count, params, kDefaultChunk)) return bad;
    for (uint64_t i = 0; i < count; ++i) {
      const Buffer* buffer = Buffer::from(extents[i].buffer);
      if (heddle_status_t* bad = io->job.add(i, extents[i], buffer ? buffer->size : 0)) return bad;
    }
    Queue* queue = Queue::from(queue_handle)->files();
    Queue::Draft draft(queue);
    if (!draft.work || !lower_io(io, &draft.arena, draft.work)) return sdk::exhausted_status(device->host, "cpu: reading a file");
    heddle_status_t* bad = queue->submit(&draft, sync);
    if (!bad) holder.io = nullptr;  // the queue's thread frees it
    return bad;
  });
}

heddle_status_t* param_io_read(heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                               uint64_t count, const heddle_param_io_params_t* params) noexcept {
  return move_extents(queue, sync, file, extents, count, params, false);
}

heddle_status_t* param_io_write(heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                                uint64_t count, const heddle_param_io_params_t* params) noexcept {
  return move_extents(queue, sync, file, extents, count, params, true);
}

// Uses the file's pages directly as device memory. The mapping is private, so that writes to the buffer do not change the file.
heddle_status_t* param_io_map(heddle_file_t* handle, uint64_t offset, uint64_t length, heddle_buffer_t** out) noexcept {
  *out = nullptr;
  const sdk::File& file = DeviceFile::from(handle)->file;
  Device* device = DeviceFile::from(handle)->device;
  return guarded(device->host, "mapping a file", [&]() -> heddle_status_t* {
    auto refuse = [&](heddle_status_code_t code, const char* why) {
      return status(device->host, code, "cpu: mapping %llu bytes of '%s' from byte %llu failed: %s", number(length), file.name.c_str(),
                    number(offset), why);
    };
    if (offset % kAlignment != 0) return refuse(HEDDLE_STATUS_INVALID_ARGUMENT, "the first byte is not at a multiple of 64 [HD-M-04]");
    if (!(file.access & HEDDLE_FILE_READ)) return refuse(HEDDLE_STATUS_INVALID_ARGUMENT, "it was not opened for reading");
    struct stat facts;
    if (fstat(file.descriptor, &facts) != 0 || !S_ISREG(facts.st_mode))
      return refuse(HEDDLE_STATUS_UNIMPLEMENTED, "it is not a regular file");
    const auto size = static_cast<uint64_t>(facts.st_size);
    if (offset > size || length > size - offset)
      return refuse(HEDDLE_STATUS_DATA_LOSS, "the file ends earlier; it is truncated or was replaced");
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    auto* buffer = sdk::make<Buffer>(device->host);
    *buffer = {.api = device->api, .size = length, .device = device, .memory = kAllKinds};
    if (file.access & HEDDLE_FILE_STEADY) {
      const char* why = "pages would be on one of several NUMA nodes";
      if (device->instance->nodes.size() < 2)
        buffer->steady = device->steady_files.map(file, offset - offset % page, offset % page + length, &why);
      if (!buffer->steady) {
        sdk::unmake(device->host, buffer);
        return refuse(HEDDLE_STATUS_UNIMPLEMENTED, why);
      }
      buffer->data = buffer->steady->memory + offset % page;
    } else if (length != 0) {
      buffer->mapped_bytes = offset % page + length;
      void* memory = mmap(nullptr, buffer->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.descriptor,
                          static_cast<off_t>(offset - offset % page));
      if (memory == MAP_FAILED) {
        const int error = errno;
        sdk::unmake(device->host, buffer);
        return sdk::errno_status(device->host, error == ENOMEM ? HEDDLE_STATUS_RESOURCE_EXHAUSTED : HEDDLE_STATUS_UNIMPLEMENTED, error,
                                 "cpu: mapping %llu bytes of '%s' failed", number(length), file.name.c_str());
      }
      buffer->mapped = memory;
      buffer->data = static_cast<char*>(memory) + offset % page;
    }
    device->counters.bytes_allocated.fetch_add(length);
    device->live.buffers.fetch_add(1);
    *out = buffer->handle();
    return nullptr;
  });
}

}  // namespace

const heddle_param_io_interface_t* param_io_interface() noexcept {
  static const heddle_param_io_interface_t table = {
      sizeof(heddle_param_io_interface_t), 0, DeviceFile::open, DeviceFile::close, param_io_read, param_io_write, param_io_map};
  return &table;
}

}  // namespace heddle::cpu
