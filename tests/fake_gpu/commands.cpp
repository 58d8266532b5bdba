// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.dispatch/1, heddle.profile/1 and heddle.transfer/1 of the fake: commands become steps of a submission.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "fake.h"
#include "heddle/sdk/futex.h"

namespace heddle::fake {

using sdk::guarded;
using sdk::HostTimeline;
using sdk::status;

heddle_status_t* read_sync(Device* device, const heddle_sync_t* in, Submission* out) {
  const heddle_host_t* host = device->host;
  heddle_sync_t sync;
  uint64_t bad_byte;
  if (!sdk::read_struct(in, &sync, &bad_byte)) return sdk::tail_status(host, "heddle_sync_t", bad_byte);
  if ((sync.wait_count && !sync.waits) || (sync.signal_count && !sync.signals)) {
    return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: submitting failed: null waits or signals");
  }
  out->waits.assign(sync.waits, sync.waits + sync.wait_count);
  out->signals.assign(sync.signals, sync.signals + sync.signal_count);
  for (const heddle_point_t& point : out->waits) {
    if (!point.timeline) return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: submitting failed: a wait has no timeline");
    if (device->instance->strict && HostTimeline::from(point.timeline)->device() != device) {
      return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: submitting failed: a wait is another device's [HD-Q-02]");
    }
  }
  for (const heddle_point_t& point : out->signals) {
    if (!point.timeline) return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: submitting failed: a signal has no timeline");
    if (device->instance->strict && HostTimeline::from(point.timeline)->device() != device) {
      return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: submitting failed: a signal is another device's [HD-Q-02]");
    }
    const uint64_t reached = HostTimeline::from(point.timeline)->reached();
    if (point.value <= reached || point.value > HostTimeline::kMaxValue) {
      return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: submitting failed: a signal is to %llu and its timeline has reached %llu",
                    number(point.value), number(reached));
    }
  }
  return nullptr;
}

namespace {

// Checks commands and makes steps of them.
class Reader {
 public:
  Reader(Device* device, Submission* submission) : device_(device), submission_(submission) {}

  heddle_status_t* add(const heddle_command_t& command, uint32_t index) {
    index_ = index;
    if (command.flags)
      return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "its flags " + std::to_string(command.flags) + " are unknown [HD-E-04]");
    switch (command.kind) {
      case HEDDLE_COMMAND_BARRIER:
        submission_->groups.emplace_back();
        return nullptr;
      case HEDDLE_COMMAND_DISPATCH:
        return dispatch(command.as.dispatch);
      case HEDDLE_COMMAND_COPY: {
        const heddle_copy_command_t& copy = command.as.copy;
        char *from = nullptr, *to = nullptr;
        if (heddle_status_t* bad = range("copying from", copy.source, copy.source_offset, copy.length, &from)) return bad;
        if (heddle_status_t* bad = range("copying to", copy.target, copy.target_offset, copy.length, &to)) return bad;
        return rows(from, to, copy.length, copy.length, copy.length, copy.length ? 1 : 0);
      }
      case HEDDLE_COMMAND_FILL:
        return fill(command.as.fill);
      case HEDDLE_COMMAND_UPDATE:
        return update(command.as.update);
      case HEDDLE_COMMAND_COPY_2D:
        return copy_2d(command.as.copy_2d);
      default:
        return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "its kind " + std::to_string(command.kind) + " is unknown");
    }
  }

 private:
  heddle_status_t* failed(heddle_status_code_t code, const std::string& why) {
    return status(device_->host, code, "fake: command %u failed: %s", index_, why.c_str());
  }
  void step(Step made) {
    if (!submission_->out_times) return submission_->groups.back().push_back(std::move(made));
    submission_->groups.back().push_back([made = std::move(made), time = &submission_->measured[index_]] {
      time->begin_ns = sdk::monotonic_ns();
      heddle_status_t* failure = made();
      time->end_ns = std::max(sdk::monotonic_ns(), time->begin_ns + 1);
      return failure;
    });
  }

  heddle_status_t* range(const char* what, heddle_buffer_t* handle, uint64_t offset, uint64_t length, char** out) {
    const Buffer* buffer = Buffer::from(handle);
    if (!buffer) return failed(HEDDLE_STATUS_INVALID_ARGUMENT, std::string(what) + ": no buffer");
    if (device_->instance->strict && buffer->device != device_) {
      return failed(HEDDLE_STATUS_INVALID_ARGUMENT, std::string(what) + ": the buffer is another device's [HD-Q-02]");
    }
    if (!buffer->holds(offset, length)) {
      return failed(HEDDLE_STATUS_OUT_OF_RANGE, std::string(what) + " " + std::to_string(length) + " bytes at " + std::to_string(offset) +
                                                    ": the buffer has " + std::to_string(buffer->size) + " bytes");
    }
    *out = buffer->secret + offset;
    return nullptr;
  }

  heddle_status_t* rows(const char* from, char* to, uint64_t from_stride, uint64_t to_stride, uint64_t row_bytes, uint64_t count) {
    if (count) {
      const char* from_end = from + (count - 1) * from_stride + row_bytes;
      char* to_end = to + (count - 1) * to_stride + row_bytes;
      if (from < to_end && to < from_end) return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "source and target overlap");
    }
    ++submission_->copies;
    step([=]() -> heddle_status_t* {
      for (uint64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, row_bytes);
      return nullptr;
    });
    return nullptr;
  }

  heddle_status_t* fill(const heddle_fill_command_t& fill) {
    char* to = nullptr;
    if (heddle_status_t* bad = range("filling", fill.target, fill.offset, fill.length, &to)) return bad;
    const uint32_t bytes = fill.pattern_bytes;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) {
      return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "a pattern of " + std::to_string(bytes) + " bytes is none of 1, 2, 4 and 8");
    }
    if (fill.reserved != 0) {
      return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "its reserved field is " + std::to_string(fill.reserved) + ", not 0 [HD-E-04]");
    }
    ++submission_->copies;
    step([to, bytes, length = fill.length, pattern = fill.pattern]() -> heddle_status_t* {
      for (uint64_t i = 0; i < length; ++i) to[i] = static_cast<char>(pattern >> (8 * (i % bytes)));
      return nullptr;
    });
    return nullptr;
  }

  heddle_status_t* update(const heddle_update_command_t& update) {
    char* to = nullptr;
    if (heddle_status_t* bad = range("updating", update.target, update.offset, update.length, &to)) return bad;
    if (update.length && !update.source) return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "an update has no source");
    const char* from = static_cast<const char*>(update.source);
    std::vector<char> captured(from, from + update.length);
    ++submission_->copies;
    step([to, captured = std::move(captured)]() -> heddle_status_t* {
      if (!captured.empty()) std::memcpy(to, captured.data(), captured.size());
      return nullptr;
    });
    return nullptr;
  }

  heddle_status_t* copy_2d(const heddle_copy_2d_command_t& copy) {
    if (!copy.source || !copy.target) return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "a 2-D copy has no source or target");
    const uint64_t count = copy.row_bytes ? copy.rows : 0;
    uint64_t from_span = 0, to_span = 0;
    if (count &&
        (__builtin_mul_overflow(count - 1, copy.source_stride, &from_span) ||
         __builtin_add_overflow(from_span, copy.row_bytes, &from_span) || __builtin_mul_overflow(count - 1, copy.target_stride, &to_span) ||
         __builtin_add_overflow(to_span, copy.row_bytes, &to_span))) {
      return failed(HEDDLE_STATUS_OUT_OF_RANGE, "a 2-D copy of more than 2^64 bytes");
    }
    char *from = nullptr, *to = nullptr;
    if (heddle_status_t* bad = range("copying rows from", copy.source->buffer, copy.source->offset, from_span, &from)) return bad;
    if (heddle_status_t* bad = range("copying rows to", copy.target->buffer, copy.target->offset, to_span, &to)) return bad;
    if (count > 1 && copy.target_stride < copy.row_bytes) return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "target rows overlap");
    return rows(from, to, copy.source_stride, copy.target_stride, copy.row_bytes, count);
  }

  heddle_status_t* dispatch(const heddle_dispatch_command_t& command) {
    const Entry* entry = Entry::from(command.entry);
    if (!entry) return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "a dispatch has no entry");
    const std::string name = "(kernel '" + entry->name + "', region " + std::to_string(command.region) + ")";
    auto bad = [&](heddle_status_code_t code, const std::string& why) {
      return status(device_->host, code, "fake: command %u %s failed: %s", index_, name.c_str(), why.c_str());
    };
    if (entry->device != device_) return bad(HEDDLE_STATUS_INVALID_ARGUMENT, "it was loaded on another device [HD-Q-02]");
    if (command.binding_count != entry->binding_count || command.constants_bytes != entry->constants_bytes ||
        (command.binding_count && !command.bindings) || (command.constants_bytes && !command.constants)) {
      return bad(HEDDLE_STATUS_INVALID_ARGUMENT, std::to_string(command.binding_count) + " bindings and " +
                                                     std::to_string(command.constants_bytes) + " bytes of constants; the kernel takes " +
                                                     std::to_string(entry->binding_count) + " and " +
                                                     std::to_string(entry->constants_bytes));
    }
    uint64_t workgroups = uint64_t{command.grid[0]} * command.grid[1];
    for (uint32_t side : command.grid) {
      if (side > 0x7fffffffu) return bad(HEDDLE_STATUS_OUT_OF_RANGE, "a grid side of " + std::to_string(side) + " is too large");
    }
    if (__builtin_mul_overflow(workgroups, uint64_t{command.grid[2]}, &workgroups))
      return bad(HEDDLE_STATUS_OUT_OF_RANGE, "the grid is over 2^64");
    std::vector<void*> pointers;
    std::vector<uint64_t> lengths;
    for (uint32_t i = 0; i < command.binding_count; ++i) {
      const heddle_binding_t& binding = command.bindings[i];
      const Buffer* buffer = Buffer::from(binding.buffer);
      if (buffer && device_->instance->strict && buffer->device != device_) {
        return bad(HEDDLE_STATUS_INVALID_ARGUMENT, "binding " + std::to_string(i) + " is another device's [HD-Q-02]");
      }
      if (buffer && device_->instance->aligned && binding.offset % kBindingAlignment != 0) {
        return bad(HEDDLE_STATUS_INVALID_ARGUMENT, "binding " + std::to_string(i) + " starts at " + std::to_string(binding.offset));
      }
      if (buffer ? !buffer->holds(binding.offset, binding.length) : binding.offset || binding.length) {
        return bad(HEDDLE_STATUS_OUT_OF_RANGE, "binding " + std::to_string(i) + " (" + std::to_string(binding.length) + " bytes at " +
                                                   std::to_string(binding.offset) + ") " +
                                                   (buffer ? "ends after the buffer" : "has no buffer"));
      }
      pointers.push_back(buffer ? buffer->secret + binding.offset : nullptr);
      lengths.push_back(binding.length);
    }
    std::vector<int64_t> constants(command.constants_bytes / 8);
    if (!constants.empty()) std::memcpy(constants.data(), command.constants, command.constants_bytes);
    ++submission_->dispatches;
    step([this_device = device_, entry, workgroups, pointers, lengths, constants, region = command.region,
          grid = std::vector<uint32_t>(command.grid, command.grid + 3)] {
      return run(this_device, *entry, workgroups, pointers, lengths, constants, grid, region);
    });
    return nullptr;
  }

  // Pieces of a grid in shuffled order.
  static heddle_status_t* run(Device* device, const Entry& entry, uint64_t workgroups, const std::vector<void*>& pointers,
                              const std::vector<uint64_t>& lengths, const std::vector<int64_t>& constants,
                              const std::vector<uint32_t>& grid, uint32_t region) {
    const heddle_x86_64_dispatch_t record = {
        pointers.data(), lengths.data(), constants.data(), {grid[0], grid[1], grid[2]}, static_cast<uint32_t>(pointers.size())};
    const uint64_t workspace_bytes = (entry.workspace_bytes + 63) / 64 * 64;
    std::unique_ptr<void, decltype(&std::free)> workspace(workspace_bytes ? std::aligned_alloc(64, workspace_bytes) : nullptr, &std::free);
    if (workspace_bytes && !workspace) return sdk::exhausted_status(device->host, "fake: running a kernel");
    const uint64_t count = std::min<uint64_t>(workgroups, 13);
    std::vector<uint64_t> order(count);
    for (uint64_t i = 0; i < count; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), device->engine->random());
    for (uint64_t i : order) {
      const uint64_t first = workgroups / count * i + std::min(i, workgroups % count);
      const uint64_t last = first + workgroups / count + (i < workgroups % count ? 1 : 0);
      if (const int32_t result = entry.kernel(&record, first, last, workspace.get())) {
        heddle_status_t* failure =
            status(device->host, HEDDLE_STATUS_INTERNAL, "fake: running kernel '%s' (region %u, %llu workgroups) failed: it returned %d",
                   entry.name.c_str(), region, number(workgroups), result);
        sdk::set_region(device->host, failure, region);
        if (result == device->instance->loss_code) {
          device->host->status_free(device->host->self, failure);
          failure = status(device->host, HEDDLE_STATUS_DEVICE_LOST,
                           "fake: running kernel '%s' (region %u) failed: the device is gone [HD-S-02]", entry.name.c_str(), region);
          sdk::set_region(device->host, failure, region);
          device->lose(device->host->status_clone(device->host->self, failure));
        }
        return failure;
      }
    }
    return nullptr;
  }

  Device* device_;
  Submission* submission_;
  uint32_t index_ = 0;
};

uint32_t rank_of(std::string_view format, std::string_view target) {
  if (format != HEDDLE_CODE_X86_64_ELF) return 0;
  __builtin_cpu_init();
  if (target == "x86-64-v3") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 30 : 0;
  if (target == "x86-64-v4") return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") ? 40 : 0;
  return 0;
}

heddle_status_t* variant_rank(heddle_device_t*, heddle_string_t format, heddle_string_t target, uint32_t* out) noexcept {
  *out = rank_of(sdk::view_of(format), sdk::view_of(target));
  return nullptr;
}

heddle_status_t* executable_load(heddle_device_t* handle, const heddle_executable_params_t* in, heddle_executable_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "loading an executable", [&]() -> heddle_status_t* {
    heddle_executable_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(device->host, "heddle_executable_params_t", bad_byte);
    const std::string name(sdk::view_of(params.name)), target(sdk::view_of(params.target));
    if (heddle_status_t* lost = device->loss()) return lost;
    if (rank_of(sdk::view_of(params.format), target) == 0) {
      return status(device->host, HEDDLE_STATUS_FAILED_PRECONDITION, "fake: loading '%s' failed: '%s' does not run here", name.c_str(),
                    target.c_str());
    }
    auto executable = std::make_unique<Executable>();
    executable->api = device->api;
    executable->device = device;
    cpu::ImageError error;
    if (!cpu::Image::load(params.code, params.code_bytes, &executable->image, &error)) {
      return status(device->host, error.code, "fake: loading '%s' failed: %s", name.c_str(), error.text);
    }
    for (uint32_t i = 0; i < params.entry_count; ++i) {
      heddle_entry_params_t entry;
      const auto* at =
          reinterpret_cast<const heddle_entry_params_t*>(reinterpret_cast<const char*>(params.entries) + i * params.entry_stride);
      if (!sdk::read_struct(at, &entry, &bad_byte)) return sdk::tail_status(device->host, "heddle_entry_params_t", bad_byte);
      const std::string symbol(sdk::view_of(entry.name));
      heddle_x86_64_kernel_t kernel = executable->image.find_kernel(symbol);
      if (!kernel)
        return status(device->host, HEDDLE_STATUS_NOT_FOUND, "fake: loading '%s' failed: no function '%s'", name.c_str(), symbol.c_str());
      if (entry.flags > HEDDLE_ENTRY_IN_ORDER) {
        return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: loading '%s' failed: its flags %x are unknown [HD-E-04]",
                      name.c_str(), entry.flags);
      }
      executable->entries.push_back(
          {device->api, device, kernel, entry.binding_count, entry.constants_bytes, entry.workspace_bytes, symbol});
    }
    device->live.executables += 1;
    *out = reinterpret_cast<heddle_executable_t*>(executable.release());
    return nullptr;
  });
}

void executable_unload(heddle_executable_t* handle) noexcept {
  if (!handle) return;
  Executable* executable = Executable::from(handle);
  Device* device = executable->device;
  sdk::guarded_release(device->host, [&] {
    delete executable;
    device->live.executables -= 1;
  });
}

heddle_status_t* executable_entry(heddle_executable_t* handle, uint32_t index, heddle_entry_t** out) noexcept {
  *out = nullptr;
  Executable* executable = Executable::from(handle);
  if (index >= executable->entries.size()) {
    return status(executable->device->host, HEDDLE_STATUS_NOT_FOUND, "fake: looking up entry %u failed: there are %zu", index,
                  executable->entries.size());
  }
  *out = reinterpret_cast<heddle_entry_t*>(&executable->entries[index]);
  return nullptr;
}

heddle_status_t* submit_timed(heddle_queue_t* handle, const heddle_submission_t* in, heddle_command_time_t* out_times) noexcept {
  Queue* queue = Queue::from(handle);
  Device* device = queue->device;
  return guarded(device->host, "submitting", [&]() -> heddle_status_t* {
    heddle_submission_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(device->host, "heddle_submission_t", bad_byte);
    if (params.command_count && !params.commands) return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: the list is null");
    std::unique_ptr<Submission> submission;
    if (heddle_status_t* bad = read_commands(queue, params.commands, params.command_count, &submission, out_times)) return bad;
    if (heddle_status_t* bad = read_sync(device, &params.sync, submission.get())) return bad;
    if (queue->stream) return enqueue_on_stream(queue, std::move(submission));
    return device->engine->enqueue(std::move(submission));
  });
}

heddle_status_t* submit(heddle_queue_t* handle, const heddle_submission_t* in) noexcept {
  return submit_timed(handle, in, nullptr);
}

heddle_status_t* transfer_properties(heddle_device_t* handle, heddle_transfer_properties_t* out) noexcept {
  heddle_transfer_properties_t properties = {};
  properties.flags = Device::from(handle)->instance->peer ? HEDDLE_TRANSFER_PEER : 0;
  sdk::write_struct(properties, out);
  return nullptr;
}

// What may become of a copy between devices. It takes a while, so that whoever does not wait for it sees other bytes.
heddle_status_t* meet(Device* device, Device* other) {
  const Instance& instance = *device->instance;
  if (instance.latency_us) usleep(static_cast<useconds_t>(device->engine->random()() % instance.latency_us));
  auto loss = [&](const Device* of) {
    return status(device->host, HEDDLE_STATUS_DEVICE_LOST, "fake: copying between devices failed: device %u is gone [HD-S-02]",
                  of->ordinal);
  };
  if (instance.peer_fault == 1) return status(device->host, HEDDLE_STATUS_INTERNAL, "fake: copying between devices failed: the link broke");
  if (instance.peer_fault == 2) {
    device->lose(loss(device));
    return device->loss();
  }
  if (instance.peer_fault == 3 && other != device) other->lose(loss(other));
  heddle_status_t* lost = other == device ? nullptr : other->loss();
  if (!lost) return nullptr;
  device->host->status_free(device->host->self, lost);
  return status(device->host, HEDDLE_STATUS_UNAVAILABLE, "fake: copying between devices failed: device %u, the other one, is lost",
                other->ordinal);
}

// A copy that reads and writes only when the engine comes to it.
heddle_status_t* enqueue_copy(Queue* queue, const heddle_sync_t* sync, const heddle_binding_t* from, const heddle_binding_t* to,
                              const void* host_from, void* host_to, uint64_t length) noexcept {
  Device* device = queue->device;
  return guarded(device->host, "copying", [&]() -> heddle_status_t* {
    for (const heddle_binding_t* binding : {from, to}) {
      if (!binding) continue;
      const Buffer* buffer = Buffer::from(binding->buffer);
      if (!buffer)
        return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: copying %llu bytes failed: no buffer", number(length));
      if (!buffer->holds(binding->offset, binding->length) || binding->length != length) {
        return status(device->host, HEDDLE_STATUS_OUT_OF_RANGE, "fake: copying %llu bytes at %llu failed: the buffer has %llu bytes",
                      number(binding->length), number(binding->offset), number(buffer->size));
      }
    }
    if (length && ((!from && !host_from) || (!to && !host_to))) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: copying %llu bytes failed: the host pointer is null",
                    number(length));
    }
    const char* source = from ? Buffer::from(from->buffer)->secret + from->offset : static_cast<const char*>(host_from);
    char* target = to ? Buffer::from(to->buffer)->secret + to->offset : static_cast<char*>(host_to);
    if (length && source < target + length && target < source + length) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: copying %llu bytes failed: source and target overlap",
                    number(length));
    }
    auto submission = std::make_unique<Submission>();
    submission->queue = queue;
    submission->copies = 1;
    if (heddle_status_t* bad = read_sync(device, sync, submission.get())) return bad;
    Device* other = from && to
                        ? (Buffer::from(from->buffer)->device == device ? Buffer::from(to->buffer) : Buffer::from(from->buffer))->device
                        : nullptr;
    submission->groups[0].push_back([=]() -> heddle_status_t* {
      if (other) {
        if (heddle_status_t* fault = meet(device, other)) return fault;
      }
      if (length) std::memcpy(target, source, length);
      return nullptr;
    });
    return device->engine->enqueue(std::move(submission));
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

heddle_status_t* upload(heddle_queue_t* queue, const heddle_sync_t* sync, const void* source, const heddle_binding_t* target) noexcept {
  const Device* device = Queue::from(queue)->device;
  if (device->instance->pins && is_of_file(source))
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: uploading failed: the source is pages of a file");
  return enqueue_copy(Queue::from(queue), sync, nullptr, target, source, nullptr, target->length);
}
heddle_status_t* download(heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_binding_t* source, void* target) noexcept {
  return enqueue_copy(Queue::from(queue), sync, source, nullptr, nullptr, target, source->length);
}
heddle_status_t* peer_copy(heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_binding_t* source,
                           const heddle_binding_t* target) noexcept {
  Device* device = Queue::from(queue)->device;
  if (!device->instance->peer || device->instance->peer_fault == 4) {
    return status(device->host, HEDDLE_STATUS_UNIMPLEMENTED, "fake: copying between devices failed: it does not");
  }
  for (const heddle_binding_t* binding : {source, target}) {
    if (binding->buffer && Buffer::from(binding->buffer)->device == device)
      return enqueue_copy(Queue::from(queue), sync, source, target, nullptr, nullptr, source->length);
  }
  return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                "fake: copying between devices failed: neither buffer is the queue's [HD-Q-02]");
}

}  // namespace

void Submission::write_times() const noexcept {
  uint64_t first = UINT64_MAX;
  for (const heddle_command_time_t& time : measured) {
    if (time.end_ns) first = std::min(first, time.begin_ns);
  }
  for (size_t i = 0; i < measured.size(); ++i) {
    if (measured[i].end_ns) out_times[i] = {measured[i].begin_ns - first, measured[i].end_ns - first};
  }
}

heddle_status_t* read_commands(Queue* queue, const heddle_command_t* commands, uint32_t count, std::unique_ptr<Submission>* out,
                               heddle_command_time_t* out_times) {
  auto submission = std::make_unique<Submission>();
  submission->queue = queue;
  if (out_times) {
    submission->out_times = out_times;
    submission->measured.resize(count);
    std::fill_n(out_times, count, heddle_command_time_t{});
  }
  Reader reader(queue->device, submission.get());
  for (uint32_t i = 0; i < count; ++i) {
    if (heddle_status_t* bad = reader.add(commands[i], i)) return bad;
  }
  *out = std::move(submission);
  return nullptr;
}

const heddle_dispatch_interface_t* dispatch_interface() noexcept {
  static const heddle_dispatch_interface_t table = {sizeof(heddle_dispatch_interface_t),
                                                    0,
                                                    variant_rank,
                                                    executable_load,
                                                    executable_unload,
                                                    executable_entry,
                                                    submit,
                                                    record,
                                                    replay,
                                                    recording_free,
                                                    nullptr};  // operation_load
  return &table;
}

const heddle_profile_interface_t* profile_interface() noexcept {
  static const heddle_profile_interface_t table = {sizeof(heddle_profile_interface_t), 0, submit_timed};
  return &table;
}

const heddle_transfer_interface_t* transfer_interface() noexcept {
  static const heddle_transfer_interface_t table = {
      sizeof(heddle_transfer_interface_t), 0, transfer_properties, upload, download, peer_copy};
  return &table;
}

}  // namespace heddle::fake
