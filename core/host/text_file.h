// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a whole small file, up to a limit. Used by discovery, config_read, library_search and probe_cache.
#ifndef HEDDLE_CORE_HOST_TEXT_FILE_H_
#define HEDDLE_CORE_HOST_TEXT_FILE_H_

#include <cstdint>
#include <string>

namespace heddle::host {

// Returns an error text ("No such file or directory", "it is not a regular file", "it has more than N bytes"), empty on success.
// out_owner may be NULL.
std::string read_text_file(const std::string& path, size_t max_bytes, std::string* out_text, uint32_t* out_owner = nullptr);
// The same for an open file; the caller keeps ownership of the descriptor.
std::string read_text_file(int descriptor, size_t max_bytes, std::string* out_text, uint32_t* out_owner = nullptr);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_TEXT_FILE_H_
