// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.param_io/1: reads file extents straight into buffers and back. Every extent is cut into chunks; the device's workers read
// them with pread, several in flight, so that nothing is staged and no file is mapped.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <string>
#include <vector>

#include "cpu/queue.h"

namespace heddle::cpu {

using sdk::guarded;
using sdk::status;

namespace {

constexpr uint64_t kDefaultChunk = 4 << 20;
constexpr uint64_t kMinChunk = 4 << 10;
constexpr uint64_t kMaxChunk = 1 << 30;

struct File {
  const heddle_driver_api_t* api;
  Device* device;
  int descriptor;
  uint32_t access;
  std::string name;

  static File* from(heddle_file_t* handle) noexcept { return reinterpret_cast<File*>(handle); }
  heddle_file_t* handle() noexcept { return reinterpret_cast<heddle_file_t*>(this); }
};

struct Chunk {
  uint64_t file_offset;
  uint64_t length;
  char* memory;
};

}  // namespace

// One call of read or write.
struct IoJob {
  const File* file;
  bool writes;
  std::vector<Chunk> chunks;
  uint64_t total_bytes = 0;
  uint32_t in_flight = 0;  // 0: one a worker
  void (*progress)(void*, uint64_t, uint64_t) = nullptr;
  void* context = nullptr;
  const volatile uint32_t* cancel = nullptr;

  std::mutex mutex;  // guards what follows; progress is called under it, so that its numbers only grow
  uint64_t done_bytes = 0;
  heddle_status_code_t failure = HEDDLE_STATUS_OK;
  uint64_t failed_offset = 0, failed_got = 0;
  int error = 0;
};

namespace {

bool cancelled(const IoJob& job) noexcept {
  return job.cancel && *job.cancel != 0;
}

// Moves one chunk; false if the job is to stop.
bool move_chunk(IoJob* job, const Chunk& chunk) noexcept {
  uint64_t moved = 0;
  heddle_status_code_t failure = HEDDLE_STATUS_OK;
  int error = 0;
  while (moved < chunk.length) {
    const auto offset = static_cast<off_t>(chunk.file_offset + moved);
    const size_t left = chunk.length - moved;
    const ssize_t got = job->writes ? pwrite(job->file->descriptor, chunk.memory + moved, left, offset)
                                    : pread(job->file->descriptor, chunk.memory + moved, left, offset);
    if (got > 0) {
      moved += static_cast<uint64_t>(got);
    } else if (got == 0) {  // the end of the file
      failure = HEDDLE_STATUS_DATA_LOSS;
      break;
    } else if (errno != EINTR) {
      error = errno;
      failure = error == ENOSPC || error == EDQUOT ? HEDDLE_STATUS_RESOURCE_EXHAUSTED : HEDDLE_STATUS_DATA_LOSS;
      break;
    }
  }
  std::lock_guard<std::mutex> lock(job->mutex);
  if (failure != HEDDLE_STATUS_OK) {
    // The lowest offset, so that the text does not depend on which worker was first.
    if (job->failure == HEDDLE_STATUS_OK || chunk.file_offset < job->failed_offset) {
      job->failure = failure;
      job->failed_offset = chunk.file_offset;
      job->failed_got = moved;
      job->error = error;
    }
    return false;
  }
  job->done_bytes += chunk.length;
  if (job->progress) job->progress(job->context, job->done_bytes, job->total_bytes);
  return true;
}

int32_t io_piece(void* context, uint64_t first, uint64_t last, uint32_t) noexcept {
  auto* job = static_cast<IoJob*>(context);
  for (uint64_t i = first; i < last; ++i) {
    if (cancelled(*job)) {
      std::lock_guard<std::mutex> lock(job->mutex);
      if (job->failure == HEDDLE_STATUS_OK) job->failure = HEDDLE_STATUS_CANCELLED;
      return 1;
    }
    if (!move_chunk(job, job->chunks[i])) return 1;
  }
  return 0;
}

}  // namespace

heddle_status_t* run_io(Device* device, IoJob* job) noexcept {
  sdk::ErrnoKeeper keep;
  {
    Workers& workers = device->workers;
    std::lock_guard<std::mutex> lock(workers.busy());
    const uint32_t at_once = job->in_flight ? std::min(job->in_flight, workers.count()) : workers.count();
    workers.run(io_piece, job, job->chunks.size(), at_once, 1);
  }
  if (job->chunks.empty() && cancelled(*job)) job->failure = HEDDLE_STATUS_CANCELLED;
  const char* verb = job->writes ? "writing" : "reading";
  switch (job->failure) {
    case HEDDLE_STATUS_OK:
      return nullptr;
    case HEDDLE_STATUS_CANCELLED:
      return status(device->host, HEDDLE_STATUS_CANCELLED, "cpu: %s %llu bytes of '%s' failed: cancelled by the caller", verb,
                    number(job->total_bytes), job->file->name.c_str());
    default:
      break;
  }
  if (job->error) {
    return sdk::errno_status(device->host, job->failure, job->error, "cpu: %s '%s' at byte %llu failed", verb, job->file->name.c_str(),
                             number(job->failed_offset + job->failed_got));
  }
  return status(device->host, HEDDLE_STATUS_DATA_LOSS,
                "cpu: %s '%s' at byte %llu failed: the file ends at byte %llu; it is truncated or was replaced", verb,
                job->file->name.c_str(), number(job->failed_offset), number(job->failed_offset + job->failed_got));
}

void free_io(Device* device, IoJob* job) noexcept {
  sdk::unmake(device->host, job);
}

namespace {

heddle_status_t* file_open(heddle_device_t* handle, int32_t descriptor, uint32_t access, heddle_string_t name,
                           heddle_file_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "opening a file", [&]() -> heddle_status_t* {
    const std::string text(sdk::view_of(name).substr(0, 300));
    if (access == 0 || (access & ~(HEDDLE_FILE_READ | HEDDLE_FILE_WRITE))) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: opening '%s' with access %x failed: read, write or both",
                    text.c_str(), access);
    }
    const int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    if (own < 0) {
      return sdk::errno_status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, errno, "cpu: opening '%s' (descriptor %d) failed",
                               text.c_str(), descriptor);
    }
    const int flags = fcntl(own, F_GETFL);
    const bool reads = (flags & O_ACCMODE) != O_WRONLY, writes = (flags & O_ACCMODE) != O_RDONLY;
    struct stat facts;
    const bool seekable = fstat(own, &facts) == 0 && !S_ISDIR(facts.st_mode) && !S_ISFIFO(facts.st_mode) && !S_ISSOCK(facts.st_mode);
    if (!seekable || ((access & HEDDLE_FILE_READ) && !reads) || ((access & HEDDLE_FILE_WRITE) && !writes)) {
      close(own);
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: opening '%s' with access %x failed: %s", text.c_str(), access,
                    seekable ? "its descriptor was not opened for that" : "it has no offsets (a directory, pipe or socket)");
    }
    File* file;
    try {
      file = sdk::make<File>(device->host, File{device->api, device, own, access, text});
    } catch (...) {
      close(own);
      throw;
    }
    device->live.files.fetch_add(1);
    *out = file->handle();
    return nullptr;
  });
}

void file_close(heddle_file_t* handle) noexcept {
  if (!handle) return;
  File* file = File::from(handle);
  Device* device = file->device;
  sdk::guarded_release(device->host, [&] {
    close(file->descriptor);
    sdk::unmake(device->host, file);
    device->live.files.fetch_sub(1);
  });
}

heddle_status_t* add_extent(Device* device, const File& file, uint64_t index, const heddle_extent_t& extent, uint64_t chunk_bytes,
                            IoJob* job) {
  if (extent.length == 0) return nullptr;
  Buffer* buffer = Buffer::from(extent.buffer);
  if (!buffer || !buffer->holds(extent.buffer_offset, extent.length)) {
    return status(device->host, buffer ? HEDDLE_STATUS_OUT_OF_RANGE : HEDDLE_STATUS_INVALID_ARGUMENT,
                  "cpu: extent %llu of '%s' (%llu bytes at buffer byte %llu) failed: the buffer has %llu bytes", number(index),
                  file.name.c_str(), number(extent.length), number(extent.buffer_offset), number(buffer ? buffer->size : 0));
  }
  if (extent.file_offset > INT64_MAX || extent.length > INT64_MAX - extent.file_offset) {
    return status(device->host, HEDDLE_STATUS_OUT_OF_RANGE,
                  "cpu: extent %llu of '%s' (%llu bytes at file byte %llu) failed: files end before 2^63", number(index), file.name.c_str(),
                  number(extent.length), number(extent.file_offset));
  }
  job->total_bytes += extent.length;  // cannot wrap: each is inside a buffer
  for (uint64_t at = 0; at < extent.length; at += chunk_bytes) {
    job->chunks.push_back({extent.file_offset + at, std::min(chunk_bytes, extent.length - at), buffer->data + extent.buffer_offset + at});
  }
  return nullptr;
}

heddle_status_t* move_extents(heddle_queue_t* queue_handle, const heddle_sync_t* sync_in, heddle_file_t* file_handle,
                              const heddle_extent_t* extents, uint64_t count, const heddle_param_io_params_t* in, bool writes) noexcept {
  Queue* queue = Queue::from(queue_handle);
  Device* device = queue->device();
  return guarded(device->host, writes ? "writing a file" : "reading a file", [&]() -> heddle_status_t* {
    const File* file = File::from(file_handle);
    heddle_sync_t sync;
    heddle_param_io_params_t params = {};
    uint64_t bad_byte;
    if (!sdk::read_struct(sync_in, &sync, &bad_byte)) return sdk::tail_status(device->host, "heddle_sync_t", bad_byte);
    if (in && !sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(device->host, "heddle_param_io_params_t", bad_byte);
    if (!file || (count && !extents) || !(file->access & (writes ? HEDDLE_FILE_WRITE : HEDDLE_FILE_READ))) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: %s %llu extents of '%s' failed: %s", writes ? "writing" : "reading",
                    number(count), file ? file->name.c_str() : "",
                    !file               ? "there is no file"
                    : count && !extents ? "the list is null"
                                        : "it was opened without that access");
    }
    const uint64_t chunk = std::clamp(params.chunk_bytes ? params.chunk_bytes : kDefaultChunk, kMinChunk, kMaxChunk);
    IoJob* job = sdk::make<IoJob>(device->host);
    struct Holder {
      Device* device;
      IoJob* job;
      ~Holder() {
        if (job) free_io(device, job);
      }
    } holder{device, job};
    job->file = file;
    job->writes = writes;
    job->in_flight = params.queue_depth;
    job->progress = params.progress;
    job->context = params.context;
    job->cancel = params.cancel;
    for (uint64_t i = 0; i < count; ++i) {
      if (heddle_status_t* bad = add_extent(device, *file, i, extents[i], chunk, job)) return bad;
    }
    Queue::Draft draft(queue);
    if (!draft.work || !lower_io(job, &draft.arena, draft.work)) return sdk::exhausted_status(device->host, "cpu: reading a file");
    heddle_status_t* bad = queue->submit(&draft, sync);
    if (!bad) holder.job = nullptr;  // the queue's thread frees it
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

}  // namespace

const heddle_param_io_interface_t* param_io_interface() noexcept {
  static const heddle_param_io_interface_t table = {
      sizeof(heddle_param_io_interface_t), 0, file_open, file_close, param_io_read, param_io_write};
  return &table;
}

}  // namespace heddle::cpu
