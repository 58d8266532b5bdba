// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/host/digest.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <nettle/sha2.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace heddle::host {

bool is_sha256(std::string_view text) {
  return text.size() == 2 * SHA256_DIGEST_SIZE && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string read_sha256(const std::string& path, std::string* out_digest) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return fmt::format("opening {} to take its digest failed: {}", path, std::strerror(errno));
  std::string wrong = read_sha256(path, file, {}, out_digest);
  close(file);
  return wrong;
}

std::string read_sha256(const std::string& path, int descriptor, std::span<const std::byte> head, std::string* out_digest) {
  sha256_ctx context;
  sha256_init(&context);
  sha256_update(&context, head.size(), reinterpret_cast<const uint8_t*>(head.data()));
  std::vector<uint8_t> chunk(size_t{1} << 18);
  ssize_t got = 0;
  for (off_t at = static_cast<off_t>(head.size()); (got = pread(descriptor, chunk.data(), chunk.size(), at)) != 0;) {
    if (got > 0) {
      sha256_update(&context, static_cast<size_t>(got), chunk.data());
      at += got;
    } else if (errno != EINTR) {
      return fmt::format("reading {} to take its digest failed: {}", path, std::strerror(errno));
    }
  }
  uint8_t digest[SHA256_DIGEST_SIZE];
  sha256_digest(&context, sizeof digest, digest);
  *out_digest = fmt::format("{:02x}", fmt::join(digest, ""));
  return {};
}

}  // namespace heddle::host
