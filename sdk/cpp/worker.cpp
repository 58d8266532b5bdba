// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See worker.h.
#include "heddle/sdk/worker.h"

#include <algorithm>
#include <chrono>

#include "heddle/sdk/signals_blocked.h"

namespace heddle::sdk {

namespace {

uint64_t nanoseconds() {
  return static_cast<uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace

class Worker::WorkerQueue final : public Queue {
 public:
  explicit WorkerQueue(Worker* worker) : Queue(worker->device_), worker_(worker) {}
  ~WorkerQueue() override {
    std::unique_lock<std::mutex> lock(worker_->mutex_);
    worker_->changed_.wait(lock, [&] { return unfinished_ == 0; });
  }
  heddle_status_t* enqueue(std::unique_ptr<Submission> submission) override {
    std::lock_guard<std::mutex> lock(worker_->mutex_);
    worker_->items_.push_back({std::move(submission), &unfinished_});
    ++unfinished_;
    worker_->changed_.notify_all();
    return nullptr;
  }

 private:
  Worker* worker_;
  uint64_t unfinished_ = 0;
};

Worker::Worker(Device* device, Run run, Finish finish) : device_(device), run_(std::move(run)), finish_(std::move(finish)) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { loop(); });
}

Worker::~Worker() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

heddle_status_t* Worker::make_queue(Queue** out) {
  *out = make<WorkerQueue>(device_->host, this);
  return nullptr;
}

void Worker::loop() {
  std::fesetenv(FE_DFL_ENV);  // not the one of the thread that opened the device
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !items_.empty(); });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    heddle_status_t* failure = run(*item.submission);
    retire(device_, std::move(item.submission), failure);
    lock.lock();
    --*item.unfinished;
    changed_.notify_all();
  }
}

// What it waits for was enqueued earlier (HD-Q-01), and this thread works in order, so the waits never block for long.
heddle_status_t* Worker::run(const Submission& submission) {
  if (heddle_status_t* failure = await_waits(device_, submission)) return failure;
  heddle_status_t* failure = nullptr;
  uint64_t began_ns = 0, counted_ns = 0;  // at the first dispatch, if there is one
  for (const Operation& operation : submission.operations) {
    if (failure) break;
    if (began_ns == 0 && operation.kind == Operation::Kind::kDispatch) {
      began_ns = nanoseconds();
      counted_ns = device_->kernel_ns.load(std::memory_order_relaxed);
    }
    failure = guarded(device_->host, "running a command", [&] { return run_(operation); });
  }
  heddle_status_t* unfinished = guarded(device_->host, "finishing a submission", [&] { return finish_(); });
  if (began_ns != 0) {
    // What a dispatch has counted itself, as the interpreter does, is a part of this time.
    const uint64_t taken = nanoseconds() - began_ns, counted = device_->kernel_ns.load(std::memory_order_relaxed) - counted_ns;
    device_->kernel_ns.fetch_add(taken - std::min(taken, counted), std::memory_order_relaxed);
  }
  if (!failure) return unfinished;
  if (unfinished) device_->host->status_free(device_->host->self, unfinished);
  return failure;
}

}  // namespace heddle::sdk
