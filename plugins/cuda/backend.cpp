// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One call of CUDA or a few for each function of the stream driver's backend.
#include "cuda/backend.h"

namespace heddle::cuda {

using stream::Context;
using stream::Event;
using stream::Graph;
using stream::GraphExec;
using stream::Node;
using stream::Owner;
using stream::Stream;

namespace {

// A launch as a node's parameters; must outlive the call that takes it.
struct KernelNode {
  CUDA_KERNEL_NODE_PARAMS params = {};
  size_t bytes;
  void* extra[5];
  explicit KernelNode(const Launch& launch) noexcept : bytes(launch.entry.arguments_bytes) {
    const stream::Entry& entry = launch.entry;
    extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
    extra[1] = const_cast<char*>(launch.arguments);
    extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
    extra[3] = &bytes;
    extra[4] = CU_LAUNCH_PARAM_END;
    params.func = cu(entry.function);
    params.gridDimX = launch.grid[0];
    params.gridDimY = launch.grid[1];
    params.gridDimZ = launch.grid[2];
    params.blockDimX = entry.block[0];
    params.blockDimY = entry.block[1];
    params.blockDimZ = entry.block[2];
    params.sharedMemBytes = entry.shared_bytes;
    params.extra = bytes ? extra : nullptr;
  }
};

template <typename Params>
Params copy_params(const Copy2d& copy) noexcept {
  Params params = {};
  params.srcMemoryType = params.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  params.srcDevice = copy.from;
  params.dstDevice = copy.to;
  params.srcPitch = copy.from_stride;
  params.dstPitch = copy.to_stride;
  params.WidthInBytes = copy.row_bytes;
  params.Height = copy.rows;
  return params;
}

CUDA_MEMCPY3D copy_node(const Copy2d& copy) noexcept {
  auto params = copy_params<CUDA_MEMCPY3D>(copy);
  params.Depth = 1;
  return params;
}

CUDA_MEMSET_NODE_PARAMS fill_node(const Fill& fill) noexcept {
  CUDA_MEMSET_NODE_PARAMS params = {};
  params.dst = fill.to;
  params.elementSize = fill.unit;
  params.value = fill.value;
  params.width = fill.count;
  params.height = 1;
  return params;
}

const CUgraphNode* nodes(const Node* before) noexcept {
  return reinterpret_cast<const CUgraphNode*>(before);
}
CUgraphNode* node(Node* out) noexcept {
  return reinterpret_cast<CUgraphNode*>(out);
}

}  // namespace

Backend::Backend(const Api& api, const Facts& known) noexcept : cuda(api), facts(known) {
  capabilities_.early_starts = known.capability >= 90;
  capabilities_.early_edges = api.cuGraphAddDependencies != nullptr;
  capabilities_.pitched_fill_unit = 4;
  capabilities_.max_pitch = (uint64_t{1} << 31) - 1;
  capabilities_.out_of_memory = CUDA_ERROR_OUT_OF_MEMORY;
  capabilities_.unsupported = CUDA_ERROR_NOT_SUPPORTED;
}

Result Backend::start(uint64_t retain_bytes, const char** out_step) {
  CUcontext made = nullptr;
  *out_step = "creating its context";
  if (CUresult bad = cuda.cuDevicePrimaryCtxRetain(&made, facts.device)) return bad;
  context_ = reinterpret_cast<Context>(made);
  stream::ContextScope scope(*this);
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {facts.device}};
  *out_step = "creating its memory pool";
  if (CUresult bad = cuda.cuMemPoolCreate(&pool_, &properties)) return bad;
  cuuint64_t retain = retain_bytes;
  *out_step = "configuring its pool";
  if (CUresult bad = cuda.cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &retain)) return bad;
  *out_step = "creating a stream";
  if (CUresult bad = cuda.cuStreamCreateWithPriority(&allocation_stream_, CU_STREAM_NON_BLOCKING, 0)) return bad;
  return CUDA_SUCCESS;
}

Backend::~Backend() {
  if (!context_) return;
  {
    stream::ContextScope scope(*this);
    if (allocation_stream_) cuda.cuStreamDestroy(allocation_stream_);
    if (pool_) cuda.cuMemPoolDestroy(pool_);
  }
  cuda.cuDevicePrimaryCtxRelease(facts.device);
}

void Backend::enter(Scope* out) const noexcept {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  cuda.cuThreadExchangeStreamCaptureMode(&mode);
  out->mode = static_cast<uint32_t>(mode);
  CUcontext now = nullptr;
  if (cuda.cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == cu(context_)) return;
  out->is_pushed = cuda.cuCtxPushCurrent(cu(context_)) == CUDA_SUCCESS;
}

void Backend::leave(const Scope& scope) const noexcept {
  CUcontext ignored;
  if (scope.is_pushed) cuda.cuCtxPopCurrent(&ignored);
  auto mode = static_cast<CUstreamCaptureMode>(scope.mode);
  cuda.cuThreadExchangeStreamCaptureMode(&mode);
}

Result Backend::check_context() noexcept {
  return cuda.cuStreamQuery(allocation_stream_);  // a fault on any stream shows on all
}

const char* Backend::name_of(Result result) const noexcept {
  const char* name = nullptr;
  cuda.cuGetErrorName(static_cast<CUresult>(result), &name);
  return name;
}

const char* Backend::text_of(Result result) const noexcept {
  const char* text = nullptr;
  cuda.cuGetErrorString(static_cast<CUresult>(result), &text);
  return text;
}

Result Backend::create_stream(uint32_t priority, Stream* out) noexcept {
  int least = 0, greatest = 0;
  if (CUresult bad = cuda.cuCtxGetStreamPriorityRange(&least, &greatest)) return bad;
  return cuda.cuStreamCreateWithPriority(reinterpret_cast<CUstream*>(out), CU_STREAM_NON_BLOCKING, priority ? greatest : least);
}
void Backend::destroy_stream(Stream stream) noexcept {
  cuda.cuStreamDestroy(cu(stream));
}
Result Backend::synchronize_stream(Stream stream) noexcept {
  return cuda.cuStreamSynchronize(cu(stream));
}
Result Backend::is_captured(Stream stream, bool* out) noexcept {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult asked = cuda.cuStreamIsCapturing(cu(stream), &capture);
  *out = asked == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || capture != CU_STREAM_CAPTURE_STATUS_NONE;
  return asked == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ? CUDA_SUCCESS : asked;
}
Result Backend::context_of(Stream stream, Context* out) noexcept {
  return cuda.cuStreamGetCtx(cu(stream), reinterpret_cast<CUcontext*>(out));
}
Result Backend::write_word(Stream stream, const stream::Word& word, uint64_t value) noexcept {
  return cuda.cuStreamWriteValue64(cu(stream), word.address, value, CU_STREAM_WRITE_VALUE_DEFAULT);
}
Result Backend::wait_word(Stream stream, const stream::Word& word, uint64_t value) noexcept {
  return cuda.cuStreamWaitValue64(cu(stream), word.address, value, CU_STREAM_WAIT_VALUE_GEQ);
}

Result Backend::launch(const Launch& launch, bool early, Stream stream) noexcept {
  const stream::Entry& entry = launch.entry;
  const uint32_t(&grid)[3] = launch.grid;
  size_t bytes = entry.arguments_bytes;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<char*>(launch.arguments), CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  if (early) {
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {grid[0],    grid[1],    grid[2], entry.block[0], entry.block[1], entry.block[2], entry.shared_bytes,
                             cu(stream), &attribute, 1};
    return cuda.cuLaunchKernelEx(&config, cu(entry.function), nullptr, bytes ? extra : nullptr);
  }
  return cuda.cuLaunchKernel(cu(entry.function), grid[0], grid[1], grid[2], entry.block[0], entry.block[1], entry.block[2],
                             entry.shared_bytes, cu(stream), nullptr, bytes ? extra : nullptr);
}
Result Backend::copy(Address to, Address from, uint64_t bytes, Stream stream) noexcept {
  return cuda.cuMemcpyAsync(to, from, bytes, cu(stream));
}
Result Backend::copy_2d(const Copy2d& copy, Stream stream) noexcept {
  const auto params = copy_params<CUDA_MEMCPY2D>(copy);
  return cuda.cuMemcpy2DAsync(&params, cu(stream));
}
Result Backend::copy_peer(Address to, Context to_context, Address from, Context from_context, uint64_t bytes, Stream stream) noexcept {
  return cuda.cuMemcpyPeerAsync(to, cu(to_context), from, cu(from_context), bytes, cu(stream));
}
Result Backend::fill(const Fill& fill, Stream stream) noexcept {
  if (fill.unit == 4) return cuda.cuMemsetD32Async(fill.to, fill.value, fill.count, cu(stream));
  if (fill.unit == 2) return cuda.cuMemsetD16Async(fill.to, static_cast<unsigned short>(fill.value), fill.count, cu(stream));
  return cuda.cuMemsetD8Async(fill.to, static_cast<unsigned char>(fill.value), fill.count, cu(stream));
}
Result Backend::fill_pitched(const Fill& fill, uint64_t pitch, Stream stream) noexcept {
  if (fill.unit == 4) return cuda.cuMemsetD2D32Async(fill.to, pitch, fill.value, 1, fill.count, cu(stream));
  if (fill.unit == 2) return cuda.cuMemsetD2D16Async(fill.to, pitch, static_cast<unsigned short>(fill.value), 1, fill.count, cu(stream));
  return cuda.cuMemsetD2D8Async(fill.to, pitch, static_cast<unsigned char>(fill.value), 1, fill.count, cu(stream));
}

Result Backend::allocate_host(uint64_t bytes, bool mapped, void** out) noexcept {
  return cuda.cuMemHostAlloc(out, bytes, CU_MEMHOSTALLOC_PORTABLE | (mapped ? CU_MEMHOSTALLOC_DEVICEMAP : 0));
}
void Backend::free_host(void* memory) noexcept {
  cuda.cuMemFreeHost(memory);
}
Result Backend::register_host(void* memory, uint64_t bytes, bool mapped) noexcept {
  return cuda.cuMemHostRegister(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE | (mapped ? CU_MEMHOSTREGISTER_DEVICEMAP : 0));
}
void Backend::unregister_host(void* memory) noexcept {
  cuda.cuMemHostUnregister(memory);
}
Result Backend::address_of(void* memory, Address* out) noexcept {
  CUdeviceptr address = 0;
  const CUresult result = cuda.cuMemHostGetDevicePointer(&address, memory, 0);
  *out = address;
  return result;
}
Result Backend::owner_of(Address address, Owner* out, int* out_ordinal) noexcept {
  *out = Owner::kUnknown;
  unsigned int type = 0;
  CUresult asked = cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (asked == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE) {
    asked = cuda.cuPointerGetAttribute(out_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  }
  if (asked == CUDA_SUCCESS) *out = type == CU_MEMORYTYPE_DEVICE ? Owner::kDevice : Owner::kHost;
  return asked == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : asked;
}

Result Backend::allocate_large(uint64_t bytes, Address* out) noexcept {
  CUdeviceptr block = 0;
  const CUresult result = cuda.cuMemAlloc(&block, bytes);
  *out = block;
  return result;
}
void Backend::free_large(Address block) noexcept {
  cuda.cuMemFree(block);
}
Result Backend::allocate_pooled(uint64_t bytes, Address* out) noexcept {
  CUdeviceptr block = 0;
  const CUresult result = cuda.cuMemAllocFromPoolAsync(&block, bytes, pool_, allocation_stream_);
  *out = block;
  // Other streams may use the memory once the allocation has happened on its own stream, which has no other work.
  return result != CUDA_SUCCESS ? result : cuda.cuStreamSynchronize(allocation_stream_);
}
void Backend::free_pooled(Address block) noexcept {
  cuda.cuMemFreeAsync(block, allocation_stream_);
}
void Backend::trim_pool() noexcept {
  cuda.cuStreamSynchronize(allocation_stream_);
  cuda.cuMemPoolTrimTo(pool_, 0);
}
uint64_t Backend::pool_bytes() noexcept {
  cuuint64_t reserved = 0;
  cuda.cuMemPoolGetAttribute(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
  return reserved;
}
void Backend::memory_info(uint64_t* out_free, uint64_t* out_total) noexcept {
  size_t free_bytes = 0, total_bytes = 0;
  cuda.cuMemGetInfo(&free_bytes, &total_bytes);
  *out_free = free_bytes;
  *out_total = total_bytes;
}
Result Backend::enable_peer(stream::Backend& other) noexcept {
  // The first is for separately allocated memory, the second for memory in the pool.
  const CUresult result = cuda.cuCtxEnablePeerAccess(cu(other.context()), 0);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) return result;
  CUmemAccessDesc access = {};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {facts.device}};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return cuda.cuMemPoolSetAccess(static_cast<Backend&>(other).pool_, &access, 1);
}

Result Backend::create_event(bool timed, Event* out) noexcept {
  return cuda.cuEventCreate(reinterpret_cast<CUevent*>(out), timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
}
void Backend::destroy_event(Event event) noexcept {
  cuda.cuEventDestroy(cu(event));
}
Result Backend::record_event(Event event, Stream stream) noexcept {
  return cuda.cuEventRecord(cu(event), cu(stream));
}
Result Backend::synchronize_event(Event event) noexcept {
  return cuda.cuEventSynchronize(cu(event));
}
Result Backend::elapsed(Event from, Event to, float* out_ms) noexcept {
  return cuda.cuEventElapsedTime(out_ms, cu(from), cu(to));
}

Result Backend::create_graph(Graph* out) noexcept {
  return cuda.cuGraphCreate(reinterpret_cast<CUgraph*>(out), 0);
}
void Backend::destroy_graph(Graph graph) noexcept {
  cuda.cuGraphDestroy(cu(graph));
}
Result Backend::add_kernel(Graph graph, const Node* before, size_t count, const Launch& launch, Node* out) noexcept {
  KernelNode made(launch);
  return cuda.cuGraphAddKernelNode(node(out), cu(graph), nodes(before), count, &made.params);
}
Result Backend::add_copy(Graph graph, const Node* before, size_t count, const Copy2d& copy, Node* out) noexcept {
  const CUDA_MEMCPY3D params = copy_node(copy);
  return cuda.cuGraphAddMemcpyNode(node(out), cu(graph), nodes(before), count, &params, cu(context_));
}
Result Backend::add_fill(Graph graph, const Node* before, size_t count, const Fill& fill, Node* out) noexcept {
  const CUDA_MEMSET_NODE_PARAMS params = fill_node(fill);
  return cuda.cuGraphAddMemsetNode(node(out), cu(graph), nodes(before), count, &params, cu(context_));
}
Result Backend::add_empty(Graph graph, const Node* before, size_t count, Node* out) noexcept {
  return cuda.cuGraphAddEmptyNode(node(out), cu(graph), nodes(before), count);
}
Result Backend::add_early_edge(Graph graph, Node from, Node to) noexcept {
  CUgraphEdgeData edge = {};
  edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  return cuda.cuGraphAddDependencies(cu(graph), nodes(&from), nodes(&to), &edge, 1);
}
Result Backend::instantiate(Graph graph, GraphExec* out) noexcept {
  return cuda.cuGraphInstantiateWithFlags(reinterpret_cast<CUgraphExec*>(out), cu(graph), 0);
}
void Backend::destroy_graph_exec(GraphExec exec) noexcept {
  cuda.cuGraphExecDestroy(cu(exec));
}
Result Backend::patch_kernel(GraphExec exec, Node node, const Launch& launch) noexcept {
  KernelNode made(launch);
  return cuda.cuGraphExecKernelNodeSetParams(cu(exec), cu(node), &made.params);
}
Result Backend::patch_copy(GraphExec exec, Node node, const Copy2d& copy) noexcept {
  const CUDA_MEMCPY3D params = copy_node(copy);
  return cuda.cuGraphExecMemcpyNodeSetParams(cu(exec), cu(node), &params, cu(context_));
}
Result Backend::patch_fill(GraphExec exec, Node node, const Fill& fill) noexcept {
  const CUDA_MEMSET_NODE_PARAMS params = fill_node(fill);
  return cuda.cuGraphExecMemsetNodeSetParams(cu(exec), cu(node), &params, cu(context_));
}
Result Backend::disable_node(GraphExec exec, Node node) noexcept {
  return cuda.cuGraphNodeSetEnabled(cu(exec), cu(node), 0);
}
Result Backend::launch_graph(GraphExec exec, Stream stream) noexcept {
  return cuda.cuGraphLaunch(cu(exec), cu(stream));
}

}  // namespace heddle::cuda
