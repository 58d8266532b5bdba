// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See engine.h. One thread runs the commands of all devices. It does whatever the specification allows, by a generator with a seed: commands that no
// barrier, event or in-order list orders run in any order, large copies in pieces with others between them, and each may start late.
#include "tests/level_zero/engine.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/level_zero/page_faults.h"

namespace heddle::level_zero_stand_in {

namespace {

uint64_t now_ns() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

uint64_t random_below(uint64_t bound) {
  return bound == 0 ? 0 : state().random() % bound;
}

std::string hex(const void* address) {
  char text[32];
  snprintf(text, sizeof text, "%p", address);
  return text;
}

void count_users(const Command& command, List* list, int64_t change) {
  const auto add = [change](Object* object) {
    if (object != nullptr) object->users += static_cast<uint64_t>(change);
  };
  for (Event* event : command.waits) add(event);
  for (Event* event : command.queried) add(event);
  add(command.signal);
  add(command.reset);
  add(command.kernel);
  add(command.fence);
  add(list);
}

// Pins what a command accesses while its work runs without the mutex.
class Pins {
 public:
  Pins(Task& task, Stream& stream) : task_(task), stream_(stream) {}
  ~Pins() {
    for (Allocation* memory : pinned_) --memory->users;
  }
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;
  // Where the bytes can be accessed; NULL and a report if they cannot.
  std::byte* access(const void* address, size_t size) {
    const std::string wrong = check_access(*stream_.device, stream_.context, task_.command->copy.from_context, address, size);
    if (!wrong.empty()) {
      broken_rule(stream_.device, task_.command->text() + ": " + wrong + " when it runs");
      return nullptr;
    }
    Allocation* memory = find_memory(address, size);
    if (memory == nullptr) return static_cast<std::byte*>(const_cast<void*>(address));  // of the application
    ++memory->users;
    pinned_.push_back(memory);
    return memory->bytes + (reinterpret_cast<uintptr_t>(address) - memory->address);
  }

 private:
  Task& task_;
  Stream& stream_;
  std::vector<Allocation*> pinned_;
};

size_t extent(const CopyWork& copy, size_t pitch, size_t slice) {
  return copy.width == 0 ? 0 : (copy.depth - 1) * slice + (copy.height - 1) * pitch + copy.width;
}

// A part of a copy. True if that was the last.
bool copy_part(Lock& lock, Task& task, Stream& stream) {
  const CopyWork& copy = task.command->copy;
  const size_t to_size = extent(copy, copy.to_pitch, copy.to_slice), from_size = extent(copy, copy.from_pitch, copy.from_slice);
  if (to_size == 0) return true;
  Pins pins(task, stream);
  std::byte* to = pins.access(copy.to, to_size);
  const std::byte* from = to == nullptr ? nullptr : pins.access(copy.from, from_size);
  if (from == nullptr) return false;
  size_t part = copy.width;
  const bool whole = copy.height > 1 || copy.depth > 1 || settings().seed == 0;
  if (!whole && copy.width > 4096) part = std::min(copy.width - task.done, 1 + random_below(copy.width));
  lock.unlock();
  if (whole) {
    for (uint32_t z = 0; z < copy.depth; ++z)
      for (uint32_t y = 0; y < copy.height; ++y)
        memcpy(to + z * copy.to_slice + y * copy.to_pitch, from + z * copy.from_slice + y * copy.from_pitch, copy.width);
    part = copy.width;
  } else {
    memcpy(to + task.done, from + task.done, part);
  }
  lock.lock();
  task.done += part;
  return task.done >= copy.width;
}

bool fill(Lock& lock, Task& task, Stream& stream) {
  const Command& command = *task.command;
  Pins pins(task, stream);
  std::byte* to = pins.access(command.copy.to, command.copy.width);
  if (to == nullptr) return false;
  lock.unlock();
  const size_t unit = command.pattern.size();
  if (unit == 1) {
    memset(to, std::to_integer<int>(command.pattern[0]), command.copy.width);
  } else {
    for (size_t at = 0; at < command.copy.width; at += unit)
      memcpy(to + at, command.pattern.data(), std::min(unit, command.copy.width - at));
  }
  lock.lock();
  return true;
}

bool launch(Lock& lock, Task& task, Stream& stream) {
  const Command& command = *task.command;
  Kernel& kernel = *command.kernel;
  Pins pins(task, stream);
  std::vector<ArgumentValue> arguments = command.arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (kernel.info->arguments[i].kind != ArgumentInfo::kGlobal) continue;
    void* address = nullptr;
    memcpy(&address, arguments[i].bytes.data(), sizeof address);
    if (address == nullptr) continue;
    const std::byte* real = pins.access(address, 1);
    if (real == nullptr) return false;
    memcpy(arguments[i].bytes.data(), &real, sizeof real);
  }
  const std::shared_ptr<Program> program = kernel.module->program;
  const uint32_t count[3] = {command.count.groupCountX, command.count.groupCountY, command.count.groupCountZ};
  lock.unlock();
  std::string wrong;
  uintptr_t nowhere = 0;
  {
    const PageFaults faults;
    wrong = program->run(*kernel.info, arguments, command.group, count);
    nowhere = faults.first();
  }
  lock.lock();
  if (nowhere != 0) {
    fprintf(stderr, "level_zero stand-in: %s: page fault at %s\n", command.text().c_str(), hex(reinterpret_cast<void*>(nowhere)).c_str());
    lose(stream.device);
    return false;
  }
  if (wrong.empty()) return true;
  broken_rule(stream.device, command.text() + " failed: " + wrong);
  return false;
}

bool write_timestamps(Task& task, Stream& stream) {
  const Command& command = *task.command;
  Pins pins(task, stream);
  const auto store = [&](size_t offset, const void* value, size_t size) {
    std::byte* to = pins.access(static_cast<std::byte*>(command.copy.to) + offset, size);
    if (to != nullptr) memcpy(to, value, size);
    return to != nullptr;
  };
  if (command.work == Work::kTimestamp) {
    const uint64_t now = ticks_now() & ((uint64_t{1} << kTimestampBits) - 1);
    return store(0, &now, sizeof now);
  }
  for (size_t i = 0; i < command.queried.size(); ++i) {
    const Event& event = *command.queried[i];
    const ze_kernel_timestamp_result_t result = {{event.start, event.end}, {event.start, event.end}};
    if (!store(command.offsets.empty() ? i * sizeof result : command.offsets[i], &result, sizeof result)) return false;
  }
  return true;
}

// One step of a task. True if it has ended. False otherwise; the device may be lost then.
bool step(Lock& lock, Task& task, Stream& stream) {
  if (task.start == 0) task.start = ticks_now();
  const Command& command = *task.command;
  if (settings().log) fprintf(stderr, "level_zero stand-in: %s runs\n", command.text().c_str());
  switch (command.work) {
    case Work::kCopy:
      return copy_part(lock, task, stream);
    case Work::kFill:
      return fill(lock, task, stream);
    case Work::kLaunch:
      return launch(lock, task, stream);
    case Work::kTimestamp:
    case Work::kQueryTimestamps:
      return write_timestamps(task, stream);
    case Work::kReset:
      command.reset->signaled = false;
      return true;
    case Work::kFence:
      command.fence->signaled = true;
      return true;
    case Work::kBarrier:
    case Work::kSignal:
    case Work::kWait:
    case Work::kListEnd:
      return true;
  }
  return true;
}

bool is_barrier(const Task& task) {
  return task.command->work == Work::kBarrier;
}

// Whether all that was submitted before it has ended.
bool is_first(const Stream& stream, const Task& task) {
  return *stream.unfinished.begin() == task.number;
}

bool can_start(const Stream& stream, const Task& task) {
  if (stream.blocked) return false;
  if (stream.in_order && !is_first(stream, task)) return false;
  // A barrier without events waits for all before it, and one with events only for them.
  if (is_barrier(task) && task.command->waits.empty() && !is_first(stream, task)) return false;
  const auto& waits = task.command->waits;
  return std::all_of(waits.begin(), waits.end(), [](const Event* event) { return event->signaled; });
}

void finish(Task& task, Stream& stream) {
  if (Event* event = task.command->signal) {
    const uint64_t mask = (uint64_t{1} << kKernelTimestampBits) - 1;
    event->start = task.start & mask;
    event->end = ticks_now() & mask;
    event->signaled = true;
  }
  stream.unfinished.erase(task.number);
  if (is_barrier(task)) stream.blocked = false;
  count_users(*task.command, task.list, -1);
  if (task.command->work == Work::kListEnd) return;  // no command of the application's
  Device& root = *stream.device->root;
  ++root.commands;
  if (settings().lose_after != 0 && root.commands == settings().lose_after) lose(&root);
}

class Engine {
 public:
  [[noreturn]] void run() {
    State& s = state();
    Lock lock(s.mutex);
    for (;;) {
      for (Stream* stream : s.streams) start_tasks(*stream);
      uint64_t next_ns = UINT64_MAX;
      std::pair<Stream*, size_t> chosen = choose(&next_ns);
      if (chosen.first == nullptr) {
        if (next_ns == UINT64_MAX) {
          s.work.wait(lock);
        } else {
          const uint64_t now = now_ns();
          if (next_ns > now) s.work.wait_for(lock, std::chrono::nanoseconds(next_ns - now));
        }
        continue;
      }
      Stream& stream = *chosen.first;
      const auto at = stream.started.begin() + static_cast<ptrdiff_t>(chosen.second);
      Task task = std::move(*at);
      stream.started.erase(at);
      const bool ended = step(lock, task, stream);
      if (stream.device->root->lost) {
        count_users(*task.command, task.list, -1);
      } else if (ended) {
        finish(task, stream);
      } else {
        stream.started.push_back(std::move(task));
      }
      s.changed.notify_all();
    }
  }

 private:
  static void start_tasks(Stream& stream) {
    while (!stream.waiting.empty() && can_start(stream, stream.waiting.front())) {
      Task task = std::move(stream.waiting.front());
      stream.waiting.pop_front();
      stream.blocked = is_barrier(task);
      if (settings().seed != 0 && settings().delay_us != 0) {
        const uint64_t dice = random_below(8);
        const uint64_t longest_ns = uint64_t{settings().delay_us} * 1000;
        if (dice < 4) task.not_before_ns = now_ns() + random_below(dice == 0 ? longest_ns : longest_ns / 8);
      }
      stream.started.push_back(std::move(task));
    }
  }

  // A task that may run now, at random; the first without a seed. If there is none, *next_ns is when to look again.
  static std::pair<Stream*, size_t> choose(uint64_t* next_ns) {
    State& s = state();
    if (s.held) return {nullptr, 0};
    std::pair<Stream*, size_t> chosen = {nullptr, 0};
    uint64_t seen = 0;
    const uint64_t now = now_ns();
    for (Stream* stream : s.streams) {
      for (size_t i = 0; i < stream->started.size(); ++i) {
        const Task& task = stream->started[i];
        // Only a fence and the end of a list come after all commands before them; a signal does not.
        const bool is_last = task.command->work == Work::kFence || task.command->work == Work::kListEnd;
        if (is_last && !is_first(*stream, task)) continue;
        if (task.not_before_ns > now) {
          *next_ns = std::min(*next_ns, task.not_before_ns);
          continue;
        }
        ++seen;
        if (chosen.first == nullptr || (s.has_seed && random_below(seen) == 0)) chosen = {stream, i};
      }
    }
    return chosen;
  }
};

}  // namespace

State& state() {
  static State* const once = new State();
  return *once;
}

Object::Object(const char* its_kind) : kind(its_kind) {
  static auto* const objects = new std::vector<Object*>();
  objects->push_back(this);
}

std::string Command::text() const {
  switch (work) {
    case Work::kCopy:
      return "the copy of " + std::to_string(copy.width) + " bytes from " + hex(copy.from) + " to " + hex(copy.to);
    case Work::kFill:
      return "the fill of " + std::to_string(copy.width) + " bytes at " + hex(copy.to);
    case Work::kLaunch:
      return "the launch of '" + kernel->info->name + "' with " + std::to_string(count.groupCountX) + " x " +
             std::to_string(count.groupCountY) + " x " + std::to_string(count.groupCountZ) + " groups";
    case Work::kBarrier:
      return "a barrier";
    case Work::kTimestamp:
      return "the timestamp to " + hex(copy.to);
    case Work::kSignal:
      return "a signal of an event";
    case Work::kWait:
      return "a wait for events";
    case Work::kReset:
      return "a reset of an event";
    case Work::kQueryTimestamps:
      return "the query of timestamps to " + hex(copy.to);
    case Work::kFence:
      return "a fence";
    case Work::kListEnd:
      return "the end of a command list";
  }
  return "a command";
}

bool is_usable(const Object* object, const char* kind) {
  if (strcmp(object->kind, kind) != 0) {
    broken_rule(nullptr, std::string("a handle of a ") + object->kind + " is used as a " + kind);
    return false;
  }
  if (object->destroyed) {
    broken_rule(nullptr, std::string("a destroyed ") + kind + " is used");
    return false;
  }
  return true;
}

uint64_t ticks_now() {
  static const uint64_t first_ns = now_ns();
  const uint64_t ns = now_ns() - first_ns;
  return (uint64_t{1} << 32) - kTicksPerSecond + ns / 625 * 12 + ns % 625 * 12 / 625;
}

void broken_rule(Device* device, const std::string& text) {
  fprintf(stderr, "level_zero stand-in: broken rule: %s\n", text.c_str());
  if (settings().aborts) abort();
  if (device != nullptr) {
    lose(device);
  } else {
    for (auto& each : state().driver.all) {
      if (each->root == each.get()) lose(each.get());
    }
  }
}

ze_result_t unsupported(const char* what) {
  fprintf(stderr, "level_zero stand-in: not supported: %s\n", what);
  return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
}

bool is_any_lost() {
  const auto& devices = state().driver.all;
  return std::any_of(devices.begin(), devices.end(), [](const auto& device) { return device->lost; });
}

bool is_in_use(const Object& object) {
  return object.users != 0 && !is_any_lost();
}

void lose(Device* device) {
  Device* root = device->root;
  if (root->lost) return;
  root->lost = true;
  fprintf(stderr, "level_zero stand-in: device %u is lost\n", root->index);
  for (Stream* stream : state().streams) {
    if (stream->device->root == root) drop(stream);
  }
  state().changed.notify_all();
}

Allocation* find_memory(const void* address, size_t size) {
  auto& memory = state().memory;
  const auto start = reinterpret_cast<uintptr_t>(address);
  auto found = memory.upper_bound(start);
  if (found == memory.begin()) return nullptr;
  Allocation* one = std::prev(found)->second.get();
  const uintptr_t offset = start - one->address;
  return offset < one->size && size <= one->size - offset ? one : nullptr;
}

std::string check_access(const Device& device, const Context* context, const Context* other, const void* address, size_t size) {
  const std::string what = std::to_string(size) + " bytes at " + hex(address);
  const Allocation* memory = find_memory(address, size);
  if (memory == nullptr) {
    if (const Allocation* start = find_memory(address, 1)) {
      return what + " end after the allocation of " + std::to_string(start->size) + " bytes at " +
             hex(reinterpret_cast<void*>(start->address));
    }
    return settings().pageable || is_imported(address, size) ? "" : what + " are in no live allocation and no import";
  }
  if (memory->context != context && memory->context != other) return what + " are of another context";
  if (memory->type == ZE_MEMORY_TYPE_DEVICE && memory->device->root != device.root && !settings().peers) {
    return what + " are memory of device " + std::to_string(memory->device->root->index) + ", which is no peer";
  }
  return "";
}

void submit(Stream* stream, std::shared_ptr<const Command> command, List* list) {
  State& s = state();
  if (!s.has_thread) {
    s.has_thread = true;
    s.random.seed(settings().seed);
    s.has_seed = settings().seed != 0;
    std::thread([] { Engine().run(); }).detach();
  }
  count_users(*command, list, 1);
  Task task;
  task.command = std::move(command);
  task.list = list;
  task.number = stream->next_number++;
  stream->unfinished.insert(task.number);
  stream->waiting.push_back(std::move(task));
  s.work.notify_one();
}

void drop(Stream* stream) {
  for (const Task& task : stream->waiting) count_users(*task.command, task.list, -1);
  for (const Task& task : stream->started) count_users(*task.command, task.list, -1);
  stream->waiting.clear();
  stream->started.clear();
  stream->unfinished.clear();
  stream->blocked = false;
}

const Command* find_user(uintptr_t address, size_t size) {
  const auto meets = [&](const void* start, size_t bytes) {
    const auto first = reinterpret_cast<uintptr_t>(start);
    return bytes > 0 && first < address + size && address < first + bytes;
  };
  const auto uses = [&](const Command& command) {
    const CopyWork& copy = command.copy;
    switch (command.work) {
      case Work::kCopy:
        return meets(copy.to, extent(copy, copy.to_pitch, copy.to_slice)) ||
               meets(copy.from, extent(copy, copy.from_pitch, copy.from_slice));
      case Work::kFill:
      case Work::kTimestamp:
      case Work::kQueryTimestamps:
        return meets(copy.to, copy.width);
      case Work::kLaunch:
        for (size_t i = 0; i < command.arguments.size(); ++i) {
          if (command.kernel->info->arguments[i].kind != ArgumentInfo::kGlobal) continue;
          void* pointer = nullptr;
          memcpy(&pointer, command.arguments[i].bytes.data(), sizeof pointer);
          if (meets(pointer, 1)) return true;
        }
        return false;
      default:
        return false;
    }
  };
  for (const Stream* stream : state().streams) {
    for (const Task& task : stream->waiting) {
      if (uses(*task.command)) return task.command.get();
    }
    for (const Task& task : stream->started) {
      if (uses(*task.command)) return task.command.get();
    }
  }
  return nullptr;
}

ze_result_t wait_until(Lock& lock, Device* device, uint64_t timeout_ns, const std::function<bool()>& done) {
  State& s = state();
  const auto over = [&] { return device->root->lost || done(); };
  if (timeout_ns > uint64_t{1} << 62) {
    s.changed.wait(lock, over);
  } else {
    s.changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), over);
  }
  if (device->root->lost) return state().loss;
  return done() ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY;
}

}  // namespace heddle::level_zero_stand_in
