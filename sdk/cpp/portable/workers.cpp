// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See workers.h.
#include "heddle/sdk/portable/workers.h"

#include <fenv.h>

#include <algorithm>

#include "heddle/sdk/signals_blocked.h"

namespace heddle::sdk::portable {

Workers::Workers(uint32_t count) {
  const SignalsBlocked blocked;
  const uint32_t more = std::min(std::max(count, 1u), kMostWorkers) - 1;
  threads_.reserve(more);
  try {
    for (uint32_t i = 0; i < more; ++i) threads_.emplace_back([this] { loop(); });
  } catch (...) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    more_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    throw;
  }
}

Workers::~Workers() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  more_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::run(uint32_t parts, const std::function<void(uint32_t)>& task) {
  if (parts <= 1 || threads_.empty()) {
    for (uint32_t part = 0; part < parts; ++part) task(part);
    return;
  }
  const std::lock_guard<std::mutex> turn(turn_);
  std::unique_lock<std::mutex> lock(mutex_);
  task_ = &task;
  next_ = 0;
  parts_ = unfinished_ = parts;
  thrown_ = nullptr;
  more_.notify_all();
  take(lock);
  done_.wait(lock, [&] { return unfinished_ == 0; });
  task_ = nullptr;
  if (thrown_) std::rethrow_exception(std::move(thrown_));
}

void Workers::take(std::unique_lock<std::mutex>& lock) {
  while (next_ < parts_) {
    const uint32_t part = next_++;
    const std::function<void(uint32_t)>& task = *task_;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      task(part);
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    if (thrown && !thrown_) thrown_ = std::move(thrown);
    if (--unfinished_ == 0) done_.notify_all();
  }
}

void Workers::loop() {
  fesetenv(FE_DFL_ENV);  // not the one of the thread that made the object
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    more_.wait(lock, [&] { return stop_ || next_ < parts_; });
    if (next_ >= parts_) return;
    take(lock);
  }
}

}  // namespace heddle::sdk::portable
