// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.dispatch/1 and the queues: the hot path.
#include "heddle/sdk/stream/queue.h"

#include <algorithm>
#include <thread>

#include "heddle/sdk/driver_parts.h"
#include "stream/engine.h"
#include "stream/graph.h"

namespace heddle::sdk::stream {

using sdk::HostTimeline;
using State = HostTimeline::State;

namespace {

constexpr size_t kSpare = 64;  // most submissions that a queue keeps for reuse

}  // namespace

heddle_status_t* check_not_captured(Device* device, Stream stream) noexcept {
  ContextScope scope(device);
  bool is_captured = false;
  const Result asked = device->backend.is_captured(stream, &is_captured);
  if (asked != kSuccess) return device->failed(asked, "asking the application's stream");
  if (!is_captured) return nullptr;
  return status(device, HEDDLE_STATUS_FAILED_PRECONDITION,
                "using the application's stream %p failed: it is being captured into a graph, which cannot include this work; "
                "call before or after [HD-Q-08]",
                static_cast<void*>(stream));
}

heddle_status_t* Queue::start(uint32_t priority) {
  ContextScope scope(device_);
  if (Result bad = device_->backend.create_stream(priority, &stream_)) return device_->failed(bad, "creating a stream");
  return take_word();
}

heddle_status_t* Queue::start_over(Stream stream) {
  stream_ = stream;
  is_foreign_ = true;
  return take_word();
}

heddle_status_t* Queue::take_word() {
  spare_.reserve(kSpare);
  Words& words = *device_->words;
  std::unique_lock<std::mutex> lock(words.mutex);
  if (words.idle.empty()) {
    auto made = std::make_unique<Word>();
    words.all.reserve(words.all.size() + 1);
    words.idle.reserve(words.all.size() + 1);  // so that every word can be returned
    if (Result bad = device_->backend.create_word(made.get())) {
      device_->backend.destroy_word(*made);
      lock.unlock();
      return device_->failed(bad, "creating a queue's completion word");
    }
    words.idle.push_back(made.get());
    words.all.push_back(std::move(made));
  }
  word_ = words.idle.back();
  words.idle.pop_back();
  last_ = word_->value->load(std::memory_order_acquire);
  retired_.store(last_, std::memory_order_release);
  std::lock_guard<std::mutex> queues_lock(device_->queues_mutex);
  device_->queues.push_back(this);
  return nullptr;
}

Queue::~Queue() {
  if (!word_) {  // start failed
    ContextScope scope(device_);
    if (stream_ && !is_foreign_) device_->backend.destroy_stream(stream_);
    return;
  }
  for (uint64_t turn = 0; unfinished_.load(std::memory_order_acquire) != 0 || jobs_.load(std::memory_order_acquire) != 0; ++turn) {
    device_->poll();
    if (turn > 1000) {
      if (turn % 64 == 0) device_->check();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  {
    std::lock_guard<std::mutex> lock(device_->queues_mutex);
    std::erase(device_->queues, this);
  }
  while (pins_.load(std::memory_order_acquire) != 0 || retiring_.load(std::memory_order_acquire)) std::this_thread::yield();  // short waits
  ContextScope scope(device_);
  if (!is_foreign_) device_->backend.destroy_stream(stream_);
  if (!device_->is_lost()) {
    std::lock_guard<std::mutex> lock(device_->words->mutex);
    device_->words->idle.push_back(word_);
  }
  for (Submission* submission : spare_) delete submission;
}

Submission* Queue::draft() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!spare_.empty()) {
      Submission* submission = spare_.back();
      spare_.pop_back();
      return submission;
    }
  }
  return new Submission;
}

void Queue::abandon(Submission* submission) noexcept {
  for (const Staging::Slice& slice : submission->list.slices) device_->staging->give(slice);
  if (submission->failure) device_->host->status_free(device_->host->self, submission->failure);
  if (!submission->events.empty()) {
    std::lock_guard<std::mutex> lock(device_->queues_mutex);
    device_->idle_events.insert(device_->idle_events.end(), submission->events.begin(), submission->events.end());
  }
  submission->watches.end();
  submission->clear();
  std::unique_lock<std::mutex> lock(mutex_);
  if (spare_.size() < kSpare) {
    spare_.push_back(submission);
    return;
  }
  lock.unlock();
  delete submission;
}

heddle_status_t* Queue::submit(Submission* submission, const heddle_sync_t& sync) {
  bool is_counted = false;
  try {
    return submit_checked(submission, sync, &is_counted);
  } catch (...) {  // the submission is neither in flight nor held
    abandon(submission);
    if (is_counted) unfinished_.fetch_sub(1, std::memory_order_acq_rel);
    throw;
  }
}

heddle_status_t* Queue::submit_checked(Submission* submission, const heddle_sync_t& sync, bool* out_counted) {
  if (heddle_status_t* bad = check_sync(device_, sync)) [[unlikely]] {
    abandon(submission);
    return bad;
  }
  if (is_foreign_) {
    if (heddle_status_t* bad = check_not_captured(device_, stream_)) {
      abandon(submission);
      return bad;
    }
  }
  submission->waits.assign(sync.waits, sync.waits + sync.wait_count);
  submission->signals.assign(sync.signals, sync.signals + sync.signal_count);
  // Threads that wait for these points look after the timelines' devices, not after this one.
  if (std::any_of(sync.signals, sync.signals + sync.signal_count,
                  [&](const heddle_point_t& point) { return Timeline::from(point.timeline)->device() != device_; })) {
    submission->watches.add(device_);
  }
  bool ignored = false;
  if (has_news()) retire(&ignored);  // bounds the submissions in flight to those that the device has not finished
  unfinished_.fetch_add(1, std::memory_order_acq_rel);
  *out_counted = true;
  if (issue(submission) == Issue::kHeld) [[unlikely]] {
    submission->watches.add_others(submission->waits, device_);
    if (!is_foreign_) {
      device_->engine->hold(this, submission);
    } else {
      // The application's next work must come after it.
      submission->watches.add(device_);
      while (issue(submission) == Issue::kHeld) {
        if (!device_->poll()) std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  }
  return nullptr;
}

bool Queue::try_issue(Submission* submission) noexcept {
  try {
    return issue(submission) == Issue::kDone;
  } catch (...) {
    return false;  // no memory; the engine tries again
  }
}

Queue::Issue Queue::issue(Submission* submission) {
  Device* const device = device_;
  Result result = kSuccess;
  size_t failed = 0;
  {
    ContextScope scope(device);
    std::lock_guard<std::mutex> lock(mutex_);
    if (issue_locked(submission, &result, &failed) == Issue::kHeld) return Issue::kHeld;
  }
  // The submission is in flight by now, and this queue may be gone when its work is over. The thread that retires it takes the failure from the
  // device or from the submission.
  if (device->ends_context(result)) [[unlikely]] {
    device->host->status_free(device->host->self, device->failed(result, "running work"));
  } else if (result != kSuccess) [[unlikely]] {  // of writing the word: nobody would learn when work on the stream is over
    device->lose(result_status(device, device->backend.code_of(result), result, "writing a queue's completion word on device %u failed",
                               device->ordinal));
  }
  return Issue::kDone;
}

// Call with the context current and the lock held. If this returns kDone, the submission no longer belongs to the caller; if it throws, it does.
Queue::Issue Queue::issue_locked(Submission* submission, Result* out_result, size_t* out_failed) {
  Backend& backend = device_->backend;
  Timeline::OnItsWay waits[16];
  size_t wait_count = 0;
  auto loose = [&](heddle_status_t* failure) {
    try {
      failed_.push_back(submission);
    } catch (...) {
      device_->host->status_free(device_->host->self, failure);
      throw;
    }
    submission->failure = failure;
    loose_.fetch_add(1, std::memory_order_acq_rel);
    return Issue::kDone;
  };
  if (device_->is_lost()) [[unlikely]]
    return loose(device_->loss());
  for (const heddle_point_t& point : submission->waits) {
    Timeline* timeline = Timeline::from(point.timeline);
    const State state = timeline->state(point.value);
    if (state == State::kReached) continue;
    if (state == State::kFailed) return loose(timeline->failure(point.value));
    Timeline::OnItsWay signal;
    if (!timeline->find(point.value, &signal)) {
      // The value may have been reached since the previous check.
      if (timeline->state(point.value) == State::kReached) continue;
      return Issue::kHeld;
    }
    if (signal.queue == this) continue;                            // the stream keeps the order
    if (signal.context != backend.context()) return Issue::kHeld;  // another device's queue: the host waits
    if (wait_count == std::size(waits)) return Issue::kHeld;
    // Its queue is enqueuing it at this moment.
    if (backend.capabilities().waits_follow_writes && signal.word->written.load(std::memory_order_acquire) < signal.number)
      return Issue::kHeld;
    waits[wait_count++] = signal;
  }
  submission->number = last_ + 1;
  in_flight_.push_back(submission);
  size_t added = 0;
  try {
    for (; added < submission->signals.size(); ++added) {
      const heddle_point_t& point = submission->signals[added];
      Timeline::from(point.timeline)->add({point.value, this, device_, backend.context(), word_, submission->number});
    }
  } catch (...) {
    while (added) {
      const heddle_point_t& point = submission->signals[--added];
      Timeline::from(point.timeline)->remove(point.value);
    }
    in_flight_.pop_back();
    throw;
  }
  last_ = submission->number;
  submission->issued = true;
  Result result = kSuccess;
  for (size_t i = 0; i < wait_count && result == kSuccess; ++i) {
    const Word& word = *waits[i].word;
    if (word.value->load(std::memory_order_acquire) < waits[i].number) result = backend.wait_word(stream_, word, waits[i].number);
  }
  auto fail = [&](heddle_status_t* failure) {
    submission->failure = failure;
    result = kSuccess;
  };
  if (result != kSuccess && !device_->ends_context(result)) {
    fail(result_status(device_, backend.code_of(result), result, "waiting for another queue of device %u failed", device_->ordinal));
  } else if (result == kSuccess) {
    result = submission->recording ? stream::issue(submission->recording, stream_)
                                   : stream::issue(backend, submission->list, submission->events, stream_, out_failed);
    if (result != kSuccess && !device_->ends_context(result)) {
      const Op* op = submission->recording || *out_failed >= submission->list.ops.size() ? nullptr : &submission->list.ops[*out_failed];
      const bool is_kernel = op && op->kind == Op::Kind::kLaunch;
      fail(result_status(device_, backend.code_of(result), result, "issuing %s%s%s on device %u failed",
                         submission->recording ? "a recording"
                         : is_kernel           ? "kernel '"
                                               : "a copy",
                         is_kernel ? op->launch.entry->name.c_str() : "", is_kernel ? "'" : "", device_->ordinal));
      if (is_kernel) sdk::set_region(device_->host, submission->failure, op->launch.region);
    }
  }
  const Result written = backend.write_word(stream_, *word_, submission->number);
  word_->written.store(submission->number, std::memory_order_release);
  *out_result = result != kSuccess ? result : written;
  if (device_->ends_context(result)) submission->issued = false;  // the fault was caused by other work
  return Issue::kDone;
}

bool Queue::retire(bool* out_must_wait) noexcept {
  // Other devices' work is retired from here, so that the submission keeps them alive; theirs may again depend on others.
  constexpr int kMostDevices = 3;
  thread_local int devices = 0;
  if (retiring_.exchange(true, std::memory_order_acq_rel)) return false;
  bool any = false, has_polled = false;
  for (;;) {
    Submission* submission = nullptr;
    Device* first = nullptr;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!failed_.empty()) {
        submission = failed_.front();
        failed_.pop_front();
        loose_.fetch_sub(1, std::memory_order_acq_rel);
      } else if (!in_flight_.empty()) {
        const bool is_done = done() >= in_flight_.front()->number, is_lost = device_->is_lost();
        if (is_done && !is_lost) first = first_of(*in_flight_.front());
        if ((is_done && !first) || is_lost) {
          submission = in_flight_.front();
          in_flight_.pop_front();
          retired_.store(submission->number, std::memory_order_release);
          if (!is_done && !submission->failure) submission->failure = device_->loss();
        }
      }
    }
    if (first && first != device_ && !has_polled && devices < kMostDevices) {
      ++devices;
      any |= first->poll();
      --devices;
      has_polled = true;
      continue;
    }
    *out_must_wait |= first == device_;
    if (!submission) break;
    finish(submission);
    any = true;
    has_polled = false;
  }
  retiring_.store(false, std::memory_order_release);
  return any;
}

// The device with a queue that has yet to retire a point that the submission waited for; NULL if there is none. If that queue is of another device
// than the timeline, nothing here keeps its device alive, and the submission does not wait.
Device* Queue::first_of(const Submission& submission) const noexcept {
  if (submission.failure) return nullptr;
  for (const heddle_point_t& point : submission.waits) {
    Timeline* timeline = Timeline::from(point.timeline);
    Timeline::OnItsWay signal;
    if (timeline->state(point.value) != State::kPending) continue;
    if (!timeline->find(point.value, &signal) || signal.device == timeline->device()) return timeline->device();
  }
  return nullptr;
}

void Queue::finish(Submission* submission) noexcept {
  const heddle_host_t* host = device_->host;
  heddle_status_t* failure = submission->failure;
  submission->failure = nullptr;
  for (const heddle_point_t& point : submission->waits) {
    if (failure) break;
    failure = Timeline::from(point.timeline)->failure(point.value);
  }
  if (!failure) {
    for (const Submission::Download& download : submission->downloads) std::memcpy(download.target, download.source, download.length);
    if (submission->times) read_times(*submission);
  }
  Counters& counters = device_->counters;
  counters.submissions.fetch_add(1, std::memory_order_relaxed);
  if (submission->list.dispatches) counters.dispatches.fetch_add(submission->list.dispatches, std::memory_order_relaxed);
  if (submission->list.copies) counters.copies.fetch_add(submission->list.copies, std::memory_order_relaxed);
  // A thread that sees the last signal may destroy everything that the submission uses, so the submission is cleared first. The queue itself exists
  // until unfinished_ is decremented.
  heddle_point_t few[4];
  std::vector<heddle_point_t> many;
  const size_t count = submission->signals.size();
  const heddle_point_t* signals = few;
  if (count <= std::size(few)) {
    std::copy_n(submission->signals.data(), count, few);
  } else {
    many.swap(submission->signals);
    signals = many.data();
  }
  abandon(submission);
  for (size_t i = 0; i < count; ++i) {
    Timeline* timeline = Timeline::from(signals[i].timeline);
    timeline->remove(signals[i].value);
    if (!failure) [[likely]] {
      timeline->advance(signals[i].value);
    } else {
      timeline->fail(signals[i].value, host->status_clone(host->self, failure));
    }
  }
  if (failure) host->status_free(host->self, failure);
  unfinished_.fetch_sub(1, std::memory_order_acq_rel);
}

heddle_status_t* Queue::take_events(Submission* submission) {
  const size_t count = submission->list.ops.size() + 1;
  {
    std::lock_guard<std::mutex> lock(device_->queues_mutex);
    std::vector<Event>& idle = device_->idle_events;
    const auto taken = static_cast<ptrdiff_t>(std::min(count, idle.size()));
    submission->events.assign(idle.end() - taken, idle.end());
    idle.erase(idle.end() - taken, idle.end());
  }
  while (submission->events.size() < count) {
    Event event = nullptr;
    if (Result bad = device_->backend.create_event(true, &event)) return device_->failed(bad, "creating events for timing");
    submission->events.push_back(event);
  }
  return nullptr;
}

void Queue::read_times(const Submission& submission) noexcept {
  ContextScope scope(device_);
  double now_ns = 0;
  for (size_t i = 0; i < submission.list.ops.size(); ++i) {
    const Op& op = submission.list.ops[i];
    float ms = 0;
    if (device_->backend.elapsed(submission.events[i], submission.events[i + 1], &ms) != kSuccess) return;
    const double begin_ns = now_ns;
    now_ns += static_cast<double>(ms) * 1e6;
    if (op.kind != Op::Kind::kBarrier) submission.times[op.command] = {static_cast<uint64_t>(begin_ns), static_cast<uint64_t>(now_ns)};
  }
}

void Queue::list_suspects(std::vector<Suspect>* out) {
  // The holder of the lock is inside a call of the vendor, which returns soon if a device is lost.
  std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  for (int i = 0; i < 1000 && !lock.owns_lock(); ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    lock.try_lock();
  }
  if (!lock.owns_lock()) return;
  const uint64_t reached = done();
  for (const Submission* submission : in_flight_) {
    if (submission->number <= reached || !submission->issued) continue;
    for (const heddle_point_t& point : submission->waits) {
      Timeline* timeline = Timeline::from(point.timeline);
      Timeline::OnItsWay signal;
      if (timeline->state(point.value) == State::kPending && timeline->find(point.value, &signal) && signal.queue != this &&
          signal.word->value->load(std::memory_order_acquire) < signal.number) {
        return;
      }
    }
    std::vector<const Op::Launch*> launches;
    if (submission->recording) {
      list_launches(submission->recording, &launches);
    } else {
      for (const Op& op : submission->list.ops) {
        if (op.kind == Op::Kind::kLaunch) launches.push_back(&op.launch);
      }
    }
    for (const Op::Launch* launch : launches) out->push_back({launch->entry->name, launch->region});
    return;
  }
}

heddle_status_t* queue_create(heddle_device_t* handle, const heddle_queue_params_t* in, heddle_queue_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "creating a queue", [&]() -> heddle_status_t* {
    heddle_queue_params_t params;
    if (heddle_status_t* bad = read_queue_params(device, in, &params)) return bad;
    if (heddle_status_t* lost = device->loss()) return lost;
    auto* queue = sdk::make<Queue>(device->host, device);
    if (heddle_status_t* bad = queue->start(params.priority)) {
      sdk::unmake(device->host, queue);
      return bad;
    }
    device->live.queues.fetch_add(1);
    *out = queue->handle();
    return nullptr;
  });
}

namespace {

heddle_status_t* submit_sized(Queue* queue, const heddle_submission_t& submission, heddle_command_time_t* times) {
  Device* device = queue->device();
  if (device->is_lost()) [[unlikely]]
    return device->loss();
  if (submission.command_count && !submission.commands) [[unlikely]] {
    return status(device, HEDDLE_STATUS_INVALID_ARGUMENT, "submitting %u commands failed: the list is null", submission.command_count);
  }
  ContextScope scope(device);  // needed by staging and tensor maps
  Submission* draft = queue->draft();
  heddle_status_t* bad = nullptr;
  try {
    bad = lower_commands(device, submission.commands, submission.command_count, &draft->list);
    if (times && !bad) {
      std::memset(times, 0, submission.command_count * sizeof *times);
      draft->times = times;
      bad = queue->take_events(draft);
    }
  } catch (...) {
    queue->abandon(draft);
    throw;
  }
  if (bad) [[unlikely]] {
    queue->abandon(draft);
    return bad;
  }
  return queue->submit(draft, submission.sync);
}

heddle_status_t* submit_timed(heddle_queue_t* handle, const heddle_submission_t* in, heddle_command_time_t* times) noexcept {
  Queue* queue = Queue::from(handle);
  return guarded(queue->device(), "submitting", [&]() -> heddle_status_t* {
    if (in->struct_size == sizeof(heddle_submission_t)) [[likely]]
      return submit_sized(queue, *in, times);
    heddle_submission_t submission;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &submission, &bad_byte)) {
      return sdk::tail_status(queue->device()->host, "heddle_submission_t", bad_byte);
    }
    return submit_sized(queue, submission, times);
  });
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
                                                    unload_executable<Executable>,
                                                    find_entry<Executable>,
                                                    submit,
                                                    record,
                                                    replay,
                                                    recording_free,
                                                    nullptr,
                                                    nullptr};  // operation_load
  return &table;
}

const heddle_profile_interface_t* profile_interface() noexcept {
  static const heddle_profile_interface_t table = {sizeof(heddle_profile_interface_t), 0, submit_timed};
  return &table;
}

}  // namespace heddle::sdk::stream
