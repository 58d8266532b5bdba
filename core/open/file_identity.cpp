// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Queries the system about a file. Called through file_identity.h.
#include "core/open/file_identity.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace heddle::open {

namespace {

constexpr size_t kDevice = 0, kInode = 1;

FileIdentity identity_of(const struct stat& facts) {
  auto nanoseconds = [](const timespec& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
  };
  return {facts.st_dev, facts.st_ino, static_cast<uint64_t>(facts.st_size), nanoseconds(facts.st_mtim), nanoseconds(facts.st_ctim)};
}

}  // namespace

Result<FileIdentity> identify(int descriptor, const std::string& path) {
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) {
    return error(HEDDLE_STATUS_UNAVAILABLE, "heddle: asking for the size of {} failed: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(facts.st_mode)) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT, "heddle: opening {} failed: it is not a regular file", path);
  }
  return identity_of(facts);
}

std::string change_since(const FileIdentity& before, int descriptor) {
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) return std::strerror(errno);
  const FileIdentity now = identity_of(facts);
  if (now[kFileSize] != before[kFileSize]) return fmt::format("it had {} bytes and has {} now", before[kFileSize], now[kFileSize]);
  return now[kFileModified] != before[kFileModified] ? "it was modified meanwhile" : "";
}

std::string replacement_of(const FileIdentity& before, const std::string& path) {
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) return "";
  const FileIdentity now = identity_of(facts);
  return now[kDevice] == before[kDevice] && now[kInode] == before[kInode] ? "" : "another file replaced it meanwhile";
}

}  // namespace heddle::open
