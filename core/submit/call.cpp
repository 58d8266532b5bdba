// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls in flight: enqueued plans, and tasks for calls in pieces.
// Called through call.h and by Function::start.
#include "core/submit/call.h"

namespace heddle::submit {

using memory::Ref;
using memory::Tensor;

namespace {

// Tells the application that a call is over. Deletes itself afterwards.
class Notice {
 public:
  Notice(host::Host& host, void (*told)(void*), void* context) : host_(host), told_(told), context_(context) {}
  // Without a timeline the call is over already. On failure the notice is not used, and the caller deletes it.
  Status await(const Ref<memory::Timeline>& timeline, uint64_t value) {
    HEDDLE_RETURN_IF_ERROR(host_.executor().prepare());
    timeline_ = timeline;
    if (timeline_) return Status(timeline_->device().api().timeline->notify(timeline_->get(), value, reached, this));
    reached(this, nullptr);
    return Status();
  }

 private:
  // A driver's callback, in which the application must not be called (HD-Q-04).
  static void reached(void* notice, const heddle_status_t*) {
    auto* self = static_cast<Notice*>(notice);
    self->job_ = {run, self, nullptr};
    if (!self->host_.executor().run(&self->job_)) run(self);
  }
  static void run(void* notice) {
    std::unique_ptr<Notice> self(static_cast<Notice*>(notice));
    self->told_(self->context_);
  }

  host::Host& host_;
  void (*told_)(void*);
  void* context_;
  Ref<memory::Timeline> timeline_;  // keeps the host alive, too
  host::Executor::Job job_;
};

}  // namespace

Call::Call(Function& function, Invocation&& invocation)
    : function_(function), pace_(&function.instance().host(), invocation.deadline_ns), invocation_(std::move(invocation)) {}

Call::~Call() {
  if (pieces_) pieces_->wait_until_left();
  if (retained_) release_tensors();
  if (frame_) function_.dispose(std::move(frame_));
}

bool Call::is_made(size_t argument) const {
  const open::Signature& signature = function_.signature();
  const int32_t result = signature.consumes ? signature.arguments[argument].alias : -1;
  return result >= 0 && invocation_.made()[static_cast<size_t>(result)];
}

void Call::retain_tensors() {
  for (size_t i = 0; i < invocation_.arguments().size(); ++i) {
    if (!is_made(i)) invocation_.arguments()[i]->retain();
  }
  for (size_t i = 0; i < invocation_.results().size(); ++i) {
    if (!invocation_.made()[i]) invocation_.results()[i]->retain();
  }
  retained_ = true;
}

void Call::release_tensors() {
  for (size_t i = 0; i < invocation_.arguments().size(); ++i) {
    if (!is_made(i)) invocation_.arguments()[i]->release();
  }
  for (size_t i = 0; i < invocation_.results().size(); ++i) {
    if (!invocation_.made()[i]) invocation_.results()[i]->release();
  }
}

Status Call::start_plan(std::unique_ptr<Frame> frame) {
  frame_ = std::move(frame);
  HEDDLE_RETURN_IF_ERROR(function_.make_results(frame_, invocation_));
  function_.take_turn(invocation_);
  if (!function_.can_enqueue(*frame_, invocation_)) {
    return start_task([&] { return function_.run_several(invocation_, Function::Taken(function_, std::move(frame_)), pace_); });
  }
  if (pace_.over()) {
    return Run(function_.run_params(invocation_, frame_->plan().globals), pace_, function_.instance().counters())
        .check(*frame_, frame_->plan().segments[0]);
  }
  HEDDLE_RETURN_IF_ERROR(function_.submit_single(*frame_, invocation_, &value_));
  timeline_ = frame_->timeline_ref().get();
  // Until now the caller holds them. Done last, because each is an atomic operation, and later loads that miss the cache would wait for it.
  retain_tensors();
  for (Tensor* tensor : invocation_.results()) tensor->set_producer(frame_->timeline_ref(), value_, false, this);
  return Status();
}

Status Call::start_program() {
  // Extents are not known yet: results are created empty and filled in by run().
  for (size_t i = 0; i < invocation_.results().size(); ++i) {
    if (invocation_.results()[i]) continue;
    const open::TensorSignature& type = function_.signature().results[i];
    if (type.alias >= 0) {
      invocation_.made()[i] = std::move(invocation_.replaced->moved[static_cast<size_t>(type.alias)]);
      invocation_.results()[i] = invocation_.made()[i].get();
      continue;
    }
    memory::Device& device = *function_.instance().devices()[function_.instance().machine().device_of_slot[type.slot]];
    invocation_.made()[i] = Tensor::create_empty(device, type.element_type, static_cast<uint32_t>(type.extents.size()));
    invocation_.results()[i] = invocation_.made()[i].get();
  }
  function_.take_turn(invocation_);
  return start_task([&] { return function_.run_in_pieces(invocation_, pace_); });
}

template <typename MakeTask>
Status Call::start_task(MakeTask make) {
  // Before this call becomes the results' producer: the task must not look at tensors that others may start to write.
  HEDDLE_RETURN_IF_ERROR(function_.collect_waits(nullptr, invocation_));
  if (invocation_.stream) HEDDLE_RETURN_IF_ERROR(invocation_.stream->wait(&function_.instance()));
  function_.hold_state_long(invocation_);
  Result<Ref<memory::Timeline>> timeline = function_.instance().devices()[0]->create_timeline(memory::Timeline::Signalled::kByHost);
  if (!timeline.ok()) return timeline.take_status();
  own_timeline_ = std::move(*timeline);
  timeline_ = own_timeline_.get();
  value_ = timeline_->next();
  retain_tensors();
  auto pieces = std::make_unique<Pieces>();
  pieces->task = make();
  pieces_ = std::move(pieces);
  for (Tensor* tensor : invocation_.results()) tensor->set_producer(own_timeline_, value_, true, this);
  pieces_->task.start(task_ended, this);
  return Status();
}

void Call::task_ended(void* context, Status&& outcome) {
  Call& call = *static_cast<Call*>(context);
  call.invocation_.turn.leave();  // even if its work never started
  call.timeline_->finish(call.value_, std::move(outcome));
  // A waiter that is notified may end the call, so the lock is the last thing that is touched.
  std::lock_guard lock(call.pieces_->mutex);
  call.pieces_->inside = false;
  call.pieces_->left.notify_all();
}

Status Call::notify(void (*told)(void* context), void* context) {
  auto notice = std::make_unique<Notice>(function_.instance().host(), told, context);
  Ref<memory::Timeline> timeline;
  {
    std::lock_guard lock(function_.lock_);
    if (!finished()) timeline = Ref<memory::Timeline>(timeline_);
  }
  HEDDLE_RETURN_IF_ERROR(notice->await(timeline, value_));
  static_cast<void>(notice.release());
  return Status();
}

Status Call::wait(uint64_t timeout_ns) {
  if (finished()) return failure_.clone();
  {
    std::lock_guard lock(function_.lock_);
    if (finished()) return failure_.clone();
    ++waiters_;
  }
  bool over = true;
  Status outcome = timeline_->wait(value_, timeout_ns);
  if (!outcome.ok() && outcome.code() == HEDDLE_STATUS_DEADLINE_EXCEEDED) {
    // A failure of the work may have that code too; then a query shows that the timeline is poisoned. The work may also have ended just now.
    uint64_t reached = 0;
    Status queried(timeline_->device().api().timeline->query(timeline_->get(), &reached));
    over = !queried.ok() || reached >= value_;
    if (over) outcome = timeline_->wait(value_);
  }
  if (over && pieces_) pieces_->wait_until_left();
  return leave(over, std::move(outcome));
}

bool Call::settle() {
  if (finished()) return true;
  uint64_t reached = 0;
  const Status failed(timeline_->device().api().timeline->query(timeline_->get(), &reached));
  if (failed.ok() && reached < value_) return false;
  static_cast<void>(wait(HEDDLE_TIMEOUT_INFINITE));
  return true;
}

Ref<memory::Timeline> Call::failed_timeline(const Status& why) const {
  Result<Ref<memory::Timeline>> made = function_.instance().devices()[0]->create_timeline(memory::Timeline::Signalled::kByHost);
  if (!made.ok()) return {};  // out of memory: the results then have undefined contents, and only the call says why
  (*made)->finish((*made)->next(), why.clone());
  return std::move(*made);
}

Status Call::leave(bool over, Status&& outcome) {
  // The frame stays while a thread waits.
  Ref<memory::Timeline> rejected;  // of results that a verdict is against: the frame's timeline does not fail
  if (over && outcome.ok() && frame_ && !finished()) {
    outcome = frame_->verdict();
    if (!outcome.ok()) rejected = failed_timeline(outcome);
  }
  // Each waiter that sees the failure builds its own text, and the first text is kept: no waiter blocks another.
  Status failure;
  if (over && !outcome.ok()) failure = function_.explain_failure(std::move(outcome), invocation_);
  bool last = false;
  Invocation::TakenTensors given_back;
  {
    std::lock_guard lock(function_.lock_);
    if (over && !finished()) {
      given_back = invocation_.give_back();  // of a call in pieces that ended before it began
      if (!failure.ok()) {
        function_.count_failure();
        failure_ = std::move(failure);
        if (rejected) {
          for (Tensor* tensor : invocation_.results()) tensor->set_failed_by(this, rejected);
        }
      } else {
        for (Tensor* tensor : invocation_.results()) tensor->set_ready_by(this);
      }
      finished_.store(true, std::memory_order_release);
    }
    last = --waiters_ == 0 && finished() && retained_;
    if (last) retained_ = false;
    if (last && frame_) {
      if (!failure_.ok()) own_timeline_ = frame_->take_timeline();
      function_.put_back(frame_);
    }
  }
  if (last) {
    // A driver may end a call at the first wait that fails, while the work of another wait still writes to a donated block. Even a wait with a
    // timeout blocks here until that has finished.
    if (!failure_.ok() && invocation_.replaced && invocation_.replaced->has_donated) {
      for (size_t i = 0; i < invocation_.waits().size(); ++i)
        static_cast<void>(invocation_.wait_owner(i)->wait(invocation_.waits()[i].value));
    }
    release_tensors();
    for (Ref<Tensor>& made : invocation_.made()) made = {};
    invocation_.replaced.reset();
    invocation_.drop_waits();
    if (frame_) function_.dispose(std::move(frame_));
  }
  if (over) return failure_.clone();
  return checks_late_ ? std::move(outcome).payload("checks", "late") : std::move(outcome);
}

void GiveBackCall::operator()(Call* call) const {
  Function& function = call->function_;
  const bool counted = call->counted_;
  call->~Call();
  function.give_call(call, counted);
}

void Call::release_handle(Call* call) {
  CallPointer owned(call);
  if (!call->settle()) call->function_.abandon(std::move(owned));
}

}  // namespace heddle::submit
