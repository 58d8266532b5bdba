// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strict mode: only files that nobody else could have changed are loaded. Used by host.cpp.
#ifndef HEDDLE_CORE_HOST_TRUST_H_
#define HEDDLE_CORE_HOST_TRUST_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle::host {

// True when the process runs with raised rights (AT_SECURE): environment, home folder and what the caller names are then not believed.
bool is_secure_process();

// Why the file is not to be trusted: it and every folder above it must be owned by root or the effective user, not be writable
// by others, and be on no file system that another user's process serves. With raised rights, the effective user counts only where the
// program was given it. Empty if it is. Checked on descriptors along the path; *out_path is the path without links to load it by.
std::string why_untrusted(const std::string& path, std::string* out_path);

// Who mounted the FUSE file system of that device, by the text of /proc/self/mountinfo; -1 if it does not say.
int64_t fuse_user(std::string_view mounts, uint32_t device_major, uint32_t device_minor);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_TRUST_H_
