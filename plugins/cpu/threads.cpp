// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The spinning, then sleeping fork-join.
#include "cpu/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "heddle/sdk/futex.h"

namespace heddle::cpu {
namespace {

constexpr uint32_t kDefaultMxcsr = 0x1f80;  // round to nearest, no flush to zero, exceptions masked (code.h)
constexpr uint64_t kPiecesPerShare = 4;

}  // namespace

KernelFloatState::KernelFloatState() noexcept : saved_(_mm_getcsr()) {
  if (saved_ != kDefaultMxcsr) _mm_setcsr(kDefaultMxcsr);
}
KernelFloatState::~KernelFloatState() {
  _mm_setcsr(saved_);
}

static_assert(sizeof(sigset_t) <= sizeof(unsigned long[16]));
SignalsBlocked::SignalsBlocked() noexcept {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::memcpy(saved_, &before, sizeof before);
}
SignalsBlocked::~SignalsBlocked() {
  sigset_t before;
  std::memcpy(&before, saved_, sizeof before);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void name_thread(const char* name) noexcept {
  pthread_setname_np(pthread_self(), name);
}

void pin_thread(const std::vector<uint32_t>& cpus) noexcept {
  const uint32_t highest = cpus.empty() ? 0 : *std::max_element(cpus.begin(), cpus.end());
  cpu_set_t* set = CPU_ALLOC(highest + 1);
  if (!set) return;
  const size_t bytes = CPU_ALLOC_SIZE(highest + 1);
  CPU_ZERO_S(bytes, set);
  for (uint32_t cpu : cpus) CPU_SET_S(cpu, bytes, set);
  // A refusal (the set shrank meanwhile) only costs speed.
  if (!cpus.empty()) pthread_setaffinity_np(pthread_self(), bytes, set);
  CPU_FREE(set);
}

Workers::Workers(std::vector<uint32_t> cpus, bool pin, uint64_t spin_ns)
    : cpus_(std::move(cpus)), pin_(pin), spin_ns_(spin_ns), shares_(new Share[std::max<size_t>(cpus_.size(), 1)]) {}

Workers::~Workers() {
  stop_.store(true, std::memory_order_relaxed);
  number_.fetch_add(1);
  sdk::futex_wake(number_);
  for (std::thread& thread : threads_) thread.join();
}

void Workers::start() noexcept {
  started_ = true;
  SignalsBlocked blocked;
  for (uint32_t worker = 1; worker < count(); ++worker) {
    try {
      threads_.emplace_back([this, worker] { work(worker); });
      running_ = worker + 1;
    } catch (...) {  // no more threads to be had: go on with fewer
      break;
    }
  }
}

void Workers::work(uint32_t worker) noexcept {
  char name[16];
  std::snprintf(name, sizeof name, "heddle-cpu-%u", worker % 10000);
  name_thread(name);
  if (pin_) pin_thread({cpus_[worker]});
  _mm_setcsr(kDefaultMxcsr);  // a new thread inherits its creator's
  uint32_t seen = 0;
  for (;;) {
    uint32_t number;
    uint64_t spin_end = 0;
    for (uint32_t turn = 0; (number = number_.load(std::memory_order_acquire)) == seen; ++turn) {
      sdk::cpu_pause();
      if ((turn & 63) != 63) continue;  // look at the clock now and then only
      const uint64_t now = sdk::monotonic_ns();
      if (spin_end == 0) spin_end = now + spin_ns_;
      if (now < spin_end) continue;
      sleepers_.fetch_add(1);  // ordered before the look at number_ inside the kernel's wait
      if (number_.load() == seen) sdk::futex_wait(number_, seen, UINT64_MAX);
      sleepers_.fetch_sub(1);
      spin_end = 0;
    }
    if (stop_.load(std::memory_order_relaxed)) return;
    seen = number;
    take_pieces(worker, number);
  }
}

void Workers::take_pieces(uint32_t worker, uint32_t number) noexcept {
  uint64_t taken = 0;
  const uint32_t all = count();
  uint32_t share = worker;
  for (uint32_t visited = 0; visited < all; ++visited, share = share + 1 == all ? 0 : share + 1) {
    Share& from = shares_[share];
    uint64_t ticket = from.ticket.load(std::memory_order_acquire);
    for (;;) {
      const uint64_t next = ticket & 0xffff, pieces = (ticket >> 16) & 0xffff;
      if ((ticket >> 32) != number || next >= pieces) break;
      if (!from.ticket.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acquire)) continue;
      // The job cannot end before this piece is counted: what it says holds until then.
      const uint64_t length = from.last - from.first;
      const uint64_t first = from.first + length / pieces * next + std::min(next, length % pieces);
      const uint64_t last = first + length / pieces + (next < length % pieces ? 1 : 0);
      const int32_t failure = job_.body(job_.context, first, last, worker);
      if (failure != 0) [[unlikely]] {
        int32_t none = 0;
        failure_.compare_exchange_strong(none, failure, std::memory_order_relaxed);
      }
      ++taken;
      ticket = from.ticket.load(std::memory_order_acquire);
    }
  }
  if (taken) done_.fetch_add(taken, std::memory_order_acq_rel);
}

int32_t Workers::run(Body body, void* context, uint64_t count, uint32_t workers, uint64_t min_piece) noexcept {
  if (count == 0) return 0;
  if (min_piece == 0) min_piece = 1;
  workers = static_cast<uint32_t>(std::min<uint64_t>({workers, this->count(), (count - 1) / min_piece + 1}));
  if (workers > 1 && !started_) start();
  workers = std::min(workers, running_);
  if (workers <= 1) return body(context, 0, count, 0);

  job_.body = body;
  job_.context = context;
  job_.shares = workers;
  done_.store(0, std::memory_order_relaxed);
  failure_.store(0, std::memory_order_relaxed);
  uint32_t number = number_.load(std::memory_order_relaxed) + 1;
  if (number == 0) number = 1;  // after 2^32 jobs; 0 is what a new worker has seen
  uint64_t pieces_in_all = 0;
  const uint64_t length = count / workers, rest = count % workers;
  for (uint32_t i = 0; i < this->count(); ++i) {
    Share& share = shares_[i];
    uint64_t pieces = 0;
    if (i < workers) {
      share.first = length * i + std::min<uint64_t>(i, rest);
      share.last = share.first + length + (i < rest ? 1 : 0);
      pieces = std::clamp<uint64_t>((share.last - share.first) / min_piece, 1, kPiecesPerShare);
      pieces_in_all += pieces;
    }
    share.ticket.store((static_cast<uint64_t>(number) << 32) | (pieces << 16), std::memory_order_release);
  }
  number_.store(number);  // seq_cst: ordered before the look at sleepers_
  if (sleepers_.load() != 0) sdk::futex_wake(number_);
  take_pieces(0, number);
  for (uint32_t turn = 0; done_.load(std::memory_order_acquire) != pieces_in_all; ++turn) {
    if (turn < 20000) {
      sdk::cpu_pause();
    } else {
      sched_yield();  // a worker lost its core to another process
    }
  }
  return failure_.load(std::memory_order_relaxed);
}

}  // namespace heddle::cpu
