// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A call that was started without waiting: keeps its arguments, results and frame until its work is over.
// Handed to applications as heddle_call_t; made by Function::start.
//
// A plan of one submission that nothing holds back is enqueued at once. What runs in several pieces (several devices, scalars read back, a turn
// to wait for) is a task that is resumed on the host's executor, and its results are signalled by the host.
#ifndef HEDDLE_CORE_SUBMIT_CALL_H_
#define HEDDLE_CORE_SUBMIT_CALL_H_

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "core/submit/function.h"
#include "core/submit/invocation.h"

namespace heddle::submit {

class Call final : public memory::Counted {
 public:
  Call(Function& function, uint64_t deadline_ns);
  ~Call() override;

  Invocation& invocation() { return invocation_; }
  // The call's own failure, each time it is asked; DEADLINE_EXCEEDED leaves it running. [any] [may-block]
  Status wait(uint64_t timeout_ns);
  // Pieces that are not enqueued yet are dropped. [any] [no-block]
  void cancel() { pace_.cancel(); }
  // wait has seen its end. [any]
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  // The application gave its handle back; takes that reference.
  static void release_handle(Call* call);

 private:
  friend class Function;
  friend class Instance;
  Status start_plan(std::unique_ptr<Frame> frame);
  Status start_program();
  // Takes what function() makes.
  template <typename MakeTask>
  Status start_task(MakeTask make);
  static void task_ended(void* call, Status&& outcome);
  // Arguments and results live until it is over.
  void retain_tensors();
  void release_tensors();
  // wait, when it is known that the point is reached or failed. [any]
  Status finish(Status&& outcome);

  Function& function_;
  memory::Ref<Instance> instance_;  // empty once abandoned: the instance waits for it then
  Invocation invocation_;
  bool retained_ = false;
  std::unique_ptr<Frame> frame_;
  memory::Ref<memory::Timeline> timeline_;
  uint64_t value_ = 0;
  Pace pace_;
  struct Pieces {
    Task task;
    std::condition_variable left;
    bool inside = true;  // some thread has not left the task yet; under mutex_
  };
  std::unique_ptr<Pieces> pieces_;  // of calls that are a task
  std::mutex mutex_;
  std::atomic<bool> finished_{false};
  Status failure_;
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_CALL_H_
