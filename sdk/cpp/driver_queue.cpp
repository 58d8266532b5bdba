// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Base classes of a driver: executables, submissions, transfers and files, and their tables; and the execution of commands for a queue whose work
// is done by a host thread.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "heddle/sdk/driver.h"
#include "heddle/sdk/driver_parts.h"
#include "heddle/sdk/host_timeline.h"

namespace heddle::sdk {
namespace {

using Kind = Operation::Kind;

constexpr uint64_t kDefaultChunk = 4 << 20;

using DriverFile = DeviceFile<Device>;

char* address_of(const Range& range) noexcept {
  return range.buffer->host_address() + range.offset;
}

// The verb for operations that run_on_host does itself; NULL for those that need no address.
const char* verb_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::kCopy:
    case Kind::kCopy2d:
      return "copying";
    case Kind::kFill:
      return "filling";
    case Kind::kUpdate:
      return "updating";
    case Kind::kUpload:
      return "uploading";
    case Kind::kDownload:
      return "downloading";
    default:
      return nullptr;
  }
}

heddle_status_t* check_reachable(Device* device, const Operation& operation) noexcept {
  const char* verb = verb_of(operation.kind);
  if (!verb) return nullptr;
  for (const Range& range : operation.ranges) {
    if (!range.length || range.buffer->host_address()) continue;
    return status(device->host, HEDDLE_STATUS_FAILED_PRECONDITION,
                  "%s: %s %llu bytes failed: the host cannot reach this buffer; do it in Queue::enqueue (heddle/sdk/driver.h)", device->who,
                  verb, number(range.length));
  }
  return nullptr;
}

// Chunk by chunk; through one staging block if the host cannot access the buffer, or if the file is read bypassing the page cache.
heddle_status_t* run_file(Device* device, FileJob& job) {
  job.choose_method();
  std::unique_ptr<char, decltype(&std::free)> staging(nullptr, &std::free);
  for (const FileChunk& chunk : job.chunks()) {
    if (job.cancelled()) break;
    Buffer* buffer = Buffer::from(chunk.buffer);
    char* memory = buffer->host_address();
    if (memory && !job.direct()) {
      if (!job.move(chunk, memory + chunk.buffer_offset, FileJob::Room::kChunk)) break;
    } else {
      if (!staging) {
        staging.reset(static_cast<char*>(std::aligned_alloc(kFileBlock, job.chunk_bytes())));
        if (!staging) throw std::bad_alloc();
      }
      char* at = staging.get() + chunk.lead();
      if (job.writes()) {
        if (heddle_status_t* failed = device->read(buffer, chunk.buffer_offset, at, chunk.length)) return failed;
      }
      if (!job.move(chunk, at, FileJob::Room::kBlocks)) break;
      if (!job.writes()) {
        if (memory) {
          std::memcpy(memory + chunk.buffer_offset, at, chunk.length);
        } else if (heddle_status_t* failed = device->write(buffer, chunk.buffer_offset, at, chunk.length)) {
          return failed;
        }
      }
    }
    job.arrived(chunk);
  }
  job.cancelled();  // also for a job without chunks
  return job.result();
}

}  // namespace

heddle_status_t* await_waits(Device* device, const Submission& submission) noexcept {
  return guarded(device->host, "waiting for a submission's points", [&]() -> heddle_status_t* {
    if (heddle_status_t* failed =
            HostTimeline::wait(submission.waits.data(), submission.waits.size(), HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE)) {
      return failed;
    }
    return device->loss();
  });
}

heddle_status_t* run_on_host(Device* device, const Operation& operation) noexcept {
  return guarded(device->host, "running a command", [&]() -> heddle_status_t* {
    if (heddle_status_t* unreachable = check_reachable(device, operation)) return unreachable;
    const std::vector<Range>& ranges = operation.ranges;
    switch (operation.kind) {
      case Kind::kCopy:
        if (ranges[0].length) std::memcpy(address_of(ranges[1]), address_of(ranges[0]), ranges[0].length);
        return nullptr;
      case Kind::kFill: {  // writes the pattern once, then doubles the filled part
        char* target = address_of(ranges[0]);
        const uint64_t length = ranges[0].length;
        uint64_t filled = std::min<uint64_t>(operation.pattern_bytes, length);
        for (uint64_t i = 0; i < filled; ++i) target[i] = static_cast<char>(operation.pattern >> (8 * i));
        for (; filled < length; filled += std::min(filled, length - filled))
          std::memcpy(target + filled, target, std::min(filled, length - filled));
        return nullptr;
      }
      case Kind::kUpdate:
        if (ranges[0].length) std::memcpy(address_of(ranges[0]), operation.bytes.data(), ranges[0].length);
        return nullptr;
      case Kind::kCopy2d:
        for (uint64_t row = 0; row < operation.rows; ++row) {
          std::memcpy(address_of(ranges[1]) + row * operation.target_stride, address_of(ranges[0]) + row * operation.source_stride,
                      operation.row_bytes);
        }
        return nullptr;
      case Kind::kUpload:
        if (ranges[0].length) std::memcpy(address_of(ranges[0]), operation.host_source, ranges[0].length);
        return nullptr;
      case Kind::kDownload:
        if (ranges[0].length) std::memcpy(operation.host_target, address_of(ranges[0]), ranges[0].length);
        return nullptr;
      case Kind::kFile:
        return run_file(device, *operation.file);
      case Kind::kDispatch:
        return status(device->host, HEDDLE_STATUS_FAILED_PRECONDITION,
                      "%s: running a kernel failed: run_on_host runs no kernels; do it in Queue::enqueue (heddle/sdk/driver.h)",
                      device->who);
      case Kind::kBarrier:
        break;
    }
    return nullptr;
  });
}

void retire(Device* device, std::unique_ptr<Submission> submission, heddle_status_t* failure) noexcept {
  const heddle_host_t* host = device->host;
  for (const Operation& operation : submission->operations) {
    if (operation.kind == Kind::kDispatch) {
      device->dispatches.fetch_add(1, std::memory_order_relaxed);
    } else if (operation.kind != Kind::kBarrier && operation.kind != Kind::kFile) {
      device->copies.fetch_add(1, std::memory_order_relaxed);
    }
  }
  device->submissions.fetch_add(1, std::memory_order_relaxed);
  const std::vector<heddle_point_t> signals = std::move(submission->signals);
  submission.reset();
  for (const heddle_point_t& point : signals) {
    if (failure) {
      HostTimeline::from(point.timeline)->fail(point.value, host->status_clone(host->self, failure));
    } else {
      HostTimeline::from(point.timeline)->advance(point.value);  // refused only if it is already poisoned
    }
  }
  if (failure) host->status_free(host->self, failure);
}

namespace {

// ---- heddle.transfer/1

heddle_status_t* transfer_properties(heddle_device_t* handle, heddle_transfer_properties_t* out) noexcept {
  Device* device = Device::from(handle);
  return guarded(device->host, "describing transfers", [&]() -> heddle_status_t* {
    write_struct(device->transfer_properties(), out);
    return nullptr;
  });
}

heddle_status_t* check_binding(Device* device, const char* what, const heddle_binding_t* binding, Range* out) {
  Buffer* buffer = Buffer::from(binding->buffer);
  if (!buffer) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: %s %llu bytes failed: no buffer", device->who, what,
                  number(binding->length));
  }
  if (!buffer->holds(binding->offset, binding->length)) {
    return status(device->host, HEDDLE_STATUS_OUT_OF_RANGE, "%s: %s %llu bytes at %llu failed: the buffer has %llu bytes", device->who,
                  what, number(binding->length), number(binding->offset), number(buffer->size));
  }
  *out = {buffer, binding->offset, binding->length};
  return nullptr;
}

heddle_status_t* enqueue_one(Queue* queue, const heddle_sync_t* sync, Operation operation) {
  Device* device = queue->device;
  if (heddle_status_t* lost = device->loss()) return lost;
  auto submission = std::make_unique<Submission>();
  submission->operations.push_back(std::move(operation));
  if (heddle_status_t* bad = read_sync(device, sync, submission.get())) return bad;
  return queue->enqueue(std::move(submission));
}

heddle_status_t* host_copy(heddle_queue_t* handle, const heddle_sync_t* sync, const heddle_binding_t* binding, const void* source,
                           void* target, Kind kind) noexcept {
  Queue* queue = Queue::from(handle);
  Device* device = queue->device;
  const char* what = kind == Kind::kUpload ? "uploading" : "downloading";
  return guarded(device->host, what, [&]() -> heddle_status_t* {
    Operation operation;
    operation.kind = kind;
    operation.ranges.resize(1);
    if (heddle_status_t* bad = check_binding(device, what, binding, &operation.ranges[0])) return bad;
    if (binding->length && !source && !target) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: %s %llu bytes failed: the host pointer is null", device->who, what,
                    number(binding->length));
    }
    operation.host_source = static_cast<const char*>(source);
    operation.host_target = static_cast<char*>(target);
    return enqueue_one(queue, sync, std::move(operation));
  });
}

heddle_status_t* transfer_upload(heddle_queue_t* queue, const heddle_sync_t* sync, const void* source,
                                 const heddle_binding_t* target) noexcept {
  return host_copy(queue, sync, target, source, nullptr, Kind::kUpload);
}

heddle_status_t* transfer_download(heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_binding_t* source,
                                   void* target) noexcept {
  return host_copy(queue, sync, source, nullptr, target, Kind::kDownload);
}

heddle_status_t* transfer_peer_copy(heddle_queue_t* handle, const heddle_sync_t* sync, const heddle_binding_t* source,
                                    const heddle_binding_t* target) noexcept {
  Queue* queue = Queue::from(handle);
  Device* device = queue->device;
  return guarded(device->host, "copying between devices", [&]() -> heddle_status_t* {
    Operation operation;
    operation.kind = Kind::kCopy;
    operation.ranges.resize(2);
    if (heddle_status_t* bad = check_binding(device, "copying from", source, &operation.ranges[0])) return bad;
    if (heddle_status_t* bad = check_binding(device, "copying to", target, &operation.ranges[1])) return bad;
    if (source->length != target->length) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: copying %llu bytes to %llu failed: lengths differ", device->who,
                    number(source->length), number(target->length));
    }
    const bool same = source->buffer == target->buffer;
    if (same && source->length && source->offset < target->offset + target->length && target->offset < source->offset + source->length) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: copying %llu bytes failed: source and target overlap", device->who,
                    number(source->length));
    }
    return enqueue_one(queue, sync, std::move(operation));
  });
}

// ---- heddle.param_io/1

heddle_status_t* move_extents(heddle_queue_t* handle, const heddle_sync_t* sync, heddle_file_t* file_handle, const heddle_extent_t* extents,
                              uint64_t count, const heddle_param_io_params_t* in, bool writes) noexcept {
  Queue* queue = Queue::from(handle);
  Device* device = queue->device;
  return guarded(device->host, writes ? "writing a file" : "reading a file", [&]() -> heddle_status_t* {
    heddle_param_io_params_t params = {};
    uint64_t bad_byte;
    if (in && !read_struct(in, &params, &bad_byte)) return tail_status(device->host, "heddle_param_io_params_t", bad_byte);
    Operation operation;
    operation.kind = Kind::kFile;
    const DriverFile* file = DriverFile::from(file_handle);
    operation.file = std::make_shared<FileJob>(device->host, device->who, file ? &file->file : nullptr, writes);
    const uint64_t chunk = params.pinned_bytes ? std::min(kDefaultChunk, params.pinned_bytes) : kDefaultChunk;
    if (heddle_status_t* bad = operation.file->start(extents, count, params, chunk)) return bad;
    for (uint64_t i = 0; i < count; ++i) {
      const Buffer* buffer = Buffer::from(extents[i].buffer);
      if (heddle_status_t* bad = operation.file->add(i, extents[i], buffer ? buffer->size : 0)) return bad;
    }
    return enqueue_one(queue, sync, std::move(operation));
  });
}

heddle_status_t* param_io_read(heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                               uint64_t count, const heddle_param_io_params_t* params) noexcept {
  return move_extents(queue, sync, file, extents, count, params, false);
}

heddle_status_t* param_io_write(heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                                uint64_t count, const heddle_param_io_params_t* params) noexcept {
  return move_extents(queue, sync, file, extents, count, params, true);
}

// ---- heddle.dispatch/1

heddle_status_t* variant_rank(heddle_device_t* handle, heddle_string_t format, heddle_string_t target, uint32_t* out) noexcept {
  *out = 0;
  Device* device = Device::from(handle);
  return guarded(device->host, "ranking a variant", [&]() -> heddle_status_t* {
    *out = device->rank(view_of(format), view_of(target));
    return nullptr;
  });
}

heddle_status_t* portable_parts(heddle_device_t* handle, const heddle_portable_query_t* query,
                                void (*part)(void* context, const heddle_portable_part_t* part), void* context) noexcept {
  Device* device = Device::from(handle);
  return guarded(device->host, "asking how portable code would run", [&]() -> heddle_status_t* {
    heddle_portable_query_t own;
    uint64_t bad_byte;
    if (!read_struct(query, &own, &bad_byte)) return tail_status(device->host, "heddle_portable_query_t", bad_byte);
    if ((own.code_bytes && !own.code) || (own.entry.size && !own.entry.data)) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "%s: asking how portable code would run failed: the query has no code or no entry [HD-E-07]", device->who);
    }
    return device->portable_parts(own, [&](const heddle_portable_part_t& each) { part(context, &each); });
  });
}

int shown(std::string_view text) {
  return static_cast<int>(std::min<size_t>(text.size(), 120));
}

heddle_status_t* read_entries(Device* device, const heddle_executable_params_t& params, Code* out) {
  const char* name = out->name.data();
  const int name_size = shown(out->name);
  if (params.entry_count && (!params.entries || params.entry_stride < sizeof(uint32_t))) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "%s: loading executable '%.*s' failed: %u entries at a stride of %llu bytes", device->who, name_size, name,
                  params.entry_count, number(params.entry_stride));
  }
  for (uint32_t i = 0; i < params.entry_count; ++i) {
    const char* at = reinterpret_cast<const char*>(params.entries) + uint64_t{i} * params.entry_stride;
    heddle_entry_params_t entry;
    uint64_t bad_byte;
    if (!read_struct(reinterpret_cast<const heddle_entry_params_t*>(at), &entry, &bad_byte)) {
      return tail_status(device->host, "heddle_entry_params_t", bad_byte);
    }
    const heddle_device_description_t& limits = device->limits;
    if ((limits.max_bindings && entry.binding_count > limits.max_bindings) ||
        (limits.max_constants_bytes && entry.constants_bytes > limits.max_constants_bytes)) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "%s: loading entry %u of executable '%.*s' failed: %u bindings and %u bytes of constants; device %u takes %u and %u",
                    device->who, i, name_size, name, entry.binding_count, entry.constants_bytes, device->ordinal, limits.max_bindings,
                    limits.max_constants_bytes);
    }
    out->entries.push_back(entry);
  }
  return nullptr;
}

heddle_status_t* executable_load(heddle_device_t* handle, const heddle_executable_params_t* in, heddle_executable_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  const heddle_host_t* host = device->host;
  return guarded(host, "loading an executable", [&]() -> heddle_status_t* {
    heddle_executable_params_t params;
    uint64_t bad_byte;
    if (!read_struct(in, &params, &bad_byte)) return tail_status(host, "heddle_executable_params_t", bad_byte);
    if (heddle_status_t* lost = device->loss()) return lost;
    Code code = {view_of(params.format),     view_of(params.target),
                 view_of(params.name),       static_cast<const char*>(params.code),
                 params.code_bytes,          {},
                 view_of(params.own_kernels)};
    if (device->rank(code.format, code.target) == 0) {
      return status(host, HEDDLE_STATUS_FAILED_PRECONDITION,
                    "%s: loading executable '%.*s' failed: code '%.*s' for '%.*s' does not run on device %u; choose a variant by its rank "
                    "[HD-C-01]",
                    device->who, shown(code.name), code.name.data(), shown(code.format), code.format.data(), shown(code.target),
                    code.target.data(), device->ordinal);
    }
    if (heddle_status_t* bad = read_entries(device, params, &code)) return bad;
    Executable* executable = nullptr;
    if (heddle_status_t* failed = device->load(code, &executable)) return failed;
    struct Holder {
      const heddle_host_t* host;
      Executable* executable;
      ~Holder() { unmake(host, executable); }
    } holder{host, executable};
    executable->entries.reserve(code.entries.size());
    for (const heddle_entry_params_t& entry : code.entries) {
      const std::string_view symbol = view_of(entry.name);
      if (const char* why = wrong_entry_flags(entry)) {
        return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: loading executable '%.*s' failed: of its kernel '%.*s', %s", device->who,
                      shown(code.name), code.name.data(), shown(symbol), symbol.data(), why);
      }
      const void* kernel = executable->find(symbol);
      if (!kernel) {
        return status(host, HEDDLE_STATUS_NOT_FOUND, "%s: loading executable '%.*s' failed: its code has no kernel '%.*s'", device->who,
                      shown(code.name), code.name.data(), shown(symbol), symbol.data());
      }
      executable->entries.push_back({device->api, device, std::string(symbol), kernel, entry});
    }
    holder.executable = nullptr;
    device->live.executables.fetch_add(1);
    *out = executable->handle();
    return nullptr;
  });
}

heddle_status_t* submit(heddle_queue_t* handle, const heddle_submission_t* in) noexcept {
  Queue* queue = Queue::from(handle);
  Device* device = queue->device;
  return guarded(device->host, "submitting", [&]() -> heddle_status_t* {
    heddle_submission_t params;
    uint64_t bad_byte;
    if (!read_struct(in, &params, &bad_byte)) return tail_status(device->host, "heddle_submission_t", bad_byte);
    if (heddle_status_t* lost = device->loss()) return lost;
    auto submission = std::make_unique<Submission>();
    if (heddle_status_t* bad = read_commands(device, params.commands, params.command_count, &submission->operations)) return bad;
    if (heddle_status_t* bad = read_sync(device, &params.sync, submission.get())) return bad;
    return queue->enqueue(std::move(submission));
  });
}

}  // namespace

const heddle_transfer_interface_t* transfer_interface() noexcept {
  static const heddle_transfer_interface_t table = {
      sizeof(heddle_transfer_interface_t), 0, transfer_properties, transfer_upload, transfer_download, transfer_peer_copy};
  return &table;
}

const heddle_param_io_interface_t* param_io_interface() noexcept {
  static const heddle_param_io_interface_t table = {
      sizeof(heddle_param_io_interface_t), 0, DriverFile::open, DriverFile::close, param_io_read, param_io_write, nullptr};
  return &table;
}

const heddle_dispatch_interface_t* dispatch_interface() noexcept {
  static const heddle_dispatch_interface_t table = {sizeof(heddle_dispatch_interface_t),
                                                    0,
                                                    variant_rank,
                                                    executable_load,
                                                    unload_executable<Executable>,
                                                    find_entry<Executable>,
                                                    submit,
                                                    record,
                                                    replay,
                                                    recording_free,
                                                    nullptr,
                                                    portable_parts};  // operation_load
  return &table;
}

}  // namespace heddle::sdk
