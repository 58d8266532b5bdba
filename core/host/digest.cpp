// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// nettle is opened when the first digest is taken: most processes take none, and loading it costs each about 0.1 ms.
#include "core/host/digest.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <nettle/nettle-meta.h>
#include <nettle/sha2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "core/host/descriptor.h"

namespace heddle::host {
namespace {

constexpr char kNettle[] = "libnettle.so.8";  // its structures are those of the headers that this file is compiled with

// nettle's description of SHA-256; NULL if the library cannot be opened. It stays open.
const nettle_hash* sha256() {
  static const nettle_hash* const found = [] {
    void* library = dlopen(kNettle, RTLD_NOW | RTLD_LOCAL);
    return library ? static_cast<const nettle_hash*>(dlsym(library, "nettle_sha256")) : nullptr;
  }();
  return found;
}

}  // namespace

bool is_sha256(std::string_view text) {
  return text.size() == 2 * SHA256_DIGEST_SIZE && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string read_sha256(const std::string& path, uint64_t max_bytes, std::string* out_digest) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return fmt::format("opening {} to take its digest failed: {}", path, std::strerror(errno));
  return read_sha256(path, file.get(), {}, max_bytes, out_digest);
}

std::string read_sha256(const std::string& path, int descriptor, std::span<const std::byte> head, uint64_t max_bytes,
                        std::string* out_digest) {
  auto failed = [&](std::string_view cause) { return fmt::format("reading {} to take its digest failed: {}", path, cause); };
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) return failed(std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) return failed("it is not a regular file");
  const auto size = static_cast<uint64_t>(facts.st_size);
  if (size > max_bytes) return failed(fmt::format("it has {} bytes; at most {} are read", size, max_bytes));
  const nettle_hash* const hash = sha256();
  if (!hash) return failed(fmt::format("{} cannot be opened; install the package libnettle8", kNettle));
  sha256_ctx context;
  hash->init(&context);
  hash->update(&context, head.size(), reinterpret_cast<const uint8_t*>(head.data()));
  std::vector<uint8_t> chunk(size_t{1} << 18);
  uint64_t done = head.size();
  while (done <= size) {
    const ssize_t got = pread(descriptor, chunk.data(), chunk.size(), static_cast<off_t>(done));
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(std::strerror(errno));
    hash->update(&context, static_cast<size_t>(got), chunk.data());
    done += static_cast<uint64_t>(got);
  }
  if (done != size) return failed("its size changed meanwhile; try again when no program writes to it");
  uint8_t digest[SHA256_DIGEST_SIZE];
  hash->digest(&context, sizeof digest, digest);
  *out_digest = fmt::format("{:02x}", fmt::join(digest, ""));
  return {};
}

}  // namespace heddle::host
