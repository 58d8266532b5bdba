// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function of an instance: checks arguments, finds or makes the plan for their extents, and submits it.
// Handed to applications as heddle_function_t. call() is the hot path of the runtime.
#ifndef HEDDLE_CORE_SUBMIT_FUNCTION_H_
#define HEDDLE_CORE_SUBMIT_FUNCTION_H_

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
  // The device that an argument is expected on, or a result comes on.
  memory::Device& device_of(const open::TensorSignature& value) const;

  // Has it decided what runs the regions that have a choice, or an operation of a library plugin: where extents are known, by the plan of the first
  // call; otherwise it is checked that something may.
  Status prepare(Preferences& preferences);
  ~Function();

  // Calls and waits. results: entries that are not NULL are written into, the others replaced by new tensors that the caller
  // owns. [any] [may-block]
  Status call(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor*> results);
  // The same without waiting, except for arguments whose extents another call in flight finds out, and for arguments on another
  // device. deadline_ns of CLOCK_MONOTONIC; 0: none. native_stream: an application's stream, behind whose work the call comes, and whose
  // later work comes behind the call; what is not one submission waits here then. [any]
  Result<CallPointer> start(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor*> results, uint64_t deadline_ns,
                            std::optional<uint64_t> native_stream = std::nullopt);

  // Adds what finished calls took to the instance's profile.
  void collect_times();
  // Adds what is counted here to the instance's counters.
  void settle_counts();
  // The end of a call; its memory is kept for another. counted: among those that keep the instance alive.
  void give_call(void* memory, bool counted);
  // The application released the instance: calls that are out have a reference to it together.
  void keep_instance_while_called();
  // A call whose handle was released and whose work is still under way goes to the instance.
  void abandon(CallPointer call);
  // Gives back the arenas that no call uses now.
  void drop_idle_frames();

 private:
  friend class Call;
  // A plan with its frames. An idle frame has its place, and the first one is taken: callers that come round in the same order meet the same
  // frames, with what these know of their tensors.
  static constexpr uint32_t kPlaces = 64;
  struct CachedPlan {
    memory::Ref<Plan> plan;
    std::vector<std::unique_ptr<Frame>> idle;  // one for each place
    uint64_t filled = 0, given = 0;            // bit per place: its frame is idle; it has one
    uint64_t last_use = 0;
    bool recurs = false;  // calls had these extents twice, or oftener
    uint64_t calls = 0;   // that took a frame and are not in the instance's counters yet
  };
  // What a call begins with. A frame that is still there in the end goes back.
  struct Taken {
    explicit Taken(Function& of, std::unique_ptr<Frame> with = nullptr) : function(of), frame(std::move(with)) {}
    Taken(Taken&&) = default;
    ~Taken() {
      if (frame) function.give_frame(std::move(frame));
    }
    Function& function;
    std::unique_ptr<Frame> frame;  // empty: one has to be made
    memory::Ref<Plan> plan;        // for it; empty: that has to be made, too
    void* call = nullptr;          // memory of a call that ended
  };

  // Adds "heddle: calling 'main' failed", and which region, or that the failure is that of an earlier call.
  [[gnu::cold]] Status explain_failure(Status&& status, const Invocation& call) const noexcept;
  void count_failure() const { instance_.counters().failed_calls.fetch_add(1, std::memory_order_relaxed); }
  // Both.
  [[gnu::cold]] Status fail(Status&& status, const Invocation& call) const noexcept;
  Status check(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results, Invocation& call) const;
  [[gnu::cold]] Status explain(std::span<memory::Tensor* const> arguments, size_t index, const Invocation& call) const;
  [[gnu::cold]] Status move_argument(size_t index, memory::Device& device, Invocation& call) const;
  // starts: the call gets memory of its own, and keeps the instance alive until give_call.
  Taken take(const Invocation& call, bool starts);
  // What take did not find.
  [[gnu::cold]] Status make(const Invocation& call, Taken& taken);
  [[gnu::cold]] Result<std::unique_ptr<Frame>> make_frame(const memory::Ref<Plan>& plan);
  [[gnu::cold]] Result<memory::Ref<Plan>> make_plan(const std::vector<std::vector<int64_t>>& argument_dims,
                                                    std::span<const int64_t> symbols, bool exact = false);
  // For a call whose memory is short: a plan in the place of this one, with arenas that have no more than they need. The call is counted with it. Empty: this
  // one's have no more either.
  [[gnu::cold]] Result<memory::Ref<Plan>> make_smaller_plan(const Invocation& call, const Plan& plan);
  // Gives the call a frame of such a plan. False: there is none, and the frame is as it was. On failure it may have gone.
  [[gnu::cold]] Result<bool> shrink(std::unique_ptr<Frame>& frame, const Invocation& call);
  // replaces: a plan of the same extents goes.
  [[gnu::cold]] void keep_plan(const memory::Ref<Plan>& plan, bool replaces = false);
  std::unique_ptr<Frame> take_spare(const Plan& plan);
  static std::unique_ptr<Frame> take_idle(CachedPlan& cached);  // which has one; under lock_
  CachedPlan* find_plan(const Plan& plan);                      // under lock_
  // To its place among the idle ones, if it has or gets one. Under lock_.
  void put_back(std::unique_ptr<Frame>& frame);
  void give_frame(std::unique_ptr<Frame> frame) noexcept;
  [[gnu::cold]] void dispose(std::unique_ptr<Frame> frame) noexcept;
  // A call is counted with its plan when it takes a frame. One that did not submit it is taken back, where it was counted: what somebody reads
  // meanwhile must not be below zero.
  void count_back_unsubmitted(Frame& frame);
  [[gnu::cold]] void count_back(const Plan& plan);
  void settle(CachedPlan& plan) const;
  void uncount_call();
  // What a result is written to fits it.
  bool takes(const memory::Tensor& tensor, size_t index, const ResultNeed& need) const;
  Status prepare_result(size_t index, const ResultNeed& need, Invocation& call) const;
  Status prepare_results(const Plan& plan, Invocation& call) const;
  // The same for the plan of the call's frame, which is exchanged for one with smaller arenas where the results have no memory otherwise.
  Status make_results(std::unique_ptr<Frame>& frame, Invocation& call);
  // What is still to come before the work may start, of arguments and of results given to write into: points of this device for the driver
  // to wait for; the rest is waited for here. device NULL: all of them as points.
  Status collect_waits(const memory::Device* device, Invocation& call) const;
  // Waits here; a failure is kept among the call's waits, so that fail() knows whose it is.
  [[gnu::cold]] Status wait_here(memory::Tensor& tensor, Invocation& call) const;
  // The last call that touched the state is among the call's waits, unless it is over. If it failed, or will, so does this call: the state's
  // contents are undefined. The call is in its turn.
  Status order_after_state(Invocation& call) const;
  [[gnu::cold]] Result<std::shared_ptr<memory::ForeignStream>> find_stream(uint64_t native) const;
  // What is on the call's stream now is among the call's waits.
  Status order_after_stream(const memory::Device& device, Invocation& call) const;
  // The collected points, and the call's turn on the state.
  Task wait_for_others(Invocation& call, Pace& pace) const;
  // What the call did to the state.
  void end_state(Invocation& call, const Status& outcome, bool started) const;
  // This call will be in its turn for as long as its work runs.
  void hold_state_long(const Invocation& call) const;
  // A start need not wait for anything: one submission, whose inputs and state are nothing that only the host can wait for.
  bool can_enqueue(const Frame& frame, Invocation& call) const;
  Status submit_single(Frame& frame, Invocation& call, uint64_t* out_value);
  Status run_single(Invocation& call, Frame& frame);
  // Calls in pieces. The caller has collected the waits.
  Task run_several(Invocation& call, Taken given, Pace& pace);
  Task run_scalar_program(Invocation& call, Pace& pace);
  RunParams run_params(const Invocation& call) const;
  std::vector<std::vector<int64_t>> argument_dims(const Invocation& call) const;

  Instance& instance_;
  const open::Signature& signature_;
  const module_format::Program& program_;
  // The signature's arguments, close together.
  struct Argument {
    memory::Device* device;
    heddle_element_type_t element_type;
    uint32_t rank;
  };
  std::vector<Argument> arguments_;
  std::vector<open::Extent> extents_;  // of all arguments, one behind another
  std::vector<Packings> packings_;     // of each device
  bool reads_scalars_ = false;
  bool touches_state_ = false;

  // heddle_call takes it twice; a start once, its wait twice and its release once. Each finds all it needs under it.
  sdk::SpinLock lock_;
  uint64_t uses_ = 0, settled_uses_ = 0;
  std::vector<CachedPlan> plans_;
  struct IdleCall {
    IdleCall* next;
  };
  IdleCall* idle_calls_ = nullptr;
  uint32_t idle_call_count_ = 0;
  uint32_t calls_out_ = 0;       // started, and neither ended nor abandoned
  bool keeps_instance_ = false;  // until there are none
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_FUNCTION_H_
