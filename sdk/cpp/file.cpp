// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See heddle/sdk/file.h.
#include "heddle/sdk/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace heddle::sdk {
namespace {

constexpr uint64_t kMinChunk = 4 << 10;
constexpr uint64_t kMaxChunk = 1 << 30;

unsigned long long number(uint64_t value) noexcept {
  return value;
}

}  // namespace

heddle_status_t* open_file(const heddle_host_t* host, const char* who, int32_t descriptor, uint32_t access, heddle_string_t name,
                           File* out) {
  const std::string text(view_of(name).substr(0, 300));
  if (access == 0 || (access & ~(HEDDLE_FILE_READ | HEDDLE_FILE_WRITE))) {
    return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: opening '%s' with access %x failed: read, write or both", who, text.c_str(),
                  access);
  }
  const int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  if (own < 0) {
    return errno_status(host, HEDDLE_STATUS_INVALID_ARGUMENT, errno, "%s: opening '%s' (descriptor %d) failed", who, text.c_str(),
                        descriptor);
  }
  const int flags = fcntl(own, F_GETFL);
  const bool reads = (flags & O_ACCMODE) != O_WRONLY, writes = (flags & O_ACCMODE) != O_RDONLY;
  struct stat facts;
  const bool seekable = fstat(own, &facts) == 0 && !S_ISDIR(facts.st_mode) && !S_ISFIFO(facts.st_mode) && !S_ISSOCK(facts.st_mode);
  if (!seekable || ((access & HEDDLE_FILE_READ) && !reads) || ((access & HEDDLE_FILE_WRITE) && !writes)) {
    close(own);
    return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: opening '%s' with access %x failed: %s", who, text.c_str(), access,
                  seekable ? "its descriptor was not opened for that" : "it has no offsets (a directory, pipe or socket)");
  }
  *out = {own, access, text};
  return nullptr;
}

heddle_status_t* FileJob::start(const heddle_extent_t* extents, uint64_t count, const heddle_param_io_params_t& params,
                                uint64_t default_chunk_bytes) {
  if (!file_ || (count && !extents) || !(file_->access & (writes_ ? HEDDLE_FILE_WRITE : HEDDLE_FILE_READ))) {
    return status(host_, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: %s %llu extents of '%s' failed: %s", who_, writes_ ? "writing" : "reading",
                  number(count), file_ ? file_->name.c_str() : "",
                  !file_              ? "there is no file"
                  : count && !extents ? "the list is null"
                                      : "it was opened without that access");
  }
  chunk_bytes_ = std::clamp(params.chunk_bytes ? params.chunk_bytes : default_chunk_bytes, kMinChunk, kMaxChunk);
  progress_ = params.progress;
  context_ = params.context;
  cancel_ = params.cancel;
  return nullptr;
}

heddle_status_t* FileJob::add(uint64_t index, const heddle_extent_t& extent, uint64_t buffer_bytes) {
  if (extent.length == 0) return nullptr;
  if (!extent.buffer || extent.buffer_offset > buffer_bytes || extent.length > buffer_bytes - extent.buffer_offset) {
    return status(host_, extent.buffer ? HEDDLE_STATUS_OUT_OF_RANGE : HEDDLE_STATUS_INVALID_ARGUMENT,
                  "%s: extent %llu of '%s' (%llu bytes at buffer byte %llu) failed: the buffer has %llu bytes", who_, number(index),
                  file_->name.c_str(), number(extent.length), number(extent.buffer_offset), number(buffer_bytes));
  }
  if (extent.file_offset > INT64_MAX || extent.length > INT64_MAX - extent.file_offset) {
    return status(host_, HEDDLE_STATUS_OUT_OF_RANGE, "%s: extent %llu of '%s' (%llu bytes at file byte %llu) failed: files end before 2^63",
                  who_, number(index), file_->name.c_str(), number(extent.length), number(extent.file_offset));
  }
  total_bytes_ += extent.length;  // cannot wrap: each is inside a buffer
  for (uint64_t at = 0; at < extent.length; at += chunk_bytes_) {
    chunks_.push_back({extent.file_offset + at, std::min(chunk_bytes_, extent.length - at), extent.buffer, extent.buffer_offset + at});
  }
  return nullptr;
}

bool FileJob::move(const FileChunk& chunk, char* memory) noexcept {
  uint64_t moved = 0;
  heddle_status_code_t failure = HEDDLE_STATUS_OK;
  int error = 0;
  while (moved < chunk.length) {
    const auto offset = static_cast<off_t>(chunk.file_offset + moved);
    const size_t left = chunk.length - moved;
    const ssize_t got =
        writes_ ? pwrite(file_->descriptor, memory + moved, left, offset) : pread(file_->descriptor, memory + moved, left, offset);
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
  if (failure == HEDDLE_STATUS_OK) return true;
  std::lock_guard<std::mutex> lock(mutex_);
  if (failure_ == HEDDLE_STATUS_OK || chunk.file_offset < failed_offset_) {
    failure_ = failure;
    failed_offset_ = chunk.file_offset;
    failed_got_ = moved;
    error_ = error;
  }
  return false;
}

void FileJob::arrived(const FileChunk& chunk) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  done_bytes_ += chunk.length;
  if (progress_) progress_(context_, done_bytes_, total_bytes_);
}

bool FileJob::cancelled() noexcept {
  if (!cancel_ || *cancel_ == 0) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  if (failure_ == HEDDLE_STATUS_OK) failure_ = HEDDLE_STATUS_CANCELLED;
  return true;
}

heddle_status_t* FileJob::result() noexcept {
  const char* verb = writes_ ? "writing" : "reading";
  std::lock_guard<std::mutex> lock(mutex_);
  if (failure_ == HEDDLE_STATUS_OK) return nullptr;
  if (failure_ == HEDDLE_STATUS_CANCELLED) {
    return status(host_, failure_, "%s: %s %llu bytes of '%s' failed: cancelled by the caller", who_, verb, number(total_bytes_),
                  file_->name.c_str());
  }
  if (error_) {
    return errno_status(host_, failure_, error_, "%s: %s '%s' at byte %llu failed", who_, verb, file_->name.c_str(),
                        number(failed_offset_ + failed_got_));
  }
  return status(host_, failure_, "%s: %s '%s' at byte %llu failed: the file ends at byte %llu; it is truncated or was replaced", who_, verb,
                file_->name.c_str(), number(failed_offset_), number(failed_offset_ + failed_got_));
}

}  // namespace heddle::sdk
