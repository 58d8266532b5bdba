// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file that appears under its name only when it is complete. Used by the writers in this directory; knows nothing of formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "sdk/module/error.h"

namespace heddle::module {

// Written without a name if the file system supports that (O_TMPFILE), so that even a killed process leaves nothing behind; otherwise under a
// temporary name in the same directory, removed by the destructor.
class OutputFile {
 public:
  // Whether the name belongs to something other than a regular file, or refers to an open descriptor, such as /dev/stdout: a file that took such a
  // name would be written somewhere other than intended, and the name would be lost.
  static bool is_stream(const std::string& path);

  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // INVALID_ARGUMENT for a stream. Does nothing if the file is open already.
  Status open();
  // Fails where open() would, long before the file is written. The file is then open, unless it would need a temporary name: a killed process must
  // not leave that behind.
  Status reserve();
  Status append(std::span<const std::byte> bytes);
  // Replaces bytes that were appended before, once their values are known.
  Status overwrite(uint64_t offset, std::span<const std::byte> bytes);
  // Zeros up to the next multiple of alignment.
  Status pad_to(uint64_t alignment);
  uint64_t size_bytes() const { return size_bytes_; }
  const std::string& path() const { return path_; }
  // All steps that can fail for lack of space: flushes the file, which has no name yet, to the disk, unless the caller can produce it again.
  Status finish(bool flush_to_disk = true);
  // Gives the file its name and replaces an existing file; calls finish first if needed. After a power loss the name refers to the old file or to
  // the whole new one, if the new one was flushed.
  Status commit(bool flush_to_disk = true);

 private:
  std::string temporary_name(uint32_t attempt) const;
  Error failure(std::string_view what, int error_number) const;

  std::string path_;
  std::string temporary_;  // empty while the file has no name
  bool finished_ = false;
  int descriptor_ = -1;
  uint64_t size_bytes_ = 0;
  uint64_t on_its_way_ = 0;  // bytes whose write-back has started
};

}  // namespace heddle::module
