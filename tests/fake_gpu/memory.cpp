// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fake's buffers. Device memory is mapped at an address that is kept secret; the address that is shown is reserved and faults.
#include <sys/mman.h>

#include <algorithm>

#include "fake.h"

namespace heddle::fake {
namespace {

using sdk::guarded;
using sdk::status;

constexpr uint32_t kAllKinds = HEDDLE_MEMORY_DEVICE | HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED;

uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

// An aligned mapping, remembered in slot `slot` of the buffer; NULL if the system has none.
char* map(Buffer* buffer, int slot, uint64_t size, uint64_t alignment, int protection) {
  const uint64_t bytes = round_up(std::max<uint64_t>(size, 1), 4096) + alignment;
  void* memory = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  buffer->mapped[slot] = memory;
  buffer->mapped_bytes[slot] = bytes;
  return reinterpret_cast<char*>(round_up(reinterpret_cast<uint64_t>(memory), alignment));
}

void unmap_all(Buffer* buffer) {
  for (int slot : {0, 1}) {
    if (buffer->mapped[slot]) munmap(buffer->mapped[slot], buffer->mapped_bytes[slot]);
  }
}

heddle_status_t* buffer_allocate(heddle_device_t* handle, const heddle_buffer_params_t* in, heddle_buffer_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "allocating a buffer", [&]() -> heddle_status_t* {
    heddle_buffer_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(device->host, "heddle_buffer_params_t", bad_byte);
    if (heddle_status_t* lost = device->loss()) return lost;
    const uint64_t alignment = std::max(params.alignment_bytes, kBindingAlignment);
    if ((params.memory & ~kAllKinds) || (params.alignment_bytes & (params.alignment_bytes - 1)) || alignment > 1 << 30) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: allocating %llu bytes of kind %x aligned to %llu failed",
                    number(params.size_bytes), params.memory, number(params.alignment_bytes));
    }
    const bool host_memory = (params.memory & (HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED)) != 0;
    if (host_memory && (params.memory & HEDDLE_MEMORY_DEVICE)) {
      return status(device->host, HEDDLE_STATUS_FAILED_PRECONDITION,
                    "fake: allocating %llu bytes failed: device memory is not visible to the host; ask for one or the other",
                    number(params.size_bytes));
    }
    const uint64_t used = device->bytes_allocated.load();
    if (params.size_bytes > device->instance->memory_bytes || used > device->instance->memory_bytes - params.size_bytes) {
      return status(device->host, HEDDLE_STATUS_RESOURCE_EXHAUSTED,
                    "fake: allocating %llu bytes on device %u failed: %llu of %llu are in use; allocate less [HD-M-03]",
                    number(params.size_bytes), device->ordinal, number(used), number(device->instance->memory_bytes));
    }
    auto* buffer = sdk::make<Buffer>(device->host);
    buffer->api = device->api;
    buffer->device = device;
    buffer->size = params.size_bytes;
    buffer->alignment = alignment;
    buffer->memory = host_memory ? HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED : HEDDLE_MEMORY_DEVICE;
    buffer->secret = map(buffer, 0, params.size_bytes, alignment, PROT_READ | PROT_WRITE);
    buffer->address = host_memory ? buffer->secret : map(buffer, 1, params.size_bytes, alignment, PROT_NONE);
    if (!buffer->secret || !buffer->address) {
      unmap_all(buffer);
      sdk::unmake(device->host, buffer);
      return sdk::exhausted_status(device->host, "fake: allocating a buffer");
    }
    buffer->reserved_bytes = buffer->mapped_bytes[0] - buffer->size;
    device->bytes_allocated += buffer->size;
    device->bytes_reserved += buffer->reserved_bytes;
    device->live.buffers += 1;
    *out = reinterpret_cast<heddle_buffer_t*>(buffer);
    return nullptr;
  });
}

void buffer_free(heddle_buffer_t* handle) noexcept {
  if (!handle) return;
  Buffer* buffer = Buffer::from(handle);
  Device* device = buffer->device;
  sdk::guarded_release(device->host, [&] {
    unmap_all(buffer);
    device->bytes_allocated -= buffer->size;
    device->bytes_reserved -= buffer->reserved_bytes;
    auto* release = buffer->release;
    void* context = buffer->release_context;
    sdk::unmake(device->host, buffer);
    if (release) release(context);
    device->live.buffers -= 1;
  });
}

heddle_status_t* check_host_range(Buffer* buffer, const char* what, uint64_t offset, uint64_t length) {
  if (!(buffer->memory & HEDDLE_MEMORY_HOST_VISIBLE)) {
    return status(buffer->device->host, HEDDLE_STATUS_FAILED_PRECONDITION,
                  "fake: %s %llu bytes failed: device memory is not visible to the host; copy it", what, number(length));
  }
  if (!buffer->holds(offset, length)) {
    return status(buffer->device->host, HEDDLE_STATUS_OUT_OF_RANGE, "fake: %s %llu bytes at %llu failed: the buffer has %llu bytes", what,
                  number(length), number(offset), number(buffer->size));
  }
  return nullptr;
}

heddle_status_t* buffer_map(heddle_buffer_t* handle, uint64_t offset, uint64_t length, uint32_t flags, void** out) noexcept {
  *out = nullptr;
  Buffer* buffer = Buffer::from(handle);
  return guarded(buffer->device->host, "mapping a buffer", [&]() -> heddle_status_t* {
    if (heddle_status_t* lost = buffer->device->loss()) return lost;
    if (heddle_status_t* bad = check_host_range(buffer, "mapping", offset, length)) return bad;
    if (!(flags & (HEDDLE_MAP_READ | HEDDLE_MAP_WRITE)) || flags > 7) {
      return status(buffer->device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: mapping with flags %x failed", flags);
    }
    *out = buffer->secret + offset;
    return nullptr;
  });
}

heddle_status_t* buffer_unmap(heddle_buffer_t*) noexcept {
  return nullptr;
}
heddle_status_t* buffer_flush(heddle_buffer_t* handle, uint64_t offset, uint64_t length) noexcept {
  return check_host_range(Buffer::from(handle), "flushing", offset, length);
}
heddle_status_t* buffer_invalidate(heddle_buffer_t* handle, uint64_t offset, uint64_t length) noexcept {
  return check_host_range(Buffer::from(handle), "invalidating", offset, length);
}

heddle_status_t* buffer_import_host(heddle_device_t* handle, void* memory, uint64_t size, void (*release)(void*), void* context,
                                    heddle_buffer_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  heddle_status_t* failed = guarded(device->host, "importing host memory", [&]() -> heddle_status_t* {
    if (!memory && size)
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: importing %llu bytes failed: null", number(size));
    auto* buffer = sdk::make<Buffer>(device->host);
    buffer->api = device->api;
    buffer->device = device;
    buffer->size = size;
    buffer->alignment = 1;
    buffer->memory = HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED;
    buffer->secret = static_cast<char*>(memory);
    buffer->address = memory;
    buffer->release = release;
    buffer->release_context = context;
    device->bytes_allocated += size;
    device->live.buffers += 1;
    *out = reinterpret_cast<heddle_buffer_t*>(buffer);
    return nullptr;
  });
  if (failed && release) release(context);
  return failed;
}

heddle_status_t* buffer_properties(heddle_buffer_t* handle, heddle_buffer_properties_t* out) noexcept {
  const Buffer* buffer = Buffer::from(handle);
  heddle_buffer_properties_t properties = {0, buffer->memory, buffer->size, buffer->alignment, reinterpret_cast<uint64_t>(buffer->address)};
  sdk::write_struct(properties, out);
  return nullptr;
}

}  // namespace

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

}  // namespace heddle::fake
