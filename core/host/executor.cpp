// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small thread pool that grows while work waits and no thread is idle. Its threads block all signals, so that the application handles them.
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
  // Adds a thread if there is work for it, or if there is none at all; under the mutex. False: there is no thread at all.
  bool add_thread(const std::shared_ptr<State>& self) noexcept;

  std::mutex mutex;
  std::condition_variable changed;
  std::multimap<uint64_t, Task> tasks;    // by due time, then in the order of arrival
  Job *first = nullptr, *last = nullptr;  // jobs that have not begun, in the order of arrival
  size_t jobs = 0;
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
    // The last reference may be dropped on one of our own threads, which cannot join itself.
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

Status Executor::prepare() noexcept {
  if (is_prepared_.load(std::memory_order_acquire)) return Status();
  State& state = *state_;
  std::lock_guard lock(state.mutex);
  if (state.threads.empty() && !state.add_thread(state_)) {
    return Status(HEDDLE_STATUS_RESOURCE_EXHAUSTED,
                  "host: starting a thread for calls in pieces failed: out of memory or threads; free some, or raise their limit");
  }
  is_prepared_.store(true, std::memory_order_release);
  return Status();
}

bool Executor::run(Job* job) noexcept {
  const std::shared_ptr<State> kept = state_;  // the job may run and destroy this object before this function returns
  State& state = *kept;
  std::lock_guard lock(state.mutex);
  if (state.stopped) return false;
  job->next = nullptr;
  (state.last ? state.last->next : state.first) = job;
  state.last = job;
  ++state.jobs;
  static_cast<void>(state.add_thread(kept));
  state.changed.notify_one();
  return true;
}

Status Executor::add(uint64_t due_ns, void (*function)(void* context), void* context) noexcept {
  const std::shared_ptr<State> kept = state_;  // the task may run and destroy this object before this function returns
  State& state = *kept;
  try {
    std::lock_guard lock(state.mutex);
    if (state.stopped) return Status(HEDDLE_STATUS_UNAVAILABLE, "host: running a host call failed: the host is shutting down");
    auto added = state.tasks.insert({due_ns, {function, context}});
    if (!state.add_thread(kept)) {
      state.tasks.erase(added);
      return Status(HEDDLE_STATUS_UNAVAILABLE, "host: running a host call failed: no thread can be started");
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

bool Executor::State::add_thread(const std::shared_ptr<State>& self) noexcept {
  // Tasks that are not due yet count too: threads are few and stay alive.
  if (!threads.empty() && (idle >= tasks.size() + jobs || threads.size() >= max_threads)) return true;
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  try {
    threads.emplace_back([self] { self->work(); });
    ++idle;        // idle until it begins
  } catch (...) {  // then the existing threads do more
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return !threads.empty();
}

void Executor::State::work() {
  std::unique_lock lock(mutex);
  --idle;
  for (bool was_job = false;;) {
    while (!first && (tasks.empty() || (!stopped && tasks.begin()->first > clock_ns()))) {
      if (tasks.empty() && stopped) return;
      ++idle;
      if (tasks.empty()) {
        changed.wait(lock);
      } else {
        const std::chrono::steady_clock::time_point due{std::chrono::nanoseconds(tasks.begin()->first)};
        changed.wait_until(lock, due);
      }
      --idle;
    }
    Task task;
    // Tasks and jobs take turns, so that neither starves.
    const bool is_due = !tasks.empty() && (stopped || tasks.begin()->first <= clock_ns());
    was_job = first && !(was_job && is_due);
    if (was_job) {
      task = {first->function, first->context};
      first = first->next;
      if (!first) last = nullptr;
      --jobs;
    } else {
      task = tasks.begin()->second;
      tasks.erase(tasks.begin());
    }
    if (idle != 0 && !tasks.empty()) changed.notify_one();  // another thread waits for the next due time
    lock.unlock();
    task.function(task.context);
    lock.lock();
  }
}

}  // namespace heddle::host
