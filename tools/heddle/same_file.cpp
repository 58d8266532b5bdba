// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares paths as files.
#include "tools/heddle/same_file.h"

#include <sys/stat.h>

#include <filesystem>

namespace heddle::tool {
namespace {

// Resolves links in the directories, and the name itself if it exists.
std::string resolved(const std::string& path) {
  std::error_code wrong;
  const std::filesystem::path absolute = std::filesystem::absolute(path, wrong);
  const std::filesystem::path found = std::filesystem::weakly_canonical(absolute, wrong);
  return wrong ? absolute.lexically_normal().string() : found.string();
}

}  // namespace

bool same_file(const std::string& one, const std::string& other) {
  struct stat a, b;
  const bool has_a = stat(one.c_str(), &a) == 0, has_b = stat(other.c_str(), &b) == 0;
  if (has_a && has_b) return S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
  return has_a == has_b && resolved(one) == resolved(other);
}

std::string file_named_twice(const std::vector<NamedFile>& written, const std::vector<NamedFile>& read) {
  for (size_t i = 0; i < written.size(); ++i) {
    if (written[i].path.empty()) continue;
    for (const NamedFile& other : read) {
      if (!other.path.empty() && same_file(written[i].path, other.path))
        return written[i].flag + " would overwrite " + other.flag + ", '" + other.path + "'; name another file";
    }
    for (size_t j = i + 1; j < written.size(); ++j) {
      if (!written[j].path.empty() && same_file(written[i].path, written[j].path))
        return written[i].flag + " and " + written[j].flag + " both write '" + written[j].path + "'; name two files";
    }
  }
  return {};
}

}  // namespace heddle::tool
