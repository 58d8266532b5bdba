// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry of heddle.cuda: the facts about its devices, instances, the plugin's table.
#include <algorithm>
#include <cctype>
#include <fstream>

#include "cuda/backend.h"
#include "heddle/code.h"
#include "heddle/sdk/stream/driver.h"

namespace heddle::cuda {

std::span<const stream::BlockCode> block_codes();  // made when the plugin is built

namespace {

constexpr stream::Vendor kVendor = {
    .id = "heddle.cuda",
    .version = "0.1.0",
    .who = "cuda",
    .name = "CUDA",
    .family = "cuda",
    .look = "check nvidia-smi and CUDA_VISIBLE_DEVICES",
    .streams = "use a stream of the CUDA runtime, or of the primary context, on this device",
};
constexpr heddle_string_t kCodeFormats[] = {sdk::string_of(HEDDLE_CODE_CUBIN), sdk::string_of(HEDDLE_CODE_PTX)};

int attribute(const Api& api, CUdevice_attribute which, CUdevice device) {
  int value = 0;
  return api.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

// The device's NUMA node from the kernel; CUDA's own query is newer than the oldest supported driver.
int numa_node_of(std::string pci) {
  std::transform(pci.begin(), pci.end(), pci.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::ifstream file("/sys/bus/pci/devices/" + pci + "/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

// "00000000:01:00.0" and "0000:01:00.0" both occur; the kernel's form has four digits.
std::string kernel_pci(const char* text) {
  std::string pci = text;
  if (pci.size() == 16) pci = pci.substr(4);
  std::transform(pci.begin(), pci.end(), pci.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return pci;
}

CUresult read_facts(const Api& api, int ordinal, Facts* out) {
  if (CUresult bad = api.cuDeviceGet(&out->device, ordinal)) return bad;
  const CUdevice device = out->device;
  char text[256] = {};
  if (CUresult bad = api.cuDeviceGetName(text, sizeof text - 1, device)) return bad;
  out->name = text;
  CUuuid uuid;
  if (api.cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS) std::memcpy(out->uuid, uuid.bytes, sizeof out->uuid);
  char pci[32] = {};
  if (api.cuDeviceGetPCIBusId(pci, sizeof pci - 1, device) == CUDA_SUCCESS) {
    out->pci = kernel_pci(pci);
    out->numa_node = numa_node_of(out->pci);
  }
  size_t memory = 0;
  if (CUresult bad = api.cuDeviceTotalMem(&memory, device)) return bad;
  out->memory_bytes = memory;
  out->capability = attribute(api, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) * 10 +
                    attribute(api, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  out->level = "compute capability " + std::to_string(out->capability / 10) + "." + std::to_string(out->capability % 10);
  out->compute_units = attribute(api, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  out->max_threads = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
  out->registers_per_thread = 255;
  out->subgroup_size = attribute(api, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);
  out->plain_shared_bytes = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device);
  out->shared_bytes = std::max(out->plain_shared_bytes, attribute(api, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device));
  out->grid[0] = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, device);
  out->grid[1] = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, device);
  out->grid[2] = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, device);
  out->block[0] = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, device);
  out->block[1] = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, device);
  out->block[2] = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, device);
  out->lack = !attribute(api, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device)          ? "memory pools"
              : !attribute(api, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device) ? "64-bit stream memory operations"
              : !attribute(api, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device)            ? "unified addressing"
                                                                                           : nullptr;
  return CUDA_SUCCESS;
}

class Instance : public stream::Instance {
 public:
  Instance(const heddle_host_t* its_host, const Api& api) noexcept : stream::Instance(its_host, kVendor), cuda_(api) {}

  // The facts that enumeration reports. [may-block]
  CUresult find_devices() {
    int count = 0;
    CUresult result = cuda_.cuDeviceGetCount(&count);
    facts_.reserve(static_cast<size_t>(std::max(count, 0)));
    for (int i = 0; i < count && result == CUDA_SUCCESS; ++i) {
      result = read_facts(cuda_, i, &facts_.emplace_back());
      devices.push_back(&facts_.back());
    }
    return result;
  }

  std::span<const heddle_string_t> code_formats() const noexcept override { return kCodeFormats; }
  const char* lack(uint32_t ordinal) const override { return facts_[ordinal].lack; }
  std::unique_ptr<stream::Backend> make_backend(uint32_t ordinal) override { return std::make_unique<Backend>(cuda_, facts_[ordinal]); }

  heddle_device_link_t link(uint32_t a, uint32_t b) const override {
    const CUdevice from = facts_[a].device, to = facts_[b].device;
    int access = 0, native = 0;
    cuda_.cuDeviceCanAccessPeer(&access, from, to);
    // Native atomics between two devices are supported over NVLink, but not over PCI.
    cuda_.cuDeviceGetP2PAttribute(&native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, from, to);
    heddle_device_link_t link = {};
    link.kind = !access ? HEDDLE_LINK_NONE : native ? HEDDLE_LINK_FABRIC : HEDDLE_LINK_PCI;
    link.peer_access = access ? 1 : 0;
    return link;
  }

 private:
  const Api& cuda_;
  std::vector<Facts> facts_;
};

// The library, which find() has opened.
const Api& loaded() {
  const Api* api = nullptr;
  load_api(&api);
  return *api;
}

heddle_status_t* failed(const heddle_host_t* host, const Api& api, CUresult result, const char* what) {
  const char *name = nullptr, *text = nullptr;
  api.cuGetErrorName(result, &name);
  api.cuGetErrorString(result, &text);
  return stream::result_status(host, kVendor.who, code_of(result), result, name, text, "%s failed", what);
}

heddle_status_t* count(const heddle_host_t* host, uint32_t* out) {
  int count = 0;
  const CUresult counted = loaded().cuDeviceGetCount(&count);
  *out = static_cast<uint32_t>(count);
  return counted == CUDA_SUCCESS ? nullptr : failed(host, loaded(), counted, "counting devices");
}

heddle_status_t* create(const heddle_host_t* host, stream::Instance** out) {
  auto* instance = sdk::make<Instance>(host, host, loaded());
  CUresult result = CUDA_SUCCESS;
  try {
    result = instance->find_devices();
  } catch (...) {
    sdk::unmake(host, instance);
    throw;
  }
  if (result != CUDA_SUCCESS) {
    sdk::unmake(host, instance);
    return failed(host, loaded(), result, "listing the devices");
  }
  *out = instance;
  return nullptr;
}

stream::Found find() {
  const Api* ignored = nullptr;
  return load_api(&ignored);
}

constexpr stream::Plugin kPlugin = {kVendor, find, count, create, nullptr, block_codes};

}  // namespace
}  // namespace heddle::cuda

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  return heddle::sdk::stream::enter<heddle::cuda::kPlugin>(negotiation);
}
