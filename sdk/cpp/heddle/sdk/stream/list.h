// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A command list, checked and prepared for streams: addresses instead of buffers, packed arguments. Created by submit, transfers and record;
// issued to a stream or built into a graph.
#ifndef HEDDLE_SDK_STREAM_LIST_H_
#define HEDDLE_SDK_STREAM_LIST_H_

#include "heddle/sdk/stream/code.h"
#include "heddle/sdk/stream/staging.h"

namespace heddle::sdk::stream {

struct Op {
  enum class Kind : uint32_t { kBarrier, kLaunch, kCopy, kFill, kCopy2d, kPeerCopy };
  struct Launch {
    const Entry* entry;
    uint32_t arguments_at;  // byte offset in List::arguments
    uint32_t grid[3];
    uint32_t region;
    uint32_t first_binding;  // numbered across the list
  };
  struct Copy {  // between any two locations: host and devices have one address space
    Address to, from;
    uint64_t length;
  };
  struct Fill {
    Address to;
    uint64_t length, pattern;
    uint32_t pattern_bytes;
  };
  struct PeerCopy {
    Address to, from;
    Context to_context, from_context;
    uint64_t length;
  };
  Kind kind = Kind::kBarrier;
  uint32_t command = 0;  // index in the caller's list
  union {
    Launch launch;
    Copy copy;
    Fill fill;
    Copy2d copy_2d;
    PeerCopy peer_copy;
  };
};

struct List {
  std::vector<Op> ops;
  std::vector<char> arguments;
  std::vector<Staging::Slice> slices;  // returned when the list is done
  uint64_t dispatches = 0, copies = 0;
  uint32_t bindings = 0;

  void clear() noexcept {
    ops.clear();
    arguments.clear();
    slices.clear();
    dispatches = copies = 0;
    bindings = 0;
  }
};

// A launch as a backend takes it.
inline Launch launch_of(const List& list, const Op::Launch& op) noexcept {
  return {*op.entry, op.grid, list.arguments.data() + op.arguments_at};
}

// Checks commands and appends them. Errors name the command by its index. The context must be current.
heddle_status_t* lower_commands(Device* device, const heddle_command_t* commands, uint32_t count, List* list);
// Packs the arguments of one launch, with bindings already checked.
heddle_status_t* pack_arguments(Device* device, const Entry& entry, const heddle_binding_t* bindings, const void* constants, char* out);
// Issues ops in order and stops at the first failing call. *out_failed is its op. With events, one more than ops, the first is recorded before the
// ops and one after each op. The context must be current.
Result issue(Backend& backend, const List& list, const std::vector<Event>& events, Stream stream, size_t* out_failed) noexcept;

}  // namespace heddle::sdk::stream
#endif  // HEDDLE_SDK_STREAM_LIST_H_
