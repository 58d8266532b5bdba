// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of calls that use an instance's state: one after the other, as they were started, and none after one that failed.
// Owned by Instance, used by Function and Call; knows nothing of the calls' work.
#ifndef HEDDLE_CORE_SUBMIT_STATE_ORDER_H_
#define HEDDLE_CORE_SUBMIT_STATE_ORDER_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "core/memory/device.h"

namespace heddle::submit {

class StateOrder {
 public:
  // A place in the order, taken when a call is started. The call that has entered has exclusive use of the members below.
  class Turn {
   public:
    Turn() = default;
    Turn(Turn&& other) noexcept : order_(std::exchange(other.order_, nullptr)), ticket_(other.ticket_), entered_(other.entered_) {}
    Turn& operator=(Turn&& other) noexcept {
      if (this != &other) {
        leave();
        order_ = std::exchange(other.order_, nullptr);
        ticket_ = other.ticket_;
        entered_ = other.entered_;
      }
      return *this;
    }
    ~Turn() { leave(); }
    // Waits until all earlier turns have left; calling it once is enough. [may-block]
    void enter();
    // The same without waiting: true if it has entered; else tell(context) is called once all earlier turns have left, on the thread that leaves
    // the last of them. [no-block]
    bool enter_or_tell(void (*tell)(void* context), void* context);
    // Cancels the notification; false if tell was or is being called. [no-block]
    bool forget();
    // Lets the next turn enter; a turn that never entered is skipped. [no-block]
    void leave() noexcept;
    explicit operator bool() const { return order_ != nullptr; }

   private:
    friend class StateOrder;
    Turn(StateOrder* order, uint64_t ticket) : order_(order), ticket_(ticket) {}
    StateOrder* order_ = nullptr;
    uint64_t ticket_ = 0;
    bool entered_ = false;  // set by enter
  };

  // Allocates all memory that a turn needs.
  Turn take();
  // Marks a turn that is held for as long as the call's work runs.
  void hold_long(const Turn& turn);
  // Whether such a turn has not left yet.
  bool held_long();

  // The last call whose work was enqueued, or why the state's contents are undefined.
  memory::Ref<memory::Timeline> timeline;
  uint64_t value = 0;
  Status failure;

 private:
  struct Place {
    bool is_long = false;
    void (*tell)(void*) = nullptr;  // set if the turn does not block
    void* context = nullptr;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0, long_count_ = 0;
  using Places = std::map<uint64_t, Place>;
  Places places_;            // all turns that have not left, by ticket: the first may enter
  Places::node_type spare_;  // the node of the last turn that left
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_STATE_ORDER_H_
