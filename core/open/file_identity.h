// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What tells files and their versions apart: for sharing weights, and for noticing that a file changed while it was in use.
// Used by this room and by core/submit; reads no data.
#ifndef HEDDLE_CORE_OPEN_FILE_IDENTITY_H_
#define HEDDLE_CORE_OPEN_FILE_IDENTITY_H_

#include <array>
#include <string>

#include "core/status.h"

namespace heddle::open {

// Device, inode, size, and times of modification and change in nanoseconds.
using FileIdentity = std::array<uint64_t, 5>;
constexpr size_t kFileSize = 2;  // in a FileIdentity

// Of an open file. INVALID_ARGUMENT if it is not a regular one; `path` is for the text.
Result<FileIdentity> identify(int descriptor, const std::string& path);

// How an open file differs from what it was: it has another size, or was written to. Empty if it does not. As fine as the file system's
// clock; a file whose name, links or permissions change stays what it was.
std::string change_since(const FileIdentity& before, int descriptor);
// The same for its name: it is another file's now. Empty also if nothing has that name: what is open stays whole.
std::string replacement_of(const FileIdentity& before, const std::string& path);

}  // namespace heddle::open

#endif  // HEDDLE_CORE_OPEN_FILE_IDENTITY_H_
