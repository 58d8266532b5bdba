// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of Level Zero's loader that this driver calls. They are looked up in libze_loader.so.1 when the plugin is probed or created; nothing
// links to them (HD-B-02). Used by every file of the driver.
#ifndef HEDDLE_LEVEL_ZERO_API_H_
#define HEDDLE_LEVEL_ZERO_API_H_

#include <level_zero/ze_api.h>
// After it.
#include <level_zero/loader/ze_loader.h>

#include <vector>

#include "heddle/sdk/stream/driver.h"

namespace heddle::level_zero {

namespace stream = sdk::stream;

// All are of version 1.1 of the API, which every loader since 2021 has.
// clang-format off
#define HEDDLE_LEVEL_ZERO_FUNCTIONS(X)                                                                                                 \
  X(zeInit) X(zeDriverGet) X(zeDriverGetApiVersion) X(zeDriverGetExtensionFunctionAddress) X(zeDriverGetExtensionProperties)                                             \
  X(zeDeviceGet) X(zeDeviceGetSubDevices) X(zeDeviceGetProperties) X(zeDeviceGetComputeProperties) X(zeDeviceGetModuleProperties)       \
  X(zeDeviceGetCommandQueueGroupProperties) X(zeDeviceGetMemoryProperties) X(zeDeviceGetMemoryAccessProperties)                        \
  X(zeDeviceGetP2PProperties) X(zeDeviceCanAccessPeer) X(zeDeviceGetStatus)                                                            \
  X(zeContextCreate) X(zeContextDestroy)                                                                                               \
  X(zeCommandQueueCreate) X(zeCommandQueueDestroy) X(zeCommandQueueExecuteCommandLists) X(zeCommandQueueSynchronize)                   \
  X(zeCommandListCreate) X(zeCommandListCreateImmediate) X(zeCommandListDestroy) X(zeCommandListClose) X(zeCommandListReset)           \
  X(zeCommandListAppendBarrier) X(zeCommandListAppendLaunchKernel) X(zeCommandListAppendMemoryCopy)                                    \
  X(zeCommandListAppendMemoryCopyRegion) X(zeCommandListAppendMemoryFill) X(zeCommandListAppendWriteGlobalTimestamp)                   \
  X(zeEventPoolCreate) X(zeEventPoolDestroy) X(zeEventCreate) X(zeEventDestroy) X(zeEventHostReset) X(zeEventHostSynchronize)          \
  X(zeEventQueryStatus)                                                                                                                \
  X(zeMemAllocDevice) X(zeMemAllocHost) X(zeMemFree) X(zeMemGetAllocProperties)                                                        \
  X(zeModuleCreate) X(zeModuleDestroy) X(zeModuleBuildLogGetString) X(zeModuleBuildLogDestroy)                                         \
  X(zeKernelCreate) X(zeKernelDestroy) X(zeKernelGetProperties) X(zeKernelSetGroupSize) X(zeKernelSetArgumentValue)
// clang-format on
// NULL in a loader that does not have them.
#define HEDDLE_LEVEL_ZERO_LATER_FUNCTIONS(X) X(zeDevicePciGetPropertiesExt) X(zelLoaderTranslateHandle)

struct Api {
#define X(name) decltype(&::name) name = nullptr;
  HEDDLE_LEVEL_ZERO_FUNCTIONS(X)
  HEDDLE_LEVEL_ZERO_LATER_FUNCTIONS(X)
#undef X
};

// A device and the driver that shows it.
struct Place {
  ze_driver_handle_t driver = nullptr;
  ze_device_handle_t device = nullptr;
};

// Opens the loader, once per process, and initializes the GPUs' drivers.
stream::Found open_loader(const Api** out);
// The devices, in the order of their ordinals: what the drivers show, which ZE_AFFINITY_MASK and ZE_FLAT_DEVICE_HIERARCHY change. If the latter is
// FLAT or COMBINED and a driver is too old to know it, the sub-devices of a device take its place.
ze_result_t list_devices(const Api& api, std::vector<Place>* out);
// The driver's own handle, which differs from the loader's if the loader has several drivers. NULL if the loader cannot tell.
ze_driver_handle_t own_handle(const Api& api, ze_driver_handle_t driver) noexcept;

// A structure that a call fills in, or that describes what it makes.
template <typename T>
T structure(ze_structure_type_t type) noexcept {
  T made = {};
  made.stype = type;
  return made;
}

}  // namespace heddle::level_zero
#endif  // HEDDLE_LEVEL_ZERO_API_H_
