// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small pool of threads that grows while work waits and nobody is idle. Its threads take no signal of the application.
#include "core/host/executor.h"

#include <pthread.h>
#include <signal.h>

namespace heddle::host {

Executor::~Executor() {
  stop();
  for (std::thread& thread : threads_) {
    // The last reference may go away on one of our own threads: it cannot join itself.
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

void Executor::stop() noexcept {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

Status Executor::execute(void (*function)(void* context), void* context) noexcept {
  try {
    std::lock_guard lock(mutex_);
    if (stopped_) return Status(HEDDLE_STATUS_UNAVAILABLE, "host: running a host call failed: the host is shutting down");
    tasks_.push_back({function, context});
    if (idle_ < tasks_.size() && threads_.size() < max_threads_) {
      sigset_t all, old;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &old);
      try {
        threads_.emplace_back([this] { work(); });
      } catch (...) {
        pthread_sigmask(SIG_SETMASK, &old, nullptr);
        if (threads_.empty()) {
          tasks_.pop_back();
          return Status(HEDDLE_STATUS_UNAVAILABLE, "host: running a host call failed: no thread can be started");
        }
        changed_.notify_one();
        return Status();
      }
      pthread_sigmask(SIG_SETMASK, &old, nullptr);
    }
    changed_.notify_one();
    return Status();
  } catch (...) {
    return Status(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "host: running a host call failed: out of memory");
  }
}

void Executor::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (tasks_.empty()) {
      if (stopped_) return;
      ++idle_;
      changed_.wait(lock);
      --idle_;
    }
    Task task = tasks_.front();
    tasks_.pop_front();
    lock.unlock();
    task.function(task.context);
    lock.lock();
  }
}

}  // namespace heddle::host
