// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fork-join of one CPU device: workers that spin, then sleep, and are shared by the callers that have work at the same time. A caller is a
// queue's thread, or a thread that waits; this code knows nothing of kernels or commands.
//
// A caller takes a team for as long as it has work. Callers and their workers share the device's cores: a single caller has all workers in its
// team, two callers have half each, and with at least as many callers as cores each works alone. A team takes and returns workers only between two
// jobs. While other devices compute on the same processors, callers have only the device's share of the threads.
//
// A job's items are divided into one share per member of the team, and each share into a few pieces. A member first claims pieces of its own share
// (so that the same worker touches the same data dispatch after dispatch), then those of others. The join waits for pieces, not for
// workers: a worker that is still asleep does not delay it. A claim compares the job's number, which is unique within the device, so a late worker
// never touches a newer job; everything else about a job is read only after a successful claim.
#ifndef HEDDLE_CPU_THREADS_H_
#define HEDDLE_CPU_THREADS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cpu/neighbors.h"

namespace heddle::cpu {

// Sets the floating-point state that code.h guarantees to kernels, and restores the caller's (HD-T-02).
class KernelFloatState {
 public:
  KernelFloatState() noexcept;
  ~KernelFloatState();
  KernelFloatState(const KernelFloatState&) = delete;
  KernelFloatState& operator=(const KernelFloatState&) = delete;

 private:
  uint32_t saved_;
};

void name_thread(const char* name) noexcept;
void pin_thread(const std::vector<uint32_t>& cpus) noexcept;

class Workers {
  struct Seat;

 public:
  // Runs items [first, last) at `place`, below places(), where no other body runs at the same time. Returns 0 or the number of a failure.
  using Body = int32_t (*)(void* context, uint64_t first, uint64_t last, uint32_t place) noexcept;
  // The first item of share `share` of `shares`; for `share` equal to `shares`, the end of the last item.
  using Bound = uint64_t (*)(void* context, uint64_t share, uint64_t shares) noexcept;

  // `threads`: a caller and its workers. If pinned, each worker runs on one of cpus[1..], otherwise anywhere on cpus. Threads start at the
  // first job that needs them. `shares`: processors are shared with the neighbors (neighbors.h).
  Workers(std::vector<uint32_t> cpus, uint32_t threads, bool pin, uint64_t spin_ns, bool shares = false);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  uint32_t count() const noexcept { return threads_; }
  const std::vector<uint32_t>& cpus() const noexcept { return cpus_; }
  // How many workers are sleeping, and how often a worker was woken; a worker's number is its place.
  uint32_t sleeping() const noexcept { return sleepers_.load(); }
  uint64_t wakes(uint32_t worker) const noexcept { return mailboxes_[worker].wakes.load(std::memory_order_relaxed); }
  // Number of places; a body that needs scratch memory keeps one per place.
  uint32_t places() const noexcept { return threads_ - 1 + seats_; }

  // One caller's share of the workers. With more than `seats` callers at once the last ones wait.
  class Team {
   public:
    // A queue's thread passes a flag for whether it is pinned to cpus[0], initially false. It is pinned there while it is the only caller;
    // otherwise it may run on any of cpus. NULL: the caller is not moved.
    explicit Team(Workers* workers, bool* own_core = nullptr) noexcept;
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    // Takes or returns workers according to the number of callers. Returns how many members the next job may have, at most `wanted`,
    // including the caller.
    uint32_t settle(uint32_t wanted) noexcept;
    // The place of a member, until the team settles again; 0 is the caller.
    uint32_t place(uint32_t member) const noexcept;
    // Runs [0, count) on at most `members` members, the result of settle, in pieces of at least min_piece items; blocks. Returns 0, or the failure
    // of one of the pieces.
    int32_t run(Body body, void* context, uint64_t count, uint32_t members, uint64_t min_piece) noexcept;
    // The same with shares that begin at bounds, each divided into `pieces`.
    int32_t run(Body body, void* context, Bound bound, uint32_t members, uint64_t pieces) noexcept;

   private:
    template <typename First, typename Pieces>
    int32_t fork(Body body, void* context, uint32_t members, First first_of, Pieces pieces_of) noexcept;

    Workers* workers_;
    Seat* seat_;
    uint64_t start_ns_ = 0;  // if the processors are shared
    uint32_t settled_ = 0;   // how often
  };

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;
  static constexpr uint32_t kSleepersAWord = 32;  // one bit each

  struct alignas(64) Share {
    std::atomic<uint64_t> ticket{0};  // job's number << 32 | pieces << 16 | next piece
    uint64_t first = 0, last = 0;
  };
  // Watched by a worker.
  struct alignas(64) Mailbox {
    std::atomic<uint64_t> call{0};  // job's number << 32 | the seat << 16 | the worker's member number; a low half of ones: go to sleep
    std::atomic<uint32_t> asleep{0};
    std::atomic<uint64_t> wakes{0};  // written only by the worker
  };
  struct alignas(64) Seat {
    Body body = nullptr;
    void* context = nullptr;
    std::atomic<uint32_t> size{1};  // members of the newest job
    uint32_t members = 1;           // of the team
    uint32_t generation = 0;        // when it last settled
    uint32_t number = 0;            // index of the seat
    bool taken = false;             // under mutex_
    bool* own_core = nullptr;       // the caller's
    std::unique_ptr<std::atomic<uint32_t>[]> places;
    alignas(64) std::atomic<uint64_t> done{0};  // pieces of the newest job
    std::atomic<int32_t> failure{0};
  };

  uint32_t words() const noexcept { return (threads_ + kSleepersAWord - 1) / kSleepersAWord; }
  void work(uint32_t worker) noexcept;
  // Claims and runs pieces of job `number` until none is left, at the place of the current thread.
  void take_pieces(Seat* seat, uint32_t member, uint32_t place, uint32_t number) noexcept;
  // Under mutex_.
  void start() noexcept;
  void adopt(Seat* seat) noexcept;
  void release(uint32_t worker) noexcept;
  // Adapts the number of threads to the neighbors, at most once per millisecond. is_long: a call has taken so long that they should know of it.
  void look_around(uint64_t now, bool is_long) noexcept;
  // Called by the first worker before it sleeps: leaves the neighbors if no long call computed lately. Returns when to call it again; UINT64_MAX:
  // after the next wake-up.
  uint64_t next_look() noexcept;

  const std::vector<uint32_t> cpus_;
  const uint32_t threads_;
  const bool pin_;
  const uint64_t spin_ns_;
  const uint32_t seats_;
  std::mutex mutex_;
  std::condition_variable seat_free_;
  std::atomic<bool> started_{false};  // written under mutex_, like the next three
  uint32_t callers_ = 0;              // seats that are taken
  std::vector<uint32_t> owner_;       // per running worker: a seat or kNobody
  std::vector<std::thread> running_;
  uint32_t limit_;                        // threads that callers may use now, under mutex_
  std::unique_ptr<Share[]> shares_;       // per place
  std::unique_ptr<Mailbox[]> mailboxes_;  // per worker, indexed by its place
  std::unique_ptr<Seat[]> all_seats_;
  std::unique_ptr<std::atomic<uint32_t>[]> epochs_;  // workers sleep on these: one word per kSleepersAWord of them
  alignas(64) std::atomic<uint32_t> generation_{0};  // incremented when callers come and go and when workers become free
  alignas(64) std::atomic<uint32_t> number_{0};      // of the newest job
  alignas(64) std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::mutex neighbors_mutex_;
  std::unique_ptr<Neighbors> neighbors_;  // under neighbors_mutex_; null if the processors are not shared
  std::atomic<uint64_t> looked_ns_{0};    // when the neighbors were last counted
  std::atomic<uint64_t> computed_ns_{0};  // when a long call last computed; 0: they do not know of this device
};

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_THREADS_H_
