// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fork-join of one CPU device: workers that spin, then sleep, and are shared out among the callers that have work at the same time. A caller
// is a queue's thread, or one that waits; knows nothing of kernels or commands.
//
// A caller takes a team for as long as it has work. Callers and their workers share the device's cores: one caller alone has all workers in its team, two have half
// each, and with as many callers as cores, or more, each works by itself. A team takes and gives back workers between two jobs only.
//
// A job's items are cut into one share per member of the team and each share into a few pieces. A member claims pieces of its own share first
// (so that the same worker touches the same data dispatch after dispatch), then those of others. The join waits for pieces, not for
// workers: who is still asleep is not missed. A claim compares the job's number, which no other job of the device has, so a late worker never touches
// a newer job, and everything else about a job is read only after a successful claim.
#ifndef HEDDLE_CPU_THREADS_H_
#define HEDDLE_CPU_THREADS_H_

#include <atomic>
#include <condition_variable>
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
  struct Seat;

 public:
  // Runs items [first, last) at `place`, below places(), where no other body runs meanwhile. Returns 0 or the number of a failure.
  using Body = int32_t (*)(void* context, uint64_t first, uint64_t last, uint32_t place) noexcept;
  // The first item of share `share` of `shares`; `shares` of them end with the last item.
  using Bound = uint64_t (*)(void* context, uint64_t share, uint64_t shares) noexcept;

  // `threads`: a caller and its workers. If pinned, each worker runs on one of cpus[1..], else anywhere on cpus. Threads start at the first job that
  // needs them.
  Workers(std::vector<uint32_t> cpus, uint32_t threads, bool pin, uint64_t spin_ns);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  uint32_t count() const noexcept { return threads_; }
  const std::vector<uint32_t>& cpus() const noexcept { return cpus_; }
  // How many workers sleep, and how often one of them was woken; its number is its place.
  uint32_t sleeping() const noexcept { return sleepers_.load(); }
  uint64_t wakes(uint32_t worker) const noexcept { return mailboxes_[worker].wakes.load(std::memory_order_relaxed); }
  // Number of places; a body that needs scratch memory keeps one per place.
  uint32_t places() const noexcept { return threads_ - 1 + seats_; }

  // One caller's part of the workers. Of more than `seats` callers at once the last ones wait.
  class Team {
   public:
    // A queue's thread passes a flag that says whether it is pinned to cpus[0], false at first. It is pinned there while it is the only caller; otherwise it may run
    // on any of cpus. NULL: the caller is left where it is.
    explicit Team(Workers* workers, bool* own_core = nullptr) noexcept;
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    // Takes or gives back workers, as the number of callers demands. Returns how many members the next job may have, of those wanted and the
    // caller included.
    uint32_t settle(uint32_t wanted) noexcept;
    // The place of a member, until the team settles again; 0 is the caller.
    uint32_t place(uint32_t member) const noexcept;
    // Runs [0, count) on at most `members` members, as settle said, cut into pieces of at least min_piece items; blocks. Returns 0, or the failure
    // of one of the pieces.
    int32_t run(Body body, void* context, uint64_t count, uint32_t members, uint64_t min_piece) noexcept;
    // The same with shares that begin at bounds, each cut into `pieces`.
    int32_t run(Body body, void* context, Bound bound, uint32_t members, uint64_t pieces) noexcept;

   private:
    template <typename First, typename Pieces>
    int32_t fork(Body body, void* context, uint32_t members, First first_of, Pieces pieces_of) noexcept;

    Workers* workers_;
    Seat* seat_;
  };

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;
  static constexpr uint32_t kSleepersAWord = 32;  // a bit each

  struct alignas(64) Share {
    std::atomic<uint64_t> ticket{0};  // job's number << 32 | pieces << 16 | next piece
    uint64_t first = 0, last = 0;
  };
  // What a worker watches.
  struct alignas(64) Mailbox {
    std::atomic<uint64_t> call{0};  // job's number << 32 | the seat << 16 | which member the worker is; a low half of ones: go to sleep
    std::atomic<uint32_t> asleep{0};
    std::atomic<uint64_t> wakes{0};  // written by the worker alone
  };
  struct alignas(64) Seat {
    Body body = nullptr;
    void* context = nullptr;
    std::atomic<uint32_t> size{1};  // members of the newest job
    uint32_t members = 1;           // of the team
    uint32_t generation = 0;        // when it last settled
    uint32_t number = 0;            // which seat it is
    bool taken = false;             // under mutex_
    bool* own_core = nullptr;       // the caller's
    std::unique_ptr<std::atomic<uint32_t>[]> places;
    alignas(64) std::atomic<uint64_t> done{0};  // pieces of the newest job
    std::atomic<int32_t> failure{0};
  };

  uint32_t words() const noexcept { return (threads_ + kSleepersAWord - 1) / kSleepersAWord; }
  void work(uint32_t worker) noexcept;
  // Claims and runs pieces of job `number` until none is left, at the place of the thread that does.
  void take_pieces(Seat* seat, uint32_t member, uint32_t place, uint32_t number) noexcept;
  // Under mutex_.
  void start() noexcept;
  void adopt(Seat* seat) noexcept;
  void release(uint32_t worker) noexcept;

  const std::vector<uint32_t> cpus_;
  const uint32_t threads_;
  const bool pin_;
  const uint64_t spin_ns_;
  const uint32_t seats_;
  std::mutex mutex_;
  std::condition_variable seat_free_;
  std::atomic<bool> started_{false};  // written under mutex_, as are the next three
  uint32_t callers_ = 0;              // seats that are taken
  std::vector<uint32_t> owner_;       // of each worker: a seat or kNobody; as many as run
  std::vector<std::thread> running_;
  std::unique_ptr<Share[]> shares_;       // by place
  std::unique_ptr<Mailbox[]> mailboxes_;  // by worker, which is its place
  std::unique_ptr<Seat[]> all_seats_;
  std::unique_ptr<std::atomic<uint32_t>[]> epochs_;  // what workers sleep on: a word for each kSleepersAWord of them
  alignas(64) std::atomic<uint32_t> generation_{0};  // grows when callers come and go and when workers become free
  alignas(64) std::atomic<uint32_t> number_{0};      // of the newest job
  alignas(64) std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_THREADS_H_
