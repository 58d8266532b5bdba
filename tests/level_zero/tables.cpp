// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tables of functions that Intel's loader asks for; nothing else is exported but the hooks for tests (hooks.cpp).
#include <level_zero/ze_ddi.h>

#include "tests/level_zero/engine.h"

using namespace heddle::level_zero_stand_in;

namespace {

template <size_t kSize>
struct Text {
  constexpr Text(const char (&its_text)[kSize]) { std::copy_n(its_text, kSize, text); }
  char text[kSize];
};

template <Text kName, class Function>
struct Unsupported;
template <Text kName, class... Arguments>
struct Unsupported<kName, ze_result_t (*)(Arguments...)> {
  static ze_result_t call(Arguments...) { return unsupported(kName.text); }
};

// The headers of the driver and of the loader have the same major version.
ze_result_t check(ze_api_version_t version, const void* table) {
  if (table == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  return ZE_MAJOR_VERSION(version) == ZE_MAJOR_VERSION(ZE_API_VERSION_CURRENT) ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNSUPPORTED_VERSION;
}

}  // namespace

#define TABLE(getter, type)                                                           \
  extern "C" ZE_DLLEXPORT ze_result_t getter(ze_api_version_t version, type* table) { \
    if (const ze_result_t result = check(version, table); result != ZE_RESULT_SUCCESS) return result;
#define FUNCTION(field, function) table->field = function
#define UNSUPPORTED(field, function) table->field = Unsupported<#function, decltype(table->field)>::call
#define END                 \
  return ZE_RESULT_SUCCESS; \
  }

// clang-format off
TABLE(zeGetGlobalProcAddrTable, ze_global_dditable_t)
  FUNCTION(pfnInit, zeInit);
END

TABLE(zeGetDriverProcAddrTable, ze_driver_dditable_t)
  FUNCTION(pfnGet, zeDriverGet);
  FUNCTION(pfnGetApiVersion, zeDriverGetApiVersion);
  FUNCTION(pfnGetProperties, zeDriverGetProperties);
  FUNCTION(pfnGetIpcProperties, zeDriverGetIpcProperties);
  FUNCTION(pfnGetExtensionProperties, zeDriverGetExtensionProperties);
  FUNCTION(pfnGetExtensionFunctionAddress, zeDriverGetExtensionFunctionAddress);
END

TABLE(zeGetDeviceProcAddrTable, ze_device_dditable_t)
  FUNCTION(pfnGet, zeDeviceGet);
  FUNCTION(pfnGetSubDevices, zeDeviceGetSubDevices);
  FUNCTION(pfnGetProperties, zeDeviceGetProperties);
  FUNCTION(pfnGetComputeProperties, zeDeviceGetComputeProperties);
  FUNCTION(pfnGetModuleProperties, zeDeviceGetModuleProperties);
  FUNCTION(pfnGetCommandQueueGroupProperties, zeDeviceGetCommandQueueGroupProperties);
  FUNCTION(pfnGetMemoryProperties, zeDeviceGetMemoryProperties);
  FUNCTION(pfnGetMemoryAccessProperties, zeDeviceGetMemoryAccessProperties);
  FUNCTION(pfnGetCacheProperties, zeDeviceGetCacheProperties);
  FUNCTION(pfnGetImageProperties, zeDeviceGetImageProperties);
  FUNCTION(pfnGetExternalMemoryProperties, zeDeviceGetExternalMemoryProperties);
  FUNCTION(pfnGetP2PProperties, zeDeviceGetP2PProperties);
  FUNCTION(pfnCanAccessPeer, zeDeviceCanAccessPeer);
  FUNCTION(pfnGetStatus, zeDeviceGetStatus);
  FUNCTION(pfnGetGlobalTimestamps, zeDeviceGetGlobalTimestamps);
  UNSUPPORTED(pfnReserveCacheExt, zeDeviceReserveCacheExt);
  UNSUPPORTED(pfnSetCacheAdviceExt, zeDeviceSetCacheAdviceExt);
  FUNCTION(pfnPciGetPropertiesExt, zeDevicePciGetPropertiesExt);
END

TABLE(zeGetDeviceExpProcAddrTable, ze_device_exp_dditable_t)
  UNSUPPORTED(pfnGetFabricVertexExp, zeDeviceGetFabricVertexExp);
END

TABLE(zeGetContextProcAddrTable, ze_context_dditable_t)
  FUNCTION(pfnCreate, zeContextCreate);
  FUNCTION(pfnDestroy, zeContextDestroy);
  FUNCTION(pfnGetStatus, zeContextGetStatus);
  FUNCTION(pfnSystemBarrier, zeContextSystemBarrier);
  FUNCTION(pfnMakeMemoryResident, zeContextMakeMemoryResident);
  FUNCTION(pfnEvictMemory, zeContextEvictMemory);
  UNSUPPORTED(pfnMakeImageResident, zeContextMakeImageResident);
  UNSUPPORTED(pfnEvictImage, zeContextEvictImage);
  FUNCTION(pfnCreateEx, zeContextCreateEx);
END

TABLE(zeGetCommandQueueProcAddrTable, ze_command_queue_dditable_t)
  FUNCTION(pfnCreate, zeCommandQueueCreate);
  FUNCTION(pfnDestroy, zeCommandQueueDestroy);
  FUNCTION(pfnExecuteCommandLists, zeCommandQueueExecuteCommandLists);
  FUNCTION(pfnSynchronize, zeCommandQueueSynchronize);
END

TABLE(zeGetCommandListProcAddrTable, ze_command_list_dditable_t)
  FUNCTION(pfnCreate, zeCommandListCreate);
  FUNCTION(pfnCreateImmediate, zeCommandListCreateImmediate);
  FUNCTION(pfnDestroy, zeCommandListDestroy);
  FUNCTION(pfnClose, zeCommandListClose);
  FUNCTION(pfnReset, zeCommandListReset);
  FUNCTION(pfnAppendWriteGlobalTimestamp, zeCommandListAppendWriteGlobalTimestamp);
  FUNCTION(pfnAppendBarrier, zeCommandListAppendBarrier);
  FUNCTION(pfnAppendMemoryRangesBarrier, zeCommandListAppendMemoryRangesBarrier);
  FUNCTION(pfnAppendMemoryCopy, zeCommandListAppendMemoryCopy);
  FUNCTION(pfnAppendMemoryFill, zeCommandListAppendMemoryFill);
  FUNCTION(pfnAppendMemoryCopyRegion, zeCommandListAppendMemoryCopyRegion);
  FUNCTION(pfnAppendMemoryCopyFromContext, zeCommandListAppendMemoryCopyFromContext);
  UNSUPPORTED(pfnAppendImageCopy, zeCommandListAppendImageCopy);
  UNSUPPORTED(pfnAppendImageCopyRegion, zeCommandListAppendImageCopyRegion);
  UNSUPPORTED(pfnAppendImageCopyToMemory, zeCommandListAppendImageCopyToMemory);
  UNSUPPORTED(pfnAppendImageCopyFromMemory, zeCommandListAppendImageCopyFromMemory);
  FUNCTION(pfnAppendMemoryPrefetch, zeCommandListAppendMemoryPrefetch);
  FUNCTION(pfnAppendMemAdvise, zeCommandListAppendMemAdvise);
  FUNCTION(pfnAppendSignalEvent, zeCommandListAppendSignalEvent);
  FUNCTION(pfnAppendWaitOnEvents, zeCommandListAppendWaitOnEvents);
  FUNCTION(pfnAppendEventReset, zeCommandListAppendEventReset);
  FUNCTION(pfnAppendQueryKernelTimestamps, zeCommandListAppendQueryKernelTimestamps);
  FUNCTION(pfnAppendLaunchKernel, zeCommandListAppendLaunchKernel);
  UNSUPPORTED(pfnAppendLaunchCooperativeKernel, zeCommandListAppendLaunchCooperativeKernel);
  UNSUPPORTED(pfnAppendLaunchKernelIndirect, zeCommandListAppendLaunchKernelIndirect);
  UNSUPPORTED(pfnAppendLaunchMultipleKernelsIndirect, zeCommandListAppendLaunchMultipleKernelsIndirect);
  UNSUPPORTED(pfnAppendImageCopyToMemoryExt, zeCommandListAppendImageCopyToMemoryExt);
  UNSUPPORTED(pfnAppendImageCopyFromMemoryExt, zeCommandListAppendImageCopyFromMemoryExt);
END

TABLE(zeGetImageProcAddrTable, ze_image_dditable_t)
  UNSUPPORTED(pfnGetProperties, zeImageGetProperties);
  UNSUPPORTED(pfnCreate, zeImageCreate);
  UNSUPPORTED(pfnDestroy, zeImageDestroy);
  UNSUPPORTED(pfnGetAllocPropertiesExt, zeImageGetAllocPropertiesExt);
END

TABLE(zeGetImageExpProcAddrTable, ze_image_exp_dditable_t)
  UNSUPPORTED(pfnGetMemoryPropertiesExp, zeImageGetMemoryPropertiesExp);
  UNSUPPORTED(pfnViewCreateExp, zeImageViewCreateExp);
END

TABLE(zeGetFenceProcAddrTable, ze_fence_dditable_t)
  FUNCTION(pfnCreate, zeFenceCreate);
  FUNCTION(pfnDestroy, zeFenceDestroy);
  FUNCTION(pfnHostSynchronize, zeFenceHostSynchronize);
  FUNCTION(pfnQueryStatus, zeFenceQueryStatus);
  FUNCTION(pfnReset, zeFenceReset);
END

TABLE(zeGetEventPoolProcAddrTable, ze_event_pool_dditable_t)
  FUNCTION(pfnCreate, zeEventPoolCreate);
  FUNCTION(pfnDestroy, zeEventPoolDestroy);
  UNSUPPORTED(pfnGetIpcHandle, zeEventPoolGetIpcHandle);
  UNSUPPORTED(pfnOpenIpcHandle, zeEventPoolOpenIpcHandle);
  UNSUPPORTED(pfnCloseIpcHandle, zeEventPoolCloseIpcHandle);
END

TABLE(zeGetEventProcAddrTable, ze_event_dditable_t)
  FUNCTION(pfnCreate, zeEventCreate);
  FUNCTION(pfnDestroy, zeEventDestroy);
  FUNCTION(pfnHostSignal, zeEventHostSignal);
  FUNCTION(pfnHostSynchronize, zeEventHostSynchronize);
  FUNCTION(pfnQueryStatus, zeEventQueryStatus);
  FUNCTION(pfnHostReset, zeEventHostReset);
  FUNCTION(pfnQueryKernelTimestamp, zeEventQueryKernelTimestamp);
END

TABLE(zeGetEventExpProcAddrTable, ze_event_exp_dditable_t)
  UNSUPPORTED(pfnQueryTimestampsExp, zeEventQueryTimestampsExp);
END

TABLE(zeGetModuleProcAddrTable, ze_module_dditable_t)
  FUNCTION(pfnCreate, zeModuleCreate);
  FUNCTION(pfnDestroy, zeModuleDestroy);
  FUNCTION(pfnDynamicLink, zeModuleDynamicLink);
  UNSUPPORTED(pfnGetNativeBinary, zeModuleGetNativeBinary);
  UNSUPPORTED(pfnGetGlobalPointer, zeModuleGetGlobalPointer);
  FUNCTION(pfnGetKernelNames, zeModuleGetKernelNames);
  FUNCTION(pfnGetProperties, zeModuleGetProperties);
  UNSUPPORTED(pfnGetFunctionPointer, zeModuleGetFunctionPointer);
  UNSUPPORTED(pfnInspectLinkageExt, zeModuleInspectLinkageExt);
END

TABLE(zeGetModuleBuildLogProcAddrTable, ze_module_build_log_dditable_t)
  FUNCTION(pfnDestroy, zeModuleBuildLogDestroy);
  FUNCTION(pfnGetString, zeModuleBuildLogGetString);
END

TABLE(zeGetKernelProcAddrTable, ze_kernel_dditable_t)
  FUNCTION(pfnCreate, zeKernelCreate);
  FUNCTION(pfnDestroy, zeKernelDestroy);
  FUNCTION(pfnSetCacheConfig, zeKernelSetCacheConfig);
  FUNCTION(pfnSetGroupSize, zeKernelSetGroupSize);
  FUNCTION(pfnSuggestGroupSize, zeKernelSuggestGroupSize);
  UNSUPPORTED(pfnSuggestMaxCooperativeGroupCount, zeKernelSuggestMaxCooperativeGroupCount);
  FUNCTION(pfnSetArgumentValue, zeKernelSetArgumentValue);
  FUNCTION(pfnSetIndirectAccess, zeKernelSetIndirectAccess);
  FUNCTION(pfnGetIndirectAccess, zeKernelGetIndirectAccess);
  UNSUPPORTED(pfnGetSourceAttributes, zeKernelGetSourceAttributes);
  FUNCTION(pfnGetProperties, zeKernelGetProperties);
  FUNCTION(pfnGetName, zeKernelGetName);
END

TABLE(zeGetKernelExpProcAddrTable, ze_kernel_exp_dditable_t)
  UNSUPPORTED(pfnSetGlobalOffsetExp, zeKernelSetGlobalOffsetExp);
  UNSUPPORTED(pfnSchedulingHintExp, zeKernelSchedulingHintExp);
END

TABLE(zeGetSamplerProcAddrTable, ze_sampler_dditable_t)
  UNSUPPORTED(pfnCreate, zeSamplerCreate);
  UNSUPPORTED(pfnDestroy, zeSamplerDestroy);
END

TABLE(zeGetPhysicalMemProcAddrTable, ze_physical_mem_dditable_t)
  UNSUPPORTED(pfnCreate, zePhysicalMemCreate);
  UNSUPPORTED(pfnDestroy, zePhysicalMemDestroy);
END

TABLE(zeGetMemProcAddrTable, ze_mem_dditable_t)
  FUNCTION(pfnAllocShared, zeMemAllocShared);
  FUNCTION(pfnAllocDevice, zeMemAllocDevice);
  FUNCTION(pfnAllocHost, zeMemAllocHost);
  FUNCTION(pfnFree, zeMemFree);
  FUNCTION(pfnGetAllocProperties, zeMemGetAllocProperties);
  FUNCTION(pfnGetAddressRange, zeMemGetAddressRange);
  UNSUPPORTED(pfnGetIpcHandle, zeMemGetIpcHandle);
  UNSUPPORTED(pfnOpenIpcHandle, zeMemOpenIpcHandle);
  UNSUPPORTED(pfnCloseIpcHandle, zeMemCloseIpcHandle);
  UNSUPPORTED(pfnFreeExt, zeMemFreeExt);
END

TABLE(zeGetVirtualMemProcAddrTable, ze_virtual_mem_dditable_t)
  UNSUPPORTED(pfnReserve, zeVirtualMemReserve);
  UNSUPPORTED(pfnFree, zeVirtualMemFree);
  UNSUPPORTED(pfnQueryPageSize, zeVirtualMemQueryPageSize);
  UNSUPPORTED(pfnMap, zeVirtualMemMap);
  UNSUPPORTED(pfnUnmap, zeVirtualMemUnmap);
  UNSUPPORTED(pfnSetAccessAttribute, zeVirtualMemSetAccessAttribute);
  UNSUPPORTED(pfnGetAccessAttribute, zeVirtualMemGetAccessAttribute);
END

TABLE(zeGetFabricVertexExpProcAddrTable, ze_fabric_vertex_exp_dditable_t)
  UNSUPPORTED(pfnGetExp, zeFabricVertexGetExp);
  UNSUPPORTED(pfnGetSubVerticesExp, zeFabricVertexGetSubVerticesExp);
  UNSUPPORTED(pfnGetPropertiesExp, zeFabricVertexGetPropertiesExp);
  UNSUPPORTED(pfnGetDeviceExp, zeFabricVertexGetDeviceExp);
END

TABLE(zeGetFabricEdgeExpProcAddrTable, ze_fabric_edge_exp_dditable_t)
  UNSUPPORTED(pfnGetExp, zeFabricEdgeGetExp);
  UNSUPPORTED(pfnGetVerticesExp, zeFabricEdgeGetVerticesExp);
  UNSUPPORTED(pfnGetPropertiesExp, zeFabricEdgeGetPropertiesExp);
END

    // clang-format on
