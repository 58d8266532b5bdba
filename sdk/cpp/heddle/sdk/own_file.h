// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens a file for writing, by a path in a directory that others may write to as well, such as /tmp. Used by code that writes records for people.
#ifndef HEDDLE_SDK_OWN_FILE_H_
#define HEDDLE_SDK_OWN_FILE_H_

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace heddle::sdk {

// A descriptor, or -1 and errno. Creates the file if it is absent; otherwise it must be a regular file of this user under this single name (EPERM),
// since others may have put a link or a pipe there; or a character device, which only root can create. O_TRUNC in flags takes effect after these
// checks.
// Opening never blocks.
inline int open_own_file(const char* path, int flags, mode_t mode) noexcept {
  const int file = ::open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (flags & ~O_TRUNC), mode);
  if (file < 0) return -1;
  struct stat facts;
  int wrong = fstat(file, &facts) != 0 ? errno : 0;
  const bool is_device = wrong == 0 && S_ISCHR(facts.st_mode);
  if (wrong == 0 && !is_device && (!S_ISREG(facts.st_mode) || facts.st_uid != geteuid() || facts.st_nlink != 1)) wrong = EPERM;
  if (wrong == 0 && !is_device && (flags & O_TRUNC) != 0 && ftruncate(file, 0) != 0) wrong = errno;
  if (wrong == 0 && fcntl(file, F_SETFL, flags & O_APPEND) != 0) wrong = errno;  // writing may block
  if (wrong == 0) return file;
  ::close(file);
  errno = wrong;
  return -1;
}

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_OWN_FILE_H_
