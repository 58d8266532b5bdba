// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// State that a function keeps between calls: plans by extents, idle frames, memory of calls, and the counts under the lock that guards them.
// Called through function.h and by Call.
#include <algorithm>
#include <bit>
#include <mutex>
#include <new>
#include <utility>

#include "core/submit/call.h"
#include "core/submit/function.h"
#include "core/submit/preferences.h"

namespace heddle::submit {

namespace {

namespace mf = module_format;
using memory::Ref;
using memory::Tensor;

constexpr size_t kMaxPlans = 32;                           // maximum kept per function
constexpr uint64_t kKeptArenaBytes = uint64_t{256} << 20;  // per instance, before idle ones are freed
constexpr uint32_t kMaxIdleCalls = 64;                     // maximum kept per function
// Of a call with loops that is planned as a whole, and instructions that find out whether it is that short.
constexpr InterpreterLimits kShortLoops = {.steps = 1 << 14, .commands = 1024};

// Whether a verdict is written more than once, so that the host has to look at it in between.
bool repeats_verdicts(const mf::Program& program, const Recording& recording) {
  if (!program.checks()) return false;
  std::vector<bool> written(program.checks()->all()->size(), false);
  return std::ranges::any_of(recording.bindings, [&](const RecordedBinding& one) {
    const mf::Value* value = program.values()->Get(one.value);
    if (value->kind() != mf::ValueKind::Verdict) return false;
    if (written[value->index()]) return true;
    written[value->index()] = true;
    return false;
  });
}

// For calls with these extents that run in pieces.
Ref<Plan> plan_in_pieces(std::span<const int64_t> symbols, Ref<Globals> globals, Plan::InPieces in_pieces) {
  Ref<Plan> plan = Ref<Plan>::adopt(new Plan());
  plan->key.assign(symbols.begin(), symbols.end());
  plan->globals = std::move(globals);
  plan->in_pieces = in_pieces;
  return plan;
}

}  // namespace

// ---------------------------------------------------------------------------------------------------- plans and frames

std::vector<std::vector<int64_t>> Function::argument_dims(const Invocation& call) const {
  std::vector<std::vector<int64_t>> dims;
  dims.reserve(call.arguments().size());
  for (const Tensor* tensor : call.arguments()) dims.emplace_back(tensor->dims(), tensor->dims() + tensor->rank());
  return dims;
}

Result<Ref<Plan>> Function::make_plan(const std::vector<std::vector<int64_t>>& dims, std::span<const int64_t> symbols, Ref<Globals> globals,
                                      bool exact) {
  Interpreter interpreter(program_, signature_, dims, symbols, has_loops_ ? kShortLoops : InterpreterLimits());
  // A value that grows from step to step has another place in each of them.
  auto is_fixed = [&](const mf::Transient* value) { return interpreter.is_fixed(value->size_register()); };
  if (has_loops_ && program_.transients() && !std::ranges::all_of(*program_.transients(), is_fixed))
    return plan_in_pieces(symbols, std::move(globals), Plan::InPieces::kAlways);
  interpreter.describe_slots(instance_.machine().slots);
  Result<Interpreter::Outcome> outcome = interpreter.run();
  while (outcome.ok() && *outcome == Interpreter::Outcome::kSubmit) {
    interpreter.add_barrier();
    outcome = interpreter.run();
  }
  if (has_loops_ && !outcome.ok() && outcome.status().code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED)
    return plan_in_pieces(symbols, std::move(globals), Plan::InPieces::kAlways);
  if (!outcome.ok()) return outcome.take_status();
  if (has_loops_ && repeats_verdicts(program_, interpreter.recording()))
    return plan_in_pieces(symbols, std::move(globals), Plan::InPieces::kAlways);
  Resolver resolver(program_, signature_, instance_.machine(), dims, std::move(globals), exact ? nullptr : &packings_);
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
    if (!dims || has_loops_) {
      HEDDLE_RETURN_IF_ERROR(wrap(preferences.check(*site), "region '" + site->name()->str() + "'"));
      continue;
    }
    Result<Ref<Plan>> plan = make_plan(*dims, {}, instance_.globals());
    if (!plan.ok()) return plan.take_status();
    keep_plan(*plan);
    return Status();
  }
  return Status();
}

Result<Ref<Plan>> Function::make_smaller_plan(const Invocation& call, const Plan& plan) {
  for (Packings& packings : packings_) packings.forget();
  Result<Ref<Plan>> exact = make_plan(argument_dims(call), call.symbols(), plan.globals, true);
  if (!exact.ok()) return exact;
  if ((*exact)->arena_bytes() >= plan.arena_bytes()) return Ref<Plan>();
  keep_plan(*exact, true);
  count_back(plan);
  if ((*exact)->single()) count(**exact, 1, instance_.counters());
  return exact;
}

Function::Taken Function::take(const Invocation& call, bool starts) {
  Taken taken(*this);
  const std::span<const int64_t> symbols = call.symbols();
  std::lock_guard lock(lock_);
  ++uses_;
  if (starts) {
    ++calls_out_;
    if (IdleCall* idle = idle_calls_) {
      idle_calls_ = idle->next;
      --idle_call_count_;
      taken.call = idle;
    }
  }
  if (in_pieces_) return taken;
  for (CachedPlan& cached : plans_) {
    if (!std::equal(cached.plan->key.begin(), cached.plan->key.end(), symbols.begin(), symbols.end())) continue;
    cached.last_use = uses_;
    if (cached.plan->in_pieces != Plan::InPieces::kNo) {
      taken.recurs = cached.plan->in_pieces == Plan::InPieces::kOnce;
      if (!taken.recurs) taken.plan = cached.plan;
      return taken;
    }
    ++cached.calls;
    cached.recurs = true;
    if (cached.filled == 0) {
      taken.plan = cached.plan;
      return taken;
    }
    taken.frame = take_idle(cached);
    taken.frame->set_submitted(false);
    return taken;
  }
  return taken;
}

Status Function::make(const Invocation& call, Taken& taken) {
  if (in_pieces_) return Status();
  if (!taken.plan) {
    if (has_loops_ && !taken.recurs) {  // to plan it pays off from the second call on
      taken.plan = plan_in_pieces(call.symbols(), instance_.globals(), Plan::InPieces::kOnce);
    } else {
      Result<Ref<Plan>> made = make_plan(argument_dims(call), call.symbols(), instance_.globals());
      if (!made.ok()) return made.take_status();
      taken.plan = std::move(*made);
    }
    keep_plan(taken.plan, taken.recurs);
    if (taken.plan->single()) count(*taken.plan, 1, instance_.counters());
  }
  if (taken.plan->in_pieces != Plan::InPieces::kNo) return Status();
  Result<std::unique_ptr<Frame>> frame = make_frame(taken.plan);
  if (!frame.ok() && frame.status().code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED) {
    Result<Ref<Plan>> smaller = make_smaller_plan(call, *taken.plan);
    if (smaller.ok() && *smaller) {
      taken.plan = std::move(*smaller);
      frame = make_frame(taken.plan);
    }
  }
  if (!frame.ok()) {
    count_back(*taken.plan);
    return frame.take_status();
  }
  taken.frame = std::move(*frame);
  return Status();
}

Result<bool> Function::shrink(std::unique_ptr<Frame>& frame, const Invocation& call) {
  Result<Ref<Plan>> smaller = make_smaller_plan(call, frame->plan());
  if (!smaller.ok()) return smaller.take_status();
  if (!*smaller) return false;
  frame->set_submitted(true);  // it is already subtracted
  dispose(std::move(frame));
  Result<std::unique_ptr<Frame>> made = make_frame(*smaller);
  if (!made.ok()) {
    count_back(**smaller);
    return made.take_status();
  }
  frame = std::move(*made);
  return true;
}

Result<std::unique_ptr<Frame>> Function::make_frame(const Ref<Plan>& plan) {
  if (std::unique_ptr<Frame> spare = take_spare(*plan)) dispose(std::move(spare));
  // Arenas of other extents are kept for their next call, but only up to a limit.
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

// An idle frame with an arena of this size whose extents occurred only once, such as those of a decoder's steps: its arena is free for the next ones.
std::unique_ptr<Frame> Function::take_spare(const Plan& plan) {
  std::lock_guard lock(lock_);
  CachedPlan* oldest = nullptr;
  for (CachedPlan& cached : plans_) {
    if (cached.recurs || cached.filled == 0 || cached.plan->arena_bytes() != plan.arena_bytes()) continue;
    if (!oldest || cached.last_use < oldest->last_use) oldest = &cached;
  }
  return oldest ? take_idle(*oldest) : nullptr;
}

std::unique_ptr<Frame> Function::take_idle(CachedPlan& cached) {
  std::unique_ptr<Frame> frame = std::move(cached.idle[static_cast<size_t>(std::countr_zero(cached.filled))]);
  cached.filled &= cached.filled - 1;
  return frame;
}

void Function::keep_plan(const Ref<Plan>& plan, bool replaces) {
  CachedPlan kept, evicted;
  kept.plan = plan;
  kept.idle.resize(kPlaces);
  {
    std::lock_guard lock(lock_);
    if (plan->globals.get() != instance_.globals().get()) return;
    auto given_up = std::find_if(plans_.begin(), plans_.end(), [&](const CachedPlan& cached) { return cached.plan->key == plan->key; });
    if (given_up != plans_.end() && !replaces) return;  // another thread was faster
    kept.last_use = uses_;
    if (given_up != plans_.end()) {
      kept.recurs = given_up->recurs;
    } else if (plans_.size() < kMaxPlans) {
      plans_.push_back(std::move(kept));
      return;
    } else {
      given_up =
          std::min_element(plans_.begin(), plans_.end(), [](const CachedPlan& a, const CachedPlan& b) { return a.last_use < b.last_use; });
    }
    settle(*given_up);  // before frames in use are subtracted
    evicted = std::exchange(*given_up, std::move(kept));
  }
  for (std::unique_ptr<Frame>& frame : evicted.idle) {
    if (frame) dispose(std::move(frame));
  }
}

Function::CachedPlan* Function::find_plan(const Plan& plan) {
  for (CachedPlan& cached : plans_) {
    if (cached.plan.get() == &plan) return &cached;
  }
  return nullptr;
}

void Function::put_back(std::unique_ptr<Frame>& frame) {
  CachedPlan* cached = find_plan(frame->plan());
  if (!cached) return;
  if (frame->place() == Frame::kNoPlace) {
    if (~cached->given == 0) return;
    frame->set_place(static_cast<uint32_t>(std::countr_one(cached->given)));
    cached->given |= uint64_t{1} << frame->place();
  }
  cached->filled |= uint64_t{1} << frame->place();
  cached->idle[frame->place()] = std::move(frame);
}

void Function::give_frame(std::unique_ptr<Frame> frame) noexcept {
  count_back_unsubmitted(*frame);
  {
    std::lock_guard lock(lock_);
    put_back(frame);
  }
  if (frame) dispose(std::move(frame));
}

void Function::dispose(std::unique_ptr<Frame> frame) noexcept {
  count_back_unsubmitted(*frame);
  if (frame->place() != Frame::kNoPlace) {
    std::lock_guard lock(lock_);
    if (CachedPlan* cached = find_plan(frame->plan())) cached->given &= ~(uint64_t{1} << frame->place());
  }
  instance_.counters().arena_bytes.fetch_sub(frame->plan().arena_bytes(), std::memory_order_relaxed);
}

// Each idle frame in turn, without holding the lock: collecting times takes long.
void Function::collect_times() {
  for (size_t at = 0;; ++at) {
    for (uint32_t place = 0; place < kPlaces; ++place) {
      std::unique_ptr<Frame> frame;
      {
        std::lock_guard lock(lock_);
        if (at >= plans_.size()) return;
        frame = std::move(plans_[at].idle[place]);
        plans_[at].filled &= ~(uint64_t{1} << place);
      }
      if (!frame) continue;
      frame->collect_times();
      give_frame(std::move(frame));
    }
  }
}

void Function::drop_idle_frames() {
  for (;;) {
    std::unique_ptr<Frame> dropped;  // destroyed outside the lock
    {
      std::lock_guard lock(lock_);
      for (CachedPlan& cached : plans_) {
        if (cached.filled == 0) continue;
        dropped = take_idle(cached);
        break;
      }
    }
    if (!dropped) return;
    dispose(std::move(dropped));
  }
}

void Function::drop_plans(std::span<const std::unique_ptr<Function>> functions, const std::function<void()>& exchange) {
  std::vector<std::vector<CachedPlan>> dropped(functions.size());
  for (const std::unique_ptr<Function>& function : functions) function->lock_.lock();
  exchange();
  for (size_t i = 0; i < functions.size(); ++i) {
    for (CachedPlan& cached : functions[i]->plans_) functions[i]->settle(cached);
    dropped[i].swap(functions[i]->plans_);
  }
  for (const std::unique_ptr<Function>& function : functions) function->lock_.unlock();
  for (size_t i = 0; i < functions.size(); ++i) {
    for (CachedPlan& cached : dropped[i]) {
      for (std::unique_ptr<Frame>& frame : cached.idle) {
        if (frame) functions[i]->dispose(std::move(frame));
      }
    }
  }
}

// ------------------------------------------------------------------------------------------------------------- counting

void Function::count_back_unsubmitted(Frame& frame) {
  if (frame.submitted()) return;
  count_back(frame.plan());
  frame.set_submitted(true);
}

void Function::count_back(const Plan& plan) {
  if (!plan.single()) return;
  std::lock_guard lock(lock_);
  if (CachedPlan* cached = find_plan(plan)) {
    --cached->calls;
  } else {
    count(plan, uint64_t(-1), instance_.counters());
  }
}

void Function::settle(CachedPlan& cached) const {
  if (cached.plan->single()) count(*cached.plan, cached.calls, instance_.counters());
  cached.calls = 0;
}

void Function::settle_counts() {
  std::lock_guard lock(lock_);
  instance_.counters().calls.fetch_add(uses_ - settled_uses_, std::memory_order_relaxed);
  settled_uses_ = uses_;
  for (CachedPlan& cached : plans_) settle(cached);
}

void Function::give_call(void* memory, bool counted) {
  static_assert(sizeof(Call) >= sizeof(IdleCall));
  bool last = false;
  {
    std::lock_guard lock(lock_);
    last = counted && --calls_out_ == 0 && std::exchange(keeps_instance_, false);
    if (idle_call_count_ < kMaxIdleCalls) {
      idle_calls_ = new (memory) IdleCall{idle_calls_};
      ++idle_call_count_;
      memory = nullptr;
    }
  }
  ::operator delete(memory);
  if (last) instance_.release();  // this may destroy the instance, and this function with it
}

void Function::uncount_call() {
  bool last = false;
  {
    std::lock_guard lock(lock_);
    last = --calls_out_ == 0 && std::exchange(keeps_instance_, false);
  }
  if (last) instance_.release();
}

void Function::keep_instance_while_called() {
  std::lock_guard lock(lock_);
  keeps_instance_ = calls_out_ != 0;
  if (keeps_instance_) instance_.retain();
}

void Function::abandon(CallPointer call) {
  call->counted_ = false;
  instance_.abandon(std::move(call));  // another thread may end it now
  uncount_call();
}

}  // namespace heddle::submit
