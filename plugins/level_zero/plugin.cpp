// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry of heddle.level_zero: what its devices are, instances, the plugin's table.
#include <algorithm>
#include <cstdio>
#include <fstream>

#include "heddle/code.h"
#include "heddle/sdk/options.h"
#include "level_zero/backend.h"

namespace heddle::level_zero {

std::span<const stream::BlockCode> block_codes();  // made when the plugin is built

namespace {

constexpr stream::Vendor kVendor = {
    .id = "heddle.level_zero",
    .version = "0.1.0",
    .who = "level_zero",
    .name = "Level Zero",
    .family = "level_zero",
    .look = "check sycl-ls, ZE_AFFINITY_MASK and /dev/dri/renderD*",
    .streams = "use a command list of this device",
};
constexpr heddle_string_t kFormats[] = {sdk::string_of(HEDDLE_CODE_SPIRV)};

int clamped(uint64_t value) {
  return static_cast<int>(std::min<uint64_t>(value, INT32_MAX));
}

// Of the kernel's form, "0000:03:00.0", and the memory node that the kernel names there; neither if the driver does not tell.
void read_pci(const Api& api, Facts* out) {
  auto properties = structure<ze_pci_ext_properties_t>(ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES);
  if (!api.zeDevicePciGetPropertiesExt || api.zeDevicePciGetPropertiesExt(out->place.device, &properties) != ZE_RESULT_SUCCESS) return;
  const ze_pci_address_ext_t& at = properties.address;
  char text[48];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", at.domain, at.bus, at.device, at.function);
  out->pci = text;
  int node = -1;
  if (std::ifstream file("/sys/bus/pci/devices/" + out->pci + "/numa_node"); file >> node) out->numa_node = node;
}

ze_result_t read_memory(const Api& api, Facts* out) {
  uint32_t count = 0;
  if (const ze_result_t bad = api.zeDeviceGetMemoryProperties(out->place.device, &count, nullptr)) return bad;
  std::vector<ze_device_memory_properties_t> memories(count,
                                                      structure<ze_device_memory_properties_t>(ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES));
  if (count) {
    if (const ze_result_t bad = api.zeDeviceGetMemoryProperties(out->place.device, &count, memories.data())) return bad;
  }
  for (uint32_t i = 0; i < count; ++i) out->memory_bytes += memories[i].totalSize;
  auto access = structure<ze_device_memory_access_properties_t>(ZE_STRUCTURE_TYPE_DEVICE_MEMORY_ACCESS_PROPERTIES);
  if (const ze_result_t bad = api.zeDeviceGetMemoryAccessProperties(out->place.device, &access)) return bad;
  if (!(access.deviceAllocCapabilities & ZE_MEMORY_ACCESS_CAP_FLAG_RW)) out->lack = "memory of its own (device allocations)";
  if (!(access.hostAllocCapabilities & ZE_MEMORY_ACCESS_CAP_FLAG_RW)) out->lack = "access to memory of the host (host allocations)";
  out->reaches_all_memory = (access.sharedSystemAllocCapabilities & ZE_MEMORY_ACCESS_CAP_FLAG_RW) != 0;
  return ZE_RESULT_SUCCESS;
}

// The first group of queues that run kernels, which copy as well.
ze_result_t read_queues(const Api& api, Facts* out) {
  uint32_t count = 0;
  if (const ze_result_t bad = api.zeDeviceGetCommandQueueGroupProperties(out->place.device, &count, nullptr)) return bad;
  std::vector<ze_command_queue_group_properties_t> groups(
      count, structure<ze_command_queue_group_properties_t>(ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES));
  if (count) {
    if (const ze_result_t bad = api.zeDeviceGetCommandQueueGroupProperties(out->place.device, &count, groups.data())) return bad;
  }
  constexpr uint32_t kBoth = ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE | ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY;
  for (uint32_t i = 0; i < count; ++i) {
    if ((groups[i].flags & kBoth) != kBoth || groups[i].numQueues == 0 || groups[i].maxMemoryFillPatternSize < 4) continue;
    out->queue_group = i;
    return ZE_RESULT_SUCCESS;
  }
  out->lack = "a queue that runs kernels, copies, and fills with patterns of 4 bytes";
  return ZE_RESULT_SUCCESS;
}

// Whether the driver has the extension with which the threads of a subgroup exchange values.
ze_result_t read_subgroups(const Api& api, Facts* out) {
  uint32_t count = 0;
  if (const ze_result_t bad = api.zeDriverGetExtensionProperties(out->place.driver, &count, nullptr)) return bad;
  std::vector<ze_driver_extension_properties_t> extensions(count);
  if (count) {
    if (const ze_result_t bad = api.zeDriverGetExtensionProperties(out->place.driver, &count, extensions.data())) return bad;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const std::string_view name(extensions[i].name, strnlen(extensions[i].name, sizeof extensions[i].name));
    if (name == "ZE_extension_subgroups") out->has_subgroups_of_32 = out->subgroup_size == 32 && out->spirv_version >= 0x10300;
  }
  return ZE_RESULT_SUCCESS;
}

ze_result_t read_limits(const Api& api, Facts* out) {
  auto compute = structure<ze_device_compute_properties_t>(ZE_STRUCTURE_TYPE_DEVICE_COMPUTE_PROPERTIES);
  if (const ze_result_t bad = api.zeDeviceGetComputeProperties(out->place.device, &compute)) return bad;
  out->max_threads = clamped(compute.maxTotalGroupSize);
  out->shared_bytes = clamped(compute.maxSharedLocalMemory);
  const uint32_t sizes[3] = {compute.maxGroupSizeX, compute.maxGroupSizeY, compute.maxGroupSizeZ};
  const uint32_t counts[3] = {compute.maxGroupCountX, compute.maxGroupCountY, compute.maxGroupCountZ};
  for (int i = 0; i < 3; ++i) {
    out->block[i] = clamped(sizes[i]);
    out->grid[i] = clamped(counts[i]);
  }
  // 32, or the largest. The compiler of the driver chooses one for each kernel that does not say.
  const uint32_t known = std::min<uint32_t>(compute.numSubGroupSizes, ZE_SUBGROUPSIZE_COUNT);
  for (uint32_t i = 0; i < known; ++i) {
    if (out->subgroup_size != 32)
      out->subgroup_size = compute.subGroupSizes[i] == 32 ? 32 : std::max(out->subgroup_size, clamped(compute.subGroupSizes[i]));
  }

  auto modules = structure<ze_device_module_properties_t>(ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES);
  if (const ze_result_t bad = api.zeDeviceGetModuleProperties(out->place.device, &modules)) return bad;
  out->spirv_version = ZE_MAJOR_VERSION(modules.spirvVersionSupported) << 16 | ZE_MINOR_VERSION(modules.spirvVersionSupported) << 8;
  out->has_half = (modules.flags & ZE_DEVICE_MODULE_FLAG_FP16) != 0;
  out->has_double = (modules.flags & ZE_DEVICE_MODULE_FLAG_FP64) != 0;
  out->has_dots = (modules.flags & ZE_DEVICE_MODULE_FLAG_DP4A) != 0;
  out->has_int64_atomics = (modules.flags & ZE_DEVICE_MODULE_FLAG_INT64_ATOMICS) != 0;
  if (const ze_result_t bad = read_subgroups(api, out)) return bad;
  if (modules.maxArgumentsSize < 2048) out->lack = "room for 2,048 bytes of arguments";
  if (modules.spirvVersionSupported == 0) out->lack = "a compiler for SPIR-V";
  return ZE_RESULT_SUCCESS;
}

ze_result_t read_facts(const Api& api, const Place& place, Facts* out) {
  out->place = place;
  auto properties = structure<ze_device_properties_t>(ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2);  // with the clock in cycles per second
  if (const ze_result_t bad = api.zeDeviceGetProperties(place.device, &properties)) return bad;
  properties.name[ZE_MAX_DEVICE_NAME - 1] = '\0';
  out->name = properties.name;
  static_assert(sizeof properties.uuid.id == sizeof out->uuid);
  std::memcpy(out->uuid, properties.uuid.id, sizeof out->uuid);
  out->largest_allocation = properties.maxMemAllocSize;
  out->timer_hz = properties.timerResolution;
  out->timer_mask = properties.timestampValidBits >= 64 ? UINT64_MAX : (uint64_t{1} << properties.timestampValidBits) - 1;
  out->compute_units = clamped(uint64_t{properties.numSlices} * properties.numSubslicesPerSlice);
  if (const ze_result_t bad = read_memory(api, out)) return bad;
  if (const ze_result_t bad = read_queues(api, out)) return bad;
  if (const ze_result_t bad = read_limits(api, out)) return bad;
  read_pci(api, out);
  ze_api_version_t version = {};
  if (const ze_result_t bad = api.zeDriverGetApiVersion(place.driver, &version)) return bad;
  out->level = "Level Zero " + std::to_string(ZE_MAJOR_VERSION(version)) + "." + std::to_string(ZE_MINOR_VERSION(version)) + ", SPIR-V " +
               std::to_string(out->spirv_version >> 16) + "." + std::to_string(out->spirv_version >> 8 & 0xff);
  return ZE_RESULT_SUCCESS;
}

class Instance : public stream::Instance {
 public:
  Instance(const heddle_host_t* its_host, const Api& api) noexcept : stream::Instance(its_host, kVendor), api_(api) { has_graphs = false; }

  heddle_status_t* start();

  std::span<const heddle_string_t> code_formats() const noexcept override { return kFormats; }
  const char* lack(uint32_t ordinal) const override { return facts_[ordinal].lack; }
  std::unique_ptr<stream::Backend> make_backend(uint32_t ordinal) override {
    return std::make_unique<Backend>(api_, facts_, settings_, ordinal);
  }

  heddle_device_link_t link(uint32_t a, uint32_t b) const override {
    heddle_device_link_t found = {};
    found.kind = HEDDLE_LINK_NONE;
    const Place &one = facts_[a].place, &other = facts_[b].place;
    ze_bool_t reaches = false;
    if (one.driver != other.driver || api_.zeDeviceCanAccessPeer(one.device, other.device, &reaches) != ZE_RESULT_SUCCESS || !reaches)
      return found;
    auto properties = structure<ze_device_p2p_properties_t>(ZE_STRUCTURE_TYPE_DEVICE_P2P_PROPERTIES);
    api_.zeDeviceGetP2PProperties(one.device, other.device, &properties);
    // Tiles of a card and cards on Xe Link have atomics between them, PCI has not.
    found.kind = properties.flags & ZE_DEVICE_P2P_PROPERTY_FLAG_ATOMICS ? HEDDLE_LINK_FABRIC : HEDDLE_LINK_PCI;
    found.peer_access = 1;
    return found;
  }

 private:
  const Api& api_;
  Settings settings_;
  std::vector<Facts> facts_;
};

heddle_status_t* failed(const heddle_host_t* host, ze_result_t result, const char* what) {
  return stream::result_status(host, kVendor.who, code_of(result), result, name_of(result), text_of(result), "%s failed", what);
}

// [may-block]
heddle_status_t* Instance::start() {
  if (heddle_status_t* bad = sdk::read_option(host, kVendor.who, "immediate_lists", &settings_.immediate)) return bad;
  std::vector<Place> places;
  if (const ze_result_t bad = list_devices(api_, &places)) return failed(host, bad, "listing the devices");
  facts_.resize(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    if (const ze_result_t bad = read_facts(api_, places[i], &facts_[i])) return failed(host, bad, "reading the properties of a device");
    devices.push_back(&facts_[i]);
  }
  return nullptr;
}

// The loader, which find() has opened.
const Api& opened() {
  const Api* api = nullptr;
  open_loader(&api);
  return *api;
}

heddle_status_t* count(const heddle_host_t* host, uint32_t* out) {
  std::vector<Place> places;
  const ze_result_t listed = list_devices(opened(), &places);
  *out = static_cast<uint32_t>(places.size());
  return listed == ZE_RESULT_SUCCESS ? nullptr : failed(host, listed, "counting devices");
}

heddle_status_t* create(const heddle_host_t* host, stream::Instance** out) {
  struct Holder {
    const heddle_host_t* host;
    Instance* instance;
    ~Holder() {
      if (instance) sdk::unmake(host, instance);
    }
  } holder{host, sdk::make<Instance>(host, host, opened())};
  if (heddle_status_t* bad = holder.instance->start()) return bad;
  *out = holder.instance;
  holder.instance = nullptr;
  return nullptr;
}

stream::Found find() {
  const Api* unused = nullptr;
  return open_loader(&unused);
}

constexpr stream::Plugin kPlugin = {kVendor, find, count, create, nullptr, block_codes};

}  // namespace
}  // namespace heddle::level_zero

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  return heddle::sdk::stream::enter<heddle::level_zero::kPlugin>(negotiation);
}
