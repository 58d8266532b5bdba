// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Base classes of a driver: instances, devices and buffers, and their tables.
#include <algorithm>

#include "heddle/sdk/driver.h"
#include "heddle/sdk/driver_parts.h"
#include "heddle/sdk/host_timeline.h"

namespace heddle::sdk {

heddle_device_link_t Driver::link(uint32_t, uint32_t) {
  heddle_device_link_t link = {};
  link.kind = HEDDLE_LINK_NONE;
  return link;
}

heddle_status_t* shut_down(heddle_plugin_instance_t* handle) noexcept {
  Driver* driver = Driver::from(handle);
  const heddle_host_t* host = driver->host();
  return guarded(host, "shutting down", [&]() -> heddle_status_t* {
    if (const uint64_t open = driver->open_devices.load()) {
      return status(host, HEDDLE_STATUS_FAILED_PRECONDITION,
                    "%s: shutting down failed: %llu device%s still open; close them first [HD-L-01]", driver->who(), number(open),
                    open == 1 ? " is" : "s are");
    }
    unmake(host, driver);
    return nullptr;
  });
}

const void* driver_interface(heddle_string_t id) noexcept {
  const std::string_view wanted = view_of(id);
  if (wanted == HEDDLE_DEVICE_INTERFACE) return device_interface();
  if (wanted == HEDDLE_BUFFER_INTERFACE) return buffer_interface();
  if (wanted == HEDDLE_TRANSFER_INTERFACE) return transfer_interface();
  if (wanted == HEDDLE_PARAM_IO_INTERFACE) return param_io_interface();
  if (wanted == HEDDLE_DISPATCH_INTERFACE) return dispatch_interface();
  if (wanted == HEDDLE_TIMELINE_INTERFACE) return timeline_interface();
  return nullptr;
}

Device::Device(Driver* its_driver, uint32_t its_ordinal, const heddle_driver_api_t* its_api)
    : DeviceRoot{}, driver(its_driver), ordinal(its_ordinal), limits{} {
  api = its_api;
  host = its_driver->host();
  who = its_driver->who();
  if (heddle_status_t* failed = driver->describe(ordinal, &limits)) host->status_free(host->self, failed);  // open has already described it
}

Device::~Device() {
  if (lost_) host->status_free(host->self, lost_);
}

heddle_status_t* Device::import_host(void*, uint64_t size_bytes, Buffer**) {
  return status(host, HEDDLE_STATUS_UNIMPLEMENTED, "%s: importing %llu bytes of host memory failed: device %u cannot reach it", who,
                number(size_bytes), ordinal);
}

heddle_status_t* Device::portable_parts(const heddle_portable_query_t&, const std::function<void(const heddle_portable_part_t&)>&) {
  return status(host, HEDDLE_STATUS_UNIMPLEMENTED, "%s: telling how portable code runs failed: this driver interprets all of it", who);
}

heddle_status_t* Device::write(Buffer*, uint64_t, const char*, uint64_t length) {
  return status(host, HEDDLE_STATUS_UNIMPLEMENTED, "%s: writing %llu bytes failed: this driver has no sdk::Device::write", who,
                number(length));
}

heddle_status_t* Device::read(Buffer*, uint64_t, char*, uint64_t length) {
  return status(host, HEDDLE_STATUS_UNIMPLEMENTED, "%s: reading %llu bytes failed: this driver has no sdk::Device::read", who,
                number(length));
}

void Device::lose(heddle_status_t* failure) noexcept {
  std::lock_guard<std::mutex> lock(lost_mutex_);
  if (lost_) return host->status_free(host->self, failure);
  lost_ = failure;
  is_lost_.store(true, std::memory_order_release);
}

heddle_status_t* Device::loss() noexcept {
  if (!is_lost_.load(std::memory_order_acquire)) [[likely]]
    return nullptr;
  std::lock_guard<std::mutex> lock(lost_mutex_);
  return host->status_clone(host->self, lost_);
}

Buffer::Buffer(Device* its_device, uint64_t size_bytes, uint32_t its_memory, uint64_t alignment_bytes) noexcept
    : BufferRoot{its_device->api}, device(its_device), size(size_bytes), memory(its_memory), alignment(alignment_bytes) {}

Executable::Executable(Device* its_device) noexcept : ExecutableRoot{its_device->api}, device(its_device) {}

namespace {

heddle_status_t* check_ordinal(Driver* driver, const char* what, uint32_t ordinal) {
  const uint32_t count = driver->device_count();
  if (ordinal < count) return nullptr;
  return status(driver->host(), HEDDLE_STATUS_OUT_OF_RANGE, "%s: %s device %u failed: there are %u, numbered from 0", driver->who(), what,
                ordinal, count);
}

// ---- heddle.device/1

heddle_status_t* device_count(heddle_plugin_instance_t* handle, uint32_t* out) noexcept {
  *out = 0;
  Driver* driver = Driver::from(handle);
  return guarded(driver->host(), "counting devices", [&]() -> heddle_status_t* {
    *out = driver->device_count();
    return nullptr;
  });
}

heddle_status_t* device_describe(heddle_plugin_instance_t* handle, uint32_t ordinal, heddle_device_description_t* out) noexcept {
  Driver* driver = Driver::from(handle);
  return guarded(driver->host(), "describing a device", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_ordinal(driver, "describing", ordinal)) return bad;
    heddle_device_description_t description = {};
    if (heddle_status_t* failed = driver->describe(ordinal, &description)) return failed;
    description.ordinal = ordinal;
    write_struct(description, out);
    return nullptr;
  });
}

heddle_status_t* device_link(heddle_plugin_instance_t* handle, uint32_t a, uint32_t b, heddle_device_link_t* out) noexcept {
  Driver* driver = Driver::from(handle);
  return guarded(driver->host(), "describing a link", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_ordinal(driver, "describing a link of", std::max(a, b))) return bad;
    heddle_device_link_t link = {};
    link.kind = HEDDLE_LINK_SAME_MEMORY;
    link.peer_access = 1;
    write_struct(a == b ? link : driver->link(a, b), out);
    return nullptr;
  });
}

heddle_status_t* device_open(heddle_plugin_instance_t* handle, uint32_t ordinal, const heddle_device_open_params_t* in,
                             heddle_device_t** out) noexcept {
  *out = nullptr;
  Driver* driver = Driver::from(handle);
  const heddle_host_t* host = driver->host();
  return guarded(host, "opening a device", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_ordinal(driver, "opening", ordinal)) return bad;
    heddle_device_open_params_t params;
    uint64_t bad_byte;
    if (!read_struct(in, &params, &bad_byte)) return tail_status(host, "heddle_device_open_params_t", bad_byte);
    if (!params.api) {
      return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: opening device %u failed: params.api is NULL [HD-H-01]", driver->who(),
                    ordinal);
    }
    Device* device = nullptr;
    if (heddle_status_t* failed = driver->open(ordinal, params, &device)) return failed;
    driver->open_devices.fetch_add(1);
    *out = device->handle();
    return nullptr;
  });
}

heddle_status_t* device_close(heddle_device_t* handle) noexcept {
  if (!handle) return nullptr;
  Device* device = Device::from(handle);
  Driver* driver = device->driver;
  return guarded(driver->host(), "closing a device", [&]() -> heddle_status_t* {
    if (device->live.any()) {
      char living[160];
      device->live.describe(living, sizeof living);
      return status(driver->host(), HEDDLE_STATUS_FAILED_PRECONDITION,
                    "%s: closing device %u failed: %s still live; free them first [HD-L-01]", driver->who(), device->ordinal, living);
    }
    unmake(driver->host(), device);
    driver->open_devices.fetch_sub(1);
    return nullptr;
  });
}

heddle_status_t* queue_create(heddle_device_t* handle, const heddle_queue_params_t* in, heddle_queue_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "creating a queue", [&]() -> heddle_status_t* {
    heddle_queue_params_t params;
    if (heddle_status_t* bad = read_queue_params(device, in, &params)) return bad;
    if (heddle_status_t* lost = device->loss()) return lost;
    Queue* queue = nullptr;
    if (heddle_status_t* failed = device->make_queue(params, &queue)) return failed;
    device->live.queues.fetch_add(1);
    *out = queue->handle();
    return nullptr;
  });
}

heddle_status_t* queue_destroy(heddle_queue_t* handle) noexcept {
  if (!handle) return nullptr;
  Queue* queue = Queue::from(handle);
  Device* device = queue->device;
  return guarded(device->host, "destroying a queue", [&]() -> heddle_status_t* {
    unmake(device->host, queue);
    device->live.queues.fetch_sub(1);
    return nullptr;
  });
}

heddle_status_t* device_statistics(heddle_device_t* handle, heddle_device_statistics_t* out) noexcept {
  const Device* device = Device::from(handle);
  heddle_device_statistics_t values = {};
  values.submissions = device->submissions.load();
  values.dispatches = device->dispatches.load();
  values.copies = device->copies.load();
  values.bytes_allocated = device->bytes_allocated.load();
  values.bytes_reserved = device->bytes_reserved.load();
  values.interpreted = device->interpreted.load();
  values.interpreted_ns = device->interpreted_ns.load();
  values.kernel_ns = device->kernel_ns.load();
  values.staged_bytes = device->staged_bytes.load();
  write_struct(values, out);
  return nullptr;
}

// ---- heddle.buffer/1

heddle_status_t* check_allocation(Device* device, const heddle_buffer_params_t& params) {
  constexpr uint32_t kKnown = HEDDLE_MEMORY_DEVICE | HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED;
  constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;
  if ((params.memory & ~kKnown) || (params.alignment_bytes & (params.alignment_bytes - 1)) || params.alignment_bytes > kMaxAlignment) {
    return status(
        device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
        "%s: allocating %llu bytes of kinds %x aligned to %llu failed: kinds are bits of %x, an alignment a power of two of at most "
        "%llu",
        device->who, number(params.size_bytes), params.memory, number(params.alignment_bytes), kKnown, number(kMaxAlignment));
  }
  if (params.memory & ~device->limits.memory_kinds) {
    return status(device->host, HEDDLE_STATUS_FAILED_PRECONDITION, "%s: allocating %llu bytes of kinds %x failed: device %u has %x",
                  device->who, number(params.size_bytes), params.memory, device->ordinal, device->limits.memory_kinds);
  }
  const uint64_t used = device->bytes_allocated.load();
  const uint64_t free = device->limits.memory_bytes - std::min(device->limits.memory_bytes, used);
  if (params.size_bytes > device->limits.max_allocation_bytes || params.size_bytes > free) {
    return status(device->host, HEDDLE_STATUS_RESOURCE_EXHAUSTED,
                  "%s: allocating %llu bytes on device %u failed: one buffer has at most %llu, and %llu of %llu are free; allocate less or "
                  "free something [HD-M-03]",
                  device->who, number(params.size_bytes), device->ordinal, number(device->limits.max_allocation_bytes), number(free),
                  number(device->limits.memory_bytes));
  }
  return nullptr;
}

void book(Device* device, Buffer* buffer, heddle_buffer_t** out) {
  device->bytes_allocated.fetch_add(buffer->size);
  device->live.buffers.fetch_add(1);
  *out = buffer->handle();
}

heddle_status_t* buffer_allocate(heddle_device_t* handle, const heddle_buffer_params_t* in, heddle_buffer_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "allocating a buffer", [&]() -> heddle_status_t* {
    heddle_buffer_params_t params;
    uint64_t bad_byte;
    if (!read_struct(in, &params, &bad_byte)) return tail_status(device->host, "heddle_buffer_params_t", bad_byte);
    if (heddle_status_t* lost = device->loss()) return lost;
    if (heddle_status_t* bad = check_allocation(device, params)) return bad;
    params.alignment_bytes = std::max(params.alignment_bytes, device->limits.min_alignment_bytes);
    Buffer* buffer = nullptr;
    if (heddle_status_t* failed = device->allocate(params, &buffer)) return failed;
    book(device, buffer, out);
    return nullptr;
  });
}

void buffer_free(heddle_buffer_t* handle) noexcept {
  if (!handle) return;
  Buffer* buffer = Buffer::from(handle);
  Device* device = buffer->device;
  guarded_release(device->host, [&] {
    auto* release = buffer->release;
    void* context = buffer->release_context;
    device->bytes_allocated.fetch_sub(buffer->size);
    unmake(device->host, buffer);
    if (release) release(context);
    device->live.buffers.fetch_sub(1);
  });
}

heddle_status_t* check_host_range(Buffer* buffer, const char* what, uint64_t offset, uint64_t length) {
  Device* device = buffer->device;
  if (heddle_status_t* lost = device->loss()) return lost;
  if (!(buffer->memory & HEDDLE_MEMORY_HOST_VISIBLE)) {
    return status(device->host, HEDDLE_STATUS_FAILED_PRECONDITION,
                  "%s: %s %llu bytes failed: the buffer's memory is not visible to the host; copy it", device->who, what, number(length));
  }
  if (!buffer->holds(offset, length)) {
    return status(device->host, HEDDLE_STATUS_OUT_OF_RANGE, "%s: %s %llu bytes at %llu failed: the buffer has %llu bytes", device->who,
                  what, number(length), number(offset), number(buffer->size));
  }
  return nullptr;
}

heddle_status_t* buffer_map(heddle_buffer_t* handle, uint64_t offset, uint64_t length, uint32_t flags, void** out) noexcept {
  *out = nullptr;
  Buffer* buffer = Buffer::from(handle);
  Device* device = buffer->device;
  return guarded(device->host, "mapping a buffer", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_host_range(buffer, "mapping", offset, length)) return bad;
    if (heddle_status_t* bad = check_map_flags(device, length, flags)) return bad;
    *out = buffer->host_address() + offset;
    return nullptr;
  });
}

// A buffer stays mapped as long as it lives, so that unmapping one range does not affect another.
heddle_status_t* buffer_unmap(heddle_buffer_t* handle) noexcept {
  return guarded(Buffer::from(handle)->device->host, "unmapping a buffer", []() -> heddle_status_t* { return nullptr; });
}

heddle_status_t* buffer_flush(heddle_buffer_t* handle, uint64_t offset, uint64_t length) noexcept {
  Buffer* buffer = Buffer::from(handle);
  return guarded(buffer->device->host, "flushing a buffer", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_host_range(buffer, "flushing", offset, length)) return bad;
    return buffer->flush(offset, length);
  });
}

heddle_status_t* buffer_invalidate(heddle_buffer_t* handle, uint64_t offset, uint64_t length) noexcept {
  Buffer* buffer = Buffer::from(handle);
  return guarded(buffer->device->host, "invalidating a buffer", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_host_range(buffer, "invalidating", offset, length)) return bad;
    return buffer->invalidate(offset, length);
  });
}

heddle_status_t* buffer_import_host(heddle_device_t* handle, void* memory, uint64_t size, void (*release)(void*), void* context,
                                    heddle_buffer_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  heddle_status_t* failed = guarded(device->host, "importing host memory", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_import(device, memory, size)) return bad;
    if (heddle_status_t* lost = device->loss()) return lost;
    Buffer* buffer = nullptr;
    if (heddle_status_t* refused = device->import_host(memory, size, &buffer)) return refused;
    buffer->release = release;
    buffer->release_context = context;
    book(device, buffer, out);
    return nullptr;
  });
  if (failed && release) release(context);
  return failed;
}

heddle_status_t* buffer_properties(heddle_buffer_t* handle, heddle_buffer_properties_t* out) noexcept {
  const Buffer* buffer = Buffer::from(handle);
  write_struct(heddle_buffer_properties_t{0, buffer->memory, buffer->size, buffer->alignment, buffer->device_address()}, out);
  return nullptr;
}

// heddle.timeline/1 is implemented in host_timeline.h, except for the calls that a lost device refuses.

heddle_status_t* timeline_create(heddle_device_t* handle, uint64_t initial_value, heddle_timeline_t** out) noexcept {
  *out = nullptr;
  if (heddle_status_t* lost = Device::from(handle)->loss()) return lost;
  return host_timeline_interface()->create(handle, initial_value, out);
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

const heddle_buffer_interface_t* buffer_interface() noexcept {
  static const heddle_buffer_interface_t table = {sizeof(heddle_buffer_interface_t),
                                                  0,
                                                  buffer_allocate,
                                                  buffer_free,
                                                  buffer_map,
                                                  buffer_unmap,
                                                  buffer_flush,
                                                  buffer_invalidate,
                                                  buffer_import_host,
                                                  buffer_properties};
  return &table;
}

const heddle_timeline_interface_t* timeline_interface() noexcept {
  static const heddle_timeline_interface_t table = [] {
    heddle_timeline_interface_t made = *host_timeline_interface();
    made.create = timeline_create;
    return made;
  }();
  return &table;
}

}  // namespace heddle::sdk
