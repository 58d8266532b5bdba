// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fake's engine: late and shuffled.
#include <xmmintrin.h>

#include <algorithm>
#include <chrono>

#include "fake.h"

namespace heddle::fake {

using sdk::HostTimeline;
using std::chrono::microseconds;

Engine::Engine(Device* device) : device_(device), random_(device->instance->seed * 1000 + device->ordinal), thread_([this] { loop(); }) {}

Engine::~Engine() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Engine::will_signal(heddle_point_t point) const {
  auto signals = [&](const std::vector<heddle_point_t>& points) {
    return std::any_of(points.begin(), points.end(),
                       [&](const heddle_point_t& signal) { return signal.timeline == point.timeline && signal.value >= point.value; });
  };
  return signals(running_) ||
         std::any_of(pending_.begin(), pending_.end(), [&](const auto& submission) { return signals(submission->signals); });
}

heddle_status_t* Engine::enqueue(std::unique_ptr<Submission> submission) {
  if (heddle_status_t* lost = device_->loss()) return lost;
  std::lock_guard<std::mutex> lock(mutex_);
  for (const heddle_point_t& point : submission->waits) {
    if (!device_->instance->strict || will_signal(point)) continue;
    if (HostTimeline::from(point.timeline)->state(point.value) != HostTimeline::State::kPending) continue;
    return sdk::status(device_->host, HEDDLE_STATUS_FAILED_PRECONDITION,
                       "fake: submitting failed: nothing enqueued signals value %llu of a timeline that it waits for [HD-Q-01]",
                       number(point.value));
  }
  if (submission->in_flight) *submission->in_flight = true;
  pending_.push_back(std::move(submission));
  ++pending_.back()->queue->unfinished;
  changed_.notify_all();
  return nullptr;
}

void Engine::drain(Queue* queue) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return queue->unfinished == 0; });
}

void Engine::loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < pending_.size(); ++i) {
      const auto& waits = pending_[i]->waits;
      if (std::all_of(waits.begin(), waits.end(), [](const heddle_point_t& point) {
            return HostTimeline::from(point.timeline)->state(point.value) != HostTimeline::State::kPending;
          })) {
        ready.push_back(i);
      }
    }
    if (ready.empty()) {
      if (stop_ && pending_.empty()) return;
      // Signals come from anywhere, so waits are looked at now and then.
      if (pending_.empty()) {
        changed_.wait(lock);
      } else {
        changed_.wait_for(lock, microseconds(50));
      }
      continue;
    }
    const size_t chosen = ready[random_() % ready.size()];
    std::unique_ptr<Submission> submission = std::move(pending_[chosen]);
    pending_.erase(pending_.begin() + static_cast<long>(chosen));
    running_ = submission->signals;
    lock.unlock();
    execute(*submission);
    Queue* queue = submission->queue;
    submission.reset();
    lock.lock();
    running_.clear();
    --queue->unfinished;
    changed_.notify_all();
  }
}

void Engine::execute(Submission& submission) {
  const heddle_host_t* host = device_->host;
  heddle_status_t* failure = device_->loss();
  for (const heddle_point_t& point : submission.waits) {
    if (!failure) failure = HostTimeline::from(point.timeline)->failure(point.value);
  }
  _mm_setcsr(0x1f80);  // what code.h promises to kernels
  for (auto& group : submission.groups) {
    if (failure) break;
    std::shuffle(group.begin(), group.end(), random_);
    for (Step& step : group) {
      if (!failure) failure = step();
    }
  }
  if (const uint64_t latency = device_->instance->latency_us) std::this_thread::sleep_for(microseconds(random_() % latency));
  device_->submissions += 1;
  device_->dispatches += submission.dispatches;
  device_->copies += submission.copies;
  if (submission.in_flight) *submission.in_flight = false;
  std::shuffle(submission.signals.begin(), submission.signals.end(), random_);
  for (const heddle_point_t& point : submission.signals) {
    if (failure) {
      HostTimeline::from(point.timeline)->fail(point.value, host->status_clone(host->self, failure));
    } else {
      HostTimeline::from(point.timeline)->advance(point.value);
    }
  }
  if (failure) host->status_free(host->self, failure);
}

}  // namespace heddle::fake
