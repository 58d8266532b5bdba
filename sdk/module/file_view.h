// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An open file that is read in parts. Used by readers of formats and by the commands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace heddle::module {

// An error text that does not name the file; empty means success.
using Wrong = std::string;

// Opens a file for reading; the caller closes the descriptor. -1 with errno. A path /dev/fd/N or /proc/self/fd/N is the process's open descriptor N, whose
// file need not have a name, or one that the process may open; EBADF if it is not open for reading. Opening a FIFO does not wait.
int open_to_read(const std::string& path);

// Opens a file that another file names for reading: the location must neither leave that file's directory nor go through a link. -1 with errno, EXDEV
// or ELOOP for these.
int open_beside(const std::string& path, const std::string& location);
// The text for that errno.
std::string why_not_beside(int error_number);

// Whether it is a path such as /dev/fd/3, which names an open descriptor: the files next to it are other descriptors.
bool is_descriptor_path(const std::string& path);

// The descriptor belongs to the caller.
class FileView {
 public:
  FileView(int descriptor, uint64_t size_bytes) : descriptor_(descriptor), size_bytes_(size_bytes) {}
  uint64_t size_bytes() const { return size_bytes_; }
  // Fills all of `out`; a file that ends earlier is an error.
  Wrong read(uint64_t offset, std::span<std::byte> out) const;

 private:
  int descriptor_;
  uint64_t size_bytes_;
};

}  // namespace heddle::module
