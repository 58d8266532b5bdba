// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A regular file that is read in parts. Used for every file that a command reads tensors from; knows no format.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tools/heddle/shape_text.h"

namespace heddle::tool {

class InputFile {
 public:
  InputFile() = default;
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;

  // What is wrong comes without the path; about() puts it in front. Does not wait for the other end of a FIFO, which is no regular file.
  Wrong open(const std::string& path);
  // All of `out`; a file that ends before is an error.
  Wrong read(uint64_t offset, std::span<std::byte> out) const;
  // What is wrong if it was written to since it was opened; as fine as the file system's clock.
  Wrong changed() const;
  // "'path': what", or nothing where nothing is wrong.
  Wrong about(const std::string& what) const;

  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return static_cast<uint64_t>(facts_.st_size); }

 private:
  std::string path_;
  int descriptor_ = -1;
  struct stat facts_ = {};  // as it was opened
};

// What is wrong where memory for a file's data is not there.
std::string no_memory(uint64_t bytes);

}  // namespace heddle::tool
