// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// File handling of drivers for heddle.param_io/1: duplicate a descriptor, divide extents into chunks, read or write one whole chunk, through the
// page cache or bypassing it, and report errors. Knows no device; the driver moves chunks to and from device memory.
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
  uint32_t access = 0;  // HEDDLE_FILE_READ, _WRITE, _STEADY
  std::string name;     // for error texts
};

// Checks and duplicates; `who` begins the error texts. On success the caller must close out->descriptor. HEDDLE_FILE_STEADY is for drivers that
// keep the contents of the files they map.
heddle_status_t* open_file(const heddle_host_t* host, const char* who, int32_t descriptor, uint32_t access, heddle_string_t name, File* out,
                           bool keeps_mapped_files = false);

// How many bytes of a range are in the page cache; all of them if that is not known.
uint64_t cached_bytes(int descriptor, uint64_t offset, uint64_t length) noexcept;
// Whether reading these bytes through the page cache would take more than half of the memory that is available.
bool would_fill_memory(const File& file, uint64_t offset, uint64_t length) noexcept;

// Reads that bypass the page cache begin and end at multiples of this, in the file and in memory.
constexpr uint64_t kFileBlock = 4096;

// A part of an extent. It ends on a block boundary unless it is the extent's last, so that the blocks around two chunks of an extent never overlap.
struct FileChunk {
  uint64_t file_offset;
  uint64_t length;
  heddle_buffer_t* buffer;
  uint64_t buffer_offset;
  uint64_t extent;  // index of the extent in the call

  uint64_t lead() const noexcept { return file_offset % kFileBlock; }  // bytes before it in its first block
};

// One call of read or write, and its progress.
class FileJob {
 public:
  FileJob(const heddle_host_t* host, const char* who, const File* file, bool writes)
      : host_(host), who_(who), file_(file), writes_(writes) {}
  ~FileJob();
  FileJob(const FileJob&) = delete;
  FileJob& operator=(const FileJob&) = delete;

  // Checks that the file permits the access, and stores the caller's parameters: chunk size, method, progress, cancellation.
  heddle_status_t* start(const heddle_extent_t* extents, uint64_t count, const heddle_param_io_params_t& params,
                         uint64_t default_chunk_bytes);
  // Divides one extent into chunks; buffer_bytes is the size of its buffer.
  heddle_status_t* add(uint64_t index, const heddle_extent_t& extent, uint64_t buffer_bytes);

  // Call when reading begins, before the first chunk is read: decides whether to bypass the page cache. [may-block]
  void choose_method() noexcept;
  bool direct() const noexcept { return direct_ >= 0; }

  const std::vector<FileChunk>& chunks() const noexcept { return chunks_; }
  uint64_t chunk_bytes() const noexcept { return chunk_bytes_; }
  uint64_t total_bytes() const noexcept { return total_bytes_; }
  bool writes() const noexcept { return writes_; }

  // ---- from any thread
  // Reads or writes a whole chunk; false if the job is to stop. If there is space for all blocks that the chunk touches, where memory - lead is the
  // start of the first block and aligned to one, it may be read bypassing the page cache.
  enum class Room { kChunk, kBlocks };
  bool move(const FileChunk& chunk, char* memory, Room room) noexcept;
  // Counts a chunk that has arrived.
  void arrived(const FileChunk& chunk) noexcept;
  // Whether the caller has cancelled; the answer is remembered.
  bool cancelled() noexcept;

  // NULL or the failure with the lowest offset, so that the text does not depend on which thread was first.
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
  int direct_ = -1;                      // a separate descriptor that bypasses the page cache
  std::atomic<bool> is_refused_{false};  // the file system refused direct reads
  std::vector<FileChunk> chunks_;
  uint64_t chunk_bytes_ = 0, total_bytes_ = 0;
  void (*progress_)(void*, uint64_t, uint64_t) = nullptr;
  void* context_ = nullptr;
  const volatile uint32_t* cancel_ = nullptr;

  std::mutex mutex_;  // guards the following members; progress is called under it, so that its numbers only grow
  uint64_t done_bytes_ = 0;
  heddle_status_code_t failure_ = HEDDLE_STATUS_OK;
  uint64_t failed_offset_ = 0, failed_got_ = 0, failed_extent_ = 0;
  int error_ = 0;
};

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_FILE_H_
