// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file that appears under its name only when it is complete. Used by the writers of this room; knows nothing of formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "sdk/module/error.h"

namespace heddle::module {

// Written without a name where the file system can do that (O_TMPFILE), so that even a killed process leaves nothing; else under a
// temporary name in the same folder, removed by the destructor.
class OutputFile {
 public:
  // Whether something that is no regular file has this name, or whether it is one for an open descriptor, such as /dev/stdout: a file that
  // took such a name would be written beside where the bytes were meant to go, and the name would be lost.
  static bool is_stream(const std::string& path);

  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // INVALID_ARGUMENT for a stream.
  Status open();
  Status append(std::span<const std::byte> bytes);
  // Bytes that were appended before, now that it is known what they are.
  Status overwrite(uint64_t offset, std::span<const std::byte> bytes);
  // Zeros up to the next multiple of alignment.
  Status pad_to(uint64_t alignment);
  uint64_t size_bytes() const { return size_bytes_; }
  const std::string& path() const { return path_; }
  // All that can fail for lack of space: flushes the file, which has no name yet, to the disk, unless the caller can make it again.
  Status finish(bool flush_to_disk = true);
  // Gives the file its name, replacing what was there; finishes it first, if that was not done. After a power loss the name has the old file or
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
  uint64_t on_its_way_ = 0;  // bytes whose way to the disk has begun
};

}  // namespace heddle::module
