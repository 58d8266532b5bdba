// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Building and patching graphs. Commands between two barriers have no edges between them; each waits for all commands before its barrier.
// What a launch or a copy needs to be patched is kept beside its node.
#include "cuda/graph.h"

#include <algorithm>

namespace heddle::cuda {

using sdk::guarded;
using sdk::status;

namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kDirectEdges = 8;  // more nodes before a barrier are joined by an empty node

// Where a dynamic binding goes. A command that does nothing has no op.
struct Dynamic {
  uint32_t op;
  uint32_t command;
  uint32_t index;  // of the binding in the command
  uint64_t length;
};

// The bindings and constants of a launch that has dynamic ones.
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
  std::vector<CUgraphNode> nodes;    // by op
  std::vector<Arguments> arguments;  // by op, empty where nothing is dynamic
  std::vector<Dynamic> dynamic;
  std::vector<char> is_stale;  // by op: its node is to be patched
  std::vector<uint32_t> stale;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;

  static Recording* from(heddle_recording_t* handle) noexcept { return reinterpret_cast<Recording*>(handle); }
  heddle_recording_t* handle() noexcept { return reinterpret_cast<heddle_recording_t*>(this); }
  Device* device() const noexcept { return owner; }

  ~Recording() {
    ContextScope scope(device());
    if (executable) device()->cuda.cuGraphExecDestroy(executable);
    if (graph) device()->cuda.cuGraphDestroy(graph);
    for (const Staging::Slice& slice : list.slices) device()->staging->give(slice);
  }
};

namespace {

// A launch as a node's parameters; lives as long as the call that takes it.
struct KernelNode {
  CUDA_KERNEL_NODE_PARAMS params = {};
  size_t bytes;
  void* extra[5];
  KernelNode(const List& list, const Op::Launch& op) : bytes(op.entry->arguments_bytes) {
    const Entry& entry = *op.entry;
    extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
    extra[1] = const_cast<char*>(list.arguments.data() + op.arguments_at);
    extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
    extra[3] = &bytes;
    extra[4] = CU_LAUNCH_PARAM_END;
    params.func = entry.function;
    params.gridDimX = op.grid[0];
    params.gridDimY = op.grid[1];
    params.gridDimZ = op.grid[2];
    params.blockDimX = entry.block[0];
    params.blockDimY = entry.block[1];
    params.blockDimZ = entry.block[2];
    params.sharedMemBytes = entry.shared_bytes;
    params.extra = bytes ? extra : nullptr;
  }
};

CUDA_MEMCPY3D copy_node(CUdeviceptr to, CUdeviceptr from, uint64_t to_stride, uint64_t from_stride, uint64_t row_bytes, uint64_t rows) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.srcPitch = from_stride;
  copy.dstPitch = to_stride;
  copy.WidthInBytes = row_bytes;
  copy.Height = rows;
  copy.Depth = 1;
  return copy;
}

CUDA_MEMCPY3D copy_node(const Op& op) {
  if (op.kind == Op::Kind::kCopy) return copy_node(op.copy.to, op.copy.from, op.copy.length, op.copy.length, op.copy.length, 1);
  const Op::Copy2d& copy = op.copy_2d;
  return copy_node(copy.to, copy.from, copy.to_stride, copy.from_stride, copy.row_bytes, copy.rows);
}

CUDA_MEMSET_NODE_PARAMS fill_node(const Op::Fill& op) {
  CUDA_MEMSET_NODE_PARAMS fill = {};
  fill.dst = op.to;
  fill.elementSize = op.pattern_bytes;
  fill.value = static_cast<unsigned int>(op.pattern);
  fill.width = op.length / op.pattern_bytes;
  fill.height = 1;
  return fill;
}

// Why a list with this op cannot be a graph; NULL if it can.
const char* obstacle(const Op& op) {
  switch (op.kind) {
    case Op::Kind::kFill:
      if (op.fill.pattern_bytes > 4 || op.fill.length % op.fill.pattern_bytes != 0 || op.fill.to % op.fill.pattern_bytes != 0) {
        return "a fill whose pattern is of 8 bytes, or does not fit its target";
      }
      return nullptr;
    case Op::Kind::kCopy2d:
      return op.copy_2d.from_stride < op.copy_2d.row_bytes ? "a 2-D copy whose rows overlap" : nullptr;
    case Op::Kind::kPeerCopy:
      return "a copy between devices";
    default:
      return nullptr;
  }
}

class Builder {
 public:
  explicit Builder(Recording* recording) : recording_(recording), cuda_(recording->device()->cuda) {}

  CUresult build() {
    if (CUresult bad = cuda_.cuGraphCreate(&recording_->graph, 0)) return bad;
    recording_->nodes.resize(recording_->list.ops.size());
    for (size_t i = 0; i < recording_->list.ops.size(); ++i) {
      const Op& op = recording_->list.ops[i];
      CUresult result = op.kind == Op::Kind::kBarrier ? barrier() : add(op, &recording_->nodes[i]);
      if (result != CUDA_SUCCESS) return result;
    }
    return cuda_.cuGraphInstantiateWithFlags(&recording_->executable, recording_->graph, 0);
  }

 private:
  // Behind it come nodes that wait for the group's.
  CUresult barrier() {
    if (group_.empty()) return CUDA_SUCCESS;
    early_ = group_.size() == 1 && group_starts_early_ && cuda_.cuGraphAddDependencies;
    if (group_.size() > kDirectEdges) {
      CUgraphNode join;
      if (CUresult bad = cuda_.cuGraphAddEmptyNode(&join, recording_->graph, group_.data(), group_.size())) return bad;
      group_.assign(1, join);
    }
    before_.swap(group_);
    group_.clear();
    group_starts_early_ = true;
    return CUDA_SUCCESS;
  }

  // An edge between two kernels of which the second waits by itself.
  CUresult add_early_edge(CUgraphNode node) {
    CUgraphEdgeData edge = {};
    edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    return cuda_.cuGraphAddDependencies(recording_->graph, before_.data(), &node, &edge, 1);
  }

  CUresult add(const Op& op, CUgraphNode* out) {
    CUresult result = CUDA_SUCCESS;
    if (op.kind == Op::Kind::kLaunch) {
      KernelNode node(recording_->list, op.launch);
      const bool early = early_ && op.launch.entry->starts_early;
      result = cuda_.cuGraphAddKernelNode(out, recording_->graph, before_.data(), early ? 0 : before_.size(), &node.params);
      if (result == CUDA_SUCCESS && early) result = add_early_edge(*out);
      group_starts_early_ &= op.launch.entry->starts_early;
    } else if (op.kind == Op::Kind::kFill) {
      const CUDA_MEMSET_NODE_PARAMS fill = fill_node(op.fill);
      result = cuda_.cuGraphAddMemsetNode(out, recording_->graph, before_.data(), before_.size(), &fill, recording_->device()->context);
      group_starts_early_ = false;
    } else {
      group_starts_early_ = false;
      const CUDA_MEMCPY3D copy = copy_node(op);
      result = cuda_.cuGraphAddMemcpyNode(out, recording_->graph, before_.data(), before_.size(), &copy, recording_->device()->context);
    }
    if (result == CUDA_SUCCESS) group_.push_back(*out);
    return result;
  }

  Recording* recording_;
  const Api& cuda_;
  std::vector<CUgraphNode> before_, group_;  // behind the last barrier come group_'s nodes
  bool group_starts_early_ = true;           // the group has nothing but kernels that let the next one start early
  bool early_ = false;                       // before_ is one such kernel
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

// Notes which bindings are dynamic, and keeps what patching their commands needs.
void note_dynamic(Recording* recording, const heddle_command_t* commands, uint32_t count, const uint8_t* dynamic) {
  std::vector<uint32_t> op_of(count, kNone);
  for (size_t i = 0; i < recording->list.ops.size(); ++i) op_of[recording->list.ops[i].command] = static_cast<uint32_t>(i);
  recording->arguments.resize(recording->list.ops.size());
  recording->is_stale.resize(recording->list.ops.size(), 0);
  for (uint32_t c = 0; c < count; ++c) {
    const heddle_command_t& command = commands[c];
    const uint32_t bindings = binding_count(command), op = op_of[c];
    for (uint32_t i = 0; i < bindings; ++i) {
      if (!dynamic[i]) continue;
      // An update is a copy from staging memory, and its only binding the target.
      recording->dynamic.push_back({op, c, command.kind == HEDDLE_COMMAND_UPDATE ? 1 : i, length_of(command, i)});
      if (op == kNone || command.kind != HEDDLE_COMMAND_DISPATCH || !recording->arguments[op].bindings.empty()) continue;
      const heddle_dispatch_command_t& dispatch = command.as.dispatch;
      const char* constants = static_cast<const char*>(dispatch.constants);
      recording->arguments[op].bindings.assign(dispatch.bindings, dispatch.bindings + dispatch.binding_count);
      if (dispatch.constants_bytes) recording->arguments[op].constants.assign(constants, constants + dispatch.constants_bytes);
    }
    dynamic += bindings;
  }
}

void mark_stale(Recording* recording, uint32_t op) {
  if (recording->is_stale[op]) return;
  recording->is_stale[op] = 1;
  recording->stale.push_back(op);
}

// What submit checks of copies, where a binding has changed.
heddle_status_t* check_copies(const Recording* recording) {
  for (uint32_t i : recording->stale) {
    const Op& op = recording->list.ops[i];
    if (op.kind != Op::Kind::kCopy) continue;
    if (op.copy.from < op.copy.to + op.copy.length && op.copy.to < op.copy.from + op.copy.length) {
      return status(recording->device()->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "cuda: replaying failed: source and target of command %u (a copy) overlap; copy through another buffer", op.command);
    }
  }
  return nullptr;
}

// Puts one binding in place.
heddle_status_t* set_binding(Recording* recording, uint32_t index, const heddle_binding_t& binding) {
  const Dynamic& place = recording->dynamic[index];
  Device* device = recording->device();
  const Buffer* buffer = Buffer::from(binding.buffer);
  if (binding.length != place.length) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "cuda: replaying failed: dynamic binding %u (command %u) has %llu bytes, %llu were recorded [HD-G-01]", index,
                  place.command, number(binding.length), number(place.length));
  }
  const bool is_launch = place.op != kNone && recording->list.ops[place.op].kind == Op::Kind::kLaunch;
  const bool is_nothing = is_launch || place.op == kNone;  // no buffer is fine
  if (buffer ? !buffer->holds(binding.offset, binding.length) : binding.length != 0 || binding.offset != 0 || !is_nothing) {
    return status(device->host, HEDDLE_STATUS_OUT_OF_RANGE,
                  "cuda: replaying failed: dynamic binding %u (command %u%s%s, %llu bytes at %llu) %s%llu bytes", index, place.command,
                  is_launch ? ", kernel " : "", is_launch ? recording->list.ops[place.op].launch.entry->name.c_str() : "",
                  number(binding.length), number(binding.offset), buffer ? "ends after the buffer's " : "has no buffer, so ",
                  number(buffer ? buffer->size : 0));
  }
  if (place.op == kNone) return nullptr;
  Op& op = recording->list.ops[place.op];
  const CUdeviceptr address = buffer && buffer->address ? buffer->address + binding.offset : 0;
  CUdeviceptr* at = nullptr;
  switch (op.kind) {
    case Op::Kind::kLaunch: {
      heddle_binding_t& known = recording->arguments[place.op].bindings[place.index];
      if (known.buffer != binding.buffer || known.offset != binding.offset) mark_stale(recording, place.op);
      known = binding;
      return nullptr;
    }
    case Op::Kind::kCopy:
      at = place.index == 0 ? &op.copy.from : &op.copy.to;
      break;
    default:
      at = &op.fill.to;
      break;
  }
  if (*at != address) mark_stale(recording, place.op);
  *at = address;
  return nullptr;
}

heddle_status_t* patch(Recording* recording) {
  Device* device = recording->device();
  const Api& cuda = device->cuda;
  for (uint32_t i : recording->stale) {
    const Op& op = recording->list.ops[i];
    recording->is_stale[i] = 0;
    CUresult result = CUDA_SUCCESS;
    if (op.kind == Op::Kind::kLaunch) {
      const Arguments& arguments = recording->arguments[i];
      if (heddle_status_t* bad = pack_arguments(device, *op.launch.entry, arguments.bindings.data(), arguments.constants.data(),
                                                recording->list.arguments.data() + op.launch.arguments_at)) {
        return bad;
      }
      KernelNode node(recording->list, op.launch);
      result = cuda.cuGraphExecKernelNodeSetParams(recording->executable, recording->nodes[i], &node.params);
    } else if (op.kind == Op::Kind::kFill) {
      const CUDA_MEMSET_NODE_PARAMS fill = fill_node(op.fill);
      result = cuda.cuGraphExecMemsetNodeSetParams(recording->executable, recording->nodes[i], &fill, device->context);
    } else {
      const CUDA_MEMCPY3D copy = copy_node(op);
      result = cuda.cuGraphExecMemcpyNodeSetParams(recording->executable, recording->nodes[i], &copy, device->context);
    }
    if (result != CUDA_SUCCESS) return device->failed(result, "patching a recorded command");
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
  return guarded(device->host, "cuda: recording", [&]() -> heddle_status_t* {
    if (heddle_status_t* lost = device->loss()) return lost;
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
    for (const Op& op : recording->list.ops) {
      if (const char* why = obstacle(op)) {
        return status(device->host, HEDDLE_STATUS_UNIMPLEMENTED, "cuda: recording %u commands failed: command %u is %s; submit the list",
                      count, op.command, why);
      }
    }
    note_dynamic(recording, commands, count, dynamic);
    for (const Dynamic& place : recording->dynamic) {  // CUDA patches copies of one row only
      if (place.op == kNone || recording->list.ops[place.op].kind != Op::Kind::kCopy2d) continue;
      return status(device->host, HEDDLE_STATUS_UNIMPLEMENTED,
                    "cuda: recording %u commands failed: command %u is a 2-D copy whose bindings change; submit the list", count,
                    place.command);
    }
    const CUresult result = Builder(recording).build();
    if (result != CUDA_SUCCESS) return device->failed(result, "building a graph");
    *out = recording->handle();
    holder.recording = nullptr;
    device->live.recordings.fetch_add(1);
    return nullptr;
  });
}

heddle_status_t* replay(heddle_recording_t* handle, const heddle_binding_t* bindings, uint32_t count, const heddle_sync_t* in) noexcept {
  Recording* recording = Recording::from(handle);
  Device* device = recording->device();
  return guarded(device->host, "cuda: replaying", [&]() -> heddle_status_t* {
    heddle_sync_t sync;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &sync, &bad_byte)) return sdk::tail_status(device->host, "heddle_sync_t", bad_byte);
    if (device->is_lost()) [[unlikely]]
      return device->loss();
    if (count != recording->dynamic.size()) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "cuda: replaying failed: %u bindings, and %zu are dynamic", count,
                    recording->dynamic.size());
    }
    for (uint32_t i = 0; i < count; ++i) {
      if (heddle_status_t* bad = set_binding(recording, i, bindings[i])) [[unlikely]]
        return bad;
    }
    if (!recording->stale.empty()) {
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

CUresult launch_graph(Recording* recording, CUstream stream) noexcept {
  return recording->device()->cuda.cuGraphLaunch(recording->executable, stream);
}

void list_launches(const Recording* recording, std::vector<const Op::Launch*>* out) {
  for (const Op& op : recording->list.ops) {
    if (op.kind == Op::Kind::kLaunch) out->push_back(&op.launch);
  }
}

}  // namespace heddle::cuda
