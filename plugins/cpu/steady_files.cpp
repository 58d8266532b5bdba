// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See cpu/steady_files.h. While a lease is held, open(2) for writing and truncate(2) of other processes and threads wait, for up to
// /proc/sys/fs/lease-break-time seconds, and the kernel sends a signal to the thread that is named here. It takes the signal by waiting for it,
// so no handler of the application runs. It also looks from time to time, because signals are lost where RLIMIT_SIGPENDING is reached: the kernel
// then sends SIGIO, for which it does not wait, as it would take away the application's.
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
#include <ctime>
#include <memory>
#include <new>
#include <system_error>

#include "cpu/threads.h"
#include "heddle/sdk/signals_blocked.h"

namespace heddle::cpu {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = 2 << 20;
constexpr uint64_t kLeast = 16 << 20;      // below it, reading takes a millisecond or two
constexpr uint64_t kPiece = 64 << 20;      // copied at once
constexpr uint64_t kRead = 1 << 20;        // read at once into the page cache
constexpr uint32_t kMostMappings = 256;    // each has a descriptor
constexpr uint64_t kCopyRate = 128 << 20;  // bytes a second that copies are trusted to reach, also if the pages come from a disk
constexpr timespec kLookEvery = {1, 0};

int watcher_signal() noexcept {
  return SIGRTMAX - 2;
}

// Since the system started, with the time during which it slept.
uint64_t now_ns() noexcept {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// How long a writer waits before the kernel takes the lease away.
uint64_t lease_seconds() noexcept {
  constexpr uint64_t kUsual = 45, kMost = 3600;
  unsigned long long seconds = 0;
  if (FILE* file = std::fopen("/proc/sys/fs/lease-break-time", "re")) {
    if (std::fscanf(file, "%llu", &seconds) != 1) seconds = 0;
    std::fclose(file);
  }
  return seconds == 0 ? kUsual : std::min<uint64_t>(seconds, kMost);  // 0: for ever
}

// Copies bytes of this process; false, with errno, for pages that are not there. As by memcpy, but a page that cannot be read from the disk is an
// error and no signal.
bool copy_bytes(char* to, char* from, uint64_t bytes) noexcept {
  for (uint64_t done = 0; done < bytes;) {
    const iovec source = {from + done, bytes - done}, target = {to + done, bytes - done};
    const ssize_t some = process_vm_readv(getpid(), &target, 1, &source, 1, 0);
    if (some <= 0) return false;
    done += static_cast<uint64_t>(some);
  }
  return true;
}

// Puts the pages at `from` where `to` is; there are none at `from` afterwards.
bool move_pages(char* to, char* from, uint64_t bytes) noexcept {
  return mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
}

// Whether the system lets the process do what copy does: filters of system calls may not, nor kernels without process_vm_readv.
bool can_copy() noexcept {
  void* const room = mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  char* const pages = static_cast<char*>(room);
  pages[0] = 1;
  const bool can = copy_bytes(pages + kPage, pages, kPage) && move_pages(pages + 2 * kPage, pages + kPage, kPage) && pages[2 * kPage] == 1;
  munmap(pages, kPage);
  if (!can) munmap(pages + kPage, kPage);  // else it moved, and another thread may have mapped something there
  munmap(pages + 2 * kPage, kPage);
  return can;
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
  pthread_kill(thread_.native_handle(), watcher_signal());  // if it cannot be sent, the thread looks soon
  thread_.join();
}

// Starts the thread that waits for writers. Under the lock.
bool SteadyFiles::watch(const char** why) {
  if (thread_.joinable()) return true;
  *why = "the system does not let the process copy its pages (process_vm_readv(2), mremap(2))";
  if (!can_copy()) return false;
  *why = "no thread can be started";
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
    looked_ns_ = now_ns();
  }
  is_watched_.notify_all();
  for (;;) {
    sigtimedwait(&awaited, nullptr, &kLookEvery);
    std::lock_guard lock(mutex_);
    if (stops_) return;
    look();
  }
}

// Copies what somebody wants to write to. Under the lock.
void SteadyFiles::look() noexcept {
  for (Mapping* one = first_; one; one = one->next) {
    if (one->descriptor >= 0 && fcntl(one->descriptor, F_GETLEASE) != F_RDLCK) copy(*one);
  }
  looked_ns_ = now_ns();
  in_doubt_.store(false, std::memory_order_release);
}

// F_GETLEASE does not tell whether the writer still waits. Where it may not, because this thread was stopped or the copy takes long, no results are
// given out until that is known.
void SteadyFiles::doubt() noexcept {
  if (now_ns() - looked_ns_ > lease_seconds_ * 500'000'000) in_doubt_.store(true, std::memory_order_release);
}

void SteadyFiles::set_lost(Mapping& mapping, bool is_lost) noexcept {
  if (mapping.is_lost == is_lost) return;
  mapping.is_lost = is_lost;
  lost_.fetch_add(is_lost ? 1u : ~0u, std::memory_order_acq_rel);
}

heddle_status_t* SteadyFiles::loss() noexcept {
  std::lock_guard lock(mutex_);  // a copy that is in progress decides
  if (lost_.load() == 0) return nullptr;
  return sdk::status(host_, HEDDLE_STATUS_DATA_LOSS,
                     "cpu: the work failed: parameters from '%s' may have changed, because the file was written to before its mapped pages "
                     "were copied; close the instances that use it, and load them again",
                     lost_name_);
}

SteadyFiles::Mapping* SteadyFiles::map(const sdk::File& file, uint64_t offset, uint64_t bytes, const char** why) {
  *why = "it is small";
  if (bytes < kLeast) return nullptr;
  *why = "its file system may be written to elsewhere";
  if (!is_local(file.descriptor)) return nullptr;
  std::unique_lock lock(mutex_);
  uint32_t count = 0;
  uint64_t all = bytes;
  for (const Mapping* one = first_; one; one = one->next) {
    if (one->descriptor < 0) continue;
    ++count;
    all += one->bytes;
  }
  *why = "too many are";
  if (count >= kMostMappings) return nullptr;
  *why = "copying all that is mapped might take longer than writers wait (/proc/sys/fs/lease-break-time)";
  lease_seconds_ = lease_seconds();
  if (all > lease_seconds_ * kCopyRate) return nullptr;
  *why = "it is larger than the page cache should be";
  if (sdk::would_fill_memory(file, offset, bytes)) return nullptr;
  if (!watch(why)) return nullptr;
  is_watched_.wait(lock, [&] { return watcher_ != 0; });
  // A lease belongs to an open file, which is not to be the caller's, and is only given for one that is read.
  char path[40];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", file.descriptor);
  Mapping made = {nullptr, offset, bytes, 0, 0, open(path, O_RDONLY | O_CLOEXEC), false, first_};
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
  set_lost(*mapping, false);
  if (mapping->descriptor >= 0) {
    fcntl(mapping->descriptor, F_SETLEASE, F_UNLCK);  // a child of the process may have the descriptor, too
    close(mapping->descriptor);
  }
  delete mapping;
}

// Replaces the file's pages by copies at the same addresses, piece by piece, and lets the writer go on. Kernels may read them meanwhile. Under the
// lock.
void SteadyFiles::copy(Mapping& mapping) noexcept {
  char path[40], name[sizeof lost_name_], text[700];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", mapping.descriptor);
  name[std::max<ssize_t>(readlink(path, name, sizeof name - 1), 0)] = 0;
  doubt();
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
      if (!copy_bytes(fresh + done, mapping.memory + done, piece) || !move_pages(mapping.memory + done, fresh + done, piece)) break;
      done += piece;
      doubt();
    }
    // Only what was not moved: other threads may have mapped something where the rest was.
    munmap(fresh + done, static_cast<char*>(room) + room_bytes - (fresh + done));
    if (fresh != room) munmap(room, static_cast<size_t>(fresh - static_cast<char*>(room)));
  }
  const int error = errno;
  const bool is_whole = done >= mapping.bytes;
  if (!is_whole) {
    std::snprintf(lost_name_, sizeof lost_name_, "%s", name);
    set_lost(mapping, true);
    // Kernels that are running may read the rest, which may be truncated; their results are not given out.
    mmap(mapping.memory + done, whole - done, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }
  // Fails if the kernel has taken the lease away: then the writer went on before, and the copies may be of what it wrote.
  const bool is_in_time = fcntl(mapping.descriptor, F_SETLEASE, F_UNLCK) == 0;
  if (is_whole) {
    if (!is_in_time) std::snprintf(lost_name_, sizeof lost_name_, "%s", name);
    set_lost(mapping, !is_in_time);
  }
  close(mapping.descriptor);
  mapping.descriptor = -1;
  const char* outcome = "; they are memory of the process now, and no longer pages of the page cache";
  if (!is_whole) {
    outcome = "; calls on this device fail until the instances that use the file are closed";
  } else if (!is_in_time) {
    outcome = ", but too late, and may have changed: calls on this device fail until the instances that use the file are closed";
  }
  const bool is_lost = !is_whole || !is_in_time;
  const int size =
      std::snprintf(text, sizeof text, "cpu: somebody writes to '%s', which is mapped; %llu of %llu bytes were copied%s (error %d)", name,
                    sdk::number(std::min(done, mapping.bytes)), sdk::number(mapping.bytes), outcome, is_whole ? 0 : error);
  host_->log(host_->self, is_lost ? HEDDLE_LOG_ERROR : HEDDLE_LOG_WARN, sdk::string_of("steady_files.cpp"), __LINE__,
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
