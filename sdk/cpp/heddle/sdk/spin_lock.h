// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A lock for what is held for some tens of nanoseconds, and nearly always taken by the thread that had it last: to take it costs one atomic
// operation, to let it go none, half of what a std::mutex does. For std::lock_guard. Nothing that may block is done under it.
#ifndef HEDDLE_SDK_SPIN_LOCK_H_
#define HEDDLE_SDK_SPIN_LOCK_H_

#include <atomic>
#include <chrono>
#include <thread>

namespace heddle::sdk {

class SpinLock {
 public:
  void lock() noexcept {
    if (held_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      wait();
  }
  bool try_lock() noexcept { return !held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  // Whoever has it may not have been given a core: it makes room for it soon.
  [[gnu::noinline, gnu::cold]] void wait() noexcept {
    constexpr int kSpins = 100, kYields = 100;
    for (int turn = 0;; ++turn) {
      if (turn < kSpins) {
#ifdef __SSE2__
        __builtin_ia32_pause();
#endif
      } else if (turn < kSpins + kYields) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      if (try_lock()) return;
    }
  }
  std::atomic<bool> held_{false};
};

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_SPIN_LOCK_H_
