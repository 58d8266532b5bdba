// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device that computes listens on one of a few names in the abstract namespace (unix(7)), shown as "@heddle-busy-0-15-16-2" by `ss -xl`, and its
// neighbors try to connect. A listener that is shut down refuses connections, also if a forked process still has its socket.
#include "cpu/neighbors.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

namespace heddle::cpu {
namespace {

struct Name {
  sockaddr_un address = {};
  socklen_t size = 0;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&address); }
};

Name name_of(uint32_t first, uint32_t last, uint32_t size, uint32_t number) noexcept {
  Name name;
  name.address.sun_family = AF_UNIX;
  const int length =
      std::snprintf(name.address.sun_path + 1, sizeof name.address.sun_path - 1, "heddle-busy-%u-%u-%u-%u", first, last, size, number);
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
  return name;
}

int open_socket() noexcept {
  return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

}  // namespace

Neighbors::Neighbors(const std::vector<uint32_t>& cpus) noexcept
    : first_(cpus.empty() ? 0 : cpus.front()), last_(cpus.empty() ? 0 : cpus.back()), size_(static_cast<uint32_t>(cpus.size())) {}

Neighbors::~Neighbors() {
  leave();
}

void Neighbors::enter() noexcept {
  if (listener_ >= 0) return;
  const int candidate = open_socket();
  if (candidate < 0) return;
  for (uint32_t number = 0; number <= kMost; ++number) {
    const Name name = name_of(first_, last_, size_, number);
    if (bind(candidate, name.get(), name.size) != 0) continue;
    // A queue of one connection: neighbors after the first one are told that it is full, which says as much.
    if (listen(candidate, 0) != 0) break;
    listener_ = candidate;
    own_ = number;
    return;
  }
  close(candidate);
}

void Neighbors::leave() noexcept {
  if (listener_ < 0) return;
  shutdown(listener_, SHUT_RDWR);
  close(listener_);
  listener_ = -1;
}

uint32_t Neighbors::count() noexcept {
  uint32_t found = 0;
  int probe = -1;
  for (uint32_t number = 0; number <= kMost && found < kMost; ++number) {
    if (listener_ >= 0 && number == own_) continue;
    if (probe < 0 && (probe = open_socket()) < 0) break;
    const Name name = name_of(first_, last_, size_, number);
    const bool is_connected = connect(probe, name.get(), name.size) == 0;
    if (!is_connected && errno != EAGAIN) continue;
    ++found;
    if (!is_connected) continue;
    close(probe);
    probe = -1;
  }
  if (probe >= 0) close(probe);
  return found;
}

}  // namespace heddle::cpu
