// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks and lowers commands.
#include "cpu/commands.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "heddle/sdk/command_reader.h"

namespace heddle::cpu {

using sdk::status;

namespace {

constexpr uint64_t kCopyBytesPerNs = 8;  // for estimates
// An estimate is that of a full workgroup. The only workgroup of a dispatch has what there is, which is little in the lists that this decides about.
constexpr uint64_t kShareOfOnlyWorkgroup = 4;

// Lowers one list; holds the context of all checks.
class Lowering : public sdk::CommandReader<Lowering, Device, Buffer, Entry, char*> {
 public:
  Lowering(Device* device, Arena* arena, Work* work) noexcept : CommandReader(device), arena_(arena), work_(work) {}

  void barrier() noexcept { behind_barrier_ = true; }

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

  heddle_status_t* launch(const Entry& entry, const heddle_dispatch_command_t& command) noexcept {
    const uint64_t plane = uint64_t{command.grid[0]} * command.grid[1];
    uint64_t workgroups = 0;
    if (command.grid[0] > kMaxGrid || command.grid[1] > kMaxGrid || command.grid[2] > kMaxGrid ||
        __builtin_mul_overflow(plane, uint64_t{command.grid[2]}, &workgroups)) [[unlikely]] {
      return bad(HEDDLE_STATUS_OUT_OF_RANGE,
                 "%s: command %u (kernel '%s', region %u) failed: a grid of %u x %u x %u is more than %u each or 2^64 in total",
                 entry.name.c_str(), command.region, command.grid[0], command.grid[1], command.grid[2], kMaxGrid);
    }
    // Workgroups of unknown cost are assumed to be expensive, so that the list goes to the queue's thread.
    uint64_t cost = 0;
    if (workgroups && (entry.cost_ns == 0 || __builtin_mul_overflow(entry.cost_ns, workgroups, &cost))) cost = kUnknownCost;
    const uint32_t count = command.binding_count;
    Op* op = append(Op::Kind::kDispatch, workgroups == 1 && cost != kUnknownCost ? cost / kShareOfOnlyWorkgroup : cost);
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
        {pointers, lengths, constants, {command.grid[0], command.grid[1], command.grid[2]}, count}, &entry, workgroups, command.region};
    ++work_->dispatches;
    return nullptr;
  }

  heddle_status_t* emit_copy(char* target, const char* source, uint64_t length) noexcept {
    Op* op = append(Op::Kind::kCopy, length / kCopyBytesPerNs);
    if (!op) return exhausted();
    op->copy = {target, source, length};
    ++work_->copies;
    return nullptr;
  }

  heddle_status_t* emit_fill(char* target, uint64_t length, uint64_t pattern, uint32_t pattern_bytes) noexcept {
    Op* op = append(Op::Kind::kFill, length / kCopyBytesPerNs);
    if (!op) return exhausted();
    op->fill = {target, length, pattern, pattern_bytes};
    ++work_->copies;
    return nullptr;
  }

  heddle_status_t* emit_update(char* target, const void* source, uint64_t length) noexcept {
    void* captured = arena_->take(length);
    if (!captured) return exhausted();
    if (length) std::memcpy(captured, source, length);
    return emit_copy(target, static_cast<const char*>(captured), length);
  }

  heddle_status_t* emit_copy_2d(char* target, char* source, const heddle_copy_2d_command_t& command, uint64_t rows) noexcept {
    Op* op = append(Op::Kind::kCopy2d, command.row_bytes / kCopyBytesPerNs * rows);
    if (!op) return exhausted();
    op->copy_2d = {target, source, command.target_stride, command.source_stride, command.row_bytes, rows};
    ++work_->copies;
    return nullptr;
  }

 private:
  heddle_status_t* exhausted() noexcept { return sdk::exhausted_status(device_->host, "cpu: lowering a command list"); }

  Arena* arena_;
  Work* work_;
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
  return Lowering(device, arena, work).emit_copy(static_cast<char*>(target), static_cast<const char*>(source), length);
}

bool lower_io(IoJob* job, Arena* arena, Work* work) noexcept {
  Op* op = Lowering(nullptr, arena, work).append(Op::Kind::kIo, kUnknownCost);
  if (op) op->io = job;
  return op != nullptr;
}

}  // namespace heddle::cpu
