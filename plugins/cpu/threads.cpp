// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The spinning, then sleeping fork-join.
#include "cpu/threads.h"

#include <pthread.h>
#include <sched.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "heddle/sdk/futex.h"
#include "heddle/sdk/signals_blocked.h"

namespace heddle::cpu {
namespace {

constexpr uint32_t kDefaultMxcsr = 0x1f80;  // round to nearest, no flush to zero, exceptions masked (code.h)
constexpr uint64_t kPiecesPerShare = 4;
constexpr uint32_t kSpareSeats = 8;  // callers beyond one per core
constexpr uint32_t kTurnsBeforeYield = 1000;
constexpr uint64_t kLookNs = 1'000'000;    // between two looks at the neighbors
constexpr uint64_t kLongCallNs = 500'000;  // shorter calls leave the neighbors alone
constexpr uint64_t kLeaveNs = 20'000'000;  // without a long call
constexpr uint32_t kSettlesPerLook = 8;    // between two readings of the clock
constexpr uint64_t kRest = UINT32_MAX;     // instead of a seat and a member: sleep at once

}  // namespace

KernelFloatState::KernelFloatState() noexcept : saved_(_mm_getcsr()) {
  if (saved_ != kDefaultMxcsr) _mm_setcsr(kDefaultMxcsr);
}
KernelFloatState::~KernelFloatState() {
  _mm_setcsr(saved_);
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

Workers::Workers(std::vector<uint32_t> cpus, uint32_t threads, bool pin, uint64_t spin_ns, bool shares)
    : cpus_(std::move(cpus)),
      threads_(std::max(threads, 1u)),
      pin_(pin && cpus_.size() >= threads_),
      spin_ns_(spin_ns),
      seats_(threads_ + kSpareSeats),
      limit_(threads_),
      shares_(new Share[places()]),
      mailboxes_(new Mailbox[threads_]),
      all_seats_(new Seat[seats_]),
      epochs_(new std::atomic<uint32_t>[words()] {}) {
  if (shares && threads_ > 1) neighbors_ = std::make_unique<Neighbors>(cpus_);
  for (uint32_t i = 0; i < seats_; ++i) {
    Seat& seat = all_seats_[i];
    seat.number = i;
    seat.places.reset(new std::atomic<uint32_t>[threads_]);
    for (uint32_t member = 0; member < threads_; ++member) seat.places[member].store(threads_ - 1 + i, std::memory_order_relaxed);
  }
}

Workers::~Workers() {
  stop_.store(true);
  for (uint32_t word = 0; word < words(); ++word) {
    epochs_[word].fetch_add(1);
    sdk::futex_wake(epochs_[word]);
  }
  for (std::thread& thread : running_) thread.join();
}

void Workers::start() noexcept {
  if (started_.exchange(true)) return;
  generation_.fetch_add(1, std::memory_order_release);  // existing teams get their part
  sdk::SignalsBlocked blocked;
  for (uint32_t worker = 0; worker + 1 < threads_; ++worker) {
    try {
      owner_.reserve(worker + 1);
      running_.emplace_back([this, worker] { work(worker); });
      owner_.push_back(kNobody);
    } catch (...) {  // no more threads can be created: continue with fewer
      break;
    }
  }
}

void Workers::work(uint32_t worker) noexcept {
  char name[16];
  std::snprintf(name, sizeof name, "heddle-cpu-%u", (worker + 1) % 10000);
  name_thread(name);
  pin_thread(pin_ ? std::vector<uint32_t>{cpus_[worker + 1]} : cpus_);
  _mm_setcsr(kDefaultMxcsr);  // a new thread inherits its creator's
  Mailbox& mailbox = mailboxes_[worker];
  const std::atomic<uint32_t>& word = epochs_[worker / kSleepersAWord];
  uint64_t seen = 0;
  for (;;) {
    uint64_t call;
    uint64_t spin_end = (seen & kRest) == kRest ? 1 : 0;
    for (uint32_t turn = 0; (call = mailbox.call.load(std::memory_order_acquire)) == seen; ++turn) {
      sdk::cpu_pause();
      if ((turn & 63) != 63) continue;  // read the clock only occasionally
      if (stop_.load(std::memory_order_relaxed)) return;
      const uint64_t now = sdk::monotonic_ns();
      if (spin_end == 0) spin_end = now + spin_ns_;
      if (now < spin_end) continue;
      // A caller either sees this sleeper or has written the call before this check.
      mailbox.asleep.store(1, std::memory_order_relaxed);
      sleepers_.fetch_add(1);
      const uint32_t epoch = word.load();
      if (mailbox.call.load(std::memory_order_relaxed) == seen && !stop_.load()) {
        sdk::futex_wait_bits(word, epoch, 1u << (worker % kSleepersAWord), worker == 0 ? next_look() : UINT64_MAX);
        mailbox.wakes.fetch_add(1, std::memory_order_relaxed);
      }
      sleepers_.fetch_sub(1);
      mailbox.asleep.store(0, std::memory_order_relaxed);
      if (spin_end != 1) spin_end = 0;  // another worker was woken, or none
    }
    seen = call;
    if ((call & kRest) == kRest) continue;
    take_pieces(&all_seats_[(call >> 16) & 0xffff], call & 0xffff, worker, static_cast<uint32_t>(call >> 32));
  }
}

void Workers::take_pieces(Seat* seat, uint32_t member, uint32_t place, uint32_t number) noexcept {
  uint64_t taken = 0;
  const uint32_t all = seat->size.load(std::memory_order_relaxed);
  for (uint32_t visited = 0; visited < all; ++visited, member = member + 1 >= all ? 0 : member + 1) {
    Share& from = shares_[seat->places[member].load(std::memory_order_relaxed)];
    uint64_t ticket = from.ticket.load(std::memory_order_acquire);
    for (;;) {
      const uint64_t next = ticket & 0xffff, pieces = (ticket >> 16) & 0xffff;
      if ((ticket >> 32) != number || next >= pieces) break;
      if (!from.ticket.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acquire)) continue;
      // The job cannot end before this piece is counted, so the values read here are valid until then.
      const uint64_t length = from.last - from.first;
      const uint64_t first = from.first + length / pieces * next + std::min(next, length % pieces);
      const uint64_t last = first + length / pieces + (next < length % pieces ? 1 : 0);
      const int32_t failure = first == last ? 0 : seat->body(seat->context, first, last, place);
      if (failure != 0) [[unlikely]] {
        int32_t none = 0;
        seat->failure.compare_exchange_strong(none, failure, std::memory_order_relaxed);
      }
      ++taken;
      ticket = from.ticket.load(std::memory_order_acquire);
    }
  }
  if (taken) seat->done.fetch_add(taken, std::memory_order_acq_rel);
}

void Workers::adopt(Seat* seat) noexcept {
  // Workers are shared out evenly; remaining ones go to the first seats.
  uint32_t before = 0;
  for (uint32_t i = 0; i < seat->number; ++i) before += all_seats_[i].taken;
  const uint32_t running = std::min(static_cast<uint32_t>(owner_.size()) + 1, limit_), spare = running > callers_ ? running - callers_ : 0;
  const uint32_t fair = spare / callers_ + (before < spare % callers_ ? 1 : 0);
  uint32_t has = 0;
  bool freed = false;
  for (uint32_t& owner : owner_) has += owner == seat->number;
  for (uint32_t worker = static_cast<uint32_t>(owner_.size()); worker-- > 0 && has > fair;) {
    if (owner_[worker] != seat->number) continue;
    release(worker);
    freed = true;
    --has;
  }
  if (freed) generation_.fetch_add(1, std::memory_order_release);
  for (uint32_t worker = 0; worker < owner_.size() && has < fair; ++worker) {
    if (owner_[worker] != kNobody) continue;
    owner_[worker] = seat->number;
    ++has;
  }
  seat->members = 1;
  for (uint32_t worker = 0; worker < owner_.size(); ++worker) {
    if (owner_[worker] == seat->number) seat->places[seat->members++].store(worker, std::memory_order_relaxed);
  }
  seat->generation = generation_.load(std::memory_order_relaxed);
  if (pin_ && seat->own_core && *seat->own_core != (callers_ == 1)) {
    *seat->own_core = callers_ == 1;
    pin_thread(callers_ == 1 ? std::vector<uint32_t>{cpus_[0]} : cpus_);
  }
}

void Workers::release(uint32_t worker) noexcept {
  owner_[worker] = kNobody;
  mailboxes_[worker].call.store(kRest, std::memory_order_release);
}

void Workers::look_around(uint64_t now, bool is_long) noexcept {
  if (is_long && computed_ns_.load(std::memory_order_relaxed) != 0) computed_ns_.store(now, std::memory_order_relaxed);
  if (now - looked_ns_.load(std::memory_order_relaxed) < kLookNs) return;
  std::unique_lock<std::mutex> neighbors_lock(neighbors_mutex_, std::try_to_lock);
  if (!neighbors_lock) return;  // another caller does it
  looked_ns_.store(now, std::memory_order_relaxed);
  const uint32_t limit = std::max(threads_ / (neighbors_->count() + 1), 1u);
  std::lock_guard<std::mutex> lock(mutex_);
  if (is_long && !owner_.empty() && !neighbors_->has_entered()) {
    neighbors_->enter();
    if (neighbors_->has_entered()) {
      computed_ns_.store(now, std::memory_order_relaxed);
      epochs_[0].fetch_add(1);  // the first worker is to leave in time, even if it is asleep
      sdk::futex_wake_bits(epochs_[0], 1);
    }
  }
  if (limit == limit_) return;
  limit_ = limit;
  generation_.fetch_add(1, std::memory_order_release);
}

uint64_t Workers::next_look() noexcept {
  const uint64_t computed = computed_ns_.load(std::memory_order_relaxed);
  if (!neighbors_ || computed == 0) return UINT64_MAX;
  if (sdk::monotonic_ns() < computed + kLeaveNs) return computed + kLeaveNs;
  std::lock_guard<std::mutex> lock(neighbors_mutex_);
  neighbors_->leave();
  computed_ns_.store(0, std::memory_order_relaxed);
  return UINT64_MAX;
}

Workers::Team::Team(Workers* workers, bool* own_core) noexcept : workers_(workers) {
  if (workers->neighbors_) {
    start_ns_ = sdk::monotonic_ns();
    workers->look_around(start_ns_, false);
  }
  std::unique_lock<std::mutex> lock(workers->mutex_);
  workers->seat_free_.wait(lock, [&] { return workers->callers_ < workers->seats_; });
  seat_ = workers->all_seats_.get();
  while (seat_->taken) ++seat_;
  seat_->taken = true;
  seat_->own_core = own_core;
  ++workers->callers_;
  workers->generation_.fetch_add(1, std::memory_order_release);
  workers->adopt(seat_);
}

Workers::Team::~Team() {
  Workers* workers = workers_;
  bool waited = false;
  {
    std::lock_guard<std::mutex> lock(workers->mutex_);
    for (uint32_t& owner : workers->owner_) {
      if (owner == seat_->number) owner = kNobody;
    }
    seat_->taken = false;
    waited = workers->callers_-- == workers->seats_;
    workers->generation_.fetch_add(1, std::memory_order_release);
  }
  if (waited) workers->seat_free_.notify_all();
}

uint32_t Workers::Team::settle(uint32_t wanted) noexcept {
  if (workers_->neighbors_ && wanted > 1 && ++settled_ % kSettlesPerLook == 0) {
    const uint64_t now = sdk::monotonic_ns();
    workers_->look_around(now, now - start_ns_ > kLongCallNs);
  }
  const bool starts = wanted > 1 && !workers_->started_.load(std::memory_order_acquire);
  if (starts || seat_->generation != workers_->generation_.load(std::memory_order_acquire)) [[unlikely]] {
    std::lock_guard<std::mutex> lock(workers_->mutex_);
    if (starts) workers_->start();
    workers_->adopt(seat_);
  }
  return std::min(seat_->members, wanted);
}

uint32_t Workers::Team::place(uint32_t member) const noexcept {
  return seat_->places[member].load(std::memory_order_relaxed);
}

template <typename First, typename Pieces>
int32_t Workers::Team::fork(Body body, void* context, uint32_t members, First first_of, Pieces pieces_of) noexcept {
  Workers& all = *workers_;
  seat_->body = body;
  seat_->context = context;
  seat_->size.store(members, std::memory_order_relaxed);
  seat_->done.store(0, std::memory_order_relaxed);
  seat_->failure.store(0, std::memory_order_relaxed);
  uint32_t number = 0;
  while (number == 0) number = all.number_.fetch_add(1, std::memory_order_relaxed) + 1;  // 0 is the initial value of a new worker
  uint64_t pieces_in_all = 0, first = first_of(0);
  for (uint32_t member = 0; member < members; ++member) {
    Share& share = all.shares_[place(member)];
    share.first = first;
    share.last = first = first_of(member + 1);
    const uint64_t pieces = std::clamp<uint64_t>(pieces_of(share.last - share.first), 1, kPiecesPerShare);
    pieces_in_all += pieces;
    share.ticket.store((uint64_t{number} << 32) | (pieces << 16), std::memory_order_release);
  }
  for (uint32_t member = 1; member < members; ++member) {
    all.mailboxes_[place(member)].call.store((uint64_t{number} << 32) | (seat_->number << 16) | member, std::memory_order_release);
  }
  if (all.sleepers_.fetch_add(0) != 0) {  // a read-modify-write that pairs with the sleepers', not only a load: see work()
    // Members are in the order of their places, so those with a common word are adjacent.
    for (uint32_t member = 1; member < members;) {
      const uint32_t word = place(member) / kSleepersAWord;
      uint32_t bits = 0;
      for (; member < members && place(member) / kSleepersAWord == word; ++member) {
        if (all.mailboxes_[place(member)].asleep.load(std::memory_order_relaxed)) bits |= 1u << (place(member) % kSleepersAWord);
      }
      if (!bits) continue;
      all.epochs_[word].fetch_add(1);
      sdk::futex_wake_bits(all.epochs_[word], bits);
    }
  }
  all.take_pieces(seat_, 0, place(0), number);
  for (uint32_t turn = 0; seat_->done.load(std::memory_order_acquire) != pieces_in_all; ++turn) {
    if (turn < kTurnsBeforeYield) {
      sdk::cpu_pause();
    } else {
      sched_yield();  // a worker lost its core to another process
    }
  }
  return seat_->failure.load(std::memory_order_relaxed);
}

int32_t Workers::Team::run(Body body, void* context, uint64_t count, uint32_t members, uint64_t min_piece) noexcept {
  if (count == 0) return 0;
  if (min_piece == 0) min_piece = 1;
  members = static_cast<uint32_t>(std::min<uint64_t>(members, (count - 1) / min_piece + 1));
  if (members <= 1) return body(context, 0, count, place(0));
  const uint64_t length = count / members, rest = count % members;
  return fork(
      body, context, members, [&](uint64_t member) { return length * member + std::min(member, rest); },
      [&](uint64_t items) { return items / min_piece; });
}

int32_t Workers::Team::run(Body body, void* context, Bound bound, uint32_t members, uint64_t pieces) noexcept {
  if (members <= 1) return body(context, bound(context, 0, 1), bound(context, 1, 1), place(0));
  return fork(
      body, context, members, [&](uint64_t member) { return bound(context, member, members); },
      [&](uint64_t items) { return std::min(items, pieces); });
}

}  // namespace heddle::cpu
