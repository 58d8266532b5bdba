// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads at offsets through a descriptor; nothing is mapped.
#include "tools/heddle/input_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sdk/module/error.h"

namespace heddle::tool {

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}
InputFile::InputFile(InputFile&& other) noexcept {
  *this = std::move(other);
}
InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(facts_, other.facts_);
  return *this;
}

Wrong InputFile::about(const std::string& what) const {
  return what.empty() ? Wrong() : "'" + path_ + "': " + what;
}

Wrong InputFile::open(const std::string& path) {
  return adopt(module::open_to_read(path), path);
}

Wrong InputFile::adopt(int descriptor, const std::string& path) {
  path_ = path;
  descriptor_ = descriptor;
  if (descriptor_ < 0 || fstat(descriptor_, &facts_) != 0) return module::why_not_opened(errno);
  if (S_ISDIR(facts_.st_mode)) return "it is not a regular file but a directory; name a file in it";
  return S_ISREG(facts_.st_mode) ? Wrong() : "it is not a regular file; copy its data into one";
}

Wrong InputFile::read(uint64_t offset, std::span<std::byte> out) const {
  return view().read(offset, out);
}

Wrong InputFile::changed() const {
  struct stat now;
  if (fstat(descriptor_, &now) != 0) return std::strerror(errno);
  const bool same =
      now.st_size == facts_.st_size && now.st_mtim.tv_sec == facts_.st_mtim.tv_sec && now.st_mtim.tv_nsec == facts_.st_mtim.tv_nsec;
  return same ? Wrong() : "it was modified while it was read; try again when no program writes it";
}

std::string no_memory(uint64_t bytes) {
  return "not enough memory for its " + std::to_string(bytes) + " bytes; free memory";
}

}  // namespace heddle::tool
