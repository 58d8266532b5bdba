// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small pool of threads that grows while work waits and nobody is idle. Its threads take no signal of the application.
#include "core/host/executor.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "core/host/process.h"

namespace heddle::host {

struct Executor::State {
  struct Task {
    void (*function)(void*);
    void* context;
  };
  void work();

  std::mutex mutex;
  std::condition_variable changed;
  std::multimap<uint64_t, Task> tasks;  // by the time they are due; equal ones in the order they came
  std::vector<std::thread> threads;
  uint32_t idle = 0;
  uint32_t max_threads = 1;
  bool stopped = false;
};

Executor::Executor(uint32_t max_threads) : state_(std::make_shared<State>()) {
  state_->max_threads = max_threads;
}

Executor::~Executor() {
  stop();
  for (std::thread& thread : state_->threads) {
    // The last reference may go away on one of our own threads: it cannot join itself.
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

void Executor::stop() noexcept {
  std::lock_guard lock(state_->mutex);
  state_->stopped = true;
  state_->changed.notify_all();
}

Status Executor::execute(void (*function)(void* context), void* context) noexcept {
  return add(0, function, context);
}

Status Executor::execute_at(uint64_t due_ns, void (*function)(void* context), void* context) noexcept {
  return add(due_ns, function, context);
}

Status Executor::add(uint64_t due_ns, void (*function)(void* context), void* context) noexcept {
  const std::shared_ptr<State> kept = state_;  // the task may run, and end this, before this returns
  State& state = *kept;
  try {
    std::lock_guard lock(state.mutex);
    if (state.stopped) return Status(HEDDLE_STATUS_UNAVAILABLE, "host: running a host call failed: the host is shutting down");
    auto added = state.tasks.insert({due_ns, {function, context}});
    // Those that are not due count too: threads are few and kept.
    if (state.idle < state.tasks.size() && state.threads.size() < state.max_threads) {
      sigset_t all, old;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &old);
      try {
        state.threads.emplace_back([shared = kept] { shared->work(); });
      } catch (...) {
        pthread_sigmask(SIG_SETMASK, &old, nullptr);
        if (state.threads.empty()) {
          state.tasks.erase(added);
          return Status(HEDDLE_STATUS_UNAVAILABLE, "host: running a host call failed: no thread can be started");
        }
        state.changed.notify_one();
        return Status();
      }
      pthread_sigmask(SIG_SETMASK, &old, nullptr);
    }
    state.changed.notify_one();
    return Status();
  } catch (...) {
    return Status(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "host: running a host call failed: out of memory");
  }
}

bool Executor::take_back(uint64_t due_ns, void* context) noexcept {
  std::lock_guard lock(state_->mutex);
  auto [first, last] = state_->tasks.equal_range(due_ns);
  for (; first != last; ++first) {
    if (first->second.context != context) continue;
    state_->tasks.erase(first);
    return true;
  }
  return false;
}

void Executor::State::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    while (tasks.empty() || (!stopped && tasks.begin()->first > clock_ns())) {
      if (tasks.empty() && stopped) return;
      ++idle;
      if (tasks.empty()) {
        changed.wait(lock);
      } else {
        // Every idle thread looks when the first is due: one of them gets it.
        const std::chrono::steady_clock::time_point due{std::chrono::nanoseconds(tasks.begin()->first)};
        changed.wait_until(lock, due);
      }
      --idle;
    }
    Task task = tasks.begin()->second;
    tasks.erase(tasks.begin());
    lock.unlock();
    task.function(task.context);
    lock.lock();
  }
}

}  // namespace heddle::host
