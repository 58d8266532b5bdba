// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A coroutine that ends in a Status: the work of a call in several pieces, written as if it could block.
// Used by run.cpp and call.cpp; pace.h has what it can wait for.
#ifndef HEDDLE_CORE_SUBMIT_TASK_H_
#define HEDDLE_CORE_SUBMIT_TASK_H_

#include <atomic>
#include <coroutine>
#include <exception>
#include <utility>

#include "core/status.h"

namespace heddle::submit {

class [[nodiscard]] Task {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // Runs until the first wait; at the end of the task, on any thread, ended(context, outcome) is called. Call once.
  inline void start(void (*ended)(void* context, Status&& outcome), void* context);
  // The same for a task that never suspends: runs it here to its end.
  inline Status run();

  // From another task: runs it, and continues with its outcome.
  auto operator co_await() && noexcept { return Awaiter{handle_}; }

 private:
  // It may end before its caller suspends; then the caller just continues: a loop of tasks that never wait needs no stack.
  enum State : int { kRunning, kAwaited, kEnded };
  struct Awaiter {
    Handle handle;
    bool await_ready() const noexcept { return false; }
    inline bool await_suspend(std::coroutine_handle<> awaiting) const;
    inline Status await_resume() const;
  };
  explicit Task(Handle handle) : handle_(handle) {}

  Handle handle_;
};

struct Task::promise_type {
  struct Final {
    bool await_ready() const noexcept { return false; }
    // The awaiting task may destroy the coroutine at once.
    void await_suspend(Handle self) const noexcept {
      promise_type& promise = self.promise();
      if (auto* ended = promise.ended) {
        Status outcome = std::move(promise.outcome);
        return ended(promise.context, std::move(outcome));
      }
      std::coroutine_handle<> awaiting = promise.awaiting;
      if (promise.state.exchange(kEnded, std::memory_order_acq_rel) == kAwaited) awaiting.resume();
    }
    void await_resume() const noexcept {}
  };
  Task get_return_object() { return Task(Handle::from_promise(*this)); }
  std::suspend_always initial_suspend() const noexcept { return {}; }
  Final final_suspend() const noexcept { return {}; }
  void return_value(Status&& status) noexcept { outcome = std::move(status); }
  void unhandled_exception() noexcept {
    try {
      throw;
    } catch (const std::exception& failure) {
      outcome = Status(HEDDLE_STATUS_RESOURCE_EXHAUSTED, failure.what());
    } catch (...) {
      outcome = Status(HEDDLE_STATUS_INTERNAL, "an unknown exception");
    }
  }

  Status outcome;
  std::coroutine_handle<> awaiting;
  std::atomic<int> state{kRunning};
  void (*ended)(void*, Status&&) = nullptr;
  void* context = nullptr;
};

void Task::start(void (*ended)(void* context, Status&& outcome), void* context) {
  handle_.promise().ended = ended;
  handle_.promise().context = context;
  handle_.resume();
}

Status Task::run() {
  Status outcome;
  start([](void* context, Status&& ended) { *static_cast<Status*>(context) = std::move(ended); }, &outcome);
  return outcome;
}

bool Task::Awaiter::await_suspend(std::coroutine_handle<> awaiting) const {
  const Handle started = handle;
  started.promise().awaiting = awaiting;
  started.resume();
  return started.promise().state.exchange(kAwaited, std::memory_order_acq_rel) != kEnded;
}

Status Task::Awaiter::await_resume() const {
  return std::move(handle.promise().outcome);
}

}  // namespace heddle::submit

// HEDDLE_RETURN_IF_ERROR for coroutines.
#define HEDDLE_CO_RETURN_IF_ERROR(expression)                      \
  do {                                                             \
    ::heddle::Status heddle_status_ = (expression);                \
    if (!heddle_status_.ok()) co_return std::move(heddle_status_); \
  } while (0)

#endif  // HEDDLE_CORE_SUBMIT_TASK_H_
