// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recording and replay of the fake: a list kept with everything it points to, whose dynamic bindings a replay fills in.
// Stricter than a real driver: a replay that overlaps the one before, or brings bindings of other lengths, is refused, and what is said to be
// only read is copied before anything runs, so that a kernel which reads what the list wrote there sees old bytes.
#include <algorithm>
#include <cstring>

#include "fake.h"

namespace heddle::fake {

using sdk::guarded;
using sdk::status;

namespace {

// Where a dynamic binding goes: a binding, or a copy's or fill's buffer and offset.
struct Slot {
  heddle_buffer_t** buffer;
  uint64_t* offset;
  uint64_t length;
  std::unique_ptr<Buffer> place;  // of a kernel's binding that is only read: its copy
  std::unique_ptr<char[]> place_bytes;
};

struct Recording {
  const heddle_driver_api_t* api;
  Device* device;
  Queue* queue;
  std::vector<heddle_command_t> commands;
  std::vector<std::unique_ptr<heddle_binding_t[]>> bindings;
  std::vector<std::unique_ptr<char[]>> bytes;
  std::vector<Slot> dynamic;
  std::shared_ptr<std::atomic<bool>> in_flight = std::make_shared<std::atomic<bool>>(false);
  static Recording* from(heddle_recording_t* handle) noexcept { return reinterpret_cast<Recording*>(handle); }

  template <typename T>
  const T* keep(const T* values, size_t count, std::vector<std::unique_ptr<T[]>>* owner) {
    if (!values) return nullptr;
    owner->emplace_back(new T[count]);
    std::copy(values, values + count, owner->back().get());
    return owner->back().get();
  }

  // Copies what command points to, and notes its dynamic bindings. Returns how many bindings it has.
  uint32_t capture(heddle_command_t& command, const uint8_t* flags) {
    auto note = [&](uint32_t i, heddle_buffer_t*& buffer, uint64_t& offset, uint64_t length) {
      if (!(flags[i] & HEDDLE_BINDING_DYNAMIC)) return;
      dynamic.push_back({&buffer, &offset, length, nullptr, nullptr});
      if (command.kind != HEDDLE_COMMAND_DISPATCH || !(flags[i] & HEDDLE_BINDING_READ_ONLY) || length == 0) return;
      Slot& slot = dynamic.back();
      slot.place_bytes.reset(new char[length]);
      slot.place = std::make_unique<Buffer>();
      slot.place->api = api;
      slot.place->device = device;
      slot.place->size = length;
      slot.place->secret = slot.place_bytes.get();
    };
    switch (command.kind) {
      case HEDDLE_COMMAND_DISPATCH: {
        heddle_dispatch_command_t& dispatch = command.as.dispatch;
        dispatch.constants = keep(static_cast<const char*>(dispatch.constants), dispatch.constants_bytes, &bytes);
        dispatch.bindings = keep(dispatch.bindings, dispatch.binding_count, &bindings);
        for (uint32_t i = 0; i < dispatch.binding_count; ++i) {
          heddle_binding_t& binding = bindings.back()[i];
          note(i, binding.buffer, binding.offset, binding.length);
        }
        return dispatch.binding_count;
      }
      case HEDDLE_COMMAND_COPY: {
        heddle_copy_command_t& copy = command.as.copy;
        note(0, copy.source, copy.source_offset, copy.length);
        note(1, copy.target, copy.target_offset, copy.length);
        return 2;
      }
      case HEDDLE_COMMAND_FILL:
        note(0, command.as.fill.target, command.as.fill.offset, command.as.fill.length);
        return 1;
      case HEDDLE_COMMAND_UPDATE:
        command.as.update.source = keep(static_cast<const char*>(command.as.update.source), command.as.update.length, &bytes);
        note(0, command.as.update.target, command.as.update.offset, command.as.update.length);
        return 1;
      case HEDDLE_COMMAND_COPY_2D: {
        heddle_copy_2d_command_t& copy = command.as.copy_2d;
        uint32_t i = 0;
        for (const heddle_binding_t** side : {&copy.source, &copy.target}) {
          *side = keep(*side, 1, &bindings);
          heddle_binding_t& binding = bindings.back()[0];
          note(i++, binding.buffer, binding.offset, binding.length);
        }
        return 2;
      }
      default:
        return 0;
    }
  }
};

uint32_t binding_count(const heddle_command_t& command) {
  switch (command.kind) {
    case HEDDLE_COMMAND_DISPATCH:
      return command.as.dispatch.binding_count;
    case HEDDLE_COMMAND_COPY:
    case HEDDLE_COMMAND_COPY_2D:
      return 2;
    case HEDDLE_COMMAND_FILL:
    case HEDDLE_COMMAND_UPDATE:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

heddle_status_t* record(heddle_queue_t* handle, const heddle_command_t* commands, uint32_t command_count, const uint8_t* dynamic,
                        heddle_recording_t** out) noexcept {
  *out = nullptr;
  Queue* queue = Queue::from(handle);
  Device* device = queue->device;
  return guarded(device->host, "recording", [&]() -> heddle_status_t* {
    if (!device->instance->records) return status(device->host, HEDDLE_STATUS_UNIMPLEMENTED, "fake: recording failed: not this list");
    const uint8_t* flag = dynamic;
    for (uint32_t i = 0; i < command_count; ++i) {
      const uint32_t count = binding_count(commands[i]);
      if (commands[i].kind == HEDDLE_COMMAND_COPY_2D && (flag[0] || flag[1])) {
        return status(device->host, HEDDLE_STATUS_UNIMPLEMENTED,
                      "fake: recording failed: command %u is a 2-D copy with bindings that change", i);
      }
      flag += count;
    }
    std::unique_ptr<Submission> checked;
    if (heddle_status_t* bad = read_commands(queue, commands, command_count, &checked)) return bad;
    auto recording = std::make_unique<Recording>();
    recording->api = device->api;
    recording->device = device;
    recording->queue = queue;
    recording->commands.assign(commands, commands + command_count);
    for (heddle_command_t& command : recording->commands) dynamic += recording->capture(command, dynamic);
    device->live.recordings += 1;
    *out = reinterpret_cast<heddle_recording_t*>(recording.release());
    return nullptr;
  });
}

heddle_status_t* replay(heddle_recording_t* handle, const heddle_binding_t* bindings, uint32_t binding_count,
                        const heddle_sync_t* sync) noexcept {
  Recording* recording = Recording::from(handle);
  Device* device = recording->device;
  return guarded(device->host, "replaying", [&]() -> heddle_status_t* {
    if (binding_count != recording->dynamic.size()) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: replaying failed: %u bindings, and %zu are dynamic", binding_count,
                    recording->dynamic.size());
    }
    if (*recording->in_flight) {
      return status(device->host, HEDDLE_STATUS_FAILED_PRECONDITION, "fake: replaying failed: the replay before is not over [HD-G-01]");
    }
    const uint64_t every = device->instance->exhausted_replays;
    if (every && ++device->replays % every == 0) {
      return status(device->host, HEDDLE_STATUS_RESOURCE_EXHAUSTED, "fake: replaying failed: no room for it now");
    }
    for (uint32_t i = 0; i < binding_count; ++i) {
      const Slot& slot = recording->dynamic[i];
      if (bindings[i].length != slot.length) {
        return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: replaying failed: binding %u has %llu bytes, %llu were recorded",
                      i, number(bindings[i].length), number(slot.length));
      }
      *slot.buffer = bindings[i].buffer;
      *slot.offset = bindings[i].offset;
    }
    std::unique_ptr<Submission> submission;
    const uint32_t count = static_cast<uint32_t>(recording->commands.size());
    if (heddle_status_t* bad = read_commands(recording->queue, recording->commands.data(), count, &submission)) return bad;
    std::vector<Step> copies;
    for (uint32_t i = 0; i < binding_count; ++i) {
      Slot& slot = recording->dynamic[i];
      if (!slot.place) continue;
      *slot.buffer = reinterpret_cast<heddle_buffer_t*>(slot.place.get());
      *slot.offset = 0;
      copies.push_back([to = slot.place->secret, from = Buffer::from(bindings[i].buffer)->secret + bindings[i].offset,
                        length = slot.length]() -> heddle_status_t* {
        std::memcpy(to, from, length);
        return nullptr;
      });
    }
    if (!copies.empty()) {
      if (heddle_status_t* bad = read_commands(recording->queue, recording->commands.data(), count, &submission)) return bad;
      submission->groups.insert(submission->groups.begin(), std::move(copies));
    }
    if (heddle_status_t* bad = read_sync(device, sync, submission.get())) return bad;
    submission->in_flight = recording->in_flight;
    return device->engine->enqueue(std::move(submission));
  });
}

void recording_free(heddle_recording_t* handle) noexcept {
  if (!handle) return;
  Device* device = Recording::from(handle)->device;
  sdk::guarded_release(device->host, [&] {
    delete Recording::from(handle);
    device->live.recordings -= 1;
  });
}

}  // namespace heddle::fake
