// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See heddle/sdk/file.h.
#include "heddle/sdk/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace heddle::sdk {
namespace {

constexpr uint64_t kMinChunk = kFileBlock;
constexpr uint64_t kMaxChunk = 1 << 30;

uint64_t block_floor(uint64_t value) noexcept {
  return value / kFileBlock * kFileBlock;
}

// The memory that the system can provide without swapping, from /proc/meminfo; UINT64_MAX if unknown.
uint64_t available_memory() noexcept {
  unsigned long long kibibytes = 0;
  FILE* file = std::fopen("/proc/meminfo", "re");
  if (!file) return UINT64_MAX;
  char line[128];
  bool found = false;
  while (!found && std::fgets(line, sizeof line, file)) found = std::sscanf(line, "MemAvailable: %llu kB", &kibibytes) == 1;
  std::fclose(file);
  return found ? kibibytes << 10 : UINT64_MAX;
}

}  // namespace

// From cachestat(2), which does not change the cache.
uint64_t cached_bytes(int descriptor, uint64_t offset, uint64_t length) noexcept {
  constexpr long kCachestat = 451;  // Linux 6.5, the same number on every architecture
  const uint64_t range[2] = {offset, length};
  uint64_t counts[5] = {};  // pages: cached, dirty, under writeback, evicted, recently evicted
  if (syscall(kCachestat, descriptor, range, counts, 0) != 0) return length;
  return std::min(counts[0] * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)), length);
}

bool would_fill_memory(const File& file, uint64_t offset, uint64_t length) noexcept {
  const uint64_t most = available_memory() / 2;
  return length > most && length - cached_bytes(file.descriptor, offset, length) > most;
}

heddle_status_t* open_file(const heddle_host_t* host, const char* who, int32_t descriptor, uint32_t access, heddle_string_t name, File* out,
                           bool keeps_mapped_files) {
  const std::string text(view_of(name).substr(0, 300));
  const bool is_steady = access == (HEDDLE_FILE_READ | HEDDLE_FILE_STEADY);
  if (!(is_steady && keeps_mapped_files) && (access == 0 || (access & ~(HEDDLE_FILE_READ | HEDDLE_FILE_WRITE)))) {
    return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: opening '%s' with access %x failed: %s", who, text.c_str(), access,
                  is_steady ? "this driver does not keep the contents of mapped files" : "read, write or both");
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

FileJob::~FileJob() {
  if (direct_ >= 0) close(direct_);
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
  if (!writes_ && params.method > HEDDLE_FILE_METHOD_DIRECT_ONLY) {
    const std::string lacks =
        params.method == HEDDLE_FILE_METHOD_GDS ? "GPUDirect Storage" : "method number " + std::to_string(params.method);
    return status(host_, HEDDLE_STATUS_UNIMPLEMENTED, "%s: reading '%s' failed: this driver has no %s", who_, file_->name.c_str(),
                  lacks.c_str());
  }
  chunk_bytes_ = block_floor(std::clamp(params.chunk_bytes ? params.chunk_bytes : default_chunk_bytes, kMinChunk, kMaxChunk));
  method_ = params.method;
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
  total_bytes_ += extent.length;  // cannot wrap: each extent is inside a buffer
  const uint64_t end = extent.file_offset + extent.length;
  for (uint64_t at = extent.file_offset; at < end;) {
    const uint64_t next = std::min(block_floor(at) + chunk_bytes_, end);
    chunks_.push_back({at, next - at, extent.buffer, extent.buffer_offset + (at - extent.file_offset), index});
    at = next;
  }
  return nullptr;
}

// A file that is read once is read fastest bypassing the cache, but reading it again from the cache is far faster still. So the cache is bypassed
// on request, and if the file would only push everything else out of it.
void FileJob::choose_method() noexcept {
  if (writes_ || chunks_.empty() || method_ == HEDDLE_FILE_METHOD_BUFFERED) return;
  if (method_ == HEDDLE_FILE_METHOD_ANY) {
    const uint64_t available = available_memory();
    if (total_bytes_ <= available / 2) return;
    uint64_t cached = 0;
    for (const FileChunk& chunk : chunks_) cached += cached_bytes(file_->descriptor, chunk.file_offset, chunk.length);
    if (total_bytes_ - cached <= available / 2) return;
    say(HEDDLE_LOG_DEBUG,
        "%s: '%.300s' is read bypassing the page cache: %llu of %llu bytes are not in it, and %llu bytes of memory are available", who_,
        file_->name.c_str(), number(total_bytes_ - cached), number(total_bytes_), number(available));
  }
  // Opened again: a duplicate would share the flag with the caller's descriptor.
  char path[40];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", file_->descriptor);
  direct_ = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (direct_ < 0) refused(errno);
}

void FileJob::refused(int error) noexcept {
  if (is_refused_.exchange(true)) return;
  if (method_ == HEDDLE_FILE_METHOD_DIRECT_ONLY) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failure_ == HEDDLE_STATUS_OK) failure_ = HEDDLE_STATUS_UNIMPLEMENTED;
    error_ = error;
    return;
  }
  char reason[128] = {};
  say(method_ == HEDDLE_FILE_METHOD_DIRECT ? HEDDLE_LOG_WARN : HEDDLE_LOG_DEBUG,
      "%s: '%.300s' is read through the page cache: direct reads are refused: %s", who_, file_->name.c_str(),
      strerror_r(error, reason, sizeof reason));
}

void FileJob::say(uint32_t level, const char* format, ...) const noexcept {
  if (level < host_->log_level(host_->self)) return;
  char text[600];
  va_list arguments;
  va_start(arguments, format);
  const int size = std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  host_->log(host_->self, level, string_of("file.cpp"), __LINE__,
             {text, static_cast<uint64_t>(std::clamp(size, 0, static_cast<int>(sizeof text) - 1))});
}

// The bytes of the chunk that can be read directly; the rest, including the end of the file, is read through the page cache.
uint64_t FileJob::read_direct(const FileChunk& chunk, char* memory) noexcept {
  const uint64_t lead = chunk.lead(), size = block_floor(lead + chunk.length + kFileBlock - 1);
  uint64_t got = 0;
  while (got < size && got % kFileBlock == 0) {
    const ssize_t some = pread(direct_, memory - lead + got, size - got, static_cast<off_t>(chunk.file_offset - lead + got));
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) refused(errno);
    if (some <= 0) break;
    got += static_cast<uint64_t>(some);
  }
  return got <= lead ? 0 : std::min(got - lead, chunk.length);
}

bool FileJob::move(const FileChunk& chunk, char* memory, Room room) noexcept {
  uint64_t moved = 0;
  if (direct_ >= 0 && room == Room::kBlocks && !is_refused_.load(std::memory_order_relaxed)) moved = read_direct(chunk, memory);
  if (method_ == HEDDLE_FILE_METHOD_DIRECT_ONLY && is_refused_.load(std::memory_order_relaxed)) return false;
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
    failed_extent_ = chunk.extent;
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
  if (failure_ == HEDDLE_STATUS_UNIMPLEMENTED) {
    return errno_status(host_, failure_, error_, "%s: reading '%s' bypassing the page cache failed", who_, file_->name.c_str());
  }
  struct stat facts;
  const uint64_t size = fstat(file_->descriptor, &facts) == 0 ? static_cast<uint64_t>(facts.st_size) : failed_offset_ + failed_got_;
  heddle_status_t* failure =
      error_ ? errno_status(host_, failure_, error_, "%s: %s '%s' at byte %llu failed", who_, verb, file_->name.c_str(),
                            number(failed_offset_ + failed_got_))
             : status(host_, failure_, "%s: %s '%s' at byte %llu failed: the file has %llu bytes; it is truncated or was replaced", who_,
                      verb, file_->name.c_str(), number(failed_offset_ + failed_got_), number(size));
  char index[24];
  const int digits = std::snprintf(index, sizeof index, "%llu", number(failed_extent_));
  host_->status_set_payload(host_->self, failure, string_of("extent"), {index, static_cast<uint64_t>(digits)});
  return failure;
}

}  // namespace heddle::sdk
