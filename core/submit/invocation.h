// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The data of one call from its check to its end: arguments, results, extents. On the stack of a waiting call, otherwise in its Call.
// Used by Function, Call and Run only.
#ifndef HEDDLE_CORE_SUBMIT_INVOCATION_H_
#define HEDDLE_CORE_SUBMIT_INVOCATION_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "core/memory/foreign_stream.h"
#include "core/memory/tensor.h"
#include "core/submit/state.h"
#include "heddle/types.h"

namespace heddle::submit {

// Its arrays have the lengths of the function's signature and are stored consecutively, so that a usual call touches one or two cache lines of
// them; they are inside the object if they are small. Members that only waiting calls use come last.
class Invocation {
 public:
  // made() is empty and symbols are -1; the check fills in arguments and results.
  Invocation(size_t arguments, size_t results, size_t symbols)
      : argument_count_(static_cast<uint32_t>(arguments)),
        result_count_(static_cast<uint32_t>(results)),
        symbol_count_(static_cast<uint32_t>(symbols)),
        words_(inside_) {
    if (all_words() > kWordsInside) [[unlikely]]
      words_ = new std::byte[all_words() * kWord];
    for (memory::Ref<memory::Tensor>& one : made()) new (&one) memory::Ref<memory::Tensor>();
    for (int64_t& symbol : this->symbols()) symbol = -1;
  }
  // References are moved by copying their bytes.
  Invocation(Invocation&& other) noexcept;
  Invocation& operator=(Invocation&&) = delete;
  ~Invocation() {
    if (replaced) [[unlikely]]
      static_cast<void>(give_back());  // an exception ended the call before it began
    if (wait_count_ != 0) [[unlikely]]
      drop_waits();
    for (memory::Ref<memory::Tensor>& one : made()) one.~Ref();
    if (words_ != inside_) [[unlikely]]
      delete[] words_;
  }

  std::span<memory::Tensor*> arguments() const {
    return {at<memory::Tensor*>(0), argument_count_};
  }  // each on the device it is expected on
  std::span<memory::Tensor*> results() const { return {at<memory::Tensor*>(argument_count_), result_count_}; }
  // Results that are new; empty where the caller passed one.
  std::span<memory::Ref<memory::Tensor>> made() const {
    return {at<memory::Ref<memory::Tensor>>(argument_count_ + result_count_), result_count_};
  }
  // Also the key of the plan.
  std::span<int64_t> symbols() const { return {at<int64_t>(argument_count_ + 2 * size_t{result_count_}), symbol_count_}; }

  // The work that must finish before this work starts, kept until the call has finished: drivers borrow it (HD-Q-03).
  std::span<const heddle_point_t> waits() const { return {points(), wait_count_}; }
  const memory::Ref<memory::Timeline>& wait_owner(size_t index) const { return owners()[index]; }
  // At most one per argument and per result, one for the state and one for the stream.
  void add_wait(const memory::Ref<memory::Timeline>& timeline, uint64_t value) {
    points()[wait_count_] = {timeline->get(), value};
    new (&owners()[wait_count_]) memory::Ref<memory::Timeline>(timeline);
    ++wait_count_;
  }
  void drop_last_wait() { owners()[--wait_count_].~Ref(); }
  void drop_waits() {
    while (wait_count_ != 0) drop_last_wait();
  }

  uint64_t deadline_ns = 0;  // of CLOCK_MONOTONIC; 0: none
  bool pending = false;      // an argument or given result was pending when it was checked; false: no tensor is waited for
  std::shared_ptr<memory::ForeignStream> stream;  // the application's stream with which the work is ordered
  size_t first_result_wait = 0;                   // index of the first wait for an earlier use of a given result
  size_t state_wait = SIZE_MAX;                   // index of the wait for an earlier call on the state
  memory::Ref<State> state;                       // for a call that uses state, as the next member
  StateOrder::Turn turn;
  // Donated tensors, each with the tensor that has its memory now, or NULL.
  using TakenTensors = std::vector<std::pair<memory::Ref<memory::Tensor>, memory::Ref<memory::Tensor>>>;
  // Arguments that are not the tensors that the caller passed.
  struct Replaced {
    std::vector<memory::Ref<memory::Tensor>> moved;  // one per argument: its copy, or the memory that was taken from it
    TakenTensors taken;                              // emptied when the work begins, since they are not given back then
    bool has_donated = false;                        // the work has begun, with memory of donated tensors
  };
  std::unique_ptr<Replaced> replaced;  // empty for most calls
  Replaced& make_replaced() {
    if (!replaced) {
      replaced = std::make_unique<Replaced>();
      replaced->moved.resize(argument_count_);
    }
    return *replaced;
  }
  // The call does not begin: donated tensors get their memory back. What is left of them is returned, to be destroyed without a lock.
  [[gnu::cold]] TakenTensors give_back();
  // The work begins: from now on, donated tensors stay taken.
  void begin() {
    if (!replaced || replaced->taken.empty()) [[likely]]
      return;
    replaced->has_donated = true;
    replaced->taken.clear();
  }

 private:
  static constexpr size_t kWord = 8, kWordsInside = 48;
  template <typename T>
  T* at(size_t word) const {
    static_assert(sizeof(T) % kWord == 0);
    return reinterpret_cast<T*>(words_ + word * kWord);
  }
  size_t used_words() const { return argument_count_ + 2 * size_t{result_count_} + symbol_count_; }
  size_t most_waits() const { return size_t{argument_count_} + result_count_ + 2; }
  size_t all_words() const { return used_words() + 3 * most_waits(); }
  heddle_point_t* points() const { return at<heddle_point_t>(used_words()); }
  memory::Ref<memory::Timeline>* owners() const { return at<memory::Ref<memory::Timeline>>(used_words() + 2 * most_waits()); }

  uint32_t argument_count_, result_count_, symbol_count_, wait_count_ = 0;
  std::byte* words_;
  alignas(kWord) std::byte inside_[kWordsInside * kWord];
};

inline Invocation::Invocation(Invocation&& other) noexcept
    : deadline_ns(other.deadline_ns),
      pending(other.pending),
      stream(std::move(other.stream)),
      first_result_wait(other.first_result_wait),
      state_wait(other.state_wait),
      state(std::move(other.state)),
      turn(std::move(other.turn)),
      replaced(std::move(other.replaced)),
      argument_count_(other.argument_count_),
      result_count_(other.result_count_),
      symbol_count_(other.symbol_count_),
      wait_count_(other.wait_count_),
      words_(other.words_) {
  if (words_ == other.inside_) [[likely]] {
    words_ = inside_;
    const size_t words = wait_count_ == 0 ? used_words() : all_words();
    for (size_t i = 0; i < words; ++i) std::memcpy(words_ + i * kWord, other.words_ + i * kWord, kWord);
  }
  other.words_ = other.inside_;
  other.argument_count_ = other.result_count_ = other.symbol_count_ = other.wait_count_ = 0;
}

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_INVOCATION_H_
