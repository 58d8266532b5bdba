// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Claims are locks of open file descriptions (fcntl(2), F_OFD_SETLK) on an empty file of the user's in /dev/shm: one byte a processor. The system
// drops them with the process, or with the last one that it forked meanwhile.
#include "cpu/core_claims.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace heddle::cpu {
namespace {

bool set_lock(int file, short type, uint32_t cpu) noexcept {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = cpu;
  lock.l_len = 1;
  return fcntl(file, F_OFD_SETLK, &lock) == 0;
}

// The user's own file; -1 if there is none or somebody else made it.
int open_file() noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/dev/shm/heddle-cores-%u", static_cast<unsigned>(geteuid()));
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (file < 0) return -1;
  struct stat facts;
  if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == geteuid()) return file;
  close(file);
  return -1;
}

}  // namespace

CoreClaims::~CoreClaims() {
  if (file_ >= 0) close(file_);
}

CoreClaims::CoreClaims(CoreClaims&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

std::vector<uint32_t> CoreClaims::take(const std::vector<uint32_t>& cpus, uint32_t count) {
  if (file_ < 0) file_ = open_file();
  // One after the other, or two could each get half of the processors, and give up. Nobody waits for long: a process may be stopped in its turn.
  constexpr uint32_t kTurn = 1u << 30;
  bool in_turn = false;
  for (int tries = 0; file_ >= 0 && !(in_turn = set_lock(file_, F_WRLCK, kTurn)) && tries < 50; ++tries) usleep(200);
  std::vector<uint32_t> taken;
  taken.reserve(count);
  for (size_t i = 0; file_ >= 0 && i < cpus.size() && taken.size() < count; ++i) {
    if (set_lock(file_, F_WRLCK, cpus[i])) taken.push_back(cpus[i]);
  }
  if (taken.size() != count) {
    for (uint32_t cpu : taken) set_lock(file_, F_UNLCK, cpu);
    taken.clear();
  }
  if (in_turn) set_lock(file_, F_UNLCK, kTurn);
  return taken;
}

}  // namespace heddle::cpu
