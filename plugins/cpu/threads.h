// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fork-join of one CPU device: workers that spin, then sleep. A queue's thread calls run() and is worker 0; knows nothing
// of kernels or commands.
//
// A job's items are cut into one share per worker and each share into a few pieces. A worker claims pieces of its own share first
// (so that the same worker touches the same data dispatch after dispatch), then those of others. The join waits for pieces, not for
// workers: who is still asleep is not missed. A claim compares the job's number, so a late worker never touches a newer job,
// and everything else about a job is read only after a successful claim.
#ifndef HEDDLE_CPU_THREADS_H_
#define HEDDLE_CPU_THREADS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace heddle::cpu {

// Sets the floating-point state that code.h promises to kernels and puts the caller's back (HD-T-02).
class KernelFloatState {
 public:
  KernelFloatState() noexcept;
  ~KernelFloatState();
  KernelFloatState(const KernelFloatState&) = delete;
  KernelFloatState& operator=(const KernelFloatState&) = delete;

 private:
  uint32_t saved_;
};

// Blocks every signal in the threads that are started while it lives, so that the application's handlers stay on its own.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept;
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  unsigned long saved_[16];
};

void name_thread(const char* name) noexcept;
void pin_thread(const std::vector<uint32_t>& cpus) noexcept;

class Workers {
 public:
  // Runs items [first, last) as `worker`. Returns 0 or the number of a failure.
  using Body = int32_t (*)(void* context, uint64_t first, uint64_t last, uint32_t worker) noexcept;

  // Worker i runs on cpus[i] (worker 0 is the caller of run). Threads start at the first job that needs them.
  Workers(std::vector<uint32_t> cpus, bool pin, uint64_t spin_ns);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  uint32_t count() const noexcept { return static_cast<uint32_t>(cpus_.size()); }
  const std::vector<uint32_t>& cpus() const noexcept { return cpus_; }

  // One job at a time: hold this around run() and what it needs per worker.
  std::mutex& busy() noexcept { return busy_; }

  // Runs [0, count) on at most `workers` workers, cut into pieces of at least min_piece items; blocks. Returns 0, or the failure
  // of one of the pieces.
  int32_t run(Body body, void* context, uint64_t count, uint32_t workers, uint64_t min_piece) noexcept;

 private:
  struct alignas(64) Share {
    std::atomic<uint64_t> ticket{0};  // job's number << 32 | pieces << 16 | next piece
    uint64_t first = 0, last = 0;
  };
  struct alignas(64) Job {
    Body body = nullptr;
    void* context = nullptr;
    uint32_t shares = 0;
  };

  void start() noexcept;
  void work(uint32_t worker) noexcept;
  // Claims and runs pieces of job `number` until none is left.
  void take_pieces(uint32_t worker, uint32_t number) noexcept;

  std::vector<uint32_t> cpus_;
  const bool pin_;
  const uint64_t spin_ns_;
  std::mutex busy_;
  bool started_ = false;  // under busy_
  uint32_t running_ = 1;  // workers that exist, the caller included
  std::vector<std::thread> threads_;
  std::unique_ptr<Share[]> shares_;
  Job job_;
  alignas(64) std::atomic<uint32_t> number_{0};  // of the newest job; workers sleep on it
  alignas(64) std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<uint64_t> done_{0};  // pieces of the newest job
  std::atomic<int32_t> failure_{0};
};

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_THREADS_H_
