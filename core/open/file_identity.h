// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Identifies files and their versions: for sharing weights, and for detecting that a file changed while it was in use.
// Used by core/open and core/submit; reads no data.
#ifndef HEDDLE_CORE_OPEN_FILE_IDENTITY_H_
#define HEDDLE_CORE_OPEN_FILE_IDENTITY_H_

#include <array>
#include <string>

#include "core/status.h"

namespace heddle::open {

// Device, inode, size, and times of modification and change in nanoseconds.
using FileIdentity = std::array<uint64_t, 5>;
constexpr size_t kFileSize = 2, kFileModified = 3, kFileChanged = 4;  // indices in a FileIdentity

// Identity of an open file. INVALID_ARGUMENT if it is not a regular file; `path` is for the error text.
Result<FileIdentity> identify(int descriptor, const std::string& path);

// How an open file changed: another size, or modified contents. Empty if it did not change. As precise as the file system's time stamps; a changed
// name, link count or mode does not count.
std::string change_since(const FileIdentity& before, int descriptor);
// The same for its name: another file has it now. Empty also if no file has that name, because the open file stays intact.
std::string replacement_of(const FileIdentity& before, const std::string& path);

}  // namespace heddle::open

#endif  // HEDDLE_CORE_OPEN_FILE_IDENTITY_H_
