// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.device/1: enumerating, describing, opening and closing CUDA devices, and their loss.
#include "cuda/device.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>

#include "cuda/decoders.h"
#include "cuda/engine.h"
#include "cuda/queue.h"
#include "cuda/ring.h"
#include "cuda/staging.h"

namespace heddle::cuda {

using sdk::guarded;
using sdk::status;

namespace {

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
  out->multiprocessors = attribute(api, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  out->max_threads = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
  out->registers_per_block = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, device);
  out->warp = attribute(api, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);
  out->shared_bytes = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device);
  out->shared_optin_bytes = std::max(out->shared_bytes, attribute(api, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device));
  out->grid[0] = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, device);
  out->grid[1] = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, device);
  out->grid[2] = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, device);
  out->block[0] = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, device);
  out->block[1] = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, device);
  out->block[2] = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, device);
  out->memory_pools = attribute(api, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device) != 0;
  out->stream_memory_operations = attribute(api, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device) != 0;
  out->unified_addressing = attribute(api, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device) != 0;
  return CUDA_SUCCESS;
}

heddle_status_t* check_ordinal(Instance* instance, const char* what, uint32_t ordinal) {
  if (ordinal < instance->devices.size()) return nullptr;
  return status(instance->host, HEDDLE_STATUS_OUT_OF_RANGE,
                "cuda: %s device %u failed: there are %zu; check nvidia-smi and CUDA_VISIBLE_DEVICES", what, ordinal,
                instance->devices.size());
}

}  // namespace

heddle_status_t* find_devices(const heddle_host_t* host, const Api& api, std::vector<Facts>* out) {
  int count = 0;
  CUresult result = api.cuDeviceGetCount(&count);
  for (int i = 0; i < count && result == CUDA_SUCCESS; ++i) {
    out->emplace_back();
    result = read_facts(api, i, &out->back());
  }
  if (result != CUDA_SUCCESS) return cuda_status(host, api, code_of(result), result, "cuda: listing the devices failed");
  return nullptr;
}

Device::Device(Instance* instance_, uint32_t ordinal_, const heddle_driver_api_t* api_)
    : sdk::DeviceRoot{}, instance(instance_), ordinal(ordinal_), cuda(*instance_->api), serial([] {
        static std::atomic<uint64_t> opened{0};
        return ++opened;
      }()) {
  api = api_;
  host = instance_->host;
  who = "cuda";
  spin_ns = static_cast<uint32_t>(instance_->options.spin_ns);
}

heddle_status_t* Device::start() {
  const Facts& known = facts();
  if (!known.memory_pools || !known.stream_memory_operations || !known.unified_addressing) {
    return status(host, HEDDLE_STATUS_FAILED_PRECONDITION,
                  "cuda: opening device %u ('%s') failed: it lacks %s; use a newer device or another driver mode", ordinal,
                  known.name.c_str(),
                  !known.memory_pools               ? "memory pools"
                  : !known.stream_memory_operations ? "64-bit stream memory operations"
                                                    : "unified addressing");
  }
  auto say = [&](CUresult result, const char* what) {
    // There is one primary context per process, and it stays lost as long as it is retained.
    if (ends_context(result)) {
      return cuda_status(host, cuda, HEDDLE_STATUS_UNAVAILABLE, result,
                         "cuda: opening device %u ('%s') failed while %s: an earlier fault in this process ended its context; close every "
                         "handle of the device and open it again, or start a new process",
                         ordinal, known.name.c_str(), what);
    }
    return cuda_status(host, cuda, code_of(result), result, "cuda: opening device %u ('%s') failed while %s", ordinal, known.name.c_str(),
                       what);
  };
  CUcontext made = nullptr;
  if (CUresult bad = cuda.cuDevicePrimaryCtxRetain(&made, known.device)) return say(bad, "creating its context");
  context = made;
  ContextScope scope(this);
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {known.device}};
  if (CUresult bad = cuda.cuMemPoolCreate(&pool, &properties)) return say(bad, "creating its memory pool");
  cuuint64_t retain = instance->options.pool_retain_bytes;
  if (CUresult bad = cuda.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &retain)) return say(bad, "configuring its pool");
  if (CUresult bad = cuda.cuStreamCreateWithPriority(&allocation_stream, CU_STREAM_NON_BLOCKING, 0)) return say(bad, "creating a stream");
  staging = std::make_unique<Staging>(this);
  ring = std::make_unique<Ring>(this);
  engine = std::make_unique<Engine>(this);
  decoders = std::make_unique<Decoders>(this);
  return nullptr;
}

Device::~Device() {
  engine.reset();  // joins its threads
  if (context) {
    {
      ContextScope scope(this);
      ring.reset();
      staging.reset();
      decoders.reset();
      for (const Word& word : all_words) cuda.cuMemFreeHost(word.value);
      for (CUevent event : idle_events) cuda.cuEventDestroy(event);
      if (allocation_stream) cuda.cuStreamDestroy(allocation_stream);
      if (pool) cuda.cuMemPoolDestroy(pool);
    }
    cuda.cuDevicePrimaryCtxRelease(facts().device);
  }
  if (lost_status) host->status_free(host->self, lost_status);
}

void Device::introduce(Device* other) {
  if (other->context == context) return;
  std::lock_guard<std::mutex> lock(peers_mutex);
  if (std::find(peers.begin(), peers.end(), other->serial) != peers.end()) return;
  peers.push_back(other->serial);
  ContextScope scope(this);
  // The first is for separately allocated memory, the second for memory in the pool.
  CUresult result = cuda.cuCtxEnablePeerAccess(other->context, 0);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) {
    CUmemAccessDesc access = {};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {facts().device}};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result = cuda.cuMemPoolSetAccess(other->pool, &access, 1);
  }
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuda.cuGetErrorName(result, &name);
  char text[200];
  const int size = std::snprintf(text, sizeof text, "cuda: copies of device %u to and from device %u go through host memory: %s", ordinal,
                                 other->ordinal, name ? name : "CUDA does not let it reach that memory");
  host->log(host->self, HEDDLE_LOG_WARN, sdk::string_of("device.cpp"), 0,
            {text, static_cast<uint64_t>(std::min<int>(size, sizeof text - 1))});
}

std::vector<Suspect> Device::suspects() {
  std::vector<Suspect> found;
  std::lock_guard<std::mutex> lock(queues_mutex);
  for (Queue* queue : queues) queue->list_suspects(&found);
  return found;
}

heddle_status_t* Device::failed(CUresult result, const char* what) noexcept {
  std::string where;
  std::vector<Suspect> kernels;
  if (ends_context(result)) {
    if (heddle_status_t* known = loss()) return known;
    try {
      // A queue other than the one that reports may have caused the fault; CUDA does not tell which.
      kernels = suspects();
      std::vector<std::string> names;
      for (const Suspect& kernel : kernels) {
        if (std::find(names.begin(), names.end(), kernel.name) == names.end()) names.push_back(kernel.name);
      }
      constexpr size_t kMost = 6;
      for (size_t i = 0; i < names.size() && i < kMost; ++i) {
        where += (i ? ", '" : names.size() == 1 ? " in kernel '" : " in one of the kernels '") + names[i] + "'";
      }
      if (names.size() > kMost) where += " and " + std::to_string(names.size() - kMost) + " others";
    } catch (...) {
      where = " (no memory to say in which kernel)";
    }
  }
  heddle_status_t* failure = cuda_status(host, cuda, code_of(result), result, "cuda: %s on device %u ('%s') failed%s", what, ordinal,
                                         facts().name.c_str(), where.c_str());
  if (!ends_context(result)) return failure;
  const bool is_one = !kernels.empty() && std::all_of(kernels.begin(), kernels.end(),
                                                      [&](const Suspect& kernel) { return kernel.region == kernels.front().region; });
  if (is_one) sdk::set_region(host, failure, kernels.front().region);
  lose(failure);
  return loss();
}

void Device::lose(heddle_status_t* failure) noexcept {
  {
    std::lock_guard<std::mutex> lock(lost_mutex);
    if (!lost_status) {
      lost_status = failure;
      failure = nullptr;
      lost_flag.store(true, std::memory_order_release);
    }
  }
  if (failure) host->status_free(host->self, failure);
}

heddle_status_t* Device::loss() noexcept {
  if (!is_lost()) [[likely]]
    return nullptr;
  std::lock_guard<std::mutex> lock(lost_mutex);
  return host->status_clone(host->self, lost_status);
}

bool Device::poll() noexcept {
  bool any = false;
  std::unique_lock<std::mutex> lock(queues_mutex);
  for (size_t i = 0; i < queues.size(); ++i) {
    Queue* queue = queues[i];
    if (!queue->has_news()) continue;
    queue->pin();  // delays its destruction
    lock.unlock();
    any |= queue->retire();
    queue->unpin();
    lock.lock();
  }
  return any;
}

void Device::check() noexcept {
  if (is_lost()) return;
  CUresult result = CUDA_SUCCESS;
  {
    ContextScope scope(this);
    std::lock_guard<std::mutex> lock(queues_mutex);
    for (Queue* queue : queues) {
      result = queue->ask();
      if (ends_context(result)) break;
    }
  }
  if (ends_context(result)) host->status_free(host->self, failed(result, "running work"));
}

namespace {

heddle_status_t* device_count(heddle_plugin_instance_t* handle, uint32_t* out_count) noexcept {
  *out_count = static_cast<uint32_t>(Instance::from(handle)->devices.size());
  return nullptr;
}

heddle_status_t* device_describe(heddle_plugin_instance_t* handle, uint32_t ordinal, heddle_device_description_t* out) noexcept {
  Instance* instance = Instance::from(handle);
  return guarded(instance->host, "describing a device", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_ordinal(instance, "describing", ordinal)) return bad;
    static const heddle_string_t formats[] = {sdk::string_of(HEDDLE_CODE_CUBIN), sdk::string_of(HEDDLE_CODE_PTX)};
    const Facts& facts = instance->devices[ordinal];
    heddle_device_description_t description = {};
    description.ordinal = ordinal;
    description.name = sdk::string_of(facts.name);
    description.family = sdk::string_of("cuda");
    description.pci = sdk::string_of(facts.pci);
    std::memcpy(description.uuid, facts.uuid, sizeof description.uuid);
    description.numa_node = facts.numa_node;
    description.features = HEDDLE_DEVICE_TIMESTAMPS | (instance->options.graphs ? HEDDLE_DEVICE_RECORDING : 0);
    description.memory_kinds = HEDDLE_MEMORY_DEVICE | HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED;
    description.compute_units = static_cast<uint32_t>(facts.multiprocessors);
    description.memory_bytes = facts.memory_bytes;
    description.max_allocation_bytes = facts.memory_bytes;
    description.min_alignment_bytes = kAlignment;
    description.shared_memory_bytes = static_cast<uint64_t>(facts.shared_optin_bytes);
    description.registers_per_thread = 255;
    description.max_workgroup_size = static_cast<uint32_t>(facts.max_threads);
    description.subgroup_size = static_cast<uint32_t>(facts.warp);
    for (int i = 0; i < 3; ++i) description.max_workgroup_count[i] = static_cast<uint32_t>(facts.grid[i]);
    description.max_bindings = kMaxBindings;
    description.max_constants_bytes = kMaxConstantsBytes;
    description.code_format_count = 2;
    description.code_formats = formats;
    sdk::write_struct(description, out);
    return nullptr;
  });
}

heddle_status_t* device_link(heddle_plugin_instance_t* handle, uint32_t a, uint32_t b, heddle_device_link_t* out) noexcept {
  Instance* instance = Instance::from(handle);
  return guarded(instance->host, "describing a link", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_ordinal(instance, "describing the link of", std::max(a, b))) return bad;
    heddle_device_link_t link = {};
    if (a == b) {
      link.kind = HEDDLE_LINK_SAME_MEMORY;
      link.peer_access = 1;
    } else {
      const CUdevice from = instance->devices[a].device, to = instance->devices[b].device;
      int access = 0, native = 0;
      instance->api->cuDeviceCanAccessPeer(&access, from, to);
      // Native atomics between two devices are supported over NVLink, but not over PCI.
      instance->api->cuDeviceGetP2PAttribute(&native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, from, to);
      link.kind = !access ? HEDDLE_LINK_NONE : native ? HEDDLE_LINK_FABRIC : HEDDLE_LINK_PCI;
      link.peer_access = access ? 1 : 0;
    }
    sdk::write_struct(link, out);
    return nullptr;
  });
}

heddle_status_t* device_open(heddle_plugin_instance_t* handle, uint32_t ordinal, const heddle_device_open_params_t* in,
                             heddle_device_t** out) noexcept {
  *out = nullptr;
  Instance* instance = Instance::from(handle);
  return guarded(instance->host, "opening a device", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_ordinal(instance, "opening", ordinal)) return bad;
    heddle_device_open_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(instance->host, "heddle_device_open_params_t", bad_byte);
    if (!params.api) {
      return status(instance->host, HEDDLE_STATUS_INVALID_ARGUMENT, "cuda: opening device %u failed: no table [HD-H-01]", ordinal);
    }
    auto* device = sdk::make<Device>(instance->host, instance, ordinal, params.api);
    heddle_status_t* bad;
    try {
      bad = device->start();
    } catch (...) {
      sdk::unmake(instance->host, device);
      throw;
    }
    if (bad) {
      sdk::unmake(instance->host, device);
      return bad;
    }
    instance->open_devices.fetch_add(1);
    *out = device->handle();
    return nullptr;
  });
}

heddle_status_t* device_close(heddle_device_t* handle) noexcept {
  if (!handle) return nullptr;
  Device* device = Device::from(handle);
  Instance* instance = device->instance;
  return guarded(instance->host, "closing a device", [&]() -> heddle_status_t* {
    if (device->live.any()) {
      char living[160];
      device->live.describe(living, sizeof living);
      return status(instance->host, HEDDLE_STATUS_FAILED_PRECONDITION, "cuda: closing device %u failed: %s still live [HD-L-01]",
                    device->ordinal, living);
    }
    sdk::unmake(instance->host, device);
    instance->open_devices.fetch_sub(1);
    return nullptr;
  });
}

heddle_status_t* device_statistics(heddle_device_t* handle, heddle_device_statistics_t* out) noexcept {
  Device* device = Device::from(handle);
  const Counters& counters = device->counters;
  heddle_device_statistics_t values = {};
  values.submissions = counters.submissions;
  values.dispatches = counters.dispatches;
  values.copies = counters.copies;
  values.bytes_allocated = counters.bytes_allocated;
  // Memory beyond the allocated bytes: CUDA's pool, rounding, and the driver's own pinned staging memory.
  cuuint64_t reserved = 0;
  if (!device->is_lost()) {
    ContextScope scope(device);
    device->cuda.cuMemPoolGetAttribute(device->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
  }
  const uint64_t given = counters.pool_bytes;
  values.bytes_reserved =
      counters.bytes_overhead + (reserved > given ? reserved - given : 0) + device->staging->bytes_held() + device->ring->bytes_held();
  sdk::write_struct(values, out);
  return nullptr;
}

}  // namespace

const heddle_device_interface_t* device_interface() noexcept {
  static const heddle_device_interface_t table = {sizeof(heddle_device_interface_t),
                                                  0,
                                                  device_count,
                                                  device_describe,
                                                  device_link,
                                                  device_open,
                                                  device_close,
                                                  queue_create,
                                                  queue_destroy,
                                                  device_statistics};
  return &table;
}

}  // namespace heddle::cuda
