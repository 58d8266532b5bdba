// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.device/1: enumerating, opening and closing logical CPU devices.
#include "cpu/device.h"

#include <sys/mman.h>
#include <sys/platform/x86.h>

#include <algorithm>
#include <cstdlib>

#include "cpu/queue.h"
#include "cpu/topology.h"
#include "heddle/ext/library.h"

namespace heddle::cpu {

using sdk::guarded;
using sdk::status;

uint32_t x86_64_level() noexcept {
  // The C library's record of what the processor has and the system saves, without CPUID, which is slow in a virtual machine.
  if (!CPU_FEATURE_ACTIVE(AVX2) || !CPU_FEATURE_ACTIVE(FMA) || !CPU_FEATURE_ACTIVE(F16C) || !CPU_FEATURE_ACTIVE(MOVBE) ||
      !CPU_FEATURE_ACTIVE(BMI1) || !CPU_FEATURE_ACTIVE(BMI2) || !CPU_FEATURE_ACTIVE(LZCNT))
    return 0;
  const bool has_v4 = CPU_FEATURE_ACTIVE(AVX512F) && CPU_FEATURE_ACTIVE(AVX512DQ) && CPU_FEATURE_ACTIVE(AVX512CD) &&
                      CPU_FEATURE_ACTIVE(AVX512BW) && CPU_FEATURE_ACTIVE(AVX512VL);
  return has_v4 ? 4 : 3;
}

Workspace::~Workspace() {
  if (data_) munmap(data_, bytes_);
}

bool Workspace::reserve(uint64_t bytes) noexcept {
  if (bytes <= bytes_) [[likely]]
    return true;
  constexpr uint64_t kPage = 4096;
  if (bytes > UINT64_MAX / 2) return false;
  const uint64_t whole = (bytes + kPage - 1) / kPage * kPage;
  void* data = data_ ? mremap(data_, bytes_, whole, MREMAP_MAYMOVE)
                     : mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return false;
  data_ = data;
  bytes_ = whole;
  return true;
}

uint32_t Instance::most_threads(size_t cores) const noexcept {
  return threads_within(limits, options.device_count, options.threads, cores);
}

uint64_t Instance::memory_bytes() const noexcept {
  return std::min(limits.memory_bytes, physical_memory_bytes());
}

namespace {

// Empty if the node of one of the processors is unknown.
std::vector<uint32_t> numa_nodes_of(const std::vector<NodeCpus>& cpus) {
  std::vector<uint32_t> nodes;
  for (const NodeCpus& one : cpus) {
    if (one.node < 0) return {};
    nodes.push_back(static_cast<uint32_t>(one.node));
  }
  return nodes;
}

}  // namespace

Device::Device(Instance* instance_, uint32_t ordinal_, const heddle_driver_api_t* api_, std::vector<uint32_t> cpus, uint32_t threads,
               bool claimed, CoreClaims claims_, bool shares)
    : sdk::DeviceRoot{},
      instance(instance_),
      ordinal(ordinal_),
      memory_bytes(instance_->memory_bytes()),
      numa_nodes(numa_nodes_of(by_numa_node(cpus, instance_->nodes))),
      claims(std::move(claims_)),
      workers(std::move(cpus), threads, claimed, instance_->options.spin_ns, shares),
      workspaces(new Workspace[workers.places()]),
      steady_files(instance_->host) {
  api = api_;
  host = instance_->host;
  who = "cpu";
  DeviceRoot::help = cpu::help;
  spin_ns = allowed_cpus().size() > 1 ? 20000 : 0;
}

Device::~Device() {
  delete spare_workspace.load();
}

namespace {

heddle_status_t* check_ordinal(Instance* instance, const char* what, uint32_t ordinal) {
  if (ordinal < instance->device_cpus.size()) return nullptr;
  return status(instance->host, HEDDLE_STATUS_OUT_OF_RANGE,
                "cpu: %s device %u failed: there are %zu (0 to %zu); raise device_count of heddle.cpu", what, ordinal,
                instance->device_cpus.size(), instance->device_cpus.size() - 1);
}

heddle_status_t* device_count(heddle_plugin_instance_t* handle, uint32_t* out_count) noexcept {
  Instance* instance = Instance::from(handle);
  *out_count = static_cast<uint32_t>(instance->device_cpus.size());
  return nullptr;
}

heddle_status_t* device_describe(heddle_plugin_instance_t* handle, uint32_t ordinal, heddle_device_description_t* out) noexcept {
  Instance* instance = Instance::from(handle);
  return guarded(instance->host, "describing a device", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_ordinal(instance, "describing", ordinal)) return bad;
    static const heddle_string_t formats[] = {sdk::string_of(HEDDLE_CODE_X86_64_ELF)};
    heddle_device_description_t description = {};
    description.ordinal = ordinal;
    description.name = sdk::string_of(instance->name);
    description.family = sdk::string_of("cpu");
    const std::vector<uint32_t> nodes = numa_nodes_of(by_numa_node(instance->device_cpus[ordinal], instance->nodes));
    description.numa_node = nodes.size() == 1 ? static_cast<int32_t>(nodes[0]) : -1;
    description.features = HEDDLE_DEVICE_UNIFIED_MEMORY | HEDDLE_DEVICE_TIMESTAMPS;
    description.memory_kinds = HEDDLE_MEMORY_DEVICE | HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED;
    description.compute_units = instance->most_threads(instance->device_cpus[ordinal].size());
    description.memory_bytes = description.max_allocation_bytes = instance->memory_bytes();
    description.min_alignment_bytes = kAlignment;
    description.max_workgroup_size = 1;
    description.subgroup_size = 1;
    for (uint32_t& most : description.max_workgroup_count) most = kMaxGrid;
    description.max_bindings = kMaxBindings;
    description.max_constants_bytes = kMaxConstantsBytes;
    description.code_format_count = 1;
    description.code_formats = formats;
    description.operation_target = sdk::string_of(HEDDLE_LIBRARY_TARGET_HOST);
    sdk::write_struct(description, out);
    return nullptr;
  });
}

heddle_status_t* device_link(heddle_plugin_instance_t* handle, uint32_t a, uint32_t b, heddle_device_link_t* out) noexcept {
  Instance* instance = Instance::from(handle);
  return guarded(instance->host, "describing a link", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_ordinal(instance, "describing a link of", a)) return bad;
    if (heddle_status_t* bad = check_ordinal(instance, "describing a link of", b)) return bad;
    heddle_device_link_t link = {};
    link.kind = HEDDLE_LINK_SAME_MEMORY;
    link.peer_access = 1;
    sdk::write_struct(link, out);
    return nullptr;
  });
}

// The cores of the ordinal that remain after applying open's params.
heddle_status_t* choose_cpus(Instance* instance, uint32_t ordinal, const heddle_device_open_params_t& params, std::vector<uint32_t>* out) {
  const std::vector<uint32_t> allowed = allowed_cpus();
  auto keep_allowed = [&](const std::vector<uint32_t>& wanted) {
    out->clear();
    std::set_intersection(wanted.begin(), wanted.end(), allowed.begin(), allowed.end(), std::back_inserter(*out));
  };
  *out = instance->device_cpus[ordinal];
  const std::string_view cpus = sdk::view_of(params.cpus);
  std::vector<uint32_t> wanted;
  if (params.numa_node >= 0) {
    std::string reason;
    if (!cpus_of_numa_node(params.numa_node, &wanted, &reason)) {
      return status(instance->host, HEDDLE_STATUS_NOT_FOUND, "cpu: opening device %u on NUMA node %d failed: %s", ordinal, params.numa_node,
                    reason.c_str());
    }
    keep_allowed(one_per_core(wanted));
  }
  if (!cpus.empty()) {
    if (!parse_cpu_list(cpus, &wanted)) {
      return status(instance->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "cpu: opening device %u with cpus \"%.*s\" failed: not a list of processors; write e.g. \"0-3,8\"", ordinal,
                    static_cast<int>(std::min<size_t>(cpus.size(), 200)), cpus.data());
    }
    if (params.numa_node >= 0) {
      std::vector<uint32_t> both;
      std::set_intersection(wanted.begin(), wanted.end(), out->begin(), out->end(), std::back_inserter(both));
      wanted = both;
    }
    keep_allowed(wanted);
  }
  if (out->empty()) {
    return status(instance->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "cpu: opening device %u with cpus \"%.*s\" failed: this process may run on none of them; see taskset or "
                  "the container's cpuset",
                  ordinal, static_cast<int>(std::min<size_t>(cpus.size(), 200)), cpus.data());
  }
  return nullptr;
}

heddle_status_t* device_open(heddle_plugin_instance_t* handle, uint32_t ordinal, const heddle_device_open_params_t* in,
                             heddle_device_t** out) noexcept {
  *out = nullptr;
  Instance* instance = Instance::from(handle);
  return guarded(instance->host, "opening a device", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_ordinal(instance, "opening", ordinal)) return bad;
    heddle_device_open_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) {
      return sdk::tail_status(instance->host, "heddle_device_open_params_t", bad_byte);
    }
    if (!params.api) {
      return status(instance->host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: opening device %u failed: params.api is NULL [HD-H-01]", ordinal);
    }
    std::vector<uint32_t> cpus;
    if (heddle_status_t* bad = choose_cpus(instance, ordinal, params, &cpus)) return bad;
    const uint32_t threads = instance->most_threads(cpus.size());
    // A device that gets only a part of the processors' time shares them with others, which may pin to the same cores.
    const bool limited = instance->limits.processor_thousandths / 1000 < allowed_cpus().size();
    CoreClaims claims;
    std::vector<uint32_t> claimed;
    if (instance->options.pin && !limited) claimed = claims.take(joined(by_numa_node(cpus, instance->nodes)), threads);
    const bool pinned = !claimed.empty();
    if (pinned) cpus = std::move(claimed);
    std::sort(cpus.begin(), cpus.end());
    // A device with fewer threads than processors leaves it to the system where they run.
    const bool shares = instance->options.share && !limited && threads == cpus.size();
    *out = sdk::make<Device>(instance->host, instance, ordinal, params.api, std::move(cpus), threads, pinned, std::move(claims), shares)
               ->handle();
    instance->open_devices.fetch_add(1);
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
      return status(instance->host, HEDDLE_STATUS_FAILED_PRECONDITION,
                    "cpu: closing device %u failed: %s still live; free them first [HD-L-01]", device->ordinal, living);
    }
    sdk::unmake(instance->host, device);
    instance->open_devices.fetch_sub(1);
    return nullptr;
  });
}

heddle_status_t* device_statistics(heddle_device_t* handle, heddle_device_statistics_t* out) noexcept {
  Device* device = Device::from(handle);
  heddle_device_statistics_t statistics = {};
  statistics.submissions = device->counters.submissions.load();
  statistics.dispatches = device->counters.dispatches.load();
  statistics.copies = device->counters.copies.load();
  statistics.bytes_allocated = device->counters.bytes_allocated.load();
  statistics.bytes_reserved = device->counters.bytes_reserved.load();
  sdk::write_struct(statistics, out);
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
                                                  sdk::destroy_queue<Queue>,
                                                  device_statistics};
  return &table;
}

}  // namespace heddle::cpu
