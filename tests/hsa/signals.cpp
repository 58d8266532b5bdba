// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signals of the stand-in: values that the host, packets, copies and kernels change, waits, and handlers that a thread calls. Their layout is
// amd_signal_t, since kernels may access the value.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/hsa/runtime.h"

namespace heddle::hsa {

namespace {

constexpr uint64_t kSignals = 1 << 18;

// All signals, in memory that is mapped once. A signal is reused late, so that the use of a destroyed one is found.
struct Arena {
  std::mutex mutex;
  amd_signal_t* base = nullptr;
  uint64_t created = 0;
  std::deque<amd_signal_t*> free;
};

Arena& arena() {
  static auto* a = new Arena;
  return *a;
}

struct Changes {
  std::mutex mutex;
  std::condition_variable condition;
  uint64_t count = 1;
};

Changes& all_changes() {
  static auto* c = new Changes;
  return *c;
}

struct Handler {
  amd_signal_t* signal;
  hsa_signal_condition_t condition;
  int64_t compared;
  hsa_amd_signal_handler function;
  void* argument;
};

// Calls handlers, one after the other, as the thread for events of AMD's runtime does.
class Handlers {
 public:
  void start() {
    std::thread([this] { loop(); }).detach();
  }
  void add(Handler handler) {
    const std::lock_guard hold(mutex_);
    handlers_.push_back(handler);
    changed();
  }

 private:
  [[noreturn]] void loop() {
    Random random(settings().seed + 17);
    uint64_t seen = 0;
    for (;;) {
      std::vector<Handler> due;
      bool waiting = false;
      {
        const std::lock_guard hold(mutex_);
        for (auto h = handlers_.begin(); h != handlers_.end();) {
          if (holds(load(h->signal), h->condition, h->compared)) {
            due.push_back(*h);
            h = handlers_.erase(h);
          } else {
            ++h;
          }
        }
        waiting = !handlers_.empty();
      }
      if (due.empty()) {
        wait_for_change(seen, waiting ? 1'000'000 : 100'000'000);
        continue;
      }
      // No order is promised between the handlers of different signals.
      for (size_t n = due.size(); n > 1; --n) std::swap(due[n - 1], due[random.below(n)]);
      for (const Handler& h : due) {
        if (settings().delay_us != 0 && random.below(4) == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random.below(settings().delay_us)));
        if (h.function(load(h.signal), h.argument)) add(h);
      }
    }
  }

  std::mutex mutex_;
  std::list<Handler> handlers_;
};

Handlers& handlers() {
  static auto* h = new Handlers;
  return *h;
}

bool in_arena(const amd_signal_t* signal) {
  const Arena& a = arena();
  return a.base != nullptr && signal >= a.base && signal < a.base + kSignals &&
         reinterpret_cast<uint64_t>(signal) % AMD_SIGNAL_ALIGN_BYTES == 0;
}

}  // namespace

uint64_t changes() {
  Changes& c = all_changes();
  const std::lock_guard hold(c.mutex);
  return c.count;
}

void changed() {
  Changes& c = all_changes();
  {
    const std::lock_guard hold(c.mutex);
    ++c.count;
  }
  c.condition.notify_all();
}

void wait_for_change(uint64_t& seen, uint64_t nanoseconds) {
  Changes& c = all_changes();
  std::unique_lock hold(c.mutex);
  c.condition.wait_for(hold, std::chrono::nanoseconds(nanoseconds), [&] { return c.count != seen; });
  seen = c.count;
}

void start_handlers() {
  handlers().start();
}

amd_signal_t* signal_of(hsa_signal_t signal, const char* where) {
  auto* s = reinterpret_cast<amd_signal_t*>(signal.handle);
  if (!in_arena(s)) die(std::string(where) + ": " + hex(signal.handle) + " is not a signal");
  if (s->kind == AMD_SIGNAL_KIND_INVALID) die(std::string(where) + ": signal " + hex(signal.handle) + " was destroyed");
  return s;
}

hsa_status_t create_signal(hsa_signal_value_t value, int64_t kind, hsa_signal_t* out) {
  Arena& a = arena();
  const std::lock_guard hold(a.mutex);
  if (a.base == nullptr) {
    void* p = ::mmap(nullptr, kSignals * sizeof(amd_signal_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return refuse(HSA_STATUS_ERROR_OUT_OF_RESOURCES, "hsa_signal_create", "the host has no memory for signals");
    a.base = static_cast<amd_signal_t*>(p);
    Block b;
    b.kind = Block::Signals;
    b.host = static_cast<std::byte*>(p);
    b.address = reinterpret_cast<uint64_t>(p);
    b.bytes = b.mapped_bytes = kSignals * sizeof(amd_signal_t);
    b.name = "signals";
    memory().add(std::move(b));
  }
  amd_signal_t* s = nullptr;
  if (a.created < kSignals && a.free.size() < 4096) {
    s = a.base + a.created++;
  } else if (!a.free.empty()) {
    s = a.free.front();
    a.free.pop_front();
  } else {
    return refuse(HSA_STATUS_ERROR_OUT_OF_RESOURCES, "hsa_signal_create", "all " + std::to_string(kSignals) + " signals are in use");
  }
  *s = amd_signal_t{};
  s->kind = kind;
  store(s, value, false);
  out->handle = reinterpret_cast<uint64_t>(s);
  return HSA_STATUS_SUCCESS;
}

int64_t load(const amd_signal_t* signal) {
  return __atomic_load_n(&signal->value, __ATOMIC_ACQUIRE);
}

void store(amd_signal_t* signal, int64_t value, bool notify) {
  __atomic_store_n(&signal->value, value, __ATOMIC_RELEASE);
  if (notify) changed();
}

void add(amd_signal_t* signal, int64_t value) {
  __atomic_fetch_add(&signal->value, value, __ATOMIC_ACQ_REL);
  changed();
}

bool holds(int64_t value, hsa_signal_condition_t condition, int64_t compared) {
  switch (condition) {
    case HSA_SIGNAL_CONDITION_EQ:
      return value == compared;
    case HSA_SIGNAL_CONDITION_NE:
      return value != compared;
    case HSA_SIGNAL_CONDITION_LT:
      return value < compared;
    case HSA_SIGNAL_CONDITION_GTE:
      return value >= compared;
  }
  die("a signal is compared with the unknown condition " + std::to_string(condition));
}

}  // namespace heddle::hsa

using namespace heddle::hsa;

extern "C" {

hsa_status_t hsa_signal_create(hsa_signal_value_t initial_value, uint32_t, const hsa_agent_t*, hsa_signal_t* signal) {
  return guarded(__func__, [&](const char* where) {
    if (signal == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no result pointer");
    return create_signal(initial_value, AMD_SIGNAL_KIND_USER, signal);
  });
}

hsa_status_t hsa_amd_signal_create(hsa_signal_value_t initial_value, uint32_t num_consumers, const hsa_agent_t* consumers,
                                   uint64_t attributes, hsa_signal_t* signal) {
  return guarded(__func__, [&](const char* where) {
    if ((attributes & ~uint64_t{HSA_AMD_SIGNAL_AMD_GPU_ONLY}) != 0)
      return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "attributes " + hex(attributes) + " are not implemented");
    return hsa_signal_create(initial_value, num_consumers, consumers, signal);
  });
}

hsa_status_t hsa_signal_destroy(hsa_signal_t signal) {
  return guarded(__func__, [&](const char* where) {
    amd_signal_t* const s = signal_of(signal, where);
    Arena& a = arena();
    const std::lock_guard hold(a.mutex);
    s->kind = AMD_SIGNAL_KIND_INVALID;
    a.free.push_back(s);
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_amd_signal_value_pointer(hsa_signal_t signal, volatile hsa_signal_value_t** value_ptr) {
  return guarded(__func__, [&](const char* where) {
    if (value_ptr == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no result pointer");
    *value_ptr = &signal_of(signal, where)->value;
    return HSA_STATUS_SUCCESS;
  });
}

hsa_signal_value_t hsa_signal_load_relaxed(hsa_signal_t signal) {
  return load(signal_of(signal, __func__));
}

void hsa_signal_store_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  store(signal_of(signal, __func__), value);
}

void hsa_signal_store_screlease(hsa_signal_t signal, hsa_signal_value_t value) {
  store(signal_of(signal, __func__), value);
}

void hsa_signal_silent_store_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  store(signal_of(signal, __func__), value, false);
}

void hsa_signal_add_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  add(signal_of(signal, __func__), value);
}

void hsa_signal_subtract_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  add(signal_of(signal, __func__), -value);
}

hsa_signal_value_t hsa_signal_wait_scacquire(hsa_signal_t signal, hsa_signal_condition_t condition, hsa_signal_value_t compare_value,
                                             uint64_t timeout_hint, hsa_wait_state_t) {
  const amd_signal_t* const s = signal_of(signal, __func__);
  const uint64_t start = now();
  uint64_t seen = changes();
  for (;;) {
    const int64_t value = load(s);
    const uint64_t passed = now() - start;
    if (holds(value, condition, compare_value) || passed >= timeout_hint) return value;
    // Kernels change values without telling anybody.
    wait_for_change(seen, std::min<uint64_t>(timeout_hint - passed, 1'000'000));
  }
}

hsa_status_t hsa_amd_signal_async_handler(hsa_signal_t signal, hsa_signal_condition_t cond, hsa_signal_value_t value,
                                          hsa_amd_signal_handler handler, void* arg) {
  return guarded(__func__, [&](const char* where) {
    if (handler == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no handler");
    handlers().add({signal_of(signal, where), cond, value, handler, arg});
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_amd_profiling_get_dispatch_time(hsa_agent_t, hsa_signal_t signal, hsa_amd_profiling_dispatch_time_t* time) {
  return guarded(__func__, [&](const char* where) {
    if (time == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no result pointer");
    const amd_signal_t* const s = signal_of(signal, where);
    *time = {s->start_ts, s->end_ts};
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_amd_profiling_get_async_copy_time(hsa_signal_t signal, hsa_amd_profiling_async_copy_time_t* time) {
  return guarded(__func__, [&](const char* where) {
    if (time == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no result pointer");
    const amd_signal_t* const s = signal_of(signal, where);
    *time = {s->start_ts, s->end_ts};
    return HSA_STATUS_SUCCESS;
  });
}

// Times are always recorded.
hsa_status_t hsa_amd_profiling_async_copy_enable(bool) {
  return guarded(__func__, [&](const char*) { return HSA_STATUS_SUCCESS; });
}

hsa_status_t hsa_amd_profiling_set_profiler_enabled(hsa_queue_t*, int) {
  return guarded(__func__, [&](const char*) { return HSA_STATUS_SUCCESS; });
}

}  // extern "C"
