// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.native/1: the application's streams as queues, its device memory as buffers, and access to our handles for the application.
#include "heddle/sdk/stream/memory.h"
#include "heddle/sdk/stream/queue.h"

namespace heddle::sdk::stream {
namespace {

heddle_status_t* native_context(heddle_device_t* device, uint64_t* out) noexcept {
  *out = Device::from(device)->backend.native_context();
  return nullptr;
}

heddle_status_t* native_stream(heddle_queue_t* queue, uint64_t* out) noexcept {
  *out = Queue::from(queue)->device()->backend.native_stream(Queue::from(queue)->stream());
  return nullptr;
}

heddle_status_t* queue_import(heddle_device_t* handle, uint64_t word, heddle_queue_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "importing a stream", [&]() -> heddle_status_t* {
    ContextScope scope(device);
    if (heddle_status_t* lost = device->loss()) return lost;
    const auto stream = reinterpret_cast<Stream>(word);
    if (heddle_status_t* bad = check_not_captured(device, stream)) return bad;
    Context context = nullptr;
    const Result asked = device->backend.context_of(stream, &context);
    if (asked != kSuccess) return device->failed(asked, "asking for the context of the application's stream");
    if (context != device->backend.context()) {
      return status(device, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "importing stream %llx to device %u ('%s') failed: it belongs to another context; %s", number(word), device->ordinal,
                    device->facts().name.c_str(), device->instance->vendor.streams);
    }
    auto* queue = sdk::make<Queue>(device->host, device);
    if (heddle_status_t* bad = queue->start_over(stream)) {
      sdk::unmake(device->host, queue);
      return bad;
    }
    device->live.queues.fetch_add(1);
    *out = queue->handle();
    return nullptr;
  });
}

// NULL, or why the byte is not in memory of the device.
heddle_status_t* check_byte(Device* device, Address at, uint64_t address, uint64_t size) {
  Owner owner = Owner::kUnknown;
  int ordinal = -1;
  const Result asked = device->backend.owner_of(at, &owner, &ordinal);
  if (asked != kSuccess) return device->failed(asked, "querying the owner of the memory");
  if (owner == Owner::kDevice && ordinal == device->backend.own_ordinal()) return nullptr;
  const std::string vendor = device->instance->vendor.name;
  const std::string why = owner == Owner::kUnknown ? "is not memory that " + vendor + " knows"
                          : owner == Owner::kHost  ? "is host memory"
                                                   : "is memory of " + vendor + " device " + std::to_string(ordinal);
  return status(device, HEDDLE_STATUS_INVALID_ARGUMENT,
                "importing %llu bytes at %llx to device %u ('%s') failed: byte %llu of them %s; use memory of that device", number(size),
                number(address), device->ordinal, device->facts().name.c_str(), number(at - address), why.c_str());
}

heddle_status_t* import_memory(Device* device, uint64_t address, uint64_t size, heddle_buffer_t** out) {
  ContextScope scope(device);
  if (heddle_status_t* lost = device->loss()) return lost;
  if (size > UINT64_MAX - address) {
    return status(device, HEDDLE_STATUS_INVALID_ARGUMENT, "importing %llu bytes at %llx failed: they end after the address space",
                  number(size), number(address));
  }
  if (size) {  // the range may consist of several mappings, which vendors report one at a time
    if (heddle_status_t* bad = check_byte(device, address, address, size)) return bad;
    if (heddle_status_t* bad = check_byte(device, address + size - 1, address, size)) return bad;
  }
  auto* buffer = sdk::make<Buffer>(device->host);
  buffer->api = device->api;
  buffer->device = device;
  buffer->address = size ? address : 0;
  buffer->size = size;
  buffer->memory = HEDDLE_MEMORY_DEVICE;
  buffer->alignment = size ? address & (~address + 1) : kAlignment;
  device->counters.bytes_allocated.fetch_add(size);
  device->live.buffers.fetch_add(1);
  *out = buffer->handle();
  return nullptr;
}

heddle_status_t* buffer_import(heddle_device_t* handle, uint64_t address, uint64_t size, void (*release)(void*), void* context,
                               heddle_buffer_t** out) noexcept {
  Device* device = Device::from(handle);
  return import_buffer<Buffer>(device->host, "importing device memory", release, context, out,
                               [&] { return import_memory(device, address, size, out); });
}

}  // namespace

const heddle_native_interface_t* native_interface() noexcept {
  static const heddle_native_interface_t table = {
      sizeof(heddle_native_interface_t), 0, native_context, native_stream, queue_import, buffer_import};
  return &table;
}

}  // namespace heddle::sdk::stream
