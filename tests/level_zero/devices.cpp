// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Drivers, devices and their properties, and contexts. The numbers are those of a GPU with 64 processors; what they promise is kept.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/level_zero/engine.h"

using namespace heddle::level_zero_stand_in;

namespace heddle::level_zero_stand_in {

namespace {

// What ZE_AFFINITY_MASK leaves: "1", "0.1", "0,1.0". With a flat hierarchy, a number is that of a sub-device.
struct Affinity {
  bool all = true;
  std::set<std::pair<uint32_t, int>> parts;  // -1: the whole device
};

Affinity read_affinity() {
  Affinity result;
  const std::string& mask = settings().affinity;
  if (mask.empty()) return result;
  result.all = false;
  for (size_t at = 0; at < mask.size();) {
    const size_t end = std::min(mask.find(',', at), mask.size());
    unsigned device = 0;
    int part = -1;
    char rest = 0;
    const std::string one = mask.substr(at, end - at);
    const int fields = sscanf(one.c_str(), "%u.%d%c", &device, &part, &rest);
    if (fields < 1 || fields > 2) fprintf(stderr, "level_zero stand-in: ZE_AFFINITY_MASK has '%s', which is ignored\n", one.c_str());
    if (fields == 1 || fields == 2) result.parts.emplace(device, fields == 2 ? part : -1);
    at = end + 1;
  }
  return result;
}

}  // namespace

std::string Device::name() const {
  std::string text = "Stand-in for an Intel GPU on " + executor_facts().name;
  return text.substr(0, ZE_MAX_DEVICE_NAME - 1);
}

// All devices, and those that the application sees.
static void make_devices(Driver& driver) {
  const Settings& s = settings();
  const Affinity affinity = read_affinity();
  uint32_t flat_number = 0;
  for (uint32_t i = 0; i < s.devices; ++i) {
    driver.all.push_back(std::make_unique<Device>(nullptr, i, -1));
    Device* root = driver.all.back().get();
    std::vector<Device*> parts;
    for (uint32_t p = 0; p < s.sub_devices; ++p) {
      driver.all.push_back(std::make_unique<Device>(root, i, static_cast<int>(p)));
      Device* part = driver.all.back().get();
      const bool seen = affinity.all || affinity.parts.count({s.flat ? flat_number : i, -1}) != 0 ||
                        (!s.flat && affinity.parts.count({i, static_cast<int>(p)}) != 0);
      ++flat_number;
      if (seen) parts.push_back(part);
    }
    if (s.sub_devices == 0) {
      if (affinity.all || affinity.parts.count({i, -1}) != 0) driver.devices.push_back(root);
    } else if (s.flat || parts.size() == 1) {
      driver.devices.insert(driver.devices.end(), parts.begin(), parts.end());
    } else if (!parts.empty()) {
      for (Device* part : parts) part->is_sub_device = true;
      root->parts = parts;
      driver.devices.push_back(root);
    }
  }
}

// The protocol of counts: *count is what there is if it was 0 or more; else as many as it says are written.
template <class T, class Write>
static ze_result_t enumerate(const std::vector<T>& all, uint32_t* count, bool has_place, Write write) {
  const auto available = static_cast<uint32_t>(all.size());
  if (*count == 0 || *count > available) *count = available;
  if (has_place) {
    for (uint32_t i = 0; i < *count; ++i) write(i, all[i]);
  }
  return ZE_RESULT_SUCCESS;
}

// Whether threads of a subgroup can exchange values. Intel's runtime takes SPIR-V 1.3, and PoCL has no subgroups.
static bool has_subgroups() {
  return executor_facts().takes_spirv;
}

static ze_device_handle_t handle_of(Device* device) {
  return reinterpret_cast<ze_device_handle_t>(static_cast<Object*>(device));
}

}  // namespace heddle::level_zero_stand_in

ze_result_t zeInit(ze_init_flags_t flags) {
  const Lock lock(state().mutex);
  if (flags > 0x3) return ZE_RESULT_ERROR_INVALID_ENUMERATION;
  if (settings().init_result != 0) return static_cast<ze_result_t>(settings().init_result);
  if (flags == ZE_INIT_FLAG_VPU_ONLY) return ZE_RESULT_ERROR_UNINITIALIZED;
  if (state().initialized) return ZE_RESULT_SUCCESS;
  if (!executor_facts().reason.empty()) {
    fprintf(stderr, "level_zero stand-in: opening an OpenCL device failed: %s\n", executor_facts().reason.c_str());
    return ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE;
  }
  make_devices(state().driver);
  ticks_now();
  state().initialized = true;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDriverGet(uint32_t* pCount, ze_driver_handle_t* phDrivers) {
  const Lock lock(state().mutex);
  if (!state().initialized) return ZE_RESULT_ERROR_UNINITIALIZED;
  const std::vector<Driver*> drivers = {&state().driver};
  return enumerate(drivers, pCount, phDrivers != nullptr,
                   [&](uint32_t i, Driver* driver) { phDrivers[i] = reinterpret_cast<ze_driver_handle_t>(static_cast<Object*>(driver)); });
}

ze_result_t zeDriverGetApiVersion(ze_driver_handle_t, ze_api_version_t* version) {
  *version = ZE_API_VERSION_CURRENT;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDriverGetProperties(ze_driver_handle_t, ze_driver_properties_t* pDriverProperties) {
  memcpy(pDriverProperties->uuid.id, "heddle stand-in", 16);
  pDriverProperties->driverVersion = 1;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDriverGetIpcProperties(ze_driver_handle_t, ze_driver_ipc_properties_t* pIpcProperties) {
  pIpcProperties->flags = 0;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDriverGetExtensionProperties(ze_driver_handle_t, uint32_t* pCount, ze_driver_extension_properties_t* pExtensionProperties) {
  std::vector<const char*> names = {ZE_PCI_PROPERTIES_EXT_NAME};
  if (has_subgroups()) names.push_back(ZE_SUBGROUPS_EXT_NAME);
  return enumerate(names, pCount, pExtensionProperties != nullptr, [&](uint32_t i, const char* name) {
    snprintf(pExtensionProperties[i].name, sizeof pExtensionProperties[i].name, "%s", name);
    pExtensionProperties[i].version = ZE_MAKE_VERSION(1, 0);
  });
}

// Drivers are asked for functions that not all of them have, so this is no event.
ze_result_t zeDriverGetExtensionFunctionAddress(ze_driver_handle_t, const char* name, void** ppFunctionAddress) {
  *ppFunctionAddress = settings().imports ? import_function(name) : nullptr;
  return *ppFunctionAddress == nullptr ? ZE_RESULT_ERROR_INVALID_ARGUMENT : ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGet(ze_driver_handle_t hDriver, uint32_t* pCount, ze_device_handle_t* phDevices) {
  const Lock lock(state().mutex);
  auto* driver = object_of<Driver>(hDriver);
  if (driver == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  return enumerate(driver->devices, pCount, phDevices != nullptr, [&](uint32_t i, Device* device) { phDevices[i] = handle_of(device); });
}

ze_result_t zeDeviceGetSubDevices(ze_device_handle_t hDevice, uint32_t* pCount, ze_device_handle_t* phSubdevices) {
  const Lock lock(state().mutex);
  auto* device = object_of<Device>(hDevice);
  if (device == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  return enumerate(device->parts, pCount, phSubdevices != nullptr, [&](uint32_t i, Device* part) { phSubdevices[i] = handle_of(part); });
}

ze_result_t zeDeviceGetProperties(ze_device_handle_t hDevice, ze_device_properties_t* p) {
  const Lock lock(state().mutex);
  auto* device = object_of<Device>(hDevice);
  if (device == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const bool in_hertz = p->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2;
  p->type = ZE_DEVICE_TYPE_GPU;
  p->vendorId = 0x8086;
  p->deviceId = 0x0bd5;
  p->flags = device->is_sub_device ? ZE_DEVICE_PROPERTY_FLAG_SUBDEVICE : 0;
  p->subdeviceId = device->is_sub_device ? static_cast<uint32_t>(device->part) : 0;
  p->coreClockRate = 1000;
  p->maxMemAllocSize = device->largest_allocation();
  p->maxHardwareContexts = 1024;
  p->maxCommandQueuePriority = 0;
  p->numThreadsPerEU = 8;
  p->physicalEUSimdWidth = 16;
  p->numEUsPerSubslice = 8;
  p->numSubslicesPerSlice = 8;
  p->numSlices = device->parts.empty() ? 1 : static_cast<uint32_t>(device->parts.size());
  p->timerResolution = in_hertz ? kTicksPerSecond : 1'000'000'000 / kTicksPerSecond;
  p->timestampValidBits = kTimestampBits;
  p->kernelTimestampValidBits = kKernelTimestampBits;
  memset(p->uuid.id, 0, sizeof p->uuid.id);
  memcpy(p->uuid.id, "\x86\x80\xd5\x0b", 4);
  p->uuid.id[8] = static_cast<uint8_t>(device->index + 1);
  p->uuid.id[15] = static_cast<uint8_t>(device->part + 1);
  snprintf(p->name, sizeof p->name, "%s", device->name().c_str());
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGetComputeProperties(ze_device_handle_t, ze_device_compute_properties_t* p) {
  const auto threads = static_cast<uint32_t>(std::min<uint64_t>(1024, executor_facts().most_threads));
  p->maxTotalGroupSize = p->maxGroupSizeX = p->maxGroupSizeY = p->maxGroupSizeZ = threads;
  p->maxGroupCountX = p->maxGroupCountY = p->maxGroupCountZ = UINT32_MAX;
  p->maxSharedLocalMemory = settings().local_bytes;
  memset(p->subGroupSizes, 0, sizeof p->subGroupSizes);
  p->numSubGroupSizes = 2;
  p->subGroupSizes[0] = 16;
  p->subGroupSizes[1] = 32;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGetModuleProperties(ze_device_handle_t, ze_device_module_properties_t* p) {
  constexpr ze_device_fp_flags_t rounding =
      ZE_DEVICE_FP_FLAG_DENORM | ZE_DEVICE_FP_FLAG_INF_NAN | ZE_DEVICE_FP_FLAG_ROUND_TO_NEAREST | ZE_DEVICE_FP_FLAG_FMA;
  p->spirvVersionSupported = ZE_MAKE_VERSION(1, has_subgroups() ? 3 : 2);
  p->flags = ZE_DEVICE_MODULE_FLAG_FP16 | ZE_DEVICE_MODULE_FLAG_INT64_ATOMICS;
  if (settings().doubles) p->flags |= ZE_DEVICE_MODULE_FLAG_FP64;
  if (settings().dots) p->flags |= ZE_DEVICE_MODULE_FLAG_DP4A;
  p->fp16flags = rounding;
  p->fp32flags = rounding;
  p->fp64flags = settings().doubles ? rounding : 0;
  p->maxArgumentsSize = 2048;
  p->printfBufferSize = 0;
  memset(&p->nativeKernelSupported, 0, sizeof p->nativeKernelSupported);
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGetCommandQueueGroupProperties(ze_device_handle_t, uint32_t* pCount, ze_command_queue_group_properties_t* p) {
  const std::vector<bool> computes = {true, false};
  return enumerate(computes, pCount, p != nullptr, [&](uint32_t i, bool compute) {
    p[i].flags = ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY | (compute ? ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE : 0);
    p[i].maxMemoryFillPatternSize = compute ? 128 : 16;
    p[i].numQueues = compute ? 4 : 2;
  });
}

ze_result_t zeDeviceGetMemoryProperties(ze_device_handle_t hDevice, uint32_t* pCount, ze_device_memory_properties_t* p) {
  const Lock lock(state().mutex);
  auto* device = object_of<Device>(hDevice);
  if (device == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const std::vector<uint64_t> sizes = {device->memory_bytes()};
  return enumerate(sizes, pCount, p != nullptr, [&](uint32_t i, uint64_t size) {
    p[i].flags = 0;
    p[i].maxClockRate = 3200;
    p[i].maxBusWidth = 1024;
    p[i].totalSize = size;
    snprintf(p[i].name, sizeof p[i].name, "HBM");
  });
}

ze_result_t zeDeviceGetMemoryAccessProperties(ze_device_handle_t, ze_device_memory_access_properties_t* p) {
  constexpr ze_memory_access_cap_flags_t all = ZE_MEMORY_ACCESS_CAP_FLAG_RW | ZE_MEMORY_ACCESS_CAP_FLAG_ATOMIC;
  p->hostAllocCapabilities = p->deviceAllocCapabilities = p->sharedSingleDeviceAllocCapabilities = all;
  p->sharedCrossDeviceAllocCapabilities = ZE_MEMORY_ACCESS_CAP_FLAG_RW;
  p->sharedSystemAllocCapabilities = settings().pageable ? all : 0;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGetCacheProperties(ze_device_handle_t, uint32_t* pCount, ze_device_cache_properties_t* p) {
  const std::vector<size_t> sizes = {size_t{32} << 20};
  return enumerate(sizes, pCount, p != nullptr, [&](uint32_t i, size_t size) {
    p[i].flags = 0;
    p[i].cacheSize = size;
  });
}

ze_result_t zeDeviceGetImageProperties(ze_device_handle_t, ze_device_image_properties_t* p) {
  p->maxImageDims1D = p->maxImageDims2D = p->maxImageDims3D = p->maxImageArraySlices = 0;
  p->maxImageBufferSize = 0;
  p->maxSamplers = p->maxReadImageArgs = p->maxWriteImageArgs = 0;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGetExternalMemoryProperties(ze_device_handle_t, ze_device_external_memory_properties_t* p) {
  p->memoryAllocationImportTypes = p->memoryAllocationExportTypes = p->imageImportTypes = p->imageExportTypes = 0;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGetP2PProperties(ze_device_handle_t hDevice, ze_device_handle_t hPeerDevice, ze_device_p2p_properties_t* p) {
  ze_bool_t reaches = 0;
  const ze_result_t result = zeDeviceCanAccessPeer(hDevice, hPeerDevice, &reaches);
  p->flags = reaches ? ZE_DEVICE_P2P_PROPERTY_FLAG_ACCESS : 0;
  return result;
}

ze_result_t zeDeviceCanAccessPeer(ze_device_handle_t hDevice, ze_device_handle_t hPeerDevice, ze_bool_t* value) {
  const Lock lock(state().mutex);
  auto* device = object_of<Device>(hDevice);
  auto* peer = object_of<Device>(hPeerDevice);
  if (device == nullptr || peer == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *value = device->root == peer->root || settings().peers;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGetStatus(ze_device_handle_t hDevice) {
  const Lock lock(state().mutex);
  auto* device = object_of<Device>(hDevice);
  if (device == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  return device->root->lost ? state().loss : ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGetGlobalTimestamps(ze_device_handle_t hDevice, uint64_t* hostTimestamp, uint64_t* deviceTimestamp) {
  const Lock lock(state().mutex);
  auto* device = object_of<Device>(hDevice);
  if (device == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (device->root->lost) return state().loss;
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  *hostTimestamp = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  *deviceTimestamp = ticks_now() & ((uint64_t{1} << kTimestampBits) - 1);
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDevicePciGetPropertiesExt(ze_device_handle_t hDevice, ze_pci_ext_properties_t* p) {
  const Lock lock(state().mutex);
  auto* device = object_of<Device>(hDevice);
  if (device == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  p->address = {0, 0x3a + device->index, 0, 0};
  p->maxSpeed = {5, 16, int64_t{64} << 30};
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeContextCreate(ze_driver_handle_t hDriver, const ze_context_desc_t* desc, ze_context_handle_t* phContext) {
  return zeContextCreateEx(hDriver, desc, 0, nullptr, phContext);
}

ze_result_t zeContextCreateEx(ze_driver_handle_t hDriver, const ze_context_desc_t*, uint32_t numDevices, ze_device_handle_t* phDevices,
                              ze_context_handle_t* phContext) {
  const Lock lock(state().mutex);
  if (object_of<Driver>(hDriver) == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  auto* context = new Context();
  for (uint32_t i = 0; i < numDevices; ++i) {
    auto* device = object_of<Device>(phDevices[i]);
    if (device == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  *phContext = reinterpret_cast<ze_context_handle_t>(static_cast<Object*>(context));
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeContextDestroy(ze_context_handle_t hContext) {
  const Lock lock(state().mutex);
  auto* context = object_of<Context>(hContext);
  if (context == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  for (const auto& [address, memory] : state().memory) {
    if (memory->context == context) {
      broken_rule(memory->device,
                  "a context is destroyed before its memory, such as the allocation of " + std::to_string(memory->size) + " bytes");
      break;
    }
  }
  context->destroyed = true;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeContextGetStatus(ze_context_handle_t hContext) {
  const Lock lock(state().mutex);
  if (object_of<Context>(hContext) == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  for (const auto& device : state().driver.all) {
    if (device->lost) return state().loss;
  }
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeContextSystemBarrier(ze_context_handle_t, ze_device_handle_t) {
  return ZE_RESULT_SUCCESS;
}
