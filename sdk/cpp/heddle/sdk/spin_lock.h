// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A lock that is held for some tens of nanoseconds, and nearly always taken by the thread that held it last: taking it costs one atomic
// operation, releasing it none, half the cost of a std::mutex. For std::lock_guard. Do nothing that may block while holding it.
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
  // The holder may be without a core: this thread soon yields to it.
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
