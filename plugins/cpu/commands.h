// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checked, lowered command lists and their execution. queue.cpp lowers every submission into one, which then runs in the caller's thread or in the
// queue's; this code only stores waits and signals.
#ifndef HEDDLE_CPU_COMMANDS_H_
#define HEDDLE_CPU_COMMANDS_H_

#include <atomic>
#include <cstddef>
#include <new>

#include "cpu/code.h"
#include "cpu/memory.h"

namespace heddle::cpu {

// Memory of one lowered list: a block that a queue keeps for the next list, and more blocks if needed.
class Arena {
 public:
  struct Block {
    Block* next;
    uint64_t bytes;  // usable, after this header
    uint64_t padding_;
  };
  static constexpr uint64_t kBlockBytes = 32 << 10;

  explicit Arena(Block* first) noexcept : first_(first), at_(first ? start(first) : nullptr), end_(first ? at_ + first->bytes : nullptr) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  static Block* make_block(uint64_t bytes) noexcept;
  static void free_blocks(Block* block) noexcept;

  // Uninitialized memory, aligned to 8; NULL when exhausted.
  void* take(uint64_t bytes) noexcept {
    bytes = (bytes + 7) & ~uint64_t{7};
    if (static_cast<uint64_t>(end_ - at_) < bytes) [[unlikely]] {
      if (!grow(bytes)) return nullptr;
    }
    void* taken = at_;
    at_ += bytes;
    return taken;
  }
  // Transfers the first block and all others to the caller.
  Block* release() noexcept {
    Block* blocks = first_;
    first_ = nullptr;
    return blocks;
  }
  ~Arena() { free_blocks(first_); }

 private:
  static char* start(Block* block) noexcept { return reinterpret_cast<char*>(block + 1); }
  bool grow(uint64_t bytes) noexcept;

  Block* first_;
  char* at_;
  char* end_;
};

struct IoJob;  // param_io.cpp

// One command, ready to run.
struct Op {
  enum class Kind : uint32_t { kDispatch, kCopy, kFill, kCopy2d, kIo };
  struct Dispatch {
    heddle_x86_64_dispatch_t record;
    const Entry* entry;
    uint64_t workgroups;
    uint32_t region;
  };
  struct Copy {
    char* target;
    const char* source;
    uint64_t length;
  };
  struct Fill {
    char* target;
    uint64_t length;
    uint64_t pattern;
    uint32_t pattern_bytes;
  };
  struct Copy2d {
    char* target;
    const char* source;
    uint64_t target_stride, source_stride, row_bytes, rows;
  };

  Op* next;
  Kind kind;
  bool behind_barrier;
  uint32_t command;  // index in the caller's list
  union {
    Dispatch dispatch;
    Copy copy;
    Fill fill;
    Copy2d copy_2d;
    IoJob* io;
  };
};

// A lowered list with its waits and signals; lives in its own arena.
struct Work {
  Work* next = nullptr;
  Op* first = nullptr;
  Op** end = &first;
  heddle_point_t* waits = nullptr;
  heddle_point_t* signals = nullptr;
  uint32_t wait_count = 0, signal_count = 0;
  uint64_t cost_ns = 0;  // estimated total, if single workgroups have little to do; UINT64_MAX: unknown
  uint64_t dispatches = 0, copies = 0;
  Arena::Block* blocks = nullptr;
  heddle_command_time_t* times = nullptr;  // per command, if the caller requested them
};

constexpr uint64_t kUnknownCost = UINT64_MAX;

// Checks commands and appends them to the work. Errors name the command by its index.
heddle_status_t* lower_commands(Device* device, const heddle_command_t* commands, uint32_t count, Arena* arena, Work* work) noexcept;
// The same for one host-to-buffer, buffer-to-host or buffer-to-buffer copy whose bounds are already checked.
heddle_status_t* lower_copy(Device* device, const void* source, void* target, uint64_t length, Arena* arena, Work* work) noexcept;
// Appends a job; it always goes to the queue's thread. False when memory is exhausted.
bool lower_io(IoJob* job, Arena* arena, Work* work) noexcept;

// Runs everything in this thread, in order. The result is NULL or the failure of a kernel, owned by the caller.
heddle_status_t* run_inline(Device* device, const Work& work) noexcept;
// The same, spread over the device's workers. own_core as for Workers::Team.
heddle_status_t* run_on_workers(Device* device, const Work& work, bool* own_core) noexcept;

// param_io.cpp: runs and destroys a job.
heddle_status_t* run_io(Device* device, Workers::Team* team, IoJob* job) noexcept;
void free_io(Device* device, IoJob* job) noexcept;

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_COMMANDS_H_
