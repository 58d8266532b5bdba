// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A claim is a socket with a core's name in the abstract namespace (unix(7)), shown as "@heddle-core-3" by `ss -xa`: only one socket can have a
// name, the name belongs to no user and no directory, and the system removes it with the process, or with the last process forked from it. No
// process connects to it. Processes in different network namespaces do not see each other's claims.
#include "cpu/core_claims.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

namespace heddle::cpu {
namespace {

// A socket with that name; -1 with errno EADDRINUSE if the name is taken, or another errno if no socket can be created.
int take_name(const char* name) noexcept {
  const int taken = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (taken < 0) return -1;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", name);
  const size_t size = offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length);
  if (bind(taken, reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(size)) == 0) return taken;
  const int error = errno;
  close(taken);
  errno = error;
  return -1;
}

}  // namespace

CoreClaims::~CoreClaims() {
  for (int socket : sockets_) close(socket);
}

std::vector<uint32_t> CoreClaims::take(const std::vector<uint32_t>& cpus, uint32_t count) {
  std::vector<uint32_t> taken;
  taken.reserve(count);
  const size_t before = sockets_.size();
  sockets_.reserve(before + count);
  // One process at a time, because two could otherwise each get half of the processors and give up. The wait is limited: a process may be
  // stopped in its turn.
  int turn = -1;
  for (int tries = 0; (turn = take_name("heddle-cores-turn")) < 0 && errno == EADDRINUSE && tries < 50; ++tries) usleep(200);
  for (size_t i = 0; i < cpus.size() && taken.size() < count; ++i) {
    char name[32];
    std::snprintf(name, sizeof name, "heddle-core-%u", cpus[i]);
    const int claim = take_name(name);
    if (claim < 0) continue;
    sockets_.push_back(claim);
    taken.push_back(cpus[i]);
  }
  if (taken.size() != count) {
    for (; sockets_.size() > before; sockets_.pop_back()) close(sockets_.back());
    taken.clear();
  }
  if (turn >= 0) close(turn);
  return taken;
}

}  // namespace heddle::cpu
