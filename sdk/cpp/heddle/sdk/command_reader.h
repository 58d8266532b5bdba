// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The checks of command lists, for drivers that lower commands to their own form on the hot path. Errors name the command by its index.
//
// Self derives from it and has: barrier(); launch(entry, command), with a dispatch whose entry and counts are checked, but no binding; and
// emit_copy, emit_fill, emit_update, emit_copy_2d, with addresses of checked ranges. Entry, Buffer and Device are the driver's; Buffer has holds(),
// `size` and at(offset), which returns an Address.
#ifndef HEDDLE_SDK_COMMAND_READER_H_
#define HEDDLE_SDK_COMMAND_READER_H_

#include <string>

#include "heddle/sdk/device_root.h"
#include "heddle/sdk/status.h"

namespace heddle::sdk {

template <class Self, class Device, class Buffer, class Entry, class Address>
class CommandReader {
 public:
  heddle_status_t* add(const heddle_command_t& command, uint32_t index) {
    index_ = index;
    if (command.flags != 0) [[unlikely]]
      return bad(HEDDLE_STATUS_INVALID_ARGUMENT, "%s: command %u failed: its flags %x are unknown [HD-E-04]", command.flags);
    switch (command.kind) {
      case HEDDLE_COMMAND_BARRIER:
        self().barrier();
        return nullptr;
      case HEDDLE_COMMAND_DISPATCH:
        return dispatch(command.as.dispatch);
      case HEDDLE_COMMAND_COPY:
        return copy(command.as.copy);
      case HEDDLE_COMMAND_FILL:
        return fill(command.as.fill);
      case HEDDLE_COMMAND_UPDATE:
        return update(command.as.update);
      case HEDDLE_COMMAND_COPY_2D:
        return copy_2d(command.as.copy_2d);
      default:
        return bad(HEDDLE_STATUS_INVALID_ARGUMENT, "%s: command %u failed: its kind %u is unknown", command.kind);
    }
  }

 protected:
  explicit CommandReader(Device* device) noexcept : device_(device) {}
  ~CommandReader() = default;

  // A status whose format begins with "%s: command %u".
  template <class... Values>
  heddle_status_t* bad(heddle_status_code_t code, const char* format, Values... values) const noexcept {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return status(device_->host, code, format, device_->who, index_, values...);
#pragma GCC diagnostic pop
  }
  heddle_status_t* bad_binding(const heddle_dispatch_command_t& command, uint32_t index) const noexcept {
    const heddle_binding_t& binding = command.bindings[index];
    const Buffer* buffer = Buffer::from(binding.buffer);
    return bad(HEDDLE_STATUS_OUT_OF_RANGE, "%s: command %u (kernel '%s', region %u) failed: binding %u (%llu bytes at %llu) %s%llu bytes",
               Entry::from(command.entry)->name.c_str(), command.region, index, number(binding.length), number(binding.offset),
               buffer ? "ends after the buffer's " : "has no buffer, so ", number(buffer ? buffer->size : 0));
  }

  Device* device_;
  uint32_t index_ = 0;  // of the command

 private:
  Self& self() noexcept { return static_cast<Self&>(*this); }

  heddle_status_t* dispatch(const heddle_dispatch_command_t& command) {
    const Entry* entry = Entry::from(command.entry);
    if (!entry || entry->device != device_ || command.binding_count != entry->binding_count ||
        command.constants_bytes != entry->constants_bytes || (command.constants_bytes && !command.constants) ||
        (command.binding_count && !command.bindings)) [[unlikely]] {
      return bad_dispatch(command);
    }
    return self().launch(*entry, command);
  }

  heddle_status_t* copy(const heddle_copy_command_t& command) {
    Address source{}, target{};
    if (heddle_status_t* bad = range("copying from", command.source, command.source_offset, command.length, &source)) return bad;
    if (heddle_status_t* bad = range("copying to", command.target, command.target_offset, command.length, &target)) return bad;
    if (command.length && source < target + command.length && target < source + command.length) [[unlikely]] {
      return bad(HEDDLE_STATUS_INVALID_ARGUMENT,
                 "%s: command %u (copy of %llu bytes from %llu to %llu) failed: source and target overlap; copy through another buffer",
                 number(command.length), number(command.source_offset), number(command.target_offset));
    }
    return self().emit_copy(target, source, command.length);
  }

  heddle_status_t* fill(const heddle_fill_command_t& command) {
    Address target{};
    if (heddle_status_t* bad = range("filling", command.target, command.offset, command.length, &target)) return bad;
    const uint32_t bytes = command.pattern_bytes;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) [[unlikely]] {
      return bad(HEDDLE_STATUS_INVALID_ARGUMENT,
                 "%s: command %u (fill of %llu bytes) failed: a pattern of %u bytes is none of 1, 2, 4 and 8", number(command.length),
                 bytes);
    }
    if (command.reserved != 0) [[unlikely]]
      return bad(HEDDLE_STATUS_INVALID_ARGUMENT, "%s: command %u (fill) failed: its reserved field is %u, not 0 [HD-E-04]",
                 command.reserved);
    return self().emit_fill(target, command.length, command.pattern, bytes);
  }

  heddle_status_t* update(const heddle_update_command_t& command) {
    Address target{};
    if (heddle_status_t* bad = range("updating", command.target, command.offset, command.length, &target)) return bad;
    if (command.length && !command.source) [[unlikely]] {
      return bad(HEDDLE_STATUS_INVALID_ARGUMENT, "%s: command %u (update of %llu bytes) failed: no source", number(command.length));
    }
    return self().emit_update(target, command.source, command.length);
  }

  heddle_status_t* copy_2d(const heddle_copy_2d_command_t& command) {
    if (!command.source || !command.target) {
      return bad(HEDDLE_STATUS_INVALID_ARGUMENT, "%s: command %u (2-D copy) failed: no source or target");
    }
    const uint64_t rows = command.row_bytes ? command.rows : 0;
    uint64_t source_span = 0, target_span = 0;
    if (rows && (__builtin_mul_overflow(rows - 1, command.source_stride, &source_span) ||
                 __builtin_add_overflow(source_span, command.row_bytes, &source_span) ||
                 __builtin_mul_overflow(rows - 1, command.target_stride, &target_span) ||
                 __builtin_add_overflow(target_span, command.row_bytes, &target_span))) {
      return bad(HEDDLE_STATUS_OUT_OF_RANGE,
                 "%s: command %u (2-D copy) failed: %llu rows at strides of %llu and %llu bytes are more than 2^64", number(rows),
                 number(command.source_stride), number(command.target_stride));
    }
    Address source{}, target{};
    if (heddle_status_t* bad = range("copying rows from", command.source->buffer, command.source->offset, source_span, &source)) return bad;
    if (heddle_status_t* bad = range("copying rows to", command.target->buffer, command.target->offset, target_span, &target)) return bad;
    if (rows > 1 && command.target_stride < command.row_bytes) {
      return bad(HEDDLE_STATUS_INVALID_ARGUMENT, "%s: command %u (2-D copy) failed: target rows of %llu bytes overlap at a stride of %llu",
                 number(command.row_bytes), number(command.target_stride));
    }
    // Interleaved rows of one buffer could be disjoint; to stay simple, the rule applies to the whole spans.
    if (rows && source < target + target_span && target < source + source_span) {
      return bad(HEDDLE_STATUS_INVALID_ARGUMENT,
                 "%s: command %u (2-D copy) failed: source and target overlap; copy through another buffer");
    }
    return self().emit_copy_2d(target, source, command, rows);
  }

  heddle_status_t* range(const char* what, heddle_buffer_t* handle, uint64_t offset, uint64_t length, Address* out) {
    const Buffer* buffer = Buffer::from(handle);
    if (!buffer) {
      return bad(HEDDLE_STATUS_INVALID_ARGUMENT, "%s: command %u (%s %llu bytes) failed: no buffer", what, number(length));
    }
    if (!buffer->holds(offset, length)) {
      return bad(HEDDLE_STATUS_OUT_OF_RANGE, "%s: command %u (%s %llu bytes at %llu) failed: the buffer has %llu bytes", what,
                 number(length), number(offset), number(buffer->size));
    }
    *out = buffer->at(offset);
    return nullptr;
  }

  heddle_status_t* bad_dispatch(const heddle_dispatch_command_t& command) const noexcept {
    const Entry* entry = Entry::from(command.entry);
    if (!entry) {
      return bad(HEDDLE_STATUS_INVALID_ARGUMENT, "%s: command %u (dispatch, region %u) failed: no entry", command.region);
    }
    if (entry->device != device_) {
      return bad(HEDDLE_STATUS_INVALID_ARGUMENT,
                 "%s: command %u (kernel '%s', region %u) failed: it was loaded on device %u and the queue is device %u's [HD-Q-02]",
                 entry->name.c_str(), command.region, entry->device->ordinal, device_->ordinal);
    }
    return bad(HEDDLE_STATUS_INVALID_ARGUMENT,
               "%s: command %u (kernel '%s', region %u) failed: %u bindings%s and %u bytes of constants%s; the kernel takes %u and %u",
               entry->name.c_str(), command.region, command.binding_count, command.bindings ? "" : " (null)", command.constants_bytes,
               command.constants ? "" : " (null)", entry->binding_count, entry->constants_bytes);
  }
};

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_COMMAND_READER_H_
