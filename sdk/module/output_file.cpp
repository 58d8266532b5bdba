// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Temporary file, fsync, rename. O_TMPFILE is tried first: then nothing has to be cleaned up, whatever happens to the process.
#include "sdk/module/output_file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "sdk/module/layout.h"

namespace heddle::module {
namespace {

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Skips names that earlier runs of a process with this id left behind.
constexpr uint32_t kMostAttempts = 100;
// Bytes written since write-back was last started.
constexpr uint64_t kWriteBackBytes = uint64_t{8} << 20;

// Links in /proc to the targets of descriptors.
bool names_descriptor(std::string path) {
  constexpr int kMostLinks = 40;  // the same limit as the system's
  for (int links = 0; links < kMostLinks; ++links) {
    char target[PATH_MAX];
    const ssize_t length = readlink(path.c_str(), target, sizeof(target));
    if (length <= 0) return false;
    struct statfs system;
    const std::string folder = folder_of(path);
    if (statfs(folder.c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC) return true;
    const std::string next(target, static_cast<size_t>(length));
    path = next[0] == '/' ? next : concat(folder, "/", next);
  }
  return false;
}

heddle_status_code_t code_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return HEDDLE_STATUS_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
      return HEDDLE_STATUS_PERMISSION_DENIED;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return HEDDLE_STATUS_RESOURCE_EXHAUSTED;
    default:
      return HEDDLE_STATUS_UNKNOWN;
  }
}

}  // namespace

OutputFile::~OutputFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
  if (descriptor_ >= 0) close(descriptor_);
}

Error OutputFile::failure(std::string_view what, int error_number) const {
  const std::string place = size_bytes_ ? concat(" at byte ", size_bytes_) : std::string();
  return {code_of(error_number), concat("module: ", what, " ", in_quotes(path_), place, " failed: ", why_not_written(error_number))};
}

bool OutputFile::is_stream(const std::string& path) {
  struct stat facts;
  return (stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode)) || names_descriptor(path);
}

Status OutputFile::reserve() {
  if (Status failed = open()) return failed;
  if (temporary_.empty()) return std::nullopt;
  unlink(temporary_.c_str());
  temporary_.clear();
  close(std::exchange(descriptor_, -1));
  return std::nullopt;
}

Status OutputFile::open() {
  if (descriptor_ >= 0) return std::nullopt;
  if (is_stream(path_)) {
    return Error{HEDDLE_STATUS_INVALID_ARGUMENT, concat("module: writing ", in_quotes(path_),
                                                        " failed: something that is not a regular file has this name; choose another")};
  }
  const std::string folder = folder_of(path_);
  descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  if (descriptor_ >= 0) return std::nullopt;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return failure("creating", errno);

  // mkostemp would create the file with mode 0600, and the umask cannot be read without changing it for other threads.
  for (uint32_t attempt = 0;; ++attempt) {
    const std::string name = temporary_name(attempt);
    descriptor_ = ::open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor_ >= 0) {
      temporary_ = name;
      return std::nullopt;
    }
    if (errno != EEXIST || attempt == kMostAttempts) return failure("creating", errno);
  }
}

std::string OutputFile::temporary_name(uint32_t attempt) const {
  return concat(path_, ".", getpid(), "-", attempt);
}

Status OutputFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure("writing", errno);
    size_bytes_ += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  if (size_bytes_ - on_its_way_ >= kWriteBackBytes) {  // the disk writes while the rest is produced, so that fsync has less to wait for
    (void)sync_file_range(descriptor_, static_cast<off_t>(on_its_way_), static_cast<off_t>(size_bytes_ - on_its_way_),
                          SYNC_FILE_RANGE_WRITE);
    on_its_way_ = size_bytes_;
  }
  return std::nullopt;
}

Status OutputFile::overwrite(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure("writing", errno);
    offset += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return std::nullopt;
}

Status OutputFile::pad_to(uint64_t alignment) {
  static constexpr std::byte kZeros[kPageAlignment] = {};
  return append({kZeros, align_up(size_bytes_, alignment) - size_bytes_});
}

Status OutputFile::finish(bool flush_to_disk) {
  if (flush_to_disk && fsync(descriptor_) != 0) return failure("writing", errno);
  finished_ = true;
  return std::nullopt;
}

Status OutputFile::commit(bool flush_to_disk) {
  if (!finished_) {
    if (Status failed = finish(flush_to_disk)) return failed;
  }
  if (temporary_.empty()) {
    // linkat replaces nothing: link under a free name in the target's directory first, then rename over the target.
    const std::string source = concat("/proc/self/fd/", descriptor_);
    for (uint32_t attempt = 0;; ++attempt) {
      const std::string name = temporary_name(attempt);
      if (linkat(AT_FDCWD, source.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
        temporary_ = name;
        break;
      }
      if (errno != EEXIST || attempt == kMostAttempts) return failure("naming", errno);
    }
  }
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return failure("naming", errno);
  temporary_.clear();
  const int descriptor = std::exchange(descriptor_, -1);
  if (close(descriptor) != 0) return failure("closing", errno);
  return std::nullopt;
}

}  // namespace heddle::module
