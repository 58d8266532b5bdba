// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.param_io/1 of the fake: through a small staging buffer, extents in shuffled order.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fake.h"

namespace heddle::fake {
namespace {

using sdk::guarded;
using sdk::status;

constexpr uint64_t kStaging = 64 << 10;

struct File {
  const heddle_driver_api_t* api;
  Device* device;
  int descriptor;
  uint32_t access;
  std::string name;
  static File* from(heddle_file_t* handle) noexcept { return reinterpret_cast<File*>(handle); }
};

heddle_status_t* file_open(heddle_device_t* handle, int32_t descriptor, uint32_t access, heddle_string_t name,
                           heddle_file_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "opening a file", [&]() -> heddle_status_t* {
    if (heddle_status_t* lost = device->loss()) return lost;
    const std::string text(sdk::view_of(name));
    const int flags = fcntl(descriptor, F_GETFL);
    const int own = flags < 0 ? -1 : fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    if (own < 0) return sdk::errno_status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, errno, "fake: opening '%s' failed", text.c_str());
    if (access == 0 || access > 3 || ((access & HEDDLE_FILE_WRITE) && (flags & O_ACCMODE) == O_RDONLY)) {
      close(own);
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: opening '%s' with access %x failed", text.c_str(), access);
    }
    device->live.files += 1;
    *out = reinterpret_cast<heddle_file_t*>(new File{device->api, device, own, access, text});
    return nullptr;
  });
}

void file_close(heddle_file_t* handle) noexcept {
  if (!handle) return;
  File* file = File::from(handle);
  Device* device = file->device;
  sdk::guarded_release(device->host, [&] {
    close(file->descriptor);
    delete file;
    device->live.files -= 1;
  });
}

// What all extents of one call share; lives in their steps.
struct Progress {
  heddle_param_io_params_t params = {};
  uint64_t done = 0, total = 0;
};

heddle_status_t* move(Device* device, const File* file, bool writes, uint64_t index, const heddle_extent_t& extent, Progress* progress) {
  std::vector<char> staging(std::min(kStaging, extent.length));
  char* memory = Buffer::from(extent.buffer)->secret + extent.buffer_offset;
  const char* verb = writes ? "writing" : "reading";
  for (uint64_t at = 0; at < extent.length;) {
    if (progress->params.cancel && *progress->params.cancel) {
      return status(device->host, HEDDLE_STATUS_CANCELLED, "fake: %s '%s' failed: cancelled by the caller", verb, file->name.c_str());
    }
    uint64_t length = std::min<uint64_t>(staging.size(), extent.length - at);
    if (const int64_t bad = device->instance->bad_byte; bad >= 0 && !writes && static_cast<uint64_t>(bad) >= extent.file_offset + at) {
      length = std::min(length, static_cast<uint64_t>(bad) - extent.file_offset - at);
      if (length == 0) {
        return status(device->host, HEDDLE_STATUS_DATA_LOSS, "fake: reading '%s' at byte %llu failed: it cannot be read",
                      file->name.c_str(), number(extent.file_offset + at));
      }
    }
    if (writes) std::memcpy(staging.data(), memory + at, length);
    const auto offset = static_cast<off_t>(extent.file_offset + at);
    const ssize_t got =
        writes ? pwrite(file->descriptor, staging.data(), length, offset) : pread(file->descriptor, staging.data(), length, offset);
    if (got <= 0) {
      heddle_status_t* failure =
          status(device->host, HEDDLE_STATUS_DATA_LOSS, "fake: %s '%s' at byte %llu failed: %s", verb, file->name.c_str(),
                 number(extent.file_offset + at), got == 0 ? "the file ends there" : "the system refuses");
      device->host->status_set_payload(device->host->self, failure, sdk::string_of("extent"), sdk::string_of(std::to_string(index)));
      return failure;
    }
    if (!writes) std::memcpy(memory + at, staging.data(), static_cast<size_t>(got));
    at += static_cast<uint64_t>(got);
    progress->done += static_cast<uint64_t>(got);
    if (progress->params.progress) progress->params.progress(progress->params.context, progress->done, progress->total);
  }
  return nullptr;
}

heddle_status_t* enqueue(heddle_queue_t* queue_handle, const heddle_sync_t* sync, heddle_file_t* file_handle,
                         const heddle_extent_t* extents, uint64_t count, const heddle_param_io_params_t* in, bool writes) noexcept {
  Queue* queue = Queue::from(queue_handle);
  Device* device = queue->device;
  return guarded(device->host, "moving file extents", [&]() -> heddle_status_t* {
    const File* file = File::from(file_handle);
    auto progress = std::make_shared<Progress>();
    uint64_t bad_byte;
    if (in && !sdk::read_struct(in, &progress->params, &bad_byte))
      return sdk::tail_status(device->host, "heddle_param_io_params_t", bad_byte);
    if (!file || !(file->access & (writes ? HEDDLE_FILE_WRITE : HEDDLE_FILE_READ))) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: the file was opened without that access");
    }
    if (!writes && progress->params.method > HEDDLE_FILE_METHOD_DIRECT) {
      return status(device->host, HEDDLE_STATUS_UNIMPLEMENTED, "fake: reading '%s' failed: it reads through the page cache alone",
                    file->name.c_str());
    }
    auto submission = std::make_unique<Submission>();
    submission->queue = queue;
    if (heddle_status_t* bad = read_sync(device, sync, submission.get())) return bad;
    for (uint64_t i = 0; i < count; ++i) {
      const heddle_extent_t extent = extents[i];
      const Buffer* buffer = Buffer::from(extent.buffer);
      if (extent.length && (!buffer || !buffer->holds(extent.buffer_offset, extent.length))) {
        return status(device->host, buffer ? HEDDLE_STATUS_OUT_OF_RANGE : HEDDLE_STATUS_INVALID_ARGUMENT,
                      "fake: extent %llu of '%s' (%llu bytes at buffer byte %llu) failed: the buffer has %llu bytes", number(i),
                      file->name.c_str(), number(extent.length), number(extent.buffer_offset), number(buffer ? buffer->size : 0));
      }
      if (extent.file_offset > INT64_MAX || extent.length > INT64_MAX - extent.file_offset) {
        return status(device->host, HEDDLE_STATUS_OUT_OF_RANGE, "fake: extent %llu of '%s' failed: files end before 2^63", number(i),
                      file->name.c_str());
      }
      progress->total += extent.length;
      if (extent.length) submission->groups[0].push_back([=] { return move(device, file, writes, i, extent, progress.get()); });
    }
    return device->engine->enqueue(std::move(submission));
  });
}

heddle_status_t* read(heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents, uint64_t count,
                      const heddle_param_io_params_t* params) noexcept {
  return enqueue(queue, sync, file, extents, count, params, false);
}
heddle_status_t* write(heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                       uint64_t count, const heddle_param_io_params_t* params) noexcept {
  return enqueue(queue, sync, file, extents, count, params, true);
}

}  // namespace

const heddle_param_io_interface_t* param_io_interface() noexcept {
  static const heddle_param_io_interface_t table = {sizeof(heddle_param_io_interface_t), 0, file_open, file_close, read, write, nullptr};
  return &table;
}

}  // namespace heddle::fake
