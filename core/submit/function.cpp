// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls: check, plan, bind, submit, wait. Plans are made once per tuple of extents; a repeated call patches a few words and submits.
// Called through function.h; what runs in several pieces is left to run.cpp.
#include "core/submit/function.h"

#include <algorithm>

#include "core/host/process.h"
#include "core/submit/call.h"
#include "core/submit/preferences.h"
#include "sdk/module/element_types.h"

namespace heddle::submit {

namespace {

namespace mf = module_format;
using memory::Ref;
using memory::Tensor;

constexpr size_t kMaxPlans = 32;                           // kept per function
constexpr uint64_t kKeptArenaBytes = uint64_t{256} << 20;  // of an instance, before idle ones are given back
constexpr size_t kMaxIdleFrames = 64;                      // kept per plan

constexpr std::string_view kStateFailed =
    ": the instance's state is undefined since an earlier call on it failed; make a new instance [HD-S-02]";

}  // namespace

Function::Function(Instance& instance, const open::Signature& signature, const mf::Program& program)
    : instance_(instance), signature_(signature), program_(program) {
  for (const mf::Instruction* instruction : *program.code()) {
    if (static_cast<mf::Op>(instruction->op()) == mf::Op::ReadScalar) reads_scalars_ = true;
  }
  for (const mf::Value* value : *program.values()) {
    if (value->kind() != mf::ValueKind::Global) continue;
    if (instance.module().metadata().globals()->Get(value->index())->kind() == mf::GlobalKind::State) touches_state_ = true;
  }
}

memory::Device& Function::device_of(const open::TensorSignature& value) const {
  return *instance_.devices()[instance_.machine().device_of_slot[value.slot]];
}

Status Function::fail(Status&& status, const Invocation& call) const {
  instance_.counters().failed_calls.fetch_add(1, std::memory_order_relaxed);
  std::string context = "heddle: calling '" + signature_.name + "' failed";
  for (size_t i = 0; i < call.wait_count; ++i) {
    Status waited = call.wait_owners[i]->wait(call.waits[i].value, 0);
    if (waited.ok() || waited.code() != status.code() || waited.message() != status.message()) continue;
    context += i == call.state_wait ? kStateFailed : ": an earlier call that it waits for failed";
    return wrap(std::move(status), context);
  }
  return in_region(std::move(status), program_, context);
}

// ------------------------------------------------------------------------------------------------------------- checks

Status Function::explain(std::span<Tensor* const> arguments, size_t index, const Invocation& call) const {
  const Tensor& tensor = *arguments[index];
  return error(HEDDLE_STATUS_INVALID_ARGUMENT, "{} [HD-F-01]",
               open::explain_argument(signature_, static_cast<uint32_t>(index), {tensor.element_type(), tensor.rank(), tensor.dims()},
                                      call.symbols.view()));
}

Status Function::check(std::span<Tensor* const> arguments, std::span<Tensor* const> results, Invocation& call) const {
  if (arguments.size() != signature_.arguments.size() || results.size() != signature_.results.size()) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT, "it takes {} arguments and gives {} results, got {} and room for {} [HD-F-01]",
                 signature_.arguments.size(), signature_.results.size(), arguments.size(), results.size());
  }
  for (const Ref<memory::Device>& device : instance_.devices()) HEDDLE_RETURN_IF_ERROR(device->check());
  call.symbols.resize(signature_.symbols.size());
  std::fill_n(call.symbols.data(), call.symbols.size(), -1);
  call.arguments.resize(arguments.size());
  const size_t waits = arguments.size() + results.size() + 2;  // state and stream
  call.waits.resize(waits);
  call.wait_owners.resize(waits);
  for (size_t i = 0; i < arguments.size(); ++i) {
    Tensor* tensor = arguments[i];
    if (!tensor) {
      return error(HEDDLE_STATUS_INVALID_ARGUMENT, "input '{}' is missing [HD-F-01]", signature_.arguments[i].name);
    }
    // Its extents may not be known before its call is over.
    if (tensor->pending() && tensor->made_late()) HEDDLE_RETURN_IF_ERROR(wait_here(*tensor, call));
    if (!open::fits(signature_, static_cast<uint32_t>(i), {tensor->element_type(), tensor->rank(), tensor->dims()}, call.symbols.view())) {
      return explain(arguments, i, call);
    }
    call.arguments[i] = tensor;
    memory::Device& device = device_of(signature_.arguments[i]);
    if (&tensor->device() == &device) continue;
    HEDDLE_RETURN_IF_ERROR(wait_here(*tensor, call));
    if (call.stream) HEDDLE_RETURN_IF_ERROR(call.stream->wait());
    HEDDLE_RETURN_IF_ERROR(move_argument(i, device, call));
  }
  call.results.resize(results.size());
  call.made.resize(results.size());
  std::copy(results.begin(), results.end(), call.results.data());
  for (Tensor* tensor : results) {
    if (tensor && tensor->pending() && tensor->made_late()) HEDDLE_RETURN_IF_ERROR(wait_here(*tensor, call));
  }
  if (touches_state_) call.turn = instance_.state_order().take();
  return Status();
}

Status Function::wait_here(Tensor& tensor, Invocation& call) const {
  uint64_t timeout_ns = HEDDLE_TIMEOUT_INFINITE;
  if (call.deadline_ns != 0) timeout_ns = call.deadline_ns - std::min(call.deadline_ns, host::clock_ns());
  Status made = tensor.wait(timeout_ns);
  if (!made.ok()) call.add_wait(tensor.producer(), tensor.producer_value());
  return made;
}

Status Function::move_argument(size_t index, memory::Device& device, Invocation& call) const {
  if (!call.moved) call.moved.reset(new Ref<Tensor>[signature_.arguments.size()]);
  Result<Ref<Tensor>> copy = memory::copy_to(*call.arguments[index], device);
  if (!copy.ok())
    return wrap(copy.take_status(), "copying input '" + signature_.arguments[index].name + "' to device '" + device.alias() + "'");
  call.moved[index] = std::move(*copy);
  call.arguments[index] = call.moved[index].get();
  return Status();
}

// ---------------------------------------------------------------------------------------------------- plans and frames

std::vector<std::vector<int64_t>> Function::argument_dims(const Invocation& call) const {
  std::vector<std::vector<int64_t>> dims;
  dims.reserve(call.arguments.size());
  for (const Tensor* tensor : call.arguments.view()) dims.emplace_back(tensor->dims(), tensor->dims() + tensor->rank());
  return dims;
}

Result<Ref<Plan>> Function::make_plan(const std::vector<std::vector<int64_t>>& dims, std::span<const int64_t> symbols) const {
  Interpreter interpreter(program_, signature_, dims, symbols);
  interpreter.limit_grids(instance_.machine().grid_of_slot);
  Result<Interpreter::Outcome> outcome = interpreter.run();
  if (!outcome.ok()) return outcome.take_status();
  Resolver resolver(program_, signature_, instance_.machine(), dims);
  Result<Ref<Plan>> plan = resolver.resolve(interpreter, 0);
  if (!plan.ok()) return plan.take_status();
  (*plan)->key.assign(symbols.begin(), symbols.end());
  instance_.counters().plans_made.fetch_add(1, std::memory_order_relaxed);
  return plan;
}

Status Function::prepare(Preferences& preferences) {
  const std::optional<std::vector<std::vector<int64_t>>> dims = open::static_dims(signature_);
  for (const mf::DispatchSite* site : *program_.dispatches()) {
    if (!preferences.is_open(*site)) continue;
    if (!dims || reads_scalars_) {
      HEDDLE_RETURN_IF_ERROR(wrap(preferences.check(*site), "region '" + site->name()->str() + "'"));
      continue;
    }
    Result<Ref<Plan>> plan = make_plan(*dims, {});
    if (!plan.ok()) return plan.take_status();
    keep_plan(*plan);
    return Status();
  }
  return Status();
}

Result<std::unique_ptr<Frame>> Function::take_frame(const Invocation& call) {
  Ref<Plan> plan;
  {
    std::lock_guard lock(mutex_);
    for (CachedPlan& cached : plans_) {
      if (!std::equal(cached.plan->key.begin(), cached.plan->key.end(), call.symbols.view().begin(), call.symbols.view().end())) continue;
      cached.last_use = ++uses_;
      if (!cached.idle.empty()) {
        std::unique_ptr<Frame> frame = std::move(cached.idle.back());
        cached.idle.pop_back();
        return frame;
      }
      plan = cached.plan;
      break;
    }
  }
  if (!plan) {
    Result<Ref<Plan>> made = make_plan(argument_dims(call), call.symbols.view());
    if (!made.ok()) return made.take_status();
    plan = std::move(*made);
    keep_plan(plan);
  }
  return make_frame(plan);
}

Result<std::unique_ptr<Frame>> Function::make_frame(const Ref<Plan>& plan) {
  // Arenas of other extents are kept for their next call, but not without bound.
  uint64_t need = plan->arena_bytes(), held = instance_.counters().arena_bytes.load(std::memory_order_relaxed);
  if (held + need > std::max(kKeptArenaBytes, 4 * need)) instance_.drop_idle_frames();
  Result<std::unique_ptr<Frame>> frame = Frame::create(plan, instance_.devices());
  if (!frame.ok() && frame.status().code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED) {
    instance_.drop_idle_frames();
    frame = Frame::create(plan, instance_.devices());
  }
  if (!frame.ok()) return frame;
  Counters& counters = instance_.counters();
  counters.frames_made.fetch_add(1, std::memory_order_relaxed);
  uint64_t now = counters.arena_bytes.fetch_add(need, std::memory_order_relaxed) + need;
  uint64_t peak = counters.peak_arena_bytes.load(std::memory_order_relaxed);
  while (peak < now && !counters.peak_arena_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  return frame;
}

void Function::keep_plan(const Ref<Plan>& plan) {
  CachedPlan evicted;  // goes outside the lock
  std::lock_guard lock(mutex_);
  for (const CachedPlan& cached : plans_) {
    if (cached.plan->key == plan->key) return;  // another thread was faster
  }
  if (plans_.size() >= kMaxPlans) {
    auto oldest =
        std::min_element(plans_.begin(), plans_.end(), [](const CachedPlan& a, const CachedPlan& b) { return a.last_use < b.last_use; });
    evicted = std::move(*oldest);
    plans_.erase(oldest);
    for (std::unique_ptr<Frame>& frame : evicted.idle) dispose(std::move(frame));
  }
  plans_.push_back({plan, {}, ++uses_});
  plans_.back().idle.reserve(kMaxIdleFrames);
}

void Function::give_frame(std::unique_ptr<Frame> frame) {
  {
    std::lock_guard lock(mutex_);
    for (CachedPlan& cached : plans_) {
      if (cached.plan.get() != &frame->plan()) continue;
      if (cached.idle.size() < kMaxIdleFrames) {
        cached.idle.push_back(std::move(frame));
        return;
      }
      break;
    }
  }
  dispose(std::move(frame));
}

void Function::dispose(std::unique_ptr<Frame> frame) {
  instance_.counters().arena_bytes.fetch_sub(frame->plan().arena_bytes(), std::memory_order_relaxed);
}

void Function::collect_times() {
  std::lock_guard lock(mutex_);
  for (CachedPlan& cached : plans_) {
    for (std::unique_ptr<Frame>& frame : cached.idle) frame->collect_times();
  }
}

void Function::drop_idle_frames() {
  std::vector<std::unique_ptr<Frame>> dropped;
  {
    std::lock_guard lock(mutex_);
    for (CachedPlan& cached : plans_) {
      for (std::unique_ptr<Frame>& frame : cached.idle) dropped.push_back(std::move(frame));
      cached.idle.clear();
    }
  }
  for (std::unique_ptr<Frame>& frame : dropped) dispose(std::move(frame));
}

// ------------------------------------------------------------------------------------------------------------ results

Status Function::prepare_result(size_t index, const ResultNeed& need, Invocation& call) const {
  const open::TensorSignature& expected = signature_.results[index];
  memory::Device& device = *instance_.devices()[need.device];
  if (Tensor* given = call.results[index]) {
    if (!given->has_memory()) return given->allocate(need.dims, need.size_bytes);  // made empty by start()
    if (given->element_type() != expected.element_type || given->rank() != need.dims.size() ||
        !std::equal(need.dims.begin(), need.dims.end(), given->dims())) {
      return error(HEDDLE_STATUS_INVALID_ARGUMENT, "result '{}' is {}, got a tensor of {} to write it to [HD-F-01]", expected.name,
                   module::shape_text(expected.element_type, need.dims),
                   module::shape_text(given->element_type(), {given->dims(), given->rank()}));
    }
    if (&given->device() != &device) {
      return error(HEDDLE_STATUS_INVALID_ARGUMENT, "result '{}' is on device '{}', got a tensor on '{}' to write it to [HD-F-01]",
                   expected.name, device.alias(), given->device().alias());
    }
    return Status();
  }
  Result<Ref<Tensor>> made = Tensor::create(device, expected.element_type, need.dims, need.size_bytes);
  if (!made.ok() && made.status().code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED) {
    instance_.drop_idle_frames();
    made = Tensor::create(device, expected.element_type, need.dims, need.size_bytes);
  }
  if (!made.ok()) return wrap(made.take_status(), fmt::format("allocating {} bytes for result '{}'", need.size_bytes, expected.name));
  call.made[index] = std::move(*made);
  call.results[index] = call.made[index].get();
  return Status();
}

Status Function::prepare_results(const Plan& plan, Invocation& call) const {
  for (size_t i = 0; i < plan.results.size(); ++i) HEDDLE_RETURN_IF_ERROR(prepare_result(i, plan.results[i], call));
  return Status();
}

// --------------------------------------------------------------------------------------------------------------- calls

Status Function::collect_waits(const memory::Device* device, Invocation& call) const {
  call.wait_count = 0;
  auto add = [&](Tensor* tensor) -> Status {
    if (!tensor || !tensor->pending()) return Status();
    if (device && (tensor->host_signalled() || &tensor->device() != device)) return wait_here(*tensor, call);
    call.add_wait(tensor->producer(), tensor->producer_value());
    return Status();
  };
  for (Tensor* tensor : call.arguments.view()) HEDDLE_RETURN_IF_ERROR(add(tensor));
  for (Tensor* tensor : call.results.view()) HEDDLE_RETURN_IF_ERROR(add(tensor));
  return Status();
}

Status Function::order_after_state(Invocation& call) const {
  const StateOrder& order = instance_.state_order();
  if (!order.failure.ok()) return order.failure.clone();
  if (!order.timeline || order.timeline->wait(order.value, 0).ok()) return Status();
  call.state_wait = call.wait_count;
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
  Result<Ref<memory::Timeline>> marked = call.stream->mark();
  if (!marked.ok()) return marked.take_status();
  call.add_wait(*marked, (*marked)->last());
  return Status();
}

void Function::hold_state_long(const Invocation& call) const {
  if (call.turn) instance_.state_order().hold_long(call.turn);
}

bool Function::can_enqueue(const Frame& frame, Invocation& call) const {
  if (!frame.plan().single()) return false;
  const memory::Device* device = instance_.devices()[frame.plan().segments[0].device].get();
  auto held_back = [&](const Tensor* tensor) {
    return tensor && tensor->pending() && (tensor->host_signalled() || &tensor->device() != device);
  };
  if (std::ranges::any_of(call.arguments.view(), held_back) || std::ranges::any_of(call.results.view(), held_back)) return false;
  if (!call.turn) return true;
  StateOrder& order = instance_.state_order();
  if (order.held_long()) return false;
  call.turn.enter();  // those before only enqueue
  return order.failure.ok() && (!order.timeline || &order.timeline->device() == device);
}

void Function::end_state(Invocation& call, const Status& outcome, bool started) const {
  if (!call.turn) return;
  StateOrder& order = instance_.state_order();
  if (!outcome.ok() && started && order.failure.ok()) {
    order.failure = error(outcome.code(), "{}: {}", kStateFailed.substr(2), outcome.message());
  }
  call.turn.leave();
}

// Enqueues the only submission of a plan; *out_value is what the frame's timeline reaches then.
Status Function::submit_single(Frame& frame, Invocation& call, uint64_t* out_value) {
  const Segment& segment = frame.plan().segments[0];
  const memory::Device& device = *instance_.devices()[segment.device];
  HEDDLE_RETURN_IF_ERROR(collect_waits(&device, call));
  Result<memory::Timeline*> timeline = frame.timeline();
  if (!timeline.ok()) return timeline.take_status();
  frame.bind(call.arguments.view(), call.results.view());
  frame.record_if_due();
  if (call.turn) {
    call.turn.enter();
    HEDDLE_RETURN_IF_ERROR(order_after_state(call));
    if (call.state_wait < call.wait_count && &call.wait_owners[call.state_wait]->device() != &device) {
      HEDDLE_RETURN_IF_ERROR(call.wait_owners[call.state_wait]->wait(call.waits[call.state_wait].value));
      --call.wait_count;  // the last one
    }
  }
  if (call.stream) HEDDLE_RETURN_IF_ERROR(order_after_stream(device, call));
  heddle_point_t signal{(*timeline)->get(), (*timeline)->next()};
  heddle_sync_t sync{sizeof(sync), static_cast<uint32_t>(call.wait_count), 1, 0, call.waits.data(), &signal};
  bool replayed = false;
  Status submitted = device.noted(Status(frame.submit(segment, sync, &replayed)));
  if (!submitted.ok()) {
    frame.drop_timeline();                                    // whether its value will come is not known
    if (call.stream) static_cast<void>(call.stream->wait());  // its mark goes with the call
    return submitted;
  }
  if (call.stream && call.stream->leave(signal).ok()) call.stream = nullptr;
  if (call.turn) {
    instance_.state_order().timeline = frame.timeline_ref();
    instance_.state_order().value = signal.value;
    call.turn.leave();
  }
  count(frame.plan(), instance_.counters());
  if (replayed) instance_.counters().replays.fetch_add(1, std::memory_order_relaxed);
  *out_value = signal.value;
  return Status();
}

Status Function::run_single(Invocation& call, std::unique_ptr<Frame> frame) {
  uint64_t value = 0;
  Status status = submit_single(*frame, call, &value);
  if (status.ok()) {
    status = frame->timeline_ref()->wait(value);
    if (!status.ok()) frame->drop_timeline();
  }
  give_frame(std::move(frame));
  return status;
}

RunParams Function::run_params(const Invocation& call) const {
  return {program_, signature_, instance_.machine(), instance_.devices(), call.arguments.view(), call.results.view()};
}

Task Function::wait_for_others(Invocation& call, Pace& pace) const {
  for (size_t i = 0; i < call.wait_count; ++i) {
    Status over = co_await pace.reached_by_others(call.wait_owners[i], call.waits[i].value);
    if (!over.ok()) co_return std::move(over);
  }
  if (!call.turn) co_return Status();
  Status entered = co_await pace.entered(call.turn);
  if (!entered.ok()) co_return std::move(entered);
  HEDDLE_CO_RETURN_IF_ERROR(order_after_state(call));
  if (call.state_wait >= call.wait_count) co_return Status();
  co_return co_await pace.reached_by_others(call.wait_owners[call.state_wait], call.waits[call.state_wait].value);
}

Task Function::run_several(Invocation& call, std::unique_ptr<Frame> frame, Pace& pace) {
  Run run(run_params(call), pace, instance_.counters());
  Status status = co_await wait_for_others(call, pace);
  if (Status over = run.check(*frame, frame->plan().segments[0]); !over.ok()) status = std::move(over);
  if (status.ok()) {
    frame->bind(call.arguments.view(), call.results.view());
    status = co_await run.plan(*frame);
  }
  end_state(call, status, run.started());
  give_frame(std::move(frame));
  co_return std::move(status);
}

Task Function::run_scalar_program(Invocation& call, Pace& pace) {
  // The host's side of a program may take its time.
  Status status = co_await pace.may_block();
  if (status.ok()) status = co_await wait_for_others(call, pace);
  Run run(run_params(call), pace, instance_.counters());
  if (status.ok()) {
    const std::vector<std::vector<int64_t>> dims = argument_dims(call);
    const Run::Prepare prepare = [&](uint32_t result, const ResultNeed& need) { return prepare_result(result, need, call); };
    status = co_await run.whole_program(dims, call.symbols.view(), prepare);
  }
  end_state(call, status, run.started());
  co_return std::move(status);
}

Status Function::call(std::span<Tensor* const> arguments, std::span<Tensor*> results) {
  Invocation call;
  if (Status checked = check(arguments, results, call); !checked.ok()) return fail(std::move(checked), call);
  instance_.counters().calls.fetch_add(1, std::memory_order_relaxed);
  Status status;
  Pace here(nullptr);
  if (reads_scalars_) {
    hold_state_long(call);
    status = collect_waits(nullptr, call);
    if (status.ok()) status = run_scalar_program(call, here).run();
  } else {
    Result<std::unique_ptr<Frame>> frame = take_frame(call);
    if (!frame.ok()) return fail(frame.take_status(), call);
    status = prepare_results((*frame)->plan(), call);
    if (!status.ok()) {
      give_frame(std::move(*frame));
    } else if ((*frame)->plan().single()) {
      status = run_single(call, std::move(*frame));
    } else {
      hold_state_long(call);
      status = collect_waits(nullptr, call);
      if (status.ok()) status = run_several(call, std::move(*frame), here).run();
    }
  }
  if (!status.ok()) return fail(std::move(status), call);
  for (size_t i = 0; i < results.size(); ++i) {
    if (call.made[i]) {
      results[i] = call.made[i].detach();
    } else {
      results[i]->set_ready();
    }
  }
  return Status();
}

Result<Ref<Call>> Function::start(std::span<Tensor* const> arguments, std::span<Tensor*> results, uint64_t deadline_ns,
                                  std::optional<uint64_t> native_stream) {
  instance_.reap_abandoned();
  Ref<Call> call = Ref<Call>::adopt(new Call(*this, deadline_ns));
  if (native_stream) {
    Result<std::shared_ptr<memory::ForeignStream>> stream = find_stream(*native_stream);
    if (!stream.ok()) return fail(stream.take_status(), call->invocation());
    call->invocation().stream = std::move(*stream);
  }
  if (Status checked = check(arguments, results, call->invocation()); !checked.ok()) return fail(std::move(checked), call->invocation());
  instance_.counters().calls.fetch_add(1, std::memory_order_relaxed);
  Status started;
  if (reads_scalars_) {
    started = call->start_program();
  } else {
    Result<std::unique_ptr<Frame>> frame = take_frame(call->invocation());
    if (!frame.ok()) return fail(frame.take_status(), call->invocation());
    started = call->start_plan(std::move(*frame));
  }
  if (!started.ok()) return fail(std::move(started), call->invocation());
  if (call->invocation().stream) static_cast<void>(call->wait(HEDDLE_TIMEOUT_INFINITE));  // the stream could not be told to
  for (size_t i = 0; i < results.size(); ++i) {
    if (call->invocation().made[i]) results[i] = Ref<Tensor>(call->invocation().made[i]).detach();
  }
  return call;
}

}  // namespace heddle::submit
