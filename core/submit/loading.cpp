// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Called through loading.h.
#include "core/submit/loading.h"

#include <pthread.h>

#include <chrono>
#include <new>
#include <system_error>

namespace heddle::submit {

void Loading::stop() {
  cancelled_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

Status Loading::start(std::function<Status()> work) try {
  thread_ = std::thread([this, work = std::move(work)] {
    pthread_setname_np(pthread_self(), "heddle-load");
    try {
      end(work());
    } catch (const std::bad_alloc&) {
      end(error(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "out of memory"));
    } catch (const std::exception& exception) {
      end(error(HEDDLE_STATUS_INTERNAL, "{}", exception.what()));
    }
  });
  return Status();
} catch (const std::system_error& refused) {
  return error(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "heddle: starting a thread that loads parameters failed: {}; load them in the foreground",
               refused.what());
}

void Loading::end(Status&& outcome) {
  // Those who wait take this code for the end of their own time.
  if (outcome.code() == HEDDLE_STATUS_DEADLINE_EXCEEDED) outcome = error(HEDDLE_STATUS_UNAVAILABLE, "{}", outcome.message());
  {
    std::lock_guard lock(mutex_);
    failure_ = std::move(outcome);
    over_.store(true, std::memory_order_release);
  }
  ended_.notify_all();
}

Status Loading::wait(uint64_t timeout_ns) const {
  if (!over_.load(std::memory_order_acquire)) {
    std::unique_lock lock(mutex_);
    const auto is_over = [this] { return over_.load(std::memory_order_relaxed); };
    if (timeout_ns >= static_cast<uint64_t>(INT64_MAX)) {
      ended_.wait(lock, is_over);
    } else if (!ended_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), is_over)) {
      return error(HEDDLE_STATUS_DEADLINE_EXCEEDED, "the parameters are still being loaded");
    }
  }
  return failure_.clone();
}

}  // namespace heddle::submit
