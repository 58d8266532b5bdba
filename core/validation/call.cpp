// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reporting violations, the thread state that a call must not change, and the checks of every submission's waits and signals.
#include "core/validation/call.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace heddle::validation {

namespace {

constexpr int kErrno = 3407;  // no error has this value
constexpr size_t kKeptTexts = 16;
constexpr size_t kMaskBytes = sizeof(uint64_t);  // size of the kernel's part of a sigset_t

uint64_t signal_mask(const uint64_t* change = nullptr) {
  uint64_t mask = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, change, &mask, kMaskBytes);
  return mask;
}

uint64_t floating_point() {
#if defined(__x86_64__)
  uint16_t control;
  __asm__ volatile("fnstcw %0" : "=m"(control));
  return uint64_t{control} << 32 | (_mm_getcsr() & ~0x3Fu);  // exception flags may change
#else
  return 0;
#endif
}

void set_floating_point([[maybe_unused]] uint64_t value) {
#if defined(__x86_64__)
  const uint16_t control = static_cast<uint16_t>(value >> 32);
  __asm__ volatile("fldcw %0" : : "m"(control));
  _mm_setcsr(static_cast<uint32_t>(value) | (_mm_getcsr() & 0x3Fu));
#endif
}

// The current CUDA context of the thread; NULL if no CUDA driver was loaded at the first call, which comes after drivers were loaded.
void* vendor_context() {
  static auto* current = [] {
    void* cuda = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    return reinterpret_cast<int (*)(void**)>(cuda ? dlsym(cuda, "cuCtxGetCurrent") : nullptr);
  }();
  void* context = nullptr;
  if (current) current(&context);
  return context;
}

}  // namespace

ThreadState::ThreadState() : errno_(errno), mask_(signal_mask()), floating_point_(floating_point()), vendor_context_(vendor_context()) {
  errno = kErrno;
}

std::string ThreadState::put_back() {
  std::string changed;
  if (errno != kErrno) changed += fmt::format("errno, to {}; ", errno);
  if (const uint64_t mask = signal_mask(); mask != mask_) {
    changed += fmt::format("the signal mask, from {:#x} to {:#x}; ", mask_, mask);
    signal_mask(&mask_);
  }
  if (const uint64_t now = floating_point(); now != floating_point_) {
    changed += fmt::format("the floating-point environment, from {:#x} to {:#x}; ", floating_point_, now);
    set_floating_point(floating_point_);
  }
  if (vendor_context() != vendor_context_) changed += "the current CUDA context; ";
  errno = errno_;
  if (!changed.empty()) changed.resize(changed.size() - 2);
  return changed;
}

Call::Waits Call::waits_of_thread() {
  auto now_ns = [](clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
  };
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return {static_cast<uint64_t>(usage.ru_nvcsw), now_ns(CLOCK_MONOTONIC) - now_ns(CLOCK_THREAD_CPUTIME_ID)};
}

void Call::passed(ThreadState& state, Tag tag, const Waits& before) {
  const Waits after = tag == Tag::kMayBlock ? Waits{} : waits_of_thread();
  std::string changed = state.put_back();
  const uint64_t away_ns = after.away_ns > before.away_ns ? after.away_ns - before.away_ns : 0;  // two clocks, read one after the other
  const bool blocked = tag != Tag::kMayBlock && away_ns > kNoBlockNs && after.times != before.times;
  lock_.lock();
  if (!changed.empty())
    note(name_, fmt::format("the plugin broke a rule: it changed the state of the caller's thread: {} [HD-T-02]", changed));
  if (blocked) {
    note(name_, fmt::format("the plugin broke a rule: it must not block, but its thread slept for {} ms [{}]", away_ns / 1000000,
                            tag == Tag::kCompute ? "HD-O-03" : "HD-T-01"));
  }
}

void Call::check_status(const heddle_status_t* status) {
  const heddle_host_t& host = *plugin_->host;
  const heddle_status_code_t code = host.status_code(host.self, status);
  if (!status) return;
  if (code == HEDDLE_STATUS_OK || code > HEDDLE_STATUS_DEVICE_LOST) {
    plugin_broke("HD-S-01", "its status has the code {}", code);
  } else if (view(host.status_message(host.self, status)).empty()) {
    plugin_broke("HD-S-01", "its status of code {} has no message", code);
  }
  if (code == HEDDLE_STATUS_DEVICE_LOST && device_) device_->lost = true;
}

void Call::broke(const char* who, const char* rule, std::string text, heddle_status_code_t code) {
  if (!plugin_) plugin_ = registry().any();
  if (!plugin_) {  // a plugin that continues after its shutdown: there is no log left
    failure_code_ = code;
    return;
  }
  std::string told =
      fmt::format("{} broke a rule: {} [{}]", caller_.empty() || code == HEDDLE_STATUS_INTERNAL ? who : caller_.c_str(), text, rule);
  note(name_, told);
  if (failure_code_ != 0) return;
  failure_code_ = code;
  failure_ = lines_.back().second;
}

// Kept for the report, and logged once the lock is released.
void Call::note(const char* name, const std::string& text) {
  lines_.emplace_back(HEDDLE_LOG_ERROR, fmt::format("validation: {} of {} failed: {}", name, plugin_->id, text));
  ++plugin_->violations;
  if (plugin_->first.size() < kKeptTexts) plugin_->first.push_back(lines_.back().second);
}

heddle_status_t* Call::refusal() {
  if (!plugin_) return nullptr;
  const heddle_host_t& host = *plugin_->host;
  return host.status_create(host.self, failure_code_, {}, 0, {failure_.data(), failure_.size()});
}

heddle_status_t* Call::answer(heddle_status_t* status) {
  return status || failure_code_ == 0 ? status : refusal();
}

Call::~Call() {
  if (serial_) {
    if (!lock_.owns_lock()) lock_.lock();
    --serial_->inside;
  }
  if (lock_.owns_lock()) lock_.unlock();
  tell_postponed();
  if (!plugin_) return;
  const heddle_host_t& host = *plugin_->host;
  for (const auto& [level, line] : lines_) host.log(host.self, level, {}, 0, {line.data(), line.size()});
}

void Call::enter_serial(std::shared_ptr<Record> record, const char* argument) {
  if (record->inside != 0) {
    host_broke("HD-T-01", "{} is {}, but another thread is inside a [serial] function with it", argument, fmt::ptr(record->handle));
    return;
  }
  ++record->inside;
  serial_ = std::move(record);
}

void Call::check_lost(const heddle_status_t* status) {
  if (!status && was_lost_) plugin_broke("HD-S-02", "it succeeded on a lost device");
}

void Call::check_unused(Record& record, const char* argument, uint64_t begin, uint64_t end) {
  if (const Use* use = record.uses.unfinished(begin, end)) {
    host_broke("HD-Q-03", "{} is {}, which is used by work that ends at value {} of timeline {}; {} is reached", argument,
               fmt::ptr(record.handle), use->value, fmt::ptr(use->timeline->handle), use->timeline->reached);
  }
}

void Call::check_power_of_two(uint64_t value, const char* argument) {
  if ((value & (value - 1)) != 0) host_broke("HD-M-04", "{} is {}, not a power of two", argument, value);
}

bool Call::check_range(uint64_t offset, uint64_t length, uint64_t size, const std::string& argument) {
  if (offset <= size && length <= size - offset) return true;
  host_broke("HD-M-02", "{} is {} bytes at offset {}, but the size is {}", argument, length, offset, size);
  return false;
}

// ---------------------------------------------------------------------------------------------------- waits and signals

Sync::Sync(Call& call, const std::shared_ptr<Queue>& queue, const heddle_sync_t* sync) : call_(call), queue_(queue) {
  if (!queue || call.refused()) return;
  if (!sync || (sync->wait_count && !sync->waits) || (sync->signal_count && !sync->signals)) {
    call.host_broke("HD-Q-01", "sync is NULL, or counts waits or signals but has none");
    return;
  }
  for (uint32_t i = 0; i < sync->wait_count; ++i) {
    const heddle_point_t& point = sync->waits[i];
    std::shared_ptr<Timeline> timeline = call.live_here<Timeline>(point.timeline, fmt::format("waits[{}].timeline", i));
    if (!timeline) continue;
    if (!timeline->imported && point.value > timeline->enqueued && point.value < timeline->failed_from) {
      call.host_broke("HD-Q-01", "waits[{}] is value {} of timeline {}, whose signals are enqueued up to {}", i, point.value,
                      fmt::ptr(point.timeline), timeline->enqueued);
    }
    waits_.push_back(std::move(timeline));
  }
  for (uint32_t i = 0; i < sync->signal_count; ++i) {
    const heddle_point_t& point = sync->signals[i];
    std::shared_ptr<Timeline> timeline = call.live_here<Timeline>(point.timeline, fmt::format("signals[{}].timeline", i));
    if (!timeline) continue;
    if (point.value > HEDDLE_TIMELINE_MAX_VALUE || (!timeline->imported && point.value <= timeline->enqueued)) {
      call.host_broke("HD-Q-09", "signals[{}] is value {} of timeline {}, for which {} was enqueued before", i, point.value,
                      fmt::ptr(point.timeline), timeline->enqueued);
    } else if (!timeline->over(timeline->enqueued)) {
      call.host_broke("HD-Q-06", "signals[{}] is of timeline {}, which has an unfinished submission that signals {}", i,
                      fmt::ptr(point.timeline), timeline->enqueued);
    }
    signals_.push_back({timeline, point.value, timeline->enqueued});
  }
  if (call.refused()) return;
  for (Signal& signal : signals_) signal.timeline->enqueued = std::max(signal.timeline->enqueued, signal.value);
}

void Sync::uses(Uses& uses, uint64_t begin, uint64_t end) {
  for (const Signal& signal : signals_) uses.add(signal.timeline, signal.value, begin, end);
}

void Sync::uses(const std::vector<Named>& ranges) {
  for (const Named& one : ranges) uses(one.buffer->uses, one.offset, one.offset + one.length);
}

void Sync::enqueued(bool success) {
  if (!success) {
    for (const Signal& signal : signals_) {
      if (signal.timeline->enqueued == signal.value) signal.timeline->enqueued = signal.before;
    }
    signals_.clear();
    return;
  }
  uses(*queue_);
  for (const std::shared_ptr<Timeline>& timeline : waits_) uses(*timeline);
}

void check_binding(Call& call, const heddle_binding_t& binding, const std::string& argument, std::vector<Named>* named) {
  std::shared_ptr<Buffer> buffer = call.live_here<Buffer>(binding.buffer, argument + ".buffer");
  if (!buffer) return;
  if (call.check_range(binding.offset, binding.length, buffer->size, argument)) {
    named->push_back({std::move(buffer), binding.offset, binding.length});
  }
}

// ----------------------------------------------------------------------------------------------------------- callbacks

void release_callback(void* number) noexcept {
  Registry::Callback callback;
  {
    Call call("release of imported memory");
    if (!registry().take_callback(number, &callback)) return call.plugin_broke("HD-T-03", "it was called a second time");
  }
  if (callback.released) callback.released(callback.context);
}

}  // namespace heddle::validation
