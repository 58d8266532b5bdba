// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fake's engine: late and shuffled.
#include <signal.h>
#include <xmmintrin.h>

#include <algorithm>
#include <chrono>
#include <ranges>

#include "fake.h"
#include "heddle/sdk/futex.h"

namespace heddle::fake {

using sdk::HostTimeline;

namespace {

// A thread that takes no signals of the application (HD-T-02).
template <class Loop>
std::thread start(Loop loop) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(loop);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

Engine::Engine(Device* device)
    : device_(device), random_(device->instance->seed * 1000 + device->ordinal), thread_(start([this] { loop(); })) {}

Engine::~Engine() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

template <typename Predicate>
bool Engine::any_unfinished(Predicate predicate) const {
  return std::ranges::any_of(pending_, [&](const auto& submission) { return std::ranges::any_of(submission->signals, predicate); }) ||
         std::ranges::any_of(finished_, [&](const Finished& one) { return std::ranges::any_of(one.submission->signals, predicate); });
}

bool Engine::will_signal(heddle_point_t point) const {
  auto signals = [&](const heddle_point_t& signal) { return signal.timeline == point.timeline && signal.value >= point.value; };
  return any_unfinished(signals) || std::ranges::any_of(running_, signals) || std::ranges::any_of(told_, signals);
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
  for (const heddle_point_t& point : submission->signals) {
    if (!device_->instance->strict || HostTimeline::from(point.timeline)->state(point.value) == HostTimeline::State::kFailed) continue;
    auto same = [&](const heddle_point_t& other) { return other.timeline == point.timeline; };
    if (!any_unfinished(same) && std::ranges::none_of(running_, same)) continue;
    return sdk::status(
        device_->host, HEDDLE_STATUS_FAILED_PRECONDITION,
        "fake: submitting failed: a timeline that it signals is signalled by unfinished work, so that a failure of one would "
        "hide the other's end [HD-Q-06]");
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
    std::vector<size_t> told;
    const uint64_t now = sdk::monotonic_ns();
    for (size_t i = 0; i < finished_.size(); ++i) {
      if (finished_[i].due_ns <= now) told.push_back(i);
    }
    if (!told.empty()) {
      auto chosen = finished_.begin() + static_cast<long>(told[random_() % told.size()]);
      Finished finished = std::move(*chosen);
      finished_.erase(chosen);
      told_ = finished.submission->signals;
      Queue* queue = finished.submission->queue;
      lock.unlock();
      tell(std::move(finished));
      lock.lock();
      told_.clear();
      --queue->unfinished;
      changed_.notify_all();
      continue;
    }
    std::vector<size_t> ready;
    for (size_t i = 0; i < pending_.size(); ++i) {
      if (pending_[i]->gate && !*pending_[i]->gate) continue;
      const auto state = [](const heddle_point_t& point) { return HostTimeline::from(point.timeline)->state(point.value); };
      const auto& waits = pending_[i]->waits;
      if (std::ranges::count(waits, HostTimeline::State::kPending, state) == 0 ||
          (device_->instance->early_failures && std::ranges::count(waits, HostTimeline::State::kFailed, state) != 0)) {
        ready.push_back(i);
      }
    }
    if (ready.empty()) {
      if (stop_ && pending_.empty() && finished_.empty()) return;
      // Signals come from anywhere, so waits are looked at now and then.
      if (pending_.empty() && finished_.empty()) {
        changed_.wait(lock);
      } else {
        uint64_t wait_ns = pending_.empty() ? UINT64_MAX : 50'000;
        for (const Finished& one : finished_) wait_ns = std::min(wait_ns, one.due_ns - std::min(one.due_ns, now));
        changed_.wait_for(lock, std::chrono::nanoseconds(wait_ns));
      }
      continue;
    }
    const size_t chosen = ready[random_() % ready.size()];
    Finished finished{0, std::move(pending_[chosen]), nullptr};
    pending_.erase(pending_.begin() + static_cast<long>(chosen));
    running_ = finished.submission->signals;
    lock.unlock();
    finished.failure = execute(*finished.submission);
    finished.due_ns = due();
    lock.lock();
    finished_.push_back(std::move(finished));
    running_.clear();
  }
}

uint64_t Engine::due() {
  const uint64_t latency_ns = device_->instance->latency_us * 1000, batch_ns = device_->instance->batch_us * 1000;
  uint64_t due = sdk::monotonic_ns() + (latency_ns ? random_() % latency_ns : 0);
  if (batch_ns) due = (due + batch_ns - 1) / batch_ns * batch_ns;
  return due;
}

heddle_status_t* Engine::execute(Submission& submission) {
  heddle_status_t* failure = device_->loss();
  bool runs = failure == nullptr;
  for (const heddle_point_t& point : submission.waits) {
    if (!failure) failure = HostTimeline::from(point.timeline)->failure(point.value);
  }
  if (runs && failure) runs = !device_->instance->early_failures && random_() % 2 == 0;  // on undefined contents
  _mm_setcsr(0x1f80);                                                                    // what code.h promises to kernels
  for (auto& group : submission.groups) {
    if (!runs) break;
    std::shuffle(group.begin(), group.end(), random_);
    for (Step& step : group) {
      heddle_status_t* failed = runs ? step() : nullptr;
      if (!failed) continue;
      if (failure) {
        device_->host->status_free(device_->host->self, failed);
      } else {
        failure = failed;
      }
      runs = false;
    }
  }
  device_->submissions += 1;
  device_->dispatches += submission.dispatches;
  device_->copies += submission.copies;
  return failure;
}

void Engine::tell(Finished finished) {
  const heddle_host_t* host = device_->host;
  std::vector<heddle_point_t> signals = std::move(finished.submission->signals);
  finished.submission->write_times();
  if (finished.submission->in_flight) *finished.submission->in_flight = false;
  finished.submission.reset();
  std::ranges::shuffle(signals, random_);
  for (const heddle_point_t& point : signals) {
    if (finished.failure) {
      HostTimeline::from(point.timeline)->fail(point.value, host->status_clone(host->self, finished.failure));
    } else {
      HostTimeline::from(point.timeline)->advance(point.value);
    }
  }
  if (finished.failure) host->status_free(host->self, finished.failure);
}

}  // namespace heddle::fake
