// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "contract.h"

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "heddle/sdk/stream/memory.h"
#include "heddle/sdk/stream/queue.h"
#include "heddle/sdk/stream/timeline.h"

namespace heddle::test {
namespace {

using stream::Device;
using stream::guarded;
using stream::number;
using stream::status;
using stream::Timeline;

// A queue of the host.
struct Queue {
  const heddle_driver_api_t* api;  // HD-H-01: the first word
  Device* device;
  std::vector<heddle_queue_t*> queues;  // the stream driver's

  static Queue* from(heddle_queue_t* handle) noexcept { return reinterpret_cast<Queue*>(handle); }
  heddle_queue_t* any() {
    if (queues.size() == 1) return queues.front();
    Instance& instance = Instance::of(device);
    std::lock_guard<std::mutex> lock(instance.mutex);
    return queues[instance.random() % queues.size()];
  }
};

// A recording on one of a queue's.
struct Recording {
  const heddle_driver_api_t* api;  // HD-H-01: the first word
  Device* device;
  heddle_recording_t* recording;  // the stream driver's

  static Recording* from(heddle_recording_t* handle) noexcept { return reinterpret_cast<Recording*>(handle); }
};

const heddle_device_interface_t& device_api() {
  return *stream::device_interface();
}

heddle_status_t* queue_destroy(heddle_queue_t* handle) noexcept {
  if (!handle) return nullptr;
  Queue* queue = Queue::from(handle);
  for (heddle_queue_t* each : queue->queues) {
    if (heddle_status_t* bad = device_api().queue_destroy(each)) return bad;
  }
  sdk::unmake(queue->device->host, queue);
  return nullptr;
}

heddle_status_t* queue_create(heddle_device_t* handle, const heddle_queue_params_t* params, heddle_queue_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device, "creating a queue", [&]() -> heddle_status_t* {
    std::vector<heddle_queue_t*> none(Instance::of(device).contract.spread);
    auto* queue = sdk::make<Queue>(device->host, Queue{device->api, device, std::move(none)});
    for (heddle_queue_t*& each : queue->queues) {
      if (heddle_status_t* bad = device_api().queue_create(handle, params, &each)) {
        queue_destroy(reinterpret_cast<heddle_queue_t*>(queue));
        return bad;
      }
    }
    *out = reinterpret_cast<heddle_queue_t*>(queue);
    return nullptr;
  });
}

heddle_status_t* native_stream(heddle_queue_t* queue, uint64_t* out) noexcept {
  return stream::native_interface()->stream(Queue::from(queue)->queues.front(), out);
}

heddle_status_t* queue_import(heddle_device_t* handle, uint64_t native, heddle_queue_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device, "importing a stream", [&]() -> heddle_status_t* {
    auto* queue = sdk::make<Queue>(device->host, Queue{device->api, device, {nullptr}});
    if (heddle_status_t* bad = stream::native_interface()->queue_import(handle, native, &queue->queues.front())) {
      sdk::unmake(device->host, queue);
      return bad;
    }
    *out = reinterpret_cast<heddle_queue_t*>(queue);
    return nullptr;
  });
}

// What is enqueued for the signals of one call, taken back if it fails.
class Noted {
 public:
  explicit Noted(Device* device) : device_(device) {}
  ~Noted() {
    if (before_.empty()) return;
    Instance& instance = Instance::of(device_);
    std::lock_guard<std::mutex> lock(instance.mutex);
    for (const auto& [timeline, value] : before_) instance.enqueued[timeline] = value;
  }
  // NULL, or which promise the host broke.
  heddle_status_t* note(const heddle_sync_t* in) {
    heddle_sync_t sync;
    uint64_t bad_byte;
    Instance& instance = Instance::of(device_);
    if (!instance.contract.strict || !sdk::read_struct(in, &sync, &bad_byte))
      return nullptr;  // the stream driver says what is wrong with it
    if ((sync.wait_count && !sync.waits) || (sync.signal_count && !sync.signals)) return nullptr;
    std::lock_guard<std::mutex> lock(instance.mutex);
    for (uint32_t i = 0; i < sync.wait_count; ++i) {
      const heddle_point_t& point = sync.waits[i];
      if (!point.timeline) return nullptr;
      if (heddle_status_t* bad = check_device(point)) return bad;
      const auto known = instance.enqueued.find(point.timeline);
      if (known != instance.enqueued.end() && known->second >= point.value) continue;
      if (Timeline::from(point.timeline)->state(point.value) != Timeline::State::kPending) continue;
      return status(device_, HEDDLE_STATUS_FAILED_PRECONDITION,
                    "submitting failed: nothing enqueued signals value %llu of a timeline that it waits for [HD-Q-01]",
                    number(point.value));
    }
    for (uint32_t i = 0; i < sync.signal_count; ++i) {
      const heddle_point_t& point = sync.signals[i];
      if (!point.timeline) return nullptr;
      if (heddle_status_t* bad = check_device(point)) return bad;
      const auto known = instance.enqueued.find(point.timeline);
      if (known == instance.enqueued.end()) continue;
      if (Timeline::from(point.timeline)->state(known->second) != Timeline::State::kPending) continue;
      return status(device_, HEDDLE_STATUS_FAILED_PRECONDITION,
                    "submitting failed: a timeline that it signals is signalled by unfinished work, so that a failure of one would hide "
                    "the other's end [HD-Q-06]");
    }
    for (uint32_t i = 0; i < sync.signal_count; ++i) {
      const heddle_point_t& point = sync.signals[i];
      before_.emplace_back(point.timeline, instance.enqueued[point.timeline]);
      instance.enqueued[point.timeline] = point.value;
    }
    return nullptr;
  }
  heddle_status_t* over(heddle_status_t* failure) {
    if (!failure) before_.clear();
    return failure;
  }

 private:
  heddle_status_t* check_device(const heddle_point_t& point) const {
    if (Timeline::from(point.timeline)->device() == device_) return nullptr;
    return status(device_, HEDDLE_STATUS_INVALID_ARGUMENT, "submitting failed: a wait or a signal is another device's [HD-Q-02]");
  }
  Device* device_;
  std::vector<std::pair<heddle_timeline_t*, uint64_t>> before_;
};

void timeline_destroy(heddle_timeline_t* timeline) noexcept {
  if (timeline) {
    Instance& instance = Instance::of(Timeline::from(timeline)->device());
    std::lock_guard<std::mutex> lock(instance.mutex);
    instance.enqueued.erase(timeline);
  }
  stream::timeline_interface()->destroy(timeline);
}

heddle_status_t* check_buffer(Device* device, const char* what, heddle_buffer_t* handle) {
  if (!handle || !Instance::of(device).contract.strict || stream::Buffer::from(handle)->device == device) return nullptr;
  return status(device, HEDDLE_STATUS_INVALID_ARGUMENT, "%s failed: the buffer is another device's [HD-Q-02]", what);
}

heddle_status_t* check_commands(Device* device, const heddle_command_t* commands, uint32_t count) {
  for (uint32_t i = 0; commands && i < count; ++i) {
    const heddle_command_t& command = commands[i];
    std::vector<heddle_buffer_t*> buffers;
    switch (command.kind) {
      case HEDDLE_COMMAND_DISPATCH:
        for (uint32_t b = 0; command.as.dispatch.bindings && b < command.as.dispatch.binding_count; ++b) {
          const heddle_binding_t& binding = command.as.dispatch.bindings[b];
          buffers.push_back(binding.buffer);
          if (binding.buffer && Instance::of(device).contract.aligned && binding.offset % stream::kAlignment != 0) {
            return status(device, HEDDLE_STATUS_INVALID_ARGUMENT, "command %u failed: binding %u starts at %llu, no multiple of %llu", i, b,
                          number(binding.offset), number(stream::kAlignment));
          }
        }
        break;
      case HEDDLE_COMMAND_COPY:
        buffers = {command.as.copy.source, command.as.copy.target};
        break;
      case HEDDLE_COMMAND_FILL:
        buffers = {command.as.fill.target};
        break;
      case HEDDLE_COMMAND_UPDATE:
        buffers = {command.as.update.target};
        break;
      case HEDDLE_COMMAND_COPY_2D:
        for (const heddle_binding_t* binding : {command.as.copy_2d.source, command.as.copy_2d.target}) {
          if (binding) buffers.push_back(binding->buffer);
        }
        break;
      default:
        break;
    }
    for (heddle_buffer_t* buffer : buffers) {
      if (heddle_status_t* bad = check_buffer(device, "a command", buffer)) return bad;
    }
  }
  return nullptr;
}

// Calls function(queue of the stream driver), once the sync is checked and noted.
template <typename F>
heddle_status_t* with_queue(heddle_queue_t* handle, const heddle_sync_t* sync, F&& function) noexcept {
  Queue* queue = Queue::from(handle);
  return guarded(queue->device, "submitting", [&]() -> heddle_status_t* {
    Noted noted(queue->device);
    if (heddle_status_t* bad = noted.note(sync)) return bad;
    return noted.over(function(queue->any()));
  });
}

heddle_status_t* submit_timed(heddle_queue_t* handle, const heddle_submission_t* submission, heddle_command_time_t* times) noexcept {
  Device* device = Queue::from(handle)->device;
  return with_queue(handle, submission ? &submission->sync : nullptr, [&](heddle_queue_t* queue) -> heddle_status_t* {
    if (submission) {
      if (heddle_status_t* bad = check_commands(device, submission->commands, submission->command_count)) return bad;
    }
    return times ? stream::profile_interface()->submit(queue, submission, times) : stream::dispatch_interface()->submit(queue, submission);
  });
}

heddle_status_t* submit(heddle_queue_t* queue, const heddle_submission_t* submission) noexcept {
  return submit_timed(queue, submission, nullptr);
}

heddle_status_t* record(heddle_queue_t* handle, const heddle_command_t* commands, uint32_t count, const uint8_t* dynamic,
                        heddle_recording_t** out) noexcept {
  *out = nullptr;
  Queue* queue = Queue::from(handle);
  return guarded(queue->device, "recording", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_commands(queue->device, commands, count)) return bad;
    auto* recording = sdk::make<Recording>(queue->device->host, Recording{queue->device->api, queue->device, nullptr});
    if (heddle_status_t* bad = stream::dispatch_interface()->record(queue->any(), commands, count, dynamic, &recording->recording)) {
      sdk::unmake(queue->device->host, recording);
      return bad;
    }
    *out = reinterpret_cast<heddle_recording_t*>(recording);
    return nullptr;
  });
}

void recording_free(heddle_recording_t* handle) noexcept {
  if (!handle) return;
  Recording* recording = Recording::from(handle);
  const heddle_host_t* host = recording->device->host;
  stream::dispatch_interface()->recording_free(recording->recording);
  sdk::unmake(host, recording);
}

heddle_status_t* replay(heddle_recording_t* handle, const heddle_binding_t* bindings, uint32_t count, const heddle_sync_t* sync) noexcept {
  Device* device = Recording::from(handle)->device;
  return guarded(device, "replaying", [&]() -> heddle_status_t* {
    Instance& instance = Instance::of(device);
    for (uint32_t i = 0; i < count; ++i) {
      if (heddle_status_t* bad = check_buffer(device, "replaying", bindings[i].buffer)) return bad;
    }
    Noted noted(device);
    if (heddle_status_t* bad = noted.note(sync)) return bad;
    const uint64_t every = instance.contract.exhausted_replays;
    fail_a_patch(every && ++instance.replays % every == 0 ? 3 : 0);
    heddle_status_t* failure = stream::dispatch_interface()->replay(Recording::from(handle)->recording, bindings, count, sync);
    fail_a_patch(0);
    return noted.over(failure);
  });
}

// Whether the byte is of a file that is mapped, by its inode in proc(5).
bool is_of_file(const void* byte) {
  std::ifstream maps("/proc/self/maps");
  const auto address = reinterpret_cast<uintptr_t>(byte);
  for (std::string line; std::getline(maps, line);) {
    unsigned long first = 0, end = 0, inode = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %*s %*s %lu", &first, &end, &inode) == 3 && address >= first && address < end)
      return inode != 0;
  }
  return false;
}

heddle_status_t* upload(heddle_queue_t* handle, const heddle_sync_t* sync, const void* source, const heddle_binding_t* target) noexcept {
  Device* device = Queue::from(handle)->device;
  return with_queue(handle, sync, [&](heddle_queue_t* queue) -> heddle_status_t* {
    if (Instance::of(device).contract.pins && is_of_file(source)) {
      return status(device, HEDDLE_STATUS_INVALID_ARGUMENT, "uploading failed: the source is pages of a file");
    }
    if (heddle_status_t* bad = check_buffer(device, "uploading", target->buffer)) return bad;
    return stream::transfer_interface()->upload(queue, sync, source, target);
  });
}

heddle_status_t* download(heddle_queue_t* handle, const heddle_sync_t* sync, const heddle_binding_t* source, void* target) noexcept {
  Device* device = Queue::from(handle)->device;
  return with_queue(handle, sync, [&](heddle_queue_t* queue) -> heddle_status_t* {
    if (heddle_status_t* bad = check_buffer(device, "downloading", source->buffer)) return bad;
    return stream::transfer_interface()->download(queue, sync, source, target);
  });
}

heddle_status_t* peer_copy(heddle_queue_t* handle, const heddle_sync_t* sync, const heddle_binding_t* source,
                           const heddle_binding_t* target) noexcept {
  Device* device = Queue::from(handle)->device;
  return with_queue(handle, sync, [&](heddle_queue_t* queue) -> heddle_status_t* {
    const PeerFault fault = Instance::of(device).backend.peer_fault;
    if (fault == PeerFault::kRefused) {
      return status(device, HEDDLE_STATUS_UNIMPLEMENTED, "copying between devices failed: it does not");
    }
    for (const heddle_binding_t* side : {source, target}) {
      Device* other = side->buffer ? stream::Buffer::from(side->buffer)->device : device;
      if (fault != PeerFault::kLosesOther || other == device) continue;
      end_context(other->backend, kLinkLost);
      other->check();
    }
    return stream::transfer_interface()->peer_copy(queue, sync, source, target);
  });
}

// A file that breaks at a byte is one that ends there.
heddle_status_t* file_open(heddle_device_t* handle, int32_t descriptor, uint32_t access, heddle_string_t name,
                           heddle_file_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device, "opening a file", [&]() -> heddle_status_t* {
    const auto& file_api = *stream::param_io_interface();
    const int64_t bad_byte = Instance::of(device).contract.bad_byte;
    struct stat facts = {};
    if (bad_byte < 0 || access != HEDDLE_FILE_READ || fstat(descriptor, &facts) != 0 || facts.st_size <= bad_byte) {
      return file_api.file_open(handle, descriptor, access, name, out);
    }
    const int broken = memfd_create("broken", MFD_CLOEXEC);
    off_t at = 0;
    while (broken >= 0 && at < bad_byte && sendfile(broken, descriptor, &at, static_cast<size_t>(bad_byte - at)) > 0) {
    }
    heddle_status_t* failure = file_api.file_open(handle, broken, access, name, out);
    close(broken);
    return failure;
  });
}

heddle_status_t* file_read(heddle_queue_t* handle, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                           uint64_t count, const heddle_param_io_params_t* params) noexcept {
  return with_queue(handle, sync,
                    [&](heddle_queue_t* queue) { return stream::param_io_interface()->read(queue, sync, file, extents, count, params); });
}

heddle_status_t* file_write(heddle_queue_t* handle, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                            uint64_t count, const heddle_param_io_params_t* params) noexcept {
  return with_queue(handle, sync,
                    [&](heddle_queue_t* queue) { return stream::param_io_interface()->write(queue, sync, file, extents, count, params); });
}

heddle_status_t* decode(heddle_queue_t* handle, const heddle_sync_t* sync, const heddle_encoded_t* items, uint64_t count) noexcept {
  return with_queue(handle, sync, [&](heddle_queue_t* queue) { return blocks_interface()->decode(queue, sync, items, count); });
}

// A copy of a table of the stream driver, in which `set` replaces slots.
template <typename Table, typename Set>
const Table* changed(const Table* table, Set set) noexcept {
  static const Table made = [&] {
    Table copy = *table;
    set(copy);
    return copy;
  }();
  return &made;
}

}  // namespace

const void* in_between(std::string_view id, const void* table) noexcept {
  if (id == HEDDLE_DEVICE_INTERFACE) {
    return changed(stream::device_interface(), [](heddle_device_interface_t& made) {
      made.queue_create = queue_create;
      made.queue_destroy = queue_destroy;
    });
  }
  if (id == HEDDLE_NATIVE_INTERFACE) {
    return changed(stream::native_interface(), [](heddle_native_interface_t& made) {
      made.stream = native_stream;
      made.queue_import = queue_import;
    });
  }
  if (id == HEDDLE_TIMELINE_INTERFACE) {
    return changed(stream::timeline_interface(), [](heddle_timeline_interface_t& made) { made.destroy = timeline_destroy; });
  }
  if (id == HEDDLE_DISPATCH_INTERFACE) {
    return changed(stream::dispatch_interface(), [](heddle_dispatch_interface_t& made) {
      made.submit = submit;
      made.record = record;
      made.replay = replay;
      made.recording_free = recording_free;
    });
  }
  if (id == HEDDLE_PROFILE_INTERFACE) {
    return changed(stream::profile_interface(), [](heddle_profile_interface_t& made) { made.submit = submit_timed; });
  }
  if (id == HEDDLE_TRANSFER_INTERFACE) {
    return changed(stream::transfer_interface(), [](heddle_transfer_interface_t& made) {
      made.upload = upload;
      made.download = download;
      made.peer_copy = peer_copy;
    });
  }
  if (id == HEDDLE_PARAM_IO_INTERFACE) {
    return changed(stream::param_io_interface(), [](heddle_param_io_interface_t& made) {
      made.file_open = file_open;
      made.read = file_read;
      made.write = file_write;
    });
  }
  if (id == HEDDLE_BLOCKS_INTERFACE) {
    return changed(blocks_interface(), [](heddle_blocks_interface_t& made) { made.decode = decode; });
  }
  return table;
}

}  // namespace heddle::test
