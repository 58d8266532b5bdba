// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs: nodes with edges, executable copies that can be changed, launches.
#include "runtime.h"

namespace heddle::test::hip {
namespace {

struct Node {
  enum class Kind { kEmpty, kKernel, kCopy, kFill } kind = Kind::kEmpty;
  KernelLaunch kernel;
  CopyWork copy;
  FillWork fill;
  bool is_row = false;  // a copy of the kind that can be changed
  bool is_enabled = true;
  std::vector<uintptr_t> before;  // numbers, counted from 1

  int run(Stream* stream, std::mt19937_64& random) const {
    if (!is_enabled) return kSuccess;
    switch (kind) {
      case Kind::kKernel:
        return kernel.run(stream->device, random);
      case Kind::kCopy:
        return copy.run(stream->device, stream);
      case Kind::kFill:
        return fill.run(stream->device);
      default:
        return kSuccess;
    }
  }
};
// A node's handle is its number with that of its graph, so that a node of another graph is recognized.
struct Graph {
  uintptr_t number = 0;
  std::vector<Node> nodes;
};
constexpr uintptr_t kNodesBits = 24;

std::mutex graphs_mutex;
std::set<Graph*>& graphs = *new std::set<Graph*>;
std::set<Graph*>& executables = *new std::set<Graph*>;

bool is_known(const std::set<Graph*>& of, void* handle) {
  std::lock_guard<std::mutex> lock(graphs_mutex);
  return of.contains(static_cast<Graph*>(handle));
}

Node* node_of(Graph* graph, void* handle) {
  const auto word = reinterpret_cast<uintptr_t>(handle), index = word & ((uintptr_t{1} << kNodesBits) - 1);
  return word >> kNodesBits == graph->number && index >= 1 && index <= graph->nodes.size() ? &graph->nodes[index - 1] : nullptr;
}

int add(void** out, void* handle, void* const* before, size_t count, Node node) {
  if (!is_known(graphs, handle) || !out || (count && !before)) return kInvalidValue;
  auto* graph = static_cast<Graph*>(handle);
  for (size_t i = 0; i < count; ++i) {
    const Node* waits_for = node_of(graph, before[i]);
    if (!waits_for) return kInvalidValue;
    node.before.push_back(static_cast<uintptr_t>(waits_for - graph->nodes.data()) + 1);
  }
  graph->nodes.push_back(std::move(node));
  *out = reinterpret_cast<void*>(graph->number << kNodesBits | graph->nodes.size());
  return kSuccess;
}

uint64_t address_of(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

struct KernelParameters {  // hipKernelNodeParams
  uint32_t block[3];
  void** extra;
  void* function;
  uint32_t grid[3];
  void** parameters;
  unsigned shared_bytes;
};
int make_kernel(const void* given, Node* out) {
  KernelParameters parameters;
  std::memcpy(&parameters, given, sizeof parameters);
  out->kind = Node::Kind::kKernel;
  return KernelLaunch::make(parameters.function, parameters.grid, parameters.block, parameters.shared_bytes, parameters.parameters,
                            parameters.extra, &out->kernel);
}

int make_fill(const void* given, Node* out) {
  struct Parameters {  // hipMemsetParams
    void* to;
    unsigned unit;
    size_t rows, pitch;
    unsigned value;
    size_t count;
  } parameters;
  std::memcpy(&parameters, given, sizeof parameters);
  const unsigned unit = parameters.unit;
  if ((unit != 1 && unit != 2 && unit != 4) || parameters.rows != 1 || !parameters.count || address_of(parameters.to) % unit != 0) {
    return kInvalidValue;
  }
  out->kind = Node::Kind::kFill;
  out->fill = {address_of(parameters.to), parameters.count, unit, unit, parameters.value};
  return kSuccess;
}

int make_row(void* to, const void* from, size_t bytes, int kind, Node* out) {
  if (!to || !from || !bytes || kind < 0 || kind > 4) return kInvalidValue;
  out->kind = Node::Kind::kCopy;
  out->is_row = true;
  out->copy = {address_of(to), bytes, address_of(from), bytes, bytes, 1, nullptr};
  return kSuccess;
}

// Changes a node of an executable graph; its edges stay.
template <typename Make>
int change(void* handle, void* node_handle, Node::Kind kind, const Make& make) {
  if (!is_known(executables, handle)) return kInvalidHandle;
  Node* node = node_of(static_cast<Graph*>(handle), node_handle);
  if (!node || node->kind != kind) return kInvalidValue;
  Node made;
  if (const int bad = make(&made)) return bad;
  if (kind == Node::Kind::kCopy && !node->is_row) return kInvalidValue;
  made.before = node->before;
  made.is_enabled = node->is_enabled;
  *node = std::move(made);
  return kSuccess;
}

}  // namespace

extern "C" {

int hipGraphCreate(void** out, unsigned flags) {
  static std::atomic<uintptr_t> numbers{0};
  if (flags) return result(kInvalidValue);
  auto* graph = new Graph;
  graph->number = ++numbers;
  std::lock_guard<std::mutex> lock(graphs_mutex);
  graphs.insert(graph);
  *out = graph;
  return kSuccess;
}
int hipGraphDestroy(void* handle) {
  std::lock_guard<std::mutex> lock(graphs_mutex);
  if (!graphs.erase(static_cast<Graph*>(handle))) return result(kInvalidValue);
  delete static_cast<Graph*>(handle);
  return kSuccess;
}
int hipGraphAddKernelNode(void** out, void* graph, void* const* before, size_t count, const void* parameters) {
  Node node;
  if (const int bad = make_kernel(parameters, &node)) return result(bad);
  return result(add(out, graph, before, count, std::move(node)));
}
int hipGraphAddMemcpyNode(void** out, void* graph, void* const* before, size_t count, const void* given) {
  struct Parameters {  // hipMemcpy3DParms
    void* from_array;
    size_t from_start[3];
    struct {
      void* at;
      size_t pitch, width, height;
    } from;
    void* to_array;
    size_t to_start[3];
    struct {
      void* at;
      size_t pitch, width, height;
    } to;
    size_t extent[3];
    int kind;
  } parameters;
  std::memcpy(&parameters, given, sizeof parameters);
  const size_t width = parameters.extent[0], rows = parameters.extent[1];
  if (parameters.from_array || parameters.to_array || parameters.extent[2] != 1 || !width || !rows || parameters.from.pitch < width ||
      parameters.to.pitch < width || !parameters.from.at || !parameters.to.at) {
    return result(kInvalidValue);
  }
  Node node;
  node.kind = Node::Kind::kCopy;
  node.copy = {
      address_of(parameters.to.at), parameters.to.pitch, address_of(parameters.from.at), parameters.from.pitch, width, rows, nullptr};
  return result(add(out, graph, before, count, std::move(node)));
}
int hipGraphAddMemcpyNode1D(void** out, void* graph, void* const* before, size_t count, void* to, const void* from, size_t bytes,
                            int kind) {
  Node node;
  if (const int bad = make_row(to, from, bytes, kind, &node)) return result(bad);
  return result(add(out, graph, before, count, std::move(node)));
}
int hipGraphAddMemsetNode(void** out, void* graph, void* const* before, size_t count, const void* parameters) {
  Node node;
  if (const int bad = make_fill(parameters, &node)) return result(bad);
  return result(add(out, graph, before, count, std::move(node)));
}
int hipGraphAddEmptyNode(void** out, void* graph, void* const* before, size_t count) {
  return result(add(out, graph, before, count, Node()));
}
int hipGraphInstantiateWithFlags(void** out, void* handle, unsigned long long flags) {
  if (flags || !is_known(graphs, handle)) return result(kInvalidValue);
  if (const int bad = state(current())) return result(bad);
  auto* executable = new Graph(*static_cast<Graph*>(handle));
  std::lock_guard<std::mutex> lock(graphs_mutex);
  executables.insert(executable);
  *out = executable;
  return kSuccess;
}
int hipGraphExecDestroy(void* handle) {
  std::lock_guard<std::mutex> lock(graphs_mutex);
  if (!executables.erase(static_cast<Graph*>(handle))) return result(kInvalidValue);
  delete static_cast<Graph*>(handle);
  return kSuccess;
}
int hipGraphExecKernelNodeSetParams(void* exec, void* node, const void* parameters) {
  return result(change(exec, node, Node::Kind::kKernel, [&](Node* out) { return make_kernel(parameters, out); }));
}
int hipGraphExecMemcpyNodeSetParams1D(void* exec, void* node, void* to, const void* from, size_t bytes, int kind) {
  return result(change(exec, node, Node::Kind::kCopy, [&](Node* out) { return make_row(to, from, bytes, kind, out); }));
}
int hipGraphExecMemsetNodeSetParams(void* exec, void* node, const void* parameters) {
  return result(change(exec, node, Node::Kind::kFill, [&](Node* out) { return make_fill(parameters, out); }));
}
int hipGraphNodeSetEnabled(void* exec, void* handle, unsigned is_enabled) {
  if (!is_known(executables, exec)) return result(kInvalidHandle);
  Node* node = node_of(static_cast<Graph*>(exec), handle);
  if (!node || node->kind == Node::Kind::kEmpty) return result(kInvalidValue);
  node->is_enabled = is_enabled != 0;
  return kSuccess;
}
int hipGraphLaunch(void* exec, void* on) {
  Stream* stream = stream_of(on);
  if (!stream || !is_known(executables, exec)) return result(kInvalidHandle);
  if (const int bad = state(stream->device)) return result(bad);
  return result(stream->enqueue([nodes = static_cast<Graph*>(exec)->nodes, stream] {
    std::mt19937_64& random = stream->queue->random();
    return run_in_any_order(
        nodes.size(), random, [&](size_t i) -> const std::vector<uintptr_t>& { return nodes[i].before; },
        [&](size_t i) { return nodes[i].run(stream, random); });
  }));
}
}

}  // namespace heddle::test::hip
