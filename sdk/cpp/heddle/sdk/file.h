// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What drivers do with files for heddle.param_io/1: duplicate a descriptor, cut extents into chunks, read or write one chunk whole, through
// the page cache or past it, and say what went wrong. Knows no device; how chunks get to memory is the driver's.
#ifndef HEDDLE_SDK_FILE_H_
#define HEDDLE_SDK_FILE_H_

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "heddle/sdk/status.h"

namespace heddle::sdk {

// A duplicated descriptor.
struct File {
  int descriptor = -1;
  uint32_t access = 0;  // HEDDLE_FILE_*
  std::string name;     // for error texts
};

// Checks and duplicates; `who` begins the error texts. On success the caller closes out->descriptor.
heddle_status_t* open_file(const heddle_host_t* host, const char* who, int32_t descriptor, uint32_t access, heddle_string_t name,
                           File* out);

// Reads past the page cache begin and end on these bytes, in the file and in memory.
constexpr uint64_t kFileBlock = 4096;

// A piece of an extent. It ends on a block unless it is the extent's last, so that the blocks around two chunks of an extent never overlap.
struct FileChunk {
  uint64_t file_offset;
  uint64_t length;
  heddle_buffer_t* buffer;
  uint64_t buffer_offset;
  uint64_t extent;  // its index in the call

  uint64_t lead() const noexcept { return file_offset % kFileBlock; }  // bytes of its first block before it
};

// One call of read or write, and how far it is.
class FileJob {
 public:
  FileJob(const heddle_host_t* host, const char* who, const File* file, bool writes)
      : host_(host), who_(who), file_(file), writes_(writes) {}
  ~FileJob();
  FileJob(const FileJob&) = delete;
  FileJob& operator=(const FileJob&) = delete;

  // Checks that the file may be used so, and takes what the caller asks for: chunks of its size, method, progress, cancellation.
  heddle_status_t* start(const heddle_extent_t* extents, uint64_t count, const heddle_param_io_params_t& params,
                         uint64_t default_chunk_bytes);
  // Cuts one extent up; buffer_bytes is the size of its buffer.
  heddle_status_t* add(uint64_t index, const heddle_extent_t& extent, uint64_t buffer_bytes);

  // Before the first chunk is read, when the reading begins: decides whether it goes past the page cache. [may-block]
  void choose_method() noexcept;
  bool direct() const noexcept { return direct_ >= 0; }

  const std::vector<FileChunk>& chunks() const noexcept { return chunks_; }
  uint64_t chunk_bytes() const noexcept { return chunk_bytes_; }
  uint64_t total_bytes() const noexcept { return total_bytes_; }
  bool writes() const noexcept { return writes_; }

  // ---- from any thread
  // Reads or writes a whole chunk; false if the job is to stop. With room for all of the blocks that the chunk touches, where memory - lead
  // is the first one's place and starts on a block, it may be read past the page cache.
  enum class Room { kChunk, kBlocks };
  bool move(const FileChunk& chunk, char* memory, Room room) noexcept;
  // Counts a chunk that has arrived.
  void arrived(const FileChunk& chunk) noexcept;
  // True if the caller cancels; remembered.
  bool cancelled() noexcept;

  // NULL or what went wrong first: the failure with the lowest offset, so that the text does not depend on which thread was first.
  heddle_status_t* result() noexcept;

 private:
  uint64_t read_direct(const FileChunk& chunk, char* memory) noexcept;
  void refused(int error) noexcept;
  [[gnu::format(printf, 3, 4)]] void say(uint32_t level, const char* format, ...) const noexcept;

  const heddle_host_t* host_;
  const char* who_;
  const File* file_;
  bool writes_;
  uint32_t method_ = HEDDLE_FILE_METHOD_ANY;
  int direct_ = -1;                      // a descriptor of its own that reads past the page cache
  std::atomic<bool> is_refused_{false};  // the file system took that back
  std::vector<FileChunk> chunks_;
  uint64_t chunk_bytes_ = 0, total_bytes_ = 0;
  void (*progress_)(void*, uint64_t, uint64_t) = nullptr;
  void* context_ = nullptr;
  const volatile uint32_t* cancel_ = nullptr;

  std::mutex mutex_;  // guards what follows; progress is called under it, so that its numbers only grow
  uint64_t done_bytes_ = 0;
  heddle_status_code_t failure_ = HEDDLE_STATUS_OK;
  uint64_t failed_offset_ = 0, failed_got_ = 0, failed_extent_ = 0;
  int error_ = 0;
};

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_FILE_H_
