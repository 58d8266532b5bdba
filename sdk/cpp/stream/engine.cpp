// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The device's threads, and waiting. All of them poll words in memory: they spin first, then sleep between polls for a sixteenth of the time waited
// so far, so that a wait ends at most a few percent late and long waits cost little.
#include "stream/engine.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "heddle/sdk/futex.h"
#include "heddle/sdk/signals_blocked.h"

namespace heddle::sdk::stream {

using sdk::HostTimeline;
using State = HostTimeline::State;

namespace {

constexpr uint64_t kShortestSleepNs = 20000;
constexpr uint64_t kLongestSleepNs = 250000;
constexpr uint64_t kCheckNs = 1000000;  // interval between checks of the context through the vendor

// For tools: "heddle-cuda-w". A name has at most 15 bytes, so that of a vendor may be cut.
void name_thread(const Device* device, const char* what) noexcept {
  char name[16];
  std::snprintf(name, sizeof name, "heddle-%.5s-%s", device->who, what);
  pthread_setname_np(pthread_self(), name);
}

// One wait of a host thread.
class Patience {
 public:
  explicit Patience(Device* device) noexcept : device_(device), start_(sdk::monotonic_ns()), checked_(start_) {}
  ~Patience() {
    if (slack_before_ns_ > 0)
      prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack_before_ns_));  // restores the caller's value (HD-T-02)
  }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;
  // Lets some time pass, at most until `end`.
  void pass(uint64_t end) noexcept {
    const uint64_t now = sdk::monotonic_ns(), waited = now - start_;
    if (waited < device_->spin_ns) {
      for (int i = 0; i < 8; ++i) sdk::cpu_pause();
      return;
    }
    if (now - checked_ > kCheckNs) {
      checked_ = now;
      device_->check();
    }
    if (slack_before_ns_ == 0) {  // otherwise a short sleep takes 50 us longer
      slack_before_ns_ = prctl(PR_GET_TIMERSLACK);
      prctl(PR_SET_TIMERSLACK, 1000UL);
    }
    uint64_t sleep = std::clamp(waited / 16, kShortestSleepNs, kLongestSleepNs);
    if (end > now && end - now < sleep) sleep = end - now;
    std::this_thread::sleep_for(std::chrono::nanoseconds(sleep));
  }
  void begin_again() noexcept { start_ = sdk::monotonic_ns(); }

 private:
  Device* device_;
  uint64_t start_, checked_;
  int slack_before_ns_ = 0;
};

}  // namespace

heddle_status_t* Engine::wait(Device* device, const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout_ns) {
  uint64_t failed = 0;
  State state = HostTimeline::judge(points, count, mode, &failed);
  if (state == State::kPending) {
    const uint64_t now = sdk::monotonic_ns();
    const uint64_t end = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
    Patience patience(device);
    for (;;) {
      device->poll();
      state = HostTimeline::judge(points, count, mode, &failed);
      if (state != State::kPending || (timeout_ns != HEDDLE_TIMEOUT_INFINITE && sdk::monotonic_ns() >= end)) break;
      patience.pass(end);
    }
  }
  if (state == State::kReached) return nullptr;
  if (state == State::kFailed) return HostTimeline::from(points[failed].timeline)->failure(points[failed].value);
  return status(device, HEDDLE_STATUS_DEADLINE_EXCEEDED,
                "waiting for %s of %llu points failed: not reached within %llu ns; nothing was changed",
                mode == HEDDLE_WAIT_ANY ? "any" : "all", number(count), number(timeout_ns));
}

Engine::~Engine() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  jobs_changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  if (worker_.joinable()) worker_.join();
}

void Watches::add(Device* device) {
  devices_.reserve(devices_.size() + 1);
  device->engine->watch();
  devices_.push_back(device);
}

void Watches::add_others(const std::vector<heddle_point_t>& points, const Device* own) {
  for (const heddle_point_t& point : points) {
    Device* other = Timeline::from(point.timeline)->device();
    if (other != own && std::find(devices_.begin(), devices_.end(), other) == devices_.end()) add(other);
  }
}

void Watches::end() noexcept {
  for (Device* device : devices_) device->engine->told();
  devices_.clear();
}

void Engine::start_watching() {
  if (watcher_.joinable()) return;
  sdk::SignalsBlocked blocked;
  watcher_ = std::thread([this] { watch_loop(); });
}

void Engine::hold(Queue* queue, Submission* submission) {
  std::lock_guard<std::mutex> lock(mutex_);
  start_watching();
  held_.push_back({queue, submission});
  changed_.notify_all();
}

void Engine::watch() {
  std::lock_guard<std::mutex> lock(mutex_);
  start_watching();
  watched_.fetch_add(1, std::memory_order_acq_rel);
  changed_.notify_all();
}

void Engine::told() noexcept {
  watched_.fetch_sub(1, std::memory_order_acq_rel);
}

bool Engine::release_held() {
  bool any = false;
  for (;;) {  // one at a time: the next may wait for the issued one, and the lock is not held while issuing
    std::list<Held> trying;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      trying.swap(held_);
    }
    bool some = false;
    for (auto held = trying.begin(); held != trying.end();) {
      if (held->queue->try_issue(held->submission)) {
        held = trying.erase(held);
        some = true;
      } else {
        ++held;
      }
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      held_.splice(held_.begin(), trying);
      if (!some || held_.empty()) return any || some;
    }
    any = true;
  }
}

void Engine::watch_loop() noexcept {
  name_thread(device_, "w");
  Patience patience(device_);
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (stop_ && held_.empty()) return;  // no queue is left; a point that is still watched belonged to a destroyed timeline
    if (held_.empty() && watched_.load(std::memory_order_acquire) == 0) {
      changed_.wait(lock);
      patience.begin_again();
      continue;
    }
    const bool releases = !held_.empty();
    lock.unlock();
    bool moved = device_->poll();
    if (releases) moved |= release_held();
    if (moved) {
      patience.begin_again();
    } else {
      patience.pass(UINT64_MAX);
    }
    lock.lock();
  }
}

void Engine::enqueue(Job job) {
  job.watches.add_others(job.waits, device_);
  std::lock_guard<std::mutex> lock(mutex_);
  if (!worker_.joinable()) {
    sdk::SignalsBlocked blocked;
    worker_ = std::thread([this] { job_loop(); });
  }
  Queue* queue = job.queue;
  jobs_.push_back(std::move(job));
  if (queue) queue->begin_job();
  jobs_changed_.notify_all();
}

void Engine::end(Job& job, heddle_status_t* failure) noexcept {
  const heddle_host_t* host = device_->host;
  if (job.queue) device_->counters.submissions.fetch_add(1, std::memory_order_relaxed);
  job.run = nullptr;  // releases what it holds before signalling
  job.watches.end();
  for (const heddle_point_t& point : job.signals) {
    if (failure) {
      HostTimeline::from(point.timeline)->fail(point.value, host->status_clone(host->self, failure));
    } else {
      HostTimeline::from(point.timeline)->advance(point.value);
    }
  }
  if (failure) host->status_free(host->self, failure);
  if (job.queue) job.queue->end_job();
}

void Engine::job_loop() noexcept {
  name_thread(device_, "io");
  Patience patience(device_);
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (jobs_.empty()) {
      if (stop_) return;
      jobs_changed_.wait(lock);
      patience.begin_again();
      continue;
    }
    uint64_t failed = 0;
    auto ready = std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& job) {
      return device_->is_lost() || HostTimeline::judge(job.waits.data(), job.waits.size(), HEDDLE_WAIT_ALL, &failed) != State::kPending;
    });
    if (ready == jobs_.end()) {
      lock.unlock();
      if (!device_->poll()) patience.pass(UINT64_MAX);
      lock.lock();
      continue;
    }
    std::list<Job> one;
    one.splice(one.begin(), jobs_, ready);
    lock.unlock();
    Job& job = one.front();
    heddle_status_t* failure = device_->loss();
    for (const heddle_point_t& point : job.waits) {
      if (!failure) failure = HostTimeline::from(point.timeline)->failure(point.value);
    }
    if (!failure) {
      failure = guarded(device_, "moving bytes", [&] { return job.run(); });
    }
    end(job, failure);
    one.clear();
    patience.begin_again();
    lock.lock();
  }
}

}  // namespace heddle::sdk::stream
