// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tickets: a fair lock whose place in the queue can be taken before the wait begins.
// Called through state_order.h.
#include "core/submit/state_order.h"

namespace heddle::submit {

StateOrder::Turn StateOrder::take() {
  std::lock_guard lock(mutex_);
  return Turn(this, next_++);
}

void StateOrder::hold_long(const Turn& turn) {
  std::lock_guard lock(mutex_);
  long_.insert(turn.ticket_);
}

bool StateOrder::held_long() {
  std::lock_guard lock(mutex_);
  return !long_.empty();
}

void StateOrder::Turn::enter() {
  if (!order_ || entered_) return;
  std::unique_lock lock(order_->mutex_);
  order_->changed_.wait(lock, [this] { return order_->now_ == ticket_; });
  entered_ = true;
}

bool StateOrder::Turn::enter_or_tell(void (*tell)(void* context), void* context) {
  std::lock_guard lock(order_->mutex_);
  if (order_->now_ == ticket_) return true;
  order_->told_[ticket_] = {tell, context};
  return false;
}

bool StateOrder::Turn::forget() {
  std::lock_guard lock(order_->mutex_);
  return order_->told_.erase(ticket_) != 0;
}

void StateOrder::Turn::leave() noexcept {
  StateOrder* order = std::exchange(order_, nullptr);
  if (!order) return;
  Told next{};
  {
    std::lock_guard lock(order->mutex_);
    order->long_.erase(ticket_);
    entered_ = false;
    if (order->now_ != ticket_) {
      order->skipped_.insert(ticket_);
      return;
    }
    ++order->now_;
    while (order->skipped_.erase(order->now_) != 0) ++order->now_;
    if (auto told = order->told_.find(order->now_); told != order->told_.end()) {
      next = told->second;
      order->told_.erase(told);
    }
    order->changed_.notify_all();
  }
  if (next.tell) next.tell(next.context);
}

}  // namespace heddle::submit
