// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of calls that touch an instance's state: one after the other, as they were started, and none after one that failed.
// Owned by Instance, used by Function and Call; knows nothing of what a call does.
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
  // A place in the order, taken when a call is started. Whoever is in it has the members below for itself.
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
    // Waits until all earlier turns are left; once is enough. [may-block]
    void enter();
    // The same without waiting: true if it is entered; else tell(context) comes once all earlier turns are left, from the thread that leaves
    // the last of them. [no-block]
    bool enter_or_tell(void (*tell)(void* context), void* context);
    // Takes that back; false if tell was called, or is. [no-block]
    bool forget();
    // The next one may enter; a turn that was never entered is skipped. [no-block]
    void leave() noexcept;
    explicit operator bool() const { return order_ != nullptr; }

   private:
    friend class StateOrder;
    Turn(StateOrder* order, uint64_t ticket) : order_(order), ticket_(ticket) {}
    StateOrder* order_ = nullptr;
    uint64_t ticket_ = 0;
    bool entered_ = false;  // by enter
  };

  // Everything that a turn needs memory for is made here.
  Turn take();
  // Marks a turn that is held for as long as the call's work runs.
  void hold_long(const Turn& turn);
  // Some such turn is not left yet.
  bool held_long();

  // The last call whose work was enqueued, or why the state's contents are undefined.
  memory::Ref<memory::Timeline> timeline;
  uint64_t value = 0;
  Status failure;

 private:
  struct Place {
    bool is_long = false;
    void (*tell)(void*) = nullptr;  // if its turn does not wait
    void* context = nullptr;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0, long_count_ = 0;
  using Places = std::map<uint64_t, Place>;
  Places places_;            // of all turns that are not left, by ticket: the first may enter
  Places::node_type spare_;  // the last one that was left
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_STATE_ORDER_H_
