// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The thread has no GIL, since it may still run when the interpreter ends. What belongs to Python is destroyed by a thread that has it.
#include "calls_at_load.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

namespace heddle::python {
namespace {

// How long the thread waits before it looks for deadlines, and for an instance that is released.
constexpr uint64_t kLookNs = 10'000'000;

// Never destroyed: the thread may end while the process exits.
struct Dropped {
  std::mutex mutex;
  std::vector<CallInFlight> calls;
  std::atomic<bool> any{false};
};
Dropped& all_dropped() {
  static Dropped* one = new Dropped;
  return *one;
}

std::string still_loading(const Invocation& call) {
  return "heddle: calling '" + call.function.name + "' failed: the parameters of '" + call.function.session->path +
         "' are still being loaded after its timeout; wait for them with wait() of the module";
}

heddle_status_t* failure_of(heddle_status_code_t code, const std::string& message) {
  return heddle_status_create(code, c_string(message));
}

}  // namespace

void CallsAtLoad::destroy_dropped() noexcept {
  Dropped& dropped = all_dropped();
  if (!dropped.any.load(std::memory_order_acquire)) return;
  std::vector<CallInFlight> calls;
  {
    const std::lock_guard lock(dropped.mutex);
    calls.swap(dropped.calls);
    dropped.any.store(false, std::memory_order_release);
  }
}

std::shared_ptr<CallAtLoad> CallsAtLoad::add(Invocation& invocation, const heddle_call_params_t* params) {
  destroy_dropped();
  auto call = std::make_shared<CallAtLoad>();
  call->all = shared_from_this();
  call->invocation = &invocation;
  call->params = params;
  std::string refused;  // raised without the mutex, since Python makes the error
  {
    const std::lock_guard lock(mutex_);
    try {
      if (!is_working_) std::thread([self = call->all] { self->work(); }).detach();
      is_working_ = true;
      waiting_.push_back(call);
      return call;
    } catch (const std::system_error& failure) {
      refused = failure.what();
    }
  }
  invocation.refuse(
      "starting a thread that begins it when the parameters are loaded failed: " + refused + "; wait for them with wait() of the module",
      "RESOURCE_EXHAUSTED");
}

bool CallsAtLoad::is_busy() {
  const std::lock_guard lock(mutex_);
  return !waiting_.empty();
}

bool CallsAtLoad::is_busy_after(uint64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), [&] { return waiting_.empty(); });
}

void CallsAtLoad::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !is_working_; });
}

void CallsAtLoad::work() {
  while (true) {
    heddle_status_t* const status = heddle_instance_wait(instance_, kLookNs);
    const bool is_over = heddle_status_code(status) != HEDDLE_STATUS_DEADLINE_EXCEEDED;
    heddle_status_free(status);
    std::unique_lock lock(mutex_);
    is_over ? begin_all(lock) : end_late_ones();
    if (waiting_.empty()) {
      is_working_ = false;
      changed_.notify_all();
      return;
    }
  }
}

// If the load has failed, each call fails with its error.
void CallsAtLoad::begin_all(std::unique_lock<std::mutex>& lock) {
  while (!waiting_.empty()) {
    const std::shared_ptr<CallAtLoad> call = waiting_.front();
    call->begins = true;
    Invocation& invocation = *call->invocation;
    Frame& frame = *invocation.frame;
    heddle_call_t* handle = nullptr;
    lock.unlock();
    heddle_status_t* const failure =
        heddle_call_start(invocation.function.handle, call->params, frame.arguments.data(), static_cast<uint32_t>(frame.arguments.size()),
                          frame.results.data(), static_cast<uint32_t>(frame.results.size()), &handle);
    lock.lock();
    waiting_.pop_front();
    decide(*call, handle, failure);
  }
}

void CallsAtLoad::end_late_ones() {
  const uint64_t now_ns = deadline_after(0);
  for (size_t i = 0; i < waiting_.size();) {
    const std::shared_ptr<CallAtLoad> call = waiting_[i];
    if (!call->params || call->params->deadline_ns == 0 || call->params->deadline_ns > now_ns) {
      ++i;
      continue;
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    decide(*call, nullptr, failure_of(HEDDLE_STATUS_DEADLINE_EXCEEDED, still_loading(*call->invocation)));
  }
}

// With the mutex.
void CallsAtLoad::decide(CallAtLoad& call, heddle_call_t* handle, heddle_status_t* failure) {
  if (handle && call.is_cancelled) heddle_call_cancel(handle);
  for (auto& [completions, key] : call.watchers) {
    if (!handle || !completions.try_watch(handle, key)) completions.add(key);
  }
  call.watchers.clear();
  call.is_decided = true;
  if (call.dropped.invocation) {
    heddle_call_release(handle);
    heddle_status_free(failure);
    call.dropped.invocation->abandoned = true;
    Dropped& dropped = all_dropped();
    const std::lock_guard lock(dropped.mutex);
    dropped.calls.push_back(std::move(call.dropped));
    dropped.any.store(true, std::memory_order_release);
    const auto destroy = [](void*) {
      const Exclusive held;
      destroy_dropped();
      return 0;
    };
    ask_main_thread(destroy);  // if it cannot be asked, the next call of this kind does it
  } else {
    call.handle = handle;
    call.failure = failure;
  }
  changed_.notify_all();
}

bool CallsAtLoad::wait(CallAtLoad& call, uint64_t timeout_ns) {
  std::unique_lock lock(call.all->mutex_);
  return call.all->changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), [&] { return call.is_decided; });
}

bool CallsAtLoad::cancel(CallAtLoad& call) {
  CallsAtLoad& all = *call.all;
  const std::lock_guard lock(all.mutex_);
  if (call.is_decided) return !call.handle;
  call.is_cancelled = true;
  if (call.begins) return true;  // it is cancelled as soon as it has begun
  const auto found = std::find_if(all.waiting_.begin(), all.waiting_.end(), [&](const auto& one) { return one.get() == &call; });
  const std::shared_ptr<CallAtLoad> kept = *found;
  all.waiting_.erase(found);
  all.decide(
      call, nullptr,
      failure_of(HEDDLE_STATUS_CANCELLED, "heddle: calling '" + call.invocation->function.name +
                                              "' failed: it was cancelled before the parameters of '" + all.path_ + "' were loaded"));
  return true;
}

bool CallsAtLoad::notify(CallAtLoad& call, const Completions& completions, uint64_t key) {
  const std::lock_guard lock(call.all->mutex_);
  if (call.is_decided) return false;
  call.watchers.emplace_back(completions, key);
  return true;
}

bool CallsAtLoad::drop(CallAtLoad& call, CallInFlight& flight) {
  const std::lock_guard lock(call.all->mutex_);
  if (call.is_decided) return false;
  call.dropped = std::move(flight);
  return true;
}

}  // namespace heddle::python
