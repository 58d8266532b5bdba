// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See cpu/steady_files.h. While a lease is held, open(2) for writing and truncate(2) of other processes and threads wait, for up to
// /proc/sys/fs/lease-break-time seconds, and the kernel sends a signal to the thread that is named here. It takes the signal by waiting for it, so no
// handler of the application runs.
#include "cpu/steady_files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <new>
#include <system_error>

#include "cpu/threads.h"
#include "heddle/sdk/signals_blocked.h"

namespace heddle::cpu {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = 2 << 20;
constexpr uint64_t kLeast = 16 << 20;    // below it, reading takes a millisecond or two
constexpr uint64_t kPiece = 64 << 20;    // copied at once
constexpr uint64_t kRead = 1 << 20;      // read at once into the page cache
constexpr uint32_t kMostMappings = 256;  // each has a descriptor

int watcher_signal() noexcept {
  return SIGRTMAX - 2;
}

// Whether all writers of the file system's files are known to this kernel, which then asks for leases: not on a network, nor behind a program.
bool is_local(int descriptor) noexcept {
  struct statfs facts;
  if (fstatfs(descriptor, &facts) != 0) return false;
  switch (static_cast<uint32_t>(facts.f_type)) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
      return true;
    default:
      return false;
  }
}

}  // namespace

SteadyFiles::~SteadyFiles() {
  {
    std::lock_guard lock(mutex_);
    stops_ = true;
  }
  if (!thread_.joinable()) return;
  pthread_kill(thread_.native_handle(), watcher_signal());
  thread_.join();
}

// Starts the thread that waits for writers. Under the lock.
bool SteadyFiles::watch() {
  if (thread_.joinable()) return true;
  try {
    const sdk::SignalsBlocked blocked;
    thread_ = std::thread([this] { loop(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void SteadyFiles::loop() noexcept {
  name_thread("heddle-cpu-file");
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, watcher_signal());
  {
    std::lock_guard lock(mutex_);
    watcher_ = gettid();
  }
  is_watched_.notify_all();
  for (;;) {
    siginfo_t what;
    sigwaitinfo(&awaited, &what);
    std::lock_guard lock(mutex_);
    if (stops_) return;
    for (Mapping* one = first_; one; one = one->next) {
      if (one->descriptor >= 0 && fcntl(one->descriptor, F_GETLEASE) != F_RDLCK) copy(*one);
    }
  }
}

SteadyFiles::Mapping* SteadyFiles::map(const sdk::File& file, uint64_t offset, uint64_t bytes, const char** why) {
  *why = "it is small";
  if (bytes < kLeast) return nullptr;
  *why = "its file system may be written to elsewhere";
  if (!is_local(file.descriptor)) return nullptr;
  *why = "it is larger than the page cache should be";
  if (sdk::would_fill_memory(file, offset, bytes)) return nullptr;
  std::unique_lock lock(mutex_);
  uint32_t count = 0;
  for (const Mapping* one = first_; one; one = one->next) ++count;
  *why = "too many are";
  if (count >= kMostMappings || !watch()) return nullptr;
  is_watched_.wait(lock, [&] { return watcher_ != 0; });
  // A lease belongs to an open file, which is not to be the caller's, and is only given for one that is read.
  char path[40];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", file.descriptor);
  Mapping made = {nullptr, offset, bytes, 0, 0, open(path, O_RDONLY | O_CLOEXEC), first_};
  const f_owner_ex owner = {F_OWNER_TID, watcher_};
  struct stat facts;
  errno = 0;
  // F_SETLEASE would make the process the owner if there were none.
  if (made.descriptor >= 0 && fstat(made.descriptor, &facts) == 0 && fcntl(made.descriptor, F_SETSIG, watcher_signal()) == 0 &&
      fcntl(made.descriptor, F_SETOWN_EX, &owner) == 0 && fcntl(made.descriptor, F_SETLEASE, F_RDLCK) == 0) {
    made.device = facts.st_dev;
    made.inode = facts.st_ino;
    void* memory = MAP_FAILED;
    // The size is the file's under the lease: it may have been truncated before.
    if (fstat(made.descriptor, &facts) == 0 && static_cast<uint64_t>(facts.st_size) >= offset + bytes)
      memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, made.descriptor, static_cast<off_t>(offset));
    if (memory != MAP_FAILED) {
      made.memory = static_cast<char*>(memory);
      Mapping* kept = madvise(memory, kPage, MADV_POPULATE_READ) == 0 ? new (std::nothrow) Mapping(made) : nullptr;
      if (kept) return first_ = kept;
      munmap(memory, bytes);
    }
  }
  *why = errno == EAGAIN ? "it is open for writing" : "the system or the file's owner gives no lease (fcntl(2))";
  if (made.descriptor >= 0) close(made.descriptor);
  return nullptr;
}

void SteadyFiles::unmap(Mapping* mapping) noexcept {
  std::lock_guard lock(mutex_);
  for (Mapping** one = &first_; *one; one = &(*one)->next) {
    if (*one != mapping) continue;
    *one = mapping->next;
    break;
  }
  munmap(mapping->memory, mapping->bytes);
  if (mapping->descriptor >= 0) {
    fcntl(mapping->descriptor, F_SETLEASE, F_UNLCK);  // a child of the process may have the descriptor, too
    close(mapping->descriptor);
  }
  delete mapping;
}

// Replaces the file's pages by copies at the same addresses, piece by piece, and lets the writer go on. Kernels may read them meanwhile.
void SteadyFiles::copy(Mapping& mapping) noexcept {
  uint64_t done = 0;
  errno = 0;
  const uint64_t whole = (mapping.bytes + kPage - 1) / kPage * kPage, room_bytes = whole + kHugePage;
  void* const room = mmap(nullptr, room_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room != MAP_FAILED) {
    // Huge pages begin at the same places as in the memory to be replaced.
    char* const fresh =
        static_cast<char*>(room) + (reinterpret_cast<uint64_t>(mapping.memory) - reinterpret_cast<uint64_t>(room)) % kHugePage;
    madvise(fresh, mapping.bytes, MADV_HUGEPAGE);
    while (done < whole) {
      const uint64_t first = reinterpret_cast<uint64_t>(mapping.memory) + done;
      const uint64_t piece = std::min(whole - done, kPiece - first % kPiece);
      // As by memcpy, but a page that cannot be read from the disk is an error and no signal.
      uint64_t copied = 0;
      while (copied < piece) {
        const iovec from = {mapping.memory + done + copied, piece - copied}, to = {fresh + done + copied, piece - copied};
        const ssize_t some = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
        if (some <= 0) break;
        copied += static_cast<uint64_t>(some);
      }
      if (copied < piece || mremap(fresh + done, piece, piece, MREMAP_MAYMOVE | MREMAP_FIXED, mapping.memory + done) == MAP_FAILED) break;
      done += piece;
    }
    // Only what was not moved: other threads may have mapped something where the rest was.
    munmap(fresh + done, static_cast<char*>(room) + room_bytes - (fresh + done));
    if (fresh != room) munmap(room, static_cast<size_t>(fresh - static_cast<char*>(room)));
  }
  const int error = errno;
  char path[40], name[300], text[600];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", mapping.descriptor);
  const ssize_t length = readlink(path, name, sizeof name);
  fcntl(mapping.descriptor, F_SETLEASE, F_UNLCK);
  close(mapping.descriptor);
  mapping.descriptor = -1;
  const bool is_whole = done >= mapping.bytes;
  const int size = std::snprintf(
      text, sizeof text, "cpu: somebody writes to '%.*s', which is mapped; %llu of %llu bytes were copied before%s (error %d)",
      static_cast<int>(std::max<ssize_t>(length, 0)), name, sdk::number(std::min(done, mapping.bytes)), sdk::number(mapping.bytes),
      is_whole ? "" : ": the others change, and truncation ends the process", is_whole ? 0 : error);
  host_->log(host_->self, is_whole ? HEDDLE_LOG_INFO : HEDDLE_LOG_ERROR, sdk::string_of("steady_files.cpp"), __LINE__,
             {text, static_cast<uint64_t>(size)});
}

bool SteadyFiles::fill(const Mapping& mapping, int descriptor, uint64_t offset, uint64_t length, char* to) noexcept {
  struct stat facts;
  if (offset < mapping.offset || to != mapping.memory + (offset - mapping.offset) || fstat(descriptor, &facts) != 0 ||
      facts.st_dev != mapping.device || facts.st_ino != mapping.inode)
    return false;
  // Faults read a file in smaller pieces than reads do.
  if (sdk::cached_bytes(descriptor, offset, length) < length) {
    const std::unique_ptr<char[]> unused(new (std::nothrow) char[kRead]);
    if (!unused) return false;
    for (uint64_t done = 0; done < length;) {
      const ssize_t some = pread(descriptor, unused.get(), std::min(length - done, kRead), static_cast<off_t>(offset + done));
      if (some <= 0) return false;
      done += static_cast<uint64_t>(some);
    }
  }
  char* const first = to - reinterpret_cast<uint64_t>(to) % kPage;
  return madvise(first, static_cast<size_t>(to + length - first), MADV_POPULATE_READ) == 0;
}

}  // namespace heddle::cpu
