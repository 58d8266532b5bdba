// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of HIP's ABI that this driver uses, declared here for the majors 5, 6 and 7 of libamdhip64.so, which differ in three places: the layout of
// a device's properties, the values of memory types, and what a query of unknown memory returns. Nothing links to the library (HD-B-02).
#ifndef HEDDLE_HIP_API_H_
#define HEDDLE_HIP_API_H_

#include "heddle/sdk/stream/driver.h"

namespace heddle::hip {

// Handles of HIP, which no file looks into.
using StreamHandle = struct ihipStream_t*;
using EventHandle = struct ihipEvent_t*;
using ModuleHandle = struct ihipModule_t*;
using FunctionHandle = struct ihipModuleSymbol_t*;
using PoolHandle = struct ihipMemPoolHandle_t*;
using GraphHandle = struct ihipGraph*;
using NodeHandle = struct hipGraphNode*;
using GraphExecHandle = struct hipGraphExec*;

// hipError_t, as far as it is known by name here.
constexpr int kOk = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3, kDeinitialized = 4, kInvalidConfiguration = 9,
              kInsufficientDriver = 35, kNoDevice = 100, kInvalidDevice = 101, kInvalidImage = 200, kNoBinary = 209,
              kUncorrectableMemory = 214, kInvalidHandle = 400, kNotFound = 500, kNotReady = 600, kIllegalAddress = 700,
              kOutOfResources = 701, kTimeOut = 702, kPeerAlreadyEnabled = 704, kAssert = 710, kAlreadyRegistered = 712,
              kLaunchFailure = 719, kNotSupported = 801, kCaptureImplicit = 906;

// hipDeviceAttribute_t. In HIP 6.0.0 alone it is 89, and 88 the size of a wave, which says yes for every device.
constexpr int kMemoryPoolsSupported = 88;
constexpr int kMaxThreads = 0;                                          // hipFunction_attribute
constexpr int kAnyDirection = 4;                                        // hipMemcpyKind
constexpr int kReleaseThreshold = 4, kReservedNow = 5;                  // hipMemPoolAttr
constexpr int kRelaxedCapture = 2;                                      // hipStreamCaptureMode
constexpr unsigned kNonBlocking = 1, kNoTiming = 2;                     // of streams; of events
constexpr unsigned kPortable = 1, kMapped = 2, kCoherent = 0x40000000;  // of pinned memory
constexpr unsigned kAtLeast = 0;                                        // hipStreamWaitValueGte
constexpr unsigned kXgmi = 4;                                           // hsa_amd_link_info_type_t
inline void* const kBuffer = reinterpret_cast<void*>(1);                // HIP_LAUNCH_PARAM_BUFFER_POINTER
inline void* const kBufferSize = reinterpret_cast<void*>(2);            // HIP_LAUNCH_PARAM_BUFFER_SIZE
inline void* const kEnd = reinterpret_cast<void*>(3);                   // HIP_LAUNCH_PARAM_END

struct Location {  // hipMemLocation: 1, the ordinal
  int type, id;
};
struct PoolProperties {  // hipMemPoolProps
  int type, handles;
  Location location;
  void* security;
  unsigned char reserved[64];
};
struct PoolAccess {  // hipMemAccessDesc
  Location location;
  int flags;
};
struct PointerAttributes {  // hipPointerAttribute_t. Majors differ in the values of `type`
  int type, device;
  void *on_device, *on_host;
  int is_managed;
  unsigned flags;
};
struct Extent {  // dim3
  uint32_t x, y, z;
};
struct KernelNode {  // hipKernelNodeParams
  Extent block;
  void** extra;
  FunctionHandle function;
  Extent grid;
  void** parameters;
  unsigned shared_bytes;
};
struct MemsetNode {  // hipMemsetParams
  void* to;
  unsigned unit;
  size_t rows, pitch;
  unsigned value;
  size_t count;
};
struct PitchedPointer {  // hipPitchedPtr
  void* at;
  size_t pitch, width, height;
};
struct CopyNode {  // hipMemcpy3DParms
  void* from_array;
  size_t from_start[3];
  PitchedPointer from;
  void* to_array;
  size_t to_start[3];
  PitchedPointer to;
  size_t extent[3];
  int kind;
};

// What is read of hipDeviceProp_t.
struct Properties {
  std::string name, architecture;  // "gfx90a:sramecc+:xnack-"
  uint64_t memory_bytes = 0;
  uint64_t shared_bytes = 0;  // of a workgroup
  int wave_size = 0, max_threads = 0, compute_units = 0;
  int block[3] = {}, grid[3] = {};
};

// Each function returns a hipError_t, unless it is one of the first two.
// clang-format off
#define HEDDLE_HIP_TEXTS(X) X(hipGetErrorName, (int)) X(hipGetErrorString, (int))
#define HEDDLE_HIP_FUNCTIONS(X)                                                                                                              \
  X(hipInit, (unsigned)) X(hipRuntimeGetVersion, (int*)) X(hipGetDeviceCount, (int*)) X(hipDeviceGetPCIBusId, (char*, int, int))             \
  X(hipDeviceGetAttribute, (int*, int, int)) X(hipDeviceCanAccessPeer, (int*, int, int)) X(hipDeviceEnablePeerAccess, (int, unsigned))       \
  X(hipGetDevice, (int*)) X(hipSetDevice, (int)) X(hipGetLastError, ())    \
  X(hipPeekAtLastError, ()) X(hipThreadExchangeStreamCaptureMode, (int*)) X(hipDeviceGetStreamPriorityRange, (int*, int*))                   \
  X(hipStreamCreateWithPriority, (StreamHandle*, unsigned, int)) X(hipStreamDestroy, (StreamHandle)) X(hipStreamSynchronize, (StreamHandle)) \
  X(hipStreamQuery, (StreamHandle)) X(hipStreamIsCapturing, (StreamHandle, int*))                    \
  X(hipStreamWriteValue64, (StreamHandle, void*, uint64_t, unsigned)) X(hipStreamWaitEvent, (StreamHandle, EventHandle, unsigned))           \
  X(hipStreamWaitValue64, (StreamHandle, void*, uint64_t, unsigned, uint64_t)) X(hipMemGetInfo, (size_t*, size_t*))                          \
  X(hipMalloc, (void**, size_t)) X(hipFree, (void*)) X(hipHostMalloc, (void**, size_t, unsigned)) X(hipHostFree, (void*))                    \
  X(hipHostRegister, (void*, size_t, unsigned)) X(hipHostUnregister, (void*)) X(hipHostGetDevicePointer, (void**, void*, unsigned))          \
  X(hipPointerGetAttributes, (PointerAttributes*, const void*)) X(hipMemcpyAsync, (void*, const void*, size_t, int, StreamHandle))           \
  X(hipMemcpy2DAsync, (void*, size_t, const void*, size_t, size_t, size_t, int, StreamHandle))                                               \
  X(hipMemcpyPeerAsync, (void*, int, const void*, int, size_t, StreamHandle)) X(hipMemsetD8Async, (void*, unsigned char, size_t, StreamHandle)) \
  X(hipMemsetD16Async, (void*, unsigned short, size_t, StreamHandle)) X(hipMemsetD32Async, (void*, int, size_t, StreamHandle))               \
  X(hipMemset2DAsync, (void*, size_t, int, size_t, size_t, StreamHandle)) X(hipEventCreateWithFlags, (EventHandle*, unsigned))               \
  X(hipEventDestroy, (EventHandle)) X(hipEventRecord, (EventHandle, StreamHandle)) X(hipEventSynchronize, (EventHandle))                     \
  X(hipEventElapsedTime, (float*, EventHandle, EventHandle)) X(hipModuleLoadData, (ModuleHandle*, const void*))                              \
  X(hipModuleUnload, (ModuleHandle)) X(hipModuleGetFunction, (FunctionHandle*, ModuleHandle, const char*))                                   \
  X(hipFuncGetAttribute, (int*, int, FunctionHandle))                                                                                        \
  X(hipModuleLaunchKernel, (FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, StreamHandle, void**, void**))
// NULL in a library that lacks them: the driver does without.
#define HEDDLE_HIP_POOL_FUNCTIONS(X)                                                                                                         \
  X(hipMemPoolCreate, (PoolHandle*, const PoolProperties*)) X(hipMemPoolDestroy, (PoolHandle)) X(hipMemPoolSetAttribute, (PoolHandle, int, void*)) \
  X(hipMemPoolGetAttribute, (PoolHandle, int, void*)) X(hipMemPoolSetAccess, (PoolHandle, const PoolAccess*, size_t))                        \
  X(hipMemPoolTrimTo, (PoolHandle, size_t)) X(hipMallocFromPoolAsync, (void**, size_t, PoolHandle, StreamHandle)) X(hipFreeAsync, (void*, StreamHandle))
#define HEDDLE_HIP_GRAPH_FUNCTIONS(X)                                                                                                        \
  X(hipGraphCreate, (GraphHandle*, unsigned)) X(hipGraphDestroy, (GraphHandle))                                                              \
  X(hipGraphAddKernelNode, (NodeHandle*, GraphHandle, const NodeHandle*, size_t, const KernelNode*))                                         \
  X(hipGraphAddMemcpyNode, (NodeHandle*, GraphHandle, const NodeHandle*, size_t, const CopyNode*))                                           \
  X(hipGraphAddMemcpyNode1D, (NodeHandle*, GraphHandle, const NodeHandle*, size_t, void*, const void*, size_t, int))                         \
  X(hipGraphAddMemsetNode, (NodeHandle*, GraphHandle, const NodeHandle*, size_t, const MemsetNode*))                                         \
  X(hipGraphAddEmptyNode, (NodeHandle*, GraphHandle, const NodeHandle*, size_t))                                                             \
  X(hipGraphInstantiateWithFlags, (GraphExecHandle*, GraphHandle, unsigned long long)) X(hipGraphExecDestroy, (GraphExecHandle))             \
  X(hipGraphExecKernelNodeSetParams, (GraphExecHandle, NodeHandle, const KernelNode*))                                                       \
  X(hipGraphExecMemcpyNodeSetParams1D, (GraphExecHandle, NodeHandle, void*, const void*, size_t, int))                                       \
  X(hipGraphExecMemsetNodeSetParams, (GraphExecHandle, NodeHandle, const MemsetNode*))                                                       \
  X(hipGraphNodeSetEnabled, (GraphExecHandle, NodeHandle, unsigned)) X(hipGraphLaunch, (GraphExecHandle, StreamHandle))
#define HEDDLE_HIP_OTHER_FUNCTIONS(X)                                                                                                        \
  X(hipDeviceGetUuid, (char*, int)) X(hipExtGetLinkTypeAndHopCount, (int, int, uint32_t*, uint32_t*))                                        \
  X(hipGetStreamDeviceId, (StreamHandle)) X(hipStreamGetDevice, (StreamHandle, int*))
// clang-format on

struct Api {
#define X(name, parameters) const char*(*name)parameters = nullptr;
  HEDDLE_HIP_TEXTS(X)
#undef X
#define X(name, parameters) int(*name) parameters = nullptr;
  HEDDLE_HIP_FUNCTIONS(X)
  HEDDLE_HIP_POOL_FUNCTIONS(X)
  HEDDLE_HIP_GRAPH_FUNCTIONS(X)
  HEDDLE_HIP_OTHER_FUNCTIONS(X)
#undef X
  int (*get_properties)(void* out, int device) = nullptr;  // of this major's layout
  int major = 0;
  std::string version;  // "5.2.21153"
  bool has_pools = false, has_graphs = false;
  bool was_open = false;  // in this process, by somebody else

  int read_properties(int device, Properties* out) const;
};

// What a hipError_t means to the stream driver, and its canonical code (errors.cpp).
sdk::stream::Meaning meaning_of(int error) noexcept;
heddle_status_code_t code_of(int error) noexcept;

// Takes the library that the process has opened, or opens that of the newest known major, once per process, and initializes HIP.
sdk::stream::Found load_api(const Api** out = nullptr);

}  // namespace heddle::hip
#endif  // HEDDLE_HIP_API_H_
