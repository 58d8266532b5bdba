// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// SHA-256 of files: libraries of plugins, modules. Used by preflight.cpp and host.cpp.
#ifndef HEDDLE_CORE_HOST_DIGEST_H_
#define HEDDLE_CORE_HOST_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace heddle::host {

inline constexpr char kDigestDigits[] = "64 lower-case hexadecimal digits, as sha256sum prints them,";
bool is_sha256(std::string_view text);

// A library has no more; a file that has, such as one with holes, would keep a start busy for hours.
inline constexpr uint64_t kMaxLibraryBytes = uint64_t{4} << 30;
inline constexpr uint64_t kMaxModuleBytes = uint64_t{256} << 30;

// Of the whole of a regular file that has at most max_bytes and is as long at the end as it was at the beginning. Returns what is wrong, empty
// if nothing.
std::string read_sha256(const std::string& path, uint64_t max_bytes, std::string* out_digest);
// The same of an open file whose first bytes were read already: of those, and of what follows in the file. path is for texts.
std::string read_sha256(const std::string& path, int descriptor, std::span<const std::byte> head, uint64_t max_bytes,
                        std::string* out_digest);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_DIGEST_H_
