// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strict mode: only files that nobody else could have changed are loaded. Used by host.cpp.
#ifndef HEDDLE_CORE_HOST_TRUST_H_
#define HEDDLE_CORE_HOST_TRUST_H_

#include <string>

namespace heddle::host {

// True when the process runs with raised rights (AT_SECURE): environment and home folder are then not believed.
bool is_secure_process();

// Why the file is not to be trusted: it and every folder above it must be owned by root or the effective user and not be writable
// by others. Empty if it is. Checked on descriptors along the path; *out_path is the path without links to load it by.
std::string why_untrusted(const std::string& path, std::string* out_path);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_TRUST_H_
