// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function of an instance: checks arguments, finds or makes the plan for their extents, and submits it.
// Handed to applications as heddle_function_t. call() is the hot path of the runtime.
#ifndef HEDDLE_CORE_SUBMIT_FUNCTION_H_
#define HEDDLE_CORE_SUBMIT_FUNCTION_H_

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/memory/tensor.h"
#include "core/submit/frame.h"
#include "core/submit/instance.h"
#include "core/submit/invocation.h"
#include "core/submit/run.h"

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
  // Calls and waits. results: entries that are not NULL are written into, the others replaced by new tensors that the caller
  // owns. [any] [may-block]
  Status call(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor*> results);
  // The same without waiting, except for arguments whose extents another call in flight finds out, and for arguments on another
  // device. deadline_ns of CLOCK_MONOTONIC; 0: none. native_stream: an application's stream, behind whose work the call comes, and whose
  // later work comes behind the call; what is not one submission waits here then. [any]
  Result<memory::Ref<Call>> start(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor*> results, uint64_t deadline_ns,
                                  std::optional<uint64_t> native_stream = std::nullopt);

  // Adds what finished calls took to the instance's profile.
  void collect_times();
  // Gives back the arenas that no call uses now.
  void drop_idle_frames();

 private:
  friend class Call;
  // A plan with frames that no call uses now.
  struct CachedPlan {
    memory::Ref<Plan> plan;
    std::vector<std::unique_ptr<Frame>> idle;
    uint64_t last_use = 0;
  };

  // Adds "heddle: calling 'main' failed", and which region, or that the failure is that of an earlier call.
  Status fail(Status&& status, const Invocation& call) const;
  Status check(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results, Invocation& call) const;
  Status explain(std::span<memory::Tensor* const> arguments, size_t index, const Invocation& call) const;
  Status move_argument(size_t index, memory::Device& device, Invocation& call) const;
  Result<std::unique_ptr<Frame>> take_frame(const Invocation& call);
  Result<std::unique_ptr<Frame>> make_frame(const memory::Ref<Plan>& plan);
  Result<memory::Ref<Plan>> make_plan(const std::vector<std::vector<int64_t>>& argument_dims, std::span<const int64_t> symbols) const;
  void keep_plan(const memory::Ref<Plan>& plan);
  void give_frame(std::unique_ptr<Frame> frame);
  void dispose(std::unique_ptr<Frame> frame);
  Status prepare_result(size_t index, const ResultNeed& need, Invocation& call) const;
  Status prepare_results(const Plan& plan, Invocation& call) const;
  // What is still to come before the work may start, of arguments and of results given to write into: points of this device for the driver
  // to wait for; the rest is waited for here. device NULL: all of them as points.
  Status collect_waits(const memory::Device* device, Invocation& call) const;
  // Waits here; a failure is kept among the call's waits, so that fail() knows whose it is.
  Status wait_here(memory::Tensor& tensor, Invocation& call) const;
  // The last call that touched the state is among the call's waits, unless it is over. If it failed, or will, so does this call: the state's
  // contents are undefined. The call is in its turn.
  Status order_after_state(Invocation& call) const;
  Result<std::shared_ptr<memory::ForeignStream>> find_stream(uint64_t native) const;
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
  Status run_single(Invocation& call, std::unique_ptr<Frame> frame);
  // Calls in pieces. The caller has collected the waits.
  Task run_several(Invocation& call, std::unique_ptr<Frame> frame, Pace& pace);
  Task run_scalar_program(Invocation& call, Pace& pace);
  RunParams run_params(const Invocation& call) const;
  std::vector<std::vector<int64_t>> argument_dims(const Invocation& call) const;

  Instance& instance_;
  const open::Signature& signature_;
  const module_format::Program& program_;
  bool reads_scalars_ = false;
  bool touches_state_ = false;
  std::mutex mutex_;
  uint64_t uses_ = 0;
  std::vector<CachedPlan> plans_;
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_FUNCTION_H_
