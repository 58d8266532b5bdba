// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks and lowers commands.
#include "cpu/commands.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace heddle::cpu {

using sdk::status;

namespace {

constexpr uint64_t kCopyBytesPerNs = 8;  // for estimates

// Lowers one list; holds the context of all checks.
class Lowering {
 public:
  Lowering(Device* device, Arena* arena, Work* work) noexcept : device_(device), arena_(arena), work_(work) {}

  heddle_status_t* add(const heddle_command_t& command, uint32_t index) noexcept {
    index_ = index;
    switch (command.kind) {
      case HEDDLE_COMMAND_BARRIER:
        behind_barrier_ = true;
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
        return status(device_->host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: command %u failed: its kind %u is unknown", index, command.kind);
    }
  }

  // A new op at the end of the list; NULL when exhausted.
  Op* append(Op::Kind kind, uint64_t cost_ns) noexcept {
    auto* op = static_cast<Op*>(arena_->take(sizeof(Op)));
    if (!op) [[unlikely]]
      return nullptr;
    op->next = nullptr;
    op->kind = kind;
    op->command = index_;
    op->behind_barrier = behind_barrier_;
    behind_barrier_ = false;
    *work_->end = op;
    work_->end = &op->next;
    work_->cost_ns = cost_ns > kUnknownCost - work_->cost_ns ? kUnknownCost : work_->cost_ns + cost_ns;
    return op;
  }

 private:
  heddle_status_t* dispatch(const heddle_dispatch_command_t& command) noexcept {
    Entry* entry = Entry::from(command.entry);
    if (!entry || entry->device != device_ || command.binding_count != entry->binding_count ||
        command.constants_bytes != entry->constants_bytes || (command.constants_bytes && !command.constants) ||
        (command.binding_count && !command.bindings)) [[unlikely]] {
      return bad_dispatch(command);
    }
    const uint64_t plane = uint64_t{command.grid[0]} * command.grid[1];
    uint64_t workgroups = 0;
    if (command.grid[0] > kMaxGrid || command.grid[1] > kMaxGrid || command.grid[2] > kMaxGrid ||
        __builtin_mul_overflow(plane, uint64_t{command.grid[2]}, &workgroups)) [[unlikely]] {
      return status(device_->host, HEDDLE_STATUS_OUT_OF_RANGE,
                    "cpu: command %u (kernel '%s', region %u) failed: a grid of %u x %u x %u is more than %u each or 2^64 in total", index_,
                    entry->name.c_str(), command.region, command.grid[0], command.grid[1], command.grid[2], kMaxGrid);
    }
    // Workgroups of unknown cost are assumed to be expensive, so that the list goes to the queue's thread.
    uint64_t cost = 0;
    if (workgroups && (entry->cost_ns == 0 || __builtin_mul_overflow(entry->cost_ns, workgroups, &cost))) cost = kUnknownCost;
    const uint32_t count = command.binding_count;
    Op* op = append(Op::Kind::kDispatch, cost);
    auto* pointers = static_cast<void**>(arena_->take(uint64_t{count} * 16 + command.constants_bytes));
    if (!op || !pointers) [[unlikely]]
      return exhausted();
    auto* lengths = reinterpret_cast<uint64_t*>(pointers + count);
    auto* constants = reinterpret_cast<int64_t*>(lengths + count);
    for (uint32_t i = 0; i < count; ++i) {
      const heddle_binding_t& binding = command.bindings[i];
      Buffer* buffer = Buffer::from(binding.buffer);
      if (!buffer) [[unlikely]] {
        if (binding.offset != 0 || binding.length != 0) return bad_binding(command, i);
        pointers[i] = nullptr;
        lengths[i] = 0;
        continue;
      }
      if (!buffer->holds(binding.offset, binding.length)) [[unlikely]]
        return bad_binding(command, i);
      pointers[i] = buffer->data + binding.offset;
      lengths[i] = binding.length;
    }
    if (command.constants_bytes) std::memcpy(constants, command.constants, command.constants_bytes);
    op->dispatch = {
        {pointers, lengths, constants, {command.grid[0], command.grid[1], command.grid[2]}, count}, entry, workgroups, command.region};
    ++work_->dispatches;
    return nullptr;
  }

  heddle_status_t* copy(const heddle_copy_command_t& command) noexcept {
    char *source = nullptr, *target = nullptr;
    if (heddle_status_t* bad = range("copying from", command.source, command.source_offset, command.length, &source)) return bad;
    if (heddle_status_t* bad = range("copying to", command.target, command.target_offset, command.length, &target)) return bad;
    if (command.length && source < target + command.length && target < source + command.length) [[unlikely]] {
      return status(device_->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "cpu: command %u (copy of %llu bytes from %llu to %llu) failed: source and target overlap; copy through "
                    "another buffer",
                    index_, number(command.length), number(command.source_offset), number(command.target_offset));
    }
    return add_copy(source, target, command.length);
  }

  heddle_status_t* fill(const heddle_fill_command_t& command) noexcept {
    char* target = nullptr;
    if (heddle_status_t* bad = range("filling", command.target, command.offset, command.length, &target)) return bad;
    const uint32_t bytes = command.pattern_bytes;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) [[unlikely]] {
      return status(device_->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "cpu: command %u (fill of %llu bytes) failed: a pattern of %u bytes is none of 1, 2, 4 and 8", index_,
                    number(command.length), bytes);
    }
    Op* op = append(Op::Kind::kFill, command.length / kCopyBytesPerNs);
    if (!op) return exhausted();
    op->fill = {target, command.length, command.pattern, bytes};
    ++work_->copies;
    return nullptr;
  }

  heddle_status_t* update(const heddle_update_command_t& command) noexcept {
    char* target = nullptr;
    if (heddle_status_t* bad = range("updating", command.target, command.offset, command.length, &target)) return bad;
    if (command.length && !command.source) [[unlikely]] {
      return status(device_->host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: command %u (update of %llu bytes) failed: no source", index_,
                    number(command.length));
    }
    void* captured = arena_->take(command.length);
    if (!captured) return exhausted();
    if (command.length) std::memcpy(captured, command.source, command.length);
    return add_copy(static_cast<const char*>(captured), target, command.length);
  }

  heddle_status_t* copy_2d(const heddle_copy_2d_command_t& command) noexcept {
    if (!command.source || !command.target) {
      return status(device_->host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: command %u (2-D copy) failed: no source or target", index_);
    }
    const uint64_t rows = command.row_bytes ? command.rows : 0;
    uint64_t source_span = 0, target_span = 0;
    if (rows && (__builtin_mul_overflow(rows - 1, command.source_stride, &source_span) ||
                 __builtin_add_overflow(source_span, command.row_bytes, &source_span) ||
                 __builtin_mul_overflow(rows - 1, command.target_stride, &target_span) ||
                 __builtin_add_overflow(target_span, command.row_bytes, &target_span))) {
      return status(device_->host, HEDDLE_STATUS_OUT_OF_RANGE,
                    "cpu: command %u (2-D copy) failed: %llu rows at strides of %llu and %llu bytes are more than 2^64", index_,
                    number(rows), number(command.source_stride), number(command.target_stride));
    }
    char *source = nullptr, *target = nullptr;
    if (heddle_status_t* bad = range("copying rows from", command.source->buffer, command.source->offset, source_span, &source)) return bad;
    if (heddle_status_t* bad = range("copying rows to", command.target->buffer, command.target->offset, target_span, &target)) return bad;
    if (rows > 1 && command.target_stride < command.row_bytes) {
      return status(device_->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "cpu: command %u (2-D copy) failed: target rows of %llu bytes overlap at a stride of %llu", index_,
                    number(command.row_bytes), number(command.target_stride));
    }
    // Interleaved rows of one buffer could be disjoint; to stay simple, the rule applies to the whole spans.
    if (rows && source < target + target_span && target < source + source_span) {
      return status(device_->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "cpu: command %u (2-D copy) failed: source and target overlap; copy through another buffer", index_);
    }
    Op* op = append(Op::Kind::kCopy2d, command.row_bytes / kCopyBytesPerNs * rows);
    if (!op) return exhausted();
    op->copy_2d = {target, source, command.target_stride, command.source_stride, command.row_bytes, rows};
    ++work_->copies;
    return nullptr;
  }

 public:
  heddle_status_t* add_copy(const char* source, char* target, uint64_t length) noexcept {
    Op* op = append(Op::Kind::kCopy, length / kCopyBytesPerNs);
    if (!op) return exhausted();
    op->copy = {target, source, length};
    ++work_->copies;
    return nullptr;
  }

 private:
  heddle_status_t* range(const char* what, heddle_buffer_t* handle, uint64_t offset, uint64_t length, char** out) noexcept {
    Buffer* buffer = Buffer::from(handle);
    if (!buffer) {
      return status(device_->host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: command %u (%s %llu bytes) failed: no buffer", index_, what,
                    number(length));
    }
    if (!buffer->holds(offset, length)) {
      return status(device_->host, HEDDLE_STATUS_OUT_OF_RANGE, "cpu: command %u (%s %llu bytes at %llu) failed: the buffer has %llu bytes",
                    index_, what, number(length), number(offset), number(buffer->size));
    }
    *out = buffer->data + offset;
    return nullptr;
  }

  heddle_status_t* bad_dispatch(const heddle_dispatch_command_t& command) noexcept {
    const Entry* entry = Entry::from(command.entry);
    if (!entry) {
      return status(device_->host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: command %u (dispatch, region %u) failed: no entry", index_,
                    command.region);
    }
    if (entry->device != device_) {
      return status(device_->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "cpu: command %u (kernel '%s', region %u) failed: it was loaded on device %u and the queue is device %u's "
                    "[HD-Q-02]",
                    index_, entry->name.c_str(), command.region, entry->device->ordinal, device_->ordinal);
    }
    return status(device_->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "cpu: command %u (kernel '%s', region %u) failed: %u bindings%s and %u bytes of constants%s; the kernel takes %u "
                  "and %u",
                  index_, entry->name.c_str(), command.region, command.binding_count, command.bindings ? "" : " (null)",
                  command.constants_bytes, command.constants ? "" : " (null)", entry->binding_count, entry->constants_bytes);
  }

  heddle_status_t* bad_binding(const heddle_dispatch_command_t& command, uint32_t index) noexcept {
    const Entry* entry = Entry::from(command.entry);
    const heddle_binding_t& binding = command.bindings[index];
    const Buffer* buffer = Buffer::from(binding.buffer);
    return status(device_->host, HEDDLE_STATUS_OUT_OF_RANGE,
                  "cpu: command %u (kernel '%s', region %u) failed: binding %u (%llu bytes at %llu) %s%llu bytes", index_,
                  entry->name.c_str(), command.region, index, number(binding.length), number(binding.offset),
                  buffer ? "ends after the buffer's " : "has no buffer, so ", number(buffer ? buffer->size : 0));
  }

  heddle_status_t* exhausted() noexcept { return sdk::exhausted_status(device_->host, "cpu: lowering a command list"); }

  Device* device_;
  Arena* arena_;
  Work* work_;
  uint32_t index_ = 0;
  bool behind_barrier_ = false;
};

}  // namespace

Arena::Block* Arena::make_block(uint64_t bytes) noexcept {
  if (bytes > UINT64_MAX - sizeof(Block)) return nullptr;
  auto* block = static_cast<Block*>(std::malloc(sizeof(Block) + bytes));
  if (block) *block = {nullptr, bytes, 0};
  return block;
}

void Arena::free_blocks(Block* block) noexcept {
  while (block) {
    Block* next = block->next;
    std::free(block);
    block = next;
  }
}

bool Arena::grow(uint64_t bytes) noexcept {
  Block* block = make_block(std::max(bytes, kBlockBytes));
  if (!block) return false;
  if (first_) {  // the blocks after the first, which the queue keeps
    block->next = first_->next;
    first_->next = block;
  } else {
    first_ = block;
  }
  at_ = start(block);
  end_ = at_ + block->bytes;
  return true;
}

heddle_status_t* lower_commands(Device* device, const heddle_command_t* commands, uint32_t count, Arena* arena, Work* work) noexcept {
  Lowering lowering(device, arena, work);
  for (uint32_t i = 0; i < count; ++i) {
    if (heddle_status_t* bad = lowering.add(commands[i], i)) [[unlikely]]
      return bad;
  }
  return nullptr;
}

heddle_status_t* lower_copy(Device* device, const void* source, void* target, uint64_t length, Arena* arena, Work* work) noexcept {
  return Lowering(device, arena, work).add_copy(static_cast<const char*>(source), static_cast<char*>(target), length);
}

bool lower_io(IoJob* job, Arena* arena, Work* work) noexcept {
  Op* op = Lowering(nullptr, arena, work).append(Op::Kind::kIo, kUnknownCost);
  if (op) op->io = job;
  return op != nullptr;
}

}  // namespace heddle::cpu
