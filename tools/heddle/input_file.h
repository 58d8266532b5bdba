// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A regular file that is read in parts. Used for every file that commands read tensors from; knows no format.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "sdk/module/file_view.h"
#include "tools/heddle/shape_text.h"

namespace heddle::tool {

class InputFile {
 public:
  InputFile() = default;
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;

  // Error texts do not contain the path; about() adds it. Does not wait for the writer of a FIFO, which is not a regular file.
  Wrong open(const std::string& path);
  // The same for a descriptor, which it closes; -1: errno says why there is none.
  Wrong adopt(int descriptor, const std::string& path);
  // Fills all of `out`; a file that ends earlier is an error.
  Wrong read(uint64_t offset, std::span<std::byte> out) const;
  // An error text if the file was modified since it was opened, as far as the file system's time stamps show it.
  Wrong changed() const;
  // "'path': what", or nothing if `what` is empty.
  Wrong about(const std::string& what) const;

  module::FileView view() const { return {descriptor_, size_bytes()}; }
  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return static_cast<uint64_t>(facts_.st_size); }

 private:
  std::string path_;
  int descriptor_ = -1;
  struct stat facts_ = {};  // at the time it was opened
};

// The error text for a failed allocation of a file's data.
std::string no_memory(uint64_t bytes);

}  // namespace heddle::tool
