// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls that are started while the parameters of their module are loaded in the background.
#ifndef HEDDLE_PYTHON_CALLS_AT_LOAD_H_
#define HEDDLE_PYTHON_CALLS_AT_LOAD_H_

#include <condition_variable>
#include <mutex>

#include "completions.h"
#include "invocation.h"

namespace heddle::python {

// A call in flight: what it needs. Its end may be long after that of the heddle.Call.
struct CallInFlight {
  nb::object function;  // destroyed last
  std::unique_ptr<Invocation> invocation;
};

class CallsAtLoad;

// A call that begins later. Guarded by the mutex of `all`, until it has begun or failed.
struct CallAtLoad {
  std::shared_ptr<CallsAtLoad> all;
  Invocation* invocation = nullptr;
  const heddle_call_params_t* params = nullptr;
  heddle_call_t* handle = nullptr;     // once it has begun; owned by the heddle.Call
  heddle_status_t* failure = nullptr;  // why it never will; likewise
  bool is_decided = false;             // it has begun or failed
  bool begins = false, is_cancelled = false;
  CallInFlight dropped;  // if there is no heddle.Call any more
  std::vector<std::pair<Completions, uint64_t>> watchers;
};

// Begins calls when the parameters are loaded, in the order in which they were started, by a thread of its own that exists only meanwhile.
class CallsAtLoad : public std::enable_shared_from_this<CallsAtLoad> {
 public:
  // The instance must live until finish() has returned.
  CallsAtLoad(heddle_instance_t* instance, std::string path) : instance_(instance), path_(std::move(path)) {}
  // Takes a call whose arguments and results are made. Needs the GIL.
  std::shared_ptr<CallAtLoad> add(Invocation& invocation, const heddle_call_params_t* params);
  // Whether a call has not begun yet, so that later ones must not begin either.
  bool is_busy();
  // The same after a while of that many nanoseconds. Without the GIL.
  bool is_busy_after(uint64_t timeout_ns);
  // Waits until the thread has ended, which it does soon if no call waits. Without the GIL.
  void finish();

  // Whether the call has begun or failed, or will be after that time. Without the GIL.
  static bool wait(CallAtLoad& call, uint64_t timeout_ns);
  // False if the call has begun: heddle_call_cancel is for that.
  static bool cancel(CallAtLoad& call);
  // False if the call has begun or failed. `key` will be among the completions when the call is over.
  static bool notify(CallAtLoad& call, const Completions& completions, uint64_t key);
  // The heddle.Call is gone; the call begins all the same. False if the call has begun or failed: then its handle or failure is the caller's to release.
  static bool drop(CallAtLoad& call, CallInFlight& flight);
  // Destroys what dropped calls have left. Needs the GIL.
  static void destroy_dropped() noexcept;

 private:
  void work();
  void begin_all(std::unique_lock<std::mutex>& lock);
  void end_late_ones();
  void decide(CallAtLoad& call, heddle_call_t* handle, heddle_status_t* failure);

  heddle_instance_t* const instance_;
  const std::string path_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<CallAtLoad>> waiting_;
  bool is_working_ = false;  // the thread exists
};

}  // namespace heddle::python

#endif  // HEDDLE_PYTHON_CALLS_AT_LOAD_H_
