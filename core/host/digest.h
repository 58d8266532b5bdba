// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// SHA-256 of files: libraries of plugins, modules. Used by preflight.cpp and host.cpp.
#ifndef HEDDLE_CORE_HOST_DIGEST_H_
#define HEDDLE_CORE_HOST_DIGEST_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace heddle::host {

inline constexpr char kDigestDigits[] = "64 lower-case hexadecimal digits, as sha256sum prints them,";
bool is_sha256(std::string_view text);

// Of the whole file. Returns what is wrong, empty if nothing.
std::string read_sha256(const std::string& path, std::string* out_digest);
// The same of an open file whose first bytes were read already: of those, and of what follows in the file.
std::string read_sha256(const std::string& path, int descriptor, std::span<const std::byte> head, std::string* out_digest);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_DIGEST_H_
