// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.buffer/1: device memory, where large blocks are separate and others come from the vendor's pool; pinned host memory, and
// registered memory of the caller.
#include "heddle/sdk/stream/memory.h"

#include <algorithm>

namespace heddle::sdk::stream {
namespace {

constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;
// Blocks of at least this size do not use the pool. CUDA's allocates memory in pieces: 10 GB take it 8 ms, and 13 ms the first time, but 3 ms as
// separate blocks. Freeing a separate block waits for the device; the allocators above keep such blocks.
constexpr uint64_t kLargeBlock = uint64_t{64} << 20;
constexpr uint64_t kLargeGranularity = uint64_t{2} << 20;
constexpr uint32_t kAllKinds = HEDDLE_MEMORY_DEVICE | HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED;
constexpr uint32_t kHostKinds = HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED;

uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

heddle_status_t* exhausted(Device* device, Result result, const char* kind, uint64_t size) {
  uint64_t free_bytes = 0, total_bytes = 0;
  device->backend.memory_info(&free_bytes, &total_bytes);
  return result_status(device, HEDDLE_STATUS_RESOURCE_EXHAUSTED, result,
                       "allocating %llu bytes of %s memory on device %u ('%s') failed: %llu of its %llu bytes are free, this process "
                       "holds %llu; free some, allocate less, or check which other programs use the device [HD-M-03]",
                       number(size), kind, device->ordinal, device->facts().name.c_str(), number(free_bytes), number(total_bytes),
                       number(device->counters.bytes_allocated.load()));
}

heddle_status_t* check_params(Device* device, const heddle_buffer_params_t& params) {
  if (params.memory & ~kAllKinds) {
    return status(device, HEDDLE_STATUS_INVALID_ARGUMENT, "allocating %llu bytes failed: memory kinds %x are unknown",
                  number(params.size_bytes), params.memory & ~kAllKinds);
  }
  if ((params.memory & HEDDLE_MEMORY_DEVICE) && (params.memory & kHostKinds)) {
    return status(device, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "allocating %llu bytes failed: memory of this device is either on the device or host visible and pinned; ask for "
                  "one",
                  number(params.size_bytes));
  }
  if ((params.alignment_bytes & (params.alignment_bytes - 1)) != 0 || params.alignment_bytes > kMaxAlignment) {
    return status(device, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "allocating %llu bytes aligned to %llu failed: an alignment is a power of two of at most %llu", number(params.size_bytes),
                  number(params.alignment_bytes), number(kMaxAlignment));
  }
  if (params.size_bytes > device->facts().memory_bytes && !(params.memory & kHostKinds)) {
    return exhausted(device, device->backend.capabilities().out_of_memory, "device", params.size_bytes);
  }
  if (params.size_bytes > UINT64_MAX / 4) {
    return status(device, HEDDLE_STATUS_RESOURCE_EXHAUSTED, "allocating %llu bytes failed: no machine has that much",
                  number(params.size_bytes));
  }
  return nullptr;
}

Result obtain(Backend& backend, Buffer* buffer) {
  const uint64_t padded_size = buffer->size + (buffer->alignment > kAlignment ? buffer->alignment - kAlignment : 0);
  if (buffer->memory & kHostKinds) {
    if (Result bad = backend.allocate_host(padded_size, true, &buffer->pinned)) return bad;
    const auto start = reinterpret_cast<uint64_t>(buffer->pinned), first = round_up(start, buffer->alignment);
    buffer->host = reinterpret_cast<char*>(first);
    if (Result bad = backend.address_of(buffer->pinned, &buffer->address)) return bad;
    buffer->address += first - start;
    buffer->overhead_bytes = round_up(padded_size, 4096) - buffer->size;
    return kSuccess;
  }
  if (padded_size >= kLargeBlock) {
    if (Result bad = backend.allocate_large(padded_size, &buffer->large)) return bad;
    buffer->address = round_up(buffer->large, buffer->alignment);
    buffer->overhead_bytes = round_up(padded_size, kLargeGranularity) - buffer->size;
    return kSuccess;
  }
  if (Result bad = backend.allocate_pooled(padded_size, &buffer->block)) return bad;
  buffer->address = round_up(buffer->block, buffer->alignment);
  return kSuccess;
}

}  // namespace

Result Backend::create_word(Word* out) noexcept {
  void* memory = nullptr;
  if (Result bad = allocate_host(64, true, &memory)) return bad;
  out->value = new (memory) std::atomic<uint64_t>(0);
  return address_of(memory, &out->address);
}

void Backend::destroy_word(const Word& word) noexcept {
  if (word.value) free_host(word.value);
}

Result allocate(Device* device, Buffer* buffer) {
  const Result result = obtain(device->backend, buffer);
  if (result == kSuccess) return result;
  give_back(device, buffer);  // a call may fail after it has made the block
  buffer->address = buffer->block = buffer->large = 0;
  buffer->pinned = buffer->host = nullptr;
  return result;
}

void give_back(Device* device, Buffer* buffer) noexcept {
  Backend& backend = device->backend;
  ContextScope scope(device);
  if (buffer->large) backend.free_large(buffer->large);
  if (buffer->block) backend.free_pooled(buffer->block);
  if (buffer->pinned) backend.free_host(buffer->pinned);
  if (buffer->registered) backend.unregister_host(buffer->registered);
}

namespace {

heddle_status_t* buffer_allocate(heddle_device_t* handle, const heddle_buffer_params_t* in, heddle_buffer_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "allocating a buffer", [&]() -> heddle_status_t* {
    heddle_buffer_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(device->host, "heddle_buffer_params_t", bad_byte);
    ContextScope scope(device);
    if (heddle_status_t* lost = device->loss()) return lost;
    if (heddle_status_t* bad = check_params(device, params)) return bad;
    auto* buffer = sdk::make<Buffer>(device->host);
    buffer->api = device->api;
    buffer->device = device;
    buffer->size = params.size_bytes;
    buffer->alignment = std::max(params.alignment_bytes, kAlignment);
    buffer->memory = (params.memory & kHostKinds) ? kHostKinds : HEDDLE_MEMORY_DEVICE;
    Result result = buffer->size ? allocate(device, buffer) : kSuccess;
    const auto is_exhausted = [&] { return device->backend.meaning(result) == Meaning::kOutOfMemory; };
    if (is_exhausted() && buffer->memory == HEDDLE_MEMORY_DEVICE) {
      device->backend.trim_pool();  // freed memory may still be in the pool in pieces
      result = allocate(device, buffer);
    }
    if (result != kSuccess) {
      heddle_status_t* failure = is_exhausted()
                                     ? exhausted(device, result, buffer->memory == HEDDLE_MEMORY_DEVICE ? "device" : "pinned", buffer->size)
                                     : device->failed(result, "allocating memory");
      sdk::unmake(device->host, buffer);
      return failure;
    }
    device->counters.bytes_allocated.fetch_add(buffer->size);
    if (buffer->block) device->counters.pool_bytes.fetch_add(buffer->size);
    device->counters.bytes_overhead.fetch_add(buffer->overhead_bytes);
    device->live.buffers.fetch_add(1);
    *out = buffer->handle();
    return nullptr;
  });
}

void buffer_free(heddle_buffer_t* handle) noexcept {
  if (!handle) return;
  Buffer* buffer = Buffer::from(handle);
  Device* device = buffer->device;
  sdk::guarded_release(device->host, [&] {
    give_back(device, buffer);
    device->counters.bytes_allocated.fetch_sub(buffer->size);
    if (buffer->block) device->counters.pool_bytes.fetch_sub(buffer->size);
    device->counters.bytes_overhead.fetch_sub(buffer->overhead_bytes);
    auto* release = buffer->release;
    void* context = buffer->release_context;
    sdk::unmake(device->host, buffer);
    if (release) release(context);
    device->live.buffers.fetch_sub(1);
  });
}

heddle_status_t* check_range(Buffer* buffer, const char* what, uint64_t offset, uint64_t length) {
  if (heddle_status_t* lost = buffer->device->loss()) return lost;
  if (!buffer->holds(offset, length)) {
    return status(buffer->device, HEDDLE_STATUS_OUT_OF_RANGE, "%s %llu bytes at %llu failed: the buffer has %llu bytes", what,
                  number(length), number(offset), number(buffer->size));
  }
  if (buffer->memory == HEDDLE_MEMORY_DEVICE) {
    return status(buffer->device, HEDDLE_STATUS_FAILED_PRECONDITION,
                  "%s %llu bytes failed: device memory is not host visible; copy it, or allocate host visible memory", what,
                  number(length));
  }
  return nullptr;
}

heddle_status_t* buffer_map(heddle_buffer_t* handle, uint64_t offset, uint64_t length, uint32_t flags, void** out) noexcept {
  *out = nullptr;
  Buffer* buffer = Buffer::from(handle);
  return guarded(buffer->device->host, "mapping a buffer", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_range(buffer, "mapping", offset, length)) return bad;
    if (heddle_status_t* bad = check_map_flags(buffer->device, length, flags)) return bad;
    *out = buffer->host + offset;
    return nullptr;
  });
}

heddle_status_t* buffer_unmap(heddle_buffer_t*) noexcept {
  return nullptr;
}

// Pinned memory is coherent.
heddle_status_t* buffer_flush(heddle_buffer_t* handle, uint64_t offset, uint64_t length) noexcept {
  Buffer* buffer = Buffer::from(handle);
  return guarded(buffer->device->host, "flushing a buffer", [&] { return check_range(buffer, "flushing", offset, length); });
}

heddle_status_t* buffer_invalidate(heddle_buffer_t* handle, uint64_t offset, uint64_t length) noexcept {
  Buffer* buffer = Buffer::from(handle);
  return guarded(buffer->device->host, "invalidating a buffer", [&] { return check_range(buffer, "invalidating", offset, length); });
}

heddle_status_t* import_memory(Device* device, void* memory, uint64_t size, heddle_buffer_t** out) {
  if (heddle_status_t* bad = check_import(device, memory, size)) return bad;
  ContextScope scope(device);
  if (heddle_status_t* lost = device->loss()) return lost;
  auto* buffer = sdk::make<Buffer>(device->host);
  buffer->api = device->api;
  buffer->device = device;
  buffer->size = size;
  buffer->host = static_cast<char*>(memory);
  buffer->memory = kHostKinds;
  const auto address = reinterpret_cast<uint64_t>(memory);
  buffer->alignment = address ? address & (~address + 1) : kAlignment;
  if (size) {
    Result result = device->backend.register_host(memory, size, true);
    if (result == kSuccess) {
      buffer->registered = memory;
    } else if (device->backend.meaning(result) == Meaning::kAlreadyRegistered) {
      result = kSuccess;  // already pinned by the caller, or imported twice
    }
    if (result == kSuccess) result = device->backend.address_of(memory, &buffer->address);
    if (result != kSuccess) {
      heddle_status_t* failure = device->failed(result, "pinning the caller's memory");
      give_back(device, buffer);
      sdk::unmake(device->host, buffer);
      return failure;
    }
  }
  device->counters.bytes_allocated.fetch_add(size);
  device->live.buffers.fetch_add(1);
  *out = buffer->handle();
  return nullptr;
}

heddle_status_t* buffer_import_host(heddle_device_t* handle, void* memory, uint64_t size, void (*release)(void*), void* context,
                                    heddle_buffer_t** out) noexcept {
  Device* device = Device::from(handle);
  return import_buffer<Buffer>(device->host, "importing host memory", release, context, out,
                               [&] { return import_memory(device, memory, size, out); });
}

heddle_status_t* buffer_properties(heddle_buffer_t* handle, heddle_buffer_properties_t* out) noexcept {
  const Buffer* buffer = Buffer::from(handle);
  heddle_buffer_properties_t properties = {};
  properties.memory = buffer->memory;
  properties.size_bytes = buffer->size;
  properties.alignment_bytes = buffer->alignment;
  properties.device_address = buffer->address;
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

}  // namespace heddle::sdk::stream
