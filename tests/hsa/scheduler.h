// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What GPUs of the stand-in do: one thread takes a step of a queue or of a copy, whichever the seed chooses among those that may go on. Kernels of
// several queues take turns on this thread. As with AMD's runtime, the number of threads of a process does not depend on the number of queues.
#pragma once

#include <ucontext.h>

#include "tests/hsa/runtime.h"

namespace heddle::hsa {

// A function with a stack of its own, which the scheduler's thread runs in turns.
class Fiber {
 public:
  Fiber() = default;
  ~Fiber();
  void begin(std::function<void()> work);  // does not run it yet
  void turn();                             // runs it until it yields or ends
  void yield();                            // called by the work
  bool active() const { return active_; }

 private:
  static void enter(unsigned high, unsigned low);

  ucontext_t here_{}, there_{};
  std::byte* stack_ = nullptr;
  std::function<void()> work_;
  bool active_ = false;
};

struct Queue {
  explicit Queue(uint64_t seed) : random(seed) {}
  Random random;
  amd_queue_t* shared = nullptr;
  uint64_t shared_bytes = 0;
  uint32_t gpu = 1;
  amd_signal_t* doorbell = nullptr;
  void (*callback)(hsa_status_t, hsa_queue_t*, void*) = nullptr;
  void* data = nullptr;
  bool broken = false;

  uint64_t read = 0;             // packets taken
  uint64_t head_seen = 0;        // one more than the packet that `head_not_before` is for
  uint64_t head_not_before = 0;  // when the next packet may be taken
  struct Kernel {
    hsa_kernel_dispatch_packet_t packet;
    uint64_t not_before;
  };
  std::vector<Kernel> launched;  // have been taken, may run in any order
  // The kernel that runs.
  Fiber fiber;
  hsa_kernel_dispatch_packet_t packet{};
  uint64_t started = 0;
  uint64_t quanta = 0;  // turns of waves until it yields
  bool waits = false;   // a kernel of HIP that waits for a value in memory
  std::string fault;
  amdgpu::Statistics statistics;
};

class Scheduler {
 public:
  void start();  // once
  void add(std::shared_ptr<Queue> queue);
  void remove(const hsa_queue_t* queue);  // what runs ends first
  std::shared_ptr<Queue> find(const hsa_queue_t* queue);
  void add(Copy copy);

 private:
  enum class Step : uint8_t { TakePacket, StartKernel, ContinueKernel, MoveCopy };
  struct Choice {
    Step step;
    Queue* queue = nullptr;
    size_t index = 0;
  };
  struct PendingCopy {
    Copy copy;
    size_t part = 0;
    uint64_t done = 0, started = 0;
    uint64_t not_before = 0;  // 0: the dependencies do not hold yet
  };

  [[noreturn]] void loop();
  uint64_t delay();
  bool packet_ready(Queue& q, uint64_t& not_before);
  void take_packet(Queue& q);
  void start_kernel(Queue& q, size_t index);
  void run_kernel(Queue& q);
  void continue_kernel(Queue& q);
  void finish_kernel(Queue& q);
  void move_copy(size_t index);
  void complete(hsa_signal_t signal, uint64_t started);
  void break_queue(Queue& q, hsa_status_t status, const std::string& text);

  std::mutex mutex_;  // of the lists; held while a step is taken
  std::vector<std::shared_ptr<Queue>> queues_;
  std::vector<PendingCopy> copies_;
  Random random_{settings().seed};
};
Scheduler& scheduler();

}  // namespace heddle::hsa
