// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs plans of several pieces and programs: initializers, plans over several devices, programs that read scalars, calls that wait for their
// turn. Used by Instance and Function. A single submission that need not wait does not come here: Function submits it itself.
//
// Each device has a lane: work that the run enqueues there waits, in the driver, for the run's earlier work there. Between devices the host bridges
// (HD-Q-02): the run itself waits only for copies between devices, without blocking a thread unless its pace requires it. If the driver of both
// copies directly, the copy is on the source's lane, and the run waits for it before it enqueues more at the target.
#ifndef HEDDLE_CORE_SUBMIT_RUN_H_
#define HEDDLE_CORE_SUBMIT_RUN_H_

#include <functional>
#include <span>
#include <vector>

#include "core/submit/frame.h"
#include "core/submit/instance.h"
#include "core/submit/interpreter.h"
#include "core/submit/invocation.h"
#include "core/submit/pace.h"
#include "core/submit/plan.h"
#include "core/submit/task.h"

namespace heddle::submit {

struct RunParams {
  const module_format::Program& program;
  const open::Signature& signature;
  const Machine& machine;
  memory::Ref<Globals> globals;
  std::span<const memory::Ref<memory::Device>> devices;
  std::span<memory::Tensor* const> arguments;
  std::span<memory::Tensor* const> results;
  const State* state = nullptr;             // NULL if the program uses none
  Invocation* call = nullptr;               // begins with the first work that is enqueued; NULL for an initializer
  const std::vector<bool>* runs = nullptr;  // of a whole program: the instructions whose commands run; NULL: all
};

class Run {
 public:
  Run(const RunParams& params, Pace& pace, Counters& counters)
      : params_(params), pace_(pace), counters_(counters), lanes_(params.devices.size()) {}

  // A bound frame of a plan. When the task ends, all work that it enqueued has finished. Call once.
  // may_go_on: it need not, if the run ends in another way; the frame is then used or kept until that.
  Task plan(const Frame& frame, bool may_go_on = false);
  // The whole program, piece by piece if it reads scalars. `prepare` is called when a result's extents are known and before a command uses it: it
  // makes the result ready to be written.
  using Prepare = std::function<Status(uint32_t result, const ResultNeed& need)>;
  // Stops before each of the instructions `pauses`, when the earlier work has finished, and calls `paused`. All intermediate values are in one arena.
  Task whole_program(const std::vector<std::vector<int64_t>>& argument_dims, std::span<const int64_t> symbols, const Prepare& prepare,
                     std::span<const uint32_t> pauses = {}, const std::function<Status()>& paused = {});
  // Whether work was enqueued, so that its results are undefined after a failure.
  bool started() const { return started_; }
  // CANCELLED or DEADLINE_EXCEEDED if the pace reports it, naming the next step.
  Status check(const Frame& frame, const Segment& next) const;

 private:
  using Pending = memory::Device::Pending;
  struct Lane {
    Pending last;  // empty: nothing is enqueued, or all of it has finished
    heddle_point_t point{};
    // The last copy that another device writes here, on that device's timeline. This device's driver cannot wait for it (HD-Q-02), so nothing is
    // enqueued here before it has finished. Copies of one source are in order.
    Pending incoming;
    uint32_t incoming_from = 0;
    std::span<const heddle_point_t> waits() const { return {&point, last.timeline ? 1u : 0u}; }
  };
  // How many steps of a loop are one list. Devices that work in the caller's thread get as many as they still run there; others get more and more.
  struct StepLimit {
    size_t count = 1;
    bool is_found = false, was_over_at_once = false;
    void adapt(bool is_over_at_once);
  };
  struct InFlight {
    uint32_t device;
    Pending pending;
  };
  struct Borrowed {
    uint32_t device;
    memory::Device::Staging staging;
  };
  Task pieces_of(const Frame& frame);
  // frames: of pieces that may be in flight when it ends.
  Task pieces_of_program(const std::vector<std::vector<int64_t>>& argument_dims, std::span<const int64_t> symbols, const Prepare& prepare,
                         std::span<const uint32_t> pauses, const std::function<Status()>& paused,
                         std::vector<std::unique_ptr<Frame>>& frames);
  // The copies of a steady piece that move, to where the registers now say. whole: a frame with all arenas.
  Status move_copies(Frame& frame, const Frame& whole, const Interpreter& interpreter, const Resolver& resolver) const;
  // Whether the piece, which is a step of a loop, may be enqueued together with others.
  bool joins_steps(const Frame& frame) const;
  // Adds a step to those that are not enqueued yet, and enqueues them if they are enough.
  Status add_step(const Frame& frame);
  // Enqueues them as one list.
  Status enqueue_steps();
  // Calls start, which returns a Result<Pending>, and records the started work on the device's lane. Memory for the record is allocated before.
  template <typename Start>
  Status add(uint32_t device, Start start);
  // Memory to copy through, until everything is settled.
  Result<void*> borrow(uint32_t device);
  Task lane_over(uint32_t device);
  Task incoming_over(uint32_t device);
  // Runs a segment command by command, and inspects each before and after.
  Task inspect(const Frame& frame, const Segment& segment);
  Task cross(const Frame& frame, const Segment& segment);
  Task cross_directly(heddle_binding_t from, heddle_binding_t to, uint32_t source, uint32_t target);
  Task cross_mapped(heddle_binding_t from, heddle_binding_t to, uint32_t source, uint32_t target);
  Task cross_staged(heddle_binding_t from, heddle_binding_t to, uint32_t source, uint32_t target);
  Task upload_copied(const void* from, heddle_binding_t to, uint32_t target);
  // Waits for all work in flight; stores its first failure in outcome, unless it already has one. outcome must outlive the task. Create it before
  // anything is started: afterwards there may be no memory for it.
  Task settle(Status& outcome);

  void note_start() {
    if (!started_ && params_.call) params_.call->begin();
    started_ = true;
  }

  RunParams params_;
  Pace& pace_;
  Counters& counters_;
  std::vector<Lane> lanes_;  // one per device
  std::vector<InFlight> in_flight_;
  std::vector<Borrowed> borrowed_;
  std::vector<heddle_command_t> steps_;  // not enqueued yet, in order
  size_t step_count_ = 0;
  StepLimit step_limit_;
  bool started_ = false;
  uint64_t inspected_call_ = 0;  // 0: none yet
  uint32_t inspected_ = 0;       // number of inspected dispatches
};

template <typename Start>
Status Run::add(uint32_t device, Start start) {
  if (in_flight_.size() == in_flight_.capacity()) in_flight_.reserve(2 * in_flight_.size() + 8);
  Result<Pending> started = start();
  if (!started.ok()) return started.take_status();
  note_start();
  in_flight_.push_back({device, *started});
  Lane& lane = lanes_[device];
  lane.last = std::move(*started);
  lane.point = {lane.last.timeline->get(), lane.last.value};
  return Status();
}

// The failure with the context prepended, and with the region if its payload names one.
Status in_region(Status&& failure, const module_format::Program& program, std::string context);
// Adds the counts of that many calls of a plan to the counters of its instance. Modulo 2^64: uint64_t(-1) subtracts one call.
void count(const Plan& plan, uint64_t calls, Counters& counters);

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_RUN_H_
