// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a whole small file with a bound. Used by discovery, config_read, library_search and probe_cache.
#ifndef HEDDLE_CORE_HOST_TEXT_FILE_H_
#define HEDDLE_CORE_HOST_TEXT_FILE_H_

#include <cstdint>
#include <string>

namespace heddle::host {

// Returns what went wrong ("No such file or directory", "it is no regular file", "it has more than N bytes"), empty if nothing.
// out_owner may be NULL.
std::string read_text_file(const std::string& path, size_t max_bytes, std::string* out_text, uint32_t* out_owner = nullptr);
// The same of a file that is open already; the descriptor stays the caller's.
std::string read_text_file(int descriptor, size_t max_bytes, std::string* out_text, uint32_t* out_owner = nullptr);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_TEXT_FILE_H_
