// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls in flight: enqueued plans, and tasks for what runs in pieces.
// Called through call.h and by Function::start.
#include "core/submit/call.h"

namespace heddle::submit {

using memory::Ref;
using memory::Tensor;

Call::Call(Function& function, uint64_t deadline_ns)
    : function_(function), instance_(&function.instance()), pace_(&function.instance().host(), deadline_ns) {
  invocation_.deadline_ns = pace_.deadline_ns();
}

Call::~Call() {
  if (pieces_) {
    std::unique_lock lock(mutex_);
    pieces_->left.wait(lock, [this] { return !pieces_->inside; });
  }
  if (retained_) release_tensors();
  if (frame_) function_.dispose(std::move(frame_));
}

void Call::retain_tensors() {
  for (Tensor* tensor : invocation_.arguments.view()) tensor->retain();
  for (Tensor* tensor : invocation_.results.view()) tensor->retain();
  retained_ = true;
}

void Call::release_tensors() {
  for (Tensor* tensor : invocation_.arguments.view()) tensor->release();
  for (Tensor* tensor : invocation_.results.view()) tensor->release();
  retained_ = false;
}

Status Call::start_plan(std::unique_ptr<Frame> frame) {
  frame_ = std::move(frame);
  HEDDLE_RETURN_IF_ERROR(function_.prepare_results(frame_->plan(), invocation_));
  retain_tensors();
  if (!function_.can_enqueue(*frame_, invocation_)) {
    return start_task([&] { return function_.run_several(invocation_, std::move(frame_), pace_); });
  }
  if (pace_.over()) {
    return Run(function_.run_params(invocation_), pace_, function_.instance().counters()).check(*frame_, frame_->plan().segments[0]);
  }
  HEDDLE_RETURN_IF_ERROR(function_.submit_single(*frame_, invocation_, &value_));
  timeline_ = frame_->timeline_ref();
  for (Tensor* tensor : invocation_.results.view()) tensor->set_producer(timeline_, value_, false);
  return Status();
}

Status Call::start_program() {
  // Extents are not known yet: results are made empty and filled in by run().
  for (size_t i = 0; i < invocation_.results.size(); ++i) {
    if (invocation_.results[i]) continue;
    const open::TensorSignature& type = function_.signature().results[i];
    memory::Device& device = *function_.instance().devices()[function_.instance().machine().device_of_slot[type.slot]];
    invocation_.made[i] = Tensor::create_empty(device, type.element_type, static_cast<uint32_t>(type.extents.size()));
    invocation_.results[i] = invocation_.made[i].get();
  }
  retain_tensors();
  return start_task([&] { return function_.run_scalar_program(invocation_, pace_); });
}

template <typename MakeTask>
Status Call::start_task(MakeTask make) {
  // Before the results' producers become this call: the task must not look at tensors that others may start to write.
  HEDDLE_RETURN_IF_ERROR(function_.collect_waits(nullptr, invocation_));
  if (invocation_.stream) HEDDLE_RETURN_IF_ERROR(invocation_.stream->wait());
  function_.hold_state_long(invocation_);
  Result<Ref<memory::Timeline>> timeline = function_.instance().devices()[0]->create_timeline(memory::Timeline::Signalled::kByHost);
  if (!timeline.ok()) return timeline.take_status();
  timeline_ = std::move(*timeline);
  value_ = timeline_->next();
  auto pieces = std::make_unique<Pieces>();
  pieces->task = make();
  pieces_ = std::move(pieces);
  for (Tensor* tensor : invocation_.results.view()) tensor->set_producer(timeline_, value_, true);
  pieces_->task.start(task_ended, this);
  return Status();
}

void Call::task_ended(void* context, Status&& outcome) {
  Call& call = *static_cast<Call*>(context);
  call.invocation_.turn.leave();  // also where it never came to its work
  call.timeline_->finish(call.value_, std::move(outcome));
  // Whoever is told may end the call: the lock is the last that is touched.
  std::lock_guard lock(call.mutex_);
  call.pieces_->inside = false;
  call.pieces_->left.notify_all();
}

Status Call::wait(uint64_t timeout_ns) {
  if (finished()) return failure_.clone();
  Status outcome = timeline_->wait(value_, timeout_ns);
  if (outcome.code() == HEDDLE_STATUS_DEADLINE_EXCEEDED) {
    // A failure of the work may have that code too: then the timeline is poisoned, which a query shows.
    uint64_t reached = 0;
    Status queried(timeline_->device().api().timeline->query(timeline_->get(), &reached));
    if (queried.ok() && reached < value_) return outcome;
    if (queried.ok()) outcome = Status();
  }
  return finish(std::move(outcome));
}

Status Call::finish(Status&& outcome) {
  {
    std::unique_lock lock(mutex_);
    if (pieces_) pieces_->left.wait(lock, [this] { return !pieces_->inside; });
    if (finished()) return failure_.clone();
    if (outcome.ok()) {
      for (Tensor* tensor : invocation_.results.view()) tensor->set_ready();
    } else {
      if (frame_) frame_->drop_timeline();
      failure_ = function_.fail(std::move(outcome), invocation_);
    }
    finished_.store(true, std::memory_order_release);
  }
  // Only who set it comes here.
  release_tensors();
  for (Ref<Tensor>& made : invocation_.made.view()) made = {};
  invocation_.moved.reset();
  for (size_t i = 0; i < invocation_.wait_count; ++i) invocation_.wait_owners[i] = {};
  invocation_.wait_count = 0;
  if (frame_) function_.give_frame(std::move(frame_));
  return failure_.clone();
}

void Call::release_handle(Call* call) {
  Ref<Call> owned = Ref<Call>::adopt(call);
  Status status = call->wait(0);
  if (call->finished()) return;
  Instance& instance = *call->instance_;
  Ref<Instance> keep = std::move(call->instance_);  // until the call is on the instance's list
  instance.abandon(std::move(owned));
}

}  // namespace heddle::submit
