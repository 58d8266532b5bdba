// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fake's entry, instances, devices and queues.
#include <algorithm>

#include "fake.h"
#include "heddle/code.h"
#include "heddle/sdk/negotiate.h"

namespace heddle::fake {

using sdk::guarded;
using sdk::status;

Device::Device(Instance* instance_, uint32_t ordinal_, const heddle_driver_api_t* api_)
    : sdk::DeviceRoot{}, instance(instance_), ordinal(ordinal_) {
  api = api_;
  host = instance_->host;
  who = "fake";
  spin_ns = 0;
  engine = std::make_unique<Engine>(this);
}

Device::~Device() {
  engine.reset();
  if (lost) host->status_free(host->self, lost);
}

void Device::lose(heddle_status_t* failure) noexcept {
  std::lock_guard<std::mutex> lock(lost_mutex);
  if (!lost) {
    lost = failure;
  } else {
    host->status_free(host->self, failure);
  }
}

heddle_status_t* Device::loss() noexcept {
  std::lock_guard<std::mutex> lock(lost_mutex);
  return host->status_clone(host->self, lost);
}

namespace {

heddle_status_t* check_ordinal(Instance* instance, uint32_t ordinal) {
  if (ordinal < instance->device_count) return nullptr;
  return status(instance->host, HEDDLE_STATUS_OUT_OF_RANGE, "fake: device %u failed: there are %u", ordinal, instance->device_count);
}

heddle_status_t* device_count(heddle_plugin_instance_t* handle, uint32_t* out) noexcept {
  *out = Instance::from(handle)->device_count;
  return nullptr;
}

heddle_status_t* device_describe(heddle_plugin_instance_t* handle, uint32_t ordinal, heddle_device_description_t* out) noexcept {
  Instance* instance = Instance::from(handle);
  return guarded(instance->host, "describing a device", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_ordinal(instance, ordinal)) return bad;
    static const std::vector<std::string> addresses = [] {
      std::vector<std::string> all;
      for (char digit : {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'})
        all.push_back(std::string("0000:f") + digit + ":00.0");
      return all;
    }();
    static const heddle_string_t formats[] = {sdk::string_of(HEDDLE_CODE_X86_64_ELF)};
    heddle_device_description_t description = {};
    description.ordinal = ordinal;
    description.name = sdk::string_of("fake GPU");
    description.family = sdk::string_of("cpu");  // it runs the CPU's programs
    description.pci = {addresses[ordinal].data(), addresses[ordinal].size()};
    description.numa_node = -1;
    description.features = HEDDLE_DEVICE_RECORDING | HEDDLE_DEVICE_TIMESTAMPS;
    description.memory_kinds = HEDDLE_MEMORY_DEVICE | HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED;
    description.compute_units = 1;
    description.memory_bytes = description.max_allocation_bytes = instance->memory_bytes;
    description.min_alignment_bytes = kBindingAlignment;
    description.max_workgroup_size = 1;
    description.subgroup_size = 1;
    description.shared_memory_bytes = instance->shared_bytes;
    for (uint32_t& most : description.max_workgroup_count) most = instance->max_grid;
    description.max_bindings = 256;
    description.max_constants_bytes = 4096;
    description.code_format_count = 1;
    description.code_formats = formats;
    std::fill(std::begin(description.uuid), std::end(description.uuid), static_cast<uint8_t>(0xfa + ordinal));
    sdk::write_struct(description, out);
    return nullptr;
  });
}

heddle_status_t* device_link(heddle_plugin_instance_t* handle, uint32_t a, uint32_t b, heddle_device_link_t* out) noexcept {
  Instance* instance = Instance::from(handle);
  return guarded(instance->host, "describing a link", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_ordinal(instance, std::max(a, b))) return bad;
    heddle_device_link_t link = {};
    link.kind = a == b ? HEDDLE_LINK_SAME_MEMORY : instance->peer ? HEDDLE_LINK_FABRIC : HEDDLE_LINK_NONE;
    link.peer_access = instance->peer;
    sdk::write_struct(link, out);
    return nullptr;
  });
}

heddle_status_t* device_open(heddle_plugin_instance_t* handle, uint32_t ordinal, const heddle_device_open_params_t* in,
                             heddle_device_t** out) noexcept {
  *out = nullptr;
  Instance* instance = Instance::from(handle);
  return guarded(instance->host, "opening a device", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_ordinal(instance, ordinal)) return bad;
    heddle_device_open_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(instance->host, "heddle_device_open_params_t", bad_byte);
    if (!params.api) return status(instance->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: opening device %u failed: no table", ordinal);
    *out = sdk::make<Device>(instance->host, instance, ordinal, params.api)->handle();
    instance->open_devices += 1;
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
      return status(instance->host, HEDDLE_STATUS_FAILED_PRECONDITION, "fake: closing device %u failed: %s still live [HD-L-01]",
                    device->ordinal, living);
    }
    sdk::unmake(instance->host, device);
    instance->open_devices -= 1;
    return nullptr;
  });
}

heddle_status_t* queue_create(heddle_device_t* handle, const heddle_queue_params_t* in, heddle_queue_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "creating a queue", [&]() -> heddle_status_t* {
    heddle_queue_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(device->host, "heddle_queue_params_t", bad_byte);
    if (params.priority > 1)
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: creating a queue failed: priority %u", params.priority);
    if (heddle_status_t* lost = device->loss()) return lost;
    *out = reinterpret_cast<heddle_queue_t*>(sdk::make<Queue>(device->host, Queue{device->api, device}));
    device->live.queues += 1;
    return nullptr;
  });
}

heddle_status_t* queue_destroy(heddle_queue_t* handle) noexcept {
  if (!handle) return nullptr;
  Queue* queue = Queue::from(handle);
  Device* device = queue->device;
  return guarded(device->host, "destroying a queue", [&]() -> heddle_status_t* {
    device->engine->drain(queue);
    sdk::unmake(device->host, queue);
    device->live.queues -= 1;
    return nullptr;
  });
}

heddle_status_t* device_statistics(heddle_device_t* handle, heddle_device_statistics_t* out) noexcept {
  const Device* device = Device::from(handle);
  heddle_device_statistics_t values = {
      0, 0, device->submissions, device->dispatches, device->copies, device->bytes_allocated, device->bytes_reserved};
  sdk::write_struct(values, out);
  return nullptr;
}

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

void read_option(const heddle_host_t* host, const char* name, auto* value) {
  heddle_option_t option = {};
  option.struct_size = sizeof option;
  if (heddle_status_t* missing = host->option(host->self, sdk::string_of(name), &option)) {
    host->status_free(host->self, missing);
  } else {
    *value = static_cast<std::remove_reference_t<decltype(*value)>>(option.int_value);
  }
}

// As a vendor's library that computes while it starts, without asking whose flags these are.
void start_library() noexcept {
  volatile double three = 3;
  [[maybe_unused]] const volatile double third = 1 / three;  // inexact
}

heddle_status_t* plugin_probe(const heddle_host_t* host, heddle_probe_result_t* out) noexcept {
  return guarded(host, "probing", [&]() -> heddle_status_t* {
    start_library();
    heddle_probe_result_t result = {};
    result.verdict = HEDDLE_PROBE_AVAILABLE;
    result.device_count = 1;
    read_option(host, "device_count", &result.device_count);
    sdk::write_struct(result, out);
    return nullptr;
  });
}

heddle_status_t* plugin_create(const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept {
  *out = nullptr;
  return guarded(host, "creating an instance", [&]() -> heddle_status_t* {
    auto* instance = sdk::make<Instance>(host);
    instance->host = host;
    read_option(host, "device_count", &instance->device_count);
    read_option(host, "seed", &instance->seed);
    read_option(host, "latency_us", &instance->latency_us);
    read_option(host, "batch_us", &instance->batch_us);
    read_option(host, "record", &instance->records);
    read_option(host, "exhausted_replays", &instance->exhausted_replays);
    read_option(host, "bad_byte", &instance->bad_byte);
    read_option(host, "memory", &instance->memory_bytes);
    read_option(host, "peer", &instance->peer);
    read_option(host, "peer_fault", &instance->peer_fault);
    read_option(host, "strict", &instance->strict);
    read_option(host, "pins", &instance->pins);
    read_option(host, "early_failures", &instance->early_failures);
    read_option(host, "aligned", &instance->aligned);
    read_option(host, "loss_code", &instance->loss_code);
    read_option(host, "shared", &instance->shared_bytes);
    read_option(host, "max_grid", &instance->max_grid);
    *out = reinterpret_cast<heddle_plugin_instance_t*>(instance);
    return nullptr;
  });
}

heddle_status_t* plugin_shutdown(heddle_plugin_instance_t* handle) noexcept {
  Instance* instance = Instance::from(handle);
  const heddle_host_t* host = instance->host;
  return guarded(host, "shutting down", [&]() -> heddle_status_t* {
    if (const uint64_t open = instance->open_devices) {
      return status(host, HEDDLE_STATUS_FAILED_PRECONDITION, "fake: shutting down failed: %llu devices are open [HD-L-01]", number(open));
    }
    sdk::unmake(host, instance);
    return nullptr;
  });
}

heddle_status_t* timeline_create(heddle_device_t* handle, uint64_t initial_value, heddle_timeline_t** out) noexcept {
  *out = nullptr;
  if (heddle_status_t* lost = Device::from(handle)->loss()) return lost;
  return sdk::host_timeline_interface()->create(handle, initial_value, out);
}

const heddle_timeline_interface_t* timeline_interface() noexcept {
  static const heddle_timeline_interface_t table = [] {
    heddle_timeline_interface_t made = *sdk::host_timeline_interface();
    made.create = timeline_create;
    return made;
  }();
  return &table;
}

const void* plugin_get_interface(heddle_plugin_instance_t*, heddle_string_t id) noexcept {
  const std::string_view wanted = sdk::view_of(id);
  if (wanted == HEDDLE_DEVICE_INTERFACE) return device_interface();
  if (wanted == HEDDLE_BUFFER_INTERFACE) return buffer_interface();
  if (wanted == HEDDLE_TRANSFER_INTERFACE) return transfer_interface();
  if (wanted == HEDDLE_PARAM_IO_INTERFACE) return param_io_interface();
  if (wanted == HEDDLE_DISPATCH_INTERFACE) return dispatch_interface();
  if (wanted == HEDDLE_TIMELINE_INTERFACE) return timeline_interface();
  if (wanted == HEDDLE_NATIVE_INTERFACE) return native_interface();
  if (wanted == HEDDLE_PROFILE_INTERFACE) return profile_interface();
  if (wanted == HEDDLE_BLOCKS_INTERFACE) return blocks_interface();
  return nullptr;
}

}  // namespace
}  // namespace heddle::fake

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  using namespace heddle;
  static const heddle_plugin_t plugin = {sizeof(heddle_plugin_t), HEDDLE_PLUGIN_DRIVER, {"test.fake_gpu", 13}, {"0.1.0", 5},
                                         fake::plugin_probe,      fake::plugin_create,  fake::plugin_shutdown, fake::plugin_get_interface};
  return sdk::negotiate(negotiation, "test.fake_gpu", &plugin);
}
