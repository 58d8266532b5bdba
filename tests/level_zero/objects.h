// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The objects behind the handles of the stand-in for a Level Zero driver, for all its files.
//
// One mutex guards all of them (state().mutex); only the work of commands runs without it. A handle is an object's address. An object that the
// application destroys is marked and kept, so that a later use is found.
#pragma once

#include <level_zero/ze_api.h>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/level_zero/executor.h"
#include "tests/level_zero/settings.h"

namespace heddle::level_zero_stand_in {

// What every object begins with.
struct Object {
  explicit Object(const char* its_kind);  // with the mutex locked; remembers it for ever
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  const char* const kind;
  bool destroyed = false;
  uint64_t users = 0;  // submitted commands that have not ended
};

struct Device : Object {
  static constexpr const char* kKind = "device";
  Device(Device* its_root, uint32_t its_index, int its_part)
      : Object(kKind), root(its_root == nullptr ? this : its_root), index(its_index), part(its_part) {}
  Device* const root;  // this one if it is no sub-device
  const uint32_t index;
  const int part;              // of the root: -1 for a root
  bool is_sub_device = false;  // what the application sees
  std::vector<Device*> parts;  // that the application sees
  // Of a root.
  bool lost = false;
  uint64_t allocated_bytes = 0;
  uint64_t commands = 0;  // that ran

  uint64_t memory_bytes() const { return settings().memory_bytes / (part >= 0 ? settings().sub_devices : 1); }
  // Without ze_relaxed_allocation_limits_exp_desc_t.
  uint64_t largest_allocation() const { return memory_bytes() / 2; }
  std::string name() const;
};

struct Driver : Object {
  static constexpr const char* kKind = "driver";
  Driver() : Object(kKind) {}
  std::vector<std::unique_ptr<Device>> all;
  std::vector<Device*> devices;  // that the application sees
};

struct Context : Object {
  static constexpr const char* kKind = "context";
  Context() : Object(kKind) {}
};

// Unified shared memory. The application sees the bytes from `address`. For device memory, commands access them at `bytes`, and `address` itself
// cannot be accessed, unless settings().protects is false.
struct Allocation {
  Context* context = nullptr;
  Device* device = nullptr;  // NULL for host memory
  ze_memory_type_t type = ZE_MEMORY_TYPE_UNKNOWN;
  uintptr_t address = 0;
  std::byte* bytes = nullptr;
  size_t size = 0;
  uint64_t id = 0;
  uint64_t users = 0;
  void* reserved = nullptr;  // the pages around the address
  void* mapped = nullptr;    // those around `bytes`; the same without protection
  size_t mapped_size = 0;    // of both
  size_t slack = 0;          // poisoned bytes after the last
};

struct EventPool : Object {
  static constexpr const char* kKind = "event pool";
  EventPool() : Object(kKind) {}
  Context* context = nullptr;
  uint32_t count = 0;
  ze_event_pool_flags_t flags = 0;
  std::set<uint32_t> used;
};

struct Event : Object {
  static constexpr const char* kKind = "event";
  Event() : Object(kKind) {}
  EventPool* pool = nullptr;
  uint32_t index = 0;
  ze_event_scope_flags_t signal_scope = 0;
  bool signaled = false;
  uint64_t start = 0, end = 0;  // in ticks of the device
};

struct Fence : Object {
  static constexpr const char* kKind = "fence";
  Fence() : Object(kKind) {}
  struct Queue* queue = nullptr;
  bool signaled = false;
};

struct Module : Object {
  static constexpr const char* kKind = "module";
  Module() : Object(kKind) {}
  Device* device = nullptr;
  std::shared_ptr<Program> program;
  uint64_t kernels = 0;
};

struct BuildLog : Object {
  static constexpr const char* kKind = "build log";
  BuildLog() : Object(kKind) {}
  std::string text;
};

struct Kernel : Object {
  static constexpr const char* kKind = "kernel";
  Kernel() : Object(kKind) {}
  Module* module = nullptr;
  const KernelInfo* info = nullptr;  // of the module's program
  std::vector<ArgumentValue> arguments;
  uint32_t group[3] = {1, 1, 1};
  bool has_group = false;
  ze_kernel_indirect_access_flags_t indirect = 0;
};

// Between two places of memory, in rows and slices as zeCommandListAppendMemoryCopyRegion has them.
struct CopyWork {
  void* to = nullptr;
  const void* from = nullptr;
  size_t width = 0;
  uint32_t height = 1, depth = 1;
  size_t to_pitch = 0, to_slice = 0, from_pitch = 0, from_slice = 0;
  Context* from_context = nullptr;
};

enum class Work { kCopy, kFill, kLaunch, kBarrier, kTimestamp, kSignal, kWait, kReset, kQueryTimestamps, kFence, kListEnd };

// What was appended. Everything that the specification lets the application change afterwards is copied here.
struct Command {
  Work work = Work::kBarrier;
  std::vector<Event*> waits;
  Event* signal = nullptr;
  CopyWork copy;                   // kCopy; kFill and kTimestamp: `to` and `width`
  std::vector<std::byte> pattern;  // kFill
  Kernel* kernel = nullptr;        // kLaunch
  std::vector<ArgumentValue> arguments;
  uint32_t group[3] = {1, 1, 1};
  ze_group_count_t count = {1, 1, 1};
  Event* reset = nullptr;       // kReset
  std::vector<Event*> queried;  // kQueryTimestamps, to copy.to
  std::vector<size_t> offsets;
  Fence* fence = nullptr;  // kFence
  std::string text() const;
};

struct List;

// A submitted command.
struct Task {
  std::shared_ptr<const Command> command;
  List* list = nullptr;
  uint64_t number = 0;         // in its stream
  size_t done = 0;             // of a copy: bytes
  uint64_t not_before_ns = 0;  // a delay
  uint64_t start = 0;          // ticks
};

// What runs commands: a queue, or an immediate list. Commands start in the order in which they were submitted: one starts when its events are
// signaled, and after a barrier has ended. Those that have started run in any order and in any mixture.
struct Stream {
  Device* device = nullptr;
  Context* context = nullptr;
  bool in_order = false;
  uint64_t next_number = 0;
  std::deque<Task> waiting;
  std::vector<Task> started;
  std::set<uint64_t> unfinished;
  bool blocked = false;  // by a barrier that has started
};

struct Queue : Object {
  static constexpr const char* kKind = "command queue";
  Queue() : Object(kKind) {}
  Stream stream;
  uint32_t ordinal = 0;
  bool synchronous = false;
};

struct List : Object {
  static constexpr const char* kKind = "command list";
  List() : Object(kKind) {}
  Context* context = nullptr;
  Device* device = nullptr;
  uint32_t ordinal = 0;
  bool closed = false, in_order = false, synchronous = false;
  std::vector<std::shared_ptr<const Command>> commands;
  std::unique_ptr<Stream> stream;   // of an immediate list
  const Stream* runs_on = nullptr;  // while it has users
};

struct State {
  std::mutex mutex;
  std::condition_variable changed;  // a command ended, an event was signaled, a device is lost
  std::condition_variable work;     // for the thread that runs commands
  Driver driver;
  bool initialized = false;
  std::map<uintptr_t, std::unique_ptr<Allocation>> memory;  // by address
  std::map<uintptr_t, size_t> imports;                      // memory of the application: sizes, by address
  uint64_t next_id = 1;
  std::vector<Stream*> streams;
  bool held = false;                               // no command runs (heddle_level_zero_hold)
  uint64_t refused_lists = 0;                      // heddle_level_zero_refuse_lists
  ze_result_t loss = ZE_RESULT_ERROR_DEVICE_LOST;  // what calls for a lost device return
  bool has_thread = false, has_seed = false;
  std::mt19937_64 random;
};

// Lives until the process ends: OpenCL's threads and the loader's destructors use it late.
State& state();

// Whether the object is of that kind and not destroyed; if not, reports a broken rule.
bool is_usable(const Object* object, const char* kind);

// The object of a handle that is not NULL; NULL if it cannot be used, which is reported.
template <class T>
T* object_of(void* handle) {
  Object* object = static_cast<Object*>(handle);
  return is_usable(object, T::kKind) ? static_cast<T*>(object) : nullptr;
}

}  // namespace heddle::level_zero_stand_in
