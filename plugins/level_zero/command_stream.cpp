// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "level_zero/command_stream.h"

namespace heddle::level_zero {
namespace {

constexpr uint64_t kLongestEndNs = 1000000000;  // a device that takes longer hangs

}  // namespace

CommandStream::~CommandStream() {
  // Its work is done, but the device may still be at the end of the last list.
  if (queue_) api_.zeCommandQueueSynchronize(queue_, kLongestEndNs);
  const auto destroy = [&](ze_command_list_handle_t list) {
    if (list) api_.zeCommandListDestroy(list);
  };
  destroy(list_);
  for (ze_command_list_handle_t list : idle_) destroy(list);
  for (const Used& used : used_) {
    for (ze_command_list_handle_t list : used.lists) destroy(list);
  }
  for (ze_command_list_handle_t list : now_.lists) destroy(list);
  if (queue_) api_.zeCommandQueueDestroy(queue_);
}

ze_result_t CommandStream::start() {
  auto description = structure<ze_command_queue_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
  description.ordinal = place_.queue_group;
  description.mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS;
  description.priority = place_.priority;
  if (place_.immediate) {
    const ze_result_t made = api_.zeCommandListCreateImmediate(place_.context->handle, place_.device, &description, &list_);
    if (made != ZE_RESULT_ERROR_UNSUPPORTED_FEATURE) return made;
  }
  return api_.zeCommandQueueCreate(place_.context->handle, place_.device, &description, &queue_);
}

// A list that takes commands, and the barrier in front of the next one. Commands of a list that an earlier one preceded in the queue may begin before
// that has ended, so the barrier is needed there, too.
ze_result_t CommandStream::begin() {
  if (const ze_result_t bad = open()) return bad;
  if (!is_behind_command_) return ZE_RESULT_SUCCESS;
  const ze_result_t result = api_.zeCommandListAppendBarrier(list_, nullptr, 0, nullptr);
  if (result == ZE_RESULT_SUCCESS) is_behind_command_ = false;
  return result;
}

ze_result_t CommandStream::open() {
  if (failed_ != ZE_RESULT_SUCCESS) return failed_;
  if (used_.size() > 16) reclaim();
  if (list_) return ZE_RESULT_SUCCESS;
  reclaim();
  if (!idle_.empty()) {
    list_ = idle_.back();
    idle_.pop_back();
    return ZE_RESULT_SUCCESS;
  }
  auto description = structure<ze_command_list_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC);
  description.commandQueueGroupOrdinal = place_.queue_group;
  return api_.zeCommandListCreate(place_.context->handle, place_.device, &description, &list_);
}

// Submits the open list, if there is a queue. The commands of a list that cannot be submitted never run, so nothing may follow them.
ze_result_t CommandStream::run() {
  if (!queue_ || !list_) return ZE_RESULT_SUCCESS;
  now_.lists.push_back(list_);
  ze_command_list_handle_t list = list_;
  list_ = nullptr;
  failed_ = api_.zeCommandListClose(list);
  if (failed_ == ZE_RESULT_SUCCESS) failed_ = api_.zeCommandQueueExecuteCommandLists(queue_, 1, &list, nullptr);
  return failed_;
}

// A list may be reset when the device has left it. Its own signal is one of its commands, so that of the next list tells.
void CommandStream::reclaim() noexcept {
  const size_t later = queue_ ? 1 : 0;
  while (used_.size() > later && used_[later].end->query() == ZE_RESULT_SUCCESS) {
    for (ze_command_list_handle_t list : used_.front().lists) {
      if (api_.zeCommandListReset(list) == ZE_RESULT_SUCCESS) {
        idle_.push_back(list);
      } else {
        api_.zeCommandListDestroy(list);
      }
    }
    used_.pop_front();
  }
}

ze_result_t CommandStream::fill(void* to, uint32_t value, uint32_t unit, uint64_t count) {
  return append([&](ze_command_list_handle_t list) {
    now_.patterns.push_back(value);
    return api_.zeCommandListAppendMemoryFill(list, to, &now_.patterns.back(), unit, count * unit, nullptr, 0, nullptr);
  });
}

ze_result_t CommandStream::signal(const std::shared_ptr<Signal>& signal) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (const ze_result_t bad = open()) return bad;
  used_.emplace_back();
  ze_result_t result = api_.zeCommandListAppendBarrier(list_, signal->event(), 0, nullptr);
  if (result == ZE_RESULT_SUCCESS) {
    is_behind_command_ = false;
    result = run();
  }
  if (result != ZE_RESULT_SUCCESS) {
    used_.pop_back();
    return result;
  }
  now_.end = signal;
  used_.back() = std::move(now_);
  now_ = Used();
  return result;
}

ze_result_t CommandStream::wait(const std::shared_ptr<Signal>& signal) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (const ze_result_t bad = open()) return bad;
  now_.waits.push_back(signal);
  ze_event_handle_t event = signal->event();
  // It holds back what follows, and does not wait for what precedes.
  return api_.zeCommandListAppendBarrier(list_, nullptr, 1, &event);
}

}  // namespace heddle::level_zero
