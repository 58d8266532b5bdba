// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Base classes of a driver: recordings. A list is kept with everything that it points to; a replay inserts the new bindings, checks the list
// as submit does,
// and enqueues it. A driver whose vendor has graphs replaces these three slots.
#include "heddle/sdk/driver.h"

namespace heddle::sdk {
namespace {

// The location of a dynamic binding.
struct Slot {
  heddle_buffer_t** buffer;
  uint64_t* offset;
  uint64_t length;
};

struct Recording {
  const heddle_driver_api_t* api;  // HD-H-01
  Queue* queue;
  std::vector<heddle_command_t> commands;
  std::vector<std::unique_ptr<heddle_binding_t[]>> bindings;
  std::vector<std::unique_ptr<char[]>> bytes;
  std::vector<Slot> slots;
  static Recording* from(heddle_recording_t* handle) noexcept { return reinterpret_cast<Recording*>(handle); }

  const heddle_binding_t* keep(const heddle_binding_t* values, uint32_t count) {
    bindings.emplace_back(new heddle_binding_t[count]);
    for (uint32_t i = 0; i < count; ++i) bindings.back()[i] = values[i];
    return bindings.back().get();
  }
  const void* keep(const void* values, uint64_t count) {
    bytes.emplace_back(new char[count]);
    if (count) std::memcpy(bytes.back().get(), values, count);
    return bytes.back().get();
  }

  // Keeps the memory to which a checked command points, and records its dynamic bindings; returns the number of its bindings.
  uint32_t capture(heddle_command_t& command, const uint8_t* dynamic) {
    uint32_t index = 0;
    auto note = [&](heddle_buffer_t*& buffer, uint64_t& offset, uint64_t length) {
      if (dynamic[index++] & HEDDLE_BINDING_DYNAMIC) slots.push_back({&buffer, &offset, length});
    };
    auto note_binding = [&](const heddle_binding_t* kept) {
      auto* binding = const_cast<heddle_binding_t*>(kept);
      note(binding->buffer, binding->offset, binding->length);
    };
    switch (command.kind) {
      case HEDDLE_COMMAND_DISPATCH: {
        heddle_dispatch_command_t& dispatch = command.as.dispatch;
        dispatch.constants = keep(dispatch.constants, uint64_t{dispatch.constants_bytes});
        dispatch.bindings = keep(dispatch.bindings, dispatch.binding_count);
        for (uint32_t i = 0; i < dispatch.binding_count; ++i) note_binding(dispatch.bindings + i);
        break;
      }
      case HEDDLE_COMMAND_COPY: {
        heddle_copy_command_t& copy = command.as.copy;
        note(copy.source, copy.source_offset, copy.length);
        note(copy.target, copy.target_offset, copy.length);
        break;
      }
      case HEDDLE_COMMAND_FILL:
        note(command.as.fill.target, command.as.fill.offset, command.as.fill.length);
        break;
      case HEDDLE_COMMAND_UPDATE:
        command.as.update.source = keep(command.as.update.source, command.as.update.length);
        note(command.as.update.target, command.as.update.offset, command.as.update.length);
        break;
      case HEDDLE_COMMAND_COPY_2D:
        command.as.copy_2d.source = keep(command.as.copy_2d.source, 1);
        command.as.copy_2d.target = keep(command.as.copy_2d.target, 1);
        note_binding(command.as.copy_2d.source);
        note_binding(command.as.copy_2d.target);
        break;
      default:
        break;
    }
    return index;
  }
};

}  // namespace

heddle_status_t* record(heddle_queue_t* handle, const heddle_command_t* commands, uint32_t command_count, const uint8_t* dynamic,
                        heddle_recording_t** out) noexcept {
  *out = nullptr;
  Queue* queue = Queue::from(handle);
  Device* device = queue->device;
  return guarded(device->host, "recording", [&]() -> heddle_status_t* {
    if (heddle_status_t* lost = device->loss()) return lost;
    if (!(device->limits.features & HEDDLE_DEVICE_RECORDING)) {
      return status(device->host, HEDDLE_STATUS_UNIMPLEMENTED, "%s: recording %u commands failed: device %u does not record [HD-G-01]",
                    device->who, command_count, device->ordinal);
    }
    std::vector<Operation> checked;
    if (heddle_status_t* bad = read_commands(device, commands, command_count, &checked)) return bad;
    auto* recording = make<Recording>(device->host);
    struct Holder {
      const heddle_host_t* host;
      Recording* recording;
      ~Holder() { unmake(host, recording); }
    } holder{device->host, recording};
    recording->api = device->api;
    recording->queue = queue;
    recording->commands.assign(commands, commands + command_count);
    for (heddle_command_t& command : recording->commands) dynamic += recording->capture(command, dynamic);
    holder.recording = nullptr;
    device->live.recordings.fetch_add(1);
    *out = reinterpret_cast<heddle_recording_t*>(recording);
    return nullptr;
  });
}

heddle_status_t* replay(heddle_recording_t* handle, const heddle_binding_t* bindings, uint32_t binding_count,
                        const heddle_sync_t* sync) noexcept {
  Recording* recording = Recording::from(handle);
  Device* device = recording->queue->device;
  return guarded(device->host, "replaying", [&]() -> heddle_status_t* {
    if (heddle_status_t* lost = device->loss()) return lost;
    if (binding_count != recording->slots.size() || (binding_count && !bindings)) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: replaying failed: %u bindings%s, and %zu are dynamic", device->who,
                    binding_count, bindings ? "" : " (null)", recording->slots.size());
    }
    for (uint32_t i = 0; i < binding_count; ++i) {
      const Slot& slot = recording->slots[i];
      if (bindings[i].length != slot.length) {
        return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                      "%s: replaying failed: binding %u has %llu bytes, and %llu were recorded", device->who, i, number(bindings[i].length),
                      number(slot.length));
      }
      *slot.buffer = bindings[i].buffer;
      *slot.offset = bindings[i].offset;
    }
    auto submission = std::make_unique<Submission>();
    const auto count = static_cast<uint32_t>(recording->commands.size());
    if (heddle_status_t* bad = read_commands(device, recording->commands.data(), count, &submission->operations)) return bad;
    if (heddle_status_t* bad = read_sync(device, sync, submission.get())) return bad;
    return recording->queue->enqueue(std::move(submission));
  });
}

void recording_free(heddle_recording_t* handle) noexcept {
  if (!handle) return;
  Recording* recording = Recording::from(handle);
  Device* device = recording->queue->device;
  guarded_release(device->host, [&] {
    unmake(device->host, recording);
    device->live.recordings.fetch_sub(1);
  });
}

}  // namespace heddle::sdk
