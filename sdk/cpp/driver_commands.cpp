// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Base classes of a driver: checks a list of commands and a set of waits and signals, and converts them to operations that hold none of the
// caller's memory.
#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "heddle/sdk/driver.h"
#include "heddle/sdk/host_timeline.h"

namespace heddle::sdk {
namespace {

class Reader {
 public:
  Reader(Device* device, std::vector<Operation>* out) : device_(device), out_(out) {}

  heddle_status_t* add(const heddle_command_t& command, uint32_t index) {
    index_ = index;
    operation_ = Operation{};
    heddle_status_t* bad = read(command);
    if (!bad) out_->push_back(std::move(operation_));
    return bad;
  }

 private:
  using Kind = Operation::Kind;

  [[gnu::format(printf, 3, 4)]] heddle_status_t* failed(heddle_status_code_t code, const char* format, ...) {
    char why[400];
    va_list values;
    va_start(values, format);
    std::vsnprintf(why, sizeof why, format, values);
    va_end(values);
    if (operation_.entry) {
      return status(device_->host, code, "%s: command %u (kernel '%s', region %u) failed: %s", device_->who, index_,
                    operation_.entry->name.c_str(), operation_.region, why);
    }
    return status(device_->host, code, "%s: command %u failed: %s", device_->who, index_, why);
  }

  heddle_status_t* read(const heddle_command_t& command) {
    if (command.flags != 0) return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "its flags %x are unknown [HD-E-04]", command.flags);
    switch (command.kind) {
      case HEDDLE_COMMAND_BARRIER:
        return nullptr;
      case HEDDLE_COMMAND_DISPATCH:
        return dispatch(command.as.dispatch);
      case HEDDLE_COMMAND_COPY: {
        const heddle_copy_command_t& copy = command.as.copy;
        operation_.kind = Kind::kCopy;
        if (heddle_status_t* bad = range("copying from", copy.source, copy.source_offset, copy.length)) return bad;
        if (heddle_status_t* bad = range("copying to", copy.target, copy.target_offset, copy.length)) return bad;
        return check_overlap();
      }
      case HEDDLE_COMMAND_FILL: {
        const heddle_fill_command_t& fill = command.as.fill;
        operation_.kind = Kind::kFill;
        operation_.pattern = fill.pattern;
        operation_.pattern_bytes = fill.pattern_bytes;
        const uint32_t bytes = fill.pattern_bytes;
        if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) {
          return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "a pattern of %u bytes is none of 1, 2, 4 and 8", bytes);
        }
        if (fill.reserved != 0) return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "its reserved field is %u, not 0 [HD-E-04]", fill.reserved);
        return range("filling", fill.target, fill.offset, fill.length);
      }
      case HEDDLE_COMMAND_UPDATE: {
        const heddle_update_command_t& update = command.as.update;
        operation_.kind = Kind::kUpdate;
        if (heddle_status_t* bad = range("updating", update.target, update.offset, update.length)) return bad;
        if (update.length && !update.source) return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "an update has no source");
        const char* source = static_cast<const char*>(update.source);
        operation_.bytes.assign(source, source + update.length);
        return nullptr;
      }
      case HEDDLE_COMMAND_COPY_2D:
        return copy_2d(command.as.copy_2d);
      default:
        return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "its kind %u is unknown", command.kind);
    }
  }

  heddle_status_t* range(const char* what, heddle_buffer_t* handle, uint64_t offset, uint64_t length) {
    Buffer* buffer = Buffer::from(handle);
    if (!buffer) return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "%s %llu bytes: no buffer", what, number(length));
    if (!buffer->holds(offset, length)) {
      return failed(HEDDLE_STATUS_OUT_OF_RANGE, "%s %llu bytes at %llu: the buffer has %llu bytes", what, number(length), number(offset),
                    number(buffer->size));
    }
    operation_.ranges.push_back({buffer, offset, length});
    return nullptr;
  }

  // Two buffers may be views of the same host memory. Rows of one buffer could interleave without touching; to stay simple, the rule applies to
  // whole spans.
  heddle_status_t* check_overlap() {
    const Range &source = operation_.ranges[0], &target = operation_.ranges[1];
    if (!source.length) return nullptr;
    const char *from = source.buffer->host_address(), *to = target.buffer->host_address();
    bool overlap =
        source.buffer == target.buffer && source.offset < target.offset + target.length && target.offset < source.offset + source.length;
    if (from && to) {
      overlap = from + source.offset < to + target.offset + target.length && to + target.offset < from + source.offset + source.length;
    }
    if (!overlap) return nullptr;
    return failed(HEDDLE_STATUS_INVALID_ARGUMENT,
                  "copying %llu bytes from %llu to %llu: source and target overlap; copy through another buffer", number(source.length),
                  number(source.offset), number(target.offset));
  }

  heddle_status_t* copy_2d(const heddle_copy_2d_command_t& copy) {
    operation_.kind = Kind::kCopy2d;
    if (!copy.source || !copy.target) return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "a 2-D copy has no source or no target");
    const uint64_t rows = copy.row_bytes ? copy.rows : 0;
    uint64_t source_span = 0, target_span = 0;
    if (rows && (__builtin_mul_overflow(rows - 1, copy.source_stride, &source_span) ||
                 __builtin_add_overflow(source_span, copy.row_bytes, &source_span) ||
                 __builtin_mul_overflow(rows - 1, copy.target_stride, &target_span) ||
                 __builtin_add_overflow(target_span, copy.row_bytes, &target_span))) {
      return failed(HEDDLE_STATUS_OUT_OF_RANGE, "%llu rows at strides of %llu and %llu bytes are more than 2^64", number(rows),
                    number(copy.source_stride), number(copy.target_stride));
    }
    if (heddle_status_t* bad = range("copying rows from", copy.source->buffer, copy.source->offset, source_span)) return bad;
    if (heddle_status_t* bad = range("copying rows to", copy.target->buffer, copy.target->offset, target_span)) return bad;
    if (rows > 1 && copy.target_stride < copy.row_bytes) {
      return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "target rows of %llu bytes overlap at a stride of %llu", number(copy.row_bytes),
                    number(copy.target_stride));
    }
    operation_.source_stride = copy.source_stride;
    operation_.target_stride = copy.target_stride;
    operation_.row_bytes = copy.row_bytes;
    operation_.rows = rows;
    return check_overlap();
  }

  heddle_status_t* dispatch(const heddle_dispatch_command_t& command) {
    operation_.kind = Kind::kDispatch;
    const Entry* entry = operation_.entry = Entry::from(command.entry);
    operation_.region = command.region;
    if (!entry) return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "a dispatch has no entry");
    if (entry->device != device_) return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "it was loaded on another device [HD-Q-02]");
    if (command.binding_count != entry->params.binding_count || command.constants_bytes != entry->params.constants_bytes ||
        (command.binding_count && !command.bindings) || (command.constants_bytes && !command.constants)) {
      return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "%u bindings and %u bytes of constants; the kernel takes %u and %u",
                    command.binding_count, command.constants_bytes, entry->params.binding_count, entry->params.constants_bytes);
    }
    operation_.workgroups = 1;
    for (int i = 0; i < 3; ++i) {
      const uint32_t most = device_->limits.max_workgroup_count[i];
      operation_.grid[i] = command.grid[i];
      if ((most && command.grid[i] > most) ||
          __builtin_mul_overflow(operation_.workgroups, uint64_t{command.grid[i]}, &operation_.workgroups)) {
        return failed(HEDDLE_STATUS_OUT_OF_RANGE, "a grid of %u x %u x %u is more than %u x %u x %u or 2^64 in total", command.grid[0],
                      command.grid[1], command.grid[2], device_->limits.max_workgroup_count[0], device_->limits.max_workgroup_count[1],
                      device_->limits.max_workgroup_count[2]);
      }
    }
    for (uint32_t i = 0; i < command.binding_count; ++i) {
      const heddle_binding_t& binding = command.bindings[i];
      Buffer* buffer = Buffer::from(binding.buffer);
      if (buffer ? !buffer->holds(binding.offset, binding.length) : binding.offset || binding.length) {
        return failed(HEDDLE_STATUS_OUT_OF_RANGE, "binding %u (%llu bytes at %llu) %s%llu bytes", i, number(binding.length),
                      number(binding.offset), buffer ? "ends after the buffer's " : "has no buffer, so ",
                      number(buffer ? buffer->size : 0));
      }
      operation_.ranges.push_back({buffer, binding.offset, binding.length});
    }
    const char* constants = static_cast<const char*>(command.constants);
    operation_.bytes.assign(constants, constants + command.constants_bytes);
    return nullptr;
  }

  Device* device_;
  std::vector<Operation>* out_;
  Operation operation_;
  uint32_t index_ = 0;
};

}  // namespace

heddle_status_t* read_commands(Device* device, const heddle_command_t* commands, uint32_t count, std::vector<Operation>* out) {
  if (count && !commands) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: submitting %u commands failed: the list is null", device->who, count);
  }
  Reader reader(device, out);
  out->reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    if (heddle_status_t* bad = reader.add(commands[i], i)) return bad;
  }
  return nullptr;
}

heddle_status_t* read_sync(Device* device, const heddle_sync_t* in, Submission* out) {
  const heddle_host_t* host = device->host;
  heddle_sync_t sync;
  uint64_t bad_byte;
  if (!read_struct(in, &sync, &bad_byte)) return tail_status(host, "heddle_sync_t", bad_byte);
  if ((sync.wait_count && !sync.waits) || (sync.signal_count && !sync.signals)) {
    return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: submitting failed: %u waits%s and %u signals%s", device->who, sync.wait_count,
                  sync.waits ? "" : " (null)", sync.signal_count, sync.signals ? "" : " (null)");
  }
  out->waits.assign(sync.waits, sync.waits + sync.wait_count);
  out->signals.assign(sync.signals, sync.signals + sync.signal_count);
  for (const std::vector<heddle_point_t>* points : {&out->waits, &out->signals}) {
    for (const heddle_point_t& point : *points) {
      if (point.timeline && HostTimeline::from(point.timeline)->device() == device) continue;
      return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: submitting failed: a point %s [HD-Q-02]", device->who,
                    point.timeline ? "belongs to another device" : "has no timeline");
    }
  }
  for (const heddle_point_t& point : out->signals) {
    const uint64_t reached = HostTimeline::from(point.timeline)->reached();
    if (point.value > reached && point.value <= HostTimeline::kMaxValue) continue;
    return status(host, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "%s: submitting failed: a signal is to value %llu and its timeline has reached %llu; values only grow, up to 2^62-1",
                  device->who, number(point.value), number(reached));
  }
  return nullptr;
}

}  // namespace heddle::sdk
