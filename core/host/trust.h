// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strict mode: loads only files that no other user could have changed. Used by host.cpp.
#ifndef HEDDLE_CORE_HOST_TRUST_H_
#define HEDDLE_CORE_HOST_TRUST_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle::host {

// True if the process runs with raised privileges (AT_SECURE): the environment, the home directory and files that the caller names are then
// not trusted.
bool is_secure_process();

// Why the file is not trusted: it and every directory above it must be owned by root or the effective user, not be writable by others, and be on no
// file system that another user's process serves. With raised privileges, the effective user is trusted only if the program was given it. Empty if
// the file is trusted. Checked on descriptors along the path; *out_path is the path without links, for loading it.
std::string why_untrusted(const std::string& path, std::string* out_path);

// Who mounted the FUSE file system of that device, from the text of /proc/self/mountinfo; -1 if it does not tell.
int64_t fuse_user(std::string_view mounts, uint32_t device_major, uint32_t device_minor);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_TRUST_H_
