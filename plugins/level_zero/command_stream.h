// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Work in order on one device: an immediate command list or, where the driver has none, a command queue with command lists. Both may run commands at
// the same time, so a barrier is between any two of them.
#ifndef HEDDLE_LEVEL_ZERO_COMMAND_STREAM_H_
#define HEDDLE_LEVEL_ZERO_COMMAND_STREAM_H_

#include <deque>

#include "level_zero/signals.h"

namespace heddle::level_zero {

class CommandStream {
 public:
  struct Place {
    std::shared_ptr<SharedContext> context;
    ze_device_handle_t device = nullptr;
    uint32_t queue_group = 0;
    ze_command_queue_priority_t priority = ZE_COMMAND_QUEUE_PRIORITY_NORMAL;
    bool immediate = true;  // an immediate command list, if the driver has them
  };
  explicit CommandStream(Place place) : place_(std::move(place)), api_(place_.context->api) {}
  // Not before its work is done, or the device is lost.
  ~CommandStream();
  CommandStream(const CommandStream&) = delete;
  CommandStream& operator=(const CommandStream&) = delete;
  ze_result_t start();

  // All functions below: from any thread. After a command list that could not be submitted, all of them return its result. Appends what `command` appends to the list that it is given.
  template <class Command>
  ze_result_t append(const Command& command) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (const ze_result_t bad = begin()) return bad;
    const ze_result_t result = command(list_);
    if (result == ZE_RESULT_SUCCESS) is_behind_command_ = true;
    return result;
  }
  // Fills `count` units of 1, 2 or 4 bytes with a value. The pattern stays where it is until the stream has read it.
  ze_result_t fill(void* to, uint32_t value, uint32_t unit, uint64_t count);
  // The signal follows all that was appended; in a queue, that is submitted.
  ze_result_t signal(const std::shared_ptr<Signal>& signal);
  // What is appended from now on comes after the signal, which may be another stream's.
  ze_result_t wait(const std::shared_ptr<Signal>& signal);
  // The list or, for a queue, the queue.
  uint64_t native() const noexcept { return queue_ ? reinterpret_cast<uint64_t>(queue_) : reinterpret_cast<uint64_t>(list_); }

 private:
  // What commands up to a signal use; kept until the signal.
  struct Used {
    std::shared_ptr<Signal> end;
    std::vector<std::shared_ptr<Signal>> waits;
    std::vector<ze_command_list_handle_t> lists;
    std::deque<uint32_t> patterns;
  };
  ze_result_t begin();
  ze_result_t open();
  ze_result_t run();
  void reclaim() noexcept;

  const Place place_;
  const Api& api_;
  std::mutex mutex_;
  ze_command_queue_handle_t queue_ = nullptr;   // NULL with an immediate list
  ze_command_list_handle_t list_ = nullptr;     // the immediate list, or the one that is open; under mutex_, like the rest
  std::vector<ze_command_list_handle_t> idle_;  // reset
  bool is_behind_command_ = false;              // no barrier has followed the last command
  ze_result_t failed_ = ZE_RESULT_SUCCESS;      // of the list that could not be submitted
  Used now_;                                    // of commands that no signal follows yet
  std::deque<Used> used_;                       // in the order of the stream
};

}  // namespace heddle::level_zero
#endif  // HEDDLE_LEVEL_ZERO_COMMAND_STREAM_H_
