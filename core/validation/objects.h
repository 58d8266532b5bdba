// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The layer's knowledge of plugins and live objects: one record per handle, found by its address. Used by the functions in the tables; does not
// contain the checks. Everything here is protected by registry().mutex.
//
// Glossary
//   plugin   an instance of a driver, an allocator or a library whose table was replaced
//   record   the known facts about one object of a plugin: an open device, a buffer, a timeline...
//   use      work that uses an object, and the point at which it has finished
//   guard    bytes before and after an operation's workspace, which the layer requests from the host and which must not be written
#ifndef HEDDLE_CORE_VALIDATION_OBJECTS_H_
#define HEDDLE_CORE_VALIDATION_OBJECTS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "heddle/allocator.h"
#include "heddle/driver.h"
#include "heddle/ext/blocks.h"
#include "heddle/ext/library.h"
#include "heddle/ext/native.h"
#include "heddle/ext/profile.h"

namespace heddle::validation {

inline std::string_view view(heddle_string_t text) {
  return {text.data ? text.data : "", text.data ? text.size : 0};
}

// A library plugin's answer to a request.
struct Answer {
  heddle_operation_properties_t properties{};
  uint64_t guard = 0;  // bytes before and after the workspace; added to the size that the host sees
};

struct Plugin {
  std::string id;
  const heddle_host_t* host = nullptr;
  heddle_plugin_instance_t* instance = nullptr;
  heddle_driver_api_t driver{};              // the plugin's own tables
  const heddle_driver_api_t* api = nullptr;  // the first word of its handles; NULL for an allocator
  heddle_allocator_interface_t allocator{};
  heddle_library_interface_t library{};
  std::unordered_map<std::string, Answer> answers;  // per request
  bool forgot_answers = false;                      // answers were dropped because there were too many
  uint64_t live = 0;                                // number of live devices, allocators and operations
  bool ended = false;
  uint64_t calls = 0, violations = 0;
  std::vector<std::string> first;           // texts of the first violations
  std::vector<std::shared_ptr<void>> kept;  // objects that the plugin may still call although it should not
};

struct Timeline;

struct Use {
  std::shared_ptr<Timeline> timeline;
  uint64_t value = 0;
};

// The uses of an object, or of bytes of a buffer. For work on one timeline over the same bytes only the last use is kept, since its point comes last.
class Uses {
 public:
  void add(const std::shared_ptr<Timeline>& timeline, uint64_t value, uint64_t begin = 0, uint64_t end = UINT64_MAX);
  // An unfinished use of [begin, end). May query the driver. NULL: none.
  const Use* unfinished(uint64_t begin = 0, uint64_t end = UINT64_MAX);

 private:
  std::map<std::tuple<uint64_t, uint64_t, const Timeline*>, Use> uses_;
};

struct Device;
struct Record {
  const void* handle = nullptr;
  Plugin* plugin = nullptr;
  std::shared_ptr<Device> device;  // empty for devices and allocators
  uint32_t inside = 0;             // [serial] calls on it that have not returned
  Uses uses;
};

struct Device : Record {
  static constexpr const char* kName = "device";
  heddle_device_description_t limits{};  // its limits; all 0 if describe failed
  bool lost = false;
  uint64_t children = 0;
};
struct Queue : Record {
  static constexpr const char* kName = "queue";
  bool blocks = false;  // on an application's stream, where submit may block (HD-Q-08)
};
struct Buffer : Record {
  static constexpr const char* kName = "buffer";
  uint64_t size = 0, alignment = 0, maps = 0;
  uint64_t address = 0;     // 0: unknown
  uint32_t recordings = 0;  // recordings that use it permanently
};
// A driver that is asked for a timeline's value may look after other work meanwhile, and make notifications. They need the mutex that this thread holds
// while it asks, so they are postponed until it is free. False: this thread does not ask. The failure is borrowed.
bool postpone(void (*notified)(void* number, const heddle_status_t* failure), void* number, const heddle_status_t* failure);
// Makes them, without the mutex.
void tell_postponed() noexcept;

struct Timeline : Record {
  static constexpr const char* kName = "timeline";
  bool live = true;
  bool imported = false;  // others signal it, too
  uint64_t enqueued = 0;  // the largest value whose signal is enqueued or reached
  uint64_t reached = 0;   // largest value that was seen
  uint64_t failed_from = UINT64_MAX;
  // Whether the point is reached or has failed. Queries the driver if this is unknown.
  bool over(uint64_t value);
  // The same, judging only by what was seen.
  bool seen_over(uint64_t value) const { return !live || reached >= value || failed_from <= value; }
  // Asks the driver: its value, and whether it is poisoned.
  bool ask(uint64_t* out_value);
};
// One enqueue that has not returned.
struct Running {
  heddle_operation_call_t call;
  std::vector<std::pair<uint64_t, uint64_t>> reads, writes;  // address ranges
};
struct Operation : Record {
  static constexpr const char* kName = "operation";
  std::string target;
  std::vector<uint64_t> operand_bytes;
  uint32_t inputs = 0;
  Answer answer;
  uint32_t loads = 0;  // live executables of it
  std::string driver;  // driver that loaded it last
  std::vector<const Running*> running;

  uint32_t shards() const { return std::max(answer.properties.shard_count, 1u); }
  // The size that the host knows.
  uint64_t workspace_bytes() const { return answer.properties.workspace_bytes + 2 * answer.guard; }
  // Whether enqueue does the work itself, on host memory.
  bool on_host() const { return target == HEDDLE_LIBRARY_TARGET_HOST; }
};
struct Executable : Record {
  static constexpr const char* kName = "executable";
  std::vector<std::pair<uint32_t, uint32_t>> entries;  // bindings, bytes of constants
  std::vector<const void*> given;                      // entries that were returned
  std::shared_ptr<Operation> operation;                // if it was loaded from an operation
};
struct Entry : Record {
  static constexpr const char* kName = "entry";
  uint32_t bindings = 0, constants_bytes = 0;
  std::weak_ptr<Executable> executable;
};
struct Recording : Record {
  static constexpr const char* kName = "recording";
  std::vector<uint64_t> dynamic;  // lengths of the dynamic bindings
  std::vector<std::shared_ptr<Buffer>> fixed;
  std::vector<std::shared_ptr<Entry>> entries;
};
struct File : Record {
  static constexpr const char* kName = "file";
};
// A read or a write of a file whose progress is reported. Members that reports change are protected by Registry::transfers_mutex.
struct Transfer {
  Plugin* plugin;
  std::shared_ptr<Timeline> timeline;  // the timeline of its first signal
  uint64_t value;
  uint64_t total, most_reports;  // UINT64_MAX: unknown
  // The host's function.
  void (*progress)(void* context, uint64_t done_bytes, uint64_t total_bytes);
  void* context;
  const volatile uint32_t* cancel;

  uint64_t done = 0, reports = 0;
  uint64_t cancelled_at = UINT64_MAX, reports_since = 0;  // bytes done when the cancellation was seen, and number of later reports
  bool inside = false;                                    // a report is in progress
  bool over = false;
  std::vector<std::pair<const char*, std::string>> wrong{};  // rules and texts, reported when it has ended
};

struct Allocator;

// Live blocks of one provider or allocator, by location.
using Blocks = std::map<std::pair<heddle_buffer_t*, uint64_t>, heddle_block_t>;

struct Allocator : Record {
  static constexpr const char* kName = "allocator";
  Blocks blocks;  // blocks that it returned
  uint64_t requested = 0, allocations = 0, frees = 0;
  uint32_t calls = 0;    // calls that have not returned
  uint64_t changes = 0;  // number of begins and ends of allocating and freeing calls
  // The allocator's provider: the host's, and the one that the allocator was given instead.
  const heddle_provider_t* below = nullptr;
  heddle_provider_t provider{};
  Blocks held;  // blocks that it got from its provider
};

template <class T>
using Live = std::unordered_map<const void*, std::shared_ptr<T>>;

class Registry {
 public:
  std::mutex mutex;

  template <class T>
  Live<T>& live() {
    return std::get<Live<T>>(live_);
  }
  template <class T>
  std::shared_ptr<T> find(const void* handle) {
    auto found = live<T>().find(handle);
    return found == live<T>().end() ? nullptr : found->second;
  }
  Plugin* of(const heddle_plugin_instance_t* instance) {
    auto found = by_instance_.find(instance);
    return found == by_instance_.end() ? nullptr : found->second;
  }
  Plugin* add(std::unique_ptr<Plugin> plugin);
  void end(Plugin& plugin);
  // Any plugin, for a call that names no object.
  Plugin* any();
  const std::vector<std::unique_ptr<Plugin>>& plugins() const { return plugins_; }

  // The data of a callback that a plugin holds. Numbers are never reused, so that a second call is detected.
  struct Callback {
    Plugin* plugin;
    const char* name;
    void (*notified)(void* context, const heddle_status_t* failure);
    void (*released)(void* context);
    void* context;
    std::shared_ptr<Timeline> timeline;  // for a notification, with its value
    uint64_t value;
  };
  void* add_callback(const Callback& callback);
  bool take_callback(void* number, Callback* out);
  // Forgets the callbacks that the plugin still owes, and returns their number.
  size_t drop_callbacks(const Plugin& plugin);

  // By numbers that are never reused. Finished ones stay for a while, so that late reports are detected. Transfers are added and removed with both
  // mutexes held, this one locked last: a report takes only this one, because its driver may hold locks that its query takes too.
  std::mutex transfers_mutex;
  void* add_transfer(Transfer transfer);
  std::map<uint64_t, Transfer>& transfers() { return transfers_; }

 private:
  std::tuple<Live<Device>, Live<Queue>, Live<Buffer>, Live<Timeline>, Live<Executable>, Live<Entry>, Live<Recording>, Live<File>,
             Live<Allocator>, Live<Operation>>
      live_;
  std::unordered_map<const heddle_plugin_instance_t*, Plugin*> by_instance_;
  std::vector<std::unique_ptr<Plugin>> plugins_;  // never removed: reports name them
  std::unordered_map<uint64_t, Callback> callbacks_;
  uint64_t next_callback_ = 0;
  std::map<uint64_t, Transfer> transfers_;
  uint64_t next_transfer_ = 0;
};

Registry& registry();

}  // namespace heddle::validation

#endif  // HEDDLE_CORE_VALIDATION_OBJECTS_H_
