// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks command lists and packs arguments: the part of the hot path that does not call the vendor.
#include "heddle/sdk/stream/list.h"

namespace heddle::sdk::stream {

heddle_status_t* check_binding(Device* device, const Entry& entry, uint32_t command, uint32_t region, uint32_t index,
                               const heddle_binding_t& binding) noexcept {
  const Buffer* buffer = Buffer::from(binding.buffer);
  if (buffer ? buffer->holds(binding.offset, binding.length) : binding.offset == 0 && binding.length == 0) [[likely]]
    return nullptr;
  return status(device, HEDDLE_STATUS_OUT_OF_RANGE,
                "command %u (kernel '%s', region %u) failed: binding %u (%llu bytes at %llu) %s%llu bytes", command, entry.name.c_str(),
                region, index, number(binding.length), number(binding.offset), buffer ? "ends after the buffer's " : "has no buffer, so ",
                number(buffer ? buffer->size : 0));
}

heddle_status_t* pack_arguments(Device* device, const Entry& entry, const heddle_binding_t* bindings, const void* constants, char* out) {
  auto address = [&](uint32_t index) -> Address {
    const Buffer* buffer = Buffer::from(bindings[index].buffer);
    return buffer && buffer->address ? buffer->address + bindings[index].offset : 0;
  };
  if (entry.plain) [[likely]] {
    auto* words = reinterpret_cast<uint64_t*>(out);
    for (uint32_t i = 0; i < entry.binding_count; ++i) words[i] = address(i);
    if (entry.constants_bytes) std::memcpy(words + entry.binding_count, constants, entry.constants_bytes);
    return nullptr;
  }
  for (const Argument& argument : entry.arguments) {
    switch (argument.kind) {
      case HEDDLE_ARGUMENT_BINDING: {
        const Address value = address(argument.index);
        std::memcpy(out + argument.at, &value, sizeof value);
        break;
      }
      case HEDDLE_ARGUMENT_CONSTANT:
        std::memcpy(out + argument.at, static_cast<const char*>(constants) + argument.index, argument.size_bytes);
        break;
      default:
        if (Result bad = argument.special->encode(address(argument.index), static_cast<const int64_t*>(constants), out + argument.at)) {
          return result_status(device, device->backend.code_of(bad), bad,
                               "encoding %s of binding %u (address %llx) for kernel '%s' failed; see %s", argument.special->name,
                               argument.index, number(address(argument.index)), entry.name.c_str(), argument.special->limits);
        }
    }
  }
  return nullptr;
}

namespace {

class Lowering {
 public:
  Lowering(Device* device, List* list) : device_(device), list_(list) {}

  heddle_status_t* add(const heddle_command_t& command, uint32_t index) {
    index_ = index;
    switch (command.kind) {
      case HEDDLE_COMMAND_DISPATCH:
        return dispatch(command.as.dispatch);
      case HEDDLE_COMMAND_BARRIER:
        append(Op::Kind::kBarrier);
        return nullptr;
      case HEDDLE_COMMAND_COPY:
        return copy(command.as.copy);
      case HEDDLE_COMMAND_FILL:
        return fill(command.as.fill);
      case HEDDLE_COMMAND_UPDATE:
        return update(command.as.update);
      case HEDDLE_COMMAND_COPY_2D:
        return copy_2d(command.as.copy_2d);
      default:
        return status(device_, HEDDLE_STATUS_INVALID_ARGUMENT, "command %u failed: its kind %u is unknown", index_, command.kind);
    }
  }

 private:
  Op& append(Op::Kind kind) {
    Op& op = list_->ops.emplace_back();
    op.kind = kind;
    op.command = index_;
    return op;
  }

  heddle_status_t* dispatch(const heddle_dispatch_command_t& command) {
    const Entry* entry = Entry::from(command.entry);
    if (!entry || entry->device != device_ || command.binding_count != entry->binding_count ||
        command.constants_bytes != entry->constants_bytes || (command.constants_bytes && !command.constants) ||
        (command.binding_count && !command.bindings)) [[unlikely]] {
      return bad_dispatch(command);
    }
    const uint32_t first = list_->bindings;
    list_->bindings += command.binding_count;
    for (uint32_t i = 0; i < command.binding_count; ++i) {
      if (heddle_status_t* bad = check_binding(device_, *entry, index_, command.region, i, command.bindings[i])) [[unlikely]]
        return bad;
    }
    const Facts& facts = device_->facts();
    for (int i = 0; i < 3; ++i) {
      if (command.grid[i] > static_cast<uint32_t>(facts.grid[i])) [[unlikely]] {
        return status(device_, HEDDLE_STATUS_OUT_OF_RANGE,
                      "command %u (kernel '%s', region %u) failed: a grid of %u x %u x %u is more than this device's %d x %d x %d", index_,
                      entry->name.c_str(), command.region, command.grid[0], command.grid[1], command.grid[2], facts.grid[0], facts.grid[1],
                      facts.grid[2]);
      }
    }
    ++list_->dispatches;
    if (command.grid[0] == 0 || command.grid[1] == 0 || command.grid[2] == 0)
      return nullptr;  // nothing to run, and the stream keeps the order
    const size_t at = (list_->arguments.size() + 63) & ~size_t{63};
    list_->arguments.resize(at + entry->arguments_bytes);
    if (heddle_status_t* bad = pack_arguments(device_, *entry, command.bindings, command.constants, list_->arguments.data() + at))
        [[unlikely]] {
      return bad;
    }
    append(Op::Kind::kLaunch).launch = {
        entry, static_cast<uint32_t>(at), {command.grid[0], command.grid[1], command.grid[2]}, command.region, first};
    return nullptr;
  }

  heddle_status_t* copy(const heddle_copy_command_t& command) {
    Address from = 0, to = 0;
    if (heddle_status_t* bad = range("copying from", command.source, command.source_offset, command.length, &from)) return bad;
    if (heddle_status_t* bad = range("copying to", command.target, command.target_offset, command.length, &to)) return bad;
    if (command.length && from < to + command.length && to < from + command.length) [[unlikely]] {
      return status(device_, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "command %u (copy of %llu bytes from %llu to %llu) failed: source and target overlap; copy through another "
                    "buffer",
                    index_, number(command.length), number(command.source_offset), number(command.target_offset));
    }
    ++list_->copies;
    if (command.length) append(Op::Kind::kCopy).copy = {to, from, command.length};
    return nullptr;
  }

  heddle_status_t* fill(const heddle_fill_command_t& command) {
    Address to = 0;
    if (heddle_status_t* bad = range("filling", command.target, command.offset, command.length, &to)) return bad;
    const uint32_t bytes = command.pattern_bytes;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) [[unlikely]] {
      return status(device_, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "command %u (fill of %llu bytes) failed: a pattern of %u bytes is none of 1, 2, 4 and 8", index_,
                    number(command.length), bytes);
    }
    ++list_->copies;
    if (command.length) append(Op::Kind::kFill).fill = {to, command.length, command.pattern, bytes};
    return nullptr;
  }

  heddle_status_t* update(const heddle_update_command_t& command) {
    Address to = 0;
    if (heddle_status_t* bad = range("updating", command.target, command.offset, command.length, &to)) return bad;
    if (command.length && !command.source) [[unlikely]] {
      return status(device_, HEDDLE_STATUS_INVALID_ARGUMENT, "command %u (update of %llu bytes) failed: no source", index_,
                    number(command.length));
    }
    ++list_->copies;
    if (command.length == 0) return nullptr;
    Staging::Slice slice;
    if (heddle_status_t* bad = device_->staging->take(command.length, &slice)) return bad;
    list_->slices.push_back(slice);
    std::memcpy(slice.data, command.source, command.length);
    append(Op::Kind::kCopy).copy = {to, reinterpret_cast<Address>(slice.data), command.length};
    return nullptr;
  }

  heddle_status_t* copy_2d(const heddle_copy_2d_command_t& command) {
    if (!command.source || !command.target) {
      return status(device_, HEDDLE_STATUS_INVALID_ARGUMENT, "command %u (2-D copy) failed: no source or target", index_);
    }
    const uint64_t rows = command.row_bytes ? command.rows : 0;
    uint64_t from_span = 0, to_span = 0;
    if (rows && (__builtin_mul_overflow(rows - 1, command.source_stride, &from_span) ||
                 __builtin_add_overflow(from_span, command.row_bytes, &from_span) ||
                 __builtin_mul_overflow(rows - 1, command.target_stride, &to_span) ||
                 __builtin_add_overflow(to_span, command.row_bytes, &to_span))) {
      return status(device_, HEDDLE_STATUS_OUT_OF_RANGE,
                    "command %u (2-D copy) failed: %llu rows at strides of %llu and %llu bytes are more than 2^64", index_, number(rows),
                    number(command.source_stride), number(command.target_stride));
    }
    Address from = 0, to = 0;
    if (heddle_status_t* bad = range("copying rows from", command.source->buffer, command.source->offset, from_span, &from)) return bad;
    if (heddle_status_t* bad = range("copying rows to", command.target->buffer, command.target->offset, to_span, &to)) return bad;
    if (rows > 1 && command.target_stride < command.row_bytes) {
      return status(device_, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "command %u (2-D copy) failed: target rows of %llu bytes overlap at a stride of %llu", index_,
                    number(command.row_bytes), number(command.target_stride));
    }
    if (rows && from < to + to_span && to < from + from_span) {
      return status(device_, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "command %u (2-D copy) failed: source and target overlap; copy through another buffer", index_);
    }
    ++list_->copies;
    if (rows) append(Op::Kind::kCopy2d).copy_2d = {to, from, command.target_stride, command.source_stride, command.row_bytes, rows};
    return nullptr;
  }

  heddle_status_t* range(const char* what, heddle_buffer_t* handle, uint64_t offset, uint64_t length, Address* out) {
    const Buffer* buffer = Buffer::from(handle);
    if (!buffer) {
      return status(device_, HEDDLE_STATUS_INVALID_ARGUMENT, "command %u (%s %llu bytes) failed: no buffer", index_, what, number(length));
    }
    if (!buffer->holds(offset, length)) {
      return status(device_, HEDDLE_STATUS_OUT_OF_RANGE, "command %u (%s %llu bytes at %llu) failed: the buffer has %llu bytes", index_,
                    what, number(length), number(offset), number(buffer->size));
    }
    *out = buffer->address + offset;
    return nullptr;
  }

  heddle_status_t* bad_dispatch(const heddle_dispatch_command_t& command) {
    const Entry* entry = Entry::from(command.entry);
    if (!entry) {
      return status(device_, HEDDLE_STATUS_INVALID_ARGUMENT, "command %u (dispatch, region %u) failed: no entry", index_, command.region);
    }
    if (entry->device != device_) {
      return status(device_, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "command %u (kernel '%s', region %u) failed: it was loaded on device %u and the queue is device %u's [HD-Q-02]", index_,
                    entry->name.c_str(), command.region, entry->device->ordinal, device_->ordinal);
    }
    return status(device_, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "command %u (kernel '%s', region %u) failed: %u bindings%s and %u bytes of constants%s; the kernel takes %u and %u",
                  index_, entry->name.c_str(), command.region, command.binding_count, command.bindings ? "" : " (null)",
                  command.constants_bytes, command.constants ? "" : " (null)", entry->binding_count, entry->constants_bytes);
  }

  Device* device_;
  List* list_;
  uint32_t index_ = 0;
};

}  // namespace

heddle_status_t* lower_commands(Device* device, const heddle_command_t* commands, uint32_t count, List* list) {
  Lowering lowering(device, list);
  for (uint32_t i = 0; i < count; ++i) {
    if (heddle_status_t* bad = lowering.add(commands[i], i)) [[unlikely]]
      return bad;
  }
  return nullptr;
}

}  // namespace heddle::sdk::stream
