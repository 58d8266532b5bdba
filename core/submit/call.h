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

class Call {
 public:
  // In memory of Function::take, which is counted there until give_call.
  Call(Function& function, Invocation&& invocation);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Invocation& invocation() { return invocation_; }
  // The call's own failure, each time it is asked; DEADLINE_EXCEEDED leaves it running. [any] [may-block]
  Status wait(uint64_t timeout_ns);
  // Pieces that are not enqueued yet are dropped. [any] [no-block]
  void cancel() { pace_.cancel(); }
  // wait has seen its end. [any]
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  // The application gave its handle back; takes it.
  static void release_handle(Call* call);

 private:
  friend class Function;
  friend class Instance;
  friend struct GiveBackCall;
  Status start_plan(std::unique_ptr<Frame> frame);
  Status start_program();
  // Takes what function() makes.
  template <typename MakeTask>
  Status start_task(MakeTask make);
  static void task_ended(void* call, Status&& outcome);
  // Arguments and results live until it is over; a new result does by its entry in made().
  void retain_tensors();
  void release_tensors();
  // The end of wait. over: the point is reached or failed, and outcome says which.
  Status leave(bool over, Status&& outcome);

  Function& function_;
  std::unique_ptr<Frame> frame_;
  memory::Timeline* timeline_ = nullptr;  // the frame's, which is not given back while somebody waits, or its own
  uint64_t value_ = 0;
  std::atomic<bool> finished_{false};
  bool retained_ = false;
  bool counted_ = true;   // among the calls that keep the instance alive; false once it is abandoned: the instance waits for it then
  uint32_t waiters_ = 0;  // inside wait; under the function's lock
  memory::Ref<memory::Timeline> own_timeline_;
  Status failure_;              // before finished_, and never again
  CallPointer next_abandoned_;  // of the instance's list
  Pace pace_;
  struct Pieces {
    Task task;
    std::mutex mutex;
    std::condition_variable left;
    bool inside = true;  // some thread has not left the task yet; under mutex
    void wait_until_left() {
      std::unique_lock lock(mutex);
      left.wait(lock, [this] { return !inside; });
    }
  };
  std::unique_ptr<Pieces> pieces_;  // of calls that are a task
  Invocation invocation_;
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_CALL_H_
