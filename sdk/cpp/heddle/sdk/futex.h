// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sleeping on a 32-bit word, and the pause between two polls of one. Linux.
#ifndef HEDDLE_SDK_FUTEX_H_
#define HEDDLE_SDK_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace heddle::sdk {

inline uint64_t monotonic_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

inline void cpu_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Sleeps while the word holds `expected`; may wake spuriously. timeout UINT64_MAX: none.
inline void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected, uint64_t timeout_ns) noexcept {
  timespec limit;
  timespec* limit_pointer = nullptr;
  if (timeout_ns != UINT64_MAX) {
    limit.tv_sec = static_cast<time_t>(timeout_ns / 1000000000u);
    limit.tv_nsec = static_cast<long>(timeout_ns % 1000000000u);
    limit_pointer = &limit;
  }
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, limit_pointer, nullptr, 0);
}

inline void futex_wake(const std::atomic<uint32_t>& word, int count = INT_MAX) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

// The same for threads that share a word: a wake reaches the threads that wait with one of its bits, and may reach others.
// until_ns: at most until this time of monotonic_ns(); UINT64_MAX: without a limit.
inline void futex_wait_bits(const std::atomic<uint32_t>& word, uint32_t expected, uint32_t bits, uint64_t until_ns = UINT64_MAX) noexcept {
  timespec limit;
  limit.tv_sec = static_cast<time_t>(until_ns / 1000000000u);
  limit.tv_nsec = static_cast<long>(until_ns % 1000000000u);
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected, until_ns == UINT64_MAX ? nullptr : &limit, nullptr, bits);
}

inline void futex_wake_bits(const std::atomic<uint32_t>& word, uint32_t bits) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr, nullptr, bits);
}

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_FUTEX_H_
