// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// HIP's functions over CUDA's driver API, as libamdhip64.so.6: plugins/hip runs on an NVIDIA GPU, which measures what its calls cost on the host. It
// shows nothing about AMD's library or GPUs. HIP itself had such a mapping for NVIDIA, so most functions have one counterpart.
//
// A code object has no counterpart. Of its kernels only the names and the sizes of their arguments are used; the code is <kernel>.ptx in the directory
// of HEDDLE_HIP_OVER_CUDA, or, if there is none, a kernel that does nothing.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "cuda/api.h"
#include "hip/api.h"
#include "hip/code_object.h"

namespace heddle::test {
namespace {

namespace hip = heddle::hip;

constexpr int kMostDevices = 16;

const cuda::Api& api() {
  static const cuda::Api* const table = [] {
    const cuda::Api* loaded = nullptr;
    const sdk::stream::Found found = cuda::load_api(&loaded);
    if (found.verdict != HEDDLE_PROBE_AVAILABLE) std::fprintf(stderr, "hip_over_cuda: %s\n", found.reason.c_str());
    return found.verdict == HEDDLE_PROBE_AVAILABLE ? loaded : nullptr;
  }();
  static const cuda::Api none;
  return table ? *table : none;
}

thread_local int last_error = 0;
thread_local int current_device = 0;
thread_local bool is_bound = false;

// Both enumerations have the same numbers for what this library can meet, except for these.
int result(CUresult code) {
  int error = static_cast<int>(code);
  if (code == CUDA_ERROR_INVALID_CONTEXT) error = hip::kInvalidDevice;
  if (error != 0 && error != hip::kNotReady) last_error = error;
  return error;
}

CUcontext context_of(int device) {
  static std::mutex mutex;
  static CUcontext contexts[kMostDevices] = {};
  if (device < 0 || device >= kMostDevices) return nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  CUdevice handle = 0;
  if (!contexts[device] && api().cuDeviceGet(&handle, device) == CUDA_SUCCESS) {
    api().cuDevicePrimaryCtxRetain(&contexts[device], handle);
  }
  return contexts[device];
}

// Makes the thread's device current, as every function of HIP does.
const cuda::Api& bound() {
  if (!is_bound) {
    CUcontext before = nullptr;
    api().cuCtxPopCurrent(&before);
    api().cuCtxPushCurrent(context_of(current_device));
    is_bound = true;
  }
  return api();
}

CUstream of(hip::StreamHandle handle) {
  return reinterpret_cast<CUstream>(handle);
}
CUevent of(hip::EventHandle handle) {
  return reinterpret_cast<CUevent>(handle);
}
CUgraph of(hip::GraphHandle handle) {
  return reinterpret_cast<CUgraph>(handle);
}
CUgraphExec of(hip::GraphExecHandle handle) {
  return reinterpret_cast<CUgraphExec>(handle);
}
CUgraphNode of(hip::NodeHandle handle) {
  return reinterpret_cast<CUgraphNode>(handle);
}
CUmemoryPool of(hip::PoolHandle handle) {
  return reinterpret_cast<CUmemoryPool>(handle);
}
template <typename Handle>
auto into(Handle* out) {
  return reinterpret_cast<decltype(of(*out))*>(out);
}
const CUgraphNode* all(const hip::NodeHandle* nodes) {
  return reinterpret_cast<const CUgraphNode*>(nodes);
}
CUdeviceptr at(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

struct Function {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
};

struct Module {
  hip::CodeObject object;
  std::map<std::string, Function> functions;
};

// The size of an ELF file whose section headers come last, as those of lld do.
uint64_t elf_size(const void* image) {
  const auto* bytes = static_cast<const char*>(image);
  uint64_t headers = 0;
  uint16_t each = 0, count = 0;
  std::memcpy(&headers, bytes + 0x28, sizeof headers);
  std::memcpy(&each, bytes + 0x3a, sizeof each);
  std::memcpy(&count, bytes + 0x3c, sizeof count);
  return headers + uint64_t{each} * count;
}

std::string code_of(const std::string& name, uint64_t arguments_bytes) {
  if (const char* folder = std::getenv("HEDDLE_HIP_OVER_CUDA")) {
    std::ifstream file(std::string(folder) + "/" + name + ".ptx");
    std::ostringstream text;
    text << file.rdbuf();
    if (file) return text.str();
  }
  std::string parameters;
  for (uint64_t i = 0; i < arguments_bytes / 8; ++i) parameters += (i ? ", " : "") + (".param .u64 p" + std::to_string(i));
  return ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry " + name + "(" + parameters + ") { ret; }\n";
}

// HIP ends its list of a launch's arguments with another word than CUDA does.
struct Extra {
  explicit Extra(void** given) {
    for (int i = 0; given && given[i] != hip::kEnd && i < 4; ++i) words[i] = given[i];
    is_given = given != nullptr;
  }
  void** get() { return is_given ? words : nullptr; }

 private:
  void* words[5] = {};  // CU_LAUNCH_PARAM_END is NULL
  bool is_given;
};

CUDA_KERNEL_NODE_PARAMS node_of(const hip::KernelNode& node, Extra* extra) {
  CUDA_KERNEL_NODE_PARAMS made = {};
  made.func = reinterpret_cast<Function*>(node.function)->function;
  made.gridDimX = node.grid.x, made.gridDimY = node.grid.y, made.gridDimZ = node.grid.z;
  made.blockDimX = node.block.x, made.blockDimY = node.block.y, made.blockDimZ = node.block.z;
  made.sharedMemBytes = node.shared_bytes;
  made.extra = extra->get();
  return made;
}

CUDA_MEMSET_NODE_PARAMS node_of(const hip::MemsetNode& node) {
  CUDA_MEMSET_NODE_PARAMS made = {};
  made.dst = at(node.to);
  made.elementSize = node.unit;
  made.value = node.value;
  made.width = node.count;
  made.height = node.rows;
  made.pitch = node.pitch;
  return made;
}

// A copy between any two places: CUDA looks at the addresses.
CUDA_MEMCPY3D copy_of(void* to, size_t to_stride, const void* from, size_t from_stride, size_t row_bytes, size_t rows) {
  CUDA_MEMCPY3D made = {};
  made.srcMemoryType = made.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  made.srcDevice = at(from), made.dstDevice = at(to);
  made.srcPitch = from_stride, made.dstPitch = to_stride;
  made.srcHeight = made.dstHeight = rows;
  made.WidthInBytes = row_bytes;
  made.Height = rows;
  made.Depth = 1;
  return made;
}

CUDA_MEMCPY3D copy_of(const hip::CopyNode& node) {
  return copy_of(node.to.at, node.to.pitch, node.from.at, node.from.pitch, node.extent[0], node.extent[1]);
}

CUDA_MEMCPY3D row_of(void* to, const void* from, size_t bytes) {
  return copy_of(to, bytes, from, bytes, bytes, 1);
}

int attribute(CUdevice_attribute which, int device) {
  int value = 0;
  api().cuDeviceGetAttribute(&value, which, device);
  return value;
}

}  // namespace
}  // namespace heddle::test

using namespace heddle::test;  // NOLINT: what follows are the functions of a C library
using heddle::hip::CopyNode;
using heddle::hip::EventHandle;
using heddle::hip::FunctionHandle;
using heddle::hip::GraphExecHandle;
using heddle::hip::GraphHandle;
using heddle::hip::KernelNode;
using heddle::hip::MemsetNode;
using heddle::hip::ModuleHandle;
using heddle::hip::NodeHandle;
using heddle::hip::PointerAttributes;
using heddle::hip::PoolAccess;
using heddle::hip::PoolHandle;
using heddle::hip::PoolProperties;
using heddle::hip::StreamHandle;

#define HIP extern "C" HEDDLE_EXPORT int

HIP hipInit(unsigned) {
  return api().cuInit ? 0 : result(CUDA_ERROR_NO_DEVICE);
}
HIP hipRuntimeGetVersion(int* out) {
  *out = 60000000;
  return 0;
}
HIP hipGetDeviceCount(int* out) {
  return result(api().cuDeviceGetCount(out));
}
extern "C" HEDDLE_EXPORT const char* hipGetErrorName(int error) {
  const char* name = nullptr;
  api().cuGetErrorName(static_cast<CUresult>(error), &name);
  return name;
}
extern "C" HEDDLE_EXPORT const char* hipGetErrorString(int error) {
  const char* text = nullptr;
  api().cuGetErrorString(static_cast<CUresult>(error), &text);
  return text;
}
HIP hipGetLastError() {
  return std::exchange(last_error, 0);
}
HIP hipPeekAtLastError() {
  return last_error;
}

// Devices.

// hipDeviceProp_t of HIP 6, as far as the driver reads it.
HIP hipGetDevicePropertiesR0600(void* out, int device) {
  char* bytes = static_cast<char*>(out);
  std::memset(bytes, 0, 1472);
  if (CUresult bad = api().cuDeviceGetName(bytes, 256, device)) return result(bad);
  auto write = [&](size_t at, auto value) { std::memcpy(bytes + at, &value, sizeof value); };
  size_t memory = 0;
  api().cuDeviceTotalMem(&memory, device);
  write(288, memory);
  write(296, size_t{65536});
  write(308, 64);  // as the chip below
  write(320, 1024);
  const int sizes[] = {1024, 1024, 1024, INT32_MAX, 65535, 65535};
  std::memcpy(bytes + 324, sizes, sizeof sizes);
  write(388, attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  std::strcpy(bytes + 1160, "gfx90a:sramecc+:xnack-");
  return 0;
}
HIP hipDeviceGetPCIBusId(char* out, int size, int device) {
  return result(api().cuDeviceGetPCIBusId(out, size, device));
}
HIP hipDeviceGetUuid(char* out, int device) {
  return result(api().cuDeviceGetUuid(reinterpret_cast<CUuuid*>(out), device));
}
HIP hipDeviceGetAttribute(int* out, int which, int device) {
  *out = which == hip::kMemoryPoolsSupported ? attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device) : 0;
  return 0;
}
HIP hipDeviceCanAccessPeer(int* out, int device, int peer) {
  return result(api().cuDeviceCanAccessPeer(out, device, peer));
}
HIP hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  return result(bound().cuCtxEnablePeerAccess(context_of(peer), flags));
}
HIP hipGetDevice(int* out) {
  *out = current_device;
  return 0;
}
HIP hipSetDevice(int device) {
  if (!context_of(device)) return result(CUDA_ERROR_INVALID_DEVICE);
  if (device != current_device) is_bound = false;
  current_device = device;
  return 0;
}
HIP hipMemGetInfo(size_t* out_free, size_t* out_total) {
  return result(bound().cuMemGetInfo(out_free, out_total));
}

// Streams and events.

HIP hipThreadExchangeStreamCaptureMode(int* mode) {
  auto exchanged = static_cast<CUstreamCaptureMode>(*mode);
  const CUresult changed = api().cuThreadExchangeStreamCaptureMode(&exchanged);
  *mode = exchanged;
  return result(changed);
}
HIP hipDeviceGetStreamPriorityRange(int* out_lowest, int* out_highest) {
  return result(bound().cuCtxGetStreamPriorityRange(out_lowest, out_highest));
}
HIP hipStreamCreateWithPriority(StreamHandle* out, unsigned flags, int priority) {
  return result(bound().cuStreamCreateWithPriority(into(out), flags, priority));
}
HIP hipStreamDestroy(StreamHandle stream) {
  return result(bound().cuStreamDestroy(of(stream)));
}
HIP hipStreamSynchronize(StreamHandle stream) {
  return result(bound().cuStreamSynchronize(of(stream)));
}
HIP hipStreamQuery(StreamHandle stream) {
  return result(bound().cuStreamQuery(of(stream)));
}
HIP hipStreamIsCapturing(StreamHandle stream, int* out) {
  CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult asked = bound().cuStreamIsCapturing(of(stream), &state);
  *out = state;
  return result(asked);
}
HIP hipStreamGetDevice(StreamHandle stream, int* out) {
  CUcontext context = nullptr;
  if (CUresult bad = bound().cuStreamGetCtx(of(stream), &context)) return result(bad);
  for (*out = 0; *out < kMostDevices; ++*out) {
    if (context_of(*out) == context) return 0;
  }
  return result(CUDA_ERROR_INVALID_HANDLE);
}
HIP hipStreamWriteValue64(StreamHandle stream, void* word, uint64_t value, unsigned) {
  return result(bound().cuStreamWriteValue64(of(stream), at(word), value, CU_STREAM_WRITE_VALUE_DEFAULT));
}
HIP hipStreamWaitValue64(StreamHandle stream, void* word, uint64_t value, unsigned, uint64_t) {
  return result(bound().cuStreamWaitValue64(of(stream), at(word), value, CU_STREAM_WAIT_VALUE_GEQ));
}
HIP hipStreamWaitEvent(StreamHandle, EventHandle, unsigned) {  // CUDA's streams wait for words
  return hip::kNotSupported;
}
HIP hipEventCreateWithFlags(EventHandle* out, unsigned flags) {
  return result(bound().cuEventCreate(into(out), flags));
}
HIP hipEventDestroy(EventHandle event) {
  return result(bound().cuEventDestroy(of(event)));
}
HIP hipEventRecord(EventHandle event, StreamHandle stream) {
  return result(bound().cuEventRecord(of(event), of(stream)));
}
HIP hipEventSynchronize(EventHandle event) {
  return result(bound().cuEventSynchronize(of(event)));
}
HIP hipEventElapsedTime(float* out_ms, EventHandle from, EventHandle to) {
  return result(bound().cuEventElapsedTime(out_ms, of(from), of(to)));
}

// Memory.

HIP hipMalloc(void** out, size_t bytes) {
  CUdeviceptr made = 0;
  const CUresult allocated = bound().cuMemAlloc(&made, bytes);
  *out = reinterpret_cast<void*>(made);
  return result(allocated);
}
HIP hipFree(void* memory) {
  return result(bound().cuMemFree(at(memory)));
}
HIP hipHostMalloc(void** out, size_t bytes, unsigned flags) {
  return result(bound().cuMemHostAlloc(out, bytes, flags & 3));  // CUDA's memory is always coherent
}
HIP hipHostFree(void* memory) {
  return result(bound().cuMemFreeHost(memory));
}
HIP hipHostRegister(void* memory, size_t bytes, unsigned flags) {
  return result(bound().cuMemHostRegister(memory, bytes, flags));
}
HIP hipHostUnregister(void* memory) {
  return result(bound().cuMemHostUnregister(memory));
}
HIP hipHostGetDevicePointer(void** out, void* memory, unsigned flags) {
  CUdeviceptr seen = 0;
  const CUresult asked = bound().cuMemHostGetDevicePointer(&seen, memory, flags);
  *out = reinterpret_cast<void*>(seen);
  return result(asked);
}
HIP hipPointerGetAttributes(PointerAttributes* out, const void* memory) {
  *out = {};
  CUmemorytype type = {};
  if (bound().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at(memory)) != CUDA_SUCCESS) return 0;  // 0: unregistered
  out->type = type == CU_MEMORYTYPE_HOST ? 1 : 2;
  bound().cuPointerGetAttribute(&out->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at(memory));
  return 0;
}
HIP hipMemPoolCreate(PoolHandle* out, const PoolProperties* wanted) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {wanted->location.id}};
  return result(bound().cuMemPoolCreate(into(out), &properties));
}
HIP hipMemPoolDestroy(PoolHandle pool) {
  return result(bound().cuMemPoolDestroy(of(pool)));
}
HIP hipMemPoolSetAttribute(PoolHandle pool, int which, void* value) {
  return result(bound().cuMemPoolSetAttribute(of(pool), static_cast<CUmemPool_attribute>(which), value));
}
HIP hipMemPoolGetAttribute(PoolHandle pool, int which, void* value) {
  return result(bound().cuMemPoolGetAttribute(of(pool), static_cast<CUmemPool_attribute>(which), value));
}
HIP hipMemPoolSetAccess(PoolHandle pool, const PoolAccess* access, size_t count) {
  std::vector<CUmemAccessDesc> made(count);
  for (size_t i = 0; i < count; ++i) {
    made[i].location = {CU_MEM_LOCATION_TYPE_DEVICE, {access[i].location.id}};
    made[i].flags = static_cast<CUmemAccess_flags>(access[i].flags);
  }
  return result(bound().cuMemPoolSetAccess(of(pool), made.data(), count));
}
HIP hipMemPoolTrimTo(PoolHandle pool, size_t bytes) {
  return result(bound().cuMemPoolTrimTo(of(pool), bytes));
}
HIP hipMallocFromPoolAsync(void** out, size_t bytes, PoolHandle pool, StreamHandle stream) {
  CUdeviceptr made = 0;
  const CUresult allocated = bound().cuMemAllocFromPoolAsync(&made, bytes, of(pool), of(stream));
  *out = reinterpret_cast<void*>(made);
  return result(allocated);
}
HIP hipFreeAsync(void* memory, StreamHandle stream) {
  return result(bound().cuMemFreeAsync(at(memory), of(stream)));
}

// Copies and fills.

HIP hipMemcpyAsync(void* to, const void* from, size_t bytes, int, StreamHandle stream) {
  return result(bound().cuMemcpyAsync(at(to), at(from), bytes, of(stream)));
}
HIP hipMemcpy2DAsync(void* to, size_t to_stride, const void* from, size_t from_stride, size_t row_bytes, size_t rows, int,
                     StreamHandle stream) {
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = at(from), copy.dstDevice = at(to);
  copy.srcPitch = from_stride, copy.dstPitch = to_stride;
  copy.WidthInBytes = row_bytes;
  copy.Height = rows;
  return result(bound().cuMemcpy2DAsync(&copy, of(stream)));
}
HIP hipMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, StreamHandle stream) {
  return result(bound().cuMemcpyPeerAsync(at(to), context_of(to_device), at(from), context_of(from_device), bytes, of(stream)));
}
HIP hipMemsetD8Async(void* to, unsigned char value, size_t count, StreamHandle stream) {
  return result(bound().cuMemsetD8Async(at(to), value, count, of(stream)));
}
HIP hipMemsetD16Async(void* to, unsigned short value, size_t count, StreamHandle stream) {
  return result(bound().cuMemsetD16Async(at(to), value, count, of(stream)));
}
HIP hipMemsetD32Async(void* to, int value, size_t count, StreamHandle stream) {
  return result(bound().cuMemsetD32Async(at(to), static_cast<unsigned>(value), count, of(stream)));
}
HIP hipMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t rows, StreamHandle stream) {
  return result(bound().cuMemsetD2D8Async(at(to), pitch, static_cast<unsigned char>(value), width, rows, of(stream)));
}

// Code.

HIP hipModuleLoadData(ModuleHandle* out, const void* image) {
  auto module = std::make_unique<Module>();
  std::string reason;
  if (heddle::hip::read_code_object(image, elf_size(image), &module->object, &reason) != HEDDLE_STATUS_OK) {
    std::fprintf(stderr, "hip_over_cuda: %s\n", reason.c_str());
    return result(CUDA_ERROR_INVALID_IMAGE);
  }
  *out = reinterpret_cast<ModuleHandle>(module.release());
  return 0;
}
HIP hipModuleUnload(ModuleHandle handle) {
  const std::unique_ptr<Module> module(reinterpret_cast<Module*>(handle));
  for (const auto& [name, function] : module->functions) bound().cuModuleUnload(function.module);
  return 0;
}
HIP hipModuleGetFunction(FunctionHandle* out, ModuleHandle handle, const char* name) {
  auto* module = reinterpret_cast<Module*>(handle);
  const auto kernel = module->object.kernels.find(name);
  if (kernel == module->object.kernels.end()) return result(CUDA_ERROR_NOT_FOUND);
  Function& function = module->functions[name];
  if (!function.function) {
    const std::string code = code_of(name, kernel->second.arguments_bytes);
    if (CUresult bad = bound().cuModuleLoadDataEx(&function.module, code.c_str(), 0, nullptr, nullptr)) return result(bad);
    if (CUresult bad = bound().cuModuleGetFunction(&function.function, function.module, name)) return result(bad);
  }
  *out = reinterpret_cast<FunctionHandle>(&function);
  return 0;
}
HIP hipFuncGetAttribute(int* out, int which, FunctionHandle function) {
  return result(bound().cuFuncGetAttribute(out, static_cast<CUfunction_attribute>(which), reinterpret_cast<Function*>(function)->function));
}
HIP hipModuleLaunchKernel(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned x, unsigned y, unsigned z,
                          unsigned shared_bytes, StreamHandle stream, void** parameters, void** given) {
  Extra extra(given);
  return result(bound().cuLaunchKernel(reinterpret_cast<Function*>(function)->function, grid_x, grid_y, grid_z, x, y, z, shared_bytes,
                                       of(stream), parameters, extra.get()));
}

// Graphs.

HIP hipGraphCreate(GraphHandle* out, unsigned flags) {
  return result(bound().cuGraphCreate(into(out), flags));
}
HIP hipGraphDestroy(GraphHandle graph) {
  return result(bound().cuGraphDestroy(of(graph)));
}
HIP hipGraphAddKernelNode(NodeHandle* out, GraphHandle graph, const NodeHandle* before, size_t count, const KernelNode* node) {
  Extra extra(node->extra);
  const CUDA_KERNEL_NODE_PARAMS made = node_of(*node, &extra);
  return result(bound().cuGraphAddKernelNode(into(out), of(graph), all(before), count, &made));
}
HIP hipGraphAddMemcpyNode(NodeHandle* out, GraphHandle graph, const NodeHandle* before, size_t count, const CopyNode* node) {
  const CUDA_MEMCPY3D made = copy_of(*node);
  return result(bound().cuGraphAddMemcpyNode(into(out), of(graph), all(before), count, &made, context_of(current_device)));
}
HIP hipGraphAddMemcpyNode1D(NodeHandle* out, GraphHandle graph, const NodeHandle* before, size_t count, void* to, const void* from,
                            size_t bytes, int) {
  const CUDA_MEMCPY3D made = row_of(to, from, bytes);
  return result(bound().cuGraphAddMemcpyNode(into(out), of(graph), all(before), count, &made, context_of(current_device)));
}
HIP hipGraphAddMemsetNode(NodeHandle* out, GraphHandle graph, const NodeHandle* before, size_t count, const MemsetNode* node) {
  const CUDA_MEMSET_NODE_PARAMS made = node_of(*node);
  return result(bound().cuGraphAddMemsetNode(into(out), of(graph), all(before), count, &made, context_of(current_device)));
}
HIP hipGraphAddEmptyNode(NodeHandle* out, GraphHandle graph, const NodeHandle* before, size_t count) {
  return result(bound().cuGraphAddEmptyNode(into(out), of(graph), all(before), count));
}
HIP hipGraphInstantiateWithFlags(GraphExecHandle* out, GraphHandle graph, unsigned long long flags) {
  return result(bound().cuGraphInstantiateWithFlags(into(out), of(graph), flags));
}
HIP hipGraphExecDestroy(GraphExecHandle exec) {
  return result(bound().cuGraphExecDestroy(of(exec)));
}
HIP hipGraphExecKernelNodeSetParams(GraphExecHandle exec, NodeHandle handle, const KernelNode* node) {
  Extra extra(node->extra);
  const CUDA_KERNEL_NODE_PARAMS made = node_of(*node, &extra);
  return result(bound().cuGraphExecKernelNodeSetParams(of(exec), of(handle), &made));
}
HIP hipGraphExecMemcpyNodeSetParams1D(GraphExecHandle exec, NodeHandle handle, void* to, const void* from, size_t bytes, int) {
  const CUDA_MEMCPY3D made = row_of(to, from, bytes);
  return result(bound().cuGraphExecMemcpyNodeSetParams(of(exec), of(handle), &made, context_of(current_device)));
}
HIP hipGraphExecMemsetNodeSetParams(GraphExecHandle exec, NodeHandle handle, const MemsetNode* node) {
  const CUDA_MEMSET_NODE_PARAMS made = node_of(*node);
  return result(bound().cuGraphExecMemsetNodeSetParams(of(exec), of(handle), &made, context_of(current_device)));
}
HIP hipGraphNodeSetEnabled(GraphExecHandle exec, NodeHandle handle, unsigned enabled) {
  return result(bound().cuGraphNodeSetEnabled(of(exec), of(handle), enabled));
}
HIP hipGraphLaunch(GraphExecHandle exec, StreamHandle stream) {
  return result(bound().cuGraphLaunch(of(exec), of(stream)));
}
