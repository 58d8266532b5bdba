// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What one call holds from its check to its end: arguments, results, extents. On the stack of a waiting call, in the Call of others.
// Used by Function and Call only.
#ifndef HEDDLE_CORE_SUBMIT_INVOCATION_H_
#define HEDDLE_CORE_SUBMIT_INVOCATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/memory/foreign_stream.h"
#include "core/memory/tensor.h"
#include "core/submit/state_order.h"
#include "heddle/types.h"

namespace heddle::submit {

// An array whose size is known once, inside the object when it is small: no allocation on the path of a usual call.
template <typename T, size_t kInside>
class Inline {
 public:
  void resize(size_t size) {
    if (size > kInside) large_.reset(new T[size]());
    size_ = size;
  }
  size_t size() const { return size_; }
  T* data() { return large_ ? large_.get() : small_; }
  const T* data() const { return large_ ? large_.get() : small_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  std::span<const T> view() const { return {data(), size_}; }
  std::span<T> view() { return {data(), size_}; }

 private:
  T small_[kInside] = {};
  std::unique_ptr<T[]> large_;
  size_t size_ = 0;
};

struct Invocation {
  void add_wait(const memory::Ref<memory::Timeline>& timeline, uint64_t value) {
    waits[wait_count] = {timeline->get(), value};
    wait_owners[wait_count++] = timeline;
  }
  uint64_t deadline_ns = 0;              // of CLOCK_MONOTONIC; 0: none
  Inline<int64_t, 8> symbols;            // also the key of the plan
  Inline<memory::Tensor*, 8> arguments;  // each on the device it is expected on
  Inline<memory::Tensor*, 8> results;
  Inline<memory::Ref<memory::Tensor>, 8> made;  // results that are new; empty where the caller gave one
  // What has to be over before the work starts, kept until the call is over: drivers borrow (HD-Q-03).
  Inline<heddle_point_t, 8> waits;
  Inline<memory::Ref<memory::Timeline>, 8> wait_owners;
  size_t wait_count = 0;
  std::shared_ptr<memory::ForeignStream> stream;         // of the application's, that the work is ordered with
  size_t state_wait = SIZE_MAX;                          // which of them is an earlier call's on the state
  StateOrder::Turn turn;                                 // of a call that touches state
  std::unique_ptr<memory::Ref<memory::Tensor>[]> moved;  // copies of arguments that were on another device
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_INVOCATION_H_
