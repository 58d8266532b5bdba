// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls: check, plan, bind, submit, wait. Plans are made once per tuple of extents; a repeated call patches a few words and submits.
// Called through function.h; state that is kept between calls is in function_plans.cpp, and calls in several pieces are in run.cpp.
#include "core/submit/function.h"

#include <algorithm>
#include <new>

#include "core/host/process.h"
#include "core/submit/call.h"
#include "sdk/module/element_types.h"

namespace heddle::submit {

namespace {

namespace mf = module_format;
using memory::Ref;
using memory::Tensor;

constexpr std::string_view kStateFailed =
    ": the state is undefined since an earlier call on it failed; create a new one, or a new instance for its own [HD-S-02]";

}  // namespace

Function::Function(Instance& instance, const open::Signature& signature, const mf::Program& program)
    : instance_(instance), signature_(signature), program_(program), packings_(instance.devices().size()) {
  in_pieces_ = reads_scalars(program);
  has_loops_ = is_in_pieces(program);
  for (const mf::Value* value : *program.values()) {
    if (value->kind() != mf::ValueKind::Global) continue;
    if (instance.module().metadata().globals()->Get(value->index())->kind() == mf::GlobalKind::State) touches_state_ = true;
  }
  for (const open::TensorSignature& argument : signature.arguments) {
    arguments_.push_back({&device_of(argument), argument.element_type, static_cast<uint32_t>(argument.extents.size())});
    extents_.insert(extents_.end(), argument.extents.begin(), argument.extents.end());
  }
}

Function::~Function() {
  while (IdleCall* idle = idle_calls_) {
    idle_calls_ = idle->next;
    ::operator delete(idle);
  }
}

memory::Device& Function::device_of(const open::TensorSignature& value) const {
  return *instance_.devices()[instance_.machine().device_of_slot[value.slot]];
}

Status Function::fail(Status&& status, Invocation& call) const noexcept {
  count_failure();
  static_cast<void>(call.give_back());
  return explain_failure(std::move(status), call);
}

Status Function::explain_failure(Status&& status, const Invocation& call) const noexcept try {
  std::string context = "heddle: calling '" + signature_.name + "' failed";
  for (size_t i = 0; i < call.waits().size(); ++i) {
    Status waited = call.wait_owner(i)->wait(call.waits()[i].value, 0);
    if (waited.ok() || waited.code() != status.code() || waited.message() != status.message()) continue;
    context += i == call.state_wait ? kStateFailed : ": an earlier call or upload that it waits for failed";
    return wrap(std::move(status), context);
  }
  return in_region(std::move(status), program_, context);
} catch (const std::bad_alloc&) {
  return std::move(status);  // no memory to extend the message
}

// ------------------------------------------------------------------------------------------------------------- checks

Status Function::explain(std::span<Tensor* const> arguments, size_t index, const Invocation& call) const {
  const Tensor& tensor = *arguments[index];
  return error(HEDDLE_STATUS_INVALID_ARGUMENT, "{} [HD-F-01]",
               open::explain_argument(signature_, static_cast<uint32_t>(index), {tensor.element_type(), tensor.rank(), tensor.dims()},
                                      call.symbols()));
}

Status Function::check(std::span<Tensor* const> arguments, std::span<Tensor* const> results, std::span<const uint32_t> donated,
                       Invocation& call) const {
  if (arguments.size() != arguments_.size() || results.size() != signature_.results.size()) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT,
                 "it takes {} arguments and returns {} results, got {} arguments and space for {} results [HD-F-01]",
                 signature_.arguments.size(), signature_.results.size(), arguments.size(), results.size());
  }
  for (const Ref<memory::Device>& device : instance_.devices()) HEDDLE_RETURN_IF_ERROR(device->check());
  Tensor** const checked = call.arguments().data();
  int64_t* const symbols = call.symbols().data();
  const open::Extent* extents = extents_.data();
  bool may_overlap = false, may_consume = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    Tensor* tensor = arguments[i];
    if (!tensor) {
      return error(HEDDLE_STATUS_INVALID_ARGUMENT, "input '{}' is missing [HD-F-01]", signature_.arguments[i].name);
    }
    if (tensor->donated()) [[unlikely]]
      return tensor->check_held("passing a tensor as input '" + signature_.arguments[i].name + "'");
    if (tensor->pending()) {
      call.pending = true;
      // Its extents may be unknown until its call has finished.
      if (tensor->made_late()) HEDDLE_RETURN_IF_ERROR(wait_here(*tensor, call));
    }
    const Argument& expected = arguments_[i];
    if (tensor->element_type() != expected.element_type || tensor->rank() != expected.rank ||
        !open::fits(extents, tensor->dims(), expected.rank, signature_.symbols, symbols)) {
      return explain(arguments, i, call);
    }
    extents += expected.rank;
    checked[i] = tensor;
    may_overlap |= tensor->is_foreign();
    may_consume |= tensor->is_consumable();
    memory::Device& device = *expected.device;
    if (&tensor->device() == &device) [[likely]]
      continue;
    HEDDLE_RETURN_IF_ERROR(wait_here(*tensor, call));
    if (call.stream) HEDDLE_RETURN_IF_ERROR(call.stream->wait(&instance_));
    HEDDLE_RETURN_IF_ERROR(move_argument(i, device, call));
  }
  // Each result is compared with all others, unless there are many.
  const bool are_apart = (results.size() > 16 || may_consume) && all_apart(arguments, results);
  for (size_t i = 0; i < results.size(); ++i) {
    Tensor* tensor = call.results()[i] = results[i];
    if (!tensor) continue;
    may_overlap |= tensor->is_foreign();
    if (!are_apart && (may_overlap || std::ranges::find(arguments, tensor) != arguments.end() ||
                       std::ranges::find(results.first(i), tensor) != results.begin() + static_cast<ptrdiff_t>(i))) [[unlikely]]
      HEDDLE_RETURN_IF_ERROR(check_shared(arguments, results, i));
    if (tensor->donated()) [[unlikely]]
      return tensor->check_held("passing a tensor for result '" + signature_.results[i].name + "'");
    if (!tensor->pending()) continue;
    call.pending = true;
    if (tensor->made_late()) HEDDLE_RETURN_IF_ERROR(wait_here(*tensor, call));
  }
  if (signature_.consumes || !donated.empty()) [[unlikely]]
    HEDDLE_RETURN_IF_ERROR(take_arguments(arguments, donated, are_apart, call));
  if (touches_state_ && !call.state) call.state = instance_.state();
  return Status();
}

Status Function::wait_here(Tensor& tensor, Invocation& call) const {
  uint64_t timeout_ns = HEDDLE_TIMEOUT_INFINITE;
  if (call.deadline_ns != 0) timeout_ns = call.deadline_ns - std::min(call.deadline_ns, host::clock_ns());
  Status made = tensor.wait(timeout_ns);
  if (made.ok()) return made;
  if (const Tensor::Producer failed = tensor.producer(); failed.call) call.add_wait(failed.timeline, failed.value);
  return made;
}

Status Function::move_argument(size_t index, memory::Device& device, Invocation& call) const {
  Result<Ref<Tensor>> copy = memory::copy_to(*call.arguments()[index], device);
  if (!copy.ok())
    return wrap(copy.take_status(), "copying input '" + signature_.arguments[index].name + "' to device '" + device.alias() + "'");
  Ref<Tensor>& moved = call.make_replaced().moved[index];
  moved = std::move(*copy);
  call.arguments()[index] = moved.get();
  return Status();
}

// ------------------------------------------------------------------------------------------------------------ results

bool Function::takes(const Tensor& tensor, size_t index, const ResultNeed& need) const {
  return tensor.has_memory() && tensor.element_type() == signature_.results[index].element_type && tensor.rank() == need.dims.size() &&
         std::equal(need.dims.begin(), need.dims.end(), tensor.dims()) && &tensor.device() == instance_.devices()[need.device].get();
}

Status Function::prepare_result(size_t index, const ResultNeed& need, Invocation& call) const {
  const open::TensorSignature& expected = signature_.results[index];
  memory::Device& device = *instance_.devices()[need.device];
  if (Tensor* given = call.results()[index]) {
    if (!given->has_memory()) return given->allocate(need.dims, need.size_bytes);  // created empty by start()
    if (takes(*given, index, need)) return Status();
    if (&given->device() != &device) {
      return error(HEDDLE_STATUS_INVALID_ARGUMENT, "result '{}' is on device '{}', got a tensor on '{}' to write it to [HD-F-01]",
                   expected.name, device.alias(), given->device().alias());
    }
    return error(HEDDLE_STATUS_INVALID_ARGUMENT, "result '{}' is {}, got a tensor of {} to write it to [HD-F-01]", expected.name,
                 module::shape_text(expected.element_type, need.dims),
                 module::shape_text(given->element_type(), {given->dims(), given->rank()}));
  }
  if (expected.alias >= 0) {
    call.made()[index] = std::move(call.replaced->moved[static_cast<size_t>(expected.alias)]);
    call.results()[index] = call.made()[index].get();
    return Status();
  }
  Result<Ref<Tensor>> made = Tensor::create(device, expected.element_type, need.dims, need.size_bytes);
  if (!made.ok() && made.status().code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED) {
    instance_.drop_idle_frames();
    made = Tensor::create(device, expected.element_type, need.dims, need.size_bytes);
  }
  if (!made.ok()) return wrap(made.take_status(), fmt::format("allocating {} bytes for result '{}'", need.size_bytes, expected.name));
  call.results()[index] = made->get();
  call.made()[index] = std::move(*made);
  return Status();
}

Status Function::prepare_results(const Plan& plan, Invocation& call) const {
  for (size_t i = 0; i < plan.results.size(); ++i) {
    if (const Tensor* given = call.results()[i]; given && takes(*given, i, plan.results[i])) [[likely]]
      continue;
    HEDDLE_RETURN_IF_ERROR(prepare_result(i, plan.results[i], call));
  }
  return Status();
}

Status Function::make_results(std::unique_ptr<Frame>& frame, Invocation& call) {
  Status made = prepare_results(frame->plan(), call);
  if (made.ok() || made.code() != HEDDLE_STATUS_RESOURCE_EXHAUSTED) [[likely]]
    return made;
  Result<bool> shrunk = shrink(frame, call);
  if (!shrunk.ok()) return shrunk.take_status();
  return *shrunk ? prepare_results(frame->plan(), call) : std::move(made);
}

// --------------------------------------------------------------------------------------------------------------- calls

Status Function::collect_waits(const memory::Device* device, Invocation& call) const {
  call.drop_waits();
  auto add = [&](Tensor* tensor) -> Status {
    if (!tensor || !tensor->pending()) return Status();
    const Tensor::Producer producer = tensor->producer();
    if (!producer.call) return Status();
    if (device && (producer.host_signalled || &tensor->device() != device)) return wait_here(*tensor, call);
    // Many tensors are often filled by one call. A wait for a result is one of its own.
    if (call.waits().size() > call.first_result_wait && call.waits().back().timeline == producer.timeline->get() &&
        call.waits().back().value == producer.value)
      return Status();
    call.add_wait(producer.timeline, producer.value);
    return Status();
  };
  call.first_result_wait = 0;
  for (Tensor* tensor : call.arguments()) HEDDLE_RETURN_IF_ERROR(add(tensor));
  call.first_result_wait = call.waits().size();
  for (Tensor* tensor : call.results()) HEDDLE_RETURN_IF_ERROR(add(tensor));
  return Status();
}

Status Function::order_after_state(Invocation& call) const {
  const StateOrder& order = call.state->order();
  if (!order.failure.ok()) return order.failure.clone();
  if (!order.timeline || order.timeline->reached(order.value)) return Status();
  call.state_wait = call.waits().size();
  call.add_wait(order.timeline, order.value);
  return Status();
}

Result<std::shared_ptr<memory::ForeignStream>> Function::find_stream(uint64_t native) const {
  Status refused = error(HEDDLE_STATUS_UNIMPLEMENTED, "the instance has no device");
  for (const Ref<memory::Device>& device : instance_.devices()) {
    Result<std::shared_ptr<memory::ForeignStream>> stream = device->foreign_stream(native);
    if (stream.ok()) return stream;
    if (refused.code() == HEDDLE_STATUS_UNIMPLEMENTED) refused = stream.take_status();
  }
  return refused;
}

Status Function::order_after_stream(const memory::Device& device, Invocation& call) const {
  if (&call.stream->device() != &device) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT, "it runs on device '{}' and its stream is of device '{}'", device.alias(),
                 call.stream->device().alias());
  }
  Result<Ref<memory::Timeline>> marked = call.stream->mark(&instance_);
  if (!marked.ok()) return marked.take_status();
  call.add_wait(*marked, (*marked)->last());
  return Status();
}

void Function::hold_state_long(const Invocation& call) const {
  if (call.turn) call.state->order().hold_long(call.turn);
}

bool Function::can_enqueue(const Frame& frame, Invocation& call) const {
  if (!frame.plan().single()) return false;
  // The host must examine the verdicts of kernels before other calls use the results or the state. On an application's stream it waits for them when the
  // call is started, or the application answers for what uses the results.
  if (!frame.plan().verdicts.empty() && (!call.stream || call.turn || frame.verdict_may_block())) return false;
  if (!call.pending && !call.turn) [[likely]]
    return true;
  const memory::Device* device = instance_.devices()[frame.plan().segments[0].device].get();
  auto held_back = [&](const Tensor* tensor) {
    return tensor && tensor->pending() && (&tensor->device() != device || tensor->producer().host_signalled);
  };
  if (call.pending && (std::ranges::any_of(call.arguments(), held_back) || std::ranges::any_of(call.results(), held_back))) return false;
  if (!call.turn) return true;
  StateOrder& order = call.state->order();
  if (order.held_long()) return false;
  call.turn.enter();  // earlier calls only enqueue
  return order.failure.ok() && (!order.timeline || &order.timeline->device() == device);
}

void Function::end_state(Invocation& call, const Status& outcome, bool started) const {
  if (!call.turn) return;
  StateOrder& order = call.state->order();
  if (!outcome.ok() && started && order.failure.ok()) {
    order.failure = error(outcome.code(), "{}: {}", kStateFailed.substr(2), outcome.message());
  }
  call.turn.leave();
}

// Enqueues the only submission of a plan; *out_value is the value that the frame's timeline will reach.
Status Function::submit_single(Frame& frame, Invocation& call, uint64_t* out_value) {
  const Segment& segment = frame.plan().segments[0];
  const memory::Device& device = *instance_.devices()[segment.device];
  if (call.pending) HEDDLE_RETURN_IF_ERROR(collect_waits(&device, call));
  HEDDLE_RETURN_IF_ERROR(frame.have_timeline());
  memory::Timeline& timeline = *frame.timeline_ref();
  frame.bind(call.arguments(), call.results(), call.state.get());
  frame.record_if_due();
  if (call.turn) {
    call.turn.enter();
    HEDDLE_RETURN_IF_ERROR(order_after_state(call));
    if (call.state_wait < call.waits().size() && &call.wait_owner(call.state_wait)->device() != &device) {
      HEDDLE_RETURN_IF_ERROR(call.wait_owner(call.state_wait)->wait(call.waits()[call.state_wait].value));
      call.drop_last_wait();
    }
  }
  if (call.stream) HEDDLE_RETURN_IF_ERROR(order_after_stream(device, call));
  heddle_point_t signal{timeline.get(), timeline.next()};
  heddle_sync_t sync{sizeof(sync), static_cast<uint32_t>(call.waits().size()), 1, 0, call.waits().data(), &signal};
  bool replayed = false;
  Status submitted = device.noted(Status(frame.submit(segment, sync, &replayed)));
  if (!submitted.ok()) {
    static_cast<void>(frame.take_timeline());                           // whether its value will be signalled is unknown
    if (call.stream) static_cast<void>(call.stream->wait(&instance_));  // its mark is destroyed with the call
    return submitted;
  }
  call.begin();
  if (call.stream && call.stream->leave(frame.timeline_ref(), signal.value, &instance_).ok()) call.stream = nullptr;
  if (call.turn) {
    call.state->order().timeline = frame.timeline_ref();
    call.state->order().value = signal.value;
    call.turn.leave();
  }
  frame.set_submitted(true);
  if (replayed) instance_.counters().replays.fetch_add(1, std::memory_order_relaxed);
  *out_value = signal.value;
  return Status();
}

Status Function::run_single(Invocation& call, Frame& frame) {
  uint64_t value = 0;
  HEDDLE_RETURN_IF_ERROR(submit_single(frame, call, &value));
  Status status = frame.timeline_ref()->wait(value);
  if (!status.ok()) static_cast<void>(frame.take_timeline());
  return status.ok() ? frame.verdict() : std::move(status);
}

RunParams Function::run_params(Invocation& call, Ref<Globals> globals) const {
  return {program_,         signature_, instance_.machine(), std::move(globals), instance_.devices(), call.arguments(), call.results(),
          call.state.get(), &call};
}

Task Function::wait_for_others(Invocation& call, Pace& pace) const {
  for (size_t i = 0; i < call.waits().size(); ++i) {
    Status over = co_await pace.reached_by_others(call.wait_owner(i), call.waits()[i].value);
    if (over.ok()) continue;
    // The next one that uses a given result waits only for this call, so this one ends after the earlier work on it.
    for (size_t result = std::max(i, call.first_result_wait); result < call.waits().size(); ++result)
      static_cast<void>(co_await pace.reached(call.wait_owner(result), call.waits()[result].value));
    co_return std::move(over);
  }
  if (!call.turn) co_return Status();
  Status entered = co_await pace.entered(call.turn);
  if (!entered.ok()) co_return std::move(entered);
  HEDDLE_CO_RETURN_IF_ERROR(order_after_state(call));
  if (call.state_wait >= call.waits().size()) co_return Status();
  co_return co_await pace.reached_by_others(call.wait_owner(call.state_wait), call.waits()[call.state_wait].value);
}

Task Function::run_several(Invocation& call, Taken given, Pace& pace) {
  Taken taken = std::move(given);  // `given` lives as long as the task, which outlives its work
  Frame& frame = *taken.frame;
  Run run(run_params(call, frame.plan().globals), pace, instance_.counters());
  Status status = co_await wait_for_others(call, pace);
  if (Status over = run.check(frame, frame.plan().segments[0]); !over.ok()) status = std::move(over);
  if (status.ok()) {
    frame.bind(call.arguments(), call.results(), call.state.get());
    status = co_await run.plan(frame);
    if (status.ok()) call.begin();  // even if nothing had to be enqueued
  }
  end_state(call, status, run.started());
  co_return std::move(status);
}

Task Function::run_in_pieces(Invocation& call, Pace& pace) {
  Run run(run_params(call, instance_.globals()), pace, instance_.counters());  // those from before anything is waited for
  // The host part of a program may take long.
  Status status = co_await pace.may_block();
  if (status.ok()) status = co_await wait_for_others(call, pace);
  if (status.ok()) {
    const std::vector<std::vector<int64_t>> dims = argument_dims(call);
    const Run::Prepare prepare = [&](uint32_t result, const ResultNeed& need) { return prepare_result(result, need, call); };
    status = co_await run.whole_program(dims, call.symbols(), prepare);
    if (status.ok()) call.begin();  // even if nothing had to be enqueued
  }
  end_state(call, status, run.started());
  co_return std::move(status);
}

Status Function::call(std::span<Tensor* const> arguments, std::span<Tensor*> results) {
  Invocation call(arguments_.size(), signature_.results.size(), signature_.symbols.size());
  if (instance_.loads_in_background()) {
    if (Status loaded = instance_.wait_until_loaded(HEDDLE_TIMEOUT_INFINITE); !loaded.ok()) return fail(std::move(loaded), call);
  }
  if (Status checked = check(arguments, results, {}, call); !checked.ok()) return fail(std::move(checked), call);
  Taken taken = take(call, false);
  Status status = taken.frame ? Status() : make(call, taken);
  if (!status.ok()) return fail(std::move(status), call);
  Pace here(nullptr);
  if (!taken.frame) {
    take_turn(call);
    hold_state_long(call);
    status = collect_waits(nullptr, call);
    if (status.ok()) status = run_in_pieces(call, here).run();
  } else {
    status = make_results(taken.frame, call);
    if (!status.ok()) return fail(std::move(status), call);
    take_turn(call);
    // If kernels check values, no other call may use the state before the host has examined the verdicts.
    if (taken.frame->plan().single() && (!call.turn || taken.frame->plan().verdicts.empty())) {
      status = run_single(call, *taken.frame);
    } else {
      hold_state_long(call);
      status = collect_waits(nullptr, call);
      if (status.ok()) status = run_several(call, std::move(taken), here).run();
    }
  }
  if (!status.ok()) return fail(std::move(status), call);
  for (size_t i = 0; i < results.size(); ++i) {
    if (call.made()[i]) {
      call.made()[i]->set_ready();  // the memory of an argument may have had a producer
      results[i] = call.made()[i].detach();
    } else {
      results[i]->set_ready();
    }
  }
  return Status();
}

Result<CallPointer> Function::start(std::span<Tensor* const> arguments, std::span<Tensor*> results, uint64_t deadline_ns,
                                    std::optional<uint64_t> native_stream, State* state, std::span<const uint32_t> donated,
                                    bool checks_late) {
  instance_.reap_abandoned();
  // Checked here, while the stack is in the cache, and then moved to its final location.
  Invocation asked(arguments_.size(), signature_.results.size(), signature_.symbols.size());
  asked.deadline_ns = deadline_ns > INT64_MAX ? 0 : deadline_ns;  // after 292 years: none
  if (instance_.loads_in_background()) {
    const uint64_t now_ns = asked.deadline_ns == 0 ? 0 : host::clock_ns();
    const uint64_t left_ns = asked.deadline_ns == 0 ? HEDDLE_TIMEOUT_INFINITE : asked.deadline_ns - std::min(asked.deadline_ns, now_ns);
    if (Status loaded = instance_.wait_until_loaded(left_ns); !loaded.ok()) return fail(std::move(loaded), asked);
  }
  if (native_stream) {
    Result<std::shared_ptr<memory::ForeignStream>> stream = find_stream(*native_stream);
    if (!stream.ok()) return fail(stream.take_status(), asked);
    asked.stream = std::move(*stream);
  }
  if (state && state->owner() != instance_.serial())
    return fail(error(HEDDLE_STATUS_INVALID_ARGUMENT, "its state is one of another instance [HD-F-01]"), asked);
  if (state && touches_state_) asked.state = Ref<State>(state);
  if (Status checked = check(arguments, results, donated, asked); !checked.ok()) return fail(std::move(checked), asked);
  Taken taken = take(asked, true);
  if (!taken.call) taken.call = ::operator new(sizeof(Call), std::nothrow);
  if (!taken.call) {
    uncount_call();
    throw std::bad_alloc();
  }
  CallPointer call(new (taken.call) Call(*this, std::move(asked)));
  Status started = taken.frame ? Status() : make(call->invocation(), taken);
  if (started.ok()) started = taken.frame ? call->start_plan(std::move(taken.frame)) : call->start_program();
  if (!started.ok()) return fail(std::move(started), call->invocation());
  for (size_t i = 0; i < results.size(); ++i) {  // before a wait: the call holds them until it has finished
    if (call->invocation().made()[i]) results[i] = Ref<Tensor>(call->invocation().made()[i]).detach();
  }
  // The stream could not be made to wait, or verdicts must be examined now.
  const bool has_verdicts = native_stream && call->frame_ && !call->frame_->plan().verdicts.empty();
  call->checks_late_ = has_verdicts && checks_late;
  if (call->invocation().stream || (has_verdicts && !checks_late)) static_cast<void>(call->wait(HEDDLE_TIMEOUT_INFINITE));
  return call;
}

}  // namespace heddle::submit
