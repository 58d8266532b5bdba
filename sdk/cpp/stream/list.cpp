// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks command lists and packs arguments: the part of the hot path that does not call the vendor.
#include "heddle/sdk/stream/list.h"

#include "heddle/sdk/command_reader.h"

namespace heddle::sdk::stream {

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

class Lowering : public CommandReader<Lowering, Device, Buffer, Entry, Address> {
 public:
  Lowering(Device* device, List* list) noexcept : CommandReader(device), list_(list) {}

  void barrier() { append(Op::Kind::kBarrier); }

  heddle_status_t* launch(const Entry& entry, const heddle_dispatch_command_t& command) {
    const uint32_t first = list_->bindings;
    list_->bindings += command.binding_count;
    for (uint32_t i = 0; i < command.binding_count; ++i) {
      const heddle_binding_t& binding = command.bindings[i];
      const Buffer* buffer = Buffer::from(binding.buffer);
      if (buffer ? !buffer->holds(binding.offset, binding.length) : binding.offset != 0 || binding.length != 0) [[unlikely]]
        return bad_binding(command, i);
    }
    const uint32_t(&most)[3] = entry.most_workgroups;
    for (int i = 0; i < 3; ++i) {
      if (command.grid[i] > most[i]) [[unlikely]] {
        return bad(HEDDLE_STATUS_OUT_OF_RANGE,
                   "%s: command %u (kernel '%s', region %u) failed: a grid of %u x %u x %u is more than the %u x %u x %u workgroups of "
                   "%u x %u x %u threads that this device can run",
                   entry.name.c_str(), command.region, command.grid[0], command.grid[1], command.grid[2], most[0], most[1], most[2],
                   entry.block[0], entry.block[1], entry.block[2]);
      }
    }
    ++list_->dispatches;
    if (command.grid[0] == 0 || command.grid[1] == 0 || command.grid[2] == 0)
      return nullptr;  // nothing to run, and the stream keeps the order
    const size_t at = (list_->arguments.size() + 63) & ~size_t{63};
    if (at + entry.arguments_bytes > UINT32_MAX) [[unlikely]] {
      return bad(
          HEDDLE_STATUS_RESOURCE_EXHAUSTED,
          "%s: command %u (kernel '%s', region %u) failed: the arguments of the list's kernels are more than 4 GiB; submit it in parts",
          entry.name.c_str(), command.region);
    }
    list_->arguments.resize(at + entry.arguments_bytes);
    if (heddle_status_t* bad = pack_arguments(device_, entry, command.bindings, command.constants, list_->arguments.data() + at))
        [[unlikely]] {
      return bad;
    }
    append(Op::Kind::kLaunch).launch = {
        &entry, static_cast<uint32_t>(at), {command.grid[0], command.grid[1], command.grid[2]}, command.region, first};
    return nullptr;
  }

  heddle_status_t* emit_copy(Address to, Address from, uint64_t length) {
    ++list_->copies;
    if (length) append(Op::Kind::kCopy).copy = {to, from, length};
    return nullptr;
  }

  heddle_status_t* emit_fill(Address to, uint64_t length, uint64_t pattern, uint32_t pattern_bytes) {
    ++list_->copies;
    if (length) append(Op::Kind::kFill).fill = {to, length, pattern, pattern_bytes};
    return nullptr;
  }

  heddle_status_t* emit_update(Address to, const void* source, uint64_t length) {
    Staging::Slice slice;
    if (length) {
      if (heddle_status_t* bad = device_->staging->take(length, &slice)) return bad;
      list_->slices.push_back(slice);
      std::memcpy(slice.data, source, length);
    }
    return emit_copy(to, reinterpret_cast<Address>(slice.data), length);
  }

  heddle_status_t* emit_copy_2d(Address to, Address from, const heddle_copy_2d_command_t& command, uint64_t rows) {
    ++list_->copies;
    if (rows) append(Op::Kind::kCopy2d).copy_2d = {to, from, command.target_stride, command.source_stride, command.row_bytes, rows};
    return nullptr;
  }

 private:
  Op& append(Op::Kind kind) {
    Op& op = list_->ops.emplace_back();
    op.kind = kind;
    op.command = index_;
    return op;
  }

  List* list_;
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
