// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function of an instance: checks arguments, finds or makes the plan for their extents, and submits it.
// Applications see it as heddle_function_t. call() is the hot path of the runtime.
#ifndef HEDDLE_CORE_SUBMIT_FUNCTION_H_
#define HEDDLE_CORE_SUBMIT_FUNCTION_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/memory/tensor.h"
#include "core/submit/frame.h"
#include "core/submit/instance.h"
#include "core/submit/invocation.h"
#include "core/submit/run.h"
#include "sdk/cpp/heddle/sdk/spin_lock.h"

namespace heddle::submit {

class Call;
class Preferences;

class Function {
 public:
  Function(Instance& instance, const open::Signature& signature, const module_format::Program& program);

  const open::Signature& signature() const { return signature_; }
  Instance& instance() const { return instance_; }
  // The device where an argument is expected, or on which a result is.
  memory::Device& device_of(const open::TensorSignature& value) const;

  // Decides what runs the regions that have a choice, or an operation of a library plugin: if the extents are known, with the plan of the first
  // call; otherwise it only checks that something can run them.
  Status prepare(Preferences& preferences);
  ~Function();

  // Calls and waits. results: entries that are not NULL are written into, the others are replaced by new tensors that the caller
  // owns. [any] [may-block]
  Status call(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor*> results);
  // The same without waiting, except for arguments whose extents another call in flight determines, and for arguments on another device.
  // deadline_ns of CLOCK_MONOTONIC; 0: none. native_stream: an application's stream; the call runs after the stream's earlier work and before its
  // later work. Then a call that is not a single submission waits here, and so does one with checks unless checks_late. state: the one that the call
  // uses; NULL: the instance's. donated: indices of arguments whose tensors the call takes. [any]
  Result<CallPointer> start(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor*> results, uint64_t deadline_ns,
                            std::optional<uint64_t> native_stream = std::nullopt, State* state = nullptr,
                            std::span<const uint32_t> donated = {}, bool checks_late = false);

  // Adds the times of finished calls to the instance's profile.
  void collect_times();
  // Adds the counts kept here to the instance's counters.
  void settle_counts();
  // The end of a call; its memory is kept for another. counted: whether it was one of the calls that keep the instance alive.
  void give_call(void* memory, bool counted);
  // The application released the instance: the calls in flight then share one reference to it.
  void keep_instance_while_called();
  // Passes a call whose handle was released while its work is in progress to the instance.
  void abandon(CallPointer call);
  // Frees the arenas that no call is using.
  void drop_idle_frames();
  // Runs `exchange` while no call takes or keeps a plan of any of these functions, and drops their plans. Calls that have one go on with it.
  static void drop_plans(std::span<const std::unique_ptr<Function>> functions, const std::function<void()>& exchange);

 private:
  friend class Call;
  // A plan with its frames. Every idle frame has a place, and the first idle one is used: callers that repeat in the same order get the same
  // frames again, with what these know about their tensors.
  static constexpr uint32_t kPlaces = 64;
  struct CachedPlan {
    memory::Ref<Plan> plan;
    std::vector<std::unique_ptr<Frame>> idle;  // one per place
    uint64_t filled = 0, given = 0;            // one bit per place: its frame is idle; the place has a frame
    uint64_t last_use = 0;
    bool recurs = false;  // calls had these extents at least twice
    uint64_t calls = 0;   // calls that took a frame and are not in the instance's counters yet
  };
  // The state at the begin of a call. A frame that is still here at the end is returned.
  struct Taken {
    explicit Taken(Function& of, std::unique_ptr<Frame> with = nullptr) : function(of), frame(std::move(with)) {}
    Taken(Taken&&) = default;
    ~Taken() {
      if (frame) function.give_frame(std::move(frame));
    }
    Function& function;
    std::unique_ptr<Frame> frame;  // empty: a frame must be made
    memory::Ref<Plan> plan;        // for the frame; empty: the plan must be made, too
    bool recurs = false;           // an earlier call of a program with loops had these extents, and ran in pieces
    void* call = nullptr;          // memory of an earlier call that ended
  };

  // Adds "heddle: calling 'main' failed", and the region, or that the failure is that of an earlier call.
  [[gnu::cold]] Status explain_failure(Status&& status, const Invocation& call) const noexcept;
  void count_failure() const { instance_.counters().failed_calls.fetch_add(1, std::memory_order_relaxed); }
  // Both of the above. Donated tensors get their memory back if the call did not begin.
  [[gnu::cold]] Status fail(Status&& status, Invocation& call) const noexcept;
  // donated: indices of arguments whose tensors the call takes.
  Status check(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results, std::span<const uint32_t> donated,
               Invocation& call) const;
  // Whether a result may be written to that tensor, which is also an argument or another result: only if it takes the memory of that argument.
  [[gnu::cold]] bool in_place(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results, size_t index) const;
  // Takes the memory of arguments that are donated, and copies other ones that the programs overwrite, unless they are consumable. are_apart: none of
  // these shares bytes with another argument or a result.
  [[gnu::cold]] Status take_arguments(std::span<memory::Tensor* const> arguments, std::span<const uint32_t> donated, bool are_apart,
                                      Invocation& call) const;
  Status copy_argument(memory::Tensor& from, memory::Tensor& to, Invocation& call) const;
  // given: the tensor that the caller passed.
  Status take_argument(uint32_t index, memory::Tensor& given, bool is_donated, Invocation& call) const;
  [[gnu::cold]] Status explain(std::span<memory::Tensor* const> arguments, size_t index, const Invocation& call) const;
  // Whether a call overwrites the argument in its own memory, although nobody gives the tensor up.
  bool consumes_in_place(const memory::Tensor& argument, size_t index) const;
  // Whether no tensor of a result, and no argument that is consumed in place, overlaps any other one, or is one that it may not be: check_shared would
  // find nothing. False if that is unknown.
  [[gnu::cold]] bool all_apart(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results) const;
  // INVALID_ARGUMENT if the tensor of this result is, or overlaps, one of an argument or an earlier result, unless it is in_place.
  [[gnu::cold]] Status check_shared(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results,
                                    size_t index) const;
  [[gnu::cold]] Status move_argument(size_t index, memory::Device& device, Invocation& call) const;
  // starts: the call gets memory of its own, and keeps the instance alive until give_call.
  Taken take(const Invocation& call, bool starts);
  // Makes what take did not find. There is no frame afterwards if the call is to run in pieces.
  [[gnu::cold]] Status make(const Invocation& call, Taken& taken);
  [[gnu::cold]] Result<std::unique_ptr<Frame>> make_frame(const memory::Ref<Plan>& plan);
  [[gnu::cold]] Result<memory::Ref<Plan>> make_plan(const std::vector<std::vector<int64_t>>& argument_dims,
                                                    std::span<const int64_t> symbols, memory::Ref<Globals> globals, bool exact = false);
  // For a call that runs out of memory: a plan that replaces this one and whose arenas are as small as possible. The call is then counted with the
  // new plan. Empty: this plan's arenas are already that small.
  [[gnu::cold]] Result<memory::Ref<Plan>> make_smaller_plan(const Invocation& call, const Plan& plan);
  // Gives the call a frame of such a plan. False: there is none, and the frame is unchanged. On failure the frame may be gone.
  [[gnu::cold]] Result<bool> shrink(std::unique_ptr<Frame>& frame, const Invocation& call);
  // replaces: removes a plan with the same extents. A plan whose globals are no longer the instance's is not kept.
  [[gnu::cold]] void keep_plan(const memory::Ref<Plan>& plan, bool replaces = false);
  std::unique_ptr<Frame> take_spare(const Plan& plan);
  static std::unique_ptr<Frame> take_idle(CachedPlan& cached);  // cached has an idle frame; under lock_
  CachedPlan* find_plan(const Plan& plan);                      // under lock_
  // Returns the frame to its place among the idle ones, if it has or gets a place. Under lock_.
  void put_back(std::unique_ptr<Frame>& frame);
  void give_frame(std::unique_ptr<Frame> frame) noexcept;
  [[gnu::cold]] void dispose(std::unique_ptr<Frame> frame) noexcept;
  // A call is counted with its plan when it takes a frame. A call that did not submit is subtracted again where it was counted, so that readers
  // never see a count below zero.
  void count_back_unsubmitted(Frame& frame);
  [[gnu::cold]] void count_back(const Plan& plan);
  void settle(CachedPlan& plan) const;
  void uncount_call();
  // Whether the tensor that a result is written to matches.
  bool takes(const memory::Tensor& tensor, size_t index, const ResultNeed& need) const;
  Status prepare_result(size_t index, const ResultNeed& need, Invocation& call) const;
  Status prepare_results(const Plan& plan, Invocation& call) const;
  // The same for the plan of the call's frame, which is exchanged for one with smaller arenas if the results cannot be allocated otherwise.
  Status make_results(std::unique_ptr<Frame>& frame, Invocation& call);
  // Collects pending work that must finish before the call's work may start, of arguments and of results to write into: points of this device for
  // the driver to wait for; for the rest, waits here. device NULL: all of them as points.
  Status collect_waits(const memory::Device* device, Invocation& call) const;
  // Waits here; a failure is kept among the call's waits, so that fail() can attribute it.
  [[gnu::cold]] Status wait_here(memory::Tensor& tensor, Invocation& call) const;
  // Adds the last call that used the state to the call's waits, unless it has finished. If it failed or will fail, so does this call: the state's
  // contents are undefined. The call is in its turn.
  Status order_after_state(Invocation& call) const;
  [[gnu::cold]] Result<std::shared_ptr<memory::ForeignStream>> find_stream(uint64_t native) const;
  // Adds the current work of the call's stream to the call's waits.
  Status order_after_stream(const memory::Device& device, Invocation& call) const;
  // Waits for the collected points and for the call's turn on the state.
  Task wait_for_others(Invocation& call, Pace& pace) const;
  // Records the effect of the call on the state.
  void end_state(Invocation& call, const Status& outcome, bool started) const;
  // Takes the call's place among those with the same state. What comes before it does not delay them.
  void take_turn(Invocation& call) const {
    if (touches_state_) call.turn = call.state->order().take();
  }
  // This call will hold its turn for as long as its work runs.
  void hold_state_long(const Invocation& call) const;
  // Whether a start need not wait: one submission, whose inputs and state have no work that only the host can wait for.
  bool can_enqueue(const Frame& frame, Invocation& call) const;
  Status submit_single(Frame& frame, Invocation& call, uint64_t* out_value);
  Status run_single(Invocation& call, Frame& frame);
  // Calls in pieces. The caller has collected the waits.
  Task run_several(Invocation& call, Taken given, Pace& pace);
  Task run_in_pieces(Invocation& call, Pace& pace);
  RunParams run_params(Invocation& call, memory::Ref<Globals> globals) const;
  std::vector<std::vector<int64_t>> argument_dims(const Invocation& call) const;

  Instance& instance_;
  const open::Signature& signature_;
  const module_format::Program& program_;
  // The signature's arguments in compact form.
  struct Argument {
    memory::Device* device;
    heddle_element_type_t element_type;
    uint32_t rank;
  };
  std::vector<Argument> arguments_;
  std::vector<open::Extent> extents_;           // of all arguments, concatenated
  std::vector<Packings> packings_;              // one per device
  bool in_pieces_ = false, has_loops_ = false;  // it reads scalars; its recordings are cut into pieces, which may be few
  bool touches_state_ = false;

  // heddle_call takes it twice; a start once, its wait twice and its release once. Each finds all it needs while holding it.
  sdk::SpinLock lock_;
  uint64_t uses_ = 0, settled_uses_ = 0;
  std::vector<CachedPlan> plans_;
  struct IdleCall {
    IdleCall* next;
  };
  IdleCall* idle_calls_ = nullptr;
  uint32_t idle_call_count_ = 0;
  uint32_t calls_out_ = 0;       // calls that are started and neither ended nor abandoned
  bool keeps_instance_ = false;  // until calls_out_ is 0
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_FUNCTION_H_
