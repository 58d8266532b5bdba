// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A directory of a test's own, and whole files in and out of it. The only place in the tests that removes a directory with what is in it:
// the one that the same object made, under a name that nothing else has.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

namespace heddle::testing {

class TemporaryFolder {
 public:
  // In TMPDIR. Throws where none can be made, which fails the test.
  TemporaryFolder() : TemporaryFolder(std::filesystem::temp_directory_path()) {}
  explicit TemporaryFolder(const std::filesystem::path& parent) {
    std::string name = (parent / "heddle-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "making " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string path(const std::string& name) const { return (path_ / name).string(); }
  size_t file_count() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
  }

 private:
  std::filesystem::path path_;
};

// A file that is open for reading and writing and has no name; the caller closes it. In TMPDIR. Throws where none can be made.
inline int open_unnamed_file() {
  std::string name = (std::filesystem::temp_directory_path() / "heddle-test-XXXXXX").string();
  int descriptor = mkstemp(name.data());
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), "making " + name);
  unlink(name.c_str());
  return descriptor;
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.good());
}

}  // namespace heddle::testing
