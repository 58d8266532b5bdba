// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stream of an application beside the fake: what is enqueued runs in order on its thread. The native word of a stream is its address, that of
// device memory an ordinary address. Used by tests of calls that are ordered with a stream, and by the fake's heddle.native/1.
#ifndef HEDDLE_TESTS_FAKE_GPU_STREAM_H_
#define HEDDLE_TESTS_FAKE_GPU_STREAM_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace heddle::fake {

class Stream {
 public:
  // lag: the time that it takes to come to each piece of work.
  explicit Stream(std::chrono::milliseconds lag = {}) : lag_(lag), thread_([this] { loop(); }) {}
  ~Stream() {
    enqueue(nullptr);
    thread_.join();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void enqueue(std::function<void()> work) {
    std::lock_guard<std::mutex> lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }
  void synchronize() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return work_.empty(); });
  }

 private:
  void loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !work_.empty(); });
      std::function<void()> work = work_.front();
      if (!work) return;
      lock.unlock();
      std::this_thread::sleep_for(lag_);
      work();
      lock.lock();
      work_.pop_front();
      changed_.notify_all();
    }
  }

  const std::chrono::milliseconds lag_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;  // the first one runs; an empty one ends the thread
  std::thread thread_;
};

}  // namespace heddle::fake
#endif  // HEDDLE_TESTS_FAKE_GPU_STREAM_H_
