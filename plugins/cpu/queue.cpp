// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.dispatch/1 and the queues: the hot path.
#include "cpu/queue.h"

#include <algorithm>
#include <system_error>

#include "heddle/sdk/futex.h"
#include "heddle/sdk/host_timeline.h"
#include "heddle/sdk/signals_blocked.h"

namespace heddle::cpu {

using sdk::guarded;
using sdk::HostTimeline;
using sdk::status;

namespace {

constexpr uint64_t kInlineNs = 50000;  // more expensive lists go to the queue's thread

bool all_reached(const heddle_point_t* points, uint32_t count) noexcept {
  for (uint32_t i = 0; i < count; ++i) {
    if (HostTimeline::from(points[i].timeline)->state(points[i].value) != HostTimeline::State::kReached) return false;
  }
  return true;
}

}  // namespace

Queue::Queue(Device* device, For what) : api_(device->api), device_(device), what_(what) {
  std::lock_guard<std::mutex> lock(device->queues_mutex);
  device->queues.push_back(this);
}

Queue::~Queue() {
  files_.reset();
  {
    std::lock_guard<std::mutex> lock(device_->queues_mutex);
    std::erase(device_->queues, this);
  }
  if (thread_.joinable()) {
    stop_.store(true);
    news_.fetch_add(1);
    sdk::futex_wake(news_);
    thread_.join();
  }
  while (helpers_.load(std::memory_order_acquire) != 0) std::this_thread::yield();  // rare and short
  if (pinned_) device_->pinned_queues.store(0);
  Arena::free_blocks(spare_.load());
}

Queue* Queue::files() {
  std::call_once(files_made_, [this] { files_ = std::make_unique<Queue>(device_, For::kFiles); });
  return files_.get();
}

Queue::Draft::Draft(Queue* queue) noexcept : arena(queue->spare_.exchange(nullptr, std::memory_order_acquire)), queue_(queue) {
  void* memory = arena.take(sizeof(Work));
  work = memory ? new (memory) Work : nullptr;
}

Queue::Draft::~Draft() {
  if (Arena::Block* blocks = arena.release()) queue_->give_back(blocks);
}

void Queue::give_back(Arena::Block* blocks) noexcept {
  if (!blocks) return;
  if (blocks->next) [[unlikely]] {
    Arena::free_blocks(blocks->next);
    blocks->next = nullptr;
  }
  if (Arena::Block* before = spare_.exchange(blocks, std::memory_order_acq_rel)) [[unlikely]]
    Arena::free_blocks(before);
}

heddle_status_t* Queue::submit(Draft* draft, const heddle_sync_t& sync) noexcept {
  const heddle_host_t* host = device_->host;
  Work* work = draft->work;
  if (heddle_status_t* bad = sdk::check_sync(device_, sync)) [[unlikely]]
    return bad;
  if (reads_lost(*work)) [[unlikely]] {
    if (heddle_status_t* loss = device_->steady_files.loss()) return loss;
  }
  if (work->cost_ns < kInlineNs && pending_.load(std::memory_order_acquire) == 0 && all_reached(sync.waits, sync.wait_count)) {
    work->signals = const_cast<heddle_point_t*>(sync.signals);  // read before submit returns
    work->signal_count = sync.signal_count;
    heddle_status_t* failure = run_inline(device_, *work);
    // The block is returned first: a thread that a signal wakes may submit here.
    const Work done = *work;
    give_back(draft->arena.release());
    retire(done, failure);
    return nullptr;
  }
  const uint64_t points = uint64_t{sync.wait_count} + sync.signal_count;
  if (points) {
    auto* kept = static_cast<heddle_point_t*>(draft->arena.take(points * sizeof(heddle_point_t)));
    if (!kept) return sdk::exhausted_status(host, "cpu: submitting");
    if (sync.wait_count) std::memcpy(kept, sync.waits, sync.wait_count * sizeof *kept);
    if (sync.signal_count) std::memcpy(kept + sync.wait_count, sync.signals, sync.signal_count * sizeof *kept);
    work->waits = kept;
    work->signals = kept + sync.wait_count;
    work->wait_count = sync.wait_count;
    work->signal_count = sync.signal_count;
  }
  Arena::Block* blocks = work->blocks = draft->arena.release();
  heddle_status_t* bad = hand_over(work);  // the work may be destroyed by now
  if (bad) give_back(blocks);
  return bad;
}

heddle_status_t* Queue::hand_over(Work* work) noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!started_) {
    sdk::SignalsBlocked blocked;
    try {
      uint32_t none = 0;
      pinned_ = what_ == For::kAll && device_->pinned_queues.compare_exchange_strong(none, 1);
      thread_ = std::thread([this] { loop(); });
    } catch (const std::system_error& error) {
      return status(device_->host, HEDDLE_STATUS_RESOURCE_EXHAUSTED, "cpu: starting a queue's thread failed: %s", error.what());
    }
    started_ = true;
  }
  pending_.fetch_add(1, std::memory_order_relaxed);
  *end_ = work;
  end_ = &work->next;
  news_.fetch_add(1);
  const bool sleeps = sleeping_.load() != 0;
  lock.unlock();  // the woken thread may run at once, on this core, and would wait for the lock
  if (sleeps) sdk::futex_wake(news_);
  return nullptr;
}

void Queue::loop() noexcept {
  name_thread(what_ == For::kAll ? "heddle-cpu-q" : "heddle-cpu-io");
  pin_thread(device_->workers.cpus());
  bool own_core = false;
  const uint64_t spin_ns = device_->instance->options.spin_ns;
  bool busy = false;  // work has run since the last sleep
  for (;;) {
    const uint32_t seen = news_.load(std::memory_order_acquire);
    while (Work* work = take_first()) {
      execute(work, pinned_ ? &own_core : nullptr);
      busy = true;
    }
    if (news_.load(std::memory_order_acquire) != seen) continue;
    if (stop_.load()) return;
    // A thread that only finds that a waiting caller did the work does not spin.
    const uint64_t spin_end = busy ? sdk::monotonic_ns() + spin_ns : 0;
    uint32_t turn = 0;
    while (news_.load(std::memory_order_acquire) == seen) {
      sdk::cpu_pause();
      if (busy && ((++turn & 63) != 0 || sdk::monotonic_ns() < spin_end)) continue;
      sleeping_.store(1);  // ordered before the load of news_
      if (news_.load() == seen) sdk::futex_wait(news_, seen, UINT64_MAX);
      sleeping_.store(0);
      busy = false;
    }
  }
}

Work* Queue::take_first() noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  Work* work = first_;
  if (!work) return nullptr;
  first_ = work->next;
  if (!first_) end_ = &first_;
  return work;
}

Work* Queue::take_for(heddle_point_t point) noexcept {
  if (pending_.load(std::memory_order_acquire) == 0) return nullptr;
  std::lock_guard<std::mutex> lock(mutex_);
  Work** ready = nullptr;
  for (Work** link = &first_; Work* work = *link; link = &work->next) {
    const bool wanted = std::any_of(work->signals, work->signals + work->signal_count,
                                    [&](const heddle_point_t& signal) { return signal.timeline == point.timeline; });
    if (all_reached(work->waits, work->wait_count) && (wanted || !ready)) ready = link;
    if (!wanted) continue;
    if (!ready) return nullptr;
    work = *ready;
    *ready = work->next;
    if (!*ready) end_ = ready;
    helpers_.fetch_add(1, std::memory_order_relaxed);
    return work;
  }
  return nullptr;
}

void Queue::run_taken(Work* work) noexcept {
  execute(work, nullptr);
  helpers_.fetch_sub(1, std::memory_order_release);  // the last access: a destructor polls it
}

void Queue::execute(Work* work, bool* own_core) noexcept {
  heddle_status_t* failure = nullptr;
  if (work->wait_count) {
    try {
      failure = HostTimeline::wait(work->waits, work->wait_count, HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE);
    } catch (...) {
      failure = sdk::exhausted_status(device_->host, "cpu: waiting for a submission's points");
    }
  }
  if (!failure && reads_lost(*work)) [[unlikely]]
    failure = device_->steady_files.loss();
  if (!failure) failure = run_on_workers(device_, *work, own_core);
  for (Op* op = work->first; op; op = op->next) {
    if (op->kind == Op::Kind::kIo) free_io(device_, op->io);
  }
  // Signals are in the work's own memory, which is therefore returned last. pending_ is decremented first, so that a woken thread finds the
  // queue idle.
  pending_.fetch_sub(1, std::memory_order_release);
  retire(*work, failure);
  give_back(work->blocks);
}

// Files are read all the same.
bool Queue::reads_lost(const Work& work) const noexcept {
  return device_->steady_files.has_lost() && (work.dispatches || work.copies);
}

void Queue::retire(const Work& work, heddle_status_t* failure) noexcept {
  const heddle_host_t* host = device_->host;
  Counters& counters = device_->counters;
  counters.submissions.fetch_add(1, std::memory_order_relaxed);
  if (work.dispatches) counters.dispatches.fetch_add(work.dispatches, std::memory_order_relaxed);
  if (work.copies) counters.copies.fetch_add(work.copies, std::memory_order_relaxed);
  if (!failure && reads_lost(work)) [[unlikely]]  // since it began
    failure = device_->steady_files.loss();
  for (uint32_t i = 0; i < work.signal_count; ++i) {
    const heddle_point_t point = work.signals[i];
    if (!failure) [[likely]] {
      HostTimeline::from(point.timeline)->advance(point.value);  // refused only if it is already poisoned
    } else {
      HostTimeline::from(point.timeline)->fail(point.value, host->status_clone(host->self, failure));
    }
  }
  if (failure) host->status_free(host->self, failure);
}

heddle_status_t* queue_create(heddle_device_t* handle, const heddle_queue_params_t* in, heddle_queue_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "creating a queue", [&]() -> heddle_status_t* {
    heddle_queue_params_t params;
    if (heddle_status_t* bad = sdk::read_queue_params(device, in, &params)) return bad;
    *out = sdk::make<Queue>(device->host, device)->handle();
    device->live.queues.fetch_add(1);
    return nullptr;
  });
}

bool help(sdk::DeviceRoot* root, heddle_point_t point) noexcept {
  auto* device = static_cast<Device*>(root);
  Queue* queue = nullptr;
  Work* work = nullptr;
  {
    std::lock_guard<std::mutex> lock(device->queues_mutex);
    for (Queue* candidate : device->queues) {
      work = candidate->take_for(point);
      queue = candidate;
      if (work) break;
    }
  }
  if (!work) return false;
  queue->run_taken(work);
  return true;
}

namespace {

heddle_status_t* submit_sized(Queue* queue, const heddle_submission_t& submission, heddle_command_time_t* times) noexcept {
  const heddle_host_t* host = queue->device()->host;
  if (host->is_forked_child(host->self)) [[unlikely]]
    return sdk::forked_status(host);
  if (submission.command_count && !submission.commands) [[unlikely]] {
    return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: submitting %u commands failed: the list is null", submission.command_count);
  }
  Queue::Draft draft(queue);
  if (!draft.work) [[unlikely]]
    return sdk::exhausted_status(host, "cpu: submitting");
  if (heddle_status_t* bad = lower_commands(queue->device(), submission.commands, submission.command_count, &draft.arena, draft.work))
      [[unlikely]] {
    return bad;
  }
  if (times) std::memset(times, 0, submission.command_count * sizeof *times);
  draft.work->times = times;
  return queue->submit(&draft, submission.sync);
}

heddle_status_t* submit_timed(heddle_queue_t* handle, const heddle_submission_t* in, heddle_command_time_t* times) noexcept {
  sdk::EnvironmentKeeper keep;
  Queue* queue = Queue::from(handle);
  if (in->struct_size == sizeof(heddle_submission_t)) [[likely]]
    return submit_sized(queue, *in, times);
  heddle_submission_t submission;
  uint64_t bad_byte;
  if (!sdk::read_struct(in, &submission, &bad_byte)) {
    return sdk::tail_status(queue->device()->host, "heddle_submission_t", bad_byte);
  }
  return submit_sized(queue, submission, times);
}

heddle_status_t* submit(heddle_queue_t* handle, const heddle_submission_t* in) noexcept {
  return submit_timed(handle, in, nullptr);
}

}  // namespace

const heddle_dispatch_interface_t* dispatch_interface() noexcept {
  static const heddle_dispatch_interface_t table = {sizeof(heddle_dispatch_interface_t),
                                                    0,
                                                    variant_rank,
                                                    executable_load,
                                                    sdk::unload_executable<Executable>,
                                                    sdk::find_entry<Executable>,
                                                    submit,
                                                    nullptr,
                                                    nullptr,
                                                    nullptr,  // recording: the host fills the holes with UNIMPLEMENTED
                                                    operation_load,
                                                    nullptr};
  return &table;
}

const heddle_profile_interface_t* profile_interface() noexcept {
  static const heddle_profile_interface_t table = {sizeof(heddle_profile_interface_t), 0, submit_timed};
  return &table;
}

}  // namespace heddle::cpu
