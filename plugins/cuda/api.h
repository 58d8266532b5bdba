// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of libcuda.so.1 that this driver calls, looked up when the plugin is probed or created; nothing links to them (HD-B-02).
// Used by every file of the driver.
#ifndef HEDDLE_CUDA_API_H_
#define HEDDLE_CUDA_API_H_

#include <cuda.h>

#include "heddle/sdk/stream/driver.h"

namespace heddle::cuda {

// The oldest driver that has all of them: CUDA 12.0, driver 525.
constexpr int kOldestDriver = 12000;

// Required functions.
// clang-format off
#define HEDDLE_CUDA_FUNCTIONS(X)                                                                                                        \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName)           \
  X(cuDeviceGetUuid) X(cuDeviceGetPCIBusId) X(cuDeviceGetAttribute) X(cuDeviceTotalMem) X(cuDeviceCanAccessPeer)                        \
  X(cuDeviceGetP2PAttribute) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxGetCurrent) X(cuCtxPushCurrent)            \
  X(cuCtxPopCurrent) X(cuThreadExchangeStreamCaptureMode) X(cuCtxGetStreamPriorityRange)                            \
  X(cuCtxEnablePeerAccess) X(cuMemGetInfo) X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemPoolSetAttribute) X(cuMemPoolGetAttribute)     \
  X(cuMemAlloc) X(cuMemFree)                                                                                                            \
  X(cuMemPoolSetAccess) X(cuMemPoolTrimTo) X(cuMemAllocFromPoolAsync) X(cuMemFreeAsync) X(cuMemHostAlloc) X(cuMemFreeHost)              \
  X(cuMemHostRegister) X(cuMemHostUnregister) X(cuMemHostGetDevicePointer) X(cuPointerGetAttribute) X(cuMemcpyAsync)                    \
  X(cuMemcpyPeerAsync) X(cuMemcpy2DAsync) X(cuMemsetD8Async) X(cuMemsetD16Async) X(cuMemsetD32Async) X(cuMemsetD2D8Async)               \
  X(cuMemsetD2D16Async) X(cuMemsetD2D32Async) X(cuStreamCreateWithPriority) X(cuStreamDestroy) X(cuStreamSynchronize)                   \
  X(cuStreamQuery) X(cuStreamWaitValue64) X(cuStreamWriteValue64) X(cuStreamGetCtx) X(cuStreamIsCapturing)         \
  X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventSynchronize) X(cuEventElapsedTime)                       \
  X(cuModuleLoadDataEx) X(cuModuleUnload) X(cuModuleGetFunction) X(cuFuncGetAttribute) X(cuFuncSetAttribute) X(cuLaunchKernel)          \
  X(cuLaunchKernelEx) X(cuTensorMapEncodeTiled) X(cuGraphCreate) X(cuGraphDestroy) X(cuGraphAddKernelNode) X(cuGraphAddMemcpyNode)      \
  X(cuGraphAddMemsetNode) X(cuGraphAddEmptyNode) X(cuGraphInstantiateWithFlags) X(cuGraphExecDestroy)                                   \
  X(cuGraphExecKernelNodeSetParams) X(cuGraphExecMemcpyNodeSetParams) X(cuGraphExecMemsetNodeSetParams) X(cuGraphNodeSetEnabled)        \
  X(cuGraphLaunch)
// clang-format on
// NULL with an older driver. cuGraphAddDependencies: the form with edge kinds, NULL before CUDA 13.0, where the name denoted another form.
#define HEDDLE_CUDA_LATER_FUNCTIONS(X) X(cuFuncGetParamInfo) X(cuGraphAddDependencies)

struct Api {
#define X(name) decltype(&::name) name = nullptr;
  HEDDLE_CUDA_FUNCTIONS(X)
  HEDDLE_CUDA_LATER_FUNCTIONS(X)
#undef X
  int driver_version = 0;  // 12040: CUDA 12.4
};

// Opens the library, once per process, and initializes CUDA.
sdk::stream::Found load_api(const Api** out);

}  // namespace heddle::cuda
#endif  // HEDDLE_CUDA_API_H_
