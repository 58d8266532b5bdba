// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a call in several pieces waits, and what may end it early. With a host, no thread waits: the task is resumed on the host's executor,
// never in a driver's callback (HD-Q-04). Without a host, the thread that runs the call waits.
// Owned by Call, or on the stack of a waiting call; used by its tasks; knows nothing of plans.
#ifndef HEDDLE_CORE_SUBMIT_PACE_H_
#define HEDDLE_CORE_SUBMIT_PACE_H_

#include <atomic>
#include <coroutine>
#include <string_view>

#include "core/host/executor.h"
#include "core/memory/device.h"
#include "core/submit/state_order.h"
#include "sdk/cpp/heddle/sdk/spin_lock.h"

namespace heddle::submit {

// Resumes a suspended task once, for the first of these events: a point, a turn, a cancellation, a deadline.
class Wakeup final : public memory::Counted {
 public:
  Wakeup(host::Host& host, std::coroutine_handle<> task) : host_(host), task_(task) {}
  // [any] [no-block]
  void wake(Status&& outcome);
  // Registers a wake-up by a point; keeps its timeline until then. True: the driver will notify; else *out_refusal tells why it will not.
  bool await_point(const memory::Ref<memory::Timeline>& timeline, uint64_t value, Status* out_refusal);
  // All sources of wake-ups are registered. False: one has already fired, and the task continues without being suspended.
  bool arm() { return last_.fetch_sub(1, std::memory_order_acq_rel) != 1; }
  Status take_outcome() { return std::move(outcome_); }

 private:
  // True if the caller must resume the task now.
  bool claim(Status&& outcome);
  // Runs on a thread of the host, which exists as long as a call or a timeline keeps it alive.
  void run(host::Host& host, host::Executor::Job* job, void (*function)(void* wakeup));
  static void told(void* wakeup, const heddle_status_t* failure);
  static void forget_point(void* wakeup);

  host::Host& host_;  // the call's host, which exists until its task is resumed
  std::coroutine_handle<> task_;
  std::atomic<bool> woken_{false};
  std::atomic<int> last_{2};  // the later of arm and the first wake resumes
  Status outcome_;
  memory::Ref<memory::Timeline> timeline_;
  bool resumes_ = false;  // the point resumes the task
  host::Executor::Job resuming_, forgetting_;
};

class Pace {
 public:
  // host NULL: the thread that runs the call waits. deadline_ns of CLOCK_MONOTONIC; 0: none.
  explicit Pace(host::Host* host, uint64_t deadline_ns = 0) : host_(host), deadline_ns_(deadline_ns) {}

  // Cancelled, or the deadline has passed. [any] [no-block]
  bool over() const;
  // CANCELLED or DEADLINE_EXCEEDED, after which nothing more is enqueued; `next`: the next step, for the text. [any] [no-block]
  Status check(std::string_view next) const;
  // Drops work that is not enqueued yet, and ends a wait for the work of others. [any] [no-block]
  void cancel();

  class Awaiter {
   public:
    enum class For { kOwn, kOthers, kTurn, kExecutor };
    Awaiter(Pace& pace, For what, const memory::Ref<memory::Timeline>* timeline, uint64_t value, StateOrder::Turn* turn)
        : pace_(pace), what_(what), timeline_(timeline), value_(value), turn_(turn) {}
    bool await_ready();
    bool await_suspend(std::coroutine_handle<> task);
    Status await_resume();

   private:
    // Handles a wait that cannot notify the task, usually for lack of memory: the thread, which belongs to the caller or the host, blocks here for
    // the call's own work; any other wait fails. [may-block]
    Status without_wakeup(Status&& why);

    Pace& pace_;
    const For what_;
    const memory::Ref<memory::Timeline>* timeline_;
    uint64_t value_;
    StateOrder::Turn* turn_;
    memory::Ref<Wakeup> wakeup_;
    Status outcome_;
  };
  // A point of the call's own work: resumes at its end, regardless of other events. The timeline must outlive the wait.
  Awaiter reached(const memory::Ref<memory::Timeline>& timeline, uint64_t value) {
    return Awaiter(*this, Awaiter::For::kOwn, &timeline, value, nullptr);
  }
  // A point of another call's work; ends earlier on a cancellation or the deadline.
  Awaiter reached_by_others(const memory::Ref<memory::Timeline>& timeline, uint64_t value) {
    return Awaiter(*this, Awaiter::For::kOthers, &timeline, value, nullptr);
  }
  // The turn on the state; ends early in the same way.
  Awaiter entered(StateOrder::Turn& turn) { return Awaiter(*this, Awaiter::For::kTurn, nullptr, 0, &turn); }
  // Continues where blocking is allowed: on the executor, or here without a host.
  Awaiter may_block() { return Awaiter(*this, Awaiter::For::kExecutor, nullptr, 0, nullptr); }

 private:
  // Lets a cancellation and the deadline wake it too.
  void begin_interruptible(const memory::Ref<Wakeup>& wakeup);
  void end_interruptible(Wakeup& wakeup);

  host::Host* const host_;
  const uint64_t deadline_ns_;
  std::atomic<bool> cancelled_{false};
  sdk::SpinLock lock_;
  memory::Ref<Wakeup> waiting_;  // the current wait for others
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_PACE_H_
