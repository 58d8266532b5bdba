// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A call that was started without waiting: it keeps its arguments, results and frame until its work has finished.
// Applications see it as heddle_call_t; created by Function::start.
//
// A plan of one submission that need not wait is enqueued at once. A call in several pieces (several devices, scalars read back, a turn to wait
// for) is a task that is resumed on the host's executor, and the host signals its results.
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
  // In memory from Function::take, which counts it until give_call.
  Call(Function& function, Invocation&& invocation);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Invocation& invocation() { return invocation_; }
  // Every wait returns the call's failure; DEADLINE_EXCEEDED leaves it running. [any] [may-block]
  Status wait(uint64_t timeout_ns);
  // Calls told(context) once on a thread of the host when the call is over, even if its handle is released before. [any] [no-block]
  Status notify(void (*told)(void* context), void* context);
  // Ends the call if its work is over; otherwise false. Without a text for a failure, unlike a wait without time. For the owner. [no-block]
  bool settle();
  // Drops the pieces that are not enqueued yet. [any] [no-block]
  void cancel() { pace_.cancel(); }
  // Whether a wait has seen its end. [any]
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  // The application released its handle; takes ownership.
  static void release_handle(Call* call);

 private:
  friend class Function;
  friend class Instance;
  friend struct GiveBackCall;
  Status start_plan(std::unique_ptr<Frame> frame);
  Status start_program();
  // Owns the task that function() creates.
  template <typename MakeTask>
  Status start_task(MakeTask make);
  static void task_ended(void* call, Status&& outcome);
  // Keeps arguments and results alive until it has finished; a new result is kept by its entry in made().
  void retain_tensors();
  void release_tensors();
  // Whether the argument's memory is that of a new result.
  bool is_made(size_t argument) const;
  // One on which waits fail. Empty without memory.
  memory::Ref<memory::Timeline> failed_timeline(const Status& why) const;
  // The end of wait. over: the point is reached or failed, and outcome says which.
  Status leave(bool over, Status&& outcome);

  Function& function_;
  std::unique_ptr<Frame> frame_;
  memory::Timeline* timeline_ = nullptr;  // the frame's, which is not returned while a thread waits, or its own
  uint64_t value_ = 0;
  std::atomic<bool> finished_{false};
  bool retained_ = false;
  bool checks_late_ = false;  // whoever waits examines verdicts
  bool counted_ = true;       // whether it keeps the instance alive; false once abandoned: then the instance waits for it
  uint32_t waiters_ = 0;      // threads inside wait; under the function's lock
  memory::Ref<memory::Timeline> own_timeline_;
  Status failure_;              // set before finished_, then constant
  CallPointer next_abandoned_;  // link of the instance's list
  Pace pace_;
  struct Pieces {
    Task task;
    std::mutex mutex;
    std::condition_variable left;
    bool inside = true;  // a thread is still inside the task; under mutex
    void wait_until_left() {
      std::unique_lock lock(mutex);
      left.wait(lock, [this] { return !inside; });
    }
  };
  std::unique_ptr<Pieces> pieces_;  // only for calls that are a task
  Invocation invocation_;
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_CALL_H_
