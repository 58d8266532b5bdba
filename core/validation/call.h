// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One call between the core and a plugin: checks before it is forwarded, the forwarding, checks of the answer, and the report of violations. Used
// by the functions in the tables, one object per call.
//
// A violation is reported three times: as a line of the log, in the report, and as the status of the call if it has one. The host's violations are
// FAILED_PRECONDITION, and the call is not forwarded; the plugin's are INTERNAL. Changes of thread state by a plugin (HD-T-02) are undone and only
// logged: the work is done, and its results are valid.
#ifndef HEDDLE_CORE_VALIDATION_CALL_H_
#define HEDDLE_CORE_VALIDATION_CALL_H_

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "core/validation/objects.h"

namespace heddle::validation {

// kCompute: takes as long as its work does, but does not block.
enum class Tag { kNoBlock, kCompute, kMayBlock };

// A [no-block] function that blocks for so long breaks its rule. A sanitizer's pthread_create waits until the thread runs, which takes long on a
// busy machine: a driver that starts a thread in its first submission does not break the rule.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kNoBlockNs = 1000 * 1000 * 1000;
#else
constexpr uint64_t kNoBlockNs = 100 * 1000 * 1000;
#endif

// The state of the calling thread that a call must not change (HD-T-02).
class ThreadState {
 public:
  ThreadState();
  // Describes what has changed, empty if nothing, and restores it.
  std::string put_back();

 private:
  int errno_;
  uint64_t mask_;
  uint64_t floating_point_;
  void* vendor_context_;
};

class Call {
 public:
  // Locks the registry.
  explicit Call(const char* name) : name_(name), lock_(registry().mutex) {}
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // The record of a handle; an unknown handle is a violation by the host. The first record determines the device of the call.
  template <class T>
  std::shared_ptr<T> live(const void* handle, const char* argument) {
    std::shared_ptr<T> record = registry().find<T>(handle);
    if (!record) {
      host_broke("HD-L-01", "{} is {}, which is not a live {}{}", argument, fmt::ptr(handle), T::kName, handle ? "" : ": NULL");
      return nullptr;
    }
    if (!plugin_) plugin_ = record->plugin;
    if constexpr (std::is_same_v<T, Device>) {
      set_device(record);
    } else {
      if (record->device) set_device(record->device);
    }
    return record;
  }
  // The same, for an object of the call's device (HD-Q-02).
  template <class T>
  std::shared_ptr<T> live_here(const void* handle, const std::string& argument) {
    std::shared_ptr<T> record = live<T>(handle, argument.c_str());
    if (record && device_ && record->device != device_) {
      host_broke("HD-Q-02", "{} belongs to another device than the call", argument);
      return nullptr;
    }
    return record;
  }
  void set_plugin(Plugin* plugin) { plugin_ = plugin; }
  Plugin& plugin() { return *plugin_; }

  template <class... A>
  void host_broke(const char* rule, fmt::format_string<A...> text, A&&... arguments) {
    broke("the host", rule, fmt::format(text, std::forward<A>(arguments)...), HEDDLE_STATUS_FAILED_PRECONDITION);
  }
  template <class... A>
  void plugin_broke(const char* rule, fmt::format_string<A...> text, A&&... arguments) {
    broke("the plugin", rule, fmt::format(text, std::forward<A>(arguments)...), HEDDLE_STATUS_INTERNAL);
  }
  // A violation by the plugin that another call revealed: the status of this call is not changed.
  template <class... A>
  void tell(const char* name, const char* rule, fmt::format_string<A...> text, A&&... arguments) {
    note(name, fmt::format("the plugin broke a rule: {} [{}]", fmt::format(text, std::forward<A>(arguments)...), rule));
  }
  // Other plugins call allocators' providers and operations: names the caller.
  void caller_is(std::string who) { caller_ = std::move(who); }

  // Whether the call must not be forwarded.
  bool refused() const { return failure_code_ != 0; }
  // The status of the first violation; owned by the caller.
  heddle_status_t* refusal();
  // The result for the caller: the plugin's status, or that of a violation instead of success.
  heddle_status_t* answer(heddle_status_t* status);

  // Calls the plugin, without the lock.
  template <class Function>
  auto pass(Tag tag, Function function) {
    ++plugin_->calls;
    lock_.unlock();
    tell_postponed();
    ThreadState state;
    const Waits before = tag == Tag::kMayBlock ? Waits{} : waits_of_thread();
    if constexpr (std::is_void_v<decltype(function())>) {
      function();
      passed(state, tag, before);
    } else {
      auto result = function();
      passed(state, tag, before);
      if constexpr (std::is_same_v<decltype(result), heddle_status_t*>) check_status(result);
      return result;
    }
  }
  // An input struct of the caller: missing fields are zero (HD-E-04). NULL or a missing size is a violation by the host.
  template <class Struct>
  Struct read(const Struct* given, const char* argument) {
    Struct full{};
    if (!given || given->struct_size < sizeof(uint32_t)) {
      host_broke("HD-E-04", "{}.struct_size is {}", argument, given ? given->struct_size : 0);
      return full;
    }
    std::memcpy(static_cast<void*>(&full), given, std::min<size_t>(given->struct_size, sizeof(full)));
    return full;
  }
  // An output struct: the plugin gets a copy with a guarded end that must not be written.
  template <class Struct, class Function>
  heddle_status_t* fill(Tag tag, Struct* out, Function function) {
    constexpr size_t kGuardBytes = 64;
    alignas(16) unsigned char storage[sizeof(Struct) + kGuardBytes];
    uint32_t size = 0;
    if (out) std::memcpy(&size, out, sizeof(size));
    if (!out || size < sizeof(size)) {
      host_broke("HD-E-04", "the output struct's struct_size is {}", size);
      return refusal();
    }
    if (size > sizeof(Struct)) return pass(tag, [&] { return function(out); });
    std::memset(storage, kCanary, sizeof(storage));
    std::memcpy(storage, out, size);
    heddle_status_t* status = pass(tag, [&] { return function(reinterpret_cast<Struct*>(storage)); });
    for (size_t i = size; i < sizeof(storage); ++i) {
      if (storage[i] == kCanary) continue;
      plugin_broke("HD-E-04", "it wrote byte {} of an output struct whose struct_size is {}", i, size);
      break;
    }
    std::memcpy(out, storage, size);
    return status;
  }
  // The result of a function that creates an object: the object gets a record; if the plugin broke a rule, `undo` destroys it.
  template <class T, class Handle, class Undo>
  heddle_status_t* keep(heddle_status_t* status, Handle** out, const std::shared_ptr<T>& record, const std::shared_ptr<Device>& device,
                        Undo undo) {
    // Handles of drivers begin with the host's table; the others are opaque.
    if (!made<T>(status, out, std::is_same_v<T, Allocator> || std::is_same_v<T, Operation> ? nullptr : plugin_->api)) return answer(status);
    if (refused()) {
      undo(*out);
      *out = nullptr;
    } else {
      remember(*out, record, device);
    }
    return answer(nullptr);
  }
  // Reports violations in a new handle. True: the handle exists.
  template <class T, class Handle>
  bool made(heddle_status_t* status, Handle** out, const heddle_driver_api_t* api) {
    if (status) {
      if (*out) {
        plugin_broke("HD-E-07", "it failed and left {} in its output", fmt::ptr(*out));
        *out = nullptr;
      }
      return false;
    }
    if (!*out) {
      plugin_broke("HD-E-07", "it succeeded, but returned no {}", T::kName);
      return false;
    }
    if (api && reinterpret_cast<heddle_object_t*>(*out)->api != api) {
      plugin_broke("HD-H-01", "the first word of the new {} is {}, not the host's table {}", T::kName,
                   fmt::ptr(reinterpret_cast<heddle_object_t*>(*out)->api), fmt::ptr(api));
    }
    if (registry().find<T>(*out)) {
      plugin_broke("HD-E-07", "it returned {} for a new {}, but that one is live", fmt::ptr(*out), T::kName);
      *out = nullptr;
      return false;
    }
    return true;
  }
  template <class T>
  void remember(const void* handle, const std::shared_ptr<T>& record, const std::shared_ptr<Device>& device) {
    record->handle = handle;
    record->plugin = plugin_;
    record->device = device;
    if (device) ++device->children;
    registry().live<T>()[handle] = record;
  }
  template <class T>
  void forget(const std::shared_ptr<T>& record) {
    if (record->device) --record->device->children;
    registry().live<T>().erase(record->handle);
  }
  // For a [serial] function: only one call on the object at a time.
  void enter_serial(std::shared_ptr<Record> record, const char* argument);
  // Enqueued work must no longer use the object (HD-Q-03).
  void check_unused(Record& record, const char* argument, uint64_t begin = 0, uint64_t end = UINT64_MAX);
  // A device that was lost before the call must return this permanently (HD-S-02).
  void check_lost(const heddle_status_t* status);
  void check_power_of_two(uint64_t value, const char* argument);
  // offset + length within size, without overflow (HD-M-02).
  bool check_range(uint64_t offset, uint64_t length, uint64_t size, const std::string& argument);

 private:
  static constexpr unsigned char kCanary = 0xC5;
  struct Waits {
    uint64_t times = 0;    // number of times the thread gave up its core
    uint64_t away_ns = 0;  // time it spent on no core
  };
  static Waits waits_of_thread();
  void set_device(const std::shared_ptr<Device>& device) {
    if (device_) return;
    device_ = device;
    was_lost_ = device->lost;
  }
  void passed(ThreadState& state, Tag tag, const Waits& before);
  void check_status(const heddle_status_t* status);
  void broke(const char* who, const char* rule, std::string text, heddle_status_code_t code);
  void note(const char* name, const std::string& text);

  const char* name_;
  std::unique_lock<std::mutex> lock_;
  Plugin* plugin_ = nullptr;
  std::shared_ptr<Device> device_;
  std::shared_ptr<Record> serial_;
  std::string caller_;
  bool was_lost_ = false;
  heddle_status_code_t failure_code_ = 0;
  std::string failure_;
  std::vector<std::pair<uint32_t, std::string>> lines_;  // for the log, once the lock is released
};

// A range of a buffer that work uses.
struct Named {
  std::shared_ptr<Buffer> buffer;
  uint64_t offset = 0, length = 0;
};

// Checks waits and signals, and records them once the work is enqueued.
class Sync {
 public:
  // From here on signals count as enqueued: a callback of the driver may already rely on them.
  Sync(Call& call, const std::shared_ptr<Queue>& queue, const heddle_sync_t* sync);
  // The work is enqueued and uses this object.
  void uses(Record& record) { uses(record.uses, 0, UINT64_MAX); }
  void uses(Uses& uses, uint64_t begin, uint64_t end);
  void uses(const std::vector<Named>& ranges);
  // The point after which the work has finished; NULL if it signals nothing.
  std::pair<std::shared_ptr<Timeline>, uint64_t> first_signal() const {
    return signals_.empty() ? std::pair<std::shared_ptr<Timeline>, uint64_t>() : std::pair(signals_[0].timeline, signals_[0].value);
  }
  // Call when the driver has answered.
  void enqueued(bool success);

 private:
  struct Signal {
    std::shared_ptr<Timeline> timeline;
    uint64_t value, before;
  };
  [[maybe_unused]] Call& call_;
  std::shared_ptr<Queue> queue_;
  std::vector<std::shared_ptr<Timeline>> waits_;
  std::vector<Signal> signals_;
};

// Checks a range; adds it to `named` if the buffer exists.
void check_binding(Call& call, const heddle_binding_t& binding, const std::string& argument, std::vector<Named>* named);

// The functions in the tables.
extern const heddle_device_interface_t kDeviceTable;
extern const heddle_buffer_interface_t kBufferTable;
extern const heddle_transfer_interface_t kTransferTable;
extern const heddle_param_io_interface_t kParamIoTable;
extern const heddle_dispatch_interface_t kDispatchTable;
extern const heddle_timeline_interface_t kTimelineTable;
extern const heddle_native_interface_t kNativeTable;
extern const heddle_profile_interface_t kProfileTable;
extern const heddle_blocks_interface_t kBlocksTable;
extern const heddle_allocator_interface_t kAllocatorTable;
extern const heddle_library_interface_t kLibraryTable;

// Wraps functions of a host's table to detect calls by an operation (HD-O-03).
void wrap_host(heddle_host_t* table) noexcept;

// A new value of a timeline was seen: reports violations in reads and writes that have ended by it.
// may_ask: whether the driver may be queried. Not from one of its callbacks.
void check_transfers(Call& call, const Timeline& timeline, bool may_ask = true);

// Calls release(context) through a number, so that a second call is detected.
void release_callback(void* number) noexcept;

}  // namespace heddle::validation

#endif  // HEDDLE_CORE_VALIDATION_CALL_H_
