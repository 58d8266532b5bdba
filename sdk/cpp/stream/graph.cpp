// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds and patches graphs, or keeps lists for a vendor without graphs. Commands between two barriers have no edges between them; each waits for all
// commands before its barrier.
// The data for patching a launch or a copy is stored with its node. A read-only binding that many nodes share is not patched in each: one copy at
// the graph's root copies its bytes to memory that the recording owns.
#include "stream/graph.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

namespace heddle::sdk::stream {

namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr Address kUnknown = ~Address{0};
constexpr size_t kDirectEdges = 8;  // larger numbers of nodes before a barrier are joined by an empty node
// Such a copy lengthens a replay by 0.9 us, or 1.2 us for the largest; patching a node costs 0.15 us (H200).
constexpr size_t kNodesWorthCopying = 12;
constexpr uint64_t kMostCopied = uint64_t{256} << 10;

// The location of a dynamic binding. A command that does nothing has no op.
struct Dynamic {
  uint32_t op;
  uint32_t command;
  uint32_t index;  // index of the binding in the command
  uint64_t length;
  bool read_only;
  uint32_t shared = kNone;  // in Recording::shared
  // Of a launch: the address that its node has. Buffers are not compared, since a new one may be where one that was freed was.
  Address address = kUnknown;
};

// Read-only bindings of launches that were equal when recorded, and are copied into one place for all of them.
struct Shared {
  Buffer place;            // has the size of the bindings
  heddle_binding_t given;  // source of the copy
  Address given_address = kUnknown;
  std::vector<uint32_t> members;
  Node node = nullptr;
  bool is_stale = false;
};

// The bindings and constants of a launch with dynamic bindings.
struct Arguments {
  std::vector<heddle_binding_t> bindings;
  std::vector<char> constants;
};

}  // namespace

struct Recording {
  const heddle_driver_api_t* api = nullptr;  // HD-H-01: the first word
  Queue* queue = nullptr;
  Device* owner = nullptr;
  List list;
  std::vector<Node> nodes;           // per op
  std::vector<Arguments> arguments;  // per op, empty if nothing is dynamic
  std::vector<Dynamic> dynamic;
  std::deque<Shared> shared;   // a deque, because nodes point into its elements
  std::vector<char> is_stale;  // per op: whether its node must be patched
  std::vector<uint32_t> stale;
  Graph graph = nullptr;
  GraphExec executable = nullptr;  // NULL: of a vendor without graphs; each replay issues the list

  static Recording* from(heddle_recording_t* handle) noexcept { return reinterpret_cast<Recording*>(handle); }
  heddle_recording_t* handle() noexcept { return reinterpret_cast<heddle_recording_t*>(this); }
  Device* device() const noexcept { return owner; }
  bool is_any_stale() const noexcept {
    return !stale.empty() || std::any_of(shared.begin(), shared.end(), [](const Shared& group) { return group.is_stale; });
  }

  ~Recording() {
    ContextScope scope(device());
    if (executable) device()->backend.destroy_graph_exec(executable);
    if (graph) device()->backend.destroy_graph(graph);
    for (const Staging::Slice& slice : list.slices) device()->staging->give(slice);
    for (Shared& group : shared) give_back(device(), &group.place);
  }
};

namespace {

Address address_of(const heddle_binding_t& binding) {
  const Buffer* buffer = Buffer::from(binding.buffer);
  return buffer && buffer->address ? buffer->address + binding.offset : 0;
}

Copy2d copy_node(const Shared& group) {
  return {group.place.address, address_of(group.given), group.place.size, group.place.size, group.place.size, 1};
}

Copy2d copy_node(const Op& op) {
  if (op.kind == Op::Kind::kCopy2d) {
    const Copy2d& copy = op.copy_2d;  // the strides of one row say nothing
    return copy.rows == 1 ? Copy2d{copy.to, copy.from, copy.row_bytes, copy.row_bytes, copy.row_bytes, 1} : copy;
  }
  return {op.copy.to, op.copy.from, op.copy.length, op.copy.length, op.copy.length, 1};
}

Fill fill_node(const Op::Fill& op) {
  const auto value = static_cast<uint32_t>(op.pattern) & (UINT32_MAX >> (32 - 8 * op.pattern_bytes));
  return {op.to, op.length / op.pattern_bytes, op.pattern_bytes, value};
}

// Why a list with this op cannot become a graph; NULL if it can.
const char* obstacle(const Op& op, uint64_t max_pitch) {
  switch (op.kind) {
    case Op::Kind::kFill:
      if (op.fill.pattern_bytes > 4 || op.fill.length % op.fill.pattern_bytes != 0 || op.fill.to % op.fill.pattern_bytes != 0) {
        return "a fill whose pattern is of 8 bytes, or does not fit its target";
      }
      return nullptr;
    case Op::Kind::kCopy2d:
      if (op.copy_2d.rows == 1) return nullptr;
      if (op.copy_2d.from_stride < op.copy_2d.row_bytes) return "a 2-D copy whose rows overlap";
      return std::max(op.copy_2d.from_stride, op.copy_2d.to_stride) > max_pitch ? "a 2-D copy whose rows are too far apart" : nullptr;
    case Op::Kind::kPeerCopy:
      return "a copy between devices";
    default:
      return nullptr;
  }
}

class Builder {
 public:
  explicit Builder(Recording* recording) : recording_(recording), backend_(recording->device()->backend) {}

  Result build() {
    if (Result bad = backend_.create_graph(&recording_->graph)) return bad;
    recording_->nodes.resize(recording_->list.ops.size());
    for (Shared& group : recording_->shared) {
      if (Result bad = add_copy(copy_node(group), &group.node)) return bad;
    }
    if (Result bad = barrier()) return bad;
    for (size_t i = 0; i < recording_->list.ops.size(); ++i) {
      const Op& op = recording_->list.ops[i];
      Result result = op.kind == Op::Kind::kBarrier ? barrier() : add(op, &recording_->nodes[i]);
      if (result != kSuccess) return result;
    }
    return backend_.instantiate(recording_->graph, &recording_->executable);
  }

 private:
  // Later nodes wait for those of the current group.
  Result barrier() {
    if (group_.empty()) return kSuccess;
    early_ = group_.size() == 1 && group_starts_early_ && backend_.capabilities().early_edges;
    if (group_.size() > kDirectEdges) {
      Node join = nullptr;
      if (Result bad = backend_.add_empty(recording_->graph, group_.data(), group_.size(), &join)) return bad;
      group_.assign(1, join);
    }
    before_.swap(group_);
    group_.clear();
    group_starts_early_ = true;
    return kSuccess;
  }

  Result add(const Op& op, Node* out) {
    Result result = kSuccess;
    if (op.kind == Op::Kind::kLaunch) {
      const Launch launch = launch_of(recording_->list, op.launch);
      const bool early = early_ && op.launch.entry->starts_early;
      result = backend_.add_kernel(recording_->graph, before_.data(), early ? 0 : before_.size(), launch, out);
      // An edge between two kernels of which the second waits by itself.
      if (result == kSuccess && early) result = backend_.add_early_edge(recording_->graph, before_.front(), *out);
      group_starts_early_ &= op.launch.entry->starts_early;
    } else if (op.kind == Op::Kind::kFill) {
      result = backend_.add_fill(recording_->graph, before_.data(), before_.size(), fill_node(op.fill), out);
      group_starts_early_ = false;
    } else {
      return add_copy(copy_node(op), out);
    }
    if (result == kSuccess) group_.push_back(*out);
    return result;
  }

  Result add_copy(const Copy2d& copy, Node* out) {
    group_starts_early_ = false;
    if (Result bad = backend_.add_copy(recording_->graph, before_.data(), before_.size(), copy, out)) return bad;
    group_.push_back(*out);
    return kSuccess;
  }

  Recording* recording_;
  Backend& backend_;
  std::vector<Node> before_, group_;  // group_: the nodes since the last barrier
  bool group_starts_early_ = true;    // the group has only kernels that let the next one start early
  bool early_ = false;                // before_ is a single such kernel
};

uint32_t binding_count(const heddle_command_t& command) {
  switch (command.kind) {
    case HEDDLE_COMMAND_DISPATCH:
      return command.as.dispatch.binding_count;
    case HEDDLE_COMMAND_COPY:
    case HEDDLE_COMMAND_COPY_2D:
      return 2;
    case HEDDLE_COMMAND_FILL:
    case HEDDLE_COMMAND_UPDATE:
      return 1;
    default:
      return 0;
  }
}

uint64_t length_of(const heddle_command_t& command, uint32_t index) {
  switch (command.kind) {
    case HEDDLE_COMMAND_DISPATCH:
      return command.as.dispatch.bindings[index].length;
    case HEDDLE_COMMAND_COPY:
      return command.as.copy.length;
    case HEDDLE_COMMAND_FILL:
      return command.as.fill.length;
    case HEDDLE_COMMAND_UPDATE:
      return command.as.update.length;
    default: {
      const heddle_copy_2d_command_t& copy = command.as.copy_2d;
      return index == 0 ? copy.source->length : copy.target->length;
    }
  }
}

// Records which bindings are dynamic, and keeps the data for patching their commands.
void note_dynamic(Recording* recording, const heddle_command_t* commands, uint32_t count, const uint8_t* dynamic) {
  std::vector<uint32_t> op_of(count, kNone);
  for (size_t i = 0; i < recording->list.ops.size(); ++i) op_of[recording->list.ops[i].command] = static_cast<uint32_t>(i);
  recording->arguments.resize(recording->list.ops.size());
  recording->is_stale.resize(recording->list.ops.size(), 0);
  for (uint32_t c = 0; c < count; ++c) {
    const heddle_command_t& command = commands[c];
    const uint32_t bindings = binding_count(command), op = op_of[c];
    for (uint32_t i = 0; i < bindings; ++i) {
      if (!(dynamic[i] & HEDDLE_BINDING_DYNAMIC)) continue;
      // An update is a copy from staging memory; its only binding is the target.
      recording->dynamic.push_back(
          {op, c, command.kind == HEDDLE_COMMAND_UPDATE ? 1 : i, length_of(command, i), (dynamic[i] & HEDDLE_BINDING_READ_ONLY) != 0});
      if (op == kNone || command.kind != HEDDLE_COMMAND_DISPATCH) continue;
      const heddle_dispatch_command_t& dispatch = command.as.dispatch;
      recording->dynamic.back().address = address_of(dispatch.bindings[i]);
      if (!recording->arguments[op].bindings.empty()) continue;
      const char* constants = static_cast<const char*>(dispatch.constants);
      recording->arguments[op].bindings.assign(dispatch.bindings, dispatch.bindings + dispatch.binding_count);
      if (dispatch.constants_bytes) recording->arguments[op].constants.assign(constants, constants + dispatch.constants_bytes);
    }
    dynamic += bindings;
  }
}

heddle_status_t* repack(Recording* recording, uint32_t op) {
  const Op::Launch& launch = recording->list.ops[op].launch;
  const Arguments& arguments = recording->arguments[op];
  return pack_arguments(recording->owner, *launch.entry, arguments.bindings.data(), arguments.constants.data(),
                        recording->list.arguments.data() + launch.arguments_at);
}

// Finds the bindings that are copied into place, allocates a place for each and passes its address to their launches. Lack of memory is not a
// failure: then the nodes are patched.
heddle_status_t* share(Recording* recording) {
  using Range = std::tuple<heddle_buffer_t*, uint64_t, uint64_t>;
  std::map<Range, std::vector<uint32_t>> groups;
  for (uint32_t i = 0; i < recording->dynamic.size(); ++i) {
    const Dynamic& place = recording->dynamic[i];
    if (!place.read_only || place.op == kNone || recording->list.ops[place.op].kind != Op::Kind::kLaunch) continue;
    const heddle_binding_t& binding = recording->arguments[place.op].bindings[place.index];
    if (binding.length != 0 && binding.length <= kMostCopied) {
      groups[{binding.buffer, binding.offset, binding.length}].push_back(i);
    }
  }
  for (auto& [range, members] : groups) {
    if (members.size() < kNodesWorthCopying) continue;
    Shared& group = recording->shared.emplace_back();
    group.place.size = std::get<2>(range);
    if (allocate(recording->owner, &group.place) != kSuccess) {
      recording->shared.pop_back();
      break;
    }
    group.given = {std::get<0>(range), std::get<1>(range), std::get<2>(range)};
    group.given_address = address_of(group.given);
    group.members = std::move(members);
    for (uint32_t i : group.members) {
      Dynamic& place = recording->dynamic[i];
      place.shared = static_cast<uint32_t>(recording->shared.size() - 1);
      place.address = kUnknown;
      recording->arguments[place.op].bindings[place.index] = {group.place.handle(), 0, place.length};
    }
  }
  for (uint32_t op = 0; op < recording->arguments.size() && !recording->shared.empty(); ++op) {
    if (recording->arguments[op].bindings.empty()) continue;
    if (heddle_status_t* bad = repack(recording, op)) return bad;
  }
  return nullptr;
}

void mark_stale(Recording* recording, uint32_t op) {
  if (recording->is_stale[op]) return;
  recording->is_stale[op] = 1;
  recording->stale.push_back(op);
}

// Repeats the overlap check of submit for copies whose bindings have changed.
heddle_status_t* check_copies(const Recording* recording) {
  for (uint32_t i : recording->stale) {
    const Op& op = recording->list.ops[i];
    if (op.kind != Op::Kind::kCopy) continue;
    if (op.copy.from < op.copy.to + op.copy.length && op.copy.to < op.copy.from + op.copy.length) {
      return status(recording->device(), HEDDLE_STATUS_INVALID_ARGUMENT,
                    "replaying failed: source and target of command %u (a copy) overlap; copy through another buffer", op.command);
    }
  }
  return nullptr;
}

void set_launch(Recording* recording, Dynamic& place, const heddle_binding_t& binding) {
  const Address address = address_of(binding);
  if (place.address != address) mark_stale(recording, place.op);
  place.address = address;
  recording->arguments[place.op].bindings[place.index] = binding;
}

// A replay passed different bytes for the members: from now on their nodes are patched. The first `set` dynamic bindings already have this replay's
// values.
heddle_status_t* part(Recording* recording, Shared* group, uint32_t set) {
  for (uint32_t i : group->members) {
    recording->dynamic[i].shared = kNone;
    if (i < set) set_launch(recording, recording->dynamic[i], group->given);
  }
  group->members.clear();
  group->is_stale = false;
  ContextScope scope(recording->owner);
  const Result result = recording->owner->backend.disable_node(recording->executable, group->node);
  return result == kSuccess ? nullptr : recording->owner->failed(result, "taking a copy out of a recording");
}

heddle_status_t* set_shared(Recording* recording, Shared* group, uint32_t index, const heddle_binding_t& binding) {
  const Address address = address_of(binding);
  if (index == group->members.front()) {
    group->is_stale |= group->given_address != address;
    group->given_address = address;
    group->given = binding;
    return nullptr;
  }
  if (group->given_address == address) return nullptr;
  if (heddle_status_t* bad = part(recording, group, index)) return bad;
  set_launch(recording, recording->dynamic[index], binding);
  return nullptr;
}

// Sets one binding.
heddle_status_t* set_binding(Recording* recording, uint32_t index, const heddle_binding_t& binding) {
  Dynamic& place = recording->dynamic[index];
  Device* device = recording->device();
  const Buffer* buffer = Buffer::from(binding.buffer);
  if (binding.length != place.length) {
    return status(device, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "replaying failed: dynamic binding %u (command %u) has %llu bytes, %llu were recorded [HD-G-01]", index, place.command,
                  number(binding.length), number(place.length));
  }
  const bool is_launch = place.op != kNone && recording->list.ops[place.op].kind == Op::Kind::kLaunch;
  const bool is_nothing = is_launch || place.op == kNone;  // no buffer is allowed
  if (buffer ? !buffer->holds(binding.offset, binding.length) : binding.length != 0 || binding.offset != 0 || !is_nothing) {
    return status(device, HEDDLE_STATUS_OUT_OF_RANGE,
                  "replaying failed: dynamic binding %u (command %u%s%s, %llu bytes at %llu) %s%llu bytes", index, place.command,
                  is_launch ? ", kernel " : "", is_launch ? recording->list.ops[place.op].launch.entry->name.c_str() : "",
                  number(binding.length), number(binding.offset), buffer ? "ends after the buffer's " : "has no buffer, so ",
                  number(buffer ? buffer->size : 0));
  }
  if (place.op == kNone) return nullptr;
  if (place.shared != kNone) return set_shared(recording, &recording->shared[place.shared], index, binding);
  Op& op = recording->list.ops[place.op];
  const Address address = address_of(binding);
  Address* at = nullptr;
  switch (op.kind) {
    case Op::Kind::kLaunch:
      set_launch(recording, place, binding);
      return nullptr;
    case Op::Kind::kCopy:
      at = place.index == 0 ? &op.copy.from : &op.copy.to;
      break;
    default:
      if (recording->executable && address % op.fill.pattern_bytes != 0) {
        return status(
            device, HEDDLE_STATUS_UNIMPLEMENTED,
            "replaying failed: dynamic binding %u (command %u, a fill) is at %llu in its buffer, and its pattern of %u bytes needs an "
            "aligned address; submit the list [HD-G-01]",
            index, place.command, number(binding.offset), op.fill.pattern_bytes);
      }
      at = &op.fill.to;
      break;
  }
  if (*at != address) mark_stale(recording, place.op);
  *at = address;
  return nullptr;
}

// Packs what has changed into the list that each replay issues.
heddle_status_t* patch_list(Recording* recording) {
  for (uint32_t i : recording->stale) {
    recording->is_stale[i] = 0;
    if (recording->list.ops[i].kind != Op::Kind::kLaunch) continue;
    if (heddle_status_t* bad = repack(recording, i)) return bad;
  }
  recording->stale.clear();
  return nullptr;
}

heddle_status_t* patch(Recording* recording) {
  if (!recording->executable) return patch_list(recording);
  Device* device = recording->device();
  for (Shared& group : recording->shared) {
    if (!group.is_stale) continue;
    if (Result bad = device->backend.patch_copy(recording->executable, group.node, copy_node(group))) {
      return device->failed(bad, "patching a recorded copy");
    }
    group.is_stale = false;
  }
  for (uint32_t i : recording->stale) {
    const Op& op = recording->list.ops[i];
    recording->is_stale[i] = 0;
    Result result = kSuccess;
    if (op.kind == Op::Kind::kLaunch) {
      if (heddle_status_t* bad = repack(recording, i)) return bad;
      result = device->backend.patch_kernel(recording->executable, recording->nodes[i], launch_of(recording->list, op.launch));
    } else if (op.kind == Op::Kind::kFill) {
      result = device->backend.patch_fill(recording->executable, recording->nodes[i], fill_node(op.fill));
    } else {
      result = device->backend.patch_copy(recording->executable, recording->nodes[i], copy_node(op));
    }
    if (result != kSuccess) return device->failed(result, "patching a recorded command");
  }
  recording->stale.clear();
  return nullptr;
}

}  // namespace

heddle_status_t* record(heddle_queue_t* handle, const heddle_command_t* commands, uint32_t count, const uint8_t* dynamic,
                        heddle_recording_t** out) noexcept {
  *out = nullptr;
  Queue* queue = Queue::from(handle);
  Device* device = queue->device();
  return guarded(device, "recording", [&]() -> heddle_status_t* {
    if (heddle_status_t* lost = device->loss()) return lost;
    if (!device->instance->options.graphs) {
      return status(device, HEDDLE_STATUS_UNIMPLEMENTED, "recording %u commands failed: the device does not record; submit the list",
                    count);
    }
    ContextScope scope(device);
    struct Holder {
      const heddle_host_t* host;
      Recording* recording;
      ~Holder() { sdk::unmake(host, recording); }
    } holder{device->host, sdk::make<Recording>(device->host)};
    Recording* recording = holder.recording;
    recording->api = device->api;
    recording->queue = queue;
    recording->owner = device;
    if (heddle_status_t* bad = lower_commands(device, commands, count, &recording->list)) return bad;
    const bool is_graph = device->instance->has_graphs;
    for (const Op& op : recording->list.ops) {
      if (!is_graph) break;
      if (const char* why = obstacle(op, device->backend.capabilities().max_pitch)) {
        return status(device, HEDDLE_STATUS_UNIMPLEMENTED, "recording %u commands failed: command %u is %s; submit the list", count,
                      op.command, why);
      }
    }
    note_dynamic(recording, commands, count, dynamic);
    for (const Dynamic& place : recording->dynamic) {  // only copies of one row can be patched
      if (place.op == kNone || recording->list.ops[place.op].kind != Op::Kind::kCopy2d) continue;
      return status(device, HEDDLE_STATUS_UNIMPLEMENTED,
                    "recording %u commands failed: command %u is a 2-D copy whose bindings change; submit the list", count, place.command);
    }
    if (is_graph) {
      if (heddle_status_t* bad = share(recording)) return bad;
      const Result result = Builder(recording).build();
      if (result != kSuccess) return device->failed(result, "building a graph");
    }
    *out = recording->handle();
    holder.recording = nullptr;
    device->live.recordings.fetch_add(1);
    return nullptr;
  });
}

heddle_status_t* replay(heddle_recording_t* handle, const heddle_binding_t* bindings, uint32_t count, const heddle_sync_t* in) noexcept {
  Recording* recording = Recording::from(handle);
  Device* device = recording->device();
  return guarded(device, "replaying", [&]() -> heddle_status_t* {
    heddle_sync_t sync;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &sync, &bad_byte)) return sdk::tail_status(device->host, "heddle_sync_t", bad_byte);
    if (device->is_lost()) [[unlikely]]
      return device->loss();
    if (count != recording->dynamic.size()) {
      return status(device, HEDDLE_STATUS_INVALID_ARGUMENT, "replaying failed: %u bindings, and %zu are dynamic", count,
                    recording->dynamic.size());
    }
    for (uint32_t i = 0; i < count; ++i) {
      if (heddle_status_t* bad = set_binding(recording, i, bindings[i])) [[unlikely]]
        return bad;
    }
    if (recording->is_any_stale()) {
      if (heddle_status_t* bad = check_copies(recording)) [[unlikely]]
        return bad;
      ContextScope scope(device);
      if (heddle_status_t* bad = patch(recording)) [[unlikely]]
        return bad;
    }
    Submission* draft = recording->queue->draft();
    draft->recording = recording;
    draft->list.dispatches = recording->list.dispatches;
    draft->list.copies = recording->list.copies;
    return recording->queue->submit(draft, sync);
  });
}

void recording_free(heddle_recording_t* handle) noexcept {
  if (!handle) return;
  Recording* recording = Recording::from(handle);
  Device* device = recording->device();
  sdk::guarded_release(device->host, [&] {
    sdk::unmake(device->host, recording);
    device->live.recordings.fetch_sub(1);
  });
}

Result issue(Recording* recording, Stream stream) noexcept {
  Backend& backend = recording->device()->backend;
  if (recording->executable) return backend.launch_graph(recording->executable, stream);
  size_t failed = 0;
  return issue(backend, recording->list, {}, stream, &failed);
}

void list_launches(const Recording* recording, std::vector<const Op::Launch*>* out) {
  for (const Op& op : recording->list.ops) {
    if (op.kind == Op::Kind::kLaunch) out->push_back(&op.launch);
  }
}

}  // namespace heddle::sdk::stream
