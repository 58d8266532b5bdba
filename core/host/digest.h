// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// SHA-256 of files: plugin libraries and modules. Used by preflight.cpp and host.cpp.
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

// No library is larger; a larger file, such as a sparse one, would keep the start busy for hours.
inline constexpr uint64_t kMaxLibraryBytes = uint64_t{4} << 30;
inline constexpr uint64_t kMaxModuleBytes = uint64_t{256} << 30;

// Digest of a whole regular file of at most max_bytes whose size is the same at the end as at the beginning. Returns an error text, empty on success.
std::string read_sha256(const std::string& path, uint64_t max_bytes, std::string* out_digest);
// The same for an open file whose first bytes are already read: digests these and the rest of the file. path is for error texts.
std::string read_sha256(const std::string& path, int descriptor, std::span<const std::byte> head, uint64_t max_bytes,
                        std::string* out_digest);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_DIGEST_H_
