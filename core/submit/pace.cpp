// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Suspends and resumes tasks. Called through pace.h.
#include "core/submit/pace.h"

#include <mutex>
#include <new>

#include "core/host/process.h"

namespace heddle::submit {

using memory::Ref;
using memory::Timeline;

namespace {

constexpr std::string_view kNoMemory = "host: waiting in a call in pieces failed: out of memory; free some and call again";
constexpr std::string_view kWorkOfOthers = "the work that it waits for finished";

// Tells the failure of a call from a wait that timed out, which has the same code.
Status missed(Status&& deadline) {
  return std::move(deadline).payload("deadline", "call");
}

}  // namespace

// -------------------------------------------------------------------------------------------------------------- wakeups

bool Wakeup::claim(Status&& outcome) {
  if (woken_.exchange(true, std::memory_order_acq_rel)) return false;
  outcome_ = std::move(outcome);
  return last_.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

void Wakeup::run(host::Host& host, host::Executor::Job* job, void (*function)(void* wakeup)) {
  job->function = function;
  job->context = this;
  if (!host.executor().run(job)) function(this);
}

void Wakeup::wake(Status&& outcome) {
  if (!claim(std::move(outcome))) return;
  retain();
  run(host_, &resuming_, [](void* wakeup) {
    static_cast<Wakeup*>(wakeup)->task_.resume();
    static_cast<Wakeup*>(wakeup)->release();
  });
}

bool Wakeup::await_point(const Ref<Timeline>& timeline, uint64_t value, Status* out_refusal) {
  timeline_ = timeline;
  retain();
  *out_refusal = Status(timeline->device().api().timeline->notify(timeline->get(), value, told, this));
  if (out_refusal->ok()) return true;
  timeline_ = {};
  release();
  return false;
}

// A driver's callback. The executor does what a callback must not do: resume the task, and release the timeline, which may be the last reference to
// the device.
void Wakeup::told(void* wakeup, const heddle_status_t* failure) {
  auto* self = static_cast<Wakeup*>(wakeup);
  self->resumes_ = self->claim(Status(status_clone(failure)));
  self->run(self->timeline_->device().host(), &self->forgetting_, forget_point);
}

void Wakeup::forget_point(void* wakeup) {
  auto* self = static_cast<Wakeup*>(wakeup);
  self->timeline_ = {};
  if (self->resumes_) self->task_.resume();
  self->release();
}

// ----------------------------------------------------------------------------------------------------------------- pace

bool Pace::over() const {
  return cancelled_.load(std::memory_order_acquire) || (deadline_ns_ != 0 && host::clock_ns() >= deadline_ns_);
}

Status Pace::check(std::string_view next) const {
  if (cancelled_.load(std::memory_order_acquire)) {
    return error(HEDDLE_STATUS_CANCELLED, "the call was cancelled before {}; what was enqueued has finished [HD-Q-05]", next);
  }
  if (deadline_ns_ != 0 && host::clock_ns() >= deadline_ns_) {
    return missed(error(HEDDLE_STATUS_DEADLINE_EXCEEDED,
                        "the deadline of the call passed before {}; what was enqueued has finished [HD-Q-05]", next));
  }
  return Status();
}

void Pace::cancel() {
  Ref<Wakeup> waiting;
  {
    std::lock_guard lock(lock_);
    cancelled_.store(true, std::memory_order_release);
    waiting = waiting_;
  }
  if (waiting) waiting->wake(check(kWorkOfOthers));
}

void Pace::begin_interruptible(const Ref<Wakeup>& wakeup) {
  bool cancelled = false;
  {
    std::lock_guard lock(lock_);
    waiting_ = wakeup;
    cancelled = cancelled_.load(std::memory_order_acquire);
  }
  if (cancelled) return wakeup->wake(check(kWorkOfOthers));
  if (deadline_ns_ == 0) return;
  wakeup->retain();
  auto wake = [](void* context) {
    Ref<Wakeup> late = Ref<Wakeup>::adopt(static_cast<Wakeup*>(context));
    late->wake(missed(error(HEDDLE_STATUS_DEADLINE_EXCEEDED, "the deadline of the call passed before {}; nothing was enqueued [HD-Q-05]",
                            kWorkOfOthers)));
  };
  Status accepted = host_->executor().execute_at(deadline_ns_, wake, wakeup.get());
  if (accepted.ok()) return;
  wakeup->wake(std::move(accepted));
  wakeup->release();
}

void Pace::end_interruptible(Wakeup& wakeup) {
  if (deadline_ns_ != 0 && host_->executor().take_back(deadline_ns_, &wakeup)) wakeup.release();
  Ref<Wakeup> done;
  std::lock_guard lock(lock_);
  std::swap(done, waiting_);
}

bool Pace::Awaiter::await_ready() {
  const bool here = pace_.host_ == nullptr;
  switch (what_) {
    case For::kOwn:
    case For::kOthers: {
      if (here) {
        outcome_ = (*timeline_)->wait(value_);
        return true;
      }
      uint64_t reached = 0;
      Status queried((*timeline_)->device().api().timeline->query((*timeline_)->get(), &reached));
      return queried.ok() && reached >= value_;
    }
    case For::kTurn:
      if (here) turn_->enter();
      return here;
    default:
      return here;
  }
}

Status Pace::Awaiter::without_wakeup(Status&& why) {
  return what_ == For::kOwn ? (*timeline_)->wait(value_) : std::move(why);
}

// Until arm the task cannot be resumed; afterwards all objects may be gone.
bool Pace::Awaiter::await_suspend(std::coroutine_handle<> task) {
  Status prepared = pace_.host_->executor().prepare();
  if (prepared.ok() && timeline_) prepared = (*timeline_)->device().host().executor().prepare();  // it may belong to another runtime
  if (prepared.ok()) {
    wakeup_ = Ref<Wakeup>::adopt(new (std::nothrow) Wakeup(*pace_.host_, task));
    if (!wakeup_) prepared = Status(HEDDLE_STATUS_RESOURCE_EXHAUSTED, kNoMemory);
  }
  if (!wakeup_) {
    outcome_ = without_wakeup(std::move(prepared));
    return false;
  }
  Ref<Wakeup> wakeup = wakeup_;
  if (what_ == For::kExecutor) {
    static_cast<void>(wakeup->arm());
    wakeup->wake(Status());
    return true;
  }
  if (what_ != For::kOwn) pace_.begin_interruptible(wakeup);
  if (what_ == For::kTurn) {
    wakeup->retain();
    auto wake = [](void* context) {
      Ref<Wakeup> next = Ref<Wakeup>::adopt(static_cast<Wakeup*>(context));
      next->wake(Status());
    };
    if (turn_->enter_or_tell(wake, wakeup.get())) wake(wakeup.get());
  } else if (Status refused; !wakeup->await_point(*timeline_, value_, &refused)) {
    wakeup->wake(without_wakeup(std::move(refused)));
  }
  return wakeup->arm();
}

Status Pace::Awaiter::await_resume() {
  if (!wakeup_) return std::move(outcome_);
  if (what_ == For::kOthers || what_ == For::kTurn) pace_.end_interruptible(*wakeup_);
  Status outcome = wakeup_->take_outcome();
  if (what_ == For::kTurn && !outcome.ok() && turn_->forget()) wakeup_->release();
  return timeline_ ? (*timeline_)->noted(std::move(outcome)) : std::move(outcome);
}

}  // namespace heddle::submit
