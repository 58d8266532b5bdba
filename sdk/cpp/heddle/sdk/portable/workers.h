// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads that share the work of a call of Program::run (interpreter.h). A driver makes them once for a device.
#ifndef HEDDLE_SDK_PORTABLE_WORKERS_H_
#define HEDDLE_SDK_PORTABLE_WORKERS_H_

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace heddle::sdk::portable {

inline constexpr uint32_t kMostWorkers = 1024;

class Workers {
 public:
  // `count` threads, the caller of run() among them, so that 1 starts none; at most kMostWorkers. They block all signals and have the default
  // floating-point environment. Throws std::system_error if a thread cannot be started.
  explicit Workers(uint32_t count);
  // No call of run() may be in progress.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  uint32_t count() const { return static_cast<uint32_t>(threads_.size()) + 1; }

  // Calls task(part) for each part below `parts`, the first one in the caller's thread, and returns when all are done. Any thread may call it; the calls
  // take turns. What a task throws is thrown here, once; the other parts are done nevertheless.
  void run(uint32_t parts, const std::function<void(uint32_t)>& task);

 private:
  void loop();
  // Does parts until none is left. `lock` holds mutex_.
  void take(std::unique_lock<std::mutex>& lock);

  std::vector<std::thread> threads_;
  std::mutex turn_, mutex_;
  std::condition_variable more_, done_;
  // Under mutex_:
  const std::function<void(uint32_t)>* task_ = nullptr;
  uint32_t next_ = 0, parts_ = 0, unfinished_ = 0;
  std::exception_ptr thrown_;
  bool stop_ = false;
};

}  // namespace heddle::sdk::portable
#endif  // HEDDLE_SDK_PORTABLE_WORKERS_H_
