// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tickets: a fair lock whose place in the queue can be taken before the wait begins.
// Called through state_order.h.
#include "core/submit/state_order.h"

namespace heddle::submit {

StateOrder::Turn StateOrder::take() {
  std::lock_guard lock(mutex_);
  if (spare_) {
    spare_.key() = next_;
    spare_.mapped() = Place();
    places_.insert(places_.end(), std::move(spare_));
  } else {
    places_.emplace_hint(places_.end(), next_, Place());
  }
  return Turn(this, next_++);
}

void StateOrder::hold_long(const Turn& turn) {
  std::lock_guard lock(mutex_);
  if (!std::exchange(places_.at(turn.ticket_).is_long, true)) ++long_count_;
}

bool StateOrder::held_long() {
  std::lock_guard lock(mutex_);
  return long_count_ != 0;
}

void StateOrder::Turn::enter() {
  if (!order_ || entered_) return;
  std::unique_lock lock(order_->mutex_);
  order_->changed_.wait(lock, [this] { return order_->places_.begin()->first == ticket_; });
  entered_ = true;
}

bool StateOrder::Turn::enter_or_tell(void (*tell)(void* context), void* context) {
  std::lock_guard lock(order_->mutex_);
  const auto place = order_->places_.find(ticket_);
  if (place == order_->places_.begin()) return true;
  place->second.tell = tell;
  place->second.context = context;
  return false;
}

bool StateOrder::Turn::forget() {
  std::lock_guard lock(order_->mutex_);
  return std::exchange(order_->places_.at(ticket_).tell, nullptr) != nullptr;
}

void StateOrder::Turn::leave() noexcept {
  StateOrder* order = std::exchange(order_, nullptr);
  if (!order) return;
  void (*tell)(void*) = nullptr;
  void* context = nullptr;
  {
    std::lock_guard lock(order->mutex_);
    const auto place = order->places_.find(ticket_);
    const bool was_first = place == order->places_.begin();
    order->long_count_ -= place->second.is_long;
    order->spare_ = order->places_.extract(place);
    entered_ = false;
    if (!was_first || order->places_.empty()) return;
    Place& next = order->places_.begin()->second;
    tell = std::exchange(next.tell, nullptr);
    context = next.context;
    order->changed_.notify_all();
  }
  if (tell) tell(context);
}

}  // namespace heddle::submit
